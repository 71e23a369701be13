package loop

import (
	"math"
	"math/rand/v2"
)

// Process is the feedback loop by categories: readers of one category get recommendations, link to a
// part of them, and the recommender is retrained on those links, round after round. From the readers
// to category v every propensity is π_v and every link probability y_v, and a recommended item of v is
// linked with probability q_v = π_v·y_v.
//
//	κ⁽ᵗ⁾  share of each category among n recommendations
//	n_v ~ Binomial(n·κ_v⁽ᵗ⁾, q_v)       links that follow
//	ê_v ∝ q̂_v = n_v/n                   the estimate; over π_v where Corrected
//	κ⁽ᵗ⁺¹⁾ ~ Multinomial(n, ê)/n        the next recommendations, in proportion
//
// With a share ε to Explore, ê is (1−ε)ê + ε·pool: that share is drawn whatever was learned.
//
// The first training is on links that came about before there was a recommender:
// n_v ~ Binomial(n, q_v).
type Process struct {
	Propensity []float64 // π_v
	Link       []float64 // y_v
	Sizes      []float64 // nodes of each category, or numbers in proportion; nil means equal ones

	// Corrected divides the estimates by π_v, as a recommender that knows exposure does.
	Corrected bool
	// ShownOnly divides the links by the nκ_v items that were recommended, instead of by n: what was
	// not recommended is left out of the training instead of counting as not linked. A category of
	// which nothing was recommended keeps its last estimate.
	ShownOnly bool

	// Explore is the share ε of the recommendations that is drawn whatever the estimates say, in proportion to Pool.
	Explore float64
	Pool    []float64 // nodes that can be recommended, by category, or numbers in proportion; nil means Sizes
}

func (p Process) validate() error {
	n := len(p.Propensity)
	if n == 0 || len(p.Link) != n || p.Sizes != nil && len(p.Sizes) != n || p.Pool != nil && len(p.Pool) != n {
		return settingError("%d propensities, %d link probabilities, %d sizes and a pool of %d; "+
			"give one of each per category", n, len(p.Link), len(p.Sizes), len(p.Pool))
	}
	for v := range n {
		if x := p.Propensity[v]; !(x > 0 && x <= 1) {
			return settingError("the propensity of category %d is %v; give a probability above 0", v, x)
		}
		if x := p.Link[v]; !(x > 0 && x <= 1) {
			return settingError("the link probability of category %d is %v; give a probability above 0", v, x)
		}
		if p.Sizes != nil && !(p.Sizes[v] > 0 && p.Sizes[v] <= math.MaxFloat64) {
			return settingError("the size of category %d is %v; give a positive number", v, p.Sizes[v])
		}
		if p.Pool != nil && !(p.Pool[v] >= 0 && p.Pool[v] <= math.MaxFloat64) {
			return settingError("the pool of category %d is %v; give a number that is not negative", v, p.Pool[v])
		}
	}
	if !(p.Explore >= 0 && p.Explore <= 1) {
		return settingError("a share of %v to explore; give one from 0 to 1", p.Explore)
	}
	return nil
}

// explored mixes the estimated shares with the shares of everything that can be recommended.
func (p Process) explored(shares []float64) {
	if p.Explore == 0 {
		return
	}
	normalise(shares)
	pool := make([]float64, len(shares))
	for v := range pool {
		pool[v] = p.size(v)
		if p.Pool != nil {
			pool[v] = p.Pool[v]
		}
	}
	normalise(pool)
	for v := range shares {
		shares[v] = (1-p.Explore)*shares[v] + p.Explore*pool[v]
	}
}

func (p Process) size(v int) float64 {
	if p.Sizes == nil {
		return 1
	}
	return p.Sizes[v]
}

// Limit returns what κ⁽ᵗ⁾ tends to as n grows, for a round t ≥ 1:
//
//	κ_v⁽ᵗ⁾ ∝ size_v·r_vᵗ,   r = q, or y where Corrected
//
// so that of two categories of one size κ_v/(κ_v+κ_w) → 1 − 1/(1+cᵗ) with c = r_v/r_w. With
// ShownOnly the exponent is 1 in every round: nothing compounds. With a share ε to explore the recursion
// is κ⁽ᵗ⁺¹⁾ = (1−ε)·(κ⁽ᵗ⁾r normalised) + ε·pool.
func (p Process) Limit(t int) ([]float64, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if t < 1 {
		return nil, settingError("round %d; the first is 1", t)
	}
	if p.ShownOnly {
		t = 1
	}
	if p.Explore > 0 {
		return p.exploredLimit(t), nil
	}
	shares := make([]float64, len(p.Link))
	largest := math.Inf(-1)
	for v := range shares {
		rate := p.Link[v]
		if !p.Corrected {
			rate *= p.Propensity[v]
		}
		shares[v] = math.Log(p.size(v)) + float64(t)*math.Log(rate)
		largest = max(largest, shares[v])
	}
	for v := range shares {
		shares[v] = math.Exp(shares[v] - largest)
	}
	normalise(shares)
	return shares, nil
}

// exploredLimit computes the limit round by round.
func (p Process) exploredLimit(t int) []float64 {
	shares := make([]float64, len(p.Link))
	for v := range shares {
		shares[v] = p.size(v)
	}
	for range t {
		for v := range shares {
			shares[v] *= p.Link[v]
			if !p.Corrected {
				shares[v] *= p.Propensity[v]
			}
		}
		normalise(shares)
		p.explored(shares)
	}
	return shares
}

func normalise(shares []float64) {
	var sum float64
	for _, x := range shares {
		sum += x
	}
	for v := range shares {
		shares[v] /= sum
	}
}

// Run draws the process with n recommendations a round, up to 10⁹, and returns κ⁽¹⁾, κ⁽²⁾, … for
// the given number of rounds. A round in which nothing is linked teaches nothing: the estimates stay.
//
// A category of which nothing is linked in a round has the estimate 0 and never comes back. So for a
// given n the process leaves its limit where size_v·r_vᵗ gets to about 1/n of the sum.
func (p Process) Run(n, rounds int, src rand.Source) ([][]float64, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	switch {
	case n < 1 || n > maxDraws:
		return nil, settingError("%d recommendations a round; give from 1 to %d", n, maxDraws)
	case rounds < 1:
		return nil, settingError("%d rounds; give at least 1", rounds)
	case src == nil:
		return nil, settingError("no source of randomness; give one, such as rand.NewPCG(seed, 0)")
	}
	rng := rand.New(src)
	C := len(p.Link)
	estimate, drawn, counts := make([]float64, C), make([]float64, C), make([]int, C)
	for v := range estimate {
		estimate[v] = p.size(v) // before anything is linked, all are alike
	}
	shares := make([][]float64, rounds)
	shown := make([]int, C)
	for v := range shown {
		shown[v] = n
	}
	for t := range shares {
		p.learn(rng, estimate, shown, t == 0)
		copy(drawn, estimate)
		p.explored(drawn)
		multinomial(rng, counts, n, drawn)
		shares[t] = make([]float64, C)
		for v, k := range counts {
			shares[t][v] = float64(k) / float64(n)
		}
		copy(shown, counts)
	}
	return shares, nil
}

// learn draws the links of what was shown and replaces the estimates: size_v times the rate of links
// among what was shown of v, or, where what was not shown counts as not linked, their number. In the
// first round the same number of nodes of every category was there to be found.
func (p Process) learn(rng *rand.Rand, estimate []float64, shown []int, first bool) {
	fresh := make([]float64, len(estimate))
	total := 0
	for v, k := range shown {
		links := binomial(rng, k, p.Propensity[v]*p.Link[v])
		total += links
		fresh[v] = float64(links)
		if p.Corrected {
			fresh[v] /= p.Propensity[v]
		}
		switch {
		case !first && !p.ShownOnly:
		case k == 0:
			fresh[v] = estimate[v]
		default:
			fresh[v] *= p.size(v) / float64(k)
		}
	}
	if total > 0 {
		copy(estimate, fresh)
	}
}

// Relative returns κ_vw = κ_v/(κ_v + κ_w), the share of v among v and w; NaN where neither has any.
func Relative(shares []float64, v, w int) float64 { return shares[v] / (shares[v] + shares[w]) }
