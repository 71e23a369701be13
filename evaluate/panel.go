package evaluate

import (
	"context"
	"fmt"
	"math"
	"strings"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/risk"
	"unseen/sample"
)

// Panel is what every estimator says of a model, beside what is known of the estimators themselves.
type Panel struct {
	Risks    []PanelRow    `json:"risks"` // by the schemes of risk.Panel and, where exposure is logged, dr
	MeanLink fit.Judgement `json:"meanLink"`
	Region   []RegionRow   `json:"region"`
	Exact    *engine.Means `json:"exact,omitempty"` // over all pairs of the universe, if that was asked for
	// Fields are the same by the fields of source and target, if that was asked for
	Fields   []FieldPairMeans `json:"exactFields,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`
}

// FieldPairMeans are means over all pairs from one field to another.
type FieldPairMeans struct {
	Source string       `json:"sourceField"`
	Target string       `json:"targetField"`
	Means  engine.Means `json:"means"`
}

// PanelRow is one estimator's opinion.
//
// Bias and Deviation are the lemmas' for the 0–1 loss, had π̂ and ŷ been the truth: what the naive
// risk is wrong by even then, and how far each estimate scatters over the links that chance could have
// drawn. In that case w, pu and ap have no bias; Region tells what they have if π̂ is wrong.
type PanelRow struct {
	Scheme    string        `json:"scheme"`
	Risk      fit.Judgement `json:"risk"`
	Bias      float64       `json:"plugInBias"`
	Deviation float64       `json:"plugInDeviation"`
	// Exact is the same risk computed over all pairs of which the evidence is a sample, less the same bias: it differs
	// from Risk by what the sampling of pairs brings, and by nothing else.
	Exact *float64 `json:"exact,omitempty"`

	// Against is by how much the risk is above that of the evaluation's own model, on the same pairs and by the same π̂
	// and ŷ; nil for that model itself.
	Against *fit.Judgement `json:"against,omitempty"`

	// Set is from the least to the most that the risk can be under the assumptions that explain the links, AgainstSet
	// the same of the difference; nil where assumptions were not compared, and for the naive risk, which has none.
	Set        *fit.SetRange `json:"set,omitempty"`
	AgainstSet *fit.SetRange `json:"againstSet,omitempty"`
}

// Label is the name of the estimator in texts: R_AP.
func (r PanelRow) Label() string { return risk.Label(r.Scheme) }

// RegionRow supposes that π̂ is wrong by a factor, π = π̂/Factor, while π·y, which the links show, is
// right: y = ŷ·Factor, at most 1.
type RegionRow struct {
	Factor float64 `json:"factor"`
	// share of pairs with π/(2−π) < π̂ < 1: w and pu are less biased than naive
	HoldsW  float64            `json:"holdsW"`
	HoldsAP float64            `json:"holdsAP"` // the same for ap, whose condition is another
	Bias    map[string]float64 `json:"bias"`    // of each scheme that has a lemma
}

// PanelSettings say what a panel looks at. The zero value is a good choice.
type PanelSettings struct {
	Floor float64 // least propensity that the estimators see; 0 means none
	// Graph and Universe are what the evidence was sampled from. With a Graph the risks are also computed over all
	// pairs of the universe; see Exact.
	Graph    *graph.Graph
	Universe graph.Universe
	ByFields bool // also by the fields of source and target
	Threads  int  // 0 means all processors; results do not depend on it
	// Predictions are another model's logits, one for each pair of the evidence, which is then what is
	// judged, by the judge's π̂ and ŷ; nil means the judge's own. They leave Exact out.
	Predictions []float32
}

// regionFactors are how wrong π̂ is supposed to be: by 10 to 50 per cent, either way.
var regionFactors = []float64{.5, .6, .7, .8, .9, 1, 1.1, 1.2, 1.3, 1.4, 1.5}

// NewPanel judges a model by held-out pairs.
func NewPanel(ctx context.Context, j *fit.Judge, v sample.Evidence, s PanelSettings) (*Panel, error) {
	found, err := j.Panel(ctx, v, s.Floor, s.Predictions)
	if err != nil {
		return nil, err
	}
	p := &Panel{MeanLink: found.MeanLink}
	if s.Graph != nil && s.Predictions == nil {
		if err := p.sumAll(ctx, j, s); err != nil {
			return nil, err
		}
	}
	beliefs, decisions, err := beliefsOf(ctx, j, v.Pairs, s.Predictions)
	if err != nil {
		return nil, err
	}
	moments := momentsOf(beliefs, decisions, v.Pairs.Weight, 1)
	for i, name := range append(risk.Panel(), "dr") {
		e, ok := found.Risks[name]
		if !ok {
			continue
		}
		row := PanelRow{Scheme: name, Risk: possible(name, e)}
		if i < len(lemmas) && lemmas[i].Lemma != nil {
			row.Bias, row.Deviation = moments[i].Bias, math.Sqrt(moments[i].Variance)
		}
		if x, known := exactOf(name, p.Exact); known {
			if x -= e.Plain - e.Estimate; name != "pu" { // the bias
				x = max(x, 0)
			}
			row.Exact = &x
		}
		p.Risks = append(p.Risks, row)
	}
	p.Region = make([]RegionRow, len(regionFactors))
	if err := kern.ChunksErr(ctx, len(regionFactors), 1, kern.Threads(s.Threads), func(_, number, _, _ int) error {
		p.Region[number] = regionAt(beliefs, decisions, v.Pairs.Weight, regionFactors[number])
		return nil
	}); err != nil {
		return nil, err
	}
	p.warn()
	var clipped, total float64
	for k, b := range beliefs {
		total += v.Pairs.Weight[k]
		if b.Propensity() < s.Floor {
			clipped += v.Pairs.Weight[k]
		}
	}
	if clipped > total/10 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%.0f%% of the held-out pairs have a π̂ below the floor %g, which "+
			"R_w and R_PU use instead here, whatever training used: both are too low; prefer R_AP", 100*clipped/total,
			s.Floor))
	}
	return p, nil
}

// possible cuts a risk and its interval at 0: a log-loss is never below. R_PU alone can be, whose masses can.
func possible(scheme string, e fit.Judgement) fit.Judgement {
	if scheme != "pu" {
		e.Estimate, e.Lower, e.Upper = max(e.Estimate, 0), max(e.Lower, 0), max(e.Upper, 0)
	}
	return e
}

// sumAll computes the risks over all pairs of the universe.
func (p *Panel) sumAll(ctx context.Context, j *fit.Judge, s PanelSettings) error {
	by := engine.OrCPU(j.Engine, s.Threads)
	if !s.ByFields {
		means, err := by.AllPairs(ctx, s.Graph, j.Predictor, s.Universe, s.Floor)
		p.Exact = &means
		return err
	}
	fields, can := by.(engine.FieldSummer)
	if !can {
		return fmt.Errorf("%w: sums over all pairs by fields; sum all pairs together", engine.ErrUnsupported)
	}
	cells, err := fields.AllPairsByField(ctx, s.Graph, j.Predictor, s.Universe, s.Floor)
	for _, c := range cells {
		p.Fields = append(p.Fields, FieldPairMeans{s.Graph.FieldName(c.Source), s.Graph.FieldName(c.Target), c.Means})
	}
	means := engine.Overall(cells)
	p.Exact = &means
	return err
}

// theory is what is known of a scheme's bias and variance.
type theory struct {
	name       string
	risk.Lemma // nil where nothing is
}

// lemmas are the theory of the panel's schemes, in its order.
var lemmas = func() (all []theory) {
	for _, name := range risk.Panel() {
		scheme, err := risk.Lookup(name)
		if err != nil {
			panic(err) // only if risk does not know its own
		}
		lemma, _ := scheme.(risk.Lemma)
		all = append(all, theory{name, lemma})
	}
	return all
}()

// exactOf returns a scheme's mean over all pairs, if it was computed.
func exactOf(name string, m *engine.Means) (mean float64, known bool) {
	if m == nil {
		return 0, false
	}
	mean, known = map[string]float64{"naive": m.Naive, "w": m.W, "pu": m.PU, "ap": m.AP}[name]
	return mean, known
}

// beliefsOf returns what a judge believes of each pair, and whether a link is predicted there.
func beliefsOf(ctx context.Context, j *fit.Judge, p *graph.Pairs, predictions []float32) ([]risk.Belief, []bool,
	error) {
	z, s, err := j.Logits(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	beliefs, decisions := make([]risk.Belief, len(z)), make([]bool, len(z))
	for k := range z {
		if beliefs[k], err = risk.FromLogits(float64(z[k]), float64(s[k])); err != nil {
			return nil, nil, fmt.Errorf("pair %d: %w", k, err)
		}
		decisions[k] = z[k] >= 0
		if predictions != nil {
			decisions[k] = predictions[k] >= 0
		}
	}
	return beliefs, decisions, nil
}

// momentsOf returns the bias and variance of the estimators of the 0–1 risk of some decisions, by the lemmas,
// if π = π̂/factor and y = min(1, factor·ŷ). The lemmas are for predictions by the belief's own ŷ; a
// decision that differs turns the sign of the bias and, for w, the kind of mass that errs.
func momentsOf(beliefs []risk.Belief, decisions []bool, weights []float64, factor float64) []risk.Moments {
	all, bias, variance := make([]risk.Moments, len(lemmas)), make([]risk.Sum, len(lemmas)),
		make([]risk.Sum, len(lemmas))
	var total risk.Sum
	for k, b := range beliefs {
		t := supposed(b, factor)
		observed := t.Propensity * t.Link
		for i, l := range lemmas {
			if l.Lemma == nil {
				continue
			}
			term, spread := l.BiasTerm(t, b), l.VarianceFactor(b)
			if decisions[k] != b.Predicted() {
				term = -term
				if _, isW := l.Lemma.(risk.W); isW {
					other := risk.Lemma(risk.PU{})
					if decisions[k] {
						other = risk.AP{}
					}
					term, spread = -other.BiasTerm(t, b), other.VarianceFactor(b)
				}
			}
			bias[i].Add(-weights[k] * term) // the lemmas have R − E[R̂]
			variance[i].Add(weights[k] * observed * (1 - observed) * spread)
		}
		total.Add(weights[k])
	}
	n := total.Value()
	for i := range all {
		all[i] = risk.Moments{Bias: bias[i].Value() / n, Variance: variance[i].Value() / n / n}
	}
	return all
}

func supposed(b risk.Belief, factor float64) risk.Truth {
	return risk.Truth{Propensity: math.Min(b.Propensity()/factor, 1), Link: math.Min(b.Link()*factor, 1)}
}

func regionAt(beliefs []risk.Belief, decisions []bool, weights []float64, factor float64) RegionRow {
	row := RegionRow{Factor: factor, Bias: map[string]float64{}}
	var holdsW, holdsAP, total float64
	for k, b := range beliefs {
		t := supposed(b, factor)
		if risk.LowerBiasW(t.Propensity, b.Propensity()) {
			holdsW += weights[k]
		}
		if risk.LowerBiasAP(t, b) {
			holdsAP += weights[k]
		}
		total += weights[k]
	}
	row.HoldsW, row.HoldsAP = holdsW/total, holdsAP/total
	for i, m := range momentsOf(beliefs, decisions, weights, factor) {
		if lemmas[i].Lemma != nil {
			row.Bias[lemmas[i].name] = m.Bias
		}
	}
	return row
}

// warn says in words where the numbers are weak.
func (p *Panel) warn() {
	var naive, ap *PanelRow
	for i := range p.Risks {
		row := &p.Risks[i]
		switch row.Scheme {
		case "naive":
			naive = row
		case "ap":
			ap = row
		case "pu":
			if row.Risk.Interval.Estimate < 0 {
				p.Warnings = append(p.Warnings,
					fmt.Sprintf("R_PU is %.3g, below 0: propensities are small where links are, so its weights "+
						"1/π̂ vary widely; prefer R_AP", row.Risk.Interval.Estimate))
			}
		}
	}
	if ap == nil || naive == nil {
		return
	}
	var excluded []string
	for i := range p.Risks {
		row := &p.Risks[i]
		if row.Scheme == "w" || row.Scheme == "pu" {
			if width, best := row.Risk.Upper-row.Risk.Lower, ap.Risk.Upper-ap.Risk.Lower; width > 3*best {
				p.Warnings = append(p.Warnings,
					fmt.Sprintf("the interval of %s is %.0f times as wide as that of R_AP: a few pairs with "+
						"small π̂ dominate it", row.Label(), width/best))
			}
			if row.Risk.Upper < ap.Risk.Lower || row.Risk.Lower > ap.Risk.Upper {
				excluded = append(excluded, row.Label())
			}
		}
	}
	if len(excluded) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("R_AP and %s estimate the same risk, but their intervals "+
			"do not overlap: links are seen more or less often than π̂ŷ predicts, most of all where π̂ is small; "+
			"do not rely on the value of the risk", strings.Join(excluded, ", ")))
	}
	if naive.Risk.Lower <= ap.Risk.Upper && naive.Risk.Upper >= ap.Risk.Lower {
		p.Warnings = append(p.Warnings, "the intervals of the naive risk and of R_AP overlap: on these pairs "+
			"the correction is within the uncertainty")
	}
}
