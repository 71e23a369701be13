package exchange

import (
	"context"
	"fmt"
	"math"
	"strings"

	"unseen/graph"
	"unseen/hint"
)

// A table of interactions that is imported in parts, by many programs at once, is read by the functions of this file:
// they understand and refuse records as Import does. Whoever calls them joins the parts.

// BadRecords takes the bad records of a lenient import, which leaves them out: where each is, and why it is bad.
// Without such a function the first one ends the import.
type BadRecords func(at Place, reason error)

func (f BadRecords) reject(at Place, reason error) error {
	if f == nil {
		return strictError(at, reason)
	}
	f(at, plainReason(reason))
	return nil
}

// Click is a row of a table of clicks. Strings are good until the next row.
type Click struct {
	Person, Item string
	Line         int
	Seconds      int64   // from 1970; graph.NoTime where it is unknown
	Value        float32 // a rating or a count; NaN where it is unknown
}

// ClickColumns says what the rows of a table of clicks have besides a person and an item.
type ClickColumns struct {
	Timed, Rated, Counted bool
	Ratings               RatingScale
	Rows, Bad             int64 // that are clicks, and that are none
}

// LinkRule says from which rating, or else from which count of clicks on, a pair is a link.
type LinkRule struct {
	Rated            bool
	Threshold, Least float64
}

// Linked reports whether a pair with these clicks is a link.
func (r LinkRule) Linked(c PairClicks) bool {
	if r.Rated {
		return c.rating >= r.Threshold
	}
	return c.count >= r.Least
}

// Rule returns which pairs of a whole table are links, given what all of its parts have. Without a row all clicks are
// those of impressions.
func (c ClickColumns) Rule(file string, o Options) (rule LinkRule, err error) {
	o.format = interactionFormat()
	if rule.Threshold, rule.Least, err = linkRule(o); err != nil {
		return rule, err
	}
	given := !math.IsNaN(rule.Threshold)
	rule.Rated = c.Rated && (given || c.Ratings.Count > 0) // else the column is empty
	switch {
	case !rule.Rated:
		rule.Threshold = 0
	case !given:
		rule.Threshold, err = c.Ratings.Threshold(file)
	}
	return rule, err
}

func interactionFormat() *Format {
	f, _ := Lookup("interactions")
	return &f
}

// ReadClicks reads a part of a table of clicks, which may be empty.
func ReadClicks(ctx context.Context, path string, o Options, each func(Click) error, bad BadRecords) (
	ClickColumns, error) {
	o.format = interactionFormat()
	sink := &partSink{bad: bad}
	x := &interactions{sink: sink, options: o, clicks: path}
	rows := int64(0)
	err := x.clickRecords().each(ctx, func(r record) error {
		row, ok, err := x.clickRow(r)
		if err != nil || !ok {
			return err
		}
		rows++
		return each(Click{Person: x.ids[0], Item: x.ids[1], Line: r.place().Line, Seconds: row.seconds,
			Value: row.value})
	})
	return ClickColumns{Timed: x.clicked.timed, Rated: x.rated, Counted: x.counted, Ratings: x.ratings, Rows: rows,
		Bad: sink.met}, err
}

// ShownRow is a row of a table of impressions. Strings are good until the next row.
type ShownRow struct {
	Person, Item string
	Line         int
	Seconds      int64 // from 1970; graph.NoTime where it is unknown
	// Exposed says whether the item was shown, and Clicked whether the row counts as a click too.
	Exposed, Clicked bool
}

// ReadShowings reads a part of a table of impressions, which may be empty.
func ReadShowings(ctx context.Context, path string, o Options, each func(ShownRow) error, bad BadRecords) error {
	o.format = interactionFormat()
	x := &interactions{sink: &partSink{bad: bad}, options: o, shown: path, surfaces: newInterner()}
	return x.showingRecords().each(ctx, func(r record) error {
		row, ok, err := x.showingRow(r)
		if err != nil || !ok {
			return err
		}
		return each(ShownRow{Person: x.ids[0], Item: x.ids[1], Line: r.place().Line, Seconds: row.seconds,
			Exposed: row.flag, Clicked: row.clicked})
	})
}

// SideRecord is a record of a person or an item. Strings are good until the next record.
type SideRecord struct {
	NodeRecord
	Place Place
	Bad   bool // nothing of it but the id is used: there is such a person or item
}

// ReadSide reads a part of a table of people, graph.SourceOnly, or of items, graph.TargetOnly.
func ReadSide(ctx context.Context, path string, o Options, side graph.Role, each func(SideRecord) error,
	bad BadRecords) error {
	o.format = interactionFormat()
	x := &interactions{sink: &partSink{bad: bad}, options: o}
	roles := itemRoles
	if side == graph.SourceOnly {
		roles = userRoles
	}
	q := records{path, o, x.sink, roles, []string{"id"}}
	return q.each(ctx, func(r record) error {
		n, err := x.nodeRecord(r, side)
		if err == nil {
			err = n.fault()
		}
		if err == nil && n.ID == "" {
			err = emptyID()
		}
		if err != nil {
			id := r.text(0)
			if err := x.sink.Reject(r.place(), err, nil); err != nil || !usableID(id) {
				return err
			}
			return each(SideRecord{NodeRecord{ID: id}, r.place(), true})
		}
		if missingValue(n.Field) {
			n.Field = ""
		}
		return each(SideRecord{n, r.place(), false})
	})
}

// DuplicateNode refuses a second record of an id.
func DuplicateNode(id string, at Place, bad BadRecords) error { return bad.reject(at, duplicateID(id)) }

// SharedID is the error of an id that is an item's, and with the prefix a person's.
func SharedID(id string) error {
	return failAt(Place{}, fmt.Errorf("%w: %.80q is a person's id with the prefix, and an item's", ErrUsage, id),
		"set %v to a text that no id begins with", hint.Setting("userPrefix"))
}

// partSink hands bad records on, or refuses the first, and keeps no notes.
type partSink struct {
	interactionSink
	bad BadRecords
	met int64 // how many there were
}

func (*partSink) Note(string, ...any) {}

func (s *partSink) Reject(at Place, reason error, _ []byte) error {
	s.met++
	return s.bad.reject(at, reason)
}

// Tabular reports whether a file of a folder is a table, by its name: hidden files and markers such as _SUCCESS are
// none.
func Tabular(name string) bool { return !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") }
