package shards

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"

	"unseen/internal/atomicfile"
)

// escaped is an address as Beam takes it, which reads addresses as URLs: names of objects may have these characters.
func escaped(address string) string {
	return strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(address)
}

// List returns the addresses of the objects that a pattern matches, in which * stands for a part of a name without /.
func List(ctx context.Context, pattern string) ([]string, error) {
	files, err := filesystem.New(ctx, pattern)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	var found []string
	if err := retry(ctx, func() (again bool, err error) {
		found, err = files.List(ctx, escaped(pattern))
		return true, err
	}); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnread, pattern, err)
	}
	return slices.DeleteFunc(found, func(address string) bool {
		return strings.HasSuffix(address, "/") // an object without content that stands for a folder
	}), nil
}

// Copy copies the object at an address to an empty file of this machine, from its beginning again where a connection is
// lost.
func Copy(ctx context.Context, address string, to *os.File) error {
	var failed error // to write: reading again is of no use
	write := writeFunc(func(b []byte) (n int, err error) {
		n, err = to.Write(b)
		failed = err
		return n, err
	})
	err := readFile(ctx, escaped(address), address, func(r io.Reader) error {
		if _, failed = to.Seek(0, io.SeekStart); failed == nil {
			failed = to.Truncate(0)
		}
		if failed != nil {
			return nil
		}
		if _, err := io.Copy(write, r); failed == nil {
			return err
		}
		return nil
	})
	if err == nil && failed != nil {
		err = fmt.Errorf("copying %s to a temporary file in %s: %w; make room there, or set TMPDIR to another folder",
			address, filepath.Dir(to.Name()), atomicfile.WithoutPath(failed))
	}
	return err
}

// writeFunc is a function as io.Writer.
type writeFunc func([]byte) (int, error)

func (f writeFunc) Write(b []byte) (int, error) { return f(b) }
