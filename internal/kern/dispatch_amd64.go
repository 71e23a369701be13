//go:build !noasm

package kern

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The switches below, rather than a table of functions, let the compiler see that no argument
// escapes. Callers have checked every length and index; slices reach the assembly as pointers.

func variants() []variant {
	x := cpu.X86
	switch {
	case !(x.HasAVX2 && x.HasFMA && x.HasF16C && x.HasBMI1):
		return []variant{plain}
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return []variant{plain, avx2, avx512}
	}
	return []variant{plain, avx2}
}

// lanes is the number of float32 numbers that the elementwise kernels take at a time.
func lanes() int {
	switch active {
	case avx512:
		return 16
	case avx2:
		return 8
	}
	return 1
}

// tileShape is the number of rows and columns of the block product's register tile.
func tileShape() (int, int) {
	switch active {
	case avx512:
		return 12, 32
	case avx2:
		return 6, 16
	}
	return plainTileRows, plainTileColumns
}

func dotGather(dst, q []float32, m *Matrix, idx []int32) {
	switch {
	case active == plain:
		dotGatherGo(dst, q, m, idx)
	case active == avx512 && m.half:
		dotGatherHalfAVX512(p32(dst), p32(q), p16(m.f16), 2*m.stride, pInt(idx), len(idx), m.dim)
	case active == avx512:
		dotGatherAVX512(p32(dst), p32(q), p32(m.f32), 4*m.stride, pInt(idx), len(idx), m.dim)
	case m.half:
		dotGatherHalfAVX2(p32(dst), p32(q), p16(m.f16), 2*m.stride, pInt(idx), len(idx), m.dim)
	default:
		dotGatherAVX2(p32(dst), p32(q), p32(m.f32), 4*m.stride, pInt(idx), len(idx), m.dim)
	}
}

func dotScan(dst, q []float32, m *Matrix, from int) {
	switch {
	case active == plain:
		dotScanGo(dst, q, m, from)
	case active == avx512 && m.half:
		dotScanHalfAVX512(p32(dst), p32(q), p16(m.f16[from*m.stride:]), 2*m.stride, len(dst), m.dim)
	case active == avx512:
		dotScanAVX512(p32(dst), p32(q), p32(m.f32[from*m.stride:]), 4*m.stride, len(dst), m.dim)
	case m.half:
		dotScanHalfAVX2(p32(dst), p32(q), p16(m.f16[from*m.stride:]), 2*m.stride, len(dst), m.dim)
	default:
		dotScanAVX2(p32(dst), p32(q), p32(m.f32[from*m.stride:]), 4*m.stride, len(dst), m.dim)
	}
}

func addGather(dst []float32, m *Matrix, idx []int32, c []float32) {
	switch {
	case active == plain:
		addGatherGo(dst, m, idx, c)
	case active == avx512 && m.half:
		addGatherHalfAVX512(p32(dst), p16(m.f16), 2*m.stride, pInt(idx), p32(c), len(idx), m.dim)
	case active == avx512:
		addGatherAVX512(p32(dst), p32(m.f32), 4*m.stride, pInt(idx), p32(c), len(idx), m.dim)
	case m.half:
		addGatherHalfAVX2(p32(dst), p16(m.f16), 2*m.stride, pInt(idx), p32(c), len(idx), m.dim)
	default:
		addGatherAVX2(p32(dst), p32(m.f32), 4*m.stride, pInt(idx), p32(c), len(idx), m.dim)
	}
}

func gram(h []float32, order int, m *Matrix, idx []int32, c []float32) {
	if active == plain {
		gramGo(h, order, m, idx, c)
		return
	}
	for a := 0; a < m.dim; a += lanes() {
		for b := 0; b <= a; b += lanes() {
			out, left, right := p32(h[a*order+b:]), p32(m.f32[a:]), p32(m.f32[b:])
			if active == avx512 {
				gramAVX512(out, 4*order, left, right, 4*m.stride, pInt(idx), p32(c), len(idx))
			} else {
				gramAVX2(out, 4*order, left, right, 4*m.stride, pInt(idx), p32(c), len(idx))
			}
		}
	}
}

func dotPairs(dst, w []float32, m *Matrix, sources, targets []int32) {
	switch {
	case active == plain:
		dotPairsGo(dst, w, m, sources, targets)
	case active == avx512 && m.half:
		dotPairsHalfAVX512(p32(dst), p32(w), p16(m.f16), 2*m.stride, pInt(sources), pInt(targets), len(sources), m.dim)
	case active == avx512:
		dotPairsAVX512(p32(dst), p32(w), p32(m.f32), 4*m.stride, pInt(sources), pInt(targets), len(sources), m.dim)
	case m.half:
		dotPairsHalfAVX2(p32(dst), p32(w), p16(m.f16), 2*m.stride, pInt(sources), pInt(targets), len(sources), m.dim)
	default:
		dotPairsAVX2(p32(dst), p32(w), p32(m.f32), 4*m.stride, pInt(sources), pInt(targets), len(sources), m.dim)
	}
}

func addPairs(dst []float32, m *Matrix, sources, targets []int32, c []float32) {
	switch {
	case active == plain:
		addPairsGo(dst, m, sources, targets, c)
	case active == avx512 && m.half:
		addPairsHalfAVX512(p32(dst), p16(m.f16), 2*m.stride, pInt(sources), pInt(targets), p32(c), len(sources), m.dim)
	case active == avx512:
		addPairsAVX512(p32(dst), p32(m.f32), 4*m.stride, pInt(sources), pInt(targets), p32(c), len(sources), m.dim)
	case m.half:
		addPairsHalfAVX2(p32(dst), p16(m.f16), 2*m.stride, pInt(sources), pInt(targets), p32(c), len(sources), m.dim)
	default:
		addPairsAVX2(p32(dst), p32(m.f32), 4*m.stride, pInt(sources), pInt(targets), p32(c), len(sources), m.dim)
	}
}

func tile(c []float32, cStride int, a []float32, aStride int, panel []float32, k int, ahead []float32,
	accumulate bool) {
	switch active {
	case avx512:
		tileAVX512(p32(c), 4*cStride, p32(a), 4*aStride, p32(panel), k, p32(ahead), accumulate)
	case avx2:
		tileAVX2(p32(c), 4*cStride, p32(a), 4*aStride, p32(panel), k, p32(ahead), accumulate)
	default:
		tileGo(c, cStride, a, aStride, panel, k, accumulate)
	}
}

func transpose(dst, src []float32, stride, k int) {
	switch active {
	case avx512:
		transposeAVX512(p32(dst), p32(src), 4*stride, k)
	case avx2:
		transposeAVX2(p32(dst), p32(src), 4*stride, k)
	default:
		transposeGo(dst, src, stride, k, plainTileColumns)
	}
}

func above(z []float32, threshold float32) int {
	switch active {
	case avx512:
		return aboveAVX512(p32(z), len(z), threshold)
	case avx2:
		return aboveAVX2(p32(z), len(z), threshold)
	}
	return aboveGo(z, threshold)
}

func countAbove(z []float32, threshold float32) int {
	switch active {
	case avx512:
		return countAboveAVX512(p32(z), len(z), threshold)
	case avx2:
		return countAboveAVX2(p32(z), len(z), threshold)
	}
	return countAboveGo(z, threshold)
}

func shift(z []float32, by float32) {
	switch active {
	case avx512:
		shiftAVX512(p32(z), len(z), by)
	case avx2:
		shiftAVX2(p32(z), len(z), by)
	default:
		shiftGo(z, by)
	}
}

func columnsAbove(z []float32, stride, from, rows int, thresholds []float32) int {
	switch active {
	case avx512:
		return columnsAboveAVX512(p32(z), 4*stride, from, rows, p32(thresholds), len(thresholds))
	case avx2:
		return columnsAboveAVX2(p32(z), 4*stride, from, rows, p32(thresholds), len(thresholds))
	}
	return columnsAboveGo(z, stride, from, rows, thresholds)
}

// The AVX-512 kernel of codes needs VNNI, which the first such processors lack.
func dotCodes(high, low []int32, q, rest []int8, base []uint8, stride int) {
	at, with, also := unsafe.SliceData(base), unsafe.SliceData(q), unsafe.SliceData(rest)
	switch {
	case active == plain:
		dotCodesGo(high, low, q, rest, base, stride)
	case active == avx512 && cpu.X86.HasAVX512VNNI:
		dotCodesAVX512(pInt(high), pInt(low), with, also, at, stride, len(high))
	default:
		dotCodesAVX2(pInt(high), pInt(low), with, also, at, stride, len(high))
	}
}

func dotCodesAt(sums []int32, q []int8, base []uint8, stride int, rows []int32, ahead []uint8) {
	at, with := unsafe.SliceData(base), unsafe.SliceData(q)
	switch {
	case active == plain:
		dotCodesAtGo(sums, q, base, stride, rows)
	case active == avx512 && cpu.X86.HasAVX512VNNI:
		dotCodesAtAVX512(pInt(sums), with, at, stride, pInt(rows), len(rows), unsafe.SliceData(ahead))
	default:
		dotCodesAtAVX2(pInt(sums), with, at, stride, pInt(rows), len(rows), unsafe.SliceData(ahead))
	}
}

// codeBlocks reports whether block products of codes are faster than those of float32 numbers.
func codeBlocks() bool { return active == avx512 && cpu.X86.HasAVX512VNNI }

func tileCodes(c []int32, cStride int, a []uint8, aStride int, panel []int8) {
	if active != avx512 || !cpu.X86.HasAVX512VNNI {
		tileCodesGo(c, cStride, a, aStride, panel)
		return
	}
	tileCodesAVX512(pInt(c), 4*cStride, unsafe.SliceData(a), aStride, unsafe.SliceData(panel), aStride/4)
}

func reachCodes(masks []uint16, r *codeReach) {
	if active != avx512 {
		reachCodesGo(masks, r)
		return
	}
	c := r.codes
	reachCodesAVX512(p16(masks), pInt(r.sums), len(r.terms)/termCount, r.rows, p32(c.scales[r.from:]),
		p32(c.rests[r.from:]), p32(c.norms[r.from:]), p32(r.values), p16(r.fields), p32(r.terms), p32(r.offsets))
}

func scaleCodes(dst []float32, high, low []int32, scales []float32, q *coded) {
	switch active {
	case avx512:
		scaleCodesAVX512(p32(dst), pInt(high), pInt(low), p32(scales), len(dst), q.step, q.highZero,
			q.lowZero)
	case avx2:
		scaleCodesAVX2(p32(dst), pInt(high), pInt(low), p32(scales), len(dst), q.step, q.highZero,
			q.lowZero)
	default:
		scaleCodesGo(dst, high, low, scales, q)
	}
}

func fromHalf(dst []float32, src []uint16) {
	switch active {
	case avx512:
		fromHalfAVX512(p32(dst), p16(src), len(src))
	case avx2:
		fromHalfAVX2(p32(dst), p16(src), len(src))
	default:
		fromHalfGo(dst, src)
	}
}

func sigmoid(dst, z []float32) {
	switch active {
	case avx512:
		sigmoidAVX512(p32(dst), p32(z), len(z))
	case avx2:
		sigmoidAVX2(p32(dst), p32(z), len(z))
	default:
		sigmoidGo(dst, z)
	}
}

func logSigmoid(dst, z []float32) {
	switch active {
	case avx512:
		logSigmoidAVX512(p32(dst), p32(z), len(z))
	case avx2:
		logSigmoidAVX2(p32(dst), p32(z), len(z))
	default:
		logSigmoidGo(dst, z)
	}
}

func sigmoidSoftplus(y, loss, z []float32) {
	switch active {
	case avx512:
		sigmoidSoftplusAVX512(p32(y), p32(loss), p32(z), len(z))
	case avx2:
		sigmoidSoftplusAVX2(p32(y), p32(loss), p32(z), len(z))
	default:
		sigmoidSoftplusGo(y, loss, z)
	}
}

func teaching(y, w, z []float32) {
	switch active {
	case avx512:
		teachingAVX512(p32(y), p32(w), p32(z), len(z))
	case avx2:
		teachingAVX2(p32(y), p32(w), p32(z), len(z))
	default:
		teachingGo(y, w, z)
	}
}

func blockSums(sums [][2]float64, x, y []float32) {
	switch active {
	case avx512:
		blockSumsAVX512(unsafe.SliceData(sums), p32(x), p32(y), len(sums))
	case avx2:
		blockSumsAVX2(unsafe.SliceData(sums), p32(x), p32(y), len(sums))
	default:
		blockSumsGo(sums, x, y)
	}
}

func lossSumsEach(sums *[6]float64, z, s []float32, of eachRule) {
	switch active {
	case avx512:
		lossSumsEachAVX512(sums, p32(z), p32(s), len(z), of.own, of.slope, of.ceiling)
	case avx2:
		lossSumsEachAVX2(sums, p32(z), p32(s), len(z), of.own, of.slope, of.ceiling)
	default:
		lossSumsEachGo(sums, z, s, of)
	}
}

func lossSumsEachBoth(sums *[6]float64, z, s, t []float32, of eachRule) {
	switch active {
	case avx512:
		lossSumsEachBothAVX512(sums, p32(z), p32(s), p32(t), len(z), of.own, of.other, of.slope, of.ceiling)
	case avx2:
		lossSumsEachBothAVX2(sums, p32(z), p32(s), p32(t), len(z), of.own, of.other, of.slope, of.ceiling)
	default:
		lossSumsEachBothGo(sums, z, s, t, of)
	}
}

func lossSumsBoth(sums *[6]float64, z []float32, there, back propensity) {
	switch active {
	case avx512:
		lossSumsBothAVX512(sums, p32(z), len(z), there.pi, there.rest, back.pi, back.rest)
	case avx2:
		lossSumsBothAVX2(sums, p32(z), len(z), there.pi, there.rest, back.pi, back.rest)
	default:
		lossSumsBothGo(sums, z, there, back)
	}
}

func lossSums(sums *[6]float64, z []float32, pi, rest float32) {
	switch active {
	case avx512:
		lossSumsAVX512(sums, p32(z), len(z), pi, rest)
	case avx2:
		lossSumsAVX2(sums, p32(z), len(z), pi, rest)
	default:
		lossSumsGo(sums, z, pi, rest)
	}
}

func pairSlopes(p *PairValues, count int, lambda float32) {
	switch active {
	case avx512:
		pairSlopesAVX512(p32(p.DZ), p32(p.DS), p32(p.ZZ), p32(p.ZS), p32(p.SS), p32(p.Chance), p32(p.Z), p32(p.S),
			p32(p.Sign), p32(p.Rate), p32(p.Weight), count, lambda)
	case avx2:
		pairSlopesAVX2(p32(p.DZ), p32(p.DS), p32(p.ZZ), p32(p.ZS), p32(p.SS), p32(p.Chance), p32(p.Z), p32(p.S),
			p32(p.Sign), p32(p.Rate), p32(p.Weight), count, lambda)
	default:
		pairSlopesGo(p, count, lambda)
	}
}

func adam(params, first, second, grad []float32, a adamStep) {
	switch active {
	case avx512:
		adamAVX512(p32(params), p32(first), p32(second), p32(grad), len(grad), a.blend1, a.blend2, a.step, a.root,
			a.epsilon)
	case avx2:
		adamAVX2(p32(params), p32(first), p32(second), p32(grad), len(grad), a.blend1, a.blend2, a.step, a.root,
			a.epsilon)
	default:
		adamGo(params, first, second, grad, a)
	}
}
