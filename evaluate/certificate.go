package evaluate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// Certificate says how well a method finds the truth on a user's own graph: a truth is planted on its
// vectors and fields, links are drawn from that, the method is fitted to them as it was to the real
// ones, and what it found is held against what was planted. It certifies the method on such a graph; it
// cannot tell whether the real links obey the model.
type Certificate struct {
	Method     string `json:"method"`
	Nodes      int    `json:"nodes"`
	Pairs      int    `json:"pairs"`
	Seed       uint64 `json:"seed"`
	Repeats    int    `json:"repeats"`
	Identified int    `json:"identified"` // repeats in which the doctor called the scale of π̂ identified

	BaseRate    float64 `json:"baseRate"`    // planted: mean y
	OracleAUC   float64 `json:"oracleAUC"`   // planted: AUC of y itself
	AUC         float64 `json:"auc"`         // of ŷ against relevance
	Propensity  float64 `json:"propensity"`  // mean relative error of π̂ over the test pairs
	MeanLink    float64 `json:"meanLink"`    // mean ŷ / mean y
	Calibration float64 `json:"calibration"` // mean |ŷ − y|

	TrueRisk  float64           `json:"trueRisk"`
	NaiveRisk float64           `json:"naiveRisk"` // true risk of the naive model, for comparison
	Risks     []CertificateRisk `json:"risks"`
}

// CertificateRisk is how one estimator did.
type CertificateRisk struct {
	Scheme  string  `json:"scheme"`
	RMSE    float64 `json:"rmse"`    // against the true risk, over the repeats
	Covered int     `json:"covered"` // repeats in which its interval held the true risk
}

// CertificateSettings say what is planted. Zero means the default.
type CertificateSettings struct {
	Fit fit.Settings // of the method; its seed is used as it is
	// that are drawn for training, as many as the real ones were; 0 means 32,000, or a quarter of
	// all
	Pairs   int
	Tests   int            // that are drawn to judge by; 0 means 16,000, or a quarter of all
	Repeats int            // worlds; 0 means 3
	Plan    world.Scenario // base rate, oracle AUC and propensities; zero means those of world.Scenario
	Weights []float32      // direction of the planted w, such as a fitted model's; nil draws it
	Ages    []float32      // of the nodes, on which exposure may depend; nil means those of model.Ages
	Seed    uint64         // of the worlds

	Progress progress.Func
}

// CertificateFor returns the settings by which planted truths are fitted as a model was, in the direction of its
// weights.
func CertificateFor(m model.Model) (s CertificateSettings, err error) {
	if err := json.Unmarshal(m.Hyperparameters, &s.Fit); err != nil {
		return s, fmt.Errorf("the settings of its training are damaged: %w; fit it again", err)
	}
	if slices.Contains([]string{fit.ShownOnly, "dr"}, s.Fit.Method) {
		return s, fmt.Errorf("a certificate of the method %s: it learns from a log of exposure, and planted truths "+
			"have none; certify mle, or another method that does without", s.Fit.Method)
	}
	if m.Link.Kind() == "diagonal" {
		s.Weights = m.LinkParams[:len(m.LinkParams)-1]
	}
	return s, nil
}

// Certify plants, fits and compares.
func Certify(ctx context.Context, g *graph.Graph, s CertificateSettings) (*Certificate, error) {
	if s.Repeats == 0 {
		s.Repeats = 3
	}
	quarter := int(min(g.PairCount()/4, math.MaxInt32))
	if s.Pairs == 0 {
		s.Pairs = min(32_000, quarter)
	}
	if s.Tests == 0 {
		s.Tests = min(16_000, quarter)
	}
	if s.Repeats < 0 || s.Pairs < 0 || s.Tests < 0 {
		return nil, fmt.Errorf("a certificate of %d repeats with %d pairs and %d tests; none may be negative",
			s.Repeats, s.Pairs, s.Tests)
	}
	if err := checkDescribed(g); err != nil {
		return nil, err
	}
	if s.Ages == nil {
		s.Ages = model.Ages(g)
	}
	c := &Certificate{Method: s.Fit.Method, Nodes: g.Len(), Pairs: s.Pairs, Seed: s.Seed, Repeats: s.Repeats}
	errs := map[string][]float64{}
	covered := map[string]int{}
	for repeat := range s.Repeats {
		say := func(what string) {
			s.Progress.Report(progress.Event{Phase: "certificate", Done: int64(repeat), Of: int64(s.Repeats),
				Message: fmt.Sprintf("truth %d of %d: %s", repeat+1, s.Repeats, what)})
		}
		say("planting a truth")
		plan := s.Plan
		plan.Seed = s.Seed + uint64(repeat)
		plan.Threads = s.Fit.Threads
		w, err := world.Plant(ctx, g, s.Weights, plan)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		if err := c.trial(ctx, w, s, say, errs, covered); err != nil {
			return nil, fmt.Errorf("certificate, repeat %d: %w", repeat+1, err)
		}
	}
	n := float64(s.Repeats)
	for _, x := range []*float64{&c.BaseRate, &c.OracleAUC, &c.AUC, &c.Propensity, &c.MeanLink, &c.Calibration,
		&c.TrueRisk, &c.NaiveRisk} {
		*x /= n
	}
	for _, scheme := range risk.Panel() {
		var squares float64
		for _, e := range errs[scheme] {
			squares += e * e
		}
		c.Risks = append(c.Risks, CertificateRisk{Scheme: scheme, RMSE: math.Sqrt(squares / n),
			Covered: covered[scheme]})
	}
	return c, nil
}

// checkDescribed refuses a graph of which one side has no vectors: truths are planted on the likeness of two nodes.
func checkDescribed(g *graph.Graph) error {
	for k, nodes := range [][]int32{g.Sources(), g.Targets()} {
		side := []string{"source", "target"}[k]
		described := func(i int32) bool {
			row := make([]float32, g.Vectors().Dim())
			g.Vectors().Load(row, i)
			return slices.ContainsFunc(row, func(x float32) bool { return x != 0 })
		}
		if g.Vectors() == nil || !slices.ContainsFunc(nodes, described) {
			return fmt.Errorf("certificate: %w: no %s has a vector, and truths are planted on how alike the vectors "+
				"of two nodes are; give every %s a text and encode them", world.ErrGraph, side, side)
		}
	}
	return nil
}

// Words says what the certificate means.
func (c *Certificate) Words() []string {
	ap := c.Risks[slices.IndexFunc(c.Risks, func(r CertificateRisk) bool { return r.Scheme == "ap" })]
	truths := "truths"
	if c.Repeats == 1 {
		truths = "truth"
	}
	words := []string{
		fmt.Sprintf("On %d %s planted on these %d nodes, %s reached an AUC of %.3f where %.3f is the most, "+
			"and a true risk of %.3f where naive has %.3f.",
			c.Repeats, truths, c.Nodes, c.Method, c.AUC, c.OracleAUC, c.TrueRisk, c.NaiveRisk),
		fmt.Sprintf("Propensities were off by %.0f%% on average, mean ŷ by %.0f%%.", 100*c.Propensity,
			100*math.Abs(c.MeanLink-1)),
		fmt.Sprintf("R_AP was off by %.2g (root mean square); its interval contained the true risk %d of %d times.",
			ap.RMSE, ap.Covered, c.Repeats),
	}
	if c.Identified < c.Repeats {
		words = append(words, fmt.Sprintf("In %d of %d the scale of π̂ was not identified; with as many real "+
			"links it may not be identified either.", c.Repeats-c.Identified, c.Repeats))
	}
	return words
}

// trial fits one planted world and adds what it found.
func (c *Certificate) trial(ctx context.Context, w *world.World, s CertificateSettings, say func(string),
	errs map[string][]float64, covered map[string]int) error {
	train, err := w.Pairs(ctx, s.Pairs, world.Draw{})
	if err != nil {
		return err
	}
	test, err := w.Pairs(ctx, s.Tests, world.Draw{Part: 2})
	if err != nil {
		return err
	}
	problem := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs}
	problem.Nodes.Age = s.Ages
	say("fitting " + cmp.Or(s.Fit.Method, "bayes"))
	result, err := fit.Fit(ctx, problem, s.Fit)
	if err != nil {
		return err
	}
	c.Method = result.Settings.Method
	say("fitting naive")
	naive, err := fit.Fit(ctx, problem, fit.Settings{Method: "naive", Seed: s.Fit.Seed, Threads: s.Fit.Threads,
		Engine: s.Fit.Engine})
	if err != nil {
		return err
	}
	say("judging")
	judge := result.Judge()
	found, err := judge.Panel(ctx, sample.Evidence{Pairs: test.Pairs}, .01, nil)
	if err != nil {
		return err
	}
	beliefs, _, err := beliefsOf(ctx, judge, test.Pairs, nil)
	if err != nil {
		return err
	}
	naiveBeliefs, _, err := beliefsOf(ctx, naive.Judge(), test.Pairs, nil)
	if err != nil {
		return err
	}
	var truth, naiveTruth, mean, meanTruth, calibration, propensity float64
	scored, oracle := Scored{Linked: test.Relevant}, Scored{Linked: test.Relevant}
	n := float64(test.Pairs.Len())
	for k, b := range beliefs {
		t := test.Truth[k]
		truth += (t.Link*lossOf(b.LinkLogit()) + (1-t.Link)*lossOf(-b.LinkLogit())) / n
		z := naiveBeliefs[k].LinkLogit()
		naiveTruth += (t.Link*lossOf(z) + (1-t.Link)*lossOf(-z)) / n
		mean += b.Link() / n
		meanTruth += t.Link / n
		calibration += math.Abs(b.Link()-t.Link) / n
		propensity += math.Abs(b.Propensity()/t.Propensity-1) / n
		scored.Scores, oracle.Scores = append(scored.Scores, b.LinkLogit()), append(oracle.Scores, t.Link)
	}
	auc, err := scored.AUC()
	if err != nil {
		return err
	}
	best, err := oracle.AUC()
	if err != nil {
		return err
	}
	c.AUC += auc
	c.OracleAUC += best
	c.BaseRate += meanTruth
	c.MeanLink += mean / meanTruth
	c.Calibration += calibration
	c.Propensity += propensity
	c.TrueRisk += truth
	c.NaiveRisk += naiveTruth
	if result.Findings != nil && result.Findings.Class == fit.Identified {
		c.Identified++
	}
	for name, e := range found.Risks {
		errs[name] = append(errs[name], e.Plain-truth)
		if e.Lower <= truth && truth <= e.Upper {
			covered[name]++
		}
	}
	return nil
}

// lossOf is −log σ(z).
func lossOf(z float64) float64 {
	return math.Max(-z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
}
