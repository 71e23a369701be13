package sample

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
	"unseen/model"
	"unseen/risk"
)

// Options say what Prepare makes of a graph.
type Options struct {
	Origin    Origin       // which fields and which pairs; the zero Origin is the default Plan
	Log       *ExposureLog // what is known of exposures; nil means nothing
	Offered   *ExposureLog // what a recommender showed later on, beside Log; read as a log of that kind
	HasFields bool         // the graph has the fields of the origin already, from Origin.WithFields
	Without   []bool       // by node: those whose links and pairs are left out; nil means none
	Threads   int          // 0 means all processors; results do not depend on it
}

// Prepared is a graph made ready to learn from.
type Prepared struct {
	Graph   *graph.Graph // with the fields of the origin
	Problem Problem
	Test    Evidence     // held-out pairs; empty for Whole
	Split   *graph.Split // nil for Whole
	Order   *graph.Order // every target precedes its source in it; nil where targets may be newer
	// Available is the order in which training targets precede their source, by Plan.Available; nil without.
	Available *graph.Order
	Links     LinkCounts
	Logged    int // training pairs whose exposure is logged
}

// LinkCounts says where the links went.
type LinkCounts struct {
	Train      int `json:"train"`      // learned from
	Validation int `json:"validation"` // set aside to choose settings by
	Test       int `json:"test"`       // set aside to judge by
	Unused     int `json:"unused"`     // of the graph: against the order, or from one subset into a later one
}

// Prepare finds the fields of a graph, splits its nodes and samples the pairs of each subset. It takes all
// links of a subset and a weighted sample of its unlinked pairs. It also takes all pairs of a sampled log, each with
// weight 1: they were chosen whatever their outcome. Of a complete log it takes the linked pairs, and the same share of
// the others as of all unlinked pairs: so whether a pair is taken depends on its outcome and never on whether it was
// shown. Plan.PerLink raises that share, and Plan.EveryShown takes all that were shown.
//
// A model that is fitted to the problem keeps the origin.
func Prepare(ctx context.Context, g *graph.Graph, o Options) (*Prepared, error) {
	plan, log := o.Origin.Plan, o.Log
	if err := plan.checkLog(log); err != nil {
		return nil, err
	}
	offered := o.Offered
	switch plan.Log {
	case Ignored:
		log = nil
	case Offered, Drawn:
		log, offered = nil, log
	}
	if !o.HasFields {
		var err error
		if g, err = o.Origin.WithFields(ctx, g, o.Threads); err != nil {
			return nil, err
		}
	}
	if o.Without != nil { // after the fields are found, which a model's file does not keep
		from := g
		g = g.WithLinks(func(i int32, place int) bool { return !o.Without[i] && !o.Without[from.Out(i)[place]] })
	}
	out := &Prepared{Graph: g}
	var err error
	if out.Split, out.Order, err = plan.split(g); err != nil {
		return nil, err
	}
	if plan.Available {
		if out.Available, err = out.available(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSetting, err)
		}
	}
	subsets := []graph.Subset{graph.Train, graph.Validation, graph.Test}
	if out.Split == nil {
		subsets = subsets[:1]
	}
	sampled := [3]Evidence{}
	out.Links.Unused = g.LinkCount()
	for _, subset := range subsets {
		if subset == graph.Validation && out.Split.Report.Links[subset] == 0 {
			continue // a tenth of the training sources is used instead
		}
		if sampled[subset], err = plan.sample(out, subset, log); err != nil {
			return nil, plan.unusable(out, subset, err)
		}
	}
	if offered != nil {
		g := out.LinkGraph(graph.Train)
		sampled[graph.Train] = joinOffered(g.HasLink, sampled[graph.Train],
			offered.entries(plan.belongs(out, g, graph.Train)))
	}
	for subset := range sampled {
		sampled[subset] = sampled[subset].without(o.Without)
	}
	out.fill(o.Origin, sampled)
	out.Problem.Graph, out.Problem.Universe = out.LinkGraph(graph.Train), out.universeWithout(o.Without)
	out.Problem.Rates = offered.rates()
	return out, nil
}

// unusable says in the words of the data why the pairs of a subset cannot be sampled.
func (p Plan) unusable(in *Prepared, subset graph.Subset, err error) error {
	purpose := [...]string{"to learn from", "to choose settings by", "to judge by"}[subset]
	switch links := in.Graph.LinkCount(); {
	case errors.Is(err, graph.ErrNoLinks) && links == 0:
		return hint.Wrap(fmt.Errorf("%w: there are no links", ErrPairs), "add links")
	case errors.Is(err, graph.ErrNoLinks):
		pairs, _, failed := in.Universe(subset).Count(in.LinkGraph(subset))
		if failed != nil {
			return fmt.Errorf("%w: %w", ErrPairs, failed)
		}
		why := fmt.Errorf("%w: of the %s pairs %s none is linked: %s", ErrPairs, amount.Text(pairs), purpose,
			amount.OneOrMore(links, "link is elsewhere", "links are elsewhere"))
		return hint.Wrap(why, "set %v to whole to hold nothing out, or to another way", hint.Setting("split"))
	case errors.Is(err, graph.ErrEmptyUniverse):
		return fmt.Errorf("%w: the pairs %s: %w", ErrPairs, purpose, err)
	}
	return fmt.Errorf("%w: the pairs %s: %w", ErrData, purpose, err)
}

// fill makes the problem of the samples.
func (p *Prepared) fill(origin Origin, sampled [3]Evidence) {
	train := sampled[graph.Train]
	p.Problem = Problem{Nodes: nodesOf(p.Graph, p.Split, p.Order), Train: train.Pairs,
		Validation: sampled[graph.Validation].Pairs,
		Exposure:   train.Exposure, Echo: p.Graph.Echo(), Origin: &origin,
		EveryShown: origin.Plan.EveryShown && train.Exposure != nil}
	p.Test = sampled[graph.Test]
	p.Links.Train = train.links()
	p.Links.Validation, p.Links.Test = sampled[graph.Validation].links(), sampled[graph.Test].links()
	for _, e := range train.Exposure {
		if e != risk.Unlogged {
			p.Logged++
		}
	}
}

// Nodes returns the nodes of a graph as the models of a problem see them: with the popularity that the links have which
// the plan trains on, and with ages. A model that looks at these is opened with them.
func (p Plan) Nodes(g *graph.Graph) (model.Nodes, error) {
	split, before, err := p.split(g)
	if err != nil {
		return model.Nodes{}, err
	}
	return nodesOf(g, split, before), nil
}

func nodesOf(g *graph.Graph, split *graph.Split, before *graph.Order) model.Nodes {
	n := model.NodesOf(g)
	var targets []int32
	trained := g
	if split != nil {
		trained = split.Graph(graph.Train)
	}
	for i, j := range trained.Links() {
		if split != nil && (split.Subset(i) != graph.Train || split.Subset(j) != graph.Train) ||
			before != nil && !before.Precedes(j, i) {
			continue
		}
		targets = append(targets, j)
	}
	n.Popularity, n.Age = model.LogInDegree(g.Len(), targets), model.Ages(g)
	if g.TwoSided() {
		trained = ofTraining(trained, split)
		available, err := trained.Availability(ActivitySlack)
		if err != nil { // there are no times
			available = nil
		}
		n.Activity = model.ActivitiesOf(trained, available)
	}
	return n
}

// ofTraining returns the graph of a subset's links with those of training sources alone, where nodes are split.
func ofTraining(trained *graph.Graph, split *graph.Split) *graph.Graph {
	if split == nil || split.Known(graph.Test) != nil { // links were split
		return trained
	}
	return trained.WithLinks(func(i int32, _ int) bool { return split.Subset(i) == graph.Train })
}

// Universe returns the pairs that the sample of a subset stands for.
func (p *Prepared) Universe(subset graph.Subset) (u graph.Universe) {
	if p.Split != nil {
		u = p.Split.Universe(subset)
	}
	if u.Before = p.Order; p.Available != nil && subset == graph.Train {
		u.Before = p.Available
	}
	return u
}

// universeWithout returns the pairs that training could learn from, but for those of some nodes.
func (p *Prepared) universeWithout(left []bool) graph.Universe {
	u := p.Universe(graph.Train)
	if left == nil {
		return u
	}
	kept := func(nodes, all []int32) []int32 {
		if nodes == nil {
			nodes = all
		}
		return slices.DeleteFunc(slices.Clone(nodes), func(i int32) bool { return left[i] })
	}
	u.Sources, u.Targets = kept(u.Sources, p.Graph.Sources()), kept(u.Targets, p.Graph.Targets())
	return u
}

// ActivitySlack is how long after their last link people are taken to have been there.
const ActivitySlack = time.Hour

// available orders targets by when they were there and sources by when they were last active, by training links alone.
func (p *Prepared) available() (*graph.Order, error) {
	return ofTraining(p.LinkGraph(graph.Train), p.Split).Availability(ActivitySlack)
}

// LinkGraph returns a graph of the same nodes in which the linked pairs of Universe(subset) are the
// links of the subset.
func (p *Prepared) LinkGraph(subset graph.Subset) *graph.Graph {
	if p.Split == nil {
		return p.Graph
	}
	return p.Split.Graph(subset)
}

// sample samples the pairs of a subset and adds the log's.
func (p Plan) sample(in *Prepared, subset graph.Subset, log *ExposureLog) (Evidence, error) {
	sampling := graph.SampleOptions{PerLink: p.PerLink, Src: rand.NewPCG(p.Seed, uint64(subset)+1)}
	if p.Scheme != "" {
		var err error
		if sampling.Scheme, err = graph.ParseNegativeScheme(p.Scheme); err != nil {
			return Evidence{}, err
		}
	}
	g := in.LinkGraph(subset)
	pairs, report, err := graph.Sample(g, in.Universe(subset), sampling)
	in.Links.Unused -= report.Links
	if err != nil || log == nil {
		return Evidence{Pairs: pairs}, err
	}
	part := LogPart{Log: log, Belongs: p.belongs(in, g, subset), Rate: 1}
	if before := in.Universe(subset).Before; before != nil {
		part.There = func(i, j int32) bool { return before.Precedes(j, i) }
	}
	for k, linked := range pairs.Linked {
		if !linked {
			part.Rate = pairs.Rate[k] // the same for all: the draw is uniform
		}
	}
	return p.Join(pairs, part), nil
}

// belongs says which pairs of a log are of a subset.
func (p Plan) belongs(in *Prepared, g *graph.Graph, subset graph.Subset) func(i, j int32) bool {
	return func(i, j int32) bool {
		switch {
		case i == j, !g.IsSource(i), !g.IsTarget(j), in.Order != nil && !in.Order.Precedes(j, i):
			return false
		case p.Split.OfLinks():
			return p.loggedIn(in, i, j) == subset
		case in.Split != nil:
			return in.Split.Subset(i) == subset && in.Split.Subset(j) <= subset
		}
		return true
	}
}

// loggedIn returns the subset of a pair of the log with a split of links: that of its link, or UnlinkedSubset.
func (p Plan) loggedIn(in *Prepared, i, j int32) graph.Subset {
	if in.Graph.HasLink(i, j) {
		for subset := graph.Train; subset < graph.Test; subset++ {
			if in.Split.Graph(subset).HasLink(i, j) {
				return subset
			}
		}
		return graph.Test
	}
	return p.UnlinkedSubset(i, j)
}

// UnlinkedSubset returns the subset of a pair of the log that is no link, with a split of links: it is drawn by the
// pair itself.
func (p Plan) UnlinkedSubset(i, j int32) graph.Subset {
	shares := p.Shares
	if shares == (graph.Shares{}) {
		shares = graph.DefaultShares
	}
	switch x := Uniform(p.Seed, uint64(uint32(i)), uint64(uint32(j))); {
	case x < shares.Test:
		return graph.Test
	case x < shares.Test+shares.Validation:
		return graph.Validation
	}
	return graph.Train
}
