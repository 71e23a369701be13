package gpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unsafe"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// job is what a launch is about. Its layout is that of Job in kernels/pairs.cuh.
type job struct {
	table, sources, targets, sourceTerms, targetTerms, sums uint64
	from, to                                                uint64
	m, n, dim, fields, triangle, both, ordered, dense       uint32
	gamma, floor                                            float32
}

// perThread is how many sums a thread has: of σ, of the loss of "no", of −log q, of ψ and τ with their losses, and
// of pairs.
const perThread = 6

// tiling is how pairs are cut into tiles of rows × columns. These are numbered in squares of edge × edge nodes, so
// that the rows of those that are computed at the same time are few.
type tiling struct{ edge, rows, columns uint64 }

// tiles is how many numbers of tiles there are of m × n: some are of none.
func (t tiling) tiles(m, n uint32, triangle bool) uint64 {
	down, across := (uint64(m)+t.edge-1)/t.edge, (uint64(n)+t.edge-1)/t.edge
	each := t.edge / t.rows * (t.edge / t.columns)
	if triangle {
		return down * (down + 1) / 2 * each
	}
	return down * across * each
}

// list is nodes in the order of their fields and, within a field, of their keys, with what is known of each.
type list struct {
	nodes []int32
	ids   [][2]int32 // key and field
}

// listOf puts nodes in order.
func listOf(nodes []int32, n model.Nodes, key func(i int32) int32) list {
	l := list{nodes: slices.Clone(nodes), ids: make([][2]int32, len(nodes))}
	slices.SortFunc(l.nodes, func(a, b int32) int {
		return cmp.Or(cmp.Compare(n.Fields[a], n.Fields[b]), cmp.Compare(key(a), key(b)))
	})
	for k, i := range l.nodes {
		l.ids[k] = [2]int32{key(i), int32(n.Fields[i])}
	}
	return l
}

// plan is what is summed, in the form in which the card takes it.
type plan struct {
	job
	sources, targets list
	table            [][2][4]float32 // by the fields of source and target
	sourceTerms      [][4]float32
	targetTerms      [][2]float32
	inner            model.InnerProduct
	params           []float32
	rows             *graph.Vectors
}

// newPlan prepares a rectangle.
func newPlan(n model.Nodes, p engine.Predictor, r engine.Rectangle) (*plan, error) {
	inner, ok := p.Link.(model.InnerProduct)
	if !ok {
		return nil, fmt.Errorf("%w: the link model %s is no inner product; use the processor", engine.ErrUnsupported,
			p.Link.Kind())
	}
	terms, ok := model.TermsOf(p.Propensity, p.PropensityParams)
	if !ok {
		return nil, fmt.Errorf("%w: the propensity model %s is no sum of terms; use the processor",
			engine.ErrUnsupported, p.Propensity.Kind())
	}
	if !(r.Floor >= 0 && r.Floor < 1) {
		return nil, fmt.Errorf("%w: a floor of %v; give a propensity from 0 to below 1", engine.ErrUnsupported, r.Floor)
	}
	rows, err := inner.Rows(p.LinkParams)
	if err != nil {
		return nil, err
	}
	key := func(i int32) int32 { return i }
	if r.Rank != nil {
		key = func(i int32) int32 { return r.Rank[i] }
	}
	out := &plan{sources: listOf(r.Sources, n, key), targets: listOf(r.Targets, n, key), inner: inner,
		params: p.LinkParams, rows: rows}
	out.m, out.n, out.fields = uint32(len(r.Sources)), uint32(len(r.Targets)), uint32(n.FieldCount)
	out.gamma, out.floor = terms.Link, float32(r.Floor)
	if r.Rank != nil {
		out.ordered = 1
	}
	if !terms.ByFields() {
		out.dense = 1
	}
	if err := out.fillTerms(n, terms, r.Floor); err != nil {
		return nil, err
	}
	if r.Rank == nil && slices.Equal(out.sources.nodes, out.targets.nodes) && out.mirrored(p.Link) {
		out.triangle, out.both = 1, 1
		for c := range out.table { // where all offsets are one, it is the fields'
			out.table[c][0][0] += out.sourceTerms[0][0]
		}
		for k := range out.sourceTerms {
			out.sourceTerms[k][0] = 0
		}
	}
	return out, nil
}

// fillTerms sets what is added to products by node and by fields.
func (p *plan) fillTerms(n model.Nodes, terms model.ExposureTerms, floor float64) error {
	at := func(values []float32, i int32) float32 {
		if values == nil {
			return 0
		}
		return values[i]
	}
	fields := n.FieldCount
	p.table = make([][2][4]float32, fields*fields)
	for c := range p.table {
		s := terms.Constant
		if terms.Fields != nil {
			s += terms.Fields[c]
		}
		p.table[c][0][1] = s
		pi, rest := kern.Sigmoid64(float64(s))
		seen, hidden := pi, rest
		if pi < floor {
			seen, hidden = floor, 1-floor
		}
		p.table[c][1] = [4]float32{float32(pi), float32(rest), float32(seen), float32(hidden)}
	}
	for _, j := range p.targets.nodes {
		p.targetTerms = append(p.targetTerms, [2]float32{at(terms.Source, j), at(terms.Target, j)})
	}
	known := make([][]float32, fields) // offsets of a field's sources, beyond that of the first field
	query, offsets := make([]float32, p.rows.Dim()), make([]float32, fields)
	for _, i := range p.sources.nodes {
		p.inner.Query(query, offsets, p.params, i)
		own := known[n.Fields[i]]
		if own == nil {
			own = make([]float32, fields)
			for g := range own {
				own[g] = offsets[g] - offsets[0]
				p.table[int(n.Fields[i])*fields+g][0][0] = own[g]
			}
			known[n.Fields[i]] = own
		}
		for g := range own {
			if off := offsets[g] - offsets[0] - own[g]; max(off, -off) > 1e-6*(1+max(own[g], -own[g])) {
				return fmt.Errorf("%w: sources of one field have other offsets; use the processor",
					engine.ErrUnsupported)
			}
		}
		p.sourceTerms = append(p.sourceTerms, [4]float32{offsets[0], at(terms.Source, i), at(terms.Target, i)})
	}
	return nil
}

// mirrored reports whether z is the same in both directions, so that one product serves both.
func (p *plan) mirrored(link model.LinkModel) bool {
	if _, diagonal := link.(*model.Diagonal); !diagonal {
		return false
	}
	fields := int(p.fields)
	for f := range fields {
		for g := range f {
			if p.table[f*fields+g][0][0] != p.table[g*fields+f][0][0] {
				return false
			}
		}
	}
	return !slices.ContainsFunc(p.sourceTerms, func(t [4]float32) bool { return t[0] != p.sourceTerms[0][0] })
}

// SumRectangle sums a predictor's own predictions over the pairs of a rectangle as if none of them were linked; see
// engine.CPU.SumRectangle. Products are of rows in the engine's format; everything else is in float32, added up in
// float64. The sums are the same on every run.
func (e *OnCard) SumRectangle(ctx context.Context, n model.Nodes, p engine.Predictor, r engine.Rectangle) (engine.Sums,
	error) {
	plan, err := newPlan(n, p, r)
	if err != nil {
		return engine.Sums{}, err
	}
	if plan.m == 0 || plan.n == 0 {
		return engine.Sums{}, nil
	}
	var total engine.Sums
	err = e.device.do(func() error {
		ready, err := e.prepare(plan)
		if err != nil {
			return err
		}
		defer ready.free()
		total, err = ready.run(ctx)
		return err
	})
	return total, err
}

// prepared is a plan that is on the card.
type prepared struct {
	memory
	*plan
	kernel    *kernel
	arguments []unsafe.Pointer
	sums      *array
}

// prepare puts a plan onto the card.
func (e *OnCard) prepare(p *plan) (_ *prepared, err error) {
	k, err := e.kernelFor(p)
	if err != nil {
		return nil, err
	}
	p.dim = uint32(k.padded(p.rows.Dim()))
	r := &prepared{memory: memory{device: e.device}, plan: p, kernel: k}
	defer func() {
		if err != nil {
			r.free()
		}
	}()
	width := uint64(p.dim) * uint64(e.format.bytes())
	a, err1 := r.take(uint64(p.m) * width)
	b, err2 := r.take(uint64(p.n) * width)
	sums, err3 := r.take(uint64(k.blocks*k.summing*perThread) * 8)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("%w: %d sources and %d targets of %d numbers do not fit; keep rows in 16 bits, or use "+
			"the processor", err, p.m, p.n, p.dim)
	}
	if err := cmp.Or(e.upload(a, p, true), e.upload(b, p, false),
		upload(&r.memory, &p.job.table, p.table), upload(&r.memory, &p.job.sources, p.sources.ids),
		upload(&r.memory, &p.job.targets, p.targets.ids), upload(&r.memory, &p.job.sourceTerms, p.sourceTerms),
		upload(&r.memory, &p.job.targetTerms, p.targetTerms)); err != nil {
		return nil, err
	}
	r.sums, p.job.sums = sums, sums.address
	r.arguments, err = k.arguments(e, p, a, b)
	return r, err
}

// run sums the pairs, in launches that are short enough to be stopped between them. What no thread writes is not a
// number: memory is filled so beforehand.
func (r *prepared) run(ctx context.Context) (total engine.Sums, err error) {
	k := r.kernel
	parts := make([]float64, k.blocks*k.summing*perThread)
	all, step := k.tiles(r.m, r.n, r.triangle != 0), max(k.perLaunch/uint64(r.dim), 1)
	for r.from = 0; r.from < all; r.from = r.to {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		r.to = min(r.from+step, all)
		if err := cmp.Or(r.sums.fill(0xff), r.device.launch(k, r.arguments),
			get(r.sums, parts)); err != nil {
			return total, err
		}
		total.Add(r.add(parts))
	}
	return total, nil
}

// add makes sums of those of threads.
func (p *plan) add(parts []float64) engine.Sums {
	var t [perThread]float64
	for k, x := range parts {
		t[k%perThread] += x
	}
	if p.both != 0 {
		for _, shared := range []int{0, 1, 5} {
			t[shared] *= 2
		}
	}
	return engine.Sums{Pairs: int64(t[5]), Link: t[0], Likelihood: t[2], Naive: t[1], W: t[3], PU: t[1],
		AP: t[3] + t[4]}
}
