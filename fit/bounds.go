package fit

import (
	"math"

	"unseen/risk"
)

// FactorBounds are what links and a log say of factors with no model of exposure. A pair is linked only if it is shown
// and relevant, so that as many are shown, and as many relevant, as are linked; and of pairs that were not shown
// nothing is known. Factors can take in any exposure, so that without a log every value between is possible: no family
// of assumptions of exposure that explain the links would be narrower. Ends are those of 95% intervals over sources.
type FactorBounds struct {
	Linked     MemberValue `json:"linked"`     // share of pairs that are linked
	Propensity SetRange    `json:"propensity"` // mean π
	MeanLink   SetRange    `json:"meanLink"`   // mean y
	// Available says that these are means over pairs whose target was there when the source was last active.
	Available bool `json:"available,omitempty" doc:"the means are over pairs whose target was there in time"`
}

// bound finds the bounds of factors, and leaves them out where links have one source.
func (d *diagnosis) bound() {
	if !d.found.Factors || d.result.Propensity.Size() == 0 {
		return
	}
	var linked risk.Sample
	train := d.problem.Train
	for k, w := range train.Weight {
		value := 0.
		if train.Linked[k] {
			value = 1
		}
		linked.Values = append(linked.Values, value)
		linked.Weights = append(linked.Weights, w)
		linked.Sources = append(linked.Sources, int(train.Source[k]))
	}
	found, err := linked.Normal(.95, risk.Nuisance{})
	if err != nil || !(found.Estimate > 0) {
		return
	}
	b := &FactorBounds{Linked: shareOf(found)}
	b.Propensity, b.MeanLink = SetRange{b.Linked.Lower, 1}, SetRange{b.Linked.Lower, 1}
	if log := d.loggedPropensity(); log != nil {
		b.Propensity = SetRange{log.Lower, log.Upper}
		b.MeanLink.High = math.Min(b.Linked.Upper+1-log.Lower, 1)
	}
	b.Available = d.problem.Origin != nil && d.problem.Origin.Plan.Available
	d.found.Bounds = b
}

// shareOf is a share with its interval on the scale of the logarithm.
func shareOf(e risk.Interval) MemberValue {
	out := MemberValue{Value: e.Estimate, Error: e.StandardError / e.Estimate}
	out.Lower, out.Upper = out.Value*math.Exp(-1.96*out.Error), math.Min(out.Value*math.Exp(1.96*out.Error), 1)
	return out
}

// sayBounds says what is known of factors, and what is assumed for the rest.
func (f *Findings) sayBounds() {
	b, pairs := f.Bounds, "pairs"
	if b != nil && b.Available {
		pairs = "pairs whose target was there when the source was last active"
	}
	switch {
	case b == nil:
	case f.Support.Logged == 0:
		f.say("Whatever exposure depends on, a pair is shown with a probability of at least %s on average, and at "+
			"least %s of all %s are relevant: as many as are linked. Links say no more.", percent(b.Linked.Lower),
			percent(b.Linked.Lower), pairs)
	default:
		f.say("By the log alone, a pair is shown with a probability of %s to %s on average, and between %s and %s of "+
			"all %s are relevant, depending on those that were not shown. The model assumes that these are as "+
			"relevant as shown ones of which it knows the same.", percent(b.Propensity.Low),
			percent(b.Propensity.High), percent(b.MeanLink.Low), percent(b.MeanLink.High), pairs)
	}
}
