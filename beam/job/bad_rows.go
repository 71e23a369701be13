package job

import (
	"cmp"
	"slices"

	"unseen/dataset/exchange"
)

// BadRows are the rows that a lenient import left out.
type BadRows struct {
	Count int64    `json:"count"`
	First []BadRow `json:"first"` // at most ten: of clicks, impressions, people and items, by file and line
}

// BadRow is one of them.
type BadRow struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"` // bytes into the line, from 1; 0 where it is not known
	Reason string `json:"reason"`
}

// keptBad is how many of them are named.
const keptBad = 10

// badRows are the bad rows of a part of the tables.
type badRows struct {
	Count int64
	First []badRow `json:",omitempty"`
}

// badRow is a bad row, and where it comes among those of all tables.
type badRow struct {
	BadRow
	Order uint64
}

// badRecords counts bad records of a file of a table; nil where the first one ends the import.
func (t *tablePlan) badRecords(into *badRows, table, file int) exchange.BadRecords {
	if !t.Settings.Lenient {
		return nil
	}
	turn := []int{clicksTable: 0, showingsTable: 1, peopleTable: 2, itemsTable: 3}[table]
	return func(at exchange.Place, reason error) {
		if kept := into.First; len(kept) == keptBad && kept[keptBad-1].Order < positionOf(turn, file, at.Line) {
			into.Count++ // as most are: they come in order
			return
		}
		row := badRow{BadRow{at.File, at.Line, at.Column, reason.Error()}, positionOf(turn, file, at.Line)}
		into.join(badRows{1, []badRow{row}})
	}
}

// join adds those of another part.
func (b *badRows) join(other badRows) {
	b.Count += other.Count
	b.First = append(b.First, other.First...)
	slices.SortStableFunc(b.First, func(x, y badRow) int {
		return cmp.Or(cmp.Compare(x.Order, y.Order), cmp.Compare(x.Column, y.Column))
	})
	b.First = b.First[:min(len(b.First), keptBad)]
}

func (b *badRows) public() BadRows {
	out := BadRows{Count: b.Count, First: []BadRow{}}
	for _, row := range b.First {
		out.First = append(out.First, row.BadRow)
	}
	return out
}
