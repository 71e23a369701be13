package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// memory is what the system holds in memory for this process, in bytes.
type memory struct {
	own    int64 // anonymous and shared: what would be lost
	mapped int64 // pages of mapped files, which the system takes back when it needs them
}

// residentMemory reads the system's count. Page tables are not in it.
func residentMemory() (memory, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return memory{}, fmt.Errorf("%w: memory is only counted on Linux", err)
	}
	return parseStatus(string(status))
}

func parseStatus(status string) (memory, error) {
	var m memory
	found := 0
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		var to *int64
		switch name {
		case "RssAnon", "RssShmem":
			to = &m.own
		case "RssFile":
			to = &m.mapped
		default:
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return memory{}, fmt.Errorf("%s is %q", name, strings.TrimSpace(value))
		}
		*to += kilobytes << 10
		found++
	}
	if found != 3 {
		return memory{}, fmt.Errorf("%d of RssAnon, RssShmem and RssFile in the process status", found)
	}
	return m, nil
}

// processorTime is what the processors have spent on this process, which neighbours change less
// than the time that passes; 0 where the system does not tell.
func processorTime() time.Duration {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	return parseStat(string(stat))
}

// parseStat adds user and system time, the 12th and 13th number after the name in parentheses, in
// hundredths of a second.
func parseStat(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// watchMemory looks every few milliseconds, until the function returned is called; that returns
// the most there was at a time.
func watchMemory() (stop func() (memory, error)) {
	quit, peak := make(chan struct{}), make(chan memory)
	var failed error
	go func() {
		var most memory
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			now, err := residentMemory()
			failed = err
			most = memory{max(most.own, now.own), max(most.mapped, now.mapped)}
			select {
			case <-quit:
				tick.Stop()
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() (memory, error) { close(quit); return <-peak, failed }
}
