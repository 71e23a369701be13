//go:build linux || darwin

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that is killed at any moment, and resumed until it ends, leaves the lists of one that was never
// interrupted, to the byte, and nothing else; after each kill every part that is there is whole.
//
// Long because it is one story: kill, look, resume, compare.
func TestRecommendAllKilled(t *testing.T) {
	t.Parallel()
	dir, bayes, naive := fitted(t)
	out := t.TempDir()
	whole, killed := filepath.Join(out, "whole"), filepath.Join(out, "killed")
	part := func(size string, args ...string) []string {
		return append(os.Environ(), append(args, asProgram+"=1", asPart+"="+size)...)
	}
	line := []string{"recommend", bayes, dir, "--all", "--naive", naive, "-k", "5", "--quiet"}
	once := program(t, append(line, "-o", whole)...)
	once.Env = part("8")
	if output, err := once.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	want := folder(t, whole)
	if len(want) != 51 { // the plan and 50 parts
		t.Fatalf("%d files", len(want))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kills, within := 0, 0
	const mostKills = 6
	for attempt := 0; attempt < 40; attempt++ {
		args := append(line, "-o", killed)
		before, err := os.ReadDir(killed)
		if err == nil {
			args = append(args, "--resume")
		}
		one := program(t, args...)
		one.Env = part("8")
		var output bytes.Buffer
		one.Stdout, one.Stderr = &output, &output
		if err := one.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- one.Wait() }()
		if kills < mostKills {
			if random.IntN(4) > 0 { // once it has written some more, finished or not
				more := len(before) + 1 + random.IntN(8)
				for began := time.Now(); time.Since(began) < 5*time.Second &&
					len(ended) == 0; time.Sleep(200 * time.Microsecond) {
					if now, _ := os.ReadDir(killed); len(now) >= more {
						break
					}
				}
				time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
			} else { // or at any moment, also before it has begun
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			one.Process.Kill()
		}
		err = <-ended
		// on a busy machine it may end before it is caught: from the beginning
		if err == nil && (kills == 0 || within == 0) {
			if err := os.RemoveAll(killed); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err == nil {
			break
		}
		if status, ok := one.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("seed %d, attempt %d: %v\n%s", seed, attempt, err, &output)
		}
		kills++
		if _, err := os.Stat(killed); err != nil {
			continue
		}
		for name, content := range folder(t, killed) {
			if strings.HasPrefix(name, "part-") {
				within++
			}
			if !strings.HasPrefix(name, ".") && want[name] != content {
				t.Fatalf("seed %d: after %d kills %s is not whole", seed, kills, name)
			}
		}
	}
	got := folder(t, killed)
	t.Logf("%d kills, with %d parts there in all", kills, within)
	if kills == 0 || within == 0 {
		t.Errorf("seed %d: %d kills, and %d parts were there after them", seed, kills, within)
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("seed %d: %s differs", seed, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("seed %d: %d files, want %d", seed, len(got), len(want))
	}
	// a run that is killed before its plan is whole leaves a folder that can be used, with and without --resume
	for _, more := range [][]string{{"--resume"}, {}} {
		early := filepath.Join(t.TempDir(), "early")
		if err := os.Mkdir(early, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(early, ".plan.json.999999-1.tmp"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		well(t, append(append(line, "-o", early), more...)...)
	}
}
