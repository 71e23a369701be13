package serve

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/sample"
)

// exposure is the page of what was shown to whom, how well that is known, and what it makes of the risk.
func (p *site) exposure() {
	p.read("GET /exposure", "page-exposure", func(w http.ResponseWriter, r *http.Request) error {
		m, err := p.s.ModelDetail()
		if err != nil {
			return err
		}
		content := exposurePage{Model: m, May: p.hasScope(r, ScopeAdmin), Verdict: badge{"calm", "?", "not examined"},
			Knows: true}
		if f := m.Findings; f != nil {
			content.Verdict, content.Knows = verdict(f.Class), f.Class != fit.NoExposure
		}
		for k := range 8 {
			content.Ramp = append(content.Ramp, fmt.Sprintf("%.1f%%", 12.5*float64(k)))
		}
		content.cells(p.s.Graph())
		if m.Evaluation != nil && m.Evaluation.Panel != nil {
			content.panel(m.Evaluation)
		}
		content.Whole = p.s.live.Load().current.origin.Plan.Split == sample.Whole
		p.show(w, r, http.StatusOK, "exposure", content)
		return nil
	})
}

// exposed is what the page shows.
type exposurePage struct {
	Model   ModelDetail
	May     bool
	Knows   bool // the model knows exposure
	Verdict badge

	Map    heatMap
	Ramp   []string       // where the colours of the scale begin
	Cells  []exposureCell // the table behind the map
	More   int            // cells that the table leaves out
	Left   int            // fields that the map leaves out
	Strong string         // what stands out, in words

	Whole  bool // nothing was held out
	Panel  []panelRow
	Judged []legend
	Scale  scale
	Words  string // what the panel comes to
}

// heatMap is what the script draws.
type heatMap struct {
	Fields []string   `json:"fields"`
	Cells  []heatCell `json:"cells"`
}

type heatCell struct {
	Row, Column int
	Value       float64
	Low, High   float64 // 0 where there is no interval
	Error       float64 // standard error, on the scale of π̂
	Links       int     // −1 where it is not known
	Pairs       int
}

// cellOf is one ordered pair of fields.
type exposureCell struct {
	Source, Target string
	heatCell
	Weak bool
}

// mostCells is how many field pairs the table has, and mostFields how many fields the map: more could not be read.
const (
	mostCells  = 400
	mostFields = 40
)

// largest returns the places of the fields with most nodes, in their own order.
func largest(g *graph.Graph, fields []string, most int) []int {
	nodes := map[string]int{}
	for _, f := range g.Fields() {
		nodes[g.FieldName(f)]++
	}
	places := make([]int, len(fields))
	for k := range places {
		places[k] = k
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(nodes[fields[b]], nodes[fields[a]]) })
	places = places[:min(len(places), most)]
	slices.Sort(places)
	return places
}

// cells joins π̂ of every field pair with what the doctor knows of it.
func (e *exposurePage) cells(g *graph.Graph) {
	known := map[[2]string]fit.CellFinding{}
	if e.Model.Findings != nil {
		for _, c := range e.Model.Findings.Cells {
			known[[2]string{g.FieldName(c.Source), g.FieldName(c.Target)}] = c
		}
	}
	shown := largest(g, e.Model.Fields, mostFields)
	e.Left = len(e.Model.Fields) - len(shown)
	for _, k := range shown {
		e.Map.Fields = append(e.Map.Fields, e.Model.Fields[k])
	}
	var own, other, owns, others float64
	for i, source := range e.Map.Fields {
		for j, target := range e.Map.Fields {
			one := heatCell{Row: i, Column: j, Value: e.Model.Propensities[shown[i]][shown[j]], Links: -1}
			c, ok := known[[2]string{source, target}]
			if ok {
				one.Low, one.High, one.Links, one.Pairs = c.Lower, c.Upper, c.Links, c.Pairs
				one.Error = c.LogitError * one.Value * (1 - one.Value) // of σ(ŝ), to first order
			}
			e.Map.Cells = append(e.Map.Cells, one)
			e.Cells = append(e.Cells, exposureCell{source, target, one, ok && c.Links < 5})
			if i == j {
				own, owns = own+one.Value, owns+1
			} else {
				other, others = other+one.Value, others+1
			}
		}
	}
	slices.SortStableFunc(e.Cells, func(a, b exposureCell) int { return cmp.Compare(b.Value, a.Value) })
	if e.More = len(e.Cells) - mostCells; e.More > 0 {
		e.Cells = e.Cells[:mostCells]
	}
	if owns > 0 && others > 0 && e.Knows {
		e.Strong = fmt.Sprintf("On average %s of a field is shown to its own readers, and %s of other fields.",
			percent(own/owns), percent(other/others))
	}
	if f := e.Model.Findings; f != nil && f.Ratio != nil && f.Ratio.Upper > 0 {
		e.Strong += fmt.Sprintf(" A pair of one field is shown %.1f times as often as a pair of two (%.1f to %.1f).",
			f.Ratio.Value, f.Ratio.Lower, f.Ratio.Upper)
	}
}

// panelRow is what one estimator says of every model.
type panelRow struct {
	Name, Means string
	Models      []panelModel
}

type panelModel struct {
	Model string
	Risk  fit.Estimate
	Span  span
}

var schemes = map[string][2]string{
	"naive": {"naive", "takes every missing link for irrelevance"},
	"w":     {"R_w", "counts a link for 1/π̂ of them, a missing one by its chance of being irrelevant"},
	"pu":    {"R_PU", "counts a link for 1/π̂ of them, and takes as many missing ones away"},
	"ap":    {"R_AP", "counts a missing link by the chance that it is relevant after all; read this one first"},
	"dr":    {"R_DR", "uses what was logged as shown, and the model for the rest"},
}

// panel makes figures of an evaluation: estimator by estimator, all models on one scale.
func (e *exposurePage) panel(v *evaluate.Evaluation) {
	type judged struct {
		name  string
		panel *evaluate.Panel
	}
	models := []judged{{cmp.Or(v.Method, "this model"), v.Panel}}
	for _, o := range v.Others {
		models = append(models, judged{cmp.Or(o.Method, o.Model), o.Panel})
	}
	e.Scale = scale{math.Inf(1), math.Inf(-1)}
	for _, m := range models {
		for _, row := range m.panel.Risks {
			e.Scale.including(row.Risk.Lower, row.Risk.Upper, row.Risk.Interval.Estimate)
		}
	}
	for n, row := range v.Panel.Risks {
		name := schemes[row.Scheme]
		out := panelRow{Name: cmp.Or(name[0], row.Scheme), Means: name[1]}
		for k, m := range models {
			if n >= len(m.panel.Risks) || m.panel.Risks[n].Scheme != row.Scheme {
				continue
			}
			risk := m.panel.Risks[n].Risk
			label := fmt.Sprintf("%s by %s: %.4f, from %.4f to %.4f", m.name, out.Name, risk.Interval.Estimate,
				risk.Lower, risk.Upper)
			out.Models = append(out.Models, panelModel{m.name, risk, e.Scale.span(risk.Lower, risk.Interval.Estimate,
				risk.Upper, []string{"", "b", "c"}[min(k, 2)], label)})
		}
		e.Panel = append(e.Panel, out)
	}
	for k, m := range models {
		e.Judged = append(e.Judged, legend{[]string{"", "s2", "s8"}[min(k, 2)], m.name})
	}
	if len(models) < 2 {
		return
	}
	// evaluations of earlier versions have no differences
	if d := reportedRow(models[1].panel).Against; d != nil {
		verdict := "the same pairs, one by one, do not tell which is better"
		switch {
		case d.Lower > 0:
			verdict = models[0].name + " is better"
		case d.Upper < 0:
			verdict = models[0].name + " is worse"
		}
		e.Words = fmt.Sprintf("Corrected for exposure, %s: the R_AP of %s is %.4f above that of %s, from %.4f to %.4f.", verdict, models[1].name, d.Interval.Estimate, models[0].name, d.Lower, d.Upper)
	}
}

// legend is a colour and what it stands for.
type legend struct{ Class, Name string }
