package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"unseen/graph"
	"unseen/internal/kern"
)

const (
	factorsKind = "factors"
	maxRank     = 1 << 12
)

// Factors is the link model of people and items: every source and every target has learned factors and an effect of its
// own,
//
//	z = ⟨u_i, v_j + A·h_j⟩ + b_i + b_j + b.
//
// A maps the vectors of targets to factors, so that a target without links has some too. There is no A where no target
// has a vector other than 0; sources need none. A node that is both source and target has a row on either side.
type Factors struct {
	nodes   Nodes
	rows    *kern.Matrix // of the vectors; nil without A
	rank    int
	sources sideNumber // of u and b_i
	targets sideNumber // of v and b_j
}

// NewFactors returns the model of a rank; 0 means 16. The parameters are u and v, a row per source and target, A row by
// row, the effects of sources and of targets, and b.
func NewFactors(n Nodes, rank int) (*Factors, error) {
	if n.Vectors != nil {
		if err := checkNodes(n); err != nil {
			return nil, err
		}
	} else if err := checkFields(n); err != nil {
		return nil, err
	}
	if rank == 0 {
		rank = defaultRank
	}
	if rank < 1 || rank > maxRank {
		return nil, fmt.Errorf("%w: factors of rank %d; give 1 to %d", ErrOption, rank, maxRank)
	}
	m := &Factors{nodes: n, rank: rank, sources: numberSide(n.Sources, n.Len()),
		targets: numberSide(n.Targets, n.Len())}
	if n.Vectors != nil && m.described() {
		m.rows = kern.MatrixOf(n.Vectors)
	}
	return m, nil
}

// sideNumber numbers the nodes of one side.
type sideNumber struct {
	count int
	row   []int32 // by node; −1 for nodes of the other side, nil where every node is its own
}

func numberSide(side []int32, nodes int) sideNumber {
	if side == nil {
		return sideNumber{count: nodes}
	}
	s := sideNumber{len(side), make([]int32, nodes)}
	for i := range s.row {
		s.row[i] = -1
	}
	for k, i := range side {
		s.row[i] = int32(k)
	}
	return s
}

func (s sideNumber) of(node int32) int32 {
	if s.row == nil {
		return node
	}
	return s.row[node]
}

// gather adds what nodes have to the side's numbers.
func (s sideNumber) gather(own, byNode []float64) {
	for i, x := range byNode {
		if at := s.of(int32(i)); at >= 0 {
			own[at] += x
		}
	}
}

// described reports whether a target has a vector other than 0.
func (m *Factors) described() bool {
	rows := kern.MatrixOf(m.nodes.Vectors)
	vector := make([]float32, rows.Dim())
	for j := range int32(m.nodes.Len()) {
		if m.targets.of(j) < 0 {
			continue
		}
		rows.Load(vector, int(j))
		for _, h := range vector {
			if h != 0 {
				return true
			}
		}
	}
	return false
}

// Kind is "factors".
func (m *Factors) Kind() string { return factorsKind }

// dim is that of the vectors behind A, 0 without.
func (m *Factors) dim() int {
	if m.rows == nil {
		return 0
	}
	return m.rows.Dim()
}

// Size is (sources + targets)·(r + 1) + r·d + 1.
func (m *Factors) Size() int {
	return (m.sources.count+m.targets.count)*(m.rank+1) + m.rank*m.dim() + 1
}

// Parts are u, v, perhaps A, and b_source, b_target and b.
func (m *Factors) Parts() []ParameterBlock {
	parts := []ParameterBlock{{"u", []int{m.sources.count, m.rank}}, {"v", []int{m.targets.count, m.rank}}}
	if m.rows != nil {
		parts = append(parts, ParameterBlock{"A", []int{m.rank, m.dim()}})
	}
	return append(parts, ParameterBlock{"b_source", []int{m.sources.count}},
		ParameterBlock{"b_target", []int{m.targets.count}}, ParameterBlock{"b", []int{1}})
}

// Rank is the number of factors of a node.
func (m *Factors) Rank() int { return m.rank }

// FactorSide is the parameters of one side: a row of factors and an effect of every node.
type FactorSide struct {
	Factors, Effects []float32
	rows             sideNumber
}

// Row returns the row of a node of this side.
func (s FactorSide) Row(node int32) int32 { return s.rows.of(node) }

// Sides returns the parts u with b_i, v with b_j, and b of the parameters, in place.
func (m *Factors) Sides(params []float32) (source, target FactorSide, b []float32) {
	p := m.split(params)
	return FactorSide{p.u, p.source, m.sources}, FactorSide{p.v, p.target, m.targets}, p.b
}

// factorParts are the parts of parameters or of a gradient.
type factorParts struct{ u, v, a, source, target, b []float32 }

func (m *Factors) split(params []float32) (p factorParts) {
	take := func(n int) []float32 {
		part := params[:n:n]
		params = params[n:]
		return part
	}
	p.u, p.v, p.a = take(m.sources.count*m.rank), take(m.targets.count*m.rank), take(m.rank*m.dim())
	p.source, p.target, p.b = take(m.sources.count), take(m.targets.count), take(1)
	return p
}

// row returns row i of u or v.
func (m *Factors) row(part []float32, i int32) []float32 {
	return part[int(i)*m.rank:][:m.rank:m.rank]
}

// Start draws u, v and A such that z begins at about ±.1: at 0 the gradient is 0, and far from it the start would
// matter. All effects begin at 0.
func (m *Factors) Start(params []float32, src rand.Source) {
	const spread = .1
	clear(params)
	p, rng := m.split(params), rand.New(src)
	// ⟨u, v⟩ is a sum of r products of two normals of variance σ².
	deviation := math.Sqrt(spread / math.Sqrt(float64(m.rank)))
	normal(p.u, deviation, rng)
	normal(p.v, deviation, rng)
	if m.rows != nil {
		normal(p.a, deviation/math.Sqrt(meanSquare(m.rows)), rng)
	}
}

// Logits sets z[k] = ⟨u_i, v_j⟩ + ⟨Aᵀu_i, h_j⟩ + b_i + b_j + b for pair k. It allocates nothing.
func (m *Factors) Logits(z, params []float32, b Batch) {
	p, d := m.split(params), m.dim()
	z = z[:b.Len()]
	scratch := kern.Borrow(d + b.Len())
	defer kern.GiveBack(scratch)
	query, described := scratch.Data[:d], scratch.Data[d:]
	for source, r := range b.runs {
		i := m.sources.of(source)
		u, offset := m.row(p.u, i), p.source[i]+p.b[0]
		for k := r.from; k < r.to; k++ {
			j := m.targets.of(b.Targets[k])
			z[k] = dotOf(u, m.row(p.v, j)) + (offset + p.target[j])
		}
		if m.rows == nil {
			continue
		}
		clear(query)
		m.addRows(query, p.a, u)
		kern.Dots(described[r.from:r.to], query, m.rows, b.Targets[r.from:r.to])
		add(z[r.from:r.to], described[r.from:r.to])
	}
	runtime.KeepAlive(m)
}

// addRows adds Aᵀu to a query.
func (m *Factors) addRows(query, a, u []float32) {
	d := len(query)
	for k, x := range u {
		addTimes(query, a[k*d:(k+1)*d], x)
	}
}

// dotOf returns ⟨x, y⟩.
func dotOf(x, y []float32) float32 {
	y = y[:len(x)]
	var a, b, c, d float32
	k := 0
	for ; k+4 <= len(x); k += 4 {
		a += x[k] * y[k]
		b += x[k+1] * y[k+1]
		c += x[k+2] * y[k+2]
		d += x[k+3] * y[k+3]
	}
	for ; k < len(x); k++ {
		a += x[k] * y[k]
	}
	return (a + b) + (c + d)
}

// addTimes adds c·x to dst.
func addTimes(dst, x []float32, c float32) {
	x = x[:len(dst)]
	for k := range dst {
		dst[k] += c * x[k]
	}
}

// Backward adds the gradient. With s = Σ dz·h_j over a run of pairs with source i,
//
//	∂u_i = Σ dz·v_j + A·s    ∂v_j = Σ dz·u_i    ∂A = Σ_runs u_i·sᵀ    ∂b_i, ∂b_j, ∂b = Σ dz.
//
// It allocates nothing.
func (m *Factors) Backward(grad, params []float32, b Batch, dz []float32) {
	p, g, d := m.split(params), m.split(grad), m.dim()
	dz = dz[:b.Len()]
	sums := kern.Borrow(d)
	defer kern.GiveBack(sums)
	for source, r := range b.runs {
		i := m.sources.of(source)
		u, gradU := m.row(p.u, i), m.row(g.u, i)
		var total float32
		for k := r.from; k < r.to; k++ {
			j, x := m.targets.of(b.Targets[k]), dz[k]
			v, gradV := m.row(p.v, j), m.row(g.v, j)
			for c, y := range u {
				gradV[c] += x * y
				gradU[c] += x * v[c]
			}
			g.target[j] += x
			total += x
		}
		g.source[i] += total
		if m.rows == nil {
			continue
		}
		clear(sums.Data)
		kern.AddRows(sums.Data, m.rows, b.Targets[r.from:r.to], dz[r.from:r.to])
		for k, x := range u {
			row := p.a[k*d : (k+1)*d]
			gradU[k] += dotOf(row, sums.Data)
			addTimes(g.a[k*d:(k+1)*d], sums.Data, x)
		}
	}
	g.b[0] += sum(dz)
	runtime.KeepAlive(m)
}

// Rows are t_j = (v_j + A·h_j, b_j), and 0 of nodes that are no targets.
func (m *Factors) Rows(params []float32) (*graph.Vectors, error) {
	rows, err := graph.NewVectors(max(m.nodes.Len(), 1), m.rank+1)
	if err != nil {
		return nil, err
	}
	p, d := m.split(params), m.dim()
	row, vector := make([]float32, m.rank+1), make([]float32, d)
	for node := range int32(m.nodes.Len()) {
		j := m.targets.of(node)
		if j < 0 {
			continue
		}
		copy(row, m.row(p.v, j))
		row[m.rank] = p.target[j]
		if m.rows != nil {
			m.rows.Load(vector, int(node))
			for k := range m.rank {
				row[k] += dotOf(p.a[k*d:(k+1)*d], vector)
			}
		}
		if err := rows.Set(node, row); err != nil {
			return nil, fmt.Errorf("the factors of node %d: %w", node, err)
		}
	}
	return rows, nil
}

// RowOf sets t_j = (v_j + A·h, b_j) for another vector h of node j. A new target has no v, and the mean effect of all:
// training would give it the prior's 0, about which the effects of popular targets are too high for one nobody knows.
func (m *Factors) RowOf(row, params []float32, node int32, vector []float32) bool {
	if m.rows != nil && vector != nil && len(vector) != m.dim() {
		return false
	}
	p := m.split(params)
	clear(row[:m.rank])
	j := int32(-1)
	if node >= 0 {
		j = m.targets.of(node)
	}
	if j >= 0 {
		copy(row, m.row(p.v, j))
		row[m.rank] = p.target[j]
	} else {
		row[m.rank] = sum(p.target) / float32(max(len(p.target), 1))
	}
	if m.rows != nil && vector != nil {
		d := m.dim()
		for k := range m.rank {
			row[k] += dotOf(p.a[k*d:(k+1)*d], vector)
		}
	}
	return true
}

// SourcePrecision is that of the normal prior of a source's effect b_i, in training and in folding in.
const SourcePrecision = 3

// Precision returns that of the normal prior of every factor under which ⟨u, v⟩ has a variance: a sum of r products of
// two normals of precision p has the variance r/p².
func (m *Factors) Precision(variance float64) float64 { return math.Sqrt(float64(m.rank) / variance) }

// Query sets q = (u_i, 1); every field's offset is b_i + b.
func (m *Factors) Query(q, offsets, params []float32, source int32) {
	p, i := m.split(params), m.sources.of(source)
	copy(q[:m.rank], m.row(p.u, i))
	q[m.rank] = 1
	for g := range offsets[:m.nodes.FieldCount] {
		offsets[g] = p.source[i] + p.b[0]
	}
}

func (m *Factors) madeFor() Nodes { return m.nodes }
func (m *Factors) options() any   { return LinkOptions{Rank: m.rank} }

// spread returns the numbers of a side's nodes by node, 0 for the others.
func (s sideNumber) spread(values []float32, nodes int) []float32 {
	out := make([]float32, nodes)
	for i := range out {
		if k := s.of(int32(i)); k >= 0 {
			out[i] = values[k]
		}
	}
	return out
}
