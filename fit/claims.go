package fit

import (
	"math"
	"slices"

	"unseen/engine"
	"unseen/model"
)

// ClaimSet is what the links allow to be said: the claims of every assumption that explains them as
// well as the reference does, and the least and the most that any of them claims.
//
// The reference, whose exposure is published where nobody asks for another, is chosen by a rule that is fixed
// beforehand: a logistic response; popularity in the exposure, not in the relevance, if its test refutes the model;
// similarity in the exposure if its estimate is above 0 and its test refutes the model, or, where popularity is in it
// and could hide similarity from that test, if it raises the cross-fitted log-likelihood by more than max(2, 1.96
// standard errors). A member stays if its cross-fitted log-likelihood is not below the reference's by more than
// max(2, 1.96 standard errors), with sources as what is independent. All are compared by the same pairs. Errors
// count a tenth of how far an assumption moves a number from where the plain model has it, in logarithms: what it
// changes rests on the form that it gives to it. Where the members leave the set too wide for anything to be called
// identified, and no test has refuted the model, those that make it wide are fitted again to up to four times as many
// pairs, and compared by these. The interval of the published model's own R_AP is a part of the set where its exposure
// is the reference's.
//
// A ceiling is in no member: if even the most relevant pairs are linked only with a probability c
// when they are shown, links are the same with c times the relevance and 1/c times the exposure. So
// without a log or an anchor each end counts on one side only: relevance at most, exposure at least; and a risk may be
// anything up or down to what it is if no unlinked pair is relevant.
type ClaimSet struct {
	Reference Alternative `json:"reference"`
	OneSided  bool        `json:"oneSided"`
	Pairs     int         `json:"pairs"` // that the assumptions are compared by, at most
	Members   []Member    `json:"members"`

	MeanLink   SetRange  `json:"meanLink"`   // over the members that stay
	Propensity SetRange  `json:"propensity"` // mean π̂
	Ratio      *SetRange `json:"ratio,omitempty"`
	Risk       SetRange  `json:"risk"` // R_AP of the reported ŷ

	// Logged is mean π as logged pairs have it, with no model, where there are any; and Drawn is mean y as pairs have
	// it that were drawn at random and shown. No more than they allow, at 99%, is claimed, and what they say is
	// claimed where the links contradict them.
	Logged *MemberValue `json:"logged,omitempty"`
	Drawn  *MemberValue `json:"drawn,omitempty"`
	// Contradicted says that what was logged, or drawn, has nothing in common with what any assumption says.
	Contradicted bool `json:"contradicted,omitempty"`
}

// SetRange is from the least end of the 95% intervals of all members that stay to the largest.
type SetRange struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Member is what one assumption claims.
type Member struct {
	Alternative
	Stays      bool    `json:"stays"`      // it explains the links as well as the reference
	Difference float64 `json:"difference"` // cross-fitted log-likelihood, less the reference's
	Error      float64 `json:"error"`      // the standard error of that

	Similarity float64 `json:"similarity,omitempty"`       // γ: how much exposure rises with z
	Within     float64 `json:"similarityWithin,omitempty"` // how much more within one field
	Slope      float64 `json:"slope,omitempty"`            // of popularity
	// of the two normal variables that decide exposure and relevance
	Correlation float64 `json:"correlation,omitempty"`

	MeanLink   MemberValue  `json:"meanLink"`
	Propensity MemberValue  `json:"propensity"`
	Ratio      *MemberValue `json:"ratio,omitempty"` // of π̂ among pairs of one field to that of two
	Risk       MemberValue  `json:"risk"`
}

// MemberValue is a number that an assumption gives, and its 95% interval.
type MemberValue struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"` // standard error of its logarithm, with that of the form; of a risk its own
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// Width is how many times the largest mean π̂ that is claimed is the least.
func (s *ClaimSet) Width() float64 { return s.Propensity.High / s.Propensity.Low }

// widest is the larger of how many times the largest mean π̂, or mean ŷ, is the least.
func (s *ClaimSet) widest() float64 { return math.Max(s.Width(), s.MeanLink.High/s.MeanLink.Low) }

// narrow is the width up to which a set is called identified, and roughly up to which weak.
const (
	narrow  = 1.5
	roughly = 3
)

// refutes reports whether a test refuted the model.
func refutes(tests []Refutation, of Suspicion) bool {
	return slices.ContainsFunc(tests, func(r Refutation) bool { return r.Of == of && r.Refuted })
}

// claim makes the set of what the alternatives say.
func (d *diagnosis) claim() {
	r := d.result
	d.found.Tests = r.refuted
	if r.earlier != nil {
		d.found.Tests, d.found.Set = r.earlier.findings.Tests, r.earlier.findings.Set
	}
	if len(r.alternatives) == 0 {
		return
	}
	set := &ClaimSet{OneSided: d.oneSided(), Pairs: r.compared}
	reference := r.alternatives[r.reference()]
	set.Reference = reference.Alternative
	for _, f := range r.alternatives {
		c := d.claimOf(f, reference)
		if c.Stays {
			set.MeanLink.include(c.MeanLink)
			set.Propensity.include(c.Propensity)
			set.Risk.include(c.Risk)
			if none := f.best().measures[ofLeast].value; set.OneSided {
				set.Risk.include(MemberValue{Lower: none, Upper: none})
			}
			if c.Ratio != nil {
				if set.Ratio == nil {
					set.Ratio = &SetRange{}
				}
				set.Ratio.include(*c.Ratio)
			}
		}
		set.Members = append(set.Members, c)
	}
	// What is published was learned from more pairs than members are compared by.
	if own := d.ownRisk; own != nil && r.publishes(set.Reference) {
		set.Risk.include(MemberValue{Lower: math.Max(own.Lower, 0), Upper: own.Upper})
	}
	// Where exposure follows text, all that links have of it may be exposure: then its ratio is that of the links.
	if links := reference.measures[ofLinks]; set.Ratio != nil && links.value > 0 &&
		(refutes(r.refuted, BySimilarity) || refutes(r.refuted, WithinFields)) {
		spread := math.Exp(1.96 * links.err)
		set.Ratio.include(MemberValue{Lower: links.value / spread, Upper: links.value * spread})
	}
	if log := d.loggedPropensity(); log != nil {
		set.Logged = log
		set.Contradicted = !set.Propensity.narrow(log.Surely())
		if d.found.logDoubtful() { // what the links say of it is wrong
			set.Propensity = log.Surely()
		}
	}
	if drawn := d.drawnLink(); drawn != nil {
		set.Drawn = drawn
		common := set.MeanLink.narrow(drawn.Surely())
		set.Contradicted = set.Contradicted || !common
	}
	d.found.Set = set
}

// oneSided reports whether a ceiling cannot be ruled out: there is neither an anchor nor a log, or of what was logged
// more was shown, or of what was offered less was linked, than the links say.
func (d *diagnosis) oneSided() bool {
	f := d.found
	if len(d.result.Settings.Anchors) > 0 {
		return false
	}
	if len(f.Logged) > 0 {
		return f.Logged[0].z() > doubtful
	}
	return f.Support.Logged == 0 && !f.Offered.noCeiling()
}

// reference returns the place of the reference among the alternatives, by the rule of ClaimSet.
func (r *Result) reference() int {
	place := func(a Alternative) int {
		at := slices.IndexFunc(r.alternatives, func(f *alternativeFit) bool { return f.Alternative == a })
		if at < 0 || r.alternatives[at].failed {
			return 0
		}
		return at
	}
	a := Alternative{}
	if refutes(r.refuted, ByPopularity) {
		a.Popularity = PopularShown
	}
	without := place(a)
	a.Text = true
	with := place(a)
	if with == 0 || !(r.alternatives[with].terms[0] > 0) {
		return without
	}
	better, se, _ := r.alternatives[with].against(r.alternatives[without])
	if refutes(r.refuted, BySimilarity) || without > 0 && better > leeway(se) {
		return with
	}
	return without
}

// publishes reports whether the published exposure is that of an alternative.
func (r *Result) publishes(a Alternative) bool {
	terms := r.learnedTerms()
	return slices.Contains(terms, model.Text) == a.Text &&
		slices.Contains(terms, model.Popularity) == (a.Popularity == PopularShown)
}

// Surely is its 99% interval: what two intervals allow together is missed by either of them.
func (v MemberValue) Surely() SetRange {
	spread := math.Exp(2.576 * v.Error)
	return SetRange{v.Value / spread, math.Min(v.Value*spread, 1)}
}

// narrow leaves of a range what another allows; the other itself if they have nothing in common, of which it reports
// false.
func (r *SetRange) narrow(to SetRange) (common bool) {
	low, high := math.Max(r.Low, to.Low), math.Min(r.High, to.High)
	if low > high {
		*r = to
		return false
	}
	*r = SetRange{low, high}
	return true
}

// include widens a range by an interval.
func (r *SetRange) include(x MemberValue) {
	if *r == (SetRange{}) {
		*r = SetRange{x.Lower, x.Upper}
	}
	r.Low, r.High = math.Min(r.Low, x.Lower), math.Max(r.High, x.Upper)
}

// claimOf compares an alternative with the reference. Its intervals count, besides its own errors, the bias and the
// sampling of the reported mean ŷ, on which that of π̂ depends, and those of the reported R_AP.
func (d *diagnosis) claimOf(f, reference *alternativeFit) Member {
	c := Member{Alternative: f.Alternative}
	if f.best().failed {
		return c
	}
	c.Difference, c.Error, c.Stays = f.against(reference)
	f = f.best()
	terms := f.terms
	if f.Text {
		c.Similarity, terms = terms[0], terms[1:]
	}
	if f.Within {
		c.Within, terms = terms[0], terms[1:]
	}
	if f.Popularity != "" {
		c.Slope, terms = terms[0], terms[1:]
	}
	if f.Dependence {
		c.Correlation = math.Tanh(terms[0])
	}
	scale, plain := d.found.MeanLink, d.result.alternatives[0]
	own := math.Hypot(scale.Bias, scale.Sampling)
	c.MeanLink, c.Propensity = f.interval(ofLink, plain, own), f.interval(ofExposure, plain, own)
	if f.measures[ofRatio].value > 0 {
		ratio := f.interval(ofRatio, plain, own)
		c.Ratio = &ratio
	}
	m := f.measures[ofRisk]
	m.value = math.Max(m.value, 0)
	c.Risk = MemberValue{Value: m.value, Error: math.Hypot(m.err, d.riskError)}
	c.Risk.Lower, c.Risk.Upper = math.Max(m.value-1.96*c.Risk.Error, 0), m.value+1.96*c.Risk.Error
	// What unlinked pairs that are relevant add to it is in proportion to how many these are, so that it reaches as
	// many times as far up as mean ŷ does.
	if missed := m.value - f.measures[ofLeast].value; missed > 0 {
		most := m.value + missed*(c.MeanLink.Upper/c.MeanLink.Value-1)
		c.Risk.Upper = math.Max(c.Risk.Upper, most)
	}
	return c
}

// asAssumed is the standard error of the logarithm of a number that an assumption moves e-fold from where the plain
// model has it. That links tell the two apart is known; that the true form is the one that was assumed is not, and the
// further an assumption moves a number, the more rests on its form.
const asAssumed = .1

// interval is what an assumption claims of a number whose error is that of its logarithm, given the plain model, which
// is the first of all, and an error that comes to its own.
func (f *alternativeFit) interval(of int, plain *alternativeFit, more float64) MemberValue {
	m, most := f.best().measures[of], math.Inf(1)
	if of != ofRatio {
		most = 1
		m.value = math.Min(m.value, 1) // which rounding may not leave
	}
	out := MemberValue{Value: m.value, Error: math.Hypot(m.err, more)}
	if plain = plain.best(); !plain.failed && plain.measures[of].value > 0 && m.value > 0 {
		out.Error = math.Hypot(out.Error, asAssumed*math.Log(m.value/plain.measures[of].value))
	}
	spread := math.Exp(1.96 * out.Error)
	out.Lower, out.Upper = m.value/spread, math.Min(m.value*spread, most)
	return out
}

// String says the assumption in words, such as "exposure by fields + text; probit".
func (a Alternative) String() string {
	out := "exposure by fields"
	if a.Text {
		out += " + text"
	}
	if a.Within {
		out += " by field"
	}
	if a.Popularity == PopularShown {
		out += " + popularity"
	}
	if a.Popularity == PopularRelevant {
		out += "; relevance by popularity"
	}
	if a.Dependence {
		out += "; both dependent"
	}
	if a.Response != engine.Logistic {
		out += "; " + a.Response.String()
	}
	return out
}
