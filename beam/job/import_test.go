package job

import (
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/beam/shards"
	"unseen/dataset"
	"unseen/dataset/exchange"
	"unseen/encode"
	"unseen/graph"
)

// writeWorks writes works of OpenAlex in two files: with references to one another, to themselves,
// to works that are not there, twice, a retracted work, and a work that comes twice.
func writeWorks(t *testing.T, folder string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	fields := []string{"Physics", "Medicine", "Art"}
	var lines []string
	for n := 1; n <= 200; n++ {
		words := ""
		for k := range 6 {
			words += fmt.Sprintf(`"w%d":[%d],`, (n%3)*40+rng.IntN(40), k)
		}
		var refs []string
		for range rng.IntN(12) {
			refs = append(refs, fmt.Sprintf(`"https://openalex.org/W%d"`, 1000+7*(1+rng.IntN(220))))
		}
		field := fmt.Sprintf(`"primary_topic":{"field":{"display_name":%q}},`, fields[n%3])
		if n%50 == 0 {
			field = ""
		}
		lines = append(lines, fmt.Sprintf(`{"id":"https://openalex.org/W%d","title":"On number %d",%s`+
			`"is_retracted":%t,"publication_year":%d,"abstract_inverted_index":{%s},"referenced_works":[%s]}`,
			1000+7*n, n, field, n == 77, 1980+n%40, strings.TrimSuffix(words, ","), strings.Join(refs, ",")))
	}
	lines = append(lines, strings.Replace(lines[3], "On number", "Again number", 1))
	if err := os.WriteFile(filepath.Join(folder, "a.jsonl"), []byte(strings.Join(lines[:90], "\n")+"\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	file := must(os.Create(filepath.Join(folder, "b.gz")))(t)
	packed := gzip.NewWriter(file)
	fmt.Fprintln(packed, strings.Join(lines[90:], "\n"))
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestImportIsThatOfOneMachine holds nodes, fields, vectors and links against unseen import's, whatever the number of
// blocks, and looks whether the pairs are what they say.
func TestImportIsThatOfOneMachine(t *testing.T) {
	ctx := context.Background()
	raw, single := t.TempDir(), filepath.Join(t.TempDir(), "single")
	writeWorks(t, raw)
	if _, err := exchange.Import(ctx, "openalex", single, exchange.Options{Paths: []string{raw}}); err != nil {
		t.Fatal(err)
	}
	d := must(dataset.Open(ctx, single, dataset.OpenOptions{}))(t)
	defer d.Close()
	g := d.Graph()
	var docs encode.TextList
	for i := range int32(g.Len()) {
		docs = append(docs, encode.Text{Title: g.Title(i), Body: must(d.Text(i))(t)})
	}
	encoder, _, err := encode.Fit(ctx, docs, encode.Settings{Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "encoder.safetensors")
	file := must(os.Create(path))(t)
	if err := encoder.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for name, runner := range runners() {
		for _, blocks := range []int{1, 5} {
			location := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
			must(Import(ctx, runner, location, ImportSettings{Paths: []string{raw}, Encoder: path, Blocks: blocks,
				Pairs: 300, Seed: 1}))(t)
			m := must(location.Manifest(ctx))(t)
			one := importedShards{location, m, g, nil}
			t.Run(fmt.Sprintf("%s/%d", name, blocks), func(t *testing.T) {
				one.checkNodes(t, encoder, docs)
				one.checkLinks(t)
				one.checkPairs(t)
			})
			cluster := &Cluster{Shards: location, Manifest: m, Settings: settingsFor("mle"), Runner: runner,
				Work: shards.Location{Root: t.TempDir()}}
			o := must(cluster.Settings.Objective(must(m.Shape())(t), m.Extent))(t)
			if parts := must(cluster.Gradient(ctx, o, make([]float32, o.Size()),
				make([]float64, o.Size())))(t); !(parts.Likelihood > 0) {
				t.Errorf("%s: a likelihood of %v", name, parts)
			}
		}
	}
	// A line that is no work stops it, and leaves nothing.
	if err := os.WriteFile(filepath.Join(raw, "c.jsonl"), []byte("{\"id\":\"https://openalex.org/W5\"}\n{\"id\":\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	_, err = Import(ctx, Runner{}, shards.Location{Root: filepath.Join(folder, "shards")},
		ImportSettings{Paths: []string{raw}, Encoder: path})
	if err == nil || !strings.Contains(err.Error(), "c.jsonl, line 2") {
		t.Errorf("a damaged line gives %v", err)
	}
	if left := must(os.ReadDir(folder))(t); len(left) > 0 {
		t.Errorf("a failed import leaves %v", left)
	}
}

// importedShards are shards beside the graph of one machine.
type importedShards struct {
	location shards.Location
	m        *shards.Manifest
	g        *graph.Graph
	ids      []string // of the nodes, by their place in the shards
}

// node is the place of a node in the graph.
func (one *importedShards) node(i int32) int32 {
	at, _ := one.g.Index(one.ids[i])
	return at
}

func (one *importedShards) checkNodes(t *testing.T, encoder *encode.LSA, docs encode.TextList) {
	t.Helper()
	if one.m.Nodes != one.g.Len() || one.m.Links != int64(one.g.LinkCount()) {
		t.Fatalf("%d nodes and %d links, one machine %d and %d", one.m.Nodes, one.m.Links, one.g.Len(),
			one.g.LinkCount())
	}
	for _, b := range one.m.Blocks {
		own := must(one.location.IDs(t.Context(), b))(t)
		vectors, table, err := one.location.OpenBlock(t.Context(), one.m.Layout(), b)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, one.m.Dim)
		for k, id := range own {
			i, ok := one.g.Index(id)
			if !ok || one.g.FieldName(one.g.Field(i)) != one.m.Fields[table.Fields[k]] {
				t.Fatalf("%s has the field %q", id, one.m.Fields[table.Fields[k]])
			}
			want, _ := encoder.Encode(docs[i])
			if vectors.Load(row, int32(k)); !slices.Equal(row, want) {
				t.Fatalf("the vector of %s is %v, one machine's %v", id, row, want)
			}
		}
		vectors.Close()
		one.ids = append(one.ids, own...)
	}
}

func (one *importedShards) checkLinks(t *testing.T) {
	t.Helper()
	found := 0
	for _, shard := range one.m.LinkShards {
		links, _, err := one.location.Pairs(t.Context(), shard, 1)
		if err != nil {
			t.Fatal(err)
		}
		for k := range links.Len() {
			found++
			if !one.g.HasLink(one.node(links.Source[k]), one.node(links.Target[k])) {
				t.Fatalf("%s does not link to %s", one.ids[links.Source[k]], one.ids[links.Target[k]])
			}
		}
	}
	if found != one.g.LinkCount() {
		t.Errorf("%d links in shards, of %d", found, one.g.LinkCount())
	}
}

func (one *importedShards) checkPairs(t *testing.T) {
	t.Helper()
	seen, linked, weight := map[graph.Link]bool{}, 0, 0.
	for part, list := range [][]shards.Shard{one.m.Train, one.m.Test} {
		for _, shard := range list {
			pairs, _, err := one.location.Pairs(t.Context(), shard, 1)
			if err != nil {
				t.Fatal(err)
			}
			for k := range pairs.Len() {
				l := graph.Link{Source: pairs.Source[k], Target: pairs.Target[k]}
				if seen[l] || l.Source == l.Target || pairs.Linked[k] != one.g.HasLink(one.node(l.Source),
					one.node(l.Target)) {
					t.Fatalf("pair %v is there twice, or not as the graph has it", l)
				}
				seen[l] = true
				if part == 0 {
					weight += pairs.Weight[k]
				}
				if part == 0 && pairs.Linked[k] {
					linked++
				}
			}
		}
	}
	// Weights add up to the universe, but for what was drawn by chance.
	train := 0
	for i := range int32(one.m.Nodes) {
		if !(ImportSettings{Seed: 1, Test: .2}).held(i) {
			train++
		}
	}
	if all := float64(train * (train - 1)); weight < .9*all || weight > 1.1*all {
		t.Errorf("training pairs stand for %.0f pairs, of %.0f", weight, all)
	}
	if n := one.m.Extent.Pairs; n < int64(4*linked) || n > int64(6*linked) {
		t.Errorf("%d training pairs with %d links, where five times as many are wanted", n, linked)
	}
}
