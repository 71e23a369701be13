package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/graph"
	"unseen/network"
	"unseen/sample"
)

// openNetwork opens a dataset that must have vectors.
func openNetwork(ctx context.Context, dir string, t *display) (*network.Network, error) {
	n, err := network.Open(ctx, dir, dataset.OpenOptions{Progress: t.report})
	if errors.Is(err, network.ErrVectors) {
		err = usagef("%w: %s", err, fixFor("no-vectors", dir))
	}
	return n, err
}

// fittedNetwork is a model and the network that it was fitted to, both open.
type fittedNetwork struct {
	*network.Network
	model *network.Fitted
}

// openFitted opens a dataset and a model that was fitted to it. What is wrong with the names is said before anything
// is read.
func openFitted(ctx context.Context, path, dir string, t *display) (*fittedNetwork, error) {
	if err := isModel(path, dir); err != nil {
		return nil, err
	}
	n, err := openNetwork(ctx, dir, t)
	if err != nil {
		return nil, err
	}
	f := &fittedNetwork{Network: n}
	if f.model, err = n.Model(ctx, path); err != nil {
		n.Close()
		return nil, err
	}
	return f, nil
}

// other opens another model of the same dataset.
func (f *fittedNetwork) other(ctx context.Context, path string) (*network.Fitted, error) {
	if err := isModel(path, f.Folder()); err != nil {
		return nil, err
	}
	return f.Model(ctx, path)
}

// isModel looks whether a model can be there, or says how to come by one.
func isModel(path, dir string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no model %s (no such file); make it with unseen fit %s -o %s", path, dir, path)
	case err == nil && info.IsDir():
		return usagef("%s is a folder, and a model is a file; name the model first and then its dataset", path)
	}
	return nil
}

// drawingFlags say which pairs of a dataset are learned from.
type drawingFlags struct {
	split, fieldsBy, scheme  string
	log                      string
	validationFrom, testFrom string
	shares                   []float64
	later, unavailable       bool
	negatives                int
}

func (f *drawingFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.split, "split", "", "how to hold out, such as random or last-links")
	flags.Float64SliceVar(&f.shares, "shares", nil, "train, validation, test `shares` (default .7,.1,.2)")
	flags.Lookup("shares").DefValue = ""
	flags.StringVar(&f.validationFrom, "validation-from", "", "`date` from which validation begins")
	flags.StringVar(&f.testFrom, "test-from", "", "`date` from which testing begins")
	flags.BoolVar(&f.later, "later-targets", false, "targets may be newer than their source")
	flags.BoolVar(&f.unavailable, "unavailable", false, "learn from items newer than a person's last link")
	flags.IntVar(&f.negatives, "negatives", graph.DefaultPerLink, "unlinked pairs per link")
	flags.StringVar(&f.scheme, "negative-scheme", "", "`rule`: uniform (default), field or popularity")
	oldFlag(cmd, "scheme", "negative-scheme")
	flags.StringVar(&f.fieldsBy, "fields-by", "", "`way`: vectors:20, links:50, activity:3, factors:8")
	flags.StringVar(&f.log, "log", "", "sample, complete, offered, drawn or ignored")
	completeFlags(cmd, map[string][]string{
		"log": {"sample", "complete", "offered", "drawn", "ignored"}, "split": splits,
		"negative-scheme": {"uniform", "field", "popularity"},
		"fields-by":       {"vectors:20", "links:50", "activity:3", "factors:8"},
	}, "shares", "validation-from", "test-from", "negatives")
}

// splits are the kinds of splits; without one, the data say which.
var splits = []string{"order", "date", "random", "last-links", "link-date", "random-links", "whole"}

// names lists the flags, none of which a generated world takes.
func (f *drawingFlags) names() []string {
	return []string{"split", "shares", "validation-from", "test-from", "later-targets", "unavailable", "negatives",
		"negative-scheme", "scheme", "fields-by", "log"}
}

// data says what to learn from, and in words how it is cut.
func (f *drawingFlags) data(n *network.Network, dir string, seed uint64) (sample.Origin, string, error) {
	g := n.Graph()
	var o sample.Origin
	fail := func(format string, a ...any) (sample.Origin, string, error) { return o, "", usagef(format, a...) }
	plan, why := sample.PlanFor(g)
	if f.split != "" {
		plan = sample.Plan{Split: sample.SplitKind(f.split), Later: plan.Later, Available: plan.Available}
		if why = plan.Describe(g); plan.Split == sample.Whole {
			why = "not at all"
		}
		why += ", as asked"
	}
	if f.validationFrom != "" || f.testFrom != "" {
		switch {
		case f.split != "" && plan.Split != sample.ByDate && plan.Split != sample.LinksByDate:
			return fail("--split %s and dates; give one of them", f.split)
		case f.split == "" && g.TwoSided():
			plan.Split = sample.LinksByDate
		case f.split == "":
			plan.Split = sample.ByDate
		}
	}
	if plan.Split == sample.ByDate || plan.Split == sample.LinksByDate {
		days := [2]sample.Day{}
		for k, text := range []string{f.validationFrom, f.testFrom} {
			day, err := time.Parse(time.DateOnly, text)
			if err != nil {
				return fail("--validation-from is %q and --test-from %q; give both as 2021-01-31, or neither",
					f.validationFrom, f.testFrom)
			}
			days[k] = sample.Day{Time: day}
		}
		plan.Dates, why = &days, fmt.Sprintf("at %s and %s", f.validationFrom, f.testFrom)
	}
	if f.shares != nil {
		if len(f.shares) != 3 {
			return fail("--shares has %d numbers; give three that add up to 1, such as .7,.1,.2", len(f.shares))
		}
		plan.Shares = graph.Shares{Train: f.shares[0], Validation: f.shares[1], Test: f.shares[2]}
	}
	if f.negatives < 1 || f.negatives > 10_000 {
		return fail("--negatives is %d; give from 1 to 10,000", f.negatives)
	}
	if f.scheme != "" {
		if _, err := graph.ParseNegativeScheme(f.scheme); err != nil {
			return fail("--negative-scheme is %q; give uniform, field or popularity", f.scheme)
		}
	}
	switch f.log {
	case "", string(sample.Sampled), string(sample.Complete), string(sample.Offered), string(sample.Drawn),
		string(sample.Ignored):
		plan.Log = sample.LogKind(cmp.Or(f.log, n.Manifest().Log))
	default:
		return fail("--log is %q; give sample, complete, offered, drawn or ignored", f.log)
	}
	if f.log != "" && f.log != string(sample.Ignored) && n.Log() == nil {
		return fail("--log %s says what %s contains, and %s has none: import what was shown, or leave --log out", f.log,
			dataset.ExposuresFile, dir)
	}
	plan.Later, plan.Available = plan.Later || f.later, plan.Available && !f.unavailable
	plan.PerLink, plan.Scheme, plan.Seed = f.negatives, f.scheme, seed
	o.Plan = plan
	if f.fieldsBy != "" {
		kind, number, _ := strings.Cut(f.fieldsBy, ":")
		count, err := strconv.Atoi(number)
		if !slices.Contains([]string{"vectors", "links", "activity", "factors"}, kind) || err != nil || count < 1 {
			return fail("--fields-by is %q; write vectors:20 for 20 groups of like vectors, links:50 for "+
				"communities of at least 50 nodes, or, where nodes have no field, activity:3 for 3 groups by the "+
				"number of links, or factors:8 for 8 groups of like links", f.fieldsBy)
		}
		o.Fields = sample.FieldsBy{Kind: kind, Count: count, Seed: seed}
	} else if g.FieldCount() < 2 && !g.TwoSided() { // of people and items exposure is then one number
		return fail("%s has no fields, and exposure is learned per pair of fields; find some with --fields-by "+
			"vectors:20 or --fields-by links:50", dir)
	}
	return o, why, nil
}

// oneFolder completes a command that takes a folder.
func oneFolder(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
