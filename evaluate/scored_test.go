package evaluate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// By hand: scores .9 L, .8 –, .8 L, .3 –, .1 L (L linked).
// AUC: of the 6 (linked, unlinked) pairs .9 beats 2, .8 ties one and beats one, .1 beats none: 3.5/6.
// AP: step at .9 adds ⅓·1, at .8 ⅓·⅔, at .1 ⅓·⅗.
// At .5: TP 2, FP 1, FN 1, TN 1.
func TestScoredByHand(t *testing.T) {
	s := Scored{Scores: []float64{.9, .8, .8, .3, .1}, Linked: []bool{true, false, true, false, true}}
	near(t, "AUC", must(s.AUC())(t), 3.5/6)
	near(t, "average precision", must(s.AveragePrecision())(t), (1+2./3+3./5)/3)
	near(t, "thresholded AP", must(s.ThresholdedAP(.5))(t), 2./3*2./3+1./3*3./5)
	c := must(s.ConfusionAt(.5))(t)
	if want := (Confusion{TP: 2, FP: 1, FN: 1, TN: 1}); c != want {
		t.Errorf("confusion is %v, want %v", c, want)
	}
	near(t, "precision", must(c.Precision())(t), 2./3)
	near(t, "recall", must(c.Recall())(t), 2./3)
	near(t, "F1", must(c.F1())(t), 2./3)
	near(t, "accuracy", must(c.Accuracy())(t), 3./5)
}

func TestThresholdIsInclusive(t *testing.T) {
	s := Scored{Scores: []float64{.5, math.Nextafter(.5, 0)}, Linked: []bool{true, true}}
	if c := must(s.ConfusionAt(.5))(t); c.TP != 1 || c.FN != 1 {
		t.Errorf("at .5: %+v, want the pair at .5 predicted and the one just below not", c)
	}
	if c := must(s.ConfusionAt(inf))(t); c.FN != 2 {
		t.Errorf("at +Inf: %+v, want nothing predicted", c)
	}
	if c := must(s.ConfusionAt(-inf))(t); c.TP != 2 {
		t.Errorf("at −Inf: %+v, want everything predicted", c)
	}
}

func TestPerfectAndWorstAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var best, worst Scored
		for i := range 2 + r.IntN(500) {
			linked := i == 0 || i > 1 && r.IntN(3) == 0
			score := r.Float64()
			w := r.ExpFloat64()
			if linked {
				score += 2
			}
			best.Scores, worst.Scores = append(best.Scores, score), append(worst.Scores, -score)
			best.Linked, worst.Linked = append(best.Linked, linked), append(worst.Linked, linked)
			best.Weights, worst.Weights = append(best.Weights, w), append(worst.Weights, w)
		}
		auc, ap := must(best.AUC())(t), must(best.AveragePrecision())(t)
		near(t, "AUC of a perfect weighted order", auc, 1)
		near(t, "AP of a perfect weighted order", ap, 1)
		bounded(t, "AUC of a perfect weighted order", auc, 1)
		bounded(t, "AP of a perfect weighted order", ap, 1)
		best.Weights, worst.Weights = nil, nil
		if auc, ap = must(best.AUC())(t), must(best.AveragePrecision())(t); auc != 1 || ap != 1 {
			t.Fatalf("a perfect order has AUC %v and AP %v, want exactly 1", auc, ap)
		}
		if auc := must(worst.AUC())(t); auc != 0 {
			t.Fatalf("the worst order has AUC %v, want exactly 0", auc)
		}
	}
}

// Metamorphic properties on random pairs with ties, infinities and weights.
func TestScoredProperties(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			s := randomScored(r)
			auc := must(s.AUC())(t)
			ap := must(s.AveragePrecision())(t)
			threshold := s.Scores[r.IntN(len(s.Scores))]
			tap := must(s.ThresholdedAP(threshold))(t)
			for what, x := range map[string]float64{"AUC": auc, "AP": ap, "thresholded AP": tap} {
				if !(x >= 0 && x <= 1) {
					t.Errorf("%s is %v, outside [0, 1]", what, x)
				}
			}

			near(t, "AUC against counting every pair", auc, bruteAUC(s))
			near(t, "AP against its definition", ap, bruteAP(s))

			order := r.Perm(len(s.Scores))
			shuffled := Scored{permuted(s.Scores, order), permuted(s.Linked, order), permuted(s.Weights, order)}
			near(t, "AUC in another order", must(shuffled.AUC())(t), auc)
			near(t, "AP in another order", must(shuffled.AveragePrecision())(t), ap)
			near(t, "thresholded AP in another order", must(shuffled.ThresholdedAP(threshold))(t), tap)

			// atan rises strictly on these scores, infinities included.
			rising := Scored{mapped(s.Scores, math.Atan), s.Linked, s.Weights}
			if got := must(rising.AUC())(t); got != auc {
				t.Errorf("AUC is %v, but %v after a rising transform", auc, got)
			}
			if got := must(rising.AveragePrecision())(t); got != ap {
				t.Errorf("AP is %v, but %v after a rising transform", ap, got)
			}
			falling := Scored{mapped(s.Scores, func(x float64) float64 { return -x }), s.Linked, s.Weights}
			near(t, "AUC of the negated scores", must(falling.AUC())(t), 1-auc)

			cut := mapped(s.Scores, func(x float64) float64 {
				if x >= threshold {
					return 1
				}
				return 0
			})
			near(t, "thresholded AP against AP of 0 and 1", tap,
				must(Scored{cut, s.Linked, s.Weights}.AveragePrecision())(t))

			// A weight of w is w copies of the pair.
			copies := Scored{Scores: s.Scores, Linked: s.Linked, Weights: make([]float64, len(s.Scores))}
			var long Scored
			for i := range copies.Weights {
				w := 1 + r.IntN(3)
				copies.Weights[i] = float64(w)
				for range w {
					long.Scores = append(long.Scores, s.Scores[i])
					long.Linked = append(long.Linked, s.Linked[i])
				}
			}
			near(t, "AUC of copies", must(copies.AUC())(t), must(long.AUC())(t))
			near(t, "AP of copies", must(copies.AveragePrecision())(t), must(long.AveragePrecision())(t))
			if got, want := must(copies.ConfusionAt(threshold))(t), must(long.ConfusionAt(threshold))(t); got != want {
				t.Errorf("confusion of copies is %v, want %v", got, want)
			}
		})
	}
}

// randomScored draws pairs of both classes; few distinct scores make ties likely.
func randomScored(r *rand.Rand) Scored {
	n := 2 + r.IntN(40)
	levels := 1 + r.IntN(2*n)
	s := Scored{Scores: make([]float64, n), Linked: make([]bool, n)}
	for i := range n {
		s.Scores[i] = float64(r.IntN(levels)) - float64(levels)/2
		if r.IntN(20) == 0 {
			s.Scores[i] = math.Inf(1 - 2*r.IntN(2))
		}
		s.Linked[i] = r.IntN(3) == 0
	}
	s.Linked[0], s.Linked[1] = true, false
	if r.IntN(2) == 0 {
		s.Weights = make([]float64, n)
		for i := range n {
			s.Weights[i] = r.ExpFloat64() * float64(min(1, r.IntN(5)))
		}
		s.Weights[0], s.Weights[1] = 1, 1
	}
	return s
}

func bruteAUC(s Scored) float64 {
	var inOrder, all float64
	for i := range s.Scores {
		for j := range s.Scores {
			if !s.Linked[i] || s.Linked[j] {
				continue
			}
			w := s.weight(i) * s.weight(j)
			all += w
			switch {
			case s.Scores[i] > s.Scores[j]:
				inOrder += w
			case s.Scores[i] == s.Scores[j]:
				inOrder += w / 2
			}
		}
	}
	return inOrder / all
}

func bruteAP(s Scored) float64 {
	levels := slices.Clone(s.Scores)
	slices.Sort(levels)
	levels = slices.Compact(levels)
	slices.Reverse(levels)
	var area, recallBefore float64
	for _, level := range levels {
		var tp, predicted, linked float64
		for i := range s.Scores {
			w := s.weight(i)
			if s.Linked[i] {
				linked += w
			}
			if s.Scores[i] >= level {
				predicted += w
				if s.Linked[i] {
					tp += w
				}
			}
		}
		if tp > 0 {
			area += (tp/linked - recallBefore) * (tp / predicted)
		}
		recallBefore = tp / linked
	}
	return area
}

func mapped(xs []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = f(x)
	}
	return out
}

func TestScoredRefuses(t *testing.T) {
	two := []bool{true, false}
	for name, c := range map[string]struct {
		s    Scored
		want error
		says string
	}{
		"nothing":         {Scored{}, ErrEmpty, "no pairs"},
		"fewer truths":    {Scored{Scores: []float64{1, 2, 3}, Linked: two}, ErrLength, "3 scores but 2 truths"},
		"fewer weights":   {Scored{[]float64{1, 2}, two, []float64{1}}, ErrLength, "2 scores but 1 weights"},
		"no weights":      {Scored{[]float64{1, 2}, two, []float64{}}, ErrLength, "2 scores but 0 weights"},
		"NaN score":       {Scored{Scores: []float64{1, nan}, Linked: two}, ErrNaN, "score 1 of 2"},
		"negative weight": {Scored{[]float64{1, 2}, two, []float64{1, -2}}, ErrWeight, "weight 1 of 2 is -2"},
		"NaN weight":      {Scored{[]float64{1, 2}, two, []float64{nan, 1}}, ErrWeight, "weight 0 of 2 is NaN"},
		"infinite weight": {Scored{[]float64{1, 2}, two, []float64{inf, 1}}, ErrWeight, "weight 0 of 2 is +Inf"},
		"zero weights":    {Scored{[]float64{1, 2}, two, []float64{0, 0}}, ErrWeight, "sum to zero"},
		"huge weights":    {Scored{[]float64{1, 2}, two, []float64{1e308, 1e308}}, ErrWeight, "scale them"},
		"tiny weights":    {Scored{[]float64{1, 2}, two, []float64{1e-300, 1e-300}}, ErrWeight, "scale them"},
	} {
		t.Run(name, func(t *testing.T) {
			for metric, f := range metricsOf(c.s) {
				x, err := f()
				refused(t, metric, x, err, c.want, c.says)
			}
		})
	}

	for name, s := range map[string]Scored{
		"all linked":             {Scores: []float64{1, 2}, Linked: []bool{true, true}},
		"none linked":            {Scores: []float64{1, 2}, Linked: []bool{false, false}},
		"linked weigh nothing":   {[]float64{1, 2}, two, []float64{0, 1}},
		"unlinked weigh nothing": {[]float64{1, 2}, two, []float64{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, metric := range []string{"AUC", "AP", "thresholded AP"} {
				x, err := metricsOf(s)[metric]()
				refused(t, metric, x, err, ErrOneClass, "linked")
			}
		})
	}

	t.Run("one class too light", func(t *testing.T) {
		x, err := Scored{[]float64{1, 2}, two, []float64{1e-200, 1}}.AUC()
		refused(t, "AUC", x, err, ErrWeight, "the linked pairs")
	})
	t.Run("NaN threshold", func(t *testing.T) {
		s := Scored{Scores: []float64{1, 2}, Linked: two}
		_, err := s.ConfusionAt(nan)
		refused(t, "confusion", 0, err, ErrNaN, "the threshold")
		x, err := s.ThresholdedAP(nan)
		refused(t, "thresholded AP", x, err, ErrNaN, "the threshold")
	})
}

func metricsOf(s Scored) map[string]func() (float64, error) {
	return map[string]func() (float64, error){
		"AUC":            s.AUC,
		"AP":             s.AveragePrecision,
		"thresholded AP": func() (float64, error) { return s.ThresholdedAP(0) },
		"confusion":      func() (float64, error) { c, err := s.ConfusionAt(0); return c.TP, err },
		"validate":       func() (float64, error) { return 0, s.Validate() },
	}
}

func refused(t *testing.T, what string, x float64, err, want error, says string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), says) || x != 0 {
		t.Errorf("%s gives %v and %q, want 0 and an error that is %q and says %q", what, x, err, want, says)
	}
}

func TestConfusionRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		c    Confusion
		f    func(Confusion) (float64, error)
		want error
		says string
	}{
		"precision":      {Confusion{FN: 1, TN: 1}, Confusion.Precision, ErrUndefined, "nothing is predicted"},
		"recall":         {Confusion{FP: 1, TN: 1}, Confusion.Recall, ErrUndefined, "nothing is linked"},
		"F1":             {Confusion{TN: 1}, Confusion.F1, ErrUndefined, "nothing is linked"},
		"accuracy":       {Confusion{}, Confusion.Accuracy, ErrUndefined, "nothing was counted"},
		"negative count": {Confusion{TP: -1, TN: 1}, Confusion.Accuracy, ErrWeight, "TP is -1"},
		"NaN count":      {Confusion{TP: 1, FN: nan}, Confusion.Precision, ErrWeight, "FN is NaN"},
		"infinite count": {Confusion{TP: 1, FP: inf}, Confusion.Recall, ErrWeight, "FP is +Inf"},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := c.f(c.c)
			refused(t, name, x, err, c.want, c.says)
		})
	}
	near(t, "F1 with nothing found", must(Confusion{FP: 1}.F1())(t), 0)
}

// FuzzScored reads pairs of arbitrary bits: a metric either says what is wrong or lies in [0, 1] and
// agrees with counting.
func FuzzScored(f *testing.F) {
	f.Add([]byte{}, true, 0.5)
	f.Add(encodeScored(Scored{[]float64{1, 0, -1, 1}, []bool{true, false, true, false}, []float64{1, 2, 3, 4}}), true,
		0.)
	f.Add(encodeScored(Scored{[]float64{inf, -inf, nan}, []bool{true, false, true}, []float64{1, 1, 1}}), false, nan)
	f.Add(encodeScored(Scored{[]float64{1, 1, 2}, []bool{true, false, true}, []float64{5e-324, 1e-160, 1e149}}), true,
		inf)
	f.Fuzz(func(t *testing.T, raw []byte, weighted bool, threshold float64) {
		if len(raw) > 17*64 {
			return // counting is quadratic
		}
		s := decodeScored(raw)
		if !weighted {
			s.Weights = nil
		}
		if auc, err := s.AUC(); err == nil {
			bounded(t, "AUC", auc, 1)
			near(t, "AUC", auc, bruteAUC(s))
		}
		if ap, err := s.AveragePrecision(); err == nil {
			bounded(t, "AP", ap, 1)
			near(t, "AP", ap, bruteAP(s))
		}
		if ap, err := s.ThresholdedAP(threshold); err == nil {
			bounded(t, "thresholded AP", ap, 1)
		}
		if c, err := s.ConfusionAt(threshold); err == nil {
			for _, metric := range []func() (float64, error){c.Precision, c.Recall, c.F1, c.Accuracy} {
				if x, err := metric(); err == nil {
					bounded(t, "a share of the confusion", x, 1)
				}
			}
		} else if s.Validate() == nil && !math.IsNaN(threshold) {
			t.Errorf("valid pairs refused: %v", err)
		}
	})
}

func bounded(t *testing.T, what string, x, most float64) {
	t.Helper()
	if !(x >= 0 && x <= most) {
		t.Errorf("%s is %v, outside [0, %v]", what, x, most)
	}
}

// A pair is 17 bytes: score, weight, linked.
func decodeScored(raw []byte) Scored {
	s := Scored{Weights: []float64{}}
	for ; len(raw) >= 17; raw = raw[17:] {
		s.Scores = append(s.Scores, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
		s.Weights = append(s.Weights, math.Float64frombits(binary.LittleEndian.Uint64(raw[8:])))
		s.Linked = append(s.Linked, raw[16]&1 == 1)
	}
	return s
}

func encodeScored(s Scored) []byte {
	var raw []byte
	for i := range s.Scores {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(s.Scores[i]))
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(s.Weights[i]))
		linked := byte(0)
		if s.Linked[i] {
			linked = 1
		}
		raw = append(raw, linked)
	}
	return raw
}

func BenchmarkAUC(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	s := Scored{Scores: make([]float64, 1e6), Linked: make([]bool, 1e6)}
	for i := range s.Scores {
		s.Linked[i] = r.IntN(10) == 0
		s.Scores[i] = r.NormFloat64()
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.AUC(); err != nil {
			b.Fatal(err)
		}
	}
}
