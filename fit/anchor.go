package fit

import "math"

// AnchorTest is what became of an anchor: links may say otherwise, and then it and they cannot both be right.
type AnchorTest struct {
	Anchor
	Fitted float64 `json:"fitted"` // mean π̂ of the group
}

// group is the number of the group of field pairs in a prior.
func (a Anchor) group() uint8 {
	if a.Group == "cross" {
		return 1
	}
	return 0
}

// disagrees reports whether the fit is further from the anchor than twice its error and a tenth: the anchor is of the
// middle of a group's field pairs, and the fit's is a mean over its pairs.
func (t AnchorTest) disagrees() bool {
	return math.Abs(t.Fitted-t.Propensity) > 2*t.Error+t.Propensity/10
}

// testAnchors compares anchors with the fit.
func (d *diagnosis) testAnchors() {
	for _, a := range d.result.Settings.Anchors {
		var shown, weight float64
		for _, c := range d.cells {
			if c.same == (a.group() == 0) {
				shown, weight = shown+c.shown, weight+c.weight
			}
		}
		if weight > 0 && d.result.Posterior != nil {
			d.found.Anchors = append(d.found.Anchors, AnchorTest{a, shown / weight})
		}
	}
}

// sayAnchors says which anchors the links do not agree with.
func (f *Findings) sayAnchors() {
	for _, t := range f.Anchors {
		if t.disagrees() {
			f.say("The anchor %s=%.3g±%.2g contradicts the links, by which mean π̂ is %.3g there: one of the two is "+
				"wrong, or exposure depends on more than this model has.", t.Group, t.Propensity, t.Error, t.Fitted)
			f.advise("look at where the anchor comes from, or leave it out")
		}
	}
}
