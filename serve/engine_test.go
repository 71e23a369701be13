package serve

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"unseen/internal/enginetest"
)

// Lists come from the service's engine; where that fails a request does, and the next is answered.
func TestServiceRunsOnAnyEngine(t *testing.T) {
	t.Parallel()
	e := enginetest.New()
	var broken atomic.Bool
	e.Before = func(string, int) error {
		if broken.Load() {
			return errors.New("out of memory")
		}
		return nil
	}
	c := client{t: t, h: open(t, func(o *Options) { o.Engine = e }).Handler()}
	const path = "/api/v1/recommendations?node=p100&k=5&seed=3"
	want[RecommendResponse](c, 200, "GET", path, nil)
	if calls := e.Calls(); !slices.Contains(calls, "TopK") {
		t.Errorf("the engine was asked for %v", calls)
	}
	broken.Store(true)
	if w := c.do("GET", path, nil); w.Code != 500 {
		t.Errorf("status %d of a broken engine: %s", w.Code, w.Body)
	}
	broken.Store(false)
	want[RecommendResponse](c, 200, "GET", path, nil)
}
