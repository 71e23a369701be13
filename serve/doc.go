// Package serve is the recommender as a service: one binary with an HTTP API and pages, a log of what was shown, models
// that are trained anew on that log and exchanged without dropping a request, and an alarm when recommendations drift.
//
//	          ┌─────────────── recommend: list id, items, each with P(shown) ───────────────┐
//	client ───┤                                                                             ├──► log of events
//	          └─────────────── events: shown, clicked, linked ──────────────────────────────┘        │
//	   ▲                                                                                             │
//	   └── current model ◄── validated, swapped ◄── trained anew: shown is exposed, with known P ◄───┘
//
// Every list explores a little: a stated share of its places is drawn in proportion to ŷ, from a seed that is part
// of the list's id. So every item has a known probability of being shown, and what comes of it can be learned from
// without guessing.
//
//	s, err := serve.Open(ctx, serve.Options{Folder: "unseen-demo"})
//	defer s.Close()
//	list, err := s.Recommend(ctx, serve.Ask{Node: "p7", K: 10})
//	job, err := s.Start(serve.Order{Kind: "retrain"})
//	err = s.Run(ctx, serve.Listen{Address: "127.0.0.1:8080"})
//
// # What is where
//
//	dataset/            the network, never written to
//	model.safetensors   the first model; naive.safetensors, if it is there, to compare with, and
//	                    model.safetensors.evaluation.json, what it is worth
//	models/             every model that served or may serve, by digest, and registry.json
//	events.db           the log, unless it is in PostgreSQL
//	watch.json          how far the log was read, and what the alarm knows
//	audit.log           who changed what
package serve
