package fit

import (
	"math"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/risk"
)

// LoggedTest compares logged exposures a with the propensities that links alone give:
//
//	z = Σ(a−π̂)/√Σπ̂(1−π̂).
//
// Far from 0 it says that the scale of π̂ is wrong, which links cannot show. After bayes, π̂ is that
// of a refit which does not see the log, and Allowing also has that fit's own uncertainty under the
// root: it distinguishes a wrong model from an uncertain one. After other methods π̂ is
// the fit's own, which saw the log, so that z is closer to 0 than it should be.
type LoggedTest struct {
	Group    string  `json:"group"` // all, same or cross
	Pairs    int     `json:"pairs"`
	Shown    float64 `json:"shown"`    // share of those that were exposed
	Expected float64 `json:"expected"` // mean π̂ of those
	Z        float64 `json:"z"`
	Allowing float64 `json:"allowing,omitempty"`
}

// loggedGroups are those that logged exposures are compared by.
var loggedGroups = [3]struct {
	name string
	in   func(*cellSum) bool
}{
	{"all", func(*cellSum) bool { return true }},
	{"same", func(c *cellSum) bool { return c.same }},
	{"cross", func(c *cellSum) bool { return !c.same }},
}

// isLogged reports whether it is known if a pair was shown in the time in which links came about.
func isLogged(e risk.Exposure) bool { return e == risk.Exposed || e == risk.Unexposed }

// loggedTimes is how often a logged pair counts: one that is always in the sample, as linked ones are, as often as
// others are sampled, so that as many stand for each other.
func loggedTimes(p *graph.Pairs, k int) float64 {
	if p.Linked[k] || p.Weight[k] == 1 {
		return p.Rate[k]
	}
	return 1
}

// testLogs compares logged exposures with the propensities.
func (d *diagnosis) testLogs() {
	if d.found.Support.Logged == 0 || d.result.Propensity.Size() == 0 {
		return
	}
	var alone *linksAlone
	var place map[fieldPair]int
	if post := d.result.Posterior; post != nil && post.links != nil {
		alone, place = post.links, d.places(post)
	}
	for g, group := range loggedGroups {
		test := LoggedTest{Group: group.name}
		var n, exposed, expected, variance, unsure float64
		slope := make([]float64, len(place))
		for _, c := range d.cells {
			if !group.in(c) || c.logged == 0 {
				continue
			}
			n += c.logged
			exposed += c.exposed
			if alone == nil {
				expected += c.expected
				variance += c.variance
				continue
			}
			pi, rest := kern.Sigmoid64(alone.logits[place[c.fieldPair]])
			expected += c.logged * pi
			variance += c.logged * pi * rest
			slope[place[c.fieldPair]] = c.logged * pi * rest
		}
		for i, a := range slope {
			unsure += a * dot(alone.covariance[i*len(slope):(i+1)*len(slope)], slope)
		}
		if test.Pairs = int(math.Round(n)); alone != nil && len(d.result.Posterior.terms) > 0 {
			mean := alone.means[g]
			expected, variance, unsure = n*mean.expected, n*mean.variance, n*n*mean.unsure
		}
		if test.Pairs == 0 || variance == 0 {
			continue
		}
		excess := exposed - expected
		test.Shown, test.Expected, test.Z = exposed/n, expected/n, excess/math.Sqrt(variance)
		if alone != nil {
			test.Allowing = excess / math.Sqrt(variance+unsure)
		}
		d.found.Logged = append(d.found.Logged, test)
	}
}

// loggedPropensity returns mean π as the logged pairs have it, with no model; nil where that says nothing.
func (d *diagnosis) loggedPropensity() *MemberValue {
	if d.sums.Logged == 0 {
		return nil
	}
	found, known := d.standing(func(k int) (value float64, logged bool) {
		e := d.problem.Exposure[k]
		if e == risk.Exposed {
			value = 1
		}
		return value, isLogged(e)
	}, func(c *cellSum) (all, some float64) { return c.weight, c.loggedWeight })
	if !known {
		return nil
	}
	out := shareOf(found)
	return &out
}

// How few pairs of one field, or of two, and how few sources may stand for all others.
const (
	fewestStanding        = 10
	fewestStandingSources = 10
)

// standing returns the mean of something that is or is not so over all pairs, given that of some which were drawn at
// random, and the weight of all pairs and of those in a field pair. Those of a field pair stand for all of it, and
// those of one field, or of two, for the field pairs that have none. Its error has sources as what is independent, and
// is no less than that of as many independent pairs, of which two more were so and two more were not: all of a few may
// be alike. It is not known where too few are of one field, or of two, or where the mean is 0.
func (d *diagnosis) standing(value func(k int) (v float64, drawn bool),
	weights func(*cellSum) (all, some float64)) (found risk.Interval, known bool) {
	group := func(c *cellSum) int {
		if c.same {
			return 1
		}
		return 0
	}
	var total, covered [2]float64 // weight of two fields and of one
	for _, c := range d.cells {
		all, some := weights(c)
		if total[group(c)] += all; some > 0 {
			covered[group(c)] += all
		}
	}
	var seen risk.Sample
	var stand [2]standIn
	for k := range d.problem.Exposure {
		v, drawn := value(k)
		if !drawn {
			continue
		}
		c := d.cellOf(k)
		all, some := weights(c)
		share := d.problem.Train.Weight[k] / some
		seen.Values = append(seen.Values, v)
		w := share * all * total[group(c)] / covered[group(c)]
		seen.Weights = append(seen.Weights, w)
		seen.Sources = append(seen.Sources, int(d.problem.Train.Source[k]))
		stand[group(c)].add(v, w)
	}
	found, err := seen.Normal(.95, risk.Nuisance{})
	known = err == nil && found.Estimate > 0 && distinctInts(seen.Sources) >= fewestStandingSources
	var least float64
	for g, s := range stand {
		known = known && (total[g] == 0 || s.pairs() >= fewestStanding)
		least += s.variance(total[g] / (total[0] + total[1]))
	}
	found.StandardError = math.Max(found.StandardError, math.Sqrt(least))
	return found, known
}

// standIn is what pairs that stand for others add up to.
type standIn struct{ weight, squares, yes float64 }

func (s *standIn) add(v, w float64) {
	s.weight, s.squares, s.yes = s.weight+w, s.squares+w*w, s.yes+w*v
}

// pairs is how many pairs of equal weight would say as much.
func (s *standIn) pairs() float64 {
	if s.squares == 0 {
		return 0
	}
	return s.weight * s.weight / s.squares
}

// variance is that of their share, as a part of the whole.
func (s *standIn) variance(part float64) float64 {
	if s.weight == 0 {
		return 0
	}
	n := s.pairs() + 4
	share := (s.yes/s.weight*(n-4) + 2) / n
	return part * part * share * (1 - share) / n
}

// distinctInts counts different numbers.
func distinctInts(xs []int) int { return len(slices.Compact(slices.Sorted(slices.Values(xs)))) }
