package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"unseen/internal/kern"
)

// Every comparison runs at a small size, and says so when its peer is missing.
func TestComparisons(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := &bench{reps: 1, scale: 1e-3, peers: &peers{why: "not in this test"}}
	if err := b.compare(&out, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range comparisons {
		found := false
		for line := range strings.Lines(out.String()) {
			fields := strings.Fields(line)
			if len(fields) == 0 || fields[0] != c.name {
				continue
			}
			found = true
			var ours float64
			if _, err := fmt.Sscan(fields[1], &ours); err != nil || !(ours > 0) {
				t.Errorf("%s: ours is %q", c.name, fields[1])
			}
			if ownPeer := slices.Contains([]string{"topk-half-1", "topk-half-64", "adam-threads", "full-batch",
				"bayes", "bayes-intervals"}, c.name); !ownPeer &&
				!strings.Contains(line, "skipped: not in this test") {
				t.Errorf("%s does not say that its peer is missing: %s", c.name, line)
			}
		}
		if !found {
			t.Errorf("%s is not in the output:\n%s", c.name, out.String())
		}
	}
}

// Ids may swap places only where scores are equal within rounding.
func TestSameHits(t *testing.T) {
	t.Parallel()
	ours := []kern.RowScore{{Row: 4, Score: 9}, {Row: 7, Score: 8.00001}, {Row: 1, Score: 8}, {Row: 3, Score: 2}}
	for _, c := range []struct {
		theirs []int32
		same   bool
	}{
		{[]int32{4, 7, 1, 3}, true}, {[]int32{4, 1, 7, 3}, true}, {[]int32{4, 7, 1, 9}, true},
		{[]int32{7, 4, 1, 3}, false}, {[]int32{4, 9, 1, 3}, false}, {[]int32{4, 7, 1}, false},
	} {
		if err := sameHits(ours, c.theirs); (err == nil) != c.same {
			t.Errorf("%v: %v", c.theirs, err)
		}
	}
}

func TestUnknownComparison(t *testing.T) {
	t.Parallel()
	b := &bench{reps: 1, scale: 1e-3, peers: &peers{}}
	err := b.compare(&strings.Builder{}, []string{"nonsense"})
	if err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "-list") {
		t.Errorf("got %v", err)
	}
}

// The comparisons of graphs run at a small size: ours finds what it should, and the missing peer is named.
func TestGraphComparisons(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range graphs {
		names = append(names, c.name)
	}
	var out strings.Builder
	b := &bench{reps: 1, scale: 1e-2, peers: &peers{why: "not in this test"}}
	if err := b.compare(&out, names); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(out.String(), name) {
			t.Errorf("%s is not in the output:\n%s", name, out.String())
		}
	}
	if got := strings.Count(out.String(), "skipped: not in this test"); got != len(names) {
		t.Errorf("%d of %d say that their peer is missing:\n%s", got, len(names), out.String())
	}
	g := b.made
	all := idsOf(g.exact)
	if share := g.share(all); share != 1 {
		t.Errorf("the best have %v of the best", share)
	}
	for q := range all {
		all[q] = all[q][:len(all[q])/2]
	}
	if share := g.share(all); share != .5 {
		t.Errorf("half of the best are %v", share)
	}
}

// Rows that are grown are as long as those they are grown from and differ from them, their file is gone, and their
// index finds what it should.
func TestGrownComparisons(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range grown {
		names = append(names, c.name)
	}
	if asksPeers(names) || !asksPeers(append([]string{graphs[0].name}, names...)) || !asksPeers(nil) {
		t.Error("peers are asked where none is compared with, or not where one is")
	}
	var out strings.Builder
	dir := t.TempDir()
	b := &bench{reps: 1, scale: .05, rows: 3000, dir: dir, notes: io.Discard, peers: &peers{why: "not in this test"}}
	if err := b.compare(&out, names); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "reached") + strings.Count(out.String(), "short"); got != len(names) {
		t.Errorf("%d of %d lines have a verdict:\n%s", got, len(names), out.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left: %v", left, err)
	}
	m, free, err := b.searched(20_000, 256)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	from, row := make([]float32, m.Dim()), make([]float32, m.Dim())
	for _, i := range []int{0, 1, 2999} {
		m.Load(from, int(mix(uint64(3*i))%uint64(m.Rows())))
		b.large.rows.Load(row, int32(i))
		var was, is, along float64
		for d := range row {
			was, is = was+float64(from[d]*from[d]), is+float64(row[d]*row[d])
			along += float64(from[d] * row[d])
		}
		if math.Abs(is/was-1) > 1e-4 || !(along < .99*was && along > .5*was) {
			t.Errorf("row %d has a square of %v, grown from one of %v; their product is %v", i, is, was, along)
		}
	}
}
