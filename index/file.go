package index

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"unseen/engine"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/internal/kern"
)

// Errors of this package wrap one of these.
var (
	// ErrFile: the file is no index, or damaged.
	ErrFile = errors.New("unusable index")
	// ErrOther: the index is of other vectors.
	ErrOther = errors.New("the index is of other vectors")
)

// The file begins with a page of its own: this line, and a line of JSON. Behind it come, each on a page of its own, the
// parts of header.parts. Numbers are little-endian.
const (
	magic    = "unseen index 3\n"
	pageSize = 4096
	hashed   = 16 << 20 // bytes that are hashed at a time
)

// header is what the first page says.
type header struct {
	Rows     int    `json:"rows"`
	Dim      int    `json:"dim"`
	Degree   int    `json:"degree"`
	Doors    int    `json:"doors"`
	Clusters int    `json:"clusters"`
	Vectors  string `json:"vectors"` // SHA-256 of the file of vectors
	Digest   string `json:"digest"`  // SHA-256 of the SHA-256 of every 16 MiB behind the first page
}

// mostRows is how many rows an index can have.
const mostRows = 1<<31 - 1

// parts returns the bytes of each part: codes, scales, rests, norms, links and doors, the centres of clusters, and both
// clusters of every row.
func (h header) parts() ([]int, error) {
	if h.Rows < 1 || h.Rows > mostRows || h.Degree < 1 || h.Degree > mostDegree || h.Doors < 1 || h.Doors > mostDoors ||
		h.Clusters < 1 || h.Clusters > h.Rows {
		return nil, fmt.Errorf("%d rows with %d links, %d doors and %d clusters", h.Rows, h.Degree, h.Doors, h.Clusters)
	}
	codes, numbers, err := kern.CodeSizes(h.Rows, h.Dim)
	if err != nil {
		return nil, err
	}
	return []int{codes, 4 * numbers, 4 * numbers, 4 * numbers, wideFor(h.Rows) * h.Rows * (h.Degree + 1), 4 * h.Doors,
		4 * h.Clusters * h.Dim, 4 * h.Rows, 4 * h.Rows}, nil
}

func pages(size int) int { return (size + pageSize - 1) / pageSize * pageSize }

// Save writes the web to a file, with the SHA-256 of the file of vectors that it is of. What was there is replaced when
// all is written.
func (w *Web) Save(path, vectors string) error {
	codes := w.sketch.Parts()
	content := [][]byte{codes.Bytes, kern.BytesOf(codes.Scales), kern.BytesOf(codes.Rests), kern.BytesOf(codes.Norms),
		w.links.bytes, kern.BytesOf(w.doors), kern.BytesOf(w.clusters.numbers()),
		kern.BytesOf(w.clusters.first), kern.BytesOf(w.clusters.second)}
	h := header{Rows: w.Rows(), Dim: codes.Dim, Degree: w.Degree(), Doors: len(w.doors), Clusters: w.Clusters(),
		Vectors: vectors}
	sizes, err := h.parts()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	body := func(to io.Writer) error {
		for k, part := range content {
			if len(part) != sizes[k] {
				return fmt.Errorf("%w: part %d has %d bytes, not %d", ErrFile, k, len(part), sizes[k])
			}
			if _, err := to.Write(part); err != nil {
				return err
			}
			if _, err := to.Write(make([]byte, pages(len(part))-len(part))); err != nil {
				return err
			}
		}
		return nil
	}
	sum := &digest{}
	if err := body(sum); err != nil {
		return err
	}
	h.Digest = sum.end()
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	first := append([]byte(magic), line...)
	if first = append(first, '\n'); len(first) > pageSize {
		return fmt.Errorf("%w: a header of %d bytes", ErrFile, len(first))
	}
	first = append(first, make([]byte, pageSize-len(first))...)
	err = atomicfile.Write(path, func(to io.Writer) error {
		if _, err := to.Write(first); err != nil {
			return err
		}
		return body(to)
	})
	runtime.KeepAlive(w) // whose memory is not the collector's
	return err
}

// digest hashes what is written to it piece by piece, as the header's Digest is.
type digest struct {
	sums []byte
	rest []byte
}

func (d *digest) Write(p []byte) (int, error) {
	n := len(p)
	for len(d.rest)+len(p) >= hashed {
		take := hashed - len(d.rest)
		d.add(append(d.rest, p[:take]...))
		d.rest, p = d.rest[:0], p[take:]
	}
	d.rest = append(d.rest, p...)
	return n, nil
}

func (d *digest) add(piece []byte) {
	sum := sha256.Sum256(piece)
	d.sums = append(d.sums, sum[:]...)
}

func (d *digest) end() string {
	if len(d.rest) > 0 {
		d.add(d.rest)
	}
	sum := sha256.Sum256(d.sums)
	return hex.EncodeToString(sum[:])
}

// digestOf is the digest of all of a body, by several threads.
func digestOf(ctx context.Context, body []byte, threads int) (string, error) {
	count := (len(body) + hashed - 1) / hashed
	sums := make([]byte, count*sha256.Size)
	err := kern.ChunksErr(ctx, count, 1, threads, func(_, k, _, _ int) error {
		sum := sha256.Sum256(body[k*hashed : min((k+1)*hashed, len(body))])
		copy(sums[k*sha256.Size:], sum[:])
		return nil
	})
	sum := sha256.Sum256(sums)
	return hex.EncodeToString(sum[:]), err
}

// Open maps a web that was saved, of vectors whose file has this SHA-256; "" means any. All of it is checked. An error
// wraps fs.ErrNotExist where there is none, and ErrOther where the vectors are others.
func Open(ctx context.Context, path, vectors string, threads int) (*Web, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	memory, err := kern.MapWhole(file)
	if err != nil {
		return nil, damaged(path, err)
	}
	w, err := read(ctx, memory.Bytes(), vectors, kern.Threads(threads))
	if err != nil {
		memory.Close()
		if errors.Is(err, ErrOther) || ctx.Err() != nil {
			return nil, err
		}
		return nil, damaged(path, err)
	}
	w.memory = memory
	return w, nil
}

// damaged is the error of a file that cannot be used.
func damaged(path string, err error) error {
	return hint.Wrap(fmt.Errorf("%w: %s: %w", ErrFile, path, err), "remove the file and make the index again")
}

// read makes a web of the content of a file.
func read(ctx context.Context, content []byte, vectors string, threads int) (*Web, error) {
	if len(content) < pageSize || !bytes.HasPrefix(content, []byte(magic)) {
		return nil, errors.New("it does not begin as an index does")
	}
	line, _, found := bytes.Cut(content[len(magic):pageSize], []byte("\n"))
	var h header
	if err := json.Unmarshal(line, &h); err != nil || !found {
		return nil, fmt.Errorf("its header is damaged (%v)", err)
	}
	sizes, err := h.parts()
	if err != nil {
		return nil, fmt.Errorf("its header cannot be: %w", err)
	}
	if vectors != "" && h.Vectors != vectors {
		return nil, fmt.Errorf("%w: SHA-256 %.12s…, not %.12s…", ErrOther, h.Vectors, vectors)
	}
	body, parts := content[pageSize:], make([][]byte, len(sizes))
	at := 0
	for k, size := range sizes {
		if at+pages(size) > len(body) {
			return nil, fmt.Errorf("it ends at byte %d; it was cut off", len(content))
		}
		parts[k] = body[at : at+size]
		at += pages(size)
	}
	if at != len(body) {
		return nil, fmt.Errorf("%d bytes are left over at its end", len(body)-at)
	}
	if sum, err := digestOf(ctx, body, threads); err != nil || sum != h.Digest {
		return nil, errors.Join(err, errors.New("its content is not what was written (the checksums differ)"))
	}
	sketch, err := engine.SketchFrom(engine.SketchParts{Rows: h.Rows, Dim: h.Dim, Bytes: parts[0],
		Scales: kern.NumbersOf[float32](parts[1]), Rests: kern.NumbersOf[float32](parts[2]),
		Norms: kern.NumbersOf[float32](parts[3])})
	if err != nil {
		return nil, err
	}
	w := newWeb(sketch)
	w.links, w.doors = links{parts[4], wideFor(h.Rows), h.Degree}, kern.NumbersOf[int32](parts[5])
	if w.clusters, err = clustersFrom(h, parts[6:], threads); err != nil {
		return nil, err
	}
	return w, w.checkLinks(ctx, threads)
}

// checkLinks refuses links that lead nowhere.
func (w *Web) checkLinks(ctx context.Context, threads int) error {
	rows := int32(w.Rows())
	for _, i := range w.doors {
		if i < 0 || i >= rows {
			return fmt.Errorf("a door at row %d of %d", i, rows)
		}
	}
	return kern.ChunksErr(ctx, int(rows), 1<<14, threads, func(_, _, from, to int) error {
		return w.links.check(int32(from), int32(to), int(rows))
	})
}

// Close gives the memory of a mapped web back. Nobody may use it any more.
func (w *Web) Close() error {
	if w.memory == nil {
		return nil
	}
	return w.memory.Close()
}
