// Package engine does what is heavy: everything that grows with the number of pairs.
//
//	fit ──► Gradient, Minibatch   of an Objective over pairs of a sample
//	    ──► AllPairs              sums over all ordered pairs of a graph
//
// An Engine is the one seam for scale. CPU is the engine on this machine's processor; a graphics card and a
// cluster have engines of their own, and all agree within rounding.
//
//	parts, err := engine.CPU{}.Gradient(ctx, &engine.Objective{
//		Link: link, Propensity: propensity, LambdaL: 1, Pairs: pairs,
//	}, params, grad)
//
// Sums are made in fixed portions, so that results do not depend on the number of threads.
package engine
