package serve

import (
	"context"
	"time"

	"unseen/click"
	"unseen/evaluate"
	"unseen/graph"
	"unseen/serve/store"
)

// maxLoggedLists limits the lists that a model is evaluated on.
const maxLoggedLists = 200_000

// LoggedLists are the lists of a log, with the probabilities that the log has of their items and what came of them.
type LoggedLists struct {
	Lists   []evaluate.LoggedList
	Seqs    []int64 // the Seq of the first event of each list
	Linked  bool    // lists contain targets that their source links to
	Strange int     // events of lists that name no source and target of the graph
	Beyond  int     // events of lists after the first 200,000
}

// ListReading says how lists are read from a log.
type ListReading struct {
	After  int64                         // Seq after which events are read
	Find   func(id string) (int32, bool) // number of a node
	Until  time.Time                     // later lists may still be clicked, and are left out; zero: none
	Clicks *click.Behaviour              // what is believed of clicks; nil: all that is wanted is clicked
}

// listReading is how the service reads its own lists: only those that are old enough to have been clicked.
func (s *Service) listReading(g *graph.Graph, clicks *click.Behaviour) ListReading {
	r := ListReading{Clicks: clicks, Find: func(id string) (int32, bool) { return s.forgotten.find(g, id) }}
	if window := s.o.Clicks.windows().Click; window > 0 {
		r.Until = s.o.Now().Add(-window)
	}
	return r
}

// ReadLists reads the lists in a log. Events of nodes that the graph does not have are counted and left out.
func ReadLists(ctx context.Context, log store.Store, g *graph.Graph, r ListReading) (*LoggedLists, error) {
	out := &LoggedLists{}
	at := map[string]int{}       // by the list's id
	place := map[[2]string]int{} // by the list's id and the target's
	for event, err := range store.All(ctx, log, r.After) {
		if err != nil {
			return nil, err
		}
		if event.List == "" {
			continue
		}
		i, known := r.Find(event.Source)
		j, found := r.Find(event.Target)
		if !known || !found || i == j || !g.IsSource(i) || !g.IsTarget(j) {
			out.Strange++
			continue
		}
		if event.Kind == store.Shown && !r.Until.IsZero() && event.At.After(r.Until) {
			continue
		}
		n, ok := at[event.List]
		if !ok {
			if event.Kind != store.Shown {
				continue // of a list that is too young, or was not logged
			}
			if len(out.Lists) == maxLoggedLists {
				out.Beyond++
				continue
			}
			n = len(out.Lists)
			at[event.List], out.Lists = n, append(out.Lists, evaluate.LoggedList{Source: i})
			out.Seqs = append(out.Seqs, event.Seq)
		}
		key := [2]string{event.List, event.Target}
		k, ok := place[key]
		if !ok {
			k = len(out.Lists[n].Items)
			place[key] = k
			out.Lists[n].Items = append(out.Lists[n].Items, evaluate.LoggedItem{Target: j})
			out.Linked = out.Linked || g.HasLink(i, j)
		}
		surface := r.Clicks.Surface(event.Surface)
		switch item := &out.Lists[n].Items[k]; {
		case event.Kind == store.Shown:
			item.Probability, item.Place, item.Placed = event.Probability, event.Position, event.Placed
			item.Seen = r.Clicks.Seen(event.Surface, event.Position)
		case event.Kind == store.Linked || event.Kind == store.Clicked && (surface == nil || !surface.ByLinks):
			item.Wanted = true
		}
	}
	return out, nil
}

// ByPlace makes the probabilities of items in a list those of items at their place.
func (l *LoggedLists) ByPlace() {
	for _, list := range l.Lists {
		for k := range list.Items {
			if item := &list.Items[k]; item.Place > 0 {
				item.Probability *= item.Placed
			} else {
				item.Probability = 0
			}
		}
	}
}

// Known leaves out the lists with items of unknown probability, and returns how many there were.
func (l *LoggedLists) Known() (unknown int) {
	var lists []evaluate.LoggedList
	var seqs []int64
	for n, list := range l.Lists {
		known := true
		for _, item := range list.Items {
			known = known && item.Probability > 0
		}
		if known {
			lists, seqs = append(lists, list), append(seqs, l.Seqs[n])
		}
	}
	unknown = len(l.Lists) - len(lists)
	l.Lists, l.Seqs = lists, seqs
	return unknown
}
