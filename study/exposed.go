package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

var exposed = Study{
	Name:  "exposed",
	Title: "Exposed: what people like among what they were shown, by links alone and with logs",
	shown: true,
	run:   runExposed,
}

// exposedMode is how much of what was shown is logged.
type exposedMode struct {
	name          string
	people, pairs float64 // shares that are logged
}

var (
	blind      = exposedMode{name: "blind"}
	tenthOf    = exposedMode{name: "10% of people", people: .1}
	tenthPairs = exposedMode{name: "10% of pairs", pairs: .1}
	complete   = exposedMode{name: "complete log", pairs: 1}

	exposedModes = []exposedMode{blind, {name: "1% of people", people: .01}, tenthOf,
		{name: "1% of pairs", pairs: .01}, tenthPairs, complete}
)

func (m exposedMode) logged() bool { return m.people > 0 || m.pairs > 0 }

// The methods. Naive ones know nothing of what was shown, so that they are the same in every mode.
const (
	naiveAll       = "naive, all pairs"
	naiveAvailable = "naive, available pairs"
	recalibrated   = "naive, recalibrated"
	shownPairsOnly = "shown only"
	ours           = "mle"
	robustly       = "dr"
)

// How the factors are learned, alike by every method: of this rank, with this prior variance of ⟨u, v⟩, and until
// nothing changes, so that methods that mean the same give the same.
const (
	exposedRank  = 4
	exposedRidge = .25
)

// exposedSettings are those of a method.
func exposedSettings(method string, seed uint64) fit.Settings {
	s := fit.Settings{Method: "naive", Link: "factors", LinkOptions: model.LinkOptions{Rank: exposedRank},
		Ridge: exposedRidge, Seed: seed, Threads: 1,
		LBFGS: fit.LBFGSSettings{Iterations: 500, Tolerance: 1e-8}}
	switch method {
	case shownPairsOnly:
		s.Method = "shown"
	case ours, robustly:
		s.Method, s.Exposure = method, "fields+person+item+activity"
	}
	return s
}

// exposedDraw is a set with a fifth of the shown pairs held out, as if they had never been shown.
type exposedDraw struct {
	set   *ShownSet
	seed  uint64
	train []ShownPair
	test  []ShownPair
	graph *graph.Graph // of people and then items, with what was liked of train

	fits map[fitOf]*exposedFit
}

type fitOf struct {
	mode   string // that of the log; "" where none is used
	method string
}

// exposedFit is what a method makes of a draw.
type exposedFit struct {
	logits  []float64 // of the test pairs
	class   fit.Class
	bounds  *fit.FactorBounds
	seconds float64

	// π̂ over the pairs that were available, against the log.
	mean, share, shownAUC, items float64
}

// newDraw holds out a fifth of the shown pairs, drawn with a seed, unless the set has pairs to be judged by.
func newDraw(s *ShownSet, seed uint64) (*exposedDraw, error) {
	const heldOut = .2
	d := &exposedDraw{set: s, seed: seed, train: s.Shown, test: s.Random, fits: map[fitOf]*exposedFit{}}
	if s.Random == nil {
		d.train = nil
		rng := rand.New(rand.NewPCG(seed, 0x401d))
		for _, p := range s.Shown {
			if rng.Float64() < heldOut {
				d.test = append(d.test, p)
			} else {
				d.train = append(d.train, p)
			}
		}
	}
	var b graph.Builder
	b.Grow(len(s.People) + len(s.Items))
	for _, id := range s.People {
		if _, err := b.AddNode(graph.Node{ID: "person " + id, Role: graph.SourceOnly}); err != nil {
			return nil, err
		}
	}
	for j, id := range s.Items {
		n := graph.Node{ID: "item " + id, Role: graph.TargetOnly}
		if s.Since != nil {
			n.Time = time.Unix(s.Since[j], 0)
		}
		if _, err := b.AddNode(n); err != nil {
			return nil, err
		}
	}
	for _, p := range d.train {
		var err error
		switch {
		case !p.Liked:
		case s.Since == nil:
			err = b.AddLinkIndex(p.Person, d.node(p.Item))
		default:
			err = b.AddLinkAt(p.Person, d.node(p.Item), p.Time)
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	d.graph, _, err = b.Build()
	return d, err
}

// node is that of an item.
func (d *exposedDraw) node(item int32) int32 { return int32(len(d.set.People)) + item }

// loggedPeople are those whose log is known, of a mode that logs people; nil otherwise. They are not judged.
func (d *exposedDraw) loggedPeople(m exposedMode) []bool {
	if m.people == 0 {
		return nil
	}
	n := len(d.set.People)
	logged := make([]bool, n)
	order := rand.New(rand.NewPCG(d.seed, 0x9e0)).Perm(n)
	for _, i := range order[:max(1, int(math.Round(m.people*float64(n))))] {
		logged[i] = true
	}
	return logged
}

// log is what a mode tells of what was shown.
func (d *exposedDraw) log(m exposedMode) (*sample.ExposureLog, sample.LogKind) {
	if !m.logged() {
		return nil, ""
	}
	out := &sample.ExposureLog{}
	add := func(person, item int32, shown, liked bool) {
		out.Source, out.Target = append(out.Source, person), append(out.Target, d.node(item))
		out.Exposed, out.Linked = append(out.Exposed, shown), append(out.Linked, liked)
	}
	people := d.loggedPeople(m)
	if people != nil || m.pairs == 1 {
		for _, p := range d.train {
			if people == nil || people[p.Person] {
				add(p.Person, p.Item, true, p.Liked)
			}
		}
		return out, sample.Complete
	}
	shown := make(map[[2]int32]bool, len(d.train)) // with whether it was liked
	for _, p := range d.train {
		shown[[2]int32{p.Person, p.Item}] = p.Liked
	}
	rng := rand.New(rand.NewPCG(d.seed, 0x9a1))
	for i := range int32(len(d.set.People)) {
		for j := range int32(len(d.set.Items)) {
			if rng.Float64() < m.pairs {
				liked, was := shown[[2]int32{i, j}]
				add(i, j, was, liked)
			}
		}
	}
	return out, sample.Sampled
}

// prepare makes the pairs of a mode: all of people and items, or all that were available by time.
func (d *exposedDraw) prepare(ctx context.Context, m exposedMode, available bool) (*sample.Prepared, error) {
	log, kind := d.log(m)
	return sample.Prepare(ctx, d.graph, sample.Options{Log: log, Threads: 1, Origin: sample.Origin{Plan: sample.Plan{
		Split: sample.Whole, Later: true, Available: available && d.set.Since != nil, Log: kind, Seed: d.seed,
		PerLink: d.graph.Len() * d.graph.Len()}}})
}

// fit trains by a method in a mode and predicts the test pairs.
func (d *exposedDraw) fit(ctx context.Context, m exposedMode, method string) error {
	if method == naiveAll && d.set.Since == nil {
		return nil // everything was available
	}
	began := time.Now()
	prepared, err := d.prepare(ctx, m, method != naiveAll)
	if err != nil {
		return err
	}
	r, err := fit.Fit(ctx, prepared.Problem, exposedSettings(method, d.seed))
	if err != nil {
		return err
	}
	f := &exposedFit{class: r.Findings.Class, bounds: r.Findings.Bounds}
	by := r.Judge().Predictor
	if f.logits, err = d.predict(ctx, by, d.test); err != nil {
		return err
	}
	if method == ours || method == robustly {
		if err := d.propensities(ctx, by, prepared.Problem.Train, f); err != nil {
			return err
		}
	}
	f.seconds = time.Since(began).Seconds()
	d.fits[fitOf{m.name, method}] = f
	if method != naiveAvailable {
		return nil
	}
	return d.recalibrate(ctx, by, f.logits)
}

// predict returns z of pairs.
func (d *exposedDraw) predict(ctx context.Context, by engine.Predictor, pairs []ShownPair) ([]float64, error) {
	p := &graph.Pairs{}
	for _, pair := range pairs {
		p.Source, p.Target = append(p.Source, pair.Person), append(p.Target, d.node(pair.Item))
		p.Linked, p.Weight, p.Rate = append(p.Linked, pair.Liked), append(p.Weight, 1), append(p.Rate, 1)
	}
	z, _, err := engine.Logits(ctx, engine.CPU{Threads: 1}, by, p)
	out := make([]float64, len(z))
	for k, x := range z {
		out[k] = float64(x)
	}
	return out, err
}

// recalibrate fits a·z + b of naive to the shown pairs that each mode logs.
func (d *exposedDraw) recalibrate(ctx context.Context, by engine.Predictor, z []float64) error {
	for _, m := range exposedModes {
		if !m.logged() {
			continue
		}
		log, _ := d.log(m)
		var pairs []ShownPair
		for k, shown := range log.Exposed {
			if shown {
				pairs = append(pairs, ShownPair{Person: log.Source[k],
					Item: log.Target[k] - int32(len(d.set.People)), Liked: log.Linked[k]})
			}
		}
		seen, err := d.predict(ctx, by, pairs)
		if err != nil {
			return err
		}
		a, b := logistic(seen, pairs)
		f := &exposedFit{logits: make([]float64, len(z))}
		for k, x := range z {
			f.logits[k] = a*x + b
		}
		d.fits[fitOf{m.name, recalibrated}] = f
	}
	return nil
}

// logistic returns slope and intercept of what was liked by z, by Newton's method, with a little pull to 1 and 0.
func logistic(z []float64, pairs []ShownPair) (a, b float64) {
	const pull = .1
	a = 1
	for range 50 {
		ga, gb, haa, hab, hbb := pull*(a-1), pull*b, pull, 0., pull
		for k, x := range z {
			y := 1 / (1 + math.Exp(-(a*x + b)))
			off, w := y, y*(1-y)
			if pairs[k].Liked {
				off--
			}
			ga, gb = ga+off*x, gb+off
			haa, hab, hbb = haa+w*x*x, hab+w*x, hbb+w
		}
		det := haa*hbb - hab*hab
		da, db := (hbb*ga-hab*gb)/det, (haa*gb-hab*ga)/det
		step := min(1, 2/math.Hypot(da, db))
		a, b = a-step*da, b-step*db
		if math.Hypot(da, db) < 1e-9 {
			break
		}
	}
	return a, b
}

// propensities compares π̂ with the log of what training was shown, over the pairs that were available.
func (d *exposedDraw) propensities(ctx context.Context, by engine.Predictor, p *graph.Pairs, f *exposedFit) error {
	_, s, err := engine.Logits(ctx, engine.CPU{Threads: 1}, by, p)
	if err != nil {
		return err
	}
	shown := make(map[[2]int32]bool, len(d.train))
	for _, pair := range d.train {
		shown[[2]int32{pair.Person, d.node(pair.Item)}] = true
	}
	scores, was := make([]float64, len(s)), make([]bool, len(s))
	items := make([][3]float64, len(d.set.Items)) // pairs, π̂ and shown
	for k, x := range s {
		pi := 1 / (1 + math.Exp(-float64(x)))
		scores[k], was[k] = pi, shown[[2]int32{p.Source[k], p.Target[k]}]
		at := &items[p.Target[k]-int32(len(d.set.People))]
		at[0]++
		at[1] += pi
		f.mean += pi / float64(len(s))
		if was[k] {
			at[2]++
			f.share += 1 / float64(len(s))
		}
	}
	f.shownAUC = aucOf(scores, was)
	var x, y, w []float64
	for _, at := range items {
		if at[0] > 0 {
			x, y, w = append(x, at[1]/at[0]), append(y, at[2]/at[0]), append(w, at[0])
		}
	}
	f.items = correlation(x, y, w)
	return nil
}

// draws are the sets of the options with every seed, and what is made of them.
func (l *lab) draws(ctx context.Context) (map[string][]*exposedDraw, []*ShownSet, error) {
	out := map[string][]*exposedDraw{}
	var sets []*ShownSet
	for _, given := range l.Shown {
		for k, seed := range l.Seeds {
			for _, s := range []*ShownSet{given, given.masked(seed)} {
				if s == nil {
					continue
				}
				d, err := newDraw(s, seed)
				if err != nil {
					return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
				}
				out[s.Name] = append(out[s.Name], d)
				if k == 0 {
					sets = append(sets, s)
				}
			}
		}
	}
	var tasks []task
	for _, s := range sets {
		for _, d := range out[s.Name] {
			tasks = append(tasks, task{name: fmt.Sprintf("%s, seed %d", s.Name, d.seed), cost: float64(len(s.People)) *
				float64(len(s.Items)), do: d.fitAll})
		}
	}
	slices.SortStableFunc(tasks, func(a, b task) int { return int(math.Copysign(1, b.cost-a.cost)) })
	return out, sets, l.each(ctx, tasks)
}

// fitAll trains every method in every mode that it makes sense in.
func (d *exposedDraw) fitAll(ctx context.Context) error {
	for _, m := range exposedModes {
		var methods []string
		switch m {
		case blind:
			methods = []string{naiveAll, naiveAvailable, ours}
		case tenthPairs, complete:
			methods = []string{shownPairsOnly, ours, robustly}
		case tenthOf:
			methods = []string{shownPairsOnly, ours}
		default:
			methods = []string{ours}
		}
		for _, method := range methods {
			err := d.fit(ctx, m, method)
			if errors.Is(err, fit.ErrData) && method != ours && m != complete {
				continue // too little is logged for it
			}
			if err != nil {
				return fmt.Errorf("%s, %s: %w", method, m.name, err)
			}
		}
	}
	return nil
}

// of is what a method made of a draw in a mode, nil if it was not tried.
func (d *exposedDraw) of(m exposedMode, method string) *exposedFit {
	if method == naiveAll || method == naiveAvailable {
		m = blind
	}
	if method == naiveAll && d.set.Since == nil {
		method = naiveAvailable // everything was available
	}
	return d.fits[fitOf{m.name, method}]
}
