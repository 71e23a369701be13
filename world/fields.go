package world

import (
	"fmt"
	"math"
	"slices"
)

// Field is a field of study and its share of the nodes. Shares are relative to their sum; where all
// are 0 the fields are equally large.
type Field struct {
	Name  string
	Share float64
}

// FieldsOfStudy returns the 19 root fields of the Microsoft Academic Graph with their shares in the
// first dataset of the paper's appendix.
func FieldsOfStudy() []Field {
	fields := make([]Field, len(vocabulary))
	for k, v := range vocabulary {
		fields[k] = Field{v.field, v.share}
	}
	return fields
}

// EvenFields returns n fields of equal share: those of FieldsOfStudy in their order, then numbered
// ones.
func EvenFields(n int) []Field {
	fields := make([]Field, max(n, 0))
	for k := range fields {
		if k < len(vocabulary) {
			fields[k].Name = vocabulary[k].field
		} else {
			fields[k].Name = fmt.Sprintf("Field %d", k+1)
		}
	}
	return fields
}

func checkFields(fields []Field, nodes int) error {
	switch {
	case len(fields) == 0:
		return bad("Fields is empty; give at least one field, or nil for the fields of study")
	case len(fields) > nodes:
		return bad("%d Fields for %d Nodes; every field has a node, so give at least as many nodes", len(fields), nodes)
	case len(fields) > math.MaxUint16:
		return bad("%d Fields; a graph numbers at most %d, so merge the small ones", len(fields), math.MaxUint16)
	}
	names := make(map[string]bool, len(fields))
	for k, f := range fields {
		switch {
		case f.Name == "" || f.Name == "unknown":
			return bad("field %d is named %q, which means that a node's field is not known; give it a name", k, f.Name)
		case names[f.Name]:
			return bad("two Fields are named %q; merge them or rename one", f.Name)
		case !(f.Share >= 0 && f.Share <= math.MaxFloat64):
			return bad("field %q has share %v; give a finite number, 0 or more", f.Name, f.Share)
		}
		names[f.Name] = true
	}
	return nil
}

// apportion divides the nodes among the fields: one each, and the rest so that the total is nearest
// to the shares (largest remainders).
func apportion(fields []Field, nodes int) []int {
	var largest float64
	for _, f := range fields {
		largest = max(largest, f.Share)
	}
	share := func(f Field) float64 {
		if largest == 0 {
			return 1
		}
		return f.Share / largest // no sum of finite shares overflows now
	}
	var total float64
	for _, f := range fields {
		total += share(f)
	}
	counts, remainders, byRemainder := make([]int, len(fields)), make([]float64, len(fields)), make([]int, len(fields))
	given := 0
	for k, f := range fields {
		exact := share(f) / total * float64(nodes)
		counts[k] = max(1, int(exact))
		remainders[k] = exact - float64(counts[k])
		byRemainder[k] = k
		given += counts[k]
	}
	slices.SortStableFunc(byRemainder, func(a, b int) int {
		switch {
		case remainders[a] > remainders[b]:
			return -1
		case remainders[a] < remainders[b]:
			return 1
		}
		return 0
	})
	for k := 0; given < nodes; k = (k + 1) % len(fields) {
		counts[byRemainder[k]]++
		given++
	}
	// The one node of tiny fields comes from those that are furthest above their share.
	for given > nodes {
		widest := -1
		for k := range counts {
			if counts[k] > 1 && (widest < 0 || remainders[k] < remainders[widest]) {
				widest = k
			}
		}
		counts[widest]--
		remainders[widest]++
		given--
	}
	return counts
}
