package serve

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"unseen/click"
	"unseen/evaluate"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/recommend"
	"unseen/serve/store"
)

// maxLoggedLists limits the lists that a model is evaluated on.
const maxLoggedLists = 200_000

// LoggedLists are the lists of a log, with the probabilities that the log has of their items and what came of them.
type LoggedLists struct {
	Lists   []evaluate.LoggedList
	Seqs    []int64  // the Seq of the first event of each list
	Surface []string // where each list was shown
	Linked  bool     // lists contain targets that their source links to
	Strange int      // events of lists that name no source and target of the graph
	Beyond  int      // events of lists after the first 200,000
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
			out.Seqs, out.Surface = append(out.Seqs, event.Seq), append(out.Surface, event.Surface)
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
	var kept LoggedLists
	for n, list := range l.Lists {
		known := true
		for _, item := range list.Items {
			known = known && item.Probability > 0
		}
		if known {
			kept.Lists, kept.Seqs = append(kept.Lists, list), append(kept.Seqs, l.Seqs[n])
			kept.Surface = append(kept.Surface, l.Surface[n])
		}
	}
	unknown = len(l.Lists) - len(kept.Lists)
	l.Lists, l.Seqs, l.Surface = kept.Lists, kept.Seqs, kept.Surface
	return unknown
}

// ReaderBehaviour is how often the readers of lists look at places, and how that was learned.
type ReaderBehaviour struct {
	*click.Behaviour
	log *click.Log
}

// learned is how it was learned for a surface; nil where it was given.
func (r *ReaderBehaviour) learned(surface string) *evaluate.LearnedPlaces {
	moves := r.log.Moves(r.Surface(surface))
	if moves == nil {
		return nil
	}
	out := &evaluate.LearnedPlaces{Move: func(context int, slopes []float64) float64 {
		return moves.Move(int32(context), slopes)
	}}
	for _, source := range moves.Sources {
		out.Contexts = append(out.Contexts, int(source))
	}
	return out
}

// Behaviour learns from the lists how often places are looked at, by what chance has placed. Whatever is relevant is
// then as often at one place as at another, so that outcomes compare places as they are: everything counts as wanted.
func (l *LoggedLists) Behaviour(given *click.Behaviour) *ReaderBehaviour {
	reader := click.NewReader(click.Windows{}, time.Time{})
	for n, list := range l.Lists {
		for _, item := range list.Items {
			e := click.Occurrence{Act: click.Shown, Source: list.Source, Target: item.Target,
				List: strconv.Itoa(n), Surface: l.Surface[n], Place: item.Place, Placed: item.Placed}
			if reader.Add(e); item.Wanted {
				e.Act = click.Clicked
				reader.Add(e)
			}
		}
	}
	log := reader.Log()
	return &ReaderBehaviour{log.Estimate(log.AllWanted(), given), log}
}

// Ask asks a policy what it would have shown in place of the lists: those of each surface with what is known of how
// often its readers look at places, where the policy does not say that itself. It warns of lists whose places are not
// told apart.
func (l *LoggedLists) Ask(p recommend.Policy, readers *ReaderBehaviour,
	ask func([]evaluate.LoggedList, recommend.Policy) ([]evaluate.PolicyList, error)) ([]evaluate.PolicyList, []string,
	error) {
	if p.ByPlace || p.Examination != nil {
		lists, err := ask(l.Lists, p)
		return lists, nil, err
	}
	type kind struct {
		surface string
		placed  bool // all places are known
	}
	examined, of := map[kind][]float64{}, map[kind][]int{}
	blind := 0
	for n, list := range l.Lists {
		at := kind{l.Surface[n], len(list.Items) <= recommend.MostPlaces && p.K <= recommend.MostPlaces}
		for _, item := range list.Items {
			at.placed = at.placed && item.Place > 0
		}
		if of[at] == nil && at.placed {
			examined[at] = readers.Surface(at.surface).Examination()
		}
		if of[at] = append(of[at], n); examined[at] == nil && len(list.Items) > 1 {
			blind++
		}
	}
	out := make([]evaluate.PolicyList, len(l.Lists))
	for at, places := range of {
		part := make([]evaluate.LoggedList, len(places))
		for k, n := range places {
			part[k] = l.Lists[n]
		}
		if p.Examination, p.Learned = examined[at], nil; p.Examination != nil {
			p.Learned = readers.learned(at.surface)
		}
		lists, err := ask(part, p)
		if err != nil {
			return nil, nil, err
		}
		for k, n := range places {
			out[n] = lists[k]
		}
	}
	var warnings []string
	if blind > 0 {
		warnings = append(warnings, fmt.Sprintf("how often readers look at the places of %s of %s lists is not known, "+
			"so that these count alike: too few outcomes were at a place by chance", amount.Text(blind),
			amount.Text(len(l.Lists))))
	}
	return out, warnings, nil
}
