package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// planted is a small world, what a judge with its truth believes, and pairs to judge by.
func planted(t *testing.T) (*world.World, *fit.Judge, *world.TruePairs) {
	t.Helper()
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 300, Dim: 16, Fields: world.EvenFields(3),
		Scenario: world.Scenario{Seed: 5}}))(t)
	nodes := model.NodesOf(w.Graph())
	link := must(model.NewDiagonal(nodes, false))(t)
	propensity := must(model.NewFieldMatrix(nodes))(t)
	j := &fit.Judge{Predictor: engine.Predictor{Link: link, Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size())}}
	j.LinkParams = append(slices.Clone(w.Weights()), float32(w.Bias()))
	for at, pi := range w.Propensities() {
		j.PropensityParams[at] = float32(math.Log(pi / (1 - pi)))
	}
	return w, j, must(w.Pairs(ctx, 20_000, world.Draw{Part: 2}))(t)
}

// With the truth for nuisances the corrected estimators are right, and the naive one is wrong by what
// the lemma says.
func TestPanelOfTheTruth(t *testing.T) {
	_, j, test := planted(t)
	p := must(NewPanel(context.Background(), j, sample.Evidence{Pairs: test.Pairs}, PanelSettings{}))(t)
	var truth float64
	for k, t := range test.Truth {
		z := test.Logits[k]
		truth += (t.Link*lossOf(z) + (1-t.Link)*lossOf(-z)) / float64(len(test.Truth))
	}
	for _, row := range p.Risks {
		inside := row.Risk.Lower <= truth && truth <= row.Risk.Upper
		if inside == (row.Scheme == "naive") {
			t.Errorf("%s: true risk %.4f, interval %.4f to %.4f", row.Scheme, truth, row.Risk.Lower, row.Risk.Upper)
		}
		if row.Scheme != "naive" && math.Abs(row.Bias) > 1e-6 {
			t.Errorf("%s has a bias of %v although π̂ and ŷ are the truth", row.Scheme, row.Bias)
		}
	}
	if naive := p.Risks[0]; naive.Scheme != "naive" || math.Abs(naive.Bias) < .01 {
		t.Errorf("naive's bias is %v, a clear one is expected", naive.Bias)
	}
}

// The moments are those of package risk where the predictions are the belief's own, and those of a
// direct sum over the outcomes where they are another's.
func TestMomentsAgreeWithDirectSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	n := 200
	beliefs, own, other, weights := make([]risk.Belief, n), make([]bool, n), make([]bool, n), make([]float64, n)
	for k := range beliefs {
		beliefs[k] = must(risk.FromLogits(rng.NormFloat64()*2, rng.NormFloat64()))(t)
		own[k], other[k], weights[k] = beliefs[k].Predicted(), rng.IntN(2) == 0, 1
	}
	for i, l := range lemmas {
		for _, factor := range []float64{.7, 1, 1.4} {
			truths := make([]risk.Truth, n)
			for k, b := range beliefs {
				truths[k] = supposed(b, factor)
			}
			moments, want := momentsOf(beliefs, own, weights, factor)[i],
				must(risk.ClosedForm(l.Lemma, 1, truths, beliefs))(t)
			if math.Abs(moments.Bias-want.Bias) > 1e-9 || math.Abs(moments.Variance-want.Variance) > 1e-9 {
				t.Errorf("%s at %v: %+v, want %+v", l.name, factor, moments, want)
			}
			var bias, variance float64
			for k, b := range beliefs {
				mass := func(linked bool) float64 {
					m := l.Lemma.(risk.Scheme).Mass(risk.Observation{Linked: linked}, b)
					if other[k] {
						return m.Negative
					}
					return m.Positive
				}
				truth := truths[k].Link
				if other[k] {
					truth = 1 - truth
				}
				p := truths[k].Link * truths[k].Propensity
				bias += (p*mass(true) + (1-p)*mass(false) - truth) / float64(n)
				variance += p * (1 - p) * math.Pow(mass(true)-mass(false), 2) / float64(n*n)
			}
			moments = momentsOf(beliefs, other, weights, factor)[i]
			if math.Abs(moments.Bias-bias) > 1e-9 || math.Abs(moments.Variance-variance) > 1e-9 {
				t.Errorf("%s at %v, another's decisions: %+v, want bias %v, variance %v", l.name, factor, moments,
					bias, variance)
			}
		}
	}
}

func TestPanelRegion(t *testing.T) {
	_, j, test := planted(t)
	p := must(NewPanel(context.Background(), j, sample.Evidence{Pairs: test.Pairs}, PanelSettings{}))(t)
	for _, row := range p.Region {
		switch {
		case row.Factor == 1 && (row.HoldsW != 1 || row.HoldsAP < .999):
			t.Errorf("at the truth the conditions hold for %v and %v of the pairs", row.HoldsW, row.HoldsAP)
		case row.Factor == .5 && row.HoldsW > 0: // π̂ = π/2 ≤ π/(2−π)
			t.Errorf("at half the truth w's condition holds for %v of the pairs", row.HoldsW)
		case row.Factor < 1 && row.Bias["pu"]*row.Bias["naive"] > 0:
			t.Errorf("at %v pu and naive err in the same direction: %v", row.Factor, row.Bias)
		}
	}
}

func TestPanelExact(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	w, j, test := planted(t)
	ctx := context.Background()
	g := must(w.Linked(ctx))(t).Graph()
	pairs := must(graph.AllPairs(g, graph.Universe{}, 1<<20))(t)
	p := must(NewPanel(ctx, j, sample.Evidence{Pairs: pairs}, PanelSettings{Graph: g}))(t)
	for _, row := range p.Risks {
		if row.Exact == nil || math.Abs(*row.Exact-row.Risk.Plain) > 1e-5*math.Abs(row.Risk.Plain) {
			t.Errorf("%s: exactly %v, from a sample of everything %v", row.Scheme, row.Exact, row.Risk.Plain)
		}
	}
	other := make([]float32, test.Pairs.Len())
	p = must(NewPanel(ctx, j, sample.Evidence{Pairs: test.Pairs}, PanelSettings{Graph: g, Predictions: other}))(t)
	if p.Exact != nil {
		t.Error("another model's predictions are said to be exact")
	}
	if text := must(json.Marshal(p))(t); !strings.Contains(string(text), `"scheme":"ap","risk":{"estimate":`) {
		t.Errorf("%s", text)
	}
}

// What is computed over all pairs is what the sample of them estimates: the same sources, the same order of time, the
// same floor, the same correction. It lies within the sampling error, for pairs drawn again and again.
func TestPanelExactIsWhatTheSampleEstimates(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEvaluation and TestAllPairs of engine have the same goroutines")
	ctx := context.Background()
	w, j, _ := planted(t)
	g := must(w.Linked(ctx))(t).Graph()
	for k := range j.PropensityParams {
		if j.PropensityParams[k]--; k%2 == 1 {
			j.PropensityParams[k] = -6 // far below the floor
		}
	}
	order := g.Order()
	u := must(order.SplitByShare(graph.Shares{}))(t).Universe(graph.Test)
	u.Before = order
	const draws = 24
	apart := map[string]float64{}
	for seed := range uint64(draws) {
		pairs, _, err := graph.Sample(g, u, graph.SampleOptions{Src: rand.NewPCG(seed, 1)})
		if err != nil {
			t.Fatal(err)
		}
		p := must(NewPanel(ctx, j, sample.Evidence{Pairs: pairs}, PanelSettings{Floor: .01, Graph: g, Universe: u}))(t)
		if count, _, _ := u.Count(g); p.Exact.Pairs != count {
			t.Fatalf("%d pairs are summed, the sample is of %d", p.Exact.Pairs, count)
		}
		for _, row := range p.Risks {
			off := (*row.Exact - row.Risk.Interval.Estimate) / row.Risk.Sampling
			if apart[row.Scheme] += off / draws; math.Abs(off) > 4 {
				t.Errorf("seed %d, %s: %v over all pairs, %v from a sample, %.1f standard errors apart", seed,
					row.Scheme,
					*row.Exact, row.Risk.Interval.Estimate, off)
			}
		}
	}
	for scheme, off := range apart { // standard errors cluster by source and are too large for one set of sources
		if math.Abs(off) > .6 {
			t.Errorf("%s: the sample is %.2f of its standard errors off on average", scheme, off)
		}
	}
}

func TestCertify(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 600, Dim: 16, Fields: world.EvenFields(3),
		Scenario: world.Scenario{Seed: 8}}))(t)
	var phases []string
	s := CertificateSettings{Fit: fit.Settings{Replicates: 2}, Pairs: 8000, Tests: 8000, Repeats: 2, Seed: 4,
		Weights: w.Weights()}
	s.Progress = func(e progress.Event) { phases = append(phases, e.Message) }
	c := must(Certify(ctx, w.Graph(), s))(t)
	ap := c.Risks[3]
	switch {
	case c.Method != "bayes" || c.Repeats != 2 || ap.Scheme != "ap":
		t.Errorf("%+v", c)
	case c.AUC > c.OracleAUC || c.AUC < c.OracleAUC-.02:
		t.Errorf("AUC %v with an oracle's of %v", c.AUC, c.OracleAUC)
	case c.NaiveRisk < c.TrueRisk*1.1:
		t.Errorf("naive risk %v, bayes %v", c.NaiveRisk, c.TrueRisk)
	case ap.RMSE > .05 || c.Risks[0].RMSE < 2*ap.RMSE || c.Risks[0].Covered > 0 || ap.Covered == 0:
		t.Errorf("risks %+v", c.Risks)
	case math.Abs(c.MeanLink-1) > .2 || c.Propensity > .5:
		t.Errorf("mean ŷ %v of the truth, propensities off by %v", c.MeanLink, c.Propensity)
	case len(phases) != 8 || len(c.Words()) < 3:
		t.Errorf("phases %q, words %q", phases, c.Words())
	}
}

func TestCertifyRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var b graph.Builder
	for _, id := range []string{"a", "b", "c"} {
		must(b.AddNode(graph.Node{ID: id}))(t)
	}
	bare, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Certify(ctx, bare, CertificateSettings{}); !errors.Is(err, world.ErrGraph) {
		t.Errorf("a graph without vectors: %v", err)
	}
	half := must(graph.NewVectors(3, 2))(t) // of people without texts
	if err := half.Set(2, []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	var sided graph.Builder
	for id, role := range map[string]graph.Role{"a": graph.SourceOnly, "b": graph.SourceOnly} {
		must(sided.AddNode(graph.Node{ID: id, Role: role}))(t)
	}
	must(sided.AddNode(graph.Node{ID: "c", Role: graph.TargetOnly}))(t)
	people, _, err := sided.Build()
	if err == nil {
		people, err = people.WithVectors(half)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Certify(ctx, people, CertificateSettings{}); !errors.Is(err, world.ErrGraph) ||
		!strings.Contains(err.Error(), "no source has a vector") {
		t.Errorf("people without vectors: %v", err)
	}
	w := must(world.New(ctx, world.Settings{Nodes: 60, Dim: 4, Fields: world.EvenFields(2)}))(t)
	if _, err := Certify(ctx, w.Graph(), CertificateSettings{Repeats: -1}); err == nil {
		t.Error("negative repeats are taken")
	}
	cancel()
	if _, err := Certify(ctx, w.Graph(), CertificateSettings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Warnings call the estimators what the table above them does.
func TestWarningsNameEstimators(t *testing.T) {
	row := func(scheme string, lower, upper float64) PanelRow {
		return PanelRow{Scheme: scheme, Risk: fit.Judgement{Interval: risk.Interval{Estimate: lower, Lower: lower,
			Upper: upper}}}
	}
	p := Panel{Risks: []PanelRow{row("naive", 5, 6), row("w", 0, 10), row("pu", 0, 20), row("ap", 1, 2)}}
	p.warn()
	said := strings.Join(p.Warnings, "\n")
	for _, want := range []string{"interval of R_w is 10 times", "interval of R_PU is 20 times"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
}

// A log-loss is never negative, and no interval of one says so; R_PU is a difference, and may be.
func TestRisksAreNotBelowZero(t *testing.T) {
	e := fit.Judgement{Interval: risk.Interval{Estimate: -1, Lower: -58, Upper: 141}}
	for _, scheme := range append(risk.Panel(), "dr") {
		row := PanelRow{Scheme: scheme, Risk: possible(scheme, e)}
		low, estimate := 0., 0.
		if scheme == "pu" {
			low, estimate = -58, -1
		}
		if got := row.Risk; got.Lower != low || got.Estimate != estimate || got.Upper != 141 {
			t.Errorf("%s: %v to %v around %v", scheme, got.Lower, got.Upper, got.Estimate)
		}
		own := &point{risks: map[string][]float64{scheme: {20}}}
		row.setOver([]*point{{risks: map[string][]float64{scheme: {-40}}, as: own}}, 0)
		if row.Set.Low < 0 != (scheme == "pu") {
			t.Errorf("%s: the assumptions allow %v", scheme, row.Set.Low)
		}
	}
}
