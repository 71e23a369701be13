package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/gpu"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/network"
	"unseen/recommend"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// plans are the kinds of generated worlds, by the names that --world takes.
var plans = map[string]func() world.Scenario{
	"saturated":      world.Saturated,
	"saturated-rare": world.SaturatedRare,
	"flat-rare":      world.FlatRare,
}

// fitFlags is the command line of unseen fit.
type fitFlags struct {
	method, preset, link, propensity string
	optimiser                        string
	searches, anchors                []string
	doctor, exposure                 string
	replicates                       int
	searchPoints                     int
	starts                           []float64
	seed                             uint64
	threads                          int

	world              string
	violations         []string
	nodes, dim, fields int
	randomFields       bool
	pairs              int
	logged             float64
	certify            int

	data    string // a dataset; "" for a generated world
	drawing drawingFlags
	refresh string // a model to begin at

	output, checkpoint    string
	resume, quiet, asJSON bool
	exact                 bool // learns from all pairs
	deviceFlags
}

// learnFlags say how to learn, which a refresh has from its model.
var learnFlags = []string{"method", "preset", "link", "propensity", "optimiser", "search", "search-points", "doctor",
	"replicates", "exposure", "anchor", "starts", "seed", "certify", "exact"}

// worldFlags are those that only a generated world takes.
var worldFlags = []string{"world", "violate", "nodes", "dim", "fields", "random-fields", "pairs", "logged"}

func newFit() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit [DATASET]",
		Short: "Learn links and exposure together, from a dataset or a world",
		Long:  fitHelp(),
		Example: `  unseen fit
  unseen fit papers -o model.safetensors
  unseen fit papers --refresh model.safetensors -o new.safetensors
  unseen fit papers --validation-from 2020-01-01 --test-from 2021-01-01
  unseen fit friends --split random --fields-by links:50
  unseen fit --method naive --json
  unseen fit --world flat-rare --logged 0.02
  unseen fit --violate text=0.5 --violate ceiling=0.6
  unseen fit --method ap --search lr=1e-3,1e-2 --search lambda-r=1,10
  unseen fit --nodes 20000 --dim 256 --pairs 300000 -o model.safetensors`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] == "" {
				return usagef("name one folder of a dataset, or none for a generated world; got %q", args)
			}
			refused, why := f.drawing.names(), "needs a dataset to choose from; name its folder"
			if len(args) == 1 {
				f.data = args[0]
				refused, why = worldFlags, "is for generated worlds; leave it out, or the dataset"
			}
			for _, name := range refused {
				if cmd.Flags().Changed(name) {
					return usagef("--%s %s", name, why)
				}
			}
			return f.checkRefresh(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"output", "checkpoint", "refresh"} {
				// as an unset variable of a script leaves it: hours of training would go nowhere
				if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
					return usagef("--%s is empty; give a path, or leave it out", name)
				}
			}
			r, err := runFit(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, r, r.print)
		},
		ValidArgsFunction: oneFolder,
	}
	f.register(cmd)
	return cmd
}

// register adds the flags to a command.
func (f *fitFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.method, "method", "", "method (default: bayes; of factors mle)")
	flags.StringVar(&f.preset, "preset", "safe", "settings: "+strings.Join(fit.Presets(), ", "))
	flags.StringVar(&f.link, "link", "", "link model (default: the method's)")
	flags.StringVar(&f.propensity, "propensity", "", "propensity model (default: the method's)")
	flags.StringVar(&f.optimiser, "optimiser", "", "adam, lbfgs; of factors alternating")
	flags.StringArrayVar(&f.searches, "search", nil, "`setting` and values to try, as ridge=0.1,1,10")
	flags.IntVar(&f.searchPoints, "search-points", 0, "try only this many points of the grid, at random")
	flags.StringVar(&f.doctor, "doctor", fit.FullDoctor, "full (default), or quick: tries the model alone")
	flags.Lookup("doctor").DefValue = "" // the text has it
	flags.IntVar(&f.replicates, "replicates", 0, "learn so many times again, for intervals")
	flags.StringVar(&f.exposure, "exposure", fit.AutoExposure, "what π̂ depends on, such as fields+text")
	flags.Lookup("exposure").DefValue = "" // the text has it
	flags.StringArrayVar(&f.anchors, "anchor", nil, "`known` mean π, such as same=0.8±0.1 (or +-)")
	flags.BoolVar(&f.exact, "exact", false, "learn from all pairs, not from a sample")
	flags.Float64SliceVar(&f.starts, "starts", nil, "`values` of π̂ to start from (default: preset's)")
	flags.Lookup("starts").DefValue = "" // it would be []
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the world and of training")
	threadsFlag(cmd, &f.threads)
	f.deviceFlags.register(cmd, "sums pairs")
	f.drawing.add(cmd)
	flags.StringVar(&f.world, "world", "saturated", "kind of world")
	flags.StringArrayVar(&f.violations, "violate", nil, "break an assumption: `name=value`, such as text=0.5")
	flags.IntVar(&f.nodes, "nodes", 4000, "nodes in the world")
	flags.IntVar(&f.dim, "dim", 64, "dimension of the vectors")
	flags.IntVar(&f.fields, "fields", 6, "fields of equal size")
	flags.BoolVar(&f.randomFields, "random-fields", false, "fields that are independent of the vectors")
	flags.IntVar(&f.pairs, "pairs", 20_000, "pairs to learn from")
	flags.Float64Var(&f.logged, "logged", 0, "share of pairs whose exposure is logged")
	flags.IntVar(&f.certify, "certify", 0, "also plant this many known truths and fit each")
	flags.StringVar(&f.refresh, "refresh", "", "begin at this `model`: few links are new")
	flags.StringVarP(&f.output, "output", "o", "", "save the model here")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "checkpoint file (default: beside the output)")
	flags.BoolVar(&f.resume, "resume", false, "continue from the checkpoint")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, map[string][]string{
		"method": slices.Sorted(maps.Keys(fit.Methods())), "preset": fit.Presets(),
		"link": model.LinkKinds(), "propensity": model.PropensityKinds(), "optimiser": {"adam", "lbfgs"},
		"doctor": {fit.FullDoctor, fit.QuickDoctor},
		"exposure": {fit.AutoExposure, "fields", "fields+text", "fields+popularity", "fields+text+popularity",
			"fields+person+item+activity"},
		"world": slices.Sorted(maps.Keys(plans)),
	}, "violate", "search", "search-points", "replicates", "anchor", "starts", "seed", "threads", "nodes", "dim",
		"fields", "pairs",
		"logged", "certify")
}

// fitHelp explains unseen fit. Long because it is one text.
func fitHelp() string {
	return `Learn both halves of a recommender, ŷ = P(link | shown) and π̂ = P(shown), from
links alone. The pairs come from a dataset: its links, except those of held-out
nodes, and a sample of unlinked pairs. Without a dataset they come from a
generated world with known y and π, and the result is compared with the truth.

Methods:
` + methodList() + `
Of people and items the link model is factors: learned numbers of every person
and item, and of the items' texts where there are vectors. bayes cannot learn
them, so the default is mle; naive, shown and the others learn factors too. Only
a log tells factors from exposure, and a log of some pairs or people says how
often the rest is shown. --replicates 20 gives intervals by the bootstrap: pairs
are drawn anew, and everything is learned again. For bayes, --replicates are the
simulated histories that its bias is learned from (10).

Nodes of a dataset are held out by age: the newest fifth for testing, the tenth
before it for choosing settings; only older nodes are candidates. Without times
the direction of the links orders the nodes. Nodes are held out at random where
more than a fifth of the links run against time, or more than a quarter lie on
cycles, as in a network of friends. The model records the plan, so that unseen
evaluate finds the same held-out pairs. Of people and items, links are held out:
the last of every person where links have times. --split says it otherwise:
  order, random, date        nodes (of people and items: people)
  last-links, random-links   some links of every source, by share
  link-date                  links from --validation-from and --test-from on
  whole                      nothing

--negative-scheme says how unlinked pairs are sampled: uniformly (the default),
half of them from pairs of fields in proportion to their links (field), or
targets in proportion to the links that they receive (popularity). --method
decides how pairs are weighted in training.

--exact learns from all pairs of the training nodes by L-BFGS, with mle unless
--method says otherwise; the sample is where it begins, and chooses the ridge.
A card (--device gpu) looks at all pairs of millions of nodes in seconds: of the
link model diagonal, and of exposure by fields with any terms but activity.

exposures.parquet, if there is one, is part of the likelihood. --log says what
it contains; a log of impressions is complete, offered or drawn.
  sample    a sample of pairs, shown and not shown (the default)
  complete  everything that its sources were shown
  offered   what a recommender chose to show after the links were made
  drawn     pairs without a link, drawn at random to be shown then
  ignored   the file is not used

Worlds:
  saturated       links are common and many are certain once shown (the paper's)
  saturated-rare  links are rare, and a few are certain once shown
  flat-rare       links are rare and none is certain: only logged exposure
                  (--logged) or an anchor tells the scale of π

--violate breaks an assumption of learning in the world, to see what becomes of
the result; repeat it to break several:
` + violationList() + `
--exposure says what π̂ depends on: fields, alone or with any of these behind
it, such as fields+text+popularity. By default (auto) the doctor's tests of
bayes decide between fields, text and popularity; quick means fields. Of factors
it is fields+person+item with a log. Without one, all fields are shown alike.
  text        what is relevant by its vectors is shown more (bayes alone)
  popularity  what many link to is shown more
  age         older targets are shown more, or less
  person      some people are shown more than others; this, item and activity
              are for mle, rw, pu, ap and dr
  item        some items are shown to more than others, as far as a log tells
  activity    how new an item was when a person was last active, and how much
              that person did

--anchor gives what is known of the mean π from elsewhere, such as a survey:
same=0.8±0.1 for pairs within a field, cross=… for pairs of two fields; bayes
uses it. --starts are the propensities that training starts from: the first
gives the model, the others show whether the result depends on the start.

--search chooses settings by the likelihood of validation pairs; repeat it to
span a grid. Every combination is trained with the same seed, and the first of
equally good ones is chosen. --search-points tries a random part of the grid.
` + searchList() + `
--certify plants known truths on the same nodes, fits the method to links drawn
from them and compares: how far the method can be trusted on such nodes. The
certificate is stored in the model.

--refresh begins at a model that was fitted to the dataset before a few links or
events came: a hundredth of them, say. Everything that these hardly change is
taken from the model, also how it was trained and what the doctor found by
fitting many times, so that it takes a small part of the time. The findings say
how far it is from the last full training, and when another is due.

-o saves the model. During training a checkpoint is kept beside it: Ctrl-C or a
power cut loses at most half a minute. --resume continues; the model is the
same, to the byte, as without the interruption.`
}

// methodList explains the methods, one or two lines of 80 columns each.
func methodList() string {
	var b strings.Builder
	about := fit.Methods()
	for _, name := range slices.Sorted(maps.Keys(about)) {
		line := "  " + fmt.Sprintf("%-12s", name)
		column := len(line)
		b.WriteString(line)
		for _, word := range strings.Fields(about[name]) {
			width := len([]rune(word))
			if column+1+width > 80 {
				b.WriteString("\n" + strings.Repeat(" ", 14))
				column = 14
			}
			b.WriteString(" " + word)
			column += 1 + width
		}
		b.WriteString("\n")
	}
	return b.String()
}

// searchList names the settings that --search takes.
func searchList() string {
	var b strings.Builder
	about := fit.Searchable()
	for _, name := range slices.Sorted(maps.Keys(about)) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, about[name])
	}
	return b.String()
}

// generate turns the flags into a world to make, or says which flag is wrong.
func (f *fitFlags) generate() (world.Settings, error) {
	var w world.Settings
	plan, ok := plans[f.world]
	most := math.MaxInt32
	switch {
	case !ok:
		return w, usagef("no world %q; there is %s", f.world, strings.Join(slices.Sorted(maps.Keys(plans)), ", "))
	case f.nodes < 10:
		return w, usagef("--nodes is %d; give at least 10", f.nodes)
	case f.dim < 1:
		return w, usagef("--dim is %d; give at least 1", f.dim)
	case f.fields < 1 || f.fields > min(f.nodes, 1000):
		return w, usagef("--fields is %d; give from 1 to %d", f.fields, min(f.nodes, 1000))
	case f.nodes < 40_000:
		most = f.nodes * (f.nodes - 1) / 3 // training, validation and test have a third each
	}
	switch {
	case f.pairs < 10 || f.pairs > most:
		return w, usagef("--pairs is %d; with %d nodes give from 10 to %d", f.pairs, f.nodes, most)
	case !(f.logged >= 0 && f.logged <= 1):
		return w, usagef("--logged is %v; give a share from 0 to 1", f.logged)
	}
	w = world.Settings{Nodes: f.nodes, Dim: f.dim, Fields: world.EvenFields(f.fields), RandomFields: f.randomFields,
		Scenario: plan()}
	w.Seed, w.Threads = f.seed, f.threads
	for _, text := range f.violations {
		if err := violate(&w.Scenario, text); err != nil {
			return w, err
		}
	}
	return w, causedByFlags(w.Validate())
}

// settings turns the flags into how to learn, or says which flag is wrong.
func (f *fitFlags) settings() (fit.Settings, error) {
	var s fit.Settings
	if near := nearest(f.method, slices.Sorted(maps.Keys(fit.Methods()))); f.method != "" && near != "" &&
		near != f.method {
		return s, usagef("no method %q; did you mean %s?", f.method, near)
	}
	switch {
	case f.searchPoints < 0 || f.searchPoints > 0 && len(f.searches) == 0:
		return s, usagef("--search-points is %d; give a positive number, and settings to --search over", f.searchPoints)
	case f.certify < 0 || f.certify > 100:
		return s, usagef("--certify is %d; give from 1 to 100, or leave it out", f.certify)
	case f.output != "" && f.checkpoint != "" && filepath.Clean(f.output) == filepath.Clean(f.checkpoint):
		return s, usagef("-o and --checkpoint are both %s; give two paths", f.output)
	case f.resume && f.output == "" && f.checkpoint == "":
		return s, usagef("--resume needs to know where the checkpoint is; give the -o or the --checkpoint of " +
			"the interrupted run")
	}
	if err := f.deviceFlags.check(func(string) bool { return false }); err != nil {
		return s, err
	}
	if f.exact && f.data == "" {
		return s, usagef("--exact learns from all pairs of a dataset; name its folder")
	}
	if f.exact {
		f.rows = string(gpu.BFloat16) // where a card is fast
	} else if f.device != "cpu" && f.method != "" && f.method != "bayes" {
		return s, usagef("--device is for bayes and --exact, whose sums over many pairs a card makes; leave it out "+
			"for %s", f.method)
	}
	if f.checkpoint == "" && f.output != "" {
		f.checkpoint = f.output + ".checkpoint"
	}
	s = fit.Settings{
		Method: f.method, Preset: f.preset, Link: f.link, Propensity: f.propensity, Optimiser: f.optimiser,
		Exact: f.exact, Doctor: f.doctor, Replicates: f.replicates, Exposure: f.exposure,
		Search: fit.Search{Points: f.searchPoints}, Starts: f.starts,
		Seed: f.seed, Threads: f.threads,
		Checkpoint: fit.Checkpoint{Path: f.checkpoint, Resume: f.resume, Keep: true},
	}
	for _, text := range f.searches {
		axis, err := parseAxis(text)
		if err != nil {
			return s, err
		}
		s.Search.Axes = append(s.Search.Axes, axis)
	}
	for _, text := range f.anchors {
		anchor, err := parseAnchor(text)
		if err != nil {
			return s, err
		}
		s.Anchors = append(s.Anchors, anchor)
	}
	if _, err := s.WithDefaults(); err != nil {
		// it may be right for people and items, which is known when the dataset is open
		if _, second := s.For(twoSides).WithDefaults(); f.data == "" || second != nil {
			return s, causedByFlags(err)
		}
	}
	for _, path := range []string{f.output, f.checkpoint} {
		if path == "" {
			continue
		}
		if err := atomicfile.Writable(path); err != nil {
			return s, &usageError{err}
		}
	}
	return s, nil
}

// twoSides are people and items.
var twoSides = model.Nodes{Sources: []int32{}, Targets: []int32{}}

// bayes reports whether the method is bayes, given or by default.
func (f *fitFlags) bayes(n model.Nodes) bool {
	s, err := fit.Settings{Method: f.method, Link: f.link, Exact: f.exact}.For(n).WithDefaults()
	return err == nil && s.Method == "bayes"
}

// causedByFlags takes an error that only the command line can have caused for a wrong command line.
func causedByFlags(err error) error {
	if errors.Is(err, sample.ErrPairs) { // a fit.ErrData of any command line
		return err
	}
	for _, kind := range []error{fit.ErrSetting, fit.ErrData, fit.ErrEarlier, sample.ErrSetting, model.ErrKind,
		model.ErrOption,
		world.ErrSetting, world.ErrUnreachable, world.ErrTooManyPairs, recommend.ErrQuery, recommend.ErrNothing} {
		if errors.Is(err, kind) {
			return &usageError{err}
		}
	}
	return err
}

// parseAxis reads ridge=0.1,1,10; the names and the values are the learner's to judge.
func parseAxis(text string) (fit.Axis, error) {
	name, values, ok := strings.Cut(text, "=")
	axis := fit.Axis{Name: strings.TrimSpace(name)}
	for value := range strings.SplitSeq(values, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if ok = ok && err == nil; ok {
			axis.Values = append(axis.Values, x)
		}
	}
	if !ok || axis.Name == "" {
		return fit.Axis{}, usagef("--search is %q; write name=value,value, such as ridge=0.1,1,10, where the "+
			"name is one of %s", text, strings.Join(slices.Sorted(maps.Keys(fit.Searchable())), ", "))
	}
	return axis, nil
}

// parseAnchor reads same=0.8±0.1, also with +- for ±.
func parseAnchor(text string) (fit.Anchor, error) {
	group, value, ok := strings.Cut(text, "=")
	mean, spread, both := strings.Cut(strings.Replace(value, "+-", "±", 1), "±")
	p, err1 := strconv.ParseFloat(strings.TrimSpace(mean), 64)
	e, err2 := strconv.ParseFloat(strings.TrimSpace(spread), 64)
	group = strings.TrimSpace(group)
	if !ok || !both || err1 != nil || err2 != nil || group != "same" && group != "cross" || !(p > 0 && p < 1) ||
		!(e > 0 && e < 1) {
		return fit.Anchor{}, usagef("--anchor is %q; write same=0.8±0.1 or cross=0.2+-0.05: the mean π of pairs "+
			"of one field or of two, and its standard error", text)
	}
	return fit.Anchor{Group: group, Propensity: p, Error: e}, nil
}

// fitReport is what unseen fit has to say.
type fitReport struct {
	World    *fitWorld   `json:"world,omitempty"`   // what was generated,
	Dataset  *fitDataset `json:"dataset,omitempty"` // or what was read
	Settings fitSettings `json:"settings"`
	Pairs    int         `json:"pairs"`
	Links    int         `json:"links"`   // seen among them
	Seconds  float64     `json:"seconds"` // of training

	Objective  float64          `json:"objective"`
	Likelihood float64          `json:"objectiveLikelihood"`
	Risk       float64          `json:"objectiveRisk"`
	Validation float64          `json:"validation,omitempty"`
	Ridge      float64          `json:"ridge,omitempty"`
	Epochs     int              `json:"epochs,omitempty"`
	Iterations int              `json:"iterations,omitempty"`
	Searched   *fit.ExactSearch `json:"searched,omitempty"` // of --exact: over all pairs
	Test       *fitMarks        `json:"test,omitempty"`     // of a world: beside the truth
	Held       *fitHeld         `json:"held,omitempty"`     // of a dataset: against links that were held out
	Starts     []fit.Start      `json:"starts,omitempty"`
	Trials     []fit.Trial      `json:"trials,omitempty"` // of --search

	Findings    *fit.Findings         `json:"findings,omitempty"`    // the doctor's
	Certificate *evaluate.Certificate `json:"certificate,omitempty"` // of --certify
	Warnings    []risk.Warning        `json:"warnings"`
	Model       string                `json:"model,omitempty"`
}

// fitSettings are the settings of a training, in JSON with keys in camelCase. Models keep some of
// them by their Go names, which must stay for models to have the same bytes.
type fitSettings struct{ fit.Settings }

var goKey = regexp.MustCompile(`"[A-Z][A-Za-z]*":`)

// MarshalJSON writes the first letter of a key in lower case.
func (s fitSettings) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(s.Settings)
	return goKey.ReplaceAllFunc(raw, func(key []byte) []byte {
		return append([]byte{key[0], key[1] + 'a' - 'A'}, key[2:]...)
	}), err
}

// fitWorld says what was learned from.
type fitWorld struct {
	Plan         string  `json:"plan"`
	Nodes        int     `json:"nodes"`
	Dim          int     `json:"dim"`
	Fields       int     `json:"fields"`
	RandomFields bool    `json:"randomFields"`
	Logged       float64 `json:"logged"`
	Seed         uint64  `json:"seed"`

	Violations []string `json:"violations,omitempty"` // as --violate takes them
}

// fitMarks compares a model with the truth on pairs that it was not trained on.
type fitMarks struct {
	Pairs int    `json:"pairs"`
	Link  beside `json:"meanLink"`            // ŷ and y
	Same  beside `json:"meanPropensitySame"`  // π̂ and π of pairs of one field
	Cross beside `json:"meanPropensityCross"` // and of two

	AUC    beside `json:"auc"`          // for which pairs are relevant
	Recall beside `json:"recallAtHalf"` // of the relevant pairs, with ŷ of at least ½
	Risk   beside `json:"risk"`         // true log-loss
	Naive  beside `json:"naiveRisk"`    // log-loss as the links that are seen would have it
}

// beside is a figure of the model beside that of the truth; nil where there is none, as the
// recall of no pairs.
type beside struct {
	Model *float64 `json:"model"`
	Truth *float64 `json:"truth"`
}

// fitSource is what is learned from and judged by.
type fitSource struct {
	graph   *graph.Graph
	problem sample.Problem
	plan    world.Scenario // of truths to plant
	close   func() error

	world  *fitWorld
	sample *world.TruePairs // of a world, with the truth

	dataset *fitDataset
	held    sample.Evidence
	earlier *model.File // to begin at; nil without
}

// fromWorld makes a world and draws its pairs.
func (f *fitFlags) fromWorld(ctx context.Context, t *display) (*fitSource, error) {
	generate, err := f.generate()
	if err != nil {
		return nil, err
	}
	t.say("making a world of %s nodes", amount.Text(f.nodes))
	w, err := world.New(ctx, generate)
	if err != nil {
		return nil, causedByFlags(err)
	}
	parts := make([]*world.TruePairs, 3)
	third := f.nodes * (f.nodes - 1) / 3
	for part, n := range []int{f.pairs, max(f.pairs/5, 10), min(20_000, third)} {
		if parts[part], err = w.Pairs(ctx, min(n, third), world.Draw{Part: part, Logged: f.logged}); err != nil {
			w.Graph().Vectors().Close()
			return nil, causedByFlags(err)
		}
	}
	from := &fitSource{
		graph: w.Graph(), plan: generate.Scenario, close: w.Graph().Vectors().Close, sample: parts[2],
		world: &fitWorld{f.world, f.nodes, f.dim, f.fields, f.randomFields, f.logged, f.seed,
			violated(generate.Scenario)},
		problem: sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: parts[0].Pairs, Validation: parts[1].Pairs},
	}
	from.problem.Nodes.Age = model.Ages(w.Graph())
	if f.logged > 0 {
		for k := range parts[0].Truth {
			from.problem.Exposure = append(from.problem.Exposure, parts[0].Observation(k).Exposure)
		}
	}
	return from, nil
}

// fromDataset opens a dataset and draws its pairs.
func (f *fitFlags) fromDataset(ctx context.Context, t *display) (*fitSource, error) {
	n, err := openNetwork(ctx, f.data, t)
	if err != nil {
		return nil, err
	}
	from := &fitSource{close: n.Close}
	nodes := model.NodesOf(n.Graph())
	origin, why, err := f.origin(n, from)
	if err != nil {
		n.Close()
		return nil, err
	}
	if dim := nodes.Dim(); dataset.Wide(dim) && f.refresh == "" && f.bayes(nodes) {
		t.note("%s dimensions make this slow; reduce them in seconds: %s", amount.Text(dim), fixFor("wide", f.data))
	}
	t.say("drawing pairs of %s links", amount.Text(n.Graph().LinkCount()))
	prepared, err := n.Prepare(ctx, origin, f.threads)
	if err != nil {
		n.Close()
		return nil, causedByFlags(err)
	}
	g := prepared.Graph
	from.graph, from.problem, from.held = g, prepared.Problem, prepared.Test
	from.dataset = &fitDataset{
		Dir: f.data, Nodes: g.Len(), Links: g.LinkCount(), Fields: g.FieldCount() - 1, Dim: nodes.Dim(),
		FieldsBy: origin.Fields.String(), Split: why, SplitLinks: prepared.Links,
		Logged: prepared.Logged, Plan: origin.Plan,
	}
	return from, nil
}

// origin says which pairs are learned from: as the flags have it, or as the model that is refreshed.
func (f *fitFlags) origin(n *network.Network, from *fitSource) (sample.Origin, string, error) {
	if f.refresh == "" {
		origin, why, err := f.drawing.data(n, f.data, f.seed)
		origin.Plan.EveryShown = origin.Plan.Log == sample.Complete && n.Graph().TwoSided() &&
			!f.bayes(model.NodesOf(n.Graph()))
		return origin, why, err
	}
	if err := isModel(f.refresh, f.data); err != nil {
		return sample.Origin{}, "", err
	}
	file, err := model.Open(f.refresh)
	if err != nil {
		return sample.Origin{}, "", err
	}
	origin, known, err := sample.OriginOf(model.Model{Data: json.RawMessage(file.Metadata[model.KeyData])})
	if err == nil && !known {
		err = usagef("%s does not say which pairs it was fitted to, so that it cannot be refreshed; fit a model to %s",
			f.refresh, f.data)
	}
	from.earlier = file
	return origin, origin.Plan.Describe(n.Graph()) + ", as of the model", err
}

// learn fits from the beginning, or from the model that is refreshed.
func (f *fitFlags) learn(ctx context.Context, from *fitSource, s fit.Settings) (*fit.Result, error) {
	if from.earlier == nil {
		return fit.Fit(ctx, from.problem, s)
	}
	m, err := from.earlier.Model(from.problem.Nodes)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(f.refresh)
	if err != nil {
		return nil, err
	}
	return fit.Refresh(ctx, from.problem, fit.Earlier{Model: m, Made: info.ModTime()}, s)
}

// checkRefresh refuses flags beside --refresh that its model decides.
func (f *fitFlags) checkRefresh(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("refresh") {
		return nil
	}
	if f.data == "" {
		return usagef("--refresh needs the dataset that has changed since; name its folder")
	}
	for _, name := range slices.Concat(learnFlags, f.drawing.names()) {
		if cmd.Flags().Changed(name) {
			return usagef("--%s and --refresh, which has that from its model; give one of them", name)
		}
	}
	return nil
}

// fitDataset says what was read.
type fitDataset struct {
	Dir        string            `json:"dir"`
	Nodes      int               `json:"nodes"`
	Links      int               `json:"links"`
	Fields     int               `json:"fields"`
	Dim        int               `json:"dim"`
	FieldsBy   string            `json:"fieldsBy"`
	Split      string            `json:"split"` // in words
	SplitLinks sample.LinkCounts `json:"splitLinks"`
	Logged     int               `json:"logged"`
	Plan       sample.Plan       `json:"drawing"`
}

// fitHeld judges a model by links that it has not seen. They are links that happened: what was never shown
// counts as irrelevant.
type fitHeld struct {
	Pairs int      `json:"pairs"`
	Links int      `json:"links"`
	AUC   *float64 `json:"auc"`                 // of ŷ
	Seen  *float64 `json:"aucSeen"`             // of π̂ŷ, the probability that a link is seen
	Link  *float64 `json:"meanLink"`            // ŷ
	Same  *float64 `json:"meanPropensitySame"`  // π̂ of pairs of one field
	Cross *float64 `json:"meanPropensityCross"` // and of two
}

// runFit learns, saves the model and judges it.
func runFit(ctx context.Context, f fitFlags, t *display) (*fitReport, error) {
	settings, err := f.settings()
	if err != nil {
		return nil, err
	}
	defer t.clear()
	device, done, tried, err := f.deviceFlags.open(f.threads)
	if err != nil {
		return nil, err
	}
	defer done()
	settings.Engine = device
	for _, note := range tried {
		t.note("%s", note)
	}
	open := f.fromWorld
	if f.data != "" {
		open = f.fromDataset
	}
	from, err := open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer from.close()
	problem := from.problem
	if f.device != "cpu" && !f.exact && !f.bayes(problem.Nodes) {
		return nil, usagef("--device is for bayes and --exact, whose sums over many pairs a card makes; leave it out " +
			"for people and items")
	}
	began := time.Now()
	settings.Progress = t.report
	result, err := f.learn(ctx, from, settings)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, fit.ErrCheckpoint) &&
		f.checkpoint != "":
		return nil, fmt.Errorf("stopped; what was done is in %s: run the same command with --resume to continue",
			f.checkpoint)
	case err != nil:
		return nil, causedByFlags(err)
	}
	r := &fitReport{
		World: from.world, Dataset: from.dataset,
		Settings: fitSettings{result.Settings}, Seconds: time.Since(began).Seconds(),
		Objective: result.Objective.Total(), Likelihood: result.Objective.Likelihood, Risk: result.Objective.Risk,
		Validation: result.Validation, Ridge: result.Ridge, Epochs: len(result.Epochs), Iterations: result.Iterations,
		Searched: result.Searched, Starts: result.Starts, Trials: result.Trials, Findings: result.Findings,
		Warnings: append([]risk.Warning{}, result.Warnings...), Model: f.output,
	}
	if r.Pairs, r.Links, err = learnedFrom(problem, settings.Exact); err != nil {
		return nil, err
	}
	if f.certify > 0 {
		certified := settings
		certified.Checkpoint, certified.Progress = fit.Checkpoint{}, nil
		if r.Certificate, err = evaluate.Certify(ctx, from.graph, evaluate.CertificateSettings{
			Fit: certified, Pairs: problem.Train.Len(), Repeats: f.certify, Plan: from.plan,
			Weights: plantable(result), Seed: f.seed + 1, Progress: t.report,
		}); err != nil {
			return nil, causedByFlags(err)
		}
	}
	if err := f.save(result, r.Certificate); err != nil {
		return nil, err
	}
	if f.checkpoint != "" {
		if err := settings.Checkpoint.Remove(); err != nil {
			r.Warnings = append(r.Warnings, risk.Warning{Kind: "checkpoint", Message: err.Error()})
		}
	}
	if from.sample != nil {
		t.say("judging it on %s other pairs", amount.Text(from.sample.Pairs.Len()))
		r.Test, err = mark(ctx, problem.Nodes.Fields, result, from.sample)
	} else if from.held.Pairs != nil {
		t.say("judging it on %s held-out pairs", amount.Text(from.held.Pairs.Len()))
		r.Held, err = hold(ctx, problem.Nodes.Fields, result, from.held.Pairs)
	}
	return r, err
}

// learnedFrom counts the pairs that were learned from, and the linked ones among them.
func learnedFrom(p sample.Problem, exact bool) (pairs, links int, err error) {
	for _, linked := range p.Train.Linked {
		links += count(linked)
	}
	if !exact {
		return p.Train.Len(), links, nil
	}
	all, _, err := p.Universe.Count(p.Graph)
	return int(all), links, err
}

// save writes the model, with its certificate if there is one.
func (f *fitFlags) save(result *fit.Result, certificate *evaluate.Certificate) error {
	if f.output == "" {
		return nil
	}
	m, err := result.Model()
	if err != nil {
		return err
	}
	if certificate != nil {
		if m.Certificate, err = json.Marshal(certificate); err != nil {
			return err
		}
	}
	if err := model.Save(f.output, m); err != nil {
		kept := "what was learned"
		if slices.ContainsFunc(result.Warnings, func(w risk.Warning) bool { return w.Kind == "checkpoint" }) {
			kept = "only the beginning" // there was no room for the last checkpoint either
		}
		return fmt.Errorf("%w; then run the same command with --resume: %s is in %s", err, kept, f.checkpoint)
	}
	return nil
}

// plantable returns the weights of a diagonal model, which give the planted truths their direction; nil draws one.
func plantable(r *fit.Result) []float32 {
	if r.Link.Kind() != "diagonal" {
		return nil
	}
	return r.LinkParams[:len(r.LinkParams)-1]
}

// mark compares the models with what is true of a sample.
func mark(ctx context.Context, fields []uint16, r *fit.Result, test *world.TruePairs) (*fitMarks, error) {
	n := test.Pairs.Len()
	z, s, err := r.Judge().Logits(ctx, test.Pairs)
	if err != nil {
		return nil, err
	}
	model, truth := newJudged(n), newJudged(n)
	for k := range n {
		belief, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return nil, fmt.Errorf("the model's logits of pair %d: %w", k, err)
		}
		known, err := risk.FromProbabilities(test.Truth[k].Link, test.Truth[k].Propensity)
		if err != nil {
			return nil, err
		}
		same := fields[test.Pairs.Source[k]] == fields[test.Pairs.Target[k]]
		model.add(test.Observation(k), belief, same, test.Relevant[k])
		truth.add(test.Observation(k), known, same, test.Relevant[k])
	}
	a, b := model.marks(), truth.marks()
	return &fitMarks{
		Pairs: n, Link: beside{a[0], b[0]}, Same: beside{a[1], b[1]}, Cross: beside{a[2], b[2]},
		AUC: beside{a[3], b[3]}, Recall: beside{a[4], b[4]}, Risk: beside{a[5], b[5]}, Naive: beside{a[6], b[6]},
	}, nil
}

// hold judges the models by held-out pairs, each counted for as many as it stands for.
func hold(ctx context.Context, fields []uint16, r *fit.Result, p *graph.Pairs) (*fitHeld, error) {
	z, s, err := r.Judge().Logits(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &fitHeld{Pairs: p.Len()}
	links, seen := evaluate.Scored{Linked: p.Linked, Weights: p.Weight},
		evaluate.Scored{Linked: p.Linked, Weights: p.Weight}
	var sums, weights [3]risk.Sum // of ŷ, π̂ of one field, of two
	for k := range z {
		belief, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return nil, fmt.Errorf("the model's logits of pair %d: %w", k, err)
		}
		out.Links += count(p.Linked[k])
		links.Scores = append(links.Scores, float64(z[k])) // the logit tells apart what rounds to 1
		seen.Scores = append(seen.Scores, belief.Link()*belief.Propensity())
		group := 1 + count(fields[p.Source[k]] != fields[p.Target[k]])
		for which, x := range map[int]float64{0: belief.Link(), group: belief.Propensity()} {
			sums[which].Add(p.Weight[k] * x)
			weights[which].Add(p.Weight[k])
		}
	}
	for which, into := range []**float64{&out.Link, &out.Same, &out.Cross} {
		if mean := sums[which].Value() / weights[which].Value(); !math.IsNaN(mean) {
			*into = &mean
		}
	}
	for into, scored := range map[**float64]evaluate.Scored{&out.AUC: links, &out.Seen: seen} {
		if auc, err := scored.AUC(); err == nil {
			*into = &auc
		}
	}
	return out, nil
}

// judged is pairs with what somebody believes of them.
type judged struct {
	scored            evaluate.Scored
	pairs             []risk.Pair
	link, same, cross []float64
}

func newJudged(n int) *judged {
	return &judged{scored: evaluate.Scored{Scores: make([]float64, 0, n), Linked: make([]bool, 0, n)},
		pairs: make([]risk.Pair, 0, n)}
}

func (j *judged) add(seen risk.Observation, belief risk.Belief, same, relevant bool) {
	j.scored.Scores = append(j.scored.Scores, belief.Link())
	j.scored.Linked = append(j.scored.Linked, relevant)
	j.pairs = append(j.pairs, risk.Pair{Observation: seen, Belief: belief, Weight: 1})
	j.link = append(j.link, belief.Link())
	if same {
		j.same = append(j.same, belief.Propensity())
	} else {
		j.cross = append(j.cross, belief.Propensity())
	}
}

// marks returns mean ŷ, mean π̂ of one field and of two, AUC, recall at ½, true and naive risk.
func (j *judged) marks() [7]*float64 {
	value := func(x float64, err error) *float64 {
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	mean := func(values []float64) *float64 {
		var sum risk.Sum
		for _, x := range values {
			sum.Add(x)
		}
		return value(sum.Value()/float64(len(values)), nil) // of none it is 0/0
	}
	confusion, err := j.scored.ConfusionAt(.5)
	recall := value(confusion.Recall())
	if err != nil {
		recall = nil
	}
	truly, err1 := risk.Estimator{Scheme: risk.True{}}.Estimate(j.pairs)
	naively, err2 := risk.Estimator{Scheme: risk.Naive{}}.Estimate(j.pairs)
	return [7]*float64{mean(j.link), mean(j.same), mean(j.cross), value(j.scored.AUC()), recall,
		value(truly.Value, err1), value(naively.Value, err2)}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
