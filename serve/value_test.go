package serve

import (
	"fmt"
	"html"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/recommend"
	"unseen/serve/store"
)

// exploreMuch logs a list for every node that explores most of its places, with clicks on what is relevant.
func exploreMuch(t testing.TB, s *Service, seed uint64) (lists int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	explore := .8
	for i := range 240 {
		n := seed*1000 + uint64(i)
		a, err := s.Recommend(t.Context(), RecommendRequest{Node: fmt.Sprint("p", i), K: 5, Explore: &explore, Seed: &n,
			Log: true})
		if err != nil {
			t.Fatal(err)
		}
		lists++
		var clicks []store.LogEvent
		for _, item := range a.Items {
			if rng.Float64() < .05+.9*item.Link {
				clicks = append(clicks, store.LogEvent{ID: a.List + item.ID, Kind: store.Clicked,
					Source: fmt.Sprint("p", i), Target: item.ID, List: a.List})
			}
		}
		if _, err := s.AppendEvents(t.Context(), clicks); err != nil {
			t.Fatal(err)
		}
	}
	return lists
}

// The log of a service that explores much says that its model is worth more than what was shown, and that lists at
// random are worth less; an empty log says that it cannot say. The page shows both.
func TestValueByTheLog(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	value := func(r JobRequest) Job {
		t.Helper()
		job := want[Job](c, 202, "POST", "/api/v1/jobs", r)
		job, err := s.WaitJob(t.Context(), job.ID)
		if err != nil || job.State != JobDone || job.Value == nil {
			t.Fatalf("%v: %+v", err, job)
		}
		return want[Job](c, 200, "GET", "/api/v1/jobs/"+job.ID, nil)
	}
	if job := value(JobRequest{Kind: "value"}); job.Value.Estimates != nil ||
		job.Value.Verdict != evaluate.PolicyUnknown ||
		!strings.Contains(job.Message, "is not known: the log has no lists with known probabilities") {
		t.Errorf("an empty log: %+v: %s", job.Value, job.Message)
	}
	if page := c.do("GET", "/runs", nil).Body.String(); !strings.Contains(page, "cannot be said") {
		t.Error("the page does not say that the log cannot say")
	}
	lists := 0
	for seed := range uint64(3) {
		lists += exploreMuch(t, s, seed)
	}
	job := value(JobRequest{Kind: "value"})
	v := job.Value
	if v.Verdict != evaluate.PolicyBetter || len(v.Estimates) != 3 || v.Lists != lists || v.Contexts != 240 ||
		v.Effective < evaluate.FewestEffective || len(v.Warnings) != 0 {
		t.Errorf("%+v", v)
	}
	_, live := s.Current()
	if want := "Model " + live[:12] + " is better than what the log did: +"; !strings.HasPrefix(job.Message, want) ||
		job.Model != live {
		t.Errorf("%q, want %q", job.Message, want)
	}
	random := value(JobRequest{Kind: "value", Rule: "uniform"})
	if !strings.Contains(random.Message, "The rule uniform ") || random.Value.Verdict == evaluate.PolicyBetter {
		t.Errorf("%s: %+v", random.Message, random.Value)
	}
	page := html.UnescapeString(c.do("GET", "/runs?job="+job.ID, nil).Body.String())
	for _, says := range []string{"is better than what the log did", "bounded DR", "better: +", "Value by the log"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page lacks %q", says)
		}
	}
	again := reopen(t, s)
	if kept, err := again.Job(job.ID); err != nil || kept.Value == nil || kept.Message != job.Message {
		t.Errorf("after a restart: %v, %+v", err, kept)
	}
}

// A model that has learned from the lists is valued by later ones, and by all with a warning where those say too
// little.
func TestValueAfterTraining(t *testing.T) {
	t.Parallel()
	s := open(t)
	lists := exploreMuch(t, s, 1)
	_, live := s.Current()
	learn := func() {
		t.Helper()
		totals, err := s.events.Totals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.models.mu.Lock()
		defer s.models.mu.Unlock()
		for k := range s.models.r.Models {
			s.models.r.Models[k].Seq = totals.Seq
		}
	}
	learn()
	for round, want := range []int{lists, lists, 2 * lists} {
		job, err := s.StartJob(JobRequest{Kind: "value", Model: live})
		if err != nil {
			t.Fatal(err)
		}
		if job, err = s.WaitJob(t.Context(), job.ID); err != nil || job.State != JobDone {
			t.Fatalf("%v: %+v", err, job)
		}
		warned := strings.Contains(strings.Join(job.Value.Warnings, " "), "has learned from")
		if job.Value.Lists != want || warned != (round == 0 || round == 2) {
			t.Errorf("round %d: %d lists, want %d; warnings %q", round, job.Value.Lists, want, job.Value.Warnings)
		}
		switch round {
		case 0:
			exploreMuch(t, s, 2) // after its training
		case 1:
			learn()
		}
	}
}

func TestValueRefusesRules(t *testing.T) {
	t.Parallel()
	s := open(t)
	if _, err := s.StartJob(JobRequest{Kind: "value", Rule: "luck"}); err == nil ||
		!strings.Contains(err.Error(), "rule is not a rule of lists") {
		t.Error(err)
	}
	c := client{t: t, h: s.Handler()}
	if w := c.do("POST", "/api/v1/jobs", JobRequest{Kind: "value", Rule: "luck"}); w.Code != 422 {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// logPlaces logs lists of five of the twenty best items of every node, the worst of them first but in a third of the
// lists, which are in any order. Readers look at place p with chance 1/p. It returns what the five best are worth, the
// best first.
func logPlaces(t *testing.T, s *Service, rounds int) (truth float64) {
	t.Helper()
	const k, of, nodes, shuffled = 5, 20, 240, 1. / 3
	rng := rand.New(rand.NewPCG(6, 1))
	wants := func(item recommend.Item) float64 { return .05 + .9*item.Link }
	for i := range nodes {
		a, err := s.Recommend(t.Context(), RecommendRequest{Node: fmt.Sprint("p", i), K: of, Explore: new(float64)})
		if err != nil || len(a.Items) != of {
			t.Fatalf("%v: %+v", err, a)
		}
		for place, item := range a.Items[:k] {
			truth += wants(item) / float64(place+1) / (nodes * k)
		}
		for round := range rounds {
			chosen := rng.Perm(of)[:k]
			slices.SortFunc(chosen, func(a, b int) int { return b - a })
			ranked := slices.Clone(chosen)
			if rng.Float64() < shuffled {
				rng.Shuffle(k, func(a, b int) { chosen[a], chosen[b] = chosen[b], chosen[a] })
			}
			var events []store.LogEvent
			list := fmt.Sprint(i, "/", round)
			for place, at := range chosen {
				e := store.LogEvent{ID: fmt.Sprint(list, "/", at), Kind: store.Shown, Source: fmt.Sprint("p", i),
					Target: a.Items[at].ID, List: list, Position: place + 1, Surface: "home",
					Probability: float64(k) / of, Placed: shuffled / k}
				if ranked[place] == at {
					e.Placed += 1 - shuffled
				}
				if events = append(events, e); rng.Float64()*float64(place+1) < wants(a.Items[at]) {
					e.ID, e.Kind = e.ID+"!", store.Clicked
					events = append(events, e)
				}
			}
			if _, err := s.AppendEvents(t.Context(), events); err != nil {
				t.Fatal(err)
			}
		}
	}
	return truth
}

// What chance has placed tells the service how often places are looked at, so that it values a policy rightly that has
// items at other places than the log had; places that count alike would give another value.
func TestValueOfPlaces(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Explore = -1 })
	truth := logPlaces(t, s, 8)
	job, err := s.StartJob(JobRequest{Kind: "value"})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil || job.Value == nil || job.Value.Reason != "" {
		t.Fatalf("%v: %+v", err, job)
	}
	logged, err := ReadLists(t.Context(), s.events, s.Graph(), s.listReading(s.Graph(), nil))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := s.live.Load().current.PolicyLists(t.Context(), logged.Lists, recommend.Policy{Explore: s.o.Explore,
		Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	alike, err := evaluate.ValuePolicy(lists)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range job.Value.Estimates {
		wrong, _ := alike.Estimate(e.Name)
		t.Logf("%s: %.4f ± %.4f, in truth %.4f; %.4f if places are alike", e.Name, e.Estimate, e.StandardError, truth,
			wrong.Estimate)
		if math.Abs(e.Estimate-truth) > 3*e.StandardError {
			t.Errorf("%s: %.4f ± %.4f, in truth %.4f", e.Name, e.Estimate, e.StandardError, truth)
		}
		if math.Abs(wrong.Estimate-truth) < 4*wrong.StandardError {
			t.Errorf("%s is no worse where places are alike: %.4f ± %.4f", e.Name, wrong.Estimate, wrong.StandardError)
		}
	}
	if len(job.Value.Warnings) > 0 {
		t.Error(job.Value.Warnings)
	}
}
