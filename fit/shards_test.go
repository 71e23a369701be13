package fit

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/risk"
	"unseen/sample"
)

// shardEngine sums an objective over shards of its pairs, one after another.
type shardEngine struct {
	engine.CPU
	pairs    *graph.Pairs
	exposure []risk.Exposure
	shards   int
	extent   Extent
	left     int // evaluations until it fails; below 0 never
}

var errShard = errors.New("a shard is gone")

func (e *shardEngine) Gradient(ctx context.Context, o *engine.Objective, params []float32,
	grad []float64) (engine.Parts, error) {
	if e.left == 0 {
		return engine.Parts{}, errShard
	}
	e.left--
	n := e.pairs.Len()
	var total engine.Parts
	part := make([]float64, len(grad))
	clear(grad)
	for k := range e.shards {
		shard := *o
		shard.MeanWeight = e.extent.MeanWeight
		var places []int32
		for i := k * n / e.shards; i < (k+1)*n/e.shards; i++ {
			places = append(places, int32(i))
		}
		cut := sample.Evidence{Pairs: e.pairs, Exposure: e.exposure}.At(places)
		shard.Pairs, shard.Exposure = cut.Pairs, cut.Exposure
		own := part
		if grad == nil {
			own = nil
		}
		sum, err := engine.CPU{}.Sum(ctx, &shard, params, own)
		if err != nil {
			return engine.Parts{}, err
		}
		total.Likelihood += sum.Likelihood
		total.Risk += sum.Risk
		for i, g := range own {
			grad[i] += g
		}
	}
	return o.Join(total, int64(n), params, grad), nil
}

// TestShardsSumToTheWhole holds objectives and descents over shards against those over all pairs at once.
func TestShardsSumToTheWhole(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pairs := 20_000
	if testing.Short() {
		pairs = 4_000
	}
	p := smallProblem(t, 200, 8, pairs, 3)
	for _, method := range []string{"naive", "mle", "ap", "pu", "rw"} {
		s := Settings{Method: method, Optimiser: "lbfgs", Ridge: 4, Starts: []float64{.3},
			LBFGS: LBFGSSettings{Iterations: 10}}
		whole := must(Fit(ctx, p, s))(t)
		extent := Extent{Pairs: int64(p.Train.Len()), MeanSquare: MeanSquare(whole.Link, p.Train)}
		for _, w := range p.Train.Weight {
			extent.MeanWeight += w / float64(p.Train.Len())
		}
		o := must(s.Objective(p.Nodes, extent))(t)
		for _, shards := range []int{1, 3, 16} {
			s.Engine = &shardEngine{pairs: p.Train, shards: shards, extent: extent, left: -1}
			got := must(Descent{Objective: o, Settings: s}.Run(ctx))(t)
			params := got.Params
			want := slices.Concat(whole.LinkParams, whole.PropensityParams)
			for i := range params {
				if math.Abs(float64(params[i]-want[i])) > 1e-3*(1+math.Abs(float64(want[i]))) {
					t.Fatalf("%s in %d shards: parameter %d is %v after %d iterations, at once %v after %d", method,
						shards, i, params[i], got.Iterations, want[i], whole.Iterations)
				}
			}
		}
	}
}

// TestDescentKeepsEveryIteration fails an engine and goes on from the checkpoint.
func TestDescentKeepsEveryIteration(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := smallProblem(t, 200, 8, 5000, 3)
	s := Settings{Method: "ap", Optimiser: "lbfgs", Ridge: 4, Starts: []float64{.3},
		LBFGS: LBFGSSettings{Iterations: 8}}
	extent := Extent{Pairs: int64(p.Train.Len()), MeanSquare: .01, MeanWeight: 1}
	o := must(s.Objective(p.Nodes, extent))(t)
	run := func(left int, resume bool, data, path string) ([]float32, error) {
		s.Checkpoint = Checkpoint{Path: path, Resume: resume}
		s.Engine = &shardEngine{pairs: p.Train, shards: 2, extent: extent, left: left}
		got, err := Descent{Objective: o, Settings: s, Data: data}.Run(ctx)
		return got.Params, err
	}
	want, err := run(-1, false, "a", "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c")
	if _, err := run(5, false, "a", path); !errors.Is(err, errShard) {
		t.Fatalf("a failing engine gives %v", err)
	}
	if _, err := run(-1, true, "b", path); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("a checkpoint of other pairs gives %v", err)
	}
	got, err := run(-1, true, "a", path)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("resumed: %v, %v; without a break %v", got[:3], err, want[:3])
	}
}

func TestObjectivesThatAreNoSums(t *testing.T) {
	t.Parallel()
	p := smallProblem(t, 200, 8, 5000, 3)
	for _, s := range []Settings{{Method: "bayes"}, {Method: "cosine"}, {Method: "nothing"}, {Method: "dr"}} {
		if _, err := s.Objective(p.Nodes, Extent{Pairs: 5, MeanWeight: 1}); err == nil {
			t.Errorf("%s has an objective", s.Method)
		}
	}
	if _, err := (Settings{Method: "ap"}).Objective(p.Nodes, Extent{}); !errors.Is(err, ErrData) {
		t.Errorf("no pairs give %v", err)
	}
}

// Factors over shards are refused where they need all pairs in one place, by what to do instead.
func TestFactorsThatNeedOneMachine(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 20, 10, 1)
	x := Extent{Pairs: 200, MeanWeight: 1, MeanSquare: 1}
	fine := Settings{Link: "factors", Method: "mle", Ridge: 1}
	change := func(do func(*Settings)) Settings {
		s := fine
		do(&s)
		return s
	}
	for words, c := range map[string]struct {
		Settings
		Extent
	}{
		"by the optimiser alternating": {change(func(s *Settings) { s.Optimiser = "lbfgs" }), x},
		"a ridge is chosen":            {change(func(s *Settings) { s.Ridge = 0 }), x},
		"model factors+bonus":          {change(func(s *Settings) { s.Link = "factors+bonus" }), x},
		"field-matrix+activity":        {change(func(s *Settings) { s.Exposure = "fields+activity" }), x},
	} {
		if _, err := c.Settings.Objective(s.nodes, c.Extent); !errors.Is(err, ErrSetting) ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
	shown := change(func(s *Settings) { s.Method = ShownOnly })
	if _, err := shown.Objective(s.nodes, x); !errors.Is(err, ErrData) ||
		!strings.Contains(err.Error(), "pairs that are logged as shown") {
		t.Errorf("the method shown without a log: %v", err)
	}
	logged := x
	logged.Logged, logged.LoggedPairs = true, 100
	if o := must(fine.Objective(s.nodes, logged))(t); o.Tied {
		t.Error("exposure of pairs of fields is tied where it is logged")
	}
	if o := must(shown.Objective(s.nodes, logged))(t); o.Tied || !o.ShownOnly {
		t.Errorf("by the method shown exposure is tied %v, and only what was shown counts %v", o.Tied, o.ShownOnly)
	}
	o := must(fine.Objective(s.nodes, x))(t)
	if !o.Tied || o.Precision == nil {
		t.Errorf("exposure of factors: tied %v, precision %v", o.Tied, o.Precision)
	}
	// an engine that cannot train side by side is an error, where one machine goes on by L-BFGS
	alone := Settings{Link: "factors", Method: "mle", Ridge: 1, Engine: noRounds{}}
	if _, err := (Descent{Objective: o, Settings: alone}).Run(t.Context()); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("an engine without rounds: %v", err)
	}
}

// noRounds is an engine that does not train side by side.
type noRounds struct{ engine.CPU }

func (noRounds) Alternate(*engine.Objective) (engine.Alternation, error) {
	return nil, engine.ErrUnsupported
}
