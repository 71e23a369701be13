package temptest

import (
	"os"
	"strings"
	"testing"
)

// Temporary folders are in memory while tests run, and nothing of them is left.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	var dir string
	code := Run(func() int {
		var err error
		if dir, err = os.MkdirTemp("", "x"); err != nil {
			t.Fatal(err)
		}
		return 7
	})
	if code != 7 {
		t.Errorf("exit code %d", code)
	}
	if !roomy(memory) {
		t.Skip("this system has no /dev/shm in memory with 2 GiB left, so tests use the disk")
	}
	if !strings.HasPrefix(dir, memory) {
		t.Errorf("a temporary folder at %s", dir)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}
