package job

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"

	"unseen/beam/shards"
	"unseen/dataset/exchange"
	"unseen/encode"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// ImportSettings say how works become shards.
type ImportSettings struct {
	Paths     []string // of works, JSON lines, plain or .gz: files, folders, or patterns of Beam's file systems
	Encoder   string   // what makes vectors of titles and abstracts: the encoder.safetensors of unseen encode
	Blocks    int      // how many blocks the nodes are dealt to; 0 means 16
	Pairs     int      // in a shard, at most; 0 means 1,048,576
	Negatives int      // unlinked pairs per link; 0 means graph.DefaultPerLink
	Test      float64  // share of the nodes that are held out; 0 means .2
	Seed      uint64
}

// importPlan is what workers of an import know.
type importPlan struct {
	Settings ImportSettings `json:"settings"`
	Fields   []string       `json:"fields,omitempty"`
	Rates    [2]float64     `json:"rates"` // of the unlinked pairs, in training and test
	Names    []int          `json:"names"` // which bucket a block was: those without works are no blocks
}

// unknown is the name of graph.UnknownField.
const unknown = "unknown"

// bucket deals a work to a bucket by its number alone.
func (s ImportSettings) bucket(number uint64) int {
	return int(mixed(number, 0) % uint64(s.Blocks))
}

// mixed is a hash of two numbers (the finaliser of SplitMix64, twice).
func mixed(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9 + 0x94d049bb133111eb
	for range 2 {
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

func uniform(a, b uint64) float64 { return float64(mixed(a, b)>>11) / (1 << 53) }

// held tells whether a node is held out.
func (s ImportSettings) held(node int32) bool {
	return uniform(s.Seed, uint64(uint32(node))+1) < s.Test
}

// work is what is kept of a work.
type work struct {
	Number     uint64
	File, Line int // where it stands: of two of one number the first counts
	Field      string
	Vector     []float32
	References []uint64
}

// blockWorks is what is kept of the works of a block between jobs.
type blockWorks struct {
	Numbers    []uint64
	Fields     []string
	References [][]uint64
}

// Import makes shards of OpenAlex's works as three jobs: works to blocks of nodes with their
// vectors, references to links between blocks, and links to pairs with a sample of those that are
// not linked. Nodes are numbered by block, and within it by their OpenAlex number.
//
// Held-out nodes are drawn by the seed. A link belongs to the part of its source; in training both
// ends are of that part. Unlinked pairs are drawn uniformly from all of their part.
func Import(ctx context.Context, runner Runner, to shards.Location, s ImportSettings) (m *shards.Manifest, err error) {
	s, err = s.withDefaults()
	if err != nil {
		return nil, err
	}
	if to.Exists(ctx, shards.ManifestFile) {
		return nil, fmt.Errorf("%w: %s holds shards already; give another place, or remove them", shards.ErrContent,
			to.Root)
	}
	files, err := filesUnder(ctx, s.Paths, "works (.gz or .jsonl)", func(name string) bool {
		return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".jsonl")
	})
	if err != nil {
		return nil, err
	}
	encoder, err := openEncoder(ctx, s.Encoder)
	if err != nil {
		return nil, err
	}
	m = &shards.Manifest{Format: shards.Format, Version: shards.Version, Dim: encoder.Dim()}
	m.Data = sample.Origin{Plan: sample.Plan{Split: sample.AtRandom, Later: true, PerLink: s.Negatives, Seed: s.Seed}}
	made := to.Temporary()
	defer func() {
		if err != nil {
			made.Discard(context.WithoutCancel(ctx))
		}
	}()
	p := &plan{Root: made.Absolute().Root, Result: made.Absolute().Root, Import: &importPlan{Settings: s}}
	if err := p.importWorks(ctx, runner, m, files); err != nil {
		return nil, err
	}
	links, err := p.importLinks(ctx, runner, m)
	if err != nil {
		return nil, err
	}
	if err := p.importPairs(ctx, runner, m, links); err != nil {
		return nil, err
	}
	for b := range m.Blocks {
		made.Remove(ctx, worksName(p.Import.Names[b]))
	}
	return m, m.Publish(ctx, made, to)
}

// importWorks makes blocks of nodes.
func (p *plan) importWorks(ctx context.Context, runner Runner, m *shards.Manifest, files []string) error {
	var tasks []task
	for _, path := range files {
		tasks = append(tasks, task{Path: path})
	}
	blocks, err := collect[blockResult](ctx, runner, p, tasks, "works", "block")
	if err != nil {
		return err
	}
	slices.SortFunc(blocks, func(a, b blockResult) int { return a.Bucket - b.Bucket })
	for _, b := range blocks {
		m.Blocks = append(m.Blocks, shards.NodeBlock{First: m.Nodes, Nodes: b.Nodes, Vectors: b.Vectors})
		p.Import.Names = append(p.Import.Names, b.Bucket)
		if m.Nodes += b.Nodes; m.Nodes > math.MaxInt32 {
			return fmt.Errorf("%w: more than %d works", shards.ErrContent, math.MaxInt32)
		}
		m.Fields = append(m.Fields, b.Fields...)
	}
	if m.Nodes < 2 {
		return fmt.Errorf("%w: %d works were found in %d files; name the folder of works", shards.ErrContent, m.Nodes,
			len(files))
	}
	m.Fields = slices.DeleteFunc(m.Fields, func(f string) bool { return f == "" || f == unknown })
	slices.Sort(m.Fields)
	m.Fields = append([]string{unknown}, slices.Compact(m.Fields)...)
	p.Layout, p.Import.Fields = m.Layout(), m.Fields
	return nil
}

// importLinks makes shards of links and returns how many are of training and of test.
func (p *plan) importLinks(ctx context.Context, runner Runner, m *shards.Manifest) (links [2]float64, err error) {
	var tasks []task
	for b := range m.Blocks {
		tasks = append(tasks, task{Source: b})
	}
	linked, err := collect[linksResult](ctx, runner, p, tasks, "refer", "link")
	if err != nil {
		return links, err
	}
	slices.SortFunc(linked, func(a, b linksResult) int { return a.Block - b.Block })
	for _, l := range linked {
		m.Blocks[l.Block].Table = l.Table
		m.LinkShards = append(m.LinkShards, l.Shards...)
		m.Links += l.Links
		links[0], links[1] = links[0]+float64(l.Parts[0]), links[1]+float64(l.Parts[1])
	}
	switch {
	case len(linked) != len(m.Blocks):
		return links, fmt.Errorf("%w: links of %d blocks came back, of %d", ErrJob, len(linked), len(m.Blocks))
	case links[0] == 0:
		return links, fmt.Errorf("%w: there are no links between works to learn from (%d links in all)",
			shards.ErrContent, m.Links)
	}
	byBlocks(m.LinkShards)
	p.Layout = m.Layout()
	return links, nil
}

// importPairs makes shards of pairs, given how many links are of training and of test.
func (p *plan) importPairs(ctx context.Context, runner Runner, m *shards.Manifest, links [2]float64) error {
	var nodes [2]float64
	for i := range int32(m.Nodes) {
		if p.Import.Settings.held(i) {
			nodes[1]++
		} else {
			nodes[0]++
		}
	}
	unlinked := [2]float64{nodes[0]*(nodes[0]-1) - links[0], nodes[1]*float64(m.Nodes-1) - links[1]}
	for part := range 2 {
		if unlinked[part] > 0 {
			p.Import.Rates[part] = min(float64(p.Import.Settings.Negatives)*links[part]/unlinked[part], 1)
		}
	}
	tasks := rectangles(m)
	drawn, err := collect[pairsResult](ctx, runner, p, tasks, "pairs")
	if err != nil {
		return err
	}
	slices.SortFunc(drawn, func(a, b pairsResult) int { return a.Number - b.Number })
	var weight, squares float64
	var products int
	for _, d := range drawn {
		m.Train, m.Test = append(m.Train, d.Shards[0]...), append(m.Test, d.Shards[1]...)
		m.Extent.Pairs += d.Pairs
		weight, squares, products = weight+d.Weight, squares+d.Squares, products+d.Products
	}
	if len(drawn) != len(tasks) || products == 0 {
		return fmt.Errorf("%w: pairs of %d blocks came back, of %d", ErrJob, len(drawn), len(tasks))
	}
	m.Extent.MeanWeight, m.Extent.MeanSquare = weight/float64(m.Extent.Pairs), max(squares/float64(products), 1e-30)
	return nil
}

// rectangles are tasks of a block of sources and a block of targets each, with the links between them.
func rectangles(m *shards.Manifest) (tasks []task) {
	for a := range m.Blocks {
		for b := range m.Blocks {
			tasks = append(tasks, task{Source: a, Target: b})
		}
	}
	for _, l := range m.LinkShards {
		t := &tasks[l.Source*len(m.Blocks)+l.Target]
		t.Links = append(t.Links, l)
	}
	return tasks
}

func (s ImportSettings) withDefaults() (ImportSettings, error) {
	s.Blocks, s.Pairs = cmp.Or(s.Blocks, 16), cmp.Or(s.Pairs, 1<<20)
	s.Negatives, s.Test = cmp.Or(s.Negatives, graph.DefaultPerLink), cmp.Or(s.Test, .2)
	switch {
	case len(s.Paths) == 0:
		return s, fmt.Errorf("%w: no works to import; name files, or a folder", shards.ErrSetting)
	case s.Encoder == "":
		return s, fmt.Errorf("%w: works have no vectors; give what makes them: the encoder.safetensors that "+
			"unseen encode leaves in a dataset, made from a sample of the works", shards.ErrSetting)
	case s.Blocks < 1 || s.Pairs < 1 || s.Negatives < 1 || !(s.Test > 0 && s.Test < 1):
		return s, fmt.Errorf("%w: %d blocks, %d pairs a shard, %d unlinked pairs per link, a share of %v held "+
			"out; give positive numbers, and a share below 1", shards.ErrSetting, s.Blocks, s.Pairs, s.Negatives,
			s.Test)
	}
	return s, nil
}

// filesUnder lists the files of a kind, in an order that does not depend on the storage.
func filesUnder(ctx context.Context, paths []string, kind string, is func(name string) bool) (files []string,
	err error) {
	for _, path := range paths {
		location := shards.Location{Root: path}
		if location.Local() {
			err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() && (file == path || is(entry.Name())) {
					files = append(files, shards.Location{Root: file}.Absolute().Root)
				}
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%w: %w", shards.ErrMissing, err)
			}
			continue
		}
		found, err := filesAt(ctx, path, is)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) == 0 {
		return nil, fmt.Errorf("%w: no %s in %s", shards.ErrMissing, kind, strings.Join(paths, ", "))
	}
	return files, nil
}

// encoders are those that this process has read, by path: they are large, and tasks many.
var encoders sync.Map

func openEncoder(ctx context.Context, path string) (*encode.LSA, error) {
	if e, ok := encoders.Load(path); ok {
		return e.(*encode.LSA), nil
	}
	content, err := shards.Location{Root: filepath.Dir(path)}.ReadAll(ctx, filepath.Base(path))
	if strings.Contains(path, "://") {
		cut := strings.LastIndexByte(path, '/')
		content, err = shards.Location{Root: path[:cut]}.ReadAll(ctx, path[cut+1:])
	}
	if err != nil {
		return nil, err
	}
	e, err := encode.Read(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	encoders.Store(path, e)
	return e, nil
}

// batchBytes is about how much a worker collects for a block before it hands it on.
const batchBytes = 1 << 20

// read reads a file of works and deals them to buckets, many at a time.
func (p *plan) read(ctx context.Context, t *task, emit func(int, []byte)) error {
	s := p.Import.Settings
	encoder, err := openEncoder(ctx, s.Encoder)
	if err != nil {
		return err
	}
	system, err := filesystem.New(ctx, t.Path)
	if err != nil {
		return err
	}
	defer system.Close()
	file, err := system.OpenRead(ctx, t.Path)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", shards.ErrMissing, t.Path, err)
	}
	defer file.Close()
	buffered := bufio.NewReaderSize(file, 1<<20)
	var text io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		if text, err = gzip.NewReader(buffered); err != nil {
			return fmt.Errorf("%w: %s: %w", shards.ErrDamaged, t.Path, err)
		}
	}
	waiting, size := make([][]work, s.Blocks), make([]int, s.Blocks)
	hand := func(b int) error {
		if len(waiting[b]) == 0 {
			return nil
		}
		batch, err := pack(waiting[b])
		if err == nil {
			emit(b, batch)
		}
		waiting[b], size[b] = nil, 0
		return err
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	for number := 1; lines.Scan(); number++ {
		if number%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		w, err := exchange.ParseOpenAlexWork(lines.Bytes())
		if err != nil {
			return fmt.Errorf("%w: %s, line %d: %w", shards.ErrDamaged, t.Path, number, err)
		}
		if w.Retracted || w.Paratext {
			continue
		}
		vector, _ := encoder.Encode(encode.Text{Title: w.Title, Body: w.Text})
		b := s.bucket(w.Number)
		waiting[b] = append(waiting[b], work{w.Number, t.Number, number, w.Field, vector, w.References})
		if size[b] += 4*len(vector) + 8*len(w.References) + 64; size[b] > batchBytes {
			if err := hand(b); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %s: %w", shards.ErrDamaged, t.Path, err)
	}
	for b := range waiting {
		if err := hand(b); err != nil {
			return err
		}
	}
	return nil
}

func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func unpack(b []byte, v any) error {
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		return fmt.Errorf("what one worker handed to another is damaged: %w", err)
	}
	return nil
}

type blockResult struct {
	Bucket  int
	Nodes   int
	Vectors shards.FileSum
	Fields  []string
}

func worksName(bucket int) string { return fmt.Sprintf("works-%05d.gob", bucket) }

// block makes a block of the works of a bucket: the vectors, and what the next job needs.
func (p *plan) block(ctx context.Context, bucket int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	var all []work
	var b []byte
	for batches(&b) {
		var some []work
		if err := unpack(b, &some); err != nil {
			return err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b work) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	all = slices.CompactFunc(all, func(a, b work) bool { return a.Number == b.Number })
	vectors, err := graph.NewVectors(len(all), len(all[0].Vector))
	if err != nil {
		return err
	}
	defer vectors.Close()
	out := &blockResult{Bucket: bucket, Nodes: len(all)}
	var kept blockWorks
	for k, w := range all {
		if err := vectors.Set(int32(k), w.Vector); err != nil {
			return fmt.Errorf("the vector of W%d: %w", w.Number, err)
		}
		kept.Numbers, kept.Fields, kept.References = append(kept.Numbers, w.Number), append(kept.Fields, w.Field),
			append(kept.References, w.References)
		if !slices.Contains(out.Fields, w.Field) {
			out.Fields = append(out.Fields, w.Field)
		}
	}
	if out.Vectors, err = p.shards().Write(ctx, fmt.Sprintf("vectors-%05d.npy", bucket), func(w io.Writer) error {
		return shards.WriteVectors(w, vectors)
	}); err != nil {
		return err
	}
	if err := p.keep(ctx, worksName(bucket), kept); err != nil {
		return err
	}
	return emitDocument(emit, out)
}

func (p *plan) works(ctx context.Context, block int) (*blockWorks, error) {
	var kept blockWorks
	return &kept, p.recall(ctx, worksName(p.Import.Names[block]), &kept)
}

// references are what the works of one block refer to in another.
type references struct {
	Block   int // of the sources
	Sources []int32
	Targets []uint64 // OpenAlex numbers
}

// refer sends the references of a block to the blocks of their targets, one element to each.
func (p *plan) refer(ctx context.Context, t *task, emit func(int, []byte)) error {
	kept, err := p.works(ctx, t.Source)
	if err != nil {
		return err
	}
	blockOf := make(map[int]int, len(p.Import.Names))
	for block, bucket := range p.Import.Names {
		blockOf[bucket] = block
	}
	out := make([]references, len(p.Layout.Blocks))
	first := int32(p.Layout.Blocks[t.Source].First)
	for k, targets := range kept.References {
		for _, number := range targets {
			if b, ok := blockOf[p.Import.Settings.bucket(number)]; ok {
				out[b].Sources, out[b].Targets = append(out[b].Sources, first+int32(k)), append(out[b].Targets, number)
			}
		}
	}
	for b := range out {
		if len(out[b].Sources) == 0 && b != t.Source { // a block hears of itself in any case
			continue
		}
		out[b].Block = t.Source
		batch, err := pack(out[b])
		if err != nil {
			return err
		}
		emit(b, batch)
	}
	return nil
}

type linksResult struct {
	Block  int
	Table  shards.FileSum
	Shards []shards.Shard
	Links  int64
	Parts  [2]int64 // links of training and test
}

// link makes links of the references to the works of a block, and writes them with its table.
func (p *plan) link(ctx context.Context, block int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	kept, err := p.works(ctx, block)
	if err != nil {
		return err
	}
	location, s := p.shards(), p.Import.Settings
	out := &linksResult{Block: block}
	ids, fields := make([]string, len(kept.Numbers)), make([]uint16, len(kept.Numbers))
	for k, number := range kept.Numbers {
		w := exchange.OpenAlexWork{Number: number}
		ids[k] = w.ID()
		if at, named := slices.BinarySearch(p.Import.Fields[1:], kept.Fields[k]); named {
			fields[k] = uint16(1 + at)
		}
	}
	if out.Table, err = location.Write(ctx, fmt.Sprintf("nodes-%05d.parquet", block),
		func(w io.Writer) error {
			return shards.WriteNodes(w, shards.NodeTable{IDs: ids, Fields: fields})
		}); err != nil {
		return err
	}
	first := int32(p.Layout.Blocks[block].First)
	var b []byte
	for batches(&b) {
		var r references
		if err := unpack(b, &r); err != nil {
			return err
		}
		var links []graph.Link
		for k, number := range r.Targets {
			if at, ok := slices.BinarySearch(kept.Numbers, number); ok && first+int32(at) != r.Sources[k] {
				links = append(links, graph.Link{Source: r.Sources[k], Target: first + int32(at)})
			}
		}
		slices.SortFunc(links, byPair)
		if links = slices.Compact(links); len(links) == 0 {
			continue
		}
		pairs := &graph.Pairs{}
		for _, l := range links {
			addPair(pairs, l, true, 1, 1)
			out.Links++
			switch {
			case s.held(l.Source):
				out.Parts[1]++
			case !s.held(l.Target):
				out.Parts[0]++
			}
		}
		made, err := p.write(ctx, "links", task{Source: r.Block, Target: block}, sample.Evidence{Pairs: pairs})
		if err != nil {
			return err
		}
		out.Shards = append(out.Shards, made...)
	}
	byBlocks(out.Shards)
	return emitDocument(emit, out)
}

func byPair(a, b graph.Link) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Target, b.Target))
}

func byBlocks(list []shards.Shard) {
	slices.SortStableFunc(list, func(a, b shards.Shard) int {
		return cmp.Or(a.Source-b.Source, a.Target-b.Target, strings.Compare(a.File.Name, b.File.Name))
	})
}

func addPair(p *graph.Pairs, l graph.Link, linked bool, weight, rate float64) {
	p.Source, p.Target, p.Linked = append(p.Source, l.Source), append(p.Target, l.Target), append(p.Linked, linked)
	p.Weight, p.Rate = append(p.Weight, weight), append(p.Rate, rate)
}

// write writes pairs of two blocks as shards of a size.
func (p *plan) write(ctx context.Context, name string, t task, e sample.Evidence) (out []shards.Shard, err error) {
	pairs := e.Pairs
	for from, part := 0, 0; from < pairs.Len(); part++ {
		to := min(from+p.Import.Settings.Pairs, pairs.Len())
		some := &graph.Pairs{Source: pairs.Source[from:to], Target: pairs.Target[from:to],
			Linked: pairs.Linked[from:to], Weight: pairs.Weight[from:to], Rate: pairs.Rate[from:to]}
		var exposure []risk.Exposure
		if e.Exposure != nil {
			exposure = e.Exposure[from:to]
		}
		s := shards.Shard{Source: t.Source, Target: t.Target, Pairs: some.Len()}
		if s.File, err = p.shards().Write(ctx, fmt.Sprintf("%s-%05d-%05d-%d.parquet", name, t.Source, t.Target, part),
			func(w io.Writer) error {
				return shards.WritePairs(w, some, exposure)
			}); err != nil {
			return nil, err
		}
		out, from = append(out, s), to
	}
	return out, nil
}

type pairsResult struct {
	Number   int
	Shards   [2][]shards.Shard // training and test
	Pairs    int64             // of training
	Weight   float64
	Squares  float64 // ‖h_i⊙h_j‖² of some
	Products int
}

// pairs draws the pairs from one block to another.
func (p *plan) pairs(ctx context.Context, t *task, emit func(int, []byte)) error {
	s := p.Import.Settings
	linked := map[graph.Link]bool{}
	for _, shard := range t.Links {
		links, _, err := p.shards().Pairs(ctx, shard, p.Threads)
		if err != nil {
			return err
		}
		for k := range links.Len() {
			linked[graph.Link{Source: links.Source[k], Target: links.Target[k]}] = true
		}
	}
	from, to := p.Layout.Blocks[t.Source], p.Layout.Blocks[t.Target]
	var nodes [2][]int32   // sources by part
	var targets [2][]int32 // of training, and all
	for i := range from.Nodes {
		part := 0
		if s.held(int32(from.First + i)) {
			part = 1
		}
		nodes[part] = append(nodes[part], int32(from.First+i))
	}
	for j := range to.Nodes {
		if !s.held(int32(to.First + j)) {
			targets[0] = append(targets[0], int32(to.First+j))
		}
		targets[1] = append(targets[1], int32(to.First+j))
	}
	out := &pairsResult{Number: t.Number}
	for part, name := range []string{"train", "test"} {
		rate := p.Import.Rates[part]
		rng := rand.New(rand.NewPCG(s.Seed, mixed(uint64(part), uint64(t.Source)<<32|uint64(t.Target))))
		taken := map[graph.Link]bool{}
		for l := range linked {
			if s.held(l.Source) == (part == 1) && (part == 1 || !s.held(l.Target)) {
				taken[l] = true
			}
		}
		for _, l := range draw(rng, nodes[part], targets[part], taken, rate) {
			taken[l] = false
		}
		all := make([]graph.Link, 0, len(taken))
		for l := range taken {
			all = append(all, l)
		}
		slices.SortFunc(all, byPair)
		pairs := &graph.Pairs{}
		for _, l := range all {
			weight := 1.
			if !taken[l] {
				weight = 1 / rate
			}
			addPair(pairs, l, taken[l], weight, min(rate, 1))
			if part == 0 {
				out.Weight += weight
			}
		}
		made, err := p.write(ctx, name, *t, sample.Evidence{Pairs: pairs})
		if err != nil {
			return err
		}
		out.Shards[part] = made
		if part == 0 && pairs.Len() > 0 {
			out.Pairs = int64(pairs.Len())
			if err := p.products(ctx, pairs, out); err != nil {
				return err
			}
		}
	}
	return emitDocument(emit, out)
}

// draw draws each pair that is not taken with a chance, or as many of them as that comes to.
func draw(rng *rand.Rand, sources, targets []int32, taken map[graph.Link]bool, rate float64) (out []graph.Link) {
	all := float64(len(sources)) * float64(len(targets))
	if rate <= 0 || all == 0 {
		return nil
	}
	if rate > .05 || all < 1<<16 {
		for _, i := range sources {
			for _, j := range targets {
				l := graph.Link{Source: i, Target: j}
				if _, is := taken[l]; i != j && !is && rng.Float64() < rate {
					out = append(out, l)
				}
			}
		}
		return out
	}
	same := 0 // pairs that are none
	for _, i := range sources {
		if _, found := slices.BinarySearch(targets, i); found {
			same++
		}
	}
	want := int(rate*(all-float64(len(taken)+same)) + rng.Float64())
	drawn := make(map[graph.Link]bool, want)
	for len(drawn) < want {
		l := graph.Link{Source: sources[rng.IntN(len(sources))], Target: targets[rng.IntN(len(targets))]}
		if _, is := taken[l]; !is && l.Source != l.Target && !drawn[l] {
			drawn[l] = true
			out = append(out, l)
		}
	}
	return out
}

// products looks at ‖h_i⊙h_j‖² of its share of 2,000 pairs.
func (p *plan) products(ctx context.Context, pairs *graph.Pairs, out *pairsResult) (err error) {
	blocks := len(p.Layout.Blocks)
	out.Products = min(2000/(blocks*blocks)+1, pairs.Len())
	var places []int
	for k := range out.Products {
		places = append(places, k*pairs.Len()/out.Products)
	}
	out.Squares, err = p.squares(ctx, pairs, places)
	return err
}

// squares returns the sum of ‖h_i⊙h_j‖² over some of the pairs.
func (p *plan) squares(ctx context.Context, pairs *graph.Pairs, places []int) (float64, error) {
	if len(places) == 0 {
		return 0, nil
	}
	some := &graph.Pairs{}
	var numbers []int32
	for _, at := range places {
		addPair(some, graph.Link{Source: int32(len(numbers)), Target: int32(len(numbers) + 1)}, true, 1, 1)
		numbers = append(numbers, pairs.Source[at], pairs.Target[at])
	}
	nodes, err := p.shards().Gather(ctx, p.Layout, numbers, p.Threads)
	if err != nil {
		return 0, err
	}
	defer nodes.Vectors.Close()
	link, err := model.NewLink("diagonal", nodes, model.LinkOptions{})
	if err != nil {
		return 0, err
	}
	return fit.MeanSquare(link, some) * float64(len(places)), nil
}
