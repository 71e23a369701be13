package evaluate

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// golden holds what testdata/golden.py got from scikit-learn.
type golden struct {
	MadeBy string `json:"made_by"`
	Scored []struct {
		Name             string
		Scores           []float64
		Linked           []bool
		Weights          []float64
		Threshold        float64
		TP, FP, FN, TN   float64
		Precision        float64
		Recall           float64
		F1               float64
		Accuracy         float64
		AUC              float64
		AveragePrecision float64 `json:"average_precision"`
		ThresholdedAP    float64 `json:"thresholded_ap"`
	}
	Rankings []struct {
		Name           string
		Scores         [][]float64
		Linked         [][]int32
		Cutoffs        []int
		NDCG           []float64
		SingleMRR      float64 `json:"single_mrr"`
		SingleMeanRank float64 `json:"single_mean_rank"`
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Scored) == 0 || len(g.Rankings) == 0 {
		t.Fatal("no cases in testdata/golden.json")
	}
	return g
}

func TestScoredAgainstScikitLearn(t *testing.T) {
	g := readGolden(t)
	t.Log(g.MadeBy)
	for _, c := range g.Scored {
		t.Run(c.Name, func(t *testing.T) {
			s := Scored{c.Scores, c.Linked, c.Weights}
			confusion, err := s.ConfusionAt(c.Threshold)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "TP", confusion.TP, c.TP)
			near(t, "FP", confusion.FP, c.FP)
			near(t, "FN", confusion.FN, c.FN)
			near(t, "TN", confusion.TN, c.TN)
			near(t, "precision", must(confusion.Precision())(t), c.Precision)
			near(t, "recall", must(confusion.Recall())(t), c.Recall)
			near(t, "F1", must(confusion.F1())(t), c.F1)
			near(t, "accuracy", must(confusion.Accuracy())(t), c.Accuracy)
			near(t, "AUC", must(s.AUC())(t), c.AUC)
			near(t, "average precision", must(s.AveragePrecision())(t), c.AveragePrecision)
			near(t, "thresholded AP", must(s.ThresholdedAP(c.Threshold))(t), c.ThresholdedAP)
		})
	}
}

func TestRankingAgainstScikitLearn(t *testing.T) {
	for _, c := range readGolden(t).Rankings {
		t.Run(c.Name, func(t *testing.T) {
			var all, single Ranking
			for i, scores := range c.Scores {
				all = append(all, must(RankScores(scores, c.Linked[i]))(t))
				single = append(single, must(RankScores(scores, c.Linked[i][:1]))(t))
			}
			for i, k := range c.Cutoffs {
				near(t, "NDCG", must(all.NDCG(k))(t), c.NDCG[i])
			}
			near(t, "MRR", must(single.MRR())(t), c.SingleMRR)
			near(t, "mean rank", must(single.MeanRank())(t), c.SingleMeanRank)
		})
	}
}

// must turns a result into a function of t that returns it or ends the test.
func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

func near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func permuted[T any](xs []T, order []int) []T {
	if xs == nil {
		return nil
	}
	out := slices.Clone(xs)
	for i, j := range order {
		out[i] = xs[j]
	}
	return out
}
