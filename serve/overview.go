package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"unseen/internal/amount"
	"unseen/progress"
)

// Overview is the state of a service at a glance.
type Overview struct {
	Healthy bool   `json:"healthy" doc:"lists are served and events are stored"`
	Fault   string `json:"fault,omitempty" doc:"what is wrong, if it is not healthy"`

	Live  ModelEntry `json:"live" doc:"the live model"`
	Since time.Time  `json:"since,omitzero" doc:"when it went live"`

	Lists    float64 `json:"listsPerSecond" doc:"lists per second, over the last minute"`
	Explored float64 `json:"explored" doc:"share of the positions of these lists that was drawn at random"`

	Drift  string  `json:"drift,omitempty" doc:"the drift alarm in words, if there is one"`
	Recent float64 `json:"recent" doc:"share of the last shown items in the source's own field"`
	Items  int     `json:"items" doc:"number of these items"`

	Refresh *Job       `json:"refresh,omitempty" doc:"the last retraining that ended"`
	Due     *time.Time `json:"due,omitempty" doc:"time of the next scheduled retraining"`

	Events  int64    `json:"events" doc:"number of events in the log"`
	New     int64    `json:"newEvents" doc:"events that the live model has not learned from"`
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
	o := Overview{Healthy: true, Since: reg.Since, Recent: loop.Recent, Items: loop.Items, ABTest: line.abTest,
		Waiting: []string{}}
	if loop.Alarm {
		o.Drift = loop.Alarms[len(loop.Alarms)-1].Message
	}
	if o.Live, err = s.models.find(line.current.digest); err != nil {
		return o, err
	}
	o.Lists, o.Explored = s.traffic.rates(s.o.Now())
	totals, storeErr := s.events.Totals(ctx)
	if storeErr == nil {
		o.Events, o.New = totals.Events, max(totals.Seq-o.Live.Seq, 0)
	}
	switch fault := s.faulty(); {
	case fault != nil:
		o.Healthy, o.Fault = false, fault.Error()
	case storeErr != nil:
		o.Healthy, o.Fault = false, "event log does not answer"
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
	if queued > 0 {
		o.Waiting = append(o.Waiting, amount.Of(queued, "job")+" in the queue")
	}
	if n := s.Forgotten().Pending; n > 0 {
		o.Waiting = append(o.Waiting, amount.Of(n, "forgotten node")+" to erase from the log")
	}
	if due, planned := s.NextRetrain(); planned {
		o.Due = &due
	}
	return o, nil
}

// traffic counts the lists of the last minute, second by second.
type traffic struct {
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

// rates returns lists per second and the share of positions that was drawn, over the last minute.
func (t *traffic) rates(now time.Time) (lists, drawn float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, positions := 0, 0.
	for _, second := range t.seconds {
		if age := now.Unix() - second.at; age >= 0 && age < 60 {
			n, positions, drawn = n+second.lists, positions+second.positions, drawn+second.drawn
		}
	}
	return float64(n) / 60, drawn / max(positions, 1)
}

// overview registers the page.
func (p *site) overview() {
	p.read("GET /overview", "page-overview", func(w http.ResponseWriter, r *http.Request) error {
		o, err := p.s.Overview(r.Context())
		if err != nil {
			return err
		}
		content := overviewPage{Overview: o, Verdict: verdict(p.s.live.Load().current.Class()),
			Health: badge{Tone: "good", Sign: "✓", Text: "healthy"}}
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
	Ago             string // since the model went live
}
