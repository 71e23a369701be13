package study

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"unseen/figure"
	"unseen/loop"
	"unseen/risk"
)

var theory = Study{
	Name:  "theory",
	Title: "The lemmas and the feedback theorems against simulation",
	run:   runTheory,
}

// TheoryRow compares what a formula says with what was drawn.
type TheoryRow struct {
	Part      string  `json:"part"` // lemmas, limit, correction, bound or corollary
	Case      string  `json:"case"`
	Formula   float64 `json:"formula"`
	Simulated float64 `json:"simulated"`
	Error     float64 `json:"error"` // of Simulated: a standard error, or the largest difference in a limit
	Holds     bool    `json:"holds"`
}

// theorySize is how much is simulated.
type theorySize struct {
	pairs, draws int   // of the lemmas
	conditions   int   // random sets of estimates
	repetitions  int   // of the process
	recommended  []int // n
	rounds       int
	skews        int // draws of one round
	categories   []int
}

func (l *lab) theorySize() theorySize {
	if l.Quick {
		return theorySize{pairs: 60, draws: 400, conditions: 20, repetitions: 3, recommended: []int{1000, 1_000_000},
			rounds: 6, skews: 200, categories: []int{4, 20}}
	}
	return theorySize{pairs: 400, draws: 20_000, conditions: 500, repetitions: 20,
		recommended: []int{1000, 10_000, 100_000, 1_000_000}, rounds: 20, skews: 10_000,
		categories: []int{4, 8, 16, 32, 64}}
}

// runTheory simulates what the paper proves.
func runTheory(ctx context.Context, l *lab) (*Result, error) {
	size := l.theorySize()
	parts := []struct {
		name string
		cost float64
		run  func(*lab, context.Context, theorySize) (*Result, error)
	}{
		{"corollary", 10, (*lab).corollaryPart}, {"lemmas", 6, (*lab).lemmaPart}, {"bound", 3, (*lab).boundPart},
		{"limit", 1, (*lab).limitPart}, {"correction", 1, (*lab).correctionPart},
	}
	tasks := make([]task, len(parts))
	results := make(map[string]*Result)
	var mu sync.Mutex // of results
	for i, p := range parts {
		tasks[i] = task{name: p.name, cost: p.cost, do: func(ctx context.Context) error {
			part, err := p.run(l, ctx, size)
			mu.Lock()
			defer mu.Unlock()
			results[p.name] = part
			return err
		}}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	var rows []TheoryRow
	r := &Result{Setting: []string{
		fmt.Sprintf("Lemmas: %d pairs with random π, y, π̂ and ŷ, %d draws of all links.", size.pairs, size.draws),
		fmt.Sprintf("Feedback process: %d repetitions of %d rounds. One round of it: %d draws.", size.repetitions,
			size.rounds, size.skews),
		fmt.Sprintf("Everything follows from seed %d.", l.Seeds[0]),
	}}
	for _, name := range []string{"lemmas", "limit", "correction", "bound", "corollary"} {
		part := results[name]
		rows = append(rows, part.Rows.([]TheoryRow)...)
		r.Tables = append(r.Tables, part.Tables...)
		r.Figures = append(r.Figures, part.Figures...)
		r.Claims = append(r.Claims, part.Claims...)
	}
	r.Rows = rows
	return r, nil
}

// stream returns a generator for one purpose.
func (l *lab) stream(purpose uint64) *rand.PCG {
	return rand.NewPCG(l.Seeds[0], 0x7468656f7279+purpose)
}

// holding counts the rows that hold.
func holding(rows []TheoryRow) (n int) {
	for _, r := range rows {
		if r.Holds {
			n++
		}
	}
	return n
}

var lemmaSchemes = []struct {
	name   string
	scheme interface {
		risk.Scheme
		risk.Lemma
	}
}{{"naive", risk.Naive{}}, {"R_w", risk.W{}}, {"R_PU", risk.PU{}}, {"R_AP", risk.AP{}}}

// lemmaPart draws the links of the same pairs repeatedly and compares the mean and the variance of every risk with the
// lemmas.
func (l *lab) lemmaPart(ctx context.Context, size theorySize) (*Result, error) {
	rng := rand.New(l.stream(1))
	truths, beliefs := make([]risk.Truth, size.pairs), make([]risk.Belief, size.pairs)
	var truth float64
	for k := range truths {
		truths[k] = risk.Truth{Propensity: .1 + .9*rng.Float64(), Link: rng.Float64()}
		b, err := risk.FromProbabilities(.02+.96*rng.Float64(), .1+.88*rng.Float64())
		if err != nil {
			return nil, err
		}
		beliefs[k] = b
		linked, unlinked := risk.ZeroOne{}.Losses(b)
		truth += (truths[k].Link*linked + (1-truths[k].Link)*unlinked) / float64(size.pairs)
	}
	draws, err := drawRisks(ctx, rng, truths, beliefs, size.draws)
	if err != nil {
		return nil, err
	}
	table := figure.Table{Name: "lemmas", Title: "Bias and variance of the risks under the 0–1 loss", Head: "risk",
		Columns: []figure.Column{
			{Name: "bias", Means: "by the lemma", Digits: 5}, {Name: "drawn", Means: "bias over the draws", Digits: 5},
			{Name: "variance ·10⁶", Means: "by the lemma", Digits: 2},
			{Name: "drawn ·10⁶", Means: "variance over the draws", Digits: 2},
		}}
	var rows []TheoryRow
	variances := map[string]float64{}
	n := float64(size.draws)
	for s, scheme := range lemmaSchemes {
		exact, err := risk.ClosedForm(scheme.scheme, 1, truths, beliefs)
		if err != nil {
			return nil, err
		}
		mean, sd := meanAndSpread(draws[s])
		variances[scheme.name] = exact.Variance
		// Over many pairs a risk is nearly normal, and a variance then has a standard error of √(2/n).
		for _, r := range []TheoryRow{
			{Case: "bias of " + scheme.name, Formula: exact.Bias, Simulated: mean - truth, Error: sd / math.Sqrt(n)},
			{Case: "variance of " + scheme.name, Formula: exact.Variance, Simulated: sd * sd,
				Error: sd * sd * math.Sqrt(2/n)},
		} {
			r.Part, r.Holds = "lemmas", math.Abs(r.Formula-r.Simulated) < 4*r.Error
			rows = append(rows, r)
		}
		table.Add(scheme.name, figure.Number(exact.Bias), figure.Number(mean-truth),
			figure.Number(1e6*exact.Variance), figure.Number(1e6*sd*sd))
	}
	ordered := variances["R_AP"] < variances["naive"] && variances["R_AP"] <= variances["R_w"] &&
		variances["R_w"] <= variances["R_PU"]
	lower, err := lowerBias(rng, size.conditions)
	if err != nil {
		return nil, err
	}
	return &Result{Rows: rows, Tables: []figure.Table{table}, Claims: []Claim{
		{"the lemmas give the bias and variance of naive, R_w, R_PU and R_AP",
			reproducedIf(holding(rows) == len(rows)),
			fmt.Sprintf("%d of the eight numbers are within four standard errors of %d draws.", holding(rows),
				size.draws)},
		{"Var(AP) < Var(naive) and Var(AP) ≤ Var(w) ≤ Var(PU)", reproducedIf(ordered),
			fmt.Sprintf("The variances are %.3g (AP), %.3g (naive), %.3g (w) and %.3g (PU). The paper writes < "+
				"throughout; where all ô are equal, two of the variances are.",
				variances["R_AP"], variances["naive"], variances["R_w"], variances["R_PU"])},
		{"π/(2−π) < π̂ < 1 gives R_w and R_PU a lower bias than naive, where no link is predicted",
			reproducedIf(lower.held == lower.all),
			fmt.Sprintf("It does in %d of %d random sets of estimates. (The appendix prints 2/(2−π), which no "+
				"π̂ can be above.)", lower.held, lower.all)},
	}}, nil
}

// drawRisks draws the links of all pairs as often as asked and returns the risks by every scheme.
func drawRisks(ctx context.Context, rng *rand.Rand, truths []risk.Truth, beliefs []risk.Belief,
	times int) ([][]float64, error) {
	// What a pair adds to every risk, unlinked and linked.
	adds := make([][2][]float64, len(lemmaSchemes))
	for s, scheme := range lemmaSchemes {
		e := risk.Estimator{Scheme: scheme.scheme, Loss: risk.ZeroOne{}}
		for o := range adds[s] {
			for k, b := range beliefs {
				seen := risk.Observation{Linked: o == 1}.WithRelevance(truths[k].Link)
				adds[s][o] = append(adds[s][o], e.Risk(seen, b)/float64(len(beliefs)))
			}
		}
	}
	draws := make([][]float64, len(lemmaSchemes))
	for range times {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sums := make([]float64, len(lemmaSchemes))
		for k, t := range truths {
			o := 0
			if rng.Float64() < t.Propensity*t.Link {
				o = 1
			}
			for s := range sums {
				sums[s] += adds[s][o][k]
			}
		}
		for s, x := range sums {
			draws[s] = append(draws[s], x)
		}
	}
	return draws, nil
}

// lowerBias counts the sets of random estimates within the theorem's condition in which R_w and R_PU are less biased
// than naive.
func lowerBias(rng *rand.Rand, sets int) (lower tally, err error) {
	for range sets {
		truths, beliefs := make([]risk.Truth, 30), make([]risk.Belief, 30)
		for k := range truths {
			pi := .05 + .9*rng.Float64()
			truths[k] = risk.Truth{Propensity: pi, Link: rng.Float64()}
			low := risk.LowestPropensity(pi)
			link, propensity := .49*rng.Float64(), low+(1-low)*(.001+.998*rng.Float64())
			if beliefs[k], err = risk.FromProbabilities(link, propensity); err != nil {
				return lower, err
			}
		}
		var bias [3]float64
		for s, scheme := range []risk.Lemma{risk.Naive{}, risk.W{}, risk.PU{}} {
			m, err := risk.ClosedForm(scheme, 1, truths, beliefs)
			if err != nil {
				return lower, err
			}
			bias[s] = m.AbsoluteBias()
		}
		lower.add(bias[1] < bias[0] && bias[2] < bias[0])
	}
	return lower, nil
}

// limitPart compares κ⁽ᵗ⁾ with 1 − 1/(1+cᵗ).
func (l *lab) limitPart(ctx context.Context, size theorySize) (*Result, error) {
	p := loop.Process{Propensity: []float64{.6, .5}, Link: []float64{.5, .5}} // c = 1.2
	table := figure.Table{Name: "limit", Title: "κ⁽ᵗ⁾ of the naive process against 1 − 1/(1+cᵗ), c = 1.2", Head: "n",
		Columns: []figure.Column{
			{Name: "mean diff.", Means: "mean absolute difference over rounds and repetitions", Digits: 5,
				Better: "lower"},
			{Name: "largest diff.", Means: "over rounds and repetitions", Digits: 5, Better: "lower"},
		}}
	lines := &figure.LineChart{XTitle: "round", YTitle: "κ_vw"}
	limit := figure.Series{Name: "1 − 1/(1+cᵗ)"}
	for t := 1; t <= size.rounds; t++ {
		limit.X, limit.Y = append(limit.X, float64(t)), append(limit.Y, 1-1/(1+math.Pow(1.2, float64(t))))
	}
	var rows []TheoryRow
	var last float64
	falls := true
	for k, n := range size.recommended {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		line := figure.Series{Name: fmt.Sprintf("n = %d", n), X: limit.X, Y: make(figure.Values, size.rounds),
			Low: make(figure.Values, size.rounds), High: make(figure.Values, size.rounds)}
		var sum, largest float64
		for t := range size.rounds {
			line.Low[t] = 1
		}
		for r := range size.repetitions {
			shares, err := p.Run(n, size.rounds, l.stream(uint64(1000*k+r+100)))
			if err != nil {
				return nil, err
			}
			for t, kappa := range shares {
				x := loop.Relative(kappa, 0, 1)
				line.Y[t] += x / float64(size.repetitions)
				line.Low[t], line.High[t] = min(line.Low[t], x), max(line.High[t], x)
				sum += math.Abs(x - limit.Y[t])
				largest = max(largest, math.Abs(x-limit.Y[t]))
			}
		}
		mean := sum / float64(size.repetitions*size.rounds)
		falls = falls && (k == 0 || mean < last)
		last = mean
		lines.Series = append(lines.Series, line)
		table.Add(fmt.Sprint(n), figure.Number(mean), figure.Number(largest))
		end := size.rounds - 1
		rows = append(rows, TheoryRow{"limit", fmt.Sprintf("n = %d, round %d", n, size.rounds), limit.Y[end],
			line.Y[end], largest, largest < .01})
	}
	lines.Series = append(lines.Series, limit)
	top := rows[len(rows)-1]
	meanDifference := "falls with every step of n"
	if !falls {
		meanDifference = "does not fall with every step of n"
	}
	return &Result{Rows: rows, Tables: []figure.Table{table},
		Figures: []figure.Figure{{Name: "limit-lines",
			Title: "The naive process: two categories that differ only in exposure", Lines: lines}},
		Claims: []Claim{{"κ_vw⁽ᵗ⁾ → 1 − 1/(1+cᵗ) as n grows", reproducedIf(falls && top.Holds),
			fmt.Sprintf("The largest difference in %d rounds is %.4f at n = %d (.01 was the goal); the mean "+
				"difference %s.", size.rounds, top.Error, size.recommended[len(size.recommended)-1],
				meanDifference)}}}, nil
}

// correctionPart follows a category that is shown less, one that is also less relevant, and what stops the loop.
func (l *lab) correctionPart(_ context.Context, size theorySize) (*Result, error) {
	n := size.recommended[len(size.recommended)-1]
	lines := &figure.LineChart{XTitle: "round", YTitle: "κ_vw"}
	table := figure.Table{Name: "correction",
		Title: fmt.Sprintf("Share κ_vw of the category that is shown more, n = %d", n),
		Head:  "process", Columns: []figure.Column{
			{Name: "round 1", Digits: 3}, {Name: fmt.Sprintf("round %d", size.rounds), Digits: 3},
			{Name: "limit", Means: "1 − 1/(1+cᵗ) in that round", Digits: 3},
			{Name: "relevance", Means: "share by relevance alone, y_v/(y_v+y_w)", Digits: 3},
		}}
	var rows []TheoryRow
	ends := make([]float64, 0, 5)
	holds := true
	for k, c := range []struct {
		name    string
		process loop.Process
	}{
		{"naive, equal y", loop.Process{Propensity: []float64{.8, .2}, Link: []float64{.5, .5}}},
		{"corrected, equal y", loop.Process{Propensity: []float64{.8, .2}, Link: []float64{.5, .5}, Corrected: true}},
		{"corrected, y 1.2 times", loop.Process{Propensity: []float64{.8, .2}, Link: []float64{.6, .5},
			Corrected: true}},
		{"shown only, y 1.2 times", loop.Process{Propensity: []float64{.8, .2}, Link: []float64{.6, .5},
			ShownOnly: true}},
		{"corrected, shown only, y 1.2 times", loop.Process{Propensity: []float64{.8, .2}, Link: []float64{.6, .5},
			Corrected: true, ShownOnly: true}},
	} {
		line := figure.Series{Name: c.name}
		shares, err := c.process.Run(n, size.rounds, l.stream(uint64(k+10)))
		if err != nil {
			return nil, err
		}
		var largest, formula float64
		for t, kappa := range shares {
			limit, err := c.process.Limit(t + 1)
			if err != nil {
				return nil, err
			}
			formula = loop.Relative(limit, 0, 1)
			line.X, line.Y = append(line.X, float64(t+1)), append(line.Y, loop.Relative(kappa, 0, 1))
			largest = max(largest, math.Abs(formula-line.Y[t]))
		}
		y := c.process.Link
		end := line.Y[size.rounds-1]
		ends = append(ends, end)
		row := TheoryRow{"correction", c.name, formula, end, largest, largest < .01}
		holds = holds && row.Holds
		rows = append(rows, row)
		table.Add(c.name, figure.Number(line.Y[0]), figure.Number(end), figure.Number(formula),
			figure.Number(y[0]/(y[0]+y[1])))
		lines.Series = append(lines.Series, line)
	}
	return &Result{Rows: rows, Tables: []figure.Table{table},
		Figures: []figure.Figure{{Name: "correction-lines", Title: "What the correction stops, and what it does not",
			Lines: lines}},
		Claims: []Claim{
			{"corrected for exposure, κ_vw⁽ᵗ⁾ → 1 − 1/(1+cᵗ) with c = y_v/y_w", reproducedIf(holds),
				fmt.Sprintf("%d of five processes are within .01 of their limits in every round. Equally "+
					"relevant categories have %.3f in round %d, naive %.3f.", holding(rows), ends[1], size.rounds,
					ends[0])},
			{"accounting for exposure ends the feedback loop", Partly,
				fmt.Sprintf("Only the part that exposure feeds. The estimate κ_v·y_v still carries the "+
					"category's own share along: of two categories of which one is 1.2 times as relevant, that "+
					"one has %.2f in round %d where relevance would give .55. Counting only what was shown "+
					"stops it: %.3f.",
					ends[2], size.rounds, ends[4])},
		}}, nil
}

// boundPart compares P(every ratio skews further) with its bound, corrected and as printed.
func (l *lab) boundPart(ctx context.Context, size theorySize) (*Result, error) {
	table := figure.Table{Name: "bound", Title: "Probability that one round skews every ratio further",
		Head: "recommendations; q", Columns: []figure.Column{
			{Name: "drawn", Digits: 4}, {Name: "bound", Means: "corrected", Digits: 4},
			{Name: "as printed", Means: "1 − 2C·exp(−2n[ε² + η²/C²])", Digits: 4},
		}}
	var rows []TheoryRow
	holds, broken, positive := true, 0, 0
	var worst string
	for k, c := range []struct {
		counts []int
		q      []float64
	}{
		{[]int{60, 40}, []float64{.8, .4}}, {[]int{600, 400}, []float64{.8, .4}},
		{[]int{6000, 4000}, []float64{.8, .4}},
		{[]int{10, 990}, []float64{.9, .5}}, {[]int{1000, 99_000}, []float64{.9, .5}},
		{[]int{20, 1980}, []float64{.6, .4}},
		{[]int{50_000, 50_000}, []float64{.55, .5}}, {[]int{3000, 3000, 3000}, []float64{.2, .5, .8}},
		{[]int{2000, 8000, 90_000}, []float64{.9, .6, .3}},
	} {
		drawn, err := loop.SkewProbability(ctx, c.counts, c.q, size.skews, l.Seeds[0]+uint64(k), 1)
		if err != nil {
			return nil, err
		}
		b, err := loop.BoundSkew(c.counts, c.q)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%v; %v", c.counts, c.q)
		bound := max(b.Probability, 0)
		row := TheoryRow{"bound", name, bound, drawn, math.Sqrt(drawn * (1 - drawn) / float64(size.skews)), true}
		row.Holds = drawn >= bound-4*math.Sqrt(bound*(1-bound)/float64(size.skews))-1e-9
		holds = holds && row.Holds
		if bound > 0 {
			positive++
		}
		if p := max(b.Printed, 0); drawn < p-4*math.Sqrt(p*(1-p)/float64(size.skews))-4*row.Error-1e-9 {
			broken++
			if worst == "" {
				worst = fmt.Sprintf("with %v recommendations and q = %v it promises %.4f, and %.4f was drawn", c.counts,
					c.q, p, drawn)
			}
		}
		rows = append(rows, row)
		table.Add(name, figure.Number(drawn), figure.Number(bound), figure.Number(max(b.Printed, 0)))
	}
	printed := Claim{"P(every ratio skews further) ≥ 1 − 2C·exp(−2n[ε² + η²/C²])", reproducedIf(broken == 0),
		"As printed it held in every case that was drawn."}
	if broken > 0 {
		printed.Evidence = fmt.Sprintf("As printed it is wrong in %d of %d cases: %s. The proof treats q̃_v as "+
			"a mean of n draws, but it is one of nκ_v, and multiplies the probabilities of two failures where "+
			"they add; the first lemma's ε has wrong signs.",
			broken, len(rows), worst)
	}
	return &Result{Rows: rows, Tables: []figure.Table{table}, Claims: []Claim{printed,
		{"P(every ratio skews further) ≥ 1 − 2C·exp(−2nε²) − 2C·exp(−2nδ²), ε_v = ε/√κ_v (corrected)",
			reproducedIf(holds),
			fmt.Sprintf("It held in %d of %d cases, and was above 0 in %d of them: it is far from sharp.",
				holding(rows), len(rows), positive)}}}, nil
}

// corollaryPart lets the number of categories grow with n in step with C³, and with C³·log C.
func (l *lab) corollaryPart(ctx context.Context, size theorySize) (*Result, error) {
	table := figure.Table{Name: "corollary",
		Title: "Probability that every ratio skews further as categories grow in number",
		Head:  "categories", Columns: []figure.Column{
			{Name: "n = 10·C³", Digits: 3}, {Name: "n = 10·C³·log C", Digits: 3},
		}}
	lines := &figure.LineChart{XTitle: "categories", YTitle: "P(every ratio skews further)",
		Series: []figure.Series{{Name: "n = 10·C³"}, {Name: "n = 10·C³·log C"}}}
	var rows []TheoryRow
	for _, C := range size.categories {
		cells := make([]figure.Cell, 2)
		for k, factor := range []float64{1, math.Log(float64(C))} {
			counts, q := make([]int, C), make([]float64, C)
			for v := range q {
				counts[v] = int(10 * factor * float64(C*C))
				q[v] = .3 + .6*float64(v)/float64(C-1)
			}
			drawn, err := loop.SkewProbability(ctx, counts, q, size.skews, l.Seeds[0], 1)
			if err != nil {
				return nil, err
			}
			cells[k] = figure.Number(drawn)
			s := &lines.Series[k]
			s.X, s.Y = append(s.X, float64(C)), append(s.Y, drawn)
			rows = append(rows, TheoryRow{"corollary", fmt.Sprintf("%d categories, %s", C, s.Name), 1, drawn,
				math.Sqrt(drawn * (1 - drawn) / float64(size.skews)), true})
		}
		table.Add(fmt.Sprint(C), cells...)
	}
	fast, slow := lines.Series[0].Y, lines.Series[1].Y
	end := len(fast) - 1
	falls := fast[end] < fast[0]-.1
	verdict := Reproduced
	if falls {
		verdict = NotReproduced
	}
	return &Result{Rows: rows, Tables: []figure.Table{table},
		Figures: []figure.Figure{{Name: "corollary-lines", Title: "The corollary: how n must grow with C",
			Lines: lines}},
		Claims: []Claim{{"P → 1 if C³ = o(n)", verdict,
			fmt.Sprintf("C different probabilities have two within 1/(C−1), so that ε and η shrink as C grows. "+
				"With evenly spaced q and n = 10·C³ the probability goes from %.2f at C = %d to %.2f at C = %d, "+
				"with n = 10·C³·log C it is %.2f and %.2f. Fixed factors do not have C³ = o(n) yet; that "+
				"one which grows slower than log C fails too is an argument (C neighbours, each with a "+
				"chance of failure that such a factor does not bring below 1/C), not a draw. With a "+
				"factor of 40 no fall is seen up to C = 30.",
				fast[0], size.categories[0], fast[end], size.categories[end], slow[0], slow[end])}}}, nil
}
