package job

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/dataset"
	"unseen/dataset/exchange"
	"unseen/encode"
	"unseen/graph"
	"unseen/sample"
)

// shop is tables of people and items in a folder, whole and, of the clicks, in parts.
type shop struct {
	folder, clicks, parts, items, users, encoder string
	flags                                        map[string]string // of the import
}

// write writes a file of the shop.
func (s *shop) write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(s.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// newShop makes a shop: some people and items have no record, some have no click, pairs come again, some rows have no
// time. The header names the columns of the clicks, and value makes the last of them.
func newShop(t testing.TB, people, items, rows int, header string, value func(*rand.Rand) string) *shop {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(rows)))
	s := &shop{folder: t.TempDir(), flags: map[string]string{}}
	var clicks []string
	for range rows {
		when := fmt.Sprint(1_600_000_000 + rng.IntN(1000)*86_400)
		if rng.IntN(20) == 0 {
			when = ""
		}
		line := fmt.Sprintf("p%d,i%d,%s", rng.IntN(people), int(float64(items)*math.Pow(rng.Float64(), 1.5)), when)
		if value != nil {
			line += "," + value(rng)
		}
		clicks = append(clicks, line)
	}
	s.clicks = s.write(t, "clicks.csv", header+"\n"+strings.Join(clicks, "\n")+"\n")
	for part := range 3 {
		from, to := part*len(clicks)/3, (part+1)*len(clicks)/3
		s.write(t, fmt.Sprintf("clicks/part-%d.csv", part), header+"\n"+strings.Join(clicks[from:to], "\n")+"\n")
	}
	s.write(t, "clicks/_SUCCESS", "")
	s.parts = filepath.Join(s.folder, "clicks")
	var goods, users []string
	for j := range items + 4 {
		if j%5 != 3 {
			goods = append(goods, fmt.Sprintf("i%d,%s,thing %d of kind %d and %d make%d", (j*13)%(items+4),
				[]string{"tools", "toys", "none", "books"}[j%4], j, j%3, rng.IntN(9), j%20))
		}
	}
	for i := range people / 2 {
		users = append(users, fmt.Sprintf("p%d,%s,likes kind %d", 2*i, []string{"north", "south"}[i%2], i%3))
	}
	s.items = s.write(t, "items.csv", "item_id,category,title\n"+strings.Join(goods, "\n")+"\n")
	s.users = s.write(t, "users.csv", "user_id,segment,about\n"+strings.Join(users, "\n")+"\n")
	var docs encode.TextList
	for _, line := range append(goods, users...) {
		docs = append(docs, encode.Text{Title: line[strings.LastIndexByte(line, ',')+1:]})
	}
	encoder, _, err := encode.Fit(t.Context(), docs, encode.Settings{Dim: 6})
	if err != nil {
		t.Fatal(err)
	}
	file := must(os.Create(filepath.Join(s.folder, "encoder.safetensors")))(t)
	if err := encoder.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s.encoder = file.Name()
	return s
}

func (s *shop) settings(blocks int) InteractionSettings {
	return InteractionSettings{Clicks: []string{s.parts}, Items: []string{s.items}, Users: []string{s.users},
		Flags: s.flags, Encoder: s.encoder, Buckets: blocks, Nodes: 37, Pairs: 150, Plan: sample.Plan{Seed: 5}}
}

// cut imports the shop on one machine and cuts the dataset.
func (s *shop) cut(t testing.TB, o InteractionSettings) *shards.Manifest {
	t.Helper()
	ctx := context.Background()
	folder := filepath.Join(t.TempDir(), "dataset")
	flags := map[string]string{"clicks": s.clicks, "items": s.items, "users": s.users}
	for name, value := range s.flags {
		flags[name] = value
	}
	must(exchange.Import(ctx, "interactions", folder, exchange.Options{Flags: flags}))(t)
	d := must(dataset.Open(ctx, folder, dataset.OpenOptions{}))(t)
	encoder := must(openEncoder(ctx, s.encoder))(t)
	vectors := must(graph.NewVectors(d.Graph().Len(), encoder.Dim()))(t)
	for i := range int32(d.Graph().Len()) {
		row, _ := encoder.Encode(encode.Text{Title: d.Graph().Title(i), Body: must(d.Text(i))(t)})
		if err := vectors.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	must(d.WriteVectors(ctx, vectors, nil, dataset.WriteOptions{}))(t)
	d.Close()
	d, prepared, err := shards.Dataset(ctx, folder, func(g *graph.Graph) sample.Plan {
		plan, _ := sample.PlanFor(g)
		if o.Plan.Split != "" {
			plan = sample.Plan{Split: o.Plan.Split, Later: plan.Later, Dates: o.Plan.Dates}
		}
		plan.Seed, plan.PerLink = o.Plan.Seed, max(o.Plan.PerLink, graph.DefaultPerLink)
		return plan
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	return must(shards.Cut(ctx, shards.Location{Root: filepath.Join(t.TempDir(), "shards")}, prepared,
		shards.CutSettings{Nodes: o.Nodes, Pairs: o.Pairs}))(t)
}

// TestInteractionsAreThoseOfOneMachine holds the shards of tables against those of a dataset that one machine imported:
// the same files, byte for byte, whatever the number of buckets and of parts of a table.
func TestInteractionsAreThoseOfOneMachine(t *testing.T) {
	stars := func(rng *rand.Rand) string { return fmt.Sprint(1 + rng.IntN(5)) }
	timed := newShop(t, 160, 90, 1300, "user_id,item_id,timestamp", nil)
	rated := newShop(t, 60, 40, 900, "user_id,item_id,timestamp,rating", stars)
	counted := newShop(t, 90, 70, 1200, "user_id,item_id,timestamp,plays",
		func(rng *rand.Rand) string { return []string{"", "1", "2", ".5"}[rng.IntN(4)] })
	counted.flags["min-count"] = "2"
	dense := newShop(t, 40, 30, 210, "user_id,item_id,timestamp", nil)
	// ids that people and items share, and no times
	same := newShop(t, 80, 80, 500, "user_id,item_id,when", nil)
	for _, path := range append(must(filepath.Glob(filepath.Join(same.folder, "*", "*.csv")))(t), same.clicks,
		same.items, same.users) {
		text := strings.NewReplacer("\np", "\n", "\ni", "\n", ",i", ",").Replace(string(must(os.ReadFile(path))(t)))
		if strings.Contains(path, "clicks") {
			lines := strings.Split(strings.Replace(text, ",tem_id", ",item_id", 1), "\n")
			for k, line := range lines[1:] {
				if at := strings.LastIndexByte(line, ','); at >= 0 {
					lines[1+k] = line[:at] + ",x"
				}
			}
			text = strings.Join(lines, "\n")
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dates := &[2]sample.Day{}
	for k, days := range []int64{600, 800} {
		dates[k] = sample.Day{Time: time.Unix(1_600_000_000+days*86_400, 0).UTC()}
	}
	for name, c := range map[string]struct {
		*shop
		plan sample.Plan
	}{
		"timed":  {timed, sample.Plan{}},
		"dates":  {timed, sample.Plan{Split: sample.LinksByDate, Dates: dates, PerLink: 6}},
		"whole":  {timed, sample.Plan{Split: sample.Whole}},
		"rated":  {rated, sample.Plan{}},
		"random": {counted, sample.Plan{Split: sample.RandomLinks}},
		"dense":  {dense, sample.Plan{Split: sample.LastLinks}},
		"same":   {same, sample.Plan{}},
	} {
		t.Run(name, func(t *testing.T) {
			settings := c.settings(1)
			c.plan.Seed = settings.Plan.Seed
			settings.Plan = c.plan
			want := c.cut(t, settings)
			for runner, where := range runners() {
				for _, buckets := range []int{1, 5} {
					if settings.Buckets = buckets; buckets == 1 && name != "timed" {
						continue
					}
					to := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
					must(ImportInteractions(t.Context(), where, to, settings))(t)
					got := must(to.Manifest(t.Context()))(t)
					sameShards(t, fmt.Sprint(runner, " ", buckets), got, want)
					for _, entry := range must(os.ReadDir(to.Root))(t) {
						if strings.HasSuffix(entry.Name(), ".gob") {
							t.Errorf("%s is left", entry.Name())
						}
					}
				}
			}
		})
	}
}

func sameShards(t *testing.T, name string, got, want *shards.Manifest) {
	t.Helper()
	if !slices.Equal(got.Fields, want.Fields) || got.Nodes != want.Nodes || got.Links != want.Links ||
		!slices.Equal(got.Columns, want.Columns) || !slices.Equal(got.Roles, want.Roles) {
		t.Fatalf("%s: %d nodes, %d links, fields %q, columns %q, roles %v; one machine %d, %d, %q, %q, %v", name,
			got.Nodes, got.Links, got.Fields, got.Columns, got.Roles, want.Nodes, want.Links, want.Fields,
			want.Columns, want.Roles)
	}
	if !slices.Equal(got.Blocks, want.Blocks) {
		t.Errorf("%s: blocks\n%+v, one machine\n%+v", name, got.Blocks, want.Blocks)
	}
	for list, both := range map[string][2][]shards.Shard{"links": {got.LinkShards, want.LinkShards},
		"train": {got.Train, want.Train}, "test": {got.Test, want.Test}} {
		if !slices.Equal(both[0], both[1]) {
			t.Errorf("%s: %s\n%+v, one machine\n%+v", name, list, both[0], both[1])
		}
	}
	a, b := got.Extent, want.Extent
	if a.Pairs != b.Pairs || math.Abs(a.MeanWeight/b.MeanWeight-1) > 1e-12 ||
		math.Abs(a.MeanSquare/b.MeanSquare-1) > 1e-12 {
		t.Errorf("%s: extent %+v, one machine %+v", name, a, b)
	}
	if got.Data.Plan.Split != want.Data.Plan.Split || got.Data.Plan.Log != want.Data.Plan.Log ||
		got.Data.Plan.Later != want.Data.Plan.Later {
		t.Errorf("%s: plan %+v, one machine %+v", name, got.Data.Plan, want.Data.Plan)
	}
}

// TestTablesThatAreRefused names the file and the line of what is wrong in a table, or what to do, and leaves nothing.
func TestTablesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *shop, o *InteractionSettings)
		words  string
	}{
		"a row without an item": {func(s *shop, _ *InteractionSettings) {
			s.write(t, "clicks/part-1.csv", "user_id,item_id,timestamp\np1,i1,5\np2,,7\n")
		}, "part-1.csv, line 3: bad record: the item is empty"},
		"a time that is none": {func(s *shop, _ *InteractionSettings) {
			s.write(t, "clicks/part-2.csv", "user_id,item_id,timestamp\np1,i1,soon\n")
		}, "part-2.csv, line 2"},
		"a table without rows": {func(s *shop, _ *InteractionSettings) {
			s.write(t, "clicks/part-2.csv", "user_id,item_id,timestamp\n")
		}, "part-2.csv: bad record: no clicks"},
		"other columns in one part": {func(s *shop, _ *InteractionSettings) {
			s.write(t, "clicks/part-2.csv", "user_id,item_id\np1,i1\n")
		}, "part-2.csv have different columns"},
		"two records of an item": {func(s *shop, _ *InteractionSettings) {
			s.write(t, "items.csv", "item_id,title\ni1,one\ni2,two\ni1,again\n")
		}, `items.csv, line 4: duplicate id: "i1"`},
		"an item that is a person with the prefix": {func(s *shop, o *InteractionSettings) {
			o.Clicks = []string{s.write(t, "few.csv", "user_id,item_id\na,b\nb,a\nc,user:a\n")}
		}, `"user:a" is a person's id with the prefix`},
		"ratings that say nothing": {func(s *shop, o *InteractionSettings) {
			o.Clicks = []string{s.write(t, "few.csv", "user_id,item_id,rating\na,x,70\nb,y,12\n")}
		}, "set threshold"},
		"dates of items": {func(s *shop, _ *InteractionSettings) {
			s.write(t, "items.csv", "item_id,title,year\ni1,one,1999\n")
		}, "last-links"},
		"no links": {func(s *shop, o *InteractionSettings) {
			o.Flags = map[string]string{"min-count": "1000"}
		}, "none of 200 rows is a link"},
		"a split of nodes": {func(_ *shop, o *InteractionSettings) { o.Plan.Split = sample.ByOrder }, "last-links"},
		"no texts":         {func(_ *shop, o *InteractionSettings) { o.Items, o.Users = nil, nil }, "unseen fit"},
		"no encoder":       {func(_ *shop, o *InteractionSettings) { o.Encoder = "" }, "encoder.safetensors"},
		"an address":       {func(_ *shop, o *InteractionSettings) { o.Clicks = []string{"s3://a/b"} }, "s3://a/b"},
		"no file":          {func(s *shop, o *InteractionSettings) { o.Clicks = []string{s.clicks + "x"} }, ".csvx"},
	} {
		s := newShop(t, 40, 30, 200, "user_id,item_id,timestamp", nil)
		o := s.settings(3)
		c.change(s, &o)
		folder := t.TempDir()
		_, err := ImportInteractions(t.Context(), Runner{}, shards.Location{Root: filepath.Join(folder, "shards")}, o)
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s gives %v", name, err)
		}
		if left := must(os.ReadDir(folder))(t); len(left) > 0 {
			t.Errorf("%s leaves %v", name, left)
		}
	}
}
