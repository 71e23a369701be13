package shards

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"unseen/dataset"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// CutSettings say how large the pieces are.
type CutSettings struct {
	Nodes int // in a block; 0 means 65,536
	Pairs int // in a shard, at most; 0 means 1,048,576
}

// Cut cuts a graph and the pairs that were drawn from it into shards below a root, which must not be there yet. They
// appear at once, when all are written.
func Cut(ctx context.Context, to Location, prepared *sample.Prepared, s CutSettings) (m *Manifest, err error) {
	g, p := prepared.Graph, prepared.Problem
	if s.Nodes == 0 {
		s.Nodes = 1 << 16
	}
	if s.Pairs == 0 {
		s.Pairs = 1 << 20
	}
	if s.Nodes < 1 || s.Nodes > MostInBlock || s.Pairs < 1 {
		return nil, fmt.Errorf("%w: blocks of %d nodes, shards of %d pairs; give positive numbers, at most %d nodes",
			ErrSetting, s.Nodes, s.Pairs, MostInBlock)
	}
	if to.Exists(ctx, ManifestFile) {
		return nil, fmt.Errorf("%w: %s holds shards already; give another place, or remove them", ErrContent, to.Root)
	}
	if g.Vectors() == nil && !g.TwoSided() {
		return nil, fmt.Errorf("%w: the nodes have no vectors; encode their texts first", ErrContent)
	}
	work := to.Temporary()
	defer func() {
		if err != nil {
			work.Discard(context.WithoutCancel(ctx))
		}
	}()
	if m, err = describe(prepared); err != nil {
		return nil, err
	}
	table := NodeTable{Popularity: popularityOf(p), Age: p.Nodes.Age}
	if prepared.Order != nil {
		table.Order = prepared.Order.Rank
	}
	for first := 0; first < g.Len(); first += s.Nodes {
		b := NodeBlock{First: first, Nodes: min(s.Nodes, g.Len()-first)}
		if err := b.write(ctx, work, g, table, len(m.Blocks)); err != nil {
			return nil, err
		}
		m.Blocks = append(m.Blocks, b)
	}
	links := &graph.Pairs{}
	for i, j := range g.Links() {
		links.Source, links.Target = append(links.Source, i), append(links.Target, j)
		links.Linked, links.Weight, links.Rate = append(links.Linked, true), append(links.Weight, 1),
			append(links.Rate, 1)
	}
	for _, kind := range []struct {
		name string
		into *[]Shard
		sample.Evidence
	}{{"links", &m.LinkShards, sample.Evidence{Pairs: links}},
		{"train", &m.Train, sample.Evidence{Pairs: p.Train, Exposure: p.Exposure}}, {"test", &m.Test, prepared.Test}} {
		if kind.Pairs == nil {
			continue
		}
		if *kind.into, err = writeShards(ctx, work, m.Layout(), kind.name, kind.Evidence, s.Pairs); err != nil {
			return nil, err
		}
	}
	return m, m.Publish(ctx, work, to)
}

// popularityOf is that of every node, by the training links.
func popularityOf(p sample.Problem) []float32 {
	if p.Nodes.Popularity != nil {
		return p.Nodes.Popularity
	}
	var targets []int32
	for k, linked := range p.Train.Linked {
		if linked {
			targets = append(targets, p.Train.Target[k])
		}
	}
	return model.LogInDegree(p.Nodes.Len(), targets)
}

// describe is a manifest without files.
func describe(prepared *sample.Prepared) (*Manifest, error) {
	g, p := prepared.Graph, prepared.Problem
	m := &Manifest{
		Format: Format, Version: Version, Nodes: g.Len(), Links: int64(g.LinkCount()), Dim: p.Nodes.Dim(),
		Roles: rolesOf(g), Columns: []string{PopularityColumn}, Echo: p.Echo, Rates: p.Rates != nil,
		Extent: fit.Extent{Pairs: int64(p.Train.Len())},
	}
	if m.Dim > 0 {
		link, err := model.NewLink("diagonal", p.Nodes, model.LinkOptions{})
		if err != nil {
			return nil, err
		}
		m.Extent.MeanSquare = fit.MeanSquare(link, p.Train)
	}
	if p.Nodes.Age != nil {
		m.Columns = append(m.Columns, AgeColumn)
	}
	if prepared.Order != nil {
		m.Columns = append(m.Columns, OrderColumn)
	}
	if p.Origin != nil {
		m.Data = *p.Origin
	}
	var sum risk.Sum
	for _, w := range p.Train.Weight {
		sum.Add(w)
	}
	m.Extent.MeanWeight = sum.Value() / float64(max(p.Train.Len(), 1))
	for _, e := range p.Exposure {
		m.Extent.Logged = m.Extent.Logged || e != risk.Unlogged
	}
	for f := range g.FieldCount() {
		m.Fields = append(m.Fields, g.FieldName(uint16(f)))
	}
	return m, nil
}

// write writes the files of a block of nodes.
func (b *NodeBlock) write(ctx context.Context, work Location, g *graph.Graph, all NodeTable, number int) error {
	err := ctx.Err()
	if err != nil {
		return err
	}
	end := b.First + b.Nodes
	t := NodeTable{IDs: make([]string, b.Nodes), Fields: g.Fields()[b.First:end],
		Popularity: all.Popularity[b.First:end]}
	for k := range t.IDs {
		t.IDs[k] = g.ID(int32(b.First + k))
	}
	if all.Age != nil {
		t.Age = all.Age[b.First:end]
	}
	if all.Order != nil {
		t.Order = all.Order[b.First:end]
	}
	var vectors *graph.Vectors
	if g.Vectors() != nil {
		if vectors, err = g.Vectors().Part(b.First, end); err != nil {
			return err
		}
	}
	return b.writeFiles(ctx, work, number, t, vectors)
}

// writeFiles writes the table of a block and its vectors, where there are any.
func (b *NodeBlock) writeFiles(ctx context.Context, work Location, number int, t NodeTable, v *graph.Vectors) (
	err error) {
	if b.Table, err = work.Write(ctx, fmt.Sprintf("nodes-%05d.parquet", number), func(w io.Writer) error {
		return WriteNodes(w, t)
	}); err != nil || v == nil {
		return err
	}
	b.Vectors, err = work.Write(ctx, fmt.Sprintf("vectors-%05d.npy", number), func(w io.Writer) error {
		return WriteVectors(w, v)
	})
	return err
}

// Publish writes the manifest and gives the files of a temporary place their name.
func (m *Manifest) Publish(ctx context.Context, work, to Location) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if _, err := work.WriteBytes(ctx, ManifestFile, append(text, '\n')); err != nil {
		return err
	}
	var names []string
	for _, b := range m.Blocks {
		names = append(names, b.Table.Name)
		if m.Dim > 0 {
			names = append(names, b.Vectors.Name)
		}
	}
	for _, list := range [][]Shard{m.LinkShards, m.Train, m.Test} {
		for _, s := range list {
			names = append(names, s.File.Name)
		}
	}
	return to.Publish(ctx, work, append(names, ManifestFile)...)
}

// writeShards sorts pairs by their blocks, keeping the order within, and writes them.
func writeShards(ctx context.Context, work Location, l *NodeLayout, name string, e sample.Evidence, most int) (
	out []Shard, err error) {
	n, p := len(l.Blocks), e.Pairs
	counts := make([]int, n*n+1)
	cell := func(k int) int { return l.Block(p.Source[k])*n + l.Block(p.Target[k]) }
	for k := range p.Len() {
		counts[cell(k)+1]++
	}
	for c := range n * n {
		counts[c+1] += counts[c]
	}
	order, next := make([]int32, p.Len()), append([]int(nil), counts...)
	for k := range p.Len() {
		c := cell(k)
		order[next[c]] = int32(k)
		next[c]++
	}
	for c := range n * n {
		for from, part := counts[c], 0; from < counts[c+1]; from, part = from+most, part+1 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			places := order[from:min(from+most, counts[c+1])]
			some := e.At(places)
			s := Shard{Source: c / n, Target: c % n, Pairs: len(places)}
			if s.File, err = work.Write(ctx, fmt.Sprintf("%s-%05d-%05d-%d.parquet", name, s.Source, s.Target, part),
				func(w io.Writer) error {
					return WritePairs(w, some.Pairs, some.Exposure)
				}); err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// WriteVectors writes vectors as .npy, float32.
func WriteVectors(w io.Writer, v *graph.Vectors) error {
	header := dataset.NpyHeader{Kind: "<f4", Shape: []int64{int64(v.Len()), int64(v.Dim())}}
	if _, err := w.Write(header.Append(nil)); err != nil {
		return err
	}
	row := make([]float32, v.Dim())
	bytes := make([]byte, 0, 4*len(row))
	for i := range int32(v.Len()) {
		v.Load(row, i)
		bytes = bytes[:0]
		for _, x := range row {
			bytes = appendFloat32(bytes, x)
		}
		if _, err := w.Write(bytes); err != nil {
			return err
		}
	}
	return nil
}

// Dataset opens a dataset and prepares its pairs as unseen fit does. A plan's EveryShown counts where people and items
// have a log of all that was shown.
func Dataset(ctx context.Context, dir string, plan func(*graph.Graph) sample.Plan, threads int) (d *dataset.Dataset,
	prepared *sample.Prepared, err error) {
	if d, err = dataset.Open(ctx, dir, dataset.OpenOptions{}); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	o := sample.Options{Origin: sample.Origin{Plan: plan(d.Graph())}, Threads: threads}
	o.Origin.Plan.Log = cmp.Or(o.Origin.Plan.Log, sample.LogKind(d.Manifest().Log))
	o.Origin.Plan.EveryShown = o.Origin.Plan.EveryShown && o.Origin.Plan.Log == sample.Complete && d.Graph().TwoSided()
	if o.Origin.Files, err = d.Checksums(ctx); err != nil {
		return nil, nil, err
	}
	e, err := d.Exposures(ctx)
	if err != nil {
		return nil, nil, err
	}
	if e != nil {
		o.Log = &sample.ExposureLog{Source: e.Source, Target: e.Target, Exposed: e.Exposed, Linked: e.Linked}
	}
	prepared, err = sample.Prepare(ctx, d.Graph(), o)
	return d, prepared, err
}

func appendFloat32(to []byte, x float32) []byte {
	return binary.LittleEndian.AppendUint32(to, math.Float32bits(x))
}
