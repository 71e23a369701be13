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
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"unseen/internal/atomicfile"
)

// Scope is what a token allows. Each scope includes the narrower ones.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"  // recommendations, nodes, the model, the loop
	ScopeWrite Scope = "write" // and events
	ScopeAdmin Scope = "admin" // and jobs, models, A/B tests
)

// Scopes lists every scope, the narrowest first.
var Scopes = []Scope{ScopeRead, ScopeWrite, ScopeAdmin}

// covers reports whether a scope includes another.
func (s Scope) covers(other Scope) bool {
	return slices.Index(Scopes, s) >= slices.Index(Scopes, other)
}

// Token is an entry of the token file. It has the SHA-256 of the token and not the token itself. A token has 256 random
// bits, so that it cannot be guessed from that, and no slow hash is needed.
type Token struct {
	Name   string    `json:"name"`
	Scope  Scope     `json:"scope"`
	SHA256 string    `json:"sha256"`
	Made   time.Time `json:"made"`

	sum [sha256.Size]byte
}

// Tokens says who may do what. A service reads the file again when it changes: a token that is added or removed takes
// effect within a second.
type Tokens struct {
	path string
	list atomic.Pointer[[]Token]

	mu     sync.Mutex
	limits map[string]*rate.Limiter // by the name of a token
}

// ErrNoTokens: a token file is empty, so that nobody could connect.
var ErrNoTokens = errors.New("file has no tokens")

// OpenTokens reads a file that AddToken wrote.
func OpenTokens(path string) (*Tokens, error) {
	list, err := readTokens(path)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoTokens)
	}
	if name, ok := guessable(list); ok {
		return nil, fmt.Errorf("%s: token %q is short enough to guess; make a new one", path, name)
	}
	t := &Tokens{path: path, limits: map[string]*rate.Limiter{}}
	t.list.Store(&list)
	return t, nil
}

// minToken is the length of the shortest token that opens anything; those that AddToken makes have 50 characters.
const minToken = 32

// guessable returns the name of a token that has at most three characters, so that anybody can find
// it. Longer ones that are shorter than minToken cannot be told by their hash, and open nothing.
func guessable(list []Token) (name string, ok bool) {
	have := make(map[[sha256.Size]byte]string, len(list))
	for _, t := range list {
		have[t.sum] = t.Name
	}
	var text [3]byte
	var try func(n int) bool
	try = func(n int) bool {
		if name, ok = have[sha256.Sum256(text[:n])]; ok || n == len(text) {
			return ok
		}
		for c := byte(' '); c <= '~'; c++ {
			if text[n] = c; try(n + 1) {
				return true
			}
		}
		return false
	}
	return name, try(0)
}

// follow reads the file again whenever it changes, until the context ends. A file that is gone revokes all tokens. One
// that cannot be read changes nothing, so that an incomplete edit locks nobody out and lets nobody in.
func (t *Tokens) follow(ctx context.Context, log *slog.Logger) {
	stamp := func() (out [2]int64) {
		if info, err := os.Stat(t.path); err == nil {
			out = [2]int64{info.ModTime().UnixNano(), info.Size()}
		}
		return out
	}
	seen := [2]int64{-1} // the file may have changed since it was opened
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		if now := stamp(); now != seen {
			seen = now
			list, err := readTokens(t.path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				log.Warn("token file is gone; all tokens are revoked until there is one again", "file", t.path)
				t.list.Store(&[]Token{})
				seen = [2]int64{} // gone since it was looked at; the same file may come back
			case err != nil:
				log.Error("reading the token file failed; the last tokens stay valid", "error", err)
			default:
				t.list.Store(&list)
				t.forgetLimits(list)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// forgetLimits removes the budgets of tokens that are gone.
func (t *Tokens) forgetLimits(list []Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.limits, func(name string, _ *rate.Limiter) bool {
		return !slices.ContainsFunc(list, func(one Token) bool { return one.Name == name })
	})
}

func readTokens(path string) ([]Token, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, explainUnreadable(err, os.Geteuid())
	}
	var list []Token
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%s is not a token file: %w", path, err)
	}
	names, sums := map[string]bool{}, map[[sha256.Size]byte]string{}
	for k := range list {
		t := &list[k]
		sum, err := hex.DecodeString(t.SHA256)
		if err != nil || copy(t.sum[:], sum) != sha256.Size || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%s, token %q: sha256 is damaged; make a new token", path, t.Name)
		}
		if !slices.Contains(Scopes, t.Scope) {
			return nil, fmt.Errorf("%s, token %q: unknown scope %q; use read, write or admin", path, t.Name, t.Scope)
		}
		if t.Name == "" || names[t.Name] {
			return nil, fmt.Errorf("%s, token %d: another token has the name %q, or it has none; give each its own",
				path, k+1, t.Name)
		}
		if other, ok := sums[t.sum]; ok {
			return nil, fmt.Errorf("%s: %q and %q are the same token; make one for each", path, other, t.Name)
		}
		names[t.Name], sums[t.sum] = true, t.Name
	}
	return list, nil
}

// explainUnreadable adds what to do to an error of the system. Only the user who made a token file can
// read it, and the service often runs as another user.
func explainUnreadable(err error, user int) error {
	if errors.Is(err, fs.ErrPermission) && user > 0 {
		return fmt.Errorf("%w; the service runs as user %d, who must be able to read it: chown %[2]d the file, "+
			"or make its tokens as that user", err, user)
	}
	return err
}

// AddToken makes a token, adds its hash to the file, and returns it. It is stored nowhere else.
func AddToken(path, name string, scope Scope, now time.Time) (string, error) {
	if name == "" || !slices.Contains(Scopes, scope) {
		return "", fmt.Errorf("a token needs a name and a scope, which is %q; give read, write or admin", scope)
	}
	list, err := readTokens(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if slices.ContainsFunc(list, func(t Token) bool { return t.Name == name }) {
		return "", fmt.Errorf("%s already has a token %q; choose another name, or remove it from the file", path, name)
	}
	var random [32]byte
	rand.Read(random[:])
	secret := "unseen_" + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	list = append(list, Token{Name: name, Scope: scope, SHA256: hex.EncodeToString(sum[:]), Made: now.UTC()})
	err = atomicfile.WritePrivate(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// find returns the entry of a token. It compares every entry, so that timing reveals nothing.
func (t *Tokens) find(secret string) (found Token, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, one := range *t.list.Load() {
		if subtle.ConstantTimeCompare(sum[:], one.sum[:]) == 1 && len(secret) >= minToken {
			found, ok = one, true
		}
	}
	return found, ok
}

// allow takes one request from a token's budget, or returns how long to wait. The budget holds up to two seconds of
// requests.
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
