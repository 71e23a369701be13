package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// logged makes the exposure of some pairs known.
func (s setup) logged() setup {
	p := *s.Prepared
	p.Problem.Exposure = make([]risk.Exposure, p.Problem.Train.Len())
	for k := range p.Problem.Exposure {
		if k%40 == 0 {
			p.Problem.Exposure[k] = risk.Unexposed
			if p.Problem.Train.Linked[k] || k%80 == 0 {
				p.Problem.Exposure[k] = risk.Exposed
			}
		}
	}
	return setup{&p}
}

// TestPopulationIsThatOfOneMachine holds what is surveyed, drawn, tallied, counted and summed over shards against the
// same of the pairs in memory.
func TestPopulationIsThatOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8).logged()
	p := s.Problem
	everything := fit.PairChoice{Share: [3]float64{1, 1, 1}}
	some := fit.PairChoice{Seed: 5, Share: [3]float64{.3, .8, .5}}
	few := fit.PairChoice{Seed: 5, Share: [3]float64{.5, 1, 1}, Stratum: &fit.PairStratum{Kind: 0, Half: 1}}
	link := must(model.NewLink("diagonal", p.Nodes, model.LinkOptions{}))(t)
	propensity := must(model.NewCovariates(must(model.NewFieldMatrix(p.Nodes))(t), p.Nodes, model.Text,
		model.Popularity))(t)
	by := engine.Predictor{Link: link, LinkParams: make([]float32, link.Size()), Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size())}
	for i := range by.LinkParams {
		by.LinkParams[i] = float32(i%3) - 1
	}
	for i := range by.PropensityParams {
		by.PropensityParams[i] = .1 * float32(i%5)
	}
	want := must(fit.TallyPairs(ctx, engine.CPU{}, p, by, .5))(t)
	survey := fit.SurveyPairs(p, some)
	nodes := []int32{3, 7, 8, 120, 299}
	links := fit.CountInDegrees(p, nodes)
	for _, cut := range []shards.CutSettings{{}, {Nodes: 64, Pairs: 700}} {
		cluster, m := s.cut(t, cut)
		for name, runner := range runners() {
			if name == "flink" && cut.Nodes == 0 {
				continue
			}
			cluster.Runner = runner
			all := cluster.Population(0)
			got := must(all.Survey(ctx, some))(t)
			if survey.Dim = 8; !reflect.DeepEqual(got, survey) {
				t.Errorf("%s, %d shards: survey %+v, one machine %+v", name, len(m.Train), got, survey)
			}
			checkDrawn(t, p, some, must(all.Draw(ctx, some))(t))
			tally := must(all.Tally(ctx, by, .5))(t)
			if !slices.Equal(tally.Sources, want.Sources) || tally.Pairs != want.Pairs ||
				tally.Logged != want.Logged || relative(tallied(tally), tallied(want)) > 1e-6 {
				t.Errorf("%s, %d shards: tally %+v, one machine %+v", name, len(m.Train), tally, want)
			}
			if found := must(all.InDegrees(ctx, nodes))(t); !reflect.DeepEqual(found, links) {
				t.Errorf("%s, %d shards: links %v, one machine %v", name, len(m.Train), found, links)
			}
			for _, choice := range []*fit.PairChoice{nil, &everything, &few} {
				checkSums(t, cluster, p, fit.PairDesign{Choice: choice, Cells: fieldsOf(survey), Unit: .7,
					CaseControl: true})
			}
			if left := must(os.ReadDir(cluster.Work.Root))(t); len(left) > 0 {
				t.Errorf("%s, %d shards: left %v", name, len(m.Train), left)
			}
		}
	}
}

func fieldsOf(s fit.PairSurvey) (out []int32) {
	for at := range s.First {
		out = append(out, at)
	}
	slices.Sort(out)
	return out
}

func tallied(t *fit.PairTally) []float64 {
	cells := slices.SortedFunc(slices.Values(t.Cells), func(a, b fit.CellTally) int {
		return int(a.Source)*100 + int(a.Target) - int(b.Source)*100 - int(b.Target)
	})
	out := []float64{t.Weight, t.Squares, t.Clipped}
	for _, c := range cells {
		out = append(out, float64(c.Pairs), float64(c.Links), c.Weight, c.Shown, c.LoggedWeight, c.Logged, c.Exposed,
			c.Expected, c.Variance)
	}
	return out
}

// checkDrawn compares drawn pairs and their nodes with those of one machine.
func checkDrawn(t *testing.T, p sample.Problem, c fit.PairChoice, got sample.Problem) {
	t.Helper()
	want := p.Training().At(c.Places(p))
	number := func(places []int32) []int32 {
		out := slices.Clone(places)
		for k, i := range out {
			out[k] = got.Nodes.Number(i)
		}
		return out
	}
	if !slices.Equal(number(got.Train.Source), want.Pairs.Source) ||
		!slices.Equal(number(got.Train.Target), want.Pairs.Target) || !slices.Equal(got.Train.Linked,
		want.Pairs.Linked) || !slices.Equal(got.Train.Weight, want.Pairs.Weight) ||
		!slices.Equal(got.Train.Rate, want.Pairs.Rate) || !slices.Equal(got.Exposure, want.Exposure) {
		t.Fatalf("%d other pairs were drawn than one machine's %d", got.Train.Len(), want.Pairs.Len())
	}
	own, row := make([]float32, p.Nodes.Dim()), make([]float32, p.Nodes.Dim())
	for i, number := range got.Nodes.Numbers {
		got.Nodes.Vectors.Load(own, int32(i))
		p.Nodes.Vectors.Load(row, number)
		if !slices.Equal(own, row) || got.Nodes.Fields[i] != p.Nodes.Fields[number] ||
			got.Nodes.Popularity[i] != p.Nodes.Popularity[number] {
			t.Fatalf("node %d is another", number)
		}
	}
}

// checkSums compares the sums of a likelihood.
func checkSums(t *testing.T, cluster *Cluster, p sample.Problem, d fit.PairDesign) {
	t.Helper()
	ctx := t.Context()
	whole, seen, _, err := d.Over(ctx, engine.CPU{}, p)
	if err != nil {
		t.Fatal(err)
	}
	n := p.Nodes.Dim() + 1 + len(d.Cells)
	theta, root := make([]float64, n), engine.Root{Divisor: 3}
	for i := range theta {
		theta[i] = .3 * float64(i%4-2)
	}
	for k := range 3 {
		row := make([]float32, p.Nodes.Dim()+1)
		for i := range row {
			row[i] = float32((i+k)%5) - 2
		}
		root.Rows = append(root.Rows, row)
	}
	seen.Leverage = must(whole.Leverage(ctx, root))(t)
	one := must(whole.Observe(ctx, seen))(t)
	wantGrad, grad, again := make([]float64, n), make([]float64, n), make([]float64, n)
	wantValue := must(one.Value(ctx, theta, wantGrad))(t)
	design := must(cluster.Population(0).Design(ctx, d))(t)
	all := must(design.Observe(ctx, engine.Outcomes{Root: &root}))(t)
	value := must(all.Value(ctx, theta, grad))(t)
	kept := must(filepath.Glob(filepath.Join(cluster.Work.Root, "leverage-*")))(t)
	if have := len(kept) > 0; have != (d.Choice == nil) {
		t.Errorf("%d files of leverage are kept, chosen %v", len(kept), d.Choice)
	}
	for _, path := range kept[:min(1, len(kept))] { // what is damaged is found again
		if err := turnBit(path); err != nil {
			t.Fatal(err)
		}
	}
	if second := must(all.Value(ctx, theta, again))(t); second != value || !slices.Equal(again, grad) {
		t.Errorf("value %v, and then %v", value, second)
	}
	if off := relative(append(grad, value), append(wantGrad, wantValue)); off > 1e-6 {
		t.Errorf("value and gradient are off by %.2g, chosen %v", off, d.Choice)
	}
	if off := relative(must(all.Information(ctx, theta))(t), must(one.Information(ctx, theta))(t)); off > 1e-6 {
		t.Errorf("the information is off by %.2g, chosen %v", off, d.Choice)
	}
	if err := all.Close(); err != nil {
		t.Fatal(err)
	}
}

// bytesOf is a fit as a model file has it.
func bytesOf(t *testing.T, r *fit.Result) []byte {
	t.Helper()
	m := must(r.Model())(t)
	path := filepath.Join(t.TempDir(), "model")
	if err := model.Save(path, m); err != nil {
		t.Fatal(err)
	}
	return must(os.ReadFile(path))(t)
}

func bayesSettings() fit.Settings {
	return fit.Settings{Method: "bayes", Seed: 2, Replicates: 2, Starts: []float64{.3, .9}}
}

// TestBayesIsThatOfOneMachine fits by bayes over shards. Pairs that the driver can hold give the bits of fit.Fit; of
// more, the cut moves the fit by rounding alone, and the number of tasks at a time and of threads by nothing.
func TestBayesIsThatOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 1000, 8)
	settings := bayesSettings()
	want := must(fit.Fit(ctx, s.Problem, settings))(t)
	cluster, _ := s.cut(t, shards.CutSettings{Nodes: 334, Pairs: 9000})
	got := must(fit.FitPopulation(ctx, cluster.Population(0), settings))(t)
	x, y := *got.Findings, *want.Findings
	// lists are compared among the nodes that pairs name, which on one machine is all nodes
	x.Lists, y.Lists, x.Verdict, y.Verdict = nil, nil, nil, nil
	if !slices.Equal(got.LinkParams, want.LinkParams) || !slices.Equal(got.PropensityParams, want.PropensityParams) ||
		!reflect.DeepEqual(x, y) {
		t.Errorf("all pairs in hand: another fit, %+v and %+v", x, y)
	}
	const hold = 30_000
	var first *fit.Result
	for _, cut := range []shards.CutSettings{{}, {Nodes: 100, Pairs: 3000}} {
		cluster, m := s.cut(t, cut)
		var file []byte
		for name, runner := range runners() {
			if name == "flink" && cut.Nodes == 0 {
				continue
			}
			for _, threads := range []int{1, 3} {
				if name == "flink" && threads > 1 {
					continue
				}
				runner.Threads = threads
				cluster.Runner = runner
				r := must(fit.FitPopulation(ctx, cluster.Population(hold), settings))(t)
				if file == nil {
					file = bytesOf(t, r)
				} else if !bytes.Equal(file, bytesOf(t, r)) {
					t.Errorf("%s with %d threads gives other bytes", name, threads)
				}
				if first == nil {
					first = r
				}
				compareFits(t, len(m.Train), r, first)
			}
		}
		if left := must(os.ReadDir(cluster.Work.Root))(t); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

// TestBayesOfManyPairs has more pairs than fit.Fit keeps in memory, so that both learn by way of a part.
func TestBayesOfManyPairs(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; beam/check runs it")
	}
	s := newSetup(t, 4000, 8)
	settings := bayesSettings()
	began := time.Now()
	want := must(fit.Fit(t.Context(), s.Problem, settings))(t)
	single := time.Since(began)
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 1500, Pairs: 60_000})
	began = time.Now()
	got := must(fit.FitPopulation(t.Context(), cluster.Population(0), settings))(t)
	t.Logf("%d pairs in %d shards: one machine %.1f s, over shards %.1f s in %d jobs; parameters off by %.2g and "+
		"%.2g, mean ŷ %.8g and %.8g, class %s and %s", m.Extent.Pairs, len(m.Train), single.Seconds(),
		time.Since(began).Seconds(), cluster.Evaluations(), relative(got.LinkParams, want.LinkParams),
		relative(got.PropensityParams, want.PropensityParams), got.Findings.MeanLink.Value,
		want.Findings.MeanLink.Value, got.Findings.Class, want.Findings.Class)
	compareFits(t, len(m.Train), got, want)
}

func compareFits(t *testing.T, cut int, a, b *fit.Result) {
	t.Helper()
	if off := max(relative(a.LinkParams, b.LinkParams), relative(a.PropensityParams, b.PropensityParams)); off > 1e-6 {
		t.Errorf("%d shards: parameters off by %.2g", cut, off)
	}
	x, y := a.Findings, b.Findings
	if x.Class != y.Class || x.Support.Pairs != y.Support.Pairs || x.Support.Sources != y.Support.Sources ||
		!slices.EqualFunc(x.Tests, y.Tests, func(p, q fit.Refutation) bool { return p.Refuted == q.Refuted }) ||
		!slices.EqualFunc(x.Set.Members, y.Set.Members, func(p, q fit.Member) bool {
			return p.Alternative == q.Alternative && p.Stays == q.Stays
		}) {
		t.Errorf("%d shards: findings %+v, others %+v", cut, x, y)
	}
}

// TestHeldPairsAreThoseOfOneMachine judges two models by held-out pairs of shards: the whole evaluation, intervals,
// differences and all, has the bits of one machine.
func TestHeldPairsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 600, 8)
	settings := bayesSettings()
	settings.Doctor = fit.QuickDoctor
	folder := t.TempDir()
	var paths []string
	for name, r := range map[string]*fit.Result{"bayes": must(fit.Fit(ctx, s.Problem, settings))(t),
		"mle": must(fit.Fit(ctx, s.Problem, settingsFor("mle")))(t)} {
		paths = append(paths, filepath.Join(folder, name))
		if err := model.Save(filepath.Join(folder, name), must(r.Model())(t)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(paths)
	judged := func(n model.Nodes, held sample.Evidence) *evaluate.Evaluation {
		var models []model.Model
		for _, path := range paths {
			models = append(models, must(must(model.Open(path))(t).Model(n))(t))
		}
		return must(evaluate.NewEvaluation(ctx, nil, models[0], held, evaluate.EvaluationSettings{
			Others: models[1:], Names: []string{"mle"}}))(t)
	}
	want := judged(s.Problem.Nodes, s.Test)
	for _, cut := range []shards.CutSettings{{}, {Nodes: 90, Pairs: 800}} {
		cluster, _ := s.cut(t, cut)
		for name, runner := range runners() {
			cluster.Runner = runner
			p := must(cluster.Held(ctx, 1<<20))(t)
			if got := judged(p.Nodes, p.Training()); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, blocks of %d: %+v, one machine %+v", name, cut.Nodes, got.Panel, want.Panel)
			}
			some := must(cluster.Held(ctx, p.Train.Len()/3))(t)
			pairs := map[int32]int{}
			for _, i := range p.Train.Source {
				pairs[p.Nodes.Number(i)]++
			}
			for _, i := range some.Train.Source {
				pairs[some.Nodes.Number(i)]--
			}
			whole := 0
			for source, left := range pairs {
				if left == 0 {
					whole++
				} else if left < 0 {
					t.Errorf("source %d is drawn twice", source)
				}
			}
			if n := some.Train.Len(); n < p.Train.Len()/6 || n > p.Train.Len()*2/3 || whole < len(pairs)/6 {
				t.Errorf("%s: %d of %d pairs are drawn, %d of %d sources whole", name, n, p.Train.Len(), whole,
					len(pairs))
			}
		}
	}
}

// faultyPopulation fails when it was asked for so many sums.
type faultyPopulation struct {
	fit.Population
	left int
}

func (p *faultyPopulation) Design(ctx context.Context, d fit.PairDesign) (engine.Design, error) {
	if p.left--; p.left < 0 {
		return nil, errFault
	}
	return p.Population.Design(ctx, d)
}

func (p *faultyPopulation) Tally(ctx context.Context, by engine.Predictor, floor float64) (*fit.PairTally, error) {
	if p.left--; p.left < 1 {
		return nil, errFault
	}
	return p.Population.Tally(ctx, by, floor)
}

// TestBayesGoesOnAfterAnInterruption stops a fit and resumes it; a checkpoint of other shards is refused.
func TestBayesGoesOnAfterAnInterruption(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 500, 8)
	settings := bayesSettings()
	settings.Doctor = fit.QuickDoctor
	const hold = 4000
	cluster, _ := s.cut(t, shards.CutSettings{Nodes: 250, Pairs: 4000})
	all := cluster.Population(hold)
	want := bytesOf(t, must(fit.FitPopulation(ctx, all, settings))(t))
	settings.Checkpoint = fit.Checkpoint{Path: filepath.Join(t.TempDir(), "fit.checkpoint"), Every: 1}
	for _, left := range []int{0, 1} {
		if _, err := fit.FitPopulation(ctx, &faultyPopulation{all, left}, settings); !errors.Is(err, errFault) {
			t.Fatalf("a failing cluster gives %v", err)
		}
		settings.Checkpoint.Resume = true
	}
	others, _ := newSetup(t, 400, 8).cut(t, shards.CutSettings{})
	if _, err := fit.FitPopulation(ctx, others.Population(hold), settings); !errors.Is(err, fit.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "other data") {
		t.Errorf("a checkpoint of other shards gives %v", err)
	}
	before := cluster.Evaluations()
	if got := bytesOf(t, must(fit.FitPopulation(ctx, all, settings))(t)); !bytes.Equal(got, want) {
		t.Error("a resumed fit is another")
	}
	if done := cluster.Evaluations() - before; done > 6 {
		t.Errorf("%d jobs after resuming: it began anew", done)
	}
}

// TestBayesNamesWhatIsWrong damages shards, and has pairs that bayes cannot learn from here.
func TestBayesNamesWhatIsWrong(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 160})
	if err := turnBit(cluster.Shards.Path(m.Train[1].File.Name)); err != nil {
		t.Fatal(err)
	}
	_, err := fit.FitPopulation(ctx, cluster.Population(0), bayesSettings())
	if err == nil || !strings.Contains(err.Error(), m.Train[1].File.Name) || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("a damaged shard: %v", err)
	}
	cluster, m = s.cut(t, shards.CutSettings{})
	m.Rates = true
	cluster.Manifest = m
	if _, err := fit.FitPopulation(ctx, cluster.Population(0), bayesSettings()); !errors.Is(err, fit.ErrData) ||
		!strings.Contains(err.Error(), "clicks") {
		t.Errorf("pairs known by clicks: %v", err)
	}
	text := must(json.Marshal(m))(t)
	if !strings.Contains(string(text), `"columns":["popularity"`) {
		t.Errorf("a manifest without its columns: %.300s", text)
	}
}
