package fit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/sample"
)

func axis(name string, values ...float64) Axis { return Axis{name, values} }

// Every trial is what Fit itself comes to with those settings, the likeliest is taken, and the result
// is that of a Fit with those settings; all of it whatever the number of threads.
func TestSearchIsFitAtEveryPoint(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	p := checkpointProblem(t, 1)
	for name, s := range map[string]Settings{
		"adam": {Method: "ap", Adam: AdamSettings{Epochs: 5},
			Search: Search{Axes: []Axis{axis("lambda-r", 1, 5), axis("lr", 1e-3, 1e-2, 3e-2), axis("ridge", .1)}}},
		"lbfgs": {Method: "naive", Optimiser: "lbfgs", LBFGS: LBFGSSettings{Iterations: 10},
			Search: Search{Axes: []Axis{axis("ridge", .1, 1, 10)}}},
		"rank": {Method: "mle", Link: "low-rank", Adam: AdamSettings{Epochs: 4, Rate: .01},
			Search: Search{Axes: []Axis{axis("rank", 1, 4)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s.Seed, s.Starts = 5, []float64{.3, .6}
			found := mustFit(t, p, s)
			if want := int(s.Search.size()); len(found.Trials) != want {
				t.Fatalf("%d trials of %d points", len(found.Trials), want)
			}
			best := slices.MinFunc(found.Trials, func(a, b Trial) int {
				if a.Validation < b.Validation {
					return -1
				}
				return 1
			})
			for _, trial := range found.Trials {
				if trial.Chosen != (trial.Validation == best.Validation) {
					t.Errorf("of %+v the chosen is not the likeliest", found.Trials)
				}
				alone := s
				alone.Search = Search{}
				for name, value := range trial.Values {
					alone.Search.Axes = append(alone.Search.Axes, axis(name, value))
				}
				r := mustFit(t, p, alone)
				if len(r.Trials) != 0 {
					t.Errorf("a single point was tried")
				}
				if name != "lbfgs" && r.Validation != trial.Validation { // which trains the last on all pairs
					t.Errorf("%v has the likelihood %v, and by itself %v", trial, trial.Validation, r.Validation)
				}
				if same := slices.Equal(r.LinkParams, found.LinkParams); same != trial.Chosen {
					t.Errorf("the result is that of %v: %v", trial, same)
				}
			}
			s.Threads = 3
			sameResult(t, found, mustFit(t, p, s))
		})
	}
}

// Where points do equally well, the earlier is taken.
func TestSearchTies(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	for _, floors := range [][]float64{{1e-9, 2e-9}, {2e-9, 1e-9}} { // under which nothing falls
		r := mustFit(t, p, Settings{Method: "ap", Starts: []float64{.3}, Adam: AdamSettings{Epochs: 2},
			Search: Search{Axes: []Axis{axis("floor", floors...)}}})
		if r.Trials[0].Validation != r.Trials[1].Validation || !r.Trials[0].Chosen || r.Trials[1].Chosen ||
			r.Settings.Floor != floors[0] {
			t.Errorf("of %+v floor %v was taken", r.Trials, r.Settings.Floor)
		}
	}
}

func TestSearchSurvivesDivergence(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	s := Settings{Method: "mle", Starts: []float64{.3}, Adam: AdamSettings{Epochs: 2},
		Search: Search{Axes: []Axis{axis("lr", 1e300, 1e-3)}}}
	r := mustFit(t, p, s)
	if !r.Trials[0].Diverged || r.Trials[0].Chosen || !r.Trials[1].Chosen || r.Settings.Adam.Rate != 1e-3 {
		t.Errorf("%+v", r.Trials)
	}
	s.Search.Axes[0].Values = []float64{1e300, 2e300}
	if _, err := Fit(context.Background(), p, s); !errors.Is(err, ErrDiverged) ||
		!strings.Contains(err.Error(), "all 2 points") {
		t.Errorf("got %v", err)
	}
}

// Without validation pairs there is nothing to choose by: the first point is taken and that is said.
func TestSearchWithoutValidation(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	_, held := sample.Problem{Train: p.Train}.SplitValidation()
	var one int32
	for held(one, 0) {
		one++
	}
	pairs := &graph.Pairs{Universe: p.Train.Universe}
	for k := range p.Train.Source { // all of one source
		if target := p.Train.Target[k]; target != one {
			pairs.Source, pairs.Target = append(pairs.Source, one), append(pairs.Target, target)
			pairs.Linked, pairs.Weight, pairs.Rate = append(pairs.Linked, p.Train.Linked[k]), append(pairs.Weight, 1),
				append(pairs.Rate, 1)
		}
	}
	p.Train, p.Exposure = pairs, nil
	r := mustFit(t, p, Settings{Method: "mle", Starts: []float64{.3}, Adam: AdamSettings{Epochs: 2},
		Search: Search{Axes: []Axis{axis("lr", .01, .001)}}})
	if len(r.Trials) != 0 || r.Settings.Adam.Rate != .01 ||
		!slices.ContainsFunc(r.Warnings, func(w risk.Warning) bool { return w.Kind == "search" }) {
		t.Errorf("rate %v, trials %v, warnings %v", r.Settings.Adam.Rate, r.Trials, r.Warnings)
	}
}

// Some points of a large grid are different ones, in the grid's order, the same for the same seed.
func TestSearchPoints(t *testing.T) {
	t.Parallel()
	g := Search{Axes: []Axis{axis("ridge", 1, 2, 3, 4, 5), axis("lr", .1, .2, .3, .4)}}
	all := g.points(1)
	if len(all) != 20 || all[0]["ridge"] != 1 || all[1]["ridge"] != 1 || all[1]["lr"] != .2 || all[19]["ridge"] != 5 ||
		all[19]["lr"] != .4 {
		t.Fatalf("%v", all)
	}
	position := func(point map[string]float64) int {
		return slices.IndexFunc(all, func(p map[string]float64) bool { return reflect.DeepEqual(p, point) })
	}
	drawn := make([]int, len(all))
	const seeds = 2000
	for seed := range uint64(seeds) {
		g.Points = 5
		some := g.points(seed)
		if !reflect.DeepEqual(some, g.points(seed)) || len(some) != 5 {
			t.Fatalf("seed %d: %v", seed, some)
		}
		last := -1
		for _, p := range some {
			at := position(p)
			if at <= last {
				t.Fatalf("seed %d: %v", seed, some)
			}
			last = at
			drawn[at]++
		}
	}
	for at, n := range drawn { // each in a quarter of the draws, within 5 standard errors
		if share := float64(n) / seeds; math.Abs(share-.25) > 5*math.Sqrt(.25*.75/seeds) {
			t.Errorf("point %d is drawn in %.3f of the seeds", at, share)
		}
	}
	for _, many := range []int{20, 21} {
		if g.Points = many; !reflect.DeepEqual(g.points(1), all) {
			t.Errorf("%d of 20 are not all", many)
		}
	}
}

func TestSearchRefused(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	many := make([]float64, 40)
	for i := range many {
		many[i] = float64(i + 1)
	}
	of := func(method string, axes ...Axis) Settings {
		return Settings{Method: method, Search: Search{Axes: axes}}
	}
	low := of("mle", axis("rank", 2, 100))
	low.Link = "low-rank"
	few := of("mle", axis("lr", .1))
	few.Search.Points = -1
	descent := of("mle", axis("lr", .1))
	descent.Optimiser = "lbfgs"
	for says, s := range map[string]Settings{
		`"learning-rate" cannot be searched over; there is batch, floor, hidden, lambda-r, lr, rank, ridge`: of("mle",
			axis("learning-rate", 1)),
		"bayes learns its own hyperparameters":                         of("bayes", axis("ridge", 1)),
		"cosine is not trained":                                        of("cosine", axis("ridge", 1)),
		"lr is searched over twice":                                    of("mle", axis("lr", .1), axis("lr", .2)),
		"no values of lr":                                              of("mle", axis("lr")),
		"lr = 0.1 twice":                                               of("mle", axis("lr", .1, .1)),
		"learning rate NaN":                                            of("mle", axis("lr", math.NaN())),
		"learning rate -1; give a positive number":                     of("mle", axis("lr", -1)),
		"λ_R is NaN":                                                   of("ap", axis("lambda-r", math.NaN())),
		"the propensity floor is 1":                                    of("ap", axis("floor", 1)),
		"ridge = -1; give positive":                                    of("mle", axis("ridge", -1)),
		"ridge = NaN; give positive":                                   of("mle", axis("ridge", math.NaN())),
		"ridge +Inf; give a positive variance":                         of("mle", axis("ridge", math.Inf(1))),
		"batch = 1.5; give whole numbers from 1":                       of("mle", axis("batch", 1.5)),
		"lambda-r would change nothing, since the method mle has no":   of("mle", axis("lambda-r", 1)),
		"rank would change nothing, since the link model diagonal has": of("mle", axis("rank", 1)),
		"lr would change nothing, since the optimiser is lbfgs":        descent,
		"(at rank=100 of the search)":                                  low,
		"a search of -1 points over 1 settings":                        few,
		"a search of 2 points over 0 settings":                         {Method: "mle", Search: Search{Points: 2}},
		"the search has 1600 points, which is more than 1000": of("mle", axis("ridge", many...),
			axis("batch", many...)),
	} {
		_, err := Fit(context.Background(), p, s)
		if !errors.Is(err, ErrSetting) && !errors.Is(err, model.ErrOption) && !errors.Is(err, model.ErrShape) ||
			!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

// The model's file says what was tried.
func TestSearchIsKeptInTheModel(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	var phases []string
	s := Settings{Method: "mle", Starts: []float64{.3}, Adam: AdamSettings{Epochs: 2},
		Search: Search{Axes: []Axis{axis("lr", .001, .01)}}}
	s.Progress = func(e progress.Event) {
		if !slices.Contains(phases, e.Phase) {
			phases = append(phases, e.Phase)
		}
	}
	r, err := Fit(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"trial 1 of 2, lr=0.001", "trial 2 of 2, lr=0.01", "training"}; !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
	m := must(r.Model())(t)
	var kept struct {
		Trials []Trial
		Adam   AdamSettings
		Search Search
	}
	if err := json.Unmarshal(m.Hyperparameters, &kept); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(kept.Trials, r.Trials) || kept.Adam.Rate != r.Settings.Adam.Rate ||
		!reflect.DeepEqual(kept.Search, s.Search) {
		t.Errorf("kept %+v of %+v", kept, r.Trials)
	}
}

// An unset ridge of L-BFGS is the preset's search, beside any other; a set one is not searched.
func TestSearchOfThePreset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    Settings
		want string
	}{
		{Settings{Method: "mle"}, "[]"},
		{Settings{Method: "bayes", Optimiser: "lbfgs"}, "[]"},
		{Settings{Method: "mle", Optimiser: "lbfgs"}, "[{ridge [1 4 16 64]}]"},
		{Settings{Method: "mle", Optimiser: "lbfgs", Ridge: 2}, "[]"},
		{Settings{Method: "mle", Optimiser: "lbfgs", Ridge: -1}, "[]"},
		{Settings{Method: "mle", Optimiser: "lbfgs", Link: "low-rank"}, "[]"},
		{Settings{Method: "mle", Optimiser: "lbfgs", Preset: "paper"}, "[]"},
		{Settings{Method: "ap", Optimiser: "lbfgs", Search: Search{Axes: []Axis{axis("floor", .1)}}},
			"[{ridge [1 4 16 64]} {floor [0.1]}]"},
		{Settings{Method: "ap", Optimiser: "lbfgs", Search: Search{Axes: []Axis{axis("ridge", 3)}}}, "[{ridge [3]}]"},
	} {
		s := must(c.s.WithDefaults())(t)
		again := must(s.WithDefaults())(t)
		if got := fmt.Sprint(s.Search.Axes); got != c.want || fmt.Sprint(again.Search.Axes) != got {
			t.Errorf("%+v searches over %s, want %s, and again %v", c.s, got, c.want, again.Search.Axes)
		}
	}
}
