package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"unseen/graph"
)

// shop is people who click on items, with times, and a log of what they were shown.
func shop(t *testing.T, people, items, clicks int) Content {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(people)))
	var b graph.Builder
	for k := range people + items {
		n := graph.Node{ID: "item " + string(rune('a'+k%26)) + time.Duration(k).String(), Role: graph.TargetOnly}
		if k%2 == 0 && k/2 < people {
			n.ID, n.Role = "person "+time.Duration(k).String(), graph.SourceOnly
		}
		if k == 5 {
			n.Role = graph.SourceAndTarget
		}
		_, err := b.AddNode(n)
		must(t, err)
	}
	e := &Exposures{Surfaces: []string{"", "home", "mail"}}
	for k := range clicks {
		i, j := int32(2*r.IntN(people)), int32(2*r.IntN(items)+1)
		seconds := int64(k)
		if k%7 == 0 {
			seconds = graph.NoTime
		}
		if int(i) >= people+items || int(j) >= people+items {
			continue
		}
		must(t, b.AddLinkAt(i, j, seconds))
		e.Source, e.Target = append(e.Source, i), append(e.Target, j)
		e.Exposed, e.Linked = append(e.Exposed, true), append(e.Linked, k%3 == 0)
		e.Count, e.Position = append(e.Count, int32(k%4+1)), append(e.Position, int32(k%10))
		e.Surface = append(e.Surface, uint16(k%3))
		e.Time = append(e.Time, seconds)
	}
	g, _, err := b.Build()
	must(t, err)
	return Content{Graph: g, Exposures: e}
}

// Roles, times of links and what is known of showings are stored and come back, also where there is more than one
// batch, and by both ways to read nodes.
func TestShopRoundTrip(t *testing.T) {
	t.Parallel()
	for _, clicks := range []int{0, 30, rowsPerBatch + 500} {
		c := shop(t, 40, 40, clicks)
		dir := filepath.Join(t.TempDir(), "shop")
		m, err := Write(background, dir, c, WriteOptions{})
		must(t, err)
		if m.Sources != 41 || m.Targets != 40 || m.LinkTimes != (clicks > 0) {
			t.Errorf("%d sources, %d targets, link times %t", m.Sources, m.Targets, m.LinkTimes)
		}
		for _, o := range []OpenOptions{{}, {Tolerant: true}} {
			d, err := Open(background, dir, o)
			must(t, err)
			if !sameContent(t, d, c) {
				t.Fatal("the dataset changed")
			}
			g := d.Graph()
			for i := range int32(g.Len()) {
				if g.Role(i) != c.Graph.Role(i) || !slices.Equal(g.OutTimes(i), c.Graph.OutTimes(i)) {
					t.Fatalf("node %d is %v with links of %v", i, g.Role(i), g.OutTimes(i))
				}
			}
			e, err := d.Exposures(background)
			must(t, err)
			if w := c.Exposures; !slices.Equal(e.Count, w.Count) || !slices.Equal(e.Position, w.Position) ||
				!slices.Equal(e.Time, w.Time) || !slices.Equal(surfaces(e), surfaces(w)) {
				t.Fatalf("%d clicks: showings changed", clicks)
			}
			must(t, d.Close())
		}
	}
}

// Roles and times stay when a dataset gets vectors, and when a folder of another program is sealed.
func TestShopGetsVectors(t *testing.T) {
	t.Parallel()
	c := shop(t, 20, 20, 100)
	c.Log = "complete"
	dir := filepath.Join(t.TempDir(), "shop")
	_, err := Write(background, dir, c, WriteOptions{})
	must(t, err)
	for _, sealed := range []bool{false, true} {
		if sealed {
			must(t, os.Remove(filepath.Join(dir, ManifestFile)))
		}
		d, err := Open(background, dir, OpenOptions{})
		must(t, err)
		if sealed {
			_, err = d.Seal(background, Provenance{})
		} else {
			v := randomVectors(t, rand.New(rand.NewPCG(1, 1)), d.Graph().Len())
			_, err = d.WriteVectors(background, v, nil, WriteOptions{})
		}
		must(t, err)
		must(t, d.Close())
		again, err := Open(background, dir, OpenOptions{Verify: true})
		must(t, err)
		m, g := again.Manifest(), again.Graph()
		if m.Sources != 21 || m.Targets != 20 || !m.LinkTimes || m.Exposures != c.Exposures.Len() || !g.TwoSided() ||
			!g.HasLinkTimes() || !sealed && m.Log != c.Log {
			t.Errorf("sealed %t: %+v", sealed, m)
		}
		must(t, again.Close())
	}
}

// Exposures can be written part by part, and are the same.
func TestExposureParts(t *testing.T) {
	t.Parallel()
	c := shop(t, 40, 40, rowsPerBatch+500)
	one, many := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "many")
	o := WriteOptions{Provenance: Provenance{Made: someday}}
	_, err := Write(background, one, c, o)
	must(t, err)
	e := c.Exposures
	c.Exposures, c.ExposureParts = nil, func(yield func(*Exposures, error) bool) {
		for from := 0; from < e.Len(); from += 100 {
			to := min(from+100, e.Len())
			if !yield(&Exposures{Source: e.Source[from:to], Target: e.Target[from:to], Exposed: e.Exposed[from:to],
				Linked: e.Linked[from:to], Count: e.Count[from:to], Position: e.Position[from:to],
				Surface: e.Surface[from:to], Surfaces: e.Surfaces, Time: e.Time[from:to]}, nil) {
				return
			}
		}
	}
	m, err := Write(background, many, c, o)
	must(t, err)
	if m.Exposures != e.Len() {
		t.Errorf("%d exposures of %d", m.Exposures, e.Len())
	}
	c.Exposures = e
	d, err := Open(background, many, OpenOptions{Verify: true})
	must(t, err)
	defer d.Close()
	if !sameContent(t, d, c) {
		t.Error("parts hold something else")
	}
}

// surfaces are where pairs were shown, by name.
func surfaces(e *Exposures) (names []string) {
	for _, s := range e.Surface {
		names = append(names, e.Surfaces[s])
	}
	return names
}

// A folder of another program may have the columns too; where they hold something else they are not used.
func TestForeignRoles(t *testing.T) {
	t.Parallel()
	type node struct {
		ID   string `parquet:"id"`
		Role string `parquet:"role,optional"`
	}
	type link struct {
		Source string    `parquet:"source"`
		Target string    `parquet:"target"`
		Time   time.Time `parquet:"time,timestamp(microsecond)"`
	}
	type untimed struct {
		Source string  `parquet:"source"`
		Target string  `parquet:"target"`
		Time   float64 `parquet:"time"`
	}
	dir := t.TempDir()
	put(t, dir, NodesFile, []node{{"anna", "source"}, {"book", "target"}, {"shop", ""}})
	put(t, dir, LinksFile, []link{{"anna", "book", someday}, {"shop", "book", someday}})
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer d.Close()
	g := d.Graph()
	if !slices.Equal(g.Sources(), []int32{0, 2}) || !slices.Equal(g.Targets(), []int32{1, 2}) ||
		!slices.Equal(g.OutTimes(2), []int64{someday.Unix()}) || d.Manifest().Sources != 2 || !d.Manifest().LinkTimes {
		t.Errorf("%v to %v, %v, %+v", g.Sources(), g.Targets(), g.OutTimes(2), d.Manifest())
	}

	put(t, dir, NodesFile, []node{{"anna", "admin"}, {"book", "target"}, {"shop", ""}})
	put(t, dir, LinksFile, []untimed{{"anna", "book", 3}})
	other, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer other.Close()
	if other.Graph().TwoSided() || other.Graph().HasLinkTimes() {
		t.Error("columns of another meaning were used")
	}

	put(t, dir, NodesFile, []node{{"anna", "source"}, {"book", "target"}})
	put(t, dir, LinksFile, []link{{"anna", "book", someday}, {"book", "anna", someday}})
	_, err = Open(background, dir, OpenOptions{})
	wantError(t, err, graph.ErrRole, LinksFile, "row 1", "target only", "swap")
	lax, err := Open(background, dir, OpenOptions{Tolerant: true})
	must(t, err)
	defer lax.Close()
	if lax.Graph().LinkCount() != 1 || lax.faults.role.count != 1 {
		t.Errorf("%d links, %d of wrong ends", lax.Graph().LinkCount(), lax.faults.role.count)
	}
}

// What has no roles, times or counts is written as it was before there were any.
func TestBytesStay(t *testing.T) {
	t.Parallel()
	c := randomContent(t, 5)
	dir := filepath.Join(t.TempDir(), "papers")
	_, err := Write(background, dir, c, WriteOptions{Provenance: Provenance{Made: someday}})
	must(t, err)
	for name, want := range map[string]string{
		ManifestFile:  "ca1ab65ac1b8af11",
		NodesFile:     "827deddd59f7290b",
		LinksFile:     "8b63c2c29a207ca8",
		ExposuresFile: "21db0f2aaf60390e",
	} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:8]) != want {
			t.Errorf("%s has the SHA-256 %x…, not %s…", name, sum[:8], want)
		}
	}
}
