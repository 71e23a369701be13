package model

import (
	"math"
	"math/rand/v2"

	"unseen/internal/kern"
)

// Cosine is the baseline z = a·cos(h_i, h_j) + b. Untrained it ranks by the cosine; training a and b
// makes its probabilities calibrated and, while a > 0, leaves the ranking as it was. A vector of zeros
// has cosine 0 to every other.
type Cosine struct {
	nodes   Nodes
	rows    *kern.Matrix
	inverse []float32 // 1/‖h‖, or 0
	ones    []float32
}

// NewCosine returns the baseline; it reads every vector once, for its length. The parameters are a
// and b.
func NewCosine(n Nodes) (*Cosine, error) {
	if err := checkNodes(n); err != nil {
		return nil, err
	}
	rows := kern.MatrixOf(n.Vectors)
	m := &Cosine{n, rows, make([]float32, rows.Rows()), make([]float32, rows.Dim())}
	row := make([]float32, rows.Dim())
	for i := range m.inverse {
		rows.Load(row, i)
		square := 0.0
		for _, h := range row {
			square += float64(h) * float64(h)
		}
		if square > 0 {
			m.inverse[i] = float32(1 / math.Sqrt(square))
		}
	}
	for d := range m.ones {
		m.ones[d] = 1
	}
	return m, nil
}

// Kind is "cosine".
func (m *Cosine) Kind() string { return "cosine" }

// Size is 2.
func (m *Cosine) Size() int { return 2 }

// Parts are a and b.
func (m *Cosine) Parts() []ParameterBlock { return []ParameterBlock{{"a", []int{1}}, {"b", []int{1}}} }

// Start sets a = 1 and b = 0: z is the cosine.
func (m *Cosine) Start(params []float32, _ rand.Source) { params[0], params[1] = 1, 0 }

// Logits sets z[k] = a·cos(h_i, h_j) + b for pair k.
func (m *Cosine) Logits(z, params []float32, b Batch) {
	m.cosines(z, b)
	for k := range z[:b.Len()] {
		z[k] = params[0]*z[k] + params[1]
	}
}

func (m *Cosine) cosines(dst []float32, b Batch) {
	dst = dst[:b.Len()]
	if b.grouped() {
		query := kern.Borrow(m.rows.Dim())
		defer kern.GiveBack(query)
		for source, r := range b.runs {
			m.rows.Load(query.Data, int(source))
			kern.Dots(dst[r.from:r.to], query.Data, m.rows, b.Targets[r.from:r.to])
		}
	} else {
		kern.DotPairs(dst, m.ones, m.rows, b.Sources, b.Targets)
	}
	for k := range dst {
		dst[k] *= m.inverse[b.Sources[k]] * m.inverse[b.Targets[k]]
	}
}

// Backward adds dz·cos to a's gradient and dz to b's.
func (m *Cosine) Backward(grad, _ []float32, b Batch, dz []float32) {
	cosines := kern.Borrow(b.Len())
	defer kern.GiveBack(cosines)
	m.cosines(cosines.Data, b)
	var slope float64
	for k, c := range cosines.Data {
		slope += float64(dz[k]) * float64(c)
	}
	grad[0] += float32(slope)
	grad[1] += sum(dz[:b.Len()])
}

func (m *Cosine) madeFor() Nodes { return m.nodes }
func (m *Cosine) options() any   { return LinkOptions{} }
