package evaluate_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/model"
	"unseen/world"
)

// judged is a world and a model whose bias is off.
func judged(t *testing.T, bias float32) (*world.World, model.Model) {
	t.Helper()
	w, err := world.New(t.Context(), world.Settings{Nodes: 80, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .95, Seed: 4, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	g := w.Graph()
	nodes := model.NodesOf(g)
	link, err := model.NewLink("diagonal", nodes, model.LinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	propensity, err := model.NewPropensity("constant", nodes, model.PropensityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w, model.Model{Link: link, LinkParams: append(w.Weights(), float32(w.Bias())+bias), Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size())}
}

// logged are lists that were drawn with known probabilities.
func logged(w *world.World, seed uint64, sources, lists int) (shown []evaluate.LoggedList) {
	g := w.Graph()
	rng := rand.New(rand.NewPCG(seed, 9))
	for i := range int32(sources) {
		wanted := make([]bool, g.Len())
		for j := range wanted {
			wanted[j] = rng.Float64() < w.Truth(i, int32(j)).Link
		}
		for range lists {
			l := evaluate.LoggedList{Source: i}
			for j := range int32(g.Len()) {
				p := .05 + .3*w.Truth(i, j).Link
				if j != i && rng.Float64() < p {
					l.Items = append(l.Items, evaluate.LoggedItem{Target: j, Probability: p, Wanted: wanted[j]})
				}
			}
			shown = append(shown, l)
		}
	}
	return shown
}

// trueRisk is the mean log-loss of a model over all pairs of some sources, by y itself.
func trueRisk(w *world.World, m model.Model, sources int) float64 {
	n := w.Graph().Len()
	var sum float64
	for i := range int32(sources) {
		var row float64
		for j := range int32(n) {
			if j == i {
				continue
			}
			z := [1]float32{}
			m.Link.Logits(z[:], m.LinkParams, model.Batch{Sources: []int32{i}, Targets: []int32{j}})
			y, s := w.Truth(i, j).Link, float64(z[0])
			row += y*math.Log1p(math.Exp(-s)) + (1-y)*math.Log1p(math.Exp(s))
		}
		sum += row / float64(n-1)
	}
	return sum / float64(sources)
}

// By what was shown, with the probability of that known, the risk comes out whatever the model believes, and its
// interval holds as often as it says.
func TestFromLog(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	const repeats, sources = 120, 60
	for _, bias := range []float32{0, 1.5, -1.5} { // right, too sure, too shy
		w, m := judged(t, bias)
		truth := trueRisk(w, m, sources)
		var mean, held, believed float64
		for seed := range uint64(repeats) {
			r, err := evaluate.FromLog(t.Context(), w.Graph(), m, logged(w, seed, sources, 2),
				evaluate.LogSettings{Linked: true, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			if r.Sources != sources || r.Lists != 2*sources || r.Wanted == 0 || r.Wanted > r.Items {
				t.Fatalf("%+v", r)
			}
			mean += r.Risk.Estimate / repeats
			believed = r.Believed
			if r.Risk.Lower <= truth && truth <= r.Risk.Upper {
				held += 1. / repeats
			}
		}
		t.Logf("bias %v: true %.4f, by the log %.4f, believed %.4f; intervals hold %.2f", bias, truth, mean, believed,
			held)
		if math.Abs(mean-truth) > .02*truth {
			t.Errorf("bias %v: the log says %.4f on average, the truth is %.4f", bias, mean, truth)
		}
		if held < .88 {
			t.Errorf("bias %v: intervals hold %.2f of the time", bias, held)
		}
		if bias != 0 && math.Abs(believed-truth) < .05*truth {
			t.Errorf("bias %v: the model believes %.4f of a truth of %.4f; the test could not tell", bias, believed,
				truth)
		}
	}
}

func TestFromLogRefuses(t *testing.T) {
	w, m := judged(t, 0)
	shown := logged(w, 1, 40, 1)
	g := w.Graph()
	whole, err := evaluate.FromLog(t.Context(), g, m, shown, evaluate.LogSettings{Linked: true})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := evaluate.FromLog(t.Context(), g, m, shown,
		evaluate.LogSettings{Linked: true, Threads: 3}); err != nil || again.Risk != whole.Risk {
		t.Errorf("%v: three threads have %v, one %v", err, again.Risk, whole.Risk)
	}
	fewer, err := evaluate.FromLog(t.Context(), g, m, shown, evaluate.LogSettings{Linked: true, Sources: 10, Seed: 3})
	if err != nil || fewer.Sources != 10 || len(fewer.Warnings) == 0 {
		t.Errorf("%v, %+v", err, fewer)
	}
	if _, err := evaluate.FromLog(t.Context(), g, m, shown[:1], evaluate.LogSettings{}); !errors.Is(err,
		evaluate.ErrEmpty) {
		t.Errorf("one source: %v", err)
	}
	unknown := slices.Clone(shown)
	unknown[0].Items = []evaluate.LoggedItem{{Target: 5}}
	if r, err := evaluate.FromLog(t.Context(), g, m, unknown, evaluate.LogSettings{Linked: true}); err != nil ||
		r.Sources != 39 || !strings.Contains(r.Warnings[0], "unknown probability") {
		t.Errorf("%v, %+v", err, r)
	}
	for _, item := range []evaluate.LoggedItem{{Target: 500, Probability: .5}, {Target: -1, Probability: .5},
		{Target: 3, Probability: 1.5}, {Target: 3, Probability: math.NaN()}, {Target: 0, Probability: .5}} {
		if _, err := evaluate.FromLog(t.Context(), g, m,
			append(slices.Clone(shown), evaluate.LoggedList{Source: 0, Items: []evaluate.LoggedItem{item}}),
			evaluate.LogSettings{}); err == nil {
			t.Errorf("%+v is taken", item)
		}
	}
}
