package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// A request is a trace with the search and the store below it, in the trace of the caller; a job is one with its
// phases. Log lines name the trace, and no trace names a node. Long because one run of the service is looked at from
// every side.
func TestTraces(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	log := &lockedBuffer{}
	s := open(t, func(o *Options) {
		o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		o.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	ask := func(method, path, body string, headers ...string) {
		r := fromHere(httptest.NewRequest(method, path, strings.NewReader(body)))
		for k := 0; k < len(headers); k += 2 {
			r.Header.Set(headers[k], headers[k+1])
		}
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	const caller = "0af7651916cd43dd8448eb211c80319c"
	ask("POST", "/api/v1/recommendations", `{"node":"p17","k":5,"log":true}`,
		"Traceparent", "00-"+caller+"-b7ad6b7169203331-01", "X-Request-Id", "visit")
	ask("GET", "/api/v1/nodes/nobody", "")
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	var spans []sdktrace.ReadOnlySpan
	named := func(name string) sdktrace.ReadOnlySpan {
		t.Helper()
		for _, span := range spans {
			if span.Name() == name {
				return span
			}
		}
		t.Fatalf("no span %s", name)
		return nil
	}
	poll(t, "the job's span", func() bool {
		spans = recorder.Ended()
		return slices.ContainsFunc(spans, func(span sdktrace.ReadOnlySpan) bool { return span.Name() == "job retrain" })
	})
	request := named("recommend")
	if request.SpanContext().TraceID().String() != caller || request.Parent().SpanID().String() != "b7ad6b7169203331" ||
		request.SpanKind() != trace.SpanKindServer {
		t.Errorf("the request is %+v", request)
	}
	for _, name := range []string{"search", "store"} {
		if span := named(name); span.Parent().SpanID() != request.SpanContext().SpanID() {
			t.Errorf("%s is not below the request", name)
		}
	}
	training := named("job retrain")
	below := []string{}
	for _, span := range spans {
		if span.Parent().SpanID() == training.SpanContext().SpanID() {
			below = append(below, span.Name())
		}
		text := span.Name()
		for _, a := range span.Attributes() {
			text += " " + a.Value.String()
		}
		if strings.Contains(text, "p17") || strings.Contains(text, "nobody") || span.Status().Code == codes.Error {
			t.Errorf("span %s: %+v", text, span.Status())
		}
	}
	if len(below) < 3 || below[0] != "reading the log" || !slices.Contains(below, "validating") {
		t.Errorf("the phases of the job are %q", below)
	}
	for line := range strings.Lines(log.String()) {
		var of struct{ Msg, Trace, Span, Operation string }
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatal(err)
		}
		want := map[string]trace.SpanContext{"request recommend": request.SpanContext(),
			"job started ": training.SpanContext(), "job done ": training.SpanContext()}
		if in, ok := want[of.Msg+" "+of.Operation]; ok && (of.Trace != in.TraceID().String() ||
			of.Span != in.SpanID().String()) {
			t.Errorf("want the trace %s in %s", in.TraceID(), line)
		}
	}
	if !strings.Contains(log.String(), caller) {
		t.Error("no line of the log names the caller's trace")
	}
}

// Without traces nothing is made: no span, no context, no allocation.
func TestNoTraces(t *testing.T) {
	s := &Service{}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		inner, span := s.span(ctx, "search")
		endSpan(span, nil)
		if inner != ctx {
			t.Error("another context")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var log bytes.Buffer
	h := slog.New(tracedLog{slog.NewTextHandler(&log, nil)}).With("a", 1).WithGroup("g")
	h.InfoContext(ctx, "line")
	if strings.Contains(log.String(), "trace") {
		t.Error(log.String())
	}
}

// What traces cost a recommendation, without and with a provider.
func BenchmarkTraces(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprint("on=", on), func(b *testing.B) {
			s := open(b, func(o *Options) {
				if on {
					o.Traces = sdktrace.NewTracerProvider()
				}
			})
			h := s.Handler()
			for b.Loop() {
				h.ServeHTTP(httptest.NewRecorder(), fromHere(httptest.NewRequest("GET",
					"/api/v1/recommendations?node=p17&k=5", nil)))
			}
		})
	}
}
