package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"unseen/fit"
	"unseen/risk"
	"unseen/sample"
)

// Decision says which of two models is better by R_AP, and whether that holds under every assumption that explains the
// links.
type Decision struct {
	Preference Preference `json:"preference"`
	Summary    string     `json:"summary"`
	Turns      *Turn      `json:"turns,omitempty"` // where the sign turns; nil if it does not
	// Ceiling is the condition: the most relevant pairs must be linked with at least this probability when they are
	// shown. Links cannot show whether they are, so that no member of the claim set is without one. nil if there is no
	// condition.
	Ceiling *float64 `json:"ceiling,omitempty"`
}

// Preference is a decision in a word.
type Preference string

// The preferences, for the evaluated model or for the other.
const (
	PreferOwn   Preference = "better" // under every assumption that explains the links
	PreferOther Preference = "worse"  // the other is better under every such assumption
	// Under every assumption that was compared, as long as relevant pairs that are shown are mostly linked; see
	// Decision.Ceiling.
	PreferOwnIf   Preference = "better on a condition"
	PreferOtherIf Preference = "worse on a condition"

	Depends   Preference = "depends on the assumption" // not decided
	Chance    Preference = "may be chance"             // not decided
	Unchecked Preference = "not checked"               // against other assumptions
)

// Turn is an assumption under which the other model is better.
type Turn struct {
	Assumption string  `json:"assumption"`
	MeanLink   float64 `json:"meanLink"`   // mean ŷ, as the claim set has it
	Propensity float64 `json:"propensity"` // mean π̂
}

// Decided returns what can be said of another model, by its number. Evaluations of earlier versions have no decision:
// they were not checked.
func (e *Evaluation) Decided(k int) Decision {
	o := &e.Others[k]
	if o.Decision.Preference != "" {
		return o.Decision
	}
	old := *e
	old.Set = nil
	return old.decision(o, k+1, nil)
}

// Allowed says in a sentence what the assumptions that explain the links say of the model's numbers; or that they were
// not compared.
func (e *Evaluation) Allowed() string {
	switch {
	case e.Class == fit.NoExposure:
		return "This model ignores exposure, so that there are no assumptions to compare."
	case e.findings != nil && e.findings.Bounds != nil:
		b := e.findings.Bounds
		return fmt.Sprintf("Whatever exposure depends on, mean y over the training pairs is %.3g%% to %.3g%%, mean π "+
			"%.3g%% to %.3g%%; corrected risks rest on the model's own assumptions.", 100*b.MeanLink.Low,
			100*b.MeanLink.High, 100*b.Propensity.Low, 100*b.Propensity.High)
	case e.Set == nil:
		return "These numbers were not checked against other assumptions: the model was fitted without comparing them."
	}
	set := e.Set
	risks := ""
	if row := apRow(e.Panel); row.Set != nil {
		risks = ", and R_AP is " + span(row.Set.Low, row.Set.High, set.OneSided)
	}
	if set.OneSided {
		return fmt.Sprintf("By all assumptions that explain the links equally well, mean ŷ over the training pairs is "+
			"at most %.3g%%, mean π̂ at least %.3g%%%s.", 100*set.MeanLink.High, 100*set.Propensity.Low, risks)
	}
	return fmt.Sprintf("By all assumptions that explain the links equally well, mean ŷ over the training pairs is "+
		"%.3g%% to %.3g%%, mean π̂ %.3g%% to %.3g%%%s.", 100*set.MeanLink.Low, 100*set.MeanLink.High,
		100*set.Propensity.Low, 100*set.Propensity.High, risks)
}

// AllowedRisk is what the assumptions say of a risk, in short: at most so much where nothing but links is known, since
// then less may be relevant than any of them says.
func (e *Evaluation) AllowedRisk(row PanelRow) string {
	if row.Set == nil {
		return ""
	}
	return span(row.Set.Low, row.Set.High, e.Set.OneSided)
}

func span(low, high float64, oneSided bool) string {
	if oneSided {
		return fmt.Sprintf("at most %.4g", high)
	}
	return fmt.Sprintf("%.4g to %.4g", low, high)
}

// decide adds what the claim set says of every risk and difference, and decides which models are better.
// predictions are the logits of the others.
func (e *Evaluation) decide(ctx context.Context, j *fit.Judge, v sample.Evidence, predictions [][]float32,
	s PanelSettings) error {
	var points []*point
	if e.Set != nil {
		var err error
		if points, err = judgePoints(ctx, j, v, e.Set, predictions, s); err != nil {
			return err
		}
	}
	for i := range e.Panel.Risks {
		row := &e.Panel.Risks[i]
		row.setOver(points, 0)
	}
	for k := range e.Others {
		o := &e.Others[k]
		for i := range o.Panel.Risks {
			row := &o.Panel.Risks[i]
			row.setOver(points, k+1)
			row.AgainstSet = rangeOver(points, *row.Against,
				func(p *point) (float64, bool) { return p.apart(row.Scheme, k+1) })
		}
		o.Decision = e.decision(o, k+1, points)
	}
	return nil
}

// setOver finds what the claim set says of the risk, of the model of that number.
func (r *PanelRow) setOver(points []*point, model int) {
	r.Set = rangeOver(points, r.Risk, func(p *point) (float64, bool) { return p.moved(r.Scheme, model) })
	if r.Set != nil && r.Scheme != "pu" { // see possible
		r.Set.Low, r.Set.High = max(r.Set.Low, 0), max(r.Set.High, 0)
	}
}

// rangeOver returns the least and the most of an estimate over the claim set: it moves by so much at each point, and
// keeps the error from having sampled pairs.
func rangeOver(points []*point, own fit.Judgement, by func(*point) (float64, bool)) *fit.SetRange {
	out := fit.SetRange{Low: own.Lower, High: own.Upper}
	any := false
	for _, p := range points {
		if x, ok := by(p); ok && p.ceiling == 0 {
			any = true
			at := own.Interval.Estimate + x
			out.Low, out.High = min(out.Low, at-1.96*own.Sampling), max(out.High, at+1.96*own.Sampling)
		}
	}
	if !any {
		return nil
	}
	return &out
}

// decision says which of the two is better.
func (e *Evaluation) decision(o *Other, at int, points []*point) Decision {
	own, other := cmp.Or(e.Model, e.Method, "this model"), o.Model
	row := apRow(o.Panel)
	if row.Against == nil {
		return Decision{Preference: Unchecked,
			Summary: "The difference of the risks was not estimated; evaluate the models again."}
	}
	d, winner, loser, preferred := row.Against, own, other, PreferOwn
	if d.Interval.Estimate < 0 {
		winner, loser, preferred = other, own, PreferOther
	}
	not := func(why Preference, format string, a ...any) Decision {
		return Decision{Preference: why, Summary: fmt.Sprintf("%s is not called better than %s: ", winner, loser) +
			fmt.Sprintf(format, a...) + "."}
	}
	switch doubt := e.doubt(); {
	case d.Lower <= 0 && d.Upper >= 0:
		return not(Chance, "the difference of R_AP on the same pairs may be chance")
	case e.Class == fit.NoExposure:
		return not(Unchecked, "its risk is lower, but %s ignores exposure, so that nothing was corrected", own)
	case doubt != "":
		return not(Depends, "its R_AP is lower, but %s", doubt)
	case e.Set == nil:
		return not(Unchecked, "its R_AP is lower, but that was not checked against other assumptions")
	case opposed(o.Panel):
		return not(Depends, "its R_AP is lower, but its R_PU is higher")
	case row.AgainstSet != nil && row.AgainstSet.Low <= 0 && row.AgainstSet.High >= 0:
		return e.turned(not, row, at, points)
	}
	out := Decision{Preference: preferred, Summary: fmt.Sprintf("%s is better than %s by R_AP under every assumption "+
		"the links allow.", winner, loser)}
	switch out.Ceiling = ceilingOf(row, at, points); {
	case out.Ceiling == nil:
	case *out.Ceiling == 1:
		return not(Depends, "if even the most relevant pairs that are shown are not always linked, which links cannot "+
			"tell, the sign may turn")
	default:
		out.Preference += " on a condition"
		out.Summary = fmt.Sprintf("%s is better than %s by R_AP under every assumption that was compared, if the most "+
			"relevant pairs are linked in at least %.0f%% of the cases in which they are shown, which links cannot "+
			"tell.", winner, loser, 100**out.Ceiling)
	}
	return out
}

// ceilingOf returns the least ceiling from which on a difference keeps its sign; nil if it does at all that were tried.
func ceilingOf(row PanelRow, at int, points []*point) *float64 {
	var least *float64
	for _, p := range points { // from the highest on
		if p.ceiling == 0 {
			continue
		}
		x, _ := p.apart(row.Scheme, at)
		if d := row.Against; (d.Lower+x)*(d.Upper+x) <= 0 || (d.Lower+x)*d.Lower <= 0 {
			return least
		}
		least = &p.ceiling
	}
	return nil
}

// turned names the assumption nearest to the evaluated model's own under which the sign turns, or could.
func (e *Evaluation) turned(not func(Preference, string, ...any) Decision, row PanelRow, at int,
	points []*point) Decision {
	d := row.Against
	own := points[0].Propensity
	var nearest *point
	certain := false // the sign itself turns there, not only one end of the interval
	for _, p := range points {
		x, _ := p.apart(row.Scheme, at)
		moved := d.Interval.Estimate + x
		turns := moved*d.Interval.Estimate <= 0
		if p.ceiling > 0 || !turns && math.Abs(moved) > 1.96*d.Sampling {
			continue
		}
		if nearest == nil || turns && !certain || turns == certain &&
			math.Abs(math.Log(p.Propensity/own)) < math.Abs(math.Log(nearest.Propensity/own)) {
			nearest, certain = p, turns
		}
	}
	high, what := "low", "the difference may be chance"
	if nearest.Propensity > own {
		high = "high"
	}
	if certain {
		what = "the sign turns"
	}
	out := not(Depends, "if exposure were as %s as %.3g%% on average (%s), %s", high, 100*nearest.Propensity,
		nearest.Assumption, what)
	out.Turns = &nearest.Turn
	return out
}

// doubt is why no difference of risks by this model can be relied on, "" if nothing is known against it.
func (e *Evaluation) doubt() string {
	if e.findings == nil {
		return ""
	}
	return e.findings.Doubt()
}

// apRow is the row by which models are compared.
func apRow(p *Panel) PanelRow {
	for _, row := range p.Risks {
		if row.Scheme == "ap" {
			return row
		}
	}
	return PanelRow{Scheme: "ap"}
}

// opposed reports whether R_AP and R_PU clearly prefer different models.
func opposed(p *Panel) bool {
	var ap, pu risk.Interval
	for _, row := range p.Risks {
		switch row.Scheme {
		case "ap":
			ap = row.Against.Interval
		case "pu":
			pu = row.Against.Interval
		}
	}
	return ap.Lower > 0 && pu.Upper < 0 || ap.Upper < 0 && pu.Lower > 0
}
