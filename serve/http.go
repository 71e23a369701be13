package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"unseen/hint"
)

// ServerOptions describe the server that Run starts.
type ServerOptions struct {
	Address   string           // host:port; "" means 127.0.0.1:8080
	Cert, Key string           // files, for TLS
	Drain     time.Duration    // how long requests in progress may take to end; 0 means 10 seconds
	Started   func(url string) // called with the address, with the prefix and without a slash at the end
}

// ErrUnprotected: other machines can reach the address, and there are no tokens.
var ErrUnprotected = errors.New("a public address needs protection")

// Run serves requests until the context ends; then it rejects new ones, lets those in progress end, and
// returns. Requests that still run after ServerOptions.Drain are aborted, and Close waits for them. It
// returns ErrClosed if the service is or gets closed.
func (s *Service) Run(ctx context.Context, l ServerOptions) error {
	if l.Address == "" {
		l.Address = "127.0.0.1:8080"
	}
	if l.Drain == 0 {
		l.Drain = 10 * time.Second
	}
	if s.life.Err() != nil {
		return ErrClosed
	}
	if (l.Cert == "") != (l.Key == "") {
		return errors.New("TLS needs both a certificate and its key")
	}
	open := s.o.Tokens != nil || s.o.Open // TLS hides what is said, and lets anybody say it
	if !open && !listensLocally(l.Address) {
		return hint.Wrap(fmt.Errorf("%w: other machines can reach %s", ErrUnprotected, l.Address),
			"set %v, or %v behind a proxy that authenticates, or use an address such as 127.0.0.1:8080",
			hint.Setting("tokens"), hint.Setting("open"))
	}
	socket, err := net.Listen("tcp", l.Address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: s.handler(open), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTime, ReadTimeout: readTime,
		WriteTimeout: writeTime, IdleTimeout: idleTime,
		ConnState: newConnections(maxConnections, s.metrics.disconnected.Inc).changed,
		ErrorLog:  slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	scheme := "http"
	if l.Cert != "" {
		scheme = "https"
	}
	if l.Started != nil {
		l.Started(scheme + "://" + browserAddress(socket.Addr()) + s.o.Prefix)
	}
	ended := make(chan error, 1)
	go func() {
		if l.Cert != "" {
			ended <- server.ServeTLS(socket, l.Cert, l.Key)
		} else {
			ended <- server.Serve(socket)
		}
	}()
	var closed error
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-s.life.Done():
		closed = ErrClosed
	}
	s.draining.Store(true) // ends readiness and the streams of progress
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Drain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		server.Close()
		return fmt.Errorf("aborted requests that still ran after %v: %w", l.Drain, err)
	}
	return closed
}

// browserAddress is an address for a browser on this machine: a service on all addresses is also on localhost.
func browserAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return a.String()
}

// listensLocally reports whether only this machine can reach an address.
func listensLocally(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return isLoopback(host)
}

// localOnly rejects requests from other machines, also those that a proxy forwards, and requests for other host names:
// a foreign page whose name points to this machine could otherwise read through the visitor's browser.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		from, _, err := net.SplitHostPort(r.RemoteAddr)
		local := err == nil && isLoopback(from)
		local = local && !forwardedFromElsewhere(r.Header)
		switch {
		case !local:
			err := hint.Wrap(errors.New("only this machine may connect to a service without tokens"),
				"set %v of the service, or %v to let everybody in", hint.Setting("tokens"), hint.Setting("open"))
			newProblem(http.StatusForbidden, err).write(w, requestID(r.Context()))
		case !isLoopback(strings.Trim(host, "[]")):
			newProblem(http.StatusMisdirectedRequest, hint.Wrap(errors.New("this service is local"),
				"use localhost as the host name")).write(w, requestID(r.Context()))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// forwardingHeaders say for whom a proxy asks.
var forwardingHeaders = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip",
	"Cf-Connecting-Ip", "Fastly-Client-Ip", "X-Cluster-Client-Ip", "X-Forwarded", "Forwarded-For",
	"X-Original-Forwarded-For", "X-Envoy-External-Address", "X-Forwarded-Host", "Via"}

// forwardedFromElsewhere reports whether a proxy asks for somebody who is not on this machine, or
// does not say for whom.
func forwardedFromElsewhere(h http.Header) bool {
	for _, name := range forwardingHeaders {
		for _, list := range h.Values(name) {
			for one := range strings.FieldsFuncSeq(list, func(c rune) bool { return c == ',' || c == ';' }) {
				one = strings.ToLower(strings.TrimSpace(one))
				if key, value, ok := strings.Cut(one, "="); ok { // Forwarded: for="[::1]:80";proto=http
					if one = value; key == "proto" {
						continue
					}
				}
				one = strings.Trim(one, `"`)
				if host, _, err := net.SplitHostPort(one); err == nil {
					one = host
				}
				if !isLoopback(strings.Trim(one, "[]")) {
					return true
				}
			}
		}
	}
	return false
}

// overTLS reports whether the visitor's connection is encrypted, here or at a proxy. Anybody can claim the latter, of
// their own connection.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") ||
		strings.EqualFold(r.Header.Get("X-Forwarded-Ssl"), "on") ||
		strings.Contains(strings.ToLower(r.Header.Get("Forwarded")), "proto=https")
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Handler returns the handler of the API and the pages, below Options.Prefix, for a server of your own:
//
//	mux.Handle("/recs/", s.Handler()) // with Options.Prefix "/recs"
//
// Without Options.Tokens it serves this machine only: it rejects requests from other addresses, also
// forwarded ones, and requests for other host names than localhost, unless Options.Open says that your
// server authenticates. Time and header limits are those of your server; see Run. Shut the server down
// before Close.
func (s *Service) Handler() http.Handler { return s.handler(s.o.Tokens != nil || s.o.Open) }

// handler serves everything, to other machines only if it is open.
func (s *Service) handler(open bool) http.Handler {
	mux := http.NewServeMux()
	api := s.register(mux)
	mux.HandleFunc(s.route("GET /healthz"), func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc(s.route("GET /readyz"), s.readyz)
	mux.Handle(s.route("GET /metrics"), s.requireScope(ScopeRead,
		promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})))
	pages := s.sitePages(mux, api)
	s.redirectPrefix(mux)
	inner := s.whileOpen(s.sameOrigin(s.answerUnknown(mux)))
	if !open {
		inner = localOnly(inner)
	}
	return s.instrument(pages, inner)
}

// sameOrigin rejects what pages of other sites send through a visitor's browser. Nothing that changes anything comes
// through: a browser says where a request comes from (Sec-Fetch-Site, Origin), and a form cannot say that it is JSON.
// Of the API pages of other sites may not read either, whatever the method, so that nobody computes for them; those of
// Options.Origins may use the API, by what they know themselves and not by what the visitor's browser knows.
func (s *Service) sameOrigin(next http.Handler) http.Handler {
	writes := http.NewCrossOriginProtection()
	reject := func(w http.ResponseWriter, r *http.Request, status int, what, advice string) {
		newProblem(status, hint.Wrap(errors.New(what), "%s", advice)).write(w, requestID(r.Context()))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api := strings.HasPrefix(r.URL.Path, s.at("/api/"))
		site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode")
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		fromBrowser := site != "" || r.Header.Get("Origin") != ""
		listed := api && s.allowOrigin(w, r)
		switch {
		case listed && isPreflight(r):
			w.WriteHeader(http.StatusNoContent)
		case !listed && (writes.Check(r) != nil ||
			api && (site == "cross-site" || site == "same-site") && mode != "navigate"):
			reject(w, r, http.StatusForbidden, "cross-site request rejected",
				"send it from a page of this service, or from a program")
		case api && !safe && !isJSON(r.Header.Get("Content-Type")),
			api && !safe && fromBrowser && r.ContentLength != 0 && r.Header.Get("Content-Type") == "":
			reject(w, r, http.StatusUnsupportedMediaType, "content type is not JSON",
				"send Content-Type: application/json")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// answerUnknown answers unknown paths and methods in the form of every other error.
func (s *Service) answerUnknown(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unknown, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		probe := &statusProbe{header: http.Header{}}
		unknown.ServeHTTP(probe, r)
		err := hint.Wrap(errors.New("no such path"), "see %s", s.at("/docs"))
		switch {
		case probe.status == http.StatusMethodNotAllowed:
			allow := probe.header.Get("Allow")
			w.Header().Set("Allow", allow)
			err = hint.Wrap(errors.New("method not allowed"), "use %s", allow)
		case !strings.HasPrefix(r.URL.Path, s.at("/")):
			err = hint.Wrap(fmt.Errorf("no such path: the service is below %s", s.at("/")),
				"a proxy must not remove that prefix")
		}
		newProblem(probe.status, err).write(w, requestID(r.Context()))
	})
}

// statusProbe records the status of a response and discards its body.
type statusProbe struct {
	header http.Header
	status int
}

func (m *statusProbe) Header() http.Header         { return m.header }
func (m *statusProbe) WriteHeader(status int)      { m.status = status }
func (m *statusProbe) Write(p []byte) (int, error) { return len(p), nil }

func (s *Service) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	switch {
	case s.draining.Load() || !s.ready.Load():
		retryLater(http.StatusServiceUnavailable, errors.New("service is stopping"), 1).write(w, requestID(r.Context()))
	case s.faulty() != nil:
		retryLater(http.StatusServiceUnavailable, s.faulty(), 5).write(w, requestID(r.Context()))
	case s.events.Ping(ctx) != nil:
		// recommendations still work, but another instance may be able to store events
		retryLater(http.StatusServiceUnavailable, errors.New("event log does not answer"), 1).
			write(w, requestID(r.Context()))
	default:
		fmt.Fprintln(w, "ready")
	}
}

// caller identifies a request for logs and metrics.
type caller struct {
	id        string // of the request
	token     string // its name
	operation string
	foreign   bool   // a page of another origin sends it
	decoded   func() // the body is decoded: others may have its place
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	if c == nil {
		c = &caller{decoded: func() {}}
	}
	return c
}

func requestID(ctx context.Context) string { return callerOf(ctx).id }

// instrument wraps everything: request id, security headers, body limit, logs, metrics, recovery from panics, and pages
// in place of problem documents for those who would rather have HTML.
func (s *Service) instrument(pages *site, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		c := &caller{id: clientRequestID(r), operation: "other", decoded: func() {}}
		ctx, span := s.requestSpan(r)
		ctx = context.WithValue(ctx, callerKey{}, c)
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, s.bodyLimit(r.URL.Path))
		record := &recorder{ResponseWriter: w, html: prefersHTML(r)}
		h := w.Header()
		h.Set("X-Request-Id", c.id)
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src "+
			"'self'; connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.metrics.panics.Inc()
				s.o.Log.ErrorContext(ctx, "request failed: panic", "request", c.id, "panic", fmt.Sprint(p), "stack",
					string(debug.Stack()))
				if record.status == 0 {
					newProblem(http.StatusInternalServerError, errInternal).write(record, c.id)
				}
			}
			if record.held != nil {
				pages.showProblem(w, r, record.status, record.held.Bytes())
			}
			status := statusOf(record)
			took := time.Since(began)
			s.metrics.requests.WithLabelValues(c.operation, strconv.Itoa(status)).Inc()
			s.metrics.seconds.WithLabelValues(c.operation).Observe(took.Seconds())
			s.o.Log.DebugContext(ctx, "request", "request", c.id, "token", c.token, "method", r.Method, "operation",
				c.operation, "status", status, "took", took)
			endRequest(span, r.Method, c, status)
		}()
		next.ServeHTTP(record, r)
	})
}

// clientRequestID returns the id that the client sent, if it is valid, or a new one.
func clientRequestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if len(id) > 0 && len(id) <= 64 && strings.Trim(id,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == "" {
		return id
	}
	var random [8]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// recorder remembers the status of a response. It keeps problem documents back from those who would rather have HTML.
type recorder struct {
	http.ResponseWriter
	status int
	html   bool
	held   *bytes.Buffer // a problem document; nil: none
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	if r.html && r.Header().Get("Content-Type") == problemType {
		r.held = &bytes.Buffer{}
		return
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.held != nil {
		return r.held.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// statusOf is the status that was sent through a recorder.
func statusOf(w http.ResponseWriter) int {
	if record, ok := w.(*recorder); ok && record.status != 0 {
		return record.status
	}
	return http.StatusOK
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// admit checks the token of a request, its rate and its scope.
func (s *Service) admit(r *http.Request, need Scope) *problem {
	if s.o.Tokens == nil {
		return nil
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret, given := strings.TrimSpace(secret), strings.EqualFold(scheme, "Bearer")
	if cookie, err := r.Cookie(tokenCookie); !given && err == nil && !callerOf(r.Context()).foreign {
		secret, given = cookie.Value, true
	}
	if !given {
		return newProblem(http.StatusUnauthorized,
			hint.Wrap(errors.New("token required"), "send Authorization: Bearer …"))
	}
	token, ok := s.o.Tokens.find(secret)
	if !ok {
		return newProblem(http.StatusUnauthorized,
			hint.Wrap(errors.New("unknown token"), "check it, or ask for a new one"))
	}
	callerOf(r.Context()).token = token.Name
	if wait, ok := s.o.Tokens.allow(token.Name, s.o.Rate, time.Now()); !ok {
		s.metrics.limited.Inc()
		return retryLater(http.StatusTooManyRequests, fmt.Errorf("more than %v requests per second", s.o.Rate),
			wait.Seconds())
	}
	if !token.Scope.covers(need) {
		return newProblem(http.StatusForbidden, hint.Wrap(fmt.Errorf("token %q has scope %s", token.Name, token.Scope),
			"send one with scope %s", need))
	}
	return nil
}

// requireScope checks the token of requests that are not part of the API.
func (s *Service) requireScope(need Scope, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := s.admit(r, need); refused != nil {
			refused.write(w, requestID(r.Context()))
			return
		}
		next.ServeHTTP(w, r)
	})
}
