package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

var safeURL = regexp.MustCompile(`^(https?://[-._~:/@%+A-Za-z0-9]+)?$`)

// installer is the script that installs one of the archives, with their sums in it: who trusts the script needs to
// trust nobody for the archive.
func (r *release) installer(root string, products map[string][]byte) ([]byte, error) {
	if !safeURL.MatchString(r.url) {
		return nil, fmt.Errorf("--url is %q; give an address such as https://example.org/unseen/0.1.0", r.url)
	}
	script, err := os.ReadFile(filepath.Join(root, "deploy/install.sh"))
	if err != nil {
		return nil, err
	}
	var sums []string
	for _, name := range slices.Sorted(maps.Keys(products)) {
		if strings.HasSuffix(name, ".tar.gz") {
			sums = append(sums, fmt.Sprintf("%x  %s", sha256.Sum256(products[name]), name))
		}
	}
	for mark, value := range map[string]string{"@VERSION@": r.version, "@URL@": r.url,
		"@SUMS@": strings.Join(sums, "\n")} {
		if !bytes.Contains(script, []byte(mark)) {
			return nil, fmt.Errorf("deploy/install.sh lacks %s", mark)
		}
		script = bytes.ReplaceAll(script, []byte(mark), []byte(value))
	}
	return script, nil
}

// try uses what was built as people do: it installs from the folder and asks the program and the image for their
// version.
func (r *release) try(ctx context.Context, out, work string) error {
	if runtime.GOOS == "windows" {
		return nil // it has neither the script nor the image
	}
	to := filepath.Join(work, "installed")
	if text, err := exec.CommandContext(ctx, "sh", filepath.Join(out, "install.sh"),
		"--to", to).CombinedOutput(); err != nil {
		return fmt.Errorf("install.sh: %w\n%s", err, text)
	}
	for _, name := range []string{"share/man/man1/unseen-fit.1", "share/bash-completion/completions/unseen",
		"share/zsh/site-functions/_unseen", "share/fish/vendor_completions.d/unseen.fish"} {
		if at, err := os.Stat(filepath.Join(to, name)); err != nil || at.Size() == 0 {
			return fmt.Errorf("install.sh installed no %s: %w", name, err)
		}
	}
	if err := r.says(exec.CommandContext(ctx, filepath.Join(to, "bin/unseen"), "version")); err != nil {
		return err
	}
	fmt.Println("install.sh installs it")
	if runtime.GOOS != "linux" {
		return nil
	}
	return r.tryImage(ctx, filepath.Join(out, r.product(runtime.GOOS, runtime.GOARCH)+".oci.tar"), work, "")
}

// tryImage loads an image into a store of its own and runs it: the program says its version, and may write its volume
// as a user who is not root. The image of another processor is run by an emulator, for which the image gets the
// libraries of this machine.
func (r *release) tryImage(ctx context.Context, archive, work, emulator string) error {
	podman, err := exec.LookPath("podman")
	if err != nil {
		r.progress("there is no podman here; the image was not run")
		return nil
	}
	arch := runtime.GOARCH
	if emulator != "" {
		arch = "arm64"
	}
	store := filepath.Join(work, arch) // podman takes no long names
	ours := []string{"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"),
		"--storage-driver", "vfs"}
	for _, name := range []string{"runc", "crun"} { // crun refuses machines with two kinds of control groups
		if _, err := exec.LookPath(name); err == nil {
			ours = append(ours, "--runtime", name)
			break
		}
	}
	if text, err := exec.CommandContext(ctx, podman, append(slices.Clone(ours), "load", "-i",
		archive)...).CombinedOutput(); err != nil {
		return fmt.Errorf("podman load: %w\n%s", err, text)
	}
	started := append(slices.Clone(ours), "run", "--rm", "--network", "host", "--cap-drop", "all", "--ulimit",
		"nofile=1024:1024", "--ulimit", "nproc=1000:1000")
	if emulator == "" {
		started = append(started, r.image(arch).name())
	} else {
		for _, folder := range []string{"/lib", "/lib64", "/usr/lib"} {
			if _, err := os.Stat(folder); err == nil {
				started = append(started, "--volume", folder+":"+folder+":ro")
			}
		}
		started = append(started, "--volume", emulator+":/emulator:ro", "--entrypoint", "/emulator",
			r.image(arch).name(), "/usr/bin/unseen")
	}
	if err := r.says(exec.CommandContext(ctx, podman, append(slices.Clone(started), "version")...)); err != nil {
		return err
	}
	text, err := exec.CommandContext(ctx, podman,
		append(started, "generate", "/data/raw", "--quiet")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the image cannot write its volume: %w\n%s", err, text)
	}
	fmt.Printf("%s runs, and not as root\n", filepath.Base(archive))
	return nil
}

// emulate runs what was built for arm64 in an emulator: the wheel's program, and the image.
func (r *release) emulate(ctx context.Context, out, work string) error {
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil || runtime.GOOS != "linux" || !slices.Contains(r.platforms, "linux/arm64") {
		r.progress("there is no qemu-aarch64 here, or nothing for it; the program for linux/arm64 was not run")
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(out, r.wheel("linux/arm64").name()))
	if err != nil {
		return err
	}
	files, err := unzipped(raw)
	if err != nil {
		return err
	}
	program := filepath.Join(work, "unseen-arm64")
	if err := os.WriteFile(program, files["unseen/bin/unseen"], 0o755); err != nil {
		return err
	}
	if err := r.says(exec.CommandContext(ctx, emulator, program, "version")); err != nil {
		return err
	}
	fmt.Println("the wheel for linux/arm64 runs in an emulator")
	return r.tryImage(ctx, filepath.Join(out, r.product("linux", "arm64")+".oci.tar"), work, emulator)
}

// says reports whether a program says that it is this release.
func (r *release) says(program *exec.Cmd) error {
	text, err := program.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	if !strings.Contains(string(text), r.version) {
		return errors.New(program.String() + " says " + string(text) + ", want " + r.version)
	}
	return nil
}
