package dataset

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"unseen/graph"
)

// TestScale writes and opens a network of UNSEEN_SCALE nodes, with UNSEEN_SCALE_DIM numbers each, and
// says how long it took. 2400000 nodes of 768 numbers take 7.4 GB of disk.
func TestScale(t *testing.T) {
	nodes, err := strconv.Atoi(os.Getenv("UNSEEN_SCALE"))
	if err != nil {
		t.Skip("set UNSEEN_SCALE to a number of nodes to measure")
	}
	dim, err := strconv.Atoi(os.Getenv("UNSEEN_SCALE_DIM"))
	if err != nil {
		dim = 8
	}
	r := rand.New(rand.NewPCG(1, 1))
	var b graph.Builder
	for i := range nodes {
		_, err := b.AddNode(graph.Node{ID: fmt.Sprintf("10.1000/%d", i), Field: fmt.Sprint("field ", i%20),
			Title: fmt.Sprintf("A title of usual length, number %d", i), Time: time.Unix(int64(i)*500, 0)})
		must(t, err)
	}
	for range nodes * 19 / 6 {
		i := 1 + r.IntN(nodes-1)
		must(t, b.AddLinkIndex(int32(i), int32(r.IntN(i))))
	}
	g, _, err := b.Build()
	must(t, err)
	v, err := graph.NewVectors(nodes, dim)
	must(t, err)
	row := make([]float32, dim)
	for i := range nodes {
		row[i%dim] = float32(i)
		must(t, v.Set(int32(i), row))
	}
	g, err = g.WithTrustedVectors(v)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "d")
	began := time.Now()
	m, err := Write(background, dir, Content{Graph: g}, WriteOptions{})
	must(t, err)
	t.Logf("%d nodes, %d links, dimension %d: written in %.2f s", m.Nodes, m.Links, dim, time.Since(began).Seconds())
	for name, f := range m.Files {
		t.Logf("%s: %.1f MB", name, float64(f.Bytes)/1e6)
	}
	must(t, v.Close())
	g = nil
	runtime.GC()
	for _, verify := range []bool{false, false, true} {
		began = time.Now()
		d, err := Open(background, dir, OpenOptions{Verify: verify})
		must(t, err)
		t.Logf("opened in %.2f s (verify %t)", time.Since(began).Seconds(), verify)
		must(t, d.Close())
	}
}
