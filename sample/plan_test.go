package sample

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"unseen/graph"
	"unseen/risk"
)

// datedGraph is a small graph with times, in which every node links to some older ones.
func datedGraph(t *testing.T, n int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	r := rand.New(rand.NewPCG(3, 3))
	for i := range n {
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint(i % 3),
			Time: time.Date(2000+i, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if i > 3 {
				if err := b.AddLinkIndex(int32(i), int32(r.IntN(i))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v := must(graph.NewVectors(n, 2))(t)
	for i := range n {
		if err := v.Set(int32(i), []float32{1, float32(i)}); err != nil {
			t.Fatal(err)
		}
	}
	return must(g.WithVectors(v))(t)
}

// prepare follows a plan.
func prepare(t *testing.T, g *graph.Graph, p Plan, log *ExposureLog) (*Prepared, error) {
	return Prepare(t.Context(), g, Options{Origin: Origin{Plan: p}, Log: log})
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// More than a fifth of the links against time, and not a fifth, makes the split random. Without times the share of
// links on circles decides.
func TestPlanFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		against, both int // of 100 links: from the older node to the newer one; in both directions, without times
		want          SplitKind
		why           string
	}{
		{0, 0, ByOrder, "by age, the newest are held out"},
		{20, 0, ByOrder, "by age, the newest are held out"},
		{21, 0, AtRandom, "at random, since 21% of the links run against time"},
		{0, 50, ByOrder, "by the order of the links, since no node has a time"},
		{0, 52, AtRandom, "at random, since no node has a time and 26% of the links lie on circles"},
	} {
		var b graph.Builder
		for i := range 200 {
			node := graph.Node{ID: fmt.Sprint(i)}
			if c.both == 0 {
				node.Time = time.Date(2000+i, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			must(b.AddNode(node))(t)
		}
		for k := range int32(100) { // pairs of nodes that share none
			newer, older := 2*k+1, 2*k
			if int(k) < c.against {
				newer, older = older, newer
			}
			if int(k) < c.both && k%2 == 1 { // the link before, returned
				newer, older = 2*k-2, 2*k-1
			}
			if err := b.AddLinkIndex(newer, older); err != nil {
				t.Fatal(err)
			}
		}
		g, _, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if plan, why := PlanFor(g); plan.Split != c.want || why != c.why {
			t.Errorf("%+v: %q, %s", c, plan.Split, why)
		}
	}
}

// Times that are all the same order nothing, and no plan says that they do.
func TestPlanForOneTime(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for i := range 40 {
		must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Time: time.Unix(86_400, 0)}))(t)
		if i > 0 {
			if err := b.AddLinkIndex(int32(i), int32(i-1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, _, err := b.Build()
	plan, why := PlanFor(must(g, err)(t))
	const says = "by the order of the links, since all nodes have the same time"
	if plan.Split != ByOrder || why != says || plan.Describe(g) != says {
		t.Errorf("%q, %s; %s", plan.Split, why, plan.Describe(g))
	}
	for name, c := range map[string]struct {
		times [2]int64 // of the links of each source
		want  SplitKind
	}{"one": {[2]int64{7, 7}, RandomLinks}, "two": {[2]int64{7, 8}, LastLinks}} {
		var b graph.Builder
		for i := range int32(20) {
			role := []graph.Role{graph.SourceOnly, graph.TargetOnly}[i%2]
			must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Role: role}))(t)
		}
		for i := int32(0); i < 20; i += 2 {
			for k, at := range c.times {
				if err := b.AddLinkAt(i, (i+int32(2*k)+1)%20, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		g, _, err := b.Build()
		plan, why := PlanFor(must(g, err)(t))
		if plan.Split != c.want || strings.Contains(why, "different times") != (c.want == RandomLinks) {
			t.Errorf("%s: %q, %s", name, plan.Split, why)
		}
		says := Plan{Split: LastLinks}.Describe(g)
		if strings.Contains(says, "by time") != (c.want == LastLinks) {
			t.Errorf("%s: %s", name, says)
		}
	}
}

// What is too little to learn from is said in the words of the data, and is no fault of the plan.
func TestPrepareOfTooLittle(t *testing.T) {
	t.Parallel()
	made := func(n int, links ...[2]int32) *graph.Graph {
		var b graph.Builder
		for i := range n {
			must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Time: time.Unix(int64(i)*86_400, 0)}))(t)
		}
		for _, l := range links {
			if err := b.AddLinkIndex(l[0], l[1]); err != nil {
				t.Fatal(err)
			}
		}
		g, _, err := b.Build()
		return must(g, err)(t)
	}
	for name, c := range map[string]struct {
		g    *graph.Graph
		says string
	}{
		"no links": {made(100), "too little to learn from: there are no links; add links"},
		"new links alone": {made(100, [2]int32{99, 3}), "too little to learn from: of the 2,415 pairs to learn " +
			"from none is linked: 1 link is elsewhere; set split to whole to hold nothing out, or to another way"},
		"old links alone": {made(100, [2]int32{5, 3}, [2]int32{5, 2}), "of the 1,790 pairs to judge by none is " +
			"linked: 2 links are elsewhere; set split"},
		"two nodes": {made(2, [2]int32{1, 0}), "too little to learn from: too few to split: no node of 2 is left for " +
			"test"},
	} {
		_, err := prepare(t, c.g, Plan{}, nil)
		if !errors.Is(err, ErrPairs) || !errors.Is(err, ErrData) || errors.Is(err, ErrSetting) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := prepare(t, made(2, [2]int32{1, 0}), Plan{Shares: graph.Shares{Train: 1}}, nil); !errors.Is(err,
		ErrSetting) {
		t.Errorf("shares that leave nothing: %v", err)
	}
}

// A log that cannot be a sample is refused for what is in it.
func TestShownOnlySaysWhy(t *testing.T) {
	t.Parallel()
	g := datedGraph(t, 100)
	log := &ExposureLog{Source: []int32{90, 91}, Target: []int32{3, 4}, Exposed: []bool{true, true},
		Linked: []bool{false, false}}
	for _, says := range []string{"pairs that were shown, so it", "shown or linked (a link counts as shown"} {
		if _, err := prepare(t, g, Plan{}, log); !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
		log.Exposed[1], log.Linked[1] = false, true
	}
}

// TestPrepareKeepsPartsApart: no held-out source is learned from, targets are older, and links are all there.
func TestPrepareKeepsPartsApart(t *testing.T) {
	t.Parallel()
	g := datedGraph(t, 100)
	dates := [2]Day{{time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)}, {time.Date(2080, 1, 1, 0, 0, 0, 0, time.UTC)}}
	for _, d := range []Plan{{Seed: 1}, {Seed: 1, Split: ByDate, Dates: &dates},
		{Seed: 1, Split: AtRandom, PerLink: 2}, {Seed: 1, Later: true, Scheme: "field"}} {
		out := must(prepare(t, g, d, nil))(t)
		for subset, pairs := range []*graph.Pairs{out.Problem.Train, out.Problem.Validation, out.Test.Pairs} {
			links := 0
			for k, i := range pairs.Source {
				j := pairs.Target[k]
				if out.Split.Subset(i) != graph.Subset(subset) || out.Split.Subset(j) > graph.Subset(subset) {
					t.Fatalf("%+v: pair %d→%d of subsets %v and %v is among the pairs of %v", d, i, j,
						out.Split.Subset(i), out.Split.Subset(j), graph.Subset(subset))
				}
				if !d.Later && d.Split != AtRandom && i <= j {
					t.Fatalf("%+v: source %d is older than its target %d", d, i, j)
				}
				if pairs.Linked[k] != g.HasLink(i, j) {
					t.Fatalf("%+v: pair %d→%d: linked %v", d, i, j, pairs.Linked[k])
				}
				if pairs.Linked[k] {
					links++
				}
			}
			if links != out.Split.Report.Links[subset] {
				t.Errorf("%+v: %d links among the pairs of %v, %d in the split", d, links, graph.Subset(subset),
					out.Split.Report.Links[subset])
			}
		}
		of := out.Split.Report.Links
		if want := (LinkCounts{of[0], of[1], of[2], out.Split.Report.Dropped}); out.Links != want {
			t.Errorf("%+v: %+v links are reported, %+v are there", d, out.Links, want)
		}
	}
}

// TestPrepareStandsForAll: with a log, the weights still add up to sums over all pairs, on average, and the log
// is whole.
func TestPrepareStandsForAll(t *testing.T) {
	t.Parallel()
	g := datedGraph(t, 60)
	log := &ExposureLog{}
	add := func(i, j int32, exposed, linked bool) {
		log.Source, log.Target = append(log.Source, i), append(log.Target, j)
		log.Exposed, log.Linked = append(log.Exposed, exposed), append(log.Linked, linked)
	}
	r := rand.New(rand.NewPCG(5, 5))
	known := map[graph.Link]bool{}
	for range 150 {
		i, j := int32(r.IntN(60)), int32(r.IntN(60))
		add(i, j, r.IntN(2) == 0, g.HasLink(i, j))
		if j < i {
			known[graph.Link{Source: i, Target: j}] = true
		}
	}
	add(59, 0, false, false) // twice, shown once
	add(59, 0, true, false)
	known[graph.Link{Source: 59, Target: 0}] = true
	f := func(i, j int32) float64 { return float64(i) + 3*float64(j%7) }
	var want float64
	for i := range int32(60) {
		for j := range i {
			want += f(i, j)
		}
	}
	var sum float64
	const draws = 400
	for seed := range uint64(draws) {
		out := must(prepare(t, g, Plan{Seed: seed, Split: Whole, PerLink: 1}, log))(t)
		seen := 0
		for k, i := range out.Problem.Train.Source {
			j := out.Problem.Train.Target[k]
			sum += out.Problem.Train.Weight[k] * f(i, j)
			if logged := out.Problem.Exposure[k] != risk.Unlogged; logged != known[graph.Link{Source: i, Target: j}] {
				t.Fatalf("pair %d→%d: logged %v", i, j, logged)
			} else if logged {
				seen++
				if out.Problem.Train.Weight[k] != 1 || out.Problem.Train.Rate[k] != 1 {
					t.Fatalf("a logged pair has weight %v and rate %v", out.Problem.Train.Weight[k],
						out.Problem.Train.Rate[k])
				}
			}
			if i == 59 && j == 0 && out.Problem.Exposure[k] != risk.Exposed {
				t.Fatal("a pair that was shown once counts as never shown")
			}
			if k > 0 && (out.Problem.Train.Source[k-1] > i || out.Problem.Train.Source[k-1] == i &&
				out.Problem.Train.Target[k-1] >= j) {
				t.Fatalf("pair %d→%d is out of order, or twice", i, j)
			}
		}
		if seen != len(known) || out.Logged != seen {
			t.Fatalf("%d logged pairs, %d reported, want %d", seen, out.Logged, len(known))
		}
	}
	if mean := sum / draws; math.Abs(mean/want-1) > .01 {
		t.Errorf("the weighted sum is %.0f on average, the sum over all pairs %.0f", mean, want)
	}
}

// A log that holds only what was shown must say whether that was all; then what is drawn of its sources was not shown.
func TestPrepareCompleteLog(t *testing.T) {
	t.Parallel()
	g := datedGraph(t, 60)
	log := &ExposureLog{Source: []int32{50, 50, 55}, Target: []int32{1, 2, 3}, Exposed: []bool{true, true, true},
		Linked: []bool{false, false, false}}
	for _, kind := range []LogKind{"", Sampled} {
		if _, err := prepare(t, g, Plan{Split: Whole, Log: kind}, log); !errors.Is(err, ErrSetting) {
			t.Errorf("a log of what was shown is taken for a sample: %v", err)
		}
	}
	if _, err := prepare(t, g, Plan{Split: Whole, Log: "most"}, log); !errors.Is(err, ErrSetting) {
		t.Errorf("an unknown kind of log: %v", err)
	}
	if out := must(prepare(t, g, Plan{Split: Whole, Log: Ignored}, log))(t); out.Logged != 0 {
		t.Errorf("%d pairs of a log that is ignored", out.Logged)
	}
	if _, err := prepare(t, g, Plan{Split: Whole, Log: Complete, Scheme: "popularity"}, log); !errors.Is(err,
		ErrSetting) {
		t.Errorf("a complete log and another draw: %v", err)
	}
	// node 40 links to 5 by the log alone
	log.Source, log.Target, log.Exposed, log.Linked = append(log.Source, 40), append(log.Target, 5),
		append(log.Exposed, true), append(log.Linked, true)
	plain := must(prepare(t, g, Plan{Split: Whole, Seed: 2}, nil))(t).Problem.Train
	was := map[graph.Link]int{}
	for k, i := range plain.Source {
		was[graph.Link{Source: i, Target: plain.Target[k]}] = k
	}
	p := must(prepare(t, g, Plan{Split: Whole, Log: Complete, Seed: 2}, log))(t).Problem
	if p.Train.Len() != plain.Len() && p.Train.Len() != plain.Len()+1 {
		t.Errorf("%d pairs, %d without the log", p.Train.Len(), plain.Len())
	}
	found := false
	for k, i := range p.Train.Source {
		at := graph.Link{Source: i, Target: p.Train.Target[k]}
		place, there := was[at]
		if at == (graph.Link{Source: 40, Target: 5}) {
			found = p.Train.Linked[k] && p.Exposure[k] == risk.Exposed && p.Train.Weight[k] == 1 && p.Train.Rate[k] < 1
			continue
		}
		if !there || p.Train.Linked[k] != plain.Linked[place] || p.Train.Weight[k] != plain.Weight[place] ||
			p.Train.Rate[k] != plain.Rate[place] {
			t.Errorf("%v is in the sample because of the log", at)
		}
		want := risk.Unlogged
		if i == 50 || i == 55 || i == 40 {
			want = risk.Unexposed
			if p.Train.Linked[k] || i == 50 && (at.Target == 1 || at.Target == 2) || i == 55 && at.Target == 3 {
				want = risk.Exposed
			}
		}
		if p.Exposure[k] != want {
			t.Errorf("%v: %v, want %v", at, p.Exposure[k], want)
		}
	}
	if !found {
		t.Error("a link that only the log knows is not there, or not as one")
	}
}

// TestPlanIsKept: a plan read back draws the same.
func TestPlanIsKept(t *testing.T) {
	t.Parallel()
	g := datedGraph(t, 100)
	dates := [2]Day{{time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)}, {time.Date(2080, 3, 1, 0, 0, 0, 0, time.UTC)}}
	for _, d := range []Origin{
		{Plan: Plan{Seed: 9}}, {Plan: Plan{Seed: 9, Split: ByDate, Dates: &dates}},
		{Plan: Plan{Seed: 9, Split: AtRandom, Shares: graph.Shares{Train: .5, Validation: .2, Test: .3}}},
		{Fields: FieldsBy{Kind: "vectors", Count: 4, Seed: 2}, Files: map[string]string{"nodes.parquet": "ab"}},
	} {
		var again Origin
		if err := json.Unmarshal(must(json.Marshal(d))(t), &again); err != nil {
			t.Fatal(err)
		}
		one, err := Prepare(t.Context(), g, Options{Origin: d, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		two, err := Prepare(t.Context(), g, Options{Origin: again, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		if one.Problem.Checksum() != two.Problem.Checksum() {
			t.Errorf("%+v draws other pairs once it was written and read", d)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	g := datedGraph(t, 100)
	for name, d := range map[string]Origin{
		"an unknown split":  {Plan: Plan{Split: "sideways"}},
		"no dates":          {Plan: Plan{Split: ByDate}},
		"shares beyond 1":   {Plan: Plan{Shares: graph.Shares{Train: 1, Test: 1}}},
		"an unknown scheme": {Plan: Plan{Scheme: "lucky"}},
		"unknown fields":    {Fields: FieldsBy{Kind: "stars"}},
	} {
		_, err := Prepare(t.Context(), g, Options{Origin: d})
		if !errors.Is(err, ErrSetting) && !errors.Is(err, ErrData) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := prepare(t, g, Plan{}, &ExposureLog{Source: []int32{1}}); !errors.Is(err, ErrShape) {
		t.Errorf("a ragged log: %v", err)
	}
	byLinks := Origin{Fields: FieldsBy{Kind: "links", Count: 5}}
	if _, err := Prepare(t.Context(), g, Options{Origin: byLinks}); err != nil {
		t.Errorf("fields by links: %v", err)
	}
}
