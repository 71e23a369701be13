//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"unseen/internal/postgrestest"
	"unseen/serve/store"
)

// certificate makes a certificate for loopback, signed by itself, and a client that trusts it alone.
func certificate(t *testing.T) (cert, key string, trusting *http.Client) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "loopback"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	check(err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	check(err)
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	check(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	check(os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	known := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(raw)
	check(err)
	known.AddCert(parsed)
	return cert, key, &http.Client{Timeout: 20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, MaxIdleConnsPerHost: 16}}
}

// A service over TLS, with tokens, on PostgreSQL: while clients log events the database is killed, stopped and started.
// Recommendations go on, no event that was acknowledged is lost or doubled, and every response is yes or try again.
// Long because it is one sequence.
func TestServiceOutlivesItsDatabase(t *testing.T) {
	url := postgrestest.Database(t)
	database := postgrestest.Shared(t)
	cert, key, browser := certificate(t)
	file := filepath.Join(t.TempDir(), "tokens.json")
	token, err := AddToken(file, "website", ScopeWrite, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(o *Options) { o.Store, o.Tokens, o.Rate = url, tokens, 1e6 })
	ctx, end := context.WithCancel(t.Context())
	at := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, ServerOptions{Address: "127.0.0.1:0", Cert: cert, Key: key,
			Started: func(url string) { at <- url }})
	}()
	base := <-at
	if !strings.HasPrefix(base, "https://") {
		t.Fatalf("serves at %s", base)
	}
	ask := func(method, path string, body any) (int, http.Header, error) {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(raw))
		if err != nil {
			return 0, nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := browser.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, answer.Header, err
	}
	if r, err := http.Get("http" + strings.TrimPrefix(base, "https") + "/api/v1/nodes"); err == nil &&
		r.StatusCode == http.StatusOK {
		t.Error("it answers without TLS")
	}

	const clients, together = 4, 10
	var acknowledged sync.Map
	var count, refused atomic.Int64
	var over atomic.Bool
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for n := 0; !over.Load(); n++ {
				var events eventBatch
				for k := range together {
					events.Events = append(events.Events, store.LogEvent{ID: fmt.Sprintf("%d-%d-%d", c, n, k),
						Kind: "shown", Source: "p200", Target: fmt.Sprintf("p%d", k), Probability: .5,
						List: fmt.Sprintf("%d-%d", c, n), Position: k + 1})
				}
				status, header, err := ask("POST", "/api/v1/events", events)
				switch {
				case err != nil:
					t.Errorf("no answer: %v", err)
					return
				case status >= 200 && status < 300:
					for _, e := range events.Events {
						acknowledged.Store(e.ID, true)
						count.Add(1)
					}
				case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
					refused.Add(1)
					time.Sleep(10 * time.Millisecond)
				default:
					t.Errorf("the answer is %d, %v", status, header)
					return
				}
			}
		})
	}
	grow := func(by int64) { // events must come in whatever the database does
		t.Helper()
		goal := count.Load() + by
		poll(t, fmt.Sprintf("%d events", goal), func() bool { return count.Load() >= goal })
	}
	grow(500)
	for _, stop := range []func(){database.Crash, func() { database.Stop(t) }, database.Crash} {
		stop()
		grow(300)
		if status, _, err := ask("GET", "/api/v1/recommendations?node=p200&k=3", nil); err != nil ||
			status != http.StatusOK {
			t.Errorf("without the database: %d, %v", status, err)
		}
		if status, _, err := ask("GET", "/readyz", nil); err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("ready without the database: %d, %v", status, err)
		}
		database.Start(t)
		grow(300)
	}
	over.Store(true)
	group.Wait()
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	log, err := store.Open(t.Context(), url, store.Options{Spool: spoolPath(s.o)})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	seen := map[string]int{}
	most, grew := 0, time.Now()
	for int64(len(seen)) < count.Load() && time.Since(grew) < 30*time.Second { // what was spooled comes after
		if len(seen) > most {
			most, grew = len(seen), time.Now()
		}
		clear(seen)
		for e, err := range store.All(t.Context(), log, 0) {
			if err != nil {
				t.Fatal(err)
			}
			seen[e.ID]++
		}
	}
	acknowledged.Range(func(id, _ any) bool {
		if seen[id.(string)] != 1 {
			t.Errorf("event %v was acknowledged and is there %d times", id, seen[id.(string)])
			return false
		}
		return true
	})
	t.Logf("%d events acknowledged, %d requests refused, the database ended three times", count.Load(), refused.Load())
}
