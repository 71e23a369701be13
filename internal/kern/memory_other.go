//go:build !unix && !windows

package kern

import (
	"io"
	"os"
	"unsafe"
)

func mapAnonymous(size int) ([]byte, error) {
	words := make([]uint64, (size+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size), nil
}

func mapFile(file *os.File, size int) ([]byte, error) {
	bytes, err := mapAnonymous(size)
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(file, bytes)
	return bytes, err
}

func unmap([]byte) error { return nil }
