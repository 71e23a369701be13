package evaluate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/hint"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// EvaluationKind marks the JSON document of an Evaluation.
const EvaluationKind = "unseen-evaluation"

// Evaluation is all that can be said of a model on a dataset, by pairs that it was not fitted to. Its JSON
// form is a file that reports are made of.
type Evaluation struct {
	Kind    string    `json:"kind"`
	Model   string    `json:"model"` // the file's name
	Method  string    `json:"method"`
	Dataset string    `json:"dataset"`
	Held    string    `json:"held"` // how the pairs were held out, in words
	Pairs   int       `json:"pairs"`
	Links   int       `json:"links"`
	Nodes   int       `json:"nodes"`
	Class   fit.Class `json:"class,omitempty"` // the doctor's
	// Set is what all assumptions that explain the links as well say of the training pairs; nil if none were compared.
	Set *fit.ClaimSet `json:"set,omitempty"`

	Observed Observed `json:"observed"`
	Panel    *Panel   `json:"panel"`
	Others   []Other  `json:"others,omitempty"` // more models, judged by the π̂ and ŷ of this one
	Ranks    []Ranks  `json:"ranks,omitempty"`  // by ŷ and by π̂ŷ, if that was asked for

	Fairness    *Fairness    `json:"fairness,omitempty"`
	Certificate *Certificate `json:"certificate,omitempty"`
	Log         *LogRisk     `json:"log,omitempty"` // by what a service showed, with known probabilities
	Warnings    []string     `json:"warnings,omitempty"`

	findings *fit.Findings // nil if the model was not examined
}

// Observed judges scores by the links that happened: what was never shown counts as irrelevant. Pairs count
// for as many as they stand for. A mark that has no value is nil.
type Observed struct {
	AUC     *float64 `json:"auc"`     // of ŷ
	AUCSeen *float64 `json:"aucSeen"` // of π̂ŷ, the probability that a link is seen
	AP      *float64 `json:"averagePrecision"`
	APSeen  *float64 `json:"averagePrecisionSeen"`

	ROC         Line `json:"roc"`         // of ŷ: share of unlinked pairs above, share of linked ones
	Calibration Line `json:"calibration"` // of π̂ŷ: mean probability, share that is linked
}

// Line is points of a curve.
type Line struct {
	X []float64 `json:"x"`
	Y []float64 `json:"y"`
}

// Other is another model, judged by the same nuisances on the same pairs.
type Other struct {
	Model    string   `json:"model"`
	Method   string   `json:"method"`
	Observed Observed `json:"observed"`
	Panel    *Panel   `json:"panel"`
	Decision Decision `json:"decision"` // which of the two is better

	Ranks    []Ranks   `json:"ranks,omitempty"`
	Fairness *Fairness `json:"fairness,omitempty"` // by the merit that the first model sees
}

// Ranks says where held-out links come out among everything that their sources could have linked to. Means are over
// sources; a mark that has no value is nil.
type Ranks struct {
	By      By  `json:"by"`
	K       int `json:"k"`
	Sources int `json:"sources"`

	Recall      *float64 `json:"recall"`      // @K
	CrossRecall *float64 `json:"crossRecall"` // @K, of links between two fields
	NDCG        *float64 `json:"ndcg"`        // @K
	Precision   *float64 `json:"precision"`   // @K
	HitRate     *float64 `json:"hitRate"`     // @K
	MRR         *float64 `json:"mrr"`
	MeanRank    *float64 `json:"meanRank"`
	Entropy     *float64 `json:"entropy"`    // @K, of the fields of links found, in nats
	CrossShare  *float64 `json:"crossShare"` // of the first K, of another field than the source

	Against *Difference `json:"against,omitempty"` // recall@K less that of the evaluation's own model by ŷ

	recalls []float64 // of each source
}

// EvaluationSettings say what an evaluation looks at.
type EvaluationSettings struct {
	Name   string // of the model; "" means its method
	Panel  PanelSettings
	Others []model.Model // to judge as well
	Names  []string      // of the others
	// Candidates are ranked, all of them, and links looked for among the first of each list; nil leaves that out.
	Candidates *Candidates
	First      int // 0 means 100
	// Fairness says which lists to look at; without held-out sources in it, none.
	Fairness FairnessSettings
	Engine   engine.Engine // that does what is heavy; nil means engine.CPU with the threads of the Panel
}

// NewEvaluation judges a model by held-out pairs. It fills in what follows from them; names and words are the
// caller's. The graph may be nil where no candidates are ranked and no lists looked at.
func NewEvaluation(ctx context.Context, g *graph.Graph, m model.Model, v sample.Evidence,
	s EvaluationSettings) (*Evaluation, error) {
	if v.Pairs == nil || v.Pairs.Len() == 0 {
		return nil, fmt.Errorf("%w: no pairs are held out; split the nodes when fitting", ErrEmpty)
	}
	if err := severalSources(v.Pairs); err != nil {
		return nil, err
	}
	if len(s.Names) != len(s.Others) {
		return nil, fmt.Errorf("%d names for %d other models", len(s.Names), len(s.Others))
	}
	judge, err := fit.JudgeOf(m)
	if err != nil {
		return nil, err
	}
	judge.Threads, judge.Engine = s.Panel.Threads, s.Engine
	e := &Evaluation{Kind: EvaluationKind, Model: s.Name, Method: m.Method, Pairs: v.Pairs.Len()}
	if g != nil {
		e.Nodes = g.Len()
	}
	for _, linked := range v.Pairs.Linked {
		if linked {
			e.Links++
		}
	}
	if err := e.recall(m); err != nil {
		return nil, err
	}
	if judge.Posterior == nil && e.Class != fit.NoExposure {
		warning := "the method " + m.Method +
			" does not estimate how certain π̂ and ŷ are: the intervals treat both as known and are far too narrow"
		if model.NeedsVectors(m.Link.Kind()) { // bayes learns no factors
			warning += "; evaluate the model with the exposure of a bayes model"
		}
		e.Warnings = append(e.Warnings, warning)
	}
	var z []float32
	if e.Observed, z, err = observe(ctx, judge, v.Pairs); err != nil {
		return nil, err
	}
	if s.Candidates != nil && slices.Min(z) == slices.Max(z) {
		e.Warnings = append(e.Warnings, "ŷ is the same for all held-out pairs: ranks by ŷ are then those of the "+
			"nodes' order and mean nothing, and AUC is 0.5, which counts equal pairs as half in order")
	}
	if e.Panel, err = NewPanel(ctx, judge, v, s.Panel); err != nil {
		return nil, err
	}
	e.Warnings = append(e.Warnings, e.Panel.Warnings...)
	var predictions [][]float32
	for k, other := range s.Others {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		z, err := e.compare(ctx, judge, v, other, s.Names[k], s.Panel)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Names[k], err)
		}
		predictions = append(predictions, z)
	}
	if err := e.decide(ctx, judge, v, predictions, s.Panel); err != nil {
		return nil, err
	}
	if s.Candidates != nil {
		if err := e.rank(ctx, g, append([]model.Model{m}, s.Others...), s); err != nil {
			return nil, err
		}
	}
	if s.Fairness.Held != nil {
		s.Fairness.Engine = s.Engine
		all, err := FairnessOf(ctx, g, append([]model.Model{m}, s.Others...), s.Fairness)
		if err != nil {
			return nil, err
		}
		e.Fairness = all[0]
		for k := range e.Others {
			e.Others[k].Fairness = all[k+1]
		}
	}
	return e, nil
}

// severalSources refuses pairs of one source, of which no interval can be made.
func severalSources(p *graph.Pairs) error {
	if slices.Min(p.Source) != slices.Max(p.Source) {
		return nil
	}
	return hint.Wrap(fmt.Errorf("%w: all %d held-out pairs are of one person (source), and intervals need those of at "+
		"least two", risk.ErrClusters, p.Len()), "import the links of more people, fit again, and hold out links of "+
		"several, such as with %v set to %s", hint.Setting("split"), sample.RandomLinks)
}

// recall takes over what is known from the fit.
func (e *Evaluation) recall(m model.Model) error {
	e.Class = fit.NotChecked
	if len(m.Findings) > 0 {
		var found fit.Findings
		if err := json.Unmarshal(m.Findings, &found); err != nil {
			return fmt.Errorf("the doctor's findings in the model are damaged: %w; fit it again", err)
		}
		e.Class, e.Set, e.findings = found.Class, found.Set, &found
		switch collapse := found.Collapse(); {
		case collapse != "":
			e.Warnings = append(e.Warnings, collapse)
		case found.Class == fit.Identified:
		case found.Class == fit.NoExposure:
			e.Warnings = append(e.Warnings, "this model ignores exposure, so every estimator equals the naive "+
				"one; evaluate it with the exposure of a model that has one")
		default:
			e.Warnings = append(e.Warnings, "the scale of π̂ is "+found.Class.Label()+
				": do not rely on the values of corrected risks")
		}
	}
	if len(m.Certificate) > 0 {
		e.Certificate = new(Certificate)
		if err := json.Unmarshal(m.Certificate, e.Certificate); err != nil {
			return fmt.Errorf("the certificate in the model is damaged: %w; fit it again", err)
		}
	}
	return nil
}

// compare judges another model by the same pairs and beliefs, and returns its logits of ŷ.
func (e *Evaluation) compare(ctx context.Context, judge *fit.Judge, v sample.Evidence, other model.Model, name string,
	settings PanelSettings) ([]float32, error) {
	o := Other{Model: name, Method: other.Method}
	settings.Graph = nil
	theirs := &fit.Judge{Predictor: engine.Predictor{Link: other.Link, LinkParams: other.LinkParams,
		Propensity: other.Propensity, PropensityParams: other.PropensityParams}, Threads: judge.Threads,
		Engine: judge.Engine}
	var err error
	if o.Observed, settings.Predictions, err = observe(ctx, theirs, v.Pairs); err != nil {
		return nil, err
	}
	if o.Panel, err = NewPanel(ctx, judge, v, settings); err != nil {
		return nil, err
	}
	differences, err := judge.Differences(ctx, v, settings.Floor, settings.Predictions, nil)
	if err != nil {
		return nil, err
	}
	for i := range o.Panel.Risks {
		d := differences[o.Panel.Risks[i].Scheme]
		o.Panel.Risks[i].Against = &d
	}
	if opposed(o.Panel) {
		e.Warnings = append(e.Warnings, fmt.Sprintf("R_AP and R_PU clearly disagree on which of %s and %s is "+
			"better: R_AP relies on the ŷ of the evaluating model, R_PU on its π̂ alone; these pairs cannot "+
			"decide", cmp.Or(e.Method, "this model"), name))
	}
	e.Others = append(e.Others, o)
	return settings.Predictions, nil
}

// rank ranks the candidates by every model.
func (e *Evaluation) rank(ctx context.Context, g *graph.Graph, models []model.Model, s EvaluationSettings) error {
	k := cmp.Or(s.First, 100)
	own := make([]uint16, len(s.Candidates.Sources()))
	for place, i := range s.Candidates.Sources() {
		own[place] = g.Field(i)
	}
	var all [][]Standing
	for _, m := range models {
		judge, err := fit.JudgeOf(m)
		if err != nil {
			return err
		}
		judge.Engine = s.Engine
		standings, err := s.Candidates.Rank(ctx, judge, RankSettings{By: RankedBy(), First: k,
			Threads: s.Panel.Threads})
		if err != nil {
			return err
		}
		all = append(all, standings)
	}
	return e.SetRanks(all, g.Fields(), own, k)
}

// RankedBy is what an evaluation ranks candidates by.
func RankedBy() []By { return []By{ByRelevance, BySeen} }

// SetRanks sums up how candidates came out, first by the evaluation's own model and then by the others: fields are
// those of targets, own those of the sources.
func (e *Evaluation) SetRanks(models [][]Standing, fields, own []uint16, k int) error {
	if len(models) != 1+len(e.Others) {
		return fmt.Errorf("%w: standings of %d models, and %d were evaluated", ErrLength, len(models), 1+len(e.Others))
	}
	for at, standings := range models {
		var all []Ranks
		for _, standing := range standings {
			r, err := ranksOf(standing, fields, own, k)
			if err != nil {
				return err
			}
			if at > 0 || len(all) > 0 {
				first := append(slices.Clone(e.Ranks), all...)[0]
				if d, err := PairedBootstrap(r.recalls, first.recalls, .95, 1000, 1); err == nil {
					r.Against = &d
				}
			}
			all = append(all, r)
		}
		if at == 0 {
			e.Ranks = all
		} else {
			e.Others[at-1].Ranks = all
		}
	}
	return nil
}

// ranksOf sums a standing up.
func ranksOf(s Standing, fields, own []uint16, k int) (Ranks, error) {
	r := Ranks{By: s.By, K: k, Sources: len(s.Ranking)}
	first := func(of func(Ranking, int) (float64, error)) func(Ranking) (float64, error) {
		return func(one Ranking) (float64, error) { return of(one, k) }
	}
	recall := first(Ranking.Recall)
	across := s.Ranking.Keep(func(place int, target int32) bool { return fields[target] != own[place] })
	for _, mark := range []struct {
		into    **float64
		ranking Ranking
		of      func(Ranking) (float64, error)
	}{
		{&r.Recall, s.Ranking, recall}, {&r.CrossRecall, across, recall},
		{&r.NDCG, s.Ranking, first(Ranking.NDCG)}, {&r.Precision, s.Ranking, first(Ranking.Precision)},
		{&r.HitRate, s.Ranking, first(Ranking.HitRate)}, {&r.MRR, s.Ranking, Ranking.MRR},
		{&r.MeanRank, s.Ranking, Ranking.MeanRank},
		{&r.Entropy, s.Ranking, func(one Ranking) (float64, error) { return one.FieldEntropy(fields, k) }},
	} {
		values, err := mark.ranking.Each(mark.of)
		if err != nil {
			return r, err
		}
		if mark.into == &r.Recall {
			r.recalls = values
		}
		if mean, count := Mean(values); count > 0 {
			*mark.into = &mean
		}
	}
	shares, err := s.Lists.CrossShare(own, fields, k)
	if err != nil {
		return r, err
	}
	if mean, count := Mean(shares); count > 0 {
		r.CrossShare = &mean
	}
	return r, nil
}

// observe judges a model by links that happened, and returns the logits of ŷ.
func observe(ctx context.Context, j *fit.Judge, p *graph.Pairs) (Observed, []float32, error) {
	z, s, err := j.Logits(ctx, p)
	if err != nil {
		return Observed{}, nil, err
	}
	link, seen := Scored{Linked: p.Linked, Weights: p.Weight}, Scored{Linked: p.Linked, Weights: p.Weight}
	for k := range z {
		b, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return Observed{}, nil, fmt.Errorf("the model's logits of pair %d: %w; fit it again", k, err)
		}
		// the logit tells apart what rounds to 1
		link.Scores = append(link.Scores, float64(z[k]))
		seen.Scores = append(seen.Scores, b.Link()*b.Propensity())
	}
	var o Observed
	for _, mark := range []struct {
		into **float64
		of   func() (float64, error)
	}{{&o.AUC, link.AUC}, {&o.AUCSeen, seen.AUC}, {&o.AP, link.AveragePrecision}, {&o.APSeen, seen.AveragePrecision}} {
		if x, err := mark.of(); err == nil {
			*mark.into = &x
		}
	}
	if x, y, err := link.ROC(); err == nil {
		o.ROC = Line{x, y}.Thinned()
	}
	if x, y, err := seen.Calibration(50); err == nil {
		o.Calibration = Line{x, y}
	}
	return o, z, nil
}

// Thinned leaves out points that are less than a hundredth from the last.
func (l Line) Thinned() Line {
	var few Line
	for i, x := range l.X {
		last := len(few.X) - 1
		if i == 0 || i == len(l.X)-1 || math.Abs(x-few.X[last])+math.Abs(l.Y[i]-few.Y[last]) >= .01 {
			few.X, few.Y = append(few.X, x), append(few.Y, l.Y[i])
		}
	}
	return few
}
