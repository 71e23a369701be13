package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"unseen/internal/atomicfile"
)

// Scope is what a token allows. Each includes the ones before it.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"  // recommendations, nodes, the model, the loop
	ScopeWrite Scope = "write" // and events
	ScopeAdmin Scope = "admin" // and jobs, models, trials
)

// Scopes lists every scope, the narrowest first.
var Scopes = []Scope{ScopeRead, ScopeWrite, ScopeAdmin}

// covers tells whether a scope includes another.
func (s Scope) covers(other Scope) bool {
	return slices.Index(Scopes, s) >= slices.Index(Scopes, other)
}

// Token is a token as the file keeps it: not itself, but its SHA-256. A token has 256 bits of chance, so that nobody
// finds it from that, and no slow hash is needed.
type Token struct {
	Name   string    `json:"name"`
	Scope  Scope     `json:"scope"`
	SHA256 string    `json:"sha256"`
	Made   time.Time `json:"made"`

	sum [sha256.Size]byte
}

// Tokens is who may do what. A service reads the file again when it changes: a token that is taken out of it, or put
// into it, counts a second later.
type Tokens struct {
	path string
	list atomic.Pointer[[]Token]

	mu     sync.Mutex
	limits map[string]*rate.Limiter // by the name of a token
}

// OpenTokens reads a file that AddToken wrote.
func OpenTokens(path string) (*Tokens, error) {
	list, err := readTokens(path)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no tokens; make one: unseen serve token NAME --token-file %s", path, path)
	}
	t := &Tokens{path: path, limits: map[string]*rate.Limiter{}}
	t.list.Store(&list)
	return t, nil
}

// follow reads the file again whenever it has changed, until the context ends. A file that cannot be read changes
// nothing: half an edit locks nobody out, and lets nobody in.
func (t *Tokens) follow(ctx context.Context, log *slog.Logger) {
	stamp := func() (out [2]int64) {
		if info, err := os.Stat(t.path); err == nil {
			out = [2]int64{info.ModTime().UnixNano(), info.Size()}
		}
		return out
	}
	var seen [2]int64 // nothing yet: it may have changed since it was opened
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		if now := stamp(); now != seen {
			seen = now
			if list, err := readTokens(t.path); err != nil {
				log.Error("the file of tokens cannot be read; those of before count on", "error", err)
			} else {
				t.list.Store(&list)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func readTokens(path string) ([]Token, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, explainUnreadable(err, os.Geteuid())
	}
	var list []Token
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%s is no file of tokens: %w", path, err)
	}
	for k := range list {
		t := &list[k]
		sum, err := hex.DecodeString(t.SHA256)
		if err != nil || copy(t.sum[:], sum) != sha256.Size || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%s, token %q: the sha256 is damaged; make the token anew", path, t.Name)
		}
		if !slices.Contains(Scopes, t.Scope) {
			return nil, fmt.Errorf("%s, token %q: no scope %q; there is read, write and admin", path, t.Name, t.Scope)
		}
	}
	return list, nil
}

// unreadable adds to an error of the system what to do. A file of tokens is its maker's alone, and
// that is often not the service.
func explainUnreadable(err error, user int) error {
	if errors.Is(err, fs.ErrPermission) && user > 0 {
		return fmt.Errorf("%w; it must be readable by user %d, whom this runs as: chown %[2]d the file, or make "+
			"its tokens as that user", err, user)
	}
	return err
}

// AddToken makes a token, adds its sum to the file, and returns it: it is nowhere else.
func AddToken(path, name string, scope Scope, now time.Time) (string, error) {
	if name == "" || !slices.Contains(Scopes, scope) {
		return "", fmt.Errorf("serve: a token needs a name and a scope: read, write or admin, not %q", scope)
	}
	list, err := readTokens(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if slices.ContainsFunc(list, func(t Token) bool { return t.Name == name }) {
		return "", fmt.Errorf("%s has a token %q already; choose another name, or take it out of the file", path, name)
	}
	var chance [32]byte
	rand.Read(chance[:])
	secret := "unseen_" + base64.RawURLEncoding.EncodeToString(chance[:])
	sum := sha256.Sum256([]byte(secret))
	list = append(list, Token{Name: name, Scope: scope, SHA256: hex.EncodeToString(sum[:]), Made: now.UTC()})
	err = atomicfile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	})
	if err != nil {
		return "", err
	}
	return secret, os.Chmod(path, 0o600)
}

// find returns who has a token. Every one of the list is looked at, so that time tells nothing.
func (t *Tokens) find(secret string) (found Token, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, one := range *t.list.Load() {
		if subtle.ConstantTimeCompare(sum[:], one.sum[:]) == 1 {
			found, ok = one, true
		}
	}
	return found, ok
}

// allow takes one request from a token's budget, or says how long to wait. A token may save up twice what a second
// brings.
func (t *Tokens) allow(name string, perSecond float64, now time.Time) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.limits[name]
	if limit == nil {
		limit = rate.NewLimiter(rate.Limit(perSecond), int(max(2*perSecond, 1)))
		t.limits[name] = limit
	}
	reserved := limit.ReserveN(now, 1)
	if wait = reserved.DelayFrom(now); wait > 0 {
		reserved.CancelAt(now)
	}
	return wait, wait == 0
}
