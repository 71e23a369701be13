package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/graph"
)

func TestKindsNameThemselves(t *testing.T) {
	n := randomNodes(t, newRand(t, 1), 10, 8, 4, false)
	for _, base := range LinkKinds() {
		for _, suffix := range []string{"", "+bonus"} {
			m, err := NewLink(base+suffix, n, LinkOptions{})
			must(t, err)
			if m.Kind() != base+suffix {
				t.Errorf("%s calls itself %s", base+suffix, m.Kind())
			}
		}
	}
	for _, base := range PropensityKinds() {
		for _, suffix := range []string{"", "+popularity", "+age", "+popularity+age", "+age+popularity", "+text"} {
			m, err := NewPropensity(base+suffix, n, PropensityOptions{})
			must(t, err)
			if m.Kind() != base+suffix {
				t.Errorf("%s calls itself %s", base+suffix, m.Kind())
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	n := randomNodes(t, newRand(t, 1), 10, 40, 6, false)
	small := randomNodes(t, newRand(t, 1), 10, 3, 2, false)
	for _, c := range []struct {
		what string
		m    savedModel
		want any
	}{
		{"low-rank", made(NewLowRank(n, 0))(t), LinkOptions{Rank: 16}},
		{"low-rank of few dimensions", made(NewLowRank(small, 0))(t), LinkOptions{Rank: 3}},
		{"mlp", made(NewMLP(n, 0, true))(t), LinkOptions{Hidden: 32, Directed: true}},
		{"bonus", made(NewLink("diagonal+bonus", n, LinkOptions{}))(t).(savedModel), LinkOptions{Bonus: .5}},
		{"low-rank-fields", made(NewLowRankFields(n, 0))(t), PropensityOptions{Rank: 4}},
		{"low-rank-fields of few fields", made(NewLowRankFields(small, 0))(t), PropensityOptions{Rank: 2}},
		{"field mlp", made(NewFieldMLP(n, 0, false))(t), PropensityOptions{Hidden: 16}},
		{"constant", made(NewPropensity("constant", n, PropensityOptions{}))(t).(savedModel),
			PropensityOptions{Propensity: 1}},
	} {
		switch got := c.m.options().(type) {
		case LinkOptions:
			if got != c.want {
				t.Errorf("%s has %+v, want %+v", c.what, got, c.want)
			}
		case PropensityOptions:
			want := c.want.(PropensityOptions)
			if got.Rank != want.Rank || got.Hidden != want.Hidden || got.Directed != want.Directed ||
				got.Propensity != want.Propensity {
				t.Errorf("%s has %+v, want %+v", c.what, got, want)
			}
		}
	}
}

// made turns a result into a function of t that returns it or ends the test.
func made[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return x
	}
}

// A wrong setting is an error that names it.
//
// Long because it is one table.
func TestWrongSettings(t *testing.T) {
	n := randomNodes(t, newRand(t, 1), 10, 8, 4, false)
	bare, blind, short, misnamed, wild := n, n, n, n, n
	bare.Popularity, bare.Age, bare.Activity = nil, nil, nil
	blind.Vectors = nil
	short.Fields = n.Fields[:5]
	misnamed.FieldNames = []string{"unknown"}
	wild.FieldCount, wild.FieldNames = 2, nil
	wild.Fields = []uint16{0, 1, 2, 0, 0, 0, 0, 0, 0, 0}
	crowded := n
	crowded.FieldCount, crowded.FieldNames = 60_000, nil
	infinite := n
	infinite.Age = slices.Clone(n.Age)
	infinite.Age[3] = float32(math.Inf(1))

	link := func(kind string, n Nodes, o LinkOptions) func() (PairModel, error) {
		return func() (PairModel, error) { return NewLink(kind, n, o) }
	}
	propensity := func(kind string, n Nodes, o PropensityOptions) func() (PairModel, error) {
		return func() (PairModel, error) { return NewPropensity(kind, n, o) }
	}
	diagonal := made(NewDiagonal(n, false))(t)
	matrix := made(NewFieldMatrix(n))(t)
	covariates := made(NewCovariates(matrix, n, Age))(t)
	for _, c := range []struct {
		what  string
		make  func() (PairModel, error)
		kind  error
		names []string
	}{
		{"no such link", link("bilinear", n, LinkOptions{}), ErrKind, append(LinkKinds(), `"bilinear"`, "+bonus")},
		{"a bonus alone", link("+bonus", n, LinkOptions{}), ErrKind, nil},
		{"a bonus twice", link("mlp+bonus+bonus", n, LinkOptions{}), ErrKind, nil},
		{"no such propensity", propensity("fields", n, PropensityOptions{}), ErrKind,
			append(PropensityKinds(), `"fields"`, "+popularity", "+age")},
		{"no such term", propensity("known+fame", n, PropensityOptions{}), ErrOption,
			[]string{`"fame"`, "popularity", "age"}},
		{"a term twice", propensity("known+age+age", n, PropensityOptions{}), ErrOption, []string{"twice"}},
		{"a trailing plus", propensity("known+", n, PropensityOptions{}), ErrOption, nil},
		{"no popularity", propensity("field-matrix+popularity", bare, PropensityOptions{}), ErrShape,
			[]string{"popularity", "LogInDegree"}},
		{"no age", propensity("field-matrix+age", bare, PropensityOptions{}), ErrShape, []string{"age", "Ages"}},
		{"no activity", propensity("field-matrix+activity", bare, PropensityOptions{}), ErrShape,
			[]string{"activity", "ActivitiesOf"}},
		{"infinite age", propensity("field-matrix+age", infinite, PropensityOptions{}), ErrNotFinite,
			[]string{"node 3", "+Inf"}},
		{"no vectors", link("diagonal", blind, LinkOptions{}), ErrShape, []string{"encode"}},
		{"too many fields", link("diagonal-field", crowded, LinkOptions{}), ErrShape,
			[]string{"60000 fields", "merge"}},
		{"too many fields, matrix", propensity("field-matrix", crowded, PropensityOptions{}), ErrShape,
			[]string{"60000 fields", "low-rank-fields"}},
		{"no vectors, low-rank", link("low-rank", blind, LinkOptions{}), ErrShape, nil},
		{"no vectors, mlp", link("mlp", blind, LinkOptions{}), ErrShape, nil},
		{"no vectors, cosine", link("cosine", blind, LinkOptions{}), ErrShape, nil},
		{"no vectors, propensity", propensity("mlp", blind, PropensityOptions{}), ErrShape, nil},
		{"few fields", link("diagonal", short, LinkOptions{}), ErrShape, []string{"10 vectors", "5 fields"}},
		{"few names", propensity("field-matrix", misnamed, PropensityOptions{}), ErrShape, []string{"1 names for 4"}},
		{"field out of range", propensity("low-rank-fields", wild, PropensityOptions{}), ErrShape,
			[]string{"node 2 has field 2 of 2"}},
		{"rank", link("low-rank", n, LinkOptions{Rank: 9}), ErrOption, []string{"9", "1 to 8"}},
		{"negative rank", link("low-rank", n, LinkOptions{Rank: -1}), ErrOption, nil},
		{"field rank", propensity("low-rank-fields", n, PropensityOptions{Rank: 5}), ErrOption, []string{"1 to 4"}},
		{"hidden", link("mlp", n, LinkOptions{Hidden: 1 << 40}), ErrOption, nil},
		{"negative hidden", propensity("mlp", n, PropensityOptions{Hidden: -2}), ErrOption, []string{"-2"}},
		{"bonus", link("mlp+bonus", n, LinkOptions{Bonus: 41}), ErrOption, []string{"41"}},
		{"bonus that is no number", link("mlp+bonus", n, LinkOptions{Bonus: math.NaN()}), ErrOption, nil},
		{"constant", propensity("constant", n, PropensityOptions{Propensity: 1.5}), ErrOption, []string{"1.5"}},
		{"constant that is no number", propensity("constant", n, PropensityOptions{Propensity: math.NaN()}), ErrOption,
			nil},
		{"rest", propensity("known", n, PropensityOptions{Rest: -.5}), ErrOption, []string{"-0.5"}},
		{"known", propensity("known", n, PropensityOptions{Exposures: []KnownExposure{{1, 2, 2}}}), ErrOption,
			[]string{"from node 1 to 2"}},
		{"known twice", propensity("known", n,
			PropensityOptions{Exposures: []KnownExposure{{1, 2, .5}, {1, 3, 1}, {1, 2, .5}}}), ErrOption,
			[]string{"two", "from node 1 to 2"}},
		{"known elsewhere", propensity("known", n, PropensityOptions{Exposures: []KnownExposure{{1, 10, .5}}}),
			ErrShape,
			[]string{"10 of 10 nodes"}},
		{"known nowhere", propensity("known", n, PropensityOptions{Exposures: []KnownExposure{{-1, 2, .5}}}), ErrShape,
			[]string{"-1"}},
		{"bonus on a bonus", func() (PairModel, error) { return NewCrossBonus(made(NewCrossBonus(diagonal, 1))(t), 1) },
			ErrKind, nil},
		{"bonus on nothing", func() (PairModel, error) { return NewCrossBonus(nil, 1) }, ErrKind, nil},
		{"terms on terms", func() (PairModel, error) { return NewCovariates(covariates, n, Popularity) }, ErrKind,
			[]string{"at once"}},
		{"terms of other nodes", func() (PairModel, error) {
			return NewCovariates(matrix, randomNodes(t, newRand(t, 1), 11, 8, 4, false), Age)
		}, ErrShape, []string{"10 nodes", "11"}},
		{"no terms", func() (PairModel, error) { return NewCovariates(matrix, n) }, ErrOption, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := c.make()
			wantError(t, err, c.kind, c.names...)
		})
	}
	if m, err := NewPropensity("known+fame", n, PropensityOptions{}); m != nil || err == nil {
		t.Error("an error comes with a model")
	}
}

func TestKnownLooksUpEveryPair(t *testing.T) {
	rng := newRand(t, 8)
	n := randomNodes(t, rng, 30, 2, 2, false)
	known := map[[2]int32]float64{}
	var exposures []KnownExposure
	for range 200 {
		pair := [2]int32{int32(rng.IntN(30)), int32(rng.IntN(30))}
		if _, twice := known[pair]; !twice {
			known[pair] = rng.Float64()
			exposures = append(exposures, KnownExposure{pair[0], pair[1], known[pair]})
		}
	}
	m, err := NewKnown(n, exposures, .5)
	must(t, err)
	s := make([]float32, 1)
	for i := range int32(30) {
		for j := range int32(30) {
			m.Logits(s, nil, Batch{[]int32{i}, []int32{j}})
			want, ok := known[[2]int32{i, j}]
			if !ok {
				want = .5
			}
			if got := sigmoid(float64(s[0])); math.Abs(got-want) > 1e-6 {
				t.Fatalf("propensity from %d to %d is %v, want %v", i, j, got, want)
			}
		}
	}
}

func TestCellIsThePlaceOfALogit(t *testing.T) {
	rng := newRand(t, 2)
	n := randomNodes(t, rng, 20, 2, 5, false)
	m := made(NewFieldMatrix(n))(t)
	params := randomParams(rng, m)
	s := make([]float32, 1)
	for i := range int32(20) {
		m.Logits(s, params, Batch{[]int32{i}, []int32{19 - i}})
		if s[0] != params[m.Cell(i, 19-i)] {
			t.Fatalf("the logit from %d to %d is not its cell", i, 19-i)
		}
	}
}

func TestNodesOfAGraph(t *testing.T) {
	var b graph.Builder
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, node := range []graph.Node{
		{ID: "a", Field: "physics", Time: year(2000)}, {ID: "b", Time: year(2020)}, {ID: "c", Field: "biology"},
	} {
		_, err := b.AddNode(node)
		must(t, err)
	}
	must(t, b.AddLinks([]string{"b", "c"}, []string{"a", "a"}))
	g, _, err := b.Build()
	must(t, err)
	n := NodesOf(g)
	if n.Len() != 3 || n.FieldCount != 3 || strings.Join(n.FieldNames, " ") != "unknown physics biology" {
		t.Errorf("got %+v", n)
	}
	wantClose(t, "ages", Ages(g), []float64{20, 0, 10}, 1e-3)
	wantClose(t, "popularity", LogInDegree(g.Len(), []int32{0, 0}), []float64{math.Log(3), 0, 0}, 1e-6)

	var timeless graph.Builder
	_, err = timeless.AddNode(graph.Node{ID: "a"})
	must(t, err)
	g, _, err = timeless.Build()
	must(t, err)
	if Ages(g) != nil {
		t.Error("nodes without times have ages")
	}
}

func TestMinimalNodes(t *testing.T) {
	// no nodes and no fields at all must not panic
	for _, kind := range PropensityKinds() {
		m, err := NewPropensity(kind, Nodes{}, PropensityOptions{})
		if kind == "mlp" {
			wantError(t, err, ErrShape)
			continue
		}
		must(t, err)
		m.StartAt(make([]float32, m.Size()), StartPropensity, rand.NewPCG(1, 0))
		m.Logits(nil, make([]float32, m.Size()), Batch{})
	}
}
