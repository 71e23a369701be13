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
	"unseen/sample"
)

// Alternative is a way in which the links may have come about. The zero Alternative is the model's own: relevance by a
// logistic response, exposure by fields alone, and the two independent given both.
type Alternative struct {
	Response engine.Response `json:"response"`
	// what is relevant by its vectors is shown more: s gets γ·z
	Text       bool           `json:"text,omitempty"`
	Popularity PopularityRole `json:"popularity,omitempty"` // what others link to
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
// nothing it is left out: without a slope it changes nothing.
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
	textPrior       = normal{0, .5}
	popularityPrior = normal{0, 2}
	dependencePrior = normal{0, 3}
)

// mostText is the largest γ: beyond it exposure and relevance swap their roles.
const mostText = 1

// alternativeFit is what one alternative makes of the links.
type alternativeFit struct {
	Alternative
	failed bool      // no mode was found: the links rule it out
	terms  []float64 // γ, the slope of popularity and κ, as far as it has them
	// measures are what it says of the numbers that are reported, with standard errors of their logarithms; that of the
	// risk is its own.
	measures [measured]measure
	folds    []float64 // −log likelihood of every fold, at parameters learned without it
	mode     []float64 // θ, and then the prior's α and τ, for others to begin at; nil of other responses
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
// error of that with sources as what is independent, and whether it explains the links as well.
func (f *alternativeFit) against(other *alternativeFit) (difference, se float64, stays bool) {
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
	return difference, se, f == other || difference >= -math.Max(2, 1.96*se)
}

// measure is a number and its standard error.
type measure struct{ value, err float64 }

// What alternatives are compared by.
const (
	ofLink     = iota // mean ŷ
	ofExposure        // mean π̂
	ofRatio           // of π̂ among pairs of one field to that of two; 0 where there are no such pairs
	ofRisk            // R_AP of the fit's own ŷ
	measured
)

// usualAlternatives is how many there are where popularity shows nothing.
const usualAlternatives = 9

// compareFolds is into how many parts the sources are cut, each of which is judged by what the others say.
const compareFolds = 64

// How much alternatives are learned from: pairs at most, and pairs·dimensions² at most.
const (
	comparedPairs    = 1 << 16
	comparedProducts = 1 << 34
)

// comparison is the fits of all alternatives to the same pairs.
type comparison struct {
	*bayesian
	base   laplace // the fit's own posterior over the pairs that are compared by
	chosen sample.Evidence
	places []int32 // of those among the fit's pairs; nil means all of them

	// of the tests: how their terms hang together with θ, and the information that is theirs alone
	border     [][]float64
	decided    []float64
	popularity []float32
	folds      engine.PairGroups
	means      []engine.PairMean
	fixedRisk  float64 // the part of R_AP that no belief changes

	refuted []Refutation
	family  []Alternative
	done    []*alternativeFit
}

// newComparison chooses the pairs to compare by, and prepares the tests.
func newComparison(ctx context.Context, b *bayesian) (*comparison, error) {
	c := &comparison{bayesian: b}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	err := c.prepareMeans(ctx)
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
	if c.places != nil {
		c.base.design.Close()
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
	b.result.refuted, b.result.alternatives, b.result.compared = refuted, c.done, c.chosen.Pairs.Len()
	return nil
}

// prepare chooses the pairs to compare by.
func (c *comparison) prepare(ctx context.Context) error {
	l, p := c.laplace, c.problem
	most := min(comparedPairs, comparedProducts/((l.d+1)*(l.d+1)))
	evidence := p.Training()
	c.base = *l
	c.base.seen, c.base.own = nil, false
	if p.Train.Len() > most {
		var part thinnedPairs
		part, evidence = thinToLearn(p, most, c.result.Settings)
		c.places = part.places
		design, err := c.design(ctx, engine.DesignPairs{Pairs: evidence.Pairs, Cell: sample.Column(c.cell, c.places),
			Cells: l.cells})
		if err != nil {
			return err
		}
		c.base.design = design
		c.base.outcomes = engine.Outcomes{Linked: evidence.Pairs.Linked, Exposure: evidence.Exposure,
			Leverage: sample.Column(l.outcomes.Leverage, c.places)}
	}
	c.chosen = evidence
	c.popularity = crossPopularity(p, p.Train.Linked, evidence.Pairs)
	c.folds = engine.PairGroups{Of: make([]uint8, evidence.Pairs.Len()), Count: compareFolds}
	for k, source := range evidence.Pairs.Source {
		c.folds.Of[k] = uint8(compareFolds * sample.Uniform(0xf01d, 0, uint64(source)))
	}
	return nil
}

// prepareMeans says what the measures are sums of.
func (c *comparison) prepareMeans(ctx context.Context) error {
	r, pairs := c.result, c.chosen.Pairs
	logits, _, err := engine.Logits(ctx, r.Settings.engine(), engine.Predictor{Link: r.Link, LinkParams: r.LinkParams},
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
	link, exposure, one, two, missed := column(), column(), column(), column(), column()
	c.fixedRisk = 0
	for k, w := range pairs.Weight {
		link[k], exposure[k] = float32(w/all), float32(w/all)
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
	c.means = []engine.PairMean{{Link: link}, {Exposure: exposure}, {Missed: missed}}
	if same > 0 && same < all {
		c.means = append(c.means, engine.PairMean{Exposure: one}, engine.PairMean{Exposure: two})
	}
	return nil
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
	part := func(source int32) int { return int(popularityFolds * sample.Uniform(0x9a1f, 0, uint64(source))) }
	var targets [popularityFolds][]int32
	for k, yes := range linked {
		if yes {
			at := part(p.Train.Source[k])
			targets[at] = append(targets[at], p.Train.Target[k])
		}
	}
	var members [popularityFolds][]int
	for k, source := range pairs.Source {
		at := part(source)
		members[at] = append(members[at], k)
	}
	out, degree := make([]float32, pairs.Len()), make([]float64, p.Nodes.Len())
	for at := 1; at < popularityFolds; at++ {
		for _, target := range targets[at-1] {
			degree[target]++
		}
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
	if a != (Alternative{}) || c.places != nil { // else it is the fit
		v, err = c.learn(ctx, l, theta)
	}
	if a.Text && err == nil && theta[c.base.size()] > mostText {
		l.prior.Terms[0] = normal{mostText, 1e-6}
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
	if a.Response == engine.Logistic && !a.Dependence {
		out.mode = append(slices.Clone(theta), l.prior.Alpha, l.prior.Tau[0], l.prior.Tau[1])
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
	add := func(t engine.AssumedTerm, p normal) {
		l.assumed.Terms = append(l.assumed.Terms, t)
		l.prior.Terms = append(l.prior.Terms, p)
	}
	if a.Text {
		add(engine.AssumedTerm{Kind: engine.LinkInExposure}, textPrior)
	}
	switch a.Popularity {
	case PopularShown:
		add(engine.AssumedTerm{Kind: engine.InExposure, Value: c.popularity}, popularityPrior)
	case PopularRelevant:
		add(engine.AssumedTerm{Kind: engine.InLink, Value: c.popularity}, popularityPrior)
	}
	if a.Dependence {
		add(engine.AssumedTerm{Kind: engine.Dependence}, dependencePrior)
	}
	theta := append(slices.Clone(c.theta), make([]float64, len(l.prior.Terms))...)
	// it differs by the response or the dependence alone
	like := slices.IndexFunc(c.done, func(f *alternativeFit) bool {
		return f.mode != nil && f.Text == a.Text && f.Popularity == a.Popularity
	})
	if like >= 0 {
		mode := c.done[like].mode
		n := len(mode) - 3
		copy(theta, mode[:n])
		l.prior.Alpha, l.prior.Tau = mode[n], [2]float64{mode[n+1], mode[n+2]}
	}
	if a.Response == engine.Probit { // whose z is shorter by this factor at equal slopes
		const shorter = 1.7
		for i := range theta[:l.d+1] {
			theta[i] /= shorter
		}
		l.prior.Alpha *= shorter * shorter
		for i, t := range l.assumed.Terms {
			switch at := c.base.size() + i; t.Kind {
			case engine.InLink:
				theta[at] /= shorter
			case engine.LinkInExposure:
				theta[at] = math.Min(theta[at]*shorter, mostText)
			}
		}
	}
	return &l, theta
}

// learn finds the mode and the prior in turn, as the fit does, but from where it ended and no more
// than this often. V is that of the last round but for the last steps to the mode.
func (c *comparison) learn(ctx context.Context, l *laplace, theta []float64) (v covariance, err error) {
	const rounds, enough = 2, 10 * near
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
		l.prior.updateAlpha(theta, v.trace(), &last[0])
		l.prior.updateTau(theta, v.ofCells(), last[1:])
	}
	return v, l.mode(ctx, theta, v, climb{enough: enough, report: c.report})
}

func (c *comparison) report(value float64) {
	c.meter.add(c.chosen.Pairs.Len(), value == 0, func() round {
		return round{phase: "comparing assumptions", number: len(c.done) + 1, of: max(len(c.family), usualAlternatives)}
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
	out.measures[ofRisk] = measure{c.fixedRisk + values[2], math.Sqrt(v.variance(gradients[2]))}
	if len(values) > 3 {
		one, two := logarithm(3), logarithm(4)
		for k, x := range gradients[4] {
			gradients[3][k] -= x
		}
		out.measures[ofRatio] = measure{one.value / two.value, math.Sqrt(v.variance(gradients[3]))}
	}
	return nil
}

// alternativeNumbers is how many numbers a checkpoint has of an alternative.
const alternativeNumbers = 1 + 3 + 2*measured + compareFolds

func (c *comparison) keep(to *checkpoint) {
	var all []float64
	for _, f := range c.done {
		row := make([]float64, 4, alternativeNumbers)
		if f.failed {
			row[0] = 1
		}
		copy(row[1:], f.terms)
		for _, m := range f.measures {
			row = append(row, m.value, m.err)
		}
		all = append(all, append(row, f.folds...)...)
	}
	put(to, "comparison.alternatives", all)
	var modes []float64
	for _, f := range c.done {
		modes = append(modes, f.mode...)
	}
	put(to, "comparison.modes", modes)
}

func (c *comparison) restore(from *checkpoint) {
	modes := numbers[float64](from, "comparison.modes", -1)
	for row := range slices.Chunk(numbers[float64](from, "comparison.alternatives", -1), alternativeNumbers) {
		if len(c.done) == len(c.family) {
			c.family = append(c.family, c.next()...)
		}
		if len(row) != alternativeNumbers || len(c.done) == len(c.family) {
			from.fail("the alternatives are cut short")
			return
		}
		a := c.family[len(c.done)]
		l, _ := c.start(a)
		f := &alternativeFit{Alternative: a, failed: row[0] == 1, terms: row[1 : 1+len(l.prior.Terms)],
			folds: row[alternativeNumbers-compareFolds:]}
		for i := range f.measures {
			f.measures[i] = measure{row[4+2*i], row[5+2*i]}
		}
		if size := l.size() + 3; a.Response == engine.Logistic && !a.Dependence && !f.failed {
			if len(modes) < size {
				from.fail("the modes of alternatives are cut short")
				return
			}
			f.mode, modes = modes[:size], modes[size:]
		}
		c.done = append(c.done, f)
	}
}
