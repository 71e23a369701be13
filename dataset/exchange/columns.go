package exchange

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"unseen/graph"
	"unseen/hint"
)

// role is what a column may hold, and the usual names of such columns, the surest first.
type role struct {
	name  string
	known []string
	flag  string // that names the column; empty means name
	ask   bool   // whether to say that no column looks like it: under an unusual name it should not be missed
}

// flagName is the flag that names the column.
func (r role) flagName() string {
	if r.flag != "" {
		return r.flag
	}
	return r.name
}

// setting is the flag as a setting of hints: userField for user-field.
func (r role) setting() hint.Setting {
	first, rest, found := strings.Cut(r.flagName(), "-")
	if found {
		rest = strings.ToUpper(rest[:1]) + rest[1:]
	}
	return hint.Setting(first + rest)
}

var (
	nodeRoles = []role{
		{name: "id", known: []string{"id", "node_id", "nodeid", "node", "paper_id", "paperid", "key", "doi", "name"}},
		{name: "field", known: []string{"field", "category", "subject", "discipline", "section", "class", "community",
			"topic",
			"label", "venue"}, ask: true},
		{name: "title", known: []string{"title", "name", "label", "display_name", "headline"}},
		{name: "text", known: []string{"text", "abstract", "description", "summary", "body", "content"}},
		{name: "time", known: []string{"time", "date", "published", "publication_date", "created", "timestamp", "year",
			"publication_year"}, ask: true},
		{name: "role", known: []string{"role"}},
	}
	linkRoles = []role{
		{name: "source", known: []string{"source", "src", "from", "citing", "citing_id", "from_id", "source_id",
			"citing_paper", "citing_paper_id", "citing_doi", "start", "u"}},
		{name: "target", known: []string{"target", "dst", "to", "cited", "cited_id", "to_id", "target_id",
			"cited_paper", "cited_paper_id", "cited_doi", "destination", "end", "v"}},
		{name: "time", known: []string{"time", "timestamp"}, flag: "link-time"},
	}
	exposureRoles = []role{
		{name: "source", known: linkRoles[0].known, flag: "exposure-source"},
		{name: "target", known: linkRoles[1].known, flag: "exposure-target"},
		{name: "linked", known: []string{"linked", "clicked", "chosen"}},
		{name: "exposed", known: []string{"exposed", "seen"}},
		{name: "shown", known: []string{"shown", "probability"}},
		{name: "count", known: []string{"count"}},
		{name: "position", known: []string{"position"}},
		{name: "surface", known: []string{"surface"}},
		{name: "time", known: []string{"time", "timestamp"}, flag: "exposure-time"},
	}
	clickRoles = append(slices.Clone(linkRoles[:2]), role{name: "clicks", known: []string{"clicks", "count", "n"}})
)

// roleFlags are the flags that name columns.
var roleFlags = []Flag{
	{Name: "id", Usage: "`COLUMN` with the nodes' ids"},
	{Name: "field", Usage: "`COLUMN` with the nodes' fields"},
	{Name: "title", Usage: "`COLUMN` with the nodes' titles"},
	{Name: "text", Usage: "`COLUMN` with the nodes' texts"},
	{Name: "time", Usage: "`COLUMN` with the nodes' times"},
	{Name: "role", Usage: "`COLUMN` of nodes: source, target or both"},
	{Name: "source", Usage: "`COLUMN` with the links' sources"},
	{Name: "target", Usage: "`COLUMN` with the links' targets"},
	{Name: "link-time", Usage: "`COLUMN` with the links' times"},
}

// columns finds the column of every role: the one that its flag names, or else the first with a usual name of the
// role that no other role has. −1 means none; needed roles must have one.
func columns(o *Options, at Place, header []string, roles []role, needed ...string) ([]int, error) {
	found := slices.Repeat([]int{-1}, len(roles))
	taken := make([]bool, len(header))
	for k, r := range roles {
		name := o.Flag(r.flagName())
		if !o.Given(r.flagName()) || name == "" {
			continue
		}
		c := slices.Index(header, name)
		if c < 0 {
			return nil, failAt(at, fmt.Errorf("%w: no column %.80q; there are %s", ErrUsage, name, list(header)),
				"set %v to one of them", r.setting())
		}
		found[k], taken[c] = c, true
	}
	for k, r := range roles {
		if found[k] >= 0 || o.Given(r.flagName()) { // given as empty: there is none
			continue
		}
	names:
		for _, name := range r.known {
			for c, h := range header {
				if !taken[c] && plainName(h) == plainName(name) {
					found[k], taken[c] = c, true
					break names
				}
			}
		}
	}
	for _, name := range needed {
		if k := slices.IndexFunc(roles, func(r role) bool { return r.name == name }); found[k] < 0 {
			return nil, failAt(at, fmt.Errorf("%w: no column looks like the %s; there are %s", ErrUsage, name,
				list(header)), "set %v to its name", roles[k].setting())
		}
	}
	return found, nil
}

// plainName is a name of a column without what spellings differ in: user_id, userId and "User ID" are one.
func plainName(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, name))
}

// kindNames are columns of interactions that say what a person did: looked, clicked, bought.
var kindNames = []string{"event", "event_type", "eventtype", "action", "behavior", "behavior_type", "behaviour",
	"interaction_type"}

// noteGuesses reports which columns were chosen by their names, which roles have none that should not be missed, and
// whether rows are of several kinds.
func noteGuesses(s Sink, o *Options, path string, header []string, roles []role, found []int) {
	var parts []string
	for k, r := range roles {
		if c := found[k]; c >= 0 && !o.Given(r.flagName()) && header[c] != r.name {
			parts = append(parts, fmt.Sprintf("`%s` as %s", header[c], r.name))
		}
	}
	if len(parts) > 0 {
		s.Note("%s: using %s.", path, strings.Join(parts, ", "))
	}
	for c, name := range header {
		if slices.Contains(kindNames, strings.ToLower(name)) && !slices.Contains(found, c) &&
			slices.ContainsFunc(roles, func(r role) bool { return r.name == "rating" }) {
			s.Note("%s: `%s` is not used: every row counts as a click. Leave out the rows that should not.", path, name)
		}
	}
	var left []string
	for c, name := range header {
		if !slices.Contains(found, c) {
			left = append(left, name)
		}
	}
	for k, r := range roles {
		if r.ask && len(left) > 0 && found[k] < 0 && !o.Given(r.flagName()) {
			s.Note("%s: no column looks like the %s; unused columns: %s. If one is the %s, set %v to its name.",
				path, r.name, list(left), r.name, r.setting())
		}
	}
}

// exposureFlags are the flags that name columns of exposures; those of nodes and links say nothing of them.
func exposureFlags(o Options) map[string]string {
	flags := map[string]string{}
	for _, r := range exposureRoles {
		if value, given := o.Flags[r.flagName()]; given {
			flags[r.flagName()] = value
		}
	}
	return flags
}

// roleOf is the role that a column names. A column of another meaning names none: then a node is source and target.
func roleOf(text string) graph.Role {
	r, err := graph.ParseRole(text)
	if err != nil {
		return graph.SourceAndTarget
	}
	return r
}

func list(names []string) string {
	text := strings.Join(names, ", ")
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

var timeLayouts = []string{
	"2006-01-02", "2006-01", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05", "2006/01/02", "2006/01",
}

// parseTime reads a year, a month, a day or a second, in UTC where no zone is given; @n is n seconds from
// 1970. Empty is the zero time, which stands for unknown.
func parseTime(text string) (time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return time.Time{}, nil
	}
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
			return time.Unix(n, 0).UTC(), nil
		}
	}
	// A year, also as pandas writes it where some are missing: 1999.0.
	if year, err := strconv.Atoi(strings.TrimSuffix(text, ".0")); err == nil && year > 0 && year < 10000 {
		return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %.40q is not a time", ErrFormat, text)
}

// formatTime formats a time for parseTime.
func formatTime(t time.Time) string {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return "@" + strconv.FormatInt(t.Unix(), 10)
	}
	return t.UTC().Format(time.RFC3339)
}

const timeHint = "write 2021, 2021-03, 2021-03-31 or 2021-03-31T12:00:00Z, or leave it empty"

// parseBool reads true and false as programs write them.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "1", "yes":
		return true, nil
	case "false", "0", "no":
		return false, nil
	}
	return false, fmt.Errorf("%w: %.40q is neither true nor false", ErrFormat, text)
}
