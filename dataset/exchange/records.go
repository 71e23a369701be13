package exchange

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"unseen/graph"
	"unseen/hint"
)

// records says what to read of a table of any format: CSV, JSON lines or Parquet, as the name of its file says, and CSV
// where it says nothing.
type records struct {
	path    string
	options Options
	sink    Sink
	roles   []role
	needed  []string // roles that must have a column
}

// record is the record that is being read.
type record interface {
	text(role int) string                 // empty where it is missing; valid until the next record
	has(role int) bool                    // whether there is such a column
	seconds(role int) (at int64, _ error) // a time from 1970 on; graph.NoTime where it is missing
	place() Place
	raw() []byte // how it begins, for rejects
}

// each calls do for every record; the sink gets the bad ones.
func (q records) each(ctx context.Context, do func(record) error) error {
	switch _, extension := stemOf(q.path); extension {
	case ".jsonl", ".ndjson", ".json":
		return q.objects(ctx, do)
	case ".parquet", ".pq":
		return q.parquet(ctx, do)
	}
	t, err := openCSV(ctx, q.path, q.options)
	if err != nil {
		return err
	}
	defer t.close()
	atomic(t.header)
	found, err := columns(&q.options, Place{q.path, 1, 0}, t.header, q.roles, q.needed...)
	if err != nil {
		return err
	}
	noteGuesses(q.sink, &q.options, q.path, t.header, q.roles, found)
	r := &csvRecord{t, found}
	return t.each(q.sink, func() error { return do(r) })
}

// atomic removes the types from the names of columns in atomic files of RecBole, as in user_id:token.
func atomic(header []string) {
	types := []string{":token", ":float", ":token_seq", ":float_seq"}
	for _, name := range header {
		if !slices.ContainsFunc(types, func(t string) bool { return strings.HasSuffix(name, t) }) {
			return
		}
	}
	for k, name := range header {
		header[k] = name[:strings.LastIndexByte(name, ':')]
	}
}

type csvRecord struct {
	*csvTable
	found []int
}

func (r *csvRecord) text(role int) string { return r.csvTable.text(r.found[role]) }
func (r *csvRecord) has(role int) bool    { return r.found[role] >= 0 }

func (r *csvRecord) seconds(role int) (int64, error) { return parseSeconds(r.text(role)) }

// objects reads JSON lines. Columns are found again where the keys change.
func (q records) objects(ctx context.Context, do func(record) error) error {
	r, noted := &objectRecord{}, false
	var keys []string
	return eachObject(ctx, q.path, q.options, q.sink, func(x *object) error {
		if keys == nil || !slices.Equal(keys, x.keys) {
			found, err := columns(&q.options, x.at, x.keys, q.roles, q.needed...)
			if e, is := errors.AsType[*Error](err); is {
				err = e.Err // the sink names the place
			}
			if err != nil {
				return q.sink.Reject(x.at, err, x.line)
			}
			if r.found, keys = found, slices.Clone(x.keys); !noted {
				noteGuesses(q.sink, &q.options, q.path, x.keys, q.roles, found)
				noted = true
			}
		}
		r.object = x
		return do(r)
	})
}

type objectRecord struct {
	*object
	found []int
}

func (r *objectRecord) text(role int) string { return r.object.text(r.found[role]) }
func (r *objectRecord) has(role int) bool    { return r.found[role] >= 0 }
func (r *objectRecord) place() Place         { return r.at }
func (r *objectRecord) raw() []byte          { return r.line }

func (r *objectRecord) seconds(role int) (int64, error) { return parseSeconds(r.text(role)) }

func (q records) parquet(ctx context.Context, do func(record) error) error {
	r := &parquetRecord{}
	return parquetScan(q).rows(ctx, func(row *parquetRow) error {
		r.parquetRow = row
		return do(r)
	})
}

type parquetRecord struct{ *parquetRow }

func (r *parquetRecord) has(role int) bool { return r.columns[role].index >= 0 }
func (r *parquetRecord) place() Place      { return r.at() }
func (r *parquetRecord) raw() []byte       { return pair(r.text(0), r.text(1)) }

func (r *parquetRecord) seconds(role int) (int64, error) {
	c := r.columns[role]
	if c.index < 0 || c.time == nil {
		return parseSeconds(r.text(role))
	}
	if v := r.values[role][r.k]; !v.IsNull() {
		return c.time(v).Unix(), nil
	}
	return graph.NoTime, nil
}

// nodeTime reads the time of a person or an item, zero where it is unknown: as parseTime does, to which a small number
// is a year, or else as the time of an event.
func nodeTime(r record, role int) (time.Time, error) {
	if p, is := r.(*parquetRecord); !is || p.columns[role].time == nil {
		if t, err := parseTime(r.text(role)); err == nil {
			return t, nil
		}
	}
	seconds, err := r.seconds(role)
	if err != nil || seconds == graph.NoTime {
		return time.Time{}, err
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// parseSeconds reads the time of an event: a number counts seconds from 1970, or milli-, micro- or nanoseconds where
// it is too large for that; else it is a date, as parseTime reads it. Empty is graph.NoTime.
func parseSeconds(text string) (int64, error) {
	if text == "" {
		return graph.NoTime, nil
	}
	if n, ok := wholeSeconds(text); ok {
		return n, nil
	}
	if n, ok := isoSeconds(text); ok {
		return n, nil
	}
	text = strings.TrimSpace(text)
	if x, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(x) < 1<<62 {
		return fromUnix(int64(x)), nil
	}
	t, err := parseTime(text)
	if err != nil || t.IsZero() {
		return graph.NoTime, err
	}
	return t.Unix(), nil
}

// wholeSeconds reads a whole number of up to 18 digits.
func wholeSeconds(text string) (n int64, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > 18 {
		return 0, false
	}
	for k := range len(digits) {
		d := digits[k] - '0'
		if d > 9 {
			return 0, false
		}
		n = 10*n + int64(d)
	}
	if len(digits) < len(text) {
		n = -n
	}
	return fromUnix(n), true
}

// fromUnix turns a number of seconds, or of smaller units if it is too large, into seconds.
func fromUnix(n int64) int64 {
	for most := int64(100_000_000_000); n >= most || n <= -most; { // the year 5138
		n /= 1000
	}
	return n
}

// isoSeconds reads 2021-03-31T12:00:00Z, with a space for the T, a fraction or no zone as well: the usual form, which
// it reads a hundred times as fast as parseTime.
func isoSeconds(text string) (int64, bool) {
	if len(text) < 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' && text[10] != ' ' || text[13] != ':' ||
		text[16] != ':' {
		return 0, false
	}
	number := func(from, to int) (n int) {
		for _, d := range []byte(text[from:to]) {
			if d -= '0'; d > 9 {
				return -1
			}
			n = 10*n + int(d)
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	rest := text[19:]
	if strings.HasPrefix(rest, ".") {
		rest = strings.TrimLeft(rest[1:], "0123456789")
	}
	if rest != "" && rest != "Z" && rest != "+00:00" || year < 1 || month < 1 || month > 12 || day < 1 || day > 31 ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	// Days are counted in years that begin in March, so that the day that some years lack is the last one.
	if leap := year%4 == 0 && (year%100 != 0 || year%400 == 0); day > 28+bit(leap) && month == 2 ||
		day > 30 && (month == 4 || month == 6 || month == 9 || month == 11) {
		return 0, false
	}
	months := 12*year + month - 3
	years := months / 12
	days := 365*years + years/4 - years/100 + years/400 + (153*(months%12)+2)/5 + day - 1 - 719468
	return int64(86400*days + 3600*hour + 60*minute + second), true
}

const secondsHint = "write seconds or milliseconds from 1970, or 2021-03-31T12:00:00Z, or leave it empty"

// number reads a number of a record; missing is what stands for none.
func number(r record, role int, missing float64) (float64, error) {
	text := strings.TrimSpace(r.text(role))
	if text == "" {
		return missing, nil
	}
	if n, err := strconv.Atoi(text); err == nil { // the usual case, several times as fast
		return float64(n), nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return missing, hint.Wrap(fmt.Errorf("%w: %.40q is not a number", ErrFormat, text),
			"write a number, or leave it "+
				"empty")
	}
	return x, nil
}
