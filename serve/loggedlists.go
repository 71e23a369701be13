package serve

import (
	"context"

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

// ReadLists reads the lists in a log after a Seq. find gives the number of a node by its id. Events of nodes that the
// graph does not have are counted and left out.
func ReadLists(ctx context.Context, log store.Store, after int64, g *graph.Graph,
	find func(id string) (int32, bool)) (*LoggedLists, error) {
	out := &LoggedLists{}
	at := map[string]int{}       // by the list's id
	place := map[[2]string]int{} // by the list's id and the target's
	for event, err := range store.All(ctx, log, after) {
		if err != nil {
			return nil, err
		}
		if event.List == "" {
			continue
		}
		i, known := find(event.Source)
		j, found := find(event.Target)
		if !known || !found || i == j || !g.IsSource(i) || !g.IsTarget(j) {
			out.Strange++
			continue
		}
		n, ok := at[event.List]
		if !ok {
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
		switch item := &out.Lists[n].Items[k]; event.Kind {
		case store.Shown:
			item.Probability, item.Place, item.Placed = event.Probability, event.Position, event.Placed
		case store.Clicked, store.Linked:
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
