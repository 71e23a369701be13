package evaluate

import (
	"math"
	"testing"
)

// By hand: six targets, fields 0 (targets 0–3) and 1 (4, 5).
func TestListsByHand(t *testing.T) {
	fields := []uint16{0, 0, 0, 0, 1, 1}
	l := Lists{{0, 1, 4}, {1, 0, 5}, {}}
	near(t, "coverage@1", must(l.Coverage(6, 1))(t), 2./6)
	near(t, "coverage@3", must(l.Coverage(6, 3))(t), 4./6)
	near(t, "coverage@99", must(l.Coverage(6, 99))(t), 4./6)
	// @2: field 0 has 4 slots over 4 targets, field 1 none: only one of two fields is shown.
	near(t, "Gini@2", must(l.FieldGini(fields, 2))(t), .5)
	// @3: 4 slots over 4 targets, 2 over 2: even.
	near(t, "Gini@3", must(l.FieldGini(fields, 3))(t), 0)
	// Exposure 1, 2 and 6 per target: Σ(2f−F−1)x = −2·1 + 0·2 + 2·6 = 10 over 3·9.
	l = Lists{{0, 1, 2}, {1, 2}, {2}, {2}, {2}, {2}}
	near(t, "Gini of 1, 2, 6", must(l.FieldGini([]uint16{7, 8, 9}, 3))(t), 10./27)
}

// A field's number is a name: renaming fields changes nothing, and there need not be field 0.
func TestFieldsAreNames(t *testing.T) {
	l := Lists{{0, 1}, {0, 2}}
	a := must(l.FieldGini([]uint16{0, 0, 1}, 2))(t)
	b := must(l.FieldGini([]uint16{math.MaxUint16, math.MaxUint16, 7}, 2))(t)
	if a != b {
		t.Errorf("Gini is %v, but %v with other names", a, b)
	}
}

func TestListsRefuse(t *testing.T) {
	some := Lists{{0, 1}}
	for name, c := range map[string]struct {
		l       Lists
		targets int
		k       int
		want    error
		says    string
	}{
		"no lists":        {nil, 2, 1, ErrEmpty, "no lists"},
		"no targets":      {some, 0, 1, ErrEmpty, ""},
		"cutoff 0":        {some, 2, 0, ErrCutoff, "got 0"},
		"target too high": {some, 1, 2, ErrTarget, "place 2 of source 0's list is target 1"},
		"target negative": {Lists{{}, {-3}}, 1, 2, ErrTarget, "place 1 of source 1's list is target -3"},
		"named twice":     {Lists{{1, 0}, {0, 0}}, 2, 2, ErrTarget, "source 1's list names target 0 twice"},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := c.l.Coverage(c.targets, c.k)
			refused(t, "coverage", x, err, c.want, c.says)
			x, err = c.l.FieldGini(make([]uint16, c.targets), c.k)
			refused(t, "Gini", x, err, c.want, c.says)
		})
	}
	x, err := Lists{{}, {}}.FieldGini([]uint16{0, 1}, 1)
	refused(t, "Gini of empty lists", x, err, ErrUndefined, "every list is empty")
	near(t, "coverage of empty lists", must(Lists{{}}.Coverage(math.MaxInt, 1))(t), 0)
}
