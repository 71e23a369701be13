package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// factorsKind is the link model of people and items.
const factorsKind = "factors"

// ShownOnly is the method that learns ŷ from the pairs that were shown, and ignores the rest.
const ShownOnly = "shown"

// ofFactors reports whether a link model of a kind learns factors of every node.
func ofFactors(kind string) bool { return strings.HasPrefix(kind, factorsKind) }

// For returns the settings with the link model and the method that suit the nodes, where both are left open: people and
// items get factors, which bayes cannot learn, and so mle.
func (s Settings) For(n model.Nodes) Settings {
	m, err := s.method()
	if s.Link == "" && n.Sources != nil && (s.Method == "" || err == nil && !m.bayes && m.link == "") {
		s.Link = factorsKind
	}
	return s
}

// withLog lets exposure that is learned with factors depend on people and items too where anything is logged, unless it
// is said what it depends on: a log tells that, and links do not.
func (s Settings) withLog(log []risk.Exposure) Settings {
	return s.ForLog(slices.ContainsFunc(log, isLogged))
}

// ForLog is what Fit makes of the settings where anything is logged of the time in which links came about.
func (s Settings) ForLog(logged bool) Settings {
	m, err := s.method()
	learns := s.Method == "" || err == nil && m.propensity == "" && !m.bayes && !m.untrained
	if learns && ofFactors(s.Link) && (s.Exposure == "" || s.Exposure == AutoExposure) && s.Propensity == "" &&
		logged {
		s.Exposure = exposureName([]model.Term{model.Person, model.Item})
	}
	return s
}

// ofFactors returns a preset as it is for factors: trained one side at a time on all pairs, since a minibatch would
// cost as much as all nodes have numbers, with a ridge that the validation pairs choose, and from one start, since more
// would not tell exposure from factors.
func (s Settings) ofFactors() Settings {
	s.Optimiser, s.Starts = alternating, []float64{lowPropensity}
	s.Search = Search{Axes: []Axis{{"ridge", []float64{.0625, .25, 1, 4}}}}
	s.LBFGS.Tolerance = 3e-4 // a tenth of it takes twice as long and ranks no better
	return s
}

// lowPropensity is where the propensities of factors begin: below where they end, since moved one side at a time they
// may go too far, and from near 1, where nothing is hidden, there is no way back.
const lowPropensity = .1

// validateFactors refuses what factors cannot do.
func (s Settings) validateFactors(m method) error {
	if m.bayes && ofFactors(s.Link) {
		return hint.Wrap(fmt.Errorf("%w: bayes has no posterior of the link model %s; it has one of diagonal alone",
			ErrSetting, s.Link), "set %v to mle, with %v for intervals, or %v to diagonal", hint.Setting("method"),
			hint.Setting("replicates"), hint.Setting("link"))
	}
	switch {
	case !ofFactors(s.Link) || s.Replicates <= 0:
		return nil
	case s.Optimiser == "adam":
		return hint.Wrap(fmt.Errorf("%w: factors are not learned again by adam, which stops by validation pairs",
			ErrSetting), "set %v to %s, or leave %v out", hint.Setting("optimiser"), alternating,
			hint.Setting("replicates"))
	case s.Replicates == 1:
		return hint.Wrap(fmt.Errorf("%w: one replicate has nothing to differ from", ErrSetting),
			"set %v to 2 or more; 20 are enough", hint.Setting("replicates"))
	}
	return nil
}

// vanished reports whether a tight prior has shrunk factors to less than half of the size of a fresh start's: at 0 they
// would stay, whatever the prior, since each side's slope is the other's size.
func vanished(link model.LinkModel, params, fresh []float32) bool {
	square := func(x []float32) (sum float64) {
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		return sum
	}
	from := 0
	for _, part := range link.(model.Layout).Parts() {
		to := from + part.Size()
		if (part.Name == "u" || part.Name == "v") && square(params[from:to]) < square(fresh[from:to])/4 {
			return true
		}
		from = to
	}
	return false
}

// factorSquare is MeanSquare of factors: the mean ‖h_j‖² of some targets, which A multiplies; 1 where there is no A.
func factorSquare(link model.LinkModel, p *graph.Pairs) float64 {
	const sampled = 64
	grad, params := make([]float32, link.Size()), make([]float32, link.Size())
	from, to := 0, 0
	for _, part := range link.(model.Layout).Parts() {
		switch part.Name {
		case "u": // ∂z/∂A is then h_j, in the first row
			for i := 0; i < part.Size(); i += part.Shape[1] {
				params[i] = 1
			}
		case "A":
			to = from + part.Size()
		}
		if to > 0 {
			break
		}
		from += part.Size()
	}
	if to == 0 || p.Len() == 0 {
		return 1
	}
	square, pairs := 0., min(p.Len(), sampled)
	for i := range pairs {
		k := i * p.Len() / pairs
		clear(grad[from:to])
		link.Backward(grad, params, model.Batch{Sources: p.Source[k : k+1], Targets: p.Target[k : k+1]}, []float32{1})
		for _, g := range grad[from:to] {
			square += float64(g) * float64(g)
		}
	}
	return max(square/float64(pairs), 1e-30)
}

// targetPrecision is the prior precision of the effects of targets: items differ more in how many they please than
// people in how readily they link, for whom it is model.SourcePrecision.
const targetPrecision = .3

// factorPriors returns the precision of every parameter of a link model with factors, under which ⟨u, v⟩ and ⟨u, A·h⟩
// have the prior variance ridge each; b is free. A sum of r products of two normals of
// precision p has the variance r/p².
func factorPriors(link model.LinkModel, meanSquare, ridge float64) []float64 {
	precisions := make([]float64, 0, link.Size())
	for _, part := range link.(model.Layout).Parts() {
		precision := 0.
		switch part.Name {
		case "u", "v":
			precision = math.Sqrt(float64(part.Shape[1]) / ridge) // as model.Factors.Precision
		case "A":
			precision = math.Sqrt(float64(part.Shape[0])/ridge) * meanSquare
		case "b_source":
			precision = model.SourcePrecision
		case "b_target":
			precision = targetPrecision
		}
		for range part.Size() {
			precisions = append(precisions, precision)
		}
	}
	return precisions
}

// factorScale returns about how well every parameter is known: 1/√(prior precision + information), for optimisers to
// work in units of it. Without it people with a thousand links and people with one would share a step.
func factorScale(o *engine.Objective, meanSquare, ridge float64) []float64 {
	if ridge <= 0 {
		ridge = 1
	}
	// The gradient of Σz at 0 counts the pairs of every source and target, in their effects.
	counts, none := make([]float32, o.Link.Size()), make([]float32, o.Link.Size())
	ones := make([]float32, min(o.Pairs.Len(), 1<<12))
	for k := range ones {
		ones[k] = 1
	}
	for from := 0; from < o.Pairs.Len(); from += len(ones) {
		to := min(from+len(ones), o.Pairs.Len())
		o.Link.Backward(counts, none, model.Batch{Sources: o.Pairs.Source[from:to], Targets: o.Pairs.Target[from:to]},
			ones)
	}
	at := map[string][]float32{}
	for _, part := range o.Link.(model.Layout).Parts() {
		at[part.Name], counts = counts[:part.Size()], counts[part.Size():]
	}
	const perPair = .125 // about ŷ(1−ŷ)
	scale := factorPriors(o.Link, meanSquare, ridge)
	rest := scale
	for _, part := range o.Link.(model.Layout).Parts() {
		for i := range part.Size() {
			var information float64
			switch part.Name {
			case "u", "v":
				rank := part.Shape[1]
				count := at[map[string]string{"u": "b_source", "v": "b_target"}[part.Name]][i/rank]
				information = float64(count) * math.Sqrt(ridge/float64(rank))
			case "A":
				information = float64(o.Pairs.Len()) * meanSquare / float64(part.Shape[1]) *
					math.Sqrt(ridge/float64(part.Shape[0]))
			default:
				information = float64(at[part.Name][i])
			}
			rest[i] = 1 / math.Sqrt(rest[i]+perPair*information+1e-12)
		}
		rest = rest[part.Size():]
	}
	return append(scale, propensityScale(o, perPair)...)
}

// propensityScale is the same of the propensity's parameters: logits of fields and effects of nodes are known by the
// pairs that have them, the slopes of activity by all, and what else there is by its share of them.
func propensityScale(o *engine.Objective, perPair float64) []float64 {
	pairs, size := float64(o.Pairs.Len()), float64(o.Propensity.Size())
	priors := propensityPriors(o, unloggedOf(o))
	if priors == nil {
		return slices.Repeat([]float64{1 / math.Sqrt(1+perPair*pairs/size)}, o.Propensity.Size())
	}
	scale := sumOfLogits(o.Propensity, o.Pairs)
	rest := scale
	for number, part := range o.Propensity.(model.Layout).Parts() {
		for i := range part.Size() {
			count := math.Abs(rest[i])
			if part.Name == string(model.Activity) {
				count = pairs
			}
			if number == 0 && o.Tied { // what moves as one is of one size
				count = pairs / float64(part.Size())
			}
			rest[i] = 1 / math.Sqrt(max(priors[len(priors)-len(rest)+i], 1e-3)+perPair*count)
		}
		rest = rest[part.Size():]
	}
	return scale
}

// sumOfLogits is the gradient at 0 of the sum of a model's logits over pairs.
func sumOfLogits(m model.PairModel, p *graph.Pairs) []float64 {
	sum, none := make([]float32, m.Size()), make([]float32, m.Size())
	ones := make([]float32, min(p.Len(), 1<<12))
	for k := range ones {
		ones[k] = 1
	}
	for from := 0; from < p.Len(); from += len(ones) {
		to := min(from+len(ones), p.Len())
		m.Backward(sum, none, model.Batch{Sources: p.Source[from:to], Targets: p.Target[from:to]}, ones)
	}
	out := make([]float64, len(sum))
	for i, x := range sum {
		out[i] = float64(x)
	}
	return out
}

// validation returns the pairs that settings are chosen and training is stopped by, and which training pairs these are.
// Of factors they are pairs of the same sources: a source that is not trained has none. A method that learns from shown
// pairs is judged by such pairs, with their log.
func (t *training) validation() (sample.Evidence, sample.Holdout) {
	p := t.problem
	if ofFactors(t.settings.Link) {
		return p.SplitPairs()
	}
	if t.method.shown || p.EveryShown {
		p.Validation = nil
	}
	return p.SplitValidation()
}

// standFor returns for how many pairs the prior of an objective counts once, of so many that are trained with. A
// weighted likelihood is that of all pairs that they stand for; the priors of models other than factors are in units of
// the sample.
func standFor(o *engine.Objective, trained int) int64 {
	if o.Likelihood != engine.Weighted || !ofFactors(o.Link.Kind()) {
		return int64(trained)
	}
	var sum risk.Sum
	for _, w := range o.Pairs.Weight {
		sum.Add(w)
	}
	return weightOf(sum.Value() * float64(trained) / float64(max(o.Pairs.Len(), 1)))
}

// shownPairs returns the training pairs as the method shown sees them.
func shownPairs(p sample.Problem) (*graph.Pairs, error) {
	counts := NewLogCounts(p.Nodes.Len())
	counts.Add(p.Training())
	rates, err := counts.ShownRates()
	return rates.Of(p.Train, p.Exposure), err
}
