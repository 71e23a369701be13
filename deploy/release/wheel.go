package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// wheelTags are the platforms of a wheel, as pip calls them. The program is static, so that one wheel for Linux serves
// every C library. Go needs macOS 12.
var wheelTags = map[string][]string{
	"linux/amd64":   {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"},
	"linux/arm64":   {"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"},
	"darwin/amd64":  {"macosx_12_0_x86_64"},
	"darwin/arm64":  {"macosx_12_0_arm64"},
	"windows/amd64": {"win_amd64"},
}

// wheel is a Python package with the program of one platform in it.
type wheel struct {
	version string // as Python has it
	tags    []string
	time    time.Time
}

// wheel is the wheel of this release for a platform.
func (r *release) wheel(platform string) wheel {
	return wheel{pythonVersion(r.version), wheelTags[platform], r.time}
}

// name is the file that pip expects.
func (w wheel) name() string {
	return fmt.Sprintf("unseen-%s-py3-none-%s.whl", w.version, strings.Join(w.tags, "."))
}

var (
	devVersion = regexp.MustCompile(`^dev\.(\d+)\.([0-9a-z]+)$`)
	preVersion = regexp.MustCompile(`^(alpha|beta|rc)\.?(\d+)$`)
	notLocal   = regexp.MustCompile(`[^0-9A-Za-z]+`)
)

// pythonVersion turns v0.1.0-rc.1 into 0.1.0rc1, and v0.1.0-dev.20261117.abc1234 into 0.1.0.dev20261117+gabc1234.
func pythonVersion(version string) string {
	base, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	if m := devVersion.FindStringSubmatch(rest); m != nil {
		return fmt.Sprintf("%s.dev%s+g%s", base, m[1], m[2])
	}
	if m := preVersion.FindStringSubmatch(rest); m != nil {
		return base + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[1]] + m[2]
	}
	if rest != "" {
		return base + ".dev0+" + strings.Trim(notLocal.ReplaceAllString(rest, "."), ".")
	}
	return base
}

// pythonProject is what python/pyproject.toml says of the package.
type pythonProject struct {
	Project struct {
		Name        string
		Description string
		Readme      string
		Requires    string `toml:"requires-python"`
		License     string
		Authors     []struct{ Name string }
		Keywords    []string
		Classifiers []string
		Extras      map[string][]string `toml:"optional-dependencies"`
		Scripts     map[string]string
	}
}

// pack makes the wheel of the package in the folder python below root. files are the program, under the name that its
// system has for it, and what belongs with it: licences and the bill of materials.
func (w wheel) pack(root string, files []file) ([]byte, error) {
	source := os.DirFS(filepath.Join(root, "python"))
	raw, err := fs.ReadFile(source, "pyproject.toml")
	if err != nil {
		return nil, err
	}
	var p pythonProject
	if err := toml.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("python/pyproject.toml: %w", err)
	}
	readme, err := fs.ReadFile(source, p.Project.Readme)
	if err != nil {
		return nil, err
	}
	about := p.Project.Name + "-" + w.version + ".dist-info/"
	var out []file
	licences := []string{}
	for _, f := range files {
		switch base := path.Base(f.name); base {
		case "unseen", "unseen.exe":
			out = append(out, file{p.Project.Name + "/bin/" + base, 0o755, f.body})
		case "LICENSE", "THIRD-PARTY-LICENSES.txt":
			licences = append(licences, base)
			out = append(out, file{about + "licenses/" + base, 0o644, f.body})
		case "sbom.cdx.json":
			out = append(out, file{about + "sboms/unseen.cdx.json", 0o644, f.body})
		}
	}
	for _, pattern := range []string{"*.py", "py.typed"} {
		names, err := fs.Glob(source, p.Project.Name+"/"+pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			body, err := fs.ReadFile(source, name)
			if err != nil {
				return nil, err
			}
			out = append(out, file{name, 0o644, body})
		}
	}
	out = append(out, file{about + "METADATA", 0o644, p.metadata(w.version, licences, readme)},
		file{about + "WHEEL", 0o644, w.about()}, file{about + "entry_points.txt", 0o644, p.scripts()})
	return zipOf(append(out, record(about+"RECORD", out)), w.time)
}

// about is the file WHEEL.
func (w wheel) about() []byte {
	var b strings.Builder
	b.WriteString("Wheel-Version: 1.0\nGenerator: unseen release\nRoot-Is-Purelib: false\n")
	for _, tag := range w.tags {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", tag)
	}
	return []byte(b.String())
}

// metadata is the file METADATA: https://packaging.python.org/en/latest/specifications/core-metadata/.
func (p *pythonProject) metadata(version string, licences []string, readme []byte) []byte {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	line("Metadata-Version", "2.4")
	line("Name", p.Project.Name)
	line("Version", version)
	line("Summary", p.Project.Description)
	for _, a := range p.Project.Authors {
		line("Author", a.Name)
	}
	line("License-Expression", p.Project.License)
	for _, name := range slices.Sorted(slices.Values(licences)) {
		line("License-File", name)
	}
	line("Keywords", strings.Join(p.Project.Keywords, ","))
	for _, c := range p.Project.Classifiers {
		line("Classifier", c)
	}
	line("Requires-Python", p.Project.Requires)
	for _, extra := range slices.Sorted(maps.Keys(p.Project.Extras)) {
		line("Provides-Extra", extra)
		for _, needed := range p.Project.Extras[extra] {
			line("Requires-Dist", fmt.Sprintf("%s; extra == %q", needed, extra))
		}
	}
	line("Description-Content-Type", "text/markdown")
	return append([]byte(b.String()+"\n"), readme...)
}

// scripts is the file entry_points.txt.
func (p *pythonProject) scripts() []byte {
	var b strings.Builder
	b.WriteString("[console_scripts]\n")
	for _, name := range slices.Sorted(maps.Keys(p.Project.Scripts)) {
		fmt.Fprintf(&b, "%s = %s\n", name, p.Project.Scripts[name])
	}
	return []byte(b.String())
}

// record lists files with their checksums; pip compares them.
func record(name string, files []file) file {
	var b strings.Builder
	for _, f := range sorted(files) {
		sum := sha256.Sum256(f.body)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.body))
	}
	fmt.Fprintf(&b, "%s,,\n", name)
	return file{name, 0o644, []byte(b.String())}
}
