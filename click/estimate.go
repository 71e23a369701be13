package click

import (
	"fmt"
	"math"
	"slices"

	"unseen/sample"
)

// Places beyond the tenth are learned in bands; the last band is of unknown places.
var bandEnds = [...]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 50, 100, math.MaxInt}

const bands = len(bandEnds) + 1

// bandOf returns the band of a place.
func bandOf(place int) int {
	if place < 1 {
		return bands - 1
	}
	b := 0
	for bandEnds[b] < place {
		b++
	}
	return b
}

// Log is showings with their outcome.
type Log struct {
	Counts
	pairs    []pair
	showings []showing
	names    []string // of the surfaces
	byLinks  []bool   // surfaces that are learned from by their links
}

// Log ends the reading: showings that may still have an outcome, and those of programs, are left out.
func (r *Reader) Log() *Log {
	l := &Log{Counts: r.counts, pairs: r.pairs, names: r.names}
	for _, n := range r.linked {
		l.byLinks = append(l.byLinks, n >= leastLinks)
	}
	automated := func(source int32) bool { p := r.paces[source]; return p != nil && p.automated }
	for _, s := range r.showings {
		p := &r.pairs[s.pair]
		open := s.clickOpen
		if l.byLinks[int(s.cell)/bands] {
			open = s.linkOpen
		}
		switch {
		case automated(p.source):
			l.Automated++
			continue
		case open:
			l.Young++
			continue
		case p.late:
			continue
		}
		switch s.outcome {
		case Clicked:
			l.Clicked++
		case Linked:
			l.Linked++
		case Dismissed:
			l.Dismissed++
		}
		if l.showings = append(l.showings, s); s.swapped() {
			l.Swapped++
		}
	}
	l.Showings = len(l.showings)
	return l
}

// swapped reports whether chance has put it at its place.
func (s *showing) swapped() bool { return s.placed > 0 && s.placed < .5 }

// Surface is what is known of clicks on one surface.
type Surface struct {
	Name  string    `json:"name"`
	Kappa float64   `json:"kappa" doc:"chance of a click on what is looked at and wanted"`
	Theta []float64 `json:"theta" doc:"chance that a place is looked at, by place; the first is 1"`
	// Errors are those of the logarithms of clicks by band; nil where θ was learned with relevance.
	Errors  []float64 `json:"errors,omitempty" doc:"standard errors of log clicks by place"`
	ByLinks bool      `json:"byLinks,omitempty" doc:"links, not clicks, say what is wanted"`
	Swapped bool      `json:"swapped,omitempty" doc:"theta is of showings that chance has put at their place"`
	Given   bool      `json:"given,omitempty" doc:"given, not learned"`
	Clicks  int       `json:"clicks" doc:"that it was learned from"`
}

// seen is the chance that wanting shows in a showing of a band.
func (s *Surface) seen(band int) float64 {
	theta := 1.
	if band < len(s.Theta) {
		theta = s.Theta[band]
	}
	if s.ByLinks {
		return theta
	}
	return math.Min(s.Kappa*theta, 1)
}

// Examination returns the chances that places are looked at, from the first on and relative to the largest; places
// further down have the last. It is nil where they were learned with relevance and not from what chance has placed.
func (s *Surface) Examination() (chances []float64) {
	if s == nil || !s.Swapped && !s.Given {
		return nil
	}
	most := 0.
	for place := 1; place <= bandEnds[len(bandEnds)-2]+1; place++ {
		theta := 1.
		if b := bandOf(place); b < len(s.Theta) {
			theta = s.Theta[b]
		}
		chances, most = append(chances, theta), math.Max(most, theta)
	}
	for k := range chances {
		chances[k] /= most
	}
	return chances
}

// Behaviour is κ and θ of every surface.
type Behaviour struct {
	Surfaces []Surface `json:"surfaces"`
}

// Surface returns that of a name, or nil.
func (m *Behaviour) Surface(name string) *Surface {
	if m == nil {
		return nil
	}
	for k := range m.Surfaces {
		if m.Surfaces[k].Name == name {
			return &m.Surfaces[k]
		}
	}
	return nil
}

// Seen is the chance that wanting shows at a place of a surface; 1 where nothing is known.
func (m *Behaviour) Seen(surface string, place int) float64 {
	if s := m.Surface(surface); s != nil {
		return s.seen(bandOf(place))
	}
	return 1
}

// wanted tells whether an outcome says that the target is wanted, and whether it says that it is not.
func (l *Log) wanted(s *showing) (yes, no bool) {
	byLinks := l.byLinks[int(s.cell)/bands]
	switch s.outcome {
	case Linked:
		return true, false
	case Clicked:
		return !byLinks, byLinks
	case Dismissed:
		return false, true
	}
	return false, false
}

// Pairs returns the pairs of the showings, each once, by their number.
func (l *Log) Pairs() (source, target []int32) {
	for k := range l.pairs {
		source, target = append(source, l.pairs[k].source), append(target, l.pairs[k].target)
	}
	return source, target
}

// Exposures returns a row for every showing, with the chance that wanting shows in it and how that was learned.
func (l *Log) Exposures(m *Behaviour) *sample.ExposureLog {
	surfaces := l.of(m)
	rates, number := l.rates(surfaces)
	log := &sample.ExposureLog{Rates: rates}
	for k := range l.showings {
		s := &l.showings[k]
		p := &l.pairs[s.pair]
		yes, no := l.wanted(s)
		seen, rate := 1., int32(-1)
		if surface := surfaces[int(s.cell)/bands]; surface != nil && !no {
			seen, rate = math.Max(surface.seen(int(s.cell)%bands), leastSeen), number[s.cell]
		}
		log.Source, log.Target = append(log.Source, p.source), append(log.Target, p.target)
		log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, yes)
		log.Seen, log.Rate = append(log.Seen, seen), append(log.Rate, rate)
	}
	return log
}

// leastSeen is the least chance that wanting shows, and mostRates how many of them are taken as learned: those with the
// fewest showings teach hardly anything, and count as known.
const (
	leastSeen = 1e-6
	mostRates = 64
)

// rates returns how the κθ of the cells that occur were learned, and which of them each cell has; −1 where it is known.
// Those of a surface share κ, which was learned with relevance. Without enough that chance has placed, θ was too: every
// band has a scale of its own. Where links say what is wanted, κ does not matter.
func (l *Log) rates(surfaces []*Surface) (r *sample.SeenRates, number []int32) {
	number = make([]int32, len(l.names)*bands)
	for c := range number {
		number[c] = -1
	}
	count := make([]int, len(number))
	for k := range l.showings {
		count[l.showings[k].cell]++
	}
	least := slices.Sorted(slices.Values(count))[max(len(count)-mostRates, 0)]
	r = &sample.SeenRates{}
	var cells []int
	for c, n := range count {
		s := surfaces[c/bands]
		if n == 0 || n < least || s == nil || s.Given || s.ByLinks && c%bands == l.first(c/bands, count) {
			continue
		}
		number[c], cells = int32(len(cells)), append(cells, c)
		r.Rate = append(r.Rate, math.Max(s.seen(c%bands), leastSeen))
		scale := int32(c)
		switch {
		case s.ByLinks:
			scale = -1
		case s.Errors != nil:
			scale = int32(c / bands * bands)
		}
		r.Scale = append(r.Scale, scale)
	}
	if len(cells) == 0 {
		return nil, number
	}
	for _, a := range cells {
		for _, b := range cells {
			r.Covariance = append(r.Covariance, l.covariance(surfaces, count, a, b))
		}
	}
	return r, number
}

// first is the band of a surface that the others are compared with.
func (l *Log) first(surface int, count []int) int {
	return max(slices.IndexFunc(count[surface*bands:(surface+1)*bands], func(n int) bool { return n > 0 }), 0)
}

// covariance is that of log θ of two cells: what is not known of the first band is in all others of its surface.
func (l *Log) covariance(surfaces []*Surface, count []int, a, b int) (v float64) {
	s, first := surfaces[a/bands], l.first(a/bands, count)
	if a/bands != b/bands || s.Errors == nil || a%bands == first || b%bands == first {
		return 0
	}
	if v = s.Errors[first] * s.Errors[first]; a == b {
		v += s.Errors[a%bands] * s.Errors[a%bands]
	}
	return v
}

// of returns the surfaces of the log in a model.
func (l *Log) of(m *Behaviour) []*Surface {
	out := make([]*Surface, len(l.names))
	for k, name := range l.names {
		out[k] = m.Surface(name)
	}
	return out
}

// Links returns the pairs that were clicked or linked, with the first time, and 0 where it is unknown.
func (l *Log) Links() (source, target []int32, at []int64) {
	linked := make([]bool, len(l.pairs))
	for k := range l.showings {
		if yes, _ := l.wanted(&l.showings[k]); yes {
			linked[l.showings[k].pair] = true
		}
	}
	for k, is := range linked {
		if p := &l.pairs[k]; is {
			source, target, at = append(source, p.source), append(target, p.target), append(at, p.linkedAt)
		}
	}
	return source, target, at
}

// Estimate learns κ and θ given the probability that each pair of Pairs is wanted. A surface of the model given that
// says so stays as it is.
//
// Whether a pair is wanted is the same at every showing. Given κθ, the chance that an unclicked pair is wanted is
// t·M/(1 − t + t·M), M being the product of 1 − κθ over its showings, and that of a clicked one is 1; given those
// chances, κθ of a band is its clicks over the sum of them. The two steps take turns until nothing moves, which is the
// greatest likelihood. Where links say what is wanted, clicks only say how places compare.
//
// θ is found as if chance had placed everything, if it has placed enough that was clicked: showings count by 1 over the
// probability of their place. So it does not depend on how right the probabilities are. κ is then found from all
// showings.
func (l *Log) Estimate(wanted []float64, given *Behaviour) *Behaviour {
	theta, errors, swapped := l.places(wanted)
	kappa, clicks := l.levels(wanted, theta)
	m := &Behaviour{}
	for k, name := range l.names {
		if s := given.Surface(name); s != nil && s.Given {
			m.Surfaces = append(m.Surfaces, *s)
			continue
		}
		s := Surface{Name: name, ByLinks: l.byLinks[k], Kappa: kappa[k], Clicks: clicks[k], Swapped: swapped[k],
			Theta: theta[k*bands : (k+1)*bands], Errors: errors[k]}
		most := 1 / math.Min(s.Kappa, 1)
		if s.ByLinks {
			most = 1
		}
		for b := range s.Theta { // a place can be looked at more often than the first, but not more than always
			s.Theta[b] = math.Min(s.Theta[b], most)
		}
		m.Surfaces = append(m.Surfaces, s)
	}
	return m
}

// places finds θ of every cell, which surfaces have it from what chance has placed, and of those, and of those with
// links, its errors.
func (l *Log) places(wanted []float64) (theta []float64, errors [][]float64, swapped []bool) {
	all, placed := l.maximise(wanted, evenly), l.maximise(wanted, asPlaced)
	clicks := make([]int, len(l.names)) // on what chance has placed
	for k := range l.showings {
		if s := &l.showings[k]; s.swapped() && acted(s) {
			clicks[int(s.cell)/bands]++
		}
	}
	for k, n := range clicks {
		by := all.of(k*bands, (k+1)*bands)
		if swapped = append(swapped, n >= leastSwapped); swapped[k] {
			by = placed.of(k*bands, (k+1)*bands)
		}
		if errors = append(errors, nil); swapped[k] || l.byLinks[k] {
			errors[k] = by.errors()
		}
		theta = append(theta, by.theta()...)
	}
	return theta, errors, swapped
}

// evenly counts every showing once.
func evenly(*showing) float64 { return 1 }

// asPlaced counts showings as if chance had placed all of them.
func asPlaced(s *showing) float64 {
	if s.placed == 0 {
		return 0
	}
	return 1 / float64(s.placed)
}

// PlaceMoves is by how much each source moved log θ of a surface, which says how far it is known: the variance of any
// sum of them is that of what the sources, which are independent, moved it by.
type PlaceMoves struct {
	Sources []int32 // that θ was learned from, ascending
	moves   map[int32]*[bands]float64
}

// Moves returns how the θ of a surface was learned from what chance has placed, if everything counts as wanted; nil
// where it was not learned so.
func (l *Log) Moves(s *Surface) *PlaceMoves {
	if s == nil || s.Given || !s.Swapped {
		return nil
	}
	k, wanted := slices.Index(l.names, s.Name), l.AllWanted()
	all := l.maximise(wanted, asPlaced)
	rate := make([]float64, len(all.clicks))
	for c := range rate {
		rate[c] = all.clicks[c] / math.Max(all.wanted[c], 1e-300)
	}
	t, belief := all.of(k*bands, (k+1)*bands), l.believe(wanted, rate, asPlaced)
	added, smooth, first := t.added(), t.rates(), t.first()
	var wider [bands]float64 // by what is added, as in errors
	for b := range wider {
		wider[b] = math.Sqrt(1 + added*t.weight()/math.Max(t.squares[b], t.weight()*t.weight()))
	}
	m := &PlaceMoves{moves: map[int32]*[bands]float64{}}
	for n := range l.showings {
		s := &l.showings[n]
		w := asPlaced(s)
		if int(s.cell)/bands != k || w == 0 {
			continue
		}
		source, b := l.pairs[s.pair].source, int(s.cell)%bands
		if m.moves[source] == nil {
			m.moves[source] = new([bands]float64)
			m.Sources = append(m.Sources, source)
		}
		move := -smooth[b] * w * belief[s.pair]
		if acted(s) {
			move += w
		}
		m.moves[source][b] += wider[b] * move / (t.clicks[b] + added)
	}
	slices.Sort(m.Sources)
	for _, by := range m.moves { // the first band is what the others are compared with
		from := by[first]
		for b := range by {
			by[b] -= from
		}
	}
	return m
}

// AllWanted are probabilities by which everything is wanted, for Estimate.
func (l *Log) AllWanted() []float64 { return slices.Repeat([]float64{1}, len(l.pairs)) }

// Move is by how much a source moved Σ slope·log θ over the places, from the first on.
func (m *PlaceMoves) Move(source int32, slopes []float64) (sum float64) {
	if by := m.moves[source]; by != nil {
		for k, slope := range slopes {
			sum += slope * by[bandOf(k+1)]
		}
	}
	return sum
}

// tallies are clicks, how many were wanted, and the squares of the weights of clicks, by cell.
type tallies struct{ clicks, wanted, squares []float64 }

func (t tallies) of(from, to int) tallies {
	return tallies{t.clicks[from:to], t.wanted[from:to], t.squares[from:to]}
}

// theta compares the bands of a surface with the first that was shown. A band with few clicks is drawn to the mean by
// half a click's worth.
func (t tallies) theta() []float64 {
	theta, first := t.rates(), t.first()
	from := theta[first]
	for b := range theta {
		if theta[b] /= from; t.wanted[b] == 0 {
			theta[b] = 1
		}
	}
	return theta
}

// rates are those of clicks by band.
func (t tallies) rates() []float64 {
	one, added := t.weight(), t.added()
	var clicks, wanted float64
	for b := range t.clicks {
		clicks, wanted = clicks+t.clicks[b], wanted+t.wanted[b]
	}
	mean, rates := math.Max(clicks, .5*one)/math.Max(wanted, one), make([]float64, bands)
	for b := range rates {
		rates[b] = (t.clicks[b] + added) / (t.wanted[b] + added/mean)
	}
	return rates
}

// added is what is added to the clicks of a band: half a one, as the logarithm of a count and a half is nearly right on
// average, and that of a count and one too high.
func (t tallies) added() float64 { return .5 * t.weight() }

// first is the band that the others are compared with.
func (t tallies) first() (b int) {
	for b < bands-1 && t.wanted[b] == 0 {
		b++
	}
	return b
}

// weight is that of a click.
func (t tallies) weight() float64 {
	var clicks, squares float64
	for b := range t.clicks {
		clicks, squares = clicks+t.clicks[b], squares+t.squares[b]
	}
	if clicks == 0 {
		return 1
	}
	return squares / clicks
}

// errors are the standard errors of the logarithms of theta's rates: of clicks that are counted by their weights, with
// what is added to them.
func (t tallies) errors() []float64 {
	added, out := t.added(), make([]float64, bands)
	for b := range out {
		out[b] = math.Sqrt(t.squares[b]+added*t.weight()) / (t.clicks[b] + added)
	}
	return out
}

// turns is how often the two steps take turns at most, and still how little moves at the end.
const (
	turns = 200
	still = 1e-6
)

// maximise finds the κθ of every cell from showings by their weights, and returns what they are quotients of.
func (l *Log) maximise(wanted []float64, weigh func(*showing) float64) (t tallies) {
	rate := make([]float64, len(l.names)*bands)
	for c := range rate {
		rate[c] = .5
	}
	for range turns {
		t = l.tally(wanted, rate, weigh)
		moved := 0.
		for c := range rate {
			if t.wanted[c] > 0 {
				next := math.Max(math.Min(t.clicks[c]/t.wanted[c], 1), 1e-6)
				moved = math.Max(moved, math.Abs(math.Log(next/rate[c])))
				rate[c] = next
			}
		}
		if moved < still {
			break
		}
	}
	return t
}

// levels finds κ of every surface given θ, and how many clicks it is of.
func (l *Log) levels(wanted, theta []float64) (kappa []float64, clicks []int) {
	kappa, clicks = make([]float64, len(l.names)), make([]int, len(l.names))
	rate := make([]float64, len(theta))
	for k := range kappa {
		kappa[k] = .5
	}
	for range turns {
		for c := range rate {
			rate[c] = math.Min(kappa[c/bands]*theta[c], 1)
		}
		t := l.tally(wanted, rate, evenly)
		moved := 0.
		for k := range kappa {
			var n, sum float64
			for c := k * bands; c < (k+1)*bands; c++ {
				n, sum = n+t.clicks[c], sum+theta[c]*t.wanted[c]
			}
			next := math.Max(n, .5) / math.Max(sum, .5)
			moved = math.Max(moved, math.Abs(math.Log(next/kappa[k])))
			kappa[k], clicks[k] = next, int(n)
		}
		if moved < still {
			break
		}
	}
	return kappa, clicks
}

// tally adds up clicks and beliefs by the weights of showings, given κθ.
func (l *Log) tally(wanted, rate []float64, weigh func(*showing) float64) tallies {
	belief := l.believe(wanted, rate, weigh)
	t := tallies{make([]float64, len(rate)), make([]float64, len(rate)), make([]float64, len(rate))}
	for k := range l.showings {
		s := &l.showings[k]
		w := weigh(s)
		if acted(s) {
			t.clicks[s.cell] += w
			t.squares[s.cell] += w * w
		}
		if l.byLinks[int(s.cell)/bands] {
			t.wanted[s.cell] += w * wanted[s.pair] // clicks are not only of those who want it
		} else {
			t.wanted[s.cell] += w * belief[s.pair]
		}
	}
	return t
}

// acted reports whether a showing was looked at and wanted enough for a click.
func acted(s *showing) bool { return s.outcome == Clicked || s.outcome == Linked }

// believe returns the chance that each pair is wanted, given what became of its showings that have a weight.
func (l *Log) believe(wanted, rate []float64, weigh func(*showing) float64) []float64 {
	missed := make([]float64, len(l.pairs))
	for k := range missed {
		missed[k] = 1
	}
	const yes, no = -1, -2
	for k := range l.showings {
		switch s := &l.showings[k]; {
		case missed[s.pair] == no || weigh(s) == 0:
		case s.outcome == Dismissed:
			missed[s.pair] = no
		case acted(s):
			missed[s.pair] = yes
		case missed[s.pair] != yes && !l.byLinks[int(s.cell)/bands]:
			missed[s.pair] *= 1 - rate[s.cell]
		}
	}
	belief := make([]float64, len(l.pairs))
	for k, m := range missed {
		switch t := wanted[k]; m {
		case yes:
			belief[k] = 1
		case no:
		default:
			belief[k] = t * m / math.Max(1-t+t*m, 1e-300)
		}
	}
	return belief
}

// Give checks a model that is known and not learned, and marks it so.
func (m *Behaviour) Give() error {
	if len(m.Surfaces) == 0 || len(m.Surfaces) > MostSurfaces {
		return fmt.Errorf("%d surfaces; name 1 to %d", len(m.Surfaces), MostSurfaces)
	}
	for k := range m.Surfaces {
		s := &m.Surfaces[k]
		switch {
		case !(s.Kappa > 0 && s.Kappa <= 1):
			return fmt.Errorf("kappa of surface %q is %v; give the chance of a click, above 0 and up to 1", s.Name,
				s.Kappa)
		case len(s.Theta) > len(bandEnds)-1:
			return fmt.Errorf("theta of surface %q has %d places; give at most %d", s.Name, len(s.Theta),
				len(bandEnds)-1)
		case m.Surface(s.Name) != s:
			return fmt.Errorf("surface %q is named twice", s.Name)
		}
		for place, theta := range s.Theta {
			if !(theta > 0 && theta <= 1) {
				return fmt.Errorf("theta of place %d of surface %q is %v; give one above 0 and up to 1", place+1,
					s.Name, theta)
			}
		}
		s.Given = true
	}
	return nil
}

// Learn finds κ and θ, given what believe says of how probably each pair of Pairs is wanted: before κ and θ are known,
// where it is given nil, and once relevance was learned with them. κ by clicks and the level of relevance by links move
// each other, so that what two such turns have in common is continued to where they would end.
func (l *Log) Learn(given *Behaviour, believe func(*Behaviour) ([]float64, error)) (*Behaviour, error) {
	wanted, err := believe(nil)
	if err != nil {
		return nil, err
	}
	m := l.Estimate(wanted, given)
	if !m.learned() {
		return m, nil
	}
	path := [][]float64{m.kappas()}
	for turn := range 2 {
		if wanted, err = believe(m); err != nil {
			return nil, err
		}
		m = l.Estimate(wanted, given)
		path = append(path, m.kappas())
		if moved(path[turn], path[turn+1]) < .01 {
			return m, nil
		}
	}
	m.setKappas(continued(path[0], path[1], path[2]))
	return m, nil
}

// moved is how far the logarithms of numbers moved at most.
func moved(from, to []float64) (most float64) {
	for k := range from {
		most = math.Max(most, math.Abs(math.Log(to[k]/from[k])))
	}
	return most
}

// continued is where steps that shrink by one factor would end (Aitken), as far as three points tell.
func continued(a, b, c []float64) []float64 {
	out := make([]float64, len(c))
	for k := range out {
		first, second := math.Log(b[k]/a[k]), math.Log(c[k]/b[k])
		shrinks := 0.
		if first != 0 {
			shrinks = math.Max(0, math.Min(second/first, .9))
		}
		out[k] = c[k] * math.Exp(second*shrinks/(1-shrinks))
	}
	return out
}

// learned reports whether κ was learned from clicks, and matters.
func (s *Surface) learned() bool { return !s.Given && !s.ByLinks }

// learned reports whether κ of any surface was learned from clicks, so that it depends on what was believed of
// relevance.
func (m *Behaviour) learned() bool {
	return slices.ContainsFunc(m.Surfaces, func(s Surface) bool { return s.learned() })
}

// kappas returns κ of the surfaces in their order.
func (m *Behaviour) kappas() (kappas []float64) {
	for _, s := range m.Surfaces {
		kappas = append(kappas, s.Kappa)
	}
	return kappas
}

// setKappas replaces κ where it was learned.
func (m *Behaviour) setKappas(kappas []float64) {
	for k := range m.Surfaces {
		if s := &m.Surfaces[k]; s.learned() {
			s.Kappa = kappas[k]
		}
	}
}
