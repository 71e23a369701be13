package evaluate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Both bootstraps of this package draw the same sources from the same seed, so they must read the same interval.
func TestBootstrapsAgree(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for _, draws := range []int{20, 99, 100, 1000} {
		const sources = 15
		a, b := make([]float64, sources), make([]float64, sources)
		for i := range a {
			a[i], b[i] = random.NormFloat64(), random.NormFloat64()
		}
		seed := random.Uint64()
		paired, err := PairedBootstrap(a, b, .95, draws, seed)
		if err != nil {
			t.Fatal(err)
		}
		band := Bootstrap(sources, draws, seed, func(times []float64) []float64 {
			var sum float64
			for i, n := range times {
				sum += n * (a[i] - b[i])
			}
			return []float64{sum / sources}
		})[0]
		for name, both := range map[string][2]float64{"mean": {paired.Mean, band.Value},
			"lower": {paired.Lower, band.Lower}, "upper": {paired.Upper, band.Upper}} {
			if math.Abs(both[0]-both[1]) > 1e-12 {
				t.Errorf("%d draws, seed %d: %s is %v of PairedBootstrap and %v of Bootstrap", draws, seed, name,
					both[0], both[1])
			}
		}
	}
}
