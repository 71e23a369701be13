// Compare a weighting scheme of your own with the built-in ones on worlds whose truth is known: by the true risk on
// pairs that no method was trained on, as differences within the same world with an interval over worlds.
//
//	go run ./examples/scheme [DATASET]    on generated worlds, or with truths planted on your own nodes; five seconds
//
// Prints how much higher its true risk is than that of each other method:
//
//	random fields, differences in the same worlds
//	  half minus naive  -0.089 (-0.105 to -0.074)
//	  half minus mle    +0.059 (+0.041 to +0.077)
//	  half minus rw     +0.059 (+0.041 to +0.077)
//	  half minus pu     +0.056 (+0.039 to +0.074)
//	  half minus ap     +0.061 (+0.042 to +0.080)
//	  half minus bayes  +0.062 (+0.041 to +0.084)
//	tied fields, differences in the same worlds
//	  half minus naive  -0.089 (-0.113 to -0.064)
//	  half minus mle    +0.073 (+0.057 to +0.090)
//	  half minus rw     +0.074 (+0.058 to +0.090)
//	  half minus pu     +0.071 (+0.054 to +0.087)
//	  half minus ap     +0.077 (+0.055 to +0.098)
//	  half minus bayes  +0.075 (+0.058 to +0.092)
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"unseen/dataset"
	"unseen/risk"
	"unseen/study"
)

// half is a variant of R_AP: only half of what may be hidden counts as a link. The masses of a pair do not depend on
// other pairs; self-normalised weights, which divide by a sum over pairs, are not a scheme.
var half = risk.MassFunc(func(o risk.Observation, b risk.Belief) risk.Mass {
	if o.Linked {
		return risk.Mass{Positive: 1}
	}
	hidden := b.Hidden() / 2 // τ/2
	return risk.Mass{Positive: hidden, Negative: 1 - hidden}
})

func main() {
	ctx := context.Background()
	check(risk.Register("half", half)) // from here on it is a method like the others
	options := study.Options{Quick: true, Seeds: study.Seeds(1, 3), Methods: []study.Method{
		{Name: "half", Method: "half", Share: 1}, // the risk counts as much as the likelihood
	}}
	if len(os.Args) > 1 {
		data, err := dataset.Open(ctx, os.Args[1], dataset.OpenOptions{})
		check(err)
		defer data.Close()
		options.Networks = []study.RealNetwork{{Name: filepath.Base(os.Args[1]), Graph: data.Graph()}}
	}
	results, err := study.Run(ctx, []string{"table1"}, options)
	check(err)
	for _, table := range results[0].Tables {
		if !strings.HasSuffix(table.Name, "-against") {
			continue
		}
		fmt.Println(table.Title)
		for _, row := range table.Rows { // the first three columns are about the risk, the next about the AUC
			mean, _ := row.Cells[0].Value()
			from, _ := row.Cells[1].Value()
			to, _ := row.Cells[2].Value()
			fmt.Printf("  %-16s  %+.3f (%+.3f to %+.3f)\n", row.Name, mean, from, to)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
