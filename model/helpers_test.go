package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"unseen/graph"
)

// newRand returns a source whose seed is printed when the test fails.
func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// randomNodes are n nodes with vectors of dimension d in a few fields, the last of which is empty.
func randomNodes(t testing.TB, rng *rand.Rand, n, d, fields int, half bool) Nodes {
	t.Helper()
	allocate := graph.NewVectors
	if half {
		allocate = graph.NewHalfVectors
	}
	vectors, err := allocate(n, d)
	must(t, err)
	nodes := Nodes{Vectors: vectors, FieldCount: fields, Activity: &Activities{mean: 2, deviation: .5}}
	row := make([]float32, d)
	for i := range n {
		for k := range row {
			row[k] = float32(rng.NormFloat64())
		}
		must(t, vectors.Set(int32(i), row))
		nodes.Fields = append(nodes.Fields, uint16(rng.IntN(fields-1)))
		nodes.Popularity = append(nodes.Popularity, float32(math.Log1p(float64(rng.IntN(50)))))
		nodes.Age = append(nodes.Age, 30*rng.Float32())
		nodes.Activity.When = append(nodes.Activity.When, int64(3600*(i%5)))
		nodes.Activity.Links = append(nodes.Activity.Links, float32(rng.NormFloat64()))
	}
	for f := range fields {
		nodes.FieldNames = append(nodes.FieldNames, fmt.Sprint("field ", f))
	}
	return nodes
}

// vector returns a node's vector in float64.
func vector(n Nodes, i int32) []float64 {
	row := make([]float32, n.Vectors.Dim())
	n.Vectors.Load(row, i)
	return widened(row)
}

func widened(xs []float32) []float64 {
	wide := make([]float64, len(xs))
	for k, x := range xs {
		wide[k] = float64(x)
	}
	return wide
}

func dot(a, b []float64) float64 {
	s := 0.0
	for k := range a {
		s += a[k] * b[k]
	}
	return s
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// formula is a model's logit by its definition, in float64 and pair by pair.
type formula func(n Nodes, p []float64, i, j int32) float64

// specimen is a model under test: how it is made and what it should compute.
type specimen struct {
	name string
	make func(Nodes) (PairModel, error)
	want formula
}

const (
	testRank      = 3
	testHidden    = 5
	testBonus     = .75
	testFieldRank = 2
)

var specimens = []specimen{
	{"diagonal", linkOf("diagonal"), wantDiagonal},
	{"diagonal-field", linkOf("diagonal-field"), wantDiagonalField},
	{"low-rank", linkOf("low-rank"), wantLowRank},
	{"mlp", linkOf("mlp"), func(n Nodes, p []float64, i, j int32) float64 { return wantMLP(n, p, i, j, false, false) }},
	{"mlp directed", func(n Nodes) (PairModel, error) { return NewMLP(n, testHidden, true) },
		func(n Nodes, p []float64, i, j int32) float64 { return wantMLP(n, p, i, j, true, false) }},
	{"cosine", linkOf("cosine"), wantCosine},
	{"factors", linkOf("factors"), wantFactors},
	{"diagonal+bonus", linkOf("diagonal+bonus"), wantBonus(wantDiagonal)},
	{"cosine+bonus", linkOf("cosine+bonus"), wantBonus(wantCosine)},

	{"field-matrix", propensityOf("field-matrix"), wantFieldMatrix},
	{"low-rank-fields", propensityOf("low-rank-fields"), wantLowRankFields},
	{"propensity mlp", propensityOf("mlp"), func(n Nodes, p []float64, i, j int32) float64 {
		return wantMLP(n, p, i, j,
			false, true)
	}},
	{"propensity mlp directed", func(n Nodes) (PairModel, error) { return NewFieldMLP(n, testHidden, true) },
		func(n Nodes, p []float64, i, j int32) float64 { return wantMLP(n, p, i, j, true, true) }},
	{"known", propensityOf("known"), wantKnown},
	{"constant", propensityOf("constant"), wantConstant},
	{"field-matrix+popularity", propensityOf("field-matrix+popularity"), wantTerms(wantFieldMatrix, Popularity)},
	{"field-matrix+popularity+age", propensityOf("field-matrix+popularity+age"),
		wantTerms(wantFieldMatrix, Popularity, Age)},
	{"known+age", propensityOf("known+age"), wantTerms(wantKnown, Age)},
	{"field-matrix+person+item+activity", propensityOf("field-matrix+person+item+activity"), wantEffects},
	{"constant+person+item+age", propensityOf("constant+person+item+age"),
		func(n Nodes, p []float64, i, j int32) float64 {
			return p[i] + p[n.Len()+int(j)] + wantTerms(wantConstant, Age)(n, p[2*n.Len():], i, j)
		}},
	{"constant+popularity", propensityOf("constant+popularity"), wantTerms(wantConstant, Popularity)},
}

func linkOf(kind string) func(Nodes) (PairModel, error) {
	return func(n Nodes) (PairModel, error) {
		return NewLink(kind, n, LinkOptions{Rank: testRank, Hidden: testHidden, Bonus: testBonus})
	}
}

func propensityOf(kind string) func(Nodes) (PairModel, error) {
	return func(n Nodes) (PairModel, error) {
		return NewPropensity(kind, n, PropensityOptions{
			Rank: testFieldRank, Hidden: testHidden, Propensity: .25, Rest: .1,
			Exposures: []KnownExposure{{3, 1, 1}, {0, 1, .6}, {3, 0, 0}, {1, 0, .9}},
		})
	}
}

func wantDiagonal(n Nodes, p []float64, i, j int32) float64 {
	a, b := vector(n, i), vector(n, j)
	z := p[len(a)]
	for k := range a {
		z += p[k] * a[k] * b[k]
	}
	return z
}

func wantDiagonalField(n Nodes, p []float64, i, j int32) float64 {
	d := n.Vectors.Dim()
	return wantDiagonal(n, p, i, j) + wantFieldMatrix(n, p[d+1:], i, j)
}

func wantLowRank(n Nodes, p []float64, i, j int32) float64 {
	d := n.Vectors.Dim()
	z := p[2*testRank*d]
	for r := range testRank {
		z += dot(p[r*d:][:d], vector(n, i)) * dot(p[(testRank+r)*d:][:d], vector(n, j))
	}
	return z
}

func wantMLP(n Nodes, p []float64, i, j int32, directed, fields bool) float64 {
	a, b := vector(n, i), vector(n, j)
	x := make([]float64, 2*len(a))
	for k := range a {
		x[k], x[len(a)+k] = a[k]*b[k], a[k]-b[k]
		if !directed {
			x[len(a)+k] = math.Abs(x[len(a)+k])
		}
	}
	w, rest := p[:testHidden*len(x)], p[testHidden*len(x):]
	c, rest := rest[:testHidden], rest[testHidden:]
	var s, t []float64
	if fields {
		s, rest = rest[:n.FieldCount*testHidden], rest[n.FieldCount*testHidden:]
		t, rest = rest[:n.FieldCount*testHidden], rest[n.FieldCount*testHidden:]
	}
	z := rest[testHidden]
	for u := range testHidden {
		sum := dot(w[u*len(x):][:len(x)], x) + c[u]
		if fields {
			sum += s[int(n.Fields[i])*testHidden+u] + t[int(n.Fields[j])*testHidden+u]
		}
		z += rest[u] * sum * sigmoid(sum)
	}
	return z
}

func wantCosine(n Nodes, p []float64, i, j int32) float64 {
	a, b := vector(n, i), vector(n, j)
	return p[0]*dot(a, b)/math.Sqrt(dot(a, a)*dot(b, b)) + p[1]
}

// wantFactors is for nodes that are source and target alike.
func wantFactors(n Nodes, p []float64, i, j int32) float64 {
	count, d, r := n.Len(), n.Dim(), testRank
	u, v, a := p[int(i)*r:][:r], p[(count+int(j))*r:][:r], p[2*count*r:]
	effects := a[r*d:]
	z := effects[i] + effects[count+int(j)] + effects[2*count]
	for k := range r {
		factor := v[k]
		if d > 0 {
			factor += dot(a[k*d:][:d], vector(n, j))
		}
		z += u[k] * factor
	}
	return z
}

func wantBonus(inside formula) formula {
	return func(n Nodes, p []float64, i, j int32) float64 {
		z := inside(n, p, i, j)
		if n.Fields[i] != n.Fields[j] {
			z += testBonus
		}
		return z
	}
}

func wantFieldMatrix(n Nodes, p []float64, i, j int32) float64 {
	return p[int(n.Fields[i])*n.FieldCount+int(n.Fields[j])]
}

func wantLowRankFields(n Nodes, p []float64, i, j int32) float64 {
	f, g, c := int(n.Fields[i]), int(n.Fields[j]), n.FieldCount
	return dot(p[f*testFieldRank:][:testFieldRank], p[(c+g)*testFieldRank:][:testFieldRank]) +
		p[2*c*testFieldRank+f] + p[2*c*testFieldRank+c+g] + p[2*c*testFieldRank+2*c]
}

func wantKnown(_ Nodes, _ []float64, i, j int32) float64 {
	known, ok := map[[2]int32]float64{{3, 1}: 40, {0, 1}: math.Log(.6 / .4), {3, 0}: -40,
		{1, 0}: math.Log(.9 / .1)}[[2]int32{i, j}]
	if !ok {
		return math.Log(.1 / .9)
	}
	return known
}

func wantConstant(Nodes, []float64, int32, int32) float64 { return math.Log(.25 / .75) }

func wantTerms(inside formula, terms ...Term) formula {
	return func(n Nodes, p []float64, i, j int32) float64 {
		slopes := p[len(p)-len(terms):]
		s := inside(n, p[:len(p)-len(terms)], i, j)
		for k, term := range terms {
			if term == Popularity {
				s += slopes[k] * float64(n.Popularity[j])
			} else {
				s += slopes[k] * (float64(n.Age[j]) - float64(n.Age[i])) / 10
			}
		}
		return s
	}
}

// wantEffects is of fields, effects of every node as source and as target, and activity.
func wantEffects(n Nodes, p []float64, i, j int32) float64 {
	effects := p[n.FieldCount*n.FieldCount:]
	slopes := effects[2*n.Len():]
	hours := math.Max(0, float64(n.Activity.When[i]-n.Activity.When[j])/3600)
	age, links := (math.Log(1+hours)-2)/.5, float64(n.Activity.Links[i])
	return wantFieldMatrix(n, p, i, j) + effects[i] + effects[n.Len()+int(j)] +
		slopes[0]*age + slopes[1]*(age*age-1) + slopes[2]*links + slopes[3]*links*age
}

// everySpecimen runs a test for every model, on float32 and on float16 vectors.
func everySpecimen(t *testing.T, test func(t *testing.T, rng *rand.Rand, n Nodes, m PairModel, want formula)) {
	for _, s := range specimens {
		for _, half := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/half=%v", s.name, half), func(t *testing.T) {
				rng := newRand(t, 7)
				n := randomNodes(t, rng, 25, 37, 4, half)
				m, err := s.make(n)
				must(t, err)
				test(t, rng, n, m, s.want)
			})
		}
	}
}

// batches are pairs in every arrangement that models tell apart.
func batches(rng *rand.Rand, nodes int) map[string]Batch {
	random := func(lengths ...int) (b Batch) {
		for _, length := range lengths {
			i := int32(rng.IntN(nodes))
			for range length {
				b.Sources, b.Targets = append(b.Sources, i), append(b.Targets, int32(rng.IntN(nodes)))
			}
		}
		return b
	}
	var ones []int
	for range 2*block + 7 {
		ones = append(ones, 1)
	}
	return map[string]Batch{
		"empty":     {},
		"one pair":  random(1),
		"ungrouped": random(ones...),
		"grouped":   random(90, 70, 110),
		"mixed":     random(3, 1, 60, 2, 2, 1, 30),
	}
}

// start fills the parameters with where training begins, of either half.
func start(m PairModel, params []float32, src rand.Source) {
	switch m := m.(type) {
	case LinkModel:
		m.Start(params, src)
	case PropensityModel:
		m.StartAt(params, StartPropensity, src)
	}
}

func randomParams(rng *rand.Rand, m PairModel) []float32 {
	params := make([]float32, m.Size())
	normal(params, .4, rng)
	return params
}

func randomNumbers(rng *rand.Rand, n int) []float32 {
	xs := make([]float32, n)
	normal(xs, 1, rng)
	return xs
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// wantError checks that an error is of a kind and names what it must.
func wantError(tb testing.TB, err, kind error, names ...string) {
	tb.Helper()
	if !errors.Is(err, kind) {
		tb.Errorf("got error %v, want one that is %q", err, kind)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			tb.Errorf("error %q does not say %q", err, name)
		}
	}
}

// wantClose checks numbers to a tolerance relative to the largest of them.
func wantClose(tb testing.TB, what string, got []float32, want []float64, tolerance float64) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Errorf("%s: %d numbers, want %d", what, len(got), len(want))
		return
	}
	largest := 1.0
	for _, x := range want {
		largest = max(largest, math.Abs(x))
	}
	for k := range got {
		if !(math.Abs(float64(got[k])-want[k]) <= tolerance*largest) {
			tb.Errorf("%s: number %d is %v, want %v", what, k, got[k], want[k])
			return
		}
	}
}
