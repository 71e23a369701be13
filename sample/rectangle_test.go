package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/graph"
	"unseen/risk"
)

// shop is people who link to items, with times and vectors.
func shop(t *testing.T, people, items, links int, timed bool) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 4))
	var b graph.Builder
	for k := range people + items {
		n := graph.Node{ID: fmt.Sprint("person ", k), Field: fmt.Sprint("segment ", k%2), Role: graph.SourceOnly}
		if k >= people {
			n = graph.Node{ID: fmt.Sprint("item ", k), Field: fmt.Sprint("category ", k%3), Role: graph.TargetOnly}
		}
		must(b.AddNode(n))(t)
	}
	for k := range links {
		seconds := int64(graph.NoTime)
		if timed {
			seconds = int64(k)
		}
		if err := b.AddLinkAt(int32(r.IntN(people)), int32(people+r.IntN(items)), seconds); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	v := must(graph.NewVectors(people+items, 4))(t)
	for i := range int32(people + items) {
		if err := v.Set(i, []float32{1, float32(r.NormFloat64()), float32(r.NormFloat64()), 0}); err != nil {
			t.Fatal(err)
		}
	}
	return must(must(g, err)(t).WithVectors(v))(t)
}

// People and items have their last links held out, or some at random where links have no times.
func TestPlanForTwoSides(t *testing.T) {
	t.Parallel()
	for timed, want := range map[bool]SplitKind{true: LastLinks, false: RandomLinks} {
		g := shop(t, 30, 20, 300, timed)
		if plan, why := PlanFor(g); plan.Split != want || why == "" || plan.Describe(g) == "" {
			t.Errorf("%q, %s", plan.Split, why)
		}
	}
}

// Samples of a shop are pairs of people and items, stand for all of them, and hold links out: of people or of all.
func TestPrepareRectangle(t *testing.T) {
	t.Parallel()
	g := shop(t, 120, 60, 2500, true)
	dates := [2]Day{{time.Unix(1700, 0)}, {time.Unix(2000, 0)}}
	for _, plan := range []Plan{{Split: LastLinks}, {Split: RandomLinks, Scheme: "popularity"},
		{Split: LinksByDate, Dates: &dates, Scheme: "field"}, {Split: AtRandom}, {}, {Split: Whole}} {
		out := must(prepare(t, g, plan, nil))(t)
		parts := []*graph.Pairs{out.Problem.Train, out.Problem.Validation, out.Test.Pairs}
		where := map[graph.Link]int{}
		for subset, pairs := range parts {
			if pairs == nil {
				continue
			}
			sum := 0.
			for k, i := range pairs.Source {
				j := pairs.Target[k]
				if !g.IsSource(i) || !g.IsTarget(j) {
					t.Fatalf("%s: a pair of a %v and a %v", plan.Split, g.Role(i), g.Role(j))
				}
				if sum += pairs.Weight[k]; !pairs.Linked[k] {
					continue
				}
				if at := (graph.Link{Source: i, Target: j}); !g.HasLink(i, j) || where[at] != 0 {
					t.Fatalf("%s: link %v is in %d and %d", plan.Split, at, where[at], subset+1)
				} else {
					where[at] = subset + 1
				}
			}
			if math.Abs(sum-float64(pairs.Universe)) > .02*float64(pairs.Universe) {
				t.Errorf("%s, subset %d: weights add up to %.0f of %d pairs", plan.Split, subset, sum, pairs.Universe)
			}
		}
		if out.Links.Unused != 0 || len(where) != g.LinkCount() {
			t.Errorf("%s: %d links of %d, %d unused", plan.Split, len(where), g.LinkCount(), out.Links.Unused)
		}
		if plan.Split.OfLinks() && out.Problem.Train.Universe != g.PairCount() {
			t.Errorf("%s: held-out pairs are not learned from as unlinked: %d of %d pairs", plan.Split,
				out.Problem.Train.Universe, g.PairCount())
		}
		if held := out.Links.Test; plan.Split != Whole && (held < 200 || held > 900) {
			t.Errorf("%s: %d links for test", plan.Split, held)
		}
	}
}

// Popularity is that of training links; a log forgets what is held out.
func TestRectangleKeepsApart(t *testing.T) {
	t.Parallel()
	g := shop(t, 50, 20, 600, true)
	log := &ExposureLog{}
	for _, i := range g.Sources() {
		for _, j := range g.Targets() {
			if linked := g.HasLink(i, j); linked || (i+j)%3 == 0 {
				log.Source, log.Target = append(log.Source, i), append(log.Target, j)
				log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, linked)
			}
		}
	}
	out := must(prepare(t, g, Plan{Split: LastLinks, Log: Complete, PerLink: 100}, log))(t)
	trained := out.Split.Graph(graph.Train)
	for _, j := range g.Targets() {
		got, want := float64(out.Problem.Nodes.Popularity[j]), math.Log1p(float64(len(trained.In(j))))
		if math.Abs(got-want) > 1e-5 {
			t.Errorf("item %d has popularity %v, not %v", j, got, want)
		}
	}
	exposed := [3]int{}
	for k, i := range out.Problem.Train.Source {
		j, e := out.Problem.Train.Target[k], out.Problem.Exposure[k]
		held := g.HasLink(i, j) && !trained.HasLink(i, j)
		if held && (out.Problem.Train.Linked[k] || e != risk.Unexposed) {
			t.Fatalf("the held-out link %d → %d is learned from: linked %t, exposure %v", i, j,
				out.Problem.Train.Linked[k], e)
		}
		if trained.HasLink(i, j) && e != risk.Exposed {
			t.Fatalf("link %d → %d has exposure %v", i, j, e)
		}
		if e == risk.Exposed && !g.HasLink(i, j) {
			exposed[0]++
		}
	}
	for k, i := range out.Test.Pairs.Source {
		j := out.Test.Pairs.Target[k]
		if trained.HasLink(i, j) {
			t.Fatalf("the training link %d → %d is judged by", i, j)
		}
		if out.Test.Exposure[k] == risk.Exposed && !g.HasLink(i, j) {
			exposed[2]++
		}
	}
	if exposed[0] < 50 || exposed[2] < 20 || exposed[2] > exposed[0] {
		t.Errorf("%d pairs that were shown and not linked to learn from, %d to judge by", exposed[0], exposed[2])
	}
}

// A pair that was shown several times is one pair that was shown: the likelihood asks whether it was shown at least
// once.
func TestRepeatedShowingsAreOne(t *testing.T) {
	t.Parallel()
	g := shop(t, 30, 20, 200, true)
	log := &ExposureLog{}
	for _, i := range g.Sources() {
		for _, j := range g.Targets() {
			if (i*7+j)%5 == 0 {
				log.Source, log.Target = append(log.Source, i), append(log.Target, j)
				log.Exposed, log.Linked = append(log.Exposed, (i+j)%2 == 0), append(log.Linked, g.HasLink(i, j))
			}
		}
	}
	twice := &ExposureLog{Source: append(log.Source, log.Source...), Target: append(log.Target, log.Target...),
		Exposed: append(log.Exposed, log.Exposed...), Linked: append(log.Linked, log.Linked...)}
	plan := Plan{Split: RandomLinks, Log: Sampled}
	a, b := must(prepare(t, g, plan, log))(t), must(prepare(t, g, plan, twice))(t)
	if a.Problem.Checksum() != b.Problem.Checksum() {
		t.Error("showing a pair twice changes what is learned from")
	}
}

// Items that are newer than a person's last training link are not learned from, and are judged by all the same.
func TestAvailablePairs(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	const people, items = 60, 40
	for k := range people + items {
		n := graph.Node{ID: fmt.Sprint(k), Field: fmt.Sprint(k % 3), Role: graph.SourceOnly}
		if k >= people {
			n.Role, n.Time = graph.TargetOnly, time.Unix(int64(k-people)*100_000, 0)
		}
		must(b.AddNode(n))(t)
	}
	r := rand.New(rand.NewPCG(8, 8))
	for range 1500 {
		i := r.IntN(people)
		at := int64(i)*50_000 + int64(r.IntN(800_000)) // people come one after the other
		j := people + r.IntN(min(items, int(at/100_000)+1))
		if err := b.AddLinkAt(int32(i), int32(j), at); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	v := must(graph.NewVectors(people+items, 2))(t)
	g = must(must(g, err)(t).WithVectors(v))(t)
	plan, why := PlanFor(g)
	if !plan.Available || plan.Split != LastLinks || why == "" {
		t.Errorf("%+v, %s", plan, why)
	}
	plan.PerLink = 1000
	out := must(prepare(t, g, plan, nil))(t)
	trained := out.Split.Graph(graph.Train)
	newer := func(i, j int32) bool {
		last := int64(graph.NoTime)
		for _, at := range trained.OutTimes(i) {
			last = max(last, at)
		}
		when, _ := g.Time(j)
		return when.Unix() > last+3600 && !linkedBy(trained, j, last)
	}
	for k, i := range out.Problem.Train.Source {
		if j := out.Problem.Train.Target[k]; newer(i, j) {
			t.Fatalf("item %d, newer than all links of person %d, is learned from", j, i)
		}
	}
	if out.Problem.Train.Universe >= g.PairCount() || out.Problem.Train.Len() != int(out.Problem.Train.Universe) {
		t.Errorf("%d pairs of %d are learned from, %d drawn", out.Problem.Train.Universe, g.PairCount(),
			out.Problem.Train.Len())
	}
	judged := g.PairCount() - int64(out.Split.Known(graph.Test).LinkCount())
	if out.Links.Unused != 0 || out.Test.Pairs.Universe != judged {
		t.Errorf("%d links are unused, and %d pairs judged by", out.Links.Unused, out.Test.Pairs.Universe)
	}
	plan.Available = false
	if all := must(prepare(t, g, plan, nil))(t); all.Problem.Train.Universe != g.PairCount() {
		t.Errorf("%d of %d pairs", all.Problem.Train.Universe, g.PairCount())
	}
	plan = Plan{Split: AtRandom, Available: true}
	parted := must(prepare(t, g, plan, nil))(t)
	if parted.Available == nil {
		t.Error("people were split, and nothing says what was available")
	}
}

// A sampled log of what was not there says that it was not shown, which is nothing new, and is left out; what was shown
// nevertheless is learned from. The activity of the nodes is that of the training links.
func TestLogOfWhatWasNotThere(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for k, n := range []graph.Node{{Role: graph.SourceOnly}, {Role: graph.TargetOnly}, {Role: graph.TargetOnly},
		{Role: graph.TargetOnly}, {Role: graph.TargetOnly}} {
		n.ID, n.Time = fmt.Sprint(k), time.Unix(int64(k)*1000, 0)
		if k >= 3 {
			n.Time = n.Time.Add(100 * time.Hour)
		}
		must(b.AddNode(n))(t)
	}
	if err := b.AddLinkAt(0, 1, 2500); err != nil {
		t.Fatal(err)
	}
	g, _, err := b.Build()
	log := &ExposureLog{Source: []int32{0, 0, 0}, Target: []int32{2, 3, 4}, Exposed: []bool{false, false, true},
		Linked: make([]bool, 3)}
	got := must(Prepare(t.Context(), must(g, err)(t), Options{Log: log, Origin: Origin{Plan: Plan{Split: Whole,
		Later: true, Available: true}}}))(t).Problem
	if want := []int32{1, 2, 4}; !slices.Equal(got.Train.Target, want) {
		t.Errorf("the training targets are %v, want %v", got.Train.Target, want)
	}
	if a := got.Nodes.Activity; a.When[0] != 2500+3600 || a.When[2] != 2000 {
		t.Errorf("activity %+v", a)
	}
}

// linkedBy reports whether anybody linked to an item until a time, with an hour's slack.
func linkedBy(g *graph.Graph, j int32, last int64) bool {
	for _, i := range g.In(j) {
		if g.OutTimes(i)[slices.Index(g.Out(i), j)] <= last+3600 {
			return true
		}
	}
	return false
}

// People and items without fields get them by their training links, whichever way those are held out.
func TestFieldsByActivityOfPlans(t *testing.T) {
	t.Parallel()
	g := shop(t, 80, 40, 900, true)
	for _, plan := range []Plan{{Split: LastLinks}, {Split: AtRandom}, {Split: Whole}} {
		out := must(Prepare(t.Context(), g, Options{Origin: Origin{Fields: FieldsBy{Kind: "activity", Count: 3},
			Plan: plan}}))(t)
		if out.Graph.FieldCount() != g.FieldCount() {
			t.Errorf("%s: %d fields, where every node has one of %d", plan.Split, out.Graph.FieldCount(),
				g.FieldCount())
		}
	}
	_, err := Prepare(t.Context(), g, Options{Origin: Origin{Fields: FieldsBy{Kind: "luck"}}})
	if err == nil || !strings.Contains(err.Error(), "luck") {
		t.Errorf("fields by luck: %v", err)
	}
}

// Of the pairs that a complete log shows as many are shown in every subset as in the log: held-out pairs are in no
// other subset, those of people without a log neither.
func TestCompleteLogIsDivided(t *testing.T) {
	t.Parallel()
	g := shop(t, 300, 100, 6000, true)
	r := rand.New(rand.NewPCG(3, 3))
	log, shown, all := &ExposureLog{}, 0., 0.
	for _, i := range g.Sources() {
		for _, j := range g.Targets() {
			if all++; g.HasLink(i, j) || r.IntN(3) == 0 {
				shown++
				log.Source, log.Target = append(log.Source, i), append(log.Target, j)
				log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, g.HasLink(i, j))
			}
		}
	}
	half := &ExposureLog{}
	for k, i := range log.Source {
		if i%2 == 0 {
			half.Source, half.Target = append(half.Source, i), append(half.Target, log.Target[k])
			half.Exposed, half.Linked = append(half.Exposed, true), append(half.Linked, log.Linked[k])
		}
	}
	linkRate := float64(g.LinkCount()) / all
	for _, split := range []SplitKind{LastLinks, RandomLinks} {
		for name, known := range map[string]*ExposureLog{"all": log, "half": half} {
			plan := Plan{Split: split, Log: Complete, EveryShown: true}
			out := must(prepare(t, g, plan, known))(t)
			for subset, e := range map[string]Evidence{"train": out.Problem.Training(), "test": out.Test} {
				var seen, logged, links, pairs float64
				for k, w := range e.Pairs.Weight {
					if pairs += w; e.Pairs.Linked[k] {
						links += w
					}
					if e.Exposure[k] != risk.Unlogged {
						logged += w
					}
					if e.Exposure[k] == risk.Exposed {
						seen += w
					}
				}
				if got, want := seen/logged, shown/all; math.Abs(got/want-1) > .08 {
					t.Errorf("%s, %s, %s: %.3f of the pairs are shown, by the log %.3f", split, name, subset, got, want)
				}
				if got := links / pairs; math.Abs(got/linkRate-1) > .1 {
					t.Errorf("%s, %s, %s: %.3f of the pairs are linked, not %.3f", split, name, subset, got, linkRate)
				}
			}
		}
	}
}

// All shown pairs of a complete log are taken where that is asked for, each for itself, and the sample still stands for
// all pairs.
func TestEveryShown(t *testing.T) {
	t.Parallel()
	g := shop(t, 120, 60, 1200, true)
	r := rand.New(rand.NewPCG(2, 2))
	log := &ExposureLog{}
	for _, i := range g.Sources() {
		for _, j := range g.Targets() {
			if linked := g.HasLink(i, j); linked || r.IntN(10) == 0 {
				log.Source, log.Target = append(log.Source, i), append(log.Target, j)
				log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, linked)
			}
		}
	}
	plan := Plan{Split: RandomLinks, Log: Complete, EveryShown: true, PerLink: 1}
	out := must(prepare(t, g, plan, log))(t)
	want := 0
	for k, i := range log.Source {
		if !log.Linked[k] && plan.loggedIn(out, i, log.Target[k]) == graph.Train {
			want++
		}
	}
	p := out.Problem
	shown, sum := 0, 0.
	for k, e := range p.Exposure {
		if sum += p.Train.Weight[k]; e == risk.Exposed && !p.Train.Linked[k] {
			if shown++; p.Train.Weight[k] != 1 {
				t.Errorf("a shown pair has the weight %v", p.Train.Weight[k])
			}
		}
	}
	if !p.EveryShown || shown != want {
		t.Errorf("%d of %d shown pairs; %v", shown, want, p.EveryShown)
	}
	if own := graph.DefaultShares; math.Abs(sum/float64(g.PairCount())/(1-own.Validation-own.Test)-1) > .1 {
		t.Errorf("the sample stands for %v pairs of %v", sum, g.PairCount())
	}
	plan.EveryShown = false
	if p = must(prepare(t, g, plan, log))(t).Problem; p.EveryShown {
		t.Error("all shown pairs, without being asked for")
	}
}

// What a recommender showed later teaches beside a complete log, which stays as it is.
func TestOfferedBesideALog(t *testing.T) {
	t.Parallel()
	g := shop(t, 50, 20, 600, true)
	log, offered := &ExposureLog{}, &ExposureLog{}
	for _, i := range g.Sources() {
		for _, j := range g.Targets() {
			linked := g.HasLink(i, j)
			if linked || (i+j)%3 == 0 {
				log.Source, log.Target = append(log.Source, i), append(log.Target, j)
				log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, linked)
			} else if (i+j)%5 == 0 {
				offered.Source, offered.Target = append(offered.Source, i), append(offered.Target, j)
				offered.Exposed, offered.Linked = append(offered.Exposed, true), append(offered.Linked, j%2 == 0)
			}
		}
	}
	o := Options{Origin: Origin{Plan: Plan{Split: Whole, Log: Complete, PerLink: 100}}, Log: log}
	alone := must(Prepare(t.Context(), g, o))(t).Problem
	o.Offered = offered
	both := must(Prepare(t.Context(), g, o))(t).Problem
	var shown, linked, at int
	for k, e := range both.Exposure {
		if e == risk.Offered {
			shown++
			linked += bit(both.Train.Linked[k])
			continue
		}
		if at >= alone.Train.Len() || linkAt(both.Train, k) != linkAt(alone.Train, at) || e != alone.Exposure[at] {
			t.Fatalf("pair %d of the log is another", at)
		}
		at++
	}
	want := 0
	for _, is := range offered.Linked {
		want += bit(is)
	}
	if at != alone.Train.Len() || shown != len(offered.Source) || linked != want || want == 0 {
		t.Errorf("%d of %d pairs of the log, %d of %d offered, %d of %d linked", at, alone.Train.Len(), shown,
			len(offered.Source), linked, want)
	}
}

// A pair that was offered twice is missed only if it is missed twice; a chance that is none is refused.
func TestOfferedSeen(t *testing.T) {
	t.Parallel()
	g := shop(t, 50, 20, 600, true)
	i, j := g.Sources()[0], g.Targets()[0]
	for k := range g.Targets() {
		if j = g.Targets()[k]; !g.HasLink(i, j) {
			break
		}
	}
	offered := &ExposureLog{Source: []int32{i, i}, Target: []int32{j, j}, Exposed: []bool{true, true},
		Linked: []bool{false, false}, Seen: []float64{.5, .2}}
	o := Options{Origin: Origin{Plan: Plan{Split: Whole, Log: Offered, PerLink: 4}}, Log: offered}
	p := must(Prepare(t.Context(), g, o))(t).Problem
	var got []risk.Exposure
	for _, e := range p.Exposure {
		if e.IsOffered() {
			got = append(got, e)
		}
	}
	if len(got) != 1 || got[0] != risk.OfferedSeen(.6) {
		t.Errorf("offered %v, want one that is seen with .6", got)
	}
	for _, seen := range [][]float64{{.5, 0}, {.5, 1.1}, {.5, math.NaN()}, {.5}} {
		offered.Seen = seen
		if _, err := Prepare(t.Context(), g, o); !errors.Is(err, ErrShape) {
			t.Errorf("%v is taken", seen)
		}
	}
}

func bit(x bool) int {
	if x {
		return 1
	}
	return 0
}

// People and items without fields are grouped by whom they are linked with, by training links alone.
func TestFieldsByFactorsOfTrainingLinks(t *testing.T) {
	t.Parallel()
	const people, items, kinds = 90, 30, 3
	r := rand.New(rand.NewPCG(3, 4))
	made := func(lastAlike bool) *graph.Graph {
		var b graph.Builder
		for k := range people + items {
			n := graph.Node{ID: fmt.Sprint("person ", k), Role: graph.SourceOnly}
			if k >= people {
				n = graph.Node{ID: fmt.Sprint("item ", k), Role: graph.TargetOnly}
			}
			must(b.AddNode(n))(t)
		}
		for i := range people {
			for k, place := range r.Perm(items / kinds) { // items of the own kind, but for the last that are held out
				kind := i % kinds
				if k >= 7 && !lastAlike {
					kind = (kind + 1) % kinds
				}
				if err := b.AddLinkAt(int32(i), int32(people+place*kinds+kind), int64(k)); err != nil {
					t.Fatal(err)
				}
			}
		}
		g, _, err := b.Build()
		return must(g, err)(t)
	}
	for _, alike := range []bool{true, false} {
		g := made(alike)
		plan, _ := PlanFor(g)
		origin := Origin{Plan: plan, Fields: FieldsBy{Kind: "factors", Count: kinds, Seed: 1}}
		found := must(origin.WithFields(t.Context(), g, 1))(t)
		fields := map[string]int{}
		for i := range int32(people + items) {
			at := fmt.Sprintf("%v %d: %s", g.IsSource(i), i%kinds, found.FieldName(found.Field(i)))
			fields[at]++
		}
		if len(fields) != 2*kinds || found.FieldCount() != 1+2*kinds {
			t.Errorf("held-out links alike %v: %v", alike, fields)
		}
	}
	var none graph.Builder
	must(none.AddNode(graph.Node{ID: "person", Role: graph.SourceOnly}))(t)
	must(none.AddNode(graph.Node{ID: "item", Role: graph.TargetOnly}))(t)
	g, _, err := none.Build()
	_, err = Origin{Plan: Plan{Split: Whole}, Fields: FieldsBy{Kind: "factors", Count: 2}}.WithFields(t.Context(),
		must(g, err)(t), 1)
	if err == nil || !strings.Contains(err.Error(), "without training links") {
		t.Errorf("fields of nothing: %v", err)
	}
}
