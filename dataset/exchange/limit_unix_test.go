//go:build linux || darwin

package exchange

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const limitedPath = "UNSEEN_EXCHANGE_LIMITED"

// TestLimitedProcess is no test: it imports more than the system lets it write, as a process of its own.
func TestLimitedProcess(t *testing.T) {
	folder := os.Getenv(limitedPath)
	if folder == "" {
		t.Skip("only as a helper process")
	}
	signal.Ignore(syscall.SIGXFSZ)
	for _, limit := range []uint64{300_000, 100_000, 10_000} { // in the dataset, in the texts, in both
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: 300_000}))
		_, err := Import(background, "csv", filepath.Join(folder, "d"),
			Options{Paths: []string{filepath.Join(folder, "nodes.csv")}})
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "free space") {
			t.Errorf("at %d bytes: %v", limit, err)
		}
	}
}

// TestFullDisk has the system itself refuse to write on: nothing is left behind.
func TestFullDisk(t *testing.T) {
	folder := t.TempDir()
	var b strings.Builder
	b.WriteString("id,text\n")
	for k := range 6000 {
		b.WriteString(strings.Repeat(string(rune('a'+k%26)), 3))
		b.WriteString(strings.Repeat("x", k%5))
		// Text that packs badly, so that the dataset is as large as its texts.
		for j := range 60 {
			b.WriteByte("0123456789abcdef"[(k*7919+j*j*104729+k*j*31)>>3&15])
		}
		b.WriteString(",")
		for j := range 100 {
			b.WriteByte("0123456789abcdefghijklmnopqrstuv"[(k*k*31+j*7919+k*j*j*13)>>4&31])
		}
		b.WriteString("\n")
	}
	must(t, os.WriteFile(filepath.Join(folder, "nodes.csv"), []byte(b.String()), 0o666))
	program, err := os.Executable()
	must(t, err)
	helper := exec.Command(program, "-test.run", "^TestLimitedProcess$", "-test.v")
	helper.Env = append(os.Environ(), limitedPath+"="+folder)
	if output, err := helper.CombinedOutput(); err != nil ||
		!strings.Contains(string(output), "--- PASS: TestLimitedProcess") {
		t.Errorf("%v\n%s", err, output)
	}
	untouched(t, folder, "nodes.csv")
}
