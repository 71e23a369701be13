//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package atomicfile

import "os"

// Lock does nothing where no lock is known: it is up to the person to give each program its own files.
func Lock(*os.File) error { return nil }
