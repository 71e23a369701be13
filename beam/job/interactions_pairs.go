package job

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sort"

	"unseen/beam/shards"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

const secondsPerYear = 365.25 * 24 * 60 * 60 // as model.Ages has it

// subsetsOf returns the subset of every link of a block.
func (p *plan) subsetsOf(block int, kept *nodeBlock) []graph.Subset {
	of, plan := make([]graph.Subset, len(kept.Source)), p.Tables.Settings.Plan
	switch plan.Split {
	case sample.LastLinks:
		for from, to := 0, 0; from < len(of); from = to {
			for to = from; to < len(of) && kept.Source[to] == kept.Source[from]; to++ {
			}
			graph.DefaultShares.LastLinks(of[from:to], kept.Seconds[from:to])
		}
	case sample.LinksByDate:
		for k, t := range kept.Seconds {
			of[k] = graph.SubsetByDate(t, plan.Dates[0].Time, plan.Dates[1].Time)
		}
	case sample.RandomLinks:
		random := rand.New(rand.NewPCG(plan.Seed, 0x5eed)) // as package sample has it
		for range p.Tables.Before[block] {
			random.Float64()
		}
		for k := range of {
			of[k] = graph.DefaultShares.SubsetFor(random.Float64())
		}
	}
	return of
}

// linkTable is what the driver hears of the links of a block.
type linkTable struct {
	Block  int
	Table  shards.FileSum
	Shards []shards.Shard
	Parts  [3]int64 // links by subset
}

// linkedTargets says how many training links lead to targets of a block, and when the first of them was.
type linkedTargets struct {
	Target, Count []int32
	First         []int64    // graph.NoTime where it is not known
	Links         *linkTable // of the block itself
}

// linkedTarget is one of them.
type linkedTarget struct {
	count int32
	first int64
}

// split writes the links of a block's people, and sends to other blocks how many of training lead to their items.
func (p *plan) split(ctx context.Context, t *task, emit func(int, []byte)) error {
	var kept nodeBlock
	if err := p.recall(ctx, blockName(t.Source), &kept); err != nil {
		return err
	}
	own := linkTable{Block: t.Source}
	links, counts := &graph.Pairs{}, make([]map[int32]linkedTarget, len(p.Layout.Blocks))
	for k, subset := range p.subsetsOf(t.Source, &kept) {
		own.Parts[subset]++
		l := graph.Link{Source: kept.Source[k], Target: kept.Target[k]}
		addPair(links, l, true, 1, 1)
		if b := p.Layout.Block(l.Target); subset == graph.Train {
			if counts[b] == nil {
				counts[b] = map[int32]linkedTarget{}
			}
			of, known := counts[b][l.Target]
			if !known {
				of.first = graph.NoTime
			}
			counts[b][l.Target] = linkedTarget{of.count + 1, earlier(of.first, kept.Seconds[k])}
		}
	}
	var err error
	if own.Shards, err = p.writeCells(ctx, "links", t.Source, sample.Evidence{Pairs: links}); err != nil {
		return err
	}
	for b, of := range counts {
		var out linkedTargets
		for target, l := range of {
			out.Target, out.Count = append(out.Target, target), append(out.Count, l.count)
			out.First = append(out.First, l.first)
		}
		if b == t.Source {
			out.Links = &own
		}
		if out.Links == nil && len(out.Target) == 0 {
			continue
		}
		if err := emitPacked(emit, b, out); err != nil {
			return err
		}
	}
	return nil
}

// writeCells writes pairs of a block's people by the blocks of their targets.
func (p *plan) writeCells(ctx context.Context, name string, block int, all sample.Evidence) (out []shards.Shard,
	err error) {
	cells := make([][]int32, len(p.Layout.Blocks))
	for k, j := range all.Pairs.Target {
		b := p.Layout.Block(j)
		cells[b] = append(cells[b], int32(k))
	}
	for b, cell := range cells {
		if cell == nil {
			continue
		}
		made, err := p.write(ctx, name, task{Source: block, Target: b}, all.At(cell))
		if err != nil {
			return nil, err
		}
		out = append(out, made...)
	}
	return out, nil
}

// nodeTable writes the table of a block.
func (p *plan) nodeTable(ctx context.Context, block int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	var kept nodeBlock
	if err := p.recall(ctx, blockName(block), &kept); err != nil {
		return err
	}
	var out *linkTable
	var targets []int32
	first, there := int32(p.Layout.Blocks[block].First), slices.Clone(kept.Times)
	var b []byte
	for batches(&b) {
		var some linkedTargets
		if err := unpack(b, &some); err != nil {
			return err
		}
		if some.Links != nil {
			out = some.Links
		}
		for k, target := range some.Target {
			for range some.Count[k] {
				targets = append(targets, target-first)
			}
			// Who was linked to was there.
			if at := target - first; kept.Times[at] != graph.NoTime {
				there[at] = earlier(there[at], some.First[k])
			}
		}
	}
	if out == nil {
		return fmt.Errorf("%w: block %d did not hear of itself", ErrJob, block)
	}
	if p.Tables.Settings.Plan.Available {
		if err := p.keep(ctx, thereName(block), there); err != nil {
			return err
		}
	}
	table := shards.NodeTable{IDs: kept.IDs, Fields: make([]uint16, len(kept.IDs)),
		Popularity: model.LogInDegree(len(kept.IDs), targets)}
	for k, field := range kept.Fields {
		table.Fields[k] = p.Tables.Names[field]
	}
	if aged := p.Tables.Aged; aged != nil {
		for _, t := range kept.Times {
			age := aged.Mean
			if t != graph.NoTime {
				age = float64(aged.Newest-t) / secondsPerYear
			}
			table.Age = append(table.Age, float32(age))
		}
	}
	var err error
	if out.Table, err = p.shards().Write(ctx, fmt.Sprintf("nodes-%05d.parquet", block), func(w io.Writer) error {
		return shards.WriteNodes(w, table)
	}); err != nil {
		return err
	}
	return emitDocument(emit, out)
}

// drawPlan says which pairs are drawn: of a universe of all people and all items without the links of earlier subsets,
// the links of one and some of the others, each set of that size with the same chance. See graph.Uniform.
type drawPlan struct {
	Links  [3]int64     `json:"links"` // of all subsets
	Subset graph.Subset `json:"subset"`
	All    int64        `json:"all"`   // pairs
	Free   int64        `json:"free"`  // pairs that are not links
	Want   int64        `json:"want"`  // of these, to be drawn
	Dense  bool         `json:"dense"` // by going through all pairs
	Draws  int64        `json:"draws"` // else: random numbers until so many are found
	Before []int64      `json:"before,omitempty"`
	Total  int64        `json:"total,omitempty"` // pairs in all, and in the blocks before each
}

// rate is how many of the free pairs are drawn.
func (d *drawPlan) rate() float64 {
	if d.Free == 0 {
		return 1
	}
	return float64(d.Want) / float64(d.Free)
}

// drawPairs draws the pairs of training and test.
func (p *plan) drawPairs(ctx context.Context, runner Runner, m *shards.Manifest) error {
	t, d := p.Tables, p.Tables.Draw
	if t.Settings.Plan.Available {
		if err := p.orderItems(ctx, runner, m); err != nil {
			return err
		}
	}
	for _, of := range []struct {
		graph.Subset
		into *[]shards.Shard
	}{{graph.Train, &m.Train}, {graph.Test, &m.Test}} {
		if of.Subset == graph.Test && t.Settings.Plan.Split == sample.Whole {
			break
		}
		d.Subset, d.Draws = of.Subset, 0
		if d.All = int64(t.People) * int64(t.Nodes-t.People); t.limited() {
			d.All = t.Starts[len(t.Starts)-1]
		}
		d.Free = d.All - d.Links[of.Subset]
		if of.Subset == graph.Test {
			d.Free -= d.Links[graph.Train] + d.Links[graph.Validation]
		}
		d.Want = min(int64(t.Settings.Plan.PerLink)*d.Links[of.Subset], d.Free)
		drawn, err := p.drawSubset(ctx, runner, m)
		if err != nil {
			return err
		}
		var squares float64
		var weight risk.Sum
		var all fit.Extent
		for _, one := range drawn {
			*of.into = append(*of.into, one.Shards...)
			squares, all.Pairs, all.Logged = squares+one.Squares, all.Pairs+one.Pairs, all.Logged || one.Logged
			weight.Add(one.Weight)
		}
		if all.Pairs != d.Total {
			return fmt.Errorf("%w: %d pairs came back, of %d", ErrJob, all.Pairs, d.Total)
		}
		if of.Subset == graph.Train {
			all.MeanWeight = weight.Value() / float64(all.Pairs)
			if m.Dim > 0 {
				all.MeanSquare = max(squares/float64(min(all.Pairs, fit.SampledProducts)), 1e-30)
			}
			m.Extent = all
		}
	}
	return nil
}

// drawnBlock is what the driver hears of the pairs of a block's people.
type drawnBlock struct {
	Block   int
	Drawn   int64 // pairs without a link
	Pairs   int64 // in all, with links and with what a log adds
	Logged  bool  // the exposure of some is known
	Shards  []shards.Shard
	Weight  float64
	Squares float64
}

// drawSubset draws the pairs of one subset: where they are few among many, by random numbers of which those that name
// a link, or a pair again, are left out, until there are enough; else by going through all pairs, which one worker
// does, once to count them.
func (p *plan) drawSubset(ctx context.Context, runner Runner, m *shards.Manifest) ([]drawnBlock, error) {
	d := p.Tables.Draw
	job := func(stage string, tasks []task) ([]drawnBlock, error) {
		found, err := collect[drawnBlock](ctx, runner, p, tasks, stage)
		slices.SortFunc(found, func(a, b drawnBlock) int { return a.Block - b.Block })
		return found, err
	}
	tasks := p.sourceTasks(m)
	if d.Dense = d.All <= 4*d.Want || d.Free <= d.All/2; d.Dense { // as package graph has it
		tasks = []task{{}}
	}
	for missing := d.Want; ; {
		d.Draws += missing
		found, err := job("count", tasks)
		if err != nil {
			return nil, err
		}
		missing, d.Total, d.Before = d.Want, 0, nil
		for _, one := range found {
			missing -= one.Drawn
			d.Before = append(d.Before, d.Total)
			d.Total += one.Pairs
		}
		if missing == 0 {
			return job("draw", tasks)
		}
	}
}

// drawing is the pairs of a block's people, by number: one person's after another's, each with all items, or with those
// that were there.
type drawing struct {
	*tablePlan
	linked, outside []uint64 // ascending: links of the subset, and of earlier ones
	person          int      // the first
	starts          []uint64 // of each person, and the end
	order           *itemOrder

	kept    *nodeBlock
	subsets []graph.Subset      // of its links
	logged  *sample.ExposureLog // of its people, by source and then by target; nil where none is used
}

// drawing reads the links of a block.
func (p *plan) drawing(ctx context.Context, block int) (*drawing, error) {
	var kept nodeBlock
	if err := p.recall(ctx, blockName(block), &kept); err != nil {
		return nil, err
	}
	t, b := p.Tables, p.Layout.Blocks[block]
	d, subsets := &drawing{tablePlan: t, person: b.First, kept: &kept}, p.subsetsOf(block, &kept)
	d.subsets = subsets
	items, people := uint64(t.Nodes-t.People), min(b.Nodes, t.People-b.First)
	if t.limited() {
		d.order = &itemOrder{}
		if err := p.recall(ctx, orderName, d.order); err != nil {
			return nil, err
		}
		d.starts = []uint64{uint64(t.Starts[block])}
		for k, n := range d.order.reached(kept.lastSeen(subsets, b.First, people)) {
			d.starts = append(d.starts, d.starts[k]+uint64(n))
		}
	} else {
		for k := range people + 1 {
			d.starts = append(d.starts, uint64(b.First+k)*items)
		}
	}
	for k, subset := range subsets {
		number := d.number(kept.Source[k], kept.Target[k])
		switch {
		case subset == t.Draw.Subset:
			d.linked = append(d.linked, number)
		case subset < t.Draw.Subset:
			d.outside = append(d.outside, number)
		}
	}
	slices.Sort(d.linked)
	slices.Sort(d.outside)
	if plan := t.Settings.Plan; plan.Log != sample.Ignored && (t.Draw.Subset == graph.Train || !plan.Log.Offers()) {
		d.logged = &kept.Logged
	}
	return d, nil
}

// number is that of a pair.
func (d *drawing) number(i, j int32) uint64 {
	at := int(j) - d.People
	if d.order != nil {
		at = int(d.order.Place[at])
	}
	return d.starts[int(i)-d.person] + uint64(at)
}

// subsetOf is that of a pair: of its link, or where there is none, as the plan divides them.
func (d *drawing) subsetOf(i, j int32) graph.Subset {
	at := sort.Search(len(d.kept.Source), func(k int) bool {
		return d.kept.Source[k] > i || d.kept.Source[k] == i && d.kept.Target[k] >= j
	})
	switch {
	case at < len(d.kept.Source) && d.kept.Source[at] == i && d.kept.Target[at] == j:
		return d.subsets[at]
	case d.Settings.Plan.Split.OfLinks():
		return d.Settings.Plan.UnlinkedSubset(i, j)
	}
	return graph.Train
}

// logs reports whether a log says something of the block's pairs: a complete one also of people that are not in it.
func (d *drawing) logs() bool {
	return d.logged != nil && (len(d.logged.Source) > 0 || d.Settings.Plan.Log == sample.Complete)
}

// loggedAt is the place of a logged pair.
func (d *drawing) loggedAt(i, j int32) int {
	return sort.Search(len(d.logged.Source), func(k int) bool {
		return d.logged.Source[k] > i || d.logged.Source[k] == i && d.logged.Target[k] >= j
	})
}

// evidence returns the links of the subset and the drawn pairs, with what the log says.
func (d *drawing) evidence(found []uint64) sample.Evidence {
	rate := d.Draw.rate()
	linked, free := d.pairs(d.linked), d.pairs(found)
	pairs := &graph.Pairs{}
	for len(free) > 0 || len(linked) > 0 {
		if len(free) == 0 || len(linked) > 0 && byPair(linked[0], free[0]) < 0 {
			addPair(pairs, linked[0], true, 1, rate)
			linked = linked[1:]
			continue
		}
		addPair(pairs, free[0], false, 1/rate, rate)
		free = free[1:]
	}
	if !d.logs() {
		return sample.Evidence{Pairs: pairs}
	}
	part := sample.LogPart{Log: d.logged, Rate: rate,
		Belongs: func(i, j int32) bool { return d.subsetOf(i, j) == d.Draw.Subset },
		Trained: func(i, j int32) bool { return d.logged.Linked[d.loggedAt(i, j)] }}
	if d.order != nil {
		part.There = func(i, j int32) bool { return d.number(i, j) < d.starts[int(i)-d.person+1] }
	}
	return d.Settings.Plan.Join(pairs, part)
}

// pairs are those of ascending numbers, by source and then by target.
func (d *drawing) pairs(numbers []uint64) []graph.Link {
	out := make([]graph.Link, 0, len(numbers))
	for k := 0; len(numbers) > 0; k++ {
		from := len(out)
		for len(numbers) > 0 && numbers[0] < d.starts[k+1] {
			at := int32(numbers[0] - d.starts[k])
			if d.order != nil {
				at = d.order.Item[at]
			}
			out = append(out, graph.Link{Source: int32(d.person + k), Target: int32(d.People) + at})
			numbers = numbers[1:]
		}
		if d.order != nil {
			slices.SortFunc(out[from:], func(a, b graph.Link) int { return cmp.Compare(a.Target, b.Target) })
		}
	}
	return out
}

// random returns the numbers of a subset, as package sample has them.
func (t *tablePlan) random() *rand.Rand {
	return rand.New(rand.NewPCG(t.Settings.Plan.Seed, uint64(t.Draw.Subset)+1))
}

// drawn returns those of the plan's random numbers that name free pairs of the block, each once, ascending.
func (d *drawing) drawn(ctx context.Context) ([]uint64, error) {
	random, all, first, end := d.random(), uint64(d.Draw.All), d.starts[0], d.starts[len(d.starts)-1]
	var found []uint64
	for k := range d.Draw.Draws {
		if k%(1<<20) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if x := random.Uint64N(all); x >= first && x < end {
			found = append(found, x)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	linked, outside := d.linked, d.outside
	return slices.DeleteFunc(found, func(x uint64) bool {
		return passes(&linked, x) || passes(&outside, x)
	}), nil
}

// passes moves an ascending list up to a number and reports whether it has it.
func passes(list *[]uint64, x uint64) bool {
	for len(*list) > 0 && (*list)[0] < x {
		*list = (*list)[1:]
	}
	return len(*list) > 0 && (*list)[0] == x
}

// eachDrawn hands over the pairs that a task draws, block by block.
func (p *plan) eachDrawn(ctx context.Context, t *task, do func(block int, d *drawing, found []uint64) error) error {
	if p.Tables.Draw.Dense {
		return p.eachSelected(ctx, do)
	}
	d, err := p.drawing(ctx, t.Source)
	if err != nil {
		return err
	}
	found, err := d.drawn(ctx)
	if err != nil {
		return err
	}
	return do(t.Source, d, found)
}

// eachSelected goes through all pairs, block by block, and takes each free one with the chance that still leaves every
// set equally likely; see package graph.
func (p *plan) eachSelected(ctx context.Context, do func(block int, d *drawing, found []uint64) error) error {
	random, want, free := p.Tables.random(), p.Tables.Draw.Want, p.Tables.Draw.Free
	for block, b := range p.Layout.Blocks {
		if b.First >= p.Tables.People {
			break
		}
		d, err := p.drawing(ctx, block)
		if err != nil {
			return err
		}
		var found []uint64
		linked, outside := d.linked, d.outside
		for x := d.starts[0]; x < d.starts[len(d.starts)-1] && want > 0; x++ {
			if x%(1<<20) == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if passes(&linked, x) || passes(&outside, x) {
				continue
			}
			if random.Int64N(free) < want {
				found = append(found, x)
				want--
			}
			free--
		}
		if err := do(block, d, found); err != nil {
			return err
		}
	}
	return nil
}

// countDrawn says how many pairs are drawn, and how many there are with links and with what a log adds.
func (p *plan) countDrawn(ctx context.Context, t *task, emit func(int, []byte)) error {
	return p.eachDrawn(ctx, t, func(block int, d *drawing, found []uint64) error {
		out := drawnBlock{Block: block, Drawn: int64(len(found)), Pairs: int64(len(found) + len(d.linked))}
		if d.logs() {
			out.Pairs = int64(d.evidence(found).Pairs.Len())
		}
		return emitDocument(emit, out)
	})
}

// draw writes the pairs.
func (p *plan) draw(ctx context.Context, t *task, emit func(int, []byte)) error {
	return p.eachDrawn(ctx, t, func(block int, d *drawing, found []uint64) error {
		out, err := p.writeDrawn(ctx, block, d, found)
		if err != nil {
			return err
		}
		return emitDocument(emit, out)
	})
}

// writeDrawn writes the pairs of a block.
func (p *plan) writeDrawn(ctx context.Context, block int, d *drawing, found []uint64) (*drawnBlock, error) {
	all := d.evidence(found)
	out := &drawnBlock{Block: block, Pairs: int64(all.Pairs.Len())}
	var weight risk.Sum
	for _, w := range all.Pairs.Weight {
		weight.Add(w)
	}
	out.Weight = weight.Value()
	out.Logged = slices.ContainsFunc(all.Exposure, func(e risk.Exposure) bool { return e != risk.Unlogged })
	var err error
	if out.Shards, err = p.writeCells(ctx, d.Draw.Subset.String(), block, all); err != nil ||
		d.Draw.Subset != graph.Train || p.Layout.Dim == 0 {
		return out, err
	}
	sampled, before := min(d.Draw.Total, fit.SampledProducts), d.Draw.Before[block]
	var places []int
	for i := range sampled { // as fit.MeanSquare spaces them
		if k := i*d.Draw.Total/sampled - before; k >= 0 && k < out.Pairs {
			places = append(places, int(k))
		}
	}
	out.Squares, err = p.squares(ctx, all.Pairs, places)
	return out, err
}
