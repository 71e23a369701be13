package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/index"
	"unseen/internal/racetest"
	"unseen/network"
	"unseen/recommend"
)

// withIndex puts an index beside the vectors of a service's dataset.
func withIndex(t *testing.T, o *Options) {
	t.Helper()
	n, err := network.Open(t.Context(), filepath.Join(o.Folder, "dataset"), dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	web, err := index.Build(t.Context(), n.Graph().Vectors(), index.Options{})
	if err == nil {
		err = n.SaveIndex(web)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The service measures the index of its dataset, says what it finds, and does without one that is damaged or unwanted.
func TestIndexOfTheDataset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Options)
		says   string
		found  bool
	}{
		{"an index", func(*Options) {}, "made by the index", true},
		{"exactly", func(o *Options) { o.Exact = true }, "", false},
		{"too few are found", func(o *Options) { o.Recall = 1.5 }, "finds too few of the best", false},
		{"damaged", func(o *Options) {
			path := filepath.Join(o.Folder, "dataset", dataset.IndexFile)
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}, "cannot be used", false},
	} {
		var log bytes.Buffer
		s := open(t, func(o *Options) {
			withIndex(t, o)
			c.change(o)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		<-s.measured
		if found := s.live.Load().current.Recall().Used; found != c.found || !strings.Contains(log.String(), c.says) {
			t.Errorf("%s: used %v, want %v; the log says %s", c.name, found, c.found, log.String())
		}
		client := client{t: t, h: s.Handler()}
		if a := client.list("node=p1&k=5&explore=0"); len(a.Items) != 5 {
			t.Errorf("%s: %d items", c.name, len(a.Items))
		}
	}
}

// Lists that are explored, as they are by default, are made by the index too. They say so, the log of them names the
// rule, and their probabilities are those that readers of the log expect.
func TestExploredListsByTheIndex(t *testing.T) {
	racetest.Skip(t, "TestIndexOfACopy and tests of recommend have the same goroutines")
	t.Parallel()
	o := Options{Folder: largeFolder(t, 17_000, 0, 6)}
	withIndex(t, &o)
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	<-s.measured
	for _, c := range []struct {
		rule string
		RecommendRequest
	}{
		{"index+1024", RecommendRequest{}}, {"index", RecommendRequest{Explore: new(float64)}},
		{"all", RecommendRequest{Exact: true}}, {"all", RecommendRequest{Exact: true, Explore: new(float64)}},
		{"all", RecommendRequest{Seen: true}},
	} {
		c.Node, c.Log = "n77", true
		a, err := s.Recommend(t.Context(), c.RecommendRequest)
		if err != nil {
			t.Fatal(err)
		}
		if form := fmt.Sprintf("%s/%d/", c.rule, a.Candidates); !strings.HasPrefix(a.CandidateSet, form) {
			t.Errorf("%+v: candidates %s; want %s", c, a.CandidateSet, form)
		}
		if (a.Index != nil) != strings.HasPrefix(c.rule, "index") || len(a.Items) != 10 || a.Logged != 10 {
			t.Errorf("%+v: %d items, by the index %v", c, len(a.Items), a.Index != nil)
		}
	}
	c := client{t: t, h: s.Handler()}
	for path, says := range map[string]string{"/node/n77": "The index made this list: it finds ",
		"/node/n77?drawn=yes": "The index made this list: it finds ", "/": "the index makes them, and finds "} {
		if page := c.do("GET", path, nil).Body.String(); !strings.Contains(page, says) {
			t.Errorf("%s does not say %q", path, says)
		}
	}
	if page := c.do("GET", "/node/n77?order=seen", nil).Body.String(); strings.Contains(page, "The index made") {
		t.Error("an exact list says that the index made it")
	}
	far := explainItem(recommend.Item{Hidden: true, Field: "biology"}, "physics")
	if !strings.HasSuffix(far, "by the links that are seen it would be far down.") {
		t.Error(far)
	}
	logged, err := ReadLists(t.Context(), s.events, s.Graph(), ListReading{Find: s.Graph().Index})
	if err != nil || len(logged.Lists) != 5 || logged.Known() != 0 || len(logged.Lists) != 5 {
		t.Fatalf("%v: %d lists, want five with known probabilities", err, len(logged.Lists))
	}
}

// A copy of the dataset that has changes gets an index of its own, from that of the dataset.
func TestIndexOfACopy(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { withIndex(t, o) })
	c := client{t: t, h: s.Handler()}
	vector := make([]float32, s.Graph().Vectors().Dim())
	s.Graph().Vectors().Load(vector, 7)
	want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes/new", NodeInput{Title: ptr("new"), Vector: &vector})
	job := want[Job](c, 202, "POST", "/api/v1/jobs", JobRequest{Kind: "retrain"})
	job, err := s.WaitJob(t.Context(), job.ID)
	if err != nil || job.State != JobDone || !job.Deployed {
		t.Fatalf("%v, job %+v", err, job)
	}
	live := s.live.Load().current
	web, err := live.base.Index(t.Context(), 0)
	if err != nil || live.base.seq == 0 || web == nil || web.Rows() != live.Graph().Len() {
		t.Errorf("%v: the copy at change %d has the index %v", err, live.base.seq, web)
	}
}
