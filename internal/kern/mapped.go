package kern

import (
	"fmt"
	"os"
	"unsafe"
)

// Mapped is a file in memory, read-only, whose pages are read when they are touched. Slices of it are valid until it is
// closed.
type Mapped struct{ memory mapping }

// MapWhole maps a file, which may be closed afterwards.
func MapWhole(file *os.File) (*Mapped, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := int(info.Size())
	if size == 0 || int64(size) != info.Size() {
		return nil, fmt.Errorf("%w: a file of %d bytes", ErrSize, info.Size())
	}
	m := &Mapped{}
	if m.memory.bytes, err = mapFile(file, size); err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", file.Name(), err)
	}
	return m, nil
}

// Bytes returns the content.
func (m *Mapped) Bytes() []byte { return m.memory.bytes }

// Close gives the memory back.
func (m *Mapped) Close() error { return m.memory.release() }

// NumbersOf looks at bytes as little-endian numbers of four bytes each. The bytes must be aligned to them.
func NumbersOf[T int32 | float32](bytes []byte) []T {
	if len(bytes) == 0 {
		return nil
	}
	if uintptr(unsafe.Pointer(&bytes[0]))%4 != 0 {
		panic("kern: numbers that are not aligned")
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&bytes[0])), len(bytes)/4)
}

// BytesOf looks at numbers as bytes.
func BytesOf[T int32 | float32](numbers []T) []byte {
	if len(numbers) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&numbers[0])), 4*len(numbers))
}
