package encode

import (
	"context"
	"errors"
	"sync"

	"unseen/progress"
)

// Errors of this package wrap one of these.
var (
	// ErrTexts: nothing can be learned from the texts.
	ErrTexts = errors.New("unusable texts")
	// ErrDimension: more components were asked for than the texts have.
	ErrDimension = errors.New("too many dimensions")
	// ErrSettings: a setting is out of range.
	ErrSettings = errors.New("bad setting")
	// ErrFile: a file holds no encoder, or a damaged one.
	ErrFile = errors.New("unusable encoder file")
)

// Text is a text and its title; either may be empty.
type Text struct{ Title, Body string }

// Texts are texts to learn from. They are read in order, several times over, by one goroutine at a time.
type Texts interface {
	Len() int
	Text(i int) (Text, error)
}

// Rows are where vectors go; a graph's vectors are such rows.
type Rows interface {
	// Set stores the vector of document i, which is valid only during the call.
	Set(i int32, vector []float32) error
}

// TextList is documents in memory.
type TextList []Text

// Len returns the number of documents.
func (l TextList) Len() int { return len(l) }

// Text returns document i.
func (l TextList) Text(i int) (Text, error) { return l[i], nil }

var _ Texts = TextList(nil)

// batch is how many documents a worker takes at a time. It is fixed, so that what is kept by batch does not
// depend on the number of threads.
const batchSize = 128

// batchEvent reports a finished batch of documents.
func batchEvent(phase string, batch, of int) progress.Event {
	return progress.Event{Phase: phase, Done: int64(min((batch+1)*batchSize, of)), Of: int64(of)}
}

// inBatches reads documents first, first+stride, … in order and calls work for every batch of them,
// on that many goroutines; worker < threads names the goroutine. done, if any, is called after each
// batch in the order of the batches, by the caller's goroutine.
func inBatches(ctx context.Context, docs Texts, stride, threads int, work func(worker, batch int, docs []Text),
	done func(batch int) error) error {
	count := (docs.Len() + stride - 1) / stride
	type job struct {
		number int
		docs   []Text
		ready  chan struct{}
	}
	// Two batches wait for each worker: enough to keep it busy, and little memory.
	queue := make(chan *job)
	var workers sync.WaitGroup
	for w := range threads {
		workers.Go(func() {
			for j := range queue {
				work(w, j.number, j.docs)
				close(j.ready)
			}
		})
	}
	var waiting []*job
	finish := func(most int) error {
		for len(waiting) > most {
			j := waiting[0]
			<-j.ready
			waiting = waiting[1:]
			if done != nil {
				if err := done(j.number); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var err error
	for first := 0; first < count && err == nil; first += batchSize {
		if err = ctx.Err(); err != nil {
			break
		}
		j := &job{number: first / batchSize, docs: make([]Text, 0, batchSize), ready: make(chan struct{})}
		for k := first; k < min(first+batchSize, count); k++ {
			var d Text
			if d, err = docs.Text(k * stride); err != nil {
				break
			}
			j.docs = append(j.docs, d)
		}
		if err == nil {
			queue <- j
			waiting = append(waiting, j)
			err = finish(2 * threads)
		}
	}
	if err == nil {
		err = finish(0)
	}
	close(queue)
	workers.Wait()
	return err
}
