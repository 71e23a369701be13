package job

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/model"
	"unseen/risk"
)

// Risks over all held-out pairs, their differences and AUC are those of one machine, whatever the cut and the runner;
// intervals are about as wide as the standard errors that one machine finds with sources as what is independent.
func TestHeldRisksAreThoseOfOneMachine(t *testing.T) {
	const floor = .2
	s := newSetup(t, 400, 8)
	ctx, nodes := t.Context(), s.Problem.Nodes
	first, second := predictorOf(randomModel(t, nodes, "diagonal", "field-matrix", 1)),
		predictorOf(randomModel(t, nodes, "diagonal", "constant", 2))
	judge := fit.Judge{Predictor: first}
	z, _, err := engine.Logits(ctx, engine.CPU{}, second, s.Test.Pairs)
	if err != nil {
		t.Fatal(err)
	}
	own, other := must(judge.Panel(ctx, s.Test, floor, nil))(t), must(judge.Panel(ctx, s.Test, floor, z))(t)
	apart := must(judge.Differences(ctx, s.Test, floor, z, nil))(t)
	var before []HeldRisks
	for _, cut := range []shards.CutSettings{{}, {Nodes: 100, Pairs: 500}} {
		cluster, m := s.cut(t, cut)
		shape := must(m.Shape())(t)
		by := []engine.Predictor{predictorOf(randomModel(t, shape, "diagonal", "field-matrix", 1)),
			predictorOf(randomModel(t, shape, "diagonal", "constant", 2))}
		var bits []HeldRisks
		for name, runner := range runners() {
			cluster.Runner = runner
			got := must(cluster.HeldRisks(ctx, by, HeldSettings{Floor: floor, Draws: 400, Seed: 1}))(t)
			if bits != nil && !reflect.DeepEqual(got, bits) {
				t.Errorf("%s differs from another runner", name)
			}
			bits = got
		}
		for i, scheme := range risk.Panel() {
			near(t, scheme, bits[0].Risks[i].Risk, own.Risks[scheme])
			near(t, scheme+" of another", bits[1].Risks[i].Risk, other.Risks[scheme])
			near(t, scheme+" apart", *bits[1].Risks[i].Against, apart[scheme])
		}
		scored := evaluate.Scored{Linked: s.Test.Pairs.Linked, Weights: s.Test.Pairs.Weight}
		for _, x := range z {
			scored.Scores = append(scored.Scores, float64(x))
		}
		want := must(scored.AUC())(t)
		if off := math.Abs(*bits[1].AUC - want); off > bits[1].AUCWithin+1e-12 || bits[1].AUCWithin > 5e-3 {
			t.Errorf("AUC %v, said to be within %v; it is %v", *bits[1].AUC, bits[1].AUCWithin, want)
		}
		for k := range before { // shards only change the order of sums
			for i := range before[k].Risks {
				a, b := before[k].Risks[i], bits[k].Risks[i]
				if relative(a.drawn, b.drawn) > 1e-9 || relative(a.apart, b.apart) > 1e-9 {
					t.Errorf("%s: replicates depend on the cut", a.Scheme)
				}
			}
		}
		before = bits
	}
}

// near compares a value to rounding, and an interval with four standard errors, give or take an eighth.
func near(t *testing.T, what string, got evaluate.Band, want fit.Judgement) {
	t.Helper()
	if math.Abs(got.Value-want.Plain) > 1e-9*math.Abs(want.Plain)+1e-12 {
		t.Errorf("%s: %v, on one machine %v", what, got.Value, want.Plain)
	}
	if ratio := (got.Upper - got.Lower) / (2 * 1.96 * want.Sampling); ratio < .875 || ratio > 1.125 {
		t.Errorf("%s: the interval is %.3f times that of one machine", what, ratio)
	}
	if got.Lower > got.Value || got.Upper < got.Value {
		t.Errorf("%s: %v", what, got)
	}
}

// A replicate is the mean with every pair counted as often as its source was drawn.
func TestReplicatesCountSources(t *testing.T) {
	s := newSetup(t, 100, 4)
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 30, Pairs: 200})
	by := func(n model.Nodes) engine.Predictor { return predictorOf(randomModel(t, n, "diagonal", "constant", 1)) }
	got := must(cluster.HeldRisks(t.Context(), []engine.Predictor{by(must(m.Shape())(t))},
		HeldSettings{Draws: 3, Seed: 7}))(t)
	z, pi, err := engine.Logits(t.Context(), engine.CPU{}, by(s.Problem.Nodes), s.Test.Pairs)
	if err != nil {
		t.Fatal(err)
	}
	var want []float64
	for b := range 3 {
		var sum, weight float64
		for k, i := range s.Test.Pairs.Source {
			belief := must(risk.FromLogits(float64(z[k]), float64(pi[k])))(t)
			times := s.Test.Pairs.Weight[k] * poisson(mixed(mixed(7, uint64(b+1)), uint64(i)))
			seen := risk.Observation{Linked: s.Test.Pairs.Linked[k]}
			sum += times * risk.Estimator{Scheme: risk.AP{}}.Risk(seen, belief)
			weight += times
		}
		want = append(want, sum/weight)
	}
	at := slices.Index(risk.Panel(), "ap")
	if off := relative(got[0].Risks[at].drawn, want); off > 1e-9 {
		t.Errorf("replicates %v, counted one by one %v", got[0].Risks[at].drawn, want)
	}
}

// Counts are those of a Poisson variable of mean 1, and independent between replicates.
func TestPoissonCounts(t *testing.T) {
	var counts [21]float64
	var product float64
	const n = 200_000
	for i := range uint64(n) {
		a, b := poisson(mixed(mixed(1, 1), i)), poisson(mixed(mixed(1, 2), i))
		counts[int(a)]++
		product += a * b / n
	}
	expected := math.Exp(-1)
	for k := range 6 {
		if k > 0 {
			expected /= float64(k)
		}
		if share := counts[k] / n; math.Abs(share-expected) > 4*math.Sqrt(expected/n) {
			t.Errorf("%d times: %.4f, expected %.4f", k, share, expected)
		}
	}
	if math.Abs(product-1) > .015 {
		t.Errorf("replicates depend on each other: %v", product)
	}
}

// Larger logits are never in lower bins.
func TestLogitBinsAscend(t *testing.T) {
	last := -1
	for _, z := range []float32{float32(math.Inf(-1)), -1e9, -64, -8, -7.9, -1, -1e-3, -1e-30, 0, 1e-30, 1e-3, .5, 1,
		1.01, 5, 63.9, 64, 1e9, float32(math.Inf(1))} {
		at := logitBin(z)
		if at < last || at < 0 || at >= aucBins {
			t.Errorf("%v is in bin %d, after %d of %d", z, at, last, aucBins)
		}
		last = at
	}
}
