package serve

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"unseen/serve/store"
)

// The overview says what is live since when, how many lists there are, what was refreshed last and what waits; what is
// not known is null. Long because it is one sequence.
func TestOverview(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := open(t, func(o *Options) { o.Now = func() time.Time { return now } })
	c := client{t: t, h: s.Handler()}
	o := want[Overview](c, 200, "GET", "/api/v1/overview", nil)
	_, first := s.Current()
	if !o.Healthy || o.Live.Digest != first || !o.Since.Equal(now) || o.Lists != nil || o.Explored != nil ||
		o.Recent != nil || o.Refresh != nil || len(o.Waiting) != 0 || *o.Events != 0 || *o.New != 0 {
		t.Errorf("at the start: %+v", o)
	}
	page := c.do("GET", "/", nil).Body.String()
	for _, says := range []string{"healthy", "lists per second: the service has just started",
		"no lists in the last minute", "drift: nothing was logged yet",
		"No retraining has ended yet", "<strong>0</strong> of 0 events", "Nothing."} {
		if !strings.Contains(page, says) {
			t.Errorf("at the start the page does not say %q", says)
		}
	}
	now = now.Add(10 * time.Second)
	for range 5 {
		c.list("node=p1&k=4")
	}
	if o = want[Overview](c, 200, "GET", "/api/v1/overview", nil); math.Abs(*o.Lists-.5) > 1e-9 {
		t.Errorf("after 5 lists in ten seconds: %v per second", *o.Lists)
	}
	now = now.Add(time.Hour)
	for range 30 {
		c.list("node=p1&k=4&log=true")
	}
	o = want[Overview](c, 200, "GET", "/api/v1/overview", nil)
	if math.Abs(*o.Lists-.5) > 1e-9 || math.Abs(*o.Explored-.1) > 1e-9 || *o.New != 120 {
		t.Errorf("after 30 lists in a minute: %+v", o)
	}
	now = now.Add(time.Minute)
	if o = want[Overview](c, 200, "GET", "/api/v1/overview", nil); *o.Lists != 0 || o.Explored != nil {
		t.Errorf("a minute later there are %v lists per second, %v explored", *o.Lists, o.Explored)
	}
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	want[ModelEntry](c, 200, "POST", "/api/v1/models/"+job.Model+"/deploy", nil)
	o = want[Overview](c, 200, "GET", "/api/v1/overview", nil)
	if o.Refresh == nil || o.Refresh.ID != job.ID || o.Live.Digest != job.Model || !o.Since.Equal(now) || *o.New != 0 {
		t.Errorf("after a retraining: %+v", o)
	}
	want[ModelEntry](c, 200, "POST", "/api/v1/models/rollback", nil)
	page = c.do("GET", "/", nil).Body.String()
	for _, says := range []string{"healthy", first[:8], "Look up", "lists per second", "newer than the live model",
		"no drift alarm", "Job <a href=\"/runs?job=1\">1</a>", "What waits"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q", says)
		}
	}
	if strings.Index(page, ">Overview</a>") > strings.Index(page, ">Explore</a>") {
		t.Error("the overview is not the first page")
	}
	if err := os.Truncate(s.vectors.path, 0); err != nil {
		t.Fatal(err)
	}
	poll(t, "the fault", func() bool {
		o, err := s.Overview(t.Context())
		return err == nil && !o.Healthy && o.Fault != ""
	})
}

// browsePhone looks at a list on a phone: the list comes first, and options are folded until they are wanted.
func browsePhone(t *testing.T, b *tab) {
	const top, shown = "document.querySelector('[aria-labelledby=corrected-title] li').getBoundingClientRect().top",
		"document.querySelector('#diversity').checkVisibility()"
	b.look("/node/p200", 390, "light")
	b.until("the options are folded", "!"+shown)
	if at := ask[float64](b, top); at > 620 {
		t.Errorf("on a phone the first item is %.0f px down", at)
	}
	b.picture("phone-list")
	b.run("unfold", chromedp.Click("details.controls > summary"))
	b.until("the options are unfolded", shown)
	b.picture("phone-options")
	b.look("/node/p200", 1600, "light")
	b.until("a wide screen shows the options", shown)
	b.quiet("the phone")
}

// The overview is the first page; addresses that pages had before lead to where they are.
func TestOldAddresses(t *testing.T) {
	t.Parallel()
	c := client{t: t, h: open(t).Handler()}
	for from, to := range map[string]string{"/overview": "/", "/?q=p17+x": "/explore?q=p17+x",
		"/?field=A": "/explore?field=A"} {
		if w := c.do("GET", from, nil); w.Code != 301 || w.Header().Get("Location") != to {
			t.Errorf("%s: %d to %q", from, w.Code, w.Header().Get("Location"))
		}
	}
}

// silentStore is a log that does not say what it has.
type silentStore struct{ store.Store }

func (silentStore) Totals(context.Context) (store.EventTotals, error) {
	return store.EventTotals{}, store.ErrUnavailable
}

func (silentStore) Spooled() int64 { return 1200 }

// Of a log that does not answer the numbers are not known, and the service is not healthy.
func TestOverviewWithoutLog(t *testing.T) {
	t.Parallel()
	log, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := client{t: t, h: open(t, func(o *Options) { o.events = silentStore{log} }).Handler()}
	o := want[Overview](c, 200, "GET", "/api/v1/overview", nil)
	if o.Healthy || o.Fault != "event log does not answer" || o.Events != nil || o.New != nil ||
		fmt.Sprint(o.Waiting) != "[1,200 events to store when the database answers]" {
		t.Errorf("%+v", o)
	}
	if page := c.do("GET", "/", nil).Body.String(); !strings.Contains(page, "not healthy") ||
		!strings.Contains(page, "events: the log does not answer") {
		t.Error("the page does not say so")
	}
}
