package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// Posterior is what bayes believes of the parameters θ = (w, b, s): a normal distribution around
// them, with covariance V = (I + prior)⁻¹. V itself is never formed: I + prior = L Lᵀ is kept, and a
// linear functional with gradient g has variance gᵀVg = ‖L⁻¹g‖², one triangular solve.
//
// The prior's own parameters λ = (log α, log τ²) are learned as well, and V takes them for known. So
// the variance has a second part, Σ(g·∂θ̂/∂λ)²·Var λ, where θ̂ is refitted at one standard error
// from each λ: without it risks, which depend on how large w is, would seem a quarter surer.
//
// It also keeps a few replicates: parameters drawn from the posterior, links drawn from those, and
// what the method makes of them. How far that is from where the links came from is the method's own
// error, and its mean a bias that no covariance knows of.
//
// Where the vectors have more than 4096 dimensions there is no L. V is then known by Draws draws from
// the posterior, and a variance is the mean square along them: right on average, and a standard error
// uncertain by a share of 1/√(2·Draws).
type Posterior struct {
	Alpha float64    // precision of w, in units in which products of vectors have squared length d
	Tau   [2]float64 // standard deviation of the propensity logits among pairs of one field, and of two
	Cells []int32    // the field pairs that occur: source field × number of fields + target field

	unit, scale float64 // the link model's w is scale/unit times θ's
	caseControl bool
	seed        uint64 // of the replicates
	info        *information
	hyper       []variant // one standard error of each hyperparameter away, less the fit
	replicates  []replicate
	links       *linksAlone
}

// variant is a move of the parameters of the link model and, by cell, of the propensity logits.
type variant struct {
	link   []float32
	logits []float32
}

// replicate is one simulated history and its fit, both as parameters of the models.
type replicate struct {
	truth  []float32 // the link model that the links were drawn from; the propensities are the fit's own
	link   []float32 // the link model fitted to them
	logits []float32 // and the propensity logits, by cell
}

// linksAlone is what the fit would be had nothing been logged.
type linksAlone struct {
	logits     []float64 // by cell
	covariance []float64
}

// Variance returns gᵀVg, the posterior variance of a functional of the parameters, from its
// gradient in the parameters of the link model and in those of the propensity model. Either may be
// nil for zero. Propensities of field pairs that never occurred are not part of the posterior.
func (p *Posterior) Variance(link, propensity []float64) float64 {
	g := make([]float64, p.info.n)
	d := p.info.d
	for i, x := range link {
		if g[i] = x * p.scale; i < d {
			g[i] /= p.unit
		}
	}
	if propensity != nil {
		for c, at := range p.Cells {
			g[d+1+c] = propensity[at]
		}
	}
	var variance float64
	if p.info.draws != nil {
		variance = p.info.draws.variance(g)
	} else {
		blas64.Trsv(blas.NoTrans, p.info.factor, blas64.Vector{N: len(g), Inc: 1, Data: g})
		variance = dot(g, g)
	}
	for _, h := range p.hyper {
		var move float64
		for i, x := range link {
			move += x * float64(h.link[i])
		}
		if propensity != nil {
			for c, at := range p.Cells {
				move += propensity[at] * float64(h.logits[c])
			}
		}
		variance += move * move
	}
	return variance
}

// cellCovariance returns the covariance of the propensity logits, row by row.
func (p *Posterior) cellCovariance() (v []float64, n int) {
	v, n = p.info.cellCovariance()
	v = slices.Clone(v)
	for _, h := range p.hyper {
		for a, x := range h.logits {
			for b, y := range h.logits {
				v[a*n+b] += float64(x) * float64(y)
			}
		}
	}
	return v, n
}

// LogitErrors returns the standard error of every propensity logit ŝ, in the order of Cells. The
// propensity itself lies in σ(ŝ ± 1.96·error) with a probability of .95.
func (p *Posterior) LogitErrors() []float64 {
	v, n := p.cellCovariance()
	out := make([]float64, n)
	for c := range out {
		out[c] = math.Sqrt(v[c*n+c])
	}
	return out
}

// Draws returns how many draws stand for V; 0 where V is exact.
func (p *Posterior) Draws() int {
	if p.info.draws == nil {
		return 0
	}
	return len(p.info.draws.joint)
}

// Replicates returns the number of simulated histories.
func (p *Posterior) Replicates() int { return len(p.replicates) }

// newPosterior makes a posterior of a mode and the information there.
func newPosterior(ctx context.Context, l *laplace, p sample.Problem, cells []int32, s Settings, mode []float64,
	info *information, report func(refit, of int), r *recorder) (*Posterior, error) {
	scale, _ := l.predictive(mode)
	a := &aftermath{
		Posterior: &Posterior{
			Alpha: l.prior.Alpha, Tau: l.prior.Tau, Cells: cells,
			unit: l.unit, scale: scale, caseControl: s.Sampling == engine.CaseControl.String(), seed: s.Seed, info: info,
		},
		laplace: l, pairs: p.Train, mode: mode, recorder: r, refits: hyperparameters + 1 + max(s.Replicates, 0),
		decided: math.Max(float64(l.d)-l.prior.Alpha*info.trace(), 1),
	}
	if err := r.begin(a); err != nil {
		return nil, err
	}
	for a.done < a.refits {
		report(a.done+1, a.refits)
		var err error
		switch {
		case a.done < hyperparameters:
			err = a.vary(ctx, a.done)
		case a.done == hyperparameters:
			err = a.withoutLogs(ctx)
		default:
			err = a.replicate(ctx, a.done-hyperparameters-1)
		}
		if err != nil {
			return nil, err
		}
		a.done++
		r.settle(a)
		if err := r.tick(); err != nil {
			return nil, err
		}
	}
	return a.Posterior, nil
}

// hyperparameters are α and two τ².
const hyperparameters = 3

// aftermath is what follows the search for the mode: refits that tell what V does not.
type aftermath struct {
	*Posterior
	laplace  *laplace
	pairs    *graph.Pairs
	mode     []float64
	recorder *recorder
	decided  float64 // γ = d − α·tr V_ww: how many weights the data decide rather than the prior
	refits   int     // in all
	done     int
}

func (a *aftermath) keep(c *checkpoint) {
	c.whole["aftermath.done"] = a.done
	var varied, replicates []float32
	for _, h := range a.hyper {
		varied = append(append(varied, h.link...), h.logits...)
	}
	for _, r := range a.replicates {
		replicates = append(append(append(replicates, r.truth...), r.link...), r.logits...)
	}
	put(c, "aftermath.varied", varied)
	put(c, "aftermath.replicates", replicates)
	c.putTruth("aftermath.links", a.links != nil)
	if a.links != nil {
		put(c, "aftermath.links.logits", a.links.logits)
		put(c, "aftermath.links.covariance", a.links.covariance)
	}
}

func (a *aftermath) restore(c *checkpoint) {
	a.done = c.number("aftermath.done", 0, a.refits)
	width, cells := a.info.d+1, len(a.Cells)
	for part := range slices.Chunk(numbers[float32](c, "aftermath.varied", -1), width+cells) {
		if len(part) != width+cells {
			c.fail("the moves of the prior are cut short")
			return
		}
		a.hyper = append(a.hyper, variant{part[:width], part[width:]})
	}
	replicates := numbers[float32](c, "aftermath.replicates", max(a.done-hyperparameters-1, 0)*(2*width+cells))
	for part := range slices.Chunk(replicates, 2*width+cells) {
		a.replicates = append(a.replicates, replicate{part[:width], part[width : 2*width], part[2*width:]})
	}
	if c.truth("aftermath.links") {
		a.links = &linksAlone{numbers[float64](c, "aftermath.links.logits", cells),
			numbers[float64](c, "aftermath.links.covariance", cells*cells)}
	}
}

// refit is one of them under way: a copy of the fit with links, prior and leverage of its own.
type refit struct {
	laplace
	theta     []float64
	last      [3]float64 // moves of the prior
	round     int
	leveraged bool // the leverage is no longer the fit's
}

func (a *aftermath) newRefit() *refit {
	return &refit{laplace: *a.laplace, theta: slices.Clone(a.mode)}
}

func (f *refit) keep(c *checkpoint) {
	put(c, "refit.theta", f.theta)
	put(c, "refit.prior", []float64{f.prior.Alpha, f.prior.Tau[0], f.prior.Tau[1], f.last[0], f.last[1], f.last[2]})
	c.whole["refit.round"] = f.round
	if c.putTruth("refit.leveraged", f.leveraged); f.leveraged {
		put(c, "refit.leverage", f.leverage)
	}
}

func (f *refit) restore(c *checkpoint) {
	copy(f.theta, numbers[float64](c, "refit.theta", len(f.theta)))
	prior := numbers[float64](c, "refit.prior", 6)
	f.prior.Alpha, f.prior.Tau = prior[0], [2]float64{prior[1], prior[2]}
	copy(f.last[:], prior[3:])
	f.round = c.number("refit.round", 0, math.MaxInt32)
	if f.leveraged = c.truth("refit.leveraged"); f.leveraged {
		f.setSpread(numbers[float32](c, "refit.leverage", f.x.Rows()))
	}
}

// climb moves to the mode, by the information of the fit if that is of use.
func (f *refit) climb(ctx context.Context, info *information, enough float64, r *recorder) error {
	_, err := f.laplace.mode(ctx, f.theta, info, enough, nil, r)
	if errors.Is(err, ErrDiverged) {
		r.settle(f)
		_, err = f.laplace.mode(ctx, f.theta, nil, enough, nil, r)
	}
	return err
}

func (f *refit) logits() []float32 {
	out := make([]float32, f.cells)
	for c := range out {
		out[c] = float32(f.theta[f.d+1+c])
	}
	return out
}

// vary refits at one standard error from one of the prior's own parameters. With γ the number of
// parameters that the data decide, Var log α ≈ 2/γ (MacKay 1992), and as much for τ².
func (a *aftermath) vary(ctx context.Context, which int) error {
	l := a.laplace
	moved := a.newRefit()
	if which == 0 {
		moved.prior.Alpha *= math.Exp(math.Sqrt(2 / a.decided))
	} else {
		g := which - 1
		v, cells := a.info.cellCovariance()
		decided, members := 1., 0 // 1 for the pseudo-observation
		for c, of := range l.group {
			if int(of) == g {
				members++
				decided += math.Max(1-v[c*cells+c]/(l.prior.Tau[g]*l.prior.Tau[g]), 0)
			}
		}
		if members < 2 {
			return nil
		}
		moved.prior.Tau[g] *= math.Exp(math.Sqrt(2/decided) / 2)
	}
	if err := a.recorder.begin(moved); err != nil {
		return err
	}
	if which == 0 && moved.round == 0 { // the spread of w follows α; the propensities' prior hardly moves it
		if err := moved.climb(ctx, a.info, near, a.recorder); err != nil {
			return err
		}
		info, err := moved.covariance(ctx, moved.theta)
		if err != nil {
			return err
		}
		if _, err := moved.setLeverage(info); err != nil {
			return err
		}
		moved.leveraged = true
		moved.round++
		a.recorder.settle(moved)
	}
	if err := moved.climb(ctx, a.info, near, a.recorder); err != nil {
		return err
	}
	move := variant{link: moved.published(moved.theta), logits: moved.logits()}
	for i, x := range l.published(a.mode) {
		move.link[i] -= x
	}
	for c := range move.logits {
		move.logits[c] -= float32(a.mode[l.d+1+c])
	}
	a.hyper = append(a.hyper, move)
	return nil
}

// withoutLogs finds what the links alone would have said, for the test of logged exposure.
func (a *aftermath) withoutLogs(ctx context.Context) error {
	if !slices.ContainsFunc(a.laplace.exposure, func(e risk.Exposure) bool {
		return e == risk.Exposed ||
			e == risk.Unexposed
	}) {
		return nil
	}
	blind := a.newRefit()
	blind.exposure = slices.Clone(blind.exposure)
	for k, e := range blind.exposure {
		if e != risk.Offered { // which is no exposure by π
			blind.exposure[k] = risk.Unlogged
		}
	}
	if err := a.recorder.begin(blind); err != nil {
		return err
	}
	if err := blind.climb(ctx, nil, near, a.recorder); err != nil {
		return err
	}
	info, err := blind.covariance(ctx, blind.theta)
	if err != nil {
		return err
	}
	v, _ := info.cellCovariance()
	a.links = &linksAlone{logits: blind.theta[blind.d+1:], covariance: v}
	return nil
}

// replicate simulates a history and refits it. Its truth is a draw of (w, b) given ŝ: the fitted w
// itself is shrunk, and a world made of it would have fewer pairs near ŷ = 1 than the real one.
// The pairs stay, which of them are logged, and the variances of the logits.
func (a *aftermath) replicate(ctx context.Context, k int) error {
	l := a.laplace
	n := l.x.Rows()
	again := a.newRefit()
	again.linked = make([]bool, n)
	if l.exposure != nil {
		again.exposure = make([]risk.Exposure, n)
	}
	drawn := a.draw(a.mode, k)
	table, z := l.table(a.mode), make([]float32, n)
	l.logits(z, l.weights32(drawn), 0)
	for i := range n {
		past := history{seed: a.seed, replicate: k, source: a.pairs.Source[i], target: a.pairs.Target[i]}
		y, _ := kern.Sigmoid64(float64(z[i]))
		seen := past.happen(y, table.pi[l.cell[i]], l.rate[i], l.exposed(i))
		again.linked[i] = seen.Linked
		if l.exposure != nil {
			again.exposure[i] = seen.Exposure
		}
	}
	if err := a.recorder.begin(again); err != nil {
		return err
	}
	if err := a.relearn(ctx, again); err != nil {
		return fmt.Errorf("replicate %d: %w", k+1, err)
	}
	a.replicates = append(a.replicates, replicate{truth: l.weights(drawn), link: again.published(again.theta),
		logits: again.logits()})
	return nil
}

// relearn refits, prior and all, by the information of the fit: γ and the covariance of s stay what
// they were, so that only modes have to be found. α keeps within three standard errors of the
// fit's, without which it runs away where hardly any weight is decided.
func (a *aftermath) relearn(ctx context.Context, f *refit) error {
	const rounds = 4
	alpha := a.laplace.prior.Alpha
	most := 3 * math.Sqrt(2/a.decided)
	for {
		enough := 10 * near
		if f.round == rounds {
			enough = near
		}
		if err := f.climb(ctx, a.info, enough, a.recorder); err != nil || f.round == rounds {
			return err
		}
		f.updateAlpha(f.theta, (float64(f.d)-a.decided)/f.prior.Alpha, &f.last[0])
		f.prior.Alpha = alpha * math.Exp(math.Max(-most, math.Min(most, math.Log(f.prior.Alpha/alpha))))
		f.updateTau(f.theta, a.info, f.last[1:])
		f.round++
		a.recorder.settle(f)
	}
}

// draw returns θ with (w, b) drawn from the posterior given s: θ + L⁻ᵀε over the factor's first rows.
func (p *Posterior) draw(mode []float64, k int) []float64 {
	rng := rand.New(rand.NewPCG(p.seed, uint64(k)))
	out := slices.Clone(mode)
	if p.info.draws != nil {
		p.info.draws.another(out, rng)
		return out
	}
	width := p.info.d + 1
	noise := make([]float64, width)
	for i := range noise {
		noise[i] = rng.NormFloat64()
	}
	block := p.info.factor
	block.N = width
	blas64.Trsv(blas.Trans, block, blas64.Vector{N: width, Inc: 1, Data: noise})
	for i, x := range noise {
		out[i] += x
	}
	return out
}

// published returns the link model's parameters: w and b, brought to the posterior's own
// probabilities.
func (l *laplace) published(theta []float64) []float32 {
	scale, shift := l.predictive(theta)
	params := l.weights(theta)
	for i := range params {
		params[i] *= float32(scale)
	}
	params[l.d] += float32(shift)
	return params
}

// history is what happens to a pair in a replicate: a function of the seed, the replicate and the
// pair, so that training pairs and any others drawn later tell one story.
type history struct {
	seed           uint64
	replicate      int
	source, target int32
}

// exposed says what is logged of pair k.
func (l *laplace) exposed(k int) risk.Exposure {
	if l.exposure == nil {
		return risk.Unlogged
	}
	return l.exposure[k]
}

// happen returns what is seen of a pair of link probability y and propensity π that was sampled,
// unlinked pairs at the relative rate r: P(o=1 | sampled) = πy/(πy + r(1−πy)).
func (h history) happen(y, pi, rate float64, as risk.Exposure) risk.Observation {
	first := h.uniform()
	switch as {
	case risk.Unlogged:
		p := pi * y
		return risk.Observation{Linked: first*(p+rate*(1-p)) < p}
	case risk.Offered:
		return risk.Observation{Linked: first*(1-pi*y) < y*(1-pi), Exposure: risk.Offered}
	}
	// linked 1, shown and unlinked r, not shown r: the chances of being in the sample
	linked, refused, unseen := pi*y, rate*pi*(1-y), rate*(1-pi)
	switch at := first * (linked + refused + unseen); {
	case at < unseen:
		return risk.Observation{Exposure: risk.Unexposed}
	case at < unseen+refused:
		return risk.Observation{Exposure: risk.Exposed}
	}
	return risk.Observation{Linked: true, Exposure: risk.Exposed}
}

// uniform returns a number in [0, 1).
func (h history) uniform() float64 {
	return sample.Uniform(h.seed, uint64(h.replicate), uint64(uint32(h.source))<<32|uint64(uint32(h.target)))
}

// tensors returns what a model file keeps of the posterior: L in float32, its lower triangle row by
// row (2.6 MB for 768 dimensions and 19 fields), or the draws (4.2 MB for 8192), and the replicates.
func (p *Posterior) tensors() []model.Tensor {
	n, width := p.info.n, p.info.d+1
	covariance := model.Tensor{Name: "posterior.draws", Shape: []int{p.Draws(), n}}
	if p.info.draws != nil {
		covariance.Data = flat(p.info.draws.joint)
	} else {
		factor := make([]float32, 0, n*(n+1)/2)
		for _, x := range lower(p.info.factor) {
			factor = append(factor, float32(x))
		}
		covariance = model.Tensor{Name: "posterior.factor", Shape: []int{len(factor)}, Data: factor}
	}
	caseControl := 0.
	if p.caseControl {
		caseControl = 1
	}
	var truths, links, logits []float32
	for _, r := range p.replicates {
		truths, links, logits = append(truths, r.truth...), append(links, r.link...), append(logits, r.logits...)
	}
	var hyperLinks, hyperLogits []float32
	for _, h := range p.hyper {
		hyperLinks, hyperLogits = append(hyperLinks, h.link...), append(hyperLogits, h.logits...)
	}
	count := len(p.replicates)
	return []model.Tensor{
		{Name: "posterior.numbers", Shape: []int{6}, Data: []float64{p.Alpha, p.Tau[0], p.Tau[1], p.unit, p.scale,
			caseControl}},
		{Name: "posterior.cells", Shape: []int{len(p.Cells)}, Data: p.Cells},
		covariance,
		{Name: "posterior.prior.link", Shape: []int{len(p.hyper), width}, Data: hyperLinks},
		{Name: "posterior.prior.logits", Shape: []int{len(p.hyper), len(p.Cells)}, Data: hyperLogits},
		{Name: "posterior.replicates.truth", Shape: []int{count, width}, Data: truths},
		{Name: "posterior.replicates.link", Shape: []int{count, width}, Data: links},
		{Name: "posterior.replicates.logits", Shape: []int{count, len(p.Cells)}, Data: logits},
	}
}

// PosteriorOf returns the posterior that a model file keeps; nil for a method that has none.
func PosteriorOf(m model.Model) (*Posterior, error) {
	found := map[string]model.Tensor{}
	for _, t := range m.Extra {
		found[t.Name] = t
	}
	_, factored := found["posterior.factor"]
	drawn, known := found["posterior.draws"]
	if !factored && !known {
		return nil, nil
	}
	numbers, ok1 := found["posterior.numbers"].Data.([]float64)
	cells, ok2 := found["posterior.cells"].Data.([]int32)
	factor, ok3 := found["posterior.factor"].Data.([]float32)
	truths, ok4 := found["posterior.replicates.truth"].Data.([]float32)
	links, ok5 := found["posterior.replicates.link"].Data.([]float32)
	logits, ok6 := found["posterior.replicates.logits"].Data.([]float32)
	priorLinks, ok7 := found["posterior.prior.link"].Data.([]float32)
	priorLogits, ok8 := found["posterior.prior.logits"].Data.([]float32)
	width, n := len(m.LinkParams), len(m.LinkParams)+len(cells)
	fits := ok3 && len(factor) == n*(n+1)/2
	joint, ok := drawn.Data.([]float32)
	if !factored {
		fits = ok && len(joint) > 0 && len(joint)%n == 0
	}
	if !fits || !ok1 || !ok2 || !ok4 || !ok5 || !ok6 || !ok7 || !ok8 || len(numbers) != 6 || width == 0 ||
		len(truths)%width != 0 || len(links) != len(truths) || len(logits) != len(truths)/width*len(cells) ||
		len(priorLinks)%width != 0 || len(priorLogits) != len(priorLinks)/width*len(cells) {
		return nil, fmt.Errorf("%w: the model's posterior does not fit its %d weights and %d field pairs; fit "+
			"the model anew", ErrShape, width, len(cells))
	}
	for _, c := range cells {
		if uint32(c) >= uint32(len(m.PropensityParams)) {
			return nil, fmt.Errorf("%w: the model's posterior speaks of field pair %d of %d; fit the model anew",
				ErrShape, c, len(m.PropensityParams))
		}
	}
	p := &Posterior{Alpha: numbers[0], Tau: [2]float64{numbers[1], numbers[2]}, Cells: cells, unit: numbers[3],
		scale: numbers[4], caseControl: numbers[5] != 0, seed: m.Seed}
	p.info = &information{n: n, d: width - 1}
	if factored {
		triangle := make([]float64, len(factor))
		for i, x := range factor {
			triangle[i] = float64(x)
		}
		p.info.factor = fromLower(triangle, n)
		for i := range n {
			if !(p.info.factor.Data[i*n+i] > 0) {
				return nil, fmt.Errorf("%w: the model's posterior is not positive definite; fit the model anew",
					ErrShape)
			}
		}
	} else {
		p.info.draws = &draws{joint: rowsOf(joint, n)}
	}
	for k := range len(priorLinks) / width {
		p.hyper = append(p.hyper, variant{link: priorLinks[k*width : (k+1)*width],
			logits: priorLogits[k*len(cells) : (k+1)*len(cells)]})
	}
	for k := range len(truths) / width {
		p.replicates = append(p.replicates, replicate{
			truth: truths[k*width : (k+1)*width], link: links[k*width : (k+1)*width],
			logits: logits[k*len(cells) : (k+1)*len(cells)],
		})
	}
	return p, nil
}
