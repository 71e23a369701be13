package fit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"unseen/engine"
	"unseen/hint"
	"unseen/model"
	"unseen/sample"
)

// Earlier is a model that a refresh begins at.
type Earlier struct {
	Model model.Model // over the nodes of the problem
	Made  time.Time   // when it was made; zero where that is not known
}

// Refresh learns from pairs of which few have changed since an earlier model was fitted to them. It is what Fit would
// find, in a small part of the time: everything that one link in a hundred hardly moves is the earlier model's.
//
//   - The settings, what exposure depends on, the prior's own parameters and the ridge are its own; nothing is searched
//     for, and there is one start.
//   - The parameters are learned from all pairs, beginning at its parameters. Of bayes, its posterior says how far each
//     is to go, and the posterior is found anew at the end.
//   - What the doctor finds by fitting many times is carried over: the errors by replicates, the tests, the assumptions
//     that explain the links, and how these change lists. The rest of the findings is new. They say which full
//     training was examined, how far this model is from it, and when another is due; see RefreshFindings.
//
// Of the settings only Threads, Progress, Engine and Checkpoint count.
func Refresh(ctx context.Context, p sample.Problem, from Earlier, s Settings) (*Result, error) {
	settings, err := SettingsOf(from.Model)
	if err != nil {
		return nil, err
	}
	settings.Threads, settings.Progress, settings.Engine = s.Threads, s.Progress, s.Engine
	settings.Checkpoint = s.Checkpoint
	settings.mostBytes, settings.mostPairs, settings.mostExact, settings.draws = s.mostBytes, s.mostPairs, s.mostExact,
		s.draws
	e := &earlier{Earlier: from}
	if err := e.read(); err != nil {
		return nil, err
	}
	return fitFrom(ctx, p, settings, beginning{earlier: e})
}

// SettingsOf returns the settings that a model was trained with. What a search chose is among them, so that nothing is
// searched for again.
func SettingsOf(m model.Model) (Settings, error) {
	s := Settings{Method: m.Method}
	if len(m.Hyperparameters) > 0 {
		if err := json.Unmarshal(m.Hyperparameters, &s); err != nil {
			return s, fmt.Errorf("%w: the settings of the model are damaged: %w; fit it again", ErrData, err)
		}
	}
	s.Search, s.Seed = Search{}, m.Seed
	return s, nil
}

// earlier is a model that a refresh begins at, and what its file keeps of how it came about.
type earlier struct {
	Earlier
	posterior *Posterior // nil without one
	findings  *Findings
	level     []float64 // by how much the level of π̂ and then of ŷ was moved, of factors

	// where the last full training ended, for the way since then to be measured
	fullLink, fullPropensity []float32
}

// Tensors of a refreshed model: the parameters of the last full training.
const (
	tensorFullLink       = "full.link"
	tensorFullPropensity = "full.propensity"
)

// cannotRefresh is an error that says why, and that a full training can.
func cannotRefresh(format string, a ...any) error {
	return hint.Wrap(fmt.Errorf("%w: no refresh: %s", ErrEarlier, fmt.Sprintf(format, a...)), "train in full")
}

// read reads what the model's file keeps.
func (e *earlier) read() (err error) {
	m := e.Model
	if len(m.Findings) == 0 {
		return cannotRefresh("the model has no findings of a full training")
	}
	e.findings = &Findings{}
	if err := json.Unmarshal(m.Findings, e.findings); err != nil {
		return fmt.Errorf("%w: the findings of the model are damaged: %w; fit it again", ErrData, err)
	}
	if e.posterior, err = PosteriorOf(m); err != nil {
		return err
	}
	var kept struct {
		Level []float64 `json:"level"`
	}
	if len(m.Hyperparameters) > 0 {
		if err := json.Unmarshal(m.Hyperparameters, &kept); err != nil {
			return fmt.Errorf("%w: the settings of the model are damaged: %w; fit it again", ErrData, err)
		}
	}
	if e.level = kept.Level; len(e.level) != 0 && len(e.level) != 2 {
		return fmt.Errorf("%w: the model's level has %d numbers, not 2; fit it again", ErrShape, len(e.level))
	}
	e.fullLink, e.fullPropensity = m.LinkParams, m.PropensityParams
	if e.findings.Refresh == nil {
		return nil
	}
	t := tensorReader{}
	for _, tensor := range m.Extra {
		t[tensor.Name] = tensor
	}
	if e.fullLink, err = tensorOf[float32](t, tensorFullLink, len(m.LinkParams)); err != nil {
		return err
	}
	e.fullPropensity, err = tensorOf[float32](t, tensorFullPropensity, len(m.PropensityParams))
	return err
}

// checksum names the model, for checkpoints to be of one beginning.
func (e *earlier) checksum() string {
	h := sha256.New()
	put := func(x any) { binary.Write(h, binary.LittleEndian, x) } // a hash takes everything
	put(e.Model.LinkParams)
	put(e.Model.PropensityParams)
	put(e.fullLink)
	put(e.Made.Unix())
	h.Write(e.Model.Findings)
	return hex.EncodeToString(h.Sum(nil))
}

// check refuses a model that cannot be the beginning.
func (e *earlier) check(r *Result, m method) error {
	of := e.Model
	if err := e.checkFields(r.problem.Origin); err != nil {
		return err
	}
	if e.posterior == nil && m.bayes {
		return cannotRefresh("bayes begins at a posterior, and this model has none, as where all propensities are " +
			"known")
	}
	if m.untrained {
		return cannotRefresh("%s is not trained", of.Method)
	}
	if have, want := len(of.LinkParams), r.Link.Size(); have != want {
		return cannotRefresh("the link model %s has %d parameters, and %d for these nodes: people or items came or "+
			"went since", r.Link.Kind(), have, want)
	}
	propensity := r.Propensity.Size()
	if m.bayes { // which has terms besides
		propensity = of.Propensity.Size()
	}
	if have := len(of.PropensityParams); have != propensity {
		return cannotRefresh("the propensity model %s has %d parameters, and %d for these nodes: people, items or "+
			"fields came or went since", r.Propensity.Kind(), have, propensity)
	}
	return nil
}

// checkFields refuses fields that were found, and would be found otherwise now.
func (e *earlier) checkFields(now *sample.Origin) error {
	before, known, err := sample.OriginOf(e.Model)
	switch {
	case err != nil:
		return err
	case !known || now == nil || now.Fields.Kind == "":
		return nil
	case now.Fields.Kind != "vectors":
		return cannotRefresh("its fields were found by %s, and change with the links", now.Fields.Kind)
	case before.Files[vectorsFile] != now.Files[vectorsFile]:
		return cannotRefresh("its fields were found by vectors, which are others now")
	}
	return nil
}

// vectorsFile is how origins name the file of vectors.
const vectorsFile = "vectors.npy"

// thetaOf returns the earlier parameters as θ of a posterior over these pairs, near enough to begin there: by how much
// logits were shifted when they were published is not kept.
func (b *bayesian) thetaOf(e *earlier) []float64 {
	l, post, m := b.laplace, e.posterior, e.Model
	theta := make([]float64, l.size())
	shift := 0.
	if len(b.terms) > 0 && b.terms[0].term == model.Text { // whose centre is the shift
		shift = post.terms[0].centre
	}
	for i, x := range m.LinkParams {
		if theta[i] = float64(x) / post.scale; i < l.d {
			theta[i] *= l.design.Unit()
		}
	}
	theta[l.d] -= shift / post.scale
	var moved float64
	for i, t := range post.terms {
		slope := float64(m.PropensityParams[t.place])
		theta[l.d+1+l.cells+i] = slope * t.scale
		moved += slope * t.centre
	}
	for c, at := range b.cells {
		theta[l.d+1+c] = float64(m.PropensityParams[at]) + moved
	}
	return theta
}

// refreshFrom refreshes the fit with the terms that exposure had.
func (b *bayesian) refreshFrom(ctx context.Context, e *earlier) error {
	covariates, ok := e.Model.Propensity.(*model.Covariates)
	if !ok {
		return b.refresh(ctx, e)
	}
	_, terms := covariates.Inside()
	if len(terms) != len(e.posterior.terms) {
		return cannotRefresh("the posterior of the model is of other terms of exposure than its parameters")
	}
	with, err := b.withTerms(ctx, terms)
	if err != nil {
		return err
	}
	defer with.laplace.close()
	if err := with.refresh(ctx, e); err != nil {
		return err
	}
	*b.result = *with.result
	return nil
}

// refresh finds the posterior from that of the earlier fit, under its prior: every pair's likelihood is averaged over
// the variance that its logit had there, the mode is found, and V at the mode.
func (b *bayesian) refresh(ctx context.Context, e *earlier) error {
	if err := b.recorder.begin(b); err != nil {
		return err
	}
	l, r, post := b.laplace, b.result, e.posterior
	unit := post.unit / l.design.Unit()
	l.prior.Alpha, l.prior.Tau = post.Alpha*unit*unit, post.Tau
	if len(r.Starts) == 0 {
		b.theta = b.thetaOf(e)
		if err := b.move(ctx, e); err != nil {
			return err
		}
	}
	r.Objective = engine.Parts{Likelihood: r.Starts[0].Objective}
	r.Ridge = float64(l.d) / l.prior.Alpha
	var err error
	if r.Posterior, err = b.carry(ctx, e); err != nil {
		return err
	}
	for _, member := range e.Model.Members {
		member.LinkParams = slices.Clone(member.LinkParams)
		for i, x := range e.Model.LinkParams {
			member.LinkParams[i] += r.LinkParams[i] - x
		}
		r.members = append(r.members, member)
	}
	return nil
}

// firstStart is the propensity that the result's training started from.
func (s Settings) firstStart() float64 {
	if len(s.Starts) == 0 {
		return model.StartPropensity
	}
	return s.Starts[0]
}

// move moves θ to the mode and publishes what is there.
func (b *bayesian) move(ctx context.Context, e *earlier) error {
	l, r, pairs := b.laplace, b.result, b.problem.Train.Len()
	certain := l.outcomes // as they are before anything is known of z
	certain.Leverage = nil
	if err := l.observe(certain); err != nil {
		return err
	}
	v, err := b.covarianceOf(ctx, e)
	if err != nil {
		return err
	}
	if b.whole != nil {
		b.v = v
		return b.whole.find(ctx)
	}
	if err := l.setLeverage(ctx, v); err != nil {
		return err
	}
	if len(b.terms) == 0 || b.terms[0].term != model.Text { // by how much z was shifted is not kept
		scale, shift, err := l.calibrate(ctx, b.theta)
		if err != nil {
			return err
		}
		b.theta[l.d] -= shift / scale
	}
	report := func(value float64) {
		b.meter.add(pairs, false, func() round {
			return round{phase: "refreshing the posterior", number: 1, of: 1, loss: value / float64(pairs)}
		})
	}
	if err := b.climb(ctx, v, report); err != nil {
		return err
	}
	if b.v, err = l.method.at(ctx, l, b.theta); err != nil {
		return err
	}
	if err := b.v.close(); err != nil {
		return err
	}
	link, exposure, lift, err := b.publish(ctx, b.theta)
	if err != nil {
		return err
	}
	summary, err := describe(ctx, r.Settings.engine(), b.problem, engine.Predictor{Link: r.Link, LinkParams: link,
		Propensity: r.Propensity, PropensityParams: exposure})
	if err != nil {
		return err
	}
	value, err := l.value(ctx, b.theta, make([]float64, l.size()))
	if err != nil {
		return err
	}
	summary.Propensity, summary.Objective = r.Settings.firstStart(), value/float64(pairs)
	r.Starts, r.Iterations = []Start{summary}, 1
	r.LinkParams, r.PropensityParams, b.lift = link, exposure, lift
	b.recorder.settle(b)
	return nil
}

// nearer is near for a refresh, which begins near, and from which others will begin.
const nearer = near / 10

// atMostText reports whether γ is where it was held.
func (b *bayesian) atMostText(theta []float64) bool {
	return !b.pinned && len(b.terms) > 0 && b.terms[0].term == model.Text &&
		theta[b.laplace.d+1+b.laplace.cells] > mostText-1e-3
}

// climb moves θ to the mode, by the earlier covariance if that is of use.
func (b *bayesian) climb(ctx context.Context, v covariance, report func(value float64)) error {
	if b.atMostText(b.theta) {
		b.hold()
	}
	for again := true; again; again = b.pin(b.theta) {
		err := b.laplace.mode(ctx, b.theta, v, climb{nearer, report, b.recorder})
		if errors.Is(err, ErrDiverged) {
			b.recorder.settle(b)
			err = b.laplace.mode(ctx, b.theta, nil, climb{nearer, report, b.recorder})
		}
		if err != nil {
			return err
		}
		b.recorder.settle(b)
	}
	return nil
}

// covarianceOf returns V of the earlier fit, or V where it ended where that does not serve: a field pair is new, or V
// is known by draws.
func (b *bayesian) covarianceOf(ctx context.Context, e *earlier) (covariance, error) {
	post, l := e.posterior, b.laplace
	if post.v.draws() == 0 && len(post.Cells) == l.cells {
		return post.v, nil
	}
	v, err := l.method.at(ctx, l, b.theta)
	if err != nil {
		return nil, err
	}
	if f, ok := v.(factored); ok && b.whole != nil {
		return f.exact(), nil
	}
	return v, nil
}

// carry returns the posterior at the mode. What refits have shown moves along with the fit: the errors of the
// replicates, and how far the prior's own parameters move it, are what they were.
func (b *bayesian) carry(ctx context.Context, e *earlier) (*Posterior, error) {
	l, r, from := b.laplace, b.result, e.posterior
	p := *from
	p.Cells, p.unit, p.v = b.cells, l.design.Unit(), b.v
	p.Alpha, p.Tau = l.prior.Alpha, l.prior.Tau
	var shift float64
	if b.whole != nil {
		p.scale = b.whole.scale
		p.v = &exactCovariance{d: l.d, count: l.cells, factor: b.whole.factored().exact().factor}
	} else {
		var err error
		if p.scale, shift, err = l.calibrate(ctx, b.theta); err != nil {
			return nil, err
		}
	}
	p.terms, p.truth = nil, nil
	for i, t := range b.terms {
		of := postedTerm{place: b.place(l.cells + i), scale: 1, centre: t.centre}
		if t.term == model.Text {
			of.scale, of.centre = p.scale, shift
		}
		p.terms, p.truth = append(p.terms, of), b.exposureAt(b.theta, 1, 0, [2]float64{})
	}
	// how far the published parameters have moved; new field pairs were nowhere
	link := make([]float32, len(r.LinkParams))
	for i, x := range e.Model.LinkParams {
		link[i] = r.LinkParams[i] - x
	}
	logits := make([]float32, len(p.Cells)+len(p.terms))
	for i := range logits {
		logits[i] = r.PropensityParams[p.place(i)]
		if before := slices.Index(from.Cells, p.place(i)); i < len(p.Cells) && before < 0 {
			continue
		}
		logits[i] -= e.Model.PropensityParams[p.place(i)]
	}
	old := func(numbers []float32, i int) float32 { // of a cell, or of a term behind the cells, by its new place
		switch {
		case i < len(from.Cells):
			return numbers[i]
		case i < len(p.Cells):
			return 0
		}
		return numbers[i-len(p.Cells)+len(from.Cells)]
	}
	p.hyper, p.replicates = nil, nil
	for _, h := range from.hyper {
		move := variant{link: h.link, logits: make([]float32, len(logits))}
		for i := range move.logits {
			move.logits[i] = old(h.logits, i)
		}
		p.hyper = append(p.hyper, move)
	}
	for _, of := range from.replicates {
		next := replicate{truth: slices.Clone(of.truth), link: slices.Clone(of.link),
			logits: make([]float32, len(logits))}
		for i, x := range link {
			next.truth[i] += x / float32(p.scale)
			next.link[i] += x
		}
		for i, x := range logits {
			next.logits[i] = old(of.logits, i) + x
		}
		p.replicates = append(p.replicates, next)
	}
	return &p, nil
}
