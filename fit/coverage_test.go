package fit

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// setup is a kind of world on which findings and intervals are compared with the truth.
type setup struct {
	plan        world.Scenario
	pairs, dim  int
	logged      float64
	caseControl bool // pairs from graph.Sample on drawn links, instead of uniform ones
	class       Class
}

var setups = map[string]setup{
	"saturated":            {plan: world.Saturated(), pairs: 8_000, dim: 64, class: Identified},
	"saturated-larger":     {plan: world.Saturated(), pairs: 32_000, dim: 128, class: Identified},
	"saturated-rare":       {plan: world.SaturatedRare(), pairs: 240_000, dim: 32, class: Identified},
	"saturated-rare-few":   {plan: world.SaturatedRare(), pairs: 60_000, dim: 32, class: Weak},
	"flat-rare":            {plan: world.FlatRare(), pairs: 60_000, dim: 32, class: NotIdentified},
	"flat-rare-logged":     {plan: world.FlatRare(), pairs: 60_000, dim: 32, logged: .01, class: Identified},
	"flat-rare-logged-240": {plan: world.FlatRare(), pairs: 240_000, dim: 32, logged: .01, class: Identified},
	"case-control":         {plan: world.Saturated(), dim: 64, caseControl: true, class: Identified},
}

// outcome is how one seed fared.
type outcome struct {
	findings *Findings
	truth    float64 // mean y over all pairs
	cells    float64 // share of propensities within their interval
	ratio    bool    // π_same/π_cross is within its interval
	verdicts map[string]verdict
	took     time.Duration
}

// verdict compares an estimated risk with the true one.
type verdict struct {
	Judgement
	truth float64
}

func (v verdict) covered() bool { return v.Lower <= v.truth && v.truth <= v.Upper }

// plain reports whether an interval that takes π̂ and ŷ for known would have held.
func (v verdict) plain() bool { return math.Abs(v.Plain-v.truth) <= 1.96*v.Sampling }

// try makes a world, fits it and judges two models by held-out pairs: its own and the naive one.
func (s setup) try(t testing.TB, seed uint64) outcome {
	t.Helper()
	ctx := context.Background()
	s.plan.Seed = seed
	nodes := 3000
	if s.caseControl {
		nodes = 1000
	}
	w := must(world.New(ctx, world.Settings{Nodes: nodes, Dim: s.dim, Fields: world.EvenFields(8),
		Scenario: s.plan}))(t)
	w, train, test, all := s.pairsOf(t, w)
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs, Exposure: exposures(train, s.logged)}
	began := time.Now()
	r := mustFit(t, p, Settings{Seed: seed, Starts: []float64{.3}})
	out := outcome{findings: r.Findings, took: time.Since(began), verdicts: map[string]verdict{}}
	learned := 0.
	for k, x := range all.Truth {
		if !s.caseControl || all.Pairs.Source[k]%2 == 0 {
			out.truth += x.Link
			learned++
		}
	}
	out.truth /= learned
	var same, cross, sames, crosses float64
	for _, c := range r.Findings.Cells {
		pi := w.Propensity(c.Source, c.Target)
		if c.Lower <= pi && pi <= c.Upper {
			out.cells += 1 / float64(len(r.Findings.Cells))
		}
		if n := float64(c.Pairs); c.Source == c.Target {
			same, sames = same+n*pi, sames+n
		} else {
			cross, crosses = cross+n*pi, crosses+n
		}
	}
	ratio := same / sames / (cross / crosses)
	out.ratio = r.Findings.Ratio.Lower <= ratio && ratio <= r.Findings.Ratio.Upper

	naive := mustFit(t, sample.Problem{Nodes: p.Nodes, Train: p.Train}, Settings{Method: "naive", Optimiser: "lbfgs"})
	risks := func(m *Result) float64 {
		z := logitsOf(m, all.Pairs)
		var sum risk.Sum
		judged := 0.
		for k, x := range z {
			if s.caseControl && all.Pairs.Source[k]%2 == 0 {
				continue
			}
			y := all.Truth[k].Link
			sum.Add(y*kern.Softplus64(-float64(x)) + (1-y)*kern.Softplus64(float64(x)))
			judged++
		}
		return sum.Value() / judged
	}
	judge := r.Judge()
	evidence := sample.Evidence{Pairs: test.Pairs}
	if !s.caseControl {
		evidence.Exposure = exposures(test, .05)
	}
	for name, e := range must(judge.Panel(ctx, evidence, .05, nil))(t).Risks {
		out.verdicts["own, "+name] = verdict{e, risks(r)}
	}
	for name, e := range must(judge.Panel(ctx, evidence, .05, logitsOf(naive, test.Pairs)))(t).Risks {
		out.verdicts["naive's, "+name] = verdict{e, risks(naive)}
	}
	for name, e := range must(judge.Differences(ctx, evidence, .05, logitsOf(naive, test.Pairs), nil))(t) {
		out.verdicts["naive's less own, "+name] = verdict{e, risks(naive) - risks(r)}
	}
	if s.caseControl { // the training pairs have other sources
		return out
	}
	inside := must(judge.Risk(ctx, p.Training(), risk.Estimator{}, nil))(t)
	out.verdicts["own, ap, by the training pairs"] = verdict{inside, risks(r)}
	return out
}

// pairsOf returns the pairs to learn from, those to judge by, and some that stand for the universe. Where links are
// sampled, the world is that of the linked graph, and every other source is judged by instead of learned from.
func (s setup) pairsOf(t testing.TB, w *world.World) (linked *world.World, train, test, all *world.TruePairs) {
	t.Helper()
	ctx := t.Context()
	if !s.caseControl {
		train = must(w.Pairs(ctx, s.pairs, world.Draw{Logged: s.logged}))(t)
		test = must(w.Pairs(ctx, min(s.pairs, 20_000), world.Draw{Part: 2, Logged: .05}))(t)
		return w, train, test, must(w.Pairs(ctx, 200_000, world.Draw{Part: 1}))(t)
	}
	w = must(w.Linked(ctx))(t)
	order := w.Graph().Order()
	sampled := func(first int32) *world.TruePairs {
		u := graph.Universe{Before: order}
		for i := first; i < int32(w.Graph().Len()); i += 2 {
			u.Sources = append(u.Sources, i)
		}
		pairs, _, err := graph.Sample(w.Graph(), u,
			graph.SampleOptions{PerLink: 1, Src: rand.NewPCG(s.plan.Seed, uint64(first))})
		if err != nil {
			t.Fatal(err)
		}
		return must(w.Reveal(ctx, pairs, s.logged))(t)
	}
	return w, sampled(0), sampled(1), must(w.Pairs(ctx, 100_000, world.Draw{Part: 1, Older: true}))(t)
}

func logitsOf(m *Result, p *graph.Pairs) []float32 {
	z := make([]float32, p.Len())
	m.Link.Logits(z, m.LinkParams, model.Batch{Sources: p.Source, Targets: p.Target})
	return z
}

// exposures returns what the log of a sample says; nil if nothing is logged.
func exposures(s *world.TruePairs, logged float64) []risk.Exposure {
	if logged == 0 {
		return nil
	}
	out := make([]risk.Exposure, s.Pairs.Len())
	for k := range out {
		if s.Logged[k] {
			out[k] = risk.Unexposed
			if s.Exposed[k] {
				out[k] = risk.Exposed
			}
		}
	}
	return out
}

func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// TestCoverage measures how often intervals hold, over many seeds. It takes minutes and asserts
// nothing; it runs where UNSEEN_COVERAGE is a number of seeds. UNSEEN_COVERAGE_FROM is the first of
// them (5000 if unset; thresholds and formulas were chosen on seeds below 2000), and
// UNSEEN_COVERAGE_WORLDS names the setups, separated by commas.
func TestCoverage(t *testing.T) {
	count, _ := strconv.Atoi(os.Getenv("UNSEEN_COVERAGE"))
	if count == 0 {
		t.Skip("set UNSEEN_COVERAGE to a number of seeds")
	}
	from, err := strconv.Atoi(os.Getenv("UNSEEN_COVERAGE_FROM"))
	if err != nil {
		from = 5000
	}
	names := slices.Sorted(maps.Keys(setups))
	if list := os.Getenv("UNSEEN_COVERAGE_WORLDS"); list != "" {
		names = strings.Split(list, ",")
	}
	for _, name := range names {
		classes := map[Class]int{}
		held, plain, width := map[string]int{}, map[string]int{}, map[string]float64{}
		var mean, ratios int
		var cells, square, worst, took float64
		var totals, errs []float64
		for k := range count {
			if testing.Verbose() {
				fmt.Fprintf(os.Stderr, "%s %d\n", name, from+k)
			}
			o := setups[name].try(t, uint64(from+k))
			m := o.findings.MeanLink
			classes[o.findings.Class]++
			if m.Lower <= o.truth && o.truth <= m.Upper {
				mean++
			}
			if o.ratio {
				ratios++
			}
			off := math.Log(m.Value / o.truth)
			totals, errs = append(totals, m.Total()), append(errs, off)
			square += off * off / float64(count)
			worst = math.Max(worst, math.Abs(off))
			cells += o.cells / float64(count)
			took += o.took.Seconds() / float64(count)
			for what, v := range o.verdicts {
				if v.covered() {
					held[what]++
				}
				if v.plain() {
					plain[what]++
				}
				width[what] += (v.Upper - v.Lower) / 2 / v.truth / float64(count)
			}
		}
		slices.Sort(totals)
		share := func(n int) float64 { return float64(n) / float64(count) }
		fmt.Printf("%s: %d seeds from %d, %.1f s a fit; classes %v where %s is expected; SE of log mean ŷ with "+
			"bias %.3f to %.3f (median %.3f)\n", name, count, from, took, classes, setups[name].class, totals[0],
			totals[count-1], totals[count/2])
		fmt.Printf("\tmean ŷ: covered %.2f, root mean square error %.3f, worst %.3f, mean error %+.3f; "+
			"propensities covered %.2f; ratio same/cross covered %.2f\n", share(mean), math.Sqrt(square), worst,
			average(errs), cells, share(ratios))
		for _, what := range slices.Sorted(maps.Keys(width)) {
			fmt.Printf("\t%s: covered %.2f (sampling alone %.2f), half width %.3f of the risk\n", what,
				share(held[what]), share(plain[what]), width[what])
		}
	}
}

func average(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x / float64(len(xs))
	}
	return sum
}
