//go:build linux || darwin

package atomicfile

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

const limitedPath = "UNSEEN_ATOMICFILE_LIMITED"

// TestLimitedProcess is no test: it writes more than the system lets it, as a process of its own.
func TestLimitedProcess(t *testing.T) {
	path := os.Getenv(limitedPath)
	if path == "" {
		t.Skip("only as a helper process")
	}
	signal.Ignore(syscall.SIGXFSZ)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16}))
	err := Write(path, text(strings.Repeat("new ", 1<<16)))
	if !errors.Is(err, syscall.EFBIG) || err.Error() != "cannot write "+path+
		": file too large; free space there, or choose another path" {
		t.Errorf("got %v", err)
	}
}

// The system itself refuses to write on: what no stand-in for a full disk can be wrong about.
func TestTheSystemRefuses(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m")
	must(t, Write(path, text("old")))
	program, err := os.Executable()
	must(t, err)
	helper := exec.Command(program, "-test.run", "^TestLimitedProcess$", "-test.v")
	helper.Env = append(os.Environ(), limitedPath+"="+path)
	if output, err := helper.CombinedOutput(); err != nil ||
		!strings.Contains(string(output), "--- PASS: TestLimitedProcess") {
		t.Errorf("%v\n%s", err, output)
	}
	holds(t, path, "old")
	if left := names(t, folder); len(left) != 1 {
		t.Errorf("the folder holds %q", left)
	}
}

// Where root replaces another's file, it stays the other's.
func TestTheOwnerStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away; run ./check as root to have it tested")
	}
	path := filepath.Join(t.TempDir(), "f")
	must(t, Write(path, text("old")))
	must(t, os.Chown(path, 65532, 65533))
	must(t, Write(path, text("new")))
	holds(t, path, "new")
	info, err := os.Stat(path)
	must(t, err)
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 65532 || owner.Gid != 65533 {
		t.Errorf("it is of user %d and group %d now", owner.Uid, owner.Gid)
	}
}
