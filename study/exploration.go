package study

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/engine"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
	"unseen/world"
)

var exploration = Study{
	Name:  "exploration",
	Title: "Exploration: how well a log judges where places are drawn evenly, and where that teaches most",
	run:   runExploration,
}

// What is compared: lists of evenK with a share of evenShare drawn in proportion to ŷ, and those of the product.
const (
	evenK     = 10
	evenShare = .1
	spared    = .3 // goal: of the variance
)

// ExplorationRow is what exploration costs and teaches in one world.
type ExplorationRow struct {
	Seed     uint64  `json:"seed"`
	BaseRate float64 `json:"baseRate"`
	Learned  bool    `json:"learned"` // ŷ is fitted; otherwise it is y
	Cost     float64 `json:"cost"`    // relevance that lists lose by exploring evenly, of all that they have
	Costs    float64 `json:"costs"`   // and where it teaches most, of that
	Even     float64 `json:"even"`    // variance of R_DR
	Teaching float64 `json:"teaching"`
}

func runExploration(ctx context.Context, l *lab) (*Result, error) {
	nodes := 1500
	if l.Quick {
		nodes = 150
	}
	var rows []*ExplorationRow
	var tasks []task
	for _, seed := range l.Seeds {
		for _, rate := range []float64{.16, .02} {
			for _, learned := range []bool{false, true} {
				row := &ExplorationRow{Seed: seed, BaseRate: rate, Learned: learned}
				rows = append(rows, row)
				tasks = append(tasks, task{name: fmt.Sprintf("base rate %g, seed %d", rate, seed), cost: 1,
					do: func(ctx context.Context) error { return row.try(ctx, nodes) }})
			}
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	t := figure.Table{Name: "exploration", Title: "Variance of R_DR at the same cost in relevance", Head: "worlds",
		Columns: []figure.Column{
			{Name: "variance", Means: "median, of lists that explore where it teaches, over that of lists that " +
				"explore in proportion to ŷ", Digits: 3, Better: "lower"},
			{Name: "largest", Means: "of the worlds", Digits: 3, Better: "lower"},
			{Name: "cost", Means: "median relevance that lists lose, in percent", Digits: 2, Better: "lower"},
			{Name: "of even", Means: "median cost over that of lists that explore in proportion to ŷ", Digits: 3}}}
	var ratios []float64
	dearest := 0.
	for _, rate := range []float64{.16, .02} {
		for _, learned := range []bool{false, true} {
			var of, costs, dearer []float64
			for _, r := range rows {
				if r.BaseRate == rate && r.Learned == learned {
					of, costs = append(of, r.Teaching/r.Even), append(costs, 100*r.Cost*r.Costs)
					dearer = append(dearer, r.Costs)
				}
			}
			ratios = append(ratios, of...)
			name := fmt.Sprintf("base rate %g, ŷ is right", rate)
			if learned {
				name = fmt.Sprintf("base rate %g, ŷ is learned", rate)
			}
			t.Add(name, figure.Number(median(of)), figure.Number(slices.Max(of)), figure.Number(median(costs)),
				figure.Number(median(dearer)))
			dearest = max(dearest, median(dearer))
		}
	}
	worst := slices.Max(ratios)
	setting := fmt.Sprintf("Lists of %d for 60 sources of worlds of %d nodes, with outcomes by the true relevance. "+
		"R_DR is the risk by the log with known probabilities. A tenth is explored: in proportion to ŷ, "+
		"and where it teaches most, as much as loses the same relevance by ŷ.", evenK, nodes)
	evidence := fmt.Sprintf("The variance is %.2f of what it was, in the median world, and %.2f in the worst; the "+
		"cost is at most %.2f of what it was.", median(ratios), worst, dearest)
	claim := Claim{fmt.Sprintf("exploring where it teaches most has %.0f%% less variance of R_DR at the same cost",
		100*spared), metIf(worst <= 1-spared && dearest <= 1.05), evidence}
	return &Result{Rows: rows, Tables: []figure.Table{t}, Setting: []string{setting}, Claims: []Claim{claim}}, nil
}

// try makes a world and a model, and judges that by lists of either kind.
func (r *ExplorationRow) try(ctx context.Context, nodes int) error {
	plan := world.Saturated()
	plan.BaseRate, plan.OracleAUC, plan.Seed, plan.Threads = r.BaseRate, .95, r.Seed, 1
	w, err := world.New(ctx, world.Settings{Nodes: nodes, Dim: 16, Fields: world.EvenFields(4), Scenario: plan})
	if err != nil {
		return err
	}
	defer w.Graph().Vectors().Close()
	by, err := r.predictor(ctx, w)
	if err != nil {
		return err
	}
	const sources = 60
	logits, truth := make([][]float32, sources), make([][]float64, sources)
	for n := range sources {
		i := int32(n * nodes / sources)
		var targets []int32
		for j := range int32(nodes) {
			if j != i {
				targets, truth[n] = append(targets, j), append(truth[n], w.Truth(i, j).Link)
			}
		}
		if logits[n], _, err = engine.SourceLogits(ctx, engine.CPU{Threads: 1}, by, i, targets); err != nil {
			return err
		}
	}
	var best, evenLoss, teachingLoss float64
	for n := range sources {
		even := evenly(logits[n], evenK, evenShare)
		teaching, top := recommend.ExploredShares(logits[n], evenK, evenShare), evenly(logits[n], evenK, 0)
		for j, y := range truth[n] {
			best += y * top[j]
			evenLoss += y * (top[j] - even[j])
			teachingLoss += y * (top[j] - teaching[j])
		}
		r.Even += riskVariance(logits[n], truth[n], even) / sources
		r.Teaching += riskVariance(logits[n], truth[n], teaching) / sources
	}
	r.Cost, r.Costs = evenLoss/best, teachingLoss/evenLoss
	return ctx.Err()
}

// predictor returns the true relevance, or a model fitted to links.
func (r *ExplorationRow) predictor(ctx context.Context, w *world.World) (engine.Predictor, error) {
	nodes := model.NodesOf(w.Graph())
	if !r.Learned {
		link, err := model.NewLink("diagonal", nodes, model.LinkOptions{})
		return engine.Predictor{Link: link, LinkParams: append(w.Weights(), float32(w.Bias()))}, err
	}
	linked, err := w.Linked(ctx)
	if err != nil {
		return engine.Predictor{}, err
	}
	g := linked.Graph()
	pairs, _, err := graph.Sample(g, graph.Universe{}, graph.SampleOptions{Src: rand.NewPCG(r.Seed, 0xe8)})
	if err != nil {
		return engine.Predictor{}, err
	}
	found, err := fit.Fit(ctx, sample.Problem{Nodes: nodes, Train: pairs}, fit.Settings{Seed: r.Seed, Threads: 1,
		Doctor: fit.QuickDoctor})
	if err != nil {
		return engine.Predictor{}, err
	}
	return engine.Predictor{Link: found.Link, LinkParams: found.LinkParams}, nil
}

// evenly returns the probabilities of lists of which a share is drawn in proportion to ŷ.
func evenly(logits []float32, k int, share float64) []float64 {
	p := recommend.ExploredShares(logits, k, 0) // 1 of the best
	y := make([]float64, len(logits))
	for j, z := range logits {
		y[j], _ = kern.Sigmoid64(float64(z))
	}
	low, high := 0., 1e300 // c of min(1, c·ŷ)
	drawn := func(c float64) (sum float64) {
		for _, y := range y {
			sum += math.Min(1, c*y)
		}
		return sum
	}
	for high = 1; drawn(high) < float64(k); high *= 2 {
		low = high
	}
	for range 60 {
		if c := (low + high) / 2; drawn(c) < float64(k) {
			low = c
		} else {
			high = c
		}
	}
	for j := range p {
		p[j] = (1-share)*p[j] + share*math.Min(1, high*y[j])
	}
	return p
}

// riskVariance is the variance of R_DR over what lists draw with these probabilities and what is then linked:
//
//	Σ (z/|C|)²·( y(1−y)/p + (y−ŷ)²(1−p)/p ),
//
// exact where ŷ is right. Where it is not, the second term is that of independent draws; a list of k has less.
func riskVariance(logits []float32, truth, p []float64) (sum float64) {
	for j, logit := range logits {
		z := float64(logit)
		y, _ := kern.Sigmoid64(z)
		sum += z * z * (truth[j]*(1-truth[j]) + (truth[j]-y)*(truth[j]-y)*(1-p[j])) / p[j]
	}
	return sum / float64(len(logits)*len(logits))
}
