package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Write replaces the file at path by what the function writes. When it fails, the old file is as it
// was and the temporary one is gone; the error names the path and says what to do.
func Write(path string, write func(io.Writer) error) error {
	return writeFile(path, disk{mode: 0o666}, write)
}

// WritePrivate is Write for a file that only its owner may read.
func WritePrivate(path string, write func(io.Writer) error) error {
	return writeFile(path, disk{mode: 0o600}, write)
}

// WriteBytes replaces the file at path by these bytes, as Write does.
func WriteBytes(path string, content []byte) error {
	return Write(path, func(w io.Writer) error { _, err := w.Write(content); return err })
}

// Writable checks, before hours of work, that a file can be written at path after them.
func Writable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return failure(path, errFolder)
	}
	Sweep(path)
	temporary, file, err := createBeside(path, disk{mode: 0o600})
	if err != nil {
		return failure(path, err)
	}
	closed := file.Close()
	removed := os.Remove(temporary)
	if errors.Is(removed, fs.ErrNotExist) {
		removed = nil // another process has swept it
	}
	if err := errors.Join(closed, removed); err != nil {
		return failure(path, err)
	}
	return nil
}

// Sweep removes temporary files, .name.PID-N.tmp, that killed writes of path have left. Write does so too.
func Sweep(path string) {
	folder, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // leftover files do no harm
	}
	for _, entry := range entries {
		middle, ours := strings.CutPrefix(entry.Name(), prefix)
		middle, temporary := strings.CutSuffix(middle, ".tmp")
		process, number, numbered := strings.Cut(middle, "-")
		if ours && temporary && numbered && digits(process) && digits(number) && entry.Type().IsRegular() {
			removeIfDead(filepath.Join(folder, entry.Name()))
		}
	}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Error says which file could not be written, why, and what to do.
type Error struct {
	Path string
	Err  error // without the name of the temporary file, which would mislead
}

func (e *Error) Error() string {
	fix := "free space there, or choose another path"
	switch {
	case errors.Is(e.Err, fs.ErrNotExist):
		fix = "make its folder first, or choose another path"
	case errors.Is(e.Err, fs.ErrPermission):
		fix = "check its permissions, or choose another path"
	case errors.Is(e.Err, errFolder), errors.Is(e.Err, syscall.EROFS):
		fix = "choose another path"
	}
	return fmt.Sprintf("cannot write %s: %v; %s", e.Path, e.Err, fix)
}

func (e *Error) Unwrap() error { return e.Err }

var errFolder = errors.New("it is a folder")

func failure(path string, err error) error { return &Error{path, WithoutPath(err)} }

// WithoutPath removes the operation and the path from the system's own errors, for sentences that name the path
// themselves.
func WithoutPath(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// fileSystem is what writing a file needs, so that tests can fill the disk.
type fileSystem interface {
	// Create makes a new file; if there is one, the error wraps fs.ErrExist.
	Create(path string) (outFile, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncFolder makes the names in a folder durable.
	SyncFolder(path string) error
}

// outFile is a file that is being written.
type outFile interface {
	io.WriteCloser
	Sync() error
}

func writeFile(path string, files fileSystem, write func(io.Writer) error) (err error) {
	Sweep(path)
	temporary, file, err := createBeside(path, files)
	if err != nil {
		return failure(path, err)
	}
	open, renamed := true, false
	defer func() {
		if open {
			file.Close() // its error matters less than the first one
		}
		if !renamed {
			files.Remove(temporary)
		}
		if err != nil {
			err = failure(path, err)
		}
	}()
	if own, ok := file.(*os.File); ok {
		keepOwner(path, own)
	}
	buffered := bufio.NewWriterSize(file, 1<<16)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if closeFirst { // else the lock lasts until the file has its name
		open = false
		if err := file.Close(); err != nil {
			return err
		}
	}
	if err := files.Rename(temporary, path); err != nil {
		return err
	}
	renamed = true
	if err := files.SyncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("it is written, but may be lost in a power failure: %w", WithoutPath(err))
	}
	return nil
}

// createBeside makes a temporary file in the path's folder, on the same disk, and locks it.
func createBeside(path string, files fileSystem) (string, outFile, error) {
	const attempts = 1000
	for k := range attempts {
		temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid())+"-"+
			strconv.Itoa(k)+".tmp")
		file, err := files.Create(temporary)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return temporary, file, err
	}
	return "", nil, fmt.Errorf("there are %d temporary files beside it", attempts)
}

// disk is the file system of the machine.
type disk struct {
	mode fs.FileMode // of new files
}

func (d disk) Create(path string) (outFile, error) {
	for {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, d.mode)
		if err != nil {
			return nil, err
		}
		lock(file)
		// Before it was locked, a sweep may have removed it as a dead writer's.
		if isAt(path, file) {
			return file, nil
		}
		file.Close()
	}
}

// isAt reports whether an open file is the one at a path.
func isAt(path string, file *os.File) bool {
	there, err1 := os.Lstat(path)
	here, err2 := file.Stat()
	return err1 == nil && err2 == nil && os.SameFile(there, here)
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }

func (disk) Remove(path string) error { return os.Remove(path) }

func (disk) SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // it cannot sync folders, and its renames last
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
