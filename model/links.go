package model

import (
	"fmt"
	"slices"
	"strings"
)

// LinkOptions are the options of link models. Zero means the default.
type LinkOptions struct {
	Rank     int     `json:"rank,omitempty"`     // of low-rank, factors; 16, of low-rank at most the dimension
	Hidden   int     `json:"hidden,omitempty"`   // units of mlp; 32
	Directed bool    `json:"directed,omitempty"` // mlp: z_ij and z_ji differ
	Bonus    float64 `json:"bonus,omitempty"`    // the logit that …+bonus adds across fields; .5
}

const bonusSuffix = "+bonus"

var linkKinds = map[string]func(Nodes, LinkOptions) (LinkModel, error){
	"diagonal":       func(n Nodes, _ LinkOptions) (LinkModel, error) { return NewDiagonal(n, false) },
	"diagonal-field": func(n Nodes, _ LinkOptions) (LinkModel, error) { return NewDiagonal(n, true) },
	"low-rank":       func(n Nodes, o LinkOptions) (LinkModel, error) { return NewLowRank(n, o.Rank) },
	"mlp":            func(n Nodes, o LinkOptions) (LinkModel, error) { return NewMLP(n, o.Hidden, o.Directed) },
	factorsKind:      func(n Nodes, o LinkOptions) (LinkModel, error) { return NewFactors(n, o.Rank) },
	"cosine":         func(n Nodes, _ LinkOptions) (LinkModel, error) { return NewCosine(n) },
}

// LinkKinds returns the names that NewLink takes, in alphabetical order. Each may have "+bonus" behind
// it.
func LinkKinds() []string { return sortedNames(linkKinds) }

// NewLink returns the link model of a kind, such as "diagonal" or "mlp+bonus". Options that the kind
// does not have are ignored.
func NewLink(kind string, n Nodes, options LinkOptions) (LinkModel, error) {
	base, bonus := strings.CutSuffix(kind, bonusSuffix)
	make, ok := linkKinds[base]
	if !ok {
		return nil, fmt.Errorf("%w: link model %q; have %s, each with %s or without", ErrKind, kind,
			strings.Join(LinkKinds(), ", "), bonusSuffix)
	}
	link, err := make(n, options)
	if err != nil {
		return nil, err
	}
	if bonus {
		if options.Bonus == 0 {
			options.Bonus = defaultBonus
		}
		return NewCrossBonus(link, options.Bonus)
	}
	return link, nil
}

// NeedsVectors reports whether link models of a kind need the vectors of nodes. Factors are learned without.
func NeedsVectors(kind string) bool { return strings.TrimSuffix(kind, bonusSuffix) != factorsKind }

func sortedNames[V any](kinds map[string]V) []string {
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
