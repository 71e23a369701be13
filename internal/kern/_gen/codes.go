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
		s.storeFour(sums[p], dst)
		ADDQ(U8(16), dst)
	}
	LEAQ(Mem{Base: rows[3], Index: stride, Scale: 1}, rows[0])
	SUBQ(U8(4), count)
	JMP(LabelRef("rows"))
	Label("done")
	VZEROUPPER()
	RET()
}

// dotCodesAt: the integer product-sums of a query's bytes with those of rows here and there. All lines of all rows are
// asked for before the first is needed.
//
// Long because it reads as the assembly that it writes: one routine, whose registers live to its end.
func dotCodesAt(s isa) {
	function("dotCodesAt"+s.name, "func(sums *int32, q *int8, base *uint8, stride int, rows *int32, count int, "+
		"ahead *uint8)", "sums[k] = Σ q[d]·row[d] of row rows[k]; stride is a multiple of 64, count of 4. ahead is "+
		"asked for: it is needed next.")
	sums, q := Load(Param("sums"), GP64()), Load(Param("q"), GP64())
	base, stride := Load(Param("base"), GP64()), Load(Param("stride"), GP64())
	ids, count := Load(Param("rows"), GP64()), Load(Param("count"), GP64())
	at, row, last := GP64(), GP64(), GP64()
	Load(Param("ahead"), row)
	PREFETCHT0(Mem{Base: row})
	PREFETCHT0(Mem{Base: row, Disp: 64})
	XORQ(at, at)
	Label("asked")
	MOVLQSX(Mem{Base: ids, Index: at, Scale: 4}, row)
	IMULQ(stride, row)
	ADDQ(base, row)
	LEAQ(Mem{Base: row, Index: stride, Scale: 1}, last)
	Label("lines")
	PREFETCHT0(Mem{Base: row})
	ADDQ(U8(64), row)
	CMPQ(row, last)
	JLT(LabelRef("lines"))
	INCQ(at)
	CMPQ(at, count)
	JLT(LabelRef("asked"))
	rows := []reg.GPVirtual{GP64(), GP64(), GP64(), GP64()}
	step := 16 // bytes, widened to words
	if s.wide {
		step = 64 // bytes as they are, by VNNI
	}
	Label("rows")
	var totals [4]reg.VecVirtual
	for r := range rows {
		MOVLQSX(Mem{Base: ids, Disp: 4 * r}, rows[r])
		IMULQ(stride, rows[r])
		ADDQ(base, rows[r])
		totals[r] = s.vec()
		if s.wide {
			VPXORD(totals[r], totals[r], totals[r])
		} else {
			VPXOR(totals[r], totals[r], totals[r])
		}
	}
	XORQ(at, at)
	Label("elements")
	with := s.vec()
	m := Mem{Base: q, Index: at, Scale: 1}
	if s.wide {
		VMOVDQU64(m, with)
	} else {
		VPMOVSXBW(m, with)
	}
	for r, row := range rows {
		v, m := s.vec(), Mem{Base: row, Index: at, Scale: 1}
		if s.wide {
			VMOVDQU64(m, v)
			VPDPBUSD(with, v, totals[r])
			continue
		}
		VPMOVZXBW(m, v)
		VPMADDWD(with, v, v)
		VPADDD(v, totals[r], totals[r])
	}
	ADDQ(U8(step), at)
	CMPQ(at, stride)
	JLT(LabelRef("elements"))
	s.storeFour(totals, sums)
	ADDQ(U8(16), sums)
	ADDQ(U8(16), ids)
	SUBQ(U8(4), count)
	JNE(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// storeFour stores the sums of the lanes of four registers of integers behind one another.
func (s isa) storeFour(of [4]reg.VecVirtual, dst reg.Register) {
	var half [4]reg.VecVirtual
	for r, v := range of {
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
}

// scaleCodes: the approximate score of each row, of its two sums.
func scaleCodes(s isa) {
	function("scaleCodes"+s.name, "func(dst *float32, high, low *int32, scales *float32, count int, step float32, "+
		"highZero, lowZero int32)",
		"dst[k] = scales[k]·step·(128·(high[k] − highZero) + (low[k] − lowZero)); count is a multiple of the lanes.")
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
	step := s.vec()
	VBROADCASTSS(argument("step"), step)
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
	scaled := s.vec()
	VMULPS(Mem{Base: scales, Index: at, Scale: 4}, step, scaled)
	VMULPS(scaled, sums[0], sums[0])
	VMOVUPS(sums[0], Mem{Base: dst, Index: at, Scale: 4})
	ADDQ(U8(s.lanes), at)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// The register tile of the block product of codes.
const (
	codeTileRows    = 8
	codeTileColumns = 48
)

// tileCodes: integer product-sums of eight coded rows, where they are, with the queries of a panel: for every four
// elements the four of one query behind those of the other. AVX-512 with VNNI.
func tileCodes() {
	const registers = codeTileColumns / 16
	function("tileCodesAVX512", "func(c *int32, cStride int, a *uint8, aStride int, panel *int8, fours int)",
		"c = a·panel over a full register tile of 8×48; strides in bytes, fours an even number of four elements each.")
	c, cStride := Load(Param("c"), GP64()), Load(Param("cStride"), GP64())
	a, stride := Load(Param("a"), GP64()), Load(Param("aStride"), GP64())
	panel, fours := Load(Param("panel"), GP64()), Load(Param("fours"), GP64())
	var sums [codeTileRows][registers]reg.VecVirtual
	for r := range sums {
		for n := range sums[r] {
			sums[r][n] = ZMM()
			VPXORD(sums[r][n], sums[r][n], sums[r][n])
		}
	}
	// three rows share a base: base, base+stride, base+2·stride
	three, bases := GP64(), []reg.GPVirtual{a.(reg.GPVirtual), GP64(), GP64()}
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	for b := 1; b < len(bases); b++ {
		LEAQ(Mem{Base: bases[b-1], Index: three, Scale: 1}, bases[b])
	}
	Label("elements")
	const unroll = 2
	for u := range unroll {
		var parts [registers]reg.VecVirtual
		for n := range parts {
			parts[n] = ZMM()
			VMOVDQU64(Mem{Base: panel, Disp: (u*registers + n) * 64}, parts[n])
		}
		for r := range sums {
			m := Mem{Base: bases[r/3], Disp: 4 * u}
			if r%3 > 0 {
				m.Index, m.Scale = stride, uint8(r%3)
			}
			v := ZMM()
			VPBROADCASTD(m, v)
			for n := range parts {
				VPDPBUSD(parts[n], v, sums[r][n])
			}
		}
	}
	for _, base := range bases {
		ADDQ(U8(4*unroll), base)
	}
	ADDQ(U32(unroll*registers*64), panel)
	SUBQ(U8(unroll), fours)
	JNE(LabelRef("elements"))
	for r := range sums {
		for n := range sums[r] {
			VMOVDQU32(sums[r][n], Mem{Base: c, Disp: n * 64})
		}
		ADDQ(cStride, c)
	}
	VZEROUPPER()
	RET()
}

// reachCodes: which queries a coded row may be among the best of. AVX-512.
//
// Long because it reads as the assembly that it writes: one routine, whose registers live to its end.
func reachCodes() {
	function("reachCodesAVX512", "func(masks *uint16, sums *int32, columns, rows int, scales, rests, norms, "+
		"values *float32, fields *uint16, queries, offsets *float32)",
		"Bit j of the masks of row i: whether not scales[i]·step[j]·(sums[i][j] − zero[j]) + rests[i]·reach[j] + "+
			"norms[i]·rest[j] + slope[j]·values[i] + offsets[fields[i]][j] < least[j]. queries is one array behind "+
			"the other, each of as many elements as there are columns, a multiple of 16: step, zero, reach, rest, "+
			"slope, least.")
	masks, sums := Load(Param("masks"), GP64()), Load(Param("sums"), GP64())
	columns, rows := Load(Param("columns"), GP64()), Load(Param("rows"), GP64())
	scales, rests := Load(Param("scales"), GP64()), Load(Param("rests"), GP64())
	norms, values := Load(Param("norms"), GP64()), Load(Param("values"), GP64())
	fields, queries := Load(Param("fields"), GP64()), Load(Param("queries"), GP64())
	SHLQ(U8(2), columns) // in bytes
	three := GP64()
	LEAQ(Mem{Base: columns, Index: columns, Scale: 2}, three)
	offsets, at, query := GP64(), GP64(), GP64()
	scale, rest, norm, value := ZMM(), ZMM(), ZMM(), ZMM()
	Label("rows")
	for _, of := range []struct {
		from reg.Register
		to   reg.VecVirtual
	}{{scales, scale}, {rests, rest}, {norms, norm}, {values, value}} {
		VBROADCASTSS(Mem{Base: of.from}, of.to)
		ADDQ(U8(4), of.from)
	}
	MOVWQZX(Mem{Base: fields}, offsets)
	ADDQ(U8(2), fields)
	IMULQ(columns, offsets)
	ADDQ(argument("offsets"), offsets)
	MOVQ(queries, query)
	XORQ(at, at)
	Label("queries")
	// of the six arrays, three by this base and three by the next
	later := GP64()
	LEAQ(Mem{Base: query, Index: three, Scale: 1}, later)
	z, factor := ZMM(), ZMM()
	VMOVDQU32(Mem{Base: sums, Index: at, Scale: 1}, z)
	VPSUBD(Mem{Base: query, Index: columns, Scale: 1}, z, z)
	VCVTDQ2PS(z, z)
	VMULPS(Mem{Base: query}, scale, factor)
	VMULPS(factor, z, z)
	VFMADD231PS(Mem{Base: query, Index: columns, Scale: 2}, rest, z)
	VFMADD231PS(Mem{Base: later}, norm, z)
	VFMADD231PS(Mem{Base: later, Index: columns, Scale: 1}, value, z)
	VADDPS(Mem{Base: offsets, Index: at, Scale: 1}, z, z)
	mask, word := K(), GP32()
	VCMPPS(U8(5), Mem{Base: later, Index: columns, Scale: 2}, z, mask) // not less than
	KMOVW(mask, word)
	MOVW(word.As16(), Mem{Base: masks})
	ADDQ(U8(2), masks)
	ADDQ(U8(64), at)
	ADDQ(U8(64), query)
	CMPQ(at, columns)
	JLT(LabelRef("queries"))
	ADDQ(columns, sums)
	SUBQ(U8(1), rows)
	JNE(LabelRef("rows"))
	VZEROUPPER()
	RET()
}
