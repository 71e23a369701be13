package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"unseen/internal/atomicfile"
)

// spool is a file that takes events while the database is down. It is text, so that a person can recover it:
//
//	unseen spool 2
//	group 1 events 2 bytes 314 5d0bd6a3
//	1b2e6a40 {"id":"b7c1","kind":"shown",…}
//	9f00c2d7 {"id":"b7c2","kind":"clicked",…}
//	group 2 …
//
// Every line but the first carries a CRC-32C of its content. A group is written at once and synced before the
// next begins. So a crash can truncate only the last group, which was not acknowledged yet; damage with a later
// group behind it means a damaged disk, and is reported instead of removed.
//
// Events of version 1 have no surface, place probability and candidates. Such a file is read, and becomes one of
// version 2, which a program that would drop them refuses.
//
// The file shrinks to its first line when all of it is in the database. After a crash the whole file is
// replayed, which stores nothing twice.
type spool struct {
	path  string
	limit int64

	mu      sync.Mutex
	file    spoolFile
	size    int64 // end of the last complete group
	read    int64 // start of the first group that is not in the database yet
	group   uint64
	waiting int64 // events between read and size
}

// spoolFile is what the spool needs of a file; tests inject faults here.
type spoolFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
}

const (
	spoolTitle     = "unseen spool 2\n"
	spoolTitle1    = "unseen spool 1\n" // as long: the one is written over the other
	spoolGroupLine = 100                // bytes that the first line of a group takes at most
)

var groupWord = []byte("group ")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spoolExists reports whether there is a spool at path.
func spoolExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// openSpool opens the file, checks all of it, and removes a group that a crash left incomplete.
func openSpool(path string, limit int64) (*spool, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the spool: %w; choose another path, or allow this user to write there", err)
	}
	if err := atomicfile.Lock(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("spool %s is in use by another program (%v); give each program its own", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	s := &spool{path: path, limit: limit, file: file}
	if err := s.scan(info.Size()); err != nil {
		file.Close()
		return nil, err
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		file.Close()
		return nil, fmt.Errorf("opening the spool %s: %w", path, err)
	}
	return s, nil
}

// scan finds where the complete groups end in a file of the given size.
func (s *spool) scan(size int64) error {
	title := make([]byte, min(size, int64(len(spoolTitle))))
	if _, err := s.file.ReadAt(title, 0); err != nil && err != io.EOF {
		return fmt.Errorf("reading the spool %s: %w", s.path, err)
	}
	switch {
	case string(title) == spoolTitle1,
		len(title) < len(spoolTitle) && strings.HasPrefix(spoolTitle, string(title)): // or new, or created incompletely
		if _, err := s.file.WriteAt([]byte(spoolTitle), 0); err != nil {
			return s.explain(err)
		}
		if err := s.file.Sync(); err != nil {
			return s.explain(err)
		}
	case string(title) != spoolTitle && strings.HasPrefix(string(title), "unseen spool "):
		return fmt.Errorf("spool %s: %w; upgrade", s.path, ErrNewer)
	case string(title) != spoolTitle:
		return fmt.Errorf("spool %s is %w; choose another path", s.path, ErrForeign)
	}
	s.read, s.size = int64(len(spoolTitle)), int64(len(spoolTitle))
	for s.size < size {
		group, events, next, err := s.groupAt(s.size, size)
		if err == nil && s.group != 0 && group != s.group+1 {
			return fmt.Errorf("spool %s: %w at byte %d: group %d follows group %d", s.path, ErrDamaged, s.size,
				group, s.group)
		}
		if err != nil {
			later, searchErr := s.groupAfter(s.size+1, size)
			if searchErr != nil {
				return fmt.Errorf("reading the spool %s: %w", s.path, searchErr)
			}
			if later {
				return fmt.Errorf("spool %s: %w at byte %d: %v, with complete groups behind it; its lines are "+
					"text: send the readable ones again, then remove it",
					s.path, ErrDamaged, s.size, err)
			}
			break // incomplete
		}
		s.group, s.size, s.waiting = group, next, s.waiting+int64(len(events))
	}
	if err := s.file.Truncate(s.size); err != nil {
		return s.explain(err)
	}
	return nil
}

// groupAt reads the group that begins at an offset of a file that ends at end.
func (s *spool) groupAt(offset, end int64) (group uint64, events []LogEvent, next int64, err error) {
	line := make([]byte, min(spoolGroupLine, end-offset))
	if _, err := s.file.ReadAt(line, offset); err != nil && err != io.EOF {
		return 0, nil, 0, err
	}
	head, count, length, ok := parseGroupLine(line)
	if !ok {
		return 0, nil, 0, errors.New("no group starts here")
	}
	offset += int64(bytes.IndexByte(line, '\n') + 1)
	if length > end-offset {
		return 0, nil, 0, errors.New("the group is incomplete")
	}
	body := make([]byte, length)
	if _, err := s.file.ReadAt(body, offset); err != nil && err != io.EOF {
		return 0, nil, 0, err
	}
	for line := range bytes.Lines(body) {
		event, err := parseEventLine(line)
		if err != nil {
			return 0, nil, 0, err
		}
		events = append(events, event)
	}
	if int64(len(events)) != count {
		return 0, nil, 0, fmt.Errorf("the group has %d events instead of %d", len(events), count)
	}
	return head, events, offset + length, nil
}

// groupAfter reports whether the first line of a group follows somewhere after an offset, perhaps not at the
// start of a line: the end of the line before may be damaged. No event can contain such a line, as its own line
// continues after any of its texts.
func (s *spool) groupAfter(offset, end int64) (bool, error) {
	const window = 1 << 20
	for ; offset < end; offset += window {
		text := make([]byte, min(window+spoolGroupLine, end-offset)) // windows overlap by a line
		if _, err := s.file.ReadAt(text, offset); err != nil && err != io.EOF {
			return false, err
		}
		for found := bytes.Index(text, groupWord); found >= 0; found = bytes.Index(text, groupWord) {
			text = text[found:]
			if _, _, _, ok := parseGroupLine(text[:min(spoolGroupLine, len(text))]); ok {
				return true, nil
			}
			text = text[len(groupWord):]
		}
	}
	return false, nil
}

func groupLine(group uint64, events, length int) string {
	text := fmt.Sprintf("group %d events %d bytes %d", group, events, length)
	return fmt.Sprintf("%s %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

func parseGroupLine(text []byte) (group uint64, events, length int64, ok bool) {
	line, _, whole := bytes.Cut(text, []byte("\n"))
	if !whole {
		return 0, 0, 0, false
	}
	var sum uint32
	n, _ := fmt.Sscanf(string(line), "group %d events %d bytes %d %08x", &group, &events, &length, &sum)
	if n != 4 || events < 0 || length < 0 || groupLine(group, int(events), int(length)) != string(line)+"\n" {
		return 0, 0, 0, false
	}
	return group, events, length, true
}

func appendEventLine(buffer []byte, event LogEvent) ([]byte, error) {
	content, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	buffer = fmt.Appendf(buffer, "%08x ", crc32.Checksum(content, castagnoli))
	return append(append(buffer, content...), '\n'), nil
}

func parseEventLine(line []byte) (LogEvent, error) {
	line, whole := bytes.CutSuffix(line, []byte("\n"))
	sum, content, parted := bytes.Cut(line, []byte(" "))
	if !whole || !parted || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(content, castagnoli)) {
		return LogEvent{}, errors.New("a line does not match its checksum")
	}
	var event LogEvent
	if err := json.Unmarshal(content, &event); err != nil {
		return LogEvent{}, err
	}
	return event, nil
}

// append makes the events durable, as one group, or leaves the file unchanged.
func (s *spool) append(events []LogEvent) error {
	var body []byte
	var err error
	for _, event := range events {
		if body, err = appendEventLine(body, event); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append([]byte(groupLine(s.group+1, len(events), len(body))), body...)
	if s.size+int64(len(text)) > s.limit {
		return fmt.Errorf("spool %s is full while the event database is down: %w", s.path,
			&BusyError{Wait: 5 * time.Second})
	}
	if _, err = s.file.WriteAt(text, s.size); err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		// Remove what was written of the group. If that fails too, the next group overwrites it.
		s.file.Truncate(s.size)
		return s.explain(err)
	}
	s.group++
	s.size += int64(len(text))
	s.waiting += int64(len(events))
	return nil
}

// next returns the first waiting events, about limit of them, and where the group after them starts.
func (s *spool) next(limit int) (events []LogEvent, end int64, err error) {
	s.mu.Lock()
	size, end := s.size, s.read
	s.mu.Unlock() // nothing before size changes any more
	for end < size && len(events) < limit {
		_, group, next, err := s.groupAt(end, size)
		if err != nil {
			return nil, 0, fmt.Errorf("spool %s: %w at byte %d: %v", s.path, ErrDamaged, end, err)
		}
		events, end = append(events, group...), next
	}
	return events, end, nil
}

// drop removes events that are in the database now, up to the offset that next returned.
func (s *spool) drop(events int, end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = end
	s.waiting -= int64(events)
	if s.read < s.size {
		return nil
	}
	// Nothing waits: start over. If the old groups reappear after a crash, they are replayed again, and
	// nothing is stored twice.
	empty := int64(len(spoolTitle))
	if err := s.file.Truncate(empty); err != nil {
		return s.explain(err)
	}
	s.read, s.size = empty, empty
	return s.explain(s.file.Sync())
}

// pending returns the number of waiting events.
func (s *spool) pending() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *spool) close() error { return s.file.Close() }

func (s *spool) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("writing the spool %s: %w (%v); free space on its disk; no acknowledged event is lost",
			s.path, ErrFull, err)
	}
	return fmt.Errorf("writing the spool %s: %w; check its disk; no acknowledged event is lost", s.path, err)
}
