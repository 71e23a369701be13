package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What is written is read again, whether a number takes three bytes or four, and touches no other row.
func TestLinks(t *testing.T) {
	if wideFor(mostOfThree) != 3 || wideFor(mostOfThree+1) != 4 {
		t.Error("the number of the last row, or none, does not fit")
	}
	for _, wide := range []int{3, 4} {
		const rows, degree = 50, 7
		most := mostOfThree - 1
		if wide == 4 {
			most = 1<<31 - 2
		}
		random := rand.New(rand.NewPCG(1, uint64(wide)))
		l, twins, near := newLinks(rows, wide, degree), slices.Repeat([]int32{-1}, rows), make([][]int32, rows)
		for range 2000 {
			i := random.Int32N(rows)
			if random.IntN(3) == 0 {
				twins[i] = int32(random.IntN(most + 1))
				l.setTwin(i, twins[i])
			} else {
				near[i] = make([]int32, random.IntN(degree+1))
				for k := range near[i] {
					near[i][k] = int32([]int{random.IntN(most + 1), most, 0}[min(random.IntN(6), 2)])
				}
				l.setNear(i, near[i])
			}
			for i := range int32(rows) {
				leads := slices.Clone(near[i])
				if twins[i] >= 0 {
					leads = slices.Insert(leads, 0, twins[i])
				}
				if l.twin(i) != twins[i] || !slices.Equal(l.near(nil, i), near[i]) ||
					!slices.Equal(l.next(nil, i), leads) {
					t.Fatalf("%d bytes: row %d has twin %d and links %v, want %d and %v", wide, i, l.twin(i),
						l.near(nil, i), twins[i], near[i])
				}
			}
		}
		if l.check(0, rows, most+1) != nil || l.check(0, rows, most) == nil {
			t.Errorf("%d bytes: what leads nowhere is not told from what does not", wide)
		}
	}
	l := newLinks(1, 4, 1)
	if l.put(l.record(0), -2); l.check(0, 1, 1) == nil {
		t.Error("a link to row −2 passes")
	}
}

// A web is the same whatever its numbers take.
func TestLinksOfFourBytes(t *testing.T) {
	v := vectorsOf(t, clustered(900, 24, .1, 3))
	three := build(t, v, Options{})
	four := newWeb(three.sketch)
	four.clusters = three.clusters
	firsts, twins := four.pair()
	four.links = newLinks(four.Rows(), 4, three.Degree())
	for _, pair := range twins {
		four.links.setTwin(pair[0], pair[1])
	}
	if err := newBuilder(four, Options{}).add(t.Context(), shuffled(firsts, 0)); err != nil {
		t.Fatal(err)
	}
	for i := range int32(900) {
		if !slices.Equal(three.links.next(nil, i), four.links.next(nil, i)) {
			t.Fatalf("row %d leads to %v and %v", i, three.links.next(nil, i), four.links.next(nil, i))
		}
	}
}
