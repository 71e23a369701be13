package world

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// As many pairs are shown and clicked as the probabilities say, and nothing is shown before it is there.
func TestShop(t *testing.T) {
	t.Parallel()
	s, err := NewShop(ShopSettings{People: 400, Items: 120, Impressions: 60, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	type pair [2]int
	shown, clicked := map[pair]bool{}, map[pair]bool{}
	for x := range s.Shown {
		at := pair{x.Person, x.Item}
		if p := s.People[x.Person]; x.At.Before(s.Items[x.Item].From) || x.At.Before(p.From.Truncate(1e9)) ||
			x.At.After(p.To) {
			t.Fatalf("%+v is shown too early or too late", x)
		}
		if x.Clicked && (shown[at] || !s.Wants(x.Person, x.Item)) {
			t.Fatalf("%+v is clicked", x)
		}
		if shown[at] = true; x.Clicked {
			clicked[at] = true
		}
	}
	// of any pairs: expected and seen, with the variance of what is seen
	for name, of := range map[string]func(i, j int) bool{
		"all":     func(_, _ int) bool { return true },
		"popular": func(_, j int) bool { return s.shown[0][j] > 1./120 },
		"late":    func(i, j int) bool { return s.Items[j].From.After(s.People[i].From) },
		"wanted":  func(i, j int) bool { return s.Relevance(i, j) > .5 },
	} {
		var show, click, varianceOfShow, varianceOfClick, shows, clicks float64
		for i := range s.People {
			for j := range s.Items {
				if !of(i, j) {
					continue
				}
				pi, y := s.Propensity(i, j), s.Relevance(i, j)
				show, click = show+pi, click+pi*y
				varianceOfShow += pi * (1 - pi)
				varianceOfClick += pi * y * (1 - pi*y)
				if shown[pair{i, j}] {
					shows++
				}
				if clicked[pair{i, j}] {
					clicks++
				}
			}
		}
		if math.Abs(shows-show) > 4*math.Sqrt(varianceOfShow) || math.Abs(clicks-click) > 4*math.Sqrt(varianceOfClick) {
			t.Errorf("%s: %v shown for %.1f, %v clicked for %.1f", name, shows, show, clicks, click)
		}
		if shows == 0 || clicks == 0 {
			t.Errorf("%s: nothing shown", name)
		}
	}
	again, err := NewShop(ShopSettings{People: 400, Items: 120, Impressions: 60, Seed: 3})
	if err != nil || !slices.Equal(slices.Collect(again.Shown), slices.Collect(s.Shown)) {
		t.Errorf("the same shop shows something else: %v", err)
	}
	for range again.Shown {
		break
	}
}

// What the shop shows more is not only what is wanted more: that is what there is to correct.
func TestShopIsBiased(t *testing.T) {
	t.Parallel()
	s, err := NewShop(ShopSettings{Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var mean, wanted [2]float64
	for range 20_000 {
		i, j := rng.IntN(len(s.People)), rng.IntN(len(s.Items))
		pi, y := s.Propensity(i, j), s.Relevance(i, j)
		mean[0], mean[1] = mean[0]+pi/20_000, mean[1]+y/20_000
		wanted[0], wanted[1] = wanted[0]+pi*y, wanted[1]+pi
	}
	if mean[0] < .02 || mean[0] > .2 || mean[1] < .08 || mean[1] > .3 {
		t.Errorf("mean π is %.3f, mean y %.3f", mean[0], mean[1])
	}
	if among := wanted[0] / wanted[1]; among < 1.1*mean[1] {
		t.Errorf("of what is shown %.3f is wanted, of all %.3f", among, mean[1])
	}
}

func TestShopRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []ShopSettings{{People: -1}, {Items: -5}, {People: 2, Segments: 3}, {Items: 2, Categories: 9},
		{Impressions: -1}, {Impressions: math.NaN()}, {Impressions: math.Inf(1)}, {Rank: 1000}} {
		if _, err := NewShop(s); !errors.Is(err, errShop) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if s, err := NewShop(ShopSettings{People: 1, Items: 1, Segments: 1, Categories: 1}); err != nil ||
		!(s.Propensity(0, 0) >= 0) {
		t.Errorf("one person and one item: %v", err)
	}
}
