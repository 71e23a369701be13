package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
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

	"unseen/internal/safetensors"
)

var update = flag.Bool("update", false, "write the golden files again")

// bytesOf returns what a file would hold.
func bytesOf(t testing.TB, f *File) []byte {
	t.Helper()
	write, err := f.plain().Encode()
	must(t, err)
	var buffer bytes.Buffer
	must(t, write(&buffer))
	return buffer.Bytes()
}

// reopen saves a model and opens it again.
func reopen(t testing.TB, m Model) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	must(t, Save(path, m))
	f, err := Open(path)
	must(t, err)
	return f
}

// halves are a link model of a kind and a propensity model of a kind with random parameters.
func halves(t testing.TB, n Nodes, link, propensity string) Model {
	t.Helper()
	rng := newRand(t, 11)
	m := Model{Method: "bayes", Seed: math.MaxUint64, DataChecksum: "sha256:abc"}
	m.Link = made(linkOf(link)(n))(t).(LinkModel)
	m.Propensity = made(propensityOf(propensity)(n))(t).(PropensityModel)
	m.LinkParams, m.PropensityParams = randomParams(rng, m.Link), randomParams(rng, m.Propensity)
	return m
}

func TestEveryKindComesBack(t *testing.T) {
	rng := newRand(t, 6)
	n := randomNodes(t, rng, 25, 37, 4, false)
	b := batches(rng, n.Len())["mixed"]
	same := func(t *testing.T, was, is PairModel, wasParams, isParams []float32) {
		t.Helper()
		if was.Kind() != is.Kind() || !reflect.DeepEqual(was.(savedModel).options(), is.(savedModel).options()) {
			t.Errorf("%s %+v came back as %s %+v", was.Kind(), was.(savedModel).options(), is.Kind(),
				is.(savedModel).options())
		}
		if !slices.Equal(wasParams, isParams) {
			t.Error("other parameters came back")
		}
		before, after := make([]float32, b.Len()), make([]float32, b.Len())
		was.Logits(before, wasParams, b)
		is.Logits(after, isParams, b)
		if !slices.Equal(before, after) {
			t.Error("other logits came back")
		}
	}
	for _, link := range LinkKinds() {
		for _, suffix := range []string{"", "+bonus"} {
			t.Run("link "+link+suffix, func(t *testing.T) {
				m := halves(t, n, link+suffix, "constant")
				back, params, err := reopen(t, m).Link(n)
				must(t, err)
				same(t, m.Link, back, m.LinkParams, params)
			})
		}
	}
	for _, propensity := range PropensityKinds() {
		for _, suffix := range []string{"", "+popularity", "+age+popularity", "+text+popularity"} {
			t.Run("propensity "+propensity+suffix, func(t *testing.T) {
				m := halves(t, n, "diagonal", propensity+suffix)
				back, params, err := reopen(t, m).Propensity(n)
				must(t, err)
				same(t, m.Propensity, back, m.PropensityParams, params)
			})
		}
	}
}

func TestEverythingElseComesBack(t *testing.T) {
	n := randomNodes(t, newRand(t, 6), 5, 3, 4, true)
	m := halves(t, n, "diagonal-field", "field-matrix")
	m.Hyperparameters = json.RawMessage(`{"alpha":0.5,"name":"<ŷ & π̂>"}`)
	m.Findings = json.RawMessage(`["weak"]`)
	m.Certificate = json.RawMessage(`{"risk":0.15}`)
	m.Extra = []Tensor{
		{"posterior.V", []int{2, 2}, []float64{1, .5, .5, math.Pi}},
		{"scalar", []int{}, []float32{2}},
		{"nothing", []int{3, 0}, []int32{}},
	}
	f := reopen(t, m)
	back, err := f.Model(n)
	must(t, err)
	back.Link, m.Link = nil, nil
	back.Propensity, m.Propensity = nil, nil
	slices.SortFunc(m.Extra, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(back.Extra, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	if fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", m) {
		t.Errorf("got  %+v\nwant %+v", back, m)
	}
	for name, shape := range map[string][]int{"link.w": {3}, "link.b": {1}, "link.f": {4, 4},
		"propensity.logits": {4, 4}} {
		if tensor, ok := f.Tensor(name); !ok || !slices.Equal(tensor.Shape, shape) {
			t.Errorf("%s has shape %v, want %v", name, tensor.Shape, shape)
		}
	}
	if f.Metadata[KeyFields] != `["field 0","field 1","field 2","field 3"]` || f.Metadata[KeyDim] != "3" {
		t.Errorf("metadata %v", f.Metadata)
	}
	// documents that were never given are absent, not empty
	if back, err := reopen(t, halves(t, n, "diagonal", "constant")).Model(n); err != nil || back.Findings != nil ||
		back.Extra != nil {
		t.Errorf("got %+v, %v", back, err)
	}
}

func TestBytesAreDeterministic(t *testing.T) {
	n := randomNodes(t, newRand(t, 6), 5, 3, 4, false)
	m := halves(t, n, "mlp", "known+age")
	m.Extra = []Tensor{{"b", []int{1}, []float64{1}}, {"a", []int{1}, []float64{2}}}
	first := bytesOf(t, made(m.File())(t))
	slices.Reverse(m.Extra)
	if !bytes.Equal(first, bytesOf(t, made(m.File())(t))) {
		t.Error("the same model gives other bytes")
	}
	if begin := binary.LittleEndian.Uint64(first); begin%8 != 0 {
		t.Errorf("the data begin at byte %d", 8+begin)
	}
}

// goldenModel is small and holds something of everything.
func goldenModel(t testing.TB) (Model, Nodes) {
	n := randomNodes(t, newRand(t, 6), 4, 2, 3, false)
	n.Fields = []uint16{0, 1, 2, 1}
	n.FieldNames = []string{"unknown", "physics", "biology"}
	m := Model{
		Link: made(NewLink("diagonal-field+bonus", n, LinkOptions{Bonus: .25}))(t),
		LinkParams: []float32{
			1, -2, // w
			.5,                               // b
			0, 1, 2, .1, 1.1, 2.1, 4, 5, 1e9, // f
		},
		Propensity: made(NewPropensity("known+age", n,
			PropensityOptions{Rest: .125, Exposures: []KnownExposure{{2, 1, 1}, {0, 1, .5}}}))(t),
		PropensityParams: []float32{-.75},
		Method:           "bayes",
		Hyperparameters:  json.RawMessage(`{"alpha":1,"rounds":8}`),
		Seed:             7,
		DataChecksum:     "sha256:0011",
		Findings:         json.RawMessage(`{"identified":true}`),
		Certificate:      json.RawMessage(`{"low":0.1,"high":0.2}`),
		Extra:            []Tensor{{"posterior.V", []int{1, 2}, []float64{.25, -1}}},
	}
	return m, n
}

func TestGoldenFile(t *testing.T) {
	const path = "testdata/golden.safetensors"
	m, n := goldenModel(t)
	got := bytesOf(t, made(m.File())(t))
	if *update {
		must(t, os.MkdirAll("testdata", 0o777))
		must(t, os.WriteFile(path, got, 0o666))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("the format has changed; if that is meant, raise formatVersion and run with -update\n"+
			"got  %q\nwant %q", got, want)
	}
	back, err := made(Open(path))(t).Model(n)
	must(t, err)
	if !slices.Equal(back.LinkParams, m.LinkParams) || back.Seed != 7 ||
		string(back.Certificate) != string(m.Certificate) {
		t.Errorf("got %+v", back)
	}
}

// headed puts a header in front of data, as the format wants it.
func headed(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

// A sound file whose content makes no sense.
func TestFaultyContent(t *testing.T) {
	m, n := goldenModel(t)
	for name, c := range map[string]struct {
		spoil func(f *File)
		kind  error
		names []string
	}{
		"other format": {func(f *File) { f.Metadata[KeyFormat] = "pt" }, ErrFile, []string{`"pt"`}},
		"newer version": {func(f *File) { f.Metadata[KeyVersion] = "2" }, ErrFile,
			[]string{`version "2"`, "wrote it"}},
		"no dimension":    {func(f *File) { delete(f.Metadata, KeyDim) }, ErrFile, []string{`"dim"`}},
		"no field count":  {func(f *File) { f.Metadata[KeyFieldCount] = "x" }, ErrFile, []string{`"field_count"`}},
		"fields not JSON": {func(f *File) { f.Metadata[KeyFields] = "x" }, ErrFile, []string{`"fields"`}},
		"fields missing": {func(f *File) { f.Metadata[KeyFields] = `["unknown"]` }, ErrFile,
			[]string{`"fields"`, "1 names for 3"}},
		"unknown link":       {func(f *File) { f.Metadata[KeyLink] = "x" }, ErrKind, []string{`"x"`, "low-rank"}},
		"unknown propensity": {func(f *File) { f.Metadata[KeyPropensity] = "x" }, ErrKind, []string{`"x"`, "known"}},
		"no link options":    {func(f *File) { f.Metadata[KeyLinkOptions] = "" }, ErrFile, []string{`"link_options"`}},
		"unknown option": {func(f *File) { f.Metadata[KeyLinkOptions] = `{"depth":3}` }, ErrFile,
			[]string{"depth"}},
		"bad options": {func(f *File) { f.Metadata[KeyPropensityOptions] = `{"rest":7}` }, ErrOption,
			[]string{"7"}},
		"bad option": {func(f *File) { f.Metadata[KeyPropensityOptions] = `{"rest":"x"}` }, ErrFile,
			[]string{`"propensity_options"`}},
		"bad seed":        {func(f *File) { f.Metadata[KeySeed] = "-1" }, ErrFile, []string{`"seed"`}},
		"bad certificate": {func(f *File) { f.Metadata[KeyCertificate] = "{" }, ErrFile, []string{`"certificate"`}},
		"no weights":      {func(f *File) { f.remove("link.w") }, ErrFile, []string{`"link.w"`}},
		"weights reshaped": {func(f *File) { f.replace("link.w", []int{1, 2}, []float32{1, 2}) }, ErrFile,
			[]string{`"link.w"`, "[1 2]", "[2]"}},
		"double weights": {func(f *File) { f.replace("link.w", []int{2}, []float64{1, 2}) }, ErrFile,
			[]string{`"link.w"`, "[]float64"}},
		"infinite weights": {func(f *File) { f.replace("link.w", []int{2}, []float32{1, float32(math.Inf(1))}) },
			ErrFile, []string{"element 1 of link.w", "+Inf"}},
		"no known sources": {func(f *File) { f.remove("propensity.known.source") }, ErrFile, []string{"known.source"}},
		"no known targets": {func(f *File) { f.remove("propensity.known.target") }, ErrFile, []string{"known.target"}},
		"few known": {func(f *File) { f.replace("propensity.known.propensity", []int{1}, []float64{1}) },
			ErrFile, []string{"known.propensity", "[1]", "[2]"}},
		"known elsewhere": {func(f *File) { f.replace("propensity.known.target", []int{2}, []int32{0, 99}) }, ErrShape,
			[]string{"99"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.safetensors")
			f := made(m.File())(t)
			c.spoil(f)
			must(t, f.Save(path))
			_, err := made(Open(path))(t).Model(n)
			wantError(t, err, c.kind, append(c.names, path)...)
		})
	}
}

func (f *File) remove(name string) {
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
}

func (f *File) replace(name string, shape []int, data any) {
	f.remove(name)
	f.Tensors = append(f.Tensors, Tensor{name, shape, data})
}

func TestOtherNodes(t *testing.T) {
	rng := newRand(t, 3)
	n := randomNodes(t, rng, 10, 4, 3, false)
	f := reopen(t, halves(t, n, "diagonal", "field-matrix"))

	larger := randomNodes(t, rng, 50, 4, 3, true)
	_, _, err := f.Link(larger)
	must(t, err) // more nodes of the same kind are welcome

	wider := randomNodes(t, rng, 10, 5, 3, false)
	_, _, err = f.Link(wider)
	wantError(t, err, ErrNodes, "dimension 4", "have 5", "model.safetensors", ";")

	newField := randomNodes(t, rng, 10, 4, 4, false)
	_, _, err = f.Propensity(newField)
	wantError(t, err, ErrNodes, "3 fields", "have 4", `"field 3" is new`)

	fewer := n
	fewer.FieldCount, fewer.FieldNames = 2, n.FieldNames[:2]
	_, _, err = f.Propensity(fewer)
	wantError(t, err, ErrNodes, "3 fields", "have 2", `"field 2" is gone`)

	renamed := n
	renamed.FieldNames = []string{"field 0", "art", "field 2"}
	_, err = f.Model(renamed)
	wantError(t, err, ErrNodes, "field 1", `"field 1"`, `"art"`)

	nameless := n
	nameless.FieldNames, nameless.Vectors = nil, nil
	_, _, err = f.Propensity(nameless)
	must(t, err) // a field matrix looks at neither names nor vectors
	nameless.FieldCount = 5
	_, _, err = f.Propensity(nameless)
	wantError(t, err, ErrNodes, "3 fields", "have 5;")
}

func TestUnsavable(t *testing.T) {
	n := randomNodes(t, newRand(t, 3), 10, 4, 3, false)
	other := randomNodes(t, newRand(t, 3), 10, 4, 5, false)
	for name, c := range map[string]struct {
		spoil func(m *Model)
		kind  error
		names []string
	}{
		"no link":       {func(m *Model) { m.Link = nil }, ErrKind, []string{"NewLink"}},
		"no propensity": {func(m *Model) { m.Propensity = nil }, ErrKind, []string{"NewPropensity", `"constant"`}},
		"foreign":       {func(m *Model) { m.Link = struct{ LinkModel }{m.Link} }, ErrKind, nil},
		"too few": {func(m *Model) { m.LinkParams = m.LinkParams[1:] }, ErrShape,
			[]string{"4 parameters", "has 5"}},
		"too many": {func(m *Model) { m.PropensityParams = append(m.PropensityParams, 1) }, ErrShape,
			[]string{"10 parameters", "has 9"}},
		"not a number": {func(m *Model) { m.LinkParams[4] = float32(math.NaN()) }, ErrNotFinite,
			[]string{"element 0 of link.b", "NaN", "diverged"}},
		"other fields": {func(m *Model) { m.Propensity = made(NewFieldMatrix(other))(t) }, ErrShape,
			[]string{"3 fields", "5"}},
		"bad document": {func(m *Model) { m.Findings = json.RawMessage("{") }, ErrOption, []string{"findings"}},
		"taken name": {func(m *Model) { m.Extra = []Tensor{{"link.more", []int{1}, []float32{1}}} }, ErrOption,
			[]string{"link.more"}},
		"name twice": {func(m *Model) {
			m.Extra = []Tensor{{"a", []int{1}, []float32{1}},
				{"a", []int{1}, []float32{1}}}
		}, ErrOption, []string{`"a"`}},
		"reserved name": {func(m *Model) { m.Extra = []Tensor{{"__metadata__", []int{1}, []float32{1}}} },
			ErrOption, nil},
		"unnamed":         {func(m *Model) { m.Extra = []Tensor{{"", []int{1}, []float32{1}}} }, ErrOption, nil},
		"name is no text": {func(m *Model) { m.Extra = []Tensor{{"\xff", []int{1}, []float32{1}}} }, ErrOption, nil},
		"text is no text": {func(m *Model) { m.Method = "\xff" }, ErrOption, []string{"method", "UTF-8"}},
		"wrong shape": {func(m *Model) { m.Extra = []Tensor{{"a", []int{2}, []float32{1}}} }, ErrShape,
			[]string{`"a"`, "[2]"}},
		"negative shape": {func(m *Model) { m.Extra = []Tensor{{"a", []int{-1, -1}, []float32{1}}} }, ErrShape, nil},
		"unknown numbers": {func(m *Model) { m.Extra = []Tensor{{"a", []int{1}, []int{1}}} }, ErrOption,
			[]string{"[]int;"}},
		"no numbers": {func(m *Model) { m.Extra = []Tensor{{"a", []int{1}, nil}} }, ErrOption, nil},
		"too much to head": {func(m *Model) { m.Method = strings.Repeat("x", safetensors.MaxHeader) }, ErrOption,
			[]string{"header"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			m := halves(t, n, "diagonal", "field-matrix")
			c.spoil(&m)
			wantError(t, Save(filepath.Join(folder, "m"), m), c.kind, c.names...)
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("it left %v (%v)", left, err)
			}
		})
	}
}

func TestSaveReplaces(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.safetensors")
	// what a killed process left behind
	must(t, os.WriteFile(filepath.Join(folder, ".m.safetensors.1-0.tmp"), []byte("stale"), 0o666))
	for k := range 2 {
		must(t, (&File{Metadata: map[string]string{"k": fmt.Sprint(k)}}).Save(path))
	}
	if f := made(Open(path))(t); f.Metadata["k"] != "1" {
		t.Errorf("metadata %v", f.Metadata)
	}
	if left, err := os.ReadDir(folder); runtime.GOOS != "windows" && (err != nil || len(left) != 1) {
		t.Errorf("the folder holds %v (%v)", left, err)
	}
	missing := filepath.Join(folder, "no", "such", "folder")
	if err := (&File{}).Save(missing); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "cannot write "+missing) {
		t.Errorf("got error %v", err)
	}
}

// Open's errors are of this package's kind, name the file and say what to do.
func TestOpenNamesTheFile(t *testing.T) {
	m, _ := goldenModel(t)
	whole := bytesOf(t, made(m.File())(t))
	path := filepath.Join(t.TempDir(), "broken.safetensors")
	must(t, os.WriteFile(path, whole[:len(whole)-4], 0o666))
	_, err := Open(path)
	wantError(t, err, ErrFile, path, "truncated", ";")
	_, err = Open(filepath.Join(t.TempDir(), "none"))
	wantError(t, err, ErrFile, "none")
	wantError(t, err, fs.ErrNotExist)
}

func FuzzOpen(f *testing.F) {
	m, n := goldenModel(f)
	whole := bytesOf(f, made(m.File())(f))
	length := binary.LittleEndian.Uint64(whole)
	f.Add(whole[8:8+length], whole[8+length:])
	f.Add([]byte(`{}`), []byte{})
	f.Add([]byte(`{"__metadata__":{"format":"unseen-model"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`),
		make([]byte, 8))
	f.Add([]byte(`{"a":{"dtype":"I32","shape":[1,0],"data_offsets":[0,0]},`+
		`"b":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`), make([]byte, 8))
	f.Add([]byte(`{"a":{"dtype":"F64","shape":[9223372036854775807,2],"data_offsets":[0,16]}}`), make([]byte, 16))
	f.Fuzz(func(t *testing.T, header, data []byte) {
		content := headed(string(header), data...)
		read, _, err := safetensors.Decode(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		file := fileOf(read, "")
		// what can be read can be written, and says the same then
		again := bytesOf(t, file)
		back, err := safetensors.Read(bytes.NewReader(again), int64(len(again)))
		must(t, err)
		if len(back.Tensors) != len(file.Tensors) {
			t.Errorf("%d tensors came back of %d", len(back.Tensors), len(file.Tensors))
		}
		// and whatever it says, making models of it does not panic
		if m, err := file.Model(n); err == nil {
			if _, err := m.File(); err != nil {
				t.Errorf("a model that was read cannot be written: %v", err)
			}
		}
	})
}
