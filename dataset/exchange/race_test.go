//go:build race

package exchange

func init() { underRaceDetector = true }
