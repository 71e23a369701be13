package recommend

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

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
	bridgeRows    = 1024 // targets of a field scored and added up at a time: they stay in a cache
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
	targets  [][]int32 // of every field that is known, ascending
}

type bridgePair struct {
	source, target int32
	z              float32
}

func newBridgeSums(r *Recommender, s BridgeSettings) *bridgeSums {
	b := &bridgeSums{r, s, map[[2]uint16][][2]float64{}, map[[2]uint16][]bridgePair{},
		make([][]int32, r.g.FieldCount())}
	for _, j := range r.g.Targets() {
		if f := r.g.Field(j); f != graph.UnknownField {
			b.targets[f] = append(b.targets[f], j)
		}
	}
	return b
}

// seeker is a source by one of the two models: what it expects of each field, and the best of each.
type seeker struct {
	query  engine.SearchQuery
	source int32
	least  float32 // the least ŷ of the best
	left   []int32 // who is not counted, from the next stretch on, in the order of stretches
	sums   []float64
	best   [][]bridgePair
}

// bridgeRoom is what a thread needs for a stretch of targets: their ŷ, and sums of these.
type bridgeRoom struct {
	chances []float32
	sums    [][2]float64
}

func newBridgeRoom() *bridgeRoom { return &bridgeRoom{chances: make([]float32, bridgeRows)} }

func (b *bridgeSums) seeker(m ranking, source int32, least float32) seeker {
	g := b.r.g
	q, _ := b.r.query(m, b.r.Node(source))
	left := append([]int32{source}, g.Out(source)...)
	slices.SortFunc(left, func(i, j int32) int {
		return cmp.Or(cmp.Compare(g.Field(i), g.Field(j)), cmp.Compare(i, j))
	})
	return seeker{q, source, least, left, make([]float64, g.FieldCount()), make([][]bridgePair, g.FieldCount())}
}

// add looks at some sources. Every thread takes some of them, by one of the models, and goes through the targets.
func (b *bridgeSums) add(ctx context.Context, sources []int32, seen func(share float64)) error {
	r := b.r
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
	groups, rows := [][]seeker{seekers}, []*graph.Vectors{r.published.rows}
	if r.baseline.rows != r.published.rows {
		groups = [][]seeker{seekers[:len(sources)], seekers[len(sources):]}
		rows = append(rows, r.baseline.rows)
	}
	came := &bridgeProgress{report: seen}
	for _, targets := range b.targets {
		came.of += len(targets) * len(seekers)
	}
	for k, group := range groups {
		search, threads := b.alone()
		if err := kern.ChunksErr(ctx, len(group), (len(group)+threads-1)/threads, threads,
			func(_, _, first, last int) error {
				return b.pass(ctx, search, rows[k], group[first:last], came)
			}); err != nil {
			return err
		}
	}
	for k, i := range sources {
		corrected, naive := &seekers[k], &seekers[len(sources)+k]
		for g, targets := range b.targets {
			if cell := [2]uint16{r.g.Field(i), uint16(g)}; len(targets) > 0 && b.wants(cell) {
				b.values[cell] = append(b.values[cell], [2]float64{corrected.sums[g], naive.sums[g]})
				b.readings[cell] = append(b.readings[cell], corrected.best[g]...)
			}
		}
	}
	return nil
}

// wants reports whether a pair of fields is asked for.
func (b *bridgeSums) wants(cell [2]uint16) bool { return b.s.Within || cell[0] != cell[1] }

// alone returns what scores for one thread, and how many may do so at a time. An engine of another kind shares its work
// out itself.
func (b *bridgeSums) alone() (engine.Engine, int) {
	if alone, ok := engine.Alone(b.r.engine); ok {
		return alone, kern.Threads(b.r.threads)
	}
	return b.r.engine, 1
}

// bridgeProgress says how far all threads together have come.
type bridgeProgress struct {
	mu       sync.Mutex
	report   func(share float64)
	done, of int
}

func (p *bridgeProgress) add(pairs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += pairs
	p.report(float64(p.done) / float64(p.of))
}

// pass has some sources look at all targets: those of one field after another, a stretch at a time.
func (b *bridgeSums) pass(ctx context.Context, e engine.Engine, rows *graph.Vectors, seekers []seeker,
	came *bridgeProgress) error {
	stretch, err := graph.NewVectors(bridgeRows, rows.Dim())
	if err != nil {
		return err
	}
	defer stretch.Close()
	row, scores, room := make([]float32, rows.Dim()), make([]float32, len(seekers)*bridgeRows), newBridgeRoom()
	for f, all := range b.targets {
		search, asking := engine.TargetSearch{Blocks: true}, make([]*seeker, 0, len(seekers))
		for k := range seekers {
			if s := &seekers[k]; b.wants([2]uint16{b.r.g.Field(s.source), uint16(f)}) {
				q := s.query
				q.Offsets = q.Offsets[f : f+1] // all targets are of this field
				search.Queries, asking = append(search.Queries, q), append(asking, s)
			}
		}
		if len(asking) == 0 { // all are of this field themselves
			came.add(len(all) * len(seekers))
			continue
		}
		for targets := range slices.Chunk(all, bridgeRows) {
			for k, j := range targets {
				rows.Load(row, j)
				if err := stretch.Set(int32(k), row); err != nil {
					return err
				}
			}
			if search.Targets, err = stretch.Part(0, len(targets)); err != nil {
				return err
			}
			search.Scores = scores[:len(asking)*len(targets)]
			if _, err := e.TopK(ctx, search); err != nil {
				return err
			}
			for k, s := range asking {
				s.expect(b.r.g, targets, search.Scores[k*len(targets):][:len(targets)], room)
			}
			came.add(len(targets) * len(seekers))
		}
	}
	return nil
}

// expect adds up ŷ of a stretch of targets of one field by their scores z, without those that are linked already, and
// keeps the best few that have at least some ŷ.
func (s *seeker) expect(g *graph.Graph, targets []int32, z []float32, room *bridgeRoom) {
	y := room.chances[:len(z)]
	field, last := g.Field(targets[0]), targets[len(targets)-1]
	kern.Sigmoid(y, z)
	for ; len(s.left) > 0; s.left = s.left[1:] {
		i := s.left[0]
		if of := g.Field(i); of > field || of == field && i > last {
			break
		}
		if at, is := slices.BinarySearch(targets, i); is {
			y[at] = 0
		}
	}
	room.sums = kern.BlockSums(room.sums, y, y)
	for _, block := range room.sums {
		s.sums[field] += block[0]
	}
	below := math.Nextafter32(s.least, 0)
	best := &s.best[field]
	for at := kern.Above(y, below); at < len(y); at += 1 + kern.Above(y[at+1:], below) {
		*best = append(*best, bridgePair{s.source, targets[at], z[at]})
		if len(*best) > bridgeKeep {
			slices.SortFunc(*best, byLogit)
			*best = (*best)[:bridgeKeep]
		}
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
