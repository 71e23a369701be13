package fit

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/internal/enginetest"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// fullDay is when the earlier models of these tests were made.
var fullDay = time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)

// without returns a problem that lacks a share of its pairs, the same ones always.
func without(p sample.Problem, share float64) sample.Problem {
	kept := p.Training().At(sample.Indices(p.Train.Len(), func(k int) bool {
		return sample.Uniform(99, uint64(p.Train.Source[k]), uint64(p.Train.Target[k])) >= share
	}))
	p.Train, p.Exposure = kept.Pairs, kept.Exposure
	return p
}

// earlierOf is a fit as a refresh reads it from its file.
func earlierOf(t testing.TB, r *Result, nodes model.Nodes) Earlier {
	t.Helper()
	m := must(r.Model())(t)
	file := must(m.File())(t)
	return Earlier{Model: must(file.Model(nodes))(t), Made: fullDay}
}

// topLists are the best hundred targets of some sources by what orders a model's lists.
func topLists(t testing.TB, r *Result, nodes model.Nodes) [][]int32 {
	t.Helper()
	by, targets := must(r.Model())(t).Ranker(), nodes.Targets
	if targets == nil {
		targets = sample.Indices(nodes.Len(), func(int) bool { return true })
	}
	var out [][]int32
	for k := range 40 {
		source := int32(k * len(targets) / 40)
		if nodes.Sources != nil {
			source = nodes.Sources[k*len(nodes.Sources)/40]
		}
		z := make([]float32, len(targets))
		by.Logits(z, model.Batch{Sources: slices.Repeat([]int32{source}, len(targets)), Targets: targets})
		order := sample.Indices(len(targets), func(int) bool { return true })
		slices.SortFunc(order, func(a, b int32) int { return int(math.Copysign(1, float64(z[b]-z[a]))) })
		out = append(out, order[:min(100, len(order)/4)])
	}
	return out
}

// overlap is the mean share of a list that the other has too.
func overlap(a, b [][]int32) (mean float64) {
	for k, list := range a {
		mean += float64(shared(list, b[k:k+1])) / float64(len(list)) / float64(len(a))
	}
	return mean
}

// refreshed are trainings of every kind that can be refreshed, and how well lists agree at least.
var refreshed = map[string]struct {
	Settings
	people, logged bool
	agree, cost    float64 // of the engine's calls
}{
	"fields":  {Settings: Settings{Exposure: "fields", Seed: 3}, agree: .99, cost: .1},
	"auto":    {Settings: Settings{Seed: 3}, agree: .97, cost: .1},
	"terms":   {Settings: Settings{Exposure: "fields+text+popularity", Seed: 3}, agree: .99, cost: .15},
	"logged":  {Settings: Settings{Exposure: "fields", Seed: 3}, logged: true, agree: .99, cost: .1},
	"quick":   {Settings: Settings{Seed: 3, Doctor: QuickDoctor}, agree: .99, cost: .2},
	"drawn":   {Settings: Settings{Seed: 3, mostExact: 4, draws: 16}, agree: .98, cost: .3},
	"whole":   {Settings: Settings{Exposure: "fields", Seed: 3, mostBytes: 4 * 17 * 5000}, agree: .99, cost: .1},
	"adam":    {Settings: Settings{Method: "mle", Seed: 3}, agree: .95, cost: .1},
	"lbfgs":   {Settings: Settings{Method: "ap", Optimiser: "lbfgs", Seed: 3}, agree: .97, cost: .3},
	"naive":   {Settings: Settings{Method: "naive", Optimiser: "lbfgs", Seed: 3}, agree: .97, cost: .3},
	"factors": {Settings: Settings{Seed: 3}, people: true, agree: .9, cost: 1},
	"people":  {Settings: Settings{Seed: 3}, people: true, logged: true, agree: .9, cost: 1},
}

// refreshProblem is a world's pairs, or those of people and items.
func refreshProblem(t testing.TB, people, logged bool) sample.Problem {
	t.Helper()
	if people {
		shop := plantShop(t, 300, 80, 5)
		if !logged {
			return shop.problem(nil)
		}
		return shop.problem(func(k int) bool { return int(shop.pairs.Source[k])%3 == 0 })
	}
	w := must(world.New(t.Context(), world.Settings{Nodes: 600, Dim: 16, Fields: world.EvenFields(4),
		Scenario: world.Scenario{Seed: 5, Threads: 1}}))(t)
	drawn := must(w.Pairs(t.Context(), 12_000, world.Draw{Logged: .05}))(t)
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: drawn.Pairs}
	p.Nodes.Popularity = model.LogInDegree(p.Nodes.Len(), linkTargets(p))
	if logged {
		p.Exposure = exposures(drawn, .05)
	}
	return p
}

// A refresh after a hundredth of new pairs gives the lists of a full training, in a small part of its work, whatever
// the method. It says what it is, and another can begin at it.
func TestRefresh(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	for kind, of := range refreshed {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := refreshProblem(t, of.people, of.logged)
			before := mustFit(t, without(p, .01), of.Settings)
			watched := enginetest.New()
			of.Settings.Engine = watched
			full := mustFit(t, p, of.Settings)
			work := watched.Total()
			from := earlierOf(t, before, p.Nodes)
			own := of.Settings
			got := must(Refresh(t.Context(), p, from, own))(t)
			less := watched.Total() - work
			wanted := topLists(t, full, p.Nodes)
			agree, stale := overlap(topLists(t, got, p.Nodes), wanted), overlap(topLists(t, before, p.Nodes), wanted)
			t.Logf("lists agree to %.4f, those of the earlier model to %.4f; %d calls of the engine, %d of a full "+
				"training", agree, stale, less, work)
			if agree < of.agree || float64(less) > of.cost*float64(work) {
				t.Errorf("lists agree to %.4f (%.4f before); %d calls of the engine, %d of a full training", agree,
					stale, less, work)
			}
			f := got.Findings.Refresh
			if f == nil || f.Number != 1 || !f.Full.Equal(fullDay) || f.Due || before.Findings.Refresh != nil ||
				f.Links != before.Findings.Support.Links {
				t.Fatalf("%+v", f)
			}
			if got.Findings.Class != before.Findings.Class || len(got.members) != len(before.members) ||
				(got.Findings.Set == nil) != (before.Findings.Set == nil) {
				t.Errorf("class %s, %d members; before %s, %d", got.Findings.Class, len(got.members),
					before.Findings.Class, len(before.members))
			}
			if verdict := strings.Join(got.Findings.Verdict, " "); !strings.Contains(verdict, "2026-11-02") {
				t.Errorf("the verdict does not say when the full training was: %s", verdict)
			}
			again := must(Refresh(t.Context(), p, Earlier{Model: earlierOf(t, got, p.Nodes).Model}, own))(t)
			f = again.Findings.Refresh
			if f.Number != 2 || !f.Full.Equal(fullDay) || f.Links != before.Findings.Support.Links ||
				!slices.Equal(again.earlier.fullLink, before.LinkParams) {
				t.Errorf("the next: %+v", f)
			}
		})
	}
}

// A full training is due where too much is new, where what is shown or relevant has changed, or after many refreshes;
// and not before.
func TestRefreshDue(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	for _, s := range []Settings{{Exposure: "fields", Seed: 3, Doctor: QuickDoctor}, {Method: "mle", Seed: 3,
		Optimiser: "lbfgs"}} {
		p := refreshProblem(t, false, false)
		from := earlierOf(t, mustFit(t, without(p, .01), s), p.Nodes)
		refresh := func(change func(k int, linked bool) bool) *RefreshFindings {
			next := p
			next.Train = p.Training().At(spaced(p.Train.Len(), p.Train.Len())).Pairs
			for k, linked := range next.Train.Linked {
				next.Train.Linked[k] = change(k, linked)
			}
			return must(Refresh(t.Context(), next, from, Settings{}))(t).Findings.Refresh
		}
		same := func(_ int, linked bool) bool { return linked }
		if f := refresh(same); f.Due || len(f.Why) > 0 {
			t.Errorf("%s: nothing but a hundredth of pairs is new, and %v", s.Method, f.Why)
		}
		chance := func(k int, share float64) bool { return sample.Uniform(7, 0, uint64(k)) < share }
		crowded := func(k int, linked bool) bool { return linked || chance(k, .02) }
		if f := refresh(crowded); !f.Due || f.NewShare < mostNew {
			t.Errorf("%s: many links are new: %+v", s.Method, f)
		}
		nodes := p.Nodes
		// As many links as before, but those of two fields are shown to far fewer.
		hidden := func(k int, linked bool) bool {
			i, j := p.Train.Source[k], p.Train.Target[k]
			return linked && (nodes.Fields[i] != 1 || nodes.Fields[j] != 2 || chance(k, .4))
		}
		if f := refresh(hidden); !f.Due || f.Exposure < mostExposure || f.NewShare > mostNew {
			t.Errorf("%s: what is shown has changed: %+v", s.Method, f)
		}
		// As many links as before, but a part of them goes anywhere.
		rate := 0.
		for _, linked := range p.Train.Linked {
			if linked {
				rate += 1 / float64(p.Train.Len())
			}
		}
		strange := func(k int, linked bool) bool {
			if chance(k, .3) {
				return sample.Uniform(8, 0, uint64(k)) < rate
			}
			return linked
		}
		if f := refresh(strange); !f.Due || f.NewShare > mostNew {
			t.Errorf("%s: what is relevant has changed: %+v", s.Method, f)
		}
		often := &RefreshFindings{Number: mostRefreshes}
		if often.decide(true); !often.Due || len(often.Why) != 1 {
			t.Errorf("after %d refreshes: %q", often.Number, often.Why)
		}
		if why := must(from.Due(p))(t); len(why) > 0 {
			t.Errorf("a full training is due before a refresh: %q", why)
		}
	}
}

// What cannot be refreshed is refused by a sentence that says why, and what to do.
func TestRefreshRefused(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	shop := plantShop(t, 30, 12, 1).problem(nil)
	more := plantShop(t, 31, 12, 1).problem(nil)
	named := func(kind string) *sample.Origin { return &sample.Origin{Fields: sample.FieldsBy{Kind: kind, Count: 3}} }
	fit := func(p sample.Problem, s Settings) Earlier { return earlierOf(t, mustFit(t, p, s), p.Nodes) }
	unexamined := fit(p, Settings{Method: "naive", Seed: 1})
	unexamined.Model.Findings = nil
	known := Settings{Propensity: "known", Seed: 1, Doctor: QuickDoctor}
	for k := range 900 {
		known.PropensityOptions.Exposures = append(known.PropensityOptions.Exposures, model.KnownExposure{
			Source: p.Train.Source[k], Target: p.Train.Target[k], Propensity: .5})
	}
	other := fit(shop, Settings{Seed: 1})
	byLinks := p
	byLinks.Origin = named("links")
	for _, c := range []struct {
		p    sample.Problem
		from Earlier
		says string
	}{
		{p, unexamined, "no findings"},
		{p, fit(p, Settings{Method: "cosine"}), "cosine is not trained"},
		{p, fit(p, known), "posterior"},
		{more, other, "people or items came or went"},
		{byLinks, fit(byLinks, Settings{Method: "naive", Seed: 1}), "found by links"},
	} {
		_, err := Refresh(t.Context(), c.p, c.from, Settings{})
		if !errors.Is(err, ErrEarlier) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "train in full") {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
}

// A refresh that is interrupted resumes to the same bits, and not as a full training.
func TestRefreshResumes(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits that are interrupted")
	p := checkpointProblem(t, 1)
	p.Nodes.Popularity = model.LogInDegree(p.Nodes.Len(), linkTargets(p))
	for kind, s := range resumables {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			from := earlierOf(t, mustFit(t, without(p, .02), s), p.Nodes)
			s.Starts, s.Search = nil, Search{}
			want, err := Refresh(t.Context(), p, from, s)
			if err != nil {
				t.Fatal(err)
			}
			s.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "checkpoint")}
			stopped := 0
			var got *Result
			for looks := 20; ; looks += 20 {
				if got, err = Refresh(newCountdown(looks), p, from, s); err == nil {
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				s.Checkpoint.Resume = exists(t, s.Checkpoint.Path)
				if stopped++; stopped == 1 && s.Checkpoint.Resume {
					full := resumables[kind]
					full.Checkpoint = s.Checkpoint
					if _, err := Fit(t.Context(), p, full); !errors.Is(err, ErrCheckpoint) {
						t.Errorf("a full training resumes a refresh: %v", err)
					}
				}
			}
			if stopped == 0 {
				t.Error("it was never interrupted")
			}
			want.earlier, got.earlier = nil, nil
			sameResult(t, want, got)
		})
	}
}

// A part of the pairs hardly changes when a few are added.
func TestPartsAreStable(t *testing.T) {
	t.Parallel()
	p := smallProblem(t, 200, 4, 5000, 1)
	chosen := func(p sample.Problem) map[[2]int32]bool {
		out := map[[2]int32]bool{}
		for _, k := range thin(p, 1000, 1, false).places {
			out[[2]int32{p.Train.Source[k], p.Train.Target[k]}] = true
		}
		return out
	}
	less, all := chosen(without(p, .01)), chosen(p)
	kept := 0
	for pair := range less {
		if all[pair] {
			kept++
		}
	}
	if share := float64(kept) / float64(len(less)); share < .97 {
		t.Errorf("%.3f of a part stays when a hundredth of the pairs is new", share)
	}
}
