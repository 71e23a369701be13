package evaluate

import (
	"fmt"
	"slices"
)

// Lists is what each source was recommended: target numbers, best first, one list per source.
type Lists [][]int32

// Coverage is the share of all targets, numbered 0 to targets−1, that stand among the first k of at
// least one list.
func (l Lists) Coverage(targets, k int) (float64, error) {
	if targets < 1 {
		return 0, fmt.Errorf("%w: coverage of %d targets; give the number of targets that could be recommended",
			ErrEmpty, targets)
	}
	shown := make(map[int32]bool)
	err := l.each(targets, k, func(target int32) { shown[target] = true })
	if err != nil {
		return 0, err
	}
	return float64(len(shown)) / float64(targets), nil
}

// FieldGini is the inequality of exposure between fields: the Gini coefficient of x_f, how often a
// target of field f stands among the first k of a list, on average over the targets of f. With the
// F fields sorted so that x rises,
//
//	G = Σ_f (2f − F − 1)·x_f / (F·Σ_f x_f),   f = 1 … F.
//
// It is 0 when targets of every field are shown equally often, however large the fields, and
// 1 − 1/F when only one field is shown at all. fields[j] is the field of target j; only
// fields that some target has count.
func (l Lists) FieldGini(fields []uint16, k int) (float64, error) {
	if len(fields) == 0 {
		return 0, fmt.Errorf("%w: no fields; give every target its field", ErrEmpty)
	}
	size := make(map[uint16]float64)
	for _, field := range fields {
		size[field]++
	}
	slots := make(map[uint16]float64)
	err := l.each(len(fields), k, func(target int32) { slots[fields[target]]++ })
	if err != nil {
		return 0, err
	}
	if len(slots) == 0 {
		return 0, fmt.Errorf("%w: field Gini: every list is empty; give lists with recommendations", ErrUndefined)
	}
	exposure := make([]float64, 0, len(size))
	for field, n := range size {
		exposure = append(exposure, slots[field]/n)
	}
	slices.Sort(exposure)
	var spread, sum float64
	for i, x := range exposure {
		spread += float64(2*i+1-len(exposure)) * x
		sum += x
	}
	return max(0, spread/(float64(len(exposure))*sum)), nil
}

// each visits the targets among the first k of every list.
func (l Lists) each(targets, k int, visit func(target int32)) error {
	if err := checkCutoff(k); err != nil {
		return err
	}
	if len(l) == 0 {
		return fmt.Errorf("%w: no lists; give one list per source", ErrEmpty)
	}
	last := make(map[int32]int) // target → the list it was last seen in, counted from 1
	for source, list := range l {
		for p, target := range list[:min(k, len(list))] {
			if target < 0 || int(target) >= targets {
				return fmt.Errorf("%w: place %d of source %d's list is target %d but targets are numbered 0 to %d",
					ErrTarget, p+1, source, target, targets-1)
			}
			if last[target] == source+1 {
				return fmt.Errorf("%w: source %d's list names target %d twice; recommend each target once", ErrTarget,
					source, target)
			}
			last[target] = source + 1
			visit(target)
		}
	}
	return nil
}
