package fit

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/sample"
)

// mostShown is how many offered pairs, evenly spaced, the information of rates is found from.
const mostShown = 1 << 18

// leastScale is the precision of the logarithm of a rate's scale before anything is seen: the scale is a probability,
// and hardly one of less than e⁻³ squared.
const leastScale = 1. / 9

// rateInformation is what offered pairs have in common with the rates λ = log r that they are seen with. Wanting shows
// in every showing of a wanted pair with the chance r, and never in those of others. With t the chance that a pair is
// wanted, M = Π(1−r) that wanting never shows, b = tM/(1−t+tM) that it is wanted all the same, and h = Σ r/(1−r)·e over
// its showings, Fisher's information is
//
//	of λ                 Σ t·diag h − tM(1−b)·hhᵀ
//	of λ and logit t     Σ tM(1−b)·h.
type rateInformation struct {
	own  *mat.SymDense // I of λ
	with [][]float64   // C: by rate, of λ and the models' parameters
}

// learnRates adds to the posterior what is not known of θ because the rates that offered pairs are seen with were
// learned. V is that of θ given λ. With S = I − CᵀVC, the information of λ when θ is refitted, and A the scales that
// the rates share, θ moves by −VC with λ, and
//
//	Var θ = V + VCA (AᵀSA)⁻¹ (VCA)ᵀ + T·Var λ·Tᵀ,   T = VC·(1 − A(AᵀSA)⁻¹AᵀS),
//
// where Var λ is what was learned of the rates otherwise, but for their scales, which are refitted with θ.
func (r *Result) learnRates(ctx context.Context, p sample.Problem) error {
	if r.Posterior == nil || p.Rates == nil || p.Exposure == nil {
		return nil
	}
	info, err := r.rateInformation(ctx, p)
	if err != nil || info == nil {
		return err
	}
	n, links := len(info.with), r.Link.Size()
	moves := make([]variant, n) // VC
	s := mat.NewSymDense(n, nil)
	for a, g := range info.with {
		moves[a] = r.Posterior.along(g[:links], g[links:])
		for b := range a + 1 {
			s.SetSym(a, b, info.own.At(a, b)-r.Posterior.move(moves[a], info.with[b][:links], info.with[b][links:]))
		}
	}
	scales, ties := scalesOf(p.Rates)
	var weighted, between mat.Dense
	weighted.Mul(ties.T(), s) // AᵀS
	between.Mul(&weighted, ties)
	inverse := inverseOf(&between, scales)
	var shift, part mat.Dense // (AᵀSA)⁻¹AᵀS
	shift.Mul(inverse, &weighted)
	part.Mul(ties, &shift)
	rest := mat.NewDense(n, n, nil)
	for k := range n {
		rest.Set(k, k, 1)
	}
	rest.Sub(rest, &part)
	var by, other mat.Dense
	by.Mul(ties, rootOf(inverse))
	other.Mul(rest, rootOf(mat.NewDense(n, n, p.Rates.Covariance)))
	for _, columns := range []*mat.Dense{&by, &other} {
		_, count := columns.Dims()
		for c := range count {
			if v := combined(moves, mat.Col(nil, c, columns)); v != nil {
				r.Posterior.seen = append(r.Posterior.seen, *v)
			}
		}
	}
	return nil
}

// rateInformation sums over the offered pairs; nil where none has a rate that was learned.
func (r *Result) rateInformation(ctx context.Context, p sample.Problem) (*rateInformation, error) {
	places := sample.Indices(p.Train.Len(), func(k int) bool {
		return p.Exposure[k].IsOffered() && p.Exposure[k].Seen() < 1
	})
	if len(places) == 0 {
		return nil, nil
	}
	times := 1.
	if all := len(places); all > mostShown {
		chosen := spaced(all, mostShown)
		for i, k := range chosen {
			chosen[i] = places[k]
		}
		places, times = chosen, float64(all)/mostShown
	}
	offered := p.Training().At(places)
	for k := range offered.Pairs.Weight {
		offered.Pairs.Weight[k] = times
	}
	n := len(p.Rates.Rate)
	out := &rateInformation{own: mat.NewSymDense(n, nil)}
	parts := make([]*mat.SymDense, engine.ScanChunks(len(places)))
	totals := make([]float64, n)
	for k := range totals {
		totals[k] = 1
	}
	var err error
	out.with, err = r.Settings.engine().Scan(ctx, engine.Scan{Pairs: offered.Pairs,
		Versions: []engine.Predictor{r.predictor()}, Totals: totals, Visit: func(at engine.Portion) error {
			if parts[at.Chunk] == nil {
				parts[at.Chunk] = mat.NewSymDense(n, nil)
			}
			for i := range at.To - at.From {
				for a := range n {
					at.LinkSlopes[a][i], at.PropensitySlopes[a][i] = 0, 0
				}
				source, target := offered.Pairs.Source[at.From+i], offered.Pairs.Target[at.From+i]
				pi, not := kern.Sigmoid64(float64(at.Propensity[0][i]))
				t, _ := kern.Sigmoid64(float64(at.Link[0][i]) + math.Log(not))
				addRates(parts[at.Chunk], p.Rates, p.Rates.Of(source, target), t, times,
					func(rate int, slope float64) {
						at.LinkSlopes[rate][i] += slope
						at.PropensitySlopes[rate][i] -= pi * slope
					})
			}
			return nil
		}})
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if part != nil {
			out.own.AddSym(out.own, part)
		}
	}
	return out, nil
}

// addRates adds the information of a pair with these showings, wanted with chance t, as often as times says, and gives
// with the slope that each rate has with logit t.
func addRates(to *mat.SymDense, rates *sample.SeenRates, shown []int32, t, times float64,
	with func(rate int, slope float64)) {
	var of []int
	var h []float64
	missed := 1.
	for _, rate := range shown { // in order
		q := math.Min(rates.Rate[rate], .99) // of a rate of 1 nothing is unknown
		if n := len(of); n == 0 || of[n-1] != int(rate) {
			of, h = append(of, int(rate)), append(h, 0)
		}
		h[len(h)-1] += q / (1 - q)
		missed *= 1 - q
	}
	hidden := t * missed * (1 - t) / (1 - t + t*missed) // tM(1−b)
	for x, a := range of {
		with(a, hidden*h[x])
		to.SetSym(a, a, to.At(a, a)+times*t*h[x])
		for y, b := range of[:x+1] {
			to.SetSym(a, b, to.At(a, b)-times*hidden*h[x]*h[y])
		}
	}
}

// scalesOf returns how many scales the rates have, and which each has: a row for every rate.
func scalesOf(rates *sample.SeenRates) (count int, ties *mat.Dense) {
	number := map[int32]int{}
	for _, scale := range rates.Scale {
		if _, known := number[scale]; scale >= 0 && !known {
			number[scale] = len(number)
		}
	}
	ties = mat.NewDense(len(rates.Rate), max(len(number), 1), nil)
	for k, scale := range rates.Scale {
		if scale >= 0 {
			ties.Set(k, number[scale], 1)
		}
	}
	return len(number), ties
}

// inverseOf returns the inverse of the information of scales, none of which is less sure than leastScale; zeros where
// there are none.
func inverseOf(information *mat.Dense, scales int) *mat.Dense {
	n, _ := information.Dims()
	out := mat.NewDense(n, n, nil)
	if scales == 0 {
		return out
	}
	return spectral(information, func(x float64) float64 { return 1 / (math.Max(x, 0) + leastScale) })
}

// rootOf returns a root R of a covariance RRᵀ.
func rootOf(covariance *mat.Dense) *mat.Dense {
	return spectral(covariance, func(x float64) float64 { return math.Sqrt(math.Max(x, 0)) })
}

// spectral applies a function to the eigenvalues of a symmetric matrix.
func spectral(m *mat.Dense, f func(float64) float64) *mat.Dense {
	n, _ := m.Dims()
	symmetric := mat.NewSymDense(n, nil)
	for a := range n {
		for b := range a + 1 {
			symmetric.SetSym(a, b, (m.At(a, b)+m.At(b, a))/2)
		}
	}
	var eigen mat.EigenSym
	eigen.Factorize(symmetric, true)
	values, vectors := eigen.Values(nil), new(mat.Dense)
	eigen.VectorsTo(vectors)
	scaled := mat.DenseCopyOf(vectors)
	for c, x := range values {
		for a := range n {
			scaled.Set(a, c, vectors.At(a, c)*f(x))
		}
	}
	out := new(mat.Dense)
	out.Mul(scaled, vectors.T())
	return out
}

// combined returns Σ x·move; nil where all x are 0.
func combined(moves []variant, x []float64) *variant {
	if !slices.ContainsFunc(x, func(x float64) bool { return x != 0 }) {
		return nil
	}
	out := variant{make([]float32, len(moves[0].link)), make([]float32, len(moves[0].logits))}
	for k, move := range moves {
		for i, y := range move.link {
			out.link[i] += float32(x[k]) * y
		}
		for i, y := range move.logits {
			out.logits[i] += float32(x[k]) * y
		}
	}
	return &out
}
