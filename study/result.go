package study

import (
	"cmp"
	"encoding/json"
	"fmt"

	"unseen/figure"
)

// Result is what a study found: the same numbers as typed rows, for programs that know the study, and as tables and
// figures, for programs that show any study.
type Result struct {
	Study    string          `json:"study"`
	Title    string          `json:"title"`
	Options  Options         `json:"options"`
	Setting  []string        `json:"setting"` // how it was done, in sentences
	Tables   []figure.Table  `json:"tables"`
	Figures  []figure.Figure `json:"figures,omitempty"`
	Claims   []Claim         `json:"findings"`
	Warnings []string        `json:"warnings,omitempty"`
	Rows     any             `json:"rows"` // the study's own type, such as []Outcome
	Seconds  float64         `json:"seconds"`
}

// Claim is a statement, of the paper or our own, with the verdict on it.
type Claim struct {
	Statement string  `json:"claim"`
	Verdict   Verdict `json:"verdict"`
	Evidence  string  `json:"evidence"` // the numbers behind the verdict, in a sentence
}

// UnmarshalJSON also reads results of the last version, in which the evidence was called words.
func (c *Claim) UnmarshalJSON(raw []byte) error {
	type fields Claim // without this method
	read := struct {
		*fields
		Words string `json:"words"`
	}{fields: (*fields)(c)}
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	c.Evidence = cmp.Or(c.Evidence, read.Words)
	return nil
}

// Verdict is the outcome of a claim.
type Verdict string

const (
	Reproduced    Verdict = "reproduced"
	Partly        Verdict = "partly"
	NotReproduced Verdict = "not reproduced"

	// Of thresholds that were stated before the seeds were run.
	Met    Verdict = "met"
	Missed Verdict = "missed"

	// TooSmall replaces the others where there is too little to judge by; see Result.Conclusions.
	TooSmall Verdict = "too small to tell"
)

// Repetitions below which nothing is called reproduced. Studies of real networks have intervals over sources, and
// repeat only the random split and sample.
const fewestSeeds, fewestDraws = 5, 3

// WhyTooSmall says why the result is too small to judge by, such as "quick, 2 seeds"; "" where it is not.
func (r *Result) WhyTooSmall() string {
	seeds, enough := len(r.Options.Seeds), fewestSeeds
	if r.Study == "figure1" {
		seeds = min(seeds, 1) // it looks at the first alone
	}
	if r.Study == "table3" || r.Study == "table4" || r.Study == "clicks" {
		enough = fewestDraws
	}
	reason := fmt.Sprintf("%d seeds", seeds)
	if seeds == 1 {
		reason = "one seed"
	}
	switch {
	case r.Options.Quick:
		return "quick, " + reason
	case seeds > 0 && seeds < enough:
		return reason
	}
	return ""
}

// Conclusions are the claims as they may be shown: where the result is too small, the verdict of each is TooSmall, and
// what the numbers alone would say moves into its evidence.
func (r *Result) Conclusions() []Claim {
	if r.WhyTooSmall() == "" {
		return r.Claims
	}
	conclusions := make([]Claim, len(r.Claims))
	for i, c := range r.Claims {
		conclusions[i] = Claim{c.Statement, TooSmall, fmt.Sprintf("By these numbers: %s. %s", c.Verdict, c.Evidence)}
	}
	return conclusions
}

// check returns an error if a table or figure has no name of its own or contradicts itself.
func (r *Result) check() error {
	names := make(map[string]bool)
	checked := func(kind, name string, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s %s of %s: %w", kind, name, r.Study, err)
		case name == "" || names[name]:
			return fmt.Errorf("two tables or figures of %s are named %q; give each a name of its own", r.Study,
				name)
		}
		names[name] = true
		return nil
	}
	for _, t := range r.Tables {
		if err := checked("table", t.Name, t.Check()); err != nil {
			return err
		}
	}
	for _, f := range r.Figures {
		if err := checked("figure", f.Name, f.Check()); err != nil {
			return err
		}
	}
	return nil
}
