package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Elementwise functions work on whole registers; the Go side pads the tail. Their chains of
// dependent instructions are long, so several registers go through them side by side: a group.
// Constants are 64-byte replicas in memory, read as operands.
//
// With a = |z|, e = exp(−a) ∈ [0, 1] and L = log1p(e):
//
//	σ(z) = (z ≥ 0 ? 1 : e)/(1+e)    softplus(z) = max(z, 0) + L    log σ(z) = min(z, 0) − L
//
// so nothing overflows and nothing cancels at either end.

// group is a few registers that the same instructions are issued for, one after the other.
type group []reg.VecVirtual

func (g group) at(i int) Op { return g[i] }

// source is the operand of an instruction: a register of a group, or the same memory for all.
type source interface{ at(i int) Op }

type lanes struct{ Mem }

func (l lanes) at(int) Op { return l.Mem }

var constants = map[uint32]Mem{}

// bits returns an operand whose lanes all hold the given pattern.
func bits(pattern uint32) lanes {
	m, ok := constants[pattern]
	if !ok {
		m = GLOBL(fmt.Sprintf("lanes%08x", pattern), RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, U32(pattern))
		}
		constants[pattern] = m
	}
	return lanes{m}
}

func number(x float64) lanes { return bits(math.Float32bits(float32(x))) }

// chain emits elementwise mathematics for a number of registers at a time.
type chain struct {
	isa
	width int
}

func (s chain) group() group {
	g := make(group, s.width)
	for i := range g {
		g[i] = s.vec()
	}
	return g
}

// of returns op(a, b): a+b, a−b, a·b, a/b. For MINPS and MAXPS, b is what comes out if either is NaN.
func (s chain) of(op func(...Op), a, b source) group {
	out := s.group()
	for i, v := range out {
		first := a.at(i)
		if m, ok := first.(Mem); ok {
			VMOVUPS(m, v)
			first = v
		}
		op(b.at(i), first, v)
	}
	return out
}

// apply returns op(a) for an instruction with one input.
func (s chain) apply(op func(a Op, out reg.VecVirtual), a source) group {
	out := s.group()
	for i, v := range out {
		op(a.at(i), v)
	}
	return out
}

// muladd sets acc = acc·x + c.
func (s chain) muladd(acc group, x group, c source) group {
	for i, v := range acc {
		VFMADD213PS(c.at(i), x[i], v)
	}
	return acc
}

// addmul sets acc = acc + x·y; submul acc − x·y.
func (s chain) addmul(acc, x group, y source) group {
	for i, v := range acc {
		VFMADD231PS(y.at(i), x[i], v)
	}
	return acc
}

func (s chain) submul(acc, x group, y source) group {
	for i, v := range acc {
		VFNMADD231PS(y.at(i), x[i], v)
	}
	return acc
}

func (s chain) constant(x float64) group {
	return s.apply(func(a Op, out reg.VecVirtual) { VMOVUPS(a, out) }, number(x))
}

// clamp limits x to [lo, hi] and keeps NaN.
func (s chain) clamp(x group, lo, hi float64) group {
	return s.of(vmaxps, number(lo), s.of(vminps, number(hi), x))
}

// horner evaluates the polynomial with the highest coefficient first.
func (s chain) horner(x group, coefficients ...float64) group {
	p := s.constant(coefficients[0])
	for _, c := range coefficients[1:] {
		s.muladd(p, x, number(c))
	}
	return p
}

// expBelow89: x = n·ln2 + r, |r| ≤ ln2/2; e^r = 1 + r + r²·P(r), P minimax of degree 4 (7.8e-9). Nothing guards against
// overflow above x = 89.
func (s chain) expBelow89(x group) group {
	x = s.of(vmaxps, number(-105), x)
	n := s.apply(s.round, s.of(vmulps, x, number(math.Log2E)))
	const ln2High = 0.693359375 // nine bits: n·ln2High is exact
	s.submul(x, n, number(ln2High))
	s.submul(x, n, number(math.Ln2-ln2High))
	p := s.horner(x, 0.00139261835877, 0.00836317905272, 0.0416665546172, 0.166665769897, 0.5, 1, 1)
	if s.wide {
		return s.of(vscalefps, p, n)
	}
	// 2^n in two factors, so that overflow and denormals come out right
	whole := s.apply(func(a Op, out reg.VecVirtual) { VCVTPS2DQ(a, out) }, n)
	first := s.apply(func(a Op, out reg.VecVirtual) { VPSRAD(U8(1), a, out) }, whole)
	for _, part := range []group{first, s.of(vpsubd, whole, first)} {
		p = s.of(vmulps, p, s.apply(func(a Op, out reg.VecVirtual) { VPSLLD(U8(23), a, out) },
			s.of(vpaddd, part, bits(127))))
	}
	return p
}

func (s chain) round(a Op, out reg.VecVirtual) {
	if s.wide {
		VRNDSCALEPS(U8(8), a, out)
	} else {
		VROUNDPS(U8(8), a, out)
	}
}

// log1pRatio returns log1p(x)/x for x ∈ [0, 1]: minimax of degree 8 (3.3e-8). No division, and
// tiny x keep every digit.
func (s chain) log1pRatio(x group) group {
	return s.horner(x, 0.00512597852968, -0.0290735963055, 0.0775153678151, -0.136021903385, 0.190768555341,
		-0.248353929891, 0.333181210087, -0.499994449454, 0.999999965923)
}

// softplus returns max(z, 0) + log1p(e), e = exp(−|z|).
func (s chain) softplus(z, e group) group { return s.addmul(s.positive(z), s.log1pRatio(e), e) }

// log1p for finite x ≥ 0: 1+x = 2^k·(1+f), √½ ≤ 1+f < √2; log(1+f) = 2·atanh(t), t = f/(2+f),
// = t·(2 + w·P(w)), w = t² (2.8e-9). f is x itself when k = 0, so that tiny x keep every digit.
func (s chain) log1p(x group) group {
	k := s.of(vmulps, s.of(vaddps, x, number(1)), number(math.Sqrt2))
	var f, inverse group
	if s.wide {
		k = s.apply(func(a Op, out reg.VecVirtual) { VGETEXPPS(a, out) }, k)
		down := s.of(vxorps, k, bits(1<<31))
		f = s.of(vscalefps, x, down)
		inverse = s.of(vscalefps, number(1), down)
	} else {
		k = s.apply(func(a Op, out reg.VecVirtual) { VPSRLD(U8(23), a, out) }, k)
		k = s.of(vpsubd, k, bits(127))
		inverse = s.apply(func(a Op, out reg.VecVirtual) { VPSLLD(U8(23), a, out) }, s.of(vpsubd, bits(127), k))
		k = s.apply(func(a Op, out reg.VecVirtual) { VCVTDQ2PS(a, out) }, k)
		f = s.of(vmulps, x, inverse)
	}
	f = s.of(vaddps, f, s.of(vsubps, inverse, number(1)))
	t := s.divide(f, s.of(vaddps, f, number(2)))
	w := s.of(vmulps, t, t)
	p := s.horner(w, 0.2958098593, 0.399887577166, 0.666666850954, 2)
	return s.addmul(s.of(vmulps, p, t), k, number(math.Ln2))
}

// inverse returns 1/x for finite x > 0 to about one unit in the last place: on AVX-512 by an
// estimate of 14 bits and one Newton step, several times faster than dividing.
func (s chain) inverse(x group) group {
	if !s.wide {
		return s.of(vdivps, number(1), x)
	}
	r := s.apply(func(a Op, out reg.VecVirtual) { VRCP14PS(a, out) }, x)
	e := s.submul(s.constant(1), x, r)
	return s.muladd(e, r, r)
}

func (s chain) divide(x, by group) group {
	if !s.wide {
		return s.of(vdivps, x, by)
	}
	return s.of(vmulps, x, s.inverse(by))
}

// decay returns exp(−|z|).
func (s chain) decay(z group) group { return s.expBelow89(s.of(vorps, z, bits(1<<31))) }

// choose returns a where z ≥ 0 (sign bit clear) and b elsewhere.
func (s chain) choose(z, a, b group) group {
	out := s.group()
	for i, v := range out {
		if s.wide {
			k := K()
			VPMOVD2M(z[i], k)
			VBLENDMPS(b[i], a[i], k, v)
		} else {
			VBLENDVPS(z[i], b[i], a[i], v)
		}
	}
	return out
}

// positive returns max(z, 0), negative min(z, 0); both keep NaN.
func (s chain) positive(z group) group { return s.of(vmaxps, number(0), z) }
func (s chain) negative(z group) group { return s.of(vminps, number(0), z) }

func (s chain) sigmoid(z, decay group) group {
	share := s.inverse(s.of(vaddps, decay, number(1)))
	if !s.wide {
		return s.choose(z, share, s.of(vmulps, share, decay))
	}
	for i, v := range share {
		k := K()
		VPMOVD2M(z[i], k)
		VMULPS(decay[i], v, k, v)
	}
	return share
}

// avo's instructions are variadic or fixed functions; these have one shape.
func vaddps(o ...Op)    { VADDPS(o...) }
func vsubps(o ...Op)    { VSUBPS(o...) }
func vmulps(o ...Op)    { VMULPS(o...) }
func vdivps(o ...Op)    { VDIVPS(o...) }
func vminps(o ...Op)    { VMINPS(o...) }
func vmaxps(o ...Op)    { VMAXPS(o...) }
func vorps(o ...Op)     { VORPS(o...) }
func vxorps(o ...Op)    { VXORPS(o...) }
func vscalefps(o ...Op) { VSCALEFPS(o...) }
func vpaddd(o ...Op)    { VPADDD(o...) }
func vpsubd(o ...Op)    { VPSUBD(o...) }

// loop runs body over count elements from z, `width` registers at a time and then one by one.
func (s isa) loop(z, count reg.Register, width int, body func(s chain, at reg.GPVirtual, z group)) {
	at := GP64()
	XORQ(at, at)
	for _, w := range []int{width, 1} {
		name := fmt.Sprintf("by%d", w)
		limit := GP64()
		Label(name)
		LEAQ(Mem{Base: at, Disp: w * s.lanes}, limit)
		CMPQ(limit, count)
		JGT(LabelRef(name + "_end"))
		c := chain{s, w}
		v := c.group()
		for i := range v {
			VMOVUPS(at32(z, at, i*s.lanes), v[i])
		}
		body(c, at, v)
		ADDQ(U8(w*s.lanes), at)
		JMP(LabelRef(name))
		Label(name + "_end")
		if width == 1 {
			break
		}
	}
}

// wide and narrow are the numbers of registers that go side by side: as many as the register
// file holds.
func (s isa) side(wide, narrow int) int {
	if s.wide {
		return wide
	}
	return narrow
}

func elementwise(s isa) {
	define := func(name, doc string, width int, body func(s chain, z group) []group, outputs ...string) {
		signature := "func("
		for _, out := range outputs {
			signature += out + ", "
		}
		function(name+s.name, signature+"z *float32, count int)", doc+"; count is a multiple of the lanes.")
		z, count := Load(Param("z"), GP64()), Load(Param("count"), GP64())
		var to []reg.Register
		for _, out := range outputs {
			to = append(to, Load(Param(out), GP64()))
		}
		s.loop(z, count, width, func(c chain, at reg.GPVirtual, v group) {
			for k, result := range body(c, v) {
				for i, r := range result {
					VMOVUPS(r, at32(to[k], at, i*s.lanes))
				}
			}
		})
		VZEROUPPER()
		RET()
	}
	define("sigmoid", "dst = σ(z)", s.side(4, 2), func(s chain, z group) []group {
		return []group{s.sigmoid(z, s.decay(z))}
	}, "dst")
	define("logSigmoid", "dst = log σ(z)", s.side(4, 2), func(s chain, z group) []group {
		e := s.decay(z)
		return []group{s.submul(s.negative(z), s.log1pRatio(e), e)}
	}, "dst")
	define("sigmoidSoftplus", "y = σ(z), loss = softplus(z)", s.side(3, 2), func(s chain, z group) []group {
		e := s.decay(z)
		return []group{s.sigmoid(z, e), s.softplus(z, e)}
	}, "y", "loss")
	define("teaching", "y = σ(z), at least 1e-37, and w = √(y(1−y)(1+z²)), at least 1e-18 and that below such y",
		s.side(3, 2), func(s chain, z group) []group {
			y := s.sigmoid(z, s.decay(z))
			w := s.of(vmulps, s.of(vmulps, y, s.of(vsubps, number(1), y)),
				s.of(vaddps, s.of(vmulps, z, z), number(1)))
			w = s.of(vmaxps, s.apply(func(a Op, out reg.VecVirtual) { VSQRTPS(a, out) }, w), number(1e-18))
			w = s.choose(s.of(vsubps, y, number(1e-37)), w, s.constant(1e-18)) // z² may be infinite there
			return []group{s.of(vmaxps, y, number(1e-37)), w}
		}, "y", "w")
}

// blockSums: Σ x and Σ x·y of every 128 elements, in float64.
func blockSums(s isa) {
	const block = 128
	function("blockSums"+s.name, "func(sums *[2]float64, x, y *float32, blocks int)",
		"sets the sums of x and of x·y of blocks of 128 elements.")
	sums, blocks := Load(Param("sums"), GP64()), Load(Param("blocks"), GP64())
	x, y := Load(Param("x"), GP64()), Load(Param("y"), GP64())
	end := GP64()
	Label("block")
	TESTQ(blocks, blocks)
	JLE(LabelRef("done"))
	const side = 4 // registers that are added to, so that none waits for the one before
	var plain, product [side]reg.VecVirtual
	for k := range side {
		plain[k], product[k] = s.vec(), s.vec()
		s.zero(plain[k])
		s.zero(product[k])
	}
	LEAQ(Mem{Base: x, Disp: 4 * block}, end)
	Label("elements")
	for k := range side {
		a, b := s.vec(), s.vec()
		VCVTPS2PD(Mem{Base: x, Disp: 2 * s.lanes * k}, a)
		VCVTPS2PD(Mem{Base: y, Disp: 2 * s.lanes * k}, b)
		VADDPD(a, plain[k], plain[k])
		VFMADD231PD(a, b, product[k])
	}
	ADDQ(U32(2*s.lanes*side), x)
	ADDQ(U32(2*s.lanes*side), y)
	CMPQ(x, end)
	JLT(LabelRef("elements"))
	for k, acc := range [2][side]reg.VecVirtual{plain, product} {
		VADDPD(acc[1], acc[0], acc[0])
		VADDPD(acc[3], acc[2], acc[2])
		VADDPD(acc[2], acc[0], acc[0])
		VMOVSD(s.sumDoubles(acc[0]), Mem{Base: sums, Disp: 8 * k})
	}
	ADDQ(U8(16), sums)
	DECQ(blocks)
	JMP(LabelRef("block"))
	Label("done")
	VZEROUPPER()
	RET()
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
func lossSums(s isa, of string) {
	each, both := of == "Each" || of == "EachBoth", of == "Both" || of == "EachBoth"
	name := "lossSums" + of + s.name
	doc := "adds Σ softplus(z), Σ ψ·softplus(z), Σ τ·softplus(−z), Σ −log q, Σ y; "
	const many = "; count is a multiple of the lanes."
	switch of {
	case "EachBoth":
		function(name, "func(sums *[6]float64, z, s, t *float32, count int, own, other, slope, ceiling float32)",
			doc+"ψ, τ, −log q and π, the last of the sums, of both directions, π = σ(own + s + slope·z) and "+
				"σ(other + t + slope·z) of each element, and at least 1−ceiling in ψ and τ"+many)
	case "Both":
		function(name, "func(sums *[6]float64, z *float32, count int, pi, rest, back, kept float32)",
			doc+"ψ, τ and −log q of both directions, π = pi and back, rest = 1−pi, kept = 1−back, "+
				"rest·kept ≥ 1e-30"+many)
	case "Each":
		function(name, "func(sums *[6]float64, z, s *float32, count int, own, slope, ceiling float32)",
			doc+"Σ π; π = σ(own + s + slope·z) of each element, and at least 1−ceiling in ψ and τ"+many)
	default:
		function(name, "func(sums *[6]float64, z *float32, count int, pi, rest float32)", doc+"rest = 1−pi > 0"+many)
	}
	sums, z, count := Load(Param("sums"), GP64()), Load(Param("z"), GP64()), Load(Param("count"), GP64())
	broadcast := func(name string) same {
		v := s.vec()
		VBROADCASTSS(argument(name), v)
		return same{v}
	}
	var there, back reg.Register
	var pi, rest source
	if each {
		there = Load(Param("s"), GP64())
	}
	if each && both {
		back = Load(Param("t"), GP64())
	}
	if of == "" {
		pi, rest = broadcast("pi"), broadcast("rest")
	}
	acc := make([]reg.VecVirtual, 5, 6)
	if each {
		acc = acc[:6]
	}
	for i := range acc {
		acc[i] = s.vec()
		s.zero(acc[i])
	}
	// where registers are short, sums are added up in memory
	var room Mem
	aside := each && both && !s.wide
	if aside {
		room = AllocLocal(len(acc) * s.bytes())
	}
	total := func(i int) Mem { return room.Offset(s.bytes() * i) }
	for i, v := range acc {
		if aside {
			VMOVUPD(v, total(i))
		}
	}
	add := func(i int, g group) {
		for _, v := range g {
			low, high := s.vec(), s.vec()
			if s.wide {
				VCVTPS2PD(v.AsY(), low)
				upper := YMM()
				VEXTRACTF64X4(U8(1), v, upper)
				VCVTPS2PD(upper, high)
			} else {
				VCVTPS2PD(v.AsX(), low)
				upper := XMM()
				VEXTRACTF128(U8(1), v, upper)
				VCVTPS2PD(upper, high)
			}
			VADDPD(high, low, low)
			if aside {
				VADDPD(total(i), low, low)
				VMOVUPD(low, total(i))
				continue
			}
			VADDPD(low, acc[i], acc[i])
		}
	}
	load := func(s chain, from reg.Register, at reg.GPVirtual) group {
		g := s.group()
		for i, v := range g {
			VMOVUPS(at32(from, at, i*s.lanes), v)
		}
		return g
	}
	// sigmoids returns y = σ(v), u = σ(−v) and e = exp(−|v|)
	sigmoids := func(s chain, v group) (y, u, e group) {
		e = s.decay(v)
		inverse := s.inverse(s.of(vaddps, e, number(1))) // 1/(1+e) and e/(1+e) are y and u, or u and y
		other := s.of(vmulps, inverse, e)
		return s.choose(v, inverse, other), s.choose(v, other, inverse), e
	}
	// present is 1, and 0 for the z of what is no pair
	present := func(s chain, v group) group {
		return s.clamp(s.of(vsubps, v, number(without)), 0, 1)
	}
	side := s.side(2, 1)
	if each && both {
		side = 1
	}
	s.loop(z, count, side, func(s chain, at reg.GPVirtual, raw group) {
		v := s.clamp(raw, -math.MaxFloat32, math.MaxFloat32)
		// exposed returns π and 1−π, given its number of each element, and one for all
		exposed := func(each reg.Register, own string, most float64) (pi, rest group) {
			x := s.of(vaddps, load(s, each, at), broadcast(own))
			pi, rest, _ = sigmoids(s, s.clamp(s.addmul(x, v, broadcast("slope")), -most, most))
			return pi, rest
		}
		pi, rest := pi, rest
		if of == "Each" {
			own, hidden := exposed(there, "own", 86) // beyond, 1/q may be no normal number
			add(5, s.of(vmulps, own, present(s, v)))
			pi, rest = own, hidden
		}
		y, u, e := sigmoids(s, v)
		add(4, y)
		var psi, tau group
		// mixed returns ψ and τ of both directions together, given y(1−π) of each
		mixed := func(hidden, other, q, p, share group) (psi, tau group) {
			return s.of(vmulps, s.of(vmulps, s.of(vaddps, q, p), u), share),
				s.of(vmulps, s.addmul(s.of(vmulps, hidden, p), other, q), share)
		}
		switch {
		case each && both:
			// beyond, 1/(qp) may be no normal number
			one, rest := exposed(there, "own", 43)
			q := s.of(vaddps, s.of(vmulps, y, rest), u)
			hidden := s.of(vmulps, y, s.of(vminps, broadcast("ceiling"), rest))
			two, rest := exposed(back, "other", 43)
			add(5, s.of(vmulps, s.of(vaddps, one, two), present(s, load(s, z, at))))
			p := s.of(vaddps, s.of(vmulps, y, rest), u)
			other := s.of(vmulps, y, s.of(vminps, broadcast("ceiling"), rest))
			visible := s.addmul(s.of(vmulps, y, one), s.of(vmulps, y, two), q) // 1 − qp
			add(3, s.log1p(s.of(vmulps, visible, s.inverse(s.of(vmulps, q, p)))))
			q, p = s.of(vaddps, hidden, u), s.of(vaddps, other, u)
			psi, tau = mixed(hidden, other, q, p, s.inverse(s.of(vmulps, q, p)))
		case both:
			hidden, other := s.of(vmulps, y, broadcast("rest")), s.of(vmulps, y, broadcast("kept"))
			q, p := s.of(vaddps, hidden, u), s.of(vaddps, other, u)
			share := s.inverse(s.of(vmulps, q, p))
			psi, tau = mixed(hidden, other, q, p, share)
			// 1 − qp = yπ + q·yπ′
			visible := s.addmul(s.of(vmulps, y, broadcast("pi")), s.of(vmulps, y, broadcast("back")), q)
			add(3, s.log1p(s.of(vmulps, visible, share)))
		default:
			visible, hidden := s.of(vmulps, y, pi), s.of(vmulps, y, rest) // yπ and y(1−π)
			kept := hidden
			if each {
				kept = s.of(vmulps, y, s.of(vminps, broadcast("ceiling"), rest))
			}
			share := s.inverse(s.of(vaddps, hidden, u))
			add(3, s.log1p(s.of(vmulps, visible, share)))
			if each {
				share = s.inverse(s.of(vaddps, kept, u))
			}
			psi, tau = s.of(vmulps, u, share), s.of(vmulps, kept, share)
		}
		if each || both {
			v = s.clamp(load(s, z, at), -math.MaxFloat32, math.MaxFloat32) // again: registers are short
		}
		l := s.of(vmulps, s.log1pRatio(e), e)
		loss := s.of(vaddps, l, s.positive(v))
		add(0, loss)
		add(1, s.of(vmulps, loss, psi))
		missed := s.of(vsubps, l, s.negative(v)) // softplus(−z)
		add(2, s.of(vmulps, missed, tau))
	})
	for i := range acc {
		if aside {
			acc[i] = s.vec()
			VMOVUPD(total(i), acc[i])
		}
		x := s.sumDoubles(acc[i])
		VADDSD(Mem{Base: sums, Disp: 8 * i}, x, x)
		VMOVSD(x, Mem{Base: sums, Disp: 8 * i})
	}
	VZEROUPPER()
	RET()
}

// same is one register that serves a whole group.
type same struct{ v reg.VecVirtual }

func (s same) at(int) Op { return s.v }

// adam: one step of Adam over parameters and their two moments.
func adam(s isa) {
	function("adam"+s.name, "func(params, first, second, grad *float32, count int, blend1, blend2, step, root, "+
		"epsilon float32)",
		"first += blend1·(g−first), second += blend2·(g²−second), params −= step·first/(√second·root + "+
			"epsilon); count is a multiple of the lanes.")
	grad, count := Load(Param("grad"), GP64()), Load(Param("count"), GP64())
	params, first, second := Load(Param("params"), GP64()), Load(Param("first"), GP64()), Load(Param("second"), GP64())
	broadcast := func(name string) same {
		v := s.vec()
		VBROADCASTSS(argument(name), v)
		return same{v}
	}
	blend1, blend2, step, root, epsilon := broadcast("blend1"), broadcast("blend2"), broadcast("step"),
		broadcast("root"), broadcast("epsilon")
	s.loop(grad, count, 1, func(c chain, at reg.GPVirtual, g group) {
		load := func(from reg.Register) group {
			v := c.group()
			VMOVUPS(at32(from, at, 0), v[0])
			return v
		}
		store := func(v group, to reg.Register) group {
			VMOVUPS(v[0], at32(to, at, 0))
			return v
		}
		m := load(first)
		store(c.addmul(m, c.of(vsubps, g, m), blend1), first)
		v := load(second)
		store(c.addmul(v, c.of(vsubps, c.of(vmulps, g, g), v), blend2), second)
		below := c.of(vaddps, c.of(vmulps, c.apply(func(a Op, out reg.VecVirtual) { VSQRTPS(a, out) }, v), root),
			epsilon)
		store(c.submul(load(params), c.of(vdivps, m, below), step), params)
	})
	VZEROUPPER()
	RET()
}

// pairSlopes: slopes and information of the likelihood of pairs, linked or not, in z and s. With y = σ(z), π = σ(s),
// q = 1−πy, the chance P = πy/(πy + r·q) of a sampled pair to be linked, ψ = (1−y)/q and η = (1−π)/q:
//
//	∂z = w(P−o)ψ   ∂s = w(P−o)η   zz = wP(1−P)ψ²   zs = wP(1−P)ψη   ss = wP(1−P)η²
//
// and the chance of what was seen, P or 1−P. The sign is that of 1−2o.
func pairSlopes(s isa) {
	function("pairSlopes"+s.name, "func(dz, ds, zz, zs, ss, chance, z, s, sign, rate, weight *float32, count int, "+
		"lambda float32)",
		"slopes and information of pairs, times λ·weight; count is a multiple of the lanes.")
	pointers := map[string]reg.Register{}
	for _, name := range []string{"dz", "ds", "zz", "zs", "ss", "chance", "z", "s", "sign", "rate"} {
		pointers[name] = Load(Param(name), GP64())
	}
	count := argument("count")
	lambda := s.vec()
	VBROADCASTSS(argument("lambda"), lambda)
	at := GP64()
	XORQ(at, at)
	c := chain{s, 1}
	load := func(name string) group {
		g := c.group()
		VMOVUPS(at32(pointers[name], at, 0), g[0])
		return g
	}
	store := func(name string, g group) { VMOVUPS(g[0], at32(pointers[name], at, 0)) }
	sigmoids := func(v group) (y, u group) {
		e := c.decay(v)
		inverse := c.inverse(c.of(vaddps, e, number(1)))
		other := c.of(vmulps, inverse, e)
		return c.choose(v, inverse, other), c.choose(v, other, inverse)
	}
	Label("loop")
	CMPQ(at, count)
	JGE(LabelRef("done"))
	y, u := sigmoids(c.clamp(load("z"), -86, 86))
	pi, rest := sigmoids(c.clamp(load("s"), -86, 86))
	q := c.of(vaddps, u, c.of(vmulps, y, rest))
	p := c.of(vmaxps, number(1e-35), c.of(vmulps, pi, y))
	rq := c.of(vmulps, load("rate"), q)
	whole := c.inverse(c.of(vaddps, p, rq))
	linked, unlinked := c.of(vmulps, p, whole), c.of(vmulps, rq, whole)
	sign := load("sign")
	store("chance", c.choose(sign, unlinked, linked))
	off := c.choose(sign, linked, c.of(vxorps, unlinked, bits(1<<31)))
	inverse := c.inverse(q)
	psi, hide := c.of(vmulps, u, inverse), c.of(vmulps, rest, inverse)
	weight := c.group()
	pointer := GP64()
	MOVQ(argument("weight"), pointer)
	VMOVUPS(at32(pointer, at, 0), weight[0])
	weight = c.of(vmulps, weight, same{lambda})
	off = c.of(vmulps, off, weight)
	store("dz", c.of(vmulps, off, psi))
	store("ds", c.of(vmulps, off, hide))
	v := c.of(vmulps, weight, c.of(vmulps, linked, unlinked))
	vz := c.of(vmulps, v, psi)
	store("zz", c.of(vmulps, vz, psi))
	store("zs", c.of(vmulps, vz, hide))
	store("ss", c.of(vmulps, c.of(vmulps, v, hide), hide))
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
