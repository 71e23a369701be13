package dataset

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"unseen/graph"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// wantError checks the kind of an error and that it says what it should.
func wantError(tb testing.TB, err, kind error, says ...string) {
	tb.Helper()
	if !errors.Is(err, kind) {
		tb.Fatalf("error %v, want one that is %q", err, kind)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			tb.Errorf("error %q does not say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		tb.Errorf("error %q has more than a line", err)
	}
}

// odd are strings that a careless file format loses.
var odd = []string{
	"", "plain", "Gödel, Escher, Bach", "日本語", "\"quoted\"", "it's", "two\nlines", "tab\there", "nul\x00inside",
	"comma,semicolon;", "{'shape': (1, 2)}", "🤖", " leading and trailing ", "\u202eright to left", "\\n", "NaN",
	"null", "None", "0", "é", "e\u0301",
}

// randomContent is a small dataset with everything that is awkward, from a seed.
func randomContent(tb testing.TB, seed uint64) Content {
	tb.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	n := r.IntN(40)
	if seed%7 == 0 {
		n = rowsPerBatch + r.IntN(700)
	}
	var b graph.Builder
	if seed%2 == 0 { // fields whose order is not that of their nodes, and one that no node has
		for _, name := range []string{"z", "nobody's", odd[2]} {
			_, err := b.AddField(name)
			must(tb, err)
		}
	}
	for i := range n {
		node := graph.Node{ID: fmt.Sprint(odd[r.IntN(len(odd))], i)}
		if r.IntN(3) > 0 {
			node.Field = []string{"z", odd[2], "physics", "\n"}[r.IntN(4)]
		}
		if seed%3 > 0 {
			node.Title = odd[r.IntN(len(odd))]
		}
		if seed%5 > 0 && r.IntN(4) > 0 {
			node.Time = time.Unix(r.Int64N(1e11)-5e10, 0) // from the year 386 to 3554
			if r.IntN(10) == 0 {
				node.Time = time.Unix(int64(r.IntN(3))-1, 0) // the epoch itself is not a missing time
			}
		}
		_, err := b.AddNode(node)
		must(tb, err)
	}
	if n > 1 {
		for range r.IntN(5 * n) {
			if i, j := int32(r.IntN(n)), int32(r.IntN(n)); i != j {
				must(tb, b.AddLinkIndex(i, j))
			}
		}
	}
	g, _, err := b.Build()
	must(tb, err)
	if seed%4 > 0 {
		g, err = g.WithVectors(randomVectors(tb, r, n))
		must(tb, err)
	}
	c := Content{Graph: g}
	if g.Vectors() != nil && seed%5 != 1 {
		file := strings.Repeat(odd[r.IntN(len(odd))], r.IntN(3000)) + "end"
		c.Encoder = &StoredEncoder{Kind: "test", Write: func(w io.Writer) error {
			_, err := io.WriteString(w, file)
			return err
		}}
	}
	if seed%3 != 1 {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = strings.Repeat(odd[r.IntN(len(odd))], r.IntN(30))
		}
		c.Text = func(i int32) (string, error) { return texts[i], nil }
	}
	if seed%2 > 0 && n > 0 {
		c.Exposures = randomExposures(r, n, seed%3 > 0)
	}
	return c
}

// randomVectors are vectors of n nodes, some of them zeros.
func randomVectors(tb testing.TB, r *rand.Rand, n int) *graph.Vectors {
	tb.Helper()
	dim := 1 + r.IntN(9)
	v, err := graph.NewVectors(n, dim)
	must(tb, err)
	row := make([]float32, dim)
	for i := range n {
		for k := range row {
			row[k] = float32(r.NormFloat64())
		}
		if r.IntN(5) == 0 {
			clear(row)
		}
		must(tb, v.Set(int32(i), row))
	}
	tb.Cleanup(func() { v.Close() })
	return v
}

// randomExposures are exposures of n nodes, with probabilities or without.
func randomExposures(r *rand.Rand, n int, shown bool) *Exposures {
	e := &Exposures{}
	if shown {
		e.Shown = []float64{}
	}
	for range r.IntN(200) {
		e.Source, e.Target = append(e.Source, int32(r.IntN(n))), append(e.Target, int32(r.IntN(n)))
		e.Exposed, e.Linked = append(e.Exposed, r.IntN(2) > 0), append(e.Linked, r.IntN(2) > 0)
		if e.Shown != nil {
			p := r.Float64()
			if r.IntN(3) == 0 {
				p = nan
			}
			e.Shown = append(e.Shown, p)
		}
	}
	return e
}
