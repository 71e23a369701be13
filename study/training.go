package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// FieldKind is how the fields of a world's nodes depend on their texts.
type FieldKind string

const (
	// Random fields have nothing to do with the texts and are equally large, as in the authors' notebook.
	Random FieldKind = "random"
	// Tied fields are those of the texts and as large as in the paper's first dataset: half of them have
	// fewer than one node in a hundred.
	Tied FieldKind = "tied"
	// Planted fields are those of a graph of the caller's own.
	Planted FieldKind = "planted"
)

// Method is a way to train.
type Method struct {
	Name   string `json:"name"`             // of its row
	Method string `json:"method"`           // of package fit; "" for the oracle, which is the truth itself
	Preset string `json:"preset,omitempty"` // "" means that of the options
	Known  bool   `json:"known,omitempty"`  // the model is given the true π

	Optimiser string `json:"optimiser,omitempty"` // "" means that of the preset

	// Share is the weight of the risk, if the method has one, beside the likelihood: λ_R/λ_L. 0
	// means the preset's; that of the preset safe is a twentieth, with which most schemes come
	// close to plain likelihood.
	Share float64 `json:"share,omitempty"`
}

// Outcome is one training, judged by the truth on pairs that it has not seen.
type Outcome struct {
	Fields FieldKind `json:"fields"`
	Seed   uint64    `json:"seed"`
	Method Method    `json:"method"`

	AUC           figure.Value `json:"auc"` // against o′, as are the next six
	AP            figure.Value `json:"averagePrecision"`
	ThresholdedAP figure.Value `json:"thresholdedAP"` // the "MAP" of the paper's tables
	Precision     figure.Value `json:"precision"`     // at ŷ ≥ ½, as are the next three
	Recall        figure.Value `json:"recall"`
	F1            figure.Value `json:"f1"`
	Accuracy      figure.Value `json:"accuracy"`
	Risk          figure.Value `json:"risk"` // true risk: log-loss against y
	MeanLink      figure.Value `json:"meanLink"`
	MeanTruth     figure.Value `json:"meanTruth"` // of y

	// PropensityError is the mean of |π̂ − π|/π over all ordered pairs of fields, the paper's measure, and
	// WeightedError the mean over pairs of nodes.
	PropensityError figure.Value `json:"propensityError"`
	WeightedError   figure.Value `json:"weightedError"`

	// Estimates are estimates of the true risk from the observed links and the model's own ŷ and π̂.
	Estimates RiskEstimates `json:"estimates"`

	// Propensities are π̂ by the source's field and then the target's, nil where there are none; Truth is π likewise.
	Propensities figure.Values `json:"propensities,omitempty"`
	Truth        figure.Values `json:"truth,omitempty"`

	Epochs   int      `json:"epochs,omitempty"`
	Seconds  float64  `json:"seconds"` // of training, on one thread
	Warnings []string `json:"warnings,omitempty"`
	Failed   string   `json:"failed,omitempty"` // why all else is empty: training diverged

	learned *learned // nil where there is nothing: the oracle
}

// learned is what a training keeps for studies that judge with it. It holds no world: a study that judges later
// generates the same world again.
type learned struct {
	link       string // the kind of the link model
	options    model.LinkOptions
	params     []float32
	propensity []float32      // logits of a field matrix; nil for other kinds
	posterior  *fit.Posterior // of bayes
	fields     []string       // in the order of Outcome.Propensities
}

// missing is a number that could not be computed.
var missing = figure.Value(math.NaN())

var missingEstimates = RiskEstimates{missing, missing, missing, missing}

// RiskEstimates are the estimates of one risk.
type RiskEstimates struct {
	Naive figure.Value `json:"naive"`
	W     figure.Value `json:"w"`
	PU    figure.Value `json:"pu"`
	AP    figure.Value `json:"ap"`
}

// training names a training.
type training struct {
	fields FieldKind
	seed   uint64
	method Method
}

// cross returns a training for every kind of fields, seed and method, in this order.
func cross(fields []FieldKind, seeds []uint64, methods []Method) []training {
	var all []training
	for _, f := range fields {
		for _, seed := range seeds {
			for _, m := range methods {
				all = append(all, training{f, seed, m})
			}
		}
	}
	return all
}

// trainings keeps the outcomes of trainings, so that studies share them.
type trainings struct {
	size size
	data *graph.Graph // on which truths are planted; nil generates worlds

	direction  sync.Once // of the planted w
	weights    []float32
	undirected error

	done  map[training]*Outcome
	ready map[subjectKey]*subject
}

// size is how large worlds and samples are.
type size struct {
	nodes, dim, fields      int
	spectrum                float64 // of the vectors
	pairs, validation, test int
}

func newTrainings(o Options) *trainings {
	s := size{nodes: 26_000, dim: 768, fields: 19, spectrum: world.TextSpectrum, pairs: 32_000, validation: 3_200,
		test: 100_000}
	if o.Quick {
		s = size{nodes: 1_000, dim: 16, fields: 4, spectrum: world.TextSpectrum, pairs: 4_000, validation: 400,
			test: 10_000}
	}
	t := &trainings{done: make(map[training]*Outcome), ready: make(map[subjectKey]*subject)}
	if len(o.Networks) > 0 {
		t.data = o.Networks[0].Graph
	}
	if g := t.data; g != nil {
		pairs := int(min(g.PairCount()/4, math.MaxInt32)) // a third of them are for training
		s.nodes, s.dim, s.fields, s.spectrum = g.Len(), g.Vectors().Dim(), g.FieldCount()-1, 0
		s.pairs, s.validation, s.test = min(s.pairs, pairs), min(s.validation, pairs/2), min(s.test, pairs)
	}
	t.size = s
	return t
}

// fewestPlanted is the least number of nodes that a truth is planted on.
const fewestPlanted = 100

// kinds are the kinds of fields that worlds come with.
func (l *lab) kinds() []FieldKind {
	if len(l.Networks) > 0 {
		return []FieldKind{Planted}
	}
	return []FieldKind{Random, Tied}
}

// world makes the world of a kind and a seed.
func (t *trainings) world(ctx context.Context, k subjectKey, threads int) (*world.World, error) {
	if t.data == nil {
		return world.New(ctx, t.size.settings(k, threads))
	}
	t.direction.Do(func() { t.weights, t.undirected = linkWeights(ctx, t.data, threads) })
	if t.undirected != nil {
		return nil, t.undirected
	}
	plan := world.Saturated()
	plan.Seed, plan.Threads = k.seed, threads
	return world.Plant(ctx, t.data, t.weights, plan)
}

// weightsOf returns the weights of a model that is fitted to a graph's own links; nil where there are none.
func linkWeights(ctx context.Context, g *graph.Graph, threads int) ([]float32, error) {
	if g.LinkCount() == 0 {
		return nil, nil
	}
	pairs, _, err := graph.Sample(g, graph.Universe{}, graph.SampleOptions{PerLink: 4, Src: rand.NewPCG(1, 1)})
	if err != nil {
		return nil, err
	}
	r, err := fit.Fit(ctx, sample.Problem{Nodes: model.NodesOf(g), Train: pairs},
		fit.Settings{Method: "naive", Seed: 1, Threads: threads})
	if err != nil {
		return nil, fmt.Errorf("the link model of the data: %w", err)
	}
	return r.LinkParams[:g.Vectors().Dim()], nil
}

// settings is the world of a kind and a seed.
func (s size) settings(k subjectKey, threads int) world.Settings {
	w := world.Settings{Nodes: s.nodes, Dim: s.dim, Fields: world.EvenFields(s.fields), Spectrum: s.spectrum,
		Scenario: world.Saturated()}
	if k.fields == Random {
		w.RandomFields = true
	} else if all := world.FieldsOfStudy(); s.fields == len(all) {
		w.Fields = all
	}
	w.Seed, w.Threads = k.seed, threads
	return w
}

// effective is the effective number of dimensions that products of vectors vary in.
func (s size) effective() float64 {
	var sum, squares float64
	for k := range s.dim {
		variance := math.Pow(float64(k+1), -4*s.spectrum)
		sum, squares = sum+variance, squares+variance*variance
	}
	return sum * sum / squares
}

func (t *trainings) close() {
	for _, s := range t.ready {
		s.close()
	}
}

// train returns the outcomes of trainings, in their order, and trains only those that were not trained before. Each
// runs on one thread, beside others.
func (l *lab) train(ctx context.Context, wanted []training) ([]*Outcome, error) {
	t := l.trainings
	waiting := make(map[subjectKey]int)
	var todo []training
	for _, w := range wanted {
		if t.done[w] == nil && !slices.Contains(todo, w) {
			todo = append(todo, w)
			waiting[w.key()]++
		}
	}
	outcomes := make([]*Outcome, len(todo))
	var mu sync.Mutex // of waiting and ready
	tasks := make([]task, len(todo))
	for i, w := range todo {
		tasks[i] = task{name: w.String(), cost: w.cost(), do: func(ctx context.Context) (err error) {
			mu.Lock()
			s := t.ready[w.key()]
			if s == nil {
				s = &subject{key: w.key()}
				t.ready[w.key()] = s
			}
			mu.Unlock()
			if err := s.prepare(ctx, t, l.Threads); err != nil {
				return err
			}
			outcomes[i], err = s.train(ctx, w.method, l.Preset)
			mu.Lock()
			defer mu.Unlock()
			if waiting[s.key]--; waiting[s.key] == 0 {
				s.close()
				delete(t.ready, s.key)
			}
			return err
		}}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	for i, w := range todo {
		t.done[w] = outcomes[i]
	}
	out := make([]*Outcome, len(wanted))
	for i, w := range wanted {
		out[i] = t.done[w]
	}
	return out, nil
}

func (t training) key() subjectKey { return subjectKey{t.fields, t.seed} }

func (t training) String() string {
	return fmt.Sprintf("%s, %s fields, seed %d", t.method.Name, t.fields, t.seed)
}

// cost is the approximate time in seconds at the paper's size.
func (t training) cost() float64 {
	switch m := t.method; {
	case m.Method == "" || m.Method == "cosine":
		return .2
	case m.Method == "bayes" && m.Known:
		return 4
	case m.Method == "bayes", m.Optimiser == "lbfgs":
		return 11
	case m.Preset == "paper":
		return 2
	}
	return 1
}

// subjectKey names a world.
type subjectKey struct {
	fields FieldKind
	seed   uint64
}

// subject is a world with its samples, generated when it is first needed.
type subject struct {
	key    subjectKey
	once   sync.Once
	failed error

	world   *world.World
	problem sample.Problem
	test    *world.TruePairs
	known   []model.KnownExposure // the true π of every pair
	fields  int                   // with the unknown one

	borrowed bool // the vectors are the caller's
}

func (s *subject) prepare(ctx context.Context, t *trainings, threads int) error {
	s.once.Do(func() { s.failed = s.make(ctx, t, threads) })
	return s.failed
}

func (s *subject) make(ctx context.Context, t *trainings, threads int) error {
	w, err := t.world(ctx, s.key, threads)
	if err != nil {
		return err
	}
	z := t.size
	s.borrowed = t.data != nil
	s.world = w
	s.fields = w.Graph().FieldCount()
	var samples [3]*world.TruePairs
	for part, n := range []int{z.pairs, z.validation, z.test} { // no pair is in two of them
		if samples[part], err = w.Pairs(ctx, n, world.Draw{Part: part}); err != nil {
			return err
		}
		for k, i := range samples[part].Pairs.Source {
			s.known = append(s.known, model.KnownExposure{Source: i, Target: samples[part].Pairs.Target[k],
				Propensity: samples[part].Truth[k].Propensity})
		}
	}
	s.problem = sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: samples[0].Pairs, Validation: samples[1].Pairs}
	s.test = samples[2]
	return nil
}

func (s *subject) close() {
	if s.world != nil && !s.borrowed {
		s.world.Graph().Vectors().Close()
	}
}

// newOutcome is an outcome without numbers.
func newOutcome(t training) *Outcome {
	return &Outcome{
		Fields: t.fields, Seed: t.seed, Method: t.method, AUC: missing, AP: missing, ThresholdedAP: missing,
		Precision: missing, Recall: missing, F1: missing, Accuracy: missing, Risk: missing, MeanLink: missing,
		MeanTruth: missing, PropensityError: missing, WeightedError: missing, Estimates: missingEstimates,
	}
}

// train trains by a method and judges the model.
func (s *subject) train(ctx context.Context, m Method, preset string) (*Outcome, error) {
	o := newOutcome(training{s.key.fields, s.key.seed, m})
	var beliefs []risk.Belief
	var err error
	if m.Method == "" {
		beliefs, err = s.truth()
	} else {
		beliefs, err = s.fit(ctx, m, preset, o)
	}
	if err != nil || o.Failed != "" {
		return o, err
	}
	return o, s.judge(o, beliefs)
}

// truth is what the oracle believes about the test pairs.
func (s *subject) truth() ([]risk.Belief, error) {
	beliefs := make([]risk.Belief, len(s.test.Truth))
	for k, t := range s.test.Truth {
		var err error
		if beliefs[k], err = risk.FromProbabilities(t.Link, t.Propensity); err != nil {
			return nil, err
		}
	}
	return beliefs, nil
}

// fit trains and returns what the model believes about the test pairs.
func (s *subject) fit(ctx context.Context, m Method, preset string, o *Outcome) ([]risk.Belief, error) {
	settings := fit.Settings{Method: m.Method, Preset: preset, Seed: s.key.seed, Threads: 1, Replicates: -1,
		Optimiser: m.Optimiser, Doctor: fit.QuickDoctor} // the truth is known, and no table has a verdict
	if m.Preset != "" {
		settings.Preset = m.Preset
	}
	if m.Known {
		settings.Propensity, settings.PropensityOptions = "known", model.PropensityOptions{Exposures: s.known, Rest: .5}
	}
	filled, err := settings.WithDefaults()
	if err != nil {
		return nil, err
	}
	settings.Starts = filled.Starts[:1] // its model is the one that is kept
	settings.LambdaR = m.Share * filled.LambdaL
	began := time.Now()
	r, err := fit.Fit(ctx, s.problem, settings)
	o.Seconds = time.Since(began).Seconds()
	switch {
	case errors.Is(err, fit.ErrDiverged):
		o.Failed = err.Error()
		return nil, nil
	case err != nil:
		return nil, err
	}
	o.Epochs = len(r.Epochs)
	for _, w := range r.Warnings {
		o.Warnings = append(o.Warnings, w.Message)
	}
	o.learned = &learned{link: r.Link.Kind(), options: r.Settings.LinkOptions, params: r.LinkParams,
		posterior: r.Posterior, fields: s.problem.Nodes.FieldNames[graph.UnknownField+1:]}
	if matrix, ok := r.Propensity.(*model.FieldMatrix); ok {
		o.learned.propensity = r.PropensityParams
		s.comparePropensities(o, matrix, r.PropensityParams)
	}
	z, p, err := r.Judge().Logits(ctx, s.test.Pairs)
	if err != nil {
		return nil, err
	}
	beliefs := make([]risk.Belief, len(z))
	for k := range beliefs {
		if beliefs[k], err = risk.FromLogits(float64(z[k]), float64(p[k])); err != nil {
			o.Failed = fmt.Sprintf("the model's logits of pair %d: %v", k, err)
			return nil, nil
		}
	}
	return beliefs, nil
}

// comparePropensities compares π̂ with the truth. The unknown field has no nodes here.
func (s *subject) comparePropensities(o *Outcome, m *model.FieldMatrix, logits []float32) {
	truth := s.world.Propensities()
	var sum, weighted, count float64
	estimated := make([]float64, len(truth))
	for c, pi := range truth {
		estimated[c] = 1 / (1 + math.Exp(-float64(logits[c])))
		if c/s.fields == int(graph.UnknownField) || c%s.fields == int(graph.UnknownField) {
			continue
		}
		o.Truth, o.Propensities = append(o.Truth, pi), append(o.Propensities, estimated[c])
		sum += math.Abs(estimated[c]-pi) / pi
		count++
	}
	for k, i := range s.test.Pairs.Source {
		c := m.Cell(i, s.test.Pairs.Target[k])
		weighted += math.Abs(estimated[c]-truth[c]) / truth[c]
	}
	o.PropensityError, o.WeightedError = figure.Value(sum/count), figure.Value(weighted/float64(s.test.Pairs.Len()))
}

// judge compares beliefs about the test pairs with the truth.
func (s *subject) judge(o *Outcome, beliefs []risk.Belief) error {
	n := len(beliefs)
	scored := evaluate.Scored{Scores: make([]float64, n), Linked: s.test.Relevant}
	pairs := make([]risk.Pair, n)
	var link, truth risk.Sum
	for k, b := range beliefs {
		scored.Scores[k] = b.Link()
		pairs[k] = risk.Pair{Observation: s.test.Observation(k), Belief: b, Weight: 1,
			Source: int(s.test.Pairs.Source[k])}
		link.Add(b.Link())
		truth.Add(s.test.Truth[k].Link)
	}
	auc, err1 := scored.AUC()
	ap, err2 := scored.AveragePrecision()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	o.AUC, o.AP = figure.Value(auc), figure.Value(ap)
	if o.Method.Method == "cosine" { // ranks, and has no probabilities
		return nil
	}
	thresholded, err := scored.ThresholdedAP(.5)
	if err != nil {
		return err
	}
	confusion, err := scored.ConfusionAt(.5)
	if err != nil {
		return err
	}
	o.ThresholdedAP = figure.Value(thresholded)
	o.Precision, o.Recall, o.F1, o.Accuracy = valueOrMissing(confusion.Precision()), valueOrMissing(confusion.Recall()),
		valueOrMissing(confusion.F1()), valueOrMissing(confusion.Accuracy())
	o.MeanLink, o.MeanTruth = figure.Value(link.Value()/float64(n)), figure.Value(truth.Value()/float64(n))
	for _, e := range []struct {
		scheme risk.Scheme
		to     *figure.Value
	}{
		{risk.True{}, &o.Risk}, {risk.Naive{}, &o.Estimates.Naive}, {risk.W{}, &o.Estimates.W},
		{risk.PU{}, &o.Estimates.PU}, {risk.AP{}, &o.Estimates.AP},
	} {
		estimate, err := risk.Estimator{Scheme: e.scheme}.Estimate(pairs)
		*e.to = valueOrMissing(estimate.Value, err)
	}
	return nil
}

// valueOrMissing is the value of a metric, missing where it has an error.
func valueOrMissing(x float64, err error) figure.Value {
	if err != nil {
		return missing
	}
	return figure.Value(x)
}
