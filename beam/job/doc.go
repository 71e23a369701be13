// Package job runs what is heavy as jobs of Apache Beam, over shards of pairs and blocks of nodes.
//
//	fit.Descent ──parameters──► [shard] [shard] … ──one sum each──► group ──► sum ──► fit.Descent
//
// Cluster is engine.Engine on a cluster: Gradient is one job per evaluation. A worker reads a shard
// with the rows of its two blocks of nodes and emits one sum; the parameters come with the job. Sums
// are added in the order of the shards, so that a result depends on how the pairs were cut and on
// nothing else: not on the runner, the number of workers or retries.
//
//	cluster := &job.Cluster{Shards: location, Manifest: manifest, Runner: job.Runner{Name: "prism"}}
//	objective, err := settings.Objective(shape, manifest.Extent)
//	settings.Engine = cluster
//	found, err := fit.Descent{Objective: objective, Settings: settings}.Run(ctx)
//
// AllPairs sums over all ordered pairs, block of sources by block of targets; Judge over the held-out pairs; Recommend
// writes the best targets of every node; Import makes shards of OpenAlex's works.
//
// What is about targets and pairs in the driver's memory is computed there, without a job: TopK, and Scan by models
// that hold their vectors. So lists for single queries are those of one machine:
//
//	r, err := recommend.New(g, m, recommend.Options{Engine: cluster})
//	list, err := r.Top(ctx, recommend.Query{Source: r.Node(7), K: 10})
//
// Scan by models of Manifest.Shape, which hold no vectors, is a job: workers evaluate the pairs from the vectors of the
// shards, and the visitor sees on the driver what comes back. By it fit.Judge has intervals over held-out pairs of a
// graph whose vectors no machine can hold.
//
// Population is the training pairs of the shards for the method bayes:
//
//	result, err := fit.FitPopulation(ctx, cluster.Population(0), fit.Settings{Seed: 1})
//
// Factors trains factors of people and items side by side: Alternate has every task move some rows, with all of their
// pairs. The driver holds the factors, which travel as files. Where a log is of some pairs, workers also see views of
// them, fit.LogView, and sum what every person's pairs give. Examine says what can be said of the result.
//
//	descent, err := cluster.Factors(ctx, fit.Settings{Method: "mle", Link: "factors", Ridge: 1})
//	found, err := descent.Run(ctx)
//
// Shards may have no vectors, as ImportInteractions makes them of ids alone: factors are all that is learned of them.
//
// Minibatch, which Adam needs, is refused with engine.ErrUnsupported.
//
// # What goes wrong
//
// A shard that is missing or damaged, and a worker of another version than the driver's, fail the
// job with an error that names them. Results are written under temporary names, and what a reader
// sees is whole or not there.
package job
