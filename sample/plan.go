package sample

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"unseen/graph"
	"unseen/hint"
)

// Plan says which pairs of a graph are learned from and which are held out. A model keeps its plan, so that an
// evaluation samples the same pairs again and never judges by pairs that were learned from. The zero Plan splits the
// nodes by age into 70, 10 and 20% and samples four unlinked pairs per link, with targets older than the source.
type Plan struct {
	Split  SplitKind    `json:"split,omitempty"` // how the nodes are split; "" means ByOrder
	Shares graph.Shares `json:"shares,omitzero"` // of the subsets; zero means graph.DefaultShares
	Dates  *[2]Day      `json:"dates,omitempty"` // ByDate, LinksByDate: where validation and test begin
	Later  bool         `json:"later,omitempty"` // targets may be newer than the source, as in a graph without time
	// Available leaves out of the training pairs those whose target was not there when the source was last active,
	// by the training links and with an hour's slack: it cannot have been shown. Of people and items alone. What is
	// judged by and what is recommended is not limited by it.
	Available bool `json:"available,omitempty"`
	PerLink   int  `json:"perLink,omitempty"` // unlinked pairs per link; 0 means graph.DefaultPerLink
	// Scheme is how unlinked pairs are chosen, as graph.ParseNegativeScheme reads it; "" means uniform.
	Scheme string `json:"scheme,omitempty"`
	// Log is the kind of the exposure log; "" means Sampled, and refuses a log that has only what was shown.
	Log LogKind `json:"log,omitempty"`
	// EveryShown takes all pairs that a complete log has as shown, not the share that is taken of other unlinked pairs:
	// of few that were shown most would be lost. Whether a pair is taken then depends on whether it was shown, so that
	// the likelihood weighs pairs by their inclusion weights.
	EveryShown bool `json:"everyShown,omitempty"`

	Seed uint64 `json:"seed"`
}

// SplitKind is a way to split the nodes of a graph, or its links, into training, validation and test.
type SplitKind string

// The kinds of splits of nodes. Except with Whole, a link belongs to the subset of its source. Where people are sources
// and items targets, the people are split.
const (
	ByOrder SplitKind = "order" // oldest first, by share of the nodes
	ByDate  SplitKind = "date"  // at two dates
	// AtRandom splits by share of the nodes, in an order drawn by the seed: for graphs without an order in time. Later
	// is implied.
	AtRandom SplitKind = "random"
	Whole    SplitKind = "whole" // everything is learned from, and nothing is held out
)

// The kinds of splits of links: every source is learned about, by some of its links. What is held out is learned from
// as if it had never happened: as pairs without a link that were not shown. Later is implied. Logged pairs that are no
// links are divided at random, by the same shares.
const (
	LastLinks   SplitKind = "last-links"   // the last links of every source, by share
	LinksByDate SplitKind = "link-date"    // links at two dates
	RandomLinks SplitKind = "random-links" // by share of the links, drawn by the seed
)

// OfLinks reports whether links are split, and not nodes.
func (k SplitKind) OfLinks() bool { return k == LastLinks || k == LinksByDate || k == RandomLinks }

// Day is a date, which JSON writes as 2021-01-31.
type Day struct{ time.Time }

// MarshalJSON writes the date.
func (d Day) MarshalJSON() ([]byte, error) { return json.Marshal(d.UTC().Format(time.DateOnly)) }

// UnmarshalJSON reads it.
func (d *Day) UnmarshalJSON(text []byte) (err error) {
	var s string
	if err = json.Unmarshal(text, &s); err == nil {
		d.Time, err = time.Parse(time.DateOnly, s)
	}
	return err
}

// PlanFor returns the plan that suits a graph, and why it does. By age where the nodes have times and links follow
// them; by the order of the links where no node has a time, or all have the same. Where more than a fifth of the links
// run against time, or more than a quarter lie on circles, as those of friends do, no order fits the links and the
// split is at random. Where people are sources and items targets, the links are split: by their times where these
// differ.
func PlanFor(g *graph.Graph) (plan Plan, why string) {
	if g.TwoSided() && g.LinkTimesDiffer() {
		plan, why = Plan{Split: LastLinks, Later: true}, "by time, the last links of every source are held out"
		if _, err := g.Availability(0); err == nil && g.HasTimes() {
			plan.Available = true
			why += ", and targets that are newer than the source's last link are not learned from"
		}
		return plan, why
	}
	if g.TwoSided() {
		why = "by links at random, since links have no times"
		if g.HasLinkTimes() {
			why = "by links at random, since no source has links of different times"
		}
		return Plan{Split: RandomLinks, Later: true}, why
	}
	order, links := g.Order(), g.LinkCount()
	circles := len(order.Broken) - order.AgainstTime
	random := Plan{Split: AtRandom, Later: true}
	share := func(n int) float64 { return 100 * float64(n) / float64(links) }
	switch {
	case order.AgainstTime*5 > links:
		return random, fmt.Sprintf("at random, since %.0f%% of the links run against time", share(order.AgainstTime))
	// a link and its reverse are one circle, so an undirected graph has half of its links against any order
	case circles*4 > links && g.HasTimes():
		return random, fmt.Sprintf("at random, since %.0f%% of the links lie on circles", share(circles))
	case circles*4 > links:
		return random, fmt.Sprintf("at random, since no node has a time and %.0f%% of the links lie on circles",
			share(circles))
	case g.TimesDiffer():
		return Plan{Split: ByOrder}, "by age, the newest are held out"
	}
	return Plan{Split: ByOrder}, byLinkOrder(g)
}

// byLinkOrder says why nodes are held out by the order of the links.
func byLinkOrder(g *graph.Graph) string {
	if g.HasTimes() {
		return "by the order of the links, since all nodes have the same time"
	}
	return "by the order of the links, since no node has a time"
}

// Describe says which nodes or links of a graph a plan holds out.
func (p Plan) Describe(g *graph.Graph) string {
	switch {
	case p.Split == LastLinks && !g.LinkTimesDiffer():
		return "some links of every source by the order of their targets, since no source has links of different times"
	case p.Split == LastLinks:
		return "by time, the last links of every source"
	case p.Split == RandomLinks:
		return "links at random"
	case p.Split == LinksByDate && p.Dates != nil:
		return fmt.Sprintf("links by date, from %s on", p.Dates[1].Format(time.DateOnly))
	case p.Split == Whole:
		return "nothing"
	case p.Split == ByDate && p.Dates != nil:
		return fmt.Sprintf("by date, from %s on", p.Dates[1].Format(time.DateOnly))
	case p.Split == AtRandom:
		return "at random"
	case g.TimesDiffer():
		return "by age, the newest nodes"
	}
	return byLinkOrder(g)
}

// HoldsOutSameNodes reports whether two plans hold out the same nodes or links of a graph; the pairs among those may
// differ.
func (p Plan) HoldsOutSameNodes(q Plan) bool {
	return cmp.Or(p.Split, ByOrder) == cmp.Or(q.Split, ByOrder) &&
		cmp.Or(p.Shares, graph.DefaultShares) == cmp.Or(q.Shares, graph.DefaultShares) &&
		(p.Dates == nil) == (q.Dates == nil) && (p.Dates == nil || *p.Dates == *q.Dates) &&
		(p.Split != AtRandom && p.Split != RandomLinks || p.Seed == q.Seed)
}

// split splits the nodes, and returns the order that targets must keep to, nil if none.
func (p Plan) split(g *graph.Graph) (split *graph.Split, before *graph.Order, err error) {
	if (p.Split == ByDate || p.Split == LinksByDate) && p.Dates == nil {
		return nil, nil, hint.Wrap(fmt.Errorf("%w: a split by date without dates", ErrSetting), "set %v and %v",
			hint.Setting("validationFrom"), hint.Setting("testFrom"))
	}
	order := g.Order()
	switch p.Split {
	case "", ByOrder:
		split, err = order.SplitByShare(p.Shares)
	case ByDate:
		split, err = order.SplitByDate(p.Dates[0].Time, p.Dates[1].Time)
	case LastLinks:
		split, err = g.SplitLastLinks(p.Shares)
	case LinksByDate:
		split, err = g.SplitLinksByDate(p.Dates[0].Time, p.Dates[1].Time)
	case RandomLinks:
		split, err = g.SplitLinksAtRandom(p.Shares, rand.NewPCG(p.Seed, 0x5eed))
	case AtRandom:
		split, err = g.ShuffledOrder(rand.NewPCG(p.Seed, 0x5eed)).SplitByShare(p.Shares)
	case Whole:
	default:
		err = hint.Wrap(fmt.Errorf("unknown split %q", p.Split), "set %v to %s, %s, %s, %s, %s, %s or %s",
			hint.Setting("split"), ByOrder, ByDate, AtRandom, LastLinks, LinksByDate, RandomLinks, Whole)
	}
	switch {
	case errors.Is(err, graph.ErrEmptySubset) && p.Shares == (graph.Shares{}) && p.Dates == nil:
		return nil, nil, hint.Wrap(fmt.Errorf("%w: %w", ErrPairs, err), "or set %v to whole to hold nothing out",
			hint.Setting("split"))
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrSetting, err)
	}
	if p.Ordered() {
		before = order
	}
	return split, before, nil
}

// Ordered reports whether every target must come before its source.
func (p Plan) Ordered() bool { return !p.Later && p.Split != AtRandom && !p.Split.OfLinks() }
