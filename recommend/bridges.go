package recommend

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/progress"
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

	Propensity float64 `json:"propensity"` // mean π̂ of the field pair
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
	Progress progress.Func
}

const (
	bridgeQueries = 32   // sources scored by one pass
	bridgeRows    = 4096 // targets added up at a time
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
	for _, m := range []ranking{r.published, r.baseline} {
		if m.rows == nil {
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
	for _, i := range r.g.Sources() {
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
		if err := sums.add(ctx, sources[from:min(from+bridgeQueries, len(sources))]); err != nil {
			return nil, err
		}
		s.Progress.Report(progress.Event{Phase: "looking for bridges", Of: int64(len(sources)),
			Done: int64(min(from+bridgeQueries, len(sources)))})
	}
	return sums.bridges(ctx)
}

// bridgeSums collects what the sources of each field expect of each other field.
type bridgeSums struct {
	r        *Recommender
	s        BridgeSettings
	values   map[[2]uint16][][2]float64 // of each source: corrected, naive
	readings map[[2]uint16][]bridgePair
	reached  []bool  // which fields have targets; nil: all
	never    []int32 // nodes that are no targets
	scores   []float32
}

type bridgePair struct {
	source, target int32
	z              float32
}

func newBridgeSums(r *Recommender, s BridgeSettings) *bridgeSums {
	b := &bridgeSums{r, s, map[[2]uint16][][2]float64{}, map[[2]uint16][]bridgePair{}, nil, nil, nil}
	if r.g.TwoSided() {
		for i := range int32(r.g.Len()) {
			if !r.g.IsTarget(i) {
				b.never = append(b.never, i)
			}
		}
		b.reached = make([]bool, r.g.FieldCount())
		for _, j := range r.g.Targets() {
			b.reached[r.g.Field(j)] = true
		}
	}
	return b
}

// add looks at some sources.
func (b *bridgeSums) add(ctx context.Context, sources []int32) error {
	r := b.r
	n, fields := r.g.Len(), r.g.FieldCount()
	if err := b.score(ctx, sources); err != nil {
		return err
	}
	expected, best := make([]float64, 2*len(sources)*fields), make([][][]bridgePair, len(sources))
	if err := kern.ChunksErr(ctx, 2*len(sources), 1, r.threads, func(_, at, _, _ int) error {
		k := at % len(sources)
		least := float32(2) // of the naive model none are kept
		if at < len(sources) && b.s.List > 0 {
			least = float32(b.s.Least)
		}
		found := b.expect(expected[at*fields:(at+1)*fields], sources[k], b.scores[at*n:(at+1)*n], least)
		if at < len(sources) {
			best[k] = found
		}
		return nil
	}); err != nil {
		return err
	}
	naive := expected[len(sources)*fields:]
	for k, i := range sources {
		for g := range fields {
			cell := [2]uint16{r.g.Field(i), uint16(g)}
			if uint16(g) == graph.UnknownField || cell[0] == cell[1] && !b.s.Within || b.reached != nil &&
				!b.reached[g] {
				continue
			}
			b.values[cell] = append(b.values[cell], [2]float64{expected[k*fields+g], naive[k*fields+g]})
			b.readings[cell] = append(b.readings[cell], best[k][g]...)
		}
	}
	return nil
}

// score sets the scores of all targets for some sources by the model, and behind them those by the naive one: in one
// pass over the vectors, where both are by the same.
func (b *bridgeSums) score(ctx context.Context, sources []int32) error {
	r, each := b.r, len(sources)*b.r.g.Len()
	b.scores = slices.Grow(b.scores[:0], 2*each)[:2*each]
	var searches []engine.TargetSearch
	for which, m := range []ranking{r.published, r.baseline} {
		if which == 0 || m.rows != r.published.rows {
			searches = append(searches, engine.TargetSearch{Targets: m.rows, Fields: r.nodes.Fields, Blocks: true})
		}
		search := &searches[len(searches)-1]
		for _, i := range sources {
			q, _ := r.query(m, r.Node(i))
			search.Queries = append(search.Queries, q)
		}
	}
	scores := b.scores
	for _, search := range searches {
		size := len(search.Queries) * r.g.Len()
		if search.Scores, scores = scores[:size], scores[size:]; ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := r.engine.TopK(ctx, search); err != nil {
			return err
		}
	}
	return nil
}

// expect adds up ŷ of a source's targets by their field, without those that are linked already, and returns the best
// few of each field that have at least some ŷ. Sums are made of fixed stretches of targets.
func (b *bridgeSums) expect(sums []float64, source int32, z []float32, least float32) [][]bridgePair {
	fields := b.r.nodes.Fields
	var room [bridgeRows]float32
	left := [][]int32{{source}, b.r.g.Out(source), b.never} // ascending, each
	best, part := make([][]bridgePair, len(sums)), make([]float64, len(sums))
	for from := 0; from < len(z); from += bridgeRows {
		clear(part)
		to := min(from+bridgeRows, len(z))
		y, own := room[:to-from], fields[from:to]
		kern.Sigmoid(y, z[from:to])
		for k := range left {
			for ; len(left[k]) > 0 && int(left[k][0]) < to; left[k] = left[k][1:] {
				y[int(left[k][0])-from] = 0
			}
		}
		for k, x := range y {
			g := own[k]
			part[g] += float64(x)
			if x >= least {
				best[g] = append(best[g], bridgePair{source, int32(from + k), z[from+k]})
				if len(best[g]) > bridgeKeep {
					slices.SortFunc(best[g], byLogit)
					best[g] = best[g][:bridgeKeep]
				}
			}
		}
		for g, x := range part {
			sums[g] += x
		}
	}
	return best
}

func byLogit(a, b bridgePair) int {
	return cmp.Or(cmp.Compare(b.z, a.z), cmp.Compare(a.source, b.source), cmp.Compare(a.target, b.target))
}

// bridges sums up.
func (b *bridgeSums) bridges(ctx context.Context) ([]Bridge, error) {
	r := b.r
	cells := slices.Collect(maps.Keys(b.values))
	propensities, err := r.FieldPropensities(ctx, cells)
	if err != nil {
		return nil, err
	}
	var out []Bridge
	for at, cell := range cells {
		values := b.values[cell]
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
		bridge.Propensity = propensities[at]
		if found, known := r.cells[cell]; known {
			bridge.Links = found.Links
			bridge.Weak = found.Links < fewLinks
			e := bridge.Corrected * found.LogitError * (1 - bridge.Propensity) // of log π̂, by the delta method
			variance += e * e
		}
		bridge.Weak = bridge.Weak || len(values) < fewSources
		half := 1.96 * math.Sqrt(variance)
		bridge.Lower, bridge.Upper = bridge.Gap-half, bridge.Gap+half
		if bridge.Reading, err = b.reading(ctx, cell); err != nil {
			return nil, err
		}
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
	return out, nil
}

// reading lists the best pairs of a bridge, no target twice and no source more than twice.
func (b *bridgeSums) reading(ctx context.Context, cell [2]uint16) ([]Reading, error) {
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
		item := b.r.item(nil, p.target)
		item.Rank, item.Logit, item.Link, item.Shown = len(out)+1, float64(p.z), sigmoid(float64(p.z)), 1
		logits, err := b.r.propensities(ctx, b.r.Node(p.source), []int32{p.target}, []float32{p.z})
		if err != nil {
			return nil, err
		}
		item.Propensity = sigmoid(float64(logits[0]))
		out = append(out, Reading{For: b.r.item(nil, p.source), Item: item})
	}
	return out, nil
}
