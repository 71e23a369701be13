package graph

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unseen/hint"
)

// linkSplit is a split of links.
type linkSplit struct {
	whole   *Graph
	graphs  [subsets]*Graph  // with the links of each subset alone
	known   [subsets]*Graph  // with the links of earlier subsets; nil of training
	sources [subsets][]int32 // of the links of each subset, ascending
}

// whole returns the graph that was split.
func (s *Split) whole() *Graph {
	if s.links != nil {
		return s.links.whole
	}
	return s.order.graph
}

// SplitLastLinks divides the links of every source by their times: the last ones are for test, those before for
// validation, to the nearest link, and at least one stays in training. Links without a time are taken for the earliest.
// The zero Shares mean DefaultShares.
func (g *Graph) SplitLastLinks(s Shares) (*Split, error) {
	s, err := s.checked()
	if err != nil {
		return nil, err
	}
	if !g.HasLinkTimes() {
		return nil, fmt.Errorf("%w: no link has a time; give times, or split links at random", ErrDates)
	}
	of := make([]Subset, g.LinkCount())
	for i := range int32(g.Len()) {
		s.LastLinks(of[g.out.start[i]:], g.OutTimes(i))
	}
	return g.splitLinks(of,
		"give it a larger share, or set %v to whole to hold nothing out; sources with one or two links have none "+
			"to spare", hint.Setting("split"))
}

// LastLinks sets the subsets of all links of one source, given their times by ascending target; see SplitLastLinks.
func (s Shares) LastLinks(of []Subset, times []int64) {
	places := make([]int, len(times))
	for k := range places {
		places[k] = k
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	n := float64(len(places))
	test := min(int(math.Round(s.Test*n)), max(len(places)-1, 0))
	validation := min(int(math.Round(s.Validation*n)), max(len(places)-1-test, 0))
	for k, place := range places {
		switch {
		case k >= len(places)-test:
			of[place] = Test
		case k >= len(places)-test-validation:
			of[place] = Validation
		default:
			of[place] = Train
		}
	}
}

// SplitLinksByDate divides the links by their times: train is what comes before the date validation, test starts with
// the date test. Links without a time are in training.
func (g *Graph) SplitLinksByDate(validation, test time.Time) (*Split, error) {
	switch {
	case test.Before(validation):
		return nil, fmt.Errorf("%w: test starts %s, before validation on %s; swap them", ErrDates, day(test),
			day(validation))
	case !g.HasLinkTimes():
		return nil, fmt.Errorf("%w: no link has a time; give times, or split links at random", ErrDates)
	}
	of := make([]Subset, g.LinkCount())
	oldest, newest := int64(math.MaxInt64), int64(NoTime)
	for k, t := range g.out.time {
		if t == NoTime {
			continue
		}
		oldest, newest = min(oldest, t), max(newest, t)
		of[k] = SubsetByDate(t, validation, test)
	}
	return g.splitLinks(of, "choose dates between %s and %s", day(time.Unix(oldest, 0)),
		day(time.Unix(newest, 0)))
}

// SubsetByDate returns the subset of a link at a time; see SplitLinksByDate.
func SubsetByDate(t int64, validation, test time.Time) Subset {
	switch {
	case t == NoTime:
		return Train
	case t >= ceilSecond(test):
		return Test
	case t >= ceilSecond(validation):
		return Validation
	}
	return Train
}

// SplitLinksAtRandom draws the subset of every link by its share. The zero Shares mean DefaultShares.
func (g *Graph) SplitLinksAtRandom(s Shares, src rand.Source) (*Split, error) {
	s, err := s.checked()
	if err != nil {
		return nil, err
	}
	of, random := make([]Subset, g.LinkCount()), rand.New(src)
	for k := range of {
		of[k] = s.SubsetFor(random.Float64())
	}
	return g.splitLinks(of, "give it a larger share, or take a graph with more links")
}

// SubsetFor returns the subset of a link for which x was drawn uniformly from [0, 1); see SplitLinksAtRandom.
func (s Shares) SubsetFor(x float64) Subset {
	switch {
	case x < s.Test:
		return Test
	case x < s.Test+s.Validation:
		return Validation
	}
	return Train
}

// splitLinks makes a split of the subset of every link, by its place in the table of links.
func (g *Graph) splitLinks(of []Subset, fix string, args ...any) (*Split, error) {
	s := &Split{links: &linkSplit{whole: g}}
	for p := range Subset(subsets) {
		s.links.graphs[p] = g.WithLinks(func(i int32, place int) bool { return of[g.out.start[i]+int64(place)] == p })
		if p > Train {
			s.links.known[p] = g.WithLinks(func(i int32, place int) bool { return of[g.out.start[i]+int64(place)] < p })
		}
		for _, i := range g.Sources() {
			if len(s.links.graphs[p].Out(i)) > 0 {
				s.links.sources[p] = append(s.links.sources[p], i)
			}
		}
		s.Report.Nodes[p], s.Report.Links[p] = len(s.links.sources[p]), s.links.graphs[p].LinkCount()
		if s.Report.Links[p] == 0 && p != Validation {
			return nil, hint.Wrap(fmt.Errorf("%w: no link of %d is left for %v", ErrEmptySubset, len(of), p), fix,
				args...)
		}
	}
	return s, nil
}
