package main

import (
	"fmt"
	"math"
)

// Elementwise functions work on whole registers; the Go side pads the tail. Two registers go through a chain of
// dependent instructions side by side: a group.
//
// With a = |z|, e = exp(−a) ∈ [0, 1] and L = log1p(e):
//
//	σ(z) = (z ≥ 0 ? 1 : e)/(1+e)    softplus(z) = max(z, 0) + L    log σ(z) = min(z, 0) − L
//
// so nothing overflows and nothing cancels at either end. The polynomials are those of the amd64 kernels.

// group is a few registers that the same instructions are issued for, one after the other.
type group []vec

// chain emits elementwise mathematics for a number of registers at a time.
type chain struct {
	*routine
	width int
}

// constant returns a register that serves a whole group.
func (s chain) constant(c constant) group {
	v := s.lanes(c)
	g := make(group, s.width)
	for i := range g {
		g[i] = v
	}
	return g
}

func (s chain) number(x float64) group { return s.constant(number(x)) }

// of returns op(a, b), for the instructions of two inputs.
func (s chain) of(op func(to, x, y vec), a, b group) group {
	out := group(s.group(s.width))
	for i, v := range out {
		op(v, a[i], b[i])
	}
	return out
}

// apply returns op(a), for the instructions of one input.
func (s chain) apply(op func(to, x vec), a group) group {
	out := group(s.group(s.width))
	for i, v := range out {
		op(v, a[i])
	}
	return out
}

// addmul sets acc = acc + x·y; submul acc − x·y.
func (s chain) addmul(acc, x, y group) group {
	for i, v := range acc {
		s.fma(v, x[i], y[i])
	}
	return acc
}

func (s chain) submul(acc, x, y group) group {
	for i, v := range acc {
		s.fms(v, x[i], y[i])
	}
	return acc
}

// horner evaluates the polynomial with the highest coefficient first.
func (s chain) horner(x group, coefficients ...float64) group {
	p := s.number(coefficients[0])
	for _, c := range coefficients[1:] {
		next := make(group, s.width)
		for i := range next {
			next[i] = s.lanes(number(c))
		}
		p = s.addmul(next, p, x)
	}
	return p
}

// clamp limits x to [lo, hi] and keeps NaN.
func (s chain) clamp(x group, lo, hi float64) group {
	return s.of(s.max, s.of(s.min, x, s.number(hi)), s.number(lo))
}

func (s chain) or(to, x, y vec)  { s.on("VORR V%d.B16, V%d.B16, V%d.B16", y, x, to) }
func (s chain) xor(to, x, y vec) { s.on("VEOR V%d.B16, V%d.B16, V%d.B16", y, x, to) }

// Those of whole numbers.
func (s chain) plus(to, x, y vec)  { s.on("VADD V%d.S4, V%d.S4, V%d.S4", y, x, to) }
func (s chain) minus(to, x, y vec) { s.on("VSUB V%d.S4, V%d.S4, V%d.S4", y, x, to) }

// exponent makes whole numbers n + 127 the powers 2ⁿ.
func (s chain) exponent(to, x vec) { s.on("VSHL $23, V%d.S4, V%d.S4", x, to) }

// expBelow89: x = n·ln2 + r, |r| ≤ ln2/2; e^r = 1 + r + r²·P(r), P minimax of degree 4 (7.8e-9). Nothing guards against
// overflow above x = 89.
func (s chain) expBelow89(x group) group {
	x = s.of(s.max, x, s.number(-105))
	n := s.apply(func(to, x vec) { s.encode(0x4e218800, "FRINTN V%d.4S, V%d.4S", to, x) },
		s.of(s.mul, x, s.number(math.Log2E)))
	const ln2High = 0.693359375 // nine bits: n·ln2High is exact
	s.submul(x, n, s.number(ln2High))
	s.submul(x, n, s.number(math.Ln2-ln2High))
	p := s.horner(x, 0.00139261835877, 0.00836317905272, 0.0416665546172, 0.166665769897, 0.5, 1, 1)
	// 2^n in two factors, so that overflow and denormals come out right
	whole := s.apply(func(to, x vec) { s.encode(0x4e21a800, "FCVTNS V%d.4S, V%d.4S", to, x) }, n)
	first := s.apply(func(to, x vec) { s.encode(0x4f3f0400, "SSHR V%d.4S, V%d.4S, #1", to, x) }, whole)
	for _, part := range []group{first, s.of(s.minus, whole, first)} {
		p = s.of(s.mul, p, s.apply(s.exponent, s.of(s.plus, part, s.constant(all(127)))))
	}
	return p
}

// log1pRatio returns log1p(x)/x for x ∈ [0, 1]: minimax of degree 8 (3.3e-8). No division, and
// tiny x keep every digit.
func (s chain) log1pRatio(x group) group {
	return s.horner(x, 0.00512597852968, -0.0290735963055, 0.0775153678151, -0.136021903385, 0.190768555341,
		-0.248353929891, 0.333181210087, -0.499994449454, 0.999999965923)
}

// log1p for finite x ≥ 0: 1+x = 2^k·(1+f), √½ ≤ 1+f < √2; log(1+f) = 2·atanh(t), t = f/(2+f),
// = t·(2 + w·P(w)), w = t² (2.8e-9). f is x itself when k = 0, so that tiny x keep every digit.
func (s chain) log1p(x group) group {
	k := s.of(s.mul, s.of(s.add, x, s.number(1)), s.number(math.Sqrt2))
	k = s.apply(func(to, x vec) { s.on("VUSHR $23, V%d.S4, V%d.S4", x, to) }, k)
	k = s.of(s.minus, k, s.constant(all(127)))
	inverse := s.apply(s.exponent, s.of(s.minus, s.constant(all(127)), k))
	k = s.apply(s.toFloat, k)
	f := s.of(s.mul, x, inverse)
	f = s.of(s.add, f, s.of(s.sub, inverse, s.number(1)))
	t := s.of(s.div, f, s.of(s.add, f, s.number(2)))
	w := s.of(s.mul, t, t)
	p := s.horner(w, 0.2958098593, 0.399887577166, 0.666666850954, 2)
	return s.addmul(s.of(s.mul, p, t), k, s.number(math.Ln2))
}

// inverse returns 1/x.
func (s chain) inverse(x group) group { return s.of(s.div, s.number(1), x) }

// decay returns exp(−|z|).
func (s chain) decay(z group) group { return s.expBelow89(s.of(s.or, z, s.constant(all(1<<31)))) }

// choose returns a where z ≥ 0 (sign bit clear) and b elsewhere.
func (s chain) choose(z, a, b group) group {
	out := s.apply(func(to, x vec) { s.encode(0x4ea0a800, "CMLT V%d.4S, V%d.4S, #0", to, x) }, z)
	for i, v := range out {
		s.on("VBSL V%d.B16, V%d.B16, V%d.B16", a[i], b[i], v)
	}
	return out
}

// positive returns max(z, 0), negative min(z, 0); both keep NaN.
func (s chain) positive(z group) group { return s.of(s.max, z, s.number(0)) }
func (s chain) negative(z group) group { return s.of(s.min, z, s.number(0)) }

// sigmoids returns y = σ(z), u = σ(−z) and e = exp(−|z|).
func (s chain) sigmoids(z group) (y, u, e group) {
	e = s.decay(z)
	inverse := s.inverse(s.of(s.add, e, s.number(1))) // 1/(1+e) and e/(1+e) are y and u, or u and y
	other := s.of(s.mul, inverse, e)
	return s.choose(z, inverse, other), s.choose(z, other, inverse), e
}

func (s chain) sigmoid(z, decay group) group {
	share := s.inverse(s.of(s.add, decay, s.number(1)))
	return s.choose(z, share, s.of(s.mul, share, decay))
}

// loop runs body until count elements are done, `width` registers at a time and then one by one. body moves the
// pointers that it reads and writes.
func (r *routine) loop(count string, width int, body func(s chain)) {
	for _, w := range []int{width, 1} {
		name := fmt.Sprintf("by%d", 4*w)
		r.label(name)
		r.compare(count, fmt.Sprintf("$%d", 4*w))
		r.jump("BLT", name+"_end")
		body(chain{r, w})
		r.do("SUB $%d, %s", 4*w, count)
		r.jump("B", name)
		r.label(name + "_end")
		if width == 1 {
			break
		}
	}
}

// next loads a group and moves the pointer behind it.
func (s chain) next(from string) group {
	g := s.peek(from, s.width)
	s.do("ADD $%d, %s", 16*s.width, from)
	return g
}

func elementwise(f *file) {
	define := func(name, doc string, body func(s chain, z group) []group, outputs ...string) {
		var params []string
		for _, out := range outputs {
			params = append(params, out+" *float32")
		}
		r := f.function(name+"NEON", doc+"; count is a multiple of 4.", append(params, "z *float32", "count int")...)
		z, count := r.load("z"), r.load("count")
		var to []string
		for _, out := range outputs {
			to = append(to, r.load(out))
		}
		r.useConstants()
		r.loop(count, 2, func(s chain) {
			for k, result := range body(s, s.next(z)) {
				s.write(to[k], result)
			}
		})
		r.do("RET")
	}
	define("sigmoid", "dst = σ(z)", func(s chain, z group) []group {
		return []group{s.sigmoid(z, s.decay(z))}
	}, "dst")
	define("logSigmoid", "dst = log σ(z)", func(s chain, z group) []group {
		e := s.decay(z)
		return []group{s.submul(s.negative(z), s.log1pRatio(e), e)}
	}, "dst")
	define("sigmoidSoftplus", "y = σ(z), loss = softplus(z)", func(s chain, z group) []group {
		e := s.decay(z)
		return []group{s.sigmoid(z, e), s.addmul(s.positive(z), s.log1pRatio(e), e)}
	}, "y", "loss")
}

// without is a z that adds nothing to any sum.
const without = -1000

// lossSums: the sums over unlinked pairs that every risk is made of. With y = σ(z), u = 1−y and q = u + y(1−π):
//
//	Σ softplus(z)   Σ ψ·softplus(z)   Σ τ·softplus(−z)   Σ −log q   Σ y,   ψ = u/q, τ = y(1−π)/q
//
// and −log q = log1p(πy/q). Lanes are added up as float64. Pairs share one π, or each has its own, π = σ(s),
// s being its number, one that all share and a multiple of z; then ψ and τ have 1−π no higher than a ceiling, and
// Σ π is added up, too. Or sums are over both directions, in which pairs share one π, or each has its own: the
// exponential of z and the logarithms and divisions of a pair then serve both, as the product of both q does. What
// does not depend on π is added up once.
//
// Long because it reads as the assembly that it writes: one routine, whose registers live to its end.
func lossSums(f *file, of string) {
	each, both := of == "Each" || of == "EachBoth", of == "Both" || of == "EachBoth"
	doc := "adds Σ softplus(z), Σ ψ·softplus(z), Σ τ·softplus(−z), Σ −log q, Σ y; "
	const many = "; count is a multiple of 4."
	params := []string{"sums *[6]float64", "z *float32"}
	switch of {
	case "EachBoth":
		doc += "ψ, τ, −log q and π, the last of the sums, of both directions, π = σ(own + s + slope·z) and " +
			"σ(other + t + slope·z) of each element, and at least 1−ceiling in ψ and τ" + many
		params = append(params, "s *float32", "t *float32", "count int", "own float32", "other float32",
			"slope float32", "ceiling float32")
	case "Each":
		doc += "Σ π; π = σ(own + s + slope·z) of each element, and at least 1−ceiling in ψ and τ" + many
		params = append(params, "s *float32", "count int", "own float32", "slope float32", "ceiling float32")
	case "Both":
		doc += "ψ, τ and −log q of both directions, π = pi and back, rest = 1−pi, kept = 1−back, " +
			"rest·kept ≥ 1e-30" + many
		params = append(params, "count int", "pi float32", "rest float32", "back float32", "kept float32")
	default:
		doc += "rest = 1−pi > 0" + many
		params = append(params, "count int", "pi float32", "rest float32")
	}
	r := f.function("lossSums"+of+"NEON", doc, params...)
	sums, z, count := r.load("sums"), r.load("z"), r.load("count")
	r.useConstants()
	one := func(name string) group { return group{r.broadcast(name)} }
	var there, again string
	var pi, rest, back, kept, own, other, slope, ceiling group
	if each {
		there, own, slope, ceiling = r.load("s"), one("own"), one("slope"), one("ceiling")
	} else {
		pi, rest = one("pi"), one("rest")
	}
	switch of {
	case "EachBoth":
		again, other = r.load("t"), one("other")
	case "Both":
		back, kept = one("back"), one("kept")
	}
	width := 5
	if each {
		width = 6
	}
	total := r.group(width)
	for _, v := range total {
		r.zero(v)
	}
	add := func(i int, g group) {
		low, high := r.vec(), r.vec()
		r.encode(0x0e617800, "FCVTL V%d.2D, V%d.2S", low, g[0])
		r.encode(0x4e617800, "FCVTL2 V%d.2D, V%d.4S", high, g[0])
		r.encode(0x4e60d400, "FADD V%d.2D, V%d.2D, V%d.2D", low, low, high)
		r.encode(0x4e60d400, "FADD V%d.2D, V%d.2D, V%d.2D", total[i], total[i], low)
	}
	r.loop(count, 1, func(s chain) {
		v := s.clamp(s.next(z), -math.MaxFloat32, math.MaxFloat32)
		// exposed returns π and 1−π, given its number of each element, and one for all
		exposed := func(each string, own group, most float64) (pi, rest group) {
			x := s.addmul(s.of(s.add, s.next(each), own), v, slope)
			pi, rest, _ = s.sigmoids(s.clamp(x, -most, most))
			return pi, rest
		}
		// shown adds π up, but for the z of what is no pair
		shown := func(pi group) {
			add(5, s.of(s.mul, pi, s.clamp(s.of(s.sub, v, s.number(without)), 0, 1)))
		}
		y, u, e := s.sigmoids(v)
		add(4, y)
		pi, rest, back, kept := pi, rest, back, kept
		switch of {
		case "Each":
			pi, rest = exposed(there, own, 86) // beyond, 1/q may be no normal number
			shown(pi)
		case "EachBoth":
			pi, rest = exposed(there, own, 43) // beyond, 1/(qp) may be no normal number
			back, kept = exposed(again, other, 43)
			shown(s.of(s.add, pi, back))
		}
		visible, hidden := s.of(s.mul, y, pi), s.of(s.mul, y, rest) // yπ and y(1−π)
		var psi, tau group
		if both {
			other := s.of(s.mul, y, kept)
			q, p := s.of(s.add, hidden, u), s.of(s.add, other, u)
			share := s.inverse(s.of(s.mul, q, p))
			s.addmul(visible, s.of(s.mul, y, back), q) // 1 − qp = yπ + q·yπ′
			add(3, s.log1p(s.of(s.mul, visible, share)))
			if each {
				hidden, other = s.of(s.mul, y, s.of(s.min, ceiling, rest)), s.of(s.mul, y, s.of(s.min, ceiling, kept))
				q, p = s.of(s.add, hidden, u), s.of(s.add, other, u)
				share = s.inverse(s.of(s.mul, q, p))
			}
			psi = s.of(s.mul, s.of(s.mul, s.of(s.add, q, p), u), share)
			tau = s.of(s.mul, s.addmul(s.of(s.mul, hidden, p), other, q), share)
		} else {
			kept := hidden
			if each {
				kept = s.of(s.mul, y, s.of(s.min, ceiling, rest))
			}
			share := s.inverse(s.of(s.add, hidden, u))
			add(3, s.log1p(s.of(s.mul, visible, share)))
			if each {
				share = s.inverse(s.of(s.add, kept, u))
			}
			psi, tau = s.of(s.mul, u, share), s.of(s.mul, kept, share)
		}
		l := s.of(s.mul, s.log1pRatio(e), e)
		loss := s.of(s.add, l, s.positive(v))
		add(0, loss)
		add(1, s.of(s.mul, loss, psi))
		missed := s.of(s.sub, l, s.negative(v)) // softplus(−z)
		add(2, s.of(s.mul, missed, tau))
	})
	for i, v := range total {
		before := r.vec()
		r.encode(0x6e60d400, "FADDP V%d.2D, V%d.2D, V%d.2D", v, v, v)
		r.on(fmt.Sprintf("FMOVD %d(%s), F%%d", 8*i, sums), before)
		r.on("FADDD F%d, F%d, F%d", v, before, v)
		r.on(fmt.Sprintf("FMOVD F%%d, %d(%s)", 8*i, sums), v)
	}
	r.do("RET")
}

// adam: one step of Adam over parameters and their two moments.
func adam(f *file) {
	r := f.function("adamNEON", "first += blend1·(g−first), second += blend2·(g²−second), params −= "+
		"step·first/(√second·root + epsilon); count is a multiple of 4.", "params *float32", "first *float32",
		"second *float32", "grad *float32", "count int", "blend1 float32", "blend2 float32", "step float32",
		"root float32", "epsilon float32")
	params, first, second, grad := r.load("params"), r.load("first"), r.load("second"), r.load("grad")
	count := r.load("count")
	var same []group
	for _, name := range []string{"blend1", "blend2", "step", "root", "epsilon"} {
		same = append(same, group{r.broadcast(name)})
	}
	blend1, blend2, step, root, epsilon := same[0], same[1], same[2], same[3], same[4]
	r.loop(count, 1, func(s chain) {
		g, m, v, p := s.next(grad), group(s.peek(first, 1)), group(s.peek(second, 1)), group(s.peek(params, 1))
		s.write(first, s.addmul(m, s.of(s.sub, g, m), blend1))
		s.write(second, s.addmul(v, s.of(s.sub, s.of(s.mul, g, g), v), blend2))
		below := s.apply(func(to, x vec) { s.encode(0x6ea1f800, "FSQRT V%d.4S, V%d.4S", to, x) }, v)
		below = s.of(s.add, s.of(s.mul, below, root), epsilon)
		s.write(params, s.submul(p, s.of(s.div, m, below), step))
	})
	r.do("RET")
}

// pairSlopes: slopes and information of the likelihood of pairs, linked or not, in z and s. With y = σ(z), π = σ(s),
// q = 1−πy, the chance P = πy/(πy + r·q) of a sampled pair to be linked, ψ = (1−y)/q and η = (1−π)/q:
//
//	∂z = w(P−o)ψ   ∂s = w(P−o)η   zz = wP(1−P)ψ²   zs = wP(1−P)ψη   ss = wP(1−P)η²
//
// and the chance of what was seen, P or 1−P. The sign is that of 1−2o.
func pairSlopes(f *file) {
	names := []string{"dz", "ds", "zz", "zs", "ss", "chance", "z", "s", "sign", "rate", "weight"}
	var params []string
	for _, name := range names {
		params = append(params, name+" *float32")
	}
	r := f.function("pairSlopesNEON", "slopes and information of pairs, times λ·weight; count is a multiple of 4.",
		append(params, "count int", "lambda float32")...)
	pointers := map[string]string{}
	for _, name := range names {
		pointers[name] = r.load(name)
	}
	count := r.load("count")
	r.useConstants()
	lambda := group{r.broadcast("lambda")}
	r.loop(count, 1, func(s chain) {
		load := func(name string) group { return s.next(pointers[name]) }
		store := func(name string, g group) { s.write(pointers[name], g) }
		y, u, _ := s.sigmoids(s.clamp(load("z"), -86, 86))
		pi, rest, _ := s.sigmoids(s.clamp(load("s"), -86, 86))
		q := s.of(s.add, u, s.of(s.mul, y, rest))
		p := s.of(s.max, s.number(1e-35), s.of(s.mul, pi, y))
		rq := s.of(s.mul, load("rate"), q)
		whole := s.inverse(s.of(s.add, p, rq))
		linked, unlinked := s.of(s.mul, p, whole), s.of(s.mul, rq, whole)
		sign := load("sign")
		store("chance", s.choose(sign, unlinked, linked))
		off := s.choose(sign, linked, s.of(s.xor, unlinked, s.constant(all(1<<31))))
		inverse := s.inverse(q)
		psi, hide := s.of(s.mul, u, inverse), s.of(s.mul, rest, inverse)
		weight := s.of(s.mul, load("weight"), lambda)
		off = s.of(s.mul, off, weight)
		store("dz", s.of(s.mul, off, psi))
		store("ds", s.of(s.mul, off, hide))
		v := s.of(s.mul, weight, s.of(s.mul, linked, unlinked))
		vz := s.of(s.mul, v, psi)
		store("zz", s.of(s.mul, vz, psi))
		store("zs", s.of(s.mul, vz, hide))
		store("ss", s.of(s.mul, s.of(s.mul, v, hide), hide))
	})
	r.do("RET")
}
