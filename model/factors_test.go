package model

import (
	"math"
	"slices"
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

// A folded source is at the minimum of its objective, in float64, and what is missing is refused.
func TestFolding(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 8)
	n := randomNodes(t, rng, 60, 5, 3, false)
	for i := range int32(n.Len()) {
		if i < 10 {
			n.Sources = append(n.Sources, i)
		} else {
			n.Targets = append(n.Targets, i)
		}
	}
	m := made(NewFactors(n, 3))(t)
	params := randomParams(rng, m)
	const precision = 2.
	f := made(m.Folding(params, precision))(t)
	rows := made(m.Rows(params))(t)
	bias := float64(params[len(params)-1])
	exposure := make([]float32, len(n.Targets))
	for k := range exposure {
		exposure[k] = rng.Float32()
	}
	for name, h := range map[string]SourceHistory{"nothing": {}, "naive": {Linked: []int32{12, 40, 59}},
		"exposed": {Linked: []int32{12, 40, 59, 30}, Shown: []int32{13, 14, 20}, Exposure: exposure},
		"shown":   {Linked: []int32{11}, Shown: []int32{13, 14, 50}, Exposure: make([]float32, len(n.Targets))}} {
		value := func(u []float64, effect float64) float64 {
			v := SourcePrecision*effect*effect/2 + precision*dot(u, u)/2
			for k, j := range n.Targets {
				row := vector(Nodes{Vectors: rows}, j)
				y := sigmoid(dot(u, row[:3]) + row[3] + effect + bias)
				switch pi := 1.; {
				case slices.Contains(h.Linked, j):
					v -= math.Log(y)
				case slices.Contains(h.Shown, j):
					v -= math.Log(1 - y)
				default:
					if h.Exposure != nil {
						pi = float64(h.Exposure[k])
					}
					v -= math.Log(1 - pi*y)
				}
			}
			return v
		}
		q, offsets := make([]float32, 4), make([]float32, n.FieldCount)
		must(t, f.Query(q, offsets, h))
		u, effect := widened(q[:3]), float64(offsets[0])-bias
		least := value(u, effect)
		for k := range 4 {
			for _, step := range []float64{-.05, .05} {
				moved, shift := slices.Clone(u), effect
				if k < 3 {
					moved[k] += step
				} else {
					shift += step
				}
				if v := value(moved, shift); v < least-1e-4 {
					t.Errorf("%s: %v at %v, and %v nearby", name, least, q, v)
				}
			}
		}
	}
	q, offsets := make([]float32, 4), make([]float32, n.FieldCount)
	for _, h := range []SourceHistory{{Linked: []int32{3}}, {Shown: []int32{60}}, {Linked: []int32{-1}},
		{Exposure: []float32{1}}} {
		wantError(t, f.Query(q, offsets, h), ErrShape)
	}
	_, err := m.Folding(params, 0)
	wantError(t, err, ErrOption)
}

// Folding in takes less than a millisecond: 2,000 targets, rank 16, a history of 20.
func BenchmarkFolding(b *testing.B) {
	rng := newRand(b, 1)
	n := Nodes{Fields: make([]uint16, 2001), FieldCount: 1, Sources: []int32{2000}}
	for j := range int32(2000) {
		n.Targets = append(n.Targets, j)
	}
	m := made(NewFactors(n, 16))(b)
	params := randomParams(rng, m)
	params[len(params)-1] = -3
	f := made(m.Folding(params, 4))(b)
	h := SourceHistory{Exposure: make([]float32, 2000)}
	for k := range h.Exposure {
		h.Exposure[k] = .2
	}
	for range 20 {
		h.Linked = append(h.Linked, int32(rng.IntN(2000)))
	}
	q, offsets := make([]float32, 17), make([]float32, 1)
	for b.Loop() {
		must(b, f.Query(q, offsets, h))
	}
}
