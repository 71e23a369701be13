package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"unseen/internal/kern"
)

const (
	defaultLinkHidden       = 32
	defaultPropensityHidden = 16
	maxHidden               = 1 << 16
)

// MLP is the link model with one hidden layer over what the two vectors share and how they differ,
//
//	x = (h_i⊙h_j, |h_i−h_j|)    z = v·SiLU(W·x + c) + b.
//
// SiLU(p) = p·σ(p) is a smooth ReLU, so that second-order methods and finite differences see no
// kinks. A directed model takes h_i−h_j without the bars, so that z_ij ≠ z_ji.
type MLP struct{ perceptron }

// NewMLP returns the model with a number of hidden units; 0 means 32. The parameters are W row by row, c,
// v and b.
func NewMLP(n Nodes, hidden int, directed bool) (*MLP, error) {
	p, err := newPerceptron(n, hidden, defaultLinkHidden)
	if err != nil {
		return nil, err
	}
	p.directed = directed
	return &MLP{p}, nil
}

// Start draws W such that hidden units begin at about ±1 whatever the length of the vectors, and v
// such that z begins at about ±.1.
func (m *MLP) Start(params []float32, src rand.Source) { m.start(params, 0, src) }

func (m *MLP) options() any { return LinkOptions{Hidden: m.hidden, Directed: m.directed} }

// FieldMLP is the propensity model with one hidden layer over the fields, by an embedding of either,
// and over the vectors, as in [MLP]:
//
//	s = v·SiLU(S[field_i] + T[field_j] + W·x + c) + b.
//
// Only π·y is seen in links. A propensity that depends on everything that the link model depends on can
// take its place; fit it to logged exposures.
type FieldMLP struct{ perceptron }

// NewFieldMLP returns the model with a number of hidden units; 0 means 16. The parameters are W row by
// row, c, S and T with a row per field, v and b.
func NewFieldMLP(n Nodes, hidden int, directed bool) (*FieldMLP, error) {
	p, err := newPerceptron(n, hidden, defaultPropensityHidden)
	if err != nil {
		return nil, err
	}
	p.directed, p.fields = directed, true
	return &FieldMLP{p}, nil
}

// StartAt draws the parameters such that s begins about ±.1 from the propensity's logit.
func (m *FieldMLP) StartAt(params []float32, propensity float64, src rand.Source) {
	m.start(params, logit(propensity), src)
}

func (m *FieldMLP) options() any { return PropensityOptions{Hidden: m.hidden, Directed: m.directed} }

// perceptron is what both have in common.
type perceptron struct {
	nodes    Nodes
	rows     *kern.Matrix
	hidden   int
	directed bool
	fields   bool
}

func newPerceptron(n Nodes, hidden, usual int) (perceptron, error) {
	if err := checkNodes(n); err != nil {
		return perceptron{}, err
	}
	if hidden == 0 {
		hidden = usual
	}
	if hidden < 1 || hidden > maxHidden {
		return perceptron{}, fmt.Errorf("%w: %d hidden units; give 1 to %d", ErrOption, hidden, maxHidden)
	}
	return perceptron{nodes: n, rows: kern.MatrixOf(n.Vectors), hidden: hidden}, nil
}

// Kind is "mlp", among link models and among propensity models.
func (m *perceptron) Kind() string { return "mlp" }

// Size is hidden·(2d + 2) + 1; a FieldMLP has two embeddings of every field more.
func (m *perceptron) Size() int {
	size := m.hidden*(2*m.rows.Dim()+2) + 1
	if m.fields {
		size += 2 * m.nodes.FieldCount * m.hidden
	}
	return size
}

// Parts are W, c, v and b; a FieldMLP has S and T after c.
func (m *perceptron) Parts() []ParameterBlock {
	parts := []ParameterBlock{{"W", []int{m.hidden, 2 * m.rows.Dim()}}, {"c", []int{m.hidden}}}
	if m.fields {
		parts = append(parts, ParameterBlock{"S", []int{m.nodes.FieldCount, m.hidden}},
			ParameterBlock{"T", []int{m.nodes.FieldCount, m.hidden}})
	}
	return append(parts, ParameterBlock{"v", []int{m.hidden}}, ParameterBlock{"b", []int{1}})
}

// layers are the parts of parameters or of a gradient.
type layers struct{ w, c, source, target, v, b []float32 }

func (m *perceptron) split(params []float32) layers {
	take := func(n int) []float32 {
		part := params[:n:n]
		params = params[n:]
		return part
	}
	var l layers
	l.w, l.c = take(m.hidden*2*m.rows.Dim()), take(m.hidden)
	if m.fields {
		l.source, l.target = take(m.nodes.FieldCount*m.hidden), take(m.nodes.FieldCount*m.hidden)
	}
	l.v, l.b = take(m.hidden), take(1)
	return l
}

func (m *perceptron) start(params []float32, bias float32, src rand.Source) {
	const spread = .1
	clear(params)
	l, rng := m.split(params), rand.New(src)
	d, square := m.rows.Dim(), meanSquare(m.rows)
	// Of unrelated vectors, ‖h_i⊙h_j‖² is about ‖h‖⁴/d and ‖h_i−h_j‖² about 2‖h‖²; each half of x
	// is to give a hidden unit half of its variance.
	shared, apart := math.Sqrt(float64(d)/2)/square, .5/math.Sqrt(square)
	for k := range m.hidden {
		row := l.w[k*2*d : (k+1)*2*d]
		normal(row[:d], shared, rng)
		normal(row[d:], apart, rng)
	}
	normal(l.source, .5, rng)
	normal(l.target, .5, rng)
	normal(l.v, spread/math.Sqrt(float64(m.hidden)), rng)
	l.b[0] = bias
}

// forward is the hidden layer of a block of pairs.
type forward struct {
	x    []float32 // what is seen of the pairs, a row of 2d each
	sums []float32 // p = W·x + c (+ S + T), a row per pair
	gate []float32 // σ(p)
}

func (m *perceptron) scratchSize() int { return block*(2*m.rows.Dim()+2*m.hidden) + 2*m.rows.Dim() }

// hiddenLayer computes the layer of at most a block of pairs in scratch.
func (m *perceptron) hiddenLayer(room kern.Scratch, l layers, b Batch) forward {
	d, n := m.rows.Dim(), b.Len()
	f := forward{room.Cut(n * 2 * d), room.Cut(n * m.hidden), room.Cut(n * m.hidden)}
	left, right := room.Cut(d), room.Cut(d)
	for k := range n {
		m.see(f.x[k*2*d:(k+1)*2*d], vectorIn(left, m.rows, b.Sources[k]), vectorIn(right, m.rows, b.Targets[k]))
	}
	kern.MulT(view(f.sums, n, m.hidden), view(f.x, n, 2*d), view(l.w, m.hidden, 2*d))
	for k := range n {
		p := f.sums[k*m.hidden : (k+1)*m.hidden]
		add(p, l.c)
		if m.fields {
			add(p, m.embedding(l.source, b.Sources[k]))
			add(p, m.embedding(l.target, b.Targets[k]))
		}
	}
	kern.Sigmoid(f.gate, f.sums)
	return f
}

// see sets x = (h_i⊙h_j, |h_i−h_j|).
func (m *perceptron) see(x, source, target []float32) {
	d := len(source)
	shared, apart := x[:d], x[d:2*d]
	target = target[:d]
	if m.directed {
		for k, h := range source {
			shared[k], apart[k] = h*target[k], h-target[k]
		}
		return
	}
	for k, h := range source {
		shared[k] = h * target[k]
		apart[k] = math.Float32frombits(math.Float32bits(h-target[k]) &^ (1 << 31))
	}
}

// embedding returns the row of a node's field.
func (m *perceptron) embedding(table []float32, node int32) []float32 {
	f := int(m.nodes.Fields[node])
	return table[f*m.hidden : (f+1)*m.hidden]
}

// add adds x to dst.
func add(dst, x []float32) {
	x = x[:len(dst)]
	for k := range dst {
		dst[k] += x[k]
	}
}

// Logits sets out[k] to the logit of pair k.
func (m *perceptron) Logits(out, params []float32, b Batch) {
	l := m.split(params)
	room := kern.Borrow(m.scratchSize())
	defer kern.GiveBack(room)
	for from := 0; from < b.Len(); from += block {
		part := b.slice(from, min(from+block, b.Len()))
		f := m.hiddenLayer(*room, l, part)
		for k := range part.Len() {
			sums, gate := f.sums[k*m.hidden:(k+1)*m.hidden], f.gate[k*m.hidden:(k+1)*m.hidden]
			total := l.b[0]
			for u, v := range l.v {
				total += v * sums[u] * gate[u]
			}
			out[from+k] = total
		}
	}
	runtime.KeepAlive(m)
}

// Backward adds the gradient; with SiLU′(p) = σ(p)·(1 + p·(1−σ(p))) and e = d·v⊙SiLU′(p) per pair,
//
//	∂W = Σ e·xᵀ    ∂c = Σ e    ∂v = Σ d·SiLU(p)    ∂b = Σ d;
//
// of a FieldMLP ∂S and ∂T are Σ e over the pairs of each field.
func (m *perceptron) Backward(grad, params []float32, b Batch, d []float32) {
	l, g := m.split(params), m.split(grad)
	room := kern.Borrow(m.scratchSize())
	defer kern.GiveBack(room)
	errors := kern.Borrow(block * m.hidden)
	defer kern.GiveBack(errors)
	width := 2 * m.rows.Dim()
	for from := 0; from < b.Len(); from += block {
		part := b.slice(from, min(from+block, b.Len()))
		n := part.Len()
		f := m.hiddenLayer(*room, l, part)
		for k, scale := range d[from : from+n] {
			sums, gate := f.sums[k*m.hidden:(k+1)*m.hidden], f.gate[k*m.hidden:(k+1)*m.hidden]
			for u, p := range sums {
				e := scale * l.v[u] * gate[u] * (1 + p*(1-gate[u]))
				g.v[u] += scale * p * gate[u]
				sums[u] = e
			}
			add(g.c, sums)
			if m.fields {
				add(m.embedding(g.source, part.Sources[k]), sums)
				add(m.embedding(g.target, part.Targets[k]), sums)
			}
		}
		transpose(errors.Data, f.sums, n, m.hidden)
		kern.Mul(view(g.w, m.hidden, width), view(errors.Data, m.hidden, n), view(f.x, n, width), true)
	}
	g.b[0] += sum(d[:b.Len()])
	runtime.KeepAlive(m)
}

func (m *perceptron) madeFor() Nodes { return m.nodes }
