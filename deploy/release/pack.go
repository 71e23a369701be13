package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"
)

// file is a file of an archive.
type file struct {
	name string // with slashes
	mode int64
	body []byte
}

// inFolder puts files below a folder.
func inFolder(folder string, files []file) []file {
	var out []file
	for _, f := range files {
		out = append(out, file{folder + "/" + f.name, f.mode, f.body})
	}
	return out
}

// sorted returns files by name: their order is part of an archive's bytes.
func sorted(files []file) []file {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files
}

// folders returns all folders of the files, each before its content.
func folders(files []file) []string {
	seen := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			seen[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// tarGzOf packs files that root owns, with one time, their names after a prefix: "", or "./" as in dpkg.
func tarGzOf(files []file, prefix string, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	header := func(name string, mode, size int64, kind byte) error {
		return t.WriteHeader(&tar.Header{Name: prefix + name, Mode: mode, Size: size, Typeflag: kind, ModTime: when,
			Uname: "root", Gname: "root", Format: tar.FormatGNU})
	}
	if prefix != "" {
		if err := header("", 0o755, 0, tar.TypeDir); err != nil {
			return nil, err
		}
	}
	for _, dir := range folders(files) {
		if err := header(dir+"/", 0o755, 0, tar.TypeDir); err != nil {
			return nil, err
		}
	}
	for _, f := range sorted(files) {
		if err := header(f.name, f.mode, int64(len(f.body)), tar.TypeReg); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.body); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return gzipped(b.Bytes())
}

// zipOf packs files with one time.
func zipOf(files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(fs.FileMode(f.mode))
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// gzipped compresses; the header has no name and no time.
func gzipped(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
