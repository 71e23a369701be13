package fit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/world"
)

// TestDoctorOnWorlds asserts what must hold for every seed; TestCoverage measures the rest.
func TestDoctorOnWorlds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for _, c := range []struct {
		name   string
		plan   world.Scenario
		pairs  int
		logged float64
		never  []Class
	}{
		{"saturated", world.Saturated(), 5_000, 0, []Class{NotIdentified, Unmeasured}},
		{"flat and rare", world.FlatRare(), 6_000, 0, []Class{Identified}},
		{"flat and rare, 10% logged", world.FlatRare(), 6_000, .1, []Class{NotIdentified}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 2; seed++ {
				c.plan.Seed = seed
				s := mustSmall(t, c.plan, c.pairs, 8, c.logged, Settings{Seed: seed})
				f := s.result.Findings
				m := f.MeanLink
				t.Logf("seed %d: %s, mean ŷ %.4f (%.4f to %.4f), truth %.4f, error %.3f, bias %+.3f", seed, f.Class,
					m.Value, m.Lower, m.Upper, s.world.Profile().BaseRate, m.Error, m.Bias)
				if slices.Contains(c.never, f.Class) {
					t.Errorf("seed %d: %s", seed, f.Class)
				}
				// four standard errors, where the class says that they mean something
				off := math.Log(m.Value / s.world.Profile().BaseRate)
				if se := math.Hypot(m.Total(), m.Sampling); f.Class == Identified && math.Abs(off) > 4*se {
					t.Errorf("seed %d: mean ŷ is off by %.3f, with standard error %.3f", seed, off, se)
				}
				if r := *f.Ratio; !(r.Lower < r.Value && r.Value < r.Upper) || r.Value < 1 {
					t.Errorf("seed %d: pairs of one field are shown %+v times as often", seed, r)
				}
			}
		})
	}
}

// TestBlindSpot: where even sure links are made with probability .6 only, the doctor sees nothing
// wrong until exposures are logged.
func TestBlindSpot(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	plan := world.Saturated()
	plan.Seed = 4
	plan.Ceiling = .6
	blind := mustSmall(t, plan, 6_000, 8, 0, Settings{}).result.Findings
	if set := blind.Set; len(blind.Logged) != 0 || !set.OneSided || set.MeanLink.High < .6*.16 ||
		!strings.Contains(blind.Verdict[0], "links cannot say") {
		t.Errorf("%+v %q", blind.Set, blind.Verdict)
	}
	seeing := mustSmall(t, plan, 6_000, 8, .05, Settings{}).result.Findings
	if len(seeing.Logged) != 3 || math.Abs(seeing.Logged[0].z()) < 4 ||
		!strings.Contains(strings.Join(seeing.Verdict, " "), "contradict") {
		t.Errorf("logged exposures show nothing: %+v %q", seeing.Logged, seeing.Verdict)
	}
	plan.Ceiling = 1
	fine := mustSmall(t, plan, 6_000, 8, .05, Settings{}).result.Findings
	if math.Abs(fine.Logged[0].z()) > 4 {
		t.Errorf("logged exposures contradict a model that is right: %+v", fine.Logged)
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	f := s.result.Findings
	links, pairs := 0, 0
	for _, c := range f.Cells {
		links, pairs = links+c.Links, pairs+c.Pairs
		if !(c.Lower < c.Propensity && c.Propensity < c.Upper) || !(c.LogitError > 0) ||
			!(c.Relative.Lower < c.Relative.Value && c.Relative.Value < c.Relative.Upper) {
			t.Errorf("field pair %d, %d: %+v", c.Source, c.Target, c)
		}
	}
	if s := f.Support; pairs != s.Pairs || links != s.Links || s.Cells != len(f.Cells) ||
		math.Abs(s.Effective-float64(s.Pairs)) > 1e-6*s.Effective {
		t.Errorf("%+v with %d pairs and %d links in the cells", f.Support, pairs, links)
	}
	if f.MeanLink.Value != s.result.Starts[0].MeanLink &&
		math.Abs(f.MeanLink.Value/s.result.Starts[0].MeanLink-1) > 1e-6 {
		t.Errorf("mean ŷ %v, of the start %v", f.MeanLink.Value, s.result.Starts[0].MeanLink)
	}
	// along the ridge: more exposure, less relevance; no scale is likelier than the fit's by much
	if len(f.Ridge) != 5 {
		t.Fatalf("%+v", f.Ridge)
	}
	for i, p := range f.Ridge {
		if i > 0 && (p.MeanLink >= f.Ridge[i-1].MeanLink || p.Propensity <= f.Ridge[i-1].Propensity) {
			t.Errorf("from %+v to %+v", f.Ridge[i-1], p)
		}
		if p.Factor == 1 && p.Likelihood != 0 || p.Likelihood > 5 || !(p.Risk > 0) {
			t.Errorf("%+v", p)
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Findings
	if err := json.Unmarshal(text, &back); err != nil || back.Class != f.Class || len(back.Cells) != len(f.Cells) {
		t.Errorf("%v: %s", err, text)
	}
	if m := must(s.result.Model())(t); string(m.Findings) != string(text) {
		t.Error("the model file has other findings")
	}
}

func TestDoctorWithoutPosterior(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	plan := world.Saturated()
	mle := mustSmall(t, plan, 2_000, 8, .1, Settings{Method: "mle", Optimiser: "lbfgs",
		Starts: []float64{.3, .9}}).result.Findings
	if mle.Class != Unmeasured || len(mle.Ridge) != 5 || len(mle.Cells) == 0 || len(mle.Logged) != 3 ||
		mle.Cells[0].LogitError != 0 || mle.Ratio.Error != 0 {
		t.Errorf("mle: %+v", mle)
	}
	if !strings.Contains(strings.Join(mle.Verdict, " "), "only bayes has standard errors") {
		t.Errorf("mle: %q", mle.Verdict)
	}
	naive := mustSmall(t, plan, 2_000, 8, 0, Settings{Method: "naive", Optimiser: "lbfgs"}).result.Findings
	if naive.Class != NoExposure || len(naive.Ridge) != 0 || len(naive.Cells) != 0 || len(naive.Verdict) == 0 {
		t.Errorf("naive: %+v", naive)
	}
}

func TestAnchorsAreMentioned(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	plan := world.FlatRare()
	s := mustSmall(t, plan, 8_000, 8, 0, Settings{Doctor: QuickDoctor,
		Anchors: []Anchor{{"same", .85, .02}, {"cross", .2, .01}}})
	if f := s.result.Findings; !strings.Contains(strings.Join(f.Verdict, " "), "anchor") {
		t.Errorf("%q", f.Verdict)
	}
}

func TestSmallFieldsAreMentioned(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	plan := world.SaturatedRare()
	s := mustSmall(t, plan, 2_000, 8, 0, Settings{Doctor: QuickDoctor})
	f := s.result.Findings
	if f.Support.Thin == 0 || !strings.Contains(fmt.Sprint(f.Advice), "merge small fields") {
		t.Errorf("%+v %q", f.Support, f.Advice)
	}
}

func TestDoctorOfOneSource(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	s := must(saturated())(t)
	p := s.problem
	train := *p.Train
	train.Source, train.Target = slices.Clone(train.Source), slices.Clone(train.Target)
	for k := range train.Source {
		if train.Source[k] = 0; train.Target[k] == 0 {
			train.Target[k] = 1
		}
	}
	p.Train = &train
	f := mustFit(t, p, Settings{Starts: []float64{.3}, Replicates: -1}).Findings
	if f.Class != Unmeasured || f.Support.Sources != 1 {
		t.Errorf("%s of %+v", f.Class, f.Support)
	}
}

func TestLoggedTestByHand(t *testing.T) {
	t.Parallel()
	d := &diagnosis{
		result: &Result{Propensity: must(saturated())(t).result.Propensity},
		found:  &Findings{Support: Support{Logged: 100}},
		cells:  []*cellSum{{same: true, logged: 100, exposed: 60, expected: 50, variance: 25}},
	}
	d.testLogs()
	want := []LoggedTest{{Group: "all", Pairs: 100, Shown: .6, Expected: .5, Z: 2},
		{Group: "same", Pairs: 100, Shown: .6, Expected: .5, Z: 2}}
	if !slices.Equal(d.found.Logged, want) {
		t.Errorf("%+v, want %+v", d.found.Logged, want)
	}
}

// A model that calls everything relevant has no error left, and is not identified for that.
func TestCollapseIsNotIdentified(t *testing.T) {
	t.Parallel()
	field := must(model.NewFieldMatrix(smallProblem(t, 30, 4, 100, 5).Nodes))(t)
	d := &diagnosis{found: &Findings{MeanLink: Scale{Value: 1, Lower: 1, Upper: 1}}, measured: true,
		result: &Result{Propensity: field}}
	d.classify()
	d.writeVerdict()
	if f := d.found; f.Class != NotIdentified || !strings.Contains(f.Verdict[0], "collapsed") ||
		!strings.Contains(f.Advice[0].String(), "more pairs") || len(f.warnings()) != 1 {
		t.Errorf("%+v", f)
	}
}

// A fit is identified only where assumptions were compared, agree, and nothing refutes them.
func TestClasses(t *testing.T) {
	t.Parallel()
	field := must(model.NewFieldMatrix(smallProblem(t, 30, 4, 100, 5).Nodes))(t)
	set := func(low, high float64) *ClaimSet {
		return &ClaimSet{Propensity: SetRange{low, high}, MeanLink: SetRange{.3, .31}}
	}
	ofLinks := func(low, high float64) *ClaimSet {
		return &ClaimSet{Propensity: SetRange{.2, .21}, MeanLink: SetRange{low, high}}
	}
	for want, all := range map[Class][]Findings{
		Identified: {{Set: set(.2, .3)}, {Set: set(.2, .2), Tests: []Refutation{{Of: ByPopularity}}},
			{Set: set(.2, .3), Anchors: []AnchorTest{{Anchor{"same", .8, .05}, .72}}}},
		NotChecked: {{}, {MeanLink: Scale{Value: .3, Error: .12}}},
		Weak: {{Echo: .99}, {Set: set(.2, .31)}, {Set: ofLinks(.2, .31)},
			{Set: set(.2, .21), Offered: &OfferedTest{Z: -4}},
			{Set: &ClaimSet{Propensity: SetRange{.2, .21}, MeanLink: SetRange{.3, .31}, Contradicted: true}},
			{Set: set(.2, .21), Anchors: []AnchorTest{{Anchor{"cross", .99, .001}, .23}}},
			{Set: set(.2, .21), Tests: []Refutation{{Of: ByPopularity, Refuted: true}}},
			{Set: set(.2, .21), Logged: []LoggedTest{{Z: 9, Allowing: -3.1}}}},
		NotIdentified: {{Set: set(.2, .61)}, {Set: ofLinks(0, .1)}, {Set: ofLinks(.2, .61)},
			{Set: set(.2, .21), MeanLink: Scale{Value: .3, Error: .3}}},
	} {
		for _, f := range all {
			if f.MeanLink.Value == 0 {
				f.MeanLink = Scale{Value: .3, Error: .01}
			}
			d := &diagnosis{found: &f, measured: true, result: &Result{Propensity: field}}
			if d.classify(); f.Class != want {
				t.Errorf("%s, want %s: %+v", f.Class, want, f)
			}
		}
	}
}

// Verdicts say what speaks against them.
func TestVerdictsInWords(t *testing.T) {
	t.Parallel()
	field := must(model.NewFieldMatrix(smallProblem(t, 30, 4, 100, 5).Nodes))(t)
	set := func(more ClaimSet) *ClaimSet {
		more.Propensity, more.MeanLink = SetRange{.2, .21}, SetRange{.3, .31}
		return &more
	}
	log := &MemberValue{Value: .2, Lower: .19, Upper: .21}
	for name, c := range map[string]struct {
		found     Findings
		has, lack string
	}{
		"popular targets are linked less": {Findings{Set: set(ClaimSet{}),
			Tests: []Refutation{{Of: ByPopularity, Z: -5.5, Refuted: true}}}, "linked less than", "fold"},
		"a log that no assumption allows": {Findings{Set: set(ClaimSet{Contradicted: true, Logged: log}),
			Logged: []LoggedTest{{Pairs: 9, Z: 1}}}, "No assumption that explains the links allows", "agree with"},
		"a log that is doubtful": {Findings{Set: set(ClaimSet{Logged: log}),
			Logged: []LoggedTest{{Pairs: 9, Z: -2.7}}}, "differ from what links alone say", "agree with what"},
		"a log, and perhaps a ceiling": {Findings{Set: set(ClaimSet{Logged: log, OneSided: true}),
			Logged: []LoggedTest{{Pairs: 9, Z: 2.5}}}, "with a probability of 20% to 21%", "at least 20%"},
		"an anchor": {Findings{Set: set(ClaimSet{}), Anchors: []AnchorTest{{Anchor{"cross", .99, .001}, .23}}},
			"The anchor cross=0.99±0.001 contradicts the links, by which mean π̂ is 0.23 there", "fold"},
	} {
		f := c.found
		f.MeanLink = Scale{Value: .3, Error: .01}
		d := &diagnosis{found: &f, measured: true, result: &Result{Propensity: field}}
		d.classify()
		f.sayClass()
		f.sayTests()
		f.sayAnchors()
		f.sayLogs(true)
		if all := strings.Join(f.Verdict, " "); !strings.Contains(all, c.has) || strings.Contains(all, c.lack) {
			t.Errorf("%s: %s", name, all)
		}
	}
}

// Findings of earlier versions, which compared no assumptions, are not checked, whatever they say.
func TestOldFindings(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Class{
		`{"class":"identified","verdict":["The scale is identified."]}`:                         NotChecked,
		`{"class":"weak","verdict":["The scale is weakly identified."]}`:                        NotChecked,
		`{"class":"weak","echo":0.99}`:                                                          Weak,
		`{"class":"weak","rare":0.001}`:                                                         Weak,
		`{"class":"weak","logged":[{"z":9}]}`:                                                   Weak,
		`{"class":"not identified"}`:                                                            NotIdentified,
		`{"class":"unmeasured"}`:                                                                Unmeasured,
		`{"class":"no exposure"}`:                                                               NoExposure,
		`{"class":"identified","set":{"propensity":{"low":0.2,"high":0.25}},"verdict":["Yes"]}`: Identified,
	} {
		var f Findings
		if err := json.Unmarshal([]byte(raw), &f); err != nil || f.Class != want {
			t.Errorf("%s: %s, want %s (%v)", raw, f.Class, want, err)
		}
		if said := strings.Join(f.Verdict, " "); want == NotChecked && (!strings.Contains(said, "not checked") ||
			strings.Contains(said, "The scale is")) {
			t.Errorf("%s: %s", raw, said)
		}
	}
}

// Holm's rule: the smallest P is compared with a fourth of the level, the next with a third, and so on.
func TestHolm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		p    []float64
		want []bool
	}{
		{[]float64{.02, .012, .9, .6}, []bool{false, true, false, false}},
		{[]float64{.016, .012, .02, .6}, []bool{true, true, true, false}},
		{[]float64{.013, .013, .013, .013}, []bool{false, false, false, false}},
	} {
		tests := make([]Refutation, len(test.p))
		for i, p := range test.p {
			tests[i].P = p
		}
		holm(tests)
		for i, r := range tests {
			if r.Refuted != test.want[i] {
				t.Errorf("%v: %d is refuted: %v", test.p, i, r.Refuted)
			}
		}
	}
}

// A member stays unless its likelihood is clearly below the reference's, and the set is as wide as those that stay.
func TestClaims(t *testing.T) {
	t.Parallel()
	fold := func(each float64, spread float64) []float64 {
		out := make([]float64, compareFolds)
		for i := range out {
			out[i] = 10 + each + spread*float64(i%2*2-1)
		}
		return out
	}
	member := func(a Alternative, folds []float64, y float64) *alternativeFit {
		f := &alternativeFit{Alternative: a, folds: folds, terms: []float64{.5, .25, 2}}
		f.measures = [measured]measure{{y, .1}, {.01 / y, .1}, {2, .2}, {.3, .01}, {.9, 0}, {5, .1}}
		return f
	}
	d := &diagnosis{found: &Findings{}, result: &Result{alternatives: []*alternativeFit{
		member(Alternative{}, fold(0, 0), .1),
		member(Alternative{Text: true}, fold(1./64, 0), .2),                    // 1 worse: stays
		member(Alternative{Dependence: true}, fold(3./64, 0), .4),              // 3 worse, and surely
		member(Alternative{Response: engine.Probit}, fold(3./64, .2), .05),     // 3 worse, but that may be chance
		{Alternative: Alternative{Popularity: PopularShown}, failed: true},     // no mode
		member(Alternative{Response: engine.Cauchit}, fold(-100./64, .01), .1), // better
	}}}
	d.claim()
	set := d.found.Set
	for i, want := range []bool{true, true, false, true, false, true} {
		if set.Members[i].Stays != want {
			t.Errorf("%v stays: %v (%v ± %v)", set.Members[i].Alternative, !want, set.Members[i].Difference,
				set.Members[i].Error)
		}
	}
	width := 1.96 * math.Hypot(.1, .1*math.Log(2)) // what halves or doubles a number may be of another form
	low, high := .05*math.Exp(-width), .2*math.Exp(width)
	if math.Abs(set.MeanLink.Low-low) > 1e-12 || math.Abs(set.MeanLink.High-high) > 1e-12 ||
		math.Abs(set.Width()-4*math.Exp(2*width)) > 1e-9 || !set.OneSided {
		t.Errorf("%+v", set)
	}
	// a ceiling leaves the risk open, and nothing the ratio
	if set.Risk.High != .9 || math.Abs(set.Ratio.High-2*math.Exp(.392)) > 1e-9 {
		t.Errorf("R_AP %+v, ratio %+v", set.Risk, set.Ratio)
	}
	// what is published by the reference's assumption, and learned from more, belongs to it
	d.ownRisk = &Judgement{Interval: risk.Interval{Lower: .2, Upper: .95}}
	if d.claim(); d.found.Set.Risk != (SetRange{.2, .95}) {
		t.Errorf("R_AP %+v, of the published model %+v", d.found.Set.Risk, d.ownRisk)
	}
	// the reference follows the tests, and leaves what it beats
	d.result.refuted = []Refutation{{Of: BySimilarity, Refuted: true}}
	d.result.alternatives[1].folds = fold(-5./64, 0)
	d.result.Settings.Anchors = []Anchor{{"same", .5, .1}}
	d.claim()
	if set = d.found.Set; set.Reference != (Alternative{Text: true}) || set.Members[0].Stays || set.OneSided {
		t.Errorf("%+v", set)
	}
	// an anchor closes the risk, and exposure by text may be all that the links' ratio shows
	if set.Risk.High > .4 || math.Abs(set.Ratio.High-5*math.Exp(.196)) > 1e-9 {
		t.Errorf("R_AP %+v, ratio %+v", set.Risk, set.Ratio)
	}
}

// R_AP reaches as far up as the relevance of unlinked pairs that is claimed takes it, where that adds to it.
func TestClaimOfRisk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ least, err, want float64 }{
		{.01, .02, .05 + .04*(math.Exp(1.96)-1)}, // .04 by unlinked pairs, of which there may be e^1.96 times as many
		{.01, .2, .05 + 1.96*.2},                 // its own error is larger
		{.09, .02, .05 + 1.96*.02},               // unlinked pairs that are relevant lower it
	} {
		f := &alternativeFit{folds: make([]float64, compareFolds)}
		f.measures = [measured]measure{{.002, 1}, {.1, 1}, {2, .2}, {.05, test.err}, {test.least, 0}, {5, .1}}
		d := &diagnosis{found: &Findings{}, result: &Result{alternatives: []*alternativeFit{f}}}
		c := d.claimOf(f, f)
		if math.Abs(c.Risk.Upper-test.want) > 1e-12 {
			t.Errorf("%+v: R_AP at most %g", test, c.Risk.Upper)
		}
	}
}

// A graph may have 65,535 fields, and so more pairs of fields than an int32 can number.
func TestDiagnoseManyFields(t *testing.T) {
	t.Parallel()
	const fields = 60_000
	p := smallProblem(t, 30, 4, 100, 3)
	p.Nodes.FieldCount, p.Nodes.FieldNames = fields, nil
	for i := range p.Nodes.Fields {
		p.Nodes.Fields[i] = fields - 1 - uint16(i%5)
	}
	r := mustFit(t, p, Settings{Method: "naive", Adam: AdamSettings{Epochs: 1}})
	if cells := r.Findings.Support.Cells; cells < 15 || cells > 25 {
		t.Errorf("%d field pairs occur among 5 fields", cells)
	}
	if _, err := Fit(t.Context(), p, Settings{}); !errors.Is(err, model.ErrShape) {
		t.Errorf("a matrix over %d fields: %v", fields, err)
	}
}
