package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TLS is no permission: whoever reaches the address could do everything.
func TestAttackTLSWithoutTokens(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:443"} {
		err := s.Run(t.Context(), ServerOptions{Address: address, Cert: "cert.pem", Key: "key.pem"})
		if !errors.Is(err, ErrUnprotected) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Whatever header a proxy names its client by, a service without tokens serves only this machine.
func TestAttackProxyHeaders(t *testing.T) {
	t.Parallel()
	h := open(t).Handler()
	for _, test := range []struct {
		header, value string
		status        int
	}{
		{"X-Forwarded-For", "203.0.113.7", 403}, {"X-Forwarded-For", "127.0.0.1, 203.0.113.7", 403},
		{"X-Forwarded-For", "127.0.0.1", 200}, {"Forwarded", "for=203.0.113.7", 403},
		{"Forwarded", `for="[2001:db8::1]:4711";proto=https`, 403}, {"Forwarded", "for=_hidden", 403},
		{"Forwarded", "FOR=127.0.0.1, For=203.0.113.7", 403}, {"Forwarded", "proto=http;for=127.0.0.1", 200},
		{"Forwarded", `for="[::1]:80"`, 200}, {"Forwarded", "by=203.0.113.43", 403},
		{"X-Real-IP", "203.0.113.7", 403}, {"X-Real-IP", "::1", 200}, {"Via", "1.1 proxy", 403},
		{"CF-Connecting-IP", "203.0.113.7", 403}, {"True-Client-IP", "203.0.113.7", 403},
		{"X-Forwarded-Host", "evil.example", 403}, {"X-Forwarded-Host", "localhost:3000", 200},
	} {
		r := fromHere(httptest.NewRequest("GET", "/api/v1/models", nil))
		r.Header.Set(test.header, test.value)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != test.status {
			t.Errorf("%s: %s: %d, want %d", test.header, test.value, w.Code, test.status)
		}
	}
}

// Token files that let in more than they say are refused at the start.
func TestAttackTokenFiles(t *testing.T) {
	t.Parallel()
	entry := func(name, secret string) Token {
		sum := sha256.Sum256([]byte(secret))
		return Token{Name: name, Scope: ScopeRead, SHA256: hex.EncodeToString(sum[:])}
	}
	long := strings.Repeat("long", 10)
	write := func(list ...Token) string {
		raw, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, list := range map[string][]Token{
		"same name":  {entry("a", long), entry("a", long+"!")},
		"same token": {entry("a", long), entry("b", long)},
		"no name":    {entry("", long)},
		"empty":      {entry("a", "")},
		"short":      {entry("b", long), entry("a", "abc")},
	} {
		if _, err := OpenTokens(write(list...)); err == nil || !strings.Contains(err.Error(), "tokens.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
	tokens, err := OpenTokens(write(entry("a", "password"), entry("b", long)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tokens.find("password"); ok {
		t.Error("a short token opens the service")
	}
	if _, ok := tokens.find(long); !ok {
		t.Error("a long token does not open the service")
	}
}

// A token file that is deleted revokes its tokens, and one that is back gives them back.
func TestAttackDeletedTokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := AddToken(path, "me", ScopeAdmin, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, the file has mode %v", err, info.Mode())
	}
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(o *Options) { o.Tokens = tokens }).Handler()
	status := func() int { return client{t, h, secret}.do("GET", "/api/v1/models", nil).Code }
	if status() != 200 {
		t.Fatal("the token does not work")
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	poll(t, "the tokens to be revoked", func() bool { return status() == 401 })
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	poll(t, "the tokens to be back", func() bool { return status() == 200 })
}

// The scheme of a token has no case, and the cookie of a visitor whose proxy speaks TLS is never sent without it.
func TestAttackTokenHeaders(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := AddToken(path, "me", ScopeRead, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(o *Options) { o.Tokens = tokens }).Handler()
	for header, status := range map[string]int{"Bearer " + secret: 200, "bearer " + secret: 200, "BEARER  " +
		secret: 200,
		"Basic " + secret: 401, secret: 401, "Bearer": 401, "Bearer" + secret: 401} {
		r := fromHere(httptest.NewRequest("GET", "/api/v1/models", nil))
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != status {
			t.Errorf("%.8s: %d, want %d", header, w.Code, status)
		}
	}
	for _, test := range []struct {
		header, value string
		tls, secure   bool
	}{
		{"X-Forwarded-Proto", "https", false, true}, {"Forwarded", "for=1.2.3.4;proto=https", false, true},
		{"X-Forwarded-Proto", "http", false, false}, {"", "", true, true}, {"", "", false, false},
	} {
		r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"token": {secret}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if test.header != "" {
			r.Header.Set(test.header, test.value)
		}
		if test.tls {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 || cookies[0].Secure != test.secure || !cookies[0].HttpOnly ||
			cookies[0].SameSite != http.SameSiteStrictMode {
			t.Errorf("%+v: %+v", test, cookies)
		}
	}
}

// Only the owner may read what the service writes, also where an older version let others.
func TestAttackPermissions(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has other permissions")
	}
	folder := copyOf(t)
	state := filepath.Join(folder, "state")
	for round := range 2 {
		s, err := Open(t.Context(), Options{Folder: folder, State: state})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recommend(t.Context(), RecommendRequest{Node: "p1", Log: true}); err != nil {
			t.Fatal(err)
		}
		job, err := s.StartJob(JobRequest{Kind: "evaluate"})
		if err == nil {
			_, err = s.WaitJob(t.Context(), job.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		check := func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[entry.IsDir()]; err != nil ||
				info.Mode().Perm() != want {
				t.Errorf("round %d: %s has mode %v", round, path, info.Mode())
			}
			return err
		}
		if err := filepath.WalkDir(state, check); err != nil { // while the log is open
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := filepath.WalkDir(state, check); err != nil {
			t.Error(err)
		}
		err = filepath.WalkDir(state, func(path string, entry fs.DirEntry, err error) error {
			return errors.Join(err, os.Chmod(path, 0o755))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// No link is followed, wherever it stands in the state folder and wherever it leads.
func TestAttackLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	folder := copyOf(t)
	outside := filepath.Join(t.TempDir(), "outside")
	for _, target := range []string{outside, filepath.Join(t.TempDir(), "there")} {
		if filepath.Base(target) == "there" {
			if err := os.WriteFile(target, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"audit.log", "events.db", "jobs.json", "watch.json", "models", "unseen.lock",
			"models/registry.json", "audit.log.1", "events.db-wal", "models/x.safetensors"} {
			state := t.TempDir()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(state, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(state, name)); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), Options{Folder: folder, State: state})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), filepath.Base(name)) {
				t.Errorf("%s is a link: %v", name, err)
			}
		}
		if raw, err := os.ReadFile(target); err == nil && string(raw) != "mine" || target == outside && err == nil {
			t.Errorf("%s was written: %q", target, raw)
		}
	}
}

// No name in a file of the state leads out of it.
func TestAttackRegistryNames(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "models", "registry.json")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var was registryState
	if err := json.Unmarshal(good, &was); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../evil", "/etc/passwd", was.Current[:20], strings.Repeat("z", 64), "..\\evil"} {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(good), `"`+was.Current+`"`, string(quoted))),
			0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(t.Context(), Options{Folder: folder}); err == nil {
			s.Close()
			t.Errorf("%q was accepted", name)
		} else if !strings.Contains(err.Error(), "registry.json") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// One state folder has one service. The second says who has it, and a kill frees it at once.
func TestAttackTwoServices(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	first, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Folder: folder}); !errors.Is(err, ErrStateInUse) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("the second service: %v", err)
	}
	if _, err := first.Recommend(t.Context(), RecommendRequest{Node: "p1", Log: true}); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	v := newVictim(t, folder) // in a process of its own
	if _, err := Open(context.Background(), Options{Folder: folder}); !errors.Is(err, ErrStateInUse) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", v.cmd.Process.Pid)) {
		t.Errorf("beside another process: %v", err)
	}
	v.kill()
	again, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if totals, err := again.events.Totals(t.Context()); err != nil || totals.Events != 10 {
		t.Errorf("%v, %d events", err, totals.Events)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
