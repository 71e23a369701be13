package recommend

import (
	"archive/zip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/graph"
	"unseen/model"
)

// numbers reads an .npy stream as float64, whether float32 or int32.
func numbers(t *testing.T, r io.Reader) []float64 {
	t.Helper()
	h := must(dataset.ReadNpyHeader(r))(t)
	raw := must(io.ReadAll(r))(t)
	size := int64(4)
	for _, n := range h.Shape {
		size *= n
	}
	if int64(len(raw)) != size || h.Fortran {
		t.Fatalf("%d bytes of %+v", len(raw), h)
	}
	var out []float64
	for ; len(raw) > 0; raw = raw[4:] {
		bits := binary.LittleEndian.Uint32(raw)
		if h.Kind == "<i4" {
			out = append(out, float64(int32(bits)))
		} else {
			out = append(out, float64(math.Float32frombits(bits)))
		}
	}
	return out
}

// What is in the folder is enough to find every logit.
func TestIndexHoldsTheModel(t *testing.T) {
	for kind, differ := range map[string]bool{"diagonal": false, "low-rank": false, "diagonal-field": true,
		"diagonal+bonus": true, "members": false} {
		g, m, _ := small(t, 60, strings.Replace(kind, "members", "diagonal", 1))
		if kind == "members" {
			m = withMembers(m, g, 4, true)
		}
		if kind == "diagonal+bonus" {
			m.Link = must(model.NewLink("diagonal+bonus", model.NodesOf(g), model.LinkOptions{Bonus: .7}))(t)
		}
		dir := filepath.Join(t.TempDir(), "index")
		r := must(New(g, m, Options{}))(t)
		x := must(r.WriteIndex(t.Context(), dir, "", false))(t)
		if x.Offsets != differ || x.Link != m.Link.Kind() || x.Values != (kind == "members") || x.Vectors != "copied" {
			t.Errorf("%s: %+v", kind, x)
		}
		file := must(os.Open(filepath.Join(dir, dataset.VectorsFile)))(t)
		h := numbers(t, file)
		file.Close()
		archive := must(zip.OpenReader(filepath.Join(dir, IndexQuery)))(t)
		query := map[string][]float64{}
		for _, f := range archive.File {
			part := must(f.Open())(t)
			query[strings.TrimSuffix(f.Name, ".npy")] = numbers(t, part)
		}
		archive.Close()
		const d = 8
		fields := len(x.Fields)
		for i := range 60 {
			q := make([]float64, d)
			for k := range q {
				if w := query["w"]; w != nil {
					q[k] = w[k] * h[i*d+k]
					continue
				}
				for rank := range len(query["A"]) / d {
					var seen float64
					for e := range d {
						seen += query["A"][rank*d+e] * h[i*d+e]
					}
					q[k] += seen * query["B"][rank*d+k]
				}
			}
			for j := range 60 {
				z := query["offsets"][int(query["fields"][i])*fields+int(query["fields"][j])]
				for k := range q {
					z += q[k] * h[j*d+k]
				}
				if x.Values {
					z += query["slope"][0] * query["values"][j]
				}
				if want := listLogit(m, int32(i), int32(j)); math.Abs(z-want) > 1e-4*(1+math.Abs(want)) {
					t.Fatalf("%s: z of %d and %d is %v by the index and %v by the model", kind, i, j, z, want)
				}
			}
		}
		var read Index
		if err := json.Unmarshal(must(os.ReadFile(filepath.Join(dir, IndexFile)))(t), &read); err != nil ||
			read.Query != x.Query || read.Nodes != 60 {
			t.Errorf("%s: %v: %+v", kind, err, read)
		}
	}
}

// listLogit is what a pair is ordered by.
func listLogit(m model.Model, i, j int32) float64 {
	var z [1]float32
	m.Ranker().Logits(z[:], model.Batch{Sources: []int32{i}, Targets: []int32{j}})
	return float64(z[0])
}

// Half vectors are written as float32, ids that need two lines are refused, and nothing is half-written.
func TestIndexOfOddGraphs(t *testing.T) {
	build := func(id string) *Recommender {
		var b graph.Builder
		must(b.AddNode(graph.Node{ID: "a", Field: "x"}))(t)
		must(b.AddNode(graph.Node{ID: id, Field: "y"}))(t)
		if err := b.AddLinkIndex(0, 1); err != nil {
			t.Fatal(err)
		}
		g, _, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		v := must(graph.NewHalfVectors(2, 3))(t)
		for i := range int32(2) {
			if err := v.Set(i, []float32{1, .5, float32(i) - 2}); err != nil {
				t.Fatal(err)
			}
		}
		g = must(g.WithVectors(v))(t)
		link := must(model.NewLink("diagonal", model.NodesOf(g), model.LinkOptions{}))(t)
		return must(New(g, model.Model{Link: link, LinkParams: make([]float32, link.Size())}, Options{}))(t)
	}
	dir := filepath.Join(t.TempDir(), "index")
	x := must(build("b").WriteIndex(t.Context(), dir, "nowhere", false))(t)
	file := must(os.Open(filepath.Join(dir, dataset.VectorsFile)))(t)
	h := numbers(t, file)
	file.Close()
	if x.Vectors != "converted from float16" || len(h) != 6 || h[1] != .5 || h[2] != -2 || h[5] != -1 {
		t.Errorf("%+v: %v", x, h)
	}
	other := filepath.Join(t.TempDir(), "index")
	if _, err := build("b\nc").WriteIndex(t.Context(), other, "", false); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "line break") {
		t.Error(err)
	}
	crowded := build("b")
	crowded.nodes.FieldCount = mostIndexFields + 1
	if _, err := crowded.WriteIndex(t.Context(), other, "", false); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "8192 or fewer") {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(other)); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", err, entries)
	}
}
