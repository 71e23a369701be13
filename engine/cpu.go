package engine

import (
	"context"
	"fmt"
	"sync"

	"unseen/internal/kern"
)

// CPU is the engine on this machine's processor.
type CPU struct {
	Threads int // 0 means all processors; results do not depend on it
}

var _ Engine = CPU{}

// OrCPU returns an engine, or the processor with so many threads where it is nil; 0 threads mean all.
func OrCPU(e Engine, threads int) Engine {
	if e == nil {
		return CPU{Threads: threads}
	}
	return e
}

// Alone returns what computes for one goroutine of several that share work out themselves. There is none of an engine
// that does so itself.
func Alone(e Engine) (alone Engine, ok bool) {
	c, ok := e.(CPU)
	c.Threads = 1
	return c, ok
}

// Gradient implements Engine. The sums do not depend on the number of threads.
func (c CPU) Gradient(ctx context.Context, o *Objective, params []float32, grad []float64) (Parts, error) {
	if o.Graph != nil {
		return c.overEvery(ctx, o, params, grad)
	}
	partial, err := c.portions(ctx, o, params, grad)
	if err != nil {
		return Parts{}, err
	}
	n := float64(o.Pairs.Len())
	var total Parts
	clear(grad)
	for _, p := range partial {
		total.Likelihood += p.parts.Likelihood / n
		total.Risk += p.parts.Risk / n
		for i, g := range p.grad {
			grad[i] += g / n
		}
	}
	total.Prior = o.prior(params, grad)
	return total, nil
}

// Sum returns what the likelihood and the risk sum to over o.Pairs, which are a shard of all pairs,
// and, unless grad is nil, sets grad to their gradient: no mean, and without the prior. o.MeanWeight
// is that of all pairs. Sums of shards add up to what Objective.Join takes.
func (c CPU) Sum(ctx context.Context, o *Objective, params []float32, grad []float64) (Parts, error) {
	if !(o.MeanWeight > 0) {
		return Parts{}, fmt.Errorf("%w: a mean inclusion weight of %v; it is that of all pairs, and positive",
			ErrShape, o.MeanWeight)
	}
	partial, err := c.portions(ctx, o, params, grad)
	if err != nil {
		return Parts{}, err
	}
	return joinPortions(partial, grad), nil
}

// joinPortions adds portions in their order, and sets grad to the sum of their gradients.
func joinPortions(partial []portion, grad []float64) (total Parts) {
	clear(grad)
	for _, p := range partial {
		total.Likelihood += p.parts.Likelihood
		total.Risk += p.parts.Risk
		for i, g := range p.grad {
			grad[i] += g
		}
	}
	return total
}

// maxChunks bounds the partial gradients that are kept apart until they are added in order.
const maxChunks = 256

// manyParams is from how many parameters on, such as the factors of people, adding up partial gradients of a few pairs
// each would take longer than computing them, and keeping them would take chunkedParams numbers and more.
const (
	manyParams    = 1 << 12
	chunkedParams = 1 << 22
)

// chunking returns how many partial gradients there are over so many pairs, and after how many stretches of one the
// float32 sum is folded.
func chunking(pairs, params int) (chunks, fold int) {
	if params <= manyParams {
		return maxChunks, folded
	}
	return max(min(8*pairs/params, chunkedParams/params, maxChunks), 16), max(params/(8*stretch), folded)
}

// portion is what pairs in a row sum to.
type portion struct {
	parts Parts
	grad  []float64
}

// portions sums the objective's pairs in fixed portions, without the prior; gradients only if grad is not nil.
func (c CPU) portions(ctx context.Context, o *Objective, params []float32, grad []float64) ([]portion, error) {
	n := o.Pairs.Len()
	if len(params) < o.Size() || grad != nil && len(grad) < o.Size() {
		return nil, fmt.Errorf("%w: %d parameters for models with %d", ErrShape, len(params), o.Size())
	}
	chunks, fold := chunking(n, o.Size())
	size := max((n+chunks-1)/chunks, stretch)
	size = (size + stretch - 1) / stretch * stretch
	partial := make([]portion, (n+size-1)/size)
	threads := kern.Threads(c.Threads)
	spaces := make([]*workspace, threads)
	sums := make([][]float32, threads)
	inverseMean := 1 / o.meanWeight()
	err := kern.ChunksErr(ctx, n, size, threads, func(worker, chunk, from, to int) error {
		if spaces[worker] == nil {
			spaces[worker] = newWorkspace()
			sums[worker] = make([]float32, o.Size())
		}
		w, sum := spaces[worker], sums[worker]
		result := &partial[chunk]
		if grad == nil {
			sum = nil
		} else {
			result.grad = make([]float64, o.Size())
		}
		clear(sum)
		for number := 1; from < to; number++ {
			count := min(stretch, to-from)
			for i := range count {
				o.at(w, i, from+i, inverseMean)
			}
			parts := o.add(w, count, params, sum, 1, true)
			result.parts.Likelihood += parts.Likelihood
			result.parts.Risk += parts.Risk
			if from += count; number%fold == 0 || from == to {
				for i, g := range sum {
					result.grad[i] += float64(g)
				}
				clear(sum)
			}
		}
		return nil
	})
	return partial, err
}

var workspaces = sync.Pool{New: func() any { return newWorkspace() }}

// Minibatch implements Engine. Sums are float32: the noise of a minibatch is far above their rounding.
func (c CPU) Minibatch(ctx context.Context, o *Objective, places []int, params, grad []float32) error {
	size, n := o.Size(), len(places)
	if len(params) < size || len(grad) < size {
		return fmt.Errorf("%w: %d parameters for models with %d", ErrShape, len(params), size)
	}
	pieces := (n + stretch - 1) / stretch
	room := kern.Borrow(max(pieces-1, 0) * size)
	defer kern.GiveBack(room)
	part := func(piece int) []float32 {
		if piece == 0 {
			return grad[:size]
		}
		return room.Data[(piece-1)*size : piece*size]
	}
	scale, inverseMean := 1/float32(n), 1/o.meanWeight()
	err := kern.ChunksErr(ctx, n, stretch, kern.Threads(c.Threads), func(_, piece, from, to int) error {
		w := workspaces.Get().(*workspace)
		defer workspaces.Put(w)
		for i, k := range places[from:to] {
			o.at(w, i, k, inverseMean)
		}
		clear(part(piece))
		o.add(w, to-from, params, part(piece), scale, false)
		return nil
	})
	if err != nil {
		return err
	}
	for piece := 1; piece < pieces; piece++ {
		for i, x := range part(piece) {
			grad[i] += x
		}
	}
	for i, precision := range o.Precision {
		if precision != 0 {
			grad[i] += float32(precision * o.offCentre(params, i))
		}
	}
	tie(o, grad)
	return nil
}
