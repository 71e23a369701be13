// Simulate a recommender that is trained on the outcome of its own recommendations.
//
// Two fields are equally relevant to each other's readers, but readers see their own field more often. In every round
// the model recommends, readers link to some of what they see, and the model is retrained on those links.
//
// Prints the share of recommendations in the reader's own field, round by round:
//
//	naive                    0.76  0.86  0.90  0.94  0.97
//	mle                      0.45  0.42  0.44  0.42  0.40
//	by relevance alone       0.45
//	theory, corrected false  0.67  0.80  0.89  0.94  0.97
//	theory, corrected true   0.50  0.50  0.50  0.50  0.50
package main

import (
	"context"
	"fmt"
	"log"

	"unseen/loop"
)

func main() {
	ctx := context.Background()
	var truth float64
	for _, method := range []string{"naive", "mle"} {
		settings := loop.Settings{
			Papers: 150, Rounds: 5, Method: method, Seed: 3,
			SeesField:       true, // the model can take exposure for relevance
			UnshownNegative: true, // what was not recommended counts as not linked
		}
		history, err := loop.Simulate(ctx, settings)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-23s", method)
		for _, round := range history.Rounds {
			fmt.Printf("  %.2f", round.All)
		}
		fmt.Println()
		truth = (history.Truth[0] + history.Truth[1]) / 2
	}
	fmt.Printf("%-23s  %.2f\n", "by relevance alone", truth)

	// The theory needs no model: the share of each category in every round, when only links are counted.
	for _, corrected := range []bool{false, true} {
		process := loop.Process{Propensity: []float64{.8, .4}, Link: []float64{.5, .5}, Corrected: corrected}
		fmt.Printf("theory, corrected %-5t", corrected)
		for round := 1; round <= 5; round++ {
			shares, err := process.Limit(round)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("  %.2f", shares[0])
		}
		fmt.Println()
	}
}
