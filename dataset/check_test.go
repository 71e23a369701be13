package dataset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/graph"
)

func kinds(r CheckReport) map[string]Finding {
	found := map[string]Finding{}
	for _, f := range r.Findings {
		found[f.Kind] = f
	}
	return found
}

// TestCheckFinds builds one folder with every fault that Open can let pass.
//
// Long because it is a table of faults beside the folder that has them.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	type node struct {
		ID    string `parquet:"id"`
		Field string `parquet:"field,optional"`
		Title string `parquet:"title,optional"`
		Text  string `parquet:"text,optional"`
		Time  *int64 `parquet:"time,optional,timestamp(millisecond)"`
	}
	var nodes []node
	day := func(n int64) *int64 { n *= 86_400_000; return &n }
	for i := range 150 {
		nodes = append(nodes, node{ID: fmt.Sprint("n", i), Field: "large", Text: "words", Time: day(int64(i))})
	}
	nodes[3].ID, nodes[4].ID = "n2", ""
	nodes[5].Field, nodes[6].Field = "", "tiny"
	nodes[7].Text, nodes[8].Time = " \n", nil
	nodes[149].Title = "Alone"
	links := []linkRow{{1, 1}, {2, 999}, {-1, 2}, {2, 1}, {2, 1}, {1, 2}, {8, 9}, {9, 8}}
	for i := int64(10); i < 149; i++ {
		links = append(links, linkRow{i, 0})
	}
	dir := t.TempDir()
	put(t, dir, NodesFile, nodes)
	put(t, dir, LinksFile, links)
	put(t, dir, ExposuresFile, []exposureRow{
		{10, 0, nil, true, true},
		{10, 0, ptr(1.), false, true}, // linked though not exposed, against its probability
		{10, 0, nil, true, false},     // a link after all
		{3, 3, nil, true, false},
	})
	vectors := npyHeaderBytes(true, 150, 1)
	for i := range 150 {
		switch i {
		case 11:
			vectors = append(vectors, 0, 0)
		case 12:
			vectors = append(vectors, 0, 0x7e)
		default:
			vectors = append(vectors, 0, 0x3c)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, VectorsFile), vectors, 0o666))
	if _, err := Open(background, dir, OpenOptions{}); err == nil {
		t.Fatal("a faulty dataset was opened as if it were sound")
	}
	d, err := Open(background, dir, OpenOptions{Tolerant: true})
	must(t, err)
	defer d.Close()
	r, err := Check(background, d)
	must(t, err)
	if r.Nodes != 150 || r.Links != 143 || r.Exposures != 4 || r.Dimension != 1 || r.Fields != 2 {
		t.Errorf("%+v", r)
	}
	found := kinds(r)
	for kind, want := range map[string]Finding{
		"duplicate-id": {Severity: Wrong, Count: 1, Example: `"n2" in row 3`,
			Message: "1 node has an id that an earlier one has"},
		"empty-id":  {Severity: Wrong, Count: 1, Example: "row 4", Message: "no id"},
		"dangling":  {Severity: Wrong, Count: 2, Example: "row 1 of links.parquet", Message: "2 links go"},
		"self-link": {Severity: Wrong, Count: 1, Example: `"n1"`, Message: "to itself"},
		"repeated":  {Severity: Note, Count: 1, Message: "1 link is there more than once"},
		"isolated": {Severity: Note, Count: 6, Example: `"n2 (row 3)"`,
			Message: "6 of 150 nodes have no link"},
		"hub": {Severity: Weak, Count: 1, Example: `"n0" has 139 of 143`,
			Message: "1 node is linked from"},
		"untimed":             {Severity: Note, Count: 1, Example: `"n8"`, Message: "no time"},
		"against-time":        {Severity: Note, Count: 1, Example: `"n1" links to "n2"`, Message: "older"},
		"cycle":               {Severity: Note, Count: 1, Example: "links to", Message: "closes cycles"},
		"fieldless":           {Severity: Note, Count: 1, Example: `"n5"`, Message: "no field"},
		"tiny-field":          {Severity: Weak, Count: 1, Example: `"tiny" has 1`, Message: "fewer than 20"},
		"textless":            {Severity: Note, Count: 1, Example: `"n7"`, Message: "no text"},
		"zero-vector":         {Severity: Note, Count: 1, Example: `"n11"`, Message: "zeros"},
		"not-finite":          {Severity: Wrong, Count: 1, Example: `"n12"`, Message: "NaN"},
		"linked-unexposed":    {Severity: Weak, Count: 1, Example: "row 1", Message: "not exposed"},
		"exposure-disagrees":  {Severity: Weak, Count: 1, Example: "row 2", Message: "differs"},
		"impossible-exposure": {Severity: Wrong, Count: 1, Example: "row 1", Message: "excludes"},
		"exposed-self":        {Severity: Wrong, Count: 1, Example: "row 3", Message: "itself"},
		"shown-only":          {Severity: Weak, Count: 4, Message: "a link counts as shown, and 1 row is linked"},
		"no-manifest":         {Severity: Note, Count: 1, Message: ManifestFile},
	} {
		got, ok := found[kind]
		if !ok || got.Severity != want.Severity || got.Count != want.Count ||
			!strings.Contains(got.Example, want.Example) || !strings.Contains(got.Message, want.Message) {
			t.Errorf("%s is\n%+v, want\n%+v", kind, got, want)
		}
		delete(found, kind)
	}
	if len(found) > 0 {
		t.Errorf("found besides: %+v", found)
	}
	if r.Wrong() != 7 {
		t.Errorf("%d kinds of fault", r.Wrong())
	}
	if !slices.IsSortedFunc(r.Findings, func(a, b Finding) int {
		return slices.Index([]Severity{Wrong, Weak, Note}, a.Severity) - slices.Index([]Severity{Wrong, Weak, Note},
			b.Severity)
	}) {
		t.Error("the worst do not come first")
	}
}

// TestCheckSound wants nothing said of a dataset that has nothing wrong with it.
func TestCheckSound(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for i := range 200 {
		_, err := b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint("field ", i%3),
			Time: time.Unix(int64(i), 0)})
		must(t, err)
		for k := range min(i, 3) {
			must(t, b.AddLinkIndex(int32(i), int32(i-1-k)))
		}
	}
	g, _, err := b.Build()
	must(t, err)
	dir := filepath.Join(t.TempDir(), "d")
	content := Content{Graph: g, Text: func(i int32) (string, error) { return fmt.Sprint("text ", i), nil }}
	_, err = Write(background, dir, content, WriteOptions{})
	must(t, err)
	d, err := Open(background, dir, OpenOptions{Tolerant: true})
	must(t, err)
	defer d.Close()
	r, err := Check(background, d)
	must(t, err)
	if len(r.Findings) != 1 || r.Findings[0].Kind != "no-vectors" || r.Findings[0].Severity != Note ||
		r.Findings[0].Fix != "encode the titles and texts" {
		t.Errorf("found %+v", r.Findings)
	}
	ctx, stop := context.WithCancel(background)
	stop()
	if _, err := Check(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped check returned %v", err)
	}
}

// TestCheckChanged wants changed bytes reported beside the rest.
func TestCheckChanged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Write(background, dir, randomContent(t, 5), WriteOptions{})
	must(t, err)
	path := filepath.Join(dir, VectorsFile)
	raw, err := os.ReadFile(path)
	must(t, err)
	raw[len(raw)-3] ^= 1
	must(t, os.WriteFile(path, raw, 0o666))
	d, err := Open(background, dir, OpenOptions{Tolerant: true})
	must(t, err)
	defer d.Close()
	r, err := Check(background, d)
	must(t, err)
	if f := kinds(r)["changed"]; f.Severity != Wrong || !strings.Contains(f.Message, path) || f.Fix == "" {
		t.Errorf("%+v", r.Findings)
	}
	wantError(t, d.Verify(background), ErrChecksum, path)
}

func TestCheckNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes int
		kinds []string
	}{"empty": {0, []string{"no-nodes", "no-links"}},
		"bare": {3, []string{"no-links", "no-text", "no-fields", "no-time"}}} {
		var b graph.Builder
		for i := range c.nodes {
			_, err := b.AddNode(graph.Node{ID: fmt.Sprint(i)})
			must(t, err)
		}
		g, _, err := b.Build()
		must(t, err)
		found := findingsOf(t, Content{Graph: g})
		for _, kind := range c.kinds {
			if found[kind].Message == "" {
				t.Errorf("%s: no %s in %+v", name, kind, found)
			}
		}
	}
}

// Titles are enough to make vectors of; wide ones are to be reduced.
func TestCheckVectors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		title string
		dim   int
		shop  bool
		kind  string
		says  string
	}{
		"titles":  {"a title", 0, false, "no-vectors", "encode the titles"},
		"people":  {"a title", 0, true, "no-vectors", "nothing, or encode the titles"},
		"nothing": {"", 0, false, "no-text", "column text or title"},
		"wide":    {"", wideFrom + 1, false, "wide", "reduce them"},
		"usual":   {"", wideFrom, false, "", ""},
	} {
		var b graph.Builder
		for i := range 30 {
			n := graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint(i % 2), Title: c.title}
			if c.shop {
				n.Role = []graph.Role{graph.TargetOnly, graph.SourceOnly}[i%2]
			}
			_, err := b.AddNode(n)
			must(t, err)
		}
		must(t, b.AddLink("1", "0"))
		g, _, err := b.Build()
		must(t, err)
		if c.dim > 0 {
			v, err := graph.NewVectors(30, c.dim)
			must(t, err)
			defer v.Close()
			g, err = g.WithVectors(v)
			must(t, err)
		}
		dir := filepath.Join(t.TempDir(), "d")
		_, err = Write(background, dir, Content{Graph: g}, WriteOptions{})
		must(t, err)
		d, err := Open(background, dir, OpenOptions{Tolerant: true})
		must(t, err)
		r, err := Check(background, d)
		must(t, err)
		found := kinds(r)
		for _, kind := range []string{"no-vectors", "no-text", "wide"} {
			if f, is := found[kind]; is != (kind == c.kind) || is && !strings.Contains(f.Fix, c.says) {
				t.Errorf("%s: %s is %+v", name, kind, f)
			}
		}
		must(t, d.Close())
	}
}

// Links have the same place in an error as in a report, and neither names anything of Go.
func TestLinkFaultsAreNamedAlike(t *testing.T) {
	t.Parallel()
	type link struct {
		Source string `parquet:"source"`
		Target string `parquet:"target"`
	}
	for name, bad := range map[string]link{"dangling": {"a", "missing"}, "self-link": {"a", "a"}} {
		dir := t.TempDir()
		put(t, dir, NodesFile, []foreignNode{{ID: ptr("a")}, {ID: ptr("b")}})
		links := make([]link, 700)
		for i := range links {
			links[i] = link{"a", "b"}
		}
		links[622] = bad
		put(t, dir, LinksFile, links)
		_, err := Open(background, dir, OpenOptions{})
		wantError(t, err, map[string]error{"dangling": graph.ErrUnknownNode, "self-link": graph.ErrSelfLink}[name],
			"row 622")
		d, tolerated := Open(background, dir, OpenOptions{Tolerant: true})
		must(t, tolerated)
		r, failed := Check(background, d)
		must(t, failed)
		must(t, d.Close())
		f := kinds(r)[name]
		for _, text := range []string{err.Error(), f.Example} {
			if !strings.Contains(text, "row 622") || strings.Contains(text, "number") ||
				strings.Contains(text, "Drop") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// A sealed folder opens without RowNumbers; its files are as they were, and one that changes
// later is found out.
func TestSeal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, NodesFile, []foreignNode{{ID: ptr("5")}, {ID: ptr("9")}})
	put(t, dir, LinksFile, []numberLink{{ptr(int32(1)), ptr(int32(0))}, {ptr(int32(1)), ptr(int32(0))}})
	must(t, os.WriteFile(filepath.Join(dir, VectorsFile), append(npyHeaderBytes(true, 2, 1), 0, 60, 0, 0), 0o666))
	_, err := Open(background, dir, OpenOptions{})
	wantError(t, err, ErrAmbiguous, "set rowNumbers, and seal")
	d, err := Open(background, dir, OpenOptions{RowNumbers: true})
	must(t, err)
	m, err := d.Seal(background, Provenance{Source: "a test"})
	must(t, err)
	must(t, d.Close())
	if m.Links != 2 || m.Vectors.Dimension != 1 || len(m.Files) != 3 {
		t.Errorf("%+v", m)
	}
	d, err = Open(background, dir, OpenOptions{Verify: true})
	must(t, err)
	if !d.Graph().HasLink(1, 0) || d.Manifest().Provenance.Source != "a test" {
		t.Errorf("%+v", d.Manifest())
	}
	if again, err := d.Seal(background, Provenance{}); err != nil || again.Provenance.Source != "a test" {
		t.Errorf("sealed twice: %+v, %v", again, err)
	}
	must(t, d.Close())
	put(t, dir, LinksFile, []numberLink{{ptr(int32(0)), ptr(int32(1))}})
	_, err = Open(background, dir, OpenOptions{})
	wantError(t, err, ErrChecksum, LinksFile)

	faulty := t.TempDir()
	put(t, faulty, NodesFile, []foreignNode{{ID: ptr("a")}, {ID: ptr("a")}})
	put(t, faulty, LinksFile, []numberLink{{ptr(int32(1)), ptr(int32(0))}})
	d, err = Open(background, faulty, OpenOptions{Tolerant: true})
	must(t, err)
	defer d.Close()
	_, err = d.Seal(background, Provenance{})
	wantError(t, err, ErrContent, "fix them first")
	if left := listing(t, faulty); len(left) != 2 {
		t.Errorf("the folder holds %v", left)
	}
}

// Of people and items, times of links and of items matter, and those of people do not.
func TestCheckOfAvailability(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		link int64
		item time.Time
		want string
	}{
		"no times":      {graph.NoTime, time.Time{}, "no-time"},
		"links alone":   {5, time.Time{}, "untimed"},
		"nothing lacks": {5, time.Unix(3, 0), ""},
	} {
		var b graph.Builder
		for _, n := range []graph.Node{{ID: "anna", Role: graph.SourceOnly},
			{ID: "book", Role: graph.TargetOnly, Time: c.item}} {
			_, err := b.AddNode(n)
			must(t, err)
		}
		must(t, b.AddLinkAt(0, 1, c.link))
		g, _, err := b.Build()
		must(t, err)
		dir := filepath.Join(t.TempDir(), "shop")
		text := func(i int32) (string, error) { return []string{"", "a novel"}[i], nil } // people have none
		_, err = Write(background, dir, Content{Graph: g, Text: text}, WriteOptions{})
		must(t, err)
		d, err := Open(background, dir, OpenOptions{})
		must(t, err)
		report, err := Check(background, d)
		must(t, err)
		d.Close()
		found, got := kinds(report), ""
		for _, kind := range []string{"no-time", "untimed", "textless"} {
			if _, is := found[kind]; is {
				got += kind
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// checked writes a graph with vectors and exposures and checks it.
func checked(t *testing.T, nodes []graph.Node, links [][2]int32, vectors [][]float32,
	content Content) map[string]Finding {
	t.Helper()
	var b graph.Builder
	for _, n := range nodes {
		_, err := b.AddNode(n)
		must(t, err)
	}
	for _, l := range links {
		must(t, b.AddLinkIndex(l[0], l[1]))
	}
	g, _, err := b.Build()
	must(t, err)
	if vectors != nil {
		v, err := graph.NewVectors(len(nodes), len(vectors[0]))
		must(t, err)
		defer v.Close()
		for i, row := range vectors {
			must(t, v.Set(int32(i), row))
		}
		g, err = g.WithVectors(v)
		must(t, err)
	}
	content.Graph = g
	return findingsOf(t, content)
}

// findingsOf writes a dataset and checks it.
func findingsOf(t *testing.T, content Content) map[string]Finding {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Write(background, dir, content, WriteOptions{})
	must(t, err)
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer d.Close()
	r, err := Check(background, d)
	must(t, err)
	return kinds(r)
}

// datedNodes are nodes of two fields, a day apart.
func datedNodes(n int) (nodes []graph.Node) {
	for i := range n {
		nodes = append(nodes, graph.Node{ID: fmt.Sprint("n", i), Field: fmt.Sprint(i % 2),
			Time: time.Unix(int64(i)*86_400, 0)})
	}
	return nodes
}

// Vectors that are far longer or shorter than the others are named; so are those that float32 cannot multiply, and
// those that are all the same.
func TestCheckLengths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scale, one float32 // of all, and of the eighth besides
		same       bool
		kind, says string
	}{
		"usual":           {1, 1, false, "", ""},
		"millions":        {1e6, 1, false, "", ""},
		"hundred times":   {1, 100, false, "", ""},
		"long":            {1, 1e4, false, "long-vector", "1 node has a vector more than 256 times as long"},
		"endless":         {1, 1e30, false, "long-vector", `"n7" is`},
		"short":           {1, 1e-4, false, "short-vector", `"n7" is`},
		"all are long":    {1e18, 1, false, "vector-scale", "divide all vectors by"},
		"all are short":   {1e-30, 1, false, "vector-scale", "overflow or vanish in float32"},
		"all are the one": {1, 1, true, "same-vectors", "All 40 vectors are the same, so that texts tell nothing"},
		"all are zeros":   {0, 1, true, "zero-vector", "40 of 40 nodes have a vector of zeros"},
	} {
		r := rand.New(rand.NewPCG(3, 3))
		rows := make([][]float32, 40)
		for i := range rows {
			rows[i] = []float32{c.scale * float32(1+r.Float64()), c.scale * float32(r.NormFloat64())}
			if c.same {
				rows[i] = []float32{c.scale, 2 * c.scale}
			}
		}
		rows[7][0], rows[7][1] = c.one*rows[7][0], c.one*rows[7][1]
		found := checked(t, datedNodes(40), [][2]int32{{1, 0}, {2, 1}, {9, 7}}, rows, Content{})
		for _, kind := range []string{"long-vector", "short-vector", "vector-scale", "same-vectors", "zero-vector"} {
			f, is := found[kind]
			if is != (kind == c.kind) || is && !strings.Contains(f.Message+f.Example+f.Fix, c.says) {
				t.Errorf("%s: %s is %+v", name, kind, f)
			}
		}
	}
}

// Vectors are not said to follow from links that cannot tell: too few, or between all pairs.
func TestCheckEchoNeedsNeighboursThatDiffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes int
		links func(i, j int32) bool
		echo  bool // the vectors are those of the next node
		want  bool
	}{
		"one link":            {30, func(i, j int32) bool { return i == 7 && j == 3 }, false, false},
		"two nodes":           {2, func(i, j int32) bool { return i > j }, false, false},
		"all pairs":           {30, func(i, j int32) bool { return i > j }, false, false},
		"all pairs, both way": {30, func(i, j int32) bool { return i != j }, false, false},
		"one's own":           {30, func(i, j int32) bool { return i == j+1 && i%2 == 1 }, false, false},
		"the neighbour's":     {30, func(i, j int32) bool { return i == j+1 && i%2 == 1 }, true, true},
	} {
		r := rand.New(rand.NewPCG(4, 4))
		rows := make([][]float32, c.nodes)
		var links [][2]int32
		for i := range rows {
			rows[i] = []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}
			if c.echo && i%2 == 1 {
				rows[i] = rows[i-1]
			}
			for j := range c.nodes {
				if c.links(int32(i), int32(j)) {
					links = append(links, [2]int32{int32(i), int32(j)})
				}
			}
		}
		if f, is := checked(t, datedNodes(c.nodes), links, rows, Content{})["echo"]; is != c.want {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A log that contradicts itself is said to, with what is made of it; and one that a fit refuses is known before.
func TestCheckLogs(t *testing.T) {
	t.Parallel()
	log := func(shown ...bool) *Exposures {
		e := &Exposures{}
		for k, is := range shown { // pairs of node 9 that have no link; the last two rows are one pair
			e.Source, e.Target = append(e.Source, 9), append(e.Target, int32(min(k, len(shown)-2)))
			e.Exposed, e.Linked = append(e.Exposed, is), append(e.Linked, false)
		}
		return e
	}
	linked := log(false, false, false)
	linked.Linked = []bool{true, true, true}
	for name, c := range map[string]struct {
		exposures *Exposures
		kind      string // of the log
		want      string // finding
		says      string
	}{
		"sound":         {log(true, false, true, true), "", "", ""},
		"contradiction": {log(true, false, true, false), "", "contradicted-exposure", "1 pair is in the log both as"},
		"the other way": {log(true, false, false, true), "", "contradicted-exposure", `"n9" and "n2"`},
		"shown alone":   {log(true, true, true), "", "shown-only", "only pairs that were shown, so it cannot tell"},
		"linked":        {linked, "", "shown-only", "shown or linked (a link counts as shown, and 3 rows are"},
		"complete":      {log(true, true, true), "complete", "", ""},
	} {
		content := Content{Exposures: c.exposures, Log: c.kind}
		found := checked(t, datedNodes(20), [][2]int32{{1, 0}, {9, 15}}, nil, content)
		for _, kind := range []string{"contradicted-exposure", "shown-only"} {
			f, is := found[kind]
			if is != (kind == c.want) || is && !strings.Contains(f.Message+f.Example, c.says) {
				t.Errorf("%s: %s is %+v", name, kind, f)
			}
		}
	}
}

// Times that are all the same tell nothing of what came first.
func TestCheckOneTime(t *testing.T) {
	t.Parallel()
	nodes := datedNodes(6)
	if f, is := checked(t, nodes, [][2]int32{{1, 0}}, nil, Content{})["one-time"]; is {
		t.Errorf("%+v", f)
	}
	for i := range nodes {
		nodes[i].Time = time.Unix(86_400, 0)
	}
	f := checked(t, nodes, [][2]int32{{1, 0}}, nil, Content{})["one-time"]
	if f.Count != 6 || f.Severity != Note || !strings.Contains(f.Message, "All 6 times of nodes are the same") ||
		f.Example != "1970-01-02 00:00:00" {
		t.Errorf("%+v", f)
	}
	for second, want := range map[int64]int{5: 3, 6: 0} {
		var b graph.Builder
		for _, n := range []graph.Node{{ID: "anna", Role: graph.SourceOnly}, {ID: "bert", Role: graph.SourceOnly},
			{ID: "book", Role: graph.TargetOnly}, {ID: "lamp", Role: graph.TargetOnly}} {
			_, err := b.AddNode(n)
			must(t, err)
		}
		must(t, b.AddLinkAt(0, 2, 5))
		must(t, b.AddLinkAt(0, 3, second))
		must(t, b.AddLinkAt(1, 3, 9))
		g, _, err := b.Build()
		must(t, err)
		if f := findingsOf(t, Content{Graph: g})["one-time"]; f.Count != want {
			t.Errorf("times 5 and %d: %+v", second, f)
		}
	}
}
