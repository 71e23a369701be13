package world_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math"
	"reflect"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/world"
)

// violations are one of each kind, and all at once.
func violations() map[string]world.Scenario {
	return map[string]world.Scenario{
		"none":                {},
		"text":                {Violations: world.Violations{Text: .7}, Same: between(.3, .5), Cross: between(.05, .1)},
		"popularity":          {Violations: world.Violations{Popularity: 1.2}},
		"age":                 {Violations: world.Violations{Age: -.8}},
		"quality":             {Violations: world.Violations{Quality: 1.5}},
		"ceiling":             {Ceiling: .5},
		"dependence":          {Violations: world.Violations{Dependence: .7}},
		"negative dependence": {Violations: world.Violations{Dependence: -.6}},
		"probit":              {Violations: world.Violations{Response: world.Probit}},
		"cauchit":             {Violations: world.Violations{Response: world.Cauchit}},
		"everything": {Ceiling: .8, Violations: world.Violations{Text: .3, Popularity: .5, Age: .4, Quality: .6,
			Dependence: .4, Response: world.Probit}},
	}
}

// What is drawn has the probabilities that are stated: of exposure, of relevance, of both at once, also among pairs
// whose probability is alike, and whether a world is thinned or not.
func TestDrawsHaveTheStatedProbabilities(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestViolationsAreTheSameWhateverTheThreads has the same goroutines")
	for name, p := range violations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := generate(t, small(p))
			thin, err := whole.Thinned(.5)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range []*world.World{whole, thin} {
				n := w.Graph().Len()
				s := draw(t, w, n*(n-1), world.Draw{Parts: 1})
				var exposed, relevant, linked [11]standardised // the last of all pairs
				add := func(bins *[11]standardised, drawn bool, p float64) {
					if !(p >= 0 && p <= 1) {
						t.Fatalf("a probability of %v", p)
					}
					bins[min(9, int(10*p))].add(boolean(drawn)-p, p*(1-p))
					bins[10].add(boolean(drawn)-p, p*(1-p))
				}
				for k, truth := range s.Truth {
					add(&exposed, s.Exposed[k], truth.Propensity)
					add(&relevant, s.Relevant[k], truth.Link)
					add(&linked, s.Pairs.Linked[k], w.LinkRate(truth))
				}
				for bin := range exposed {
					for what, sum := range map[string]standardised{
						"exposure": exposed[bin], "relevance": relevant[bin], "links": linked[bin],
					} {
						if sum.variance > 5 { // enough for a sum to be about normal
							sum.isZero(t, what)
						}
					}
				}
				truth := s.Truth[0]
				if w.Violations().Dependence == 0 && w.LinkRate(truth) != truth.Propensity*truth.Link {
					t.Error("independent draws are both true with another probability than πy")
				}
			}
		})
	}
}

// Each term adds to the logits what it says, compared with the world of the same seed without it.
func TestViolationsFollowTheirFormula(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestViolationsAreTheSameWhateverTheThreads has the same goroutines")
	logit := func(p float64) float64 { return math.Log(p / (1 - p)) }
	plain := small(world.Scenario{Same: between(.3, .5), Cross: between(.05, .1), OracleAUC: .8})
	before := generate(t, plain)
	n := before.Graph().Len()
	all := world.Draw{Parts: 1}
	old := draw(t, before, n*(n-1), all)
	years := func(i int32) float64 {
		when, _ := before.Graph().Time(i)
		return float64(when.Unix()) / (365.25 * 24 * 60 * 60)
	}
	// added returns what was added to the logits of π and of y, pair by pair.
	added := func(v world.Violations) (exposure, link []float64) {
		s := plain
		s.Violations = v
		w := generate(t, s)
		for k, truth := range draw(t, w, n*(n-1), all).Truth {
			exposure = append(exposure, logit(truth.Propensity)-logit(old.Truth[k].Propensity))
			link = append(link, logit(truth.Link)-logit(old.Truth[k].Link))
		}
		return exposure, link
	}
	// byTarget checks that what is left is one number per target, of a deviation.
	byTarget := func(t *testing.T, left []float64, deviation float64) {
		value := make(map[int32]float64)
		var sum, squares float64
		for k, j := range old.Pairs.Target {
			x, seen := value[j]
			if value[j] = left[k]; !seen {
				sum += left[k]
				squares += left[k] * left[k]
			} else if math.Abs(x-left[k]) > 1e-9 {
				t.Fatalf("target %d gets %v and %v", j, x, left[k])
			}
		}
		near(t, "mean", sum/float64(n), 0, 4*deviation/math.Sqrt(float64(n)))
		near(t, "deviation", math.Sqrt(squares/float64(n)), deviation, 4*deviation/math.Sqrt(2*float64(n)))
	}
	zeros := make([]float64, len(old.Truth))

	t.Run("text", func(t *testing.T) {
		exposure, link := added(world.Violations{Text: .6})
		level := exposure[0] - .6*old.Logits[0]
		for k, x := range exposure {
			near(t, "what text adds", x, .6*old.Logits[k]+level, 1e-9)
		}
		byTarget(t, link, 0)
	})
	t.Run("popularity", func(t *testing.T) {
		exposure, link := added(world.Violations{Popularity: .9})
		byTarget(t, exposure, .9)
		byTarget(t, link, 0)
	})
	t.Run("quality", func(t *testing.T) {
		exposure, link := added(world.Violations{Quality: 1.1})
		byTarget(t, link, 1.1)
		byTarget(t, exposure, 0)
	})
	t.Run("age", func(t *testing.T) {
		exposure, link := added(world.Violations{Age: -.5})
		for k, x := range exposure {
			decades := (years(old.Pairs.Source[k]) - years(old.Pairs.Target[k])) / 10 // that the target is older
			near(t, "what age adds", x, -.5*decades, 1e-5)
		}
		byTarget(t, link, 0)
	})
	t.Run("dependence", func(t *testing.T) {
		exposure, link := added(world.Violations{Dependence: .5})
		if !reflect.DeepEqual(exposure, zeros) || !reflect.DeepEqual(link, zeros) {
			t.Error("dependence changed π or y")
		}
	})
}

// Text in exposure leaves the mean of π, and a response the base rate and the AUC, on pairs of the calibration and on
// all.
func TestViolationsKeepTheScenario(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestViolationsAreTheSameWhateverTheThreads has the same goroutines")
	plain := generate(t, small(world.Scenario{}))
	for _, v := range []world.Violations{
		{Text: 1}, {Response: world.Probit}, {Text: .5, Response: world.Cauchit},
	} {
		p := generate(t, small(world.Scenario{Violations: v})).Profile()
		near(t, "mean π", p.Propensity, plain.Profile().Propensity, 1e-6)
		near(t, "base rate", p.BaseRate, .16, 1e-6)
		near(t, "AUC", p.OracleAUC, .97, 1e-5)
	}
	s := small(world.Scenario{Violations: world.Violations{Text: .5}})
	s.Nodes = 700 // calibrated on a part of the pairs
	means, err := generate(t, s).Means(ctx, graph.Universe{})
	if err != nil {
		t.Fatal(err)
	}
	s.Violations = world.Violations{}
	want, err := generate(t, s).Means(ctx, graph.Universe{})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean π of all pairs", means.Propensity, want.Propensity, .003)
	if means.Same/means.Cross == want.Same/want.Cross {
		t.Error("text changed no exposure")
	}
}

func TestMeans(t *testing.T) {
	t.Parallel()
	s := small(violations()["everything"])
	s.Threads = 3
	w, err := generate(t, s).Linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	g := w.Graph()
	for _, older := range []bool{false, true} {
		u, pairs := graph.Universe{}, g.Len()*(g.Len()-1)
		if older {
			u.Before, pairs = g.Order(), pairs/2
		}
		got, err := w.Means(ctx, u)
		if err != nil {
			t.Fatal(err)
		}
		if got.Pairs != int64(pairs) {
			t.Fatalf("%d pairs, want %d", got.Pairs, pairs)
		}
		d := draw(t, w, pairs, world.Draw{Parts: 1, Older: older})
		var link, rate, same, cross, sames, first, firsts float64
		for k, truth := range d.Truth {
			link += truth.Link
			rate += w.LinkRate(truth)
			a, b := g.Field(d.Pairs.Source[k]), g.Field(d.Pairs.Target[k])
			if a == b {
				same += truth.Propensity
				sames++
			} else {
				cross += truth.Propensity
			}
			if a == 2 && b == 1 {
				first += truth.Propensity
				firsts++
			}
		}
		n := float64(pairs)
		near(t, "y", got.Link, link/n, 1e-9)
		near(t, "link rate", got.LinkRate, rate/n, 1e-9)
		near(t, "π", got.Propensity, (same+cross)/n, 1e-9)
		near(t, "π of one field", got.Same, same/sames, 1e-9)
		near(t, "π of two fields", got.Cross, cross/(n-sames), 1e-9)
		near(t, "π from field 2 to 1", got.Fields[2*g.FieldCount()+1], first/firsts, 1e-9)
		if got.Fields[0] != 0 {
			t.Errorf("no node is of the unknown field, and it has π of %v", got.Fields[0])
		}
		if !older {
			p := w.Profile() // of all pairs, since these are few
			near(t, "profile's base rate", p.BaseRate, got.Link, 1e-6)
			near(t, "profile's π", p.Propensity, got.Propensity, 1e-6)
			near(t, "profile's link rate", p.LinkRate, got.LinkRate, 1e-6)
			thin, err := w.Thinned(.3)
			if err != nil {
				t.Fatal(err)
			}
			less, err := thin.Means(ctx, u)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "π of the thinned world", less.Propensity, .3*got.Propensity, 1e-9)
			near(t, "its profile's link rate", thin.Profile().LinkRate, less.LinkRate, 1e-6)
			if less.LinkRate < .32*got.LinkRate {
				t.Error("what is seldom shown is no more often relevant, although the draws depend on one another")
			}
		}
	}
	if _, err := w.Means(ctx, graph.Universe{Sources: []int32{1, -1}}); !errors.Is(err, graph.ErrUnknownNode) {
		t.Errorf("a node that is not there: %v", err)
	}
	g.Vectors().Close()
	if _, err := w.Means(ctx, graph.Universe{}); !errors.Is(err, world.ErrGraph) {
		t.Errorf("closed vectors: %v", err)
	}
}

func TestViolationsAreTheSameWhateverTheThreads(t *testing.T) {
	t.Parallel()
	type all struct {
		profile world.Profile
		means   world.TrueMeans
		sample  *world.TruePairs
		links   []graph.Link
	}
	everything := func(threads int) (a all) {
		s := small(violations()["everything"])
		s.Nodes, s.Threads = 120, threads
		w, err := generate(t, s).Linked(ctx)
		if err != nil {
			t.Fatal(err)
		}
		a.profile, a.sample = w.Profile(), draw(t, w, 120*119, world.Draw{Parts: 1})
		if a.means, err = w.Means(ctx, graph.Universe{}); err != nil {
			t.Fatal(err)
		}
		for i, j := range w.Graph().Links() {
			a.links = append(a.links, graph.Link{Source: i, Target: j})
		}
		return a
	}
	one := everything(1)
	for _, threads := range []int{2, 7} {
		if !reflect.DeepEqual(everything(threads), one) {
			t.Errorf("%d threads make another world than one", threads)
		}
	}
}

// The graph has the links that the draws say, also where its fields are numbered in another order.
func TestLinkedAgreesWithDrawsUnderViolations(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestViolationsAreTheSameWhateverTheThreads has the same goroutines")
	fields := make([]string, 100)
	for i := range fields {
		fields[i] = [...]string{"a", "b", "", "c"}[(i/30+i)%4]
	}
	g := fromBuilder(t, fields, 16)
	var nodes []int32
	for i := range int32(len(fields)) {
		if fields[len(fields)-1-int(i)] != "b" {
			nodes = append(nodes, int32(len(fields))-1-i)
		}
	}
	sub, err := g.Induced(nodes)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range violations() {
		p.Violations.Age = 0 // nodes have no times
		w, err := world.Plant(ctx, sub, nil, p)
		if err != nil {
			t.Fatal(err)
		}
		linked, err := w.Linked(ctx)
		if err != nil {
			t.Fatal(err)
		}
		all := draw(t, linked, sub.Len()*(sub.Len()-1)/2, world.Draw{Older: true, Parts: 1})
		if err := all.Pairs.Validate(linked.Graph()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		links := 0.
		for k, i := range all.Pairs.Source {
			links += boolean(all.Pairs.Linked[k])
			if want := w.Truth(i, all.Pairs.Target[k]); all.Truth[k] != want {
				t.Fatalf("%s: pair %d has truth %v, had %v", name, k, all.Truth[k], want)
			}
		}
		if links != float64(linked.Graph().LinkCount()) || links == 0 {
			t.Errorf("%s: %d links in the graph, %v drawn", name, linked.Graph().LinkCount(), links)
		}
	}
}

// A setting that is 0 leaves the draws as they were before there were violations: the sums are of worlds made then.
func TestWorldsWithoutViolationsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	for k, want := range []uint64{0x9e847ef5784324a1, 0x647a18146c0dbe1e} {
		s := small(world.Scenario{})
		if k == 1 {
			s.Scenario, s.Homophily = world.Scenario{BaseRate: .05, OracleAUC: .9, Ceiling: .6, Seed: 3}, 1
		}
		linked, err := generate(t, s).Linked(ctx)
		if err != nil {
			t.Fatal(err)
		}
		d := draw(t, linked, 39_000, world.Draw{Parts: 1, Logged: .1})
		sum := fnv.New64a()
		for _, column := range []any{d.Pairs.Source, d.Pairs.Target, d.Pairs.Linked, d.Relevant, d.Exposed, d.Logged} {
			if err := binary.Write(sum, binary.LittleEndian, column); err != nil {
				t.Fatal(err)
			}
		}
		for i, j := range linked.Graph().Links() {
			if err := binary.Write(sum, binary.LittleEndian, [2]int32{i, j}); err != nil {
				t.Fatal(err)
			}
		}
		if got := sum.Sum64(); got != want {
			t.Errorf("world %d has the sum %#x, want %#x", k, got, want)
		}
	}
}

func TestPropensityOfFieldsIsRefused(t *testing.T) {
	t.Parallel()
	tiny := func(name string) *world.World {
		s := small(violations()[name])
		s.Nodes = 30
		return generate(t, s)
	}
	for _, name := range []string{"text", "popularity", "age"} {
		w := tiny(name)
		for _, ask := range []func(){func() { w.Propensities() }, func() { w.Propensity(1, 1) }} {
			func() {
				defer func() {
					if says, _ := recover().(string); !strings.Contains(says, "call Truth or Means") {
						t.Errorf("%s: %q", name, says)
					}
				}()
				ask()
				t.Errorf("%s: π is a matter of fields", name)
			}()
		}
	}
	for _, name := range []string{"quality", "ceiling", "dependence", "probit"} {
		tiny(name).Propensities() // does not panic
	}
}

func TestAgeNeedsTimes(t *testing.T) {
	t.Parallel()
	g := fromBuilder(t, []string{"a", "b", "a", "b"}, 3)
	_, err := world.Plant(ctx, g, nil, world.Scenario{OracleAUC: .7, Violations: world.Violations{Age: 1}})
	if !errors.Is(err, world.ErrGraph) || !strings.Contains(err.Error(), "no node has a time") {
		t.Error(err)
	}
}

// Settings are kept as JSON; what was written before there were violations opens as a world without.
func TestSettingsAsJSON(t *testing.T) {
	t.Parallel()
	for name, p := range violations() {
		s := small(p)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back world.Settings
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, s) {
			t.Errorf("%s: %+v came back as %+v", name, s, back)
		}
		if plain := p.Violations == (world.Violations{}); plain == strings.Contains(string(text), "iolations") {
			t.Errorf("%s is written as %s", name, text)
		}
	}
}
