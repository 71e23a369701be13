//go:build onnxruntime

package onnx

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

const runnerName = "onnxruntime"

// libraryVariable names ONNX Runtime's shared library where the system does not find it by itself.
const libraryVariable = "ONNXRUNTIME_LIBRARY"

// start loads the library once; it stays for the life of the process.
var start = sync.OnceValue(func() error {
	library := os.Getenv(libraryVariable)
	if library == "" {
		library = map[string]string{"windows": "onnxruntime.dll", "darwin": "libonnxruntime.dylib"}[runtime.GOOS]
	}
	if library == "" {
		library = "libonnxruntime.so"
	}
	ort.SetSharedLibraryPath(library)
	if err := ort.InitializeEnvironment(); err != nil {
		return fmt.Errorf("cannot load ONNX Runtime's library %s: %w; set %s to its path", library, err,
			libraryVariable)
	}
	return nil
})

// native runs a model in ONNX Runtime.
type native struct {
	names   []string
	session *ort.DynamicAdvancedSession
	out     []float32
}

func newRunner(raw []byte) (runner, error) {
	if err := start(); err != nil {
		return nil, err
	}
	inputs, outputs, err := ort.GetInputOutputInfoWithONNXData(raw)
	if err != nil {
		return nil, err
	}
	n := &native{}
	for _, in := range inputs {
		n.names = append(n.names, in.Name)
	}
	output := ""
	for _, out := range outputs {
		if len(out.Dimensions) == 3 && output == "" {
			output = out.Name
		}
	}
	if output == "" {
		return nil, fmt.Errorf("none of its %d outputs is a vector per token", len(outputs))
	}
	n.session, err = ort.NewDynamicAdvancedSessionWithONNXData(raw, n.names, []string{output}, nil)
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (n *native) inputs() []string { return n.names }

func (n *native) run(values map[string][]int64, batch, length int) ([]float32, int, error) {
	inputs := make([]ort.Value, len(n.names))
	for k, name := range n.names {
		tensor, err := ort.NewTensor(ort.NewShape(int64(batch), int64(length)), values[name])
		if err != nil {
			return nil, 0, err
		}
		defer tensor.Destroy()
		inputs[k] = tensor
	}
	outputs := []ort.Value{nil}
	if err := n.session.Run(inputs, outputs); err != nil {
		return nil, 0, err
	}
	defer outputs[0].Destroy()
	tensor, ok := outputs[0].(*ort.Tensor[float32])
	shape := outputs[0].GetShape()
	if !ok || len(shape) != 3 || shape[0] != int64(batch) || shape[1] != int64(length) {
		return nil, 0, fmt.Errorf("it returns a %T of the shape %v for %d texts of %d tokens", outputs[0], shape, batch,
			length)
	}
	n.out = append(n.out[:0], tensor.GetData()...)
	return n.out, int(shape[2]), nil
}

func (n *native) close() error { return n.session.Destroy() }
