package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Source is a file that is read from its beginning to its end, plain, gzip or zstd; which one its first
// bytes tell. It is bounded: a small file that expands without end is an error that wraps ErrExpands.
type Source struct {
	path     string
	ctx      context.Context
	file     *os.File
	packed   counted // what comes from the file
	content  io.Reader
	size     int64
	out      int64 // bytes handed out
	limits   Limits
	progress func(Step)
	told     int64
	closers  []func()
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// OpenSource opens a file. A folder, a device or a pipe is refused.
func OpenSource(ctx context.Context, path string, o Options) (*Source, error) {
	at := Place{File: path}
	// Before it is opened, for a pipe would wait there for its writer.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Wrong(at, fs.ErrNotExist, "name a file that is there")
	case err != nil:
		return nil, Wrong(at, bare(err), "name a file that can be read")
	case info.IsDir():
		return nil, Wrong(at, fmt.Errorf("%w: it is a folder", ErrUsage), "name a file in it")
	case !info.Mode().IsRegular():
		return nil, Wrong(at, fmt.Errorf("%w: it is no plain file", ErrUsage), "copy what it holds to a file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, Wrong(at, bare(err), "ask for the right to read it")
	}
	s, err := newSource(ctx, path, file, info.Size(), o)
	if err != nil {
		file.Close()
		return nil, err
	}
	s.file = file
	return s, nil
}

// newSource reads from any reader of so many bytes.
func newSource(ctx context.Context, path string, r io.Reader, size int64, o Options) (*Source, error) {
	s := &Source{path: path, ctx: ctx, size: size, limits: o.Limits.withDefaults(), progress: o.Progress}
	s.packed.r = r
	var head [4]byte
	n, err := io.ReadFull(&s.packed, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, Wrong(Place{File: path}, bare(err), "")
	}
	whole := io.MultiReader(bytes.NewReader(head[:n]), &s.packed)
	switch {
	case bytes.HasPrefix(head[:n], []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(whole)
		if err != nil {
			return nil, s.fail(err)
		}
		s.content = z
		s.closers = append(s.closers, func() { z.Close() })
	case n == 4 && head == [4]byte{0x28, 0xb5, 0x2f, 0xfd}:
		// One thread, and no more memory than a window of zstd -19 --long takes.
		z, err := zstd.NewReader(whole, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, s.fail(err)
		}
		s.content = z
		s.closers = append(s.closers, z.Close)
	default:
		s.content = whole
	}
	return s, nil
}

// Path returns the file's path.
func (s *Source) Path() string { return s.path }

// Read reads what the file holds, expanded.
func (s *Source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.content.Read(p)
	s.out += int64(n)
	if s.out > s.limits.Free && float64(s.out) > s.limits.Expansion*float64(s.packed.n) {
		return 0, Wrong(Place{File: s.path}, fmt.Errorf("%w: %d bytes out of %d", ErrExpands, s.out, s.packed.n),
			"expand it yourself if you trust it, and import what comes out")
	}
	if s.progress != nil && s.packed.n-s.told >= 1<<18 {
		s.told = s.packed.n
		s.progress(Step{File: s.path, Done: s.Done()})
	}
	if err != nil && err != io.EOF {
		err = s.fail(err)
	}
	return n, err
}

// Done returns the share of the file's bytes, as they lie on disk, that was read.
func (s *Source) Done() float64 {
	if s.size <= 0 {
		return 0
	}
	return min(1, float64(s.packed.n)/float64(s.size))
}

func (s *Source) fail(err error) error {
	at := Place{File: s.path}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Wrong(at, fmt.Errorf("%w: its compressed bytes end early", ErrTruncated), "download or copy it again")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded),
		errors.Is(err, zstd.ErrWindowSizeTooSmall):
		return Wrong(at, fmt.Errorf("%w: %v", ErrExpands, err),
			"pack it again with a smaller window: zstd -d FILE, then zstd --long=27")
	}
	return Wrong(at, fmt.Errorf("%w: %v", ErrFormat, bare(err)), "download or copy it again")
}

// Close closes the file.
func (s *Source) Close() error {
	for _, c := range s.closers {
		c()
	}
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
