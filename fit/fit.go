package fit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// Result is a fitted link model and propensity model, with how they were found and how far they can be trusted.
type Result struct {
	Settings Settings // with everything filled in, and chosen where there was a search

	Link             model.LinkModel
	LinkParams       []float32
	Propensity       model.PropensityModel
	PropensityParams []float32

	Objective  engine.Parts // at the end, over up to 262,144 of the training pairs; of Settings.Exact over all pairs
	Speed      float64      // pairs per second of Adam's fastest epoch; 0 for others
	Validation float64      // mean −log likelihood of the validation pairs; 0 where none were needed
	Ridge      float64      // the prior variance of z that was chosen or learned; 0 if there is none
	Epochs     []Epoch      // of Adam
	Iterations int          // of L-BFGS, or rounds of bayes
	Searched   *ExactSearch // over all pairs, of Settings.Exact
	Starts     []Start      // where each start ended; the first is the result's
	Trials     []Trial      // of every point of Settings.Search
	Posterior  *Posterior
	Findings   *Findings // the doctor's
	Warnings   []risk.Warning

	problem      sample.Problem // that it was fitted to
	earlier      *earlier       // that it was refreshed from; nil where it was trained in full
	all          *elsewhere     // where its pairs are elsewhere; nil where they are the problem's
	levels       []float64      // by how much the level of π̂ and then of ŷ was moved, of factors; nil where it was not
	refuted      []Refutation
	alternatives []*alternativeFit
	compared     int                 // pairs that they were compared by
	members      []model.MemberModel // those that stay, as rankers of lists
	lists        *ListFindings
	replicated   *replicated // what factors are when they are learned again; nil where they are not
}

// Start is where training ended that began at one propensity.
type Start struct {
	Propensity float64 `json:"propensity"` // where it began
	Objective  float64 `json:"objective"`
	MeanLink   float64 `json:"meanLink"`  // weighted mean ŷ of the training pairs
	MeanSame   float64 `json:"meanSame"`  // weighted mean π̂ of pairs of one field; 0 if there are none
	MeanCross  float64 `json:"meanCross"` // and of two
}

// Fit learns both models from the pairs of a problem. The same problem, settings and machine
// kind give the same bits, whatever the number of threads.
//
// Settings that Settings.Search leaves open are chosen by the likelihood of the validation pairs.
// Training then starts from several propensities: the scale of π is weakly identified, and what the
// starts agree on can be trusted more.
func Fit(ctx context.Context, p sample.Problem, s Settings) (*Result, error) {
	return fitFrom(ctx, p, s, beginning{})
}

// beginning is what a fit begins with besides a problem and settings.
type beginning struct {
	earlier *earlier   // where an earlier fit ended; nil to begin anew
	all     *elsewhere // where the problem's pairs come from; nil where it is all there is
}

// fitFrom learns from the beginning, or from where an earlier fit ended.
func fitFrom(ctx context.Context, p sample.Problem, s Settings, at beginning) (*Result, error) {
	from := at.earlier
	s, err := s.For(p.Nodes).withLog(p.Exposure).WithDefaults()
	if err != nil {
		return nil, err
	}
	warnings, err := p.Validate(s.Threads)
	if err != nil {
		return nil, err
	}
	if p.EveryShown {
		if s.Method == "bayes" {
			return nil, fmt.Errorf("%w: bayes cannot weigh pairs, and all that were shown are in the sample; "+
				"sample them as others, or use mle", ErrSetting)
		}
		s.Sampling = engine.Weighted.String()
	}
	if !model.NeedsVectors(s.Link) {
		warnings = slices.DeleteFunc(warnings, func(w risk.Warning) bool { return w.Kind == sample.ZeroVectors })
	} else if p.Nodes.Vectors == nil {
		return nil, hint.Wrap(fmt.Errorf("%w: the nodes have no vectors, as the link model %s needs", ErrData, s.Link),
			"encode their texts first, or set %v to %s, with mle or another method than bayes", hint.Setting("link"),
			factorsKind)
	}
	if err := checkExact(p, s); err != nil {
		return nil, err
	}
	m, err := s.method()
	if err != nil {
		return nil, err
	}
	link, err := model.NewLink(s.Link, p.Nodes, s.LinkOptions)
	if err != nil {
		return nil, err
	}
	propensity, err := model.NewPropensity(s.Propensity, p.Nodes, s.PropensityOptions)
	if err != nil {
		return nil, err
	}
	r := &Result{problem: p, Settings: s, Link: link, Propensity: propensity, Warnings: warnings, earlier: from,
		all: at.all}
	if from != nil {
		if err := from.check(r, m); err != nil {
			return nil, err
		}
	}
	recorder, doubts, err := newRecorder(p, s, at)
	if err != nil {
		return nil, err
	}
	r.Warnings = append(r.Warnings, doubts...)
	switch {
	case m.untrained:
		r.LinkParams, r.PropensityParams = make([]float32, link.Size()), make([]float32, propensity.Size())
		link.Start(r.LinkParams, rand.NewPCG(s.Seed, 0))
		propensity.StartAt(r.PropensityParams, model.StartPropensity, rand.NewPCG(s.Seed, 1))
	case m.bayes:
		err = fitBayes(ctx, p, r, recorder)
	default:
		err = fitObjective(ctx, p, m, r, recorder)
	}
	if err == nil {
		r.Findings, err = Diagnose(ctx, p, r)
	}
	if err := recorder.close(ctx, r, err); err != nil {
		return nil, err
	}
	r.warn()
	r.Warnings = append(r.Warnings, r.Findings.warnings()...)
	return r, nil
}

// fitObjective trains by an objective: every method but bayes.
func fitObjective(ctx context.Context, p sample.Problem, m method, r *Result, recorder *recorder) error {
	s := r.Settings
	if m.risk == engine.RiskDR && !slices.ContainsFunc(p.Exposure,
		func(e risk.Exposure) bool { return e != risk.Unlogged }) {
		return fmt.Errorf("%w: method dr needs pairs whose exposure is logged; log some, or use mle", ErrData)
	}
	t := &training{ctx: ctx, problem: p, method: m, result: r, settings: s, recorder: recorder}
	if m.shown {
		var err error
		if t.problem.Train, err = shownPairs(p); err != nil {
			return err
		}
	}
	if err := t.plan(); err != nil {
		return err
	}
	starts := s.Starts
	if r.Propensity.Size() == 0 || m.shown || r.earlier != nil { // the log alone says what π̂ is, or an earlier fit
		starts = starts[:min(1, len(starts))]
	}
	if len(starts) == 0 {
		starts = []float64{model.StartPropensity}
	}
	if err := recorder.begin(t); err != nil {
		return err
	}
	if err := t.learnLog(); err != nil {
		return err
	}
	if len(r.Starts) == 0 {
		if err := t.search(starts[0]); err != nil {
			return err
		}
	}
	for i := len(r.Starts); i < len(starts); i++ {
		start := starts[i]
		t.phase = "training"
		if len(starts) > 1 {
			t.phase = fmt.Sprintf("start %d of %d, π̂ = %g", i+1, len(starts), start)
		}
		run, err := t.from(start, false)
		if err != nil {
			return err
		}
		if run, err = t.level(t.objective, run); err != nil {
			return err
		}
		o, exact := t.objective, engine.Parts{}
		parts, err := s.engine().Gradient(ctx, thinned(o, describedPairs), run.params, nil)
		if err != nil {
			return err
		}
		link, propensity := o.Split(run.params)
		summary, err := describe(ctx, s.engine(), p, engine.Predictor{Link: r.Link, LinkParams: link,
			Propensity: r.Propensity, PropensityParams: propensity})
		if err != nil {
			return err
		}
		summary.Propensity, summary.Objective = start, parts.Total()
		if s.Exact && i == 0 { // starts are compared by what the sample says
			if run, exact, err = t.overEvery(run); err != nil {
				return err
			}
			link, propensity = o.Split(run.params)
		}
		r.Starts = append(r.Starts, summary)
		if i == 0 {
			r.Objective, r.Epochs, r.Iterations = cmp.Or(exact, parts), run.epochs, run.iterations
			r.Searched = run.searched
			r.LinkParams, r.PropensityParams, r.levels = link, propensity, run.levels
			if run.epochs != nil {
				r.Validation = run.validation
			}
		}
		recorder.settle(t)
	}
	return t.replicate()
}

// training is one call of Fit.
type training struct {
	ctx       context.Context
	problem   sample.Problem
	method    method
	result    *Result
	settings  Settings             // before the search
	points    []map[string]float64 // to try
	recorder  *recorder
	phase     string
	using     Settings          // those in use, of a trial or the chosen
	objective *engine.Objective // under them, over all training pairs

	// Where the last trial and the best ended, for training side by side to begin there; nil where there was none.
	last, best []float32
	logAlone   []float64 // what the log alone says of exposure, of factors; nil where that is not known
}

func (t *training) keep(c *checkpoint) {
	t.result.keep(c)
	var trials []float64
	for _, trial := range t.result.Trials {
		diverged := 0.
		if trial.Diverged {
			diverged = 1
		}
		trials = append(trials, trial.Validation, float64(trial.Steps), diverged)
	}
	put(c, "search.trials", trials)
	if t.settings.Optimiser == alternating {
		put(c, "search.last", t.last)
		put(c, "search.best", t.best)
	}
	if r := t.result.replicated; r != nil {
		put(c, "result.replicated", slices.Concat(r.values...))
	}
	if t.result.levels != nil {
		put(c, "result.levels", t.result.levels)
	}
}

func (t *training) restore(c *checkpoint) {
	trials := numbers[float64](c, "search.trials", -1)
	if len(trials)%3 != 0 || len(trials)/3 > len(t.points) {
		c.fail("%d numbers of trials for %d points of the search", len(trials), len(t.points))
		return
	}
	if t.settings.Optimiser == alternating {
		t.last, t.best = numbers[float32](c, "search.last", -1), numbers[float32](c, "search.best", -1)
	}
	t.result.Trials = nil
	for v := range slices.Chunk(trials, 3) {
		t.result.Trials = append(t.result.Trials, Trial{Values: t.points[len(t.result.Trials)], Validation: v[0],
			Steps: int(v[1]), Diverged: v[2] == 1})
	}
	if len(t.points) < 2 || len(t.result.Trials) == len(t.points) {
		if err := t.choose(); err != nil { // before the parameters, which are of the chosen models
			c.fail("%v", err)
			return
		}
	}
	t.result.restore(c)
	if _, has := c.file.Tensor(c.scope + "result.levels"); has {
		t.result.levels = numbers[float64](c, "result.levels", 2)
	}
	if len(t.result.Starts) > 0 && t.replicates() {
		t.problemCells()
		r := t.result.replicated
		r.values = slices.Collect(slices.Chunk(numbers[float64](c, "result.replicated", -1), 1+len(r.cells)))
	}
}

// use makes the objective under some settings.
func (t *training) use(s Settings) error {
	link := t.result.Link
	if s.LinkOptions != t.settings.LinkOptions {
		var err error
		if link, err = model.NewLink(s.Link, t.problem.Nodes, s.LinkOptions); err != nil {
			return err
		}
	}
	o, err := s.objective(t.method, link, t.result.Propensity)
	if err != nil {
		return err
	}
	o.Pairs, o.Exposure = t.problem.Train, t.problem.Exposure
	square := MeanSquare(o.Link, o.Pairs)
	o.Scale = scaleFor(o, square)
	if ofFactors(s.Link) && s.Optimiser != alternating { // which has no use for it
		o.Scale = factorScale(o, square, s.Ridge)
	}
	t.believe(o)
	o.Precision = precisionFor(o, square, s.Ridge, s.LambdaL, standFor(o, o.Pairs.Len()))
	t.using, t.objective = s, o
	return nil
}

// objective returns what a method minimises under the settings, as yet without pairs, scales and prior.
func (s Settings) objective(m method, link model.LinkModel, propensity model.PropensityModel) (*engine.Objective,
	error) {
	likelihood, err := s.likelihood()
	if err != nil {
		return nil, err
	}
	o := &engine.Objective{
		Link: link, Propensity: propensity,
		LambdaL: s.LambdaL, LambdaR: max(s.LambdaR, 0), Likelihood: likelihood, Risk: m.risk, Floor: max(s.Floor, 0),
		EvenRisk: s.EvenRisk == On,
		// AP's masses are probabilities and bounded; those of the others are not.
		Held: s.Through != On && m.risk != engine.RiskAP, ShownOnly: m.shown,
	}
	if o.LambdaR == 0 {
		o.Risk = engine.NoRisk
	}
	if o.Risk == engine.OtherRisk {
		scheme, err := risk.Lookup(s.Method)
		if err != nil {
			return nil, err
		}
		o.Estimator = risk.Estimator{Scheme: scheme}
	}
	if o.Size() == 0 {
		return nil, fmt.Errorf("%w: neither model has parameters", ErrSetting)
	}
	return o, nil
}

// run is where training from one start ended.
type run struct {
	params     []float32
	validation float64 // where there were validation pairs
	epochs     []Epoch // of Adam
	iterations int     // of L-BFGS
	memory     []curvature
	searched   *ExactSearch // over all pairs
	levels     []float64    // by how much its level was moved; nil where it was not
}

// started returns the parameters to start from.
func started(o *engine.Objective, at float64, seed uint64) []float32 {
	params := make([]float32, o.Size())
	link, propensity := o.Split(params)
	o.Link.Start(link, rand.NewPCG(seed, 0))
	o.Propensity.StartAt(propensity, at, rand.NewPCG(seed, 1))
	return params
}

// thinned returns the objective over about most of its pairs, drawn at random, if there are more.
func thinned(o *engine.Objective, most int) *engine.Objective {
	if o.Pairs.Len() <= most {
		return o
	}
	fewer := *o
	part := sample.Evidence{Pairs: o.Pairs, Exposure: o.Exposure}.At(sample.Thin(o.Pairs.Len(), most, 0))
	fewer.Pairs, fewer.Exposure = part.Pairs, part.Exposure
	return &fewer
}

// sizeOf returns the expected size of parameter i.
func sizeOf(o *engine.Objective, i int) float64 {
	if o.Scale == nil {
		return 1
	}
	return o.Scale[i]
}

// from trains from a start. A trial leaves the validation pairs out, to be judged by them; so does
// Adam always, which stops by them.
func (t *training) from(start float64, trial bool) (run, error) {
	s, o := t.using, *t.objective
	var judge *engine.Objective
	var held sample.Holdout
	trained := o.Pairs.Len()
	if trial || s.Optimiser == "adam" {
		var validation sample.Evidence
		validation, held = t.validation()
		if validation.Pairs != nil {
			judged := o
			judged.Pairs, judged.Exposure, judged.Risk, judged.Precision = validation.Pairs, nil, engine.NoRisk, nil
			if o.ShownOnly || t.problem.EveryShown {
				judged.Exposure = validation.Exposure
			}
			judge = &judged
		}
		if held != nil {
			trained -= validation.Pairs.Len()
		}
		if s.Optimiser != "adam" { // which leaves them out where they are
			rest := t.problem.TrainingWithout(held)
			o.Pairs, o.Exposure = rest.Pairs, rest.Exposure
		}
		o.Precision = precisionFor(&o, MeanSquare(o.Link, o.Pairs), s.Ridge, s.LambdaL, standFor(&o, trained))
	}
	params, err := t.begin(&o, start, trial)
	if err != nil {
		return run{}, err
	}
	out := run{params: params}
	if s.Optimiser == "adam" {
		adam := s.Adam
		adam.Seed = s.Seed
		if t.result.earlier != nil {
			adam = adam.refreshing()
		}
		trainer := &trainer{engine: s.engine(), objective: &o, held: held, validation: judge, settings: adam,
			state: newAdamState(&o, out.params, adam.Rate), progress: t.settings.Progress, phase: t.phase,
			recorder: t.recorder}
		err := trainer.train(t.ctx)
		t.result.Speed = max(t.result.Speed, trainer.speed)
		out.epochs = trainer.state.history
		if judge != nil {
			out.validation = trainer.state.bestLoss
		}
		return out, err
	}
	if out, err = t.minimise(&o, out); err != nil {
		return out, err
	}
	return t.judged(out, judge)
}

// minimise moves the parameters of a run to a minimum of an objective over all of its pairs.
func (t *training) minimise(o *engine.Objective, out run) (run, error) {
	s := t.using
	if s.Optimiser == alternating {
		r := &rounds{engine: s.engine(), objective: o, params: out.params, settings: s.LBFGS, calm: 2,
			report: t.report(o, mostRounds), recorder: t.recorder}
		if t.result.earlier != nil {
			r.settings.Iterations, r.calm = min(r.settings.Iterations, refreshRounds), 1
		}
		reached, err := r.train(t.ctx)
		if out.iterations = r.round; err != nil || reached {
			return out, err
		}
		o.Scale = factorScale(o, MeanSquare(o.Link, o.Pairs), s.Ridge)
	}
	search := lbfgs{objective: o, params: out.params, settings: s.LBFGS}
	switch {
	case t.approaches(o):
		search.settings.Tolerance = hither
	case s.Exact:
		search.settings.Tolerance *= coarser
	}
	l := t.equipped(search)
	err := l.train(t.ctx)
	out.iterations, out.memory = out.iterations+l.iteration, l.memory
	if err == nil && t.approaches(o) {
		return t.approach(o, out)
	}
	return out, err
}

// begin returns the parameters to start from. Side by side, a trial goes on from the last, and training from the best.
func (t *training) begin(o *engine.Objective, start float64, trial bool) ([]float32, error) {
	from := t.best
	if trial {
		from = t.last
	}
	if e := t.result.earlier; e != nil {
		return t.unlevelled(o, e), nil
	}
	fresh := started(o, start, t.using.Seed)
	switch {
	case t.using.Optimiser != alternating:
		return fresh, nil
	case len(from) != o.Size() || vanished(o.Link, from, fresh):
		return fresh, t.turn(o, fresh)
	}
	return slices.Clone(from), nil
}

// judged fills in the likelihood of the validation pairs, where there are any.
func (t *training) judged(out run, judge *engine.Objective) (run, error) {
	if judge == nil {
		return out, nil
	}
	parts, err := t.using.engine().Gradient(t.ctx, judge, out.params, nil)
	out.validation = parts.Likelihood / judge.LambdaL
	return out, err
}

// weightsOf returns how many of a link model's parameters are a diagonal model's weights, which come first; 0
// for other models.
func weightsOf(link model.LinkModel) int {
	layout, ok := link.(model.Layout)
	if !ok || !strings.HasPrefix(link.Kind(), "diagonal") {
		return 0
	}
	return layout.Parts()[0].Size()
}

// SampledProducts is how many pairs MeanSquare uses.
const SampledProducts = 2000

// MeanSquare returns the mean of ‖h_i⊙h_j‖² over up to 2,000 pairs, evenly spaced: the size of what a diagonal
// model's weights multiply, by which they are scaled and their prior is chosen; of factors that is the mean ‖h_j‖², and
// for other models 0.
func MeanSquare(link model.LinkModel, p *graph.Pairs) (meanSquare float64) {
	if ofFactors(link.Kind()) {
		return factorSquare(link, p)
	}
	count := weightsOf(link)
	if count == 0 || p.Len() == 0 {
		return 0
	}
	grad, params, one := make([]float32, link.Size()), make([]float32, link.Size()), []float32{1}
	pairs := min(p.Len(), SampledProducts)
	for i := range pairs {
		k := i * p.Len() / pairs
		clear(grad)
		// the gradient of z in w is h_i⊙h_j
		link.Backward(grad, params, model.Batch{Sources: p.Source[k : k+1], Targets: p.Target[k : k+1]}, one)
		for _, g := range grad[:count] {
			meanSquare += float64(g) * float64(g)
		}
	}
	return max(meanSquare/float64(pairs), 1e-30)
}

// scaleFor returns the scale of the parameters, given MeanSquare: weights of 1 for products whose coordinates are of
// the size of 1; nil for models other than diagonal ones.
func scaleFor(o *engine.Objective, meanSquare float64) []float64 {
	count := weightsOf(o.Link)
	if count == 0 {
		return nil
	}
	scale := slices.Repeat([]float64{1}, o.Size())
	for i := range count {
		scale[i] = 1 / math.Sqrt(meanSquare/float64(count))
	}
	return scale
}

// precisionFor returns the precisions under which the weights of a diagonal model give z the prior variance ridge,
// given MeanSquare, and which leave everything else free; for factors see factorPriors. It is nil for no ridge. The
// prior counts once, the pairs n times; the objective is a mean over them.
func precisionFor(o *engine.Objective, meanSquare, ridge, lambda float64, pairs int64) []float64 {
	return precisionWith(o, propensityPriors(o, unloggedOf(o)), meanSquare, ridge, lambda/float64(pairs))
}

// precisionWith is the same with these precisions of exposure, nil where that is free, each of which counts so often.
func precisionWith(o *engine.Objective, exposure []float64, meanSquare, ridge, times float64) []float64 {
	link, count := make([]float64, o.Link.Size()), weightsOf(o.Link)
	switch {
	case ridge > 0 && ofFactors(o.Link.Kind()):
		link = factorPriors(o.Link, meanSquare, ridge)
	case ridge > 0 && count > 0:
		for i := range count {
			link[i] = meanSquare / ridge
		}
	case exposure == nil:
		return nil
	}
	precision := make([]float64, o.Size())
	copy(precision, link)
	copy(precision[len(link):], exposure)
	for i := range precision {
		precision[i] *= times
	}
	return precision
}

func (t *training) report(o *engine.Objective, most int) func(int, engine.Parts) {
	m := newMeter(t.settings.Progress, 0)
	return func(iteration int, p engine.Parts) {
		m.add(o.Pairs.Len(), false, func() round {
			return round{phase: t.phase, number: iteration, of: most, loss: p.Total(),
				validation: t.result.Validation}
		})
	}
}

// spaced returns count of n places, evenly spaced.
func spaced(n, count int) []int32 {
	places := make([]int32, count)
	for i := range places {
		places[i] = int32(int64(i) * int64(n) / int64(count))
	}
	return places
}

// describedPairs is how many training pairs, evenly spaced, describe uses at most.
const describedPairs = 1 << 18

// describedOf returns those.
func describedOf(p *graph.Pairs) *graph.Pairs {
	if p.Len() <= describedPairs {
		return p
	}
	return sample.Evidence{Pairs: p}.At(spaced(p.Len(), describedPairs)).Pairs
}

// describe says where the models stand on the training pairs.
func describe(ctx context.Context, e engine.Engine, p sample.Problem, m engine.Predictor) (Start, error) {
	pairs := describedOf(p.Train)
	z, s, err := (&Judge{Predictor: m, Engine: e}).Logits(ctx, pairs)
	if err != nil {
		return Start{}, err
	}
	var y, weight, same, sameWeight, cross, crossWeight risk.Sum
	for k, w := range pairs.Weight {
		probability, _ := kern.Sigmoid64(float64(z[k]))
		pi, _ := kern.Sigmoid64(float64(s[k]))
		y.Add(w * probability)
		weight.Add(w)
		if p.Nodes.Fields[pairs.Source[k]] == p.Nodes.Fields[pairs.Target[k]] {
			same.Add(w * pi)
			sameWeight.Add(w)
		} else {
			cross.Add(w * pi)
			crossWeight.Add(w)
		}
	}
	share := func(a, b risk.Sum) float64 {
		if b.Value() == 0 {
			return 0
		}
		return a.Value() / b.Value()
	}
	return Start{MeanLink: share(y, weight), MeanSame: share(same, sameWeight), MeanCross: share(cross, crossWeight)},
		nil
}

// warn adds warnings about the result.
func (r *Result) warn() {
	add := func(kind risk.WarningKind, format string, a ...any) {
		r.Warnings = append(r.Warnings, risk.Warning{Kind: kind, Message: fmt.Sprintf(format, a...)})
	}
	if r.Settings.LambdaR > 0 && r.Objective.Risk < 0 {
		add("negative-risk", "the risk in the objective is negative (%.3g): R_PU takes more missing links away "+
			"than there are, because some propensities are estimated too small; do not trust this model, use "+
			"bayes or the preset safe", r.Objective.Risk/r.Settings.LambdaR)
	}
	if len(r.Starts) == 0 || r.Propensity.Size() == 0 {
		return
	}
	used := r.Starts[0]
	for _, group := range []struct {
		name string
		mean float64
	}{{"one field", used.MeanSame}, {"two fields", used.MeanCross}} {
		if group.mean > 0 && group.mean < .01 {
			advice := "the model explains missing links by exposure alone; use bayes or the preset safe"
			if r.Settings.Method == "bayes" { // which may be right: of very many candidates few are seen
				advice = "that is right where few of very many candidates are seen; log exposure on a random share " +
					"of the pairs to be sure"
			} else if r.Findings.Factors {
				advice = "log what is shown to be sure"
			}
			add("collapsed", "the propensity of pairs of %s fell to %.2g on average: %s", group.name, group.mean,
				advice)
		}
		if group.mean > .995 {
			advice := "log what is shown, start elsewhere or use bayes"
			switch {
			case r.Findings.Support.Logged > 0:
				advice = "that is right where nearly everything was shown"
			case r.Findings.Factors: // which bayes does not learn
				advice = "log what is shown"
			case r.Settings.Method == "bayes":
				advice = "log exposure on a random share of the pairs to be sure"
			}
			add("collapsed", "the propensity of pairs of %s rose to %.3f on average: the model has become naive; %s",
				group.name, group.mean, advice)
		}
	}
	if mean := r.Findings.Starts; mean.High > 1.2*mean.Low {
		add("scale", "the starts do not agree on how common relevance is: mean ŷ from %.3g to %.3g; neither can "+
			"be trusted until exposure is logged on a random share of the pairs", mean.Low, mean.High)
	}
}

// dataChecksum names what was learned from.
func (r *Result) dataChecksum() string {
	if r.all != nil {
		return r.all.Checksum()
	}
	return r.problem.Checksum()
}

// Model returns what a model file keeps of the result: among its hyperparameters are the settings and the trials of a
// search. It records what it was fitted to: the problem's checksum, and Problem.Origin if there is one. Only a model
// with an origin can be opened with its dataset, by package network or by the service.
func (r *Result) Model() (model.Model, error) {
	settings, err := json.Marshal(struct {
		Settings
		Trials []Trial   `json:"trials,omitempty"`
		Level  []float64 `json:"level,omitempty"`
	}{r.Settings, r.Trials, r.levels})
	if err != nil {
		return model.Model{}, err
	}
	m := model.Model{
		Link: r.Link, LinkParams: r.LinkParams, Propensity: r.Propensity, PropensityParams: r.PropensityParams,
		Method: r.Settings.Method, Hyperparameters: settings, Seed: r.Settings.Seed,
	}
	if r.problem.Train != nil {
		m.DataChecksum = r.dataChecksum()
	}
	if r.problem.Origin != nil {
		if m.Data, err = json.Marshal(r.problem.Origin); err != nil {
			return model.Model{}, err
		}
	}
	if r.Findings != nil {
		if m.Findings, err = json.Marshal(r.Findings); err != nil {
			return model.Model{}, err
		}
	}
	if r.Posterior != nil {
		m.Extra = r.Posterior.tensors()
	}
	if e := r.earlier; e != nil {
		m.Extra = append(m.Extra,
			model.Tensor{Name: tensorFullLink, Shape: []int{len(e.fullLink)}, Data: e.fullLink},
			model.Tensor{Name: tensorFullPropensity, Shape: []int{len(e.fullPropensity)}, Data: e.fullPropensity})
	}
	if len(r.members) > 1 {
		m.Members, m.Popularity = r.members, r.popularity()
	}
	return m, nil
}
