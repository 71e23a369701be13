// Package index finds the targets with the largest inner products without looking at all of them.
//
//	web, err := index.Build(ctx, vectors, index.Options{})
//	hits, err := web.Top(index.Walk{Targets: vectors, Query: engine.SearchQuery{Vector: q}, K: 100, Width: 300})
//	err = web.Save("papers/index.bin", sum)
//
// A Web links every row to rows near it in many directions, and a walk from link to link finds the best of a query: in
// 217,000 texts it looks at some 5,000. It is made of the vectors alone. Training changes what is asked, w⊙h, and never
// the vectors, so one web serves every model until the vectors change; then Update keeps what it knows of the others.
// Walks compare codes of a byte per number; hits are compared in full, and have the scores of a scan.
//
// Many queries at once are compared with all rows of a few clusters, by block products. Every row is in the two
// clusters that miss it least.
//
// A walk may miss some of the best. How many depends on the vectors, on the model and on Walk.Width, so package
// recommend measures it, says it in every list, and makes lists exactly where too many would be missing.
package index
