package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user of the image: neither root nor anybody on the machine that runs it.
const nobody = 65532

// image is a container image with the program alone: no shell, no root. Docker and Podman load it from its archive, so
// that nothing else builds it.
type image struct {
	version, commit, arch string
	time                  time.Time
}

// descriptor names a blob of an image: the configuration, a layer or the manifest.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// object is a JSON object; encoding/json sorts its keys, so that the bytes stay the same.
type object = map[string]any

// image is the image of this release for an architecture.
func (r *release) image(arch string) image {
	return image{version: strings.TrimPrefix(r.version, "v"), commit: r.commit, arch: arch, time: r.time}
}

// name is what the image is called once it is loaded. A tag has no plus sign.
func (i image) name() string { return "unseen:" + strings.ReplaceAll(i.version, "+", "_") }

// pack makes the archive: OCI's layout, with the list that Docker before version 25 reads instead.
func (i image) pack(files []file) ([]byte, error) {
	layer, err := i.layer(files)
	if err != nil {
		return nil, err
	}
	packed, err := gzipped(layer)
	if err != nil {
		return nil, err
	}
	labels := object{
		"org.opencontainers.image.title":    "unseen",
		"org.opencontainers.image.version":  i.version,
		"org.opencontainers.image.revision": i.commit,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	var blobs []file
	var fault error
	blob := func(mediaType string, body []byte) descriptor {
		sum := sha256.Sum256(body)
		blobs = append(blobs, file{fmt.Sprintf("blobs/sha256/%x", sum), 0o644, body})
		return descriptor{MediaType: mediaType, Digest: fmt.Sprintf("sha256:%x", sum), Size: len(body)}
	}
	encoded := func(value any) []byte {
		raw, err := json.Marshal(value)
		if err != nil {
			fault = err
		}
		return raw
	}
	layers := []descriptor{blob("application/vnd.oci.image.layer.v1.tar+gzip", packed)}
	config := blob("application/vnd.oci.image.config.v1+json", encoded(object{
		"architecture": i.arch, "os": "linux", "created": i.time.Format(time.RFC3339),
		"config": object{
			"User":         fmt.Sprintf("%d:%d", nobody, nobody),
			"Entrypoint":   []string{"/usr/bin/unseen"},
			"Cmd":          []string{"serve", "/data", "--listen", ":8080", "--token-file", "/tokens.json"},
			"Env":          []string{"PATH=/usr/bin"},
			"ExposedPorts": object{"8080/tcp": object{}},
			"Volumes":      object{"/data": object{}},
			"WorkingDir":   "/data",
			"Labels":       labels,
		},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", encoded(object{"schemaVersion": 2,
		"mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers}))
	name := i.name()
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": strings.TrimPrefix(name, "unseen:"),
		"io.containerd.image.name": "docker.io/library/" + name}
	path := func(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }
	all := append(blobs,
		file{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		file{"index.json", 0o644, encoded(object{"schemaVersion": 2,
			"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []descriptor{manifest}})},
		file{"manifest.json", 0o644, encoded([]object{{"Config": path(config), "RepoTags": []string{name},
			"Layers": []string{path(layers[0])}}})})
	if fault != nil {
		return nil, fault
	}
	return tarOf(all, "", i.time)
}

// layer is the image's files: the program and what it looks for on a machine. Who mounts a fresh volume at /data, or
// none, may write there.
func (i image) layer(files []file) ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil { // a file of certificates cannot say for which of its own a root is trusted
			continue
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	inside := []file{
		{"etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\n"+
			"unseen:x:%d:%d:unseen:/data:/sbin/nologin\n", nobody, nobody)},
		{"etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nunseen:x:%d:\n", nobody)},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes()},
	}
	for _, f := range files {
		switch f.name {
		case "unseen":
			inside = append(inside, file{"usr/bin/unseen", f.mode, f.body})
		case "LICENSE", "THIRD-PARTY-LICENSES.txt", "sbom.cdx.json":
			inside = append(inside, file{"usr/share/doc/unseen/" + f.name, f.mode, f.body})
		}
	}
	if !slices.ContainsFunc(inside, func(f file) bool { return f.name == "usr/bin/unseen" }) {
		return nil, fmt.Errorf("no program for the image of %s", i.arch)
	}
	return tarOf(inside, "", i.time,
		tar.Header{Name: "data/", Mode: 0o750, Uid: nobody, Gid: nobody},
		tar.Header{Name: "tmp/", Mode: 0o1777})
}
