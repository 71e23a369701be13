package serve

import (
	"encoding/json"
	"net/http"
	"testing"
)

// FuzzBodies sends any body to each operation that takes one: no answer is a fault of the service or long, and what
// the check lets through is what the operation can decode.
func FuzzBodies(f *testing.F) {
	paths := []struct {
		method, path string
		into         func() any
	}{
		{"POST", "/api/v1/recommendations", func() any { return new(RecommendRequest) }},
		{"POST", "/api/v1/events", func() any { return new(eventBatch) }},
		{"POST", "/api/v1/jobs", func() any { return new(JobRequest) }},
		{"PUT", "/api/v1/ab-test", func() any { return new(abTestRequest) }},
	}
	s := open(f)
	s.jobs.swap.Lock() // so that no model is swapped
	api := s.register(http.NewServeMux())
	h := s.Handler()
	for _, r := range hostile {
		for k := range paths {
			if r.body != "" && len(r.body) < 1000 {
				f.Add(uint8(k), []byte(r.body))
			}
		}
	}
	for k, body := range []string{`{"node":"p1","k":3,"seed":1,"explore":0.5,"fields":["A"],"exclude":null}`,
		`{"events":[{"id":"a","kind":"shown","source":"p1","target":"p2","at":"2026-01-01T00:00:00Z"}]}`,
		`{"kind":"dance","method":"naive"}`, `{"model":"abcdef","share":0.5}`} {
		f.Add(uint8(k), []byte(body))
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		to := paths[int(which)%len(paths)]
		schema := api.OpenAPI().Paths[to.path].Post
		if to.method == "PUT" {
			schema = api.OpenAPI().Paths[to.path].Put
		}
		refused := checkBody(schema.RequestBody.Content["application/json"].Schema,
			api.OpenAPI().Components.Schemas, body)
		if refused == nil {
			// numbers may be whole and yet too large for their type, which the decoder says
			if err := json.Unmarshal(body, to.into()); err != nil {
				if _, number := err.(*json.UnmarshalTypeError); !number {
					t.Errorf("%s %q passes the check: %v", to.path, body, err)
				}
			}
		} else if len(refused.Errors) > maxFaults {
			t.Errorf("%s %q: %d errors", to.path, body, len(refused.Errors))
		}
		if to.path == "/api/v1/jobs" && refused == nil {
			t.Skip("jobs take a while, and are tested elsewhere")
		}
		if status, text := throw(t, h, to.method, to.path, "application/json", body); status >= 500 ||
			len(text) > 1<<20 {
			t.Errorf("%s %q: %d %.300s", to.path, body, status, text)
		}
	})
}
