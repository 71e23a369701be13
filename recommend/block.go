package recommend

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
)

// Block is targets whose neighbours are elsewhere: a range of a graph's nodes.
type Block struct {
	First      int32 // the number of the first node
	Vectors    *graph.Vectors
	Fields     []uint16
	FieldCount int           // of the whole graph
	Targets    []int32       // places in the block that may be recommended, ascending; nil means all
	Engine     engine.Engine // that searches; nil means engine.CPU
}

// BlockSource is a source of a block's lists: its place among the nodes of the link model, and the targets, ascending,
// that it is never given, such as itself and what it links to.
type BlockSource struct {
	Node int32
	Skip []int32
}

// Top returns the k best targets of the block for each source, best first, with ties in the order
// of the nodes: what Batch would give if there were no other nodes. Lists of all blocks, joined by
// MergeHits, are those of the whole graph. Scores do not depend on how nodes are cut into blocks.
func (b Block) Top(ctx context.Context, link model.InnerProduct, params []float32, sources []BlockSource,
	k int) ([][]engine.Hit, error) {
	if k < 1 || k > MaxK {
		return nil, fmt.Errorf("%w: %d recommendations; ask for 1 to %d", ErrQuery, k, MaxK)
	}
	search := engine.TargetSearch{Targets: b.Vectors, Fields: b.Fields, K: k}
	for _, s := range sources {
		q := engine.SearchQuery{Vector: make([]float32, b.Vectors.Dim()), Offsets: make([]float32, b.FieldCount),
			Among: b.Targets}
		link.Query(q.Vector, q.Offsets, params, s.Node)
		from, _ := slices.BinarySearch(s.Skip, b.First)
		to, _ := slices.BinarySearch(s.Skip, b.First+int32(b.Vectors.Len()))
		for _, j := range s.Skip[from:to] {
			q.Skip = append(q.Skip, j-b.First)
		}
		search.Queries = append(search.Queries, q)
	}
	lists, err := engine.OrCPU(b.Engine, 0).TopK(ctx, search)
	for _, hits := range lists {
		for p := range hits {
			hits[p].Target += b.First
		}
	}
	return lists, err
}

// MergeHits joins the lists that two blocks have for one source, each best first, into the k best.
func MergeHits(a, b []engine.Hit, k int) []engine.Hit {
	both := append(slices.Clone(a), b...)
	slices.SortFunc(both, func(a, b engine.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Target, b.Target))
	})
	return both[:min(k, len(both))]
}
