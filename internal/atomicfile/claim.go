package atomicfile

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// HeldError: another process has claimed a file.
type HeldError struct {
	Path string
	By   string // what the other process wrote about itself; "" if it cannot be read
}

func (e *HeldError) Error() string {
	by := e.By
	if by == "" {
		by = "another process"
	}
	return fmt.Sprintf("%s is held by %s", e.Path, by)
}

// Claim makes this process the only one that holds the file at path, until release or its end, however it ends. The
// file stays, and says who holds it.
func Claim(path string) (release func() error, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Lock(file); err != nil {
		by, _ := os.ReadFile(path) // it may be empty for a moment
		file.Close()
		return nil, &HeldError{path, strings.TrimSpace(string(by[:min(len(by), 200)]))}
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(text), 0) // on a full disk the lock holds all the same
	}
	return func() error {
		unlock(file)
		return file.Close()
	}, nil
}
