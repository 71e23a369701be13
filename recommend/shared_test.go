package recommend

import (
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"unseen/internal/kern"
)

// Whoever shares a pass gets the bits that he gets alone, also where more wait than one pass takes.
func TestSharedPass(t *testing.T) {
	const n, d = 1000, 24
	rng := rand.New(rand.NewPCG(1, 2))
	for _, allocate := range []func(int, int) (*kern.Matrix, error){kern.NewMatrix, kern.NewHalf} {
		m := must(allocate(n, d))(t)
		row := func() []float32 {
			out := make([]float32, d)
			for k := range out {
				out[k] = float32(rng.NormFloat64())
			}
			return out
		}
		for i := range n {
			m.Store(i, row())
		}
		p := newPasses()
		for range cap(p.running) { // nobody begins yet
			p.running <- struct{}{}
		}
		const queries = 2*sharedQueries + 5
		got, want := make([][]float32, queries), make([][]float32, queries)
		var all sync.WaitGroup
		for k := range queries {
			got[k], want[k] = make([]float32, n), make([]float32, n)
			q := row()
			kern.DotRange(want[k], q, m, 0)
			all.Go(func() { p.dot(got[k], q, m) })
		}
		waiting := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.waiting)
		}
		for waiting() < queries {
			time.Sleep(time.Millisecond)
		}
		for range cap(p.running) {
			<-p.running
		}
		all.Wait()
		for k := range queries {
			for i := range n {
				if math.Float32bits(got[k][i]) != math.Float32bits(want[k][i]) {
					t.Fatalf("query %d, row %d: %v, alone %v", k, i, got[k][i], want[k][i])
				}
			}
		}
		if waiting() != 0 || len(p.running) != 0 {
			t.Errorf("%d wait, %d passes run", waiting(), len(p.running))
		}
	}
}

// Lists that are asked for at the same time are those of one after the other.
func TestListsAtOnce(t *testing.T) {
	g, m, naive := small(t, 60, "diagonal")
	r := must(New(g, m, Options{Naive: &naive}))(t)
	alone := make([]*List, g.Len())
	ask := func(i int) *List {
		list, err := r.Top(t.Context(), Query{Source: r.Node(int32(i)), K: 5, Explore: .2, Seed: uint64(i)})
		if err != nil {
			t.Error(err)
		}
		return list
	}
	for i := range alone {
		alone[i] = ask(i)
	}
	var all sync.WaitGroup
	for range 4 {
		for i := range alone {
			all.Go(func() {
				if got := ask(i); !reflect.DeepEqual(got, alone[i]) {
					t.Errorf("node %d: %+v, alone %+v", i, got, alone[i])
				}
			})
		}
	}
	all.Wait()
}
