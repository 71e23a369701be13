package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// installed is what a release has for this machine: an archive, and the script with its sum.
func installed(t *testing.T, url string) (archive string, products map[string][]byte) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell, as the script does; ./check runs it on Linux")
	}
	name := "unseen_1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	raw, err := tarGzOf(inFolder(name, append(parts,
		file{"completions/unseen.fish", 0o644, []byte("fish")})), "", when)
	if err != nil {
		t.Fatal(err)
	}
	archive = name + ".tar.gz"
	products = map[string][]byte{archive: raw, name + ".deb": []byte("a package")}
	r := &release{version: "v1.2.3", url: url}
	if products["install.sh"], err = r.installer("../..", products); err != nil {
		t.Fatal(err)
	}
	return archive, products
}

// install runs the script of the products as it comes out of a pipe, where it has no name.
func install(t *testing.T, script []byte, args ...string) (string, error) {
	t.Helper()
	shell := exec.Command("sh", append([]string{"-s", "--"}, args...)...)
	shell.Stdin, shell.Dir = bytes.NewReader(script), t.TempDir()
	text, err := shell.CombinedOutput()
	return string(text), err
}

// The script downloads the archive from its release, checks it, and puts every file where shells and man look.
func TestInstallDownloads(t *testing.T) {
	t.Parallel()
	var products map[string][]byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, is := products[strings.TrimPrefix(r.URL.Path, "/releases/")]
		if !is {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(body)
	}))
	defer server.Close()
	archive, products := installed(t, server.URL+"/releases")
	to := filepath.Join(t.TempDir(), "a folder")
	text, err := install(t, products["install.sh"], "--to", to)
	if err != nil || !strings.Contains(text, "installed unseen v1.2.3") || !strings.Contains(text, "not on your PATH") {
		t.Fatalf("%v, %s", err, text)
	}
	for name, want := range map[string]string{"bin/unseen": "program", "share/man/man1/unseen.1": ".TH UNSEEN 1\n",
		"share/bash-completion/completions/unseen": "bash", "share/zsh/site-functions/_unseen": "zsh",
		"share/fish/vendor_completions.d/unseen.fish": "fish"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if at, err := os.Stat(filepath.Join(to, "bin/unseen")); err != nil || at.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", at, err)
	}
	delete(products, archive)
	if text, err := install(t, products["install.sh"], "--to", to); err == nil ||
		!strings.Contains(text, "cannot download "+server.URL) {
		t.Errorf("%v, %s", err, text)
	}
}

// An archive with another sum, no archive, or a script that was cut off installs nothing.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	archive, products := installed(t, "")
	whole := products["install.sh"]
	elsewhere := bytes.ReplaceAll(whole, []byte(archive), []byte("of_another_platform.tar.gz"))
	for name, c := range map[string]struct {
		archive, script []byte
		args            []string
		want            string
	}{
		"a changed archive":  {append(bytes.Clone(products[archive]), 0), whole, nil, "wrong SHA-256 sum"},
		"another archive":    {[]byte("another"), whole, nil, "nothing was installed"},
		"no archive":         {nil, whole, nil, "give the folder or the address"},
		"another platform":   {products[archive], elsewhere, nil, "no program for"},
		"a wrong flag":       {products[archive], whole, []string{"--force"}, "unexpected argument --force"},
		"a missing value":    {products[archive], whole, []string{"--from"}, "--from needs a value"},
		"a script cut short": {products[archive], whole[:bytes.LastIndex(whole, []byte("\ninstall "))], nil, ""},
	} {
		from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
		if c.archive != nil {
			if err := os.WriteFile(filepath.Join(from, archive), c.archive, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := install(t, c.script, append([]string{"--from", from, "--to", to}, c.args...)...)
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v, %s", name, err, text)
		}
		if _, err := os.Stat(to); !os.IsNotExist(err) {
			t.Errorf("%s: something was installed", name)
		}
	}
}

// The sum of every archive is in the script, and no address that a shell would take for something else.
func TestInstaller(t *testing.T) {
	t.Parallel()
	archive, products := installed(t, "https://example.org/unseen/1.2.3")
	script := string(products["install.sh"])
	for _, want := range []string{fmt.Sprintf("%x  %s", sha256.Sum256(products[archive]), archive),
		"from='https://example.org/unseen/1.2.3'", "version=v1.2.3"} {
		if !strings.Contains(script, want) {
			t.Errorf("no %s in the script", want)
		}
	}
	if strings.Contains(script, ".deb") || strings.Contains(script, "@VERSION@") {
		t.Errorf("the script is\n%s", script)
	}
	for _, url := range []string{"https://example.org/'; rm -rf /; '", "ftp://example.org", "https://a b"} {
		if _, err := (&release{version: "v1.2.3", url: url}).installer("../..", products); err == nil {
			t.Errorf("the address %q passes", url)
		}
	}
}

// The image's blobs are what their names say, and the program in it belongs to root and is run by somebody else.
func TestImage(t *testing.T) {
	t.Parallel()
	i := (&release{version: "v0.1.0+2", time: when, commit: "abc"}).image("arm64")
	raw, err := i.pack(parts)
	if err != nil {
		t.Fatal(err)
	}
	blobs := untar(t, raw)
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Architecture string
		Config       struct{ User string }
		RootFS       struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	read := func(d descriptor, to any) []byte {
		t.Helper()
		body := blobs["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(body)); sum != d.Digest || len(body) != d.Size {
			t.Fatalf("%d bytes with the sum %s, want %+v", len(body), sum, d)
		}
		if to != nil {
			if err := json.Unmarshal(body, to); err != nil {
				t.Fatal(err)
			}
		}
		return body
	}
	if err := json.Unmarshal(blobs["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v, %s", err, blobs["index.json"])
	}
	read(index.Manifests[0], &manifest)
	read(manifest.Config, &config)
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" {
		t.Errorf("%+v", config)
	}
	layer := gunzip(t, read(manifest.Layers[0], nil))
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); sum != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer's sum is %s, want %s", sum, config.RootFS.DiffIDs[0])
	}
	inside := untar(t, layer)
	if string(inside["usr/bin/unseen"]) != "program" ||
		bytes.Count(inside["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")) < 100 {
		t.Errorf("%d files, with the program %q", len(inside), inside["usr/bin/unseen"])
	}
	if !bytes.Contains(blobs["manifest.json"], []byte(`"RepoTags":["unseen:0.1.0_2"]`)) {
		t.Errorf("%s", blobs["manifest.json"])
	}
	if _, err := i.pack(parts[1:]); err == nil {
		t.Error("an image without the program passes")
	}
}

// untar returns the contents of files; only /data may belong to another than root.
func untar(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if (h.Uid == nobody) != (h.Name == "data/") || h.Uid != h.Gid {
			t.Errorf("%s belongs to %d", h.Name, h.Uid)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
