package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"unseen/graph"
)

// defaultBonus is what was measured to raise cross-field recall most for the recall it costs.
const defaultBonus = .5

// CrossBonus is another link model with a constant added to z where the fields of source and target
// differ: the simplest remedy for too few recommendations across fields, and a baseline that any
// correction for exposure should beat. The constant is not trained; the parameters are those of the
// model inside, which is best trained without the bonus.
type CrossBonus struct {
	inside savedLink
	nodes  Nodes
	bonus  float64
}

// NewCrossBonus returns a link model of this package with a bonus for pairs of different fields. It
// is an [InnerProduct], or a [VectorQuery], if the model is.
func NewCrossBonus(inside LinkModel, bonus float64) (LinkModel, error) {
	own, ok := inside.(savedLink)
	if !ok || strings.HasSuffix(inside.Kind(), bonusSuffix) {
		return nil, fmt.Errorf("%w: a bonus goes on a link model of this package that has none yet, not on %T",
			ErrKind, inside)
	}
	if math.IsNaN(bonus) || math.Abs(bonus) > maxLogit {
		return nil, fmt.Errorf("%w: a bonus of %v; give a logit of at most %d, such as %v", ErrOption, bonus, maxLogit,
			defaultBonus)
	}
	m := &CrossBonus{own, own.madeFor(), bonus}
	switch inner := inside.(type) {
	case VectorQuery:
		return &vectorCrossBonus{innerCrossBonus{m, inner}, inner}, nil
	case InnerProduct:
		return &innerCrossBonus{m, inner}, nil
	}
	return m, nil
}

// Kind is that of the model inside with "+bonus" behind it.
func (m *CrossBonus) Kind() string { return m.inside.Kind() + bonusSuffix }

// Size is that of the model inside.
func (m *CrossBonus) Size() int { return m.inside.Size() }

// Parts are those of the model inside.
func (m *CrossBonus) Parts() []ParameterBlock { return m.inside.Parts() }

// Start is that of the model inside.
func (m *CrossBonus) Start(params []float32, src rand.Source) { m.inside.Start(params, src) }

// Logits sets z[k] to that of the model inside, and adds the bonus across fields.
func (m *CrossBonus) Logits(z, params []float32, b Batch) {
	m.inside.Logits(z, params, b)
	for k := range z[:b.Len()] {
		if m.nodes.Fields[b.Sources[k]] != m.nodes.Fields[b.Targets[k]] {
			z[k] += float32(m.bonus)
		}
	}
}

// Backward is that of the model inside.
func (m *CrossBonus) Backward(grad, params []float32, b Batch, dz []float32) {
	m.inside.Backward(grad, params, b, dz)
}

func (m *CrossBonus) madeFor() Nodes { return m.nodes }

func (m *CrossBonus) options() any {
	options, _ := m.inside.options().(LinkOptions)
	options.Bonus = m.bonus
	return options
}

// innerCrossBonus is a bonus on an inner product, which stays one: the bonus is a matter of the
// target's field.
type innerCrossBonus struct {
	*CrossBonus
	inner InnerProduct
}

// Rows are those of the model inside.
func (m *innerCrossBonus) Rows(params []float32) (*graph.Vectors, error) { return m.inner.Rows(params) }

// RowOf is that of the model inside, if it has one.
func (m *innerCrossBonus) RowOf(row, params []float32, node int32, vector []float32) bool {
	inside, ok := m.inner.(TargetRows)
	return ok && inside.RowOf(row, params, node, vector)
}

// Query is that of the model inside, with the bonus on the offsets of other fields.
func (m *innerCrossBonus) Query(q, offsets, params []float32, source int32) {
	m.inner.Query(q, offsets, params, source)
	m.addBonus(offsets, m.nodes.Fields[source])
}

// vectorCrossBonus is a bonus on a model that knows new sources by their vectors.
type vectorCrossBonus struct {
	innerCrossBonus
	vectors VectorQuery
}

// QueryOf is Query for a vector and a field.
func (m *vectorCrossBonus) QueryOf(q, offsets, params, vector []float32, field uint16) {
	m.vectors.QueryOf(q, offsets, params, vector, field)
	m.addBonus(offsets, field)
}

func (m *innerCrossBonus) addBonus(offsets []float32, field uint16) {
	for g := range offsets[:m.nodes.FieldCount] {
		if g != int(field) {
			offsets[g] += float32(m.bonus)
		}
	}
}
