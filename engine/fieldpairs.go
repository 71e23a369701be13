package engine

import (
	"context"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// FieldSummer is an engine that also says what a predictor's own predictions come to by the fields of sources and
// targets.
type FieldSummer interface {
	// AllPairsByField is AllPairs of the pairs from every field to every field, the source's first; fields between
	// which there is no pair are left out.
	AllPairsByField(ctx context.Context, g *graph.Graph, p Predictor, u graph.Universe, floor float64) ([]FieldMeans,
		error)
}

var _ FieldSummer = CPU{}

// FieldMeans are means over all pairs from one field to another.
type FieldMeans struct {
	Source, Target uint16 // fields
	Means
}

// AllPairsByField implements FieldSummer.
func (c CPU) AllPairsByField(ctx context.Context, g *graph.Graph, p Predictor, u graph.Universe,
	floor float64) ([]FieldMeans, error) {
	by, err := c.summer(g, p, u)
	if err != nil {
		return nil, err
	}
	return c.AllPairsByFieldBy(ctx, by, g, p, u, floor)
}

// AllPairsByFieldBy is AllPairsByField where another sums the pairs, however many they are. Links are put right by the
// processor.
func (c CPU) AllPairsByFieldBy(ctx context.Context, by RectangleSummer, g *graph.Graph, p Predictor, u graph.Universe,
	floor float64) (out []FieldMeans, err error) {
	n := model.NodesOf(g)
	to := sheetOf(n)
	sums, err := c.allPairsBy(ctx, func(n model.Nodes, r Rectangle) ([]Sums, error) {
		return by.SumFields(ctx, n, p, r)
	}, to, allPairs{g, p, u, floor})
	for cell, own := range sums {
		if own.Pairs > 0 {
			out = append(out, FieldMeans{uint16(cell / to.count), uint16(cell % to.count), own.Means()})
		}
	}
	return out, err
}

// Overall are the means over the pairs of all fields.
func Overall(cells []FieldMeans) Means {
	var total Sums
	for _, c := range cells {
		pairs := float64(c.Pairs)
		total.Add(Sums{c.Pairs, pairs * c.MeanLink, pairs * c.MeanPropensity, pairs * c.Likelihood, pairs * c.Naive,
			pairs * c.W, pairs * c.PU, pairs * c.AP})
	}
	return total.Means()
}

// SumFields implements RectangleSummer.
func (c CPU) SumFields(ctx context.Context, n model.Nodes, p Predictor, r Rectangle) ([]Sums, error) {
	return c.sumBlocks(ctx, n, p, r, sheetOf(n))
}

// sheet says where the sums of pairs go: those from a field to a field to a place of their own, or all to one place.
type sheet struct {
	fields []uint16 // by node; nil: all to one place
	count  int
}

func sheetOf(n model.Nodes) sheet { return sheet{n.Fields, n.FieldCount} }

func (s sheet) byFields() bool { return s.fields != nil }

// width is how many places a source has.
func (s sheet) width() int { return max(s.count, 1) }

// column is the place of a node among those.
func (s sheet) column(i int32) int {
	if s.fields == nil {
		return 0
	}
	return int(s.fields[i])
}

// sheetPart is the sums of some sources, which are of one field where these are told apart: by the field of targets,
// and of pairs of the other direction.
type sheetPart struct {
	row         int
	there, back []Sums
}

func (s sheet) part(source int32) sheetPart {
	return sheetPart{s.column(source), make([]Sums, s.width()), make([]Sums, s.width())}
}

// addUp adds parts up, in order.
func (s sheet) addUp(parts []sheetPart) []Sums {
	width := s.width()
	total := make([]Sums, width*width)
	for _, p := range parts {
		for k, x := range p.there {
			total[p.row*width+k].Add(x)
		}
		for k, x := range p.back {
			total[k*width+p.row].Add(x)
		}
	}
	return total
}

// spans cuts sources into stretches of at most a size, of one field each where these are told apart.
func (s sheet) spans(sources []int32, size int) (out [][]int32) {
	byField := make([][]int32, s.width())
	for _, i := range sources {
		byField[s.column(i)] = append(byField[s.column(i)], i)
	}
	for _, own := range byField {
		out = append(out, slices.Collect(slices.Chunk(own, size))...)
	}
	return out
}

// summedPairs are targets of every source, and what is summed of the pairs.
type summedPairs struct {
	targets func(source int32) []int32
	of      func(risk.Belief) Sums
}

// sumPairs adds up what some pairs of a rectangle come to, one by one. The sums do not depend on the number of threads.
func (c CPU) sumPairs(ctx context.Context, p Predictor, r Rectangle, to sheet, pairs summedPairs) ([]Sums, error) {
	const together = 64 // sources
	last := int32(-1)
	if len(r.Targets) > 0 {
		last = slices.Max(r.Targets)
	}
	isTarget := make([]bool, last+1)
	for _, j := range r.Targets {
		isTarget[j] = true
	}
	spans := to.spans(r.Sources, together)
	parts := make([]sheetPart, len(spans))
	if err := kern.ChunksErr(ctx, len(spans), 1, kern.Threads(c.Threads), func(_, k, _, _ int) error {
		parts[k] = to.part(spans[k][0])
		for _, i := range spans[k] {
			batch := r.batch(i, slices.DeleteFunc(slices.Clone(pairs.targets(i)), func(j int32) bool {
				return j > last || !isTarget[j]
			}))
			if err := p.each(batch, func(n int, b risk.Belief) {
				parts[k].there[to.column(batch.Targets[n])].Add(pairs.of(b))
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return to.addUp(parts), nil
}

// oneByOne sums pairs of any models, one by one.
type oneByOne struct{ CPU }

// SumRectangle implements RectangleSummer.
func (c oneByOne) SumRectangle(ctx context.Context, _ model.Nodes, p Predictor, r Rectangle) (Sums, error) {
	sums, err := c.sum(ctx, p, r, sheet{})
	if err != nil {
		return Sums{}, err
	}
	return sums[0], nil
}

// SumFields implements RectangleSummer.
func (c oneByOne) SumFields(ctx context.Context, n model.Nodes, p Predictor, r Rectangle) ([]Sums, error) {
	return c.sum(ctx, p, r, sheetOf(n))
}

func (c oneByOne) sum(ctx context.Context, p Predictor, r Rectangle, to sheet) ([]Sums, error) {
	return c.sumPairs(ctx, p, r, to, summedPairs{func(int32) []int32 { return r.Targets },
		func(b risk.Belief) Sums { return ownTerms(false, b, r.Floor) }})
}
