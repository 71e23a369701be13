// Package sample plans which pairs of a graph are learned from, which are held out and what each of them stands for,
// and makes the problem that package fit solves.
//
//	graph ──► Plan: split the nodes, sample pairs of each subset ──► Prepared: Problem to learn from, Test to judge by
//	  log ──►       join what is known of exposures
//
// Prepare does it in one call:
//
//	origin := sample.Origin{Files: d.Manifest().Checksums(), Plan: sample.Plan{Seed: 1}}
//	prepared, err := sample.Prepare(ctx, d.Graph(), sample.Options{Origin: origin})
//	result, err := fit.Fit(ctx, prepared.Problem, fit.Settings{Seed: 1})
//
// Here d is an open dataset; network.Network.Prepare is the same with the files and the log of one filled in.
//
// An Origin says which files, which fields and which plan the pairs came from. A model keeps its origin, so that the
// same pairs can be sampled again, and so that the model is refused with a dataset that it was not fitted to.
//
// A Problem can also be made of other pairs. Its model can recommend, but cannot be evaluated on pairs that a dataset
// holds out.
//
//	problem := sample.Problem{Nodes: model.NodesOf(g), Train: pairs}
package sample
