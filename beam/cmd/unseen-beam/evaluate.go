package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/progress"
	"unseen/recommend"
	"unseen/risk"
)

// evaluateFlags is the command line of unseen-beam evaluate.
type evaluateFlags struct {
	clusterFlags
	against []string
	exact   bool
	pairs   int
	draws   int
	rank    int
	sources int
	certify int
	seed    uint64
	floor   float64
}

// modelRisks is what all held-out pairs say of one model.
type modelRisks struct {
	Model string `json:"model"`
	job.HeldRisks
}

// evaluation is what unseen-beam evaluate has to say.
type evaluation struct {
	Model  string         `json:"model"`
	Method string         `json:"method"`
	Held   *job.HeldMeans `json:"held,omitempty"`     // over all held-out pairs
	All    *engine.Means  `json:"allPairs,omitempty"` // over all ordered pairs
	// HeldRisks has the risks of this model and others over all held-out pairs, with intervals over sources.
	HeldRisks []modelRisks `json:"heldRisks,omitempty"`
	// Evaluation has intervals and other models, by those of the held-out pairs that were drawn.
	Evaluation *evaluate.Evaluation `json:"evaluation,omitempty"`
	// Certificate is that of --certify; Evaluation has the one that the model came with.
	Certificate *evaluate.Certificate `json:"certificate,omitempty"`
}

func newEvaluate() *cobra.Command {
	var f evaluateFlags
	cmd := &cobra.Command{
		Use:   "evaluate MODEL SHARDS",
		Short: "Judge models by held-out pairs, or by all pairs of the graph",
		Long: `Judge a model by the pairs that were held out when the shards were made, as
unseen evaluate does: its risk by every estimator with intervals, what the links
allow it to be, AUC, and of other models (--against) the differences. These come
from about --pairs of the held-out pairs, all pairs of some sources, which the
driver draws; intervals have sources as what is independent.

Beside them come the same risks, differences and AUC over all held-out pairs, by
sums over the shards. Their intervals are by a bootstrap over sources with
Poisson weights (--draws), the same whatever the shards and the workers. They
take π̂ and ŷ for known, so that they are narrower than those above.

Held-out links of --sources nodes are ranked among everything that these could
have linked to, by ŷ and by π̂ŷ: recall among the first --rank, of links between
two fields too, and the mean reciprocal rank. Nodes, ranks and intervals are
those of unseen evaluate; the blocks of targets are gone through once.

--certify plants known truths on the nodes, of more than 65,536 on some of them,
and fits the method to each, which shows how far it can be trusted here. A truth
has as many pairs as the model was fitted to, at most --pairs. The driver fits.
Nodes on both sides need vectors, and a method that learns from a log has no
certificate: planted truths have none.

With --exact the means over all ordered pairs of the graph too, block by block:
nodes² products.`,
		Example: `  unseen-beam evaluate model.safetensors shards --against naive.safetensors`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := f.run(cmd.Context(), cmd, args[0], args[1])
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), out)
			}
			return out.print(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.against, "against", nil, "judge this `model` on the same pairs; repeatable")
	flags.IntVar(&f.pairs, "pairs", 1<<20, "held-out pairs to draw for intervals, about; of a planted truth at most")
	flags.IntVar(&f.draws, "draws", 200, "of the bootstrap over all held-out pairs")
	flags.IntVar(&f.rank, "rank", 100, "recall among the first `K`; 0 skips it")
	flags.IntVar(&f.sources, "sources", 500, "held-out nodes to sample for ranking")
	flags.IntVar(&f.certify, "certify", 0, "plant this many known truths and fit each")
	flags.Uint64Var(&f.seed, "seed", 1, "of the bootstrap, of planted truths and of the sample")
	flags.Float64Var(&f.floor, "floor", .01, "lower limit of π̂ in R_w and R_PU")
	flags.BoolVar(&f.exact, "exact", false, "over all ordered pairs too")
	f.add(cmd)
	return cmd
}

func (f *evaluateFlags) run(ctx context.Context, cmd *cobra.Command, path, root string) (*evaluation, error) {
	switch {
	case f.pairs < 1:
		return nil, fmt.Errorf("--pairs is %d; give a positive number", f.pairs)
	case f.draws < 2:
		return nil, fmt.Errorf("--draws is %d; give at least 2", f.draws)
	case !(f.floor >= 0 && f.floor < 1):
		return nil, fmt.Errorf("--floor is %v; give a propensity from 0 to below 1", f.floor)
	case f.rank < 0 || f.rank > recommend.MaxK:
		return nil, fmt.Errorf("--rank is %d; give from 1 to %d, or 0 to leave ranking out", f.rank, recommend.MaxK)
	case f.sources < 1 || f.sources > job.MostRanked:
		return nil, fmt.Errorf("--sources is %d; give from 1 to %d", f.sources, job.MostRanked)
	case f.certify < 0 || f.certify > 100:
		return nil, fmt.Errorf("--certify is %d; give from 1 to 100, or leave it out", f.certify)
	}
	cluster, done, err := f.open(ctx, cmd, root)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := openModel(ctx, path, cluster)
	if err != nil {
		return nil, err
	}
	judge, err := fit.JudgeOf(m)
	if err != nil {
		return nil, err
	}
	out := &evaluation{Model: path, Method: m.Method}
	if len(cluster.Manifest.Test) > 0 {
		held, err := cluster.Judge(ctx, judge.Predictor)
		if err != nil {
			return nil, err
		}
		out.Held = &held
		if out.HeldRisks, err = f.risks(ctx, cluster, path); err != nil {
			return nil, err
		}
		if out.Evaluation, err = f.judge(ctx, cluster, path); err != nil {
			return nil, err
		}
		if err := f.ranks(ctx, cluster, path, out.Evaluation); err != nil {
			return nil, err
		}
	}
	if f.certify > 0 {
		if out.Certificate, err = f.certificate(ctx, cmd, cluster, path, m); err != nil {
			return nil, err
		}
	}
	if f.exact {
		all, err := cluster.AllPairs(ctx, nil, judge.Predictor, graph.Universe{}, 0)
		if err != nil {
			return nil, err
		}
		out.All = &all
	}
	if out.Held == nil && out.All == nil && out.Certificate == nil {
		return nil, fmt.Errorf("%w: %s holds no pairs to judge by; give --exact for all pairs or --certify, or import "+
			"with a split", fit.ErrData, root)
	}
	return out, nil
}

// models opens those that are compared, without nodes.
func (f *evaluateFlags) models(ctx context.Context, cluster *job.Cluster, path string) (out []model.Model, err error) {
	for _, file := range append([]string{path}, f.against...) {
		m, err := openModel(ctx, file, cluster)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// ranks ranks held-out links by all models. A model that blocks cannot rank by, and shards without what that needs,
// are a warning.
func (f *evaluateFlags) ranks(ctx context.Context, cluster *job.Cluster, path string, e *evaluate.Evaluation) error {
	if f.rank == 0 {
		return nil
	}
	models, err := f.models(ctx, cluster, path)
	if err != nil {
		return err
	}
	found, err := cluster.Standings(ctx, models, job.StandingSettings{First: f.rank, Sources: f.sources, Seed: f.seed})
	if errors.Is(err, recommend.ErrModel) || errors.Is(err, shards.ErrContent) {
		e.Warnings = append(e.Warnings, "links are not ranked: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	return e.SetRanks(found.Models, found.Fields, found.Own, f.rank)
}

// certificate plants truths on the nodes of the shards.
func (f *evaluateFlags) certificate(ctx context.Context, cmd *cobra.Command, cluster *job.Cluster, path string,
	m model.Model) (*evaluate.Certificate, error) {
	s, err := evaluate.CertificateFor(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.Pairs, s.Repeats, s.Seed = int(min(cluster.Manifest.Extent.Pairs, int64(f.pairs))), f.certify, f.seed
	s.Progress = func(e progress.Event) {
		if !f.quiet {
			fmt.Fprintln(cmd.ErrOrStderr(), e.Message)
		}
	}
	return cluster.Certify(ctx, s, 0)
}

// risks judges all models by all held-out pairs.
func (f *evaluateFlags) risks(ctx context.Context, cluster *job.Cluster, path string) (out []modelRisks, err error) {
	models, err := f.models(ctx, cluster, path)
	if err != nil {
		return nil, err
	}
	var by []engine.Predictor
	for k, file := range append([]string{path}, f.against...) {
		m := models[k]
		by = append(by, engine.Predictor{Link: m.Link, LinkParams: m.LinkParams, Propensity: m.Propensity,
			PropensityParams: m.PropensityParams})
		out = append(out, modelRisks{Model: filepath.Base(file)})
	}
	found, err := cluster.HeldRisks(ctx, by, job.HeldSettings{Floor: f.floor, Draws: f.draws, Seed: f.seed})
	for k := range found {
		out[k].HeldRisks = found[k]
	}
	return out, err
}

// judge draws held-out pairs and judges all models by them.
func (f *evaluateFlags) judge(ctx context.Context, cluster *job.Cluster, path string) (*evaluate.Evaluation, error) {
	p, err := cluster.Held(ctx, f.pairs)
	if err != nil {
		return nil, err
	}
	m, err := openFor(ctx, path, cluster, p.Nodes)
	if err != nil {
		return nil, err
	}
	s := evaluate.EvaluationSettings{Name: filepath.Base(path), Panel: evaluate.PanelSettings{Floor: f.floor}}
	for _, other := range f.against {
		loaded, err := openFor(ctx, other, cluster, p.Nodes)
		if err != nil {
			return nil, err
		}
		s.Others, s.Names = append(s.Others, loaded), append(s.Names, filepath.Base(other))
	}
	e, err := evaluate.NewEvaluation(ctx, nil, m, p.Training(), s)
	if err != nil {
		return nil, err
	}
	e.Nodes, e.Dataset = cluster.Manifest.Nodes, cluster.Shards.Root
	return e, nil
}

// print writes the risks, with intervals where there are any.
func (e *evaluation) print(w io.Writer) error {
	line := func(name string, t engine.Means) {
		fmt.Fprintf(w, "%-15s %12d pairs  likelihood %.6g  mean ŷ %.6g  naive %.6g  w %.6g  pu %.6g  ap %.6g\n", name,
			t.Pairs, t.Likelihood, t.MeanLink, t.Naive, t.W, t.PU, t.AP)
	}
	if e.Held != nil {
		line("held-out pairs", e.Held.Means)
	}
	if e.All != nil {
		line("all pairs", *e.All)
	}
	if len(e.HeldRisks) > 0 {
		fmt.Fprintf(w, "\nby all %d held-out pairs, with π̂ and ŷ taken for known\n", e.HeldRisks[0].Pairs)
	}
	for _, r := range e.HeldRisks {
		r.print(w)
	}
	v := e.Evaluation
	if v == nil {
		printCertificate(w, e.Certificate)
		return nil
	}
	fmt.Fprintf(w, "\nby %d held-out pairs, %d of them linked\n", v.Pairs, v.Links)
	printRisks(w, v.Model, v.Panel, v.Observed)
	for k, o := range v.Others {
		printRisks(w, o.Model, o.Panel, o.Observed)
		fmt.Fprintf(w, "  %s\n", v.Decided(k).Summary)
	}
	printRanks(w, v)
	printCertificate(w, cmp.Or(e.Certificate, v.Certificate))
	for _, warning := range v.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return nil
}

func printCertificate(w io.Writer, c *evaluate.Certificate) {
	if c == nil {
		return
	}
	fmt.Fprintln(w, "\nthe certificate")
	for _, sentence := range c.Words() {
		fmt.Fprintf(w, "  %s\n", sentence)
	}
}

func (m modelRisks) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", m.Model)
	for _, r := range m.Risks {
		printRisk(w, risk.Label(r.Scheme), r.Risk, r.Against)
	}
	if m.AUC != nil {
		fmt.Fprintf(w, "  AUC of ŷ %.4f, within %.1g\n", *m.AUC, m.AUCWithin)
	}
}

// printRisk writes a risk with its interval, and by how much it is above that of the first model.
func printRisk(w io.Writer, label string, r evaluate.Band, above *evaluate.Band) {
	fmt.Fprintf(w, "  %-8s %11.4g  %.4g to %.4g", label, r.Value, r.Lower, r.Upper)
	if above != nil {
		fmt.Fprintf(w, "  above by %+.3g (%+.3g to %+.3g)", above.Value, above.Lower, above.Upper)
	}
	fmt.Fprintln(w)
}

// printRanks writes where held-out links come out among all candidates, as unseen evaluate does.
func printRanks(w io.Writer, e *evaluate.Evaluation) {
	if len(e.Ranks) == 0 {
		return
	}
	share := func(x *float64) string {
		if x == nil {
			return "–"
		}
		return fmt.Sprintf("%.1f", 100**x)
	}
	fmt.Fprintf(w, "\nranked among all candidates, for %d held-out nodes (in %%)\n", e.Ranks[0].Sources)
	row := func(name string, all []evaluate.Ranks) {
		for _, r := range all {
			fmt.Fprintf(w, "  %s by %s: recall@%d %s, of links between fields %s, MRR %s", name, r.By, r.K,
				share(r.Recall), share(r.CrossRecall), share(r.MRR))
			if d := r.Against; d != nil {
				fmt.Fprintf(w, "; recall above the first by %+.1f (%+.1f to %+.1f)", 100*d.Mean, 100*d.Lower,
					100*d.Upper)
			}
			fmt.Fprintln(w)
		}
	}
	row(e.Model, e.Ranks)
	for _, o := range e.Others {
		row(o.Model, o.Ranks)
	}
}

func printRisks(w io.Writer, name string, p *evaluate.Panel, o evaluate.Observed) {
	fmt.Fprintf(w, "%s\n", name)
	for _, r := range p.Risks {
		var above *evaluate.Band
		if d := r.Against; d != nil {
			above = &evaluate.Band{Value: d.Estimate, Lower: d.Lower, Upper: d.Upper}
		}
		printRisk(w, r.Label(), evaluate.Band{Value: r.Risk.Estimate, Lower: r.Risk.Lower, Upper: r.Risk.Upper}, above)
	}
	if o.AUC != nil {
		fmt.Fprintf(w, "  AUC of ŷ %.4f\n", *o.AUC)
	}
}
