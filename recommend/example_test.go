package recommend_test

import (
	"fmt"

	"unseen/evaluate"
	"unseen/recommend"
)

// What a setting costs and brings, in words.
func ExampleDial_Cost() {
	d := recommend.Dial{K: 10}
	fmt.Println(d.Cost(recommend.DialPoint{
		Setting: recommend.Setting{Diversity: .3},
		Loss:    evaluate.Band{Value: .021, Lower: .012, Upper: .031},
		Gain:    evaluate.Band{Value: .4, Lower: .37, Upper: .44},
	}))
	// Output: x = .3 gives up 2.1 points of Recall@10 (1.2 to 3.1) for 0.40 nats of entropy (0.37 to 0.44)
}
