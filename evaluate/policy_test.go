package evaluate

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Estimates and the effective number of contexts against sums by hand: two contexts, the second with two lists.
func TestValuePolicyByHand(t *testing.T) {
	t.Parallel()
	lists := []PolicyList{
		{Context: 7, Length: 2, Expected: .5, Items: []PolicyItem{
			{Logged: .5, Target: 1, Outcome: 1, Expected: .25},
			{Logged: .25, Target: .5, Outcome: 0, Expected: .5}}},
		{Context: 9, Length: 2, Expected: 1, Items: []PolicyItem{{Logged: 1, Target: 1, Outcome: 1, Expected: .5}}},
		{Context: 9, Length: 2, Expected: 1, Items: []PolicyItem{
			{Logged: .5, Target: 1, Outcome: .5, Examination: 2, Expected: .5}}},
	}
	totals, err := newPolicyTotals(lists)
	if err != nil {
		t.Fatal(err)
	}
	// Context 7: w = 2, 2, Σwr = 2, and its scale is from context 9: outcomes 1 + .5·2 over .5 + .5, so 2.
	// Context 9: w = 1, 2, Σwr = 1 + 2; its scale is 1/.75.
	c7, c9 := 2., 4./3
	direct := []float64{c7 * .5, c9 * 2}
	residual := []float64{2*(1-c7*.25) + 2*(0-c7*.5), 1*(1-c9*.5) + 2*(1-c9*.5)}
	for name, pair := range map[string][2]float64{
		"SNIPS":      {quotient{totals.outcomes, totals.weights, nil}.value(), (2. + 3) / (4 + 3)},
		"DR":         {totals.robust().value(), (direct[0] + direct[1] + residual[0] + residual[1]) / 6},
		"bounded DR": {totals.bounded().value(), (direct[0]+direct[1])/6 + (residual[0]+residual[1])/7},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	v, err := ValuePolicy(lists)
	if err != nil {
		t.Fatal(err)
	}
	want := 7. * 7 / (4*4 + 3*3)
	if math.Abs(v.Effective-want) > 1e-12 || v.Contexts != 2 || v.Lists != 3 || v.Items != 4 {
		t.Errorf("%+v, want an effective number of %v", v, want)
	}
	if v.Reason == "" || v.Estimates != nil || v.Difference != nil || v.Verdict != PolicyUnknown {
		t.Errorf("two contexts were enough: %+v", v)
	}
}

// A share of equal trials has Wilson's interval, whose ends Wilson's equation gives back.
func TestPolicyIntervalIsWilsons(t *testing.T) {
	t.Parallel()
	above, below := make([]float64, 1000), make([]float64, 1000)
	for k := range below {
		below[k] = 1
		if k%2 == 0 {
			above[k] = 1
		}
	}
	q := quotient{above, below, nil}
	got := q.interval()
	const x = 1.9623 // Student's quantile of 999 degrees of freedom
	for _, end := range []float64{got.Lower, got.Upper} {
		if z := math.Abs(got.Estimate-end) / math.Sqrt(end*(1-end)/999); math.Abs(z-x) > 1e-3 {
			t.Errorf("%v is %v standard errors away, want %v", end, z, x)
		}
	}
	if got.Estimate != .5 || degrees(q.influences()) != 999 {
		t.Errorf("%+v with %v degrees of freedom", got, degrees(q.influences()))
	}
	above[0] = 50 // one context that weighs much leaves few degrees of freedom
	below[0] = 50
	if d := degrees(q.influences()); d > 10 {
		t.Errorf("%v degrees of freedom with a context of weight 50", d)
	}
}

// shownLists are n lists of one of two items; the log shows the first with probability p, of which 40% have an outcome
// and 10% of the second. The policy shows the first with probability q.
func shownLists(n int, p, q float64, rng *rand.Rand) (lists []PolicyList) {
	for k := range n {
		item, chance := PolicyItem{Logged: p, Target: q}, .4
		if rng.Float64() >= p {
			item, chance = PolicyItem{Logged: 1 - p, Target: 1 - q}, .1
		}
		if rng.Float64() < chance {
			item.Outcome = 1
		}
		lists = append(lists, PolicyList{Context: k, Length: 1, Items: []PolicyItem{item}})
	}
	return lists
}

func TestValuePolicyWords(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, test := range []struct {
		name     string
		lists    []PolicyList
		verdict  PolicyVerdict
		sentence string
	}{
		{"better", shownLists(4000, .3, .9, rng), PolicyBetter, "m is better than what the log did: +1"},
		{"worse", shownLists(4000, .7, .1, rng), PolicyWorse, "m is worse than what the log did: -1"},
		{"same", shownLists(500, .5, .5, rng), PolicyUnknown,
			"Whether m is better than what the log did is not known: "},
		{"few", shownLists(60, .5, .6, rng), PolicyUnknown, "and it takes 100; collect more lists"},
		{"no support", shownLists(4000, 1, .3, rng), PolicyUnknown, "the policy shows what the log could not"},
		{"nothing shared", shownLists(4000, 1, 0, rng), PolicyUnknown, "the log never shows what the policy would"},
	} {
		v, err := ValuePolicy(test.lists)
		if err != nil {
			t.Fatal(err)
		}
		if s := v.Sentence("m"); v.Verdict != test.verdict || !strings.Contains(s, test.sentence) {
			t.Errorf("%s: %s: %s; want %s: …%s…", test.name, v.Verdict, s, test.verdict, test.sentence)
		}
		if (v.Reason == "") != (len(v.Estimates) == 3) {
			t.Errorf("%s: %d estimates with the reason %q", test.name, len(v.Estimates), v.Reason)
		}
	}
}

// Where readers look at place p with probability 1/p, the outcomes of what the log showed further down than the policy
// would count for more; without that the policy is valued too low.
func TestValuePolicyExamination(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 9))
	var aware, blind []PolicyList
	for k := range 40_000 {
		// The log shows both items in random order, the policy the first item, of which 60% are wanted, above the
		// other, of which 20% are.
		look := [2]float64{1, .5}
		first := rng.IntN(2)
		a, b := PolicyList{Context: k, Length: 2}, PolicyList{Context: k, Length: 2}
		for j, wanted := range []float64{.6, .2} {
			seen := look[(first+j)%2]
			item := PolicyItem{Logged: 1, Target: 1}
			if rng.Float64() < seen*wanted {
				item.Outcome = 1
			}
			b.Items = append(b.Items, item)
			item.Examination = look[j] / seen
			a.Items = append(a.Items, item)
		}
		aware, blind = append(aware, a), append(blind, b)
	}
	const truth = (.6 + .5*.2) / 2
	for _, test := range []struct {
		lists []PolicyList
		holds bool
	}{{aware, true}, {blind, false}} {
		v, err := ValuePolicy(test.lists)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range v.Estimates {
			if holds := e.Lower <= truth && truth <= e.Upper; holds != test.holds {
				t.Errorf("%s is %v (%v to %v), the truth is %v", e.Name, e.Estimate, e.Lower, e.Upper, truth)
			}
		}
	}
}

func TestValuePolicyRefuses(t *testing.T) {
	t.Parallel()
	good := PolicyItem{Logged: .5, Target: .5}
	for name, item := range map[string]PolicyItem{
		"logged 0": {Target: .5}, "logged NaN": {Logged: math.NaN()}, "logged 2": {Logged: 2},
		"target 2": {Logged: 1, Target: 2}, "target −1": {Logged: 1, Target: -1},
		"outcome 2": {Logged: 1, Outcome: 2}, "outcome NaN": {Logged: 1, Outcome: math.NaN()},
		"examination ∞": {Logged: 1, Examination: math.Inf(1)}, "expected −1": {Logged: 1, Expected: -1},
	} {
		_, err := ValuePolicy([]PolicyList{{Context: 1, Length: 1, Items: []PolicyItem{good}},
			{Context: 2, Length: 1, Items: []PolicyItem{item}}})
		if err == nil || !strings.Contains(err.Error(), "list 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, lists := range map[string][]PolicyList{
		"none": nil, "no item": {{Context: 1, Length: 1}, {Context: 2, Length: 1}},
		"one context":   {{Length: 1, Items: []PolicyItem{good}}},
		"nothing shown": {{Context: 1, Items: []PolicyItem{good}}, {Context: 2, Items: []PolicyItem{good}}},
	} {
		if _, err := ValuePolicy(lists); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := ValuePolicy([]PolicyList{{Context: 1, Length: math.Inf(1)}})
	if !errors.Is(err, ErrWeight) {
		t.Error(err)
	}
}

// Where outcomes are so rare that what weighs most may have had none by chance, the log cannot say.
func TestValuePolicyRareOutcomes(t *testing.T) {
	t.Parallel()
	for outcomes, says := range map[int]bool{10: false, 40: true} {
		var lists []PolicyList
		for k := range 4000 {
			item := PolicyItem{Logged: .5, Target: .5}
			if k < outcomes {
				item.Outcome = 1
			}
			lists = append(lists, PolicyList{Context: k, Length: 1, Items: []PolicyItem{item}})
		}
		v, err := ValuePolicy(lists)
		if err != nil {
			t.Fatal(err)
		}
		if (v.Reason == "") != says || !says && !strings.Contains(v.Reason, "as 10 outcomes would, and it takes 20") {
			t.Errorf("%d outcomes: %+v", outcomes, v)
		}
	}
}

// What was learned of places is an error of logarithms, so that it reaches further up than down; and with it alone the
// interval is that of a logarithm.
func TestPolicyIntervalOfPlaces(t *testing.T) {
	t.Parallel()
	const contexts, v = 400, .3
	q := quotient{above: make([]float64, contexts), below: make([]float64, contexts), moved: make([]float64, contexts)}
	for k := range q.below {
		q.above[k], q.below[k] = v, 1 // no outcome differs: all that is not known is of places
		q.moved[k] = 2 * float64(k%2*2-1)
	}
	got := q.interval()
	s := q.standardError()
	x := distuv.StudentsT{Sigma: 1, Nu: contexts - 1}.Quantile(.975) // of influences of a kurtosis of 1
	if lower, upper := v*math.Exp(-x*s/v), v*math.Exp(x*s/v); math.Abs(got.Lower-lower) > 1e-9 ||
		math.Abs(got.Upper-upper) > 1e-9 || math.Abs(got.StandardError-s) > 1e-12 {
		t.Errorf("from %v to %v; the logarithm's is from %v to %v", got.Lower, got.Upper, lower, upper)
	}
	for k := range q.above {
		q.above[k] = float64(k % 10 / 7) // three in ten
	}
	both, outcomes := q.interval(), quotient{q.above, q.below, nil}.interval()
	if !(both.Lower < outcomes.Lower && both.Upper > outcomes.Upper && both.Upper-both.Estimate >
		both.Estimate-both.Lower && both.Lower < got.Lower && both.Upper > got.Upper) {
		t.Errorf("with places %+v; of outcomes alone %+v, of places alone %+v", both, outcomes, got)
	}
}

// A difference is of what two quotients do not share: where a few contexts make all of it, its interval is that of so
// few, however many the quotients are of.
func TestPolicyDifferenceOfFew(t *testing.T) {
	t.Parallel()
	const contexts = 1000
	shared := func() quotient {
		q := quotient{above: make([]float64, contexts), below: make([]float64, contexts)}
		for k := range q.above {
			q.above[k], q.below[k] = float64(k%4/3), 1
		}
		return q
	}
	a, b := shared(), shared()
	for k := range 12 { // of which a has an outcome, and b none
		a.above[80*k] = 1
	}
	d := a.less(b)
	apart := make([]float64, contexts)
	for k, x := range a.influences() {
		apart[k] = x - b.influences()[k]
	}
	want := quantile(apart, .95) * d.StandardError // which is nearly symmetric
	if got := (d.Upper - d.Lower) / 2; math.Abs(got/want-1) > .05 || quantile(apart, .95) < 2.05 ||
		quantile(a.influences(), .95) > 1.97 {
		t.Errorf("half as wide as %v; %v by the quantile %v of the difference, where that of the first is %v", got,
			want, quantile(apart, .95), quantile(a.influences(), .95))
	}
	if same := a.less(a); math.Max(-same.Lower, same.Upper) > .01*a.interval().Upper {
		t.Errorf("a quotient less itself is from %v to %v", same.Lower, same.Upper)
	}
}
