package model

import (
	"fmt"

	"unseen/internal/kern"
)

// Describing tells what the vectors of targets explain of their factors. Of t_j = v_j + A·h_j, with precisions p of v
// and q of A, the likeliest A is that of a ridge regression of t on h: it minimises p·Σ‖t_j − A·h_j‖² + q·‖A‖².
type Describing struct {
	model  *Factors
	factor []float64 // of Σ h·hᵀ + q/p, by Cholesky
}

// Describing prepares for precisions of v and A in a ratio q/p; nil where there is no A.
func (m *Factors) Describing(ratio float64) (*Describing, error) {
	if m.rows == nil {
		return nil, nil
	}
	const chunk, chunks = 64, 64
	d, order := m.dim(), kern.GramOrder(m.dim())
	rows, err := kern.View(make([]float32, chunk*order), chunk, d, order)
	if err != nil {
		return nil, err
	}
	ones, places, sum := make([]float32, chunk), make([]int32, 0, chunk), make([]float32, order*order)
	for k := range ones {
		ones[k] = 1
	}
	e := &Describing{m, make([]float64, d*d)}
	part := 0
	flush := func(last bool) {
		kern.AddGram(sum, rows, places, ones)
		places = places[:0]
		if part++; part%chunks != 0 && !last { // beyond that float32 would lose digits
			return
		}
		for a := range d {
			for b := range a + 1 {
				e.factor[a*d+b] += float64(sum[a*order+b])
			}
		}
		clear(sum)
	}
	for node := range int32(m.nodes.Len()) {
		if m.targets.of(node) < 0 {
			continue
		}
		m.rows.Load(rows.Row(len(places)), int(node))
		if places = append(places, int32(len(places))); len(places) == chunk {
			flush(false)
		}
	}
	flush(true)
	for a := range d {
		e.factor[a*d+a] += ratio
	}
	if !kern.Cholesky(e.factor, d) {
		return nil, fmt.Errorf("%w: the vectors of the targets have no regression; give them finite numbers",
			ErrNotFinite)
	}
	return e, nil
}

// Explained sets rows, one of stride numbers for every target, to A·h_j.
func (e *Describing) Explained(rows, params []float32, stride int) {
	e.each(params, func(j int32, _, described []float32) { copy(rows[int(j)*stride:][:stride], described) })
}

// Explain sets A and v, given the rows t.
func (e *Describing) Explain(params, t []float32, stride int) {
	m, d := e.model, e.model.dim()
	p, vector, sums := m.split(params), make([]float32, d), make([]float64, m.rank*d)
	for node := range int32(m.nodes.Len()) {
		j := m.targets.of(node)
		if j < 0 {
			continue
		}
		m.rows.Load(vector, int(node))
		for k, x := range t[int(j)*stride:][:m.rank] {
			to := sums[k*d:][:d]
			for i, h := range vector {
				to[i] += float64(x) * float64(h)
			}
		}
	}
	for k := range m.rank {
		row := sums[k*d:][:d]
		kern.SolveCholesky(e.factor, row)
		for i, x := range row {
			p.a[k*d+i] = float32(x)
		}
	}
	e.each(params, func(j int32, own, described []float32) {
		for k, x := range t[int(j)*stride:][:m.rank] {
			own[k] = x - described[k]
		}
	})
}

// each hands v_j and A·h_j of every target to a function.
func (e *Describing) each(params []float32, visit func(j int32, own, described []float32)) {
	m, d := e.model, e.model.dim()
	p, vector, described := m.split(params), make([]float32, d), make([]float32, m.rank)
	for node := range int32(m.nodes.Len()) {
		j := m.targets.of(node)
		if j < 0 {
			continue
		}
		m.rows.Load(vector, int(node))
		for k := range described {
			described[k] = dotOf(p.a[k*d:(k+1)*d], vector)
		}
		visit(j, m.row(p.v, j), described)
	}
}
