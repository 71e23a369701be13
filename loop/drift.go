package loop

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// ShownItem is one item that a reader was shown.
type ShownItem struct {
	Source      uint16  // field of the reader's node
	Target      uint16  // field of the item
	Probability float64 // of being shown; 0 means unknown, or the same for all
}

// ExpectedShare is the band in which the same-field share of one source field is expected to stay, such
// as Low and High of a forecast's [Share].
type ExpectedShare struct {
	Field uint16  `json:"field"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// DriftSettings are the settings of a [Drift] detector. A zero means the default.
type DriftSettings struct {
	Expected []ExpectedShare `json:"expected"` // of the watched fields; the others have windows only

	// FalseAlarm is the largest probability of any alarm within the first Lists lists while every
	// share stays in its band.
	FalseAlarm float64 `json:"falseAlarm"` // .01
	Lists      int     `json:"lists"`      // 1,000,000
	// Shift is the change beyond the band, in logits, that is found the fastest. Smaller ones are
	// found later, larger ones not much sooner.
	Shift float64 `json:"shift"` // .3

	Window int     `json:"window"` // lists a window; 500
	Keep   int     `json:"keep"`   // windows and alarms to remember of every field; 32
	Level  float64 `json:"level"`  // of the windows' intervals; .95
}

func (s DriftSettings) withDefaults() (DriftSettings, error) {
	for _, d := range []struct {
		value    *float64
		fallback float64
	}{{&s.FalseAlarm, .01}, {&s.Shift, .3}, {&s.Level, .95}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	for _, d := range []struct {
		value    *int
		fallback int
	}{{&s.Lists, 1_000_000}, {&s.Window, 500}, {&s.Keep, 32}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	switch {
	case !(s.FalseAlarm > 0 && s.FalseAlarm < 1):
		return s, settingError("a false-alarm rate of %v; give a probability between 0 and 1", s.FalseAlarm)
	case s.Lists < 1 || s.Window < 2 || s.Keep < 1:
		return s, settingError("%d lists, windows of %d, %d kept; give at least 1, 2 and 1", s.Lists, s.Window, s.Keep)
	case !(s.Shift > 0 && s.Shift <= 10):
		return s, settingError("a shift of %v logits; give from 0 to 10, such as 0.3", s.Shift)
	case !(s.Level > 0 && s.Level < 1):
		return s, settingError("level %v; give a probability between 0 and 1", s.Level)
	}
	seen := map[uint16]bool{}
	for _, e := range s.Expected {
		switch {
		case seen[e.Field]:
			return s, settingError("field %d has two bands; give it one", e.Field)
		case !(e.Low >= 0 && e.Low <= e.High && e.High <= 1):
			return s, settingError("the band of field %d is from %v to %v; give shares, 0 ≤ low ≤ high ≤ 1",
				e.Field, e.Low, e.High)
		}
		seen[e.Field] = true
	}
	return s, nil
}

// Drift watches a stream of shown lists and raises an alarm when the share of items that stay in
// their source's field leaves its expected band. It keeps a few numbers per field, takes constant
// time per item, and is written and read as JSON. It is not safe for concurrent use. Its zero value
// has the default settings, and so only windows.
//
// Every list gives x, the share of its items that are of the source's field. For the upper end p₀ of
// the band the detector bets on x > p₀, with stakes λ from (p₁−p₀)/(p₀(1−p₀)), p₁ being Shift
// logits beyond p₀, up to nearly 1/p₀:
//
//	R_λ ← (1 + R_λ)·(1 + λ(x − p₀)),   alarm where their mean reaches 2·Lists/FalseAlarm,
//
// and likewise for the lower end. For lists of one item and the smallest λ this is the statistic of
// Shiryaev and Roberts for Bernoulli draws; larger stakes suit lists whose items hardly depend on one
// another. While the mean of x given all before it is at most p₀, the mean of R after k lists is at
// most k, so that by Doob's inequality it ever reaches A in k lists with probability k/A at most: an
// alarm is false with probability FalseAlarm at most. Items of one list may depend on one another as
// they like, and sources may differ, as long as the next source does not depend on the alarms. After
// an alarm that side starts over.
type Drift struct {
	settings  DriftSettings
	threshold float64 // of the mean of R
	fields    map[uint16]*fieldDrift
	lists     int64
}

// fieldDrift is what is kept of one source field.
type fieldDrift struct {
	Open    tally    `json:"open"`
	Begin   int64    `json:"begin"` // list with which the open window began
	Windows []Window `json:"windows,omitempty"`
	Above   excess   `json:"above"`
	Below   excess   `json:"below"`
	Alarms  []Alarm  `json:"alarms,omitempty"`
	Raised  int64    `json:"raised"` // alarms in all
}

// stakes is how many λ a side bets with.
const stakes = 6

// excess is what one side has won, and a CUSUM of the smallest stake, with the items since it was last
// 0: where the share is likely to have left its band.
type excess struct {
	Won   [stakes]float64 `json:"won"` // R_λ
	Sum   float64         `json:"sum"`
	Since int64           `json:"since"`
	Seen  tally           `json:"seen"`
}

// tally counts lists. With S items of T in a list staying in the field, the share is ΣS/ΣT, and its
// variance by lists needs ΣS², ΣST and ΣT².
type tally struct {
	Lists int64   `json:"lists"`
	Same  float64 `json:"same"`
	Items float64 `json:"items"`
	SS    float64 `json:"ss"`
	ST    float64 `json:"st"`
	TT    float64 `json:"tt"`
	// The same with every item counted 1/probability times.
	PoolSame  float64 `json:"poolSame"`
	PoolItems float64 `json:"poolItems"`
}

func (t *tally) add(same, items, poolSame, poolItems float64) {
	t.Lists++
	t.Same += same
	t.Items += items
	t.SS += same * same
	t.ST += same * items
	t.TT += items * items
	t.PoolSame += poolSame
	t.PoolItems += poolItems
}

func (t *tally) share() float64 { return t.Same / t.Items }
func (t *tally) pool() float64  { return t.PoolSame / t.PoolItems }

// interval is Wilson's, with as many independent items as would give the variance between lists.
func (t *tally) interval(level float64) (low, high float64) {
	r, n := t.share(), float64(t.Lists)
	if t.Lists > 1 {
		between := (t.SS - 2*r*t.ST + r*r*t.TT) * n / (n - 1) / (t.Items * t.Items)
		if binary := r * (1 - r); binary > 0 && between > 0 {
			n = max(binary/between, 1)
		}
	}
	z := distuv.UnitNormal.Quantile(.5 + level/2)
	centre := (r + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(r*(1-r)/n+z*z/(4*n*n))
	return max(centre-half, 0), min(centre+half, 1)
}

// Window is the same-field share over consecutive lists of one source field.
type Window struct {
	Field uint16  `json:"field"`
	First int64   `json:"first"` // lists are numbered from 1, over all fields
	Last  int64   `json:"last"`
	Lists int64   `json:"lists"`
	Items int64   `json:"items"`
	Share float64 `json:"share"` // of what was shown
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Pool is the share among everything that could have been shown: items are weighted by one over
	// their probability. Where it moves along, the pool has changed rather than the recommender.
	Pool    float64 `json:"pool"`
	Outside bool    `json:"outside"` // the interval and the expected band do not overlap
}

// Alarm says that a share has left its band.
type Alarm struct {
	Field uint16  `json:"field"`
	List  int64   `json:"list"`  // at which it was raised
	Since int64   `json:"since"` // at which the share is likely to have left
	Above bool    `json:"above"` // else below
	Share float64 `json:"share"` // since then
	Pool  float64 `json:"pool"`  // since then; see Window
	Items int64   `json:"items"` // since then
	Low   float64 `json:"low"`   // the expected band
	High  float64 `json:"high"`
}

// Sentence describes the alarm in plain English; field is the name of the field.
func (a Alarm) Sentence(field string) string {
	side := "below"
	if a.Above {
		side = "above"
	}
	return fmt.Sprintf("Since list %d, %.0f of 100 recommendations in %s stayed in %s, %s the expected %.0f to %.0f.",
		a.Since, 100*a.Share, field, field, side, 100*a.Low, 100*a.High)
}

// NewDrift returns a detector that has seen nothing.
func NewDrift(s DriftSettings) (*Drift, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	s.Expected = slices.Clone(s.Expected)
	return &Drift{settings: s, threshold: 2 * float64(s.Lists) / s.FalseAlarm, fields: map[uint16]*fieldDrift{}}, nil
}

// Add counts one list, whose items were all shown to one source at one time, and returns the alarms
// that it raises. An invalid list is rejected as a whole.
func (d *Drift) Add(list ...ShownItem) ([]Alarm, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: it is empty; leave it out", ErrShown)
	}
	if d.fields == nil { // the zero value
		fresh, err := NewDrift(d.settings)
		if err != nil {
			return nil, err
		}
		*d = *fresh
	}
	var same, poolSame, poolItems float64
	for k, item := range list {
		if item.Source != list[0].Source {
			return nil, fmt.Errorf("%w: item %d was shown to field %d and the first to field %d; add one "+
				"source's list at a time", ErrShown, k, item.Source, list[0].Source)
		}
		weight := 1.
		if item.Probability != 0 {
			weight = 1 / item.Probability
		}
		if !(item.Probability >= 0 && item.Probability <= 1) || math.IsInf(weight, 0) {
			return nil, fmt.Errorf("%w: item %d was shown with probability %v; give one above 0, or 0 if it is "+
				"unknown", ErrShown, k, item.Probability)
		}
		poolItems += weight
		if item.Target == item.Source {
			same++
			poolSame += weight
		}
	}
	d.lists++
	field := list[0].Source
	f := d.fields[field]
	if f == nil {
		f = &fieldDrift{Begin: d.lists}
		d.fields[field] = f
	}
	if f.Open.Lists == 0 {
		f.Begin = d.lists
	}
	items := float64(len(list))
	f.Open.add(same, items, poolSame, poolItems)

	expected, watched := d.expected(field)
	var raised []Alarm
	if watched {
		for _, above := range []bool{true, false} {
			side, end := &f.Below, expected.Low
			if above {
				side, end = &f.Above, expected.High
			}
			if above && end == 1 || !above && end == 0 {
				continue // nothing is beyond
			}
			if side.Sum <= 0 {
				side.Sum, side.Since, side.Seen = 0, d.lists, tally{}
			}
			side.Seen.add(same, items, poolSame, poolItems)
			if side.bet(same/items, end, above, d.settings.Shift) >= d.threshold {
				raised = append(raised, Alarm{
					Field: field, List: d.lists, Since: side.Since, Above: above,
					Share: side.Seen.share(), Pool: side.Seen.pool(), Items: int64(side.Seen.Items), Low: expected.Low,
					High: expected.High,
				})
				*side = excess{}
			}
		}
	}
	f.Alarms, f.Raised = keepLast(append(f.Alarms, raised...), d.settings.Keep), f.Raised+int64(len(raised))
	if f.Open.Lists == int64(d.settings.Window) {
		f.Windows = keepLast(append(f.Windows, d.window(field, f)), d.settings.Keep)
		f.Open = tally{}
	}
	return raised, nil
}

// bet takes a list's share x into account and returns the mean of what has been won.
func (e *excess) bet(x, end float64, above bool, shift float64) float64 {
	// Where the band ends at a sure value, a little room keeps stakes finite.
	end = min(max(end, 1e-6), 1-1e-6)
	most := .9 / end // of a stake, which must not lose everything at once
	if !above {
		x, end, most = 1-x, 1-end, .9/(1-end)
	}
	least := min((sigmoid(math.Log(end/(1-end))+shift)-end)/(end*(1-end)), most)
	e.Sum += math.Log1p(least * (x - end))
	var mean float64
	for k := range e.Won {
		stake := least * math.Pow(most/least, float64(k)/(stakes-1))
		e.Won[k] = (1 + e.Won[k]) * (1 + stake*(x-end))
		mean += e.Won[k] / stakes
	}
	return mean
}

func keepLast[T any](xs []T, n int) []T {
	if len(xs) > n {
		xs = append(xs[:0], xs[len(xs)-n:]...)
	}
	return xs
}

func (d *Drift) expected(field uint16) (ExpectedShare, bool) {
	for _, e := range d.settings.Expected {
		if e.Field == field {
			return e, true
		}
	}
	return ExpectedShare{}, false
}

func (d *Drift) window(field uint16, f *fieldDrift) Window {
	w := Window{
		Field: field, First: f.Begin, Last: d.lists, Lists: f.Open.Lists, Items: int64(f.Open.Items),
		Share: f.Open.share(), Pool: f.Open.pool(),
	}
	w.Low, w.High = f.Open.interval(d.settings.Level)
	if e, ok := d.expected(field); ok {
		w.Outside = w.Low > e.High || w.High < e.Low
	}
	return w
}

// Lists returns how many lists were added.
func (d *Drift) Lists() int64 { return d.lists }

// Windows returns the last windows of a field, the oldest first; the last one may still be open.
func (d *Drift) Windows(field uint16) []Window {
	f := d.fields[field]
	if f == nil {
		return nil
	}
	windows := slices.Clone(f.Windows)
	if f.Open.Lists > 0 {
		windows = append(windows, d.window(field, f))
	}
	return windows
}

// Alarms returns the last alarms of a field, the oldest first, and how many there were in all.
func (d *Drift) Alarms(field uint16) (last []Alarm, all int64) {
	f := d.fields[field]
	if f == nil {
		return nil, 0
	}
	return slices.Clone(f.Alarms), f.Raised
}

// Clone returns a detector in the same state that shares nothing with d.
func (d *Drift) Clone() *Drift {
	clone := *d
	clone.fields = make(map[uint16]*fieldDrift, len(d.fields))
	for field, f := range d.fields {
		state := *f
		state.Windows, state.Alarms = slices.Clone(f.Windows), slices.Clone(f.Alarms)
		clone.fields[field] = &state
	}
	return &clone
}

type driftJSON struct {
	Version  int                    `json:"version"`
	Settings DriftSettings          `json:"settings"`
	Lists    int64                  `json:"lists"`
	Fields   map[uint16]*fieldDrift `json:"fields"`
}

// MarshalJSON writes the state of the detector.
func (d *Drift) MarshalJSON() ([]byte, error) {
	return json.Marshal(driftJSON{1, d.settings, d.lists, d.fields})
}

// UnmarshalJSON reads what MarshalJSON wrote; the detector then continues as if it had never stopped.
func (d *Drift) UnmarshalJSON(raw []byte) error {
	var state driftJSON
	if err := json.Unmarshal(raw, &state); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if state.Version != 1 {
		return fmt.Errorf("%w: version %d, this program reads 1", ErrState, state.Version)
	}
	fresh, err := NewDrift(state.Settings)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if state.Lists < 0 {
		return fmt.Errorf("%w: %d lists", ErrState, state.Lists)
	}
	for _, field := range slices.Sorted(maps.Keys(state.Fields)) {
		f := state.Fields[field]
		if f == nil || !f.valid(state.Lists) {
			return fmt.Errorf("%w: the counts of field %d contradict each other; start over", ErrState, field)
		}
		f.Alarms, f.Windows = keepLast(f.Alarms, fresh.settings.Keep), keepLast(f.Windows, fresh.settings.Keep)
		fresh.fields[field] = f
	}
	fresh.lists = state.Lists
	*d = *fresh
	return nil
}

func (f *fieldDrift) valid(lists int64) bool {
	for _, t := range []tally{f.Open, f.Above.Seen, f.Below.Seen} {
		fair := t.Lists >= 0 && t.Lists <= lists && t.Items >= float64(t.Lists) && t.Same >= 0 && t.Same <= t.Items &&
			t.SS >= 0 && t.ST >= 0 && t.TT >= 0 && t.PoolSame >= 0 && t.PoolSame <= t.PoolItems
		if !fair {
			return false
		}
	}
	for _, side := range []excess{f.Above, f.Below} {
		for _, won := range side.Won {
			if !(won >= 0) {
				return false
			}
		}
		if math.IsNaN(side.Sum) || side.Since < 0 || side.Since > lists {
			return false
		}
	}
	return f.Begin >= 0 && f.Begin <= lists && f.Raised >= int64(len(f.Alarms))
}
