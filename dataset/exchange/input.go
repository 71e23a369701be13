package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"unseen/internal/atomicfile"
)

// Input is a file that is read from its beginning to its end: plain, gzip or zstd, as its first bytes say. It is
// bounded: a small file that expands without end is an error that wraps ErrExpands.
type Input struct {
	path     string
	ctx      context.Context
	file     InputFile
	packed   countingReader // what comes from the file
	content  io.Reader
	size     int64
	out      int64 // bytes returned
	lines    int64 // of them, if they were compressed
	options  Options
	reported int64 // how much of the file, at the last report of progress
	closers  []func()
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// InputFile is an open file.
type InputFile interface {
	io.ReadCloser
	io.ReaderAt
	Stat() (fs.FileInfo, error)
}

// OpenInput opens a file. A folder, a device or a pipe is refused.
func OpenInput(ctx context.Context, path string, o Options) (*Input, error) {
	file, size, err := openFile(path, o)
	if err != nil {
		return nil, err
	}
	s, err := newInput(ctx, path, file, size, o)
	if err != nil {
		file.Close()
		return nil, err
	}
	s.file = file
	return s, nil
}

// openFile opens a file and returns its size.
func openFile(path string, o Options) (file InputFile, size int64, err error) {
	at := Place{File: path}
	switch {
	case slices.Contains([]string{".xlsx", ".xls", ".ods"}, strings.ToLower(filepath.Ext(path))):
		return nil, 0, failAt(at, fmt.Errorf("%w: it is a spreadsheet", ErrUsage), "save it as CSV, in UTF-8")
	case o.Open != nil:
		file, err = o.Open(path)
	default:
		file, err = openRegular(path)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, &Error{at, atomicfile.WithoutPath(err)}
	}
	return file, info.Size(), nil
}

// openRegular opens a regular file of this machine.
func openRegular(path string) (InputFile, error) {
	at := Place{File: path}
	// Checked before it is opened, since opening a pipe waits for its writer.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failAt(at, fs.ErrNotExist, "name an existing file")
	case err != nil:
		return nil, failAt(at, atomicfile.WithoutPath(err), "name a readable file")
	case info.IsDir():
		return nil, failAt(at, fmt.Errorf("%w: it is a folder", ErrUsage), "name a file in it")
	case !info.Mode().IsRegular():
		return nil, failAt(at, fmt.Errorf("%w: not a regular file", ErrUsage), "copy its content to a file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, failAt(at, atomicfile.WithoutPath(err), "check its permissions")
	}
	return file, nil
}

// newInput reads from any reader, of size bytes.
func newInput(ctx context.Context, path string, r io.Reader, size int64, o Options) (*Input, error) {
	s := &Input{path: path, ctx: ctx, size: size, options: o}
	s.options.Limits = o.Limits.withDefaults()
	s.packed.r = r
	var head [4]byte
	n, err := io.ReadFull(&s.packed, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &Error{Place{File: path}, atomicfile.WithoutPath(err)}
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

// expandHint is what to do about an honest file that holds too much.
const expandHint = "if you trust it, expand it yourself and import the result"

// Path returns the file's path.
func (s *Input) Path() string { return s.path }

// Read reads what the file holds, expanded.
func (s *Input) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.content.Read(p)
	s.out += int64(n)
	if len(s.closers) > 0 { // compressed
		s.lines += int64(bytes.Count(p[:n], []byte{'\n'}))
		limits := s.options.Limits
		if s.out > limits.bytes(s.packed.n) || s.lines > limits.records(s.packed.n) {
			return 0, failAt(Place{File: s.path}, fmt.Errorf("%w: %d bytes and %d lines out of %d bytes", ErrExpands,
				s.out, s.lines, s.packed.n), expandHint)
		}
	}
	if s.packed.n-s.reported >= 1<<18 {
		s.reported = s.packed.n
		s.options.reading(s.path, s.packed.n, s.size)
	}
	if err != nil && err != io.EOF {
		err = s.fail(err)
	}
	return n, err
}

func (s *Input) fail(err error) error {
	at := Place{File: s.path}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failAt(at, fmt.Errorf("%w: the compressed data ends early", ErrTruncated), "download or copy it again")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded),
		errors.Is(err, zstd.ErrWindowSizeTooSmall):
		return failAt(at, fmt.Errorf("%w: %v", ErrExpands, err),
			"compress it again with a smaller window: zstd -d FILE, then zstd --long=27")
	}
	return failAt(at, fmt.Errorf("%w: %v", ErrFormat, atomicfile.WithoutPath(err)), "download or copy it again")
}

// Close closes the file.
func (s *Input) Close() error {
	for _, c := range s.closers {
		c()
	}
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
