//go:build (amd64 || arm64) && !noasm

package kern

import "unsafe"

//go:generate sh -c "cd _gen && go run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg kern"
//go:generate sh -c "cd _gen && go run ./neon -out ../kernels_arm64.s -stubs ../kernels_arm64.go"

// The assembly is given pointers to elements whose number its callers have checked.

func p32(s []float32) *float32 { return unsafe.SliceData(s) }
func pInt(s []int32) *int32    { return unsafe.SliceData(s) }
func p16(s []uint16) *uint16   { return unsafe.SliceData(s) }
