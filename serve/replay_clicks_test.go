package serve

import (
	"math"
	"net/http"
	"os"
	"strconv"
	"testing"

	"unseen/internal/racetest"
	"unseen/model"
	"unseen/serve/store"
)

// clickRound lets every reader ask once. A reader looks at place p with chance 1/p, and clicks on what is looked at and
// relevant with chance κ. It returns the same-field share of what was recommended.
func (r *replay) clickRound(n int, kappa float64) float64 {
	g := r.world.Graph()
	var same, all float64
	var batch eventBatch
	for i := range int32(g.Len()) {
		seed := uint64(n)*1_000_003 + uint64(i)
		a := want[RecommendResponse](r.c, http.StatusOK, "POST", "/api/v1/recommendations",
			RecommendRequest{Node: g.ID(i), K: r.k, Explore: &r.explore, Seed: &seed, Linked: true})
		for k, item := range a.Items {
			if all++; item.Field == a.Field {
				same++
			}
			j, _ := g.Index(item.ID)
			e := store.LogEvent{ID: a.List + "/" + item.ID, Kind: store.Shown, Source: a.Source.ID, Target: item.ID,
				Probability: item.Shown, Placed: item.Placed, List: a.List, Position: k + 1}
			batch.Events = append(batch.Events, e)
			if r.relevant[[2]int32{i, j}] && chance("look %d %d %d", n, i, j)*float64(k+1) < 1 &&
				chance("click %d %d %d", n, i, j) < kappa {
				e.ID, e.Kind = e.ID+"!", store.Clicked
				batch.Events = append(batch.Events, e)
			}
		}
		if len(batch.Events) > 9_000 || int(i) == g.Len()-1 {
			want[store.Result](r.c, http.StatusOK, "POST", "/api/v1/events", batch)
			batch.Events = nil
		}
	}
	return same / all
}

// learned is the share of relevant pairs by the live model, over that in truth.
func (r *replay) learned() float64 {
	m, _ := r.s.Current()
	n := r.s.Graph().Len()
	z, all := make([]float32, n), make([]int32, n)
	for j := range all {
		all[j] = int32(j)
	}
	var sum, truth float64
	for i := range int32(n) {
		sources := make([]int32, n)
		for j := range sources {
			sources[j] = i
		}
		m.Link.Logits(z, m.LinkParams, model.Batch{Sources: sources, Targets: all})
		for j := range int32(n) {
			if j != i {
				sum += 1 / (1 + math.Exp(-float64(z[j])))
				truth += r.world.Truth(i, j).Link
			}
		}
	}
	return sum / truth
}

// Readers click on three in ten of what they look at and want, and look at place p with chance 1/p. Trained on such
// clicks round by round, the service keeps to the share of relevant pairs, and its lists to what relevance alone gives.
// UNSEEN_REPLAY=20 runs twenty rounds of a larger population.
func TestReplayOfClicks(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJobsSurviveARestart trains beside requests")
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	nodes, rounds, within := 240, 4, .05
	if text := os.Getenv("UNSEEN_REPLAY"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("UNSEEN_REPLAY is %q; give a number of rounds", text)
		}
		nodes, within = 400, .02
	}
	const kappa = .3
	r := newReplay(t, nodes, 8, .1, "bayes")
	truth := r.truth()
	for n := range rounds {
		if n > 0 {
			r.retrain()
		}
		learned, share := r.learned(), r.clickRound(n, kappa)
		t.Logf("round %d: learned %.3f of the truth, share %.3f, by relevance %.3f", n, learned, share, truth)
		if math.Abs(learned-1) > .05 {
			t.Errorf("round %d: the learned share of relevant pairs is %.3f of the truth", n, learned)
		}
		if math.Abs(share-truth) > within {
			t.Errorf("round %d: %.3f of the lists are of their own field, and by relevance %.3f", n, share, truth)
		}
	}
	e, err := r.s.models.find(r.s.live.Load().current.digest)
	if err != nil || e.Log == nil || e.Log.Clicks == nil {
		t.Fatalf("%v, %+v", err, e)
	}
	s := e.Log.Clicks.Surface("")
	t.Logf("%+v, %+v", e.Log.Counts, s)
	if math.Abs(s.Kappa-kappa) > .1 || s.Theta[1] > .8 || s.Theta[7] > .35 {
		t.Errorf("clicks are believed to come with %.3f at places %.2f", s.Kappa, s.Theta[:8])
	}
	d, err := r.s.ModelDetail()
	if err != nil || d.Findings == nil || d.Findings.Offered == nil || d.Findings.Offered.Seen >= .5 {
		t.Errorf("%v: the doctor does not know how rarely wanting shows", err)
	}
}
