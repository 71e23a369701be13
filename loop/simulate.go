package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/world"
)

// Settings describe a simulation. The zero value is the experiment of the paper's Figure 2 with the
// method naive and both switches off.
type Settings struct {
	Papers int `json:"papers"` // 0 means 410
	Fields int `json:"fields"` // equally large; 0 means 2
	Dim    int `json:"dim"`    // of the vectors; 0 means 16
	Shown  int `json:"shown"`  // recommendations to each paper in every round; 0 means 20
	Rounds int `json:"rounds"` // of recommendations; 0 means 20

	Method string `json:"method"` // of package fit; "" means naive

	// NewLearner makes the learner of a run; nil means that of the Method, which is only a name
	// otherwise.
	NewLearner func() Learner `json:"-"`

	// SeesField shows the link model whether source and target are of one field, and which field that
	// is, so that it can mistake exposure for relevance.
	SeesField bool `json:"seesField"`
	// UnshownNegative counts pairs that were not recommended as not linked, as the theory's n_v/n
	// does. Otherwise training is on recommended pairs alone.
	UnshownNegative bool `json:"unshownNegative"`

	Negatives int `json:"negatives"` // unlinked pairs to learn from, at most; 0 means 4,000

	Seed    uint64 `json:"seed"` // of the world, the draws and the training
	Threads int    `json:"-"`    // 0 means all processors; results do not depend on it

	Progress progress.Func `json:"-"` // receives an event after every round; may be nil
}

// WithDefaults returns the settings with every default in place of its zero.
func (s Settings) WithDefaults() Settings {
	s.Papers = cmp.Or(s.Papers, 410)
	s.Fields = cmp.Or(s.Fields, 2)
	s.Dim = cmp.Or(s.Dim, 16)
	s.Shown = cmp.Or(s.Shown, 20)
	s.Rounds = cmp.Or(s.Rounds, 20)
	s.Negatives = cmp.Or(s.Negatives, 4000)
	s.Threads = cmp.Or(s.Threads, runtime.GOMAXPROCS(0))
	if s.Method == "" && s.NewLearner == nil {
		s.Method = "naive"
	}
	return s
}

// Validate reports the first setting that is out of range.
func (s Settings) Validate() error {
	s = s.WithDefaults()
	switch {
	case s.Papers < 10 || s.Papers > maxPapers:
		return settingError("%d papers; give from 10 to %d: every round uses all pairs", s.Papers, maxPapers)
	case s.Fields < 2 || s.Fields > s.Papers/2:
		return settingError("%d fields of %d papers; give from 2 to %d", s.Fields, s.Papers, s.Papers/2)
	case s.Dim < 1 || s.Dim > 4096:
		return settingError("vectors of dimension %d; give from 1 to 4096", s.Dim)
	case s.Shown < 1 || s.Shown > s.Papers-1:
		return settingError("%d recommendations to each of %d papers; give from 1 to %d", s.Shown, s.Papers, s.Papers-1)
	case s.Rounds < 1:
		return settingError("%d rounds; give at least 1", s.Rounds)
	case s.Negatives < 100:
		return settingError("%d unlinked pairs to learn from; give at least 100", s.Negatives)
	case s.Threads < 0:
		return settingError("%d threads; give 1 or more, or 0 for all processors", s.Threads)
	}
	if s.NewLearner != nil {
		return nil
	}
	if _, err := s.training().WithDefaults(); err != nil {
		return fmt.Errorf("%w: %w", ErrSetting, err)
	}
	return nil
}

// maxPapers keeps the data of all pairs within a gigabyte.
const maxPapers = 3000

// History is the result of a simulation.
type History struct {
	Settings Settings  `json:"settings"`
	Rounds   []Round   `json:"rounds"`
	Truth    []float64 `json:"truth"`   // same-field share of recommendations drawn in proportion to y, by source field
	Exposed  []float64 `json:"exposed"` // the same in proportion to π·y
	Names    []string  `json:"names"`   // of the fields
}

// Round is one round of recommendations.
type Round struct {
	Same  []float64 `json:"same"`  // same-field share of the recommendations, by source field
	All   float64   `json:"all"`   // of all of them
	Links int       `json:"links"` // made from them
	Kept  bool      `json:"kept"`  // the learner of the round before was kept: its links taught nothing
}

// Simulate makes a world, trains a recommender on its links, and then retrains it every round on the
// links that its own recommendations lead to:
//
//	train ──► Shown recommendations to each paper, without replacement, in proportion to ŷ
//	  ▲                                   │
//	  └── links are drawn from (π, y) ◄───┘
//
// The first training is on all pairs, with exposure as the world has it. For a recommender of your own
// set Settings.NewLearner; a weighting of your own needs only risk.Register, and its name as Method.
func Simulate(ctx context.Context, s Settings) (*History, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.WithDefaults()
	l, err := newSimulation(ctx, s)
	if err != nil {
		return nil, err
	}
	defer l.close()
	h := &History{Settings: s, Names: l.names}
	for _, r := range []struct {
		share  *[]float64
		weight func(risk.Truth) float64
	}{
		{&h.Truth, func(t risk.Truth) float64 { return t.Link }},
		{&h.Exposed, func(t risk.Truth) float64 { return t.Link * t.Propensity }},
	} {
		for k, t := range l.pairs.Truth {
			l.weights[k] = r.weight(t)
		}
		const draws = 10 // their mean is the yardstick
		*r.share = make([]float64, s.Fields)
		for k := range draws {
			shown, err := l.recommend(ctx, "yardstick", k)
			if err != nil {
				return nil, err
			}
			for f, x := range l.same(shown).Same {
				(*r.share)[f] += x / draws
			}
		}
	}

	linked, trained := l.pairs.Pairs.Linked, []int32(nil)
	for t := range s.Rounds {
		kept, err := l.train(ctx, linked, trained, t)
		if err != nil {
			return nil, fmt.Errorf("round %d of %s: %w", t+1, s.Method, err)
		}
		shown, err := l.recommend(ctx, "recommendation", t)
		if err != nil {
			return nil, err
		}
		round := l.same(shown)
		round.Kept = kept
		linked, trained = l.interact(shown, t), shown
		for _, k := range shown {
			if linked[k] {
				round.Links++
			}
		}
		h.Rounds = append(h.Rounds, round)
		s.Progress.Report(progress.Event{Phase: s.Method, Done: int64(t + 1), Of: int64(s.Rounds)})
	}
	return h, nil
}

// simulation is the state of a run. A pair is known by its place among all pairs, which are in order
// of source and then of target: those of source i begin at i·(papers−1).
type simulation struct {
	s       Settings
	world   *world.World
	nodes   model.Nodes // as the link model sees them
	pairs   *world.TruePairs
	weights []float64 // of each pair in the recommendations: ŷ
	names   []string

	learner Learner
}

// World makes the world that a simulation with these settings begins in.
func (s Settings) World(ctx context.Context) (*world.World, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.WithDefaults()
	w, err := world.New(ctx, world.Settings{
		Nodes: s.Papers, Dim: s.Dim, Fields: world.EvenFields(s.Fields),
		Scenario: world.Scenario{Seed: s.Seed, Threads: s.Threads},
	})
	if err != nil {
		return nil, fmt.Errorf("simulated world: %w", err)
	}
	return w, nil
}

func newSimulation(ctx context.Context, s Settings) (*simulation, error) {
	w, err := s.World(ctx)
	if err != nil {
		return nil, err
	}
	l := &simulation{s: s, world: w, nodes: model.NodesOf(w.Graph()), learner: &fitLearner{settings: s.training()}}
	if s.NewLearner != nil {
		l.learner = s.NewLearner()
	}
	l.names = l.nodes.FieldNames[1:] // the first is the unknown field, which no paper has
	if l.pairs, err = w.Pairs(ctx, s.Papers*(s.Papers-1), world.Draw{Parts: 1}); err != nil {
		return nil, fmt.Errorf("simulated world: %w", err)
	}
	l.weights = make([]float64, l.pairs.Pairs.Len())
	if s.SeesField {
		if l.nodes.Vectors, err = withFields(l.nodes); err != nil {
			return nil, fmt.Errorf("simulated world: %w", err)
		}
	}
	return l, nil
}

func (l *simulation) close() {
	if l.s.SeesField {
		l.nodes.Vectors.Close()
	}
	l.world.Graph().Vectors().Close()
}

// withFields returns the vectors with a coordinate more for every field, which is not 0 for the
// papers of that field. In h_i⊙h_j it is not 0 where both are of it: a link model that is a sum over
// coordinates so sees whether source and target are of one field. The coordinate is as long as all
// others are together.
func withFields(n model.Nodes) (*graph.Vectors, error) {
	d := n.Vectors.Dim()
	extended, err := graph.NewVectors(n.Len(), d+n.FieldCount-1)
	if err != nil {
		return nil, err
	}
	row := make([]float32, d+n.FieldCount-1)
	for i, f := range n.Fields {
		clear(row)
		n.Vectors.Load(row[:d], int32(i))
		if f > 0 {
			row[d+int(f)-1] = fieldLength
		}
		if err := extended.Set(int32(i), row); err != nil {
			return nil, err
		}
	}
	return extended, nil
}

const fieldLength = 1

// training returns how each model is trained: to the optimum, from one start, without replicates
// and with a quick doctor because these models need no intervals and nobody sees a verdict on them.
// Adam with its early stop does not work here: where one pair in fifty is linked it stops far from
// the optimum, at a share of any size.
func (s Settings) training() fit.Settings {
	return fit.Settings{
		Method: s.Method, Seed: s.Seed, Threads: s.Threads,
		Optimiser: "lbfgs", Ridge: 16, Starts: []float64{.3}, Replicates: -1, Doctor: fit.QuickDoctor,
	}
}

// train trains the learner on the links among the trained pairs, or among all pairs if trained is nil or
// unshown pairs count, and sets the weights. If nothing can be learned, as without any link, it keeps
// the learner as it was.
func (l *simulation) train(ctx context.Context, linked []bool, trained []int32, round int) (kept bool, err error) {
	err = l.learner.Train(ctx, l.nodes, l.sample(linked, trained, round))
	switch {
	case errors.Is(err, fit.ErrData) && round > 0:
		return true, nil
	case err != nil:
		return false, err
	}
	return false, l.weigh(ctx)
}

// sample returns the pairs to learn from: every link, and unlinked pairs at a rate that leaves about
// Negatives of them, as the case-control likelihood has it.
func (l *simulation) sample(linked []bool, trained []int32, round int) *graph.Pairs {
	all := l.pairs.Pairs
	if trained == nil || l.s.UnshownNegative {
		trained = make([]int32, all.Len())
		for k := range trained {
			trained[k] = int32(k)
		}
	}
	links := 0
	for _, k := range trained {
		if linked[k] {
			links++
		}
	}
	rate := min(1, float64(l.s.Negatives)/float64(max(len(trained)-links, 1)))
	rng := newStream(l.s.Seed, "negative", uint64(round))
	p := &graph.Pairs{Universe: int64(len(trained))}
	for _, k := range trained {
		if !linked[k] && rng.Float64() >= rate {
			continue
		}
		weight := 1.
		if !linked[k] {
			weight = 1 / rate
		}
		p.Source, p.Target = append(p.Source, all.Source[k]), append(p.Target, all.Target[k])
		p.Linked = append(p.Linked, linked[k])
		p.Weight, p.Rate = append(p.Weight, weight), append(p.Rate, rate)
	}
	return p
}

// recommend draws Shown targets for each paper without replacement, each in proportion to its weight
// among those left, and returns their pairs in ascending order.
//
// The one that comes first among clocks that ring at rates w is each with probability in proportion to
// w, and so on among the rest (Efraimidis and Spirakis, 2006).
func (l *simulation) recommend(ctx context.Context, stream string, round int) ([]int32, error) {
	papers, per := l.s.Papers, l.s.Papers-1
	shown := make([]int32, papers*l.s.Shown)
	return shown, kern.ChunksErr(ctx, papers, 16, l.s.Threads, func(_, _, from, to int) error {
		clocks := make([]clock, l.s.Shown)
		for i := from; i < to; i++ {
			rng := newStream(l.s.Seed, stream, uint64(round)<<32|uint64(i))
			clocks = clocks[:0]
			for k := i * per; k < (i+1)*per; k++ {
				clocks = earliest(clocks, clock{rng.ExpFloat64() / max(l.weights[k], 1e-300), int32(k)})
			}
			mine := shown[i*l.s.Shown : (i+1)*l.s.Shown]
			for r := range mine {
				mine[r] = clocks[r].pair
			}
			slices.Sort(mine)
		}
		return nil
	})
}

// clock rings once, for a pair.
type clock struct {
	at   float64
	pair int32
}

// earliest adds a clock to those kept, in order of their time, of which there are at most as many as
// there is room for.
func earliest(kept []clock, c clock) []clock {
	if len(kept) == cap(kept) {
		if c.at >= kept[len(kept)-1].at {
			return kept
		}
		kept = kept[:len(kept)-1]
	}
	k := len(kept)
	kept = append(kept, c)
	for ; k > 0 && kept[k-1].at > c.at; k-- {
		kept[k] = kept[k-1]
	}
	kept[k] = c
	return kept
}

// same counts the recommendations that stay in the source's field.
func (l *simulation) same(shown []int32) Round {
	same, all := make([]float64, l.s.Fields), make([]float64, l.s.Fields)
	var total float64
	for _, k := range shown {
		f, g := l.nodes.Fields[l.pairs.Pairs.Source[k]], l.nodes.Fields[l.pairs.Pairs.Target[k]]
		all[f-1]++
		if f == g {
			same[f-1]++
			total++
		}
	}
	for f := range same {
		same[f] /= all[f]
	}
	return Round{Same: same, All: total / float64(len(shown))}
}

// interact draws which of the recommended pairs are linked.
func (l *simulation) interact(shown []int32, round int) []bool {
	rng := newStream(l.s.Seed, "interaction", uint64(round))
	linked := make([]bool, l.pairs.Pairs.Len())
	for _, k := range shown {
		t := l.pairs.Truth[k]
		linked[k] = rng.Float64() < t.Propensity*t.Link
	}
	return linked
}
