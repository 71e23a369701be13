package click

import "time"

// Act is what happened.
type Act uint8

// The kinds of events.
const (
	Shown Act = iota
	Clicked
	Linked
	Dismissed // the source said that it is not wanted
)

// Occurrence is one thing that happened to a pair.
type Occurrence struct {
	Act            Act
	Source, Target int32
	List, Surface  string
	Place          int       // in the list, from 1; 0 is unknown
	Placed         float64   // probability of this place given the items of the list; 0 is unknown
	At             time.Time // zero is unknown, and long ago
}

// Windows say how long an outcome can come after a showing. Younger showings are left out, since they may still have
// one: those that have it already would not stand for the others. Later outcomes are of something else. 0 means for
// ever, and that nothing is waited for.
type Windows struct {
	Click time.Duration
	Link  time.Duration
}

// Limits of what a person does. Whoever does more is taken for a program, and set apart.
const (
	MostInAMinute = 120   // clicks and links
	MostInADay    = 5_000 // clicks and links
	MostSurfaces  = 64    // that are told apart; others are one
	leastLinks    = 30    // of a surface from which its links are what is learned from
	leastSwapped  = 30    // clicks on what chance has placed, from which θ is learned from those alone
)

// Counts say what became of the events.
type Counts struct {
	Showings   int `json:"showings" doc:"that are learned from"`
	Clicked    int `json:"clicked" doc:"of those that were clicked"`
	Linked     int `json:"linked" doc:"of those that were linked"`
	Dismissed  int `json:"dismissed" doc:"of those that were dismissed"`
	Swapped    int `json:"swapped" doc:"of those that chance has put at their place"`
	Young      int `json:"young" doc:"showings that may still have an outcome"`
	Late       int `json:"late" doc:"outcomes that came too late for their showing"`
	Duplicates int `json:"duplicates" doc:"showings of a pair in a list that had it already"`
	Unshown    int `json:"unshown" doc:"outcomes of pairs without a showing"`
	Automated  int `json:"automated" doc:"events of sources that do more than a person can"`
}

// showing is one showing of a pair. A log has many.
type showing struct {
	pair    int32
	cell    uint16  // surface and band of places
	outcome Act     // Shown: none
	placed  float32 // probability of its place; 0 is unknown
	// whether a click, and a link, can still come
	clickOpen, linkOpen bool
}

// pair is what is known of a pair while events are read.
type pair struct {
	source, target int32
	last           int32  // showing
	list           uint32 // hash of the last showing's list
	linkedAt       int64  // when it was first clicked or linked, in seconds; 0 where it was not
	shownAt        int64  // of the last showing, in microseconds; 0 is unknown
	late           bool   // an outcome came too late
}

// pace is how fast a source acts.
type pace struct {
	minute, day     int64
	inMinute, inDay int32
	automated       bool
}

// Reader turns events, in their order, into showings with their outcome.
type Reader struct {
	windows  Windows
	now      time.Time
	at       map[uint64]int32 // pairs by source and target
	pairs    []pair
	showings []showing
	paces    map[int32]*pace
	surfaces map[string]int
	names    []string
	linked   []int // links by surface
	counts   Counts
}

// NewReader returns a reader. Of what happened less than a window before now, outcomes are still waited for.
func NewReader(windows Windows, now time.Time) *Reader {
	return &Reader{windows: windows, now: now, at: map[uint64]int32{}, paces: map[int32]*pace{},
		surfaces: map[string]int{}}
}

// surface returns the number of a surface.
func (r *Reader) surface(name string) int {
	n, ok := r.surfaces[name]
	if !ok {
		if len(r.names) >= MostSurfaces {
			return MostSurfaces - 1
		}
		n = len(r.names)
		r.surfaces[name], r.names, r.linked = n, append(r.names, name), append(r.linked, 0)
	}
	return n
}

// Add takes the next event.
func (r *Reader) Add(e Occurrence) {
	key := uint64(uint32(e.Source))<<32 | uint64(uint32(e.Target))
	k, known := r.at[key]
	if e.Act != Shown {
		r.pace(e)
	}
	if !known {
		k = int32(len(r.pairs))
		r.at[key] = k
		r.pairs = append(r.pairs, pair{source: e.Source, target: e.Target, last: -1})
	}
	p := &r.pairs[k]
	if e.Act == Shown {
		r.show(k, p, e)
		return
	}
	if at := e.At.Unix(); e.Act != Dismissed && !e.At.IsZero() && (p.linkedAt == 0 || at < p.linkedAt) {
		p.linkedAt = at
	}
	if p.last < 0 {
		// Somebody acted on what no event says was shown: it was, somewhere.
		r.counts.Unshown++
		r.show(k, p, Occurrence{Act: Shown, Source: e.Source, Target: e.Target, List: e.List, Surface: e.Surface,
			Place: e.Place, At: e.At})
	}
	window := r.windows.Click
	if e.Act == Linked {
		window = r.windows.Link
	}
	if window > 0 && p.shownAt != 0 && e.At.Sub(time.UnixMicro(p.shownAt)) > window {
		r.counts.Late++
		p.late = true
		return
	}
	s := &r.showings[p.last]
	if rank(e.Act) > rank(s.outcome) {
		if s.outcome = e.Act; e.Act == Linked {
			r.linked[int(s.cell)/bands]++
		}
	}
}

// rank orders outcomes: who dismissed what they had clicked on does not want it, and who linked to it does.
func rank(k Act) int { return [...]int{Shown: 0, Clicked: 1, Dismissed: 2, Linked: 3}[k] }

// show takes a showing.
func (r *Reader) show(k int32, p *pair, e Occurrence) {
	list := hash(e.List)
	if list != 0 && p.last >= 0 && p.list == list {
		r.counts.Duplicates++
		return
	}
	p.last, p.list, p.shownAt = int32(len(r.showings)), list, 0
	s := showing{pair: k, cell: uint16(r.surface(e.Surface)*bands + bandOf(e.Place)),
		placed: float32(e.Placed)}
	if !e.At.IsZero() {
		p.shownAt = e.At.UnixMicro()
		age := r.now.Sub(e.At)
		s.clickOpen = r.windows.Click > 0 && age <= r.windows.Click
		s.linkOpen = r.windows.Link > 0 && age <= r.windows.Link
	}
	r.showings = append(r.showings, s)
}

// hash is FNV-1a of a text, and 0 of none.
func hash(text string) uint32 {
	if text == "" {
		return 0
	}
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return max(h, 1)
}

// pace counts what a source does.
func (r *Reader) pace(e Occurrence) {
	if e.At.IsZero() {
		return
	}
	p := r.paces[e.Source]
	if p == nil {
		p = &pace{}
		r.paces[e.Source] = p
	}
	if at := e.At.Unix() / 60; at != p.minute {
		p.minute, p.inMinute = at, 0
	}
	if at := e.At.Unix() / 86_400; at != p.day {
		p.day, p.inDay = at, 0
	}
	p.inMinute, p.inDay = p.inMinute+1, p.inDay+1
	p.automated = p.automated || p.inMinute > MostInAMinute || p.inDay > MostInADay
}
