package temptest

import (
	"fmt"
	"syscall"
	"testing"
)

// SmallDisk is a file system of a size, in memory.
func SmallDisk(t testing.TB, size int) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("unseen-test", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skip("only root can mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}
