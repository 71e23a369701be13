package job

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"unseen/beam/shards"
	"unseen/dataset/exchange"
	"unseen/internal/atomicfile"
)

// deepest is how many folders deep a folder at an address is looked into: an object store lists one depth at a time.
const deepest = 8

// filesAt lists the objects at an address: one; or those that a pattern matches, but for markers and hidden files; or
// those of a kind in a folder and in its folders.
func filesAt(ctx context.Context, address string, is func(name string) bool) (files []string, err error) {
	add := func(pattern string, is func(name string) bool) error {
		found, err := shards.List(ctx, pattern)
		files = append(files, slices.DeleteFunc(found, func(file string) bool { return !is(path.Base(file)) })...)
		return err
	}
	if !strings.HasSuffix(address, "/") {
		err = add(address, func(name string) bool { return name == path.Base(address) || exchange.Tabular(name) })
		if err != nil || len(files) > 0 {
			return files, err
		}
	}
	folder := strings.TrimRight(address, "/")
	for range deepest {
		folder += "/*"
		if err := add(folder, is); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// spool returns how a table at an address is opened: it is copied to a temporary file of this machine first, since some
// formats are not read from their beginning to their end. It is nil for a table in a folder.
func spool(ctx context.Context, path string) func(string) (exchange.InputFile, error) {
	if (shards.Location{Root: path}).Local() {
		return nil
	}
	return func(address string) (exchange.InputFile, error) {
		file, err := os.CreateTemp("", "unseen-table-*")
		if err == nil {
			if err = os.Remove(file.Name()); err != nil { // its content stays until it is closed, or this process ends
				file.Close()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s needs a temporary file: %s: %w; set TMPDIR to a folder with room for the table",
				address, os.TempDir(), atomicfile.WithoutPath(err))
		}
		if err = shards.Copy(ctx, address, file); err == nil {
			_, err = file.Seek(0, io.SeekStart)
		}
		if err != nil {
			file.Close()
			return nil, err
		}
		return spooledTable{file}, nil
	}
}

// spooledTable is a copy of a table, whose name says nothing to anybody.
type spooledTable struct{ *os.File }

func (f spooledTable) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	return n, atomicfile.WithoutPath(err)
}

func (f spooledTable) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	return n, atomicfile.WithoutPath(err)
}
