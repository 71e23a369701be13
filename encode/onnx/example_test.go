package onnx_test

import (
	"context"
	"fmt"

	"unseen/encode"
	"unseen/encode/onnx"
)

func ExampleOpen() {
	// a model of a few thousand random numbers, for tests
	e, err := onnx.Open("testdata/tiny", onnx.Options{Pooling: "cls"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	vectors, err := e.Encode(context.Background(), []encode.Text{{Title: "A cell", Body: "and its gene"}, {}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(vectors), "vectors of", e.Dim(), "numbers; without text the first is", vectors[1][0])
	// Output: 2 vectors of 16 numbers; without text the first is 0
}
