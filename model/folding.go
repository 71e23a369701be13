package model

import (
	"fmt"
	"math"

	"unseen/internal/kern"
)

// Folding finds factors and the effect of sources that a model of [Factors] was not trained on, by their history: with
// the rows of all targets fixed, they are r+1 numbers. It may be used by many goroutines at once.
type Folding struct {
	model  *Factors
	rows   *kern.Matrix // of targets alone, in their order, with 1 for the effect behind the factors
	turned []float32    // the same by columns
	bias   float64
	prior  float64   // precision of every factor; that of the effect is SourcePrecision
	target []float32 // their effects
}

// SourceHistory is what is known of a new source.
type SourceHistory struct {
	Linked []int32 // targets that it links to
	// Weights say how much each of Linked counts; nil means 1.
	Weights []float32
	Shown   []int32 // targets that it was shown and does not link to
	// Exposure is π̂ of every target of the nodes, in their order: with this probability one of the others was shown.
	// nil means 1, as a naive model has it; at 0 the others do not count.
	Exposure []float32
}

// Folding prepares folding in under the parameters, with the precision of the prior of every factor.
func (m *Factors) Folding(params []float32, precision float64) (*Folding, error) {
	if !(precision > 0) || math.IsInf(precision, 0) {
		return nil, fmt.Errorf("%w: a prior precision of %v; give a positive number", ErrOption, precision)
	}
	all, err := m.Rows(params)
	if err != nil {
		return nil, err
	}
	p, n, size := m.split(params), m.targets.count, m.rank+1
	f := &Folding{model: m, turned: make([]float32, n*size), bias: float64(p.b[0]), prior: precision, target: p.target}
	rows := make([]float32, n*size)
	for node := range int32(m.nodes.Len()) {
		if j := int(m.targets.of(node)); j >= 0 {
			row := rows[j*size : (j+1)*size]
			all.Load(row, node)
			row[m.rank] = 1
		}
	}
	f.rows = view(rows, n, size)
	transpose(f.turned, rows, n, size)
	return f, nil
}

// Query sets q and the offsets, one per field, as [Factors.Query] does, for the source with a history: at the minimum
// over its factors u and effect b_i of
//
//	−Σ_linked w_j·log ŷ_j − Σ_shown log(1 − ŷ_j) − Σ_others log(1 − π̂_j·ŷ_j) + ½p‖u‖² + ½·SourcePrecision·b_i²,
//
// by Newton steps.
func (f *Folding) Query(q, offsets []float32, h SourceHistory) error {
	m := f.model
	outcome := make([]int8, m.targets.count) // 0 of the others
	var weights []float32                    // by target
	if h.Weights != nil {
		if len(h.Weights) != len(h.Linked) {
			return fmt.Errorf("%w: %d weights of %d linked targets", ErrShape, len(h.Weights), len(h.Linked))
		}
		weights = make([]float32, m.targets.count)
	}
	for _, part := range []struct {
		nodes []int32
		value int8
	}{{h.Shown, -1}, {h.Linked, 1}} {
		for _, node := range part.nodes {
			if uint(node) >= uint(m.nodes.Len()) || m.targets.of(node) < 0 {
				return fmt.Errorf("%w: node %d of a history is no target", ErrShape, node)
			}
			outcome[m.targets.of(node)] = part.value
		}
	}
	if h.Exposure != nil && len(h.Exposure) != m.targets.count {
		return fmt.Errorf("%w: π̂ of %d targets, of %d", ErrShape, len(h.Exposure), m.targets.count)
	}
	for k, w := range h.Weights {
		weights[m.targets.of(h.Linked[k])] += w
	}
	s := newFold(f, outcome, h.Exposure)
	s.weights = weights
	defer s.close()
	const steps, enough = 20, 1e-3
	value := s.evaluate(s.at)
	for range steps {
		if !s.direction() {
			break
		}
		step, lowered := 1., 0.
		for ; step > 1e-3; step /= 2 {
			for k := range s.next {
				s.next[k] = s.at[k] + step*s.move[k]
			}
			if v := s.evaluate(s.next); v <= value {
				lowered, value = value-v, v
				break
			}
		}
		if lowered == 0 {
			break
		}
		if copy(s.at, s.next); lowered < enough {
			break
		}
	}
	for k, u := range s.at[:m.rank] {
		q[k] = float32(u)
	}
	q[m.rank] = 1
	for g := range offsets[:m.nodes.FieldCount] {
		offsets[g] = float32(s.at[m.rank] + f.bias)
	}
	return nil
}

// fold is one call of Query.
type fold struct {
	*Folding
	outcome        []int8
	exposure       []float32
	weights        []float32 // of linked targets; nil means 1
	at, next, move []float64 // u and b_i
	room           *kern.Scratch
	query, z       []float32
	slope, weight  []float32 // of every target at the last evaluation: ∂/∂z, and about ∂²/∂z²
	weighted       []float32 // the rows by columns, times the weights
	information    []float32
	sum            []float32
}

func newFold(f *Folding, outcome []int8, exposure []float32) *fold {
	n, size := f.model.targets.count, f.model.rank+1
	room := kern.Borrow(n*(3+size) + size*(size+2))
	s := &fold{Folding: f, outcome: outcome, exposure: exposure, room: room}
	numbers := make([]float64, 3*size)
	s.at, s.next, s.move = numbers[:size], numbers[size:2*size], numbers[2*size:]
	s.query, s.sum, s.information = room.Cut(size), room.Cut(size), room.Cut(size*size)
	s.z, s.slope, s.weight, s.weighted = room.Cut(n), room.Cut(n), room.Cut(n), room.Cut(n*size)
	return s
}

func (s *fold) close() { kern.GiveBack(s.room) }

// evaluate returns the objective, and sets the slopes and weights.
func (s *fold) evaluate(at []float64) (value float64) {
	rank := len(at) - 1
	for k, x := range at {
		s.query[k] = float32(x)
		precision := s.prior
		if k == rank {
			precision = SourcePrecision
		}
		value += precision * x * x / 2
	}
	kern.DotRange(s.z, s.query, s.rows, 0)
	for j := range s.z {
		s.z[j] += s.target[j] + float32(s.bias)
	}
	product := 1. // of the probabilities of others, whose logarithm costs more than the rest of them
	y, loss := s.slope, s.weight
	kern.SigmoidSoftplus(y, loss, s.z) // ŷ and −log(1−ŷ)
	for j, outcome := range s.outcome {
		p, lost := y[j], float64(loss[j])
		switch {
		case outcome > 0:
			w := float32(1)
			if s.weights != nil {
				w = s.weights[j]
			}
			value += float64(w) * (lost - float64(s.z[j]))
			s.slope[j], s.weight[j] = w*(p-1), w*p*(1-p)
		case outcome < 0 || s.exposure == nil:
			value += lost
			s.slope[j], s.weight[j] = p, p*(1-p)
		default:
			// of −log(1−πŷ): slope πŷ(1−ŷ)/(1−πŷ); the weight leaves out what may be negative of the curvature
			pi := s.exposure[j]
			unlinked := max(1-pi*p, 1e-30)
			if product *= float64(unlinked); product < 1e-200 {
				value -= math.Log(product)
				product = 1
			}
			s.slope[j] = pi * p * (1 - p) / unlinked
			s.weight[j] = s.slope[j] * (1 - p)
		}
	}
	return value - math.Log(product)
}

// direction sets the move to the Newton step from the last evaluation, which was at s.at; false if there is none.
func (s *fold) direction() bool {
	size, n := len(s.at), len(s.z)
	kern.DotRange(s.sum, s.slope, view(s.turned, size, n), 0)
	for k := range size {
		column, weighted := s.turned[k*n:(k+1)*n], s.weighted[k*n:(k+1)*n]
		for j, w := range s.weight {
			weighted[j] = w * column[j]
		}
	}
	kern.Mul(view(s.information, size, size), view(s.weighted, size, n), s.rows, false)
	h := make([]float64, size*size)
	for k := range size {
		precision := s.prior
		if k == size-1 {
			precision = SourcePrecision
		}
		for l := range k + 1 {
			h[k*size+l] = float64(s.information[k*size+l])
		}
		h[k*size+k] += precision
		s.move[k] = -(float64(s.sum[k]) + precision*s.at[k])
	}
	return kern.SolveLower(h, s.move)
}
