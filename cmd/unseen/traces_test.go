package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collect is a collector of traces on this machine.
func collect(t *testing.T) (address string, names func() []string) {
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &sent)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Team") != "search" {
			t.Errorf("%v, %s, %v", err, r.URL.Path, r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, of := range sent.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				all = append(all, a.Key+"="+a.Value.GetStringValue())
			}
			for _, scope := range of.ScopeSpans {
				for _, span := range scope.Spans {
					all = append(all, span.Name)
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// unseen serve --traces sends the spans of requests to a collector, at the latest when it stops.
func TestServeTraces(t *testing.T) {
	folder := t.TempDir()
	if code, _, stderr := invoke("demo", "--papers", "200", "--quiet", "--out", folder); code != exitOK {
		t.Fatal(stderr)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Team=search")
	address, names := collect(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, log, ended := &lockedBuffer{}, &lockedBuffer{}, make(chan int, 1)
	go func() {
		args := []string{"serve", folder, "--listen", "127.0.0.1:0", "--verbose", "--traces", address}
		ended <- run(ctx, args, out, log)
	}()
	var url string
	for deadline := time.Now().Add(time.Minute); url == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(out.String(), log.String())
		}
		if _, rest, ok := strings.Cut(out.String(), " at "); ok {
			url, _, _ = strings.Cut(rest, "\n")
		}
	}
	if status, _ := ask(t, url+"/api/v1/recommendations?node=p7", ""); status != 200 {
		t.Errorf("status %d", status)
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Fatalf("exit %d: %s", code, log)
	}
	got := names()
	for _, want := range []string{"getRecommendations", "search", "service.name=unseen"} {
		if !slices.Contains(got, want) {
			t.Errorf("the collector has %q, and not %s", got, want)
		}
	}
	if !strings.Contains(log.String(), "operation=getRecommendations") || !strings.Contains(log.String(), " trace=") {
		t.Errorf("no log line names its trace: %s", log)
	}
}

func TestTracesAddress(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"127.0.0.1:4318":     "give an address such as http://127.0.0.1:4318",
		"grpc://a:1":         "give an address",
		"https://u:secret@a": "OTEL_EXPORTER_OTLP_HEADERS",
	} {
		_, _, err := invoke("serve", "x", "--traces", address)
		if !strings.Contains(err, says) || strings.Contains(err, "secret@") {
			t.Errorf("%s: %s", address, err)
		}
	}
}
