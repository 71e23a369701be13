package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t testing.TB, data []byte) any {
	t.Helper()
	v, n, err := Decode(data, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if n != len(data) {
		t.Fatalf("read %d bytes of %d", n, len(data))
	}
	return v
}

// bare turns containers into Go's, so that they compare.
func bare(v any) any {
	list := func(items []any) []any {
		out := make([]any, len(items))
		for k := range items {
			out[k] = bare(items[k])
		}
		return out
	}
	switch v := v.(type) {
	case *Tuple:
		return list(v.Items)
	case *List:
		return list(v.Items)
	case *Set:
		return list(v.Items)
	case *Dict:
		return append(list(v.Keys), list(v.Values)...)
	case *big.Int:
		return v.String()
	case []byte:
		return string(v)
	}
	return v
}

func TestPlainValuesOfEveryProtocol(t *testing.T) {
	two200 := new(big.Int).Lsh(big.NewInt(1), 200).String()
	want := map[string]any{
		"none": nil, "yes": true, "no": false,
		"ints": []any{int64(0), int64(1), int64(-1), int64(255), int64(256), int64(65536), int64(-1 << 31),
			int64(1 << 31), int64(math.MinInt64), int64(math.MaxInt64)},
		"big":    []any{"9223372036854775808", "-9223372036854775809", two200},
		"floats": []any{0.0, -1.5, 1e300, math.Inf(1)},
		"text":   "żółw\n'\"\\ 🐢", "bytes": "\x00\xff\x80", "array": "\x01\xfe",
		"tuples": []any{[]any{}, []any{int64(1)}, []any{int64(1), int64(2)}, []any{int64(1), int64(2), int64(3)},
			[]any{int64(1), int64(2), int64(3), int64(4)}},
		"set": []any{int64(7)}, "frozen": []any{int64(8)},
		"ordered": []any{"b", "a", int64(1), int64(2)}, "default": []any{"k", []any{int64(3)}},
		"shared": []any{[]any{int64(1), int64(2)}, []any{int64(1), int64(2)}},
		"class":  Global{"collections", "Counter"},
	}
	for protocol := range 6 {
		t.Run(fmt.Sprint(protocol), func(t *testing.T) {
			d := decode(t, golden(t, fmt.Sprintf("plain%d.pkl", protocol))).(*Dict)
			if len(d.Keys) != len(want)+1 {
				t.Errorf("%d keys, want %d", len(d.Keys), len(want)+1)
			}
			for key, w := range want {
				v, found := d.Get(key)
				if got := bare(v); !found || !reflect.DeepEqual(got, w) {
					t.Errorf("%s is %#v, want %#v", key, got, w)
				}
			}
			shared, _ := d.Get("shared")
			if two := shared.(*List).Items; two[0] != two[1] {
				t.Error("a list that is there twice became two")
			}
			record, _ := d.Get("record")
			o, is := record.(*Object)
			if !is || o.Global != (Global{"__main__", "PaperMetadata"}) {
				t.Fatalf("the instance is %s", Describe(record))
			}
			if id, _ := o.Attribute("paper_id"); id != int64(5) {
				t.Errorf("its paper_id is %v", id)
			}
			if fos, _ := o.Attribute("fos"); !reflect.DeepEqual(bare(fos), []any{"engineering"}) {
				t.Errorf("its fos is %v", fos)
			}
		})
	}
}

func TestArraysOfEveryProtocol(t *testing.T) {
	for protocol := range 6 {
		t.Run(fmt.Sprint(protocol), func(t *testing.T) {
			d := decode(t, golden(t, fmt.Sprintf("numpy%d.pkl", protocol))).(*Dict)
			get := func(key string) any {
				v, found := d.Get(key)
				if !found {
					t.Fatalf("no %s", key)
				}
				return v
			}
			for _, code := range []string{"<f2", "<f4", "<f8", ">f2", ">f4", ">f8", "<i2", ">i4", "<i8", "i1", "u1",
				"<u2", ">u4", "<u8", "?", "fortran", "tensor"} {
				a, is := get(code).(*Array)
				if !is {
					t.Fatalf("%s is %s", code, Describe(get(code)))
				}
				want := []float64{0, 1, 2, 3, 4, 5}
				if code == "?" {
					want = []float64{0, 1, 1, 1, 1, 1}
				}
				got, err := a.Float64s()
				if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(a.Shape, []int{2, 3}) {
					t.Errorf("%s: %v %v, %v", code, a.Shape, got, err)
				}
				f32, err := a.Float32s()
				ints, err2 := a.Int64s()
				for k := range want {
					if err != nil || err2 != nil || float64(f32[k]) != want[k] || float64(ints[k]) != want[k] {
						t.Errorf("%s: element %d is %v and %v, %v %v", code, k, f32[k], ints[k], err, err2)
					}
				}
			}
			cube, err := get("cube").(*Array).Int64s()
			for k, v := range cube {
				if int(v) != k {
					t.Errorf("the cube's element %d is %d", k, v)
				}
			}
			if err != nil || len(cube) != 24 {
				t.Error(len(cube), err)
			}
			if get("zero") != 2.5 || get("count") != int64(-7) || get("flag") != true {
				t.Error("scalars:", get("zero"), get("count"), get("flag"))
			}
			if one, err := get("shapeless").(*Array).Float64s(); err != nil || len(one) != 1 || one[0] != 3 {
				t.Error("an array without axes:", one, err)
			}
			if none, err := get("empty").(*Array).Float64s(); err != nil || len(none) != 0 {
				t.Error("an empty array:", none, err)
			}
			if o := get("objects").(*Array).Objects; !reflect.DeepEqual(o, []any{int64(1), "a", nil}) {
				t.Error("objects:", o)
			}
			for _, odd := range []string{"names", "fields", "objects"} {
				if _, err := get(odd).(*Array).Float32s(); !errors.Is(err, ErrFormat) ||
					!strings.Contains(err.Error(), "dtype") {
					t.Errorf("numbers of %s: %v", odd, err)
				}
			}
		})
	}
}

// Nothing may run: what would delete a file in Python becomes a value that says so.
func TestCallsAreNotMade(t *testing.T) {
	v := decode(t, []byte("cos\nsystem\n(S'touch ran'\ntR."))
	o, is := v.(*Object)
	if !is || o.String() != "os.system" || !reflect.DeepEqual(o.Args.Items, []any{"touch ran"}) {
		t.Errorf("got %s", Describe(v))
	}
	if _, err := os.Stat("ran"); err == nil {
		t.Error("it ran")
	}
	v = decode(t, []byte("cpandas.core.frame\nDataFrame\n)\x81}b."))
	if Describe(v) != "a pandas.core.frame.DataFrame" {
		t.Error(Describe(v))
	}
}

func TestFaultsSayWhere(t *testing.T) {
	for _, c := range []struct {
		name, pickle string
		offset       int64
		says         string
	}{
		{"empty", "", 0, "cut off"},
		{"no stop", "\x80\x04N", 3, "cut off"},
		{"text", "hello", 0, "never remembered"},
		{"gzip", "\x1f\x8b\x08", 0, "compressed"},
		{"protocol 9", "\x80\x09N.", 0, "protocol=5"},
		{"long announced", "\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc", 2,
			"9223372036854775807 bytes and 3 are left"},
		{"negative length", "\x80\x04B\xff\xff\xff\xffabc", 2, "4294967295 bytes"},
		{"frame", "\x80\x04\x95\x00\x01\x00\x00\x00\x00\x00\x00N.", 2, "frame of 256 bytes and 2"},
		{"empty stack", "0.", 0, "none"},
		{"pop over a mark", "N(a.", 2, "none"},
		{"no mark", "Nt.", 1, "back to a mark"},
		{"memo", "\x80\x04h\x07.", 2, "number 7"},
		{"memo far", "Nr\xff\xff\xff\xff.", 1, "limit"},
		{"persistent", "Nq\x00Q.", 3, "torch.save"},
		{"extension", "\x80\x02\x82\x01.", 2, "extension"},
		{"buffer", "\x80\x05\x97.", 2, "buffer_callback"},
		{"odd dict", "(I1\nd.", 4, "odd"},
		{"append to int", "K\x01Na.", 3, "appends to 1"},
		{"call a text", "S'x'\n)R.", 6, "calls \"x\""},
		{"digits", "L" + strings.Repeat("9", 5000) + "L\n.", 0, "5000 digits"},
		{"short array", "cnumpy.core.multiarray\n_reconstruct\n)R(I1\n(I1000000\nI1000000\ntcnumpy\ndtype\n(S'f4'\nI00\nI01\ntRI00\nS'abcd'\ntb.", 0, "needs 4000000000000 bytes and has 4"},
		{"huge shape", "cnumpy.core.multiarray\n_reconstruct\n)R(I1\n(I1000000000\nI1000000000\nI1000000000\ntcnumpy\ndtype\n(S'f4'\nI00\nI01\ntRI00\nS'abcd'\ntb.", 0, "shape"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, _, err := Decode([]byte(c.pickle), Limits{})
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrFormat) {
				t.Fatalf("got %v, %v", v, err)
			}
			if !strings.Contains(err.Error(), c.says) || c.offset > 0 && e.Offset != c.offset {
				t.Errorf("at %d: %v; want at %d: %q", e.Offset, err, c.offset, c.says)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	deep := bytes.Repeat([]byte("]"), 100)
	deep = append(append(deep, bytes.Repeat([]byte("a"), 99)...), '.')
	if _, _, err := Decode(deep, Limits{Depth: 100}); err != nil {
		t.Errorf("a hundred lists in one another: %v", err)
	}
	if _, _, err := Decode(deep, Limits{Depth: 99}); err == nil {
		t.Error("a hundred lists passed a depth of 99")
	}
	if _, _, err := Decode([]byte("NNNN."), Limits{Stack: 3}); err == nil {
		t.Error("four values passed a stack of 3")
	}
	if _, _, err := Decode([]byte("N\x94\x94\x94\x94."), Limits{Memo: 3}); err == nil {
		t.Error("four values passed a memo of 3")
	}
	if _, _, err := Decode([]byte("N"+strings.Repeat("(", 2000)), Limits{}); err == nil ||
		!strings.Contains(err.Error(), "marks") {
		t.Errorf("two thousand marks: %v", err)
	}
	// A set made again and again of one long list, with three bytes each.
	bomb := []byte("c__builtin__\nset\nq\x000(" + strings.Repeat("N", 1000) + "l\x85q\x010" +
		strings.Repeat("h\x00h\x01R0", 1000) + "N.")
	if _, _, err := Decode(bomb, Limits{}); err == nil || !strings.Contains(err.Error(), "more than the file") {
		t.Errorf("a bomb of sets: %v", err)
	}
}

func TestMemoryIsBoundedByTheInput(t *testing.T) {
	data := append(bytes.Repeat([]byte("]"), 1<<20), '.')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := Decode(data, Limits{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	// A list takes 32 bytes, its place on the stack 16, and a growing stack is copied.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 150<<20 {
		t.Errorf("a pickle of 1 MiB took %d MiB", grown>>20)
	}
}

func TestValueThatContainsItselfIsDescribed(t *testing.T) {
	v := decode(t, []byte("]\x94h\x00a."))
	if got := Describe(v); !strings.HasPrefix(got, "a list of 1: a list of 1") || len(got) > 200 {
		t.Error(got)
	}
}

func TestCutAnywhere(t *testing.T) {
	for _, name := range []string{"plain4.pkl", "numpy5.pkl", "numpy0.pkl"} {
		data := golden(t, name)
		for n := 0; n < len(data); n += 1 + n/200 {
			if _, _, err := Decode(data[:n], Limits{}); err == nil {
				t.Fatalf("%s cut to %d bytes was read", name, n)
			}
		}
	}
}

// What Python writes of random values is what is read, if there is a Python.
func TestAgainstPython(t *testing.T) {
	python := ""
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(p, "-c", "import numpy").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		t.Skip("not checked against Python: there is no python3 with NumPy; ./check makes one")
	}
	seed := rand.Uint64N(1 << 31)
	script := fmt.Sprintf(`
import numpy as np, pickle, sys
r = np.random.default_rng(%d)
values = [(p, {int(i): r.standard_normal(5).astype("<f4") for i in r.integers(0, 1 << 40, 50)}) for p in range(6)]
for p, v in values:
    b = pickle.dumps(v, p); want = np.array([[k, x.astype("f8").sum()] for k, x in v.items()])
    w = want.tobytes()
    sys.stdout.buffer.write(np.array([len(b), len(w)], "<u8").tobytes() + b + w)
`, seed)
	out, err := exec.Command(python, "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	for protocol := range 6 {
		n, w := binary.LittleEndian.Uint64(out), binary.LittleEndian.Uint64(out[8:])
		d := decode(t, out[16:16+n]).(*Dict)
		want := out[16+n : 16+n+w]
		out = out[16+n+w:]
		if len(d.Keys)*16 != len(want) {
			t.Fatalf("seed %d, protocol %d: %d keys", seed, protocol, len(d.Keys))
		}
		for k, key := range d.Keys {
			numbers, err := d.Values[k].(*Array).Float64s()
			sum := 0.0
			for _, x := range numbers {
				sum += x
			}
			id, total := math.Float64frombits(binary.LittleEndian.Uint64(want[16*k:])),
				math.Float64frombits(binary.LittleEndian.Uint64(want[16*k+8:]))
			if err != nil || float64(key.(int64)) != id || math.Abs(sum-total) > 1e-12 {
				t.Fatalf("seed %d, protocol %d: %v has %v, want %v with %v (%v)", seed, protocol, key, sum, id, total,
					err)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for protocol := range 6 {
		f.Add(golden(f, fmt.Sprintf("plain%d.pkl", protocol)))
		f.Add(golden(f, fmt.Sprintf("numpy%d.pkl", protocol)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, n, err := Decode(data, Limits{Stack: 1 << 16, Memo: 1 << 16, Depth: 100})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(data)) || !errors.Is(err, ErrFormat) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if n < 1 || n > len(data) {
			t.Fatalf("read %d of %d bytes", n, len(data))
		}
		Describe(v)
		walk(v, 6, func(v any) {
			if a, is := v.(*Array); is && a.Len() <= len(data) {
				a.Float32s()
				a.Int64s()
				a.Float64s()
			}
		})
		// What comes after does not matter, as long as it is there: a frame may announce it.
		blank := make([]byte, len(data))
		copy(blank, data[:n])
		again, m, err := Decode(blank, Limits{Stack: 1 << 16, Memo: 1 << 16, Depth: 100})
		if err != nil || m != n || Describe(again) != Describe(v) {
			t.Fatalf("the same bytes were read as %s, then as %s, %v", Describe(v), Describe(again), err)
		}
	})
}

func walk(v any, deep int, see func(any)) {
	see(v)
	if deep == 0 {
		return
	}
	var items []any
	switch v := v.(type) {
	case *Tuple:
		items = v.Items
	case *List:
		items = v.Items
	case *Dict:
		items = append(items, v.Values...)
	}
	for _, item := range items[:min(len(items), 30)] {
		walk(item, deep-1, see)
	}
}

// BenchmarkVectors reads a dictionary from ids to vectors of 768, as authors release them.
func BenchmarkVectors(b *testing.B) {
	data := vectorsPickle(2000, 768)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		v, _, err := Decode(data, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		row := make([]float32, 768)
		for _, a := range v.(*Dict).Values {
			if err := a.(*Array).FillFloat32s(row); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkIDs reads a list of whole numbers.
func BenchmarkIDs(b *testing.B) {
	data := []byte("\x80\x04](")
	for k := range 1_000_000 {
		data = binary.LittleEndian.AppendUint64(append(data, 0x8a, 8), uint64(k)*2654435761)
	}
	data = append(data, "e."...)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Decode(data, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// vectorsPickle writes what pickle.dump of protocol 4 writes, less the memo of each array's parts.
func vectorsPickle(nodes, dim int) []byte {
	data := []byte("\x80\x04}(")
	text := func(s string) { data = append(append(data, 0x8c, byte(len(s))), s...) }
	text("numpy.core.multiarray")
	text("_reconstruct")
	data = append(data, 0x93, 0x94, '0') // memo 0
	text("numpy")
	text("dtype")
	data = append(data, 0x93)
	text("f4")
	data = append(data, 0x89, 0x88, 0x87, 'R', '(', 'K', 3)
	text("<")
	data = append(data, "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x940"...) // memo 1
	for k := range nodes {
		data = binary.LittleEndian.AppendUint32(append(data, 'J'), uint32(k))
		data = append(data, "h\x00)R(K\x01M"...)
		data = binary.LittleEndian.AppendUint16(data, uint16(dim))
		data = append(data, "\x85h\x01\x89B"...)
		data = binary.LittleEndian.AppendUint32(data, uint32(4*dim))
		data = append(data, make([]byte, 4*dim)...)
		data = append(data, "tb"...)
	}
	return append(data, "u."...)
}
