// Package gpu is an engine on a graphics card of NVIDIA's: sums over all pairs of sources and targets, however many,
// the likelihood over all pairs with its gradient, the best targets of many sources, and the sums over pairs of a
// sample that bayes needs.
//
//	card, err := gpu.Open(0)
//	e, err := gpu.New(card, gpu.Settings{Format: gpu.BFloat16})
//	means, err := e.AllPairs(ctx, g, predictor, graph.Universe{}, 0)
//
// It needs the driver and nothing else: that is loaded when a card is opened, without cgo, and the kernels are
// embedded, made by gpu/make-kernels from kernels. Nothing but the command line imports it; a program that does not is
// the same without it. On a machine with a card gpu/prove runs every test and measurement.
//
// Rows are kept in float32, float16 or bfloat16, in the order of fields, so that most tiles of pairs have one π̂ for
// each direction. Sums and lists take blocks of rows where the card has no room for all. Of a diagonal model one
// product serves both directions of a pair. Products, logits and losses are in float32 and added up in float64, in an
// order that depends on the card and its memory alone: the same sums on every run. Lists are found by products in
// float16 and ordered by scores in float32, with a bound that shows what rounding may have hidden.
package gpu
