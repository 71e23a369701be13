package study

import (
	"context"
	"fmt"

	"unseen/figure"
)

var balance = Study{
	Name:    "balance",
	Title:   "Balance: how much the risk counts beside the likelihood",
	planted: true,
	run:     runBalance,
}

// balanceShares are λ_R/λ_L beside the preset's: as much as the likelihood, and the ten times that the paper prints.
var balanceShares = []float64{1, 10}

// weighed is a method whose risk counts for a share of the likelihood.
func weighed(m Method, share float64) Method {
	m.Name, m.Share = fmt.Sprintf("%s, λ_R = %g λ_L", m.Name, share), share
	return m
}

// balanceMethods are mle, and the three with a risk by its share.
func balanceMethods() []Method {
	all := []Method{naive, mle}
	for _, m := range []Method{rw, pu, ap} {
		all = append(all, m)
		for _, share := range balanceShares {
			all = append(all, weighed(m, share))
		}
	}
	return append(all, oracle)
}

// runBalance trains with the guards of the preset and ever more of the risk. The preset's own share
// is so small that its trainings could hardly differ from plain likelihood.
func runBalance(ctx context.Context, l *lab) (*Result, error) {
	methods := balanceMethods()
	outcomes, err := l.train(ctx, cross(l.kinds(), l.Seeds, methods))
	if err != nil {
		return nil, err
	}
	r := &Result{Rows: outcomes, Warnings: failures(outcomes), Setting: append(l.setting(),
		"All with the preset's guards: case-control likelihood, a floor of π̂, masses held while the gradient "+
			"is taken. A row without λ has those of the preset; the preset safe has λ_R = λ_L/20.")}
	for _, fields := range l.kinds() {
		some := where(outcomes, func(o *Outcome) bool { return o.Fields == fields })
		t := figure.Table{Name: string(fields), Title: fmt.Sprintf("%s fields, %s", fields, repeated(len(l.Seeds))),
			Head: "method", Columns: columns(metrics)}
		for _, m := range methods {
			t.Add(m.Name, cells(metrics, of(some, m))...)
		}
		r.Tables = append(r.Tables, t)
		for _, share := range balanceShares {
			var heavier []Method
			for _, m := range []Method{rw, pu, ap} {
				heavier = append(heavier, weighed(m, share))
			}
			with := fmt.Sprintf(" with λ_R = %g λ_L (%s fields)", share, fields)
			r.Claims = append(r.Claims,
				comparison(some, "R_w, R_PU and R_AP have a higher AUC than MLE"+with, mle, heavier,
					func(o *Outcome) float64 { return 100 * float64(o.AUC) }, "AUC points", 2),
				comparison(some, "R_w, R_PU and R_AP have a lower true risk than MLE"+with, mle, heavier,
					func(o *Outcome) float64 { return -float64(o.Risk) }, "true risk saved", 4))
		}
	}
	return r, nil
}
