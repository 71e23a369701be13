package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// WriteFolder replaces the folder at path, and all that is in it, by what the function puts into the
// folder that it is given: files and no folders. When it fails, the old folder is as it was and the
// temporary one is gone. An error of the function is returned as it is.
//
// A reader finds the old folder or the new one where the system can exchange two names in one step, as
// Linux and macOS can on their own disks. Elsewhere (Windows, some network disks) there is a moment
// between two renames when there is neither; a power failure in that moment leaves the old folder beside
// the path as .name.PID-N.old, and the next write of the path brings it back first.
func WriteFolder(path string, write func(folder string) error) error {
	var own error
	err := writeFolder(path, exchange, func(folder string) error {
		own = write(folder)
		return own
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		return failure(path, err)
	}
	return nil
}

// Scratch makes an empty folder beside path for what is needed while path is written, and locks it. The
// function that it returns removes it; where the process is killed, the next WriteFolder of path does.
func Scratch(path string) (folder string, remove func(), err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	sweepFolders(path)
	folder, release, err := createFolderBeside(path, ".tmp")
	if err != nil {
		return "", nil, failure(path, err)
	}
	return folder, func() {
		release() // first: Windows removes no folder that is open
		os.RemoveAll(folder)
	}, nil
}

// errNoExchange says that the system or the disk cannot exchange two names.
var errNoExchange = errors.New("cannot exchange names here")

func writeFolder(path string, exchange func(a, b string) error, write func(folder string) error) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the folder is replaced, not the link to it
	}
	restore(path)
	sweepFolders(path)
	temporary, release, err := createFolderBeside(path, ".tmp")
	if err != nil {
		return err
	}
	defer release()
	defer os.RemoveAll(temporary) // the new folder until it has its name, the old one afterwards
	if err := write(temporary); err != nil {
		return err
	}
	if err := syncAll(temporary); err != nil {
		return err
	}
	if closeFirst {
		release()
	}
	if err := takeName(temporary, path, exchange); err != nil {
		return err
	}
	if err := (disk{}).SyncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("it is written, but may be lost in a power failure: %w", WithoutPath(err))
	}
	return nil
}

// takeName gives the temporary folder the name path; an old folder there is in its place afterwards.
func takeName(temporary, path string, exchange func(a, b string) error) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(temporary, path)
	}
	err := exchange(temporary, path)
	if !errors.Is(err, errNoExchange) {
		return err
	}
	old := strings.TrimSuffix(temporary, ".tmp") + ".old"
	if err := os.Rename(path, old); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(err, os.Rename(old, path))
	}
	return os.RemoveAll(old)
}

// restore brings back the folder that a power failure between two renames has left without its name.
func restore(path string) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, old := range beside(path, ".old") {
		if os.Rename(old, path) == nil {
			return
		}
	}
}

// sweepFolders removes the temporary folders that killed writes of path have left.
func sweepFolders(path string) {
	for _, temporary := range beside(path, ".tmp") {
		removeFolderIfDead(temporary)
	}
	if _, err := os.Lstat(path); err == nil {
		for _, old := range beside(path, ".old") {
			removeFolderIfDead(old)
		}
	}
}

// beside lists the folders .name.PID-N with the given ending beside path.
func beside(path, ending string) []string {
	folder, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // leftover folders do no harm
	}
	var found []string
	for _, entry := range entries {
		middle, ours := strings.CutPrefix(entry.Name(), prefix)
		middle, ends := strings.CutSuffix(middle, ending)
		process, number, numbered := strings.Cut(middle, "-")
		if ours && ends && numbered && digits(process) && digits(number) && entry.IsDir() {
			found = append(found, filepath.Join(folder, entry.Name()))
		}
	}
	return found
}

// createFolderBeside makes a temporary folder beside path, on the same disk, and locks it until release.
func createFolderBeside(path, ending string) (temporary string, release func(), err error) {
	const attempts = 1000
	for k := range attempts {
		temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid())+"-"+
			strconv.Itoa(k)+ending)
		err := os.Mkdir(temporary, 0o777)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		handle, err := os.Open(temporary)
		if err != nil {
			os.Remove(temporary)
			return "", nil, err
		}
		lock(handle)
		// Before it was locked, a sweep may have removed it as a dead writer's.
		if isAt(temporary, handle) {
			return temporary, func() { handle.Close() }, nil
		}
		handle.Close()
	}
	return "", nil, fmt.Errorf("there are %d temporary folders beside it", attempts)
}

// syncAll makes the files of a folder durable, and then their names.
func syncAll(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", entry.Name())
		}
		file, err := os.OpenFile(filepath.Join(folder, entry.Name()), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	return disk{}.SyncFolder(folder)
}
