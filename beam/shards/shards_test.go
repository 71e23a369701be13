package shards

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"

	"unseen/graph"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestShardsHoldTheGraph cuts a graph in many ways, into a folder and into storage that is known by
// an address, and puts it together again.
func TestShardsHoldTheGraph(t *testing.T) {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 150, Dim: 6, Fields: world.EvenFields(3),
		Scenario: world.Saturated()}))(t)
	data := sample.Origin{Plan: sample.Plan{Split: sample.AtRandom, Later: true, Seed: 1}}
	drawn, err := sample.Prepare(ctx, must(w.Linked(ctx))(t).Graph(), sample.Options{Origin: data, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	g, train := drawn.Graph, drawn.Problem.Train
	drawn.Problem.Exposure = make([]risk.Exposure, train.Len())
	drawn.Problem.Exposure[train.Len()/2] = risk.Exposed
	for name, root := range map[string]string{"folder": filepath.Join(t.TempDir(), "shards"),
		"address": "memfs://shards"} {
		for _, cut := range []CutSettings{{}, {Nodes: 40, Pairs: 100}} {
			location := Location{root + map[bool]string{true: "-small"}[cut.Nodes > 0]}
			must(Cut(ctx, location, drawn, cut))(t)
			m := must(location.Manifest(ctx))(t)
			type pair struct {
				source, target int32
				linked         bool
				weight, rate   float64
				exposure       risk.Exposure
			}
			var got, want []pair
			for k := range train.Len() {
				want = append(want, pair{train.Source[k], train.Target[k], train.Linked[k], train.Weight[k],
					train.Rate[k], drawn.Problem.Exposure[k]})
			}
			row, own := make([]float32, 6), make([]float32, 6)
			for _, shard := range m.Train {
				p, exposure, err := location.Pairs(ctx, shard)
				if err != nil {
					t.Fatal(err)
				}
				part := must(location.Load(ctx, m.Layout(), shard))(t)
				for k := range p.Len() {
					one := pair{p.Source[k], p.Target[k], p.Linked[k], p.Weight[k], p.Rate[k], 0}
					if exposure != nil {
						one.exposure = exposure[k]
					}
					got = append(got, one)
					for _, end := range [][2]int32{{p.Source[k], part.Pairs.Source[k]},
						{p.Target[k], part.Pairs.Target[k]}} {
						g.Vectors().Load(row, end[0])
						part.Nodes.Vectors.Load(own, end[1])
						if !slices.Equal(row, own) || g.Field(end[0]) != part.Nodes.Fields[end[1]] {
							t.Fatalf("%s: node %d has vector %v and field %d, should have %v and %d", name, end[0],
								own, part.Nodes.Fields[end[1]], row, g.Field(end[0]))
						}
					}
				}
				part.Close()
			}
			order := func(a, b pair) int {
				return byLink(graph.Link{Source: a.source, Target: a.target},
					graph.Link{Source: b.source, Target: b.target})
			}
			slices.SortFunc(got, order)
			slices.SortFunc(want, order)
			if !slices.Equal(got, want) {
				t.Errorf("%s, blocks of %d: %d pairs came back, of %d, or others", name, cut.Nodes, len(got), len(want))
			}
			if _, err := Cut(ctx, location, drawn, cut); !errors.Is(err, ErrContent) {
				t.Errorf("%s: shards were cut over others: %v", name, err)
			}
		}
	}
}

func byLink(a, b graph.Link) int {
	if a.Source != b.Source {
		return int(a.Source - b.Source)
	}
	return int(a.Target - b.Target)
}

func TestManifestsThatAreNone(t *testing.T) {
	ctx := context.Background()
	for text, words := range map[string]string{
		"":                                       "damaged",
		`{"format":"other"}`:                     "another kind",
		`{"format":"unseen-shards","version":9}`: "version 9",
		`{"format":"unseen-shards","version":1,"nodes":3,"dim":2,"fields":["unknown"],` +
			`"blocks":[{"first":1,"nodes":2}]}`: "block 0",
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, ManifestFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := (Location{folder}).Manifest(ctx); err == nil || !strings.Contains(err.Error(), words) ||
			!strings.Contains(err.Error(), ManifestFile) {
			t.Errorf("%q gives %v", text, err)
		}
	}
	if _, err := (Location{t.TempDir()}).Manifest(ctx); !errors.Is(err, ErrMissing) {
		t.Errorf("nothing gives %v", err)
	}
}

// FuzzPairs reads bytes that may be anything: an error, never a panic.
func FuzzPairs(f *testing.F) {
	var b bytes.Buffer
	p := &graph.Pairs{Source: []int32{1, 1, 2}, Target: []int32{2, 3, 1}, Linked: []bool{true, false, false},
		Weight: []float64{1, 5, 5}, Rate: []float64{.2, .2, .2}}
	if err := WritePairs(&b, p, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("PAR1PAR1"))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		location := Location{folder}
		file := must(location.WriteBytes(context.Background(), "pairs", content))(t)
		if got, _, err := location.Pairs(context.Background(), Shard{Pairs: 3, File: file}); err == nil &&
			got.Len() != 3 {
			t.Errorf("%d pairs without an error", got.Len())
		}
	})
}
