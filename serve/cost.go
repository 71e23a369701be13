package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"unseen/hint"
)

// What a request may cost. Every limit on the way from the socket to the decoded body is in this file; the check of a
// body against them is in check.go.
const (
	maxHeader  = 32 << 10
	maxBody    = 4 << 20
	maxForm    = 64 << 10 // body of a form of the pages
	maxData    = 1 << 20  // body of a form with a node
	smallBody  = 16 << 10 // larger bodies queue apart, so that a small one never waits for them
	maxDepth   = 16       // of nested JSON
	maxValues  = 200_000  // objects, arrays, texts and numbers of a body: 10,000 events have 110,002
	maxFaults  = 20       // reported; the rest of the body is not read
	maxBuffers = 24       // large bodies in memory
	maxStreams = 1000     // streams of progress

	maxConnections = 4096

	headerTime = 5 * time.Second
	readTime   = 15 * time.Second
	bodyTime   = 5 * time.Second  // for a body to arrive
	answerTime = 10 * time.Second // for a recommendation
	writeTime  = 30 * time.Second
	idleTime   = 2 * time.Minute
)

// lanes limit how many bodies are in memory and how many of them are parsed at a time. What does not get its turn
// within a second is asked to come back.
type lanes struct {
	buffers *gate // large bodies in memory
	large   *gate // large bodies being parsed
	small   *gate
	streams chan struct{}
}

func newLanes() *lanes {
	processors := runtime.GOMAXPROCS(0)
	return &lanes{
		buffers: newGate(maxBuffers, 4*maxBuffers), large: newGate(max(processors/2, 1), maxBuffers),
		small: newGate(4*processors, 64*processors), streams: make(chan struct{}, maxStreams),
	}
}

var (
	errTooLarge = hint.Wrap(errors.New("request body is too large"), "send at most %d bytes, in several requests",
		maxBody)
	errStreams = errors.New("too many streams of progress at once")
)

// takeBody reads the body of an operation and checks it before anything is built from it. It replaces the request's
// body with what it read. The caller calls leave when the body is decoded, at the latest when it is answered; leave may
// be called again.
func (s *Service) takeBody(w http.ResponseWriter, r *http.Request, op *huma.Operation, all huma.Registry) (
	leave func(), refused *problem) {
	leave = func() {}
	if op.RequestBody == nil || r.Body == nil || r.ContentLength == 0 {
		return leave, nil
	}
	if r.ContentLength > maxBody {
		return leave, newProblem(http.StatusRequestEntityTooLarge, errTooLarge)
	}
	// it fails where the writer is no connection, as in tests
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	var held []func()
	leave = func() {
		for _, release := range held {
			release()
		}
		held = nil
	}
	enter := func(lane *gate) *problem {
		release, err := lane.enter(r.Context())
		if err != nil {
			s.metrics.shed.Inc()
			known, _ := s.problem(err)
			return known
		}
		held = append(held, release)
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, smallBody+1))
	lane := s.lanes.small
	if len(raw) > smallBody && err == nil {
		if refused := enter(s.lanes.buffers); refused != nil {
			return leave, refused
		}
		lane = s.lanes.large
		whole := bytes.NewBuffer(make([]byte, 0, max(int(r.ContentLength), len(raw))+bytes.MinRead))
		whole.Write(raw)
		_, err = whole.ReadFrom(r.Body)
		raw = whole.Bytes()
	}
	if err != nil {
		return leave, unreadBody(err)
	}
	if refused := enter(lane); refused != nil {
		return leave, refused
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	r.ContentLength = int64(len(raw))
	if len(raw) == 0 {
		return leave, nil // the operation says whether it needs one
	}
	return leave, checkBody(op.RequestBody.Content["application/json"].Schema, all, raw)
}

// isJSON reports whether a body says that it is JSON, which no form of a page can say. Programs may say nothing.
func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// unreadBody is the answer to a body that did not arrive.
func unreadBody(err error) *problem {
	var limit *http.MaxBytesError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &limit):
		return newProblem(http.StatusRequestEntityTooLarge, errTooLarge)
	case errors.As(err, &timeout) && timeout.Timeout():
		return newProblem(http.StatusRequestTimeout, fmt.Errorf("request body did not arrive within %v", bodyTime))
	}
	return newProblem(http.StatusBadRequest, errors.New("request body broke off"))
}

// bodyLimit is the largest body of a path.
func (s *Service) bodyLimit(path string) int64 {
	switch {
	case strings.HasPrefix(path, s.at("/api/")):
		return maxBody
	case strings.HasPrefix(path, s.at("/data/")):
		return maxData
	}
	return maxForm
}

// takeForm reads the form of a request into its PostForm. Large forms have their turn among the large bodies; the
// caller calls leave when the form is answered.
func (s *Service) takeForm(w http.ResponseWriter, r *http.Request) (leave func(), refused *problem) {
	leave = func() {}
	// it fails where the writer is no connection, as in tests
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		release, err := s.lanes.buffers.enter(r.Context())
		if err != nil {
			s.metrics.shed.Inc()
			known, _ := s.problem(err)
			return leave, known
		}
		leave = release
	}
	var limit *http.MaxBytesError
	var escape url.EscapeError
	switch err := r.ParseForm(); {
	case err == nil:
		return leave, nil
	case errors.As(err, &limit):
		return leave, newProblem(http.StatusRequestEntityTooLarge, hint.Wrap(errors.New("the form is too large"),
			"send at most %d bytes; the API takes more", limit.Limit))
	case errors.As(err, &escape):
		return leave, newProblem(http.StatusBadRequest, errors.New("the form is damaged"))
	default:
		return leave, unreadBody(err)
	}
}
