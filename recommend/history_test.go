package recommend

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// peopleAndItems are a graph with planted tastes, all its pairs, and what was shown.
func peopleAndItems(t *testing.T, people, items int) (*graph.Graph, sample.Problem) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 5))
	var b graph.Builder
	tastes := make([][3]float64, people+items)
	for k := range people + items {
		n := graph.Node{ID: fmt.Sprint("p", k), Field: fmt.Sprint("segment ", k%2), Role: graph.SourceOnly}
		if k >= people {
			n = graph.Node{ID: fmt.Sprint("i", k), Field: fmt.Sprint("category ", k%3), Role: graph.TargetOnly}
		}
		must(b.AddNode(n))(t)
		tastes[k] = [3]float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
	}
	p := &graph.Pairs{Universe: int64(people * items)}
	var exposure []risk.Exposure
	for i := range people {
		for j := people; j < people+items; j++ {
			z := -1.
			for k := range 3 {
				z += tastes[i][k] * tastes[j][k]
			}
			shown := rng.Float64() < .3+.2*float64((i%2+j)%3)
			linked := shown && rng.Float64() < 1/(1+math.Exp(-z))
			if linked {
				if err := b.AddLinkIndex(int32(i), int32(j)); err != nil {
					t.Fatal(err)
				}
			}
			p.Source, p.Target = append(p.Source, int32(i)), append(p.Target, int32(j))
			p.Linked, p.Weight, p.Rate = append(p.Linked, linked), append(p.Weight, 1), append(p.Rate, 1)
			exposure = append(exposure, risk.Unexposed)
			if shown {
				exposure[len(exposure)-1] = risk.Exposed
			}
		}
	}
	g, _, err := b.Build()
	return must(g, err)(t), sample.Problem{Nodes: model.NodesOf(g), Train: p, Exposure: exposure}
}

// The history of a person who was trained on gives that person's list again: of the first ten, nine on average. The
// threshold was fixed beforehand.
func TestHistoryOfTrainedPeople(t *testing.T) {
	t.Parallel()
	const people, items = 120, 60
	g, p := peopleAndItems(t, people, items)
	learn := func(p sample.Problem, method string) model.Model {
		r := must(fit.Fit(t.Context(), p, fit.Settings{Method: method, Ridge: 1, Threads: 2,
			LinkOptions: model.LinkOptions{Rank: 3}}))(t)
		return must(r.Model())(t)
	}
	blind := p
	blind.Exposure = nil
	naive := learn(blind, "naive")
	for name, c := range map[string]struct {
		model  model.Model
		logged bool
	}{"naive": {naive, false}, "mle": {learn(blind, "mle"), false}, "shown": {learn(p, "shown"), true}} {
		r := must(New(g, c.model, Options{Naive: &naive}))(t)
		overlap, baseline := 0, 0
		for i := range int32(people) {
			var shown []int32
			for k := int(i) * items; c.logged && k < int(i+1)*items; k++ {
				if p.Exposure[k] == risk.Exposed && !p.Train.Linked[k] {
					shown = append(shown, p.Train.Target[k])
				}
			}
			field := g.Field(i)
			source := must(r.History(t.Context(), g.Out(i), shown, &field))(t)
			own := must(r.Top(t.Context(), Query{Source: r.Node(i), K: 10, Compare: true}))(t)
			again := must(r.Top(t.Context(), Query{Source: source, K: 10, Compare: true, Explain: true}))(t)
			if again.Candidates != own.Candidates || again.Field != own.Field {
				t.Fatalf("%s: %d candidates and the field %q, not %d and %q", name, again.Candidates, again.Field,
					own.Candidates, own.Field)
			}
			share := func(a, b []Item) (count int) {
				for _, item := range a {
					if slices.ContainsFunc(b, func(other Item) bool { return other.Node == item.Node }) {
						count++
					}
				}
				return count
			}
			overlap, baseline = overlap+share(again.Items, own.Items), baseline+share(again.Naive, own.Naive)
		}
		t.Logf("%s: %.3f of the first ten, of the naive list %.3f", name, float64(overlap)/people/10,
			float64(baseline)/people/10)
		if overlap < 9*people || baseline < 9*people {
			t.Errorf("%s: %d of %d in the lists, %d in those of the naive model", name, overlap, 10*people, baseline)
		}
	}
}

func TestHistoryRefused(t *testing.T) {
	t.Parallel()
	plain, m, _ := shop(t, 90, "diagonal")
	r := must(New(plain, m, Options{}))(t)
	if _, err := r.History(t.Context(), nil, nil, nil); !errors.Is(err, ErrQuery) {
		t.Errorf("a history for a diagonal model: %v", err)
	}
	g, p := peopleAndItems(t, 30, 20)
	fitted := must(fit.Fit(t.Context(), p, fit.Settings{Method: "mle", Ridge: 1}))(t)
	r = must(New(g, must(fitted.Model())(t), Options{}))(t)
	target := g.Targets()[0]
	for _, c := range []struct {
		linked, shown []int32
		field         uint16
	}{{linked: []int32{0}}, {shown: []int32{-1}}, {linked: []int32{target, 90}}, {field: 99}} {
		if _, err := r.History(t.Context(), c.linked, c.shown, &c.field); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s := must(r.History(t.Context(), []int32{target, target}, nil, nil))(t)
	for _, item := range must(r.Top(t.Context(), Query{Source: s, K: 90}))(t).Items {
		if item.Node == target || !g.IsTarget(item.Node) {
			t.Errorf("%s is recommended", item.ID)
		}
	}
	if _, err := r.Vector(t.Context(), make([]float32, 8), 0); !errors.Is(err, ErrQuery) {
		t.Errorf("a vector for factors: %v", err)
	}
}
