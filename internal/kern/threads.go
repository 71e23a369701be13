package kern

import "runtime"

// Threads is how many a setting of Threads stands for: 0 means all processors.
func Threads(n int) int {
	if n <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}
