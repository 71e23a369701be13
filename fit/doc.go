// Package fit learns both halves of a recommender from pairs of nodes: ŷ = P(link | exposed) and
// π̂ = P(exposed), when only links are seen.
//
//	pairs (o, weight, rate) ──► objective: λ_L·likelihood + λ_R·risk + prior ──► Adam or L-BFGS ──► Result
//	                       └──► bayes: the posterior of both halves, every hyperparameter learned ──┘
//
// Fit does it by the name of a method: naive (no propensity), mle (likelihood alone), rw, pu and ap
// (likelihood and one of the paper's risks), dr (where exposure is logged), any scheme registered
// with package risk, and bayes, the default.
//
//	prepared, err := sample.Prepare(ctx, g, sample.Options{})
//	result, err := fit.Fit(ctx, prepared.Problem, fit.Settings{Seed: 1})
//	fmt.Println(result.Starts[0].MeanLink, result.Warnings)
//	m, err := result.Model()
//	err = model.Save("model.safetensors", m)
//
// Package sample plans the pairs and makes the Problem; network.Network.Prepare does it for a dataset.
//
// # bayes
//
// A point estimate of the link model's weights is shrunk, so that hardly any ŷ comes near 1; the
// likelihood then explains the links that are missing there by exposure, and takes π̂ for larger
// than it is. bayes therefore keeps a normal distribution of the weights and averages every pair's
// likelihood over it, in turn with the mode of the propensities and with the prior's own
// parameters. Its ŷ is the point model that comes closest to the posterior's own probability.
//
// Where the vectors have more than 4096 dimensions, too many for a matrix over them, the normal
// distribution is kept as a few hundred draws; see Posterior.
//
// From more than half a million pairs, or those whose products would take over a gigabyte, bayes learns in two steps:
// the whole posterior of a part, then the mode of all pairs by a few passes over them. What is found from a part, the
// information and the simulated histories, counts with its own error.
//
// # Search
//
// The other methods have settings to choose. A Search tries a grid of them, or a sample of its points, and
// takes those under which the validation pairs are likeliest.
//
//	s.Search.Axes = []fit.Axis{{Name: "lr", Values: []float64{1e-3, 1e-2}},
//		{Name: "lambda-r", Values: []float64{1, 10}}}
//
// # Checkpoints
//
// With Settings.Checkpoint, training that was killed or cancelled resumes where it was, and ends in
// the same bits as if it had not been interrupted.
//
//	s.Checkpoint = fit.Checkpoint{Path: "model.checkpoint", Resume: interrupted}
//
// # The doctor
//
// Only π·y is seen, and pairs whose y comes near 1 separate π from y. Diagnose, the last step of every
// Fit, says how far they do, by a class: identified, weak, not identified. bayes also tests what the
// model assumes of exposure (Refutation), and fits other assumptions to the same links: what all that
// explain them as well would claim is the ClaimSet. Settings.Doctor leaves this out. Besides, the
// findings have the error of log mean ŷ, the support of every field pair, how the starts agree, what
// would change along the ridge of equal likelihood, and, where exposure was logged, whether the log
// agrees. A Judge gives any risk an interval that counts what is not known of π̂ and ŷ.
//
// # The engine
//
// An engine, Settings.Engine, does the heavy computations: the processor unless another is given. It sums in fixed
// portions, so that the result does not depend on the number of threads.
//
// Where pairs are elsewhere, in shards, Settings.Objective needs only their Extent, engine.CPU.Sum sums a
// shard, Objective.Join makes the objective of all sums, and a Descent trains with an
// engine that combines them. bayes learns from a Population: FitPopulation draws a part of the pairs and asks for sums
// over all of them.
package fit
