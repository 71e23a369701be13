//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package atomicfile

import (
	"os"
	"syscall"
)

// closeFirst is whether a file must be closed before it is renamed.
const closeFirst = false

// lock marks a temporary file as being written; the kernel unlocks it when the process is gone.
// Where the file system knows no locks nothing is ever swept, which is safe.
// It waits for a sweep that has locked the file, which is short.
func lock(file *os.File) { flock(file, syscall.LOCK_EX) }

// removeIfDead removes a temporary file unless somebody writes it.
func removeIfDead(path string) {
	file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer file.Close()
	// Before it was locked, another process may have removed this file and made another.
	if flock(file, syscall.LOCK_EX|syscall.LOCK_NB) == nil && isAt(path, file) {
		os.Remove(path)
	}
}

// removeFolderIfDead removes a temporary folder unless somebody writes it.
func removeFolderIfDead(path string) {
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer folder.Close()
	if flock(folder, syscall.LOCK_EX|syscall.LOCK_NB) == nil && isAt(path, folder) {
		os.RemoveAll(path)
	}
}

// Lock claims a file for this process until it is closed, or the process is gone. It does not wait.
func Lock(file *os.File) error { return flock(file, syscall.LOCK_EX|syscall.LOCK_NB) }

// unlock ends a claim at once: closing alone would leave it to a process that is being started and has the file too.
func unlock(file *os.File) { flock(file, syscall.LOCK_UN) }

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// keepOwner gives the replacement of a file to the file's owner where root writes it, so that a service can still
// read a file that root edited. Where that fails, the file is root's.
func keepOwner(path string, file *os.File) {
	if os.Geteuid() != 0 {
		return
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		if was, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = file.Chown(int(was.Uid), int(was.Gid))
		}
	}
}
