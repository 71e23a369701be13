package world

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unseen/internal/kern"
)

// ShopSettings say how a shop is made. Zero means the default.
type ShopSettings struct {
	People     int // 1,000
	Items      int // 300
	Segments   int // of people; 4
	Categories int // of items; 8
	// Impressions is the mean number of showings of a person; 40. Half of the people have less than 60% of that.
	Impressions float64
	Rank        int // of people's tastes; 6
	Seed        uint64
}

// errShop refuses settings of a shop.
var errShop = errors.New("invalid settings of a shop")

func (s ShopSettings) withDefaults() (ShopSettings, error) {
	s.People, s.Items = cmp.Or(s.People, 1000), cmp.Or(s.Items, 300)
	s.Segments, s.Categories = cmp.Or(s.Segments, 4), cmp.Or(s.Categories, 8)
	s.Impressions, s.Rank = cmp.Or(s.Impressions, 40), cmp.Or(s.Rank, 6)
	switch {
	case s.People < 1 || s.People > math.MaxInt32 || s.Items < 1 || s.Items > math.MaxInt32:
		return s, fmt.Errorf("%w: %d people and %d items; give at least one of each", errShop, s.People, s.Items)
	case s.Segments < 1 || s.Segments > s.People || s.Categories < 1 || s.Categories > s.Items:
		return s, fmt.Errorf("%w: %d segments of %d people and %d categories of %d items; give at least one, and no "+
			"more than there are", errShop, s.Segments, s.People, s.Categories, s.Items)
	case !(s.Impressions > 0 && s.Impressions <= 1e6):
		return s, fmt.Errorf("%w: %g impressions of a person; give more than 0 and at most a million", errShop,
			s.Impressions)
	case s.Rank < 1 || s.Rank > 256:
		return s, fmt.Errorf("%w: tastes of rank %d; give 1 to 256", errShop, s.Rank)
	}
	return s, nil
}

// Shop is people and items of whom everything is known: what each person wants, what they were shown and when, and so
// what they clicked.
//
// A person is shown a Poisson number of items while they are there, each with a chance that depends on the person's
// segment, the item's category and its popularity, if the item is there already. So a pair is shown
//
//	Poisson(λ_ij) times, with π_ij = 1 − exp(−λ_ij) to be shown at all.
//
// It is wanted with probability y_ij = σ(⟨u_i, v_j⟩ + b_i + b_j + b), once and for all, whatever was shown; what is
// wanted is clicked when it is first shown. Segments have tastes for categories, and the shop shows them more of these
// than they want: that is its bias.
type Shop struct {
	Settings ShopSettings
	People   []ShopPerson
	Items    []ShopItem

	shown  [][]float64 // by segment: the chance of an item at a showing
	choice [][]float64 // by segment: those added up, in the order of the items
	wants  coin
}

// ShopPerson is a person, who is there from one moment to another.
type ShopPerson struct {
	Segment     int
	From, To    time.Time
	impressions float64 // mean number of showings
	taste       []float32
	bias        float32
}

// ShopItem is an item, which is there from a moment on.
type ShopItem struct {
	Category int
	From     time.Time
	taste    []float32
	bias     float32
}

// Showing is an item that a person was shown.
type Showing struct {
	Person, Item int
	At           time.Time
	Position     int  // from 1
	Clicked      bool // and this was the first time
}

// shopYear is when the shop is open.
var shopYear = [2]time.Time{time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}

// NewShop makes a shop.
func NewShop(settings ShopSettings) (*Shop, error) {
	settings, err := settings.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Shop{Settings: settings, wants: newCoin(settings.Seed, "wants")}
	rng := rand.New(rand.NewPCG(settings.Seed, 0x5409))
	centre := func(count int) [][]float32 { // what members of a group have in common
		out := make([][]float32, count)
		for g := range out {
			out[g] = normals(rng, settings.Rank, .7)
		}
		return out
	}
	segments, categories := centre(settings.Segments), centre(settings.Categories)
	year := shopYear[1].Sub(shopYear[0])
	moment := func(share float64) time.Time { return shopYear[0].Add(time.Duration(share * float64(year))) }
	for range settings.People {
		p := ShopPerson{Segment: rng.IntN(settings.Segments), bias: float32(.6 * rng.NormFloat64()),
			impressions: settings.Impressions * math.Exp(rng.NormFloat64()-.5)}
		p.taste = sumOf(segments[p.Segment], normals(rng, settings.Rank, .7))
		begin := rng.Float64()
		p.From, p.To = moment(begin), moment(begin+(1-begin)*rng.Float64())
		s.People = append(s.People, p)
	}
	popularity := make([]float64, settings.Items)
	for j := range settings.Items {
		item := ShopItem{Category: rng.IntN(settings.Categories), bias: float32(.6 * rng.NormFloat64())}
		item.taste = sumOf(categories[item.Category], normals(rng, settings.Rank, .7))
		if rng.IntN(3) > 0 { // a third was there from the beginning
			item.From = moment(.9 * rng.Float64())
		} else {
			item.From = shopYear[0]
		}
		// what is wanted by many is shown more, and chance adds to it
		popularity[j] = .5*float64(item.bias) + rng.NormFloat64()
		s.Items = append(s.Items, item)
	}
	for g := range settings.Segments {
		shown, total := make([]float64, settings.Items), 0.
		for j, item := range s.Items {
			liking := dot32(segments[g], categories[item.Category])
			shown[j] = math.Exp(popularity[j] + 1.2*math.Tanh(liking))
			total += shown[j]
		}
		choice, sum := make([]float64, settings.Items), 0.
		for j := range shown {
			shown[j] /= total
			sum += shown[j]
			choice[j] = sum
		}
		s.shown, s.choice = append(s.shown, shown), append(s.choice, choice)
	}
	return s, nil
}

// shopBias is b: about one pair in six is wanted.
const shopBias = -2.2

// Relevance returns y, the probability that a person wants an item.
func (s *Shop) Relevance(person, item int) float64 {
	p, q := &s.People[person], &s.Items[item]
	y, _ := kern.Sigmoid64(dot32(p.taste, q.taste) + float64(p.bias) + float64(q.bias) + shopBias)
	return y
}

// Propensity returns π, the probability that a person is shown an item at all.
func (s *Shop) Propensity(person, item int) float64 {
	p, q := &s.People[person], &s.Items[item]
	share := 1.
	if length := p.To.Sub(p.From); length > 0 && q.From.After(p.From) {
		share = max(0, float64(p.To.Sub(q.From))/float64(length))
	}
	return -math.Expm1(-p.impressions * s.shown[p.Segment][item] * share)
}

// Wants reports whether a person wants an item. It does not depend on what was shown.
func (s *Shop) Wants(person, item int) bool {
	return s.wants.toss(int32(person), int32(item)) < s.Relevance(person, item)
}

// Shown yields what each person was shown, person by person and in order of time. It is the same every time.
func (s *Shop) Shown(yield func(Showing) bool) {
	const positions = 10
	for i := range s.People {
		p := &s.People[i]
		rng := rand.New(rand.NewPCG(s.Settings.Seed^0xe49, uint64(i)))
		var all []Showing
		for range poisson(rng, p.impressions) {
			j, _ := slices.BinarySearch(s.choice[p.Segment], rng.Float64())
			j = min(j, len(s.Items)-1)
			at := p.From.Add(time.Duration(rng.Float64() * float64(p.To.Sub(p.From)))).Truncate(time.Second)
			position := 1 + rng.IntN(positions)
			if !at.Before(s.Items[j].From) {
				all = append(all, Showing{Person: i, Item: j, At: at, Position: position})
			}
		}
		slices.SortStableFunc(all, func(a, b Showing) int { return a.At.Compare(b.At) })
		seen := map[int]bool{}
		for _, x := range all {
			x.Clicked = !seen[x.Item] && s.Wants(i, x.Item)
			seen[x.Item] = true
			if !yield(x) {
				return
			}
		}
	}
}

// poisson draws a Poisson number by adding up waiting times.
func poisson(rng *rand.Rand, mean float64) (count int) {
	for at := rng.ExpFloat64(); at < mean; at += rng.ExpFloat64() {
		count++
	}
	return count
}

func normals(rng *rand.Rand, count int, deviation float64) []float32 {
	out := make([]float32, count)
	for k := range out {
		out[k] = float32(deviation * rng.NormFloat64())
	}
	return out
}

func sumOf(a, b []float32) []float32 {
	for k, x := range a {
		b[k] += x
	}
	return b
}

func dot32(a, b []float32) (sum float64) {
	for k, x := range a {
		sum += float64(x) * float64(b[k])
	}
	return sum
}
