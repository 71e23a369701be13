package report

import (
	"fmt"
	"strings"
	"unicode"

	"unseen/figure"
	"unseen/study"
)

// Page is what a report says, in any form: HTML, figures, JSON.
type Page struct {
	Title    string    `json:"title"`
	Summary  []string  `json:"summary,omitempty"` // in plain words, the most important first
	Sections []Section `json:"sections"`
}

// Section is one part of a report. What it does not have is left out of the page.
type Section struct {
	// part of files' names and of the page's address; "" makes one of the title
	Name     string          `json:"name,omitempty"`
	Title    string          `json:"title"`
	Text     []string        `json:"text,omitempty"` // paragraphs
	Warnings []string        `json:"warnings,omitempty"`
	Claims   []study.Claim   `json:"findings,omitempty"`
	Advice   []string        `json:"advice,omitempty"` // what would help, the most useful first
	Figures  []figure.Figure `json:"figures,omitempty"`
	Tables   []figure.Table  `json:"tables,omitempty"`
	Notes    []string        `json:"notes,omitempty"` // how it was done
	Facts    []Fact          `json:"facts,omitempty"` // settings, seeds, checksums

	FactsTitle string `json:"factsTitle,omitempty"` // "" means Settings and seeds
}

// Fact is a name and what it stands for, such as a setting.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Element is what a page is made of: a Section, a RiskChart, a HeatPair, Curves, a LoopChart, a HiddenTable, a
// DoctorVerdict.
type Element interface {
	Section() Section
}

// Section returns the section itself.
func (s Section) Section() Section { return s }

// Add appends parts, in the order in which they will be read.
func (d *Page) Add(parts ...Element) {
	for _, p := range parts {
		d.Sections = append(d.Sections, p.Section())
	}
}

// check tells what no page can be made of.
func (d *Page) check() error {
	if len(d.Sections) == 0 && len(d.Summary) == 0 {
		return fmt.Errorf("%w: it has no section and no summary; add one", ErrPage)
	}
	for _, s := range d.Sections {
		for _, t := range s.Tables {
			for _, row := range t.Rows {
				if len(row.Cells) != len(t.Columns) {
					return fmt.Errorf("%w: table %q of %q: row %q has %d cells for %d columns; give one each",
						ErrPage, t.Title, s.Title, row.Name, len(row.Cells), len(t.Columns))
				}
			}
		}
	}
	return nil
}

// names returns a name for every section, all different, made of letters, figures and hyphens.
func (d *Page) names() []string {
	taken := map[string]bool{"summary": true, "contents": true}
	names := make([]string, len(d.Sections))
	for i, s := range d.Sections {
		name := s.Name
		if name == "" {
			name = s.Title
		}
		names[i] = unique(slug(name), taken)
	}
	return names
}

func unique(name string, taken map[string]bool) string {
	free := name
	for k := 2; taken[free]; k++ {
		free = fmt.Sprintf("%s-%d", name, k)
	}
	taken[free] = true
	return free
}

// slug is a name that files and addresses can have.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 48 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "part"
}

// verdicts in the order in which they are counted.
var verdicts = []study.Verdict{study.Reproduced, study.Partly, study.NotReproduced, study.Met, study.Missed,
	study.TooSmall}

// tally counts the verdicts of some findings: "3 reproduced, 1 partly".
func tally(findings []study.Claim) string {
	counts := map[study.Verdict]int{}
	for _, f := range findings {
		counts[f.Verdict]++
	}
	var words []string
	for _, v := range verdicts {
		if counts[v] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	return strings.Join(words, ", ")
}
