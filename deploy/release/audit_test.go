package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/internal/racetest"
)

// A wheel of every platform passes with a program for that platform, and with no other; what pip would refuse, or what
// would not run where it is installed, does not pass.
func TestAudit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles a program for five platforms; ./check runs it without -short")
	}
	racetest.Skip(t, "it compiles, and runs nothing at the same time")
	programs := smallPrograms(t)
	for _, platform := range platforms {
		system, _, _ := strings.Cut(platform, "/")
		r := &release{version: "v1.2.3", time: when}
		w := r.wheel(platform)
		pack := func(program []byte) []byte {
			raw, err := w.pack("../..", []file{{"unseen" + exe(system), 0o755, program},
				{"LICENSE", 0o644, []byte("x")}})
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		whole := pack(programs[platform])
		if err := audit(platform, w.name(), whole); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
		for _, other := range platforms {
			if err := audit(platform, w.name(), pack(programs[other])); (err == nil) != (other == platform) {
				t.Errorf("a program for %s in a wheel for %s: %v", other, platform, err)
			}
			if err := audit(other, w.name(), whole); (err == nil) != (other == platform) {
				t.Errorf("a wheel for %s as one for %s: %v", platform, other, err)
			}
		}
		for name, c := range map[string]struct {
			raw  []byte
			says string
		}{
			"no program": {pack([]byte("#!/bin/sh")), "the program"},
			"too large":  {make([]byte, mostWheel+1), "at most"},
			"no zip":     {whole[:len(whole)/2], "zip"},
			"a changed file": {repacked(t, whole, func(f *file) {
				f.body = bytes.ReplaceAll(f.body,
					[]byte("fit"), []byte("fat"))
			}), "RECORD says"},
			"no tag": {repacked(t, whole, func(f *file) {
				if strings.HasSuffix(f.name, "/WHEEL") {
					f.body = bytes.ReplaceAll(f.body, []byte(w.tags[0]), []byte("any"))
				}
			}), "lacks the tag"},
			"another name": {repacked(t, whole, func(f *file) { f.name = strings.Replace(f.name, "py.typed", "x", 1) }),
				"which is not there"},
			"no right to run it": {repacked(t, whole, func(f *file) { f.mode = 0o644 }), "has mode"},
		} {
			if err := audit(platform, w.name(), c.raw); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v; want %q", platform, name, err, c.says)
			}
		}
	}
}

// A library that only some machines have does not pass.
func TestOfSystem(t *testing.T) {
	t.Parallel()
	for system, libraries := range map[string][]string{"linux": {"libc.so.6"},
		"darwin":  {"/usr/local/lib/libz.dylib", "@rpath/libx.dylib"},
		"windows": {"vcruntime140.dll", "python311.dll"}} {
		if slices.ContainsFunc(libraries, ofSystem[system].MatchString) {
			t.Errorf("of %q some are taken for %s's own", libraries, system)
		}
	}
}

// smallPrograms compiles one for every platform.
func smallPrograms(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module small\n\ngo 1.26.0\n",
		"main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string][]byte{}
	for _, platform := range platforms {
		system, arch, _ := strings.Cut(platform, "/")
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", "small", ".")
		build.Dir = dir
		build.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", platform, err, text)
		}
		var err error
		if programs[platform], err = os.ReadFile(filepath.Join(dir, "small")); err != nil {
			t.Fatal(err)
		}
	}
	return programs
}

// repacked changes the files of a wheel, but for its RECORD.
func repacked(t *testing.T, raw []byte, change func(f *file)) []byte {
	t.Helper()
	inside, err := unzipped(raw)
	if err != nil {
		t.Fatal(err)
	}
	var files []file
	for name, body := range inside {
		f := file{name, 0o644, body}
		if strings.Contains(name, "/bin/") {
			f.mode = 0o755
		}
		if !strings.HasSuffix(name, "/RECORD") {
			change(&f)
		}
		files = append(files, f)
	}
	again, err := zipOf(files, when)
	if err != nil {
		t.Fatal(err)
	}
	return again
}
