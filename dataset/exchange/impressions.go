package exchange

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"unseen/graph"
	"unseen/hint"
)

// Impression is an item that was shown with a known probability, and what came of it. The texts are valid until the
// next one.
type Impression struct {
	Context     string  // whom it was shown to
	List        string  // that it was part of; "" where the table does not say
	Item        string  // what was shown
	Place       int     // in the list, from 1; 0 where the table does not say
	Probability float64 // of being shown, above 0
	Outcome     bool    // such as a click
	Target      float64 // with which another policy shows it; 0 without such a column
	At          Place   // in the file
}

// impressionRoles are the columns of a table of impressions.
var impressionRoles = []role{
	{name: "context", known: append([]string{"context", "context_id", "source"}, personNames...)},
	{name: "item", known: append([]string{"target"}, itemNames...)},
	{name: "place", known: []string{"place", "position", "pos", "rank", "slot"}},
	{name: "probability", known: []string{"probability", "propensity", "prob", "shown"}, flag: "probability-column"},
	{name: "outcome", known: []string{"outcome", "reward", "clicked", "click", "is_click", "linked", "label"}},
	{name: "list", known: []string{"list", "list_id", "impression_id", "request_id", "slate_id"}, flag: "list"},
	{name: "target", known: nil, flag: "target"},
}

// MaxImpressions is how many rows of a table are read.
const MaxImpressions = 10_000_000

// ReadImpressions reads a table of what was shown, CSV, JSON lines or Parquet as the name of its file says, and calls
// do for every row. target names the column with the probabilities of another policy; "" means that there is none. It
// returns what was guessed. The first bad row is an error.
func ReadImpressions(ctx context.Context, path, target string, o Options, do func(Impression) error) ([]hint.Note,
	error) {
	o.Flags = map[string]string{}
	needed := []string{"context", "item", "probability", "outcome"}
	if target != "" {
		o.Flags["target"] = target
		needed = append(needed, "target")
	}
	o.size = sizeOf([]string{path})
	sink := &impressionSink{}
	rows := 0
	err := records{path, o, sink, impressionRoles, needed}.each(ctx, func(r record) error {
		if rows++; rows > MaxImpressions {
			return failAt(r.place(), fmt.Errorf("%w: more than %d rows", graph.ErrTooLarge, MaxImpressions),
				"give a part of the table")
		}
		i, err := impressionOf(r, target != "")
		if err != nil {
			return &Error{r.place(), err}
		}
		return do(i)
	})
	if e, ours := errors.AsType[*Error](err); ours && errors.Is(err, ErrUsage) {
		what := strings.TrimPrefix(plainReason(e).Error(), ErrUsage.Error()+": ")
		err = failAt(e.Place, fmt.Errorf("%w: %s", ErrFormat, what),
			"name the columns context, item, place, probability and outcome")
	}
	return sink.notes, err
}

// impressionOf reads a row.
func impressionOf(r record, targeted bool) (i Impression, err error) {
	i = Impression{Context: r.text(0), Item: r.text(1), List: r.text(5), At: r.place()}
	for _, text := range []struct{ name, value string }{{"context", i.Context}, {"item", i.Item}, {"list", i.List}} {
		switch {
		case text.value == "" && text.name != "list":
			return i, hint.Wrap(fmt.Errorf("%w: the %s is empty", ErrFormat, text.name),
				"give every row a context and an item")
		case len(text.value) > mostBytes["id"]:
			return i, tooLong(text.name, len(text.value), mostBytes["id"])
		case !utf8.ValidString(text.value):
			return i, hint.Wrap(fmt.Errorf("%w: the %s", ErrEncoding, text.name), "save the file as UTF-8")
		}
	}
	place, err := number(r, 2, 0)
	if err != nil {
		return i, err
	}
	if place != math.Trunc(place) || place < 0 || place > math.MaxInt32 || r.has(2) && place == 0 {
		return i, hint.Wrap(fmt.Errorf("%w: %.40q is no place", ErrFormat, r.text(2)), "count places from 1")
	}
	i.Place = int(place)
	if i.Probability, err = number(r, 3, 0); err != nil {
		return i, err
	}
	if !(i.Probability > 0 && i.Probability <= 1) {
		return i, hint.Wrap(fmt.Errorf("%w: shown with probability %v", ErrFormat, i.Probability),
			"give a probability above 0, at most 1, and leave out rows without one")
	}
	if i.Outcome, err = parseBool(r.text(4)); err != nil {
		return i, hint.Wrap(fmt.Errorf("the outcome: %w", err), "write 1 or 0, true or false")
	}
	if !targeted {
		return i, nil
	}
	if i.Target, err = number(r, 6, -1); err != nil {
		return i, err
	}
	if !(i.Target >= 0 && i.Target <= 1) {
		return i, hint.Wrap(fmt.Errorf("%w: the policy shows it with probability %.40q", ErrFormat, r.text(6)),
			"give a probability from 0 to 1")
	}
	return i, nil
}

// impressionSink takes notes, and stops at a bad record.
type impressionSink struct {
	Sink
	notes []hint.Note
}

func (s *impressionSink) Note(format string, a ...any) {
	s.notes = append(s.notes, hint.Notef(format, a...))
}

func (s *impressionSink) Reject(at Place, reason error, _ []byte) error { return &Error{at, reason} }
