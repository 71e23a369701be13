package world_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/risk"
	"unseen/world"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{}))
	const n = 10_000
	s := draw(t, w, n, world.Draw{Part: 2, Logged: .2})
	universe := float64(w.Graph().Len() * (w.Graph().Len() - 1))
	if s.Pairs.Universe != int64(universe) {
		t.Errorf("universe of %d pairs, want %v", s.Pairs.Universe, universe)
	}
	seen := make(map[graph.Link]bool, n)
	var logged float64
	for k := range n {
		i, j := s.Pairs.Source[k], s.Pairs.Target[k]
		if i == j || seen[graph.Link{Source: i, Target: j}] {
			t.Fatalf("pair %d (%d, %d) is of one node, or repeated", k, i, j)
		}
		seen[graph.Link{Source: i, Target: j}] = true
		if k > 0 && (i < s.Pairs.Source[k-1] || i == s.Pairs.Source[k-1] && j <= s.Pairs.Target[k-1]) {
			t.Fatalf("pair %d is out of order", k)
		}
		if s.Pairs.Linked[k] != (s.Relevant[k] && s.Exposed[k]) {
			t.Fatalf("pair %d: o is not o′·a", k)
		}
		if s.Pairs.Rate[k] != 1 || s.Pairs.Weight[k] != universe/n {
			t.Fatalf("pair %d has rate %v and weight %v", k, s.Pairs.Rate[k], s.Pairs.Weight[k])
		}
		logged += boolean(s.Logged[k])

		o := s.Observation(k)
		want := risk.Unlogged
		if s.Logged[k] {
			want = risk.Unexposed
			if s.Exposed[k] {
				want = risk.Exposed
			}
		}
		if y, known := o.Relevance(); o.Linked != s.Pairs.Linked[k] || o.Exposure != want || !known ||
			y != s.Truth[k].Link {
			t.Fatalf("pair %d is observed as %+v", k, o)
		}
	}
	near(t, "logged share", logged/n, .2, .012)
}

// Every draw is from its own probability, and none says anything of another: not o′ of a, not a pair
// of its mirror image or neighbour, not one seed of the next.
func TestStreamsAreIndependent(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestViolationsAreTheSameWhateverTheThreads has the same goroutines")
	w := generate(t, small(world.Scenario{OracleAUC: .8}))
	n := w.Graph().Len()
	const logShare = .3
	s := draw(t, w, n*(n-1), world.Draw{Parts: 1, Logged: logShare})
	next := draw(t, w.Redrawn(1), n*(n-1), world.Draw{Parts: 1, Logged: logShare})
	place := func(i, j int) int {
		k := i*(n-1) + j
		if j > i {
			k--
		}
		return k
	}
	type stream struct {
		name  string
		draws []bool
		mean  func(k int) float64
	}
	streams := []stream{
		{"relevance", s.Relevant, func(k int) float64 { return s.Truth[k].Link }},
		{"exposure", s.Exposed, func(k int) float64 { return s.Truth[k].Propensity }},
		{"log", s.Logged, func(int) float64 { return logShare }},
		{"relevance of the next seed", next.Relevant, func(k int) float64 { return next.Truth[k].Link }},
		{"exposure of the next seed", next.Exposed, func(k int) float64 { return next.Truth[k].Propensity }},
	}
	residual := func(s stream, k int) (x, variance float64) {
		p := s.mean(k)
		return boolean(s.draws[k]) - p, p * (1 - p)
	}
	for _, a := range streams {
		var single standardised
		for k := range a.draws {
			single.add(residual(a, k))
		}
		single.isZero(t, a.name)
		for _, b := range streams {
			var same, mirror, beside standardised
			for i := range n {
				for j := range n - 1 {
					if i == j {
						continue
					}
					here, there, right := place(i, j), place(j, i), j+1
					x, u := residual(a, here)
					if a.name != b.name {
						y, v := residual(b, here)
						same.add(x*y, u*v)
					}
					if i < j || a.name != b.name {
						y, v := residual(b, there)
						mirror.add(x*y, u*v)
					}
					if right != i {
						y, v := residual(b, place(i, right))
						beside.add(x*y, u*v)
					}
				}
			}
			if a.name != b.name {
				same.isZero(t, a.name+" and "+b.name)
			}
			mirror.isZero(t, a.name+" and "+b.name+" of the mirror image")
			beside.isZero(t, a.name+" and "+b.name+" of the neighbour")
		}
	}
}

// A pair is drawn without a look at its link, so the sample's links are those of the population:
// among pairs of similar πy, a share of πy is linked, which is what Rate = 1 says.
func TestSampleNeedsNoCaseControlOffset(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{}))
	s := draw(t, w, 39_000, world.Draw{Parts: 1})
	var bins [10]standardised
	for k, truth := range s.Truth {
		p := truth.Propensity * truth.Link
		bins[min(9, int(10*p))].add(boolean(s.Pairs.Linked[k])-p, p*(1-p))
	}
	for _, bin := range bins {
		if bin.variance > 0 {
			bin.isZero(t, "links less πy")
		}
	}
}

// Each part's weighted mean of y is the population's, so the weights stand for the universe.
func TestWeightsStandForTheUniverse(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{}))
	n := w.Graph().Len()
	var mean, square float64
	for _, truth := range draw(t, w, n*(n-1), world.Draw{Parts: 1}).Truth {
		mean += truth.Link
		square += truth.Link * truth.Link
	}
	mean /= float64(n * (n - 1))
	variance := square/float64(n*(n-1)) - mean*mean
	for part := range 5 {
		s := draw(t, w, 5_000, world.Draw{Part: part, Parts: 5})
		var total float64
		for k, truth := range s.Truth {
			total += s.Pairs.Weight[k] * truth.Link
		}
		near(t, "mean of y", total/float64(s.Pairs.Universe), mean, 4*math.Sqrt(variance/5_000))
	}
}

func TestPartsAreDisjointAndCoverEverything(t *testing.T) {
	t.Parallel()
	s := small(world.Scenario{})
	s.Nodes = 60
	w := generate(t, s)
	nodes := []int32{50, 3, 17, 4, 5, 59, 0, 1, 33}
	for _, d := range []world.Draw{
		{Parts: 1}, {}, {Parts: 7}, {Older: true}, {Nodes: nodes}, {Nodes: nodes, Older: true, Parts: 36},
	} {
		parts := max(d.Parts, 1)
		if d.Parts == 0 {
			parts = 3
		}
		count := 60
		if d.Nodes != nil {
			count = len(d.Nodes)
		}
		universe := count * (count - 1)
		if d.Older {
			universe /= 2
		}
		seen := make(map[graph.Link]bool)
		for part := range parts {
			d.Part = part
			size := (universe - part + parts - 1) / parts
			whole := draw(t, w, size, d)
			for k, i := range whole.Pairs.Source {
				l := graph.Link{Source: i, Target: whole.Pairs.Target[k]}
				if seen[l] || l.Source == l.Target {
					t.Fatalf("%+v: pair %v is drawn twice, or is none", d, l)
				}
				if d.Older && l.Target >= l.Source {
					t.Fatalf("%+v: target of %v is newer", d, l)
				}
				if d.Nodes != nil && !(slices.Contains(d.Nodes, l.Source) && slices.Contains(d.Nodes, l.Target)) {
					t.Fatalf("%+v: pair %v has other nodes", d, l)
				}
				seen[l] = true
			}
			fewer := draw(t, w, (size+1)/2, d)
			for k, i := range fewer.Pairs.Source {
				at := slices.IndexFunc(whole.Pairs.Source, func(s int32) bool { return s == i })
				for at < size && (whole.Pairs.Source[at] != i || whole.Pairs.Target[at] != fewer.Pairs.Target[k]) {
					at++
				}
				if at == size {
					t.Fatalf("%+v: a longer draw lacks a pair of a shorter one", d)
				}
				if whole.Relevant[at] != fewer.Relevant[k] || whole.Exposed[at] != fewer.Exposed[k] ||
					whole.Truth[at] != fewer.Truth[k] {
					t.Fatalf("%+v: two samples tell different stories of a pair", d)
				}
			}
			if _, err := w.Pairs(ctx, size+1, d); !errors.Is(err, world.ErrTooManyPairs) {
				t.Fatalf("%+v: %d pairs of %d: %v", d, size+1, size, err)
			}
		}
		if len(seen) != universe {
			t.Errorf("%+v: the parts have %d of %d pairs", d, len(seen), universe)
		}
	}
}

// The places of sources and targets among the nodes are uniform: χ² over a 10×10 table, whose 99
// degrees of freedom it exceeds by 60 once in 10,000 tries.
func TestPairsAreUniform(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{}))
	for part := range 5 {
		s := draw(t, w, 5_000, world.Draw{Part: part, Parts: 5})
		var table [10][10]float64
		for k, i := range s.Pairs.Source {
			table[i/20][s.Pairs.Target[k]/20]++
		}
		var square float64
		for _, row := range table {
			for _, count := range row {
				square += (count - 50) * (count - 50) / 50
			}
		}
		if square > 159 || square < 45 {
			t.Errorf("part %d: χ² is %.0f for 99 degrees of freedom", part, square)
		}
	}
}

func TestDrawRefuses(t *testing.T) {
	t.Parallel()
	s := small(world.Scenario{})
	s.Nodes = 40
	w := generate(t, s)
	for _, test := range []struct {
		name string
		n    int
		d    world.Draw
		kind error
		says string
	}{
		{"no pairs", 0, world.Draw{}, world.ErrSetting, "0 pairs"},
		{"negative part", 1, world.Draw{Part: -1}, world.ErrSetting, "Part is -1"},
		{"part too high", 1, world.Draw{Part: 3}, world.ErrSetting, "from 0 to 2"},
		{"negative parts", 1, world.Draw{Parts: -1}, world.ErrSetting, "Parts"},
		{"NaN logged", 1, world.Draw{Logged: math.NaN()}, world.ErrSetting, "Logged"},
		{"logged above 1", 1, world.Draw{Logged: 1.1}, world.ErrSetting, "Logged"},
		{"foreign node", 1, world.Draw{Nodes: []int32{1, 40}}, world.ErrSetting, "node 40"},
		{"negative node", 1, world.Draw{Nodes: []int32{1, -1}}, world.ErrSetting, "node -1"},
		{"node twice", 1, world.Draw{Nodes: []int32{1, 2, 1}}, world.ErrSetting, "node 1 twice"},
		{"one node", 1, world.Draw{Nodes: []int32{1}}, world.ErrSetting, "at least 2"},
		{"more than there are", 40 * 39, world.Draw{}, world.ErrTooManyPairs, "fewer"},
		{"an empty part", 1, world.Draw{Nodes: []int32{1, 2}, Part: 2}, world.ErrTooManyPairs, "has 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := w.Pairs(ctx, test.n, test.d)
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v; want %q about %q", err, test.kind, test.says)
			}
		})
	}
	if err := w.Graph().Vectors().Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Pairs(ctx, 1, world.Draw{}); !errors.Is(err, world.ErrGraph) {
		t.Errorf("closed vectors: %v", err)
	}
	if _, err := w.Linked(ctx); !errors.Is(err, world.ErrGraph) {
		t.Errorf("closed vectors: %v", err)
	}
}

func TestLinkedAgreesWithTheDraws(t *testing.T) {
	t.Parallel()
	s := small(world.Scenario{BaseRate: .1})
	s.Nodes = 300
	w := generate(t, s)
	linked, err := w.Linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	g := linked.Graph()
	if broken := g.Order().Broken; len(broken) > 0 {
		t.Errorf("%d links against time", len(broken))
	}
	if w.Graph().LinkCount() != 0 {
		t.Error("drawing links changed the world it was asked of")
	}
	all := draw(t, linked, 300*299/2, world.Draw{Older: true, Parts: 1})
	if err := all.Pairs.Validate(g); err != nil {
		t.Error(err)
	}
	links := 0
	for _, o := range all.Pairs.Linked {
		if o {
			links++
		}
	}
	if links != g.LinkCount() || links == 0 {
		t.Errorf("%d links in the graph, %d drawn", g.LinkCount(), links)
	}
	for i := range int32(g.Len()) {
		if g.ID(i) != w.Graph().ID(i) || g.Title(i) != w.Graph().Title(i) || g.Field(i) != w.Graph().Field(i) {
			t.Fatalf("node %d changed", i)
		}
	}

	sampled, _, err := graph.Sample(g, graph.Universe{Before: g.Order()}, graph.SampleOptions{Src: rand.NewPCG(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	revealed, err := linked.Reveal(ctx, sampled, .5)
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range sampled.Source {
		if revealed.Truth[k] != w.Truth(i, sampled.Target[k]) {
			t.Fatalf("pair %d is revealed as %v", k, revealed.Truth[k])
		}
	}

	again, err := linked.Linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again.Graph().LinkCount() != g.LinkCount() {
		t.Error("linking twice draws other links")
	}
	if linked.Redrawn(5).Graph().LinkCount() != 0 {
		t.Error("a redrawn world kept its links")
	}
	thin, err := linked.Thinned(.2)
	if err != nil {
		t.Fatal(err)
	}
	thin, err = thin.Linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "links after thinning", float64(thin.Graph().LinkCount()), .2*float64(links),
		4*math.Sqrt(.2*float64(links)))
	for i, j := range thin.Graph().Links() {
		if !g.HasLink(i, j) {
			t.Fatalf("thinning added the link (%d, %d)", i, j)
		}
	}
}

// A subgraph keeps its fields' indices; a graph that is built again numbers them in the order of its nodes.
func TestLinkedFollowsFieldsThatAreRenumbered(t *testing.T) {
	t.Parallel()
	fields := make([]string, 200)
	for i := range fields {
		fields[i] = [...]string{"a", "b", "", "c", "d"}[(i/50+i)%5]
	}
	g := fromBuilder(t, fields, 16)
	var nodes []int32
	for i := range int32(200) {
		if f := fields[199-i]; f != "b" {
			nodes = append(nodes, 199-i)
		}
	}
	sub, err := g.Induced(nodes)
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.Plant(ctx, sub, nil, world.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	linked, err := w.Linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if linked.Graph().FieldCount() >= sub.FieldCount() {
		t.Fatal("the fields have the same numbers, so nothing is tested")
	}
	all := draw(t, linked, sub.Len()*(sub.Len()-1)/2, world.Draw{Older: true, Parts: 1})
	if err := all.Pairs.Validate(linked.Graph()); err != nil {
		t.Error(err)
	}
	for k, i := range all.Pairs.Source {
		if want := w.Truth(i, all.Pairs.Target[k]); all.Truth[k] != want {
			t.Fatalf("pair %d has truth %v, had %v", k, all.Truth[k], want)
		}
	}
}

func TestRevealRefuses(t *testing.T) {
	t.Parallel()
	s := small(world.Scenario{})
	s.Nodes = 30
	w := generate(t, s)
	linked, err := w.Linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	other, err := w.Redrawn(9).Linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := graph.AllPairs(other.Graph(), graph.Universe{Before: other.Graph().Order()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	one := func(i, j int32) *graph.Pairs {
		return &graph.Pairs{Source: []int32{i}, Target: []int32{j}, Linked: []bool{false}, Weight: []float64{1},
			Rate: []float64{1}, Universe: 1}
	}
	short := one(1, 0)
	short.Linked = nil
	for _, test := range []struct {
		name  string
		pairs *graph.Pairs
		kind  error
	}{
		{"links of another world", foreign, world.ErrGraph},
		{"unknown node", one(30, 1), graph.ErrPair},
		{"negative node", one(3, -1), graph.ErrPair},
		{"one node", one(3, 3), graph.ErrPair},
		{"missing column", short, graph.ErrShape},
	} {
		if _, err := linked.Reveal(ctx, test.pairs, 0); !errors.Is(err, test.kind) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	own, err := graph.AllPairs(linked.Graph(), graph.Universe{Before: linked.Graph().Order()}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := linked.Reveal(ctx, own, 0); err != nil {
		t.Error(err)
	}
	if _, err := linked.Reveal(ctx, own, 2); !errors.Is(err, world.ErrSetting) {
		t.Errorf("logged share 2: %v", err)
	}
}
