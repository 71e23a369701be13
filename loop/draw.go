package loop

import (
	"math"
	"math/rand/v2"
)

// newStream returns the generator number k of a named stream. The streams of different names, and
// of different k, have nothing to do with one another.
func newStream(seed uint64, name string, k uint64) *rand.Rand {
	hash := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(name) {
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	first := mix(mix(seed) + hash)
	return rand.New(rand.NewPCG(first, mix(first^mix(k))))
}

// mix is the finaliser of SplitMix64: PCG takes neighbouring seeds to neighbouring states.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// most is the largest number of trials of a binomial draw: below it the rounding of the logarithms
// of factorials leaves a draw's probabilities right to five digits.
const maxDraws = 1_000_000_000

// binomial draws how many of n trials succeed, each with probability p. It takes constant time: where
// few successes are expected the distribution is inverted term by term, elsewhere draws are rejected
// by Hörmann's BTRS ("The generation of binomial random variates", 1993).
func binomial(rng *rand.Rand, n int, p float64) int {
	switch {
	case n <= 0 || p <= 0:
		return 0
	case p >= 1:
		return n
	case p > .5:
		return n - binomial(rng, n, 1-p)
	case float64(n)*p < 10:
		return invertBinomial(rng, n, p)
	}
	trials := float64(n)
	spread := math.Sqrt(trials * p * (1 - p))
	b := 1.15 + 2.53*spread
	a := -.0873 + .0248*b + .01*p
	centre := trials*p + .5
	alpha, sure := (2.83+5.1/b)*spread, .92-4.2/b
	mode := math.Floor((trials + 1) * p)
	odds, top := math.Log(p/(1-p)), logFactorial(mode)+logFactorial(trials-mode)
	for {
		u, v := rng.Float64()-.5, rng.Float64()
		us := .5 - math.Abs(u)
		k := math.Floor((2*a/us+b)*u + centre)
		if us >= .07 && v <= sure {
			return int(k)
		}
		if k < 0 || k > trials {
			continue
		}
		if math.Log(v*alpha/(a/(us*us)+b)) <= top-logFactorial(k)-logFactorial(trials-k)+(k-mode)*odds {
			return int(k)
		}
	}
}

func invertBinomial(rng *rand.Rand, n int, p float64) int {
	odds := p / (1 - p)
	for {
		u := rng.Float64()
		term := math.Exp(float64(n) * math.Log1p(-p))
		for k := 0; k <= n; k++ {
			if u < term {
				return k
			}
			u -= term
			term *= odds * float64(n-k) / float64(k+1)
			if term < 1e-300 {
				break // rounding left u above the sum of all terms: draw again
			}
		}
	}
}

func logFactorial(k float64) float64 {
	value, _ := math.Lgamma(k + 1)
	return value
}

// multinomial sets counts to how n draws fall on categories of probabilities proportional to weights:
// one binomial draw after the other, each of what is left.
func multinomial(rng *rand.Rand, counts []int, n int, weights []float64) {
	var rest float64
	for _, w := range weights {
		rest += w
	}
	last := 0
	for v, w := range weights {
		if w > 0 {
			last = v
		}
	}
	for v, w := range weights {
		switch {
		case v == last: // what rounding has left of rest does not matter
			counts[v] = n
		case w > 0:
			counts[v] = binomial(rng, n, min(w/rest, 1))
		default:
			counts[v] = 0
		}
		n -= counts[v]
		rest -= w
	}
}
