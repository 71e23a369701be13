package fit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/world"
)

// The parts of a split are those of the training pairs, none is lost, and the columns of the
// training pairs are not copied.
func TestSplit(t *testing.T) {
	p := newTrial(t, world.Settings{Nodes: 500, Dim: 8, Fields: world.EvenFields(3)}, 4000, .1).problem()
	given := p.Validation
	if v, held := p.split(); v != given || held != nil {
		t.Error("validation pairs that were given are not used")
	}
	p.Validation = nil
	validation, held := p.split()
	train, exposure := p.without(held)
	if validation.Len()+train.Len() != p.Train.Len() || validation.Len() < p.Train.Len()/20 ||
		len(exposure) != train.Len() {
		t.Fatalf("%d and %d of %d pairs, %d exposures", validation.Len(), train.Len(), p.Train.Len(), len(exposure))
	}
	at := map[*graph.Pairs]int{}
	for k, source := range p.Train.Source {
		part := train
		if held(source) {
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
	if all, _ := p.without(nil); all != p.Train {
		t.Error("nothing is held, and yet the pairs are copied")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.split()
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > uint64(p.Train.Len())*25/4 {
		t.Errorf("cutting a tenth off took %d bytes, of %d pairs of 25 each", bytes, p.Train.Len())
	}
}

// Training that leaves sources out in place is training on a copy without them, bit for bit.
func TestTrainingLeavesHeldSourcesOut(t *testing.T) {
	tr := newTrial(t, world.Settings{Nodes: 500, Dim: 8, Fields: world.EvenFields(3)}, 4000, .1)
	p := tr.problem()
	p.Validation = nil
	if err := p.Train.GroupBySource(); err != nil {
		t.Fatal(err)
	}
	copied := p
	validation, held := p.split()
	copied.Validation = validation
	copied.Train, copied.Exposure = p.without(held)
	for _, s := range []Settings{
		{Method: "rw", Adam: AdamSettings{Epochs: 2}},
		{Method: "ap", Adam: AdamSettings{Epochs: 2, Batch: 300, BySource: true}},
	} {
		train := func(p Problem) []float32 {
			link, propensity := mustModels(t, p.Nodes)
			o := &engine.Objective{Link: link, Propensity: propensity, LambdaL: 1, LambdaR: 1, Risk: engine.RiskW,
				Held: true, Pairs: p.Train, Exposure: p.Exposure}
			state := newAdamState(o, make([]float32, o.Size()), 1e-3)
			_, held := p.split()
			trainer := &trainer{engine: engine.CPU{}, objective: o, held: held, settings: s.Adam.withDefaults(),
				state: state}
			if err := trainer.train(context.Background()); err != nil {
				t.Fatal(err)
			}
			return append(state.params, float32(state.history[1].Objective))
		}
		if a, b := train(p), train(copied); !slices.Equal(a, b) {
			t.Errorf("%+v: in place %v…, copied %v…", s.Adam, a[:4], b[:4])
		}
	}
}

func mustModels(t *testing.T, n model.Nodes) (model.LinkModel, model.PropensityModel) {
	t.Helper()
	link, err := model.NewDiagonal(n, false)
	if err != nil {
		t.Fatal(err)
	}
	propensity, err := model.NewFieldMatrix(n)
	if err != nil {
		t.Fatal(err)
	}
	return link, propensity
}

// Where only some pairs are looked at, the doctor finds what he finds in all, says how many there
// were, and finds it again, whatever the threads.
func TestDiagnoseSome(t *testing.T) {
	s := must(saturated())(t)
	p, r := s.problem, s.result
	ctx := context.Background()
	all, err := diagnose(ctx, p, r, p.Train.Len())
	if err != nil {
		t.Fatal(err)
	}
	var some [2]*Findings
	for i, threads := range []int{1, 3} {
		other := *r
		other.Settings.Threads = threads
		if some[i], err = diagnose(ctx, p, &other, p.Train.Len()/3); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(some[0], some[1]) {
		t.Error("the findings depend on the threads")
	}
	f := some[0]
	if n := f.Support.Examined; n < p.Train.Len()/6 || n > p.Train.Len()/2 || all.Support.Examined != p.Train.Len() {
		t.Errorf("%d and %d of %d pairs examined", n, all.Support.Examined, p.Train.Len())
	}
	if !strings.Contains(strings.Join(f.Verdict, " "), "Mean ŷ was looked at in") ||
		strings.Contains(strings.Join(all.Verdict, " "), "looked at in") {
		t.Errorf("%q and %q", f.Verdict, all.Verdict)
	}
	if f.Class != all.Class || !reflect.DeepEqual(f.Advice, all.Advice) || !reflect.DeepEqual(f.Cells, all.Cells) ||
		!reflect.DeepEqual(f.Ridge, all.Ridge) || !reflect.DeepEqual(f.Ratio, all.Ratio) {
		t.Errorf("%s by some pairs, %s by all", f.Class, all.Class)
	}
	// what differs is mean ŷ, within the error of having looked at some
	if off := math.Log(f.MeanLink.Value / all.MeanLink.Value); math.Abs(off) > 4*f.MeanLink.Sampling || off == 0 {
		t.Errorf("mean ŷ is %v by some pairs, %v by all", f.MeanLink, all.MeanLink)
	}
	if f.MeanLink.Sampling <= all.MeanLink.Sampling {
		t.Errorf("fewer pairs, and yet the sampling error is %v, not above %v", f.MeanLink.Sampling,
			all.MeanLink.Sampling)
	}
	f.Support.Examined = all.Support.Examined
	if f.Support != all.Support {
		t.Errorf("support %+v, not %+v", f.Support, all.Support)
	}
}

// One source with all pairs cannot be taken whole.
func TestExaminedOfOneSource(t *testing.T) {
	const n = 1000
	p := &graph.Pairs{Source: make([]int32, n), Target: make([]int32, n), Linked: make([]bool, n),
		Weight: make([]float64, n), Rate: make([]float64, n), Universe: n}
	d := &diagnosis{problem: Problem{Train: p, Exposure: make([]risk.Exposure, n)}, most: 100}
	if e := d.examined(); e.Pairs.Len() != 100 || len(e.Exposure) != 100 {
		t.Errorf("%d pairs, %d exposures", e.Pairs.Len(), len(e.Exposure))
	}
}

// Vectors too large or too small for their squares to be added in float32 are neither zero nor
// infinite; the first bad one is named whatever the threads.
func TestCheckVectors(t *testing.T) {
	const nodes, dim = 20_000, 5
	for _, c := range []struct {
		name               string
		at                 map[int32]float32
		zero, example, bad int
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
			zero, example, bad := Problem{Nodes: model.Nodes{Vectors: v}}.checkVectors(used, threads)
			if zero != c.zero || example != c.example || bad != c.bad {
				t.Errorf("%s: %d zeros from %d, %d not finite; not %d, %d and %d", c.name, zero, example, bad, c.zero,
					c.example, c.bad)
			}
		}
	}
}

// The checksum is SHA-256 of the bytes that its comment promises, one word after the other.
func TestChecksumBytes(t *testing.T) {
	p := newTrial(t, world.Settings{Nodes: 300, Dim: 8, Fields: world.EvenFields(3)}, 9000, .1).problem()
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
