package job

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/hint"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
	"unseen/world"
)

// runners are those that every test compares: Prism, and with UNSEEN_FLINK=host:port a Flink job service, whose workers
// are what UNSEEN_WORKER names.
func runners() map[string]Runner {
	all := map[string]Runner{"prism": {}}
	if endpoint := os.Getenv("UNSEEN_FLINK"); endpoint != "" {
		all["flink"] = Runner{Name: "flink", Endpoint: endpoint, Environment: "LOOPBACK", Parallelism: 2}
		if worker := os.Getenv("UNSEEN_WORKER"); worker != "" {
			all["flink"] = Flink(endpoint, worker, 2)
		}
	}
	return all
}

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	Verbose(nil)
	os.Exit(m.Run())
}

// setup is a small world in memory and the pairs drawn from it.
type setup struct{ *sample.Prepared }

func newSetup(t testing.TB, nodes, dim int) setup {
	t.Helper()
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: nodes, Dim: dim, Fields: world.EvenFields(3),
		Scenario: world.Saturated()}))(t)
	g := must(w.Linked(ctx))(t).Graph()
	data := sample.Origin{Plan: sample.Plan{Split: sample.AtRandom, Later: true, Seed: 1, PerLink: 2}}
	prepared, err := sample.Prepare(ctx, g, sample.Options{Origin: data, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	return setup{prepared}
}

func (s setup) cut(t testing.TB, c shards.CutSettings) (*Cluster, *shards.Manifest) {
	t.Helper()
	location := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
	m := must(shards.Cut(context.Background(), location, s.Prepared, c))(t)
	return &Cluster{Shards: location, Manifest: must(location.Manifest(context.Background()))(t),
		Work: shards.Location{Root: t.TempDir()}}, m
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func settingsFor(method string) fit.Settings {
	return fit.Settings{Method: method, Optimiser: "lbfgs", Ridge: 4, Starts: []float64{.3}, Seed: 1,
		LBFGS: fit.LBFGSSettings{Iterations: 40}}
}

// relative is the largest difference over the size of the whole.
func relative[T float32 | float64](a, b []T) float64 {
	var off, size float64
	for i := range a {
		off += math.Pow(float64(a[i])-float64(b[i]), 2)
		size += math.Pow(float64(b[i]), 2)
	}
	return math.Sqrt(off / max(size, 1e-300))
}

// TestGradientIsThatOfOneMachine holds every runner against the processor, whatever the cut.
func TestGradientIsThatOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	p := s.Problem
	for _, method := range []string{"naive", "mle", "ap", "pu", "rw"} {
		for _, cut := range []shards.CutSettings{{}, {Nodes: 64, Pairs: 2000}} {
			if method != "ap" && cut.Nodes == 0 {
				continue
			}
			cluster, m := s.cut(t, cut)
			settings := settingsFor(method)
			whole := must(settings.Objective(p.Nodes, m.Extent))(t)
			whole.Pairs = p.Train
			params := make([]float32, whole.Size())
			for i := range params {
				params[i] = float32(math.Sin(float64(3 * i)))
			}
			want := make([]float64, whole.Size())
			wantParts := must(engine.CPU{}.Gradient(ctx, whole, params, want))(t)
			for name, runner := range runners() {
				cluster.Runner, cluster.Settings = runner, settings
				got := make([]float64, whole.Size())
				parts := must(cluster.Gradient(ctx, whole, params, got))(t)
				if off := math.Abs(parts.Total()-wantParts.Total()) / math.Abs(wantParts.Total()); off > 1e-6 {
					t.Errorf("%s, %s in %d shards: loss %v, one machine %v", name, method, len(m.Train), parts,
						wantParts)
				}
				if off := relative(got, want); off > 1e-6 {
					t.Errorf("%s, %s in %d shards: gradient off by %.2g", name, method, len(m.Train), off)
				}
				alone := must(cluster.Gradient(ctx, whole, params, nil))(t)
				if alone != parts {
					t.Errorf("%s, %s: loss %v without the gradient, %v with it", name, method, alone, parts)
				}
			}
		}
	}
}

// TestFitIsThatOfOneMachine trains on every runner and cut, and holds the models against fit.Fit's.
func TestFitIsThatOfOneMachine(t *testing.T) {
	ctx := context.Background()
	// The kernels add 64 pairs in float32, in an order that the cut decides. With 4,000 pairs that moved parameters by
	// 2e-6, with these 44,000 by 2e-7.
	s := newSetup(t, 1000, 8)
	settings := settingsFor("ap")
	want := must(fit.Fit(ctx, s.Problem, settings))(t)
	wantParams := slices.Concat(want.LinkParams, want.PropensityParams)
	for _, cut := range []shards.CutSettings{{}, {Nodes: 334, Pairs: 9000}, {Nodes: 100, Pairs: 3000}} {
		cluster, m := s.cut(t, cut)
		for name, runner := range runners() {
			if name == "flink" && cut.Nodes != 100 {
				continue // a job takes seconds there, and training thirty of them
			}
			cluster.Runner, cluster.Settings = runner, settings
			o := must(settings.Objective(must(m.Shape())(t), m.Extent))(t)
			settings.Engine = cluster
			got := must(fit.Descent{Objective: o, Settings: settings, Data: m.Checksum()}.Run(ctx))(t)
			params, parts, iterations := got.Params, got.Objective, got.Iterations
			whole := *o
			whole.Link, whole.Propensity, whole.Pairs = want.Link, want.Propensity, s.Problem.Train
			single := must(engine.CPU{}.Gradient(ctx, &whole, wantParams, nil))(t)
			t.Logf("%s, %d shards: %d iterations (one machine %d), loss %.10f (%.10f), parameters off by %.2g", name,
				len(m.Train), iterations, want.Iterations, parts.Total(), single.Total(), relative(params, wantParams))
			if off := math.Abs(parts.Total()-single.Total()) / single.Total(); off > 1e-6 {
				t.Errorf("%s, %d shards: loss %v, one machine %v", name, len(m.Train), parts.Total(), single.Total())
			}
			if off := relative(params, wantParams); off > 1e-6 {
				t.Errorf("%s, %d shards: parameters off by %.2g", name, len(m.Train), off)
			}
		}
	}
}

// TestFitGoesOnAfterAnInterruption stops training by a failing cluster and by a cancelled context, and resumes it.
func TestFitGoesOnAfterAnInterruption(t *testing.T) {
	s := newSetup(t, 300, 8)
	settings := settingsFor("mle")
	settings.LBFGS.Iterations = 6
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 128, Pairs: 1500})
	cluster.Settings = settings
	o := must(settings.Objective(must(m.Shape())(t), m.Extent))(t)
	train := func(ctx context.Context, e engine.Engine, c fit.Checkpoint, data string) ([]float32, int, error) {
		settings.Checkpoint = c
		settings.Engine = e
		got, err := fit.Descent{Objective: o, Settings: settings, Data: data}.Run(ctx)
		return got.Params, got.Iterations, err
	}
	want, iterations, err := train(context.Background(), cluster, fit.Checkpoint{}, m.Checksum())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fit.checkpoint")
	faulty := &faultyCluster{Cluster: cluster, left: 4}
	if _, _, err := train(context.Background(), faulty, fit.Checkpoint{Path: path}, m.Checksum()); !errors.Is(err,
		errFault) {
		t.Fatalf("a failing cluster gives %v", err)
	}
	if _, _, err := train(context.Background(), cluster, fit.Checkpoint{Path: path, Resume: true},
		"others"); !errors.Is(err, fit.ErrCheckpoint) || !strings.Contains(err.Error(), "other data") {
		t.Errorf("a checkpoint of other shards gives %v", err)
	}
	before := cluster.Evaluations()
	got, again, err := train(context.Background(), cluster, fit.Checkpoint{Path: path, Resume: true}, m.Checksum())
	if err != nil {
		t.Fatal(err)
	}
	if again != iterations || !slices.Equal(got, want) {
		t.Errorf("resumed training took %d iterations and %v; without a break %d and %v", again, got[:4], iterations,
			want[:4])
	}
	if done := cluster.Evaluations() - before; done >= iterations {
		t.Errorf("%d evaluations after resuming: it began anew", done)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checkpoint of a finished training: %v", err)
	}
}

var errFault = errors.New("the cluster is gone")

type faultyCluster struct {
	*Cluster
	left int
}

func (e *faultyCluster) Gradient(ctx context.Context, o *engine.Objective, params []float32,
	grad []float64) (engine.Parts,
	error) {
	if e.left--; e.left < 0 {
		return engine.Parts{}, errFault
	}
	return e.Cluster.Gradient(ctx, o, params, grad)
}

// TestTotalsAreThoseOfOneMachine holds all-pairs sums against engine.CPU's.
func TestTotalsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	r := must(fit.Fit(ctx, s.Problem, settingsFor("ap")))(t)
	judge := r.Judge()
	want := must(engine.CPU{}.AllPairs(ctx, s.Graph, judge.Predictor, graph.Universe{}, .05))(t)
	panel := must(judge.Panel(ctx, s.Test, 0, nil))(t).Risks
	for _, cut := range []shards.CutSettings{{}, {Nodes: 77, Pairs: 900}} {
		cluster, _ := s.cut(t, cut)
		for name, runner := range runners() {
			cluster.Runner = runner
			got := must(cluster.AllPairs(ctx, nil, judge.Predictor, graph.Universe{}, .05))(t)
			for what, pair := range map[string][2]float64{"mean ŷ": {got.MeanLink, want.MeanLink},
				"likelihood": {got.Likelihood, want.Likelihood},
				"naive":      {got.Naive, want.Naive}, "w": {got.W, want.W}, "pu": {got.PU, want.PU},
				"ap": {got.AP, want.AP}} {
				if math.Abs(pair[0]-pair[1]) > 1e-6*math.Abs(pair[1]) {
					t.Errorf("%s, blocks of %d: %s %v, one machine %v", name, cut.Nodes, what, pair[0], pair[1])
				}
			}
			if got.Pairs != want.Pairs {
				t.Errorf("%s: %d pairs, one machine %d", name, got.Pairs, want.Pairs)
			}
			held := must(cluster.Judge(ctx, judge.Predictor))(t)
			for what, pair := range map[string][2]float64{"naive": {held.Naive, panel["naive"].Plain},
				"w": {held.W, panel["w"].Plain}, "pu": {held.PU, panel["pu"].Plain},
				"ap": {held.AP, panel["ap"].Plain}} {
				if math.Abs(pair[0]-pair[1]) > 1e-6*math.Abs(pair[1]) {
					t.Errorf("%s, blocks of %d, held-out pairs: %s %v, one machine %v", name, cut.Nodes, what, pair[0],
						pair[1])
				}
			}
		}
	}
}

// TestListsAreThoseOfOneMachine holds the ids of every list against recommend's.
func TestListsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	for _, link := range []string{"diagonal", "diagonal-field", "low-rank", "members"} {
		settings := settingsFor("mle")
		if settings.Link = link; link == "members" {
			settings.Link = "diagonal"
		}
		if link == "low-rank" {
			settings.Ridge = -1
		}
		r := must(fit.Fit(ctx, s.Problem, settings))(t)
		m := must(r.Model())(t)
		if link == "members" { // whose order is not that of ŷ
			for k, slope := range []float64{0, .8} {
				params := slices.Clone(m.LinkParams)
				params[k] += 2
				m.Members = append(m.Members, model.MemberModel{Name: strings.Repeat("x", k+1), Weight: float64(k + 1),
					LinkParams: params, Popularity: slope})
			}
			m.Popularity = s.Problem.Nodes.Popularity
		}
		recommender := must(recommend.New(s.Graph, m, recommend.Options{}))(t)
		var all []int32
		for i := range int32(s.Graph.Len()) {
			all = append(all, i)
		}
		for _, linked := range []bool{false, true} {
			rows := must(recommender.Batch(ctx, all, recommend.Query{K: 7, Linked: linked}))(t)
			for _, cut := range []shards.CutSettings{{}, {Nodes: 77}} {
				cluster, _ := s.cut(t, cut)
				driver := must(recommend.New(s.Graph, m, recommend.Options{Engine: cluster}))(t)
				again := must(driver.Batch(ctx, all, recommend.Query{K: 7, Linked: linked}))(t)
				if !reflect.DeepEqual(again, rows) {
					t.Fatalf("%s, linked %v: the cluster's engine has other lists", link, linked)
				}
				for name, runner := range runners() {
					if name == "flink" && (cut.Nodes == 0 || linked) {
						continue
					}
					cluster.Runner = runner
					to := shards.Location{Root: filepath.Join(t.TempDir(), "lists")}
					lists := must(cluster.Recommend(ctx, m, to, ListSettings{K: 7, Linked: linked, Part: 50}))(t)
					got := readLists(t, to, lists)
					for i, row := range rows {
						var want []string
						for _, j := range row.Targets {
							want = append(want, s.Graph.ID(j))
						}
						if id := s.Graph.ID(int32(i)); !slices.Equal(got[id], want) {
							t.Fatalf("%s, %s, blocks of %d, linked %v: %s is given %v, by one machine %v", name, link,
								cut.Nodes, linked, id, got[id], want)
						}
					}
				}
			}
		}
	}
}

func readLists(t *testing.T, from shards.Location, lists *ListFolder) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, name := range lists.Parts {
		content := must(from.ReadAll(context.Background(), name))(t)
		lines := bufio.NewScanner(strings.NewReader(string(content)))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct {
				Source  string
				Targets []string
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			out[line.Source] = line.Targets
		}
	}
	if len(out) != lists.Nodes {
		t.Fatalf("lists of %d nodes, for %d", len(out), lists.Nodes)
	}
	return out
}

// TestBadInputIsNamed damages what workers read. The job must fail, name the file, and leave nothing to be read.
func TestBadInputIsNamed(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 300, 8)
	r := must(fit.Fit(ctx, s.Problem, settingsFor("mle")))(t)
	fitted := must(r.Model())(t)
	for name, runner := range runners() {
		for _, c := range []struct {
			what  string
			file  func(m *shards.Manifest) string
			spoil func(path string) error
			words string
		}{
			{"a missing shard", func(m *shards.Manifest) string { return m.Train[1].File.Name }, os.Remove, "missing"},
			{"a shard cut short", func(m *shards.Manifest) string { return m.Train[1].File.Name },
				func(p string) error { return os.Truncate(p, 100) }, "bytes"},
			{"a shard with a bit turned", func(m *shards.Manifest) string { return m.Train[0].File.Name }, turnBit,
				"SHA-256"},
			{"vectors with a bit turned", func(m *shards.Manifest) string { return m.Blocks[1].Vectors.Name }, turnBit,
				"SHA-256"},
			{"a missing table of nodes", func(m *shards.Manifest) string { return m.Blocks[0].Table.Name }, os.Remove,
				"missing"},
		} {
			cluster, m := s.cut(t, shards.CutSettings{Nodes: 160})
			cluster.Runner, cluster.Settings = runner, settingsFor("mle")
			file := c.file(m)
			if err := c.spoil(cluster.Shards.Path(file)); err != nil {
				t.Fatal(err)
			}
			o := must(cluster.Settings.Objective(must(m.Shape())(t), m.Extent))(t)
			_, err := cluster.Gradient(ctx, o, make([]float32, o.Size()), nil)
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s, %s (%s): %v", name, c.what, file, err)
			}
			if left := must(os.ReadDir(cluster.Work.Root))(t); len(left) > 0 {
				t.Errorf("%s, %s: left %v", name, c.what, left)
			}
			if strings.HasPrefix(file, "train") {
				continue
			}
			folder := t.TempDir()
			if _, err := cluster.Recommend(ctx, fitted, shards.Location{Root: filepath.Join(folder, "lists")},
				ListSettings{K: 3}); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%s, %s: lists were made, or %v", name, c.what, err)
			}
			if left := must(os.ReadDir(folder))(t); len(left) > 0 {
				t.Errorf("%s, %s: lists left %v", name, c.what, left)
			}
		}
	}
}

func turnBit(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content[len(content)/2] ^= 4
	return os.WriteFile(path, content, 0o644)
}

// TestWorkerOfAnotherVersionIsNamed gives a worker a plan that another version made.
func TestWorkerOfAnotherVersionIsNamed(t *testing.T) {
	p := &plan{}
	text := must(p.encode())(t)
	if _, err := decode(text); err != nil {
		t.Fatal(err)
	}
	own := Version
	defer func() { Version = own }()
	Version = "0.9"
	err := (&taskFn{planned{Plan: text}, "gradient"}).ProcessElement(t.Context(), []byte("{}"), nil)
	if err == nil || !strings.Contains(err.Error(), "unseen-beam 0.9") || !strings.Contains(err.Error(), "the driver "+
		own) {
		t.Errorf("another version gives %v", err)
	}
}

// TestOtherVersionOnFlink has real workers of another version, which UNSEEN_WORKER_OTHER names.
func TestOtherVersionOnFlink(t *testing.T) {
	endpoint, program := os.Getenv("UNSEEN_FLINK"), os.Getenv("UNSEEN_WORKER_OTHER")
	if endpoint == "" || program == "" {
		t.Skip("no Flink cluster with a program of another version; beam/check without --prism has one")
	}
	s := newSetup(t, 300, 8)
	cluster, m := s.cut(t, shards.CutSettings{})
	cluster.Runner, cluster.Settings = Flink(endpoint, program, 2), settingsFor("mle")
	o := must(cluster.Settings.Objective(must(m.Shape())(t), m.Extent))(t)
	_, err := cluster.Gradient(context.Background(), o, make([]float32, o.Size()), nil)
	if err == nil || !strings.Contains(err.Error(), "unseen-beam 0.9") || !strings.Contains(err.Error(), "the driver "+
		Version) {
		t.Errorf("workers of another version give %v", err)
	}
}

// TestMarksSurviveStackTraces finds our own words in what runners make of them.
func TestMarksSurviveStackTraces(t *testing.T) {
	err := fmt.Errorf("java.lang.RuntimeException: pages\n\tat org.apache: %w\nat more",
		mark(errors.New("train-1 is missing")))
	if got := keeper.reason(err); got != "train-1 is missing" {
		t.Errorf("found %q", got)
	}
	for want, err := range map[string]error{
		"80% bad; set --perLink or lower --seed": hint.Wrap(errors.New("80% bad"), "set %v or lower %v",
			hint.Setting("perLink"), hint.Setting("seed")),
		"one; set --a; or set --b": hint.Wrap(hint.Wrap(errors.New("one"), "set %v", hint.Setting("a")), "or set %v",
			hint.Setting("b")),
		"⟦plain; words": errors.New("⟦plain; words"),
	} {
		got := fmt.Errorf("job failed: %w", fault(keeper.reason(mark(err))))
		text := hint.Render(got, func(s hint.Setting) string { return "--" + string(s) })
		if text != "job failed: "+want {
			t.Errorf("%q becomes %q", want, text)
		}
		if plain := strings.ReplaceAll(want, "--", ""); got.Error() != "job failed: "+plain {
			t.Errorf("%q becomes %q", plain, got)
		}
	}
}
