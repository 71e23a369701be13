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

var certificateMethods = []Method{mle, rw, bayes}

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
				directions[k], err = linkWeights(ctx, n.Graph, 1)
				return err
			}})
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	var rows []*CertificateRow
	tasks = nil
	for k, n := range l.Networks {
		for _, m := range certificateMethods {
			c := &CertificateRow{Network: n.Name, Method: m}
			rows = append(rows, c)
			tasks = append(tasks, task{name: m.Name + ", " + n.Name,
				cost: (training{method: m}).cost() * float64(len(l.Seeds)), do: func(ctx context.Context) (err error) {
					c.Certificate, err = evaluate.Certify(ctx, n.Graph, evaluate.CertificateSettings{
						Fit:     fit.Settings{Method: m.Method, Preset: l.Preset, Seed: l.Seeds[0], Threads: 1},
						Repeats: len(l.Seeds), Plan: world.Saturated(), Seed: l.Seeds[0], Weights: directions[k],
					})
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
			"field and U(.1, .3) between two. This shows how well a method works on such nodes, not whether the " +
			"real links follow the model.",
		fmt.Sprintf("%d truths on each network, seeds from %d; %d pairs to learn from and %d to judge by, fewer "+
			"on small networks; preset %s.", len(l.Seeds), l.Seeds[0], 32_000, 16_000, l.Preset),
		"The error of an estimated risk is the root mean square over the truths; it is followed by how often its 95% " +
			"interval held the truth. Methods other than bayes have no posterior: their intervals take ŷ and π̂ as " +
			"known.",
	}}
	for _, n := range l.Networks {
		r.Tables = append(r.Tables, certificateTable(rows, n))
		r.Claims = append(r.Claims, certificateClaims(rows, n)...)
	}
	return r, nil
}

func certificateTable(rows []*CertificateRow, n RealNetwork) figure.Table {
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
	for _, r := range filter(rows, func(r *CertificateRow) bool { return r.Network == n.Name }) {
		row := []figure.Cell{figure.Number(100 * r.AUC), figure.Number(100 * r.OracleAUC),
			figure.Number(100 * r.Propensity), figure.Number(r.MeanLink), figure.Number(r.Calibration),
			figure.Number(r.TrueRisk), figure.Number(r.NaiveRisk)}
		for _, e := range r.Risks {
			text := fmt.Sprintf("%s, %d/%d", figure.Decimal(e.RMSE, 3), e.Covered, r.Repeats)
			row = append(row, figure.Text(text, figure.Part("value", e.RMSE), figure.Part("covered", e.Covered),
				figure.Part("of", r.Repeats)))
		}
		t.Add(r.Method.Name, append(row, figure.Ratio(r.Identified, r.Repeats))...)
	}
	return t
}

// certificateClaims asks of each network what the paper shows on its own.
func certificateClaims(rows []*CertificateRow, n RealNetwork) []Claim {
	var lower, closer tally
	var risks, errors []string
	for _, r := range filter(rows, func(r *CertificateRow) bool { return r.Network == n.Name }) {
		naive, ap := r.Risks[0], r.Risks[len(r.Risks)-1]
		lower.add(r.TrueRisk < r.NaiveRisk)
		closer.add(ap.RMSE < naive.RMSE)
		if risks == nil { // the naive model is the same for all
			risks = append(risks, "naive "+figure.Decimal(r.NaiveRisk, 3))
		}
		risks = append(risks, fmt.Sprintf("%s %s, π̂ off by %s%%", r.Method.Name, figure.Decimal(r.TrueRisk, 3),
			figure.Decimal(100*r.Propensity, 0)))
		errors = append(errors, fmt.Sprintf("%s %s instead of %s", r.Method.Name, figure.Decimal(ap.RMSE, 3),
			figure.Decimal(naive.RMSE, 3)))
	}
	return []Claim{
		{n.Name + ": methods that model exposure have a lower true risk than naive", lower.verdict(),
			strings.Join(risks, "; ") + "."},
		{n.Name + ": R_AP is closer to the true risk than R_naive", closer.verdict(),
			"Error: " + strings.Join(errors, "; ") + "."},
	}
}
