package serve

import (
	"context"
	"slices"
	"time"

	"unseen/serve/store"
)

// NodeEvents are events of a node, at either end.
type NodeEvents struct {
	Counts map[store.Kind]int `json:"counts" doc:"number of its events by kind, among those that were searched"`
	Events []store.LogEvent   `json:"events" doc:"its events, the latest first"`
	// Searched is bounded: the log has no index by node, which every event would have to be written to.
	Searched int       `json:"searched" doc:"events of the log that were searched: 10,000 at most, from the latest on"`
	Since    time.Time `json:"since,omitzero" doc:"time of the earliest that was searched, if it is known"`
	Next     int64     `json:"next,omitempty" doc:"before of the next page, unless the log begins here"`
}

// What a search by node may cost: as much as a page of the log. It reads the log in parts, each of which fits a page
// of the store however long its texts are.
const (
	maxSearchedEvents = store.MaxPage
	searchedPart      = store.MaxPageBytes / (3*store.MaxID + 2*store.MaxNode + store.MaxSurface + store.MaxCandidates)
)

type nodeEventsInput struct {
	ID     string `path:"id" maxLength:"1024" doc:"id, with / escaped as %2F"`
	Before int64  `query:"before" minimum:"0" doc:"search events with a lower seq; default: all"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"number of events"`
}

func (s *Service) getNodeEvents(ctx context.Context, in *nodeEventsInput) (*body[NodeEvents], error) {
	found, err := s.NodeEvents(ctx, in.ID, in.Before, in.Limit)
	return respond(found), err
}

// NodeEvents searches the log backwards for events of a node: its latest, at most limit of them, whose Seq is below
// before, or any if that is 0.
func (s *Service) NodeEvents(ctx context.Context, id string, before int64, limit int) (_ NodeEvents, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return NodeEvents{}, err
	}
	defer end(&err)
	leave, err := s.gate.enter(ctx)
	if err != nil {
		return NodeEvents{}, err
	}
	defer leave()
	if _, ok := s.live.Load().current.view().find(id); !ok {
		return NodeEvents{}, noNode(id)
	}
	reading, span := s.span(ctx, "store")
	defer func() { endSpan(span, err) }()
	totals, err := s.events.Totals(reading)
	if err != nil {
		return NodeEvents{}, err
	}
	out := NodeEvents{Counts: map[store.Kind]int{}, Events: []store.LogEvent{}}
	if before == 0 || before > totals.Seq {
		before = totals.Seq + 1
	}
	last := max(before-maxSearchedEvents, 1) // the lowest Seq that is searched
	for before > last && err == nil {
		first := max(before-searchedPart, last)
		var part []store.LogEvent
		part, err = s.events.Events(reading, first-1, int(before-first))
		for _, e := range slices.Backward(part) {
			if e.Seq < before { // a part with events that were erased is filled with later ones
				s.count(&out, e, id, limit)
			}
		}
		before = first
	}
	if out.Next == 0 && last > 1 {
		out.Next = last
	}
	return out, err
}

// count takes an event into the result of a search.
func (s *Service) count(out *NodeEvents, e store.LogEvent, id string, limit int) {
	out.Searched++
	if !e.At.IsZero() && (out.Since.IsZero() || e.At.Before(out.Since)) {
		out.Since = e.At
	}
	other := e.Target
	if other == id {
		other = e.Source
	}
	if e.Source != id && e.Target != id || s.forgotten.has(other) { // who is still being erased is not shown
		return
	}
	out.Counts[e.Kind]++
	switch {
	case len(out.Events) < limit:
		out.Events = append(out.Events, e)
	case out.Next == 0:
		out.Next = out.Events[limit-1].Seq
	}
}
