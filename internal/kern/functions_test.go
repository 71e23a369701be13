package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// logits returns n numbers over the whole range that a logit can have, extremes included.
func logits(rng *rand.Rand, n int) []float32 {
	special := []float64{0, math.Copysign(0, -1), 1e-45, -1e-45, 1e-8, -1e-8, 1, -1, 16, -16, 17.5, 87, -87, 88.5,
		88.8, -88.8, 103, -103, 104, -104.5,
		700, -700, 1e30, -1e30, math.MaxFloat32, -math.MaxFloat32, math.Inf(1), math.Inf(-1), math.NaN()}
	z := make([]float32, n)
	for i := range z {
		switch rng.IntN(8) {
		case 0:
			z[i] = float32(special[rng.IntN(len(special))])
		case 1:
			z[i] = float32(rng.NormFloat64() * 60)
		case 2:
			z[i] = float32(rng.NormFloat64() * math.Exp(-20*rng.Float64()))
		default:
			z[i] = float32(rng.NormFloat64() * 4)
		}
	}
	return z
}

// withinUlps checks the bound that doc.go states: 4 units in the last place, or the smallest
// normal number's where the result is smaller than it.
func withinUlps(t *testing.T, name string, z, got float32, want float64) {
	t.Helper()
	if math.IsNaN(want) {
		if got == got {
			t.Errorf("%s(%v) = %v, want NaN", name, z, got)
		}
		return
	}
	if math.Abs(want) > math.MaxFloat32 {
		want = math.Copysign(math.Inf(1), want)
	}
	if float64(got) == want {
		return
	}
	_, exponent := math.Frexp(want)
	ulp := math.Ldexp(1, max(exponent, -125)-24)
	if !(math.Abs(float64(got)-want) <= 4*ulp) {
		t.Errorf("%s(%v) = %v, want %v: off by %.2f units in the last place", name, z, got, want,
			math.Abs(float64(got)-want)/ulp)
	}
}

func TestFunctions(t *testing.T) {
	functions := []struct {
		name  string
		run   func(dst, z []float32)
		exact func(z float64) float64
	}{
		{"sigmoid", Sigmoid, sigmoid64},
		{"logSigmoid", LogSigmoid, func(z float64) float64 { return -softplus64(-z) }},
	}
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 3))
		for _, f := range functions {
			for _, n := range append([]int{5000}, lengths...) {
				room := logits(rng, n+1)
				z := room[1:]
				dst := make([]float32, n)
				f.run(dst, z)
				for i := range z {
					withinUlps(t, f.name, z[i], dst[i], f.exact(float64(z[i])))
				}
				// position-free, and in place
				for from := range min(n, 20) {
					part := append([]float32(nil), z[from:]...)
					f.run(part, part)
					if math.Float32bits(part[0]) != math.Float32bits(dst[from]) {
						t.Fatalf("%s(%v) is %v at %d and %v at 0", f.name, z[from], dst[from], from, part[0])
					}
				}
			}
		}
	})
}

func TestSigmoidSoftplus(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 3))
		for _, n := range lengths {
			z := logits(rng, n)
			y, loss := make([]float32, n), make([]float32, n)
			SigmoidSoftplus(y, loss, z)
			for i := range z {
				withinUlps(t, "sigmoid", z[i], y[i], sigmoid64(float64(z[i])))
				withinUlps(t, "softplus", z[i], loss[i], softplus64(float64(z[i])))
			}
			again, over := make([]float32, n), append([]float32(nil), z...)
			SigmoidSoftplus(over, again, over)
			for i := range z {
				if math.Float32bits(over[i]) != math.Float32bits(y[i]) ||
					math.Float32bits(again[i]) != math.Float32bits(loss[i]) {
					t.Fatalf("in place, element %d differs", i)
				}
			}
		}
	})
}

// What an item would teach follows from its y in float32, which has no 1 − y below 6e-8.
func TestTeaching(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 3))
		for _, n := range append([]int{5000}, lengths...) {
			z := logits(rng, n)
			y, w := make([]float32, n), make([]float32, n)
			Teaching(y, w, z)
			for i, x := range z {
				rare := sigmoid64(float64(x))
				if !(rare > float64(float32(1e-37))) {
					rare = float64(float32(1e-37))
				}
				withinUlps(t, "y", x, y[i], rare)
				own, wide := float64(y[i]), float64(x)
				want := math.Sqrt(own * (1 - own) * (1 + wide*wide))
				if !(want > 1e-18) || y[i] <= 1e-37 {
					want = 1e-18
				}
				if !(math.Abs(float64(w[i])-want) <= 1e-6*want) {
					t.Errorf("w(%v) = %v, want %v", x, w[i], want)
				}
			}
		}
	})
}

func TestBlockSums(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 3))
		var sums [][2]float64
		for _, n := range append([]int{0, SumBlock - 1, SumBlock, 10*SumBlock + 3}, lengths...) {
			x, y := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i], y[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
			}
			sums = BlockSums(sums, x, y)
			if len(sums) != (n+SumBlock-1)/SumBlock {
				t.Fatalf("%d sums of %d elements", len(sums), n)
			}
			for b, got := range sums {
				var want [2]float64
				for i := b * SumBlock; i < min((b+1)*SumBlock, n); i++ {
					want[0] += float64(x[i])
					want[1] += float64(x[i]) * float64(y[i])
				}
				for k := range want {
					if !(math.Abs(got[k]-want[k]) <= 1e-12*SumBlock) {
						t.Errorf("block %d of %d elements: %v, want %v", b, n, got, want)
					}
				}
			}
		}
	})
}

// sumsOf64 is the sums over unlinked pairs in float64, where pair i has the logits z[i] and s(i). ψ and τ take π for
// the floor where it is lower; certain counts a π that is hardly below 1 as 1.
func sumsOf64(z []float32, s func(i int) float64, floor float64, certain bool) (want UnlinkedSums) {
	for i, x := range z {
		x := math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, float64(x)))
		y, u := Sigmoid64(x)
		pi, rest := Sigmoid64(s(i))
		want.Link += y
		want.Loss += softplus64(x)
		if rest < 1e-30 && certain {
			want.Psi += softplus64(x)
			want.NegLog += softplus64(x)
			continue
		}
		kept := math.Min(rest, 1-floor)
		want.Psi += u / (u + y*kept) * softplus64(x)
		want.Tau += y * kept / (u + y*kept) * softplus64(-x)
		want.NegLog += math.Log1p(pi * y / (u + y*rest))
	}
	return want
}

// wantSums holds the sums of n pairs against those of float64. Every term is ≥ 0, so the sum is the magnitude;
// float32 terms may underflow.
func wantSums(t *testing.T, what string, got, want UnlinkedSums, n int) {
	t.Helper()
	wantSumsBut(t, what, got, want, 1e-34*float64(n))
}

// wantSumsBut is wantSums where what underflows may come to so much.
func wantSumsBut(t *testing.T, what string, got, want UnlinkedSums, least float64) {
	t.Helper()
	a, b := got.array(), want.array()
	for i, x := range a {
		if !(math.Abs(x-b[i]) <= 16*epsilon*b[i]+least) {
			t.Errorf("%s: sum %d: got %v, want %v (%.1f ε)", what, i, x, b[i], math.Abs(x-b[i])/b[i]/epsilon)
		}
	}
}

// finite replaces NaN, which is tested on its own.
func finite(z []float32) []float32 {
	for i, x := range z {
		if x != x {
			z[i] = 1
		}
	}
	return z
}

func TestUnlinkedSums(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 3))
		for _, n := range append([]int{10000}, lengths...) {
			for _, s := range []float64{-700, -80, -12, -2, 0, 1.5, 9, 60, 100, 700} {
				z := finite(logits(rng, n))
				pi, rest := Sigmoid64(s)
				var got UnlinkedSums
				got.Add(z, pi, rest)
				want := sumsOf64(z, func(int) float64 { return s }, 0, true)
				wantSums(t, fmt.Sprintf("n %d, s %v", n, s), got, want, n)
			}
		}
		var sums UnlinkedSums
		sums.Add([]float32{1, float32(math.NaN()), 2}, .5, .5)
		if !math.IsNaN(sums.Loss) || !math.IsNaN(sums.Psi) || !math.IsNaN(sums.NegLog) || !math.IsNaN(sums.Link) {
			t.Errorf("NaN was swallowed: %+v", sums)
		}
		sums = UnlinkedSums{}
		if sums.Add([]float32{Without, Without, Without}, .5, .5); sums != (UnlinkedSums{}) {
			t.Errorf("pairs that are left out add %+v", sums)
		}
	})
}

// Both directions of pairs come to what each of them does.
func TestUnlinkedSumsBoth(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 3))
		of := func(s float64) Propensity {
			pi, rest := Sigmoid64(s)
			return Propensity{pi, rest}
		}
		for _, n := range append([]int{10000}, lengths...) {
			for _, s := range [][2]float64{{-700, -80}, {-12, -2}, {0, 1.5}, {9, -3}, {34, 34}, {60, 2}, {-9, 60},
				{60, 60}, {700, 0}} {
				z := finite(logits(rng, n))
				var got UnlinkedSums
				got.AddBoth(z, of(s[0]), of(s[1]))
				want := sumsOf64(z, func(int) float64 { return s[0] }, 0, true)
				back := sumsOf64(z, func(int) float64 { return s[1] }, 0, true)
				sums := want.array()
				for k, x := range back.array() {
					sums[k] += x
				}
				want.set(sums)
				wantSums(t, fmt.Sprintf("n %d, s %v", n, s), got, want, n)
			}
		}
		var sums UnlinkedSums
		sums.AddBoth([]float32{1, float32(math.NaN()), 2}, of(0), of(1))
		if !math.IsNaN(sums.Loss) || !math.IsNaN(sums.Psi) || !math.IsNaN(sums.NegLog) || !math.IsNaN(sums.Link) {
			t.Errorf("NaN was swallowed: %+v", sums)
		}
		sums = UnlinkedSums{}
		if sums.AddBoth([]float32{Without, Without, Without}, of(0), of(1)); sums != (UnlinkedSums{}) {
			t.Errorf("pairs that are left out add %+v", sums)
		}
	})
}

// exposedBy is the logit of every pair's exposure, rounded as the kernels do, up to the largest that counts.
func exposedBy(z []float32, by Exposed, slope float32, most float64) func(i int) float64 {
	limit := func(x, most float64) float64 { return math.Max(-most, math.Min(most, x)) }
	return func(i int) float64 {
		own := float64(by.Own + by.Each[i])
		return limit(float64(float32(own+float64(slope)*limit(float64(z[i]), math.MaxFloat32))), most)
	}
}

// withPropensity adds Σ π of pairs that each have their own.
func withPropensity(want UnlinkedSums, z []float32, s func(i int) float64) UnlinkedSums {
	for i, x := range z {
		if pi, _ := Sigmoid64(s(i)); x > Without {
			want.Propensity += pi
		}
	}
	return want
}

func TestUnlinkedSumsEach(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 3))
		for _, n := range append([]int{10000}, lengths...) {
			for k, floor := range []float64{0, .01, .3, .999} {
				z := finite(logits(rng, n))
				by, slope := Exposed{finite(logits(rng, n)), []float32{0, -3, 1, 5}[k]}, []float32{0, .3, 1, -.1}[k]
				var got UnlinkedSums
				got.AddEach(z, by, ExposureRule{slope, floor})
				// float32 knows 1−floor by its last bit, as it knows the floor of Add
				floor = 1 - float64(float32(1-floor))
				s := exposedBy(z, by, slope, 86)
				want := withPropensity(sumsOf64(z, s, floor, false), z, s)
				wantSums(t, fmt.Sprintf("n %d, floor %v", n, floor), got, want, n)
			}
			// one propensity for all is what Add has
			z, s := finite(logits(rng, n)), slices.Repeat([]float32{-1.25}, n)
			var each, one UnlinkedSums
			each.AddEach(z, Exposed{Each: s}, ExposureRule{})
			pi, rest := Sigmoid64(-1.25)
			one.Add(z, pi, rest)
			one = withPropensity(one, z, func(int) float64 { return -1.25 })
			wantSums(t, fmt.Sprintf("n %d, one propensity", n), each, one, n)
		}
		for _, at := range []int{0, 1} {
			pair := [2][]float32{{1, 2}, {1, 2}}
			pair[at][1] = float32(math.NaN())
			var sums UnlinkedSums
			if sums.AddEach(pair[0], Exposed{Each: pair[1]}, ExposureRule{}); !math.IsNaN(sums.Psi) ||
				!math.IsNaN(sums.NegLog) {
				t.Errorf("NaN was swallowed: %+v", sums)
			}
		}
		var sums UnlinkedSums
		if sums.AddEach([]float32{Without}, Exposed{Each: []float32{3}}, ExposureRule{Floor: .01}); sums !=
			(UnlinkedSums{}) {
			t.Errorf("a pair that is left out adds %+v", sums)
		}
	})
}

// Both directions of pairs that each have their own exposure come to what each of them does.
func TestUnlinkedSumsEachBoth(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(6, 3))
		for _, n := range append([]int{10000}, lengths...) {
			for k, floor := range []float64{0, .01, .3, .999} {
				z := finite(logits(rng, n))
				there := Exposed{finite(logits(rng, n)), []float32{0, -3, 1, 5}[k]}
				back := Exposed{finite(logits(rng, n)), []float32{1, 3, -6, 0}[k]}
				slope := []float32{0, .3, 1, -.1}[k]
				var got UnlinkedSums
				got.AddEachBoth(z, there, back, ExposureRule{slope, floor})
				floor = 1 - float64(float32(1-floor))
				var sums [6]float64
				for _, by := range []Exposed{there, back} {
					s := exposedBy(z, by, slope, 43)
					one := withPropensity(sumsOf64(z, s, floor, false), z, s)
					for i, x := range one.array() {
						sums[i] += x
					}
				}
				var want UnlinkedSums
				want.set(sums)
				// 1−y of 1e-45 is none; over q of 2e-19, times softplus(z) of 104
				wantSumsBut(t, fmt.Sprintf("n %d, floor %v", n, floor), got, want, 1e-24*float64(n))
			}
		}
		for at := range 3 {
			rows := [3][]float32{{1, 2}, {1, 2}, {1, 2}}
			rows[at][1] = float32(math.NaN())
			var sums UnlinkedSums
			if sums.AddEachBoth(rows[0], Exposed{Each: rows[1]}, Exposed{Each: rows[2]}, ExposureRule{}); !math.IsNaN(
				sums.Psi) || !math.IsNaN(sums.NegLog) {
				t.Errorf("NaN was swallowed: %+v", sums)
			}
		}
		var sums UnlinkedSums
		if sums.AddEachBoth([]float32{Without}, Exposed{Each: []float32{3}}, Exposed{Each: []float32{-1}},
			ExposureRule{.2, .01}); sums != (UnlinkedSums{}) {
			t.Errorf("a pair that is left out adds %+v", sums)
		}
	})
}

func TestAdam(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, n := range lengths {
			params, exact := randomRow(rng, n), make([]float64, n)
			first, second := make([]float64, n), make([]float64, n)
			for i, x := range params {
				exact[i] = float64(x)
			}
			a := NewAdam(n, .01)
			for step := 1; step <= 20; step++ {
				grad := randomRow(rng, n)
				if step == 7 {
					clear(grad)
				}
				a.Step(params, grad)
				for i, g := range grad {
					g := float64(g)
					first[i] = .9*first[i] + .1*g
					second[i] = .999*second[i] + .001*g*g
					exact[i] -= .01 * first[i] / (1 - math.Pow(.9,
						float64(step))) / (math.Sqrt(second[i]/(1-math.Pow(.999, float64(step)))) + 1e-8)
				}
			}
			for i := range params {
				// 20 steps of at most .01 or so, each to a few ε, on a parameter of size 1
				if math.Abs(float64(params[i])-exact[i]) > 2e-5 {
					t.Fatalf("n %d element %d: %v, want %v", n, i, params[i], exact[i])
				}
			}
		}
	})
}

// Slopes and information of pairs agree with float64, at both ends of the logits too, and do not depend on neighbours.
func TestPairSlopes(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 14))
		const most = 64
		values := func() []float32 { return make([]float32, most) }
		p := PairValues{Z: values(), S: values(), Sign: values(), Rate: values(), Weight: values(), DZ: values(),
			DS: values(), ZZ: values(), ZS: values(), SS: values(), Chance: values()}
		for round := range 200 {
			n := 1 + rng.IntN(most)
			for k := range most {
				spread := []float64{1, 5, 30}[rng.IntN(3)]
				p.Z[k], p.S[k] = float32(spread*rng.NormFloat64()), float32(spread*rng.NormFloat64())
				p.Sign[k] = float32(1 - 2*rng.IntN(2))
				p.Rate[k], p.Weight[k] = rng.Float32()+.001, 10*rng.Float32()
			}
			PairSlopes(&p, n, 20)
			want := PairValues{Z: p.Z, S: p.S, Sign: p.Sign, Rate: p.Rate, Weight: p.Weight, DZ: values(), DS: values(),
				ZZ: values(), ZS: values(), SS: values(), Chance: values()}
			pairSlopesGo(&want, n, 20)
			for name, both := range map[string][2][]float32{"dz": {p.DZ, want.DZ}, "ds": {p.DS, want.DS},
				"zz": {p.ZZ, want.ZZ}, "zs": {p.ZS, want.ZS}, "ss": {p.SS, want.SS},
				"chance": {p.Chance, want.Chance}} {
				for k := range n {
					got, want := float64(both[0][k]), float64(both[1][k])
					if !(math.Abs(got-want) <= 1e-5*math.Abs(want)+1e-30) {
						t.Fatalf("round %d, %s of pair %d: %v, want %v (z %v, s %v, rate %v)", round, name, k, got,
							want, p.Z[k], p.S[k], p.Rate[k])
					}
				}
			}
		}
	})
}
