package main

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// checkTraces checks the value of --traces.
func checkTraces(address string) error {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return nil
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return usagef("--traces is %q; give an address such as http://127.0.0.1:4318", redacted(address))
	case u.User != nil:
		return usagef("--traces has a password; give headers by OTEL_EXPORTER_OTLP_HEADERS instead")
	}
	return nil
}

// startTraces sends traces to a collector, by OTLP over HTTP. What the flag does not say the variables of OpenTelemetry
// do: OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME. stop sends what is left.
func startTraces(ctx context.Context, address string, log *slog.Logger) (provider *sdktrace.TracerProvider,
	stop func(), err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, nil, err
	}
	of, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "unseen"),
		attribute.String("service.version", readBuild().Version)), resource.WithFromEnv())
	if err != nil {
		return nil, nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("sending traces failed", "error", err)
	}))
	provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(of))
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("sending the last traces failed", "error", err)
		}
	}, nil
}
