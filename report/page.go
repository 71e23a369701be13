package report

import (
	"fmt"
	"strings"
	"unicode"

	"unseen/figure"
	"unseen/study"
)

// Page is the content of a report, to be written as HTML, figures or JSON.
type Page struct {
	Title    string    `json:"title"`
	Summary  []string  `json:"summary,omitempty"` // in plain words, the most important first
	Sections []Section `json:"sections"`
}

// Section is one part of a page. Fields that are empty are left out.
type Section struct {
	// Name is part of file names and of the page's addresses; "" derives it from the title.
	Name     string          `json:"name,omitempty"`
	Title    string          `json:"title"`
	Text     []string        `json:"text,omitempty"` // paragraphs
	Warnings []string        `json:"warnings,omitempty"`
	Claims   []study.Claim   `json:"findings,omitempty"` // with their verdicts
	Advice   []string        `json:"advice,omitempty"`   // what would help, the most useful first
	Figures  []figure.Figure `json:"figures,omitempty"`
	Tables   []figure.Table  `json:"tables,omitempty"`
	Notes    []string        `json:"notes,omitempty"` // how it was done
	Facts    []Fact          `json:"facts,omitempty"` // settings, seeds, checksums

	FactsTitle string `json:"factsTitle,omitempty"` // "" means Settings and seeds
}

// Fact is a name and its value, such as a setting.
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

// Add appends elements, in the order in which they will be read.
func (p *Page) Add(elements ...Element) {
	for _, e := range elements {
		p.Sections = append(p.Sections, e.Section())
	}
}

// check returns an error if the page is empty or a table contradicts itself.
func (p *Page) check() error {
	if len(p.Sections) == 0 && len(p.Summary) == 0 {
		return fmt.Errorf("%w: it has no section and no summary; add one", ErrPage)
	}
	for _, s := range p.Sections {
		for _, t := range s.Tables {
			if err := t.Check(); err != nil {
				return fmt.Errorf("%w: table %q of %q: %w", ErrPage, t.Title, s.Title, err)
			}
		}
	}
	return nil
}

// names returns a distinct name for every section, of letters, digits and hyphens.
func (p *Page) names() []string {
	taken := map[string]bool{"summary": true, "contents": true}
	names := make([]string, len(p.Sections))
	for i, s := range p.Sections {
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

// slug turns a text into a name for files and addresses.
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

// countVerdicts counts the verdicts of claims: "3 reproduced, 1 partly".
func countVerdicts(claims []study.Claim) string {
	counts := map[study.Verdict]int{}
	for _, c := range claims {
		counts[c.Verdict]++
	}
	var words []string
	for _, v := range verdicts {
		if counts[v] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	return strings.Join(words, ", ")
}
