package store_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/internal/postgrestest"
	"unseen/serve/store"
)

// TestMain is also the child of the kill tests: a program that appends as fast as it can and says what was
// acknowledged.
func TestMain(m *testing.M) {
	if url := os.Getenv("UNSEEN_STORE_CHILD"); url != "" {
		if err := appendForever(url, os.Getenv("UNSEEN_STORE_CHILD_SPOOL"),
			os.Getenv("UNSEEN_STORE_CHILD_NAME")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	postgrestest.Close()
	os.Exit(code)
}

// appendForever prints one line for each acknowledged batch: client, batch, number of events.
func appendForever(url, spool, name string) error {
	log, err := store.Open(context.Background(), url, store.Options{Spool: spool, Group: 200})
	if err != nil {
		return err
	}
	fmt.Println("open")
	failures := make(chan error)
	if os.Getenv("UNSEEN_STORE_CHILD_COMPACTS") != "" {
		go func() { failures <- compactForever(log) }()
	}
	for client := range 4 {
		go func() {
			size := rand.IntN(40) + 1
			for batch := 0; ; batch++ {
				if _, err := log.Append(context.Background(), childEvents(name, client, batch, size)); err != nil {
					failures <- err
					return
				}
				fmt.Printf("%d %d %d\n", client, batch, size) // one write: a line is there whole or not at all
			}
		}()
	}
	return <-failures
}

// compactForever compacts what is half a second old, by a clock that is fast: an hour in half a second.
func compactForever(log store.Store) error {
	for {
		since := time.Since(time.Unix(1.7e9, 0)) % (24 * time.Hour) // a product that does not overflow
		_, err := log.Compact(context.Background(), store.Retention{Keep: time.Hour, Limit: 300,
			Now: time.Unix(0, 0).Add(since * 7200)})
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// childEvents are the events of one batch; the last is one of the batch before, so that repeats are there too.
func childEvents(name string, client, batch, size int) []store.LogEvent {
	events := make([]store.LogEvent, size, size+1)
	for i := range events {
		events[i] = store.LogEvent{
			ID: fmt.Sprintf("%s-%d-%d-%d", name, client, batch, i), Kind: store.Kinds[i%3],
			Source: strings.Repeat("s", 1+i*7), Target: strconv.Itoa(batch), At: time.Unix(1e9, 0),
		}
		events[i].List = events[i].ID // which compaction keeps
	}
	if batch > 0 {
		again := events[0]
		again.ID = fmt.Sprintf("%s-%d-%d-%d", name, client, batch-1, 0)
		again.List = again.ID
		events = append(events, again)
	}
	return events
}

// child is a running appendForever.
type child struct {
	cmd          *exec.Cmd
	read         sync.WaitGroup
	acknowledged []string // ids
	errors       strings.Builder
}

// start runs a child and returns when its log is open.
func start(t testing.TB, url, spool, name string, settings ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^$")}
	c.cmd.Env = append(append(os.Environ(), settings...), "UNSEEN_STORE_CHILD="+url, "UNSEEN_STORE_CHILD_SPOOL="+spool,
		"UNSEEN_STORE_CHILD_NAME="+name)
	c.cmd.Stderr = &c.errors
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		t.Fatalf("child did not open: %q %s", lines.Text(), c.errors.String())
	}
	c.read.Go(func() {
		for lines.Scan() {
			var client, batch, size int
			if n, _ := fmt.Sscanf(lines.Text(), "%d %d %d", &client, &batch, &size); n == 3 {
				for _, event := range childEvents(name, client, batch, size) {
					c.acknowledged = append(c.acknowledged, event.ID)
				}
			}
		}
	})
	return c
}

// kill ends the child as a crash would and returns the ids that it had acknowledged.
func (c *child) kill(t testing.TB) []string {
	t.Helper()
	c.cmd.Process.Kill()
	c.read.Wait()
	c.cmd.Wait()
	if c.errors.Len() > 0 {
		t.Fatalf("child failed before it was killed: %s", c.errors.String())
	}
	return c.acknowledged
}

// kills is how often to kill: a few times, or as UNSEEN_STORE_KILLS says.
func kills(t testing.TB, few int) int {
	text := os.Getenv("UNSEEN_STORE_KILLS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("UNSEEN_STORE_KILLS is %q, want a number of kills", text)
	}
	return n
}

// checkAcknowledged reads the whole log: nothing acknowledged is missing, nothing is there twice, no Seq is
// left out.
func checkAcknowledged(t testing.TB, log store.Store, acknowledged map[string]bool) (events int) {
	t.Helper()
	missing := make(map[string]bool, len(acknowledged))
	for id := range acknowledged {
		missing[id] = true
	}
	seen := map[string]bool{}
	for event, err := range store.All(context.Background(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		events++
		if event.Seq != int64(events) {
			t.Fatalf("event %d has Seq %d", events, event.Seq)
		}
		id := cmp.Or(event.ID, event.List) // of a compacted event
		if seen[id] {
			t.Fatalf("%s is there twice", id)
		}
		seen[id] = true
		delete(missing, id)
	}
	for id := range missing {
		t.Fatalf("%d of %d acknowledged events are lost, such as %s", len(missing), len(acknowledged), id)
	}
	return events
}

// A program that is killed while it appends loses nothing that it had acknowledged. The file is the same
// through all kills; each starts from what the last has left. It does not run beside other tests: a child holds
// their locked files until it has begun its program.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	acknowledged := map[string]bool{}
	events := 0
	n := kills(t, 5)
	for i := range n {
		c := start(t, path, "", fmt.Sprint("run", i))
		// a moment that no test chooses: what the kill interrupts is the point
		time.Sleep(time.Duration(rand.Int64N(int64(150 * time.Millisecond))))
		for _, id := range c.kill(t) {
			acknowledged[id] = true
		}
		if i%20 == 19 || i == n-1 || i < 5 {
			log, err := store.Open(t.Context(), path, store.Options{})
			if err != nil {
				t.Fatalf("after kill %d: %v", i+1, err)
			}
			events = checkAcknowledged(t, log, acknowledged)
			closeAll(t, log)
			checkFile(t, path, events)
		}
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was acknowledged before the kills, so nothing was tested")
	}
	t.Logf("%d kills, %d events acknowledged, %d stored", n, len(acknowledged), events)
}

// A program that is killed while it appends and compacts loses nothing and stores nothing twice.
func TestKillWhileCompacting(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		acknowledged := map[string]bool{}
		events, compacted := 0, 0
		n := kills(t, 4)
		for i := range n {
			c := start(t, p.url, "", fmt.Sprint("run", i), "UNSEEN_STORE_CHILD_COMPACTS=yes")
			time.Sleep(300*time.Millisecond + time.Duration(rand.Int64N(int64(400*time.Millisecond))))
			for _, id := range c.kill(t) {
				acknowledged[id] = true
			}
			log := p.open(t, store.Options{})
			events, compacted = checkAcknowledged(t, log, acknowledged), 0
			totals, err := log.Totals(t.Context())
			if err != nil || totals.Events != int64(events) || totals.Seq != int64(events) {
				t.Fatalf("after kill %d: %d events, %+v, %v", i+1, events, totals, err)
			}
			for event, err := range store.All(t.Context(), log, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if event.ID == "" {
					compacted++
				}
			}
			closeAll(t, log)
		}
		if compacted == 0 || compacted == events {
			t.Fatalf("%d of %d events were compacted, so nothing was tested", compacted, events)
		}
		t.Logf("%d kills, %d events acknowledged, %d stored, %d of them compacted", n, len(acknowledged), events,
			compacted)
	})
}
