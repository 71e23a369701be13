package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"unseen/dataset"
)

// ErrVectors: vectors are a mapped file, and what was mapped is not there any more.
var ErrVectors = errors.New("vectors cannot be read: their file was truncated, removed or replaced, or its disk " +
	"fails; restore the dataset and restart the service")

// isFault reports whether an error, or the value of a panic, is that of memory whose file is gone. Without
// debug.SetPanicOnFault such memory ends the process.
func isFault(v any) bool {
	err, ok := v.(error)
	var at interface {
		error
		Addr() uintptr
	}
	return ok && errors.As(err, &at)
}

// surviving calls a function and turns a fault into ErrVectors.
func (s *Service) surviving(do func() error) (err error) {
	was := debug.SetPanicOnFault(true)
	defer func() { s.survive(recover(), was, &err) }()
	return do()
}

// survive ends what SetPanicOnFault began: a panic that is a fault becomes ErrVectors, and any other goes on.
func (s *Service) survive(panicked any, was bool, err *error) {
	debug.SetPanicOnFault(was)
	switch {
	case isFault(panicked), panicked == nil && *err != nil && isFault(*err):
		s.vectorsLost()
		*err = ErrVectors
	case panicked != nil:
		panic(panicked)
	}
}

// vectorsLost raises the alarm.
func (s *Service) vectorsLost() {
	s.metrics.vectorsLost.Set(1)
	if !s.lost.Swap(true) {
		s.o.Log.Error("recommendations fail", "error", ErrVectors, "dataset", s.o.Dataset)
	}
}

// vectorsFile watches the file of vectors, which are mapped: what somebody writes into it is served at once.
type vectorsFile struct {
	path string
	was  os.FileInfo // when it was opened; nil: there is none

	mu      sync.Mutex
	at      time.Time
	changed bool
}

func watchVectors(folder string) *vectorsFile {
	v := &vectorsFile{path: filepath.Join(folder, dataset.VectorsFile)}
	if info, err := os.Stat(v.path); err == nil {
		v.was = info
	}
	return v
}

// check looks at the file, at most once a second, and reports whether it is another one than was opened, and whether
// that is news.
func (v *vectorsFile) check(now time.Time) (changed, news bool) {
	if v == nil || v.was == nil {
		return false, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if passed := now.Sub(v.at); !v.at.IsZero() && passed >= 0 && passed < time.Second {
		return v.changed, false
	}
	v.at = now
	info, err := os.Stat(v.path)
	changed = err != nil || !os.SameFile(info, v.was) || info.Size() != v.was.Size() ||
		!info.ModTime().Equal(v.was.ModTime())
	news = changed != v.changed
	v.changed = changed
	return changed, news
}

// vectorsFault returns ErrVectors if the vectors cannot be read, or are not those that the service was opened with.
// What was only moved away and is back is served again.
func (s *Service) vectorsFault() error {
	changed, news := s.vectors.check(time.Now())
	lost := s.lost.Load()
	switch {
	case news && changed:
		s.metrics.vectorsLost.Set(1)
		s.o.Log.Error("recommendations fail", "error", ErrVectors, "file", s.vectors.path)
	case news && !lost:
		s.metrics.vectorsLost.Set(0)
		s.o.Log.Info("vectors are back", "file", s.vectors.path)
	}
	if changed || lost {
		return ErrVectors
	}
	return nil
}

// enterGate waits for the turn of a request that needs vectors.
func (s *Service) enterGate(ctx context.Context) (leave func(), err error) {
	if err := s.vectorsFault(); err != nil {
		return nil, err
	}
	return s.gate.enter(ctx)
}

// diskProbe says whether the state folder can be written, at most once a second.
type diskProbe struct {
	mu   sync.Mutex
	at   time.Time
	last error
}

// check writes a little and removes it.
func (p *diskProbe) check(folder string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if passed := now.Sub(p.at); !p.at.IsZero() && passed >= 0 && passed < time.Second {
		return p.last
	}
	p.at = now
	p.last = func() error {
		path := filepath.Join(folder, fmt.Sprintf(".probe.%d-0.tmp", os.Getpid()))
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(make([]byte, 16<<10))
		return errors.Join(err, file.Close(), os.Remove(path))
	}()
	return p.last
}

// faulty returns what keeps the service from serving lists or storing events, or nil.
func (s *Service) faulty() error {
	if err := s.vectorsFault(); err != nil {
		return err
	}
	if err := s.probe.check(s.o.State, time.Now()); err != nil {
		return fmt.Errorf("state folder cannot be written: %w", err)
	}
	return nil
}

// isFull reports whether an error is that of a full disk.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
