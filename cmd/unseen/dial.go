package main

import (
	"context"
	"encoding/json"
	"errors"
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
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/progress"
	"unseen/recommend"
	"unseen/sample"
)

// dialFlags is the command line of unseen dial.
type dialFlags struct {
	model, data                 string
	k, sources                  int
	diversity, explore, lambdaR []float64
	seed                        uint64
	threads                     int
	output                      string
	quiet, asJSON               bool
}

func newDial() *cobra.Command {
	var f dialFlags
	cmd := &cobra.Command{
		Use:   "dial MODEL DATASET",
		Short: "Show what diversity and exploration cost in recall",
		Long: `Recommend to nodes that were held out when the model was fitted, with each
diversity x from 0 to 1, and show the trade-off: the share of their links that
the lists contain (Recall@K) against how many fields a list covers (the entropy
of its fields, in nats). Intervals reflect which nodes were sampled. Each
setting is compared with x = 0 on the same nodes.

A list contains only targets that are older than its node. Recall counts links
that were made. What was never shown could not be linked, so recall favours
lists that repeat past exposure, and the true loss may be smaller.

--explore tries shares of positions drawn in proportion to ŷ. --lambda-r fits
the method again on the same training pairs with each weight of the risk; a
method without a risk is replaced by ap, and 0 means maximum likelihood alone.
-o writes a file that unseen report turns into a figure.`,
		Example: `  unseen dial model.safetensors papers
  unseen dial model.safetensors papers --diversity 0,.2,.4 --explore .1,.3
  unseen dial model.safetensors papers --lambda-r 0,1,10 -o dial.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("name a model and its dataset; for instance unseen dial model.safetensors papers")
			}
			f.model, f.data = args[0], args[1]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			d, err := runDial(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, d, func(w io.Writer) error { return printDial(w, d, f.output) })
		},
		ValidArgsFunction: modelThenFolder,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVarP(&f.k, "k", "k", 10, "items in a list")
	flags.Float64SliceVar(&f.diversity, "diversity", nil, "`values` to try (default 0,.1,.2 … 1)")
	flags.Float64SliceVar(&f.explore, "explore", nil, "`shares` of positions to explore, such as .1,.3")
	flags.Float64SliceVar(&f.lambdaR, "lambda-r", nil, "`weights` of the risk to fit with, such as 0,1,10")
	for _, name := range []string{"diversity", "explore", "lambda-r"} {
		flags.Lookup(name).DefValue = "" // it would be []
	}
	flags.IntVar(&f.sources, "sources", 500, "held-out nodes to sample for lists")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the sample and of exploration")
	flags.StringVarP(&f.output, "output", "o", "", "write the figures to this `file`")
	threadsFlag(cmd, &f.threads)
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, nil, "k", "diversity", "explore", "lambda-r", "sources", "seed", "threads")
	return cmd
}

// check says which flag is wrong, and puts the settings in order.
func (f *dialFlags) check(cmd *cobra.Command) error {
	switch {
	case f.k < 1 || f.k > recommend.MaxK:
		return usagef("-k is %d; give from 1 to %s", f.k, amount.Text(recommend.MaxK))
	case f.sources < 1:
		return usagef("--sources is %d; give at least 1", f.sources)
	case cmd.Flags().Changed("output") && f.output == "":
		return usagef("--output is empty; give a path, or leave it out")
	}
	const most = 25
	for _, list := range []struct {
		name   string
		values *[]float64
		high   float64
	}{{"diversity", &f.diversity, 1}, {"explore", &f.explore, 1}, {"lambda-r", &f.lambdaR, 1e6}} {
		for _, x := range *list.values {
			if !(x >= 0 && x <= list.high) {
				return usagef("--%s has %v; give numbers from 0 to %v", list.name, x, list.high)
			}
		}
		slices.Sort(*list.values)
		*list.values = slices.Compact(*list.values)
		if len(*list.values) > most {
			return usagef("--%s has %d numbers; give at most %d", list.name, len(*list.values), most)
		}
	}
	if f.diversity == nil {
		for _, s := range recommend.DefaultSettings() {
			f.diversity = append(f.diversity, s.Diversity)
		}
	}
	if f.output != "" {
		if err := atomicfile.Writable(f.output); err != nil {
			return &usageError{err}
		}
	}
	return nil
}

// settings are where the dials stand: the model as it is first, whatever was asked for, since all are compared with it.
func (f *dialFlags) settings() (diversity, explore []recommend.DialSetting) {
	diversity = append(diversity, recommend.DialSetting{})
	for _, x := range f.diversity {
		if x > 0 {
			diversity = append(diversity, recommend.DialSetting{Diversity: x})
		}
	}
	for _, e := range f.explore {
		if e > 0 {
			explore = append(explore, recommend.DialSetting{Explore: e})
		}
	}
	return diversity, explore
}

func runDial(ctx context.Context, f dialFlags, t *display) (*recommend.Dial, error) {
	defer t.clear()
	n, err := openFitted(ctx, f.model, f.data, t)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	t.say("drawing the held-out nodes")
	prepared, m, err := n.model.HeldOut(ctx, f.threads)
	if err != nil {
		return nil, err
	}
	g := prepared.Graph
	held, err := heldOut(prepared, f.sources, f.seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.data, err)
	}
	var sweeps []*recommend.Sweep
	sweep := func(m model.Model, name string, lambda *float64, settings []recommend.DialSetting) error {
		r, err := recommend.New(g, m, recommend.Options{Threads: f.threads, Sketched: true,
			Engine: engine.CPU{Threads: f.threads}})
		if err != nil {
			return err
		}
		s, err := r.Sweep(ctx, recommend.SweepSettings{
			K: f.k, Held: held, Settings: settings, Seed: f.seed,
			Progress: progress.Func(t.report).Under(name),
		})
		if err != nil {
			return causedByFlags(err)
		}
		s.Name, s.LambdaR = name, lambda
		sweeps = append(sweeps, s)
		return nil
	}
	diversity, explore := f.settings()
	if err := sweep(m, "diversity", nil, diversity); err != nil {
		return nil, err
	}
	if len(explore) > 0 {
		if err := sweep(m, "exploration", nil, explore); err != nil {
			return nil, err
		}
	}
	var warnings []string
	for k, lambda := range f.lambdaR {
		again, warning, err := refit(ctx, f, m, prepared, lambda, func(e progress.Event) {
			e.Phase = fmt.Sprintf("λ_R %g, %d of %d: %s", lambda, k+1, len(f.lambdaR), e.Phase)
			t.report(e)
		})
		if err != nil {
			return nil, err
		}
		if warning != "" && !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
		if err := sweep(again, "λ_R = "+strconv.FormatFloat(lambda, 'g', 4, 64), &lambda, diversity); err != nil {
			return nil, err
		}
	}
	d, err := recommend.NewDial(sweeps, held, 0, f.seed)
	if err != nil {
		return nil, err
	}
	d.Model, d.Dataset, d.Held = filepath.Base(f.model), filepath.Base(filepath.Clean(f.data)),
		n.model.Origin.Plan.Describe(g)
	d.Warnings = append(warnings, dialWarnings(g, held, d)...)
	if f.output != "" {
		if err := atomicfile.Write(f.output, func(w io.Writer) error { return printJSON(w, d) }); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// dialWarnings says what the figures cannot bear.
func dialWarnings(g *graph.Graph, held *evaluate.Candidates, d *recommend.Dial) (warnings []string) {
	if d.Sources < 50 {
		warnings = append(warnings, fmt.Sprintf("only %s with links: intervals are wide; hold out more when fitting",
			amount.Of(d.Sources, "held-out node")))
	}
	if g.FieldCount() <= 2 {
		warnings = append(warnings, "there is one field, so the entropy of every list is 0; find fields when "+
			"fitting, with --fields-by vectors:20")
	}
	few := 0
	for place := range held.Sources() {
		if held.Count(place) < d.K {
			few++
		}
	}
	if few > 0 {
		warnings = append(warnings, fmt.Sprintf("%s have fewer candidates than a list has positions, %d",
			amount.Of(few, "held-out node"), d.K))
	}
	return warnings
}

// refit learns again from the same pairs, with another weight of the risk.
func refit(ctx context.Context, f dialFlags, m model.Model, prepared *sample.Prepared, lambda float64,
	report progress.Func) (model.Model, string, error) {
	var s fit.Settings
	if err := json.Unmarshal(m.Hyperparameters, &s); err != nil {
		return m, "", fmt.Errorf("%s: the settings of its training are damaged: %w; fit it again", f.model, err)
	}
	warning := ""
	if slices.Contains([]string{"naive", "naive-field", "cosine", "shown", "mle", "bayes"}, s.Method) {
		warning = fmt.Sprintf("%s has no risk to weight: λ_R applies to ap instead, fitted to the same pairs", s.Method)
		s = fit.Settings{Method: "ap", Seed: s.Seed}
	}
	s.LambdaR = lambda
	if lambda == 0 { // which settings take for the preset's
		s.Method = "mle"
	}
	s.Threads = f.threads
	s, err := s.For(prepared.Problem.Nodes).WithDefaults()
	if err != nil {
		return m, "", fmt.Errorf("λ_R = %g: %w", lambda, causedByFlags(err))
	}
	s.Starts = s.Starts[:min(1, len(s.Starts))] // the one that counts; the others only tell its worth
	s.Progress = report
	result, err := fit.Fit(ctx, prepared.Problem, s)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return m, "", err
		}
		return m, "", fmt.Errorf("λ_R = %g: %w", lambda, causedByFlags(err))
	}
	again, err := result.Model()
	return again, warning, err
}

// printDial draws the page for a terminal of 80 columns.
func printDial(w io.Writer, d *recommend.Dial, output string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: lists of %s for %s\n", d.Model, d.Dataset, amount.Text(d.K),
		amount.Of(d.Sources, "held-out node"))
	if d.Of > d.Sources {
		fmt.Fprintf(&b, "drawn from %s; ", amount.Text(d.Of))
	}
	fmt.Fprintf(&b, "%s links in all; held out %s\n\n", amount.Text(d.Links), d.Held)
	b.WriteString(dialChart(d))
	fmt.Fprintf(&b, "\n  %-20s %-22s %-22s %6s\n", "", fmt.Sprintf("Recall@%d, %%", d.K), "entropy, nats", "fields")
	for _, curve := range d.Curves {
		for _, p := range curve.Points {
			name := fmt.Sprintf("x = %.4g", p.Diversity)
			if p.Explore > 0 {
				name = fmt.Sprintf("explore %.4g", p.Explore)
			}
			if curve.LambdaR != nil {
				name = curve.Name + ", " + name
			}
			fmt.Fprintf(&b, "  %-20s %-22s %-22s %6.1f\n", short(name, 20),
				fmt.Sprintf("%.1f (%.1f to %.1f)", 100*p.Recall.Value, 100*p.Recall.Lower, 100*p.Recall.Upper),
				fmt.Sprintf("%.2f (%.2f to %.2f)", p.Entropy.Value, p.Entropy.Lower, p.Entropy.Upper),
				math.Exp(p.Entropy.Value))
		}
	}
	b.WriteString("  fields: number of equally frequent fields with this entropy\n\n")
	for _, sentence := range d.Words() {
		b.WriteString(wrap("- " + sentence))
	}
	b.WriteString(wrap("- Recall counts observed links: what was never shown cannot count."))
	for _, warning := range d.Warnings {
		b.WriteString("\n" + wrap("note: "+warning))
	}
	if output != "" {
		fmt.Fprintf(&b, "\nThe figures are in %s\nTo make a page of them: unseen report %s\n", output, output)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// dialChart draws recall over entropy: a digit for each tenth of x where there is one curve, a letter per curve else.
func dialChart(d *recommend.Dial) string {
	const height, width = 13, 64
	low, high := math.Inf(1), math.Inf(-1)
	left, right := math.Inf(1), math.Inf(-1)
	for _, c := range d.Curves {
		for _, p := range c.Points {
			low, high = min(low, p.Recall.Value), max(high, p.Recall.Value)
			left, right = min(left, p.Entropy.Value), max(right, p.Entropy.Value)
		}
	}
	if high-low < .01 { // so that noise does not look like a slope
		middle := (high + low) / 2
		low = min(max(middle-.005, 0), .99)
		high = low + .01
	}
	if right-left < .01 {
		right = left + .01
	}
	cells := make([][]rune, height)
	for y := range cells {
		cells[y] = []rune(strings.Repeat(" ", width))
	}
	letters := make([]rune, len(d.Curves))
	next := 'a'
	for k, c := range d.Curves {
		if c.LambdaR == nil {
			letters[k] = rune(c.Name[0]) // d or e
			continue
		}
		for slices.Contains(letters, next) || next == 'd' || next == 'e' {
			next++
		}
		letters[k] = next
	}
	for k := len(d.Curves) - 1; k >= 0; k-- { // the first is on top
		points := d.Curves[k].Points
		for i := len(points) - 1; i >= 0; i-- {
			p := points[i]
			mark := letters[k]
			if len(d.Curves) == 1 {
				mark = []rune("0123456789X")[int(math.Round(10*p.Diversity))]
			}
			x := int(math.Round((p.Entropy.Value - left) / (right - left) * (width - 1)))
			y := height - 1 - int(math.Round((p.Recall.Value-low)/(high-low)*(height-1)))
			cells[y][x] = mark
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  Recall@%d\n", d.K)
	for y, line := range cells {
		label := "      "
		if y%6 == 0 {
			label = fmt.Sprintf("%5.1f%%", 100*(high-(high-low)*float64(y)/(height-1)))
		}
		fmt.Fprintf(&b, "  %s │%s\n", label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(&b, "         └%s\n", strings.Repeat("─", width))
	end := fmt.Sprintf("%.2f nats", right)
	fmt.Fprintf(&b, "          %-*s%s\n", width-len(end), fmt.Sprintf("entropy of fields %.2f", left), end)
	if len(d.Curves) == 1 {
		b.WriteString("          each digit is ten times its x; X is x = 1\n")
		return b.String()
	}
	b.WriteString("          ")
	for k, c := range d.Curves {
		fmt.Fprintf(&b, "%c %s   ", letters[k], c.Name)
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}
