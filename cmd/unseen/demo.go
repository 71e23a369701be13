package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/encode"
	"unseen/engine"
	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/loop"
	"unseen/model"
	"unseen/progress"
	"unseen/sample"
	"unseen/world"
)

// demoFlags is the command line of unseen demo.
type demoFlags struct {
	papers        int
	seed          uint64
	threads       int
	out           string
	quiet, asJSON bool
}

func newDemo() *cobra.Command {
	const fewest, most = 200, 20_000 // enough to learn from; still a matter of a minute
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Find what exposure hides, in a world whose truth is known",
		Long: `Generate a small world of papers with texts, in which everything is known: what
is relevant, what authors were shown, and what they cite as a result. Learn from
the citations alone with two methods: naive, which takes a missing citation for
irrelevant, and bayes, which also learns what was shown. Compare both with the
truth: how good they are, how good they look, which papers exposure hid, and
where each leads when it is trained on its own recommendations.

Writes a folder with a report to open in a browser, the models and the data. All
numbers are computed; the same seed gives the same numbers.`,
		Example: `  unseen demo
  unseen demo --papers 1000 --seed 7
  unseen demo --out elsewhere --json
  unseen demo shop`,
		Annotations: map[string]string{"also": "unseen demo [flags]"},
		Args:        noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.papers < fewest || f.papers > most:
				return usagef("--papers is %d; give from %d to %d", f.papers, fewest, most)
			case f.out == "":
				return usagef("--out is empty; give a folder, or leave it out for unseen-demo")
			}
			if err := os.MkdirAll(f.out, 0o755); err != nil {
				return usagef("--out: cannot create the folder: %v; give another", err)
			}
			if err := atomicfile.Writable(filepath.Join(f.out, "report.html")); err != nil {
				return &usageError{err}
			}
			t := newDisplay(cmd.ErrOrStderr(), f.quiet)
			d, err := runDemo(cmd.Context(), f, t)
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
	flags.IntVar(&f.papers, "papers", 2000, "papers in the world")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the world and of training")
	threadsFlag(cmd, &f.threads)
	flags.StringVar(&f.out, "out", "unseen-demo", "`folder` to write")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, nil, "papers", "seed", "threads")
	cmd.AddCommand(newDemoShop())
	return cmd
}

// demo is what unseen demo has to say.
type demo struct {
	Papers    int     `json:"papers"`
	Fields    int     `json:"fields"`
	Citations int     `json:"citations"` // seen
	Relevant  float64 `json:"relevant"`  // share of pairs: mean y
	Same      float64 `json:"shownSame"` // mean π of test pairs of one field
	Cross     float64 `json:"shownCross"`
	Pairs     int     `json:"pairs"` // learned from
	Seed      uint64  `json:"seed"`

	Recommenders []demoRecommender `json:"recommenders"` // naive, bayes
	Propensity   float64           `json:"propensityError"`
	Findings     *fit.Findings     `json:"findings"`
	Source       demoPaper         `json:"source"`
	Hidden       []demoHidden      `json:"hidden"`
	Loop         []demoRound       `json:"loop"`
	LoopTruth    float64           `json:"loopTruth"`
	Files        []string          `json:"files"`

	warnings         []string
	evaluation       *evaluate.Evaluation
	panels           []*evaluate.Panel // of it, by recommender
	roc, calibration []figure.Series   // by recommender
	learned          [][]float64       // π̂ by field
	planted          [][]float64       // π
	labels           []string
}

// demoRecommender is a fitted model beside the truth.
type demoRecommender struct {
	Method   string       `json:"method"`
	MeanLink float64      `json:"meanLink"`
	AUC      float64      `json:"auc"`
	Recall   float64      `json:"recall"` // of relevant pairs, at ŷ ≥ ½
	Risk     float64      `json:"trueRisk"`
	Judged   []demoJudged `json:"judged"`
	result   *fit.Result
	logits   []float32 // of the test pairs
}

// demoJudged is what one estimator says of it.
type demoJudged struct {
	Name     string  `json:"name"`
	Estimate float64 `json:"estimate"`
	Lower    float64 `json:"lower"`
	Upper    float64 `json:"upper"`
	// of naive: that the 95% interval of the difference from bayes has no 0 in it
	Clear bool `json:"clear,omitempty"`
}

type demoPaper struct {
	Title string `json:"title"`
	Field string `json:"field"`
}

// demoHidden is a paper that exposure hid.
type demoHidden struct {
	demoPaper
	Seen       int     `json:"seenRank"` // by π̂ŷ
	Naive      int     `json:"naiveRank"`
	Corrected  int     `json:"correctedRank"`
	Link       float64 `json:"link"`       // ŷ
	Propensity float64 `json:"propensity"` // π̂
	Truth      float64 `json:"truth"`      // y
}

// demoRound is the share of recommendations in the reader's own field.
type demoRound struct {
	Round     int     `json:"round"`
	Naive     float64 `json:"naive"`
	Corrected float64 `json:"corrected"`
}

// runDemo makes the world, learns, compares and writes the folder.
func runDemo(ctx context.Context, f demoFlags, t *display) (*demo, error) {
	t.say("making a world of %s papers", amount.Text(f.papers))
	w, texts, err := demoWorld(ctx, f)
	if err != nil {
		return nil, err
	}
	g := w.Graph()
	origin := sample.Origin{Plan: sample.Plan{Split: sample.Whole, PerLink: 4, Seed: f.seed}}
	drawn, err := sample.Prepare(ctx, g, sample.Options{Origin: origin, Threads: f.threads})
	if err != nil {
		return nil, err
	}
	problem := drawn.Problem
	d := &demo{Papers: g.Len(), Citations: g.LinkCount(), Pairs: problem.Train.Len(), Seed: f.seed}
	older := int64(g.Len()) * int64(g.Len()-1) / 2
	test, err := w.Pairs(ctx, int(min(200_000, older/3)), world.Draw{Part: 2, Older: true})
	if err != nil {
		return nil, err
	}
	d.describe(g, test)
	for _, method := range []string{"naive", "bayes"} {
		r, err := fit.Fit(ctx, problem, fit.Settings{Method: method, Seed: f.seed, Threads: f.threads,
			Progress: progress.Func(t.report).Under(method)})
		if err != nil {
			return nil, err
		}
		one := demoRecommender{Method: method, result: r}
		if one.logits, _, err = r.Judge().Logits(ctx, test.Pairs); err != nil {
			return nil, err
		}
		d.Recommenders = append(d.Recommenders, one)
	}
	bayes := d.Recommenders[1].result
	d.Findings = bayes.Findings
	for _, warning := range bayes.Warnings {
		if !slices.Contains(d.Findings.Verdict, warning.Message) { // the doctor says it already
			d.warnings = append(d.warnings, warning.Message)
		}
	}
	m, err := bayes.Model()
	if err != nil {
		return nil, err
	}
	naive, err := d.Recommenders[0].result.Model()
	if err != nil {
		return nil, err
	}
	t.say("judging both")
	// By pairs that were drawn apart: models fitted to the whole network leave no other.
	evidence := sample.Evidence{Pairs: test.Pairs}
	d.evaluation, err = evaluate.NewEvaluation(ctx, g, m, evidence, evaluate.EvaluationSettings{
		Panel: evaluate.PanelSettings{Floor: .01, Threads: f.threads}, Others: []model.Model{naive},
		Names: []string{"naive"}, Engine: engine.CPU{Threads: f.threads},
	})
	if err != nil {
		return nil, err
	}
	d.panels = []*evaluate.Panel{d.evaluation.Others[0].Panel, d.evaluation.Panel}
	if err := d.judge(test); err != nil {
		return nil, err
	}
	if err := d.compareExposure(ctx, w, bayes); err != nil {
		return nil, err
	}
	if err := d.findHidden(ctx, w); err != nil {
		return nil, err
	}
	t.say("forecasting the loop")
	if err := d.forecast(ctx, m, w, f); err != nil {
		return nil, err
	}
	t.say("writing %s", f.out)
	content := dataset.Content{Graph: g, Text: func(i int32) (string, error) { return texts.bodies[i], nil },
		Encoder: &dataset.StoredEncoder{Kind: encode.Kind, Write: texts.encoder.Write}}
	return d, d.write(ctx, f, content, problem.Origin)
}

// demoTexts are what the papers say, and what makes vectors of it.
type demoTexts struct {
	bodies  []string
	encoder *encode.LSA
}

// Numbers of a vector, and how far the weights of relevance differ: it is nearly how alike texts are.
const demoDim, demoSpread = 64, .3

// demoWorld writes papers, plants a truth on what they say, and draws their citations.
func demoWorld(ctx context.Context, f demoFlags) (*world.World, *demoTexts, error) {
	// fields of study of the paper's shares, but for those too small to learn anything of
	fields := world.FieldsOfStudy()
	var all float64
	for _, field := range fields {
		all += field.Share
	}
	fields = slices.DeleteFunc(fields, func(field world.Field) bool { return field.Share < .01*all })
	g, bodies, err := world.Papers(world.PaperSettings{Nodes: f.papers, Fields: fields, Seed: f.seed})
	if err != nil {
		return nil, nil, err
	}
	var texts encode.TextList
	for i, body := range bodies {
		texts = append(texts, encode.Text{Title: g.Title(int32(i)), Body: body})
	}
	encoder, _, err := encode.Fit(ctx, texts, encode.Settings{Dim: demoDim, Threads: f.threads})
	if err != nil {
		return nil, nil, err
	}
	vectors, err := graph.NewVectors(g.Len(), demoDim)
	if err == nil {
		_, err = encoder.EncodeAll(ctx, texts, vectors, f.threads, nil)
	}
	if err == nil {
		g, err = g.WithVectors(vectors)
	}
	if err != nil {
		return nil, nil, err
	}
	weights, rng := make([]float32, demoDim), rand.New(rand.NewPCG(f.seed, 0xde30))
	for d := range weights {
		weights[d] = float32(1 + demoSpread*rng.NormFloat64())
	}
	w, err := world.Plant(ctx, g, weights, world.Scenario{BaseRate: .01, OracleAUC: .985, Seed: f.seed,
		Threads: f.threads})
	if err == nil {
		w, err = w.Linked(ctx)
	}
	return w, &demoTexts{bodies, encoder}, err
}

// describe says what the world is like.
func (d *demo) describe(g *graph.Graph, test *world.TruePairs) {
	for f := range g.FieldCount() {
		if name := g.FieldName(uint16(f)); name != "" && uint16(f) != graph.UnknownField {
			d.labels = append(d.labels, name)
		}
	}
	d.Fields = len(d.labels)
	var same, cross, count float64
	for k, truth := range test.Truth {
		d.Relevant += truth.Link / float64(len(test.Truth))
		if g.Field(test.Pairs.Source[k]) == g.Field(test.Pairs.Target[k]) {
			same += truth.Propensity
			count++
		} else {
			cross += truth.Propensity
		}
	}
	d.Same, d.Cross = same/count, cross/(float64(len(test.Truth))-count)
}

// judge holds both recommenders against the truth and against what the estimators say.
func (d *demo) judge(test *world.TruePairs) error {
	for i := range d.Recommenders {
		r := &d.Recommenders[i]
		scored := evaluate.Scored{Linked: test.Relevant}
		var risk, mean float64
		n := float64(len(r.logits))
		for k, z := range r.logits {
			z := float64(z)
			y := 1 / (1 + math.Exp(-z))
			softplus := math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
			risk += (softplus - test.Truth[k].Link*z) / n
			mean += y / n
			scored.Scores = append(scored.Scores, y)
		}
		r.Risk, r.MeanLink = risk, mean
		var err error
		if r.AUC, err = scored.AUC(); err != nil {
			return err
		}
		confusion, err := scored.ConfusionAt(.5)
		if err != nil {
			return err
		}
		if r.Recall, err = confusion.Recall(); err != nil {
			return err
		}
		roc := figure.Series{Name: r.Method}
		x, y, err := scored.ROC()
		if err != nil {
			return err
		}
		few := evaluate.Line{X: x, Y: y}.Thinned()
		roc.X, roc.Y = few.X, few.Y
		calibration := figure.Series{Name: r.Method}
		if calibration.X, calibration.Y, err = scored.Calibration(200); err != nil {
			return err
		}
		d.roc, d.calibration = append(d.roc, roc), append(d.calibration, calibration)
		for _, row := range d.panels[i].Risks {
			one := demoJudged{Name: row.Label(), Estimate: row.Risk.Interval.Estimate, Lower: row.Risk.Lower,
				Upper: row.Risk.Upper}
			if against := row.Against; against != nil {
				one.Clear = against.Lower > 0 || against.Upper < 0
			}
			r.Judged = append(r.Judged, one)
		}
	}
	return nil
}

// compareExposure holds π̂ against π.
func (d *demo) compareExposure(ctx context.Context, w *world.World, r *fit.Result) error {
	g := w.Graph()
	var cells [][2]uint16
	for source := range uint16(g.FieldCount()) {
		for target := range uint16(g.FieldCount()) {
			if source != graph.UnknownField && target != graph.UnknownField {
				cells = append(cells, [2]uint16{source, target})
			}
		}
	}
	learned, err := engine.FieldExposure(ctx, engine.CPU{}, r.Judge().Predictor, model.NodesOf(g), cells)
	if err != nil {
		return err
	}
	var planted []float64
	for k, cell := range cells {
		planted = append(planted, w.Propensity(cell[0], cell[1]))
		d.Propensity += math.Abs(learned[k]/planted[k]-1) / float64(len(cells))
	}
	fields := g.FieldCount() - 1 // without the unknown one
	d.learned, d.planted = slices.Collect(slices.Chunk(learned, fields)), slices.Collect(slices.Chunk(planted, fields))
	return nil
}

// Papers that a hidden one is looked for among: the newest, who have most to cite.
const (
	demoReaders = 300
	demoList    = 10 // recommendations to each
	demoShown   = 5
	demoSure    = .3 // the least ŷ of what is shown
)

// findHidden looks for what exposure hides: for each of the newest papers, those of other fields
// that are among the ten with the highest ŷ and not among the ten with the highest π̂ŷ, and that
// the paper does not cite. The paper with most to gain is shown.
func (d *demo) findHidden(ctx context.Context, w *world.World) error {
	g := w.Graph()
	sequence := g.Order().Sequence
	var best []demoHidden
	bestGain := 0.
	for _, i := range sequence[max(len(sequence)-demoReaders, 1):] {
		if err := ctx.Err(); err != nil {
			return err
		}
		var candidates []int32
		for _, j := range sequence[:g.Order().Rank[i]] {
			if !g.HasLink(i, j) {
				candidates = append(candidates, j)
			}
		}
		naive, _, _ := ranking(d.Recommenders[0].result, i, candidates)
		corrected, seen, chances := ranking(d.Recommenders[1].result, i, candidates)
		var hidden []demoHidden
		for k, j := range candidates {
			if corrected[k] > demoList || seen[k] <= demoList || chances[k].link < demoSure ||
				g.Field(i) == g.Field(j) {
				continue
			}
			hidden = append(hidden, demoHidden{
				demoPaper: demoPaper{g.Title(j), g.FieldName(g.Field(j))}, Seen: seen[k], Naive: naive[k],
				Corrected: corrected[k], Link: chances[k].link, Propensity: chances[k].shown, Truth: w.Truth(i, j).Link,
			})
		}
		slices.SortFunc(hidden, func(a, b demoHidden) int { return cmp.Compare(a.Corrected, b.Corrected) })
		hidden = hidden[:min(len(hidden), demoShown)]
		gain := 0.
		for _, h := range hidden {
			gain += math.Log(float64(h.Seen) / float64(h.Corrected))
		}
		if gain > bestGain {
			best, bestGain = hidden, gain
			d.Source = demoPaper{g.Title(i), g.FieldName(g.Field(i))}
		}
	}
	d.Hidden = best
	return nil
}

// chances are ŷ and π̂ of a pair.
type chances struct{ link, shown float64 }

// ranking returns the places of the candidates by ŷ and by π̂ŷ, from 1, and both themselves. Of
// equals the older is first.
func ranking(r *fit.Result, source int32, candidates []int32) (byLink, bySeen []int, all []chances) {
	z, s := make([]float32, len(candidates)), make([]float32, len(candidates))
	batch := model.Batch{Sources: slices.Repeat([]int32{source}, len(candidates)), Targets: candidates}
	r.Judge().Predictor.Logits(z, s, batch)
	sigmoid := func(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }
	for k := range candidates {
		all = append(all, chances{sigmoid(z[k]), sigmoid(s[k])})
	}
	places := func(score func(k int) float64) []int {
		order := make([]int, len(z))
		for k := range order {
			order[k] = k
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score(b), score(a)) })
		ranks := make([]int, len(z))
		for place, k := range order {
			ranks[k] = place + 1
		}
		return ranks
	}
	return places(func(k int) float64 { return float64(z[k]) }),
		places(func(k int) float64 { return all[k].link * all[k].shown }), all
}

// forecast says where recommendations would go, field by field, and all in all.
func (d *demo) forecast(ctx context.Context, m model.Model, w *world.World, f demoFlags) error {
	forecast, err := loop.NewForecast(ctx, m, w.Graph(), loop.ForecastSettings{Rounds: 10, Truth: w.Truth, Seed: f.seed,
		Threads: f.threads})
	if err != nil {
		return err
	}
	d.warnings = append(d.warnings, forecast.Warnings...)
	d.Loop = make([]demoRound, forecast.Settings.Rounds)
	var nodes float64
	for _, field := range forecast.Fields {
		nodes += float64(field.Nodes)
	}
	for _, field := range forecast.Fields {
		share := float64(field.Nodes) / nodes
		for t := range d.Loop {
			d.Loop[t].Round = field.Naive[t].Round
			d.Loop[t].Naive += share * field.Naive[t].Share
			d.Loop[t].Corrected += share * field.Corrected[t].Share
		}
		if field.Truth == nil {
			return fmt.Errorf("demo: the forecast of %s knows no truth", field.Name)
		}
		d.LoopTruth += share * *field.Truth
	}
	return nil
}
