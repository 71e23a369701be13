//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package store

import "os"

// lockFile does nothing where no lock is known: it is up to the person to give each program its own spool.
func lockFile(*os.File) error { return nil }

// syncFolder does nothing where folders cannot be synced.
func syncFolder(string) error { return nil }
