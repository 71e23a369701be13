package kern

import (
	"fmt"
	"math"
	"slices"
)

// Sigmoid sets dst = σ(z) = 1/(1+exp(−z)). dst may be z; they have the same length.
func Sigmoid(dst, z []float32) { mapLanes(dst, z, sigmoid) }

// LogSigmoid sets dst = log σ(z) = −softplus(−z).
func LogSigmoid(dst, z []float32) { mapLanes(dst, z, logSigmoid) }

// SigmoidSoftplus sets y = σ(z) and loss = softplus(z) in one pass. Either may be z.
func SigmoidSoftplus(y, loss, z []float32) {
	y, loss = y[:len(z)], loss[:len(z)]
	whole := len(z) - len(z)%lanes()
	sigmoidSoftplus(y[:whole], loss[:whole], z[:whole])
	if rest := len(z) - whole; rest > 0 {
		var in, outY, outLoss [maxLanes]float32
		copy(in[:], z[whole:])
		sigmoidSoftplus(outY[:lanes()], outLoss[:lanes()], in[:lanes()])
		copy(y[whole:], outY[:rest])
		copy(loss[whole:], outLoss[:rest])
	}
}

// Teaching sets y = σ(z), at least 1e-37, and w = √(y(1−y)(1+z²)), at least 1e-18, in one pass. Where y would be less,
// or z is not a number, both are at their least: sums of them can be divided by.
func Teaching(y, w, z []float32) {
	y, w = y[:len(z)], w[:len(z)]
	whole := len(z) - len(z)%lanes()
	teaching(y[:whole], w[:whole], z[:whole])
	if rest := len(z) - whole; rest > 0 {
		var in, outY, outW [maxLanes]float32
		copy(in[:], z[whole:])
		teaching(outY[:lanes()], outW[:lanes()], in[:lanes()])
		copy(y[whole:], outY[:rest])
		copy(w[whole:], outW[:rest])
	}
}

// SumBlock is how many elements each of the BlockSums has; the last may have fewer.
const SumBlock = 128

// BlockSums returns Σ x and Σ x·y of every SumBlock elements, in float64, in the place of older sums.
func BlockSums(sums [][2]float64, x, y []float32) [][2]float64 {
	blocks := (len(x) + SumBlock - 1) / SumBlock
	sums = slices.Grow(sums[:0], blocks)[:blocks]
	whole := len(x) / SumBlock
	y = y[:len(x)]
	blockSums(sums[:whole], x, y)
	blockSumsGo(sums[whole:], x[whole*SumBlock:], y[whole*SumBlock:])
	return sums
}

const maxLanes = 16

// mapLanes runs f over whole registers and over the tail in a padded one, so that an element's
// result does not depend on where it stands.
func mapLanes(dst, z []float32, f func(dst, z []float32)) {
	dst = dst[:len(z)]
	whole := len(z) - len(z)%lanes()
	f(dst[:whole], z[:whole])
	if rest := len(z) - whole; rest > 0 {
		var buffer [maxLanes]float32
		copy(buffer[:], z[whole:])
		f(buffer[:lanes()], buffer[:lanes()])
		copy(dst[whole:], buffer[:rest])
	}
}

// UnlinkedSums holds what every risk over unlinked pairs is made of. With y = σ(z), u = 1−y, q = 1−πy:
type UnlinkedSums struct {
	Link   float64 // Σ y
	Loss   float64 // Σ softplus(z): the naive risk of a missing link
	Psi    float64 // Σ ψ·softplus(z), ψ = u/q: the part that is really no link
	Tau    float64 // Σ τ·softplus(−z), τ = y(1−π)/q: the part that was never shown
	NegLog float64 // Σ −log q: the likelihood
	// Propensity is Σ π of pairs that each have their own; whoever adds pairs that share one knows it.
	Propensity float64
}

// Without is the logit z of what is no pair: it adds nothing to any sum.
const Without = -1000

// Add adds the sums over unlinked pairs with logits z, propensity pi and rest = 1−pi, which the
// caller knows without cancellation; rest below 1e-30 counts as 0. Infinite logits count as
// ±MaxFloat32. The sums are float64 over float32 terms.
func (s *UnlinkedSums) Add(z []float32, pi, rest float64) {
	// As π → 1 nothing is hidden: ψ = 1, τ = 0 and −log q = softplus(z).
	if rest < 1e-30 {
		var sums [6]float64
		addLosses(&sums, z, 0.5, 0.5)
		s.Loss += sums[0]
		s.Psi += sums[0]
		s.NegLog += sums[0]
		s.Link += sums[4]
		return
	}
	sums := s.array()
	addLosses(&sums, z, float32(pi), float32(rest))
	s.set(sums)
}

// Propensity is π and 1−π, each with all its digits.
type Propensity struct{ Pi, Rest float64 }

// propensity is one in float32.
type propensity struct{ pi, rest float32 }

// AddBoth adds the sums over unlinked pairs with logits z in both directions, where z is the same and π is not.
func (s *UnlinkedSums) AddBoth(z []float32, there, back Propensity) {
	if there.Rest*back.Rest < 1e-30 { // the product of both q may be no normal float32
		s.Add(z, there.Pi, there.Rest)
		s.Add(z, back.Pi, back.Rest)
		return
	}
	narrow := func(p Propensity) propensity { return propensity{float32(p.Pi), float32(p.Rest)} }
	var sums [6]float64
	whole := len(z) - len(z)%lanes()
	lossSumsBoth(&sums, z[:whole], narrow(there), narrow(back))
	if whole < len(z) {
		tail := padded(z[whole:])
		lossSumsBoth(&sums, tail[:lanes()], narrow(there), narrow(back))
	}
	s.Loss += 2 * sums[0]
	s.Psi += sums[1]
	s.Tau += sums[2]
	s.NegLog += sums[3]
	s.Link += 2 * sums[4]
}

// Exposed says by which logits the pairs of a row are shown: Own, and for each pair its element of Each.
type Exposed struct {
	Each []float32
	Own  float32
}

// ExposureRule is what the exposure of all pairs has in common: Slope times z is added to every logit. ψ and τ take
// propensities below the floor for the floor, which is itself below 1.
type ExposureRule struct {
	Slope float32
	Floor float64
}

// The largest logits of exposure that AddEach and AddEachBoth tell from larger ones: beyond, 1/q, or that of the
// product of both q, may be no normal float32.
const (
	mostExposure     = 86
	mostExposureBoth = 43
)

// AddEach is Add for pairs that each have their own propensity, given by its logit; logits beyond ±86 count as ±86.
func (s *UnlinkedSums) AddEach(z []float32, by Exposed, rule ExposureRule) {
	sums, whole := s.array(), len(z)-len(z)%lanes()
	of := eachRule{by.Own, 0, rule.Slope, float32(1 - rule.Floor)}
	lossSumsEach(&sums, z[:whole], by.Each[:whole], of)
	if whole < len(z) {
		tail, last := padded(z[whole:]), paddedExposure(by, z[whole:], whole, rule)
		lossSumsEach(&sums, tail[:lanes()], last[:lanes()], eachRule{ceiling: of.ceiling})
	}
	s.set(sums)
}

// AddEachBoth adds the sums over unlinked pairs in both directions, where z is the same and the exposure is not; logits
// of exposure beyond ±43 count as ±43.
func (s *UnlinkedSums) AddEachBoth(z []float32, there, back Exposed, rule ExposureRule) {
	var sums [6]float64
	whole := len(z) - len(z)%lanes()
	of := eachRule{there.Own, back.Own, rule.Slope, float32(1 - rule.Floor)}
	lossSumsEachBoth(&sums, z[:whole], there.Each[:whole], back.Each[:whole], of)
	if whole < len(z) {
		tail := padded(z[whole:])
		one, two := paddedExposure(there, z[whole:], whole, rule), paddedExposure(back, z[whole:], whole, rule)
		lossSumsEachBoth(&sums, tail[:lanes()], one[:lanes()], two[:lanes()], eachRule{ceiling: of.ceiling})
	}
	s.Loss += 2 * sums[0]
	s.Psi += sums[1]
	s.Tau += sums[2]
	s.NegLog += sums[3]
	s.Link += 2 * sums[4]
	s.Propensity += sums[5]
}

// eachRule is what the kernels of pairs with their own propensities have in common: what is added to the logits of one
// direction and of the other, their slope in z, and the highest 1−π of ψ and τ.
type eachRule struct{ own, other, slope, ceiling float32 }

// paddedExposure is the logits of the last few pairs, from some place on, in a register whose other lanes are not
// shown.
func paddedExposure(by Exposed, z []float32, from int, rule ExposureRule) (buffer [maxLanes]float32) {
	for i := range buffer {
		if buffer[i] = Without; i < len(z) {
			at := math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, float64(z[i])))
			buffer[i] = float32(float64(by.Own+by.Each[from+i]) + float64(rule.Slope)*at)
		}
	}
	return buffer
}

func (s *UnlinkedSums) array() [6]float64 {
	return [6]float64{s.Loss, s.Psi, s.Tau, s.NegLog, s.Link, s.Propensity}
}

func (s *UnlinkedSums) set(sums [6]float64) {
	s.Loss, s.Psi, s.Tau, s.NegLog, s.Link, s.Propensity = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
}

func addLosses(sums *[6]float64, z []float32, pi, rest float32) {
	whole := len(z) - len(z)%lanes()
	lossSums(sums, z[:whole], pi, rest)
	if whole < len(z) {
		tail := padded(z[whole:])
		lossSums(sums, tail[:lanes()], pi, rest)
	}
}

// padded is the last few logits in a register whose other lanes add nothing.
func padded(z []float32) (buffer [maxLanes]float32) {
	for i := copy(buffer[:], z); i < maxLanes; i++ {
		buffer[i] = Without
	}
	return buffer
}

// PairValues are numbers of pairs for PairSlopes. All slices are of one length, a multiple of 16.
type PairValues struct {
	Z, S         []float32 // logits of ŷ and π̂; beyond ±86 they count as ±86
	Sign         []float32 // negative for linked pairs
	Rate, Weight []float32
	// With y = σ(z), π = σ(s), q = 1−πy and the chance P = πy/(πy + rate·q) of a sampled pair to be linked:
	DZ, DS     []float32 // slopes of −log likelihood: (P−o)(1−y)/q and (P−o)(1−π)/q, times the weight
	ZZ, ZS, SS []float32 // its information: P(1−P) times the squares and the product of the same factors
	Chance     []float32 // of what was seen, P or 1−P
}

// PairSlopes computes the slopes, the information and the chances of the first n pairs, times lambda.
func PairSlopes(p *PairValues, n int, lambda float32) {
	count := roundUp(n, lanes())
	for _, values := range [...][]float32{p.Z, p.S, p.Sign, p.Rate, p.Weight, p.DZ, p.DS, p.ZZ, p.ZS, p.SS, p.Chance} {
		if len(values) < count {
			panic(fmt.Sprintf("kern: slopes of %d pairs in %d places", n, len(values)))
		}
	}
	pairSlopes(p, count, lambda)
}

// Sigmoid64 returns σ(z) and σ(−z), each with all its digits.
func Sigmoid64(z float64) (y, rest float64) {
	e := math.Exp(-math.Abs(z))
	y, rest = 1/(1+e), e/(1+e)
	if z < 0 {
		y, rest = rest, y
	}
	return y, rest
}

// Softplus64 returns log(1 + e^z).
func Softplus64(z float64) float64 { return softplus64(z) }
