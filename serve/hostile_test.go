package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"time"
	"unseen/serve/store"
)

// hostile are requests that mean no good. Whatever comes, the answer is no fault of the service.
var hostile = []struct{ method, path, kind, body string }{
	{"GET", "/api/v1/nodes/..%2f..%2fetc%2fpasswd", "", ""},
	{"GET", "/api/v1/nodes/%00", "", ""},
	{"GET", "/api/v1/nodes/%ff%fe", "", ""},
	{"GET", "/node/%ff%fe", "", ""},
	{"GET", "/api/v1/nodes/%ff%fe/events", "", ""},
	{"GET", "/api/v1/nodes/'%20OR%201=1;--/events", "", ""},
	{"GET", "/api/v1/nodes/p1/events?before=9223372036854775807&limit=1000", "", ""},
	{"GET", "/api/v1/nodes/p1/events?before=-9223372036854775808", "", ""},
	{"GET", "/data/node?id=p1&before=99999999999999999999", "", ""},
	{"GET", "/data/node?id=p1&before=-1", "", ""},
	{"GET", "/assets/../service.go", "", ""},
	{"GET", "/assets/%2e%2e/http.go", "", ""},
	{"GET", "//api//v1//nodes", "", ""},
	{"GET", "/api/v1/nodes?q=%ff%fe%00", "", ""},
	{"GET", "/?q=%ff%fe%00", "", ""},
	{"GET", "/api/v1/nodes?q=%zz", "", ""},
	{"GET", "/api/v1/nodes?q=" + strings.Repeat("a", 10_000), "", ""},
	{"GET", "/api/v1/nodes?offset=9223372036854775807&limit=1000", "", ""},
	{"GET", "/api/v1/recommendations?node='%20OR%201=1;%20DROP%20TABLE%20events;--", "", ""},
	{"GET", "/api/v1/recommendations?node=p1&explore=1e309", "", ""},
	{"GET", "/api/v1/recommendations?node=p1&diversity=-Inf", "", ""},
	{"GET", "/api/v1/recommendations?node=p1&seed=-1", "", ""},
	{"GET", "/api/v1/recommendations?node=p1&from=0000-00-00", "", ""},
	{"GET", "/api/v1/recommendations?node=p1" + strings.Repeat("&fields=x", 5000), "", ""},
	{"GET", "/api/v1/jobs/%2e%2e/progress", "", ""},
	{"POST", "/api/v1/recommendations", "application/json", ""},
	{"POST", "/api/v1/recommendations", "application/json", "null"},
	{"POST", "/api/v1/recommendations", "application/json", "[[[[]]]]"},
	{"POST", "/api/v1/recommendations", "application/json", `{"node":"p1","k":1e400}`},
	{"POST", "/api/v1/recommendations", "application/json", `{"node":"p1","fields":null,"exclude":null}`},
	{"POST", "/api/v1/recommendations", "application/json", `{"node":"\ud800"}`},
	{"POST", "/api/v1/recommendations", "application/json", `{"text":"` + strings.Repeat("x", 30_000) + `"}`},
	{"POST", "/api/v1/recommendations", "application/json", strings.Repeat(`{"node":`, 100_000)},
	{"POST", "/api/v1/recommendations", "application/json", strings.Repeat(`[`, 1_000_000)},
	{"POST", "/api/v1/recommendations", "application/xml", "<a/>"},
	{"POST", "/api/v1/recommendations", "application/json; charset=utf-16", "{}"},
	{"POST", "/api/v1/recommendations", "multipart/form-data", "--"},
	{"POST", "/api/v1/events", "application/json",
		`{"events":[{"id":"\u0000","kind":"shown","source":"p1","target":"p2"}]}`},
	{"POST", "/api/v1/events", "application/json",
		`{"events":[{"id":"a","kind":"shown","source":"p1","target":"p2","at":"9999999-01-01T00:00:00Z"}]}`},
	{"POST", "/api/v1/events", "application/json",
		`{"events":[{"id":"a","kind":"shown","source":"p1","target":"p2","at":"0001-01-01T00:00:00Z","position":-1}]}`},
	{"POST", "/api/v1/events", "application/json",
		"{\"events\":[{\"id\":\"\xff\",\"kind\":\"shown\",\"source\":\"p1\",\"target\":\"p2\"}]}"},
	{"POST", "/api/v1/events", "application/json", `{"events":[` + strings.Repeat(`{},`, 20_000) + `{}]}`},
	{"POST", "/api/v1/events", "application/json",
		`{"events":[{"id":"'; DROP TABLE events; --","kind":"linked","source":"\"; DELETE FROM totals; --",
			"target":"p2"}]}`},
	{"POST", "/api/v1/jobs", "application/json", `{"kind":"retrain","method":"../../etc/passwd"}`},
	{"DELETE", "/api/v1/nodes/%ff%fe", "", ""},
	{"DELETE", "/api/v1/nodes?id=%ff%fe&id=a%00b&id=" + strings.Repeat("a", 5000), "", ""},
	{"PUT", "/api/v1/nodes/..%2f..%2fjobs.json", "application/json", `{"vector":[1e39,0,0,0,0,0,0,0]}`},
	{"PUT", "/api/v1/nodes/a%00b", "application/json", `{"vector":[1,0,0,0,0,0,0,0]}`},
	{"PATCH", "/api/v1/nodes/%ff%fe", "application/json", `{"title":"\ud800"}`},
	{"PUT", "/api/v1/nodes", "application/json", `{"nodes":[{"id":"a","time":"99999-01-01"}]}`},
	{"DELETE", "/api/v1/nodes/a%00b", "", ""},
	{"DELETE", "/api/v1/nodes/..%2f..%2fjobs.json", "", ""},
	{"DELETE", "/api/v1/nodes/" + strings.Repeat("a", 5000), "", ""},
	{"POST", "/api/v1/models/..%2f..%2fregistry/deploy", "", ""},
	{"PUT", "/api/v1/ab-test", "application/json", `{"model":"../../../etc/passwd","share":0.5}`},
	{"PUT", "/api/v1/ab-test", "application/json", `{"model":"abcdef","share":"NaN"}`},
	{"OPTIONS", "*", "", ""},
	{"CONNECT", "/", "", ""},
	{"GET", "/openapi.json?%", "", ""},
	{"POST", "/login", "application/x-www-form-urlencoded", "token=%zz"},
	{"POST", "/login", "application/x-www-form-urlencoded", strings.Repeat("a=b&", 100_000)},
}

func TestHostile(t *testing.T) {
	t.Parallel()
	s := open(t)
	h := s.Handler()
	for _, r := range hostile {
		status, text := throw(t, h, r.method, r.path, r.kind, []byte(r.body))
		if status >= 500 {
			t.Errorf("%s %.80s %.80s: %d %.200s", r.method, r.path, r.body, status, text)
		}
		if len(text) > 100_000 && r.path != "/openapi.json?%" && !strings.HasPrefix(r.path, "/api/v1/nodes") {
			t.Errorf("%s %.80s: an answer of %d bytes", r.method, r.path, len(text))
		}
	}
	// what looks like SQL is text like any other, and nothing is gone
	if n := s.waiting.count(); n == 0 || s.waiting.events[n-1].ID != "'; DROP TABLE events; --" {
		t.Errorf("%d events wait", n)
	}
	if _, err := s.events.Append(t.Context(), []store.LogEvent{s.waiting.events[0].LogEvent}); err != nil {
		t.Fatal(err)
	}
	if page := want[EventPage](client{t: t, h: h}, 200, "GET", "/api/v1/events", nil); page.Total != 1 {
		t.Errorf("the log has %d events", page.Total)
	}
}

// throw sends bytes as they are.
func throw(t testing.TB, h http.Handler, method, path, kind string, body []byte) (int, string) {
	headers := http.Header{}
	if kind != "" {
		headers.Set("Content-Type", kind)
	}
	return throwWith(t, h, method, path, headers, body...)
}

// throwWith is throw with any headers.
func throwWith(t testing.TB, h http.Handler, method, path string, headers http.Header, body ...byte) (int, string) {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return 0, "" // no server gets as far as a handler with it
	}
	r := &http.Request{Method: method, URL: u, RequestURI: path, Host: "localhost", Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: headers, RemoteAddr: "127.0.0.1:1", Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body))}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(ctx))
	return w.Code, w.Body.String()
}

func FuzzHandlers(f *testing.F) {
	for _, r := range hostile {
		if len(r.body) < 1000 && len(r.path) < 1000 {
			f.Add(r.method, r.path, r.kind, []byte(r.body))
		}
	}
	f.Add("GET", "/api/v1/recommendations?node=p1&k=3&compare=true&explain=true", "", []byte(nil))
	f.Add("POST", "/api/v1/events", "application/json",
		[]byte(`{"events":[{"id":"a","kind":"shown","source":"p1","target":"p2","probability":0.5}]}`))
	s := open(f)
	h := s.Handler()
	f.Fuzz(func(t *testing.T, method, path, kind string, body []byte) {
		if strings.Contains(path, "/jobs") && method == "POST" {
			t.Skip("jobs take a while, and are tested elsewhere")
		}
		if status, text := throw(t, h, method, path, kind, body); status >= 500 {
			t.Errorf("%q %q %q %q: %d %s", method, path, kind, body, status, text)
		}
	})
}

// Bodies beyond the limit are refused and not read to the end.
func TestOversize(t *testing.T) {
	t.Parallel()
	s := open(t)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	read := &counted{r: io.LimitReader(endless{}, 1<<30)}
	r, err := http.Post(server.URL+"/api/v1/events", "application/json", read)
	if err == nil {
		r.Body.Close()
		if r.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", r.StatusCode)
		}
	}
	if taken := read.n.Load(); taken > 64<<20 { // the limit, and what lies in buffers
		t.Errorf("%d bytes were taken", taken)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for k := range p {
		p[k] = ' '
	}
	return len(p), nil
}

type counted struct {
	r io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Clients that are slow to say what they want, or say too much of it, are cut off, and others are served meanwhile.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	s := open(t)
	ctx, stop := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, ServerOptions{Address: "127.0.0.1:0", Started: func(url string) { address <- url }})
	}()
	at := <-address
	host := strings.TrimPrefix(at, "http://")
	var slow []net.Conn
	for k := range 50 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /healthz?%d HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", k)
		slow = append(slow, c)
	}
	if r, err := http.Get(at + "/healthz"); err != nil || r.StatusCode != 200 {
		t.Errorf("others are not served: %v", err)
	} else {
		r.Body.Close()
	}
	long, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	go fmt.Fprintf(long, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: %s\r\n\r\n",
		strings.Repeat("a", 4*maxHeader))
	long.SetReadDeadline(time.Now().Add(3 * time.Second))
	answer := make([]byte, 100)
	if n, _ := long.Read(answer); !strings.Contains(string(answer[:n]), " 431 ") {
		t.Errorf("headers too long: %q", answer[:n])
	}
	slow[0].SetReadDeadline(time.Now().Add(headerTime + 5*time.Second))
	if _, err := io.ReadAll(slow[0]); err != nil {
		t.Errorf("a slow client was not cut off within %v: %v", headerTime, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
