package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"unseen/internal/amount"
	"unseen/progress"
	"unseen/recommend"
	"unseen/serve/store"
)

// Overview is the state of a service at a glance.
type Overview struct {
	Healthy bool   `json:"healthy" doc:"lists are served and events are stored"`
	Fault   string `json:"fault,omitempty" doc:"what is wrong, if it is not healthy"`

	Live  ModelEntry `json:"live" doc:"the live model"`
	Since time.Time  `json:"since,omitzero" doc:"when it went live"`

	Lists    *float64 `json:"listsPerSecond" doc:"over the last minute, or since the start; null in the first second"`
	Explored *float64 `json:"explored" doc:"share of the positions of these lists drawn at random; null without lists"`
	// Index is of lists of ten; others may be exact.
	Index *recommend.Recall `json:"index,omitempty" doc:"of the index that makes lists; none: they are exact"`

	Drift  string   `json:"drift,omitempty" doc:"the drift alarm in words, if there is one"`
	Recent *float64 `json:"recent" doc:"share of the last shown items in the source's own field; null without items"`
	Items  int      `json:"items" doc:"number of these items"`

	Refresh *Job       `json:"refresh,omitempty" doc:"the last retraining that ended"`
	Due     *time.Time `json:"due,omitempty" doc:"time of the next scheduled retraining"`

	Events  *int64   `json:"events" doc:"number of events in the log; null if it does not answer"`
	New     *int64   `json:"newEvents" doc:"events that the live model has not learned from; null as before"`
	Waiting []string `json:"waiting" doc:"what waits, in words"`
	ABTest  *ABTest  `json:"abTest,omitempty" doc:"the A/B test, if one runs"`
}

func (s *Service) getOverview(ctx context.Context, _ *struct{}) (*body[Overview], error) {
	o, err := s.Overview(ctx)
	return respond(o), err
}

// Overview returns the state of the service.
func (s *Service) Overview(ctx context.Context) (_ Overview, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return Overview{}, err
	}
	defer end(&err)
	line, reg, loop := s.live.Load(), s.models.snapshot(), s.Loop()
	o := Overview{Healthy: true, Since: reg.Since, Items: loop.Items, ABTest: line.abTest, Waiting: []string{}}
	if o.Items > 0 {
		o.Recent = &loop.Recent
	}
	if loop.Alarm {
		o.Drift = loop.Alarms[len(loop.Alarms)-1].Message
	}
	if o.Live, err = s.models.find(line.current.digest); err != nil {
		return o, err
	}
	o.Lists, o.Explored = s.traffic.rates(s.o.Now())
	if line.current.ByIndex(10) {
		recall := line.current.Recall()
		o.Index = &recall
	}
	totals, storeErr := s.events.Totals(ctx)
	if storeErr == nil {
		unlearned := max(totals.Seq-o.Live.Seq, 0)
		o.Events, o.New = &totals.Events, &unlearned
	}
	switch fault := s.faulty(); {
	case fault != nil:
		o.Healthy, o.Fault = false, fault.Error()
	case storeErr != nil:
		o.Healthy, o.Fault = false, "event log does not answer"
	}
	o.waits(s, line.current.view())
	if due, planned := s.NextRetrain(); planned {
		o.Due = &due
	}
	return o, nil
}

// waits fills in what is under way and what waits.
func (o *Overview) waits(s *Service, v modelView) {
	add := func(n int, noun, rest string) {
		if n > 0 {
			o.Waiting = append(o.Waiting, amount.Of(n, noun)+" "+rest)
		}
	}
	queued := 0
	for _, job := range s.jobs.list() { // the latest first
		switch {
		case job.State == JobQueued:
			queued++
		case job.State == JobRunning:
			o.Waiting = append(o.Waiting, "job "+job.ID+" runs: "+job.Kind)
		case job.Kind == "retrain" && o.Refresh == nil:
			o.Refresh = &job
		}
	}
	add(queued, "job", "in the queue")
	add(s.Forgotten().Pending, "forgotten node", "to erase from the log")
	add(s.waiting.count(), "event", "about ids that are no nodes yet")
	if spool, ok := s.events.(store.Spooler); ok {
		add(int(spool.Spooled()), "event", "to store when the database answers")
	}
	changed := 0
	for range v.over.Changes() {
		changed++
	}
	add(changed, "node", "added or changed since the live model was trained")
}

// traffic counts the lists of the last minute, second by second.
type traffic struct {
	start   time.Time // of the service
	mu      sync.Mutex
	seconds [60]trafficSecond
}

// trafficSecond is the lists of a second.
type trafficSecond struct {
	at               int64 // Unix time
	lists            int
	positions, drawn float64
}

// count adds a list.
func (t *traffic) count(now time.Time, positions int, explore float64) {
	at := now.Unix()
	t.mu.Lock()
	defer t.mu.Unlock()
	second := &t.seconds[at%60]
	if second.at != at {
		*second = trafficSecond{at: at}
	}
	second.lists++
	second.positions += float64(positions)
	second.drawn += explore * float64(positions)
}

// rates returns lists per second and the share of positions that was drawn, over the last minute; nil where that is
// not known.
func (t *traffic) rates(now time.Time) (lists, explored *float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, positions, drawn := 0, 0., 0.
	for _, second := range t.seconds {
		if age := now.Unix() - second.at; age >= 0 && age < 60 {
			n, positions, drawn = n+second.lists, positions+second.positions, drawn+second.drawn
		}
	}
	if positions > 0 {
		share := drawn / positions
		explored = &share
	}
	if up := min(now.Sub(t.start).Seconds(), 60); up >= 1 {
		rate := float64(n) / up
		lists = &rate
	}
	return lists, explored
}

// overview registers the page.
func (p *site) overview() {
	p.mux.Handle(p.s.route("GET /overview"), http.RedirectHandler(p.s.at("/"), http.StatusMovedPermanently))
	p.read("GET /{$}", "page-overview", func(w http.ResponseWriter, r *http.Request) error {
		if q := r.URL.Query(); q.Has("q") || q.Has("field") { // an old address of Explore
			http.Redirect(w, r, p.s.at("/explore?")+q.Encode(), http.StatusMovedPermanently)
			return nil
		}
		o, err := p.s.Overview(r.Context())
		if err != nil {
			return err
		}
		content := overviewPage{Overview: o, Up: p.s.o.Now().Sub(p.s.traffic.start).Seconds(),
			Verdict: verdict(p.s.live.Load().current.Class()),
			Editor:  p.hasScope(r, ScopeWrite), Health: badge{Tone: "good", Sign: "✓", Text: "healthy"}}
		if !o.Healthy {
			content.Health = badge{Tone: "bad", Sign: "✗", Text: "not healthy"}
		}
		if !o.Since.IsZero() {
			content.Ago = progress.Duration(p.s.o.Now().Sub(o.Since))
		}
		p.show(w, r, http.StatusOK, "overview", content)
		return nil
	})
}

// overviewPage is the data of the page.
type overviewPage struct {
	Overview
	Verdict, Health badge
	Editor          bool    // the visitor may change nodes
	Ago             string  // since the model went live
	Up              float64 // seconds since the service started
}
