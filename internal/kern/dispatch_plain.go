//go:build !(amd64 || arm64) || noasm

package kern

func variants() []variant { return []variant{plain} }

func lanes() int            { return 1 }
func tileShape() (int, int) { return plainTileRows, plainTileColumns }

func dotGather(dst, q []float32, m *Matrix, idx []int32)           { dotGatherGo(dst, q, m, idx) }
func dotScan(dst, q []float32, m *Matrix, from int)                { dotScanGo(dst, q, m, from) }
func addGather(dst []float32, m *Matrix, idx []int32, c []float32) { addGatherGo(dst, m, idx, c) }

func gram(h []float32, order int, m *Matrix, idx []int32, c []float32) { gramGo(h, order, m, idx, c) }

func dotPairs(dst, w []float32, m *Matrix, sources, targets []int32) {
	dotPairsGo(dst, w, m, sources, targets)
}

func addPairs(dst []float32, m *Matrix, sources, targets []int32, c []float32) {
	addPairsGo(dst, m, sources, targets, c)
}

func tile(c []float32, cStride int, a []float32, aStride int, panel []float32, k int, _ []float32, accumulate bool) {
	tileGo(c, cStride, a, aStride, panel, k, accumulate)
}

func transpose(dst, src []float32, stride, k int) { transposeGo(dst, src, stride, k, plainTileColumns) }

func above(z []float32, threshold float32) int { return aboveGo(z, threshold) }

func countAbove(z []float32, threshold float32) int { return countAboveGo(z, threshold) }

func shift(z []float32, by float32) { shiftGo(z, by) }

func columnsAbove(z []float32, stride, from, rows int, thresholds []float32) int {
	return columnsAboveGo(z, stride, from, rows, thresholds)
}

func dotCodes(high, low []int32, q, rest []int8, base []uint8, stride int) {
	dotCodesGo(high, low, q, rest, base, stride)
}

func codeBlocks() bool { return false }

func dotCodesAt(sums []int32, q []int8, base []uint8, stride int, rows []int32, _ []uint8) {
	dotCodesAtGo(sums, q, base, stride, rows)
}

func tileCodes(c []int32, cStride int, a []uint8, aStride int, panel []int8) {
	tileCodesGo(c, cStride, a, aStride, panel)
}

func reachCodes(masks []uint16, r *codeReach) { reachCodesGo(masks, r) }

func scaleCodes(dst []float32, high, low []int32, scales []float32, q *coded) {
	scaleCodesGo(dst, high, low, scales, q)
}

func fromHalf(dst []float32, src []uint16)                     { fromHalfGo(dst, src) }
func sigmoid(dst, z []float32)                                 { sigmoidGo(dst, z) }
func logSigmoid(dst, z []float32)                              { logSigmoidGo(dst, z) }
func sigmoidSoftplus(y, loss, z []float32)                     { sigmoidSoftplusGo(y, loss, z) }
func teaching(y, w, z []float32)                               { teachingGo(y, w, z) }
func blockSums(sums [][2]float64, x, y []float32)              { blockSumsGo(sums, x, y) }
func lossSums(sums *[6]float64, z []float32, pi, rest float32) { lossSumsGo(sums, z, pi, rest) }

func lossSumsEach(sums *[6]float64, z, s []float32, of eachRule) { lossSumsEachGo(sums, z, s, of) }

func lossSumsEachBoth(sums *[6]float64, z, s, t []float32, of eachRule) {
	lossSumsEachBothGo(sums, z, s, t, of)
}

func lossSumsBoth(sums *[6]float64, z []float32, there, back propensity) {
	lossSumsBothGo(sums, z, there, back)
}

func adam(params, first, second, grad []float32, a adamStep) { adamGo(params, first, second, grad, a) }

func pairSlopes(p *PairValues, count int, lambda float32) { pairSlopesGo(p, count, lambda) }
