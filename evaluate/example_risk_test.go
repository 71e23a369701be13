package evaluate_test

import (
	"errors"
	"fmt"

	"unseen/evaluate"
	"unseen/risk"
)

// A risk of four papers, naive and corrected.
func Example() {
	// Four papers that an author may cite: the model's probability of a link, the chance that
	// the author was shown the paper, and whether a citation is seen.
	link := []float64{.9, .8, .7, .2}
	shown := []float64{.9, .3, .9, .9}
	cited := []bool{true, false, true, false}

	var pairs []risk.Pair
	for i := range cited {
		belief, err := risk.FromProbabilities(link[i], shown[i])
		if err != nil {
			panic(err)
		}
		seen := risk.Observation{Linked: cited[i]}
		pairs = append(pairs, risk.Pair{Observation: seen, Belief: belief, Weight: 1, Source: i})
	}
	naive, err1 := risk.Estimator{Scheme: risk.Naive{}}.Estimate(pairs)
	corrected, err2 := risk.Estimator{Scheme: risk.AP{}}.Estimate(pairs)
	auc, err3 := evaluate.Scored{Scores: link, Linked: cited}.AUC()

	fmt.Println(errors.Join(err1, err2, err3))
	fmt.Printf("an uncited paper shown to few: relevant with probability %.2f\n", pairs[1].Belief.Hidden())
	fmt.Printf("log-loss: naive %.3f, corrected %.3f\n", naive.Value, corrected.Value)
	fmt.Printf("AUC on the links seen: %.2f\n", auc)
	// Output:
	// <nil>
	// an uncited paper shown to few: relevant with probability 0.74
	// log-loss: naive 0.574, corrected 0.327
	// AUC on the links seen: 0.75
}
