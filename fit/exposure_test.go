package fit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// violated is a world that breaks what the plain model assumes of exposure, a sample of its pairs, and others to judge
// by.
func violated(t *testing.T, v world.Violations, pairs int) (*world.World, sample.Problem, *world.TruePairs) {
	t.Helper()
	plan := world.Saturated()
	plan.Seed, plan.Violations = 21, v
	w := must(world.New(t.Context(), world.Settings{Nodes: 900, Dim: 8, Fields: world.EvenFields(4),
		Scenario: plan}))(t)
	train := must(w.Pairs(t.Context(), pairs, world.Draw{}))(t)
	test := must(w.Pairs(t.Context(), 20_000, world.Draw{Part: 2}))(t)
	return w, sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs}, test
}

// offBy is how far log π̂ is from log π over pairs, on average.
func offBy(t *testing.T, r *Result, test *world.TruePairs) (off, mean float64) {
	t.Helper()
	_, s, err := r.Judge().Logits(t.Context(), test.Pairs)
	if err != nil {
		t.Fatal(err)
	}
	for k, x := range s {
		pi, _ := kern.Sigmoid64(float64(x))
		off += math.Abs(math.Log(pi/test.Truth[k].Propensity)) / float64(len(s))
		mean += pi / float64(len(s))
	}
	return off, mean
}

// Where the tests speak for it, the published model has text and popularity in its exposure, and is nearer to the truth
// for that; and its intervals know of the terms.
func TestExposureIsLearned(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for name, test := range map[string]struct {
		violations world.Violations
		pairs      int
		want       []model.Term
		share      float64 // of how far log π̂ is off by fields, at most
	}{
		"text":       {world.Violations{Text: .6}, 20_000, []model.Term{model.Text}, .3},
		"popularity": {world.Violations{Popularity: 1.2}, 20_000, []model.Term{model.Popularity}, .95},
		"both": {world.Violations{Text: .6, Popularity: 1.2}, 40_000, []model.Term{model.Text, model.Popularity},
			.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, problem, held := violated(t, test.violations, test.pairs)
			plain := mustFit(t, problem, Settings{Starts: []float64{.3}})
			// compared by all pairs, so that what is published and the set are of the same
			r := mustFit(t, problem, Settings{Doctor: FullDoctor, Starts: []float64{.3}, compared: test.pairs})
			if got := r.learnedTerms(); !slices.Equal(got, test.want) {
				t.Errorf("exposure by %v, %+v", got, r.Findings.Tests)
			}
			before, _ := offBy(t, plain, held)
			after, mean := offBy(t, r, held)
			truth := must(w.Means(t.Context(), graph.Universe{}))(t)
			scale := r.Findings.MeanLink
			t.Logf("log π̂ off by %.3f, by fields %.3f; mean π %.3f, π̂ %.3f; mean y %.3f, ŷ %.3f to %.3f; slopes %v",
				after, before, truth.Propensity, mean, truth.Link, scale.Lower, scale.Upper,
				r.PropensityParams[len(r.PropensityParams)-len(test.want):])
			if after > test.share*before {
				t.Errorf("log π̂ is off by %.3f, by fields alone %.3f", after, before)
			}
			if truth.Link < scale.Lower || truth.Link > scale.Upper {
				t.Errorf("mean y is %.4f, and ŷ from %.4f to %.4f", truth.Link, scale.Lower, scale.Upper)
			}
			checkPublished(t, r, problem)
			checkClaims(t, r.Findings, truth, []Suspicion{BySimilarity, ByPopularity})
		})
	}
}

// checkPublished holds the published mean π̂ of the training pairs against what the claim set says was learned, and a
// model file against the model.
func checkPublished(t *testing.T, r *Result, problem sample.Problem) {
	t.Helper()
	_, s, err := r.Judge().Logits(t.Context(), problem.Train)
	if err != nil {
		t.Fatal(err)
	}
	var mean float64
	for _, x := range s {
		pi, _ := kern.Sigmoid64(float64(x))
		mean += pi / float64(len(s))
	}
	evidence := sample.Evidence{Pairs: problem.Train}
	want := must(r.Judge().Risk(t.Context(), evidence, risk.Estimator{}, nil))(t)
	for i, m := range r.Findings.Set.Members {
		if m.Alternative != r.Findings.Set.Reference {
			continue
		}
		if least := math.Hypot(r.alternatives[i].measures[ofRisk].err, .9*want.Sampling); m.Risk.Error < least {
			t.Errorf("the set's R_AP has an error of %.5f; with that of sampling pairs it is %.5f", m.Risk.Error, least)
		}
		if learned := m.Propensity.Value; math.Abs(mean/learned-1) > .03 {
			t.Errorf("the mean π̂ is %.4f, and %.4f was learned", mean, learned)
		}
		if math.Abs(m.Risk.Value/want.Plain-1) > .03 {
			t.Errorf("R_AP is %.4f, and the set has %.4f", want.Plain, m.Risk.Value)
		}
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := model.Save(path, must(r.Model())(t)); err != nil {
		t.Fatal(err)
	}
	nodes := problem.Nodes
	nodes.Popularity = model.LogInDegree(nodes.Len(), linkTargets(problem))
	back := must(JudgeOf(must(must(model.Open(path))(t).Model(nodes))(t)))(t)
	got := must(back.Risk(t.Context(), evidence, risk.Estimator{}, nil))(t)
	if want.Nuisance == 0 || math.Abs(got.Lower-want.Lower) > 1e-5*want.Lower || got.Plain != want.Plain {
		t.Errorf("the file gives %+v, not %+v", got, want)
	}
}

// What cannot be learned is refused, with what to do.
func TestExposureIsRefused(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	p := smallProblem(t, 40, 4, 300, 1)
	p.Nodes.Age = nil
	for exposure, test := range map[string]struct {
		settings Settings
		is       error
		says     string
	}{
		"age":              {Settings{}, ErrSetting, `exposure by "age"`},
		"fields+luck":      {Settings{}, ErrSetting, "set exposure to auto"},
		"fields+text+text": {Settings{}, ErrSetting, "text+text"},
		"fields+age":       {Settings{}, ErrData, "no node has a time"},
		"fields+text":      {Settings{Method: "mle"}, ErrSetting, "only bayes"},
		"fields+popularity": {Settings{mostExact: 3}, ErrSetting,
			"take fewer dimensions"},
		"fields+person":          {Settings{}, ErrSetting, "set method to mle"},
		"fields+item":            {Settings{Method: "naive"}, ErrSetting, "learns no exposure"},
		"fields+activity":        {Settings{Method: "mle", Propensity: "constant"}, ErrSetting, "give one of exposure"},
		"fields+person+activity": {Settings{Method: "mle"}, model.ErrShape, "activity of the nodes is not known"},
		"": {Settings{Method: "ap", Propensity: "field-matrix+text"}, ErrSetting,
			"set exposure to fields+text"},
	} {
		test.settings.Exposure, test.settings.Replicates = exposure, -1
		if _, err := Fit(t.Context(), p, test.settings); !errors.Is(err, test.is) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", exposure, err)
		}
	}
}

// The names of exposure are read in any order, and a fit by fields is the fit of always.
func TestExposureByFields(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	name, terms, err := parseExposure("fields+age+text")
	if err != nil || name != "fields+text+age" || !slices.Equal(terms, []model.Term{model.Text, model.Age}) {
		t.Errorf("%s, %v, %v", name, terms, err)
	}
	p := checkpointProblem(t, 1)
	want := must(mustFit(t, p, Settings{Doctor: FullDoctor, Exposure: "fields"}).Model())(t)
	got := must(mustFit(t, p, Settings{Doctor: FullDoctor, Exposure: AutoExposure}).Model())(t)
	want.Hyperparameters, got.Hyperparameters = nil, nil
	if !reflect.DeepEqual(want.PropensityParams, got.PropensityParams) || !reflect.DeepEqual(want.Extra, got.Extra) ||
		string(want.Findings) != string(got.Findings) {
		t.Error("where nothing is refuted, the exposure is not by fields")
	}
}

// With a log, effects of people and items and the slopes of activity are found; without one, items'
// effects stay near 0, whatever their links.
func TestExposureOfPeopleAndItems(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	const people, items, hour = 120, 40, 3600
	rng := rand.New(rand.NewPCG(5, 5))
	var b graph.Builder
	effects, when := make([]float64, people+items), make([]int64, people+items)
	for i := range effects {
		n := graph.Node{ID: fmt.Sprint(i), Role: graph.SourceOnly}
		effects[i], when[i] = rng.NormFloat64(), 100*hour+rng.Int64N(500*hour)
		if i >= people {
			n.Role, n.Time = graph.TargetOnly, time.Unix(when[i]-100*hour, 0)
		}
		must(b.AddNode(n))(t)
	}
	log := &sample.ExposureLog{}
	for i := range int32(people) {
		for j := int32(people); j < people+items; j++ {
			hours := float64(when[i]+hour-when[j]+100*hour) / hour
			s, _ := kern.Sigmoid64(4 + effects[i] + effects[j] - math.Log1p(math.Max(hours, 0)))
			if hours < 0 || rng.Float64() > s {
				continue
			}
			linked := rng.IntN(2) == 0
			log.Source, log.Target = append(log.Source, i), append(log.Target, j)
			log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, linked)
			if linked {
				if err := b.AddLinkAt(i, j, when[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	found := func(kind sample.LogKind) (persons, targets, slopes []float64) {
		o := sample.Options{Log: log, Origin: sample.Origin{Plan: sample.Plan{Split: sample.Whole, Later: true,
			Available: true, PerLink: people * items, Log: kind}}}
		r := mustFit(t, must(sample.Prepare(t.Context(), g, o))(t).Problem, Settings{Method: "mle", Link: "factors",
			LinkOptions: model.LinkOptions{Rank: 1}, Ridge: .25, Exposure: "fields+activity+item+person"})
		at := r.PropensityParams[r.Propensity.Size()-people-items-4:]
		wide := func(from, to int) (out []float64) {
			for _, x := range at[from:to] {
				out = append(out, float64(x))
			}
			return out
		}
		return wide(0, people), wide(people, people+items), wide(people+items, len(at))
	}
	persons, targets, slopes := found(sample.Complete)
	if p, q := correlated(persons, effects[:people]), correlated(targets, effects[people:]); p < .3 || q < .8 ||
		slopes[0] > -.3 || slopes[2] < .5 {
		t.Errorf("correlations %v and %v with the true effects, slopes %v", p, q, slopes)
	}
	_, unlogged, slopes := found(sample.Ignored)
	if dot(unlogged, unlogged) > .1*dot(targets, targets) || slopes[0] > -.3 {
		t.Errorf("without a log items' effects are %v, with it %v; slopes %v", unlogged, targets, slopes)
	}
}

func correlated(x, y []float64) float64 {
	var mx, my, xx, yy, xy float64
	for k := range x {
		mx, my = mx+x[k]/float64(len(x)), my+y[k]/float64(len(x))
	}
	for k := range x {
		xx, yy, xy = xx+(x[k]-mx)*(x[k]-mx), yy+(y[k]-my)*(y[k]-my), xy+(x[k]-mx)*(y[k]-my)
	}
	return xy / math.Sqrt(xx*yy)
}
