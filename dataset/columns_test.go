package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"unseen/graph"
)

// TestColumnsAndRowsAgree opens a dataset with its manifest, by columns, and without, row by row.
func TestColumnsAndRowsAgree(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for _, n := range []graph.Node{{ID: "a", Field: "x", Title: "A", Time: time.Unix(86400, 0)}, {ID: "b"},
		{ID: "c", Field: "y", Time: time.Unix(2*86400, 0)}, {ID: "00003", Field: "x", Title: "é"}} {
		_, err := b.AddNode(n)
		must(t, err)
	}
	must(t, b.AddLink("c", "a"))
	g, _, err := b.Build()
	must(t, err)
	dir := filepath.Join(t.TempDir(), "d")
	_, err = Write(background, dir, Content{Graph: g}, WriteOptions{})
	must(t, err)
	byColumns, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer byColumns.Close()
	must(t, os.Remove(filepath.Join(dir, ManifestFile)))
	byRows, err := Open(background, dir, OpenOptions{RowNumbers: true})
	must(t, err)
	defer byRows.Close()
	if byColumns.Build() != byRows.Build() {
		t.Errorf("%+v by columns, %+v by rows", byColumns.Build(), byRows.Build())
	}
	for i := range int32(g.Len()) {
		for _, h := range []*graph.Graph{byColumns.Graph(), byRows.Graph()} {
			want, known := g.Time(i)
			got, also := h.Time(i)
			if h.ID(i) != g.ID(i) || h.Title(i) != g.Title(i) || h.FieldName(h.Field(i)) != g.FieldName(g.Field(i)) ||
				known != also || !got.Equal(want) {
				t.Errorf("node %d is %q %q", i, h.ID(i), h.Title(i))
			}
		}
	}
}

// TestColumnsNameTheRow: a fault that the columns find is placed as the rows place it.
func TestColumnsNameTheRow(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for _, id := range []string{"a", "b", "c"} {
		_, err := b.AddNode(graph.Node{ID: id})
		must(t, err)
	}
	g, _, err := b.Build()
	must(t, err)
	dir := filepath.Join(t.TempDir(), "d")
	_, err = Write(background, dir, Content{Graph: g}, WriteOptions{})
	must(t, err)
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer d.Close()
	nodes, err := openTable(d.files[NodesFile], d.path(NodesFile))
	must(t, err)
	// The ids twice over: as a damaged file would have them.
	var twice graph.NodeColumns
	must(t, twice.AddIDs([]string{"a"}))
	var into graph.Builder
	must(t, into.AddColumns(&twice))
	if _, err := d.readNodes(background, nodes, nil, &into); !errors.Is(err, graph.ErrDuplicateNode) {
		t.Fatalf("it says %v", err)
	} else if place, ok := errors.AsType[*Error](err); !ok || place.Row != 0 || place.Column != "id" {
		t.Errorf("it is placed at %+v", place)
	}
}
