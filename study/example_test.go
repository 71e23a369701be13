package study_test

import (
	"context"
	"fmt"
	"math"

	"unseen/figure"
	"unseen/study"
)

func ExampleLookup() {
	chosen, err := study.Lookup("quality", "table1") // in the order in which "all" runs them
	for _, s := range chosen {
		fmt.Println(s.Name)
	}
	fmt.Println(err)
	// Output:
	// table1
	// quality
	// <nil>
}

func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	stop() // a study takes seconds; this one is stopped before it begins
	_, err := study.Run(ctx, []string{"table1"}, study.Options{Quick: true})
	fmt.Println(err)
	// Output:
	// study table1: context canceled
}

func ExampleCell() {
	fmt.Println(figure.Spread(84.449, .12).Format(2))
	fmt.Println(figure.Text("met").Format(2))
	_, ok := figure.Number(math.NaN()).Value()
	fmt.Println(ok)
	// Output:
	// 84.45 ± 0.12
	// met
	// false
}
