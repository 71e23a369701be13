package model

import "unseen/internal/kern"

// view returns numbers as a matrix for the kernels, in place.
func view(data []float32, rows, dim int) *kern.Matrix {
	m, err := kern.View(data, rows, dim, dim)
	if err != nil {
		panic(err) // the shapes are this package's own
	}
	return m
}
