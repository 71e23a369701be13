package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// Means are means over all pairs of a universe: not estimated from a sample, but computed. The risks are
// those of the model's own predictions under the log-loss.
type Means struct {
	Pairs          int64   `json:"pairs"`
	MeanLink       float64 `json:"meanLink"`       // ŷ
	MeanPropensity float64 `json:"meanPropensity"` // π̂
	Likelihood     float64 `json:"likelihood"`     // −log
	Naive          float64 `json:"naive"`
	W              float64 `json:"w"`
	PU             float64 `json:"pu"`
	AP             float64 `json:"ap"`
}

// Most pairs that are summed: by blocks where the models allow it, else one by one.
const (
	MostPairs         = 2_500_000_000
	MostPairsOneByOne = 16_000_000
)

// AllPairs implements Engine. With o = 0 every mass depends on (z, s) alone, and linked pairs are few: every block of
// sources and targets is a dense product whose o = 0 terms are summed as they come, and then the linked pairs have
// their o = 0 terms replaced by those of o = 1. The sums do not depend on the number of threads.
//
// A link model that is no inner product, or a propensity model whose logits are no sum of model.ExposureTerms, is
// summed pair by pair, for up to MostPairsOneByOne pairs.
func (c CPU) AllPairs(ctx context.Context, g *graph.Graph, p Predictor, u graph.Universe, floor float64) (Means,
	error) {
	by, err := c.summer(g, p, u)
	if err != nil {
		return Means{}, err
	}
	return c.AllPairsBy(ctx, by, g, p, u, floor)
}

// summer is what sums all pairs of a universe on the processor, or an error where they are too many.
func (c CPU) summer(g *graph.Graph, p Predictor, u graph.Universe) (RectangleSummer, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	pairs, _, err := u.Count(g)
	if err != nil {
		return nil, err
	}
	_, _, dense := p.dense()
	switch {
	case pairs > MostPairs:
		return nil, fmt.Errorf("%w: %d pairs are too many to sum; %d are the most, so estimate from a sample",
			ErrUnsupported, pairs, int64(MostPairs))
	case !dense && pairs > MostPairsOneByOne:
		return nil, fmt.Errorf("%w: %d pairs are too many to sum one by one, as the models %s and %s need it; "+
			"%d are the most, so estimate from a sample", ErrUnsupported, pairs, p.Link.Kind(), p.Propensity.Kind(),
			MostPairsOneByOne)
	case dense:
		return c, nil
	}
	return oneByOne{c}, nil
}

// RectangleSummer sums a predictor's own predictions over the pairs of a rectangle as if none of them were linked; see
// CPU.SumRectangle.
type RectangleSummer interface {
	SumRectangle(ctx context.Context, n model.Nodes, p Predictor, r Rectangle) (Sums, error)
	// SumFields returns the same by the fields of sources and targets: those of f and g are at f·FieldCount + g.
	SumFields(ctx context.Context, n model.Nodes, p Predictor, r Rectangle) ([]Sums, error)
}

// AllPairsBy is AllPairs where another sums the pairs, however many they are. Links are put right by the processor.
func (c CPU) AllPairsBy(ctx context.Context, by RectangleSummer, g *graph.Graph, p Predictor, u graph.Universe,
	floor float64) (Means, error) {
	sums, err := c.allPairsBy(ctx, func(n model.Nodes, r Rectangle) ([]Sums, error) {
		one, err := by.SumRectangle(ctx, n, p, r)
		return []Sums{one}, err
	}, sheet{}, allPairs{g, p, u, floor})
	if err != nil {
		return Means{}, err
	}
	return sums[0].Means(), nil
}

// allPairs is what is summed.
type allPairs struct {
	graph     *graph.Graph
	predictor Predictor
	universe  graph.Universe
	floor     float64
}

// allPairsBy sums the pairs of a universe, given what sums them as if none were linked.
func (c CPU) allPairsBy(ctx context.Context, sum func(n model.Nodes, r Rectangle) ([]Sums, error), to sheet,
	a allPairs) ([]Sums, error) {
	if err := a.predictor.Validate(); err != nil {
		return nil, err
	}
	if _, _, err := a.universe.Count(a.graph); err != nil {
		return nil, err
	}
	r := rectangleOf(a.graph, a.universe, a.floor)
	total, err := sum(model.NodesOf(a.graph), r)
	if err != nil {
		return nil, err
	}
	except := a.universe.Except
	linked, err := c.sumPairs(ctx, a.predictor, r, to, summedPairs{func(i int32) []int32 {
		if except == nil {
			return a.graph.Out(i)
		}
		return slices.DeleteFunc(slices.Clone(a.graph.Out(i)), func(j int32) bool { return except.HasLink(i, j) })
	}, func(b risk.Belief) Sums { return linkTerms(b, r.Floor) }})
	if err != nil {
		return nil, err
	}
	var outside []Sums
	if except != nil { // as unlinked they are taken out
		if outside, err = c.sumPairs(ctx, a.predictor, r, to, summedPairs{except.Out, func(b risk.Belief) Sums {
			return ownTerms(false, b, r.Floor).negative()
		}}); err != nil {
			return nil, err
		}
	}
	for k := range total {
		total[k].Add(linked[k])
		if outside != nil {
			total[k].Add(outside[k])
		}
	}
	return total, nil
}

// Rectangle is the pairs from sources to targets. A node and itself are no pair.
type Rectangle struct {
	Sources, Targets []int32 // ascending
	// Rank is the place of every node in an order: only targets of a lower rank than their source make a pair. Nil
	// keeps all.
	Rank []int32
	// Floor is the least propensity that the risks see, below 1. The likelihood sees propensities as they are.
	Floor float64
}

// rectangleOf returns the pairs of a universe that Count has accepted.
func rectangleOf(g *graph.Graph, u graph.Universe, floor float64) Rectangle {
	list := func(nodes, all []int32, has func(i int32) bool) []int32 {
		if nodes == nil {
			return all
		}
		return slices.DeleteFunc(slices.Sorted(slices.Values(nodes)), func(i int32) bool { return !has(i) })
	}
	r := Rectangle{Sources: list(u.Sources, g.Sources(), g.IsSource), Targets: list(u.Targets, g.Targets(), g.IsTarget),
		Floor: floor}
	if u.Before != nil {
		r.Rank = u.Before.Rank
	}
	return r
}

func everyNode(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// has reports whether a source and a target are a pair.
func (r Rectangle) has(source, target int32) bool {
	if r.Rank != nil {
		return r.Rank[target] < r.Rank[source]
	}
	return source != target
}

// Sums are what a predictor's own predictions come to over some ordered pairs. Those of disjoint pairs add up.
type Sums struct {
	Pairs                                          int64
	Link, Propensity, Likelihood, Naive, W, PU, AP float64
}

// Add adds the sums over other pairs.
func (t *Sums) Add(u Sums) {
	t.Pairs += u.Pairs
	t.Link += u.Link
	t.Propensity += u.Propensity
	t.Likelihood += u.Likelihood
	t.Naive += u.Naive
	t.W += u.W
	t.PU += u.PU
	t.AP += u.AP
}

// negative is what takes the sums away.
func (t Sums) negative() Sums {
	return Sums{-t.Pairs, -t.Link, -t.Propensity, -t.Likelihood, -t.Naive, -t.W, -t.PU, -t.AP}
}

// Means returns the means.
func (t Sums) Means() Means {
	pairs := float64(t.Pairs)
	return Means{
		Pairs: t.Pairs, MeanLink: t.Link / pairs, MeanPropensity: t.Propensity / pairs,
		Likelihood: t.Likelihood / pairs, Naive: t.Naive / pairs, W: t.W / pairs, PU: t.PU / pairs, AP: t.AP / pairs,
	}
}

// A block of pairs is so many sources by so many targets; where one product serves both directions it is a square.
const (
	blockHeight  = 96
	blockBreadth = 256
	blockSquare  = 192
)

// SumRectangle sums a predictor's own predictions over the pairs of a rectangle as if none of them were linked;
// SumLinks then puts links right. The predictor's models must be those of the nodes: an inner product, and a
// propensity of model.ExposureTerms. The sums do not depend on the number of threads.
func (c CPU) SumRectangle(ctx context.Context, n model.Nodes, p Predictor, r Rectangle) (Sums, error) {
	sums, err := c.sumBlocks(ctx, n, p, r, sheet{})
	if err != nil {
		return Sums{}, err
	}
	return sums[0], nil
}

// sumBlocks sums a rectangle block by block, into a sheet.
func (c CPU) sumBlocks(ctx context.Context, n model.Nodes, p Predictor, r Rectangle, to sheet) ([]Sums, error) {
	inner, terms, dense := p.dense()
	switch {
	case !dense:
		return nil, fmt.Errorf("%w: with the models %s and %s pairs are not summed by blocks; estimate from "+
			"a sample",
			ErrUnsupported, p.Link.Kind(), p.Propensity.Kind())
	case !(r.Floor >= 0 && r.Floor < 1):
		return nil, fmt.Errorf("%w: a floor of %v; give a propensity from 0 to below 1", ErrUnsupported, r.Floor)
	}
	s := blockSums{Rectangle: r, nodes: n, inner: inner, params: p.LinkParams, terms: terms, to: to}
	var err error
	if s.rows, err = inner.Rows(p.LinkParams); err != nil {
		return nil, err
	}
	if terms.Fields == nil {
		s.none = make([]float32, n.FieldCount)
	}
	height, breadth := blockHeight, blockBreadth
	if s.mirrored = s.isMirrored(p.Link); s.mirrored {
		height, breadth = blockSquare, blockSquare
	}
	left := s.cut(r.Sources, height)
	s.right = s.cut(r.Targets, breadth)
	if r.Rank == nil {
		s.place = make([][2]int32, len(n.Fields))
		for number, to := range s.right {
			for k, j := range to.nodes {
				s.place[j] = [2]int32{int32(number) + 1, int32(k)}
			}
		}
	}
	parts := make([]sheetPart, len(left))
	if err := kern.ChunksErr(ctx, len(left), 1, kern.Threads(c.Threads), func(_, number, _, _ int) (err error) {
		if s.mirrored { // the longest first
			number = len(left) - 1 - number
		}
		parts[number], err = s.strip(ctx, left[number], number)
		return err
	}); err != nil {
		return nil, err
	}
	return to.addUp(parts), nil
}

// dense returns what sums by blocks need of the models, and false if they do not have it.
func (p Predictor) dense() (model.InnerProduct, model.ExposureTerms, bool) {
	inner, is := p.Link.(model.InnerProduct)
	terms, known := model.TermsOf(p.Propensity, p.PropensityParams)
	return inner, terms, is && known
}

// blockSums sums a rectangle block by block.
type blockSums struct {
	Rectangle
	nodes  model.Nodes
	inner  model.InnerProduct
	params []float32 // of the link model
	rows   *graph.Vectors
	terms  model.ExposureTerms
	none   []float32 // zeros for the fields, where they do not matter
	to     sheet
	right  []nodeSpan
	// mirrored: z is the same in both directions, so that a block of spans serves that of the other direction too
	mirrored bool
	// by node, without an order: the number of its span on the right, from 1 on, and the place there
	place [][2]int32
}

// nodeSpan is nodes of one field, or of several.
type nodeSpan struct {
	nodes       []int32
	field       int   // −1: of several
	first, last int32 // the lowest and the highest rank, if there is an order
}

// cut puts nodes into spans of at most a size. Where π̂ is a matter of the fields alone, a field has spans of its own,
// so that all pairs of two spans share one π̂, unless it is so small that its blocks would hardly hold anything, or
// that with an order most of them would hold pairs on both sides of it. Where sums are wanted by fields, each has its
// own.
func (s *blockSums) cut(nodes []int32, size int) (spans []nodeSpan) {
	small := 16
	if s.Rank != nil {
		small = 1024
	}
	byField := make([][]int32, s.nodes.FieldCount)
	for _, i := range nodes {
		byField[s.nodes.Fields[i]] = append(byField[s.nodes.Fields[i]], i)
	}
	add := func(nodes []int32, field int) {
		if s.Rank != nil {
			slices.SortFunc(nodes, func(i, j int32) int { return cmp.Compare(s.Rank[i], s.Rank[j]) })
		}
		for some := range slices.Chunk(nodes, size) {
			one := nodeSpan{nodes: some, field: field}
			if s.Rank != nil {
				one.first, one.last = s.Rank[some[0]], s.Rank[some[len(some)-1]]
			}
			spans = append(spans, one)
		}
	}
	var rest []int32
	for f, own := range byField {
		if s.to.byFields() || s.terms.ByFields() && len(own) >= small {
			add(own, f)
		} else {
			rest = append(rest, own...)
		}
	}
	add(rest, -1)
	return spans
}

// isMirrored reports whether z is the same in both directions, and both are summed.
func (s *blockSums) isMirrored(link model.LinkModel) bool {
	if _, diagonal := link.(*model.Diagonal); !diagonal || s.Rank != nil || !slices.Equal(s.Sources, s.Targets) {
		return false
	}
	fields := s.nodes.FieldCount
	query, offsets := make([]float32, s.rows.Dim()), make([][]float32, fields)
	for _, i := range s.Sources {
		if f := s.nodes.Fields[i]; offsets[f] == nil {
			offsets[f] = make([]float32, fields)
			s.inner.Query(query, offsets[f], s.params, i)
		}
	}
	for f, own := range offsets {
		for g, other := range offsets[:f] {
			if own != nil && other != nil && own[g] != other[f] {
				return false
			}
		}
	}
	return true
}

// strip sums all blocks of some sources, which are a span of the given number. Where z is mirrored these are the blocks
// with themselves and with those of lower numbers, in both directions.
func (s *blockSums) strip(ctx context.Context, from nodeSpan, own int) (total sheetPart, err error) {
	total = s.to.part(from.nodes[0])
	rows, fields := kern.MatrixOf(s.rows), s.nodes.FieldCount
	queries, err1 := kern.NewMatrix(len(from.nodes), rows.Dim())
	block, err2 := kern.NewMatrix(blockBreadth, rows.Dim())
	if err := cmp.Or(err1, err2); err != nil {
		return total, err
	}
	defer queries.Close()
	defer block.Close()
	offsets, even := make([]float32, len(from.nodes)*fields), make([]bool, len(from.nodes))
	for r, i := range from.nodes {
		own := offsets[r*fields : (r+1)*fields]
		s.inner.Query(queries.Row(r), own, s.params, i)
		even[r] = !slices.ContainsFunc(own, func(x float32) bool { return x != own[0] })
	}
	room, exposed := make([]float32, len(from.nodes)*blockBreadth), make(exposedBlock, fields)
	right := s.right
	if s.mirrored {
		right = right[:own+1]
	}
	for number, to := range right {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		if s.Rank != nil && to.first >= from.last {
			continue // every target comes too late
		}
		width := len(to.nodes)
		for k, j := range to.nodes {
			rows.Load(block.Row(k), int(j))
		}
		targets, err1 := block.Slice(0, width)
		products, err2 := kern.View(room, len(from.nodes), width, width)
		if err := cmp.Or(err1, err2); err != nil {
			return total, err
		}
		kern.MulT(products, queries, targets)
		z := room[:len(from.nodes)*width]
		for r := range from.nodes {
			own, row := offsets[r*fields:(r+1)*fields], z[r*width:(r+1)*width]
			if even[r] {
				kern.Shift(row, own[0])
				continue
			}
			for k, j := range to.nodes {
				row[k] += own[s.nodes.Fields[j]]
			}
		}
		column := s.to.column(to.nodes[0])
		switch {
		case !s.mirrored || number == own:
			total.there[column].Add(s.sum(z, exposed, from, to, int32(number)+1))
		case !s.to.byFields() || from.field == to.field:
			total.there[column].Add(s.sumBoth(z, exposed, from, to))
		default:
			total.there[column].Add(s.sum(z, exposed, from, to, none))
			total.back[column].Add(s.sumBack(z, exposed, from, to))
		}
	}
	return total, nil
}

// sum sums one block by its logits z, which it changes. number is that of the span of targets.
func (s *blockSums) sum(z []float32, e exposedBlock, from, to nodeSpan, number int32) Sums {
	without := s.leaveOut(z, from, to, number)
	pairs := int64(len(z) - without)
	var sums kern.UnlinkedSums
	if s.share(from, to) {
		pi := s.addShared(&sums, z, s.ofFields(from.field)[to.field])
		return sumsOf(sums, pairs, pi*float64(pairs))
	}
	for r, i := range from.nodes {
		there, _ := s.exposed(e, i, to)
		sums.AddEach(z[r*len(to.nodes):(r+1)*len(to.nodes)], there, s.rule())
	}
	return sumsOf(sums, pairs, sums.Propensity)
}

// exposedBlock is what the exposure of a block's pairs has of its targets, by the field of the source, as far as it was
// needed. It is used again for other targets.
type exposedBlock []*exposedField

// exposedField is what the exposure of sources of a field has of targets, and that of the other direction.
type exposedField struct {
	there, back [blockBreadth]float32
	to          *int32 // the first of the targets
}

// exposed returns the exposure of the pairs of a source with the targets of a span and, where z is mirrored, of those
// in the other direction.
func (s *blockSums) exposed(e exposedBlock, source int32, to nodeSpan) (there, back kern.Exposed) {
	own := int(s.nodes.Fields[source])
	if e[own] == nil {
		e[own] = new(exposedField)
	}
	of := e[own]
	if of.to != &to.nodes[0] {
		of.to = &to.nodes[0]
		s.exposeTo(of, own, to)
	}
	there.Each, back.Each = of.there[:len(to.nodes)], of.back[:len(to.nodes)]
	if s.terms.Source != nil {
		there.Own = s.terms.Source[source]
	}
	if s.terms.Target != nil {
		back.Own = s.terms.Target[source]
	}
	return there, back
}

// exposeTo sets what the exposure of sources of a field has of targets.
func (s *blockSums) exposeTo(of *exposedField, field int, to nodeSpan) {
	fields := s.ofFields(field)
	for k, j := range to.nodes {
		if of.there[k] = s.terms.Constant + fields[s.nodes.Fields[j]]; s.terms.Target != nil {
			of.there[k] += s.terms.Target[j]
		}
	}
	if !s.mirrored {
		return
	}
	for k, j := range to.nodes {
		if of.back[k] = s.terms.Constant + s.ofFields(int(s.nodes.Fields[j]))[field]; s.terms.Source != nil {
			of.back[k] += s.terms.Source[j]
		}
	}
}

func (s *blockSums) rule() kern.ExposureRule {
	return kern.ExposureRule{Slope: s.terms.Link, Floor: s.Floor}
}

func sumsOf(sums kern.UnlinkedSums, pairs int64, propensity float64) Sums {
	return Sums{Pairs: pairs, Link: sums.Link, Propensity: propensity, Likelihood: sums.NegLog, Naive: sums.Loss,
		W: sums.Psi, PU: sums.Loss, AP: sums.Psi + sums.Tau}
}

// share reports whether all pairs of two spans have one π̂ in each direction.
func (s *blockSums) share(from, to nodeSpan) bool {
	return s.terms.ByFields() && from.field >= 0 && to.field >= 0
}

// addShared adds a block that has one π̂, and returns that.
func (s *blockSums) addShared(sums *kern.UnlinkedSums, z []float32, byFields float32) float64 {
	p := s.propensity(byFields)
	if sums.Add(z, p.Pi, p.Rest); p.Pi < s.Floor {
		likelihood := sums.NegLog
		*sums = kern.UnlinkedSums{}
		sums.Add(z, s.Floor, 1-s.Floor)
		sums.NegLog = likelihood
	}
	return p.Pi
}

// propensity is the π̂ of pairs by the term of their fields.
func (s *blockSums) propensity(byFields float32) (p kern.Propensity) {
	p.Pi, p.Rest = kern.Sigmoid64(float64(s.terms.Constant + byFields))
	return p
}

// none is the number of no span.
const none = -1

// sumBoth sums the pairs of a block of two spans that have no node in common, in both directions, by the same z.
func (s *blockSums) sumBoth(z []float32, e exposedBlock, from, to nodeSpan) Sums {
	var sums kern.UnlinkedSums
	if !s.share(from, to) {
		for r, i := range from.nodes {
			there, back := s.exposed(e, i, to)
			sums.AddEachBoth(z[r*len(to.nodes):(r+1)*len(to.nodes)], there, back, s.rule())
		}
		return sumsOf(sums, 2*int64(len(z)), sums.Propensity)
	}
	there := s.propensity(s.ofFields(from.field)[to.field])
	back := s.propensity(s.ofFields(to.field)[from.field])
	if min(there.Pi, back.Pi) >= s.Floor {
		sums.AddBoth(z, there, back)
		return sumsOf(sums, 2*int64(len(z)), (there.Pi+back.Pi)*float64(len(z)))
	}
	total := s.sum(z, e, from, to, none)
	total.Add(s.sumBack(z, e, from, to))
	return total
}

// sumBack sums the pairs of a block in the other direction, by the same z.
func (s *blockSums) sumBack(z []float32, e exposedBlock, from, to nodeSpan) Sums {
	var sums kern.UnlinkedSums
	if s.share(from, to) {
		pi := s.addShared(&sums, z, s.ofFields(to.field)[from.field])
		return sumsOf(sums, int64(len(z)), pi*float64(len(z)))
	}
	for r, i := range from.nodes {
		_, back := s.exposed(e, i, to)
		sums.AddEach(z[r*len(to.nodes):(r+1)*len(to.nodes)], back, s.rule())
	}
	return sumsOf(sums, int64(len(z)), sums.Propensity)
}

// ofFields returns the terms of a source's field with every field of a target.
func (s *blockSums) ofFields(source int) []float32 {
	if s.none != nil {
		return s.none
	}
	return s.terms.Fields[source*s.nodes.FieldCount : (source+1)*s.nodes.FieldCount]
}

// leaveOut takes what is no pair out of a block's logits, and returns how many that were.
func (s *blockSums) leaveOut(z []float32, from, to nodeSpan, number int32) (count int) {
	width := len(to.nodes)
	switch {
	case s.Rank == nil: // the diagonal
		for r, i := range from.nodes {
			if at := s.place[i]; at[0] == number {
				z[r*width+int(at[1])] = kern.Without
				count++
			}
		}
	case to.last >= from.first:
		for r, i := range from.nodes {
			row := z[r*width : (r+1)*width]
			for k, j := range to.nodes {
				if s.Rank[j] >= s.Rank[i] {
					row[k] = kern.Without
					count++
				}
			}
		}
	}
	return count
}

// batch returns the pairs of a source with some of the targets.
func (r Rectangle) batch(source int32, targets []int32) (b model.Batch) {
	for _, j := range targets {
		if r.has(source, j) {
			b.Sources, b.Targets = append(b.Sources, source), append(b.Targets, j)
		}
	}
	return b
}

// SumLinks sums, over links, what they add to being unlinked. It counts no pairs: SumRectangle has. The floor is the
// least propensity that the risks see.
func (p Predictor) SumLinks(links model.Batch, floor float64) (Sums, error) {
	return p.sum(links, func(b risk.Belief) Sums { return linkTerms(b, floor) })
}

// SumSeen sums, over pairs that are linked or not, the predictor's own predictions: each pair counts weight times where
// weights are given.
func (p Predictor) SumSeen(pairs model.Batch, linked []bool, weight []float64) (total Sums, mass float64, err error) {
	k := -1
	total, err = p.sum(pairs, func(b risk.Belief) Sums {
		k++
		own := ownTerms(linked[k], b, 0)
		w := 1.
		if weight != nil {
			w = weight[k]
		}
		mass += w
		return Sums{1, w * own.Link, w * own.Propensity, w * own.Likelihood, w * own.Naive, w * own.W, w * own.PU,
			w * own.AP}
	})
	return total, mass, err
}

// sum adds a function of the belief up over a batch.
func (p Predictor) sum(batch model.Batch, of func(risk.Belief) Sums) (total Sums, err error) {
	err = p.each(batch, func(_ int, b risk.Belief) { total.Add(of(b)) })
	return total, err
}

// each visits the belief of every pair of a batch.
func (p Predictor) each(batch model.Batch, visit func(k int, b risk.Belief)) error {
	if err := p.Validate(); err != nil {
		return err
	}
	z, s := make([]float32, batch.Len()), make([]float32, batch.Len())
	p.Logits(z, s, batch)
	for k := range z {
		b, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return err
		}
		visit(k, b)
	}
	return nil
}

// linkTerms are what a link adds to being unlinked.
func linkTerms(b risk.Belief, floor float64) Sums {
	terms := ownTerms(true, b, floor)
	terms.Add(ownTerms(false, b, floor).negative())
	return terms
}

// ownTerms are the terms of one pair, with the belief's own prediction.
func ownTerms(linked bool, b risk.Belief, floor float64) Sums {
	seen := risk.Observation{Linked: linked}
	value := func(s risk.Scheme) float64 { return risk.Estimator{Scheme: s, Floor: floor}.Risk(seen, b) }
	nll, _ := risk.NLL(linked, b)
	return Sums{Pairs: 1, Link: b.Link(), Propensity: b.Propensity(), Likelihood: nll, Naive: value(risk.Naive{}),
		W: value(risk.W{}), PU: value(risk.PU{}), AP: value(risk.AP{})}
}
