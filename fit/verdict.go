package fit

import (
	"fmt"
	"math"
	"strings"

	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
	"unseen/risk"
)

// writeVerdict says in words what was found, and what would help.
func (d *diagnosis) writeVerdict() {
	f := d.found
	if f.sayClass(); f.Class == NoExposure {
		f.sayRefresh()
		return
	}
	if post := d.result.Posterior; post != nil && post.Draws() > 0 {
		f.say("%s", approximate(post.d, post.Draws()))
	}
	f.sayTests()
	if f.Exposure != "" {
		words := strings.Split(f.Exposure, "+")
		last := len(words) - 1
		f.say("The π̂ of this model depends on %s and %s.", strings.Join(words[:last], ", "), words[last])
	}
	f.sayRatio()
	if f.Starts.High > 1.2*f.Starts.Low {
		f.say("The result depends on where training starts: mean ŷ is between %s and %s.", percent(f.Starts.Low),
			percent(f.Starts.High))
	}
	if len(d.result.Settings.Anchors) > 0 && d.result.Posterior != nil {
		f.say("These results depend on the given anchor: if it is wrong, so are they.")
		f.sayAnchors()
	} else if !f.Factors && (f.Class == Weak || f.Class == NotChecked || f.Class == NotIdentified) {
		f.advise("or set %v to what is known from elsewhere, such as same=0.8±0.1", hint.Setting("anchors"))
	}
	f.sayLogs(d.result.Posterior != nil)
	f.sayOffers()
	if f.Support.Examined < f.Support.Pairs {
		f.say("Mean ŷ was computed from %d of the %d pairs.", f.Support.Examined, f.Support.Pairs)
	}
	if f.Support.Thin > 0 && f.Support.Cells > 1 {
		f.advise("merge small fields: %d of %d field pairs have fewer than %d links, so their propensities are "+
			"little more than the prior", f.Support.Thin, f.Support.Cells, thinLinks)
	}
	if f.Support.Clipped > .05 {
		f.say("%s of the training pairs have a propensity below %g: there R_w and R_PU rest on few links; prefer R_AP.",
			percent(f.Support.Clipped), d.floor())
	}
	f.sayLists()
	f.sayRefresh()
}

func (f *Findings) say(format string, a ...any) {
	f.Verdict = append(f.Verdict, fmt.Sprintf(format, a...))
}

func (f *Findings) advise(format string, a ...any) {
	f.Advice = append(f.Advice, hint.Notef(format, a...))
}

// sayClass says what the class means, and why.
func (f *Findings) sayClass() {
	if f.Factors && f.Class != NoExposure && f.Support.Sources > 1 {
		f.sayOfFactors()
	} else if f.sayScale(); f.Class == NoExposure {
		return
	}
	if f.Echo >= graph.EchoFrom {
		f.say("The vectors follow from the links: they agree to %.0f%% with those of linked nodes. If they "+
			"were made from the links, they contain exposure, ŷ mistakes it for relevance, and neither π̂ nor its "+
			"ratio means anything, whatever the intervals say.", 100*f.Echo)
		f.advise("use vectors that describe the nodes, made from texts or profiles instead of the links")
	}
	if f.Rare > 0 && f.Class == Weak {
		f.say("By this fit, even pairs of one field are shown with a chance of only %.2g, so %s times as many "+
			"things are relevant as were linked. Links alone cannot tell this from people who link to few of the "+
			"relevant things that they see: do not rely on the values of ŷ and π̂.", f.Rare, number(1/f.Rare))
		f.advisePrescription()
	}
}

// sayScale says what the class means of the scale.
func (f *Findings) sayScale() {
	switch f.Class {
	case NoExposure:
		f.say("This model ignores exposure: its ŷ is the chance that a link is shown and made, so what is rarely " +
			"shown looks less relevant than it is.")
		if f.Factors {
			f.advise("log what is shown, and use mle")
		} else {
			f.advise("use bayes")
		}
	case Unmeasured:
		if f.Support.Sources == 1 {
			f.say("All pairs have one source: there is no other to compare it with, so that nothing can be said " +
				"about how well links separate relevance from exposure.")
			f.advise("learn from the links of more sources")
			break
		}
		f.say("How well links separate relevance from exposure is not measured: only bayes has standard errors.")
		f.advise("fit with bayes, which has standard errors")
	case Identified:
		f.say("The scale is identified: all assumptions that explain the links equally well agree. %s",
			f.scaleInWords())
	case NotChecked:
		f.sayNotChecked()
	case Weak:
		if f.Echo >= graph.EchoFrom || f.Rare > 0 {
			break // see below
		}
		if f.Set == nil {
			f.sayNotChecked()
			break
		}
		why := "agree, but none of them is sure"
		if wide := f.Set.widest(); wide > narrow {
			why = fmt.Sprintf("differ %.2g-fold", wide)
		} else if f.refuted() || f.contradicted() {
			why = "agree, but something speaks against them, as said below"
		}
		f.say("The scale is weakly identified: assumptions that explain the links equally well %s. %s", why,
			f.scaleInWords())
		f.advisePrescription()
	case NotIdentified:
		if words := f.Collapse(); words != "" {
			f.say("%s", words)
			f.advise("learn from more pairs, or reduce the dimensions of the vectors")
			f.advisePrescription()
			break
		}
		f.say("The scale is not identified: links alone cannot tell rare relevance from rare exposure here. %s",
			f.scaleInWords())
		f.advisePrescription()
	}
}

// advisePrescription advises the experiments that would tell what is not known.
func (f *Findings) advisePrescription() {
	p, set := f.Prescription, f.Set
	if f.contradicted() {
		return // it would rest on what the log contradicts
	}
	if p == nil {
		f.advise("log of a random share of the pairs whether they are shown, and fit again with %v set to sample",
			hint.Setting("log"))
		return
	}
	ofLinks := set.MeanLink.High > narrow*set.MeanLink.Low
	if set.Width() > narrow || !ofLinks {
		f.advise("to know mean π̂ within a factor of %g, log whether pairs that are drawn at random are shown, in the "+
			"time that links take to come about, until %d were: %s. Then fit with %v set to sample", narrow,
			p.Logged.Until, p.Logged.inWords(), hint.Setting("log"))
	}
	if set.OneSided || ofLinks {
		f.advise("to know mean ŷ within a factor of %g, and whether it has a ceiling, show pairs without a link that "+
			"are drawn at random, until %d became links: %s, %s of what was shown so far. Then fit with %v set to "+
			"drawn", narrow, p.Shown.Until, p.Shown.inWords(), percent(p.Shown.Share), hint.Setting("log"))
	}
}

// inWords says how many pairs to draw.
func (e Experiment) inWords() string {
	out := fmt.Sprintf("about %s pairs", number(float64(e.Pairs)))
	if e.Most > 2*e.Pairs {
		out += fmt.Sprintf(" (at most %s)", number(float64(e.Most)))
	}
	if e.Same > 0 && e.Same < e.Pairs {
		out += fmt.Sprintf(", %s of them of one field", number(float64(e.Same)))
	}
	return out
}

// sayOfFactors says what factors rest on.
func (f *Findings) sayOfFactors() {
	if f.Support.Logged == 0 {
		f.say("The scale is not identified: factors that are learned from links alone take in exposure too, " +
			"since what was rarely shown looks like what is rarely liked. Do not rely on the values of ŷ and π̂.")
		f.sayBounds()
		f.advise("log what is shown, if only to some of the people")
		return
	}
	f.say("This rests on %s pairs whose exposure is logged. Other assumptions of exposure are not compared: learned "+
		"factors could take in any.", amount.Text(f.Support.Logged))
	f.sayBounds()
	if m := f.MeanLink; m.Upper > 0 {
		f.say("Under this, %s of all pairs are relevant (95%% interval %s to %s, by learning again from pairs that "+
			"are drawn anew).", percent(m.Value), percent(m.Lower), percent(m.Upper))
		return
	}
	f.advise("for intervals, set %v to 20: factors are then learned so many times again", hint.Setting("replicates"))
}

func (f *Findings) sayNotChecked() {
	f.say("Whether other assumptions explain the links as well was not checked. %s", f.scaleInWords())
	f.advise("set %v to full, which compares assumptions", hint.Setting("doctor"))
}

// scaleInWords says what the links allow to be said of the scale.
func (f *Findings) scaleInWords() string {
	set := f.Set
	if set == nil {
		return fmt.Sprintf("By the model's own assumptions, %s of all pairs are relevant (95%% interval %s to %s).",
			percent(f.MeanLink.Value), percent(f.MeanLink.Lower), percent(f.MeanLink.Upper))
	}
	if log := set.Logged; set.OneSided && log != nil {
		return fmt.Sprintf("By the log, a pair is shown with a probability of %s to %s on average. At most %s of all "+
			"pairs are relevant; how far below, links cannot say: if even the most relevant pairs that are shown are "+
			"linked only with some probability, links look the same.", percent(set.Propensity.Low),
			percent(set.Propensity.High), percent(set.MeanLink.High))
	}
	if set.OneSided {
		return fmt.Sprintf("At most %s of all pairs are relevant, and a pair is shown with a probability of at "+
			"least %s "+
			"on average. How far below and above, links cannot say: if even the most relevant pairs that are "+
			"shown are "+
			"linked only with some probability, links look the same.", percent(set.MeanLink.High),
			percent(set.Propensity.Low))
	}
	return fmt.Sprintf("%s to %s of all pairs are relevant, and a pair is shown with a probability of %s to %s "+
		"on average.",
		percent(set.MeanLink.Low), percent(set.MeanLink.High), percent(set.Propensity.Low),
		percent(set.Propensity.High))
}

// sayTests says what refutes the model.
func (f *Findings) sayTests() {
	for _, t := range f.Tests {
		if !t.Refuted {
			continue
		}
		switch t.Of {
		case BySimilarity:
			f.say("Exposure is not a matter of fields alone: what is relevant by its vectors is also shown more "+
				"(z = %.1f).",
				t.Z)
		case WithinFields:
			f.say("Exposure is not a matter of fields alone: within a field it depends on the vectors otherwise "+
				"than across "+
				"fields (z = %.1f).", t.Z)
		case ByPopularity:
			more := "more"
			if t.Z < 0 {
				more = "less"
			}
			f.say("Targets that many link to are linked %s than fields and vectors explain (z = %.1f). Links cannot "+
				"tell whether they are shown %s or are relevant %s often; what is claimed here allows for both.", more,
				t.Z, more, more)
		case Dependent:
			f.say("What is shown and what is relevant come together more often than chance (z = %.1f): somebody "+
				"chose what "+
				"to show.", t.Z)
		case Disconnected:
			f.say("The field pairs fall into %.0f parts whose linked pairs have no likeness in common: exposure "+
				"in one part "+
				"cannot be compared with that in another.", t.Estimate)
		}
	}
}

// sayRatio says how much more often pairs of one field are shown.
func (f *Findings) sayRatio() {
	r, equal := f.Ratio, "At equal vectors"
	if f.Exposure != "" {
		equal = "By this model"
	}
	switch {
	case r == nil:
	case f.Set != nil && f.Set.Ratio != nil:
		f.say("%s, pairs of one field are shown %.2g times as often as pairs of two; over all pairs %.2g to %.2g "+
			"times, by the assumptions that explain the links.", equal, r.Value, f.Set.Ratio.Low, f.Set.Ratio.High)
	case r.Error > 0:
		f.say("%s, pairs of one field are shown %.2g times as often as pairs of two (%.2g to %.2g).", equal, r.Value,
			r.Lower, r.Upper)
	default:
		f.say("%s, pairs of one field are shown %.2g times as often as pairs of two.", equal, r.Value)
	}
}

// warnings are those findings that are shown with every result.
func (f *Findings) warnings() []risk.Warning {
	var out []risk.Warning
	if f.Class == Weak || f.Class == NotChecked || f.Class == NotIdentified {
		out = append(out, risk.Warning{Kind: "identifiability", Message: f.Verdict[0]})
	}
	for _, t := range f.Logged {
		if math.Abs(t.z()) > surprising {
			out = append(out, risk.Warning{Kind: "logged-exposure",
				Message: fmt.Sprintf("logged exposures contradict what links say (%s pairs: %s shown, %s expected, "+
					"z = %.1f); go by the logs", t.Group, percent(t.Shown), percent(t.Expected), t.z())})
			break
		}
	}
	return out
}

// A z that chance gives in one case of twenty, and one that it rarely gives: 3 over three groups.
const (
	doubtful   = 1.96
	surprising = 3
)

// logDoubtful reports whether the log differs from what links alone say by more than chance often makes it.
func (f *Findings) logDoubtful() bool {
	return len(f.Logged) > 0 && math.Abs(f.Logged[0].z()) > doubtful
}

// sayLogs says whether logged exposures agree with the propensities.
func (f *Findings) sayLogs(posterior bool) {
	contradicted := f.Set != nil && f.Set.Contradicted
	if contradicted {
		f.say("No assumption that explains the links allows for what was logged or drawn at random: go by that, and " +
			"do not rely on the rest.")
	}
	if len(f.Logged) == 0 {
		return
	}
	worst := f.Logged[0]
	for _, t := range f.Logged {
		if math.Abs(t.z()) > math.Abs(worst.z()) {
			worst = t
		}
	}
	switch {
	case math.Abs(worst.z()) > surprising:
		f.say("Logged exposures contradict what links alone say: %s were shown where %s was expected (%s pairs, z "+
			"= %.1f). Either the most relevant links are not always made, or exposure depends on more than "+
			"the fields; go by the logs.", percent(worst.Shown), percent(worst.Expected), worst.Group, worst.z())
		f.advise("log more exposures, and use method dr or a propensity model that sees more than the fields")
	case f.Factors: // whose level is that of the log
	case contradicted:
	case posterior && f.logDoubtful():
		f.say("Logged exposures differ from what links alone say by more than chance usually makes them (z = %.1f "+
			"over %d pairs): what is said of π̂ over all pairs is what the log says.", f.Logged[0].z(),
			f.Logged[0].Pairs)
	case !posterior:
		f.say("Logged exposures agree with the propensities (z = %.1f), but these were fitted to them too; "+
			"fit with bayes for a stricter test.", f.Logged[0].z())
	default:
		f.say("Logged exposures agree with what links alone say (z = %.1f over %d pairs).", f.Logged[0].z(),
			f.Logged[0].Pairs)
	}
}

// sayOffers says whether what became of pairs that were shown on purpose agrees with the rest.
func (f *Findings) sayOffers() {
	switch t := f.Offered; {
	case t == nil:
	case t.Z < -surprising:
		f.say("Of the pairs that were shown on purpose %s became links where %s was expected (z = %.1f): even what is "+
			"most relevant by its vectors is linked only sometimes.", percent(t.Linked), percent(t.Expected), t.Z)
	case t.Z > surprising:
		f.say("Of the pairs that were shown on purpose %s became links where %s was expected (z = %.1f): relevance "+
			"depends on more than this model has.", percent(t.Linked), percent(t.Expected), t.Z)
	default:
		f.say("What became of %d pairs that were shown on purpose agrees with what links say (z = %.1f).", t.Pairs, t.Z)
	}
	switch t := f.Offered; {
	case t == nil || t.Seen == 1:
	case t.Learned:
		f.say("Who wants what was shown shows it in %s of the cases, as learned from clicks, which cannot tell how "+
			"often from how much is wanted: the level of ŷ is that of the links.", percent(t.Seen))
		f.advise("report links as well as clicks, or give what is known of clicks")
	default:
		f.say("Who wants what was shown shows it in %s of the cases.", percent(t.Seen))
	}
}

// z is the test to go by.
func (t LoggedTest) z() float64 {
	if t.Allowing != 0 {
		return t.Allowing
	}
	return t.Z
}

// percent writes a share with two or three digits.
func percent(x float64) string { return fmt.Sprintf("%.3g%%", 100*x) }

// number is a count with two digits: 4800.
func number(x float64) string {
	digits := math.Pow(10, math.Max(math.Floor(math.Log10(x))-1, 0))
	return fmt.Sprintf("%.0f", math.Round(x/digits)*digits)
}
