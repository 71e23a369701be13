//go:build race

package graph

func init() { underRaceDetector = true }
