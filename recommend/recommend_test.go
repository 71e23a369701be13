package recommend

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/encode"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// small is a graph of n nodes in three fields with times, links and vectors, and two models of it.
func small(t testing.TB, n int, kind string) (*graph.Graph, model.Model, model.Model) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(n)))
	var b graph.Builder
	for i := range n {
		must(b.AddNode(graph.Node{ID: fmt.Sprintf("p%02d", i), Title: fmt.Sprintf("Paper %d", i),
			Field: []string{"biology", "chemistry", "physics"}[i%3], Time: time.Date(1900+i, 1, 1, 0, 0, 0, 0,
				time.UTC)}))(t)
		for range 3 {
			if i > 5 {
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
	v := must(graph.NewVectors(n, 8))(t)
	for i := range n {
		row := make([]float32, 8)
		for k := range row {
			row[k] = float32(r.NormFloat64())
		}
		if i%7 == 3 { // ties: the same as the one before
			v.Load(row, int32(i-1))
		}
		if err := v.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
	}
	g = must(g.WithVectors(v))(t)
	build := func(method string, seed uint64) model.Model {
		nodes := model.NodesOf(g)
		link := must(model.NewLink(kind, nodes, model.LinkOptions{}))(t)
		propensity := must(model.NewPropensity("field-matrix", nodes, model.PropensityOptions{}))(t)
		m := model.Model{Method: method, Link: link, LinkParams: make([]float32, link.Size()), Propensity: propensity,
			PropensityParams: make([]float32, propensity.Size())}
		random := rand.New(rand.NewPCG(seed, seed))
		for _, params := range [][]float32{m.LinkParams, m.PropensityParams} {
			for k := range params {
				params[k] = float32(random.NormFloat64())
			}
		}
		return m
	}
	return g, build("bayes", 1), build("naive", 2)
}

// logit is z by one pair at a time.
func logit(m model.Model, i, j int32) float64 {
	var z [1]float32
	m.Link.Logits(z[:], m.LinkParams, model.Batch{Sources: []int32{i}, Targets: []int32{j}})
	return float64(z[0])
}

// TestTopIsTheBest holds lists against a sort of every pair, for all link models, with filters.
func TestTopIsTheBest(t *testing.T) {
	for _, kind := range []string{"diagonal", "diagonal-field", "low-rank", "mlp", "cosine", "diagonal+bonus"} {
		g, m, naive := small(t, 90, kind)
		r := must(New(g, m, Options{Naive: &naive, Threads: 2}))(t)
		queries := []Query{
			{K: 5}, {K: 200}, {K: 7, Linked: true}, {K: 10, Fields: []uint16{2}},
			{K: 4, From: time.Date(1930, 1, 1, 0, 0, 0, 0, time.UTC)},
			{K: 30, Until: time.Date(1930, 1, 1, 0, 0, 0, 0, time.UTC)}, {K: 6, Exclude: []int32{1, 2, 3, 40, 41}},
			{K: 9, Seen: true},
		}
		for source := int32(0); source < 90; source += 11 {
			for _, q := range queries {
				q.Source = r.Node(source)
				list := must(r.Top(t.Context(), q))(t)
				want := everyCandidate(g, m, naive, q)
				if list.Candidates != len(want) || len(list.Items) != min(q.K, len(want)) {
					t.Fatalf("%s %+v: %d items of %d candidates, want %d of %d", kind, q, len(list.Items),
						list.Candidates, min(q.K, len(want)), len(want))
				}
				checkItems(t, g, q, list.Items, want)
				if one := must(must(New(g, m, Options{Naive: &naive, Threads: 1}))(t).Top(t.Context(),
					q))(t); !reflect.DeepEqual(one, list) {
					t.Errorf("%s: another list with one thread", kind)
				}
			}
		}
	}
}

// scoredNode is a candidate with its logits by both models, and what it is ranked by.
type scoredNode struct {
	node                  int32
	order, z, seen, naive float64
}

// everyCandidate sorts all candidates of a query, best first.
func everyCandidate(g *graph.Graph, m, naive model.Model, q Query) (all []scoredNode) {
	source := q.Source.Index()
	for j := range int32(g.Len()) {
		when, _ := g.Time(j)
		if j == source || !g.IsTarget(j) || !q.Linked && g.HasLink(source, j) || q.Fields != nil &&
			!slices.Contains(q.Fields, g.Field(j)) || slices.Contains(q.Exclude, j) ||
			!q.From.IsZero() && when.Before(q.From) || !q.Until.IsZero() && !when.Before(q.Until) {
			continue
		}
		one := scoredNode{node: j, z: logit(m, source, j), naive: logit(naive, source, j)}
		var s [1]float32
		m.Propensity.Logits(s[:], m.PropensityParams, model.Batch{Sources: []int32{source}, Targets: []int32{j}})
		one.seen = math.Log(sigmoid(one.z)) + math.Log(sigmoid(float64(s[0])))
		if one.order = one.z; q.Seen {
			one.order = one.seen
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b scoredNode) int { return cmp.Compare(b.order, a.order) })
	return all
}

// checkItems holds a list against all candidates.
func checkItems(t *testing.T, g *graph.Graph, q Query, items []Item, all []scoredNode) {
	t.Helper()
	// ties may fall either way in float32
	isRank := func(rank int, of func(scoredNode) float64, mine float64) bool {
		first, last := 1, 0
		for _, w := range all {
			if of(w) > mine+1e-5 {
				first++
			}
			if of(w) > mine-1e-5 {
				last++
			}
		}
		return first <= rank && rank <= last
	}
	for k, item := range items {
		at := slices.IndexFunc(all, func(w scoredNode) bool { return w.node == item.Node })
		if at < 0 || math.Abs(all[at].order-all[k].order) > 1e-5 {
			t.Fatalf("%+v: place %d is %s, want %s", q, k+1, item.ID, g.ID(all[k].node))
		}
		if math.Abs(item.Logit-all[at].z) > 1e-4 || item.Rank != k+1 || item.Shown != 1 ||
			item.Title != g.Title(item.Node) {
			t.Fatalf("%+v, want z %v", item, all[at].z)
		}
		if !isRank(item.NaiveRank, func(w scoredNode) float64 { return w.naive }, all[at].naive) ||
			!isRank(item.ByLink, func(w scoredNode) float64 { return w.z }, all[at].z) ||
			!isRank(item.SeenRank, func(w scoredNode) float64 { return w.seen }, all[at].seen) {
			t.Fatalf("rank %d by naive, %d by ŷ and %d by π̂ŷ of %+v", item.NaiveRank, item.ByLink, item.SeenRank,
				all[at])
		}
		if !q.Seen && item.ByLink != k+1 {
			t.Errorf("place %d has corrected rank %d", k+1, item.ByLink)
		}
		if item.Hidden != (item.SeenRank > q.K && item.ByLink <= q.K) {
			t.Errorf("%+v: hidden?", item)
		}
		if k > 0 && !q.Seen && items[k-1].Logit == item.Logit && items[k-1].Node > item.Node {
			t.Errorf("equals are out of order: %d before %d", items[k-1].Node, item.Node)
		}
	}
}

// A new text with a node's vector and field has that node's list, the node itself in it.
func TestNewTextIsLikeItsNode(t *testing.T) {
	for _, kind := range []string{"diagonal", "diagonal-field", "low-rank+bonus"} {
		g, m, naive := small(t, 90, kind)
		r := must(New(g, m, Options{Naive: &naive}))(t)
		row := make([]float32, 8)
		g.Vectors().Load(row, 20)
		s := must(r.Vector(t.Context(), row, g.Field(20)))(t)
		got := must(r.Top(t.Context(), Query{Source: s, K: 90}))(t)
		want := must(r.Top(t.Context(), Query{Source: r.Node(20), K: 90, Linked: true}))(t)
		others := slices.DeleteFunc(got.Items, func(i Item) bool { return i.Node == 20 })
		for k := range want.Items {
			if a, b := others[k], want.Items[k]; a.Node != b.Node || a.Logit != b.Logit ||
				a.Propensity != b.Propensity {
				t.Fatalf("%s: place %d is %+v, of the node %+v", kind, k, a, b)
			}
		}
		if len(others) != len(want.Items) || got.Source.Node != -1 || got.Field != g.FieldName(g.Field(20)) {
			t.Errorf("%d items, source %+v", len(others), got.Source)
		}
		if field, probability, err := r.FieldOf(t.Context(), row); err != nil ||
			!(probability > 0 && probability <= 1) || int(field) >= g.FieldCount() {
			t.Errorf("field %d with probability %v: %v", field, probability, err)
		}
	}
	g, m, _ := small(t, 30, "mlp")
	r := must(New(g, m, Options{}))(t)
	s := must(r.Vector(t.Context(), []float32{1, 0, 0, 0, 0, 0, 0, 0}, 1))(t)
	if _, err := r.Top(t.Context(), Query{Source: s, K: 3}); !errors.Is(err, ErrModel) {
		t.Errorf("a network judges a new text: %v", err)
	}
}

// Exploring shows every candidate with the probability that it states, K at a time.
func TestExploreShowsWithItsProbability(t *testing.T) {
	g, m, _ := small(t, 40, "diagonal")
	r := must(New(g, m, Options{}))(t)
	const draws, k = 4000, 6
	for _, share := range []float64{.3, 1} {
		shown, stated := map[int32]int{}, map[int32]float64{}
		var shuffled, best float64
		var weights [k]float64 // of the first item by ŷ, by place: 1 over the chance to be there
		for seed := range uint64(draws) {
			list := must(r.Top(t.Context(), Query{Source: r.Node(39), K: k, Explore: share, Seed: seed}))(t)
			if len(list.Items) != k {
				t.Fatalf("%d items", len(list.Items))
			}
			if !slices.IsSortedFunc(list.Items, func(a, b Item) int { return cmp.Compare(b.Logit, a.Logit) }) {
				shuffled++
			}
			for i, item := range list.Items {
				if item.ByLink == 1 {
					best++
					weights[i] += 1 / item.Placed
				}
				if before, ok := stated[item.Node]; ok && before != item.Shown {
					t.Fatalf("%s is shown with %v and with %v", item.ID, before, item.Shown)
				}
				stated[item.Node] = item.Shown
				shown[item.Node]++
			}
		}
		if of := share * draws * (1 - 1./720); math.Abs(shuffled-of) > 5*math.Sqrt(of*(1-share))+10 {
			t.Errorf("%v of %v lists are out of order, and %v should be", shuffled, draws, of)
		}
		for place, sum := range weights { // each place as often as its chance says
			if sum /= best; math.Abs(sum-1) > 5*math.Sqrt(k/share/best) {
				t.Errorf("share %v, place %d: %v times as often as stated", share, place+1, sum)
			}
		}
		for j, p := range stated {
			share := float64(shown[j]) / draws
			if deviation := math.Sqrt(p * (1 - p) / draws); math.Abs(share-p) > 5*deviation+1e-9 {
				t.Errorf("%s is shown %.4f of the time, stated %.4f", g.ID(j), share, p)
			}
		}
		if len(stated) < 20 {
			t.Errorf("only %d of the candidates are ever shown", len(stated))
		}
	}
	// the best are there about as often as they should, also together: not all or none
	for seed := range uint64(draws) {
		list := must(r.Top(t.Context(), Query{Source: r.Node(39), K: k, Explore: .1, Seed: seed}))(t)
		best := 0
		for _, item := range list.Items {
			if item.ByLink <= k {
				best++
			}
		}
		if best < k-3 {
			t.Fatalf("seed %d: a tenth is explored, and %d of the %d best are left", seed, best, k)
		}
	}
}

// Shares are in proportion to √(ŷ(1−ŷ)(1+z²)), none beyond 1, and add up; also where one dwarfs all others.
func TestProportional(t *testing.T) {
	for _, scores := range [][]float32{{9, 9, -3, -4, -5}, {-40, 3, 8, -60, -41, 7, -42}, {0, 0, 0, 0},
		{-80, 20, -85, 20}, {-200, -300, -400, 90}} {
		room := &room{by: &scored{z: scores}}
		for j := range scores {
			room.kept = append(room.kept, int32(j))
		}
		for k := 1; k <= len(scores); k++ {
			p := make([]float64, len(scores))
			taught := room.teach(kern.Best(scores, room.kept, k), 1)
			share := taught.e
			taught.best = nil // what is explored alone
			taught.fill(p, 0)
			if !(share > 0 && share <= 1) {
				t.Errorf("%v, %d of them: a share of %v", scores, k, share)
			}
			for j := range p {
				p[j] /= share
			}
			var sum, c float64
			for j, x := range p {
				sum += x
				if x < 1 { // all others have one c
					z := float64(scores[j])
					w := math.Max(math.Sqrt(sigmoid(z)*sigmoid(-z)*(1+z*z)), 1e-18)
					if z > 16 {
						w = 1e-18 // float32 has no 1 − ŷ so small
					}
					if ratio := x / w; c == 0 {
						c = ratio
					} else if math.Abs(ratio-c) > 1e-2*c {
						t.Errorf("%v, %d of them: shares %v have no common factor", scores, k, p)
					}
				}
				if x > 1 || k < len(scores) && !(x > 0) && k-countSure(p) > 0 {
					t.Errorf("%v, %d of them: shares %v", scores, k, p)
				}
			}
			if math.Abs(sum-float64(k)) > 1e-9 {
				t.Errorf("%v: shares %v add up to %v, not %d", scores, p, sum, k)
			}
		}
	}
}

func countSure(p []float64) (n int) {
	for _, x := range p {
		if x == 1 {
			n++
		}
	}
	return n
}

// Every element is drawn as often as its share says, and there are always as many as the shares add up to.
func TestPivotal(t *testing.T) {
	const draws = 40_000
	for _, p := range [][]float64{
		{.5, .5}, {.2, .3, .5}, {1, .25, 0, .25, .25, .25, 1}, {.9, .9, .9, .3}, {.01, .02, .97, .6, .4},
		{0, .4, 1, .4, .4, .4, .4, 0},
		slices.Repeat([]float64{.05, .15}, 20), {.999, .001}, {1, 1}, {0, 1, 0},
		// several blocks, of which most are passed over
		slices.Concat(slices.Repeat([]float64{.001, .003}, 150), []float64{.9, 1, .5}, make([]float64, 300),
			slices.Repeat([]float64{.002}, 400), []float64{.2}),
	} {
		var total float64
		for _, x := range p {
			total += x
		}
		random := rand.New(rand.NewPCG(5, 6))
		counts := make([]int, len(p))
		for range draws {
			chosen := Draw(p, random)
			if len(chosen) != int(math.Round(total)) {
				t.Fatalf("%v: %d drawn", p, len(chosen))
			}
			for k, i := range chosen {
				if slices.Contains(chosen[:k], i) {
					t.Fatalf("%v: %d is drawn twice", p, i)
				}
				counts[i]++
			}
		}
		for i, x := range p {
			share := float64(counts[i]) / draws
			if math.Abs(share-x) > 4.5*math.Sqrt(x*(1-x)/draws) {
				t.Errorf("%v: element %d is drawn %.4f of the time", p, i, share)
			}
		}
	}
}

// oneByOne is Draw as it is defined, with a look at every element.
func oneByOne(p []float64, random *rand.Rand) (out []int) {
	total := 0.
	for _, x := range p {
		total += x
	}
	first, mass, from, held := -1, 0., 0, 0.
	winner := func(until int) int {
		u, last := random.Float64()*held, first
		if u < mass {
			return first
		}
		u -= mass
		for i := from; i < until; i++ {
			if x := p[i]; x > 0 && x < 1 {
				if last = i; u < x {
					break
				}
				u -= x
			}
		}
		return last
	}
	for i, b := range p {
		sum := held + b
		switch {
		case sum < 1:
			held = sum
		case b >= 1:
			out = append(out, i)
		default:
			taken, left := winner(i), i
			if random.Float64()*(2-sum) >= 1-b {
				taken, left = left, taken
			}
			out = append(out, taken)
			first, mass, from, held = left, sum-1, i+1, sum-1
		}
	}
	if held > 0 && len(out) < int(math.Round(total)) {
		out = append(out, winner(len(p)))
	}
	return out
}

// Whole blocks of elements are passed over, and the same are drawn: of many, with some of whom a list has most, some
// who are sure, and stretches of nobody.
func TestDrawByBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for trial := range 2000 {
		n := 1 + random.IntN(3000)
		p := make([]float64, n)
		for i := range p {
			if i/200%3 < 2 {
				p[i] = random.ExpFloat64()
			}
		}
		sum := 0.
		for _, x := range p {
			sum += x
		}
		whole := .3 + float64(random.IntN(12)) // no whole number, of which rounding alone would say when it is reached
		for i := range p {
			p[i] = min(whole*p[i]/max(sum, 1e-9), 1)
		}
		for range random.IntN(8) { // the best, and who is sure
			p[random.IntN(n)] = []float64{.97, .9, 1}[random.IntN(3)]
		}
		seed := random.Uint64()
		got := Draw(p, rand.New(rand.NewPCG(seed, 1)))
		if want := oneByOne(p, rand.New(rand.NewPCG(seed, 1))); !slices.Equal(got, want) {
			t.Fatalf("trial %d, %d elements: %v, not %v", trial, n, got, want)
		}
	}
}

// What is drawn with the sums of a room has the shares that are stated of every candidate, whoever else there is.
func TestTaughtSums(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 8))
	for range 200 {
		n := 1 + random.IntN(1000)
		room := &room{by: &scored{z: make([]float32, n)}}
		for j := range room.by.z {
			room.by.z[j] = float32(random.NormFloat64() * 9)
			if random.IntN(10) > 0 {
				room.kept = append(room.kept, int32(j))
			}
		}
		if len(room.kept) == 0 {
			continue
		}
		k := 1 + random.IntN(len(room.kept))
		taught := room.teach(kern.Best(room.by.z, room.kept, k), random.Float64())
		p := make([]float64, n)
		taught.fill(p, 0)
		total := 0.
		for b, whole := range taught.blocks() {
			sum := 0.
			for j := b * kern.SumBlock; j < min((b+1)*kern.SumBlock, n); j++ {
				if _, candidate := slices.BinarySearch(room.kept, int32(j)); !candidate && p[j] != 0 {
					t.Fatalf("node %d is no candidate, and has %v", j, p[j])
				}
				sum += p[j]
			}
			if total += sum; math.Abs(sum-whole) > 1e-9 {
				t.Fatalf("block %d of %d nodes adds up to %v, not %v", b, n, sum, whole)
			}
		}
		if math.Abs(total-float64(k)) > 1e-6 {
			t.Fatalf("%d of %d: shares add up to %v", k, n, total)
		}
	}
}

// Who may be recommended is the same, whether it is found by looking at every node or by leaving out a few.
func TestCandidates(t *testing.T) {
	g, m, _ := small(t, 60, "diagonal")
	r := must(New(g, m, Options{}))(t)
	for i := range int32(g.Len()) {
		for _, linked := range []bool{false, true} {
			var quick, slow room
			r.candidates(&quick, Query{Source: r.Node(i), Linked: linked})
			// never recommended anyway
			r.candidates(&slow, Query{Source: r.Node(i), Linked: linked, Exclude: []int32{i}})
			if !slices.Equal(quick.kept, slow.kept) {
				t.Fatalf("node %d, linked %v: %v, not %v", i, linked, quick.kept, slow.kept)
			}
		}
	}
}

// Diversity trades relevance for difference: at 0 it is the plain list, and along the dial fields even out.
func TestDiversity(t *testing.T) {
	g, m, _ := small(t, 90, "diagonal-field")
	r := must(New(g, m, Options{}))(t)
	alike := func(list *List) (same float64) {
		for i, a := range list.Items {
			for _, b := range list.Items[:i] {
				if a.Field == b.Field {
					same++
				}
			}
		}
		return same
	}
	plain := must(r.Top(t.Context(), Query{Source: r.Node(50), K: 12}))(t)
	tiny := must(r.Top(t.Context(), Query{Source: r.Node(50), K: 12, Diversity: 1e-12}))(t)
	if !reflect.DeepEqual(plain.Items, tiny.Items) {
		t.Error("hardly any diversity is another list")
	}
	full := must(r.Top(t.Context(), Query{Source: r.Node(50), K: 12, Diversity: 1}))(t)
	if alike(full) >= alike(plain) {
		t.Errorf("pairs of one field: %v with diversity, %v without", alike(full), alike(plain))
	}
	seen := map[string]bool{}
	for _, item := range full.Items {
		if seen[item.ID] {
			t.Errorf("%s is there twice", item.ID)
		}
		seen[item.ID] = true
	}
}

// An explanation adds up, and says what rests on little.
func TestExplanationAddsUp(t *testing.T) {
	g, m, naive := small(t, 60, "diagonal-field")
	m.Findings = must(json.Marshal(fit.Findings{Class: fit.Weak,
		Cells: []fit.CellFinding{{Source: 1, Target: 2, Links: 2, Pairs: 40, Lower: .1, Upper: .4,
			Relative: fit.Ratio{Value: .5}}}}))(t)
	r := must(New(g, m, Options{Naive: &naive}))(t)
	list := must(r.Top(t.Context(), Query{Source: r.Node(57), K: 60, Explain: true}))(t)
	weak := 0
	for _, item := range list.Items {
		link := item.Why.Children[0]
		var sum float64
		for _, child := range link.Children {
			sum += child.Value
		}
		if math.Abs(sum-item.Logit) > 1e-4 || math.Abs(link.Value-item.Logit) > 1e-9 || item.Why.Value != item.Link {
			t.Errorf("%s: the parts add up to %v, z is %v", item.ID, sum, item.Logit)
		}
		text := string(must(json.Marshal(item.Why))(t))
		if item.Weak {
			weak++
			if !strings.Contains(text, "little more than a guess") {
				t.Errorf("%s rests on little and does not say so", text)
			}
		}
		if item.Hidden && !strings.Contains(text, "hidden by exposure") {
			t.Errorf("%s does not say that it was hidden", text)
		}
	}
	says := func(w string) bool { return strings.Contains(w, "do not rely on the values") }
	if weak == 0 || !slices.ContainsFunc(list.Warnings, says) {
		t.Errorf("%d weak items, warnings %v", weak, list.Warnings)
	}
}

// With the encoder that made the vectors, items are explained by words, and a new text can be asked about.
func TestWordsExplain(t *testing.T) {
	titles := []string{"protein folding in yeast", "folding of paper", "yeast genetics", "star formation",
		"galaxies and stars", "dark matter halos", "yeast protein interaction", "stars in dark halos"}
	var docs encode.TextList
	var b graph.Builder
	for i, title := range titles {
		docs = append(docs, encode.Text{Title: title})
		must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Title: title, Field: []string{"biology", "physics"}[i/3%2]}))(t)
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := encode.Fit(t.Context(), docs, encode.Settings{Dim: 4, MinDocuments: 1})
	if err != nil {
		t.Fatal(err)
	}
	v := must(graph.NewVectors(len(docs), 4))(t)
	must(e.EncodeAll(t.Context(), docs, v, 1, nil))(t)
	g = must(g.WithVectors(v))(t)
	nodes := model.NodesOf(g)
	link := must(model.NewLink("diagonal", nodes, model.LinkOptions{}))(t)
	propensity := must(model.NewPropensity("field-matrix", nodes, model.PropensityOptions{}))(t)
	m := model.Model{Method: "bayes", Link: link, LinkParams: []float32{1, 2, 1, 3, -2}, Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size())}
	r := must(New(g, m, Options{Encoder: e, Document: func(i int32) (encode.Text, error) {
		return docs[i],
			nil
	}}))(t)
	check := func(q Query, target int32, word string) {
		t.Helper()
		q.Explain, q.K = true, 8
		for _, item := range must(r.Top(t.Context(), q))(t).Items {
			if item.Node != target {
				continue
			}
			link := item.Why.Children[0]
			if shared := item.Why.SharedWords(); (len(shared) > 0) != (word == "yeast") ||
				len(shared) > 0 && !slices.Contains(shared, word) {
				t.Errorf("%q has the words %q, which should have %q", item.Title, shared, word)
			}
			if !strings.Contains(link.Children[0].Message, word) {
				t.Errorf("%q is explained by %q, not by %q", item.Title, link.Children[0].Message, word)
			}
			var sum float64
			for _, child := range link.Children {
				sum += child.Value
			}
			if math.Abs(sum-item.Logit) > 1e-4 {
				t.Errorf("the words add up to %v, z is %v", sum, item.Logit)
			}
		}
	}
	check(Query{Source: r.Node(2)}, 6, "yeast")
	s, probability, err := r.Text(t.Context(), encode.Text{Body: "new results on yeast protein"}, nil)
	if err != nil || !(probability > 0 && probability <= 1) {
		t.Fatalf("probability %v: %v", probability, err)
	}
	check(Query{Source: s}, 6, "yeast")
	check(Query{Source: s}, 3, "”, in ") // no word is in both
	field := uint16(2)
	if s, probability, err = r.Text(t.Context(), encode.Text{Body: "yeast"}, &field); err != nil || probability != 1 ||
		s.field != 2 {
		t.Errorf("field %d, probability %v: %v", s.field, probability, err)
	}
	if _, _, err := r.Text(t.Context(), encode.Text{Body: "совсем другое письмо"}, nil); !errors.Is(err, ErrQuery) {
		t.Errorf("another script: %v", err)
	}
	r = must(New(g, m, Options{}))(t)
	if _, _, err := r.Text(t.Context(), encode.Text{Body: "yeast"}, nil); !errors.Is(err, ErrQuery) {
		t.Errorf("without an encoder: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	g, m, _ := small(t, 30, "diagonal")
	r := must(New(g, m, Options{}))(t)
	day := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, q := range []Query{
		{K: 3}, // of nobody
		{K: 0, Source: r.Node(0)}, {K: MaxK + 1, Source: r.Node(0)}, {K: 1, Source: r.Node(30)},
		{K: 1, Source: r.Node(-1)}, {K: 1, Source: r.Node(0), Diversity: 2},
		{K: 1, Source: r.Node(0), Explore: math.NaN()},
		{K: 1, Source: r.Node(0), Diversity: .5, Explore: .5}, {K: 1, Source: r.Node(0), Seen: true, Explore: .5},
		{K: 1, Source: r.Node(0), Compare: true}, {K: 1, Source: r.Node(0), Fields: []uint16{9}},
		{K: 1, Source: r.Node(0), From: day(2000), Until: day(1999)},
	} {
		if _, err := r.Top(t.Context(), q); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []Query{{K: 1, Source: r.Node(0), From: day(3000)},
		{K: 1, Source: r.Node(0), Fields: []uint16{}}} {
		if _, err := r.Top(t.Context(), q); !errors.Is(err, ErrNothing) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := r.Vector(t.Context(), make([]float32, 8), 1); !errors.Is(err, ErrQuery) {
		t.Errorf("a vector of zeros: %v", err)
	}
	if _, err := r.Vector(t.Context(), make([]float32, 7), 1); !errors.Is(err, ErrQuery) {
		t.Errorf("a short vector: %v", err)
	}
	if _, err := r.Vector(t.Context(), []float32{1, 2, 3, 4, 5, 6, 7, 8}, 100); !errors.Is(err, ErrQuery) {
		t.Errorf("an unknown field: %v", err)
	}
	m.Findings = []byte("{")
	if _, err := New(g, m, Options{}); !errors.Is(err, ErrModel) {
		t.Errorf("damaged findings: %v", err)
	}
}

// Side by side, the naive list is that of the naive model.
func TestCompare(t *testing.T) {
	g, m, naive := small(t, 90, "diagonal")
	both, one := must(New(g, m, Options{Naive: &naive}))(t), must(New(g, naive, Options{}))(t)
	list := must(both.Top(t.Context(), Query{Source: both.Node(0), K: 9, Compare: true}))(t)
	alone := must(one.Top(t.Context(), Query{Source: one.Node(0), K: 9}))(t)
	for k, item := range list.Naive {
		if item.Node != alone.Items[k].Node || item.NaiveRank != k+1 {
			t.Errorf("place %d of the naive list is %+v, want %s", k+1, item, alone.Items[k].ID)
		}
	}
	if len(list.Naive) != 9 || list.Items[0].ByLink != 1 {
		t.Errorf("%d naive items, the first item is %+v", len(list.Naive), list.Items[0])
	}
}

// Many may ask at once.
func TestConcurrentQueries(t *testing.T) {
	g, m, naive := small(t, 90, "diagonal")
	r := must(New(g, m, Options{Naive: &naive, Threads: 2}))(t)
	want := make([]*List, 90)
	for i := range want {
		want[i] = must(r.Top(t.Context(), Query{Source: r.Node(int32(i)), K: 5}))(t)
	}
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := worker; i < 90; i += 2 {
				list, err := r.Top(t.Context(), Query{Source: r.Node(int32(i)), K: 5})
				if err != nil || !reflect.DeepEqual(list, want[i]) {
					t.Errorf("node %d: another list, %v", i, err)
				}
			}
		})
	}
	wait.Wait()
}

// Places are those of the whole order, ties and all, however many are asked for and wherever they stand.
func TestRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 1 + rng.IntN(60)
		scores := make([]float32, n)
		var candidates []int32
		for j := range scores {
			scores[j] = float32(rng.IntN(12)) // many equals
			if rng.IntN(4) > 0 {
				candidates = append(candidates, int32(j))
			}
		}
		order := kern.Best(scores, candidates, len(candidates))
		want := map[int32]int{}
		for p, j := range order {
			want[j] = p + 1
		}
		few := rng.IntN(3)
		of := slices.Clone(order[:min(len(order), rng.IntN(12))])
		for k := range of {
			if few == 0 || few == 1 && k%5 == 0 { // somebody from further down
				of[k] = order[rng.IntN(len(order))]
			}
		}
		slices.Sort(of)
		of = slices.Compact(of)
		rng.Shuffle(len(of), func(a, b int) { of[a], of[b] = of[b], of[a] })
		got := ranks(scores, candidates, of)
		for k, j := range of {
			if got[k] != want[j] {
				t.Fatalf("node %d of %v is at %d, not %d; scores %v", j, of, got[k], want[j], scores)
			}
		}
	}
}

// After its vectors were closed a recommender says so.
func TestClosed(t *testing.T) {
	g, m, naive := small(t, 30, "diagonal")
	r := must(New(g, m, Options{Naive: &naive}))(t)
	source := must(r.Vector(t.Context(), []float32{1, 0, 0, 0, 0, 0, 0, 0}, 1))(t)
	if err := g.Vectors().Close(); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{
		"a node":   func() error { _, err := r.Top(t.Context(), Query{Source: r.Node(7), K: 3}); return err },
		"a vector": func() error { _, err := r.Top(t.Context(), Query{Source: source, K: 3}); return err },
		"another":  func() error { _, err := r.Vector(t.Context(), []float32{1, 0, 0, 0, 0, 0, 0, 0}, 1); return err },
		"a batch":  func() error { _, err := r.Batch(t.Context(), []int32{1, 2}, Query{K: 3}); return err },
		"bridges":  func() error { _, err := r.Bridges(t.Context(), BridgeSettings{}); return err },
		"an index": func() error { _, err := r.WriteIndex(t.Context(), t.TempDir()+"/index", "", false); return err },
	} {
		if err := ask(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What exposure hides is shown less than the rest of a list, with a naive model beside it or without.
func TestHiddenIsShownLess(t *testing.T) {
	t.Parallel()
	g, m, naive := small(t, 60, "diagonal")
	var hidden, others []float64
	for i := range int32(60) {
		for _, o := range []Options{{}, {Naive: &naive}} {
			r := must(New(g, m, o))(t)
			for _, item := range must(r.Top(t.Context(), Query{Source: r.Node(i), K: 10}))(t).Items {
				if item.Hidden {
					hidden = append(hidden, item.Propensity)
				} else {
					others = append(others, item.Propensity)
				}
			}
		}
	}
	mean := func(xs []float64) (sum float64) {
		for _, x := range xs {
			sum += x / float64(len(xs))
		}
		return sum
	}
	if len(hidden) == 0 || len(others) == 0 || mean(hidden) > .8*mean(others) {
		t.Errorf("π̂ is %v on average over %d hidden items and %v over %d others", mean(hidden), len(hidden),
			mean(others), len(others))
	}
}
