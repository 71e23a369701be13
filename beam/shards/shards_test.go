package shards

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
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
				p, exposure, err := location.Pairs(ctx, shard, 2)
				if err != nil {
					t.Fatal(err)
				}
				part := must(location.Load(ctx, m.Layout(), shard, nil, 2))(t)
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
		if got, _, err := location.Pairs(context.Background(), Shard{Pairs: 3, File: file}, 1); err == nil &&
			got.Len() != 3 {
			t.Errorf("%d pairs without an error", got.Len())
		}
	})
}

// FuzzSealed changes the manifest of whole shards, one of its files, or both, and seals the file again, so that sizes
// and sums are right. Whatever it then says is refused in one line that names a file, or read.
func FuzzSealed(f *testing.F) {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 60, Dim: 3, Fields: world.EvenFields(3),
		Scenario: world.Saturated()}))(f)
	drawn, err := sample.Prepare(ctx, must(w.Linked(ctx))(f).Graph(), sample.Options{Origin: sample.Origin{
		Plan: sample.Plan{Split: sample.AtRandom, Later: true, Seed: 1}}, Threads: 1})
	if err != nil {
		f.Fatal(err)
	}
	whole := Location{filepath.Join(f.TempDir(), "shards")}
	must(Cut(ctx, whole, drawn, CutSettings{Nodes: 40, Pairs: 1 << 20}))(f)
	text := must(whole.ReadAll(ctx, ManifestFile))(f)
	f.Add(string(text), uint8(0), uint16(0), uint8(0), uint16(0), uint64(0))
	for old, forged := range map[string]string{`"nodes": 60`: `"nodes": 4000000000`, `"first": 40`: `"first": -40`,
		`"name": "vectors-00001.npy"`: `"name": "../shards.json"`, `"dim": 3`: `"dim": 1099511627776`,
		`"fields": [`: `"roles": [{"first": 70, "role": "source"}], "fields": [`, `"pairs": `: `"pairs": 99`,
		`"source": 1`: `"source": 0`} {
		f.Add(strings.Replace(string(text), old, forged, 1), uint8(0), uint16(0), uint8(0), uint16(0), uint64(0))
	}
	for file := range uint8(8) {
		for at := uint16(0); at < 600; at += 37 {
			f.Add(string(text), file, at, uint8(255), uint16(0), uint64(0))
		}
		f.Add(string(text), file, uint16(0), uint8(0), uint16(9), uint64(0))
		for _, bits := range []uint64{1 << 63, math.Float64bits(math.NaN()), math.Float64bits(math.Inf(1)), 1 << 31,
			200} {
			f.Add(string(text), file, uint16(file), uint8(0), uint16(0), bits)
		}
	}
	f.Fuzz(func(t *testing.T, text string, file uint8, at uint16, flip uint8, cut uint16, bits uint64) {
		here := Location{t.TempDir()}
		if err := os.CopyFS(here.Root, os.DirFS(whole.Root)); err != nil {
			t.Fatal(err)
		}
		must(here.WriteBytes(ctx, ManifestFile, []byte(text)))(t)
		m, err := here.Manifest(ctx)
		if err == nil {
			here.forge(t, m, int(file), int(at), flip, int(cut))
			here.forgePair(t, m, int(file), int(at), bits)
			err = readWhole(ctx, here, m)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), here.Root)) {
			t.Errorf("not one line that names a file: %q", err)
		}
	})
}

// forge flips a byte of one of the files, shortens it, and makes the manifest agree with it.
func (s Location) forge(t *testing.T, m *Manifest, file, at int, flip uint8, cut int) {
	var sums []*FileSum
	for k := range m.Blocks {
		sums = append(sums, &m.Blocks[k].Table, &m.Blocks[k].Vectors)
	}
	for k := range m.Train {
		sums = append(sums, &m.Train[k].File)
	}
	if len(sums) == 0 {
		return
	}
	sum := sums[file%len(sums)]
	content, err := s.ReadAll(context.Background(), sum.Name)
	if err != nil || len(content) == 0 {
		return
	}
	content[at%len(content)] ^= flip
	*sum = must(s.WriteBytes(context.Background(), sum.Name, content[:len(content)-cut%len(content)]))(t)
}

// forgePair writes a shard again with another number in one pair, and makes the manifest agree with it: a page has a
// sum of its own, which a flipped byte does not match.
func (s Location) forgePair(t *testing.T, m *Manifest, column, at int, bits uint64) {
	if len(m.Train) == 0 || bits == 0 {
		return
	}
	shard := &m.Train[at%len(m.Train)]
	p, exposure, err := s.Pairs(context.Background(), *shard, 1)
	if err != nil || p.Len() == 0 {
		return
	}
	exposure, at = append(exposure, make([]risk.Exposure, p.Len()-len(exposure))...), at%p.Len()
	switch column % 6 {
	case 0:
		p.Source[at] = int32(bits)
	case 1:
		p.Target[at] = int32(bits)
	case 2:
		p.Weight[at] = math.Float64frombits(bits)
	case 3:
		p.Rate[at] = math.Float64frombits(bits)
	case 4:
		exposure[at] = risk.Exposure(bits)
	case 5:
		shard.Pairs += int(int32(bits))
	}
	shard.File = must(s.Write(context.Background(), shard.File.Name, func(w io.Writer) error {
		return WritePairs(w, p, exposure)
	}))(t)
}

// readWhole reads everything that a job reads.
func readWhole(ctx context.Context, s Location, m *Manifest) error {
	m.PairCount()
	m.Checksum()
	if _, err := m.Shape(); err != nil {
		return err
	}
	for _, b := range m.Blocks {
		if _, err := s.IDs(ctx, b); err != nil {
			return err
		}
	}
	for _, list := range [][]Shard{m.LinkShards, m.Train, m.Test} {
		for _, shard := range list {
			part, err := s.Load(ctx, m.Layout(), shard, nil, 2)
			if err != nil {
				return err
			}
			for k, w := range part.Pairs.Weight {
				if math.IsNaN(w+part.Pairs.Rate[k]) || math.IsInf(w, 0) {
					return errors.New("a weight or rate that is no number was read")
				}
			}
			part.Close()
		}
	}
	return nil
}
