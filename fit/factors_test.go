package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// plantedShop is people and items with known relevance: z of rank 4 and with effects, and exposure by segment and
// category. Everyone is one of three segments and every item of four categories.
type plantedShop struct {
	people, items int
	nodes         model.Nodes
	z             []float64 // by person, then by item
	pairs         *graph.Pairs
	exposure      []risk.Exposure
}

func plantShop(t testing.TB, people, items int, seed uint64) *plantedShop {
	t.Helper()
	const rank = 4
	rng := rand.New(rand.NewPCG(seed, 77))
	s := &plantedShop{people: people, items: items, pairs: &graph.Pairs{}}
	normals := func(n int, deviation float64) []float64 {
		out := make([]float64, n)
		for k := range out {
			out[k] = deviation * rng.NormFloat64()
		}
		return out
	}
	u, v, activity, appeal := normals(people*rank, 1), normals(items*rank, 1), normals(people, .5), normals(items, .5)
	pi := make([]float64, 12)
	for k := range pi {
		pi[k] = .15 + .6*rng.Float64()
	}
	s.nodes = model.Nodes{FieldCount: 8}
	for i := range people {
		s.nodes.Fields = append(s.nodes.Fields, uint16(1+i%3))
		s.nodes.Sources = append(s.nodes.Sources, int32(i))
	}
	for j := range items {
		s.nodes.Fields = append(s.nodes.Fields, uint16(4+j%4))
		s.nodes.Targets = append(s.nodes.Targets, int32(people+j))
	}
	for i := range people {
		for j := range items {
			z := -1 + activity[i] + appeal[j] + dot(u[i*rank:(i+1)*rank], v[j*rank:(j+1)*rank])
			s.z = append(s.z, z)
			y, _ := kern.Sigmoid64(z)
			shown := rng.Float64() < pi[i%3*4+j%4]
			linked := rng.Float64() < y && shown
			p := s.pairs
			p.Source, p.Target = append(p.Source, int32(i)), append(p.Target, int32(people+j))
			p.Linked, p.Weight, p.Rate = append(p.Linked, linked), append(p.Weight, 1), append(p.Rate, 1)
			exposure := risk.Unexposed
			if shown {
				exposure = risk.Exposed
			}
			s.exposure = append(s.exposure, exposure)
		}
	}
	return s
}

// problem is all pairs, with the exposures that are known.
func (s *plantedShop) problem(known func(k int) bool) sample.Problem {
	p := sample.Problem{Nodes: s.nodes, Train: s.pairs}
	if known == nil {
		return p
	}
	p.Exposure = make([]risk.Exposure, len(s.exposure))
	for k, e := range s.exposure {
		if known(k) {
			p.Exposure[k] = e
		}
	}
	return p
}

// logits are what a link model says of all pairs.
func (s *plantedShop) logits(r *Result) []float64 {
	z := make([]float32, s.pairs.Len())
	r.Link.Logits(z, r.LinkParams, model.Batch{Sources: s.pairs.Source, Targets: s.pairs.Target})
	out := make([]float64, len(z))
	for k, x := range z {
		out[k] = float64(x)
	}
	return out
}

// auc is how often a relevant pair is ranked before an irrelevant one, by true relevance.
func (s *plantedShop) auc(by []float64) float64 {
	order := make([]int, len(by))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int {
		if by[a] < by[b] {
			return -1
		} else if by[a] > by[b] {
			return 1
		}
		return 0
	})
	var won, irrelevant, relevant float64
	for _, k := range order {
		y, rest := kern.Sigmoid64(s.z[k])
		won += y * irrelevant
		irrelevant += rest
		relevant += y
	}
	return won / (relevant * irrelevant)
}

func all(int) bool { return true }

// Factors recover a planted truth of rank 4, within gaps to the best possible that are a little
// above those of the first run.
func TestFactorsRecoverTheTruth(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 300, 100, 1)
	best := s.auc(s.z)
	for _, c := range []struct {
		method string
		known  func(int) bool
		ridge  float64 // 0: chosen
		gap    float64
	}{{"mle", nil, .25, .12}, {"mle", all, 1, .06}, {"shown", all, 0, .06}} {
		r := mustFit(t, s.problem(c.known), Settings{Method: c.method, Seed: 3, Ridge: c.ridge,
			LinkOptions: model.LinkOptions{Rank: 4}})
		got := s.auc(s.logits(r))
		t.Logf("%s, logged %v: AUC %.4f of %.4f, ridge %v", c.method, c.known != nil, got, best, r.Ridge)
		if r.Link.Kind() != "factors" || !(got > best-c.gap) {
			t.Errorf("%s, logged %v: AUC %.4f of %.4f with %s", c.method, c.known != nil, got, best, r.Link.Kind())
		}
	}
}

// Every method but bayes learns factors, by either optimiser, and gives the same bits on any number of threads.
func TestEveryMethodLearnsFactors(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 60, 30, 2)
	for name := range Methods() {
		for _, optimiser := range Optimisers() {
			settings := Settings{Method: name, Link: "factors", LinkOptions: model.LinkOptions{Rank: 2}, Seed: 1,
				Optimiser: optimiser, Ridge: 1, Adam: AdamSettings{Epochs: 6, Rate: .05}, Threads: 1}
			r, err := Fit(context.Background(), s.problem(all), settings)
			if name == "bayes" {
				if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), "mle") {
					t.Errorf("bayes: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", name, optimiser, err)
			}
			if auc := s.auc(s.logits(r)); auc < .6 && name != "cosine" {
				t.Errorf("%s, %s: AUC %.3f", name, optimiser, auc)
			}
			settings.Threads = 3
			if again := mustFit(t, s.problem(all), settings); !slices.Equal(again.LinkParams, r.LinkParams) ||
				!slices.Equal(again.PropensityParams, r.PropensityParams) {
				t.Errorf("%s, %s: other bits with three threads", name, optimiser)
			}
		}
	}
}

// Rounds side by side end where L-BFGS does, given time: with and without a log, vectors, a risk, and effects of
// exposure.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	tenth := func(k int) bool { return k%10 == 3 }
	for name, c := range map[string]struct {
		method, exposure string
		known            func(int) bool
		described        bool
	}{
		"naive":     {method: "naive"},
		"described": {method: "naive", described: true},
		"mle":       {method: "mle"},
		"tied":      {method: "mle", exposure: "fields+person+item"},
		"logged":    {method: "mle", known: tenth},
		"effects":   {method: "mle", known: tenth, exposure: "fields+person+item"},
		"shown":     {method: "shown", known: all},
		"rw":        {method: "rw", known: tenth},
		"dr":        {method: "dr", known: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := plantShop(t, 80, 40, 9)
			p := s.problem(c.known)
			if c.described {
				p.Nodes.Vectors = randomVectors(t, p.Nodes.Len(), 5)
			}
			settings := Settings{Method: c.method, Exposure: c.exposure, Seed: 4, Ridge: 1, Threads: 2,
				LinkOptions: model.LinkOptions{Rank: 2}, LBFGS: LBFGSSettings{Tolerance: 1e-9, Iterations: 3000}}
			settings.Optimiser = "lbfgs"
			want := mustFit(t, p, settings)
			settings.Optimiser = alternating
			got := mustFit(t, p, settings)
			if far := got.Objective.Total()/want.Objective.Total() - 1; far > 1e-4 {
				t.Errorf("the objective is %v after %d iterations, with L-BFGS %v after %d: %.2g more", got.Objective,
					got.Iterations, want.Objective, want.Iterations, far)
			}
		})
	}
}

// A trial with so tight a prior that factors vanish does not hold the looser ones after it at 0.
func TestSearchRevivesFactors(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 120, 60, 6)
	p := s.problem(all)
	p.Train, p.Validation, p.Exposure = &graph.Pairs{}, &graph.Pairs{}, nil
	for k := range s.pairs.Len() {
		part := p.Train
		if k%5 == 2 {
			part = p.Validation
		} else {
			p.Exposure = append(p.Exposure, s.exposure[k])
		}
		part.Source, part.Target = append(part.Source, s.pairs.Source[k]), append(part.Target, s.pairs.Target[k])
		part.Linked, part.Weight, part.Rate = append(part.Linked, s.pairs.Linked[k]), append(part.Weight, 1),
			append(part.Rate, 1)
	}
	settings := Settings{Method: "shown", Seed: 3, LinkOptions: model.LinkOptions{Rank: 4}}
	settings.Search = Search{Axes: []Axis{{"ridge", []float64{1e-6, 1}}}}
	r := mustFit(t, p, settings)
	if r.Ridge != 1 || r.Trials[0].Validation < r.Trials[1].Validation+.01 {
		t.Errorf("a ridge of %v is chosen of %v", r.Ridge, r.Trials)
	}
}

func randomVectors(t testing.TB, nodes, dim int) *graph.Vectors {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	vectors := must(graph.NewVectors(nodes, dim))(t)
	row := make([]float32, dim)
	for node := range int32(nodes) {
		for k := range row {
			row[k] = float32(rng.NormFloat64())
		}
		if err := vectors.Set(node, row); err != nil {
			t.Fatal(err)
		}
	}
	return vectors
}

// Of two sides the default is factors by mle; a method that needs another link model keeps it.
func TestDefaultsOfTwoSides(t *testing.T) {
	t.Parallel()
	two := model.Nodes{Sources: []int32{0}, Targets: []int32{1}}
	for _, c := range []struct {
		given        Settings
		nodes        model.Nodes
		link, method string
	}{
		{Settings{}, two, "factors", "mle"},
		{Settings{}, model.Nodes{}, "diagonal", "bayes"},
		{Settings{Method: "rw"}, two, "factors", "rw"},
		{Settings{Method: "bayes"}, two, "diagonal", "bayes"},
		{Settings{Method: "naive-field"}, two, "diagonal-field", "naive-field"},
		{Settings{Link: "diagonal"}, two, "diagonal", "bayes"},
		{Settings{Link: "factors"}, model.Nodes{}, "factors", "mle"},
	} {
		s := must(c.given.For(c.nodes).WithDefaults())(t)
		if s.Link != c.link || s.Method != c.method {
			t.Errorf("%+v: %s and %s", c.given, s.Link, s.Method)
		}
	}
}

// The method shown learns ŷ on its right scale from a complete log and from half of it, and π̂ is the log's.
func TestShownScale(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 300, 100, 5)
	truth := 0.
	for _, z := range s.z {
		y, _ := kern.Sigmoid64(z)
		truth += y / float64(len(s.z))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	half := func(int) bool { return rng.IntN(2) == 0 }
	for name, known := range map[string]func(int) bool{"complete": all, "half": half} {
		p := s.problem(known)
		r := mustFit(t, p, Settings{Method: "shown", Seed: 3, Ridge: 1, LinkOptions: model.LinkOptions{Rank: 4}})
		mean := 0.
		for _, z := range s.logits(r) {
			y, _ := kern.Sigmoid64(z)
			mean += y / float64(len(s.z))
		}
		if math.Abs(mean/truth-1) > .15 {
			t.Errorf("%s: mean ŷ is %.3f, truly %.3f", name, mean, truth)
		}
		for _, c := range r.Findings.Cells {
			shown, logged := 0., 0.
			for k, e := range p.Exposure {
				if e != risk.Unlogged && s.nodes.Fields[s.pairs.Source[k]] == c.Source &&
					s.nodes.Fields[s.pairs.Target[k]] == c.Target {
					if logged++; e == risk.Exposed {
						shown++
					}
				}
			}
			if math.Abs(c.Propensity-shown/logged) > .01 {
				t.Errorf("%s: π̂ is %.3f, logged %.3f", name, c.Propensity, shown/logged)
			}
		}
	}
}

func TestShownNeedsALog(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 20, 10, 2)
	onlyLinks := func(k int) bool { return s.pairs.Linked[k] || s.exposure[k] == risk.Unexposed }
	for _, known := range []func(int) bool{nil, onlyLinks} {
		if _, err := Fit(context.Background(), s.problem(known), Settings{Method: "shown"}); !errors.Is(err, ErrData) ||
			!strings.Contains(err.Error(), "logged as shown") {
			t.Errorf("%v", err)
		}
	}
}

// Where all shown pairs are in the sample and of the others a tenth, ŷ is on its scale and π̂ is that of all pairs.
func TestEveryShownIsWeighed(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 300, 100, 6)
	whole := s.problem(all)
	rng := rand.New(rand.NewPCG(8, 8))
	var places []int32
	for k, e := range whole.Exposure {
		if e == risk.Exposed || rng.IntN(10) == 0 {
			places = append(places, int32(k))
		}
	}
	part := whole.Training().At(places)
	p := sample.Problem{Nodes: s.nodes, Train: part.Pairs, Exposure: part.Exposure, EveryShown: true}
	var shown, truth, mean float64
	for k, e := range part.Exposure {
		if part.Pairs.Rate[k] = .1; e == risk.Unexposed {
			part.Pairs.Weight[k] = 10
		}
	}
	for k, e := range whole.Exposure {
		y, _ := kern.Sigmoid64(s.z[k])
		if truth += y; e == risk.Exposed {
			shown++
		}
	}
	r := mustFit(t, p, Settings{Method: "mle", Seed: 3, Ridge: 1, LinkOptions: model.LinkOptions{Rank: 4}})
	for _, z := range s.logits(r) {
		y, _ := kern.Sigmoid64(z)
		mean += y
	}
	if math.Abs(mean/truth-1) > .1 || s.auc(s.logits(r)) < s.auc(s.z)-.06 {
		t.Errorf("mean ŷ is %.3f of the true, AUC %.3f of %.3f", mean/truth, s.auc(s.logits(r)), s.auc(s.z))
	}
	logged := r.Findings.Logged[0]
	shown /= float64(len(whole.Exposure))
	if math.Abs(logged.Shown-shown) > .01 || math.Abs(logged.Expected-shown) > .02 {
		t.Errorf("%.3f were shown and %.3f expected, truly %.3f", logged.Shown, logged.Expected, shown)
	}
	if _, err := Fit(context.Background(), p, Settings{Method: "bayes"}); !errors.Is(err, ErrSetting) {
		t.Errorf("bayes: %v", err)
	}
}
