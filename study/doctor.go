package study

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

var doctor = Study{
	Name:  "doctor",
	Title: "Doctor: whether what it says holds where the model's assumptions do not",
	run:   runDoctor,
}

// doctorKind is a kind of worlds: how the model fails there, by a strength that every seed draws.
type doctorKind struct {
	name      string
	low, high float64 // of the strength
	logged    bool    // one pair in a hundred
	uniform   bool    // pairs drawn uniformly, instead of all links and a sample of the others
	violate   func(s *world.Scenario, strength float64)
	family    bool // the doctor's family has a member that is right about everything
}

// doctorKinds are all of them.
var doctorKinds = []doctorKind{
	{name: "obeying", family: true, violate: func(*world.Scenario, float64) {}},
	{name: "text", low: .15, high: .9, family: true,
		violate: func(s *world.Scenario, x float64) { s.Violations.Text = x }},
	{name: "popularity", low: .3, high: 1.5, family: true,
		violate: func(s *world.Scenario, x float64) { s.Violations.Popularity = x }},
	{name: "quality", low: .3, high: 1.5, family: true,
		violate: func(s *world.Scenario, x float64) { s.Violations.Quality = x }},
	{name: "ceiling", low: .3, high: .95, violate: func(s *world.Scenario, x float64) { s.Ceiling = x }},
	{name: "dependent", low: .1, high: .8, family: true,
		violate: func(s *world.Scenario, x float64) { s.Violations.Dependence = x }},
	{name: "probit", family: true,
		violate: func(s *world.Scenario, _ float64) { s.Violations.Response = world.Probit }},
	{name: "cauchit", family: true,
		violate: func(s *world.Scenario, _ float64) { s.Violations.Response = world.Cauchit }},
	{name: "rare", low: .01, high: .03, family: true, violate: func(s *world.Scenario, x float64) {
		s.BaseRate, s.OracleAUC = x, .9
	}},
	{name: "uniform sample", family: true, uniform: true, violate: func(*world.Scenario, float64) {}},
	{name: "text, 1% logged", low: .15, high: .9, logged: true, family: true,
		violate: func(s *world.Scenario, x float64) { s.Violations.Text = x }},
}

// DoctorRow is what the doctor said of one world, beside the truth.
type DoctorRow struct {
	Kind     string    `json:"kind"`
	Seed     uint64    `json:"seed"`
	Dim      int       `json:"dim"`
	Same     float64   `json:"same"` // π of pairs of one field, about which it is drawn
	Strength float64   `json:"strength"`
	Links    int       `json:"links"`
	Class    fit.Class `json:"class"`
	Refuted  []string  `json:"refuted"`
	Width    float64   `json:"width"` // of the set of mean π̂

	Exposure doctorMark `json:"propensity"`
	Link     doctorMark `json:"meanLink"`
	Ratio    doctorMark `json:"ratio"`
	Risk     doctorMark `json:"risk"`

	AUC          float64 `json:"auc"`          // for relevance, of what lists are ordered by
	PublishedAUC float64 `json:"publishedAUC"` // of ŷ
	NaiveAUC     float64 `json:"naiveAUC"`     // of a naive model's
	Members      int     `json:"members"`      // assumptions that lists are ordered by
	Agreed       float64 `json:"agreed"`       // of the first 10 of a list, how many all of them have in theirs
	NaiveShared  float64 `json:"naiveShared"`  // and how many a naive recommender has
}

// doctorMark is a number that the doctor reported and the set that it gave, beside the truth.
type doctorMark struct {
	Truth    float64      `json:"truth"`
	Reported float64      `json:"reported"`
	Set      fit.SetRange `json:"set"`
	Holds    bool         `json:"holds"` // the truth is in the set, or on the side that is claimed
}

// atMost reports whether the truth is in the set, or below its high end if only that is claimed.
func (m *doctorMark) atMost(only bool) bool {
	return m.Truth <= m.Set.High && (only || m.Truth >= m.Set.Low)
}

// atLeast reports whether the truth is in the set, or above its low end if only that is claimed.
func (m *doctorMark) atLeast(only bool) bool {
	return m.Truth >= m.Set.Low && (only || m.Truth <= m.Set.High)
}

// wrong reports whether a number was called identified and is not what it was said to be.
func (r *DoctorRow) wrong() bool {
	return r.Class == fit.Identified && !(r.Exposure.Holds && r.Link.Holds && r.Ratio.Holds && r.Risk.Holds)
}

func runDoctor(ctx context.Context, l *lab) (*Result, error) {
	rows := make([]*DoctorRow, 0, len(doctorKinds)*len(l.Seeds))
	var tasks []task
	for _, kind := range doctorKinds {
		for _, seed := range l.Seeds {
			row := &DoctorRow{Kind: kind.name, Seed: seed}
			rows = append(rows, row)
			tasks = append(tasks, task{name: fmt.Sprintf("%s, seed %d", kind.name, seed), cost: 1,
				do: func(ctx context.Context) error { return row.try(ctx, kind, l.Quick) }, rows: []any{row}})
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	r := &Result{Rows: rows, Setting: []string{
		"Worlds of 3,000 nodes in 8 fields, base rate .16 and oracle AUC .97 but for the rare ones; vectors of " +
			"16 or 256 " +
			"dimensions, π within a field about .05, .3 or .7 and a quarter of that between two, and the " +
			"strength of the " +
			"violation, all drawn by the seed. The doctor sees all links and four other pairs for each.",
		"A set holds if the truth is in it. Without a log or an anchor only one side is claimed: relevance at most, " +
			"exposure at least. Wrong: the doctor said identified, and something that it claimed does not hold.",
	}}
	r.Tables = append(r.Tables, doctorTable(rows), doctorClasses(rows))
	r.Claims = doctorClaims(rows)
	return r, nil
}

// try makes a world, asks the doctor and compares.
func (r *DoctorRow) try(ctx context.Context, kind doctorKind, quick bool) error {
	w, rng, err := r.world(ctx, kind, quick)
	if err != nil {
		return err
	}
	defer w.Graph().Vectors().Close()
	p, err := kind.problem(ctx, w, rng)
	if err != nil {
		return err
	}
	found, err := fit.Fit(ctx, p, fit.Settings{Seed: r.Seed, Threads: 1, Starts: []float64{model.StartPropensity}})
	if err != nil {
		return err
	}
	naive, err := fit.Fit(ctx, sample.Problem{Nodes: p.Nodes, Train: p.Train}, fit.Settings{Method: "naive",
		Optimiser: "lbfgs", Seed: r.Seed, Threads: 1})
	if err != nil {
		return err
	}
	return r.compare(ctx, w, p, found, naive)
}

// world makes the world that the seed draws.
func (r *DoctorRow) world(ctx context.Context, kind doctorKind, quick bool) (*world.World, *rand.Rand, error) {
	hash := fnv.New64a()
	hash.Write([]byte(kind.name)) // so that kinds do not share their draws
	rng := rand.New(rand.NewPCG(r.Seed, hash.Sum64()))
	r.Dim, r.Same = []int{16, 256}[rng.IntN(2)], []float64{.05, .3, .7}[rng.IntN(3)]
	r.Strength = kind.low + (kind.high-kind.low)*rng.Float64()
	nodes := 3000
	if quick {
		nodes, r.Dim = 150, 16
	}
	plan := world.Saturated()
	plan.Same = world.PropensityRange{Low: .7 * r.Same, High: min(1.3*r.Same, .97)}
	plan.Cross = world.PropensityRange{Low: .125 * r.Same, High: .375 * r.Same}
	plan.Seed, plan.Threads = rng.Uint64(), 1
	kind.violate(&plan, r.Strength)
	w, err := world.New(ctx, world.Settings{Nodes: nodes, Dim: r.Dim, Fields: world.EvenFields(8), Scenario: plan})
	return w, rng, err
}

// problem draws what the doctor sees.
func (k doctorKind) problem(ctx context.Context, w *world.World, rng *rand.Rand) (sample.Problem, error) {
	out := sample.Problem{Nodes: model.NodesOf(w.Graph())}
	if k.uniform {
		n := w.Graph().Len()
		pairs, err := w.Pairs(ctx, n*(n-1)/6, world.Draw{Older: true})
		if err == nil {
			out.Train = pairs.Pairs
		}
		return out, err
	}
	linked, err := w.Linked(ctx)
	if err != nil {
		return out, err
	}
	g := linked.Graph()
	if out.Train, _, err = graph.Sample(g, graph.Universe{Before: g.Order()}, graph.SampleOptions{
		Src: rand.NewPCG(rng.Uint64(), 0)}); err != nil || !k.logged {
		return out, err
	}
	seen, err := linked.Reveal(ctx, out.Train, .005*float64(g.Len())*float64(g.Len()-1)/float64(out.Train.Len()))
	if err != nil {
		return out, err
	}
	out.Train = seen.Pairs
	for i := range seen.Truth {
		out.Exposure = append(out.Exposure, seen.Observation(i).Exposure)
	}
	return out, nil
}

// compare holds what the doctor said against the truth.
func (r *DoctorRow) compare(ctx context.Context, w *world.World, p sample.Problem, found, naive *fit.Result) error {
	truth, err := w.Means(ctx, graph.Universe{Before: w.Graph().Order()})
	if err != nil {
		return err
	}
	f := found.Findings
	r.Class, r.Links = f.Class, f.Support.Links
	for _, t := range f.Tests {
		if t.Refuted {
			r.Refuted = append(r.Refuted, string(t.Of))
		}
	}
	set := f.Set
	if set == nil {
		return fmt.Errorf("the doctor compared nothing")
	}
	r.Width = set.Width()
	r.Link = doctorMark{Truth: truth.Link, Reported: f.MeanLink.Value, Set: set.MeanLink}
	r.Exposure = doctorMark{Truth: truth.Propensity, Set: set.Propensity}
	r.Ratio = doctorMark{Truth: truth.Same / truth.Cross}
	if f.Ratio != nil && set.Ratio != nil {
		r.Ratio.Reported, r.Ratio.Set = f.Ratio.Value, *set.Ratio
	}
	for _, m := range set.Members {
		if m.Alternative == set.Reference {
			r.Exposure.Reported, r.Risk.Reported = m.Propensity.Value, m.Risk.Value
		}
	}
	r.Risk.Set = set.Risk
	if l := f.Lists; l != nil {
		if r.Members, r.Agreed = l.Members, l.Agreed; l.Naive != nil {
			r.NaiveShared = *l.Naive
		}
	}
	if err := r.judge(ctx, w, found, naive); err != nil {
		return err
	}
	r.Link.Holds, r.Exposure.Holds = r.Link.atMost(set.OneSided), r.Exposure.atLeast(set.OneSided)
	for _, m := range []*doctorMark{&r.Ratio, &r.Risk} {
		m.Holds = m.Set.Low <= m.Truth && m.Truth <= m.Set.High
	}
	return nil
}

// judge finds the true risk of the reported ŷ over all pairs, and over some of all kinds the AUC for relevance of
// lists, ŷ and naive.
func (r *DoctorRow) judge(ctx context.Context, w *world.World, found, naive *fit.Result) error {
	m, err := found.Model()
	if err != nil {
		return err
	}
	published := engine.Predictor{Link: m.Link, LinkParams: m.LinkParams}
	n := w.Graph().Len()
	all, err := w.Pairs(ctx, n*(n-1)/2, world.Draw{Parts: 1, Older: true})
	if err != nil {
		return err
	}
	z, _, err := engine.Logits(ctx, engine.CPU{Threads: 1}, published, all.Pairs)
	if err != nil {
		return err
	}
	var sum risk.Sum
	for k, z := range z {
		y := all.Truth[k].Link
		sum.Add(y*kern.Softplus64(-float64(z)) + (1-y)*kern.Softplus64(float64(z)))
	}
	r.Risk.Truth = sum.Value() / float64(len(z))

	some, err := w.Pairs(ctx, min(100_000, n*(n-1)/6), world.Draw{Part: 1, Older: true})
	if err != nil {
		return err
	}
	wanted := make([]float64, len(some.Truth))
	for k, t := range some.Truth {
		wanted[k] = t.Link
	}
	ranker := m.Ranker()
	for _, order := range []struct {
		by    engine.Predictor
		slope float32 // of popularity
		auc   *float64
	}{
		{published, 0, &r.PublishedAUC},
		{engine.Predictor{Link: ranker.Link, LinkParams: ranker.Params}, ranker.Slope, &r.AUC},
		{engine.Predictor{Link: naive.Link, LinkParams: naive.LinkParams}, 0, &r.NaiveAUC},
	} {
		z, _, err := engine.Logits(ctx, engine.CPU{Threads: 1}, order.by, some.Pairs)
		if err != nil {
			return err
		}
		if order.slope != 0 {
			for k, target := range some.Pairs.Target {
				z[k] += order.slope * ranker.Popularity[target]
			}
		}
		*order.auc = softAUC(z, wanted)
	}
	return nil
}

// softAUC is the chance that of a relevant and an irrelevant pair, drawn by their probabilities,
// the relevant one has the higher score.
func softAUC(scores []float32, wanted []float64) float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case scores[a] < scores[b]:
			return -1
		case scores[a] > scores[b]:
			return 1
		}
		return a - b
	})
	var below, won, yes, no float64
	for _, i := range order {
		won += wanted[i] * (below + (1-wanted[i])/2)
		below += 1 - wanted[i]
		yes, no = yes+wanted[i], no+1-wanted[i]
	}
	return won / (yes * no)
}

// ofKind returns the rows of a kind.
func ofKind(rows []*DoctorRow, kind string) []*DoctorRow {
	return filter(rows, func(r *DoctorRow) bool { return r.Kind == kind })
}

// count returns how many rows are so.
func countRows(rows []*DoctorRow, is func(*DoctorRow) bool) int { return len(filter(rows, is)) }

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	if len(xs) == 0 {
		return math.NaN()
	}
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// doctorTable has a row per kind: how often what is claimed holds.
func doctorTable(rows []*DoctorRow) figure.Table {
	t := figure.Table{Name: "coverage", Title: "How often what the doctor claims holds", Head: "worlds",
		Columns: []figure.Column{{Name: "π"}, {Name: "y"}, {Name: "ratio"}, {Name: "R_AP"},
			{Name: "identified"}, {Name: "wrong", Means: "identified, and something does not hold", Better: "lower"},
			{Name: "refuted", Means: "some test refutes the model"},
			{Name: "width", Means: "median of how many times the largest mean π̂ of the set is the least", Digits: 2},
			{Name: "π̂ ÷ π", Means: "median, of the reference", Digits: 2},
			{Name: "ŷ ÷ y", Means: "median, as reported", Digits: 2},
			{Name: "AUC", Means: "median gain over naive of what lists are ordered by, in points", Digits: 2,
				Better: "higher"},
			{Name: "agreed", Means: "median of how many of a list's first 10 all assumptions have in theirs",
				Digits: 1},
			{Name: "as naive", Means: "median of how many of them a naive recommender has in its own", Digits: 1}}}
	for _, kind := range doctorKinds {
		of := ofKind(rows, kind.name)
		ratio := func(is func(*DoctorRow) bool) figure.Cell { return figure.Ratio(countRows(of, is), len(of)) }
		mid := func(get func(*DoctorRow) float64) figure.Cell {
			var xs []float64
			for _, r := range of {
				xs = append(xs, get(r))
			}
			return figure.Number(median(xs))
		}
		t.Add(kind.name, ratio(func(r *DoctorRow) bool { return r.Exposure.Holds }),
			ratio(func(r *DoctorRow) bool { return r.Link.Holds }),
			ratio(func(r *DoctorRow) bool { return r.Ratio.Holds }),
			ratio(func(r *DoctorRow) bool { return r.Risk.Holds }),
			ratio(func(r *DoctorRow) bool { return r.Class == fit.Identified }), ratio((*DoctorRow).wrong),
			ratio(func(r *DoctorRow) bool { return len(r.Refuted) > 0 }),
			mid(func(r *DoctorRow) float64 { return r.Width }),
			mid(func(r *DoctorRow) float64 { return r.Exposure.Reported / r.Exposure.Truth }),
			mid(func(r *DoctorRow) float64 { return r.Link.Reported / r.Link.Truth }),
			mid(func(r *DoctorRow) float64 { return 100 * (r.AUC - r.NaiveAUC) }),
			mid(func(r *DoctorRow) float64 { return r.Agreed }),
			mid(func(r *DoctorRow) float64 { return r.NaiveShared }))
	}
	return t
}

// doctorClasses has how worlds of each exposure were classed.
func doctorClasses(rows []*DoctorRow) figure.Table {
	t := figure.Table{Name: "classes", Title: "Obeying worlds, by how much is shown and by dimensions",
		Head: "worlds", Columns: []figure.Column{{Name: "identified"}, {Name: "width", Means: "median", Digits: 2},
			{Name: "links", Means: "median", Digits: 0}}}
	for _, dim := range []int{16, 256} {
		for _, same := range []float64{.05, .3, .7} {
			of := filter(ofKind(rows, "obeying"), func(r *DoctorRow) bool { return r.Dim == dim && r.Same == same })
			if len(of) == 0 {
				continue
			}
			var widths, links []float64
			for _, r := range of {
				widths, links = append(widths, r.Width), append(links, float64(r.Links))
			}
			t.Add(fmt.Sprintf("%d dimensions, π about %g within a field", dim, same),
				figure.Ratio(countRows(of, func(r *DoctorRow) bool { return r.Class == fit.Identified }), len(of)),
				figure.Number(median(widths)), figure.Number(median(links)))
		}
	}
	return t
}

// metIf is the verdict on a goal that was stated before.
func metIf(yes bool) Verdict {
	if yes {
		return Met
	}
	return Missed
}

// doctorClaims are the goals, which were stated before the run.
func doctorClaims(rows []*DoctorRow) []Claim {
	type bad struct {
		kind  string
		share float64
	}
	worst := func(kinds func(doctorKind) bool, is func(*DoctorRow) bool) (bad, string) {
		found := bad{share: -1}
		var all []string
		for _, k := range doctorKinds {
			of := ofKind(rows, k.name)
			if !kinds(k) || len(of) == 0 {
				continue
			}
			count := countRows(of, is)
			all = append(all, fmt.Sprintf("%s %d of %d", k.name, count, len(of)))
			if share := float64(count) / float64(len(of)); share > found.share {
				found = bad{k.name, share}
			}
		}
		return found, strings.Join(all, ", ") + "."
	}
	every := func(doctorKind) bool { return true }
	fails := func(r *DoctorRow) bool {
		return !(r.Exposure.Holds && r.Link.Holds && r.Ratio.Holds)
	}
	missing, perKind := worst(func(k doctorKind) bool { return k.family }, fails)
	wrong, perKindWrong := worst(every, (*DoctorRow).wrong)
	var holds, all int
	for _, r := range rows {
		for _, m := range []doctorMark{r.Exposure, r.Link, r.Ratio} {
			if all++; m.Holds {
				holds++
			}
		}
	}
	obeying := filter(ofKind(rows, "obeying"), func(r *DoctorRow) bool { return r.Same >= .3 })
	identified := countRows(obeying, func(r *DoctorRow) bool { return r.Class == fit.Identified })
	alarms := countRows(ofKind(rows, "obeying"), func(r *DoctorRow) bool { return len(r.Refuted) > 0 })
	claims := []Claim{
		{"What the doctor claims of π, y and the ratio holds in 91% of the worlds of every kind that its family " +
			"contains",
			metIf(missing.share <= .09), "Worlds in which it does not hold: " + perKind},
		{"Over all kinds, 95% of these claims hold", metIf(float64(holds) >= .95*float64(all)),
			fmt.Sprintf("%d of %d hold.", holds, all)},
		{"At most 5% of the worlds of any kind are called identified beside a claim that does not hold",
			metIf(wrong.share <= .05), "So it is in: " + perKindWrong},
		{"Of obeying worlds with π of .3 or more within a field, 90% are identified",
			metIf(float64(identified) >= .9*float64(len(obeying))), fmt.Sprintf("%d of %d are.", identified,
				len(obeying))},
		{"At most 9% of obeying worlds raise any alarm",
			metIf(float64(alarms) <= .09*float64(len(ofKind(rows, "obeying")))),
			fmt.Sprintf("%d of %d do.", alarms, len(ofKind(rows, "obeying")))},
	}
	risky, perKindRisk := worst(func(k doctorKind) bool { return k.family },
		func(r *DoctorRow) bool { return !r.Risk.Holds })
	claims = append(claims, Claim{"What it claims of R_AP holds in 91% of the worlds of every kind that its family " +
		"contains", metIf(risky.share <= .09), "Worlds in which it does not hold: " + perKindRisk})
	below, perKindBelow := worst(every, func(r *DoctorRow) bool { return r.AUC < r.NaiveAUC-.005 })
	claims = append(claims, Claim{"In at most 5% of the worlds of any kind the AUC for relevance of what lists are " +
		"ordered by is below a naive model's by more than .005", metIf(below.share <= .05),
		"It is in: " + perKindBelow}, aucClaim(rows), agreedClaim(rows))
	for _, goal := range []struct {
		kind string
		most float64
	}{{"text", 6}, {"popularity", 5}, {"text, 1% logged", 1.5}} {
		var widths []float64
		for _, r := range ofKind(rows, goal.kind) {
			widths = append(widths, r.Width)
		}
		claims = append(claims, Claim{fmt.Sprintf("The set of π in worlds of the kind %s is at most %g-fold, in "+
			"the median",
			goal.kind, goal.most), metIf(median(widths) <= goal.most), fmt.Sprintf("It is %.2f-fold.", median(widths))})
	}
	return claims
}

// listGain is the mean of what the AUC of lists is above naive's, and its 95% interval over worlds.
func listGain(rows []*DoctorRow) (mean, lower, upper float64) {
	var square float64
	n := float64(len(rows))
	for _, r := range rows {
		mean += (r.AUC - r.NaiveAUC) / n
	}
	for _, r := range rows {
		square += math.Pow(r.AUC-r.NaiveAUC-mean, 2)
	}
	spread := 1.96 * math.Sqrt(square/math.Max(n-1, 1)/n)
	return mean, mean - spread, mean + spread
}

// aucClaim is about the mean AUC of every kind.
func aucClaim(rows []*DoctorRow) Claim {
	met := true
	var all []string
	for _, k := range doctorKinds {
		if of := ofKind(rows, k.name); len(of) > 0 {
			mean, lower, upper := listGain(of)
			met = met && lower > -.005
			all = append(all, fmt.Sprintf("%s %+.4f (%+.4f to %+.4f)", k.name, mean, lower, upper))
		}
	}
	return Claim{"In no kind the mean AUC for relevance of what lists are ordered by is below a naive model's by " +
		"more than .005, with 95% confidence", metIf(met), "It is above by: " + strings.Join(all, ", ") + "."}
}

// agreedFrom is from how many of a list's first 10, on average, the assumptions are said to agree in a world.
const agreedFrom = 8

// agreedClaim is about the worlds in which the assumptions agree.
func agreedClaim(rows []*DoctorRow) Claim {
	agree := filter(rows, func(r *DoctorRow) bool { return r.Agreed >= agreedFrom })
	out := Claim{fmt.Sprintf("Where all assumptions agree on %d or more of a list's first 10, the mean AUC for "+
		"relevance is above a naive model's, with 95%% confidence", agreedFrom), Missed, "There is no such world."}
	if len(agree) > 0 {
		mean, lower, upper := listGain(agree)
		out.Verdict = metIf(lower > 0)
		out.Evidence = fmt.Sprintf("It is by %.4f (%.4f to %.4f), over %d of %d worlds.", mean, lower, upper,
			len(agree), len(rows))
	}
	return out
}
