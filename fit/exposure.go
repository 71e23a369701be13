package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// AutoExposure lets the tests decide what the exposure depends on; see ClaimSet.
const AutoExposure = "auto"

// byFields is what exposure always depends on.
const byFields = "fields"

// parseExposure reads what exposure depends on, such as "fields+text+popularity". It returns that with its terms in
// order, and the terms; "" for AutoExposure.
func parseExposure(s string) (string, []model.Term, error) {
	if s == "" || s == AutoExposure {
		return "", nil, nil
	}
	words := strings.Split(s, "+")
	given := map[model.Term]bool{}
	for _, word := range words[1:] {
		term := model.Term(word)
		if !slices.Contains(model.Terms(), term) || given[term] {
			return "", nil, badExposure(s)
		}
		given[term] = true
	}
	if words[0] != byFields {
		return "", nil, badExposure(s)
	}
	var terms []model.Term
	for _, term := range model.Terms() {
		if given[term] {
			terms = append(terms, term)
		}
	}
	return exposureName(terms), terms, nil
}

func badExposure(s string) error {
	return hint.Wrap(fmt.Errorf("%w: exposure by %q", ErrSetting, s),
		"set %v to %s, or to %s, alone or with any of %s behind it", hint.Setting("exposure"), AutoExposure,
		byFields, strings.ReplaceAll(strings.TrimPrefix(exposureName(model.Terms()), byFields+"+"), "+", ", "))
}

// exposureName is how terms are written.
func exposureName(terms []model.Term) string {
	name := byFields
	for _, t := range terms {
		name += "+" + string(t)
	}
	return name
}

// bayesTerms are those that bayes learns; the other methods learn all but the text, which is its alone.
var bayesTerms = []model.Term{model.Text, model.Popularity, model.Age}

// withExposure returns the settings with the propensity that the exposure asks for, or refuses an exposure that the
// method cannot learn.
func (s Settings) withExposure(m method) (Settings, error) {
	name, terms, err := parseExposure(s.Exposure)
	if err != nil {
		return s, err
	}
	own := func(t model.Term) bool { return slices.Contains(bayesTerms, t) }
	switch s.Exposure = name; {
	case strings.Contains(s.Propensity, "+"+string(model.Text)) || !m.bayes && slices.Contains(terms, model.Text):
		return s, hint.Wrap(fmt.Errorf("%w: only bayes learns a propensity that depends on the text", ErrSetting),
			"use bayes, and set %v to fields+text", hint.Setting("exposure"))
	case m.bayes && !slices.ContainsFunc(terms, func(t model.Term) bool { return !own(t) }), name == "":
		return s, nil
	case m.bayes:
		return s, hint.Wrap(fmt.Errorf("%w: exposure by %s with bayes, which learns no more than %s", ErrSetting, name,
			exposureName(bayesTerms)), "set %v to mle", hint.Setting("method"))
	case m.propensity != "":
		return s, hint.Wrap(fmt.Errorf("%w: exposure by %s with the method %s, which learns no exposure", ErrSetting,
			name, s.Method), "set %v to mle or bayes", hint.Setting("method"))
	}
	kind := fieldMatrixKind + strings.TrimPrefix(name, byFields)
	if s.Propensity != fieldMatrixKind && s.Propensity != kind {
		return s, hint.Wrap(fmt.Errorf("%w: exposure by %s and a propensity %s", ErrSetting, name, s.Propensity),
			"give one of %v and %v", hint.Setting("exposure"), hint.Setting("propensity"))
	}
	s.Propensity = kind
	return s, nil
}

// fieldMatrixKind is the propensity model of fields.
const fieldMatrixKind = "field-matrix"

// Prior precisions of exposure's effects and slopes; of items' effects, per pair of theirs that is not logged.
const (
	personPrecision   = 1
	itemPrecision     = .1
	activityPrecision = .3
)

// propensityPriors returns the prior precision of every parameter of a propensity model; nil where all are free, as the
// logits of fields and single slopes are. People differ in how much they are shown, so that their effects have the
// variance 1. What everybody links to cannot be told from what everybody is shown, but by a log: pairs that are not
// logged would move items' effects by chance alone, and every list with them, so that the prior of these is as firm as
// such pairs are many.
func propensityPriors(o *engine.Objective, unlogged int64) []float64 {
	layout, ok := o.Propensity.(model.Layout)
	if !ok {
		return nil
	}
	var out []float64
	effects := o.Centre != nil
	for number, part := range layout.Parts() {
		precision := 0.
		if number == 0 && o.Centre != nil {
			precision = itemPrecision * float64(unlogged) / float64(max(part.Size(), 1))
		}
		switch model.Term(part.Name) {
		case model.Person:
			precision = personPrecision
		case model.Item:
			precision = 1 + itemPrecision*float64(unlogged)/float64(max(part.Size(), 1))
		case model.Activity:
			precision = activityPrecision
		}
		effects = effects || precision > 0
		for range part.Size() {
			out = append(out, precision)
		}
	}
	if !effects {
		return nil
	}
	return out
}

// unloggedOf counts the pairs of an objective that are not logged.
func unloggedOf(o *engine.Objective) int64 {
	unlogged := int64(o.Pairs.Len())
	for _, e := range o.Exposure {
		if isLogged(e) {
			unlogged--
		}
	}
	return unlogged
}

// exposureTerm is something that exposure depends on besides the fields.
type exposureTerm struct {
	term   model.Term
	values []float32 // of each training pair, about 0; nil of the text, which is z
	prior  normal
	// centre is the mean of the published values, which are not about 0: the logits of the fields are less by the
	// slope times this. That of the text is the shift of its calibration.
	centre float64
}

// newTerms prepares terms. The published popularity is log(1 + in-degree) over all training links. It is learned by
// what earlier sources link to, so that no link explains itself; see crossPopularity. Age is linear, and so a sum of
// what source and target have: sums over all pairs need no bands of it.
func (b *bayesian) newTerms(ctx context.Context, terms []model.Term) ([]exposureTerm, model.Nodes, error) {
	p, pairs := b.problem, b.problem.Train
	if b.whole != nil {
		p = b.whole.problem // by whose links popularity is known
	}
	nodes := p.Nodes
	var out []exposureTerm
	for _, term := range terms {
		t := exposureTerm{term: term}
		switch term {
		case model.Text:
			t.prior = textPrior
		case model.Popularity:
			if b.result.all.whole() {
				links, err := b.result.all.InDegrees(ctx, nodes.Numbers)
				if err != nil {
					return nil, nodes, err
				}
				t.values = popularityBy(nodes, pairs, links.addTo)
			} else {
				t.values = crossPopularity(p, p.Train.Linked, pairs)
			}
			if nodes.Popularity == nil {
				nodes.Popularity = model.LogInDegree(nodes.Len(), linkTargets(p))
			}
			t.prior = popularityPrior
			for _, j := range pairs.Target {
				t.centre += float64(nodes.Popularity[j]) / float64(pairs.Len())
			}
		case model.Age:
			if nodes.Age == nil {
				return nil, nodes, hint.Wrap(fmt.Errorf("%w: exposure by age, and no node has a time", ErrData),
					"give the nodes times, or leave age out of %v", hint.Setting("exposure"))
			}
			t.values = make([]float32, pairs.Len())
			var square float64
			for k := range t.values {
				t.values[k] = (nodes.Age[pairs.Target[k]] - nodes.Age[pairs.Source[k]]) / 10
				t.centre += float64(t.values[k]) / float64(pairs.Len())
			}
			for k := range t.values {
				t.values[k] -= float32(t.centre)
				square += float64(t.values[k]) * float64(t.values[k]) / float64(pairs.Len())
			}
			// a slope of 2 or less by a standard deviation, be the ages of hours or of centuries
			t.prior = normal{deviation: popularityPrior.deviation / math.Sqrt(math.Max(square, 1e-12))}
		}
		out = append(out, t)
	}
	return out, nodes, nil
}

// linkTargets returns the target of every training link.
func linkTargets(p sample.Problem) (targets []int32) {
	for k, linked := range p.Train.Linked {
		if linked {
			targets = append(targets, p.Train.Target[k])
		}
	}
	return targets
}

// extend fits once more, with terms in the exposure, and makes that the result. It begins at the mode of an alternative
// with these terms, where there is one. Where nobody asked for the terms and the links do not give them a mode, the
// result stays what it is.
func (b *bayesian) extend(ctx context.Context, terms []model.Term, like *alternativeFit) error {
	if b.v.draws() > 0 {
		return hint.Wrap(fmt.Errorf("%w: exposure by %s over vectors of %d dimensions", ErrSetting, exposureName(terms),
			b.laplace.d), "set %v to %s, or take fewer dimensions", hint.Setting("exposure"), byFields)
	}
	published := b.result
	own := *published // which checkpoints keep
	b.result = &own
	e, err := b.withTerms(ctx, terms)
	if err != nil {
		return err
	}
	r, l := e.result, e.laplace
	e.from = append(slices.Clone(b.theta), make([]float64, len(terms))...)
	if like != nil && like.mode != nil {
		n := len(like.mode) - hyperparameters
		e.from = like.mode[:n]
		l.prior.Alpha, l.prior.Tau = like.mode[n], [2]float64(like.mode[n+1:])
	}
	defer l.close()
	defer b.recorder.within("extended.")()
	if err := b.recorder.begin(e); err != nil {
		return err
	}
	if err = e.startAll(ctx); err == nil {
		r.Posterior, _, err = newPosterior(ctx, e, nil)
	}
	if errors.Is(err, ErrDiverged) && b.result.Settings.Exposure == "" {
		published.Warnings = append(published.Warnings, risk.Warning{Kind: "exposure", Message: fmt.Sprintf(
			"the model is published with exposure by fields, though the tests speak for %s: %v", exposureName(terms),
			err)})
		return nil
	}
	if err != nil {
		return err
	}
	*published = *r
	return nil
}

// withTerms returns a fit of the same pairs with terms in the exposure, as yet without parameters.
func (b *bayesian) withTerms(ctx context.Context, terms []model.Term) (*bayesian, error) {
	r := *b.result
	r.Starts, r.Posterior, r.LinkParams, r.PropensityParams = nil, nil, nil, nil
	if b.whole != nil { // the terms are learned from the part
		r.Warnings = append(slices.DeleteFunc(slices.Clone(r.Warnings), func(w risk.Warning) bool {
			return w.Kind == "sample"
		}), risk.Warning{Kind: "sample", Message: fmt.Sprintf(
			"bayes learned exposure by %s from a random %d of the %d pairs", exposureName(terms),
			b.problem.Train.Len(), b.whole.count())})
	}
	with, nodes, err := b.newTerms(ctx, terms)
	if err != nil {
		return nil, err
	}
	if r.Propensity, err = model.NewCovariates(b.result.Propensity, nodes, terms...); err != nil {
		return nil, err
	}
	l := *b.laplace
	l.seen, l.own, l.last = nil, false, nil
	l.assumed, l.prior.Terms = &engine.Assumptions{}, nil
	for _, t := range with {
		kind := engine.InExposure
		if t.term == model.Text {
			kind = engine.LinkInExposure
		}
		l.assumed.Terms = append(l.assumed.Terms, engine.AssumedTerm{Kind: kind, Value: t.values})
		l.prior.Terms = append(l.prior.Terms, t.prior)
	}
	return &bayesian{laplace: &l, problem: b.problem, result: &r, recorder: b.recorder, meter: b.meter, cell: b.cell,
		cells: b.cells, terms: with}, nil
}

// learnedTerms returns the terms that the model of a result has in its exposure besides the fields.
func (r *Result) learnedTerms() []model.Term {
	if covariates, ok := r.Propensity.(*model.Covariates); ok && r.Posterior != nil {
		_, terms := covariates.Inside()
		return terms
	}
	return nil
}

// pin holds γ at the most that it may be, if it is beyond, and reports whether it was.
func (b *bayesian) pin(theta []float64) bool {
	at := b.laplace.d + 1 + b.laplace.cells
	if b.pinned || len(b.terms) == 0 || b.terms[0].term != model.Text || theta[at] <= mostText {
		return false
	}
	b.hold()
	theta[at] = mostText
	return true
}

func (b *bayesian) hold() {
	b.pinned = true
	b.laplace.prior.Terms = slices.Clone(b.laplace.prior.Terms)
	b.laplace.prior.Terms[0] = normal{mean: mostText, deviation: 1e-6}
}

// exposureAt returns the published logits, by cell, and the slopes of the terms, at θ of a fit whose z were scaled and
// shifted by their calibration: s = s_c + γz + … stays what it is.
func (b *bayesian) exposureAt(theta []float64, scale, shift float64, lift [2]float64) []float32 {
	l := b.laplace
	out := make([]float32, l.cells+len(b.terms))
	var moved float64
	for i, t := range b.terms {
		slope, centre := theta[l.d+1+l.cells+i], t.centre
		if t.term == model.Text {
			slope, centre = slope/scale, shift
		}
		out[l.cells+i] = float32(slope)
		moved += slope * centre
	}
	for c := range l.cells {
		out[c] = float32(theta[l.d+1+c] - moved + lift[l.prior.group[c]])
	}
	return out
}

// publish returns the parameters of both models at θ, where they are to be published, and by how much the logits of
// the fields were lifted.
func (b *bayesian) publish(ctx context.Context, theta []float64) (link, exposure []float32, lift [2]float64,
	err error) {
	l, r := b.laplace, b.result
	scale, shift, err := l.calibrate(ctx, theta)
	if err != nil {
		return nil, nil, lift, err
	}
	link = l.published(theta, scale, shift)
	if exposure = b.exposure(theta); len(b.terms) == 0 {
		return link, exposure, lift, nil
	}
	fill := func() {
		for i, x := range b.exposureAt(theta, scale, shift, lift) {
			exposure[b.place(i)] = x
		}
	}
	fill()
	by := engine.Predictor{Link: r.Link, LinkParams: link, Propensity: r.Propensity, PropensityParams: exposure}
	lift, terms, err := b.level(ctx, theta, by)
	if err != nil {
		return nil, nil, lift, err
	}
	// of field pairs that do not occur; the others are set below
	for at := range exposure[:len(exposure)-len(b.terms)] {
		exposure[at] -= float32(terms)
	}
	fill()
	return link, exposure, lift, nil
}

// place returns which parameter of the propensity model a cell is, or after the cells a term.
func (b *bayesian) place(i int) int32 {
	if i < len(b.cells) {
		return b.cells[i]
	}
	return int32(b.result.Propensity.Size() - len(b.terms) + i - len(b.cells))
}

// level finds by how much the logits of the fields have to be lifted for the published mean π̂, of pairs of one field
// and of two, to be what was learned: that is a mean over what is believed of every z, and popularity was another
// number there. It also returns what the terms add to a logit, on average.
func (b *bayesian) level(ctx context.Context, theta []float64, by engine.Predictor) (lift [2]float64, terms float64,
	err error) {
	likelihood, err := b.laplace.likelihood(ctx)
	if err != nil {
		return lift, 0, err
	}
	pairs := b.problem.Train
	means, count := make([]engine.PairMean, 2), [2]int{}
	var total [2]float64
	for g := range means {
		means[g].Exposure = make([]float32, pairs.Len())
	}
	for k, w := range pairs.Weight {
		g := b.laplace.prior.group[b.cell[k]]
		total[g] += w
		count[g]++
	}
	for k, w := range pairs.Weight {
		g := b.laplace.prior.group[b.cell[k]]
		means[g].Exposure[k] = float32(w / total[g])
	}
	learned, _, err := likelihood.(engine.AssumedLikelihood).Means(ctx, theta, means)
	if err != nil {
		return lift, 0, err
	}
	_, s, err := engine.Logits(ctx, b.result.Settings.engine(), by, pairs)
	if err != nil {
		return lift, 0, err
	}
	for k, x := range s {
		terms += float64(x-by.PropensityParams[b.cells[b.cell[k]]]) / float64(len(s))
	}
	for g := range lift {
		if count[g] == 0 {
			continue
		}
		for range 50 {
			var mean, slope float64
			for k, w := range means[g].Exposure {
				if w > 0 {
					pi, rest := kern.Sigmoid64(float64(s[k]) + lift[g])
					mean += float64(w) * pi
					slope += float64(w) * pi * rest
				}
			}
			// Newton's steps for log mean π̂, which is near linear in the lift where π̂ is small
			step := math.Log(learned[g]/mean) * mean / slope
			if lift[g] += math.Max(-1, math.Min(1, step)); math.Abs(step) < 1e-6 {
				break
			}
		}
	}
	return lift, terms, nil
}

// cellPairs is how many pairs of a cell at most the gradient of its mean π̂ is found from, evenly spaced.
const cellPairs = 1 << 12

// meanCovariance returns the covariance of the logits of the cells' mean π̂, by place, where exposure depends on more
// than fields: then it comes from the slopes and from w as well as from the cells' own logits.
func (d *diagnosis) meanCovariance(ctx context.Context, place map[fieldPair]int) ([]float64, error) {
	r, post := d.result, d.result.Posterior
	places := make([][]int32, len(place))
	step := make([]int, len(place))
	seen := make([]int, len(place))
	nodes, train := d.problem.Nodes, d.problem.Train
	of := func(k int) (at int, known bool) {
		at, known = place[fieldPair{nodes.Fields[train.Source[k]], nodes.Fields[train.Target[k]]}]
		return at, known
	}
	for k := range train.Len() {
		if at, known := of(k); known {
			step[at]++
		}
	}
	for at, pairs := range step {
		step[at] = 1 + pairs/cellPairs
	}
	for k := range train.Len() {
		at, known := of(k)
		if !known {
			continue
		}
		if seen[at]%step[at] == 0 {
			places[at] = append(places[at], int32(k))
		}
		seen[at]++
	}
	roots := make([][]float64, len(place))
	single := r.Settings // of which many run at a time
	single.Threads = 1
	err := kern.ChunksErr(ctx, len(roots), 1, kern.Threads(r.Settings.Threads), func(_, at, _, _ int) (err error) {
		pairs := d.problem.Training().At(places[at]).Pairs
		var total, shown float64
		for _, w := range pairs.Weight {
			total += w
		}
		gradients, err := single.engine().Scan(ctx, engine.Scan{Pairs: pairs,
			Versions: []engine.Predictor{r.predictor()}, Totals: []float64{total}, Portion: engine.ScanChunk,
			Visit: func(p engine.Portion) error {
				for k, s := range p.Propensity[0] {
					pi, rest := kern.Sigmoid64(float64(s))
					shown += pairs.Weight[p.From+k] * pi / total
					p.LinkSlopes[0][k], p.PropensitySlopes[0][k] = 0, pi*rest
				}
				return nil
			}})
		if err != nil {
			return err
		}
		size := r.Link.Size()
		roots[at] = post.root(gradients[0][:size], gradients[0][size:])
		for i := range roots[at] {
			roots[at][i] /= shown * (1 - shown)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n := len(roots)
	v := make([]float64, n*n)
	for a, root := range roots {
		own := sample.Indices(len(root), func(i int) bool { return root[i] != 0 }) // few, where there are many cells
		for b := range a + 1 {
			for _, i := range own {
				v[a*n+b] += root[i] * roots[b][i]
			}
			v[b*n+a] = v[a*n+b]
		}
	}
	return v, nil
}
