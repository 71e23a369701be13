package serve

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// Every operation has a readable name, a tag that is described, and a schema for every answer; examples fit theirs.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	api := document()
	names, tags := map[string]bool{}, map[string]bool{}
	for _, tag := range api.Tags {
		tags[tag.Name] = true
	}
	readable := regexp.MustCompile(`^[a-z]+([A-Z]+[a-z]+)+$|^recommend$`)
	fits := func(what string, content *huma.MediaType) {
		t.Helper()
		if content.Example == nil {
			return
		}
		var value any
		if err := json.Unmarshal(content.Example.(json.RawMessage), &value); err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		result := huma.ValidateResult{}
		huma.Validate(api.Components.Schemas, content.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer,
			value, &result)
		for _, err := range result.Errors {
			t.Errorf("the example of %s: %v", what, err)
		}
	}
	for _, op := range operationsOf(api) {
		if !readable.MatchString(op.OperationID) || names[op.OperationID] {
			t.Errorf("%s %s has the name %q", op.Method, op.Path, op.OperationID)
		}
		names[op.OperationID] = true
		if len(op.Tags) != 1 || !tags[op.Tags[0]] {
			t.Errorf("%s has the tags %q; describe them in apiTags", op.OperationID, op.Tags)
		}
		if op.RequestBody != nil && !op.Deprecated {
			content := op.RequestBody.Content["application/json"]
			if content.Example == nil {
				t.Errorf("%s takes a body and has no example", op.OperationID)
			}
			fits(op.OperationID, content)
		}
		for _, status := range commonErrors {
			if op.Responses[strconv.Itoa(status)] == nil {
				t.Errorf("%s does not declare %d", op.OperationID, status)
			}
		}
		for status, answer := range op.Responses {
			want := "#/components/schemas/Problem"
			if status[0] == '2' {
				want = ""
			}
			if len(answer.Content) == 0 {
				t.Errorf("%s has no schema for %s", op.OperationID, status)
			}
			for kind, content := range answer.Content {
				if content.Schema == nil || want != "" && (content.Schema.Ref != want || kind != problemType) {
					t.Errorf("%s answers %s with %s %+v", op.OperationID, status, kind, content.Schema)
				}
				fits(op.OperationID+" "+status, content)
			}
		}
	}
	for pattern, name := range operationNames {
		if !names[name] {
			t.Errorf("%s is named %s and does not exist", pattern, name)
		}
	}
	for name := range examples {
		if !names[name] {
			t.Errorf("there is an example of %s, which does not exist", name)
		}
	}
}

// conforms checks an answer of the API against what the document says of it.
func conforms(t testing.TB, method, path string, w *httptest.ResponseRecorder) {
	t.Helper()
	op := documented(method, path)
	if op == nil {
		return
	}
	answer := op.Responses[strconv.Itoa(w.Code)]
	if answer == nil {
		t.Errorf("%s %s: the document of %s does not have %d", method, path, op.OperationID, w.Code)
		return
	}
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	content := answer.Content[kind]
	if content == nil {
		t.Errorf("%s %s: the document of %s does not have %s of %d", method, path, op.OperationID, kind, w.Code)
		return
	}
	if !strings.HasSuffix(kind, "json") {
		return
	}
	var value any
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
		return // a test that wants JSON says so
	}
	result := huma.ValidateResult{}
	huma.Validate(document().Components.Schemas, content.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer,
		value, &result)
	if len(result.Errors) > 0 {
		t.Errorf("%s %s: %d does not fit its schema in %d places: %v", method, path, w.Code, len(result.Errors),
			result.Errors[0])
	}
}

// documented is the operation of a request, or nil.
func documented(method, path string) *huma.Operation {
	path, _, _ = strings.Cut(path, "?")
	for _, op := range operationsOf(document()) {
		parts, of := strings.Split(path, "/"), strings.Split(op.Path, "/")
		if op.Method == method && slices.EqualFunc(parts, of, func(part, of string) bool {
			return part == of || strings.HasPrefix(of, "{") && part != "" && part != "rollback"
		}) {
			return op
		}
	}
	return nil
}

// HTML is for browsers that meet an error, whatever they opened; programs get problem documents.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	tokens, _ := withTokens(t)
	s, closed := open(t), open(t, tokens)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, test := range []struct {
		s            *Service
		method, path string
		status       int
		says         string
	}{
		{s, "GET", "/nothing", 404, "no such pa"}, // path or page
		{s, "GET", "/api/v1/nothing", 404, "no such path"},
		{s, "GET", "/api/v1/nodes/nobody", 404, "is not in the dataset"},
		{s, "GET", "/api/v1/nodes?limit=x", 422, "validation failed"},
		{s, "DELETE", "/healthz", 405, "method not allowed"},
		{s, "POST", "/api/v1/models/rollback", 409, "no previous model"},
		{closed, "GET", "/api/v1/model", 401, "token required"},
		{closed, "GET", "/metrics", 401, "token required"},
	} {
		for accept, html := range map[string]bool{
			browser: true, "text/html": true, "": false, "*/*": false, "application/json": false,
			"text/html;q=0.5, application/json": false, "application/problem+json, text/html": false,
		} {
			r := fromHere(httptest.NewRequest(test.method, test.path, nil))
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			w := httptest.NewRecorder()
			test.s.Handler().ServeHTTP(w, r)
			kind := map[bool]string{true: "text/html; charset=utf-8", false: problemType}[html]
			if w.Code != test.status || w.Header().Get("Content-Type") != kind ||
				!strings.Contains(strings.ToLower(w.Body.String()), test.says) ||
				strings.Contains(w.Body.String(), "<!doctype html>") != html ||
				!strings.Contains(w.Body.String(), w.Header().Get("X-Request-Id")) {
				t.Errorf("%s %s, Accept %q: %d %s\n%s", test.method, test.path, accept, w.Code,
					w.Header().Get("Content-Type"), w.Body)
			}
			if test.status == 401 && strings.Contains(w.Body.String(), "/exposure") {
				t.Errorf("%s shows the navigation to somebody without a token", test.path)
			}
		}
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "no such path": "No such path.", "éa": "Éa.", "Is.": "Is.",
		"send Bearer …": "Send Bearer …"} {
		if got := sentence(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// What the state of the service forbids is 409, and says what to do.
func TestConflicts(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	w := c.do("POST", "/api/v1/jobs", JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
	if at := w.Header().Get("Location"); w.Code != 202 || at != "/api/v1/jobs/1" {
		t.Fatalf("%d, Location %q", w.Code, at)
	}
	job := want[Job](c, 200, "GET", w.Header().Get("Location"), nil)
	job, err := s.WaitJob(t.Context(), job.ID)
	if err != nil || job.State != JobDone {
		t.Fatalf("%v, %+v", err, job)
	}
	_, live := s.Current()
	refused := func(method, path string, body any, says string) {
		t.Helper()
		if w := c.do(method, path, body); w.Code != 409 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	refused("DELETE", "/api/v1/jobs/1", nil, "the job has ended: it is done")
	refused("POST", "/api/v1/models/rollback", nil, "no previous model")
	refused("PUT", "/api/v1/ab-test", ABTestRequest{Model: live, Share: .5}, "is live already")
	first := want[ABTest](c, 200, "PUT", "/api/v1/ab-test", ABTestRequest{Model: job.Model, Share: .5})
	again := want[ABTest](c, 200, "PUT", "/api/v1/ab-test", ABTestRequest{Model: job.Model, Share: .5})
	if again != first {
		t.Errorf("the same request made another test: %+v, %+v", first, again)
	}
	refused("PUT", "/api/v1/ab-test", ABTestRequest{Model: job.Model, Share: .25}, "another A/B test runs")
	want[Comparison](c, 200, "DELETE", "/api/v1/ab-test", nil)
	want[ABTest](c, 200, "PUT", "/api/v1/ab-test", ABTestRequest{Model: job.Model, Share: .25})
	want[ModelEntry](c, 200, "POST", "/api/v1/models/"+job.Model+"/deploy", nil)
	want[ModelEntry](c, 200, "POST", "/api/v1/models/rollback", nil)
	refused("POST", "/api/v1/models/rollback", nil, "no previous model")
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{"*": "not an origin", "null": "not an origin", "shop.example": "not an",
		"https://*.example": "not an origin", "https://a/b": "not an", "ftp://a": "not an", "https://u@a": "not an"} {
		if _, err := cleanOrigins([]string{text}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	clean, err := cleanOrigins([]string{"https://Shop.example:443/", "http://[::1]:80", "http://localhost:3000"})
	if want := []string{"https://shop.example", "http://[::1]", "http://localhost:3000"}; err != nil ||
		!slices.Equal(clean, want) {
		t.Errorf("%v, %q", err, clean)
	}
	tokens, secrets := withTokens(t)
	s := open(t, tokens, func(o *Options) { o.Origins = []string{"https://shop.example"} })
	h := s.Handler()
	const shop, evil = "https://shop.example", "https://evil.example"
	event := `{"events":[{"id":"x%d","kind":"shown","source":"p1","target":"p2"}]}`
	for n, test := range []struct {
		status               int
		allowed              bool
		method, path, origin string
		headers              []string
	}{
		{204, true, "OPTIONS", "/api/v1/events", shop, []string{"Access-Control-Request-Method", "POST"}},
		{403, false, "OPTIONS", "/api/v1/events", evil, []string{"Access-Control-Request-Method", "POST",
			"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}},
		{200, true, "POST", "/api/v1/events", shop, []string{"Authorization", "Bearer " + secrets[ScopeWrite]}},
		{403, true, "POST", "/api/v1/events", shop, []string{"Authorization", "Bearer " + secrets[ScopeRead]}},
		{401, true, "POST", "/api/v1/events", shop, nil},
		// the visitor's cookie is not the page's
		{401, true, "POST", "/api/v1/events", shop, []string{"Cookie", tokenCookie + "=" + secrets[ScopeAdmin]}},
		{415, true, "POST", "/api/v1/events", shop, []string{"Authorization", "Bearer " + secrets[ScopeWrite],
			"Content-Type", "text/plain"}},
		{403, false, "POST", "/api/v1/events", evil, []string{"Authorization", "Bearer " + secrets[ScopeWrite]}},
		{403, false, "POST", "/api/v1/events", "null", []string{"Authorization", "Bearer " + secrets[ScopeWrite]}},
		{403, false, "POST", "/api/v1/events", shop + ".evil.example", []string{"Authorization", "Bearer " +
			secrets[ScopeWrite]}},
		{200, true, "GET", "/api/v1/nodes", shop, []string{"Authorization", "Bearer " + secrets[ScopeRead]}},
		{404, true, "GET", "/api/v1/nodes/nobody", shop, []string{"Authorization", "Bearer " + secrets[ScopeRead]}},
		// only the API: not the pages and their forms
		{403, false, "POST", "/runs/rollback", shop, []string{"Cookie", tokenCookie + "=" + secrets[ScopeAdmin]}},
		{403, false, "POST", "/login", shop, nil},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		if test.method == "POST" {
			r = httptest.NewRequest(test.method, test.path, strings.NewReader(fmt.Sprintf(event, n)))
			r.Header.Set("Content-Type", "application/json")
		}
		r.Header.Set("Origin", test.origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "cors")
		for k := 0; k < len(test.headers); k += 2 {
			r.Header.Set(test.headers[k], test.headers[k+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, fromHere(r))
		allow := w.Header().Get("Access-Control-Allow-Origin")
		if w.Code != test.status || (allow == shop) != test.allowed || allow != "" && allow != shop ||
			w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%d: %s %s from %s: %d, %v", n, test.method, test.path, test.origin, w.Code, w.Header())
		}
		if strings.HasPrefix(test.path, "/api/") && w.Header().Get("Vary") != "Origin" {
			t.Errorf("%d: a cache could give the answer to another origin: %v", n, w.Header())
		}
	}
	// off by default
	r := fromHere(httptest.NewRequest("OPTIONS", "/api/v1/events", nil))
	r.Header.Set("Origin", shop)
	r.Header.Set("Access-Control-Request-Method", "POST")
	w := httptest.NewRecorder()
	open(t).Handler().ServeHTTP(w, r)
	if w.Code < 400 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without origins: %d %v", w.Code, w.Header())
	}
}
