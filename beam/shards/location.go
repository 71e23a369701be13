package shards

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	// The storages that addresses may name.
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/s3"

	"unseen/dataset"
	"unseen/graph"
)

// Location is a place for files: a folder, or an address such as s3://bucket/prefix.
type Location struct{ Root string }

// Local tells whether the place is a folder of this machine's file system.
func (s Location) Local() bool { return !strings.Contains(s.Root, "://") }

// Absolute returns the same place by a name that means the same to every process of this machine.
func (s Location) Absolute() Location {
	if s.Local() {
		if root, err := filepath.Abs(s.Root); err == nil {
			return Location{root}
		}
	}
	return s
}

// Path returns the full name of a file.
func (s Location) Path(name string) string {
	if s.Local() {
		return filepath.Join(s.Root, name)
	}
	return strings.TrimSuffix(s.Root, "/") + "/" + name
}

// ReadAll reads a whole file.
func (s Location) ReadAll(ctx context.Context, name string) (content []byte, err error) {
	err = s.read(ctx, name, func(r io.Reader) (err error) { content, err = io.ReadAll(r); return err })
	return content, err
}

// How often what is elsewhere is read before it is given up, and how long the first pause between is; each is four
// times the one before.
const (
	mostReads  = 4
	firstPause = 50 * time.Millisecond
)

// read reads a file as readFile does.
func (s Location) read(ctx context.Context, name string, read func(io.Reader) error) error {
	err := readFile(ctx, s.Path(name), s.Path(name), read)
	if errors.Is(err, ErrUnread) {
		return fmt.Errorf("%w, and if that fails too make the shards again", err)
	}
	return err
}

// readFile opens a file and reads it, from its beginning again where a connection is lost. What opens it tries again by
// itself. Errors give the file a name.
func readFile(ctx context.Context, path, name string, read func(io.Reader) error) error {
	files, err := filesystem.New(ctx, path)
	if err != nil {
		return err
	}
	defer files.Close()
	return retry(ctx, func() (again bool, err error) {
		r, err := files.OpenRead(ctx, path)
		if err != nil {
			return false, missing(name, err)
		}
		defer r.Close()
		if err := read(r); err != nil {
			return !(Location{path}).Local(), fmt.Errorf("%w: %s: %w; try again", ErrUnread, name, err)
		}
		return false, nil
	})
}

// retry does something until it succeeds, says not to do it again, or has failed too often.
func retry(ctx context.Context, do func() (again bool, err error)) error {
	pause := firstPause
	for reads := 1; ; reads++ {
		again, err := do()
		if err == nil || !again || reads == mostReads {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
			pause *= 4
		}
	}
}

func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "NoSuchKey") { // of S3, Beam keeps the words
		err = fs.ErrNotExist
	}
	return fmt.Errorf("%w: %s: %w", ErrMissing, name, err)
}

// Read reads a whole file and checks that it is the one that is meant.
func (s Location) Read(ctx context.Context, f FileSum) ([]byte, error) {
	content, err := s.ReadAll(ctx, f.Name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	return content, s.compare(f, int64(len(content)), sum[:])
}

func (s Location) compare(f FileSum, bytes int64, sum []byte) error {
	if bytes != f.Bytes {
		return fmt.Errorf("%w: %s has %d bytes and should have %d; make the shards again", ErrDamaged, s.Path(f.Name),
			bytes, f.Bytes)
	}
	if have := hex.EncodeToString(sum); sum != nil && have != f.SHA256 {
		return fmt.Errorf("%w: %s has the SHA-256 %.12s… and should have %.12s…; make the shards again", ErrDamaged,
			s.Path(f.Name), have, f.SHA256)
	}
	return nil
}

// Write writes a file under a temporary name and renames it when it is whole.
func (s Location) Write(ctx context.Context, name string, write func(io.Writer) error) (FileSum, error) {
	files, err := filesystem.New(ctx, s.Root)
	if err != nil {
		return FileSum{}, err
	}
	defer files.Close()
	temporary := s.Path(name + unique(".tmp-"))
	w, err := files.OpenWrite(ctx, temporary)
	if err != nil {
		return FileSum{}, fmt.Errorf("writing %s: %w", s.Path(name), err)
	}
	counted := &counter{w: w, sum: sha256.New()}
	err = write(counted)
	if failed := w.Close(); err == nil {
		err = failed
	}
	if err == nil {
		err = filesystem.Rename(ctx, files, temporary, s.Path(name))
	}
	if err != nil {
		if r, ok := files.(filesystem.Remover); ok {
			r.Remove(ctx, temporary) // the first error says more
		}
		return FileSum{}, fmt.Errorf("writing %s: %w", s.Path(name), err)
	}
	return FileSum{Name: name, Bytes: counted.bytes, SHA256: hex.EncodeToString(counted.sum.Sum(nil))}, nil
}

// WriteBytes writes a file.
func (s Location) WriteBytes(ctx context.Context, name string, content []byte) (FileSum, error) {
	return s.Write(ctx, name, func(w io.Writer) error { _, err := w.Write(content); return err })
}

// unique returns a name that no other process makes.
func unique(prefix string) string { return fmt.Sprintf("%s%016x", prefix, rand.Uint64()) }

type counter struct {
	w     io.Writer
	sum   hash.Hash
	bytes int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.sum.Write(b[:n])
	c.bytes += int64(n)
	return n, err
}

// Remove removes files; those that are not there are no error.
func (s Location) Remove(ctx context.Context, names ...string) {
	files, err := filesystem.New(ctx, s.Root)
	if err != nil {
		return
	}
	defer files.Close()
	if r, ok := files.(filesystem.Remover); ok {
		for _, name := range names {
			r.Remove(ctx, s.Path(name))
		}
	}
}

// Exists tells whether a file is there.
func (s Location) Exists(ctx context.Context, name string) bool {
	if s.Local() { // a name may have characters that a pattern does not mean
		_, err := os.Stat(s.Path(name))
		return err == nil
	}
	files, err := filesystem.New(ctx, s.Root)
	if err != nil {
		return false
	}
	defer files.Close()
	found, err := files.List(ctx, s.Path(name))
	return err == nil && len(found) > 0
}

// Temporary returns a place beside this one where results are made before Publish gives them their name.
func (s Location) Temporary() Location {
	return Location{strings.TrimSuffix(s.Root, "/") + unique(".tmp-")}
}

// Publish moves files to where they are looked for, the last of them last: a reader that asks for that one first never
// sees a part. A folder takes its name in one step.
func (s Location) Publish(ctx context.Context, from Location, names ...string) error {
	if s.Local() {
		if err := os.Rename(from.Root, s.Root); err != nil {
			return fmt.Errorf("publishing %s: %w; the files are in %s", s.Root, err, from.Root)
		}
		return nil
	}
	files, err := filesystem.New(ctx, s.Root)
	if err != nil {
		return err
	}
	defer files.Close()
	for _, name := range names {
		if err := filesystem.Rename(ctx, files, from.Path(name), s.Path(name)); err != nil {
			return fmt.Errorf("publishing %s: %w", s.Path(name), err)
		}
	}
	return nil
}

// Discard removes what a failed job left in a temporary place.
func (s Location) Discard(ctx context.Context) {
	if s.Local() {
		os.RemoveAll(s.Root)
		return
	}
	files, err := filesystem.New(ctx, s.Root)
	if err != nil {
		return
	}
	defer files.Close()
	names, _ := files.List(ctx, s.Path("*"))
	if r, ok := files.(filesystem.Remover); ok {
		for _, name := range names {
			r.Remove(ctx, name)
		}
	}
}

// mostSummed is the size up to which the sum of a file of vectors is looked at; larger ones are known by their size, as
// in package dataset.
const mostSummed = 64 << 20

// summed are the files whose sum this process has found right, by name, size, time and sum.
var summed sync.Map

// fetched are the files of vectors that this process has copied from elsewhere, by address and sum.
var fetched = struct {
	sync.Mutex
	paths map[string]string
}{paths: map[string]string{}}

// Vectors maps the vectors of a block. Those that are elsewhere are copied to the folder for
// temporary files first, once.
func (s Location) Vectors(ctx context.Context, f FileSum) (*graph.Vectors, error) {
	path := s.Path(f.Name)
	if s.Local() {
		info, err := os.Stat(path)
		if err != nil {
			return nil, missing(path, err)
		}
		var sum []byte
		known := fmt.Sprint(path, info.Size(), info.ModTime().UnixNano(), f.SHA256)
		if _, seen := summed.Load(known); !seen && info.Size() == f.Bytes && f.Bytes <= mostSummed {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, missing(path, err)
			}
			have := sha256.Sum256(content)
			sum = have[:]
		}
		if err := s.compare(f, info.Size(), sum); err != nil {
			return nil, err
		}
		summed.Store(known, true)
	} else {
		var err error
		if path, err = s.fetch(ctx, f); err != nil {
			return nil, err
		}
	}
	v, err := dataset.MapVectors(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v, nil
}

func (s Location) fetch(ctx context.Context, f FileSum) (string, error) {
	fetched.Lock()
	defer fetched.Unlock()
	key := s.Path(f.Name) + " " + f.SHA256
	if path, ok := fetched.paths[key]; ok {
		return path, nil
	}
	file, err := os.CreateTemp("", "unseen-vectors-*.npy")
	if err != nil {
		return "", err
	}
	var sum hash.Hash
	var n int64
	err = s.read(ctx, f.Name, func(r io.Reader) (err error) {
		if _, err = file.Seek(0, io.SeekStart); err == nil {
			err = file.Truncate(0)
		}
		if err == nil {
			sum = sha256.New()
			n, err = io.Copy(io.MultiWriter(file, sum), r)
		}
		return err
	})
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = s.compare(f, n, sum.Sum(nil))
	}
	if err != nil {
		os.Remove(file.Name())
		return "", err
	}
	fetched.paths[key] = file.Name()
	return file.Name(), nil
}
