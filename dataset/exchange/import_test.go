package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset"
)

var background = context.Background()

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a dataset until the test ends.
func open(t testing.TB, dir string) *dataset.Dataset {
	t.Helper()
	d, err := dataset.Open(background, dir, dataset.OpenOptions{})
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// untouched fails if anything lies in a folder but what is named.
func untouched(t testing.TB, folder string, but ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), strings.Join(but, " "); got != want {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

// story makes a format of calls to the sink.
func story(tell func(s Sink) error) Format {
	return Format{Name: "story", Summary: "a test", Import: func(_ context.Context, _ Options,
		s Sink) error {
		return tell(s)
	}}
}

func TestSinkTakesAnyOrder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	r, err := importFormat(background, story(func(s Sink) error {
		_, err := s.Node(NodeRecord{ID: "a", Field: "x", Text: "alpha"}, Place{})
		must(t, err)
		must(t, s.Link("b", "a", Place{"f", 1, 0}))
		must(t, s.Link("b", "c", Place{"f", 2, 0}))
		must(t, s.Link("c", "c", Place{"f", 3, 0}))
		must(t, s.Exposure(ExposureRecord{Source: "c", Target: "a", Shown: .5, Exposed: true}, Place{"f", 4, 0}))
		b, err := s.Node(NodeRecord{ID: "b", Field: "y"}, Place{})
		must(t, err)
		must(t, s.Vector(b, []float32{1, 2}, Place{}))
		c, err := s.Node(NodeRecord{ID: "c", Field: "x", Text: "gamma"}, Place{})
		must(t, err)
		must(t, s.LinkIndex(c, b, Place{}))
		return s.Link("c", "b", Place{"f", 5, 0})
	}), dir, Options{Paths: []string{"-"}})
	must(t, err)
	if r.Nodes != 3 || r.Links != 3 || r.SelfLinks != 1 || r.Repeated != 1 || r.Exposures != 1 || r.Dimension != 2 ||
		r.Fields != 2 {
		t.Errorf("report %+v", r)
	}
	d := open(t, dir)
	for i, want := range []string{"alpha", "", "gamma"} {
		if got, err := d.Text(int32(i)); err != nil || got != want {
			t.Errorf("text %d is %q, %v, want %q", i, got, err, want)
		}
	}
	row := make([]float32, 2)
	d.Graph().Vectors().Load(row, 1)
	if row[0] != 1 || row[1] != 2 {
		t.Errorf("vector %v", row)
	}
	untouched(t, filepath.Dir(dir), "d")
}

func TestUnknownEnds(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		tell := func(s Sink) error {
			if _, err := s.Node(NodeRecord{ID: "a"}, Place{"n", 1, 0}); err != nil {
				return err
			}
			if ended {
				s.EndNodes()
			}
			if err := s.Link("a", "z", Place{"f", 7, 0}); err != nil {
				return err
			}
			return s.Link("y", "a", Place{"f", 8, 0})
		}
		folder := t.TempDir()
		dir := filepath.Join(folder, "d")
		_, err := importFormat(background, story(tell), dir, Options{Paths: []string{"-"}})
		if !errors.Is(err, ErrUnknownNode) ||
			!strings.Contains(err.Error(), `f, line 7: no such node: the target "z"`) {
			t.Errorf("strict: %v", err)
		}
		untouched(t, folder)
		r, err := importFormat(background, story(tell), dir, Options{Paths: []string{"-"}, Lenient: true})
		must(t, err)
		if r.Rejected != 2 || r.Links != 0 {
			t.Errorf("lenient: %+v", r)
		}
		list, err := os.ReadFile(r.RejectsFile)
		must(t, err)
		if bytes.Count(list, []byte("\n")) != 3 || !bytes.Contains(list, []byte("f,7,,")) {
			t.Errorf("rejects.csv holds %s", list)
		}
		r, err = importFormat(background, story(tell), dir, Options{Paths: []string{"-"}, NodesFromLinks: true,
			Force: true})
		must(t, err)
		if r.Nodes != 3 || r.Links != 2 || r.Rejected != 0 {
			t.Errorf("nodes from links: %+v", r)
		}
		untouched(t, folder, "d")
	}
}

func TestRefusesToOverwrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	dir := filepath.Join(folder, "d")
	one := story(func(s Sink) error { _, err := s.Node(NodeRecord{ID: "a"}, Place{}); return err })
	o := Options{Paths: []string{"-"}}
	_, err := importFormat(background, one, dir, o)
	must(t, err)
	before, err := os.ReadFile(filepath.Join(dir, dataset.ManifestFile))
	must(t, err)
	if _, err := importFormat(background, one, dir, o); !errors.Is(err, ErrExists) {
		t.Errorf("without --force: %v", err)
	}
	o.Force = true
	stop := errors.New("stop")
	if _, err := importFormat(background, story(func(Sink) error { return stop }), dir, o); !errors.Is(err, stop) {
		t.Errorf("a failed import says %v", err)
	}
	ctx, cancel := context.WithCancel(background)
	cancelled := story(func(s Sink) error { cancel(); _, err := s.Node(NodeRecord{ID: "b"}, Place{}); return err })
	if _, err := importFormat(ctx, cancelled, dir, o); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled import says %v", err)
	}
	after, err := os.ReadFile(filepath.Join(dir, dataset.ManifestFile))
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the dataset was changed")
	}
	untouched(t, folder, "d")
	_, err = importFormat(background, one, dir, o)
	must(t, err)
}

func TestFieldTree(t *testing.T) {
	t.Parallel()
	tell := story(func(s Sink) error {
		_, err := s.Node(NodeRecord{ID: "a", Field: "; deep learning;optics"}, Place{})
		must(t, err)
		_, err = s.Node(NodeRecord{ID: "b", Field: "optics"}, Place{})
		return err
	})
	dir := filepath.Join(t.TempDir(), "d")
	o := Options{Paths: []string{"-"}, FieldSeparator: ";", FieldTree: map[string]string{"deep learning": "learning",
		"learning": "computing", "computing": ""}}
	_, err := importFormat(background, tell, dir, o)
	must(t, err)
	g := open(t, dir).Graph()
	if a, b := g.FieldName(g.Field(0)), g.FieldName(g.Field(1)); a != "computing" || b != "optics" {
		t.Errorf("fields %q and %q", a, b)
	}
	o.FieldTree["computing"] = "learning"
	o.Force = true
	if _, err := importFormat(background, tell, dir, o); !errors.Is(err, ErrUsage) ||
		!strings.Contains(err.Error(), "cycle") {
		t.Errorf("a cycle: %v", err)
	}
}

// Of many settings that a format does not have, the same one is always named.
func TestImportNamesTheFirstUnknownSetting(t *testing.T) {
	t.Parallel()
	flags := map[string]string{}
	for k := range 20 {
		flags[fmt.Sprintf("setting%02d", k)] = "x"
	}
	_, err := Import(t.Context(), "csv", filepath.Join(t.TempDir(), "out"), Options{Flags: flags})
	if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "setting00") {
		t.Error(err)
	}
}
