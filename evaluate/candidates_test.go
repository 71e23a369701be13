package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/sample"
)

// wholeNumbers is a random graph whose vectors are small whole numbers, so that all products are exact in any
// order of summation, and equal scores abound.
func wholeNumbers(t *testing.T, nodes, dim int, seed uint64) *graph.Graph {
	t.Helper()
	return wholeNumbersOf(t, nodes, dim, seed, func(int) graph.Role { return graph.SourceAndTarget })
}

// wholeNumbersOf is wholeNumbers of nodes with roles: links are drawn anew until both ends allow it.
func wholeNumbersOf(t *testing.T, nodes, dim int, seed uint64, role func(i int) graph.Role) *graph.Graph {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var b graph.Builder
	for i := range nodes {
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint("f", random.IntN(3)),
			Role: role(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < nodes; i++ {
		for range 3 {
			j := random.IntN(i)
			if role(i) == graph.TargetOnly || role(j) == graph.SourceOnly {
				continue
			}
			if err := b.AddLinkAt(int32(i), int32(j), int64(j*7%11)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v, err := graph.NewVectors(nodes, dim)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, dim)
	for i := range nodes {
		for d := range row {
			row[d] = float32(random.IntN(5) - 2)
		}
		if err := v.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
	}
	if g, err = g.WithVectors(v); err != nil {
		t.Fatal(err)
	}
	return g
}

// People are not candidates of people, whichever way their links are held out.
func TestRankOfTwoSides(t *testing.T) {
	g := wholeNumbersOf(t, 400, 8, 3, func(i int) graph.Role {
		return []graph.Role{graph.SourceOnly, graph.TargetOnly, graph.SourceAndTarget}[i%3]
	})
	rankEveryPair(t, g, 3, []sample.Plan{{Split: sample.LastLinks, Shares: graph.Shares{Train: .4, Validation: .3,
		Test: .3}}, {Split: sample.RandomLinks}, {Split: sample.AtRandom}, {}, {Later: true}})
}

// Every kind of model and of candidates ranks as RankScores does when told every pair's score.
func TestRankAgainstEveryPair(t *testing.T) {
	for seed := range uint64(2) {
		g := wholeNumbers(t, 270+70*int(seed), 8, seed) // more than one stretch and more than one block of sources
		rankEveryPair(t, g, seed, []sample.Plan{{Seed: seed}, {Split: sample.AtRandom, Seed: seed},
			{Later: true, Seed: seed}, {Split: sample.RandomLinks}})
	}
}

// rankEveryPair compares ranks by every kind of model, for every plan.
func rankEveryPair(t *testing.T, g *graph.Graph, seed uint64, plans []sample.Plan) {
	t.Helper()
	ctx := context.Background()
	random := rand.New(rand.NewPCG(seed, 2))
	for _, drawing := range plans {
		drawn, err := sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: drawing}})
		if err != nil {
			t.Fatal(err)
		}
		for _, kinds := range [][2]string{{"diagonal", "field-matrix"}, {"diagonal-field", "constant"},
			{"cosine", "constant"}, {"diagonal+bonus", "field-matrix+popularity"},
			{"diagonal", "field-matrix+text+popularity"}, {"factors", "field-matrix"}} {
			if kinds[0] == "factors" && g.TwoSided() {
				continue // people have no factors as targets, and the reference asks for all nodes
			}
			link, err := model.NewLink(kinds[0], drawn.Problem.Nodes, model.LinkOptions{Bonus: 2})
			if err != nil {
				t.Fatal(err)
			}
			propensity, err := model.NewPropensity(kinds[1], drawn.Problem.Nodes, model.PropensityOptions{})
			if err != nil {
				t.Fatal(err)
			}
			j := &fit.Judge{Predictor: engine.Predictor{Link: link, LinkParams: make([]float32, link.Size()),
				Propensity: propensity, PropensityParams: make([]float32, propensity.Size())}}
			link.Start(j.LinkParams, rand.NewPCG(1, 1))
			if kinds[0] != "cosine" {
				for k := range j.LinkParams {
					j.LinkParams[k] = float32(random.IntN(3) - 1)
				}
			}
			for k := range j.PropensityParams {
				j.PropensityParams[k] = float32(random.IntN(5) - 2)
			}
			for _, part := range []graph.Subset{graph.Validation, graph.Test} {
				comparePart(ctx, t, drawn, j, part)
			}
		}
	}
}

func comparePart(ctx context.Context, t *testing.T, drawn *sample.Prepared, j *fit.Judge, part graph.Subset) {
	t.Helper()
	c, err := NewCandidates(drawn, part)
	if err != nil {
		t.Fatal(err)
	}
	known := func(i, k int32) bool { return drawn.Split.Known(part) != nil && drawn.Split.Known(part).HasLink(i, k) }
	by := []By{ByRelevance, BySeen}
	got, err := c.Rank(ctx, j, RankSettings{By: by, First: 7, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Rank(ctx, j, RankSettings{By: by, First: 7, Threads: 3})
	if err != nil || !reflect.DeepEqual(got, again) {
		t.Fatalf("other threads, other ranks (%v)", err)
	}
	n := drawn.Graph.Len()
	all := make([]int32, n)
	for k := range all {
		all[k] = int32(k)
	}
	z, s, sources, links := make([]float32, n), make([]float32, n), make([]int32, n), 0
	for place, i := range c.Sources() {
		// a stretch at a time, as the models are asked, since the last bits of a cosine may depend on its neighbours
		for k := range sources {
			sources[k] = i
		}
		for from := 0; from < n; from += engine.ScanChunk {
			to := min(from+engine.ScanChunk, n)
			batch := model.Batch{Sources: sources[from:to], Targets: all[from:to]}
			j.Predictor.Logits(z[from:to], s[from:to], batch)
		}
		seen := make([]float32, n)
		kern.LogSigmoid(seen, z)
		kern.LogSigmoid(s, s)
		for k := range seen {
			seen[k] += s[k]
		}
		count := 0
		var linked []int32
		scores := [2][]float64{make([]float64, n), make([]float64, n)}
		for k := range int32(n) {
			candidate := k != i && drawn.Split.Subset(k) <= part &&
				(drawn.Order == nil || drawn.Order.Precedes(k, i)) &&
				drawn.Graph.IsTarget(k) && !known(i, k)
			scores[0][k], scores[1][k] = float64(z[k]), float64(seen[k])
			if !candidate {
				scores[0][k], scores[1][k] = math.Inf(-1), math.Inf(-1)
				continue
			}
			count++
			if drawn.LinkGraph(part).HasLink(i, k) {
				linked = append(linked, k)
			}
		}
		links += len(linked)
		if count != c.Count(place) || !slices.Equal(linked, c.Links(place)) {
			t.Fatalf("source %d has %d candidates and the links %v, not %d and %v", i, count, linked, c.Count(place),
				c.Links(place))
		}
		for k := range by {
			want, err := RankScores(scores[k], linked)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got[k].Ranking[place], want) {
				t.Fatalf("%s, %s by %s: source %d: ranks %v, want %v", j.Link.Kind(), j.Propensity.Kind(), by[k], i,
					got[k].Ranking[place], want)
			}
			order := slices.Clone(all)
			slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[k][b], scores[k][a]) })
			if first := order[:min(7, count)]; !slices.Equal(first, got[k].Lists[place]) {
				t.Fatalf("%s by %s: source %d: list %v, want %v", j.Link.Kind(), by[k], i, got[k].Lists[place], first)
			}
		}
	}
	if links != drawn.Split.Report.Links[part] && drawn.Order == nil {
		t.Errorf("%d links were ranked, and the part has %d", links, drawn.Split.Report.Links[part])
	}
}

func TestRankRefuses(t *testing.T) {
	ctx := context.Background()
	g := wholeNumbers(t, 60, 4, 9)
	plan := sample.Plan{Split: sample.Whole}
	whole, err := sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: plan}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewCandidates(whole, graph.Test); !errors.Is(err, ErrEmpty) {
		t.Errorf("without a split: %v", err)
	}
	drawn, err := sample.Prepare(t.Context(), g, sample.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewCandidates(drawn, graph.Train); !errors.Is(err, ErrEmpty) {
		t.Errorf("links that were learned from: %v", err)
	}
	c, err := NewCandidates(drawn, graph.Test)
	if err != nil {
		t.Fatal(err)
	}
	link, err := model.NewDiagonal(drawn.Problem.Nodes, false)
	if err != nil {
		t.Fatal(err)
	}
	propensity, err := model.NewConstant(1)
	if err != nil {
		t.Fatal(err)
	}
	j := &fit.Judge{Predictor: engine.Predictor{Link: link, LinkParams: make([]float32, link.Size()),
		Propensity: propensity}}
	if _, err := c.Rank(ctx, j, RankSettings{By: []By{"luck"}}); err == nil {
		t.Error("ranked by luck")
	}
	if _, err := c.Rank(ctx, j, RankSettings{First: -1}); !errors.Is(err, ErrCutoff) {
		t.Errorf("lists of −1: %v", err)
	}
	if _, err := new(Candidates).Rank(ctx, j, RankSettings{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no candidates: %v", err)
	}
	if _, err := c.Rank(ctx, &fit.Judge{}, RankSettings{}); !errors.Is(err, fit.ErrSetting) {
		t.Errorf("a judge without models: %v", err)
	}
	if _, err := NewPanel(ctx, &fit.Judge{}, drawn.Test, PanelSettings{}); !errors.Is(err, fit.ErrSetting) {
		t.Errorf("a panel of a judge without models: %v", err)
	}
	j.LinkParams[4] = float32(math.NaN())
	if _, err := c.Rank(ctx, j, RankSettings{}); !errors.Is(err, ErrNaN) {
		t.Errorf("a score that is no number: %v", err)
	}
	j.LinkParams[4] = 0
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, err := c.Rank(stopped, j, RankSettings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestEachAndKeep(t *testing.T) {
	ranking := Ranking{
		{targets: []int32{0, 1}, ranks: []int{1, 200}},
		{},
		{targets: []int32{2}, ranks: []int{3}},
	}
	recall := func(one Ranking) (float64, error) { return one.Recall(100) }
	values, err := ranking.Each(recall)
	if err != nil || values[0] != .5 || !math.IsNaN(values[1]) || values[2] != 1 {
		t.Errorf("%v, %v", values, err)
	}
	whole, err := ranking.Recall(100)
	if mean, sources := Mean(values); err != nil || mean != whole || sources != 2 {
		t.Errorf("the mean over %d sources is %v, the metric %v (%v)", sources, mean, whole, err)
	}
	kept := ranking.Keep(func(source int, target int32) bool { return target != 0 })
	if values, err = kept.Each(recall); err != nil || values[0] != 0 || values[2] != 1 {
		t.Errorf("without target 0: %v, %v", values, err)
	}
	if _, err := ranking.Each(func(one Ranking) (float64, error) { return one.Recall(0) }); !errors.Is(err, ErrCutoff) {
		t.Errorf("a wrong cutoff passed: %v", err)
	}
	shares, err := Lists{{0, 1, 2}, {}, {2}}.CrossShare([]uint16{1, 1, 2}, []uint16{1, 1, 2}, 2)
	if err != nil || shares[0] != 0 || !math.IsNaN(shares[1]) || shares[2] != 0 {
		t.Errorf("%v, %v", shares, err)
	}
	if shares, err = (Lists{{0, 1, 2}}).CrossShare([]uint16{1}, []uint16{1, 1, 2}, 3); err != nil || shares[0] != 1./3 {
		t.Errorf("%v, %v", shares, err)
	}
}

// The interval holds the true difference as often as it promises, and is narrower than an unpaired one.
func TestPairedBootstrap(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	const repeats, sources, truth = 400, 80, .3
	held := 0
	for range repeats {
		a, b := make([]float64, sources), make([]float64, sources)
		for i := range a {
			hard := 5 * random.NormFloat64()
			a[i], b[i] = hard+truth+random.NormFloat64(), hard+random.NormFloat64()
		}
		d, err := PairedBootstrap(a, b, .95, 200, random.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		if d.Lower <= truth && truth <= d.Upper {
			held++
		}
		if width := d.Upper - d.Lower; width > 1.2 { // 3.92·√2/√80 = .62; unpaired 3.1
			t.Fatalf("the interval is %v wide", width)
		}
	}
	if share := float64(held) / repeats; share < .90 || share > .99 {
		t.Errorf("held the truth in %.3f of the repeats", share)
	}
	none := math.NaN()
	d, err := PairedBootstrap([]float64{1, none, 3, none}, []float64{none, none, 1, 2}, .9, 100, 1)
	if err != nil || d.Mean != .5 || d.Sources != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	same, err := PairedBootstrap([]float64{1, none, 3, none}, []float64{none, none, 1, 2}, .9, 100, 1)
	if err != nil || same != d {
		t.Errorf("the same seed gave %+v and %+v (%v)", d, same, err)
	}
	for name, call := range map[string]func() (Difference, error){
		"lengths": func() (Difference, error) { return PairedBootstrap([]float64{1}, nil, .95, 100, 1) },
		"level":   func() (Difference, error) { return PairedBootstrap([]float64{1}, []float64{1}, 1, 100, 1) },
		"draws":   func() (Difference, error) { return PairedBootstrap([]float64{1}, []float64{1}, .95, 1, 1) },
		"nothing": func() (Difference, error) { return PairedBootstrap([]float64{none}, []float64{1}, .95, 100, 1) },
		"∞": func() (Difference, error) {
			return PairedBootstrap([]float64{math.Inf(1)}, []float64{1}, .95, 100,
				1)
		},
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
