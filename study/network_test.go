package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"unseen/evaluate"
	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/sample"
	"unseen/world"
)

// linkedWorld is a network whose links are drawn from a known truth.
func linkedWorld(t *testing.T, nodes int) RealNetwork {
	t.Helper()
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: nodes, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .05, Seed: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if w, err = w.Linked(ctx); err != nil {
		t.Fatal(err)
	}
	return RealNetwork{Name: "world", Graph: w.Graph()}
}

func TestTables3And4(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestStudies has the same goroutines")
	ctx := context.Background()
	n := linkedWorld(t, 240)
	o := Options{Seeds: Seeds(1, 2), Networks: []RealNetwork{n}, Threads: 1}
	results, err := Run(ctx, []string{"table3", "table4"}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if err := r.check(); err != nil {
			t.Error(err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}

	classified := results[0].Rows.([]*Table3Row)
	if want := len(o.Seeds) * len(networkMethods); len(classified) != want {
		t.Fatalf("%d trainings, want %d", len(classified), want)
	}
	for _, c := range classified {
		if !(c.AUC > .5 && c.AUC <= 1) && c.Method != cosine {
			t.Errorf("%s: AUC %v", c.Method.Name, c.AUC)
		}
		if math.IsNaN(float64(c.SeenAUC)) == c.Method.models() {
			t.Errorf("%s: the AUC of π̂ŷ is %v", c.Method.Name, c.SeenAUC)
		}
		if c.Method.models() && !(c.Calibration > .5 && c.Calibration < 2) {
			t.Errorf("%s: sees %v times the links that there are", c.Method.Name, c.Calibration)
		}
	}

	rows := results[1].Rows.(*Table4Numbers)
	if want := len(o.Seeds) * len(table4Lines(n)); len(rows.Ranks) != want {
		t.Fatalf("%d rankings, want %d", len(rows.Ranks), want)
	}
	if want := len(table4Lines(n)) - 1; len(rows.Compared) != want {
		t.Fatalf("%d comparisons, want %d", len(rows.Compared), want)
	}
	naives := table4RowsOf(rows.Ranks, n, naive, evaluate.ByRelevance)
	for _, c := range rows.Compared {
		own := table4RowsOf(rows.Ranks, n, c.Method, c.By)
		for k, d := range c.Differences {
			if d.Lower > d.Upper || d.Sources == 0 {
				t.Errorf("%s, %s: %+v", c.name(), table4Columns[k].Name, d)
			}
		}
		// each source counts once however often it was tested, so that the two agree only roughly
		if gain := float64(own[0].Values[atRecall]+
			own[1].Values[atRecall]-naives[0].Values[atRecall]-naives[1].Values[atRecall]) / 2; math.Abs(
			gain-c.Differences[atRecall].Mean) > .05 {
			t.Errorf("%s: recall differs by %v, the comparison says %v", c.name(), gain, c.Differences[atRecall].Mean)
		}
		if c.Method == bonus && !(c.Differences[atCrossShare].Lower > 0) {
			t.Errorf("a bonus for other fields gave %+v more of them", c.Differences[atCrossShare])
		}
		if c.Method == bayes && c.By == evaluate.BySeen && !(c.Differences[atCrossShare].Upper < 0) {
			t.Errorf("ranking by π̂ŷ, where π is .85 within a field and .2 between two, gave %+v more of other fields",
				c.Differences[atCrossShare])
		}
	}

	o.Threads = 3
	again, err := Run(ctx, []string{"table4"}, o)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again[0].Rows.(*Table4Numbers).Compared, rows.Compared) {
		t.Error("other threads, other numbers")
	}
}

// Studies of real networks need them, with names of their own and where asked with a log.
func TestNetworkOptions(t *testing.T) {
	t.Parallel()
	n := linkedWorld(t, 120)
	other := n
	other.Name = "other"
	for _, c := range []struct {
		study    string
		networks []RealNetwork
		says     string
	}{
		{"table4", nil, "needs a network"},
		{"clicks", []RealNetwork{n}, "logged"},
		{"table3", []RealNetwork{n, n}, "two networks"},
		{"table1", []RealNetwork{n, other}, "give only one"},
	} {
		if _, err := Run(t.Context(), []string{c.study}, Options{Networks: c.networks}); !errors.Is(err, ErrOption) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s on %d networks: %v, want %q", c.study, len(c.networks), err, c.says)
		}
	}
	all, err := runnable(All(), []string{"all"}, Options{Networks: []RealNetwork{n, other}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "table3 table4 refresh certificate" {
		t.Errorf("of all, two networks without a log can do %s", got)
	}
	all, err = runnable(All(), []string{"all"}, Options{})
	for _, s := range all {
		if s.real {
			t.Errorf("%s runs without a network", s.Name)
		}
	}
	if err != nil || len(all) == 0 {
		t.Errorf("%d studies need no network (%v)", len(all), err)
	}
}

// A graph whose links all lead back in time is split by time, one whose links run both ways at random.
func TestNetworkPlan(t *testing.T) {
	t.Parallel()
	ordered := graphOf(t, []string{"a", "b", "c"}, [2]string{"c", "b"}, [2]string{"b", "a"})
	if p, _ := (RealNetwork{Graph: ordered}).plan(1); p.Split != sample.ByOrder {
		t.Errorf("links that can be put in order are split %q", p.Split)
	}
	mutual := graphOf(t, []string{"a", "b"}, [2]string{"a", "b"}, [2]string{"b", "a"})
	if p, _ := (RealNetwork{Graph: mutual}).plan(7); p.Split != sample.AtRandom || p.Seed != 7 {
		t.Errorf("links without direction are split %q", p.Split)
	}
	if p, _ := (RealNetwork{Graph: ordered, Plan: &sample.Plan{PerLink: 9}}).plan(5); p.PerLink != 9 || p.Seed != 5 {
		t.Errorf("the caller's plan became %+v", p)
	}
	log := &sample.ExposureLog{Source: []int32{1}, Target: []int32{0}, Exposed: []bool{true}, Linked: []bool{true}}
	if n := (RealNetwork{Graph: ordered, Log: log}); n.sample() != nil || len(n.methods()) != len(networkMethods) {
		t.Error("a list of what was shown passed for a sample of pairs")
	}
	log.Exposed[0], log.Linked[0] = false, false
	if n := (RealNetwork{Graph: ordered, Log: log}); n.sample() == nil || len(n.methods()) != len(networkMethods)+1 {
		t.Error("a sample of pairs was not taken for one")
	}
}

func graphOf(t *testing.T, nodes []string, links ...[2]string) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for _, id := range nodes {
		if _, err := b.AddNode(graph.Node{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range links {
		if err := b.AddLink(l[0], l[1]); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A study cuts a network as fit does, also where many links run against time.
func TestStudyCutsAsFit(t *testing.T) {
	t.Parallel()
	for percent, want := range map[int]sample.SplitKind{41: sample.AtRandom, 10: sample.ByOrder} {
		g := againstTime(t, percent)
		plan, _ := sample.PlanFor(g) // which fit follows
		plan.Seed = 3
		studied, _ := RealNetwork{Graph: g}.plan(3)
		var prepared [2]*sample.Prepared
		for k, p := range []sample.Plan{plan, studied} {
			var err error
			prepared[k], err = sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: p}})
			if err != nil {
				t.Fatal(err)
			}
		}
		fitted, other := prepared[0], prepared[1]
		if plan.Split != want || fitted.Links != other.Links ||
			fitted.Problem.Checksum() != other.Problem.Checksum() {
			t.Errorf("%d%% against time: fit cuts %q and learns from %+v links, study %q and %+v", percent, plan.Split,
				fitted.Links, studied.Split, other.Links)
		}
	}
}

// againstTime is a graph with times, in which this percentage of the links leads to a newer node.
func againstTime(t *testing.T, percent int) *graph.Graph {
	t.Helper()
	const n = 200
	rng := rand.New(rand.NewPCG(1, 1))
	var b graph.Builder
	for i := range n {
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint(i % 3),
			Time: time.Date(2000, 1, 1+i, 0, 0, 0, 0, time.UTC)}); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 1000 {
		newer := int32(1 + rng.IntN(n-1))
		older := int32(rng.IntN(int(newer)))
		if k%100 < percent {
			newer, older = older, newer
		}
		if err := b.AddLinkIndex(newer, older); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v, err := graph.NewVectors(n, 2)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = g.WithVectors(v); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestCertificateStudy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	n := linkedWorld(t, 150)
	results, err := Run(context.Background(), []string{"certificate"},
		Options{Seeds: Seeds(1, 1), Networks: []RealNetwork{n}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := results[0].check(); err != nil {
		t.Error(err)
	}
	for _, c := range results[0].Rows.([]*CertificateRow) {
		if !(c.OracleAUC > .9) || !(c.TrueRisk < c.NaiveRisk) {
			t.Errorf("%s: %+v", c.Method.Name, c.Certificate)
		}
	}
}

// Where exposure is drawn by field and logged, the log tells its scale, and ŷ is judged among what was shown.
func TestClicks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: 200, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, Seed: 3}})
	if err != nil {
		t.Fatal(err)
	}
	n := RealNetwork{Name: "pages", Graph: w.Graph(), Log: &sample.ExposureLog{}}
	pairs, err := w.Pairs(ctx, 200*199, world.Draw{Parts: 1})
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range pairs.Pairs.Source {
		if !pairs.Exposed[k] {
			continue // what is not in the log of a page was not shown there
		}
		n.Log.Source, n.Log.Target = append(n.Log.Source, i), append(n.Log.Target, pairs.Pairs.Target[k])
		n.Log.Exposed, n.Log.Linked = append(n.Log.Exposed, true), append(n.Log.Linked, pairs.Pairs.Linked[k])
	}
	results, err := Run(ctx, []string{"clicks"}, Options{Seeds: Seeds(1, 1), Networks: []RealNetwork{n}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := results[0].check(); err != nil {
		t.Error(err)
	}
	rows := results[0].Rows.([]*ClicksRow)
	if len(rows) != len(clicksMethods) {
		t.Fatalf("%d trainings", len(rows))
	}
	for _, c := range rows {
		if !(c.AUC > .8) || !(c.Within > .8) {
			t.Errorf("%s: AUC %v, within pages %v", c.Method.Name, c.AUC, c.Within)
		}
		if strings.HasSuffix(c.Method.Name, "logged") {
			if !(c.PropensityError < .1 && c.Scale > .9 && c.Scale < 1.1 && c.Correlation > .95) {
				t.Errorf("%s: π̂ off by %v, scale %v, correlation %v", c.Method.Name, c.PropensityError, c.Scale,
					c.Correlation)
			}
			if c.Method == loggedBayes && !(math.Abs(float64(c.LogTest)) < 10) {
				t.Errorf("the log refutes the truth: z = %v", c.LogTest)
			}
			if d := math.Abs(float64(c.Estimates.AP - c.Risk)); !(d < math.Abs(float64(c.Estimates.Naive-c.Risk))) ||
				!(c.RiskLower < c.Risk && c.Risk < c.RiskUpper) {
				t.Errorf("%s: risk %v (%v to %v), estimates %+v", c.Method.Name, c.Risk, c.RiskLower, c.RiskUpper,
					c.Estimates)
			}
		}
	}
}
