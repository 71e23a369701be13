package model

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
)

// Save writes the file such that a reader finds the old content or the new, whatever happens: into a
// temporary file in the same folder, which is synced, renamed and its folder synced. When it fails,
// the old file is as it was and the temporary one is gone.
func (f *File) Save(path string) error { return f.save(path, disk{}) }

func (f *File) save(path string, files fileSystem) error {
	write, err := f.encode()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := writeFile(path, files, write); err != nil {
		return fmt.Errorf("model: cannot save %s: %w", path, err)
	}
	return nil
}

// fileSystem is what writing a file needs, so that tests can fill the disk.
type fileSystem interface {
	// Create makes a new file; it is an error that wraps fs.ErrExist if there is one.
	Create(path string) (outFile, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncFolder makes the names in a folder last.
	SyncFolder(path string) error
}

// outFile is a file that is being written.
type outFile interface {
	io.WriteCloser
	Sync() error
}

func writeFile(path string, files fileSystem, write func(io.Writer) error) (err error) {
	temporary, file, err := createBeside(path, files)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			files.Remove(temporary) // the first error says more than a second one
		}
	}()
	buffered := bufio.NewWriterSize(file, 1<<16)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	if err = files.Rename(temporary, path); err != nil {
		return err
	}
	if lasting := files.SyncFolder(filepath.Dir(path)); lasting != nil {
		return fmt.Errorf("it is written, but may not outlast a power cut: %w", lasting)
	}
	return nil
}

// createBeside makes a temporary file in the path's folder, on the same disk.
func createBeside(path string, files fileSystem) (string, outFile, error) {
	const attempts = 1000
	for k := range attempts {
		temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(k)+".tmp")
		file, err := files.Create(temporary)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return temporary, file, err
	}
	return "", nil, fmt.Errorf("%d temporary files lie beside it; remove them", attempts)
}

// disk is the file system of the machine.
type disk struct{}

func (disk) Create(path string) (outFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
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
