package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/risk"
)

// laplace is the posterior of the diagonal link model and the field matrix given a sample of
// pairs, as Laplace's method sees it: a mode, and a normal distribution around it.
//
// The parameters are θ = (w, b, s): d weights, the intercept, one propensity logit for every
// field pair that occurs. With p = π̂ŷ, q = 1−p, P = p/(p + r·q) and the pair's own
// g = (ψ·(x, 1); ((1−π̂)/q)·e_c), the likelihood has gradient Σ(P−o)·g and Fisher information
// Σ P(1−P)·g gᵀ, whose s-block is diagonal.
type laplace struct {
	x        *kern.Matrix // h_i⊙h_j and a 1, a row per pair
	cell     []int32      // the pair's field pair, numbered as they occur
	linked   []bool
	rate     []float64 // 1 unless the likelihood is case-control
	exposure []risk.Exposure
	d, cells int
	threads  int
	prior    prior

	group []uint8 // of each cell: 0 same field, 1 cross field

	leverage []float32 // xᵀVx: the variance of each pair's logit; nil takes w as certain
	spread   []spread  // the same for Gauss and Hermite's points

	draws int    // how many stand for V where there are too many dimensions for a matrix over them, or 0
	seed  uint64 // of the draws

	fixed bool // the propensities are known: s stays where it is

	// unit is what products of vectors are divided by, so that their squared length is d on average
	// and w is of the size of 1 whatever the vectors' length; weights undoes it.
	unit float64
}

// prior is what is believed of θ before the data: w ~ N(0, 1/Alpha), b flat, and within a group
// of field pairs s = μ + δ, μ ~ N(Centre, Spread²), δ ~ N(0, Tau²).
type prior struct {
	Alpha          float64
	Tau            [2]float64 // standard deviations
	Centre, Spread [2]float64
}

var defaultPrior = prior{Alpha: 1, Tau: [2]float64{.5, .5}, Spread: [2]float64{1.5, 1.5}}

// lots is the number of partial sums that are kept apart, so that the result does not depend on
// the number of threads.
const lots = 8

func newLaplace(rows *kern.Matrix, p *graph.Pairs, cell []int32, cells int, group []uint8, sampling engine.Likelihood,
	exposure []risk.Exposure, threads int) (*laplace, error) {
	d := rows.Dim()
	x, err := kern.NewMatrix(p.Len(), d+1)
	if err != nil {
		return nil, fmt.Errorf("fit: the products of %d pairs: %w; use fewer pairs, or method mle", p.Len(), err)
	}
	l := &laplace{x: x, cell: cell, linked: p.Linked, exposure: exposure, d: d, cells: cells,
		threads: kern.Threads(threads), prior: defaultPrior, group: group}
	l.rate = make([]float64, p.Len())
	for k := range l.rate {
		l.rate[k] = 1
		if sampling == engine.CaseControl {
			l.rate[k] = p.Rate[k]
		}
	}
	squares := make([]float64, (p.Len()+1023)/1024)
	kern.Chunks(p.Len(), 1024, l.threads, func(_, chunk, from, to int) {
		a, b := make([]float32, d), make([]float32, d)
		for k := from; k < to; k++ {
			rows.Load(a, int(p.Source[k]))
			rows.Load(b, int(p.Target[k]))
			out := x.Row(k)
			var square float32
			for i := range a {
				out[i] = a[i] * b[i]
				square += out[i] * out[i]
			}
			out[d] = 1
			squares[chunk] += float64(square)
		}
	})
	var sum float64
	for _, s := range squares {
		sum += s
	}
	if sum > 0 {
		l.unit = math.Sqrt(sum / float64(p.Len()) / float64(d))
	} else {
		l.unit = 1
	}
	inverse := float32(1 / l.unit)
	kern.Chunks(p.Len(), 1024, l.threads, func(_, _, from, to int) {
		for k := from; k < to; k++ {
			row := x.Row(k)[:d]
			for i := range row {
				row[i] *= inverse
			}
		}
	})
	l.prior.Alpha = float64(d) / 16
	return l, nil
}

// size is the number of parameters.
func (l *laplace) size() int { return l.d + 1 + l.cells }

// contribution is what one pair contributes, given its logits.
type contribution struct {
	loss       float64 // of pairs whose exposure is logged; of the others it is tallied
	dz, ds     float64 // slopes
	zz, zs, ss float64 // Fisher information
}

// cellTable holds σ(s) and σ(−s) of every cell.
type cellTable struct{ pi, rest []float64 }

func (l *laplace) table(theta []float64) cellTable {
	t := cellTable{make([]float64, l.cells), make([]float64, l.cells)}
	for c := range l.cells {
		pi, rest := kern.Sigmoid64(theta[l.d+1+c])
		t.pi[c], t.rest[c] = math.Max(pi, 1e-300), math.Max(rest, 1e-300)
	}
	return t
}

// hermite is Gauss and Hermite's rule with seven points for a standard normal: the point 0, and
// three points on either side of it.
var (
	hermiteAt     = [3]float64{1.154405394739968, 2.366759410734541, 3.7504397177257425}
	hermiteWeight = [3]float64{.24012317860501271, 3.0757123967586497e-2, 5.4826885597221792e-4}
)

const hermiteCentre = .45714285714285714

// spread is e^(sd·at) for the three points of a pair: fixed while the leverage is, so that a pair
// costs one exponential however often its likelihood is averaged.
type spread [3]float64

// tally adds up Σ weight·log x over many pairs, for the weights of the points, by products: most x
// are near 1, so that hundreds of pairs share a logarithm. A product is off by half an ulp for each
// factor, as a sum of logarithms would be.
type tally struct {
	loss     float64
	weights  [4]float64 // of the logit itself, and of either side's three points
	products [4]float64
}

func (l *laplace) tally() tally {
	return tally{weights: [4]float64{l.centreWeight(), hermiteWeight[0], hermiteWeight[1], hermiteWeight[2]},
		products: [4]float64{1, 1, 1, 1}}
}

// add adds weights[i]·log x, for an x of at least 1, but for its rounding.
func (t *tally) add(i int, x float64) {
	if p := t.products[i] * x; p < 1e300 {
		t.products[i] = p
		return
	}
	t.loss += t.weights[i] * (math.Log(t.products[i]) + math.Log(x))
	t.products[i] = 1
}

func (t *tally) total() float64 {
	sum := t.loss
	for i, p := range t.products {
		sum += t.weights[i] * math.Log(p)
	}
	return sum
}

// contribute averages a pair's contribution over what is believed of its logit: a normal
// distribution around z whose variance is the pair's leverage, once that is known. The loss is
// tallied, unless that is nil.
func (l *laplace) contribute(k int, z float64, t cellTable, losses *tally) contribution {
	z = math.Max(-300, math.Min(300, z)) // e^±300 and its neighbours are finite
	at := point{pi: t.pi[l.cell[k]], rest: t.rest[l.cell[k]], rate: l.rate[k], linked: l.linked[k]}
	if l.exposure != nil {
		at.exposure = l.exposure[k]
	}
	e := math.Exp(-z)
	var sum contribution
	if at.exposure != risk.Unlogged {
		add := at.addLogged
		if at.exposure == risk.Offered {
			add = at.addOffered
		}
		add(&sum, e, l.centreWeight())
		if l.spread != nil {
			for i, factor := range l.spread[k] {
				add(&sum, e*factor, hermiteWeight[i])
				add(&sum, e/factor, hermiteWeight[i])
			}
		}
		return sum
	}
	centre := at.add(&sum, e, l.centreWeight())
	if losses != nil {
		losses.add(0, centre)
	}
	if l.spread != nil {
		for i, factor := range l.spread[k] {
			above, below := at.add(&sum, e*factor, hermiteWeight[i]), at.add(&sum, e/factor, hermiteWeight[i])
			if losses != nil {
				losses.add(1+i, above)
				losses.add(1+i, below)
			}
		}
	}
	return sum
}

// centreWeight is the weight of the logit itself among the points that it is averaged over.
func (l *laplace) centreWeight() float64 {
	if l.spread == nil {
		return 1
	}
	return hermiteCentre
}

// point is a pair at which contributions are evaluated.
type point struct {
	pi, rest, rate float64
	linked         bool
	exposure       risk.Exposure
}

// add adds weight times the slopes and the information at the logit z, given as e = e^−z, and
// returns e^loss. With G = e + (1−π) and T = π + r·G everything is a quotient of positive numbers:
// q = G/(1+e), P = π/T, ψ = e/G.
func (p *point) add(sum *contribution, e, weight float64) float64 {
	g := e + p.rest
	t := p.pi + p.rate*g
	inverse, whole := 1/g, 1/t
	linked, unlinked := p.pi*whole, p.rate*g*whole
	psi, hide := e*inverse, p.rest*(1+e)*inverse
	v := weight * linked * unlinked
	sum.zz += v * psi * psi
	sum.zs += v * psi * hide
	sum.ss += v * hide * hide
	if p.linked {
		sum.dz -= weight * unlinked * psi
		sum.ds -= weight * unlinked * hide
		return 1 / linked
	}
	sum.dz += weight * linked * psi
	sum.ds += weight * linked * hide
	return 1 / unlinked
}

// addLogged is add for a pair whose exposure a is logged: −log Ber(a; π) − a·log Ber(o; ŷ). In a
// case-control sample every pair is there with a chance that depends on o, which adds
// log(p + r·q): its slopes are (1−r)·P·(1−ŷ) and (1−r)·P·(1−π). The information is expected over
// the three things that can happen to a sampled pair.
func (p *point) addLogged(sum *contribution, e, weight float64) {
	y := 1 / (1 + e)
	u := e * y
	observed := p.pi * y
	sampled := observed + p.rate*(1-observed)
	share := (1 - p.rate) * observed / sampled
	commonZ, commonS := share*u, share*p.rest
	sum.loss += weight * math.Log(sampled)
	var dz, ds float64
	switch {
	case p.exposure == risk.Unexposed:
		sum.loss -= weight * math.Log(p.rest)
		ds = p.pi
	case p.linked:
		sum.loss += weight * (math.Log(1+e) - math.Log(p.pi))
		dz, ds = -u, -p.rest
	default:
		sum.loss += weight * (math.Log((1+e)/e) - math.Log(p.pi))
		dz, ds = y, -p.rest
	}
	sum.dz += weight * (dz + commonZ)
	sum.ds += weight * (ds + commonS)
	for _, outcome := range [3]struct{ chance, z, s float64 }{
		{p.rate * p.rest, 0, p.pi},
		{p.rate * p.pi * u, y, -p.rest},
		{observed, -u, -p.rest},
	} {
		chance, z, s := weight*outcome.chance/sampled, outcome.z+commonZ, outcome.s+commonS
		sum.zz += chance * z * z
		sum.zs += chance * z * s
		sum.ss += chance * s * s
	}
}

// addOffered is add for a pair that was not linked and was then shown on purpose: −log Ber(o; t), where
//
//	t = P(relevant | not linked) = ŷ(1−π)/(1−πŷ),   logit t = z + log(1−π),
//
// so that ∂z = t − o and ∂s = −π(t − o).
func (p *point) addOffered(sum *contribution, e, weight float64) {
	t := p.rest / (p.rest + e)
	d := t
	if p.linked {
		d = -e / (p.rest + e)
		sum.loss -= weight * math.Log(p.rest/(p.rest+e))
	} else {
		sum.loss -= weight * math.Log(e/(p.rest+e))
	}
	v := weight * t * e / (p.rest + e)
	sum.dz += weight * d
	sum.ds -= weight * p.pi * d
	sum.zz += v
	sum.zs -= v * p.pi
	sum.ss += v * p.pi * p.pi
}

// logits sets z for the pairs from…from+len(z).
func (l *laplace) logits(z []float32, w []float32, from int) { kern.DotRange(z, w, l.x, from) }

// weights returns w and b for the vectors as they are.
func (l *laplace) weights(theta []float64) []float32 {
	w := l.weights32(theta)
	for i := range l.d {
		w[i] = float32(theta[i] / l.unit)
	}
	return w
}

func (l *laplace) weights32(theta []float64) []float32 {
	w := make([]float32, l.d+1)
	for i := range w {
		w[i] = float32(theta[i])
	}
	return w
}

// lot is a fixed share of the pairs.
func (l *laplace) lot(i int) (from, to int) {
	n := l.x.Rows()
	return n * i / lots, n * (i + 1) / lots
}

// value returns −log posterior (up to a constant) and its gradient.
func (l *laplace) value(ctx context.Context, theta, grad []float64) (float64, error) {
	t, w := l.table(theta), l.weights32(theta)
	type partial struct {
		loss float64
		w    []float32
		s    []float64
	}
	var parts [lots]partial
	kern.Chunks(lots, 1, l.threads, func(_, i, _, _ int) {
		if ctx.Err() != nil {
			return
		}
		p := &parts[i]
		p.w, p.s = make([]float32, l.d+1), make([]float64, l.cells)
		from, to := l.lot(i)
		losses := l.tally()
		var z, dz [512]float32
		var idx [512]int32
		for ; from < to; from += len(z) {
			n := min(len(z), to-from)
			l.logits(z[:n], w, from)
			for k := range n {
				c := l.contribute(from+k, float64(z[k]), t, &losses)
				p.loss += c.loss
				dz[k], idx[k] = float32(c.dz), int32(from+k)
				p.s[l.cell[from+k]] += c.ds
			}
			kern.AddRows(p.w, l.x, idx[:n], dz[:n])
		}
		p.loss += losses.total()
	})
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	clear(grad)
	var loss float64
	for i := range parts {
		loss += parts[i].loss
		for k, g := range parts[i].w {
			grad[k] += float64(g)
		}
		for c, g := range parts[i].s {
			grad[l.d+1+c] += g
		}
	}
	total := loss + l.prior.add(l, theta, grad)
	if l.fixed {
		clear(grad[l.d+1:])
	}
	return total, nil
}

// add adds the prior's gradient and returns its value.
func (p *prior) add(l *laplace, theta, grad []float64) float64 {
	var sum float64
	for i, w := range theta[:l.d] {
		sum += p.Alpha * w * w / 2
		grad[i] += p.Alpha * w
	}
	var centred, count [2]float64
	s := theta[l.d+1:]
	for c, g := range l.group {
		centred[g] += s[c] - p.Centre[g]
		count[g]++
	}
	for c, g := range l.group {
		tau, spread := p.Tau[g]*p.Tau[g], p.Spread[g]*p.Spread[g]
		d := s[c] - p.Centre[g]
		q := (d - centred[g]*spread/(tau+count[g]*spread)) / tau // row of Q(s−m)
		sum += d * q / 2
		grad[l.d+1+c] += q
	}
	return sum
}

// information is the Fisher information plus the prior's precision, factored: L Lᵀ.
type information struct {
	n      int
	d      int
	factor blas64.Triangular
	draws  *draws // instead of the factor where that would be too large

	once       sync.Once
	covariance []float64 // of s, once it has been asked for
}

// fisher returns the factored information at θ.
func (l *laplace) fisher(ctx context.Context, theta []float64) (*information, error) {
	if l.draws > 0 {
		return l.sketch(ctx, theta)
	}
	t, w := l.table(theta), l.weights32(theta)
	width := l.d + 1
	type partial struct {
		a *kern.Matrix // Σ zz·x xᵀ
		b *kern.Matrix // row per cell: Σ zs·x
		s []float64    // Σ ss

		// The intercept's own part, in float64: where all logits are alike it is as good as a sum of
		// the cells', and rounding would leave no positive definite matrix.
		one  float64   // Σ zz
		ones []float64 // Σ zs
	}
	parts := make([]partial, lots)
	failed := make([]error, lots)
	kern.Chunks(lots, 1, l.threads, func(_, i, _, _ int) {
		if ctx.Err() != nil {
			return
		}
		p := &parts[i]
		// rows a power of two apart would fall on one another in the cache
		turned, err1 := kern.NewMatrix(width, 512+32)
		var err2, err3 error
		p.a, err2 = kern.NewMatrix(width, width)
		p.b, err3 = kern.NewMatrix(l.cells, width)
		if failed[i] = cmp.Or(err1, err2, err3); failed[i] != nil {
			return
		}
		defer turned.Close()
		p.s, p.ones = make([]float64, l.cells), make([]float64, l.cells)
		from, to := l.lot(i)
		var z, zz [512]float32
		for ; from < to; from += len(z) {
			n := min(len(z), to-from)
			l.logits(z[:n], w, from)
			for k := range n {
				c := l.contribute(from+k, float64(z[k]), t, nil)
				cell := l.cell[from+k]
				p.s[cell] += c.ss
				p.one += c.zz
				zz[k] = float32(c.zz)
				if c.zs != 0 && !l.fixed {
					p.ones[cell] += c.zs
					kern.AddRows(p.b.Row(int(cell)), l.x, []int32{int32(from + k)}, []float32{float32(c.zs)})
				}
			}
			rows, err1 := l.x.Slice(from, from+n)
			columns, err2 := turned.First(n)
			if failed[i] = cmp.Or(err1, err2); failed[i] != nil {
				return
			}
			kern.Transpose(columns, rows)
			for j := range width {
				row := columns.Row(j)
				for k, v := range zz[:len(row)] {
					row[k] *= v
				}
			}
			kern.AddLower(p.a, columns, rows)
		}
	})
	for _, err := range append(failed, ctx.Err()) {
		if err != nil {
			return nil, err
		}
	}
	n := l.size()
	full := blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Lower}
	for _, p := range parts {
		for i := range width {
			out := full.Data[i*n:]
			for j, x := range p.a.Row(i)[:min(i+1, l.d)] {
				out[j] += float64(x)
			}
		}
		full.Data[l.d*n+l.d] += p.one
		for c := range l.cells {
			out := full.Data[(width+c)*n:]
			for j, x := range p.b.Row(c)[:l.d] {
				out[j] += float64(x)
			}
			out[l.d] += p.ones[c]
			out[width+c] += p.s[c]
		}
		p.a.Close()
		p.b.Close()
	}
	l.prior.precision(l, full)
	factor, ok := lapack64.Potrf(full)
	if !ok {
		return nil, fmt.Errorf("%w: the information matrix is not positive definite; the vectors may hold huge "+
			"or missing numbers", ErrDiverged)
	}
	return &information{n: n, d: l.d, factor: factor}, nil
}

// precision adds the prior's precision to the lower triangle.
func (p *prior) precision(l *laplace, full blas64.Symmetric) {
	n := full.N
	for i := range l.d {
		full.Data[i*n+i] += p.Alpha
	}
	full.Data[l.d*n+l.d] += 1e-8 // b's prior is flat but for this
	var count [2]float64
	for _, g := range l.group {
		count[g]++
	}
	at := l.d + 1
	for c, g := range l.group {
		tau, spread := p.Tau[g]*p.Tau[g], p.Spread[g]*p.Spread[g]
		full.Data[(at+c)*n+at+c] += 1 / tau
		shared := spread / (tau + count[g]*spread) / tau
		for e, h := range l.group[:c+1] {
			if h == g {
				full.Data[(at+c)*n+at+e] -= shared
			}
		}
	}
}

// eachBand cuts 0…n into bands, so that work on a triangle can leave out most of what is not in it.
func eachBand(n int, f func(from, to int) error) error {
	const bands = 8
	for b := range bands {
		if from, to := n*b/bands, n*(b+1)/bands; from < to {
			if err := f(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// band returns some rows and the first columns of a matrix.
func band(m *kern.Matrix, from, to, columns int) (*kern.Matrix, error) {
	rows, err := m.Slice(from, to)
	if err != nil {
		return nil, err
	}
	return rows.First(columns)
}

// solve replaces x by the inverse information times x, or by something near it where there are draws.
func (f *information) solve(x []float64) {
	if f.draws != nil {
		f.draws.precondition(x, x, false)
		return
	}
	v := blas64.Vector{N: f.n, Inc: 1, Data: x}
	blas64.Trsv(blas.NoTrans, f.factor, v)
	blas64.Trsv(blas.Trans, f.factor, v)
}

// weightFactor returns U = L⁻¹ of the (w, b) block, so that UᵀU is the covariance of (w, b) given s.
func (f *information) weightFactor() blas64.Triangular {
	return f.invert(0, f.d+1)
}

// trace returns tr V_ww.
func (f *information) trace() float64 {
	if f.draws != nil {
		return f.draws.trace
	}
	return traceOf(f.weightFactor(), f.d)
}

// cellCovariance returns the covariance of s, row by row, which is not to be changed.
func (f *information) cellCovariance() (v []float64, n int) {
	f.once.Do(func() { f.covariance = f.covarianceOfCells() })
	return f.covariance, f.n - f.d - 1
}

func (f *information) covarianceOfCells() []float64 {
	n := f.n - f.d - 1
	if f.draws != nil {
		return f.draws.cellCovariance(n)
	}
	u := f.invert(f.d+1, n)
	v := make([]float64, n*n)
	for i := range n { // V = UᵀU
		row := u.Data[i*n : i*n+i+1]
		for a, x := range row {
			for b, y := range row[:a+1] {
				v[a*n+b] += x * y
			}
		}
	}
	for a := range n {
		for b := range a {
			v[b*n+a] = v[a*n+b]
		}
	}
	return v
}

// invert returns the inverse of a diagonal block of the factor.
func (f *information) invert(at, n int) blas64.Triangular {
	data := make([]float64, n*n)
	for i := range n {
		copy(data[i*n:i*n+i+1], f.factor.Data[(at+i)*f.factor.Stride+at:])
	}
	u := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: n, Data: data}
	lapack64.Trtri(u)
	return u
}

// setLeverage finds the variance of every pair's logit under the covariance of (w, b) given s, and
// returns the trace of w's.
func (l *laplace) setLeverage(info *information) (trace float64, err error) {
	if info.draws != nil {
		leverage, err := info.draws.leverage(l)
		if err != nil {
			return 0, err
		}
		l.setSpread(leverage)
		return info.draws.trace, nil
	}
	u := info.weightFactor()
	return traceOf(u, l.d), l.setLeverageBy(u)
}

// setLeverageBy is setLeverage for the covariance UᵀU.
func (l *laplace) setLeverageBy(u blas64.Triangular) error {
	n := u.N
	factor, err := kern.NewMatrix(n, n)
	if err != nil {
		return err
	}
	defer factor.Close()
	for i := range n {
		row := factor.Row(i)
		for j, x := range u.Data[i*n : i*n+i+1] {
			row[j] = float32(x)
		}
	}
	leverage := make([]float32, l.x.Rows())
	const chunk = 480
	failed := make([]error, (l.x.Rows()+chunk-1)/chunk)
	kern.Chunks(l.x.Rows(), chunk, l.threads, func(_, number, from, to int) {
		room := make([]float32, (to-from)*(n/2+1))
		failed[number] = eachBand(n, func(top, bottom int) error {
			pairs, err := band(l.x, from, to, bottom)
			if err != nil {
				return err
			}
			rows, err := band(factor, top, bottom, bottom)
			if err != nil {
				return err
			}
			width := bottom - top
			products, err := kern.View(room, to-from, width, width)
			if err != nil {
				return err
			}
			kern.MulT(products, pairs, rows)
			for k := range to - from {
				row := room[k*width : (k+1)*width]
				var s0, s1 float32
				i := 0
				for ; i+2 <= len(row); i += 2 {
					s0 += row[i] * row[i]
					s1 += row[i+1] * row[i+1]
				}
				if i < len(row) {
					s0 += row[i] * row[i]
				}
				leverage[from+k] += s0 + s1
			}
			return nil
		})
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	l.setSpread(leverage)
	return nil
}

// setSpread makes the leverage that of the contributions from now on; nil takes w as certain.
func (l *laplace) setSpread(leverage []float32) {
	l.leverage, l.spread = leverage, nil
	if leverage == nil {
		return
	}
	l.spread = make([]spread, len(leverage))
	kern.Chunks(len(leverage), 4096, l.threads, func(_, _, from, to int) {
		for k := from; k < to; k++ {
			sd := math.Min(math.Sqrt(float64(leverage[k])), 80)
			for i, at := range hermiteAt {
				l.spread[k][i] = math.Exp(sd * at)
			}
		}
	})
}

// ascent is everything that the rest of a search for the mode depends on.
type ascent struct {
	theta     []float64
	info      *information // that preconditions; nil to find it
	begun     bool         // the rest has values
	value     float64
	grad      []float64
	memory    []curvature
	iteration int
	ended     bool
	d         int
}

// mode moves θ to the posterior's mode and returns how many iterations that took. Fisher's
// information, factored once, is where a limited-memory quasi-Newton method starts from:
// information is an expectation and the likelihood's own curvature differs from it, so that
// scoring alone would creep. It stops where the decrement, twice what is still to be gained in units
// of log-likelihood, is enough. report is called in every iteration; it and the recorder may be nil.
func (l *laplace) mode(ctx context.Context, theta []float64, info *information, enough float64,
	report func(value float64), r *recorder) (int, error) {
	most := 200
	if l.draws > 0 {
		most = 2000 // the information is only near its matrix, and its iterations are cheap
	}
	const (
		anew  = 12 // iterations after which the information is found again
		depth = 20
		spare = .5 // the decrement below which a search that finds no better place has ended
	)
	n := l.size()
	a := &ascent{theta: theta, info: info, grad: make([]float64, n), d: l.d}
	if err := r.begin(a); err != nil {
		return 0, err
	}
	next, nextGrad, direction := make([]float64, n), make([]float64, n), make([]float64, n)
	if !a.begun {
		value, err := l.value(ctx, theta, a.grad)
		if err != nil {
			return 0, err
		}
		a.value, a.begun = value, true
	}
	for a.iteration < most && !a.ended {
		if report != nil {
			report(a.value)
		}
		if err := r.tick(); err != nil {
			return a.iteration, err
		}
		// The state changes at the end of an iteration only: one that is interrupted is done again.
		iteration, info, memory := a.iteration+1, a.info, a.memory
		fresh := info == nil || iteration%anew == 0 && l.draws == 0
		if fresh {
			var err error
			if info, err = l.fisher(ctx, theta); err != nil {
				return iteration, err
			}
			memory = nil
		}
		descend(direction, a.grad, memory, info.solve)
		decrement := -dot(direction, a.grad)
		if decrement < 0 {
			memory = nil
			descend(direction, a.grad, nil, info.solve)
			decrement = -dot(direction, a.grad)
		}
		if decrement < enough {
			a.iteration, a.ended = iteration, true
			break
		}
		// at most 4 in the intercept and the propensity logits
		largest := 0.0
		for _, x := range direction[l.d:] {
			largest = math.Max(largest, math.Abs(x))
		}
		if largest > 4 && !fresh && l.draws == 0 {
			// What is remembered of the curvature does not hold here (draws need it: theirs is only near the
			// information): a step along it, cut short, still lowers
			// the value, and can end in another valley.
			a.iteration, a.info, a.memory = iteration, nil, nil
			continue
		}
		step := math.Min(1, 4/largest)
		moved := false
		for range 30 {
			for i := range next {
				next[i] = theta[i] + step*direction[i]
			}
			v, err := l.value(ctx, next, nextGrad)
			if err != nil {
				return iteration, err
			}
			if v <= a.value-1e-4*step*decrement+1e-9*math.Abs(a.value) {
				memory = remember(memory, depth, theta, next, a.grad, nextGrad)
				copy(theta, next)
				copy(a.grad, nextGrad)
				a.value, moved = v, true
				break
			}
			step /= 2
		}
		switch {
		case !moved && !fresh:
			memory, info = nil, nil
		case !moved && decrement < spare:
			a.ended = true // as near as the kernels' float32 can tell
		case !moved:
			return iteration, fmt.Errorf("%w: no step raises the posterior (round %d, decrement %.3g at %.6g)",
				ErrDiverged, iteration, decrement, a.value)
		}
		a.iteration, a.info, a.memory = iteration, info, memory
	}
	return a.iteration, nil
}

func (a *ascent) keep(c *checkpoint) {
	put(c, "ascent.theta", a.theta)
	c.putInformation("ascent.factor", a.info)
	c.putTruth("ascent.begun", a.begun)
	if !a.begun {
		return
	}
	put(c, "ascent.value", []float64{a.value})
	put(c, "ascent.grad", a.grad)
	c.putCurvatures("ascent.memory", a.memory)
	c.whole["ascent.iteration"] = a.iteration
	c.putTruth("ascent.ended", a.ended)
}

func (a *ascent) restore(c *checkpoint) {
	n := len(a.theta)
	copy(a.theta, numbers[float64](c, "ascent.theta", n))
	a.info = c.information("ascent.factor", n, a.d)
	if a.begun = c.truth("ascent.begun"); !a.begun {
		return
	}
	a.value = numbers[float64](c, "ascent.value", 1)[0]
	copy(a.grad, numbers[float64](c, "ascent.grad", n))
	a.memory = c.curvatures("ascent.memory", n)
	a.iteration, a.ended = c.number("ascent.iteration", 0, math.MaxInt32), c.truth("ascent.ended")
}

func dot(a, b []float64) float64 {
	var s float64
	for i, x := range a {
		s += x * b[i]
	}
	return s
}
