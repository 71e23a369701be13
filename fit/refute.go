package fit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"unseen/engine"
	"unseen/graph"
)

// Refutation is a test of what the model assumes of exposure: that it is a matter of fields alone and independent of
// relevance. Each test asks whether one more term would explain the links better.
type Refutation struct {
	Of Suspicion `json:"of"`
	// Estimate is about what the term would be, less what the method itself makes of links that obey the model.
	Estimate float64 `json:"estimate"`
	Z        float64 `json:"z"` // of how many standard errors it is
	P        float64 `json:"p"`
	Refuted  bool    `json:"refuted"` // at a level of 5% over all tests, by Holm's rule
}

// Suspicion is what exposure may depend on besides fields.
type Suspicion string

// What is tested.
const (
	BySimilarity  Suspicion = "text"          // what is relevant by its vectors is shown more
	WithinFields  Suspicion = "text by field" // that, within one field only
	ByPopularity  Suspicion = "popularity"    // what others link to is shown more or less
	Dependent     Suspicion = "dependence"    // shown and relevant come together by more than π and ŷ say
	Disconnected  Suspicion = "connectedness" // field pairs share no texts by which they could be compared
	refutingLevel           = .05
)

// scored are the suspicions that have a term, in the order of scoreTerms.
var scored = []Suspicion{BySimilarity, WithinFields, ByPopularity, Dependent}

// oneSided are the suspicions of which only a term above 0 makes sense.
func (s Suspicion) oneSided() bool { return s == BySimilarity || s == Dependent }

// scoreTerms are the terms of the tests, for pairs and the popularity of their targets.
func (c *comparison) scoreTerms(pairs *graph.Pairs, popularity []float32) []engine.AssumedTerm {
	return []engine.AssumedTerm{{Kind: engine.LinkInExposure},
		{Kind: engine.LinkInExposure, Value: c.sameFields(pairs)}, {Kind: engine.InExposure, Value: popularity},
		{Kind: engine.Dependence}}
}

// sameFields has 1 for pairs of one field, 0 for others.
func (c *comparison) sameFields(pairs *graph.Pairs) []float32 {
	same := make([]float32, pairs.Len())
	for k := range same {
		if c.problem.Nodes.SameField(pairs.Source[k], pairs.Target[k]) {
			same[k] = 1
		}
	}
	return same
}

// replicateScores are the scores of a replicate, from a portion of the pairs that is chosen by its own outcomes, as
// the fit's was by those that were seen.
func (c *comparison) replicateScores(ctx context.Context, f *laplace, theta []float64) ([]float64, error) {
	p, err := c.part(ctx, f, theta)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return c.scores(ctx, f, theta, p, crossPopularity(c.problem, f.outcomes.Linked, p.chosen.Pairs))
}

// scores returns the slopes of the log-likelihood in the terms of the tests, at a fit's mode without them: that of the
// portion, to which a few steps lead from the mode of all pairs. What is left of the way is taken out of the slopes.
func (c *comparison) scores(ctx context.Context, f *laplace, theta []float64, p portion,
	popularity []float32) ([]float64, error) {
	l := c.base
	l.prior, l.design, l.outcomes = f.prior, p.design, p.outcomes
	if p.own {
		theta = slices.Clone(theta)
		if err := l.mode(ctx, theta, c.v, climb{enough: near}); err != nil && !errors.Is(err, ErrDiverged) {
			return nil, err
		}
		if err := l.close(); err != nil {
			return nil, err
		}
	}
	l.assumed = &engine.Assumptions{Terms: c.scoreTerms(p.chosen.Pairs, popularity)}
	defer l.close()
	likelihood, err := l.likelihood(ctx)
	if err != nil {
		return nil, err
	}
	size := f.size()
	grad := make([]float64, size+len(scored))
	if _, err := likelihood.Value(ctx, append(slices.Clone(theta), make([]float64, len(scored))...), grad); err != nil {
		return nil, err
	}
	f.prior.add(theta, grad[:size])
	out := make([]float64, len(scored))
	for i := range out {
		out[i] = dot(c.border[i], grad[:size]) - grad[size+i]
	}
	return out, nil
}

// prepareScores finds how the terms of the tests hang together with all else, and how much the links can say of them.
func (c *comparison) prepareScores(ctx context.Context) error {
	l := c.base
	l.assumed = &engine.Assumptions{Terms: c.scoreTerms(c.chosen.Pairs, c.popularity)}
	defer l.close()
	likelihood, err := l.likelihood(ctx)
	if err != nil {
		return err
	}
	theta := append(slices.Clone(c.theta), make([]float64, len(scored))...)
	information, err := likelihood.Information(ctx, theta)
	if err != nil {
		return err
	}
	n, size := len(theta), c.base.size()
	own := make([]float64, size*size)
	for i := range size {
		copy(own[i*size:], information[i*n:i*n+i+1])
	}
	v, err := c.base.factor(own)
	if err != nil {
		return err
	}
	c.border, c.decided = make([][]float64, len(scored)), make([]float64, len(scored))
	for i := range scored {
		row := information[(size+i)*n:]
		c.border[i] = slices.Clone(row[:size])
		v.solve(c.border[i])
		c.decided[i] = row[size+i] - dot(c.border[i], row[:size])
	}
	return nil
}

// refute tests every suspicion. The scores of replicates, whose links obey the model, tell what the method itself does
// to them: a prior shrinks w, and what it leaves over looks like a term.
func (c *comparison) refute(ctx context.Context, replicates [][]float64) ([]Refutation, error) {
	scores, err := c.scores(ctx, c.laplace, c.theta, c.portion, c.popularity)
	if err != nil {
		return nil, err
	}
	var out []Refutation
	c.offset = map[Suspicion]float64{}
	for i, of := range scored {
		var drawn []float64
		for _, r := range replicates {
			drawn = append(drawn, r[i])
		}
		mean, err := meanAndError(drawn)
		c.offset[of] = mean
		count := math.Max(float64(len(drawn)), 1)
		variance := math.Max(c.decided[i], err*err*count)
		if len(drawn) > 1 {
			variance *= 1 + 1/count
		}
		r := Refutation{Of: of, P: 1}
		if c.decided[i] > 0 && variance > 0 {
			r.Z = (scores[i] - mean) / math.Sqrt(variance)
			r.Estimate = (scores[i] - mean) / c.decided[i]
			if r.P = 2 * distuv.UnitNormal.Survival(math.Abs(r.Z)); of.oneSided() {
				r.P = distuv.UnitNormal.Survival(r.Z)
			}
		}
		out = append(out, r)
	}
	holm(out)
	parts, err := c.disconnected(ctx)
	if err == nil && parts > 1 {
		out = append(out, Refutation{Of: Disconnected, Estimate: float64(parts), Refuted: true})
	}
	return out, err
}

// holm marks what is refuted: from the smallest P on, as long as each is below its share of the level.
func holm(tests []Refutation) {
	order := make([]int, len(tests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tests[a].P, tests[b].P) })
	for rank, i := range order {
		if tests[i].P > refutingLevel/float64(len(tests)-rank) {
			return
		}
		tests[i].Refuted = true
	}
}

// disconnected returns into how many parts the field pairs fall that share no texts: those of one part can be compared
// with one another, at pairs of equal z that are linked in both, and not with those of another.
func (c *comparison) disconnected(ctx context.Context) (int, error) {
	const bands = 16
	z, err := c.base.design.Logits(ctx, c.theta)
	if err != nil {
		return 0, err
	}
	linked := c.base.outcomes.Linked
	var at []float32
	links := make([]int, c.base.cells)
	for k, x := range z {
		if linked[k] {
			at = append(at, x)
			links[c.cellOf(k)]++
		}
	}
	slices.Sort(at)
	part := make([]int, c.base.cells+bands) // of cells, then of bands of z that have equally many links
	for i := range part {
		part[i] = i
	}
	var root func(i int) int
	root = func(i int) int {
		if part[i] != i {
			part[i] = root(part[i])
		}
		return part[i]
	}
	for k, x := range z {
		if cell := c.cellOf(k); linked[k] && links[cell] >= thinLinks {
			place, _ := slices.BinarySearch(at, x)
			part[root(cell)] = root(c.base.cells + place*bands/len(at))
		}
	}
	roots := map[int]bool{}
	for cell, count := range links {
		if count >= thinLinks {
			roots[root(cell)] = true
		}
	}
	return len(roots), nil
}

// cellOf returns the cell of a compared pair.
func (c *comparison) cellOf(k int) int {
	if c.places != nil {
		k = int(c.places[k])
	}
	return int(c.cell[k])
}
