package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Elementwise functions work on whole registers; the Go side pads the tail. Constants are
// 64-byte replicas in memory, read as operands.
//
// With a = |z|, e = exp(−a) ∈ [0, 1] and L = log1p(e):
//
//	σ(z) = (z ≥ 0 ? 1 : e)/(1+e)    softplus(z) = max(z, 0) + L    log σ(z) = min(z, 0) − L
//
// so nothing overflows and nothing cancels at either end.

var constants = map[uint32]Mem{}

// bits returns a memory operand whose lanes all hold the given pattern.
func bits(pattern uint32) Mem {
	if m, ok := constants[pattern]; ok {
		return m
	}
	m := GLOBL(fmt.Sprintf("lanes%08x", pattern), RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(pattern))
	}
	constants[pattern] = m
	return m
}

func number(x float64) Mem { return bits(math.Float32bits(float32(x))) }

func (s isa) constant(x float64) reg.VecVirtual {
	v := s.vec()
	VMOVUPS(number(x), v)
	return v
}

// clamp limits x to [lo, hi] and keeps NaN: MINPS and MAXPS return their last operand then.
func (s isa) clamp(x reg.VecVirtual, lo, hi float64) reg.VecVirtual {
	v := s.constant(hi)
	VMINPS(x, v, v)
	w := s.constant(lo)
	VMAXPS(v, w, w)
	return w
}

// horner evaluates the polynomial with the highest coefficient first.
func (s isa) horner(x reg.VecVirtual, coefficients ...float64) reg.VecVirtual {
	p := s.constant(coefficients[0])
	for _, c := range coefficients[1:] {
		VFMADD213PS(number(c), x, p)
	}
	return p
}

// exp: x = n·ln2 + r, |r| ≤ ln2/2; e^r = 1 + r + r²·P(r), P minimax of degree 4 (7.8e-9).
func (s isa) exp(x reg.VecVirtual) reg.VecVirtual {
	x = s.clamp(x, -105, 89)
	n := s.vec()
	VMULPS(number(math.Log2E), x, n)
	if s.wide {
		VRNDSCALEPS(U8(8), n, n)
	} else {
		VROUNDPS(U8(8), n, n)
	}
	const ln2High = 0.693359375 // nine bits: n·ln2High is exact
	VFNMADD231PS(number(ln2High), n, x)
	VFNMADD231PS(number(math.Ln2-ln2High), n, x)
	p := s.horner(x, 0.00139261835877, 0.00836317905272, 0.0416665546172, 0.166665769897, 0.5)
	square := s.vec()
	VMULPS(x, x, square)
	VFMADD213PS(x, square, p) // p·r² + r
	VADDPS(number(1), p, p)
	if s.wide {
		VSCALEFPS(n, p, p)
		return p
	}
	// 2^n in two factors, so that overflow and denormals come out right
	whole, first := s.vec(), s.vec()
	VCVTPS2DQ(n, whole)
	VPSRAD(U8(1), whole, first)
	VPSUBD(first, whole, whole)
	for _, part := range []reg.VecVirtual{first, whole} {
		VPADDD(bits(127), part, part)
		VPSLLD(U8(23), part, part)
		VMULPS(part, p, p)
	}
	return p
}

// log1p for finite x ≥ 0: 1+x = 2^k·(1+f), √½ ≤ 1+f < √2; log(1+f) = 2·atanh(t), t = f/(2+f),
// = 2t + t·w·P(w), w = t² (2.8e-9). f is x itself when k = 0, so that tiny x keep every digit.
func (s isa) log1p(x reg.VecVirtual) reg.VecVirtual {
	k, inverse := s.vec(), s.vec()
	VADDPS(number(1), x, k)
	VMULPS(number(math.Sqrt2), k, k)
	f := s.vec()
	if s.wide {
		VGETEXPPS(k, k)
		VXORPS(bits(1<<31), k, inverse)
		VSCALEFPS(inverse, x, f)
		one := s.constant(1)
		VSCALEFPS(inverse, one, inverse)
	} else {
		VPSRLD(U8(23), k, k)
		VPSUBD(bits(127), k, k)
		VMOVDQU(bits(127), inverse)
		VPSUBD(k, inverse, inverse)
		VPSLLD(U8(23), inverse, inverse)
		VCVTDQ2PS(k, k)
		VMULPS(inverse, x, f)
	}
	VSUBPS(number(1), inverse, inverse)
	VADDPS(inverse, f, f)
	t := s.vec()
	VADDPS(number(2), f, t)
	t = s.divide(f, t)
	w := s.vec()
	VMULPS(t, t, w)
	p := s.horner(w, 0.2958098593, 0.399887577166, 0.666666850954)
	VMULPS(w, p, p)
	VADDPS(number(2), p, p)
	VMULPS(t, p, p)
	VFMADD231PS(number(math.Ln2), k, p)
	return p
}

// inverse returns 1/x for finite x > 0 to about one unit in the last place: on AVX-512 by an
// estimate of 14 bits and one Newton step, several times faster than dividing.
func (s isa) inverse(x reg.VecVirtual) reg.VecVirtual {
	r := s.vec()
	if !s.wide {
		one := s.constant(1)
		VDIVPS(x, one, r)
		return r
	}
	VRCP14PS(x, r)
	e := s.constant(1)
	VFNMADD231PS(x, r, e) // 1 − x·r
	VFMADD213PS(r, r, e)  // r + r·e
	return e
}

func (s isa) divide(x, by reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	if !s.wide {
		VDIVPS(by, x, v)
		return v
	}
	VMULPS(s.inverse(by), x, v)
	return v
}

// decay returns exp(−|z|).
func (s isa) decay(z reg.VecVirtual) reg.VecVirtual {
	negative := s.vec()
	VORPS(bits(1<<31), z, negative)
	return s.exp(negative)
}

// choose returns a where z ≥ 0 (sign bit clear) and b elsewhere.
func (s isa) choose(z, a, b reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	if s.wide {
		k := K()
		VPMOVD2M(z, k)
		VBLENDMPS(b, a, k, v)
	} else {
		VBLENDVPS(z, b, a, v)
	}
	return v
}

// positive returns max(z, 0), negative min(z, 0); both keep NaN.
func (s isa) positive(z reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	s.zero(v)
	VMAXPS(z, v, v)
	return v
}

func (s isa) negative(z reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	s.zero(v)
	VMINPS(z, v, v)
	return v
}

func (s isa) sigmoid(z, decay reg.VecVirtual) reg.VecVirtual {
	below := s.vec()
	VADDPS(number(1), decay, below)
	one := s.constant(1)
	return s.divide(s.choose(z, one, decay), below)
}

func elementwise(s isa) {
	loop := func(name, doc string, body func(z reg.VecVirtual) []reg.VecVirtual, outputs ...string) {
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
		at := GP64()
		XORQ(at, at)
		Label("loop")
		CMPQ(at, count)
		JGE(LabelRef("done"))
		v := s.vec()
		VMOVUPS(at32(z, at, 0), v)
		for i, result := range body(v) {
			VMOVUPS(result, at32(to[i], at, 0))
		}
		ADDQ(U8(s.lanes), at)
		JMP(LabelRef("loop"))
		Label("done")
		VZEROUPPER()
		RET()
	}
	loop("exp", "dst = exp(z)", func(z reg.VecVirtual) []reg.VecVirtual {
		return []reg.VecVirtual{s.exp(z)}
	}, "dst")
	loop("sigmoid", "dst = σ(z)", func(z reg.VecVirtual) []reg.VecVirtual {
		return []reg.VecVirtual{s.sigmoid(z, s.decay(z))}
	}, "dst")
	loop("softplus", "dst = log(1+exp(z))", func(z reg.VecVirtual) []reg.VecVirtual {
		l := s.log1p(s.decay(z))
		VADDPS(s.positive(z), l, l)
		return []reg.VecVirtual{l}
	}, "dst")
	loop("logSigmoid", "dst = log σ(z)", func(z reg.VecVirtual) []reg.VecVirtual {
		l := s.log1p(s.decay(z))
		v := s.negative(z)
		VSUBPS(l, v, v)
		return []reg.VecVirtual{v}
	}, "dst")
	loop("sigmoidSoftplus", "y = σ(z), loss = softplus(z)", func(z reg.VecVirtual) []reg.VecVirtual {
		e := s.decay(z)
		y := s.sigmoid(z, e)
		l := s.log1p(e)
		VADDPS(s.positive(z), l, l)
		return []reg.VecVirtual{y, l}
	}, "y", "loss")
}

// lossSums: the four sums over unlinked pairs of one propensity that every risk is made of.
// With y = σ(z), u = 1−y and q = u + y(1−π):
//
//	Σ softplus(z)   Σ ψ·softplus(z)   Σ τ·softplus(−z)   Σ −log q,   ψ = u/q, τ = y(1−π)/q
//
// and −log q = log1p(πy/q). Lanes are added up as float64.
func lossSums(s isa) {
	function("lossSums"+s.name, "func(sums *[4]float64, z *float32, count int, pi, rest float32)",
		"adds Σ softplus(z), Σ ψ·softplus(z), Σ τ·softplus(−z), Σ −log q; rest = 1−pi > 0; count is a multiple of the lanes.")
	sums, z, count := Load(Param("sums"), GP64()), Load(Param("z"), GP64()), Load(Param("count"), GP64())
	broadcast := func(name string) reg.VecVirtual {
		v := s.vec()
		VBROADCASTSS(argument(name), v)
		return v
	}
	pi, rest := broadcast("pi"), broadcast("rest")
	var acc [4]reg.VecVirtual
	for i := range acc {
		acc[i] = s.vec()
		s.zero(acc[i])
	}
	add := func(i int, v reg.VecVirtual) {
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
		VADDPD(low, acc[i], acc[i])
	}
	at := GP64()
	XORQ(at, at)
	Label("loop")
	CMPQ(at, count)
	JGE(LabelRef("done"))
	raw := s.vec()
	VMOVUPS(at32(z, at, 0), raw)
	v := s.clamp(raw, -math.MaxFloat32, math.MaxFloat32)
	e := s.decay(v)
	whole := s.vec()
	VADDPS(number(1), e, whole)
	inverse := s.inverse(whole) // 1/(1+e) and e/(1+e) are y and u, or u and y
	other := s.vec()
	VMULPS(inverse, e, other)
	y := s.choose(v, inverse, other)
	u := s.choose(v, other, inverse)
	hidden := s.vec() // y(1−π)
	VMULPS(rest, y, hidden)
	q := s.vec()
	VADDPS(hidden, u, q)
	share := s.inverse(q)
	VMULPS(share, u, u)           // ψ
	VMULPS(share, hidden, hidden) // τ
	VMULPS(pi, y, y)
	VMULPS(share, y, y) // πy/q
	add(3, s.log1p(y))
	l := s.log1p(e)
	loss := s.positive(v)
	VADDPS(l, loss, loss)
	add(0, loss)
	VMULPS(loss, u, u)
	add(1, u)
	missed := s.negative(v) // softplus(−z) = L − min(z, 0)
	VSUBPS(missed, l, missed)
	VMULPS(missed, hidden, hidden)
	add(2, hidden)
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	for i := range acc {
		y := acc[i]
		if s.wide {
			y = YMM()
			VEXTRACTF64X4(U8(1), acc[i], y)
			VADDPD(acc[i].AsY(), y, y)
		}
		x := XMM()
		VEXTRACTF128(U8(1), y.AsY(), x)
		VADDPD(y.AsX(), x, x)
		t := XMM()
		VPERMILPD(U8(1), x, t)
		VADDSD(t, x, x)
		VADDSD(Mem{Base: sums, Disp: 8 * i}, x, x)
		VMOVSD(x, Mem{Base: sums, Disp: 8 * i})
	}
	VZEROUPPER()
	RET()
}
