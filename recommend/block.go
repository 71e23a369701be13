package recommend

import (
	"cmp"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Block is targets whose neighbours are elsewhere: a range of a graph's nodes.
type Block struct {
	First   int32 // the number of the first node
	Vectors *graph.Vectors
	Fields  []uint16
}

// Hit is a target with the logit of its ŷ.
type Hit struct {
	Target int32
	Logit  float32
}

// Asking is a source of a block's lists: its place among the nodes of the link model, and the targets, ascending, that
// it is never given, such as itself and what it links to.
type Asking struct {
	Node int32
	Skip []int32
}

// Top returns the k best targets of the block for each source, best first, with ties in the order
// of the nodes: what Batch would give if there were no other nodes. Lists of all blocks, joined by
// MergeHits, are those of the whole graph. Scores do not depend on how nodes are cut into blocks.
// Of the threads 0 means all processors; results do not depend on it.
func (b Block) Top(link model.InnerProduct, params []float32, fields int, sources []Asking, k, threads int) ([][]Hit,
	error) {
	threads = kern.Threads(threads)
	if k < 1 || k > MaxK {
		return nil, fmt.Errorf("%w: %d recommendations; ask for 1 to %d", ErrQuery, k, MaxK)
	}
	matrix := kern.MatrixOf(b.Vectors)
	d, n, last := matrix.Dim(), len(sources), b.First+int32(b.Vectors.Len())
	queries, offsets := make([]float32, n*d), make([]float32, n*fields)
	skips := make([][]int32, n) // those within the block
	even, spare := true, 0
	for at, s := range sources {
		own := offsets[at*fields : (at+1)*fields]
		link.Query(queries[at*d:(at+1)*d], own, params, s.Node)
		even = even && !slices.ContainsFunc(own, func(x float32) bool { return x != own[0] })
		from, _ := slices.BinarySearch(s.Skip, b.First)
		to, _ := slices.BinarySearch(s.Skip, last)
		skips[at] = s.Skip[from:to]
		spare = max(spare, to-from)
	}
	out := make([][]Hit, n)
	if even && k+spare <= kern.MaxK {
		view, err := kern.View(queries, n, d, d)
		if err != nil {
			return nil, err
		}
		for at, hits := range kern.TopK(matrix, view, min(k+spare, b.Vectors.Len()), threads) {
			for _, h := range hits {
				target := b.First + h.Index
				if _, skip := slices.BinarySearch(skips[at], target); !skip && len(out[at]) < k {
					out[at] = append(out[at], Hit{target, h.Score + offsets[at*fields]})
				}
			}
		}
		return out, nil
	}
	scores, kept := make([]float32, b.Vectors.Len()), make([]int32, 0, b.Vectors.Len())
	for at := range sources {
		kern.DotRange(scores, queries[at*d:(at+1)*d], matrix, 0)
		kept = kept[:0]
		skip := skips[at]
		for j := range scores {
			scores[j] += offsets[at*fields+int(b.Fields[j])]
			for len(skip) > 0 && skip[0] < b.First+int32(j) {
				skip = skip[1:]
			}
			if len(skip) == 0 || skip[0] != b.First+int32(j) {
				kept = append(kept, int32(j))
			}
		}
		for _, j := range best(scores, kept, k) {
			out[at] = append(out[at], Hit{b.First + j, scores[j]})
		}
	}
	return out, nil
}

// MergeHits joins the lists that two blocks have for one source, each best first, into the k best.
func MergeHits(a, b []Hit, k int) []Hit {
	both := append(slices.Clone(a), b...)
	slices.SortFunc(both, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Logit, a.Logit), cmp.Compare(a.Target, b.Target))
	})
	return both[:min(k, len(both))]
}
