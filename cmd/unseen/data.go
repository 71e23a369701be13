package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/encode"
	"unseen/fit"
	"unseen/graph"
)

// network is a dataset that was opened to learn from or to judge by.
type network struct {
	*dataset.Dataset
	log   *fit.Log          // nil if nothing is logged
	files map[string]string // SHA-256 by name
	notes []string          // on what was opened, for whoever reads the results
	texts *encode.Encoder   // what made the vectors; nil if it is not known, or of another kind
}

// Document returns the title and text of a node.
func (n *network) Document(i int32) (encode.Document, error) {
	text, err := n.Text(i)
	return encode.Document{Title: n.Graph().Title(i), Text: text}, err
}

// openNetwork opens a dataset that must have vectors.
func openNetwork(ctx context.Context, dir string, t *ticker) (*network, error) {
	d, err := dataset.Open(ctx, dir, dataset.OpenOptions{Progress: t.read})
	if err != nil {
		return nil, err
	}
	n := &network{Dataset: d, files: map[string]string{}}
	if err := n.fill(ctx, dir); err != nil {
		d.Close()
		return nil, err
	}
	return n, nil
}

func (n *network) fill(ctx context.Context, dir string) error {
	if n.Graph().Vectors() == nil {
		return usagef("%s has no vectors; make them of its texts: unseen encode %s", dir, dir)
	}
	for name, file := range n.Manifest().Files {
		n.files[name] = file.SHA256
	}
	e, err := n.Exposures(ctx)
	if err != nil || e == nil {
		return err
	}
	n.log = &fit.Log{Source: e.Source, Target: e.Target, Exposed: e.Exposed, Linked: e.Linked}
	return nil
}

// drawingFlags say which pairs of a dataset are learned from.
type drawingFlags struct {
	split, fieldsBy, scheme  string
	log                      string
	validationFrom, testFrom string
	shares                   []float64
	later                    bool
	negatives                int
}

func (f *drawingFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.split, "split", "", "order, date, random or whole (default: as suits)")
	flags.Float64SliceVar(&f.shares, "shares", nil, "`parts` of the nodes (default .7,.1,.2)")
	flags.Lookup("shares").DefValue = ""
	flags.StringVar(&f.validationFrom, "validation-from", "", "`date` from which nodes serve to choose")
	flags.StringVar(&f.testFrom, "test-from", "", "`date` from which nodes are held out")
	flags.BoolVar(&f.later, "later-targets", false, "targets may be newer than their source")
	flags.IntVar(&f.negatives, "negatives", graph.DefaultPerLink, "unlinked pairs per link")
	flags.StringVar(&f.scheme, "scheme", "", "uniform, field or popularity (default uniform)")
	flags.StringVar(&f.fieldsBy, "fields-by", "", "find `fields`: vectors:20, or links:50")
	flags.StringVar(&f.log, "log", "", "exposures: sample, complete, offered or ignored")
	for name, values := range map[string][]string{
		"log": {"sample", "complete", "offered", "ignored"}, "split": {"order", "date", "random", "whole"}, "scheme": {"uniform", "field", "popularity"},
		"shares": nil, "validation-from": nil, "test-from": nil, "negatives": nil, "fields-by": {"vectors:20", "links:50"},
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // only if the flag does not exist
		}
	}
}

// names lists the flags, none of which a generated world takes.
func (f *drawingFlags) names() []string {
	return []string{"split", "shares", "validation-from", "test-from", "later-targets", "negatives", "scheme", "fields-by", "log"}
}

// data says what to learn from, and in words how it is cut.
func (f *drawingFlags) data(n *network, dir string, seed uint64) (fit.Data, string, error) {
	g := n.Graph()
	d := fit.Data{Files: n.files}
	fail := func(format string, a ...any) (fit.Data, string, error) { return d, "", usagef(format, a...) }
	drawing, why := fit.DrawingFor(g)
	if f.split != "" {
		drawing, why = fit.Drawing{Split: fit.Cut(f.split), Later: drawing.Later}, "by "+f.split+", as asked"
	}
	if f.validationFrom != "" || f.testFrom != "" {
		if f.split != "" && f.split != string(fit.ByDate) {
			return fail("--split %s and dates; give one of them", f.split)
		}
		drawing.Split = fit.ByDate
	}
	if drawing.Split == fit.ByDate {
		days := [2]fit.Day{}
		for k, text := range []string{f.validationFrom, f.testFrom} {
			day, err := time.Parse(time.DateOnly, text)
			if err != nil {
				return fail("--validation-from is %q and --test-from %q; give both as 2021-01-31, or neither", f.validationFrom, f.testFrom)
			}
			days[k] = fit.Day{Time: day}
		}
		drawing.Dates, why = &days, fmt.Sprintf("at %s and %s", f.validationFrom, f.testFrom)
	}
	if f.shares != nil {
		if len(f.shares) != 3 {
			return fail("--shares has %d numbers; give three that add up to 1, such as .7,.1,.2", len(f.shares))
		}
		drawing.Shares = graph.Shares{Train: f.shares[0], Validation: f.shares[1], Test: f.shares[2]}
	}
	if f.negatives < 1 || f.negatives > 10_000 {
		return fail("--negatives is %d; give from 1 to 10,000", f.negatives)
	}
	if f.scheme != "" {
		if _, err := graph.ParseScheme(f.scheme); err != nil {
			return fail("--scheme is %q; give uniform, field or popularity", f.scheme)
		}
	}
	switch f.log {
	case "", string(fit.Sampled), string(fit.Complete), string(fit.Offered), string(fit.Ignored):
		drawing.Log = fit.LogKind(f.log)
	default:
		return fail("--log is %q; give sample, complete, offered or ignored", f.log)
	}
	drawing.Later = drawing.Later || f.later
	drawing.PerLink, drawing.Scheme, drawing.Seed = f.negatives, f.scheme, seed
	d.Drawing = drawing
	if f.fieldsBy != "" {
		kind, number, _ := strings.Cut(f.fieldsBy, ":")
		count, err := strconv.Atoi(number)
		if kind != "vectors" && kind != "links" || err != nil || count < 1 {
			return fail("--fields-by is %q; write vectors:20 for 20 groups of like vectors, or links:50 for communities of at least 50 nodes", f.fieldsBy)
		}
		d.Fields = fit.FieldsBy{Kind: kind, Count: count, Seed: seed}
	} else if g.FieldCount() < 2 {
		return fail("%s has no fields, and exposure is learned per pair of fields; find some with --fields-by vectors:20 or --fields-by links:50", dir)
	}
	return d, why, nil
}

// oneFolder completes a command that takes a folder.
func oneFolder(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// openEncoder reads what made the vectors, if it is kept and of a kind that needs nothing else.
func (n *network) openEncoder() error {
	if n.Manifest().Encoder == nil || n.Manifest().Encoder.Kind != encode.Kind {
		return nil
	}
	file, err := n.Encoder()
	if err != nil || file == nil {
		return err
	}
	n.texts, err = encode.Read(file, file.Size())
	return err
}

// Close gives everything back.
func (n *network) Close() error {
	if n.texts != nil {
		n.texts.Close()
	}
	return n.Dataset.Close()
}

// fileSum is the SHA-256 of a file.
func fileSum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
