package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"unseen/internal/atomicfile"
)

// Journal is a file of lines, each of which is durable when Append returns. It is text, so that a person can recover
// it:
//
//	unseen catalogue 1
//	5d0bd6a3 {"id":"b7c1",…}
//	9f00c2d7 {"id":"b7c2",…}
//
// Every line but the first carries a CRC-32C of its content. A crash can leave only the last lines incomplete, which
// were not acknowledged yet; damage with whole lines behind it means a damaged disk, and is reported instead of
// removed. One goroutine at a time may write; [Grouped] shares its syncs.
type Journal struct {
	path, title string
	file        *os.File
	size        int64
	lines       int
}

// maxJournalLine bounds the memory that a damaged file takes.
const maxJournalLine = 8 << 20

// OpenJournal opens a journal and creates it if it does not exist. The title is its name and version, such as "unseen
// catalogue 1". Every line is given to read, which may not keep it. It is of one program at a time, which the caller
// sees to.
func OpenJournal(path, title string, read func(line []byte) error) (*Journal, error) {
	atomicfile.Sweep(path)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{path: path, title: title + "\n", file: file}
	if err = j.scan(read); err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return j, nil
}

// scan reads the lines, and removes what a crash left incomplete.
func (j *Journal) scan(read func(line []byte) error) error {
	in := bufio.NewReaderSize(j.file, 1<<16)
	first, err := in.ReadBytes('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if len(first) < len(j.title) && strings.HasPrefix(j.title, string(first)) { // new, or created incompletely
		if err := j.file.Truncate(0); err != nil {
			return j.explain(err)
		}
		return j.write([]byte(j.title))
	}
	if name := j.title[:strings.LastIndexByte(j.title, ' ')+1]; string(first) != j.title {
		if strings.HasPrefix(string(first), name) {
			return fmt.Errorf("%w: it begins with %.40q; upgrade", ErrNewer, first)
		}
		return fmt.Errorf("%w: it begins with %.40q; move it away", ErrForeign, first)
	}
	j.size = int64(len(first))
	broken := error(nil)
	end := j.size
	for {
		line, err := readJournalLine(in)
		if err != nil && err != io.EOF {
			return err
		}
		if len(line) == 0 {
			break
		}
		end += int64(len(line))
		content, whole := journalContent(line)
		switch {
		case !whole && broken == nil:
			broken = fmt.Errorf("%w at byte %d, with whole lines behind it; its lines are text: remove the "+
				"damaged ones, or restore it from a copy", ErrDamaged, j.size)
			continue
		case !whole:
			continue
		case broken != nil:
			return broken
		}
		if err := read(content); err != nil {
			return fmt.Errorf("%w at byte %d: %w; restore it from a copy", ErrDamaged, j.size, err)
		}
		j.size = end
		j.lines++
	}
	return j.explain(j.file.Truncate(j.size))
}

// readJournalLine returns the next line with its end; the last one may lack it.
func readJournalLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxJournalLine {
			return nil, fmt.Errorf("%w: a line has more than %d bytes; restore it from a copy", ErrDamaged,
				maxJournalLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// journalContent returns what a line says, and whether it is whole.
func journalContent(line []byte) (content []byte, whole bool) {
	line, ended := bytes.CutSuffix(line, []byte("\n"))
	sum, content, parted := bytes.Cut(line, []byte(" "))
	claimed, err := strconv.ParseUint(string(sum), 16, 32)
	return content, ended && parted && err == nil && len(sum) == 8 && uint32(claimed) == crc32.Checksum(content,
		castagnoli)
}

func appendJournalLine(buffer, content []byte) []byte {
	buffer = fmt.Appendf(buffer, "%08x ", crc32.Checksum(content, castagnoli))
	return append(append(buffer, content...), '\n')
}

// Append makes lines durable, or leaves the file unchanged. A line has no line breaks.
func (j *Journal) Append(lines ...[]byte) error {
	var text []byte
	for _, content := range lines {
		if bytes.IndexByte(content, '\n') >= 0 || len(content) > maxJournalLine-16 {
			return fmt.Errorf("%w: a line of a journal has %d bytes, or a line break", ErrInvalid, len(content))
		}
		text = appendJournalLine(text, content)
	}
	if err := j.write(text); err != nil {
		return err
	}
	j.lines += len(lines)
	return nil
}

func (j *Journal) write(text []byte) error {
	_, err := j.file.WriteAt(text, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.file.Truncate(j.size) // what stays of it is overwritten by the next, or removed when it is opened
		return j.explain(err)
	}
	j.size += int64(len(text))
	return nil
}

// Rewrite replaces all lines, at once.
func (j *Journal) Rewrite(lines iter.Seq[[]byte]) error {
	count := 0
	err := atomicfile.WritePrivate(j.path, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<16)
		out.WriteString(j.title) // an error stays, and Flush returns it
		var line []byte
		for content := range lines {
			line = appendJournalLine(line[:0], content)
			out.Write(line)
			count++
		}
		return out.Flush()
	})
	if err != nil {
		return j.explain(err)
	}
	file, err := os.OpenFile(j.path, os.O_RDWR, 0o600)
	if err != nil {
		return j.explain(err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return j.explain(err)
	}
	j.file.Close()
	j.file, j.size, j.lines = file, info.Size(), count
	return nil
}

// Size is the length of the file in bytes.
func (j *Journal) Size() int64 { return j.size }

// Len is the number of lines.
func (j *Journal) Len() int { return j.lines }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

func (j *Journal) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("writing %s: %w (%v); nothing that was acknowledged is lost", j.path, ErrFull, err)
	}
	return err
}

// Grouped lets many goroutines share the cost of one action, such as a sync: while one group is under way, the next one
// collects. Its zero value with Do is ready.
type Grouped[T any] struct {
	Do func(group []T) // never called twice at a time

	mu   sync.Mutex
	next *group[T]
	turn sync.Mutex
}

type group[T any] struct {
	items []T
	done  bool
}

// Alone calls a function while no group is under way.
func (q *Grouped[T]) Alone(f func()) {
	q.turn.Lock()
	defer q.turn.Unlock()
	f()
}

// Add returns when an item was part of a group.
func (q *Grouped[T]) Add(item T) {
	q.mu.Lock()
	own := q.next
	if own == nil {
		own = new(group[T])
		q.next = own
	}
	own.items = append(own.items, item)
	q.mu.Unlock()
	q.turn.Lock()
	defer q.turn.Unlock()
	if own.done { // somebody else did it
		return
	}
	q.mu.Lock()
	q.next = nil
	q.mu.Unlock()
	own.done = true
	q.Do(own.items)
}
