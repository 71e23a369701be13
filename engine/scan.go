package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Scan evaluates models on pairs and hands the logits to Visit, portion by portion. Gradients of weighted means over
// the pairs come back through slopes that Visit sets.
type Scan struct {
	Pairs *graph.Pairs
	// Versions are one predictor or several: all have the models of the first, with other
	// parameters. A model that is nil is not evaluated, and its logits are 0.
	Versions []Predictor
	// Totals are what gradients are divided by, which are sums over the pairs times their weights.
	// There is one gradient for each total, in the parameters of the first version; nil means none.
	Totals []float64
	// Portion is how many pairs go through the models at a time; 0 means 64, of which the vectors stay in the cache
	// for many versions. More let models use that pairs share their source.
	Portion int
	// Visit looks at a portion. Those of one chunk come in order, those of several at the same time.
	Visit func(Portion) error
}

// Portion is a few pairs of a Scan, From ≤ k < To, with what the models say of them.
type Portion struct {
	Chunk, From, To int

	Link, Propensity [][]float32 // logits z and s, by version, then by pair

	// to be set: by gradient, the slopes of each pair's term in its z and s
	LinkSlopes, PropensitySlopes [][]float64
}

// Logits returns the logits of ŷ and of π̂ of every pair; none where the predictor has no such model.
func Logits(ctx context.Context, e Engine, by Predictor, p *graph.Pairs) (z, s []float32, err error) {
	if by.Link != nil {
		z = make([]float32, p.Len())
	}
	if by.Propensity != nil {
		s = make([]float32, p.Len())
	}
	_, err = e.Scan(ctx, Scan{Pairs: p, Versions: []Predictor{by}, Portion: ScanChunk, Visit: func(at Portion) error {
		if z != nil {
			copy(z[at.From:at.To], at.Link[0])
		}
		if s != nil {
			copy(s[at.From:at.To], at.Propensity[0])
		}
		return nil
	}})
	return z, s, err
}

// SourceLogits are the Logits of one source and some targets.
func SourceLogits(ctx context.Context, e Engine, by Predictor, source int32, targets []int32) (z, s []float32,
	err error) {
	return Logits(ctx, e, by, &graph.Pairs{Source: slices.Repeat([]int32{source}, len(targets)), Target: targets})
}

// fieldExamples is how many pairs of two fields a mean of π̂ is made of, where they differ.
const fieldExamples = 64

// FieldExposure returns the mean π̂ of ordered pairs of fields, the source's first; 0 where no
// source has the one or no target the other. Where π̂ depends on more than the fields, the mean is
// over some 64 pairs of each, always the same ones.
func FieldExposure(ctx context.Context, e Engine, by Predictor, n model.Nodes, of [][2]uint16) ([]float64, error) {
	from, to := n.FieldMembers()
	most := fieldExamples
	if terms, dense := model.TermsOf(by.Propensity, by.PropensityParams); dense && terms.ByFields() {
		most = 1
	}
	pairs := &graph.Pairs{}
	var cells []int
	for c, cell := range of {
		sources, targets := from[cell[0]], to[cell[1]]
		count := min(most, len(sources)*len(targets))
		for k := range count {
			// evenly spaced over the sources, and by the golden ratio, whose multiples never repeat, over the targets
			_, share := math.Modf(float64(k) * math.Phi)
			i, j := sources[k*len(sources)/count], targets[int(share*float64(len(targets)))]
			if i == j && count > 1 {
				continue
			}
			pairs.Source, pairs.Target = append(pairs.Source, i), append(pairs.Target, j)
			cells = append(cells, c)
		}
	}
	_, s, err := Logits(ctx, e, by.Exposure(), pairs)
	if err != nil {
		return nil, err
	}
	out, count := make([]float64, len(of)), make([]float64, len(of))
	for k, c := range cells {
		out[c] += 1 / (1 + math.Exp(-float64(s[k])))
		count[c]++
	}
	for c := range out {
		out[c] /= math.Max(count[c], 1)
	}
	return out, nil
}

// ScanChunk is how many pairs a chunk of a Scan has.
const ScanChunk = 4096

// ScanChunks returns how many chunks a Scan over so many pairs has.
func ScanChunks(pairs int) int { return (pairs + ScanChunk - 1) / ScanChunk }

// Scan implements Engine. Slopes are brought to the size of 1 by the first pair's weight before they go into float32
// sums of a portion, which are added in float64.
func (c CPU) Scan(ctx context.Context, s Scan) ([][]float64, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	n := s.Pairs.Len()
	portion := min(s.PortionSize(), max(n, 1)) // the room of a few pairs is small
	threads := kern.Threads(c.Threads)
	rooms := make([]*scanRoom, threads)
	parts := make([][][]float64, ScanChunks(n))
	err := kern.ChunksErr(ctx, n, ScanChunk, threads, func(worker, chunk, from, to int) error {
		if rooms[worker] == nil {
			rooms[worker] = newScanRoom(&s, portion)
		}
		parts[chunk] = make([][]float64, len(s.Totals))
		for i := range parts[chunk] {
			parts[chunk][i] = make([]float64, len(rooms[worker].grad))
		}
		for ; from < to; from += portion {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := Portion{Chunk: chunk, From: from, To: min(from+portion, to)}
			if err := rooms[worker].visit(&s, at, parts[chunk]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(s.Totals))
	for i := range out {
		out[i] = make([]float64, s.Versions[0].Link.Size()+s.Versions[0].Propensity.Size())
		for _, part := range parts {
			for k, g := range part[i] {
				out[i][k] += g / s.Totals[i]
			}
		}
	}
	return out, nil
}

// PortionSize returns how many pairs a portion has; the last of a chunk may have fewer.
func (s *Scan) PortionSize() int {
	if s.Portion > 0 {
		return min(s.Portion, ScanChunk)
	}
	return stretch
}

// Validate refuses a scan without predictors, with too few parameters, or with totals that are not positive.
func (s *Scan) Validate() error {
	if len(s.Versions) == 0 || slices.ContainsFunc(s.Totals, func(total float64) bool { return !(total > 0) }) {
		return fmt.Errorf("%w: a scan of %d predictors, with gradients divided by %v", ErrShape, len(s.Versions),
			s.Totals)
	}
	if s.Totals != nil {
		if err := s.Versions[0].Validate(); err != nil {
			return err
		}
	}
	for _, v := range s.Versions {
		if v.Link != nil && len(v.LinkParams) < v.Link.Size() ||
			v.Propensity != nil && len(v.PropensityParams) < v.Propensity.Size() {
			return fmt.Errorf("%w: a scan with too few parameters", ErrShape)
		}
		if v.Link == nil && v.Propensity != nil {
			if _, place := model.LinkSlope(v.Propensity, v.PropensityParams); place >= 0 {
				return fmt.Errorf("%w: a propensity that depends on the link model's logits, without that model; "+
					"give both", ErrShape)
			}
		}
	}
	return nil
}

// scanRoom is a worker's scratch memory.
type scanRoom struct {
	link, propensity             [][]float32
	linkSlopes, propensitySlopes [][]float64
	dz, ds, grad                 []float32
}

func newScanRoom(s *Scan, portion int) *scanRoom {
	room := &scanRoom{
		link: table[float32](len(s.Versions), portion), propensity: table[float32](len(s.Versions), portion),
		linkSlopes: table[float64](len(s.Totals), portion), propensitySlopes: table[float64](len(s.Totals), portion),
		dz: make([]float32, portion), ds: make([]float32, portion),
	}
	if first := s.Versions[0]; s.Totals != nil {
		room.grad = make([]float32, first.Link.Size()+first.Propensity.Size())
	}
	return room
}

// table returns rows of zeros.
func table[T any](rows, columns int) [][]T {
	out := make([][]T, rows)
	for i := range out {
		out[i] = make([]T, columns)
	}
	return out
}

// visit evaluates one portion and adds its gradients.
func (r *scanRoom) visit(s *Scan, at Portion, grads [][]float64) error {
	n := at.To - at.From
	batch := model.Batch{Sources: s.Pairs.Source[at.From:at.To], Targets: s.Pairs.Target[at.From:at.To]}
	cut := func(rows [][]float32) [][]float32 {
		out := make([][]float32, len(rows))
		for i, row := range rows {
			out[i] = row[:n]
		}
		return out
	}
	at.Link, at.Propensity = cut(r.link), cut(r.propensity)
	for i, v := range s.Versions {
		v.Logits(at.Link[i], at.Propensity[i], batch)
	}
	for i := range s.Totals {
		at.LinkSlopes, at.PropensitySlopes = append(at.LinkSlopes, r.linkSlopes[i][:n]),
			append(at.PropensitySlopes, r.propensitySlopes[i][:n])
	}
	if err := s.Visit(at); err != nil {
		return err
	}
	first := s.Versions[0]
	for i, grad := range grads {
		size := first.Link.Size()
		for k := range n {
			w := s.Pairs.Weight[at.From+k] / s.Pairs.Weight[0] // near 1, for float32
			r.dz[k], r.ds[k] = float32(w*at.LinkSlopes[i][k]), float32(w*at.PropensitySlopes[i][k])
		}
		clear(r.grad)
		first.backward(r.grad[:size], r.grad[size:], batch, at.Link[0], r.dz[:n], r.ds[:n])
		for k, g := range r.grad {
			grad[k] += float64(g) * s.Pairs.Weight[0]
		}
	}
	return nil
}
