package onnx

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"

	"unseen/encode"
	"unseen/progress"
)

// Run is how EncodeAll stores its work and resumes it. The zero value stores nothing.
type Run struct {
	// Checkpoint is a file for finished vectors; empty means none. The caller removes it once the vectors are stored.
	Checkpoint string
	// Resume continues from the checkpoint, if there is one. Without it, an existing one is an error.
	Resume bool
	// Texts identifies the texts, such as the checksum of their file.
	Texts    string
	Progress progress.Func // may be nil
}

// EncodeAll stores the vector of every document, in order, and returns how many have no text: theirs are
// zeros. A checkpoint grows window by window; resuming from it gives the same bytes as one run.
func (e *SentenceEncoder) EncodeAll(ctx context.Context, docs encode.Texts, rows encode.Rows, r Run) (empty int,
	err error) {
	first := 0
	set := func(i int, vector []float32) error {
		zero := true
		for _, x := range vector {
			zero = zero && x == 0
		}
		if zero {
			empty++
		}
		return rows.Set(int32(i), vector)
	}
	var file *os.File
	if r.Checkpoint != "" {
		header, err := e.header(docs.Len(), r.Texts)
		if err != nil {
			return 0, err
		}
		if file, first, err = e.open(r, header, docs.Len(), set); err != nil {
			return 0, err
		}
		defer file.Close()
	}
	for ; first < docs.Len(); first += windowSize {
		r.Progress.Report(progress.Event{Phase: "encoding", Done: int64(first), Of: int64(docs.Len())})
		window := make([]encode.Text, min(windowSize, docs.Len()-first))
		for k := range window {
			if window[k], err = docs.Text(first + k); err != nil {
				return empty, err
			}
		}
		vectors, err := e.Encode(ctx, window)
		if err != nil {
			return empty, err
		}
		if file != nil {
			if err := appendWindow(file, vectors); err != nil {
				return empty, fmt.Errorf("%s: %w; free space, and resume from it", r.Checkpoint, err)
			}
		}
		for k, vector := range vectors {
			if err := set(first+k, vector); err != nil {
				return empty, err
			}
		}
	}
	return empty, nil
}

// header is the first line of a checkpoint: what it belongs to.
func (e *SentenceEncoder) header(documents int, texts string) ([]byte, error) {
	about := e.identity()
	about["documents"], about["texts"] = fmt.Sprint(documents), texts
	line, err := json.Marshal(about) // keys sorted
	return append(line, '\n'), err
}

// open opens or creates a checkpoint, sets the vectors in it, and returns the first text that is not.
func (e *SentenceEncoder) open(r Run, header []byte, documents int, set func(int, []float32) error) (file *os.File,
	first int, err error) {
	flags := os.O_RDWR | os.O_CREATE
	if !r.Resume {
		flags |= os.O_EXCL
	}
	file, err = os.OpenFile(r.Checkpoint, flags, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, 0, fmt.Errorf("%w: %s is of an earlier run; resume it, or delete the file to start over",
			ErrCheckpoint, r.Checkpoint)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	found := make([]byte, len(header))
	n, err := io.ReadFull(file, found)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && bytes.HasPrefix(header, found[:n]):
		// new, or stopped within its first line
		if err := file.Truncate(0); err != nil {
			return nil, 0, err
		}
		if _, err := file.WriteAt(header, 0); err != nil {
			return nil, 0, err
		}
		if _, err := file.Seek(int64(len(header)), io.SeekStart); err != nil {
			return nil, 0, err
		}
		return file, 0, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, 0, err
	case !bytes.Equal(found, header):
		return nil, 0, fmt.Errorf("%w: %s is of another model, other texts or other settings; run the stopped command "+
			"again, or delete the file to start over", ErrCheckpoint, r.Checkpoint)
	}
	at := int64(len(header))
	for first < documents {
		count := min(windowSize, documents-first)
		window := make([]byte, count*e.dim*4+4)
		if _, err := io.ReadFull(file, window); err != nil {
			break // the last window is incomplete
		}
		numbers := window[:len(window)-4]
		if crc32.ChecksumIEEE(numbers) != binary.LittleEndian.Uint32(window[len(numbers):]) {
			break
		}
		vector := make([]float32, e.dim)
		for k := range count {
			for c := range vector {
				vector[c] = math.Float32frombits(binary.LittleEndian.Uint32(numbers[(k*e.dim+c)*4:]))
				if x := float64(vector[c]); math.IsNaN(x) || math.IsInf(x, 0) {
					return nil, 0, fmt.Errorf("%w: %s: number %d of text %d is %v; delete the file to start over",
						ErrCheckpoint, r.Checkpoint, c, first+k, x)
				}
			}
			if err := set(first+k, vector); err != nil {
				return nil, 0, err
			}
		}
		first += count
		at += int64(len(window))
	}
	if err := file.Truncate(at); err != nil {
		return nil, 0, err
	}
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return nil, 0, err
	}
	return file, first, nil
}

// appendWindow writes vectors and their checksum, and waits until they are on the disk.
func appendWindow(file *os.File, vectors [][]float32) error {
	var b []byte
	for _, vector := range vectors {
		for _, x := range vector {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	if _, err := file.Write(b); err != nil {
		return err
	}
	return file.Sync()
}
