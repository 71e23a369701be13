package job

import (
	"bytes"
	"context"
	"encoding/csv"
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
	shown, shownParts                            string            // impressions, whole and in parts
	flags                                        map[string]string // of the import
	report                                       *exchange.Report  // of one machine
}

// show gives the shop impressions: half of the clicked pairs and others, some twice, of which some were offered and
// not shown, and some people and items that nothing else names. A row has a time, what follows the header makes of it.
func (s *shop) show(t testing.TB, people, items, rows int, header string, value func(*rand.Rand) string) *shop {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, uint64(rows)))
	clicks := strings.Split(strings.TrimSpace(string(must(os.ReadFile(s.clicks))(t))), "\n")[1:]
	var shown []string
	for range rows {
		ends := fmt.Sprintf("p%d,i%d", rng.IntN(people+5), rng.IntN(items+5))
		if rng.IntN(3) == 0 {
			ends = strings.Join(strings.Split(clicks[rng.IntN(len(clicks))], ",")[:2], ",")
		}
		line := fmt.Sprintf("%s,%d,%s", ends, 1_600_000_000+rng.IntN(1000)*86_400, value(rng))
		shown = append(shown, line)
		if rng.IntN(6) == 0 {
			shown = append(shown, line)
		}
	}
	header = "user_id,item_id,timestamp," + header + "\n"
	s.shown = s.write(t, "shown.csv", header+strings.Join(shown, "\n")+"\n")
	for part, some := range slices.Collect(slices.Chunk(shown, len(shown)/3+1)) {
		s.write(t, fmt.Sprintf("shown/part-%d.csv", part), header+strings.Join(some, "\n")+"\n")
	}
	s.shownParts = filepath.Join(s.folder, "shown")
	return s
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

// date gives most items a time within those of the clicks: at one, an hour later to the second, or a second after that.
// There are neither titles nor texts then.
func (s *shop) date(t testing.TB) *shop {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	goods := "item_id,category,added\n"
	for j := range 60 {
		at := fmt.Sprint(1_600_000_000 + 86_400*(rng.IntN(1400)-200) + []int{0, 3600, 3601}[j%3])
		if j%7 == 2 {
			at = ""
		}
		goods += fmt.Sprintf("i%d,kind %d,%s\n", j, j%4, at)
	}
	s.items, s.users, s.encoder = s.write(t, "goods.csv", goods), "", ""
	return s
}

func (s *shop) settings(blocks int) InteractionSettings {
	o := InteractionSettings{Clicks: []string{s.parts}, Flags: s.flags, Encoder: s.encoder, Buckets: blocks, Nodes: 37,
		Pairs: 150, Plan: sample.Plan{Seed: 5}}
	if s.parts == "" {
		o.Clicks = nil
	}
	if s.shown != "" {
		o.Impressions = []string{s.shownParts}
	}
	if s.items != "" {
		o.Items = []string{s.items}
	}
	if s.users != "" {
		o.Users = []string{s.users}
	}
	return o
}

// cut imports the shop on one machine and cuts the dataset.
func (s *shop) cut(t testing.TB, o InteractionSettings) *shards.Manifest {
	t.Helper()
	ctx := context.Background()
	folder := filepath.Join(t.TempDir(), "dataset")
	flags := map[string]string{"clicks": s.clicks, "items": strings.Join(o.Items, ""),
		"users": strings.Join(o.Users, ""), "impressions": s.shown}
	for name, value := range s.flags {
		flags[name] = value
	}
	s.report = must(exchange.Import(ctx, "interactions", folder, exchange.Options{Flags: flags, Lenient: o.Lenient}))(t)
	if o.Encoder != "" {
		writeEncoded(t, folder, o.Encoder)
	}
	d, prepared, err := shards.Dataset(ctx, folder, func(g *graph.Graph) sample.Plan {
		plan, _ := sample.PlanFor(g)
		if o.Plan.Split != "" {
			plan = sample.Plan{Split: o.Plan.Split, Later: plan.Later, Dates: o.Plan.Dates}
		}
		plan.Seed, plan.PerLink = o.Plan.Seed, max(o.Plan.PerLink, graph.DefaultPerLink)
		plan.EveryShown = o.Plan.EveryShown
		return plan
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	return must(shards.Cut(ctx, shards.Location{Root: filepath.Join(t.TempDir(), "shards")}, prepared,
		shards.CutSettings{Nodes: o.Nodes, Pairs: o.Pairs}))(t)
}

// writeEncoded gives a dataset the vectors of its texts.
func writeEncoded(t testing.TB, folder, path string) {
	t.Helper()
	ctx := context.Background()
	d := must(dataset.Open(ctx, folder, dataset.OpenOptions{}))(t)
	defer d.Close()
	encoder := must(openEncoder(ctx, path))(t)
	vectors := must(graph.NewVectors(d.Graph().Len(), encoder.Dim()))(t)
	for i := range int32(d.Graph().Len()) {
		row, _ := encoder.Encode(encode.Text{Title: d.Graph().Title(i), Body: must(d.Text(i))(t)})
		if err := vectors.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	must(d.WriteVectors(ctx, vectors, nil, dataset.WriteOptions{}))(t)
}

// TestInteractionsAreThoseOfOneMachine holds the shards of tables against those of a dataset that one machine imported:
// the same files, byte for byte, whatever the number of buckets and of parts of a table.
func TestInteractionsAreThoseOfOneMachine(t *testing.T) {
	stars := func(rng *rand.Rand) string { return fmt.Sprint(1 + rng.IntN(5)) }
	const header = "user_id,item_id,timestamp"
	timed := newShop(t, 160, 90, 1300, header, nil)
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
	ids := newShop(t, 70, 50, 600, "user_id,item_id,timestamp", nil)
	ids.items, ids.users, ids.encoder = "", "", ""
	fields := newShop(t, 70, 50, 600, "user_id,item_id,timestamp", nil)
	fields.items = fields.write(t, "goods.csv", "item_id,category,year\ni3,toys,1999\nx9,tools,2004\ni7,toys,\n")
	fields.users, fields.encoder = "", ""
	dated, datedFew := newShop(t, 160, 90, 1300, header, nil).date(t), newShop(t, 40, 30, 210, header, nil).date(t)
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
		"ids":    {ids, sample.Plan{}},
		"fields": {fields, sample.Plan{Split: sample.LastLinks}},
		"came":   {dated, sample.Plan{}},
		"few":    {datedFew, sample.Plan{}},
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
					_, bad, err := ImportInteractions(t.Context(), where, to, settings)
					if err != nil || bad.Count > 0 {
						t.Fatal(bad, err)
					}
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

// TestImpressionsAreThoseOfOneMachine does the same with a log of what was shown, of all kinds.
func TestImpressionsAreThoseOfOneMachine(t *testing.T) {
	const header = "user_id,item_id,timestamp"
	either := func(rng *rand.Rand) string { return fmt.Sprint(rng.IntN(2)) }
	both := func(rng *rand.Rand) string { return fmt.Sprintf("%d,%d", rng.IntN(2), rng.IntN(4)/3) }
	some := func() *shop { return newShop(t, 70, 50, 600, header, nil) }
	of := func(s *shop, log string) *shop {
		if s.flags = map[string]string{}; log != "" {
			s.flags["log"] = log
		}
		return s
	}
	stars := func(rng *rand.Rand) string { return fmt.Sprint(1 + rng.IntN(5)) }
	alone := newShop(t, 70, 50, 600, header, nil).show(t, 70, 50, 900, "seen,clicked", both)
	alone.clicks, alone.parts = "", ""
	untimed := newShop(t, 70, 50, 600, "user_id,item_id,when", nil).show(t, 70, 50, 900, "seen,clicked", both)
	untimed.flags["time"] = ""
	dense := newShop(t, 40, 30, 210, header, nil).show(t, 40, 30, 500, "seen", either)
	rated := newShop(t, 60, 40, 900, header+",rating", stars)
	every, random := sample.Plan{EveryShown: true}, sample.Plan{Split: sample.RandomLinks}
	for name, c := range map[string]struct {
		*shop
		plan sample.Plan
	}{
		"sampled":        {of(some().show(t, 70, 50, 500, "seen", either), ""), sample.Plan{}},
		"random":         {of(some().show(t, 70, 50, 500, "seen", either), "sample"), random},
		"sampled, came":  {of(some().show(t, 70, 50, 500, "seen", either).date(t), ""), sample.Plan{}},
		"complete, came": {of(some().show(t, 70, 50, 500, "seen", either).date(t), "complete"), every},
		"complete":       {of(some().show(t, 70, 50, 500, "position", either), "complete"), sample.Plan{}},
		"every shown":    {of(some().show(t, 70, 50, 500, "position", either), "complete"), every},
		"offered":        {of(some().show(t, 70, 50, 500, "seen", either), "offered"), every},
		"drawn":          {of(some().show(t, 70, 50, 500, "seen", either), "drawn"), sample.Plan{Split: sample.Whole}},
		"ignored":        {of(some().show(t, 70, 50, 500, "seen", either), "ignored"), sample.Plan{}},
		"alone":          {alone, sample.Plan{}},
		"untimed":        {untimed, sample.Plan{}},
		"dense":          {of(dense, "complete"), sample.Plan{Split: sample.Whole, EveryShown: true}},
		"rated":          {rated.show(t, 60, 40, 300, "seen", either), every},
		"only rated":     {of(newShop(t, 60, 40, 900, header+",rating", stars), "complete"), every},
	} {
		t.Run(name, func(t *testing.T) {
			settings := c.settings(5)
			c.plan.Seed = settings.Plan.Seed
			settings.Plan = c.plan
			want := c.cut(t, settings)
			if logged := c.flags["log"] != "ignored"; want.Extent.Logged != logged {
				t.Fatalf("one machine says of a log: %t", want.Extent.Logged)
			}
			for runner, where := range runners() {
				to := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
				if _, bad, err := ImportInteractions(t.Context(), where, to, settings); err != nil || bad.Count > 0 {
					t.Fatal(bad, err)
				}
				sameShards(t, runner, must(to.Manifest(t.Context()))(t), want)
			}
		})
	}
}

// TestLenientImportsAreThoseOfOneMachine leaves bad rows out, as one machine does: the same shards, the same number of
// rows, and the first of them named as in its list. An id that only a bad record has is a node without a record.
func TestLenientImportsAreThoseOfOneMachine(t *testing.T) {
	s := newShop(t, 60, 40, 500, "user_id,item_id,timestamp,rating",
		func(rng *rand.Rand) string { return fmt.Sprint(1 + rng.IntN(5)) })
	s.show(t, 60, 40, 200, "seen,position", func(rng *rand.Rand) string { return fmt.Sprintf("%d,3", rng.IntN(2)) })
	long := strings.Repeat("x", 2000)
	for name, bad := range map[string]string{
		"clicks.csv": "p1,,5,3\np2,i2,soon,3\np3,i3\np4,i4,7,many\n\xff,i5,7,3\n" + long + ",i6,7,3\nnew,i7,8,5\n",
		"items.csv": "onlybad,toys,\xfe\ni0,toys,again\nnever,toys,what,more\n,toys,nobody\nwide," +
			strings.Repeat("y", 5000) + ",x\nlast,toys,fine\n",
		"shown.csv": "p1,i1,5,perhaps,1\nshownonly,i2,7,1,-4\nshownonly,i3,7,1,\n",
		"users.csv": "p0,north,again\np0,north,once more\nlate," + strings.Repeat("z", 5000) + ",x\nlate,south,good\n",
	} {
		text := string(must(os.ReadFile(filepath.Join(s.folder, name)))(t))
		header, rest, _ := strings.Cut(text, "\n")
		half := strings.IndexByte(rest[len(rest)/2:], '\n') + len(rest)/2 + 1
		s.write(t, name, header+"\n"+rest[:half]+bad+rest[half:])
	}
	text := string(must(os.ReadFile(s.clicks))(t))
	header, rest, _ := strings.Cut(text, "\n")
	for k, part := range slices.Collect(slices.Chunk(strings.SplitAfter(rest, "\n"), 200)) {
		s.write(t, fmt.Sprintf("clicks/part-%d.csv", k), header+"\n"+strings.Join(part, ""))
	}
	header, rest, _ = strings.Cut(string(must(os.ReadFile(s.shown))(t)), "\n")
	for k, part := range slices.Collect(slices.Chunk(strings.SplitAfter(rest, "\n"), 100)) {
		s.write(t, fmt.Sprintf("shown/part-%d.csv", k), header+"\n"+strings.Join(part, ""))
	}
	s.write(t, "clicks/part-1a.csv", header+"\n,i1,5,3\n") // nothing but a bad row
	settings := s.settings(1)
	settings.Lenient, settings.Clicks, settings.Impressions = true, []string{s.clicks}, []string{s.shown}
	want := s.cut(t, settings)
	list := must(csv.NewReader(bytes.NewReader(must(os.ReadFile(s.report.RejectsFile))(t))).ReadAll())(t)
	var first []string
	for _, row := range list[1:11] {
		first = append(first, strings.Join(row[:4], "|"))
	}
	for buckets, clicks := range map[int]string{1: s.clicks, 7: s.parts} {
		settings.Buckets, settings.Clicks = buckets, []string{clicks}
		if clicks == s.parts {
			settings.Impressions = []string{s.shownParts}
		}
		to := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
		got, bad, err := ImportInteractions(t.Context(), Runner{}, to, settings)
		if err != nil {
			t.Fatal(err)
		}
		sameShards(t, clicks, got, want)
		if clicks == s.parts {
			bad.Count--
		}
		if bad.Count != int64(s.report.Rejected) || bad.Count != int64(len(list)-1) || len(bad.First) != 10 {
			t.Errorf("%s: %d bad rows, %d named; one machine leaves %d out", clicks, bad.Count, len(bad.First),
				s.report.Rejected)
		}
		for k, row := range bad.First {
			column := ""
			if row.Column > 0 {
				column = fmt.Sprint(row.Column)
			}
			have := strings.Join([]string{row.File, fmt.Sprint(row.Line), column, row.Reason}, "|")
			if clicks == s.clicks && have != first[k] {
				t.Errorf("bad row %d is %s, on one machine %s", k, have, first[k])
			}
		}
		if clicks == s.parts && bad.First[0].File != filepath.Join(s.parts, "part-1.csv") {
			t.Errorf("the first bad row is %+v", bad.First[0])
		}
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
	p, q := got.Data.Plan, want.Data.Plan
	if p.Split != q.Split || p.Log != q.Log || p.Later != q.Later || p.Available != q.Available ||
		p.EveryShown != q.EveryShown || a.Logged != b.Logged {
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
		"impressions that were all shown": {func(s *shop, o *InteractionSettings) {
			o.Impressions = []string{s.write(t, "shown.csv", "user_id,item_id\np1,i1\n")}
		}, "cannot tell how many were not"},
		"a bad impression": {func(s *shop, o *InteractionSettings) {
			o.Impressions = []string{s.write(t, "shown.csv", "user_id,item_id,seen\np1,i1,1\np1,i2,maybe\n")}
		}, "shown.csv, line 3"},
		"impressions nobody clicked": {func(s *shop, o *InteractionSettings) {
			o.Clicks, o.Impressions = nil, []string{s.write(t, "shown.csv", "user_id,item_id\np1,i1\n")}
		}, "what was clicked"},
		"impressions without rows": {func(s *shop, o *InteractionSettings) {
			o.Clicks, o.Impressions = nil, []string{s.write(t, "shown.csv", "user_id,item_id,clicked\n")}
		}, "shown.csv: bad record: no clicks"},
		"neither clicks nor impressions": {func(s *shop, o *InteractionSettings) {
			o.Clicks = []string{s.write(t, "few.csv", "user_id,item_id\n")}
			o.Impressions = []string{s.write(t, "shown.csv", "user_id,item_id\n")}
			o.Items, o.Users, o.Encoder = nil, nil, ""
		}, "few.csv: bad record: no clicks"},
		"no tables": {func(s *shop, o *InteractionSettings) { o.Clicks = nil }, "no clicks to import"},
		"a log of no kind": {func(_ *shop, o *InteractionSettings) { o.Flags = map[string]string{"log": "all"} },
			"unknown kind of log \"all\""},
		"no links": {func(s *shop, o *InteractionSettings) {
			o.Flags = map[string]string{"min-count": "1000"}
		}, "none of 200 rows is a link"},
		"a split of nodes": {func(_ *shop, o *InteractionSettings) { o.Plan.Split = sample.ByOrder }, "last-links"},
		"an encoder of nothing": {func(_ *shop, o *InteractionSettings) {
			o.Items, o.Users = nil, nil
		}, "leave the encoder out"},
		"no encoder": {func(_ *shop, o *InteractionSettings) { o.Encoder = "" }, "line 2 has a title or a text"},
		"nothing but bad rows": {func(s *shop, o *InteractionSettings) {
			o.Clicks, o.Lenient = []string{s.write(t, "few.csv", "user_id,item_id\na,\n,b\n")}, true
		}, "few.csv: bad record: no clicks"},
		"no rows, leniently": {func(s *shop, o *InteractionSettings) {
			o.Lenient = true
			s.write(t, "clicks/part-2.csv", "user_id,item_id,timestamp\n")
		}, "part-2.csv: bad record: no clicks"},
		"no file": {func(s *shop, o *InteractionSettings) { o.Clicks = []string{s.clicks + "x"} }, ".csvx"},
	} {
		s := newShop(t, 40, 30, 200, "user_id,item_id,timestamp", nil)
		o := s.settings(3)
		c.change(s, &o)
		folder := t.TempDir()
		to := shards.Location{Root: filepath.Join(folder, "shards")}
		_, _, err := ImportInteractions(t.Context(), Runner{}, to, o)
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s gives %v", name, err)
		}
		if left := must(os.ReadDir(folder))(t); len(left) > 0 {
			t.Errorf("%s leaves %v", name, left)
		}
	}
}
