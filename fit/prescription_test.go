package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// An experiment has the least error that its number of pairs allows, and the error that it aims at.
func TestExperiment(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 0))
	var c fieldChances
	for f := range uint16(6) {
		for g := range uint16(6) {
			for range 1 + rng.IntN(4) {
				c.add(fieldPair{f, g}, f == g, 1+100*rng.Float64(), math.Pow(10, -1-2*rng.Float64()))
			}
		}
	}
	e := c.experiment(c.mean() / 3)
	var weight float64
	for _, cell := range c.cells {
		weight += cell.weight
	}
	of := map[fieldPair]float64{}
	sum, same := 0, 0
	for i, x := range e.Cells {
		if i > 0 && x.Pairs > e.Cells[i-1].Pairs {
			t.Error("the cells are not in order")
		}
		of[fieldPair{x.Source, x.Target}] = float64(x.Pairs)
		if sum += x.Pairs; x.Source == x.Target {
			same += x.Pairs
		}
	}
	if sum != e.Pairs || same != e.Same {
		t.Errorf("the cells have %d pairs, %d of one field; the experiment %d and %d", sum, same, e.Pairs, e.Same)
	}
	width := func() float64 {
		var variance float64
		for _, cell := range c.cells {
			p := cell.sum / cell.weight
			variance += cell.weight / weight * cell.weight / weight * p * (1 - p) / of[cell.fieldPair]
		}
		return math.Exp(2 * 2.576 * math.Sqrt(variance) / c.mean())
	}
	best := width()
	if best > prescribedWidth || best < .99*prescribedWidth {
		t.Errorf("the interval will be %.3f-fold, not %g-fold", best, prescribedWidth)
	}
	for _, from := range c.cells {
		for _, to := range c.cells {
			if n := of[from.fieldPair] / 2; from != to {
				of[from.fieldPair] -= n
				of[to.fieldPair] += n
				if w := width(); w < best {
					t.Errorf("%.0f pairs of %v fewer, and as many of %v more, are better: %.4f, %.4f", n,
						from.fieldPair, to.fieldPair, w, best)
				}
				of[from.fieldPair] += n
				of[to.fieldPair] -= n
			}
		}
	}
	if e.Most < 3*e.Pairs-3 || e.Most > 3*e.Pairs+3 {
		t.Errorf("with a third of the chance it takes %d pairs instead of %d", e.Most, e.Pairs)
	}
}

// An experiment has as many pairs of each kind as are asked for to stand for the others.
func TestExperimentOfFewPairs(t *testing.T) {
	t.Parallel()
	var c fieldChances
	for f := range uint16(2) {
		for g := range uint16(2) {
			c.add(fieldPair{f, g}, f == g, 1000, .9)
		}
	}
	if e := c.experiment(.9); e.Same < 2*fewestStanding || e.Pairs-e.Same < 2*fewestStanding || e.Until > e.Pairs {
		t.Errorf("%+v", e)
	}
}

// Logged pairs tell mean π whatever the field pairs that most of them have, and say how surely.
func TestLoggedPropensity(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	const fields, nodes, trials = 4, 400, 200
	pi := func(i, j uint16) float64 { return .02 + .06*float64((3*i+j)%fields) }
	var held int
	for trial := range uint64(trials) {
		rng := rand.New(rand.NewPCG(trial, 7))
		p := sample.Problem{Train: &graph.Pairs{}}
		p.Nodes.FieldCount = fields
		for range nodes {
			p.Nodes.Fields = append(p.Nodes.Fields, uint16(rng.IntN(fields)))
		}
		d := &diagnosis{problem: p, result: &Result{}, found: &Findings{}}
		d.cellOf = d.cellFinder()
		var truth, all float64
		for range 8000 {
			i, j := int32(rng.IntN(nodes)), int32(rng.IntN(nodes))
			a, b := p.Nodes.Fields[i], p.Nodes.Fields[j]
			t := p.Train
			t.Source, t.Target = append(t.Source, i), append(t.Target, j)
			t.Linked, t.Weight, t.Rate = append(t.Linked, false), append(t.Weight, 50), append(t.Rate, 1)
			e := risk.Unlogged
			if rng.Float64() < .05+.4*float64(a)/fields { // more of some fields than of others, and none of one pair
				if e = risk.Unexposed; rng.Float64() < pi(a, b) {
					e = risk.Exposed
				}
				t.Weight[len(t.Weight)-1] = 1
			}
			if a == 1 && b == 2 {
				e = risk.Unlogged
			}
			d.problem.Exposure = append(d.problem.Exposure, e)
			w := t.Weight[len(t.Weight)-1]
			truth, all = truth+w*pi(a, b), all+w
			d.add(d.cellOf(t.Len()-1), t.Len()-1, 0)
		}
		found := d.loggedPropensity()
		if found == nil {
			t.Fatal("nothing was found")
		}
		if found.Lower <= truth/all && truth/all <= found.Upper {
			held++
		}
	}
	if held < trials*90/100 {
		t.Errorf("the interval holds the truth in %d of %d", held, trials)
	}
}

// A few logged pairs of one kind say nothing of all the others, and of pairs that are all alike not that all are.
func TestFewLoggedPairs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		same, cross, shown int // logged pairs of one field and of two, and how many of each are shown
		known              bool
	}{
		"one of two fields":   {500, 1, 1, false},
		"a few of two fields": {500, 9, 9, false},
		"none of one field":   {0, 500, 500, false},
		"enough, all shown":   {60, 60, 60, true},
		"many, some shown":    {5000, 5000, 1000, true},
	} {
		p := sample.Problem{Train: &graph.Pairs{}}
		p.Nodes.FieldCount = 3
		for i := range 100 {
			p.Nodes.Fields = append(p.Nodes.Fields, uint16(1+i%2))
		}
		d := &diagnosis{result: &Result{}, found: &Findings{}, problem: p}
		d.cellOf = d.cellFinder()
		add := func(k, apart int, e risk.Exposure) {
			t := p.Train
			t.Source, t.Target = append(t.Source, int32(k%50)), append(t.Target, int32(50+k%50+apart))
			t.Linked, t.Weight, t.Rate = append(t.Linked, false), append(t.Weight, 1), append(t.Rate, 1)
			d.problem.Exposure = append(d.problem.Exposure, e)
			d.add(d.cellOf(t.Len()-1), t.Len()-1, 0)
		}
		for k := range 1000 {
			add(k%49, 0, risk.Unlogged)
			add(k%49, 1, risk.Unlogged)
		}
		for kind, logged := range []int{c.same, c.cross} {
			for k := range logged {
				e := risk.Unexposed
				if k < c.shown {
					e = risk.Exposed
				}
				add(k%49, kind, e)
			}
		}
		switch found := d.loggedPropensity(); {
		case (found != nil) != c.known:
			t.Errorf("%s: %+v", name, found)
		case c.known && c.same == c.shown && !(found.Lower < .98 && found.Lower > .9):
			t.Errorf("%s: %+v, which is too sure or not sure enough", name, found)
		case c.known && c.same > c.shown && !(found.Lower < .2 && found.Lower > .18 && found.Upper < .22):
			t.Errorf("%s: %+v, where .2 is true", name, found)
		}
	}
}

// drawnDiagnosis has pairs of which some without a link were drawn, of some fields more than of others, and shown, and
// the share of all that is relevant.
func drawnDiagnosis(seed uint64, kind sample.LogKind) (d *diagnosis, relevant float64) {
	const fields, nodes, pairs = 4, 400, 20_000
	rng := rand.New(rand.NewPCG(seed, 8))
	p := sample.Problem{Train: &graph.Pairs{}, Origin: &sample.Origin{Plan: sample.Plan{Log: kind}}}
	p.Nodes.FieldCount = fields
	for range nodes {
		p.Nodes.Fields = append(p.Nodes.Fields, uint16(rng.IntN(fields)))
	}
	add := func(i, j int32, linked bool, e risk.Exposure) {
		t := p.Train
		t.Source, t.Target = append(t.Source, i), append(t.Target, j)
		t.Linked, t.Weight, t.Rate = append(t.Linked, linked), append(t.Weight, 1), append(t.Rate, 1)
		if p.Exposure = append(p.Exposure, e); e.IsOffered() {
			t.Weight[len(t.Weight)-1] = 1e-9
		}
	}
	for range pairs {
		i, j := int32(rng.IntN(nodes)), int32(rng.IntN(nodes))
		a, b := p.Nodes.Fields[i], p.Nodes.Fields[j]
		y := .02 + .04*float64(a)
		if a == b {
			y = .3
		}
		is := rng.Float64() < y
		linked := is && rng.Float64() < .3
		if is {
			relevant++
		}
		add(i, j, linked, risk.Unlogged)
		if !linked && (a == 2 || b != 2) && rng.Float64() < .02+.2*float64(a)/fields { // none of three field pairs
			add(i, j, is, risk.Offered)
		}
	}
	d = &diagnosis{problem: p, result: &Result{}, found: &Findings{Offered: &OfferedTest{Seen: 1}}}
	d.cellOf = d.cellFinder()
	for k := range p.Train.Len() {
		d.add(d.cellOf(k), k, 0)
	}
	return d, relevant / pairs
}

// Pairs that were drawn at random and shown tell how much is relevant, with no model, whatever share of each field pair
// was drawn; those that somebody chose do not.
func TestDrawnLink(t *testing.T) {
	t.Parallel()
	const trials = 200
	var held int
	for trial := range uint64(trials) {
		d, relevant := drawnDiagnosis(trial, sample.Drawn)
		found := d.drawnLink()
		if found == nil {
			t.Fatal("nothing was found")
		}
		if found.Lower <= relevant && relevant <= found.Upper {
			held++
		}
	}
	if held < trials*90/100 || held == trials {
		t.Errorf("the interval holds the truth in %d of %d", held, trials)
	}
	chosen, _ := drawnDiagnosis(1, sample.Offered)
	unseen, _ := drawnDiagnosis(1, sample.Drawn)
	if unseen.found.Offered.Seen = .5; chosen.drawnLink() != nil || unseen.drawnLink() != nil {
		t.Error("pairs that were chosen, or that few look at, stand for all")
	}
}

// What is claimed of ŷ is no more than drawn pairs allow, and what they say where the links contradict them.
func TestDrawnPairsNarrow(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]float64{"agree": .16, "contradict": .9} {
		d, _ := drawnDiagnosis(3, sample.Drawn)
		folds := make([]float64, compareFolds)
		f := &alternativeFit{folds: folds}
		f.measures = [measured]measure{{link, .3}, {.3, .2}, {2, .2}, {.3, .01}, {.9, 0}, {5, .1}}
		d.result.alternatives = []*alternativeFit{f}
		d.claim()
		set, drawn := d.found.Set, d.drawnLink()
		if set.Drawn == nil || *set.Drawn != *drawn {
			t.Fatalf("%s: the set has %v, and %v was drawn", name, set.Drawn, drawn)
		}
		sure := drawn.Surely()
		if sure.Low >= drawn.Lower || sure.High <= drawn.Upper {
			t.Errorf("%s: 99%% are %v, 95%% %v to %v", name, sure, drawn.Lower, drawn.Upper)
		}
		if set.MeanLink != sure { // the member's interval is wider, or elsewhere
			t.Errorf("%s: mean ŷ is %v, and the drawn pairs allow %v", name, set.MeanLink, sure)
		}
	}
}

// What becomes of pairs that are shown at random tells whether there is a ceiling, and leaves worlds without one alone.
func TestOffersSeeACeiling(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	for _, ceiling := range []float64{1, .4} {
		for seed := uint64(1); seed <= 4; seed++ {
			plan := world.Saturated()
			plan.Seed, plan.Ceiling, plan.Threads = seed, ceiling, 1
			w := must(world.New(t.Context(), world.Settings{Nodes: 400, Dim: 8, Fields: world.EvenFields(3),
				Scenario: plan}))(t)
			w = must(w.Linked(t.Context()))(t)
			drawn := must(w.Pairs(t.Context(), 3000, world.Draw{Parts: 1, Older: true}))(t)
			log := &sample.ExposureLog{}
			for k, linked := range drawn.Pairs.Linked {
				if !linked {
					log.Source = append(log.Source, drawn.Pairs.Source[k])
					log.Target = append(log.Target, drawn.Pairs.Target[k])
					log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, drawn.Relevant[k])
				}
			}
			p := must(sample.Prepare(t.Context(), w.Graph(), sample.Options{Log: log, Origin: sample.Origin{
				Plan: sample.Plan{Split: sample.Whole, Log: sample.Offered, Seed: seed}}}))(t)
			r := mustFit(t, p.Problem, Settings{Seed: seed, Threads: 1, Doctor: QuickDoctor, Replicates: -1,
				Starts: []float64{model.StartPropensity}})
			test := r.Findings.Offered
			t.Logf("ceiling %g, seed %d: %+v", ceiling, seed, *test)
			if ceiling < 1 && (test.Z > -surprising || test.noCeiling() || !r.Findings.contradicted()) {
				t.Errorf("seed %d: a ceiling of %g is not seen: %+v", seed, ceiling, *test)
			}
			if ceiling == 1 && (math.Abs(test.Z) > surprising || test.Pairs != len(log.Source)) {
				t.Errorf("seed %d: a ceiling is seen where there is none: %+v", seed, *test)
			}
		}
	}
}

// A range is narrowed by what else is known, and gives way where the two contradict each other.
func TestNarrowedRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ r, x, want SetRange }{
		{SetRange{1, 4}, SetRange{2, 3}, SetRange{2, 3}},
		{SetRange{1, 4}, SetRange{2, 5}, SetRange{2, 4}},
		{SetRange{2, 3}, SetRange{1, 5}, SetRange{2, 3}},
		{SetRange{1, 2}, SetRange{4, 5}, SetRange{4, 5}},
	} {
		got := c.r
		if got.narrow(c.x); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.r, c.x, got, c.want)
		}
	}
	if !slices.IsSorted([]float64{narrow, roughly}) || prescribedWidth > narrow {
		t.Error("experiments aim at less than they should")
	}
}
