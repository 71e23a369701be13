package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	when  = time.Unix(1_700_000_000, 0).UTC()
	parts = []file{
		{"unseen", 0o755, []byte("program")},
		{"README.md", 0o644, []byte("read me")},
		{"CHANGELOG.md", 0o644, []byte("changes")},
		{"man/unseen.1", 0o644, []byte(".TH UNSEEN 1\n")},
		{"completions/_unseen", 0o644, []byte("zsh")},
		{"completions/unseen.bash", 0o644, []byte("bash")},
		{"completions/unseen.ps1", 0o644, []byte("powershell")},
		{"deploy/unseen.service", 0o644, []byte("[Unit]\n")},
		{"deploy/unseen.default", 0o644, []byte("UNSEEN_OPTIONS=\n")},
	}
)

// Archives do not depend on the order of files, nor on the clock.
func TestArchivesAreReproducible(t *testing.T) {
	t.Parallel()
	turned := slices.Clone(parts)
	slices.Reverse(turned)
	for name, pack := range map[string]func([]file) ([]byte, error){
		"tar":   func(f []file) ([]byte, error) { return tarGzOf(f, "", when) },
		"zip":   func(f []file) ([]byte, error) { return zipOf(f, when) },
		"deb":   debian{"0.1.0", "amd64", when}.pack,
		"image": image{"0.1.0", "abc", "amd64", when}.pack,
	} {
		var a, b []byte
		var err1, err2 error
		synctest.Test(t, func(*testing.T) { // where an hour passes at once
			a, err1 = pack(parts)
			time.Sleep(time.Hour)
			b, err2 = pack(turned)
		})
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %d and %d bytes, %v, %v", name, len(a), len(b), err1, err2)
		}
		changed := slices.Clone(parts)
		changed[0].body = []byte("another")
		if c, err := pack(changed); err != nil || bytes.Equal(a, c) {
			t.Errorf("%s: another program, and the same archive; %v", name, err)
		}
	}
}

func TestTar(t *testing.T) {
	t.Parallel()
	raw, err := tarGzOf(inFolder("unseen_1", parts), "", when)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(gunzip(t, raw))); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if !h.ModTime.Equal(when) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s: %v, %d, %d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
		if h.Name == "unseen_1/unseen" && h.Mode != 0o755 {
			t.Errorf("the program has mode %o", h.Mode)
		}
	}
	if want := []string{"unseen_1/", "unseen_1/completions/", "unseen_1/deploy/",
		"unseen_1/man/"}; !slices.Equal(names[:4], want) || len(names) != len(parts)+4 {
		t.Errorf("got %q", names)
	}
}

func gunzip(t *testing.T, raw []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func TestZip(t *testing.T) {
	t.Parallel()
	raw, err := zipOf(parts, when)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != len(parts) || !z.File[0].Modified.Equal(when) {
		t.Errorf("%d files, %v", len(z.File), z.File[0].Modified)
	}
}

// dpkg takes the package, and its scripts are scripts.
func TestDebian(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("there is no dpkg-deb to read the package with; Debian, where ./check runs, has it")
	}
	raw, err := debian{"0.1.0~dev", "amd64", when}.pack(parts)
	if err != nil {
		t.Fatal(err)
	}
	path, root := filepath.Join(t.TempDir(), "unseen.deb"), t.TempDir()
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	field, err := exec.Command("dpkg-deb", "-f", path, "Version", "Architecture", "Depends").CombinedOutput()
	if want := "Version: 0.1.0~dev\nArchitecture: amd64\nDepends: adduser\n"; err != nil || string(field) != want {
		t.Errorf("%v, %q", err, field)
	}
	if out, err := exec.Command("dpkg-deb", "-R", path, root).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	for name, mode := range map[string]os.FileMode{
		"usr/bin/unseen": 0o755, "usr/share/man/man1/unseen.1.gz": 0o644,
		"usr/lib/systemd/system/unseen.service":    0o644,
		"usr/share/zsh/vendor-completions/_unseen": 0o644, "usr/share/bash-completion/completions/unseen": 0o644,
		"etc/default/unseen":             0o644,
		"usr/share/doc/unseen/copyright": 0o644, "usr/share/doc/unseen/changelog.gz": 0o644, "DEBIAN/md5sums": 0o644,
	} {
		if at, err := os.Stat(filepath.Join(root, name)); err != nil || at.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, at, err)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if out, err := exec.Command("sh", "-n", filepath.Join(root, "DEBIAN", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v, %s", script, err, out)
		}
	}
	if out, err := exec.Command("sh", "-c", "cd '"+root+"' && md5sum -c DEBIAN/md5sums").CombinedOutput(); err != nil {
		t.Errorf("%v, %s", err, out)
	}
}

func TestDebianVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v0.1.0": "0.1.0", "v0.1.0-rc.1": "0.1.0~rc.1"} {
		if got := debianVersion(version); got != want {
			t.Errorf("%s becomes %s, want %s", version, got, want)
		}
	}
}

// A release knows its version, also where there is no version control.
func TestAbout(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sets PATH to a folder without git, which Windows does not take so; ./check runs it on Linux")
	}
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	r, err := newRelease(t.Context(), "v1.2.3")
	if err != nil || r.version != "v1.2.3" || !r.time.Equal(when) || r.commit != "" || r.modified {
		t.Errorf("%+v, %v", r, err)
	}
	for _, wrong := range []string{"", "1.2.3", "v1.2.3 rm"} {
		if _, err := newRelease(t.Context(), wrong); err == nil {
			t.Errorf("the version %q passes", wrong)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := newRelease(t.Context(), "v1.2.3"); err == nil || !strings.Contains(err.Error(), "seconds since 1970") {
		t.Errorf("%v", err)
	}
}

func TestPythonVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v0.1.0": "0.1.0", "v0.1.0-rc.1": "0.1.0rc1",
		"v1.2.3-beta2": "1.2.3b2", "v1.0.0-try_2": "1.0.0.dev0+try.2",
		"v0.1.0-dev.20261117.abc1234": "0.1.0.dev20261117+gabc1234"} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s becomes %s, want %s", version, got, want)
		}
	}
}

// A wheel has the package, the program that may be run, and the sum of every file; every platform has one.
func TestWheel(t *testing.T) {
	t.Parallel()
	for _, platform := range platforms {
		w := wheel{"0.1.0", wheelTags[platform], when}
		if len(w.tags) == 0 {
			t.Errorf("no tags for %s", platform)
		}
	}
	w := wheel{"0.1.0", wheelTags["linux/amd64"], when}
	files := []file{{"unseen", 0o755, []byte("program")}, {"LICENSE", 0o644, []byte("terms")},
		{"sbom.cdx.json", 0o644, []byte("{}")}}
	raw, err := w.pack("../..", files)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	if again, err := w.pack("../..", files); err != nil || !bytes.Equal(raw, again) {
		t.Errorf("packed twice, and the bytes differ; %v", err)
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		contents[f.Name] = string(body)
		if program := f.Name == "unseen/bin/unseen"; program != (f.Mode().Perm() == 0o755) {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
	record := contents["unseen-0.1.0.dist-info/RECORD"]
	for name, body := range contents {
		line := name + ",sha256=" // and the sum, which pip compares
		if strings.HasSuffix(name, "/RECORD") {
			line = name + ",,"
		}
		if !strings.Contains(record, line) {
			t.Errorf("%q is not in RECORD, with %d bytes", name, len(body))
		}
	}
	for name, part := range map[string]string{
		"unseen/__init__.py":                           "unseen.fit(",
		"unseen/py.typed":                              "",
		"unseen-0.1.0.dist-info/METADATA":              "Requires-Python: >=3.10\n",
		"unseen-0.1.0.dist-info/WHEEL":                 "Tag: py3-none-musllinux_1_1_x86_64\n",
		"unseen-0.1.0.dist-info/entry_points.txt":      "unseen = unseen.__main__:main\n",
		"unseen-0.1.0.dist-info/licenses/LICENSE":      "terms",
		"unseen-0.1.0.dist-info/sboms/unseen.cdx.json": "{}",
	} {
		if body, is := contents[name]; !is || !strings.Contains(body, part) {
			t.Errorf("%s: %t, %.200q", name, is, body)
		}
	}
	want := "unseen-0.1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl"
	if w.name() != want {
		t.Errorf("the wheel is %s", w.name())
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--platforms", "plan9/mips"}, {"extra"}, {"--nope"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%q passes", args)
		}
	}
}
