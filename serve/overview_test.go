package serve

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The overview says what is live since when, how many lists there are, what was refreshed last and what waits.
func TestOverview(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := open(t, func(o *Options) { o.Now = func() time.Time { return now } })
	c := client{t: t, h: s.Handler()}
	o := want[Overview](c, 200, "GET", "/api/v1/overview", nil)
	_, first := s.Current()
	if !o.Healthy || o.Live.Digest != first || !o.Since.Equal(now) || o.Lists != 0 || o.Refresh != nil ||
		len(o.Waiting) != 0 || o.Events != 0 {
		t.Errorf("at the start: %+v", o)
	}
	now = now.Add(time.Hour)
	for range 30 {
		c.list("node=p1&k=4&log=true")
	}
	o = want[Overview](c, 200, "GET", "/api/v1/overview", nil)
	if math.Abs(o.Lists-.5) > 1e-9 || math.Abs(o.Explored-.1) > 1e-9 || o.New != 120 {
		t.Errorf("after 30 lists in a minute: %+v", o)
	}
	now = now.Add(time.Minute)
	if o = want[Overview](c, 200, "GET", "/api/v1/overview", nil); o.Lists != 0 {
		t.Errorf("a minute later there are %v lists per second", o.Lists)
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
	if o.Refresh == nil || o.Refresh.ID != job.ID || o.Live.Digest != job.Model || !o.Since.Equal(now) || o.New != 0 {
		t.Errorf("after a retraining: %+v", o)
	}
	want[ModelEntry](c, 200, "POST", "/api/v1/models/rollback", nil)
	page := c.do("GET", "/overview", nil).Body.String()
	for _, says := range []string{"healthy", first[:8], "lists per second", "newer than the live model",
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
	b.look("/node/p200", 400, "light")
	b.until("the options are folded", "!"+shown)
	if at := ask[float64](b, top); at > 700 {
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
