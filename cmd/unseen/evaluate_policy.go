package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/dataset/exchange"
	"unseen/engine"
	"unseen/evaluate"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/recommend"
	"unseen/risk"
	"unseen/serve"
	"unseen/serve/store"
)

// policyFlags say which policy to value by which log.
type policyFlags struct {
	log, policy string
	k           int
	explore     float64
	linked      bool
	examination []float64
	probability string
}

// columnPolicy is how a policy is named whose probabilities are a column of the table.
const columnPolicy = "column:"

// policyHelp is what --log and --policy do, in the help of unseen evaluate.
const policyHelp = `--log and --policy say instead what a policy would be worth, before it goes live,
by a log of what another showed: the mean outcome of an item that it shows, by
SNIPS, DR and bounded DR, with intervals by context, and in a sentence whether
it is better, worse or not known to be either than what the log did. EVENTS is
the event log of unseen serve (events.db), or a table (CSV, JSON lines, Parquet)
with the columns context, item, place, probability and outcome, and optionally
list. The policy is a model, popular, uniform, or column:NAME for probabilities
in the table, which needs no DATASET. It explores like unseen serve. A log can
say nothing of what it could not show, and too little below 100 effective
contexts or 20 effective outcomes: then the reason is printed. A model that has learned from the log
looks better than it is; value it by a later one. How often readers look at a
place is learned from the lists of an event log that are in any order.`

func (f *policyFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.log, "log", "", "value a policy by this log: `EVENTS`")
	flags.StringVar(&f.policy, "policy", "", "`POLICY`: a model, popular, uniform, column:NAME")
	flags.IntVar(&f.k, "k", 0, "items of the policy's lists (default: as in the log)")
	flags.Float64Var(&f.explore, "explore", .1, "share of places that the policy draws")
	flags.BoolVar(&f.linked, "linked", false, "the policy shows linked items too")
	flags.Float64SliceVar(&f.examination, "examination", nil, "`chances` that readers look at places 1, 2, … (learned)")
	flags.Lookup("examination").DefValue = ""
	flags.StringVar(&f.probability, "probability", "", "in the log: of the item in the `list` or at its place")
	completeFlags(cmd, map[string][]string{"probability": {"list", "place"}}, "k", "explore", "examination")
}

// policyNames are the flags that need --log.
var policyNames = []string{"policy", "k", "explore", "linked", "examination", "probability"}

// asked reports whether a policy is to be valued, and refuses flags of the other kind of evaluation.
func (f *policyFlags) asked(given func(string) bool) (bool, error) {
	if !given("log") {
		for _, name := range policyNames {
			if given(name) {
				return false, usagef("--%s is about a policy that a log values; give --log too", name)
			}
		}
		return false, nil
	}
	for _, name := range []string{"against", "exact", "by-fields", "certify", "fairness", "groups", "rank", "sources",
		"floor", "seed"} {
		if given(name) {
			return true, usagef("--%s and --log; a log values a policy and nothing else, so give one of them", name)
		}
	}
	switch {
	case f.log == "":
		return true, usagef("--log is empty; give an event log or a table of what was shown")
	case f.policy == "" || f.policy == columnPolicy:
		return true, usagef("--policy is missing; give a model, popular, uniform or column:NAME")
	case f.k < 0 || f.k > recommend.MaxK:
		return true, usagef("--k is %d; give from 1 to %s", f.k, amount.Text(recommend.MaxK))
	case !(f.explore >= 0 && f.explore <= 1):
		return true, usagef("--explore is %v; give a share from 0 to 1", f.explore)
	case !slices.Contains([]string{"", "list", "place"}, f.probability):
		return true, usagef("--probability is %q; give list or place", f.probability)
	}
	for k, x := range f.examination {
		if !(x > 0 && x <= 1) {
			return true, usagef("--examination has %v for place %d; give probabilities above 0, at most 1", x, k+1)
		}
	}
	return true, nil
}

// takePolicyData takes the dataset, which only a column of the table does without.
func (f *evaluateFlags) takePolicyData(args []string) error {
	_, column := f.byColumn()
	switch {
	case column && len(args) > 0:
		return usagef("%s is named, and a policy that is a column of the log needs no dataset; leave it out", args[0])
	case column:
	case len(args) != 1 || args[0] == "":
		return usagef("name the dataset; for instance unseen evaluate papers --log state/events.db --policy " +
			"model.safetensors")
	default:
		f.data = args[0]
	}
	return nil
}

// byColumn reports whether the probabilities of the policy are in the table.
func (f *policyFlags) byColumn() (name string, is bool) {
	return strings.CutPrefix(f.policy, columnPolicy)
}

// policyReport is what is printed.
type policyReport struct {
	Log      string    `json:"log"`
	Policy   string    `json:"policy"`
	Explore  float64   `json:"explore"`
	Examined []float64 `json:"examination,omitempty"`
	By       string    `json:"probability"` // list or place
	Message  string    `json:"message"`
	*evaluate.PolicyValue
}

// runPolicy values a policy.
func runPolicy(ctx context.Context, f evaluateFlags, t *display) (*policyReport, error) {
	defer t.clear()
	p := f.policyFlags
	out := &policyReport{Log: filepath.Base(p.log), Policy: filepath.Base(p.policy), Explore: p.explore,
		Examined: p.examination}
	var lists []evaluate.PolicyList
	var warnings []string
	err := error(nil)
	if column, is := p.byColumn(); is {
		out.Policy, out.Explore = p.policy, 0
		lists, out.By, warnings, err = p.columnLists(ctx, column, t)
	} else {
		lists, out.By, warnings, err = p.policyLists(ctx, f.data, f.threads, t)
	}
	if err != nil {
		return nil, err
	}
	t.say("valuing %s by %s", out.Policy, amount.Of(len(lists), "list"))
	if out.PolicyValue, err = evaluate.ValuePolicy(lists); err != nil {
		return nil, fmt.Errorf("%s: %w", p.log, err)
	}
	out.Warnings = append(warnings, out.Warnings...)
	out.Message = out.PolicyValue.Sentence(out.Policy)
	if f.output != "" {
		err = atomicfile.Write(f.output, func(w io.Writer) error { return printJSON(w, out) })
	}
	return out, err
}

// policyLists asks a model or a rule what it would have shown.
func (p *policyFlags) policyLists(ctx context.Context, data string, threads int, t *display) (
	lists []evaluate.PolicyList, by string, warnings []string, err error) {
	rule := recommend.Rule(p.policy)
	var g *graph.Graph
	var r *recommend.Recommender
	if rule == recommend.ByPopular || rule == recommend.ByUniform {
		d, err := dataset.Open(ctx, data, dataset.OpenOptions{Progress: t.report})
		if err != nil {
			return nil, "", nil, err
		}
		defer d.Close()
		g = d.Graph()
	} else {
		rule = recommend.ByModel
		n, err := openFitted(ctx, p.policy, data, t)
		if err != nil {
			return nil, "", nil, err
		}
		defer n.Close()
		if r, err = n.model.Recommender(ctx, nil, recommend.Options{Threads: threads,
			Engine: engine.CPU{Threads: threads}}); err != nil {
			return nil, "", nil, err
		}
		g = r.Graph()
	}
	t.say("reading %s", p.log)
	ask := func(lists []evaluate.LoggedList, policy recommend.Policy) ([]evaluate.PolicyList, error) {
		if r == nil {
			return recommend.RulePolicyLists(ctx, g, lists, policy)
		}
		return r.PolicyLists(ctx, lists, policy)
	}
	policy := recommend.Policy{Rule: rule, K: p.k, Explore: p.explore, Linked: p.linked, Examination: p.examination,
		Threads: threads}
	path, is, err := eventLog(p.log)
	if err != nil {
		return nil, "", nil, err
	}
	if is {
		return p.eventLists(ctx, path, g, policy, ask)
	}
	logged, by, warnings, err := p.readTable(ctx, g, t)
	if err != nil {
		return nil, "", nil, err
	}
	policy.ByPlace = by == "place"
	lists, err = ask(logged, policy)
	return lists, by, warnings, err
}

// eventLists asks a policy about the lists of an event log. How often readers look at places is learned from what
// chance has placed, unless that is given.
func (p *policyFlags) eventLists(ctx context.Context, path string, g *graph.Graph, policy recommend.Policy,
	ask func([]evaluate.LoggedList, recommend.Policy) ([]evaluate.PolicyList, error)) (lists []evaluate.PolicyList,
	by string, warnings []string, err error) {
	log, err := store.Open(ctx, path, store.Options{})
	if err != nil {
		return nil, "", nil, err
	}
	defer log.Close()
	read, err := serve.ReadLists(ctx, log, g, serve.ListReading{Find: g.Index})
	if err != nil {
		return nil, "", nil, err
	}
	readers := read.Behaviour(nil)
	if by = "list"; p.probability == "place" {
		by, policy.ByPlace = p.probability, true
		read.ByPlace()
	}
	total := len(read.Lists)
	if unknown := read.Known(); unknown > 0 {
		warnings = append(warnings, fmt.Sprintf("%s of %s lists have items of unknown probability and are left out",
			amount.Text(unknown), amount.Text(total)))
	}
	if read.Strange > 0 {
		warnings = append(warnings, fmt.Sprintf("%s no source and target of the dataset; left out",
			amount.OneOrMore(read.Strange, "event names", "events name")))
	}
	if read.Beyond > 0 {
		warnings = append(warnings, fmt.Sprintf("the log has more than %s lists; the later ones are left out",
			amount.Text(len(read.Lists))))
	}
	lists, doubts, err := read.Ask(policy, readers, ask)
	return lists, by, append(warnings, doubts...), err
}

// eventLog returns the path of the event log, if the path is one or a folder with one.
func eventLog(path string) (string, bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("there is no log %s (no such file); give an events.db of unseen serve, or "+
			"a table", path)
	}
	if err != nil {
		return "", false, fmt.Errorf("reading the log: %w", err)
	}
	if info.IsDir() {
		return eventLog(filepath.Join(path, "events.db"))
	}
	file, err := os.Open(path)
	if err != nil {
		return "", false, fmt.Errorf("reading the log: %w", err)
	}
	defer file.Close()
	start := make([]byte, 16)
	n, _ := io.ReadFull(file, start)
	return path, string(start[:n]) == "SQLite format 3\x00", nil
}

// tableLists groups the rows of a table. Where the table has no lists, the next item at the same place begins another.
type tableLists struct {
	number map[[2]string]int
	begun  map[string]*contextLists
	places bool
}

// contextLists are the lists of a context in a table that does not name them.
type contextLists struct {
	lists []int       // their numbers
	next  map[int]int // by place, which list gets the next item there
}

// of returns the number of the list that a row belongs to, counted from 0, of n so far.
func (l *tableLists) of(row exchange.Impression, n int) int {
	l.places = l.places || row.Place > 0
	if row.List != "" {
		key := [2]string{strings.Clone(row.Context), strings.Clone(row.List)}
		at, known := l.number[key]
		if !known {
			at = n
			l.number[key] = at
		}
		return at
	}
	c := l.begun[row.Context]
	if c == nil {
		c = &contextLists{next: map[int]int{}}
		l.begun[strings.Clone(row.Context)] = c
	}
	at := c.next[row.Place]
	c.next[row.Place]++
	if at == len(c.lists) {
		c.lists = append(c.lists, n)
	}
	return c.lists[at]
}

// by is what the probabilities are of.
func (l *tableLists) by(asked string) string {
	switch {
	case asked != "":
		return asked
	case l.places:
		return "place"
	}
	return "list"
}

// readTable reads the lists of a table whose contexts and items are nodes.
func (p *policyFlags) readTable(ctx context.Context, g *graph.Graph, t *display) (lists []evaluate.LoggedList,
	by string, warnings []string, err error) {
	groups := &tableLists{map[[2]string]int{}, map[string]*contextLists{}, false}
	var strange []bool
	notes, err := exchange.ReadImpressions(ctx, p.log, "", exchange.Options{}, func(row exchange.Impression) error {
		n := groups.of(row, len(lists))
		i, known := g.Index(row.Context)
		j, found := g.Index(row.Item)
		if n == len(lists) {
			lists, strange = append(lists, evaluate.LoggedList{Source: i}), append(strange, false)
		}
		if !known || !found || i == j || !g.IsSource(i) || !g.IsTarget(j) {
			strange[n] = true
			return nil
		}
		lists[n].Items = append(lists[n].Items, evaluate.LoggedItem{Target: j, Probability: row.Probability,
			Wanted: row.Outcome, Place: row.Place})
		return nil
	})
	if err != nil {
		return nil, "", nil, err
	}
	sayNotes(t, notes)
	var kept []evaluate.LoggedList
	for n, l := range lists {
		if !strange[n] {
			kept = append(kept, l)
		}
	}
	if left := len(lists) - len(kept); left > 0 {
		warnings = append(warnings, fmt.Sprintf("%s of %s lists name a context or an item that is no node of the "+
			"dataset and are left out", amount.Text(left), amount.Text(len(lists))))
	}
	return kept, groups.by(p.probability), warnings, nil
}

// columnLists reads the lists of a table that has the probabilities of the policy. It shows as many items as the log.
func (p *policyFlags) columnLists(ctx context.Context, column string, t *display) (lists []evaluate.PolicyList,
	by string, warnings []string, err error) {
	t.say("reading %s", p.log)
	if _, is, err := eventLog(p.log); err != nil {
		return nil, "", nil, err
	} else if is {
		return nil, "", nil, usagef("--policy is %s, and %s is no table; give a model, popular or uniform", p.policy,
			p.log)
	}
	groups := &tableLists{map[[2]string]int{}, map[string]*contextLists{}, false}
	contexts := map[string]int{}
	notes, err := exchange.ReadImpressions(ctx, p.log, column, exchange.Options{}, func(row exchange.Impression) error {
		n := groups.of(row, len(lists))
		who, known := contexts[row.Context]
		if !known {
			who = len(contexts)
			contexts[strings.Clone(row.Context)] = who
		}
		if n == len(lists) {
			lists = append(lists, evaluate.PolicyList{Context: who})
		}
		item := evaluate.PolicyItem{Logged: row.Probability, Target: row.Target}
		if row.Outcome {
			item.Outcome = 1
		}
		lists[n].Length++
		lists[n].Items = append(lists[n].Items, item)
		return nil
	})
	sayNotes(t, notes)
	return lists, groups.by(p.probability), nil, err
}

// sayNotes prints which columns were guessed.
func sayNotes(t *display, notes []hint.Note) {
	for _, note := range notes {
		t.say("%s", note.Render(nil))
	}
}

// printPolicy draws the value of a policy for a terminal of 80 columns.
func printPolicy(w io.Writer, r *policyReport, output string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s by the log %s\n", r.Policy, r.Log)
	fmt.Fprintf(&b, "%s of %s, %s shown, %s with an outcome\n", amount.Of(r.Lists, "list"),
		amount.Of(r.Contexts, "context"), amount.Of(r.Items, "item"), amount.Text(int(r.Outcomes)))
	fmt.Fprintf(&b, "\nOutcomes per shown item       value            95%% interval\n")
	row := func(name string, i risk.Interval) {
		fmt.Fprintf(&b, "  %-24s %8.4f     %8.4f to %8.4f\n", name, i.Estimate, i.Lower, i.Upper)
	}
	row("what the log did", r.Logged)
	for _, e := range r.Estimates {
		row(e.Name, e.Interval)
	}
	if r.Difference != nil {
		row("bounded DR less the log", *r.Difference)
	}
	fmt.Fprintf(&b, "\nEffective contexts %.0f; the log could show %.0f%% of what the policy shows\n", r.Effective,
		100*r.Support)
	b.WriteString("\n" + plain(r.Message))
	for _, warning := range r.Warnings {
		b.WriteString("\n" + wrap("warning: "+warning))
	}
	if output != "" {
		fmt.Fprintf(&b, "\nThe value is in %s\n", output)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
