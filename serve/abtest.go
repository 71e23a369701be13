package serve

import (
	"context"
	"fmt"
	"math"

	"unseen/hint"
)

// Comparison compares the clicks and links of models.
type Comparison struct {
	ABTest *ABTest `json:"abTest,omitempty" doc:"the A/B test, if one runs"`
	Trial  *ABTest `json:"trial,omitempty" deprecated:"true" doc:"old name of abTest"`
	Arms   []Arm   `json:"arms"`
	// Difference is nil where a model was not shown to two sources.
	Difference *Rate `json:"difference,omitempty" doc:"clicks per shown item of b minus those of a"`
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

// Rate is a number of events per shown item. The interval assumes that sources, not items, are independent.
type Rate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// rate is Σc/Σs over sources, with the standard error √(Σ(c−R·s)²·n/(n−1))/Σs.
func (t *tally) rate(kind int) (r Rate, err float64) {
	var shown, hits, n float64
	for _, c := range t.Sources {
		shown, hits, n = shown+float64(c[0]), hits+float64(c[kind]), n+1
	}
	if shown == 0 {
		return Rate{}, math.Inf(1)
	}
	r.Value = hits / shown
	var squares float64
	for _, c := range t.Sources {
		d := float64(c[kind]) - r.Value*float64(c[0])
		squares += d * d
	}
	if n < 2 {
		r.High = max(r.Value, 1)
		return r, math.Inf(1)
	}
	err = math.Sqrt(squares*n/(n-1)) / shown
	if squares == 0 { // nobody clicked, or everybody: the error that one more source could make
		err = 1 / (3 * n)
	}
	r.Low, r.High = max(r.Value-1.96*err, 0), r.Value+1.96*err
	return r, err
}

// Compare compares the models of the A/B test by what was shown since its start; without a test, all
// registered models by everything in the log.
func (s *Service) Compare() Comparison {
	test := s.live.Load().abTest
	out := Comparison{ABTest: test, Trial: test, Arms: []Arm{}}
	w := s.monitor
	w.mu.Lock()
	defer w.mu.Unlock()
	arm := func(name, digest string, of map[string]*tally) (Arm, float64) {
		t := of[digest]
		if t == nil {
			t = &tally{}
		}
		a := Arm{Name: name, Model: digest, Shown: t.Shown, Clicked: t.Clicked, Linked: t.Linked,
			Sources: len(t.Sources)}
		var err float64
		a.Clicks, err = t.rate(1)
		a.Links, _ = t.rate(2)
		return a, err
	}
	if test == nil {
		for _, e := range s.models.snapshot().Models {
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
	a, ea := arm("a", test.A, since)
	b, eb := arm("b", test.B, since)
	out.Arms = append(out.Arms, a, b)
	if e := math.Hypot(ea, eb); !math.IsInf(e, 0) {
		d := b.Clicks.Value - a.Clicks.Value
		out.Difference = &Rate{Value: d, Low: d - 1.96*e, High: d + 1.96*e}
	}
	return out
}

// StartABTest tests a model against the live one: a share of the sources, always the same ones, gets its lists.
func (s *Service) StartABTest(ctx context.Context, digest string, share float64) (_ *ABTest, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	if !(share > 0 && share < 1) {
		return nil, hint.Wrap(requestError("share", share, "is %v", share), "give one between 0 and 1")
	}
	entry, err := s.models.find(digest)
	if err != nil {
		return nil, err
	}
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	line := *s.live.Load()
	if entry.Digest == line.current.digest {
		return nil, hint.Wrap(&RequestError{Field: "model", Value: digest, Reason: "is live already", Conflict: true},
			"give another")
	}
	if test := line.abTest; test != nil {
		if test.B == entry.Digest && test.Share == share {
			return test, nil
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
	line.abTest = &ABTest{Seq: totals.Seq, A: line.current.digest, B: entry.Digest, Share: share,
		Salt: fmt.Sprintf("%.12s-%.12s", line.current.digest, entry.Digest), Since: s.o.Now().UTC()}
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
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	line := *s.live.Load()
	line.abTest, line.b = nil, nil
	if err := s.models.change(func(r *registryState) error { r.ABTest = nil; return nil }); err != nil {
		return err
	}
	return s.goLive(&line)
}
