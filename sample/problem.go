package sample

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sync"

	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/kern"
	"unseen/internal/lengths"
	"unseen/model"
	"unseen/risk"
)

// Problem is what is learned from.
type Problem struct {
	Nodes      model.Nodes
	Train      *graph.Pairs
	Validation *graph.Pairs    // chooses the ridge and when to stop; nil means a tenth of the sources of Train
	Exposure   []risk.Exposure // of each training pair; nil means that nothing is logged
	// Rates are those that offered pairs are seen with, where they were learned; nil where they are known.
	Rates *SeenRates
	// Origin is what the pairs were drawn from, for the model to keep; nil for pairs that were made otherwise.
	// Prepare sets it.
	Origin *Origin
	// EveryShown says that all shown pairs of a complete log are among the training pairs; see Plan.EveryShown.
	EveryShown bool
	// Graph and Universe are what the pairs were drawn from: the linked pairs of all of the universe are the graph's
	// links. To learn from all pairs needs them; nil where they are not known. Prepare sets them.
	Graph    *graph.Graph
	Universe graph.Universe
	// Echo says how far the vectors follow from the links, as graph.Graph.Echo has it: such vectors
	// carry exposure, and hide it. Prepare sets it.
	Echo float64
}

// Kinds of warnings about vectors: those of zeros, those that are far longer than the others, and lengths that float32
// cannot multiply.
const (
	ZeroVectors risk.WarningKind = "zero-vectors"
	LongVectors risk.WarningKind = "long-vectors"
	VectorScale risk.WarningKind = "vector-scale"
)

// Validate refuses what nothing can be learned from and warns of what little can be learned from. Vectors that are
// there must be right; whether a model needs them says model.NeedsVectors. Of the threads 0 means all processors.
func (p Problem) Validate(threads int) ([]risk.Warning, error) {
	if p.Train == nil || p.Train.Len() == 0 {
		return nil, fmt.Errorf("%w: there are no pairs; sample some from the graph", ErrPairs)
	}
	n := p.Nodes.Len()
	if v := p.Nodes.Vectors; v != nil && v.Len() != n {
		return nil, fmt.Errorf("%w: %d vectors and %d fields; they must be of the same nodes", ErrShape, v.Len(), n)
	}
	if p.Exposure != nil && len(p.Exposure) != p.Train.Len() {
		return nil, fmt.Errorf("%w: %d exposures for %d training pairs", ErrShape, len(p.Exposure), p.Train.Len())
	}
	used := make([]bool, n)
	links := 0
	for _, of := range []struct {
		name string
		*graph.Pairs
	}{{"training", p.Train}, {"validation", p.Validation}} {
		if of.Pairs == nil {
			continue
		}
		if err := checkColumns(of.Pairs, n); err != nil {
			return nil, fmt.Errorf("%w in the %s pairs", err, of.name)
		}
		for k := range of.Source {
			used[of.Source[k]], used[of.Target[k]] = true, true
		}
	}
	for _, linked := range p.Train.Linked {
		if linked {
			links++
		}
	}
	switch links {
	case 0:
		return nil, fmt.Errorf("%w: none of the %d pairs is linked; check that sources and targets are not swapped, "+
			"or sample more", ErrPairs, p.Train.Len())
	case p.Train.Len():
		return nil, fmt.Errorf("%w: all %d pairs are linked, and nothing tells them from others; add pairs without a "+
			"link", ErrPairs, links)
	}
	return p.checkNodes(used, threads)
}

// checkColumns checks what the kernels trust.
func checkColumns(p *graph.Pairs, nodes int) error {
	n := p.Len()
	if len(p.Target) != n || len(p.Linked) != n || len(p.Weight) != n || len(p.Rate) != n {
		return fmt.Errorf("%w: columns of different lengths", ErrShape)
	}
	for k := range n {
		if i, j := p.Source[k], p.Target[k]; uint32(i) >= uint32(nodes) || uint32(j) >= uint32(nodes) || i == j {
			return fmt.Errorf("%w: pair %d goes from node %d to node %d of %d", ErrShape, k, i, j, nodes)
		}
		if w, r := p.Weight[k], p.Rate[k]; !(w > 0) || math.IsInf(w, 0) || !(r > 0 && r <= 1) {
			return fmt.Errorf("%w: pair %d has weight %v and rate %v; weights are positive, rates in (0, 1]", ErrShape,
				k, w, r)
		}
	}
	return nil
}

// checkNodes checks the vectors and fields of the nodes in the pairs.
func (p Problem) checkNodes(used []bool, threads int) ([]risk.Warning, error) {
	members := make([]int, p.Nodes.FieldCount)
	for i, is := range used {
		if !is {
			continue
		}
		f := int(p.Nodes.Fields[i])
		if f >= len(members) {
			return nil, fmt.Errorf("%w: node %d has field %d of %d", ErrShape, i, f, len(members))
		}
		members[f]++
	}
	warnings, err := p.checkVectors(used, threads)
	if err != nil {
		return nil, err
	}
	tiny, first := 0, ""
	for f, count := range members {
		if count != 1 {
			continue
		}
		if tiny++; tiny > 1 {
			continue
		}
		if first = fmt.Sprint(f); f < len(p.Nodes.FieldNames) {
			first = p.Nodes.FieldNames[f]
		}
	}
	if tiny > 0 {
		which := fmt.Sprintf("field %q has a single node: its", first)
		if tiny > 1 {
			which = fmt.Sprintf("%d fields have a single node each, such as %q: their", tiny, first)
		}
		warnings = append(warnings, risk.Warning{Kind: "tiny-field",
			Message: which + " propensities are the prior's; merge small fields"})
	}
	return warnings, nil
}

// checkVectors refuses vectors that are not finite, and warns of those that spoil training.
func (p Problem) checkVectors(used []bool, threads int) (warnings []risk.Warning, err error) {
	if p.Nodes.Vectors == nil {
		return nil, nil
	}
	t := p.tally(used, threads)
	if t.NotFinite > 0 {
		return nil, fmt.Errorf("%w: the vector of %s holds a number that is not finite; encode it again or leave the "+
			"node out", ErrData, p.name(t.FirstNotFinite))
	}
	warn := func(kind risk.WarningKind, format string, args ...any) {
		warnings = append(warnings, risk.Warning{Kind: kind, Message: fmt.Sprintf(format, args...)})
	}
	if t.Zero > 0 {
		all := 0
		for _, is := range used {
			if is {
				all++
			}
		}
		warn(ZeroVectors, "vectors of zeros: %s of %s that are learned from (the first is %s); their links say "+
			"nothing of the text; give them a text or leave them out", amount.Text(t.Zero), amount.Of(all, "node"),
			p.name(t.FirstZero))
	}
	if n, longest := t.Longer(); n > 0 {
		warn(LongVectors, "%s more than %d times as long as the median one (the longest is that of %s): all have one "+
			"scale in training, so that what the texts of the others say is drowned; encode these nodes again, leave "+
			"them out, or divide every vector by its length", amount.OneOrMore(n, "vector is", "vectors are"),
			lengths.Far, p.name(longest))
	}
	if t.OutOfRange() {
		median := fmt.Sprintf("%.0e", t.Median())
		warn(VectorScale, "the vectors are about %[1]s long, and products of four of their numbers overflow or vanish "+
			"in float32, so that what texts say is lost; divide all vectors by %[1]s", median)
	}
	return warnings, nil
}

// name is a node by its id, where that is known, else by its number.
func (p Problem) name(i int32) string {
	if p.Graph == nil || p.Graph.Len() != p.Nodes.Len() {
		return fmt.Sprintf("node %d", i)
	}
	return fmt.Sprintf("node %q", p.Graph.ID(i))
}

// tally counts the vectors of the nodes used by their lengths.
func (p Problem) tally(used []bool, threads int) *lengths.Tally {
	const chunk = 1 << 13
	rows, dim := kern.MatrixOf(p.Nodes.Vectors), p.Nodes.Vectors.Dim()
	ones := make([]float32, dim)
	for k := range ones {
		ones[k] = 1
	}
	var all lengths.Tally
	var mu sync.Mutex
	kern.Chunks(len(used), chunk, kern.Threads(threads), func(_, _, from, to int) {
		var part lengths.Tally
		nodes, squares, row := make([]int32, 0, chunk), make([]float32, chunk), make([]float32, dim)
		for i := from; i < to; i++ {
			if used[i] {
				nodes = append(nodes, int32(i))
			}
		}
		kern.DotPairs(squares, ones, rows, nodes, nodes)
		for k, i := range nodes {
			square := float64(squares[k])
			// A NaN or an infinity never leaves the sum. Where a float32 sum overflows or
			// vanishes, a float64 sum decides.
			if !(square > 0 && square <= math.MaxFloat32) {
				rows.Load(row, int(i))
				square = lengths.Square(row)
			}
			part.Add(i, square)
		}
		mu.Lock()
		defer mu.Unlock()
		all.Merge(&part)
	})
	return &all
}

// Holdout says which training pairs are held out to validate by.
type Holdout func(source, target int32) bool

// SplitValidation returns the validation pairs, without exposures. Where there are none it copies the training pairs of
// a tenth of the sources; held then says which pairs these are, and is nil otherwise. The training pairs stay where
// they are: at scale there is no room for another copy of them.
func (p Problem) SplitValidation() (validation Evidence, held Holdout) {
	if p.Validation != nil && p.Validation.Len() > 0 {
		return Evidence{Pairs: p.Validation}, nil
	}
	return p.holdOut(func(source, _ int32) bool { return tenth(uint64(uint32(source))) })
}

// SplitPairs is SplitValidation for models that know a source by its own pairs alone: it copies a tenth of the training
// pairs, of all sources.
func (p Problem) SplitPairs() (validation Evidence, held Holdout) {
	return p.holdOut(func(source, target int32) bool {
		h := uint64(uint32(source))<<32 | uint64(uint32(target))
		h = (h ^ h>>33) * 0xff51afd7ed558ccd
		return tenth((h ^ h>>33) * 0xc4ceb9fe1a85ec53 >> 32)
	})
}

func (p Problem) holdOut(held Holdout) (Evidence, Holdout) {
	indices := Indices(p.Train.Len(), func(k int) bool { return held(p.Train.Source[k], p.Train.Target[k]) })
	if len(indices) == 0 || len(indices) == p.Train.Len() {
		return Evidence{}, nil
	}
	return p.Training().At(indices), held
}

// TrainingWithout copies the training pairs that are not held, for code that needs them in one place. If held is nil,
// it returns all of them in place.
func (p Problem) TrainingWithout(held Holdout) Evidence {
	if held == nil {
		return p.Training()
	}
	return p.Training().At(Indices(p.Train.Len(), func(k int) bool {
		return !held(p.Train.Source[k], p.Train.Target[k])
	}))
}

// Training returns the training pairs with their exposures.
func (p Problem) Training() Evidence { return Evidence{p.Train, p.Exposure} }

// tenth reports whether a number is one of a tenth of all, the same ones every time.
func tenth(number uint64) bool { return number*0x9e3779b97f4a7c15>>32%10 == 0 }

// Checksum names the data: a model or a checkpoint of other data is recognised by it. It covers
// the pairs, the fields and the vectors of the nodes in the pairs.
func (p Problem) Checksum() string {
	h := sha256.New()
	room := make([]byte, 0, 1<<16) // a hash is slow where it is given a few bytes at a time
	put := func(x uint64) {
		if len(room)+8 > cap(room) {
			h.Write(room)
			room = room[:0]
		}
		room = binary.LittleEndian.AppendUint64(room, x)
	}
	put(uint64(p.Nodes.Len()))
	put(uint64(p.Nodes.Dim()))
	put(uint64(p.Nodes.FieldCount))
	row := make([]float32, p.Nodes.Dim())
	bytes := make([]byte, 4*len(row))
	seen := make([]bool, p.Nodes.Len())
	node := func(i int32) {
		if seen[i] {
			return
		}
		seen[i] = true
		put(uint64(i)<<16 | uint64(p.Nodes.Fields[i]))
		if len(row) == 0 {
			return
		}
		p.Nodes.Vectors.Load(row, i)
		h.Write(room)
		room = room[:0]
		for k, x := range row {
			binary.LittleEndian.PutUint32(bytes[4*k:], math.Float32bits(x))
		}
		h.Write(bytes)
	}
	for _, pairs := range []*graph.Pairs{p.Train, p.Validation} {
		if pairs == nil {
			put(0)
			continue
		}
		put(uint64(pairs.Len()))
		for k := range pairs.Source {
			put(uint64(uint32(pairs.Source[k]))<<32 | uint64(uint32(pairs.Target[k])))
			put(math.Float64bits(pairs.Weight[k]))
			put(math.Float64bits(pairs.Rate[k]))
			linked := uint64(0)
			if pairs.Linked[k] {
				linked = 1
			}
			put(linked)
			node(pairs.Source[k])
			node(pairs.Target[k])
		}
	}
	for _, e := range p.Exposure {
		put(uint64(e))
	}
	h.Write(room)
	return hex.EncodeToString(h.Sum(nil))
}
