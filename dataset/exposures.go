package dataset

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"

	"unseen/graph"
)

// Exposures are pairs of which it is known whether the target was shown to the source: a log, a survey,
// an experiment. Element k of every column belongs to pair k.
type Exposures struct {
	Source, Target []int32
	Shown          []float64 // probability that it was shown, NaN where unknown; nil when all are unknown
	Exposed        []bool    // whether it was shown
	Linked         []bool    // whether a link came of it
}

// Len returns the number of pairs.
func (e *Exposures) Len() int { return len(e.Source) }

// exposureRow is a row of exposures.parquet.
type exposureRow struct {
	Source  int64    `parquet:"source"`
	Target  int64    `parquet:"target"`
	Shown   *float64 `parquet:"shown,optional"`
	Exposed bool     `parquet:"exposed"`
	Linked  bool     `parquet:"linked"`
}

func (w *writer) exposures(to io.Writer, progress func(done, of int) error) error {
	e, nodes := w.content.Exposures, w.content.Graph.Len()
	if len(e.Target) != e.Len() || len(e.Exposed) != e.Len() || len(e.Linked) != e.Len() || e.Shown != nil &&
		len(e.Shown) != e.Len() {
		return w.refuse("exposures with columns of %d, %d, %d, %d and %d rows",
			"give every column one element per pair",
			len(e.Source), len(e.Target), len(e.Shown), len(e.Exposed), len(e.Linked))
	}
	table := newTable[exposureRow](to, linksPerRowGroup)
	var rows [rowsPerBatch]exposureRow
	for first := 0; first < e.Len(); first += rowsPerBatch {
		n := min(rowsPerBatch, e.Len()-first)
		for k := range n {
			at := first + k
			row := exposureRow{Source: int64(e.Source[at]), Target: int64(e.Target[at]), Exposed: e.Exposed[at],
				Linked: e.Linked[at]}
			if uint64(row.Source) >= uint64(nodes) || uint64(row.Target) >= uint64(nodes) {
				return w.refuse("exposure %d is of nodes %d and %d, and there are %d",
					"give indices of the graph's nodes", at, row.Source, row.Target, nodes)
			}
			if e.Shown != nil && !math.IsNaN(e.Shown[at]) {
				if err := probability(e.Shown[at]); err != nil {
					return w.refuse("exposure %d: %v", "give a probability, or NaN where it is unknown", at, err)
				}
				row.Shown = &e.Shown[at]
			}
			rows[k] = row
		}
		if _, err := table.Write(rows[:n]); err != nil {
			return err
		}
		if err := progress(first+n, e.Len()); err != nil {
			return err
		}
	}
	return table.Close()
}

func probability(p float64) error {
	if !(p >= 0 && p <= 1) {
		return fmt.Errorf("shown with probability %v", p)
	}
	return nil
}

// Exposures reads the exposures, or returns nil when the dataset has none.
func (d *Dataset) Exposures(ctx context.Context) (*Exposures, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[NodesFile] == nil {
		return nil, wrong(d.dir, ErrClosed, "read exposures before Close")
	}
	file := d.files[ExposuresFile]
	if file == nil {
		return nil, nil
	}
	t, err := openTable(file, d.path(ExposuresFile))
	if err != nil {
		return nil, err
	}
	ends, err := t.ends()
	if err != nil {
		return nil, err
	}
	shown, err := t.find("shown")
	if err == nil && shown != nil && shown.kind != parquet.Double && shown.kind != parquet.Float {
		err = t.mistyped("shown", kindWords(shown),
			`store probabilities: table["shown"] = table["shown"].astype(float)`)
	}
	if err != nil {
		return nil, err
	}
	exposed, err := t.find("exposed")
	if err == nil {
		err = t.booleans(exposed)
	}
	if err != nil {
		return nil, err
	}
	linked, err := t.must("linked")
	if err == nil {
		err = t.booleans(linked)
	}
	if err != nil {
		return nil, err
	}
	e := &Exposures{}
	if shown != nil {
		e.Shown = []float64{}
	}
	end := func(row int64, c *column, v parquet.Value) (int32, error) {
		if !ends.byID {
			return t.rowNumber(row, c, v, int64(d.graph.Len()))
		}
		id, err := t.text(row, c, v)
		if err != nil {
			return 0, err
		}
		i, known := d.graph.Index(id)
		if !known {
			return 0, flaw(t.path, row, c.name, fmt.Errorf("%w %.80q", graph.ErrUnknownNode, id),
				"leave the row out or add the node")
		}
		return i, nil
	}
	err = t.scan(ctx, []*column{ends.source, ends.target, shown, exposed, linked},
		func(first int64, n int, values [][]parquet.Value) error {
			d.reading(ExposuresFile, first, t.rows())
			for k := range n {
				row := first + int64(k)
				i, err := end(row, ends.source, values[0][k])
				if err != nil {
					return err
				}
				j, err := end(row, ends.target, values[1][k])
				if err != nil {
					return err
				}
				e.Source, e.Target = append(e.Source, i), append(e.Target, j)
				if shown != nil {
					p := shownValue(shown, values[2][k])
					if !math.IsNaN(p) {
						if err := probability(p); err != nil {
							return flaw(t.path, row, "shown", fmt.Errorf("%w: %v", ErrFormat, err),
								"give a probability, or leave it empty where it is unknown")
						}
					}
					e.Shown = append(e.Shown, p)
				}
				// A pair is in the log because it was shown, unless the log says otherwise.
				was := true
				if exposed != nil {
					if values[3][k].IsNull() {
						return flaw(t.path, row, "exposed", fmt.Errorf("%w: it is empty", ErrFormat),
							"say true or false, or leave the row out")
					}
					was = values[3][k].Boolean()
				}
				if values[4][k].IsNull() {
					return flaw(t.path, row, "linked", fmt.Errorf("%w: it is empty", ErrFormat),
						"say true or false, or leave the row out")
				}
				e.Exposed, e.Linked = append(e.Exposed, was), append(e.Linked, values[4][k].Boolean())
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func shownValue(c *column, v parquet.Value) float64 {
	switch {
	case v.IsNull():
		return math.NaN()
	case c.kind == parquet.Float:
		return float64(v.Float())
	}
	return v.Double()
}
