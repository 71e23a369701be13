package kern

import (
	"fmt"
	"runtime"
)

// Dots sets dst[k] = Σ_d q[d]·m[idx[k]][d]: one query row against a list of rows.
func Dots(dst, q []float32, m *Matrix, idx []int32) {
	m.checkRow("query", q)
	m.checkIndices(idx)
	dotGather(dst[:len(idx)], q, m, idx)
	runtime.KeepAlive(m)
}

// DotRange sets dst[k] = Σ_d q[d]·m[from+k][d]: one query row against consecutive rows.
// Its results have the same bits as those of Dots.
func DotRange(dst, q []float32, m *Matrix, from int) {
	m.checkRow("query", q)
	if len(dst) == 0 {
		return
	}
	m.check(from)
	m.check(from + len(dst) - 1)
	dotScan(dst, q, m, from)
	runtime.KeepAlive(m)
}

// AddRows adds Σ_k c[k]·m[idx[k]] to dst, in the order of k.
func AddRows(dst []float32, m *Matrix, idx []int32, c []float32) {
	m.checkRow("sum", dst)
	m.checkIndices(idx)
	addGather(dst, m, idx, c[:len(idx)])
	runtime.KeepAlive(m)
}

// GramOrder is the order of the square that AddGram needs for rows of a dimension: whole registers.
func GramOrder(dim int) int { return roundUp(dim, maxLanes) }

// AddGram adds Σ_k c[k]·m[idx[k]]·m[idx[k]]ᵀ, in the order of k, to the lower triangle of h, a square of GramOrder(dim)
// row by row. What h has above it is undefined. Rows of m are float32 and padded with zeros to that order.
func AddGram(h []float32, m *Matrix, idx []int32, c []float32) {
	order := GramOrder(m.dim)
	if m.half || m.stride < order || len(m.f32) < m.rows*m.stride || len(h) != order*order {
		panic(fmt.Sprintf("kern: a Gram matrix with %d numbers of rows of %d in %d, float16 %v", len(h), m.dim,
			m.stride, m.half))
	}
	m.checkIndices(idx)
	gram(h, order, m, idx, c[:len(idx)])
	runtime.KeepAlive(m)
}

// DotPairs sets dst[k] = Σ_d w[d]·m[sources[k]][d]·m[targets[k]][d], for pairs that are not
// grouped by source.
func DotPairs(dst, w []float32, m *Matrix, sources, targets []int32) {
	m.checkRow("weights", w)
	m.checkIndices(sources)
	m.checkIndices(targets)
	dotPairs(dst[:len(sources)], w, m, sources, targets[:len(sources)])
	runtime.KeepAlive(m)
}

// AddPairs adds Σ_k c[k]·m[sources[k]]⊙m[targets[k]] to dst, in the order of k: the gradient
// that belongs to DotPairs.
func AddPairs(dst []float32, m *Matrix, sources, targets []int32, c []float32) {
	m.checkRow("sum", dst)
	m.checkIndices(sources)
	m.checkIndices(targets)
	addPairs(dst, m, sources, targets[:len(sources)], c[:len(sources)])
	runtime.KeepAlive(m)
}

func (m *Matrix) checkRow(name string, row []float32) {
	if len(row) != m.dim {
		panic(fmt.Sprintf("kern: %s has %d elements, the matrix %d", name, len(row), m.dim))
	}
}
