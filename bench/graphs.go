package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"unseen/engine"
	"unseen/graph"
	"unseen/index"
	"unseen/internal/kern"
	"unseen/model"
)

// graphs compare the index with those of others, over rows of 256 numbers: -data, or drawn ones. Each side searches as
// narrowly as finds the share of the hundred best. They run only when named: building takes minutes.
var graphs = []comparison{
	{"index-build", "rows linked per second on one thread, 217k×256 or -data, against hnswlib (M 16, efC 200)", 1,
		"rows/s", func(b *bench) (float64, float64, error) { return b.graph("hnswlib", 0) }},
	{"index-memory", "rows per megabyte of the index, against hnswlib", 1, "rows/MB",
		func(b *bench) (float64, float64, error) { return b.graph("hnswlib", -1) }},
	{"index-985", "queries/s of one thread that find .985 of the hundred best, against hnswlib", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.graph("hnswlib", .985) }},
	{"index-998", "the same for .998", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.graph("hnswlib", .998) }},
	{"index-985-faiss", "for .985, against FAISS IndexHNSWFlat (M 16, efConstruction 200)", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.graph("faiss", .985) }},
	{"index-985-usearch", "for .985, against usearch (float32, connectivity 16, expansion_add 200)", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.graph("usearch", .985) }},
	{"index-985-ivf", "for .985, against FAISS IVF1024, PQ of 4 bits by fast scan, and rescoring", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.graph("ivf", .985) }},
	{"index-985-scann", "for .985, against ScaNN (a tree, 4 bits by anisotropic hashing, rescoring)", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.graph("scann", .985) }},
}

// madeGraph is what the comparisons of graphs share: it takes minutes to make.
type madeGraph struct {
	rows    *graph.Vectors
	queries *kern.Matrix // that search's are rows of
	web     *index.Web
	seconds float64
	search  engine.TargetSearch
	exact   [][]engine.Hit
	folder  string
	peers   map[string]answer // what building took
}

const graphQueries = 500

// makeGraph makes ours, and what it is compared by.
func (b *bench) makeGraph() (*madeGraph, error) {
	if b.made != nil {
		return b.made, nil
	}
	m, free, err := b.searched(217_000, 256)
	if err != nil {
		return nil, err
	}
	defer free()
	g := &madeGraph{peers: map[string]answer{}}
	if g.rows, err = graph.NewVectors(m.Rows(), m.Dim()); err != nil {
		return nil, err
	}
	row := make([]float32, m.Dim())
	for i := range m.Rows() {
		m.Load(row, i)
		if err := g.rows.Set(int32(i), row); err != nil {
			return nil, err
		}
	}
	queries, err := asked(m, graphQueries)
	if err != nil {
		return nil, err
	}
	g.queries = queries
	if b.model != "" {
		if err := weigh(queries, m, b.model); err != nil {
			return nil, err
		}
	}
	g.search = engine.TargetSearch{Targets: g.rows, K: k}
	for q := range queries.Rows() {
		g.search.Queries = append(g.search.Queries, engine.SearchQuery{Vector: queries.Row(q)})
	}
	began := time.Now()
	if g.web, err = index.Build(context.Background(), g.rows, index.Options{Threads: 1}); err != nil {
		return nil, err
	}
	g.seconds = time.Since(began).Seconds()
	g.search.Sketch = g.web.Sketch()
	if g.exact, err = (engine.CPU{}).TopK(context.Background(), g.search); err != nil {
		return nil, err
	}
	g.search.Sketch = nil
	if g.folder, err = os.MkdirTemp("", "unseen-bench"); err != nil {
		return nil, err
	}
	if b.peers.cmd != nil {
		for name, matrix := range map[string]*kern.Matrix{"rows": kern.MatrixOf(g.rows), "queries": queries} {
			if err := writeRows(filepath.Join(g.folder, name), matrix); err != nil {
				return nil, err
			}
		}
	}
	b.made = g
	return g, nil
}

// weightsOf reads the w of a diagonal model.
func weightsOf(path string, dim int) ([]float32, error) {
	file, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	w, ok := file.Tensor("link.w")
	weights, float := w.Data.([]float32)
	if !ok || !float || len(weights) != dim {
		return nil, fmt.Errorf("%s has no w of %d numbers; fit a diagonal model", path, dim)
	}
	return weights, nil
}

// weigh makes queries those of a model: rows weighed by its w.
func weigh(queries, m *kern.Matrix, path string) error {
	weights, err := weightsOf(path, m.Dim())
	if err != nil {
		return err
	}
	for q := range queries.Rows() {
		row := queries.Row(q)
		m.Load(row, (q*7919)%m.Rows())
		for d := range row {
			row[d] *= weights[d]
		}
	}
	return nil
}

// graph compares with a peer: how fast both are at a recall or, where that is 0 or below, what they take.
func (b *bench) graph(kind string, recall float64) (ours, peer float64, err error) {
	g, err := b.makeGraph()
	if err != nil {
		return 0, 0, err
	}
	rows := float64(g.rows.Len())
	if recall <= 0 {
		if ours = rows / g.seconds; recall < 0 {
			ours = rows / (float64(g.web.Bytes()) / 1e6)
		}
	} else if ours, err = g.fastest(b, recall, func(width int) (float64, [][]int32, error) {
		began := time.Now()
		found, err := g.web.TopK(context.Background(), g.search, min(width, index.MostWidth), 1)
		return time.Since(began).Seconds(), idsOf(found), err
	}); err != nil {
		return 0, 0, err
	}
	built, known := g.peers[kind]
	if !known {
		built, err = b.peers.ask("graph", map[string]any{"kind": kind, "rows": filepath.Join(g.folder, "rows"),
			"d": g.rows.Dim(), "k": k})
		if err != nil {
			return ours, 0, err
		}
		g.peers[kind] = built
	}
	switch {
	case recall == 0:
		return ours, rows / built.Seconds, nil
	case recall < 0:
		return ours, rows / (built.Bytes / 1e6), nil
	}
	peer, err = g.fastest(b, recall, func(width int) (float64, [][]int32, error) {
		found, err := b.peers.ask("graph_search", map[string]any{"kind": kind, "width": width, "k": k,
			"d": g.rows.Dim(), "queries": filepath.Join(g.folder, "queries")})
		return found.Seconds, found.IDs, err
	})
	return ours, peer, err
}

func idsOf(lists [][]engine.Hit) [][]int32 {
	out := make([][]int32, len(lists))
	for q, hits := range lists {
		for _, h := range hits {
			out[q] = append(out[q], h.Target)
		}
	}
	return out
}

// fastest returns the queries per second of the narrowest search that finds a share of the best.
func (g *madeGraph) fastest(b *bench, recall float64, search func(width int) (float64, [][]int32, error)) (float64,
	error) {
	for width := k; width <= 1<<14; width += width / 12 {
		best := 0.
		for range b.reps {
			seconds, ids, err := search(width)
			if err != nil {
				return 0, err
			}
			if g.share(ids) < recall {
				best = 0
				break
			}
			best = max(best, graphQueries/seconds)
		}
		if best > 0 {
			return best, nil
		}
	}
	return 0, fmt.Errorf("no search finds %.3f of the best", recall)
}

// share is the share of the best that was found.
func (g *madeGraph) share(found [][]int32) float64 {
	all, hit := 0, 0
	for q, hits := range g.exact {
		have := map[int32]bool{}
		for _, j := range found[q] {
			have[j] = true
		}
		for _, h := range hits {
			if all++; have[h.Target] {
				hit++
			}
		}
	}
	return float64(hit) / float64(max(all, 1))
}
