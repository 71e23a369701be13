package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unseen/encode"
	"unseen/engine"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/model"
	"unseen/network"
	"unseen/recommend"
)

// recommendFlags is the command line of unseen recommend.
type recommendFlags struct {
	model, data string
	nodes       []string
	text, field string
	history     []string // of a new person: ids that it links to
	shown       []string // and that it was shown besides
	all         bool
	ids         string // file of nodes
	naive       string
	k           int

	seen, linked, explain, compare bool
	fields                         []string
	from, until                    string
	exclude                        string
	diversity, explore, recall     float64
	exact                          bool
	seed                           uint64

	format, output string
	resume         bool
	threads        int
	quiet, asJSON  bool
	deviceFlags
}

func newRecommend() *cobra.Command {
	var f recommendFlags
	cmd := &cobra.Command{
		Use:   "recommend MODEL DATASET [NODE…]",
		Short: "Recommend targets, with reasons and what exposure hid",
		Long: `Recommend the targets that a node would link to if everything were shown to it,
best first: by ŷ, the chance of a link once shown, in the mean of all
assumptions that explain the links. Each comes with π̂, the chance that it was
shown so far. --naive adds the rank that a model which ignores exposure gives
it. A line below says on how many of the first 10 all assumptions agree.

NODE is an id of the dataset. --text recommends for a new text instead, by the
dataset's own encoder; its field is guessed unless --field gives it. --history
recommends to a new person by the items that they link to, if the model has
learned factors; --shown adds those that they saw and left. --nodes reads ids
from a file, --all takes every node; both write to -o in parts of
4,096 nodes, and --resume continues an interrupted run.

By default targets that the node links to already are left out. --seen ranks
by π̂ŷ, the chance that a link is seen: it brings the bias back. --diversity
re-ranks so that items differ from each other. --explore draws that share of the
positions in proportion to ŷ and prints each item's probability of being shown.`,
		Example: `  unseen recommend model.safetensors papers 10.7554/eLife.00003
  unseen recommend model.safetensors papers 00003 --naive naive.safetensors
  unseen recommend model.safetensors papers --text "cryo-EM of channels" -k 5
  unseen recommend model.safetensors papers --all -o lists --format jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] == "" || args[1] == "" {
				return usagef("name a model, its dataset and a node; for instance unseen recommend " +
					"model.safetensors papers 00003")
			}
			f.model, f.data, f.nodes = args[0], args[1], args[2:]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("text") && strings.TrimSpace(f.text) == "" {
				return usagef("--text is empty; give a title, an abstract, a few words")
			}
			if err := f.check(); err != nil {
				return err
			}
			t := newDisplay(cmd.ErrOrStderr(), f.quiet)
			if f.all || f.ids != "" {
				r, err := runBatch(cmd.Context(), f, t)
				if err != nil {
					return err
				}
				return present(cmd, f.asJSON, r, r.print)
			}
			lists, err := runRecommend(cmd.Context(), f, t)
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, lists, func(w io.Writer) error { return writeLists(w, lists, f) })
		},
		ValidArgsFunction: modelThenFolder,
	}
	f.register(cmd)
	return cmd
}

// register adds the flags to a command.
func (f *recommendFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVarP(&f.k, "k", "k", 10, "number of items")
	flags.StringVar(&f.text, "text", "", "recommend for this new `text`")
	flags.StringSliceVar(&f.history, "history", nil, "recommend to a new person who links to these `ids`")
	flags.StringSliceVar(&f.shown, "shown", nil, "`ids` that the new person was shown and did not link to")
	flags.StringVar(&f.field, "field", "", "field of the new text or person (default: guessed)")
	flags.BoolVar(&f.all, "all", false, "recommend to every node, into -o")
	flags.StringVar(&f.ids, "nodes", "", "recommend to the ids in this `file`, into -o")
	flags.StringVar(&f.naive, "naive", "", "a naive `model` to compare with")
	flags.BoolVar(&f.compare, "compare", false, "also show the naive model's list")
	flags.BoolVar(&f.explain, "explain", false, "add the reason for each item")
	flags.BoolVar(&f.seen, "seen", false, "rank by π̂ŷ, which repeats past exposure")
	flags.StringArrayVar(&f.fields, "fields", nil, "only targets of this `field`; repeatable")
	flags.StringVar(&f.from, "from", "", "only targets from this `date` on")
	flags.StringVar(&f.until, "until", "", "only targets before this `date`")
	flags.BoolVar(&f.linked, "linked", false, "include targets that the node links to")
	flags.StringVar(&f.exclude, "exclude", "", "leave out the ids in this `file`")
	flags.Float64Var(&f.diversity, "diversity", 0, "from 0, relevance only, to 1, most diverse")
	flags.Float64Var(&f.explore, "explore", 0, "share of positions drawn in proportion to ŷ")
	indexFlags(cmd, &f.recall, &f.exact)
	flags.Uint64Var(&f.seed, "seed", 1, "seed of exploration")
	flags.StringVar(&f.format, "format", "", "text, csv, jsonl, bibtex or ris (with -o: jsonl)")
	flags.StringVarP(&f.output, "output", "o", "", "`folder` for --all and --nodes")
	flags.BoolVar(&f.resume, "resume", false, "continue an interrupted run")
	threadsFlag(cmd, &f.threads)
	f.deviceFlags.register(cmd, "compares all nodes, with --all and --nodes")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	for old, name := range map[string]string{"by-seen": "seen", "only-field": "fields", "since": "from",
		"before": "until"} {
		oldFlag(cmd, old, name)
	}
	completeFlags(cmd, map[string][]string{"format": {"text", "csv", "jsonl", "bibtex", "ris"}},
		"k", "text", "history", "shown", "field", "fields", "from", "until", "diversity", "explore", "seed", "threads")
}

// modelThenFolder completes a model and then a dataset.
func modelThenFolder(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return []cobra.Completion{"safetensors"}, cobra.ShellCompDirectiveFilterFileExt
	case 1:
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// check says which flag is wrong.
func (f *recommendFlags) check() error {
	batch := f.all || f.ids != ""
	ways := 0
	for _, given := range []bool{len(f.nodes) > 0, f.text != "", f.history != nil, f.all, f.ids != ""} {
		ways += count(given)
	}
	switch {
	case ways == 0:
		return usagef("no source; name a node, or give --text, --history, --nodes or --all")
	case ways > 1:
		return usagef("nodes, --text, --history, --nodes and --all exclude one another; give one")
	case f.shown != nil && f.history == nil:
		return usagef("--shown is what a new person was shown; give --history too")
	case f.k < 1 || f.k > recommend.MaxK:
		return usagef("-k is %d; give from 1 to %s", f.k, amount.Text(recommend.MaxK))
	case f.field != "" && f.text == "" && f.history == nil:
		return usagef("--field is the field of a new text or person; give --text or --history, or --fields for that " +
			"of targets")
	case f.compare && f.naive == "":
		return usagef("--compare needs a model to compare with; give --naive")
	case (f.exact || f.recall != recommend.StandardRecall) && !batch:
		return usagef("--exact and --recall are for --all and --nodes; other lists are exact")
	case batch && f.output == "":
		return usagef("--all and --nodes write many lists; give a folder with -o")
	case !batch && f.output != "":
		return usagef("-o is for --all and --nodes; redirect the output instead")
	case f.resume && !batch:
		return usagef("--resume is for --all and --nodes")
	case f.device != "cpu" && !batch:
		return usagef("--device is for --all and --nodes; the processor makes a few lists in no time")
	case batch && (f.seen || f.fields != nil || f.from != "" || f.until != "" || f.exclude != "" || f.diversity > 0 ||
		f.explore > 0 || f.explain || f.compare):
		return usagef("--all and --nodes take no filters, re-ranking or explanations; name the nodes instead")
	}
	formats := []string{"", "text", "csv", "jsonl", "bibtex", "ris"}
	if batch {
		formats = []string{"", "csv", "jsonl"}
	}
	if !slices.Contains(formats, f.format) {
		return usagef("--format is %q; give %s", f.format, strings.Join(formats[1:], ", "))
	}
	plain := f.format != "" && f.format != "text"
	switch {
	case f.asJSON && f.format != "" && !batch:
		return usagef("--json and --format %s exclude one another; give one", f.format)
	case f.explain && plain && f.format != "jsonl":
		return usagef("--format %s cannot show --explain; give --json or --format jsonl", f.format)
	case f.compare && plain:
		return usagef("--format %s cannot show --compare; give --json, or leave --compare out for the naive "+
			"ranks alone", f.format)
	}
	if err := f.deviceFlags.check(func(string) bool { return false }); err != nil {
		return err
	}
	return checkRecall(f.recall)
}

// recommenderOf is what recommends, and what is to be known of it.
type recommenderOf struct {
	*recommend.Recommender
	files map[string]string // of the dataset
	notes []string
	close func() error
}

// openRecommender opens the dataset and the models, which must have been fitted to it.
func (f *recommendFlags) openRecommender(ctx context.Context, t *display) (_ *recommenderOf, err error) {
	n, err := openFitted(ctx, f.model, f.data, t)
	if err != nil {
		return nil, err
	}
	out := &recommenderOf{files: n.Files(), close: n.Close}
	defer func() {
		if err != nil {
			out.close()
		}
	}()
	if f.text != "" || f.explain { // nothing else needs it, and reading it takes as long as a search
		if _, err := n.OpenTexts(); err != nil {
			return nil, err
		}
	}
	var naive *network.Fitted
	if f.naive != "" {
		if naive, err = n.other(ctx, f.naive); err != nil {
			return nil, err
		}
	}
	device, done, tried, err := f.deviceFlags.open(f.threads)
	if err != nil {
		return nil, err
	}
	out.notes, out.close = append(out.notes, tried...), func() error { done(); return n.Close() }
	_, many := device.(engine.Batching) // it compares all faster than an index finds some
	o := recommend.Options{Threads: f.threads, Engine: device, LeastRecall: f.recall,
		Sketched: (f.all || f.ids != "") && !many}
	if o.Sketched && !f.exact { // for a few lists, measuring the index takes longer than a scan
		if o.Index, err = n.Index(ctx, f.threads); err != nil {
			out.notes = append(out.notes, fmt.Sprintf("lists are exact: %v", err))
		}
	}
	if out.Recommender, err = n.model.Recommender(ctx, naive, o); err != nil {
		return nil, err
	}
	if o.Index != nil {
		if _, err := out.MeasureMany(ctx, f.k); err != nil {
			return nil, err
		}
		out.notes = append(out.notes, recallNote(out.Recommender, f.recall))
	}
	if naive != nil && naive.Metadata[model.KeyPropensity] != "constant" {
		out.notes = append(out.notes, fmt.Sprintf("--naive %s (%s) is not naive: it models exposure too, so "+
			"differences between the lists are not due to exposure alone; make one with unseen fit %s --method naive",
			filepath.Base(f.naive), naive.Metadata[model.KeyMethod], f.data))
	}
	return out, nil
}

// runRecommend makes the lists of nodes or of a new text.
func runRecommend(ctx context.Context, f recommendFlags, t *display) ([]*recommend.List, error) {
	defer t.clear()
	r, err := f.openRecommender(ctx, t)
	if err != nil {
		return nil, err
	}
	defer r.close()
	q, err := f.query(r.Graph())
	if err != nil {
		return nil, err
	}
	var sources []recommend.Source
	notes := r.notes
	if f.text != "" || f.history != nil {
		source, note, err := f.newSource(ctx, r.Recommender)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
		if note != "" {
			notes = append(notes, note)
		}
	}
	for _, id := range f.nodes {
		i, err := findSource(r.Graph(), id)
		if err != nil {
			return nil, err
		}
		sources = append(sources, r.Node(i))
	}
	var lists []*recommend.List
	for _, source := range sources {
		q.Source = source
		list, err := r.Top(ctx, q)
		if err != nil {
			return nil, causedByFlags(err)
		}
		for _, note := range notes {
			list.Warnings = append([]string{note}, list.Warnings...)
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// newSource is a new text, or a new person by their history, with what to say of it.
func (f *recommendFlags) newSource(ctx context.Context, r *recommend.Recommender) (_ recommend.Source, note string,
	err error) {
	var field *uint16
	if f.field != "" {
		known, err := findField(r.Graph(), f.field)
		if err != nil {
			return recommend.Source{}, "", err
		}
		field = &known
	}
	if f.history == nil {
		source, probability, err := r.Text(ctx, encode.Text{Body: f.text}, field)
		if field == nil {
			note = fmt.Sprintf("the field of the text was guessed, with probability %.2f; set --field to be sure",
				probability)
		}
		return source, note, causedByFlags(err)
	}
	var lists [2][]int32
	for k, ids := range [][]string{f.history, f.shown} {
		for _, id := range ids {
			j, err := findNode(r.Graph(), strings.TrimSpace(id))
			if err != nil {
				return recommend.Source{}, "", err
			}
			lists[k] = append(lists[k], j)
		}
	}
	source, err := r.History(ctx, lists[0], lists[1], field)
	return source, "", causedByFlags(err)
}

// query turns the flags into what is asked for.
func (f *recommendFlags) query(g *graph.Graph) (recommend.Query, error) {
	q := recommend.Query{K: f.k, Seen: f.seen, Linked: f.linked, Diversity: f.diversity, Explore: f.explore,
		Seed: f.seed, Explain: f.explain, Compare: f.compare}
	for _, name := range f.fields {
		field, err := findField(g, name)
		if err != nil {
			return q, err
		}
		q.Fields = append(q.Fields, field)
	}
	for _, day := range []struct {
		flag, text string
		into       *time.Time
	}{{"from", f.from, &q.From}, {"until", f.until, &q.Until}} {
		if day.text == "" {
			continue
		}
		var err error
		if *day.into, err = parseDay(day.text); err != nil {
			return q, usagef("--%s is %q; give a date such as 2021 or 2021-01-31", day.flag, day.text)
		}
	}
	if f.exclude != "" {
		ids, err := readIDs(f.exclude)
		if err != nil {
			return q, err
		}
		for _, id := range ids {
			if j, ok := g.Index(id); ok { // an unknown id needs no exclusion
				q.Exclude = append(q.Exclude, j)
			}
		}
	}
	return q, nil
}

// parseDay reads a date, or a year for its first day.
func parseDay(text string) (time.Time, error) {
	if t, err := time.Parse("2006", text); err == nil {
		return t, nil
	}
	return time.Parse(time.DateOnly, text)
}

// readIDs reads one id per line.
func readIDs(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usagef("%s cannot be read: %v; give a file with one id per line", path, err)
	}
	defer file.Close()
	var ids []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" {
			ids = append(ids, id)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, usagef("%s, line %d: %v; give a file with one id per line", path, len(ids)+1, err)
	}
	return ids, nil
}

// findNode looks an id up and names the nearest if there is none.
func findNode(g *graph.Graph, id string) (int32, error) {
	if i, ok := g.Index(id); ok {
		return i, nil
	}
	names, near := nearestIDs(g, id)
	if !near {
		return 0, usagef("no node %q; give an id such as %s", id, strings.Join(names, ", "))
	}
	return 0, usagef("no node %q; did you mean %s?", id, strings.Join(names, ", "))
}

// findSource is findNode for a node to recommend to.
func findSource(g *graph.Graph, id string) (int32, error) {
	if i, ok := g.SourceIndex(id); ok {
		return i, nil
	}
	return findNode(g, id)
}

// nearestIDs are the ids, or the nodes with titles, most like a word that is no id, and whether they are like it.
func nearestIDs(g *graph.Graph, id string) (names []string, alike bool) {
	type near struct {
		name     string
		distance int
	}
	var found []near
	word := strings.ToLower(id)
	for i := range int32(g.Len()) {
		name := g.ID(i)
		distance := 1000
		if abs(len(name)-len(id)) <= 3 && len(id) <= 64 {
			distance = edits(strings.ToLower(name), word)
		}
		if len(word) > 3 && strings.Contains(strings.ToLower(name), word) {
			distance = 1
		}
		if title := strings.ToLower(g.Title(i)); len(word) > 3 && strings.Contains(title, word) {
			distance, name = min(distance, 1), fmt.Sprintf("%s (%s)", name, short(g.Title(i), 40))
		}
		worst := 1000
		if len(found) == 3 {
			worst = found[2].distance
		}
		if distance < worst || len(found) < 3 {
			found = append(found, near{name, distance})
			slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
			found = found[:min(3, len(found))]
		}
	}
	for _, f := range found {
		names = append(names, f.name)
	}
	return names, len(found) > 0 && found[0].distance < len(id)
}

func abs(x int) int { return max(x, -x) }

// findField looks a field up by its name, whatever its case.
func findField(g *graph.Graph, name string) (uint16, error) {
	var names []string
	for field := range g.FieldCount() {
		known := g.FieldName(uint16(field))
		if strings.EqualFold(known, name) {
			return uint16(field), nil
		}
		if uint16(field) != graph.UnknownField {
			names = append(names, known)
		}
	}
	const most = 12
	list := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		list += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return 0, usagef("no field %q; there is %s", name, list)
}

// writeLists prints lists in a format.
func writeLists(w io.Writer, lists []*recommend.List, f recommendFlags) error {
	switch f.format {
	case "csv":
		return writeListsCSV(w, lists)
	case "jsonl":
		return writeListsJSONL(w, lists)
	case "bibtex", "ris":
		return writeReferences(w, f.format, lists)
	}
	var b strings.Builder
	for k, list := range lists {
		if k > 0 {
			b.WriteString("\n")
		}
		printList(&b, list, f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// listName says who a list is for.
func listName(list *recommend.List, text string) string {
	if list.Source.Node < 0 && text == "" {
		return "a new person"
	}
	if list.Source.Node < 0 {
		return "“" + short(strings.Join(strings.Fields(text), " "), 50) + "”"
	}
	if list.Source.Title != "" {
		return list.Source.ID + " " + short(list.Source.Title, 50)
	}
	return list.Source.ID
}

// batchFile is the name of a part.
func batchFile(dir, format string, part int) string {
	return filepath.Join(dir, fmt.Sprintf("part-%05d.%s", part, format))
}
