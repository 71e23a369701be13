package loop

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// ForecastSettings are the settings of NewForecast. A zero means the default.
type ForecastSettings struct {
	Rounds int `json:"rounds"` // 20
	Shown  int `json:"shown"`  // recommendations to each node in a round; 20

	// Sources and Targets bound the pairs that are used: that many sources of every field, and for each that
	// many targets of every field, drawn at random. Of a field that has fewer nodes, all are taken.
	Sources int `json:"sources"` // 200
	Targets int `json:"targets"` // 200

	// Explore is the share of recommendations that is drawn from everything, whatever the estimates say.
	Explore float64 `json:"explore,omitempty"`
	// ShownOnly trains on what was shown alone: what was not shown is left out instead of counting as not linked.
	ShownOnly bool `json:"shownOnly,omitempty"`

	Replicates int     `json:"replicates"` // bootstrap runs behind the intervals; 200
	Level      float64 `json:"level"`      // of the intervals; .95

	// Truth returns π and y of a pair where they are known, as in a world.
	Truth func(source, target int32) risk.Truth `json:"-"`

	Seed    uint64 `json:"seed"`
	Threads int    `json:"-"` // 0 means all processors; results do not depend on it
}

func (s ForecastSettings) withDefaults() (ForecastSettings, error) {
	for _, d := range []struct {
		name     string
		value    *int
		fallback int
	}{
		{"rounds", &s.Rounds, 20}, {"recommendations a node", &s.Shown, 20}, {"sources", &s.Sources, 200},
		{"targets", &s.Targets, 200}, {"replicates", &s.Replicates, 200},
		{"threads", &s.Threads, runtime.GOMAXPROCS(0)},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 1 {
			return s, settingError("%d %s; give at least 1, or 0 for the default", *d.value, d.name)
		}
	}
	if s.Shown > maxDraws {
		return s, settingError("%d recommendations a node; give at most %d", s.Shown, maxDraws)
	}
	if !(s.Explore >= 0 && s.Explore <= 1) {
		return s, settingError("a share of %v to explore; give one from 0 to 1", s.Explore)
	}
	if s.Level == 0 {
		s.Level = .95
	}
	if !(s.Level > 0 && s.Level < 1) {
		return s, settingError("level %v; give a probability between 0 and 1", s.Level)
	}
	return s, nil
}

// Forecast is where recommendations go, by the source's field.
type Forecast struct {
	Settings ForecastSettings `json:"settings"`
	Fields   []FieldForecast  `json:"fields"`
	All      FieldForecast    `json:"all"`   // over all fields, each for as many nodes as it has
	Exact    bool             `json:"exact"` // over all pairs, not over a sample
	Warnings []string         `json:"warnings,omitempty"`
}

// FieldForecast is the same-field share of recommendations to the nodes of one field.
type FieldForecast struct {
	Field     uint16   `json:"field"`
	Name      string   `json:"name"`
	Nodes     int      `json:"nodes"`
	Own       string   `json:"own,omitempty"`   // the targets' field that counts as their own, where it is another
	Naive     []Share  `json:"naive"`           // by round, of a recommender that takes links as they come: π̂ŷ
	Corrected []Share  `json:"corrected"`       // of one that corrects for exposure: ŷ
	Truth     *float64 `json:"truth,omitempty"` // in proportion to the true y; nil where that is not known

	runs [2][][]float64 // naive and corrected, by replicate and round
}

// Share is a same-field share with its interval.
type Share struct {
	Round int     `json:"round"`
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// NewForecast forecasts the loop of a recommender that shows targets in proportion to its estimates and
// is retrained on the links that follow. What was not shown counts as not linked.
//
// Round 1 is the present: the mean over sources of the share of π̂ŷ (corrected: ŷ) that lies in the
// source's field; of people and items that share no field, in that of [graph.Graph.OwnFields]. From
// there each field's share is multiplied by its mean π̂ŷ (or ŷ) every round, as in the category
// [Process]. The forecast uses categories alone: within a field all targets are alike, and no list
// is ever exhausted. A recommender whose lists run out of good targets, or whose model cannot
// distinguish fields, drifts less; see [Simulate].
//
// Intervals resample sources and draw the process with as many recommendations as the field gets, and
// take π̂ and ŷ as known.
//
// The graph must be the one whose nodes the model was made for. Nodes of unknown field are targets but
// not sources.
func NewForecast(ctx context.Context, m model.Model, g *graph.Graph, s ForecastSettings) (*Forecast, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	switch {
	case m.Link == nil || m.Propensity == nil:
		return nil, fmt.Errorf("%w: it lacks a link or a propensity model; fit one with a method such as bayes",
			ErrModel)
	case len(m.LinkParams) != m.Link.Size() || len(m.PropensityParams) != m.Propensity.Size():
		return nil, fmt.Errorf("%w: it has %d and %d parameters for models of %d and %d", ErrModel, len(m.LinkParams),
			len(m.PropensityParams), m.Link.Size(), m.Propensity.Size())
	case model.NeedsVectors(m.Link.Kind()) && (g.Vectors() == nil || g.Vectors().Len() != g.Len()):
		return nil, fmt.Errorf("%w: its nodes have no vectors; encode their texts first", ErrGraph)
	}
	from, to := model.NodesOf(g).FieldMembers()
	own := g.OwnFields()
	forecast := &Forecast{Settings: s, Exact: true}
	for f := 1; f < len(from); f++ {
		switch n := len(from[f]); {
		case n == 0, g.TwoSided() && own[f] == graph.UnknownField:
			continue
		case n == 1 && !g.TwoSided():
			forecast.Warnings = append(forecast.Warnings,
				fmt.Sprintf("field %q has a single node, so no recommendation can stay in it", g.FieldName(uint16(f))))
			continue
		}
		c := &pairMeans{s: s, m: m, from: from, to: to, field: f, own: int(own[f]), apart: g.TwoSided()}
		if err := c.compute(ctx); err != nil {
			return nil, err
		}
		forecast.Exact = forecast.Exact && c.exact
		field, err := c.forecast(ctx)
		if err != nil {
			return nil, err
		}
		if field.Name = g.FieldName(uint16(f)); c.own != f {
			field.Own = g.FieldName(own[f])
		}
		forecast.Fields = append(forecast.Fields, field)
	}
	if len(forecast.Fields) == 0 && g.TwoSided() {
		return nil, fmt.Errorf("%w: no source with a field links to a target with a field; give both sides fields",
			ErrGraph)
	}
	if len(forecast.Fields) == 0 {
		return nil, fmt.Errorf("%w: no field has two nodes; give nodes fields, or derive them from vectors or links",
			ErrGraph)
	}
	forecast.all()
	return forecast, nil
}

// all adds up the fields, replicate by replicate.
func (f *Forecast) all() {
	all := &f.All
	all.Name = "all fields"
	for _, field := range f.Fields {
		all.Nodes += field.Nodes
	}
	sum := func(kind int, of func(FieldForecast) []Share) []Share {
		shares := make([]Share, f.Settings.Rounds)
		runs := make([][]float64, f.Settings.Replicates)
		for r := range runs {
			runs[r] = make([]float64, len(shares))
		}
		for _, field := range f.Fields {
			weight := float64(field.Nodes) / float64(all.Nodes)
			for t, s := range of(field) {
				shares[t].Round = s.Round
				shares[t].Share += weight * s.Share
				for r := range runs {
					runs[r][t] += weight * field.runs[kind][r][t]
				}
			}
		}
		spread(shares, runs, f.Settings.Level)
		return shares
	}
	all.Naive = sum(0, func(f FieldForecast) []Share { return f.Naive })
	all.Corrected = sum(1, func(f FieldForecast) []Share { return f.Corrected })
	if f.Settings.Truth != nil {
		all.Truth = new(float64)
		for _, field := range f.Fields {
			*all.Truth += float64(field.Nodes) / float64(all.Nodes) * *field.Truth
		}
	}
	for k := range f.Fields {
		f.Fields[k].runs = [2][][]float64{}
	}
}

// spread sets the intervals of shares by what the replicates drew.
func spread(shares []Share, runs [][]float64, level float64) {
	drawn := make([]float64, len(runs))
	for t := range shares {
		for r, run := range runs {
			drawn[r] = run[t]
		}
		slices.Sort(drawn)
		low, high := risk.QuantileInterval(drawn, level)
		shares[t].Low, shares[t].High = min(low, shares[t].Share), max(high, shares[t].Share)
	}
}

// The columns of pairMeans.
const (
	seenColumn     = iota // π̂ŷ
	relevantColumn        // ŷ
	trueColumn            // y
	columns
)

// pairMeans holds the mean probabilities from the sources of one field to the targets of every field.
type pairMeans struct {
	s        ForecastSettings
	m        model.Model
	from, to [][]int32 // sources and targets by field
	apart    bool      // a source is none of its field's targets
	field    int
	own      int // field of targets whose share it is
	exact    bool
	means    [columns][][]float64 // by source, then by target field
}

func (c *pairMeans) compute(ctx context.Context) error {
	sources := c.from[c.field]
	c.exact = len(sources) <= c.s.Sources
	if !c.exact {
		sources = choose(sources, c.s.Sources, c.s.Seed, uint64(c.field))
	}
	for k := range c.means {
		c.means[k] = make([][]float64, len(sources))
	}
	for _, nodes := range c.to {
		c.exact = c.exact && len(nodes) <= c.s.Targets
	}
	return kern.ChunksErr(ctx, len(sources), 1, c.s.Threads, func(_, k, _, _ int) error {
		return c.computeSource(k, sources[k])
	})
}

// computeSource fills in the means of one source.
func (c *pairMeans) computeSource(k int, source int32) error {
	for column := range c.means {
		c.means[column][k] = make([]float64, len(c.to))
	}
	for f, nodes := range c.to {
		targets := choose(nodes, c.s.Targets, c.s.Seed, uint64(source)<<16|uint64(f))
		if at := slices.Index(targets, source); at >= 0 {
			targets = slices.Delete(slices.Clone(targets), at, at+1)
		}
		if len(targets) == 0 {
			continue
		}
		b := model.Batch{Sources: slices.Repeat([]int32{source}, len(targets)), Targets: targets}
		z, s := make([]float32, len(targets)), make([]float32, len(targets))
		engine.Predictor{Link: c.m.Link, LinkParams: c.m.LinkParams, Propensity: c.m.Propensity,
			PropensityParams: c.m.PropensityParams}.Logits(z, s, b)
		var sums [columns]float64
		for j := range targets {
			y, pi := sigmoid(float64(z[j])), sigmoid(float64(s[j]))
			if math.IsNaN(y * pi) {
				return fmt.Errorf("%w: its logits of the pair (%d, %d) are %v and %v; fit it again", ErrModel, source,
					targets[j], z[j], s[j])
			}
			sums[seenColumn] += y * pi
			sums[relevantColumn] += y
			if c.s.Truth != nil {
				sums[trueColumn] += c.s.Truth(source, targets[j]).Link
			}
		}
		for column, sum := range sums {
			c.means[column][k][f] = sum / float64(len(targets))
		}
	}
	return nil
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// choose returns n of the nodes at random, or all where there are no more.
func choose(nodes []int32, n int, seed, stream uint64) []int32 {
	if len(nodes) <= n {
		return nodes
	}
	rng := newStream(seed, "choice", stream)
	// Floyd: every set of n is equally likely, in O(n) draws.
	taken := make(map[int]bool, n)
	chosen := make([]int32, 0, n)
	for j := len(nodes) - n; j < len(nodes); j++ {
		k := rng.IntN(j + 1)
		if taken[k] {
			k = j
		}
		taken[k] = true
		chosen = append(chosen, nodes[k])
	}
	slices.Sort(chosen)
	return chosen
}

// size is how many targets of a field a source has.
func (c *pairMeans) size(f int) float64 {
	n := len(c.to[f])
	if f == c.field && !c.apart {
		n--
	}
	return float64(n)
}

// process returns the category process of a recommender that shows in proportion to a column, over the
// sources with source k counted times[k] times; nil means each once. Categories without targets are
// left out; own is the place of the source's own field among those that stay.
func (c *pairMeans) process(column int, times []int) (p Process, own int) {
	var fields []int
	for f := range c.to {
		if c.size(f) == 0 {
			continue
		}
		if f == c.own {
			own = len(fields)
		}
		fields = append(fields, f)
		p.Pool = append(p.Pool, c.size(f))
	}
	total, scratch := make([]float64, len(fields)), make([]float64, len(fields)) // of the column
	relevant, seen, shares := make([]float64, len(fields)), make([]float64, len(fields)), make([]float64, len(fields))
	for k := range c.means[column] {
		weight := 1 / float64(len(c.means[column]))
		if times != nil {
			weight *= float64(times[k])
		}
		for v, f := range fields {
			x := max(c.means[column][k][f], leastRate)
			total[v] += weight * x
			relevant[v] += weight * c.means[relevantColumn][k][f]
			seen[v] += weight * c.means[seenColumn][k][f]
			scratch[v] = c.size(f) * x
		}
		normalise(scratch)
		for v, x := range scratch {
			shares[v] += weight * x
		}
	}
	p.Link, p.Propensity, p.Sizes, p.Corrected = relevant, make([]float64, len(fields)), shares, column != seenColumn
	if p.ShownOnly = c.s.ShownOnly; column != trueColumn {
		p.Explore = c.s.Explore
	}
	for v := range fields {
		// Sizes such that the first round is the mean of the sources' own shares.
		shares[v] = max(shares[v]/total[v], leastRate)
		p.Propensity[v] = clampRate(seen[v] / relevant[v])
		p.Link[v] = clampRate(relevant[v])
		if column == trueColumn {
			p.Link[v] = clampRate(total[v])
		}
	}
	return p, own
}

// clampRate moves a rate into the range that a process accepts.
func clampRate(x float64) float64 {
	if !(x > leastRate) {
		return leastRate
	}
	return min(x, 1)
}

// leastRate stands for probabilities that are 0 to the last bit.
const leastRate = 1e-12

func (c *pairMeans) forecast(ctx context.Context) (FieldForecast, error) {
	field := FieldForecast{Field: uint16(c.field), Nodes: len(c.from[c.field])}
	var err error
	if field.Naive, field.runs[0], err = c.shares(ctx, seenColumn); err != nil {
		return field, err
	}
	if field.Corrected, field.runs[1], err = c.shares(ctx, relevantColumn); err != nil {
		return field, err
	}
	if c.s.Truth != nil {
		p, own := c.process(trueColumn, nil)
		limit, err := p.Limit(1)
		if err != nil {
			return field, err
		}
		field.Truth = &limit[own]
	}
	return field, nil
}

func (c *pairMeans) shares(ctx context.Context, column int) ([]Share, [][]float64, error) {
	n := min(len(c.from[c.field]), maxDraws/c.s.Shown) * c.s.Shown
	shares := make([]Share, c.s.Rounds)
	p, own := c.process(column, nil)
	for t := range shares {
		limit, err := p.Limit(t + 1)
		if err != nil {
			return nil, nil, err
		}
		shares[t] = Share{Round: t + 1, Share: limit[own]}
	}
	runs := make([][]float64, c.s.Replicates)
	err := kern.ChunksErr(ctx, c.s.Replicates, 1, c.s.Threads, func(_, r, _, _ int) error {
		rng := newStream(c.s.Seed, "replicate", uint64(r)<<32|uint64(c.field)<<2|uint64(column))
		times := make([]int, len(c.means[column]))
		for range times {
			times[rng.IntN(len(times))]++
		}
		p, _ := c.process(column, times)
		shown, err := p.Run(n, c.s.Rounds, rng)
		for _, s := range shown {
			runs[r] = append(runs[r], s[own])
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	spread(shares, runs, c.s.Level)
	return shares, runs, nil
}

// Sentences say in plain words what the forecast is for one field; a node is called by the noun, such
// as "paper".
func (f FieldForecast) Sentences(noun string) []string {
	in100 := func(s Share) string { return fmt.Sprintf("%.0f", 100*s.Share) }
	last := len(f.Naive) - 1
	say := []string{fmt.Sprintf("Of 100 recommendations to a %s in %s, %s stay in %s now; after %d rounds %s "+
		"would (%.0f to %.0f).",
		noun, f.Name, in100(f.Naive[0]), f.Name, f.Naive[last].Round, in100(f.Naive[last]), 100*f.Naive[last].Low,
		100*f.Naive[last].High)}
	say = append(say, fmt.Sprintf("Corrected for exposure it is %s now and would be %s (%.0f to %.0f).",
		in100(f.Corrected[0]), in100(f.Corrected[last]), 100*f.Corrected[last].Low, 100*f.Corrected[last].High))
	if f.Truth != nil {
		say = append(say, fmt.Sprintf("By relevance alone it would be %.0f.", 100**f.Truth))
	}
	return say
}
