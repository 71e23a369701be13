//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package store

import "os"

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
