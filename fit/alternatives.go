package fit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/sample"
)

// Alternative is a way in which the links may have come about. The zero Alternative is the model's own: relevance by a
// logistic response, exposure by fields alone, and the two independent given both.
type Alternative struct {
	Response engine.Response `json:"response"`
	// what is relevant by its vectors is shown more: s gets γ·z
	Text       bool           `json:"text,omitempty"`
	Within     bool           `json:"textByField,omitempty"` // that, more or less within one field
	Popularity PopularityRole `json:"popularity,omitempty"`  // what others link to
	// shown and relevant come together by more than π and ŷ say
	Dependence bool `json:"dependence,omitempty"`
}

// PopularityRole says what the in-degree of a target may bear on.
type PopularityRole string

// The places of popularity.
const (
	PopularShown    PopularityRole = "exposure"  // what many link to is shown more
	PopularRelevant PopularityRole = "relevance" // what many link to is relevant more often
)

// next returns the alternatives that follow those that were fitted; none where all were.
//
// First come those of the logistic response, of which the model is one; then those of other
// responses and of dependence, with the roles of popularity that the first leave room for. Text is
// one of a member's numbers, γ ≤ 1, so that other responses have it always. Where popularity shows
// nothing it is left out: without a slope it changes nothing; and so is a γ of its own within fields.
func (c *comparison) next() (out []Alternative) {
	roles := []PopularityRole{"", PopularShown, PopularRelevant}
	switch done := c.done; {
	case len(done) == 0:
		for _, p := range roles {
			out = append(out, Alternative{Popularity: p})
		}
		return append(out, Alternative{Text: true})
	case len(done) == 4 && (refutes(c.refuted, ByPopularity) || !slices.Contains(staying(done[:3]), "")):
		for _, p := range roles[1:] {
			out = append(out, Alternative{Text: true, Popularity: p})
		}
		return out
	case len(done) == 4:
		roles = roles[:1]
	case len(done) == 6:
		if roles = staying(done[3:]); slices.Contains(roles, "") {
			roles = roles[:1]
		}
	default:
		return nil
	}
	for r := engine.Probit; r <= engine.Cauchit; r++ {
		for _, p := range roles {
			out = append(out, Alternative{Response: r, Text: true, Popularity: p})
		}
	}
	for _, p := range roles {
		out = append(out, Alternative{Popularity: p, Dependence: true})
	}
	for _, p := range roles {
		if refutes(c.refuted, WithinFields) {
			out = append(out, Alternative{Text: true, Within: true, Popularity: p})
		}
	}
	return out
}

// staying returns the roles of popularity that explain the links as well as the best of them.
func staying(fits []*alternativeFit) (roles []PopularityRole) {
	best := slices.MinFunc(fits, func(a, b *alternativeFit) int { return cmp.Compare(a.loss(), b.loss()) })
	for _, f := range fits {
		if _, _, stays := f.against(best); stays {
			roles = append(roles, f.Popularity)
		}
	}
	return roles
}

// What is believed of the terms before the data: they are 0, and seldom beyond twice the deviation.
var (
	textPrior       = normal{deviation: .5}
	popularityPrior = normal{deviation: 2}
	dependencePrior = normal{deviation: .5}
)

// mostText is the largest γ: beyond it exposure and relevance swap their roles.
const mostText = 1

// alternativeFit is what one alternative makes of the links.
type alternativeFit struct {
	Alternative
	failed bool      // no mode was found: the links rule it out
	terms  []float64 // γ, what it has more within fields, the slopes of popularity and dependence, if it has them
	// measures are what it says of the numbers that are reported, with standard errors of their logarithms; that of the
	// risk is its own.
	measures [measured]measure
	folds    []float64 // −log likelihood of every fold, at parameters learned without it
	mode     []float64 // θ, and then the prior's α and τ, for others to begin at; nil if it failed
	leverage []float32 // there, of the compared pairs

	centre, spread float64 // mean and standard deviation, over the compared pairs, of what it orders by

	closer *alternativeFit // what it makes of more pairs, where these were needed; see lookCloser
}

// best is what it makes of the most pairs that it was fitted to.
func (f *alternativeFit) best() *alternativeFit {
	if f.closer != nil {
		return f.closer
	}
	return f
}

// exposure returns what exposure depends on besides the fields.
func (a Alternative) exposure() (terms []model.Term) {
	if a.Text {
		terms = append(terms, model.Text)
	}
	if a.Popularity == PopularShown {
		terms = append(terms, model.Popularity)
	}
	return terms
}

// loss is minus its cross-fitted log-likelihood.
func (f *alternativeFit) loss() (sum float64) {
	if f.failed {
		return math.Inf(1)
	}
	for _, x := range f.folds {
		sum += x
	}
	return sum
}

// against returns by how much its cross-fitted log-likelihood is above another's, the standard
// error of that with sources as what is independent, and whether it explains the links as well: by the most pairs that
// both were fitted to.
func (f *alternativeFit) against(other *alternativeFit) (difference, se float64, stays bool) {
	if f.closer != nil && other.closer != nil {
		f, other = f.closer, other.closer
	}
	if f.failed || other.failed {
		return 0, 0, f == other
	}
	differences := make([]float64, len(f.folds))
	for i, loss := range f.folds {
		differences[i] = other.folds[i] - loss
		difference += differences[i]
	}
	_, se = meanAndError(differences)
	se *= float64(len(differences))
	return difference, se, f == other || difference >= -leeway(se)
}

// leeway is by how much a cross-fitted log-likelihood may be below another, given the standard error of the difference.
func leeway(se float64) float64 { return math.Max(2, 1.96*se) }

// measure is a number and its standard error.
type measure struct{ value, err float64 }

// What alternatives are compared by.
const (
	ofLink     = iota // mean ŷ
	ofExposure        // mean π̂
	ofRatio           // of π̂ among pairs of one field to that of two; 0 where there are no such pairs
	ofRisk            // R_AP of the fit's own ŷ
	ofLeast           // that, if no unlinked pair were relevant
	// the share of pairs of one field that are linked to that of two: the ratio if all relevance
	// were alike
	ofLinks
	measured
)

// ofMissed is the place, among the means, of what R_AP gets from pairs without a link.
const ofMissed = 2

// usualAlternatives is how many there are where popularity shows nothing.
const usualAlternatives = 9

// compareFolds is into how many parts the sources are cut, each of which is judged by what the others say.
const compareFolds = 64

// How much alternatives are learned from: pairs at most, pairs·dimensions² at most, and of few pairs a part, if that is
// not fewer than so many. There are a dozen to learn, and what is not clear by these pairs is looked at closer.
const (
	comparedPairs    = 1 << 16
	comparedProducts = 1 << 34
	comparedPart     = 4
	fewestCompared   = 1 << 13
)

// comparison is the fits of all alternatives to the same pairs.
type comparison struct {
	*bayesian
	problem sample.Problem // of whose pairs those are chosen that are compared by
	cell    []int32        // of each of its pairs
	most    int            // how many of them are to be chosen, about
	portion                // the pairs that are compared by
	base    laplace        // the fit's own posterior over them

	// of the tests: how their terms hang together with θ, and the information that is theirs alone
	border     [][]float64
	decided    []float64
	popularity []float32
	folds      engine.PairGroups
	means      []engine.PairMean
	fixedRisk  float64 // the part of R_AP that no belief changes
	linkRatio  measure // of the shares of linked pairs among those of one field and of two

	refuted []Refutation
	offset  map[Suspicion]float64 // of a term's slope: what the method makes of links that obey the model
	family  []Alternative
	done    []*alternativeFit
	naive   *alternativeFit // what ignores exposure, to compare lists with; it is no alternative

	coarse *comparison // with fewer pairs, whose fits are where those of this one begin; nil for the first
	closer *comparison // with more pairs; nil where they were not needed
	// looked are the fits to more pairs that a checkpoint had, in their order
	looked []*alternativeFit
}

// newComparison chooses the pairs to compare by, and prepares the tests.
func newComparison(ctx context.Context, b *bayesian) (*comparison, error) {
	c := &comparison{bayesian: b, problem: b.problem, cell: b.cell}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	err := c.prepareMeans(ctx, b.result)
	if err == nil {
		err = c.prepareScores(ctx)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close frees the pairs that were chosen.
func (c *comparison) close() {
	c.portion.close()
	if c.closer != nil {
		c.closer.close()
	}
}

// compare tests the assumptions and fits every alternative that the tests leave room for.
func (c *comparison) compare(ctx context.Context, replicates [][]float64) error {
	b := c.bayesian
	refuted, err := c.refute(ctx, replicates)
	if err != nil {
		return err
	}
	c.refuted = refuted
	if err := b.recorder.begin(c); err != nil {
		return err
	}
	for {
		if len(c.done) == len(c.family) {
			c.family = append(c.family, c.next()...)
		}
		if len(c.done) == len(c.family) {
			break
		}
		c.report(0)
		found, err := c.fit(ctx, c.family[len(c.done)])
		if err != nil {
			return err
		}
		c.done = append(c.done, found)
		b.recorder.settle(c)
		if err := b.recorder.tick(); err != nil {
			return err
		}
	}
	if err := c.lookCloser(ctx); err != nil {
		return err
	}
	if c.naive == nil {
		naive, err := c.fitNaive(ctx)
		if err != nil {
			return err
		}
		c.naive = naive // only when it is done: checkpoints keep it
		b.recorder.settle(c)
		if err := b.recorder.tick(); err != nil {
			return err
		}
	}
	b.result.refuted, b.result.alternatives, b.result.compared = refuted, c.done, c.chosen.Pairs.Len()
	if c.closer != nil {
		b.result.compared = c.closer.chosen.Pairs.Len()
	}
	return nil
}

// portion is a part of the training pairs that says nearly as much as all, with what a laplace needs of it.
type portion struct {
	chosen   sample.Evidence
	places   []int32 // among the training pairs; nil means all of them
	design   engine.Design
	own      bool // the design is no other's
	outcomes engine.Outcomes
}

func (p *portion) close() {
	if p.own && p.design != nil {
		p.design.Close()
	}
}

// prepare chooses the pairs to compare by.
func (c *comparison) prepare(ctx context.Context) error {
	d := c.laplace.d + 1
	part := max((c.available()+comparedPart-1)/comparedPart, fewestCompared)
	c.most = min(cmp.Or(c.result.Settings.compared, min(part, comparedPairs)), comparedProducts/(d*d))
	if err := c.take(ctx); err != nil {
		return err
	}
	c.popularity = crossPopularity(c.problem, c.problem.Train.Linked, c.chosen.Pairs)
	return nil
}

// available is how many pairs there are to choose from: where those in hand are a part, all.
func (c *comparison) available() int {
	if c.whole == nil {
		return c.problem.Train.Len()
	}
	return int(min(c.whole.count(), math.MaxInt32))
}

// take chooses the pairs to compare by among those in hand.
func (c *comparison) take(ctx context.Context) (err error) {
	if c.portion, err = c.part(ctx, c.laplace, c.theta); err != nil {
		return err
	}
	if c.places != nil {
		z, err := c.laplace.design.Logits(ctx, c.theta)
		if err != nil {
			return err
		}
		c.balance(&c.portion, z)
	}
	c.useChosen()
	return nil
}

// useChosen prepares for the pairs that were chosen what all fits to them share.
func (c *comparison) useChosen() {
	c.base = *c.laplace
	c.base.seen, c.base.own, c.base.last = nil, false, nil
	c.base.design, c.base.outcomes = c.portion.design, c.portion.outcomes
	pairs := c.chosen.Pairs
	c.folds = engine.PairGroups{Of: make([]uint8, pairs.Len()), Count: compareFolds}
	for k, source := range pairs.Source {
		c.folds.Of[k] = uint8(compareFolds * sample.Uniform(0xf01d, 0, uint64(c.problem.Nodes.Number(source))))
	}
}

// part returns the portion of the pairs for a fit of what was seen of them, or was drawn.
func (c *comparison) part(ctx context.Context, f *laplace, theta []float64) (portion, error) {
	out := portion{chosen: c.problem.Training(), design: f.design, outcomes: f.outcomes}
	if c.problem.Train.Len() <= c.most {
		return out, nil
	}
	if err := c.choose(ctx, &out, f, theta); err != nil {
		return out, err
	}
	var err error
	out.design, err = c.bayesian.design(ctx, engine.DesignPairs{Pairs: out.chosen.Pairs,
		Cell: sample.Column(c.cell, out.places), Cells: f.cells})
	out.own = err == nil
	return out, err
}

// choose chooses about so many of the pairs: those whose exposure is logged up to half, and of the others the rather
// those whose outcome surprises the fit, because they say most; with weights and rates that make up for it. Where the
// likelihood knows no rates, all others have the same chance.
func (c *comparison) choose(ctx context.Context, to *portion, f *laplace, theta []float64) error {
	p, s, seen := c.problem, c.result.Settings, f.outcomes
	var by chances
	if !s.evenly() {
		z, err := f.design.Logits(ctx, theta)
		if err != nil {
			return err
		}
		by.linked = likely(p.Train.Rate, seen, func(k int) float64 { return theta[f.d+1+int(c.cell[k])] }, z)
	}
	p.Train = withLinks(p.Train, seen.Linked)
	by.settle(p, [3]float64{1, 1, 1}, c.most)
	to.places = by.places(p, s.Seed)
	to.chosen = p.Training().At(to.places)
	by.at(to.places).makeUp(to.chosen)
	to.outcomes = engine.Outcomes{Linked: to.chosen.Pairs.Linked,
		Leverage: sample.Column(seen.Leverage, to.places)}
	if seen.Exposure != nil {
		to.outcomes.Exposure = sample.Column(seen.Exposure, to.places)
	}
	return nil
}

// balance makes the weights of a portion add up to those of all pairs, among pairs of one field and of two, in every
// band of z: so means over the portion differ from those over all pairs by little.
func (c *comparison) balance(to *portion, z []float32) {
	const bands = 64
	order := slices.Sorted(slices.Values(z))
	var below [bands - 1]float32 // the largest z of every band but the last
	for i := range below {
		below[i] = order[(len(order)*(i+1)-1)/bands]
	}
	stratum := func(k int) int {
		at, _ := slices.BinarySearch(below[:], z[k])
		if pairs := c.problem.Train; c.problem.Nodes.SameField(pairs.Source[k], pairs.Target[k]) {
			at += bands
		}
		return at
	}
	var all, part [2 * bands]float64
	for k, w := range c.problem.Train.Weight {
		all[stratum(k)] += w
	}
	weights := to.chosen.Pairs.Weight
	for i, k := range to.places {
		part[stratum(int(k))] += weights[i]
	}
	for i, k := range to.places {
		if at := stratum(int(k)); part[at] > 0 {
			weights[i] *= all[at] / part[at]
		}
	}
}

// prepareMeans says what the measures are sums of; the risk is that of a result's ŷ.
func (c *comparison) prepareMeans(ctx context.Context, r *Result) error {
	pairs := c.chosen.Pairs
	link, err := c.linkOf(r)
	if err != nil {
		return err
	}
	logits, _, err := engine.Logits(ctx, r.Settings.engine(), engine.Predictor{Link: link, LinkParams: r.LinkParams},
		pairs)
	if err != nil {
		return err
	}
	n := pairs.Len()
	var all, same float64
	for k, w := range pairs.Weight {
		all += w
		if c.same(k) {
			same += w
		}
	}
	column := func() []float32 { return make([]float32, n) }
	relevant, exposure, one, two, missed := column(), column(), column(), column(), column()
	c.fixedRisk = 0
	for k, w := range pairs.Weight {
		relevant[k], exposure[k] = float32(w/all), float32(w/all)
		if c.same(k) {
			one[k] = float32(w / same)
		} else {
			two[k] = float32(w / (all - same))
		}
		z := float64(logits[k])
		if wanted, unwanted := kern.Softplus64(-z), kern.Softplus64(z); pairs.Linked[k] {
			c.fixedRisk += w / all * wanted
		} else {
			c.fixedRisk += w / all * unwanted
			missed[k] = float32(w / all * (wanted - unwanted))
		}
	}
	c.means = []engine.PairMean{{Link: relevant}, {Exposure: exposure}, {Missed: missed}}
	if same > 0 && same < all {
		c.linkRatio = c.ratioOfLinks()
		c.means = append(c.means, engine.PairMean{Exposure: one}, engine.PairMean{Exposure: two})
	}
	return nil
}

// ratioOfLinks returns the share of linked pairs among those of one field to that among those of two.
func (c *comparison) ratioOfLinks() measure {
	var all, linked, links [2]float64 // of two fields, of one; the last is how many
	pairs := c.problem.Train
	for k, w := range pairs.Weight {
		at := 0
		if c.problem.Nodes.SameField(pairs.Source[k], pairs.Target[k]) {
			at = 1
		}
		if all[at] += w; pairs.Linked[k] {
			linked[at] += w
			links[at]++
		}
	}
	if links[0] == 0 || links[1] == 0 {
		return measure{}
	}
	return measure{linked[1] / all[1] / (linked[0] / all[0]), math.Sqrt(1/links[0] + 1/links[1])}
}

// same reports whether the ends of a compared pair have one field.
func (c *comparison) same(k int) bool {
	pairs := c.chosen.Pairs
	return c.problem.Nodes.SameField(pairs.Source[k], pairs.Target[k])
}

// popularityFolds is into how many parts the sources are cut, one after the other.
const popularityFolds = 8

// crossPopularity returns what is known of the popularity of each pair's target, log(1 + in-degree)
// less its mean: by the links of the sources in earlier parts than the pair's own, as if all had
// linked like these. So no link explains itself, and no two explain one another, which would count
// them twice. Nothing is known of the first part's.
func crossPopularity(p sample.Problem, linked []bool, pairs *graph.Pairs) []float32 {
	var targets [popularityFolds][]int32
	for k, yes := range linked {
		if yes {
			at := popularityFold(p.Nodes.Number(p.Train.Source[k]))
			targets[at] = append(targets[at], p.Train.Target[k])
		}
	}
	return popularityBy(p.Nodes, pairs, func(part int, degree []float64) {
		for _, target := range targets[part] {
			degree[target]++
		}
	})
}

// popularityFold is the part of a source, given its number.
func popularityFold(source int32) int {
	return int(popularityFolds * sample.Uniform(0x9a1f, 0, uint64(source)))
}

// popularityBy is crossPopularity, given what adds the links of a part to the in-degree of every node.
func popularityBy(n model.Nodes, pairs *graph.Pairs, add func(part int, degree []float64)) []float32 {
	var members [popularityFolds][]int
	for k, source := range pairs.Source {
		at := popularityFold(n.Number(source))
		members[at] = append(members[at], k)
	}
	out, degree := make([]float32, pairs.Len()), make([]float64, n.Len())
	for at := 1; at < popularityFolds; at++ {
		add(at-1, degree)
		var mean float64
		for _, k := range members[at] {
			x := math.Log1p(degree[pairs.Target[k]] * popularityFolds / float64(at))
			out[k] = float32(x)
			mean += x / float64(len(members[at]))
		}
		for _, k := range members[at] {
			out[k] -= float32(mean)
		}
	}
	return out
}

// fit learns one alternative and measures what it says.
func (c *comparison) fit(ctx context.Context, a Alternative) (*alternativeFit, error) {
	l, theta := c.start(a)
	defer l.close()
	v, err := c.v, error(nil)
	if !c.isTheFit(a) {
		v, err = c.learn(ctx, l, theta)
	}
	if a.Text && err == nil && theta[c.base.size()] > mostText {
		l.prior.Terms[0] = normal{mean: mostText, deviation: 1e-6}
		theta[c.base.size()] = mostText
		v, err = c.learn(ctx, l, theta)
	}
	out := &alternativeFit{Alternative: a}
	if errors.Is(err, ErrDiverged) {
		out.failed = true
		out.terms, out.folds = make([]float64, len(l.prior.Terms)), make([]float64, compareFolds)
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	out.terms = slices.Clone(theta[c.base.size():])
	out.mode = append(slices.Clone(theta), l.prior.Alpha, l.prior.Tau[0], l.prior.Tau[1])
	out.leverage = l.outcomes.Leverage
	if out.centre, out.spread, err = c.spreadOf(ctx, theta, out.relevanceSlope()); err != nil {
		return nil, err
	}
	likelihood, err := l.likelihood(ctx)
	if err != nil {
		return nil, err
	}
	assumed := likelihood.(engine.AssumedLikelihood)
	if err := c.measure(ctx, assumed, theta, v, out); err != nil {
		return nil, err
	}
	gradients, err := assumed.GroupGradients(ctx, theta, c.folds)
	if err != nil {
		return nil, err
	}
	for _, g := range gradients { // without a fold, its gradient is missing: the mode moves by V·g
		v.solve(g)
		for i := range g {
			g[i] += theta[i]
		}
	}
	out.folds, err = assumed.GroupValues(ctx, gradients, c.folds)
	return out, err
}

// start returns the posterior of an alternative and where its search begins: at the fit's own mode.
func (c *comparison) start(a Alternative) (*laplace, []float64) {
	l := c.base
	l.prior.Terms = nil
	l.assumed = &engine.Assumptions{Response: a.Response}
	add := func(t engine.AssumedTerm, p normal, of Suspicion) {
		switch obeys := !refutes(c.refuted, of); { // else links that obey say nothing of these
		case obeys && t.Kind == engine.Dependence:
			p.offset = c.offset[of]
		case obeys:
			p.mean -= c.offset[of] * p.deviation * p.deviation // which takes the offset out of the slope
		}
		l.assumed.Terms = append(l.assumed.Terms, t)
		l.prior.Terms = append(l.prior.Terms, p)
	}
	if a.Text {
		add(engine.AssumedTerm{Kind: engine.LinkInExposure}, textPrior, BySimilarity)
	}
	if a.Within {
		add(engine.AssumedTerm{Kind: engine.LinkInExposure, Value: c.sameFields(c.chosen.Pairs)}, textPrior,
			WithinFields)
	}
	switch a.Popularity {
	case PopularShown:
		add(engine.AssumedTerm{Kind: engine.InExposure, Value: c.popularity}, popularityPrior, ByPopularity)
	case PopularRelevant:
		add(engine.AssumedTerm{Kind: engine.InLink, Value: c.popularity}, popularityPrior, "")
	}
	if a.Dependence {
		add(engine.AssumedTerm{Kind: engine.Dependence}, dependencePrior, Dependent)
	}
	theta := append(slices.Clone(c.theta), make([]float64, len(l.prior.Terms))...)
	mode, own := c.coarse.modeOf(a)
	if !own {
		mode = c.like(a)
	}
	if mode != nil && !c.isTheFit(a) {
		n := len(mode) - hyperparameters
		copy(theta, mode[:n])
		l.prior.Alpha, l.prior.Tau = mode[n], [2]float64{mode[n+1], mode[n+2]}
	}
	if a.Response == engine.Probit && !own { // whose z is shorter by this factor at equal slopes
		const shorter = 1.7
		for i := range theta[:l.d+1] {
			theta[i] /= shorter
		}
		l.prior.Alpha *= shorter * shorter
		for i, t := range l.assumed.Terms {
			if t.Kind == engine.InLink {
				theta[c.base.size()+i] /= shorter
			}
		}
	}
	return &l, theta
}

// isTheFit reports whether an alternative is what was fitted, to the same pairs.
func (c *comparison) isTheFit(a Alternative) bool { return a == (Alternative{}) && !c.own }

// modeOf returns the mode of an alternative, if it was fitted.
func (c *comparison) modeOf(a Alternative) (mode []float64, found bool) {
	if c == nil {
		return nil, false
	}
	at := slices.IndexFunc(c.done, func(f *alternativeFit) bool { return f.Alternative == a && !f.failed })
	if at < 0 {
		return nil, false
	}
	return c.done[at].mode, true
}

// like returns the mode of an alternative that differs by the response or the dependence alone; if
// there is none, that of the model itself over the same pairs; nil before that.
func (c *comparison) like(a Alternative) []float64 {
	for _, f := range c.done {
		if f.mode != nil && f.Response == engine.Logistic && !f.Dependence && f.Text == a.Text &&
			f.Popularity == a.Popularity && !a.Within {
			return f.mode
		}
	}
	if len(c.done) > 0 {
		return c.done[0].mode
	}
	return nil
}

// learn finds the mode and the prior in turn, as the fit does, but from where it ended and no more
// than this often: more often the first time, whose pairs may be a part of the fit's. V is that
// of the last round but for the last steps to the mode.
func (c *comparison) learn(ctx context.Context, l *laplace, theta []float64) (v covariance, err error) {
	const enough, settled = 10 * near, .01
	rounds := 4
	if len(c.done) == 0 {
		rounds = 10
	}
	var last [3]float64
	for range rounds {
		if err := l.mode(ctx, theta, v, climb{enough: enough, report: c.report}); err != nil {
			return nil, err
		}
		if v, err = l.method.at(ctx, l, theta); err != nil {
			return nil, err
		}
		if err := l.setLeverage(ctx, v); err != nil {
			return nil, err
		}
		moved := l.prior.updateAlpha(theta, v.trace(), &last[0])
		if !l.fixed {
			moved = math.Max(moved, l.prior.updateTau(theta, v.moments(l.prior.group), last[1:]))
		}
		if moved < settled {
			break
		}
	}
	return v, l.mode(ctx, theta, v, climb{enough: enough, report: c.report})
}

func (c *comparison) report(value float64) {
	c.meter.add(c.chosen.Pairs.Len(), value == 0, func() round {
		if c.coarse != nil {
			return round{phase: "looking closer at what assumptions claim", number: len(c.done) + 1, of: mostLooks + 1}
		}
		return round{phase: "comparing assumptions", number: len(c.done) + 1,
			of: max(len(c.family), usualAlternatives) + 1} // the last is naive
	})
}

// measure finds the numbers that an alternative gives, and how surely.
func (c *comparison) measure(ctx context.Context, l engine.AssumedLikelihood, theta []float64, v covariance,
	out *alternativeFit) error {
	values, gradients, err := l.Means(ctx, theta, c.means)
	if err != nil {
		return err
	}
	logarithm := func(i int) measure { // of a mean, and the standard error of its logarithm
		for k := range gradients[i] {
			gradients[i][k] /= values[i]
		}
		return measure{values[i], math.Sqrt(v.variance(slices.Clone(gradients[i])))}
	}
	out.measures[ofLink], out.measures[ofExposure] = logarithm(0), logarithm(1)
	out.measures[ofRisk] = measure{c.fixedRisk + values[ofMissed], math.Sqrt(v.variance(gradients[ofMissed]))}
	out.measures[ofLeast], out.measures[ofLinks] = measure{value: c.fixedRisk}, c.linkRatio
	if len(values) > 3 {
		one, two := logarithm(3), logarithm(4)
		for k, x := range gradients[4] {
			gradients[3][k] -= x
		}
		out.measures[ofRatio] = measure{one.value / two.value, math.Sqrt(v.variance(gradients[3]))}
	}
	return nil
}

// judge measures the risk of what is published once more where that is no longer the fit that was compared with: what
// every alternative says of it.
func (c *comparison) judge(ctx context.Context, published *Result) error {
	if len(published.learnedTerms()) == 0 {
		return nil
	}
	reference := c.done[published.reference()]
	if err := c.judgeAll(ctx, published, reference); err != nil || c.closer == nil {
		return err
	}
	return c.closer.judgeAll(ctx, published, reference.closer)
}

func (c *comparison) judgeAll(ctx context.Context, published *Result, reference *alternativeFit) error {
	if err := c.prepareMeans(ctx, published); err != nil {
		return err
	}
	for _, f := range c.done {
		if f.failed {
			continue
		}
		_, _, stays := f.against(reference)
		if err := c.judgeBy(ctx, f, stays); err != nil {
			return err
		}
	}
	return nil
}

// judgeBy sets the risk, and its standard error where the set rests on it; that of others stays what it was.
func (c *comparison) judgeBy(ctx context.Context, f *alternativeFit, stays bool) error {
	l, _ := c.start(f.Alternative)
	defer l.close()
	l.outcomes.Leverage = f.leverage
	n := len(f.mode) - hyperparameters
	theta := f.mode[:n]
	l.prior.Alpha, l.prior.Tau = f.mode[n], [2]float64(f.mode[n+1:])
	if f.Text && f.terms[0] == mostText {
		l.prior.Terms[0] = normal{mean: mostText, deviation: 1e-6}
	}
	likelihood, err := l.likelihood(ctx)
	if err != nil {
		return err
	}
	values, gradients, err := likelihood.(engine.AssumedLikelihood).Means(ctx, theta, c.means[ofMissed:ofMissed+1])
	if err != nil {
		return err
	}
	f.measures[ofRisk].value, f.measures[ofLeast].value = c.fixedRisk+values[0], c.fixedRisk
	if !stays {
		return nil
	}
	v, err := l.method.at(ctx, l, theta)
	if err != nil {
		return err
	}
	f.measures[ofRisk].err = math.Sqrt(v.variance(gradients[0]))
	return v.close()
}

// alternativeNumbers is how many numbers a checkpoint has of an alternative.
const alternativeNumbers = 3 + mostTerms + 2*measured + compareFolds

// mostTerms is the largest number of terms of an alternative.
const mostTerms = 3

func (c *comparison) keep(to *checkpoint) {
	keepFits(to, "comparison.", c.done)
	var looked []float64
	var closer []*alternativeFit
	if c.closer != nil {
		closer = c.closer.done
	}
	for _, f := range closer {
		at := slices.IndexFunc(c.done, func(g *alternativeFit) bool { return g.closer == f })
		looked = append(looked, float64(at))
	}
	put(to, "comparison.looked", looked)
	keepFits(to, "comparison.closer.", closer)
	var naive []float64
	if f := c.naive; f != nil {
		naive = append([]float64{f.centre, f.spread}, f.mode...) // no mode if it failed
	}
	put(to, "comparison.naive", naive)
}

// keepFits puts the fits of alternatives into a checkpoint.
func keepFits(to *checkpoint, name string, fits []*alternativeFit) {
	var all, modes []float64
	var leverages []float32
	for _, f := range fits {
		row := make([]float64, 3+mostTerms, alternativeNumbers)
		if f.failed {
			row[0] = 1
		}
		row[1], row[2] = f.centre, f.spread
		copy(row[3:], f.terms)
		for _, m := range f.measures {
			row = append(row, m.value, m.err)
		}
		all = append(all, append(row, f.folds...)...)
		modes, leverages = append(modes, f.mode...), append(leverages, f.leverage...)
	}
	put(to, name+"alternatives", all)
	put(to, name+"modes", modes)
	put(to, name+"leverages", leverages)
}

func (c *comparison) restore(from *checkpoint) {
	switch naive := numbers[float64](from, "comparison.naive", -1); {
	case len(naive) == 2 || len(naive) == 2+c.base.size():
		c.naive = &alternativeFit{centre: naive[0], spread: naive[1], mode: naive[2:], failed: len(naive) == 2}
	case len(naive) > 0:
		from.fail("the mode of naive has another size")
		return
	}
	c.restoreFits(from, "comparison.", func() (Alternative, bool) {
		if len(c.done) == len(c.family) {
			c.family = append(c.family, c.next()...)
		}
		if len(c.done) == len(c.family) {
			return Alternative{}, false
		}
		return c.family[len(c.done)], true
	}, func(f *alternativeFit) { c.done = append(c.done, f) })
	looked := numbers[float64](from, "comparison.looked", -1)
	c.restoreFits(from, "comparison.closer.", func() (Alternative, bool) {
		if at := len(c.looked); at < len(looked) && looked[at] >= 0 && int(looked[at]) < len(c.done) {
			return c.done[int(looked[at])].Alternative, true
		}
		return Alternative{}, false
	}, func(f *alternativeFit) {
		c.done[int(looked[len(c.looked)])].closer = f
		c.looked = append(c.looked, f)
	})
}

// restoreFits reads what keepFits wrote, given what says which alternative is next, and what takes it.
func (c *comparison) restoreFits(from *checkpoint, name string, next func() (Alternative, bool),
	take func(*alternativeFit)) {
	modes, leverages := numbers[float64](from, name+"modes", -1), numbers[float32](from, name+"leverages", -1)
	rows := numbers[float64](from, name+"alternatives", -1)
	found := 0 // that did not fail: each has the leverage of as many pairs
	for at := 0; at < len(rows); at += alternativeNumbers {
		if rows[at] != 1 {
			found++
		}
	}
	pairs := len(leverages) / max(found, 1)
	for row := range slices.Chunk(rows, alternativeNumbers) {
		a, known := next()
		if len(row) != alternativeNumbers || !known {
			from.fail("the alternatives are cut short")
			return
		}
		l, _ := c.start(a)
		f := &alternativeFit{Alternative: a, failed: row[0] == 1, centre: row[1], spread: row[2],
			terms: row[3 : 3+len(l.prior.Terms)], folds: row[alternativeNumbers-compareFolds:]}
		for i := range f.measures {
			f.measures[i] = measure{row[3+mostTerms+2*i], row[4+mostTerms+2*i]}
		}
		if size := l.size() + hyperparameters; !f.failed {
			if len(modes) < size || len(leverages) < pairs || name == "comparison." && pairs != c.chosen.Pairs.Len() {
				from.fail("the modes of alternatives are cut short")
				return
			}
			f.mode, modes = modes[:size], modes[size:]
			f.leverage, leverages = leverages[:pairs], leverages[pairs:]
		}
		take(f)
	}
}
