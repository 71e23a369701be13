package world

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"unseen/graph"
)

// Plant makes a world of a graph that has vectors and fields: the texts and fields are real, and
// what links and exposure obey is known. The direction of w comes from weights, such as those of a
// model fitted to the graph's own links, or is drawn when weights is nil; its length, b and π follow
// from the scenario. The world keeps the graph, and with it the vectors.
func Plant(ctx context.Context, g *graph.Graph, weights []float32, p Scenario) (*World, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.WithDefaults()
	switch {
	case g == nil:
		return nil, fmt.Errorf("%w: there is none; give one with vectors", ErrGraph)
	case g.Len() < 2:
		return nil, fmt.Errorf("%w: it has %d nodes and so no pairs; give at least 2 nodes", ErrGraph, g.Len())
	case g.Vectors() == nil:
		return nil, fmt.Errorf("%w: it has no vectors; encode its texts and attach them with WithVectors",
			ErrGraph)
	case g.Vectors().Len() != g.Len():
		return nil, fmt.Errorf("%w: it has %d nodes and %d vectors; close the vectors after their last use",
			ErrGraph, g.Len(), g.Vectors().Len())
	case g.FieldCount() > mostFields:
		return nil, fmt.Errorf("%w: it has %d fields, and a propensity for every pair of them; merge them to %d or "+
			"fewer", ErrGraph, g.FieldCount(), mostFields)
	case weights == nil:
		weights = drawWeights(p.Seed, g.Vectors().Dim(), 0)
	case len(weights) != g.Vectors().Dim():
		return nil, bad("%d weights for vectors of dimension %d; give one per dimension, or nil to draw them",
			len(weights), g.Vectors().Dim())
	}
	zero := true
	for d, x := range weights {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, bad("weight %d is %v; give finite weights, or nil to draw them", d, x)
		}
		zero = zero && x == 0
	}
	if zero {
		return nil, bad("all weights are 0; give weights that are not all 0, or nil to draw them")
	}
	return settle(ctx, g, weights, p)
}

// mostFields bounds the table of propensities, at 128 MiB.
const mostFields = 4096

// drawWeights draws w_d ~ N(mean, 1).
func drawWeights(seed uint64, dim int, mean float64) []float32 {
	src := rand.New(newStream(seed, weightStream, 0))
	weights := make([]float32, dim)
	for d := range weights {
		weights[d] = float32(mean + src.NormFloat64())
	}
	return weights
}
