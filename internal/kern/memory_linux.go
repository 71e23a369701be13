package kern

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapAnonymous(size int) ([]byte, error) {
	bytes, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	// Advice only: a random 3 KB row costs a page walk less on a 2 MB page. Kernels without huge
	// pages refuse, and the rows are as right as before.
	_ = unix.Madvise(bytes, unix.MADV_HUGEPAGE)
	return bytes, nil
}

func mapFile(file *os.File, size int) ([]byte, error) {
	bytes, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	// The same advice: where the file system can, a file that is not yet in memory is then read and
	// mapped in 2 MB pages.
	_ = unix.Madvise(bytes, unix.MADV_HUGEPAGE)
	return bytes, nil
}

func unmap(bytes []byte) error { return unix.Munmap(bytes) }
