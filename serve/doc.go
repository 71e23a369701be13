// Package serve is the recommender as a service: an HTTP API and pages, a log of what was shown, retraining on that
// log, deployment of models without downtime, A/B tests, and an alarm when recommendations drift.
//
//	          ┌──────── recommend: list id, items, each with P(shown) ────────┐
//	client ───┤                                                               ├──► event log
//	          └──────── events: shown, clicked, linked ───────────────────────┘        │
//	   ▲                                                                               │
//	   └── live model ◄── validated, deployed ◄── retrained: exposure has known P ◄────┘
//
// Every list explores a little: a share of its positions is drawn at random, from a seed that is part of the
// list's id. So every item has a known probability of being shown, and the service learns from its log without
// guessing exposure.
//
//	s, err := serve.Open(ctx, serve.Options{Folder: "unseen-demo"})
//	defer s.Close()
//	list, err := s.Recommend(ctx, serve.RecommendRequest{Node: "p7", K: 10})
//	job, err := s.StartJob(serve.JobRequest{Kind: "retrain"})
//	err = s.Run(ctx, serve.ServerOptions{Address: "127.0.0.1:8080"})
//
// # Files
//
//	dataset/            the network, never written to
//	model.safetensors   the first model, with model.safetensors.evaluation.json, its evaluation, if there is one
//	naive.safetensors   a naive model to compare with, if there is one
//	models/             all registered models by digest, and registry.json
//	events.db           the event log, unless it is in PostgreSQL
//	jobs.json           the jobs
//	watch.json          how far the log was read, and the state of the drift alarm
//	audit.log           who changed what
package serve
