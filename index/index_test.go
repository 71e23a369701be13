package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"unseen/dataset"
	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/internal/racetest"
	"unseen/progress"
)

// vectorsOf makes vectors of rows.
func vectorsOf(t testing.TB, rows [][]float32) *graph.Vectors {
	t.Helper()
	v, err := graph.NewVectors(len(rows), len(rows[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	for i, row := range rows {
		if err := v.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// clustered makes rows around a few centres, with a spectrum that falls as that of texts does; lengths are 1, or
// spread.
func clustered(n, dim int, spread float64, seed uint64) [][]float32 {
	random := rand.New(rand.NewPCG(seed, 9))
	centres := make([][]float64, 20)
	for c := range centres {
		centres[c] = make([]float64, dim)
		for d := range centres[c] {
			centres[c][d] = random.NormFloat64() / math.Sqrt(1+float64(d))
		}
	}
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = make([]float32, dim)
		centre, square := centres[random.IntN(len(centres))], 0.
		for d := range rows[i] {
			x := centre[d] + 1.5*random.NormFloat64()/math.Sqrt(1+float64(d)/4)
			rows[i][d], square = float32(x), square+x*x
		}
		scale := math.Exp(spread*random.NormFloat64()) / math.Sqrt(square)
		for d := range rows[i] {
			rows[i][d] *= float32(scale)
		}
	}
	return rows
}

func build(t testing.TB, v *graph.Vectors, o Options) *Web {
	t.Helper()
	w, err := Build(t.Context(), v, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// questions asks with rows of which every element has a weight, as queries of a model have, and with terms.
func questions(v *graph.Vectors, count int, terms bool, seed uint64) engine.TargetSearch {
	random := rand.New(rand.NewPCG(seed, 3))
	s := engine.TargetSearch{Targets: v, K: 10}
	weights := make([]float32, v.Dim())
	for d := range weights {
		weights[d] = float32(1 + .5*random.NormFloat64())
	}
	if terms {
		s.Fields, s.Values = make([]uint16, v.Len()), make([]float32, v.Len())
		for i := range s.Fields {
			s.Fields[i], s.Values[i] = uint16(i%3), float32(i%7)/7
		}
	}
	for range count {
		q := make([]float32, v.Dim())
		v.Load(q, random.Int32N(int32(v.Len())))
		for d := range q {
			q[d] *= weights[d]
		}
		query := engine.SearchQuery{Vector: q}
		if terms {
			query.Offsets, query.Slope = []float32{0, .1, -.2}, .1
		}
		s.Queries = append(s.Queries, query)
	}
	return s
}

// compare returns the share of the best that a web finds, and fails where a score is not that of a scan.
func compare(t testing.TB, w *Web, s engine.TargetSearch, width int) float64 {
	t.Helper()
	want, err1 := engine.CPU{}.TopK(t.Context(), s)
	got, err2 := w.TopK(t.Context(), s, width, 2)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	found, all := 0, 0
	for k := range want {
		scores := map[int32]float32{}
		for _, h := range want[k] {
			scores[h.Target] = h.Score
		}
		all += len(want[k])
		for at, h := range got[k] {
			if at > 0 && (h.Score > got[k][at-1].Score ||
				h.Score == got[k][at-1].Score && h.Target < got[k][at-1].Target) {
				t.Fatalf("query %d: %v are not in order", k, got[k])
			}
			score, ok := scores[h.Target]
			if ok && math.Abs(float64(score-h.Score)) > 1e-5*(1+math.Abs(float64(score))) {
				t.Fatalf("query %d: target %d has %v, not %v", k, h.Target, h.Score, score)
			}
			if ok || len(want[k]) > 0 && h.Score >= want[k][len(want[k])-1].Score {
				found++
			}
		}
	}
	return float64(found) / float64(all)
}

// A walk finds nearly all of the best, for queries that the web has never seen, whatever the lengths of the rows.
func TestTheBestAreFound(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	for _, c := range []struct {
		name   string
		rows   [][]float32
		terms  bool
		recall float64
	}{
		{"lengths of 1", clustered(3000, 64, 0, 1), false, .97},
		{"with fields and values", clustered(3000, 64, 0, 2), true, .97},
		{"lengths that differ", clustered(3000, 64, .3, 3), false, .97},
		{"few elements", clustered(3000, 5, 0, 4), false, .97},
		{"an odd number of rows", clustered(1237, 130, 0, 5), false, .97},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := vectorsOf(t, c.rows)
			w := build(t, v, Options{})
			s := questions(v, 100, c.terms, 1)
			narrow, wide := compare(t, w, s, 20), compare(t, w, s, 150)
			if wide < c.recall || wide < narrow {
				t.Errorf("a narrow walk finds %.3f of the best, a wide one %.3f; want %.3f", narrow, wide, c.recall)
			}
		})
	}
}

// A walk looks at few of the rows.
func TestAWalkIsShort(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	v := vectorsOf(t, clustered(20_000, 32, 0, 6))
	w := build(t, v, Options{})
	s := questions(v, 20, false, 1)
	for _, q := range s.Queries {
		if _, err := w.Top(Walk{Targets: v, Query: q, K: 10, Width: 40}); err != nil {
			t.Fatal(err)
		}
		x := w.rooms.Get().(*walker)
		if looked := len(x.path) + len(w.doors); looked > v.Len()/5 {
			t.Errorf("looked at %d of %d rows", looked, v.Len())
		}
		w.rooms.Put(x)
	}
}

// Every row is the best answer to itself: none is lost on the way, copies among them.
func TestEveryRowIsReached(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	rows := clustered(3000, 48, 0, 7)
	for i := range 600 { // copies of one row, of few rows, and zeros
		switch i % 3 {
		case 0:
			rows[i] = rows[1000]
		case 1:
			rows[i] = rows[1000+i%20]
		case 2:
			rows[i] = make([]float32, 48)
		}
	}
	v := vectorsOf(t, rows)
	w := build(t, v, Options{})
	lost := 0
	for i := range rows {
		hits, err := w.Top(Walk{Targets: v, Query: engine.SearchQuery{Vector: rows[i]}, K: 300, Width: 600})
		if err != nil {
			t.Fatal(err)
		}
		zero := !slices.ContainsFunc(rows[i], func(x float32) bool { return x != 0 })
		if !zero && !slices.ContainsFunc(hits, func(h engine.Hit) bool { return h.Target == int32(i) }) {
			lost++
		}
	}
	if lost > 3 {
		t.Errorf("%d of %d rows are not found by themselves", lost, len(rows))
	}
	// zeros are as good as any where their field says so
	s := Walk{Targets: v, Fields: make([]uint16, len(rows)), K: 150, Width: 400, Query: engine.SearchQuery{
		Vector: rows[2500], Offsets: []float32{0, 50}}}
	for i := 2; i < 600; i += 3 {
		s.Fields[i] = 1
	}
	hits, err := w.Top(s)
	if err != nil || len(hits) != 150 || hits[149].Score < 49 {
		t.Errorf("%v: %d hits, the last %v; want the zeros", err, len(hits), hits[len(hits)-1])
	}
}

// The web is the same whatever the threads, and another for another seed.
func TestThreadsDoNotMatter(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	v := vectorsOf(t, clustered(4000, 32, .2, 8))
	var files [][]byte
	for k, o := range []Options{{Threads: 1}, {Threads: 5}, {Seed: 2}} {
		path := filepath.Join(t.TempDir(), dataset.IndexFile)
		if err := build(t, v, o).Save(path, "sum"); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if files = append(files, content); k > 0 && bytes.Equal(content, files[0]) != (k == 1) {
			t.Errorf("%+v: the same file: %v", o, k != 1)
		}
	}
}

// Filters leave only what they allow, and a walk is as much wider as they are narrow.
func TestFilters(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	v := vectorsOf(t, clustered(8000, 48, 0, 10))
	w := build(t, v, Options{})
	s := questions(v, 60, false, 4)
	var among []int32
	for i := int32(0); i < 8000; i += 7 {
		among = append(among, i)
	}
	for k := range s.Queries {
		s.Queries[k].Among = among
		s.Queries[k].Skip = []int32{7, 14, 70, 700}
	}
	if share := compare(t, w, s, 100); share < .95 {
		t.Errorf("found %.3f of the best among a seventh", share)
	}
	lists, err := w.TopK(t.Context(), s, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, hits := range lists {
		for _, h := range hits {
			if h.Target%7 != 0 || slices.Contains(s.Queries[0].Skip, h.Target) {
				t.Errorf("target %d is not allowed", h.Target)
			}
		}
	}
	hits, err := w.Top(Walk{Targets: v, Query: engine.SearchQuery{Vector: s.Queries[0].Vector}, K: 5, Width: 200,
		Keep: func(row int32) bool { return row%2 == 1 }})
	if err != nil || len(hits) != 5 || slices.ContainsFunc(hits, func(h engine.Hit) bool { return h.Target%2 == 0 }) {
		t.Errorf("%v: %v; want five odd ones", err, hits)
	}
	if w.WidthFor(100, 8000) != 100 || w.WidthFor(100, 80) != MostWidth || w.WidthFor(100, 4000) != 200 ||
		w.WidthFor(100, 0) != MostWidth {
		t.Error("widths do not follow from what is allowed")
	}
}

// Scores by codes are near those by the rows, with all that scores are made of.
func TestNear(t *testing.T) {
	v := vectorsOf(t, clustered(500, 40, .3, 6))
	w := build(t, v, Options{})
	rows := make([]int32, 0, 3*mostDoors) // more than are looked at in one go, and some twice
	for k := range int32(3*mostDoors - 5) {
		rows = append(rows, k*7%500)
	}
	for _, terms := range []bool{false, true} {
		s := questions(v, 5, terms, 4)
		even := []float32{2, 2, 2}
		for k, q := range s.Queries {
			if !terms && k > 2 {
				q.Offsets = even
			}
			at := Walk{Targets: v, Fields: s.Fields, Values: s.Values, Query: q, K: 500}
			near, exact := make([]float32, len(rows)), map[int32]float32{}
			for _, h := range at.exactly(all(500)) {
				exact[h.Target] = h.Score
			}
			if err := w.Near(near, at, rows); err != nil {
				t.Fatal(err)
			}
			var off, size float64
			for p, z := range near {
				d := float64(z - exact[rows[p]])
				off, size = off+d*d, size+float64(exact[rows[p]])*float64(exact[rows[p]])
			}
			if off = math.Sqrt(off / size); off > .02 {
				t.Errorf("terms %v, query %d: off by %v of their size", terms, k, off)
			}
		}
	}
	bad := engine.SearchQuery{Vector: make([]float32, 40)}
	bad.Vector[3] = float32(math.NaN())
	if err := w.Near(make([]float32, 1), Walk{Targets: v, Query: bad}, []int32{1}); !errors.Is(err, engine.ErrShape) {
		t.Errorf("a query that is no number: %v", err)
	}
	if err := w.Near(make([]float32, 1), Walk{Targets: v}, []int32{1}); !errors.Is(err, engine.ErrShape) {
		t.Errorf("a query of no elements: %v", err)
	}
}

func all(n int32) (rows []int32) {
	for i := range n {
		rows = append(rows, i)
	}
	return rows
}

// Strange queries and rows are answered, or refused by name.
func TestStrange(t *testing.T) {
	rows := clustered(300, 16, 0, 11)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	rows[5][3], rows[6][2], rows[7][1] = 1e30, -1e30, 1e-30
	v := vectorsOf(t, rows)
	w := build(t, v, Options{Degree: 4, Width: 8})
	for _, x := range []float32{nan, inf, 0} {
		q := slices.Repeat([]float32{x}, 16)
		if hits, err := w.Top(Walk{Targets: v, Query: engine.SearchQuery{Vector: q}, K: 3, Width: 9}); err != nil ||
			len(hits) > 0 {
			t.Errorf("%v: %v, %v; want no hits", x, hits, err)
		}
	}
	good := engine.SearchQuery{Vector: rows[0]}
	if hits, err := w.Top(Walk{Targets: v, Query: good, K: 1000, Width: 1000}); err != nil || len(hits) < 290 {
		t.Errorf("%v: %d of 300 rows", err, len(hits))
	}
	if hits, err := w.Top(Walk{Targets: v, Query: good}); err != nil || len(hits) > 0 {
		t.Errorf("no hits were asked for: %v, %v", hits, err)
	}
	other := vectorsOf(t, rows[:299])
	for name, s := range map[string]Walk{
		"other vectors": {Targets: other, Query: good, K: 1},
		"short query":   {Targets: v, Query: engine.SearchQuery{Vector: rows[0][:4]}, K: 1},
		"no fields":     {Targets: v, Query: engine.SearchQuery{Vector: rows[0], Offsets: []float32{1, 2}}, K: 1},
		"no values":     {Targets: v, Query: engine.SearchQuery{Vector: rows[0], Slope: 1}, K: 1},
		"below 0":       {Targets: v, Query: good, K: -1},
		"too wide":      {Targets: v, Query: good, K: 1, Width: MostWidth + 1},
	} {
		if _, err := w.Top(s); !errors.Is(err, engine.ErrShape) {
			t.Errorf("%s: %v; want %v", name, err, engine.ErrShape)
		}
	}
	one := build(t, vectorsOf(t, rows[:1]), Options{})
	if hits, err := one.Top(Walk{Targets: vectorsOf(t, rows[:1]), Query: good, K: 3}); err != nil || len(hits) != 1 {
		t.Errorf("of one row: %v, %v", hits, err)
	}
}

// Rows that went are in no list, new ones are found as well as old ones, and what is known is not linked again.
func TestUpdate(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	rows := clustered(7000, 48, .1, 12)
	for i := 100; i < 140; i++ {
		rows[i] = rows[100] // twins, of which the first goes
	}
	old := build(t, vectorsOf(t, rows[:5000]), Options{})
	now := slices.Concat(rows[4000:], rows[101:3500]) // others first, a few hundred gone, two thousand new
	v := vectorsOf(t, now)
	next, err := Update(t.Context(), old, v, Options{Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := questions(v, 200, false, 5)
	updated, made := compare(t, next, s, 100), compare(t, build(t, v, Options{}), s, 100)
	if updated < made-.02 {
		t.Errorf("updated, a walk finds %.3f of the best; made anew %.3f", updated, made)
	}
	linked := 0
	if err := next.links.check(0, int32(len(now)), len(now)); err != nil {
		t.Fatal(err)
	}
	for i := range int32(len(now)) {
		linked += len(next.links.near(nil, i))
	}
	if linked < 4*len(now) {
		t.Errorf("%d links of %d rows", linked, len(now))
	}
	again, err := Update(t.Context(), old, v, Options{Threads: 1})
	if err != nil || !slices.Equal(again.links.bytes, next.links.bytes) {
		t.Errorf("%v; threads change the links", err)
	}
	same, err := Update(t.Context(), old, vectorsOf(t, rows[:5000]), Options{})
	if err != nil || !slices.Equal(same.links.bytes, old.links.bytes) {
		t.Errorf("%v; without a change the links change", err)
	}
	narrower, err := Update(t.Context(), old, vectorsOf(t, clustered(500, 12, 0, 1)), Options{})
	if err != nil || narrower.Rows() != 500 {
		t.Errorf("%v: other vectors are not made anew", err)
	}
}

// Where most rows went, those that are left are linked around them.
func TestUpdateWithoutMost(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	rows := clustered(8000, 48, 0, 17)
	old := build(t, vectorsOf(t, rows), Options{})
	var left [][]float32
	for i := 0; i < len(rows); i += 8 {
		left = append(left, rows[i])
	}
	v := vectorsOf(t, left)
	next, err := Update(t.Context(), old, v, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := questions(v, 200, false, 5)
	next.doors = next.doors[:20] // or most would be doors
	if share := compare(t, next, s, 60); share < .9 {
		t.Errorf("a walk finds %.3f of the best", share)
	}
}

// Who cancels gets no web, and progress is reported.
func TestCancelled(t *testing.T) {
	v := vectorsOf(t, clustered(3000, 16, 0, 13))
	ctx, cancel := context.WithCancel(t.Context())
	var events []progress.Event
	_, err := Build(ctx, v, Options{Progress: func(e progress.Event) {
		if events = append(events, e); e.Done > 1000 {
			cancel()
		}
	}})
	if last := events[len(events)-1]; !errors.Is(err, context.Canceled) || len(events) < 5 || last.Of != 3000 {
		t.Errorf("%v after %d events, %v", err, len(events), last)
	}
}

// Many may search at once.
func TestManyAtOnce(t *testing.T) {
	v := vectorsOf(t, clustered(2000, 16, 0, 14))
	w := build(t, v, Options{})
	s := questions(v, 8, true, 6)
	want, err := w.TopK(t.Context(), s, 50, 1)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := w.TopK(t.Context(), s, 50, 2); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v: other hits at the same time", err)
			}
		})
	}
	group.Wait()
}

// A saved web is the same when it is opened; one of other vectors, or damaged anywhere, is refused.
func TestSaved(t *testing.T) {
	racetest.Skip(t, "TestManyAtOnce and TestCancelled have the same goroutines")
	v := vectorsOf(t, clustered(700, 24, .1, 15))
	w := build(t, v, Options{})
	path := filepath.Join(t.TempDir(), dataset.IndexFile)
	if err := w.Save(path, "abc"); err != nil {
		t.Fatal(err)
	}
	back, err := Open(t.Context(), path, "abc", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := questions(v, 30, true, 7)
	want, err1 := w.TopK(t.Context(), s, 60, 1)
	got, err2 := back.TopK(t.Context(), s, 60, 1)
	if err := errors.Join(err1, err2); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v: an opened web finds %v, want %v", err, got[0], want[0])
	}
	s.Sketch = back.Sketch()
	exact, err1 := engine.CPU{}.TopK(t.Context(), s)
	s.Sketch = nil
	plain, err2 := engine.CPU{}.TopK(t.Context(), s)
	for k := range plain {
		for at := range plain[k] {
			if exact[k][at].Target != plain[k][at].Target {
				t.Fatalf("%v: by the sketch %v, want %v", errors.Join(err1, err2), exact[k], plain[k])
			}
		}
	}
	if _, err := Open(t.Context(), path, "def", 0); !errors.Is(err, ErrOther) {
		t.Errorf("of other vectors: %v", err)
	}
	if _, err := Open(t.Context(), path+"x", "abc", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := back.Close(); err != nil {
		t.Error(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		damage := slices.Clone(content)
		switch random.IntN(3) {
		case 0:
			damage = damage[:random.IntN(len(damage))]
		case 1:
			damage = append(damage, 0)
		default: // not in what pads the first page
			at := pageSize + random.IntN(len(damage)-pageSize)
			damage[at] ^= 1 << random.IntN(8)
		}
		if err := os.WriteFile(path, damage, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path, "abc", 0); !errors.Is(err, ErrFile) {
			t.Fatalf("damaged, it opens: %v", err)
		}
	}
	// a file that was made to lead astray has a good checksum
	for _, change := range []func(*Web){func(w *Web) { w.links.setNear(1, []int32{700}) },
		func(w *Web) { w.links.setTwin(1, 1<<23) },
		func(w *Web) { w.doors[3] = 1 << 20 }} {
		bad := build(t, v, Options{})
		change(bad)
		if err := bad.Save(path, "abc"); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path, "abc", 0); !errors.Is(err, ErrFile) {
			t.Errorf("a link that leads nowhere is followed: %v", err)
		}
	}
}

// No bytes take the reader down.
func FuzzRead(f *testing.F) {
	v := vectorsOf(f, clustered(20, 3, 0, 16))
	w, err := Build(context.Background(), v, Options{Degree: 2})
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), dataset.IndexFile)
	if err := w.Save(path, ""); err != nil {
		f.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, content []byte) {
		aligned := make([]byte, len(content)+64)
		at := 0
		for ; at < 64 && uintptrOf(&aligned[at])%64 != 0; at++ {
		}
		copy(aligned[at:], content)
		w, err := read(t.Context(), aligned[at:at+len(content)], "", 1)
		if err != nil {
			return
		}
		x := newWalker(w)
		w.codes.AskRow(&x.probe, 0)
		x.walk(5)
	})
}

// uintptrOf is where a byte is.
func uintptrOf(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }

// Clusters find nearly all of the best of many queries, whatever the threads, also after they were saved and after rows
// came and went; and what is asked for is what comes.
func TestMany(t *testing.T) {
	rows := clustered(4000, 24, 0, 21)
	v := vectorsOf(t, rows[:3600])
	w := build(t, v, Options{Threads: 2})
	if w.Clusters() != 240 {
		t.Errorf("%d clusters of 3600 rows", w.Clusters())
	}
	path := filepath.Join(t.TempDir(), "index.bin")
	if err := w.Save(path, "sum"); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(t.Context(), path, "sum", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for _, terms := range []bool{false, true} {
		s := questions(v, 300, terms, 6)
		s.Queries[3].Skip = []int32{0, 5, 7}
		s.Queries[4].Among = []int32{1, 2, 3, 50, 51, 52}
		some := manyFind(t, w, s, 36)
		if all := manyFind(t, w, s, w.Clusters()); some < .9 || all < .999 {
			t.Errorf("terms %v: %.3f of the best in 36 clusters, %.3f in all", terms, some, all)
		}
		want, err := w.Many(t.Context(), s, 24, 1)
		for _, other := range []*Web{w, opened, build(t, v, Options{Threads: 1})} {
			got, err2 := other.Many(t.Context(), s, 24, 3)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("terms %v: others with other threads, or after it was saved", terms)
			}
		}
	}
	next := vectorsOf(t, append(slices.Clone(rows[400:]), rows[500], rows[500]))
	updated, err := Update(t.Context(), w, next, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if share := manyFind(t, updated, questions(next, 300, false, 6), 24); share < .9 {
		t.Errorf("%.3f of the best after rows came and went", share)
	}
}

// Rows of a cluster come together, and clusters near each other do.
func TestTogether(t *testing.T) {
	v := vectorsOf(t, clustered(1200, 24, 0, 5))
	w := build(t, v, Options{Threads: 2})
	rows := rand.New(rand.NewPCG(3, 4)).Perm(1200)
	sources := make([]int32, 700)
	for k := range sources {
		sources[k] = int32(rows[k])
	}
	places := w.Together(sources)
	for k, at := range places[1:] {
		if last := places[k]; w.clusters.first[sources[at]] < w.clusters.first[sources[last]] {
			t.Fatalf("row %d of cluster %d comes after one of a later cluster", sources[at],
				w.clusters.first[sources[at]])
		}
	}
	slices.Sort(places)
	if !slices.Equal(places, allRows(len(sources))) {
		t.Errorf("%d places of %d rows are not each of them once", len(places), len(sources))
	}
}

// manyFind returns the share of the best that clusters find, and fails where a score is not that of a scan or a hit may
// not be one.
func manyFind(t *testing.T, w *Web, s engine.TargetSearch, clusters int) float64 {
	t.Helper()
	want, err1 := engine.CPU{}.TopK(t.Context(), s)
	got, err2 := w.Many(t.Context(), s, clusters, 2)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	found, all := 0, 0
	for k := range want {
		best := map[int32]float32{}
		for _, h := range want[k] {
			best[h.Target] = h.Score
		}
		all += len(want[k])
		for at, h := range got[k] {
			if z, ok := best[h.Target]; ok {
				found++
				if math.Abs(float64(z-h.Score)) > 1e-5 {
					t.Fatalf("query %d: row %d scores %v, want %v", k, h.Target, h.Score, z)
				}
			}
			if !allows(&s.Queries[k], h.Target) || at > 0 && (h.Score > got[k][at-1].Score ||
				h.Target == got[k][at-1].Target) {
				t.Fatalf("query %d: hits %v", k, got[k])
			}
		}
	}
	return float64(found) / float64(all)
}

// Of near rows those are linked that no nearer one leads to, whatever their lengths.
func TestChosenLinks(t *testing.T) {
	t.Parallel()
	const n, dim = 300, 16
	rng := rand.New(rand.NewPCG(4, 5))
	v, err := graph.NewVectors(n, dim)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, dim)
	for i := range int32(n) {
		length := math.Exp(rng.NormFloat64())
		for d := range row {
			row[d] = float32(length * rng.NormFloat64())
		}
		if err := v.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Build(t.Context(), v, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(w, Options{Threads: 1})
	product := func(i, j int32) float32 {
		var p kern.Probe
		one := make([]float32, 1)
		w.codes.AskRow(&p, i)
		w.codes.DotsAt(one, &p, []int32{j})
		return one[0]
	}
	for i := range int32(20) {
		room := b.rooms[0]
		room.kept = room.kept[:0]
		for j := int32(100); j < 200; j++ {
			room.kept = append(room.kept, j)
		}
		b.sortNear(room, i)
		var want []int32
		for _, s := range room.near {
			far := w.square(i) + w.square(s.row) - 2*s.score
			led := slices.ContainsFunc(want, func(j int32) bool {
				return apartness*(w.square(s.row)+w.square(j)-2*product(s.row, j)) <= far
			})
			if !led && len(want) < 12 {
				want = append(want, s.row)
			}
		}
		if b.choose(room, i, 12); !slices.Equal(room.kept, want) {
			t.Errorf("row %d is linked to %v, want %v", i, room.kept, want)
		}
	}
}
