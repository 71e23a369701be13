package world_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"unseen/world"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := world.Settings{}.WithDefaults()
	if s.Nodes != 26_000 || s.Dim != 768 || len(s.Fields) != 19 || s.BaseRate != .16 || s.OracleAUC != .97 ||
		s.Ceiling != 1 ||
		s.Same != between(.7, 1) || s.Cross != between(.1, .3) {
		t.Errorf("defaults are %+v", s)
	}
	if again := s.WithDefaults(); !reflect.DeepEqual(again, s) {
		t.Error("defaults of defaults differ")
	}
	for _, p := range []world.Scenario{world.Saturated(), world.SaturatedRare(), world.FlatRare(), {}} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	if err := (world.Settings{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestImpossibleWorlds(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	field := func(name string, share float64) []world.Field {
		return []world.Field{{Name: "Art", Share: 1}, {Name: name, Share: share}}
	}
	violating := func(v world.Violations) world.Settings {
		return world.Settings{Scenario: world.Scenario{Violations: v}}
	}
	for _, test := range []struct {
		name string
		s    world.Settings
		says string
	}{
		{"negative nodes", world.Settings{Nodes: -1}, "a world of -1 nodes has no pairs"},
		{"one node", world.Settings{Nodes: 1}, "a world of 1 node has no pairs"},
		{"more nodes than are numbered", world.Settings{Nodes: math.MaxInt}, "set nodes from 2 to 2,147,483,647"},
		{"negative dimension", world.Settings{Dim: -3}, "-3 dimensions"},
		{"endless dimension", world.Settings{Dim: math.MaxInt}, "set dim to 1 or more"},
		{"negative topics", world.Settings{Topics: -1}, "Topics"},
		{"too many topics", world.Settings{Topics: math.MaxInt}, "Topics"},
		{"negative field share", world.Settings{FieldShare: -.1}, "FieldShare"},
		{"NaN topic share", world.Settings{TopicShare: nan}, "TopicShare"},
		{"shares above 1", world.Settings{FieldShare: .6, TopicShare: .6}, "together"},
		{"NaN homophily", world.Settings{Homophily: nan}, "Homophily"},
		{"rising spectrum", world.Settings{Spectrum: -.1}, "Spectrum"},
		{"steep spectrum", world.Settings{Spectrum: 5}, "Spectrum"},
		{"NaN spectrum", world.Settings{Spectrum: nan}, "Spectrum"},
		{"more fields than nodes", world.Settings{Nodes: 18}, "19 Fields for 18 Nodes"},
		{"no fields", world.Settings{Fields: []world.Field{}}, "Fields is empty"},
		{"nameless field", world.Settings{Fields: field("", 1)}, "name"},
		{"unknown field", world.Settings{Fields: field("unknown", 1)}, "name"},
		{"field twice", world.Settings{Fields: field("Art", 1)}, `"Art"`},
		{"negative share", world.Settings{Fields: field("Law", -1)}, `"Law"`},
		{"infinite share", world.Settings{Fields: field("Law", inf)}, `"Law"`},
		{"negative base rate", world.Settings{Scenario: world.Scenario{BaseRate: -.1}}, "BaseRate"},
		{"base rate 1", world.Settings{Scenario: world.Scenario{BaseRate: 1}}, "BaseRate"},
		{"NaN base rate", world.Settings{Scenario: world.Scenario{BaseRate: nan}}, "BaseRate"},
		{"vanishing base rate", world.Settings{Scenario: world.Scenario{BaseRate: 1e-9}}, "BaseRate"},
		{"blind oracle", world.Settings{Scenario: world.Scenario{OracleAUC: .5}}, "OracleAUC"},
		{"perfect oracle", world.Settings{Scenario: world.Scenario{OracleAUC: 1}}, "OracleAUC"},
		{"NaN oracle", world.Settings{Scenario: world.Scenario{OracleAUC: nan}}, "OracleAUC"},
		{"ceiling above 1", world.Settings{Scenario: world.Scenario{Ceiling: 1.5}}, "the ceiling of y is 1.5"},
		{"NaN ceiling", world.Settings{Scenario: world.Scenario{Ceiling: nan}}, "the ceiling of y is NaN"},
		{"propensity 0", world.Settings{Scenario: world.Scenario{Same: between(0, .5)}}, "Same"},
		{"propensity above 1", world.Settings{Scenario: world.Scenario{Cross: between(.5, 1.5)}}, "Cross"},
		{"range upside down", world.Settings{Scenario: world.Scenario{Cross: between(.5, .4)}}, "Cross"},
		{"NaN range", world.Settings{Scenario: world.Scenario{Same: between(nan, 1)}}, "Same"},
		{"negative text", violating(world.Violations{Text: -.1}), "the violation text is"},
		{"text above 1", violating(world.Violations{Text: 1.1}), "the violation text is"},
		{"NaN popularity", violating(world.Violations{Popularity: nan}), "the violation popularity is"},
		{"negative popularity", violating(world.Violations{Popularity: -1}), "the violation popularity is"},
		{"endless age", violating(world.Violations{Age: -inf}), "the violation age is"},
		{"negative quality", violating(world.Violations{Quality: -1}), "the violation quality is"},
		{"dependence 1", violating(world.Violations{Dependence: 1}), "the violation dependence is"},
		{"dependence -1", violating(world.Violations{Dependence: -1}), "the violation dependence is"},
		{"NaN dependence", violating(world.Violations{Dependence: nan}), "the violation dependence is"},
		{"unknown response", violating(world.Violations{Response: "loglog"}), "logit, probit or cauchit"},
		{"negative threads", world.Settings{Scenario: world.Scenario{Threads: -1}}, "Threads"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.s.Validate()
			if !errors.Is(err, world.ErrSetting) {
				t.Fatalf("error is %v", err)
			}
			if message := err.Error(); !strings.Contains(message, test.says) || strings.Contains(message, "\n") {
				t.Errorf("%q does not name %q in one line", message, test.says)
			}
			if _, made := world.New(ctx, test.s); made == nil || made.Error() != err.Error() {
				t.Errorf("New says %v", made)
			}
		})
	}
}

// Two pairs of the same two texts have one y, so no spread of the logits separates them.
func TestUnreachableOracle(t *testing.T) {
	t.Parallel()
	_, err := world.New(ctx, world.Settings{Nodes: 2, Dim: 4, Fields: world.EvenFields(2)})
	if !errors.Is(err, world.ErrUnreachable) {
		t.Fatal(err)
	}
	_, err = world.New(ctx, world.Settings{Nodes: 3, Dim: 4, Fields: world.EvenFields(2),
		Scenario: world.Scenario{OracleAUC: .9999}})
	if !errors.Is(err, world.ErrUnreachable) || !strings.Contains(err.Error(), "it can be from 0.5") {
		t.Fatal(err)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(100, 8, 5, 3, .25, .25, 0., .16, .97, 1., .7, 1., .1, .3, 0., 0., 0., uint64(1))
	f.Add(2, 1, 1, 1, 1., 1e-9, -100., 1e-6, .5000001, 1e-300, 1e-300, 1e-300, 1., 1., 1., 100., .999, uint64(0))
	f.Add(30, 2, 30, 9, .5, .5, 3., .999, .9999, .5, .5, .4, math.NaN(), math.Inf(1), 1., 2., -1., uint64(3))
	f.Add(30, 2, 3, 9, .5, .5, 3., .3, .9999, .5, .5, 1., 1e-300, 1e-6, 1., 100., -.999, uint64(5))
	f.Add(-5, -1, 0, -1, -1., math.NaN(), math.Inf(1), 0., 0., -1., 0., 0., 0., 0., -1., -1., 2., uint64(4))
	f.Fuzz(func(t *testing.T, nodes, dim, fields, topics int, fieldShare, topicShare, homophily, rate, auc, ceiling,
		same0, same1, cross0, cross1, text, popularity, dependence float64, seed uint64) {
		s := world.Settings{
			Nodes: nodes, Dim: dim, Fields: world.EvenFields(fields % 100), Topics: topics,
			FieldShare: fieldShare, TopicShare: topicShare, Homophily: homophily, RandomFields: seed%2 == 1,
			Scenario: world.Scenario{BaseRate: rate, OracleAUC: auc, Ceiling: ceiling,
				Same: between(same0, same1), Cross: between(cross0, cross1), Seed: seed, Threads: 1,
				Violations: world.Violations{Text: text, Popularity: popularity, Dependence: dependence,
					Response: [...]string{"", world.Probit, world.Cauchit}[seed%3]}},
		}
		if err := s.Validate(); err != nil && !errors.Is(err, world.ErrSetting) {
			t.Fatal(err)
		}
		s.Nodes, s.Dim, s.Topics = 1+abs(nodes)%60, 1+abs(dim)%40, 1+abs(topics)%20
		w, err := world.New(ctx, s)
		if err != nil {
			if !errors.Is(err, world.ErrSetting) && !errors.Is(err, world.ErrUnreachable) {
				t.Fatal(err)
			}
			return
		}
		s = s.WithDefaults()
		p := w.Profile()
		near(t, "base rate", p.BaseRate, s.Ceiling*s.BaseRate, .002*s.Ceiling*s.BaseRate)
		if s.Ceiling == 1 {
			near(t, "AUC", p.OracleAUC, s.OracleAUC, .001)
		}
		sample, err := w.Pairs(ctx, s.Nodes*(s.Nodes-1), world.Draw{Parts: 1})
		if err != nil {
			t.Fatal(err)
		}
		for k, truth := range sample.Truth {
			if !(truth.Propensity > 0 && truth.Propensity <= 1 && truth.Link >= 0 && truth.Link <= s.Ceiling) {
				t.Fatalf("pair %d has truth %v", k, truth)
			}
			if both := w.LinkRate(truth); !(both >= -1e-9 && both <= min(truth.Propensity, truth.Link)+1e-9) {
				t.Fatalf("pair %d of truth %v is linked with probability %v", k, truth, both)
			}
		}
	})
}

func abs(x int) int { return max(x, -x, 0) }
