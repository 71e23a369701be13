package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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

// perThread is how many sums a thread has: of σ, of the loss of "no", of −log q, of ψ and τ with their losses, of
// pairs, of π, and of pairs of which powers were enough.
const perThread = 8

// tiling is how pairs are cut into tiles of rows × columns. These are numbered in squares of edge × edge nodes, so
// that the rows of those that are computed at the same time are few.
type tiling struct{ edge, rows, columns uint64 }

// tiles is how many numbers of tiles there are of m × n: some are of none.
func (t tiling) tiles(m, n uint32, triangle bool) uint64 {
	return t.squares(m, n, triangle) * t.perSquare()
}

// perSquare is how many tiles a square has.
func (t tiling) perSquare() uint64 { return t.edge / t.rows * (t.edge / t.columns) }

// squares is how many squares there are of m × n.
func (t tiling) squares(m, n uint32, triangle bool) uint64 {
	down, across := (uint64(m)+t.edge-1)/t.edge, (uint64(n)+t.edge-1)/t.edge
	if triangle {
		return down * (down + 1) / 2
	}
	return down * across
}

// list is nodes in the order of their fields and, within a field, of their keys, with what is known of each.
type list struct {
	nodes []int32
	ids   [][2]int32 // key and field
}

func (l *list) len() uint32 { return uint32(len(l.nodes)) }

// byField are the stretches of the fields.
func (l *list) byField(fields uint32) []stretch {
	out := make([]stretch, fields)
	for k, id := range l.ids {
		own := &out[id[1]]
		if own.from == own.to {
			own.from = uint32(k)
		}
		own.to = uint32(k) + 1
	}
	return out
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
	out.fields = uint32(n.FieldCount)
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
		out.both = 1
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
// float64. Rows that the card has no room for at once are summed block by block. The sums are the same on every run
// with as much memory.
func (e *OnCard) SumRectangle(ctx context.Context, n model.Nodes, p engine.Predictor, r engine.Rectangle) (
	total engine.Sums, err error) {
	err = e.sum(n, p, r, func(ready *prepared, nodes uint32) (err error) {
		total, err = ready.sumBy(ctx, stretch{0, ready.plan.sources.len()}, stretch{0, ready.plan.targets.len()}, nodes)
		return err
	})
	return total, err
}

// SumFields implements engine.RectangleSummer: the pairs of two fields are a rectangle of their own, so that one
// product serves both directions only within a field.
func (e *OnCard) SumFields(ctx context.Context, n model.Nodes, p engine.Predictor, r engine.Rectangle) ([]engine.Sums,
	error) {
	total := make([]engine.Sums, n.FieldCount*n.FieldCount)
	err := e.sum(n, p, r, func(ready *prepared, nodes uint32) error { return ready.sumFields(ctx, total, nodes) })
	return total, err
}

// sum prepares a plan and sums it in blocks of nodes that the card has room for: in one if it has room for all. Where
// less is free than was reckoned with, blocks are halved.
func (e *OnCard) sum(n model.Nodes, p engine.Predictor, r engine.Rectangle,
	blocks func(ready *prepared, nodes uint32) error) error {
	plan, err := newPlan(n, p, r)
	if err != nil || plan.sources.len() == 0 || plan.targets.len() == 0 {
		return err
	}
	err = e.device.do(func() error {
		ready, err := e.prepare(plan)
		if err != nil {
			return err
		}
		defer ready.free()
		tile := uint32(ready.kernel.tiling.rows)
		for nodes := ready.blockNodes(); ; nodes = max(nodes/2/tile*tile, tile) {
			err := blocks(ready, nodes)
			if !errors.Is(err, errFull) || nodes <= tile {
				return err
			}
			ready.left.free()
			ready.right.free()
		}
	})
	if errors.Is(err, errFull) {
		err = fmt.Errorf("%w, even for a few rows of %d numbers; use the processor", err, plan.rows.Dim())
	}
	return err
}

// prepared is a plan whose tables are on the card, with a block of its sources and one of its targets.
type prepared struct {
	memory
	*plan
	on          *OnCard
	kernel      *kernel
	powers      *kernel // for pairs that stand for both directions and are unlikely to be linked; nil: none
	sums        *array
	left, right nodeBlock
}

// prepare puts the tables of a plan onto the card, without nodes.
func (e *OnCard) prepare(p *plan) (_ *prepared, err error) {
	k, err1 := e.kernelFor(p)
	powers, err2 := e.powersFor(p)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	p.dim = uint32(k.padded(p.rows.Dim()))
	r := &prepared{memory: memory{device: e.device}, plan: p, on: e, kernel: k, powers: powers,
		left: nodeBlock{sources: true}}
	defer func() {
		if err != nil {
			r.free()
		}
	}()
	if r.sums, err = r.take(uint64(k.blocks*k.summing*perThread) * 8); err != nil {
		return nil, err
	}
	p.job.sums = r.sums.address
	return r, upload(&r.memory, &p.job.table, p.table)
}

// Bytes of a source and of a target beside their rows.
const (
	sourceBytes = 8 + 16
	targetBytes = 8 + 16
)

// blockNodes is how many sources, and how many targets, the card has room for at the same time.
func (r *prepared) blockNodes() uint32 {
	const kept = 16 // one in so many bytes is the driver's
	room := cmp.Or(r.on.memory, r.device.Memory-r.device.Memory/kept)
	for _, a := range r.held {
		room -= min(a.bytes, room)
	}
	row, m, n := uint64(r.dim)*uint64(r.on.format.bytes()), uint64(r.plan.sources.len()), uint64(r.plan.targets.len())
	if m*(row+sourceBytes)+n*(row+targetBytes) <= room {
		return uint32(max(m, n))
	}
	tile := r.kernel.tiling.rows
	return uint32(max(room/(2*row+sourceBytes+targetBytes)/tile*tile, tile))
}

// stretch is nodes of a list, from one to before another.
type stretch struct{ from, to uint32 }

// sumBy sums the pairs of two stretches in blocks of so many sources and targets. Where pairs stand for both directions
// the stretches are one.
func (r *prepared) sumBy(ctx context.Context, sources, targets stretch, nodes uint32) (total engine.Sums, err error) {
	for top := sources.from; top < sources.to; top += nodes {
		for from := targets.from; from < targets.to && !(r.both != 0 && from > top); from += nodes {
			if err := r.place(stretch{top, min(top+nodes, sources.to)},
				stretch{from, min(from+nodes, targets.to)}); err != nil {
				return total, err
			}
			part, err := r.run(ctx)
			if err != nil {
				return total, err
			}
			total.Add(part)
		}
	}
	return total, nil
}

// sumFields sets sums by fields. Where the card has room for all nodes they stay there meanwhile.
func (r *prepared) sumFields(ctx context.Context, total []engine.Sums, nodes uint32) error {
	left, right := r.plan.sources.byField(r.fields), r.plan.targets.byField(r.fields)
	if all := (stretch{0, r.plan.targets.len()}); nodes >= max(all.to, r.plan.sources.len()) {
		if err := r.place(stretch{0, r.plan.sources.len()}, all); err != nil {
			return err
		}
	}
	mirrored := r.both
	defer func() { r.both = mirrored }()
	for f, sources := range left {
		for g, targets := range right {
			if r.both = 0; f == g {
				r.both = mirrored
			}
			var err error
			if total[f*len(right)+g], err = r.sumBy(ctx, sources, targets, nodes); err != nil {
				return err
			}
		}
	}
	return nil
}

// place puts a stretch of sources and one of targets onto the card. Of two lists that are one, nodes with themselves
// are a triangle; with earlier ones, each pair stands for both directions.
func (r *prepared) place(sources, targets stretch) error {
	r.triangle = 0
	if r.both != 0 && sources == targets {
		r.triangle = 1
	}
	return cmp.Or(r.left.place(r, sources), r.right.place(r, targets))
}

// free gives the memory back.
func (r *prepared) free() {
	r.left.free()
	r.right.free()
	r.memory.free()
}

// nodeBlock is a stretch of the sources, or of the targets, on the card, of which a part is looked at.
type nodeBlock struct {
	memory
	sources bool
	stretch
	all, rows  *array // of the stretch, and of the part
	ids, terms uint64
	shifted    uint64 // terms of targets behind one that is none, so that those of odd places are at even ones
}

// place puts a stretch onto the card instead of the one before, unless that has it, and looks at it.
func (b *nodeBlock) place(r *prepared, s stretch) error {
	if len(b.held) == 0 || s.from < b.from || s.to > b.to {
		b.free()
		b.device, b.stretch = r.device, s
		if err := b.fill(r); err != nil {
			return err
		}
	}
	p, skip := r.plan, uint64(s.from-b.from)
	row := uint64(p.dim) * uint64(r.on.format.bytes())
	b.rows = &array{b.device, b.all.address + skip*row, uint64(s.to-s.from) * row}
	if b.sources {
		p.m, p.job.sources, p.job.sourceTerms = s.to-s.from, b.ids+8*skip, b.terms+16*skip
		return nil
	}
	p.n, p.job.targets, p.job.targetTerms = s.to-s.from, b.ids+8*skip, b.terms+8*skip
	if skip%2 == 1 { // a card reads two at a time
		p.job.targetTerms = b.shifted + 8*(skip+1)
	}
	return nil
}

// fill copies the stretch to the card.
func (b *nodeBlock) fill(r *prepared) (err error) {
	p, from, to := r.plan, b.from, b.to
	if b.all, err = b.take(uint64(to-from) * uint64(p.dim) * uint64(r.on.format.bytes())); err != nil {
		return err
	}
	if b.sources {
		return cmp.Or(r.on.upload(b.all, p, p.sources.nodes[from:to], true),
			upload(&b.memory, &b.ids, p.sources.ids[from:to]),
			upload(&b.memory, &b.terms, p.sourceTerms[from:to]))
	}
	return cmp.Or(r.on.upload(b.all, p, p.targets.nodes[from:to], false),
		upload(&b.memory, &b.ids, p.targets.ids[from:to]),
		upload(&b.memory, &b.terms, p.targetTerms[from:to]),
		upload(&b.memory, &b.shifted, append([][2]float32{{}}, p.targetTerms[from:to]...)))
}

// run sums the pairs of both blocks. Where the first of them say that few are unlikely to be linked, the kernel for
// those is not used again.
func (r *prepared) run(ctx context.Context) (total engine.Sums, err error) {
	const few = 16 // squares
	if r.powers != nil && r.both != 0 {
		all := r.powers.squares(r.m, r.n, r.triangle != 0)
		first, share, err := r.runSquares(ctx, *r.powers, 0, min(few, all))
		if err != nil {
			return total, err
		}
		if share >= .5 {
			total, _, err = r.runSquares(ctx, *r.powers, min(few, all), all)
			total.Add(first)
			return total, err
		}
		r.powers = nil
	}
	total, _, err = r.runSquares(ctx, *r.kernel, 0, r.kernel.squares(r.m, r.n, r.triangle != 0))
	return total, err
}

// runSquares sums the pairs of some squares of tiles, in launches that are short enough to be stopped between them.
// What no thread writes is not a number: memory is filled so beforehand. It says of which share of the pairs powers
// were enough.
func (r *prepared) runSquares(ctx context.Context, k kernel, from, to uint64) (total engine.Sums, share float64,
	err error) {
	arguments, err := k.arguments(r.on, r.plan, r.left.rows, r.right.rows)
	if err != nil {
		return total, 0, err
	}
	k.blocks = int(min(uint64(k.blocks), (to-from)*k.perSquare()))
	parts := make([]float64, k.blocks*k.summing*perThread)
	sums := &array{r.device, r.sums.address, uint64(len(parts)) * 8}
	step := max(k.perLaunch/uint64(r.dim), 1)
	for r.from = from * k.perSquare(); r.from < to*k.perSquare(); r.from = r.to {
		if err := ctx.Err(); err != nil {
			return total, 0, err
		}
		r.to = min(r.from+step, to*k.perSquare())
		if err := cmp.Or(sums.fill(0xff), r.device.launch(&k, arguments), get(sums, parts)); err != nil {
			return total, 0, err
		}
		var part engine.Sums
		part, share = r.add(parts)
		total.Add(part)
	}
	return total, share, nil
}

// add makes sums of those of threads, and says of which share of the pairs powers were enough.
func (p *plan) add(parts []float64) (_ engine.Sums, share float64) {
	var t [perThread]float64
	for k, x := range parts {
		t[k%perThread] += x
	}
	share = t[7] / max(t[5], 1)
	if p.both != 0 {
		for _, shared := range []int{0, 1, 5} {
			t[shared] *= 2
		}
	}
	return engine.Sums{Pairs: int64(t[5]), Link: t[0], Propensity: t[6], Likelihood: t[2], Naive: t[1], W: t[3],
		PU: t[1], AP: t[3] + t[4]}, share
}
