package evaluate

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"unseen/risk"
)

// PolicyList is a list that was shown, and what a policy would have shown in its place. A policy is anything that
// decides what is shown, such as a model with its share to explore, or a rule.
type PolicyList struct {
	Context int // whose list it is: lists of one context are not independent
	Items   []PolicyItem
	Length  float64 // how many items the policy shows: its probabilities, added up
	// Expected is the outcome of what the policy shows, by a model: Σ Target·Expected over all that it could show. The
	// scale of the model does not matter. All zero, with those of the items: there is no model.
	Expected float64
	// Places is how the Examination of the items was learned; nil where it is known. Slopes are by how much Σ w·r
	// moves with the logarithm of the chance that each place is looked at, from the first on.
	Places *LearnedPlaces
	Slopes []float64
}

// LearnedPlaces is how it was learned from contexts how often readers look at places.
type LearnedPlaces struct {
	Contexts []int // each once
	// Move is by how much a context moved Σ slope·log chance over the places, from the first on.
	Move func(context int, slopes []float64) float64
}

// PolicyItem is an item that was shown.
type PolicyItem struct {
	Logged  float64 // the probability that it is shown in such a list, by whoever made the log
	Target  float64 // the same by the policy
	Outcome float64 // what came of it, from 0 to 1, such as 1 for a click
	// Examination is how much more readers look where the policy shows it than where the log did; 0 means 1.
	Examination float64
	Expected    float64 // of outcome × examination, by a model; see PolicyList
}

// FewestEffective is the effective number of contexts below which a log cannot say what a policy is worth, and
// FewestOutcomes the number of outcomes that so many contexts would have. With fewer, what weighs most may by chance
// have had none yet: intervals then had the truth in only 86 to 90%.
const (
	FewestEffective = 100
	FewestOutcomes  = 20
)

// The names of the estimates.
const (
	SNIPS     = "SNIPS"
	DR        = "DR"
	BoundedDR = "bounded DR"
)

// PolicyVerdict is how a policy compares with what made the log.
type PolicyVerdict string

// The verdicts.
const (
	PolicyBetter  PolicyVerdict = "better"
	PolicyWorse   PolicyVerdict = "worse"
	PolicyUnknown PolicyVerdict = "not known"
)

// PolicyEstimate is the value of a policy by one estimator.
type PolicyEstimate struct {
	Name string `json:"name" doc:"SNIPS, DR or bounded DR"`
	risk.Interval
}

// PolicyValue is what a policy is worth by a log: the mean outcome of an item that it shows.
//
// With the weight w = t/p of an item, t and p being the probabilities that the policy and the log's own rule show it,
// its outcome r, corrected for where readers look, and c·q what a model expects of it, the estimates are
//
//	SNIPS      Σ w·r / Σ w
//	DR         ( Σ D + Σ w·(r − c·q) ) / Σ L
//	bounded DR   Σ D / Σ L + Σ w·(r − c·q) / Σ w,
//
// where D = c·Expected and L = Length of a list, and c is the ratio of outcomes to expectations in the other four
// fifths of the contexts. DR is right on average whatever q, as p is known. Bounded DR is the one to decide by: its
// correction is a mean of residuals, so that no weight, however large, takes it out of their range. A clipped weight
// would need a threshold, and would be biased by an amount that the log cannot bound.
//
// Intervals are of 95%, with contexts as the independent units. The estimates are skewed where outcomes or
// propensities are rare, so they are score intervals (Wilson, 1927) for a share with the effective number of trials
// that the linearised standard error s implies, v(1−v)/s², as in surveys (Korn and Graubard, 1998). The quantile is
// Student's with 2G/(κ−1) degrees of freedom, κ being the kurtosis of the G contexts' influences: as many as s² has
// when they are not normal. Where it was learned how often readers look at places, by the same contexts or by others, a
// context's influence includes how it moved that. It enters by r alone: what a model expects has the same mean in D as
// in w·c·q, however places are looked at. What it adds to s is an error of logarithms, and so more of it is above the
// value than below: the two parts are joined as distances are, on each side (Zou and Donner, 2008).
type PolicyValue struct {
	Estimates  []PolicyEstimate `json:"estimates,omitempty" doc:"none where the log cannot say"`
	Logged     risk.Interval    `json:"logged" doc:"mean outcome of an item that was shown"`
	Difference *risk.Interval   `json:"difference,omitempty" doc:"bounded DR less logged"`
	Verdict    PolicyVerdict    `json:"verdict" enum:"better,worse,not known" doc:"against the log's own rule"`
	Reason     string           `json:"reason,omitempty" doc:"why the log cannot say"`

	// Effective is (Σ W)²/Σ W², W being the weights of a context added up.
	Effective float64  `json:"effective" doc:"number of contexts of equal weight that would say as much"`
	Support   float64  `json:"support" doc:"share of what the policy shows that the log could show; about 1 if all"`
	Contexts  int      `json:"contexts" doc:"whose lists they are; the independent units"`
	Lists     int      `json:"lists" doc:"number of lists"`
	Items     int      `json:"items" doc:"number of shown items"`
	Outcomes  float64  `json:"outcomes" doc:"of all items, added up"`
	Warnings  []string `json:"warnings,omitempty"`
}

// Estimate returns the estimate of that name; false where the log cannot say.
func (v *PolicyValue) Estimate(name string) (risk.Interval, bool) {
	for _, e := range v.Estimates {
		if e.Name == name {
			return e.Interval, true
		}
	}
	return risk.Interval{}, false
}

// Sentence says in words whether the policy, of that name, is better than what made the log.
func (v *PolicyValue) Sentence(name string) string {
	if v.Reason != "" {
		return fmt.Sprintf("Whether %s is better than what the log did is not known: %s.", name, v.Reason)
	}
	d := v.Difference
	size := fmt.Sprintf("%+.2f outcomes per 100 shown items (%+.2f to %+.2f)", 100*d.Estimate, 100*d.Lower, 100*d.Upper)
	switch v.Verdict {
	case PolicyBetter:
		return fmt.Sprintf("%s is better than what the log did: %s.", name, size)
	case PolicyWorse:
		return fmt.Sprintf("%s is worse than what the log did: %s.", name, size)
	}
	return fmt.Sprintf("Whether %s is better than what the log did is not known: %s.", name, size)
}

// ValuePolicy estimates what a policy is worth by lists that another showed. Below [FewestEffective] and
// [FewestOutcomes], and where the policy shows what the log could not, it gives a reason instead.
func ValuePolicy(lists []PolicyList) (*PolicyValue, error) {
	t, err := newPolicyTotals(lists)
	if err != nil {
		return nil, err
	}
	v := &PolicyValue{Verdict: PolicyUnknown, Contexts: t.contexts, Lists: len(lists), Items: t.items,
		Outcomes: total(t.raw)}
	logged := quotient{t.raw, t.shown, nil}
	v.Logged = logged.interval()
	weight := total(t.weights)
	var squares float64
	for _, w := range t.weights {
		squares += w * w
	}
	if v.Support = weight / total(t.lengths); squares > 0 {
		v.Effective = weight * weight / squares
	}
	if v.Reason = t.reason(v); v.Reason != "" {
		return v, nil
	}
	for _, e := range []struct {
		name string
		quotient
	}{{SNIPS, quotient{t.outcomes, t.weights, t.moved}}, {DR, t.robust()}, {BoundedDR, t.bounded()}} {
		v.Estimates = append(v.Estimates, PolicyEstimate{e.name, e.interval()})
	}
	d := t.bounded().less(logged)
	v.Difference = &d
	switch {
	case d.Lower > 0:
		v.Verdict = PolicyBetter
	case d.Upper < 0:
		v.Verdict = PolicyWorse
	}
	if heaviest := largest(t.weights) / weight; heaviest > .05 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("one context has %.0f%% of all weight; explore more to learn more "+
			"from the others", 100*heaviest))
	}
	return v, nil
}

// policyTotals are sums by context.
type policyTotals struct {
	items        int
	contexts     int       // that have lists; further ones only say how often places are looked at
	moved        []float64 // by which a context moved Σ w·r of all; nil where places are known
	raw, shown   []float64 // outcomes as they are, and the number of items
	weights      []float64 // Σ w
	lengths      []float64 // Σ L
	outcomes     []float64 // Σ w·r
	direct       []float64 // Σ D
	residuals    []float64 // Σ w·(r − c·q)
	expectations []float64 // Σ q
	corrected    []float64 // Σ r
}

// policyFolds is into how many parts the contexts are cut: the scale of the model in one is from the others.
const policyFolds = 5

func newPolicyTotals(lists []PolicyList) (*policyTotals, error) {
	number := map[int]int{}
	modelled := false
	for k, l := range lists {
		if err := l.check(); err != nil {
			return nil, fmt.Errorf("list %d: %w", k+1, err)
		}
		if _, known := number[l.Context]; !known {
			number[l.Context] = len(number)
		}
		modelled = modelled || l.Expected > 0
	}
	if len(number) < 2 {
		return nil, fmt.Errorf("%w: the lists are of %d contexts, and an interval takes two", ErrEmpty, len(number))
	}
	t := &policyTotals{contexts: len(number)}
	t.learned(lists, number)
	n := len(number)
	columns := []*[]float64{&t.raw, &t.shown, &t.weights, &t.lengths, &t.outcomes, &t.direct, &t.residuals,
		&t.expectations, &t.corrected}
	for _, column := range columns {
		*column = make([]float64, n)
	}
	expected := func(l PolicyList) float64 {
		if modelled {
			return l.Expected
		}
		return l.Length
	}
	each := func(l PolicyList, do func(item PolicyItem, w, r, q float64)) {
		for _, item := range l.Items {
			look := item.Examination
			if look == 0 {
				look = 1
			}
			q := 1.
			if modelled {
				q = item.Expected
			}
			do(item, item.Target/item.Logged, item.Outcome*look, q)
		}
	}
	for _, l := range lists {
		k := number[l.Context]
		each(l, func(item PolicyItem, w, r, q float64) {
			t.items++
			t.raw[k] += item.Outcome
			t.shown[k]++
			t.weights[k] += w
			t.outcomes[k] += w * r
			t.expectations[k] += q
			t.corrected[k] += r
		})
		t.lengths[k] += l.Length
	}
	scales := t.scales()
	for _, l := range lists {
		k := number[l.Context]
		c := scales[k%policyFolds]
		t.direct[k] += c * expected(l)
		each(l, func(_ PolicyItem, w, r, q float64) { t.residuals[k] += w * (r - c*q) })
	}
	if t.items == 0 {
		return nil, fmt.Errorf("%w: %d lists without an item", ErrEmpty, len(lists))
	}
	if !(total(t.lengths) > 0) {
		return nil, fmt.Errorf("%w: the policy shows nothing in any of %d lists", ErrEmpty, len(lists))
	}
	if sum := total(t.weights) + total(t.outcomes) + total(t.direct); math.IsInf(sum, 0) || math.IsNaN(sum) {
		return nil, fmt.Errorf("%w: the weights add up to %v; the smallest probabilities of the log are too small",
			ErrWeight, sum)
	}
	return t, nil
}

// learned adds up by how much each context moved what was learned of places, and numbers those that have no list.
func (t *policyTotals) learned(lists []PolicyList, number map[int]int) {
	var of []*LearnedPlaces // in the order of the lists
	slopes := map[*LearnedPlaces][]float64{}
	for _, l := range lists {
		if l.Places == nil {
			continue
		}
		sum, known := slopes[l.Places]
		if !known {
			of = append(of, l.Places)
		}
		for len(sum) < len(l.Slopes) {
			sum = append(sum, 0)
		}
		for p, slope := range l.Slopes {
			sum[p] += slope
		}
		slopes[l.Places] = sum
	}
	for _, learned := range of {
		for _, context := range learned.Contexts {
			k, known := number[context]
			if !known {
				k = len(number)
				number[context] = k
			}
			for len(t.moved) < len(number) {
				t.moved = append(t.moved, 0)
			}
			t.moved[k] += learned.Move(context, slopes[learned])
		}
	}
}

// check refuses numbers that cannot be.
func (l PolicyList) check() error {
	positive := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	if !positive(l.Length) || !positive(l.Expected) {
		return fmt.Errorf("%w: the policy shows %v items, of which %v is expected; give numbers that are not negative",
			ErrWeight, l.Length, l.Expected)
	}
	for k, i := range l.Items {
		switch {
		case !(i.Logged > 0 && i.Logged <= 1):
			return fmt.Errorf("%w: item %d was shown with probability %v; give one above 0, at most 1", ErrWeight, k+1,
				i.Logged)
		case !(i.Target >= 0 && i.Target <= 1):
			return fmt.Errorf("%w: the policy shows item %d with probability %v; give one from 0 to 1", ErrWeight, k+1,
				i.Target)
		case !(i.Outcome >= 0 && i.Outcome <= 1):
			return fmt.Errorf("%w: item %d has the outcome %v; give one from 0 to 1", ErrNaN, k+1, i.Outcome)
		case !positive(i.Examination) || !positive(i.Expected):
			return fmt.Errorf("%w: item %d has an examination of %v and an expectation of %v; give numbers that are "+
				"not negative", ErrNaN, k+1, i.Examination, i.Expected)
		}
	}
	return nil
}

// scales returns for each fold the ratio of outcomes to expectations in the others.
func (t *policyTotals) scales() (c [policyFolds]float64) {
	var outcomes, expectations [policyFolds]float64
	for k, r := range t.corrected {
		outcomes[k%policyFolds] += r
		expectations[k%policyFolds] += t.expectations[k]
	}
	for f := range c {
		var above, below float64
		for other := range c {
			if other != f {
				above, below = above+outcomes[other], below+expectations[other]
			}
		}
		if below > 0 {
			c[f] = above / below
		}
	}
	return c
}

// reason says why the log cannot say; "" where it can.
func (t *policyTotals) reason(v *PolicyValue) string {
	if total(t.weights) == 0 {
		return "the log never shows what the policy would show; explore"
	}
	// An average log shows as much of the policy's items as the policy does.
	support := quotient{t.weights, t.lengths, nil}
	if most := v.Support + 3*support.standardError(); most < .95 {
		return fmt.Sprintf("the policy shows what the log could not, or hardly ever: about %.0f%% of its items, at "+
			"least %.0f%%; explore", 100*(1-v.Support), 100*(1-most))
	}
	if v.Effective < FewestEffective {
		return fmt.Sprintf("the log says as much about the policy as %.0f contexts would, and it takes %d; collect "+
			"more lists, or explore more", math.Floor(v.Effective), FewestEffective)
	}
	if total(t.outcomes) == 0 {
		return "nothing that the policy would show had an outcome; collect more lists"
	}
	if n := v.Effective * total(t.outcomes) / float64(v.Contexts); n < FewestOutcomes {
		return fmt.Sprintf("the log says as much about the policy as %.0f outcomes would, and it takes %d; collect "+
			"more lists, or explore more", math.Floor(n), FewestOutcomes)
	}
	return ""
}

// robust is DR.
func (t *policyTotals) robust() quotient {
	above := make([]float64, len(t.direct))
	for k, d := range t.direct {
		above[k] = d + t.residuals[k]
	}
	return quotient{above, t.lengths, t.moved}
}

// bounded is bounded DR, d + Σe/ΣW with d = ΣD/ΣL, as one quotient: (Σ(D − d·L) + Σe + d·ΣW)/ΣW, whose first sum is
// 0 and gives the influences what d varies by.
func (t *policyTotals) bounded() quotient {
	d := total(t.direct) / total(t.lengths)
	above := make([]float64, len(t.direct))
	for k, direct := range t.direct {
		above[k] = direct - d*t.lengths[k] + t.residuals[k] + d*t.weights[k]
	}
	return quotient{above, t.weights, t.moved}
}

// quotient is a ratio of two sums over contexts. Each has moved the first sum by something as well, or nil: nothing.
type quotient struct{ above, below, moved []float64 }

func (q quotient) value() float64 { return total(q.above) / total(q.below) }

// influences are by how much each context moves the value.
func (q quotient) influences() []float64 {
	v, below := q.value(), total(q.below)
	out := make([]float64, len(q.above))
	for k, a := range q.above {
		out[k] = (a - v*q.below[k]) / below
	}
	for k, a := range q.moved {
		out[k] += a / below
	}
	return out
}

func (q quotient) standardError() float64 {
	var squares risk.Sum
	for _, d := range q.influences() {
		squares.Add(d * d)
	}
	g := float64(len(q.above))
	return math.Sqrt(g / (g - 1) * squares.Value())
}

// interval returns the score interval of a share, with what places add to it; see PolicyValue. Where the value is no
// share, as that of DR need not be, it is the usual one.
func (q quotient) interval() risk.Interval {
	const level = .95
	v, s := q.value(), q.standardError()
	if !(s > 0) {
		return risk.Interval{Estimate: v, Lower: v, Upper: v, Level: level}
	}
	x := quantile(q.influences(), level)
	if v <= 0 || v >= 1 {
		return risk.Interval{Estimate: v, Lower: v - x*s, Upper: v + x*s, Level: level, StandardError: s}
	}
	known := min(quotient{q.above, q.below, nil}.standardError(), s)
	lower, upper := score(v, known, x)
	places := x * math.Sqrt(s*s-known*known) / v
	lower = v - math.Hypot(v-lower, v*-math.Expm1(-places))
	upper = v + math.Hypot(upper-v, v*math.Expm1(places))
	return risk.Interval{Estimate: v, Lower: max(lower, 0), Upper: min(upper, 1), Level: level, StandardError: s}
}

// score returns the score interval of a share v with a standard error and a quantile.
func score(v, s, x float64) (lower, upper float64) {
	if s == 0 {
		return v, v
	}
	trials := v * (1 - v) / (s * s)
	centre := (v + x*x/(2*trials)) / (1 + x*x/trials)
	half := x / (1 + x*x/trials) * math.Sqrt(v*(1-v)/trials+x*x/(4*trials*trials))
	return centre - half, centre + half
}

// quantile is how many standard errors an interval reaches to each side.
func quantile(influences []float64, level float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: degrees(influences)}.Quantile((1 + level) / 2)
}

// degrees are the degrees of freedom of the squared standard error of a sum of influences.
func degrees(influences []float64) float64 {
	heaviest := 0.
	for _, d := range influences {
		heaviest = max(heaviest, math.Abs(d))
	}
	var squares, fourths float64
	for _, d := range influences {
		d /= heaviest // no power underflows
		squares += d * d
		fourths += d * d * d * d
	}
	g := float64(len(influences))
	kurtosis := g * fourths / (squares * squares)
	return max(min(2*g/(kurtosis-1), g-1), 1) // a kurtosis of 1 gives all
}

// less is the difference of two quotients over the same contexts, from the intervals of both and their correlation
// (Zou and Donner, 2008). What both have in common goes, and with it most of what is near to normal: so the interval is
// wider by as much as the quantile of the difference's own influences is above that of the first.
func (q quotient) less(other quotient) risk.Interval {
	a, b := q.interval(), other.interval()
	var product, first, second float64
	mine, theirs := q.influences(), other.influences()
	apart := make([]float64, len(mine))
	for k, x := range mine {
		product += x * theirs[k]
		first += x * x
		second += theirs[k] * theirs[k]
		apart[k] = x - theirs[k]
	}
	correlation, wider := 0., 1.
	if first > 0 && second > 0 {
		correlation = product / math.Sqrt(first*second)
	}
	if slices.ContainsFunc(apart, func(x float64) bool { return x != 0 }) && first > 0 {
		wider = max(quantile(apart, a.Level)/quantile(mine, a.Level), 1)
	}
	distance := func(x, y float64) float64 { return math.Sqrt(max(x*x+y*y-2*correlation*x*y, 0)) }
	d := a.Estimate - b.Estimate
	return risk.Interval{Estimate: d, Lower: d - wider*distance(a.Estimate-a.Lower, b.Upper-b.Estimate),
		Upper: d + wider*distance(a.Upper-a.Estimate, b.Estimate-b.Lower), Level: a.Level,
		StandardError: distance(a.StandardError, b.StandardError)}
}

func total(values []float64) float64 {
	var sum risk.Sum
	for _, x := range values {
		sum.Add(x)
	}
	return sum.Value()
}

func largest(values []float64) (most float64) {
	for _, x := range values {
		most = max(most, x)
	}
	return most
}
