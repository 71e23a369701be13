package dataset

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"unseen/graph"
)

// Exposures are pairs of which it is known whether the target was shown to the source: a log, a survey,
// an experiment. Element k of every column belongs to pair k.
type Exposures struct {
	Source, Target []int32
	Shown          []float64 // probability that it was shown, NaN where unknown; nil when all are unknown
	Exposed        []bool    // whether it was shown
	Linked         []bool    // whether it was then linked

	// What a log may know besides; nil when it does not. A pair that was shown more than once is one pair with a count.
	Count    []int32  // how often it was shown
	Position []int32  // its best place in a list, from 1 on; 0 where unknown
	Surface  []uint16 // where it was shown, as a place in Surfaces
	Surfaces []string // names of surfaces: a page, a mail; "" where unknown
	Time     []int64  // when it was shown first, in seconds from 1970; graph.NoTime where unknown
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

// showingRow is a row of exposures.parquet where more is known of how pairs were shown. Logs are long, and sorted by
// source: differences take a fraction of the space and of the time.
type showingRow struct {
	Source   int64    `parquet:"source,delta"`
	Target   int64    `parquet:"target,delta"`
	Shown    *float64 `parquet:"shown,optional"`
	Exposed  bool     `parquet:"exposed"`
	Linked   bool     `parquet:"linked"`
	Count    int32    `parquet:"count,delta"`
	Position int32    `parquet:"position,delta"` // 0 where unknown
	Surface  string   `parquet:"surface,optional,dict"`
	Time     *int64   `parquet:"time,optional,timestamp(millisecond)"`
}

// lengths are those of the columns, 0 where one is nil.
func (e *Exposures) lengths() []int {
	return []int{len(e.Source), len(e.Target), len(e.Shown), len(e.Exposed), len(e.Linked), len(e.Count),
		len(e.Position), len(e.Surface), len(e.Time)}
}

func (w *writer) exposures(to io.Writer, progress func(done, of int) error) error {
	e := w.content.Exposures
	if err := w.begin(e); err != nil {
		return err
	}
	if e.Count == nil && e.Position == nil && e.Surface == nil && e.Time == nil {
		return writeRows(newTable[exposureRow](to, linksPerRowGroup), e.Len(), progress, w.exposure)
	}
	return writeRows(newShowings(to), e.Len(), progress, w.showing)
}

// exposureParts writes exposures part by part.
func (w *writer) exposureParts(to io.Writer, progress func(done, of int) error) error {
	table := newShowings(to)
	for e, err := range w.content.ExposureParts {
		if err == nil {
			err = w.begin(e)
		}
		if err == nil {
			err = addRows(table, e.Len(), func(done, _ int) error {
				return progress(w.manifest.Exposures-e.Len()+done, w.manifest.Exposures)
			}, w.showing)
		}
		if err != nil {
			return err
		}
	}
	return table.Close()
}

func newShowings(to io.Writer) *parquet.GenericWriter[showingRow] {
	// times hardly get smaller
	return newTable[showingRow](to, linksPerRowGroup, parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}))
}

// begin makes exposures those that are written, and counts them.
func (w *writer) begin(e *Exposures) error {
	w.log = e
	w.manifest.Exposures += e.Len()
	optional := []bool{false, false, e.Shown == nil, false, false, e.Count == nil, e.Position == nil, e.Surface == nil,
		e.Time == nil}
	for k, n := range e.lengths() {
		if n != e.Len() && !optional[k] {
			return w.refuse("exposures with columns of %v rows", "give every column one element per pair", e.lengths())
		}
	}
	return nil
}

// exposure sets the row of a pair.
func (w *writer) exposure(_, at int, row *exposureRow) error {
	e, nodes := w.log, w.content.Graph.Len()
	*row = exposureRow{Source: int64(e.Source[at]), Target: int64(e.Target[at]), Exposed: e.Exposed[at],
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
	return nil
}

// showing sets the row of a pair of which more is known.
func (w *writer) showing(k, at int, row *showingRow) (err error) {
	e := w.log
	var plain exposureRow
	if err := w.exposure(k, at, &plain); err != nil {
		return err
	}
	*row = showingRow{Source: plain.Source, Target: plain.Target, Shown: plain.Shown, Exposed: plain.Exposed,
		Linked: plain.Linked}
	if row.Exposed {
		row.Count = 1
	}
	if e.Count != nil {
		row.Count = e.Count[at]
	}
	if e.Position != nil {
		row.Position = e.Position[at]
	}
	if e.Surface != nil {
		if int(e.Surface[at]) >= len(e.Surfaces) {
			return w.refuse("exposure %d has surface %d of %d", "name every surface", at, e.Surface[at],
				len(e.Surfaces))
		}
		row.Surface = e.Surfaces[e.Surface[at]]
	}
	if e.Time != nil && e.Time[at] != graph.NoTime {
		row.Time, err = w.milliseconds(k, e.Time[at], "exposure", at)
	}
	return err
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
	err = t.scan(ctx, []*column{r.ends.source, r.ends.target, r.shown, r.exposed, r.linked, r.count, r.position,
		r.surface, r.time},
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
	// what a log may know besides; nil when it does not
	count, position, surface, time *column
	surfaces                       map[string]uint16
	read                           Exposures
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
	if r.shown != nil && r.shown.kind == kindNothing { // all are unknown
		r.shown = nil
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
	if err != nil {
		return nil, err
	}
	r.findShowings()
	return r, nil
}

// findShowings finds the columns that say more of how pairs were shown. In a table that was not written by Write,
// columns of these names may hold anything: those of another type are not used.
func (r *exposureReader) findShowings() {
	for _, c := range []struct {
		name string
		into **column
		fits func(c *column) bool
	}{
		{"count", &r.count, wholeNumbers}, {"position", &r.position, wholeNumbers},
		{"surface", &r.surface, func(c *column) bool { return c.kind == parquet.ByteArray }},
		{"time", &r.time, func(c *column) bool { return c.time != nil }},
	} {
		if found, err := r.find(c.name); err == nil && found != nil && c.fits(found) {
			*c.into = found
		}
	}
	r.surfaces = map[string]uint16{}
	if r.count != nil {
		r.read.Count = []int32{}
	}
	if r.position != nil {
		r.read.Position = []int32{}
	}
	if r.surface != nil {
		r.read.Surface = []uint16{}
	}
	if r.time != nil {
		r.read.Time = []int64{}
	}
}

func wholeNumbers(c *column) bool {
	return (c.kind == parquet.Int32 || c.kind == parquet.Int64) && c.time == nil
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
	if err != nil {
		return err
	}
	return r.addShowing(row, k, values)
}

// addShowing reads what more a row says of how a pair was shown.
func (r *exposureReader) addShowing(row int64, k int, values [][]parquet.Value) error {
	e := &r.read
	number := func(c *column, v parquet.Value, missing int32) int32 {
		if v.IsNull() {
			return missing
		}
		return int32(max(0, min(wholeNumber(c, v), math.MaxInt32)))
	}
	if r.count != nil {
		once := int32(0)
		if e.Exposed[len(e.Exposed)-1] {
			once = 1
		}
		e.Count = append(e.Count, number(r.count, values[5][k], once))
	}
	if r.position != nil {
		e.Position = append(e.Position, number(r.position, values[6][k], 0))
	}
	if r.surface != nil {
		name, err := r.text(row, r.surface, values[7][k])
		if err != nil {
			return err
		}
		known, ok := r.surfaces[name]
		if !ok {
			if len(e.Surfaces) > math.MaxUint16 {
				return placeError(r.path, row, "surface", fmt.Errorf("%w: more than %d surfaces", graph.ErrTooLarge,
					math.MaxUint16), "merge the rare ones")
			}
			known = uint16(len(e.Surfaces))
			e.Surfaces = append(e.Surfaces, strings.Clone(name)) // the page goes back
			r.surfaces[e.Surfaces[known]] = known
		}
		e.Surface = append(e.Surface, known)
	}
	if r.time != nil {
		when := int64(graph.NoTime)
		if v := values[8][k]; !v.IsNull() {
			when = r.time.timeOf(v).Unix()
		}
		e.Time = append(e.Time, when)
	}
	return nil
}

// wholeNumber is a value of a column of whole numbers.
func wholeNumber(c *column, v parquet.Value) int64 {
	if c.kind == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
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
