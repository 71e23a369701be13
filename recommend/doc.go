// Package recommend is what a person came for: the best targets for a node or for a new text, why each is
// there, and what exposure had hidden.
//
//	query ── q·h_j + offset ──► ŷ of every candidate ──► the K best ──► items with ŷ, π̂, the naive rank, the reason
//	                                                 └─► drawn by ŷ: each with its probability of being shown
//
// The search is exact: an inner product with every vector, which for the diagonal model means one pass over
// them with the query w⊙h_i. Training changes the query and never the vectors.
//
//	r, err := recommend.New(g, m, recommend.Options{Naive: &naive})
//	list, err := r.Top(ctx, recommend.Query{Source: r.Node(7), K: 10})
//	for _, item := range list.Items {
//		fmt.Println(item.Rank, item.NaiveRank, item.Title, item.Link, item.Propensity)
//	}
//
// Items are ranked by ŷ = P(link | shown): what would be linked to if everything were shown. Where several assumptions
// explain the links as well, the order is that of their mean (model.Model.Ranker has the rule), ŷ and π̂ are those of
// the published model, and the list's Agreement says on how many of its first 10 all of them agree. Ranked by π̂ŷ, the
// probability that a link is seen, the list repeats past exposure; it is there for comparison and says so.
//
// Bridges go by the published ŷ alone.
//
// # Speed
//
// Lists are exact. Options.Sketched, for a program that answers more than a few queries, reads a copy of the vectors of
// a byte per number, with a bound for every inner product, and of the vectors only what the copy leaves open: the same
// lists in about a quarter of the time.
//
// # Diversity and exploration
//
// Two dials move a list away from pure relevance. Diversity re-ranks what is best (maximal marginal
// relevance, Carbonell and Goldstein, 1998), so that a list is not ten times the same. Explore draws some
// places by chance, where that teaches most, and stamps every item with its probability of being shown: whoever
// logs that knows π later instead of guessing it.
//
// What they cost is measured: Sweep makes lists of held-out sources at every setting, and a Dial of sweeps shows
// Recall@K against the entropy of the lists' fields, with intervals and in words.
//
//	sweep, err := r.Sweep(ctx, recommend.SweepSettings{K: 10, Held: held})
//	dial, err := recommend.NewDial([]*recommend.Sweep{sweep}, held, 0, 1)
//	fmt.Println(dial.Words()) // … x = .3 gives up 2.1 points of Recall@10 (1.1 to 3.1) for 0.40 nats of entropy …
package recommend
