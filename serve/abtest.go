package serve

import (
	"context"
	"fmt"
	"math"
	"time"

	"unseen/hint"
)

// Comparison compares the clicks and links of models.
type Comparison struct {
	ABTest *ABTest `json:"abTest,omitempty" doc:"the A/B test, if one runs"`
	Trial  *ABTest `json:"trial,omitempty" deprecated:"true" doc:"old name of abTest"`
	Arms   []Arm   `json:"arms"`
	// Difference is nil without an A/B test.
	Difference *Rate        `json:"difference,omitempty" doc:"clicks per shown item of b minus those of a"`
	Last       *EndedABTest `json:"last,omitempty" doc:"the last A/B test that ended, as it was then"`
}

// Arm is the clicks and links of one model.
type Arm struct {
	Name    string `json:"name" doc:"a or b; empty without an A/B test"`
	Model   string `json:"model"`
	Shown   int64  `json:"shown"`
	Clicked int64  `json:"clicked"`
	Linked  int64  `json:"linked"`
	Sources int    `json:"sources"`
	Clicks  Rate   `json:"clicksPerShown"`
	Links   Rate   `json:"linksPerShown"`
}

// Rate is a number of events per shown item, with an interval that may be looked at as often as one likes: the chance
// that it ever misses the truth, at any look, is 5%. It assumes that sources, not items, are independent.
type Rate struct {
	Value *float64 `json:"value" doc:"events per shown item; null where nothing was shown"`
	Low   *float64 `json:"low" doc:"lower end of the always-valid 95% interval; null with too little data"`
	High  *float64 `json:"high" doc:"upper end of the always-valid 95% interval; null with too little data"`
}

// EndedABTest is an A/B test that has ended.
type EndedABTest struct {
	ABTest
	Ended      time.Time `json:"ended"`
	Reason     ABTestEnd `json:"reason" enum:"person,deployed,until,decided" doc:"what ended it"`
	Arms       []Arm     `json:"arms" doc:"the models when it ended"`
	Difference *Rate     `json:"difference,omitempty" doc:"clicks per shown item of b minus those of a"`
}

// ABTestEnd is what ended an A/B test.
type ABTestEnd string

// An A/B test is ended by a person, or by a rule that was set when it was started.
const (
	EndedByPerson   ABTestEnd = "person"   // who asked for it
	EndedByDeploy   ABTestEnd = "deployed" // by a person who deployed a model, or configured another one
	EndedByTime     ABTestEnd = "until"    // by the rule ABTestRequest.Until
	EndedByDecision ABTestEnd = "decided"  // by the rule ABTestRequest.WhenDecided
)

// clusterRate is a ratio of sums over sources.
type clusterRate struct {
	value, err, shown float64
	sources, hit      int // sources, and those with an event
}

// rate is R = Σc/Σs over sources, with the standard error √(Σ(c−R·s)²·n/(n−1))/Σs. The sums are of whole numbers, so
// that their order does not matter. err is 0 where it is unknown.
func (t *tally) rate(kind int) clusterRate {
	var s, c, ss, cs, cc float64
	r := clusterRate{}
	for _, of := range t.Sources {
		shown, hits := float64(of[0]), float64(of[kind])
		s, c, ss, cs, cc = s+shown, c+hits, ss+shown*shown, cs+hits*shown, cc+hits*hits
		r.sources++
		if hits > 0 {
			r.hit++
		}
	}
	if r.shown = s; s == 0 {
		return r
	}
	r.value = c / s
	if squares := cc - 2*r.value*cs + r.value*r.value*ss; r.sources > 1 && squares > 1e-9*cc {
		n := float64(r.sources)
		r.err = math.Sqrt(squares*n/(n-1)) / s
	}
	return r
}

// The least that an interval needs of each model, so that sums over sources are about normal; a simulation of rare and
// common clicks found it (TestLookingEveryDay).
const (
	leastSources = 50
	leastHit     = 30 // of them with an event
)

func (r clusterRate) enough() bool {
	return r.sources >= leastSources && r.hit >= leastHit && r.err > 0
}

// alwaysValid is the half-width of an interval that holds at all times at once with 95%, for an estimate with a
// standard error after so many shown items: the asymptotic confidence sequence
//
//	err · √( 2·(tρ²+1)/(tρ²) · log(√(tρ²+1)/α) )
//
// by Robbins' normal mixture (Robbins 1970, Annals of Mathematical Statistics 41; Waudby-Smith, Arbour, Sinha, Kennedy
// and Ramdas 2024, Annals of Statistics 52, "Time-uniform central limit theory and asymptotic confidence sequences").
// ρ makes it narrowest after narrowestAt items, where it is 1.5 times as wide as an interval for one look.
func alwaysValid(err, shown float64) float64 {
	const alpha, narrowestAt = .05, 1000
	l := -2 * math.Log(alpha)
	x := shown * (l + math.Log(l) + 1) / narrowestAt
	return err * math.Sqrt(2*(x+1)/x*math.Log(math.Sqrt(x+1)/alpha))
}

// interval is a rate as it is reported.
func (r clusterRate) interval() (out Rate) {
	if r.shown > 0 {
		out.Value = &r.value
	}
	if r.enough() {
		half := alwaysValid(r.err, r.shown)
		out.Low, out.High = new(max(r.value-half, 0)), new(r.value+half)
	}
	return out
}

// difference is b minus a.
func difference(a, b clusterRate) *Rate {
	out := &Rate{}
	if a.shown > 0 && b.shown > 0 {
		out.Value = new(b.value - a.value)
	}
	if a.enough() && b.enough() {
		half := alwaysValid(math.Hypot(a.err, b.err), min(a.shown, b.shown))
		out.Low, out.High = new(*out.Value-half), new(*out.Value+half)
	}
	return out
}

// decided reports whether an interval excludes 0.
func (r *Rate) decided() bool { return r != nil && r.Low != nil && (*r.Low > 0 || *r.High < 0) }

// Compare compares the models of the A/B test by what was shown since its start; without a test, all
// registered models by everything in the log.
func (s *Service) Compare() Comparison {
	test := s.live.Load().abTest
	reg := s.models.snapshot()
	out := Comparison{ABTest: test, Trial: test, Arms: []Arm{}, Last: reg.LastABTest}
	w := s.monitor
	w.mu.Lock()
	defer w.mu.Unlock()
	arm := func(name, digest string, of map[string]*tally) (Arm, clusterRate) {
		t := of[digest]
		if t == nil {
			t = &tally{}
		}
		clicks := t.rate(1)
		return Arm{Name: name, Model: digest, Shown: t.Shown, Clicked: t.Clicked, Linked: t.Linked,
			Sources: len(t.Sources), Clicks: clicks.interval(), Links: t.rate(2).interval()}, clicks
	}
	if test == nil {
		for _, e := range reg.Models {
			if w.Models[e.Digest] != nil {
				a, _ := arm("", e.Digest, w.Models)
				out.Arms = append(out.Arms, a)
			}
		}
		return out
	}
	var since map[string]*tally
	if w.Test.Equal(test.Since) {
		since = w.Arms
	}
	a, inA := arm("a", test.A, since)
	b, inB := arm("b", test.B, since)
	out.Arms, out.Difference = append(out.Arms, a, b), difference(inA, inB)
	return out
}

// ABTestRequest starts an A/B test. Without Until and WhenDecided, only a person ends it.
type ABTestRequest struct {
	Model string  `json:"model" minLength:"6" maxLength:"64" doc:"digest of model b"`
	Share float64 `json:"share" minimum:"0" maximum:"1" doc:"share of the sources that get its lists"`
	// The rules that end it are set here and never changed.
	Until       time.Time `json:"until,omitzero" doc:"rule: the test ends then"`
	WhenDecided bool      `json:"whenDecided,omitempty" doc:"rule: it ends when the difference's interval excludes 0"`
}

// StartABTest tests a model against the live one: a share of the sources, always the same ones, gets its lists.
func (s *Service) StartABTest(ctx context.Context, r ABTestRequest) (_ *ABTest, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	if !(r.Share > 0 && r.Share < 1) {
		return nil, hint.Wrap(requestError("share", r.Share, "is %v", r.Share), "give one between 0 and 1")
	}
	if now := s.o.Now(); !r.Until.IsZero() && !r.Until.After(now) {
		return nil, hint.Wrap(requestError("until", r.Until, "is not in the future"), "give a time after %s",
			now.UTC().Format(time.RFC3339))
	}
	entry, err := s.models.find(r.Model)
	if err != nil {
		return nil, err
	}
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	line := *s.live.Load()
	if entry.Digest == line.current.digest {
		return nil, hint.Wrap(&RequestError{Field: "model", Value: r.Model, Reason: "is live already", Conflict: true},
			"give another")
	}
	if t := line.abTest; t != nil {
		if t.B == entry.Digest && t.Share == r.Share && t.Until.Equal(r.Until) && t.WhenDecided == r.WhenDecided {
			return t, nil
		}
		return nil, hint.Wrap(ErrABTestRuns, "end it first")
	}
	if line.b, err = s.load(ctx, entry.Digest, s.models.snapshot().Naive); err != nil {
		return nil, err
	}
	totals, err := s.events.Totals(ctx)
	if err != nil {
		return nil, err
	}
	line.abTest = &ABTest{Seq: totals.Seq, A: line.current.digest, B: entry.Digest, Share: r.Share,
		Salt:  fmt.Sprintf("%.12s-%.12s", line.current.digest, entry.Digest),
		Since: s.o.Now().UTC(), Until: r.Until.UTC(), WhenDecided: r.WhenDecided}
	if err := s.models.change(func(r *registryState) error { r.ABTest = line.abTest; return nil }); err != nil {
		return nil, err
	}
	return line.abTest, s.goLive(&line)
}

// EndABTest ends the A/B test: all sources get the live model.
func (s *Service) EndABTest() (err error) {
	_, end, err := s.begin(context.Background())
	if err != nil {
		return err
	}
	defer end(&err)
	return s.endABTest(EndedByPerson)
}

func (s *Service) endABTest(reason ABTestEnd) error {
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	last := s.lastABTest(reason)
	line := *s.live.Load()
	line.abTest, line.b = nil, nil
	if err := s.models.change(func(r *registryState) error { r.endABTest(last); return nil }); err != nil {
		return err
	}
	return s.goLive(&line)
}

// lastABTest is the A/B test as it ends, or nil if none runs.
func (s *Service) lastABTest(reason ABTestEnd) *EndedABTest {
	c := s.Compare()
	if c.ABTest == nil {
		return nil
	}
	s.o.Log.Info("A/B test ended", "reason", reason, "a", c.ABTest.A, "b", c.ABTest.B)
	return &EndedABTest{ABTest: *c.ABTest, Ended: s.o.Now().UTC(), Reason: reason, Arms: c.Arms,
		Difference: c.Difference}
}

// endABTest ends the test, and remembers it unless it is nil.
func (r *registryState) endABTest(last *EndedABTest) {
	if r.ABTest = nil; last != nil {
		r.LastABTest = last
	}
}

// followRules ends the A/B test by the rules that were set when it started.
func (s *Service) followRules(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		if err := s.applyRules(); err != nil {
			s.o.Log.Error("ending the A/B test failed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Service) applyRules() error {
	test := s.live.Load().abTest
	switch {
	case test == nil:
	case test.WhenDecided && s.Compare().Difference.decided():
		return s.endABTest(EndedByDecision)
	case !test.Until.IsZero() && !s.o.Now().Before(test.Until):
		return s.endABTest(EndedByTime)
	}
	return nil
}
