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

// balanceShares are the values of λ_R/λ_L besides the preset's: 1, and the 10 that the paper prints.
var balanceShares = []float64{1, 10}

// withShare is a method whose risk has a weight of share times that of the likelihood.
func withShare(m Method, share float64) Method {
	m.Name, m.Share = fmt.Sprintf("%s, λ_R = %g λ_L", m.Name, share), share
	return m
}

// balanceMethods are naive, mle, the three methods with a risk, each with every share, and the truth.
func balanceMethods() []Method {
	all := []Method{naive, mle}
	for _, m := range []Method{rw, pu, ap} {
		all = append(all, m)
		for _, share := range balanceShares {
			all = append(all, withShare(m, share))
		}
	}
	return append(all, oracle)
}

// runBalance trains with the guards of the preset and a growing weight of the risk. The preset's own weight is so small
// that its trainings could hardly differ from plain likelihood.
func runBalance(ctx context.Context, l *lab) (*Result, error) {
	methods := balanceMethods()
	outcomes, err := l.train(ctx, cross(l.kinds(), l.Seeds, methods))
	if err != nil {
		return nil, err
	}
	r := &Result{Rows: outcomes, Warnings: failureWarnings(outcomes), Setting: append(l.setting(),
		"All with the preset's guards: case-control likelihood, a floor of π̂, masses held while the gradient "+
			"is taken. A row without λ has those of the preset; the preset safe has λ_R = λ_L/20.")}
	for _, kind := range l.kinds() {
		ofKind := filter(outcomes, func(o *Outcome) bool { return o.Fields == kind })
		t := figure.Table{Name: string(kind), Title: fmt.Sprintf("%s fields, %s", kind, seedsTitle(len(l.Seeds))),
			Head: "method", Columns: headings(metrics)}
		for _, m := range methods {
			t.Add(m.Name, cells(metrics, byMethod(ofKind, m))...)
		}
		r.Tables = append(r.Tables, t)
		for _, share := range balanceShares {
			var heavier []Method
			for _, m := range []Method{rw, pu, ap} {
				heavier = append(heavier, withShare(m, share))
			}
			with := fmt.Sprintf(" with λ_R = %g λ_L (%s fields)", share, kind)
			r.Claims = append(r.Claims,
				compareGains(ofKind, "R_w, R_PU and R_AP have a higher AUC than MLE"+with,
					gain{mle, heavier, aucPoints, "AUC points", 2}),
				compareGains(ofKind, "R_w, R_PU and R_AP have a lower true risk than MLE"+with,
					gain{mle, heavier, func(o *Outcome) float64 { return -float64(o.Risk) }, "true risk saved", 4}))
		}
	}
	return r, nil
}
