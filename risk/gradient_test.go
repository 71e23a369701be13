package risk

import (
	"math"
	"strings"
	"testing"
)

// closedForms are the derivatives of the four objectives under the log-loss as functions of (o, y, π),
// in z and in π, written down independently of the chain rule in Gradient.
var closedForms = map[string]func(o, y, p float64) (dz, dp float64){
	"nll": func(o, y, p float64) (float64, float64) {
		u, q := 1-y, 1-p*y
		return (1-o)*p*y*u/q - o*u, (1-o)*y/q - o/p
	},
	"w": func(o, y, p float64) (float64, float64) {
		u, q := 1-y, 1-p*y
		return (1-o)*(y*u/q)*(1+((1-p)/q)*math.Log(u)) - o*u/p, o*math.Log(y)/(p*p) - (1-o)*(u*y/(q*q))*math.Log(u)
	},
	"pu": func(o, y, p float64) (float64, float64) {
		return y - o/p, o * math.Log(y/(1-y)) / (p * p)
	},
	"ap": func(o, y, p float64) (float64, float64) {
		u, q, z := 1-y, 1-p*y, math.Log(y/(1-y))
		return (1-o)*(y*u/q)*(p-((1-p)/q)*z) - o*u, (1 - o) * (y * u / (q * q)) * z
	},
}

// objective returns value and gradient by name.
func objective(name string, linked bool, b Belief) (float64, Gradient) {
	if name == "nll" {
		return NLL(linked, b)
	}
	return Estimator{Scheme: builtins[name]}.Gradient(Observation{Linked: linked}, b)
}

func TestGradientAgainstClosedForms(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 1)
	for range 5000 {
		y, p := .001+.998*rng.Float64(), .01+.98*rng.Float64()
		b := probabilities(t, y, p)
		for name, closed := range closedForms {
			for _, linked := range []bool{false, true} {
				o := 0.
				if linked {
					o = 1
				}
				dz, dp := closed(o, y, p)
				_, g := objective(name, linked, b)
				wantNear(t, name+" ∂z", g.Link, dz, 1e-11)
				wantNear(t, name+" ∂s", g.Propensity, dp*p*(1-p), 1e-11)
				if t.Failed() {
					t.Fatalf("at o = %v, y = %v, π = %v", o, y, p)
				}
			}
		}
	}
}

func TestGradientAgainstDifferences(t *testing.T) {
	t.Parallel()
	const h = 1e-5
	rng := newRand(t, 2)
	for range 3000 {
		z, s := 12*rng.Float64()-6, 12*rng.Float64()-6
		for name := range closedForms {
			for _, linked := range []bool{false, true} {
				at := func(z, s float64) float64 {
					v, _ := objective(name, linked, logits(t, z, s))
					return v
				}
				value, g := objective(name, linked, logits(t, z, s))
				scale := math.Max(1, math.Abs(value))
				dz, ds := (at(z+h, s)-at(z-h, s))/(2*h), (at(z, s+h)-at(z, s-h))/(2*h)
				if math.Abs(g.Link-dz) > 3e-9*scale || math.Abs(g.Propensity-ds) > 3e-9*scale {
					t.Fatalf("%s o = %v: gradient %+v, differences %v, %v at z = %v, s = %v", name, linked, g, dz, ds,
						z, s)
				}
			}
		}
	}
}

func TestGradientOfOtherLosses(t *testing.T) {
	t.Parallel()
	const h = 1e-5
	rng := newRand(t, 3)
	for range 1000 {
		z, s := 8*rng.Float64()-4, 8*rng.Float64()-4
		for name, scheme := range corrected {
			for _, loss := range []Loss{CappedLogLoss{Cap: 2}, ZeroOne{Cost: 3}} {
				if a, b := (LogLoss{}).Losses(logits(t, z, s)); math.Abs(z) < 2*h || math.Abs(a-2) < 2*h ||
					math.Abs(b-2) < 2*h {
					continue // at a kink
				}
				e := Estimator{Scheme: scheme, Loss: loss}
				o := Observation{Linked: rng.IntN(2) == 1}
				at := func(z, s float64) float64 { return e.Risk(o, logits(t, z, s)) }
				value, g := e.Gradient(o, logits(t, z, s))
				scale := math.Max(1, math.Abs(value))
				dz, ds := (at(z+h, s)-at(z-h, s))/(2*h), (at(z, s+h)-at(z, s-h))/(2*h)
				if math.Abs(g.Link-dz) > 3e-9*scale || math.Abs(g.Propensity-ds) > 3e-9*scale {
					t.Fatalf("%s %T: gradient %+v, differences %v, %v at z = %v, s = %v", name, loss, g, dz, ds, z, s)
				}
			}
		}
	}
}

// AP with its masses held has the likelihood's ∂z: the EM step. Its ∂s is 0, unlike the likelihood's.
func TestHeldAPHasTheLikelihoodsGradient(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 4)
	for range 5000 {
		b := logits(t, 60*rng.Float64()-30, 60*rng.Float64()-30)
		for _, linked := range []bool{false, true} {
			_, held := Estimator{}.HeldGradient(Observation{Linked: linked}, b)
			_, nll := NLL(linked, b)
			wantNear(t, "∂z", held.Link, nll.Link, 1e-15)
			if held.Propensity != 0 {
				t.Fatalf("held ∂s = %v", held.Propensity)
			}
		}
	}
	_, nll := NLL(false, probabilities(t, .5, .5))
	if nll.Propensity == 0 {
		t.Error("the likelihood must depend on s")
	}
}

func TestHeldIsGradientLessSlopes(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 5)
	for range 500 {
		b := logits(t, 10*rng.Float64()-5, 10*rng.Float64()-5)
		for name, scheme := range corrected {
			o := Observation{Linked: rng.IntN(2) == 1}
			e := Estimator{Scheme: scheme}
			value, g := e.Gradient(o, b)
			heldValue, held := e.HeldGradient(o, b)
			slope := scheme.Slope(o, b)
			linked, unlinked := LogLoss{}.Losses(b)
			if value != heldValue || value != e.Risk(o, b) {
				t.Fatalf("%s: values differ: %v, %v, %v", name, value, heldValue, e.Risk(o, b))
			}
			wantNear(t, name, g.Link-held.Link, slope.Link.Positive*linked+slope.Link.Negative*unlinked, 1e-12)
		}
	}
}

func TestClippedPropensityHasNoGradient(t *testing.T) {
	t.Parallel()
	b := logits(t, .3, -6)
	for name, scheme := range corrected {
		for _, linked := range []bool{false, true} {
			_, g := Estimator{Scheme: scheme, Floor: .05}.Gradient(Observation{Linked: linked}, b)
			if g.Propensity != 0 {
				t.Errorf("%s: ∂s = %v under the floor", name, g.Propensity)
			}
			_, g = NLL(linked, b.Floored(.05))
			if g.Propensity != 0 {
				t.Errorf("likelihood: ∂s = %v under the floor", g.Propensity)
			}
		}
	}
	above := logits(t, .3, -1)
	_, with := Estimator{Scheme: W{}, Floor: .05}.Gradient(Observation{Linked: true}, above)
	_, without := Estimator{Scheme: W{}}.Gradient(Observation{Linked: true}, above)
	if with != without {
		t.Errorf("a floor below π̂ changed the gradient: %+v, %+v", with, without)
	}
}

// Nothing is NaN anywhere in the closed ranges; within |z|, |s| ≤ 700 nothing is infinite; and beyond, the
// values are infinite only where the log-loss is, or 1/π̂ is.
func TestNothingIsNaN(t *testing.T) {
	t.Parallel()
	for _, b := range beliefsEverywhere(t) {
		calm := math.Abs(b.LinkLogit()) <= 700 && math.Abs(b.PropensityLogit()) <= 700
		check := func(name string, linked bool, value float64, g Gradient) {
			for _, x := range []float64{value, g.Link, g.Propensity} {
				if math.IsNaN(x) || calm && math.IsInf(x, 0) {
					t.Fatalf("%s linked %v: %v, %+v at %+v", name, linked, value, g, b)
				}
			}
			certain := math.IsInf(b.LinkLogit(), 0)
			unshown := linked && math.IsInf(b.InversePropensity(), 1)
			if math.IsInf(value, 0) && !certain && !unshown && math.Abs(b.LinkLogit()) < 1e300 &&
				math.Abs(b.PropensityLogit()) < 700 {
				t.Fatalf("%s linked %v: %v without cause at %+v", name, linked, value, b)
			}
			if !strings.HasPrefix(name, "pu") && value < 0 {
				t.Fatalf("%s linked %v: negative %v at %+v", name, linked, value, b)
			}
		}
		for _, linked := range []bool{false, true} {
			value, g := NLL(linked, b)
			check("nll", linked, value, g)
			for name, scheme := range builtins {
				for _, loss := range []Loss{LogLoss{}, CappedLogLoss{Cap: 10}, ZeroOne{Cost: 2}} {
					e := Estimator{Scheme: scheme, Loss: loss}
					value, g = e.Gradient(observation(linked), b)
					check(name, linked, value, g)
					value, g = e.HeldGradient(observation(linked), b)
					check(name+", held", linked, value, g)
				}
				// With a floor and a cap everything is finite.
				guarded := Estimator{Scheme: scheme, Loss: CappedLogLoss{Cap: 10}, Floor: .05}
				value, g = guarded.Gradient(observation(linked), b)
				if !isFinite(value) || !isFinite(g.Link) || !isFinite(g.Propensity) || math.Abs(value) > 200 {
					t.Fatalf("%s guarded: %v, %+v at %+v", name, value, g, b)
				}
			}
		}
	}
}

// Values in the far corners that have a known limit.
func TestFarCorners(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		name   string
		scheme Scheme
		linked bool
		z, s   float64
		want   float64
	}{
		{"AP forgives ŷ = 1 that was not shown", AP{}, false, inf, 0, 0},
		{"AP does not forgive ŷ = 1 that was shown", AP{}, false, inf, inf, inf},
		{"AP at ŷ = 0", AP{}, false, -inf, 0, 0},
		{"W at ŷ = 1", W{}, false, inf, 0, 0},
		{"naive at ŷ = 1", Naive{}, false, inf, 0, inf},
		{"naive at ŷ = 0", Naive{}, true, -inf, 0, inf},
		{"PU at ŷ = 1, link seen", PU{}, true, inf, 0, -inf},
		{"PU at ŷ = 1, π̂ = 1", PU{}, true, inf, inf, 0},
		{"PU at π̂ = 0, z > 0", PU{}, true, 1, -inf, -inf},
		{"PU at π̂ = 0, z < 0", PU{}, true, -1, -inf, inf},
		{"PU at π̂ = 0, z = 0", PU{}, true, 0, -inf, math.Ln2},
	} {
		e := Estimator{Scheme: c.scheme}
		if got := e.Risk(Observation{Linked: c.linked}, logits(t, c.z, c.s)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The likelihood keeps its precision where 1 − ŷπ̂ is 0 or 1 in float64.
func TestLikelihoodPrecision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		linked bool
		z, s   float64
		want   float64
	}{
		{true, 0, 0, math.Log(4)},
		{false, 0, 0, -math.Log(.75)},
		{false, -40, 0, math.Exp(-40) / 2},                 // ŷπ̂ ≪ 1: −log(1−p) ≈ p
		{false, 40, 40, 40 - math.Ln2},                     // q = 2e⁻⁴⁰
		{false, 800, 800, 800 - math.Ln2},                  // q underflows
		{false, 800, 900, 800},                             // the smaller logit rules
		{false, 1000, 0, math.Ln2},                         // q = 1−π̂
		{true, -800, -900, 1700},                           // ŷπ̂ underflows
		{false, 600, 650, 600 - math.Log1p(math.Exp(-50))}, // q is tiny
	} {
		got, _ := NLL(c.linked, logits(t, c.z, c.s))
		if math.Abs(got-c.want) > 1e-14*c.want {
			t.Errorf("NLL(%v; %v, %v) = %v, want %v", c.linked, c.z, c.s, got, c.want)
		}
	}
	if got, _ := NLL(false, probabilities(t, 1, 1)); !math.IsInf(got, 1) {
		t.Errorf("an impossible observation has NLL %v", got)
	}
}

// λ_L = 0 has trivial optima. ŷ ≡ 1 with π̂ < 1 makes W and AP vanish, and sends PU below 0 without end
// as π̂ falls. The paper names π̂ ≡ 1, ŷ > ½ for PU and AP under the 0–1 loss; there both are the naive
// risk, and every missing link costs Δ.
func TestTrivialOptima(t *testing.T) {
	t.Parallel()
	loss := ZeroOne{Cost: 2}
	sure := probabilities(t, 1, .3)
	for _, linked := range []bool{false, true} {
		for name, scheme := range map[string]Scheme{"w": W{}, "ap": AP{}} {
			for _, l := range []Loss{loss, LogLoss{}} {
				if got := (Estimator{Scheme: scheme, Loss: l}).Risk(Observation{Linked: linked}, sure); got != 0 {
					t.Errorf("%s at ŷ = 1: %v", name, got)
				}
			}
		}
	}
	shown := probabilities(t, .9, 1)
	for _, scheme := range []Scheme{PU{}, AP{}, Naive{}} {
		e := Estimator{Scheme: scheme, Loss: loss}
		if got := e.Risk(Observation{}, shown); got != 2 {
			t.Errorf("%T at π̂ = 1, ŷ = .9, o = 0: %v, want Δ = 2", scheme, got)
		}
		if got := e.Risk(Observation{Linked: true}, shown); got != 0 {
			t.Errorf("%T at π̂ = 1, ŷ = .9, o = 1: %v, want 0", scheme, got)
		}
	}
	pu := Estimator{Scheme: PU{}, Loss: loss}
	if got := pu.Risk(Observation{Linked: true}, probabilities(t, .9, 1e-6)); got > -1e6 {
		t.Errorf("PU at π̂ = 10⁻⁶: %v", got)
	}
}

func TestPerPairPathDoesNotAllocate(t *testing.T) {
	for name, scheme := range builtins {
		e := Estimator{Scheme: scheme, Loss: LogLoss{}, Floor: .05}
		o := observation(true)
		if n := testing.AllocsPerRun(100, func() {
			b, _ := FromLogits(.3, -1)
			e.Gradient(o, b)
			e.HeldGradient(o, b)
			NLL(true, b)
		}); n != 0 {
			t.Errorf("%s: %v allocations a pair", name, n)
		}
	}
}

func BenchmarkGradient(b *testing.B) {
	e := Estimator{Scheme: AP{}, Loss: LogLoss{}, Floor: .05}
	b.ReportAllocs()
	for i := range b.N {
		belief, _ := FromLogits(float64(i%16)-8, .5)
		e.Gradient(Observation{Linked: i%32 == 0}, belief)
	}
}
