package kern

import (
	"runtime"
	"testing"
)

func TestThreads(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	for n, want := range map[int]int{-1: all, 0: all, 1: 1, 7: 7} {
		if got := Threads(n); got != want {
			t.Errorf("%d threads are %d, want %d", n, got, want)
		}
	}
}
