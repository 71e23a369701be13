package model

import (
	"fmt"
	"strings"
)

// PropensityOptions are the options of propensity models. Zero means the default.
type PropensityOptions struct {
	// of low-rank-fields; 4, or the number of fields where that is less
	Rank       int     `json:"rank,omitempty"`
	Hidden     int     `json:"hidden,omitempty"`     // units of mlp; 16
	Directed   bool    `json:"directed,omitempty"`   // mlp: s_ij and s_ji differ
	Propensity float64 `json:"propensity,omitempty"` // of constant; 1
	// of known, for pairs that are not among the exposures; 0: not shown
	Rest      float64         `json:"rest,omitempty"`
	Exposures []KnownExposure `json:"-"` // of known
}

var propensityKinds = map[string]func(Nodes, PropensityOptions) (PropensityModel, error){
	"field-matrix": func(n Nodes, _ PropensityOptions) (PropensityModel, error) { return NewFieldMatrix(n) },
	"low-rank-fields": func(n Nodes, o PropensityOptions) (PropensityModel,
		error) {
		return NewLowRankFields(n, o.Rank)
	},
	"mlp": func(n Nodes, o PropensityOptions) (PropensityModel, error) {
		return NewFieldMLP(n, o.Hidden, o.Directed)
	},
	"known": func(n Nodes, o PropensityOptions) (PropensityModel, error) { return NewKnown(n, o.Exposures, o.Rest) },
	"constant": func(_ Nodes, o PropensityOptions) (PropensityModel, error) {
		if o.Propensity == 0 {
			o.Propensity = 1
		}
		return NewConstant(o.Propensity)
	},
}

// PropensityKinds returns the names that NewPropensity takes, in alphabetical order. Each may have
// terms behind it, such as "+popularity+age".
func PropensityKinds() []string { return sortedNames(propensityKinds) }

// NewPropensity returns the propensity model of a kind, such as "field-matrix" or
// "field-matrix+text+popularity". Options that the kind does not have are ignored.
func NewPropensity(kind string, n Nodes, options PropensityOptions) (PropensityModel, error) {
	words := strings.Split(kind, "+")
	make, ok := propensityKinds[words[0]]
	if !ok {
		return nil, fmt.Errorf("%w: propensity model %q; have %s, each with any of +%s", ErrKind, kind,
			strings.Join(PropensityKinds(), ", "), termNames(", +"))
	}
	propensity, err := make(n, options)
	if err != nil {
		return nil, err
	}
	if len(words) == 1 {
		return propensity, nil
	}
	var terms []Term
	for _, word := range words[1:] {
		terms = append(terms, Term(word))
	}
	covariates, err := NewCovariates(propensity, n, terms...)
	if err != nil {
		return nil, err
	}
	return covariates, nil
}
