package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func spoolEvents(from, n int) []LogEvent {
	events := make([]LogEvent, n)
	for i := range events {
		events[i] = LogEvent{
			ID: fmt.Sprint("id", from+i), Kind: Kinds[i%len(Kinds)], Source: "a\n\"group 1\" \u2028", Target: "日本",
			Probability: 5e-324,
			Model:       "m", Position: i, At: time.UnixMicro(1_700_000_000_000_001).UTC(),
			Surface: []string{"", "home\n"}[i%2], Placed: 0.5, Candidates: "all/12/0123456789ab",
		}
	}
	return events
}

// fill makes a spool of groups and returns its bytes and where each group ends.
func fill(t testing.TB, path string, sizes ...int) (content []byte, ends []int64) {
	t.Helper()
	s, err := openSpool(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	from := 0
	ends = append(ends, s.size)
	for _, n := range sizes {
		if err := s.append(spoolEvents(from, n)); err != nil {
			t.Fatal(err)
		}
		from += n
		ends = append(ends, s.size)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return content, ends
}

func readAll(t testing.TB, s *spool, limit int) (events []LogEvent) {
	t.Helper()
	for s.pending() > 0 {
		batch, end, err := s.next(limit)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, batch...)
		if err := s.drop(len(batch), end); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

func TestSpoolReturnsEventsInOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spool")
	fill(t, path, 3, 1, 50, 2)
	s, err := openSpool(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.append(spoolEvents(56, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := openSpool(path, 1<<20); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v", err)
	}
	var want []LogEvent
	for i, n := range []int{3, 1, 50, 2, 4} {
		want = append(want, spoolEvents([]int{0, 3, 4, 54, 56}[i], n)...)
	}
	if got := readAll(t, s, 5); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(spoolTitle)) {
		t.Errorf("an empty spool has %v bytes, %v", info.Size(), err)
	}
	if err := s.append(spoolEvents(0, 2)); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, s, 100); len(got) != 2 {
		t.Errorf("after it was empty it gave %d events", len(got))
	}
}

// A spool of the version before is read with what waits in it, and takes further events. From then on that version
// refuses it: it would drop what it does not know.
func TestSpoolOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	const before = `unseen spool 1
group 1 events 2 bytes 211 077ea5d7
73f42c38 {"id":"a","kind":"shown","source":"s","target":"t","probability":0.5,"position":1,"at":"2026-01-01T00:00:00Z"}
95d5f6ea {"id":"b","kind":"clicked","source":"s","target":"t","at":"2026-01-01T00:00:00Z"}
`
	path := filepath.Join(t.TempDir(), "spool")
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openSpool(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	later := spoolEvents(0, 3)
	if err := s.append(later); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(content), strings.Replace(before, "spool 1", "spool 2", 1)) {
		t.Fatalf("%v, became\n%s", err, content)
	}
	if s, err = openSpool(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := append([]LogEvent{{ID: "a", Kind: Shown, Source: "s", Target: "t", Probability: .5, Position: 1, At: at},
		{ID: "b", Kind: Clicked, Source: "s", Target: "t", At: at}}, later...)
	if got := readAll(t, s, 100); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// places are those within the content where a fault is interesting: about the ends of the groups, and some
// anywhere.
func places(content []byte, ends []int64) (places []int) {
	r := rand.New(rand.NewPCG(1, 2))
	for at := range content {
		near := at < len(spoolTitle)+3 && at%4 == 0 || r.IntN(20) == 0
		for _, end := range ends {
			near = near || at >= int(end)-2 && at <= int(end)+1
		}
		if near {
			places = append(places, at)
		}
	}
	return places
}

// Wherever a crash cuts the file, the groups before the cut are whole and the torn one is gone.
func TestTornSpool(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	content, ends := fill(t, filepath.Join(folder, "whole"), 2, 3, 1)
	counts := []int64{0, 2, 5, 6}
	path := filepath.Join(folder, "torn")
	r := rand.New(rand.NewPCG(1, 2))
	for _, cut := range append(places(content, ends), len(content)) {
		text := bytes.Clone(content[:cut])
		if cut%2 == 1 && int64(cut) < ends[3] { // the file may have grown before its content was written
			text = append(text, make([]byte, r.IntN(300))...)
			if cut < len(spoolTitle) {
				continue // then it never was a spool
			}
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSpool(path, 1<<20)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= int64(cut) {
			whole++
		}
		if s.pending() != counts[whole] {
			t.Fatalf("cut at %d: %d events, want %d", cut, s.pending(), counts[whole])
		}
		if err := s.append(spoolEvents(100, 1)); err != nil { // and it goes on from there
			t.Fatal(err)
		}
		if got := readAll(t, s, 2); int64(len(got)) != counts[whole]+1 || got[len(got)-1].ID != "id100" {
			t.Fatalf("cut at %d: %d events afterwards", cut, len(got))
		}
		s.close()
	}
}

// A flipped bit before the last group is damage, and nothing is cut off. In the last group it looks as if torn.
func TestDamagedSpool(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	content, ends := fill(t, filepath.Join(folder, "whole"), 2, 3, 1)
	path := filepath.Join(folder, "damaged")
	for _, at := range places(content, ends) {
		text := bytes.Clone(content)
		text[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSpool(path, 1<<20)
		switch {
		case at < len(spoolTitle):
			if !errors.Is(err, ErrForeign) && !errors.Is(err, ErrNewer) {
				t.Fatalf("flipped byte %d: %v", at, err)
			}
		case int64(at) < ends[2]:
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("flipped byte %d of %d: %v", at, len(content), err)
			}
		case err != nil || s.pending() != 5:
			t.Fatalf("flipped byte %d of the last group: %v", at, err)
		}
		if err != nil {
			if after, _ := os.ReadFile(path); !bytes.Equal(after, text) {
				t.Fatalf("flipped byte %d: the file was changed", at)
			}
			continue
		}
		s.close()
	}
}

// faulty fails as a disk does: after some bytes, or when it is asked to sync.
type faulty struct {
	*os.File
	room     int64 // bytes that can still be written; negative: all
	unsync   bool
	stubborn bool // does not even truncate
}

func (f *faulty) WriteAt(b []byte, offset int64) (int, error) {
	if f.room >= 0 && int64(len(b)) > f.room {
		n, _ := f.File.WriteAt(b[:f.room], offset)
		return n, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(b, offset)
}

func (f *faulty) Sync() error {
	if f.unsync {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: syscall.EIO}
	}
	return f.File.Sync()
}

func (f *faulty) Truncate(size int64) error {
	if f.stubborn {
		return &os.PathError{Op: "truncate", Path: f.Name(), Err: syscall.EIO}
	}
	return f.File.Truncate(size)
}

// A write that fails is not acknowledged, leaves what was there, and does not stand in the way of the next.
func TestSpoolOnFailingDisk(t *testing.T) {
	t.Parallel()
	_, ends := fill(t, filepath.Join(t.TempDir(), "spool"), 5)
	for _, stubborn := range []bool{false, true} {
		for room := int64(-1); room < ends[1]-ends[0]; room += 43 {
			path := filepath.Join(t.TempDir(), "spool")
			s, err := openSpool(path, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			disk := &faulty{File: s.file.(*os.File), room: -1}
			s.file = disk
			if err := s.append(spoolEvents(0, 2)); err != nil {
				t.Fatal(err)
			}
			disk.room, disk.unsync, disk.stubborn = room, room < 0, stubborn
			err = s.append(spoolEvents(2, 5))
			if err == nil || !strings.Contains(err.Error(), "no acknowledged event is lost") ||
				(room >= 0) != errors.Is(err, ErrFull) {
				t.Fatalf("room %d: %v", room, err)
			}
			disk.room, disk.unsync, disk.stubborn = -1, false, false
			if err := s.append(spoolEvents(7, 1)); err != nil {
				t.Fatal(err)
			}
			s.close()
			if s, err = openSpool(path, 1<<20); err != nil {
				t.Fatalf("room %d: %v", room, err)
			}
			if got, want := readAll(t, s, 100),
				append(spoolEvents(0, 2), spoolEvents(7, 1)...); !reflect.DeepEqual(got, want) {
				t.Fatalf("room %d: %v", room, got)
			}
			s.close()
		}
	}
}

func TestFullSpool(t *testing.T) {
	t.Parallel()
	s, err := openSpool(filepath.Join(t.TempDir(), "spool"), 2000)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	n := 0
	for ; n < 100 && err == nil; n++ {
		err = s.append(spoolEvents(n, 1))
	}
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Wait <= 0 || s.size > 2000 {
		t.Fatalf("after %d events, %d bytes: %v", n, s.size, err)
	}
	if got := readAll(t, s, 3); len(got) != n-1 {
		t.Fatalf("%d events, %d acknowledged", len(got), n-1)
	}
	if err := s.append(spoolEvents(n, 1)); err != nil {
		t.Errorf("empty again: %v", err)
	}
}

// Whatever a file holds, opening it as a spool ends with an answer, and events that come out are those of
// lines whose checksums hold.
func FuzzSpool(f *testing.F) {
	content, ends := fill(f, filepath.Join(f.TempDir(), "whole"), 2, 1)
	f.Add(content)
	f.Add(content[:ends[1]+20])
	f.Add([]byte(spoolTitle + "group 1 events 0 bytes 0 00000000\n"))
	f.Add([]byte("unseen spool 1\n"))
	f.Add([]byte("unseen spool 3\n"))
	f.Add([]byte{})
	path := filepath.Join(f.TempDir(), "spool")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSpool(path, 1<<30)
		if err != nil {
			return
		}
		defer s.close()
		for _, event := range readAll(t, s, 10) {
			line, err := appendEventLine(nil, event)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := parseEventLine(line); err != nil || !again.At.Equal(event.At) || again.ID != event.ID {
				t.Fatalf("%+v, %v after another round, was %+v", again, err, event)
			}
		}
	})
}

// FuzzSealedSpool writes any counts and any content with the right sums: the spool is refused, cut off or read, and
// takes no more memory than the file has.
func FuzzSealedSpool(f *testing.F) {
	f.Add(uint64(1), 1, 0, []byte(`{"id":"a","kind":"shown","source":"b","target":"c"}`))
	f.Add(uint64(1), 1, 0, []byte(`{"kind":"dismissed","surface":"home","placed":0.5,"candidates":"all/2/0123456789"}`))
	f.Add(uint64(1), 1<<62, 1<<62, []byte(`{}`))
	f.Add(uint64(1<<63), 0, -1, []byte(`null`))
	f.Add(uint64(7), 2, 1<<40, []byte(`{"at":"9999-12-31T23:59:59Z","probability":1e308,"position":-1}`))
	path := filepath.Join(f.TempDir(), "spool")
	f.Fuzz(func(t *testing.T, group uint64, events, more int, content []byte) {
		line := fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(content, castagnoli), content)
		raw := append([]byte(spoolTitle+groupLine(group, events, len(line)+more)), line...)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := openSpool(path, 1<<30)
		if err != nil {
			return
		}
		defer s.close()
		for range 3 { // some groups, also damaged ones
			if _, _, err := s.next(10); err != nil {
				break
			}
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > uint64(64<<20+100*len(raw)) {
			t.Errorf("%d bytes took %d MB", len(raw), (after.TotalAlloc-before.TotalAlloc)>>20)
		}
	})
}
