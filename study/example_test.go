package study_test

import (
	"context"
	"fmt"
	"math"

	"unseen/study"
)

func ExampleAll() {
	for _, s := range study.All() {
		fmt.Println(s.Name)
	}
	// Output:
	// table1
	// quality
	// theory
	// figure2
}

func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	stop() // a study takes seconds; this one is stopped before it begins
	_, err := study.Run(ctx, []string{"table1"}, study.Options{Quick: true}, study.Progress{})
	fmt.Println(err)
	// Output:
	// study table1: context canceled
}

func ExampleCell() {
	fmt.Println(study.Spread(84.449, .12).Format(2))
	fmt.Println(study.Word("met").Format(2))
	_, ok := study.Number(math.NaN()).Value()
	fmt.Println(ok)
	// Output:
	// 84.45 ± 0.12
	// met
	// false
}
