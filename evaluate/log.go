package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// LoggedList is a list that a source was shown, item by item: with which probability each was, and
// whether it was wanted.
type LoggedList struct {
	Source int32
	Items  []LoggedItem
}

// LoggedItem is one item of a list.
type LoggedItem struct {
	Target      int32
	Probability float64 // with which a list like this one has it and it is seen
	Wanted      bool    // clicked or linked
	Place       int     // in the list, from 1; 0 where it is unknown
	Placed      float64 // probability of its place, given the items of the list; 0 where it is unknown
	// Seen is the chance that wanting shows: that the place is looked at, and that who wants also clicks. 0 means 1.
	Seen float64
}

// LogRisk is the true risk of a model by what a service showed with known probabilities: the mean log-loss over
// sources, and for each over all that could have been shown,
//
//	R̂_i = 1/|C_i| · ( Σ_{j ∈ C_i} H_ij + Σ_{j shown} (δ(o_ij, ŷ_ij) − H_ij) / p_ij ),  H = ŷ·δ(1, ŷ) + (1−ŷ)·δ(0, ŷ),
//
// and the mean over the lists of a source. Where wanting shows with probability q, o/q stands for o, in which δ is
// linear. Its expectation over what lists draw is the risk itself,
// whatever ŷ: p is not learned but known. How far lists and sources vary gives the interval, which
// is by sources, as items of a list and lists of a source are not independent.
type LogRisk struct {
	Risk     risk.Interval `json:"risk"`
	Believed float64       `json:"believed"` // what the model expects of itself: the mean of H
	Lists    int           `json:"lists"`
	Sources  int           `json:"sources"` // of which Risk is the mean
	Items    int           `json:"items"`
	Wanted   int           `json:"wanted"`
	Warnings []string      `json:"warnings,omitempty"`
}

// LogSettings say what to make of a log.
type LogSettings struct {
	Linked  bool // lists may have what their source links to already
	Sources int  // at most so many, chosen by Seed; 0 means 1000
	Seed    uint64
	Threads int           // 0 means all processors; results do not depend on it
	Engine  engine.Engine // that scores; nil means engine.CPU with these Threads
}

// FromLog estimates the risk of a model by lists that were shown. Lists whose items have no probability are left out.
// A list of which nothing was seen counts too: where such lists are not logged, what is estimated is not the risk.
func FromLog(ctx context.Context, g *graph.Graph, m model.Model, lists []LoggedList, s LogSettings) (*LogRisk, error) {
	if s.Sources <= 0 {
		s.Sources = 1000
	}
	by, unknown, err := bySource(g, lists)
	if err != nil {
		return nil, err
	}
	sources := slices.Sorted(maps.Keys(by))
	if len(sources) > s.Sources {
		rng := rand.New(rand.NewPCG(s.Seed, 0x5041))
		rng.Shuffle(len(sources), func(a, b int) { sources[a], sources[b] = sources[b], sources[a] })
		sources = sources[:s.Sources]
		slices.Sort(sources)
	}
	if len(sources) < 2 {
		return nil, fmt.Errorf("%w: the log has lists with known probabilities for %d sources, and an interval "+
			"takes two", ErrEmpty, len(sources))
	}
	risks, believed := make([]float64, len(sources)), make([]float64, len(sources))
	heaviest := make([]float64, len(sources))
	all := make([]int32, g.Len())
	for j := range all {
		all[j] = int32(j)
	}
	e := engine.OrCPU(s.Engine, s.Threads)
	if err := kern.ChunksErr(ctx, len(sources), 1, kern.Threads(s.Threads), func(_, at, _, _ int) error {
		i := sources[at]
		z, _, err := engine.SourceLogits(ctx, e, engine.Predictor{Link: m.Link, LinkParams: m.LinkParams}, i, all)
		if err == nil {
			risks[at], believed[at], heaviest[at] = sourceRisk(g, i, z, by[i], s.Linked)
		}
		return err
	}); err != nil {
		return nil, err
	}
	out := &LogRisk{Sources: len(sources)}
	for _, i := range sources {
		out.Lists += len(by[i])
		for _, l := range by[i] {
			out.Items += len(l.Items)
			for _, item := range l.Items {
				if item.Wanted {
					out.Wanted++
				}
			}
		}
	}
	n := float64(len(sources))
	largest := 0.
	for at := range risks {
		out.Believed += believed[at] / n
		largest = max(largest, heaviest[at])
	}
	// Few items weigh much, so that the mean's distribution is skewed, which the bootstrap sees.
	if out.Risk, err = (risk.Sample{Values: risks}).Bootstrap(ctx, .95,
		risk.Bootstrap{Seed: s.Seed, Threads: kern.Threads(s.Threads)}); err != nil {
		return nil, err
	}
	if unknown > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d lists have items of unknown probability and "+
			"are left out", unknown, len(lists)))
	}
	if len(sources) < 30 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d sources are too few for a reliable interval", len(sources)))
	}
	if largest > .2*n*math.Abs(out.Risk.Estimate) {
		out.Warnings = append(out.Warnings, "one item that was unlikely to be shown makes up a fifth of the "+
			"risk or more: the interval may be too narrow; explore more")
	}
	return out, nil
}

// bySource groups lists whose items have known probabilities, and counts the others.
func bySource(g *graph.Graph, lists []LoggedList) (by map[int32][]LoggedList, unknown int, err error) {
	by = map[int32][]LoggedList{}
	for _, l := range lists {
		if l.Source < 0 || int(l.Source) >= g.Len() || !g.IsSource(l.Source) {
			return nil, 0, fmt.Errorf("a list of node %d, which is none of the sources", l.Source)
		}
		known := true
		for _, item := range l.Items {
			if item.Target < 0 || int(item.Target) >= g.Len() || item.Target == l.Source || !g.IsTarget(item.Target) ||
				!(item.Probability <= 1) || item.Probability < 0 || !(item.Seen >= 0 && item.Seen <= 1) {
				return nil, 0, fmt.Errorf("a list of node %d has node %d with probability %v, seen with %v", l.Source,
					item.Target, item.Probability, item.Seen)
			}
			known = known && item.Probability > 0
		}
		if !known {
			unknown++
			continue
		}
		by[l.Source] = append(by[l.Source], l)
	}
	return by, unknown, nil
}

// sourceRisk is R̂_i, the mean of H, and the largest correction by a single item.
func sourceRisk(g *graph.Graph, i int32, z []float32, lists []LoggedList, linked bool) (mean, believed,
	largest float64) {
	candidates := 0.
	links := g.Out(i)
	for j, logit := range z {
		if int32(j) == i || !g.IsTarget(int32(j)) {
			continue
		}
		if !linked {
			if _, has := slices.BinarySearch(links, int32(j)); has {
				continue
			}
		}
		_, _, h := logLosses(float64(logit))
		believed += h
		candidates++
	}
	if candidates == 0 {
		return 0, 0, 0
	}
	for _, l := range lists {
		for _, item := range l.Items {
			one, zero, h := logLosses(float64(z[item.Target]))
			loss := zero
			if item.Wanted {
				loss += (one - zero) / cmp.Or(item.Seen, 1)
			}
			c := (loss - h) / (item.Probability * float64(len(lists)))
			mean += c
			largest = max(largest, math.Abs(c))
		}
	}
	believed /= candidates
	return believed + mean/candidates, believed, largest / candidates
}

// logLosses returns δ(1, ŷ), δ(0, ŷ) and what is expected of them where ŷ is right.
func logLosses(z float64) (one, zero, expected float64) {
	common := math.Log1p(math.Exp(-math.Abs(z)))
	one, zero = math.Max(-z, 0)+common, math.Max(z, 0)+common
	y := 1 / (1 + math.Exp(-z))
	return one, zero, y*one + (1-y)*zero
}
