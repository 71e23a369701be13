package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// everyKind holds every kind of number.
func everyKind() *Contents {
	return &Contents{Metadata: map[string]string{"method": "bayes", "note": "π̂ < ½ & \"more\""}, Tensors: []Array{
		{"double", []int{1, 2}, []float64{.25, -1}}, {"weights", []int{2}, []float32{1, -2.5}},
		{"rows", []int{3}, []int32{0, -7, math.MaxInt32}},
		{"half", []int{2}, []uint16{0x3c00, 0xc000}}, {"text", []int{5}, []uint8("terms")},
		{"none", []int{0, 4}, []float32{}},
	}}
}

// sound is a file without a fault.
func sound(t testing.TB) []byte {
	t.Helper()
	write, err := everyKind().Encode()
	must(t, err)
	var b bytes.Buffer
	must(t, write(&b))
	return b.Bytes()
}

func TestEveryKindComesBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.safetensors")
	f := everyKind()
	must(t, f.Save(path))
	back, err := Open(path)
	must(t, err)
	for _, want := range f.Tensors {
		if got, ok := back.Tensor(want.Name); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came back as %+v", want, got)
		}
	}
	if _, ok := back.Tensor("absent"); ok || back.Metadata["note"] != f.Metadata["note"] {
		t.Error(back.Metadata)
	}
	for name, c := range map[string]struct {
		file Contents
		kind error
	}{
		"shape":    {Contents{Tensors: []Array{{"a", []int{3}, []uint8{1}}}}, ErrShape},
		"negative": {Contents{Tensors: []Array{{"a", []int{-1, -1}, []uint8{1}}}}, ErrShape},
		"type":     {Contents{Tensors: []Array{{"a", []int{1}, []int64{1}}}}, ErrContent},
		"twice":    {Contents{Tensors: []Array{{"a", []int{0}, []uint8{}}, {"a", []int{0}, []uint8{}}}}, ErrContent},
		"text":     {Contents{Metadata: map[string]string{"k": "\xff"}}, ErrContent},
	} {
		if _, err := c.file.Encode(); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// headed puts a header in front of data, as the format wants it.
func headed(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// Every way in which a file can be damaged is an error that says where.
//
// Long because it is one table.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	whole := sound(t)
	digits := strings.Repeat("9", 30)
	cases := map[string]struct {
		content []byte
		names   []string
	}{
		"empty":            {nil, []string{"byte 0", "0 bytes"}},
		"short":            {whole[:5], []string{"byte 0"}},
		"header only":      {whole[:8], []string{"truncated"}},
		"half a header":    {whole[:100], []string{"truncated"}},
		"a number missing": {whole[:len(whole)-4], []string{"truncated"}},
		"a byte more":      {append(slices.Clone(whole), 0), []string{"longer"}},
		"a huge header": {append(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), whole[8:]...),
			[]string{"byte 0"}},
		"a large header": {append(binary.LittleEndian.AppendUint64(nil, MaxHeader), whole[8:]...),
			[]string{"byte 0"}},
		"not JSON":       {headed("hello"), []string{"begin with {"}},
		"a list":         {headed(" []"), []string{"begin with {"}},
		"cut JSON":       {headed(`{"a":`), []string{"JSON at byte"}},
		"unclosed JSON":  {headed(`{"a":{}`), nil},
		"two documents":  {headed(`{} {}`), []string{"more than one"}},
		"garbage behind": {headed(`{}x`), nil},
		"no digest":      {headed(`{}`), []string{`"sha256"`, "unseen did not write"}},
		"nameless":       {headed(`{"":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`), []string{`""`, "empty"}},
		"a twin": {headed(
			`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],` +
				`"data_offsets":[0,0]}}`), []string{
			`"a"`, "repeated"}},
		"a metadata twin":  {headed(`{"__metadata__":{"k":"1","k":"2"}}`), []string{`"k" is repeated`}},
		"metadata twice":   {headed(`{"__metadata__":{},"__metadata__":{}}`), []string{"repeated"}},
		"metadata number":  {headed(`{"__metadata__":{"k":1}}`), []string{`"k" is not a string`}},
		"metadata null":    {headed(`{"__metadata__":{"k":null}}`), []string{`"k" is not a string`}},
		"metadata list":    {headed(`{"__metadata__":[]}`), []string{"not a JSON object"}},
		"a tensor of text": {headed(`{"a":"x"}`), []string{`tensor "a"`}},
		"unknown member": {headed(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"more":1}}`),
			[]string{"more"}},
		"unknown type": {headed(`{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, 0, 0),
			[]string{`"BF16"`, "F32"}},
		"no shape":   {headed(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 0, 0, 0, 0), []string{"no shape"}},
		"no offsets": {headed(`{"a":{"dtype":"F32","shape":[1]}}`, 0, 0, 0, 0), []string{"data offsets"}},
		"one offset": {headed(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}}`, 0, 0, 0, 0),
			[]string{"data offsets"}},
		"three offsets": {headed(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}`, 0, 0, 0, 0),
			[]string{"data offsets"}},
		"offsets reversed": {headed(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 0, 0, 0, 0),
			[]string{"data offsets"}},
		"negative offsets": {headed(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 0, 0, 0, 0),
			[]string{"data offsets"}},
		"offsets beyond": {headed(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 0, 0, 0, 0),
			[]string{"truncated"}},
		"huge offsets": {headed(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,` + digits + `]}}`),
			[]string{`tensor "a"`}},
		"negative shape": {headed(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 0, 0, 0, 0),
			[]string{"shape"}},
		"huge shape": {headed(`{"a":{"dtype":"F32","shape":[2147483647,2147483647,2147483647],"data_offsets":[0,4]}}`,
			0, 0, 0, 0), []string{"shape"}},
		"overflowed shape": {headed(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`),
			[]string{"shape"}},
		"huge empty shape": {headed(`{"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`),
			[]string{"shape"}},
		"wrong shape": {headed(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}`, make([]byte, 8)...),
			[]string{"takes 4 bytes", "say 8"}},
		"a gap": {headed(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, make([]byte, 8)...),
			[]string{"begins at byte 4"}},
		"an overlap": {headed(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],`+
			`"data_offsets":[4,8]}}`, make([]byte, 8)...), []string{"begins at byte 4", "ends at 8"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "broken.safetensors")
			must(t, os.WriteFile(path, c.content, 0o666))
			_, err := Open(path)
			for _, says := range append(c.names, path, ";") {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("error %v does not say %q", err, says)
				}
			}
			if strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Whatever byte is changed, the change is seen.
func TestEveryChangedByteIsSeen(t *testing.T) {
	t.Parallel()
	whole := sound(t)
	for at := range whole {
		changed := slices.Clone(whole)
		changed[at] ^= 1
		f, digest, err := Decode(bytes.NewReader(changed), int64(len(changed)))
		if err == nil {
			err = f.CheckDigest(digest)
		}
		if err == nil {
			t.Errorf("byte %d (%q) was changed unseen", at, whole[at])
		}
	}
	for length := range whole {
		if _, _, err := Decode(bytes.NewReader(whole[:length]), int64(length)); err == nil {
			t.Errorf("the first %d bytes pass for a file", length)
		}
	}
}

// A file that shrinks while it is read is an error as well.
func TestShortRead(t *testing.T) {
	t.Parallel()
	whole := sound(t)
	for _, length := range []int{3, 50, len(whole) - 1} {
		if _, _, err := Decode(bytes.NewReader(whole[:length]), int64(len(whole))); err == nil {
			t.Errorf("%d bytes of %d pass for all", length, len(whole))
		}
	}
}

func TestALargeClaimAllocatesLittle(t *testing.T) {
	for _, claim := range [][]byte{
		headed(`{"a":{"dtype":"F64","shape":[1000000000],"data_offsets":[0,8000000000]}}`),
		append(binary.LittleEndian.AppendUint64(nil, MaxHeader), "{}"...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := Decode(bytes.NewReader(claim), int64(len(claim))); err == nil {
			t.Fatal("it passed")
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%d bytes for a file of %d", took, len(claim))
		}
	}
}
