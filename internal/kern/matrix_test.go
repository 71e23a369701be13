package kern

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestMatrix(t *testing.T) {
	for _, dim := range []int{0, 1, 31, 32, 33, 768} {
		for _, half := range []bool{false, true} {
			m := randomMatrix(t, 7, dim, half, 1)
			if m.Rows() != 7 || m.Dim() != dim || m.Stride()%pad != 0 || m.Stride() < dim || m.Half() != half {
				t.Errorf("dim %d: rows %d dim %d stride %d half %v", dim, m.Rows(), m.Dim(), m.Stride(), m.Half())
			}
			want, got := make([]float32, dim), make([]float32, dim)
			for d := range want {
				want[d] = float32(d % 100)
			}
			m.Store(3, want)
			m.Load(got, 3)
			if !slices.Equal(want, got) {
				t.Errorf("dim %d half %v: stored %v, loaded %v", dim, half, want, got)
			}
		}
	}
}

func TestImpossibleSizes(t *testing.T) {
	for _, shape := range [][2]int{{-1, 3}, {3, -1}, {math.MaxInt, 2}, {math.MaxInt / 64, 1 << 30}} {
		if _, err := NewMatrix(shape[0], shape[1]); !errors.Is(err, ErrSize) {
			t.Errorf("NewMatrix(%v): %v", shape, err)
		}
	}
	for _, shape := range [][4]int{{2, 3, 2, 10}, {2, 3, 3, 5}, {-1, 1, 1, 9}, {math.MaxInt, 2, 3, 9},
		{math.MaxInt/2 + 2, 2, 2, 9}} {
		if _, err := View(make([]float32, shape[3]), shape[0], shape[1], shape[2]); !errors.Is(err, ErrSize) {
			t.Errorf("View(%v): %v", shape, err)
		}
	}
}

func TestParts(t *testing.T) {
	for _, half := range []bool{false, true} {
		m := randomMatrix(t, 9, 40, half, 1)
		part, err := m.Slice(2, 7)
		if err != nil {
			t.Fatal(err)
		}
		narrow, err := part.First(13)
		if err != nil {
			t.Fatal(err)
		}
		want, got := make([]float32, 40), make([]float32, 13)
		for i := range 5 {
			m.Load(want, i+2)
			narrow.Load(got, i)
			if narrow.Rows() != 5 || !slices.Equal(got, want[:13]) {
				t.Fatalf("row %d is %v, want %v", i, got, want[:13])
			}
		}
		for _, bounds := range [][2]int{{-1, 2}, {3, 2}, {0, 10}} {
			if _, err := m.Slice(bounds[0], bounds[1]); !errors.Is(err, ErrSize) {
				t.Errorf("Slice(%v): %v", bounds, err)
			}
		}
		for _, columns := range []int{-1, 41} {
			if _, err := m.First(columns); !errors.Is(err, ErrSize) {
				t.Errorf("First(%d): %v", columns, err)
			}
		}
	}
	for _, shape := range [][2]int{{0, 3}, {1, 1}, {33, 70}, {64, 32}} {
		a := randomMatrix(t, shape[0], shape[1], false, 2)
		b, _ := NewMatrix(shape[1], shape[0])
		Transpose(b, a)
		for i := range shape[0] {
			for j := range shape[1] {
				if a.Row(i)[j] != b.Row(j)[i] {
					t.Fatalf("%v: element %d,%d", shape, i, j)
				}
			}
		}
	}
}

func TestMapFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	bytes := make([]byte, 64)
	for i := range 12 {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(float32(i)))
	}
	if err := os.WriteFile(path, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := MapFile(file, 64, 4, 3, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Row(2), []float32{6, 7, 8}) {
		t.Errorf("row 2 is %v", m.Row(2))
	}
	out := make([]float32, 2)
	Dots(out, []float32{1, 1, 1}, m, []int32{3, 0})
	if out[0] != 30 || out[1] != 3 {
		t.Errorf("dots %v", out)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]func() (*Matrix, error){
		"truncated":   func() (*Matrix, error) { return MapFile(file, 64, 5, 3, false) },
		"not aligned": func() (*Matrix, error) { return MapFile(file, 63, 1, 3, false) },
		"impossible":  func() (*Matrix, error) { return MapFile(file, -4, 1, 3, false) },
		"overflow":    func() (*Matrix, error) { return MapFile(file, 0, math.MaxInt, 3, false) },
	} {
		if m, err := f(); err == nil {
			m.Close()
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), "rows") {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
	}
}

// Matrices that are dropped, not closed, are unmapped by the collector and only then.
func TestDroppedMatricesAreReleased(t *testing.T) {
	for round := range 50 {
		m := randomMatrix(t, 3, 5, false, uint64(round))
		q, dst := make([]float32, 5), make([]float32, 1)
		q[0] = 1
		want := m.Row(1)[0]
		runtime.GC()
		Dots(dst, q, m, []int32{1})
		if dst[0] != want {
			t.Fatalf("round %d: %v, want %v", round, dst[0], want)
		}
	}
	memory := &mapping{}
	m, err := NewMatrix(10, 10)
	if err != nil {
		t.Fatal(err)
	}
	memory = m.memory
	m = nil
	for range 100 {
		runtime.GC()
		if memory.released() {
			return
		}
	}
	t.Error("a dropped matrix kept its memory")
}

func (m *mapping) released() bool {
	done := true
	m.once.Do(func() { done = false })
	return done
}

func TestHalf(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		all := make([]uint16, 1<<16)
		for i := range all {
			all[i] = uint16(i)
		}
		floats, back := make([]float32, len(all)), make([]uint16, len(all))
		FromHalf(floats, all)
		ToHalf(back, floats)
		for i, h := range all {
			if want := halfToFloat(h); math.Float32bits(floats[i]) != math.Float32bits(want) {
				t.Fatalf("%#04x is %v, want %v", h, floats[i], want)
			}
			if nan := h&0x7c00 == 0x7c00 && h&0x3ff != 0; !nan && back[i] != h {
				t.Fatalf("%#04x became %v and %#04x", h, floats[i], back[i])
			} else if nan && floats[i] == floats[i] {
				t.Fatalf("%#04x is NaN, became %v", h, floats[i])
			}
		}
	})
	// known values, and rounding to nearest even between neighbours
	for x, want := range map[float32]uint16{
		1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 65519.996: 0x7bff, 65520: 0x7c00, 1e9: 0x7c00, 0x1p-24: 1, 0x1p-25: 0,
		0x1.8p-24: 2, 0x1p-14: 0x0400,
		1 + 0x1p-11: 0x3c00, 1 + 0x3p-11: 0x3c02, 1 + 0x1p-11 + 0x1p-20: 0x3c01,
	} {
		var got [1]uint16
		ToHalf(got[:], []float32{x})
		if got[0] != want {
			t.Errorf("%v became %#04x, want %#04x", x, got[0], want)
		}
	}
}

func TestVariants(t *testing.T) {
	if _, err := Use("mmx"); err == nil || !strings.Contains(err.Error(), "go") {
		t.Errorf("an unknown variant gave %v", err)
	}
	here := variants()
	if choose("nonsense") != here[len(here)-1] || choose("go") != plain {
		t.Error("UNSEEN_KERNEL is not obeyed")
	}
	if !slices.Contains(Variants(), Variant()) {
		t.Errorf("%s is in use but not among %v", Variant(), Variants())
	}
}
