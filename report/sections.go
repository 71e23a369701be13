package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/internal/amount"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/study"
)

// StudySection is the section of any study: its claims, then its figures and tables, then how it was done. A study
// without figures gets one of each table that has numbers to compare.
func StudySection(r *study.Result) Section {
	s := Section{Name: r.Study, Title: r.Title, Warnings: slices.Clone(r.Warnings), Claims: r.Conclusions(),
		Figures: r.Figures, Tables: r.Tables, Notes: r.Setting}
	if r.Options.Quick {
		s.Warnings = append([]string{"This is the quick version, on small worlds: it shows that everything " +
			"works, and proves nothing about the paper."}, s.Warnings...)
	}
	if n := len(r.Claims); n > 0 {
		claims := amount.Of(n, "claim")
		s.Text = []string{fmt.Sprintf("%s: %s.", claims, countVerdicts(r.Claims))}
		if why := r.WhyTooSmall(); why != "" {
			s.Text[0] = fmt.Sprintf("%s; too small to tell (%s). By these numbers: %s.", claims, why,
				countVerdicts(r.Claims))
		}
	}
	if len(r.Figures) == 0 {
		for _, t := range r.Tables {
			if f, ok := figureOf(t); ok && !t.Detail {
				s.Figures = append(s.Figures, f)
			}
		}
	}
	var seeds []string
	for _, seed := range r.Options.Seeds {
		seeds = append(seeds, fmt.Sprint(seed))
	}
	took := ""
	if r.Seconds > 0 {
		took = progress.Seconds(r.Seconds)
	}
	s.Facts = []Fact{{"study", r.Study}}
	for _, f := range []Fact{{"seeds", strings.Join(seeds, ", ")}, {"preset", r.Options.Preset}, {"took", took}} {
		if f.Value != "" {
			s.Facts = append(s.Facts, f)
		}
	}
	return s
}

// figureOf draws the first column of a table that says which way is better and has spreads.
func figureOf(t figure.Table) (figure.Figure, bool) {
	for j, c := range t.Columns {
		if c.Better == "" {
			continue
		}
		v := &figure.IntervalChart{XTitle: cmp.Or(c.Means, c.Name),
			Legend: "mean ± one standard deviation over the seeds",
			Digits: c.Digits}
		spreads := false
		for _, r := range t.Rows {
			if j >= len(r.Cells) {
				continue
			}
			x, ok := r.Cells[j].Value()
			if !ok {
				continue
			}
			sd, has := r.Cells[j].Deviation()
			spreads = spreads || has
			v.Rows = append(v.Rows, figure.IntervalRow{Name: r.Name, Estimate: figure.Value(x),
				Low: figure.Value(x - sd), High: figure.Value(x + sd)})
		}
		if !spreads {
			continue
		}
		return figure.Figure{
			Name: t.Name, Title: t.Title + ": " + c.Name, Intervals: v,
			Caption: fmt.Sprintf("Each dot is a mean, its whiskers one standard deviation to either side; %s is "+
				"better. Rows without whiskers have one number only.", c.Better),
		}, true
	}
	return figure.Figure{}, false
}

// ModelSections are the sections of a model file: what it is, how it was trained, and the doctor's verdict. name is
// what to call the model, such as the name of its file.
func ModelSections(name string, f *model.File) ([]Section, error) {
	meta := f.Metadata
	if meta[model.KeyMethod] == "" && meta[model.KeyLink] == "" {
		return nil, fmt.Errorf("%w: %s is a safetensors file, but not a model of unseen; give one that was fitted by "+
			"unseen",
			ErrRun, name)
	}
	var fields []string
	if text := meta[model.KeyFields]; text != "" {
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			return nil, fmt.Errorf("%w: the names of the fields in %s are damaged: %w; fit the model again", ErrRun,
				name, err)
		}
	}
	settings, err := settingsOf(meta[model.KeyHyperparameters])
	if err != nil {
		return nil, fmt.Errorf("%w: the settings in %s are damaged: %w; fit the model again", ErrRun, name, err)
	}
	s := Section{Name: "model", Title: "Model " + name}
	s.Text = []string{fmt.Sprintf("Learned by the method %s: links by a %s model of %s-dimensional vectors, "+
		"exposure by a %s model over %s fields.",
		cmp.Or(meta[model.KeyMethod], "unknown"), meta[model.KeyLink], cmp.Or(meta[model.KeyDim], "?"),
		meta[model.KeyPropensity], cmp.Or(meta[model.KeyFieldCount], "?"))}
	s.FactsTitle = "Settings, seed and checksums"
	for _, fact := range []Fact{
		{"method", meta[model.KeyMethod]}, {"link model", meta[model.KeyLink]},
		{"propensity model", meta[model.KeyPropensity]},
		{"seed", meta[model.KeySeed]}, {"data checksum", meta[model.KeyDataChecksum]},
		{"model digest (SHA-256)", meta["sha256"]},
		{"dimension of the vectors", meta[model.KeyDim]}, {"fields, unknown counted", meta[model.KeyFieldCount]},
	} {
		if fact.Value != "" {
			s.Facts = append(s.Facts, fact)
		}
	}
	if len(settings) > 0 {
		t := figure.Table{Name: "settings", Title: "All settings", Head: "setting", Detail: true,
			Columns: []figure.Column{{Name: "value"}}}
		for _, fact := range settings {
			t.Add(fact.Name, figure.Text(fact.Value))
		}
		s.Tables = append(s.Tables, t)
	}
	doctor := DoctorVerdict{Fields: fields}
	if text := meta[model.KeyFindings]; text != "" {
		doctor.Findings = new(fit.Findings)
		if err := json.Unmarshal([]byte(text), doctor.Findings); err != nil {
			return nil, fmt.Errorf("%w: the doctor's findings in %s are damaged: %w; fit the model again", ErrRun, name,
				err)
		}
	}
	sections := []Section{s, doctor.Section()}
	if text := meta[model.KeyCertificate]; text != "" {
		var c evaluate.Certificate
		if err := json.Unmarshal([]byte(text), &c); err != nil || len(c.Risks) == 0 {
			return nil, fmt.Errorf("%w: the certificate in %s is damaged: %v; fit the model again", ErrRun, name, err)
		}
		sections = append(sections, certificateSection(&c))
	}
	return sections, nil
}

// certificateSection shows how well the method recovered planted truths.
func certificateSection(c *evaluate.Certificate) Section {
	t := figure.Table{Name: "certificate", Title: "Estimators against the planted truth", Head: "judged by",
		Columns: []figure.Column{
			{Name: "RMSE", Means: "root mean square error of the estimated risk", Digits: 4, Better: "lower"},
			{Name: "covered", Means: "planted truths whose risk the 95% interval held"},
		}}
	for _, r := range c.Risks {
		t.Add(risk.Label(r.Scheme),
			figure.Number(r.RMSE), figure.Text(fmt.Sprintf("%d of %d", r.Covered, c.Repeats)))
	}
	return Section{
		Name: "certificate", Title: "The certificate", Text: c.Words(), Tables: []figure.Table{t},
		Notes: []string{"Truths are planted on the model's own nodes and fields, links are drawn from them, and the " +
			"method is fitted to those links. This certifies the method on such nodes, not that the real links " +
			"follow the model."},
	}
}

// settingsOf lists the values of a JSON document: adam.rate, adam.batch, …
func settingsOf(text string) ([]Fact, error) {
	if text == "" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // numbers as they were written
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	var facts []Fact
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(strings.TrimPrefix(name+"."+k, "."), v[k])
			}
		case []any:
			var items []string
			for _, item := range v {
				raw, _ := json.Marshal(item) // it was just decoded
				items = append(items, strings.Trim(string(raw), `"`))
			}
			if len(items) > 0 {
				facts = append(facts, Fact{name, strings.Join(items, ", ")})
			}
		case nil:
		case string:
			if v != "" {
				facts = append(facts, Fact{name, v})
			}
		default:
			facts = append(facts, Fact{name, fmt.Sprint(v)})
		}
	}
	walk("", document)
	return facts, nil
}
