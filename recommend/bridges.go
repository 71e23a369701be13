package recommend

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Bridge is an ordered pair of fields between which exposure hides links, and what to read there.
//
// Corrected and Naive are how many unlinked targets of one field a source of the other would link to, on average:
// Σ_j ŷ_ij by either model, the second taking what was never shown for irrelevant. The interval of their difference
// counts which sources were looked at and, where the doctor knows it, how well the π̂ of the field pair is known: ŷ
// is what the links show, divided by π̂.
type Bridge struct {
	Source string `json:"source"` // fields
	Target string `json:"target"`

	Corrected float64 `json:"corrected"`
	Naive     float64 `json:"naive"`
	Gap       float64 `json:"gap"`
	Lower     float64 `json:"lower"` // 95% interval of the gap
	Upper     float64 `json:"upper"`

	Propensity float64 `json:"propensity"` // π̂ of the field pair
	Sources    int     `json:"sources"`    // looked at
	Links      int     `json:"links"`      // that π̂ was learned from
	Weak       bool    `json:"weak,omitempty"`

	Reading []Reading `json:"reading"`
}

// Reading is a target for a source, both by what they are.
type Reading struct {
	For Item `json:"for"`
	Item
}

// BridgeSettings say how far to look. Zero means the default.
type BridgeSettings struct {
	Sources  int     // of each field, drawn; 0 means 200
	List     int     // pairs of a reading list; 0 means 10, below 0 none
	Within   bool    // also pairs of one field
	Least    float64 // the least ŷ of what is read; 0 means .05
	Seed     uint64
	Progress func(done float64)
}

const (
	bridgeQueries = 64   // sources scored by one pass
	bridgeRows    = 4096 // targets scored at a time
	bridgeKeep    = 3    // of each source and target field
	fewSources    = 5    // fewer give no interval worth the name
)

// Bridges compares the model with the naive one for every ordered pair of fields, the largest gap first and
// what rests on little last.
func (r *Recommender) Bridges(ctx context.Context, s BridgeSettings) ([]Bridge, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	if r.naive == nil {
		return nil, fmt.Errorf("%w: bridges are gaps between two models; give a naive one as well", ErrModel)
	}
	for _, m := range []model.Model{r.model, *r.naive} {
		if _, ok := m.Link.(model.InnerProduct); !ok {
			return nil, fmt.Errorf("%w: bridges need every pair, and a %s model is too slow for that; fit a "+
				"diagonal or low-rank one", ErrModel, m.Link.Kind())
		}
	}
	s.Sources, s.Least = cmp.Or(s.Sources, 200), cmp.Or(s.Least, .05)
	if s.List == 0 {
		s.List = 10
	}
	if s.Sources < 1 || !(s.Least > 0 && s.Least < 1) {
		return nil, fmt.Errorf("%w: %d sources, a least ŷ of %v", ErrQuery, s.Sources, s.Least)
	}
	members := make([][]int32, r.g.FieldCount())
	for i := range int32(r.g.Len()) {
		members[r.g.Field(i)] = append(members[r.g.Field(i)], i)
	}
	random := rand.New(rand.NewPCG(s.Seed, 0xb71d9e))
	var sources []int32
	for f := range members {
		if uint16(f) == graph.UnknownField {
			continue
		}
		random.Shuffle(len(members[f]), func(a, b int) { members[f][a], members[f][b] = members[f][b], members[f][a] })
		members[f] = members[f][:min(s.Sources, len(members[f]))]
		slices.Sort(members[f])
		sources = append(sources, members[f]...)
	}
	sums := newBridgeSums(r, s)
	for from := 0; from < len(sources); from += bridgeQueries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := sums.add(sources[from:min(from+bridgeQueries, len(sources))]); err != nil {
			return nil, err
		}
		if s.Progress != nil {
			s.Progress(float64(from) / float64(len(sources)))
		}
	}
	return sums.bridges(), nil
}

// bridgeSums collects what the sources of each field expect of each other field.
type bridgeSums struct {
	r        *Recommender
	s        BridgeSettings
	values   map[[2]uint16][][2]float64 // of each source: corrected, naive
	readings map[[2]uint16][]bridgePair
}

type bridgePair struct {
	source, target int32
	z              float32
}

func newBridgeSums(r *Recommender, s BridgeSettings) *bridgeSums {
	return &bridgeSums{r, s, map[[2]uint16][][2]float64{}, map[[2]uint16][]bridgePair{}}
}

// add looks at some sources.
func (b *bridgeSums) add(sources []int32) error {
	r := b.r
	n, fields := r.g.Len(), r.g.FieldCount()
	chunks := (n + bridgeRows - 1) / bridgeRows
	// sums of each chunk, added up in their order afterwards, so that threads do not matter
	partial := make([][2][]float64, chunks)
	best := make([][]bridgePair, chunks)
	for which, m := range []model.Model{r.model, *r.naive} {
		queries, offsets := b.queries(sources, m)
		failed := make([]error, chunks)
		kern.Chunks(n, bridgeRows, r.threads, func(_, chunk, from, to int) {
			partial[chunk][which], best[chunk], failed[chunk] = b.chunk(sources, queries, offsets, from, to,
				which == 0, best[chunk])
		})
		for _, err := range failed {
			if err != nil {
				return err
			}
		}
	}
	for k, i := range sources {
		for g := range fields {
			cell := [2]uint16{r.g.Field(i), uint16(g)}
			if uint16(g) == graph.UnknownField || cell[0] == cell[1] && !b.s.Within {
				continue
			}
			var sum [2]float64
			for c := range partial {
				for which := range sum {
					sum[which] += partial[c][which][k*fields+g]
				}
			}
			b.values[cell] = append(b.values[cell], sum)
		}
	}
	if b.s.List < 0 {
		return nil
	}
	// the best few of each source and field
	kept := map[[2]int32][]bridgePair{}
	for _, pairs := range best {
		for _, p := range pairs {
			key := [2]int32{p.source, int32(r.g.Field(p.target))}
			list := append(kept[key], p)
			slices.SortFunc(list, byLogit)
			kept[key] = list[:min(bridgeKeep, len(list))]
		}
	}
	for _, i := range sources {
		for g := range fields {
			cell := [2]uint16{r.g.Field(i), uint16(g)}
			b.readings[cell] = append(b.readings[cell], kept[[2]int32{i, int32(g)}]...)
		}
	}
	return nil
}

func byLogit(a, b bridgePair) int {
	return cmp.Or(cmp.Compare(b.z, a.z), cmp.Compare(a.source, b.source), cmp.Compare(a.target, b.target))
}

// queries returns the query of every source and its offsets.
func (b *bridgeSums) queries(sources []int32, m model.Model) (queries []float32, offsets []float32) {
	d, fields := b.r.nodes.Vectors.Dim(), b.r.g.FieldCount()
	queries, offsets = make([]float32, len(sources)*d), make([]float32, len(sources)*fields)
	inner := m.Link.(model.InnerProduct)
	for k, i := range sources {
		inner.Query(queries[k*d:(k+1)*d], offsets[k*fields:(k+1)*fields], m.LinkParams, i)
	}
	return queries, offsets
}

// chunk adds up ŷ of some targets, by source and field, without what is linked already, and keeps the best pairs.
func (b *bridgeSums) chunk(sources []int32, queries, offsets []float32, from, to int, keep bool,
	best []bridgePair) ([]float64, []bridgePair, error) {
	r := b.r
	matrix, fields, count := kern.MatrixOf(r.nodes.Vectors), r.g.FieldCount(), len(sources)
	rows, err := matrix.Slice(from, to)
	if err != nil {
		return nil, nil, err
	}
	small, err := kern.View(queries, count, matrix.Dim(), matrix.Dim())
	if err != nil {
		return nil, nil, err
	}
	z := make([]float32, (to-from)*count)
	scores, err := kern.View(z, to-from, count, count)
	if err != nil {
		return nil, nil, err
	}
	kern.MulT(scores, rows, small)
	for j := from; j < to; j++ {
		row, g := z[(j-from)*count:][:count], int(r.g.Field(int32(j)))
		for k := range row {
			row[k] += offsets[k*fields+g]
		}
	}
	y := make([]float32, len(z))
	kern.Sigmoid(y, z)
	sums := make([]float64, count*fields)
	for j := from; j < to; j++ {
		g := int(r.g.Field(int32(j)))
		for k, p := range y[(j-from)*count:][:count] {
			i := sources[k]
			if i == int32(j) || r.g.HasLink(i, int32(j)) {
				continue
			}
			sums[k*fields+g] += float64(p)
			if keep && b.s.List > 0 && float64(p) >= b.s.Least && (b.s.Within || r.g.Field(i) != uint16(g)) {
				best = append(best, bridgePair{i, int32(j), z[(j-from)*count+k]})
			}
		}
	}
	return sums, best, nil
}

// bridges sums up.
func (b *bridgeSums) bridges() []Bridge {
	r := b.r
	var out []Bridge
	for cell, values := range b.values {
		bridge := Bridge{Source: r.g.FieldName(cell[0]), Target: r.g.FieldName(cell[1]), Sources: len(values)}
		n := float64(len(values))
		for _, v := range values {
			bridge.Corrected += v[0] / n
			bridge.Naive += v[1] / n
		}
		bridge.Gap = bridge.Corrected - bridge.Naive
		var variance float64
		for _, v := range values {
			d := v[0] - v[1] - bridge.Gap
			variance += d * d / (n * math.Max(n-1, 1))
		}
		if r.byField[cell[0]] >= 0 && r.byField[cell[1]] >= 0 {
			bridge.Propensity = sigmoid(float64(r.propensities(r.Node(r.byField[cell[0]]),
				[]int32{r.byField[cell[1]]})[0]))
		}
		if found, known := r.cells[cell]; known {
			bridge.Links = found.Links
			bridge.Weak = found.Links < fewLinks
			e := bridge.Corrected * found.LogitError * (1 - bridge.Propensity) // of log π̂, by the delta method
			variance += e * e
		}
		bridge.Weak = bridge.Weak || len(values) < fewSources
		half := 1.96 * math.Sqrt(variance)
		bridge.Lower, bridge.Upper = bridge.Gap-half, bridge.Gap+half
		bridge.Reading = b.reading(cell)
		out = append(out, bridge)
	}
	rank := func(b Bridge) int {
		if b.Weak {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b Bridge) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Gap, a.Gap), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Target, b.Target))
	})
	return out
}

// reading lists the best pairs of a bridge, no target twice and no source more than twice.
func (b *bridgeSums) reading(cell [2]uint16) []Reading {
	pairs := b.readings[cell]
	slices.SortFunc(pairs, byLogit)
	var out []Reading
	sources, targets := map[int32]int{}, map[int32]bool{}
	for _, p := range pairs {
		if len(out) >= b.s.List {
			break
		}
		if sources[p.source] >= 2 || targets[p.target] {
			continue
		}
		sources[p.source]++
		targets[p.target] = true
		item := b.r.item(p.target)
		item.Rank, item.Logit, item.Link, item.Shown = len(out)+1, float64(p.z), sigmoid(float64(p.z)), 1
		item.Propensity = sigmoid(float64(b.r.propensities(b.r.Node(p.source), []int32{p.target})[0]))
		out = append(out, Reading{For: b.r.item(p.source), Item: item})
	}
	return out
}
