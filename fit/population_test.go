package fit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// cutPopulation is a problem in pieces, each with nodes of its own, as a cluster has them.
type cutPopulation struct {
	pieces []sample.Problem
	calls  map[string]int
	fault  string // the call that fails
}

var errGone = errors.New("the cluster is gone")

func (c *cutPopulation) call(name string) error {
	c.calls[name]++
	if c.fault == name {
		return errGone
	}
	return nil
}

// cutProblem cuts a problem into pieces by the ends of its pairs.
func cutProblem(t *testing.T, p sample.Problem, pieces int) *cutPopulation {
	t.Helper()
	out := &cutPopulation{calls: map[string]int{}}
	for piece := range pieces {
		out.pieces = append(out.pieces, compacted(t, p, sample.Indices(p.Train.Len(), func(k int) bool {
			return int(p.Train.Source[k]+2*p.Train.Target[k])%pieces == piece
		})))
	}
	return out
}

// compacted is a problem of some pairs and the nodes that these name.
func compacted(t *testing.T, p sample.Problem, places []int32) sample.Problem {
	t.Helper()
	e := p.Training().At(places)
	numbers := slices.Concat(e.Pairs.Source, e.Pairs.Target)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	n := model.Nodes{FieldCount: p.Nodes.FieldCount, FieldNames: p.Nodes.FieldNames,
		Fields: sample.Column(p.Nodes.Fields, numbers), Vectors: must(graph.NewVectors(len(numbers), p.Nodes.Dim()))(t)}
	row := make([]float32, p.Nodes.Dim())
	for i, number := range numbers {
		p.Nodes.Vectors.Load(row, number)
		if err := n.Vectors.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
		n.Numbers = append(n.Numbers, p.Nodes.Number(number))
	}
	n.Age, n.Popularity = sample.Column(p.Nodes.Age, numbers), sample.Column(p.Nodes.Popularity, numbers)
	for _, ends := range [][]int32{e.Pairs.Source, e.Pairs.Target} {
		for k, i := range ends {
			at, _ := slices.BinarySearch(numbers, i)
			ends[k] = int32(at)
		}
	}
	return sample.Problem{Nodes: n, Train: e.Pairs, Exposure: e.Exposure}
}

func (c *cutPopulation) Checksum() string { return "pieces" }

func (c *cutPopulation) Survey(_ context.Context, of PairChoice) (out PairSurvey, err error) {
	for _, p := range c.pieces {
		out.Add(SurveyPairs(p, of))
	}
	return out, c.call("Survey")
}

func (c *cutPopulation) Draw(_ context.Context, choice PairChoice) (sample.Problem, error) {
	return c.draw("Draw", func(p sample.Problem) ([]int32, error) { return choice.Places(p), nil })
}

func (c *cutPopulation) DrawSurprising(ctx context.Context, by Surprise) (sample.Problem, error) {
	return c.draw("DrawSurprising", func(p sample.Problem) ([]int32, error) {
		return by.Places(ctx, engine.CPU{Threads: 1}, p)
	})
}

// draw joins the pairs of all pieces that are chosen.
func (c *cutPopulation) draw(call string, choose func(sample.Problem) ([]int32, error)) (sample.Problem, error) {
	joined := sample.Problem{Train: &graph.Pairs{}}
	row := []float32(nil)
	rows, fields, own := map[int32][]float32{}, map[int32]uint16{}, map[int32][2]float32{}
	type drawn struct {
		source, target, place int32
		evidence              sample.Evidence
	}
	var all []drawn
	for _, p := range c.pieces {
		places, err := choose(p)
		if err != nil {
			return joined, err
		}
		e := p.Training().At(places)
		for k, i := range e.Pairs.Source {
			j := e.Pairs.Target[k]
			for _, end := range []int32{i, j} {
				row = make([]float32, p.Nodes.Dim())
				p.Nodes.Vectors.Load(row, end)
				rows[p.Nodes.Number(end)], fields[p.Nodes.Number(end)] = row, p.Nodes.Fields[end]
				own[p.Nodes.Number(end)] = [2]float32{p.Nodes.Age[end], p.Nodes.Popularity[end]}
			}
			all = append(all, drawn{p.Nodes.Number(i), p.Nodes.Number(j), int32(k), e})
		}
		joined.Nodes.FieldCount = p.Nodes.FieldCount
	}
	slices.SortFunc(all, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.target, b.target))
	})
	n := &joined.Nodes
	for number := range rows {
		n.Numbers = append(n.Numbers, number)
	}
	slices.Sort(n.Numbers)
	var err error
	if n.Vectors, err = graph.NewVectors(len(n.Numbers), len(row)); err != nil {
		return joined, err
	}
	for i, number := range n.Numbers {
		if err := n.Vectors.Set(int32(i), rows[number]); err != nil {
			return joined, err
		}
		n.Fields = append(n.Fields, fields[number])
		n.Age, n.Popularity = append(n.Age, own[number][0]), append(n.Popularity, own[number][1])
	}
	for _, d := range all {
		i, _ := slices.BinarySearch(n.Numbers, d.source)
		j, _ := slices.BinarySearch(n.Numbers, d.target)
		p, from := joined.Train, d.evidence.Pairs
		p.Source, p.Target = append(p.Source, int32(i)), append(p.Target, int32(j))
		p.Linked, p.Weight = append(p.Linked, from.Linked[d.place]), append(p.Weight, from.Weight[d.place])
		p.Rate = append(p.Rate, from.Rate[d.place])
		if d.evidence.Exposure != nil {
			joined.Exposure = append(joined.Exposure, d.evidence.Exposure[d.place])
		}
	}
	return joined, c.call(call)
}

func (c *cutPopulation) Design(ctx context.Context, d PairDesign) (engine.Design, error) {
	out := &cutDesign{of: c, unit: d.Unit}
	for _, p := range c.pieces {
		design, seen, _, err := d.Over(ctx, engine.CPU{}, p)
		if err != nil {
			return nil, err
		}
		out.designs, out.seen = append(out.designs, design), append(out.seen, seen)
	}
	return out, c.call("Design")
}

func (c *cutPopulation) Tally(ctx context.Context, by engine.Predictor, floor float64) (*PairTally, error) {
	out := &PairTally{}
	for _, p := range c.pieces {
		here := by // with its parameters, for these nodes
		here.Propensity = must2(model.NewPropensity(fieldMatrixKind, p.Nodes, model.PropensityOptions{}))
		if covariates, ok := by.Propensity.(*model.Covariates); ok {
			_, terms := covariates.Inside()
			here.Propensity = must2(model.NewCovariates(here.Propensity, p.Nodes, terms...))
		}
		here.Link = must2(model.NewLink("diagonal", p.Nodes, model.LinkOptions{}))
		t, err := TallyPairs(ctx, engine.CPU{}, p, here, floor)
		if err != nil {
			return nil, err
		}
		out.Add(t)
	}
	return out, c.call("Tally")
}

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (c *cutPopulation) InDegrees(_ context.Context, nodes []int32) (*InDegrees, error) {
	out := CountInDegrees(c.pieces[0], nodes)
	for _, p := range c.pieces[1:] {
		if err := out.Add(CountInDegrees(p, nodes)); err != nil {
			return nil, err
		}
	}
	return out, c.call("InDegrees")
}

// cutDesign adds up the designs of the pieces.
type cutDesign struct {
	engine.Design
	of      *cutPopulation
	unit    float64
	designs []engine.Design
	seen    []engine.Outcomes
}

func (d *cutDesign) Unit() float64 { return d.unit }
func (d *cutDesign) Close() error  { return nil }

func (d *cutDesign) Observe(ctx context.Context, o engine.Outcomes) (engine.LogLikelihood, error) {
	out := &cutLikelihood{of: d.of}
	for k, design := range d.designs {
		seen := d.seen[k]
		if o.Root != nil {
			leverage, err := design.Leverage(ctx, *o.Root)
			if err != nil {
				return nil, err
			}
			seen.Leverage = leverage
		}
		l, err := design.Observe(ctx, seen)
		if err != nil {
			return nil, err
		}
		out.parts = append(out.parts, l)
	}
	return out, nil
}

type cutLikelihood struct {
	engine.LogLikelihood
	of    *cutPopulation
	parts []engine.LogLikelihood
}

func (l *cutLikelihood) Close() error { return nil }

func (l *cutLikelihood) Value(ctx context.Context, theta, grad []float64) (sum float64, err error) {
	clear(grad)
	own := make([]float64, len(grad))
	for _, part := range l.parts {
		value, err := part.Value(ctx, theta, own)
		if err != nil {
			return 0, err
		}
		sum += value
		for i, x := range own {
			grad[i] += x
		}
	}
	return sum, l.of.call("Value")
}

func (l *cutLikelihood) Information(ctx context.Context, theta []float64) ([]float64, error) {
	out := make([]float64, len(theta)*len(theta))
	for _, part := range l.parts {
		own, err := part.Information(ctx, theta)
		if err != nil {
			return nil, err
		}
		for i, x := range own {
			out[i] += x
		}
	}
	return out, l.of.call("Information")
}

// populationTrial is a world whose pairs are too many by the settings.
func populationTrial(t *testing.T, logged float64) (sample.Problem, Settings) {
	t.Helper()
	s := setup{plan: world.Saturated(), pairs: 30_000, dim: 12, logged: logged}
	s.plan.Seed = 4
	w := must(world.New(t.Context(), world.Settings{Nodes: 1500, Dim: s.dim, Fields: world.EvenFields(4),
		Scenario: s.plan}))(t)
	w, train, _, _ := s.pairsOf(t, w)
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs, Exposure: exposures(train, logged)}
	p.Nodes.Age = make([]float32, p.Nodes.Len())
	for i := range p.Nodes.Age {
		p.Nodes.Age[i] = float32(i % 40)
	}
	p.Nodes.Popularity = model.LogInDegree(p.Nodes.Len(), linkTargets(p))
	order := sample.Indices(p.Train.Len(), func(int) bool { return true })
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.Train.Source[a], p.Train.Source[b]),
			cmp.Compare(p.Train.Target[a], p.Train.Target[b]))
	})
	sorted := p.Training().At(order)
	p.Train, p.Exposure = sorted.Pairs, sorted.Exposure
	kept := p.Train.Len() * 9 / 10
	return p, Settings{Starts: []float64{.3, .9}, Seed: 3, Doctor: FullDoctor, Replicates: 3,
		mostBytes: 4 * (s.dim + 1) * kept, mostPairs: kept / 2}
}

func farApart[T float32 | float64](a, b []T) (off float64) {
	var size float64
	for i := range a {
		off += math.Pow(float64(a[i])-float64(b[i]), 2)
		size += math.Pow(float64(b[i]), 2)
	}
	return math.Sqrt(off / max(size, 1e-300))
}

// A fit to pairs that are elsewhere ends where a fit to the same pairs in memory does, with the same class, tests and
// claims, however they are cut.
func TestPopulation(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits by way of a part")
	for name, c := range map[string]struct {
		exposure string
		logged   float64
	}{"as the tests decide": {}, "by fields, logged": {"fields", .02},
		"by all": {"fields+text+popularity+age", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := populationTrial(t, c.logged)
			s.Exposure = c.exposure
			want := mustFit(t, p, s)
			for _, pieces := range []int{1, 7} {
				got := must(FitPopulation(t.Context(), cutProblem(t, p, pieces), s))(t)
				if off := max(farApart(got.LinkParams, want.LinkParams),
					farApart(got.PropensityParams, want.PropensityParams)); off > 1e-6 {
					t.Errorf("%d pieces: parameters off by %.2g", pieces, off)
				}
				a, b := got.Findings, want.Findings
				if a.Class != b.Class || a.Exposure != b.Exposure || !slices.EqualFunc(a.Tests, b.Tests,
					func(x, y Refutation) bool { return x.Of == y.Of && x.Refuted == y.Refuted }) {
					t.Errorf("%d pieces: class %s, tests %+v; in memory %s, %+v", pieces, a.Class, a.Tests, b.Class,
						b.Tests)
				}
				stay := func(set *ClaimSet) (names []string) {
					for _, m := range set.Members {
						if m.Stays {
							names = append(names, m.Alternative.String())
						}
					}
					return names
				}
				if !slices.Equal(stay(a.Set), stay(b.Set)) ||
					farApart([]float64{a.Set.MeanLink.Low, a.Set.MeanLink.High}, []float64{b.Set.MeanLink.Low,
						b.Set.MeanLink.High}) > 1e-5 {
					t.Errorf("%d pieces: set %+v, in memory %+v", pieces, a.Set.MeanLink, b.Set.MeanLink)
				}
				if x, y := a.Support, b.Support; x.Pairs != y.Pairs || x.Sources != y.Sources || x.Links != y.Links ||
					x.Logged != y.Logged || x.Examined != y.Examined || len(a.Cells) != len(b.Cells) {
					t.Errorf("%d pieces: support %+v, in memory %+v", pieces, x, y)
				}
				for i, cell := range a.Cells {
					if other := b.Cells[i]; math.Abs(cell.Propensity/other.Propensity-1) > 1e-5 ||
						cell.Pairs != other.Pairs {
						t.Errorf("%d pieces: field pair %+v, in memory %+v", pieces, cell, other)
					}
				}
				numbers := func(s Scale) []float64 { return []float64{s.Value, s.Error, s.Bias, s.Sampling} }
				if off := farApart(numbers(a.MeanLink), numbers(b.MeanLink)); off > 1e-5 {
					t.Errorf("%d pieces: mean ŷ %+v, in memory %+v", pieces, a.MeanLink, b.MeanLink)
				}
			}
		})
	}
}

// Few enough pairs are drawn, all of them, and what is learned has the same bits.
func TestPopulationInHand(t *testing.T) {
	t.Parallel()
	p, s := populationTrial(t, 0)
	s.mostBytes, s.Doctor = 0, QuickDoctor
	want, c := mustFit(t, p, s), cutProblem(t, p, 3)
	got := must(FitPopulation(t.Context(), c, s))(t)
	if !slices.Equal(got.LinkParams, want.LinkParams) || !slices.Equal(got.PropensityParams, want.PropensityParams) ||
		!reflect.DeepEqual(got.Findings, want.Findings) {
		t.Error("another fit")
	}
	if m := must(got.Model())(t); m.DataChecksum != "pieces" || c.calls["Value"] > 0 {
		t.Errorf("checksum %q, calls %v", m.DataChecksum, c.calls)
	}
	s.Method = "mle"
	if _, err := FitPopulation(t.Context(), c, s); !errors.Is(err, ErrSetting) {
		t.Errorf("another method: %v", err)
	}
}

// A fit whose cluster fails resumes and ends in the same bits.
func TestPopulationResumes(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits by way of a part")
	p, s := populationTrial(t, 0)
	s.Doctor = QuickDoctor
	c := cutProblem(t, p, 3)
	want := must(FitPopulation(t.Context(), c, s))(t)
	s.Checkpoint = Checkpoint{Path: t.TempDir() + "/fit.checkpoint", Every: 1}
	for _, fault := range []string{"Value", "Information", "Tally"} {
		c.fault = fault
		if _, err := FitPopulation(t.Context(), c, s); !errors.Is(err, errGone) {
			t.Fatalf("a cluster that fails at %s: %v", fault, err)
		}
		s.Checkpoint.Resume = true
	}
	c.fault = ""
	got := must(FitPopulation(t.Context(), c, s))(t)
	if !slices.Equal(got.LinkParams, want.LinkParams) || !slices.Equal(got.PropensityParams, want.PropensityParams) ||
		!reflect.DeepEqual(got.Findings, want.Findings) {
		t.Error("a resumed fit is another")
	}
}
