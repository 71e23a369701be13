package fit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
)

// Every assumption that stays is kept as a ranker, in units of the published z: over the training pairs its mean and
// its spread are those of z, and the one that assumes what is published is the published model.
func TestMembersAreKept(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	p := checkpointProblem(t, 1)
	for kind, compared := range map[string]int{"bayes": 0, "terms": 0, "whole": 0, "a part": 300} {
		s := resumables[kind]
		if s.Method == "" {
			s = resumables["bayes"]
		}
		s.compared = compared
		r, err := Fit(context.Background(), p, s)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Model()
		if err != nil {
			t.Fatal(err)
		}
		staying := 0
		for _, c := range r.Findings.Set.Members {
			if c.Stays {
				staying++
			}
		}
		l := r.Findings.Lists
		if staying < 2 || len(m.Members) != staying || l == nil || l.Members != staying || l.K != 10 ||
			l.Sources == 0 || !(l.Agreed >= 0 && l.Agreed <= 10) || l.Naive == nil ||
			!(*l.Naive >= 0 && *l.Naive <= 10) {
			t.Fatalf("%s: %d members stay, %d are kept; %+v", kind, staying, len(m.Members), l)
		}
		if !slices.ContainsFunc(r.Findings.Verdict, func(line string) bool {
			return strings.HasPrefix(line, "Lists are ordered by a mean of the")
		}) {
			t.Errorf("%s: the verdict says nothing of lists: %q", kind, r.Findings.Verdict)
		}
		like, found := r.alternatives[r.like()].Alternative.String(), false
		want, spread := momentsOf(t, m.Published(), r)
		for _, one := range m.Members {
			if !(one.Weight > 0 && one.Weight <= 1) {
				t.Errorf("%s: %s counts %v", kind, one.Name, one.Weight)
			}
			if one.Name == like {
				found = slices.Equal(one.LinkParams, m.LinkParams) && one.Popularity == 0
			}
			if kind != "bayes" && kind != "terms" || one.Popularity != 0 {
				continue // moments are those of the compared pairs, with the popularity that was known then
			}
			mean, deviation := momentsOf(t, model.Ranker{Link: m.Link, Params: one.LinkParams}, r)
			if math.Abs(mean-want) > .01*spread || math.Abs(deviation/spread-1) > .01 {
				t.Errorf("%s: %s: %v ± %v, the published z is %v ± %v", kind, one.Name, mean, deviation, want, spread)
			}
		}
		if !found && kind != "terms" { // whose own assumption may not stay
			t.Errorf("%s: the published model is not among the members", kind)
		}
	}
}

// momentsOf returns the weighted mean and deviation of a ranker's logits over the training pairs.
func momentsOf(t *testing.T, by model.Ranker, r *Result) (mean, deviation float64) {
	t.Helper()
	z, _, err := engine.Logits(t.Context(), engine.CPU{}, engine.Predictor{Link: by.Link, LinkParams: by.Params},
		r.problem.Train)
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{}
	c.chosen = r.problem.Training()
	return c.moments(func(k int) float64 { return float64(z[k]) })
}

// A few sources, always the same, are never recommended what they link to; of many targets some are looked at.
func TestListsBy(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	link, err := model.NewDiagonal(p.Nodes, false)
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, link.Size())
	for i := range params {
		params[i] = float32(i%3) - 1
	}
	popular := model.Ranker{Link: link, Params: params, Slope: 100, Popularity: make([]float32, p.Nodes.Len())}
	popular.Popularity[7] = 1
	lists, err := listsBy(t.Context(), engine.CPU{}, p, []model.Ranker{{Link: link, Params: params}, popular})
	if err != nil {
		t.Fatal(err)
	}
	for k, s := range listedSources(p.Nodes.Len(), p.Train) {
		for _, list := range lists[k] {
			if len(list) != listLength {
				t.Fatalf("source %d has a list of %d", s.node, len(list))
			}
			for _, j := range list {
				if slices.Contains(s.skip, j) {
					t.Errorf("source %d is recommended %d, which it links to", s.node, j)
				}
			}
		}
		if first := lists[k][1][0]; first != 7 && !slices.Contains(s.skip, 7) {
			t.Errorf("source %d has %d first, not what all link to", s.node, first)
		}
	}
	among, search, err := listTargets(p.Nodes, p.Nodes.Vectors, popular.Popularity, 20)
	if err != nil || len(among) != 20 || search.Targets.Len() != 20 {
		t.Fatalf("%v: %d targets", err, len(among))
	}
	a, b := make([]float32, p.Nodes.Vectors.Dim()), make([]float32, p.Nodes.Vectors.Dim())
	for at, j := range among {
		search.Targets.Load(a, int32(at))
		p.Nodes.Vectors.Load(b, j)
		if !slices.Equal(a, b) || search.Fields[at] != p.Nodes.Fields[j] || search.Values[at] != popular.Popularity[j] {
			t.Errorf("target %d is not node %d", at, j)
		}
	}
	if got := shared([]int32{1, 2, 3}, [][]int32{{3, 1, 4}, {1, 3, 5}}); got != 2 {
		t.Errorf("%d shared", got)
	}
}

// Where lists are those of a naive recommender, the verdict says so in one sentence, and what changes.
func TestAsNaive(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[float64]bool{8.9: false, 9: true, 9.6: true} {
		f := &Findings{Lists: &ListFindings{Members: 3, K: listLength, Agreed: 8, Naive: &overlap}}
		f.sayLists()
		if said := strings.Contains(f.Verdict[1], "as a naive recommender would"); said != want || len(f.Verdict) != 2 {
			t.Errorf("%v of 10 are the same: %q", overlap, f.Verdict)
		}
	}
	f := &Findings{}
	if f.sayLists(); len(f.Verdict) != 0 || f.Lists.AsNaive() != "" {
		t.Errorf("of no lists: %q", f.Verdict)
	}
}

// Lists of people and items are made of items.
func TestListTargetsOfTwoSides(t *testing.T) {
	t.Parallel()
	v, err := graph.NewVectors(10, 2)
	if err != nil {
		t.Fatal(err)
	}
	n := model.Nodes{Vectors: v, Fields: make([]uint16, 10), FieldCount: 1, Targets: []int32{1, 4, 5, 8, 9}}
	for most, want := range map[int]int{100: 5, 2: 2} {
		among, search, err := listTargets(n, n.Vectors, nil, most)
		if err != nil || len(among) != want || search.Targets.Len() != want || slices.ContainsFunc(among,
			func(j int32) bool { return !slices.Contains(n.Targets, j) }) {
			t.Errorf("%v of %d at most, %v", among, most, err)
		}
	}
}

// foldsOf makes the folds of an alternative: all alike but for a difference, and a spread that gives it an error.
func foldsOf(worse, spread float64) []float64 {
	out := make([]float64, compareFolds)
	for i := range out {
		out[i] = 10 + worse/compareFolds + spread*float64(i%2*2-1)
	}
	return out
}

// The weight of an alternative in the order of lists goes to 0 where it stops staying, and with it that of all that is
// tried for its sake, so that a few links more change no list by a jump. Roles of popularity count alike, however many
// alternatives have them.
func TestListWeights(t *testing.T) {
	t.Parallel()
	shown, relevant := Alternative{Text: true, Popularity: PopularShown}, Alternative{Text: true,
		Popularity: PopularRelevant}
	probit := func(a Alternative) Alternative { a.Response = engine.Probit; return a }
	// by how much popularity in the exposure is worse than in the relevance; the error makes 4 the leeway
	const spread = 4 / 1.96 / compareFolds * 7.9372539331937721 // of 64 folds, √63
	weights := func(behind float64) map[Alternative]float64 {
		r := &Result{refuted: []Refutation{{Of: ByPopularity, Refuted: true}}}
		add := func(a Alternative, worse, spread float64) {
			r.alternatives = append(r.alternatives, &alternativeFit{Alternative: a, folds: foldsOf(worse, spread),
				terms: []float64{.5, .5}})
		}
		add(Alternative{}, 500, 0)
		add(Alternative{Popularity: PopularShown}, behind+1, spread)
		add(Alternative{Popularity: PopularRelevant}, 200, 0)
		add(Alternative{Text: true}, 500, 0)
		add(shown, behind, spread)
		add(relevant, 0, 0)
		r.refuted = append(r.refuted, Refutation{Of: BySimilarity, Refuted: true})
		if behind < 4 { // else the other responses are not tried with it
			add(probit(shown), behind, spread)
			r.alternatives = append(r.alternatives, &alternativeFit{Alternative: Alternative{Response: engine.Cauchit,
				Text: true, Popularity: PopularShown}, failed: true})
		}
		for _, response := range []engine.Response{engine.Probit, engine.ComplementaryLogLog, engine.Cauchit} {
			add(Alternative{Response: response, Text: true, Popularity: PopularRelevant}, 0, 0)
		}
		if at := r.alternatives[r.reference()].Alternative; at != shown {
			t.Fatalf("the reference is %v", at)
		}
		out := map[Alternative]float64{}
		for k, w := range r.listWeights() {
			out[r.alternatives[k].Alternative] = w
		}
		return out
	}
	sum := func(of map[Alternative]float64, role PopularityRole) (sum float64) {
		for a, w := range of {
			if a.Popularity == role {
				sum += w
			}
		}
		return sum
	}
	for _, behind := range []float64{0, 2, 3.99, 4.01, 50} {
		got := weights(behind)
		if a, b := sum(got, PopularShown), sum(got, PopularRelevant); math.Abs(a-1) > 1e-9 || math.Abs(b-1) > 1e-9 {
			t.Errorf("%v behind: popularity in the exposure counts %v, in the relevance %v", behind, a, b)
		}
		if sum(got, "") != 0 {
			t.Errorf("%v behind: what does not stay counts %v", behind, sum(got, ""))
		}
		for a, w := range got {
			if a.Response == engine.Cauchit && a.Popularity == PopularShown && w != 0 {
				t.Errorf("an alternative without a mode counts %v", w)
			}
		}
	}
	just, gone := weights(3.99), weights(4.01)
	for a := range just {
		if math.Abs(just[a]-gone[a]) > .01 {
			t.Errorf("%v counts %v, and %v with a few links more", a, just[a], gone[a])
		}
	}
	if got := weights(0); math.Abs(got[probit(shown)]-got[shown]) > 1e-9 || !(got[probit(shown)] > .3) {
		t.Errorf("of those that explain the links as well, one counts %v, another %v", got[probit(shown)], got[shown])
	}
	if got := weights(2)[probit(shown)]; !(got > .1 && got < .3) {
		t.Errorf("half way out another response counts %v", got)
	}
}
