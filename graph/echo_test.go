package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Vectors that have nothing to do with the links do not echo them; averages over neighbours and
// eigenvectors do, with either sign, whatever the degrees.
func TestEcho(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	const n, dim = 400, 6
	g := hubGraph(t, n, rng)
	if g.Echo() != 0 {
		t.Errorf("without vectors: %v", g.Echo())
	}
	x := make([][]float64, n)
	for i := range x {
		x[i] = make([]float64, dim)
		for k := range x[i] {
			x[i][k] = rng.NormFloat64()
		}
	}
	echo := func(x [][]float64) float64 {
		v, err := NewVectors(n, dim)
		must(t, err)
		row := make([]float32, dim)
		for i := range x {
			for k := range row {
				row[k] = float32(x[i][k])
			}
			must(t, v.Set(int32(i), row))
		}
		with, err := g.WithVectors(v)
		must(t, err)
		return with.Echo()
	}
	if e := echo(x); e > .3 {
		t.Errorf("of vectors by chance: %v", e)
	}
	neighbours := func(i int32) []int32 { return append(append([]int32(nil), g.Out(i)...), g.In(i)...) }
	// (I + sA/scale)^steps x, whose columns turn to where A has its largest or its smallest eigenvalues
	turned := func(sign float64, steps int) [][]float64 {
		y := x
		for range steps {
			next := make([][]float64, n)
			for i := range next {
				next[i] = append([]float64(nil), y[i]...)
				for _, j := range neighbours(int32(i)) {
					for k := range next[i] {
						next[i][k] += sign * y[j][k] / 8
					}
				}
			}
			for k := range dim {
				var square float64
				for i := range next {
					square += next[i][k] * next[i][k]
				}
				for i := range next {
					next[i][k] /= math.Sqrt(square / n)
				}
			}
			y = next
		}
		return y
	}
	for _, sign := range []float64{1, -1} {
		if e := echo(turned(sign, 200)); e < .99 {
			t.Errorf("of eigenvectors, %+v: %v", sign, e)
		}
	}
	mixed := make([][]float64, n)
	for i := range mixed {
		near := neighbours(int32(i))
		mixed[i] = append([]float64(nil), x[i]...)
		for _, j := range near {
			for k := range mixed[i] {
				mixed[i][k] += x[j][k] / 3 / math.Sqrt(float64(len(near)))
			}
		}
	}
	if e := echo(mixed); e < .3 || e > EchoFrom {
		t.Errorf("of vectors that are a little like the neighbours': %v", e)
	}
}

// hubGraph links nodes at random, each third link to one of five that everybody links to.
func hubGraph(t *testing.T, n int, rng *rand.Rand) *Graph {
	t.Helper()
	var b Builder
	for i := range n {
		must(t, second(b.AddNode(Node{ID: fmt.Sprint(i)})))
	}
	linked := map[[2]int32]bool{}
	for len(linked) < 4*n {
		i, j := int32(rng.IntN(n)), int32(rng.IntN(n))
		if rng.IntN(3) == 0 {
			j = int32(rng.IntN(5))
		}
		if i != j && !linked[[2]int32{i, j}] && !linked[[2]int32{j, i}] {
			linked[[2]int32{i, j}] = true
			must(t, b.AddLinkIndex(i, j))
		}
	}
	g, _, err := b.Build()
	must(t, err)
	return g
}

func second[T any](_ T, err error) error { return err }
