package fit_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"

	"unseen/fit"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// fitted is a small world in which links tell relevance from exposure: pairs to learn from, a fit,
// and pairs to judge by.
type fitted struct {
	problem sample.Problem
	result  *fit.Result
	test    *world.TruePairs
}

var (
	unlogged = sync.OnceValue(func() fitted { return newFitted(0) })
	logged   = sync.OnceValue(func() fitted { return newFitted(.05) })
)

// example returns the world, without logged exposures.
func example() (sample.Problem, *fit.Result, *world.TruePairs) {
	f := unlogged()
	return f.problem, f.result, f.test
}

func newFitted(logged float64) fitted {
	ctx := context.Background()
	plan := world.Saturated()
	plan.Seed = 2
	w, err := world.New(ctx, world.Settings{Nodes: 1000, Dim: 8, Fields: world.EvenFields(3), Scenario: plan})
	if err != nil {
		panic(err)
	}
	train, err := w.Pairs(ctx, 4_000, world.Draw{Logged: logged})
	if err != nil {
		panic(err)
	}
	test, err := w.Pairs(ctx, 4_000, world.Draw{Part: 2})
	if err != nil {
		panic(err)
	}
	problem := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs}
	if logged > 0 {
		problem.Exposure = make([]risk.Exposure, train.Pairs.Len())
		for k := range problem.Exposure {
			if train.Logged[k] {
				problem.Exposure[k] = risk.Unexposed
				if train.Exposed[k] {
					problem.Exposure[k] = risk.Exposed
				}
			}
		}
	}
	result, err := fit.Fit(ctx, problem, fit.Settings{Seed: 1, Starts: []float64{.3}})
	if err != nil {
		panic(err)
	}
	return fitted{problem, result, test}
}

// Every fit has been examined already; Diagnose does it again, for instance on other pairs.
func ExampleDiagnose() {
	problem, result, _ := example()
	findings, err := fit.Diagnose(context.Background(), problem, result)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := findings.MeanLink
	fmt.Println(findings.Class, findings.Class == result.Findings.Class)
	fmt.Println("sentences:", len(findings.Verdict) > 0)
	fmt.Println("the truth, .16, is inside:", m.Lower < .16 && .16 < m.Upper)
	fmt.Println("at most:", .16 < findings.Set.MeanLink.High)
	fmt.Println("shown more within a field:", findings.Set.Ratio.Low > 1)
	// Output:
	// weak true
	// sentences: true
	// the truth, .16, is inside: true
	// at most: true
	// shown more within a field: true
}

// Where exposures are logged they are compared with what links alone say.
func ExampleLoggedTest() {
	for _, test := range logged().result.Findings.Logged {
		fmt.Println(test.Group, "agrees:", math.Abs(test.Allowing) < 3)
	}
	// Output:
	// all agrees: true
	// same agrees: true
	// cross agrees: true
}

// Held-out pairs, the model's own predictions, the risk R_AP.
func ExampleJudge_Risk() {
	_, result, test := example()
	evidence := sample.Evidence{Pairs: test.Pairs}
	estimate, err := result.Judge().Risk(context.Background(), evidence, risk.Estimator{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	pairs := make([]risk.Pair, test.Pairs.Len()) // the world knows the truth
	z := make([]float32, len(pairs))
	result.Link.Logits(z, result.LinkParams, model.Batch{Sources: test.Pairs.Source, Targets: test.Pairs.Target})
	for k := range pairs {
		belief, _ := risk.FromLogits(float64(z[k]), 0)
		pairs[k] = risk.Pair{Observation: test.Observation(k), Belief: belief, Weight: 1}
	}
	truth, _ := risk.Estimator{Scheme: risk.True{}}.Estimate(pairs)
	fmt.Println("the true risk is inside:", estimate.Lower < truth.Value && truth.Value < estimate.Upper)
	fmt.Println("wider than sampling alone:", estimate.StandardError > estimate.Sampling)
	// Output:
	// the true risk is inside: true
	// wider than sampling alone: true
}

// Another model is judged by its logits.
func ExampleJudge_Panel() {
	problem, result, test := example()
	ctx := context.Background()
	naive, err := fit.Fit(ctx, problem, fit.Settings{Method: "naive", Optimiser: "lbfgs"})
	if err != nil {
		fmt.Println(err)
		return
	}
	z := make([]float32, test.Pairs.Len())
	naive.Link.Logits(z, naive.LinkParams, model.Batch{Sources: test.Pairs.Source, Targets: test.Pairs.Target})
	judge := result.Judge()
	own, _ := judge.Panel(ctx, sample.Evidence{Pairs: test.Pairs}, .05, nil)
	its, _ := judge.Panel(ctx, sample.Evidence{Pairs: test.Pairs}, .05, z)
	fmt.Println(len(own.Risks), "schemes")
	fmt.Println("the naive model looks better to itself than it is:",
		its.Risks["naive"].Plain < its.Risks["ap"].Estimate)
	fmt.Println("and is worse than this one:", own.Risks["ap"].Estimate < its.Risks["ap"].Estimate)
	// Output:
	// 4 schemes
	// the naive model looks better to itself than it is: true
	// and is worse than this one: true
}

func ExampleJudge_MeanLink() {
	problem, result, _ := example()
	e, err := result.Judge().MeanLink(context.Background(), sample.Evidence{Pairs: problem.Train})
	fmt.Println(e.Lower < .16 && .16 < e.Upper, err)
	// Output: true <nil>
}

// A model file keeps what intervals need.
func ExampleJudgeOf() {
	problem, result, test := example()
	folder, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")
	m, _ := result.Model()
	if err := model.Save(path, m); err != nil {
		fmt.Println(err)
		return
	}
	file, _ := model.Open(path)
	back, _ := file.Model(problem.Nodes)
	judge, err := fit.JudgeOf(back)
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := judge.Risk(context.Background(), sample.Evidence{Pairs: test.Pairs}, risk.Estimator{}, nil)
	fmt.Println(e.Nuisance > 0, err)
	// Output: true <nil>
}

func ExamplePosteriorOf() {
	_, result, _ := example()
	m, _ := result.Model()
	p, err := fit.PosteriorOf(m)
	fmt.Println(p.Replicates(), err)
	// Output: 10 <nil>
}

// The standard error of the mean logit of all pairs of a sample: its gradient is the mean of
// h_i⊙h_j, and 1 for the intercept.
func ExamplePosterior_Variance() {
	problem, result, _ := example()
	g := make([]float32, result.Link.Size())
	n := problem.Train.Len()
	each := make([]float32, n)
	for k := range each {
		each[k] = 1 / float32(n)
	}
	result.Link.Backward(g, result.LinkParams, model.Batch{Sources: problem.Train.Source,
		Targets: problem.Train.Target}, each)
	gradient := make([]float64, len(g))
	for i, x := range g {
		gradient[i] = float64(x)
	}
	se := math.Sqrt(result.Posterior.Variance(gradient, nil))
	fmt.Println(se > 0 && se < 1)
	// Output: true
}

func ExamplePosterior_LogitErrors() {
	_, result, _ := example()
	errors := result.Posterior.LogitErrors()
	logit := float64(result.PropensityParams[result.Posterior.Cells[0]])
	sigma := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	low, high := sigma(logit-1.96*errors[0]), sigma(logit+1.96*errors[0])
	fmt.Println(len(errors), low < sigma(logit) && sigma(logit) < high)
	// Output: 9 true
}
