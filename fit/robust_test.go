package fit

import (
	"errors"
	"math"
	"testing"

	"unseen/internal/racetest"
	"unseen/risk"
	"unseen/sample"
)

// What is printed of two models by R_DR differs by the difference that is printed, and lies in the losses' range, at
// any π̂: here a tenth of a thousandth of what was learned.
func TestRobustRisk(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJudgeDoesNotDependOnThreads has the goroutines of a judge")
	s := must(saturated())(t)
	ctx := t.Context()
	evidence := question{Evidence: sample.Evidence{Pairs: s.test.Pairs,
		Exposure: exposures(s.test, .1)}}.logged().Evidence
	judge := s.result.Judge()
	e := risk.Estimator{Scheme: risk.DR{}}
	others := make([]float32, evidence.Pairs.Len())
	for k := range others {
		others[k] = float32(k%7) - 3
	}
	own := must(judge.Risk(ctx, evidence, e, nil))(t)
	other := must(judge.Risk(ctx, evidence, e, others))(t)
	difference := must(judge.Difference(ctx, evidence, e, nil, others))(t)
	if math.Abs(own.Plain-other.Plain-difference.Plain) > 1e-9 || math.Abs(own.Bias-other.Bias-difference.Bias) > 1e-9 {
		t.Errorf("%v less %v is not %v", own.Plain, other.Plain, difference.Plain)
	}
	if own.Nuisance == 0 || own.Bias == 0 || !(own.Lower < own.Estimate && own.Estimate < own.Upper) {
		t.Errorf("%+v", own)
	}
	z, _, err := judge.Logits(ctx, evidence.Pairs)
	if err != nil {
		t.Fatal(err)
	}
	var low, high, weight float64
	for k, logit := range z {
		b := must(risk.FromLogits(float64(logit), 0))(t)
		linked, unlinked := risk.LogLoss{}.Losses(b)
		w := evidence.Pairs.Weight[k]
		low, high, weight = low+w*min(linked, unlinked), high+w*max(linked, unlinked), weight+w
	}
	rare := *judge
	rare.PropensityParams = make([]float32, len(judge.PropensityParams))
	for i, logit := range judge.PropensityParams {
		rare.PropensityParams[i] = logit - 10
		if i%2 == 0 {
			rare.PropensityParams[i] = logit
		}
	}
	tiny := must(rare.Risk(ctx, evidence, e, nil))(t)
	for _, x := range []float64{tiny.Plain, tiny.Lower, tiny.Estimate, tiny.Upper} {
		if !(x >= low/weight-1e-9 && x <= high/weight+1e-9) {
			t.Errorf("%+v, beyond %v to %v", tiny, low/weight, high/weight)
		}
	}
}

// A log of which no doubly robust risk can be estimated has none in the panel, and a reason where it is asked for.
func TestRobustRiskRefuses(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJudgeDoesNotDependOnThreads has the goroutines of a judge")
	s := must(saturated())(t)
	unseen := make([]risk.Exposure, s.test.Pairs.Len())
	for k := range unseen {
		unseen[k] = risk.Unexposed
	}
	alone := make([]risk.Exposure, len(unseen))
	for k, source := range s.test.Pairs.Source {
		if source == s.test.Pairs.Source[0] {
			alone[k] = risk.Exposed
		}
	}
	for name, exposure := range map[string][]risk.Exposure{"nothing shown": unseen, "one source": alone} {
		v := sample.Evidence{Pairs: s.test.Pairs, Exposure: exposure}
		if _, ok := must(s.result.Judge().Panel(t.Context(), v, .05, nil))(t).Risks["dr"]; ok {
			t.Errorf("%s: there is an estimate", name)
		}
		v = question{Evidence: v}.logged().Evidence
		if _, err := s.result.Judge().Risk(t.Context(), v, risk.Estimator{Scheme: risk.DR{}}, nil); !errors.Is(err,
			ErrData) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
