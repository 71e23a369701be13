//go:build linux || darwin

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"unseen/internal/racetest"
	"unseen/model"
)

const limitedArgs, limitedBytes = "UNSEEN_LIMITED_ARGS", "UNSEEN_LIMITED_BYTES"

// TestLimitedProcess is no test: it is the program, as a process of its own in which no file may
// grow beyond some bytes.
func TestLimitedProcess(t *testing.T) {
	args := os.Getenv(limitedArgs)
	if args == "" {
		t.Skip("only as a helper process")
	}
	most, err := strconv.ParseUint(os.Getenv(limitedBytes), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	os.Exit(run(context.Background(), strings.Split(args, "\n"), os.Stdout, os.Stderr))
}

// invokeLimited is invoke where no file may grow beyond some bytes.
func invokeLimited(t *testing.T, most int, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	helper := exec.Command(program, "-test.run", "^TestLimitedProcess$")
	helper.Env = append(os.Environ(), limitedArgs+"="+strings.Join(args, "\n"),
		fmt.Sprintf("%s=%d", limitedBytes, most))
	var out, problems bytes.Buffer
	helper.Stdout, helper.Stderr = &out, &problems
	if err := helper.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return helper.ProcessState.ExitCode(), out.String(), problems.String()
}

// Where the disk is full, there is one error that says what to do, the model of before is as it
// was, and nothing half-written lies about.
func TestFitOnAFullDisk(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	folder := t.TempDir()
	path := filepath.Join(folder, "model")
	train := append(small, "--quiet", "--starts", ".3", "-o", path)
	if code, _, stderr := invoke(train...); code != exitOK {
		t.Fatal(stderr)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		most int
		says string
		left int // the model, and perhaps a checkpoint
	}{
		{100, "unseen: unusable checkpoint: cannot write " + path +
			".checkpoint: file too large; free space there, or choose another path\n", 1},
		{len(before) * 3 / 4, "unseen: cannot write " + path +
			": file too large; free space there, or choose another path; then run the same command with " +
			"--resume: only the beginning is in " + path + ".checkpoint\n", 2},
	} {
		code, stdout, stderr := invokeLimited(t, c.most, append(train, "--seed", "2")...)
		if code != exitFailure || stdout != "" || stderr != c.says {
			t.Errorf("%d bytes: exit code %d, stdout %q, stderr %q, want %q", c.most, code, stdout, stderr, c.says)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%d bytes: the model changed: %v", c.most, err)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != c.left {
			t.Errorf("%d bytes: %v are left: %v", c.most, left, err)
		}
	}
	// room is made
	if code, _, stderr := invoke(append(train, "--seed", "2", "--resume")...); code != exitOK {
		t.Errorf("resumed: %s", stderr)
	}
	if f, err := model.Open(path); err != nil || f.Metadata[model.KeySeed] != "2" {
		t.Errorf("no new model: %v", err)
	}
}

func TestResultsOnAFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("there is no device that is always full: %v", err)
	}
	defer full.Close()
	var stderr bytes.Buffer
	code := run(context.Background(), append(small, "--quiet", "--json"), full, &stderr)
	if code != exitFailure || !strings.Contains(stderr.String(), "the results could not be written in full: ") ||
		!strings.Contains(stderr.String(), "no space left on device") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}
