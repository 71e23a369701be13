package exchange

import (
	"math"

	"gonum.org/v1/gonum/mathext/prng"
)

// The semi-synthetic experiment of "Correcting Exposure Bias for Link Recommendation" (ICML 2021)
// releases pairs of papers and draws all else when it runs, from fixed seeds of Python's and
// NumPy's generators. Both are the Mersenne twister, so the same fields, the same propensities and
// the same draws come out here.

// paperFields are the 19 root fields; field k of the notebook is paperFields[k−1].
var paperFields = [...]string{
	"art", "biology", "business", "chemistry", "computer science", "economics", "engineering", "environmental science",
	"geography",
	"geology", "history", "materials science", "mathematics", "medicine", "philosophy", "physics", "political science",
	"psychology",
	"sociology",
}

// paperSeed is the notebook's, for the propensities and for every batch.
const paperSeed = 234981293

// paperBatch is how many pairs are drawn from one seed.
const paperBatch = 32

// twister draws as NumPy's RandomState does.
type twister struct{ source *prng.MT19937 }

func newTwister(seed uint32) twister {
	t := twister{prng.NewMT19937()}
	t.source.Seed(uint64(seed))
	return t
}

// double is uniform on [0, 1) with 53 bits.
func (t twister) double() float64 {
	a, b := t.source.Uint32()>>5, t.source.Uint32()>>6
	return (float64(a)*67108864 + float64(b)) / 9007199254740992
}

// coin is RandomState.binomial(1, p), which inverts the distribution function, rounding and all.
func (t twister) coin(p float64) bool {
	if p <= 0.5 {
		return t.invert(p)
	}
	return !t.invert(1 - p)
}

func (t twister) invert(p float64) bool {
	q := 1 - p
	none := math.Exp(math.Log(q))
	for {
		u := t.double()
		if u <= none {
			return false
		}
		if u-none <= p*none/q {
			return true
		}
		// The two do not quite add up to one, and it fell between: draw again.
	}
}

// paperField is the field that the notebook gives to the paper of an index, 0 … 18:
// random.seed(index), then random.choice of 19.
func paperField(t twister, index uint64) int {
	keys := []uint32{uint32(index), uint32(index >> 32)}
	if keys[1] == 0 {
		keys = keys[:1]
	}
	t.source.SeedFromKeys(keys)
	for {
		if k := t.source.Uint32() >> 27; k < uint32(len(paperFields)) {
			return int(k)
		}
	}
}

// paperPropensities are π by the fields of source and target.
func paperPropensities() (table [len(paperFields)][len(paperFields)]float64) {
	const n = len(paperFields)
	t := newTwister(paperSeed)
	var low [(n + 2) * (n + 2)]bool
	for k := range low {
		low[k] = t.coin(0.8)
	}
	var vector, high [len(low)]float64
	for k := range vector {
		vector[k] = 0.1 + (0.3-0.1)*t.double()
	}
	for k := range high {
		high[k] = 0.7 + (1-0.7)*t.double()
	}
	for k := range vector {
		if !low[k] {
			vector[k] = high[k]
		}
	}
	for k := 1; k <= n; k++ {
		vector[k*n+k] = 0.7 + (0.9-0.7)*t.double()
	}
	for i := range table {
		for j := range table[i] {
			table[i][j] = vector[(i+1)*n+j+1]
		}
	}
	return table
}

// paperDraws draws one thing for every pair, as the notebook does: from the same seed for every batch, and so
// from the same numbers for exposures and for links.
func paperDraws(p []float64) []bool {
	out := make([]bool, len(p))
	var t twister
	for k := range p {
		if k%paperBatch == 0 {
			t = newTwister(paperSeed)
		}
		out[k] = t.coin(p[k])
	}
	return out
}
