package atomicfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestSum(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	must(t, Write(path, text("abc")))
	// of FIPS 180-4's first example
	if sum, err := Sum(path); err != nil || sum != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("%s: %v", sum, err)
	}
	if _, err := Sum(path + "g"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
}
