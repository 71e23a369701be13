//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package store

// syncFolder does nothing: Windows keeps names durable by itself.
func syncFolder(string) error { return nil }
