package graph

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestVectors(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a b c b>a c>b")
	v, err := NewVectors(3, 5)
	must(t, err)
	defer v.Close()
	for i := range int32(3) {
		must(t, v.Set(i, []float32{1, 2, 3, 4, float32(i)}))
	}
	with, err := g.WithVectors(v)
	must(t, err)
	if g.Vectors() != nil || with.Vectors() != v || with.Len() != 3 || v.Len() != 3 || v.Dim() != 5 ||
		v.Half() {
		t.Error("vectors are not attached as they are")
	}
	sub, nodes, err := with.Subgraph(2, 2, BothWays)
	must(t, err)
	defer sub.Vectors().Close()
	row := make([]float32, 5)
	for k, i := range nodes {
		sub.Vectors().Load(row, int32(k))
		if !slices.Equal(row, []float32{1, 2, 3, 4, float32(i)}) {
			t.Errorf("vector of %q in the subgraph is %v", g.ID(i), row)
		}
	}
	must(t, v.Close())
	must(t, v.Close())
	must(t, (*Vectors)(nil).Close())
	_, err = with.Induced([]int32{0})
	wantError(t, err, ErrShape, "closed")
}

func TestVectorErrors(t *testing.T) {
	t.Parallel()
	_, err := NewVectors(3, 0)
	wantError(t, err, ErrShape, "dimension 0")
	_, err = NewVectors(-1, 2)
	wantError(t, err, ErrShape)
	_, err = NewVectors(math.MaxInt, 1<<20)
	if err == nil {
		t.Error("allocated more than there is")
	}
	v, err := NewVectors(3, 2)
	must(t, err)
	defer v.Close()
	wantError(t, v.Set(3, []float32{1, 2}), ErrUnknownNode, "vector 3 of 3")
	wantError(t, v.Set(-1, []float32{1, 2}), ErrUnknownNode)
	wantError(t, v.Set(0, []float32{1}), ErrShape, "dimension 1, not 2")
	_, err = sketch(t, "a").WithVectors(v)
	wantError(t, err, ErrShape, "3 vectors for 1 nodes")
}

func TestVectorCheck(t *testing.T) {
	t.Parallel()
	var b Builder
	for i := range 40 {
		_, err := b.AddNode(Node{ID: fmt.Sprint("n", i)})
		must(t, err)
	}
	g, _, err := b.Build()
	must(t, err)
	for _, half := range []bool{false, true} {
		allocate := NewVectors
		if half {
			allocate = NewHalfVectors
		}
		v, err := allocate(40, 3)
		must(t, err)
		for i := range int32(40) {
			row := []float32{0, -1, 1}
			switch {
			case i == 7:
				row[1] = float32(math.NaN())
			case i == 9:
				row[2] = float32(math.Inf(-1))
			case i >= 20:
				row = []float32{0, float32(math.Copysign(0, -1)), 0}
			}
			must(t, v.Set(i, row))
		}
		r, err := v.Check(g)
		must(t, err)
		if r.Zero != 20 || len(r.ZeroIDs) != namedVectors || r.ZeroIDs[0] != "n20" || r.NotFinite != 2 ||
			!slices.Equal(r.NotFiniteIDs, []string{"n7", "n9"}) {
			t.Errorf("half %t: %+v", half, r)
		}
		_, err = g.WithVectors(v)
		wantError(t, err, ErrNotFinite, `"n7"`, "2")
		must(t, v.Set(7, []float32{1, 1, 1}))
		must(t, v.Set(9, []float32{1, 1, 1}))
		with, err := g.WithVectors(v)
		must(t, err)
		sub, err := with.Induced([]int32{9, 1})
		must(t, err)
		row := make([]float32, 3)
		sub.Vectors().Load(row, 1)
		if !slices.Equal(row, []float32{0, -1, 1}) || sub.Vectors().Half() != half {
			t.Errorf("half %t: vector in the subgraph is %v", half, row)
		}
		must(t, sub.Vectors().Close())
		must(t, v.Close())
	}
}

func TestMappedVectorsAreReadOnly(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	must(t, binary.Write(&file, binary.LittleEndian, []float32{1, 2, 3, 4}))
	path := filepath.Join(t.TempDir(), "vectors")
	must(t, os.WriteFile(path, file.Bytes(), 0o600))
	opened, err := os.Open(path)
	must(t, err)
	v, err := MapVectors(opened, 0, 2, 2, false)
	must(t, err)
	must(t, opened.Close())
	defer v.Close()
	g, err := sketch(t, "a b").WithVectors(v)
	must(t, err)
	wantError(t, v.Set(1, []float32{5, 6}), ErrReadOnly, "vector 1", "copy")
	row := make([]float32, 2)
	if v.Load(row, 1); !slices.Equal(row, []float32{3, 4}) {
		t.Errorf("the mapped vector is %v", row)
	}
	_, r, err := g.FieldsByVectors(t.Context(), Clustering{Fields: 2})
	must(t, err)
	if !slices.Equal(r.Sizes, []int{0, 1, 1}) {
		t.Errorf("fields of mapped vectors: %+v", r)
	}
	copied, err := g.Induced([]int32{1})
	must(t, err)
	defer copied.Vectors().Close()
	must(t, copied.Vectors().Set(0, []float32{5, 6}))
}

// TestTrustedVectors attaches a NaN unread, which WithVectors refuses, but never another number of vectors.
func TestTrustedVectors(t *testing.T) {
	t.Parallel()
	g := linked(t, 2, []Link{{1, 0}})
	v, err := NewVectors(2, 1)
	must(t, err)
	defer v.Close()
	must(t, v.Set(1, []float32{float32(math.NaN())}))
	_, err = g.WithVectors(v)
	wantError(t, err, ErrNotFinite)
	attached, err := g.WithTrustedVectors(v)
	if must(t, err); attached.Vectors() != v || g.Vectors() != nil {
		t.Error("the vectors are not where they should be")
	}
	_, err = linked(t, 3, nil).WithTrustedVectors(v)
	wantError(t, err, ErrShape, "2 vectors for 3 nodes")
}
