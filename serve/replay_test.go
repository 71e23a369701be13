package serve

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"

	"unseen/evaluate"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
	"unseen/serve/store"
	"unseen/world"
)

// replay is a population of readers on a world whose truth is known. Round after round each asks the service for a
// list, sees some of it, and clicks on what is relevant; then the service is trained anew.
//
//	list ~ ŷ ──► seen with probability π ──► reported as shown ──► clicked if relevant, o′ ~ Ber(y)
type replay struct {
	world    *world.World
	relevant map[[2]int32]bool // o′, once and for all: what was not linked because it was not seen still is
	s        *Service
	c        client
	k        int
	explore  float64
	clicked  []graph.Link          // in the last round
	lists    []evaluate.LoggedList // of the last round, with what was seen of them
	strange  bool                  // in clickRound, readers want what is not relevant by the links
	options  Options               // of the service, but for its folder
}

func newReplay(t *testing.T, nodes, k int, explore float64, method string) *replay {
	t.Helper()
	return replayOf(t, replay{k: k, explore: explore}, nodes, method)
}

// replayOf is newReplay of readers, and a service with options, that are set.
func replayOf(t *testing.T, of replay, nodes int, method string) *replay {
	t.Helper()
	w, err := world.New(t.Context(), world.Settings{
		Nodes: nodes, Dim: 16, Fields: world.EvenFields(3), Homophily: .5,
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .95, Seed: 11, Threads: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := w.Pairs(t.Context(), nodes*(nodes-1), world.Draw{Parts: 1})
	if err != nil {
		t.Fatal(err)
	}
	g, err := organic(w, all)
	if err != nil {
		t.Fatal(err)
	}
	r := &of
	r.world, r.relevant = w, map[[2]int32]bool{}
	r.serve(t, g, method)
	for k, relevant := range all.Relevant {
		if relevant {
			r.relevant[[2]int32{all.Pairs.Source[k], all.Pairs.Target[k]}] = true
		}
	}
	return r
}

// serve opens a service with a model of a graph.
func (r *replay) serve(t *testing.T, g *graph.Graph, method string) {
	t.Helper()
	folder := t.TempDir()
	if err := learn(t.Context(), folder, g, sample.Plan{Split: sample.Whole, Later: true, PerLink: 8, Seed: 1},
		method); err != nil {
		t.Fatal(err)
	}
	o := r.options
	o.Folder = folder
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r.s, r.c = s, client{t: t, h: s.Handler()}
}

// anew forgets the links of old and serves a model of those that came of the last round, as they come.
func (r *replay) anew(t *testing.T, method string) {
	t.Helper()
	links := &world.TruePairs{Pairs: &graph.Pairs{}}
	for _, link := range r.clicked {
		links.Pairs.Source, links.Pairs.Target, links.Pairs.Linked = append(links.Pairs.Source, link.Source),
			append(links.Pairs.Target, link.Target), append(links.Pairs.Linked, true)
	}
	g, err := organic(r.world, links)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(t, g, method)
}

// organic is the world with the links that came about before there was a service, between any two nodes. Every field
// has a coordinate of its own in the vectors, so that a link model can take exposure for relevance.
func organic(w *world.World, all *world.TruePairs) (*graph.Graph, error) {
	from := w.Graph()
	n := from.Len()
	b := new(graph.Builder)
	for f := range from.FieldCount() - 1 {
		if _, err := b.AddField(from.FieldName(uint16(f + 1))); err != nil {
			return nil, err
		}
	}
	for i := range int32(n) {
		if _, err := b.AddNode(graph.Node{ID: from.ID(i), Field: from.FieldName(from.Field(i)),
			Title: from.Title(i)}); err != nil {
			return nil, err
		}
	}
	for k, linked := range all.Pairs.Linked {
		if linked {
			if err := b.AddLinkIndex(all.Pairs.Source[k], all.Pairs.Target[k]); err != nil {
				return nil, err
			}
		}
	}
	g, _, err := b.Build()
	if err != nil {
		return nil, err
	}
	d := from.Vectors().Dim()
	longer, err := graph.NewVectors(n, d+g.FieldCount()-1)
	if err != nil {
		return nil, err
	}
	row := make([]float32, d+g.FieldCount()-1)
	for i := range int32(n) {
		clear(row)
		from.Vectors().Load(row[:d], i)
		row[d+int(g.Field(i))-1] = 1
		if err := longer.Set(i, row); err != nil {
			return nil, err
		}
	}
	return g.WithVectors(longer)
}

// chance is a number from 0 to 1 that a text decides.
func chance(format string, a ...any) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, format, a...)
	x := h.Sum64()
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	return float64(x>>11) / (1 << 53)
}

// round lets every reader ask once, through the service's own handlers, and returns the same-field share of what
// was recommended.
func (r *replay) round(n int) float64 {
	g := r.world.Graph()
	var same, all float64
	var batch eventBatch // reported at the end of the round: one append that is synced, not one for each reader
	report := func() {
		want[store.Result](r.c, http.StatusOK, "POST", "/api/v1/events", batch)
		batch.Events = nil
	}
	r.clicked, r.lists = nil, nil
	for i := range int32(g.Len()) {
		seed := uint64(n)*1_000_003 + uint64(i)
		a := want[RecommendResponse](r.c, http.StatusOK, "POST", "/api/v1/recommendations",
			RecommendRequest{Node: g.ID(i), K: r.k, Explore: &r.explore, Seed: &seed, Linked: true})
		list := evaluate.LoggedList{Source: i}
		for k, item := range a.Items {
			if all++; item.Field == a.Field {
				same++
			}
			j, _ := g.Index(item.ID)
			truth := r.world.Truth(i, j)
			if chance("seen %d %d %d", n, i, j) >= truth.Propensity {
				continue
			}
			e := store.LogEvent{ID: a.List + "/" + item.ID, Kind: store.Shown, Source: a.Source.ID, Target: item.ID,
				Probability: item.Shown * truth.Propensity, List: a.List, Position: k + 1}
			batch.Events = append(batch.Events, e)
			list.Items = append(list.Items, evaluate.LoggedItem{Target: j, Probability: e.Probability,
				Wanted: r.relevant[[2]int32{i, j}]})
			if r.relevant[[2]int32{i, j}] {
				e.ID, e.Kind = e.ID+"!", store.Clicked
				batch.Events = append(batch.Events, e)
				r.clicked = append(r.clicked, graph.Link{Source: i, Target: j})
			}
		}
		if r.lists = append(r.lists, list); len(batch.Events) > 9_000 { // a request takes 10,000
			report()
		}
	}
	report()
	return same / all
}

// retrain trains anew and waits.
func (r *replay) retrain() {
	r.c.t.Helper()
	job := want[Job](r.c, http.StatusAccepted, "POST", "/api/v1/jobs", JobRequest{Kind: "retrain"})
	job, err := r.s.WaitJob(r.c.t.Context(), job.ID)
	if err != nil || job.State != JobDone || !job.Deployed {
		r.c.t.Fatalf("%v, job %+v", err, job)
	}
}

// risks are those of the model that serves: by its lists, and by who knows y.
func (r *replay) risks() (*evaluate.LogRisk, float64) {
	r.c.t.Helper()
	m, _ := r.s.Current()
	g := r.s.Graph()
	by, err := evaluate.FromLog(r.c.t.Context(), g, m, r.lists, evaluate.LogSettings{Linked: true, Seed: 1})
	if err != nil {
		r.c.t.Fatal(err)
	}
	n := g.Len()
	z, all := make([]float32, n), make([]int32, n)
	for j := range all {
		all[j] = int32(j)
	}
	var sum float64
	for i := range int32(n) {
		m.Link.Logits(z, m.LinkParams, model.Batch{Sources: slices.Repeat([]int32{i}, n), Targets: all})
		for j := range int32(n) {
			if j != i {
				y, logit := r.world.Truth(i, j).Link, float64(z[j])
				sum += y*math.Log1p(math.Exp(-logit)) + (1-y)*math.Log1p(math.Exp(logit))
			}
		}
	}
	return by, sum / float64(n*(n-1))
}

// truth is the share of the same lists, made by who knows y.
func (r *replay) truth() float64 {
	g := r.world.Graph()
	nodes := model.NodesOf(g)
	link, err := model.NewLink("diagonal", nodes, model.LinkOptions{})
	if err != nil {
		r.c.t.Fatal(err)
	}
	propensity, err := model.NewPropensity("constant", nodes, model.PropensityOptions{})
	if err != nil {
		r.c.t.Fatal(err)
	}
	oracle, err := recommend.New(g, model.Model{
		Link: link, LinkParams: append(r.world.Weights(), float32(r.world.Bias())), Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size()),
	}, recommend.Options{})
	if err != nil {
		r.c.t.Fatal(err)
	}
	var same, all float64
	for n := range 5 {
		for i := range int32(g.Len()) {
			list, err := oracle.Top(r.c.t.Context(), recommend.Query{Source: oracle.Node(i), K: r.k,
				Explore: r.explore, Seed: uint64(n)*7_000_003 + uint64(i), Linked: true})
			if err != nil {
				r.c.t.Fatal(err)
			}
			for _, item := range list.Items {
				if all++; g.Field(item.Node) == g.Field(i) {
					same++
				}
			}
		}
	}
	return same / all
}

// A naive service that is trained on what comes of its own lists moves into the readers' own fields, round by round;
// one that reports what it showed and learns with that stays where relevance is. UNSEEN_REPLAY=20 runs twenty rounds of
// a larger population (of sixty rounds of 240 readers 54 had the risk in their interval, of twenty times three 19),
// UNSEEN_REPLAY_EXPLORE=.1 with another share of the places drawn.
func TestReplay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	nodes, k, rounds, within := 240, 16, 3, .05
	if text := os.Getenv("UNSEEN_REPLAY"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("UNSEEN_REPLAY is %q; give a number of rounds", text)
		}
		nodes, k, within = 400, 8, .03
	}
	explore := .1
	if text := os.Getenv("UNSEEN_REPLAY_EXPLORE"); text != "" {
		var err error
		if explore, err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatalf("UNSEEN_REPLAY_EXPLORE is %q; give a share from 0 to 1", text)
		}
	}
	naive := newReplay(t, nodes, k, explore, "naive")
	truth := naive.truth()
	var shares []float64
	for n := range rounds {
		if n > 0 {
			naive.anew(t, "naive")
		}
		shares = append(shares, naive.round(n))
	}
	t.Logf("by relevance %.3f; naive %.3f", truth, shares)
	if first, last := shares[0], shares[rounds-1]; first < truth+.1 || last < first+.05 {
		t.Errorf("naive: from %.3f to %.3f, where relevance has %.3f; it should be above and climb", first, last, truth)
	}
	corrected := newReplay(t, nodes, k, explore, "bayes")
	shares = nil
	for n := range rounds {
		if n > 0 {
			corrected.retrain()
		}
		shares = append(shares, corrected.round(n))
	}
	t.Logf("by relevance %.3f; corrected %.3f", truth, shares)
	for n, share := range shares {
		if math.Abs(share-truth) > within {
			t.Errorf("corrected, round %d: %.3f, where relevance has %.3f; it should be within %.2f", n+1, share,
				truth, within)
		}
	}
	// Three more rounds are shown by the last model, which has learned from none of them.
	var lists []evaluate.LoggedList
	for n := range 3 {
		corrected.round(rounds + n)
		lists = append(lists, corrected.lists...)
	}
	corrected.lists = lists
	by, risk := corrected.risks()
	t.Logf("the risk of the last model is %.4f; by what was shown, %.4f (%.4f to %.4f), and it believes %.4f", risk,
		by.Risk.Estimate, by.Risk.Lower, by.Risk.Upper, by.Believed)
	if risk < by.Risk.Lower || risk > by.Risk.Upper {
		t.Errorf("the true risk, %.4f, is not between %.4f and %.4f", risk, by.Risk.Lower, by.Risk.Upper)
	}
	d, err := corrected.s.ModelDetail()
	if err != nil || d.Logged == 0 {
		t.Errorf("the last model learned from no logged pair: %v", err)
	}
}
