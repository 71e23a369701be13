package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gram: one square block, a register wide and as many rows high, of the weighted sum of the outer products of gathered
// rows. All of it stays in registers while the rows pass by.
func gram(s isa) {
	function("gram"+s.name, "func(h *float32, hStride int, left, right *float32, stride int, idx *int32, c *float32, "+
		"count int)",
		"h[a][b] += Σ c[k]·left row k[a]·right row k[b] for a block of lanes×lanes; strides in bytes.")
	h, hStride := Load(Param("h"), GP64()), Load(Param("hStride"), GP64())
	left, right := Load(Param("left"), GP64()), Load(Param("right"), GP64())
	stride := Load(Param("stride"), GP64())
	idx, c, count := Load(Param("idx"), GP64()), Load(Param("c"), GP64()), Load(Param("count"), GP64())
	walk := GP64()
	MOVQ(h, walk)
	acc := make([]reg.VecVirtual, s.lanes)
	for r := range acc {
		acc[r] = s.vec()
		VMOVUPS(Mem{Base: walk}, acc[r])
		ADDQ(hStride, walk)
	}
	Label("rows")
	CMPQ(count, U8(0))
	JE(LabelRef("done"))
	off := GP64()
	MOVLQSX(Mem{Base: idx}, off)
	IMULQ(stride, off)
	factor, row := s.vec(), s.vec()
	VBROADCASTSS(Mem{Base: c}, factor)
	VMULPS(Mem{Base: right, Index: off, Scale: 1}, factor, row)
	for r := range acc {
		one := Mem{Base: left, Index: off, Scale: 1, Disp: 4 * r}
		if s.wide {
			VFMADD231PS_BCST(one, row, acc[r])
			continue
		}
		v := s.vec()
		VBROADCASTSS(one, v)
		VFMADD231PS(v, row, acc[r])
	}
	ADDQ(U8(4), idx)
	ADDQ(U8(4), c)
	DECQ(count)
	JMP(LabelRef("rows"))
	Label("done")
	for r := range acc {
		VMOVUPS(acc[r], Mem{Base: h})
		ADDQ(hStride, h)
	}
	VZEROUPPER()
	RET()
}
