package job

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
)

// StandingSettings say whose candidates are ranked.
type StandingSettings struct {
	First   int    // of each list are kept; 0 means 100
	Sources int    // held-out ones that are drawn; 0 means 500
	Seed    uint64 // of the draw
}

// MostRanked is how many sources can be ranked at once: every worker holds their vectors.
const MostRanked = 1 << 16

// Standings is how all candidates of some held-out sources came out, as evaluate.Evaluation.SetRanks takes it. Targets
// have numbers of their own, by which Fields are.
type Standings struct {
	Models  [][]evaluate.Standing
	Fields  []uint16 // of targets
	Own     []uint16 // of sources
	Sources []int32  // nodes
}

// Standings ranks the held-out links of some sources among everything that these could have linked to, by models whose
// links are inner products: the ranks, lists and sources are those of one machine. Three jobs find the sources and
// their links, what these are ranked by, and block by block how many candidates come before each.
func (e *Cluster) Standings(ctx context.Context, models []model.Model, s StandingSettings) (*Standings, error) {
	s.First, s.Sources = cmp.Or(s.First, 100), cmp.Or(s.Sources, 500)
	switch m := e.Manifest; {
	case len(m.Test) == 0:
		return nil, e.noneHeld()
	case s.Sources < 1 || s.Sources > MostRanked || s.First < 1 || s.First > recommend.MaxK:
		return nil, fmt.Errorf("%w: the first %d of the candidates of %d sources; give 1 to %d, and 1 to %d sources",
			fit.ErrSetting, s.First, s.Sources, recommend.MaxK, MostRanked)
	case m.Data.Plan.Ordered() && !slices.Contains(m.Columns, shards.OrderColumn):
		return nil, fmt.Errorf("%w: candidates come before their source here, and the shards of %s do not say in "+
			"which order nodes are; cut them anew with unseen-beam import", shards.ErrContent, e.Shards.Root)
	}
	r := &rankPlan{StandingSettings: s}
	for _, one := range models {
		if _, ok := one.Link.(model.InnerProduct); !ok {
			return nil, fmt.Errorf("%w: a %s model is no inner product, so that links are not ranked by blocks; rank "+
				"by a diagonal or low-rank one, or on one machine", recommend.ErrModel, one.Link.Kind())
		}
		one.Members = nil // ranks are those of the model itself
		file, err := e.pack(ctx, one)
		if err != nil {
			return nil, err
		}
		r.Models = append(r.Models, file)
	}
	if err := e.drawHeld(ctx, r); err != nil {
		return nil, err
	}
	fields, err := e.scoreLinks(ctx, r)
	if err != nil {
		return nil, err
	}
	return e.countAhead(ctx, r, fields)
}

// rankPlan is what the workers of Standings share.
type rankPlan struct {
	StandingSettings
	Models [][]byte  `json:"models"` // files
	Nodes  []int32   `json:"nodes"`  // the sources, ascending
	Order  []int32   `json:"order"`  // of the sources; nil where there is none
	Links  [][]int32 `json:"links"`  // by source, ascending
	// Marks are what links are ranked by: by model, by evaluate.RankedBy and by source.
	Marks [][][][]evaluate.LinkScore `json:"marks,omitempty"`
}

// heldPiece is links of a shard, of the sources that may be drawn.
type heldPiece struct {
	Sources, Targets []int32
	Order            []int32 // of the sources
}

// heldLinks returns the links of those sources of a shard that are drawn if there are no others.
func (p *plan) heldLinks(ctx context.Context, t *task) (*heldPiece, error) {
	pairs, _, err := p.shards().Pairs(ctx, *t.Shard, p.Threads)
	if err != nil {
		return nil, err
	}
	block := p.Layout.Blocks[t.Shard.Source]
	var all []int32
	for k, i := range pairs.Source {
		if at := int(i) - block.First; at < 0 || at >= block.Nodes {
			return nil, fmt.Errorf("%w: %s names node %d, which is not in its block; make the shards again",
				shards.ErrDamaged, p.shards().Path(t.Shard.File.Name), i)
		}
		if pairs.Linked[k] && i != pairs.Target[k] {
			all = append(all, i)
		}
	}
	r := p.Piece.Ranks
	some, out := drawnOf(all, r.Sources, r.Seed), &heldPiece{}
	table := shards.NodeTable{}
	if len(some) > 0 && slices.Contains(p.Layout.Columns, shards.OrderColumn) {
		if table, err = p.shards().Table(ctx, p.Layout, block); err != nil {
			return nil, err
		}
	}
	for k, i := range pairs.Source {
		if _, is := slices.BinarySearch(some, i); is && pairs.Linked[k] && i != pairs.Target[k] {
			out.Sources, out.Targets = append(out.Sources, i), append(out.Targets, pairs.Target[k])
			if table.Order != nil {
				out.Order = append(out.Order, table.Order[int(i)-block.First])
			}
		}
	}
	return out, nil
}

// drawnOf returns the nodes that are drawn of some, ascending.
func drawnOf(nodes []int32, most int, seed uint64) []int32 {
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	slices.SortFunc(nodes, func(a, b int32) int {
		return cmp.Compare(evaluate.DrawnBy(seed, a), evaluate.DrawnBy(seed, b))
	})
	nodes = nodes[:min(len(nodes), most)]
	slices.Sort(nodes)
	return nodes
}

// drawHeld draws the sources, and finds their links and their places in the order. A source that is drawn of all is
// drawn of every shard that has one of its links.
func (e *Cluster) drawHeld(ctx context.Context, r *rankPlan) error {
	p := e.plan("sources")
	p.Piece = &piecePlan{Kind: "sources", Ranks: r}
	links, order := map[int32][]int32{}, map[int32]int32{}
	err := e.pieces(ctx, p, tasksOf(e.Manifest.Test), func(content []byte) error {
		var part heldPiece
		if err := unpack(content, &part); err != nil {
			return err
		}
		for k, i := range part.Sources {
			if links[i] = append(links[i], part.Targets[k]); part.Order != nil {
				order[i] = part.Order[k]
			}
		}
		if len(links) > 4*r.Sources { // most of these are not drawn
			kept := drawnOf(slices.Collect(maps.Keys(links)), r.Sources, r.Seed)
			maps.DeleteFunc(links, func(i int32, _ []int32) bool { _, is := slices.BinarySearch(kept, i); return !is })
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.Nodes = drawnOf(slices.Collect(maps.Keys(links)), r.Sources, r.Seed); len(r.Nodes) == 0 {
		return fmt.Errorf("%w: none of the held-out pairs of %s is a link", fit.ErrData, e.Shards.Root)
	}
	for _, i := range r.Nodes {
		slices.Sort(links[i])
		if r.Links = append(r.Links, slices.Compact(links[i])); len(order) > 0 {
			r.Order = append(r.Order, order[i])
		}
	}
	return nil
}

// scoredLinks is what links to a block are ranked by, by model, by evaluate.RankedBy and by source.
type scoredLinks struct {
	Scores [][][][]evaluate.LinkScore
	Fields map[int32]uint16 // of their targets
}

// scoreLinks finds what the links are ranked by, and the fields of their targets.
func (e *Cluster) scoreLinks(ctx context.Context, r *rankPlan) (map[int32]uint16, error) {
	p, layout := e.plan("marks"), e.Manifest.Layout()
	p.Piece = &piecePlan{Kind: "marks", Ranks: r}
	named := make([]bool, len(layout.Blocks))
	for _, targets := range r.Links {
		for _, j := range targets {
			named[layout.Block(j)] = true
		}
	}
	tasks := slices.DeleteFunc(blockTasks(e.Manifest), func(t task) bool { return !named[t.Source] })
	fields := map[int32]uint16{}
	var marks [][][][]evaluate.LinkScore
	err := e.pieces(ctx, p, tasks, func(content []byte) error {
		var part scoredLinks
		if err := unpack(content, &part); err != nil {
			return err
		}
		maps.Copy(fields, part.Fields)
		if marks == nil {
			marks = part.Scores
			return nil
		}
		for m := range marks {
			for by := range marks[m] {
				for k := range marks[m][by] {
					marks[m][by][k] = append(marks[m][by][k], part.Scores[m][by][k]...)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, one := range slices.Concat(marks...) {
		for k, links := range one {
			for _, link := range links {
				if x := float64(link.Score); math.IsNaN(x) || math.IsInf(x, 0) {
					return nil, fmt.Errorf("%w: what the link from node %d to %d is ranked by is %v; were the "+
						"parameters or vectors too large?", evaluate.ErrNaN, r.Nodes[k], link.Target, x)
				}
			}
		}
	}
	r.Marks = marks
	return fields, nil
}

// linkScores scores the links to a block.
func (p *plan) linkScores(ctx context.Context, t *task) (*scoredLinks, error) {
	r, block := p.Piece.Ranks, p.Layout.Blocks[t.Source]
	var targets []int32
	for _, some := range r.Links {
		for _, j := range some {
			if at := int(j) - block.First; at >= 0 && at < block.Nodes {
				targets = append(targets, int32(at))
			}
		}
	}
	slices.Sort(targets)
	out := &scoredLinks{Fields: map[int32]uint16{}}
	return out, p.rankBlock(ctx, t.Source, slices.Compact(targets), func(b evaluate.CandidateBlock,
		judge func(int) (*fit.Judge, error)) error {
		first := out.Scores == nil
		for k, j := range b.Nodes.Numbers[b.Sources:] {
			out.Fields[j] = b.Nodes.Fields[b.Sources+k]
		}
		for m := range r.Models {
			by, err := judge(m)
			if err != nil {
				return err
			}
			scores, err := b.Scores(ctx, by, r.Links, r.settings(p.Threads))
			if err != nil {
				return err
			}
			if first {
				out.Scores = append(out.Scores, scores)
				continue
			}
			for at := range scores {
				for k, more := range scores[at] {
					out.Scores[m][at][k] = append(out.Scores[m][at][k], more...)
				}
			}
		}
		return nil
	})
}

func (r *rankPlan) settings(threads int) evaluate.RankSettings {
	return evaluate.RankSettings{By: evaluate.RankedBy(), First: r.First, Threads: threads}
}

// blockStandings is what a block adds to the standings, by model, by evaluate.RankedBy and by source.
type blockStandings struct {
	Counts [][][]evaluate.BlockCount
	Fields map[int32]uint16 // of the first targets
	Own    []uint16         // of the sources
}

// add adds those of other targets.
func (s *blockStandings) add(more [][][]evaluate.BlockCount, k int) {
	if s.Counts == nil {
		s.Counts = more
		return
	}
	for m := range more {
		for by := range more[m] {
			for at, other := range more[m][by] {
				one := &s.Counts[m][by][at]
				for link, rank := range other.Ranks {
					one.Ranks[link] += rank
				}
				one.First = evaluate.MergeFirst(one.First, other.First, k)
			}
		}
	}
}

// countAhead ranks all candidates, block by block, and sums up.
func (e *Cluster) countAhead(ctx context.Context, r *rankPlan, fields map[int32]uint16) (*Standings, error) {
	p := e.plan("standings")
	p.Piece = &piecePlan{Kind: "standings", Ranks: r}
	tasks := blockTasks(e.Manifest)
	if e.Manifest.Data.Plan.Split.OfLinks() { // what a source links to already is no candidate
		from, layout := map[int]bool{}, e.Manifest.Layout()
		for _, i := range r.Nodes {
			from[layout.Block(i)] = true
		}
		for _, links := range e.Manifest.LinkShards {
			if from[links.Source] {
				tasks[links.Target].Links = append(tasks[links.Target].Links, links)
			}
		}
	}
	var all blockStandings
	err := e.pieces(ctx, p, tasks, func(content []byte) error {
		var part blockStandings
		if err := unpack(content, &part); err != nil {
			return err
		}
		maps.Copy(fields, part.Fields)
		if part.Own != nil { // a block without targets has counted nothing
			all.Own = part.Own
			all.add(part.Counts, r.First)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &Standings{Own: all.Own, Sources: r.Nodes}
	numbers := slices.Sorted(maps.Keys(fields))
	for _, j := range numbers {
		out.Fields = append(out.Fields, fields[j])
	}
	number := func(j int32) int32 { at, _ := slices.BinarySearch(numbers, j); return int32(at) }
	for m, model := range all.Counts {
		var standings []evaluate.Standing
		for by, counts := range model {
			one := evaluate.Standing{By: evaluate.RankedBy()[by]}
			for k, count := range counts {
				var linked, list []int32
				for _, link := range r.Marks[m][by][k] {
					linked = append(linked, number(link.Target))
				}
				for _, hit := range count.First {
					list = append(list, number(hit.Target))
				}
				ranked, err := evaluate.RankedAt(linked, count.Ranks)
				if err != nil {
					return nil, err
				}
				one.Ranking, one.Lists = append(one.Ranking, ranked), append(one.Lists, list)
			}
			standings = append(standings, one)
		}
		out.Models = append(out.Models, standings)
	}
	return out, nil
}

// standings counts the candidates of a block.
func (p *plan) standings(ctx context.Context, t *task) (*blockStandings, error) {
	r, block := p.Piece.Ranks, p.Layout.Blocks[t.Source]
	except, err := p.known(ctx, t)
	if err != nil {
		return nil, err
	}
	targets := p.targets(block)
	if p.Layout.Roles == nil {
		for k := range int32(block.Nodes) {
			targets = append(targets, k)
		}
	}
	out := &blockStandings{Fields: map[int32]uint16{}}
	return out, p.rankBlock(ctx, t.Source, targets, func(b evaluate.CandidateBlock,
		judge func(int) (*fit.Judge, error)) error {
		b.Except, out.Own = except, slices.Clone(b.Nodes.Fields[:b.Sources])
		var counts [][][]evaluate.BlockCount
		for m := range r.Models {
			by, err := judge(m)
			if err != nil {
				return err
			}
			count, err := b.Count(ctx, by, r.Marks[m], r.settings(p.Threads))
			if err != nil {
				return err
			}
			for _, one := range slices.Concat(count...) {
				for _, hit := range one.First {
					at, _ := slices.BinarySearch(b.Nodes.Numbers[b.Sources:], hit.Target)
					out.Fields[hit.Target] = b.Nodes.Fields[b.Sources+at]
				}
			}
			counts = append(counts, count)
		}
		out.add(counts, r.First)
		return nil
	})
}

// known returns what the sources link to that is not held out, ascending.
func (p *plan) known(ctx context.Context, t *task) ([][]int32, error) {
	r := p.Piece.Ranks
	except := make([][]int32, len(r.Nodes))
	for _, shard := range t.Links {
		links, _, err := p.shards().Pairs(ctx, shard, p.Threads)
		if err != nil {
			return nil, err
		}
		for k, i := range links.Source {
			at, is := slices.BinarySearch(r.Nodes, i)
			if !is {
				continue
			}
			if _, held := slices.BinarySearch(r.Links[at], links.Target[k]); !held {
				except[at] = append(except[at], links.Target[k])
			}
		}
	}
	return except, nil
}

// rankedTargets is how many targets are scored at a time, for up to 128 sources.
const rankedTargets = 1 << 13

// rankBlock hands the sources with some of a block's targets, named by their places in it, to a function, and what
// makes a model for them.
func (p *plan) rankBlock(ctx context.Context, number int, places []int32,
	do func(b evaluate.CandidateBlock, judge func(m int) (*fit.Judge, error)) error) error {
	r, at := p.Piece.Ranks, p.Layout.Blocks[number]
	sources, err := p.shards().Gather(ctx, p.Layout, r.Nodes, p.Threads)
	if err != nil {
		return err
	}
	defer sources.Vectors.Close()
	vectors, table, err := p.shards().OpenBlock(ctx, p.Layout, at)
	if err != nil {
		return err
	}
	defer vectors.Close()
	for some := range slices.Chunk(places, rankedTargets) {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := evaluate.CandidateBlock{Sources: len(r.Nodes), Except: make([][]int32, len(r.Nodes))}
		if r.Order != nil {
			b.Order = slices.Clone(r.Order)
			for _, k := range some {
				b.Order = append(b.Order, table.Order[k])
			}
		}
		if b.Nodes, err = beside(sources, vectors, table, some, at.First); err != nil {
			return err
		}
		err := do(b, func(m int) (*fit.Judge, error) {
			by, err := p.predictorFor(ctx, r.Models[m], b.Nodes)
			return &fit.Judge{Predictor: by, Engine: engine.CPU{Threads: p.Threads}}, err
		})
		b.Nodes.Vectors.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// joinedRows returns vectors with some of a block after them.
func joinedRows(v, block *graph.Vectors, places []int32) (*graph.Vectors, error) {
	own := v.Len()
	out, err := graph.NewVectors(own+len(places), v.Dim())
	if err != nil {
		return nil, err
	}
	row := make([]float32, v.Dim())
	for i := range int32(own) {
		v.Load(row, i)
		if err := out.Set(i, row); err != nil {
			return nil, err
		}
	}
	for k, at := range places {
		block.Load(row, at)
		if err := out.Set(int32(own+k), row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// beside returns nodes with some of a block after them.
func beside(n model.Nodes, vectors *graph.Vectors, table shards.NodeTable, places []int32, first int) (model.Nodes,
	error) {
	out := model.Nodes{FieldCount: n.FieldCount, FieldNames: n.FieldNames,
		Fields: slices.Clone(n.Fields), Numbers: slices.Clone(n.Numbers), Popularity: slices.Clone(n.Popularity),
		Age: slices.Clone(n.Age)}
	if n.Vectors != nil {
		var err error
		if out.Vectors, err = joinedRows(n.Vectors, vectors, places); err != nil {
			return out, err
		}
	}
	for _, at := range places {
		out.Fields, out.Numbers = append(out.Fields, table.Fields[at]), append(out.Numbers, int32(first)+at)
		if n.Popularity != nil {
			out.Popularity = append(out.Popularity, table.Popularity[at])
		}
		if n.Age != nil {
			out.Age = append(out.Age, table.Age[at])
		}
	}
	return out, nil
}
