package shards

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/progress"
	"unseen/sample"
)

// GenerateSettings say how large a random graph is and how it is cut.
type GenerateSettings struct {
	Nodes     int
	Pairs     int64 // training pairs; one of 1 + PerLink is a link
	PerLink   int   // unlinked pairs per link
	Dimension int   // of the vectors
	Fields    int
	Blocks    int // of nodes; 0 means as many as fill shards
	ShardSize int // pairs in a shard, at most; 0 means 1,048,576
	Seed      uint64
	Threads   int // 0 means all
	Progress  progress.Func
}

// mostShards bounds a manifest, which the driver holds and every worker reads.
const mostShards = 1 << 20

// Generate writes shards of a graph that is drawn at random, to measure with: vectors of independent normal numbers,
// and pairs whose ends have nothing to do with them, spread evenly over all sources. It never holds more than one
// shard or block per thread. The same settings give the same bytes, with any number of threads.
func Generate(ctx context.Context, to Location, s GenerateSettings) (m *Manifest, err error) {
	if s, err = s.complete(); err != nil {
		return nil, err
	}
	if to.Exists(ctx, ManifestFile) {
		return nil, fmt.Errorf("%w: %s holds shards already; give another place, or remove them", ErrContent, to.Root)
	}
	work := to.Temporary()
	defer func() {
		if err != nil {
			work.Discard(context.WithoutCancel(ctx))
		}
	}()
	m = s.manifest()
	if err = s.files(ctx, "writing blocks of nodes", len(m.Blocks), func(b int) error {
		return s.block(ctx, work, &m.Blocks[b], b)
	}); err != nil {
		return nil, err
	}
	if err = s.files(ctx, "writing shards of pairs", len(m.Train), func(k int) error {
		return s.shard(ctx, work, m, k)
	}); err != nil {
		return nil, err
	}
	for _, shard := range m.LinkShards {
		m.Links += int64(shard.Pairs)
	}
	return m, m.Publish(ctx, work, to)
}

// files writes files of about the same size, and reports how many there are and how long the others will take.
func (s GenerateSettings) files(ctx context.Context, phase string, count int, write func(k int) error) error {
	var mutex sync.Mutex
	done, start := 0, time.Now()
	return kern.ChunksErr(ctx, count, 1, s.Threads, func(_, k, _, _ int) error {
		if err := write(k); err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		done++
		s.Progress.Report(progress.Event{Phase: phase, Done: int64(done), Of: int64(count),
			Remaining: time.Since(start) * time.Duration(count-done) / time.Duration(done)})
		return nil
	})
}

// complete fills in what is 0 and refuses what cannot be.
func (s GenerateSettings) complete() (GenerateSettings, error) {
	if s.ShardSize == 0 {
		s.ShardSize = 1 << 20
	}
	if s.Blocks == 0 && s.ShardSize > 0 {
		full := math.Ceil(math.Sqrt(float64(s.Pairs) / float64(s.ShardSize)))
		s.Blocks = max(1, min(int(full), s.Nodes/2), (s.Nodes+MostInBlock-1)/MostInBlock)
	}
	s.Threads = kern.Threads(s.Threads)
	switch {
	case s.Nodes < 2 || s.Nodes > math.MaxInt32 || s.Dimension < 1 || s.Dimension > mostDim:
		return s, fmt.Errorf("%w: %d nodes with vectors of dimension %d; give 2 to %d nodes and dimensions of 1 to %d",
			ErrSetting, s.Nodes, s.Dimension, math.MaxInt32, mostDim)
	case s.Pairs < 1 || s.PerLink < 0 || s.ShardSize < 1:
		return s, fmt.Errorf("%w: %d pairs, %d unlinked ones per link, %d in a shard; give positive numbers",
			ErrSetting, s.Pairs, s.PerLink, s.ShardSize)
	case s.Fields < 1 || s.Fields >= math.MaxUint16:
		return s, fmt.Errorf("%w: %d fields; give 1 to %d", ErrSetting, s.Fields, math.MaxUint16-1)
	case s.Blocks < 1 || s.Blocks > s.Nodes/2 || (s.Nodes+s.Blocks-1)/s.Blocks > MostInBlock:
		return s, fmt.Errorf("%w: %d blocks of %d nodes; a block has 2 to %d", ErrSetting, s.Blocks, s.Nodes,
			MostInBlock)
	}
	if most := max(int64(s.Blocks)*int64(s.Blocks), s.Pairs/int64(s.ShardSize)); most > mostShards {
		return s, fmt.Errorf("%w: %d pairs of %d blocks, at most %d in a shard, make %d shards or more, and %d are "+
			"the most; put more pairs into a shard, or make fewer pairs or blocks", ErrSetting, s.Pairs, s.Blocks,
			s.ShardSize, most, mostShards)
	}
	if all := int64(s.Nodes) * int64(s.Nodes-1); s.Pairs > all {
		return s, fmt.Errorf("%w: %d pairs of %d nodes, which have %d; make fewer pairs, or more nodes", ErrSetting,
			s.Pairs, s.Nodes, all)
	}
	return s, nil
}

// manifest says where everything will be: all but the sums of the files.
func (s GenerateSettings) manifest() *Manifest {
	m := &Manifest{Format: Format, Version: Version, Nodes: s.Nodes, Dim: s.Dimension,
		Data: sample.Origin{Plan: sample.Plan{Seed: s.Seed, PerLink: s.PerLink}}}
	m.Fields = []string{"unknown"}
	for f := range s.Fields {
		m.Fields = append(m.Fields, fmt.Sprint("field ", f+1))
	}
	for b := range s.Blocks {
		first, next := s.Nodes*b/s.Blocks, s.Nodes*(b+1)/s.Blocks
		m.Blocks = append(m.Blocks, NodeBlock{First: first, Nodes: next - first})
	}
	cells := int64(s.Blocks) * int64(s.Blocks)
	for c := range cells {
		left := s.Pairs/cells + min(max(s.Pairs%cells-c, 0), 1)
		for left > 0 {
			shard := Shard{Source: int(c) / s.Blocks, Target: int(c) % s.Blocks,
				Pairs: int(min(left, int64(s.ShardSize)))}
			m.Train = append(m.Train, shard)
			left -= int64(shard.Pairs)
		}
	}
	m.LinkShards = make([]Shard, len(m.Train))
	m.Extent.Pairs = s.Pairs
	// the products of two numbers of variance 1/dimension each have the mean square 1/dimension²
	m.Extent.MeanSquare = 1 / float64(s.Dimension)
	m.Extent.MeanWeight = (1 + float64(s.PerLink)/s.rate()) / float64(1+s.PerLink)
	return m
}

// rate is how many of all unlinked pairs are drawn.
func (s GenerateSettings) rate() float64 {
	unlinked := float64(s.Pairs) * float64(s.PerLink) / float64(1+s.PerLink)
	return min(1, max(unlinked, 1)/(float64(s.Nodes)*float64(s.Nodes-1)))
}

// What the random numbers of a file are for.
const (
	ofNodes = iota + 1
	ofPairs
)

func (s GenerateSettings) random(purpose, number int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, uint64(purpose)<<56|uint64(number)))
}

// block writes the files of a block.
func (s GenerateSettings) block(ctx context.Context, work Location, b *NodeBlock, number int) error {
	rng := s.random(ofNodes, number)
	table := NodeTable{IDs: make([]string, b.Nodes), Fields: make([]uint16, b.Nodes)}
	for k := range table.IDs {
		table.IDs[k], table.Fields[k] = strconv.Itoa(b.First+k), uint16(1+rng.IntN(s.Fields))
	}
	vectors, err := graph.NewVectors(b.Nodes, s.Dimension)
	if err != nil {
		return err
	}
	defer vectors.Close()
	row, size := make([]float32, s.Dimension), 1/math.Sqrt(float64(s.Dimension))
	for k := range int32(b.Nodes) {
		for i := range row {
			row[i] = float32(rng.NormFloat64() * size)
		}
		if err := vectors.Set(k, row); err != nil {
			return err
		}
	}
	return b.writeFiles(ctx, work, number, table, vectors)
}

// shard writes a shard of pairs and that of its links.
func (s GenerateSettings) shard(ctx context.Context, work Location, m *Manifest, number int) (err error) {
	shard := &m.Train[number]
	from, to := m.Blocks[shard.Source], m.Blocks[shard.Target]
	rng := s.random(ofPairs, number)
	pairs, links := &graph.Pairs{}, &graph.Pairs{}
	rate := s.rate()
	for k := range shard.Pairs {
		i := int32(from.First + k*from.Nodes/shard.Pairs)
		j := int32(to.First + rng.IntN(to.Nodes))
		if i == j { // a block has two nodes
			j = int32(to.First + (int(j)-to.First+1)%to.Nodes)
		}
		if k%(1+s.PerLink) == 0 {
			appendPair(pairs, i, j, true, 1)
			appendPair(links, i, j, true, 1)
			continue
		}
		appendPair(pairs, i, j, false, rate)
	}
	m.LinkShards[number] = Shard{Source: shard.Source, Target: shard.Target, Pairs: links.Len()}
	for name, of := range map[string]struct {
		*Shard
		*graph.Pairs
	}{"train": {shard, pairs}, "links": {&m.LinkShards[number], links}} {
		if of.File, err = work.Write(ctx, fmt.Sprintf("%s-%05d-%05d-%d.parquet", name, shard.Source, shard.Target,
			number), func(w io.Writer) error { return WritePairs(w, of.Pairs, nil) }); err != nil {
			return err
		}
	}
	return nil
}

// appendPair adds a pair that was drawn at a rate.
func appendPair(p *graph.Pairs, source, target int32, linked bool, rate float64) {
	p.Source, p.Target, p.Linked = append(p.Source, source), append(p.Target, target), append(p.Linked, linked)
	p.Weight, p.Rate = append(p.Weight, 1/rate), append(p.Rate, rate)
}
