package serve

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"
)

// auditLog records who changed what: one line of JSON for every call that needs the scope admin. Rejected calls, which
// anybody can make, have a few lines a minute, and the rest of them is counted. A full file is renamed, and the oldest
// is removed, so that the log is bounded whatever anybody sends.
type auditLog struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	file    *os.File
	size    int64
	refused map[refusal]*refusals
}

// Limits of the audit log.
const (
	maxAudit      = 4 << 20 // bytes of a file
	auditFiles    = 4       // full files that are kept: audit.log.1 is the latest
	refusalLines  = 10      // rejected calls of a token and status that have a line of their own in a minute
	refusalWindow = time.Minute
)

// refusal is what rejected calls are counted by. Names are those of tokens, so that there are few.
type refusal struct {
	token  string
	status int
}

// refusals counts the rejected calls since a time.
type refusals struct {
	since          time.Time
	lines, counted int
	last           auditEntry
}

// auditEntry is one line.
type auditEntry struct {
	At      time.Time `json:"at"`
	Request string    `json:"request"`
	Token   string    `json:"token"` // its name; empty without tokens
	Remote  string    `json:"remote"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Status  int       `json:"status"`
	More    int       `json:"more,omitempty"` // rejected calls like this one before it that have no line
	lasting bool      // what it tells of is durable by itself: the line may go with a power cut
}

func openAudit(path string, log *slog.Logger) (*auditLog, error) {
	a := &auditLog{path: path, log: log, refused: map[refusal]*refusals{}}
	return a, a.open()
}

func (a *auditLog) open() error {
	file, err := os.OpenFile(a.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	a.file, a.size = file, info.Size()
	return nil
}

// auditCall records a call of a path that was answered.
func (s *Service) auditCall(w http.ResponseWriter, r *http.Request, path string, lasting bool) {
	c := callerOf(r.Context())
	s.audit.add(auditEntry{At: s.o.Now().UTC(), Request: c.id, Token: c.token, Remote: r.RemoteAddr, Method: r.Method,
		Path: clip(path), Status: statusOf(w), lasting: lasting})
}

func (a *auditLog) add(line auditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch line.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		key := refusal{line.Token, line.Status}
		n := a.refused[key]
		if n == nil {
			n = &refusals{since: line.At}
			a.refused[key] = n
		}
		if passed := line.At.Sub(n.since); passed >= refusalWindow || passed < 0 { // clocks go back
			line.More = n.counted
			*n = refusals{since: line.At}
		}
		if n.lines++; n.lines > refusalLines {
			n.counted++
			n.last = line
			return
		}
	}
	a.write(line)
}

// write appends a line and makes it durable. a is locked.
func (a *auditLog) write(line auditEntry) {
	raw, err := json.Marshal(line)
	if err == nil && a.size+int64(len(raw)) >= maxAudit {
		err = a.rotate()
	}
	if err == nil {
		var n int
		n, err = a.file.Write(append(raw, '\n'))
		a.size += int64(n)
	}
	if err == nil && !line.lasting {
		err = a.file.Sync()
	}
	if err != nil {
		a.log.Error("writing the audit log failed", "error", err, "line", string(raw))
	}
}

// rotate starts a new file. a is locked.
func (a *auditLog) rotate() error {
	name := func(k int) string { return fmt.Sprintf("%s.%d", a.path, k) }
	for k := auditFiles - 1; k > 0; k-- {
		if err := os.Rename(name(k), name(k+1)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if err := os.Rename(a.path, name(1)); err != nil {
		return err
	}
	full := a.file
	if err := a.open(); err != nil {
		return err
	}
	return full.Close()
}

// Close writes how many calls were only counted.
func (a *auditLog) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.refused {
		if n.counted > 0 {
			n.last.More = n.counted - 1 // the last one has this line
			a.write(n.last)
		}
	}
	return a.file.Close()
}
