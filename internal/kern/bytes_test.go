package kern

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMapBytes(t *testing.T) {
	for _, want := range []string{"", "x", "a longer text\n"} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		data, unmap, err := MapBytes(file)
		file.Close() // the bytes stay
		if err != nil || string(data) != want {
			t.Errorf("%q was mapped as %q, %v", want, data, err)
			continue
		}
		if err := unmap(); err != nil {
			t.Error(err)
		}
	}
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if _, _, err := MapBytes(folder); err == nil {
		t.Error("a folder was mapped")
	}
}
