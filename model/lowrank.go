package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"unseen/graph"
	"unseen/internal/kern"
)

// defaultRank is that of LowRank.
const defaultRank = 16

// LowRank is the bilinear link model of low rank, z = (A·h_i)ᵀ(B·h_j) + b with A and B r×d. Source
// and target are seen through matrices of their own, so that z_ij ≠ z_ji: citations have a direction.
type LowRank struct {
	nodes Nodes
	rows  *kern.Matrix
	rank  int
	ranks []int32 // 0, 1, …, r−1
}

// NewLowRank returns the bilinear model of a rank between 1 and d; 0 means 16, or d where that is
// less. The parameters are A, then B, both row by row, then b.
func NewLowRank(n Nodes, rank int) (*LowRank, error) {
	if err := checkNodes(n); err != nil {
		return nil, err
	}
	d := n.Vectors.Dim()
	if rank == 0 {
		rank = min(defaultRank, d)
	}
	if rank < 1 || rank > d {
		return nil, fmt.Errorf("%w: rank %d of a bilinear model over vectors of dimension %d; give 1 to %d", ErrOption,
			rank, d, d)
	}
	ranks := make([]int32, rank)
	for k := range ranks {
		ranks[k] = int32(k)
	}
	return &LowRank{n, kern.MatrixOf(n.Vectors), rank, ranks}, nil
}

// Kind is "low-rank".
func (m *LowRank) Kind() string { return "low-rank" }

// Size is 2rd + 1.
func (m *LowRank) Size() int { return 2*m.rank*m.rows.Dim() + 1 }

// Parts are A, B and b.
func (m *LowRank) Parts() []ParameterBlock {
	d := m.rows.Dim()
	return []ParameterBlock{{"A", []int{m.rank, d}}, {"B", []int{m.rank, d}}, {"b", []int{1}}}
}

// Start draws A and B such that z begins at about ±.1 whatever the length of the vectors: at A = B = 0
// the gradient is 0, and far from it the start would matter.
func (m *LowRank) Start(params []float32, src rand.Source) {
	const spread = .1
	clear(params)
	// (A·h_i)ᵀ(B·h_j) is a sum of r products of two normals of variance σ²‖h‖².
	variance := spread / (math.Sqrt(float64(m.rank)) * meanSquare(m.rows))
	normal(params[:m.Size()-1], math.Sqrt(variance), rand.New(src))
}

// split returns A, B and the place of b in parameters or a gradient.
func (m *LowRank) split(params []float32) (a, b, bias []float32) {
	size := m.rank * m.rows.Dim()
	return params[:size], params[size : 2*size], params[2*size : 2*size+1]
}

// Logits sets z[k] = ⟨Bᵀ(A·h_i), h_j⟩ + b for pair k: a query per run of pairs with one source, by
// block products, and an inner product per pair.
func (m *LowRank) Logits(z, params []float32, b Batch) {
	d := m.rows.Dim()
	left, right, bias := m.split(params)
	z = z[:b.Len()]
	room := kern.Borrow(block * (2*d + m.rank))
	defer kern.GiveBack(room)
	sources, queries, seen := room.Cut(block*d), room.Cut(block*d), room.Cut(block*m.rank)
	for runs := range b.runBlocks {
		m.load(sources, b, runs)
		m.project(seen, sources, left, len(runs))
		kern.Mul(view(queries, len(runs), d), view(seen, len(runs), m.rank), view(right, m.rank, d), false)
		for k, r := range runs {
			kern.Dots(z[r.from:r.to], queries[k*d:(k+1)*d], m.rows, b.Targets[r.from:r.to])
		}
	}
	for k := range z {
		z[k] += bias[0]
	}
	runtime.KeepAlive(m)
}

// load copies the vector of every run's source.
func (m *LowRank) load(dst []float32, b Batch, runs []run) {
	for k, r := range runs {
		m.rows.Load(dst[k*m.rows.Dim():], int(b.Sources[r.from]))
	}
}

// project sets dst = vectors·Aᵀ for as many vectors, or with B in the place of A.
func (m *LowRank) project(dst, vectors, a []float32, count int) {
	d := m.rows.Dim()
	kern.MulT(view(dst, count, m.rank), view(vectors, count, d), view(a, m.rank, d))
}

// Backward adds the gradient. With v = Σ dz·h_j over a run of pairs with source i,
//
//	∂A = Σ_runs (B·v)·h_iᵀ    ∂B = Σ_runs (A·h_i)·vᵀ    ∂b = Σ dz.
func (m *LowRank) Backward(grad, params []float32, b Batch, dz []float32) {
	d := m.rows.Dim()
	left, right, _ := m.split(params)
	gradLeft, gradRight, bias := m.split(grad)
	dz = dz[:b.Len()]
	room := kern.Borrow(block * (2*d + 2*m.rank))
	defer kern.GiveBack(room)
	sources, sums := room.Cut(block*d), room.Cut(block*d)
	seen, turned := room.Cut(block*m.rank), room.Cut(block*m.rank)
	for runs := range b.runBlocks {
		count := len(runs)
		m.load(sources, b, runs)
		clear(sums[:count*d])
		for k, r := range runs {
			kern.AddRows(sums[k*d:(k+1)*d], m.rows, b.Targets[r.from:r.to], dz[r.from:r.to])
		}
		m.project(seen, sums, right, count)
		transpose(turned, seen, count, m.rank)
		kern.Mul(view(gradLeft, m.rank, d), view(turned, m.rank, count), view(sources, count, d), true)
		m.project(seen, sources, left, count)
		transpose(turned, seen, count, m.rank)
		kern.Mul(view(gradRight, m.rank, d), view(turned, m.rank, count), view(sums, count, d), true)
	}
	bias[0] += sum(dz)
	runtime.KeepAlive(m)
}

// transpose sets dst, of dim×rows, to the transpose of src, of rows×dim.
func transpose(dst, src []float32, rows, dim int) {
	for r := range rows {
		for c, x := range src[r*dim : (r+1)*dim] {
			dst[c*rows+r] = x
		}
	}
}

// Query sets q = Bᵀ(A·h_i); every field's offset is b.
func (m *LowRank) Query(q, offsets, params []float32, source int32) {
	room := kern.Borrow(m.rows.Dim())
	defer kern.GiveBack(room)
	vector := room.Cut(m.rows.Dim())
	m.rows.Load(vector, int(source))
	m.QueryOf(q, offsets, params, vector, m.nodes.Fields[source])
}

// QueryOf is Query for a vector; the field does not count.
func (m *LowRank) QueryOf(q, offsets, params, vector []float32, _ uint16) {
	d := m.rows.Dim()
	left, right, bias := m.split(params)
	room := kern.Borrow(m.rank)
	defer kern.GiveBack(room)
	seen := room.Cut(m.rank)
	kern.DotRange(seen, vector[:d], view(left, m.rank, d), 0)
	clear(q[:d])
	kern.AddRows(q[:d], view(right, m.rank, d), m.ranks, seen)
	for g := range offsets[:m.nodes.FieldCount] {
		offsets[g] = bias[0]
	}
}

// Rows are the nodes' vectors.
func (m *LowRank) Rows([]float32) (*graph.Vectors, error) { return m.nodes.Vectors, nil }

func (m *LowRank) madeFor() Nodes { return m.nodes }
func (m *LowRank) options() any   { return LinkOptions{Rank: m.rank} }
