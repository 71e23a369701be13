package sample

import (
	"cmp"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
	"unseen/risk"
)

// ExposureLog is pairs of which it is known whether the target was shown to the source, and whether the source then
// linked to it. A pair that occurs more than once was shown, or linked, if any of its rows says so.
type ExposureLog struct {
	Source, Target  []int32
	Exposed, Linked []bool
	// Seen is how probably wanting shows in a row, in a log of kind Offered: less than 1 where the target stood at a
	// place that few look at, or where a click is waited for that many do not make. nil means 1. Of a pair that occurs
	// more than once, wanting shows in one row or another, independently.
	Seen []float64
	// Rates are what Seen was learned as, and Rate is which of them that of each row is; −1 where it is known. nil
	// means that all are.
	Rates *SeenRates
	Rate  []int32
}

// SeenRates are chances that wanting shows which were learned from a log, and how surely they are known.
type SeenRates struct {
	Rate []float64 // the chances
	// Scale is of each the factor that it shares with others and that was learned with relevance; −1 where there is
	// none.
	Scale []int32
	// Covariance is that of the logarithms of the rates, but for what they share, row by row.
	Covariance []float64

	shown []shownRate // by source, target and rate
}

// shownRate is a showing and its rate.
type shownRate struct {
	graph.Link
	rate int32
}

// Of returns the rates of the showings of a pair, in order.
func (r *SeenRates) Of(source, target int32) (rates []int32) {
	link := graph.Link{Source: source, Target: target}
	at, _ := slices.BinarySearchFunc(r.shown, link, func(s shownRate, l graph.Link) int {
		return compareLinks(s.Link, l)
	})
	for ; at < len(r.shown) && r.shown[at].Link == link; at++ {
		rates = append(rates, r.shown[at].rate)
	}
	return rates
}

// Shared reports whether any rates share a factor that was learned with relevance: how often wanting shows is then not
// told from how much is wanted, but by links.
func (r *SeenRates) Shared() bool {
	return slices.ContainsFunc(r.Scale, func(scale int32) bool { return scale >= 0 })
}

// rates returns those of the log with its showings; nil where nothing was learned.
func (l *ExposureLog) rates() *SeenRates {
	if l == nil || l.Rates == nil {
		return nil
	}
	r := *l.Rates
	r.shown = nil
	for k, rate := range l.Rate {
		if rate >= 0 {
			r.shown = append(r.shown, shownRate{graph.Link{Source: l.Source[k], Target: l.Target[k]}, rate})
		}
	}
	slices.SortFunc(r.shown, func(a, b shownRate) int {
		return cmp.Or(compareLinks(a.Link, b.Link), cmp.Compare(a.rate, b.rate))
	})
	return &r
}

// checkRates refuses rates that do not fit the log.
func (l *ExposureLog) checkRates() error {
	if l.Rates == nil {
		return nil
	}
	n := len(l.Rates.Rate)
	if len(l.Rates.Scale) != n || len(l.Rates.Covariance) != n*n || len(l.Rate) != len(l.Source) {
		return fmt.Errorf("%w: %d rates, %d scales, %d covariances and %d rates of %d rows", ErrShape, n,
			len(l.Rates.Scale), len(l.Rates.Covariance), len(l.Rate), len(l.Source))
	}
	for k, rate := range l.Rate {
		if int(rate) >= n {
			return fmt.Errorf("%w: row %d has rate %d of %d", ErrShape, k, rate, n)
		}
	}
	return nil
}

// LogKind says what an exposure log means for the pairs that are not in it.
type LogKind string

// The kinds of logs. The kind matters: read as a sample, a log of shown pairs alone says that everything is shown.
const (
	Sampled  LogKind = "sample"   // nothing: its pairs were sampled, shown or not
	Complete LogKind = "complete" // the sources in it were shown nothing else
	Ignored  LogKind = "ignored"  // it is not used
	// Offered is the log of a recommender that came later than the graph's links: its pairs were shown on purpose,
	// with probabilities that have nothing to do with π. Only training uses it. Whether a shown pair became a link
	// teaches ŷ; the graph's own links and their absence stay as they are, and teach both ŷ and π̂.
	Offered LogKind = "offered"
	// Drawn is Offered of pairs that were drawn at random from those without a link, of each field pair some: what
	// became of them is that of all, so that they say how much is relevant, whatever is assumed.
	Drawn LogKind = "drawn"
)

// Offers reports whether the log's pairs were shown on purpose, later than the graph's links.
func (k LogKind) Offers() bool { return k == Offered || k == Drawn }

// Check refuses a kind of log that there is not.
func (k LogKind) Check() error {
	switch k {
	case "", Sampled, Complete, Offered, Drawn, Ignored:
		return nil
	}
	return hint.Wrap(fmt.Errorf("%w: unknown kind of log %q", ErrSetting, k), "set %v to %s, %s, %s, %s or %s",
		hint.Setting("log"), Sampled, Complete, Offered, Drawn, Ignored)
}

// checkLog refuses a log that would be misread.
func (p Plan) checkLog(log *ExposureLog) error {
	if err := p.Log.Check(); err != nil {
		return err
	}
	if p.Log == Complete && p.Scheme != "" && p.Scheme != graph.Uniform.String() {
		return hint.Wrap(fmt.Errorf("%w: unlinked pairs by %s beside a complete log", ErrSetting, p.Scheme),
			"set %v to uniform", hint.Setting("negativeScheme"))
	}
	if log == nil {
		return nil
	}
	n := len(log.Source)
	if len(log.Target) != n || len(log.Exposed) != n || len(log.Linked) != n {
		return fmt.Errorf("%w: the log has %d sources, %d targets, %d exposures and %d links", ErrShape,
			n, len(log.Target), len(log.Exposed), len(log.Linked))
	}
	for k, q := range log.Seen {
		if !(q > 0 && q <= 1) || len(log.Seen) != n {
			return fmt.Errorf("%w: row %d of the log of %d rows is seen with probability %v; give one above 0, up to 1",
				ErrShape, k, n, q)
		}
	}
	if err := log.checkRates(); err != nil {
		return err
	}
	if n == 0 || p.Log == Complete || p.Log.Offers() || p.Log == Ignored {
		return nil
	}
	linked := 0
	for k, exposed := range log.Exposed {
		switch {
		case !exposed && !log.Linked[k]:
			return nil
		case !exposed:
			linked++
		}
	}
	return shownOnly(linked)
}

// ShownOnly is the error of a log that is read as a sample and has only what was shown.
func ShownOnly() error { return shownOnly(0) }

// shownOnly is ShownOnly of a log in which some rows say that a pair is linked and was not shown.
func shownOnly(linked int) error {
	shown := "shown"
	if linked > 0 {
		shown = fmt.Sprintf("shown or linked (a link counts as shown, and %s)",
			amount.OneOrMore(linked, "row is linked and not exposed", "rows are linked and not exposed"))
	}
	err := fmt.Errorf("%w: the log holds only pairs that were %s, so it cannot tell how many were not", ErrSetting,
		shown)
	return hint.Wrap(err, "set %v to %s if nothing else was shown to their sources, else to %s", hint.Setting("log"),
		Complete, Ignored)
}

// LogPart is what a log says of the pairs of one subset, of all sources or of some.
type LogPart struct {
	Log     *ExposureLog
	Belongs func(i, j int32) bool // whether a pair is of the subset
	// There reports whether a target was there to be shown; nil means always. Of a sampled log alone: that a target
	// which was not there was not shown says nothing of π̂, which is of those that were.
	There   func(i, j int32) bool
	Trained func(i, j int32) bool // whether a pair is linked, and trained on; of a log that offers
	Rate    float64               // at which unlinked pairs were drawn; of a complete log
}

// Join adds to the drawn pairs of these sources, which are by source and then by target, what a log says of them. Of a
// log that offers it says something of training pairs alone; see LogKind.
func (p Plan) Join(pairs *graph.Pairs, part LogPart) Evidence {
	logged := part.Log.entries(part.Belongs)
	switch {
	case p.Log.Offers():
		return joinOffered(part.Trained, Evidence{Pairs: pairs}, logged)
	case p.Log == Complete:
		return part.joinComplete(pairs, logged, p.EveryShown)
	}
	return joinSampled(pairs, slices.DeleteFunc(logged, func(e entry) bool {
		return !e.exposed && part.There != nil && !part.There(e.Source, e.Target)
	}))
}

// entry is a pair of a log.
type entry struct {
	graph.Link
	exposed, linked bool
	missed          float64 // chance that wanting does not show
}

// entries returns the log's pairs that belong to a subset, each once, by source and then by target.
func (l *ExposureLog) entries(belongs func(i, j int32) bool) []entry {
	var all []entry
	for k, i := range l.Source {
		if belongs(i, l.Target[k]) {
			e := entry{Link: graph.Link{Source: i, Target: l.Target[k]}, exposed: l.Exposed[k] || l.Linked[k],
				linked: l.Linked[k]}
			if l.Seen != nil {
				e.missed = 1 - l.Seen[k]
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return compareLinks(a.Link, b.Link) })
	once := all[:0]
	for _, e := range all {
		if n := len(once); n > 0 && once[n-1].Link == e.Link {
			once[n-1].exposed, once[n-1].linked = once[n-1].exposed || e.exposed, once[n-1].linked || e.linked
			once[n-1].missed *= e.missed
			continue
		}
		once = append(once, e)
	}
	return once
}

// joinSampled adds the pairs of a sampled log. Such a pair is there whether it is linked or not: it stands for itself
// alone, with weight and rate 1; the others keep theirs, since they were drawn from among all.
func joinSampled(p *graph.Pairs, logged []entry) Evidence {
	if len(logged) == 0 {
		return Evidence{Pairs: p}
	}
	both := newRows(p)
	merge(p, logged, func(e entry) {
		both.add(e.Link, e.linked, 1, 1, exposureOf(e.exposed))
	}, func(k int, e *entry) {
		if e != nil {
			both.add(e.Link, e.linked, 1, 1, exposureOf(e.exposed))
			return
		}
		both.add(linkAt(p, k), p.Linked[k], p.Weight[k], p.Rate[k], risk.Unlogged)
	})
	return both.Evidence
}

// joinComplete adds what a complete log says: of every pair of its sources, whether it was shown. Which of them are in
// the sample stays as it was, but for links that only the log knows, for pairs that were shown where all of these are
// wanted, and for pairs of another subset, shown or not, by a log or none: taken as not shown, held-out pairs would
// make exposure rarer than it is. Without all of them the sample is of as many of all pairs as of the links.
func (part LogPart) joinComplete(p *graph.Pairs, logged []entry, everyShown bool) Evidence {
	known := map[int32]bool{}
	for _, i := range part.Log.Source {
		known[i] = true
	}
	both := newRows(p)
	merge(p, logged, func(e entry) {
		if e.linked || everyShown && e.exposed {
			both.add(e.Link, e.linked, 1, part.Rate, risk.Exposed)
		}
	}, func(k int, e *entry) {
		linked, weight, exposure := p.Linked[k], p.Weight[k], risk.Unlogged
		switch {
		case e != nil:
			exposure = exposureOf(e.exposed || linked)
			if e.linked && !linked {
				linked, weight = true, 1
			}
			if everyShown && e.exposed {
				weight = 1
			}
		case !linked && !part.Belongs(p.Source[k], p.Target[k]):
			return
		case known[p.Source[k]]:
			exposure = exposureOf(linked) // what is linked was seen somewhere
		}
		both.add(linkAt(p, k), linked, weight, p.Rate[k], exposure)
	})
	return both.Evidence
}

// offeredWeight is the weight of an offered pair: almost 0, since it stands for no pair of the universe.
const offeredWeight = 1e-9

// joinOffered adds the shown pairs that are no training links, with their outcome. A pair that the sample has too
// occurs twice, as it was observed twice.
func joinOffered(trained func(i, j int32) bool, known Evidence, logged []entry) Evidence {
	p := known.Pairs
	logged = slices.DeleteFunc(logged, func(e entry) bool {
		return !e.exposed || trained(e.Source, e.Target)
	})
	if len(logged) == 0 {
		return known
	}
	both := newRows(p)
	offer := func(e entry) { both.add(e.Link, e.linked, offeredWeight, 1, risk.OfferedSeen(1-e.missed)) }
	merge(p, logged, offer, func(k int, e *entry) {
		exposure := risk.Unlogged
		if known.Exposure != nil {
			exposure = known.Exposure[k]
		}
		both.add(linkAt(p, k), p.Linked[k], p.Weight[k], p.Rate[k], exposure)
		if e != nil {
			offer(*e)
		}
	})
	return both.Evidence
}

// rows is evidence that is made row by row.
type rows struct{ Evidence }

func newRows(of *graph.Pairs) *rows {
	return &rows{Evidence{&graph.Pairs{Universe: of.Universe}, []risk.Exposure{}}}
}

func (r *rows) add(at graph.Link, linked bool, weight, rate float64, e risk.Exposure) {
	p := r.Pairs
	p.Source, p.Target = append(p.Source, at.Source), append(p.Target, at.Target)
	p.Linked, p.Weight, p.Rate = append(p.Linked, linked), append(p.Weight, weight), append(p.Rate, rate)
	r.Exposure = append(r.Exposure, e)
}

// merge goes through a sample and a log, both by source and then by target: it calls own for an entry that the sample
// does not have, and sampled for pair k of the sample with its entry, nil if the log has none.
func merge(p *graph.Pairs, logged []entry, own func(entry), sampled func(k int, e *entry)) {
	for k := range p.Len() {
		at := linkAt(p, k)
		for len(logged) > 0 && compareLinks(logged[0].Link, at) < 0 {
			own(logged[0])
			logged = logged[1:]
		}
		if len(logged) > 0 && logged[0].Link == at {
			sampled(k, &logged[0])
			logged = logged[1:]
		} else {
			sampled(k, nil)
		}
	}
	for _, e := range logged {
		own(e)
	}
}

func linkAt(p *graph.Pairs, k int) graph.Link {
	return graph.Link{Source: p.Source[k], Target: p.Target[k]}
}

func compareLinks(a, b graph.Link) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Target, b.Target))
}

func exposureOf(exposed bool) risk.Exposure {
	if exposed {
		return risk.Exposed
	}
	return risk.Unexposed
}
