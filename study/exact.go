package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/engine"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

var exact = Study{
	Name:  "exact",
	Title: "Exact: what sampling unlinked pairs costs, against all pairs",
	run:   runExact,
}

// What is tried: unlinked pairs per link, and candidates that a link is ranked among.
var (
	exactPerLink    = []int{1, 2, 5, 10, 20, 50, 100}
	exactCandidates = []int{10, 100, 1000, 10_000, 100_000}
)

const (
	exactLinks   = 5          // per node, about
	exactTested  = 400        // links that are ranked
	exactTop     = 10         // places of a list
	mostSampled  = 20_000_000 // pairs of a sample
	exactPerNode = 10         // unlinked pairs per link, of which claims speak
)

// ExactRow compares a sample of a world's pairs with all of them.
type ExactRow struct {
	Seed    uint64 `json:"seed"`
	PerLink int    `json:"perLink"` // unlinked pairs
	Pairs   int64  `json:"pairs"`   // all of them
	Links   int    `json:"links"`
	// Errors of risks by the sample with inclusion weights, of the exact ones
	Naive float64 `json:"naive"`
	W     float64 `json:"w"`
	AP    float64 `json:"ap"`
	// What learning from the sample comes to over all pairs: beyond the least −log likelihood, by link, and the
	// mean ŷ as a multiple of that of learning from all
	Excess     float64 `json:"excess"`
	MeanLink   float64 `json:"meanLink"`
	Exposure   float64 `json:"exposure"`   // the same of π̂ of pairs of one field
	Population float64 `json:"population"` // and both where the sample is taken for the population
	Inflation  float64 `json:"inflation"`
}

// RankRow compares ranks among sampled candidates with ranks among all.
type RankRow struct {
	Seed       uint64  `json:"seed"`
	Candidates int     `json:"candidates"`
	Learned    float64 `json:"learned"` // recall at 10, by the model that was learned from all pairs
	Cosine     float64 `json:"cosine"`  // and by likeness alone
}

// exactFound is what one seed found.
type exactFound struct {
	Samples []*ExactRow `json:"samples"`
	Ranks   []*RankRow  `json:"ranks"`

	steps int // over all pairs
}

func runExact(ctx context.Context, l *lab) (*Result, error) {
	nodes, dim := 2000, 32
	if l.Quick {
		nodes, dim = 300, 8
	}
	if l.Nodes > 0 {
		nodes = l.Nodes
	}
	if l.Dim > 0 {
		dim = l.Dim
	}
	found := make([]*exactFound, len(l.Seeds))
	var tasks []task
	for k, seed := range l.Seeds {
		tasks = append(tasks, task{name: fmt.Sprint("seed ", seed), cost: 1, do: func(ctx context.Context) (err error) {
			found[k], err = l.exactSeed(ctx, seed, nodes, dim)
			return err
		}})
	}
	if l.Engine == nil {
		if err := l.each(ctx, tasks); err != nil {
			return nil, err
		}
	} else { // a card takes them one by one
		for _, one := range tasks {
			if err := l.each(ctx, []task{one}); err != nil {
				return nil, err
			}
		}
	}
	r := &Result{Rows: found, Setting: []string{
		fmt.Sprintf("Worlds of %s nodes with %d numbers each, 6 fields, about %d links per node, and exposure by "+
			"field pairs; all %s ordered pairs are summed and learned from (mle, a ridge of 4).", amount.Text(nodes),
			dim, exactLinks, amount.Text(nodes*(nodes-1))),
		"Risks are those of the model that was learned from all pairs. Learning from a sample is by the case-control " +
			"likelihood, or with the sample taken for the population.",
		fmt.Sprintf("Ranked are up to %d links of a second draw of the world, among all nodes or among some at "+
			"random.", exactTested)}}
	r.Tables, r.Figures = exactTables(found)
	r.Claims = exactClaims(found)
	return r, nil
}

// exactWorld is a world, and two draws of its links.
type exactWorld struct {
	*world.World
	graph *graph.Graph // with the first draw
	tests []graph.Link // of the second
}

// newExactWorld makes a world whose exposure is so rare that nodes have a few links each.
func newExactWorld(ctx context.Context, seed uint64, nodes, dim, threads int) (*exactWorld, error) {
	plan := world.Saturated()
	plan.Seed, plan.Threads = seed, threads
	w, err := world.New(ctx, world.Settings{Nodes: nodes, Dim: dim, Fields: world.EvenFields(6), Scenario: plan})
	if err != nil {
		return nil, err
	}
	out := &exactWorld{World: w}
	if thin := exactLinks / (w.Profile().LinkRate * float64(nodes-1)); thin < 1 {
		if out.World, err = w.Thinned(thin); err != nil {
			return nil, err
		}
	}
	links := out.draw(seed, threads)
	var b graph.Builder
	for i := range int32(nodes) {
		field := w.Graph().FieldName(w.Graph().Field(i))
		if _, err := b.AddNode(graph.Node{ID: w.Graph().ID(i), Field: field}); err != nil {
			return nil, err
		}
	}
	for _, link := range links {
		if err := b.AddLinkIndex(link.Source, link.Target); err != nil {
			return nil, err
		}
	}
	if out.graph, _, err = b.Build(); err != nil {
		return nil, err
	}
	if out.graph, err = out.graph.WithVectors(w.Graph().Vectors()); err != nil {
		return nil, err
	}
	second := out.draw(seed+1<<32, threads)
	rng := rand.New(rand.NewPCG(seed, 0xe7ac))
	for range 20 * exactTested {
		if link := second[rng.IntN(len(second))]; len(out.tests) < exactTested && !out.graph.HasLink(link.Source,
			link.Target) {
			out.tests = append(out.tests, link)
		}
	}
	return out, nil
}

// draw draws the links of all pairs: who was shown what by skipping over those that were not, and of these who links.
func (w *exactWorld) draw(seed uint64, threads int) []graph.Link {
	g := w.World.Graph()
	members := make([][]int32, g.FieldCount())
	for i := range int32(g.Len()) {
		members[g.Field(i)] = append(members[g.Field(i)], i)
	}
	const part = 64
	found := make([][]graph.Link, (g.Len()+part-1)/part)
	kern.Chunks(g.Len(), part, threads, func(_, number, from, to int) {
		for i := int32(from); i < int32(to); i++ {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for f, own := range members {
				if len(own) == 0 {
					continue
				}
				none := math.Log1p(-w.Propensity(g.Field(i), uint16(f)))
				for at := 0; ; at++ {
					skip := math.Log(1-rng.Float64()) / none
					if !(skip < float64(len(own)-at)) {
						break
					}
					at += int(skip)
					if j := own[at]; j != i && rng.Float64() < w.Truth(i, j).Link {
						found[number] = append(found[number], graph.Link{Source: i, Target: j})
					}
				}
			}
		}
	})
	return slices.Concat(found...)
}

// exactSeed does it all for one seed.
func (l *lab) exactSeed(ctx context.Context, seed uint64, nodes, dim int) (*exactFound, error) {
	threads := 1
	if l.Engine != nil {
		threads = l.Threads
	}
	w, err := newExactWorld(ctx, seed, nodes, dim, threads)
	if err != nil {
		return nil, err
	}
	defer w.graph.Vectors().Close()
	e := engine.OrCPU(l.Engine, threads)
	settings := fit.Settings{Method: "mle", Optimiser: "lbfgs", Ridge: 4, Starts: []float64{model.StartPropensity},
		Seed: seed, Threads: threads, Engine: e}
	learn := func(pairs *graph.Pairs, s fit.Settings) (*fit.Result, engine.Means, error) {
		r, err := fit.Fit(ctx, sample.Problem{Nodes: model.NodesOf(w.graph), Train: pairs, Graph: w.graph}, s)
		if err != nil {
			return nil, engine.Means{}, err
		}
		means, err := e.AllPairs(ctx, w.graph, predictorOf(r), graph.Universe{}, 0)
		return r, means, err
	}
	var best *fit.Result
	var all engine.Means
	out := &exactFound{}
	for _, perLink := range exactPerLink {
		// By the links that are expected, so that all seeds have the same samples.
		if perLink > exactPerLink[0] && exactLinks*nodes*(1+perLink) > min(mostSampled, nodes*(nodes-1)/2) {
			break
		}
		pairs, _, err := graph.Sample(w.graph, graph.Universe{}, graph.SampleOptions{PerLink: perLink,
			Src: rand.NewPCG(seed, uint64(perLink))})
		if err != nil {
			return nil, err
		}
		if best == nil {
			every := settings
			every.Exact = true
			if best, all, err = learn(pairs, every); err != nil {
				return nil, err
			}
		}
		row := &ExactRow{Seed: seed, PerLink: perLink, Pairs: all.Pairs, Links: w.graph.LinkCount()}
		out.Samples = append(out.Samples, row)
		if err := row.estimate(predictorOf(best), pairs, all, threads); err != nil {
			return nil, err
		}
		controlled, means, err := learn(pairs, settings)
		if err != nil {
			return nil, err
		}
		unweighted := settings
		unweighted.Sampling = engine.Unweighted.String()
		taken, inflated, err := learn(pairs, unweighted)
		if err != nil {
			return nil, err
		}
		if out.steps == 0 {
			out.steps = best.Iterations - controlled.Iterations
		}
		row.Excess = (means.Likelihood - all.Likelihood) * float64(all.Pairs) / float64(row.Links)
		row.MeanLink, row.Population = means.MeanLink/all.MeanLink, inflated.MeanLink/all.MeanLink
		row.Exposure, row.Inflation = controlled.Starts[0].MeanSame/best.Starts[0].MeanSame,
			taken.Starts[0].MeanSame/best.Starts[0].MeanSame
	}
	out.Ranks, err = w.rank(ctx, seed, best)
	return out, err
}

func predictorOf(r *fit.Result) engine.Predictor {
	return engine.Predictor{Link: r.Link, LinkParams: r.LinkParams, Propensity: r.Propensity,
		PropensityParams: r.PropensityParams}
}

// estimate fills in the errors of risks by a sample.
func (r *ExactRow) estimate(p engine.Predictor, pairs *graph.Pairs, all engine.Means, threads int) error {
	const together = 1 << 14
	parts := make([]engine.Sums, (pairs.Len()+together-1)/together)
	masses, failures := make([]float64, len(parts)), make([]error, len(parts))
	kern.Chunks(pairs.Len(), together, threads, func(_, number, from, to int) {
		parts[number], masses[number], failures[number] = p.SumSeen(model.Batch{Sources: pairs.Source[from:to],
			Targets: pairs.Target[from:to]}, pairs.Linked[from:to], pairs.Weight[from:to])
	})
	var sums engine.Sums
	var mass float64
	for k, part := range parts {
		sums.Add(part)
		mass += masses[k]
	}
	r.Naive, r.W, r.AP = math.Abs(sums.Naive/mass/all.Naive-1), math.Abs(sums.W/mass/all.W-1),
		math.Abs(sums.AP/mass/all.AP-1)
	return errors.Join(failures...)
}

// rank ranks links that were not learned from.
func (w *exactWorld) rank(ctx context.Context, seed uint64, r *fit.Result) ([]*RankRow, error) {
	n := model.NodesOf(w.graph)
	cosine, err := model.NewLink("cosine", n, model.LinkOptions{})
	if err != nil {
		return nil, err
	}
	flat := make([]float32, cosine.Size())
	cosine.Start(flat, rand.NewPCG(seed, 0))
	sizes := slices.DeleteFunc(slices.Clone(exactCandidates), func(size int) bool { return 2*size > n.Len() })
	sizes = append(sizes, n.Len())
	rows := make([]*RankRow, len(sizes))
	for k, size := range sizes {
		rows[k] = &RankRow{Seed: seed, Candidates: size}
	}
	b := model.Batch{Sources: make([]int32, n.Len()), Targets: make([]int32, n.Len())}
	for j := range b.Targets {
		b.Targets[j] = int32(j)
	}
	z := make([]float32, n.Len())
	rng := rand.New(rand.NewPCG(seed, 0x4a2e))
	for _, link := range w.tests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for k := range b.Sources {
			b.Sources[k] = link.Source
		}
		for which, m := range []struct {
			model.LinkModel
			params []float32
		}{{r.Link, r.LinkParams}, {cosine, flat}} {
			m.Logits(z, m.params, b)
			z[link.Source] = float32(math.Inf(-1))
			for _, j := range w.graph.Out(link.Source) {
				z[j] = float32(math.Inf(-1))
			}
			for k, size := range sizes {
				if within(z, link.Target, size, rng) {
					*[]*float64{&rows[k].Learned, &rows[k].Cosine}[which] += 1 / float64(len(w.tests))
				}
			}
		}
	}
	return rows, nil
}

// within reports whether a target is among the first places, of all nodes or of as many as are drawn.
func within(z []float32, target int32, size int, rng *rand.Rand) bool {
	above := 0
	for k := 0; k < size && above < exactTop; k++ {
		j := k
		if size < len(z) {
			j = rng.IntN(len(z))
		}
		if z[j] > z[target] {
			above++
		}
	}
	return above < exactTop
}

// exactTables are the means over seeds.
func exactTables(found []*exactFound) ([]figure.Table, []figure.Figure) {
	samples := figure.Table{Name: "samples", Title: "A sample against all pairs", Head: "unlinked pairs per link",
		Columns: []figure.Column{
			{Name: "naive, %", Means: "error of the naive risk by the sample, with weights", Digits: 2,
				Better: "lower"},
			{Name: "R_w, %", Digits: 2, Better: "lower"}, {Name: "R_AP, %", Digits: 2, Better: "lower"},
			{Name: "excess", Means: "−log likelihood over all pairs beyond the least, per link", Digits: 4,
				Better: "lower"},
			{Name: "ŷ", Means: "the mean, learned from the sample, in multiples of that from all pairs", Digits: 3},
			{Name: "π̂", Means: "the same of π̂ of pairs of one field", Digits: 3},
			{Name: "ŷ, even", Means: "with the sample taken for the population", Digits: 1},
			{Name: "π̂, even", Means: "with the sample taken for the population", Digits: 1}}}
	misses := &figure.LineChart{XTitle: "unlinked pairs per link", YTitle: "error of the sample, %", LogX: true,
		LogY: true, Series: []figure.Series{{Name: "naive"}, {Name: "R_w"}, {Name: "R_AP"}}}
	scales := &figure.LineChart{XTitle: "unlinked pairs per link", YTitle: "multiple of what all pairs say", LogX: true,
		LogY: true, Series: []figure.Series{{Name: "ŷ, case-control"}, {Name: "π̂, case-control"},
			{Name: "ŷ, sample as population"}, {Name: "π̂, sample as population"}, {Name: "all pairs",
				Reference: true}}}
	for k, first := range found[0].Samples {
		of := func(get func(*ExactRow) float64) (mean float64) {
			for _, f := range found {
				mean += get(f.Samples[k]) / float64(len(found))
			}
			return mean
		}
		values := []float64{100 * of(func(r *ExactRow) float64 { return r.Naive }),
			100 * of(func(r *ExactRow) float64 { return r.W }), 100 * of(func(r *ExactRow) float64 { return r.AP }),
			of(func(r *ExactRow) float64 { return r.Excess }), of(func(r *ExactRow) float64 { return r.MeanLink }),
			of(func(r *ExactRow) float64 { return r.Exposure }), of(func(r *ExactRow) float64 { return r.Population }),
			of(func(r *ExactRow) float64 { return r.Inflation })}
		cells := make([]figure.Cell, len(values))
		for c, x := range values {
			cells[c] = figure.Number(x)
		}
		samples.Add(fmt.Sprint(first.PerLink), cells...)
		for c := range misses.Series {
			addPoint(&misses.Series[c], float64(first.PerLink), values[c])
		}
		for c, x := range []float64{values[4], values[5], values[6], values[7], 1} {
			addPoint(&scales.Series[c], float64(first.PerLink), x)
		}
	}
	ranks := figure.Table{Name: "ranks", Title: "Ranks among some candidates against ranks among all",
		Head: "candidates", Columns: []figure.Column{
			{Name: "learned, %", Means: "recall at 10, learned from all pairs", Digits: 1},
			{Name: "cosine, %", Means: "recall at 10, by likeness alone", Digits: 1}}}
	recall := &figure.LineChart{XTitle: "candidates", YTitle: "recall at 10, %", LogX: true,
		Series: []figure.Series{{Name: "learned from all pairs"}, {Name: "cosine"}}}
	for k, first := range found[0].Ranks {
		var learned, cosine float64
		for _, f := range found {
			learned += 100 * f.Ranks[k].Learned / float64(len(found))
			cosine += 100 * f.Ranks[k].Cosine / float64(len(found))
		}
		ranks.Add(amount.Text(first.Candidates), figure.Number(learned), figure.Number(cosine))
		addPoint(&recall.Series[0], float64(first.Candidates), learned)
		addPoint(&recall.Series[1], float64(first.Candidates), cosine)
	}
	return []figure.Table{samples, ranks}, []figure.Figure{
		{Name: "risk-errors", Title: "What a sample misses of a risk", Lines: misses,
			Caption: "With inclusion weights a sample has the risk right in the mean."},
		{Name: "scale", Title: "What a sample makes of ŷ and π̂", Lines: scales,
			Caption: "A sample that is taken for the population inflates both; the case-control likelihood does not."},
		{Name: "recall", Title: "What few candidates make of recall", Lines: recall,
			Caption: "The fewer candidates, the easier the task, and the less it says of lists of all."}}
}

// exactClaims judge thresholds. That of π̂ was stated after a first seed was seen, the others before.
func exactClaims(found []*exactFound) []Claim {
	var ap, scale, least, ratio float64
	least, ratio = math.Inf(1), math.Inf(1)
	at := found[0].Samples[0].PerLink
	for _, f := range found {
		row := f.Samples[0]
		for _, r := range f.Samples {
			if r.PerLink <= exactPerNode {
				row = r
			}
		}
		at = row.PerLink
		ap, scale, least = max(ap, row.AP), max(scale, math.Abs(row.MeanLink-1)), min(least, row.Inflation)
		last := f.Ranks[len(f.Ranks)-1].Learned
		for _, r := range f.Ranks {
			if r.Candidates == 100 && last > 0 {
				ratio = min(ratio, r.Learned/last)
			}
		}
	}
	return []Claim{
		{fmt.Sprintf("R_AP by %d weighted unlinked pairs per link is within 5%% of that of all pairs", at),
			metIf(ap <= .05), fmt.Sprintf("It is up to %.2g%% off.", 100*ap)},
		{fmt.Sprintf("Mean ŷ learned from %d unlinked pairs per link is within 10%% of that from all pairs", at),
			metIf(scale <= .1), fmt.Sprintf("It is up to %.2g%% off.", 100*scale)},
		{"A sample that is taken for the population makes π̂ at least ten times as large", metIf(least >= 10),
			fmt.Sprintf("It is at least %.3g times as large.", least)},
		{"Recall at 10 among 100 candidates is at least twice that among all", metIf(ratio >= 2),
			fmt.Sprintf("It is at least %.3g times that.", ratio)},
	}
}

func addPoint(s *figure.Series, x, y float64) { s.X, s.Y = append(s.X, x), append(s.Y, y) }
