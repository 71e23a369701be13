package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"unsafe"

	"unseen/graph"
	"unseen/internal/kern"
)

// clone is a generated citation graph of the size of the paper's first dataset: fields of uneven size, papers that cite
// earlier ones, and a few papers with most of the citations. Every number is a function of the seed and its place
// alone.
type clone struct {
	nodes, links, fields int
	seed                 uint64
	half                 bool // float16 vectors
}

// paperClone has the counts of the paper's Dataset 1.
var paperClone = clone{nodes: 2_442_008, links: 7_577_886, fields: 19, seed: 1}

// scaled returns a clone of a share of the size.
func (c clone) scaled(share float64) clone {
	c.nodes, c.links = max(int(float64(c.nodes)*share), 200), max(int(float64(c.links)*share), 600)
	return c
}

// mix is the finaliser of splitmix64, which turns a counter into random bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const golden = 0x9e3779b97f4a7c15

// field returns the field of a node, from 0: field f is chosen with a chance that falls as 1/(f+1).
func (c clone) field(node int) int {
	u := float64(mix(c.seed*golden^uint64(node)<<20)>>11) / (1 << 53)
	return min(int(math.Pow(float64(c.fields+1), u))-1, c.fields-1)
}

// row writes the vector of a node: its field's centre and as much noise again, of length 1 or so.
func (c clone) row(dst []float32, node int, centres [][]float32) {
	const unit = 1.0 / (1 << 15)
	scale := float32(unit * math.Sqrt(3./2/float64(len(dst)))) // a uniform number in (−1, 1) has variance ⅓
	state := mix(c.seed ^ uint64(node)*golden)
	centre := centres[c.field(node)][:len(dst)]
	for k := 0; k < len(dst); k += 4 {
		state += golden
		bits := mix(state)
		for i := k; i < min(k+4, len(dst)); i++ {
			dst[i] = scale * (centre[i] + float32(int16(bits)))
			bits >>= 16
		}
	}
}

// centres returns a direction per field, in the units of row's noise.
func (c clone) centres() [][]float32 {
	out := make([][]float32, c.fields)
	for f := range out {
		rng := rand.New(rand.NewPCG(c.seed, uint64(f)))
		out[f] = make([]float32, dim)
		for k := range out[f] {
			out[f][k] = float32(int16(rng.Uint32()))
		}
	}
	return out
}

// headerSize aligns the rows with a page of memory.
const headerSize = 4096

// header is that of a .npy file, which numpy reads too; its comment distinguishes one clone from another.
func (c clone) header() []byte {
	kind := "<f4"
	if c.half {
		kind = "<f2"
	}
	out := []byte("\x93NUMPY\x01\x00\x00\x00")
	out[8], out[9] = byte((headerSize-10)&255), byte((headerSize-10)>>8)
	out = fmt.Appendf(out, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), } # unseen clone 1, %d "+
		"links, %d fields, seed %d",
		kind, c.nodes, dim, c.links, c.fields, c.seed)
	out = append(out, bytes.Repeat([]byte{' '}, headerSize-len(out)-1)...)
	return append(out, '\n')
}

func (c clone) rowBytes() int {
	if c.half {
		return 2 * dim
	}
	return 4 * dim
}

func (c clone) size() int64 { return headerSize + int64(c.nodes)*int64(c.rowBytes()) }

// path is where the vectors are kept within a folder.
func (c clone) path(dir string) string {
	kind := "f32"
	if c.half {
		kind = "f16"
	}
	return filepath.Join(dir, fmt.Sprintf("unseen-clone-%dx%d-%s-seed%d.npy", c.nodes, dim, kind, c.seed))
}

// errOtherFile says that a file is not the clone's vectors.
var errOtherFile = errors.New("not this clone's vectors")

// check returns an error unless a file holds the clone's vectors: its size, its header and a sample of its rows are
// compared.
func (c clone) check(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != c.size() {
		return fmt.Errorf("%w: %s has %d bytes, not %d", errOtherFile, path, info.Size(), c.size())
	}
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(file, head); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !bytes.Equal(head, c.header()) {
		return fmt.Errorf("%w: %s has a different header", errOtherFile, path)
	}
	const spots = 256
	centres, there, here := c.centres(), make([]byte, c.rowBytes()), make([]byte, c.rowBytes())
	for s := range spots {
		node := int(int64(s) * int64(c.nodes-1) / (spots - 1))
		if _, err := file.ReadAt(there, headerSize+int64(node)*int64(c.rowBytes())); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if c.encode(here, node, node+1, centres); !bytes.Equal(here, there) {
			return fmt.Errorf("%w: row %d of %s differs", errOtherFile, node, path)
		}
	}
	return nil
}

// encode writes rows as a file holds them.
func (c clone) encode(dst []byte, from, to int, centres [][]float32) {
	row := make([]float32, dim)
	for node := from; node < to; node++ {
		at := unsafe.Pointer(&dst[(node-from)*c.rowBytes()])
		if c.half {
			c.row(row, node, centres)
			kern.ToHalf(unsafe.Slice((*uint16)(at), dim), row)
		} else {
			c.row(unsafe.Slice((*float32)(at), dim), node, centres)
		}
	}
}

// vectors returns the path of the clone's vectors in a folder, generating them if they do not exist. A file of the same
// name with other content, such as a truncated one, is replaced.
func (c clone) vectors(ctx context.Context, dir string, threads int, notes io.Writer) (path string, made bool,
	err error) {
	path = c.path(dir)
	switch err := c.check(path); {
	case err == nil:
		return path, false, nil
	case errors.Is(err, errOtherFile):
		fmt.Fprintf(notes, "generating again: %v\n", err)
	case !errors.Is(err, fs.ErrNotExist):
		return "", false, err
	}
	return path, true, c.generate(ctx, path, threads, notes)
}

// generate writes the vectors to a temporary file and renames it when it is complete.
func (c clone) generate(ctx context.Context, path string, threads int, notes io.Writer) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	if _, err := file.Write(c.header()); err != nil {
		return err
	}
	const rowsAtOnce = 1024
	centres := c.centres()
	buffers := make([][]byte, threads)
	var done atomic.Int64
	err = kern.ChunksErr(ctx, c.nodes, rowsAtOnce, threads, func(worker, _, from, to int) error {
		if buffers[worker] == nil {
			buffers[worker] = make([]byte, rowsAtOnce*c.rowBytes())
		}
		part := buffers[worker][:(to-from)*c.rowBytes()]
		c.encode(part, from, to, centres)
		if _, err := file.WriteAt(part, headerSize+int64(from)*int64(c.rowBytes())); err != nil {
			return err
		}
		if n := int(done.Add(int64(to - from))); n*10/c.nodes != (n-to+from)*10/c.nodes {
			fmt.Fprintf(notes, "%s: %d%% of %.2f GB\n", path, n*100/c.nodes, float64(c.size())/1e9)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot write the clone's vectors: %w; name a folder with %.1f GB free by -dir", err,
			float64(c.size())/1e9)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("cannot write the clone's vectors: %w", err)
	}
	return os.Rename(file.Name(), path)
}

// graph makes the nodes and links. A paper cites what an earlier paper of its field cited, so that the most cited
// collect ever more citations, or any earlier paper, more often one of its own field.
func (c clone) graph() (*graph.Graph, error) {
	b := graph.Builder{}
	names := make([]string, c.fields)
	for f := range names {
		names[f] = "field " + strconv.Itoa(f)
	}
	rng := rand.New(rand.NewPCG(c.seed, 0))
	members, cited := make([][]int32, c.fields), make([][]int32, c.fields)
	left := c.links
	for node := range c.nodes {
		f := c.field(node)
		if _, err := b.AddNode(graph.Node{ID: strconv.Itoa(node), Field: names[f]}); err != nil {
			return nil, err
		}
		// a geometric number of citations whose mean spreads the remaining links over the remaining papers
		mean := float64(left) / float64(c.nodes-node)
		count := min(int(math.Log(1-rng.Float64())/math.Log(mean/(1+mean))), node/2, left)
		if node == c.nodes-1 {
			count = min(left, node)
		}
		first := len(cited[f])
		for len(cited[f]) < first+count {
			target := int32(rng.IntN(node))
			switch roll := rng.Float64(); {
			case roll < .6 && first > 0:
				target = cited[f][rng.IntN(first)]
			case roll < .85 && len(members[f]) > 0:
				target = members[f][rng.IntN(len(members[f]))]
			}
			if !slices.Contains(cited[f][first:], target) {
				cited[f] = append(cited[f], target)
				if err := b.AddLinkIndex(int32(node), target); err != nil {
					return nil, err
				}
			}
		}
		left -= count
		members[f] = append(members[f], int32(node))
	}
	g, _, err := b.Build()
	return g, err
}

// open maps the file that vectors wrote.
func (c clone) open(path string) (*graph.Vectors, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return graph.MapVectors(file, headerSize, c.nodes, dim, c.half)
}
