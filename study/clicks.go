package study

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

var clicks = Study{
	Name:   "clicks",
	Title:  "Clicks: each method on choices among links that were shown",
	real:   true,
	logged: true,
	run:    runClicks,
}

// The methods, without the log and with it. shownOnly learns from shown pairs alone, where a missing link does mean
// that nobody wanted it: what could be achieved if all exposure were logged.
var (
	loggedMLE   = Method{Name: "mle, logged", Method: "mle"}
	loggedBayes = Method{Name: "bayes, logged", Method: "bayes"}
	shownOnly   = Method{Name: "naive, shown only", Method: "naive"}

	unloggedMethods = []Method{naive, mle, rw, ap, bayes}
	loggedMethods   = []Method{loggedMLE, dr, loggedBayes}
	clicksMethods   = append(append(slices.Clone(unloggedMethods), loggedMethods...), shownOnly)
)

// ClicksRow is one model, judged on held-out pages whose links were all seen.
type ClicksRow struct {
	Network string `json:"network"`
	Seed    uint64 `json:"seed"`
	Method  Method `json:"method"`

	AUC    figure.Value `json:"auc"` // of ŷ: clicked against shown and not clicked
	AP     figure.Value `json:"averagePrecision"`
	Within figure.Value `json:"within"` // the mean AUC within a page

	// Of π̂ against the share that was shown, by ordered pairs of fields, weighted by pairs of nodes.
	PropensityError figure.Value `json:"propensityError"` // Σ|π̂ − π| / Σπ
	Scale           figure.Value `json:"scale"`           // mean π̂ ÷ mean π
	Correlation     figure.Value `json:"correlation"`     // of log π̂ and log π

	Risk      figure.Value  `json:"risk"`      // of ŷ: doubly robust, with the known π
	RiskLower figure.Value  `json:"riskLower"` // of 95%, over pages
	RiskUpper figure.Value  `json:"riskUpper"`
	Estimates RiskEstimates `json:"estimates"` // of the same, with the model's own π̂ and without the log

	Class fit.Class `json:"class,omitempty"`
	// z of the doctor's test of π̂ by the log; of bayes, π̂ is of a fit that did not see it
	LogTest figure.Value `json:"logTest"`
	Seconds float64      `json:"seconds"`
	Failed  string       `json:"failed,omitempty"`
}

// pages is a network of clicks with what was shown, split and sampled with a seed.
type pages struct {
	network RealNetwork // whose links are clicks
	shown   [][]int32
	drawn   *sample.Prepared
	logged  *sample.Prepared // with the exposures of the logged pages
	only    sample.Problem
	tested  *sample.Evidence // all pairs of sampled held-out pages, with their exposure
	rates   []float64        // shown share of held-out pairs by cell of a field matrix
	counts  []float64        // pairs by cell
	pages   int              // whose exposures are logged for training
}

func runClicks(ctx context.Context, l *lab) (*Result, error) {
	r := &Result{}
	var networks []RealNetwork
	ready := make(map[drawKey]*pages)
	for _, n := range l.Networks {
		if n.Log == nil {
			r.Warnings = append(r.Warnings, n.Name+" has no logged exposures and is left out")
			continue
		}
		clicked, err := newPages(n)
		if err != nil {
			return nil, err
		}
		networks = append(networks, clicked.network)
		for _, seed := range l.Seeds {
			p := *clicked
			if err := p.draw(ctx, seed); err != nil {
				return nil, fmt.Errorf("%s: %w", n.Name, err)
			}
			ready[drawKey{n.Name, seed}] = &p
		}
	}
	rows, err := l.clicksRows(ctx, ready, networks)
	if err != nil {
		return nil, err
	}
	r.Rows = rows
	for _, row := range rows {
		if row.Failed != "" {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s, %s, seed %d: %s", row.Method.Name, row.Network, row.Seed,
				row.Failed))
		}
	}
	for _, n := range networks {
		r.Setting = append(r.Setting, ready[drawKey{n.Name, l.Seeds[0]}].setting())
		own := filter(rows, func(r *ClicksRow) bool { return r.Network == n.Name })
		r.Tables = append(r.Tables, clicksTable(own, n, len(l.Seeds)), clicksRiskTable(own, n),
			clicksSeedsTable(own, n))
		r.Claims = append(r.Claims, clicksClaims(own, n)...)
	}
	r.Setting = append(r.Setting,
		"A pair is shown if the source page links to the target and somebody clicked on anything there, and linked "+
			"if somebody clicked on it. So exposure is known of every pair, and relevance of every shown one. Authors "+
			"of a page link to what is relevant: shown pairs are likelier to be wanted than others of the same "+
			"fields, which no propensity by field can represent.",
		"AUC and AP: clicked against shown and not clicked on held-out pages; within: AUC among the links of a page, "+
			"mean over pages. π̂ is compared with the shown share of held-out pairs, by pairs of fields.",
		"Risk: of ŷ over all pairs of up to 100 held-out pages under the log-loss, doubly robust with the shown "+
			"shares for π; R_naive, R_w, R_PU and R_AP are its estimates from clicks alone with the model's own π̂.",
		fmt.Sprintf("Preset %s, first start only; %s.", l.Preset, seedList(l.Seeds)))
	return r, nil
}

// clicksRows trains and judges every method on every network with every seed.
func (l *lab) clicksRows(ctx context.Context, ready map[drawKey]*pages, networks []RealNetwork) ([]*ClicksRow, error) {
	var rows []*ClicksRow
	var tasks []task
	for _, n := range networks {
		for _, seed := range l.Seeds {
			for _, m := range clicksMethods {
				row := newClicksRow(n, seed, m)
				rows = append(rows, row)
				p := ready[drawKey{n.Name, seed}]
				tasks = append(tasks, task{name: fmt.Sprintf("%s, %s, seed %d", m.Name, n.Name, seed),
					cost: (training{method: m}).cost(), do: func(ctx context.Context) error {
						return row.train(ctx, p, l.Preset)
					}})
			}
		}
	}
	return rows, l.each(ctx, tasks)
}

// newClicksRow is a row without numbers.
func newClicksRow(n RealNetwork, seed uint64, m Method) *ClicksRow {
	return &ClicksRow{Network: n.Name, Seed: seed, Method: m, AUC: missing, AP: missing, Within: missing,
		PropensityError: missing, Scale: missing, Correlation: missing, LogTest: missing, Risk: missing,
		RiskLower: missing, RiskUpper: missing, Estimates: missingEstimates}
}

// setting says how many pages and pairs there are.
func (p *pages) setting() string {
	shown := 0
	for _, targets := range p.shown {
		shown += len(targets)
	}
	return fmt.Sprintf("%s: %d pages, %d shown pairs of which %d were clicked; cut at random (70, 10 and 20%% of the "+
		"pages). With logged exposures of %d training pages: %d pairs, shown or not.", p.network.Name,
		p.network.Graph.Len(), shown, p.network.Graph.LinkCount(), p.pages, p.logged.Logged)
}

// newPages makes a graph whose links are the clicks of the log.
func newPages(n RealNetwork) (*pages, error) {
	g := n.Graph
	var b graph.Builder
	b.Grow(g.Len())
	for f := 1; f < g.FieldCount(); f++ {
		if _, err := b.AddField(g.FieldName(uint16(f))); err != nil {
			return nil, err
		}
	}
	for i := range int32(g.Len()) {
		t, _ := g.Time(i)
		if _, err := b.AddNode(graph.Node{ID: g.ID(i), Field: g.FieldName(g.Field(i)), Title: g.Title(i),
			Time: t}); err != nil {
			return nil, err
		}
	}
	p := &pages{shown: make([][]int32, g.Len())}
	for k, i := range n.Log.Source {
		j := n.Log.Target[k]
		if i == j {
			continue
		}
		if n.Log.Exposed[k] || n.Log.Linked[k] {
			p.shown[i] = append(p.shown[i], j)
		}
		if n.Log.Linked[k] {
			if err := b.AddLinkIndex(i, j); err != nil {
				return nil, err
			}
		}
	}
	for i := range p.shown {
		slices.Sort(p.shown[i])
		p.shown[i] = slices.Compact(p.shown[i])
	}
	made, _, err := b.Build()
	if err != nil {
		return nil, err
	}
	if made, err = made.WithTrustedVectors(g.Vectors()); err != nil {
		return nil, err
	}
	p.network = RealNetwork{Name: n.Name, Graph: made, Log: n.Log, Plan: &sample.Plan{Split: sample.AtRandom}}
	return p, nil
}

const (
	mostLogged = 200_000 // pairs with logged exposure for training
	mostTested = 100     // held-out pages of which every pair is judged
)

// draw splits the pages, and chooses those whose exposures are logged.
func (p *pages) draw(ctx context.Context, seed uint64) (err error) {
	g := p.network.Graph
	plan, _ := p.network.plan(seed)
	o := sample.Options{Origin: sample.Origin{Plan: plan}}
	if p.drawn, err = sample.Prepare(ctx, g, o); err != nil {
		return err
	}
	// All pairs of randomly chosen training pages, whether shown or clicked or not.
	train := p.drawn.Split.Nodes(graph.Train)
	random := rand.New(rand.NewPCG(seed, 0xc11c))
	p.pages = min(max(mostLogged/len(train), 1), len(train))
	log := &sample.ExposureLog{}
	for _, k := range random.Perm(len(train))[:p.pages] {
		i := train[k]
		for _, j := range train {
			if j != i {
				log.Source, log.Target = append(log.Source, i), append(log.Target, j)
				log.Exposed, log.Linked = append(log.Exposed, p.isShown(i, j)), append(log.Linked, g.HasLink(i, j))
			}
		}
	}
	o.Log = log
	if p.logged, err = sample.Prepare(ctx, g, o); err != nil {
		return err
	}
	p.only = p.drawn.Problem
	p.only.Train = p.shownPairs(graph.Train)
	if p.only.Train.Len() == 0 {
		return fmt.Errorf("%w: no pair of a training page was shown", ErrOption)
	}
	p.only.Validation = p.shownPairs(graph.Validation)
	if p.only.Validation.Len() == 0 {
		p.only.Validation = nil // a tenth of the training pages is used instead
	}
	// What was shown on held-out pages.
	fields := g.FieldCount()
	p.rates, p.counts = make([]float64, fields*fields), make([]float64, fields*fields)
	sizes := make([]float64, fields)
	for _, f := range g.Fields() {
		sizes[f]++
	}
	test := p.drawn.Split.Nodes(graph.Test)
	for _, i := range test {
		row := int(g.Field(i)) * fields
		for f, size := range sizes {
			p.counts[row+f] += size
		}
		p.counts[row+int(g.Field(i))]--
		for _, j := range p.shown[i] {
			p.rates[row+int(g.Field(j))]++
		}
	}
	for c := range p.rates {
		p.rates[c] /= max(p.counts[c], 1)
	}
	p.tested = &sample.Evidence{Pairs: &graph.Pairs{}}
	chosen := random.Perm(len(test))[:min(mostTested, len(test))]
	slices.Sort(chosen)
	for _, k := range chosen {
		for j := range int32(g.Len()) {
			if i := test[k]; i != j {
				exposure := risk.Unexposed
				if p.isShown(i, j) {
					exposure = risk.Exposed
				}
				addPair(p.tested.Pairs, i, j, g.HasLink(i, j))
				p.tested.Exposure = append(p.tested.Exposure, exposure)
			}
		}
	}
	p.tested.Pairs.Universe = int64(len(test)) * int64(g.Len()-1)
	return nil
}

func (p *pages) isShown(i, j int32) bool {
	_, found := slices.BinarySearch(p.shown[i], j)
	return found
}

// shownPairs are the shown pairs of a part, each with a weight of 1.
func (p *pages) shownPairs(part graph.Subset) *graph.Pairs {
	out := &graph.Pairs{}
	nodes := slices.Sorted(slices.Values(p.drawn.Split.Nodes(part)))
	for _, i := range nodes {
		for _, j := range p.shown[i] {
			if p.drawn.Split.Subset(j) <= part {
				addPair(out, i, j, p.network.Graph.HasLink(i, j))
			}
		}
	}
	out.Universe = int64(out.Len())
	return out
}

func addPair(p *graph.Pairs, i, j int32, linked bool) {
	p.Source, p.Target, p.Linked = append(p.Source, i), append(p.Target, j), append(p.Linked, linked)
	p.Weight, p.Rate = append(p.Weight, 1), append(p.Rate, 1)
}

// train fits by a method and judges the model.
func (r *ClicksRow) train(ctx context.Context, p *pages, preset string) error {
	problem := p.drawn.Problem
	switch {
	case slices.Contains(loggedMethods, r.Method):
		problem = p.logged.Problem
	case r.Method == shownOnly:
		problem = p.only
	}
	var f fitted
	if err := f.train(ctx, problem, r.Method, preset, r.Seed); err != nil {
		return err
	}
	r.Class, r.Seconds, r.Failed = f.class, f.seconds, f.failed
	if len(f.logged) > 0 {
		r.LogTest = figure.Value(f.logged[0].Z)
	}
	if f.failed != "" {
		return nil
	}
	r.choices(f.judge, p)
	matrix, ok := f.judge.Propensity.(*model.FieldMatrix)
	if ok {
		r.propensities(f.judge.PropensityParams, p)
	}
	return r.risks(ctx, f.judge, matrix, p)
}

// choices compares ŷ with what was clicked of what was shown.
func (r *ClicksRow) choices(j *fit.Judge, p *pages) {
	pooled := evaluate.Scored{}
	var within []float64
	for _, i := range p.drawn.Split.Nodes(graph.Test) {
		targets := p.shown[i]
		if len(targets) == 0 {
			continue
		}
		sources, z := make([]int32, len(targets)), make([]float32, len(targets))
		for k := range sources {
			sources[k] = i
		}
		j.Link.Logits(z, j.LinkParams, model.Batch{Sources: sources, Targets: targets})
		page := evaluate.Scored{}
		for k, target := range targets {
			page.Scores, page.Linked = append(page.Scores, float64(z[k])),
				append(page.Linked, p.network.Graph.HasLink(i, target))
		}
		pooled.Scores, pooled.Linked = append(pooled.Scores, page.Scores...), append(pooled.Linked, page.Linked...)
		if auc, err := page.AUC(); err == nil { // pages where all or none was clicked have no choice
			within = append(within, auc)
		}
	}
	r.AUC, r.AP = valueOrMissing(pooled.AUC()), valueOrMissing(pooled.AveragePrecision())
	mean, _ := evaluate.Mean(within)
	r.Within = figure.Value(mean)
}

// propensities compares π̂ with the shown share.
func (r *ClicksRow) propensities(logits []float32, p *pages) {
	var off, sum, truth float64
	var x, y, w []float64
	for cell, count := range p.counts {
		if count == 0 {
			continue
		}
		pi := 1 / (1 + math.Exp(-float64(logits[cell])))
		off += count * math.Abs(pi-p.rates[cell])
		sum += count * pi
		truth += count * p.rates[cell]
		if p.rates[cell] > 0 {
			x, y, w = append(x, math.Log(pi)), append(y, math.Log(p.rates[cell])), append(w, count)
		}
	}
	r.PropensityError, r.Scale, r.Correlation = figure.Value(off/truth), figure.Value(sum/truth),
		figure.Value(correlation(x, y, w))
}

// correlation of two lists of numbers, weighted.
func correlation(x, y, w []float64) float64 {
	var n, mx, my float64
	for k := range w {
		n += w[k]
		mx += w[k] * x[k]
		my += w[k] * y[k]
	}
	mx, my = mx/n, my/n
	var xx, yy, xy float64
	for k := range w {
		xx += w[k] * (x[k] - mx) * (x[k] - mx)
		yy += w[k] * (y[k] - my) * (y[k] - my)
		xy += w[k] * (x[k] - mx) * (y[k] - my)
	}
	return xy / math.Sqrt(xx*yy)
}

// risks compares the estimates from clicks with the model's own π̂ with the doubly robust risk. matrix is nil for
// methods without propensities.
func (r *ClicksRow) risks(ctx context.Context, j *fit.Judge, matrix *model.FieldMatrix, p *pages) error {
	// The same ŷ with the known π; where nothing was shown, any small value will do.
	known, err := model.NewFieldMatrix(model.NodesOf(p.network.Graph))
	if err != nil {
		return err
	}
	logits := make([]float32, known.Size())
	for cell, rate := range p.rates {
		rate = min(max(rate, 1e-6), 1-1e-6)
		logits[cell] = float32(math.Log(rate / (1 - rate)))
	}
	robust := &fit.Judge{Predictor: engine.Predictor{Link: j.Link, LinkParams: j.LinkParams, Propensity: known,
		PropensityParams: logits}, Threads: 1}
	found, err := robust.Risk(ctx, *p.tested, risk.Estimator{Scheme: risk.DR{}}, nil)
	if err != nil {
		return err
	}
	r.Risk, r.RiskLower, r.RiskUpper = figure.Value(found.Plain), figure.Value(found.Lower), figure.Value(found.Upper)
	for _, e := range []struct {
		scheme risk.Scheme
		to     *figure.Value
	}{{risk.Naive{}, &r.Estimates.Naive}, {risk.W{}, &r.Estimates.W}, {risk.PU{}, &r.Estimates.PU},
		{risk.AP{}, &r.Estimates.AP}} {
		if matrix == nil && e.to != &r.Estimates.Naive {
			continue
		}
		own := *j
		own.Posterior = nil
		estimate, err := own.Risk(ctx, sample.Evidence{Pairs: p.tested.Pairs}, risk.Estimator{Scheme: e.scheme}, nil)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		*e.to = valueOrMissing(estimate.Plain, err)
	}
	return nil
}

var clicksColumns = []column[*ClicksRow]{
	percent("AUC", "of ŷ: clicked against shown and not clicked, %", 2,
		func(c *ClicksRow) figure.Value { return c.AUC }),
	percent("AP", "average precision of the same, %", 1, func(c *ClicksRow) figure.Value { return c.AP }),
	percent("within", "AUC among the links of a page, mean over pages, %", 2,
		func(c *ClicksRow) figure.Value { return c.Within }),
	{figure.Column{Name: "π̂ err", Means: "Σ|π̂ − π| / Σπ over pairs, π the shown share of a pair of fields, %",
		Digits: 0, Better: "lower"}, 100, func(c *ClicksRow) figure.Value { return c.PropensityError }},
	{figure.Column{Name: "π̂ ÷ π", Means: "mean π̂ over the shown share", Digits: 2}, 1,
		func(c *ClicksRow) figure.Value { return c.Scale }},
	{figure.Column{Name: "corr.", Means: "correlation of log π̂ and log π over pairs of fields", Digits: 2,
		Better: "higher"}, 1, func(c *ClicksRow) figure.Value { return c.Correlation }},
}

var clicksRiskColumns = []column[*ClicksRow]{
	{figure.Column{Name: "dr", Means: "the doubly robust risk, with the known π", Digits: 4}, 1,
		func(c *ClicksRow) figure.Value { return c.Risk }},
	{figure.Column{Name: "R_naive", Digits: 4}, 1, func(c *ClicksRow) figure.Value { return c.Estimates.Naive }},
	{figure.Column{Name: "R_w", Digits: 4}, 1, func(c *ClicksRow) figure.Value { return c.Estimates.W }},
	{figure.Column{Name: "R_PU", Digits: 4}, 1, func(c *ClicksRow) figure.Value { return c.Estimates.PU }},
	{figure.Column{Name: "R_AP", Digits: 4}, 1, func(c *ClicksRow) figure.Value { return c.Estimates.AP }},
}

func clicksTable(rows []*ClicksRow, n RealNetwork, seeds int) figure.Table {
	t := figure.Table{Name: n.Name, Title: fmt.Sprintf("%s: choices and exposure, %s", n.Name, seedsTitle(seeds)),
		Head: "method", Columns: headings(clicksColumns)}
	for _, m := range clicksMethods {
		t.Add(m.Name, cells(clicksColumns, byMethod(rows, m))...)
	}
	return t
}

func clicksRiskTable(rows []*ClicksRow, n RealNetwork) figure.Table {
	t := figure.Table{Name: n.Name + "-risk", Title: n.Name +
		": the risk of each model, and its estimates from clicks " +
		"alone", Head: "method", Columns: append(headings(clicksRiskColumns),
		figure.Column{Name: "dr interval", Means: "of 95% over pages, of the first seed"})}
	for _, m := range clicksMethods {
		ofMethod := byMethod(rows, m)
		interval := figure.Cell{}
		if first := ofMethod[0]; first.Failed == "" {
			interval = figure.Text(figure.Decimal(first.RiskLower, 3)+"–"+figure.Decimal(first.RiskUpper, 3),
				figure.Part("lower", first.RiskLower), figure.Part("upper", first.RiskUpper))
		}
		t.Add(m.Name, append(cells(clicksRiskColumns, ofMethod), interval)...)
	}
	return t
}

func clicksSeedsTable(rows []*ClicksRow, n RealNetwork) figure.Table {
	all := slices.Concat(clicksColumns, clicksRiskColumns)
	t := figure.Table{Name: n.Name + "-seeds", Title: n.Name + ", every training", Head: "method", Detail: true,
		Columns: slices.Concat([]figure.Column{{Name: "seed"}}, headings(all), []figure.Column{{Name: "dr low"},
			{Name: "dr high"}, {Name: "scale", Means: "the doctor's verdict"}, {Name: "s", Digits: 1}})}
	for _, r := range rows {
		t.Add(r.Method.Name, slices.Concat([]figure.Cell{figure.Number(r.Seed)}, cells(all, []*ClicksRow{r}),
			[]figure.Cell{figure.Number(r.RiskLower), figure.Number(r.RiskUpper), figure.Text(string(r.Class)),
				figure.Number(r.Seconds)})...)
	}
	return t
}

// clicksClaims says what modelling exposure and logging it bring where exposure is known.
func clicksClaims(rows []*ClicksRow, n RealNetwork) []Claim {
	return []Claim{
		choiceClaim(rows, n.Name+": methods that model exposure separate wanted from unwanted shown pairs better "+
			"than naive", naive, []Method{mle, rw, ap, bayes}),
		choiceClaim(rows, n.Name+": logged exposure helps to separate them", mle, []Method{loggedMLE, dr}),
		choiceClaim(rows, n.Name+": logged exposure helps bayes to separate them", bayes, []Method{loggedBayes}),
		loggedScaleClaim(rows, n),
		doctorClaim(rows, n),
		estimatesClaim(rows, n),
	}
}

// choiceClaim asks whether the AUC of methods is higher than that of a base in every seed.
func choiceClaim(rows []*ClicksRow, statement string, base Method, methods []Method) Claim {
	percentAUC := func(r *ClicksRow) figure.Value { return 100 * r.AUC }
	below := values(byMethod(rows, base), percentAUC)
	var everywhere tally
	var evidence []string
	for _, m := range methods {
		gains := values(byMethod(rows, m), percentAUC)
		var higher tally
		for k := range gains {
			gains[k] -= below[k]
			higher.add(gains[k] > 0)
		}
		everywhere.add(higher.held == higher.all)
		mean, sd := meanAndSpread(gains)
		evidence = append(evidence, plusMinus(m.Name, mean, sd))
	}
	return Claim{statement, everywhere.verdict(),
		fmt.Sprintf("Against %s, AUC points: %s.", base.Name, strings.Join(evidence, "; "))}
}

// loggedScaleClaim compares the scale of π̂ with and without a log.
func loggedScaleClaim(rows []*ClicksRow, n RealNetwork) Claim {
	scale := func(r *ClicksRow) figure.Value { return r.Scale }
	var closer tally
	var evidence []string
	for _, pair := range [][2]Method{{mle, loggedMLE}, {bayes, loggedBayes}} {
		before, after := meanOf(byMethod(rows, pair[0]), scale), meanOf(byMethod(rows, pair[1]), scale)
		closer.add(math.Abs(math.Log(after)) < math.Abs(math.Log(before)))
		evidence = append(evidence, fmt.Sprintf("%s %s times the shown share without the log, %s with it",
			pair[0].Name, figure.Decimal(before, 2), figure.Decimal(after, 2)))
	}
	return Claim{n.Name + ": logged exposure corrects the scale of π̂", closer.verdict(),
		"Mean π̂: " + strings.Join(evidence, "; ") + "."}
}

// estimatesClaim compares estimated risks with the doubly robust one.
func estimatesClaim(rows []*ClicksRow, n RealNetwork) Claim {
	var closer tally
	var evidence []string
	for _, m := range clicksMethods {
		if !m.models() || m == shownOnly {
			continue
		}
		var off [4]float64
		for k := range off {
			off[k] = meanOf(byMethod(rows, m), func(r *ClicksRow) figure.Value {
				return figure.Value(math.Abs(float64(r.Estimates.list()[k] - r.Risk)))
			})
		}
		for _, x := range off[1:] {
			closer.add(x < off[0])
		}
		evidence = append(evidence, fmt.Sprintf("%s: naive %s, w %s, PU %s, AP %s", m.Name, figure.Decimal(off[0], 4),
			figure.Decimal(off[1], 4), figure.Decimal(off[2], 4), figure.Decimal(off[3], 4)))
	}
	return Claim{n.Name + ": estimates that correct for exposure are closer to the doubly robust risk than the naive " +
		"one", closer.verdict(), "Mean error: " + strings.Join(evidence, "; ") + "."}
}

// doctorClaim compares the doctor's verdict on the scale of π with the known scale, without a log and with it.
func doctorClaim(rows []*ClicksRow, n RealNetwork) Claim {
	var right tally
	var evidence []string
	logged := byMethod(rows, loggedBayes)
	for k, r := range byMethod(rows, bayes) {
		text := fmt.Sprintf("seed %d %s, mean π̂ %s times the shown share", r.Seed, cmp.Or(string(r.Class), "n/a"),
			figure.Decimal(r.Scale, 1))
		if r.Class == fit.Identified {
			right.add(math.Abs(math.Log(float64(r.Scale))) < math.Log(mostDisagreement))
		}
		if z := float64(logged[k].LogTest); !math.IsNaN(z) {
			verb := "refutes"
			if math.Abs(z) < 3 {
				verb = "does not refute"
			}
			text += fmt.Sprintf(", which the log %s with z = %s", verb, signed(z, 0))
		}
		evidence = append(evidence, text)
	}
	c := Claim{n.Name +
		": where the doctor calls the scale of π identified from clicks alone, it is right to a quarter",
		right.metVerdict(), "By bayes: " + strings.Join(evidence, "; ") + "."}
	if right.all == 0 {
		c.Statement, c.Verdict = n.Name+": the doctor does not call the scale of π identified from clicks alone", Met
	}
	return c
}
