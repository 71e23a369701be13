package serve

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"
)

// auditLog records who changed what: one line of JSON for every call that needs the scope admin, also rejected ones.
type auditLog struct {
	log *slog.Logger

	mu   sync.Mutex
	file *os.File
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
}

func openAudit(path string, log *slog.Logger) (*auditLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &auditLog{log: log, file: file}, nil
}

// auditCall records a call that was answered.
func (s *Service) auditCall(w http.ResponseWriter, r *http.Request) {
	c := callerOf(r.Context())
	s.audit.add(auditEntry{At: s.o.Now().UTC(), Request: c.id, Token: c.token, Remote: r.RemoteAddr, Method: r.Method,
		Path: clip(r.URL.Path), Status: statusOf(w)})
}

func (a *auditLog) add(line auditEntry) {
	raw, err := json.Marshal(line)
	if err == nil {
		a.mu.Lock()
		if _, err = a.file.Write(append(raw, '\n')); err == nil {
			err = a.file.Sync()
		}
		a.mu.Unlock()
	}
	if err != nil {
		a.log.Error("writing the audit log failed", "error", err, "line", string(raw))
	}
}

func (a *auditLog) Close() error { return a.file.Close() }
