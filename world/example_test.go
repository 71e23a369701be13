package world_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"unseen/graph"
	"unseen/risk"
	"unseen/world"
)

// must stands for the error handling of a real program.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// The risk of always predicting ŷ = .1, as links show it and as it is.
func Example() {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 300, Dim: 32, Fields: world.EvenFields(4)}))
	sample := must(w.Pairs(ctx, 20_000, world.Draw{}))
	belief := must(risk.FromProbabilities(.1, .5))
	var pairs []risk.Pair
	for k := range sample.Truth {
		pairs = append(pairs, risk.Pair{Observation: sample.Observation(k), Belief: belief,
			Weight: sample.Pairs.Weight[k]})
	}
	for _, scheme := range []risk.Scheme{risk.Naive{}, risk.True{}} {
		e := must(risk.Estimator{Scheme: scheme}.Estimate(pairs))
		fmt.Printf("%T %.2f\n", scheme, e.Value)
	}
	// Output:
	// risk.Naive 0.22
	// risk.True 0.46
}

func ExampleNew() {
	w := must(world.New(context.Background(), world.Settings{Nodes: 300, Dim: 32, Scenario: world.Scenario{Seed: 1}}))
	g, p := w.Graph(), w.Profile()
	fmt.Printf("%d nodes of %d fields, %d dimensions\n", g.Len(), g.FieldCount()-1, g.Vectors().Dim())
	fmt.Printf("mean y %.3f, oracle AUC %.3f\n", p.BaseRate, p.OracleAUC)
	fmt.Println(g.FieldName(g.Field(123)), "|", g.Title(123))
	// Output:
	// 300 nodes of 19 fields, 32 dimensions
	// mean y 0.160, oracle AUC 0.970
	// Biology | The role of variation in plant root growth
}

// An impossible world is an error that names the setting.
func ExampleSettings_Validate() {
	err := world.Settings{Nodes: 10}.Validate()
	fmt.Println(errors.Is(err, world.ErrSetting))
	fmt.Println(err)
	// Output:
	// true
	// invalid setting: 19 Fields for 10 Nodes; every field has a node, so give at least as many nodes
}

// The same links are planted on the texts and fields of another graph.
func ExamplePlant() {
	var b graph.Builder
	vectors := must(graph.NewVectors(200, 8))
	src := rand.New(rand.NewPCG(1, 2))
	for i := range int32(200) {
		must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: [...]string{"physics", "biology"}[i%2]}))
		h := make([]float32, 8)
		for d := range h {
			h[d] = float32(src.NormFloat64())
		}
		if err := vectors.Set(i, h); err != nil {
			log.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	g = must(g.WithVectors(vectors))

	fitted := []float32{1, 1, 1, 1, .5, .5, 0, 0} // by a model of the graph's own links
	w := must(world.Plant(context.Background(), g, fitted, world.Scenario{BaseRate: .05, OracleAUC: .9}))
	fmt.Printf("mean y %.3f, oracle AUC %.3f\n", w.Profile().BaseRate, w.Profile().OracleAUC)
	same := w.Propensity(g.Field(0), g.Field(2))
	cross := w.Propensity(g.Field(0), g.Field(1))
	fmt.Println(same > .7, cross < .3)
	// Output:
	// mean y 0.050, oracle AUC 0.900
	// true true
}

func ExampleSaturated() {
	for _, plan := range []world.Scenario{world.Saturated(), world.SaturatedRare(), world.FlatRare()} {
		w := must(world.New(context.Background(), world.Settings{Nodes: 300, Dim: 32, Scenario: plan}))
		p := w.Profile()
		fmt.Printf("mean y %.2f, any y > .9: %t\n", p.BaseRate, p.Saturated > 0)
	}
	// Output:
	// mean y 0.16, any y > .9: true
	// mean y 0.01, any y > .9: true
	// mean y 0.02, any y > .9: false
}

func ExampleFieldsOfStudy() {
	fields := world.FieldsOfStudy()
	fmt.Println(len(fields), fields[1].Name, fields[1].Share)
	// Output: 19 Biology 26.48
}

func ExampleEvenFields() {
	for _, f := range world.EvenFields(3) {
		fmt.Println(f.Name)
	}
	// Output:
	// Art
	// Biology
	// Business
}

// Training pairs with some logged exposure, and test pairs that share none with them.
func ExampleWorld_Pairs() {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(3)}))
	train := must(w.Pairs(ctx, 12_000, world.Draw{Logged: .01}))
	test := must(w.Pairs(ctx, 5_000, world.Draw{Part: int(graph.Test)}))
	count := func(column []bool) (n int) {
		for _, x := range column {
			if x {
				n++
			}
		}
		return n
	}
	for _, s := range []*world.TruePairs{train, test} {
		fmt.Println(count(s.Relevant), "relevant,", count(s.Exposed), "exposed,", count(s.Pairs.Linked), "linked,",
			count(s.Logged), "logged")
	}
	// Output:
	// 1916 relevant, 4980 exposed, 653 linked, 126 logged
	// 778 relevant, 2110 exposed, 288 linked, 0 logged
}

func ExampleTruePairs_Observation() {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(3)}))
	s := must(w.Pairs(ctx, 10, world.Draw{Logged: 1}))
	o := s.Observation(0)
	y, known := o.Relevance()
	fmt.Println(o.Linked, o.Exposure == risk.Exposed, known, y == s.Truth[0].Link)
	// Output: false false true true
}

// A citation graph: thinned to be sparse, then linked.
func ExampleWorld_Linked() {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 300, Dim: 32, Homophily: 5,
		Scenario: world.Scenario{BaseRate: .05}}))
	w = must(w.Thinned(.5))
	w = must(w.Linked(ctx))
	g := w.Graph()
	fmt.Println("links against time:", len(g.Order().Broken))
	for i, j := range g.Links() {
		if i > 285 {
			fmt.Println(g.Title(i), "→", g.Title(j))
			break
		}
	}
	// Output:
	// links against time: 0
	// Comparative turbulence in neutrino beams → Adaptive fluctuations in plasma confinement
}

// What is true of pairs that a sampler of package graph chose.
func ExampleWorld_Reveal() {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(3)}))
	w = must(w.Linked(ctx))
	g := w.Graph()
	pairs, _, err := graph.Sample(g, graph.Universe{Before: g.Order()}, graph.SampleOptions{Src: rand.NewPCG(1, 0)})
	if err != nil {
		log.Fatal(err)
	}
	s := must(w.Reveal(ctx, pairs, 0))
	hidden := 0
	for k, relevant := range s.Relevant {
		if relevant && !pairs.Linked[k] {
			hidden++
		}
	}
	fmt.Println(len(s.Truth) == pairs.Len(), hidden > 0)
	// Output: true true
}

func ExampleWorld_Redrawn() {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(3)}))
	for seed := range uint64(3) {
		s := must(w.Redrawn(seed).Pairs(ctx, 1000, world.Draw{}))
		links := 0
		for _, o := range s.Pairs.Linked {
			if o {
				links++
			}
		}
		fmt.Println(links)
	}
	// Output:
	// 72
	// 60
	// 67
}

func ExampleWorld_Thinned() {
	w := must(world.New(context.Background(), world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(3)}))
	thin := must(w.Thinned(.1))
	fmt.Printf("%.4f %.4f\n", w.Profile().LinkRate, thin.Profile().LinkRate)
	// Output: 0.0532 0.0053
}

func ExampleWorld_Truth() {
	w := must(world.New(context.Background(), world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(3)}))
	t := w.Truth(7, 8)
	g := w.Graph()
	fmt.Println(t.Propensity == w.Propensity(g.Field(7), g.Field(8)), t.Link > 0)
	// Output: true true
}

// Where likely links are shown more often, exposure is no longer a matter of fields: on the average over all pairs it
// is the same, and fields differ less.
func ExampleWorld_Means() {
	ctx := context.Background()
	for _, text := range []float64{0, .5} {
		w := must(world.New(ctx, world.Settings{Nodes: 300, Dim: 32, Fields: world.EvenFields(4),
			Scenario: world.Scenario{Violations: world.Violations{Text: text}}}))
		m := must(w.Means(ctx, graph.Universe{}))
		fmt.Printf("mean π %.2f, of one field %.2f, of two %.2f; mean y %.2f, linked %.3f\n",
			m.Propensity, m.Same, m.Cross, m.Link, m.LinkRate)
	}
	// Output:
	// mean π 0.39, of one field 0.87, of two 0.23; mean y 0.16, linked 0.052
	// mean π 0.39, of one field 0.64, of two 0.30; mean y 0.16, linked 0.130
}
