package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/gpu"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/recommend"
	"unseen/risk"
	"unseen/sample"
)

// evaluateFlags is the command line of unseen evaluate.
type evaluateFlags struct {
	model, data string
	against     []string
	floor       float64
	certify     int
	exact       bool
	byFields    bool
	onCard      bool // a card makes the sums
	deviceFlags
	fairness      int
	groups        string
	sources       int
	rank          int
	threads       int
	seed          uint64
	output        string
	quiet, asJSON bool
	policyFlags
}

func newEvaluate() *cobra.Command {
	var f evaluateFlags
	cmd := &cobra.Command{
		Use:   "evaluate MODEL DATASET",
		Short: "Evaluate a model on held-out links, or a policy by a log",
		Long: `Evaluate a model on the pairs that were held out when it was fitted: its risk on
observed links (naive) and corrected for exposure by three estimators, R_w, R_PU
and R_AP (and R_DR where exposure is logged), each with an interval that
includes the uncertainty of π̂ and ŷ; how biased the estimators would be if π̂
were wrong; and how the model ranks the links that were made.

--against evaluates more models on the same pairs, by the exposure that MODEL
has learned. A model is called better only if it is under every assumption that
explains the links as well. --exact also computes the risks over all pairs of
the held-out nodes, of which the evaluated ones are a sample. --certify plants
known truths on the same nodes and fits the method to them, which shows how far
it can be trusted here.

--fairness makes lists of K for held-out nodes and compares each group's share
of attention, 1/log2(1+rank), with its share of ŷ. Groups are the fields, or
those in the file of --groups.

DATASET must be the one that the model was fitted to. -o writes a file that
unseen report turns into a page.

` + policyHelp,
		Example: `  unseen evaluate model.safetensors papers
  unseen evaluate model.safetensors papers --against naive.safetensors
  unseen evaluate model.safetensors papers --fairness --groups institutes.csv
  unseen evaluate model.safetensors papers -o evaluation.json
  unseen evaluate papers --log state/events.db --policy model.safetensors
  unseen evaluate --log shown.csv --policy column:target`,
		Args: func(cmd *cobra.Command, args []string) error {
			// --fairness 20, where the parser knows --fairness and --fairness=20
			if len(args) == 3 && cmd.Flags().Changed("fairness") {
				for at, text := range args {
					if k, err := strconv.Atoi(text); err == nil {
						f.fairness, args = k, slices.Delete(slices.Clone(args), at, at+1)
						break
					}
				}
			}
			if cmd.Flags().Changed("log") {
				return f.takePolicyData(args)
			}
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("name a model and its dataset; for instance unseen evaluate model.safetensors papers")
			}
			f.model, f.data = args[0], args[1]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			if asked, err := f.asked(cmd.Flags().Changed); asked || err != nil {
				if err != nil {
					return err
				}
				r, err := runPolicy(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
				if err != nil {
					return err
				}
				return present(cmd, f.asJSON, r, func(w io.Writer) error { return printPolicy(w, r, f.output) })
			}
			e, err := runEvaluate(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, e, func(w io.Writer) error { return printEvaluation(w, e, f.output) })
		},
		ValidArgsFunction: modelThenFolder,
	}
	f.register(cmd)
	return cmd
}

// register adds the flags to a command.
func (f *evaluateFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.against, "against", nil, "evaluate this `model` on the same pairs; repeatable")
	flags.BoolVar(&f.exact, "exact", false, "also sum the risks over all pairs of held-out nodes")
	flags.BoolVar(&f.byFields, "by-fields", false, "with --exact: also by the fields of source and target")
	f.deviceFlags.register(cmd, "sums all pairs")
	f.registerRows(cmd)
	flags.IntVar(&f.certify, "certify", 0, "plant this many known truths and fit each")
	flags.IntVar(&f.fairness, "fairness", 0, "exposure and merit of groups in lists of `K`")
	flags.Lookup("fairness").NoOptDefVal = "10"
	flags.StringVar(&f.groups, "groups", "", "CSV `file`: id,group (default: fields)")
	flags.IntVar(&f.rank, "rank", 100, "recall among the first `K`; 0 skips it")
	flags.IntVar(&f.sources, "sources", 500, "held-out nodes to sample for ranking")
	flags.Float64Var(&f.floor, "floor", .01, "lower limit of π̂ in R_w and R_PU")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of planted truths and of the sample")
	f.policyFlags.register(cmd)
	threadsFlag(cmd, &f.threads)
	flags.StringVarP(&f.output, "output", "o", "", "write the evaluation to this `file`")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, nil, "certify", "fairness", "rank", "sources", "floor", "seed", "threads")
}

// check says which flag is wrong.
func (f *evaluateFlags) check(given func(string) bool) error {
	switch {
	case !(f.floor >= 0 && f.floor < 1):
		return usagef("--floor is %v; give a propensity from 0 to below 1", f.floor)
	case f.certify < 0 || f.certify > 100:
		return usagef("--certify is %d; give from 1 to 100, or leave it out", f.certify)
	case given("fairness") && (f.fairness < 1 || f.fairness > recommend.MaxK):
		return usagef("--fairness is %d; give how many places a list has, from 1 to %s", f.fairness,
			amount.Text(recommend.MaxK))
	case given("groups") && f.fairness == 0:
		return usagef("--groups is what --fairness compares; give --fairness too")
	case given("groups") && f.groups == "":
		return usagef("--groups is empty; give a CSV file with columns id and group, or leave it out")
	case f.rank < 0 || f.rank > recommend.MaxK:
		return usagef("--rank is %d; give from 1 to %s, or 0 to leave ranking out", f.rank,
			amount.Text(recommend.MaxK))
	case f.sources < 1:
		return usagef("--sources is %d; give at least 1", f.sources)
	case given("output") && f.output == "":
		return usagef("--output is empty; give a path, or leave it out")
	case given("device") && !f.exact:
		return usagef("--device is what sums all pairs; give --exact too")
	case f.byFields && !f.exact:
		return usagef("--by-fields is about sums over all pairs; give --exact too")
	}
	if f.output != "" {
		if err := atomicfile.Writable(f.output); err != nil {
			return &usageError{err}
		}
	}
	return f.deviceFlags.check(given)
}

func runEvaluate(ctx context.Context, f evaluateFlags, t *display) (*evaluate.Evaluation, error) {
	defer t.clear()
	device, done, tried, err := f.deviceFlags.open(f.threads)
	if err != nil {
		return nil, err
	}
	defer done()
	n, err := openFitted(ctx, f.model, f.data, t)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	t.say("drawing the held-out pairs")
	prepared, m, err := n.model.HeldOut(ctx, f.threads)
	if err != nil {
		return nil, err
	}
	_, f.onCard = device.(*gpu.OnCard)
	s, warnings, err := f.settings(ctx, n, prepared)
	if err != nil {
		return nil, err
	}
	s.Engine, warnings = device, append(warnings, tried...)
	t.say("judging %s on %s held-out pairs", filepath.Base(f.model), amount.Text(prepared.Test.Pairs.Len()))
	e, err := evaluate.NewEvaluation(ctx, prepared.Graph, m, prepared.Test, s)
	if err != nil {
		return nil, err
	}
	origin := n.model.Origin
	e.Dataset = filepath.Base(filepath.Clean(f.data))
	e.Held = origin.Plan.Describe(prepared.Graph)
	e.Warnings = append(e.Warnings, warnings...)
	if e.Fairness != nil && e.Class == fit.NoExposure {
		e.Warnings = append(e.Warnings, "this model ignores exposure, so what was never shown has little "+
			"merit; evaluate a model that corrects for exposure, and give this one to --against")
	}
	for k, other := range s.Others {
		theirs, known, err := sample.OriginOf(other)
		if err == nil && (!known || !theirs.Plan.HoldsOutSameNodes(origin.Plan)) {
			e.Warnings = append(e.Warnings, fmt.Sprintf("it is unknown whether %s was fitted without these pairs; "+
				"if it has seen them, it looks better than it is", s.Names[k]))
		}
	}
	if f.certify > 0 {
		if e.Certificate, err = certify(ctx, f, m, prepared, t); err != nil {
			return nil, err
		}
	}
	if f.output != "" {
		if err := atomicfile.Write(f.output, func(w io.Writer) error { return printJSON(w, e) }); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// settings turns the flags into what to evaluate, with warnings about the groups.
func (f *evaluateFlags) settings(ctx context.Context, n *fittedNetwork,
	prepared *sample.Prepared) (s evaluate.EvaluationSettings, warnings []string, err error) {
	g := prepared.Graph
	s.Name = filepath.Base(f.model)
	s.Panel = evaluate.PanelSettings{Floor: f.floor, ByFields: f.byFields, Threads: f.threads}
	if f.exact {
		s.Panel.Graph, s.Panel.Universe = prepared.LinkGraph(graph.Test), prepared.Universe(graph.Test)
		if pairs, _, err := s.Panel.Universe.Count(s.Panel.Graph); err == nil && pairs > engine.MostPairs &&
			!f.onCard {
			return s, nil, usagef("--exact is for up to %s pairs, and the held-out nodes of %s have %s; leave it out, "+
				"or use --device gpu",
				amount.Text(engine.MostPairs), f.data, amount.Text(int(pairs)))
		}
	}
	for _, path := range f.against {
		other, err := n.other(ctx, path)
		if err != nil {
			return s, nil, err
		}
		loaded, err := other.On(prepared.Problem.Nodes)
		if err != nil {
			return s, nil, err
		}
		s.Others, s.Names = append(s.Others, loaded), append(s.Names, filepath.Base(path))
	}
	if f.fairness > 0 {
		s.Fairness = evaluate.FairnessSettings{K: f.fairness, Seed: f.seed, Threads: f.threads}
		if f.groups != "" {
			var missing int
			if s.Fairness.Groups, missing, err = readGroups(f.groups, g); err != nil {
				return s, nil, err
			}
			if missing > 0 {
				warnings = append(warnings, fmt.Sprintf("%s of %s nodes are in no group of %s and make one of their "+
					"own, %s", amount.Text(missing), amount.Text(g.Len()), filepath.Base(f.groups), noGroup))
			}
		}
		if s.Fairness.Held, err = heldOut(prepared, f.sources, f.seed); err != nil {
			return s, nil, fmt.Errorf("%s: %w", f.data, err)
		}
	}
	if f.rank > 0 {
		if s.Candidates, err = heldOut(prepared, f.sources, f.seed); err != nil {
			return s, nil, fmt.Errorf("%s: %w", f.data, err)
		}
		s.First = f.rank
	}
	return s, warnings, nil
}

// certify plants truths where the model was fitted.
func certify(ctx context.Context, f evaluateFlags, m model.Model, prepared *sample.Prepared,
	t *display) (*evaluate.Certificate, error) {
	s, err := evaluate.CertificateFor(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.model, err)
	}
	s.Fit.Threads, s.Pairs, s.Repeats, s.Seed = f.threads, prepared.Problem.Train.Len(), f.certify, f.seed
	s.Progress = t.report
	return evaluate.Certify(ctx, prepared.Graph, s)
}

// printEvaluation draws the page for a terminal of 80 columns.
func printEvaluation(w io.Writer, e *evaluate.Evaluation, output string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) on %s\n", e.Model, e.Method, e.Dataset)
	fmt.Fprintf(&b, "%s held-out pairs, %s of them linked; held out %s\n", amount.Text(e.Pairs), amount.Text(e.Links),
		e.Held)
	fmt.Fprintf(&b, "\nThe risk of %s, log-loss, lower is better\n", e.Model)
	printPanel(&b, e, e.Panel)
	printFields(&b, e.Panel.Fields)
	b.WriteString(wrap(e.Allowed()))
	for k, o := range e.Others {
		fmt.Fprintf(&b, "\nThe risk of %s (%s),\nby the exposure that %s has learned\n", o.Model, o.Method, e.Model)
		printPanel(&b, e, o.Panel)
		b.WriteString(wrap(e.Decided(k).Summary))
	}
	fmt.Fprintf(&b, "\nOn observed links           %11s %10s %10s %10s\n", "AUC of ŷ", "of π̂ŷ", "AP of ŷ", "of π̂ŷ")
	observed := func(name string, o evaluate.Observed) {
		fmt.Fprintf(&b, "  %-25s %11s %9s %10s %9s\n", name, fourDigits(o.AUC), fourDigits(o.AUCSeen), fourDigits(o.AP),
			fourDigits(o.APSeen))
	}
	observed(e.Model, e.Observed)
	for _, o := range e.Others {
		observed(o.Model, o.Observed)
	}
	b.WriteString("  never shown counts as irrelevant here\n")
	printRanks(&b, e)
	printRegion(&b, e.Panel.Region)
	if e.Fairness != nil {
		printFairness(&b, e)
	}
	if e.Certificate != nil {
		b.WriteString("\nThe certificate\n")
		for _, sentence := range e.Certificate.Words() {
			b.WriteString(wrap("- " + sentence))
		}
	}
	for _, warning := range e.Warnings {
		b.WriteString("\n" + wrap("warning: "+warning))
	}
	if output != "" {
		fmt.Fprintf(&b, "\nThe evaluation is in %s\nTo make a page of it: unseen report %s\n", output, output)
	}
	_, err := w.Write([]byte(b.String()))
	return err
}

// printPanel shows a model's risks; of the evaluated model with what the assumptions allow, of others with the
// difference from that.
func printPanel(b *strings.Builder, e *evaluate.Evaluation, p *evaluate.Panel) {
	compared, assumed := p.Risks[0].Against != nil, e.Set != nil && p == e.Panel
	fmt.Fprintf(b, "  %-8s %10s %23s", "judged by", "risk", "95% interval")
	if compared {
		fmt.Fprintf(b, " %30s", "above "+short(e.Model, 24))
	}
	if assumed {
		fmt.Fprintf(b, " %18s", "the links allow")
	}
	if p.Exact != nil {
		fmt.Fprintf(b, " %11s", "all pairs")
	}
	b.WriteString("\n")
	for _, row := range p.Risks {
		interval := fmt.Sprintf("%.4g to %.4g", row.Risk.Lower, row.Risk.Upper)
		line := fmt.Sprintf("  %-8s %11.4g %23s", row.Label(), row.Risk.Interval.Estimate, interval)
		if compared {
			line += fmt.Sprintf(" %30s", differenceWords(row.Against.Interval))
		}
		if assumed {
			line += fmt.Sprintf(" %18s", e.AllowedRisk(row))
		}
		if row.Exact != nil {
			line += fmt.Sprintf(" %11.4g", *row.Exact)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// printFields shows what the pairs of two fields come to: of those that have the most pairs.
func printFields(b *strings.Builder, fields []evaluate.FieldPairMeans) {
	const most = 12
	if len(fields) == 0 {
		return
	}
	fields = slices.Clone(fields)
	slices.SortStableFunc(fields, func(x, y evaluate.FieldPairMeans) int {
		return cmp.Compare(y.Means.Pairs, x.Means.Pairs)
	})
	fmt.Fprintf(b, "  over all pairs, by field of source and target\n  %-33s %12s %9s %9s %9s\n", "", "pairs",
		"mean ŷ", "mean π̂", "R_AP")
	for _, f := range fields[:min(len(fields), most)] {
		fmt.Fprintf(b, "  %-33s %12s %8.3g %9.3g %9.3g\n", short(f.Source, 15)+" → "+short(f.Target, 15),
			amount.Text(f.Means.Pairs), f.Means.MeanLink, f.Means.MeanPropensity, f.Means.AP)
	}
	if rest := len(fields) - most; rest > 0 {
		fmt.Fprintf(b, "  and %s more, which --json has\n", amount.Text(rest))
	}
}

// printRegion says how wrong π̂ may be before correcting is worse than not correcting.
func printRegion(b *strings.Builder, region []evaluate.RegionRow) {
	fmt.Fprintf(b, "\nIf π̂ were wrong: share of pairs where correcting still beats not correcting\n")
	fmt.Fprintf(b, "  %-14s", "π̂ = π ×")
	for _, r := range region {
		fmt.Fprintf(b, "%5.1f", r.Factor)
	}
	for _, line := range []struct {
		name string
		of   func(evaluate.RegionRow) float64
	}{
		{"R_w, R_PU", func(r evaluate.RegionRow) float64 { return r.HoldsW }},
		{"R_AP", func(r evaluate.RegionRow) float64 { return r.HoldsAP }},
	} {
		fmt.Fprintf(b, "\n  %-13s", line.name)
		for _, r := range region {
			fmt.Fprintf(b, "%5.0f", 100*line.of(r))
		}
		b.WriteString(" %")
	}
	b.WriteString("\n")
}

// differenceWords is a difference with its interval, of three digits, or of two where it is small and would not fit.
func differenceWords(d risk.Interval) string {
	digits := 3
	if math.Abs(d.Estimate) < .01 {
		digits = 2
	}
	return fmt.Sprintf("%+.*g (%+.*g to %+.*g)", digits, d.Estimate, digits, d.Lower, digits, d.Upper)
}

// printRanks says where held-out links come out among all that could have been linked to.
func printRanks(b *strings.Builder, e *evaluate.Evaluation) {
	if len(e.Ranks) == 0 {
		return
	}
	first := e.Ranks[0]
	fmt.Fprintf(b, "\nRanked among all candidates, for %s held-out nodes (in %%)\n", amount.Text(first.Sources))
	fmt.Fprintf(b, "  %-27s %10s  %19s %10s %6s\n", "", fmt.Sprintf("recall@%d", first.K), "difference",
		"two fields", "MRR")
	row := func(name string, r evaluate.Ranks) {
		against := ""
		if d := r.Against; d != nil {
			against = fmt.Sprintf("%+.1f (%+.1f, %+.1f)", 100*d.Mean, 100*d.Lower, 100*d.Upper)
		}
		label := short(name, 18) + " by " + string(r.By)
		fmt.Fprintf(b, "  %-*s %10s  %19s %10s %6s\n", 27+wide(label), label, points(r.Recall), against,
			points(r.CrossRecall), points(r.MRR))
	}
	for _, r := range e.Ranks {
		row(e.Model, r)
	}
	for _, o := range e.Others {
		for _, r := range o.Ranks {
			row(o.Model, r)
		}
	}
	b.WriteString("  difference: from the first row; two fields: recall of links between fields\n")
}

// points writes a share in per cent, or a dash for none.
func points(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f", 100**x)
}

// heldOut draws some of the sources that were held out.
func heldOut(prepared *sample.Prepared, most int, seed uint64) (*evaluate.Candidates, error) {
	all, err := evaluate.NewCandidates(prepared, graph.Test)
	if err != nil {
		return nil, err
	}
	return all.Some(most, seed)
}
