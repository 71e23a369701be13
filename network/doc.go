// Package network opens a dataset together with the models that were fitted to it: what every use of a trained model
// begins with.
//
//	dataset ──► Network ──► Fitted (a model, and the pairs it was fitted to) ──► Recommender
//	                                                                        └──► the pairs that were held out
//
// A model says which files it was fitted to and how its pairs were sampled. Both are compared with the dataset, so that
// a model of other data is refused instead of giving numbers that mean nothing.
//
//	n, err := network.Open(ctx, "papers", dataset.OpenOptions{})
//	m, err := n.Model(ctx, "model.safetensors")
//	r, err := m.Recommender(ctx, nil, recommend.Options{})
//	list, err := r.Top(ctx, recommend.Query{Source: r.Node(7), K: 10})
package network
