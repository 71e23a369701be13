package world

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/internal/kern"
	"unseen/internal/normal"
	"unseen/internal/racetest"
)

func TestPermutationIsOne(t *testing.T) {
	t.Parallel()
	for _, size := range []uint64{1, 2, 3, 4, 5, 16, 17, 1000, 4097} {
		p := newPermutation(size, "test", size)
		seen := make([]bool, size)
		for place := range size {
			at := p.at(place)
			if at >= size || seen[at] {
				t.Fatalf("size %d: place %d holds %d", size, place, at)
			}
			seen[at] = true
		}
	}
	large := newPermutation(1, "test", 1<<62-5)
	for place := range uint64(1000) {
		if at := large.at(place); at >= large.size {
			t.Fatalf("place %d holds %d", place, at)
		}
	}
}

// The universes' numbering and its inverse at their ends, where a square root could round.
func TestOlderPairsOfLargeWorlds(t *testing.T) {
	t.Parallel()
	u := universe{older: true, count: math.MaxInt32}
	for _, i := range []uint64{1, 2, 3, 1 << 20, 94_906_267, math.MaxInt32 - 1} {
		for _, j := range []uint64{0, i - 1} {
			source, target := u.pair(i*(i-1)/2 + j)
			if uint64(source) != i || uint64(target) != j {
				t.Errorf("pair (%d, %d) came back as (%d, %d)", i, j, source, target)
			}
		}
	}
}

func TestFieldsHaveTheirShares(t *testing.T) {
	t.Parallel()
	var total float64
	for _, f := range FieldsOfStudy() {
		total += f.Share
	}
	if math.Abs(total-100) > 1e-9 {
		t.Errorf("the paper's shares add up to %v%%", total)
	}
	for _, random := range []bool{false, true} {
		texts := drawTexts(Settings{Nodes: 26_000, RandomFields: random}.WithDefaults())
		fields, areas, both := make(map[int32]float64), make(map[int32]float64), 0.
		for _, text := range texts {
			fields[text.field]++
			areas[text.area]++
			if text.field == text.area {
				both++
			}
		}
		var chance float64
		for k, f := range FieldsOfStudy() {
			want := f.Share / 100 * 26_000
			if math.Abs(fields[int32(k)]-want) > 1 || math.Abs(areas[int32(k)]-want) > 1 {
				t.Errorf("%s has %v nodes and %v texts, want %.1f", f.Name, fields[int32(k)], areas[int32(k)], want)
			}
			chance += want * want / 26_000
		}
		if random && math.Abs(both-chance) > 4*math.Sqrt(chance) || !random && both != 26_000 {
			t.Errorf("random %t: %v texts are of their field, %v by chance", random, both, chance)
		}
	}
}

func TestApportion(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		src := rand.New(rand.NewPCG(seed, 0))
		fields := make([]Field, 1+src.IntN(30))
		var total float64
		for k := range fields {
			if src.IntN(3) > 0 {
				fields[k].Share = math.Exp(4 * src.NormFloat64())
			}
			total += fields[k].Share
		}
		nodes := len(fields) + src.IntN(1000)
		sum := 0
		counts := apportion(fields, nodes)
		for k, count := range counts {
			sum += count
			if count < 1 {
				t.Fatalf("seed %d: field %d has %d nodes", seed, k, count)
			}
			exact := fields[k].Share / total * float64(nodes)
			if count > 1 && total > 0 && float64(count) > exact+1 {
				t.Fatalf("seed %d: field %d has %d nodes for a share of %.2f", seed, k, count, exact)
			}
		}
		if sum != nodes {
			t.Fatalf("seed %d: %d nodes of %d", seed, sum, nodes)
		}
	}
	huge := apportion([]Field{{"a", math.MaxFloat64}, {"b", math.MaxFloat64}}, 10)
	if huge[0] != 5 || huge[1] != 5 {
		t.Errorf("two equal shares gave %v", huge)
	}
}

// The expected AUC against the sum over all pairs of pairs that defines it.
func TestExpectedAUC(t *testing.T) {
	t.Parallel()
	src := rand.New(rand.NewPCG(1, 2))
	scores := make([]float32, 60)
	for k := range scores {
		scores[k] = float32(src.IntN(20)) // with ties
	}
	c, err := newCalibration(scores, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ceiling := range []float64{1, .6} {
		c.try(2, -1)
		var above, pairs float64
		for p := range scores {
			for q := range scores {
				if p == q {
					continue
				}
				yp, yq := ceiling*float64(c.chance[p]), ceiling*float64(c.chance[q])
				pairs += yp * (1 - yq)
				switch {
				case c.scores[p] > c.scores[q]:
					above += yp * (1 - yq)
				case c.scores[p] == c.scores[q]:
					above += yp * (1 - yq) / 2
				}
			}
		}
		if got := c.auc(ceiling); math.Abs(got-above/pairs) > 1e-9 {
			t.Errorf("ceiling %v: AUC %v, want %v", ceiling, got, above/pairs)
		}
	}
}

func TestCalibrationSolves(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestViolationsAreTheSameWhateverTheThreads has the same goroutines")
	src := rand.New(rand.NewPCG(3, 4))
	scores := make([]float32, 5000)
	for k := range scores {
		scores[k] = float32(7 + 1e-3*src.NormFloat64())
	}
	logistic := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	for name, at := range map[string]func(float64) float64{
		Logit: logistic, Probit: responses[Probit].at, Cauchit: responses[Cauchit].at,
	} {
		for _, rate := range []float64{.001, .02, .5, .9} {
			for _, auc := range []float64{.51, .75, .97, .999} {
				if name != Logit && (rate < .01 || auc > .98) {
					continue // the tails of a Cauchy distribution alone hold more links than that
				}
				c, err := newCalibration(scores, responses[name])
				if err != nil {
					t.Fatal(err)
				}
				scale, bias, err := c.solve(context.Background(), rate, auc)
				if err != nil {
					t.Fatal(name, err)
				}
				var mean float64
				for _, x := range scores {
					mean += at(scale*float64(x)+bias) / float64(len(scores))
				}
				if math.Abs(mean-rate) > 1e-4*rate {
					t.Errorf("%s: rate %v, AUC %v: mean y is %v", name, rate, auc, mean)
				}
				if got := c.auc(1); math.Abs(got-auc) > 1e-5 {
					t.Errorf("%s: rate %v, AUC %v: AUC is %v", name, rate, auc, got)
				}
			}
		}
	}
}

// A coin is fair over the pairs of a row, of a column, and bit by bit over pairs that differ little.
func TestCoin(t *testing.T) {
	t.Parallel()
	c := newCoin(1, exposureStream)
	const n = 100_000
	for name, pair := range map[string]func(k int32) (int32, int32){
		"row":      func(k int32) (int32, int32) { return 5, k },
		"column":   func(k int32) (int32, int32) { return k, 5 },
		"diagonal": func(k int32) (int32, int32) { return k, k + 1 },
	} {
		var mean, serial, before float64
		for k := range int32(n) {
			x := c.toss(pair(k)) - .5
			mean += x / n
			serial += 12 * x * before / n
			before = x
		}
		if bound := 4 / math.Sqrt(12*n); math.Abs(mean) > bound {
			t.Errorf("%s: mean is %v from ½, at most %v by chance", name, mean, bound)
		}
		if bound := 4 / math.Sqrt(n); math.Abs(serial) > bound {
			t.Errorf("%s: serial correlation is %v, at most %v by chance", name, serial, bound)
		}
	}
}

// effectiveDimension is the participation ratio of the covariance C of the products h_i⊙h_j: how many
// equal directions would vary as much, (tr C)²/tr C².
func effectiveDimension(w *World, pairs int) float64 {
	n, rows := w.graph.Len(), kern.MatrixOf(w.graph.Vectors())
	dim := w.graph.Vectors().Dim()
	src := rand.New(rand.NewPCG(1, 2))
	mean, products := make([]float64, dim), make([][]float64, pairs)
	for k := range products {
		i := src.IntN(n)
		a, b := rows.Row(i), rows.Row((i+1+src.IntN(n-1))%n)
		products[k] = make([]float64, dim)
		for d := range products[k] {
			products[k][d] = float64(a[d]) * float64(b[d])
			mean[d] += products[k][d] / float64(pairs)
		}
	}
	var trace, squares float64
	for d := range dim {
		for e := range dim {
			var c float64
			for _, x := range products {
				c += (x[d] - mean[d]) * (x[e] - mean[e])
			}
			c /= float64(pairs)
			squares += c * c
			if d == e {
				trace += c
			}
		}
	}
	return trace * trace / squares
}

func TestSpectrum(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for _, test := range []struct{ spectrum, want float64 }{
		{0, 32}, // the number of coordinates
		{.25, math.Pow(4.05850, 2) / 1.61417},
		{.5, math.Pow(1.61417, 2) / 1.08231}, // Σk⁻² and Σk⁻⁴ to 32, at .25 Σk⁻¹ and Σk⁻²
	} {
		settings := Settings{Nodes: 1500, Dim: 32, Spectrum: test.spectrum, FieldShare: 1e-6, TopicShare: 1e-6}
		w, err := New(t.Context(), settings)
		if err != nil {
			t.Fatal(err)
		}
		products := settings.WithDefaults()
		products.Spectrum *= 2 // the mean squares of products fall twice as fast as those of coordinates
		if got := newSpectrum(products).effective(); math.Abs(got-test.want) > 1e-3*test.want {
			t.Errorf("spectrum %v: the formula gives %v, want %v", test.spectrum, got, test.want)
		}
		if got := effectiveDimension(w, 8_000); math.Abs(got-test.want) > .12*test.want {
			t.Errorf("spectrum %v: the products have %v effective dimensions, want %v", test.spectrum, got, test.want)
		}
		var length float64
		for i := range 1500 {
			for _, x := range kern.MatrixOf(w.graph.Vectors()).Row(i)[:32] {
				length += float64(x) * float64(x) / 1500
			}
		}
		if math.Abs(length-1) > .03 {
			t.Errorf("spectrum %v: mean squared length %v", test.spectrum, length)
		}
	}
}

// The correlation is that of the normal variables behind the coins, which stay uniform.
func TestDependShowsAsCorrelation(t *testing.T) {
	t.Parallel()
	const n = 20_000
	show, want := newCoin(1, exposureStream), newCoin(1, relevanceStream)
	for _, correlation := range []float64{-.9, -.2, .4, .8} {
		var mean, square, product float64
		for k := range int32(n) {
			u := show.toss(k, 0)
			v := depend(u, want.toss(k, 0), correlation)
			y := normal.Quantile(v)
			mean += y / n
			square += y * y / n
			product += y * normal.Quantile(u) / n
		}
		if math.Abs(mean) > 4/math.Sqrt(n) || math.Abs(square-1) > 4*math.Sqrt(2./n) ||
			math.Abs(product-correlation) > 4*math.Sqrt(2./n) {
			t.Errorf("correlation %v shows as %v, with mean %v and mean square %v", correlation, product, mean, square)
		}
	}
}
