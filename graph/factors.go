package graph

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// FieldsByFactors returns the same graph in which nodes without a field get one by k-means on factors, the vectors of
// what they link to or are linked from: sources and targets apart, each in so many clusters, or fewer where there are
// fewer nodes. Other fields stay, and nodes whose factors are zero get none. Learn the factors from training links, or
// fields tell what is held out. A node that is source and target is grouped as a source.
func (g *Graph) FieldsByFactors(ctx context.Context, factors *Vectors, s Clustering) (*Graph, error) {
	if g.FieldCount()+2*s.Fields > math.MaxUint16 {
		return nil, fmt.Errorf("fields by factors: %w: %d more fields; merge the rare ones", ErrTooLarge, 2*s.Fields)
	}
	found := *g
	found.fields, found.fieldNames = slices.Clone(g.fields), slices.Clone(g.fieldNames)
	row := make([]float32, factors.Dim())
	for _, side := range []struct {
		name    string
		sources bool
	}{{"source", true}, {"target", false}} {
		// Nodes with zeros get no cluster.
		own, err := NewVectors(g.Len(), factors.Dim())
		if err != nil {
			return nil, err
		}
		nodes := 0
		for i := range int32(min(g.Len(), factors.Len())) {
			if g.fields[i] != UnknownField || g.IsSource(i) != side.sources {
				continue
			}
			if factors.Load(row, i); largestBits(row) == 0 {
				continue
			}
			nodes++
			if err := own.Set(i, row); err != nil {
				return nil, err
			}
		}
		if err := found.cluster(ctx, g, own, side.name, s, nodes); err != nil {
			return nil, err
		}
	}
	return &found, nil
}

// cluster gives fields to those nodes of a side that have factors.
func (g *Graph) cluster(ctx context.Context, of *Graph, factors *Vectors, side string, s Clustering, nodes int) error {
	defer factors.Close()
	if nodes == 0 {
		return nil
	}
	s.Fields = min(s.Fields, nodes)
	with, err := of.WithVectors(factors)
	if err != nil {
		return err
	}
	clustered, _, err := with.FieldsByVectors(ctx, s)
	if err != nil {
		return fmt.Errorf("%ss by factors: %w", side, err)
	}
	before := len(g.fieldNames) - 1
	for i, f := range clustered.fields {
		if f != UnknownField {
			g.fields[i] = uint16(before) + f
		}
	}
	for _, name := range clustered.fieldNames[1:] {
		g.fieldNames = append(g.fieldNames, side+" "+name)
	}
	return nil
}
