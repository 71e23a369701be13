package temptest

import "golang.org/x/sys/unix"

// roomy reports whether a folder is in memory and has 2 GiB left.
func roomy(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && s.Type == unix.TMPFS_MAGIC && s.Bavail*uint64(s.Bsize) >= 2<<30
}
