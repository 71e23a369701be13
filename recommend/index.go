package recommend

import (
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"unseen/dataset"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/model"
)

// The files of an index.
const (
	IndexFile   = "index.json"
	IndexIDs    = "ids.txt"
	IndexQuery  = "query.npz"
	IndexReadMe = "README.txt"
)

// IndexFormat is the version of index.json.
const IndexFormat = 1

// Index says what a folder holds with which another program searches: index.json.
type Index struct {
	Kind    string   `json:"kind"` // "unseen-index"
	Format  int      `json:"format"`
	Nodes   int      `json:"nodes"`
	Dim     int      `json:"dim"`
	Metric  string   `json:"metric"` // always "inner product"
	Link    string   `json:"link"`   // the link model
	Query   string   `json:"query"`  // how q is made of h, in NumPy
	Score   string   `json:"score"`  // what lists are ordered by: the logit of ŷ, or its mean over all assumptions
	Offsets bool     `json:"offsets"`
	Values  bool     `json:"values,omitempty"` // what a target adds by itself counts: slope·values
	Fields  []string `json:"fields"`
	Vectors string   `json:"vectors"` // "linked", "copied", "converted from float16" or "factors"
	// Targets says how many rows may be recommended, where these are not all: query.npz lists them as targets.
	Targets int `json:"targets,omitempty"`
}

// What explains an index, of vectors and of learned factors.
var (
	//go:embed index.txt
	indexReadMe string
	//go:embed index_factors.txt
	factorsReadMe string
)

// WriteIndex writes a folder with which other programs find what this model recommends, by maximum inner product
// over the vectors as they are: FAISS, pgvector, Qdrant, Elasticsearch.
//
//	vectors.npy  h, float32, a row per node: what is indexed
//	ids.txt      its ids, one per line
//	query.npz    what makes the query q of a source's h: w (q = w⊙h), or A and B (q = Bᵀ(A·h)); offsets and fields;
//	             slope and values, where assumptions differ about popularity; of learned factors queries, sources and
//	             constants, and vectors.npy has t instead of h (model.InnerProduct)
//	index.json   an Index
//	README.txt   how
//
// A new model changes query.npz alone: an index over the vectors stays. Of factors it changes both.
// vectors is the file of the graph's vectors, or "": if it is float32 it is linked and takes no
// space, which is safe as a dataset's files are replaced and never changed. A folder that is there
// is replaced only if it holds an index and force is given.
func (r *Recommender) WriteIndex(ctx context.Context, dir, vectors string, force bool) (*Index, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	x, files, err := r.index()
	if err != nil {
		return nil, err
	}
	dir = filepath.Clean(dir)
	if err := replaceable(dir, force); err != nil {
		return nil, err
	}
	if err := atomicfile.WriteFolder(dir, func(folder string) error {
		put := func(name string, write func(w *bufio.Writer) error) error {
			file, err := os.Create(filepath.Join(folder, name))
			if err != nil {
				return err
			}
			w := bufio.NewWriterSize(file, 1<<20)
			if err = write(w); err == nil {
				err = w.Flush()
			}
			return cmp.Or(err, file.Close())
		}
		if err := r.indexVectors(ctx, folder, vectors, x, put); err != nil {
			return err
		}
		for _, f := range []struct {
			name  string
			write func(w *bufio.Writer) error
		}{
			{IndexIDs, r.indexIDs},
			{IndexQuery, func(w *bufio.Writer) error { return writeNpz(w, files) }},
			{IndexReadMe, func(w *bufio.Writer) error { _, err := w.WriteString(x.explain()); return err }},
			{IndexFile, x.write},
		} {
			if err := put(f.name, f.write); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return x, nil
}

// mostIndexFields bounds the table of offsets, at 256 MiB.
const mostIndexFields = 8192

// index says how to search with the model, and returns the arrays that make a query.
func (r *Recommender) index() (x *Index, files []namedArray, err error) {
	if r.nodes.FieldCount > mostIndexFields {
		return nil, nil, fmt.Errorf("%w: %d fields, and an index has an offset for every pair of them; merge them "+
			"to %d or fewer", ErrModel, r.nodes.FieldCount, mostIndexFields)
	}
	fields := r.nodes.FieldCount
	offsets := make([]float32, fields*fields)
	x = &Index{Kind: "unseen-index", Format: IndexFormat, Nodes: r.g.Len(), Metric: "inner product",
		Link: r.model.Link.Kind()}
	switch inner := r.model.Link.(type) {
	case model.VectorQuery:
		files, err = r.vectorQueries(x, inner, offsets)
	case model.InnerProduct:
		files = r.factorQueries(x, inner, offsets)
	default:
		err = fmt.Errorf("%w: a %s model is no inner product, which is what an index searches by; fit a diagonal or "+
			"low-rank one", ErrModel, x.Link)
	}
	if err != nil {
		return nil, nil, err
	}
	for f := range fields {
		for _, v := range offsets[f*fields : (f+1)*fields] {
			x.Offsets = x.Offsets || v != offsets[f*fields]
		}
		x.Fields = append(x.Fields, r.g.FieldName(uint16(f)))
	}
	own := make([]int32, r.g.Len())
	for i := range own {
		own[i] = int32(r.g.Field(int32(i)))
	}
	if r.ranker.Slope != 0 {
		x.Values = true
		x.Score += " + slope * values"
		files = append(files, namedArray{"slope", array{[]int{1}, []float32{r.ranker.Slope}}},
			namedArray{"values", array{[]int{len(own)}, r.ranker.Popularity}})
	}
	files = append(files, namedArray{"offsets", array{[]int{fields, fields}, offsets}},
		namedArray{"fields", array{[]int{len(own)}, own}})
	if r.g.TwoSided() {
		x.Targets = len(r.g.Targets())
		files = append(files, namedArray{"targets", array{[]int{x.Targets}, r.g.Targets()}})
	}
	return x, files, nil
}

// vectorQueries returns the arrays that make a query of a source's vector, and sets the offsets.
func (r *Recommender) vectorQueries(x *Index, inner model.VectorQuery, offsets []float32) ([]namedArray, error) {
	x.Dim = r.nodes.Vectors.Dim()
	x.Score = "z = q @ h_target + offsets[field of source, field of target]"
	arrays := map[string]array{}
	if layout, named := inner.(model.Layout); named {
		at := 0
		for _, p := range layout.Parts() {
			arrays[p.Name] = array{p.Shape, r.ranker.Params[at : at+p.Size()]}
			at += p.Size()
		}
	}
	// what the target's field adds, b among it, is what is left of a source at the origin
	fields, q, zero := r.nodes.FieldCount, make([]float32, x.Dim), make([]float32, x.Dim)
	for f := range fields {
		inner.QueryOf(q, offsets[f*fields:(f+1)*fields], r.ranker.Params, zero, uint16(f))
	}
	_, diagonal := arrays["w"]
	_, bilinear := arrays["A"]
	switch {
	case diagonal:
		x.Query = "q = w * h"
		return []namedArray{{"w", arrays["w"]}}, nil
	case bilinear:
		x.Query = "q = (A @ h) @ B"
		return []namedArray{{"A", arrays["A"]}, {"B", arrays["B"]}}, nil
	}
	return nil, fmt.Errorf("%w: queries of a %s model cannot be exported; fit a diagonal or low-rank one", ErrModel,
		x.Link)
}

// factorQueries returns the queries of all sources, and sets the offsets: what a target's field adds to the constant of
// a source, which is what the source's own field has.
func (r *Recommender) factorQueries(x *Index, inner model.InnerProduct, offsets []float32) []namedArray {
	x.Dim = r.ranker.rows.Dim()
	x.Query = "q = queries[k]      sources[k] being the row of the source"
	x.Score = "z = q @ t_target + constants[k] + offsets[field of source, field of target]"
	sources, fields := r.g.Sources(), r.nodes.FieldCount
	queries, constants := make([]float32, len(sources)*x.Dim), make([]float32, len(sources))
	row := make([]float32, fields)
	for k, i := range sources {
		inner.Query(queries[k*x.Dim:(k+1)*x.Dim], row, r.ranker.Params, i)
		own := int(r.g.Field(i))
		constants[k] = row[own]
		for f, v := range row {
			offsets[own*fields+f] = v - row[own]
		}
	}
	return []namedArray{{"queries", array{[]int{len(sources), x.Dim}, queries}},
		{"sources", array{[]int{len(sources)}, sources}}, {"constants", array{[]int{len(sources)}, constants}}}
}

// replaceable refuses a folder with files, unless it holds an index and force is given.
func replaceable(dir string, force bool) error {
	entries, err := os.ReadDir(dir)
	switch {
	case os.IsNotExist(err) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("%w; choose another folder", err)
	case !force:
		return hint.Wrap(fmt.Errorf("%w: %s is not empty", ErrQuery, dir),
			"choose another folder, or replace an index with %v", hint.Setting("force"))
	}
	if _, err := os.Stat(filepath.Join(dir, IndexFile)); err != nil {
		return fmt.Errorf("%w: %s holds no %s, so it is no index to replace; choose another folder", ErrQuery, dir,
			IndexFile)
	}
	return nil
}

func (x *Index) write(w *bufio.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(x)
}

// indexVectors links the file of float32 vectors, or writes them.
func (r *Recommender) indexVectors(ctx context.Context, folder, from string, x *Index,
	put func(string, func(*bufio.Writer) error) error) error {
	v := r.ranker.rows
	x.Vectors = "copied"
	if v != r.nodes.Vectors {
		x.Vectors = "factors"
	} else if v.Half() {
		x.Vectors = "converted from float16"
	} else if from != "" && os.Link(from, filepath.Join(folder, dataset.VectorsFile)) == nil {
		x.Vectors = "linked"
		return nil
	}
	return put(dataset.VectorsFile, func(w *bufio.Writer) error {
		if _, err := w.Write(dataset.NpyHeader{Kind: "<f4",
			Shape: []int64{int64(v.Len()), int64(v.Dim())}}.Append(nil)); err != nil {
			return err
		}
		row := make([]float32, v.Dim())
		var raw []byte
		for i := range int32(v.Len()) {
			if i%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			v.Load(row, i)
			raw = appendNumbers(raw[:0], row)
			if _, err := w.Write(raw); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Recommender) indexIDs(w *bufio.Writer) error {
	for i := range int32(r.g.Len()) {
		id := r.g.ID(i)
		if strings.ContainsAny(id, "\r\n") {
			return fmt.Errorf("%w: the id %q of node %d has a line break in it, and %s has one id per line; "+
				"give the node another id", ErrModel, id, i, IndexIDs)
		}
		w.WriteString(id) // an error stays, and Flush returns it
		w.WriteByte('\n')
	}
	return nil
}

// explain is the README of an index.
func (x *Index) explain() string {
	text, rows := indexReadMe, "h"
	if x.Vectors == "factors" {
		text, rows = factorsReadMe, "t"
	}
	offsets := "The offsets are the same for every target, so the order is that of q @ " + rows + "_target."
	if x.Offsets {
		offsets = "The offsets differ by the target's field: search each field by itself, add its\noffset, and " +
			"merge the lists."
	}
	if x.Values {
		offsets += "\nTargets add slope * values: search for some hundred, add it, and sort again."
	}
	if x.Targets > 0 {
		offsets += fmt.Sprintf("\nOnly %d rows may be recommended: index those that query.npz lists as targets.",
			x.Targets)
	}
	return strings.NewReplacer("{{link}}", x.Link, "{{query}}", x.Query, "{{score}}", x.Score, "{{offsets}}", offsets,
		"{{nodes}}", fmt.Sprint(x.Nodes), "{{dim}}", fmt.Sprint(x.Dim), "{{vectors}}", x.Vectors).Replace(text)
}

// array is []float32 or []int32 with a shape.
type array struct {
	shape []int
	data  any
}

type namedArray struct {
	name string
	array
}

// writeNpz writes arrays as numpy.savez does. The same arrays make the same bytes.
func writeNpz(to io.Writer, arrays []namedArray) error {
	archive := zip.NewWriter(to)
	for _, a := range arrays {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: a.name + ".npy", Method: zip.Store,
			Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return err
		}
		h := dataset.NpyHeader{Kind: "<f4"}
		for _, n := range a.shape {
			h.Shape = append(h.Shape, int64(n))
		}
		var raw []byte
		switch numbers := a.data.(type) {
		case []float32:
			raw = appendNumbers(nil, numbers)
		case []int32:
			h.Kind = "<i4"
			for _, n := range numbers {
				raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
			}
		}
		if _, err := w.Write(append(h.Append(nil), raw...)); err != nil {
			return err
		}
	}
	return archive.Close()
}

func appendNumbers(raw []byte, numbers []float32) []byte {
	for _, x := range numbers {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}
