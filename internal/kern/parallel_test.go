package kern

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
)

func TestChunksErr(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 2, 7} {
		var sum atomic.Int64
		err := ChunksErr(t.Context(), 1000, 7, threads, func(_, _, from, to int) error {
			sum.Add(int64(to - from))
			return nil
		})
		if err != nil || sum.Load() != 1000 {
			t.Errorf("%d threads: %d done, %v", threads, sum.Load(), err)
		}
		var begun atomic.Int64
		err = ChunksErr(t.Context(), 1000, 1, threads, func(_, chunk, _, _ int) error {
			begun.Add(1)
			if chunk >= 5 {
				return fmt.Errorf("chunk %d: %w", chunk, io.EOF)
			}
			return nil
		})
		if !errors.Is(err, io.EOF) || begun.Load() > int64(5+threads) {
			t.Errorf("%d threads: %v after %d chunks", threads, err, begun.Load())
		}
		if threads == 1 && err.Error() != "chunk 5: EOF" {
			t.Errorf("got %v, want the first chunk's error", err)
		}
	}
}

func TestChunksErrReturnsPanics(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 3} {
		err := ChunksErr(t.Context(), 10, 1, threads, func(_, chunk, _, _ int) error {
			if chunk == 4 {
				panic(io.ErrUnexpectedEOF)
			}
			return nil
		})
		var p *PanicError
		if !errors.As(err, &p) || !errors.Is(err, io.ErrUnexpectedEOF) || len(p.Stack) == 0 {
			t.Errorf("%d threads: %v, want the worker's panic", threads, err)
		}
	}
}

func TestChunksErrStopsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var begun int
	err := ChunksErr(ctx, 100, 1, 1, func(_, _, _, _ int) error {
		if begun++; begun == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || begun != 3 {
		t.Errorf("%v after %d chunks, want 3", err, begun)
	}
}
