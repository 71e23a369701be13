package model

import (
	"testing"
)

// People have rows of u only and items of v only; without vectors other than 0 there is no A.
func TestFactorsOfTwoSides(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 12)
	described := randomNodes(t, rng, 9, 5, 3, false)
	described.Sources, described.Targets = []int32{0, 2, 4, 8}, []int32{1, 3, 4, 5, 6, 7}
	zero, without := described, described
	zero.Vectors = randomNodes(t, rng, 9, 5, 3, false).Vectors
	for _, j := range described.Targets {
		must(t, zero.Vectors.Set(j, make([]float32, 5)))
	}
	without.Vectors = nil
	for name, n := range map[string]Nodes{"described": described, "zero": zero, "without": without} {
		const r = 3
		m := made(NewFactors(n, r))(t)
		shapes := map[string]int{"u": 4 * r, "v": 6 * r, "b_source": 4, "b_target": 6, "b": 1}
		if name == "described" {
			shapes["A"] = 5 * r
		}
		params := randomParams(rng, m)
		at, parts := map[string][]float64{}, widened(params)
		for _, part := range m.Parts() {
			if part.Size() != shapes[part.Name] {
				t.Errorf("%s: %s has the shape %v", name, part.Name, part.Shape)
			}
			at[part.Name], parts = parts[:part.Size()], parts[part.Size():]
			delete(shapes, part.Name)
		}
		if len(shapes) > 0 || len(parts) > 0 {
			t.Errorf("%s: there is no %v, and %d parameters are of no part", name, shapes, len(parts))
		}
		var b Batch
		var want []float64
		for k, i := range n.Sources {
			for l, j := range n.Targets {
				b.Sources, b.Targets = append(b.Sources, i), append(b.Targets, j)
				z := at["b_source"][k] + at["b_target"][l] + at["b"][0]
				for c := range r {
					factor := at["v"][l*r+c]
					if a := at["A"]; a != nil {
						factor += dot(a[c*5:(c+1)*5], vector(n, j))
					}
					z += at["u"][k*r+c] * factor
				}
				want = append(want, z)
			}
		}
		z := make([]float32, b.Len())
		m.Logits(z, params, b)
		wantClose(t, name, z, want, 1e-6)
		back, again, err := reopen(t, Model{Link: m, LinkParams: params, Propensity: made(NewConstant(1))(t)}).Link(n)
		must(t, err)
		back.Logits(z, again, b)
		wantClose(t, name+", opened again", z, want, 1e-6)
	}
}

func TestNeedsVectors(t *testing.T) {
	t.Parallel()
	n := randomNodes(t, newRand(t, 1), 4, 3, 2, false)
	n.Vectors = nil
	for _, kind := range LinkKinds() {
		for _, suffix := range []string{"", "+bonus"} {
			if _, err := NewLink(kind+suffix, n, LinkOptions{}); (err != nil) != NeedsVectors(kind+suffix) {
				t.Errorf("%s without vectors: %v", kind+suffix, err)
			}
		}
	}
}
