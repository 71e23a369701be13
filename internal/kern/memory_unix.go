//go:build unix && !linux

package kern

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapAnonymous(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func mapFile(file *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(bytes []byte) error { return unix.Munmap(bytes) }
