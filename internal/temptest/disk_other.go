//go:build !linux

package temptest

import "testing"

// SmallDisk is a file system of a size, where one can be made.
func SmallDisk(t testing.TB, _ int) string {
	t.Skip("a small disk is mounted on Linux only")
	return ""
}
