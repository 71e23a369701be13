package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"unseen/risk"
)

// The information of a sampled pair is the expected square of its slopes.
func TestInformationOfAPair(t *testing.T) {
	for _, rate := range []float64{1, .3} {
		for _, logged := range []bool{false, true} {
			base := point{pi: .4, rest: .6, rate: rate}
			e := math.Exp(-.7)
			y := 1 / (1 + e)
			observed := base.pi * y
			sampled := observed + rate*(1-observed)
			type outcome struct {
				chance float64
				p      point
			}
			linked, refused, unseen := base, base, base
			linked.linked = true
			outcomes := []outcome{{observed / sampled, linked}, {rate * (1 - observed) / sampled, base}}
			if logged {
				linked.exposure, refused.exposure, unseen.exposure = risk.Exposed, risk.Exposed, risk.Unexposed
				outcomes = []outcome{{observed / sampled, linked}, {rate * base.pi * (1 - y) / sampled, refused},
					{rate * base.rest / sampled, unseen}}
			}
			var zz, zs, ss, dz, ds float64
			var information contribution
			for _, o := range outcomes {
				var c contribution
				if logged {
					o.p.addLogged(&c, e, 1)
				} else {
					o.p.add(&c, e, 1)
				}
				dz, ds = dz+o.chance*c.dz, ds+o.chance*c.ds
				zz, zs, ss = zz+o.chance*c.dz*c.dz, zs+o.chance*c.dz*c.ds, ss+o.chance*c.ds*c.ds
				information.zz += o.chance * c.zz
				information.zs += o.chance * c.zs
				information.ss += o.chance * c.ss
			}
			for name, pair := range map[string][2]float64{"mean ∂z": {dz, 0}, "mean ∂s": {ds, 0},
				"zz": {information.zz, zz}, "zs": {information.zs, zs}, "ss": {information.ss, ss}} {
				if math.Abs(pair[0]-pair[1]) > 1e-12 {
					t.Errorf("rate %v logged %v: %s is %v, want %v", rate, logged, name, pair[0], pair[1])
				}
			}
		}
	}
}

// Losses that are added up by products are the sums of their logarithms, however large they are.
func TestTally(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	losses := newTally(true)
	var want float64
	for range 100_000 {
		i := rng.IntN(4)
		loss := math.Exp(rng.NormFloat64() * 3) // up to some 300,000
		if loss > 700 {
			loss = 700
		}
		losses.add(i, math.Exp(loss))
		want += losses.weights[i] * loss
	}
	if got := losses.total(); math.Abs(got-want) > 1e-11*want {
		t.Errorf("%v, want %v", got, want)
	}
	if sum := losses.weights[0] + 2*(losses.weights[1]+losses.weights[2]+losses.weights[3]); math.Abs(sum-1) > 1e-15 {
		t.Errorf("the weights of the seven points add up to %v", sum)
	}
	losses.add(2, math.Inf(1))
	if got := losses.total(); !math.IsInf(got, 1) {
		t.Errorf("%v with an impossible pair", got)
	}
}

// The slopes and the information of an offered pair are those of its loss, taken apart numerically.
func TestOfferedSlopes(t *testing.T) {
	var seen risk.Exposure
	loss := func(z, s float64, linked bool) float64 {
		pi := 1 / (1 + math.Exp(-s))
		y := 1 / (1 + math.Exp(-z))
		p := seen.Seen() * y * (1 - pi) / (1 - pi*y)
		if linked {
			return -math.Log(p)
		}
		return -math.Log(1 - p)
	}
	rng := rand.New(rand.NewPCG(3, 0))
	for range 200 {
		z, s, linked := 3*rng.NormFloat64(), 2*rng.NormFloat64(), rng.IntN(2) == 0
		pi := 1 / (1 + math.Exp(-s))
		seen = risk.OfferedSeen(1.3 - 1.2*rng.Float64())
		at := point{pi: pi, rest: 1 - pi, rate: 1, linked: linked, exposure: seen}
		var got contribution
		at.addOffered(&got, math.Exp(-z), 1)
		const h = 1e-5
		dz := (loss(z+h, s, linked) - loss(z-h, s, linked)) / (2 * h)
		ds := (loss(z, s+h, linked) - loss(z, s-h, linked)) / (2 * h)
		if math.Abs(got.loss-loss(z, s, linked)) > 1e-9 || math.Abs(got.dz-dz) > 1e-6 || math.Abs(got.ds-ds) > 1e-6 {
			t.Fatalf("z %v, s %v, linked %v: %+v, want loss %v, slopes %v %v", z, s, linked, got, loss(z, s, linked),
				dz, ds)
		}
		// the information is the mean square of the slopes over what can happen
		var zz, zs, ss float64
		for _, o := range []bool{false, true} {
			var one contribution
			at.linked = o
			at.addOffered(&one, math.Exp(-z), 1)
			chance := math.Exp(-loss(z, s, o))
			zz, zs, ss = zz+chance*one.dz*one.dz, zs+chance*one.dz*one.ds, ss+chance*one.ds*one.ds
		}
		if math.Abs(got.zz-zz) > 1e-9 || math.Abs(got.zs-zs) > 1e-9 || math.Abs(got.ss-ss) > 1e-9 {
			t.Fatalf("z %v, s %v: information %v %v %v, want %v %v %v", z, s, got.zz, got.zs, got.ss, zz, zs, ss)
		}
	}
}
