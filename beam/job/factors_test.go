package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
)

// newMarket is people and items with vectors, who link to items of their own kind; some nodes are both. Without texts
// all vectors are 0.
func newMarket(t testing.TB, people, items int, texts bool) setup {
	t.Helper()
	return newMarketOf(t, people, items, 6, texts, nil)
}

// newLoggedMarket has a log that is made of the graph, with the kind that the plan is given.
func newLoggedMarket(t testing.TB, people, items int, texts bool,
	logOf func(*graph.Graph, *sample.Plan) *sample.ExposureLog) setup {
	t.Helper()
	return newMarketOf(t, people, items, 6, texts, logOf)
}

// newMarketOf is a market with vectors of a dimension, which may be 0, and with a log or none.
func newMarketOf(t testing.TB, people, items, dim int, texts bool,
	logOf func(*graph.Graph, *sample.Plan) *sample.ExposureLog) setup {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(people)))
	var b graph.Builder
	nodes := people + items
	vectors := must((&shards.NodeLayout{Dim: dim}).NewVectors(nodes))(t)
	for i := range nodes {
		role := graph.SourceOnly
		switch {
		case i%17 == 5:
			role = graph.SourceAndTarget
		case i >= people:
			role = graph.TargetOnly
		}
		must(b.AddNode(graph.Node{ID: fmt.Sprintf("n%04d", i),
			Field: []string{"north", "south", "east"}[i%3], Role: role}))(t)
		row := make([]float32, dim)
		if texts {
			for k := range row {
				row[k] = float32(.2 * rng.NormFloat64())
			}
			row[i%4] += 1
		}
		if dim == 0 {
			continue
		}
		if err := vectors.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
	}
	for i := range people {
		for range 12 {
			if j := people + rng.IntN(items); rng.IntN(5) == 0 || i%4 == j%4 {
				_ = b.AddLinkIndex(int32(i), int32(j)) // an error where it is there already
			}
		}
	}
	g, _, err := b.Build()
	if must(g, err)(t); dim > 0 {
		g = must(g.WithVectors(vectors))(t)
	}
	o := sample.Options{Origin: sample.Origin{Plan: sample.Plan{Split: sample.RandomLinks, PerLink: 2, Seed: 4}}}
	if logOf != nil {
		o.Log = logOf(g, &o.Origin.Plan)
	}
	return setup{must(sample.Prepare(t.Context(), g, o))(t)}
}

// logs are those of markets: of pairs, of people, of everybody, of what was offered, and of what was drawn to be shown.
var logs = map[string]func(*graph.Graph, *sample.Plan) *sample.ExposureLog{
	"pairs": func(g *graph.Graph, p *sample.Plan) *sample.ExposureLog {
		return logged(g, p, sample.Sampled, func(i int32) float64 { return .2 }, true)
	},
	"people": func(g *graph.Graph, p *sample.Plan) *sample.ExposureLog {
		return logged(g, p, sample.Complete, someOf(3), false)
	},
	"everybody": func(g *graph.Graph, p *sample.Plan) *sample.ExposureLog {
		return logged(g, p, sample.Complete, someOf(1), false)
	},
	"everything that some were shown": func(g *graph.Graph, p *sample.Plan) *sample.ExposureLog {
		p.EveryShown = true
		return logged(g, p, sample.Complete, someOf(3), false)
	},
	"offers": func(g *graph.Graph, p *sample.Plan) *sample.ExposureLog {
		return logged(g, p, sample.Offered, func(i int32) float64 { return .1 }, false)
	},
	"draws": func(g *graph.Graph, p *sample.Plan) *sample.ExposureLog {
		return logged(g, p, sample.Drawn, func(i int32) float64 { return .1 }, false)
	},
}

// someOf says that the log is of everything that one of so many people was shown.
func someOf(n int32) func(int32) float64 {
	return func(i int32) float64 {
		if i%n == 0 {
			return 1
		}
		return 0
	}
}

// logged logs shares of the pairs of people. Items are shown more the lower their number is.
func logged(g *graph.Graph, p *sample.Plan, kind sample.LogKind, share func(source int32) float64,
	others bool) *sample.ExposureLog {
	p.Log = kind
	l, rng := &sample.ExposureLog{}, rand.New(rand.NewPCG(8, 1))
	for _, i := range g.Sources() {
		for n, j := range g.Targets() {
			linked := g.HasLink(i, j)
			shown := linked || rng.Float64() < .6-.5*float64(n)/float64(len(g.Targets()))
			if rng.Float64() >= share(i) || i == j || !shown && !others {
				continue
			}
			l.Source, l.Target = append(l.Source, i), append(l.Target, j)
			l.Exposed, l.Linked = append(l.Exposed, shown), append(l.Linked, linked)
		}
	}
	return l
}

func factorSettings(method string) fit.Settings {
	return fit.Settings{Method: method, Link: "factors", Ridge: .5, Seed: 2}
}

// Factors over shards are those of one machine, bit for bit, however the nodes are cut, by one thread or several, and
// where a task has some of a block's rows only.
func TestFactorsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	type cut struct {
		shards.CutSettings
		threads, most int
	}
	whole, blocks, rows := cut{}, cut{shards.CutSettings{Nodes: 100, Pairs: 700}, 3, 0},
		cut{shards.CutSettings{Nodes: 37}, 1, 90}
	for _, c := range []struct {
		name, method, propensity string
		texts                    bool
		rounds                   int
		cuts                     []cut
	}{{"until the end", "mle", "", true, 200, []cut{blocks}},
		{"texts", "mle", "", true, 2, []cut{whole, rows}},
		{"no texts", "mle", "", false, 2, []cut{blocks}},
		{"naive", "naive", "", true, 2, []cut{rows}},
		{"effects of exposure", "mle", "field-matrix+person+item", true, 3, []cut{blocks, rows}},
		{"with a risk", "ap", "", false, 2, []cut{rows}}} {
		s := newMarket(t, 240, 90, c.texts)
		settings := factorSettings(c.method)
		settings.Propensity, settings.LBFGS.Iterations = c.propensity, c.rounds
		one := must(fit.Fit(ctx, s.Problem, settings))(t)
		want := slices.Concat(one.LinkParams, one.PropensityParams)
		for _, cut := range c.cuts {
			cluster, _ := s.cut(t, cut.CutSettings)
			for name, runner := range runners() {
				runner.Threads = cut.threads
				cluster.Runner, cluster.mostPairs = runner, cut.most
				got := must(must(cluster.Factors(ctx, settings))(t).Run(ctx))(t)
				if got.Iterations != one.Iterations || !slices.Equal(got.Params, want) || len(got.Warnings) > 0 {
					t.Errorf("%s, %s, blocks of %d: %d rounds, parameters off by %.2g, warnings %v; one machine %d "+
						"rounds", c.name, name, cut.Nodes, got.Iterations, relative(got.Params, want), got.Warnings,
						one.Iterations)
				}
			}
		}
	}
}

// Where exposure is logged, factors over shards are those of one machine, bit for bit: what the log alone says, the
// level that it gives to others, and what the method shown makes of it.
func TestFactorsOfLogsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	blocks, rows := shards.CutSettings{Nodes: 60, Pairs: 700}, shards.CutSettings{Nodes: 41}
	for _, c := range []struct {
		log, method, exposure string
		texts                 bool
		rounds                int
		cut                   shards.CutSettings
		threads, most         int
	}{{"pairs", "mle", "", true, 200, blocks, 2, 0},
		{"pairs", "mle", "fields+person", false, 2, rows, 1, 90},
		{"people", "mle", "", true, 2, blocks, 1, 0},
		{"people", "ap", "fields", false, 2, rows, 2, 0},
		{"people", "dr", "", false, 2, blocks, 2, 120},
		{"everybody", "mle", "", false, 3, blocks, 2, 0},
		{"everything that some were shown", "mle", "", false, 2, rows, 2, 0},
		{"everything that some were shown", "shown", "", true, 2, blocks, 2, 0},
		{"offers", "mle", "", false, 2, blocks, 2, 0},
		{"offers", "shown", "", false, 2, rows, 2, 80},
		{"draws", "mle", "", true, 2, rows, 2, 0},
		{"pairs", "shown", "fields+person+item", false, 200, blocks, 2, 0},
		{"people", "shown", "", true, 2, rows, 1, 90}} {
		name := fmt.Sprintf("%s, %s by %q", c.log, c.method, c.exposure)
		s := newLoggedMarket(t, 130, 50, c.texts, logs[c.log])
		settings := factorSettings(c.method)
		settings.Exposure, settings.LBFGS.Iterations = c.exposure, c.rounds
		one := must(fit.Fit(ctx, s.Problem, settings))(t)
		want := slices.Concat(one.LinkParams, one.PropensityParams)
		m := must(one.Model())(t)
		cluster, _ := s.cut(t, c.cut)
		for runner, r := range runners() {
			r.Threads = c.threads
			cluster.Runner, cluster.mostPairs = r, c.most
			d := must(cluster.Factors(ctx, settings))(t)
			found := must(d.Run(ctx))(t)
			if found.Iterations != one.Iterations || !slices.Equal(found.Params, want) || len(found.Warnings) > 0 {
				t.Errorf("%s, %s: %d rounds, parameters off by %.2g, warnings %v; one machine %d rounds", name, runner,
					found.Iterations, relative(found.Params, want), found.Warnings, one.Iterations)
			}
			got := must(cluster.Examine(ctx, d, found))(t)
			other := must(got.Model())(t)
			if !bytes.Equal(other.Findings, m.Findings) || !slices.Equal(got.Warnings, one.Warnings) {
				t.Errorf("%s, %s: the findings %s, warnings %v; one machine's are %v", name, runner,
					apart(other.Findings, m.Findings), got.Warnings, one.Warnings)
			}
			if !bytes.Equal(other.Hyperparameters, m.Hyperparameters) {
				t.Errorf("%s, %s: the settings %s", name, runner, apart(other.Hyperparameters, m.Hyperparameters))
			}
		}
		cluster.Close(ctx)
	}
}

// Of more pairs than the driver draws, what findings count is counted of all pairs.
func TestFindingsOfAPartCountAllPairs(t *testing.T) {
	ctx := context.Background()
	s := newLoggedMarket(t, 130, 50, false, logs["people"])
	settings := factorSettings("mle")
	settings.LBFGS.Iterations = 1
	one := must(fit.Fit(ctx, s.Problem, settings))(t).Findings
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 60})
	defer cluster.Close(ctx)
	d := must(cluster.Factors(ctx, settings))(t)
	found := must(d.Run(ctx))(t)
	const dim = 1 << 26 / 400 // of vectors of which no more than 400 pairs' may be held
	got := must(d.Examine(ctx, found, &population{Cluster: cluster, shards: m.Train},
		fit.PairSurvey{Kinds: [3]int64{m.Extent.Pairs}, Dim: dim}, cluster.Part))(t).Findings
	if n := got.Support.Examined; n < 200 || n > 800 {
		t.Errorf("mean ŷ comes from %d pairs", n)
	}
	if got.Support.Examined = one.Support.Examined; math.Abs(got.Support.Effective/one.Support.Effective-1) > 1e-9 ||
		math.Abs(got.Support.Clipped-one.Support.Clipped) > 1e-9 {
		t.Errorf("all pairs are %+v, by one machine %+v", got.Support, one.Support)
	}
	got.Support.Effective, got.Support.Clipped = one.Support.Effective, one.Support.Clipped
	if got.Support != one.Support || got.Class != one.Class || got.Verdict[0] != one.Verdict[0] {
		t.Errorf("findings of %+v, %s, %q; one machine %+v, %s, %q", got.Support, got.Class, got.Verdict[0],
			one.Support, one.Class, one.Verdict[0])
	}
	for k, cell := range got.Cells {
		if math.Abs(cell.Propensity/one.Cells[k].Propensity-1) > 1e-9 || cell.Pairs != one.Cells[k].Pairs {
			t.Errorf("pairs of fields are %+v, by one machine %+v", cell, one.Cells[k])
		}
	}
	for k, test := range got.Logged {
		if math.Abs(test.Z-one.Logged[k].Z) > 1e-6 || test.Pairs != one.Logged[k].Pairs {
			t.Errorf("the test by the log is %+v, by one machine %+v", test, one.Logged[k])
		}
	}
	if len(got.Cells) != len(one.Cells) || len(got.Logged) != len(one.Logged) || !strings.Contains(
		strings.Join(got.Verdict, "\n"), "Mean ŷ was computed from") {
		t.Errorf("%d pairs of fields, %d tests by the log, %q", len(got.Cells), len(got.Logged), got.Verdict)
	}
}

// The method shown learns other link models too, by L-BFGS.
func TestShownByVectors(t *testing.T) {
	ctx := context.Background()
	s := newLoggedMarket(t, 130, 50, true, logs["pairs"])
	settings := settingsFor(fit.ShownOnly)
	settings.Link = "diagonal"
	one := must(fit.Fit(ctx, s.Problem, settings))(t)
	cluster, _ := s.cut(t, shards.CutSettings{Nodes: 100})
	got := must(must(cluster.Descent(ctx, settings))(t).Run(ctx))(t)
	if off := relative(got.Params, slices.Concat(one.LinkParams, one.PropensityParams)); off > 1e-3 {
		t.Errorf("parameters are off by %.2g", off)
	}
}

// apart says where two texts begin to differ.
func apart(got, want []byte) string {
	k := 0
	for k < min(len(got), len(want)) && got[k] == want[k] {
		k++
	}
	from := max(k-60, 0)
	return fmt.Sprintf("go on %q, those of one machine %q", got[from:min(k+60, len(got))],
		want[from:min(k+60, len(want))])
}

// failingRounds is a cluster that is gone after so many rounds.
type failingRounds struct {
	*Cluster
	left int
}

func (e *failingRounds) Alternate(o *engine.Objective) (engine.Alternation, error) {
	a, err := e.Cluster.Alternate(o)
	return &failingRound{a, e}, err
}

type failingRound struct {
	engine.Alternation
	of *failingRounds
}

func (a *failingRound) Round(ctx context.Context, params []float32) (engine.Parts, error) {
	if a.of.left--; a.of.left < 0 {
		params[0]++ // in the middle of a round
		return engine.Parts{}, errFault
	}
	return a.Alternation.Round(ctx, params)
}

// Rounds that are interrupted go on from the checkpoint and end in the same bits, also where a log says the level.
func TestRoundsGoOnAfterAnInterruption(t *testing.T) {
	for name, s := range map[string]setup{"no log": newMarket(t, 120, 50, true),
		"people": newLoggedMarket(t, 80, 40, false, logs["people"])} {
		t.Run(name, func(t *testing.T) { interruptRounds(t, s) })
	}
}

func interruptRounds(t *testing.T, s setup) {
	ctx := context.Background()
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 60})
	settings := factorSettings("mle")
	settings.LBFGS.Iterations = 5
	path := filepath.Join(t.TempDir(), "fit.checkpoint")
	train := func(left int, c fit.Checkpoint, data string) (fit.Descended, error) {
		d := must(cluster.Factors(ctx, settings))(t)
		d.Settings.Engine, d.Settings.Checkpoint, d.Data = &failingRounds{cluster, left}, c, data
		return d.Run(ctx)
	}
	want := must(train(99, fit.Checkpoint{}, m.Checksum()))(t)
	if _, err := train(3, fit.Checkpoint{Path: path}, m.Checksum()); !errors.Is(err, errFault) {
		t.Fatalf("a failing cluster gives %v", err)
	}
	if _, err := train(9, fit.Checkpoint{Path: path, Resume: true}, "others"); !errors.Is(err, fit.ErrCheckpoint) {
		t.Errorf("a checkpoint of other shards gives %v", err)
	}
	got, err := train(2, fit.Checkpoint{Path: path, Resume: true, Keep: true}, m.Checksum())
	if err != nil || !slices.Equal(got.Params, want.Params) || got.Iterations != want.Iterations {
		t.Errorf("resumed: %d rounds and %v, %v; without a break %d and %v", got.Iterations, got.Params[:3], err,
			want.Iterations, want.Params[:3])
	}
	again := must(train(0, fit.Checkpoint{Path: path, Resume: true}, m.Checksum()))(t)
	if !slices.Equal(again.Params, want.Params) || again.Objective != want.Objective {
		t.Errorf("resumed at the end: %+v, want %+v", again.Objective, want.Objective)
	}
}

// firstMove is the plan and the tasks of a round's first job.
func firstMove(t *testing.T, cluster *Cluster) (*plan, []task) {
	t.Helper()
	o := must(cluster.Factors(t.Context(), factorSettings("mle")))(t).Objective
	link := o.Link.(*model.Factors)
	c := &clusterMoves{cluster: cluster, o: o, link: link, layout: cluster.Manifest.Layout(),
		settings: cluster.Settings, extent: cluster.extent()}
	c.place()
	state := must(engine.NewFactorState(link, make([]float32, o.Size())))(t)
	p := must(c.plan(t.Context(), cluster.Work, engine.Sources, state))(t)
	return p, cluster.rowTasks(engine.Sources, p.Factors.most())
}

// Factors that are damaged or gone on their way to a worker are named.
func TestDamagedFactorsAreNamed(t *testing.T) {
	cluster, _ := newMarket(t, 120, 50, true).cut(t, shards.CutSettings{Nodes: 60})
	p, tasks := firstMove(t, cluster)
	path := cluster.Work.Path(p.Factors.Rows[engine.Targets][2].Name)
	content := must(os.ReadFile(path))(t)
	content[5] ^= 1
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.move(t.Context(), &tasks[0]); !errors.Is(err, shards.ErrDamaged) ||
		!strings.Contains(err.Error(), "targets-00002") {
		t.Errorf("damaged factors: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := p.move(t.Context(), &tasks[0]); !errors.Is(err, shards.ErrMissing) ||
		!strings.Contains(err.Error(), "targets-00002") {
		t.Errorf("missing factors: %v", err)
	}
}

// A task holds its own pairs and the rows that these name, however large its block is.
func TestTasksOfRoundsAreSmall(t *testing.T) {
	s := newMarket(t, 240, 90, false)
	cluster, m := s.cut(t, shards.CutSettings{})
	cluster.mostPairs = 300
	p, tasks := firstMove(t, cluster)
	var pairs, rows int
	for _, one := range tasks {
		w := must(p.factorRows(t.Context(), &one))(t)
		if w.pairs.Len() > 2*cluster.mostPairs || len(w.numbers[engine.Targets]) > w.pairs.Len() {
			t.Errorf("a task of %d pairs with %d targets; %d pairs are asked for", w.pairs.Len(),
				len(w.numbers[engine.Targets]), cluster.mostPairs)
		}
		pairs, rows = pairs+w.pairs.Len(), rows+len(w.numbers[engine.Sources])
	}
	if int64(pairs) != m.Extent.Pairs || len(tasks) < 5 || rows != len(s.Graph.Sources()) {
		t.Errorf("%d tasks have %d pairs of %d, and %d sources", len(tasks), pairs, m.Extent.Pairs, rows)
	}
}

// Models of factors are evaluated and recommend over shards as on one machine, where workers have the rows of some
// nodes only.
func TestModelsOfFactorsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	for _, propensity := range []string{"", "field-matrix+person+item"} {
		s := newMarket(t, 240, 90, true)
		g := s.Graph
		settings := factorSettings("mle")
		settings.Propensity, settings.LBFGS.Iterations = propensity, 4
		r := must(fit.Fit(ctx, s.Problem, settings))(t)
		m, judge := must(r.Model())(t), r.Judge()
		want := must(engine.CPU{}.AllPairs(ctx, g, judge.Predictor, graph.Universe{}, .05))(t)
		panel := must(judge.Panel(ctx, s.Test, 0, nil))(t).Risks
		recommender := must(recommend.New(g, m, recommend.Options{}))(t)
		rows := must(recommender.Batch(ctx, g.Sources(), recommend.Query{K: 7}))(t)
		cluster, _ := s.cut(t, shards.CutSettings{Nodes: 77})
		defer cluster.Close(ctx)
		got := must(cluster.AllPairs(ctx, nil, judge.Predictor, graph.Universe{}, .05))(t)
		if got.Pairs != want.Pairs || math.Abs(got.AP/want.AP-1) > 1e-6 ||
			math.Abs(got.MeanLink/want.MeanLink-1) > 1e-6 ||
			math.Abs(got.MeanPropensity/want.MeanPropensity-1) > 1e-6 {
			t.Errorf("%q: %+v over all pairs, one machine %+v", propensity, got, want)
		}
		held := must(cluster.Judge(ctx, judge.Predictor))(t)
		if math.Abs(held.AP/panel["ap"].Plain-1) > 1e-9 || math.Abs(held.Naive/panel["naive"].Plain-1) > 1e-9 {
			t.Errorf("%q: %+v over held-out pairs, one machine %+v", propensity, held, panel)
		}
		some := must(cluster.Held(ctx, 100))(t)
		part := must(cluster.Part(ctx, m, some.Nodes))(t)
		for k, i := range some.Train.Source {
			j := some.Train.Target[k]
			var here, there [2]float32
			batch := model.Batch{Sources: []int32{i}, Targets: []int32{j}}
			engine.Predictor{Link: part.Link, LinkParams: part.LinkParams, Propensity: part.Propensity,
				PropensityParams: part.PropensityParams}.Logits(here[:1], here[1:], batch)
			batch = model.Batch{Sources: []int32{some.Nodes.Numbers[i]}, Targets: []int32{some.Nodes.Numbers[j]}}
			judge.Predictor.Logits(there[:1], there[1:], batch)
			if here != there {
				t.Fatalf("%q: pair %d has the logits %v, on one machine %v", propensity, k, here, there)
			}
		}
		to := shards.Location{Root: filepath.Join(t.TempDir(), "lists")}
		lists := readLists(t, to, must(cluster.Recommend(ctx, m, to, ListSettings{K: 7, Part: 50}))(t))
		if len(lists) != len(g.Sources()) {
			t.Errorf("%d lists for %d sources", len(lists), len(g.Sources()))
		}
		for _, row := range rows {
			var names []string
			for _, j := range row.Targets {
				names = append(names, g.ID(j))
			}
			if !slices.Equal(lists[g.ID(row.Source)], names) {
				t.Fatalf("%q: %s is given %v, by one machine %v", propensity, g.ID(row.Source), lists[g.ID(row.Source)],
					names)
			}
		}
	}
}
