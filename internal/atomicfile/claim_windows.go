package atomicfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// Lock claims a file for this process until it is closed, or the process is gone. It does not wait. The byte it locks
// lies far behind any content, as Windows lets nobody read a locked byte.
func Lock(file *os.File) error {
	far := &windows.Overlapped{OffsetHigh: 1 << 30}
	return windows.LockFileEx(windows.Handle(file.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, far)
}
