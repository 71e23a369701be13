package model

import (
	"math/rand/v2"

	"unseen/graph"
	"unseen/internal/kern"
)

// Diagonal is the paper's link model, z = wᵀ(h_i⊙h_j) + b. It is symmetric unless it sees the
// field pair, which adds f[field_i, field_j] to z.
type Diagonal struct {
	nodes      Nodes
	rows       *kern.Matrix
	fieldAware bool
}

// NewDiagonal returns the diagonal bilinear model, blind to the fields or with the field pair as
// a feature. The parameters are w, then b, then f row by row.
func NewDiagonal(n Nodes, fieldAware bool) (*Diagonal, error) {
	if err := checkNodes(n); err != nil {
		return nil, err
	}
	if fieldAware {
		if err := checkFieldPairs(n, "take the link model diagonal"); err != nil {
			return nil, err
		}
	}
	return &Diagonal{n, kern.MatrixOf(n.Vectors), fieldAware}, nil
}

// Kind is "diagonal", or "diagonal-field" where the model sees the field pair.
func (m *Diagonal) Kind() string {
	if m.fieldAware {
		return "diagonal-field"
	}
	return "diagonal"
}

// Size is d + 1, and the number of field pairs where the model sees them.
func (m *Diagonal) Size() int {
	size := m.rows.Dim() + 1
	if m.fieldAware {
		size += m.nodes.FieldCount * m.nodes.FieldCount
	}
	return size
}

// Parts are w, b and perhaps f.
func (m *Diagonal) Parts() []ParameterBlock {
	parts := []ParameterBlock{{"w", []int{m.rows.Dim()}}, {"b", []int{1}}}
	if m.fieldAware {
		parts = append(parts, ParameterBlock{"f", []int{m.nodes.FieldCount, m.nodes.FieldCount}})
	}
	return parts
}

// Start sets everything to 0: the problem is convex in z.
func (m *Diagonal) Start(params []float32, _ rand.Source) { clear(params) }

// Logits sets z[k] = wᵀ(h_i⊙h_j) + b for pair k. It allocates nothing.
func (m *Diagonal) Logits(z, params []float32, b Batch) {
	d := m.rows.Dim()
	w, bias := params[:d], params[d]
	z = z[:b.Len()]
	if b.grouped() {
		query := kern.Borrow(d)
		defer kern.GiveBack(query)
		for source, r := range b.runs {
			m.query(query.Data, w, source)
			kern.Dots(z[r.from:r.to], query.Data, m.rows, b.Targets[r.from:r.to])
		}
	} else {
		kern.DotPairs(z, w, m.rows, b.Sources, b.Targets)
	}
	if m.fieldAware {
		f := params[d+1:]
		for k := range z {
			z[k] += bias + f[m.nodes.cell(b.Sources[k], b.Targets[k])]
		}
		return
	}
	for k := range z {
		z[k] += bias
	}
}

// query sets q = w⊙h_i, so that z = ⟨q, h_j⟩ + b.
func (m *Diagonal) query(q, w []float32, source int32) {
	m.rows.Load(q, int(source))
	w = w[:len(q)]
	for d, h := range q {
		q[d] = w[d] * h
	}
}

// Backward adds dz·(h_i⊙h_j) to w's gradient, dz to b's and to that of the pair's f. It allocates
// nothing.
func (m *Diagonal) Backward(grad, params []float32, b Batch, dz []float32) {
	d := m.rows.Dim()
	dz = dz[:b.Len()]
	if b.grouped() {
		total, row := kern.Borrow(d), kern.Borrow(d)
		defer kern.GiveBack(total)
		defer kern.GiveBack(row)
		for source, r := range b.runs {
			clear(total.Data)
			kern.AddRows(total.Data, m.rows, b.Targets[r.from:r.to], dz[r.from:r.to])
			m.rows.Load(row.Data, int(source))
			for k, h := range row.Data {
				grad[k] += h * total.Data[k]
			}
		}
	} else {
		kern.AddPairs(grad[:d], m.rows, b.Sources, b.Targets, dz)
	}
	grad[d] += sum(dz)
	if m.fieldAware {
		f := grad[d+1:]
		for k, x := range dz {
			f[m.nodes.cell(b.Sources[k], b.Targets[k])] += x
		}
	}
}

// Query sets q = w⊙h_i; the offset of a field is b, and f's element where the model sees fields.
func (m *Diagonal) Query(q, offsets, params []float32, source int32) {
	m.rows.Load(q, int(source))
	m.QueryOf(q, offsets, params, q, m.nodes.Fields[source])
}

// QueryOf is Query for a vector and a field; the vector may be q itself.
func (m *Diagonal) QueryOf(q, offsets, params, vector []float32, field uint16) {
	d := m.rows.Dim()
	q, w := q[:d], params[:d]
	for k, h := range vector[:d] {
		q[k] = w[k] * h
	}
	offsets = offsets[:m.nodes.FieldCount]
	for g := range offsets {
		offsets[g] = params[d]
	}
	if m.fieldAware {
		row := params[d+1:][int(field)*m.nodes.FieldCount:]
		for g := range offsets {
			offsets[g] += row[g]
		}
	}
}

// Rows are the nodes' vectors.
func (m *Diagonal) Rows([]float32) (*graph.Vectors, error) { return m.nodes.Vectors, nil }

func (m *Diagonal) madeFor() Nodes { return m.nodes }
func (m *Diagonal) options() any   { return LinkOptions{} }
