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
			return strings.HasPrefix(line, "Lists are ordered by the mean of the")
		}) {
			t.Errorf("%s: the verdict says nothing of lists: %q", kind, r.Findings.Verdict)
		}
		like, found := r.alternatives[r.like()].Alternative.String(), false
		want, spread := momentsOf(t, m.Published(), r)
		for _, one := range m.Members {
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
