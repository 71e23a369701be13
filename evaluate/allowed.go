package evaluate

import (
	"context"
	"slices"

	"unseen/fit"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// point is a place in the claim set, or beyond it: ŷ and π̂ as an assumption has them, and the risks by these.
//
// A member of the set is known by its mean ŷ, its mean π̂ and the R_AP that it gives the evaluating model, all with
// intervals. A point approximates it. With z the evaluating model's logits of ŷ,
//
//	ŷ′ = σ(slope·z + level),   π̂′ = π̂ŷ/ŷ′, at most 1,
//
// since the links show π̂ŷ, on which all members agree. Level and slope give the mean ŷ and the R_AP that the member
// claims, relative to those that it has by the evaluating model's own assumption. So a difference of risks by R_AP,
// which is linear in ŷ′, is right where the member's ŷ depends on the pair as σ of a linear function of z does;
// what else it depends on is left out.
//
// With a ceiling, ŷ′ is ceiling·ŷ, and π̂′ follows in the same way.
type point struct {
	Turn
	risk    float64 // R_AP of the evaluating model, as the claim set has it
	ceiling float64 // 0 means none

	risks map[string][]float64 // by scheme: of the evaluating model's predictions, then of the others'
	as    *point               // the evaluating model as it is
}

// moved is by how much a risk is above that by the evaluating model as it is; false if the scheme uses no π̂.
func (p *point) moved(scheme string, of int) (float64, bool) {
	now, ok := p.risks[scheme]
	if !ok {
		return 0, false
	}
	return now[of] - p.as.risks[scheme][of], true
}

// apart is by how much the difference from the evaluating model's own risk is.
func (p *point) apart(scheme string, of int) (float64, bool) {
	x, ok := p.moved(scheme, of)
	own, _ := p.moved(scheme, 0)
	return x - own, ok
}

// How many pairs assumptions are judged by, and how many shifts are found by; both are evenly spaced.
const (
	allowedPairs = 1 << 18
	solvedPairs  = 1 << 12
)

// ceilings that are tried where nothing gives the level, from none on.
var ceilings = []float64{1, .95, .9, .85, .8, .75, .7, .65, .6, .55, .5, .45, .4, .35, .3, .25, .2, .15, .1, .05, .01}

// judgePoints finds the risks of all predictions under every assumption of the set, first under the evaluating model's
// own.
func judgePoints(ctx context.Context, j *fit.Judge, v sample.Evidence, set *fit.ClaimSet, others [][]float32,
	s PanelSettings) ([]*point, error) {
	if n := v.Pairs.Len(); n > allowedPairs {
		places := spacedPlaces(n, allowedPairs)
		v = v.At(places)
		others = slices.Clone(others)
		for k := range others {
			others[k] = sample.Column(others[k], places)
		}
	}
	z, exposure, err := j.Logits(ctx, v.Pairs)
	if err != nil {
		return nil, err
	}
	a := &allowed{Evidence: v, floor: s.Floor, pairs: make([]believed, len(z))}
	for k := range z {
		y, _ := kern.Sigmoid64(float64(z[k]))
		pi, _ := kern.Sigmoid64(float64(exposure[k]))
		a.pairs[k] = believed{z: float64(z[k]), link: y, seen: y * pi}
	}
	for _, predicted := range append([][]float32{z}, others...) {
		losses := make([]loss, len(predicted))
		for k, x := range predicted {
			losses[k] = loss{kern.Softplus64(-float64(x)), kern.Softplus64(float64(x))}
		}
		a.losses = append(a.losses, losses)
	}
	for _, name := range risk.Panel() { // R_DR is no sum of masses, and the log says more of it than the set does
		scheme, err := risk.Lookup(name)
		if err != nil {
			return nil, err
		}
		a.names, a.schemes = append(a.names, name), append(a.schemes, scheme)
	}
	terms, _ := model.TermsOf(j.Propensity, j.PropensityParams)
	points := pointsOf(set, terms)
	err = kern.ChunksErr(ctx, len(points), 1, kern.Threads(s.Threads), func(_, at, _, _ int) error {
		return a.judge(points[at])
	})
	return points, err
}

// spacedPlaces are so many of n places, evenly spaced.
func spacedPlaces(n, count int) []int32 {
	places := make([]int32, count)
	for i := range places {
		places[i] = int32(int64(i) * int64(n) / int64(count))
	}
	return places
}

// pointsOf returns the evaluating model as it is, every member that stays at its value and at both ends, and the
// ceilings.
func pointsOf(set *fit.ClaimSet, terms model.ExposureTerms) []*point {
	reported := fit.Alternative{Text: terms.Link != 0}
	if terms.Target != nil {
		reported.Popularity = fit.PopularShown
	}
	own := set.Members[0]
	for _, m := range set.Members {
		if m.Alternative == reported {
			own = m
		}
	}
	of := func(m fit.Member, link, propensity, risk float64) *point {
		return &point{Turn: Turn{m.Alternative.String(), link, propensity}, risk: risk}
	}
	all := []*point{of(own, own.MeanLink.Value, own.Propensity.Value, own.Risk.Value)}
	for _, m := range set.Members {
		if m.Stays { // the more is relevant, the less was it shown, and the more is missed
			all = append(all, of(m, m.MeanLink.Value, m.Propensity.Value, m.Risk.Value),
				of(m, m.MeanLink.Lower, m.Propensity.Upper, m.Risk.Lower),
				of(m, m.MeanLink.Upper, m.Propensity.Lower, m.Risk.Upper))
		}
	}
	if set.OneSided {
		for _, c := range ceilings {
			p := *all[0]
			p.ceiling = c
			all = append(all, &p)
		}
	}
	for _, p := range all {
		p.as = all[0]
	}
	return all
}

// allowed is the pairs and predictions that points are judged by.
type allowed struct {
	sample.Evidence
	pairs   []believed
	losses  [][]loss // by predictions, then by pair
	names   []string
	schemes []risk.Scheme
	floor   float64
}

// believed is what the evaluating model says of a pair: z, ŷ and π̂ŷ.
type believed struct{ z, link, seen float64 }

// loss is that of a prediction, if the pair is linked and if it is not.
type loss struct{ linked, unlinked float64 }

// judge finds the risks at a point.
func (a *allowed) judge(p *point) error {
	at := a.solve(p)
	sums, weight := make([][]risk.Sum, len(a.schemes)), 0.
	for n := range sums {
		sums[n] = make([]risk.Sum, len(a.losses))
	}
	for k, w := range a.Pairs.Weight {
		link, propensity := at.link(a.pairs[k]), 1.
		if seen := a.pairs[k].seen; seen < link { // not 0/0 where both vanish
			propensity = seen / link
		}
		belief, err := risk.FromProbabilities(link, propensity)
		if err != nil {
			return err
		}
		weight += w
		belief = belief.Floored(a.floor)
		seen := risk.Observation{Linked: a.Pairs.Linked[k]}
		if a.Exposure != nil {
			seen.Exposure = a.Exposure[k]
		}
		for n, scheme := range a.schemes {
			mass := scheme.Mass(seen, belief)
			for i, losses := range a.losses {
				sums[n][i].Add(w * (mass.Positive*losses[k].linked + mass.Negative*losses[k].unlinked))
			}
		}
	}
	p.risks = map[string][]float64{}
	for n, name := range a.names {
		for i := range sums[n] {
			if name != "naive" {
				p.risks[name] = append(p.risks[name], sums[n][i].Value()/weight)
			}
		}
	}
	return nil
}

// shift is how a point moves ŷ.
type shift struct{ slope, level, ceiling float64 }

// link is ŷ′.
func (s shift) link(b believed) float64 {
	switch {
	case s.ceiling > 0:
		return max(s.ceiling*b.link, b.seen)
	case s == shift{slope: 1}:
		return b.link
	}
	y, _ := kern.Sigmoid64(s.slope*b.z + s.level)
	return max(y, b.seen)
}

// solve finds the shift of a point.
func (a *allowed) solve(p *point) shift {
	if p == p.as || p.ceiling > 0 {
		return shift{slope: 1, ceiling: p.ceiling}
	}
	places := spacedPlaces(a.Pairs.Len(), min(a.Pairs.Len(), solvedPairs))
	// mean ŷ′, and R_AP of the evaluating model
	means := func(s shift) (link, ap float64) {
		var weight float64
		for _, k := range places {
			w, b, loss := a.Pairs.Weight[k], a.pairs[k], a.losses[0][k]
			y := s.link(b)
			weight, link = weight+w, link+w*y
			if a.Pairs.Linked[k] {
				ap += w * loss.linked
			} else if b.seen < 1 {
				ap += w * (loss.unlinked + (y-b.seen)/(1-b.seen)*(loss.linked-loss.unlinked))
			}
		}
		return link / weight, ap / weight
	}
	link, ap := means(shift{slope: 1})
	link *= p.MeanLink / p.as.MeanLink
	ap *= p.risk / p.as.risk
	at := func(slope float64) shift {
		return shift{slope: slope, level: bisect(-30, 30, func(level float64) bool {
			got, _ := means(shift{slope: slope, level: level})
			return got < link
		})}
	}
	// the steeper, the less is relevant where the model says that nothing is
	return at(bisect(leastSlope, mostSlope, func(slope float64) bool {
		_, got := means(at(slope))
		return got > ap
	}))
}

// How flat or steep ŷ′ can be in z.
const leastSlope, mostSlope = .25, 4

// bisect returns where a condition that holds from low on ends, between low and high.
func bisect(low, high float64, holds func(float64) bool) float64 {
	for high-low > 2e-3 {
		if middle := (low + high) / 2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}
