package evaluate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/risk"
)

// Each returns a metric of every source alone, NaN for those that do not count in it.
//
//	recalls, err := ranking.Each(func(one evaluate.Ranking) (float64, error) { return one.Recall(100) })
func (r Ranking) Each(metric func(one Ranking) (float64, error)) ([]float64, error) {
	values := make([]float64, len(r))
	for i := range r {
		x, err := metric(r[i : i+1])
		switch {
		case errors.Is(err, ErrEmpty), errors.Is(err, ErrUndefined):
			x = math.NaN()
		case err != nil:
			return nil, err
		}
		values[i] = x
	}
	return values, nil
}

// Keep returns the ranking of some links alone, such as those between two fields: the others do not count,
// but keep their places, so that no rank changes. source is a place in the ranking.
func (r Ranking) Keep(keep func(source int, target int32) bool) Ranking {
	kept := make(Ranking, len(r))
	for source, one := range r {
		for i, target := range one.targets {
			if keep(source, target) {
				kept[source].targets, kept[source].ranks = append(kept[source].targets, target),
					append(kept[source].ranks, one.ranks[i])
			}
		}
	}
	return kept
}

// CrossShare returns, for every list, the share of targets among its first k whose field is another than the
// source's; NaN for an empty list. own[i] is the field of the source of list i, fields[j] that of target j.
func (l Lists) CrossShare(own, fields []uint16, k int) ([]float64, error) {
	if len(own) != len(l) {
		return nil, fmt.Errorf("%w: %d lists and the fields of %d sources; give each list's source its field",
			ErrLength, len(l), len(own))
	}
	shares := make([]float64, len(l))
	for i := range l {
		cross, all := 0, 0
		if err := l[i:i+1].each(len(fields), k, func(target int32) {
			all++
			if fields[target] != own[i] {
				cross++
			}
		}); err != nil {
			return nil, err
		}
		shares[i] = float64(cross) / float64(all)
	}
	return shares, nil
}

// Mean is the mean over the sources that count, and how many do. Without any it is NaN.
func Mean(values []float64) (mean float64, sources int) {
	for _, x := range values {
		if !math.IsNaN(x) {
			mean += x
			sources++
		}
	}
	return mean / float64(sources), sources
}

// Difference is how much higher one method's metric is than another's over the same sources, with the
// interval that resampling the sources gives: what another set of sources could have shown. The models are
// taken as they are.
type Difference struct {
	Mean    float64 `json:"mean"`
	Lower   float64 `json:"lower"`
	Upper   float64 `json:"upper"`
	Level   float64 `json:"level"`
	Sources int     `json:"sources"` // that count for either
}

// Clear tells whether the interval leaves zero out.
func (d Difference) Clear() bool { return d.Lower > 0 || d.Upper < 0 }

// PairedBootstrap compares a metric of two methods, given for every source, NaN where one does not count.
// Whole sources are drawn with replacement, the same for both, so that what is hard about a source is hard for
// either. The interval is of the draws' quantiles.
func PairedBootstrap(a, b []float64, level float64, draws int, seed uint64) (Difference, error) {
	switch {
	case len(a) != len(b):
		return Difference{}, fmt.Errorf("%w: %d and %d values; give both for every source, NaN where there is none",
			ErrLength, len(a), len(b))
	case level <= 0 || level >= 1 || math.IsNaN(level):
		return Difference{}, fmt.Errorf("%w: an interval of level %v; give one between 0 and 1, such as .95",
			ErrUndefined, level)
	case draws < 20:
		return Difference{}, fmt.Errorf("%w: %d draws; give at least 20, better 1000", ErrUndefined, draws)
	}
	type pair struct{ a, b float64 }
	var pairs []pair
	hasA, hasB := false, false
	for i := range a {
		if math.IsInf(a[i], 0) || math.IsInf(b[i], 0) {
			return Difference{}, fmt.Errorf("%w: source %d has an infinite value", ErrUndefined, i)
		}
		if !math.IsNaN(a[i]) || !math.IsNaN(b[i]) {
			pairs = append(pairs, pair{a[i], b[i]})
			hasA, hasB = hasA || !math.IsNaN(a[i]), hasB || !math.IsNaN(b[i])
		}
	}
	if !hasA || !hasB {
		return Difference{}, fmt.Errorf("%w: no source has a value", ErrEmpty)
	}
	difference := func(at func(k int) pair) float64 {
		var sumA, sumB float64
		var countA, countB int
		for k := range pairs {
			p := at(k)
			if !math.IsNaN(p.a) {
				sumA += p.a
				countA++
			}
			if !math.IsNaN(p.b) {
				sumB += p.b
				countB++
			}
		}
		return sumA/float64(countA) - sumB/float64(countB)
	}
	d := Difference{Mean: difference(func(k int) pair { return pairs[k] }), Level: level, Sources: len(pairs)}
	random := rand.New(rand.NewPCG(seed, 0xb007))
	var drawn []float64
	for range draws {
		x := difference(func(int) pair { return pairs[random.IntN(len(pairs))] })
		if !math.IsNaN(x) { // a draw in which no source counts
			drawn = append(drawn, x)
		}
	}
	if len(drawn) == 0 {
		return Difference{}, fmt.Errorf("%w: no draw has a value; too few sources count", ErrUndefined)
	}
	slices.Sort(drawn)
	d.Lower, d.Upper = risk.QuantileInterval(drawn, level)
	return d, nil
}
