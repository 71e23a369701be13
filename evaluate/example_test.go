package evaluate_test

import (
	"context"
	"errors"
	"fmt"

	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

var pairs = evaluate.Scored{
	Scores: []float64{.9, .8, .3, .1},
	Linked: []bool{true, false, true, false},
}

func ExampleScored_AUC() {
	auc, err := pairs.AUC()
	fmt.Println(auc, err)
	// Output: 0.75 <nil>
}

// Unlinked pairs were sampled one in ten, so each stands for ten.
func ExampleScored_AUC_weights() {
	sampled := pairs
	sampled.Weights = []float64{1, 10, 1, 10}
	auc, err := sampled.AUC()
	fmt.Println(auc, err)
	// Output: 0.75 <nil>
}

func ExampleScored_AveragePrecision() {
	ap, err := pairs.AveragePrecision()
	fmt.Printf("%.4f %v\n", ap, err)
	// Output: 0.8333 <nil>
}

func ExampleScored_ThresholdedAP() {
	ap, err := pairs.ThresholdedAP(.5)
	fmt.Println(ap, err)
	// Output: 0.5 <nil>
}

func ExampleScored_ConfusionAt() {
	c, err := pairs.ConfusionAt(.5)
	fmt.Printf("%+v %v\n", c, err)
	// Output: {TP:1 FP:1 FN:1 TN:1} <nil>
}

func ExampleScored_Validate() {
	err := evaluate.Scored{Scores: []float64{.9, .8}, Linked: []bool{true}}.Validate()
	fmt.Println(errors.Is(err, evaluate.ErrLength))
	fmt.Println(err)
	// Output:
	// true
	// lengths differ: 2 scores but 1 truths; give one truth per score
}

func ExampleConfusion_Precision() {
	precision, err := evaluate.Confusion{TP: 3, FP: 1, FN: 2, TN: 4}.Precision()
	fmt.Println(precision, err)
	// Output: 0.75 <nil>
}

func ExampleConfusion_Recall() {
	recall, err := evaluate.Confusion{TP: 3, FP: 1, FN: 2, TN: 4}.Recall()
	fmt.Println(recall, err)
	// Output: 0.6 <nil>
}

func ExampleConfusion_F1() {
	f1, err := evaluate.Confusion{TP: 3, FP: 1, FN: 2, TN: 4}.F1()
	fmt.Printf("%.3f %v\n", f1, err)
	// Output: 0.667 <nil>
}

func ExampleConfusion_Accuracy() {
	accuracy, err := evaluate.Confusion{TP: 3, FP: 1, FN: 2, TN: 4}.Accuracy()
	fmt.Println(accuracy, err)
	// Output: 0.7 <nil>
}

// One source, five targets, of which it truly links to 1 and 3.
func ExampleRankScores() {
	ranked, err := evaluate.RankScores([]float64{.2, .9, .4, .4, .1}, []int32{1, 3})
	fmt.Println(ranked.Ranks(), err)
	// Output: [1 3] <nil>
}

func ExampleRankList() {
	ranked, err := evaluate.RankList([]int32{4, 1, 0}, []int32{1, 3})
	fmt.Println(ranked.Ranks(), err)
	// Output: [2 0] <nil>
}

func ExampleRanked_Ranks() {
	ranked, _ := evaluate.RankList([]int32{4, 1, 0}, []int32{0})
	fmt.Println(ranked.Ranks())
	// Output: [3]
}

// Two sources: the first finds its links at ranks 1 and 3, the second its only one at rank 2.
func twoSources() evaluate.Ranking {
	first, _ := evaluate.RankScores([]float64{.2, .9, .5, .4, .1}, []int32{1, 3})
	second, _ := evaluate.RankScores([]float64{.2, .9, .5, .4, .1}, []int32{2})
	return evaluate.Ranking{first, second}
}

func ExampleRanking_MRR() {
	mrr, err := twoSources().MRR()
	fmt.Println(mrr, err)
	// Output: 0.75 <nil>
}

func ExampleRanking_NDCG() {
	ndcg, err := twoSources().NDCG(3)
	fmt.Printf("%.4f %v\n", ndcg, err)
	// Output: 0.7753 <nil>
}

func ExampleRanking_Precision() {
	precision, err := twoSources().Precision(2)
	fmt.Println(precision, err)
	// Output: 0.5 <nil>
}

func ExampleRanking_HitRate() {
	share, err := twoSources().HitRate(1)
	fmt.Println(share, err)
	// Output: 0.5 <nil>
}

func ExampleRanking_Recall() {
	recall, err := twoSources().Recall(2)
	fmt.Println(recall, err)
	// Output: 0.75 <nil>
}

func ExampleRanking_MeanRank() {
	rank, err := twoSources().MeanRank()
	fmt.Println(rank, err)
	// Output: 2 <nil>
}

func ExampleRanking_FieldEntropy() {
	const physics, ml = 0, 1
	fields := []uint16{physics, physics, ml, ml, ml}
	entropy, err := twoSources().FieldEntropy(fields, 3)
	fmt.Printf("%.4f %v\n", entropy, err) // (log 2 + 0)/2
	// Output: 0.3466 <nil>
}

func ExampleLists_Coverage() {
	lists := evaluate.Lists{{0, 1, 2}, {1, 0, 3}}
	coverage, err := lists.Coverage(8, 3)
	fmt.Println(coverage, err)
	// Output: 0.5 <nil>
}

func ExampleLists_FieldGini() {
	const physics, ml = 0, 1
	fields := []uint16{ml, ml, physics, physics}
	lists := evaluate.Lists{{0, 1, 2}, {1, 0, 3}}
	gini, err := lists.FieldGini(fields, 2) // the first two are all ML
	fmt.Println(gini, err)
	// Output: 0.5 <nil>
}

func ExampleCandidates() {
	var b graph.Builder
	for _, n := range []graph.Node{{ID: "a", Field: "x"}, {ID: "b", Field: "y"}, {ID: "c", Field: "x"},
		{ID: "d", Field: "y"}, {ID: "e", Field: "x"}} {
		if _, err := b.AddNode(n); err != nil {
			panic(err)
		}
	}
	for _, l := range [][2]string{{"b", "a"}, {"c", "b"}, {"d", "b"}, {"e", "c"}} {
		if err := b.AddLink(l[0], l[1]); err != nil {
			panic(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		panic(err)
	}
	vectors, err := graph.NewVectors(5, 2)
	if err != nil {
		panic(err)
	}
	for i, v := range [][]float32{{1, 0}, {0, 1}, {1, 1}, {0, 1}, {1, 0}} {
		if err := vectors.Set(int32(i), v); err != nil {
			panic(err)
		}
	}
	if g, err = g.WithVectors(vectors); err != nil {
		panic(err)
	}
	// the last fifth of the nodes is held out: e
	prepared, err := sample.Prepare(context.Background(), g, sample.Options{})
	if err != nil {
		panic(err)
	}
	candidates, err := evaluate.NewCandidates(prepared, graph.Test)
	if err != nil {
		panic(err)
	}
	link, err := model.NewCosine(prepared.Problem.Nodes)
	if err != nil {
		panic(err)
	}
	shown, err := model.NewConstant(1)
	if err != nil {
		panic(err)
	}
	judge := &fit.Judge{Predictor: engine.Predictor{Link: link, LinkParams: []float32{1, 0}, Propensity: shown}}
	standings, err := candidates.Rank(context.Background(), judge, evaluate.RankSettings{})
	if err != nil {
		panic(err)
	}
	fmt.Println(standings[0].Lists[0], standings[0].Ranking[0].Ranks())
	// Output: [0 2 1 3] [2]
}

func ExamplePairedBootstrap() {
	ours, theirs := []float64{.5, .4, .9, .3}, []float64{.4, .3, .8, .2}
	d, err := evaluate.PairedBootstrap(ours, theirs, .95, 1000, 1)
	fmt.Printf("%+.2f, from %+.2f to %+.2f, clear: %v %v\n", d.Mean, d.Lower, d.Upper, d.Clear(), err)
	// Output: +0.10, from +0.10 to +0.10, clear: true <nil>
}

// Two groups deserve the same, and one has the first places of every list.
func ExampleNewFairness() {
	groups := evaluate.Groups{By: "press", Names: []string{"large", "small"}, Of: []int32{0, 0, 1, 1}}
	shown := []evaluate.Shown{
		{List: []int32{0, 1, 2}, Merit: []float64{1.5, 1.5}}, // Σ ŷ of either group's candidates
		{List: []int32{1, 0, 3}, Merit: []float64{.2, .2}},
	}
	f, err := evaluate.NewFairness(groups, shown, 3, 0, 1)
	if err != nil {
		panic(err)
	}
	for _, g := range f.Groups {
		fmt.Printf("%s: merit %.0f%%, exposure %.0f%%, ratio %.2f\n", g.Name, 100*g.Merit.Value, 100*g.Exposure.Value,
			g.Ratio.Value)
	}
	fmt.Printf("%.0f%% of the attention is misplaced\n", 100*f.Distance.Value)
	// Output:
	// large: merit 50%, exposure 77%, ratio 1.53
	// small: merit 50%, exposure 23%, ratio 0.47
	// 27% of the attention is misplaced
}

// The interval of a mean over four sources.
func ExampleBootstrap() {
	recall := []float64{.2, .4, .4, .6}
	bands := evaluate.Bootstrap(len(recall), 1000, 1, func(times []float64) []float64 {
		var sum, n float64
		for i, k := range times {
			sum, n = sum+k*recall[i], n+k
		}
		return []float64{sum / n}
	})
	fmt.Printf("%.2f (%.2f to %.2f)\n", bands[0].Value, bands[0].Lower, bands[0].Upper)
	// Output: 0.40 (0.25 to 0.55)
}

// A log shows one of two items in half of the lists each. A policy that shows the better one in four of five lists
// would be worth more.
func ExampleValuePolicy() {
	var lists []evaluate.PolicyList
	for reader := range 1000 {
		item := evaluate.PolicyItem{Logged: .5, Target: .2}
		if reader%2 == 0 { // the better one, which two of five readers click
			item.Target = .8
			if reader%5 < 2 {
				item.Outcome = 1
			}
		}
		lists = append(lists, evaluate.PolicyList{Context: reader, Length: 1, Items: []evaluate.PolicyItem{item}})
	}
	v, err := evaluate.ValuePolicy(lists)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.0f effective contexts of %d\n", v.Effective, v.Contexts)
	fmt.Println(v.Sentence("The policy"))
	// Output:
	// 735 effective contexts of 1000
	// The policy is better than what the log did: +12.00 outcomes per 100 shown items (+10.65 to +13.70).
}
