package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// FieldReport says how FieldsByVectors or FieldsByLinks found fields, and which.
type FieldReport struct {
	// Found names the method and all its settings, such as "k-means on vectors: 19 fields, seed 7, at
	// most 100 rounds". Store it with the fields: with these
	// settings the same graph yields the same fields again, on the same kind of machine.
	Found string

	Sizes     []int // nodes of each field by its index; Sizes[UnknownField] have none
	Rounds    int   // how many it took
	Converged bool  // false when k-means ran out of rounds; Louvain always ends by itself

	// Of k-means.
	Inertia   float64 // Σ‖h−c‖², the squared distances of the vectors from the centres of their clusters
	Explained float64 // 1 − Inertia/Σ‖h−μ‖²: the share of the vectors' variance that the fields explain

	// Of Louvain.
	Modularity float64 // of the communities, before small ones were merged
	Merged     int     // communities below the smallest size, merged into a neighbour or UnknownField
}

// OwnFields returns the field of targets that counts as the own one of each field of sources, by
// its index: itself where targets have it. Of people and items that share no field it is the one
// that most of their links go to, the first of equal ones, and UnknownField where no link goes to a
// target with a field.
func (g *Graph) OwnFields() []uint16 {
	own := make([]uint16, g.FieldCount())
	for f := range own {
		own[f] = uint16(f)
	}
	if !g.TwoSided() {
		return own
	}
	shared := make([]bool, len(own))
	for _, j := range g.Targets() {
		shared[g.Field(j)] = true
	}
	links := make([]map[uint16]int, len(own))
	for _, i := range g.Sources() {
		f := g.Field(i)
		if shared[f] {
			continue
		}
		if links[f] == nil {
			links[f] = map[uint16]int{}
		}
		for _, j := range g.Out(i) {
			links[f][g.Field(j)]++
		}
	}
	for f := 1; f < len(own); f++ {
		if shared[f] {
			continue
		}
		most := 0
		own[f] = UnknownField
		for to := range uint16(len(own)) {
			if n := links[f][to]; to != UnknownField && n > most {
				own[f], most = to, n
			}
		}
	}
	return own
}

// fieldless is the group of a node that gets no field.
const fieldless = -1

// withFields returns the same graph with groups of nodes as its fields, the largest first and equal ones
// by their first node, named by a word and their rank; and the size of each field.
// Node i is in group of[i] < groups, or fieldless.
func (g *Graph) withFields(word string, of []int32, groups int) (*Graph, []int, error) {
	if groups > math.MaxUint16 {
		return nil, nil, fmt.Errorf("found %d fields: %w, the limit is %d; raise MinSize or lower Resolution",
			groups, ErrTooLarge, math.MaxUint16)
	}
	size, first := make([]int, groups), make([]int, groups)
	for i := len(of) - 1; i >= 0; i-- {
		if c := of[i]; c != fieldless {
			size[c]++
			first[c] = i
		}
	}
	order := numbers(groups)
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(first[a], first[b]))
	})
	names, sizes := []string{unknownFieldName}, []int{0}
	index := make([]uint16, groups)
	for rank, c := range order {
		index[c] = uint16(rank + 1)
		names = append(names, fmt.Sprintf("%s %d", word, rank+1))
		sizes = append(sizes, size[c])
	}
	fields := make([]uint16, len(of))
	for i, c := range of {
		if c == fieldless {
			sizes[UnknownField]++
		} else {
			fields[i] = index[c]
		}
	}
	found := *g
	found.fields, found.fieldNames = fields, names
	return &found, sizes, nil
}
