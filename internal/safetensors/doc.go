// Package safetensors reads and writes files of named arrays that Python's library of that name reads too.
//
//	file := &safetensors.Contents{Tensors: []safetensors.Array{{Name: "w", Shape: []int{2}, Data: []float32{1, 2}}}}
//	err := file.Save("weights.safetensors")
//	back, err := safetensors.Open("weights.safetensors")
//	w, ok := back.Tensor("w")
//
// What a file means is its writer's business: package model keeps models in them, package encode encoders.
package safetensors
