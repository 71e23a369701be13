package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"unseen/engine"
	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/network"
	"unseen/world"
)

// shopDemoFlags is the command line of unseen demo shop.
type shopDemoFlags struct {
	shop          world.ShopSettings
	threads       int
	out           string
	quiet, asJSON bool
}

func newDemoShop() *cobra.Command {
	const fewest, most = 50, 3000 // enough to learn from; all pairs in memory
	var f shopDemoFlags
	cmd := &cobra.Command{
		Use:   "shop",
		Short: "Find what a shop has hidden from its customers",
		Long: `Generate a shop of which everything is known: what each person wants, what they
were shown, and what they clicked as a result. The shop shows each segment more
of some categories, and popular items more than others: that is its biased past.
Learn what people want from its clicks and its log of what was shown, and beside
it with a naive method that takes what was not clicked for unwanted. Compare
both with the truth, and show what the shop has hidden.

Writes a folder with a report to open in a browser, the models and the data. All
numbers are computed; the same seed gives the same numbers. It runs the commands
that a shop of your own would need, and prints them.`,
		Example: `  unseen demo shop
  unseen demo shop --people 300 --items 120 --seed 7
  unseen demo shop --out elsewhere --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.shop.People < fewest || f.shop.People > most:
				return usagef("--people is %d; give from %d to %d", f.shop.People, fewest, most)
			case f.shop.Items < fewest || f.shop.Items > most:
				return usagef("--items is %d; give from %d to %d", f.shop.Items, fewest, most)
			case f.out == "":
				return usagef("--out is empty; give a folder, or leave it out for unseen-shop")
			}
			if err := os.MkdirAll(f.out, 0o755); err != nil {
				return usagef("--out: cannot create the folder: %v; give another", err)
			}
			if err := atomicfile.Writable(filepath.Join(f.out, "report.html")); err != nil {
				return &usageError{err}
			}
			t := newDisplay(cmd.ErrOrStderr(), f.quiet)
			d, err := f.run(cmd.Context(), t)
			t.clear()
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, d, d.print)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.shop.People, "people", 1000, "people")
	flags.IntVar(&f.shop.Items, "items", 300, "items")
	flags.Uint64Var(&f.shop.Seed, "seed", 1, "seed of the shop and of training")
	threadsFlag(cmd, &f.threads)
	flags.StringVar(&f.out, "out", "unseen-shop", "`folder` to write")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, nil, "people", "items", "seed", "threads")
	return cmd
}

// shopDemo is what unseen demo shop has to say.
type shopDemo struct {
	People      int     `json:"people"`
	Items       int     `json:"items"`
	Impressions int     `json:"impressions"`
	Clicks      int     `json:"clicks"`
	Relevant    float64 `json:"relevant"`   // share of pairs that are wanted
	Shown       float64 `json:"propensity"` // share of pairs that were shown
	Seed        uint64  `json:"seed"`

	Recommenders []shopRecommender `json:"recommenders"` // naive, corrected
	Best         float64           `json:"best"`         // what lists would be worth by who knows
	Findings     *fit.Findings     `json:"findings"`
	Person       shopReader        `json:"person"`
	Hidden       []shopHidden      `json:"hidden"`
	Commands     []string          `json:"commands"`
	Files        []string          `json:"files"`

	roc, calibration []figure.Series // by recommender
}

// shopRecommender is a fitted model beside the truth.
type shopRecommender struct {
	Method   string  `json:"method"`
	MeanLink float64 `json:"meanLink"` // mean ŷ
	AUC      float64 `json:"auc"`      // for what is wanted
	List     float64 `json:"list"`     // mean y of the ten best that a person has not clicked
	New      float64 `json:"new"`      // share of these that they were never shown
}

// shopReader is a person of the shop.
type shopReader struct {
	ID      string `json:"id"`
	Segment string `json:"segment"`
}

// shopHidden is an item that the shop hid.
type shopHidden struct {
	ID         string  `json:"id"`
	Title      string  `json:"title"`
	Category   string  `json:"category"`
	Seen       int     `json:"seenRank"` // by π̂ŷ
	Naive      int     `json:"naiveRank"`
	Corrected  int     `json:"correctedRank"`
	Link       float64 `json:"link"`       // ŷ
	Propensity float64 `json:"propensity"` // π̂
	Truth      float64 `json:"truth"`      // y
}

// run makes the shop, learns by the commands of this program, and compares with the truth.
func (f *shopDemoFlags) run(ctx context.Context, t *display) (*shopDemo, error) {
	tables, err := os.MkdirTemp(f.out, "tables-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tables)
	d := &shopDemo{Seed: f.shop.Seed}
	t.say("making a shop of %s people and %s items", amount.Text(f.shop.People), amount.Text(f.shop.Items))
	g := generateFlags{output: tables, shop: f.shop, pairs: 1, quiet: true}
	made, err := g.run(ctx, newDisplay(io.Discard, true))
	if err != nil {
		return nil, err
	}
	d.People, d.Items, d.Impressions, d.Clicks = made.People, made.Items, made.Impressions, made.Clicks
	d.Commands = append(d.Commands, fmt.Sprintf("unseen generate tables --people %d --items %d --seed %d", d.People,
		d.Items, d.Seed))
	data, fitted := filepath.Join(f.out, "dataset"), filepath.Join(f.out, "model.safetensors")
	naive, evaluation := filepath.Join(f.out, "naive.safetensors"), filepath.Join(tables, "evaluation.json")
	seed := strconv.FormatUint(d.Seed, 10)
	for _, step := range []struct {
		say  string
		args []string
	}{
		{"importing its tables", []string{"import", "interactions", "--clicks", filepath.Join(tables, "clicks.csv"),
			"--items", filepath.Join(tables, "items.csv"), "--users", filepath.Join(tables, "users.csv"),
			"--impressions", filepath.Join(tables, "impressions.csv"), "--log", "complete", "-o", data}},
		{"learning from clicks alone", []string{"fit", data, "--log", "ignored", "--method", "naive", "-o", naive,
			"--seed", seed}},
		{"learning from clicks and what was shown", []string{"fit", data, "-o", fitted, "--seed", seed}},
		{"evaluating", []string{"evaluate", fitted, data, "--against", naive, "-o", evaluation, "--seed", seed}},
	} {
		t.say("%s", step.say)
		d.Commands = append(d.Commands, shownCommand(step.args, tables, f.out))
		if step.args[0] == "import" {
			step.args = append(step.args, "--force") // the dataset of an earlier run
		} else {
			step.args = append(step.args, "--threads", strconv.Itoa(f.threads))
		}
		if err := f.command(ctx, append(step.args, "--quiet")); err != nil {
			return nil, err
		}
	}
	if err := besideModel(evaluation, fitted); err != nil {
		return nil, err
	}
	t.say("comparing with the truth")
	if err := d.compare(ctx, f, data, fitted, naive); err != nil {
		return nil, err
	}
	t.say("writing %s", f.out)
	page := filepath.Join(f.out, "report.html")
	d.Files = []string{page, fitted, naive, data}
	return d, d.document().WriteHTML(page)
}

// command runs a command of this program, whose page nobody needs.
func (f *shopDemoFlags) command(ctx context.Context, args []string) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root.ExecuteContext(ctx)
}

// shownCommand is a command as a person would type it in the folder.
func shownCommand(args []string, tables, folder string) string {
	text := "unseen"
	for _, arg := range args {
		switch filepath.Dir(arg) {
		case tables:
			arg = "tables/" + filepath.Base(arg)
		case filepath.Clean(folder):
			arg = filepath.Base(arg)
		}
		text += " " + arg
	}
	return strings.Replace(text, "tables/evaluation", "evaluation", 1)
}

// besideModel puts an evaluation beside its model, where unseen serve looks for it.
func besideModel(evaluation, fitted string) error {
	raw, err := os.ReadFile(evaluation)
	if err != nil {
		return err
	}
	var e evaluate.Evaluation
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	return writeEvaluation(&e, fitted)
}

// What is looked at: items of a list, how many of the hidden ones are shown, the least ŷ that counts as hidden, and of
// how many clicks a person is known.
const shopList, shopShown, shopSure, shopKnown = 10, 5, .3, 20

// shopModels are the two models on all pairs, person by person.
type shopModels struct {
	shop      *world.Shop
	g         *graph.Graph
	people    []int32
	items     []int32
	shown     []map[int]bool // by person
	corrected []chances
	naive     []float64 // ŷ
}

// compare holds both models against the truth on all pairs.
func (d *shopDemo) compare(ctx context.Context, f *shopDemoFlags, data, corrected, naive string) error {
	n, err := openFitted(ctx, corrected, data, newDisplay(io.Discard, true))
	if err != nil {
		return err
	}
	defer n.Close()
	other, err := n.other(ctx, naive)
	if err != nil {
		return err
	}
	s := &shopModels{g: n.Graph()}
	if s.shop, err = world.NewShop(f.shop); err != nil {
		return err
	}
	pairs := s.pairs()
	for k, of := range []*network.Fitted{other, n.model} {
		m, err := of.On(model.NodesOf(s.g))
		if err != nil {
			return err
		}
		z, e, err := engine.Logits(ctx, engine.CPU{Threads: f.threads}, engine.Predictor{Link: m.Link,
			LinkParams: m.LinkParams, Propensity: m.Propensity, PropensityParams: m.PropensityParams}, pairs)
		if err != nil {
			return err
		}
		for at, logit := range z {
			y, _ := kern.Sigmoid64(float64(logit))
			if k == 0 {
				s.naive = append(s.naive, y)
				continue
			}
			shown, _ := kern.Sigmoid64(float64(e[at]))
			s.corrected = append(s.corrected, chances{y, shown})
		}
		if k == 1 {
			if err := json.Unmarshal(m.Findings, &d.Findings); err != nil {
				return err
			}
		}
	}
	return d.judge(s)
}

// pairs are all pairs, person by person.
func (s *shopModels) pairs() *graph.Pairs {
	for j := range s.shop.Items {
		item, _ := s.g.Index(itemID(j))
		s.items = append(s.items, item)
	}
	p := &graph.Pairs{}
	for i := range s.shop.People {
		node, _ := s.g.Index(person(i))
		s.people, s.shown = append(s.people, node), append(s.shown, map[int]bool{})
		for _, item := range s.items {
			p.Source, p.Target = append(p.Source, node), append(p.Target, item)
		}
	}
	for x := range s.shop.Shown {
		s.shown[x.Person][x.Item] = true
	}
	return p
}

// judge compares what both believe and recommend with what is wanted.
func (d *shopDemo) judge(s *shopModels) error {
	corrected := evaluate.Scored{}
	naive := evaluate.Scored{Scores: s.naive}
	for _, c := range s.corrected {
		corrected.Scores = append(corrected.Scores, c.link)
	}
	var wanted []bool
	all := float64(len(s.naive))
	for i := range s.people {
		for j := range s.items {
			wanted = append(wanted, s.shop.Wants(i, j))
			d.Relevant += s.shop.Relevance(i, j) / all
			d.Shown += s.shop.Propensity(i, j) / all
		}
	}
	for k, scored := range []evaluate.Scored{naive, corrected} {
		r := shopRecommender{Method: []string{"naive", "corrected"}[k]}
		scored.Linked = wanted
		var err error
		if r.AUC, err = scored.AUC(); err != nil {
			return err
		}
		for _, y := range scored.Scores {
			r.MeanLink += y / all
		}
		x, y, err := scored.ROC()
		if err != nil {
			return err
		}
		few := evaluate.Line{X: x, Y: y}.Thinned()
		roc, calibration := figure.Series{Name: r.Method, X: few.X, Y: few.Y}, figure.Series{Name: r.Method}
		if calibration.X, calibration.Y, err = scored.Calibration(200); err != nil {
			return err
		}
		d.roc, d.calibration = append(d.roc, roc), append(d.calibration, calibration)
		d.Recommenders = append(d.Recommenders, r)
	}
	most := 0.
	for i := range s.people {
		d.serve(s, i, &most)
	}
	return nil
}

// serve makes the lists of a person by both models and by who knows, and keeps what the shop hid if it is the most.
func (d *shopDemo) serve(s *shopModels, i int, most *float64) {
	var candidates []int
	for j, item := range s.items {
		if !s.g.HasLink(s.people[i], item) {
			candidates = append(candidates, j)
		}
	}
	at := func(j int) int { return i*len(s.items) + j }
	ranks := func(score func(j int) float64) []int { // from 1, by item
		order := slices.Clone(candidates)
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score(b), score(a)) })
		out := make([]int, len(s.items))
		for place, j := range order {
			out[j] = place + 1
		}
		return out
	}
	worth := func(rank []int) (value, fresh float64) {
		for _, j := range candidates {
			if rank[j] <= shopList {
				value += s.shop.Relevance(i, j) / shopList
				if !s.shown[i][j] {
					fresh += 1. / shopList
				}
			}
		}
		return value / float64(len(s.people)), fresh / float64(len(s.people))
	}
	naive := ranks(func(j int) float64 { return s.naive[at(j)] })
	corrected := ranks(func(j int) float64 { return s.corrected[at(j)].link })
	seen := ranks(func(j int) float64 { return s.corrected[at(j)].link * s.corrected[at(j)].shown })
	for k, rank := range [][]int{naive, corrected} {
		value, fresh := worth(rank)
		d.Recommenders[k].List += value
		d.Recommenders[k].New += fresh
	}
	best, _ := worth(ranks(func(j int) float64 { return s.shop.Relevance(i, j) }))
	d.Best += best
	var hidden []shopHidden
	gain := 0.
	for _, j := range candidates {
		c := s.corrected[at(j)]
		if corrected[j] > shopList || seen[j] <= shopList || c.link < shopSure || s.shown[i][j] {
			continue
		}
		category, title := itemName(j, s.shop.Items[j].Category)
		hidden = append(hidden, shopHidden{ID: itemID(j), Title: title, Category: category, Seen: seen[j],
			Naive: naive[j], Corrected: corrected[j], Link: c.link, Propensity: c.shown, Truth: s.shop.Relevance(i, j)})
	}
	slices.SortFunc(hidden, func(a, b shopHidden) int { return cmp.Compare(a.Corrected, b.Corrected) })
	hidden = hidden[:min(len(hidden), shopShown)]
	for _, h := range hidden {
		gain += math.Log(float64(h.Seen) / float64(h.Corrected))
	}
	if gain > *most && len(s.items)-len(candidates) >= shopKnown {
		*most, d.Hidden = gain, hidden
		d.Person = shopReader{person(i), fmt.Sprintf("segment %d", s.shop.People[i].Segment+1)}
	}
}
