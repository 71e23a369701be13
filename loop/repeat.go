package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"unseen/internal/kern"
	"unseen/progress"
	"unseen/risk"
)

// Repeat simulates once for every seed, Settings.Threads at a time, and returns the histories in the
// order of the seeds. Progress is over all runs together.
func Repeat(ctx context.Context, s Settings, seeds []uint64) ([]*History, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, settingError("no seeds; give at least one")
	}
	s = s.WithDefaults()
	histories := make([]*History, len(seeds))
	var mu sync.Mutex
	done, began := 0, time.Now()
	err := kern.ChunksErr(ctx, len(seeds), 1, s.Threads, func(_, k, _, _ int) (err error) {
		one := s
		one.Seed, one.Threads = seeds[k], 1
		one.Progress = func(progress.Event) {
			mu.Lock()
			defer mu.Unlock()
			done++
			left := len(seeds)*s.Rounds - done
			s.Progress.Report(progress.Event{Phase: s.Method, Done: int64(done), Of: int64(done + left),
				Remaining: time.Since(began) * time.Duration(left) / time.Duration(done)})
		}
		histories[k], err = Simulate(ctx, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return histories, nil
}

// SeedBand is where runs with different seeds are in one round: their mean, and the interval that
// holds four of five of them.
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
