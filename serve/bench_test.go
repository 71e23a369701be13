package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"unseen/dataset"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
	"unseen/serve/store"
)

// largeFolder has nodes with random vectors, a few links and a model of random weights: what it recommends is
// nonsense, what it costs is not. With people, so many of the nodes are people and the others items, without vectors,
// and the model is one of factors.
func largeFolder(b testing.TB, nodes, people, dim int) string {
	b.Helper()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	builder := new(graph.Builder)
	vectors, err := graph.NewVectors(nodes, dim)
	check(err)
	row := make([]float32, dim)
	for i := range nodes {
		node := graph.Node{ID: fmt.Sprintf("n%d", i), Field: fmt.Sprintf("field %d", i%19),
			Title: fmt.Sprintf("The title of node %d, as long as titles are", i)}
		switch {
		case i < people:
			node.Role = graph.SourceOnly
		case people > 0:
			node.Role = graph.TargetOnly
		}
		_, err := builder.AddNode(node)
		check(err)
		for k := range row {
			row[k] = float32(rng.NormFloat64()) / 16
		}
		check(vectors.Set(int32(i), row))
	}
	for i := 1; i < nodes; i++ {
		source, target := i, rng.IntN(i)
		if people > 0 {
			source, target = i%people, people+rng.IntN(nodes-people)
		}
		check(builder.AddLinkIndex(int32(source), int32(target)))
	}
	g, _, err := builder.Build()
	check(err)
	kind := "factors"
	if people == 0 {
		kind = "diagonal"
		g, err = g.WithVectors(vectors)
		check(err)
	}
	folder := b.TempDir()
	manifest, err := dataset.Write(b.Context(), filepath.Join(folder, "dataset"), dataset.Content{Graph: g},
		dataset.WriteOptions{})
	check(err)
	data := sample.Origin{Files: manifest.Checksums(), Plan: sample.Plan{Split: sample.Whole}}
	n := model.NodesOf(g)
	link, err := model.NewLink(kind, n, model.LinkOptions{Rank: 32})
	check(err)
	propensity, err := model.NewPropensity("field-matrix", n, model.PropensityOptions{})
	check(err)
	m := model.Model{Link: link, LinkParams: make([]float32, link.Size()), Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size()), Method: "mle"}
	for k := range m.LinkParams {
		m.LinkParams[k] = float32(rng.NormFloat64())
	}
	m.Data, err = json.Marshal(data)
	check(err)
	check(model.Save(filepath.Join(folder, "model.safetensors"), m))
	return folder
}

// BenchmarkRecommend asks over loopback with eight clients that wait for their answers, for the ten best of all,
// exactly: 20,000 nodes of 256 numbers; 10,000 people and 2,000 items, by factors, and as many nodes of 256 numbers to
// compare with. The clients share the processors with the service.
func BenchmarkRecommend(b *testing.B) {
	for _, of := range []struct{ nodes, people int }{{20_000, 0}, {12_000, 0}, {12_000, 10_000}} {
		for _, explore := range []string{"0", "0.1"} {
			b.Run(fmt.Sprintf("nodes=%d/people=%d/explore=%s", of.nodes, of.people, explore), func(b *testing.B) {
				s, err := Open(b.Context(), Options{Folder: largeFolder(b, of.nodes, of.people, 256), Concurrent: 2,
					Waiting: 100})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				settle(b, s) // the forecast is made once and takes the processors
				server := httptest.NewServer(s.Handler())
				defer server.Close()
				load(b, 8, func(c *http.Client, n int) (*http.Response, error) {
					return c.Get(fmt.Sprintf("%s/api/v1/recommendations?node=n%d&k=10&explore=%s", server.URL,
						n*7919%cmp.Or(of.people, of.nodes), explore))
				})
			})
		}
	}
}

// BenchmarkDataset recommends in a dataset of yours, UNSEEN_DATASET with the model UNSEEN_MODEL: by its index, if it
// has one, and exactly; the best alone, and explored as by default. It says how long the service took to open.
func BenchmarkDataset(b *testing.B) {
	data, model := os.Getenv("UNSEEN_DATASET"), os.Getenv("UNSEEN_MODEL")
	if data == "" || model == "" {
		b.Skip("UNSEEN_DATASET and UNSEEN_MODEL do not name a dataset and a model of it")
	}
	for _, of := range []struct {
		exact   bool
		explore string
	}{{false, "0"}, {false, "0.1"}, {true, "0"}, {true, "0.1"}} {
		b.Run(fmt.Sprintf("exact=%v/explore=%s", of.exact, of.explore), func(b *testing.B) {
			began := time.Now()
			s, err := Open(b.Context(), Options{Dataset: data, Model: model, State: b.TempDir(), Exact: of.exact,
				Concurrent: 2, Waiting: 100})
			if err != nil {
				b.Fatal(err)
			}
			opened := time.Since(began)
			defer s.Close()
			settle(b, s)
			<-s.measured
			server := httptest.NewServer(s.Handler())
			defer server.Close()
			sources := s.Graph().Sources()
			load(b, 8, func(c *http.Client, n int) (*http.Response, error) {
				return c.Get(fmt.Sprintf("%s/api/v1/recommendations?node=%s&k=10&explore=%s", server.URL,
					url.QueryEscape(s.Graph().ID(sources[n*7919%len(sources)])), of.explore))
			})
			b.ReportMetric(opened.Seconds(), "s-to-open")
		})
	}
}

// BenchmarkEvents sends batches of a hundred events over loopback, from eight clients.
func BenchmarkEvents(b *testing.B) {
	s := open(b)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	const together = 100
	load(b, 8, func(c *http.Client, n int) (*http.Response, error) {
		var body eventBatch
		for k := range together {
			body.Events = append(body.Events, store.LogEvent{ID: fmt.Sprintf("%d-%d", n, k), Kind: "shown",
				Source: fmt.Sprintf("p%d", n%240), Target: fmt.Sprintf("p%d", k), Probability: .5, List: fmt.Sprint(n),
				Position: k%10 + 1})
		}
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		return c.Post(server.URL+"/api/v1/events", "application/json", bytes.NewReader(raw))
	})
	b.ReportMetric(together*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// load sends b.N requests from some clients and reports how fast they were answered.
func load(b *testing.B, clients int, send func(c *http.Client, n int) (*http.Response, error)) {
	b.Helper()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	took := make([]time.Duration, b.N)
	var next, failed atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for range clients {
		group.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= b.N {
					return
				}
				began := time.Now()
				r, err := send(c, n)
				if err == nil {
					_, err = io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
				if err != nil || r.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				took[n] = time.Since(began)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	if failed.Load() > 0 {
		b.Errorf("%d of %d requests failed", failed.Load(), b.N)
	}
}

// BenchmarkOverload offers three times what the service can do for three seconds, at a fixed pace
// that does not wait for answers. What cannot be answered soon must be refused, with no other
// fault; memory must stay; and when the rush is over the service must be as it was. Generator and
// service share the processors and the heap. Long because it is one sequence of measurements.
func BenchmarkOverload(b *testing.B) {
	s, err := Open(b.Context(), Options{Folder: largeFolder(b, 20_000, 0, 256), Concurrent: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	settle(b, s)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1024,
		MaxConnsPerHost: 1024}}
	ask := func(n int) (status int, again string, took time.Duration, err error) {
		began := time.Now()
		r, err := c.Get(fmt.Sprintf("%s/api/v1/recommendations?node=n%d&k=10", server.URL, n*7919%20_000))
		if err != nil {
			return 0, "", 0, err
		}
		defer r.Body.Close()
		_, err = io.Copy(io.Discard, r.Body)
		return r.StatusCode, r.Header.Get("Retry-After"), time.Since(began), err
	}
	// what it can do: eight clients that wait for their answers
	closed := func(d time.Duration) float64 {
		var done atomic.Int64
		var group sync.WaitGroup
		began := time.Now()
		for w := range 8 {
			group.Go(func() {
				for n := w; time.Since(began) < d; n += 8 {
					if status, _, _, err := ask(n); err == nil && status == http.StatusOK {
						done.Add(1)
					}
				}
			})
		}
		group.Wait()
		return float64(done.Load()) / time.Since(began).Seconds()
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
	}
	closed(time.Second)
	for b.Loop() {
		capacity := closed(2 * time.Second)
		quiet := heap()
		var mu sync.Mutex
		var took []time.Duration
		var shed, offered int
		var peak float64
		var group sync.WaitGroup
		began := time.Now()
		const rush = 3 * time.Second
		for time.Since(began) < rush {
			for due := int(3 * capacity * time.Since(began).Seconds()); offered < due; offered++ {
				n := offered
				group.Go(func() {
					status, again, d, err := ask(n)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil && status == http.StatusOK:
						took = append(took, d)
					case err == nil && (status == http.StatusServiceUnavailable ||
						status == http.StatusTooManyRequests) && again != "":
						shed++
					default:
						b.Errorf("status %d, Retry-After %q, %v", status, again, err)
					}
				})
			}
			peak = max(peak, heap())
			time.Sleep(2 * time.Millisecond)
		}
		over := time.Now()
		group.Wait()
		for {
			if status, _, d, err := ask(1); err == nil && status == http.StatusOK && d < 20*time.Millisecond {
				break
			}
			if time.Since(over) > 5*time.Second {
				b.Error("five seconds after the rush the service has not recovered")
				break
			}
		}
		recovered := time.Since(over)
		after := closed(2 * time.Second)
		slices.Sort(took)
		if shed == 0 || len(took) == 0 {
			b.Fatalf("%d answered, %d refused", len(took), shed)
		}
		b.ReportMetric(capacity, "capacity/s")
		b.ReportMetric(float64(offered)/rush.Seconds(), "offered/s")
		b.ReportMetric(float64(len(took))/rush.Seconds(), "answered/s")
		b.ReportMetric(float64(shed)/rush.Seconds(), "refused/s")
		b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
		b.ReportMetric(quiet, "MB-before")
		b.ReportMetric(peak, "MB-peak")
		b.ReportMetric(recovered.Seconds()*1000, "recovered-ms")
		b.ReportMetric(after, "capacity-after/s")
	}
}

// BenchmarkCatalogue changes nodes, in calls of one and of ten, while eight clients that wait for their answers ask for
// lists of which a tenth is explored, for five seconds: 20,000 nodes of 256 numbers. Ten changes a second are what a
// shop has, and all that is shown is logged then; a thousand are what a rush of imports has. Three of four changes add
// a node, the others change or remove one. A change is acknowledged when it is durable and in the lists.
func BenchmarkCatalogue(b *testing.B) {
	for _, perSecond := range []int{10, 1000} {
		b.Run(fmt.Sprintf("changes=%d", perSecond), func(b *testing.B) { benchmarkChanges(b, perSecond) })
	}
}

// Long because it is one measurement.
func benchmarkChanges(b *testing.B, perSecond int) {
	s, err := Open(b.Context(), Options{Folder: largeFolder(b, 20_000, 0, 256), Concurrent: 2, Waiting: 100, Rate: 1e6})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	settle(b, s)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	send := func(method, path string, body any) (time.Duration, error) {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		r, err := http.NewRequest(method, server.URL+path, bytes.NewReader(raw))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Content-Type", "application/json")
		began := time.Now()
		answer, err := c.Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s %s: %s", method, path, answer.Status)
		}
		return time.Since(began), err
	}
	var nodes atomic.Int64
	batch := func(count int) nodeBatch {
		var out nodeBatch
		for range count {
			n := nodes.Add(1)
			if n%4 == 3 {
				out.Nodes = append(out.Nodes, NodeInput{ID: fmt.Sprint("n", n*7919%20_000), Title: ptr(fmt.Sprint(n)),
					Field: ptr("field 3")})
				continue
			}
			vector := make([]float32, 256)
			for k := range vector {
				vector[k] = float32((n*int64(k+1))%97) / 970
			}
			out.Nodes = append(out.Nodes, NodeInput{ID: fmt.Sprint("new", n), Title: ptr("A new title"),
				Vector: &vector,
				Field:  ptr("field 7")})
		}
		return out
	}
	for b.Loop() {
		const rush = 5 * time.Second
		var mu sync.Mutex
		var listed, changed []time.Duration
		var changes, failed atomic.Int64
		var group sync.WaitGroup
		used := cpuTime()
		began := time.Now()
		for w := range 8 {
			group.Go(func() {
				for n := w; time.Since(began) < rush; n += 8 {
					took, err := send("POST", "/api/v1/recommendations", RecommendRequest{Node: fmt.Sprint("n",
						n*7919%20_000), Log: perSecond < 1000})
					if err != nil {
						failed.Add(1)
						continue
					}
					mu.Lock()
					listed = append(listed, took)
					mu.Unlock()
				}
			})
		}
		for w := range 8 { // each an eighth of the changes
			group.Go(func() {
				for done := 0; time.Since(began) < rush; {
					due := began.Add(time.Duration(done+1) * 8 * time.Second / time.Duration(perSecond))
					if wait := time.Until(due); wait > 0 {
						time.Sleep(wait)
						continue
					}
					method, path, body, count := "PUT", "/api/v1/nodes", any(nil), 1+9*(w%2)
					if w == 7 && done%50 == 0 {
						method, path, count = "DELETE", fmt.Sprint("/api/v1/nodes?id=new", nodes.Load()-100), 1
					} else {
						body = batch(count)
					}
					took, err := send(method, path, body)
					if done += count; err != nil {
						b.Error(err)
						continue
					}
					changes.Add(int64(count))
					mu.Lock()
					changed = append(changed, took)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		used = cpuTime() - used
		for _, times := range [][]time.Duration{listed, changed} {
			slices.Sort(times)
		}
		b.ReportMetric(float64(len(listed))/rush.Seconds(), "lists/s")
		b.ReportMetric(used.Seconds()*1e6/float64(len(listed)), "cpu-µs/list") // of clients and changes too
		b.ReportMetric(listed[len(listed)*99/100].Seconds()*1000, "lists-p99-ms")
		b.ReportMetric(float64(changes.Load())/rush.Seconds(), "changes/s")
		b.ReportMetric(changed[len(changed)*99/100].Seconds()*1000, "changes-p99-ms")
		b.ReportMetric(float64(failed.Load()), "refused")
		b.ReportMetric(float64(s.catalogue.state.Load().count), "changed-nodes")
	}
}
