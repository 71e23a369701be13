package recommend

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"unseen/evaluate"
	"unseen/graph"
	"unseen/internal/kern"
)

// Rule is what a policy orders items by.
type Rule string

// The rules.
const (
	ByModel   Rule = "model"   // ŷ of the recommender
	ByPopular Rule = "popular" // links to the item
	ByUniform Rule = "uniform" // chance alone
)

// Policy is a way to make lists that a log is asked about; see evaluate.ValuePolicy.
type Policy struct {
	Rule    Rule    // "" means ByModel
	K       int     // items of a list; 0 means as many as the logged list has
	Explore float64 // share of the places that are drawn, as in Query
	Linked  bool    // items that the source links to already may be shown
	Exclude []int32 // never these, but for what a list has
	// ByPlace says that the log has the probability of an item at its place, rather than in the list.
	ByPlace bool
	// Examination is the probability that a reader looks at a place, from the first on; further places have the last.
	// nil means that places do not matter.
	Examination []float64
	Learned     *evaluate.LearnedPlaces // how Examination was learned; nil: it is known
	Threads     int                     // 0 means all processors; results do not depend on it
}

// MostPlaces is the longest list whose places are told apart.
const MostPlaces = 200

// check refuses what cannot be.
func (p Policy) check() error {
	switch {
	case p.K < 0 || p.K > MaxK:
		return fmt.Errorf("%w: lists of %d; give 1 to %d, or 0 for those of the log", ErrQuery, p.K, MaxK)
	case !(p.Explore >= 0 && p.Explore <= 1):
		return fmt.Errorf("%w: a share of %v to explore; give one from 0 to 1", ErrQuery, p.Explore)
	}
	for k, x := range p.Examination {
		if !(x > 0 && x <= 1) {
			return fmt.Errorf("%w: place %d is examined with probability %v; give one above 0, at most 1", ErrQuery,
				k+1, x)
		}
	}
	return nil
}

// examined is the probability that a reader looks at a place; 0 is an unknown one.
func (p Policy) examined(place int) float64 {
	if len(p.Examination) == 0 || place < 1 {
		return 1
	}
	return p.Examination[min(place, len(p.Examination))-1]
}

// PolicyLists says what a policy would have shown in place of lists that were logged. Candidates are as of Top, and
// what a list has was a candidate. Its Context is the source.
//
// Probabilities are those with which Top draws an exact list, of the item in it and of its place. Those of a list by
// the index are about the same, but for what it does not find. How the logged lists were made does not matter: their
// probabilities are given.
func (r *Recommender) PolicyLists(ctx context.Context, lists []evaluate.LoggedList,
	p Policy) ([]evaluate.PolicyList, error) {
	switch p.Rule {
	case "", ByModel:
	case ByPopular, ByUniform:
		return RulePolicyLists(ctx, r.g, lists, p)
	default:
		return nil, fmt.Errorf("%w: a policy by %.40q; give %s, %s or %s", ErrQuery, string(p.Rule), ByModel, ByPopular,
			ByUniform)
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r.policyLists(ctx, lists, p, func(ctx context.Context, room *room, i int32) error {
		err := r.score(ctx, room.by, r.ranker, r.Node(i), nil)
		if room.links != room.by {
			err = cmp.Or(err, r.score(ctx, room.links, r.published, r.Node(i), nil))
		}
		return err
	})
}

// RulePolicyLists is PolicyLists of a rule, which needs no model. Items by popularity are explored in proportion to
// their links.
func RulePolicyLists(ctx context.Context, g *graph.Graph, lists []evaluate.LoggedList,
	p Policy) ([]evaluate.PolicyList, error) {
	scores := make([]float32, g.Len()) // so that σ(score) is about the share of all links
	for _, j := range g.Targets() {
		if p.Rule == ByPopular {
			scores[j] = float32(math.Log((float64(len(g.In(j))) + .5) / float64(g.LinkCount()+g.Len())))
		}
	}
	if p.Rule == ByUniform {
		p.Explore = 1
	}
	r := &Recommender{g: g}
	r.rooms.New = func() any { return new(room) }
	return r.policyLists(ctx, lists, p, func(_ context.Context, room *room, _ int32) error {
		copy(room.by.z, scores)
		room.links = nil // there is no model
		return nil
	})
}

// policyLists asks for every source once.
func (r *Recommender) policyLists(ctx context.Context, lists []evaluate.LoggedList, p Policy,
	score func(context.Context, *room, int32) error) ([]evaluate.PolicyList, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	by := map[int32][]int{}
	for at, l := range lists {
		if l.Source < 0 || int(l.Source) >= r.g.Len() || !r.g.IsSource(l.Source) {
			return nil, fmt.Errorf("%w: list %d is of node %d, which is none of the sources", ErrQuery, at+1, l.Source)
		}
		for k, item := range l.Items {
			if item.Target < 0 || int(item.Target) >= r.g.Len() || !r.g.IsTarget(item.Target) ||
				item.Target == l.Source {
				return nil, fmt.Errorf("%w: item %d of list %d is node %d, which is none of the targets", ErrQuery, k+1,
					at+1, item.Target)
			}
			if p.ByPlace && item.Place < 1 {
				return nil, fmt.Errorf("%w: the place of item %d of list %d is unknown, and probabilities are by place",
					ErrQuery, k+1, at+1)
			}
		}
		by[l.Source] = append(by[l.Source], at)
	}
	sources := slices.Sorted(maps.Keys(by))
	out := make([]evaluate.PolicyList, len(lists))
	return out, kern.ChunksErr(ctx, len(sources), 1, kern.Threads(p.Threads), func(_, at, _, _ int) error {
		room := r.enter(nil)
		defer r.rooms.Put(room)
		i := sources[at]
		if err := score(ctx, room, i); err != nil {
			return err
		}
		plans := map[int]*plan{} // by the length of the list
		for _, n := range by[i] {
			k := cmp.Or(p.K, len(lists[n].Items))
			if plans[k] == nil {
				made, err := r.plan(room, i, k, lists, by[i], p)
				if err != nil {
					return err
				}
				plans[k] = made
			}
			out[n] = plans[k].of(lists[n], p)
		}
		return nil
	})
}

// plan is what a policy shows to a source.
type plan struct {
	kept     []int32   // candidates, ascending
	chances  []float64 // that a list has them
	explored float64   // share
	length   int
	ranks    []int             // of the candidates, from 0, in the order of a list; nil where places do not matter
	places   map[int][]float64 // by candidate: the probability of each place, given that it is in the list
	expected []float64         // of the candidates' outcomes; nil without a model
	total    float64           // Σ chance
	outcome  float64           // Σ chance·expected
}

func (r *Recommender) plan(room *room, i int32, k int, lists []evaluate.LoggedList, of []int, p Policy) (*plan, error) {
	r.candidates(room, Query{Source: r.Node(i), Linked: p.Linked, Exclude: p.Exclude})
	for _, n := range of {
		for _, item := range lists[n].Items {
			room.kept = append(room.kept, item.Target)
		}
	}
	slices.Sort(room.kept)
	room.kept = slices.Compact(room.kept)
	made := &plan{kept: slices.Clone(room.kept), length: min(k, len(room.kept)), explored: p.Explore,
		places: map[int][]float64{}}
	made.chances = room.chances(made.length, p.Explore)
	if p.ByPlace || len(p.Examination) > 0 {
		if made.length > MostPlaces {
			return nil, fmt.Errorf("%w: lists of %d; places are told apart up to %d", ErrQuery, made.length, MostPlaces)
		}
		made.rank(room.by.z)
	}
	for c, t := range made.chances {
		made.total += t
		if room.links == nil {
			continue
		}
		y := sigmoid(float64(room.links.z[made.kept[c]]))
		if made.ranks != nil { // about where it would be; any number is right as long as items have the same
			y *= p.examined(min(made.ranks[c], made.length-1) + 1)
		}
		made.expected = append(made.expected, y)
		made.outcome += t * y
	}
	return made, nil
}

// rank orders the candidates as a list would.
func (m *plan) rank(scores []float32) {
	order := make([]int, len(m.kept))
	for c := range order {
		order[c] = c
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[m.kept[b]], scores[m.kept[a]]), cmp.Compare(a, b))
	})
	m.ranks = make([]int, len(order))
	for at, c := range order {
		m.ranks[c] = at
	}
}

// of is the policy in place of a list.
func (m *plan) of(l evaluate.LoggedList, p Policy) evaluate.PolicyList {
	out := evaluate.PolicyList{Context: int(l.Source), Length: m.total, Expected: m.outcome,
		Items: make([]evaluate.PolicyItem, len(l.Items))}
	for k, item := range l.Items {
		c, _ := slices.BinarySearch(m.kept, item.Target)
		made := evaluate.PolicyItem{Logged: item.Probability, Target: min(m.chances[c], 1)}
		if item.Wanted {
			made.Outcome = 1
		}
		if m.expected != nil {
			made.Expected = m.expected[c]
		}
		switch {
		case made.Target == 0 || m.ranks == nil:
		case p.ByPlace && item.Place > m.length:
			made.Target = 0
		case p.ByPlace:
			made.Target *= m.at(c)[item.Place-1]
		default:
			look := 0.
			for place, chance := range m.at(c) {
				look += chance * p.examined(place+1)
			}
			made.Examination = look / p.examined(item.Place)
			if p.Learned != nil && item.Wanted && item.Place > 0 {
				out.Places = p.Learned
				out.Slopes = m.slopes(out.Slopes, c, made, item.Place, p)
			}
		}
		out.Items[k] = made
	}
	return out
}

// slopes adds by how much the weighted outcome of an item moves with the logarithm of the chance that each place is
// looked at: up with those where the policy shows it, and down with that where the log did.
func (m *plan) slopes(sum []float64, c int, item evaluate.PolicyItem, place int, p Policy) []float64 {
	for len(sum) < max(m.length, place) {
		sum = append(sum, 0)
	}
	weighted := item.Target / item.Logged * item.Outcome
	for k, chance := range m.at(c) {
		sum[k] += weighted * chance * p.examined(k+1) / p.examined(place)
	}
	sum[place-1] -= weighted * item.Examination
	return sum
}

// at returns the probability of each place for a candidate, given that it is in the list.
func (m *plan) at(c int) []float64 {
	places := m.places[c]
	if places == nil {
		places = make([]float64, m.length)
		if m.places[c] = places; m.explored > 0 {
			m.follow(c, places)
		} else {
			places[m.ranks[c]] = 1
		}
		for k := range places { // a share of the lists is in any order
			places[k] = (1-m.explored)*places[k] + m.explored/float64(m.length)
		}
	}
	return places
}

// Whom the duels of Draw have left standing, and whether the candidate that is followed was taken.
const (
	standsBetter    = iota // somebody who comes before it in the list
	standsWorse            // somebody who comes after it
	standsItself           // the candidate
	takenThenBetter        // it was taken, and somebody stands who comes before it
	takenThenWorse
	standing
)

// follow sets the probability of each place of a candidate, given that Draw takes it: its place is one more than
// the number of those taken that come before it. Of all else it matters only who stands.
func (m *plan) follow(c int, places []float64) {
	size := standing * m.length
	f := &pursuit{length: m.length, states: make([]float64, size), next: make([]float64, size)}
	f.states[standsWorse*m.length] = 1 // nobody, with nothing
	held, taken, total := 0., 0, 0.
	begun, run := 0., [standsItself + 1]float64{} // what was held when a run of duels began, and who came since
	end := func() {
		if held > begun {
			f.run(begun/held, run, held)
		}
		begun, run = held, [standsItself + 1]float64{}
	}
	for i, b := range m.chances {
		total += b
		sum := held + b
		comes := standsWorse
		switch {
		case i == c:
			comes = standsItself
		case m.ranks[i] < m.ranks[c]:
			comes = standsBetter
		}
		switch {
		case sum < 1:
			run[comes] += b
			held = sum
			f.passed = f.passed || i == c
		case b >= 1:
			end()
			f.passed = f.passed || i == c
			f.each(func(stands int) { f.move(stands, comes, stands, 1) })
			taken++
		default:
			end()
			f.passed = f.passed || i == c
			f.each(func(stands int) {
				f.move(stands, comes, stands, (1-held)/(2-sum))
				f.move(stands, stands, comes, (1-b)/(2-sum))
			})
			held = sum - 1
			begun = held
			taken++
		}
	}
	end()
	if held > 0 && taken < int(math.Round(total)) { // the last one standing is taken
		f.each(func(stands int) { f.move(stands, stands, takenThenWorse, 1) })
	}
	sum := 0.
	for k := range places {
		places[k] = f.states[takenThenBetter*m.length+k] + f.states[takenThenWorse*m.length+k]
		sum += places[k]
	}
	for k := range places {
		places[k] /= sum
	}
}

// pursuit follows one candidate through the duels.
type pursuit struct {
	length       int
	states, next []float64 // probabilities by who stands and how many better ones were taken
	passed       bool      // the candidate has come
}

// each makes the next states of those where somebody stands.
func (f *pursuit) each(move func(stands int)) {
	clear(f.next)
	for stands := range standing {
		move(stands)
	}
	f.states, f.next = f.next, f.states
}

// run is a run of duels in which nobody is taken: who stood stays with a chance, or somebody of those who came stands,
// in proportion to what they have.
func (f *pursuit) run(stays float64, came [standsItself + 1]float64, held float64) {
	f.each(func(stands int) {
		f.move(stands, -1, stands, stays)
		for who, has := range came {
			f.move(stands, -1, who, has/held)
		}
	})
}

// move moves the probability of the states where somebody stands to where somebody else does then, and counts who was
// taken; −1 is nobody. What cannot end with the candidate taken, as it has come and does not stand, is left out.
func (f *pursuit) move(stands, taken, then int, chance float64) {
	was := stands == takenThenBetter || stands == takenThenWorse || taken == standsItself
	if was && then < standsItself {
		then += takenThenBetter
	}
	if f.passed && !was && then != standsItself || was && then == standsItself {
		return
	}
	more := 0
	if taken == standsBetter || taken == takenThenBetter {
		more = 1
	}
	from, to := f.states[stands*f.length:(stands+1)*f.length], f.next[then*f.length:(then+1)*f.length]
	for k := more; k < f.length; k++ {
		to[k] += chance * from[k-more]
	}
}
