package study

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"unseen/evaluate"
	"unseen/figure"
)

var table4 = Study{
	Name:  "table4",
	Title: "Table 4: where observed links of real networks rank among all candidates",
	real:  true,
	run:   runTable4,
}

// paperTable4 is the paper's Table 4, by dataset: recall@100 in percent, mean rank, entropy@100 of true positives.
var paperTable4 = [2]map[string][3]float64{
	{"naive": {24.39, 2247.27, 1.65}, "mle": {24.70, 2891.40, 1.73}, "rw": {25.03, 2836.73, 1.74},
		"pu": {24.61, 2875.13, 1.73}, "ap": {26.66, 2425.51, 1.71}},
	{"naive": {6.32, 10170.26, 1.06}, "mle": {6.07, 10731.88, 1.08}, "rw": {6.30, 10873.19, 1.12},
		"pu": {5.92, 10717.06, 1.08}, "ap": {5.99, 10801.11, 1.10}},
}

// firstRanked is the length of a list of recommendations.
const firstRanked = 100

// Table4Row is how one model ranks the held-out links of a network.
type Table4Row struct {
	Network string          `json:"network"`
	Seed    uint64          `json:"seed"`
	Method  Method          `json:"method"`
	By      evaluate.By     `json:"by"`
	Sources int             `json:"sources"`
	Values  [6]figure.Value `json:"values"`  // in the order of the table's columns
	Seconds float64         `json:"seconds"` // of ranking, on one thread, by all scores of the method together

	each [6][]float64 // per source
}

// Table4Difference is how the ranking of a method differs from that of naive, over the sources of all seeds.
type Table4Difference struct {
	Network     string                 `json:"network"`
	Method      Method                 `json:"method"`
	By          evaluate.By            `json:"by"`
	Differences [6]evaluate.Difference `json:"differences"` // in the order of the table's columns
	Higher      [6]int                 `json:"higher"`      // the number of seeds in which it is higher than naive's
	Seeds       int                    `json:"seeds"`
}

// Table4Numbers is what the study measured.
type Table4Numbers struct {
	Ranks    []*Table4Row        `json:"ranks"`
	Compared []*Table4Difference `json:"compared"`
}

// The metrics of a ranking, in the order of the table's columns.
const (
	atRecall = iota
	atMeanRank
	atMRR
	atEntropy
	atCrossRecall
	atCrossShare
)

var table4Columns = []column[*Table4Row]{
	percent("recall", "share of a source's links among its first 100, %", 2,
		func(r *Table4Row) figure.Value { return r.Values[atRecall] }),
	{figure.Column{Name: "mean rank", Means: "of a source's links among all candidates", Digits: 0, Better: "lower"}, 1,
		func(r *Table4Row) figure.Value { return r.Values[atMeanRank] }},
	percent("MRR", "reciprocal rank of a source's best link, %", 2,
		func(r *Table4Row) figure.Value { return r.Values[atMRR] }),
	{figure.Column{Name: "entropy", Means: "of the fields of links among the first 100, nats", Digits: 3,
		Better: "higher"}, 1, func(r *Table4Row) figure.Value { return r.Values[atEntropy] }},
	percent("cross recall", "the recall of links between two fields alone, %", 2,
		func(r *Table4Row) figure.Value { return r.Values[atCrossRecall] }),
	{figure.Column{Name: "cross share", Means: "share of the first 100 that is of another field than the source, %",
		Digits: 1}, 100, func(r *Table4Row) figure.Value { return r.Values[atCrossShare] }},
}

func runTable4(ctx context.Context, l *lab) (*Result, error) {
	if err := l.fitAll(ctx); err != nil {
		return nil, err
	}
	var all []*Table4Row
	var tasks []task
	for _, n := range l.Networks {
		for _, seed := range l.Seeds {
			for _, m := range n.methods() {
				key := fitKey{drawKey{n.Name, seed}, m}
				f, d := l.fits[key], l.prepared[key.drawKey]
				if f.failed != "" {
					continue
				}
				by := []evaluate.By{evaluate.ByRelevance}
				if m.models() {
					by = append(by, evaluate.BySeen)
				}
				var own []*Table4Row
				for _, b := range by {
					own = append(own, &Table4Row{Network: n.Name, Seed: seed, Method: m, By: b,
						Sources: len(d.candidates.Sources())})
				}
				all = append(all, own...)
				cost := float64(len(d.candidates.Sources())) * float64(n.Graph.Len()) * 1e-8
				tasks = append(tasks, task{name: fmt.Sprintf("%s, %s, seed %d, ranking", m.Name, n.Name, seed),
					cost: cost, do: func(ctx context.Context) error {
						began := time.Now()
						standings, err := d.candidates.Rank(ctx, f.judge,
							evaluate.RankSettings{By: by, First: firstRanked, Threads: 1})
						if err != nil {
							return err
						}
						for k, s := range standings {
							own[k].Seconds = time.Since(began).Seconds()
							if err := own[k].measure(s, d); err != nil {
								return err
							}
						}
						return nil
					}})
			}
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	r := &Result{Warnings: l.networkFailures(), Setting: append(l.networkSetting(),
		"Every held-out source ranks all its candidates, by ŷ and by π̂ŷ: with an order those before it, "+
			"without one all other nodes. Metrics are means over sources; entropy over those with a link among "+
			"their first 100; cross recall over those with a link to another field. Equal scores rank by "+
			"node number.",
		"Differences from naive have intervals of 95% from 1000 draws of sources, the same for both; a source's "+
			"values are means over the seeds first. They cover the choice of sources, with the models fixed, "+
			"and not the randomness of training, so a claim must also hold in every seed.",
	)}
	numbers := &Table4Numbers{Ranks: all}
	for _, n := range l.Networks {
		differences, err := l.compare(all, n)
		if err != nil {
			return nil, err
		}
		numbers.Compared = append(numbers.Compared, differences...)
		r.Tables = append(r.Tables, l.table4Table(all, n), table4DifferenceTable(differences, n), l.exposureTable(n),
			table4SeedsTable(all, n))
		r.Figures = append(r.Figures, table4Figure(differences, n))
		r.Claims = append(r.Claims, l.table4Claims(differences, n)...)
	}
	r.Rows = numbers
	r.Tables = append(r.Tables, paperTables4()...)
	return r, nil
}

// measure computes every metric for every source.
func (r *Table4Row) measure(s evaluate.Standing, d *drawn) error {
	fields, sources := d.network.Graph.Fields(), d.candidates.Sources()
	own := make([]uint16, len(sources))
	for place, i := range sources {
		own[place] = fields[i]
	}
	across := s.Ranking.Keep(func(place int, target int32) bool { return fields[target] != own[place] })
	for _, m := range []struct {
		at      int
		ranking evaluate.Ranking
		metric  func(evaluate.Ranking) (float64, error)
	}{
		{atRecall, s.Ranking, func(one evaluate.Ranking) (float64, error) { return one.Recall(firstRanked) }},
		{atMeanRank, s.Ranking, evaluate.Ranking.MeanRank},
		{atMRR, s.Ranking, evaluate.Ranking.MRR},
		{atEntropy, s.Ranking, func(one evaluate.Ranking) (float64, error) {
			return one.FieldEntropy(fields, firstRanked)
		}},
		{atCrossRecall, across, func(one evaluate.Ranking) (float64, error) { return one.Recall(firstRanked) }},
	} {
		var err error
		if r.each[m.at], err = m.ranking.Each(m.metric); err != nil {
			return err
		}
	}
	var err error
	if r.each[atCrossShare], err = s.Lists.CrossShare(own, fields, firstRanked); err != nil {
		return err
	}
	for k, values := range r.each {
		mean, _ := evaluate.Mean(values)
		r.Values[k] = figure.Value(mean)
	}
	return nil
}

// table4RowsOf returns the rows of a network, a method and a score, in the order of the seeds.
func table4RowsOf(all []*Table4Row, n RealNetwork, m Method, by evaluate.By) []*Table4Row {
	return filter(all, func(r *Table4Row) bool { return r.Network == n.Name && r.Method == m && r.By == by })
}

// table4Lines are the lines of a network's tables: every method by ŷ, then those with exposure by π̂ŷ.
func table4Lines(n RealNetwork) (out []Table4Difference) {
	for _, m := range n.methods() {
		out = append(out, Table4Difference{Network: n.Name, Method: m, By: evaluate.ByRelevance})
	}
	for _, m := range n.methods() {
		if m.models() {
			out = append(out, Table4Difference{Network: n.Name, Method: m, By: evaluate.BySeen})
		}
	}
	return out
}

func (c Table4Difference) name() string {
	if c.By == evaluate.BySeen {
		return c.Method.Name + " by π̂ŷ"
	}
	return c.Method.Name
}

// overSeeds is the mean of every node's values over the seeds in which it is a source and counts; NaN elsewhere.
func (l *lab) overSeeds(rows []*Table4Row, metric int, nodes int) []float64 {
	sums, counts := make([]float64, nodes), make([]float64, nodes)
	for _, r := range rows {
		for place, i := range l.prepared[drawKey{r.Network, r.Seed}].candidates.Sources() {
			if x := r.each[metric][place]; !math.IsNaN(x) {
				sums[i] += x
				counts[i]++
			}
		}
	}
	for i := range sums {
		sums[i] /= counts[i] // 0/0 is NaN
	}
	return sums
}

// compare compares every line with naive.
func (l *lab) compare(all []*Table4Row, n RealNetwork) ([]*Table4Difference, error) {
	base := table4RowsOf(all, n, naive, evaluate.ByRelevance)
	if len(base) == 0 {
		return nil, nil
	}
	var out []*Table4Difference
	for _, line := range table4Lines(n) {
		rows := table4RowsOf(all, n, line.Method, line.By)
		if line.Method == naive || len(rows) < len(base) {
			continue
		}
		c := line
		c.Seeds = len(base)
		for metric := range c.Differences {
			for k := range base {
				if rows[k].Values[metric] > base[k].Values[metric] {
					c.Higher[metric]++
				}
			}
			d, err := evaluate.PairedBootstrap(l.overSeeds(rows, metric, n.Graph.Len()),
				l.overSeeds(base, metric, n.Graph.Len()), .95, 1000, 1)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", line.name(), table4Columns[metric].Name, err)
			}
			c.Differences[metric] = d
		}
		out = append(out, &c)
	}
	return out, nil
}

func (l *lab) table4Table(all []*Table4Row, n RealNetwork) figure.Table {
	t := figure.Table{Name: n.Name, Title: fmt.Sprintf("%s, %s", n.Name, seedsTitle(len(l.Seeds))),
		Head: "ranked by ŷ of", Columns: headings(table4Columns)}
	for _, line := range table4Lines(n) {
		if rows := table4RowsOf(all, n, line.Method, line.By); len(rows) > 0 {
			t.Add(line.name(), cells(table4Columns, rows)...)
		}
	}
	return t
}

// withInterval writes a difference with its interval, such as +1.25 (+0.31, +2.20).
func withInterval(d evaluate.Difference, scale float64, digits int) string {
	return fmt.Sprintf("%s (%s, %s)", signed(scale*d.Mean, digits), signed(scale*d.Lower, digits),
		signed(scale*d.Upper, digits))
}

func table4DifferenceTable(differences []*Table4Difference, n RealNetwork) figure.Table {
	t := figure.Table{Name: n.Name + "-differences", Title: n.Name +
		": differences from naive, with intervals of 95% over sources", Head: "ranked by ŷ of",
		Columns: headings(table4Columns)}
	for _, c := range differences {
		var row []figure.Cell
		for k, d := range c.Differences {
			scale := table4Columns[k].scale
			row = append(row, figure.Text(withInterval(d, scale, table4Columns[k].Digits),
				figure.Part("value", scale*d.Mean), figure.Part("lower", scale*d.Lower),
				figure.Part("upper", scale*d.Upper)))
		}
		t.Add(c.name(), row...)
	}
	return t
}

func table4SeedsTable(all []*Table4Row, n RealNetwork) figure.Table {
	t := figure.Table{Name: n.Name + "-seeds", Title: n.Name + ", every ranking", Head: "ranked by ŷ of", Detail: true,
		Columns: slices.Concat([]figure.Column{{Name: "seed"}}, headings(table4Columns),
			[]figure.Column{{Name: "s", Means: "seconds of ranking by all scores, on one thread", Digits: 1}})}
	for _, line := range table4Lines(n) {
		for _, r := range table4RowsOf(all, n, line.Method, line.By) {
			t.Add(line.name(), slices.Concat([]figure.Cell{figure.Number(r.Seed)},
				cells(table4Columns, []*Table4Row{r}), []figure.Cell{figure.Number(r.Seconds)})...)
		}
	}
	return t
}

// table4Figure shows recall against naive, of all links and of those between two fields.
func table4Figure(differences []*Table4Difference, n RealNetwork) figure.Figure {
	f := figure.Figure{Name: n.Name + "-recall", Title: n.Name + ": recall@100 against naive",
		Intervals: &figure.IntervalChart{XTitle: "points", Digits: 2}}
	for _, group := range []struct {
		name string
		at   int
	}{{"all links", atRecall}, {"links between two fields", atCrossRecall}} {
		for _, c := range differences {
			d := c.Differences[group.at]
			f.Intervals.Rows = append(f.Intervals.Rows, figure.IntervalRow{Name: c.name(), Group: group.name,
				Estimate: figure.Value(100 * d.Mean), Low: figure.Value(100 * d.Lower),
				High: figure.Value(100 * d.Upper)})
		}
	}
	return f
}

func paperTables4() (tables []figure.Table) {
	for k, printed := range paperTable4 {
		t := figure.Table{Name: fmt.Sprintf("paper-%d", k+1), Title: paperTitle(k), Head: "method"}
		for _, at := range []int{atRecall, atMeanRank, atEntropy} {
			t.Columns = append(t.Columns, table4Columns[at].Column)
		}
		for _, m := range networkMethods {
			if p, ok := printed[m.Name]; ok {
				t.Add(m.Name, figure.Number(p[0]), figure.Number(p[1]), figure.Number(p[2]))
			}
		}
		tables = append(tables, t)
	}
	return tables
}

// table4Claims says what correcting for exposure does to rankings of a network.
func (l *lab) table4Claims(differences []*Table4Difference, n RealNetwork) []Claim {
	higher := func(metric int) func(*Table4Difference) bool {
		return func(d *Table4Difference) bool { return d.higher(metric) }
	}
	return []Claim{
		correctedClaim(differences, n.Name+": corrected ŷ finds as many observed links as naive, within a point "+
			"of recall@100 on average", atRecall,
			func(d *Table4Difference) bool { return d.Differences[atRecall].Mean > -.01 }),
		correctedClaim(differences, n.Name+": corrected ŷ finds links of more fields: a higher entropy@100 of true "+
			"positives", atEntropy, higher(atEntropy)),
		correctedClaim(differences, n.Name+": corrected ŷ finds more links between two fields", atCrossRecall,
			higher(atCrossRecall)),
		learningClaim(findDifference(differences, cosine, evaluate.ByRelevance), n),
		exposureClaim(findDifference(differences, naiveField, evaluate.ByRelevance),
			n.Name+": naive-field finds more observed links, and fewer between two fields"),
		exposureClaim(findDifference(differences, bayes, evaluate.BySeen),
			n.Name+": ranking by π̂ŷ of bayes does the same"),
		l.scaleClaim(n),
	}
}

// findDifference returns nil where a method was not trained in every seed.
func findDifference(differences []*Table4Difference, m Method, by evaluate.By) *Table4Difference {
	i := slices.IndexFunc(differences, func(d *Table4Difference) bool { return d.Method == m && d.By == by })
	if i < 0 {
		return nil
	}
	return differences[i]
}

// higher reports whether a metric is higher than naive's beyond its interval and in every seed.
func (d *Table4Difference) higher(metric int) bool {
	return d.Differences[metric].Lower > 0 && d.Higher[metric] == d.Seeds
}

// lower reports whether a metric is lower than naive's beyond its interval and in every seed.
func (d *Table4Difference) lower(metric int) bool {
	return d.Differences[metric].Upper < 0 && d.Higher[metric] == 0
}

// notTrained is the evidence where a training diverged.
const notTrained = "It was not trained in every seed."

// correctedClaim counts for how many of the corrected methods it holds.
func correctedClaim(differences []*Table4Difference, statement string, metric int,
	holds func(*Table4Difference) bool) Claim {
	var held tally
	var evidence []string
	column := table4Columns[metric]
	for _, m := range corrected {
		d := findDifference(differences, m, evaluate.ByRelevance)
		held.add(d != nil && holds(d))
		if d == nil {
			evidence = append(evidence, m.Name+" n/a")
			continue
		}
		evidence = append(evidence, fmt.Sprintf("%s %s, higher in %d of %d seeds", m.Name,
			withInterval(d.Differences[metric], column.scale, column.Digits), d.Higher[metric], d.Seeds))
	}
	return Claim{statement, held.verdict(), fmt.Sprintf("%s against naive: %s.", column.Name,
		strings.Join(evidence, "; "))}
}

// learningClaim is about the cosine of the texts, which learns nothing.
func learningClaim(d *Table4Difference, n RealNetwork) Claim {
	c := Claim{n.Name + ": a model that learned from links finds more of them than the cosine of the texts", Missed,
		notTrained}
	if d == nil {
		return c
	}
	switch {
	case d.lower(atRecall):
		c.Verdict = Met
	case d.Differences[atRecall].Mean < 0:
		c.Verdict = Partly
	}
	c.Evidence = fmt.Sprintf("cosine against naive, in points: recall@100 %s, between two fields %s.",
		withInterval(d.Differences[atRecall], 100, 2), withInterval(d.Differences[atCrossRecall], 100, 2))
	return c
}

// exposureClaim is about scores that contain exposure: they find more observed links, and fewer between two fields.
func exposureClaim(d *Table4Difference, statement string) Claim {
	if d == nil {
		return Claim{statement, Missed, notTrained}
	}
	var held tally
	held.add(d.higher(atRecall))
	held.add(d.lower(atCrossRecall))
	return Claim{statement, held.metVerdict(), fmt.Sprintf("Against naive, in points: recall@100 %s, between two "+
		"fields %s; share of another field among the first 100 %s.",
		withInterval(d.Differences[atRecall], 100, 2), withInterval(d.Differences[atCrossRecall], 100, 2),
		withInterval(d.Differences[atCrossShare], 100, 1))}
}
