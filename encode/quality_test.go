package encode

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// network is a folder of real nodes with texts, and links between them.
type network struct {
	ids   []string
	docs  TextList
	dates []string
	links [][2]int
}

// openNetwork reads a network of real data, or skips the test. UNSEEN_DATA says where the networks are.
func openNetwork(tb testing.TB, name string) *network {
	tb.Helper()
	root := os.Getenv("UNSEEN_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	n := &network{}
	index := map[string]int{}
	eachRow(tb, filepath.Join(root, name, "nodes.csv.gz"), func(row func(string) string) {
		index[row("id")] = len(n.ids)
		n.ids = append(n.ids, row("id"))
		n.docs = append(n.docs, Text{Title: row("title"), Body: row("abstract")})
		n.dates = append(n.dates, row("date"))
	})
	eachRow(tb, filepath.Join(root, name, "edges.csv.gz"), func(row func(string) string) {
		n.links = append(n.links, [2]int{index[row("source")], index[row("target")]})
	})
	return n
}

// eachRow reads a table, and skips the test where it is absent.
func eachRow(tb testing.TB, path string, take func(row func(column string) string)) {
	tb.Helper()
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		tb.Skipf("no file %s: set UNSEEN_DATA to the folder of networks", path)
	}
	ok(tb, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	ok(tb, err)
	table := csv.NewReader(unzipped)
	head, err := table.Read()
	ok(tb, err)
	for {
		row, err := table.Read()
		if err == io.EOF {
			return
		}
		ok(tb, err)
		take(func(column string) string {
			if k := slices.Index(head, column); k >= 0 {
				return row[k]
			}
			return ""
		})
	}
}

func ok(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// trial is a real link and one that might have been: its target is drawn from the targets of all links, so
// that it is as popular, and is older than the source.
type trial struct{ source, target, other int }

// trials returns those of the sources of one half, and of the other.
func (n *network) trials(seed uint64) (halves [2][]trial) {
	r := rand.New(rand.NewPCG(seed, 0))
	linked := map[[2]int]bool{}
	for _, l := range n.links {
		linked[l] = true
	}
	for _, l := range n.links {
		for range 100 {
			other := n.links[r.IntN(len(n.links))][1]
			if other == l[0] || linked[[2]int{l[0], other}] || n.dates[other] >= n.dates[l[0]] {
				continue
			}
			half := sha256.Sum256([]byte(n.ids[l[0]]))[0] & 1
			halves[half] = append(halves[half], trial{l[0], l[1], other})
			break
		}
	}
	return halves
}

// table is rows of vectors in memory.
type table [][]float32

func (t table) Set(i int32, vector []float32) error {
	t[i] = slices.Clone(vector)
	return nil
}

func (t table) cosine(i, j int) float64 {
	var sum float64
	for k, x := range t[i] {
		sum += float64(x) * float64(t[j][k])
	}
	return sum
}

// auc is the probability that a real link has a larger cosine than one that might have been.
func (t table) auc(trials []trial) float64 {
	type scored struct {
		score float64
		real  bool
	}
	var all []scored
	for _, l := range trials {
		all = append(all, scored{t.cosine(l.source, l.target), true}, scored{t.cosine(l.source, l.other), false})
	}
	slices.SortFunc(all, func(a, b scored) int {
		switch {
		case a.score < b.score:
			return -1
		case a.score > b.score:
			return 1
		}
		return 0
	})
	// Equal scores count half.
	var sum, below float64
	for k := 0; k < len(all); {
		end, real, others := k, 0., 0.
		for ; end < len(all) && all[end].score == all[k].score; end++ {
			if all[end].real {
				real++
			} else {
				others++
			}
		}
		sum += real * (below + others/2)
		below += others
		k = end
	}
	return sum / float64(len(trials)) / float64(len(trials))
}

// TestRealLinks encodes the abstracts of eLife and asks whether papers cite what they are like. The settings
// were chosen on the links of the other half of the papers.
func TestRealLinks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	n := openNetwork(t, "elife")
	began := time.Now()
	e, report, err := Fit(context.Background(), n.docs, Settings{})
	ok(t, err)
	defer e.Close()
	vectors := make(table, len(n.docs))
	unknown, err := e.EncodeAll(context.Background(), n.docs, vectors, 0, nil)
	ok(t, err)
	took := time.Since(began)
	auc := vectors.auc(n.trials(1)[1])
	t.Logf("AUC %.4f; %d documents in %.1f s; %d without a term; %+v", auc, len(n.docs), took.Seconds(), unknown,
		*report)
	if auc < .95 {
		t.Errorf("AUC %.4f", auc)
	}
}
