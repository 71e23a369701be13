package dataset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/graph"
)

// npy is a file of a version with a header text and a number of bytes behind it.
func npy(version byte, text string, data int) []byte {
	b := []byte(npyMagic + string([]byte{version, 0}))
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	return append(append(b, text...), make([]byte, data)...)
}

func pad4(text string, before int) string {
	for (before+len(text)+1)%16 != 0 {
		text += " "
	}
	return text + "\n"
}

func TestNpyHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file      []byte
		half      bool
		rows, dim int
	}{
		{npy(1, pad4("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 10), 48), false, 3, 4},
		{npy(2, pad4("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }", 12), 24), true, 3, 4},
		{npy(3, pad4(`{"shape":(0,7),"fortran_order":False,"descr":"<f4"}`, 12), 0), false, 0, 7},
		{npy(1, pad4("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 1L)}", 10), 8), false, 2, 1},
	} {
		h, err := readNpyHeader(bytes.NewReader(c.file), int64(len(c.file)))
		must(t, err)
		if h.half != c.half || h.rows != c.rows || h.dim != c.dim || h.offset%16 != 0 {
			t.Errorf("%q is %+v", c.file, h)
		}
	}
}

func TestNpyFaults(t *testing.T) {
	t.Parallel()
	header := func(kind, order, shape string) string {
		return pad4(fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }", kind, order, shape), 10)
	}
	good := npy(1, header("'<f4'", "False", "(3, 4)"), 48)
	for says, file := range map[string][]byte{
		"ends within its header":           good[:40],
		"begins with":                      []byte("PK\x03\x04 a zip file"),
		"version 9":                        npy(9, "", 0),
		"cut short: 127 bytes":             good[:len(good)-1],
		"save one array per file":          append(good, 0),
		"astype(np.float32)":               npy(1, header("'<f8'", "False", "(3, 4)"), 96),
		"little-endian":                    npy(1, header("'>f4'", "False", "(3, 4)"), 48),
		"ascontiguousarray":                npy(1, header("'<f4'", "True", "(3, 4)"), 48),
		"has 1 dimensions":                 npy(1, header("'<f4'", "False", "(12,)"), 48),
		"has 0 dimensions":                 npy(1, header("'<f4'", "False", "()"), 48),
		"expected one type":                npy(1, header("[('a', '<f4')]", "False", "(12,)"), 48),
		"3000000000×4":                     npy(1, header("'<f4'", "False", "(3000000000, 4)"), 48),
		"dimension 1 or more":              npy(1, header("'<f4'", "False", "(3, 0)"), 0),
		"more than memory":                 npy(1, header("'<f4'", "False", "(2000000000, 2000000000)"), 48),
		"2000000000×1 numbers need":        npy(1, header("'<f4'", "False", "(2000000000, 1)"), 48),
		"that can be a size":               npy(1, header("'<f4'", "False", "(99999999999999999999, 1)"), 48),
		"expected a whole number":          npy(1, header("'<f4'", "False", "(-3, 4)"), 48),
		"claims to be 4294967295":          append([]byte(npyMagic+"\x02\x00"), 255, 255, 255, 255),
		"lacks one of":                     npy(1, "{'descr': '<f4'}\n", 0),
		"there twice":                      npy(1, "{'descr': '<f4', 'descr': '<f4'}\n", 0),
		"unknown key":                      npy(1, "{'code': 'x'}\n", 0),
		"off their alignment":              npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}", 4),
		"expected True or False":           npy(1, header("'<f4'", "None", "(3, 4)"), 48),
		"expected the end":                 npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)} + {}", 4),
		"expected , or }":                  npy(1, "{'descr': '<f4' 'fortran_order': False}", 4),
		"expected a whole number that can": npy(1, header("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4),
	} {
		path := filepath.Join(t.TempDir(), VectorsFile)
		must(t, os.WriteFile(path, file, 0o666))
		_, err := MapVectors(path)
		wantError(t, err, ErrFormat, says, path, "; ")
	}
	_, err := MapVectors(filepath.Join(t.TempDir(), "absent.npy"))
	wantError(t, err, os.ErrNotExist, "absent.npy")
}

// TestNpyBytes holds the header against what NumPy 2.4 writes for np.zeros((3, 4), np.float32).
func TestNpyBytes(t *testing.T) {
	t.Parallel()
	want := "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" +
		strings.Repeat(" ", 58) + "\n"
	if got := string(npyHeaderBytes(false, 3, 4)); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
	for rows := range 3000 {
		if n := len(npyHeaderBytes(rows%2 == 0, rows*rows*rows, rows)); n%64 != 0 {
			t.Fatalf("a header of %d bytes", n)
		}
	}
}

// What is written is read back, whatever the shape.
func TestNpyHeaderAppend(t *testing.T) {
	t.Parallel()
	for _, h := range []NpyHeader{{"<f4", false, []int64{}, 0}, {"<i4", false, []int64{7}, 0},
		{"|u1", true, []int64{1 << 40, 0, 3}, 0}} {
		raw := h.Append([]byte("before"))
		h.Bytes = int64(len(raw) - 6)
		got, err := ReadNpyHeader(bytes.NewReader(raw[6:]))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(h) || h.Bytes%64 != 0 {
			t.Errorf("%v: got %v, want %v", err, got, h)
		}
	}
}

func TestNpyOfEveryKind(t *testing.T) {
	t.Parallel()
	numbers := []float32{0, 1, -1.5, 65504, float32(math.Copysign(0, -1)), 6e-8}
	for _, kind := range []struct {
		stored, half bool
	}{{false, false}, {false, true}, {true, false}, {true, true}} {
		allocate := graph.NewVectors
		if kind.stored {
			allocate = graph.NewHalfVectors
		}
		m, err := allocate(2, 3)
		must(t, err)
		must(t, m.Set(0, numbers[:3]))
		must(t, m.Set(1, numbers[3:]))
		var file bytes.Buffer
		var seen []float32
		must(t, writeNpy(&file, m, kind.half,
			func(_ int, row []float32) error { seen = append(seen, row...); return nil }))
		path := filepath.Join(t.TempDir(), VectorsFile)
		must(t, os.WriteFile(path, file.Bytes(), 0o666))
		v, err := MapVectors(path)
		must(t, err)
		if v.Half() != (kind.stored || kind.half) || v.Len() != 2 || v.Dim() != 3 {
			t.Errorf("%+v: %d×%d", kind, v.Len(), v.Dim())
		}
		row := make([]float32, 3)
		for k, want := range numbers {
			if v.Load(row, int32(k/3)); math.Abs(float64(row[k%3]-want)) > 1e-7 || seen[k] != row[k%3] ||
				math.Signbit(float64(row[k%3])) != math.Signbit(float64(want)) {
				t.Errorf("%+v: number %d is %v, was %v, seen as %v", kind, k, row[k%3], want, seen[k])
			}
		}
		must(t, v.Close())
		must(t, m.Close())
	}
}

func FuzzNpyHeader(f *testing.F) {
	f.Add(npyHeaderBytes(false, 3, 4), int64(48))
	f.Add(npyHeaderBytes(true, 0, 1), int64(0))
	f.Add(npy(2, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", 4), int64(0))
	f.Add([]byte(npyMagic), int64(1)<<62)
	f.Fuzz(func(t *testing.T, file []byte, more int64) {
		size := int64(len(file))
		if more > 0 && more < math.MaxInt64-size {
			size += more
		}
		h, err := readNpyHeader(bytes.NewReader(file), size)
		if err != nil {
			return
		}
		element := int64(4)
		if h.half {
			element = 2
		}
		if h.rows < 0 || h.dim < 1 || h.offset < 10 || h.offset+int64(h.rows)*int64(h.dim)*element != size {
			t.Errorf("a file of %d bytes holds %+v", size, h)
		}
		again, err := readNpyHeader(bytes.NewReader(npyHeaderBytes(h.half, h.rows, h.dim)), size-h.offset+
			int64(len(npyHeaderBytes(h.half, h.rows, h.dim))))
		if err != nil || again.rows != h.rows || again.dim != h.dim || again.half != h.half {
			t.Errorf("%+v was written as %+v (%v)", h, again, err)
		}
	})
}
