package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"unseen/internal/kern"
	"unseen/internal/safetensors"
)

// Python's own safetensors reads our file, finds what the documentation says, and what it writes
// we read.
func TestPythonReadsAndWrites(t *testing.T) {
	python, err := exec.LookPath(cmp.Or(os.Getenv("UNSEEN_PYTHON"), "python3"))
	if err != nil {
		t.Skip("not checked against Python's safetensors: there is no python3")
	}
	if err := exec.Command(python, "-c", "import numpy, safetensors.numpy").Run(); err != nil {
		t.Skipf("not checked against Python's safetensors: %s has no numpy or no safetensors (pip install numpy "+
			"safetensors)", python)
	}
	rng := newRand(t, 5)
	n := randomNodes(t, rng, 4, 3, 3, false)
	n.FieldNames = []string{"unknown", "physics & <ŷ>", "ηβ\"\\\n"}
	m := halves(t, n, "diagonal", "field-matrix")
	m.Findings = json.RawMessage(`{"scale":"weak, π̂ < ½"}`)
	var vectors []float32
	var fields []int32
	for i := range n.Len() {
		vectors = append(vectors, kern.MatrixOf(n.Vectors).Row(i)...)
		fields = append(fields, int32(n.Fields[i]))
	}
	m.Extra = []Tensor{
		{"test.vectors", []int{4, 3}, vectors}, {"test.fields", []int{4}, fields},
		{"posterior.V", []int{2, 2}, []float64{math.Pi, 0, 0, -1e-300}}, {"ascalar", []int{}, []float32{.5}},
	}
	ours, theirs := filepath.Join(t.TempDir(), "ours.safetensors"), filepath.Join(t.TempDir(), "theirs.safetensors")
	must(t, Save(ours, m))
	f := made(Open(ours))(t)

	command := exec.Command(python, "testdata/read.py", ours, theirs)
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	var read struct {
		Metadata map[string]string
		Digest   string
		Tensors  map[string][3]any
		Z, S     float64
	}
	must(t, json.Unmarshal(output, &read))
	if fmt.Sprint(read.Metadata) != fmt.Sprint(f.Metadata) {
		t.Errorf("Python reads the metadata %v, want %v", read.Metadata, f.Metadata)
	}
	if read.Digest != f.Metadata[safetensors.DigestKey] {
		t.Errorf("Python finds the digest %s, want %s", read.Digest, f.Metadata[safetensors.DigestKey])
	}
	if len(read.Tensors) != len(f.Tensors) {
		t.Errorf("Python reads %d tensors, want %d", len(read.Tensors), len(f.Tensors))
	}
	for _, tensor := range f.Tensors {
		dtype := map[string]string{"[]float32": "float32", "[]float64": "float64",
			"[]int32": "int32"}[fmt.Sprintf("%T", tensor.Data)]
		if want, got := fmt.Sprint([3]any{dtype, tensor.Shape, asFloat64(tensor)}),
			fmt.Sprint(read.Tensors[tensor.Name]); got != want {
			t.Errorf("Python reads %s as %s, want %s", tensor.Name, got, want)
		}
	}
	pair, z, s := Batch{[]int32{0}, []int32{1}}, make([]float32, 1), make([]float32, 1)
	m.Link.Logits(z, m.LinkParams, pair)
	m.Propensity.Logits(s, m.PropensityParams, pair)
	wantClose(t, "Python's z and s", []float32{float32(read.Z), float32(read.S)}, widened([]float32{z[0], s[0]}), 1e-6)

	back, err := made(Open(theirs))(t).Model(n)
	must(t, err)
	if fmt.Sprint(back.LinkParams, back.PropensityParams) != fmt.Sprint(m.LinkParams, m.PropensityParams) {
		t.Error("what Python wrote holds other parameters")
	}
}

// asFloat64 returns a tensor's numbers as float64.
func asFloat64(t Tensor) (numbers []float64) {
	switch data := t.Data.(type) {
	case []float32:
		return widened(data)
	case []float64:
		return data
	case []int32:
		for _, x := range data {
			numbers = append(numbers, float64(x))
		}
	}
	return numbers
}
