//go:build !unix

package exchange

// cpuSeconds is unknown here.
func cpuSeconds() float64 { return 0 }
