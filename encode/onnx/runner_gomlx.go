//go:build !onnxruntime

package onnx

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/backends"
	_ "github.com/gomlx/gomlx/backends/simplego" // the backend "go"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	"github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/onnx-gomlx/onnx"
)

const runnerName = "gomlx"

// gomlx runs a model in pure Go.
type gomlx struct {
	names   []string
	backend backends.Backend
	weights *context.Context
	exec    *context.Exec
	out     []float32
}

// shapes is how many shapes of input are kept compiled: all possible ones.
const shapes = (defaultMost/lengthStep + 2) * (batchSize + 1)

func newRunner(raw []byte) (r runner, err error) {
	defer recovered(&err)
	model, err := onnx.Parse(raw)
	if err != nil {
		return nil, err
	}
	g := &gomlx{names: model.InputsNames}
	output := ""
	for k, name := range model.OutputsNames {
		if model.OutputsShapes[k].Rank() == 3 && output == "" {
			output = name
		}
	}
	if output == "" {
		return nil, fmt.Errorf("none of its outputs %q is a vector per token", model.OutputsNames)
	}
	for _, weight := range model.Proto.Graph.Initializer {
		if weight.DataLocation != 0 {
			return nil, errors.New("its weights are in another file; export it in one")
		}
	}
	g.weights = context.New().Reuse()
	if err := model.VariablesToContext(g.weights); err != nil {
		return nil, err
	}
	// One operation at a time: the backend's parallel execution has a data race (the last reader of a buffer may
	// overwrite it while another reads). Large products still use all processors.
	if g.backend, err = backends.NewWithConfig("go:ops_sequential"); err != nil {
		return nil, err
	}
	g.exec, err = context.NewExec(g.backend, g.weights,
		func(weights *context.Context, inputs []*graph.Node) []*graph.Node {
			byName := make(map[string]*graph.Node, len(inputs))
			for k, name := range g.names {
				byName[name] = inputs[k]
			}
			return model.CallGraph(weights, inputs[0].Graph(), byName, output)
		})
	if err != nil {
		return nil, err
	}
	g.exec.SetMaxCache(shapes)
	return g, nil
}

// recovered makes an error of a panic, by which the library reports a graph that it cannot build.
func recovered(err *error) {
	if p := recover(); p != nil {
		if e, ok := p.(error); ok {
			*err = e
		} else {
			*err = fmt.Errorf("%v", p)
		}
	}
}

func (g *gomlx) inputs() []string { return g.names }

func (g *gomlx) run(values map[string][]int64, batch, length int) (out []float32, dim int, err error) {
	defer recovered(&err)
	inputs := make([]*tensors.Tensor, len(g.names))
	for k, name := range g.names {
		inputs[k] = tensors.FromFlatDataAndDimensions(values[name], batch, length)
		defer inputs[k].FinalizeAll()
	}
	outputs, err := g.exec.Exec(inputs)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		for _, t := range outputs {
			t.FinalizeAll()
		}
	}()
	shape := outputs[0].Shape().Dimensions
	if len(shape) != 3 || shape[0] != batch || shape[1] != length {
		return nil, 0, fmt.Errorf("it returns the shape %v for %d texts of %d tokens", shape, batch, length)
	}
	err = tensors.ConstFlatData(outputs[0], func(flat []float32) {
		g.out = append(slices.Grow(g.out[:0], len(flat)), flat...)
	})
	return g.out, shape[2], err
}

func (g *gomlx) close() error {
	g.exec.Finalize()
	g.weights.Finalize()
	g.backend.Finalize()
	return nil
}
