//go:build linux || darwin

package dataset

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const limitedPath = "UNSEEN_DATASET_LIMITED"

// TestLimitedProcess is no test: it writes more than the system lets it, as a process of its own.
func TestLimitedProcess(t *testing.T) {
	dir := os.Getenv(limitedPath)
	if dir == "" {
		t.Skip("only as a helper process")
	}
	content := randomContent(t, 7)
	signal.Ignore(syscall.SIGXFSZ)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}))
	_, err := Write(background, dir, content, WriteOptions{})
	wantError(t, err, syscall.EFBIG, "cannot write "+filepath.Join(dir, NodesFile), "free space")
}

// TestFullDisk has the system itself refuse to write on: the old dataset stays, and nothing else does.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "d")
	_, err := Write(background, dir, Content{Graph: small(t)}, WriteOptions{})
	must(t, err)
	program, err := os.Executable()
	must(t, err)
	helper := exec.Command(program, "-test.run", "^TestLimitedProcess$", "-test.v")
	helper.Env = append(os.Environ(), limitedPath+"="+dir)
	if output, err := helper.CombinedOutput(); err != nil ||
		!strings.Contains(string(output), "--- PASS: TestLimitedProcess") {
		t.Errorf("%v\n%s", err, output)
	}
	d, err := Open(background, dir, OpenOptions{Verify: true})
	must(t, err)
	defer d.Close()
	if !sameContent(t, d, Content{Graph: small(t)}) {
		t.Error("the old dataset changed")
	}
	if left := listing(t, parent); len(left) != 1 {
		t.Errorf("the folder holds %q", left)
	}
}
