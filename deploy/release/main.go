// Command release builds what users download: static binaries for five platforms in archives with manual and
// completions, Debian packages, Python wheels, container images, bills of materials, a script that installs, and
// SHA256SUMS. The same commit and the same Go give the same bytes, wherever and whenever it runs.
//
//	./release                                  everything, into dist
//	./release wheels                           the Python wheels alone
//	./release --platforms linux/amd64          one platform
//	./release --url https://example.org/0.1.0  install.sh will download from there
//	./release --check                          builds this machine's platform twice, in two places, compares, tries
//	                                           what was built (installs it, and runs the image), and builds the
//	                                           other platforms, of which an emulator runs linux/arm64
//	./release --check --warm                   the same, faster: packages may have been compiled before, and of the
//	                                           other platforms there is linux/arm64 alone
//
// Times are those of the commit, or SOURCE_DATE_EPOCH; the version is the tag at the commit,
// otherwise the newest of CHANGELOG.md with the commit. DEBFULLNAME and DEBEMAIL name the
// maintainer of the Debian packages.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"unseen/internal/sbom"
	"unseen/progress"
	"unseen/serve"
)

var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	wheels := len(args) > 0 && args[0] == "wheels"
	if wheels {
		args = args[1:]
	}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	out := flags.String("out", "dist", "`folder` to write")
	version := flags.String("version", "", "such as v0.1.0 (default: the tag at the commit, otherwise made from "+
		"the commit)")
	url := flags.String("url", "", "`address` where the files will be, for install.sh (default: the script's folder)")
	chosen := flags.String("platforms", strings.Join(platforms, ","), "platforms to build for, separated by commas")
	check := flags.Bool("check", false, "build for this machine twice, in two places and with an empty cache, "+
		"compare, and build the rest")
	warm := flags.Bool("warm", false, "with --check: use the usual cache of compiled packages both times, and build "+
		"only linux/arm64\nof the rest: faster, but it does not test that the compiler itself is deterministic")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil // the help is printed
		}
		return err
	}
	if *warm && !*check {
		return errors.New("--warm needs --check")
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	r, err := newRelease(ctx, *version)
	if err != nil {
		return err
	}
	r.wheels, r.url = wheels, strings.TrimSuffix(*url, "/")
	r.progress = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if *check {
		return r.checkTwice(ctx, *warm)
	}
	for p := range strings.SplitSeq(*chosen, ",") {
		if !slices.Contains(platforms, p) {
			return fmt.Errorf("unknown platform %q; use one of %s", p, strings.Join(platforms, ", "))
		}
		r.platforms = append(r.platforms, p)
	}
	if r.modified {
		r.progress("the working tree differs from its commit: binaries will report that they are modified")
	}
	sums, err := r.build(ctx, ".", *out)
	if err != nil {
		return err
	}
	fmt.Print(sums)
	return nil
}

// release is what to build, and how.
type release struct {
	version  string // v0.1.0
	commit   string
	time     time.Time
	modified bool

	platforms []string
	wheels    bool   // and nothing else
	url       string // where the files will be, or ""
	cache     string // of the Go tool; "" means the usual one
	progress  func(format string, args ...any)
}

var newestVersion = regexp.MustCompile(`(?m)^## .*?(\d+\.\d+\.\d+)`)

// newRelease asks git for the version, the commit and its time.
func newRelease(ctx context.Context, version string) (*release, error) {
	r := &release{version: version}
	git := func(args ...string) (string, error) {
		raw, err := exec.CommandContext(ctx, "git", args...).Output()
		return strings.TrimSpace(string(raw)), err
	}
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		if os.Getenv("SOURCE_DATE_EPOCH") == "" || version == "" {
			return nil, errors.New("no git repository here; set SOURCE_DATE_EPOCH and --version")
		}
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if commit != "" {
		r.commit = commit
		changes, err := git("status", "--porcelain")
		if err != nil {
			return nil, err
		}
		if r.modified = changes != ""; epoch == "" {
			if epoch, err = git("log", "-1", "--format=%ct"); err != nil {
				return nil, err
			}
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH is %q; set it to seconds since 1970", epoch)
	}
	r.time = time.Unix(seconds, 0).UTC()
	if r.version == "" {
		if tag, err := git("describe", "--tags", "--exact-match", "--match", "v*"); err == nil {
			r.version = tag
		}
	}
	if r.version == "" {
		changes, err := os.ReadFile("CHANGELOG.md")
		if err != nil {
			return nil, err
		}
		newest := newestVersion.FindSubmatch(changes)
		if newest == nil {
			return nil, errors.New("CHANGELOG.md names no version")
		}
		r.version = fmt.Sprintf("v%s-dev.%s.%s", newest[1], r.time.Format("20060102"), r.commit[:7])
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+[-+.0-9A-Za-z]*$`).MatchString(r.version) {
		return nil, fmt.Errorf("the version is %q; use one such as v0.1.0", r.version)
	}
	return r, nil
}

// build makes all files of a release from the sources at root and returns SHA256SUMS.
func (r *release) build(ctx context.Context, root, out string) (string, error) {
	if err := os.RemoveAll(out); err != nil {
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "unseen-release-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	here := filepath.Join(work, "here"+exe(runtime.GOOS))
	var shared []file // of the archives
	if !r.wheels {
		if err := r.compile(ctx, root, runtime.GOOS+"/"+runtime.GOARCH, here); err != nil {
			return "", err
		}
		if shared, err = r.shared(ctx, root, work, here); err != nil {
			return "", err
		}
	}
	products := map[string][]byte{}
	for _, platform := range r.platforms {
		r.progress("%s %s", r.version, platform)
		binary := here
		if r.wheels || platform != runtime.GOOS+"/"+runtime.GOARCH {
			binary = filepath.Join(work, "unseen-"+strings.ReplaceAll(platform, "/", "-"))
			if err := r.compile(ctx, root, platform, binary); err != nil {
				return "", err
			}
		}
		if err := r.pack(ctx, root, platform, binary, shared, products); err != nil {
			return "", err
		}
	}
	if !r.wheels {
		if products["install.sh"], err = r.installer(root, products); err != nil {
			return "", err
		}
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(products)) {
		if err := os.WriteFile(filepath.Join(out, name), products[name], 0o644); err != nil {
			return "", err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(products[name]), name)
	}
	return sums.String(), os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// pack adds what is made of one platform's binary to the products: archives with the shared files, and the wheel.
func (r *release) pack(ctx context.Context, root, platform, binary string, shared []file,
	products map[string][]byte) error {
	system, arch, _ := strings.Cut(platform, "/")
	bill, err := r.bill(binary)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	licences, err := r.licences(ctx, root, binary)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return err
	}
	own := []file{{"unseen" + exe(system), 0o755, program}, {"sbom.cdx.json", 0o644, bill},
		{"THIRD-PARTY-LICENSES.txt", 0o644, licences}}
	w := r.wheel(platform)
	packed, err := w.pack(root, append(slices.Clone(own), file{"LICENSE", 0o644, licence}))
	if err != nil {
		return err
	}
	if err := audit(platform, w.name(), packed); err != nil {
		return err
	}
	if products[w.name()] = packed; r.wheels {
		return nil
	}
	name := r.product(system, arch)
	products[name+".cdx.json"] = bill
	files := slices.Concat(shared, own)
	if system == "windows" {
		products[name+".zip"], err = zipOf(inFolder(name, files), r.time)
	} else {
		products[name+".tar.gz"], err = tarGzOf(inFolder(name, files), "", r.time)
	}
	if err != nil || system != "linux" {
		return err
	}
	p := debian{version: debianVersion(r.version), arch: arch, time: r.time}
	if products[fmt.Sprintf("unseen_%s_%s.deb", p.version, arch)], err = p.pack(files); err != nil {
		return err
	}
	products[name+".oci.tar"], err = r.image(arch).pack(files)
	return err
}

// product is what archives of a platform are called.
func (r *release) product(system, arch string) string {
	return fmt.Sprintf("unseen_%s_%s_%s", strings.TrimPrefix(r.version, "v"), system, arch)
}

func exe(system string) string {
	if system == "windows" {
		return ".exe"
	}
	return ""
}

// compile makes a static binary that contains its version and no trace of where it was built.
func (r *release) compile(ctx context.Context, root, platform, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	system, arch, _ := strings.Cut(platform, "/")
	stamps := fmt.Sprintf("-s -w -buildid= -X main.stampVersion=%s -X main.stampCommit=%s -X main.stampTime=%s "+
		"-X main.stampModified=%t",
		r.version, r.commit, r.time.Format(time.RFC3339), r.modified)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stamps, "-o", to,
		"./cmd/unseen")
	build.Dir = root
	// Build settings of this machine, other than where modules come from, would change the bytes.
	build.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	if r.cache != "" {
		build.Env = append(build.Env, "GOCACHE="+r.cache)
	}
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s: %w\n%s", platform, err, text)
	}
	return nil
}

// bill is the bill of materials of a binary; unseen version --sbom prints the same.
func (r *release) bill(binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	scripts, err := sbom.Scripts(serve.Scripts())
	if err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(sbom.Of(info, sbom.Program{Name: "unseen", Version: r.version, Commit: r.commit,
		Time: r.time.Format(time.RFC3339), Scripts: scripts}), "", "  ")
	return append(raw, '\n'), err
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-._].*)?$`)

// licences collects the licences of every module in a binary, which must be distributed with it.
func (r *release) licences(ctx context.Context, root, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all")
	list.Dir = root
	raw, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	places := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		places[name] = dir
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	places["Go"] = strings.TrimSpace(string(goroot))
	modules := append([]*debug.Module{{Path: "Go", Version: info.GoVersion}}, info.Deps...)
	var b bytes.Buffer
	for _, m := range modules {
		entries, err := os.ReadDir(places[m.Path])
		if err != nil {
			return nil, fmt.Errorf("the licence of %s: %w", m.Path, err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenceFile.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(places[m.Path], e.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "==== %s %s: %s\n\n%s\n\n", m.Path, m.Version, e.Name(), bytes.TrimSpace(text))
			found = true
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence file; find its licence before distributing it", m.Path)
		}
	}
	// Third-party scripts of the pages have their licences beside them.
	terms, err := fs.Glob(serve.Scripts(), "*.[LN][IO][CT]*")
	if err != nil || len(terms) == 0 {
		return nil, fmt.Errorf("the scripts of the pages have no licence files (%v)", err)
	}
	for _, name := range terms {
		text, err := fs.ReadFile(serve.Scripts(), name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "==== %s\n\n%s\n\n", name, bytes.TrimSpace(text))
	}
	return b.Bytes(), nil
}

// shared returns the files of every platform: manual, completions, documents.
func (r *release) shared(ctx context.Context, root, work, program string) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "deploy/unseen.service",
		"deploy/unseen.default"} {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, raw})
	}
	for shell, name := range map[string]string{"bash": "unseen.bash", "zsh": "_unseen", "fish": "unseen.fish",
		"powershell": "unseen.ps1"} {
		script, err := exec.CommandContext(ctx, program, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion for %s: %w", shell, err)
		}
		files = append(files, file{"completions/" + name, 0o644, script})
	}
	manual := filepath.Join(work, "man")
	if text, err := exec.CommandContext(ctx, program, "man", manual).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the manual: %w\n%s", err, text)
	}
	pages, err := os.ReadDir(manual)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		raw, err := os.ReadFile(filepath.Join(manual, p.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"man/" + p.Name(), 0o644, raw})
	}
	return files, nil
}

// checkTwice builds in two folders, the second time with another home, another time zone and, unless warm, an empty
// cache, and compares.
func (r *release) checkTwice(ctx context.Context, warm bool) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if !slices.Contains(platforms, platform) {
		return fmt.Errorf("there are no releases for %s; run --check on one of %s", platform, strings.Join(platforms,
			", "))
	}
	r.platforms = []string{platform}
	work, err := os.MkdirTemp("", "unseen-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	listed, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	places := []string{"one", "two/of/another/depth"}
	for _, folder := range places {
		for name := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
			if err := copyFile(name, filepath.Join(work, folder, name)); err != nil {
				return err
			}
		}
	}
	var sums []string
	for k, folder := range places {
		if k == 1 {
			if !warm {
				r.cache = filepath.Join(work, "cache")
			}
			if err := changeEnvironment(ctx, filepath.Join(work, "home")); err != nil {
				return err
			}
		}
		began := time.Now()
		s, err := r.build(ctx, filepath.Join(work, folder), filepath.Join(work, "out", folder))
		if err != nil {
			return err
		}
		r.progress("built in %s, in %s", folder, progress.Duration(time.Since(began)))
		sums = append(sums, s)
	}
	if sums[0] != sums[1] {
		return fmt.Errorf("two builds differ:\n%s\n%s", sums[0], sums[1])
	}
	fmt.Printf("%sboth builds are identical\n", sums[0])
	if err := r.try(ctx, filepath.Join(work, "out", places[0]), work); err != nil {
		return err
	}
	r.platforms = slices.DeleteFunc(slices.Clone(platforms), func(other string) bool {
		return other == platform || warm && other != "linux/arm64"
	})
	if len(r.platforms) == 0 {
		return nil
	}
	r.cache = ""
	others := filepath.Join(work, "out", "others")
	if _, err := r.build(ctx, filepath.Join(work, places[0]), others); err != nil {
		return err
	}
	fmt.Printf("%s: archives and wheels are whole\n", strings.Join(r.platforms, ", "))
	return r.emulate(ctx, others, work)
}

// changeEnvironment gives this process another home and another time zone. The folders of the Go tool stay.
func changeEnvironment(ctx context.Context, home string) error {
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOENV"} {
		value, err := exec.CommandContext(ctx, "go", "env", name).Output()
		if err != nil {
			return fmt.Errorf("go env %s: %w", name, err)
		}
		if err := os.Setenv(name, strings.TrimSpace(string(value))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(home, "tmp"), 0o755); err != nil {
		return err
	}
	for name, value := range map[string]string{"HOME": home, "TMPDIR": filepath.Join(home, "tmp"), "USER": "another",
		"TZ": "Asia/Tokyo", "LC_ALL": "C"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) { // removed, but not committed
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, bytes.Clone(raw), 0o644)
}
