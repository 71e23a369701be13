package recommend

import (
	"runtime"
	"sync"

	"unseen/internal/kern"
)

// passes lets queries that wait at the same time share one pass over the vectors. A query reads every vector and does
// little with each, so that reading is what takes the time; rows that are in the cache for one query are there for the
// others too. Each product has the bits that it has alone, whoever is beside it.
//
// Passes run on half of the processors, since the rest of a query takes about as long, and nobody waits longer than that:
// whoever finds a place free takes those who are there by then.
type passes struct {
	running chan struct{} // has room for so many

	mu      sync.Mutex
	waiting []*pass
}

// pass is what one query wants: z = rows·q.
type pass struct {
	z, q []float32
	done chan struct{}
}

const (
	sharedQueries = 16       // in one pass at most, so that the first is not kept long
	sharedBytes   = 96 << 10 // of rows that all queries see before the next ones: a part of the second-level cache
)

func newPasses() *passes {
	return &passes{running: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
}

// dot sets z to the products of q with all rows.
func (p *passes) dot(z, q []float32, rows *kern.Matrix) {
	own := &pass{z, q, make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, own)
	p.mu.Unlock()
	runtime.Gosched() // who is about to ask does so first
	for {
		select {
		case <-own.done:
			return
		case p.running <- struct{}{}:
		}
		select {
		case <-own.done: // meanwhile; others make their own passes
		default:
			p.share(rows)
		}
		<-p.running
	}
}

// share makes one pass for those who wait, the first come first.
func (p *passes) share(rows *kern.Matrix) {
	p.mu.Lock()
	n := min(len(p.waiting), sharedQueries)
	all := append([]*pass(nil), p.waiting[:n]...)
	p.waiting = append(p.waiting[:0], p.waiting[n:]...)
	p.mu.Unlock()
	step := max(sharedBytes/(4*rows.Stride()), 16)
	for from := 0; from < rows.Rows(); from += step {
		to := min(from+step, rows.Rows())
		for _, one := range all {
			kern.DotRange(one.z[from:to], one.q, rows, from)
		}
	}
	for _, one := range all {
		close(one.done)
	}
}
