package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile: the register tile of the block product. rows×columns accumulators (12×32 for AVX-512,
// 6×16 for AVX2) stay in registers while k runs: `a` holds the rows where they are, `panel` the
// columns packed side by side for each k. Every element is one chain of FMAs in the order of k,
// so its bits do not depend on where in a tile it stands nor on how k is cut.
//
// Long because it reads as the assembly that it writes: one routine, whose registers live to its end.
func tile(s isa) {
	rows, registers, unroll := 12, 2, 4
	if !s.wide {
		rows = 6
	}
	function("tile"+s.name, "func(c *float32, cStride int, a *float32, aStride int, panel *float32, k int, "+
		"ahead *float32, accumulate bool)",
		"c (+)= a·panel over a full register tile; strides in bytes. Memory from ahead on is prefetched, 32 "+
			"bytes for each k.")
	c, cStride := Load(Param("c"), GP64()), Load(Param("cStride"), GP64())
	stride := Load(Param("aStride"), GP64())
	a := Load(Param("a"), GP64())
	panel := Load(Param("panel"), GP64())
	k := Load(Param("k"), GP64())
	ahead := Load(Param("ahead"), GP64())

	acc := make([][]reg.VecVirtual, rows)
	for r := range acc {
		acc[r] = make([]reg.VecVirtual, registers)
		for n := range acc[r] {
			acc[r][n] = s.vec()
		}
	}
	accumulate := GP8()
	Load(Param("accumulate"), accumulate)
	TESTB(accumulate, accumulate)
	JZ(LabelRef("clear"))
	walk := GP64()
	MOVQ(c, walk)
	for r := range acc {
		for n := range acc[r] {
			VMOVUPS(Mem{Base: walk, Disp: n * s.bytes()}, acc[r][n])
		}
		ADDQ(cStride, walk)
	}
	JMP(LabelRef("ready"))
	Label("clear")
	for r := range acc {
		for n := range acc[r] {
			s.zero(acc[r][n])
		}
	}
	Label("ready")

	// three rows share a base: base, base+stride, base+2·stride
	bases := []reg.GPVirtual{}
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	for g := 0; g < rows; g += 3 {
		base := GP64()
		if g == 0 {
			MOVQ(a, base)
		} else {
			LEAQ(Mem{Base: bases[len(bases)-1], Index: three, Scale: 1}, base)
		}
		bases = append(bases, base)
	}
	step := func(u int) {
		var b []reg.VecVirtual
		for n := range registers {
			v := s.vec()
			VMOVUPS(Mem{Base: panel, Disp: (u*registers + n) * s.bytes()}, v)
			b = append(b, v)
		}
		for r := range rows {
			m := Mem{Base: bases[r/3], Disp: 4 * u}
			if r%3 > 0 {
				m.Index, m.Scale = stride, uint8(r%3)
			}
			v := s.vec()
			VBROADCASTSS(m, v)
			for n := range registers {
				VFMADD231PS(b[n], v, acc[r][n])
			}
		}
	}
	advance := func(n int) {
		for _, base := range bases {
			ADDQ(U8(4*n), base)
		}
		ADDQ(U32(n*registers*s.bytes()), panel)
		SUBQ(U8(n), k)
	}
	Label("many")
	CMPQ(k, U8(unroll))
	JLT(LabelRef("one"))
	PREFETCHT1(Mem{Base: ahead})
	PREFETCHT1(Mem{Base: ahead, Disp: 64})
	ADDQ(U32(128), ahead)
	for u := range unroll {
		for n := range registers {
			if s.wide {
				PREFETCHT0(Mem{Base: panel, Disp: (u*registers+n)*s.bytes() + 1024})
			}
		}
		step(u)
	}
	advance(unroll)
	JMP(LabelRef("many"))
	Label("one")
	CMPQ(k, U8(0))
	JE(LabelRef("store"))
	step(0)
	advance(1)
	JMP(LabelRef("one"))
	Label("store")
	for r := range acc {
		for n := range acc[r] {
			VMOVUPS(acc[r][n], Mem{Base: c, Disp: n * s.bytes()})
		}
		ADDQ(cStride, c)
	}
	VZEROUPPER()
	RET()
}

// transpose: packs two registers' worth of rows (32 or 16) side by side, dst[k·rows+r] = row r[k].
func transpose(s isa) {
	function("transpose"+s.name, "func(dst, src *float32, stride, k int)",
		"dst[i·rows+r] = src row r[i] for the tile's panel of rows; stride in bytes, 31 of them below 2 GB.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	stride, k := Load(Param("stride"), GP64()), Load(Param("k"), GP64())
	offsets := s.vec()
	step := XMM()
	VMOVD(stride.(reg.GPVirtual).As32(), step)
	broadcast := s.vec()
	VPBROADCASTD(step, broadcast)
	VPMULLD(counting(), broadcast, offsets)
	far := GP64() // the second register's rows
	MOVQ(stride, far)
	IMUL3Q(U8(s.lanes), far, far)
	ADDQ(src, far)
	Label("loop")
	CMPQ(k, U8(0))
	JE(LabelRef("done"))
	for n, base := range []reg.Register{src, far} {
		v := s.vec()
		m := Mem{Base: base, Index: offsets, Scale: 1}
		if s.wide {
			mask := K()
			KXNORW(mask, mask, mask)
			VGATHERDPS(m, mask, v)
		} else {
			mask := s.vec()
			VPCMPEQD(mask, mask, mask)
			VGATHERDPS(mask, m, v)
		}
		VMOVUPS(v, Mem{Base: dst, Disp: n * s.bytes()})
	}
	ADDQ(U8(4), src)
	ADDQ(U8(4), far)
	ADDQ(U32(2*s.bytes()), dst)
	DECQ(k)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

var countingLanes *Mem

// counting returns a memory operand with lanes 0, 1, 2, …
func counting() Mem {
	if countingLanes == nil {
		m := GLOBL("countingLanes", RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, U32(i))
		}
		countingLanes = &m
	}
	return *countingLanes
}

const greater = 0x1e // ordered, quiet: false for NaN

// above: the first position of z, a multiple of the lanes long, where z > threshold; count if none.
func above(s isa) {
	function("above"+s.name, "func(z *float32, count int, threshold float32) int",
		"the first block of lanes from the start in which some z > threshold, as an element position; count if none.")
	z, count := Load(Param("z"), GP64()), Load(Param("count"), GP64())
	t := s.vec()
	VBROADCASTSS(argument("threshold"), t)
	at := GP64()
	XORQ(at, at)
	Label("loop")
	CMPQ(at, count)
	JGE(LabelRef("done"))
	s.compare(Mem{Base: z, Index: at, Scale: 4}, t)
	JNZ(LabelRef("done"))
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	Store(at, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// countAbove: how many of the numbers exceed a threshold.
func countAbove(s isa) {
	function("countAbove"+s.name, "func(z *float32, count int, threshold float32) int",
		"how many z > threshold; count is a multiple of the lanes.")
	z, count := Load(Param("z"), GP64()), Load(Param("count"), GP64())
	t, v := s.vec(), s.vec()
	VBROADCASTSS(argument("threshold"), t)
	at, found, some := GP64(), GP64(), GP32()
	XORQ(at, at)
	XORQ(found, found)
	Label("loop")
	CMPQ(at, count)
	JGE(LabelRef("done"))
	VMOVUPS(Mem{Base: z, Index: at, Scale: 4}, v)
	if s.wide {
		k := K()
		VCMPPS(U8(greater), t, v, k)
		KMOVW(k, some)
	} else {
		VCMPPS(U8(greater), t, v, v)
		VMOVMSKPS(v, some)
	}
	POPCNTL(some, some)
	ADDQ(some.As64(), found)
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	Store(found, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// shift: a number added to all.
func shift(s isa) {
	function("shift"+s.name, "func(z *float32, count int, by float32)", "z += by; count is a multiple of the lanes.")
	z, count := Load(Param("z"), GP64()), Load(Param("count"), GP64())
	add, v, at := s.vec(), s.vec(), GP64()
	VBROADCASTSS(argument("by"), add)
	XORQ(at, at)
	Label("loop")
	CMPQ(at, count)
	JGE(LabelRef("done"))
	VADDPS(Mem{Base: z, Index: at, Scale: 4}, add, v)
	VMOVUPS(v, Mem{Base: z, Index: at, Scale: 4})
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// compare sets the flags: not zero when some lane of m is greater than t.
func (s isa) compare(m Mem, t reg.VecVirtual) {
	v := s.vec()
	VMOVUPS(m, v)
	if s.wide {
		k := K()
		VCMPPS(U8(greater), t, v, k)
		KORTESTW(k, k)
	} else {
		VCMPPS(U8(greater), t, v, v)
		VPTEST(v, v)
	}
}

// columnsAbove: the first row of z, from `from` on, in which some column exceeds its own threshold.
func columnsAbove(s isa) {
	function("columnsAbove"+s.name, "func(z *float32, stride, from, rows int, thresholds *float32, columns int) int",
		"the first row ≥ from with some z[row][c] > thresholds[c]; rows if none. columns is a multiple of the "+
			"lanes, stride in bytes.")
	z, stride := Load(Param("z"), GP64()), Load(Param("stride"), GP64())
	row, rows := Load(Param("from"), GP64()), Load(Param("rows"), GP64())
	thresholds, columns := Load(Param("thresholds"), GP64()), Load(Param("columns"), GP64())
	line, offset := GP64(), GP64()
	MOVQ(row, line)
	IMULQ(stride, line)
	ADDQ(z, line)
	Label("row")
	CMPQ(row, rows)
	JGE(LabelRef("done"))
	XORQ(offset, offset)
	Label("column")
	CMPQ(offset, columns)
	JGE(LabelRef("next"))
	t := s.vec()
	VMOVUPS(Mem{Base: thresholds, Index: offset, Scale: 4}, t)
	s.compare(Mem{Base: line, Index: offset, Scale: 4}, t)
	JNZ(LabelRef("done"))
	ADDQ(U8(s.lanes), offset)
	JMP(LabelRef("column"))
	Label("next")
	INCQ(row)
	ADDQ(stride, line)
	JMP(LabelRef("row"))
	Label("done")
	Store(row, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// fromHalf: float16 to float32, a multiple of the lanes at a time.
func fromHalf(s isa) {
	function("fromHalf"+s.name, "func(dst *float32, src *uint16, count int)",
		"dst = float32(src); count is a multiple of the lanes.")
	dst, src, count := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("count"), GP64())
	at := GP64()
	XORQ(at, at)
	Label("loop")
	CMPQ(at, count)
	JGE(LabelRef("done"))
	v := s.vec()
	VCVTPH2PS(Mem{Base: src, Index: at, Scale: 2}, v)
	VMOVUPS(v, Mem{Base: dst, Index: at, Scale: 4})
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
