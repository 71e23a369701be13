package model

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// KnownExposure is a pair whose probability of being shown is known: logged by the system that showed it
// or set by an experiment. A pair that is known to have been shown has probability 1.
type KnownExposure struct {
	Source, Target int32
	Propensity     float64
}

func (e KnownExposure) compare(other KnownExposure) int {
	return cmp.Or(cmp.Compare(e.Source, other.Source), cmp.Compare(e.Target, other.Target))
}

// Known is the propensity that needs no learning: a table of pairs, and one number for all others.
// Probabilities of 0 and 1 become logits of ∓40; see [Constant].
type Known struct {
	nodes     Nodes
	exposures []KnownExposure // by source, then by target
	logits    []float32
	rest      float64
}

// NewKnown returns the propensity of a table; a pair that is not in it has the propensity rest, 0 if
// what was not logged was not shown.
func NewKnown(n Nodes, exposures []KnownExposure, rest float64) (*Known, error) {
	if !isProbability(rest) {
		return nil, fmt.Errorf("%w: a propensity of %v for pairs that are not known; give 0 to 1", ErrOption, rest)
	}
	m := &Known{n, slices.Clone(exposures), make([]float32, len(exposures)), rest}
	slices.SortFunc(m.exposures, KnownExposure.compare)
	for k, e := range m.exposures {
		if !isProbability(e.Propensity) {
			return nil, fmt.Errorf("%w: a known propensity of %v from node %d to %d; give 0 to 1", ErrOption,
				e.Propensity, e.Source, e.Target)
		}
		if !n.has(e.Source) || !n.has(e.Target) {
			return nil, fmt.Errorf("%w: a known propensity from node %d to %d of %d nodes; drop it or give the "+
				"nodes it was logged on", ErrShape, e.Source, e.Target, n.Len())
		}
		if k > 0 && e.compare(m.exposures[k-1]) == 0 {
			return nil, fmt.Errorf("%w: two known propensities from node %d to %d; keep one", ErrOption, e.Source,
				e.Target)
		}
		m.logits[k] = logit(e.Propensity)
	}
	return m, nil
}

func isProbability(p float64) bool { return p >= 0 && p <= 1 }

// has reports whether there is such a node.
func (n *Nodes) has(i int32) bool { return i >= 0 && int(i) < n.Len() }

// Kind is "known".
func (m *Known) Kind() string { return "known" }

// Size is 0: nothing is learned.
func (m *Known) Size() int { return 0 }

// Parts are none.
func (m *Known) Parts() []ParameterBlock { return nil }

// StartAt does nothing.
func (m *Known) StartAt([]float32, float64, rand.Source) {}

// Logits sets s[k] to the known logit of pair k, by binary search.
func (m *Known) Logits(s, _ []float32, b Batch) {
	rest := logit(m.rest)
	for k := range s[:b.Len()] {
		at, found := slices.BinarySearchFunc(m.exposures, KnownExposure{Source: b.Sources[k], Target: b.Targets[k]},
			KnownExposure.compare)
		if s[k] = rest; found {
			s[k] = m.logits[at]
		}
	}
}

// Backward does nothing.
func (m *Known) Backward(_, _ []float32, _ Batch, _ []float32) {}

func (m *Known) madeFor() Nodes { return m.nodes }
func (m *Known) options() any   { return PropensityOptions{Rest: m.rest} }

// tables are the known pairs, as a file keeps them.
func (m *Known) tables() []Tensor {
	n := len(m.exposures)
	sources, targets, known := make([]int32, n), make([]int32, n), make([]float64, n)
	for k, e := range m.exposures {
		sources[k], targets[k], known[k] = e.Source, e.Target, e.Propensity
	}
	shape := []int{n}
	return []Tensor{{"known.source", shape, sources}, {"known.target", shape, targets},
		{"known.propensity", shape, known}}
}

// exposuresOf is the way back from tables.
func exposuresOf(sources, targets []int32, known []float64) []KnownExposure {
	exposures := make([]KnownExposure, len(known))
	for k := range exposures {
		exposures[k] = KnownExposure{sources[k], targets[k], known[k]}
	}
	return exposures
}
