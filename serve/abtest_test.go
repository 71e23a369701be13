package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"unseen/internal/racetest"
	"unseen/serve/store"
)

// The error of a rate is that of sources, which are far from independent items.
func TestRateError(t *testing.T) {
	t.Parallel()
	tl := &tally{Sources: map[string]*[3]int32{}}
	for i := range 100 { // half of the sources click everything, the others nothing
		c := [3]int32{10, 0, 0}
		if i%2 == 0 {
			c[1] = 10
		}
		tl.Sources[fmt.Sprint(i)] = &c
	}
	r := tl.rate(1)
	if want := math.Sqrt(.25 / 99); r.value != .5 || math.Abs(r.err-want) > 1e-12 || r.sources != 100 || r.hit != 50 {
		t.Errorf("%+v, want the error %v", r, want)
	}
	for i := range 100 { // all alike: nothing says how far they differ
		tl.Sources[fmt.Sprint(i)] = &[3]int32{10, 3, 0}
	}
	if r := tl.rate(1); r.value != .3 || r.err != 0 || r.interval().Low != nil {
		t.Errorf("%+v", r)
	}
	// 1.5 times 1.96 where it is narrowest
	if w := alwaysValid(1, 1000); math.Abs(w-3.03) > .01 || alwaysValid(1, 10) < w || alwaysValid(1, 1e7) < w {
		t.Errorf("width %v", w)
	}
}

// plantedTrial is an A/B test of two models that are equally good, day by day.
type plantedTrial struct {
	name              string
	mean, spread      float64 // of the sources' chances of a click, a beta distribution
	atStart, newDaily int     // sources
	returning         float64 // chance that a source comes again on a day
	shown             int     // items of a visit
	share             float64
}

// run shows and clicks for 60 days, and calls look every evening.
func (p plantedTrial) run(rng *rand.Rand, look func(a, b clusterRate)) {
	var arms [2]tally
	var chances [2][]float64
	visit := func(arm, i int) {
		of := arms[arm].Sources[fmt.Sprint(i)]
		of[0] += int32(p.shown)
		for range p.shown {
			if rng.Float64() < chances[arm][i] {
				of[1]++
			}
		}
	}
	arrive := func() {
		arm := 0
		if rng.Float64() < p.share {
			arm = 1
		}
		if arms[arm].Sources == nil {
			arms[arm].Sources = map[string]*[3]int32{}
		}
		i := len(chances[arm])
		x, y := gammaDraw(rng, p.mean*p.spread), gammaDraw(rng, (1-p.mean)*p.spread)
		chances[arm] = append(chances[arm], x/(x+y))
		arms[arm].Sources[fmt.Sprint(i)] = new([3]int32)
		visit(arm, i)
	}
	for range p.atStart {
		arrive()
	}
	for range 60 {
		for arm := range arms {
			for i := range chances[arm] {
				if rng.Float64() < p.returning {
					visit(arm, i)
				}
			}
		}
		for range p.newDaily {
			arrive()
		}
		look(arms[0].rate(1), arms[1].rate(1))
	}
}

// gammaDraw draws from a gamma distribution of scale 1 (Marsaglia and Tsang 2000).
func gammaDraw(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gammaDraw(rng, shape+1) * math.Pow(rng.Float64(), 1/shape)
	}
	d := shape - 1./3
	for {
		x := rng.NormFloat64()
		v := math.Pow(1+x/math.Sqrt(9*d), 3)
		if v > 0 && math.Log(rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// Somebody looks at a test every day. The chance that an interval ever misses the truth is 5% at most; that of
// intervals for one look is many times as large.
func TestLookingEveryDay(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it computes alone, in one goroutine")
	const trials = 200
	for seed, p := range []plantedTrial{
		{"rare clicks, new sources every day", .02, 5, 0, 40, .05, 5, .5},
		{"frequent clicks", .2, 3, 0, 20, .1, 5, .5},
		{"the same sources every day", .1, 2, 200, 0, .3, 5, .5},
		{"a small arm", .1, 3, 0, 40, .1, 5, .1},
		{"clicks of one in two hundred", .005, 2, 0, 100, .05, 10, .5},
	} {
		t.Run(p.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			missed, missedArm, missedOnce, looked := 0, 0, 0, 0
			for range trials {
				var pair, arm, once, told bool
				p.run(rng, func(a, b clusterRate) {
					d := difference(a, b)
					pair = pair || d.decided()
					told = told || d.Low != nil
					if in := a.interval(); in.Low != nil && (p.mean < *in.Low || p.mean > *in.High) {
						arm = true
					}
					// an interval for one look, with all the data that ours asks for
					once = once || d.Low != nil && math.Abs(*d.Value) > 1.96*math.Hypot(a.err, b.err)
				})
				for count, yes := range map[*int]bool{&missed: pair, &missedArm: arm, &missedOnce: once,
					&looked: told} {
					if yes {
						*count++
					}
				}
			}
			t.Logf("of %d trials: the difference was missed in %d, arm a in %d, by intervals for one look in %d",
				trials, missed, missedArm, missedOnce)
			most := .05*float64(trials) + 2*math.Sqrt(.05*.95*float64(trials)) // 5%, and what chance adds
			if float64(missed) > .05*float64(trials) || float64(missedArm) > most {
				t.Errorf("the difference was missed in %d trials, arm a in %d, of %d", missed, missedArm, trials)
			}
			if float64(missedOnce) < most || looked < trials*9/10 {
				t.Errorf("intervals for one look missed in %d, and %d of %d had any: the trials test nothing",
					missedOnce, looked, trials)
			}
		})
	}
}

// An arm without data is null, and so is an interval that too few sources are behind.
func TestArmsWithoutData(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	startTest(t, s, ABTestRequest{Share: .5})
	w := c.do("GET", "/api/v1/ab-test", nil)
	var got struct {
		Arms       []map[string]json.RawMessage
		Difference json.RawMessage
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Arms) != 2 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	const null = `{"value":null,"low":null,"high":null}`
	for _, arm := range got.Arms {
		if string(arm["clicksPerShown"]) != null || string(arm["linksPerShown"]) != null {
			t.Errorf("%s", w.Body)
		}
	}
	if string(got.Difference) != null {
		t.Errorf("difference %s", got.Difference)
	}
	c.list("k=5&log=true&node=p1")
	settle(t, s)
	for _, arm := range want[Comparison](c, 200, "GET", "/api/v1/ab-test", nil).Arms {
		if (arm.Shown > 0) != (arm.Clicks.Value != nil) || arm.Clicks.Low != nil {
			t.Errorf("%+v", arm)
		}
	}
	for _, path := range []string{"/runs", "/api/v1/ab-test"} {
		if w := c.do("GET", path, nil); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// startTest trains another model and tests it.
func startTest(t *testing.T, s *Service, r ABTestRequest) *ABTest {
	t.Helper()
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil || job.State != JobDone {
		t.Fatalf("%v, %+v", err, job)
	}
	r.Model = job.Model
	test, err := s.StartABTest(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return test
}

// clickedMore makes the log of a test in which model b gets more clicks.
func clickedMore(t *testing.T, s *Service, test *ABTest) {
	t.Helper()
	line := s.live.Load()
	var events []store.LogEvent
	for n := range 240 {
		source := fmt.Sprintf("p%d", n)
		m, arm := line.of(source)
		for k := range 5 {
			event := store.LogEvent{ID: fmt.Sprint("s", n, ".", k), Kind: store.Shown, Source: source,
				Target: fmt.Sprintf("p%d", (n+k+1)%240), Model: m.digest, List: fmt.Sprint(n)}
			events = append(events, event)
			if k < 1+n%2 || arm == "b" && k < 3+n%2 {
				event.ID, event.Kind = "c"+event.ID, store.Clicked
				events = append(events, event)
			}
		}
	}
	if _, err := s.AppendEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
}

// A test ends by a rule that was set before, and by nothing else: not by data without a rule, not by retraining, not by
// a restart, and not because the file of its model is gone for a while. Long because it is one sequence: what one step
// leaves is what the next one must not end.
func TestABTestRules(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	start := func() *Service {
		t.Helper()
		s, err := Open(t.Context(), Options{Folder: folder, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := start()
	for _, r := range []ABTestRequest{{Model: "abcdef123456", Share: .5, Until: now}, {Model: "abcdef123456"}} {
		if _, err := s.StartABTest(t.Context(), r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	test := startTest(t, s, ABTestRequest{Share: .5})
	clickedMore(t, s, test)
	runs := func(why string) {
		t.Helper()
		if err := s.applyRules(); err != nil {
			t.Fatal(err)
		}
		if got := s.live.Load().abTest; got == nil || got.Since != test.Since {
			t.Fatalf("%s: the test is %+v", why, got)
		}
	}
	if d := s.Compare().Difference; !d.decided() {
		t.Fatalf("%+v", d)
	}
	runs("a difference is clear, and no rule says that this ends the test")
	now = now.AddDate(1, 0, 0)
	runs("a year has passed")
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive"})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil || job.Deployed {
		t.Fatalf("%v, %+v", err, job)
	}
	runs("a model was trained")
	file := s.models.path(test.B)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	s = start()
	runs("its model cannot be read")
	if a, err := s.Recommend(t.Context(), RecommendRequest{Node: "p1", K: 3}); err != nil || a.Arm != "" ||
		a.Model != test.A {
		t.Errorf("%v, %+v", err, a)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	s = start()
	runs("a restart")
	if d := s.Compare().Difference; !d.decided() {
		t.Errorf("after restarts the difference is %+v", d)
	}
	if err := s.EndABTest(); err != nil {
		t.Fatal(err)
	}
	ends := func(r ABTestRequest, before func(*ABTest), reason ABTestEnd) {
		t.Helper()
		r.Model, r.Share = test.B, .5
		next, err := s.StartABTest(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.applyRules(); err != nil || s.live.Load().abTest == nil {
			t.Fatalf("%v: ended at once", err)
		}
		before(next)
		if err := s.applyRules(); err != nil {
			t.Fatal(err)
		}
		if last := s.Compare().Last; s.live.Load().abTest != nil || last == nil || last.Reason != reason ||
			last.Since != next.Since {
			t.Errorf("%+v ended as %+v", r, last)
		}
	}
	week := now.AddDate(0, 0, 7)
	ends(ABTestRequest{Until: week}, func(*ABTest) { now = week }, EndedByTime)
	ends(ABTestRequest{}, func(*ABTest) {
		if _, err := s.Deploy(t.Context(), test.B); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Deploy(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}, EndedByDeploy)
	if w := (client{t: t, h: s.Handler()}).do("GET", "/runs", nil); !strings.Contains(w.Body.String(),
		"a model was deployed") {
		t.Error("the page does not say how the last test ended")
	}
	s2 := open(t)
	decided := startTest(t, s2, ABTestRequest{Share: .5, WhenDecided: true})
	if err := s2.applyRules(); err != nil || s2.live.Load().abTest == nil {
		t.Fatalf("%v: ended without data", err)
	}
	clickedMore(t, s2, decided)
	if err := s2.applyRules(); err != nil {
		t.Fatal(err)
	}
	if last := s2.Compare().Last; s2.live.Load().abTest != nil || last == nil || last.Reason != EndedByDecision ||
		!last.Difference.decided() || len(last.Arms) != 2 || *last.Arms[1].Clicks.Value < *last.Arms[0].Clicks.Value {
		t.Errorf("ended as %+v", last)
	}
}
