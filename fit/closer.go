package fit

import (
	"context"
	"math"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// How much is looked at closer: pairs at most, pairs·dimensions² at most, and assumptions besides the reference.
const (
	closerPairs    = 1 << 18
	closerProducts = 1 << 35
	mostLooks      = 5
)

// lookCloser fits again, to more pairs, what makes the set of claims too wide for them to be called identified: the
// reference and, one after the other, the assumption whose claims are the furthest from the reference's. More pairs
// rule it out, or narrow its claims; where neither happens the set stays wide, and no other is looked at. Where a test
// has refuted the model nothing is called identified, however narrow: then the reference alone is looked at.
func (c *comparison) lookCloser(ctx context.Context) error {
	refuted := slices.ContainsFunc(c.refuted, func(r Refutation) bool { return r.Refuted })
	reference := c.done[c.reference()]
	if reference.failed || c.looked == nil && c.furthest(reference) == nil {
		return nil
	}
	if enough, err := c.lookAtMore(ctx); err != nil || !enough {
		return err
	}
	if err := c.lookAt(ctx, reference); err != nil || refuted {
		return err
	}
	for !reference.closer.failed && len(c.closer.done) <= mostLooks {
		last := c.closer.done[len(c.closer.done)-1]
		at := slices.IndexFunc(c.done, func(f *alternativeFit) bool { return f.closer == last })
		if f := c.done[at]; f != reference {
			if _, _, stays := f.against(reference); stays && c.beyond(f, reference) > math.Log(narrow) {
				return nil
			}
		}
		f := c.furthest(reference)
		if f == nil {
			return nil
		}
		if err := c.lookAt(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// reference is the place of the alternative that others are compared with.
func (c *comparison) reference() int {
	return (&Result{refuted: c.refuted, alternatives: c.done}).reference()
}

// furthest returns the assumption that stays and was not looked at closer whose claims are the furthest from the
// reference's; nil where there is none, or all of them together are narrow.
func (c *comparison) furthest(reference *alternativeFit) (at *alternativeFit) {
	most := -1.
	var claims [2]SetRange
	for _, f := range c.done {
		if _, _, stays := f.against(reference); !stays {
			continue
		}
		for i, of := range []int{ofLink, ofExposure} {
			claims[i].include(f.interval(of, c.done[0], 0))
		}
		if beyond := c.beyond(f, reference); f.closer == nil && beyond > most {
			at, most = f, beyond
		}
	}
	if claims[0].High <= nearlyNarrow*claims[0].Low && claims[1].High <= nearlyNarrow*claims[1].Low {
		return nil
	}
	return at
}

// nearlyNarrow is narrow less what the bias and the sampling of mean ŷ, which are measured later, may add.
const nearlyNarrow = .96 * narrow

// beyond is how far an end of an assumption's claims is from the reference's number: the larger logarithm of their
// ratio, of mean ŷ or mean π̂.
func (c *comparison) beyond(f, reference *alternativeFit) (most float64) {
	for _, of := range []int{ofLink, ofExposure} {
		claim, own := f.interval(of, c.done[0], 0), reference.best().measures[of].value
		most = math.Max(most, math.Max(math.Log(claim.Upper/own), math.Log(own/claim.Lower)))
	}
	return most
}

// lookAt fits an assumption to more pairs, if that was not done.
func (c *comparison) lookAt(ctx context.Context, f *alternativeFit) error {
	if f.closer != nil {
		return nil
	}
	c.closer.report(0)
	closer, err := c.closer.fit(ctx, f.Alternative)
	if err != nil {
		return err
	}
	c.closer.done = append(c.closer.done, closer)
	f.closer = closer
	c.recorder.settle(c)
	return c.recorder.tick()
}

// lookAtMore makes the comparison by more pairs, and reports whether there are more to look at. Where the pairs that
// were learned from are a part, they are chosen among all.
func (c *comparison) lookAtMore(ctx context.Context) (bool, error) {
	d := c.laplace.d + 1
	most := min(comparedPart*c.most, closerPairs, closerProducts/(d*d))
	if min(c.available(), most) < c.chosen.Pairs.Len()*5/4 {
		return false, nil
	}
	closer := &comparison{bayesian: c.bayesian, problem: c.problem, cell: c.cell, refuted: c.refuted, offset: c.offset,
		most: most, coarse: c, done: c.looked}
	c.closer = closer // which closes what it has
	if c.whole != nil {
		if err := closer.takeOfAll(ctx); err != nil {
			return false, err
		}
	} else {
		if err := closer.take(ctx); err != nil {
			return false, err
		}
		closer.popularity = crossPopularity(c.problem, c.problem.Train.Linked, closer.chosen.Pairs)
	}
	return true, closer.prepareMeans(ctx, c.result)
}

// takeOfAll chooses the pairs to compare by among all, where those in hand are a part of them.
func (c *comparison) takeOfAll(ctx context.Context) error {
	w, s := c.whole, c.result.Settings
	by := Surprise{Seed: s.Seed, Theta: w.theta, Root: w.v.(*partCovariance).drawn(),
		Design: PairDesign{Cells: w.cells, Unit: c.laplace.design.Unit(), CaseControl: !s.evenly()}}
	// how many are chosen with what chance, the part has to tell
	part := w.bayesian.problem
	part.Train = withRates(part.Train, func(k int) float64 { return w.share[1] / w.share[0] })
	found, _, err := by.chances(ctx, s.engine(), part)
	if err != nil {
		return err
	}
	found.settle(part, [3]float64{1 / w.share[0], 1 / w.share[1], 1 / w.share[2]}, c.most)
	by.Factor, by.Logged = found.factor, found.logged
	if c.problem, err = w.surprising(ctx, by); err != nil {
		return err
	}
	if found, c.outcomes.Leverage, err = by.chances(ctx, s.engine(), c.problem); err != nil {
		return err
	}
	c.chosen = c.problem.Training()
	found.makeUp(c.chosen)
	cellOf, err := by.Design.cellFinder(c.problem.Nodes)
	if err != nil {
		return err
	}
	c.cell = make([]int32, c.chosen.Pairs.Len())
	for k, source := range c.chosen.Pairs.Source {
		c.cell[k] = cellOf(source, c.chosen.Pairs.Target[k])
	}
	c.outcomes.Linked, c.outcomes.Exposure = c.chosen.Pairs.Linked, c.chosen.Exposure
	pairs := engine.DesignPairs{Vectors: c.problem.Nodes.Vectors, Pairs: c.chosen.Pairs, Cell: c.cell,
		Cells: c.laplace.cells, Unit: by.Design.Unit}
	if by.Design.CaseControl {
		pairs.Rate = pairs.Pairs.Rate
	}
	if c.portion.design, err = s.engine().Design(ctx, pairs); err != nil {
		return err
	}
	c.own = true
	c.useChosen()
	c.popularity, err = c.popularityOfAll(ctx)
	return err
}

// popularityOfAll is that of the targets of the chosen pairs, by all links.
func (c *comparison) popularityOfAll(ctx context.Context) ([]float32, error) {
	all, pairs := c.result.all, c.chosen.Pairs
	if !all.whole() {
		return crossPopularity(c.whole.problem, c.whole.problem.Train.Linked, pairs), nil
	}
	links, err := all.InDegrees(ctx, c.problem.Nodes.Numbers)
	if err != nil {
		return nil, err
	}
	return popularityBy(c.problem.Nodes, pairs, links.addTo), nil
}

// linkOf returns a result's link model of the compared nodes.
func (c *comparison) linkOf(r *Result) (model.LinkModel, error) {
	if !r.all.whole() || c.coarse == nil {
		return r.Link, nil
	}
	return model.NewLink(r.Link.Kind(), c.problem.Nodes, r.Settings.LinkOptions)
}

// surprising returns those of all pairs that are chosen.
func (w *whole) surprising(ctx context.Context, by Surprise) (sample.Problem, error) {
	if all := w.result.all; all.whole() {
		return all.DrawSurprising(ctx, by)
	}
	p := w.problem
	places, err := by.Places(ctx, w.result.Settings.engine(), p)
	if err != nil {
		return p, err
	}
	some := p.Training().At(places)
	p.Train, p.Exposure = some.Pairs, some.Exposure
	return p, nil
}

// Surprise chooses pairs the rather the more their outcome surprises a fit: those say most of what it assumes. It looks
// at each pair alone, so that the pairs may be cut anyhow.
type Surprise struct {
	Seed   uint64      `json:"seed"`
	Design PairDesign  `json:"design"`
	Theta  []float64   `json:"theta"`
	Root   engine.Root `json:"root"` // of the fit's V, for what a pair's own outcome has done to it
	// Factor is the chance of a pair, over how much it surprises, and Logged that of one whose exposure is logged.
	Factor float64 `json:"factor"`
	Logged float64 `json:"logged"`
}

// Places returns which of a problem's training pairs are chosen.
func (s Surprise) Places(ctx context.Context, e engine.Engine, p sample.Problem) ([]int32, error) {
	by, _, err := s.chances(ctx, e, p)
	if err != nil {
		return nil, err
	}
	return by.places(p, s.Seed), nil
}

// chances returns the chances of a problem's training pairs, and the variances of their logits.
func (s Surprise) chances(ctx context.Context, e engine.Engine, p sample.Problem) (chances, []float32, error) {
	out := chances{factor: s.Factor, logged: s.Logged}
	design, seen, _, err := s.Design.Over(ctx, e, p)
	if err != nil {
		return out, nil, err
	}
	defer design.Close()
	if seen.Leverage, err = design.Leverage(ctx, s.Root); err != nil || !s.Design.CaseControl {
		return out, seen.Leverage, err
	}
	z, err := design.Logits(ctx, s.Theta)
	if err != nil {
		return out, nil, err
	}
	cellOf, err := s.Design.cellFinder(p.Nodes)
	if err != nil {
		return out, nil, err
	}
	first := len(s.Theta) - len(s.Design.Cells)
	out.linked = likely(p.Train.Rate, seen, func(k int) float64 {
		return s.Theta[first+int(cellOf(p.Train.Source[k], p.Train.Target[k]))]
	}, z)
	return out, seen.Leverage, nil
}

// leastSurprise is what every pair counts, however little it surprises.
const leastSurprise = .1

// chances are those with which pairs are chosen to compare by.
type chances struct {
	linked []float64 // P(linked | sampled) of every pair by a fit to all others; nil where all count alike
	factor float64   // the chance, over how much a pair surprises
	logged float64   // the chance of a pair whose exposure is logged
}

// surprise is how much pair k would surprise with a link, or without.
func (c chances) surprise(k int, link bool) float64 {
	switch {
	case c.linked == nil:
		return 1
	case link:
		return leastSurprise + 1 - c.linked[k]
	}
	return leastSurprise + c.linked[k]
}

// of is the chance that pair k would have with a link, or without.
func (c chances) of(k int, link, logged bool) float64 {
	if logged {
		return c.logged
	}
	return math.Min(1, c.factor*c.surprise(k, link))
}

func hasLog(exposure []risk.Exposure, k int) bool {
	return exposure != nil && exposure[k] != risk.Unlogged
}

// settle finds the chances by which about so many are chosen of pairs of which each stands for so many, by its kind:
// those whose exposure is logged up to half.
func (c *chances) settle(p sample.Problem, times [3]float64, most int) {
	logged := 0.
	surprise, stands := make([]float64, 0, p.Train.Len()), make([]float64, 0, p.Train.Len())
	for k, link := range p.Train.Linked {
		kind := pairKind(p, k)
		if kind == 2 {
			logged += times[kind]
			continue
		}
		surprise, stands = append(surprise, c.surprise(k, link)), append(stands, times[kind])
	}
	c.logged = math.Min(1, float64(most)/2/math.Max(logged, 1))
	room := float64(most) - c.logged*logged
	// How many they are grows with the factor, ever slower, in straight pieces: where the line of a piece reaches the
	// room is below the factor that does, and the next piece is nearer, until it is the same.
	c.factor = 0
	for c.factor < 1/leastSurprise {
		var certain, slope float64
		for i, x := range surprise {
			if c.factor*x >= 1 {
				certain += stands[i]
			} else {
				slope += stands[i] * x
			}
		}
		next := 1 / leastSurprise
		if slope > 0 {
			next = math.Max(0, math.Min(next, (room-certain)/slope))
		}
		if next <= c.factor {
			return
		}
		c.factor = next
	}
}

// places returns which of a problem's training pairs are chosen.
func (c chances) places(p sample.Problem, seed uint64) []int32 {
	return sample.Indices(p.Train.Len(), func(k int) bool {
		return pairChance(p, k, seed, comparedWith) < c.of(k, p.Train.Linked[k], hasLog(p.Exposure, k))
	})
}

// at returns the chances of some of the pairs.
func (c chances) at(places []int32) chances {
	if c.linked != nil {
		c.linked = sample.Column(c.linked, places)
	}
	return c
}

// makeUp sets the weights and rates of pairs that were chosen with these chances.
func (c chances) makeUp(of sample.Evidence) {
	for k, link := range of.Pairs.Linked {
		logged := hasLog(of.Exposure, k)
		of.Pairs.Weight[k] /= c.of(k, link, logged)
		of.Pairs.Rate[k] *= c.of(k, false, logged) / c.of(k, true, logged)
	}
}

// likely returns P(linked | sampled) of every pair by a fit to all others, given the pairs' rates, what is seen of them
// and the logits of π and y: a pair's own outcome must not bear on whether it surprises. Without it, its logit would
// be by leverage times slope higher.
func likely(rates []float64, seen engine.Outcomes, exposure func(k int) float64, z []float32) []float64 {
	out := make([]float64, len(z))
	for k := range out {
		pi, rest := kern.Sigmoid64(exposure(k))
		at := func(z float64) (linked, slope float64) { // and that of its log odds in z
			y, restY := kern.Sigmoid64(z)
			unlinked := rest + pi*restY
			return pi * y / (pi*y + rates[k]*unlinked), restY / unlinked
		}
		own := float64(z[k])
		linked, slope := at(own)
		if seen.Linked[k] {
			linked--
		}
		out[k], _ = at(own + float64(seen.Leverage[k])*linked*slope)
	}
	return out
}

// withLinks returns pairs with other outcomes.
func withLinks(p *graph.Pairs, linked []bool) *graph.Pairs {
	out := *p
	out.Linked = linked
	return &out
}

// withRates returns pairs with their rates times something.
func withRates(p *graph.Pairs, times func(k int) float64) *graph.Pairs {
	out := *p
	out.Rate = make([]float64, p.Len())
	for k, rate := range p.Rate {
		out.Rate[k] = rate * times(k)
	}
	return &out
}
