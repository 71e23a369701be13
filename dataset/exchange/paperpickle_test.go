package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// paperFiles are pickles that Python wrote, see testdata/paper/make.py.
func paperFiles(names ...string) []string {
	if len(names) == 0 {
		names = []string{"semi_synthetic_data.pkl", "semi_synthetic_data_metadata.pkl",
			"nodes_to_scibert_embedding_1.pkl", "nodes_to_scibert_embedding_2.pkl"}
	}
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join("testdata", "paper", name))
	}
	return paths
}

type paperExpected struct {
	Fields map[string]string
	Pairs  [][5]float64 // source, target, π, exposed, true
}

func expectedOfPaper(t *testing.T) (e paperExpected) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "paper", "expected.json"))
	must(t, err)
	must(t, json.Unmarshal(data, &e))
	return e
}

// The notebook's own code, run by Python, drew the same.
func TestPaperPickleDrawsAsTheNotebook(t *testing.T) {
	want := expectedOfPaper(t)
	for _, links := range []string{"observed", "true"} {
		m := newMemory(t, false)
		must(t, run(t, "paper-pickle", m, Options{Paths: paperFiles(), Flags: map[string]string{"links": links}}))
		for i, n := range m.nodes {
			if n.Field != want.Fields[n.ID] {
				t.Errorf("the field of %s is %s, want %s", n.ID, n.Field, want.Fields[n.ID])
			}
			if i > 0 && n.ID <= m.nodes[i-1].ID || !strings.HasPrefix(n.Text, "paper word") ||
				len(m.vectors[int32(i)]) != 6 {
				t.Errorf("node %d is %+v with %v", i, n, m.vectors[int32(i)])
			}
		}
		k := 0
		var edges []string
		for _, p := range want.Pairs {
			source, target := fmt.Sprintf("%.0f", p[0]), fmt.Sprintf("%.0f", p[1])
			if source == target {
				continue
			}
			e := m.shown[k]
			k++
			linked := p[3] == 1 && p[4] == 1
			if e.Source != source || e.Target != target || math.Abs(e.Shown-p[2]) > 1e-15 ||
				e.Exposed != (p[3] == 1) || e.Linked != linked {
				t.Fatalf("exposure %d is %+v, want %v", k, e, p)
			}
			if links == "true" && p[4] == 1 || links == "observed" && linked {
				edges = append(edges, source+">"+target)
			}
		}
		if k != len(m.shown) || m.edges() != strings.Join(edges, " ") || len(edges) == 0 {
			t.Errorf("%d exposures, want %d; links %s: %s, want %v", len(m.shown), k, links, m.edges(), edges)
		}
		if !m.told("160 pairs in 3 parts (80, 32, 48)") || !m.told("same random numbers") {
			t.Errorf("notes %q", m.notes)
		}
	}
}

func TestPaperPickleFlags(t *testing.T) {
	m := newMemory(t, false)
	must(t, run(t, "paper-pickle", m, Options{Paths: paperFiles(), Flags: map[string]string{"fields": "given"}}))
	for _, n := range m.nodes {
		id, err := strconv.Atoi(n.ID)
		must(t, err)
		if want := paperFields[(id-1600000000)/1000003%19]; n.Field != want {
			t.Errorf("the given field of %s is %q, want %q", n.ID, n.Field, want)
		}
	}
	draw := func(seed string) string {
		m := newMemory(t, false)
		must(t, run(t, "paper-pickle", m, Options{Paths: paperFiles(), Flags: map[string]string{"draw-seed": seed}}))
		return m.edges()
	}
	if first, again, other := draw("1"), draw("1"), draw("2"); first != again || first == other {
		t.Error("draws do not go by their seed")
	}
	for flag, value := range map[string]string{"key": "x=y", "links": "all", "fields": "none", "draw-seed": "x"} {
		if err := run(t, "paper-pickle", newMemory(t, false),
			Options{Paths: paperFiles(), Flags: map[string]string{flag: value}}); !errors.Is(err, ErrUsage) {
			t.Errorf("--%s %s: %v", flag, value, err)
		}
	}
}

func TestPaperPickleBecomesDataset(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	r, err := Import(background, "paper-pickle", dir, Options{Paths: paperFiles()})
	must(t, err)
	d := open(t, dir)
	e, err := d.Exposures(background)
	must(t, err)
	if r.Exposures != e.Len() || e.Len() == 0 || r.Links == 0 || r.Dimension != 6 || e.Shown == nil {
		t.Errorf("report %+v", r)
	}
	for k := range e.Source {
		if e.Linked[k] && !e.Exposed[k] {
			t.Fatalf("pair %d has a link and was not shown", k)
		}
	}
	untouched(t, filepath.Dir(dir), "d")
}

func TestPaperPickleOfRealNodes(t *testing.T) {
	m := newMemory(t, false)
	must(t, run(t, "paper-pickle", m, Options{Paths: []string{filepath.Join("testdata", "paper", "real")}}))
	if len(m.nodes) != 7 || len(m.vectors) != 7 || len(m.links) != 0 || !m.told("PaperReferences.txt") {
		t.Errorf("%d nodes, %d vectors, notes %q", len(m.nodes), len(m.vectors), m.notes)
	}
}

// pairsWith writes pairs by hand: lists of numbers instead of tensors, and labels.
func pairsWith(labels string) string {
	return "((lp0\n(dp1\nS'paper_citer'\n(lp2\nI2\naI1\nasS'paper_cited'\n(lp3\nI1\naI0\nas" + labels + "atp4\n."
}

func TestPaperPickleLabelsOfTheFile(t *testing.T) {
	folder := t.TempDir()
	path := write(t, filepath.Join(folder, "p.pkl"),
		pairsWith("S'is_citation'\n(lI1\naI0\nasS'propensity'\n(lF0.25\naF0.5\nasS'exposure'\n(lI1\naI1\nas"))
	m := newMemory(t, false)
	must(t, run(t, "paper-pickle", m, Options{Paths: []string{path}}))
	if m.edges() != "2>1" || fmt.Sprint(m.shown) != "[{2 1 0.25 true true} {1 0 0.5 true false}]" {
		t.Errorf("links %s, exposures %v", m.edges(), m.shown)
	}
	// The same under other names, in a packed file.
	text := strings.NewReplacer("paper_citer", "a", "paper_cited", "b", "is_citation",
		"c").Replace(pairsWith("S'is_citation'\n(lI1\naI0\nas"))
	packed := write(t, filepath.Join(folder, "q.pkl.gz"), text)
	m = newMemory(t, false)
	must(t, run(t, "paper-pickle", m, Options{Paths: []string{packed},
		Flags: map[string]string{"key": "source=a,target=b,link=c"}}))
	if m.edges() != "2>1" || len(m.shown) != 0 {
		t.Errorf("links %s, exposures %v", m.edges(), m.shown)
	}
	err := run(t, "paper-pickle", newMemory(t, true), Options{Paths: []string{packed}})
	if err == nil || !strings.Contains(err.Error(), `no key "paper_citer"; the keys are "a", "b", "c"`) ||
		!strings.Contains(err.Error(), "--key source=") {
		t.Errorf("other keys: %v", err)
	}
}

func TestPaperPickleFaults(t *testing.T) {
	for _, c := range []struct{ name, pickle, says string }{
		{"empty", "", "byte 0"},
		{"text", "hello there", "not a readable pickle"},
		{"pandas", "cpandas.core.frame\nDataFrame\n)\x81}b.", "it is a pandas.core.frame.DataFrame"},
		{"torch", "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(S'x'\nQtR.", "torch.save"},
		{"number", "I5\n.", "it is 5"},
		{"no labels", pairsWith(""), "metadata.pkl"},
		{"lengths", pairsWith("S'is_citation'\n(lI1\nas"), "is_citation: 1 numbers for 2 pairs"},
		{"texts", pairsWith("S'is_citation'\n(lS'x'\naI0\nas"), `is_citation: "x" where a number`},
		{"negative", strings.Replace(pairsWith("S'is_citation'\n(lI1\naI0\nas"), "I0\nasS'is", "I-7\nasS'is", 1),
			"index -7"},
		{"itself", "]\x94h\x00a.", "it is a list of 1: a list of 1"},
	} {
		path := write(t, filepath.Join(t.TempDir(), "p.pkl"), c.pickle)
		err := run(t, "paper-pickle", newMemory(t, false), Options{Paths: []string{path}})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) || e.Place.File != path || e.Mend == "" {
			t.Errorf("%s: %v; want %q", c.name, err, c.says)
		}
	}
	if err := run(t, "paper-pickle", newMemory(t, false),
		Options{Paths: paperFiles("semi_synthetic_data.pkl", "nodes_to_scibert_embedding_1.pkl")}); err == nil ||
		!strings.Contains(err.Error(), "none of the vectors") {
		t.Errorf("without metadata: %v", err)
	}
	if err := run(t, "paper-pickle", newMemory(t, false),
		Options{Paths: paperFiles("semi_synthetic_data.pkl", "semi_synthetic_data_metadata.pkl",
			"nodes_to_scibert_embedding_1.pkl")}); err == nil || !strings.Contains(err.Error(), "has no vector") {
		t.Errorf("with half of the vectors: %v", err)
	}
}

func FuzzPaperPickle(f *testing.F) {
	for _, path := range append(paperFiles(), paperFiles("real/vectors.pkl", "real/train_nodes.pkl")...) {
		data, err := os.ReadFile(path)
		must(f, err)
		f.Add(data)
	}
	f.Add([]byte(pairsWith("S'is_citation'\n(lI1\naI0\nas")))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzFormat(t, "paper-pickle", map[string][]byte{"p.pkl": data}) })
}
