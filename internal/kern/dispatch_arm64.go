//go:build !noasm

package kern

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Callers have checked every length and index; slices reach the assembly as pointers.

func variants() []variant { return []variant{plain, neon} }

// lanes is the number of float32 numbers that the elementwise kernels take at a time.
func lanes() int {
	if active == neon {
		return 4
	}
	return 1
}

// tileShape is the number of rows and columns of the block product's register tile.
func tileShape() (int, int) {
	if active == neon {
		return 8, 8
	}
	return plainTileRows, plainTileColumns
}

func dotGather(dst, q []float32, m *Matrix, idx []int32) {
	switch {
	case active == plain:
		dotGatherGo(dst, q, m, idx)
	case m.half:
		dotGatherHalfNEON(p32(dst), p32(q), p16(m.f16), 2*m.stride, pInt(idx), len(idx), m.dim)
	default:
		dotGatherNEON(p32(dst), p32(q), p32(m.f32), 4*m.stride, pInt(idx), len(idx), m.dim)
	}
}

func dotScan(dst, q []float32, m *Matrix, from int) {
	switch {
	case active == plain:
		dotScanGo(dst, q, m, from)
	case m.half:
		dotScanHalfNEON(p32(dst), p32(q), p16(m.f16[from*m.stride:]), 2*m.stride, len(dst), m.dim)
	default:
		dotScanNEON(p32(dst), p32(q), p32(m.f32[from*m.stride:]), 4*m.stride, len(dst), m.dim)
	}
}

func addGather(dst []float32, m *Matrix, idx []int32, c []float32) {
	switch {
	case active == plain:
		addGatherGo(dst, m, idx, c)
	case m.half:
		addGatherHalfNEON(p32(dst), p16(m.f16), 2*m.stride, pInt(idx), p32(c), len(idx), m.dim)
	default:
		addGatherNEON(p32(dst), p32(m.f32), 4*m.stride, pInt(idx), p32(c), len(idx), m.dim)
	}
}

func gram(h []float32, order int, m *Matrix, idx []int32, c []float32) {
	if active == plain {
		gramGo(h, order, m, idx, c)
		return
	}
	const block = 8 // rows are padded to twice as much
	for a := 0; a < m.dim; a += block {
		for b := 0; b <= a; b += block {
			out, left, right := p32(h[a*order+b:]), p32(m.f32[a:]), p32(m.f32[b:])
			gramNEON(out, 4*order, left, right, 4*m.stride, pInt(idx), p32(c), len(idx))
		}
	}
}

func dotPairs(dst, w []float32, m *Matrix, sources, targets []int32) {
	switch {
	case active == plain:
		dotPairsGo(dst, w, m, sources, targets)
	case m.half:
		dotPairsHalfNEON(p32(dst), p32(w), p16(m.f16), 2*m.stride, pInt(sources), pInt(targets), len(sources), m.dim)
	default:
		dotPairsNEON(p32(dst), p32(w), p32(m.f32), 4*m.stride, pInt(sources), pInt(targets), len(sources), m.dim)
	}
}

func addPairs(dst []float32, m *Matrix, sources, targets []int32, c []float32) {
	switch {
	case active == plain:
		addPairsGo(dst, m, sources, targets, c)
	case m.half:
		addPairsHalfNEON(p32(dst), p16(m.f16), 2*m.stride, pInt(sources), pInt(targets), p32(c), len(sources), m.dim)
	default:
		addPairsNEON(p32(dst), p32(m.f32), 4*m.stride, pInt(sources), pInt(targets), p32(c), len(sources), m.dim)
	}
}

func tile(c []float32, cStride int, a []float32, aStride int, panel []float32, k int, _ []float32, accumulate bool) {
	if active == plain {
		tileGo(c, cStride, a, aStride, panel, k, accumulate)
		return
	}
	tileNEON(p32(c), 4*cStride, p32(a), 4*aStride, p32(panel), k, accumulate)
}

func transpose(dst, src []float32, stride, k int) {
	if active == plain {
		transposeGo(dst, src, stride, k, plainTileColumns)
		return
	}
	transposeNEON(p32(dst), p32(src), 4*stride, k)
}

func above(z []float32, threshold float32) int {
	if active == plain {
		return aboveGo(z, threshold)
	}
	return aboveNEON(p32(z), len(z), threshold)
}

func countAbove(z []float32, threshold float32) int { return countAboveGo(z, threshold) }

func shift(z []float32, by float32) { shiftGo(z, by) }

func columnsAbove(z []float32, stride, from, rows int, thresholds []float32) int {
	if active == plain {
		return columnsAboveGo(z, stride, from, rows, thresholds)
	}
	return columnsAboveNEON(p32(z), 4*stride, from, rows, p32(thresholds), len(thresholds))
}

// The fast kernels of codes need an instruction for products of bytes, which the first such processors lack.
func dotCodes(high, low []int32, q, rest []int8, base []uint8, stride int) {
	at, with, also := unsafe.SliceData(base), unsafe.SliceData(q), unsafe.SliceData(rest)
	switch {
	case active == plain:
		dotCodesGo(high, low, q, rest, base, stride)
	case cpu.ARM64.HasASIMDDP:
		dotCodesSDOT(pInt(high), pInt(low), with, also, at, stride, len(high))
	default:
		dotCodesNEON(pInt(high), pInt(low), with, also, at, stride, len(high))
	}
}

func dotCodesAt(sums []int32, q []int8, base []uint8, stride int, rows []int32, ahead []uint8) {
	at, with := unsafe.SliceData(base), unsafe.SliceData(q)
	switch {
	case active == plain:
		dotCodesAtGo(sums, q, base, stride, rows)
	case cpu.ARM64.HasASIMDDP:
		dotCodesAtSDOT(pInt(sums), with, at, stride, pInt(rows), len(rows), unsafe.SliceData(ahead))
	default:
		dotCodesAtNEON(pInt(sums), with, at, stride, pInt(rows), len(rows), unsafe.SliceData(ahead))
	}
}

// codeBlocks reports whether block products of codes are faster than those of float32 numbers.
func codeBlocks() bool { return active == neon && cpu.ARM64.HasASIMDDP }

func tileCodes(c []int32, cStride int, a []uint8, aStride int, panel []int8) {
	if !codeBlocks() {
		tileCodesGo(c, cStride, a, aStride, panel)
		return
	}
	tileCodesSDOT(pInt(c), 4*cStride, unsafe.SliceData(a), aStride, unsafe.SliceData(panel), aStride/4)
}

func reachCodes(masks []uint16, r *codeReach) {
	if active == plain {
		reachCodesGo(masks, r)
		return
	}
	c := r.codes
	reachCodesNEON(p16(masks), pInt(r.sums), len(r.terms)/termCount, r.rows, p32(c.scales[r.from:]),
		p32(c.rests[r.from:]), p32(c.norms[r.from:]), p32(r.values), p16(r.fields), p32(r.terms), p32(r.offsets))
}

func scaleCodes(dst []float32, high, low []int32, scales []float32, q *coded) {
	if active == plain {
		scaleCodesGo(dst, high, low, scales, q)
		return
	}
	scaleCodesNEON(p32(dst), pInt(high), pInt(low), p32(scales), len(dst), q.step, q.highZero, q.lowZero)
}

func fromHalf(dst []float32, src []uint16) {
	if active == plain {
		fromHalfGo(dst, src)
		return
	}
	fromHalfNEON(p32(dst), p16(src), len(src))
}

func sigmoid(dst, z []float32) {
	if active == plain {
		sigmoidGo(dst, z)
		return
	}
	sigmoidNEON(p32(dst), p32(z), len(z))
}

func logSigmoid(dst, z []float32) {
	if active == plain {
		logSigmoidGo(dst, z)
		return
	}
	logSigmoidNEON(p32(dst), p32(z), len(z))
}

func sigmoidSoftplus(y, loss, z []float32) {
	if active == plain {
		sigmoidSoftplusGo(y, loss, z)
		return
	}
	sigmoidSoftplusNEON(p32(y), p32(loss), p32(z), len(z))
}

func teaching(y, w, z []float32) {
	sigmoid(y, z)
	weighGo(y, w, z)
}

func blockSums(sums [][2]float64, x, y []float32) { blockSumsGo(sums, x, y) }

func lossSumsEach(sums *[6]float64, z, s []float32, of eachRule) {
	if active == plain {
		lossSumsEachGo(sums, z, s, of)
		return
	}
	lossSumsEachNEON(sums, p32(z), p32(s), len(z), of.own, of.slope, of.ceiling)
}

func lossSumsEachBoth(sums *[6]float64, z, s, t []float32, of eachRule) {
	if active == plain {
		lossSumsEachBothGo(sums, z, s, t, of)
		return
	}
	lossSumsEachBothNEON(sums, p32(z), p32(s), p32(t), len(z), of.own, of.other, of.slope, of.ceiling)
}

func lossSumsBoth(sums *[6]float64, z []float32, there, back propensity) {
	if active == plain {
		lossSumsBothGo(sums, z, there, back)
		return
	}
	lossSumsBothNEON(sums, p32(z), len(z), there.pi, there.rest, back.pi, back.rest)
}

func lossSums(sums *[6]float64, z []float32, pi, rest float32) {
	if active == plain {
		lossSumsGo(sums, z, pi, rest)
		return
	}
	lossSumsNEON(sums, p32(z), len(z), pi, rest)
}

func pairSlopes(p *PairValues, count int, lambda float32) {
	if active == plain {
		pairSlopesGo(p, count, lambda)
		return
	}
	pairSlopesNEON(p32(p.DZ), p32(p.DS), p32(p.ZZ), p32(p.ZS), p32(p.SS), p32(p.Chance), p32(p.Z), p32(p.S),
		p32(p.Sign), p32(p.Rate), p32(p.Weight), count, lambda)
}

func adam(params, first, second, grad []float32, a adamStep) {
	if active == plain {
		adamGo(params, first, second, grad, a)
		return
	}
	adamNEON(p32(params), p32(first), p32(second), p32(grad), len(grad), a.blend1, a.blend2, a.step, a.root, a.epsilon)
}
