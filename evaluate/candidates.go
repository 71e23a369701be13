package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/sample"
)

// Candidates says what every source of a held-out subset could have linked to, and what it did link to. With
// an order these are the nodes before the source; without one, all other nodes of its own and earlier subsets.
// A link belongs to the subset of its source, so that none of these links was learned from.
type Candidates struct {
	g        *graph.Graph
	sequence []int32 // every source's candidates are its beginning, less the source itself
	before   *graph.Order
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
	c := &Candidates{g: d.Graph, before: d.Order}
	for p := graph.Train; p <= subset; p++ {
		c.sequence = append(c.sequence, d.Split.Nodes(p)...)
	}
	if c.before != nil && !slices.Equal(c.sequence, c.before.Sequence[:len(c.sequence)]) {
		return nil, fmt.Errorf("%w: the split is of another order than the one that candidates keep to", ErrTarget)
	}
	for _, i := range d.Split.Nodes(subset) {
		var links []int32
		for _, j := range c.g.Out(i) {
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

// Some returns the candidates of at most so many of the sources, drawn by the seed.
func (c *Candidates) Some(most int, seed uint64) (*Candidates, error) {
	if most < 1 {
		return nil, fmt.Errorf("%w: %d sources; give at least 1", ErrEmpty, most)
	}
	places := rand.New(rand.NewPCG(seed, 0x4e1d)).Perm(len(c.sources))[:min(most, len(c.sources))]
	slices.Sort(places)
	few := &Candidates{g: c.g, sequence: c.sequence, before: c.before, of: c.of}
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

// Sources returns the sources, in the order in which they are ranked. The slice must not be changed.
func (c *Candidates) Sources() []int32 { return c.sources }

// Links returns what a source links to among its candidates, ascending, by its place in Sources.
func (c *Candidates) Links(place int) []int32 { return c.links[place] }

// Count returns how many candidates a source has, by its place in Sources.
func (c *Candidates) Count(place int) int {
	if c.before != nil {
		return int(c.before.Rank[c.sources[place]])
	}
	return len(c.sequence) - 1
}

// exclude puts every node that is no candidate of a source last. inside tells which nodes are in the sequence.
func (c *Candidates) exclude(scores []float32, inside []bool, source int32) {
	none := float32(math.Inf(-1))
	if c.before != nil {
		for _, j := range c.before.Sequence[c.before.Rank[source]:] {
			scores[j] = none
		}
		return
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
	Progress func(done, of int)
}

const (
	rankedTogether = 128 // sources that share a pass over the targets
	scoredTogether = 256 // targets of a block product
)

// Rank scores all candidates of every source with a model and returns the ranks of its links, and the first
// of each list: a Standing for each element of s.By. Equal scores rank by node number, the lowest first, as
// in [RankScores]. Link models that are inner products are scored by block products, others a stretch of
// targets at a time. Scores are float32. Each thread needs memory for the scores of 128 sources.
func (c *Candidates) Rank(ctx context.Context, j *fit.Judge, s RankSettings) ([]Standing, error) {
	if c.g == nil {
		return nil, fmt.Errorf("%w: candidates of no graph; make them by NewCandidates", ErrEmpty)
	}
	if err := j.Validate(); err != nil {
		return nil, err
	}
	if s.By == nil {
		s.By = []By{ByRelevance}
	}
	s.First, s.Threads = cmp.Or(s.First, 100), kern.Threads(s.Threads)
	if err := checkCutoff(s.First); err != nil {
		return nil, err
	}
	out := make([]Standing, len(s.By))
	for k, by := range s.By {
		if by != ByRelevance && by != BySeen {
			return nil, fmt.Errorf("%w: candidates are ranked by %s or %s, not by %q", ErrUndefined, ByRelevance,
				BySeen, by)
		}
		out[k] = Standing{by, make(Ranking, len(c.sources)), make(Lists, len(c.sources))}
	}
	inside := make([]bool, c.g.Len())
	for _, i := range c.sequence {
		inside[i] = true
	}
	scorers := make([]*scorer, s.Threads)
	blocks := (len(c.sources) + rankedTogether - 1) / rankedTogether
	failed := make([]error, blocks)
	var mu sync.Mutex
	done := 0
	kern.Chunks(len(c.sources), rankedTogether, s.Threads, func(worker, block, from, to int) {
		if failed[block] = ctx.Err(); failed[block] != nil {
			return
		}
		if scorers[worker] == nil {
			if scorers[worker], failed[block] = newScorer(c.g, j); failed[block] != nil {
				return
			}
		}
		w := scorers[worker]
		if failed[block] = w.score(ctx, c.sources[from:to]); failed[block] != nil {
			return
		}
		for place := from; place < to; place++ {
			for k, by := range s.By {
				scores := w.of(place-from, c.sources[place], by)
				c.exclude(scores, inside, c.sources[place])
				ranked, list, err := rankAmong(scores, c.links[place], min(s.First, c.Count(place)), &w.bins)
				if err != nil {
					failed[block] = fmt.Errorf("source %s: %w", c.g.ID(c.sources[place]), err)
					return
				}
				out[k].Ranking[place], out[k].Lists[place] = ranked, list
			}
		}
		if s.Progress != nil {
			mu.Lock()
			defer mu.Unlock()
			done += to - from
			s.Progress(done, len(c.sources))
		}
	})
	for _, w := range scorers {
		w.close()
	}
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scorer is one thread's room.
type scorer struct {
	j        *fit.Judge
	byFields bool // all pairs of two fields share one π̂
	fields   []uint16
	targets  *kern.Matrix
	queries  *kern.Matrix
	offsets  []float32
	logits   []float32 // a row per source
	scores   []float32 // of one source
	all      []int32   // every node
	bins     bins
}

func newScorer(g *graph.Graph, j *fit.Judge) (*scorer, error) {
	w := &scorer{j: j, fields: g.Fields(), targets: kern.MatrixOf(g.Vectors())}
	if terms, ok := model.TermsOf(j.Propensity, j.PropensityParams); ok {
		w.byFields = terms.ByFields()
	}
	var err error
	if w.queries, err = kern.NewMatrix(rankedTogether, w.targets.Dim()); err != nil {
		return nil, err
	}
	w.offsets = make([]float32, g.FieldCount())
	w.logits, w.scores = make([]float32, rankedTogether*g.Len()), make([]float32, g.Len())
	w.all = make([]int32, g.Len())
	for i := range w.all {
		w.all[i] = int32(i)
	}
	return w, nil
}

func (w *scorer) close() {
	if w != nil {
		w.queries.Close()
	}
}

// score sets the logits of all nodes as targets of some sources.
func (w *scorer) score(ctx context.Context, sources []int32) error {
	n := len(w.all)
	inner, ok := w.j.Link.(model.InnerProduct)
	if !ok {
		repeated := make([]int32, scoredTogether)
		for from := 0; from < n; from += scoredTogether {
			if err := ctx.Err(); err != nil {
				return err
			}
			to := min(from+scoredTogether, n)
			for r, i := range sources {
				for k := range repeated {
					repeated[k] = i
				}
				w.j.Link.Logits(w.logits[r*n+from:r*n+to], w.j.LinkParams, model.Batch{Sources: repeated[:to-from],
					Targets: w.all[from:to]})
			}
		}
		return nil
	}
	offsets := make([][]float32, len(sources))
	for r, i := range sources {
		inner.Query(w.queries.Row(r), w.offsets, w.j.LinkParams, i)
		offsets[r] = slices.Clone(w.offsets)
	}
	queries, err := w.queries.Slice(0, len(sources))
	if err != nil {
		return err
	}
	for from := 0; from < n; from += scoredTogether {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := min(from+scoredTogether, n)
		some, err1 := w.targets.Slice(from, to)
		products, err2 := kern.View(w.logits[from:(len(sources)-1)*n+to], len(sources), to-from, n)
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		kern.MulT(products, queries, some)
		for r := range sources {
			row, fields := w.logits[r*n+from:r*n+to], w.fields[from:to]
			for k, f := range fields {
				row[k] += offsets[r][f]
			}
		}
	}
	return nil
}

// of returns what the nodes are ranked by as targets of a source. The slice is good until the next call.
func (w *scorer) of(row int, source int32, by By) []float32 {
	n := len(w.all)
	z := w.logits[row*n : (row+1)*n]
	if by == ByRelevance {
		copy(w.scores, z)
		return w.scores
	}
	kern.LogSigmoid(w.scores, z)
	if w.byFields {
		// one pair of each field tells π̂ of all
		logs := make([]float32, len(w.offsets))
		seen := make([]bool, len(logs))
		for k, f := range w.fields {
			if !seen[f] {
				seen[f] = true
				w.j.Propensity.Logits(logs[f:f+1], w.j.PropensityParams,
					model.Batch{Sources: []int32{source}, Targets: w.all[k : k+1]})
			}
		}
		kern.LogSigmoid(logs, logs)
		for k, f := range w.fields {
			w.scores[k] += logs[f]
		}
		return w.scores
	}
	sources, logs := make([]int32, scoredTogether), make([]float32, scoredTogether)
	for k := range sources {
		sources[k] = source
	}
	for from := 0; from < n; from += scoredTogether {
		to := min(from+scoredTogether, n)
		some := logs[:to-from]
		w.j.Propensity.Logits(some, w.j.PropensityParams,
			model.Batch{Sources: sources[:to-from], Targets: w.all[from:to]})
		kern.LogSigmoid(some, some)
		for k, s := range some {
			w.scores[from+k] += s
		}
	}
	return w.scores
}

// bins is room to count scores in.
type bins struct {
	counts [binCount]int32
	first  [binCount + 1]int32 // of each bin, its first mark; marks are in ascending order
	marks  []mark
	pushed []int
	list   []kern.Hit
}

const binCount = 1024

type mark struct {
	score  float32
	target int32
	place  int // in linked
}

// rankAmong is [RankScores] for float32 scores with a list of the first k. Scores between those of the worst
// and the best link fall into bins; only in bins that hold a link's score is more compared than that.
func rankAmong(scores []float32, linked []int32, k int, b *bins) (Ranked, []int32, error) {
	b.marks = b.marks[:0]
	for place, target := range linked {
		b.marks = append(b.marks, mark{scores[target], target, place})
	}
	// worst first: the lower score, and of equal ones the higher number
	slices.SortFunc(b.marks, func(x, y mark) int {
		return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(y.target, x.target))
	})
	low, high := b.marks[0].score, b.marks[len(b.marks)-1].score
	if math.IsNaN(float64(low)) || math.IsInf(float64(low), 0) || math.IsInf(float64(high), 0) {
		return Ranked{}, nil, fmt.Errorf("%w: the score of target %d is %v; were the parameters or vectors too large?",
			ErrNaN, b.marks[0].target, low)
	}
	scale := float32(0)
	if d := (binCount - 1) / (high - low); high > low && !math.IsInf(float64(d), 0) {
		scale = d
	}
	// first[x] is how many marks lie in bins below x
	clear(b.counts[:])
	at := 0
	for bin := range b.first {
		for at < len(b.marks) && int((b.marks[at].score-low)*scale) < bin {
			at++
		}
		b.first[bin] = int32(at)
	}
	// pushed[m] counts the scores that are better than m marks exactly
	b.pushed = append(b.pushed[:0], make([]int, len(b.marks)+1)...)
	b.list = b.list[:0]
	least := float32(math.Inf(-1)) // to exceed for a place in the list
	below, above := 0, 0
	for target, score := range scores {
		if score > least {
			if b.list = offer(b.list, kern.Hit{Index: int32(target), Score: score}, k); len(b.list) == k {
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
			for from < to {
				if m := &b.marks[from]; m.score > score || m.score == score && int(m.target) < target {
					break
				}
				from++
			}
			b.pushed[from]++
		default:
			return Ranked{}, nil, fmt.Errorf("%w: the score of target %d", ErrNaN, target)
		}
	}
	b.pushed[0] += below
	b.pushed[len(b.marks)] += above
	for bin, count := range b.counts {
		b.pushed[b.first[bin]] += int(count)
	}
	r := Ranked{slices.Clone(linked), make([]int, len(linked))}
	rank := 0
	for m := len(b.marks) - 1; m >= 0; m-- {
		rank += b.pushed[m+1]
		r.ranks[b.marks[m].place] = rank
	}
	slices.SortFunc(b.list, func(x, y kern.Hit) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.Index, y.Index))
	})
	list := make([]int32, len(b.list))
	for p, hit := range b.list {
		list[p] = hit.Index
	}
	return r, list, nil
}

// offer puts a hit that is no worse than the worst among the k best, of which the worst is kept on top of a heap.
func offer(heap []kern.Hit, hit kern.Hit, k int) []kern.Hit {
	worse := func(a, b kern.Hit) bool { return a.Score < b.Score || a.Score == b.Score && a.Index > b.Index }
	if len(heap) < k {
		heap = append(heap, hit)
		for i := len(heap) - 1; i > 0 && worse(heap[i], heap[(i-1)/2]); i = (i - 1) / 2 {
			heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
		}
		return heap
	}
	i := 0
	heap[0] = hit
	for {
		child := 2*i + 1
		if child+1 < len(heap) && worse(heap[child+1], heap[child]) {
			child++
		}
		if child >= len(heap) || !worse(heap[child], heap[i]) {
			return heap
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
