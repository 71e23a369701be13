package job

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
)

// ListSettings say which lists to make.
type ListSettings struct {
	K      int  // how long
	Linked bool // targets that a node links to already may be recommended again
	Part   int  // nodes in a file; 0 means 4,096
	// Exact makes lists without the indexes that MakeIndexes left beside the shards.
	Exact bool
	// Recall is the share of the best that lists by indexes have at least, as measured; 0 means
	// recommend.StandardRecall. Where they find less, lists are exact.
	Recall float64
}

// ListFolder is what lists.json says of a folder of lists.
type ListFolder struct {
	Kind   string   `json:"kind"` // unseen-recommendations
	Data   string   `json:"data"` // checksum of the shards
	Model  string   `json:"model"`
	K      int      `json:"k"`
	Linked bool     `json:"linked,omitempty"`
	Nodes  int      `json:"nodes"` // with a list
	Parts  []string `json:"parts"`
	// Recall is what indexes find of the best, measured before; nil where there are none, or lists are exact.
	Recall *recommend.Recall `json:"recall,omitempty"`
}

// ListsFile is written last.
const ListsFile = "lists.json"

// Recommend writes the best targets of every node to a place that must not be there yet: lists-00000.jsonl and so on, a
// line per node as unseen recommend --all writes them. A task is some sources; its worker goes through the blocks of
// targets, one at a time, so that nothing but the finished lists leaves it.
func (e *Cluster) Recommend(ctx context.Context, m model.Model, to shards.Location, s ListSettings) (lists *ListFolder,
	err error) {
	if s.Part == 0 {
		s.Part = 4096
	}
	switch {
	case s.K < 1 || s.K > recommend.MaxK:
		return nil, fmt.Errorf("%w: %d recommendations; ask for 1 to %d", recommend.ErrQuery, s.K, recommend.MaxK)
	case to.Exists(ctx, ListsFile):
		return nil, fmt.Errorf("%w: %s holds lists already; give another place", shards.ErrContent, to.Root)
	}
	if _, ok := m.Link.(model.InnerProduct); !ok {
		return nil, fmt.Errorf("%w: a %s model is no inner product, so that its best targets are not found by "+
			"blocks; fit a diagonal or low-rank one", recommend.ErrModel, m.Link.Kind())
	}
	if m.Ranker().Slope != 0 && !slices.Contains(e.Manifest.Columns, shards.PopularityColumn) {
		return nil, fmt.Errorf("%w: lists of this model depend on how many link to a node, which the shards do not "+
			"say; cut them anew", shards.ErrContent)
	}
	work := to.Temporary()
	defer func() {
		if err != nil {
			work.Discard(context.WithoutCancel(ctx))
		}
	}()
	lists = &ListFolder{Kind: "unseen-recommendations", Data: e.Manifest.Checksum(), Model: m.DataChecksum, K: s.K,
		Linked: s.Linked}
	layout := e.Manifest.Layout()
	for i := range int32(e.Manifest.Nodes) {
		if layout.Role(i) != graph.TargetOnly {
			lists.Nodes++
		}
	}
	var tasks []task
	for b, block := range e.Manifest.Blocks {
		var links []shards.Shard
		if !s.Linked {
			for _, l := range e.Manifest.LinkShards {
				if l.Source == b {
					links = append(links, l)
				}
			}
		}
		for first := 0; first < block.Nodes; first += s.Part {
			tasks = append(tasks, task{Source: b, First: block.First + first, Nodes: min(s.Part, block.Nodes-first),
				Links: links})
			lists.Parts = append(lists.Parts, listName(len(tasks)-1))
		}
	}
	p := e.plan("lists")
	p.K, p.Linked = s.K, s.Linked
	if p.Model, err = e.pack(ctx, m); err != nil {
		return nil, err
	}
	if !s.Exact && model.NeedsVectors(m.Link.Kind()) { // indexes are of the vectors
		if lists.Recall, err = e.measureIndexes(ctx, p, cmp.Or(s.Recall, recommend.StandardRecall)); err != nil {
			return nil, err
		}
	}
	p.Result, p.Name = work.Absolute().Root, unique("lists")
	if err := e.Runner.leave(ctx, p, tasks, "lists", listName); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(lists, "", " ")
	if err != nil {
		return nil, err
	}
	if _, err := work.WriteBytes(ctx, ListsFile, append(text, '\n')); err != nil {
		return nil, err
	}
	return lists, to.Publish(ctx, work, append(slices.Clone(lists.Parts), ListsFile)...)
}

// TopK implements engine.Engine on the driver, which has the targets in its memory. Recommend searches the shards.
func (e *Cluster) TopK(ctx context.Context, s engine.TargetSearch) ([][]engine.Hit, error) {
	return engine.CPU{Threads: e.Runner.Threads}.TopK(ctx, s)
}

func listName(part int) string { return fmt.Sprintf("lists-%05d.jsonl", part) }

func unique(name string) string { return fmt.Sprintf("%s-%016x", name, rand.Uint64()) }

// lists makes the lists of some sources.
func (p *plan) lists(ctx context.Context, t *task) error {
	location := p.shards()
	var numbers []int32
	var sources []recommend.BlockSource
	for k := range t.Nodes {
		if i := int32(t.First + k); p.Layout.Role(i) != graph.TargetOnly {
			sources = append(sources, recommend.BlockSource{Node: int32(len(numbers)), Skip: []int32{i}})
			numbers = append(numbers, i)
		}
	}
	for _, shard := range t.Links {
		links, _, err := location.Pairs(ctx, shard, p.Threads)
		if err != nil {
			return err
		}
		for k, i := range links.Source {
			if at, is := slices.BinarySearch(numbers, i); is {
				sources[at].Skip = append(sources[at].Skip, links.Target[k])
			}
		}
	}
	for k := range sources {
		slices.Sort(sources[k].Skip)
		sources[k].Skip = slices.Compact(sources[k].Skip)
	}
	nodes, err := location.Gather(ctx, p.Layout, numbers, p.Threads)
	if err != nil {
		return err
	}
	defer nodes.Vectors.Close()
	m, err := p.model(ctx, nodes)
	if err != nil {
		return err
	}
	best := make([][]recommend.BlockHit, len(numbers))
	for b := range p.Layout.Blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		var found [][]recommend.BlockHit
		if err := p.inBlock(ctx, b, func(block recommend.Block) error {
			found, err = block.Top(ctx, m, sources, p.K)
			return err
		}); err != nil {
			return err
		}
		for k := range best {
			best[k] = recommend.MergeHits(best[k], found[k], p.K)
		}
	}
	names, err := p.names(ctx, best, numbers)
	if err != nil {
		return err
	}
	_, err = shards.Location{Root: p.Result}.Write(ctx, listName(t.Number), func(w io.Writer) error {
		return writeLists(w, names, numbers, best)
	})
	return err
}

// inBlock opens a block of targets, with its index where the plan has one, and closes it.
func (p *plan) inBlock(ctx context.Context, b int, do func(recommend.Block) error) error {
	at := p.Layout.Blocks[b]
	vectors, table, err := p.shards().OpenBlock(ctx, p.Layout, at)
	if err != nil {
		return err
	}
	defer vectors.Close()
	if bytes.HasPrefix(p.Model, ofFactors) {
		if vectors, err = p.targetRows(ctx, at, vectors, table); err != nil {
			return err
		}
	}
	block := recommend.Block{First: int32(at.First), Vectors: vectors, Fields: table.Fields,
		FieldCount: len(p.Layout.Fields), Popularity: table.Popularity, Engine: engine.CPU{Threads: p.Threads},
		Targets: p.targets(at), Threads: p.Threads}
	if p.Index != nil && p.Index.Blocks[b] {
		if block.Web, err = p.openIndex(ctx, b); err != nil {
			return err
		}
		defer block.Web.Close()
		block.Clusters = p.Index.Clusters
	}
	return do(block)
}

// targetRows are the factors of a block's targets with what their vectors add, and their effects.
func (p *plan) targetRows(ctx context.Context, b shards.NodeBlock, vectors *graph.Vectors, table shards.NodeTable) (
	*graph.Vectors, error) {
	n := model.Nodes{Vectors: vectors, Fields: table.Fields, FieldCount: len(p.Layout.Fields),
		Popularity: table.Popularity, Age: table.Age}
	for k := range b.Nodes {
		n.Numbers = append(n.Numbers, int32(b.First+k))
	}
	m, err := p.model(ctx, n)
	if err != nil {
		return nil, err
	}
	return m.Link.(model.InnerProduct).Rows(m.LinkParams)
}

// targets returns the places in a block that may be recommended; nil means all.
func (p *plan) targets(b shards.NodeBlock) []int32 {
	if p.Layout.Roles == nil {
		return nil
	}
	places := []int32{}
	for k := range int32(b.Nodes) {
		if p.Layout.Role(int32(b.First)+k) != graph.SourceOnly {
			places = append(places, k)
		}
	}
	return places
}

// names reads the ids of the sources and of all targets that were found.
func (p *plan) names(ctx context.Context, best [][]recommend.BlockHit, sources []int32) (map[int32]string, error) {
	wanted := make([]map[int32]bool, len(p.Layout.Blocks))
	want := func(i int32) {
		b := p.Layout.Block(i)
		if wanted[b] == nil {
			wanted[b] = map[int32]bool{}
		}
		wanted[b][i] = true
	}
	for k, list := range best {
		want(sources[k])
		for _, h := range list {
			want(h.Target)
		}
	}
	names := map[int32]string{}
	for b, some := range wanted {
		if some == nil {
			continue
		}
		ids, err := p.shards().IDs(ctx, p.Layout.Blocks[b])
		if err != nil {
			return nil, err
		}
		for i := range some {
			names[i] = ids[int(i)-p.Layout.Blocks[b].First]
		}
	}
	return names, nil
}

// writeLists writes a line per source.
func writeLists(w io.Writer, names map[int32]string, sources []int32, best [][]recommend.BlockHit) error {
	type line struct {
		Source  string    `json:"source"`
		Targets []string  `json:"targets"`
		Links   []float64 `json:"links"` // ŷ, six digits
	}
	buffered := bufio.NewWriter(w)
	lines := json.NewEncoder(buffered)
	for k, list := range best {
		l := line{Source: names[sources[k]], Targets: []string{}, Links: []float64{}}
		for _, h := range list {
			l.Targets = append(l.Targets, names[h.Target])
			y, _ := strconv.ParseFloat(strconv.FormatFloat(1/(1+math.Exp(-float64(h.Logit))), 'g', 6, 64), 64)
			l.Links = append(l.Links, y)
		}
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	return buffered.Flush()
}
