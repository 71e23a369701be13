package exchange

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// benchmarkLinks is how many links a benchmark reads; UNSEEN_LINKS=10000000 is the size of the goals.
func benchmarkLinks() int {
	n := 1000000
	fmt.Sscan(os.Getenv("UNSEEN_LINKS"), &n)
	return n
}

// readLinks reads a file of links between a number of nodes, without the writing, and says how many a second: by the
// clock, and by the time that all processors together were busy.
func readLinks(b *testing.B, nodes, links int, read func(s Sink) error) {
	b.ReportAllocs()
	busy := 0.
	for b.Loop() {
		b.StopTimer()
		c, err := newCollector(background, b.TempDir(), Options{})
		must(b, err)
		for i := range nodes {
			_, err := c.Node(NodeRecord{ID: fmt.Sprintf("10.1000/%d", i)}, Place{})
			must(b, err)
		}
		c.EndNodes()
		runtime.GC()
		before := cpuSeconds()
		b.StartTimer()
		must(b, read(c))
		must(b, c.flush())
		b.StopTimer()
		busy += cpuSeconds() - before
		if _, report, err := c.builder.Build(); err != nil || report.Links+report.Repeated != links {
			b.Fatalf("%+v, %v, want %d links", report, err, links)
		}
		c.close()
		b.StartTimer()
	}
	b.ReportMetric(float64(links)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mlinks/s")
	if busy > 0 {
		b.ReportMetric(float64(links)*float64(b.N)/busy/1e6, "Mlinks/cpu-s")
	}
}

// randomLinks yields links of a network with a tenth as many nodes.
func randomLinks(links int, yield func(source, target string) error) (nodes int, err error) {
	nodes = links / 10
	r := rand.New(rand.NewPCG(1, 1))
	for range links {
		i := r.IntN(nodes)
		j := (i + 1 + r.IntN(nodes-1)) % nodes
		if err := yield(fmt.Sprintf("10.1000/%d", i), fmt.Sprintf("10.1000/%d", j)); err != nil {
			return 0, err
		}
	}
	return nodes, nil
}

func BenchmarkCSVLinks(b *testing.B) {
	links := benchmarkLinks()
	path := filepath.Join(b.TempDir(), "links.csv")
	file, err := os.Create(path)
	must(b, err)
	w := bufio.NewWriterSize(file, 1<<20)
	fmt.Fprintln(w, "source,target")
	nodes, err := randomLinks(links, func(source, target string) error {
		_, err := fmt.Fprintf(w, "%s,%s\n", source, target)
		return err
	})
	must(b, err)
	must(b, w.Flush())
	must(b, file.Close())
	readLinks(b, nodes, links, func(s Sink) error { return csvLinks(background, path, Options{}, s, nil) })
}

func BenchmarkEdgesLinks(b *testing.B) {
	links := benchmarkLinks()
	path := filepath.Join(b.TempDir(), "links.txt")
	file, err := os.Create(path)
	must(b, err)
	w := bufio.NewWriterSize(file, 1<<20)
	nodes, err := randomLinks(links, func(source, target string) error {
		_, err := fmt.Fprintf(w, "%s\t%s\n", source, target)
		return err
	})
	must(b, err)
	must(b, w.Flush())
	must(b, file.Close())
	readLinks(b, nodes, links, func(s Sink) error { return importEdges(background, Options{Paths: []string{path}}, s) })
}

func BenchmarkParquetLinks(b *testing.B) {
	for _, kind := range []string{"plain", "dictionary"} {
		b.Run(kind, func(b *testing.B) {
			links := benchmarkLinks()
			path := filepath.Join(b.TempDir(), "links.parquet")
			file, err := os.Create(path)
			must(b, err)
			type plainRow struct {
				Source string `parquet:"source"`
				Target string `parquet:"target"`
			}
			var nodes int
			write := func(put func(source, target string) error, end func() error) {
				nodes, err = randomLinks(links, put)
				must(b, err)
				must(b, end())
			}
			if kind == "plain" {
				w := parquet.NewGenericWriter[plainRow](file, parquet.Compression(&parquet.Snappy),
					parquet.MaxRowsPerRowGroup(1<<20))
				write(func(s, t string) error { _, err := w.Write([]plainRow{{s, t}}); return err }, w.Close)
			} else {
				w := parquet.NewGenericWriter[linkRow](file, parquet.Compression(&parquet.Snappy),
					parquet.MaxRowsPerRowGroup(1<<20))
				write(func(s, t string) error { _, err := w.Write([]linkRow{{s, t}}); return err }, w.Close)
			}
			must(b, file.Close())
			readLinks(b, nodes, links, func(s Sink) error {
				return parquetLinks(background, parquetScan{path, Options{}, s, linkRoles, []string{"source",
					"target"}})
			})
		})
	}
}
