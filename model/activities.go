package model

import (
	"math"

	"unseen/graph"
)

// Activities are when and how much sources were active and when targets came, as the training links tell: what a source
// did longer and more often, and what had just come when it did, was shown to it with another probability.
type Activities struct {
	// When is by node: the last moment of a source, the first of a target, in seconds since 1970; graph.NoTime where
	// it is not known.
	When  []int64
	Links []float32 // by node: log(1 + links) of a source, about 0 and of variance 1 over sources; 0 of a target

	mean, deviation float64 // of the logarithm of the age of available targets
}

// ActivitiesOf returns the activity in a graph of the training links alone. Available is the graph's Availability; nil
// means that no times are known, and every target is of one age.
func ActivitiesOf(g *graph.Graph, available *graph.Order) *Activities {
	a := &Activities{When: make([]int64, g.Len()), Links: make([]float32, g.Len()), deviation: 1}
	for i := range a.When {
		if a.When[i] = graph.NoTime; available != nil {
			a.When[i] = available.Moment(int32(i))
		}
	}
	sources := g.Sources()
	var links moments
	for _, i := range sources {
		links.add(math.Log1p(float64(len(g.Out(i)))))
	}
	for _, i := range sources {
		a.Links[i] = float32((math.Log1p(float64(len(g.Out(i)))) - links.mean()) / links.deviation())
	}
	// Of more pairs than this only every so many sources are looked at.
	const most = 1 << 18
	targets := g.Targets()
	step := 1 + len(sources)*len(targets)/most
	var ages moments
	for k := 0; k < len(sources); k += step {
		for _, j := range targets {
			if hours, known := a.hours(sources[k], j); known && hours >= 0 {
				ages.add(math.Log1p(hours))
			}
		}
	}
	if ages.count > 0 {
		a.mean, a.deviation = ages.mean(), ages.deviation()
	}
	return a
}

// hours is how long the target had been there at the source's last moment.
func (a *Activities) hours(source, target int32) (hours float64, known bool) {
	until, since := a.When[source], a.When[target]
	return float64(until-since) / 3600, until != graph.NoTime && since != graph.NoTime
}

// age is the logarithm of 1 + hours, about 0 and of variance 1 over the pairs that were available; 0 where it is not
// known.
func (a *Activities) age(source, target int32) float64 {
	hours, known := a.hours(source, target)
	if !known {
		return 0
	}
	return (math.Log(1+max(hours, 0)) - a.mean) / a.deviation
}

// activitySlopes is how many slopes the term Activity has.
const activitySlopes = 4

// values are what the slopes multiply: with age a and links n of a pair, a, a² − 1, n and n·a.
func (a *Activities) values(source, target int32) [activitySlopes]float32 {
	age, links := a.age(source, target), float64(a.Links[source])
	return [activitySlopes]float32{float32(age), float32(age*age - 1), float32(links), float32(links * age)}
}

// moments are a sum and a sum of squares.
type moments struct{ count, sum, squares float64 }

func (m *moments) add(x float64) {
	m.count++
	m.sum += x
	m.squares += x * x
}

func (m *moments) mean() float64 { return m.sum / max(m.count, 1) }

// deviation is 1 where all numbers are the same.
func (m *moments) deviation() float64 {
	variance := m.squares/max(m.count, 1) - m.mean()*m.mean()
	if !(variance > 1e-9) {
		return 1
	}
	return math.Sqrt(variance)
}
