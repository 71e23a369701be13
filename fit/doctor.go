package fit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/risk"
	"unseen/sample"
)

// Findings are the doctor's verdict on a fit: how far its numbers can be trusted, why, and what would
// help. The result and its model file have them.
type Findings struct {
	Class   Class    `json:"class"`
	Verdict []string `json:"verdict"` // in plain words
	// Advice is what to do, the most useful first.
	Advice []hint.Note `json:"advice"`

	// Tests are those of what the model assumes of exposure, and Set what the links allow to be said; only bayes has
	// them, and not with a quick doctor.
	Tests []Refutation `json:"tests,omitempty"`
	Set   *ClaimSet    `json:"set,omitempty"`

	// Lists is what these assumptions make of lists.
	Lists *ListFindings `json:"lists,omitempty"`

	// Factors says that relevance is by learned factors: without a log, they take in exposure. Assumptions of exposure
	// are not compared, and Bounds are what holds under all of them.
	Factors bool          `json:"factors,omitempty"`
	Bounds  *FactorBounds `json:"bounds,omitempty"`

	// Exposure is what π̂ depends on where that is more than fields, such as "fields+text".
	Exposure string `json:"exposure,omitempty"`

	Support  Support       `json:"support"`
	MeanLink Scale         `json:"meanLink"`
	Ratio    *Ratio        `json:"ratio,omitempty"` // of π̂ among pairs of one field to that of two
	Cells    []CellFinding `json:"cells,omitempty"`
	Starts   Range         `json:"starts"` // of mean ŷ over the starts
	Ridge    []RidgePoint  `json:"ridge,omitempty"`
	Logged   []LoggedTest  `json:"logged,omitempty"` // all pairs, then those of one field and of two
	Offered  *OfferedTest  `json:"offered,omitempty"`
	Anchors  []AnchorTest  `json:"anchors,omitempty"`
	// Prescription is what would tell the scale where the assumptions were compared.
	Prescription *Prescription `json:"prescription,omitempty"`
	Echo         float64       `json:"echo,omitempty"` // how far the vectors follow from the links
	// Rare is the mean π̂ of pairs of one field where it is too small to be confirmed by links; else 0.
	Rare float64 `json:"rare,omitempty"`

	// Refresh is how far the model is from the last full training, from which it has Tests, Set, Lists, Starts, Ridge,
	// Prescription, Bounds, and Logged of bayes; nil where it was trained in full.
	Refresh *RefreshFindings `json:"refresh,omitempty"`
}

// UnmarshalJSON reads findings. Those of earlier versions call a scale identified or weak where no other assumptions
// were compared; it is not checked.
func (f *Findings) UnmarshalJSON(raw []byte) error {
	type plain Findings
	if err := json.Unmarshal(raw, (*plain)(f)); err != nil {
		return err
	}
	if f.Set == nil && (f.Class == Identified || f.Class == Weak && f.Echo < graph.EchoFrom && f.Rare == 0 &&
		!f.contradicted()) {
		f.Class = NotChecked
		f.Verdict = []string{"Whether other assumptions explain the links as well was not checked: an earlier " +
			"version examined this model."}
	}
	return nil
}

// Class says how far links separate relevance from exposure.
type Class string

// The classes, from most to least trustworthy.
const (
	// Identified: no test refutes the model, and all assumptions that explain the links as well
	// agree within a factor of 1.5. A ceiling on relevance cannot be seen in links, so that without
	// a log or an anchor the scale is known on one side.
	Identified    Class = "identified"
	Weak          Class = "weak"           // they agree within a factor of 3, or something else is wrong
	NotIdentified Class = "not identified" // they do not
	NotChecked    Class = "not checked"    // they were not compared
	Unmeasured    Class = "unmeasured"     // the method gives no standard errors
	NoExposure    Class = "no exposure"    // the model has no propensities: ŷ is P(shown and linked)
)

// Label is the class in a word for people: what was not measured was not checked.
func (c Class) Label() string {
	if c == Unmeasured || c == "" {
		return string(NotChecked)
	}
	return string(c)
}

// Where the classes begin, in √(SE² + bias²) of log mean ŷ.
//
// Chosen on generated worlds of 3,000 nodes and 8 even fields, seeds 1000 to 1040, which no test
// uses. There it was .04–.08 on saturated worlds (8,000 pairs, 64 dimensions), .08–.09 on
// saturated-rare ones of 240,000 pairs and .10–.15 on those of 60,000 (some 180 links), .08–.10 on
// flat-rare ones of which 600 pairs are logged, and .31–.85 on flat-rare ones without. Intervals
// held in nine of ten worlds up to .15 and in half of the flat-rare ones: so the upper threshold
// lies in the gap between, and the lower where an interval is a fifth of the value to either side.
// On fresh seeds (TestCoverage, 100 from 7000) no flat-rare world came out better than not identified;
// intervals of mean ŷ held in .91 of the saturated worlds, all identified, .96 of the saturated-rare ones (94
// identified, 6 weak), .97 of the flat-rare ones with 600 logged pairs (88 identified, 12 weak; the mean ŷ is
// off by 8%, root mean square), and .96 of case-control samples, all identified. Intervals of R_AP held in .95
// to .99 of them, for the model itself and for a naive one.
const (
	weakFrom    = .10
	unknownFrom = .20
)

// Support is what the fit rests on.
type Support struct {
	Pairs     int     `json:"pairs"`
	Links     int     `json:"links"`
	Sources   int     `json:"sources"`
	Effective float64 `json:"effective"`         // (Σω)²/Σω²: how many pairs of equal weight have the same variance
	Cells     int     `json:"cells"`             // field pairs that occur
	Thin      int     `json:"thin"`              // of those, with fewer than thinLinks links
	Logged    int     `json:"logged"`            // pairs whose exposure is logged
	Offered   int     `json:"offered,omitempty"` // pairs that were shown on purpose
	Clipped   float64 `json:"clipped"`           // weighted share of pairs whose π̂ is below the floor
	// Examined is the number of pairs whose ŷ was computed: all, or those of some sources if there are very many.
	Examined int `json:"examined"`
}

// thinLinks is the least number of links from which a propensity is estimated usefully: with a standard
// error of log π̂ of about 1/√5.
const thinLinks = 5

// Scale is mean ŷ over all pairs, which is where an error in the scale of π̂ shows. Error and Bias
// are of log mean ŷ: Error = √(gᵀVg) with g = Σ ω·ŷ(1−ŷ)·x / Σ ω·ŷ, Bias from the replicates. The
// interval is valid where the scale is identified; elsewhere it is too narrow.
type Scale struct {
	Value    float64 `json:"value"`
	Error    float64 `json:"error"`
	Bias     float64 `json:"bias"`
	Sampling float64 `json:"sampling"` // standard error of log mean ŷ from having sampled pairs
	Lower    float64 `json:"lower"`    // log mean ŷ ± 1.96·√(Error² + Bias² + Sampling²); 0 without a posterior
	Upper    float64 `json:"upper"`
}

// Total returns √(Error² + Bias²), by which the class is decided.
func (s Scale) Total() float64 { return math.Hypot(s.Error, s.Bias) }

// Ratio is a ratio of mean propensities, at equal vectors where π̂ depends on fields alone, with an interval where
// there is a posterior. The interval is that of the model's own assumptions; ClaimSet has what others allow.
type Ratio struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"` // standard error of its logarithm
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// CellFinding is what is known of one ordered pair of fields.
type CellFinding struct {
	Source     uint16  `json:"source"` // fields
	Target     uint16  `json:"target"`
	Pairs      int     `json:"pairs"`
	Links      int     `json:"links"`
	Propensity float64 `json:"propensity"`           // mean π̂
	LogitError float64 `json:"logitError,omitempty"` // standard error of ŝ
	Lower      float64 `json:"lower,omitempty"`      // σ(ŝ ± 1.96·LogitError)
	Upper      float64 `json:"upper,omitempty"`
	Relative   Ratio   `json:"relative"` // to the mean π̂ of all pairs
}

// Range is the least and the largest of several values.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// RidgePoint is the model with the odds of every π̂ multiplied by a factor and the intercept of ŷ
// fitted again: where the scale is not identified, mean ŷ and the risk move and the likelihood does
// not. (w stays, so that the likelihood falls a little faster than it must.)
type RidgePoint struct {
	Factor     float64 `json:"factor"`
	Propensity float64 `json:"propensity"` // mean π̂
	MeanLink   float64 `json:"meanLink"`
	Risk       float64 `json:"risk"`       // R_AP of the fitted ŷ, judged with these
	Likelihood float64 `json:"likelihood"` // log-likelihood of the training pairs less that at factor 1
}

// Diagnose examines a fit on the pairs that it learned from. It uses the propensities, links and logs of all
// of them; ŷ, which costs as much as training does, of up to about 1,048,576, or 131,072 if the model has no
// exposure or was refreshed, or 32,768 if it was refreshed without a posterior: all pairs of some sources, always the
// same ones.
func Diagnose(ctx context.Context, p sample.Problem, r *Result) (*Findings, error) {
	switch {
	case r.earlier != nil && r.Posterior == nil: // it is a matter of a second
		return diagnose(ctx, p, r, examinedPairs/32)
	case r.Propensity.Size() == 0, r.earlier != nil: // there is no scale to be wrong about, or it was examined in full
		return diagnose(ctx, p, r, examinedPairs/8)
	}
	return diagnose(ctx, p, r, examinedPairs)
}

// examinedPairs is about how many pairs mean ŷ is computed from. The standard error from leaving out the
// others is part of Scale.Sampling.
const examinedPairs = 1 << 20

func diagnose(ctx context.Context, p sample.Problem, r *Result, most int) (*Findings, error) {
	d := &diagnosis{problem: p, result: r, found: &Findings{Class: Unmeasured, Echo: p.Echo,
		Factors: ofFactors(r.Link.Kind())}, most: most}
	if terms := r.learnedTerms(); len(terms) > 0 {
		d.found.Exposure = exposureName(terms)
	}
	if err := d.tally(ctx); err != nil {
		return nil, err
	}
	if err := d.measureScale(ctx); err != nil {
		return nil, err
	}
	if err := d.measureCells(ctx); err != nil {
		return nil, err
	}
	if d.result.Propensity.Size() > 0 && r.earlier == nil {
		if err := d.walkRidge(ctx); err != nil {
			return nil, err
		}
	}
	d.testLogs()
	d.testAnchors()
	if d.found.Lists = r.lists; r.earlier != nil {
		d.carry(r.earlier.findings)
	} else {
		d.bound()
	}
	if err := d.testOffers(ctx); err != nil {
		return nil, err
	}
	if d.claim(); r.earlier == nil {
		d.prescribe()
	}
	d.classify()
	if err := d.sinceFull(ctx); err != nil {
		return nil, err
	}
	d.writeVerdict()
	return d.found, nil
}

// diagnosis is one call of Diagnose.
type diagnosis struct {
	problem sample.Problem
	result  *Result
	found   *Findings

	most   int                  // pairs whose ŷ is computed
	cells  []*cellSum           // of the field pairs that occur, by source and then by target
	cellOf func(k int) *cellSum // of training pair k
	sums   PairTally            // without its cells
	ridge  ridge

	measured  bool       // the scale has a standard error
	riskError float64    // of R_AP: its bias and the standard error from having sampled pairs, together
	ownRisk   *Judgement // R_AP as the model itself has it, with its interval; nil without a posterior
}

// fieldPair is an ordered pair of fields. With 65,535 fields there are more than an int32 can number, so those that
// occur are numbered.
type fieldPair struct{ source, target uint16 }

// cellSum is what the training pairs of one field pair add up to.
type cellSum struct {
	fieldPair
	same          bool
	pairs, links  int
	weight, shown float64 // Σω, Σω·π̂
	loggedWeight  float64 // Σω over logged pairs
	// over logged pairs, a linked one times its rate: where links are sampled more often than others, they count less
	logged, exposed float64
	expected        float64 // Σπ̂
	variance        float64 // Σπ̂(1−π̂)
}

// sum adds up the training pairs by pair of fields. It needs only propensities, which are cheap and, unless they
// depend on the text, no vectors.
func (d *diagnosis) sum(ctx context.Context, e engine.Engine, by engine.Predictor, floor float64) error {
	p, n := d.problem, d.problem.Train.Len()
	d.sums.Pairs = int64(n)
	d.cellOf = d.cellFinder()
	sources := make([]bool, p.Nodes.Len())
	var weight, squares, clipped risk.Sum
	exposure := by.Exposure()
	logits := make([]float32, min(n, logitsAtOnce))
	for first := 0; first < n; first += len(logits) {
		count := min(len(logits), n-first)
		_, err := e.Scan(ctx, engine.Scan{Pairs: pairsBetween(p.Train, first, first+count),
			Versions: []engine.Predictor{exposure}, Portion: engine.ScanChunk, Visit: func(at engine.Portion) error {
				copy(logits[at.From:at.To], at.Propensity[0])
				return nil
			}})
		if err != nil {
			return err
		}
		for i, s := range logits[:count] {
			k := first + i
			w, pi := p.Train.Weight[k], d.add(d.cellOf(k), k, float64(s))
			sources[p.Train.Source[k]] = true
			weight.Add(w)
			squares.Add(w * w)
			if pi < floor {
				clipped.Add(w)
			}
		}
	}
	d.sums.Weight, d.sums.Squares, d.sums.Clipped = weight.Value(), squares.Value(), clipped.Value()
	for i, occurs := range sources {
		if occurs {
			d.sums.Sources = append(d.sums.Sources, p.Nodes.Number(int32(i)))
		}
	}
	return nil
}

// tally finds what the fit rests on: what all training pairs add up to.
func (d *diagnosis) tally(ctx context.Context) error {
	r := d.result
	if all := r.all; all.whole() {
		t, err := all.Tally(ctx, all.predictor(r), d.floor())
		if err != nil {
			return err
		}
		d.take(t)
	} else if err := d.sum(ctx, r.Settings.engine(), r.predictor(), d.floor()); err != nil {
		return err
	}
	slices.SortFunc(d.cells, func(a, b *cellSum) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.target, b.target))
	})
	support, sums := &d.found.Support, &d.sums
	support.Pairs, support.Logged, support.Offered = int(sums.Pairs), int(sums.Logged), int(sums.Offered)
	support.Sources, support.Cells = len(sums.Sources), len(d.cells)
	support.Effective = sums.Weight * sums.Weight / sums.Squares
	support.Clipped = sums.Clipped / sums.Weight
	for _, c := range d.cells {
		support.Links += c.links
		if c.links < thinLinks {
			support.Thin++
		}
	}
	for i, start := range r.Starts {
		if i == 0 {
			d.found.Starts = Range{start.MeanLink, start.MeanLink}
		}
		d.found.Starts = Range{math.Min(d.found.Starts.Low, start.MeanLink),
			math.Max(d.found.Starts.High, start.MeanLink)}
	}
	return nil
}

// cellFinder returns a function that finds the cell of training pair k, and adds it to the cells if it is new.
func (d *diagnosis) cellFinder() func(k int) *cellSum {
	nodes, train := d.problem.Nodes, d.problem.Train
	table := make([]*cellSum, min(nodes.FieldCount*nodes.FieldCount, 1<<16)) // the first of them, found faster
	rest := map[fieldPair]*cellSum{}
	for _, c := range d.cells { // that are known already
		if at := int(c.source)*nodes.FieldCount + int(c.target); at < len(table) {
			table[at] = c
		} else {
			rest[c.fieldPair] = c
		}
	}
	return func(k int) *cellSum {
		pair := fieldPair{nodes.Fields[train.Source[k]], nodes.Fields[train.Target[k]]}
		at := int(pair.source)*nodes.FieldCount + int(pair.target)
		var c *cellSum
		if at < len(table) {
			c = table[at]
		} else {
			c = rest[pair]
		}
		if c != nil {
			return c
		}
		c = &cellSum{fieldPair: pair, same: nodes.SameField(train.Source[k], train.Target[k])}
		if at < len(table) {
			table[at] = c
		} else {
			rest[pair] = c
		}
		d.cells = append(d.cells, c)
		return c
	}
}

// add adds training pair k with propensity logit s to its cell, and returns its π̂.
func (d *diagnosis) add(c *cellSum, k int, s float64) float64 {
	p := d.problem
	pi, rest := kern.Sigmoid64(s)
	w, linked := p.Train.Weight[k], p.Train.Linked[k]
	c.pairs++
	c.weight += w
	c.shown += w * pi
	if linked {
		c.links++
	}
	if p.Exposure == nil || !isLogged(p.Exposure[k]) {
		if p.Exposure != nil && p.Exposure[k].IsOffered() {
			d.sums.Offered++
		}
		return pi
	}
	d.sums.Logged++
	c.loggedWeight += w
	times := loggedTimes(p.Train, k)
	c.logged += times
	c.expected += times * pi
	c.variance += times * times * pi * rest
	if p.Exposure[k] == risk.Exposed {
		c.exposed += times
	}
	return pi
}

// floor is the least propensity that a risk should see.
func (d *diagnosis) floor() float64 {
	if f := d.result.Settings.Floor; f > 0 {
		return f
	}
	return .05
}

// logitsAtOnce is how many propensities are kept at a time.
const logitsAtOnce = 1 << 16

// pairsBetween returns the pairs from ≤ k < to, in place.
func pairsBetween(p *graph.Pairs, from, to int) *graph.Pairs {
	return &graph.Pairs{Source: p.Source[from:to], Target: p.Target[from:to], Linked: p.Linked[from:to],
		Weight: p.Weight[from:to], Rate: p.Rate[from:to], Universe: p.Universe}
}

// examined returns the pairs that mean ŷ is computed from: all, or those of sources that are chosen by their
// number alone. Whole sources, because pairs of one source are alike: the standard error counts
// sources.
func (d *diagnosis) examined() sample.Evidence {
	p := d.problem
	n := p.Train.Len()
	if n <= d.most {
		return p.Training()
	}
	choice := evenChoice(1)
	choice.Sources = sourcesOf(float64(d.most) / float64(n))
	places := choice.Places(p)
	if len(places) < d.most/2 || len(places) > 2*d.most {
		// a few sources have most pairs: whole ones are too many or too few
		places = spaced(n, d.most)
	}
	return p.Training().At(places)
}

// sourcesOf is PairChoice.Sources of a share of them.
func sourcesOf(share float64) uint64 { return uint64(share * (1 << 32)) }

// measureScale finds how well mean ŷ is known, and what the model itself does not know of R_AP.
func (d *diagnosis) measureScale(ctx context.Context) error {
	judge, evidence := d.result.Judge(), sample.Evidence{}
	if all := d.result.all; all.whole() {
		var err error
		if judge, evidence, err = all.examined(ctx, d.result, d.most); err != nil {
			return err
		}
	} else {
		evidence = d.examined()
	}
	d.found.Support.Examined = evidence.Pairs.Len()
	found, err := judge.answer(ctx, question{Evidence: evidence,
		estimators: []risk.Estimator{meanLink, {Scheme: risk.AP{}}}})
	if errors.Is(err, risk.ErrClusters) { // a single source: nothing to compare
		return nil
	}
	if err != nil {
		return err
	}
	m := found[0]
	d.riskError = math.Hypot(found[1].Bias, found[1].Sampling)
	s := &d.found.MeanLink
	if d.measured = d.result.Posterior != nil; d.measured {
		d.ownRisk = &found[1]
	}
	*s = Scale{Value: m.Plain, Error: m.Nuisance / m.Plain, Bias: m.Bias / m.Plain, Sampling: m.Sampling / m.Plain}
	if d.result.replicated != nil {
		s.Error, d.measured = d.result.replicated.meanLinkError()
	}
	if e := d.result.earlier; e != nil && !d.measured && e.findings.MeanLink.Upper > 0 {
		s.Error, d.measured = e.findings.MeanLink.Error, true
	}
	if d.measured {
		width := 1.96 * math.Hypot(s.Total(), s.Sampling)
		s.Lower, s.Upper = s.Value*math.Exp(-width), math.Min(s.Value*math.Exp(width), 1)
	}
	return nil
}

// propensity is the mean π̂.
func (c *cellSum) propensity() float64 { return c.shown / c.weight }

// places returns where a posterior has its field pairs.
func (d *diagnosis) places(post *Posterior) map[fieldPair]int {
	fields := int32(d.problem.Nodes.FieldCount)
	places := make(map[fieldPair]int, len(post.Cells))
	for i, at := range post.Cells {
		places[fieldPair{uint16(at / fields), uint16(at % fields)}] = i
	}
	return places
}

// logitCovariance returns the covariance of the logits of the cells' π̂, by place in the posterior; nil without one.
func (d *diagnosis) logitCovariance(ctx context.Context) (v []float64, place map[fieldPair]int, err error) {
	post := d.result.Posterior
	if post == nil {
		v, place = d.result.replicated.covariance(d.cells)
		return v, place, nil
	}
	v, _ = post.cellCovariance()
	if place = d.places(post); len(post.terms) > 0 {
		v, err = d.meanCovariance(ctx, place)
	}
	return v, place, err
}

// measureCells finds how well the propensities and their ratios are known.
func (d *diagnosis) measureCells(ctx context.Context) error {
	if d.result.Propensity.Size() == 0 {
		return nil
	}
	v, place, err := d.logitCovariance(ctx)
	if err != nil {
		return err
	}
	size := len(place)
	var shown float64
	for _, c := range d.cells {
		shown += c.shown
	}
	// slope returns the gradient of log Σ_c share·π̂ over some cells
	slope := func(in func(*cellSum) bool) (total float64, g []float64) {
		g = make([]float64, size)
		for _, c := range d.cells {
			if in(c) {
				total += c.shown
				if v != nil {
					g[place[c.fieldPair]] = c.shown * (1 - c.propensity())
				}
			}
		}
		for i := range g {
			g[i] /= total
		}
		return total, g
	}
	_, all := slope(func(*cellSum) bool { return true })
	var withAll []float64
	var ofAll float64
	if v != nil {
		withAll = times(v, all)
		ofAll = dot(all, withAll)
	}
	for _, c := range d.cells {
		f := CellFinding{Source: c.source, Target: c.target, Pairs: c.pairs, Links: c.links,
			Propensity: c.propensity()}
		var variance float64 // of log π̂ less the logarithm of the mean of all
		if v != nil {
			i, one := place[c.fieldPair], 1-f.Propensity
			f.LogitError = math.Sqrt(v[i*size+i])
			logit := math.Log(f.Propensity / (1 - f.Propensity))
			f.Lower, _ = kern.Sigmoid64(logit - 1.96*f.LogitError)
			f.Upper, _ = kern.Sigmoid64(logit + 1.96*f.LogitError)
			variance = one*one*v[i*size+i] - 2*one*withAll[i] + ofAll
		}
		if v == nil {
			f.LogitError = d.earlierError(c.fieldPair)
		}
		if shown > 0 {
			f.Relative = ratioOf(f.Propensity*d.sums.Weight/shown, variance, v != nil)
		}
		d.found.Cells = append(d.found.Cells, f)
	}
	same, sameSlope := slope(func(c *cellSum) bool { return c.same })
	cross, crossSlope := slope(func(c *cellSum) bool { return !c.same })
	if same > 0 && cross > 0 {
		var sameWeight float64
		for _, c := range d.cells {
			if c.same {
				sameWeight += c.weight
			}
		}
		var variance float64
		if v != nil {
			for i, x := range crossSlope {
				sameSlope[i] -= x
			}
			variance = dot(sameSlope, times(v, sameSlope))
		}
		r := ratioOf(same/sameWeight/(cross/(d.sums.Weight-sameWeight)), variance, v != nil)
		d.found.Ratio = &r
	}
	return nil
}

// times returns V·g for a V given row by row.
func times(v, g []float64) []float64 {
	out := make([]float64, len(g))
	for i := range out {
		out[i] = dot(v[i*len(g):(i+1)*len(g)], g)
	}
	return out
}

// ratioOf returns a ratio whose logarithm has a variance, where that is known.
func ratioOf(value, variance float64, known bool) Ratio {
	if !known {
		return Ratio{Value: value}
	}
	err := math.Sqrt(math.Max(variance, 0))
	return Ratio{value, err, value * math.Exp(-1.96*err), value * math.Exp(1.96*err)}
}

// ridge is evenly spaced training pairs, with the logits of their ŷ and π̂.
type ridge struct {
	pairs *graph.Pairs
	z, s  []float64
}

// ridgePairs bounds the pairs that the ridge is walked with; they are evenly spaced.
const ridgePairs = 1 << 16

// walkRidge moves along the ridge of the likelihood.
func (d *diagnosis) walkRidge(ctx context.Context) error {
	p := d.problem
	likelihood, err := d.result.Settings.likelihood()
	if err != nil {
		return err
	}
	n := min(p.Train.Len(), ridgePairs)
	looked := p.Training().At(spaced(p.Train.Len(), n))
	pairs := looked.Pairs
	linkLogits, logits, err := d.result.Judge().Logits(ctx, pairs)
	if err != nil {
		return err
	}
	z, s, rate := make([]float64, n), make([]float64, n), make([]float64, n)
	d.ridge = ridge{pairs, z, s}
	for i := range z {
		z[i], s[i], rate[i] = float64(linkLogits[i]), float64(logits[i]), 1
		if likelihood == engine.CaseControl {
			rate[i] = pairs.Rate[i]
		}
	}
	seen := engine.Outcomes{Linked: pairs.Linked, Exposure: looked.Exposure}
	var first float64
	for _, factor := range []float64{1, .5, .8, 1.25, 2} {
		if err := ctx.Err(); err != nil {
			return err
		}
		moved := make([]float64, n)
		for i := range moved {
			moved[i] = s[i] + math.Log(factor)
		}
		shift, loss := seen.Intercept(z, moved, rate)
		point := RidgePoint{Factor: factor}
		var total float64
		for i, w := range pairs.Weight {
			belief, err := risk.FromLogits(z[i]+shift, moved[i])
			if err != nil {
				return err
			}
			e := risk.Estimator{Loss: fixedLoss{kern.Softplus64(-z[i]), kern.Softplus64(z[i])}}
			total += w
			point.Propensity += w * belief.Propensity()
			point.MeanLink += w * belief.Link()
			point.Risk += w * e.Risk(risk.Observation{Linked: pairs.Linked[i]}, belief)
		}
		point.Propensity, point.MeanLink, point.Risk = point.Propensity/total, point.MeanLink/total, point.Risk/total
		if factor == 1 {
			first = loss
		}
		point.Likelihood = (first - loss) * float64(p.Train.Len()) / float64(n)
		d.found.Ridge = append(d.found.Ridge, point)
	}
	slices.SortFunc(d.found.Ridge, func(a, b RidgePoint) int { return cmp.Compare(a.Factor, b.Factor) })
	return nil
}

func (d *diagnosis) classify() {
	f := d.found
	if starts := d.result.Starts; len(starts) > 0 && starts[0].MeanSame < rareFrom && len(f.Logged) == 0 {
		f.Rare = starts[0].MeanSame
	}
	switch total := f.MeanLink.Total(); {
	case d.result.Propensity.Size() == 0:
		f.Class = NoExposure
	case f.Factors && f.Support.Logged == 0:
		f.Class = NotIdentified
	case !d.measured:
		f.Class = Unmeasured
	case total > unknownFrom, f.collapsed(), f.Set != nil && f.Set.widest() > roughly:
		f.Class = NotIdentified
	case f.Echo >= graph.EchoFrom, f.Rare > 0, f.refuted(), f.contradicted():
		f.Class = Weak
	case f.Set == nil:
		f.Class = NotChecked
	case total > weakFrom, f.Set.widest() > narrow:
		f.Class = Weak
	default:
		f.Class = Identified
	}
}

// refuted reports whether any test refuted what the model assumes.
func (f *Findings) refuted() bool {
	return slices.ContainsFunc(f.Tests, func(r Refutation) bool { return r.Refuted })
}

// contradicted reports whether logged exposures, an anchor, or what became of offered pairs contradict what links say.
func (f *Findings) contradicted() bool {
	return slices.ContainsFunc(f.Anchors, AnchorTest.disagrees) || f.Set != nil && f.Set.Contradicted ||
		f.Offered != nil && math.Abs(f.Offered.Z) > surprising ||
		slices.ContainsFunc(f.Logged, func(t LoggedTest) bool { return math.Abs(t.z()) > surprising })
}

// Doubt says in words why not even a difference of risks by this model can be relied on; "" if nothing is known against
// it. What the claim set allows for is no such reason.
func (f *Findings) Doubt() string {
	switch {
	case f.collapsed():
		return "the evaluating model collapsed: it calls nearly every pair relevant"
	case f.Echo >= graph.EchoFrom:
		return "the vectors follow from the links, so that exposure is mistaken for relevance"
	case slices.ContainsFunc(f.Anchors, AnchorTest.disagrees):
		return "an anchor contradicts the links that the evaluating model was learned from"
	case f.contradicted():
		return "what was logged contradicts the evaluating model"
	}
	return ""
}

// rareFrom is the mean π̂ of pairs of one field below which a fit without logs is doubted, however
// sure it is of itself.
const rareFrom = .01

// collapsed reports whether the model calls everything relevant and explains all links by exposure. Its
// error of log mean ŷ is then 0, which says nothing: there is no ŷ left that could move.
func (f *Findings) collapsed() bool { return f.MeanLink.Value > .99 }

// Collapse says of a model that collapsed that it means nothing; "" of any other.
func (f *Findings) Collapse() string {
	if f.Class != NotIdentified || f.Factors || !f.collapsed() {
		return ""
	}
	return "The model collapsed: it calls nearly every pair relevant and explains all links by exposure, as happens " +
		"where there are too few links for the vectors' dimensions. Neither ŷ nor its ranking means anything."
}
