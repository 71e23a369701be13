// Package safetensors reads and writes files of named arrays, as Python's library of that name does.
//
//	file := &safetensors.Contents{Tensors: []safetensors.Array{{Name: "w", Shape: []int{2}, Data: []float32{1, 2}}}}
//	err := file.Save("weights.safetensors")
//	back, err := safetensors.Open("weights.safetensors")
//	w, ok := back.Tensor("w")
//
// Package model keeps models in such files, package encode encoders.
package safetensors
