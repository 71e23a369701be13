// Package shards keeps a graph and its pairs in files that are read a few at a time, for graphs that outgrow one
// machine.
//
//	shards.json                 what there is, with the size and SHA-256 of every file
//	nodes-00003.parquet         ids and fields of a block of nodes
//	vectors-00003.npy           their vectors, float32 or float16; none where nodes have no vectors
//	links-00003-00001.parquet   all links from block 3 to block 1
//	train-00003-00001-0.parquet pairs to learn from, from block 3 to block 1: source, target, linked, weight, rate
//	test-00003-00001-0.parquet  pairs to judge by
//
// Whoever works on a shard of pairs needs the two blocks of nodes that it is about and nothing else:
//
//	┌───────────┐ targets of block 1
//	│ (3, 1)    │ ◄── vectors-00001.npy, those rows that the pairs name
//	└───────────┘
//	  ▲ vectors-00003.npy, likewise
//
// so that memory is bounded by the shard: its pairs, 25 bytes each, and the rows they name.
//
//	location := shards.Location{Root: "s3://papers/shards"}
//	manifest, err := location.Manifest(ctx)
//	part, err := location.Load(ctx, manifest, manifest.Train[0], nil, 2)
//	fmt.Println(part.Pairs.Len(), part.Nodes.Len())
//
// Root is a folder, or an address that Beam's file systems know (s3://, gs://).
package shards
