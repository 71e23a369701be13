package serve

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/sample"
)

// exposure registers the page of who was shown what, how well that is known, and how it changes the risk.
func (p *site) exposure() {
	p.read("GET /exposure", "page-exposure", func(w http.ResponseWriter, r *http.Request) error {
		m, err := p.s.ModelDetail()
		if err != nil {
			return err
		}
		content := exposurePage{Model: m, Admin: p.hasScope(r, ScopeAdmin), Verdict: verdict(fit.NotChecked),
			Knows: true}
		if f := m.Findings; f != nil {
			content.Verdict, content.Knows = verdict(f.Class), f.Class != fit.NoExposure
			content.claims(f.Set)
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

// exposurePage is the data of the page.
type exposurePage struct {
	Model   ModelDetail
	Admin   bool
	Knows   bool // the model has exposure
	Verdict badge
	Claims  []claimRow // what each assumption says that explains the links

	Map    heatMap
	Ramp   []string       // where the colours of the scale start
	Cells  []exposureCell // the map as a table
	More   int            // cells that the table leaves out
	Left   int            // fields that the map leaves out, of both sides
	Strong string         // what stands out

	Whole  bool // no pairs were held out
	Panel  []panelRow
	Legend []legend
	Scale  scale
	// Decision and Words say which model is better, as far as the links allow.
	Decision badge
	Words    string
}

// heatMap is the data of the chart.
type heatMap struct {
	Rows    []string   `json:"rows"`    // fields of sources
	Columns []string   `json:"columns"` // fields of targets
	Turned  bool       `json:"turned"`  // rows are fields of targets, and columns of sources
	Most    float64    `json:"most"`    // π̂ of the darkest colour
	Cells   []heatCell `json:"cells"`
}

type heatCell struct {
	Row    int     `json:"row"`
	Column int     `json:"column"`
	Value  float64 `json:"value"`
	Low    float64 `json:"low"` // 0 without an interval
	High   float64 `json:"high"`
	Error  float64 `json:"error"` // standard error, on the scale of π̂
	Links  int     `json:"links"` // −1 if unknown
	Pairs  int     `json:"pairs"`
}

// exposureCell is one ordered pair of fields.
type exposureCell struct {
	Source, Target string
	heatCell
	Weak bool
}

// mostCells limits the field pairs of the table, mostFields the fields of the map: more would not be readable.
const (
	mostCells  = 400
	mostFields = 40
)

// largest returns the places of the fields with most of some nodes, in ascending order. Of people and items, a field
// of the other side has none and is left out, and they are ordered by name: with many categories, one is looked up.
func largest(g *graph.Graph, of []int32, fields []string, most int) []int {
	nodes := map[string]int{}
	for _, i := range of {
		nodes[g.FieldName(g.Field(i))]++
	}
	var places []int
	for k, name := range fields {
		if nodes[name] > 0 || !g.TwoSided() {
			places = append(places, k)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(nodes[fields[b]], nodes[fields[a]]) })
	places = places[:min(len(places), most)]
	slices.Sort(places)
	if g.TwoSided() {
		slices.SortStableFunc(places, func(a, b int) int { return compareNames(fields[a], fields[b]) })
	}
	return places
}

// compareNames compares names, and the numbers that they end with by their size: segment 9 comes before segment 10.
func compareNames(a, b string) int {
	const digits = "0123456789"
	x, y := strings.TrimRight(a, digits), strings.TrimRight(b, digits)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// cells joins π̂ of every field pair with the doctor's finding about it.
func (e *exposurePage) cells(g *graph.Graph) {
	known := map[[2]string]fit.CellFinding{}
	if e.Model.Findings != nil {
		for _, c := range e.Model.Findings.Cells {
			known[[2]string{g.FieldName(c.Source), g.FieldName(c.Target)}] = c
		}
	}
	side := func(nodes []int32, names *[]string) (places []int, left int) {
		places = largest(g, nodes, e.Model.Fields, mostFields)
		for _, k := range places {
			*names = append(*names, e.Model.Fields[k])
		}
		return places, len(largest(g, nodes, e.Model.Fields, len(e.Model.Fields))) - len(places)
	}
	rows, left := side(g.Sources(), &e.Map.Rows)
	columns, more := side(g.Targets(), &e.Map.Columns)
	if e.Left = left; g.TwoSided() {
		e.Left += more
	}
	var own, other, owns, others float64
	for i, source := range e.Map.Rows {
		for j, target := range e.Map.Columns {
			one := heatCell{Row: i, Column: j, Value: e.Model.Propensities[rows[i]][columns[j]], Links: -1}
			c, ok := known[[2]string{source, target}]
			if ok {
				one.Low, one.High, one.Links, one.Pairs = c.Lower, c.Upper, c.Links, c.Pairs
				if e.Model.Findings.Exposure != "" {
					one.Value = c.Propensity // the mean that the interval is of
				}
				one.Error = c.LogitError * one.Value * (1 - one.Value) // of σ(ŝ), to first order
			}
			e.Map.Cells = append(e.Map.Cells, one)
			e.Cells = append(e.Cells, exposureCell{source, target, one, ok && c.Links < 5})
			if source == target {
				own, owns = own+one.Value, owns+1
			} else {
				other, others = other+one.Value, others+1
			}
		}
	}
	e.Map.fit()
	slices.SortStableFunc(e.Cells, func(a, b exposureCell) int { return cmp.Compare(b.Value, a.Value) })
	if e.More = len(e.Cells) - mostCells; e.More > 0 {
		e.Cells = e.Cells[:mostCells]
	}
	if owns > 0 && others > 0 && e.Knows {
		by := "On average"
		if f := e.Model.Findings; f == nil || f.Class != fit.Identified {
			by = "By this model alone" // others explain the links as well
		}
		e.Strong = fmt.Sprintf("%s, readers see %s of their own field and %s of another field.", by,
			percent(own/owns), percent(other/others))
	}
	// one number at equal vectors, by the model's own assumption; what others allow is of all pairs, another number
	if f := e.Model.Findings; f != nil && f.Ratio != nil && f.Ratio.Upper > 0 {
		e.Strong += fmt.Sprintf(" At equal vectors, a pair within a field is shown %.1f times as often as a pair "+
			"across fields", f.Ratio.Value)
		if f.Set != nil && f.Set.Ratio != nil {
			e.Strong += fmt.Sprintf("; over all pairs, %.1f to %.1f times by all assumptions below", f.Set.Ratio.Low,
				f.Set.Ratio.High)
		}
		e.Strong += "."
	}
}

// fit makes the map readable: few columns rather than few rows, so that it fits on a narrow screen, and colours up to
// the least round number that no cell exceeds.
func (m *heatMap) fit() {
	largest := 0.
	for _, c := range m.Cells {
		largest = max(largest, c.Value)
	}
	for _, m.Most = range []float64{.01, .02, .03, .05, .1, .2, .3, .5, .7, 1} {
		if m.Most >= largest {
			break
		}
	}
	if len(m.Columns) <= len(m.Rows) {
		return
	}
	m.Turned, m.Rows, m.Columns = true, m.Columns, m.Rows
	for k, c := range m.Cells {
		m.Cells[k].Row, m.Cells[k].Column = c.Column, c.Row
	}
}

// claimRow is what one assumption says.
type claimRow struct {
	Name           string
	Link, Exposure claimSpan
}

// claimSpan is a share and where it lies in the chart.
type claimSpan struct {
	fit.MemberValue
	Span span
}

// claims adds the assumptions that explain the links, all on one scale.
func (e *exposurePage) claims(set *fit.ClaimSet) {
	if set == nil {
		return
	}
	link, exposure := scale{0, set.MeanLink.High}, scale{0, set.Propensity.High}
	for _, m := range set.Members { // which may say more than a log leaves of it
		if m.Stays {
			link.High, exposure.High = max(link.High, m.MeanLink.Upper), max(exposure.High, m.Propensity.Upper)
		}
	}
	at := func(s scale, name, of string, v fit.MemberValue) claimSpan {
		return claimSpan{v, s.span(v.Lower, v.Value, v.Upper, "", fmt.Sprintf("%s by %s: %s, from %s to %s", of, name,
			percent(v.Value), percent(v.Lower), percent(v.Upper)))}
	}
	for _, m := range set.Members {
		if name := m.Alternative.String(); m.Stays {
			e.Claims = append(e.Claims, claimRow{name, at(link, name, "mean ŷ", m.MeanLink),
				at(exposure, name, "mean π̂", m.Propensity)})
		}
	}
}

// panelRow is the risk of every model by one estimator.
type panelRow struct {
	Name, Means string
	Models      []panelModel
}

type panelModel struct {
	Model string
	Risk  fit.Judgement
	Span  span
}

var schemes = map[string][2]string{
	"naive": {"naive", "treats every missing link as irrelevant"},
	"w":     {"R_w", "weights a link by 1/π̂ and a missing link by its chance of being irrelevant"},
	"pu":    {"R_PU", "weights a link by 1/π̂ and removes as many missing links"},
	"ap":    {"R_AP", "weights a missing link by the chance that it is relevant; read this one first"},
	"dr":    {"R_DR", "uses the logged exposure, and the model for the rest"},
}

// panel adds the intervals of an evaluation, estimator by estimator, with all models on one scale.
func (e *exposurePage) panel(v *evaluate.Evaluation) {
	type evaluated struct {
		name  string
		panel *evaluate.Panel
	}
	models := []evaluated{{cmp.Or(v.Method, "this model"), v.Panel}}
	for _, o := range v.Others {
		models = append(models, evaluated{cmp.Or(o.Method, o.Model), o.Panel})
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
		e.Legend = append(e.Legend, legend{[]string{"", "s2", "s8"}[min(k, 2)], m.name})
	}
	if len(models) < 2 {
		return
	}
	named := *v
	named.Model = models[0].name // not its digest
	d := named.Decided(0)
	e.Decision, e.Words = preference(d.Preference), d.Summary
	// evaluations of earlier versions have no differences
	if d := reportedRow(models[1].panel).Against; d != nil {
		e.Words += fmt.Sprintf(" On the same pairs, R_AP of %s is above that of %s by %.4f (%.4f to %.4f).",
			models[1].name, models[0].name, d.Interval.Estimate, d.Lower, d.Upper)
	}
}

// legend is a colour and the name of what it shows.
type legend struct{ Class, Name string }
