package kern

import "math"

// The plain-Go twins: what every other variant must agree with, and what runs where there is no
// assembly. Rows are added up in float32 like the assembly does, in four interleaved sums.

const (
	plainTileRows    = 4
	plainTileColumns = 4
)

// rowInto returns row i as float32, in place or, for float16, in scratch.
func (m *Matrix) rowInto(scratch []float32, i int) []float32 {
	if !m.half {
		return m.f32[i*m.stride:][:m.dim]
	}
	fromHalfGo(scratch, m.f16[i*m.stride:][:m.dim])
	return scratch
}

// scratch returns room for a row of a float16 matrix; a float32 one needs none.
func (m *Matrix) scratch() []float32 {
	if !m.half {
		return nil
	}
	return make([]float32, m.dim)
}

func dotGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	d := 0
	for ; d+4 <= len(a); d += 4 {
		s0 += a[d] * b[d]
		s1 += a[d+1] * b[d+1]
		s2 += a[d+2] * b[d+2]
		s3 += a[d+3] * b[d+3]
	}
	for ; d < len(a); d++ {
		s0 += a[d] * b[d]
	}
	return (s0 + s2) + (s1 + s3)
}

func dotGatherGo(dst, q []float32, m *Matrix, idx []int32) {
	scratch := m.scratch()
	for k, i := range idx {
		dst[k] = dotGo(m.rowInto(scratch, int(i)), q)
	}
}

func dotScanGo(dst, q []float32, m *Matrix, from int) {
	scratch := m.scratch()
	for k := range dst {
		dst[k] = dotGo(m.rowInto(scratch, from+k), q)
	}
}

func addGatherGo(dst []float32, m *Matrix, idx []int32, c []float32) {
	scratch := m.scratch()
	for k, i := range idx {
		f := c[k]
		for d, h := range m.rowInto(scratch, int(i)) {
			dst[d] += f * h
		}
	}
}

func gramGo(h []float32, order int, m *Matrix, idx []int32, c []float32) {
	for k, i := range idx {
		row := m.f32[int(i)*m.stride:][:m.dim]
		for a, x := range row {
			x *= c[k]
			out := h[a*order:][:a+1]
			for b := range out {
				out[b] += x * row[b]
			}
		}
	}
}

func dotPairsGo(dst, w []float32, m *Matrix, sources, targets []int32) {
	scratch, other := m.scratch(), m.scratch()
	for k := range sources {
		a, b := m.rowInto(scratch, int(sources[k])), m.rowInto(other, int(targets[k]))
		b = b[:len(a)]
		var s0, s1 float32
		d := 0
		for ; d+2 <= len(a); d += 2 {
			s0 += w[d] * a[d] * b[d]
			s1 += w[d+1] * a[d+1] * b[d+1]
		}
		if d < len(a) {
			s0 += w[d] * a[d] * b[d]
		}
		dst[k] = s0 + s1
	}
}

func addPairsGo(dst []float32, m *Matrix, sources, targets []int32, c []float32) {
	scratch, other := m.scratch(), m.scratch()
	for k, f := range c[:len(sources)] {
		a, b := m.rowInto(scratch, int(sources[k])), m.rowInto(other, int(targets[k]))
		b = b[:len(a)]
		for d, h := range a {
			dst[d] += f * h * b[d]
		}
	}
}

func tileGo(c []float32, cStride int, a []float32, aStride int, panel []float32, k int, accumulate bool) {
	for r := range plainTileRows {
		row := a[r*aStride:][:k]
		out := c[r*cStride:][:plainTileColumns]
		var s0, s1, s2, s3 float32
		if accumulate {
			s0, s1, s2, s3 = out[0], out[1], out[2], out[3]
		}
		for i, x := range row {
			b := panel[i*plainTileColumns:][:plainTileColumns]
			s0 += x * b[0]
			s1 += x * b[1]
			s2 += x * b[2]
			s3 += x * b[3]
		}
		out[0], out[1], out[2], out[3] = s0, s1, s2, s3
	}
}

func transposeGo(dst, src []float32, stride, k, rows int) {
	for r := range rows {
		row := src[r*stride:][:k]
		for i, x := range row {
			dst[i*rows+r] = x
		}
	}
}

func aboveGo(z []float32, threshold float32) int {
	for i, x := range z {
		if x > threshold {
			return i
		}
	}
	return len(z)
}

func columnsAboveGo(z []float32, stride, from, rows int, thresholds []float32) int {
	for row := from; row < rows; row++ {
		for c, x := range z[row*stride:][:len(thresholds)] {
			if x > thresholds[c] {
				return row
			}
		}
	}
	return rows
}

func fromHalfGo(dst []float32, src []uint16) {
	for i, h := range src {
		dst[i] = halfToFloat(h)
	}
}

// sigmoid64 is σ without cancellation at either end.
func sigmoid64(z float64) float64 {
	e := math.Exp(-math.Abs(z))
	if z >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}

func softplus64(z float64) float64 { return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }

func sigmoidGo(dst, z []float32) {
	for i, x := range z {
		dst[i] = float32(sigmoid64(float64(x)))
	}
}

func logSigmoidGo(dst, z []float32) {
	for i, x := range z {
		dst[i] = float32(-softplus64(-float64(x)))
	}
}

func teachingGo(y, w, z []float32) {
	sigmoidGo(y, z)
	weighGo(y, w, z)
}

// weighGo sets w of y = σ(z), and what y is at least; see Teaching.
func weighGo(y, w, z []float32) {
	const least, rarest = 1e-18, 1e-37
	for i, x := range z {
		if !(y[i] > rarest) { // not a number, too
			y[i], w[i] = rarest, least
			continue
		}
		w[i] = least
		if root := float32(math.Sqrt(float64(y[i] * (1 - y[i]) * (1 + x*x)))); root > least {
			w[i] = root
		}
	}
}

func blockSumsGo(sums [][2]float64, x, y []float32) {
	for b := range sums {
		var plain, product float64
		from, to := b*SumBlock, min((b+1)*SumBlock, len(x))
		for i, v := range x[from:to] {
			plain += float64(v)
			product += float64(v) * float64(y[from+i])
		}
		sums[b] = [2]float64{plain, product}
	}
}

func sigmoidSoftplusGo(y, loss, z []float32) {
	for i, x := range z {
		y[i], loss[i] = float32(sigmoid64(float64(x))), float32(softplus64(float64(x)))
	}
}

func lossSumsGo(sums *[6]float64, z []float32, pi, rest float32) {
	for _, x := range z {
		addLossGo(sums, float64(x), float64(pi), float64(rest), float64(rest))
	}
}

func lossSumsEachGo(sums *[6]float64, z, s []float32, of eachRule) {
	for i, x := range z {
		addExposedGo(sums, float64(x), exposureGo(x, s[i]+of.own, of.slope, mostExposure), of.ceiling)
	}
}

func lossSumsEachBothGo(sums *[6]float64, z, s, t []float32, of eachRule) {
	for i, x := range z {
		var one [6]float64
		addExposedGo(&one, float64(x), exposureGo(x, t[i]+of.other, of.slope, mostExposureBoth), of.ceiling)
		addExposedGo(sums, float64(x), exposureGo(x, s[i]+of.own, of.slope, mostExposureBoth), of.ceiling)
		addBackGo(sums, one)
		sums[5] += one[5]
	}
}

// exposureGo is the logit of exposure of a pair, up to the largest that counts.
func exposureGo(z, own, slope float32, most float64) float64 {
	limit := func(x, most float64) float64 { return math.Max(-most, math.Min(most, x)) }
	s := float32(float64(own) + float64(slope)*limit(float64(z), math.MaxFloat32)) // as one instruction rounds it
	return limit(float64(s), most)
}

// addExposedGo adds one pair, given the logit of its exposure.
func addExposedGo(sums *[6]float64, z, exposure float64, ceiling float32) {
	pi, rest := Sigmoid64(exposure)
	addLossGo(sums, z, pi, rest, math.Min(rest, float64(ceiling)))
	if z > Without {
		sums[5] += pi
	}
}

func lossSumsBothGo(sums *[6]float64, z []float32, there, back propensity) {
	for _, x := range z {
		var one [6]float64
		addLossGo(&one, float64(x), float64(back.pi), float64(back.rest), float64(back.rest))
		addLossGo(sums, float64(x), float64(there.pi), float64(there.rest), float64(there.rest))
		addBackGo(sums, one)
	}
}

// addBackGo adds what the other direction of a pair has of its own.
func addBackGo(sums *[6]float64, back [6]float64) {
	for _, k := range []int{1, 2, 3} { // the others are the same in both directions
		sums[k] += back[k]
	}
}

// addLossGo adds one pair. kept is what ψ and τ take 1−π for.
func addLossGo(sums *[6]float64, z, pi, rest, kept float64) {
	z = math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, z))
	y, u := Sigmoid64(z)
	q, loss := u+y*kept, softplus64(z)
	sums[0] += loss
	sums[1] += u / q * loss
	sums[2] += y * kept / q * softplus64(-z)
	sums[3] += math.Log1p(pi * y / (u + y*rest))
	sums[4] += y
}

func pairSlopesGo(p *PairValues, count int, lambda float32) {
	clamp := func(x float32) float64 { return math.Max(-86, math.Min(86, float64(x))) }
	for k := range count {
		y, u := Sigmoid64(clamp(p.Z[k]))
		pi, rest := Sigmoid64(clamp(p.S[k]))
		q := u + y*rest
		seen, missing := max(pi*y, 1e-35), float64(p.Rate[k])*q
		linked, unlinked := seen/(seen+missing), missing/(seen+missing)
		psi, hide, weight := u/q, rest/q, float64(lambda)*float64(p.Weight[k])
		off, chance := linked, unlinked
		if p.Sign[k] < 0 {
			off, chance = -unlinked, linked
		}
		v := weight * linked * unlinked
		p.DZ[k], p.DS[k], p.Chance[k] = float32(weight*off*psi), float32(weight*off*hide), float32(chance)
		p.ZZ[k], p.ZS[k], p.SS[k] = float32(v*psi*psi), float32(v*psi*hide), float32(v*hide*hide)
	}
}

func adamGo(params, first, second, grad []float32, a adamStep) {
	for i, g := range grad {
		first[i] += a.blend1 * (g - first[i])
		second[i] += a.blend2 * (g*g - second[i])
		params[i] -= a.step * (first[i] / (float32(math.Sqrt(float64(second[i])))*a.root + a.epsilon))
	}
}
