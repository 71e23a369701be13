package recommend

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"unseen/evaluate"
)

// A policy shows an item as often as lists by the same settings do, and at the same places.
func TestPolicyListsAreThoseOfTop(t *testing.T) {
	t.Parallel()
	g, m, _ := small(t, 40, "diagonal")
	r := must(New(g, m, Options{}))(t)
	const k, draws = 5, 20_000
	theta := []float64{1, .5, .25, .2, .1}
	for _, share := range []float64{0, .4} {
		had, looks := map[int32]float64{}, map[int32]float64{}
		at := map[[2]int32]float64{}
		for seed := range uint64(draws) {
			list := must(r.Top(t.Context(), Query{Source: r.Node(39), K: k, Explore: share, Seed: seed}))(t)
			for _, item := range list.Items {
				had[item.Node] += 1. / draws
				looks[item.Node] += theta[item.Rank-1] / draws
				at[[2]int32{item.Node, int32(item.Rank)}] += 1. / draws
			}
		}
		for _, byPlace := range []bool{false, true} {
			for j := range int32(39) {
				if slices.Contains(g.Out(39), j) {
					continue
				}
				for place := 1; place <= k; place++ {
					logged := evaluate.LoggedList{Source: 39, Items: []evaluate.LoggedItem{{Target: j, Probability: .5,
						Place: place, Wanted: true}}}
					p := Policy{K: k, Explore: share, Examination: theta, ByPlace: byPlace}
					list := must(r.PolicyLists(t.Context(), []evaluate.LoggedList{logged}, p))(t)[0]
					item := list.Items[0]
					if math.Abs(list.Length-k) > 1e-9 || item.Outcome != 1 || item.Logged != .5 || list.Context != 39 {
						t.Fatalf("%+v", list)
					}
					want, got := had[j], item.Target
					if byPlace {
						want = at[[2]int32{j, int32(place)}]
					}
					if math.Abs(got-want) > .015 {
						t.Errorf("explore %v, by place %v: node %d at place %d with probability %v, in lists %v",
							share, byPlace, j, place, got, want)
					}
					if byPlace {
						continue
					}
					if got := item.Target * item.Examination * theta[place-1]; math.Abs(got-looks[j]) > .015 {
						t.Errorf("explore %v: node %d is looked at with probability %v, in lists %v", share, j, got,
							looks[j])
					}
				}
			}
		}
	}
}

// Slopes are by how much weighted outcomes move with the logarithm of the chance that a place is looked at.
func TestPolicyListsSlopes(t *testing.T) {
	t.Parallel()
	g, m, _ := small(t, 40, "diagonal")
	r := must(New(g, m, Options{}))(t)
	top := must(r.Top(t.Context(), Query{Source: r.Node(20), K: 6}))(t)
	logged := evaluate.LoggedList{Source: 20}
	for k, item := range top.Items {
		logged.Items = append(logged.Items, evaluate.LoggedItem{Target: item.Node, Probability: .5, Place: 6 - k,
			Wanted: k%3 > 0})
	}
	for _, explore := range []float64{0, .4} {
		p := Policy{K: 4, Explore: explore, Examination: []float64{1, .6, .5, .3, .25, .2},
			Learned: new(evaluate.LearnedPlaces)}
		outcomes := func(p Policy) (sum float64, list evaluate.PolicyList) {
			list = must(r.PolicyLists(t.Context(), []evaluate.LoggedList{logged}, p))(t)[0]
			for _, item := range list.Items {
				sum += item.Target / item.Logged * item.Outcome * item.Examination
			}
			return sum, list
		}
		_, list := outcomes(p)
		if list.Places != p.Learned || len(list.Slopes) < 4 {
			t.Errorf("explore %v: %d slopes of %p", explore, len(list.Slopes), list.Places)
		}
		for place := range p.Examination {
			const step = 1e-5
			moved := func(by float64) float64 {
				p := p
				p.Examination = slices.Clone(p.Examination)
				p.Examination[place] = math.Min(p.Examination[place]*math.Exp(by), 1)
				sum, _ := outcomes(p)
				return sum
			}
			got, want := 0., (moved(0)-moved(-step))/step
			if place < len(list.Slopes) {
				got = list.Slopes[place]
			}
			if math.Abs(got-want) > 1e-3 {
				t.Errorf("explore %v: the slope of place %d is %v, by a small step %v", explore, place+1, got, want)
			}
		}
		p.Learned = nil
		if _, list := outcomes(p); list.Places != nil || list.Slopes != nil {
			t.Errorf("what is known has slopes %v", list.Slopes)
		}
	}
}

// What the policy expects of its lists is Σ t·ŷ·θ, and items that it cannot show count nothing.
func TestPolicyListsExpect(t *testing.T) {
	t.Parallel()
	g, m, _ := small(t, 40, "diagonal")
	r := must(New(g, m, Options{}))(t)
	top := must(r.Top(t.Context(), Query{Source: r.Node(20), K: 3}))(t)
	var want float64
	var logged evaluate.LoggedList
	logged.Source = 20
	for k, item := range top.Items {
		want += item.Link / float64(k+1)
		logged.Items = append(logged.Items, evaluate.LoggedItem{Target: item.Node, Probability: 1, Place: 3 - k})
	}
	p := Policy{Examination: []float64{1, .5, 1. / 3}}
	list := must(r.PolicyLists(t.Context(), []evaluate.LoggedList{logged}, p))(t)[0]
	if math.Abs(list.Expected-want) > 1e-6 {
		t.Errorf("expects %v, want %v", list.Expected, want)
	}
	var sum float64
	for k, item := range list.Items {
		sum += item.Target * item.Expected
		if ratio := (1 / float64(k+1)) / p.Examination[2-k]; math.Abs(item.Examination-ratio) > 1e-12 {
			t.Errorf("item %d is examined %v times as much, want %v", k, item.Examination, ratio)
		}
	}
	if math.Abs(sum-want) > 1e-6 {
		t.Errorf("the items add up to %v, want %v", sum, want)
	}
	// an item that is linked was a candidate when it was shown
	linked := g.Out(20)[0]
	again := must(r.PolicyLists(t.Context(), []evaluate.LoggedList{{Source: 20, Items: []evaluate.LoggedItem{
		{Target: linked, Probability: 1}}}}, Policy{K: 40}))(t)[0]
	if again.Items[0].Target != 1 || again.Length != float64(len(g.Targets())-1-len(g.Out(20))+1) {
		t.Errorf("%+v", again)
	}
}

func TestRulePolicyLists(t *testing.T) {
	t.Parallel()
	g, _, _ := small(t, 40, "diagonal")
	var lists []evaluate.LoggedList
	best, most := int32(-1), -1
	for j := range int32(39) {
		if slices.Contains(g.Out(39), j) {
			continue
		}
		items := []evaluate.LoggedItem{{Target: j, Probability: 1}}
		lists = append(lists, evaluate.LoggedList{Source: 39, Items: items})
		if n := len(g.In(j)); n > most {
			best, most = j, n
		}
	}
	popular := must(RulePolicyLists(t.Context(), g, lists, Policy{Rule: ByPopular, K: 1}))(t)
	uniform := must(RulePolicyLists(t.Context(), g, lists, Policy{Rule: ByUniform, K: 4}))(t)
	for n, l := range lists {
		j, want := l.Items[0].Target, 0.
		if j == best {
			want = 1
		}
		if got := popular[n].Items[0].Target; got != want {
			t.Errorf("node %d of %d links is shown with probability %v", j, len(g.In(j)), got)
		}
		if got := uniform[n].Items[0].Target; math.Abs(got-4/float64(len(lists))) > 1e-9 || uniform[n].Expected != 0 {
			t.Errorf("node %d is shown with probability %v at random: %+v", j, got, uniform[n])
		}
	}
}

// A log by one model tells what another is worth, whose truth is known; the log's own value is another.
func TestPolicyIsValuedByTheLogOfAnother(t *testing.T) {
	t.Parallel()
	g, m, other := small(t, 60, "diagonal")
	logging, target := must(New(g, m, Options{}))(t), must(New(g, other, Options{}))(t)
	rng := rand.New(rand.NewPCG(1, 2))
	wants := func(i, j int32) float64 { return .8 / (1 + math.Exp(-logit(other, i, j))) }
	var lists []evaluate.LoggedList
	for n := range 6000 {
		i := int32(10 + n%50)
		shown := must(logging.Top(t.Context(), Query{Source: logging.Node(i), K: 4, Explore: .8,
			Seed: uint64(n)}))(t)
		l := evaluate.LoggedList{Source: i}
		for _, item := range shown.Items {
			l.Items = append(l.Items, evaluate.LoggedItem{Target: item.Node, Probability: item.Shown, Place: item.Rank,
				Wanted: rng.Float64() < wants(i, item.Node)})
		}
		lists = append(lists, l)
	}
	policy := Policy{Explore: .1}
	var truth, n float64
	for i := int32(10); i < 60; i++ {
		for seed := range uint64(200) {
			for _, item := range must(target.Top(t.Context(), Query{Source: target.Node(i), K: 4, Explore: .1,
				Seed: seed}))(t).Items {
				truth += wants(i, item.Node)
				n++
			}
		}
	}
	truth /= n
	asked := must(target.PolicyLists(t.Context(), lists, policy))(t)
	for k := range asked {
		asked[k].Context = k // lists are independent here; there are only 50 sources
	}
	v := must(evaluate.ValuePolicy(asked))(t)
	if v.Verdict != evaluate.PolicyBetter || v.Effective < evaluate.FewestEffective {
		t.Fatalf("%+v", v)
	}
	for _, e := range v.Estimates {
		if math.Abs(e.Estimate-truth) > 4*e.StandardError || e.StandardError > .05 {
			t.Errorf("%s is %v ± %v, the truth is %v, and the log has %v", e.Name, e.Estimate, e.StandardError, truth,
				v.Logged.Estimate)
		}
	}
}

func TestPolicyListsRefuse(t *testing.T) {
	t.Parallel()
	g, m, _ := small(t, 40, "diagonal")
	r := must(New(g, m, Options{}))(t)
	good := []evaluate.LoggedList{{Source: 20, Items: []evaluate.LoggedItem{{Target: 3, Probability: 1}}}}
	for name, test := range map[string]struct {
		lists []evaluate.LoggedList
		p     Policy
		says  string
	}{
		"rule":        {good, Policy{Rule: "luck"}, "model, popular or uniform"},
		"k":           {good, Policy{K: -1}, "lists of -1"},
		"explore":     {good, Policy{Explore: 2}, "share of 2"},
		"examination": {good, Policy{Examination: []float64{1, 0}}, "place 2"},
		"place":       {good, Policy{ByPlace: true}, "the place of item 1 of list 1 is unknown"},
		"source":      {[]evaluate.LoggedList{{Source: 99}}, Policy{}, "list 1 is of node 99"},
		"target": {[]evaluate.LoggedList{{Source: 20, Items: []evaluate.LoggedItem{{Target: -1}}}}, Policy{},
			"item 1 of list 1 is node -1"},
	} {
		if _, err := r.PolicyLists(t.Context(), test.lists, test.p); err == nil ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}
