package world

import "math/rand/v2"

// The streams of randomness. Each has a generator of its own, seeded from (seed, name), so that
// nothing drawn from one says anything about another: exposure and relevance above all (unless
// Violations.Dependence ties the two).
const (
	fieldStream       = "field"
	areaStream        = "area"
	topicStream       = "topic"
	directionStream   = "direction"
	vectorStream      = "vector"
	timeStream        = "time"
	titleStream       = "title"
	sentenceStream    = "sentence"
	weightStream      = "weight"
	propensityStream  = "propensity"
	popularityStream  = "popularity"
	qualityStream     = "quality"
	calibrationStream = "calibration"

	relevanceStream = "relevance"
	exposureStream  = "exposure"
	logStream       = "log"
	pairStream      = "pair"
)

// newStream returns the generator number k of a named stream.
func newStream(seed uint64, name string, k uint64) *rand.PCG {
	first, second := streamSeeds(seed, name, k)
	return rand.NewPCG(first, second)
}

// streamSeeds mixes the three, since PCG takes neighbouring seeds to neighbouring states.
func streamSeeds(seed uint64, name string, k uint64) (first, second uint64) {
	hash := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(name) {
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	first = mix(mix(seed) + hash)
	return first, mix(first ^ mix(k))
}

// coin is a uniform number in [0, 1) for every ordered pair of nodes: the generator of a stream run
// on the pair instead of on a counter (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011). What happens to a pair therefore depends neither on the other pairs of a draw nor on the
// number of threads.
type coin struct{ first, second uint64 }

func newCoin(seed uint64, name string) coin {
	src := newStream(seed, name, 0)
	return coin{src.Uint64(), src.Uint64()}
}

func (c coin) toss(source, target int32) float64 {
	pair := uint64(uint32(source))<<32 | uint64(uint32(target))
	return float64(mix(mix(pair^c.first)+c.second)>>11) * 0x1p-53
}

// mix is Stafford's variant 13 of the finaliser of MurmurHash3, that of SplitMix64: a bijection in
// which every bit of x moves every bit of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
