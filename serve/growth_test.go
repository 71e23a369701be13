package serve

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"unseen/internal/atomicfile"
	"unseen/internal/racetest"
	"unseen/serve/store"
)

// serveUntilKilled serves a state in a process of its own, and says how long it took to open it and to count its log,
// which memory that took at most, and after which event it began to count.
func serveUntilKilled(folders string) {
	folder, state, _ := strings.Cut(folders, "\n")
	if os.Getenv("UNSEEN_EVENTS") == "" {
		saveEvery = 50 * time.Millisecond
	}
	began := time.Now()
	s, err := Open(context.Background(), Options{Folder: folder, State: state})
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	opened := time.Since(began)
	counted := func(seq *int64) {
		s.monitor.mu.Lock()
		defer s.monitor.mu.Unlock()
		*seq = s.monitor.Seq
	}
	var first, seq int64
	counted(&first)
	totals, err := s.events.Totals(context.Background())
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	for seq < totals.Seq {
		time.Sleep(time.Millisecond)
		counted(&seq)
	}
	fmt.Println(opened.Microseconds(), time.Since(began).Microseconds(), peakMemory(), first)
	if first > 0 {
		select {}
	}
	began = time.Now()
	log := s.readingFor(s.datasets.newest(), totals.Seq)
	if err := s.read(context.Background(), log); err != nil {
		fmt.Println("failed:", err)
		return
	}
	source, _ := log.log.Pairs()
	fmt.Println(time.Since(began).Microseconds(), peakMemory(), len(source))
	select {} // until it is killed
}

// peakMemory is the largest resident memory of this process so far, in bytes; 0 where the system does not say.
func peakMemory() int64 {
	raw, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.ParseInt(fields[0], 10, 64)
	return kilobytes << 10
}

// life is one run of a service until it was killed.
type life struct {
	opened, counted time.Duration
	memory, first   int64

	read       time.Duration // all of the log, for training
	readMemory int64
	pairs      int
}

func (l life) String() string {
	text := fmt.Sprintf("ready after %v, all counted after %v, %d MB at the peak", l.opened.Round(time.Millisecond),
		l.counted.Round(time.Millisecond), l.memory>>20)
	if l.pairs > 0 {
		text += fmt.Sprintf("; %d pairs read for training in %v, %d MB", l.pairs, l.read.Round(time.Millisecond),
			l.readMemory>>20)
	}
	return text
}

// live runs a service until the counts of its whole log are saved, and kills it.
func live(t *testing.T, folder, state string, seq int64) (l life) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UNSEEN_TEST_GROWTH="+folder+"\n"+state)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewReader(output)
	line, _ := lines.ReadString('\n')
	var opened, counted, read int64
	if n, _ := fmt.Sscan(line, &opened, &counted, &l.memory, &l.first); n != 4 {
		t.Fatalf("the service says %q", line)
	}
	l.opened, l.counted = time.Duration(opened)*time.Microsecond, time.Duration(counted)*time.Microsecond
	if l.first == 0 {
		line, _ = lines.ReadString('\n')
		if n, _ := fmt.Sscan(line, &read, &l.readMemory, &l.pairs); n != 3 {
			t.Fatalf("the service says %q", line)
		}
		l.read = time.Duration(read) * time.Microsecond
	}
	poll(t, "the counts to be saved", func() bool {
		raw, err := os.ReadFile(filepath.Join(state, "watch.json"))
		return err == nil && strings.Contains(string(raw[:min(len(raw), 200)]), fmt.Sprintf(`"seq":%d,`, seq))
	})
	return l
}

// fillLog writes lists of ten items, with a click on every second, straight into a log.
func fillLog(t *testing.T, path, digest string, events, nodes int) {
	t.Helper()
	log, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	batch := make([]store.LogEvent, 0, store.MaxAppend)
	began := time.Unix(1.7e9, 0)
	for k := range events {
		list := k / 10
		e := store.LogEvent{ID: fmt.Sprintf("%016x-%d", uint64(list)*0x9e3779b97f4a7c15, k), Kind: store.Shown,
			Source: fmt.Sprint("n", list*7919%nodes), Target: fmt.Sprint("n", k*104729%nodes), Probability: .5,
			Model: digest, List: fmt.Sprintf("%016x-%.12s-%012x", uint64(list)*0x9e3779b97f4a7c15, digest, list),
			Position: k%10 + 1, At: began.Add(time.Duration(k) * time.Millisecond)}
		if k%20 == 19 {
			e.Kind, e.Position, e.Probability = store.Clicked, 0, 0
		}
		if batch = append(batch, e); len(batch) == cap(batch) || k == events-1 {
			if _, err := log.Append(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

// However many events there are, a killed service is ready in a moment and reads only what came after its last save;
// compaction makes the log smaller, and a node can be forgotten. UNSEEN_EVENTS=10000000 and UNSEEN_EVENTS_IN, a folder
// on a disk, measure a large log, and -v prints what it takes.
func TestGrowth(t *testing.T) {
	racetest.Skip(t, "TestCompactionLosesNothingNeeded and TestForget do the same in one process")
	events, nodes, state := 20_000, 500, t.TempDir()
	if text := os.Getenv("UNSEEN_EVENTS"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		nodes = 200_000
		if state, err = os.MkdirTemp(os.Getenv("UNSEEN_EVENTS_IN"), "unseen-growth-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(state) })
	}
	folder := largeFolder(t, nodes, 0, 8)
	digest, err := atomicfile.Sum(filepath.Join(folder, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(state, "events.db")
	began := time.Now()
	fillLog(t, path, digest, events, nodes)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	whole := size()
	t.Logf("%d events of %d nodes, %d MB, written in %v", events, nodes, whole>>20,
		time.Since(began).Round(time.Second))
	t.Logf("first start: %v", live(t, folder, state, int64(events)))
	again := live(t, folder, state, int64(events))
	t.Logf("after kill -9: %v", again)
	if again.first != int64(events) || again.opened > 20*time.Second || again.memory > 1<<30 {
		t.Errorf("the restart began to count after event %d of %d: %+v", again.first, events, again)
	}

	log, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	compacted := compactHours(t, log)
	began = time.Now()
	erased, err := log.Erase(t.Context(), func(name string) bool { return name == "n7" })
	if err != nil || erased == 0 || compacted != events {
		t.Fatalf("erased %d events, compacted %d, %v", erased, compacted, err)
	}
	t.Logf("erased a node of %d events in %v; the log has %d MB", erased, time.Since(began).Round(time.Millisecond),
		size()>>20)
	if size() > whole/2 {
		t.Errorf("compacted the log has %d bytes, before %d", size(), whole)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("compacted, after kill -9: %v", live(t, folder, state, int64(events)))
	if err := os.Remove(filepath.Join(state, "watch.json")); err != nil {
		t.Fatal(err)
	}
	last, err := lastSeq(t, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("compacted, without its counts: %v", live(t, folder, state, last))
}

// compactHours lets a few hours pass for a log whose events are kept for one, and returns how many were compacted.
func compactHours(t *testing.T, log store.Store) (compacted int) {
	t.Helper()
	began := time.Now()
	var longest time.Duration
	for hour := range 4 {
		for more := true; more; {
			from := time.Now()
			done, err := log.Compact(t.Context(), store.Retention{Keep: time.Hour,
				Now: time.Unix(1.8e9, 0).Add(time.Duration(hour) * time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			compacted, more = compacted+done.Events, done.More
			longest = max(longest, time.Since(from))
		}
	}
	t.Logf("compacted %d events in %v, the longest step %v", compacted, time.Since(began).Round(time.Millisecond),
		longest.Round(time.Millisecond))
	return compacted
}

// lastSeq is the number of the last event that is there.
func lastSeq(t *testing.T, path string) (last int64, err error) {
	log, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		return 0, err
	}
	defer log.Close()
	totals, err := log.Totals(t.Context())
	if err != nil {
		return 0, err
	}
	page, err := log.Events(t.Context(), totals.Seq-100, 100)
	if err == nil {
		last = page[len(page)-1].Seq
	}
	return last, err
}
