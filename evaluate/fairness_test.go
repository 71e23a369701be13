package evaluate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// threeGroups are 12 nodes, four of each.
func threeGroups() Groups {
	g := Groups{By: "letter", Names: []string{"a", "b", "c"}}
	for i := range 12 {
		g.Of = append(g.Of, int32(i%3))
	}
	return g
}

// discounts of groups in a list: what merit must be for the list to be proportional.
func discounts(g Groups, list []int32) []float64 {
	out := make([]float64, len(g.Names))
	for p, j := range list {
		out[g.Of[j]] += 1 / math.Log2(float64(p)+2)
	}
	return out
}

func alike(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

func exactly(t *testing.T, what string, b Band, want float64) {
	t.Helper()
	if !alike(b.Value, want) || !alike(b.Lower, want) || !alike(b.Upper, want) {
		t.Errorf("%s is %+v, want %v whatever sources are drawn", what, b, want)
	}
}

// Where every list gives each group attention in proportion to its merit, every ratio is 1 and nothing is misplaced,
// whichever sources are drawn and however large the merits are.
func TestProportionalListsAreFair(t *testing.T) {
	g := threeGroups()
	random := rand.New(rand.NewPCG(1, 1))
	var shown []Shown
	for range 40 {
		var list []int32
		for _, j := range random.Perm(12)[:7] {
			list = append(list, int32(j))
		}
		merit := discounts(g, list)
		scale := math.Exp(3 * random.NormFloat64())
		for k := range merit {
			merit[k] *= scale
		}
		shown = append(shown, Shown{list, merit})
	}
	f, err := NewFairness(g, shown, 7, 200, 1)
	if err != nil {
		t.Fatal(err)
	}
	exactly(t, "least/most", f.Least, 1)
	exactly(t, "Gini", f.Gini, 0)
	exactly(t, "distance", f.Distance, 0)
	for _, group := range f.Groups {
		exactly(t, "the ratio of "+group.Name, *group.Ratio, 1)
	}
}

// One group has every place: it has 1/merit times its due, the others nothing, and the measures are at their extremes.
func TestMonopoly(t *testing.T) {
	g := threeGroups()
	var shown []Shown
	for range 20 {
		shown = append(shown, Shown{[]int32{1, 4, 7, 10}, []float64{1, 2, 5}}) // all of b
	}
	f, err := NewFairness(g, shown, 4, 50, 1)
	if err != nil {
		t.Fatal(err)
	}
	exactly(t, "least/most", f.Least, 0)
	exactly(t, "Gini", f.Gini, 1-2./8)
	exactly(t, "distance", f.Distance, 1-2./8)
	if names := []string{f.Groups[0].Name, f.Groups[1].Name, f.Groups[2].Name}; !reflect.DeepEqual(names,
		[]string{"c", "b", "a"}) {
		t.Errorf("groups are in the order %v, want the largest merit first", names)
	}
	exactly(t, "the monopolist's ratio", *f.Groups[1].Ratio, 4)
	exactly(t, "another's ratio", *f.Groups[0].Ratio, 0)
}

// A group to which hardly a place is due does not decide who is served least; one to which many are does.
func TestFewPlacesDoNotCount(t *testing.T) {
	g := threeGroups()
	for _, c := range []struct {
		merit float64
		few   bool
		least float64
	}{{.0001, true, 1}, {1, false, 0}} {
		var shown []Shown
		for range 20 { // a and b take turns, c is never shown
			shown = append(shown, Shown{[]int32{0, 1, 3, 4}, []float64{1, 1, c.merit}},
				Shown{[]int32{1, 0, 4, 3}, []float64{1, 1, c.merit}})
		}
		f, err := NewFairness(g, shown, 4, 10, 1)
		if err != nil {
			t.Fatal(err)
		}
		if last := f.Groups[2]; last.Name != "c" || last.Few != c.few || !alike(f.Least.Value, c.least) {
			t.Errorf("merit %v: %+v, least %v, want %v", c.merit, last, f.Least, c.least)
		}
	}
}

// Against a reference without shortcuts, on random lists: shares add up to 1, the mean ratio by merit is 1, Gini and
// distance are what their sums say, and measures lie where they must.
func TestFairnessAgainstReference(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 9))
		groups := 1 + random.IntN(6)
		g := Groups{Of: make([]int32, 30)}
		for k := range groups {
			g.Names = append(g.Names, string(rune('a'+k)))
		}
		for i := range g.Of {
			g.Of[i] = int32(random.IntN(groups))
		}
		k := 1 + random.IntN(8)
		var shown []Shown
		e, m := make([]float64, groups), make([]float64, groups)
		n := 1 + random.IntN(20)
		for range n {
			var one Shown
			for _, j := range random.Perm(30)[:10] {
				one.List = append(one.List, int32(j))
			}
			for range groups {
				one.Merit = append(one.Merit, random.ExpFloat64())
			}
			shown = append(shown, one)
			attention := discounts(g, one.List[:k])
			normalise(attention)
			merit := slices.Clone(one.Merit)
			normalise(merit)
			for q := range groups {
				e[q] += attention[q] / float64(n)
				m[q] += merit[q] / float64(n)
			}
		}
		var gini, distance float64
		for a := range groups {
			distance += math.Abs(e[a]-m[a]) / 2
			for b := range groups {
				gini += m[a] * m[b] * math.Abs(e[a]/m[a]-e[b]/m[b]) / 2
			}
		}
		f, err := NewFairness(g, shown, k, 20, seed)
		if err != nil {
			t.Fatal(err)
		}
		if !alike(f.Gini.Value, gini) || !alike(f.Distance.Value, distance) {
			t.Errorf("seed %d: Gini %v and distance %v, want %v and %v", seed, f.Gini.Value, f.Distance.Value, gini,
				distance)
		}
		var exposure, merit, mean float64
		for _, q := range f.Groups {
			exposure, merit, mean = exposure+q.Exposure.Value, merit+q.Merit.Value, mean+q.Merit.Value*q.Ratio.Value
		}
		nodes := map[int32]bool{}
		for _, q := range g.Of {
			nodes[q] = true
		}
		if len(nodes) == groups && (!alike(exposure, 1) || !alike(merit, 1) || !alike(mean, 1)) {
			t.Errorf("seed %d: exposure adds up to %v, merit to %v, the mean ratio is %v", seed, exposure, merit, mean)
		}
		if f.Least.Value < 0 || f.Least.Value > 1 || f.Gini.Value >= 1 || f.Distance.Value > 1 ||
			f.Distance.Value < f.Gini.Value-1e-12 && groups == 2 {
			t.Errorf("seed %d: out of bounds: %+v", seed, f)
		}
		again, err := NewFairness(g, shown, k, 20, seed)
		if err != nil || !reflect.DeepEqual(f, again) {
			t.Errorf("seed %d: the same gives another: %v", seed, err)
		}
	}
}

func TestFairnessRefuses(t *testing.T) {
	g := threeGroups()
	good := []Shown{{[]int32{0, 1}, []float64{1, 1, 1}}}
	for name, c := range map[string]struct {
		groups Groups
		shown  []Shown
		k      int
		want   error
	}{
		"no place":        {g, good, 0, ErrCutoff},
		"no source":       {g, nil, 5, ErrEmpty},
		"no list":         {g, []Shown{{nil, []float64{1, 1, 1}}}, 5, ErrEmpty},
		"no merit":        {g, []Shown{{[]int32{0}, []float64{0, 0, 0}}}, 5, ErrEmpty},
		"a strange node":  {g, []Shown{{[]int32{12}, []float64{1, 1, 1}}}, 5, ErrTarget},
		"too few merits":  {g, []Shown{{[]int32{1}, []float64{1, 1}}}, 5, ErrTarget},
		"negative merit":  {g, []Shown{{[]int32{1}, []float64{1, 1, -1}}}, 5, ErrNaN},
		"a strange group": {Groups{Of: []int32{3}, Names: []string{"a"}}, good, 5, ErrTarget},
		"too many groups": {Groups{Names: make([]string, MostGroups+1)}, good, 5, ErrUndefined},
	} {
		if _, err := NewFairness(c.groups, c.shown, c.k, 1, 1); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// linkedWorld is a small graph in time with two models of it.
func linkedWorld(t *testing.T) (*graph.Graph, *sample.Prepared, []model.Model) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 3))
	var b graph.Builder
	const n = 60
	for i := range n {
		if _, err := b.AddNode(graph.Node{ID: string(rune('A' + i)),
			Field: []string{"x", "y", "z"}[random.IntN(3)]}); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < n; i++ {
		for range 3 {
			if err := b.AddLinkIndex(int32(i), int32(random.IntN(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v, err := graph.NewVectors(n, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(n) {
		row := make([]float32, 4)
		for k := range row {
			row[k] = float32(random.NormFloat64())
		}
		if err := v.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	if g, err = g.WithVectors(v); err != nil {
		t.Fatal(err)
	}
	drawn, err := sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{
		Plan: sample.Plan{Shares: graph.Shares{Train: .5, Validation: .1, Test: .4}}}})
	if err != nil {
		t.Fatal(err)
	}
	var models []model.Model
	for range 2 {
		link, err := model.NewLink("diagonal", model.NodesOf(g), model.LinkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := model.Model{Link: link, LinkParams: make([]float32, link.Size())}
		for k := range m.LinkParams {
			m.LinkParams[k] = float32(random.NormFloat64())
		}
		models = append(models, m)
	}
	return g, drawn, models
}

// Some of the candidates are part of the whole, with the links that they had there.
func TestSomeCandidates(t *testing.T) {
	_, drawn, _ := linkedWorld(t)
	all := must(NewCandidates(drawn, graph.Test))(t)
	if all.Of() != len(all.Sources()) {
		t.Errorf("%d of %d sources", len(all.Sources()), all.Of())
	}
	few := must(all.Some(5, 1))(t)
	if len(few.Sources()) != 5 || few.Of() != all.Of() || few.Before() != all.Before() {
		t.Fatalf("%d of %d sources", len(few.Sources()), few.Of())
	}
	for k, i := range few.Sources() {
		place := slices.Index(all.Sources(), i)
		if place < 0 || !slices.Equal(few.Links(k), all.Links(place)) || few.Count(k) != all.Count(place) {
			t.Errorf("node %d is another in the sample", i)
		}
	}
	if most := must(all.Some(1000, 1))(t); !slices.Equal(most.Sources(), all.Sources()) {
		t.Error("a sample of more than all is not all")
	}
	if _, err := all.Some(0, 1); !errors.Is(err, ErrEmpty) {
		t.Errorf("no sources: %v", err)
	}
}

// Groups of people are no groups of targets: who is fair to items counts items.
func TestFairnessOfTwoSides(t *testing.T) {
	t.Parallel()
	g := wholeNumbersOf(t, 300, 4, 5, func(i int) graph.Role {
		return []graph.Role{graph.SourceOnly, graph.TargetOnly}[i%2]
	})
	prepared := must(sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{
		Plan: sample.Plan{Split: sample.RandomLinks}}}))(t)
	held := must(NewCandidates(prepared, graph.Test))(t)
	link := must(model.NewLink("cosine", prepared.Problem.Nodes, model.LinkOptions{}))(t)
	params := make([]float32, link.Size())
	link.Start(params, rand.NewPCG(1, 1))
	found := must(FairnessOf(t.Context(), g, []model.Model{{Link: link, LinkParams: params}},
		FairnessSettings{Held: held, Draws: 20}))(t)
	nodes := 0
	for _, group := range found[0].Groups {
		nodes += group.Nodes
	}
	if nodes != len(g.Targets()) {
		t.Errorf("groups of %d nodes, and there are %d targets", nodes, len(g.Targets()))
	}
}

// The lists are the best candidates by full sort, and both models are judged by the merit that the first sees.
func TestFairnessOf(t *testing.T) {
	g, drawn, models := linkedWorld(t)
	held := must(must(NewCandidates(drawn, graph.Test))(t).Some(10, 1))(t)
	groups := GroupsByField(g)
	const k = 4
	want := make([]*Fairness, 2)
	for m := range models {
		var shown []Shown
		for _, i := range held.Sources() {
			one := Shown{Merit: make([]float64, len(groups.Names))}
			var candidates []int32
			z := make([]float32, g.Len())
			for j := range int32(g.Len()) {
				if j == i || !held.Before().Precedes(j, i) {
					continue
				}
				candidates = append(candidates, j)
				score := make([]float32, 1)
				models[0].Link.Logits(score, models[0].LinkParams,
					model.Batch{Sources: []int32{i}, Targets: []int32{j}})
				one.Merit[groups.Of[j]] += 1 / (1 + math.Exp(-float64(score[0])))
				models[m].Link.Logits(z[j:j+1], models[m].LinkParams,
					model.Batch{Sources: []int32{i}, Targets: []int32{j}})
			}
			slices.SortStableFunc(candidates, func(a, b int32) int {
				if z[a] > z[b] {
					return -1
				}
				if z[a] < z[b] {
					return 1
				}
				return 0
			})
			one.List = candidates[:k]
			shown = append(shown, one)
		}
		want[m] = must(NewFairness(groups, shown, k, 100, 1))(t)
	}
	for _, threads := range []int{0, 1, 3} {
		got, err := FairnessOf(t.Context(), g, models, FairnessSettings{K: k, Held: held, Draws: 100, Seed: 1,
			Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		for m := range got {
			for q := range got[m].Groups {
				a, b := got[m].Groups[q], want[m].Groups[q]
				if a.Name != b.Name || a.Exposure != b.Exposure || math.Abs(a.Merit.Value-b.Merit.Value) > 1e-6 {
					t.Errorf("%d threads, model %d: %+v, want %+v", threads, m, a, b)
				}
			}
		}
		if got[0].Groups[0].Merit != got[1].Groups[0].Merit {
			t.Error("the models are judged by different merit")
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := FairnessOf(stopped, g, models, FairnessSettings{Held: held}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// The interval of a mean is that of theory where there are many sources, and measures without a value are passed over.
func TestBootstrap(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	const n = 400
	x := make([]float64, n)
	var mean, square float64
	for i := range x {
		x[i] = random.NormFloat64()
		mean += x[i] / n
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / n
	}
	bands := Bootstrap(n, 4000, 1, func(times []float64) []float64 {
		var sum, count float64
		for i, k := range times {
			sum += k * x[i]
			count += k
		}
		if count != n {
			t.Fatalf("%v sources were drawn", count)
		}
		odd := math.NaN()
		if times[0] > 0 {
			odd = 7
		}
		return []float64{sum / n, odd, math.NaN()}
	})
	reach := 1.96 * math.Sqrt(square/n)
	if b := bands[0]; !alike(b.Value, mean) || math.Abs(b.Upper-mean-reach) > .1*reach ||
		math.Abs(mean-reach-b.Lower) > .1*reach {
		t.Errorf("%+v, want %v ± %v", b, mean, reach)
	}
	if bands[1] != (Band{7, 7, 7}) || !math.IsNaN(bands[2].Value) {
		t.Errorf("%+v", bands)
	}
}
