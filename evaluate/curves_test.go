package evaluate_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/evaluate"
)

func ExampleScored_ROC() {
	x, y, err := pairs.ROC()
	fmt.Println(x, y, err)
	// Output: [0 0 0.5 0.5 1] [0 0.5 0.5 1 1] <nil>
}

func ExampleScored_PrecisionRecall() {
	x, y, err := pairs.PrecisionRecall()
	fmt.Printf("%.2f %.2f %v\n", x, y, err)
	// Output: [0.50 0.50 1.00 1.00] [1.00 0.50 0.67 0.50] <nil>
}

func ExampleScored_Calibration() {
	x, y, err := pairs.Calibration(2)
	fmt.Printf("%.2f %.2f %v\n", x, y, err)
	// Output: [0.20 0.85] [0.50 0.50] <nil>
}

// The areas below the curves are the metrics that are computed without them.
func TestCurvesHaveTheMetricsAreas(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := evaluate.Scored{}
		for range 2 + r.IntN(200) {
			s.Scores = append(s.Scores, math.Round(r.Float64()*20)/20) // with ties
			s.Linked = append(s.Linked, r.IntN(3) == 0)
			s.Weights = append(s.Weights, float64(r.IntN(4)))
		}
		s.Linked[0], s.Linked[1] = true, false
		s.Weights[0], s.Weights[1] = 1, 1
		x, y, err := s.ROC()
		if err != nil {
			t.Fatal(err)
		}
		area := 0.
		for i := 1; i < len(x); i++ {
			area += (x[i] - x[i-1]) * (y[i] + y[i-1]) / 2
		}
		if auc, err := s.AUC(); err != nil || math.Abs(area-auc) > 1e-12 || x[len(x)-1] != 1 || y[len(y)-1] != 1 {
			t.Errorf("seed %d: area %v, AUC %v, ends at (%v, %v): %v", seed, area, auc, x[len(x)-1], y[len(y)-1], err)
		}
		x, y, err = s.PrecisionRecall()
		if err != nil {
			t.Fatal(err)
		}
		area, before := 0., 0.
		for i := range x {
			area += (x[i] - before) * y[i]
			before = x[i]
		}
		if ap, err := s.AveragePrecision(); err != nil || math.Abs(area-ap) > 1e-12 {
			t.Errorf("seed %d: area %v, average precision %v: %v", seed, area, ap, err)
		}
	}
}

// Scores that are the true probabilities lie on the diagonal; bins are of equal weight and in order.
func TestCalibration(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	s := evaluate.Scored{}
	for range 100_000 {
		p := r.Float64()
		s.Scores, s.Linked = append(s.Scores, p), append(s.Linked, r.Float64() < p)
	}
	x, y, err := s.Calibration(10)
	if err != nil || len(x) != 10 || !slices.IsSorted(x) {
		t.Fatal(x, err)
	}
	for i := range x {
		if math.Abs(x[i]-(float64(i)+.5)/10) > .01 || math.Abs(y[i]-x[i]) > .02 { // four standard errors
			t.Errorf("bin %d: %v of those at %v are linked", i, y[i], x[i])
		}
	}
	same := evaluate.Scored{Scores: []float64{.3, .3, .3, .3}, Linked: []bool{true, false, false, false}}
	if x, y, err := same.Calibration(3); err != nil || len(x) != 1 || math.Abs(x[0]-.3) > 1e-12 || y[0] != .25 {
		t.Errorf("equal scores: %v %v %v", x, y, err)
	}
	for want, s := range map[error]evaluate.Scored{
		evaluate.ErrUndefined: {Scores: []float64{1.5}, Linked: []bool{true}},
		evaluate.ErrEmpty:     {},
		evaluate.ErrWeight:    {Scores: []float64{.5}, Linked: []bool{true}, Weights: []float64{0}},
	} {
		if _, _, err := s.Calibration(2); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if _, _, err := same.Calibration(0); !errors.Is(err, evaluate.ErrCutoff) {
		t.Errorf("no bins: %v", err)
	}
	for _, curve := range []func() ([]float64, []float64, error){evaluate.Scored{Scores: []float64{1},
		Linked: []bool{true}}.ROC, evaluate.Scored{Scores: []float64{1}, Linked: []bool{true}}.PrecisionRecall} {
		if _, _, err := curve(); !errors.Is(err, evaluate.ErrOneClass) {
			t.Errorf("one class: %v", err)
		}
	}
}
