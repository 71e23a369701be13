package recommend

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/index"
	"unseen/internal/kern"
	"unseen/model"
)

// Block is targets whose neighbours are elsewhere: a range of a graph's nodes.
type Block struct {
	First      int32 // the number of the first node
	Vectors    *graph.Vectors
	Fields     []uint16
	FieldCount int           // of the whole graph
	Popularity []float32     // as model.Nodes has it, for models whose order depends on it
	Targets    []int32       // places in the block that may be recommended, ascending; nil means all
	Engine     engine.Engine // that searches; nil means engine.CPU
	// Web, unless nil, is the index of the vectors: lists are looked for in so many of its Clusters, and hold nearly
	// all of the best.
	Web      *index.Web
	Clusters int
	Threads  int // of the index; 0 means all processors
}

// BlockSource is a source of a block's lists: its place among the nodes of the link model, and the targets, ascending,
// that it is never given, such as itself and what it links to.
type BlockSource struct {
	Node int32
	Skip []int32
}

// BlockHit is a target in a block's list: the score is what the list is ordered by.
type BlockHit struct {
	engine.Hit
	Logit float32 // z of the published model
}

// Top returns the k best targets of the block for each source, best first, with ties in the order of the nodes: what
// Batch would give if there were no other nodes. Lists of all blocks, joined by MergeHits, are those of the whole
// graph. Scores do not depend on how nodes are cut into blocks. The model's link is an inner product over the sources.
func (b Block) Top(ctx context.Context, m model.Model, sources []BlockSource, k int) ([][]BlockHit, error) {
	if k < 1 || k > MaxK {
		return nil, fmt.Errorf("%w: %d recommendations; ask for 1 to %d", ErrQuery, k, MaxK)
	}
	by := m.Ranker()
	search := engine.TargetSearch{Targets: b.Vectors, Fields: b.Fields, K: k}
	if by.Slope != 0 {
		if search.Values = b.Popularity; len(b.Popularity) != b.Vectors.Len() {
			return nil, fmt.Errorf("%w: an assumption needs the popularity of all %d nodes, and that of %d is known",
				ErrModel, b.Vectors.Len(), len(b.Popularity))
		}
	}
	for _, s := range sources {
		q := b.query(m, by.Params, s)
		q.Among, q.Slope = b.Targets, by.Slope
		from, _ := slices.BinarySearch(s.Skip, b.First)
		to, _ := slices.BinarySearch(s.Skip, b.First+int32(b.Vectors.Len()))
		for _, j := range s.Skip[from:to] {
			q.Skip = append(q.Skip, j-b.First)
		}
		search.Queries = append(search.Queries, q)
	}
	lists, err := b.search(ctx, search)
	if err != nil {
		return nil, err
	}
	out := make([][]BlockHit, len(lists))
	for at, hits := range lists {
		out[at] = make([]BlockHit, len(hits))
		places := make([]int32, len(hits))
		for p, h := range hits {
			places[p] = h.Target
			out[at][p] = BlockHit{engine.Hit{Target: h.Target + b.First, Score: h.Score}, h.Score}
		}
		if len(m.Members) < 2 {
			continue
		}
		z, own := make([]float32, len(hits)), b.query(m, m.LinkParams, sources[at]) // the scores are not z
		kern.Dots(z, own.Vector, kern.MatrixOf(b.Vectors), places)
		for p, j := range places {
			out[at][p].Logit = z[p] + own.Offsets[b.Fields[j]]
		}
	}
	return out, nil
}

// search finds the best by the index, or by the engine.
func (b Block) search(ctx context.Context, s engine.TargetSearch) ([][]engine.Hit, error) {
	e := engine.OrCPU(b.Engine, b.Threads)
	if b.Web == nil {
		return e.TopK(ctx, s)
	}
	targets := b.Vectors.Len()
	if b.Targets != nil {
		targets = len(b.Targets)
	}
	return webSearch{b.Web, b.Clusters, targets, b.Threads, e}.top(ctx, s)
}

// query is that of a source at some parameters.
func (b Block) query(m model.Model, params []float32, s BlockSource) engine.SearchQuery {
	q := engine.SearchQuery{Vector: make([]float32, b.Vectors.Dim()), Offsets: make([]float32, b.FieldCount)}
	m.Link.(model.InnerProduct).Query(q.Vector, q.Offsets, params, s.Node)
	return q
}

// MergeHits joins the lists that two blocks have for one source, each best first, into the k best.
func MergeHits(a, b []BlockHit, k int) []BlockHit {
	both := append(slices.Clone(a), b...)
	slices.SortFunc(both, func(a, b BlockHit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Target, b.Target))
	})
	return both[:min(k, len(both))]
}
