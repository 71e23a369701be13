package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/graph"
	"unseen/internal/racetest"
)

// smallClone is 1/1000 of the paper's.
var smallClone = paperClone.scaled(1e-3)

// The vectors are the same bytes whatever the threads, and those of another seed are others.
func TestCloneIsDeterministic(t *testing.T) {
	t.Parallel()
	var files [][]byte
	for _, threads := range []int{1, 2, 5} {
		path, made, err := smallClone.vectors(context.Background(), t.TempDir(), threads, io.Discard)
		if err != nil || !made {
			t.Fatal(made, err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, content)
	}
	if int64(len(files[0])) != smallClone.size() || !bytes.Equal(files[0], files[1]) ||
		!bytes.Equal(files[0], files[2]) {
		t.Errorf("%d, %d and %d bytes, not %d equal ones", len(files[0]), len(files[1]), len(files[2]),
			smallClone.size())
	}
	other := smallClone
	other.seed++
	a, b := make([]float32, dim), make([]float32, dim)
	smallClone.row(a, 7, smallClone.centres())
	other.row(b, 7, other.centres())
	if slices.Equal(a, b) {
		t.Error("another seed gives the same vectors")
	}
}

// A row has a length of about 1 in either precision, and float16 rows are the float32 ones rounded.
func TestCloneRows(t *testing.T) {
	t.Parallel()
	half := smallClone
	half.half = true
	var opened [2]*graph.Vectors
	for i, c := range []clone{smallClone, half} {
		path, _, err := c.vectors(context.Background(), t.TempDir(), 2, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if opened[i], err = c.open(path); err != nil {
			t.Fatal(err)
		}
		defer opened[i].Close()
	}
	a, b := make([]float32, dim), make([]float32, dim)
	for i := range int32(smallClone.nodes) {
		opened[0].Load(a, i)
		opened[1].Load(b, i)
		var square float64
		for k := range a {
			square += float64(a[k]) * float64(a[k])
			if d := math.Abs(float64(a[k] - b[k])); d > math.Max(math.Abs(float64(a[k]))/2048, 1e-7) {
				t.Fatalf("node %d: %v in float32, %v in float16", i, a[k], b[k])
			}
		}
		if square < .7 || square > 1.3 {
			t.Fatalf("node %d has squared length %v", i, square)
		}
	}
}

// A complete file is reused; one that is truncated, of another clone or damaged is generated again.
func TestCloneFileIsReused(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	make := func() (string, bool) {
		t.Helper()
		path, made, err := smallClone.vectors(ctx, dir, 2, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return path, made
	}
	path, _ := make()
	if _, made := make(); made {
		t.Error("a whole file was made again")
	}
	for name, damage := range map[string]func() error{
		"truncated": func() error { return os.Truncate(path, smallClone.size()-1) },
		"header":    func() error { return overwrite(path, 100, "x") },
		"first row": func() error { return overwrite(path, headerSize+1, "xyz") },
		"last row":  func() error { return overwrite(path, smallClone.size()-3, "xyz") },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, made := make(); !made {
			t.Errorf("%s: the damaged file was used", name)
		}
		if err := smallClone.check(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("files left: %v %v", left, err)
	}
}

func overwrite(path string, at int64, with string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(with), at)
	return errors.Join(err, file.Close())
}

// An interrupted run leaves no partial file.
func TestCloneInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	if _, _, err := smallClone.vectors(ctx, dir, 2, io.Discard); err == nil || !strings.Contains(err.Error(), "-dir") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

// The graph has the requested counts, links go to earlier papers only, and a few papers have most of the citations.
func TestCloneGraph(t *testing.T) {
	t.Parallel()
	c := paperClone.scaled(1e-2)
	g, err := c.graph()
	if err != nil {
		t.Fatal(err)
	}
	degrees, same := make([]int, c.nodes), 0
	sizes := make([]int, g.FieldCount())
	for i := range int32(c.nodes) {
		sizes[g.Fields()[i]]++
		for _, j := range g.Out(i) {
			if j >= i {
				t.Fatalf("%d cites %d", i, j)
			}
			degrees[j]++
			if g.Fields()[i] == g.Fields()[j] {
				same++
			}
		}
	}
	if g.Len() != c.nodes || g.LinkCount() != c.links {
		t.Errorf("%d nodes and %d links, not %d and %d", g.Len(), g.LinkCount(), c.nodes, c.links)
	}
	slices.Sort(degrees)
	slices.Reverse(degrees)
	top := 0
	for _, d := range degrees[:c.nodes/100] {
		top += d
	}
	if share := float64(top) / float64(c.links); share < .1 || share > .9 {
		t.Errorf("the most cited hundredth has %.2f of the citations", share)
	}
	if share := float64(same) / float64(c.links); share < .3 || share > .95 {
		t.Errorf("%.2f of the links stay within a field", share)
	}
	sizes = sizes[1:] // without the unknown field
	if len(sizes) != 19 || slices.Min(sizes) == 0 || slices.Max(sizes) < 5*slices.Min(sizes) {
		t.Errorf("fields of sizes %v", sizes)
	}
	t.Logf("top hundredth %.2f, most cited %d, same field %.2f, fields %v", float64(top)/float64(c.links), degrees[0],
		float64(same)/float64(c.links), sizes)
}

// The comparisons of scale run at a small size, two of them with float16 vectors too. bayes has 768 dimensions at any
// size, which takes too long under the race detector.
func TestScales(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for _, half := range []bool{false, true} {
		names := []string{"clone-rw", "clone-lbfgs"}
		if !half {
			names = nil
			for _, c := range scales {
				if !racetest.Enabled || c.name != "clone-bayes" {
					names = append(names, c.name)
				}
			}
		}
		var out strings.Builder
		b := &bench{reps: 1, scale: 3e-4, peers: &peers{}, dir: t.TempDir(), half: half, notes: io.Discard}
		if err := b.compare(&out, names); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			var ours float64
			_, line, found := strings.Cut(out.String(), "\n"+name+" ")
			if _, err := fmt.Sscan(line, &ours); !found || err != nil || !(ours > 0) {
				t.Errorf("%s is not in the output:\n%s", name, out.String())
			}
		}
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	m, err := parseStatus("Name:\tx\nVmRSS:\t     99 kB\nRssAnon:\t     20 kB\nRssFile:\t     64 " +
		"kB\nRssShmem:\t      3 kB\n")
	if want := (memory{own: 23 << 10, mapped: 64 << 10}); err != nil || m != want {
		t.Errorf("%+v, not %+v: %v", m, want, err)
	}
	for _, status := range []string{"", "RssAnon:\t20 kB\n", "RssAnon:\tmuch\nRssFile:\t1 kB\nRssShmem:\t1 kB\n"} {
		if m, err := parseStatus(status); err == nil {
			t.Errorf("%q gives %+v", status, m)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	if got := parseStat("7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 1234 66 0 0 20"); got != 13*time.Second {
		t.Errorf("%v, not 13s", got)
	}
	for _, stat := range []string{"", "7 (x) S 1 2", "7 (x) S 1 2 3 4 5 6 7 8 9 10 a b 0"} {
		if got := parseStat(stat); got != 0 {
			t.Errorf("%q gives %v", stat, got)
		}
	}
}

// Memory that is allocated and written is counted, even if it is released before the watch ends; a mapped file is
// counted apart. It does not run beside other tests, whose memory it would count.
func TestWatchMemory(t *testing.T) {
	if _, err := residentMemory(); err != nil {
		t.Skipf("this system does not tell what is resident: %v", err)
	}
	before, _ := residentMemory()
	watch := watchMemory()
	v, err := graph.NewVectors(32<<20/(4*dim), dim)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, dim)
	row[0] = 1
	for i := range int32(v.Len()) {
		if err := v.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	for full := watch.samples.Load() + 2; watch.samples.Load() < full; { // one that began after it was full
		time.Sleep(time.Millisecond)
	}
	v.Close()
	peak, err := watch.stop()
	if grown := peak.own - before.own; err != nil || grown < 20<<20 || grown > 100<<20 {
		t.Errorf("32 MB were filled, %d bytes seen: %v", grown, err)
	}
	if peak.mapped == 0 {
		t.Error("the program itself is not among the mapped files")
	}
}
