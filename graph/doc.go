// Package graph holds the network that recommendations are learned from: nodes with a field, a
// time, a title and a vector; directed links between them; the order in which they came to be; and
// samples of ordered pairs that say what they stand for.
//
// A link goes from the newer node to the older one: the source cites, depends on or points to the
// target. So the order is oldest first, every target before its sources, and a split cuts it twice:
//
//	oldest ──────────────────────────────────────► newest
//	  c ◄───── b ◄─────── a ◄──────── d ◄───── e          e links to d, d to a, …
//	└──────── train ────────┘└─ validation ─┘└─ test ─┘
//
//	a link belongs to the subset of its source; its target lies in that subset or an earlier one
//
// Of n nodes there are n(n−1) ordered pairs and few are links, so learning sees every link and some
// of the unlinked pairs. A [Universe] says which pairs count, [Sample] draws from them, and each of
// the resulting [Pairs] carries two numbers: Weight = 1/P(in the sample), which makes
//
//	(1/|U|) Σ Weight·f   an unbiased estimate of   (1/|U|) Σ_U f        (Horvitz and Thompson, 1952)
//
// and Rate = r = P(in the sample, were it unlinked)/P(in the sample, were it linked), which the
// case-control likelihood adds to the logit: logit P(linked | sampled) = logit(πy) + log(1/r).
//
//	var b graph.Builder
//	b.AddNode(graph.Node{ID: "old", Field: "physics"})
//	b.AddNode(graph.Node{ID: "new", Field: "biology"})
//	b.AddLink("new", "old")
//	g, report, err := b.Build()
//
// # Fields
//
// What is learned about exposure is learned per pair of fields, so every node needs one. Where the data
// has none, a program finds them in a separate step, which reports what it did:
//
//	found, report, err := g.FieldsByVectors(ctx, graph.Clustering{Fields: 19, Seed: 1})
//	found, report, err := g.FieldsByLinks(ctx, graph.Communities{Split: split, MinSize: 50, Seed: 1})
//
// The first groups nodes with like vectors (k-means), the second nodes with many training links among
// them (Louvain). Both return the same graph with other fields, the largest first, and leave nodes
// without vectors or links in [UnknownField]. Store [FieldReport].Found with what is learned from such fields. Every
// node has a vector, but under a split no node of validation or test has a training link, so none of them
// gets a field by links.
//
// # People and items
//
// Every node has a [Role]. Papers are sources and targets; people are sources only and items targets only. A universe
// is then the rectangle of [Graph.Sources] and [Graph.Targets], and so is everything that is sampled or summed over it.
// Links can have times (Builder.AddLinkAt), by which a split can hold out the last links of every source.
//
// # Sizes
//
// A node is an int32 index, in the order of AddNode. Its field is a uint16: what is learned per pair
// of fields grows with the square of their number, so 65,535 names are more than can be used, and
// two bytes instead of four are kept per node. A time is kept as seconds since 1970 in an int64, a
// title and an id as bytes of one long string. Links are two compressed sparse row (CSR) tables,
// from source to targets and from target to sources. That is 8 bytes per link, 16 with times, and
// about 40 per node, 48 with times; 2.4 million nodes and 7.6 million links take about 180 MB and the
// text of their ids and titles.
//
// # Errors and panics
//
// Whatever can come from data (an unknown id, a link from a node to itself, a vector that is not a
// number, an impossible share) is an error that wraps one of the sentinels of this package, names the
// thing and says what to do. A node index given to an accessor of [Graph], [Order] or [Split] comes
// from the program: as with a slice, an index out of range panics.
//
// A Graph, an Order and a Split never change once made and may be read by many goroutines; a
// Builder, Vectors and Pairs belong to one at a time.
package graph
