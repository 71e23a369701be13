package model

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// defaultFieldRank is that of LowRankFields.
const defaultFieldRank = 4

// LowRankFields is the field matrix of low rank: for source's field f and target's field g,
//
//	s = a_f·b_g + u_f + v_g + c.
//
// With C fields it has 2C(r+1) + 1 parameters instead of C², for more pairs of fields than the data
// can distinguish.
type LowRankFields struct {
	nodes Nodes
	rank  int
}

// NewLowRankFields returns the model of a rank between 1 and the number of fields; 0 means 4, or that
// number where it is less. The parameters are a and b with a row per field, u, v and c.
func NewLowRankFields(n Nodes, rank int) (*LowRankFields, error) {
	if err := checkFields(n); err != nil {
		return nil, err
	}
	most := max(n.FieldCount, 1)
	if rank == 0 {
		rank = min(defaultFieldRank, most)
	}
	if rank < 1 || rank > most {
		return nil, fmt.Errorf("%w: rank %d of a matrix over %d fields; give 1 to %d", ErrOption, rank, n.FieldCount,
			most)
	}
	return &LowRankFields{n, rank}, nil
}

// Kind is "low-rank-fields".
func (m *LowRankFields) Kind() string { return "low-rank-fields" }

// Size is 2C(r+1) + 1 for C fields.
func (m *LowRankFields) Size() int { return 2*m.nodes.FieldCount*(m.rank+1) + 1 }

// Parts are a, b, u, v and c.
func (m *LowRankFields) Parts() []ParameterBlock {
	fields := m.nodes.FieldCount
	return []ParameterBlock{{"a", []int{fields, m.rank}}, {"b", []int{fields, m.rank}}, {"u", []int{fields}},
		{"v", []int{fields}}, {"c", []int{1}}}
}

// StartAt sets c to the propensity's logit, u and v to 0, and draws a and b such that s begins about
// ±.1 from c: at a = b = 0 their gradient is 0.
func (m *LowRankFields) StartAt(params []float32, propensity float64, src rand.Source) {
	const spread = .1
	clear(params)
	deviation := math.Sqrt(spread / math.Sqrt(float64(m.rank)))
	normal(params[:2*m.nodes.FieldCount*m.rank], deviation, rand.New(src))
	params[m.Size()-1] = logit(propensity)
}

// place returns the parts of parameters or of a gradient that the fields of a pair use.
func (m *LowRankFields) place(params []float32, source, target int32) (a, b []float32, u, v, c *float32) {
	return placeOf(m, params, int(m.nodes.Fields[source]), int(m.nodes.Fields[target]))
}

func placeOf[T float32 | float64](m *LowRankFields, params []T, f, g int) (a, b []T, u, v, c *T) {
	fields := m.nodes.FieldCount
	a = params[f*m.rank : (f+1)*m.rank]
	b = params[(fields+g)*m.rank : (fields+g+1)*m.rank]
	rest := params[2*fields*m.rank:]
	return a, b, &rest[f], &rest[fields+g], &rest[2*fields]
}

// Logits sets s[k] = a_f·b_g + u_f + v_g + c for the fields of pair k.
func (m *LowRankFields) Logits(s, params []float32, batch Batch) {
	for k := range s[:batch.Len()] {
		s[k] = m.logit(params, int(m.nodes.Fields[batch.Sources[k]]), int(m.nodes.Fields[batch.Targets[k]]))
	}
}

func (m *LowRankFields) logit(params []float32, f, g int) float32 {
	a, b, u, v, c := placeOf(m, params, f, g)
	total := *u + *v + *c
	for r := range a {
		total += a[r] * b[r]
	}
	return total
}

// mostTermFields bounds the table of Terms, at 64 MB.
const mostTermFields = 4096

// Terms are the logits of the fields; there are none where there are more than 4096 fields.
func (m *LowRankFields) Terms(params []float32) (ExposureTerms, bool) {
	fields := m.nodes.FieldCount
	if fields > mostTermFields {
		return ExposureTerms{}, false
	}
	logits := make([]float32, fields*fields)
	for c := range logits {
		logits[c] = m.logit(params, c/fields, c%fields)
	}
	return ExposureTerms{Fields: logits}, true
}

// Backward adds ds·b_g to a_f's gradient, ds·a_f to b_g's, and ds to those of u_f, v_g and c.
func (m *LowRankFields) Backward(grad, params []float32, batch Batch, ds []float32) {
	for k, x := range ds[:batch.Len()] {
		a, b, _, _, _ := m.place(params, batch.Sources[k], batch.Targets[k])
		gradA, gradB, u, v, _ := m.place(grad, batch.Sources[k], batch.Targets[k])
		for r := range a {
			gradA[r] += x * b[r]
			gradB[r] += x * a[r]
		}
		*u += x
		*v += x
	}
	grad[m.Size()-1] += sum(ds[:batch.Len()])
}

// BackTerms does the same with the slopes in the fields' logits.
func (m *LowRankFields) BackTerms(grad []float64, params []float32, s TermSlopes) {
	fields := m.nodes.FieldCount
	for cell, x := range s.Fields {
		a, b, _, _, _ := placeOf(m, params, cell/fields, cell%fields)
		gradA, gradB, u, v, c := placeOf(m, grad, cell/fields, cell%fields)
		for r := range a {
			gradA[r] += x * float64(b[r])
			gradB[r] += x * float64(a[r])
		}
		*u += x
		*v += x
		*c += x
	}
}

func (m *LowRankFields) madeFor() Nodes { return m.nodes }
func (m *LowRankFields) options() any   { return PropensityOptions{Rank: m.rank} }
