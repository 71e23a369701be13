package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"unseen/engine"
	"unseen/fit"
	"unseen/internal/kern"
	"unseen/progress"
)

// ErrOption: an option is out of range, or there is no study of that name. Errors that the caller's options cause wrap
// it.
var ErrOption = errors.New("unusable option")

// Study is one table or figure of the paper, or a question of our own.
type Study struct {
	Name  string // as a command line has it
	Title string

	planted bool // it can run on worlds that are planted on a network
	either  bool // it can run on worlds, or on networks as they are
	real    bool // it is about real networks, and needs at least one
	logged  bool // it needs networks with logged exposure
	shown   bool // it needs sets of shown pairs

	run func(ctx context.Context, l *lab) (*Result, error)
}

// All returns the studies in the order in which "all" runs them.
func All() []Study {
	return []Study{table1, quality, balance, table2, table3, table4, figure1, figure2, theory, bound, robust,
		exploration, refresh, doctor, prescription, certificate, clicks, exposed, policy, exact}
}

// Lookup returns the studies with these names, each once, in the order of All. The name "all" means all of them.
func Lookup(names ...string) ([]Study, error) {
	var known []string
	for _, s := range All() {
		known = append(known, s.Name)
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: no study %q; there is %s, or all", ErrOption, name, strings.Join(known, ", "))
		}
	}
	var chosen []Study
	for _, s := range All() {
		if slices.Contains(names, "all") || slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// Options say how large studies are. The zero value is the paper's size.
type Options struct {
	// one repetition each; nil means 2001 to 2010, to 2003 of networks, to 2002 if Quick
	Seeds   []uint64 `json:"seeds"`
	Threads int      `json:"-"`      // 0 means all processors; results do not depend on it
	Preset  string   `json:"preset"` // of the trainings that are not about presets; "" means safe
	Quick   bool     `json:"quick"`  // a small version that takes seconds, to see that everything works

	// Nodes and Dim are the size of the worlds of the study exact; 0 means its own. Engine sums its pairs, such as a
	// graphics card; nil means the processor.
	Nodes  int           `json:"nodes,omitempty"`
	Dim    int           `json:"dim,omitempty"`
	Engine engine.Engine `json:"-"`

	// Keep is a folder in which tasks are kept as they end, so that a run that was stopped goes on there, one of more
	// seeds has those of the first, and one takes what several machines did: the studies of generated worlds whose rows
	// take long do so. "" means nowhere. Build says which program it is; tasks of another one are not taken.
	Keep  string `json:"-"`
	Build string `json:"-"`

	// Progress is called after every training and every other task; the phase is the name of the study.
	Progress progress.Func `json:"-"`

	// Networks are real networks. table1, table2 and balance plant truths on one instead of generating worlds: its own
	// texts and fields, a link model fitted to its links, and everything else as in generated worlds. Other studies
	// are about real networks alone, and the rest cannot use any.
	Networks []RealNetwork `json:"networks,omitempty"`

	// Shown are sets of people and items of which it is known what was shown; for the study exposed alone.
	Shown []*ShownSet `json:"-"`

	// Methods are more ways to train, such as by a scheme of your own that is registered with package risk. table1,
	// table3 and table4 have rows for them, and table1 compares them with the others seed by seed.
	Methods []Method `json:"methods,omitempty"`
}

// WithDefaults returns the options with every default in place of its zero, or an error that names the unusable option.
func (o Options) WithDefaults() (Options, error) {
	if o.Seeds == nil {
		o.Seeds = Seeds(2001, o.Repetitions())
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Preset == "" {
		o.Preset = "safe"
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(o.Seeds)))
	switch {
	case len(o.Seeds) == 0:
		return o, fmt.Errorf("%w: no seeds; give one or more, or nil for ten", ErrOption)
	case len(distinct) < len(o.Seeds):
		return o, fmt.Errorf("%w: a seed is repeated, and would give the same numbers again; give different seeds",
			ErrOption)
	case o.Nodes < 0 || o.Nodes > 0 && o.Nodes < 200 || o.Dim < 0:
		return o, fmt.Errorf("%w: worlds of %d nodes with %d numbers each; give at least 200 nodes and 1 number",
			ErrOption, o.Nodes, o.Dim)
	case o.Threads < 0:
		return o, fmt.Errorf("%w: %d threads; give 1 or more, or 0 for all processors", ErrOption, o.Threads)
	case !slices.Contains(fit.Presets(), o.Preset):
		return o, fmt.Errorf("%w: no preset %q; there is %s", ErrOption, o.Preset, strings.Join(fit.Presets(), ", "))
	}
	for k, m := range o.Methods {
		_, err := fit.Settings{Method: m.Method, Preset: m.Preset, Optimiser: m.Optimiser}.WithDefaults()
		same := func(other Method) bool { return other.Name == m.Name }
		switch {
		case err != nil:
			return o, fmt.Errorf("%w: method %d, %q: %w", ErrOption, k+1, m.Name, err)
		case m.Name == "" || slices.ContainsFunc(o.Methods[:k], same) ||
			slices.ContainsFunc(slices.Concat(table1Methods, networkMethods, loggedMethods), same):
			return o, fmt.Errorf("%w: the name %q of method %d is empty or taken; give it a name of its own", ErrOption,
				m.Name, k+1)
		case m.Share < 0 || math.IsNaN(m.Share) || math.IsInf(m.Share, 0):
			return o, fmt.Errorf("%w: method %q has a share of %v; give a positive number, or 0 for the preset's",
				ErrOption, m.Name, m.Share)
		}
	}
	for k, s := range o.Shown {
		if slices.ContainsFunc(o.Shown[:k], func(other *ShownSet) bool { return other.Name == s.Name }) {
			return o, fmt.Errorf("%w: two sets are named %s; give each folder a name of its own", ErrOption, s.Name)
		}
	}
	o.Networks = slices.Clone(o.Networks)
	for k, n := range o.Networks {
		o.Networks[k].more = o.Methods
		switch {
		case n.Graph == nil || n.Name == "":
			return o, fmt.Errorf("%w: network %d has no graph or no name", ErrOption, k+1)
		case n.Graph.Vectors() == nil:
			return o,
				fmt.Errorf("%w: %s has no vectors; encode its texts, or add vectors.npy with a row for every node",
					ErrOption, n.Name)
		case n.Graph.Len() < fewestPlanted:
			return o, fmt.Errorf("%w: %s has %d nodes; give at least %d", ErrOption, n.Name, n.Graph.Len(),
				fewestPlanted)
		}
		for _, other := range o.Networks[:k] {
			if other.Name == n.Name {
				return o, fmt.Errorf("%w: two networks are named %s; give each a name of its own", ErrOption, n.Name)
			}
		}
	}
	return o, nil
}

// Repetitions is the number of seeds if none are given.
func (o Options) Repetitions() int {
	switch {
	case o.Quick:
		return 2
	case len(o.Shown) > 0:
		return 5
	case len(o.Networks) > 0:
		return 3
	}
	return 10
}

// Seeds returns count consecutive seeds.
func Seeds(first uint64, count int) []uint64 {
	seeds := make([]uint64, max(count, 0))
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// Run runs the studies that [Lookup] returns for the names. They share trainings. When ctx ends, it returns the
// context's error and the results that were finished before.
func Run(ctx context.Context, names []string, o Options) ([]*Result, error) {
	chosen, err := Lookup(names...)
	if err != nil {
		return nil, err
	}
	if o, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	if chosen, err = runnable(chosen, names, o); err != nil {
		return nil, err
	}
	l := newLab(o)
	defer l.close()
	if err := l.checkKept(chosen); err != nil {
		return nil, err
	}
	var results []*Result
	for _, s := range chosen {
		began := time.Now()
		l.begin(s.Name)
		r, err := s.run(ctx, l)
		if err != nil {
			return results, fmt.Errorf("study %s: %w", s.Name, err)
		}
		r.Study, r.Title, r.Options, r.Seconds = s.Name, s.Title, o, time.Since(began).Seconds()
		r.Options.Progress = nil
		results = append(results, r)
	}
	return results, nil
}

// runnable returns the studies that can run on the given networks, or without any. A study that cannot is left out if
// it is part of "all", and is an error if it was named.
func runnable(chosen []Study, names []string, o Options) ([]Study, error) {
	logged := slices.ContainsFunc(o.Networks, func(n RealNetwork) bool { return n.Log != nil })
	var can []Study
	for _, s := range chosen {
		var why string
		switch {
		case s.shown && len(o.Shown) == 0:
			why = "needs folders with votes or ratings of what was shown"
		case s.real && len(o.Networks) == 0:
			why = "needs a network; give the folder of a dataset"
		case s.logged && !logged:
			why = "needs a network whose exposures are logged; add exposures.parquet to the dataset"
		case !s.real && !s.planted && !s.shown && !s.either && len(o.Networks) > 0:
			why = "needs generated worlds; on data of your own there is " + strings.Join(onNetworks(), ", ")
		case s.planted && len(o.Networks) > 1:
			why = "plants truths on one network; give only one"
		}
		switch {
		case why == "":
			can = append(can, s)
		case slices.Contains(names, s.Name):
			return nil, fmt.Errorf("%w: %s %s", ErrOption, s.Name, why)
		}
	}
	return can, nil
}

// onNetworks names the studies that can use a network.
func onNetworks() (names []string) {
	for _, s := range All() {
		if s.planted || s.real || s.either {
			names = append(names, s.Name)
		}
	}
	return names
}

// lab is where the studies of one Run work.
type lab struct {
	Options
	trainings *trainings
	fits      map[fitKey]*fitted
	prepared  map[drawKey]*drawn

	mu    sync.Mutex // of what follows
	study string
	began time.Time
	done  float64 // cost
	total float64
}

func newLab(o Options) *lab {
	return &lab{Options: o, trainings: newTrainings(o), fits: make(map[fitKey]*fitted),
		prepared: make(map[drawKey]*drawn)}
}

func (l *lab) close() { l.trainings.close() }

// begin starts the count of a study's work.
func (l *lab) begin(study string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.study, l.began, l.done, l.total = study, time.Now(), 0, 0
}

// task is an independent piece of work: what it is called, what it costs in any unit, and what it does.
// It runs on one thread, beside other tasks.
type task struct {
	name string
	cost float64
	do   func(ctx context.Context) error
	rows []any // pointers to all that it fills, where that may be kept for another run; nil where it may not
}

// each does the tasks, as many side by side as there are threads, begun in their order; not those that an earlier run
// has done. The first failure stops the others; it returns the error once all that had begun have ended.
func (l *lab) each(ctx context.Context, tasks []task) error {
	tasks, err := l.left(tasks)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		l.total += t.cost
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	err = kern.ChunksErr(ctx, len(tasks), 1, l.Threads, func(_, i, _, _ int) error {
		err := tasks[i].do(inner)
		if err == nil {
			err = l.keep(tasks[i])
		}
		switch {
		case err == nil:
			l.finished(tasks[i])
			return nil
		case inner.Err() != nil && errors.Is(err, context.Canceled):
			return nil // another task failed, whose error is returned, or ctx ended
		}
		cancel()
		return fmt.Errorf("%s: %w", tasks[i].name, err)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// progressUnits is what the work of a study is counted in: thousandths of its cost.
const progressUnits = 1000

// finished reports a task.
func (l *lab) finished(t task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += t.cost
	e := progress.Event{Phase: l.study, Done: progressUnits, Of: progressUnits, Message: "done: " + t.name}
	if l.total > 0 && l.done > 0 {
		e.Done = int64(progressUnits * min(l.done/l.total, 1))
		e.Remaining = time.Duration(float64(time.Since(l.began)) * (l.total - l.done) / l.done)
	}
	l.Progress.Report(e)
}
