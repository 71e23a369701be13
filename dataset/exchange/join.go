package exchange

import (
	"context"
	"fmt"
	"iter"
	"math"

	"unseen/dataset"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
	"unseen/internal/kern"
)

// join makes links of all rows, pair by pair, and leaves the rows of exposures in order for when they are written.
func (x *interactions) join(ctx context.Context) error {
	j := joiner{interactions: x, lastPerson: -1, itemLinked: make([]bool, x.items.len())}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	groups, failed := make(chan []sortedBucket), make(chan error, 1)
	go func() {
		defer close(groups)
		failed <- x.sort(ctx, groups)
	}()
	for group := range groups { // while the next one is sorted
		for _, b := range group {
			if err := x.bucket(b.number, b.clicks, b.showings, j.pair); err != nil {
				return err
			}
			if !x.rated {
				x.clicked.free(b.number)
			}
		}
	}
	if err := <-failed; err != nil {
		return err
	}
	j.finish()
	return nil
}

// sortedBucket is the keys of the rows of some people, in order.
type sortedBucket struct {
	number           int
	clicks, showings []uint64
}

// sort puts the rows of all buckets into order, and hands the buckets over, some at a time.
func (x *interactions) sort(ctx context.Context, groups chan<- []sortedBucket) error {
	threads := kern.Threads(0)
	for first := 0; first < x.buckets(); first += threads {
		group := make([]sortedBucket, min(threads, x.buckets()-first))
		if err := kern.ChunksErr(ctx, len(group), 1, threads, func(_, k, _, _ int) error {
			b := first + k
			x.clicked.reorder(b, x.clicked.sorted(b))
			x.showings.reorder(b, x.showings.sorted(b))
			group[k] = sortedBucket{b, x.clicked.inOrder(b), x.showings.inOrder(b)}
			return nil
		}); err != nil {
			return err
		}
		select {
		case groups <- group:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// buckets is how many buckets of people there are.
func (x *interactions) buckets() int { return max(len(x.clicked.buckets), len(x.showings.buckets)) }

// exposureParts yields the exposures, some people at a time, and lets go of their rows. One part is made while the last
// one is written.
func (x *interactions) exposureParts(linked func(source, target int32) bool) iter.Seq2[*dataset.Exposures, error] {
	return func(yield func(*dataset.Exposures, error) bool) {
		empty, full, stop := make(chan *exposurePart, 2), make(chan *exposurePart), make(chan struct{})
		for surfaces := x.surfaces.all(); len(empty) < cap(empty); {
			empty <- &exposurePart{interactions: x, linked: linked, surfaces: surfaces}
		}
		defer close(stop)
		go func() {
			defer close(full)
			for number := range x.buckets() {
				p := <-empty
				p.begin()
				p.err = x.bucket(number, x.clicked.inOrder(number), x.showings.inOrder(number), p.pair)
				x.clicked.free(number)
				x.showings.free(number)
				select {
				case full <- p:
				case <-stop:
					return
				}
			}
		}()
		for p := range full {
			if !yield(p.e, p.err) {
				return
			}
			empty <- p
		}
	}
}

// exposurePart makes exposures of pairs.
type exposurePart struct {
	*interactions
	linked   func(source, target int32) bool
	surfaces []string
	e        *dataset.Exposures
	err      error
}

// begin empties the columns, of which those are there that something is known of.
func (p *exposurePart) begin() {
	if p.e == nil {
		p.e = &dataset.Exposures{Count: []int32{}}
		if p.showings.timed || p.rated && p.clicked.timed {
			p.e.Time = []int64{}
		}
		if p.showings.placed {
			p.e.Position = []int32{}
		}
		if p.showings.surfaced {
			p.e.Surface, p.e.Surfaces = []uint16{}, p.surfaces
		}
		if p.showings.valued {
			p.e.Shown = []float64{}
		}
	}
	e := p.e
	e.Source, e.Target, e.Exposed, e.Linked = e.Source[:0], e.Target[:0], e.Exposed[:0], e.Linked[:0]
	e.Count, e.Time, e.Position, e.Surface, e.Shown = e.Count[:0], e.Time[:0], e.Position[:0], e.Surface[:0],
		e.Shown[:0]
}

// pair adds the exposure of a pair, if there is one.
func (p *exposurePart) pair(number int, clicks, showings []uint64) error {
	at, shown, is := p.shownPair(number, clicks, showings)
	if !is {
		return nil
	}
	e, i, j := p.e, p.personNode[at.person], p.itemNode[at.item]
	e.Source, e.Target = append(e.Source, i), append(e.Target, j)
	e.Exposed, e.Linked = append(e.Exposed, shown.flag), append(e.Linked, p.linked(i, j))
	e.Count = append(e.Count, shown.count)
	if e.Time != nil {
		e.Time = append(e.Time, shown.first)
	}
	if e.Position != nil {
		e.Position = append(e.Position, shown.position)
	}
	if e.Surface != nil {
		e.Surface = append(e.Surface, shown.surface)
	}
	if e.Shown != nil {
		e.Shown = append(e.Shown, shown.probability)
	}
	return nil
}

// joiner makes links, and counts.
type joiner struct {
	*interactions
	clickedPairs, links, below int // pairs that were clicked, that became links, and that were below the threshold
	unrated                    int // of the latter, pairs without a rating
	exposures                  int // pairs of which something is known
	shownPairs, shownLinks     int // pairs that were shown, and that are links too
	neverShown, late           int // links that were never shown, and that were first shown after the click
	peopleLinked               int
	itemLinked                 []bool
	lastPerson                 int32
}

// bucket joins the rows of some people, given the keys of both tables in order, and hands them over pair by pair.
func (x *interactions) bucket(number int, clicks, showings []uint64,
	pair func(number int, clicks, showings []uint64) error) error {
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
		if err := pair(number, clicks[:n], showings[:m]); err != nil {
			return err
		}
		clicks, showings = clicks[n:], showings[m:]
	}
	return nil
}

// pair makes a link of the rows of one pair, if they are one.
func (j *joiner) pair(number int, clicks, showings []uint64) error {
	var p pairRow
	linked, when := false, int64(graph.NoTime)
	if len(clicks) > 0 {
		p, linked, when = j.click(number, clicks)
		j.clickedPairs++
		j.below += bit(!linked)
		j.unrated += bit(j.rated && !linked && math.IsNaN(float64(p.value)))
	}
	if _, shown, is := j.shownPair(number, clicks, showings); is {
		j.exposures++
		j.shownPairs += bit(shown.flag)
		j.shownLinks += bit(shown.flag && linked)
		j.late += bit(linked && when != graph.NoTime && shown.first > when)
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

// shownPair says how a pair was shown; false if nothing is known of that. A rated pair was shown.
func (x *interactions) shownPair(number int, clicks, showings []uint64) (p pairRow, s pairShown, is bool) {
	switch {
	case len(showings) > 0:
		p, s = x.shownBy(number, showings)
	case x.rated && len(clicks) > 0:
		p, _, s.first = x.click(number, clicks)
		s.flag, s.count, s.probability = true, 1, math.NaN()
	default:
		return p, s, false
	}
	return p, s, true
}

// click says whether the clicks of a pair make a link, and when it was first clicked. The row has
// the rating that counts.
func (x *interactions) click(number int, keys []uint64) (p pairRow, linked bool, when int64) {
	clicks := NewPairClicks()
	for _, key := range keys {
		p = x.clicked.at(number, key)
		clicks.Add(p.seconds, p.value, x.rated)
	}
	if x.rated {
		p.value = float32(clicks.rating)
		return p, clicks.rating >= x.threshold, clicks.First
	}
	return p, clicks.count >= x.least, clicks.First
}

// PairClicks is what the clicks of one pair come to.
type PairClicks struct {
	First         int64 // when it was first clicked; graph.NoTime where that is unknown
	latest        int64
	rating, count float64
}

// NewPairClicks returns those of a pair that was not clicked yet.
func NewPairClicks() PairClicks { return PairClicks{graph.NoTime, graph.NoTime, math.NaN(), 0} }

// Add adds a click, in the order of the table: its value is a rating, or a count if it is rated by none, NaN for one.
func (c *PairClicks) Add(seconds int64, value float32, rated bool) {
	if seconds != graph.NoTime && (c.First == graph.NoTime || seconds < c.First) {
		c.First = seconds
	}
	switch value := float64(value); {
	case !rated && !math.IsNaN(value):
		c.count += value
	case !rated:
		c.count++
	case seconds >= c.latest: // the last one counts
		c.rating, c.latest = value, seconds
	}
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

func (x *interactions) shownBy(number int, keys []uint64) (p pairRow, s pairShown) {
	s.first, s.probability = graph.NoTime, math.NaN()
	for k, key := range keys {
		p = x.showings.at(number, key)
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
		if x := float64(p.value); math.IsNaN(s.probability) {
			s.probability = x // as it is: 1 − (1 − x) would make 0 of a small one
		} else if !math.IsNaN(x) {
			s.probability += x * (1 - s.probability)
		}
	}
	return p, s
}

// finish hands the exposures over and says what was odd.
func (j *joiner) finish() {
	log := "" // what the exposures mean for other pairs, unless it is set
	if !j.withShown {
		log = "ignored" // ratings say nothing of what was shown besides
	}
	if j.withShown || j.rated {
		j.sink.showings(j.exposures, log, j.exposureParts)
	}
	j.sink.repeat(j.clicked.rows - int64(j.clickedPairs))
	note := func(n int, one, many, rest string) {
		if n > 0 {
			j.sink.Note("%s%s.", amount.OneOrMore(n, one, many), rest)
		}
	}
	if j.rated {
		note(j.below-j.unrated, "rated pair is", "rated pairs are", fmt.Sprintf(" below %v: shown, and no link",
			j.threshold))
		note(j.unrated, "pair has", "pairs have", " no rating: shown, and no link")
	} else {
		note(j.below, "pair has", "pairs have", fmt.Sprintf(" fewer than %v clicks and no link", j.least))
	}
	note(j.neverShown, "link is", "links are",
		" of a pair that the impressions never show: still a link, since the item "+
			"must have been seen elsewhere")
	note(j.late, "pair was", "pairs were", " shown only after the click: counted as shown")
	kept := " no link: kept, with what the impressions show"
	if !j.withShown {
		kept = " no link: kept"
	}
	note(j.people.len()-j.peopleLinked, "person has", "people have", kept)
	unlinked := 0
	for _, is := range j.itemLinked {
		unlinked += bit(!is)
	}
	note(unlinked, "item has", "items have", " no link: kept, and can be recommended")
	if j.people.len() == 1 {
		j.sink.Note("There is only one person: nothing can be learned from how people differ.")
	}
	if j.exposures > 0 && !j.options.Given("log") {
		switch {
		case !j.withShown:
			j.sink.Note("Ratings say what was seen, not what was shown besides: exposure is learned from the links. "+
				"Set %v to complete if these people were shown nothing but what they rated.", hint.Setting("log"))
		case j.exposures == j.shownPairs:
			j.sink.Note(unsaidLog, hint.Setting("log"))
		}
	}
	if j.shownPairs > 0 && j.shownPairs == j.shownLinks {
		j.sink.Note("Every pair that was shown is a link, so that the log cannot tell what people pass over; it may " +
			"lack what they were shown and did not click.")
	}
}
