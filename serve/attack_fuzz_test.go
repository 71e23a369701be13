package serve

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// fuzzBody sends bodies to one operation: bytes of any kind, and examples of which one value is replaced, which get
// further. No answer is a fault of the service or long, and what the check lets through is what the operation can
// decode.
func fuzzBody[T any](f *testing.F, method, path string, examples ...string) {
	s := open(f)
	other := s.Models().Current
	if strings.Contains(strings.Join(examples, ""), "OTHER") {
		job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
		if err == nil {
			job, err = s.WaitJob(f.Context(), job.ID)
		}
		if other = job.Model; err != nil || other == "" {
			f.Fatalf("%v: %+v", err, job)
		}
	}
	if path == "/api/v1/jobs" {
		s.jobs.swap.Lock() // so that no model is swapped
		f.Cleanup(s.jobs.swap.Unlock)
	}
	api := s.register(http.NewServeMux())
	h := s.Handler()
	op := api.OpenAPI().Paths[path].Post
	switch method {
	case "PUT":
		op = api.OpenAPI().Paths[path].Put
	case "PATCH":
		op = api.OpenAPI().Paths[path].Patch
	}
	schema := op.RequestBody.Content["application/json"].Schema
	names := strings.NewReplacer("DIGEST", s.Models().Current, "OTHER", other, "FIELD", s.Graph().FieldName(1))
	for _, r := range hostile {
		if r.body != "" && len(r.body) < 1000 {
			f.Add([]byte(r.body), uint8(0), "")
		}
	}
	for _, example := range examples {
		example = names.Replace(example)
		if status, text := throw(f, h, method, path, "application/json", []byte(example)); status >= 300 {
			f.Fatalf("%s %s %s: %d %s", method, path, example, status, text)
		}
		f.Add([]byte(example), uint8(0), "")
		for leaf := range uint8(countLeaves([]byte(example))) {
			for _, value := range []string{`null`, `-1`, `1e308`, `1e999`, `9007199254740993`, `""`, `"\u0000"`,
				`"�"`, `[]`, `{}`, `[[]]`, `true`, `"9999-12-31T23:59:59.999999999+23:59"`,
				`"` + strings.Repeat("x", 2000) + `"`} {
				f.Add([]byte(example), leaf+1, value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, leaf uint8, value string) {
		if leaf > 0 {
			body = replaceLeaf(body, int(leaf)-1, value)
		}
		refused := checkBody(schema, api.OpenAPI().Components.Schemas, body)
		if refused == nil {
			// numbers may be whole and yet too large for their type, which the decoder says
			if err := json.Unmarshal(body, new(T)); err != nil {
				if _, number := err.(*json.UnmarshalTypeError); !number {
					t.Errorf("%q passes the check: %v", body, err)
				}
			}
		} else if len(refused.Errors) > maxFaults {
			t.Errorf("%q: %d errors", body, len(refused.Errors))
		}
		if status, text := throw(t, h, method, path, "application/json", body); status >= 500 || len(text) > 1<<20 {
			t.Errorf("%q: %d %.300s", body, status, text)
		}
	})
}

func FuzzRecommendBodies(f *testing.F) {
	fuzzBody[RecommendRequest](f, "POST", "/api/v1/recommendations",
		`{"node":"p1","k":3,"seed":1,"explore":0.5,"fields":["FIELD"],"exclude":["p2"],"compare":true,"explain":true}`,
		`{"node":"p7","k":5,"until":"2051-01-31","linked":true,"diversity":0.5,"seen":false}`,
		`{"node":"p3","k":2,"log":true,"surface":"mail","seed":7}`,
		`{"history":["p3","p4"],"weights":[1,0.5],"k":2}`, `{"nodes":["p3","p4"],"weights":[1,2],"k":2}`,
		`{"anybody":true,"k":2,"exclude":["p1"]}`)
}

func FuzzEventBodies(f *testing.F) {
	fuzzBody[eventBatch](f, "POST", "/api/v1/events",
		`{"events":[{"id":"a","kind":"shown","source":"p1","target":"p2","at":"2026-01-01T00:00:00Z",`+
			`"probability":0.5,"model":"DIGEST","list":"1-DIGEST-2","position":1,"surface":"home","placed":0.5,`+
			`"candidates":"all/12/0123456789ab"}]}`,
		`{"events":[{"id":"b","kind":"clicked","source":"p1","target":"p2"},`+
			`{"id":"c","kind":"linked","source":"p1","target":"p2","seq":4},`+
			`{"id":"d","kind":"dismissed","source":"p1","target":"p2"}]}`)
}

func FuzzNodeBodies(f *testing.F) {
	fuzzBody[nodeBatch](f, "PUT", "/api/v1/nodes",
		`{"nodes":[{"id":"new","title":"a title","text":"a text","field":"FIELD","time":"2024-01-31","role":"both",`+
			`"vector":[1,0,0,0,0,0,0,0.5],"links":["p1","new","nobody"]}]}`,
		`{"nodes":[{"id":"p1","title":"another"},{"id":"p1"}]}`)
}

func FuzzNodePatches(f *testing.F) {
	fuzzBody[nodeBatch](f, "PATCH", "/api/v1/nodes", `{"nodes":[{"id":"p1","title":"another","time":"2024"}]}`)
}

func FuzzJobBodies(f *testing.F) {
	fuzzBody[JobRequest](f, "POST", "/api/v1/jobs", `{"kind":"retrain","method":"naive","trainOnly":true}`,
		`{"kind":"evaluate","model":"DIGEST"}`, `{"kind":"value","model":"DIGEST","rule":"popular"}`)
}

func FuzzABTestBodies(f *testing.F) {
	fuzzBody[ABTestRequest](f, "PUT", "/api/v1/ab-test", `{"model":"OTHER","share":0.5}`)
}

// countLeaves counts the values of a body that hold no others.
func countLeaves(body []byte) (n int) {
	var of any
	if json.Unmarshal(body, &of) == nil {
		eachLeaf(of, func(any) any { n++; return nil })
	}
	return n
}

// replaceLeaf puts other JSON, or a text, into the place of a leaf.
func replaceLeaf(body []byte, leaf int, value string) []byte {
	var of any
	if json.Unmarshal(body, &of) != nil {
		return body
	}
	n := 0
	of = eachLeaf(of, func(was any) any {
		if n++; n-1 != leaf {
			return was
		}
		if json.Valid([]byte(value)) {
			return json.RawMessage(value)
		}
		return value
	})
	raw, err := json.Marshal(of)
	if err != nil {
		return body
	}
	return bytes.ReplaceAll(raw, []byte("�"), []byte(`\ud800`)) // half a letter
}

// eachLeaf replaces every leaf, in the order of the keys.
func eachLeaf(of any, with func(any) any) any {
	switch of := of.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(of)) {
			of[key] = eachLeaf(of[key], with)
		}
		return of
	case []any:
		for k := range of {
			of[k] = eachLeaf(of[k], with)
		}
		return of
	}
	return with(of)
}

// FuzzQueries sends any values of two parameters, in the path and the query, and of a header to every operation that
// only reads.
func FuzzQueries(f *testing.F) {
	s := open(f)
	api := s.register(http.NewServeMux())
	h := s.Handler()
	type read struct {
		path   string
		params []*huma.Param
	}
	var reads []read
	paths := api.OpenAPI().Paths
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if op := paths[path].Get; op != nil && op.OperationID != "job-progress" {
			reads = append(reads, read{path, op.Parameters})
		}
	}
	for _, page := range []string{"/", "/explore", "/node/p1", "/exposure", "/loop", "/bridges", "/runs", "/alarm",
		"/metrics"} {
		reads = append(reads, read{path: page})
	}
	reads = append(reads, read{"/data", []*huma.Param{{Name: "q"}, {Name: "offset"}, {Name: "add"}, {Name: "did"},
		{Name: "events"}}}, read{"/data/node", []*huma.Param{{Name: "id"}, {Name: "did"}}})
	headers := []string{"Authorization", "Cookie", "X-Request-Id", "Accept", "Origin", "Sec-Fetch-Site", "Range",
		"If-None-Match", "If-Modified-Since", "Accept-Encoding", "Content-Type", "Referer", "X-Forwarded-Proto",
		"X-Forwarded-For", "Forwarded", "Via", "Expect", "Last-Event-Id"}
	values := []string{"p1", "", "-1", "0", "1e308", "NaN", "9223372036854775807", "2026-13-45", "\x00", "\xff", "true",
		strings.Repeat("9", 400), "a,b;c", "%", "../..", "\r\nSet-Cookie: a=b"}
	for k := range reads {
		for n, value := range values {
			f.Add(uint8(k), uint8(n), value, uint8(n+1), "1", uint8(n), value)
			f.Add(uint8(k), uint8(0), "p1", uint8(n), value, uint8(n+1), "bytes=0-1,-9223372036854775808")
		}
	}
	f.Fuzz(func(t *testing.T, which, first uint8, value string, second uint8, other string, header uint8, text string) {
		to := reads[int(which)%len(reads)]
		query, path := url.Values{}, to.path
		for k, one := range []uint8{first, second} {
			given := []string{value, other}[k]
			if len(to.params) == 0 {
				query.Add(given, value)
				continue
			}
			switch p := to.params[int(one)%len(to.params)]; p.In {
			case "path":
				path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(given))
			default:
				query.Add(p.Name, given)
			}
		}
		path += "?" + query.Encode()
		status, answer := throwWith(t, h, "GET", path, http.Header{headers[int(header)%len(headers)]: {text}})
		if status >= 500 || len(answer) > 8<<20 {
			t.Errorf("%s, %s: %q: %d %.300s", path, headers[int(header)%len(headers)], text, status, answer)
		}
	})
}
