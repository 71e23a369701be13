package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// A trace shows where the time of a request or a job goes:
//
//	recommend            request, with the trace of the caller if it sends one (traceparent)
//	├─ search            the list
//	└─ store             the events
//	job retrain
//	├─ reading the log   the phases of the job
//	└─ …
//
// It names operations and sizes, and no node and nobody who asks. Without Options.Traces nothing of this is computed.

var noSpan trace.Span = noop.Span{}

// span starts a part of a trace.
func (s *Service) span(ctx context.Context, name string) (context.Context, trace.Span) {
	if s.tracer == nil {
		return ctx, noSpan
	}
	return s.tracer.Start(ctx, name)
}

// endSpan ends a part of a trace. It does not say what the error was, because errors name nodes; the log does.
func endSpan(span trace.Span, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// requestSpan starts the span of a request.
func (s *Service) requestSpan(r *http.Request) (context.Context, trace.Span) {
	if s.tracer == nil {
		return r.Context(), noSpan
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return s.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
}

// endRequest ends the span of a request.
func endRequest(span trace.Span, method string, c *caller, status int) {
	if span.IsRecording() {
		span.SetName(c.operation)
		span.SetAttributes(attribute.String("http.request.method", method),
			attribute.Int("http.response.status_code", status), attribute.String("unseen.request", c.id))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
	}
	span.End()
}

// phases are the spans of the phases of a job, one after the other.
type phases struct {
	s   *Service
	ctx context.Context // with the span of the job

	mu   sync.Mutex
	name string
	span trace.Span
}

// enter ends the last phase and starts another, unless it is the same.
func (p *phases) enter(name string) {
	if p.s.tracer == nil || name == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == p.name {
		return
	}
	if p.span != nil {
		p.span.End()
	}
	p.name = name
	_, p.span = p.s.span(p.ctx, name)
}

// end ends the last phase.
func (p *phases) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.span != nil {
		endSpan(p.span, err)
	}
}

// tracedLog adds the trace to the lines that are logged within one.
type tracedLog struct{ slog.Handler }

func (h tracedLog) Handle(ctx context.Context, line slog.Record) error {
	if in := trace.SpanContextFromContext(ctx); in.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace", in.TraceID().String()), slog.String("span", in.SpanID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

func (h tracedLog) WithAttrs(attributes []slog.Attr) slog.Handler {
	return tracedLog{h.Handler.WithAttrs(attributes)}
}

func (h tracedLog) WithGroup(name string) slog.Handler { return tracedLog{h.Handler.WithGroup(name)} }
