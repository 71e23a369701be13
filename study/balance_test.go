package study

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/risk"
)

// Every share of the risk is a training of its own.
func TestBalance(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	l := tiny(2, 11)
	l.begin(balance.Name)
	r, err := balance.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.check(); err != nil || len(r.Tables) != 2 || len(r.Claims) != 2*2*len(balanceShares) {
		t.Errorf("%d tables, %d claims: %v", len(r.Tables), len(r.Claims), err)
	}
	for _, fields := range []FieldKind{Random, Tied} {
		ofKind := filter(r.Rows.([]*Outcome), func(o *Outcome) bool { return o.Fields == fields })
		seen := map[figure.Value]string{}
		for _, m := range balanceMethods() {
			risk := byMethod(ofKind, m)[0].Risk
			if other, ok := seen[risk]; ok {
				t.Errorf("%s fields: %s is %s", fields, m.Name, other)
			}
			seen[risk] = m.Name
		}
	}
}

// A scheme of the caller is trained on the same worlds and compared seed by seed.
func TestOwnMethods(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	half := risk.MassFunc(func(o risk.Observation, b risk.Belief) risk.Mass {
		if o.Linked {
			return risk.Mass{Positive: 1}
		}
		return risk.Mass{Positive: b.Hidden() / 2, Negative: 1 - b.Hidden()/2}
	})
	if err := risk.Register("half-in-study", half); err != nil {
		t.Fatal(err)
	}
	own := Method{Name: "half", Method: "half-in-study", Share: 1}
	l := tiny(2, 11, 12)
	l.Methods = []Method{own}
	l.begin(table1.Name)
	r, err := table1.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	found, compared := 0, 0
	for _, table := range r.Tables {
		if !strings.HasSuffix(table.Name, "-against") {
			continue
		}
		found++
		ofKind := filter(r.Rows.([]*Outcome), func(o *Outcome) bool {
			return strings.HasPrefix(table.Name, string(o.Fields))
		})
		for _, row := range table.Rows {
			if row.Name != "half minus ap" {
				continue
			}
			compared++
			var sum float64
			for k, o := range byMethod(ofKind, own) {
				sum += float64(o.Risk-byMethod(ofKind, ap)[k].Risk) / 2
			}
			mean, _ := row.Cells[0].Value()
			lower, _ := row.Cells[1].Value()
			upper, _ := row.Cells[2].Value()
			if math.Abs(mean-sum) > 1e-12 || mean == 0 || !(lower < mean && mean < upper) {
				t.Errorf("%s: %s: %v from %v to %v, want %v", table.Name, row.Name, mean, lower, upper, sum)
			}
		}
	}
	if found != 2 || compared != 2 {
		t.Errorf("%d tables have it, %d compare it with ap", found, compared)
	}
	for wrong, m := range map[string]Method{
		"nosuch": {Name: "own", Method: "nosuch"}, "name of its own": {Name: "ap", Method: "half-in-study"},
		"share of -1": {Name: "own", Method: "half-in-study", Share: -1},
	} {
		if _, err := Run(context.Background(), []string{"table1"}, Options{Methods: []Method{m}}); !errors.Is(err,
			ErrOption) || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}
