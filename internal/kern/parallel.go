package kern

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Chunks cuts 0…n into chunks of a fixed size and calls work for each, on up to `threads`
// goroutines. Chunk k is always [k·size, min((k+1)·size, n)), so that partial results kept by
// chunk do not depend on the number of threads. worker < threads names the goroutine, for
// scratch memory.
func Chunks(n, size, threads int, work func(worker, chunk, from, to int)) {
	if n <= 0 {
		return
	}
	if size <= 0 {
		panic("kern: Chunks of no size")
	}
	count := (n + size - 1) / size
	threads = max(min(threads, count), 1)
	var next atomic.Int64
	run := func(worker int) {
		for {
			chunk := int(next.Add(1)) - 1
			if chunk >= count {
				return
			}
			work(worker, chunk, chunk*size, min((chunk+1)*size, n))
		}
	}
	var group sync.WaitGroup
	var broken atomic.Pointer[PanicError]
	for worker := 1; worker < threads; worker++ {
		group.Go(func() {
			debug.SetPanicOnFault(true) // of mapped memory whose file is gone; the caller decides what that means
			defer func() {
				if v := recover(); v != nil {
					broken.Store(&PanicError{v, debug.Stack()})
				}
			}()
			run(worker)
		})
	}
	run(0)
	group.Wait()
	if p := broken.Load(); p != nil {
		panic(p)
	}
}

// PanicError is a panic of a worker, handed to whoever asked for the work.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says what the panic was about and where it happened.
func (e *PanicError) Error() string { return fmt.Sprintf("worker panicked: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the error that the worker panicked with, if it was one.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ChunksErr is Chunks for work that can fail. Once a chunk has failed, panicked or the context has
// ended, no further chunk begins; a panic becomes a *PanicError. Of several errors the one of the
// first chunk is returned. An error of the context is returned only where no chunk failed by itself.
func ChunksErr(ctx context.Context, n, size, threads int, work func(worker, chunk, from, to int) error) error {
	if n <= 0 {
		return ctx.Err()
	}
	var (
		stop   atomic.Bool
		mu     sync.Mutex
		failed error
		first  int
	)
	fail := func(chunk int, err error) {
		stop.Store(true)
		mu.Lock()
		defer mu.Unlock()
		if failed == nil || chunk < first {
			failed, first = err, chunk
		}
	}
	Chunks(n, size, threads, func(worker, chunk, from, to int) {
		if stop.Load() || ctx.Err() != nil {
			return
		}
		defer func() {
			if v := recover(); v != nil {
				fail(chunk, &PanicError{v, debug.Stack()})
			}
		}()
		if err := work(worker, chunk, from, to); err != nil {
			fail(chunk, err)
		}
	})
	if failed != nil {
		return failed
	}
	return ctx.Err()
}
