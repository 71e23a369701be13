package serve

import (
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"unseen/click"
	"unseen/fit"
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
			if r.relevant[[2]int32{i, j}] != r.strange && chance("look %d %d %d", n, i, j)*float64(k+1) < 1 &&
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

// clickRounds lets readers click, and the service learn from that, round after round. In every round the learned share
// of relevant pairs is within 5% of the truth, and the share of lists in their own field within a distance of what
// relevance alone gives.
func (r *replay) clickRounds(rounds int, kappa, within float64) {
	t, truth := r.c.t, r.truth()
	t.Helper()
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
}

// believed is what the live model was trained to believe of clicks.
func (r *replay) believed() *click.Surface {
	r.c.t.Helper()
	e, err := r.s.models.find(r.s.live.Load().current.digest)
	if err != nil || e.Log == nil || e.Log.Clicks == nil {
		r.c.t.Fatalf("%v, %+v", err, e)
	}
	s := e.Log.Clicks.Surface("")
	r.c.t.Logf("%+v, %+v", e.Log.Counts, s)
	return s
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
	r.clickRounds(rounds, kappa, within)
	s := r.believed()
	if math.Abs(s.Kappa-kappa) > .1 || s.Theta[1] > .8 || s.Theta[7] > .35 {
		t.Errorf("clicks are believed to come with %.3f at places %.2f", s.Kappa, s.Theta[:8])
	}
	d, err := r.s.ModelDetail()
	if err != nil || d.Findings == nil || d.Findings.Offered == nil || d.Findings.Offered.Seen >= .5 {
		t.Errorf("%v: the doctor does not know how rarely wanting shows", err)
	}
}

// Who knows how readers look and click can say so: the service then learns the same share of relevant pairs, round by
// round, with what it was given and nothing else.
func TestReplayOfGivenClicks(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJobsSurviveARestart trains beside requests")
	rounds, within := 4, .05
	if testing.Short() {
		rounds = 2
	}
	const places, kappa = 8, .3
	known := click.Surface{Kappa: kappa}
	for p := range places {
		known.Theta = append(known.Theta, 1/float64(p+1))
	}
	given := &click.Behaviour{Surfaces: []click.Surface{known}}
	if err := given.Give(); err != nil {
		t.Fatal(err)
	}
	r := replayOf(t, replay{k: places, explore: .1, options: Options{Clicks: Clicks{Given: given}}}, 240, "bayes")
	r.clickRounds(rounds, kappa, within)
	r.retrain()
	if learned := r.learned(); math.Abs(learned-1) > .05 {
		t.Errorf("at the end the learned share of relevant pairs is %.3f of the truth", learned)
	}
	s := r.believed()
	if !s.Given || s.Kappa != kappa || !slices.Equal(s.Theta, known.Theta) {
		t.Errorf("clicks are believed to come with %.3f at places %.2f; given was %+v", s.Kappa, s.Theta, known)
	}
	d, err := r.s.ModelDetail()
	if err != nil || strings.Contains(strings.Join(d.Findings.Verdict, " "), "cannot tell how often") {
		t.Errorf("%v: the doctor doubts what was given: %q", err, d.Findings.Verdict)
	}
}

// The doctor turns amber where log and links disagree, and everybody can see it: on the pages and in the API. Readers
// who click on what nobody links to make a model that the log contradicts; others do not.
func TestLogAndLinksDisagreeOnPages(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJobsSurviveARestart trains beside requests")
	const doubt = "what was logged contradicts"
	for _, strange := range []bool{false, true} {
		r := replayOf(t, replay{k: 8, explore: .1, strange: strange}, 240, "bayes")
		for n := range 2 {
			r.clickRound(n, .6)
		}
		r.retrain()
		d := want[ModelDetail](r.c, http.StatusOK, "GET", "/api/v1/model", nil)
		if (d.Findings.Class == fit.Weak) != strange || strings.Contains(d.Doubt, doubt) != strange {
			t.Errorf("strange readers %t: the API says %q, and of doubt %q", strange, d.Findings.Class, d.Doubt)
		}
		site := httptest.NewServer(r.s.Handler())
		t.Cleanup(site.Close)
		amber := fmt.Sprintf(`<span class="badge fair"><span aria-hidden="true">~</span> %s</span>`, fit.Weak)
		for _, path := range []string{"/", "/explore", "/exposure", "/runs"} {
			if page := pageOf(t, site.URL+path); strings.Contains(page, amber) != strange {
				t.Errorf("strange readers %t: %s is amber: %t", strange, path, !strange)
			}
		}
		if page := pageOf(t, site.URL+"/exposure"); strings.Contains(page, doubt) != strange {
			t.Errorf("strange readers %t: the page says that log and links disagree: %t", strange, !strange)
		}
		if strange && !testing.Short() {
			b := openTab(t, site.URL)
			b.look("/exposure", 1000, "light")
			b.until("the verdict", "document.querySelector('#doctor-title .badge.fair')?.checkVisibility()")
			b.until("the reason", "document.querySelector('#doctor-title + .warning')?.checkVisibility()")
			b.picture("exposure-doubt")
			b.quiet("a model that the log contradicts")
		}
	}
}

// pageOf reads a page from a site.
func pageOf(t *testing.T, address string) string {
	t.Helper()
	a, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	page, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, status %d", address, err, a.StatusCode)
	}
	return html.UnescapeString(string(page))
}
