//go:build unix

package serve

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of the processors. Other programs change it less than they change times.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
