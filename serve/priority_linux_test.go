package serve

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Jobs run after everything else: a thread of low priority, and that thread alone.
func TestLowerPriority(t *testing.T) {
	t.Parallel()
	type priorities struct{ before, after int }
	of := make(chan priorities)
	nice := func() int { // the system call returns 20 - nice
		p, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
		if err != nil {
			t.Error(err)
		}
		return 20 - p
	}
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		before := nice()
		lowerPriority()
		of <- priorities{before, nice()}
	}()
	if p := <-of; p.after != max(p.before, 10) {
		t.Errorf("the priority was %d and is %d", p.before, p.after)
	}
}
