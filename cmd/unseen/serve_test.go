package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestServeWrongUsage(t *testing.T) {
	t.Parallel()
	nothing := t.TempDir()
	for line, says := range map[string]string{
		"serve":                          "name a folder to serve",
		"serve a b":                      "name its model with --model",
		"serve " + nothing:               "model.safetensors",
		"serve x --explore 2":            "--explore is 2; give a share from 0 to 1",
		"serve x --keep 0":               "--keep is 0; give at least 1",
		"serve x --keep-events 5m":       "--keep-events is 5m0s; give an hour or more",
		"serve x --keep-events 9w":       "give a time such as 90d or 36h",
		"serve x --keep-events xd":       "give a time such as 90d",
		"serve x --rate 0":               "--rate is 0",
		"serve x --token-file /nonsense": "/nonsense",
		"serve token":                    "name the token",
		"serve token me":                 "--token-file is missing",
		"serve token me --token-file " + filepath.Join(nothing, "t") + " --scope all": "read, write or admin",
	} {
		code, out, err := invoke(strings.Fields(line)...)
		if code == exitOK || out != "" || !strings.Contains(err, says) || strings.Count(err, "\n") != 1 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want one line that says %q", line, code, out, err, says)
		}
	}
}

// lockedBuffer is written by the service and read by the test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ask asks a service, and returns the status and the body.
func ask(t *testing.T, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

// What unseen demo writes can be served; the service refuses the world without protection, asks for the token that was
// made, and ends when it is told to.
func TestServe(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	folder := filepath.Join(t.TempDir(), "demo")
	if code, _, err := invoke("demo", "--papers", "200", "--out", folder, "--quiet"); code != exitOK {
		t.Fatal(err)
	}
	if code, _, err := invoke("serve", folder, "--listen", "0.0.0.0:0"); code != exitUsage ||
		!strings.Contains(err, "--token-file") {
		t.Errorf("a public address: exit %d, %q", code, err)
	}
	if code, _, err := invoke("serve", folder, "--open", "--token-file", "tokens.json"); code != exitUsage ||
		!strings.Contains(err, "one of them") {
		t.Errorf("open and guarded: exit %d, %q", code, err)
	}
	if code, _, err := invoke("serve", folder, "--prefix", "recs"); code != exitUsage ||
		!strings.Contains(err, "such as /recs") {
		t.Errorf("a prefix that is no path: exit %d, %q", code, err)
	}
	tokens := filepath.Join(folder, "tokens.json")
	code, secret, problem := invoke("serve", "token", "me", "--token-file", tokens, "--scope", "read")
	if code != exitOK {
		t.Fatal(problem)
	}
	if info, err := os.Stat(tokens); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read the tokens: %v %v", info.Mode(), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, log lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", folder, "--listen", "127.0.0.1:0", "--prefix", "/recs", "--token-file",
			tokens}, &out, &log)
	}()
	url := ""
	for deadline := time.Now().Add(30 * time.Second); url == "" &&
		time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, after, ok := strings.Cut(out.String(), " at "); ok {
			url, _, _ = strings.Cut(after, "\n")
		}
	}
	if url == "" {
		t.Fatalf("no address: %s %s", out.String(), log.String())
	}
	if status, _ := ask(t, url+"/api/v1/recommendations?node=p100", ""); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	if status, body := ask(t, url+"/api/v1/recommendations?node=p100&compare=true",
		strings.TrimSpace(secret)); status != 200 || !strings.Contains(body, `"naive"`) {
		t.Errorf("with a token: %d %s", status, body)
	}
	stop()
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("exit %d, %s", code, log.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}
