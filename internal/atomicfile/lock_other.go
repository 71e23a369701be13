//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package atomicfile

import (
	"os"
	"time"
)

// closeFirst is whether a file must be closed before it is renamed, as on Windows.
const closeFirst = true

// lock does nothing: Windows refuses to remove a file that somebody has open.
func lock(*os.File) {}

// unlock does nothing: closing the file ends a claim.
func unlock(*os.File) {}

// removeIfDead removes a temporary file unless somebody writes it. The hour is for a writer between
// closing its file and renaming it.
func removeIfDead(path string) {
	if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
		os.Remove(path)
	}
}

// removeFolderIfDead removes a temporary folder that has been left alone for a day: its own time tells
// when a file was last made in it, and a large one can take long to write.
func removeFolderIfDead(path string) {
	if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
		os.RemoveAll(path)
	}
}

// keepOwner does nothing: files have no owner here that a write would change.
func keepOwner(string, *os.File) {}
