package kern

import (
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
	for worker := 1; worker < threads; worker++ {
		group.Go(func() { run(worker) })
	}
	run(0)
	group.Wait()
}
