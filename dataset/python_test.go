package dataset

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"unseen/internal/racetest"
)

// python finds an interpreter that has pandas, pyarrow and NumPy. UNSEEN_PYTHON names another than python3.
func python(t *testing.T) string {
	t.Helper()
	name := os.Getenv("UNSEEN_PYTHON")
	if name == "" {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no Python here (%v); set UNSEEN_PYTHON to one with pandas, pyarrow and numpy", err)
	}
	if err := exec.Command(path, "-c", "import numpy, pandas, pyarrow").Run(); err != nil {
		t.Skipf("%s lacks pandas, pyarrow or numpy; set UNSEEN_PYTHON to one that has them", path)
	}
	return path
}

// readInPython compares every value of the dataset with what JSON says it should be.
const readInPython = `
import hashlib, json, sys
import numpy, pandas
folder = sys.argv[1]
nodes = pandas.read_parquet(folder + "/nodes.parquet")
links = pandas.read_parquet(folder + "/links.parquet")
exposures = pandas.read_parquet(folder + "/exposures.parquet")
vectors = numpy.load(folder + "/vectors.npy", mmap_mode="r")
manifest = json.load(open(folder + "/dataset.json", encoding="utf-8"))
assert list(nodes.columns) == ["id", "field", "title", "text", "time"], nodes.columns
assert list(links.columns) == ["source", "target"] and links.dtypes.tolist() == ["int64", "int64"], links.dtypes
assert str(nodes.time.dtype) == "datetime64[ms, UTC]", nodes.time.dtype
assert exposures.linked.dtype == bool and exposures.shown.dtype == float, exposures.dtypes
assert len(nodes) == manifest["nodes"] and len(links) == manifest["links"] and len(exposures) == manifest["exposures"]
assert vectors.shape == (len(nodes), manifest["vectors"]["dimension"]) and vectors.dtype == numpy.float32
for name, known in manifest["files"].items():
    assert hashlib.sha256(open(folder + "/" + name, "rb").read()).hexdigest() == known["sha256"], name
text = lambda column: [None if pandas.isna(x) else x for x in column]
json.dump({
    "id": text(nodes.id), "field": text(nodes.field), "title": text(nodes.title), "text": text(nodes.text),
    "time": [None if pandas.isna(t) else int(t.asm8.astype("int64")) // 1000 for t in nodes.time],
    "source": links.source.tolist(), "target": links.target.tolist(),
    "shown": text(exposures.shown), "exposed": exposures.exposed.tolist(),
    "vectors": vectors.astype(float).tolist(),
}, sys.stdout)
`

func TestPythonReads(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestRoundTrip has the same goroutines")
	interpreter := python(t)
	c := randomContent(t, 11)
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Write(background, dir, c, WriteOptions{})
	must(t, err)
	cmd := exec.Command(interpreter, "-c", readInPython, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	var got struct {
		ID, Field, Title, Text []*string
		Time                   []*int64
		Source, Target         []int32
		Shown                  []*float64
		Exposed                []bool
		Vectors                [][]float64
	}
	must(t, json.Unmarshal(out, &got))
	g := c.Graph
	if len(got.ID) != g.Len() || len(got.Source) != g.LinkCount() || len(got.Shown) != c.Exposures.Len() ||
		g.Len() < 5 {
		t.Fatalf("%d nodes, %d links, %d exposures in Python", len(got.ID), len(got.Source), len(got.Shown))
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	row := make([]float32, g.Vectors().Dim())
	for k := range got.ID {
		i := int32(k)
		field := ""
		if g.Field(i) != 0 {
			field = g.FieldName(g.Field(i))
		}
		want, _ := c.Text(i)
		at, known := g.Time(i)
		if *got.ID[k] != g.ID(i) || text(got.Field[k]) != field || text(got.Title[k]) != g.Title(i) ||
			text(got.Text[k]) != want ||
			known != (got.Time[k] != nil) || known && at.Unix() != *got.Time[k] {
			t.Errorf("node %d is %q %q %q in Python, want %q %q %q %v", k, *got.ID[k], text(got.Field[k]),
				text(got.Title[k]), g.ID(i), field, g.Title(i), at)
		}
		g.Vectors().Load(row, i)
		for d, x := range row {
			if got.Vectors[k][d] != float64(x) {
				t.Errorf("vector %d holds %v in Python, want %v", k, got.Vectors[k][d], x)
			}
		}
	}
	k := 0
	for i, j := range g.Links() {
		if got.Source[k] != i || got.Target[k] != j {
			t.Fatalf("link %d is %d>%d in Python, want %d>%d", k, got.Source[k], got.Target[k], i, j)
		}
		k++
	}
	for k, p := range c.Exposures.Shown {
		if (got.Shown[k] == nil) != math.IsNaN(p) || !math.IsNaN(p) && *got.Shown[k] != p ||
			got.Exposed[k] != c.Exposures.Exposed[k] {
			t.Errorf("exposure %d is %v in Python, want %v", k, got.Shown[k], p)
		}
	}
}

// writeInPython is what a script of a stranger may look like.
const writeInPython = `
import sys
import numpy, pandas
folder = sys.argv[1]
nodes = pandas.DataFrame({
    "id": ["00003", "b", "ç"], "field": pandas.Categorical(["x", None, "y"]), "title": ["T", "", None],
    "text": ["first", None, "third"], "year": [1990, 1991, 1992],
    "time": pandas.to_datetime(["1969-12-31 23:59:59.5", None, "2020-02-29"], format="ISO8601"),
})
nodes.to_parquet(folder + "/nodes.parquet")
links = pandas.DataFrame({"source": ["b", "ç"], "target": ["00003", "b"],
                          "time": pandas.to_datetime(["2020-01-01"] * 2)})
links.to_parquet(folder + "/links.parquet", compression=sys.argv[2] or None, index=False)
pandas.DataFrame({"source": ["b"], "target": ["ç"], "linked": [False]}).to_parquet(folder + "/exposures.parquet")
numpy.save(folder + "/vectors.npy", numpy.arange(6, dtype=sys.argv[3]).reshape(3, 2))
`

func TestPythonWrites(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestRoundTrip has the same goroutines")
	interpreter := python(t)
	for _, c := range []struct{ compression, kind string }{{"snappy", "float32"}, {"gzip", "float16"}, {"", "float32"},
		{"zstd", "float32"}} {
		dir := t.TempDir()
		if out, err := exec.Command(interpreter, "-c", writeInPython, dir, c.compression,
			c.kind).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		d, err := Open(background, dir, OpenOptions{})
		must(t, err)
		g := d.Graph()
		at, _ := g.Time(0)
		_, timed := g.Time(1)
		text, err := d.Text(2)
		must(t, err)
		if g.ID(0) != "00003" || g.ID(2) != "ç" || g.FieldName(g.Field(2)) != "y" || g.Field(1) != 0 ||
			g.Title(0) != "T" || at.Unix() != -1 || timed || text != "third" ||
			!g.HasLink(1, 0) || !g.HasLink(2, 1) || g.LinkCount() != 2 {
			t.Errorf("%+v: %q %q %v %q", c, g.ID(0), g.ID(2), at, text)
		}
		row := make([]float32, 2)
		if g.Vectors().Load(row, 2); row[0] != 4 || row[1] != 5 {
			t.Errorf("%+v: the last vector is %v", c, row)
		}
		e, err := d.Exposures(background)
		must(t, err)
		if e.Len() != 1 || e.Source[0] != 1 || e.Target[0] != 2 || !e.Exposed[0] || e.Linked[0] || e.Shown != nil {
			t.Errorf("%+v", e)
		}
		must(t, d.Close())
	}
}
