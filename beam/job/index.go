package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"unseen/beam/shards"
	"unseen/graph"
	"unseen/index"
	"unseen/model"
	"unseen/recommend"
)

// IndexSettings say how the vectors of blocks are indexed.
type IndexSettings struct {
	// Fewest is how many nodes a block has at least that gets an index: fewer are compared one by one in the same
	// time. 0 means 50,000.
	Fewest int
	Seed   uint64 // of the order in which vectors are linked
}

// BlockIndex is the index of a block.
type BlockIndex struct {
	Block int    `json:"block"`
	Nodes int    `json:"nodes"`
	Made  string `json:"made"` // new, or kept: it is of these vectors already
	Bytes int    `json:"bytes"`
}

// indexPlan is what workers know of indexes.
type indexPlan struct {
	IndexSettings
	Blocks   []bool    `json:"blocks,omitempty"`   // that have one
	Clusters int       `json:"clusters,omitempty"` // at how many of a block's lists look
	Counts   []int     `json:"counts,omitempty"`   // that are tried
	Sources  []int32   `json:"sources,omitempty"`  // whose lists are compared
	Least    []float32 `json:"least,omitempty"`    // the score from which on a target is one of the best of each
}

// FewestIndexed is IndexSettings.Fewest where it is 0, as package recommend has it for one machine.
const FewestIndexed = 50_000

// indexName is beside the vectors of a block: an index is made of them alone and serves every model.
func indexName(block int) string { return fmt.Sprintf("index-%05d.bin", block) }

// MakeIndexes makes an index of the vectors of every large block, beside them. One that is there and of these vectors
// is kept; one of others, or that is damaged, is made again. The same vectors give the same bytes.
func (e *Cluster) MakeIndexes(ctx context.Context, s IndexSettings) ([]BlockIndex, error) {
	if e.Manifest.Dim == 0 {
		return nil, fmt.Errorf("%w: the shards in %s have no vectors, of which indexes are made; make lists without, "+
			"as lists by factors are made in any case", shards.ErrSetting, e.Shards.Root)
	}
	if s.Fewest == 0 {
		s.Fewest = FewestIndexed
	}
	var tasks []task
	for b, block := range e.Manifest.Blocks {
		if block.Nodes >= s.Fewest {
			tasks = append(tasks, task{Source: b})
		}
	}
	if len(tasks) == 0 {
		return nil, nil
	}
	p := e.plan("index")
	p.Index = &indexPlan{IndexSettings: s}
	made, err := collect[BlockIndex](ctx, e.Runner, p, tasks, "index")
	slices.SortFunc(made, func(a, b BlockIndex) int { return a.Block - b.Block })
	return made, err
}

// makeIndex makes the index of a block, or keeps the one that is there.
func (p *plan) makeIndex(ctx context.Context, t *task, emit func(int, []byte)) error {
	block := p.Layout.Blocks[t.Source]
	out := BlockIndex{Block: t.Source, Nodes: block.Nodes, Made: "kept"}
	web, err := p.openIndex(ctx, t.Source)
	if err == nil {
		out.Bytes = web.Bytes()
		web.Close()
		return emitDocument(emit, out)
	}
	if ctx.Err() != nil || !errors.Is(err, index.ErrOther) && !errors.Is(err, index.ErrFile) &&
		!errors.Is(err, fs.ErrNotExist) {
		return err
	}
	vectors, err := p.shards().Vectors(ctx, block.Vectors)
	if err != nil {
		return err
	}
	defer vectors.Close()
	if web, err = index.Build(ctx, vectors, index.Options{Seed: p.Index.Seed, Threads: p.Threads}); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "unseen-index-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, indexName(t.Source))
	if err := web.Save(path, block.Vectors.SHA256); err != nil {
		return err
	}
	if _, err := p.shards().Write(ctx, indexName(t.Source), func(w io.Writer) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(w, file)
		return err
	}); err != nil {
		return err
	}
	out.Made, out.Bytes = "new", web.Bytes()
	return emitDocument(emit, out)
}

// openIndex opens the index of a block, for the caller to close. All of it is checked, and that it is of the block's
// vectors. One that is elsewhere is copied first.
func (p *plan) openIndex(ctx context.Context, b int) (*index.Web, error) {
	name := indexName(b)
	path := p.shards().Path(name)
	if !p.shards().Local() {
		content, err := p.shards().ReadAll(ctx, name)
		if err != nil {
			return nil, err
		}
		folder, err := os.MkdirTemp("", "unseen-index-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder) // what is mapped stays until it is closed
		path = filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	web, err := index.Open(ctx, path, p.Layout.Blocks[b].Vectors.SHA256, p.Threads)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w; make it again with unseen-beam index", p.shards().Path(name), err)
	}
	return web, err
}

// measuredSources is how many lists are compared with exact ones.
const measuredSources = 200

// measureIndexes finds at how many clusters of their blocks lists have to look to hold a share of the best, and has the
// plan look there; nil where no block has an index. Lists that are compared may hold what their sources link to.
func (e *Cluster) measureIndexes(ctx context.Context, p *plan, least float64) (*recommend.Recall, error) {
	x := &indexPlan{Blocks: make([]bool, len(e.Manifest.Blocks)), Sources: e.drawSources(measuredSources)}
	most := 0
	for b := range x.Blocks {
		if x.Blocks[b] = e.Shards.Exists(ctx, indexName(b)); x.Blocks[b] {
			most = max(most, index.ClustersOf(e.Manifest.Blocks[b].Nodes))
		}
	}
	if x.Counts = recommend.ClusterCounts(most); len(x.Counts) == 0 || len(x.Sources) == 0 {
		return nil, nil
	}
	tasks := blockTasks(e.Manifest)
	p.Result = e.Work.Absolute().Root
	p.Index = &indexPlan{Sources: x.Sources, Blocks: make([]bool, len(x.Blocks))}
	exact, err := collect[[][]float32](ctx, e.Runner, p, tasks, "best")
	if err != nil {
		return nil, err
	}
	wanted := 0
	best := make([]int, len(x.Sources))
	for k := range x.Sources {
		var scores []float32
		for _, block := range exact {
			scores = append(scores, block[k]...)
		}
		slices.Sort(scores)
		scores = scores[max(len(scores)-p.K, 0):]
		if best[k] = len(scores); best[k] == 0 {
			scores = []float32{0}
		}
		wanted += best[k]
		x.Least = append(x.Least, recommend.LeastScore(scores[0]))
	}
	p.Index = x
	found, err := collect[[][]int](ctx, e.Runner, p, tasks, "found")
	if err != nil {
		return nil, err
	}
	recall := &recommend.Recall{Queries: len(x.Sources), K: p.K}
	for at, count := range x.Counts {
		hit := 0
		for k := range x.Sources {
			own := 0
			for _, block := range found {
				own += block[at][k]
			}
			hit += min(own, best[k])
		}
		recall.Clusters, recall.Share = count, float64(hit)/float64(max(wanted, 1))
		if recall.Used = recall.Share >= least; recall.Used {
			break
		}
	}
	if x.Clusters = recall.Clusters; !recall.Used {
		p.Index = nil
	}
	return recall, nil
}

// drawSources draws sources at random, as one machine does.
func (e *Cluster) drawSources(most int) (out []int32) {
	layout, all := e.Manifest.Layout(), 0
	roles := layout.Roles
	if roles == nil {
		roles = []shards.RoleRun{{}}
	}
	var firsts, before []int // of runs of sources, and how many sources there are before each
	for k, run := range roles {
		end := e.Manifest.Nodes
		if k+1 < len(roles) {
			end = roles[k+1].First
		}
		if layout.Role(int32(run.First)) != graph.TargetOnly {
			firsts, before = append(firsts, run.First), append(before, all)
			all += end - run.First
		}
	}
	random := rand.New(rand.NewPCG(1, uint64(all)))
	for range min(most, all) {
		k := random.IntN(all)
		after, _ := slices.BinarySearch(before, k+1)
		out = append(out, int32(firsts[after-1]+k-before[after-1]))
	}
	return out
}

// measured readies the sources whose lists are compared.
func (p *plan) measured(ctx context.Context) (m model.Model, sources []recommend.BlockSource, done func(), err error) {
	numbers := slices.Compact(slices.Sorted(slices.Values(p.Index.Sources)))
	nodes, err := p.shards().Gather(ctx, p.Layout, numbers, p.Threads)
	if err != nil {
		return m, nil, nil, err
	}
	for _, i := range p.Index.Sources {
		at, _ := slices.BinarySearch(numbers, i)
		sources = append(sources, recommend.BlockSource{Node: int32(at), Skip: []int32{i}})
	}
	m, err = p.model(ctx, nodes)
	return m, sources, func() { nodes.Vectors.Close() }, err
}

// best sends the best scores in a block of every measured source.
func (p *plan) best(ctx context.Context, t *task, emit func(int, []byte)) error {
	m, sources, done, err := p.measured(ctx)
	if err != nil {
		return err
	}
	defer done()
	return p.inBlock(ctx, t.Source, func(b recommend.Block) error {
		lists, err := b.Top(ctx, m, sources, p.K)
		if err != nil {
			return err
		}
		scores := make([][]float32, len(lists))
		for k, hits := range lists {
			scores[k] = []float32{}
			for _, h := range hits {
				scores[k] = append(scores[k], h.Score)
			}
		}
		return emitDocument(emit, scores)
	})
}

// found sends how many of the best of every measured source are found in a block, by the number of clusters.
func (p *plan) found(ctx context.Context, t *task, emit func(int, []byte)) error {
	m, sources, done, err := p.measured(ctx)
	if err != nil {
		return err
	}
	defer done()
	return p.inBlock(ctx, t.Source, func(b recommend.Block) error {
		out := make([][]int, len(p.Index.Counts))
		var lists [][]recommend.BlockHit
		for at, count := range p.Index.Counts {
			if b.Clusters = count; b.Web != nil || lists == nil {
				if lists, err = b.Top(ctx, m, sources, p.K); err != nil {
					return err
				}
			}
			out[at] = make([]int, len(lists))
			for k, hits := range lists {
				for _, h := range hits {
					if h.Score >= p.Index.Least[k] {
						out[at][k]++
					}
				}
			}
		}
		return emitDocument(emit, out)
	})
}
