package fit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// Drawing says which pairs of a graph are learned from and which are kept to judge by. It is stored with a
// model, so that whoever judges it draws the same again and never judges by what was learned. Its zero value
// cuts the nodes by age, 70, 10 and 20%, and draws four unlinked pairs per link among targets older than
// the source.
type Drawing struct {
	Split   Cut          `json:"split,omitempty"`   // how the nodes are cut; "" means ByOrder
	Shares  graph.Shares `json:"shares,omitzero"`   // of the parts; zero means graph.DefaultShares
	Dates   *[2]Day      `json:"dates,omitempty"`   // ByDate: where validation and test begin
	Later   bool         `json:"later,omitempty"`   // targets may be newer than the source, as in a graph without time
	PerLink int          `json:"perLink,omitempty"` // unlinked pairs per link; 0 means graph.DefaultPerLink
	// how they are chosen, as graph.ParseScheme reads it; "" means uniform
	Scheme string `json:"scheme,omitempty"`
	// what the log is; "" means Sampled, and refuses one that has only what was shown
	Log  LogKind `json:"log,omitempty"`
	Seed uint64  `json:"seed"`
}

// Cut is a way to cut the nodes of a graph into those to learn from, to choose by and to judge by.
type Cut string

// The cuts. Of all of them but Whole, a link belongs to the part of its source.
const (
	ByOrder Cut = "order" // oldest first, by share of the nodes
	ByDate  Cut = "date"  // at two dates
	// by share of the nodes, in an order drawn by the seed: for graphs without time; Later is
	// implied
	AtRandom Cut = "random"
	Whole    Cut = "whole" // everything is learned from, and nothing is left to judge by
)

// Cuts lists the ways to cut.
func Cuts() []Cut { return []Cut{ByOrder, ByDate, AtRandom, Whole} }

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

// LogKind is what a log of exposures knows of the pairs that are not in it.
type LogKind string

// The kinds. They matter: of a log that holds only what was shown, taken for a sample, everything was shown.
const (
	Sampled  LogKind = "sample"   // nothing: its pairs were drawn, shown or not
	Complete LogKind = "complete" // to a source that has any, nothing else was shown
	Ignored  LogKind = "ignored"  // it is not looked at
	// Offered is the log of a recommender that came later than the graph's links: its pairs were shown on purpose,
	// with probabilities that have nothing to do with π. Only training looks at it. What came of showing a pair that
	// was not linked teaches ŷ; the graph's own links and their absence stay as they are, and teach both halves.
	Offered LogKind = "offered"
)

// Log is pairs of which it is known whether the target was shown to the source, and whether the source then
// linked to it. A pair that occurs often was shown, and linked, if it was once.
type Log struct {
	Source, Target  []int32
	Exposed, Linked []bool
}

// Drawn is a graph made ready to learn from.
type Drawn struct {
	Split   *graph.Split // nil of Whole
	Problem Problem
	Test    Evidence // held-out pairs; without pairs of Whole
	Before  *graph.Order
	Logged  int // training pairs whose exposure is logged
	Links   int // training pairs that are linked
}

// Draw cuts a graph and samples its pairs. All links of a part are taken, and of its unlinked pairs a
// sample that knows what it stands for. Pairs of a sampled log (nil means that there is none) are all taken as
// well, each standing for itself: they were chosen whatever came of them. Of a complete log those that are linked are
// taken, and of the others the share that is taken of all unlinked pairs, so that whether a pair is there depends on
// what came of it and never on whether it was shown; PerLink is the way to more of them.
func (d Drawing) Draw(g *graph.Graph, log *Log) (*Drawn, error) {
	if log != nil && (len(log.Target) != len(log.Source) || len(log.Exposed) != len(log.Source) ||
		len(log.Linked) != len(log.Source)) {
		return nil, fmt.Errorf("%w: the log has %d sources, %d targets, %d exposures and %d links", ErrShape,
			len(log.Source), len(log.Target), len(log.Exposed), len(log.Linked))
	}
	if err := d.checkLog(log); err != nil {
		return nil, err
	}
	if d.Log == Ignored {
		log = nil
	}
	out := &Drawn{}
	var err error
	if out.Split, out.Before, err = d.cut(g); err != nil {
		return nil, err
	}
	parts := []graph.Part{graph.Train, graph.Validation, graph.Test}
	if out.Split == nil {
		parts = parts[:1]
	}
	drawn := [3]Evidence{}
	for _, part := range parts {
		if part == graph.Validation && out.Split.Report.Links[part] == 0 {
			continue // a tenth of the training sources then serve
		}
		if drawn[part], err = d.part(g, out, part, log); err != nil {
			return nil, fmt.Errorf("%w: %v pairs: %w", ErrData, part, err)
		}
	}
	train := drawn[graph.Train]
	out.Problem = Problem{Nodes: model.NodesOf(g), Train: train.Pairs, Validation: drawn[graph.Validation].Pairs,
		Exposure: train.Exposure, Echo: g.Echo()}
	out.Test = drawn[graph.Test]
	var targets []int32
	for k, linked := range train.Pairs.Linked {
		if linked {
			targets = append(targets, train.Pairs.Target[k])
		}
	}
	out.Links = len(targets)
	for _, e := range train.Exposure {
		if e != risk.Unlogged {
			out.Logged++
		}
	}
	out.Problem.Nodes.Popularity = model.LogInDegree(g.Len(), targets)
	out.Problem.Nodes.Age = model.Ages(g)
	return out, nil
}

// checkLog refuses a log that would be misread.
func (d Drawing) checkLog(log *Log) error {
	switch d.Log {
	case "", Sampled, Complete, Offered, Ignored:
	default:
		return fmt.Errorf("%w: no kind of log %q; it is %s, %s, %s or %s", ErrSetting, d.Log, Sampled, Complete,
			Offered, Ignored)
	}
	if d.Log == Complete && d.Scheme != "" && d.Scheme != graph.Uniform.String() {
		return fmt.Errorf("%w: a complete log needs a uniform draw of the unlinked pairs, not %s", ErrSetting, d.Scheme)
	}
	if log == nil || len(log.Source) == 0 || d.Log == Complete || d.Log == Offered || d.Log == Ignored {
		return nil
	}
	for k, exposed := range log.Exposed {
		if !exposed && !log.Linked[k] {
			return nil
		}
	}
	return fmt.Errorf("%w: the log holds only pairs that were shown, and so cannot say how many are not; if "+
		"nothing else was shown to their sources, say that it is complete, otherwise leave it out", ErrSetting)
}

// cut splits the nodes, and returns the order that targets must keep to, nil if none.
func (d Drawing) cut(g *graph.Graph) (split *graph.Split, before *graph.Order, err error) {
	order := g.Order()
	switch d.Split {
	case "", ByOrder:
		split, err = order.SplitByShare(d.Shares)
	case ByDate:
		if d.Dates == nil {
			return nil, nil, fmt.Errorf("%w: a split by date needs two dates", ErrSetting)
		}
		split, err = order.SplitByDate(d.Dates[0].Time, d.Dates[1].Time)
	case AtRandom:
		split, err = g.ShuffledOrder(rand.NewPCG(d.Seed, 0x5eed)).SplitByShare(d.Shares)
	case Whole:
	default:
		var names []string
		for _, cut := range Cuts() {
			names = append(names, string(cut))
		}
		err = fmt.Errorf("there is no split %q; there is %s", d.Split, strings.Join(names, ", "))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSetting, err)
	}
	if !d.Later && d.Split != AtRandom {
		before = order
	}
	return split, before, nil
}

// part samples the pairs of a part and adds the log's.
func (d Drawing) part(g *graph.Graph, out *Drawn, part graph.Part, log *Log) (Evidence, error) {
	sampling := graph.Sampling{PerLink: d.PerLink, Src: rand.NewPCG(d.Seed, uint64(part)+1)}
	if d.Scheme != "" {
		var err error
		if sampling.Scheme, err = graph.ParseScheme(d.Scheme); err != nil {
			return Evidence{}, err
		}
	}
	u := graph.Universe{Before: out.Before}
	if out.Split != nil {
		u = out.Split.Universe(part)
		u.Before = out.Before
	}
	pairs, _, err := graph.Sample(g, u, sampling)
	if err != nil || log == nil {
		return Evidence{Pairs: pairs}, err
	}
	within := func(i, j int32) bool {
		switch {
		case i == j, out.Before != nil && !out.Before.Precedes(j, i):
			return false
		case out.Split != nil:
			return out.Split.Part(i) == part && out.Split.Part(j) <= part
		}
		return true
	}
	if d.Log == Offered {
		if part != graph.Train {
			return Evidence{Pairs: pairs}, nil
		}
		return log.offer(g, pairs, within), nil
	}
	return log.join(pairs, within, d.Log == Complete), nil
}

// entry is a pair of a log.
type entry struct {
	graph.Link
	exposed, linked bool
}

// within returns the log's pairs that belong to a part, each once, by source and then by target.
func (l *Log) within(belongs func(i, j int32) bool) []entry {
	var all []entry
	for k, i := range l.Source {
		if belongs(i, l.Target[k]) {
			all = append(all, entry{graph.Link{Source: i, Target: l.Target[k]}, l.Exposed[k] || l.Linked[k],
				l.Linked[k]})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return byPair(a.Link, b.Link) })
	once := all[:0]
	for _, e := range all {
		if n := len(once); n > 0 && once[n-1].Link == e.Link {
			once[n-1].exposed, once[n-1].linked = once[n-1].exposed || e.exposed, once[n-1].linked || e.linked
			continue
		}
		once = append(once, e)
	}
	return once
}

func byPair(a, b graph.Link) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Target, b.Target))
}

// join adds the pairs of the log to a sample, which is by source and then by target.
//
// A pair of a sampled log is there whether it is linked or not: it stands for itself alone, with
// weight and rate 1; the others keep theirs, since they were drawn from among all. A complete log
// tells of every pair of its sources whether it was shown; which of them are in the sample stays as
// it was, but for links that only the log knows.
func (l *Log) join(p *graph.Pairs, belongs func(i, j int32) bool, complete bool) Evidence {
	logged := l.within(belongs)
	if len(logged) == 0 && !complete {
		return Evidence{Pairs: p}
	}
	known := map[int32]bool{}
	rate := 1.
	if complete {
		for _, i := range l.Source {
			known[i] = true
		}
		for k, linked := range p.Linked {
			if !linked {
				rate = p.Rate[k] // the same for all: the draw is uniform
			}
		}
	}
	both, exposure := &graph.Pairs{Universe: p.Universe}, []risk.Exposure{}
	add := func(at graph.Link, linked bool, weight, rate float64, e risk.Exposure) {
		both.Source, both.Target = append(both.Source, at.Source), append(both.Target, at.Target)
		both.Linked, both.Weight, both.Rate = append(both.Linked, linked), append(both.Weight, weight),
			append(both.Rate, rate)
		exposure = append(exposure, e)
	}
	own := func(e entry) { // a row of the log that the sample does not have
		switch {
		case !complete:
			add(e.Link, e.linked, 1, 1, logEntry(e.exposed))
		case e.linked:
			add(e.Link, true, 1, rate, risk.Exposed)
		}
	}
	for k := range p.Len() {
		at := graph.Link{Source: p.Source[k], Target: p.Target[k]}
		for len(logged) > 0 && byPair(logged[0].Link, at) < 0 {
			own(logged[0])
			logged = logged[1:]
		}
		seen := risk.Unlogged
		linked, weight := p.Linked[k], p.Weight[k]
		if len(logged) > 0 && logged[0].Link == at {
			if !complete {
				continue // the log's own row follows
			}
			if seen = logEntry(logged[0].exposed || linked); logged[0].linked && !linked {
				linked, weight = true, 1
			}
			logged = logged[1:]
		} else if known[at.Source] {
			seen = logEntry(linked) // what is linked was seen somewhere
		}
		add(at, linked, weight, p.Rate[k], seen)
	}
	for _, e := range logged {
		own(e)
	}
	return Evidence{both, exposure}
}

// offeredWeight is that of an offered pair: as good as none, since it stands for no pair of the universe.
const offeredWeight = 1e-9

// offer adds what came of showing pairs that were not linked. One that the sample has too is there twice, as it was
// seen twice.
func (l *Log) offer(g *graph.Graph, p *graph.Pairs, belongs func(i, j int32) bool) Evidence {
	logged := slices.DeleteFunc(l.within(belongs), func(e entry) bool {
		return !e.exposed ||
			g.HasLink(e.Source, e.Target)
	})
	if len(logged) == 0 {
		return Evidence{Pairs: p}
	}
	both, exposure := &graph.Pairs{Universe: p.Universe}, []risk.Exposure{}
	add := func(at graph.Link, linked bool, weight, rate float64, e risk.Exposure) {
		both.Source, both.Target = append(both.Source, at.Source), append(both.Target, at.Target)
		both.Linked, both.Weight, both.Rate = append(both.Linked, linked), append(both.Weight, weight),
			append(both.Rate, rate)
		exposure = append(exposure, e)
	}
	offer := func() {
		add(logged[0].Link, logged[0].linked, offeredWeight, 1, risk.Offered)
		logged = logged[1:]
	}
	for k := range p.Len() {
		at := graph.Link{Source: p.Source[k], Target: p.Target[k]}
		for len(logged) > 0 && byPair(logged[0].Link, at) < 0 {
			offer()
		}
		add(at, p.Linked[k], p.Weight[k], p.Rate[k], risk.Unlogged)
	}
	for len(logged) > 0 {
		offer()
	}
	return Evidence{both, exposure}
}

func logEntry(exposed bool) risk.Exposure {
	if exposed {
		return risk.Exposed
	}
	return risk.Unexposed
}

// DrawingFor returns the drawing that suits a graph, and why: by age where that is known or where links tell
// it, and at random where they go round in circles, as those of friends do.
func DrawingFor(g *graph.Graph) (Drawing, string) {
	for i := range int32(g.Len()) {
		if _, known := g.Time(i); known {
			return Drawing{Split: ByOrder}, "by age, the newest are held out"
		}
	}
	// a link and its reverse are one circle, so an undirected graph has half of its links against any order
	if broken := len(g.Order().Broken); broken*4 > g.LinkCount() {
		return Drawing{Split: AtRandom, Later: true},
			fmt.Sprintf("at random, since no node has a time and %.0f%% of the links lie on circles",
				100*float64(broken)/float64(g.LinkCount()))
	}
	return Drawing{Split: ByOrder}, "by the order that the links tell, since no node has a time"
}
