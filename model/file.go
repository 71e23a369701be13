package model

import (
	"errors"
	"fmt"

	"unseen/internal/safetensors"
)

// File is the content of a safetensors file: a text per key, and named arrays. The same content gives the
// same bytes. The metadata key "sha256" is the writer's: a digest over all of the content, which Open
// checks. It is the SHA-256 of these lines and then the numbers,
//
//	length:key length:value          per metadata entry but itself, by key
//	length:name dtype [shape]        per tensor, in the order of the file
type File struct {
	Metadata map[string]string
	Tensors  []Tensor

	path string // where it was read, for messages
}

// Tensor is an array with a name. Data is a []float32, []float64 or []int32, row by row; also []uint8, or
// []uint16 for the bits of float16 numbers.
type Tensor struct {
	Name  string
	Shape []int
	Data  any
}

// Tensor returns the tensor of a name, if there is one.
func (f *File) Tensor(name string) (Tensor, bool) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// Open reads a file and checks all of it: sizes, names, shapes and the digest. The error names the
// file, the place and what to do.
func Open(path string) (*File, error) {
	read, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return fileOf(read, path), nil
}

func fileOf(read *safetensors.Contents, path string) *File {
	f := &File{Metadata: read.Metadata, path: path}
	for _, t := range read.Tensors {
		f.Tensors = append(f.Tensors, Tensor(t))
	}
	return f
}

// Save writes the file such that a reader always finds the old content or the new: into a temporary file in
// the same folder, which is synced, renamed and its folder synced. When it fails, the old file is unchanged
// and the temporary one is removed. The next Save removes what a killed one left.
func (f *File) Save(path string) error {
	err := f.plain().Save(path)
	switch {
	case errors.Is(err, safetensors.ErrShape):
		return fmt.Errorf("%w: %w", ErrShape, err)
	case errors.Is(err, safetensors.ErrContent):
		return fmt.Errorf("%w: %w", ErrOption, err)
	}
	return err
}

func (f *File) plain() *safetensors.Contents {
	plain := &safetensors.Contents{Metadata: f.Metadata}
	for _, t := range f.Tensors {
		plain.Tensors = append(plain.Tensors, safetensors.Array(t))
	}
	return plain
}
