package model

import "math/rand/v2"

// FieldMatrix is the paper's propensity model: one logit for every ordered pair of fields.
type FieldMatrix struct{ nodes Nodes }

// NewFieldMatrix returns the model; its parameters are the logits, row by row of the source's field.
func NewFieldMatrix(n Nodes) (*FieldMatrix, error) {
	if err := checkFieldPairs(n, "take the propensity model low-rank-fields"); err != nil {
		return nil, err
	}
	return &FieldMatrix{n}, nil
}

// Kind is "field-matrix".
func (m *FieldMatrix) Kind() string { return "field-matrix" }

// Size is the number of ordered pairs of fields.
func (m *FieldMatrix) Size() int { return m.nodes.FieldCount * m.nodes.FieldCount }

// Parts are the logits, a row per source's field and a column per target's.
func (m *FieldMatrix) Parts() []ParameterBlock {
	return []ParameterBlock{{"logits", []int{m.nodes.FieldCount, m.nodes.FieldCount}}}
}

// StartAt sets every logit to the propensity's.
func (m *FieldMatrix) StartAt(params []float32, propensity float64, _ rand.Source) {
	for c := range params {
		params[c] = logit(propensity)
	}
}

// Logits sets s[k] to the logit of pair k's fields.
func (m *FieldMatrix) Logits(s, params []float32, b Batch) {
	for k := range s[:b.Len()] {
		s[k] = params[m.nodes.cell(b.Sources[k], b.Targets[k])]
	}
}

// Backward adds ds[k] to the gradient of the logit of pair k's fields.
func (m *FieldMatrix) Backward(grad, _ []float32, b Batch, ds []float32) {
	for k, x := range ds[:b.Len()] {
		grad[m.nodes.cell(b.Sources[k], b.Targets[k])] += x
	}
}

// Terms are the logits of the fields.
func (m *FieldMatrix) Terms(params []float32) (ExposureTerms, bool) {
	return ExposureTerms{Fields: params}, true
}

// BackTerms adds the slopes in the fields' logits.
func (m *FieldMatrix) BackTerms(grad []float64, _ []float32, s TermSlopes) {
	for c, x := range s.Fields {
		grad[c] += x
	}
}

// Cell returns the parameter that gives a pair's logit; every logit is one parameter, which lets
// second-order methods use that the pairs of one cell share it.
func (m *FieldMatrix) Cell(source, target int32) int { return m.nodes.cell(source, target) }

func (m *FieldMatrix) madeFor() Nodes { return m.nodes }
func (m *FieldMatrix) options() any   { return PropensityOptions{} }
