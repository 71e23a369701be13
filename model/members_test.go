package model

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// memberModel is a diagonal model with members, two of which have a slope of popularity.
func memberModel(t testing.TB, members int) (Model, Nodes) {
	t.Helper()
	random := newRand(t, 3)
	n := randomNodes(t, random, 40, 6, 3, false)
	link, err1 := NewDiagonal(n, false)
	propensity, err2 := NewFieldMatrix(n)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	m := Model{Link: link, LinkParams: randomParams(random, link), Propensity: propensity,
		PropensityParams: randomParams(random, propensity), Popularity: n.Popularity, Method: "bayes"}
	for k := range members {
		one := MemberModel{Name: strings.Repeat("x", k+1), LinkParams: randomParams(random, link)}
		if k%2 == 1 {
			one.Popularity = random.NormFloat64()
		}
		m.Members = append(m.Members, one)
	}
	return m, n
}

// everyPair is all ordered pairs of nodes.
func everyPair(n int) (b Batch) {
	for i := range int32(n) {
		for j := range int32(n) {
			b.Sources, b.Targets = append(b.Sources, i), append(b.Targets, j)
		}
	}
	return b
}

func TestRankerIsTheMeanOfMembers(t *testing.T) {
	t.Parallel()
	for name, weights := range map[string][]float64{"alike": {0, 0, 0, 0, 0}, "weighed": {1, 0, .25, .5, .25}} {
		t.Run(name, func(t *testing.T) { testRanker(t, weights) })
	}
}

func testRanker(t *testing.T, weights []float64) {
	m, n := memberModel(t, len(weights))
	b := everyPair(n.Len())
	z, mean := make([]float32, b.Len()), make([]float64, b.Len())
	var all float64
	for k, w := range weights {
		m.Members[k].Weight = w
		all += w
	}
	for k, by := range m.Rankers() {
		share := 1 / float64(len(weights)) // of members that all count alike
		if all > 0 {
			share = weights[k] / all
		}
		by.Logits(z, b)
		for k, x := range z {
			mean[k] += share * float64(x)
		}
	}
	ranker := m.Ranker()
	ranker.Logits(z, b)
	for k, x := range z {
		if math.Abs(float64(x)-mean[k]) > 1e-4*(1+math.Abs(mean[k])) {
			t.Fatalf("pair %d: %v, and the mean of the members is %v", k, x, mean[k])
		}
	}
	shuffled := m
	shuffled.Members = slices.Clone(m.Members)
	for seed := range uint64(5) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(m.Members), func(a, b int) {
			shuffled.Members[a], shuffled.Members[b] = shuffled.Members[b], shuffled.Members[a]
		})
		if got := shuffled.Ranker(); !slices.Equal(got.Params, ranker.Params) || got.Slope != ranker.Slope {
			t.Errorf("seed %d: another order of members gives another ranker", seed)
		}
	}
}

func TestRankerOfOne(t *testing.T) {
	t.Parallel()
	for members := range 2 {
		m, _ := memberModel(t, members)
		if by := m.Ranker(); !slices.Equal(by.Params, m.LinkParams) || by.Slope != 0 || m.Rankers() != nil {
			t.Errorf("%d members: lists are not ordered by the published model", members)
		}
	}
}

func TestMembersComeBack(t *testing.T) {
	t.Parallel()
	m, n := memberModel(t, 12) // also member1 and member12
	m.Extra = []Tensor{{"membership", []int{1}, []float32{1}}}
	path := filepath.Join(t.TempDir(), "model")
	if err := Save(path, m); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Model(n)
	if err != nil || !reflect.DeepEqual(got.Members, m.Members) || !slices.Equal(got.Popularity, m.Popularity) ||
		len(got.Extra) != 1 {
		t.Fatalf("%v: %d members and %d extra tensors", err, len(got.Members), len(got.Extra))
	}
	// the popularity of nodes may be unknown, but not wrong
	unknown, wrong := n, n
	unknown.Popularity, wrong.Popularity = nil, n.Popularity[1:]
	if got, err := f.Model(unknown); err != nil || got.Popularity != nil || len(got.Members) != 12 {
		t.Errorf("without popularity: %v", err)
	}
	if _, err := f.Model(wrong); err == nil || !strings.Contains(err.Error(), "popularity") {
		t.Errorf("with that of other nodes: %v", err)
	}
	// a file of an earlier version has no members
	delete(f.Metadata, KeyMembers)
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t Tensor) bool { return isMember(t.Name) })
	if old, err := f.Model(unknown); err != nil || old.Members != nil || len(old.Extra) != 1 {
		t.Errorf("a file of an earlier version: %v, %+v", err, old.Members)
	}
	m.Extra[0].Name = memberPrefix(0) + "w"
	if _, err := m.File(); err == nil {
		t.Error("an extra tensor may have the name of a member's")
	}
}
