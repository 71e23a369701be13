package serve

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of a request.
const (
	maxHeader  = 32 << 10
	maxBody    = 4 << 20
	headerTime = 5 * time.Second
	readTime   = 15 * time.Second
	answerTime = 10 * time.Second // for a recommendation
	writeTime  = 30 * time.Second
	idleTime   = 2 * time.Minute
)

// Listen says where a service is reached.
type ServerOptions struct {
	Address   string           // host:port; "" means 127.0.0.1:8080
	Cert, Key string           // files, for TLS
	Drain     time.Duration    // how long requests under way may take to end; 0 means 10 seconds
	Started   func(url string) // is told where, with the prefix and without a slash at the end
}

// ErrExposed: the address can be reached from elsewhere and nothing protects it.
var ErrUnprotected = errors.New("serve: a public address needs protection")

// Run answers requests until the context ends; then it refuses new ones, lets those under way end,
// and returns. Requests that are still under way after Listen.Drain are cut off, and Close waits
// for what is left of them. It returns ErrClosed if the service is closed, also meanwhile.
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
		return errors.New("serve: TLS needs a certificate and its key")
	}
	open := s.o.Tokens != nil || s.o.Open || l.Cert != ""
	if !open && !listensLocally(l.Address) {
		return fmt.Errorf("%w: %s can be reached from elsewhere; give tokens or TLS, or an address such as "+
			"127.0.0.1:8080", ErrUnprotected, l.Address)
	}
	socket, err := net.Listen("tcp", l.Address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: s.handler(open), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTime, ReadTimeout: readTime,
		WriteTimeout: writeTime, IdleTimeout: idleTime,
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
	s.draining.Store(true) // readiness ends first, and streams of progress with it
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Drain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		server.Close()
		return fmt.Errorf("serve: after %v requests were still under way and were cut off: %w", l.Drain, err)
	}
	return closed
}

// reachable is an address as a browser on this machine takes it: a service on all addresses is also on localhost.
func browserAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return a.String()
}

// loopback tells whether only this machine reaches an address.
func listensLocally(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return isLoopback(host)
}

// local lets in who asks from this machine and by no foreign name: a page elsewhere that has its own name point to this
// machine could otherwise read through the visitor's browser. What a proxy forwards for others comes from elsewhere.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		from, _, err := net.SplitHostPort(r.RemoteAddr)
		here := err == nil && isLoopback(from)
		for _, list := range r.Header.Values("X-Forwarded-For") {
			for one := range strings.SplitSeq(list, ",") {
				here = here && isLoopback(strings.TrimSpace(one))
			}
		}
		switch {
		case !here:
			writeProblem(w, http.StatusForbidden,
				"without tokens only this machine may ask; give the service tokens (--token-file, "+
					"serve.Options.Tokens), or open it to everybody (--open, serve.Options.Open)",
				requestID(r.Context()), 0)
		case !isLoopback(strings.Trim(host, "[]")):
			writeProblem(w, http.StatusMisdirectedRequest,
				"this service is local and has no name; ask for it as localhost", requestID(r.Context()), 0)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// thisMachine tells whether a host is the one that this runs on.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Handler returns all that the service answers, below Options.Prefix, to be mounted in a server of your own:
//
//	mux.Handle("/recs/", s.Handler()) // with Options.Prefix "/recs"
//
// Without Options.Tokens it answers this machine alone: who comes from another address, is
// forwarded from one, or asks by another name than localhost is refused, unless Options.Open says
// that your server looks to that. Limits of time and of headers are the server's; see Run. Shut the
// server down before Close.
func (s *Service) Handler() http.Handler { return s.handler(s.o.Tokens != nil || s.o.Open) }

// handler is everything, for everybody if it is open.
func (s *Service) handler(open bool) http.Handler {
	mux := http.NewServeMux()
	api := s.register(mux)
	mux.HandleFunc(s.route("GET /healthz"), func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc(s.route("GET /readyz"), s.readyz)
	mux.Handle(s.route("GET /metrics"), s.requireScope(ScopeRead,
		promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})))
	s.sitePages(mux, api)
	s.redirectPrefix(mux)
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusForbidden, "a page of another site may not do this", requestID(r.Context()), 0)
	}))
	inner := s.whileOpen(foreign.Handler(s.answerUnknown(mux)))
	if !open {
		inner = localOnly(inner)
	}
	return s.instrument(inner)
}

// known answers what the mux does not know in the form of every other error.
func (s *Service) answerUnknown(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unknown, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		silent := &statusProbe{header: http.Header{}}
		unknown.ServeHTTP(silent, r)
		if silent.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", silent.header.Get("Allow"))
			writeProblem(w, silent.status, "this can be asked with "+silent.header.Get("Allow"),
				requestID(r.Context()), 0)
			return
		}
		detail := "there is nothing here; " + s.at("/docs") + " says what there is"
		if !strings.HasPrefix(r.URL.Path, s.at("/")) {
			detail = "there is nothing here: the service is below " + s.at("/") +
				", and paths must come with that, also through a proxy"
		}
		writeProblem(w, http.StatusNotFound, detail, requestID(r.Context()), 0)
	})
}

// mute takes an answer and says nothing.
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
		writeProblem(w, http.StatusServiceUnavailable, "stopping", requestID(r.Context()), 1)
	case s.events.Ping(ctx) != nil:
		// events are spooled or refused, recommendations are made: others may be readier
		writeProblem(w, http.StatusServiceUnavailable, "the event log does not answer", requestID(r.Context()), 1)
	default:
		fmt.Fprintln(w, "ready")
	}
}

// caller is who asks, and what for.
type caller struct {
	id        string // of the request
	token     string // its name
	operation string
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	if c == nil {
		c = &caller{}
	}
	return c
}

func requestID(ctx context.Context) string { return callerOf(ctx).id }

// outer is around everything: an id, headers that keep browsers safe, a limit of the body, a record, and no panic
// gets any further.
func (s *Service) instrument(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		c := &caller{id: clientRequestID(r), operation: "other"}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		record := &recorder{ResponseWriter: w}
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
				s.o.Log.Error("a request broke", "request", c.id, "panic", fmt.Sprint(p), "stack",
					string(debug.Stack()))
				if record.status == 0 {
					writeProblem(record, http.StatusInternalServerError,
						"the service has a fault; the request's id helps to find it", c.id, 0)
				}
			}
			status := record.status
			if status == 0 {
				status = http.StatusOK
			}
			took := time.Since(began)
			s.metrics.requests.WithLabelValues(c.operation, strconv.Itoa(status)).Inc()
			s.metrics.seconds.WithLabelValues(c.operation).Observe(took.Seconds())
			s.o.Log.Debug("request", "request", c.id, "token", c.token, "method", r.Method, "operation", c.operation,
				"status", status, "took", took)
		}()
		next.ServeHTTP(record, r)
	})
}

// clientRequestID takes over an id that the client gave, if it is harmless, or makes one.
func clientRequestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if len(id) > 0 && len(id) <= 64 && strings.Trim(id,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == "" {
		return id
	}
	var chance [8]byte
	rand.Read(chance[:])
	return hex.EncodeToString(chance[:])
}

// recorder knows which status was answered.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// refusal is why a caller may not go on.
type refusal struct {
	status int
	detail string
	wait   float64 // seconds
}

// admit looks at who asks and whether they may.
func (s *Service) admit(r *http.Request, need Scope) *refusal {
	if s.o.Tokens == nil {
		return nil
	}
	secret, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if cookie, err := r.Cookie(tokenCookie); !given && err == nil {
		secret, given = cookie.Value, true
	}
	if !given {
		return &refusal{status: http.StatusUnauthorized, detail: "give a token: Authorization: Bearer …"}
	}
	token, ok := s.o.Tokens.find(secret)
	if !ok {
		return &refusal{status: http.StatusUnauthorized, detail: "the token is not known"}
	}
	callerOf(r.Context()).token = token.Name
	if wait, ok := s.o.Tokens.allow(token.Name, s.o.Rate, time.Now()); !ok {
		s.metrics.limited.Inc()
		return &refusal{status: http.StatusTooManyRequests, detail: fmt.Sprintf("more than %v requests a second",
			s.o.Rate), wait: wait.Seconds()}
	}
	if !token.Scope.covers(need) {
		return &refusal{status: http.StatusForbidden,
			detail: fmt.Sprintf("this needs a token of scope %s, and %q is of scope %s", need, token.Name, token.Scope)}
	}
	return nil
}

// allowed guards what is not part of the API.
func (s *Service) requireScope(need Scope, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if no := s.admit(r, need); no != nil {
			if no.status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			writeProblem(w, no.status, no.detail, requestID(r.Context()), no.wait)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writeProblem answers in the form of RFC 9457. wait is in seconds, for those who may come again.
func writeProblem(w http.ResponseWriter, status int, detail, request string, wait float64) {
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait))))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	e := &huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}
	if request != "" {
		e.Instance = "urn:request:" + request
	}
	_ = json.NewEncoder(w).Encode(e) // who has gone does not read it
}
