package risk

import (
	"fmt"
	"math"
)

// Sample is a risk (or any other number) per pair, from which means and intervals follow.
// [Estimator.Sample] makes one.
//
// The intervals are for E[R̂] with π̂ and ŷ taken as given. They know nothing of the bias that wrong π̂ and
// ŷ leave, nor of the noise in having estimated them; hand that to [Sample.Normal] as a [Nuisance].
type Sample struct {
	Values  []float64 // r
	Weights []float64 // inclusion weights; nil means all 1

	// Sources names the cluster of each pair: pairs of one source node share its texts, its readers
	// and its links, and are dependent. Intervals treat the sources, not the pairs, as independent.
	// nil means that the pairs are.
	Sources []int

	Universe float64 // |U| for Horvitz–Thompson's mean; 0 means Hájek's

	// Unseen is a variance of Hájek's mean that the values do not show, as of [Target.Values]. Normal adds it;
	// resampling cannot.
	Unseen float64
}

// Size is the size of a sample.
type Size struct {
	Pairs     int
	Clusters  int     // independent units: sources, or pairs where there are none
	Effective float64 // (Σw)²/Σw²: how many pairs of equal weight have the same variance
}

// Mean returns Σ w·r divided by |U| or Σ w.
func (s Sample) Mean() (float64, error) {
	u, err := s.units()
	if err != nil {
		return 0, err
	}
	return u.mean, nil
}

// Size returns the number of pairs, of clusters, and the effective number of pairs.
func (s Sample) Size() (Size, error) {
	u, err := s.units()
	if err != nil {
		return Size{}, err
	}
	return Size{len(s.Values), len(u.totals), kish(u.weight, u.squares)}, nil
}

// units are the independent parts of a sample: the sources, or the pairs where there are none.
type units struct {
	totals   []float64 // Σ w·r of each
	weights  []float64 // Σ w of each
	weight   float64   // Σ w of all
	squares  float64   // Σ w² over pairs
	universe float64   // 0: Hájek
	mean     float64
	unseen   float64 // variance of the mean that the values do not show
}

// units checks the sample and adds it up. Clusters are numbered as they first appear.
func (s Sample) units() (units, error) {
	n := len(s.Values)
	if n == 0 {
		return units{}, fmt.Errorf("%w: sample has no values; give at least one pair", ErrEmpty)
	}
	if s.Weights != nil && len(s.Weights) != n {
		return units{}, fmt.Errorf("%w: %d values but %d weights; give one each, or nil for all 1", ErrLength, n,
			len(s.Weights))
	}
	if s.Sources != nil && len(s.Sources) != n {
		return units{}, fmt.Errorf("%w: %d values but %d sources; give one each, or nil for independent pairs",
			ErrLength, n, len(s.Sources))
	}
	if err := checkUniverse(s.Universe); err != nil {
		return units{}, err
	}
	index := make(map[int]int)
	var totals, weights []Sum
	var total, weight, squares Sum
	for i, v := range s.Values {
		w := s.weight(i)
		if !isFinite(v) {
			return units{}, fmt.Errorf("%w: pair %d has %v; set a Floor or use CappedLogLoss", ErrValue, i, v)
		}
		if !(w > 0) || math.IsInf(w, 1) {
			return units{}, fmt.Errorf("%w: pair %d has %v; give 1/P(sampled), or 1 where every pair is taken",
				ErrWeight, i, w)
		}
		k := len(totals)
		if s.Sources != nil {
			if known, ok := index[s.Sources[i]]; ok {
				k = known
			} else {
				index[s.Sources[i]] = k
			}
		}
		if k == len(totals) {
			totals, weights = append(totals, Sum{}), append(weights, Sum{})
		}
		totals[k].Add(w * v)
		weights[k].Add(w)
		total.Add(w * v)
		weight.Add(w)
		squares.Add(w * w)
	}
	if err := checkSquares(squares.Value()); err != nil {
		return units{}, err
	}
	u := units{
		totals:   make([]float64, len(totals)),
		weights:  make([]float64, len(totals)),
		weight:   weight.Value(),
		squares:  squares.Value(),
		universe: s.Universe,
	}
	for k := range totals {
		u.totals[k], u.weights[k] = totals[k].Value(), weights[k].Value()
	}
	u.mean = u.ratio(total.Value(), u.weight)
	if share := u.ratio(u.weight, u.weight); s.Unseen > 0 {
		u.unseen = s.Unseen * share * share
	}
	if !isFinite(u.mean) {
		return units{}, fmt.Errorf("%w: the mean overflows to %v; scale values and weights down", ErrValue, u.mean)
	}
	return u, nil
}

func (s Sample) weight(i int) float64 {
	if s.Weights == nil {
		return 1
	}
	return s.Weights[i]
}

// ratio returns the mean that a total and a weight make.
func (u units) ratio(total, weight float64) float64 {
	if u.universe > 0 {
		return total / u.universe
	}
	return total / weight
}

// checkClusters refuses a sample with a single independent unit, of which no spread can be seen.
func (u units) checkClusters() error {
	if len(u.totals) < 2 {
		return fmt.Errorf("%w: the sample has %d; give pairs of more sources", ErrClusters, len(u.totals))
	}
	return nil
}

// standardError returns the linearised standard error of the mean, √(G/(G−1)·Σ D² + Unseen) over the G units:
// D = (Σ w·r − R̂·Σ w)/Σw for Hájek's ratio, D = Σ w·r/|U| − R̂/G for Horvitz–Thompson's.
func (u units) standardError() float64 {
	g := float64(len(u.totals))
	var squares Sum
	for k, total := range u.totals {
		var d float64
		if u.universe > 0 {
			d = total/u.universe - u.mean/g
		} else {
			d = (total - u.mean*u.weights[k]) / u.weight
		}
		squares.Add(d * d)
	}
	return math.Sqrt(g/(g-1)*squares.Value() + u.unseen)
}
