package model

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"unseen/internal/kern"
	"unseen/internal/racetest"
)

func TestLogitsAreTheFormula(t *testing.T) {
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, want formula) {
		params := randomParams(rng, m)
		for name, b := range batches(rng, n.Len()) {
			got := make([]float32, b.Len()+1)
			got[b.Len()] = 77
			m.Logits(got, params, b)
			if got[b.Len()] != 77 {
				t.Errorf("%s: the number behind the batch was overwritten", name)
			}
			expected := make([]float64, b.Len())
			for k := range expected {
				expected[k] = want(n, widened(params), b.Sources[k], b.Targets[k])
			}
			wantClose(t, name, got[:b.Len()], expected, 1e-5)
		}
	})
}

// The formulas are differentiated in float64 by central differences, whose error is about 1e−8.
func TestGradientsByFiniteDifferences(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, want formula) {
		params := randomParams(rng, m)
		for name, b := range batches(rng, n.Len()) {
			d := randomNumbers(rng, b.Len())
			before := randomNumbers(rng, m.Size())
			got := slices.Clone(before)
			m.Backward(got, params, b, d)
			wide := widened(params)
			total := func() float64 {
				s := 0.0
				for k, x := range d {
					s += float64(x) * want(n, wide, b.Sources[k], b.Targets[k])
				}
				return s
			}
			const step = 1e-4
			var looked []float32
			var expected []float64
			for _, q := range lookAt(rng, m.Size()) {
				at := wide[q]
				wide[q] = at + step
				up := total()
				wide[q] = at - step
				looked = append(looked, got[q])
				expected = append(expected, float64(before[q])+(up-total())/(2*step))
				wide[q] = at
			}
			wantClose(t, name, looked, expected, 1e-5)
		}
	})
}

// lookAt chooses parameters to differentiate by: all of few, else a random thirty and the last ten,
// among which are the biases.
func lookAt(rng *rand.Rand, size int) []int {
	order := rng.Perm(size)
	if size > 40 {
		order = order[:30]
		for q := size - 10; q < size; q++ {
			order = append(order, q)
		}
	}
	return order
}

func TestHowABatchIsCutDoesNotMatter(t *testing.T) {
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, _ formula) {
		params := randomParams(rng, m)
		for name, b := range batches(rng, n.Len()) {
			d := randomNumbers(rng, b.Len())
			whole, wholeGrad := make([]float32, b.Len()), make([]float32, m.Size())
			m.Logits(whole, params, b)
			m.Backward(wholeGrad, params, b, d)
			parts, partsGrad := make([]float32, b.Len()), make([]float32, m.Size())
			for from := 0; from < b.Len(); {
				to := min(from+1+rng.IntN(80), b.Len())
				m.Logits(parts[from:to], params, b.slice(from, to))
				m.Backward(partsGrad, params, b.slice(from, to), d[from:to])
				from = to
			}
			wantClose(t, name+" logits", parts, widened(whole), 1e-5)
			wantClose(t, name+" gradient", partsGrad, widened(wholeGrad), 1e-5)
		}
	})
}

func TestGroupedAndUngroupedAgree(t *testing.T) {
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, _ formula) {
		params := randomParams(rng, m)
		b := batches(rng, n.Len())["grouped"]
		if !b.grouped() {
			t.Fatal("the batch is not grouped")
		}
		d := randomNumbers(rng, b.Len())
		order := rng.Perm(b.Len())
		shuffled := Batch{make([]int32, b.Len()), make([]int32, b.Len())}
		shuffledD := make([]float32, b.Len())
		for k, at := range order {
			shuffled.Sources[k], shuffled.Targets[k], shuffledD[k] = b.Sources[at], b.Targets[at], d[at]
		}
		if shuffled.grouped() {
			t.Fatal("the shuffled batch is still grouped")
		}
		grouped, ungrouped := make([]float32, b.Len()), make([]float32, b.Len())
		m.Logits(grouped, params, b)
		m.Logits(ungrouped, params, shuffled)
		back := make([]float64, b.Len())
		for k, at := range order {
			back[at] = float64(ungrouped[k])
		}
		wantClose(t, "logits", grouped, back, 1e-5)
		groupedGrad, ungroupedGrad := make([]float32, m.Size()), make([]float32, m.Size())
		m.Backward(groupedGrad, params, b, d)
		m.Backward(ungroupedGrad, params, shuffled, shuffledD)
		wantClose(t, "gradient", groupedGrad, widened(ungroupedGrad), 1e-5)
	})
}

func TestManyGoroutinesGiveTheSameBits(t *testing.T) {
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, _ formula) {
		params := randomParams(rng, m)
		b := batches(rng, n.Len())["mixed"]
		d := randomNumbers(rng, b.Len())
		work := func() ([]float32, []float32) {
			out, grad := make([]float32, b.Len()), make([]float32, m.Size())
			m.Logits(out, params, b)
			m.Backward(grad, params, b, d)
			return out, grad
		}
		wantOut, wantGrad := work()
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 5 {
					if out, grad := work(); !slices.Equal(out, wantOut) || !slices.Equal(grad, wantGrad) {
						t.Error("another goroutine got other numbers")
					}
				}
			})
		}
		group.Wait()
	})
}

func TestTrainingAllocatesNothing(t *testing.T) {
	if racetest.Enabled {
		t.Skip("under the race detector sync.Pool forgets at random")
	}
	for _, half := range []bool{false, true} {
		if half && kern.Variant() == "go" {
			continue // the plain kernels make room for a row
		}
		rng := newRand(t, 1)
		n := randomNodes(t, rng, 25, 37, 4, half)
		for _, kind := range []string{"diagonal", "diagonal-field", "factors"} {
			m, err := NewLink(kind, n, LinkOptions{})
			must(t, err)
			params, grad := randomParams(rng, m), make([]float32, m.Size())
			for name, b := range batches(rng, n.Len()) {
				out := randomNumbers(rng, b.Len())
				if count := testing.AllocsPerRun(100, func() {
					m.Logits(out, params, b)
					m.Backward(grad, params, b, out)
				}); count != 0 {
					t.Errorf("%s, %s, half=%v: %v allocations", kind, name, half, count)
				}
			}
		}
	}
}

func TestPartsAreAllParameters(t *testing.T) {
	everySpecimen(t, func(t *testing.T, _ *rand.Rand, _ Nodes, m PairModel, _ formula) {
		size := 0
		for _, part := range m.(Layout).Parts() {
			size += part.Size()
		}
		if size != m.Size() {
			t.Errorf("the parts have %d parameters, the model %d", size, m.Size())
		}
	})
}

func TestStartsAreSmallAndReproducible(t *testing.T) {
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, _ formula) {
		started := func(seed uint64) []float32 {
			params := randomParams(rng, m)
			start(m, params, rand.NewPCG(seed, 0))
			return params
		}
		params := started(1)
		if !slices.Equal(params, started(1)) {
			t.Error("the same seed starts elsewhere")
		}
		b := batches(rng, n.Len())["mixed"]
		out := make([]float32, b.Len())
		m.Logits(out, params, b)
		for k, x := range out {
			if !(math.Abs(float64(x)) <= maxLogit) {
				t.Fatalf("logit %d starts at %v", k, x)
			}
		}
	})
}

// Vectors of any length must start hidden layers and products at the same scale.
func TestRandomStartsFollowTheVectors(t *testing.T) {
	for _, scale := range []float32{.01, 1, 100} {
		rng := newRand(t, 5)
		n := randomNodes(t, rng, 200, 64, 3, false)
		for i := range n.Len() {
			row := kern.MatrixOf(n.Vectors).Row(i)
			for k := range row {
				row[k] *= scale
			}
		}
		var b Batch
		for i := range int32(n.Len() - 1) {
			b.Sources, b.Targets = append(b.Sources, i), append(b.Targets, i+1)
		}
		z := make([]float32, b.Len())
		for _, kind := range []string{"low-rank", "mlp", "factors"} {
			m, err := NewLink(kind, n, LinkOptions{})
			must(t, err)
			params := make([]float32, m.Size())
			m.Start(params, rand.NewPCG(2, 0))
			m.Logits(z, params, b)
			square := 0.0
			for _, x := range z {
				square += float64(x) * float64(x) / float64(len(z))
			}
			if deviation := math.Sqrt(square); deviation < .01 || deviation > .3 {
				t.Errorf("%s on vectors scaled by %v starts at z = ±%v", kind, scale, deviation)
			}
		}
	}
}

func TestPropensitiesStartAnywhere(t *testing.T) {
	rng := newRand(t, 3)
	n := randomNodes(t, rng, 25, 37, 4, false)
	b := batches(rng, n.Len())["ungrouped"]
	s := make([]float32, b.Len())
	for _, kind := range []string{"field-matrix", "low-rank-fields", "mlp", "field-matrix+popularity+age"} {
		m, err := NewPropensity(kind, n, PropensityOptions{})
		must(t, err)
		params := randomParams(rng, m)
		for _, propensity := range []float64{.1, .3, .9} {
			m.StartAt(params, propensity, rand.NewPCG(1, 0))
			m.Logits(s, params, b)
			mean := 0.0
			for _, x := range s {
				mean += sigmoid(float64(x)) / float64(len(s))
			}
			if math.Abs(mean-propensity) > .05 {
				t.Errorf("%s starts at %v, want %v", kind, mean, propensity)
			}
		}
	}
}

// A link model is no propensity model, and the other way round: the compiler refuses one for the other.
func TestHalvesAreDifferentTypes(t *testing.T) {
	t.Parallel()
	link, propensity := reflect.TypeFor[LinkModel](), reflect.TypeFor[PropensityModel]()
	if link.AssignableTo(propensity) || propensity.AssignableTo(link) {
		t.Error("a variable of one half takes the other")
	}
	everySpecimen(t, func(t *testing.T, _ *rand.Rand, _ Nodes, m PairModel, _ formula) {
		if made := reflect.TypeOf(m); made.AssignableTo(link) == made.AssignableTo(propensity) {
			t.Errorf("%v is a link model: %v; a propensity model: %v", made, made.AssignableTo(link),
				made.AssignableTo(propensity))
		}
	})
}

// The terms of a dense propensity add up to its logits.
func TestTerms(t *testing.T) {
	t.Parallel()
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, _ formula) {
		propensity, ok := m.(PropensityModel)
		if !ok {
			return
		}
		params := randomParams(rng, m)
		terms, dense := TermsOf(propensity, params)
		base, more, _ := strings.Cut(m.Kind(), "+")
		if dense == (base == "known" || base == "mlp" || strings.Contains(more, string(Activity))) {
			t.Errorf("%s has terms: %v", m.Kind(), dense)
		}
		if !dense {
			return
		}
		b := batches(rng, n.Len())["mixed"]
		s := make([]float32, b.Len())
		m.Logits(s, params, b)
		for k, i := range b.Sources {
			j := b.Targets[k]
			sum := terms.Constant
			if terms.Fields != nil {
				sum += terms.Fields[n.cell(i, j)]
			}
			if terms.Source != nil {
				sum += terms.Source[i]
			}
			if terms.Target != nil {
				sum += terms.Target[j]
			}
			if math.Abs(float64(sum-s[k])) > 1e-5*(1+math.Abs(float64(s[k]))) {
				t.Fatalf("%s: the terms of pair %d add up to %v, its logit is %v", m.Kind(), k, sum, s[k])
			}
		}
	})
}

// The slopes of pairs, added up by terms, come to the gradient that pair after pair has; γ's slope is that of the
// link.
func TestBackTerms(t *testing.T) {
	t.Parallel()
	everySpecimen(t, func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, _ formula) {
		propensity, ok := m.(PropensityModel)
		if !ok {
			return
		}
		params := randomParams(rng, m)
		if _, dense := TermsOf(propensity, params); !dense {
			return
		}
		b := batches(rng, n.Len())["mixed"]
		slopes := TermSlopes{make([]float64, n.FieldCount*n.FieldCount), 3, make([]float64, n.Len()),
			make([]float64, n.Len())}
		ds, want := make([]float32, b.Len()), make([]float32, m.Size())
		for k, i := range b.Sources {
			j := b.Targets[k]
			ds[k] = float32(rng.NormFloat64())
			slopes.Fields[n.cell(i, j)] += float64(ds[k])
			slopes.Source[i] += float64(ds[k])
			slopes.Target[j] += float64(ds[k])
		}
		m.Backward(want, params, b, ds)
		if _, at := LinkSlope(propensity, params); at >= 0 {
			want[at] += 3
		}
		grad := make([]float64, m.Size())
		propensity.(LearnedTerms).BackTerms(grad, params, slopes)
		for k, x := range grad {
			if math.Abs(x-float64(want[k])) > 1e-4*(1+math.Abs(x)) {
				t.Fatalf("%s: slope %d of %d by terms is %v, by pairs %v", m.Kind(), k, len(grad), x, want[k])
			}
		}
	})
}

func TestDirection(t *testing.T) {
	rng := newRand(t, 4)
	n := randomNodes(t, rng, 10, 8, 3, false)
	n.Fields[0], n.Fields[1] = 0, 1
	there, back := Batch{[]int32{0}, []int32{1}}, Batch{[]int32{1}, []int32{0}}
	for kind, directed := range map[string]bool{"diagonal": false, "diagonal-field": true, "low-rank": true,
		"mlp": false, "cosine": false, "factors": true} {
		m, err := NewLink(kind, n, LinkOptions{})
		must(t, err)
		params := randomParams(rng, m)
		var z, w [1]float32
		m.Logits(z[:], params, there)
		m.Logits(w[:], params, back)
		if (math.Abs(float64(z[0]-w[0])) > 1e-4) != directed {
			t.Errorf("%s: z_ij = %v, z_ji = %v", kind, z[0], w[0])
		}
	}
}

func TestRetrievalAgreesWithLogits(t *testing.T) {
	for _, half := range []bool{false, true} {
		rng := newRand(t, 9)
		n := randomNodes(t, rng, 25, 37, 4, half)
		for _, kind := range []string{"diagonal", "diagonal-field", "low-rank", "diagonal+bonus",
			"diagonal-field+bonus", "low-rank+bonus", "factors", "factors+bonus"} {
			m, err := NewLink(kind, n, LinkOptions{})
			must(t, err)
			params := randomParams(rng, m)
			rows, err := m.(InnerProduct).Rows(params)
			must(t, err)
			q, offsets := make([]float32, rows.Dim()), make([]float32, 4)
			for i := range int32(n.Len()) {
				m.(InnerProduct).Query(q, offsets, params, i)
				var b Batch
				var want []float64
				for j := range int32(n.Len()) {
					b.Sources, b.Targets = append(b.Sources, i), append(b.Targets, j)
					want = append(want, dot(widened(q), vector(Nodes{Vectors: rows}, j))+float64(offsets[n.Fields[j]]))
				}
				z := make([]float32, b.Len())
				m.Logits(z, params, b)
				wantClose(t, kind, z, want, 1e-5)
				byVector, ok := m.(VectorQuery)
				if ok == strings.HasPrefix(kind, "factors") {
					t.Fatalf("%s judges new sources by their vectors: %v", kind, ok)
				} else if !ok {
					continue
				}
				if rows != n.Vectors {
					t.Fatalf("the rows of %s are not the vectors", kind)
				}
				again, others := make([]float32, 37), make([]float32, 4)
				row := make([]float32, 37)
				n.Vectors.Load(row, i)
				byVector.QueryOf(again, others, params, row, n.Fields[i])
				if !slices.Equal(again, q) || !slices.Equal(others, offsets) {
					t.Errorf("%s: the query of node %d is another by its vector and field", kind, i)
				}
			}
		}
		for _, kind := range []string{"mlp", "cosine", "mlp+bonus", "cosine+bonus"} {
			m, err := NewLink(kind, n, LinkOptions{})
			must(t, err)
			if _, ok := m.(InnerProduct); ok {
				t.Errorf("%s is no inner product", kind)
			}
		}
	}
}

func TestZeroVectors(t *testing.T) {
	rng := newRand(t, 2)
	n := randomNodes(t, rng, 5, 8, 3, false)
	clear(kern.MatrixOf(n.Vectors).Row(1))
	m, err := NewCosine(n)
	must(t, err)
	z := make([]float32, 1)
	m.Logits(z, []float32{3, .5}, Batch{[]int32{0}, []int32{1}})
	if z[0] != .5 {
		t.Errorf("z = %v with a vector of zeros, want b = .5", z[0])
	}
	for i := range n.Len() {
		clear(kern.MatrixOf(n.Vectors).Row(i))
	}
	for _, kind := range LinkKinds() {
		m, err := NewLink(kind, n, LinkOptions{})
		must(t, err)
		params := make([]float32, m.Size())
		m.Start(params, rand.NewPCG(1, 0))
		for k, p := range params {
			if math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
				t.Fatalf("%s: parameter %d starts at %v", kind, k, p)
			}
		}
	}
}

// Certainty must be harmless: σ(s), 1−σ(s), their inverses and squares are finite float32 numbers.
func TestCertaintyIsFinite(t *testing.T) {
	n := randomNodes(t, newRand(t, 1), 4, 3, 2, false)
	sure, err := NewConstant(1)
	must(t, err)
	known, err := NewKnown(n, []KnownExposure{{0, 1, 1}, {1, 0, 0}}, 0)
	must(t, err)
	b := Batch{[]int32{0, 1, 2}, []int32{1, 0, 3}}
	s := make([]float32, 3)
	for name, m := range map[string]PropensityModel{"constant": sure, "known": known} {
		m.Logits(s, nil, b)
		for k, x := range s {
			smallest := math.Exp(-2 * math.Abs(float64(x)))
			if math.Abs(float64(x)) != maxLogit || smallest < 0x1p-126 || 1/smallest > math.MaxFloat32 {
				t.Errorf("%s: logit %d is %v", name, k, x)
			}
		}
	}
	if sigmoid(maxLogit) != 1 {
		t.Error("π̂ = 1 is not certain")
	}
}
