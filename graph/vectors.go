package graph

import (
	"fmt"
	"math"
	"runtime"

	"unseen/internal/kern"
)

// Vectors is one vector per node, all of the same dimension, off the Go heap. They are float32, or
// float16 where the file they were mapped from is.
//
// The memory goes back with Close, or after the last reference is gone.
type Vectors struct{ matrix *kern.Matrix }

// VectorReport says which vectors cannot be used, or say nothing. It names the first ten of each.
type VectorReport struct {
	Zero         int      // vectors of zeros: nodes without text, most often
	ZeroIDs      []string // ids of the first of them
	NotFinite    int      // vectors that hold a NaN or an infinity
	NotFiniteIDs []string // ids of the first of them
}

// namedVectors is how many bad vectors of a kind a report names.
const namedVectors = 10

// NewVectors allocates vectors of zeros, to be filled with Set.
func NewVectors(nodes, dim int) (*Vectors, error) {
	if nodes < 0 || dim < 1 {
		return nil, fmt.Errorf("graph: vectors of dimension %d for %d nodes: %w; give a dimension of at least 1", dim,
			nodes, ErrShape)
	}
	m, err := kern.NewMatrix(nodes, dim)
	if err != nil {
		return nil, fmt.Errorf("graph: vectors of dimension %d for %d nodes: %w", dim, nodes, err)
	}
	return &Vectors{m}, nil
}

// VectorsOf wraps a matrix that another package of this module allocated or mapped. It is for those
// packages: the type of the matrix is internal. Programs make vectors with NewVectors and Set, and
// map files with dataset.MapVectors.
func VectorsOf(m *kern.Matrix) *Vectors { return &Vectors{m} }

// Matrix returns the rows themselves, for the kernels of this module: the type is internal.
// Programs read rows with Load.
func (v *Vectors) Matrix() *kern.Matrix { return v.matrix }

// Len returns the number of vectors; 0 after Close.
func (v *Vectors) Len() int { return v.matrix.Rows() }

// Dim returns the dimension.
func (v *Vectors) Dim() int { return v.matrix.Dim() }

// Set copies a vector into row i. Vectors mapped from a file are read-only: setting one is an error.
func (v *Vectors) Set(i int32, vector []float32) error {
	if uint64(uint32(i)) >= uint64(v.Len()) {
		return fmt.Errorf("graph: vector %d of %d: %w; allocate as many as there are nodes", i, v.Len(), ErrUnknownNode)
	}
	if len(vector) != v.Dim() {
		return fmt.Errorf("graph: vector %d has dimension %d, not %d: %w; encode every node with the same model", i,
			len(vector), v.Dim(), ErrShape)
	}
	if v.matrix.ReadOnly() {
		return fmt.Errorf("graph: vector %d cannot be set: %w; copy the vectors out of the mapped file first", i,
			ErrReadOnly)
	}
	v.matrix.Store(int(i), vector)
	return nil
}

// Load copies row i into dst, which has room for Dim numbers. Like an index, i must be in range.
func (v *Vectors) Load(dst []float32, i int32) { v.matrix.Load(dst, int(i)) }

// Close gives the memory back. It may be called again.
func (v *Vectors) Close() error { return v.matrix.Close() }

// Check reads every vector and reports those that are zero or not finite by the ids of g's nodes.
func (v *Vectors) Check(g *Graph) (VectorReport, error) {
	var r VectorReport
	if v.Len() != g.Len() {
		return r, fmt.Errorf("graph: %d vectors for %d nodes: %w; encode the nodes again, in the graph's order",
			v.Len(), g.Len(), ErrShape)
	}
	buffer := make([]float32, v.Dim())
	for i := range int32(v.Len()) {
		row := buffer
		if v.matrix.Half() {
			v.Load(buffer, i)
		} else {
			row = v.matrix.Row(int(i))
		}
		switch largest := largestBits(row); {
		case largest == 0:
			r.Zero++
			if len(r.ZeroIDs) < namedVectors {
				r.ZeroIDs = append(r.ZeroIDs, g.ID(i))
			}
		case largest >= infinityBits:
			r.NotFinite++
			if len(r.NotFiniteIDs) < namedVectors {
				r.NotFiniteIDs = append(r.NotFiniteIDs, g.ID(i))
			}
		}
	}
	runtime.KeepAlive(v)
	return r, nil
}

// WithVectors returns the same graph with vectors attached; node i's is row i. They are read once:
// the error names a node whose vector is not finite. Zero vectors are let through; see Check.
func (g *Graph) WithVectors(v *Vectors) (*Graph, error) {
	r, err := v.Check(g)
	if err != nil {
		return nil, err
	}
	if r.NotFinite > 0 {
		return nil, fmt.Errorf("graph: the vector of node %q holds what is %w (such nodes: %d); encode them "+
			"again or leave them out",
			r.NotFiniteIDs[0], ErrNotFinite, r.NotFinite)
	}
	return g.WithTrustedVectors(v)
}

// WithTrustedVectors is WithVectors without the reading, so that gigabytes in a mapped file are attached
// at once and their pages are read when they are first used. The caller vouches that every number is
// finite, as a dataset's manifest does of vectors that were checked when they were written: a NaN that
// slips through spreads to whatever is learned from it. Where nobody vouches, use WithVectors.
func (g *Graph) WithTrustedVectors(v *Vectors) (*Graph, error) {
	if v.Len() != g.Len() {
		return nil, fmt.Errorf("graph: %d vectors for %d nodes: %w; encode the nodes again, in the graph's order",
			v.Len(), g.Len(), ErrShape)
	}
	attached := *g
	attached.vectors = v
	return &attached, nil
}

// Vectors returns the vectors attached to the graph, or nil.
func (g *Graph) Vectors() *Vectors { return g.vectors }

// rows copies the vectors of some nodes, in their order.
func (v *Vectors) rows(nodes []int32) (*Vectors, error) {
	if v.Len() == 0 && len(nodes) > 0 {
		return nil, fmt.Errorf("graph: vectors of a subgraph: %w: they were closed; close them after their last use",
			ErrShape)
	}
	allocate := kern.NewMatrix
	if v.matrix.Half() {
		allocate = kern.NewHalf
	}
	m, err := allocate(len(nodes), v.Dim())
	if err != nil {
		return nil, fmt.Errorf("graph: vectors of a subgraph: %w", err)
	}
	row := make([]float32, v.Dim())
	for k, i := range nodes {
		v.Load(row, i)
		m.Store(k, row)
	}
	return &Vectors{m}, nil
}

// infinityBits are those of +Inf. Without the sign, the bits of floats ascend with their size and
// every NaN lies above infinity, so the largest bits of a row tell whether it is zero or finite.
const infinityBits = 0x7f800000

func largestBits(row []float32) uint32 {
	var largest uint32
	for _, x := range row {
		largest = max(largest, math.Float32bits(x)&^(1<<31))
	}
	return largest
}
