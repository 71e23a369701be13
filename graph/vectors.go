package graph

import (
	"fmt"
	"math"
	"os"
	"runtime"

	"unseen/internal/kern"
)

// Vectors is one vector per node, all of the same dimension, off the Go heap. They are float32, or
// float16 where the file they were mapped from is.
//
// Close frees the memory; so does the garbage collector after the last reference.
type Vectors struct{ held }

// held keeps the kernels' matrix out of what Vectors exports: packages of this module read it with kern.MatrixOf.
type held = kern.Held

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
func NewVectors(nodes, dim int) (*Vectors, error) { return newVectors(nodes, dim, kern.NewMatrix) }

// NewHalfVectors is NewVectors of float16 numbers, which take half the memory; Set rounds to the nearest.
func NewHalfVectors(nodes, dim int) (*Vectors, error) { return newVectors(nodes, dim, kern.NewHalf) }

func newVectors(nodes, dim int, allocate func(rows, dim int) (*kern.Matrix, error)) (*Vectors, error) {
	if nodes < 0 || dim < 1 {
		return nil, fmt.Errorf("vectors of dimension %d for %d nodes: %w; give a dimension of at least 1", dim,
			nodes, ErrShape)
	}
	m, err := allocate(nodes, dim)
	if err != nil {
		return nil, fmt.Errorf("vectors of dimension %d for %d nodes: %w", dim, nodes, err)
	}
	return &Vectors{kern.Hold(m)}, nil
}

// MapVectors maps numbers of a file from a byte offset on, row after row, float16 if half and float32 otherwise, in the
// byte order of this machine. The vectors are read-only, and pages are read when they are first used. The file may
// be closed afterwards, but not be changed or shortened. To map an .npy file, use dataset.MapVectors.
func MapVectors(file *os.File, offset int64, nodes, dim int, half bool) (*Vectors, error) {
	m, err := kern.MapFile(file, offset, nodes, dim, half)
	if err != nil {
		return nil, err
	}
	return &Vectors{kern.Hold(m)}, nil
}

// Len returns the number of vectors; 0 after Close.
func (v *Vectors) Len() int { return v.rows().Rows() }

// Half reports whether the numbers are float16.
func (v *Vectors) Half() bool { return v.rows().Half() }

// Dim returns the dimension.
func (v *Vectors) Dim() int { return v.rows().Dim() }

// Set copies a vector into row i. Vectors mapped from a file are read-only: setting one is an error.
func (v *Vectors) Set(i int32, vector []float32) error {
	if uint64(uint32(i)) >= uint64(v.Len()) {
		return fmt.Errorf("vector %d of %d: %w; allocate as many as there are nodes", i, v.Len(), ErrUnknownNode)
	}
	if len(vector) != v.Dim() {
		return fmt.Errorf("vector %d has dimension %d, not %d: %w; encode every node with the same model", i,
			len(vector), v.Dim(), ErrShape)
	}
	if v.rows().ReadOnly() {
		return fmt.Errorf("vector %d cannot be set: %w; copy the vectors out of the mapped file first", i,
			ErrReadOnly)
	}
	v.rows().Store(int(i), vector)
	return nil
}

// Load copies row i into dst, which has room for Dim numbers. Like an index, i must be in range.
func (v *Vectors) Load(dst []float32, i int32) { v.rows().Load(dst, int(i)) }

// Close frees the memory. It may be called again, and of nil, where nodes have no vectors.
func (v *Vectors) Close() error {
	if v == nil {
		return nil
	}
	return v.rows().Close()
}

// Check reads every vector and reports those that are zero or not finite by the ids of g's nodes.
func (v *Vectors) Check(g *Graph) (VectorReport, error) {
	var r VectorReport
	if v.Len() != g.Len() {
		return r, fmt.Errorf("%d vectors for %d nodes: %w; encode the nodes again, in the graph's order",
			v.Len(), g.Len(), ErrShape)
	}
	buffer := make([]float32, v.Dim())
	for i := range int32(v.Len()) {
		row := buffer
		if v.Half() {
			v.Load(buffer, i)
		} else {
			row = v.rows().Row(int(i))
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
// the error names a node whose vector is not finite. Zero vectors are accepted; see Check.
func (g *Graph) WithVectors(v *Vectors) (*Graph, error) {
	r, err := v.Check(g)
	if err != nil {
		return nil, err
	}
	if r.NotFinite > 0 {
		return nil, fmt.Errorf("the vector of node %q holds what is %w (such nodes: %d); encode them "+
			"again or leave them out",
			r.NotFiniteIDs[0], ErrNotFinite, r.NotFinite)
	}
	return g.WithTrustedVectors(v)
}

// WithTrustedVectors is WithVectors without the reading, so that gigabytes in a mapped file are attached
// at once and their pages are read when they are first used. The caller must know that every number is
// finite, as a dataset's manifest states for vectors that were checked when they were written: a NaN
// spreads to everything that is learned from it. If in doubt, use WithVectors.
func (g *Graph) WithTrustedVectors(v *Vectors) (*Graph, error) {
	if v.Len() != g.Len() {
		return nil, fmt.Errorf("%d vectors for %d nodes: %w; encode the nodes again, in the graph's order",
			v.Len(), g.Len(), ErrShape)
	}
	attached := *g
	attached.vectors = v
	return &attached, nil
}

// Vectors returns the vectors attached to the graph, or nil.
func (g *Graph) Vectors() *Vectors { return g.vectors }

// Part returns the vectors from ≤ i < to over the same memory. They are of no use after v is closed.
func (v *Vectors) Part(from, to int) (*Vectors, error) {
	m, err := v.rows().Slice(from, to)
	if err != nil {
		return nil, fmt.Errorf("a part of vectors: %w", err)
	}
	return &Vectors{kern.Hold(m)}, nil
}

// subset copies the vectors of the given nodes, in their order.
func (v *Vectors) subset(nodes []int32) (*Vectors, error) {
	if v.Len() == 0 && len(nodes) > 0 {
		return nil, fmt.Errorf("vectors of a subgraph: %w: they were closed; close them after their last use",
			ErrShape)
	}
	allocate := NewVectors
	if v.Half() {
		allocate = NewHalfVectors
	}
	copied, err := allocate(len(nodes), v.Dim())
	if err != nil {
		return nil, fmt.Errorf("vectors of a subgraph: %w", err)
	}
	row := make([]float32, v.Dim())
	for k, i := range nodes {
		v.Load(row, i)
		copied.rows().Store(k, row)
	}
	return copied, nil
}

// rows are the numbers, for this package's own use.
func (v *Vectors) rows() *kern.Matrix { return kern.MatrixOf(v) }

// infinityBits are those of +Inf. Without the sign, the bits of floats ascend with their size and
// every NaN lies above infinity, so the largest bits of a row show whether it is zero or finite.
const infinityBits = 0x7f800000

func largestBits(row []float32) uint32 {
	var largest uint32
	for _, x := range row {
		largest = max(largest, math.Float32bits(x)&^(1<<31))
	}
	return largest
}
