package atomicfile

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// file puts a file into a folder.
func file(name, content string) func(string) error {
	return func(folder string) error {
		return os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666)
	}
}

func noExchange(string, string) error { return errNoExchange }

func TestWriteFolder(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(a, b string) error{"exchange": exchange, "two renames": noExchange} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			path := filepath.Join(parent, "d")
			must(t, writeFolder(path, swap, file("old", "1")))
			must(t, writeFolder(path, swap, file("new", "2")))
			holds(t, filepath.Join(path, "new"), "2")
			if got := names(t, path); len(got) != 1 {
				t.Errorf("the folder holds %v", got)
			}
			broken := errors.New("broken")
			err := writeFolder(path, swap, func(folder string) error {
				must(t, file("half", "x")(folder))
				return broken
			})
			if err != broken {
				t.Errorf("error %v", err)
			}
			err = writeFolder(path, swap, func(folder string) error {
				return os.Mkdir(filepath.Join(folder, "inner"),
					0o777)
			})
			if err == nil || !strings.Contains(err.Error(), "inner") {
				t.Errorf("a folder within: %v", err)
			}
			holds(t, filepath.Join(path, "new"), "2")
			if got := names(t, parent); len(got) != 1 {
				t.Errorf("beside it lie %v", got)
			}
		})
	}
}

func TestWriteFolderErrors(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	if err := WriteFolder(filepath.Join(t.TempDir(), "d"), func(string) error { return own }); err != own {
		t.Errorf("error %v, want the function's own", err)
	}
	path := filepath.Join(t.TempDir(), "no", "folder")
	err := WriteFolder(path, file("a", ""))
	if e, ok := errors.AsType[*Error](err); !ok || e.Path != path ||
		!strings.Contains(err.Error(), "make its folder first") {
		t.Errorf("error %v", err)
	}
}

func TestWriteFolderThroughALink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	parent := t.TempDir()
	must(t, os.Mkdir(filepath.Join(parent, "real"), 0o777))
	must(t, os.Symlink("real", filepath.Join(parent, "link")))
	must(t, WriteFolder(filepath.Join(parent, "link"), file("a", "1")))
	holds(t, filepath.Join(parent, "real", "a"), "1")
	if info, err := os.Lstat(filepath.Join(parent, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
}

// TestKilledFolder leaves what a killed write leaves, and one that is still at work, beside others' files.
func TestKilledFolder(t *testing.T) {
	t.Parallel()
	if closeFirst {
		t.Skip("here a temporary folder is dead when it is a day old")
	}
	parent := t.TempDir()
	path := filepath.Join(parent, "d")
	for _, name := range []string{".d.1-0.tmp", ".d.1-x.tmp", ".e.1-0.tmp"} {
		must(t, os.Mkdir(filepath.Join(parent, name), 0o777))
		must(t, file("half", "x")(filepath.Join(parent, name)))
	}
	must(t, WriteFolder(path, func(folder string) error {
		// Another write of the same path must not take this one for dead.
		must(t, WriteFolder(path, file("other", "2")))
		return file("mine", "1")(folder)
	}))
	holds(t, filepath.Join(path, "mine"), "1")
	if got := strings.Join(names(t, parent), " "); got != ".d.1-x.tmp .e.1-0.tmp d" {
		t.Errorf("the folder holds %s", got)
	}
}

// TestRestoredFolder finds what a power cut between two renames leaves.
func TestRestoredFolder(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	path, old := filepath.Join(parent, "d"), filepath.Join(parent, ".d.7-0.old")
	must(t, os.Mkdir(old, 0o777))
	must(t, file("a", "precious")(old))
	broken := errors.New("broken")
	if err := WriteFolder(path, func(string) error { return broken }); err != broken {
		t.Fatal(err)
	}
	holds(t, filepath.Join(path, "a"), "precious")
	if got := names(t, parent); len(got) != 1 {
		t.Errorf("the folder holds %v", got)
	}
}

// TestKilledWriter kills a process that is writing a folder; the next write sweeps up.
func TestKilledWriter(t *testing.T) {
	if closeFirst {
		t.Skip("here a temporary folder is dead when it is a day old")
	}
	if path := os.Getenv("ATOMICFILE_HANG"); path != "" {
		WriteFolder(path, func(folder string) error {
			must(t, file("half", "x")(folder))
			os.Stdout.WriteString("writing\n")
			io.Copy(io.Discard, os.Stdin) // until it is killed
			return nil
		})
	}
	parent := t.TempDir()
	path := filepath.Join(parent, "d")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
	cmd.Env = append(os.Environ(), "ATOMICFILE_HANG="+path)
	out, err := cmd.StdoutPipe()
	must(t, err)
	in, err := cmd.StdinPipe()
	must(t, err)
	defer in.Close()
	must(t, cmd.Start())
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	must(t, WriteFolder(path, file("a", "1"))) // the other is alive and is left alone
	if got := names(t, parent); len(got) != 2 {
		t.Errorf("the folder holds %v", got)
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
	must(t, WriteFolder(path, file("a", "2")))
	if got := names(t, parent); len(got) != 1 {
		t.Errorf("the folder holds %v", got)
	}
	holds(t, filepath.Join(path, "a"), "2")
}

// TestScratch: a scratch folder lies beside the path, outlives a write of it, and goes when it is told to; one whose
// process is gone is swept by the next.
func TestScratch(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	path := filepath.Join(parent, "d")
	folder, remove, err := Scratch(path)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(folder) != parent {
		t.Errorf("it lies at %s, not beside %s", folder, path)
	}
	if err := WriteFolder(path, func(into string) error {
		return os.WriteFile(filepath.Join(into, "x"), nil,
			0o666)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("a write of the path swept it: %v", err)
	}
	remove()
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	if _, _, err := Scratch(filepath.Join(parent, "none", "d")); err == nil {
		t.Error("a scratch folder in a folder that is not there")
	}
}
