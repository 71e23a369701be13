package exchange

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// ours reads all records; faults are nil records.
func ours(r io.Reader, delimiter byte, limits Limits) (records [][]string, faults []*csvFault, err error) {
	c := newCSV(r, "f", delimiter, limits)
	for {
		err := c.next()
		if err == io.EOF {
			return records, faults, nil
		}
		if f, ok := errors.AsType[*csvFault](err); ok {
			faults = append(faults, f)
			continue
		}
		if err != nil {
			return records, faults, err
		}
		var record []string
		for _, f := range c.fields {
			record = append(record, string(f))
		}
		records = append(records, record)
	}
}

// agree fails unless the reader does on a text what encoding/csv does: the same records up to the first
// fault, and a fault where it has one, in the same line.
func agree(t *testing.T, text string, delimiter byte) {
	t.Helper()
	theirs := csv.NewReader(strings.NewReader(text))
	theirs.Comma = rune(delimiter)
	var want [][]string
	var fault error
	for {
		record, err := theirs.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			fault = err
			break
		}
		want = append(want, slices.Clone(record))
	}
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)),
		iotest.DataErrReader(iotest.HalfReader(strings.NewReader(text)))} {
		c := newCSV(r, "f", delimiter, Limits{})
		c.buffer = make([]byte, 4, 1<<10) // so that it moves and grows
		for k := 0; ; k++ {
			err := c.next()
			if fault != nil && k == len(want) {
				f, ok := errors.AsType[*csvFault](err)
				if !ok {
					t.Fatalf("%q: record %d: encoding/csv says %v, we %v", text, k, fault, err)
				}
				p, _ := errors.AsType[*csv.ParseError](fault)
				if f.line < p.StartLine || f.line > p.Line { // a quote that never ends is placed where it opens
					t.Fatalf("%q: encoding/csv says %v, we line %d", text, fault, f.line)
				}
				break
			}
			if err == io.EOF && k == len(want) {
				break
			}
			if err != nil || k >= len(want) {
				t.Fatalf("%q: record %d: %v, want %q", text, k, err, want)
			}
			for j, field := range c.fields {
				if j >= len(want[k]) || string(field) != want[k][j] {
					t.Fatalf("%q: record %d is %q, want %q", text, k, c.fields, want[k])
				}
			}
			if len(c.fields) != len(want[k]) {
				t.Fatalf("%q: record %d is %q, want %q", text, k, c.fields, want[k])
			}
		}
	}
}

// incomparable is what encoding/csv takes and we refuse on purpose, or the other way round.
func incomparable(text string) bool {
	return strings.HasPrefix(text, "\xef\xbb\xbf") || strings.ContainsRune(text, 0) ||
		strings.ToValidUTF8(text, "") != text
}

func TestCSVAgreesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\n", "\r\n", "\r", "a", "a\n", "a\r", "a\r\n", "a,b\nc,d", ",\n,", "a\r\r\n", `"a"`, "\"a\"\r",
		"\"a\"\r\n", "\"a\"\r\r\n",
		"\"a\nb\",c\nd,e\n", "\"a\r\nb\",c\n", `""`, `"",""`, `""""`, `"a""b"`, `a"b`, `"a"b`, `"a`, "\"a\n",
		"x,\"a\n\n\nb\"\n", "a,b\nc\n", "a,b\n\n\nc,d",
		`"""`, `"a,b",c`, "a,\"b\"\nc,\"d", " \"a\"", "é,\"ü\"",
	} {
		agree(t, text, ',')
	}
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 1))
	alphabet := []string{"a", "b", ",", ",", "\n", "\r\n", "\r", `"`, `"`, `""`, "é", ";", "\t"}
	for range 8000 {
		var b strings.Builder
		for range r.IntN(14) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		agree(t, b.String(), []byte(",;\t")[r.IntN(3)])
	}
	// Valid text, which chance rarely makes.
	for range 500 {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.UseCRLF = r.IntN(2) == 0
		width := 1 + r.IntN(4)
		for range r.IntN(20) {
			record := make([]string, width)
			for k := range record {
				for range r.IntN(6) {
					record[k] += alphabet[r.IntN(len(alphabet))]
				}
			}
			must(t, w.Write(record))
		}
		w.Flush()
		agree(t, b.String(), ',')
	}
}

func TestCSVFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text   string
		kind         error
		line, column int
		after        int // records that are read all the same
	}{
		{"bare quote", "a,b\nc,d\"e\nf,g\n", errStrayQuote, 2, 4, 2},
		{"text after a quote", "a,b\n\"c\"d,e\nf,g\n", errQuote, 2, 3, 2},
		{"a quote that never ends", "a,b\nc,\"d\ne,f\ng,h\n", errOpenQuote, 2, 3, 3},
		{"too few fields", "a,b\nc\nd,e\n", errFieldCount, 2, 0, 2},
		{"too many fields", "a,b\nc,d,e\nd,e\n", errFieldCount, 2, 0, 2},
		{"Latin-1", "a,b\n\"x\ny\",caf\xe9\nd,e\n", ErrEncoding, 3, 7, 2},
		{"a cut rune", "a,b\nc,\xe2\x82", ErrEncoding, 2, 3, 1},
		{"NUL", "a,b\nc,d\x00\ne,f", ErrEncoding, 2, 4, 2},
		{"UTF-16", "\xff\xfea\x00,\x00", ErrEncoding, 1, 1, 0},
		{"a long line", "a,b\n" + strings.Repeat("x", 1000) + ",y\nc,d\n", ErrTooLong, 2, 0, 2},
		{"a long record", "a,b\n\"" + strings.Repeat("x\n", 500) + "\",y\nc,d\n", ErrTooLong, 2, 1, -1},
		{"a long line at the end", "a,b\n" + strings.Repeat("x", 1000), ErrTooLong, 2, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
				reader := newCSV(r, "f", ',', Limits{Record: 400})
				reader.buffer = make([]byte, 16)
				records, first := 0, (*csvFault)(nil)
				for {
					err := reader.next()
					if err == io.EOF {
						break
					}
					if f, ok := errors.AsType[*csvFault](err); ok {
						if first == nil {
							first = f
						}
						continue
					}
					must(t, err)
					records++
				}
				if first == nil || !errors.Is(first, c.kind) || first.line != c.line || first.column != c.column {
					t.Fatalf("fault %+v, want %v at %d:%d", first, c.kind, c.line, c.column)
				}
				if c.after >= 0 && records != c.after {
					t.Errorf("%d records, want %d", records, c.after)
				}
			}
		})
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "\"a\r\nb\",\"\"\"\"\n", "a,\"b", "\xef\xbb\xbfid\n1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !incomparable(text) {
			agree(t, text, ',')
		}
		// Whatever comes: no panic, every line is a record, a fault or skipped.
		records, faults, err := ours(strings.NewReader(text), ',', Limits{Record: 64})
		if err != nil || len(records)+len(faults) > strings.Count(text, "\n")+1 {
			t.Fatalf("%q: %d records, %d faults, %v", text, len(records), len(faults), err)
		}
	})
}

func BenchmarkCSVSplit(b *testing.B) {
	var text bytes.Buffer
	for k := range 100000 {
		fmt.Fprintf(&text, "10.1000/%d,10.1000/%d\n", k, k*7919%100000)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		c := newCSV(bytes.NewReader(text.Bytes()), "f", ',', Limits{})
		for c.next() == nil {
		}
	}
}
