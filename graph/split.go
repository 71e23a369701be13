package graph

import (
	"fmt"
	"iter"
	"math"
	"sort"
	"time"
)

// Subset is one of the three subsets of a Split.
type Subset uint8

// The subsets, oldest first.
const (
	Train Subset = iota
	Validation
	Test
	subsets = 3
)

// String returns the subset's name.
func (s Subset) String() string {
	if s < subsets {
		return [subsets]string{"train", "validation", "test"}[s]
	}
	return fmt.Sprintf("Subset(%d)", uint8(s))
}

// Shares says how large the subsets of a split are; they add up to 1.
type Shares struct{ Train, Validation, Test float64 }

// DefaultShares are those of the paper.
var DefaultShares = Shares{Train: .7, Validation: .1, Test: .2}

// checked returns the shares, or the default for none.
func (s Shares) checked() (Shares, error) {
	if s == (Shares{}) {
		return DefaultShares, nil
	}
	sum := s.Train + s.Validation + s.Test
	// NaN fails every comparison, so the conditions are of what is right.
	if !(s.Train >= 0 && s.Validation >= 0 && s.Test >= 0 && math.Abs(sum-1) <= 1e-9) {
		return s, fmt.Errorf("%w: train %v, validation %v, test %v; give three that are not negative "+
			"and add up to 1",
			ErrShares, s.Train, s.Validation, s.Test)
	}
	return s, nil
}

// Split is an Order cut into train, validation and test. A link belongs to the subset of its source
// when its target lies in the same subset or an earlier one, so no link of a test node, in or out, is
// ever a training link. Links to a later subset (all of them broken) belong to none and are counted as
// dropped. A broken link within one subset stays: it gives nothing away. Targets that are no sources are in
// training, where every source finds them.
//
// A split of links, by [Graph.SplitLastLinks] and its siblings, divides the links of every source instead. See there.
type Split struct {
	Report SplitReport

	order *Order
	cut   [subsets + 1]int // subset p is Sequence[cut[p]:cut[p+1]]

	links *linkSplit // nil unless it is a split of links
}

// SplitReport counts what lies in the subsets.
type SplitReport struct {
	Nodes   [3]int // by Subset
	Links   [3]int // by Subset
	Dropped int    // links whose target lies in a later subset than their source
}

// SplitByShare cuts the order so that each subset has its share of the nodes, to the nearest node.
// The zero Shares mean DefaultShares. Targets that are no sources are in training and do not count.
func (o *Order) SplitByShare(s Shares) (*Split, error) {
	s, err := s.checked()
	if err != nil {
		return nil, err
	}
	all, n := len(o.Sequence), len(o.graph.Sources())
	after := func(share float64) int { return all - n + min(n, int(math.Round(share*float64(n)))) }
	return o.split(after(s.Train), after(s.Train+s.Validation),
		"give that subset a larger share, or take a larger graph")
}

// SplitByDate cuts the order at two dates: train is what comes before the date validation, test
// starts with the date test, validation lies between and is empty when the dates are equal. A node
// without a time goes where its inferred time puts it; see Order.
func (o *Order) SplitByDate(validation, test time.Time) (*Split, error) {
	if test.Before(validation) {
		return nil, fmt.Errorf("%w: test starts %s, before validation on %s; swap them",
			ErrDates, day(test), day(validation))
	}
	dated := o.firstSince(NoTime + 1)
	if dated == len(o.Sequence) {
		return nil, fmt.Errorf("%w: no node has a time; give times or split by share", ErrDates)
	}
	oldest := time.Unix(o.when[o.Sequence[dated]], 0).UTC()
	newest := time.Unix(o.when[o.Sequence[len(o.Sequence)-1]], 0).UTC()
	return o.split(o.firstSince(ceilSecond(validation)), o.firstSince(ceilSecond(test)),
		fmt.Sprintf("choose dates between %s and %s", day(oldest), day(newest)))
}

// Subset returns the subset that node i lies in; with a split of links every node is in training.
func (s *Split) Subset(i int32) Subset {
	if s.links != nil {
		return Train
	}
	rank := int(s.order.Rank[i])
	switch {
	case rank < s.cut[Validation]:
		return Train
	case rank < s.cut[Test]:
		return Validation
	}
	return Test
}

// Nodes returns the nodes of subset p, oldest first; with a split of links, the sources of its links, ascending.
// The slice must not be changed.
func (s *Split) Nodes(p Subset) []int32 {
	if s.links != nil {
		return s.links.sources[p]
	}
	lo, hi := s.cut[p], s.cut[p+1]
	return s.order.Sequence[lo:hi:hi]
}

// Links yields the links of subset p as (source, target), source by source, oldest first.
func (s *Split) Links(p Subset) iter.Seq2[int32, int32] {
	if s.links != nil {
		return s.links.graphs[p].Links()
	}
	return func(yield func(source, target int32) bool) {
		for _, i := range s.Nodes(p) {
			for _, j := range s.order.graph.Out(i) {
				if s.Subset(j) <= p && !yield(i, j) {
					return
				}
			}
		}
	}
}

// Universe returns the ordered pairs that subset p is about: from its nodes to those of its own and
// of earlier subsets. The linked ones among them are the links of subset p. Set Before to the Order to
// leave out targets that are newer than the source.
//
// With a split of links, the training pairs are all pairs: those that are held out are unlinked among them, as if they
// had never happened. Leaving them out would tell which pairs were shown. Those of validation and test are all pairs
// without the links of earlier subsets.
func (s *Split) Universe(p Subset) Universe {
	if s.links != nil {
		return Universe{Except: s.links.known[p]}
	}
	hi := s.cut[p+1]
	return Universe{Sources: s.Nodes(p), Targets: s.order.Sequence[:hi:hi]}
}

// Graph returns a graph, as the one that was split but with the links of subset p alone if it is a split of links: in
// its Universe(p) the linked pairs are those of the subset.
func (s *Split) Graph(p Subset) *Graph {
	if s.links != nil {
		return s.links.graphs[p]
	}
	return s.order.graph
}

// Known returns the links of the subsets before p, as a graph of the same nodes, if it is a split of links; else nil:
// then no source of subset p has an earlier link.
func (s *Split) Known(p Subset) *Graph {
	if s.links != nil {
		return s.links.known[p]
	}
	return nil
}

// split cuts before two places of the sequence.
func (o *Order) split(validation, test int, hint string) (*Split, error) {
	s := &Split{order: o, cut: [subsets + 1]int{0, validation, test, len(o.Sequence)}}
	for p := range Subset(subsets) {
		s.Report.Nodes[p] = len(s.Nodes(p))
		if s.Report.Nodes[p] == 0 && p != Validation {
			return nil, fmt.Errorf("%w: no node of %d is left for %v; %s", ErrEmptySubset, len(o.Sequence), p,
				hint)
		}
	}
	for i, j := range o.graph.Links() {
		if p := s.Subset(i); s.Subset(j) <= p {
			s.Report.Links[p]++
		} else {
			s.Report.Dropped++
		}
	}
	return s, nil
}

// firstSince returns the place in the sequence of the first node of time t or later.
func (o *Order) firstSince(t int64) int {
	return sort.Search(len(o.Sequence), func(rank int) bool { return o.when[o.Sequence[rank]] >= t })
}

// ceilSecond is the first whole second not before t; nodes' times are whole seconds, cut off.
func ceilSecond(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
