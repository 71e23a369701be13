package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/internal/atomicfile"
	"unseen/model"
)

// A model is green only if it was checked and found identified, whatever its file says and wherever it is shown.
func TestOnlyWhatWasCheckedIsGreen(t *testing.T) {
	t.Parallel()
	const set = `"set":{"propensity":{"low":0.2,"high":0.25},"meanLink":{"low":0.1,"high":0.12}}`
	unchecked := badge{"calm", "?", "not checked"}
	for name, c := range map[string]struct {
		findings string
		want     badge
	}{
		"no findings":          {"", unchecked},
		"an older version":     {`{"class":"identified","verdict":["It is."]}`, unchecked},
		"a quick doctor":       {`{"class":"not checked","verdict":["Not checked."]}`, unchecked},
		"another method":       {`{"class":"unmeasured","verdict":["Not measured."]}`, unchecked},
		"a method of no class": {`{"class":"","verdict":[]}`, unchecked},
		"no exposure":          {`{"class":"no exposure","verdict":["Ignores it."]}`, badge{"bad", "✗", "no exposure"}},
		"weak":                 {`{"class":"weak","verdict":["Weak."],` + set + `}`, badge{"fair", "~", "weak"}},

		"identified": {`{"class":"identified","verdict":["Yes."],` + set + `}`, badge{"good", "✓", "identified"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := copyOf(t)
			path := filepath.Join(folder, "model.safetensors")
			f, err := model.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if f.Metadata[model.KeyFindings] = c.findings; c.findings == "" {
				delete(f.Metadata, model.KeyFindings)
			}
			if err := f.Save(path); err != nil {
				t.Fatal(err)
			}
			s := open(t, func(o *Options) { o.Folder = folder })
			h := client{t: t, h: s.Handler()}
			said := fmt.Sprintf(`<span class="badge %s"><span aria-hidden="true">%s</span> %s</span>`, c.want.Tone,
				c.want.Sign, c.want.Text)
			for _, page := range []string{"/", "/explore", "/exposure", "/runs"} {
				if body := h.do("GET", page, nil).Body.String(); !strings.Contains(body, said) {
					t.Errorf("%s does not say %s", page, said)
				}
			}
			for _, page := range []string{"/explore", "/exposure", "/bridges"} {
				body := h.do("GET", page, nil).Body.String()
				if strings.Contains(body, `class="badge good"`) != (name == "identified") && page != "/bridges" ||
					name != "identified" && strings.Contains(body, "✓") {
					t.Errorf("%s is green", page)
				}
			}
			warned := len(h.list("node=p7&k=5").Warnings) > 0
			if warned == (name == "identified" || name == "no exposure") {
				t.Errorf("a list has a warning: %v", warned)
			}
			detail := want[ModelDetail](h, 200, "GET", "/api/v1/model", nil)
			if f := detail.Findings; f != nil && (f.Class == fit.Identified) != (name == "identified") {
				t.Errorf("the API says %q", f.Class)
			}
		})
	}
}

// That a model may be deployed does not make it green.
func TestCheckBadges(t *testing.T) {
	t.Parallel()
	for want, checks := range map[string][]Check{
		"good": {{Name: "lists", Passed: true}, {Name: doctorCheck, Passed: true, Class: fit.Identified}},
		"fair": {{Name: doctorCheck, Passed: true, Class: fit.Weak},
			{Name: doctorCheck, Passed: true, Class: fit.NotIdentified}},
		"calm": {{Name: doctorCheck, Passed: true}, {Name: doctorCheck, Passed: true, Class: fit.NotChecked},
			{Name: doctorCheck, Passed: true, Class: fit.Unmeasured}, {Name: "panel", Passed: true, Skipped: true}},
		"bad": {{Name: "lists"}, {Name: doctorCheck, Class: fit.Identified}},
	} {
		for _, c := range checks {
			if got := checked(c); got.Tone != want || got.Text != c.Name {
				t.Errorf("%+v is %+v, want %s", c, got, want)
			}
		}
	}
}

// The line about two models says what was decided, with its colour, and a model of an earlier evaluation is not called
// better.
func TestExposurePageDecides(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	path := filepath.Join(folder, "model.safetensors")
	digest, err := atomicfile.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	clear := fit.Judgement{}
	clear.Interval.Estimate, clear.Lower, clear.Upper = .25, .2, .3
	panel := func(against *fit.Judgement) *evaluate.Panel {
		return &evaluate.Panel{Risks: []evaluate.PanelRow{{Scheme: "ap", Risk: clear, Against: against}}}
	}
	for name, c := range map[string]struct {
		evaluate.Decision
		tone string
	}{
		"an earlier version": {evaluate.Decision{}, "calm"},
		"depends":            {evaluate.Decision{Preference: evaluate.Depends, Summary: "It depends."}, "fair"},
		"on a condition":     {evaluate.Decision{Preference: evaluate.PreferOwnIf, Summary: "If so."}, "fair"},
		"better":             {evaluate.Decision{Preference: evaluate.PreferOwn, Summary: "It is better."}, "good"},
		"worse":              {evaluate.Decision{Preference: evaluate.PreferOther, Summary: "It is worse."}, "bad"},
		"chance":             {evaluate.Decision{Preference: evaluate.Chance, Summary: "Perhaps."}, "calm"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(evaluate.Evaluation{Kind: evaluate.EvaluationKind, Model: digest, Method: "bayes",
				Pairs: 4321, Panel: panel(nil), Others: []evaluate.Other{{Model: "naive", Method: "naive",
					Panel: panel(&clear), Decision: c.Decision}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+".evaluation.json", raw, 0o644); err != nil {
				t.Fatal(err)
			}
			s := open(t, func(o *Options) { o.Folder, o.State = folder, t.TempDir() })
			body := (client{t: t, h: s.Handler()}).do("GET", "/exposure", nil).Body.String()
			says := c.Summary
			if says == "" {
				says = "bayes is not called better than naive"
			}
			_, line, found := strings.Cut(body, `<p class="words"><span class="badge `+c.tone+`">`)
			if !found || !strings.Contains(line[:min(len(line), 300)], says) {
				t.Errorf("the page does not say %q in %s", says, c.tone)
			}
		})
	}
}
