package fit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// Problem is what is learned from.
type Problem struct {
	Nodes      model.Nodes
	Train      *graph.Pairs
	Validation *graph.Pairs    // chooses the ridge and when to stop; nil means a tenth of the sources of Train
	Exposure   []risk.Exposure // of each training pair; nil means that nothing is logged
}

// Warning is a doubt about a result; it travels beside the result.
type Warning struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// validate refuses what nothing can be learned from and warns of what little can be.
func (p Problem) validate() ([]Warning, error) {
	if p.Train == nil || p.Train.Len() == 0 {
		return nil, fmt.Errorf("%w: there are none; sample some from the graph", ErrData)
	}
	if p.Nodes.Vectors == nil {
		return nil, fmt.Errorf("%w: the nodes have no vectors; encode their texts first", ErrData)
	}
	n := p.Nodes.Vectors.Len()
	if len(p.Nodes.Fields) != n {
		return nil, fmt.Errorf("%w: %d vectors and %d fields; they must be of the same nodes", ErrShape, n, len(p.Nodes.Fields))
	}
	if p.Exposure != nil && len(p.Exposure) != p.Train.Len() {
		return nil, fmt.Errorf("%w: %d exposures for %d training pairs", ErrShape, len(p.Exposure), p.Train.Len())
	}
	used := make([]bool, n)
	links := 0
	for name, pairs := range map[string]*graph.Pairs{"training": p.Train, "validation": p.Validation} {
		if pairs == nil {
			continue
		}
		if err := checkColumns(pairs, n); err != nil {
			return nil, fmt.Errorf("%w in the %s pairs", err, name)
		}
		for k := range pairs.Source {
			used[pairs.Source[k]], used[pairs.Target[k]] = true, true
		}
	}
	for _, linked := range p.Train.Linked {
		if linked {
			links++
		}
	}
	switch links {
	case 0:
		return nil, fmt.Errorf("%w: none of the %d is linked; check that sources and targets are not swapped, or sample more", ErrData, p.Train.Len())
	case p.Train.Len():
		return nil, fmt.Errorf("%w: all %d are linked; sample unlinked pairs too", ErrData, links)
	}
	return p.checkNodes(used)
}

// checkColumns checks what the kernels trust.
func checkColumns(p *graph.Pairs, nodes int) error {
	n := p.Len()
	if len(p.Target) != n || len(p.Linked) != n || len(p.Weight) != n || len(p.Rate) != n {
		return fmt.Errorf("%w: columns of different lengths", ErrShape)
	}
	for k := range n {
		if i, j := p.Source[k], p.Target[k]; uint32(i) >= uint32(nodes) || uint32(j) >= uint32(nodes) || i == j {
			return fmt.Errorf("%w: pair %d goes from node %d to node %d of %d", ErrShape, k, i, j, nodes)
		}
		if w, r := p.Weight[k], p.Rate[k]; !(w > 0) || math.IsInf(w, 0) || !(r > 0 && r <= 1) {
			return fmt.Errorf("%w: pair %d has weight %v and rate %v; weights are positive, rates in (0, 1]", ErrShape, k, w, r)
		}
	}
	return nil
}

// checkNodes looks at the vectors and fields of the nodes that pairs speak of.
func (p Problem) checkNodes(used []bool) ([]Warning, error) {
	row := make([]float32, p.Nodes.Vectors.Dim())
	members := make([]int, p.Nodes.FieldCount)
	zero, example := 0, -1
	for i, is := range used {
		if !is {
			continue
		}
		f := int(p.Nodes.Fields[i])
		if f >= len(members) {
			return nil, fmt.Errorf("%w: node %d has field %d of %d", ErrShape, i, f, len(members))
		}
		members[f]++
		p.Nodes.Vectors.Load(row, int32(i))
		var sum float64
		for _, x := range row {
			sum += float64(x) * float64(x)
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return nil, fmt.Errorf("%w: the vector of node %d holds a number that is not finite; encode it again or leave the node out", ErrData, i)
		}
		if sum == 0 {
			if zero++; example < 0 {
				example = i
			}
		}
	}
	var warnings []Warning
	if zero > 0 {
		warnings = append(warnings, Warning{"zero-vectors", fmt.Sprintf("%d nodes have a vector of zeros (the first is node %d): their links say nothing of the text; give them a text or leave them out", zero, example)})
	}
	for f, count := range members {
		if count == 1 {
			name := fmt.Sprint(f)
			if f < len(p.Nodes.FieldNames) {
				name = p.Nodes.FieldNames[f]
			}
			warnings = append(warnings, Warning{"tiny-field", fmt.Sprintf("field %q has a single node: its propensities are the prior's; merge small fields", name)})
		}
	}
	return warnings, nil
}

// split returns the training and validation pairs, cutting the latter from a tenth of the
// sources if there are none.
func (p Problem) split() (train, validation *graph.Pairs, exposure []risk.Exposure) {
	if p.Validation != nil && p.Validation.Len() > 0 {
		return p.Train, p.Validation, p.Exposure
	}
	train, validation = &graph.Pairs{Universe: p.Train.Universe}, &graph.Pairs{Universe: p.Train.Universe}
	for k, source := range p.Train.Source {
		to := train
		if held(source) {
			to = validation
		} else if p.Exposure != nil {
			exposure = append(exposure, p.Exposure[k])
		}
		to.Source, to.Target = append(to.Source, source), append(to.Target, p.Train.Target[k])
		to.Linked = append(to.Linked, p.Train.Linked[k])
		to.Weight, to.Rate = append(to.Weight, p.Train.Weight[k]), append(to.Rate, p.Train.Rate[k])
	}
	if validation.Len() == 0 || train.Len() == 0 {
		return p.Train, nil, p.Exposure
	}
	return train, validation, exposure
}

// held tells whether a source is held out: one in ten, the same ones every time.
func held(source int32) bool {
	h := uint64(uint32(source)) * 0x9e3779b97f4a7c15
	return h>>32%10 == 0
}

// Checksum names the data: a model or a checkpoint of other data is recognised by it. It covers
// the pairs, the fields and the vectors of the nodes that the pairs speak of.
func (p Problem) Checksum() string {
	h := sha256.New()
	var word [8]byte
	put := func(x uint64) {
		binary.LittleEndian.PutUint64(word[:], x)
		h.Write(word[:])
	}
	put(uint64(p.Nodes.Vectors.Len()))
	put(uint64(p.Nodes.Vectors.Dim()))
	put(uint64(p.Nodes.FieldCount))
	row := make([]float32, p.Nodes.Vectors.Dim())
	bytes := make([]byte, 0, 4*len(row))
	seen := make([]bool, p.Nodes.Vectors.Len())
	node := func(i int32) {
		if seen[i] {
			return
		}
		seen[i] = true
		put(uint64(i)<<16 | uint64(p.Nodes.Fields[i]))
		p.Nodes.Vectors.Load(row, i)
		bytes = bytes[:0]
		for _, x := range row {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
		}
		h.Write(bytes)
	}
	for _, pairs := range []*graph.Pairs{p.Train, p.Validation} {
		if pairs == nil {
			put(0)
			continue
		}
		put(uint64(pairs.Len()))
		for k := range pairs.Source {
			put(uint64(uint32(pairs.Source[k]))<<32 | uint64(uint32(pairs.Target[k])))
			put(math.Float64bits(pairs.Weight[k]))
			put(math.Float64bits(pairs.Rate[k]))
			linked := uint64(0)
			if pairs.Linked[k] {
				linked = 1
			}
			put(linked)
			node(pairs.Source[k])
			node(pairs.Target[k])
		}
	}
	for _, e := range p.Exposure {
		put(uint64(e))
	}
	return hex.EncodeToString(h.Sum(nil))
}
