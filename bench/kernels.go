package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"unseen/dataset"
	"unseen/internal/kern"
)

const (
	dim = 768 // the width of the paper's vectors
	k   = 100 // hits that are searched for
)

var kernels = []comparison{
	{"gather-dot", "one query against random rows, d=768; the peer is sequential reading", 0.70, "GB/s",
		func(b *bench) (float64, float64, error) { return b.gather(false) }},
	{"gather-axpy", "a weighted sum of random rows, d=768; the peer is sequential reading", 0.70, "GB/s",
		func(b *bench) (float64, float64, error) { return b.gather(true) }},
	{"block-product", "Z = A·Bᵀ, 2048×2048×768, against OpenBLAS sgemm", 0.90, "GF/s", (*bench).blockProduct},
	{"topk-1", "hundred best of 300k×768 for one query, exactly, against FAISS IndexFlatIP", 4, "queries/s",
		func(b *bench) (float64, float64, error) { return b.topK(300_000, 768, 1) }},
	{"topk-64", "the same for 64 queries at once", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.topK(300_000, 768, 64) }},
	{"topk-256-1", "the same of 217k×256, or of -data, for one query", 4, "queries/s",
		func(b *bench) (float64, float64, error) { return b.topK(217_000, 256, 1) }},
	{"topk-256-64", "and for 64 queries at once", 1.5, "queries/s",
		func(b *bench) (float64, float64, error) { return b.topK(217_000, 256, 64) }},
	{"topk-half-1", "float16 rows for one query; the peer is our own search of float32 rows", 1.4, "queries/s",
		func(b *bench) (float64, float64, error) { return b.topKOther(1, .999, halfSearch) }},
	{"topk-half-64", "the same for 64 queries at once, where arithmetic and not memory is the limit", .9, "queries/s",
		func(b *bench) (float64, float64, error) { return b.topKOther(64, .999, halfSearch) }},
	{"sigmoid-softplus", "σ and softplus of 64k logits in cache, against torch", 5, "Gelem/s",
		(*bench).sigmoidSoftplus},
}

func (b *bench) size(n int) int { return max(int(float64(n)*b.scale), 64) }

// rows returns n random rows.
func rows(n int, seed uint64) *kern.Matrix {
	m, err := kern.NewMatrix(n, dim)
	if err != nil {
		panic(err)
	}
	fill(m, seed)
	return m
}

// fill draws every number of a matrix.
func fill(m *kern.Matrix, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range m.Rows() {
		row := m.Row(i)
		for d := range row {
			row[d] = float32(rng.NormFloat64())
		}
	}
}

// gather measures reads of random rows against reads in order: the better of OpenBLAS's sdot
// over one long array and our own scan.
func (b *bench) gather(add bool) (float64, float64, error) {
	n := b.size(300_000)
	m := rows(n, 1)
	defer m.Close()
	rng := rand.New(rand.NewPCG(2, 2))
	idx := make([]int32, n/4)
	q, dst, scores := make([]float32, dim), make([]float32, len(idx)), make([]float32, n)
	ours := func() time.Duration {
		for k := range idx {
			idx[k] = int32(rng.IntN(n))
		}
		return timed(func() {
			if add {
				kern.AddRows(q, m, idx, dst)
			} else {
				kern.Dots(dst, q, m, idx)
			}
		})
	}
	scanned := time.Duration(1 << 62)
	stream := b.peers.timer("stream", map[string]any{"n": n * dim})
	best, blas, err := b.alternate(ours, func() (time.Duration, error) {
		scanned = min(scanned, timed(func() { kern.DotRange(scores, q, m, 0) }))
		return stream()
	})
	if err == nil {
		scanned = min(scanned, blas)
		_, err = b.peers.ask("forget", nil)
	}
	return gigabytes(len(idx), best), gigabytes(n, scanned), err
}

func gigabytes(rows int, d time.Duration) float64 { return float64(rows) * dim * 4 / float64(d) }

func (b *bench) blockProduct() (float64, float64, error) {
	n := b.size(2048)
	a, c := rows(n, 1), rows(n, 2)
	z, err := kern.NewMatrix(n, n)
	if err != nil {
		return 0, 0, err
	}
	defer func() { a.Close(); c.Close(); z.Close() }()
	best, peer, err := b.alternate(func() time.Duration { return timed(func() { kern.MulT(z, a, c) }) },
		b.peers.timer("sgemm", map[string]any{"m": n, "n": n, "d": dim}))
	operations := 2 * float64(n) * float64(n) * dim
	return operations / float64(best), operations / float64(peer), err
}

// topK compares the search by codes with FAISS over the same rows, which reach it through a file, and requires the same
// ids in the same order, except for scores that are equal within rounding.
func (b *bench) topK(n, dim, batch int) (float64, float64, error) {
	m, free, err := b.searched(n, dim)
	if err != nil {
		return 0, 0, err
	}
	defer free()
	queries, err := asked(m, batch)
	if err != nil {
		return 0, 0, err
	}
	codes, err := kern.Quantise(m, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { queries.Close(); codes.Close() }()
	dir, err := os.MkdirTemp("", "unseen-bench")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	if b.peers.cmd != nil {
		for name, matrix := range map[string]*kern.Matrix{"rows": m, "queries": queries} {
			if err := writeRows(filepath.Join(dir, name), matrix); err != nil {
				return 0, 0, err
			}
		}
	}
	arguments := map[string]any{"rows": filepath.Join(dir, "rows"), "queries": filepath.Join(dir, "queries"),
		"d": m.Dim(), "k": k}
	var hits [][]kern.RowScore
	best, peer, err := b.alternate(func() time.Duration {
		return timed(func() {
			hits = uninterrupted(kern.TopKCodes(context.Background(), codes, m,
				kern.CodeSearch{Queries: queries, K: k}, 1))
		})
	},
		func() (time.Duration, error) {
			reply, err := b.peers.ask("topk", arguments)
			if err != nil {
				return 0, err
			}
			for q := range hits {
				if err := sameHits(hits[q], reply.IDs[q]); err != nil {
					return 0, fmt.Errorf("query %d: %w", q, err)
				}
			}
			return time.Duration(reply.Seconds * 1e9), nil
		})
	if err == nil {
		_, err = b.peers.ask("forget", nil)
	}
	return float64(batch) / best.Seconds(), float64(batch) / peer.Seconds(), err
}

// searched returns the rows that are searched: those of -data if they have so many columns, or drawn ones.
func (b *bench) searched(n, dim int) (m *kern.Matrix, free func() error, err error) {
	if b.data != "" {
		d, err := dataset.Open(context.Background(), b.data, dataset.OpenOptions{})
		if err != nil {
			return nil, nil, err
		}
		if v := d.Graph().Vectors(); v != nil && v.Dim() == dim {
			return kern.MatrixOf(v), d.Close, nil
		}
		if err := d.Close(); err != nil {
			return nil, nil, err
		}
	}
	if m, err = kern.NewMatrix(b.size(n), dim); err != nil {
		return nil, nil, err
	}
	fill(m, 1)
	return m, m.Close, nil
}

// asked returns rows weighed as a model weighs them, to be searched for.
func asked(m *kern.Matrix, count int) (*kern.Matrix, error) {
	queries, err := kern.NewMatrix(count, m.Dim())
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(3, 1))
	weights := drawnWeights(m.Dim(), rng)
	for q := range count {
		row := queries.Row(q)
		m.Load(row, rng.IntN(m.Rows()))
		for d := range weights {
			row[d] *= weights[d]
		}
	}
	return queries, nil
}

// drawnWeights are those of a model that nobody fitted.
func drawnWeights(dim int, rng *rand.Rand) []float32 {
	weights := make([]float32, dim)
	for d := range weights {
		weights[d] = 1 + float32(rng.NormFloat64())
	}
	return weights
}

// sameHits returns an error where two searches differ by more than rounding, which may swap equal scores.
func sameHits(ours []kern.RowScore, theirs []int32) error {
	if len(ours) != len(theirs) {
		return fmt.Errorf("%d hits, FAISS has %d", len(ours), len(theirs))
	}
	scores := map[int32]float32{}
	for _, hit := range ours {
		scores[hit.Row] = hit.Score
	}
	const rounding = 1e-5
	for place, id := range theirs {
		score, found := scores[id]
		if !found && place == len(theirs)-1 { // what would be next is not known
			continue
		}
		if want := ours[place].Score; !found || math.Abs(float64(score-want)) > rounding*math.Abs(float64(want)) {
			return fmt.Errorf("place %d: ours is row %d with %v, FAISS's row %d with %v", place, ours[place].Row,
				want, id, score)
		}
	}
	return nil
}

// topKOther compares a search of other rows than float32 ones with the search of those, and requires a recall.
func (b *bench) topKOther(batch int, least float64,
	prepare func(m *kern.Matrix) (search rowSearch, free func(), err error)) (float64, float64, error) {
	n := b.size(300_000)
	m, queries := rows(n, 1), rows(batch, 3)
	defer func() { m.Close(); queries.Close() }()
	search, free, err := prepare(m)
	if err != nil {
		return 0, 0, err
	}
	defer free()
	best, peer, err := b.alternate(func() time.Duration { return timed(func() { search(queries) }) },
		func() (time.Duration, error) { return timed(func() { topK(m, queries) }), nil })
	if err != nil {
		return 0, 0, err
	}
	// a single list is too short to measure a recall
	common, total := 0, 0
	for round := range (64 + batch - 1) / batch {
		others := rows(batch, uint64(10+round))
		found, exact := search(others), topK(m, others)
		others.Close()
		for q := range exact {
			wanted := map[int32]bool{}
			for _, hit := range exact[q] {
				wanted[hit.Row] = true
			}
			for _, hit := range found[q] {
				if wanted[hit.Row] {
					common++
				}
			}
			total += len(exact[q])
		}
	}
	recall := float64(common) / float64(total)
	if b.notes != nil {
		fmt.Fprintf(b.notes, "recall %.5f of the %d best for %d queries\n", recall, k, total/k)
	}
	if recall < least {
		err = fmt.Errorf("recall %.4f; want at least %v", recall, least)
	}
	return float64(batch) / best.Seconds(), float64(batch) / peer.Seconds(), err
}

// rowSearch finds the best rows of queries.
type rowSearch func(queries *kern.Matrix) [][]kern.RowScore

func topK(m, queries *kern.Matrix) [][]kern.RowScore {
	return uninterrupted(kern.TopK(context.Background(), m, queries, k, 1))
}

// uninterrupted returns the result of a search that nobody cancels.
func uninterrupted(hits [][]kern.RowScore, err error) [][]kern.RowScore {
	if err != nil {
		panic(err)
	}
	return hits
}

func halfSearch(m *kern.Matrix) (rowSearch, func(), error) {
	half, err := kern.NewHalf(m.Rows(), m.Dim())
	if err != nil {
		return nil, nil, err
	}
	for i := range m.Rows() {
		half.Store(i, m.Row(i))
	}
	return func(queries *kern.Matrix) [][]kern.RowScore { return topK(half, queries) }, func() { half.Close() }, nil
}

func writeRows(path string, m *kern.Matrix) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	for i := range m.Rows() {
		row := m.Row(i)
		if _, err := file.Write(unsafe.Slice((*byte)(unsafe.Pointer(&row[0])), 4*len(row))); err != nil {
			file.Close()
			return fmt.Errorf("%s: %w; set TMPDIR to another folder", path, err)
		}
	}
	return file.Close()
}

func (b *bench) sigmoidSoftplus() (float64, float64, error) {
	const times = 50
	n := b.size(1 << 16)
	rng := rand.New(rand.NewPCG(4, 4))
	z, y, loss := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range z {
		z[i] = float32(rng.NormFloat64())
	}
	best, peer, err := b.alternate(func() time.Duration {
		return timed(func() {
			for range times {
				kern.SigmoidSoftplus(y, loss, z)
			}
		})
	}, b.peers.timer("sigmoid_softplus", map[string]any{"n": n, "times": times}))
	return float64(times*n) / float64(best), float64(times*n) / float64(peer), err
}
