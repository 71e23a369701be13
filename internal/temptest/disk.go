package temptest

import (
	"os"
	"path/filepath"
	"testing"
)

// FillDisk leaves so many bytes free on a file system, in blocks, and returns the file that takes the rest. Remove it
// to make space.
func FillDisk(t testing.TB, disk string, free int) (file string) {
	t.Helper()
	path := filepath.Join(disk, "fill")
	fill, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	written := int64(0)
	for size := 1 << 20; size >= 1; {
		n, err := fill.Write(make([]byte, size))
		if written += int64(n); err != nil {
			size /= 2
		}
	}
	if err := fill.Truncate(max(0, written-int64(free))); err != nil {
		t.Fatal(err)
	}
	return path
}
