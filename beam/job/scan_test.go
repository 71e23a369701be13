package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
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
	"unseen/world"
)

// tiedSetup is a world with times, in which every fifth node has the vector of the one before: their scores are equal.
func tiedSetup(t testing.TB, seed uint64) setup {
	t.Helper()
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 240, Dim: 6, Fields: world.EvenFields(3),
		Scenario: world.Scenario{Seed: seed}}))(t)
	g := must(w.Linked(ctx))(t).Graph()
	tied := must(graph.NewVectors(g.Len(), g.Vectors().Dim()))(t)
	row := make([]float32, g.Vectors().Dim())
	for i := range int32(g.Len()) {
		g.Vectors().Load(row, i-min(i%5/4, i))
		if err := tied.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	g = must(g.WithVectors(tied))(t)
	return setup{must(sample.Prepare(ctx, g, sample.Options{Origin: sample.Origin{Plan: sample.Plan{
		Split: sample.AtRandom, Later: true, Seed: seed, PerLink: 2}}, Threads: 1}))(t)}
}

// randomModel has random parameters: nothing of these tests depends on how a model was fitted.
func randomModel(t testing.TB, n model.Nodes, link, propensity string, seed uint64) model.Model {
	t.Helper()
	m := model.Model{Method: "random", Link: must(model.NewLink(link, n, model.LinkOptions{}))(t),
		Propensity: must(model.NewPropensity(propensity, n, model.PropensityOptions{}))(t)}
	random := rand.New(rand.NewPCG(seed, 5))
	draw := func(size int) (params []float32) {
		for range size {
			params = append(params, float32(random.NormFloat64()))
		}
		return params
	}
	m.LinkParams, m.PropensityParams = draw(m.Link.Size()), draw(m.Propensity.Size())
	return m
}

func predictorOf(m model.Model) engine.Predictor {
	return engine.Predictor{Link: m.Link, LinkParams: m.LinkParams, Propensity: m.Propensity,
		PropensityParams: m.PropensityParams}
}

// TestSingleListsAreThoseOfOneMachine asks both engines the same queries, with every filter and dial.
func TestSingleListsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(3) {
		s := tiedSetup(t, seed)
		g := s.Graph
		order := g.Order()
		cluster, _ := s.cut(t, shards.CutSettings{Nodes: 77})
		nodes := model.NodesOf(g)
		nodes.Popularity = model.LogInDegree(g.Len(), s.Problem.Train.Target)
		for _, kinds := range [][2]string{{"diagonal", "field-matrix"},
			{"diagonal-field", "field-matrix+text+popularity"}, {"low-rank", "low-rank-fields"},
			{"mlp", "mlp"}, {"cosine+bonus", "constant"}} {
			m := randomModel(t, nodes, kinds[0], kinds[1], seed)
			naive := randomModel(t, nodes, kinds[0], "constant", seed+1)
			var ask [2]*recommend.Recommender
			for k, e := range []engine.Engine{engine.CPU{}, cluster} {
				ask[k] = must(recommend.New(g, m, recommend.Options{Naive: &naive, Engine: e}))(t)
			}
			day := func(i int32) recommend.Query {
				from, _ := g.Time(i)
				until, _ := g.Time(i + 100)
				return recommend.Query{From: from, Until: until}
			}
			queries := map[string]recommend.Query{
				"plain": {}, "seen": {Seen: true}, "linked": {Linked: true}, "fields": {Fields: []uint16{1, 3}},
				"times": day(60), "order": {Before: order}, "excluded": {Exclude: []int32{1, 2, 3, 40, 239}},
				"all filters": {Before: order, Fields: []uint16{2}, Exclude: []int32{7}, Seen: true},
				"diverse":     {Diversity: .4}, "explored": {Explore: .5, Seed: seed}, "compared": {Compare: true},
			}
			for name, q := range queries {
				q.K = 9
				for _, source := range []int32{60, 199, 239} {
					var lists [2]*recommend.List
					for k, r := range ask {
						q.Source = r.Node(source)
						lists[k] = must(r.Top(ctx, q))(t)
					}
					if !reflect.DeepEqual(lists[0], lists[1]) {
						t.Fatalf("seed %d, %v, %s, source %d: %+v, on one machine %+v", seed, kinds, name, source,
							lists[1], lists[0])
					}
				}
			}
			if _, inner := m.Link.(model.InnerProduct); !inner {
				continue
			}
			var bridges [2][]recommend.Bridge
			for k, r := range ask {
				bridges[k] = must(r.Bridges(ctx, recommend.BridgeSettings{Sources: 20}))(t)
			}
			if !reflect.DeepEqual(bridges[0], bridges[1]) {
				t.Fatalf("seed %d, %v: bridges differ", seed, kinds)
			}
		}
	}
}

// randomPairsOf draws pairs of nodes, grouped in runs of one source or not. With these runs models go source by source
// in large portions, and not in all small ones.
func randomPairsOf(nodes, n int, grouped bool, seed uint64) *graph.Pairs {
	random, p := rand.New(rand.NewPCG(seed, 9)), &graph.Pairs{}
	for k := range n {
		source := random.Int32N(int32(nodes))
		if grouped && k%70 != 0 {
			source = p.Source[k-1]
		}
		p.Source, p.Target = append(p.Source, source), append(p.Target, random.Int32N(int32(nodes)))
	}
	return p
}

// TestScanByShardsIsThatOfOneMachine scans with models that have no vectors, and holds every logit, bit by bit, against
// the same models with all vectors in memory.
func TestScanByShardsIsThatOfOneMachine(t *testing.T) {
	s := newSetup(t, 300, 8)
	const two = scanTask + engine.ScanChunk + 300 // tasks, and the last chunk is not full
	for _, c := range []struct {
		link, propensity      string
		pairs, block, portion int // 0 means the default
		grouped               bool
	}{
		{"diagonal", "field-matrix", two, 0, 0, false},
		{"diagonal-field", "low-rank-fields", two, 77, engine.ScanChunk, true},
		{"low-rank", "constant", 9000, 77, 100, false},
		{"mlp", "mlp", 5000, 200, engine.ScanChunk, true},
	} {
		cluster, manifest := s.cut(t, shards.CutSettings{Nodes: c.block})
		scan := func(n model.Nodes) engine.Scan {
			out := engine.Scan{Pairs: randomPairsOf(300, c.pairs, c.grouped, 1), Portion: c.portion}
			for seed := range uint64(2) {
				out.Versions = append(out.Versions, predictorOf(randomModel(t, n, c.link, c.propensity, seed)))
			}
			out.Versions[1].Propensity = nil
			return out
		}
		shape := must(manifest.Shape())(t)
		want := logitsOf(t, engine.CPU{}, scan(model.NodesOf(s.Graph)))
		for name, runner := range runners() {
			cluster.Runner = runner
			if !reflect.DeepEqual(logitsOf(t, cluster, scan(shape)), want) {
				t.Errorf("%s, %+v: logits differ from one machine's", name, c)
			}
		}
		if left := must(os.ReadDir(cluster.Work.Root))(t); len(left) > 0 {
			t.Errorf("%+v: scans left %v", c, left)
		}
	}
}

// TestScanOfOneModel scans π̂ alone, and ŷ alone, of a few pairs.
func TestScanOfOneModel(t *testing.T) {
	s := newSetup(t, 300, 8)
	cluster, manifest := s.cut(t, shards.CutSettings{Nodes: 160})
	targets := []int32{1, 200, 299}
	ask := func(e engine.Engine, n model.Nodes) [2][]float32 {
		both := predictorOf(randomModel(t, n, "diagonal", "field-matrix", 1))
		link, exposure := both, both
		link.Propensity, exposure.Link = nil, nil
		z, none, err := engine.SourceLogits(t.Context(), e, link, 7, targets)
		if err != nil || none != nil {
			t.Fatalf("ŷ alone: π̂ is %v, %v", none, err)
		}
		none, pi, err := engine.SourceLogits(t.Context(), e, exposure, 7, targets)
		if err != nil || none != nil {
			t.Fatalf("π̂ alone: ŷ is %v, %v", none, err)
		}
		return [2][]float32{z, pi}
	}
	got, want := ask(cluster, must(manifest.Shape())(t)), ask(engine.CPU{}, model.NodesOf(s.Graph))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("logits %v, on one machine %v", got, want)
	}
}

// logitsOf scans and returns z and s of every version, and checks that each pair is visited once, in portions of the
// size that was asked for.
func logitsOf(t *testing.T, e engine.Engine, s engine.Scan) [][]float32 {
	t.Helper()
	n := s.Pairs.Len()
	visits, out := make([]int32, n), make([][]float32, 2*len(s.Versions))
	for k := range out {
		out[k] = make([]float32, n)
	}
	s.Visit = func(at engine.Portion) error {
		if at.To-at.From > s.PortionSize() || at.From/engine.ScanChunk != at.Chunk ||
			(at.To-1)/engine.ScanChunk != at.Chunk {
			return fmt.Errorf("pairs %d to %d of chunk %d", at.From, at.To, at.Chunk)
		}
		for k := at.From; k < at.To; k++ {
			visits[k]++
		}
		for k := range s.Versions {
			copy(out[2*k][at.From:at.To], at.Link[k])
			copy(out[2*k+1][at.From:at.To], at.Propensity[k])
		}
		return nil
	}
	must(e.Scan(t.Context(), s))(t)
	if slices.ContainsFunc(visits, func(n int32) bool { return n != 1 }) {
		t.Fatal("a pair is not visited once")
	}
	return out
}

// TestIntervalsByShardsAreThoseOfOneMachine judges by held-out pairs with models that have no vectors.
func TestIntervalsByShardsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	cluster, manifest := s.cut(t, shards.CutSettings{Nodes: 128})
	judge := fit.Judge{Predictor: predictorOf(randomModel(t, model.NodesOf(s.Graph), "diagonal", "field-matrix", 1))}
	want := must(judge.Panel(ctx, s.Test, 0, nil))(t)
	judge = fit.Judge{Engine: cluster,
		Predictor: predictorOf(randomModel(t, must(manifest.Shape())(t), "diagonal", "field-matrix", 1))}
	if got := must(judge.Panel(ctx, s.Test, 0, nil))(t); !reflect.DeepEqual(got, want) {
		t.Errorf("a panel of %+v, on one machine %+v", got, want)
	}
}

// TestFailedScans: what goes wrong is an error that names it, and nothing is left.
func TestFailedScans(t *testing.T) {
	s := newSetup(t, 300, 8)
	type spoil func(c *Cluster, s *engine.Scan, cancel context.CancelFunc)
	damage := func(file func(c *Cluster) shards.FileSum, how func(path string) error) spoil {
		return func(c *Cluster, _ *engine.Scan, _ context.CancelFunc) {
			if err := how(c.Shards.Path(file(c).Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	vectors := func(c *Cluster) shards.FileSum { return c.Manifest.Blocks[1].Vectors }
	table := func(c *Cluster) shards.FileSum { return c.Manifest.Blocks[0].Table }
	for what, c := range map[string]struct {
		spoil spoil
		is    error
		words string
	}{
		"missing vectors": {damage(vectors, os.Remove), ErrJob, "vectors-00001.npy"},
		"a damaged table": {damage(table, turnBit), ErrJob, "nodes-00000.parquet"},
		"a visitor that fails": {func(_ *Cluster, s *engine.Scan, _ context.CancelFunc) {
			s.Visit = func(engine.Portion) error { return errFault }
		}, errFault, ""},
		"a context that ends in a visit": {func(_ *Cluster, s *engine.Scan, cancel context.CancelFunc) {
			s.Visit = func(engine.Portion) error { cancel(); return nil }
		}, context.Canceled, ""},
		"a context that has ended": {func(_ *Cluster, _ *engine.Scan, cancel context.CancelFunc) { cancel() },
			context.Canceled, ""},
		"a node that is not": {func(_ *Cluster, s *engine.Scan, _ context.CancelFunc) { s.Pairs.Target[3] = 300 },
			engine.ErrShape, "pair 3 is of nodes"},
		"too few parameters": {func(_ *Cluster, s *engine.Scan, _ context.CancelFunc) {
			s.Versions[0].LinkParams = nil
		}, engine.ErrShape, "too few parameters"},
		"gradients": {func(_ *Cluster, s *engine.Scan, _ context.CancelFunc) { s.Totals = []float64{1} },
			engine.ErrUnsupported, "judge without the posterior"},
	} {
		for name, runner := range runners() {
			cluster, manifest := s.cut(t, shards.CutSettings{Nodes: 160})
			cluster.Runner = runner
			ctx, cancel := context.WithCancel(t.Context())
			visited := false
			scan := engine.Scan{Pairs: randomPairsOf(300, 500, false, 1),
				Versions: []engine.Predictor{predictorOf(randomModel(t, must(manifest.Shape())(t), "diagonal",
					"field-matrix", 1))},
				Visit: func(engine.Portion) error { visited = true; return nil }}
			c.spoil(cluster, &scan, cancel)
			out, err := cluster.Scan(ctx, scan)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) || out != nil || visited {
				t.Errorf("%s, %s: %v, visited %v, %v", name, what, out, visited, err)
			}
			if left := must(os.ReadDir(cluster.Work.Root))(t); len(left) > 0 {
				t.Errorf("%s, %s: left %v", name, what, left)
			}
			cancel()
		}
	}
}

// TestFitWithGraphOnTheDriver trains by fit.Fit, with a search: what it evaluates on other pairs than the shards' must
// not come from the shards.
func TestFitWithGraphOnTheDriver(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	settings := settingsFor("mle")
	settings.LBFGS.Iterations = 1
	settings.Search = fit.Search{Axes: []fit.Axis{{Name: "ridge", Values: []float64{.01, 4}}}}
	want := must(fit.Fit(ctx, s.Problem, settings))(t)
	cluster, _ := s.cut(t, shards.CutSettings{})
	cluster.Settings = settings
	settings.Engine = cluster
	got := must(fit.Fit(ctx, s.Problem, settings))(t)
	for k, trial := range got.Trials {
		if on := want.Trials[k]; trial.Chosen != on.Chosen || math.Abs(trial.Validation-on.Validation) > 1e-6 {
			t.Errorf("trial %+v has a validation of %v, on one machine %v", trial, trial.Validation, on.Validation)
		}
	}
	if off := relative(got.LinkParams, want.LinkParams); off > 1e-4 {
		t.Errorf("parameters off by %.2g", off)
	}
	if got.Findings.Class != want.Findings.Class || got.Findings.Support != want.Findings.Support {
		t.Errorf("findings %+v, on one machine %+v", got.Findings, want.Findings)
	}
	settings.Method, settings.Search = "ap", fit.Search{}
	if _, err := fit.Fit(ctx, s.Problem, settings); !errors.Is(err, engine.ErrUnsupported) ||
		!strings.Contains(err.Error(), "Cluster.Settings") {
		t.Errorf("an objective of other settings: %v", err)
	}
}

// TestRefusals: what a cluster cannot do it refuses in one sentence that says what to do instead.
func TestRefusals(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	cluster, _ := s.cut(t, shards.CutSettings{})
	settings := fit.Settings{Engine: cluster, Method: "mle", Optimiser: "adam"}
	_, adam := fit.Fit(ctx, s.Problem, settings)
	judge := must(fit.Fit(ctx, s.Problem, settingsFor("mle")))(t).Judge()
	_, part := cluster.AllPairs(ctx, nil, judge.Predictor, graph.Universe{Sources: []int32{1}}, 0)
	for what, c := range map[string]struct {
		err   error
		words string
	}{
		"adam":           {adam, "training by minibatches; use the optimiser lbfgs"},
		"some all pairs": {part, "sums over a part of all pairs; sum over all, or open the dataset and use engine.CPU"},
	} {
		if want := "not supported on a cluster: " + c.words; !errors.Is(c.err, engine.ErrUnsupported) ||
			!strings.HasSuffix(c.err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, c.err, want)
		}
	}
}
