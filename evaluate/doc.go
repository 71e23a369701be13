// Package evaluate measures recommendations against links.
//
// Three nouns hold what is measured against links,
//
//	Scored   pairs with a score and the truth      AUC, average precision, precision, recall, F1, accuracy, curves
//	Ranking  where each source's true links came   MRR, NDCG@K, recall@K, mean rank, field entropy@K
//	Lists    what each source was recommended      coverage@K, Gini of exposure over fields@K
//
// Candidates rank everything that a held-out source could have linked to, and PairedBootstrap tells whether one
// method's metric differs from another's over the same sources,
//
//	candidates, err := evaluate.NewCandidates(drawn, graph.Test)
//	standings, err := candidates.Rank(ctx, result.Judge(), evaluate.RankSettings{})
//	recall, err := standings[0].Ranking.Recall(100)
//
// and two say how far a model's own risk can be trusted:
//
//	Panel        every estimator's opinion with its interval, what biases it, and which errors of π̂ it survives
//	Certificate  what the method finds on the same nodes when a known truth is planted there
//
// ValuePolicy says by a log of lists what another policy, a model or a rule, would have been worth, or why the log
// cannot say. Fairness sets the attention that groups of targets are given beside what they deserve, and Bootstrap
// gives any measure over sources an interval.
//
// In five lines:
//
//	pairs := evaluate.Scored{
//		Scores: []float64{.9, .8, .3, .1},
//		Linked: []bool{true, false, true, false},
//	}
//	auc, err := pairs.AUC() // 0.75: three of the four (linked, unlinked) pairs are in order
//
// "Linked" is whatever truth the caller holds. Against observed links these metrics reward a model
// for repeating past exposure; against planted or corrected truth they do not. The choice is the
// caller's, and worth saying aloud beside every figure.
//
// # Ties
//
// AUC counts a tied pair as half in order. Average precision treats all pairs of one score as found
// at once, as scikit-learn does: one step of the curve per distinct score. Neither depends on the
// order of the pairs. A ranking puts equal scores in order of target number, lowest first, because a
// list that somebody is shown has an order; so a model that scores many targets alike is judged by
// how they happen to be numbered.
//
// # Errors
//
// A metric that has no value (no linked pair, nothing predicted, no list) is an error that wraps one
// of the Err values below, never NaN. Infinite scores are welcome, since they only rank first or
// last; NaN is not.
package evaluate
