package serve

import "golang.org/x/sys/unix"

// lowerPriority lets everybody else go first on this thread's processor. Where that is refused, work goes on as before.
func lowerPriority() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 10)
}
