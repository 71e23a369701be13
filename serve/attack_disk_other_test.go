//go:build !linux

package serve

import "testing"

// smallDisk is a file system of a size, where one can be made.
func smallDisk(t *testing.T, _ int) string {
	t.Skip("a small disk is mounted on Linux only")
	return ""
}
