package loop

import (
	"context"
	"slices"
	"sync"

	"unseen/internal/kern"
	"unseen/risk"
)

// Repeat runs the learned loop once for every seed, as many side by side as Settings.Threads says,
// and returns the histories in the seeds' order.
func Repeat(ctx context.Context, s Settings, seeds []uint64, p Progress) ([]*History, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, settingError("no seeds; give at least one")
	}
	s = s.WithDefaults()
	histories, errs := make([]*History, len(seeds)), make([]error, len(seeds))
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	done := 0
	count := Progress{Round: func(int, int) {
		mu.Lock()
		defer mu.Unlock()
		if done++; p.Round != nil {
			p.Round(done, len(seeds)*s.Rounds)
		}
	}}
	kern.Chunks(len(seeds), 1, s.Threads, func(_, k, _, _ int) {
		one := s
		one.Seed, one.Threads = seeds[k], 1
		if histories[k], errs[k] = Simulate(inner, one, count); errs[k] != nil {
			cancel()
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil && inner.Err() != nil && err != inner.Err() {
			return nil, err
		}
	}
	return histories, nil
}

// Band is where runs with different seeds are in one round: their mean, and the interval that four of
// five of them are in.
type SeedBand struct {
	Round int     `json:"round"`
	Mean  float64 `json:"mean"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Bands returns the same-field share of all recommendations, round by round, over histories of equal
// length.
func Bands(histories []*History) []SeedBand {
	if len(histories) == 0 {
		return nil
	}
	bands := make([]SeedBand, len(histories[0].Rounds))
	for t := range bands {
		var shares []float64
		for _, h := range histories {
			shares = append(shares, h.Rounds[t].All)
		}
		bands[t] = bandOf(shares)
		bands[t].Round = t + 1
	}
	return bands
}

// TruthBand returns the same-field share that relevance alone would give, over histories.
func TruthBand(histories []*History) SeedBand {
	var shares []float64
	for _, h := range histories {
		shares = append(shares, mean(h.Truth))
	}
	return bandOf(shares)
}

func bandOf(xs []float64) SeedBand {
	slices.Sort(xs)
	low, high := risk.QuantileInterval(xs, .8)
	return SeedBand{Mean: mean(xs), Low: low, High: high}
}

func mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
