package fit

import (
	"strings"
	"testing"
)

// Where targets may be newer than the last link of their source, the bounds say which pairs they are of.
func TestBoundsSayOfWhichPairs(t *testing.T) {
	const words = "whose target was there when the source was last active"
	for _, available := range []bool{false, true} {
		for _, logged := range []int{0, 100} {
			f := &Findings{Bounds: &FactorBounds{Available: available}}
			f.Support.Logged = logged
			if f.sayBounds(); len(f.Verdict) != 1 || strings.Contains(f.Verdict[0], words) != available {
				t.Errorf("available %t, %d logged: %q", available, logged, f.Verdict)
			}
		}
	}
}

// The verdict of a model that collapsed is found again, and none of another model is taken for it.
func TestCollapse(t *testing.T) {
	f := &Findings{Class: NotIdentified, MeanLink: Scale{Value: .999}}
	if f.sayScale(); f.Collapse() != f.Verdict[0] || !strings.HasSuffix(f.Collapse(), "means anything.") {
		t.Errorf("found %q in %q", f.Collapse(), f.Verdict)
	}
	f = &Findings{Class: NotIdentified, MeanLink: Scale{Value: .1}}
	if f.sayScale(); f.Collapse() != "" {
		t.Errorf("a model collapsed: %q", f.Collapse())
	}
}
