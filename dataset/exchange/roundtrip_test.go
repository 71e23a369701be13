package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"unseen/dataset"
	"unseen/graph"
)

// words are what texts are made of: what formats may stumble over.
var words = []string{"a", "b", " ", ",", ";", "\t", "\n", "\r", `"`, `""`, "'", `\`, "{", "]", "null", "00003", "é",
	"中", "#", "%", "\u2028", "<&>", "3.0", "@", "\ufeff", "|"}

func randomText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteString(words[r.IntN(len(words))])
	}
	// What a table of comma-separated values cannot hold; see Export.
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
}

// randomDataset writes a dataset of everything that a dataset can hold.
func randomDataset(t *testing.T, r *rand.Rand, dir string, shop bool) {
	t.Helper()
	var b graph.Builder
	for k := range r.IntN(4) {
		_, err := b.AddField(fmt.Sprint("field ", 9-k, randomText(r, 3)))
		must(t, err)
	}
	n := 1 + r.IntN(30)
	texts := make([]string, n)
	for i := range n {
		node := graph.Node{ID: fmt.Sprint(randomText(r, 3), "#", i), Field: randomText(r, 2), Title: randomText(r, 5)}
		if r.IntN(3) > 0 {
			node.Time = time.Unix(r.Int64N(1<<40)-1<<39, 0)
		}
		texts[i] = randomText(r, 20)
		if shop {
			node.Role = []graph.Role{graph.SourceOnly, graph.TargetOnly, graph.SourceAndTarget}[i%3]
		}
		_, err := b.AddNode(node)
		must(t, err)
	}
	b.DropSelfLinks = true
	for range r.IntN(60) {
		i, j := int32(r.IntN(n)), int32(r.IntN(n))
		if !shop {
			must(t, b.AddLinkIndex(i, j))
		} else if i%3 != 1 && j%3 != 0 {
			must(t, b.AddLinkAt(i, j, []int64{r.Int64N(1<<40) - 1<<39, 5, graph.NoTime}[r.IntN(3)]))
		}
	}
	g, _, err := b.Build()
	must(t, err)
	if r.IntN(2) == 0 {
		v, err := graph.NewVectors(n, 3)
		must(t, err)
		defer v.Close()
		for i := range n {
			must(t, v.Set(int32(i), []float32{float32(r.NormFloat64()), float32(r.IntN(3)), math.MaxFloat32}))
		}
		g, err = g.WithVectors(v)
		must(t, err)
	}
	c := dataset.Content{Graph: g}
	if r.IntN(3) > 0 {
		c.Text = func(i int32) (string, error) { return texts[i], nil }
	}
	if r.IntN(2) == 0 {
		e := &dataset.Exposures{}
		for range 1 + r.IntN(20) {
			e.Source, e.Target = append(e.Source, int32(r.IntN(n))), append(e.Target, int32(r.IntN(n)))
			e.Exposed, e.Linked = append(e.Exposed, r.IntN(2) == 0), append(e.Linked, r.IntN(2) == 0)
			e.Shown = append(e.Shown, []float64{math.NaN(), r.Float64(), 0, 1}[r.IntN(4)])
			if shop {
				e.Count, e.Position = append(e.Count, int32(1+r.IntN(5))), append(e.Position, int32(1+r.IntN(9)))
				e.Surface, e.Surfaces = append(e.Surface, uint16(r.IntN(2))), []string{"", "home, \"sweet\""}
				e.Time = append(e.Time, []int64{r.Int64N(1<<40) - 1<<39, 7, graph.NoTime}[r.IntN(3)])
			}
		}
		c.Exposures = e
	}
	_, err = dataset.Write(background, dir, c, dataset.WriteOptions{})
	must(t, err)
}

// sameDatasets fails unless two datasets hold the same.
func sameDatasets(t *testing.T, got, want *dataset.Dataset) {
	t.Helper()
	a, b := got.Graph(), want.Graph()
	if a.Len() != b.Len() || a.LinkCount() != b.LinkCount() || a.FieldCount() != b.FieldCount() {
		t.Fatalf("%d nodes, %d links, %d fields, want %d, %d, %d", a.Len(), a.LinkCount(), a.FieldCount(), b.Len(),
			b.LinkCount(), b.FieldCount())
	}
	for f := range b.FieldCount() {
		if a.FieldName(uint16(f)) != b.FieldName(uint16(f)) {
			t.Errorf("field %d is %q, want %q", f, a.FieldName(uint16(f)), b.FieldName(uint16(f)))
		}
	}
	for i := range int32(b.Len()) {
		x, err := got.Text(i)
		must(t, err)
		y, err := want.Text(i)
		must(t, err)
		at, aKnown := a.Time(i)
		bt, bKnown := b.Time(i)
		if a.ID(i) != b.ID(i) || a.Field(i) != b.Field(i) || a.Title(i) != b.Title(i) || x != y || aKnown != bKnown ||
			!at.Equal(bt) {
			t.Errorf("node %d: %q %d %q %v %q, want %q %d %q %v %q", i, a.ID(i), a.Field(i), a.Title(i), at, x,
				b.ID(i), b.Field(i), b.Title(i), bt, y)
		}
		if fmt.Sprint(a.Out(i), a.OutTimes(i), a.Role(i)) != fmt.Sprint(b.Out(i), b.OutTimes(i), b.Role(i)) {
			t.Errorf("%v %d links to %v at %v, want %v %v %v", a.Role(i), i, a.Out(i), a.OutTimes(i), b.Role(i),
				b.Out(i),
				b.OutTimes(i))
		}
	}
	if (a.Vectors() == nil) != (b.Vectors() == nil) {
		t.Fatalf("vectors: %t, want %t", a.Vectors() != nil, b.Vectors() != nil)
	}
	if v := b.Vectors(); v != nil {
		p, q := make([]float32, v.Dim()), make([]float32, v.Dim())
		for i := range int32(v.Len()) {
			a.Vectors().Load(p, i)
			v.Load(q, i)
			if fmt.Sprint(p) != fmt.Sprint(q) {
				t.Errorf("vector %d is %v, want %v", i, p, q)
			}
		}
	}
	x, err := got.Exposures(background)
	must(t, err)
	y, err := want.Exposures(background)
	must(t, err)
	if (x == nil) != (y == nil) {
		t.Fatalf("exposures %v, want %v", x, y)
	}
	if y == nil {
		return
	}
	for k := range y.Source {
		shown := func(e *dataset.Exposures) float64 {
			if e.Shown == nil {
				return math.NaN()
			}
			return e.Shown[k]
		}
		more := func(e *dataset.Exposures) string {
			out := ""
			if e.Count != nil {
				out = fmt.Sprint(e.Count[k], e.Position[k])
			}
			if e.Surface != nil && e.Surfaces[e.Surface[k]] != "" {
				out += e.Surfaces[e.Surface[k]]
			}
			if e.Time != nil && e.Time[k] != graph.NoTime {
				out += fmt.Sprint(e.Time[k])
			}
			return out
		}
		p := fmt.Sprint(x.Source[k], x.Target[k], x.Exposed[k], x.Linked[k], shown(x), more(x))
		q := fmt.Sprint(y.Source[k], y.Target[k], y.Exposed[k], y.Linked[k], shown(y), more(y))
		if p != q {
			t.Errorf("exposure %d is %s, want %s", k, p, q)
		}
	}
}

func TestExportAndBack(t *testing.T) {
	t.Parallel()
	for _, format := range Exports() {
		t.Run(format, func(t *testing.T) {
			for seed := range uint64(8) {
				r := rand.New(rand.NewPCG(seed, 7))
				folder := t.TempDir()
				d, out, back := filepath.Join(folder, "d"), filepath.Join(folder, "out"), filepath.Join(folder, "back")
				randomDataset(t, r, d, seed%2 == 1 && format != "npz") // which has no times of links
				must(t, Export(background, d, format, out, ExportOptions{}))
				_, err := Import(background, format, back, Options{Paths: []string{out}})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				sameDatasets(t, open(t, back), open(t, d))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
				untouched(t, folder, "back", "d", "out")
			}
		})
	}
}
