package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if content, err := os.ReadFile(path); err != nil || string(content) != want {
		t.Errorf("%s holds %d bytes that begin %.20q, want %.20q (%v)", path, len(content), content, want, err)
	}
}

// faults is a disk that fails at one step.
type faults struct {
	disk
	at string
}

var errFull = errors.New("no space left on device")

type faultyFile struct {
	outFile
	at string
}

func (f faults) fail(step string) error {
	if f.at == step {
		return &fs.PathError{Op: step, Path: "somewhere", Err: errFull}
	}
	return nil
}

func (f faults) Create(path string) (outFile, error) {
	if err := f.fail("create"); err != nil {
		return nil, err
	}
	file, err := f.disk.Create(path)
	return faultyFile{file, f.at}, err
}

func (f faults) Rename(from, to string) error {
	if f.at == "rename" {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: errFull}
	}
	return f.disk.Rename(from, to)
}

func (f faults) SyncFolder(path string) error {
	if err := f.fail("sync folder"); err != nil {
		return err
	}
	return f.disk.SyncFolder(path)
}

func (f faultyFile) Write(b []byte) (int, error) {
	if f.at == "write" {
		n, _ := f.outFile.Write(b[:len(b)/2])
		return n, errFull
	}
	return f.outFile.Write(b)
}

func (f faultyFile) Sync() error {
	if f.at == "sync" {
		return errFull
	}
	return f.outFile.Sync()
}

func TestAFullDiskLeavesTheOldFile(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("new ", 1<<16) // written in several pieces
	for _, step := range []string{"create", "write", "sync", "rename", "sync folder"} {
		t.Run(step, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "m")
			must(t, os.WriteFile(path, []byte("old"), 0o666))
			err := writeFile(path, faults{at: step}, text(large))
			want := "cannot write " + path + ": no space left on device; free space there, or choose another path"
			kept := "old"
			if step == "sync folder" {
				want, kept = "cannot write "+path+
					": it is written, but may be lost in a power failure: no space left on device; "+
					"free space there, or choose another path", large
			}
			if !errors.Is(err, errFull) || err.Error() != want {
				t.Errorf("got error %v, want %s", err, want)
			}
			holds(t, path, kept)
			if left := names(t, folder); len(left) != 1 {
				t.Errorf("the folder holds %q", left)
			}
		})
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	missing := filepath.Join(folder, "no", "m")
	file := filepath.Join(folder, "file")
	must(t, os.WriteFile(file, nil, 0o666))
	for name, c := range map[string]struct {
		err  error
		is   error
		says string
	}{
		"no folder":           {Write(missing, text("x")), fs.ErrNotExist, "make its folder first"},
		"no folder, asked":    {Writable(missing), fs.ErrNotExist, "make its folder first"},
		"a folder, asked":     {Writable(folder), errFolder, "it is a folder; choose another path"},
		"a folder":            {Write(folder, text("x")), nil, "choose another path"},
		"the caller's words":  {Write(file, func(io.Writer) error { return errFull }), errFull, "no space left"},
		"a file for a folder": {Writable(filepath.Join(file, "m")), nil, "choose another path"},
	} {
		e, ok := errors.AsType[*Error](c.err)
		if !ok || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) ||
			strings.Contains(c.err.Error(), ".tmp") {
			t.Errorf("%s: got %v, want %q", name, c.err, c.says)
		} else if !strings.Contains(c.err.Error(), e.Path) {
			t.Errorf("%s: %v does not name the file", name, c.err)
		}
	}
	if err := Writable(file); err != nil {
		t.Errorf("a file that can be replaced: %v", err)
	}
	if left := names(t, folder); !slices.Equal(left, []string{"file"}) {
		t.Errorf("the folder holds %q", left)
	}
}

// helperPath is where the helper process writes.
const helperPath = "UNSEEN_ATOMICFILE_PATH"

// TestHelperProcess is no test: it writes half a file as a process of its own, says so and waits.
func TestHelperProcess(t *testing.T) {
	path := os.Getenv(helperPath)
	if path == "" {
		t.Skip("only as a helper process")
	}
	must(t, Write(path, func(w io.Writer) error {
		if err := text(strings.Repeat("half", 1<<16))(w); err != nil {
			return err
		}
		fmt.Println("half written")
		_, err := io.ReadAll(os.Stdin)
		return err
	}))
}

// begin starts a helper that is in the middle of writing a path; end lets it finish, or kills it.
func begin(t *testing.T, path string) (end func(kill bool)) {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	helper := exec.Command(program, "-test.run", "^TestHelperProcess$")
	helper.Env = append(os.Environ(), helperPath+"="+path)
	input, err := helper.StdinPipe()
	must(t, err)
	output, err := helper.StdoutPipe()
	must(t, err)
	must(t, helper.Start())
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "half written\n" {
		t.Fatalf("the helper said %q, %v", line, err)
	}
	return func(kill bool) {
		t.Helper()
		if kill {
			must(t, helper.Process.Kill())
			helper.Wait() // says that it was killed
			return
		}
		must(t, input.Close())
		must(t, helper.Wait())
	}
}

// What a killed write left goes with the next write of the same path, and nothing else does: not
// what a living process writes, not what is another path's or was made by hand.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, other := filepath.Join(folder, "m"), filepath.Join(folder, "m.2")
	must(t, Write(path, text("old")))
	living := begin(t, path)
	alive := names(t, folder)
	begin(t, path)(true)
	begin(t, other)(true)
	strangers := []string{".m.-1.tmp", ".m.1-.tmp", ".m.1-1", ".m.mine.tmp", ".n.1-1.tmp", "m.1-1.tmp"}
	for _, name := range strangers {
		must(t, os.WriteFile(filepath.Join(folder, name), nil, 0o666))
	}
	must(t, os.Mkdir(filepath.Join(folder, ".m.2-2.tmp"), 0o777))
	before := names(t, folder)
	if len(before) != len(alive)+2+len(strangers)+1 {
		t.Fatalf("killing leaves %q", before)
	}
	holds(t, path, "old")
	if runtime.GOOS == "windows" { // where nothing is swept within an hour
		for _, name := range before {
			must(t, os.Chtimes(filepath.Join(folder, name), time.Time{}, time.Now().Add(-2*time.Hour)))
		}
	}

	must(t, Write(path, text("new")))
	holds(t, path, "new")
	after := names(t, folder)
	for _, name := range append(append(alive, strangers...), ".m.2-2.tmp") {
		if !slices.Contains(after, name) {
			t.Errorf("%s is gone", name)
		}
	}
	if len(after) != len(before)-1 {
		t.Errorf("%q are left of %q, want one less", after, before)
	}
	living(false)
	holds(t, path, strings.Repeat("half", 1<<16))
	Sweep(other)
	if left := names(t, folder); len(left) != 1+len(strangers)+1 {
		t.Errorf("%q are left", left)
	}
}

// Writers of one path at the same time all succeed, one of them lasts, and nothing is left.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "m")
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for range 10 {
				if err := Write(path, text(strings.Repeat(fmt.Sprint(k), 1000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	content, err := os.ReadFile(path)
	must(t, err)
	if len(content) != 1000 || strings.Trim(string(content), string(content[:1])) != "" {
		t.Errorf("a mixture of %d bytes", len(content))
	}
	if left := names(t, folder); len(left) != 1 {
		t.Errorf("the folder holds %q", left)
	}
}

func ExampleWrite() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "greeting")
	err = Write(path, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "good day")
		return err
	})
	content, _ := os.ReadFile(path)
	fmt.Printf("%s%v\n", content, err)
	// Output:
	// good day
	// <nil>
}

// Many may ask at once whether one path can be written.
func TestWritableTogether(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "m")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				if err := Writable(path); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if left := names(t, folder); len(left) != 0 {
		t.Errorf("the folder holds %q", left)
	}
}

// Nobody can make room where nothing can be written at all.
func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	err := failure("m", &os.PathError{Op: "open", Path: ".m.1-1.tmp", Err: syscall.EROFS})
	if got := err.Error(); strings.Contains(got, "room") || !strings.Contains(got, "choose another path") {
		t.Error(got)
	}
}
