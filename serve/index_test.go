package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/index"
	"unseen/network"
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
		if found := s.live.Load().current.Recall().Used; found != c.found || !strings.Contains(log.String(), c.says) {
			t.Errorf("%s: used %v, want %v; the log says %s", c.name, found, c.found, log.String())
		}
		client := client{t: t, h: s.Handler()}
		if a := client.list("node=p1&k=5&explore=0"); len(a.Items) != 5 {
			t.Errorf("%s: %d items", c.name, len(a.Items))
		}
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
