package world

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/hint"
	"unseen/internal/normal"
	"unseen/model"
)

// Violations breaks assumptions of the models that learn exposure from links, each as far as its number says. The
// zero value breaks none: π is a matter of the two fields, y is logistic in the texts, and exposure and relevance are
// drawn independently. (Scenario.Ceiling breaks one more, that y comes near 1.)
//
//	π_ij = σ(logit π[field of i, field of j] + Text·z + Popularity·ε_j + Age·(decades that j is older than i) + level)
//	y_ij = Ceiling·F(z + Quality·η_j)
//
// with z = wᵀ(h_i⊙h_j) + b of the texts, and ε and η standard normal, drawn once per target. BaseRate and OracleAUC
// are met under any Response, before Quality adds to z. Same and Cross are ranges of π before anything is added.
type Violations struct {
	// Text, from 0 to 1, shows more of what is relevant by its text. The level keeps the mean of π over all pairs at
	// what it is without Text.
	Text float64 `json:"text,omitempty"`
	// Popularity shows some targets more than others, whatever their texts and fields.
	Popularity float64 `json:"popularity,omitempty"`
	// Age shows older targets more, or less where it is negative. Nodes need times.
	Age float64 `json:"age,omitempty"`
	// Quality makes some targets more relevant than others, whatever their texts.
	Quality float64 `json:"quality,omitempty"`
	// Dependence, between −1 and 1, is the correlation of two normal variables of which one decides exposure and the
	// other relevance (a Gaussian copula). Above 0, what is shown is relevant more often than y says. π and y stay the
	// probabilities of exposure and of relevance.
	Dependence float64 `json:"dependence,omitempty"`
	// Response is F: Logit, Probit or Cauchit; "" means Logit.
	Response string `json:"response,omitempty"`
}

// How y depends on z, from the lightest tails to the heaviest: F(z) is the normal, logistic or Cauchy distribution's.
const (
	Probit  = "probit"
	Logit   = "logit"
	Cauchit = "cauchit"
)

const maxTerm = 100 // standard deviations, or per decade: far beyond where every π or y is 0 or 1

func (v Violations) validate() error {
	for _, term := range []struct {
		name        string
		value       float64
		least, most float64
	}{
		{"text", v.Text, 0, 1},
		{"popularity", v.Popularity, 0, maxTerm},
		{"age", v.Age, -maxTerm, maxTerm},
		{"quality", v.Quality, 0, maxTerm},
	} {
		if !(term.value >= term.least && term.value <= term.most) {
			return hint.Wrap(bad("the violation %s is %v", term.name, term.value),
				"set %v to %s with a number from %v to %v", hint.Setting("violations"), term.name, term.least,
				term.most)
		}
	}
	if !(v.Dependence > -1 && v.Dependence < 1) {
		return hint.Wrap(bad("the violation dependence is %v, and a correlation", v.Dependence),
			"set %v to dependence with a number between −1 and 1", hint.Setting("violations"))
	}
	if _, known := responses[v.Response]; !known {
		return hint.Wrap(bad("the violation response is %q", v.Response), "set %v to response with %s, %s or %s",
			hint.Setting("violations"), Logit, Probit, Cauchit)
	}
	return nil
}

// byFields says whether exposure is a matter of fields alone.
func (v Violations) byFields() bool { return v.Text == 0 && v.Popularity == 0 && v.Age == 0 }

// response is F, its derivative and its inverse.
type response struct{ at, slope, inverse func(float64) float64 }

// responses are those there are. The logistic one is nil: it has faster kernels.
var responses = map[string]*response{
	"": nil, Logit: nil,
	Probit: {
		at:      normal.Chance,
		slope:   func(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) },
		inverse: normal.Quantile,
	},
	Cauchit: {
		at:      func(z float64) float64 { return math.Atan2(1, -z) / math.Pi }, // ½ + arctan(z)/π, exact in the tail
		slope:   func(z float64) float64 { return 1 / (math.Pi * (1 + z*z)) },
		inverse: func(p float64) float64 { return -1 / math.Tan(math.Pi*p) },
	},
}

// terms is what π depends on where that is not fields alone:
//
//	π = share·σ(fields[of i, of j] + text·z + source_i + target_j + level)
type terms struct {
	fields         []float64 // logits, row by row of the source's
	text, level    float64
	source, target []float64 // by node
	share          float64   // what Thinned left
}

// leastLogit keeps propensities above 0.
const leastLogit = -700

func (t *terms) propensity(cell int, source, target int32, z float64) float64 {
	s := t.fields[cell] + t.text*z + t.source[source] + t.target[target] + t.level
	return t.share / (1 + math.Exp(-max(s, leastLogit)))
}

// newTerms adds to the propensities of field pairs, with the level still to be settled.
func (w *World) newTerms(v Violations, seed uint64) (*terms, error) {
	t := &terms{fields: make([]float64, len(w.propensity)), text: v.Text, share: 1,
		source: make([]float64, w.graph.Len()),
		target: drawNormal(seed, popularityStream, w.graph.Len(), v.Popularity)}
	for c, p := range w.propensity {
		t.fields[c] = math.Log(p) - math.Log1p(-p)
	}
	if v.Age != 0 {
		years := model.Ages(w.graph)
		if years == nil {
			return nil, fmt.Errorf("%w: no node has a time, and the violation age is %v; give times, or 0", ErrGraph,
				v.Age)
		}
		for i, x := range years {
			t.source[i] -= v.Age * float64(x) / 10
			t.target[i] += v.Age * float64(x) / 10
		}
	}
	return t, nil
}

// settleLevel finds the level at which the mean of π is what it is without the text's part, by pairs that stand for
// all.
func (w *World) settleLevel(sources, targets []int32, z []float64) {
	t := w.terms
	mean := func() float64 {
		var sum float64
		for k, i := range sources {
			sum += t.propensity(w.cell(i, targets[k]), i, targets[k], z[k])
		}
		return sum / float64(len(sources))
	}
	text := t.text
	t.text = 0
	wanted := mean()
	t.text = text
	off := func(level float64) float64 {
		t.level = level
		return mean()/wanted - 1
	}
	// With the text's part of the highest z taken off, no π is above what it was; with that of the lowest, none below.
	low, high := -text*slices.Max(z), -text*slices.Min(z)
	t.level = root(bound{low, off(low)}, bound{high, off(high)}, off)
}

// drawNormal draws a normal number of mean 0 for every node.
func drawNormal(seed uint64, stream string, n int, deviation float64) []float64 {
	src := rand.New(newStream(seed, stream, 0))
	x := make([]float64, n)
	for i := range x {
		x[i] = deviation * src.NormFloat64()
	}
	return x
}
