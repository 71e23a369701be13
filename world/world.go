package world

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/internal/normal"
	"unseen/risk"
)

// World is a graph with vectors and fields of which everything is known: for every ordered pair of
// nodes the propensity π and the link probability y, and whether it is relevant (o′), exposed (a) and
// so linked (o = o′·a). It never changes once made and may be read by many goroutines.
type World struct {
	graph      *graph.Graph
	order      *graph.Order // oldest first: links go from newer to older nodes
	unlinked   *World       // what links were drawn for; nil if none were
	weights    []float32    // w
	bias       float64      // b
	ceiling    float64
	propensity []float64 // π, row by row of the source's field; nil if it is not a matter of fields alone
	profile    Profile
	threads    int

	violations Violations
	together   *normal.Copula // how exposure and relevance come together
	terms      *terms         // of π, where it is not a matter of fields alone
	quality    []float64      // what targets add to z; nil means nothing
	response   *response      // F; nil means the logistic one
	measured   []risk.Truth   // pairs of the profile, where Thinned has to measure again

	seed                     uint64 // of the draws
	relevance, exposure, log coin
}

// Graph returns the nodes with their fields and vectors. Its links are those drawn by Linked, else
// none in a generated world and those it came with in a planted one.
func (w *World) Graph() *graph.Graph { return w.graph }

// Weights returns a copy of w, the weights of the true logit z = wᵀ(h_i⊙h_j) + b, to which Violations.Quality adds.
func (w *World) Weights() []float32 { return slices.Clone(w.weights) }

// Bias returns b.
func (w *World) Bias() float64 { return w.bias }

// Ceiling returns the largest link probability, κ of y = κ·F(z).
func (w *World) Ceiling() float64 { return w.ceiling }

// Violations returns the assumptions of learning that do not hold.
func (w *World) Violations() Violations { return w.violations }

// Profile returns what the pairs of the world look like.
func (w *World) Profile() Profile { return w.profile }

// Propensity returns the π of pairs from one field of the graph to another. Indices out of range
// panic, as they do in a slice. So does a world whose exposure is not a matter of fields alone: it has a π for every
// pair, which Truth returns, and Means those of field pairs in the mean.
func (w *World) Propensity(source, target uint16) float64 {
	w.mustBeByFields()
	n := w.graph.FieldCount()
	if int(target) >= n {
		panic(fmt.Sprintf("world: field %d of %d", target, n))
	}
	return w.propensity[int(source)*n+int(target)]
}

// Propensities returns a copy of π for all pairs of fields of the graph, row by row of the source's. It panics where
// Propensity does.
func (w *World) Propensities() []float64 {
	w.mustBeByFields()
	return slices.Clone(w.propensity)
}

func (w *World) mustBeByFields() {
	if w.terms != nil {
		panic(fmt.Sprintf("world: exposure is not a matter of fields alone (%+v); call Truth or Means", w.violations))
	}
}

// Truth returns π and y of a pair of nodes. Indices out of range panic, as they do in a slice.
func (w *World) Truth(source, target int32) risk.Truth {
	scores, query := make([]float32, 1), make([]float32, len(w.weights))
	w.score(scores, query, []int32{source}, []int32{target})
	return w.truth(source, target, w.logit(scores[0]))
}

// Redrawn returns the same nodes and truth with new draws: which pairs are relevant,
// exposed and logged, and which pairs a sample holds. The new world has no drawn links.
func (w *World) Redrawn(seed uint64) *World {
	drawn := *w.withoutLinks()
	drawn.setSeed(seed)
	return &drawn
}

// Thinned returns the world with every propensity multiplied by a factor of at most 1: sparser links
// of the same relevance. A world of Ceiling κ looks like one of Ceiling 1 thinned by κ, as far as
// links go, unless Violations.Dependence is set. The new world has the same draws and no drawn links.
func (w *World) Thinned(factor float64) (*World, error) {
	thin := *w.withoutLinks()
	refused := bad("thinning by %v; a propensity stays above 0 and at most 1, so give a factor above 0, at most 1",
		factor)
	if !(factor > 0 && factor <= 1) {
		return nil, refused
	}
	thin.propensity = slices.Clone(thin.propensity)
	for c := range thin.propensity {
		if thin.propensity[c] *= factor; !(thin.propensity[c] > 0) {
			return nil, refused
		}
	}
	if thin.terms != nil {
		terms := *thin.terms
		if terms.share *= factor; !(terms.share > 0) {
			return nil, refused
		}
		thin.terms = &terms
	}
	thin.profile.Propensity *= factor
	thin.profile.LinkRate *= factor
	if thin.measured != nil {
		thin.measured = slices.Clone(thin.measured)
		thin.profile.LinkRate = 0
		for k := range thin.measured {
			thin.measured[k].Propensity *= factor
			thin.profile.LinkRate += thin.LinkRate(thin.measured[k]) / float64(len(thin.measured))
		}
	}
	return &thin, nil
}

func (w *World) withoutLinks() *World {
	if w.unlinked != nil {
		return w.unlinked
	}
	return w
}

func (w *World) setSeed(seed uint64) {
	w.seed = seed
	w.relevance, w.exposure, w.log = newCoin(seed, relevanceStream), newCoin(seed, exposureStream),
		newCoin(seed, logStream)
}

// settle turns a graph and the direction of w into a world: it scales w, solves b, and draws π.
func settle(ctx context.Context, g *graph.Graph, direction []float32, p Scenario) (*World, error) {
	w := &World{graph: g, order: g.Order(), weights: unitScale(direction), ceiling: p.Ceiling, threads: p.Threads,
		violations: p.Violations, together: normal.NewCopula(p.Violations.Dependence),
		response: responses[p.Violations.Response]}
	w.setSeed(p.Seed)
	w.drawPropensities(p)
	if err := w.violate(p); err != nil {
		return nil, err
	}

	universe, err := w.universe(Draw{})
	if err != nil {
		return nil, err
	}
	n := int(min(universe.size, calibrationPairs))
	sources, targets := make([]int32, n), make([]int32, n)
	universe.draw(sources, targets, newPermutation(p.Seed, calibrationStream, universe.size), 0, 1, w.threads)
	scores := make([]float32, n)
	if err := w.scores(ctx, scores, sources, targets); err != nil {
		return nil, err
	}
	c, err := newCalibration(scores, w.response)
	if err != nil {
		return nil, err
	}
	scale, bias, err := c.solve(ctx, p.BaseRate, p.OracleAUC)
	if err != nil {
		return nil, err
	}
	for d := range w.weights {
		w.weights[d] = float32(scale * float64(w.weights[d]))
		if math.IsInf(float64(w.weights[d]), 0) {
			return nil, fmt.Errorf("%w: the weights would have to be %.3g times larger than float32 "+
				"holds; scale the vectors up", ErrUnreachable, scale/math.MaxFloat32)
		}
	}
	w.bias = bias
	z := make([]float64, n)
	for k, x := range scores {
		z[k] = scale*float64(x) + bias
	}
	if w.violations.Text != 0 {
		w.settleLevel(sources, targets, z)
	}
	return w, w.measure(c, scale*c.sd, sources, targets, z)
}

// violate draws what targets add to the logits.
func (w *World) violate(p Scenario) (err error) {
	if p.Violations.Quality != 0 {
		w.quality = drawNormal(p.Seed, qualityStream, w.graph.Len(), p.Violations.Quality)
	}
	if !p.Violations.byFields() {
		w.terms, err = w.newTerms(p.Violations, p.Seed)
		w.propensity = nil
	}
	return err
}

// unitScale returns the weights divided by the largest, so that scores stay within float32 whatever
// scale the weights came in.
func unitScale(weights []float32) []float32 {
	var largest float32
	for _, x := range weights {
		largest = max(largest, x, -x)
	}
	scaled := make([]float32, len(weights))
	for d, x := range weights {
		scaled[d] = x / largest
	}
	return scaled
}

// drawPropensities draws π field pair by field pair, row by row.
func (w *World) drawPropensities(p Scenario) {
	src := rand.New(newStream(p.Seed, propensityStream, 0))
	n := w.graph.FieldCount()
	w.propensity = make([]float64, n*n)
	for c := range w.propensity {
		r := p.Cross
		if source, target := c/n, c%n; source == target && source != int(graph.UnknownField) {
			r = p.Same
		}
		w.propensity[c] = r.Low + (r.High-r.Low)*src.Float64()
	}
}

// measure takes the profile of pairs whose logits, but for the targets' quality, are z.
func (w *World) measure(c *calibration, spread float64, sources, targets []int32, z []float64) error {
	n := float64(len(z))
	if w.quality != nil {
		logits := make([]float32, len(z))
		for k, j := range targets {
			logits[k] = float32(z[k] + w.quality[j])
		}
		var err error
		if c, err = newCalibration(logits, w.response); err != nil {
			return err
		}
		c.try(c.sd, c.mean)
		spread = c.sd
	}
	p := Profile{Pairs: len(z), OracleAUC: c.auc(w.ceiling), Spread: spread}
	for k, z := range z {
		t := w.truth(sources[k], targets[k], z)
		p.BaseRate += t.Link / n
		p.Propensity += t.Propensity / n
		p.LinkRate += w.LinkRate(t) / n
		if t.Link > .9 {
			p.Saturated += 1 / n
		}
		if w.violations.Dependence != 0 {
			w.measured = append(w.measured, t)
		}
	}
	w.profile = p
	return nil
}

// scores sets dst[k] = wᵀ(h_i⊙h_j) for pair k.
func (w *World) scores(ctx context.Context, dst []float32, sources, targets []int32) error {
	queries := w.queries()
	return kern.ChunksErr(ctx, len(dst), chunkSize, w.threads, func(worker, _, from, to int) error {
		w.score(dst[from:to], queries[worker], sources[from:to], targets[from:to])
		return nil
	})
}

// chunkSize is how many pairs a thread takes at a time.
const chunkSize = 1 << 12

// queries returns scratch memory for the threads.
func (w *World) queries() [][]float32 {
	queries := make([][]float32, w.threads)
	for t := range queries {
		queries[t] = make([]float32, len(w.weights))
	}
	return queries
}

// score goes source by source: ⟨w⊙h_i, h_j⟩ reads one row per pair instead of two.
func (w *World) score(dst, query []float32, sources, targets []int32) {
	rows := kern.MatrixOf(w.graph.Vectors())
	for from := 0; from < len(sources); {
		to := from + 1
		for to < len(sources) && sources[to] == sources[from] {
			to++
		}
		w.query(query, sources[from])
		kern.Dots(dst[from:to], query, rows, targets[from:to])
		from = to
	}
}

// query sets q = w⊙h_i.
func (w *World) query(q []float32, source int32) {
	w.graph.Vectors().Load(q, source)
	for d, x := range w.weights {
		q[d] *= x
	}
}

// logit turns a score into z.
func (w *World) logit(score float32) float64 { return float64(score) + w.bias }

// truth returns π and y of a pair whose texts have the logit z.
func (w *World) truth(source, target int32, z float64) risk.Truth {
	t := risk.Truth{Propensity: w.propensityOf(source, target, z)}
	z += w.qualityOf(target)
	if w.response == nil {
		t.Link = w.ceiling / (1 + math.Exp(-z))
	} else {
		t.Link = w.ceiling * w.response.at(z)
	}
	return t
}

// propensityOf returns π of a pair. Only exposure that depends on texts asks for z.
func (w *World) propensityOf(source, target int32, z float64) float64 {
	cell := w.cell(source, target)
	if w.terms == nil {
		return w.propensity[cell]
	}
	return w.terms.propensity(cell, source, target, z)
}

// qualityOf is what a target adds to z.
func (w *World) qualityOf(target int32) float64 {
	if w.quality == nil {
		return 0
	}
	return w.quality[target]
}

// toss draws whether a pair is exposed and whether it is relevant.
func (w *World) toss(source, target int32, t risk.Truth) (exposed, relevant bool) {
	show, want := w.exposure.toss(source, target), w.relevance.toss(source, target)
	if correlation := w.violations.Dependence; correlation != 0 {
		want = depend(show, want, correlation)
	}
	return show < t.Propensity, want < t.Link
}

// cell is the place of a pair's fields in tables over field pairs.
func (w *World) cell(source, target int32) int {
	return int(w.graph.Field(source))*w.graph.FieldCount() + int(w.graph.Field(target))
}
