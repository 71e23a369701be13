// Command gen writes the assembly of package kern: every kernel once for AVX-512 and once for
// AVX2 with FMA and F16C. Run it by `go generate ./internal/kern`.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set: how wide its registers are and how a tail shorter than one is read.
type isa struct {
	name  string // suffix of the function names
	lanes int    // float32 numbers in a register
	wide  bool   // AVX-512: masks, embedded rounding, scalef
}

var (
	avx512 = isa{"AVX512", 16, true}
	avx2   = isa{"AVX2", 8, false}
)

func (s isa) vec() reg.VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

func (s isa) bytes() int { return 4 * s.lanes }

func (s isa) zero(v reg.VecVirtual) {
	if s.wide {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

func main() {
	ConstraintExpr("amd64,!noasm")
	for _, s := range []isa{avx512, avx2} {
		for _, half := range []bool{false, true} {
			for _, scan := range []bool{false, true} {
				dotRows(s, half, scan)
			}
			addRows(s, half)
			dotPairs(s, half)
			addPairs(s, half)
		}
		tile(s)
		transpose(s)
		gram(s)
		above(s)
		columnsAbove(s)
		countAbove(s)
		shift(s)
		fromHalf(s)
		dotCodes(s)
		dotCodesAt(s)
		scaleCodes(s)
		elementwise(s)
		blockSums(s)
		for _, of := range []string{"", "Each", "Both", "EachBoth"} {
			lossSums(s, of)
		}
		adam(s)
		pairSlopes(s)
	}
	tileCodes()
	reachCodes()
	Generate()
}

// sumDoubles adds the float64 lanes of v, in a fixed order, into the low lane of the returned register.
func (s isa) sumDoubles(v reg.VecVirtual) reg.VecVirtual {
	y := v
	if s.wide {
		y = YMM()
		VEXTRACTF64X4(U8(1), v, y)
		VADDPD(v.AsY(), y, y)
	}
	x := XMM()
	VEXTRACTF128(U8(1), y.AsY(), x)
	VADDPD(y.AsX(), x, x)
	t := XMM()
	VPERMILPD(U8(1), x, t)
	VADDSD(t, x, x)
	return x
}

// sumLanes adds the lanes of v, in a fixed order, into the low lane of the returned register.
func (s isa) sumLanes(v reg.VecVirtual) reg.VecVirtual {
	y := v
	if s.wide {
		y = YMM()
		VEXTRACTF64X4(U8(1), v, y)
		VADDPS(v.AsY(), y, y)
	}
	x := XMM()
	VEXTRACTF128(U8(1), y.AsY(), x)
	VADDPS(y.AsX(), x, x)
	t := XMM()
	VMOVHLPS(x, x, t)
	VADDPS(t, x, x)
	VMOVSHDUP(x, t)
	VADDSS(t, x, x)
	return x
}
