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

// tarGzOf is tarOf, compressed.
func tarGzOf(files []file, prefix string, when time.Time) ([]byte, error) {
	raw, err := tarOf(files, prefix, when)
	if err != nil {
		return nil, err
	}
	return gzipped(raw)
}

// tarOf packs files that root owns, with one time, their names after a prefix: "", or "./" as in dpkg. Folders that
// are empty, or whose owner is another, are given as headers.
func tarOf(files []file, prefix string, when time.Time, others ...tar.Header) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	header := func(h tar.Header) error {
		h.Name, h.ModTime, h.Format = prefix+h.Name, when, tar.FormatGNU
		if h.Uid == 0 {
			h.Uname, h.Gname = "root", "root"
		}
		return t.WriteHeader(&h)
	}
	if prefix != "" {
		if err := header(tar.Header{Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			return nil, err
		}
	}
	for _, dir := range folders(files) {
		others = append(others, tar.Header{Name: dir + "/", Mode: 0o755})
	}
	for _, h := range others {
		h.Typeflag = tar.TypeDir
		if err := header(h); err != nil {
			return nil, err
		}
	}
	for _, f := range sorted(files) {
		if err := header(tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body)),
			Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.body); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
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
