package graph

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"unseen/internal/racetest"
)

// TestRealNetworks orders, splits and samples two real networks: papers with full dates, and packages
// with years, hubs and cycles. UNSEEN_DATA says where the networks are.
func TestRealNetworks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for _, c := range []struct {
		name         string
		nodes, links int
		cuts         [2]time.Time
	}{
		{"elife", 20_146, 26_826, [2]time.Time{yearStart(2020), yearStart(2021)}},
		{"debian_packages", 95_247, 399_247, [2]time.Time{yearStart(2023), yearStart(2025)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.nodes > 50_000 {
				racetest.Skip(t, "elife stands for it there")
			}
			g, report := readNetwork(t, c.name)
			t.Logf("%+v", report)
			if g.Len() != c.nodes || g.LinkCount() != c.links || report.Untimed > 0 || report.Fieldless > 0 {
				t.Errorf("%d nodes and %d links, want %d and %d", g.Len(), g.LinkCount(), c.nodes, c.links)
			}
			o := g.Order()
			t.Logf("%d links are broken, %d of them against time", len(o.Broken), o.AgainstTime)
			for k := range c.nodes - 1 {
				a, _ := g.Time(o.Sequence[k])
				if b, _ := g.Time(o.Sequence[k+1]); b.Before(a) {
					t.Fatalf("%q of %v comes before %q of %v", g.ID(o.Sequence[k]), a, g.ID(o.Sequence[k+1]), b)
				}
			}
			byShare, err := o.SplitByShare(DefaultShares)
			must(t, err)
			byDate, err := o.SplitByDate(c.cuts[0], c.cuts[1])
			must(t, err)
			for _, s := range []*Split{byShare, byDate} {
				t.Logf("%+v", s.Report)
				checkRealSplit(t, g, s)
			}
			u := byDate.Universe(Validation)
			for scheme := range schemes {
				for _, u.Before = range []*Order{nil, o} {
					p, report, err := Sample(g, u, SampleOptions{Scheme: scheme, Src: rand.NewPCG(7, 7)})
					must(t, err)
					must(t, p.Validate(g))
					checkDistinct(t, p)
					sum := 0.
					for k, w := range p.Weight {
						sum += w
						if byDate.Subset(p.Source[k]) != Validation || byDate.Subset(p.Target[k]) == Test ||
							u.Before != nil && !o.Precedes(p.Target[k], p.Source[k]) {
							t.Fatalf("pair %d lies outside the universe", k)
						}
					}
					t.Logf("%v: %+v; weights sum to %.4f of the universe", scheme, report, sum/float64(p.Universe))
					if sum < .9*float64(p.Universe) || sum > 1.1*float64(p.Universe) {
						t.Errorf("%v: weights sum to %v, the universe has %d pairs", scheme, sum, p.Universe)
					}
				}
			}
			hub := int32(0)
			for i := range int32(g.Len()) {
				if len(g.In(i)) > len(g.In(hub)) {
					hub = i
				}
			}
			sub, nodes, err := g.Subgraph(hub, 410, BothWays)
			must(t, err)
			if root, known := sub.Index(g.ID(hub)); sub.Len() != 410 || !known || nodes[root] != hub {
				t.Errorf("the subgraph around %q has %d nodes", g.ID(hub), sub.Len())
			}
			_, err = AllPairs(sub, Universe{}, 0)
			must(t, err)
		})
	}
}

// TestRealCommunities finds fields in the links of real networks, and says how they compare with the
// fields that the networks come with.
func TestRealCommunities(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for _, c := range []struct {
		name       string
		modularity float64 // what networkx 3 reaches, less .01, or a little below what was reached here
		split      bool
	}{
		{"cora_ml", .76, false},
		{"facebook_pages", .80, false},
		{"elife", .80, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _ := readNetwork(t, c.name)
			s := Communities{MinSize: 10, Seed: 1}
			if c.split {
				var err error
				s.Split, err = g.Order().SplitByShare(DefaultShares)
				must(t, err)
			}
			found, r, err := g.FieldsByLinks(t.Context(), s)
			must(t, err)
			must(t, checkFound(g, found, r, "community"))
			t.Logf("%s: %d rounds, modularity %.4f, %d fields of at least %d nodes, %d communities merged, %d "+
				"nodes without a field, adjusted Rand index with the given fields %.2f",
				r.Found, r.Rounds, r.Modularity, len(r.Sizes)-1, r.Sizes[len(r.Sizes)-1], r.Merged,
				r.Sizes[UnknownField], adjustedRand(fieldsOf(g), fieldsOf(found)))
			if r.Modularity < c.modularity {
				t.Errorf("modularity is %v, want %v", r.Modularity, c.modularity)
			}
			for i := range int32(g.Len()) {
				if c.split && s.Split.Subset(i) != Train && found.Field(i) != UnknownField {
					t.Fatalf("%q of %v has a field", g.ID(i), s.Split.Subset(i))
				}
			}
		})
	}
}

// checkRealSplit is checkSplit without its maps.
func checkRealSplit(t *testing.T, g *Graph, s *Split) {
	t.Helper()
	links := s.Report.Dropped
	for p := Train; p <= Test; p++ {
		for i, j := range s.Links(p) {
			links++
			if s.Subset(i) != p || s.Subset(j) > p {
				t.Fatalf("link %q>%q does not belong to %v", g.ID(i), g.ID(j), p)
			}
		}
		_, linked, err := s.Universe(p).Count(g)
		if must(t, err); int(linked) != s.Report.Links[p] {
			t.Errorf("the universe of %v has %d links, not %d", p, linked, s.Report.Links[p])
		}
	}
	if links != g.LinkCount() {
		t.Errorf("%d links in all subsets and dropped, of %d", links, g.LinkCount())
	}
}

func yearStart(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }

// readNetwork reads nodes.csv.gz (columns id, category and, where known, year, date, title) and edges.csv.gz (source,
// target) of a network, or skips the test when they are absent.
func readNetwork(t *testing.T, name string) (*Graph, BuildReport) {
	t.Helper()
	root := os.Getenv("UNSEEN_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	var b Builder
	eachRow(t, filepath.Join(root, name, "nodes.csv.gz"), func(column func(name string) string) {
		n := Node{ID: column("id"), Field: column("category"), Title: column("title")}
		var err error
		if date, year := column("date"), column("year"); date != "" {
			n.Time, err = time.Parse(time.DateOnly, date)
		} else if year != "" {
			n.Time, err = time.Parse("2006", year)
		}
		must(t, err)
		_, err = b.AddNode(n)
		must(t, err)
	})
	eachRow(t, filepath.Join(root, name, "edges.csv.gz"), func(column func(name string) string) {
		must(t, b.AddLink(column("source"), column("target")))
	})
	g, report, err := b.Build()
	must(t, err)
	return g, report
}

// eachRow calls f for every row of a compressed CSV file, with a function that returns a column's value,
// empty where there is no such column.
func eachRow(t *testing.T, path string, f func(column func(name string) string)) {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no file %s: set UNSEEN_DATA to the folder of networks", path)
	}
	must(t, err)
	defer file.Close()
	z, err := gzip.NewReader(file)
	must(t, err)
	rows := csv.NewReader(z)
	rows.ReuseRecord = true
	header, err := rows.Read()
	must(t, err)
	header = slices.Clone(header)
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return
		}
		must(t, err)
		f(func(name string) string {
			if k := slices.Index(header, name); k >= 0 {
				return row[k]
			}
			return ""
		})
	}
}
