package loop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Draws agree with gonum's probabilities by a χ² test, on both sides of every branch.
func TestBinomialIsExact(t *testing.T) {
	t.Parallel()
	for k, c := range []struct {
		n int
		p float64
	}{{1, .3}, {20, .04}, {20, .5}, {40, .26}, {60, .8}, {1000, .009}, {1000, .011}, {1000, .4}, {100_000, .3},
		{10_000_000, 2e-7}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			const draws = 40_000
			rng := newStream(uint64(k), "test", 0)
			counts := map[int]int{}
			for range draws {
				counts[binomial(rng, c.n, c.p)]++
			}
			law := distuv.Binomial{N: float64(c.n), P: c.p}
			mean, sd := float64(c.n)*c.p, math.Sqrt(float64(c.n)*c.p*(1-c.p))
			low, high := max(0, int(mean-6*sd-2)), min(c.n, int(mean+6*sd+2))
			width := max(1, int(sd/5)) // values to a bin
			var statistic, bins float64
			var expected, seen, left float64
			left = draws
			for v := low; v <= high; v++ {
				expected += draws * law.Prob(float64(v))
				seen += float64(counts[v])
				if (v-low)%width == width-1 && expected >= 10 {
					statistic += (seen - expected) * (seen - expected) / expected
					bins++
					left -= seen
					expected, seen = 0, 0
				}
			}
			if bins < 2 {
				// two values at most: compare the mean
				if got := (draws - left) / draws; c.n == 1 && math.Abs(float64(counts[1])/draws-c.p) > .01 || got < 0 {
					t.Errorf("share of ones %v, want %v", float64(counts[1])/draws, c.p)
				}
				return
			}
			if p := (distuv.ChiSquared{K: bins - 1}).Survival(statistic); p < 1e-4 {
				t.Errorf("χ² = %.1f in %v bins, p = %.2g", statistic, bins, p)
			}
		})
	}
}

func TestBinomialOfManyTrials(t *testing.T) {
	t.Parallel()
	rng := newStream(1, "test", 0)
	const n, p, draws = maxDraws, .37, 2000
	var sum, square float64
	for range draws {
		x := (float64(binomial(rng, n, p)) - n*p) / math.Sqrt(n*p*(1-p))
		sum += x
		square += x * x
	}
	if m := sum / draws; math.Abs(m) > 4/math.Sqrt(draws) {
		t.Errorf("standardised mean %v", m)
	}
	if v := square / draws; math.Abs(v-1) > 4*math.Sqrt(2./draws) {
		t.Errorf("standardised variance %v", v)
	}
}

func TestMultinomial(t *testing.T) {
	t.Parallel()
	rng := newStream(3, "test", 0)
	weights := []float64{0, 2, 1, 5, 0}
	totals := make([]float64, len(weights))
	counts := make([]int, len(weights))
	const draws, n = 2000, 100
	for range draws {
		multinomial(rng, counts, n, weights)
		all := 0
		for v, k := range counts {
			totals[v] += float64(k)
			all += k
		}
		if all != n {
			t.Fatalf("%v has %d, want %d", counts, all, n)
		}
	}
	for v, w := range weights {
		p := w / 8
		if got, sd := totals[v]/(draws*n), math.Sqrt(p*(1-p)/(draws*n)); math.Abs(got-p) > 5*sd {
			t.Errorf("category %d has share %v, want %v", v, got, p)
		}
	}
}

// The limit of the paper's theorem, its corollary, and what stops the loop.
func TestLimit(t *testing.T) {
	t.Parallel()
	p := Process{Propensity: []float64{.8, .2, .5}, Link: []float64{.5, .5, .3}}
	for round := 1; round < 8; round++ {
		for _, c := range []struct {
			corrected, shownOnly bool
			ratio                float64 // of categories 0 and 2
		}{
			{false, false, math.Pow(.4/.15, float64(round))}, {true, false, math.Pow(.5/.3, float64(round))},
			{false, true, .4 / .15}, {true, true, .5 / .3},
		} {
			p.Corrected, p.ShownOnly = c.corrected, c.shownOnly
			limit, err := p.Limit(round)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := Relative(limit, 0, 2), 1-1/(1+c.ratio); math.Abs(got-want) > 1e-12 {
				t.Errorf("%+v round %d: %v, want %v", c, round, got, want)
			}
		}
	}
}

// In a million recommendations a round the process is within .01 of its limit, whatever the kind.
func TestRunNearsItsLimit(t *testing.T) {
	t.Parallel()
	for k := range 8 {
		p := Process{Propensity: []float64{.8, .5, .6}, Link: []float64{.5, .4, .45}, Corrected: k&1 > 0,
			ShownOnly: k&2 > 0}
		if k&4 > 0 {
			p.Sizes = []float64{100, 300, 50}
		}
		shares, err := p.Run(1_000_000, 6, rand.NewPCG(uint64(k), 9))
		if err != nil {
			t.Fatal(err)
		}
		for round, got := range shares {
			want, _ := p.Limit(round + 1)
			for v := range want {
				if math.Abs(got[v]-want[v]) > .01 {
					t.Errorf("%+v round %d: %v, want %v", p, round+1, got, want)
				}
			}
		}
	}
}

// Without links nothing is learned; a category that is gone stays gone, unless only what is shown counts.
func TestRunAtTheEdge(t *testing.T) {
	t.Parallel()
	never := Process{Propensity: []float64{1e-9, 1e-9}, Link: []float64{1e-3, 1e-3}}
	shares, err := never.Run(10, 3, rand.NewPCG(1, 1))
	if err != nil || len(shares) != 3 || shares[2][0]+shares[2][1] != 1 {
		t.Errorf("%v, %v", shares, err)
	}
	p := Process{Propensity: []float64{1, .2}, Link: []float64{.9, .5}}
	shares, err = p.Run(100, 30, rand.NewPCG(1, 1))
	if err != nil || shares[29][0] != 1 {
		t.Errorf("after 30 rounds %v, %v", shares[29], err)
	}
	p.ShownOnly = true
	shares, err = p.Run(1000, 30, rand.NewPCG(1, 1))
	if err != nil || shares[29][0] == 1 {
		t.Errorf("with only what is shown %v, %v", shares[29], err)
	}
}

func TestProcessRejects(t *testing.T) {
	t.Parallel()
	good := Process{Propensity: []float64{.8, .2}, Link: []float64{.5, .5}}
	for name, f := range map[string]func() error{
		"no categories": func() error { _, err := Process{}.Limit(1); return err },
		"unequal":       func() error { _, err := Process{Propensity: []float64{.5}}.Limit(1); return err },
		"propensity 0": func() error {
			_, err := Process{Propensity: []float64{0},
				Link: []float64{1}}.Limit(1)
			return err
		},
		"NaN": func() error {
			_, err := Process{Propensity: []float64{1}, Link: []float64{math.NaN()}}.Limit(1)
			return err
		},
		"size": func() error {
			_, err := Process{Propensity: []float64{1}, Link: []float64{1}, Sizes: []float64{-1}}.Limit(1)
			return err
		},
		"round 0":    func() error { _, err := good.Limit(0); return err },
		"n 0":        func() error { _, err := good.Run(0, 1, rand.NewPCG(1, 1)); return err },
		"n too big":  func() error { _, err := good.Run(maxDraws+1, 1, rand.NewPCG(1, 1)); return err },
		"no rounds":  func() error { _, err := good.Run(5, 0, rand.NewPCG(1, 1)); return err },
		"no source":  func() error { _, err := good.Run(5, 1, nil); return err },
		"one count":  func() error { _, err := BoundSkew([]int{5}, []float64{.5}); return err },
		"empty":      func() error { _, err := BoundSkew([]int{5, 0}, []float64{.5, .6}); return err },
		"q of 1":     func() error { _, err := BoundSkew([]int{5, 5}, []float64{.5, 1}); return err },
		"all alike":  func() error { _, err := BoundSkew([]int{5, 5}, []float64{.5, .5}); return err },
		"too many n": func() error { _, err := BoundSkew([]int{maxDraws, 5}, []float64{.5, .6}); return err },
		"no draws": func() error {
			_, err := SkewProbability(t.Context(), []int{5, 5}, []float64{.5, .6}, 0, 1, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := f(); !errors.Is(err, ErrSetting) {
				t.Errorf("%v, want ErrSetting", err)
			}
		})
	}
}

// What is explored is drawn whatever was learned: none of it changes nothing, all of it leaves the pool's shares, and
// in between the draws are where the limit says.
func TestExplored(t *testing.T) {
	t.Parallel()
	p := Process{Propensity: []float64{.8, .2, .5}, Link: []float64{.5, .5, .3}, Sizes: []float64{3, 1, 2},
		Pool: []float64{1, 1, 2}}
	plain, err := p.Limit(6)
	if err != nil {
		t.Fatal(err)
	}
	p.Explore = 1e-12
	near, err := p.Limit(6)
	if err != nil {
		t.Fatal(err)
	}
	for v := range plain {
		if math.Abs(near[v]-plain[v]) > 1e-9 {
			t.Errorf("hardly explored: %v, not explored: %v", near, plain)
		}
	}
	p.Explore = 1
	pool, err := p.Limit(6)
	if err != nil {
		t.Fatal(err)
	}
	if pool[0] != .25 || pool[2] != .5 {
		t.Errorf("all explored: %v", pool)
	}
	for _, shownOnly := range []bool{false, true} {
		p.Explore, p.ShownOnly = .3, shownOnly
		limit, err := p.Limit(6)
		if err != nil {
			t.Fatal(err)
		}
		drawn, err := p.Run(1_000_000, 6, rand.NewPCG(1, 2))
		if err != nil {
			t.Fatal(err)
		}
		for v := range limit {
			if math.Abs(drawn[5][v]-limit[v]) > .005 {
				t.Errorf("shown only %v: drawn %v, limit %v", shownOnly, drawn[5], limit)
			}
		}
		if limit[0] <= pool[0] || !shownOnly && limit[0] >= plain[0] {
			t.Errorf("explored %v, not explored %v, pool %v", limit, plain, pool)
		}
	}
	for _, p := range []Process{
		{Propensity: []float64{1}, Link: []float64{1}, Explore: 1.1}, {Propensity: []float64{1}, Link: []float64{1},
			Pool: []float64{-1}},
		{Propensity: []float64{1}, Link: []float64{1}, Pool: []float64{1, 1}},
	} {
		if _, err := p.Limit(1); !errors.Is(err, ErrSetting) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
