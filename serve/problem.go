package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"unseen/hint"
	"unseen/recommend"
	"unseen/serve/store"
)

// problemType is the media type of problem documents.
const problemType = "application/problem+json"

// problem is an error of the API in the form of RFC 9457, with what to do about it as data.
type problem struct {
	huma.ErrorModel
	Hint     string         `json:"hint,omitempty"`
	Settings []hint.Setting `json:"settings,omitempty"` // that the hint speaks of

	wait float64 // seconds until the request may succeed; 0: unknown
}

// problemProperties describe the keys that a problem has besides those of huma.ErrorModel. Each document has its own.
func problemProperties() map[string]*huma.Schema {
	return map[string]*huma.Schema{
		"hint": {Type: huma.TypeString, Description: "What to do about it."},
		"settings": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString},
			Description: "The parameters, keys or options of the service that the hint names."},
	}
}

// errInternal is all that a client learns of an error of the service.
var errInternal = hint.Wrap(errors.New("internal error"), "the service's log has the details under this request id")

// newProblem makes a response of an error: its hints become data, and so does the field of an invalid request.
func newProblem(status int, err error) *problem {
	p := &problem{ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: err.Error()}}
	p.Hint, p.Settings = hint.Of(err)
	if e, ok := errors.AsType[*RequestError](err); ok {
		p.Errors = []*huma.ErrorDetail{{Location: e.Field, Value: e.Value,
			Message: strings.TrimPrefix(p.Detail, e.Field+" ")}}
	}
	return p
}

// retryLater makes a response that asks the client to come back.
func retryLater(status int, err error, seconds float64) *problem {
	p := newProblem(status, err)
	p.wait = max(seconds, .001)
	return p
}

func (p *problem) retryAfter() string { return strconv.Itoa(int(math.Ceil(p.wait))) }

// problem turns an error into a response. The client learns what is wrong with its request; of internal errors, which
// are not known, it learns nothing, and the caller logs them with the request's id.
func (s *Service) problem(err error) (_ *problem, known bool) {
	var found *problem
	var invalidRequest *RequestError
	var invalid *store.InvalidError
	var busy *store.BusyError
	see := func(path string) error { return hint.Wrap(err, "see %s", s.at(path)) }
	switch {
	case errors.As(err, &found):
		return found, true
	case errors.As(err, &invalidRequest):
		if invalidRequest.See != "" {
			err = see(invalidRequest.See)
		}
		switch {
		case invalidRequest.NotFound:
			return newProblem(http.StatusNotFound, err), true
		case invalidRequest.Conflict:
			return newProblem(http.StatusConflict, err), true
		}
		return newProblem(http.StatusUnprocessableEntity, err), true
	case errors.As(err, &invalid):
		p := newProblem(http.StatusUnprocessableEntity, err)
		p.Errors = []*huma.ErrorDetail{{Message: invalid.Reason, Location: strings.TrimSuffix(
			fmt.Sprintf("body.events[%d].%s", invalid.Index, strings.ToLower(invalid.Name)), ".")}}
		return p, true
	case errors.As(err, &busy):
		return retryLater(http.StatusServiceUnavailable, err, busy.Wait.Seconds()), true
	case isFault(err):
		s.vectorsLost()
		return retryLater(http.StatusServiceUnavailable, ErrVectors, 30), true
	case errors.Is(err, ErrVectors):
		return retryLater(http.StatusServiceUnavailable, ErrVectors, 30), true
	case errors.Is(err, store.ErrFull), isFull(err):
		return newProblem(http.StatusInsufficientStorage, hint.Wrap(fmt.Errorf("disk is full: %w", err),
			"free space, then send the request again; nothing that was acknowledged is lost")), true
	case errors.Is(err, ErrClosed):
		return retryLater(http.StatusServiceUnavailable, ErrClosed, 1), true
	case errors.Is(err, errTooMany):
		return retryLater(http.StatusServiceUnavailable, errTooMany, 1), true
	case errors.Is(err, errQueue):
		return retryLater(http.StatusTooManyRequests, errQueue, 30), true
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed):
		return retryLater(http.StatusServiceUnavailable, err, 5), true
	case errors.Is(err, recommend.ErrNothing), errors.Is(err, recommend.ErrQuery):
		return newProblem(http.StatusUnprocessableEntity, err), true
	case errors.Is(err, ErrNoPrevious), errors.Is(err, ErrABTestRuns), errors.Is(err, ErrJobEnded):
		return newProblem(http.StatusConflict, err), true
	case errors.Is(err, ErrNoModel):
		return newProblem(http.StatusNotFound, see("/api/v1/models")), true
	case errors.Is(err, ErrNoJob):
		return newProblem(http.StatusNotFound, see("/api/v1/jobs")), true
	case errors.Is(err, ErrNoNaive):
		return newProblem(http.StatusNotFound, err), true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return retryLater(http.StatusServiceUnavailable, errors.New("request timed out"), 1), true
	}
	return newProblem(http.StatusInternalServerError, errInternal), false
}

// write responds with the problem.
func (p *problem) write(w http.ResponseWriter, request string) {
	p.finish(request)
	if p.wait > 0 {
		w.Header().Set("Retry-After", p.retryAfter())
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // fails only if the client is gone
}

// finish names the request, limits what is sent back of an invalid one, and adds the hint that follows from the status.
func (p *problem) finish(request string) {
	if request != "" {
		p.Instance = "urn:request:" + request
	}
	p.shorten()
	switch {
	case p.Hint != "":
	case p.wait > 0:
		p.Hint = "try again after the seconds in Retry-After"
	case p.Status < http.StatusInternalServerError:
		p.Hint = "correct the request as the API reference describes it"
	}
}

// shorten limits what is sent back of an invalid request.
func (p *problem) shorten() {
	const most = 20
	if len(p.Errors) > most {
		p.Detail += fmt.Sprintf("; the first %d of %d errors", most, len(p.Errors))
		p.Errors = p.Errors[:most]
	}
	for _, d := range p.Errors {
		d.Message = clip(d.Message)
		switch v := d.Value.(type) {
		case nil, bool, int, int64:
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) { // JSON has neither
				d.Value = fmt.Sprint(v)
			}
		case string:
			d.Value = clip(v)
		default:
			raw, err := json.Marshal(v)
			if err != nil {
				raw = nil
			}
			d.Value = clip(string(raw))
		}
	}
}
