package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The row kernels walk a few rows at once, so that several cache lines are on their way at any
// time, and ask for the next rows' lines while they work on these: the hardware's prefetcher
// needs longer than a 3 KB row to notice a stream.

// span says how a row of n elements is walked: main steps of two registers, then one register,
// then a tail of fewer than one. All counts are in elements, offsets in bytes of the row.
type span struct {
	isa
	half bool         // the rows' elements are float16
	mask reg.Register // AVX-512: the tail's lanes
}

func (p span) element() int {
	if p.half {
		return 2
	}
	return 4
}

func (p span) pointer() string {
	if p.half {
		return "*uint16"
	}
	return "*float32"
}

func (p span) suffix() string {
	if p.half {
		return "Half" + p.name
	}
	return p.name
}

// at addresses the element at offset off (counted in elements) and a displacement in elements.
func (p span) at(row reg.Register, off reg.GPVirtual, elements int) Mem {
	return Mem{Base: row, Index: off, Scale: uint8(p.element()), Disp: elements * p.element()}
}

// at32 does the same in a float32 array.
func at32(base reg.Register, off reg.GPVirtual, elements int) Mem {
	return Mem{Base: base, Index: off, Scale: 4, Disp: elements * 4}
}

// read loads one register of row elements as float32.
func (p span) read(m Mem) reg.VecVirtual {
	v := p.vec()
	if p.half {
		VCVTPH2PS(m, v)
	} else {
		VMOVUPS(m, v)
	}
	return v
}

// fma adds a·row[m] to acc.
func (p span) fma(m Mem, a, acc reg.VecVirtual) {
	if p.half {
		VFMADD231PS(p.read(m), a, acc)
	} else {
		VFMADD231PS(m, a, acc)
	}
}

// mul sets product to a·row[m].
func (p span) mul(m Mem, a, product reg.VecVirtual) {
	if p.half {
		VMULPS(p.read(m), a, product)
	} else {
		VMULPS(m, a, product)
	}
}

// prepareTail computes the tail's mask (AVX-512) from the dimension.
func (p *span) prepareTail(dim Mem) {
	if !p.wide {
		return
	}
	tail := GP64()
	MOVQ(dim, tail)
	ANDQ(U8(p.lanes-1), tail)
	bits := GP64() // 2^tail − 1
	XORQ(bits, bits)
	BTSQ(tail, bits)
	DECQ(bits)
	k := K()
	KMOVW(bits.As32(), k)
	p.mask = k
}

// readTail loads the masked tail of a row as float32, other lanes zero (AVX-512 only).
func (p span) readTail(m Mem) reg.VecVirtual {
	v := p.vec()
	if p.half {
		h := YMM()
		VMOVDQU16_Z(m, p.mask, h)
		VCVTPH2PS(h, v)
	} else {
		VMOVUPS_Z(m, p.mask, v)
	}
	return v
}

// readOne loads a single element into the low lane of an XMM register (AVX2's tails).
func (p span) readOne(m Mem) reg.VecVirtual {
	x := XMM()
	if p.half {
		bits := GP32()
		MOVWLZX(m, bits)
		VMOVD(bits, x)
		VCVTPH2PS(x, x)
	} else {
		VMOVSS(m, x)
	}
	return x
}

// walk emits the loop over a row's elements. step is called with the number of registers to
// handle from offset off on; tail with a masked rest (AVX-512), one with a single element (AVX2).
func (p span) walk(label string, dim Mem, step func(off reg.GPVirtual, registers int), tail,
	one func(off reg.GPVirtual)) {
	off, left := GP64(), GP64()
	XORQ(off, off)
	MOVQ(dim, left)
	Label(label + "_two")
	CMPQ(left, U8(2*p.lanes))
	JLT(LabelRef(label + "_one"))
	step(off, 2)
	ADDQ(U8(2*p.lanes), off)
	SUBQ(U8(2*p.lanes), left)
	JMP(LabelRef(label + "_two"))
	Label(label + "_one")
	CMPQ(left, U8(p.lanes))
	JLT(LabelRef(label + "_tail"))
	step(off, 1)
	ADDQ(U8(p.lanes), off)
	SUBQ(U8(p.lanes), left)
	Label(label + "_tail")
	CMPQ(left, U8(0))
	JE(LabelRef(label + "_end"))
	if p.wide {
		tail(off)
	} else {
		Label(label + "_each")
		one(off)
		INCQ(off)
		DECQ(left)
		JNZ(LabelRef(label + "_each"))
	}
	Label(label + "_end")
}

// cursor turns the next index of a list into a row pointer, or steps through consecutive rows.
// What the inner loop does not touch stays in the arguments' memory: eight row pointers leave
// few registers.
type cursor struct {
	scan         bool
	base, stride Mem
	idx          reg.Register
}

// argument returns the memory of a parameter.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func (c cursor) load(at int, into reg.GPVirtual) {
	if c.scan {
		// rows follow one another: base has been moved to the first of the group
		switch at {
		case 0:
			MOVQ(c.base, into)
		default:
			MOVQ(c.stride, into)
			IMUL3Q(U8(at), into, into)
			ADDQ(c.base, into)
		}
		return
	}
	MOVLQSX(Mem{Base: c.idx, Disp: 4 * at}, into)
	IMULQ(c.stride, into)
	ADDQ(c.base, into)
}

// advance moves the cursor over n rows.
func (c cursor) advance(n int) {
	if c.scan {
		step := GP64()
		MOVQ(c.stride, step)
		IMUL3Q(U8(n), step, step)
		ADDQ(step, c.base)
	} else {
		ADDQ(U8(4*n), c.idx)
	}
}

// dotRows: dst[k] = Σ q·row, for listed rows (gather) or consecutive ones (scan).
func dotRows(s isa, half, scan bool) {
	p := span{isa: s, half: half}
	name, signature := "dotGather", "func(dst, q *float32, base "+p.pointer()+
		", stride int, idx *int32, count, dim int)"
	if scan {
		name, signature = "dotScan", "func(dst, q *float32, base "+p.pointer()+", stride int, count, dim int)"
	}
	function(name+p.suffix(), signature, "dst[k] = Σ q[d]·row[d]; stride in bytes.")
	dst, q := Load(Param("dst"), GP64()), Load(Param("q"), GP64())
	c := cursor{scan: scan, base: argument("base"), stride: argument("stride")}
	if !scan {
		c.idx = Load(Param("idx"), GP64())
	}
	count, dim := argument("count"), argument("dim")
	p.prepareTail(dim)

	group := func(label string, rows []reg.GPVirtual, ahead []reg.GPVirtual) {
		var acc [][2]reg.VecVirtual
		var single []reg.VecVirtual
		for range rows {
			a := [2]reg.VecVirtual{p.vec(), p.vec()}
			p.zero(a[0])
			p.zero(a[1])
			acc = append(acc, a)
			if !p.wide {
				x := XMM()
				VXORPS(x, x, x)
				single = append(single, x)
			}
		}
		p.walk(label, dim, func(off reg.GPVirtual, registers int) {
			for u := range registers {
				query := p.vec()
				VMOVUPS(at32(q, off, u*p.lanes), query)
				for r, row := range rows {
					p.fma(p.at(row, off, u*p.lanes), query, acc[r][u])
				}
			}
			p.prefetch(ahead, off, registers)
		}, func(off reg.GPVirtual) {
			query := p.vec()
			VMOVUPS_Z(at32(q, off, 0), p.mask, query)
			for r, row := range rows {
				VFMADD231PS(p.readTail(p.at(row, off, 0)), query, acc[r][1])
			}
		}, func(off reg.GPVirtual) {
			x := XMM()
			VMOVSS(at32(q, off, 0), x)
			for r, row := range rows {
				VFMADD231SS(p.readOne(p.at(row, off, 0)), x, single[r])
			}
		})
		for r := range rows {
			VADDPS(acc[r][1], acc[r][0], acc[r][0])
			sum := p.sumLanes(acc[r][0])
			if !p.wide {
				VADDSS(single[r], sum, sum)
			}
			VMOVSS(sum, Mem{Base: dst, Disp: 4 * r})
		}
		ADDQ(U8(4*len(rows)), dst)
	}
	p.groups(c, count, 4, 1, group)
	VZEROUPPER()
	RET()
}

// prefetch asks for the lines of the rows to come that stand where this step stands.
func (p span) prefetch(ahead []reg.GPVirtual, off reg.GPVirtual, registers int) {
	for _, row := range ahead {
		for line := 0; line < registers*p.lanes*p.element(); line += 64 {
			PREFETCHT0(p.at(row, off, line/p.element()))
		}
	}
}

// groups emits the loop over rows: units of `many` rows while there are enough, then of `few`.
// Each unit's rows are known one unit ahead, so that they can be prefetched.
func (p span) groups(c cursor, count Mem, many, few int, body func(label string, rows, ahead []reg.GPVirtual)) {
	rows, ahead := make([]reg.GPVirtual, many), make([]reg.GPVirtual, many)
	for r := range rows {
		rows[r], ahead[r] = GP64(), GP64()
	}
	CMPQ(count, U8(many))
	JLT(LabelRef("few"))
	for r := range ahead {
		c.load(r, ahead[r])
	}
	Label("many")
	for r := range rows {
		MOVQ(ahead[r], rows[r])
	}
	c.advance(many)
	SUBQ(U8(many), count)
	CMPQ(count, U8(many))
	JLT(LabelRef("work"))
	for r := range ahead {
		c.load(r, ahead[r])
	}
	Label("work")
	body("group", rows, ahead)
	CMPQ(count, U8(many))
	JGE(LabelRef("many"))
	Label("few")
	CMPQ(count, U8(few))
	JLT(LabelRef("done"))
	for r := range few {
		c.load(r, rows[r])
	}
	c.advance(few)
	SUBQ(U8(few), count)
	body("single", rows[:few], nil)
	JMP(LabelRef("few"))
	Label("done")
}

// addRows: dst += Σ c[k]·row k. Every element of dst sees its additions in the list's order.
func addRows(s isa, half bool) {
	p := span{isa: s, half: half}
	function("addGather"+p.suffix(), "func(dst *float32, base "+p.pointer()+
		", stride int, idx *int32, c *float32, count, dim int)",
		"dst[d] += Σ c[k]·row k[d]; stride in bytes.")
	dst := Load(Param("dst"), GP64())
	c := cursor{base: argument("base"), stride: argument("stride"), idx: Load(Param("idx"), GP64())}
	factors := Load(Param("c"), GP64())
	count, dim := argument("count"), argument("dim")
	p.prepareTail(dim)
	p.groups(c, count, 4, 1, func(label string, rows, ahead []reg.GPVirtual) {
		var factor []reg.VecVirtual
		for r := range rows {
			f := p.vec()
			VBROADCASTSS(Mem{Base: factors, Disp: 4 * r}, f)
			factor = append(factor, f)
		}
		ADDQ(U8(4*len(rows)), factors)
		p.walk(label, dim, func(off reg.GPVirtual, registers int) {
			for u := range registers {
				sum := p.vec()
				VMOVUPS(at32(dst, off, u*p.lanes), sum)
				for r, row := range rows {
					p.fma(p.at(row, off, u*p.lanes), factor[r], sum)
				}
				VMOVUPS(sum, at32(dst, off, u*p.lanes))
			}
			p.prefetch(ahead, off, registers)
		}, func(off reg.GPVirtual) {
			sum := p.vec()
			VMOVUPS_Z(at32(dst, off, 0), p.mask, sum)
			for r, row := range rows {
				VFMADD231PS(p.readTail(p.at(row, off, 0)), factor[r], sum)
			}
			VMOVUPS(sum, p.mask, at32(dst, off, 0))
		}, func(off reg.GPVirtual) {
			sum := XMM()
			VMOVSS(at32(dst, off, 0), sum)
			for r, row := range rows {
				VFMADD231SS(p.readOne(p.at(row, off, 0)), factor[r].AsX(), sum)
			}
			VMOVSS(sum, at32(dst, off, 0))
		})
	})
	VZEROUPPER()
	RET()
}

// pairCursor walks two index lists at once; a pair's rows are neighbours in the group.
type pairCursor struct {
	base, stride     Mem
	sources, targets reg.Register
}

func (c pairCursor) load(pair int, into []reg.GPVirtual) {
	for side, idx := range []reg.Register{c.sources, c.targets} {
		r := into[2*pair+side]
		MOVLQSX(Mem{Base: idx, Disp: 4 * pair}, r)
		IMULQ(c.stride, r)
		ADDQ(c.base, r)
	}
}

// pairs emits the loop over pairs, two at a time and then one.
func (p span) pairs(c pairCursor, count Mem, body func(label string, rows, ahead []reg.GPVirtual)) {
	rows, ahead := make([]reg.GPVirtual, 4), make([]reg.GPVirtual, 4)
	for r := range rows {
		rows[r], ahead[r] = GP64(), GP64()
	}
	loadTwo := func() { c.load(0, ahead); c.load(1, ahead) }
	advance := func(n int) { ADDQ(U8(4*n), c.sources); ADDQ(U8(4*n), c.targets) }
	CMPQ(count, U8(2))
	JLT(LabelRef("few"))
	loadTwo()
	Label("many")
	for r := range rows {
		MOVQ(ahead[r], rows[r])
	}
	advance(2)
	SUBQ(U8(2), count)
	CMPQ(count, U8(2))
	JLT(LabelRef("work"))
	loadTwo()
	Label("work")
	body("group", rows, ahead)
	CMPQ(count, U8(2))
	JGE(LabelRef("many"))
	Label("few")
	CMPQ(count, U8(1))
	JLT(LabelRef("done"))
	c.load(0, rows)
	body("single", rows[:2], nil)
	Label("done")
}

// dotPairs: dst[k] = Σ w·source·target over ungrouped pairs.
func dotPairs(s isa, half bool) {
	p := span{isa: s, half: half}
	function("dotPairs"+p.suffix(), "func(dst, w *float32, base "+p.pointer()+
		", stride int, sources, targets *int32, count, dim int)",
		"dst[k] = Σ w[d]·source[d]·target[d]; stride in bytes.")
	dst, w := Load(Param("dst"), GP64()), Load(Param("w"), GP64())
	c := pairCursor{argument("base"), argument("stride"), Load(Param("sources"), GP64()),
		Load(Param("targets"), GP64())}
	count, dim := argument("count"), argument("dim")
	p.prepareTail(dim)
	p.pairs(c, count, func(label string, rows, ahead []reg.GPVirtual) {
		n := len(rows) / 2
		var acc [][2]reg.VecVirtual
		var single []reg.VecVirtual
		for range n {
			a := [2]reg.VecVirtual{p.vec(), p.vec()}
			p.zero(a[0])
			p.zero(a[1])
			acc = append(acc, a)
			if !p.wide {
				x := XMM()
				VXORPS(x, x, x)
				single = append(single, x)
			}
		}
		p.walk(label, dim, func(off reg.GPVirtual, registers int) {
			for u := range registers {
				weight := p.vec()
				VMOVUPS(at32(w, off, u*p.lanes), weight)
				for k := range n {
					product := p.vec()
					p.mul(p.at(rows[2*k], off, u*p.lanes), weight, product)
					p.fma(p.at(rows[2*k+1], off, u*p.lanes), product, acc[k][u])
				}
			}
			p.prefetch(ahead, off, registers)
		}, func(off reg.GPVirtual) {
			weight := p.vec()
			VMOVUPS_Z(at32(w, off, 0), p.mask, weight)
			for k := range n {
				product := p.vec()
				VMULPS(p.readTail(p.at(rows[2*k], off, 0)), weight, product)
				VFMADD231PS(p.readTail(p.at(rows[2*k+1], off, 0)), product, acc[k][1])
			}
		}, func(off reg.GPVirtual) {
			weight := XMM()
			VMOVSS(at32(w, off, 0), weight)
			for k := range n {
				product := XMM()
				VMULSS(p.readOne(p.at(rows[2*k], off, 0)), weight, product)
				VFMADD231SS(p.readOne(p.at(rows[2*k+1], off, 0)), product, single[k])
			}
		})
		for k := range n {
			VADDPS(acc[k][1], acc[k][0], acc[k][0])
			sum := p.sumLanes(acc[k][0])
			if !p.wide {
				VADDSS(single[k], sum, sum)
			}
			VMOVSS(sum, Mem{Base: dst, Disp: 4 * k})
		}
		ADDQ(U8(4*n), dst)
	})
	VZEROUPPER()
	RET()
}

// addPairs: dst += Σ c[k]·source⊙target over ungrouped pairs, in the list's order.
func addPairs(s isa, half bool) {
	p := span{isa: s, half: half}
	function("addPairs"+p.suffix(), "func(dst *float32, base "+p.pointer()+
		", stride int, sources, targets *int32, c *float32, count, dim int)",
		"dst[d] += Σ c[k]·source[d]·target[d]; stride in bytes.")
	dst := Load(Param("dst"), GP64())
	c := pairCursor{argument("base"), argument("stride"), Load(Param("sources"), GP64()),
		Load(Param("targets"), GP64())}
	count, dim := argument("count"), argument("dim")
	p.prepareTail(dim)
	factors := Load(Param("c"), GP64())
	p.pairs(c, count, func(label string, rows, ahead []reg.GPVirtual) {
		n := len(rows) / 2
		var factor []reg.VecVirtual
		for k := range n {
			f := p.vec()
			VBROADCASTSS(Mem{Base: factors, Disp: 4 * k}, f)
			factor = append(factor, f)
		}
		ADDQ(U8(4*n), factors)
		p.walk(label, dim, func(off reg.GPVirtual, registers int) {
			for u := range registers {
				sum := p.vec()
				VMOVUPS(at32(dst, off, u*p.lanes), sum)
				for k := range n {
					product := p.vec()
					p.mul(p.at(rows[2*k], off, u*p.lanes), factor[k], product)
					p.fma(p.at(rows[2*k+1], off, u*p.lanes), product, sum)
				}
				VMOVUPS(sum, at32(dst, off, u*p.lanes))
			}
			p.prefetch(ahead, off, registers)
		}, func(off reg.GPVirtual) {
			sum := p.vec()
			VMOVUPS_Z(at32(dst, off, 0), p.mask, sum)
			for k := range n {
				product := p.vec()
				VMULPS(p.readTail(p.at(rows[2*k], off, 0)), factor[k], product)
				VFMADD231PS(p.readTail(p.at(rows[2*k+1], off, 0)), product, sum)
			}
			VMOVUPS(sum, p.mask, at32(dst, off, 0))
		}, func(off reg.GPVirtual) {
			sum := XMM()
			VMOVSS(at32(dst, off, 0), sum)
			for k := range n {
				product := XMM()
				VMULSS(p.readOne(p.at(rows[2*k], off, 0)), factor[k].AsX(), product)
				VFMADD231SS(p.readOne(p.at(rows[2*k+1], off, 0)), product, sum)
			}
			VMOVSS(sum, at32(dst, off, 0))
		})
	})
	VZEROUPPER()
	RET()
}

func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(fmt.Sprintf("%s: %s", name, doc))
}
