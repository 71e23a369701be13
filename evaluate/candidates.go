package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/progress"
	"unseen/sample"
)

// Candidates says what every source of a held-out subset could have linked to, and what it did link to. With
// an order these are the targets before the source; without one, all other targets of its own and earlier subsets.
// A link belongs to the subset of its source, so that none of these links was learned from. With a split of links, all
// targets are candidates but those that the source links to in earlier subsets.
type Candidates struct {
	g        *graph.Graph
	sequence []int32 // every source's candidates are targets of its beginning, less the source itself
	before   *graph.Order
	known    *graph.Graph // whose links are no candidates; nil: there are none
	preceded []int32      // by rank in the order, how many targets come before; nil: as many as the rank
	sources  []int32
	links    [][]int32
	of       int // sources there were before some were drawn
}

// NewCandidates returns the candidates of a subset that was held out, [graph.Test] most often, for its sources
// that have a link among them.
func NewCandidates(d *sample.Prepared, subset graph.Subset) (*Candidates, error) {
	switch {
	case d.Split == nil:
		return nil, fmt.Errorf("%w: nothing was held out; split the graph to rank links that were not learned from",
			ErrEmpty)
	case subset == graph.Train:
		return nil, fmt.Errorf("%w: links of the training subset were learned from; rank those of validation or test",
			ErrEmpty)
	}
	c := &Candidates{g: d.Graph, before: d.Order, known: d.Split.Known(subset)}
	if c.known != nil {
		c.sequence = d.Graph.Targets()
	} else {
		for p := graph.Train; p <= subset; p++ {
			c.sequence = append(c.sequence, d.Split.Nodes(p)...)
		}
	}
	if c.before != nil && !slices.Equal(c.sequence, c.before.Sequence[:len(c.sequence)]) {
		return nil, fmt.Errorf("%w: the split is of another order than the one that candidates keep to", ErrTarget)
	}
	c.countTargets()
	held := d.Split.Graph(subset)
	for _, i := range slices.Sorted(slices.Values(d.Split.Nodes(subset))) {
		var links []int32
		for _, j := range held.Out(i) {
			if c.has(d.Split, i, j) {
				links = append(links, j)
			}
		}
		if len(links) > 0 {
			c.sources, c.links = append(c.sources, i), append(c.links, links)
		}
	}
	if len(c.sources) == 0 {
		return nil, fmt.Errorf("%w: no source of the %v subset has a link", ErrEmpty, subset)
	}
	c.of = len(c.sources)
	return c, nil
}

// DrawnBy is by what a source is drawn: those with the lowest numbers are. It depends on nothing but the seed and the
// source, so that workers that have a part of the sources each draw the same as one machine.
func DrawnBy(seed uint64, source int32) float64 { return sample.Uniform(seed, 0x4e1d, uint64(source)) }

// Some returns the candidates of at most so many of the sources, drawn by the seed: see [DrawnBy].
func (c *Candidates) Some(most int, seed uint64) (*Candidates, error) {
	if most < 1 {
		return nil, fmt.Errorf("%w: %d sources; give at least 1", ErrEmpty, most)
	}
	places := make([]int, len(c.sources))
	for place := range places {
		places[place] = place
	}
	slices.SortFunc(places, func(a, b int) int {
		return cmp.Compare(DrawnBy(seed, c.sources[a]), DrawnBy(seed, c.sources[b]))
	})
	places = places[:min(most, len(places))]
	slices.Sort(places)
	few := &Candidates{g: c.g, sequence: c.sequence, before: c.before, known: c.known, preceded: c.preceded, of: c.of}
	for _, place := range places {
		few.sources, few.links = append(few.sources, c.sources[place]), append(few.links, c.links[place])
	}
	return few, nil
}

// Of returns how many sources there were before some were drawn.
func (c *Candidates) Of() int { return c.of }

// Before returns the order in which candidates come before their source; nil where all nodes of the
// subsets are candidates.
func (c *Candidates) Before() *graph.Order { return c.before }

func (c *Candidates) has(split *graph.Split, i, j int32) bool {
	if c.before != nil {
		return c.before.Precedes(j, i)
	}
	return i != j && split.Subset(j) <= split.Subset(i)
}

// Sources returns the sources, ascending, in the order in which they are ranked. The slice must not be changed.
func (c *Candidates) Sources() []int32 { return c.sources }

// Links returns what a source links to among its candidates, ascending, by its place in Sources.
func (c *Candidates) Links(place int) []int32 { return c.links[place] }

// Has reports whether node j is a candidate of source i.
func (c *Candidates) Has(i, j int32) bool {
	return i != j && c.g.IsTarget(j) && (c.before == nil || c.before.Precedes(j, i)) &&
		(c.known == nil || !c.known.HasLink(i, j))
}

// Known returns what a source links to in earlier subsets, by its place in Sources, if the links were split: these are
// no candidates.
func (c *Candidates) Known(place int) []int32 {
	if c.known == nil {
		return nil
	}
	return c.known.Out(c.sources[place])
}

// Count returns how many candidates a source has, by its place in Sources.
func (c *Candidates) Count(place int) int {
	i := c.sources[place]
	if c.before != nil {
		rank := c.before.Rank[i]
		if c.preceded != nil {
			return int(c.preceded[rank])
		}
		return int(rank)
	}
	count := len(c.sequence)
	if c.g.IsTarget(i) {
		count--
	}
	if c.known != nil {
		count -= len(c.known.Out(i))
	}
	return count
}

// countTargets leaves only targets in the sequence, and counts those that come before each rank.
func (c *Candidates) countTargets() {
	if !c.g.TwoSided() {
		return
	}
	if c.before != nil {
		count := int32(0)
		for _, j := range c.before.Sequence {
			if c.preceded = append(c.preceded, count); c.g.IsTarget(j) {
				count++
			}
		}
	}
	c.sequence = slices.DeleteFunc(slices.Clone(c.sequence), func(j int32) bool { return !c.g.IsTarget(j) })
}

// exclude puts every node that is no candidate of a source last. inside tells which nodes are in the sequence.
func (c *Candidates) exclude(scores []float32, inside []bool, source int32) {
	none := float32(math.Inf(-1))
	if c.known != nil {
		for _, j := range c.known.Out(source) {
			scores[j] = none
		}
	}
	if c.before != nil {
		for _, j := range c.before.Sequence[c.before.Rank[source]:] {
			scores[j] = none
		}
		if !c.g.TwoSided() {
			return
		}
	}
	scores[source] = none
	if len(c.sequence) < len(scores) {
		for j := range scores {
			if !inside[j] {
				scores[j] = none
			}
		}
	}
}

// By is what candidates are ranked by.
type By string

const (
	ByRelevance By = "ŷ"   // P(link | shown): what would be linked to if it were shown
	BySeen      By = "π̂ŷ" // P(shown and linked): what will be seen, exposure and all
)

// Standing is how the candidates of every source came out. Its elements are in the order of
// [Candidates.Sources].
type Standing struct {
	By      By
	Ranking Ranking // of the links among all candidates
	Lists   Lists   // the first ones
}

// RankSettings say how candidates are ranked. The zero value is a good choice.
type RankSettings struct {
	By       []By // nil means ByRelevance alone
	First    int  // how many of each list are kept; 0 means 100
	Threads  int  // 0 means all processors; results do not depend on it
	Progress progress.Func
}

// rankedTogether is how many sources share a pass over the targets.
const rankedTogether = 128

// Rank scores all candidates of every source with a model and returns the ranks of its links, and the first
// of each list: a Standing for each element of s.By. Equal scores rank by node number, the lowest first, as
// in [RankScores]. The judge's engine scores link models that are inner products for 128 sources at a time, and others
// source by source. Scores are float32.
func (c *Candidates) Rank(ctx context.Context, j *fit.Judge, s RankSettings) ([]Standing, error) {
	if c.g == nil {
		return nil, fmt.Errorf("%w: candidates of no graph; make them by NewCandidates", ErrEmpty)
	}
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	out := make([]Standing, len(s.By))
	for k, by := range s.By {
		out[k] = Standing{by, make(Ranking, len(c.sources)), make(Lists, len(c.sources))}
	}
	inside := make([]bool, c.g.Len()) // the sequence of candidates
	for _, i := range c.sequence {
		inside[i] = true
	}
	w, err := newScorer(model.NodesOf(c.g), j, min(rankedTogether, len(c.sources)), s.Threads)
	if err != nil {
		return nil, err
	}
	if err := w.each(ctx, c.sources, s, func(place, k int, room *scorerRoom) error {
		c.exclude(room.scores, inside, c.sources[place])
		ranked, list, err := rankAmong(room.scores, c.links[place], min(s.First, c.Count(place)), &room.bins)
		if err != nil {
			return fmt.Errorf("source %s: %w", c.g.ID(c.sources[place]), err)
		}
		out[k].Ranking[place], out[k].Lists[place] = ranked, list
		return nil
	}); err != nil {
		return nil, err
	}
	return out, nil
}

// complete fills in what is 0 and refuses what cannot be.
func (s RankSettings) complete() (RankSettings, error) {
	if s.By == nil {
		s.By = []By{ByRelevance}
	}
	for _, by := range s.By {
		if by != ByRelevance && by != BySeen {
			return s, fmt.Errorf("%w: candidates are ranked by %s or %s, not by %q", ErrUndefined, ByRelevance,
				BySeen, by)
		}
	}
	s.First, s.Threads = cmp.Or(s.First, 100), kern.Threads(s.Threads)
	return s, checkCutoff(s.First)
}

// scorer computes what nodes are ranked by as targets of sources.
type scorer struct {
	j      *fit.Judge
	engine engine.Engine
	search engine.TargetSearch // of the sources that are ranked together, where the link model is an inner product
	nodes  model.Nodes
	fields []uint16
	terms  *model.ExposureTerms // of π̂, if it depends on more than fields; nil if not
	first  []int32              // of every field, a node of it, if all pairs of two fields share one π̂; nil if not
	all    []int32              // every node
}

// scorerRoom is what one thread needs.
type scorerRoom struct {
	scores []float32 // of one source
	bins   bins
}

// newScorer makes one for nodes, of which so many sources are scored at a time.
func newScorer(nodes model.Nodes, j *fit.Judge, together, threads int) (*scorer, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	n := nodes.Len()
	w := &scorer{j: j, engine: engine.OrCPU(j.Engine, threads), fields: nodes.Fields, nodes: nodes,
		all: make([]int32, n)}
	for i := range w.all {
		w.all[i] = int32(i)
	}
	if terms, ok := model.TermsOf(j.Propensity, j.PropensityParams); ok && !terms.ByFields() {
		w.terms = &terms
	} else if ok {
		w.first = make([]int32, nodes.FieldCount)
		for i, f := range slices.Backward(w.fields) {
			w.first[f] = int32(i)
		}
	}
	if inner, ok := j.Link.(model.InnerProduct); ok {
		rows, err := inner.Rows(j.LinkParams)
		if err != nil {
			return nil, err
		}
		w.search = engine.TargetSearch{Targets: rows, Fields: w.fields, Blocks: true,
			Scores: make([]float32, together*n)}
		for range together {
			w.search.Queries = append(w.search.Queries, engine.SearchQuery{
				Vector: make([]float32, rows.Dim()), Offsets: make([]float32, nodes.FieldCount)})
		}
	}
	return w, nil
}

// each scores all nodes as targets of every source and hands what they are ranked by to a function, in its room, by the
// place of the source and the place in s.By. Calls for different sources may come at once.
func (w *scorer) each(ctx context.Context, sources []int32, s RankSettings,
	visit func(place, by int, room *scorerRoom) error) error {
	rooms := make([]scorerRoom, s.Threads)
	for from := 0; from < len(sources); from += rankedTogether {
		some := sources[from:min(from+rankedTogether, len(sources))]
		if err := w.multiply(ctx, some); err != nil {
			return err
		}
		err := kern.ChunksErr(ctx, len(some), 1, s.Threads, func(worker, row, _, _ int) error {
			room := &rooms[worker]
			z, err := w.logits(ctx, row, some[row])
			if err != nil {
				return err
			}
			for k, by := range s.By {
				room.scores = append(room.scores[:0], z...)
				if err := w.see(ctx, room.scores, some[row], by); err != nil {
					return err
				}
				if err := visit(from+row, k, room); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.Progress.Report(progress.Event{Phase: "ranking candidates", Done: int64(from + len(some)),
			Of: int64(len(sources))})
	}
	return nil
}

// multiply has the engine score all nodes as targets of some sources, if that takes inner products alone.
func (w *scorer) multiply(ctx context.Context, sources []int32) error {
	inner, ok := w.j.Link.(model.InnerProduct)
	if !ok {
		return nil
	}
	w.search.Queries = w.search.Queries[:len(sources)] // the last are fewer
	w.search.Scores = w.search.Scores[:len(sources)*len(w.all)]
	for k, i := range sources {
		inner.Query(w.search.Queries[k].Vector, w.search.Queries[k].Offsets, w.j.LinkParams, i)
	}
	_, err := w.engine.TopK(ctx, w.search)
	return err
}

// logits returns those of ŷ of all nodes as targets of a source, in a row of the search.
func (w *scorer) logits(ctx context.Context, row int, source int32) ([]float32, error) {
	if n := len(w.all); w.search.Scores != nil {
		return w.search.Scores[row*n : (row+1)*n], nil
	}
	z, _, err := engine.SourceLogits(ctx, w.engine, engine.Predictor{Link: w.j.Link, LinkParams: w.j.LinkParams},
		source, w.all)
	return z, err
}

// see turns logits of ŷ into what nodes are ranked by.
func (w *scorer) see(ctx context.Context, scores []float32, source int32, by By) error {
	if by == ByRelevance {
		return nil
	}
	s, err := w.exposure(ctx, scores, source)
	if err != nil {
		return err
	}
	kern.LogSigmoid(scores, scores)
	kern.LogSigmoid(s, s)
	for k, f := range w.fields {
		if w.first == nil {
			scores[k] += s[k]
		} else {
			scores[k] += s[f]
		}
	}
	return nil
}

// exposure returns the logits of π̂ of all nodes as targets of a source, given those of ŷ; or of one node of each
// field, where they tell π̂ of all.
func (w *scorer) exposure(ctx context.Context, z []float32, source int32) ([]float32, error) {
	if w.terms != nil {
		s := make([]float32, len(w.all))
		w.terms.Logits(s, w.nodes, source, w.all, z)
		return s, nil
	}
	targets := w.all
	if w.first != nil {
		targets = w.first
	}
	_, s, err := engine.SourceLogits(ctx, w.engine,
		engine.Predictor{Propensity: w.j.Propensity, PropensityParams: w.j.PropensityParams}, source, targets)
	return s, err
}

// bins is room to count scores in.
type bins struct {
	counts [binCount]int32
	first  [binCount + 1]int32 // of each bin, its first mark; marks are in ascending order
	marks  []mark
	pushed []int
	list   kern.Heap
}

const binCount = 1024

type mark struct {
	LinkScore
	place int // in linked
}

// rankAmong is [RankScores] for float32 scores with a list of the first k.
func rankAmong(scores []float32, linked []int32, k int, b *bins) (Ranked, []int32, error) {
	links := make([]LinkScore, len(linked))
	for place, target := range linked {
		links[place] = LinkScore{target, scores[target]}
	}
	ranks, err := b.count(scores, nil, links, k)
	if err != nil {
		return Ranked{}, nil, err
	}
	list := make([]int32, len(b.list))
	for p, hit := range b.list {
		list[p] = hit.Row
	}
	return Ranked{slices.Clone(linked), ranks}, list, nil
}

// count counts, for every link, the scores that are not behind it, its own included, and leaves the first k in b.list,
// best first. The numbers of the targets ascend; nil: they are their places. Scores between those of the worst and the
// best link fall into bins; only in bins that hold a link's score is more compared than that.
func (b *bins) count(scores []float32, numbers []int32, links []LinkScore, k int) ([]int, error) {
	low, scale, err := b.mark(links)
	if err != nil {
		return nil, err
	}
	// pushed[m] counts the scores that are better than m marks exactly
	b.pushed = append(b.pushed[:0], make([]int, len(b.marks)+1)...)
	b.list = b.list[:0]
	least := float32(math.Inf(-1)) // to exceed for a place in the list
	below, above := 0, 0
	for at, score := range scores {
		if score > least {
			if b.list.Offer(kern.RowScore{Row: int32(at), Score: score}, k); len(b.list) == k {
				least = b.list[0].Score
			}
		}
		if score < low {
			below++
			continue
		}
		d := (score - low) * scale
		switch {
		case d >= binCount:
			above++
		case d >= 0:
			bin := int(d)
			from, to := b.first[bin], b.first[bin+1]
			if from == to {
				b.counts[bin]++
				continue
			}
			target := int32(at)
			if numbers != nil {
				target = numbers[at]
			}
			for from < to {
				if m := &b.marks[from]; m.Score > score || m.Score == score && m.Target < target {
					break
				}
				from++
			}
			b.pushed[from]++
		default:
			return nil, fmt.Errorf("%w: the score of target %d", ErrNaN, at)
		}
	}
	b.pushed[0] += below
	b.pushed[len(b.marks)] += above
	for bin, count := range b.counts {
		b.pushed[b.first[bin]] += int(count)
	}
	ranks, rank := make([]int, len(links)), 0
	for m := len(b.marks) - 1; m >= 0; m-- {
		rank += b.pushed[m+1]
		ranks[b.marks[m].place] = rank
	}
	b.list.Sort()
	return ranks, nil
}

// mark divides the scores from the worst to the best link into bins, of width 1/scale from low on.
func (b *bins) mark(links []LinkScore) (low, scale float32, err error) {
	b.marks = b.marks[:0]
	for place, link := range links {
		b.marks = append(b.marks, mark{link, place})
	}
	// worst first: the lower score, and of equal ones the higher number
	slices.SortFunc(b.marks, func(x, y mark) int {
		return cmp.Or(cmp.Compare(x.Score, y.Score), cmp.Compare(y.Target, x.Target))
	})
	low = b.marks[0].Score
	high := b.marks[len(b.marks)-1].Score
	if math.IsNaN(float64(low)) || math.IsInf(float64(low), 0) || math.IsInf(float64(high), 0) {
		return 0, 0, fmt.Errorf("%w: the score of target %d is %v; were the parameters or vectors too large?",
			ErrNaN, b.marks[0].Target, low)
	}
	if d := (binCount - 1) / (high - low); high > low && !math.IsInf(float64(d), 0) {
		scale = d
	}
	// first[x] is how many marks lie in bins below x
	clear(b.counts[:])
	at := 0
	for bin := range b.first {
		for at < len(b.marks) && int((b.marks[at].Score-low)*scale) < bin {
			at++
		}
		b.first[bin] = int32(at)
	}
	return low, scale, nil
}
