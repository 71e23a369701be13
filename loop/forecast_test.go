package loop

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/world"
)

// knowing is a world and a model of it that knows the truth.
func knowing(t testing.TB, nodes, fields int) (*world.World, model.Model) {
	t.Helper()
	w, err := world.New(context.Background(), world.Settings{Nodes: nodes, Dim: 12, Fields: world.EvenFields(fields),
		Scenario: world.Scenario{Seed: 4, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	n := model.NodesOf(w.Graph())
	link, err := model.NewDiagonal(n, false)
	if err != nil {
		t.Fatal(err)
	}
	propensity, err := model.NewFieldMatrix(n)
	if err != nil {
		t.Fatal(err)
	}
	m := model.Model{Link: link, LinkParams: append(w.Weights(), float32(w.Bias())), Propensity: propensity}
	for _, p := range w.Propensities() {
		m.PropensityParams = append(m.PropensityParams, float32(math.Log(p/(1-p))))
	}
	return w, m
}

// With few nodes the present is exact, the future that of the process, and a model that knows the
// truth is right about it.
func TestForecastIsExact(t *testing.T) {
	t.Parallel()
	w, m := knowing(t, 90, 3)
	g := w.Graph()
	f, err := NewForecast(context.Background(), m, g, ForecastSettings{Rounds: 4, Truth: w.Truth, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !f.Exact || len(f.Fields) != 3 {
		t.Fatalf("exact %t, %d fields", f.Exact, len(f.Fields))
	}
	for _, field := range f.Fields {
		var seen, relevant float64
		n := 0.
		rates := make([]float64, 4) // mean πy to each field
		for i := range int32(g.Len()) {
			if g.Field(i) != field.Field {
				continue
			}
			var own, all, ownY, allY float64
			for j := range int32(g.Len()) {
				if i == j {
					continue
				}
				truth := w.Truth(i, j)
				all, allY = all+truth.Propensity*truth.Link, allY+truth.Link
				if g.Field(j) == field.Field {
					own, ownY = own+truth.Propensity*truth.Link, ownY+truth.Link
				}
				size := 30.
				if g.Field(j) == field.Field {
					size--
				}
				rates[g.Field(j)] += truth.Propensity * truth.Link / size / 30
			}
			seen, relevant, n = seen+own/all, relevant+ownY/allY, n+1
		}
		near := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-4 {
				t.Errorf("%s of %s is %v, want %v", what, field.Name, got, want)
			}
		}
		near("the naive share", field.Naive[0].Share, seen/n)
		near("the corrected share", field.Corrected[0].Share, relevant/n)
		near("the true share", *field.Truth, relevant/n)
		for _, shares := range [][]Share{field.Naive, field.Corrected} {
			for _, s := range shares {
				if !(s.Low <= s.Share && s.Share <= s.High && s.Low < s.High && s.Low >= 0 && s.High <= 1) {
					t.Errorf("share %+v", s)
				}
			}
		}
		// A field's share grows by its rate over the mean rate of what is recommended.
		first, second := field.Naive[0].Share, field.Naive[1].Share
		odds := second / (1 - second) / (first / (1 - first))
		least, most := math.Inf(1), 0.
		for v, r := range rates[1:] {
			if v+1 != int(field.Field) {
				least, most = min(least, rates[field.Field]/r), max(most, rates[field.Field]/r)
			}
		}
		if odds < least*(1-1e-6) || odds > most*(1+1e-6) {
			t.Errorf("%s: the odds grow by %v in a round, outside [%v, %v]", field.Name, odds, least, most)
		}
		say := strings.Join(field.Sentences("paper"), " ")
		for _, words := range []string{"Of 100 recommendations to a paper in " + field.Name, "after 4 rounds",
			"Corrected for exposure", "By relevance alone"} {
			if !strings.Contains(say, words) {
				t.Errorf("%q does not say %q", say, words)
			}
		}
	}
}

// Sampled pairs come near all pairs, and threads change nothing.
func TestForecastOfASample(t *testing.T) {
	t.Parallel()
	w, m := knowing(t, 600, 3)
	s := ForecastSettings{Rounds: 3, Seed: 2, Threads: 1, Replicates: 50}
	all := s
	all.Sources, all.Targets = 1000, 1000
	exact, err := NewForecast(context.Background(), m, w.Graph(), all)
	if err != nil {
		t.Fatal(err)
	}
	s.Sources, s.Targets = 60, 60
	one, err := NewForecast(context.Background(), m, w.Graph(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.Threads = 4
	four, err := NewForecast(context.Background(), m, w.Graph(), s)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one.Fields, four.Fields) {
		t.Error("the forecast depends on the number of threads")
	}
	if !exact.Exact || one.Exact {
		t.Errorf("exact is %t and %t", exact.Exact, one.Exact)
	}
	for k, f := range one.Fields {
		if got, want := f.Naive[0].Share, exact.Fields[k].Naive[0].Share; math.Abs(got-want) > .06 {
			t.Errorf("%s: %v by a sample, %v by all pairs", f.Name, got, want)
		}
		if f.Truth != nil {
			t.Errorf("%s has a truth that was not given", f.Name)
		}
	}
}

func TestForecastRejects(t *testing.T) {
	t.Parallel()
	w, m := knowing(t, 30, 3)
	g := w.Graph()
	ctx := context.Background()
	var b graph.Builder
	for _, id := range []string{"a", "b"} {
		if _, err := b.AddNode(graph.Node{ID: id, Field: id}); err != nil {
			t.Fatal(err)
		}
	}
	withoutVectors, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	broken := m
	broken.LinkParams = append([]float32{float32(math.NaN())}, m.LinkParams[1:]...)
	for name, c := range map[string]struct {
		m    model.Model
		g    *graph.Graph
		s    ForecastSettings
		want error
	}{
		"no model":   {model.Model{}, g, ForecastSettings{}, ErrModel},
		"parameters": {model.Model{Link: m.Link, Propensity: m.Propensity}, g, ForecastSettings{}, ErrModel},
		"NaN":        {broken, g, ForecastSettings{}, ErrModel},
		"no vectors": {m, withoutVectors, ForecastSettings{}, ErrGraph},
		"rounds":     {m, g, ForecastSettings{Rounds: -1}, ErrSetting},
		"level":      {m, g, ForecastSettings{Level: 2}, ErrSetting},
		"shown":      {m, g, ForecastSettings{Shown: maxDraws + 1}, ErrSetting},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewForecast(ctx, c.m, c.g, c.s); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := NewForecast(stopped, m, g, ForecastSettings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The forecast of all fields is their mean by nodes, and exploring pulls it towards what there is.
func TestForecastOfAll(t *testing.T) {
	t.Parallel()
	w, m := knowing(t, 90, 3)
	g := w.Graph()
	f, err := NewForecast(t.Context(), m, g, ForecastSettings{Rounds: 6, Replicates: 20, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		var naive, corrected, nodes float64
		for _, field := range f.Fields {
			n := float64(field.Nodes)
			nodes += n
			naive += n * field.Naive[round].Share
			corrected += n * field.Corrected[round].Share
		}
		all := [2]Share{f.All.Naive[round], f.All.Corrected[round]}
		if math.Abs(all[0].Share-naive/nodes) > 1e-12 || math.Abs(all[1].Share-corrected/nodes) > 1e-12 {
			t.Errorf("round %d: %v, of the fields %v and %v", round+1, all, naive/nodes, corrected/nodes)
		}
		for _, s := range all {
			if s.Round != round+1 || !(s.Low <= s.Share && s.Share <= s.High) || s.Low == s.High {
				t.Errorf("round %d: %+v", round+1, s)
			}
		}
	}
	explored, err := NewForecast(t.Context(), m, g, ForecastSettings{Rounds: 6, Replicates: 20, Seed: 3, Explore: .3,
		ShownOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := explored.All.Naive[5].Share, f.All.Naive[5].Share; a >= b {
		t.Errorf("exploring a third and learning from what was shown, %v stay; otherwise %v", a, b)
	}
	if _, err := NewForecast(t.Context(), m, g, ForecastSettings{Explore: 2}); !errors.Is(err, ErrSetting) {
		t.Errorf("a share of 2: %v", err)
	}
}

// Of people and items the first round is the share of items of the person's field; without shared fields, of the field
// that most of their links go to. Long because both cases are compared with one sum over all pairs.
func TestForecastOfTwoSides(t *testing.T) {
	t.Parallel()
	w, m := knowing(t, 90, 3)
	old := w.Graph()
	rebuilt := func(role func(i int32) graph.Role, links ...graph.Link) *graph.Graph {
		var b graph.Builder
		for f := 1; f < old.FieldCount(); f++ {
			if _, err := b.AddField(old.FieldName(uint16(f))); err != nil {
				t.Fatal(err)
			}
		}
		for i := range int32(old.Len()) {
			if _, err := b.AddNode(graph.Node{ID: old.ID(i), Field: old.FieldName(old.Field(i)),
				Role: role(i)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range links {
			if err := b.AddLink(old.ID(l.Source), old.ID(l.Target)); err != nil {
				t.Fatal(err)
			}
		}
		g, _, err := b.Build()
		if err == nil {
			g, err = g.WithVectors(old.Vectors())
		}
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := rebuilt(func(i int32) graph.Role { return []graph.Role{graph.SourceOnly, graph.TargetOnly}[i%2] })
	f, err := NewForecast(t.Context(), m, g, ForecastSettings{Rounds: 2, Threads: 1})
	if err != nil || !f.Exact || len(f.Fields) != 3 {
		t.Fatalf("%v, %+v", err, f)
	}
	check := func(g *graph.Graph, field FieldForecast, of uint16) {
		var sum, n float64
		for _, i := range g.Sources() {
			if g.Field(i) != field.Field {
				continue
			}
			var own, all float64
			for _, j := range g.Targets() {
				y := w.Truth(i, j).Link
				if all += y; g.Field(j) == of {
					own += y
				}
			}
			sum, n = sum+own/all, n+1
		}
		if field.Nodes != int(n) || math.Abs(field.Corrected[0].Share-sum/n) > 1e-4 {
			t.Errorf("%s: %d people with a share of %v, not %v with %v", field.Name, field.Nodes,
				field.Corrected[0].Share, n, sum/n)
		}
	}
	for _, field := range f.Fields {
		check(g, field, field.Field)
	}
	first := func(i int32) graph.Role {
		if old.Field(i) == 1 {
			return graph.SourceOnly
		}
		return graph.TargetOnly
	}
	apart := rebuilt(first)
	if _, err := NewForecast(t.Context(), m, apart, ForecastSettings{}); !errors.Is(err, ErrGraph) {
		t.Errorf("people and items without a field in common, nor a link: %v", err)
	}
	var links []graph.Link
	for _, j := range apart.Targets() {
		for _, i := range apart.Sources()[:apart.Field(j)] { // two links to every target of field 2, three of field 3
			links = append(links, graph.Link{Source: i, Target: j})
		}
	}
	g = rebuilt(first, links...)
	f, err = NewForecast(t.Context(), m, g, ForecastSettings{Rounds: 2, Threads: 1})
	if err != nil || len(f.Fields) != 1 || f.Fields[0].Own != old.FieldName(g.OwnFields()[1]) {
		t.Fatalf("%v, %+v", err, f)
	}
	check(g, f.Fields[0], g.OwnFields()[1])
}
