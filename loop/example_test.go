package loop_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"unseen/fit"
	"unseen/graph"
	"unseen/loop"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// Two categories are equally relevant; one is seen four times as often.
func ExampleProcess() {
	p := loop.Process{Propensity: []float64{.8, .2}, Link: []float64{.5, .5}}
	for _, p.Corrected = range []bool{false, true} {
		shares, err := p.Run(1_000_000, 5, rand.NewPCG(1, 0))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("corrected %-5t", p.Corrected)
		for _, kappa := range shares {
			fmt.Printf("  %.2f", kappa[0])
		}
		fmt.Println()
	}
	// Output:
	// corrected false  0.80  0.94  0.98  1.00  1.00
	// corrected true   0.50  0.50  0.50  0.50  0.50
}

// The limit needs no draws.
func ExampleProcess_Limit() {
	p := loop.Process{Propensity: []float64{.6, .5}, Link: []float64{.5, .5}}
	for _, t := range []int{1, 5, 20} {
		kappa, err := p.Limit(t)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("round %d: %.3f\n", t, loop.Relative(kappa, 0, 1))
	}
	// Output:
	// round 1: 0.545
	// round 5: 0.713
	// round 20: 0.975
}

// How sure it is that one more round skews every ratio further.
func ExampleSkewBound() {
	for _, n := range []int{100, 1000, 10_000} {
		b, err := loop.BoundSkew([]int{n / 2, n / 2}, []float64{.8, .4})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("n = %d: at least %.4f\n", n, max(b.Probability, 0))
	}
	// Output:
	// n = 100: at least 0.0000
	// n = 1000: at least 0.9999
	// n = 10000: at least 1.0000
}

// A recommender that is trained on the links that its own recommendations lead to.
func ExampleSimulate() {
	s := loop.Settings{Papers: 150, Method: "naive", SeesField: true, UnshownNegative: true, Rounds: 4, Seed: 3}
	h, err := loop.Simulate(context.Background(), s)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.Rounds[0].All > h.Truth[0] && h.Rounds[3].All > h.Rounds[0].All+.1)
	// Output: true
}

// Where the recommendations of a fitted model will go.
func ExampleNewForecast() {
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(2), Homophily: .5,
		Scenario: world.Scenario{Seed: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	train, err := w.Pairs(ctx, 4000, world.Draw{})
	if err != nil {
		fmt.Println(err)
		return
	}
	problem := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs}
	result, err := fit.Fit(ctx, problem, fit.Settings{Seed: 1, Replicates: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := result.Model()
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := loop.NewForecast(ctx, m, w.Graph(), loop.ForecastSettings{Rounds: 5, Truth: w.Truth})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, field := range f.Fields {
		now, then := field.Naive[0].Share, field.Naive[4].Share
		fmt.Println(field.Name, "naive above relevance:", now > *field.Truth+.05, "and rising:", then > now)
	}
	// Output:
	// Art naive above relevance: true and rising: true
	// Biology naive above relevance: true and rising: true
}

// An alarm when more stays in the field than was forecast.
func ExampleDrift() {
	d, err := loop.NewDrift(loop.DriftSettings{Expected: []loop.ExpectedShare{{Field: 1, Low: .5, High: .6}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for k := range 2000 {
		stays := .55
		if k >= 1000 { // something happened
			stays = .75
		}
		list := make([]loop.ShownItem, 10)
		for i := range list {
			list[i] = loop.ShownItem{Source: 1, Target: 2}
			if rng.Float64() < stays {
				list[i].Target = 1
			}
		}
		alarms, err := d.Add(list...)
		if err != nil {
			fmt.Println(err)
			return
		}
		if len(alarms) > 0 {
			fmt.Println(alarms[0].Sentence("Biology"))
			return
		}
	}
	// Output:
	// Since list 1002, 75 of 100 recommendations in Biology stayed in Biology, above the expected 50 to 60.
}

// popular recommends what is linked to most.
type popular struct{ links []float64 }

func (p *popular) Train(_ context.Context, n model.Nodes, pairs *graph.Pairs) error {
	p.links = make([]float64, n.Len())
	for k, linked := range pairs.Linked {
		if linked {
			p.links[pairs.Target[k]]++
		}
	}
	return nil
}

func (p *popular) Weigh(weights []float64, pairs model.Batch) error {
	for k, j := range pairs.Targets {
		weights[k] = p.links[j]
	}
	return nil
}

// A recommender of one's own: what is popular becomes more so, until a few papers have all the links.
func ExampleLearner() {
	s := loop.Settings{Papers: 100, Rounds: 6, Shown: 10, Seed: 1}
	own := &popular{}
	s.NewLearner = func() loop.Learner { return own }
	h, err := loop.Simulate(context.Background(), s)
	if err != nil {
		fmt.Println(err)
		return
	}
	linked := 0
	for _, n := range own.links {
		if n > 0 {
			linked++
		}
	}
	fmt.Printf("%d rounds; %d of 100 papers are still linked to\n", len(h.Rounds), linked)
	// Output:
	// 6 rounds; 21 of 100 papers are still linked to
}
