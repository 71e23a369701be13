package evaluate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// EvaluationKind is the kind of an Evaluation's JSON document, by which it is told from others.
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

	Observed Observed `json:"observed"`
	Panel    *Panel   `json:"panel"`
	Others   []Other  `json:"others,omitempty"` // more models, judged by the π̂ and ŷ of this one

	Fairness    *Fairness    `json:"fairness,omitempty"`
	Certificate *Certificate `json:"certificate,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`
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

	Fairness *Fairness `json:"fairness,omitempty"` // by the merit that the first model sees
}

// EvaluationSettings say what an evaluation looks at.
type EvaluationSettings struct {
	Panel  PanelSettings
	Others []model.Model // to judge as well
	Names  []string      // of the others
	// Fairness says which lists to look at; without held-out sources in it, none.
	Fairness FairnessSettings
}

// NewEvaluation judges a model by held-out pairs. It fills in what follows from them; names and words are the
// caller's.
func NewEvaluation(ctx context.Context, g *graph.Graph, m model.Model, v fit.Evidence, s EvaluationSettings) (*Evaluation, error) {
	if v.Pairs == nil || v.Pairs.Len() == 0 {
		return nil, fmt.Errorf("%w: no pairs are held out; split the nodes when fitting", ErrEmpty)
	}
	if len(s.Names) != len(s.Others) {
		return nil, fmt.Errorf("evaluate: %d names for %d other models", len(s.Names), len(s.Others))
	}
	judge, err := fit.JudgeOf(m)
	if err != nil {
		return nil, err
	}
	judge.Threads = s.Panel.Threads
	e := &Evaluation{Kind: EvaluationKind, Method: m.Method, Pairs: v.Pairs.Len(), Nodes: g.Len()}
	for _, linked := range v.Pairs.Linked {
		if linked {
			e.Links++
		}
	}
	if len(m.Findings) > 0 {
		var found fit.Findings
		if err := json.Unmarshal(m.Findings, &found); err != nil {
			return nil, fmt.Errorf("evaluate: the doctor's findings in the model are damaged: %w; fit it anew", err)
		}
		e.Class = found.Class
		switch found.Class {
		case fit.Identified:
		case fit.NoExposure:
			e.Warnings = append(e.Warnings, "this model knows no exposure, so that every estimator is the naive one; judge it by the exposure of a model that does")
		default:
			e.Warnings = append(e.Warnings, "the doctor calls the scale of π̂ "+string(found.Class)+": corrected risks can be compared between models, but not read as they are")
		}
	}
	if len(m.Certificate) > 0 {
		e.Certificate = new(Certificate)
		if err := json.Unmarshal(m.Certificate, e.Certificate); err != nil {
			return nil, fmt.Errorf("evaluate: the certificate in the model is damaged: %w; fit it anew", err)
		}
	}
	if e.Observed, _, err = observe(m, v.Pairs); err != nil {
		return nil, err
	}
	if e.Panel, err = NewPanel(ctx, judge, v, s.Panel); err != nil {
		return nil, err
	}
	e.Warnings = append(e.Warnings, e.Panel.Warnings...)
	for k, other := range s.Others {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := Other{Model: s.Names[k], Method: other.Method}
		settings := s.Panel
		settings.Graph = nil
		if o.Observed, settings.Predictions, err = observe(other, v.Pairs); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Names[k], err)
		}
		if o.Panel, err = NewPanel(ctx, judge, v, settings); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Names[k], err)
		}
		e.Others = append(e.Others, o)
	}
	if s.Fairness.Held != nil {
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

// observe judges a model by links that happened, and returns the logits of ŷ.
func observe(m model.Model, p *graph.Pairs) (Observed, []float32, error) {
	n := p.Len()
	z, s := make([]float32, n), make([]float32, n)
	const stretch = 4096
	for from := 0; from < n; from += stretch {
		to := min(from+stretch, n)
		b := model.Batch{Sources: p.Source[from:to], Targets: p.Target[from:to]}
		m.Link.Logits(z[from:to], m.LinkParams, b)
		m.Propensity.Logits(s[from:to], m.PropensityParams, b)
	}
	link, seen := Scored{Linked: p.Linked, Weights: p.Weight}, Scored{Linked: p.Linked, Weights: p.Weight}
	for k := range n {
		b, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return Observed{}, nil, fmt.Errorf("evaluate: the model's logits of pair %d: %w; fit it anew", k, err)
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
