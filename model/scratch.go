package model

import (
	"sync"

	"unseen/internal/kern"
)

// buffer is scratch memory that is used again.
type buffer struct{ data, room []float32 }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// borrow returns scratch for n numbers, zero or whatever was there before.
func borrow(n int) *buffer {
	b := buffers.Get().(*buffer)
	if cap(b.room) < n {
		b.room = make([]float32, n)
	}
	b.data = b.room[:n]
	return b
}

func giveBack(b *buffer) { buffers.Put(b) }

// cut takes the first n numbers off the scratch.
func (b *buffer) cut(n int) []float32 {
	head := b.data[:n:n]
	b.data = b.data[n:]
	return head
}

// view looks at numbers as a matrix for the kernels.
func view(data []float32, rows, dim int) *kern.Matrix {
	m, err := kern.View(data, rows, dim, dim)
	if err != nil {
		panic(err) // the shapes are this package's own
	}
	return m
}
