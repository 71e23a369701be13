package encode

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"unseen/internal/kern"
)

// WeightedTerm is a word, or two, and how much it weighs.
type WeightedTerm struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// Terms returns the terms of a document that the encoder knows, the weightiest first. Their squares add up
// to 1.
func (e *LSA) Terms(d Text) []WeightedTerm {
	found := e.found(d)
	terms := make([]WeightedTerm, 0, len(found.columns))
	for k, column := range found.columns {
		terms = append(terms, WeightedTerm{found.names[column], float64(found.values[k])})
	}
	slices.SortFunc(terms, func(a, b WeightedTerm) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name))
	})
	return terms
}

// Component returns the n terms that weigh most in component k, of either sign: what the component is about.
func (e *LSA) Component(k, n int) []WeightedTerm {
	terms := make([]WeightedTerm, len(e.terms))
	row := make([]float32, e.Dim())
	for t := range terms {
		e.projection.Load(row, t)
		terms[t] = WeightedTerm{e.names[t], float64(row[k])}
	}
	slices.SortFunc(terms, func(a, b WeightedTerm) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)), cmp.Compare(a.Name, b.Name))
	})
	return terms[:min(n, len(terms))]
}

// Contribution is what a term adds to the score of two documents.
type Contribution struct {
	Name  string  `json:"name"`
	Score float64 `json:"score"`
	InA   bool    `json:"inA"`
	InB   bool    `json:"inB"`
}

// Shared reports whether both documents have the term.
func (c Contribution) Shared() bool { return c.InA && c.InB }

// ScoreTerms is a score and the terms that make it up.
type ScoreTerms struct {
	Score float64        `json:"score"`
	Terms []Contribution `json:"terms"` // the largest first; they add up to the score
}

// Explain returns the terms that make up the score z = Σ_k w_k·x_k·y_k of two documents, whose vectors are x and y and
// whose weights w are a diagonal model's, a number per component; nil means 1 each, the cosine.
//
// A vector is a sum over the terms of its document, x = Σ_t x_t, so the score is one too, in two ways:
// z = Σ_t ⟨w⊙y, x_t⟩ over the terms of the first and z = Σ_t ⟨w⊙x, y_t⟩ over those of the second. A
// term's contribution is the mean of both. All of them add up to the score; a term of one document alone
// may contribute, since components bring together words that are used together.
func (e *LSA) Explain(a, b Text, w []float32) (ScoreTerms, error) {
	if w != nil && len(w) != e.Dim() {
		return ScoreTerms{}, fmt.Errorf("%w: %d weights for %d components; give one each, or none", ErrSettings,
			len(w), e.Dim())
	}
	x, y := e.found(a), e.found(b)
	var result ScoreTerms
	side := func(of, other found) map[int32]float64 {
		weighted := slices.Clone(other.vector)
		for k := range w {
			weighted[k] *= w[k]
		}
		dots := make([]float32, len(of.columns))
		kern.Dots(dots, weighted, e.projection, of.columns)
		scores := make(map[int32]float64, len(dots))
		for k, column := range of.columns {
			scores[column] = 0
			if of.length > 0 {
				scores[column] = float64(dots[k]) * float64(of.values[k]) / of.length
			}
		}
		return scores
	}
	ofA, ofB := side(x, y), side(y, x)
	for k := range x.vector {
		weight := 1.
		if w != nil {
			weight = float64(w[k])
		}
		result.Score += weight * float64(x.vector[k]) * float64(y.vector[k])
	}
	for column, score := range ofA {
		other, shared := ofB[column]
		result.Terms = append(result.Terms, Contribution{x.names[column], (score + other) / 2, true, shared})
	}
	for column, score := range ofB {
		if _, shared := ofA[column]; !shared {
			result.Terms = append(result.Terms, Contribution{y.names[column], score / 2, false, true})
		}
	}
	slices.SortFunc(result.Terms, func(a, b Contribution) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Name, b.Name))
	})
	return result, nil
}

// found is what an encoder finds in a document.
type found struct {
	columns []int32
	values  []float32
	names   map[int32]string // by column, in the document's own words
	vector  []float32
	length  float64 // of the vector before it was brought to 1
}

func (e *LSA) found(d Text) found {
	f := found{names: map[int32]string{}, vector: make([]float32, e.Dim())}
	c := newCounter(e.buckets, e.bigrams)
	c.seen = func(bucket uint32, term []byte) {
		if column := e.column(bucket); column >= 0 && f.names[column] == "" {
			f.names[column] = string(term)
		}
	}
	f.columns, f.values = e.weights(nil, nil, c.count(d))
	kern.AddRows(f.vector, e.projection, f.columns, f.values)
	f.length = normalise(f.vector)
	return f
}
