package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"unseen/model"
)

// Posterior is what bayes believes of the parameters θ = (w, b, s): a normal distribution around
// them, with covariance V = (I + prior)⁻¹.
//
// The prior's own parameters λ = (log α, log τ²) are learned as well, and V takes them for known. So
// the variance has a second part, Σ(g·∂θ̂/∂λ)²·Var λ, where θ̂ is refitted at one standard error
// from each λ: without it risks, which depend on how large w is, would seem a quarter surer.
//
// Where clicks were learned from, so were the chances that wanting shows in them, and the variance has a third part:
// how far θ̂ moves with those; see Result.learnRates.
//
// It also keeps a few replicates: parameters drawn from the posterior, links drawn from those, and
// what the method makes of them. How far that is from where the links came from is the method's own
// error, and its mean a bias that the covariance does not include.
//
// Where the vectors have more than 4096 dimensions, too many for a matrix over them, V is known by Draws draws from
// the posterior, and a variance is the mean square along them: right on average, and a standard error
// uncertain by a share of 1/√(2·Draws).
type Posterior struct {
	Alpha float64    // precision of w, in units in which products of vectors have squared length d
	Tau   [2]float64 // standard deviation of the propensity logits among pairs of one field, and of two
	Cells []int32    // the field pairs that occur: source field × number of fields + target field

	unit, scale float64 // the link model's w is scale/unit times θ's
	caseControl bool
	seed        uint64 // of the replicates
	d           int    // weights
	v           covariance
	terms       []postedTerm // of what exposure depends on besides the fields
	truth       []float32    // what replicates were drawn from: propensities by cell, slopes by term; nil without terms
	hyper       []variant    // one standard error of each hyperparameter away, less the fit
	seen        []variant    // the same of the chances that wanting shows
	replicates  []replicate
	links       *linksAlone
}

// postedTerm is how a slope in θ became a parameter of the propensity model: it was divided by the scale, and the
// logits of the cells are less by the parameter times the centre.
type postedTerm struct {
	place         int32
	scale, centre float64
}

// variant is a move of the parameters of the link model and, by cell, of the propensity logits; then of the slopes of
// terms.
type variant struct {
	link   []float32
	logits []float32
}

// replicate is one simulated history and its fit, both as parameters of the models.
type replicate struct {
	truth  []float32 // the link model that the links were drawn from; the propensities are the fit's own
	link   []float32 // the link model fitted to them
	logits []float32 // and the propensity logits, by cell, then the slopes of terms
}

// linksAlone is what the fit would be had nothing been logged.
type linksAlone struct {
	logits     []float64 // by cell
	covariance []float64
	means      [len(loggedGroups)]loggedMean // with terms, where the logits say too little
}

// loggedMean is what is expected of logged pairs: the mean π̂, the mean of π̂(1−π̂), and the variance of the first.
type loggedMean struct{ expected, variance, unsure float64 }

func (l *linksAlone) keep() (out []float64) {
	for _, m := range l.means {
		out = append(out, m.expected, m.variance, m.unsure)
	}
	return out
}

func (l *linksAlone) restore(numbers []float64) {
	for g := range l.means {
		l.means[g] = loggedMean{numbers[3*g], numbers[3*g+1], numbers[3*g+2]}
	}
}

// Variance returns gᵀVg, the posterior variance of a functional of the parameters, from its
// gradient in the parameters of the link model and in those of the propensity model. Either may be
// nil for zero. Propensities of field pairs that never occurred are not part of the posterior.
func (p *Posterior) Variance(link, propensity []float64) float64 {
	variance := p.varianceAsSeen(link, propensity)
	for _, s := range p.seen {
		move := p.move(s, link, propensity)
		variance += move * move
	}
	return variance
}

// varianceAsSeen is the variance where the chances that wanting shows are as they were learned.
func (p *Posterior) varianceAsSeen(link, propensity []float64) float64 {
	variance := p.v.variance(p.inTheta(link, propensity))
	for _, h := range p.hyper {
		move := p.move(h, link, propensity)
		variance += move * move
	}
	return variance
}

// move is how far a functional moves with the parameters, given its gradient.
func (p *Posterior) move(by variant, link, propensity []float64) (move float64) {
	for i, x := range link {
		move += x * float64(by.link[i])
	}
	if propensity != nil {
		for c, x := range by.logits {
			move += propensity[p.place(c)] * float64(x)
		}
	}
	return move
}

// along returns the covariance of the parameters with a functional, given its gradient: V times that, where the chances
// that wanting shows are as they were learned.
func (p *Posterior) along(link, propensity []float64) variant {
	x := p.v.times(p.inTheta(link, propensity))
	out := variant{make([]float32, p.d+1), make([]float32, len(p.Cells)+len(p.terms))}
	for i := range out.link {
		if x[i] *= p.scale; i < p.d {
			x[i] /= p.unit
		}
		out.link[i] = float32(x[i])
	}
	rest := x[p.d+1:]
	for i, t := range p.terms {
		slope := rest[len(p.Cells)+i] / t.scale
		rest[len(p.Cells)+i] = slope
		for c := range p.Cells {
			rest[c] -= slope * t.centre
		}
	}
	for c, x := range rest {
		out.logits[c] = float32(x)
	}
	for _, h := range p.hyper {
		move := float32(p.move(h, link, propensity))
		for i, x := range h.link {
			out.link[i] += move * x
		}
		for c, x := range h.logits {
			out.logits[c] += move * x
		}
	}
	return out
}

// inTheta returns such a gradient in θ.
func (p *Posterior) inTheta(link, propensity []float64) []float64 {
	g := make([]float64, p.d+1+len(p.Cells)+len(p.terms))
	for i, x := range link {
		if g[i] = x * p.scale; i < p.d {
			g[i] /= p.unit
		}
	}
	if propensity != nil {
		var all float64
		for c, at := range p.Cells {
			g[p.d+1+c] = propensity[at]
			all += propensity[at]
		}
		for i, t := range p.terms {
			g[p.d+1+len(p.Cells)+i] = (propensity[t.place] - t.centre*all) / t.scale
		}
	}
	return g
}

// root returns a vector whose products with itself and with that of another functional are their variance and their
// covariance. It is known where V is exact.
func (p *Posterior) root(link, propensity []float64) []float64 {
	root := p.v.(factored).root(p.inTheta(link, propensity))
	for _, v := range p.variants() {
		root = append(root, p.move(v, link, propensity))
	}
	return root
}

// variants returns the moves with what was learned besides θ.
func (p *Posterior) variants() []variant { return slices.Concat(p.hyper, p.seen) }

// place returns which parameter of the propensity model a cell is, or after the cells a term.
func (p *Posterior) place(i int) int32 {
	if i < len(p.Cells) {
		return p.Cells[i]
	}
	return p.terms[i-len(p.Cells)].place
}

// cellCovariance returns the covariance of the propensity logits, row by row.
func (p *Posterior) cellCovariance() (v []float64, n int) {
	v, n = slices.Clone(p.v.ofCells()), len(p.Cells)
	for _, h := range p.variants() {
		for a, x := range h.logits[:n] {
			for b, y := range h.logits[:n] {
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
func (p *Posterior) Draws() int { return p.v.draws() }

// Replicates returns the number of simulated histories.
func (p *Posterior) Replicates() int { return len(p.replicates) }

// tensors returns what a model file keeps of the posterior: V and the replicates.
func (p *Posterior) tensors() []model.Tensor {
	width := p.d + 1
	caseControl := 0.
	if p.caseControl {
		caseControl = 1
	}
	var truths, links, logits []float32
	for _, r := range p.replicates {
		truths, links, logits = append(truths, r.truth...), append(links, r.link...), append(logits, r.logits...)
	}
	count, exposures := len(p.replicates), len(p.Cells)+len(p.terms)
	varied := func(name string, moves []variant) []model.Tensor {
		var links, logits []float32
		for _, v := range moves {
			links, logits = append(links, v.link...), append(logits, v.logits...)
		}
		return []model.Tensor{{Name: name + ".link", Shape: []int{len(moves), width}, Data: links},
			{Name: name + ".logits", Shape: []int{len(moves), exposures}, Data: logits}}
	}
	out := []model.Tensor{
		{Name: "posterior.numbers", Shape: []int{6}, Data: []float64{p.Alpha, p.Tau[0], p.Tau[1], p.unit, p.scale,
			caseControl}},
		{Name: "posterior.cells", Shape: []int{len(p.Cells)}, Data: p.Cells},
		p.v.tensor(),
		{Name: "posterior.replicates.truth", Shape: []int{count, width}, Data: truths},
		{Name: "posterior.replicates.link", Shape: []int{count, width}, Data: links},
		{Name: "posterior.replicates.logits", Shape: []int{count, exposures}, Data: logits},
	}
	out = append(out, varied("posterior.prior", p.hyper)...)
	if len(p.seen) > 0 {
		out = append(out, varied("posterior.seen", p.seen)...)
	}
	if len(p.terms) > 0 {
		var terms []float64
		for _, t := range p.terms {
			terms = append(terms, float64(t.place), t.scale, t.centre)
		}
		out = append(out, model.Tensor{Name: "posterior.terms", Shape: []int{len(p.terms), 3}, Data: terms},
			model.Tensor{Name: "posterior.truth", Shape: []int{exposures}, Data: p.truth})
	}
	return out
}

// PosteriorOf returns the posterior that a model file keeps; nil for a method that has none.
func PosteriorOf(m model.Model) (*Posterior, error) {
	t := tensorReader{}
	for _, tensor := range m.Extra {
		t[tensor.Name] = tensor
	}
	_, factored := t["posterior.factor"]
	_, drawn := t["posterior.draws"]
	if !factored && !drawn {
		return nil, nil
	}
	cells, err1 := tensorOf[int32](t, "posterior.cells", -1)
	numbers, err2 := tensorOf[float64](t, "posterior.numbers", 6)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	for _, c := range cells {
		if uint32(c) >= uint32(len(m.PropensityParams)) {
			return nil, fmt.Errorf("%w: the model's posterior has field pair %d of %d; fit the model again",
				ErrShape, c, len(m.PropensityParams))
		}
	}
	width := len(m.LinkParams)
	p := &Posterior{Alpha: numbers[0], Tau: [2]float64{numbers[1], numbers[2]}, Cells: cells, unit: numbers[3],
		scale: numbers[4], caseControl: numbers[5] != 0, seed: m.Seed, d: width - 1}
	if err := p.readTerms(t, len(m.PropensityParams)); err != nil {
		return nil, err
	}
	exposures := len(cells) + len(p.terms)
	p.hyper, err1 = t.variants("posterior.prior", width, exposures)
	if _, has := t["posterior.seen.link"]; has {
		p.seen, err2 = t.variants("posterior.seen", width, exposures)
	}
	truths, err3 := t.rows("posterior.replicates.truth", width, -1)
	links, err4 := t.rows("posterior.replicates.link", width, len(truths))
	logits, err5 := t.rows("posterior.replicates.logits", exposures, len(truths))
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	for k := range truths {
		p.replicates = append(p.replicates, replicate{truth: truths[k], link: links[k], logits: logits[k]})
	}
	var err error
	p.v, err = t.covariance(width-1, len(cells), len(p.terms))
	return p, err
}

// readTerms reads what exposure depends on besides the fields; nothing where there is no such tensor.
func (p *Posterior) readTerms(t tensorReader, params int) error {
	if _, has := t["posterior.terms"]; !has {
		return nil
	}
	numbers, err := tensorOf[float64](t, "posterior.terms", -1)
	if err != nil {
		return err
	}
	for row := range slices.Chunk(numbers, 3) {
		if len(row) != 3 || !(row[0] >= 0 && row[0] < float64(params)) || !(row[1] > 0) {
			return misfit("posterior.terms")
		}
		p.terms = append(p.terms, postedTerm{int32(row[0]), row[1], row[2]})
	}
	p.truth, err = tensorOf[float32](t, "posterior.truth", len(p.Cells)+len(p.terms))
	return err
}

// tensorReader is the tensors of a model file, by name.
type tensorReader map[string]model.Tensor

// covariance returns the factor or the draws.
func (t tensorReader) covariance(d, cells, terms int) (covariance, error) {
	n := d + 1 + cells + terms
	if _, drawn := t["posterior.draws"]; drawn {
		joint, err := t.rows("posterior.draws", n, -1)
		if err != nil || len(joint) == 0 {
			return nil, cmp.Or(err, misfit("posterior.draws"))
		}
		return &drawnCovariance{d: d, joint: joint}, nil
	}
	factor, err := tensorOf[float32](t, "posterior.factor", n*(n+1)/2)
	if err != nil {
		return nil, err
	}
	triangle := make([]float64, len(factor))
	for i, x := range factor {
		triangle[i] = float64(x)
	}
	v := &exactCovariance{d: d, count: cells, factor: fromLower(triangle, n)}
	for i := range n {
		if !(v.factor.Data[i*n+i] > 0) {
			return nil, fmt.Errorf("%w: the model's posterior is not positive definite; fit the model again", ErrShape)
		}
	}
	return v, nil
}

// variants returns the moves that two tensors of a name keep.
func (t tensorReader) variants(name string, width, exposures int) (out []variant, err error) {
	links, err1 := t.rows(name+".link", width, -1)
	logits, err2 := t.rows(name+".logits", exposures, len(links))
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	for k := range links {
		out = append(out, variant{link: links[k], logits: logits[k]})
	}
	return out, nil
}

// rows returns a tensor row by row; a negative number of rows means any.
func (t tensorReader) rows(name string, width, rows int) ([][]float32, error) {
	count := rows * width
	if rows < 0 {
		count = -1
	}
	values, err := tensorOf[float32](t, name, count)
	if err != nil || rows < 0 && (width == 0 || len(values)%width != 0) {
		return nil, cmp.Or(err, misfit(name))
	}
	if rows < 0 {
		rows = len(values) / width
	}
	out := make([][]float32, rows)
	for i := range out {
		out[i] = values[i*width : (i+1)*width]
	}
	return out, nil
}

// tensorOf returns the numbers of a tensor; a negative count means any.
func tensorOf[T any](t tensorReader, name string, count int) ([]T, error) {
	values, ok := t[name].Data.([]T)
	if !ok || count >= 0 && len(values) != count {
		return nil, misfit(name)
	}
	return values, nil
}

func misfit(name string) error {
	return fmt.Errorf("%w: the model's tensor %s is missing or does not fit its weights and field pairs; fit "+
		"the model again", ErrShape, name)
}
