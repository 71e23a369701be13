package sample

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/world"
)

// worldProblem is pairs of a small world, a tenth of whose exposures are logged.
func worldProblem(t *testing.T, nodes, pairs int) Problem {
	t.Helper()
	w := must(world.New(t.Context(), world.Settings{Nodes: nodes, Dim: 8, Fields: world.EvenFields(3)}))(t)
	train := must(w.Pairs(t.Context(), pairs, world.Draw{Logged: .1}))(t)
	validation := must(w.Pairs(t.Context(), pairs/5, world.Draw{Part: 1}))(t)
	p := Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs, Validation: validation.Pairs}
	for k := range train.Truth {
		p.Exposure = append(p.Exposure, train.Observation(k).Exposure)
	}
	if !slices.Contains(p.Exposure, risk.Exposed) || !slices.Contains(p.Exposure, risk.Unlogged) {
		t.Fatal("no exposures are logged, or all")
	}
	return p
}

// The parts of a split are those of the training pairs, none is lost, and the columns of the
// training pairs are not copied.
func TestSplitValidation(t *testing.T) {
	p := worldProblem(t, 500, 4000)
	given := p.Validation
	if v, held := p.SplitValidation(); v.Pairs != given || held != nil {
		t.Error("validation pairs that were given are not used")
	}
	p.Validation = nil
	kept, held := p.SplitValidation()
	validation, rest := kept.Pairs, p.TrainingWithout(held)
	train, exposure := rest.Pairs, rest.Exposure
	if validation.Len()+train.Len() != p.Train.Len() || validation.Len() < p.Train.Len()/20 ||
		len(exposure) != train.Len() {
		t.Fatalf("%d and %d of %d pairs, %d exposures", validation.Len(), train.Len(), p.Train.Len(), len(exposure))
	}
	at := map[*graph.Pairs]int{}
	for k, source := range p.Train.Source {
		part := train
		if held(source, p.Train.Target[k]) {
			part = validation
		} else if exposure[at[train]] != p.Exposure[k] {
			t.Fatalf("exposure of pair %d", k)
		}
		i := at[part]
		at[part]++
		if part.Source[i] != source || part.Target[i] != p.Train.Target[k] || part.Linked[i] != p.Train.Linked[k] ||
			part.Weight[i] != p.Train.Weight[k] || part.Rate[i] != p.Train.Rate[k] {
			t.Fatalf("pair %d", k)
		}
	}
	if p.TrainingWithout(nil).Pairs != p.Train {
		t.Error("nothing is held, and yet the pairs are copied")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.SplitValidation()
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > uint64(p.Train.Len())*25/4 {
		t.Errorf("cutting a tenth off took %d bytes, of %d pairs of 25 each", bytes, p.Train.Len())
	}
}

// Thinning keeps as many rows as were asked for, in order, the same for the same seed, and follows no pattern of the
// sample.
func TestThin(t *testing.T) {
	t.Parallel()
	const pairs, most = 100_000, 20_000
	indices := Thin(pairs, most, 1)
	if n := len(indices); math.Abs(float64(n)-most) > 5*math.Sqrt(most) || !slices.IsSorted(indices) ||
		!slices.Equal(indices, Thin(pairs, most, 1)) || slices.Equal(indices, Thin(pairs, most, 2)) {
		t.Errorf("%d indices", n)
	}
	fifth := 0
	for _, k := range indices { // as where every fifth pair is a link
		if k%5 == 0 {
			fifth++
		}
	}
	if share := float64(fifth) / float64(len(indices)); math.Abs(share-.2) > .015 {
		t.Errorf("%v of them are every fifth", share)
	}
	if n := len(Thin(10, 20, 1)); n != 10 {
		t.Errorf("%d of 10", n)
	}
}

// Vectors too large or too small for their squares to be added in float32 are neither zero nor
// infinite; the first bad one is named whatever the threads.
func TestCheckVectors(t *testing.T) {
	t.Parallel()
	const nodes, dim = 20_000, 5
	for _, c := range []struct {
		name         string
		at           map[int32]float32
		zero         int
		example, bad int32
	}{
		{"fine", nil, 0, -1, -1},
		{"large and small", map[int32]float32{3: 3e38, 9: 1e-40}, 0, -1, -1},
		{"zeros", map[int32]float32{8191: 0, 15_000: 0, 8192: 0}, 3, 8191, -1},
		{"not finite", map[int32]float32{15_000: float32(math.NaN()), 8200: float32(math.Inf(-1)), 2: 0}, 1, 2, 8200},
	} {
		v, err := graph.NewVectors(nodes, dim)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		used := make([]bool, nodes)
		for i := range int32(nodes) {
			x, special := c.at[i]
			used[i] = special || i%3 != 0
			if !special && used[i] {
				x = 1
			}
			if err := v.Set(i, []float32{0, 0, x, 0, 0}); err != nil {
				t.Fatal(err)
			}
		}
		for _, threads := range []int{1, 4} {
			found := Problem{Nodes: model.Nodes{Vectors: v}}.tally(used, threads)
			if found.Zero != c.zero || found.Zero > 0 && found.FirstZero != c.example ||
				(found.NotFinite > 0) != (c.bad >= 0) || found.NotFinite > 0 && found.FirstNotFinite != c.bad {
				t.Errorf("%s: %d zeros from %d, %d not finite from %d; not %d, %d and %d", c.name, found.Zero,
					found.FirstZero, found.NotFinite, found.FirstNotFinite, c.zero, c.example, c.bad)
			}
		}
	}
}

// Vectors that spoil training are warned of, by the ids of their nodes where these are known.
func TestWarnsOfVectors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scale, one float32
		kind       risk.WarningKind
		says       string
	}{
		"usual":     {1, 1, "", ""},
		"one long":  {1, 1e4, LongVectors, `256 times as long as the median one (the longest is that of node "7")`},
		"all long":  {1e18, 1, VectorScale, "divide all vectors by 1e+18"},
		"all short": {1e-30, 1, VectorScale, "overflow or vanish in float32"},
		"one zero":  {1, 0, ZeroVectors, `1 of 100 nodes that are learned from (the first is node "7")`},
	} {
		g := datedGraph(t, 100)
		for i := range int32(g.Len()) {
			row := []float32{c.scale, 0}
			if i == 7 {
				row[0] *= c.one
			}
			if err := g.Vectors().Set(i, row); err != nil {
				t.Fatal(err)
			}
		}
		p := must(prepare(t, g, Plan{Split: Whole}, nil))(t).Problem
		for range 2 {
			warnings := must(p.Validate(1))(t)
			if len(warnings) != bit(c.kind != "") || len(warnings) > 0 && (warnings[0].Kind != c.kind ||
				!strings.Contains(warnings[0].Message, c.says)) {
				t.Errorf("%s: %v", name, warnings)
			}
			p.Graph, c.says = nil, strings.ReplaceAll(c.says, `"`, "") // then by its number
		}
	}
}

// The checksum is SHA-256 of the bytes that its comment promises, one word after the other.
func TestChecksumBytes(t *testing.T) {
	t.Parallel()
	p := worldProblem(t, 300, 9000)
	h := sha256.New()
	put := func(x uint64) { h.Write(binary.LittleEndian.AppendUint64(nil, x)) }
	put(uint64(p.Nodes.Vectors.Len()))
	put(uint64(p.Nodes.Vectors.Dim()))
	put(uint64(p.Nodes.FieldCount))
	seen := map[int32]bool{}
	row := make([]float32, p.Nodes.Vectors.Dim())
	for _, pairs := range []*graph.Pairs{p.Train, p.Validation} {
		put(uint64(pairs.Len()))
		for k := range pairs.Source {
			put(uint64(pairs.Source[k])<<32 | uint64(pairs.Target[k]))
			put(math.Float64bits(pairs.Weight[k]))
			put(math.Float64bits(pairs.Rate[k]))
			linked := uint64(0)
			if pairs.Linked[k] {
				linked = 1
			}
			put(linked)
			for _, i := range []int32{pairs.Source[k], pairs.Target[k]} {
				if seen[i] {
					continue
				}
				seen[i] = true
				put(uint64(i)<<16 | uint64(p.Nodes.Fields[i]))
				p.Nodes.Vectors.Load(row, i)
				binary.Write(h, binary.LittleEndian, row)
			}
		}
	}
	for _, e := range p.Exposure {
		put(uint64(e))
	}
	if want := hex.EncodeToString(h.Sum(nil)); p.Checksum() != want {
		t.Errorf("%s, not %s", p.Checksum(), want)
	}
}
