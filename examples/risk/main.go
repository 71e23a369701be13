// Estimate how good predictions are, from links that were seen only where something was shown.
//
// There are 20 articles for each of 2,000 readers. Half of the articles are shown to 9 readers in 10, the others to 1
// in 4. The predictions are right, and so are the propensities; only links are seen. The naive risk takes "not shown"
// for "not relevant" and overstates the error of the predictions. The others come out near the true risk.
//
// Prints:
//
//	        risk   95% interval
//	naive  0.686   (0.683 to 0.690)
//	w      0.632   (0.626 to 0.638)
//	pu     0.628   (0.620 to 0.635)
//	ap     0.630   (0.628 to 0.632)
//	true   0.630
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"unseen/risk"
)

func main() {
	rng := rand.New(rand.NewPCG(1, 0))
	var pairs []risk.Pair
	for reader := range 2000 {
		for article := range 20 {
			relevant := .2 + .6*rng.Float64() // y, which real data do not show
			shown := .9
			if article%2 == 1 {
				shown = .25
			}
			linked := rng.Float64() < relevant && rng.Float64() < shown // o = o′·a

			belief, err := risk.FromProbabilities(relevant, shown) // ŷ and π̂: here both are right
			if err != nil {
				log.Fatal(err)
			}
			pairs = append(pairs, risk.Pair{
				// only the scheme "true" uses the relevance
				Observation: risk.Observation{Linked: linked}.WithRelevance(relevant),
				Belief:      belief,
				Weight:      1,
				Source:      reader, // links of one reader are not independent
			})
		}
	}
	fmt.Println("        risk   95% interval")
	for _, name := range []string{"naive", "w", "pu", "ap"} {
		scheme, err := risk.Lookup(name)
		if err != nil {
			log.Fatal(err)
		}
		sample, err := risk.Estimator{Scheme: scheme}.Sample(pairs)
		if err != nil {
			log.Fatal(err)
		}
		interval, err := sample.Bootstrap(context.Background(), .95, risk.Bootstrap{Resamples: 500, Seed: 1})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-6s %.3f   (%.3f to %.3f)\n", name, interval.Estimate, interval.Lower, interval.Upper)
	}
	truth, err := risk.Estimator{Scheme: risk.True{}}.Estimate(pairs)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%-6s %.3f\n", "true", truth.Value)
}
