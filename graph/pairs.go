package graph

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
)

// Pairs is a sample of the ordered pairs of a universe, column by column: pair k is
// (Source[k], Target[k]). All columns have the same length. No pair is in it twice.
type Pairs struct {
	Source, Target []int32
	Linked         []bool
	Weight         []float64 // 1/P(pair is in the sample): how many pairs of the universe it stands for
	// P(in the sample, were it unlinked) / P(in the sample, were it linked); 1 where links do not
	// matter
	Rate     []float64
	Universe int64 // number of ordered pairs in the universe, |U|
}

// MaxPairs is how many pairs one sample may hold.
const MaxPairs = math.MaxInt32

// Group is a run of pairs with the same source: pairs Start to End−1.
type Group struct {
	Source     int32
	Start, End int
}

// Len returns the number of pairs.
func (p *Pairs) Len() int { return len(p.Source) }

// Groups yields the runs of pairs with the same source. One group per source is what comes after
// GroupBySource, and straight from the samplers of this package.
func (p *Pairs) Groups() iter.Seq[Group] {
	return func(yield func(Group) bool) {
		for start := 0; start < len(p.Source); {
			end := start + 1
			for end < len(p.Source) && p.Source[end] == p.Source[start] {
				end++
			}
			if !yield(Group{p.Source[start], start, end}) {
				return
			}
			start = end
		}
	}
}

// GroupBySource sorts the pairs by source and keeps the order among those of one source. A kernel
// then reads a source's vector once for all its pairs.
func (p *Pairs) GroupBySource() error {
	if err := p.checkShape(); err != nil {
		return err
	}
	if slices.IsSorted(p.Source) {
		return nil
	}
	keys := make([]uint64, p.Len())
	for k, i := range p.Source {
		keys[k] = uint64(uint32(i))<<32 | uint64(k)
	}
	sortKeys(keys)
	p.Source = permuted(p.Source, keys)
	p.Target = permuted(p.Target, keys)
	p.Linked = permuted(p.Linked, keys)
	p.Weight = permuted(p.Weight, keys)
	p.Rate = permuted(p.Rate, keys)
	return nil
}

// Shuffle puts the pairs into a random order, for methods that walk them in batches.
func (p *Pairs) Shuffle(src rand.Source) error {
	if err := p.checkShape(); err != nil {
		return err
	}
	if src == nil {
		return fmt.Errorf("shuffle: %w: no source of randomness; give one, such as rand.NewPCG(seed, 0)",
			ErrSettings)
	}
	rand.New(src).Shuffle(p.Len(), func(a, b int) {
		p.Source[a], p.Source[b] = p.Source[b], p.Source[a]
		p.Target[a], p.Target[b] = p.Target[b], p.Target[a]
		p.Linked[a], p.Linked[b] = p.Linked[b], p.Linked[a]
		p.Weight[a], p.Weight[b] = p.Weight[b], p.Weight[a]
		p.Rate[a], p.Rate[b] = p.Rate[b], p.Rate[a]
	})
	return nil
}

// Validate checks pairs that came from elsewhere: that the columns have one length, that every pair
// is of a source and another target of g and is linked exactly where g is, that weights are finite and at
// least 1, and rates lie in (0, 1].
func (p *Pairs) Validate(g *Graph) error {
	if err := p.checkShape(); err != nil {
		return err
	}
	n := uint32(g.Len())
	for k := range p.Source {
		i, j, w, r := p.Source[k], p.Target[k], p.Weight[k], p.Rate[k]
		switch {
		case uint32(i) >= n || uint32(j) >= n:
			return fmt.Errorf("pair %d is (%d, %d) of a graph with %d nodes: %w; sample from this graph", k, i,
				j, n, ErrUnknownNode)
		case i == j:
			return fmt.Errorf("pair %d is node %q with itself: %w; leave it out", k, g.ID(i), ErrPair)
		case !g.IsSource(i) || !g.IsTarget(j):
			return fmt.Errorf("pair %d (%q, %q) is from a %v to a %v: %w; pairs go from sources to targets", k, g.ID(i),
				g.ID(j), g.Role(i), g.Role(j), ErrPair)
		case p.Linked[k] != g.HasLink(i, j):
			return fmt.Errorf("pair %d (%q, %q) says linked %t, the graph %t: %w; sample from this graph", k,
				g.ID(i), g.ID(j), p.Linked[k], !p.Linked[k], ErrPair)
		case !(w >= 1 && w <= math.MaxFloat64):
			return fmt.Errorf("pair %d (%q, %q) has weight %v: %w; a weight is 1/P(sampled), at least 1", k,
				g.ID(i), g.ID(j), w, ErrPair)
		case !(r > 0 && r <= 1):
			return fmt.Errorf("pair %d (%q, %q) has rate %v: %w; a rate is a probability above 0", k, g.ID(i),
				g.ID(j), r, ErrPair)
		}
	}
	return nil
}

func (p *Pairs) checkShape() error {
	n := len(p.Source)
	if len(p.Target) != n || len(p.Linked) != n || len(p.Weight) != n || len(p.Rate) != n {
		return fmt.Errorf("pairs with columns of %d, %d, %d, %d and %d rows: %w; give each pair all five values",
			n, len(p.Target), len(p.Linked), len(p.Weight), len(p.Rate), ErrShape)
	}
	if n > MaxPairs {
		return fmt.Errorf("%d pairs, the limit is %d: %w; work on a part of them", n, MaxPairs, ErrTooManyPairs)
	}
	if p.Universe < int64(n) {
		return fmt.Errorf("%d pairs of a universe of %d: %w; Universe is the number of pairs they stand for", n,
			p.Universe, ErrPair)
	}
	return nil
}

// permuted returns a column in the order of the keys' low halves.
func permuted[T any](column []T, keys []uint64) []T {
	moved := make([]T, len(column))
	for k, key := range keys {
		moved[k] = column[uint32(key)]
	}
	return moved
}

// newPairs allocates n pairs of a universe.
func newPairs(n int, universe int64) *Pairs {
	return &Pairs{
		Source:   make([]int32, 0, n),
		Target:   make([]int32, 0, n),
		Linked:   make([]bool, 0, n),
		Weight:   make([]float64, 0, n),
		Rate:     make([]float64, 0, n),
		Universe: universe,
	}
}

func (p *Pairs) add(source, target int32, linked bool, weight, rate float64) {
	p.Source = append(p.Source, source)
	p.Target = append(p.Target, target)
	p.Linked = append(p.Linked, linked)
	p.Weight = append(p.Weight, weight)
	p.Rate = append(p.Rate, rate)
}
