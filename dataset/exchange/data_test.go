package exchange

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"unseen/internal/racetest"
)

// realData is the folder of the real networks: UNSEEN_DATA, or ../shared/data beside the project.
func realData(t testing.TB) string {
	folder := os.Getenv("UNSEEN_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no real networks at %s; set UNSEEN_DATA to their folder", folder)
	}
	return folder
}

// TestRealNetworks imports every real network and compares it with what its stats.json counts.
func TestRealNetworks(t *testing.T) {
	t.Parallel()
	data := realData(t)
	for _, name := range []string{"elife", "elife_large", "arxiv9196", "debian_packages", "wikispeedia", "cora_ml",
		"facebook_pages"} {
		t.Run(name, func(t *testing.T) {
			if (racetest.Enabled || testing.Short()) && name != "cora_ml" {
				t.Skip("slow; cora_ml stands for it here, and ./check runs it once without -short and race detector")
			}
			raw, err := os.ReadFile(filepath.Join(data, name, "stats.json"))
			must(t, err)
			var stats struct {
				Nodes, Edges, Ncat, Isolated int
			}
			must(t, json.Unmarshal(raw, &stats))
			o := Options{Paths: []string{filepath.Join(data, name)}}
			o.Undirected = name == "facebook_pages"
			r, err := Import(background, "csv", filepath.Join(t.TempDir(), "d"), o)
			must(t, err)
			links := stats.Edges
			if o.Undirected {
				links *= 2
			}
			fields := stats.Ncat
			if name == "wikispeedia" {
				fields-- // one is called Unknown
			}
			if r.Nodes != stats.Nodes || r.Links+r.SelfLinks+r.Repeated != links || r.Fields != fields {
				t.Errorf("%d nodes, %d links (and %d, %d), %d fields; stats.json has %+v", r.Nodes, r.Links,
					r.SelfLinks, r.Repeated, r.Fields, stats)
			}
			t.Logf("%+v", *r)
		})
	}
}

// TestRealClicks takes what visitors of pages chose as links, and what they saw as exposures.
func TestRealClicks(t *testing.T) {
	t.Parallel()
	if racetest.Enabled {
		t.Skip("slow under the race detector; ./check runs it once without")
	}
	folder := filepath.Join(realData(t), "wikispeedia")
	dir := filepath.Join(t.TempDir(), "d")
	o := Options{Paths: []string{folder}, Flags: map[string]string{"clicks": filepath.Join(folder,
		"clicks_unfinished.csv.gz")}}
	if _, err := Import(background, "csv", dir, o); err == nil {
		t.Error("the log has clicks on pages that are no nodes, and a strict import takes them")
	}
	o.Lenient = true
	r, err := Import(background, "csv", dir, o)
	must(t, err)
	// Counted in Python: 31,493 pairs were clicked, 74 of them on pages that are no nodes, and 31,413 are
	// links of the page; 110,979 links are of pages with a click.
	if r.Rejected != 74 || r.Links != 31493-74 || r.Exposures != 110979+31493-31413-74 {
		t.Errorf("%d rejected, %d links, %d exposures", r.Rejected, r.Links, r.Exposures)
	}
}

// TestRealVotes takes who agreed with what as links, and who voted on it as shown.
func TestRealVotes(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(realData(t), "polis", "brexit-consensus")
	dir := filepath.Join(t.TempDir(), "d")
	r, err := Import(background, "interactions", dir, Options{Flags: map[string]string{
		"clicks": filepath.Join(folder, "votes.csv.gz"), "items": filepath.Join(folder, "statements.csv.gz")}})
	must(t, err)
	g := open(t, dir).Graph()
	if len(g.Sources()) != 204 || len(g.Targets()) != 50 || r.Exposures != 5253 || r.Links != 2658 ||
		!g.HasLinkTimes() {
		t.Errorf("%d people, %d statements, %d votes, %d of them to agree", len(g.Sources()), len(g.Targets()),
			r.Exposures, r.Links)
	}
	for _, j := range g.Targets() {
		if when, known := g.Time(j); !known || when.Year() != 2017 && when.Year() != 2018 {
			t.Fatalf("statement %s is of %v", g.ID(j), when)
		}
	}
}
