package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// ListFindings is what the assumptions that explain the links make of lists, over the same few sources always.
type ListFindings struct {
	Members int     `json:"members"` // assumptions that explain the links as well: lists are ordered by their mean
	Sources int     `json:"sources"` // whose lists were compared
	K       int     `json:"k"`       // how long these are
	Agreed  float64 `json:"agreed"`  // of a list's first K, how many every member has among its own first K; mean
	// Naive is how many of them a naive recommender has among its own first K. It is absent where none was found.
	Naive *float64 `json:"naive,omitempty"`
}

// listLength is how long the lists are that are compared.
const listLength = 10

// asNaive is the overlap with a naive recommender's lists from which they are called the same: 9 of 10.
const asNaive = .9 * listLength

// AsNaive says that lists are ordered as a naive recommender would order them, and what changes; "" where they are not.
func (l *ListFindings) AsNaive() string {
	if l == nil || l.Naive == nil || *l.Naive < asNaive {
		return ""
	}
	return fmt.Sprintf("For this data, lists are ordered as a naive recommender would order them (%.1f of the first "+
		"%d are the same): what changes is how probable links are said to be.", *l.Naive, l.K)
}

// sayLists says how far the order of lists can be trusted.
func (f *Findings) sayLists() {
	l := f.Lists
	if l == nil || f.collapsed() {
		return
	}
	if l.Members > 1 {
		f.say("Lists are ordered by a mean of the %d assumptions that explain the links: all of them have %.1f of "+
			"the first %d in their own first %d, on average.", l.Members, l.Agreed, l.K, l.K)
	}
	if same := l.AsNaive(); same != "" {
		f.say("%s", same)
	} else if l.Naive != nil {
		f.say("A naive recommender has %.1f of the first %d of a list in its own first %d, on average.", *l.Naive, l.K,
			l.K)
	}
}

// spreadOf returns the mean and the standard deviation, over the compared pairs, of what an alternative orders by.
func (c *comparison) spreadOf(ctx context.Context, theta []float64, slope float64) (centre, spread float64, err error) {
	z, err := c.portion.design.Logits(ctx, theta[:c.base.size()])
	if err != nil {
		return 0, 0, err
	}
	centre, spread = c.moments(func(k int) float64 { return float64(z[k]) + slope*float64(c.popularity[k]) })
	return centre, spread, nil
}

// moments returns the weighted mean of something over the compared pairs, and its standard deviation; 1 where that is
// 0, so that it can be divided by.
func (c *comparison) moments(of func(k int) float64) (mean, deviation float64) {
	var weight, square float64
	for k, w := range c.chosen.Pairs.Weight {
		weight += w
		mean += w * of(k)
	}
	mean /= weight
	for k, w := range c.chosen.Pairs.Weight {
		square += w / weight * (of(k) - mean) * (of(k) - mean)
	}
	if deviation = math.Sqrt(square); !(deviation > 0) {
		deviation = 1
	}
	return mean, deviation
}

// relevanceSlope is that of popularity, where it bears on relevance.
func (f *alternativeFit) relevanceSlope() float64 {
	if f.Popularity != PopularRelevant || f.failed {
		return 0
	}
	at := 0
	for _, has := range []bool{f.Text, f.Alternative.Within} {
		if has {
			at++
		}
	}
	return f.terms[at]
}

// rank finds what every alternative that stays would order lists by, and compares their lists with one another and with
// those of a naive recommender. It is the last step of the comparison, when it is known what is published.
//
// Alternatives are fitted to a part of the pairs, what is published to all. So a member is the published model and
// what its assumption changes: with u = (z − mean)/spread over the compared pairs,
//
//	z_member = z_published + spread_published·(u_member − u_like),
//
// where u_like is of the alternative that assumes what is published. What the part's links have by chance is in both
// and goes; where the part is everything, it is u_member in units of z.
func (c *comparison) rank(ctx context.Context, published *Result) error {
	like := published.alternatives[published.like()]
	if like.failed {
		return nil
	}
	pairs, e := c.chosen.Pairs, published.Settings.engine()
	own, _, err := engine.Logits(ctx, e, engine.Predictor{Link: published.Link, LinkParams: published.LinkParams},
		pairs)
	if err != nil {
		return err
	}
	_, unit := c.moments(func(k int) float64 { return float64(own[k]) })
	member := func(name string, f *alternativeFit) model.MemberModel {
		out := model.MemberModel{Name: name, LinkParams: slices.Clone(published.LinkParams),
			Popularity: unit * (f.relevanceSlope()/f.spread - like.relevanceSlope()/like.spread)}
		of, from := c.base.weights(f.mode), c.base.weights(like.mode)
		for i := range out.LinkParams {
			out.LinkParams[i] += float32(unit * (float64(of[i])/f.spread - float64(from[i])/like.spread))
		}
		out.LinkParams[c.base.d] -= float32(unit * (f.centre/f.spread - like.centre/like.spread))
		return out
	}
	reference, weights := published.alternatives[published.reference()], published.listWeights()
	for k, f := range published.alternatives {
		if _, _, stays := f.against(reference); stays && !f.failed {
			of := member(f.Alternative.String(), f)
			of.Weight = weights[k]
			published.members = append(published.members, of)
		}
	}
	naive := c.naive
	m := model.Model{Link: published.Link, LinkParams: published.LinkParams, Members: published.members}
	m.Popularity = published.popularity()
	rankers := append([]model.Ranker{m.Ranker()}, m.Rankers()...)
	if !naive.failed {
		rankers = append(rankers, model.Ranker{Link: published.Link, Params: member("naive", naive).LinkParams})
	}
	lists, err := listsBy(ctx, e, c.everything(), rankers)
	if err != nil || len(lists) == 0 {
		return err
	}
	found := &ListFindings{Members: max(len(published.members), 1), Sources: len(lists), K: listLength}
	var same float64
	for _, of := range lists {
		others := of[1:]
		if !naive.failed {
			last := len(others) - 1
			same += float64(shared(of[0], others[last:])) / float64(len(lists))
			others = others[:last]
		}
		found.Agreed += float64(shared(of[0], others)) / float64(len(lists))
	}
	if !naive.failed {
		found.Naive = &same
	}
	published.lists = found
	return nil
}

// listWeights returns the weight of every alternative in the mean that lists are ordered by; 0 of those that do not
// stay. It changes little when the links do: an alternative's share goes to 0 where its cross-fitted log-likelihood
// comes to the least with which it stays.
//
// What popularity bears on, nothing, exposure or relevance, counts alike, as far as some alternative with it stays, for
// links cannot tell: how many responses were tried with each says nothing of which is true. Those with other responses
// than the logistic were tried only with the roles of popularity that explain the links as well as the best of them,
// and count less the nearer that role is to being left out.
func (r *Result) listWeights() []float64 {
	reference := r.alternatives[r.reference()]
	weights := make([]float64, len(r.alternatives))
	sum, most := map[PopularityRole]float64{}, map[PopularityRole]float64{}
	for k, f := range r.alternatives {
		share := f.share(reference)
		most[f.Popularity] = math.Max(most[f.Popularity], share)
		weights[k] = share * r.roleShare(f.Alternative)
		sum[f.Popularity] += weights[k]
	}
	for k, f := range r.alternatives {
		if weights[k] > 0 {
			weights[k] *= most[f.Popularity] / sum[f.Popularity]
		}
	}
	return weights
}

// share is 1 for an alternative that explains the links as well as another, and 0 for one that explains them just not
// well enough to stay.
func (f *alternativeFit) share(other *alternativeFit) float64 {
	difference, se, stays := f.against(other)
	if !stays {
		return 0
	}
	return math.Min(1, 1+difference/leeway(se))
}

// roleShare is the share of the role that popularity has in an alternative, beside the best of the roles, where those
// decide whether it was tried at all.
func (r *Result) roleShare(a Alternative) float64 {
	if a.Response == engine.Logistic && !a.Dependence && !a.Within {
		return 1
	}
	var own, best *alternativeFit
	for _, f := range r.alternatives {
		if f.Alternative != (Alternative{Text: true, Popularity: f.Popularity}) {
			continue
		}
		if f.Popularity == a.Popularity {
			own = f
		}
		if best == nil || f.loss() < best.loss() {
			best = f
		}
	}
	return own.share(best)
}

// everything is the problem with all pairs, or with those in hand where the others are elsewhere.
func (c *comparison) everything() sample.Problem {
	if c.whole != nil {
		return c.whole.problem
	}
	return c.problem
}

// like returns the place of the alternative that assumes what is published, or that of the reference if none does.
func (r *Result) like() int {
	var a Alternative
	for _, t := range r.learnedTerms() {
		switch t {
		case model.Text:
			a.Text = true
		case model.Popularity:
			a.Popularity = PopularShown
		}
	}
	at := slices.IndexFunc(r.alternatives, func(f *alternativeFit) bool { return f.Alternative == a && !f.failed })
	if at < 0 {
		return r.reference()
	}
	return at
}

// popularity returns that of every node, for members that need it.
func (r *Result) popularity() []float32 {
	if !slices.ContainsFunc(r.members, func(m model.MemberModel) bool { return m.Popularity != 0 }) {
		return nil
	}
	if known := r.problem.Nodes.Popularity; known != nil {
		return known
	}
	return model.LogInDegree(r.problem.Nodes.Len(), linkTargets(r.problem))
}

// fitNaive fits to the compared pairs what takes every missing link for irrelevant: everything was shown.
func (c *comparison) fitNaive(ctx context.Context) (*alternativeFit, error) {
	const certainly = 40 // logit of π
	l := c.base
	defer l.close()
	l.outcomes.Exposure, l.fixed, l.prior.Terms = nil, true, nil
	theta := slices.Clone(c.theta)
	for i := range l.cells {
		theta[l.d+1+i] = certainly
	}
	_, err := c.learn(ctx, &l, theta)
	switch {
	case errors.Is(err, ErrDiverged):
		return &alternativeFit{failed: true}, nil
	case err != nil:
		return nil, err
	}
	f := &alternativeFit{mode: theta}
	f.centre, f.spread, err = c.spreadOf(ctx, theta, 0)
	return f, err
}

// How many lists are compared, and among how many targets at most, evenly spaced.
const (
	listSources    = 64
	listCandidates = 1 << 14
)

// listsBy returns the lists of a few sources, evenly spaced among those with pairs, by each ranker: the best targets
// that a source does not link to in the training pairs.
func listsBy(ctx context.Context, e engine.Engine, p sample.Problem, rankers []model.Ranker) ([][][]int32, error) {
	var popularity []float32
	for _, r := range rankers {
		if r.Slope != 0 {
			popularity = r.Popularity
		}
	}
	rows, err := rankers[0].Link.(model.InnerProduct).Rows(rankers[0].Params) // which all of them share
	if err != nil {
		return nil, err
	}
	among, search, err := listTargets(p.Nodes, rows, popularity, listCandidates)
	if err != nil {
		return nil, err
	}
	if search.Targets != rows {
		defer search.Targets.Close()
	}
	search.K, search.Scores = listLength, make([]float32, len(rankers)*len(among))
	sources := listedSources(p.Nodes.Len(), p.Train)
	out := make([][][]int32, len(sources))
	for k, s := range sources {
		search.Queries = search.Queries[:0]
		var skip []int32
		for _, j := range s.skip {
			if at, found := slices.BinarySearch(among, j); found {
				skip = append(skip, int32(at))
			}
		}
		for _, r := range rankers {
			q := engine.SearchQuery{Vector: make([]float32, rows.Dim()),
				Offsets: make([]float32, p.Nodes.FieldCount), Slope: r.Slope, Skip: skip}
			r.Link.(model.InnerProduct).Query(q.Vector, q.Offsets, r.Params, s.node)
			search.Queries = append(search.Queries, q)
		}
		lists, err := e.TopK(ctx, search)
		if err != nil {
			return nil, err
		}
		for _, hits := range lists {
			list := make([]int32, len(hits))
			for i, hit := range hits {
				list[i] = hit.Target
			}
			out[k] = append(out[k], list)
		}
	}
	return out, nil
}

// listTargets returns the targets that lists are made of, ascending and so many at most, and a search among them.
func listTargets(n model.Nodes, rows *graph.Vectors, popularity []float32, most int) ([]int32, engine.TargetSearch,
	error) {
	among := spaced(n.Len(), min(n.Len(), most))
	if n.Targets != nil { // people are in no list
		among = sample.Column(n.Targets, spaced(len(n.Targets), min(len(n.Targets), most)))
	}
	search := engine.TargetSearch{Targets: rows, Fields: n.Fields, Values: popularity, Blocks: true}
	if len(among) == n.Len() {
		return among, search, nil
	}
	var err error
	if search.Targets, err = graph.NewVectors(len(among), rows.Dim()); err != nil {
		return nil, search, err
	}
	row := make([]float32, rows.Dim())
	for at, j := range among {
		rows.Load(row, j)
		if err := search.Targets.Set(int32(at), row); err != nil {
			return nil, search, err
		}
	}
	if search.Fields = sample.Column(n.Fields, among); popularity != nil {
		search.Values = sample.Column(popularity, among)
	}
	return among, search, nil
}

// listedSource is a source and the targets that its list must not have, ascending.
type listedSource struct {
	node int32
	skip []int32
}

// listedSources returns the sources whose lists are compared.
func listedSources(n int, pairs *graph.Pairs) []listedSource {
	occurs := make([]bool, n)
	for _, i := range pairs.Source {
		occurs[i] = true
	}
	all := sample.Indices(n, func(i int) bool { return occurs[i] })
	out := make([]listedSource, min(listSources, len(all)))
	place := map[int32]int{}
	for k, at := range spaced(len(all), len(out)) {
		out[k] = listedSource{all[at], []int32{all[at]}}
		place[all[at]] = k
	}
	for k, linked := range pairs.Linked {
		if at, chosen := place[pairs.Source[k]]; linked && chosen {
			out[at].skip = append(out[at].skip, pairs.Target[k])
		}
	}
	for k := range out {
		slices.Sort(out[k].skip)
		out[k].skip = slices.Compact(out[k].skip)
	}
	return out
}

// shared returns how many of a list all others have as well; all of them if there is no other.
func shared(list []int32, others [][]int32) (count int) {
	for _, j := range list {
		if !slices.ContainsFunc(others, func(other []int32) bool { return !slices.Contains(other, j) }) {
			count++
		}
	}
	return count
}
