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
	bridgeQueries = 1024 // sources scored by one pass
	bridgeRows    = 4096 // targets scored and added up at a time
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
		some := sources[from:min(from+bridgeQueries, len(sources))]
		if err := sums.add(ctx, some, func(share float64) {
			s.Progress.Report(progress.Event{Phase: "looking for bridges", Of: int64(len(sources)),
				Done: int64(from) + int64(share*float64(len(some)))})
		}); err != nil {
			return nil, err
		}
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

// seeker is a source by one of the two models: what it expects of each field, and the best of each.
type seeker struct {
	query  engine.SearchQuery
	source int32
	least  float32   // the least ŷ of the best
	left   [][]int32 // who is not counted, from the next stretch on: ascending, each
	sums   []float64
	best   [][]bridgePair
}

// bridgeRoom is what one thread needs: ŷ of a stretch of targets, and four sums per field.
type bridgeRoom struct {
	chances []float32
	sums    []float64
}

func newBridgeRoom(fields int) bridgeRoom {
	return bridgeRoom{make([]float32, bridgeRows), make([]float64, 4*fields)}
}

func (b *bridgeSums) seeker(m ranking, source int32, least float32) seeker {
	g := b.r.g
	q, _ := b.r.query(m, b.r.Node(source))
	return seeker{q, source, least, [][]int32{{source}, g.Out(source), b.never}, make([]float64, g.FieldCount()),
		make([][]bridgePair, g.FieldCount())}
}

// add looks at some sources: at all of them for one stretch of targets after another, whose vectors are read once.
func (b *bridgeSums) add(ctx context.Context, sources []int32, seen func(share float64)) error {
	r := b.r
	n, fields := r.g.Len(), r.g.FieldCount()
	seekers := make([]seeker, 0, 2*len(sources)) // by the model, and behind them by the naive one
	for which, m := range []ranking{r.published, r.baseline} {
		least := float32(2) // of the naive model none are kept
		if which == 0 && b.s.List > 0 {
			least = float32(b.s.Least)
		}
		for _, i := range sources {
			seekers = append(seekers, b.seeker(m, i, least))
		}
	}
	for from := 0; from < n; from += bridgeRows {
		to := min(from+bridgeRows, n)
		if err := b.score(ctx, seekers, from, to); err != nil {
			return err
		}
		if err := kern.ChunksErr(ctx, len(seekers), 16, r.threads, func(_, _, first, last int) error {
			room := newBridgeRoom(fields)
			for at := first; at < last; at++ {
				b.expect(&seekers[at], room, b.scores[at*(to-from):(at+1)*(to-from)], from)
			}
			return nil
		}); err != nil {
			return err
		}
		seen(float64(to) / float64(n))
	}
	for k, i := range sources {
		corrected, naive := &seekers[k], &seekers[len(sources)+k]
		for g := range fields {
			cell := [2]uint16{r.g.Field(i), uint16(g)}
			if uint16(g) == graph.UnknownField || cell[0] == cell[1] && !b.s.Within || b.reached != nil &&
				!b.reached[g] {
				continue
			}
			b.values[cell] = append(b.values[cell], [2]float64{corrected.sums[g], naive.sums[g]})
			b.readings[cell] = append(b.readings[cell], corrected.best[g]...)
		}
	}
	return nil
}

// score sets the scores of a stretch of targets: in one pass over the vectors, where both models are by the same.
func (b *bridgeSums) score(ctx context.Context, seekers []seeker, from, to int) error {
	r, size := b.r, to-from
	b.scores = slices.Grow(b.scores[:0], len(seekers)*size)[:len(seekers)*size]
	half, scores := len(seekers)/2, b.scores
	groups, rows := [][]seeker{seekers}, []*graph.Vectors{r.published.rows}
	if r.baseline.rows != r.published.rows {
		groups, rows = [][]seeker{seekers[:half], seekers[half:]}, append(rows, r.baseline.rows)
	}
	for k, group := range groups {
		targets, err := rows[k].Part(from, to)
		if err != nil {
			return err
		}
		search := engine.TargetSearch{Targets: targets, Fields: r.nodes.Fields[from:to], Blocks: true,
			Queries: make([]engine.SearchQuery, len(group)), Scores: scores[:len(group)*size]}
		for at := range group {
			search.Queries[at] = group[at].query
		}
		if _, err := r.engine.TopK(ctx, search); err != nil {
			return err
		}
		scores = scores[len(group)*size:]
	}
	return nil
}

// expect adds up ŷ of a stretch of a source's targets by their field, without those that are linked already, and keeps
// the best few of each field that have at least some ŷ.
func (b *bridgeSums) expect(s *seeker, room bridgeRoom, z []float32, from int) {
	below := math.Nextafter32(s.least, 0)
	y, own := room.chances[:len(z)], b.r.nodes.Fields[from:from+len(z)]
	kern.Sigmoid(y, z)
	for k := range s.left {
		for ; len(s.left[k]) > 0 && int(s.left[k][0]) < from+len(z); s.left[k] = s.left[k][1:] {
			y[int(s.left[k][0])-from] = 0
		}
	}
	addByField(s.sums, room.sums, y, own)
	for at := kern.Above(y, below); at < len(y); at += 1 + kern.Above(y[at+1:], below) {
		g := own[at]
		s.best[g] = append(s.best[g], bridgePair{s.source, int32(from + at), z[at]})
		if len(s.best[g]) > bridgeKeep {
			slices.SortFunc(s.best[g], byLogit)
			s.best[g] = s.best[g][:bridgeKeep]
		}
	}
}

// addByField adds numbers to the sums of their fields. Neighbours are often of one field: four sums of each, which do
// not wait for one another. room is for these.
func addByField(sums, room []float64, y []float32, fields []uint16) {
	clear(room)
	n := len(sums)
	a, b, c, d := room[:n], room[n:][:n], room[2*n:][:n], room[3*n:][:n]
	whole := len(y) &^ 3
	for k := 0; k < whole; k += 4 {
		four, of := y[k:k+4], fields[k:k+4]
		a[of[0]] += float64(four[0])
		b[of[1]] += float64(four[1])
		c[of[2]] += float64(four[2])
		d[of[3]] += float64(four[3])
	}
	for k := whole; k < len(y); k++ {
		a[fields[k]] += float64(y[k])
	}
	for g := range sums {
		sums[g] += (a[g] + b[g]) + (c[g] + d[g])
	}
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
