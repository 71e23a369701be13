package kern

import "sync"

// Scratch is memory that is used again.
type Scratch struct{ Data, room []float32 }

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// Borrow returns scratch for n numbers, zero or whatever was there before. GiveBack returns it;
// nothing may look at it afterwards.
func Borrow(n int) *Scratch {
	s := scratches.Get().(*Scratch)
	if cap(s.room) < n {
		s.room = make([]float32, n)
	}
	s.Data = s.room[:n]
	return s
}

// GiveBack lets others use the scratch.
func GiveBack(s *Scratch) { scratches.Put(s) }

// Cut takes the first n numbers off the scratch.
func (s *Scratch) Cut(n int) []float32 {
	head := s.Data[:n:n]
	s.Data = s.Data[n:]
	return head
}
