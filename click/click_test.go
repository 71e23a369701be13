package click

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// readers click at κ on what they look at and want, and link to some of it; they look at place p with chance 1/p.
// Lists are in the order of what is believed, but for some that are shuffled.
type readers struct {
	kappa, link float64 // link: of what is clicked
	shuffled    float64
	rng         *rand.Rand
	truth       [][]float64 // y
	want        [][]bool
}

func newReaders(seed uint64, people, items int, kappa, link, shuffled float64) *readers {
	r := &readers{kappa: kappa, link: link, shuffled: shuffled, rng: rand.New(rand.NewPCG(seed, 7))}
	for range people {
		truth, want := make([]float64, items), make([]bool, items)
		for j := range truth {
			truth[j] = .02 + .9*math.Pow(r.rng.Float64(), 3)
			want[j] = r.rng.Float64() < truth[j]
		}
		r.truth, r.want = append(r.truth, truth), append(r.want, want)
	}
	return r
}

// show shows everybody lists of eight of the items, best first, and reports what happens.
func (r *readers) show(rounds int, add func(Occurrence)) {
	const places = 8
	for round := range rounds {
		for i := range r.truth {
			list := r.rng.Perm(len(r.truth[i]))[:places]
			best := func(a, b int) bool { return r.truth[i][list[a]] > r.truth[i][list[b]] }
			for a := range list { // in the order of y
				for b := a + 1; b < len(list); b++ {
					if best(b, a) {
						list[a], list[b] = list[b], list[a]
					}
				}
			}
			ranked := slices.Clone(list)
			if r.rng.Float64() < r.shuffled {
				r.rng.Shuffle(places, func(a, b int) { list[a], list[b] = list[b], list[a] })
			}
			for k, j := range list {
				placed := r.shuffled / places
				if ranked[k] == j {
					placed += 1 - r.shuffled
				}
				e := Occurrence{Act: Shown, Source: int32(i), Target: int32(j), List: fmt.Sprint(round, "/", i),
					Place: k + 1, Placed: placed, At: noon.Add(time.Duration(round) * time.Hour)}
				add(e)
				if r.want[i][j] && r.rng.Float64() < 1/float64(k+1) && r.rng.Float64() < r.kappa {
					e.Act, e.At = Clicked, e.At.Add(time.Minute)
					add(e)
				}
			}
		}
	}
}

func (r *readers) beliefs(l *Log) []float64 {
	source, target := l.Pairs()
	out := make([]float64, len(source))
	for k := range out {
		out[k] = r.truth[source[k]][target[k]]
	}
	return out
}

// With right beliefs κ and θ are found, whatever the order of lists, also where a pair is shown many times.
func TestEstimate(t *testing.T) {
	t.Parallel()
	for _, rounds := range []int{1, 12} {
		for seed := range uint64(5) {
			people := 12_000 / rounds
			r := newReaders(seed, people, 30, .3, 0, .2)
			reader := NewReader(Windows{Click: time.Hour, Link: time.Hour}, noon.Add(1000*time.Hour))
			r.show(rounds, reader.Add)
			log := reader.Log()
			if log.Showings != 8*people*rounds || log.Swapped == 0 || log.Young+log.Late+log.Duplicates != 0 {
				t.Fatalf("%+v", log.Counts)
			}
			s := log.Estimate(r.beliefs(log), nil).Surface("")
			if math.Abs(s.Kappa-.3) > .03 || !s.Swapped {
				t.Errorf("rounds %d, seed %d: κ is %.3f, in truth .3", rounds, seed, s.Kappa)
			}
			for p := range 8 {
				if want := 1 / float64(p+1); math.Abs(s.Theta[p]-want) > .03+.25*want {
					t.Errorf("rounds %d, seed %d: θ of place %d is %.3f, in truth %.3f", rounds, seed, p+1, s.Theta[p],
						want)
				}
			}
		}
	}
}

// θ of what chance has placed does not depend on what is believed of relevance; κ does, and takes its error.
func TestThetaWithoutBeliefs(t *testing.T) {
	t.Parallel()
	r := newReaders(3, 12_000, 30, .5, 0, .5)
	reader := NewReader(Windows{}, noon.Add(1000*time.Hour))
	reader.windows.Click = time.Hour
	r.show(1, reader.Add)
	log := reader.Log()
	flat := make([]float64, len(log.pairs))
	for k := range flat {
		flat[k] = .245 // the mean of y
	}
	s := log.Estimate(flat, nil).Surface("")
	for p := range 8 {
		if want := 1 / float64(p+1); math.Abs(s.Theta[p]-want) > .03+.25*want {
			t.Errorf("θ of place %d is %.3f, in truth %.3f", p+1, s.Theta[p], want)
		}
	}
}

// Moves are by how much θ changes if a source is left out, to first order. Of what is given there are none.
func TestPlaceMoves(t *testing.T) {
	t.Parallel()
	r := newReaders(5, 400, 12, .8, 0, .5)
	var events []Occurrence
	r.show(3, func(e Occurrence) { events = append(events, e) })
	learn := func(without int32) (*Log, *Surface) {
		reader := NewReader(Windows{}, noon)
		for _, e := range events {
			if e.Source != without {
				reader.Add(e)
			}
		}
		log := reader.Log()
		return log, log.Estimate(log.AllWanted(), nil).Surface("")
	}
	log, all := learn(-1)
	moves := log.Moves(all)
	if len(moves.Sources) != 400 || !slices.IsSorted(moves.Sources) {
		t.Fatalf("%d sources", len(moves.Sources))
	}
	for _, source := range []int32{0, 17, 399} {
		_, without := learn(source)
		for p := range 8 {
			slopes := make([]float64, 8)
			slopes[p] = 2
			got, want := moves.Move(source, slopes)/2, math.Log(all.Theta[p]/without.Theta[p])
			if math.Abs(got-want) > .003 || p == 0 && got != 0 {
				t.Errorf("source %d moved log θ of place %d by %.4f; without it θ is %.4f off", source, p+1, got,
					want)
			}
		}
	}
	given := *all
	given.Given = true
	if log.Moves(&given) != nil || log.Moves(nil) != nil {
		t.Error("what is given was learned")
	}
}

// The logarithm of a rate of few clicks is right on average, and its error as large as is said.
func TestRatesOfFewClicks(t *testing.T) {
	t.Parallel()
	const draws, showings, rate = 20_000, 1000, .006
	rng := rand.New(rand.NewPCG(1, 2))
	var mean, square, said float64
	for range draws {
		few := tallies{make([]float64, bands), make([]float64, bands), make([]float64, bands)}
		few.clicks[0], few.wanted[0], few.squares[0] = 4e6*rate, 1e6, 4e6*rate
		few.wanted[3] = showings
		for range showings {
			if rng.Float64() < rate {
				few.clicks[3]++
				few.squares[3]++
			}
		}
		x := math.Log(few.rates()[3] / rate)
		mean, square, said = mean+x/draws, square+x*x/draws, said+math.Pow(few.errors()[3], 2)/draws
	}
	if math.Abs(mean) > .03 || math.Abs(said/(square-mean*mean)-1) > .15 {
		t.Errorf("six clicks: the logarithm is %.3f off on average, with a variance of %.3f; %.3f is said", mean,
			square-mean*mean, said)
	}
}

// What sources moved adds up to the errors, also of few clicks.
func TestMovesAndErrors(t *testing.T) {
	t.Parallel()
	reader := NewReader(Windows{}, noon)
	for i := range 800 {
		place, clicked := 1+i%2*3, i < 120
		if place == 4 {
			clicked = i < 12
		}
		e := Occurrence{Act: Shown, Source: int32(i), Target: 1000, List: fmt.Sprint(i), Place: place, Placed: .25}
		if reader.Add(e); clicked {
			e.Act = Clicked
			reader.Add(e)
		}
	}
	log := reader.Log()
	s := log.Estimate(log.AllWanted(), nil).Surface("")
	moves, band := log.Moves(s), bandOf(4)
	var square float64
	for _, source := range moves.Sources {
		square += math.Pow(moves.Move(source, []float64{0, 0, 0, 1}), 2)
	}
	want := s.Errors[0]*s.Errors[0]*(1-60./400) + s.Errors[band]*s.Errors[band]*(1-6./400) // of shares, not of counts
	if math.Abs(square/want-1) > .03 {
		t.Errorf("θ of place 4 was moved by a variance of %.4f, and its errors have %.4f", square, want)
	}
}

// What is given stays.
func TestGiven(t *testing.T) {
	t.Parallel()
	given := &Behaviour{Surfaces: []Surface{{Kappa: .7, Theta: []float64{1, .5}, Given: true}}}
	r := newReaders(3, 500, 30, .5, 0, .5)
	reader := NewReader(Windows{Click: time.Hour}, noon.Add(1000*time.Hour))
	r.show(1, reader.Add)
	log := reader.Log()
	m := log.Estimate(r.beliefs(log), given)
	if s := m.Surface(""); s == nil || s.Kappa != .7 || !s.Given {
		t.Errorf("%+v", m)
	}
	for place, want := range map[int]float64{1: .7, 2: .35, 3: .7, 0: .7} {
		if got := m.Seen("", place); math.Abs(got-want) > 1e-12 {
			t.Errorf("place %d is seen with %v, want %v", place, got, want)
		}
	}
	if m.Seen("elsewhere", 1) != 1 {
		t.Error("a surface that nobody knows")
	}
}

// Each fate of an event is counted, and what is not known yet is no evidence.
func TestReader(t *testing.T) {
	t.Parallel()
	windows := Windows{Click: time.Hour, Link: 24 * time.Hour}
	at := func(h float64) time.Time { return noon.Add(time.Duration(h * float64(time.Hour))) }
	event := func(kind Act, target int32, list string, h float64) Occurrence {
		return Occurrence{Act: kind, Target: target, List: list, Place: 1, At: at(h)}
	}
	reader := NewReader(windows, noon)
	for _, e := range []Occurrence{
		event(Shown, 1, "a", -50), event(Clicked, 1, "a", -49.5), // wanted
		event(Shown, 2, "a", -50), event(Shown, 2, "a", -50), // twice in a list
		event(Shown, 3, "a", -50), event(Clicked, 3, "a", -48), // too late
		event(Shown, 4, "b", -.5),                              // may still be clicked
		event(Shown, 5, "b", -.5), event(Clicked, 5, "b", -.4), // and this one was clicked already
		event(Shown, 6, "b", -50), event(Dismissed, 6, "b", -50), // not wanted
		event(Clicked, 7, "", -50),        // shown where nobody logs
		{Act: Shown, Target: 8, Place: 2}, // compacted
	} {
		reader.Add(e)
	}
	for k := range 200 { // a program
		e := Occurrence{Act: Shown, Source: 9, Target: int32(k), List: "c", Place: 1, At: at(-40)}
		reader.Add(e)
		e.Act = Clicked
		reader.Add(e)
	}
	log := reader.Log()
	want := Counts{Showings: 5, Clicked: 2, Dismissed: 1, Young: 2, Late: 1, Duplicates: 1, Unshown: 1, Automated: 200}
	if log.Counts != want {
		t.Errorf("%+v, want %+v", log.Counts, want)
	}
	m := &Behaviour{Surfaces: []Surface{{Kappa: .5, Theta: []float64{1, .25}}}}
	e := log.Exposures(m)
	got := map[int32]string{}
	for k, j := range e.Target {
		got[j] = fmt.Sprint(e.Linked[k], " ", e.Seen[k])
	}
	for j, row := range map[int32]string{1: "true 0.5", 2: "false 0.5", 6: "false 1", 7: "true 0.5",
		8: "false 0.125"} {
		if got[j] != row {
			t.Errorf("target %d: %s, want %s", j, got[j], row)
		}
	}
}

// Where there are links enough, they say what is wanted: a click without one is somebody who looked and did not want.
func TestByLinks(t *testing.T) {
	t.Parallel()
	reader := NewReader(Windows{Click: time.Hour, Link: 24 * time.Hour}, noon)
	for k := range int32(40) {
		e := Occurrence{Act: Shown, Target: k, List: "a", Place: 1, At: noon.Add(-50 * time.Hour)}
		reader.Add(e)
		e.Act = Clicked
		reader.Add(e)
		if e.Act = Linked; k < 35 {
			reader.Add(e)
		}
	}
	for k := range int32(20) { // not old enough for a link, at the second place
		e := Occurrence{Act: Shown, Source: 1, Target: k, List: "b", Place: 2, At: noon.Add(-2 * time.Hour)}
		reader.Add(e)
	}
	log := reader.Log()
	if log.Showings != 40 || log.Linked != 35 || log.Clicked != 5 || log.Young != 20 {
		t.Fatalf("%+v", log.Counts)
	}
	e := log.Exposures(&Behaviour{Surfaces: []Surface{{Kappa: .5, Theta: []float64{1}, ByLinks: true}}})
	for k, j := range e.Target {
		if e.Linked[k] != (j < 35) || e.Seen[k] != 1 {
			t.Errorf("target %d: %v, seen with %v", j, e.Linked[k], e.Seen[k])
		}
	}
}
