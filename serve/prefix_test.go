package serve

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var addresses = regexp.MustCompile(`(?:href|src|action|hx-get|hx-post|hx-put|hx-delete|data-[a-z]+)="([^"]*)"`)

// rooted is a path in a script or a style.
var rooted = regexp.MustCompile("['\"`(]/[a-z]")

// Below a prefix no page leads out of it: every link, script, style and form is followed, from the first page on.
func TestPrefixIsKept(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Prefix = "/lab/recs/" })
	c := client{t: t, h: s.Handler()}
	job, err := s.StartJob(JobRequest{Kind: "evaluate"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	want[RecommendResponse](c, 200, "POST", "/lab/recs/api/v1/recommendations",
		RecommendRequest{Node: "p9", Log: true})
	seen, nodes := map[string]bool{}, 0
	queue := []string{"/lab/recs/", "/lab/recs/login", "/lab/recs/alarm", "/lab/recs/loop/live",
		"/lab/recs/text?text=x", "/lab/recs/node/nobody"}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		path, _, _ := strings.Cut(at, "?")
		if node := strings.HasPrefix(path, "/lab/recs/node/"); seen[at] || node && nodes >= 5 {
			continue
		} else if node {
			nodes++
		}
		seen[at] = true
		w := c.do("GET", at, nil)
		if w.Code == http.StatusMethodNotAllowed {
			continue // a form's target, which is there
		}
		if w.Code != 200 && path != "/lab/recs/node/nobody" && path != "/lab/recs/text" {
			t.Errorf("%s: %d %.200s", at, w.Code, w.Body)
		}
		if strings.Contains(path, "/assets/") {
			if body := w.Body.String(); !strings.Contains(path, "/vendor/") && rooted.MatchString(body) {
				t.Errorf("%s names a path of its own", at)
			}
			continue
		}
		if !strings.Contains(w.Header().Get("Content-Type"), "html") {
			continue
		}
		base, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range addresses.FindAllStringSubmatch(w.Body.String(), -1) {
			if strings.HasPrefix(found[0], "data-") && !strings.HasPrefix(found[1], "/") {
				continue // no address
			}
			to, err := base.Parse(html.UnescapeString(found[1]))
			if err != nil || to.Host != "" || !strings.HasPrefix(to.Path, "/lab/recs/") {
				t.Errorf("%s leads to %s", at, found[0])
				continue
			}
			to.Fragment = ""
			queue = append(queue, to.String())
		}
		if found := regexp.MustCompile(`.{20}[ >]/(api|docs|openapi).{20}`).FindString(w.Body.String()); found != "" {
			t.Errorf("%s speaks of a path without the prefix: %s", at, found)
		}
	}
	for _, page := range []string{"", "exposure", "loop", "bridges", "runs", "docs", "runs?job=1", "assets/style.css",
		"assets/app.js", "assets/runs.js", "openapi.json", "runs/jobs"} {
		if !seen["/lab/recs/"+page] {
			t.Errorf("no page leads to %q", page)
		}
	}
}

// What is not on a page names the prefix as well: redirects, the cookie, the API's description, what errors advise.
func TestPrefixInResponses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := AddToken(file, "me", ScopeAdmin, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(o *Options) { o.Prefix, o.Tokens = "/recs", tokens })
	h := s.Handler()
	c := client{t: t, h: h, token: secret}
	for from, to := range map[string]string{"/recs": "/recs/", "/recs//docs": "/recs/docs",
		"/recs/x/../docs": "/recs/docs"} {
		t.Run(from, func(t *testing.T) {
			if w := c.do("GET", from, nil); w.Code/100 != 3 || w.Header().Get("Location") != to {
				t.Errorf("%d to %q", w.Code, w.Header().Get("Location"))
			}
		})
	}
	if w := (client{t: t, h: h}).do("GET", "/recs/runs", nil); w.Code != 303 ||
		w.Header().Get("Location") != "/recs/login" {
		t.Errorf("without a token: %d to %q", w.Code, w.Header().Get("Location"))
	}
	post := func(path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Cookie", tokenCookie+"="+secret)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := post("/recs/login", url.Values{"token": {secret}}); w.Header().Get("Location") != "/recs/" ||
		!strings.Contains(w.Header().Get("Set-Cookie"), "Path=/recs/;") {
		t.Errorf("entering: %v", w.Header())
	}
	if w := post("/recs/runs/jobs", url.Values{"kind": {"evaluate"}}); w.Code != 303 ||
		!strings.HasPrefix(w.Header().Get("Location"), "/recs/runs?did=") {
		t.Errorf("a form: %d %v", w.Code, w.Header())
	}
	var spec struct{ Servers []struct{ URL string } }
	if err := json.Unmarshal(c.do("GET", "/recs/openapi.json", nil).Body.Bytes(), &spec); err != nil ||
		len(spec.Servers) != 1 || spec.Servers[0].URL != "/recs" {
		t.Errorf("openapi.json: %v, servers %v", err, spec.Servers)
	}
	for path, says := range map[string]string{
		"/recs/api/v1/recommendations?node=nobody":       "/recs/api/v1/nodes",
		"/recs/api/v1/nodes/nobody":                      "/recs/api/v1/nodes",
		"/recs/api/v1/nodes?field=none":                  "/recs/api/v1/model",
		"/recs/api/v1/bridges/reading?source=a&target=b": "/recs/api/v1/bridges", "/recs/api/v1/nothing": "/recs/docs",
		"/recs/node/nobody": "/recs/explore",
		"/":                 "below /recs/", "/docs": "below /recs/", "/recsandmore": "below /recs/",
		"/healthz": "below /recs/",
	} {
		t.Run(path, func(t *testing.T) {
			if w := c.do("GET", path, nil); w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), says) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// The address that a running service reports has the prefix.
func TestPrefixInAddress(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Prefix = "/recs" })
	ctx, stop := context.WithCancel(t.Context())
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, ServerOptions{Address: "127.0.0.1:0", Started: func(url string) { at <- url }})
	}()
	site := <-at
	r, err := http.Get(site + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || string(raw) != "alive\n" || !strings.HasSuffix(site, "/recs") {
		t.Errorf("at %s: %v %s", site, err, raw)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestCleanPrefix(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{"": "", "/": "", "/recs": "/recs", "/recs/": "/recs",
		"/a/b-c_d.e~1": "/a/b-c_d.e~1"} {
		t.Run(from, func(t *testing.T) {
			if got, err := cleanPrefix(from); err != nil || got != to {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for _, bad := range []string{"recs", "/a//b", "/a/../b", "/a b", "/ä", "/a?b", "/a#b", "/%41", "/{id}",
		"http://x/recs", "//host"} {
		if got, err := cleanPrefix(bad); err == nil {
			t.Errorf("%q is taken for %q", bad, got)
		}
	}
	if _, err := Open(t.Context(), Options{Folder: copyOf(t), Prefix: "recs"}); err == nil ||
		!strings.Contains(err.Error(), "such as /recs") {
		t.Errorf("opened: %v", err)
	}
}

// An id with signs that mean something in an address still has its page.
func TestNodeAddress(t *testing.T) {
	t.Parallel()
	s := &Service{o: Options{Prefix: "/recs"}}
	mux := http.NewServeMux()
	const id = "a/b?c#d %e&f"
	mux.HandleFunc(s.route("GET /node/{id}"), func(w http.ResponseWriter, r *http.Request) {
		if got := r.PathValue("id"); got != id {
			t.Errorf("%q", got)
		}
	})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", s.nodeAt(id), nil))
	if w.Code != 200 {
		t.Error(w.Code)
	}
}
