package fit

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// truth is mean y.
func (s *plantedShop) truth() (mean float64) {
	for _, z := range s.z {
		y, _ := kern.Sigmoid64(z)
		mean += y / float64(len(s.z))
	}
	return mean
}

// partly are logs of a tenth of a shop of 80 items.
var partly = map[string]func(k int) bool{
	"pairs":  func(k int) bool { return (k*7919+k/80)%10 == 3 },
	"people": func(k int) bool { return k/80%10 == 3 },
}

// With a log of a tenth of the pairs or people, the level of π̂ is the log's and that of ŷ the truth's, which the
// likeliest factors miss by a quarter, and every list is what it was.
func TestLevel(t *testing.T) {
	t.Parallel()
	for name, known := range partly {
		for _, exposure := range []string{"fields", "fields+person"} {
			s := plantShop(t, 200, 80, 100)
			settings := Settings{Method: "mle", Seed: 3, Ridge: 1, Exposure: exposure,
				LinkOptions: model.LinkOptions{Rank: 4}}
			r := mustFit(t, s.problem(known), settings)
			if off := math.Log(r.Findings.MeanLink.Value / s.truth()); math.Abs(off) > .08 {
				t.Errorf("%s, %s: mean ŷ is %.3f of a true %.3f", name, exposure, r.Findings.MeanLink.Value, s.truth())
			}
			var shown, expected float64
			_, logits, err := r.Judge().Logits(t.Context(), s.pairs)
			if err != nil {
				t.Fatal(err)
			}
			for k, e := range s.exposure {
				pi, _ := kern.Sigmoid64(float64(logits[k]))
				if expected += pi; e == 1 {
					shown++
				}
			}
			if off := math.Log(expected / shown); math.Abs(off) > .08 {
				t.Errorf("%s, %s: %.0f shown where %.0f are", name, exposure, expected, shown)
			}
		}
	}
}

// The level moves π̂ and ŷ, and changes no order of ŷ.
func TestLevelKeepsLists(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 120, 80, 8)
	p := s.problem(partly["people"])
	settings := must(Settings{Method: "mle", Link: factorsKind, Seed: 3, Ridge: 1, Exposure: "fields+person",
		LinkOptions: model.LinkOptions{Rank: 4}}.WithDefaults())(t)
	r := &Result{problem: p, Settings: settings, Link: must(model.NewLink(settings.Link, p.Nodes,
		settings.LinkOptions))(t), Propensity: must(model.NewPropensity(settings.Propensity, p.Nodes,
		settings.PropensityOptions))(t)}
	tr := &training{ctx: t.Context(), problem: p, method: must(settings.method())(t), result: r, settings: settings}
	if err := tr.use(settings); err != nil {
		t.Fatal(err)
	}
	before := must(tr.minimise(tr.objective, run{params: started(tr.objective, lowPropensity, 3)}))(t)
	after := must(tr.level(tr.objective, before))(t)
	a, b := before.params, after.params
	last := r.Link.Size() - 1
	if !slices.Equal(a[:last], b[:last]) || a[last] == b[last] {
		t.Error("more than the intercept of ŷ moves, or it does not")
	}
	logged := 0
	for row, person := range r.Propensity.(*model.Covariates).Sources() {
		at := last + 1 + r.Propensity.Size() - 120 + row
		if a[at] != b[at] {
			logged++
		}
		if whole := int(person)%10 == 3; whole == (a[at] == b[at]) {
			t.Errorf("the effect of person %d goes from %v to %v", person, a[at], b[at])
		}
	}
	if logged != 12 {
		t.Errorf("%d people have a log", logged)
	}
}

// Intervals of mean ŷ hold the truth, and so do the bounds; thresholds are from other seeds.
func TestReplicated(t *testing.T) {
	t.Parallel()
	const shops = 10
	logs := map[string]func(int) bool{"complete": all, "pairs": partly["pairs"]}
	for name, known := range logs {
		held := 0
		for seed := range uint64(shops) {
			s := plantShop(t, 120, 80, 300+seed)
			r := mustFit(t, s.problem(known), Settings{Method: "mle", Seed: 3, Ridge: 1, Replicates: 12,
				LinkOptions: model.LinkOptions{Rank: 4}})
			m, truth := r.Findings.MeanLink, s.truth()
			if m.Lower <= truth && truth <= m.Upper {
				held++
			}
			if !(m.Lower > truth/1.5 && m.Upper < 1.5*truth) {
				t.Errorf("%s: the interval %v to %v is wide", name, m.Lower, m.Upper)
			}
			b := r.Findings.Bounds
			if b == nil || !(b.MeanLink.Low < truth && truth < b.MeanLink.High && b.Propensity.Low > .1) {
				t.Errorf("%s: bounds %+v of %v", name, b, truth)
			}
			if len(r.Findings.Cells) != 12 || !(r.Findings.Cells[0].LogitError > 0) {
				t.Errorf("%s: π̂ of the fields without errors", name)
			}
		}
		if t.Logf("%s: %d of %d", name, held, shops); held < 8 {
			t.Errorf("%s: %d of %d intervals hold the truth", name, held, shops)
		}
	}
}

// Two replicates give an interval that is wide, one and those of adam are refused.
func TestFewReplicates(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 60, 40, 5)
	settings := Settings{Method: "mle", Seed: 3, Ridge: 1, Replicates: 2}
	r := mustFit(t, s.problem(all), settings)
	values := r.replicated.values
	apart := math.Abs(math.Log(values[0][0]/values[1][0])) / math.Sqrt2
	if got := r.Findings.MeanLink.Error; math.Abs(got/apart-12.706/1.96) > .01 {
		t.Errorf("a standard error of %v, of two that differ by %v", got, apart)
	}
	for _, c := range []Settings{{Method: "mle", Replicates: 1}, {Method: "mle", Replicates: 5, Optimiser: "adam"}} {
		if _, err := Fit(t.Context(), s.problem(all), c); !errors.Is(err, ErrSetting) {
			t.Errorf("%d replicates by %q: %v", c.Replicates, c.Optimiser, err)
		}
	}
}

// Without a log, nothing narrower is claimed than that what is linked was shown and is relevant.
func TestBoundsOfLinks(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 120, 80, 5)
	r := mustFit(t, s.problem(nil), Settings{Method: "mle", Seed: 3, Ridge: 1, Replicates: 3})
	if _, err := r.Model(); err != nil { // π̂ may be 1, and its errors are numbers
		t.Error(err)
	}
	b := r.Findings.Bounds
	if b == nil || b.Propensity.High != 1 || b.MeanLink.High != 1 || r.Findings.Class != NotIdentified {
		t.Fatalf("%v, %+v", r.Findings.Class, b)
	}
	links := 0.
	for _, linked := range s.pairs.Linked {
		if linked {
			links++
		}
	}
	if share := links / float64(s.pairs.Len()); math.Abs(b.Linked.Value-share) > 1e-9 || !(b.Propensity.Low < share) {
		t.Errorf("bounds %+v of %v linked", b, share)
	}
}

// biased gives every segment a taste for some categories, and shows it more of these.
func (s *plantedShop) biased(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	taste := make([]float64, 12)
	for c := range taste {
		taste[c] = 1.5 * rng.NormFloat64()
	}
	for k := range s.z {
		c := k/s.items%3*4 + k%s.items%4
		s.z[k] += taste[c]
		pi, _ := kern.Sigmoid64(taste[c] - 1)
		y, _ := kern.Sigmoid64(s.z[k])
		shown := rng.Float64() < pi
		if s.exposure[k] = risk.Unexposed; shown {
			s.exposure[k] = risk.Exposed
		}
		s.pairs.Linked[k] = rng.Float64() < y && shown
	}
}

// What a segment likes and what it is shown more of look the same in links. Without a log, lists are not worse than
// naive ones for it, and with a log of a tenth of the people, π̂ of segments and categories is the log's.
func TestTasteOrExposure(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		s := plantShop(t, 300, 80, 40+seed)
		s.biased(40 + seed)
		learn := func(method string, known func(int) bool) *Result {
			return mustFit(t, s.problem(known), Settings{Method: method, Seed: 3, Ridge: .25,
				LinkOptions: model.LinkOptions{Rank: 4}})
		}
		naive, blind := s.auc(s.logits(learn("naive", nil))), s.auc(s.logits(learn("mle", nil)))
		if blind < naive-.005 {
			t.Errorf("the AUC of naive is %.4f, without a log %.4f", naive, blind)
		}
		var shown, pairs [12]float64
		for k, e := range s.exposure {
			c := k/s.items%3*4 + k%s.items%4
			if pairs[c]++; e == risk.Exposed {
				shown[c]++
			}
		}
		logged := learn("mle", partly["people"])
		if logged.Settings.Exposure != "fields+person+item" {
			t.Errorf("exposure by %s", logged.Settings.Exposure)
		}
		var off float64
		for c, found := range logged.Findings.Cells {
			off += math.Abs(math.Log(found.Propensity*pairs[c]/shown[c])) / 12
		}
		if off > .4 {
			t.Errorf("seed %d: π̂ of segments and categories is off by a factor of %.2f", seed, math.Exp(off))
		}
	}
}

// Where a log of a tenth of the people says that items differ in how much they are shown, π̂ of the others has it.
func TestItemsByTheLog(t *testing.T) {
	t.Parallel()
	s := plantShop(t, 300, 80, 12)
	rng := rand.New(rand.NewPCG(12, 4))
	effects := make([]float64, s.items)
	for j := range effects {
		effects[j] = 1.5 * rng.NormFloat64()
	}
	shown, expected := make([]float64, s.items), make([]float64, s.items)
	for k := range s.z {
		j := k % s.items
		pi, _ := kern.Sigmoid64(effects[j] - 1)
		y, _ := kern.Sigmoid64(s.z[k])
		was := rng.Float64() < pi
		if s.exposure[k] = risk.Unexposed; was {
			s.exposure[k] = risk.Exposed
		}
		s.pairs.Linked[k] = rng.Float64() < y && was
		shown[j] += pi
	}
	r := mustFit(t, s.problem(partly["people"]), Settings{Method: "mle", Seed: 3, Ridge: .25,
		LinkOptions: model.LinkOptions{Rank: 4}})
	_, logits, err := r.Judge().Logits(t.Context(), s.pairs)
	if err != nil {
		t.Fatal(err)
	}
	for k, l := range logits {
		pi, _ := kern.Sigmoid64(float64(l))
		expected[k%s.items] += pi
	}
	var off float64
	for j, n := range shown {
		off += math.Abs(math.Log(expected[j]/n)) / float64(s.items)
	}
	t.Logf("off by a factor of %.2f", math.Exp(off))
	if off > .45 {
		t.Errorf("π̂ of items is off by a factor of %.2f", math.Exp(off))
	}
}
