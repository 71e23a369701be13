package evaluate

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"unseen/fit"
	"unseen/graph"
)

// HeldOut are nodes that a model was not fitted to, with what they could have linked to.
type HeldOut struct {
	Sources []int32
	Links   [][]int32    // of each source: real links to nodes that it could have linked to
	Before  *graph.Order // candidates come before their source in it; nil: every other node is one
	Of      int          // sources there were to draw from
}

// NewHeldOut draws at most so many sources that were held out when pairs were drawn and have links. A link to a node
// that came later, as wrong dates make it, is none that a recommender could have foretold, and is left out.
func NewHeldOut(g *graph.Graph, d *fit.Drawn, most int, seed uint64) (*HeldOut, error) {
	if d.Split == nil {
		return nil, fmt.Errorf("%w: no node is held out; split the nodes when fitting", ErrEmpty)
	}
	if most < 1 {
		return nil, fmt.Errorf("%w: %d sources; give at least 1", ErrEmpty, most)
	}
	h := &HeldOut{Before: d.Before}
	possible := func(i int32) (links []int32) {
		for _, j := range g.Out(i) {
			if j != i && (d.Before == nil || d.Before.Precedes(j, i)) {
				links = append(links, j)
			}
		}
		return links
	}
	for _, i := range d.Split.Nodes(graph.Test) {
		if len(possible(i)) > 0 {
			h.Sources = append(h.Sources, i)
		}
	}
	h.Of = len(h.Sources)
	if h.Of == 0 {
		return nil, fmt.Errorf("%w: no node that is held out has a link; hold out more nodes when fitting", ErrEmpty)
	}
	rand.New(rand.NewPCG(seed, 0x4e1d)).Shuffle(h.Of, func(a, b int) { h.Sources[a], h.Sources[b] = h.Sources[b], h.Sources[a] })
	h.Sources = h.Sources[:min(most, h.Of)]
	slices.Sort(h.Sources)
	for _, i := range h.Sources {
		h.Links = append(h.Links, possible(i))
	}
	return h, nil
}
