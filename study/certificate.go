package study

import (
	"context"
	"fmt"
	"strings"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/world"
)

var certificate = Study{
	Name:  "certificate",
	Title: "Certificate: what each method recovers of truths planted on real networks",
	real:  true,
	run:   runCertificate,
}

var certifiedMethods = []Method{mle, rw, bayes}

// CertificateRow is a method's certificate on a network.
type CertificateRow struct {
	Network string `json:"network"`
	Method  Method `json:"method"`
	*evaluate.Certificate
}

func runCertificate(ctx context.Context, l *lab) (*Result, error) {
	directions := make([][]float32, len(l.Networks))
	var tasks []task
	for k, n := range l.Networks {
		tasks = append(tasks, task{name: n.Name + ", the link model of its links", cost: 2,
			do: func(ctx context.Context) (err error) {
				directions[k], err = weightsOf(ctx, n.Graph, 1)
				return err
			}})
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	var rows []*CertificateRow
	tasks = nil
	for k, n := range l.Networks {
		for _, m := range certifiedMethods {
			c := &CertificateRow{Network: n.Name, Method: m}
			rows = append(rows, c)
			tasks = append(tasks, task{name: m.Name + ", " + n.Name,
				cost: (training{method: m}).cost() * float64(len(l.Seeds)), do: func(ctx context.Context) (err error) {
					c.Certificate, err = evaluate.Certify(ctx, n.Graph, evaluate.CertificateSettings{
						Fit:     fit.Settings{Method: m.Method, Preset: l.Preset, Seed: l.Seeds[0], Threads: 1},
						Repeats: len(l.Seeds), Plan: world.Saturated(), Seed: l.Seeds[0], Weights: directions[k],
					}, nil)
					return err
				}})
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	r := &Result{Rows: rows, Setting: []string{
		"Truths are planted on each network's own vectors and fields: the direction of w from a model of its " +
			"links, links drawn with a base rate of .16 and an oracle AUC of .97, π from U(.7, 1) within a " +
			"field and U(.1, .3) between two. So much is known of the method on such nodes; whether the " +
			"real links obey the model it cannot tell.",
		fmt.Sprintf("%d truths on each network, seeds from %d; %d pairs to learn from and %d to judge by, fewer "+
			"on small networks; preset %s.", len(l.Seeds), l.Seeds[0], 32_000, 16_000, l.Preset),
		"A risk's error is the root mean square over the truths; behind it, how often its interval of 95% held " +
			"the truth. Methods other than bayes have no posterior: their intervals take ŷ and π̂ for known.",
	}}
	for _, n := range l.Networks {
		t := figure.Table{Name: n.Name, Title: n.Name, Head: "method", Columns: []figure.Column{
			{Name: "AUC", Means: "of ŷ against relevance, %", Digits: 2, Better: "higher"},
			{Name: "most", Means: "the AUC of the truth itself, %", Digits: 2},
			{Name: "π̂ err", Means: "mean relative error of π̂ over pairs, %", Digits: 0, Better: "lower"},
			{Name: "ŷ ÷ y", Means: "mean ŷ over mean y", Digits: 2},
			{Name: "|ŷ − y|", Means: "mean over pairs", Digits: 3, Better: "lower"},
			{Name: "risk", Means: "true risk of ŷ", Digits: 3, Better: "lower"},
			{Name: "naive's", Means: "true risk of a naive model", Digits: 3},
			{Name: "R_naive", Means: "error of the estimated risk, and how often its interval held the truth"},
			{Name: "R_w"}, {Name: "R_PU"}, {Name: "R_AP"},
			{Name: "scale", Means: "in how many truths the doctor called the scale of π identified"},
		}}
		for _, c := range rows {
			if c.Network != n.Name {
				continue
			}
			row := []figure.Cell{figure.Number(100 * c.AUC), figure.Number(100 * c.OracleAUC),
				figure.Number(100 * c.Propensity), figure.Number(c.MeanLink), figure.Number(c.Calibration),
				figure.Number(c.TrueRisk), figure.Number(c.NaiveRisk)}
			for _, e := range c.Risks {
				text := fmt.Sprintf("%s, %d/%d", figure.Decimal(e.RMSE, 3), e.Covered, c.Repeats)
				row = append(row, figure.Text(text, figure.Part("value", e.RMSE), figure.Part("covered", e.Covered),
					figure.Part("of", c.Repeats)))
			}
			t.Add(c.Method.Name, append(row, figure.Ratio(c.Identified, c.Repeats))...)
		}
		r.Tables = append(r.Tables, t)
		r.Claims = append(r.Claims, certificateClaims(rows, n)...)
	}
	return r, nil
}

// certificateFindings asks of each network what the paper shows on its one.
func certificateClaims(rows []*CertificateRow, n RealNetwork) []Claim {
	lower := Claim{Statement: n.Name + ": methods that model exposure have a lower true risk than naive"}
	closer := Claim{Statement: n.Name + ": R_AP is closer to the true risk than R_naive"}
	var risks, errors []string
	below, nearer, all := 0, 0, 0
	for _, c := range rows {
		if c.Network != n.Name {
			continue
		}
		all++
		if c.TrueRisk < c.NaiveRisk {
			below++
		}
		first, last := c.Risks[0], c.Risks[len(c.Risks)-1]
		if last.RMSE < first.RMSE {
			nearer++
		}
		risks = append(risks, fmt.Sprintf("%s %s, π̂ off by %s%%", c.Method.Name, figure.Decimal(c.TrueRisk, 3),
			figure.Decimal(100*c.Propensity, 0)))
		errors = append(errors, fmt.Sprintf("%s %s instead of %s", c.Method.Name, figure.Decimal(last.RMSE, 3),
			figure.Decimal(first.RMSE, 3)))
		lower.Evidence = fmt.Sprintf("naive %s; ", figure.Decimal(c.NaiveRisk, 3))
	}
	lower.Verdict, closer.Verdict = verdictOf(below, all), verdictOf(nearer, all)
	lower.Evidence += strings.Join(risks, "; ") + "."
	closer.Evidence = "Off by: " + strings.Join(errors, "; ") + "."
	return []Claim{lower, closer}
}
