package main

import (
	"context"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"unseen/risk"
)

func newDemo() *cobra.Command {
	const fewest, most = 10, 200_000 // enough to learn from; still a matter of seconds
	var papers int
	var seed uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what exposure hides, and its correction, on simulated links",
		Long: `Simulate the citations of a machine-learning author who would cite papers of two
fields equally often but is shown one field less. Then judge two recommenders,
one that takes the observed links at face value and one that corrects for
exposure, by the naive risk, by three corrected risks, and by the truth.

Every figure is computed from the draws; the same seed draws the same.`,
		Example: `  unseen demo
  unseen demo --papers 1000 --seed 7
  unseen demo --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if papers < fewest || papers > most {
				return usagef("--papers is %d; give from %d to %d", papers, fewest, most)
			}
			d, err := runDemo(cmd.Context(), papers, seed)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), d)
			}
			return d.print(cmd.OutOrStdout())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().IntVar(&papers, "papers", 100_000, "papers to draw in each field")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the random draws")
	jsonFlag(cmd, &asJSON)
	for _, number := range []string{"papers", "seed"} {
		if err := cmd.RegisterFlagCompletionFunc(number, cobra.NoFileCompletions); err != nil {
			panic(err) // only if the flag does not exist
		}
	}
	return cmd
}

// demo is the worked example: its world, two recommenders learned from what is seen of it, and what
// each risk says of them.
type demo struct {
	Papers       int           `json:"papers_per_field"`
	Seed         uint64        `json:"seed"`
	Level        float64       `json:"level"` // of the intervals
	Fields       []field       `json:"fields"`
	Recommenders []recommender `json:"recommenders"`
	Judges       []judge       `json:"judges"`
}

// field is one field of study as seen by the author: the probabilities, and the shares drawn.
type field struct {
	Name       string  `json:"name"`
	Exposure   float64 `json:"exposure"`  // π
	Relevance  float64 `json:"relevance"` // y
	Shown      float64 `json:"share_shown"`
	Relevant   float64 `json:"share_relevant"`
	Linked     float64 `json:"share_linked"`
	linkedDraw []bool
}

// recommender believes one link probability ŷ per field.
type recommender struct {
	Name string    `json:"name"`
	Link []float64 `json:"link_probability_by_field"`
}

// judge is a risk's opinion of the recommenders.
type judge struct {
	Name     string    `json:"name"`
	Scheme   string    `json:"scheme"`
	Verdicts []verdict `json:"verdicts"` // by recommender
	Prefers  string    `json:"prefers"`  // the recommender of lower risk
}

type verdict struct {
	Risk     float64  `json:"risk"`
	Lower    float64  `json:"lower"`
	Upper    float64  `json:"upper"`
	Warnings []string `json:"warnings,omitempty"`
}

func runDemo(ctx context.Context, papers int, seed uint64) (*demo, error) {
	d := &demo{
		Papers: papers, Seed: seed, Level: .95,
		Fields: []field{{Name: "ML", Exposure: .9, Relevance: .8}, {Name: "Physics", Exposure: .6, Relevance: .8}},
		Judges: []judge{
			{Name: "naive", Scheme: "naive"},
			{Name: "R_w", Scheme: "w"},
			{Name: "R_PU", Scheme: "pu"},
			{Name: "R_AP", Scheme: "ap"},
			{Name: "truth", Scheme: "true"},
		},
	}
	// Exposure and relevance are independent, so each has a stream of its own.
	exposure, relevance := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	for i := range d.Fields {
		d.Fields[i].draw(papers, exposure, relevance)
	}

	faceValue, corrected := recommender{Name: "face value"}, recommender{Name: "corrected"}
	for _, f := range d.Fields {
		// Laplace's rule keeps ŷ off 0 and 1, where the log-loss is infinite.
		n := float64(papers)
		seen := (f.Linked*n + 1) / (n + 2)
		faceValue.Link = append(faceValue.Link, seen)
		corrected.Link = append(corrected.Link, min(seen/f.Exposure, (n+1)/(n+2)))
	}
	d.Recommenders = []recommender{faceValue, corrected}

	for _, r := range d.Recommenders {
		if err := d.assess(ctx, r); err != nil {
			return nil, err
		}
	}
	for i := range d.Judges {
		j := &d.Judges[i]
		switch first, second := j.Verdicts[0].Risk, j.Verdicts[1].Risk; {
		case first < second:
			j.Prefers = faceValue.Name
		case first > second:
			j.Prefers = corrected.Name
		default: // a draw so small that both learned the same
			j.Prefers = "neither"
		}
	}
	return d, nil
}

// draw decides for each paper of the field whether it is shown (a), relevant (o′) and so linked (o).
func (f *field) draw(papers int, exposure, relevance *rand.Rand) {
	var shown, relevant, linked int
	f.linkedDraw = make([]bool, papers)
	for i := range f.linkedDraw {
		a, wouldLink := exposure.Float64() < f.Exposure, relevance.Float64() < f.Relevance
		f.linkedDraw[i] = a && wouldLink
		shown, relevant, linked = shown+count(a), relevant+count(wouldLink), linked+count(a && wouldLink)
	}
	n := float64(papers)
	f.Shown, f.Relevant, f.Linked = float64(shown)/n, float64(relevant)/n, float64(linked)/n
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// assess adds every risk's verdict on a recommender. The k-th papers of all fields make one cluster:
// the fields are of fixed size, so only chance within them is uncertain.
func (d *demo) assess(ctx context.Context, r recommender) error {
	pairs := make([]risk.Pair, 0, len(d.Fields)*d.Papers)
	for i, f := range d.Fields {
		belief, err := risk.FromProbabilities(r.Link[i], f.Exposure)
		if err != nil {
			return err
		}
		for k, linked := range f.linkedDraw {
			seen := risk.Observation{Linked: linked}.WithRelevance(f.Relevance)
			pairs = append(pairs, risk.Pair{Observation: seen, Belief: belief, Weight: 1, Source: k})
		}
	}
	for i := range d.Judges {
		if err := ctx.Err(); err != nil {
			return err
		}
		scheme, err := risk.Lookup(d.Judges[i].Scheme)
		if err != nil {
			return err
		}
		estimator := risk.Estimator{Scheme: scheme, Loss: risk.Log{}}
		estimate, err := estimator.Estimate(pairs)
		if err != nil {
			return err
		}
		sample, err := estimator.Sample(pairs)
		if err != nil {
			return err
		}
		interval, err := sample.Normal(d.Level, risk.Nuisance{})
		if err != nil {
			return err
		}
		v := verdict{Risk: estimate.Value, Lower: interval.Lower, Upper: interval.Upper}
		for _, w := range estimate.Warnings {
			v.Warnings = append(v.Warnings, w.String())
		}
		d.Judges[i].Verdicts = append(d.Judges[i].Verdicts, v)
	}
	return nil
}
