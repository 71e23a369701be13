package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// memory is the resident memory of this process, in bytes.
type memory struct {
	own    int64 // anonymous and shared
	mapped int64 // pages of mapped files, which the system can evict
}

// residentMemory reads the system's count, which excludes page tables.
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

// processorTime is the processor time spent on this process, which other processes disturb less than the elapsed time;
// 0 where the system does not report it.
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

// memoryWatch measures the resident memory every few milliseconds until it is stopped.
type memoryWatch struct {
	samples atomic.Int64
	quit    chan struct{}
	peak    chan memory
	failed  error // of the last sample
}

func watchMemory() *memoryWatch {
	w := &memoryWatch{quit: make(chan struct{}), peak: make(chan memory)}
	go func() {
		var most memory
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			now, err := residentMemory()
			w.failed = err
			most = memory{max(most.own, now.own), max(most.mapped, now.mapped)}
			w.samples.Add(1)
			select {
			case <-w.quit:
				w.peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return w
}

// stop ends the watch and returns the highest measurements.
func (w *memoryWatch) stop() (memory, error) {
	close(w.quit)
	peak := <-w.peak
	return peak, w.failed
}
