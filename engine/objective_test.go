package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// reference is one pair's objective and slopes in float64, from package risk and the formulas of
// the case-control likelihood.
func reference(o *Objective, w *workspace, k int) (value, dz, ds float64) {
	linked, a, z, s := w.linked[k], w.exposure[k], float64(w.z[k]), float64(w.s[k])
	rate, weight := float64(w.rate[k]), float64(w.weight[k])
	b, err := risk.FromLogits(z, s)
	if err != nil {
		panic(err)
	}
	likelihood := o.LambdaL
	if o.Likelihood == Weighted {
		likelihood *= weight
	}
	if o.Likelihood != CaseControl {
		rate = 1
	}
	switch {
	case a != risk.Unlogged:
		// P(a, o | sampled) = P(a, o)·(1 if linked, else r)/(p + r·q), up to what is constant
		sampled := b.Observed() + rate*b.Unobserved()
		common := (1 - rate) * b.Observed() / sampled
		value, dz, ds = math.Log(sampled), common*b.NotLink(), common*b.NotPropensity()
		switch {
		case a == risk.Unexposed:
			value, ds = value+kern.Softplus64(s), ds+b.Propensity()
		case linked:
			value, dz, ds = value+kern.Softplus64(-s)+kern.Softplus64(-z), dz-b.NotLink(), ds-b.NotPropensity()
		default:
			value, dz, ds = value+kern.Softplus64(-s)+kern.Softplus64(z), dz+b.Link(), ds-b.NotPropensity()
		}
		value, dz, ds = likelihood*value, likelihood*dz, likelihood*ds
	default:
		// logit P = logit(π̂ŷ) − log r
		logit := math.Log(b.Observed()) - math.Log(b.Unobserved()) - math.Log(rate)
		p, q := kern.Sigmoid64(logit)
		e := p
		value = likelihood * kern.Softplus64(logit)
		if linked {
			e = -q
			value = likelihood * kern.Softplus64(-logit)
		}
		dz, ds = likelihood*e*b.NotLink()/b.Unobserved(), likelihood*e*b.NotPropensity()/b.Unobserved()
	}
	scheme := map[RiskTerm]risk.Scheme{RiskW: risk.W{}, RiskPU: risk.PU{}, RiskAP: risk.AP{}}[o.Risk]
	if scheme == nil {
		return value, dz, ds
	}
	if o.EvenRisk {
		weight = 1
	}
	estimator := risk.Estimator{Scheme: scheme}
	gradient := estimator.Gradient
	floored := b.Floored(o.Floor)
	if o.Held {
		gradient = estimator.HeldGradient
	}
	r, g := gradient(risk.Observation{Linked: linked}, floored)
	return value + o.LambdaR*weight*r, dz + o.LambdaR*weight*g.Link, ds + o.LambdaR*weight*g.Propensity
}

func TestSlopes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, scheme := range []RiskTerm{NoRisk, RiskW, RiskPU, RiskAP} {
		for variant := range 4 {
			held, floor := variant%2 == 1, .3*float64(variant/2)
			for _, sampling := range []Likelihood{CaseControl, Unweighted, Weighted} {
				o := &Objective{LambdaL: 2, LambdaR: 3, Risk: scheme, Held: held, Likelihood: sampling,
					EvenRisk: sampling == Unweighted}
				o.Floor = floor
				o.Exposure = []risk.Exposure{} // per workspace
				w := newWorkspace()
				for range 30 {
					for k := range stretch {
						w.z[k], w.s[k] = float32(rng.NormFloat64()*5), float32(rng.NormFloat64()*3)
						w.linked[k] = rng.IntN(3) == 0
						w.rate[k], w.weight[k] = min(rng.Float32()+1e-3, 1), rng.Float32()*4
						w.exposure[k] = risk.Exposure(max(rng.IntN(6)-3, 0))
					}
					parts := o.slopes(w, stretch, 1, true)
					var total, magnitude float64
					for k := range stretch {
						v, dz, ds := reference(o, w, k)
						total += v
						magnitude += math.Abs(v)
						for name, pair := range map[string][2]float64{"∂z": {float64(w.dz[k]), dz},
							"∂s": {float64(w.ds[k]), ds}} {
							if math.Abs(pair[0]-pair[1]) > 2e-4*(math.Abs(pair[1])+1) {
								t.Fatalf("scheme %d held %v %v: %s at z %v s %v linked %v exposure %d: %v, want %v",
									scheme, held, sampling, name, w.z[k], w.s[k], w.linked[k], w.exposure[k], pair[0],
									pair[1])
							}
						}
					}
					if got := parts.Total(); math.Abs(got-total) > 1e-5*magnitude {
						t.Fatalf("scheme %d held %v floor %v %v: value %v, want %v", scheme, held, floor, sampling,
							got, total)
					}
				}
			}
		}
	}
}

// Under ShownOnly ŷ learns from shown pairs alone and π̂ from logged ones, whatever the other says.
func TestShownSlopes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 2))
	for _, sampling := range []Likelihood{CaseControl, Unweighted, Weighted} {
		o := &Objective{LambdaL: 2, ShownOnly: true, Likelihood: sampling, Exposure: []risk.Exposure{}}
		w := newWorkspace()
		for k := range stretch {
			w.z[k], w.s[k] = float32(rng.NormFloat64()*3), float32(rng.NormFloat64()*3)
			w.linked[k] = rng.IntN(3) == 0
			w.rate[k], w.weight[k] = min(rng.Float32()+1e-2, 1), rng.Float32()*4
			if w.exposure[k] = risk.Exposure(rng.IntN(4)); w.exposure[k] == risk.Offered {
				w.exposure[k], w.rate[k] = risk.OfferedSeen(1.3-rng.Float64()), 1
			}
		}
		got := o.slopes(w, stretch, 1, true).Total()
		value := func(k int, z, s float64) (v float64) {
			rate, weight, a := 1., 1., w.exposure[k]
			if sampling == CaseControl {
				rate = float64(w.rate[k])
			} else if sampling == Weighted {
				weight = float64(w.weight[k])
			}
			y := 1 / (1 + math.Exp(-z))
			switch sampled := y + rate*(1-y); {
			case w.linked[k]:
				v -= weight * math.Log(a.Seen()*y/sampled)
			case a == risk.Exposed || a.IsOffered():
				v -= weight * math.Log((rate*(1-y)+(1-a.Seen())*y)/sampled)
			}
			pi := 1 / (1 + math.Exp(-s))
			switch a {
			case risk.Exposed:
				v -= float64(w.weight[k]) * math.Log(pi)
			case risk.Unexposed:
				v -= float64(w.weight[k]) * math.Log(1-pi)
			}
			return 2 * v
		}
		total := 0.
		for k := range stretch {
			z, s := float64(w.z[k]), float64(w.s[k])
			total += value(k, z, s)
			const h = 1e-5
			dz, ds := (value(k, z+h, s)-value(k, z-h, s))/(2*h), (value(k, z, s+h)-value(k, z, s-h))/(2*h)
			if math.Abs(dz-float64(w.dz[k])) > 1e-5 || math.Abs(ds-float64(w.ds[k])) > 1e-5 {
				t.Errorf("%v, pair %d: slopes %v and %v, want %v and %v", sampling, k, w.dz[k], w.ds[k], dz, ds)
			}
		}
		if math.Abs(got-total) > 1e-5*total {
			t.Errorf("%v: %v, want %v", sampling, got, total)
		}
	}
}

// smallSample is random nodes that every model can look at, and pairs of them.
func smallSample(tb testing.TB, nodes, dim, pairs int, seed uint64) (model.Nodes, *graph.Pairs) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	v, err := graph.NewVectors(nodes, dim)
	if err != nil {
		tb.Fatal(err)
	}
	n := model.Nodes{Vectors: v, FieldCount: 4}
	row := make([]float32, dim)
	for i := range nodes {
		for d := range row {
			row[d] = float32(rng.NormFloat64())
		}
		if err := v.Set(int32(i), row); err != nil {
			tb.Fatal(err)
		}
		n.Fields = append(n.Fields, uint16(1+rng.IntN(3)))
		n.Popularity = append(n.Popularity, rng.Float32()*3)
		n.Age = append(n.Age, rng.Float32()*20)
	}
	p := &graph.Pairs{Universe: int64(nodes) * int64(nodes-1)}
	for range pairs {
		i := rng.IntN(nodes)
		j := (i + 1 + rng.IntN(nodes-1)) % nodes
		p.Source, p.Target = append(p.Source, int32(i)), append(p.Target, int32(j))
		p.Linked = append(p.Linked, rng.IntN(4) == 0)
		p.Weight, p.Rate = append(p.Weight, 1+rng.Float64()*3), append(p.Rate, .1+.9*rng.Float64())
	}
	return n, p
}

func init() {
	// half of what AP believes of a missing link: a scheme without slopes of its own
	err := risk.Register("test-halfway", risk.MassFunc(func(o risk.Observation, b risk.Belief) risk.Mass {
		if o.Linked {
			return risk.Mass{Positive: 1}
		}
		return risk.Mass{Positive: b.Hidden() / 2, Negative: 1 - b.Hidden()/2}
	}))
	if err != nil {
		panic(err)
	}
}

// The whole gradient agrees with central differences for every method and every model.
func TestGradient(t *testing.T) {
	nodes, pairs := smallSample(t, 25, 5, 150, 1)
	exposure := make([]risk.Exposure, pairs.Len())
	for k := range exposure {
		exposure[k] = risk.Exposure(k % 3)
	}
	custom, err := risk.Lookup("test-halfway")
	if err != nil {
		t.Fatal(err)
	}
	for _, linkKind := range model.LinkKinds() {
		link, err := model.NewLink(linkKind, nodes, model.LinkOptions{Rank: 2, Hidden: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, propensityKind := range append(model.PropensityKinds(), "field-matrix+text+popularity") {
			options := model.PropensityOptions{Rank: 2, Hidden: 3, Propensity: .4, Rest: .3,
				Exposures: []model.KnownExposure{}}
			propensity, err := model.NewPropensity(propensityKind, nodes, options)
			if err != nil {
				t.Fatal(err)
			}
			for _, scheme := range []RiskTerm{NoRisk, RiskW, RiskPU, RiskAP, OtherRisk} {
				o := &Objective{Link: link, Propensity: propensity, LambdaL: 1.5, LambdaR: .7, Risk: scheme,
					Pairs: pairs, Estimator: risk.Estimator{Scheme: custom}}
				if scheme == RiskAP {
					o.Exposure = exposure
				}
				n := o.Size()
				o.Precision, o.Centre = make([]float64, n), make([]float64, n)
				params := make([]float32, n)
				rng := rand.New(rand.NewPCG(3, uint64(n)))
				for i := range params {
					params[i] = float32(rng.NormFloat64() * .3)
					o.Precision[i], o.Centre[i] = .1, .05
				}
				grad := make([]float64, n)
				if _, err := (CPU{}).Gradient(context.Background(), o, params, grad); err != nil {
					t.Fatal(err)
				}
				for range 6 {
					i := rng.IntN(max(n, 1))
					if n == 0 {
						break
					}
					const h = 4e-3
					at := params[i]
					value := func(x float32) float64 {
						params[i] = x
						parts, err := CPU{}.Gradient(context.Background(), o, params, nil)
						if err != nil {
							t.Fatal(err)
						}
						return parts.Total()
					}
					numeric := (value(at+h) - value(at-h)) / float64((at+h)-(at-h))
					params[i] = at
					if math.Abs(numeric-grad[i]) > 3e-3*(1+math.Abs(numeric)) {
						t.Errorf("%s, %s, scheme %d: parameter %d of %d has slope %v, by differences %v", linkKind,
							propensityKind, scheme, i, n, grad[i], numeric)
					}
				}
			}
		}
	}
}

// The doubly robust risk's gradient holds ŷ in the masses constant: a(ŷ−o)/π̂. Its value falls along it, as optimisers
// expect, and is never below 0.
func TestDoublyRobustSlope(t *testing.T) {
	o := &Objective{LambdaR: 1, Risk: RiskDR, Exposure: []risk.Exposure{}}
	w := newWorkspace()
	rng := rand.New(rand.NewPCG(4, 4))
	for k := range stretch {
		w.z[k], w.s[k], w.weight[k], w.rate[k] = float32(rng.NormFloat64()*3), float32(rng.NormFloat64()), 1, 1
		w.exposure[k] = risk.Exposure(k % 3)
		w.linked[k] = w.exposure[k] != risk.Unexposed && rng.IntN(2) == 0
	}
	o.slopes(w, stretch, 1, true)
	for k := range stretch {
		y, _ := kern.Sigmoid64(float64(w.z[k]))
		pi, _ := kern.Sigmoid64(float64(w.s[k]))
		want := 0.0
		if w.exposure[k] == risk.Exposed {
			outcome := 0.0
			if w.linked[k] {
				outcome = 1
			}
			want = (y - outcome) / pi
		}
		if math.Abs(float64(w.dz[k])-want) > 1e-4*(1+math.Abs(want)) || w.ds[k] != 0 {
			t.Fatalf("exposure %d linked %v: ∂z %v, want %v; ∂s %v", w.exposure[k], w.linked[k], w.dz[k], want, w.ds[k])
		}
		at := w.z[k]
		value := func(z float32) float64 {
			w.z[k] = z
			return o.slopes(w, stretch, 1, true).Risk
		}
		numeric := (value(at+.01) - value(at-.01)) / .02
		if w.z[k] = at; math.Abs(numeric-want) > 1e-2*(1+math.Abs(want)) || value(at) < 0 {
			t.Fatalf("exposure %d linked %v: slope of the value %v, want %v", w.exposure[k], w.linked[k], numeric, want)
		}
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	nodes, pairs := smallSample(t, 500, 33, 5000, 1)
	o := &Objective{Link: must(model.NewDiagonal(nodes, false))(t), Propensity: must(model.NewFieldMatrix(nodes))(t),
		LambdaL: 20, LambdaR: 1, Risk: RiskW, Pairs: pairs}
	params := make([]float32, o.Size())
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range params {
		params[i] = float32(rng.NormFloat64())
	}
	one := make([]float64, o.Size())
	first, err := CPU{Threads: 1}.Gradient(context.Background(), o, params, one)
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{1, 2, 3, 7} {
		many := make([]float64, o.Size())
		parts, err := CPU{Threads: threads}.Gradient(context.Background(), o, params, many)
		if err != nil {
			t.Fatal(err)
		}
		if parts != first || !slices.Equal(one, many) {
			t.Errorf("%d threads change the gradient", threads)
		}
	}
}

func TestParseLikelihood(t *testing.T) {
	for _, s := range []Likelihood{CaseControl, Unweighted, Weighted} {
		if got, err := ParseLikelihood(s.String()); err != nil || got != s {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	if _, err := ParseLikelihood("bogus"); err == nil {
		t.Error("bogus was read")
	}
}
