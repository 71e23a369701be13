package dataset

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

var nan = math.NaN()

var someday = time.Date(2021, 7, 18, 12, 0, 0, 0, time.UTC)

// TestRoundTrip writes random datasets and opens them again: nothing may change, and the bytes must be
// the same with one processor and with four.
func TestRoundTrip(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(24) {
		c := randomContent(t, seed)
		number := seed
		o := WriteOptions{Provenance: Provenance{MadeBy: "a test", Made: someday, Seed: &number,
			Command: []string{"go", "test"}}}
		folders := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "four")}
		for k, threads := range []int{1, 4} {
			before := runtime.GOMAXPROCS(threads)
			_, err := Write(ctx, folders[k], c, o)
			runtime.GOMAXPROCS(before)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		sameFiles(t, folders[0], folders[1])
		d, err := Open(ctx, folders[0], OpenOptions{Verify: true})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !sameContent(t, d, c) {
			t.Fatalf("seed %d: the dataset changed", seed)
		}
		// Written again from what was read, it is the same to the byte.
		again, err := d.Content(ctx)
		must(t, err)
		_, err = Write(ctx, folders[1], again, o)
		must(t, err)
		sameFiles(t, folders[0], folders[1])
		must(t, d.Close())
	}
}

func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	names := func(folder string) (names []string) {
		entries, err := os.ReadDir(folder)
		must(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if !slices.Equal(names(a), names(b)) {
		t.Fatalf("files %v and %v", names(a), names(b))
	}
	for _, name := range names(a) {
		x, err := os.ReadFile(filepath.Join(a, name))
		must(t, err)
		y, err := os.ReadFile(filepath.Join(b, name))
		must(t, err)
		if !bytes.Equal(x, y) {
			t.Errorf("%s differs", name)
		}
	}
}

// sameContent compares an open dataset with what was written.
func sameContent(t *testing.T, d *Dataset, c Content) bool {
	t.Helper()
	g, want := d.Graph(), c.Graph
	if g.Len() != want.Len() || g.LinkCount() != want.LinkCount() || g.FieldCount() != want.FieldCount() ||
		(g.Vectors() == nil) != (want.Vectors() == nil) {
		t.Errorf("%d nodes, %d links, %d fields, want %d, %d, %d", g.Len(), g.LinkCount(), g.FieldCount(), want.Len(),
			want.LinkCount(), want.FieldCount())
		return false
	}
	for f := range uint16(g.FieldCount()) {
		if g.FieldName(f) != want.FieldName(f) {
			t.Errorf("field %d is %q, want %q", f, g.FieldName(f), want.FieldName(f))
		}
	}
	for i := range int32(g.Len()) {
		at, known := g.Time(i)
		wantAt, wantKnown := want.Time(i)
		if g.ID(i) != want.ID(i) || g.Title(i) != want.Title(i) || g.Field(i) != want.Field(i) || known != wantKnown ||
			!at.Equal(wantAt) || !slices.Equal(g.Out(i), want.Out(i)) {
			t.Errorf("node %d is %q %q %d %v %v, want %q %q %d %v %v", i, g.ID(i), g.Title(i), g.Field(i), at,
				g.Out(i), want.ID(i), want.Title(i), want.Field(i), wantAt, want.Out(i))
			return false
		}
		if v := want.Vectors(); v != nil {
			a, b := make([]float32, v.Dim()), make([]float32, v.Dim())
			v.Load(a, i)
			g.Vectors().Load(b, i)
			if !slices.Equal(a, b) {
				t.Errorf("vector %d is %v, want %v", i, b, a)
				return false
			}
		}
		text := ""
		if c.Text != nil {
			text, _ = c.Text(i)
		}
		if got, err := d.Text(i); err != nil || got != text {
			t.Errorf("text %d is %q, want %q (%v)", i, got, text, err)
			return false
		}
	}
	e, err := d.Exposures(context.Background())
	must(t, err)
	if (e == nil) != (c.Exposures == nil) {
		t.Error("exposures came or went")
		return false
	}
	if e != nil {
		w := c.Exposures
		same := slices.Equal(e.Source, w.Source) && slices.Equal(e.Target, w.Target) &&
			slices.Equal(e.Exposed, w.Exposed) && slices.Equal(e.Linked, w.Linked)
		for k := range w.Source {
			a, b := nan, nan
			if w.Shown != nil {
				a = w.Shown[k]
			}
			if e.Shown != nil {
				b = e.Shown[k]
			}
			same = same && (a == b || math.IsNaN(a) && math.IsNaN(b))
		}
		if !same {
			t.Errorf("exposures are %+v, want %+v", e, w)
			return false
		}
	}
	return true
}
