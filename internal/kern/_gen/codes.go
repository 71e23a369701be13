package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// aheadBytes is how far the scan of codes prefetches: a coded row is short, and the hardware's
// prefetcher stops at every page.
const aheadBytes = 4096

// dotCodes: two integer product-sums per row, of its unsigned bytes with the high and the low part of
// a query. Four rows at once; a row is a whole number of 64-byte lines and rows come in fours, so that
// there is no tail.
//
// Long because it reads as the assembly that it writes: one routine, whose registers live to its end.
func dotCodes(s isa) {
	function("dotCodes"+s.name, "func(high, low *int32, q, rest *int8, base *uint8, stride, count int)",
		"high[k] = Σ q[d]·row[d], low[k] = Σ rest[d]·row[d]; stride is a multiple of 64, count of 4.")
	high, low := Load(Param("high"), GP64()), Load(Param("low"), GP64())
	q, rest := Load(Param("q"), GP64()), Load(Param("rest"), GP64())
	first, stride := Load(Param("base"), GP64()), Load(Param("stride"), GP64())
	count := Load(Param("count"), GP64())
	rows := []reg.GPVirtual{first.(reg.GPVirtual), GP64(), GP64(), GP64()}
	at := GP64()
	step := 16 // bytes, widened to words
	if s.wide {
		step = 64 // bytes as they are, by VNNI
	}
	Label("rows")
	CMPQ(count, U8(0))
	JE(LabelRef("done"))
	for r := 1; r < 4; r++ {
		LEAQ(Mem{Base: rows[r-1], Index: stride, Scale: 1}, rows[r])
	}
	var sums [2][4]reg.VecVirtual
	for part := range sums {
		for r := range sums[part] {
			sums[part][r] = s.vec()
			if s.wide {
				VPXORD(sums[part][r], sums[part][r], sums[part][r])
			} else {
				VPXOR(sums[part][r], sums[part][r], sums[part][r])
			}
		}
	}
	XORQ(at, at)
	Label("elements")
	parts := [2]reg.VecVirtual{s.vec(), s.vec()}
	for p, base := range []reg.Register{q, rest} {
		m := Mem{Base: base, Index: at, Scale: 1}
		if s.wide {
			VMOVDQU64(m, parts[p])
		} else {
			VPMOVSXBW(m, parts[p])
		}
	}
	for r, row := range rows {
		v := s.vec()
		m := Mem{Base: row, Index: at, Scale: 1}
		if s.wide {
			VMOVDQU64(m, v)
			PREFETCHT0(Mem{Base: row, Index: at, Scale: 1, Disp: aheadBytes})
			for p := range parts {
				VPDPBUSD(parts[p], v, sums[p][r])
			}
			continue
		}
		VPMOVZXBW(m, v)
		for p := range parts {
			product := s.vec()
			VPMADDWD(parts[p], v, product)
			VPADDD(product, sums[p][r], sums[p][r])
		}
	}
	if !s.wide {
		for _, row := range rows { // a line is asked for four times
			PREFETCHT0(Mem{Base: row, Index: at, Scale: 1, Disp: aheadBytes})
		}
	}
	ADDQ(U8(step), at)
	CMPQ(at, stride)
	JLT(LabelRef("elements"))
	for p, dst := range []reg.Register{high, low} {
		var half [4]reg.VecVirtual
		for r, v := range sums[p] {
			half[r] = v
			if s.wide {
				half[r] = YMM()
				VEXTRACTI64X4(U8(1), v, half[r])
				VPADDD(v.AsY(), half[r], half[r])
			}
		}
		VPHADDD(half[1].AsY(), half[0].AsY(), half[0].AsY())
		VPHADDD(half[3].AsY(), half[2].AsY(), half[2].AsY())
		VPHADDD(half[2].AsY(), half[0].AsY(), half[0].AsY())
		x := XMM()
		VEXTRACTI128(U8(1), half[0].AsY(), x)
		VPADDD(half[0].AsX(), x, x)
		VMOVDQU(x, Mem{Base: dst})
		ADDQ(U8(16), dst)
	}
	LEAQ(Mem{Base: rows[3], Index: stride, Scale: 1}, rows[0])
	SUBQ(U8(4), count)
	JMP(LabelRef("rows"))
	Label("done")
	VZEROUPPER()
	RET()
}

// scaleCodes: the approximate score of each row, of its two sums.
func scaleCodes(s isa) {
	function("scaleCodes"+s.name, "func(dst *float32, high, low *int32, scales *float32, count int, highZero, "+
		"lowZero int32)",
		"dst[k] = scales[k]·(128·(high[k] − highZero) + (low[k] − lowZero)); count is a multiple of the lanes.")
	dst, high, low := Load(Param("dst"), GP64()), Load(Param("high"), GP64()), Load(Param("low"), GP64())
	scales, count := Load(Param("scales"), GP64()), Load(Param("count"), GP64())
	zeros := [2]reg.VecVirtual{s.vec(), s.vec()}
	bits, part := GP32(), XMM()
	for p, name := range []string{"highZero", "lowZero"} {
		MOVL(argument(name), bits)
		VMOVD(bits, part)
		VPBROADCASTD(part, zeros[p])
	}
	MOVL(U32(0x43000000), bits) // 128
	VMOVD(bits, part)
	shift := s.vec()
	VBROADCASTSS(part, shift)
	at := GP64()
	XORQ(at, at)
	Label("loop")
	CMPQ(at, count)
	JGE(LabelRef("done"))
	var sums [2]reg.VecVirtual
	for p, base := range []reg.Register{high, low} {
		v := s.vec()
		if s.wide {
			VMOVDQU32(Mem{Base: base, Index: at, Scale: 4}, v)
		} else {
			VMOVDQU(Mem{Base: base, Index: at, Scale: 4}, v)
		}
		VPSUBD(zeros[p], v, v)
		VCVTDQ2PS(v, v)
		sums[p] = v
	}
	VMULPS(shift, sums[0], sums[0]) // exact: a power of two
	VADDPS(sums[1], sums[0], sums[0])
	VMULPS(Mem{Base: scales, Index: at, Scale: 4}, sums[0], sums[0])
	VMOVUPS(sums[0], Mem{Base: dst, Index: at, Scale: 4})
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
