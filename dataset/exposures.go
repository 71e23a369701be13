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
	Linked         []bool    // whether it was then linked
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
		return nil, fileError(d.dir, ErrClosed, "read exposures before Close")
	}
	file := d.files[ExposuresFile]
	if file == nil {
		return nil, nil
	}
	t, err := openTable(file, d.path(ExposuresFile))
	if err != nil {
		return nil, err
	}
	r, err := newExposureReader(t, d.graph)
	if err != nil {
		return nil, err
	}
	err = t.scan(ctx, []*column{r.ends.source, r.ends.target, r.shown, r.exposed, r.linked},
		func(first int64, n int, values [][]parquet.Value) error {
			d.reading(ExposuresFile, first, t.rows())
			for k := range n {
				if err := r.add(first+int64(k), k, values); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return &r.read, nil
}

// exposureReader reads rows of exposures.
type exposureReader struct {
	*table
	graph                  *graph.Graph
	ends                   ends
	shown, exposed, linked *column
	read                   Exposures
}

// newExposureReader finds the columns and checks their types.
func newExposureReader(t *table, g *graph.Graph) (r *exposureReader, err error) {
	r = &exposureReader{table: t, graph: g}
	if r.ends, err = t.ends(); err != nil {
		return nil, err
	}
	if r.shown, err = t.find("shown"); err != nil {
		return nil, err
	}
	if r.shown != nil && r.shown.kind != parquet.Double && r.shown.kind != parquet.Float {
		return nil, t.mistyped("shown", kindWords(r.shown),
			`store probabilities: table["shown"] = table["shown"].astype(float)`)
	}
	if r.exposed, err = t.find("exposed"); err == nil {
		err = t.booleans(r.exposed)
	}
	if err != nil {
		return nil, err
	}
	if r.linked, err = t.must("linked"); err == nil {
		err = t.booleans(r.linked)
	}
	if r.shown != nil {
		r.read.Shown = []float64{}
	}
	return r, err
}

// add reads a row, which is element k of each column's values.
func (r *exposureReader) add(row int64, k int, values [][]parquet.Value) error {
	i, err := r.end(row, r.ends.source, values[0][k])
	if err != nil {
		return err
	}
	j, err := r.end(row, r.ends.target, values[1][k])
	if err != nil {
		return err
	}
	e := &r.read
	e.Source, e.Target = append(e.Source, i), append(e.Target, j)
	if r.shown != nil {
		p := shownValue(r.shown, values[2][k])
		if !math.IsNaN(p) {
			if err := probability(p); err != nil {
				return placeError(r.path, row, "shown", fmt.Errorf("%w: %v", ErrFormat, err),
					"give a probability, or leave it empty where it is unknown")
			}
		}
		e.Shown = append(e.Shown, p)
	}
	// A pair is in the log because it was shown, unless the log says otherwise.
	exposed := true
	if r.exposed != nil {
		if exposed, err = r.boolean(row, "exposed", values[3][k]); err != nil {
			return err
		}
	}
	linked, err := r.boolean(row, "linked", values[4][k])
	e.Exposed, e.Linked = append(e.Exposed, exposed), append(e.Linked, linked)
	return err
}

// end returns the node that a value names, by id or by row number.
func (r *exposureReader) end(row int64, c *column, v parquet.Value) (int32, error) {
	if !r.ends.byID {
		return r.rowNumber(row, c, v, int64(r.graph.Len()))
	}
	id, err := r.text(row, c, v)
	if err != nil {
		return 0, err
	}
	i, known := r.graph.Index(id)
	if !known {
		return 0, placeError(r.path, row, c.name, fmt.Errorf("%w %.80q", graph.ErrUnknownNode, id),
			"leave the row out or add the node")
	}
	return i, nil
}

func (r *exposureReader) boolean(row int64, column string, v parquet.Value) (bool, error) {
	if v.IsNull() {
		return false, placeError(r.path, row, column, fmt.Errorf("%w: it is empty", ErrFormat),
			"say true or false, or leave the row out")
	}
	return v.Boolean(), nil
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
