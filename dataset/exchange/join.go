package exchange

import (
	"context"
	"fmt"
	"math"

	"unseen/dataset"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/kern"
)

// join makes links and exposures of all rows, pair by pair.
func (x *interactions) join(ctx context.Context) error {
	j := joiner{interactions: x}
	j.reserve()
	threads := kern.Threads(0)
	clicks, showings := make([][]uint64, threads), make([][]uint64, threads)
	for first := 0; first < max(len(x.clicked.buckets), len(x.showings.buckets)); first += threads {
		if err := kern.ChunksErr(ctx, threads, 1, threads, func(_, k, _, _ int) error {
			clicks[k], showings[k] = x.clicked.sorted(first+k), x.showings.sorted(first+k)
			return nil
		}); err != nil {
			return err
		}
		for k := range threads {
			if err := j.bucket(first+k, clicks[k], showings[k]); err != nil {
				return err
			}
			x.clicked.free(first + k)
			x.showings.free(first + k)
		}
	}
	j.finish()
	return nil
}

// joiner counts what it makes.
type joiner struct {
	*interactions
	e *dataset.Exposures // nil without impressions and ratings

	clickedPairs, links, below int // pairs that were clicked, that became links, and that were below the threshold
	shownPairs, shownLinks     int // pairs that were shown, and that are links too
	neverShown, late           int // links that were never shown, and that were first shown after the click
	peopleLinked               int
	itemLinked                 []bool
	lastPerson                 int32
}

func (j *joiner) reserve() {
	j.lastPerson, j.itemLinked = -1, make([]bool, j.items.len())
	if !j.withShown && !j.rated {
		return
	}
	rows := j.showings.rows
	if j.rated {
		rows += j.clicked.rows
	}
	j.e = &dataset.Exposures{Source: make([]int32, 0, rows), Target: make([]int32, 0, rows),
		Exposed: make([]bool, 0, rows), Linked: make([]bool, 0, rows)}
	if j.withShown {
		j.e.Count = make([]int32, 0, rows)
	}
	if j.showings.timed || j.rated && j.clicked.timed {
		j.e.Time = make([]int64, 0, rows)
	}
	if j.showings.placed {
		j.e.Position = make([]int32, 0, rows)
	}
	if j.showings.surfaced {
		j.e.Surface = make([]uint16, 0, rows)
		j.e.Surfaces = j.surfaces.all()
	}
	if j.showings.valued {
		j.e.Shown = make([]float64, 0, rows)
	}
}

// bucket joins the rows of some people, given the keys of both tables in order.
func (j *joiner) bucket(number int, clicks, showings []uint64) error {
	// pairs of one list, and how many of its keys they are
	first := func(keys []uint64) (pair uint64, n int) {
		if len(keys) == 0 {
			return math.MaxUint64, 0
		}
		pair = pairOf(keys[0])
		for n = 1; n < len(keys) && pairOf(keys[n]) == pair; n++ {
		}
		return pair, n
	}
	for len(clicks) > 0 || len(showings) > 0 {
		clicked, n := first(clicks)
		shown, m := first(showings)
		if clicked > shown {
			n = 0
		}
		if shown > clicked {
			m = 0
		}
		if err := j.pair(number, clicks[:n], showings[:m]); err != nil {
			return err
		}
		clicks, showings = clicks[n:], showings[m:]
	}
	return nil
}

// pair makes a link, an exposure or both of the rows of one pair.
func (j *joiner) pair(number int, clicks, showings []uint64) error {
	var p pairRow
	linked, when := false, int64(graph.NoTime)
	if len(clicks) > 0 {
		p, linked, when = j.click(number, clicks)
		j.clickedPairs++
		if !linked {
			j.below++
		}
	}
	if len(showings) > 0 || j.rated && len(clicks) > 0 {
		shown := pairShown{flag: true, first: when}
		if len(showings) > 0 {
			p, shown = j.shownBy(number, showings)
		}
		j.expose(p, shown, linked)
		if linked && shown.first != graph.NoTime && when != graph.NoTime && shown.first > when {
			j.late++
		}
	} else if linked && j.withShown {
		j.neverShown++
	}
	if !linked {
		return nil
	}
	j.links++
	if j.itemLinked[p.item] = true; p.person != j.lastPerson {
		j.lastPerson = p.person
		j.peopleLinked++
	}
	return j.sink.link(j.personNode[p.person], j.itemNode[p.item], when)
}

// click says whether the clicks of a pair make a link, and when it was first clicked.
func (j *joiner) click(number int, keys []uint64) (p pairRow, linked bool, when int64) {
	when = graph.NoTime
	latest, rating, count := int64(graph.NoTime), math.NaN(), 0.
	for _, key := range keys {
		p = j.clicked.at(number, key)
		if p.seconds != graph.NoTime && (when == graph.NoTime || p.seconds < when) {
			when = p.seconds
		}
		switch value := float64(p.value); {
		case !j.rated && !math.IsNaN(value):
			count += value
		case !j.rated:
			count++
		case p.seconds >= latest: // the last one counts
			rating, latest = value, p.seconds
		}
	}
	if j.rated {
		return p, rating >= j.threshold, when
	}
	return p, count >= j.least, when
}

// pairShown is how a pair was shown, over all its showings.
type pairShown struct {
	flag        bool
	count       int32
	position    int32
	surface     uint16
	probability float64 // of being shown at least once; NaN where it is unknown
	first       int64
}

func (j *joiner) shownBy(number int, keys []uint64) (p pairRow, s pairShown) {
	s.first, s.probability = graph.NoTime, math.NaN()
	never := 1. // probability of being shown by none of them
	for k, key := range keys {
		p = j.showings.at(number, key)
		if p.flag {
			s.flag = true
			s.count++
			if p.seconds != graph.NoTime && (s.first == graph.NoTime || p.seconds < s.first) {
				s.first = p.seconds
			}
		}
		if k == 0 || p.position > 0 && (s.position == 0 || p.position < s.position) {
			s.surface = p.surface
			s.position = p.position
		}
		if x := float64(p.value); !math.IsNaN(x) {
			never *= 1 - x
			s.probability = 1 - never
		}
	}
	return p, s
}

// expose adds an exposure.
func (j *joiner) expose(p pairRow, s pairShown, linked bool) {
	e := j.e
	if s.flag {
		j.shownPairs++
		if linked {
			j.shownLinks++
		}
	}
	e.Source, e.Target = append(e.Source, j.personNode[p.person]), append(e.Target, j.itemNode[p.item])
	e.Exposed, e.Linked = append(e.Exposed, s.flag), append(e.Linked, linked)
	if e.Count != nil {
		e.Count = append(e.Count, s.count)
	}
	if e.Time != nil {
		e.Time = append(e.Time, s.first)
	}
	if e.Position != nil {
		e.Position = append(e.Position, s.position)
	}
	if e.Surface != nil {
		e.Surface = append(e.Surface, s.surface)
	}
	if e.Shown != nil {
		e.Shown = append(e.Shown, s.probability)
	}
}

// finish hands the exposures over and says what was odd.
func (j *joiner) finish() {
	j.sink.showings(j.e)
	j.sink.repeat(j.clicked.rows - int64(j.clickedPairs))
	note := func(n int, one, many, rest string) {
		if n > 0 {
			j.sink.Note("%s%s.", amount.OneOrMore(n, one, many), rest)
		}
	}
	if j.rated {
		note(j.below, "rated pair is", "rated pairs are", fmt.Sprintf(" below %v: shown, and no link", j.threshold))
	} else {
		note(j.below, "pair has", "pairs have", fmt.Sprintf(" fewer than %v clicks and no link", j.least))
	}
	note(j.neverShown, "link is", "links are",
		" of a pair that the impressions never show: still a link, since the item "+
			"must have been seen elsewhere")
	note(j.late, "pair was", "pairs were", " shown only after the click: counted as shown")
	note(j.people.len()-j.peopleLinked, "person has", "people have", " no link: kept, with what the impressions show")
	unlinked := 0
	for _, is := range j.itemLinked {
		unlinked += bit(!is)
	}
	note(unlinked, "item has", "items have", " no link: kept, and can be recommended")
	if j.people.len() == 1 {
		j.sink.Note("There is only one person: nothing can be learned from how people differ.")
	}
	if j.e != nil && j.shownPairs > 0 && j.shownPairs == j.shownLinks {
		j.sink.Note("Every pair that was shown is a link, so that the log cannot tell what people pass over; it may " +
			"lack what they were shown and did not click.")
	}
}
