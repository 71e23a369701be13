package fit

import (
	"context"
	"fmt"
	"math"

	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// LoggedPairs are training pairs of which some are logged, in memory or in the shards of a cluster, as factors are
// learned from them. What is summed is summed by node, in the order of the node's pairs, so that sums have the same
// bits wherever the pairs are.
type LoggedPairs interface {
	// Count counts the pairs of every source.
	Count(ctx context.Context) (*LogCounts, error)
	// MeanSquare is MeanSquare of the pairs of a view.
	MeanSquare(ctx context.Context, link model.LinkModel, v LogView) (float64, error)
	// Over returns an objective over the pairs of a view, of which there are so many, and the engine that has them.
	Over(o *engine.Objective, v LogView, pairs int64) (engine.Engine, *engine.Objective, error)
	// Sums returns a function of a shift that sums what the pairs of a view give, by node, with the logits that models
	// give them.
	Sums(ctx context.Context, kind SumKind, by engine.Predictor, v LogView) (
		func(shift float64) ([][2]float64, error), error)
}

// LogView says which pairs are looked at, and what is seen of their log; zero means all pairs as they are.
type LogView struct {
	Logged bool // only pairs that are logged, shown or not, in the time in which links came about
	// Part is a part of the people, from 1; 0 means all. With Logged only their pairs are looked at; without, their log
	// is not seen.
	Part  uint8
	Parts []uint8 // the part of every node; nil where Part is 0
}

// See returns what the view sees of the exposure of a pair whose source is in a part, and whether it looks at the pair.
func (v LogView) See(part uint8, e risk.Exposure) (risk.Exposure, bool) {
	switch {
	case v.Logged:
		return e, isLogged(e) && (v.Part == 0 || v.Part == part)
	case v.Part > 0 && v.Part == part && isLogged(e):
		return risk.Unlogged, true
	}
	return e, true
}

// Looks reports whether a view of all people looks at pairs of an exposure.
func (v LogView) Looks(e risk.Exposure) bool { return !v.Logged || isLogged(e) }

// part returns that of a node.
func (v LogView) part(node int32) uint8 {
	if v.Part == 0 {
		return 0
	}
	return v.Parts[node]
}

// of returns the pairs of the view, in place where these are all.
func (v LogView) of(e sample.Evidence) sample.Evidence {
	switch {
	case v.Logged:
		return e.At(sample.Indices(e.Pairs.Len(), func(k int) bool {
			_, seen := v.See(v.part(e.Pairs.Source[k]), e.Exposure[k])
			return seen
		}))
	case v.Part == 0 || e.Exposure == nil:
		return e
	}
	exposure := make([]risk.Exposure, len(e.Exposure))
	for k := range exposure {
		exposure[k], _ = v.See(v.part(e.Pairs.Source[k]), e.Exposure[k])
	}
	return sample.Evidence{Pairs: e.Pairs, Exposure: exposure}
}

// SumKind names sums over pairs by node: two numbers each.
type SumKind string

// The sums.
const (
	// LogSums are, by source, the slope and the curvature of the likelihood of logged exposures, in a shift of the
	// logits of π̂.
	LogSums SumKind = "log"
	// LinkSums are, by source, how many more links there are than expected and how fast these grow, in a shift of the
	// logits of ŷ.
	LinkSums SumKind = "links"
	// ItemSums are, by target, how many more pairs were shown than expected, and the variance of that by chance.
	ItemSums SumKind = "items"
)

// Side is that of the nodes that have the sums.
func (kind SumKind) Side() engine.Side {
	if kind == ItemSums {
		return engine.Targets
	}
	return engine.Sources
}

// Of is what of the models the sums need.
func (kind SumKind) Of(by engine.Predictor) engine.Predictor {
	if kind == LinkSums {
		return by
	}
	return by.Exposure()
}

// Add adds pairs with the logits of ŷ and π̂ to the sums of their nodes.
func (kind SumKind) Add(to [][2]float64, e sample.Evidence, z, s []float32, shift float64) {
	p := e.Pairs
	for k := range p.Source {
		at := &to[p.Source[k]]
		switch kind {
		case LinkSums:
			pi, _ := kern.Sigmoid64(float64(s[k]))
			y, rest := kern.Sigmoid64(float64(z[k]) + shift)
			w := p.Weight[k]
			if at[0] -= w * pi * y; p.Linked[k] {
				at[0] += w
			}
			at[1] += w * pi * y * rest
			continue
		case ItemSums:
			at = &to[p.Target[k]]
		}
		times := loggedTimes(p, k)
		pi, rest := kern.Sigmoid64(float64(s[k]) + shift)
		if at[0] -= times * pi; e.Exposure[k] == risk.Exposed {
			at[0] += times
		}
		at[1] += times * pi * rest
	}
}

// LogCounts count training pairs by source, over shards as well as in memory.
type LogCounts struct {
	Pairs, Logged        []int32   // by node
	Times, Shown         []float64 // of logged pairs, and of those that were shown; see loggedTimes
	Weight, LoggedWeight []float64
	ShownRate            []float64 // of links that are known to be shown by the log, or were offered
	Links, ShownLinks    int64     // links, and those
	Others               int64     // pairs without a link that are logged as shown, or offered
}

// NewLogCounts returns counts of no pairs of so many nodes.
func NewLogCounts(nodes int) *LogCounts {
	counts, sums := func() []int32 { return make([]int32, nodes) }, func() []float64 { return make([]float64, nodes) }
	return &LogCounts{Pairs: counts(), Logged: counts(), Times: sums(), Shown: sums(), Weight: sums(),
		LoggedWeight: sums(), ShownRate: sums()}
}

// Add counts pairs. Those of a source come in their order.
func (c *LogCounts) Add(e sample.Evidence) {
	p := e.Pairs
	for k, i := range p.Source {
		c.Pairs[i]++
		c.Weight[i] += p.Weight[k]
		seen := risk.Unlogged
		if e.Exposure != nil {
			seen = e.Exposure[k]
		}
		shown := seen == risk.Exposed || seen.IsOffered()
		switch {
		case p.Linked[k]:
			if c.Links++; shown {
				c.ShownLinks++
				c.ShownRate[i] += p.Rate[k]
			}
		case shown:
			c.Others++
		}
		if !isLogged(seen) {
			continue
		}
		c.Logged[i]++
		c.LoggedWeight[i] += p.Weight[k]
		times := loggedTimes(p, k)
		if c.Times[i] += times; seen == risk.Exposed {
			c.Shown[i] += times
		}
	}
}

// logTotals are what counts add up to.
type logTotals struct {
	logged                          int64
	times, shown, weight, allWeight float64 // weight is that of logged pairs
}

func (c *LogCounts) total() (t logTotals) {
	for i, logged := range c.Logged {
		t.logged += int64(logged)
		t.times += c.Times[i]
		t.shown += c.Shown[i]
		t.weight += c.LoggedWeight[i]
		t.allWeight += c.Weight[i]
	}
	return t
}

// LoggedCount is how many pairs are logged, shown or not, in the time in which links came about.
func (c *LogCounts) LoggedCount() int64 { return c.total().logged }

// ShownRates say with what probability pairs are in the sample that the method shown learns from: a logged or offered
// one with Share times its own, and other links with Link. Zero means that every pair is as it was drawn.
type ShownRates struct {
	Share float64 `json:"share"`
	Link  float64 `json:"link"`
}

// ShownRates are those of the counted pairs. Every link is known to have been shown, but other shown pairs only where
// they are logged. That is a case-control sample: unlinked pairs are kept with the probability to be logged, which the
// share of links that are logged estimates.
func (c *LogCounts) ShownRates() (ShownRates, error) {
	if c.Others == 0 {
		return ShownRates{}, hint.Wrap(fmt.Errorf("%w: no pair without a link is logged as shown, and the method "+
			"shown learns from these and from links", ErrData), "log what was shown, or set %v to mle",
			hint.Setting("method"))
	}
	if c.ShownLinks == c.Links || c.ShownLinks == 0 {
		return ShownRates{}, nil
	}
	var rate float64 // of logged links
	for _, r := range c.ShownRate {
		rate += r
	}
	share := float64(c.ShownLinks) / float64(c.Links)
	return ShownRates{share, rate / float64(c.ShownLinks) * share}, nil
}

// Of returns the pairs with these rates.
func (r ShownRates) Of(p *graph.Pairs, exposure []risk.Exposure) *graph.Pairs {
	if r == (ShownRates{}) {
		return p
	}
	pairs := *p
	pairs.Rate = make([]float64, p.Len())
	for k, own := range p.Rate {
		if pairs.Rate[k] = own * r.Share; exposure == nil || exposure[k] == risk.Unlogged {
			pairs.Rate[k] = r.Link
		}
	}
	return &pairs
}

// weightOf is a sum of weights as a number of pairs. Weights add up to such a number, but for rounding.
func weightOf(sum float64) int64 { return max(1, int64(math.Round(sum))) }

// memoryPairs are LoggedPairs in memory.
type memoryPairs struct {
	sample.Evidence
	nodes  int
	engine engine.Engine
}

// Count implements LoggedPairs.
func (m memoryPairs) Count(context.Context) (*LogCounts, error) {
	c := NewLogCounts(m.nodes)
	c.Add(m.Evidence)
	return c, nil
}

// MeanSquare implements LoggedPairs.
func (m memoryPairs) MeanSquare(_ context.Context, link model.LinkModel, v LogView) (float64, error) {
	return MeanSquare(link, v.of(m.Evidence).Pairs), nil
}

// Over implements LoggedPairs.
func (m memoryPairs) Over(o *engine.Objective, v LogView, _ int64) (engine.Engine, *engine.Objective, error) {
	viewed, some := *o, v.of(m.Evidence)
	viewed.Pairs, viewed.Exposure = some.Pairs, some.Exposure
	return m.engine, &viewed, nil
}

// Sums implements LoggedPairs.
func (m memoryPairs) Sums(ctx context.Context, kind SumKind, by engine.Predictor, v LogView) (
	func(shift float64) ([][2]float64, error), error) {
	some := v.of(m.Evidence)
	z, s, err := engine.Logits(ctx, m.engine, kind.Of(by), some.Pairs)
	return func(shift float64) ([][2]float64, error) {
		sums := make([][2]float64, m.nodes)
		kind.Add(sums, some, z, s, shift)
		return sums, nil
	}, err
}
