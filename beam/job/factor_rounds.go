package job

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// Alternate implements engine.Engine. A round is three jobs: every task moves some sources, with all of their pairs,
// then some targets, and then sums what all pairs have in common. Factors go to workers, and come back, as files in the
// place for results. An objective with pairs of its own is trained by the driver.
func (e *Cluster) Alternate(o *engine.Objective) (engine.Alternation, error) {
	if o.Pairs != nil {
		return engine.CPU{Threads: e.Runner.Threads}.Alternate(o)
	}
	return e.alternate(o, e.Settings, e.extent(), fit.LogView{})
}

// alternate does it over the pairs that a view looks at, for an objective of settings.
func (e *Cluster) alternate(o *engine.Objective, s fit.Settings, x fit.Extent, v fit.LogView) (engine.Alternation,
	error) {
	link, ok := o.Link.(*model.Factors)
	if !ok || model.MadeFor(o.Link) != e.Manifest.Nodes || len(e.fields) != e.Manifest.Nodes {
		return nil, fmt.Errorf("%w on a cluster: training side by side of the link model %s; use what Cluster.Factors "+
			"returns", engine.ErrUnsupported, o.Link.Kind())
	}
	if err := e.agrees(o, s, x); err != nil {
		return nil, err
	}
	moves := &clusterMoves{cluster: e, o: o, link: link, layout: e.Manifest.Layout(), settings: s, extent: x, view: v}
	moves.place()
	a, err := engine.NewAlternation(o, x.Pairs, moves)
	if err == nil && !a.Complete() {
		err = fmt.Errorf("%w on a cluster: factors with exposure of the kind %s; use field-matrix, alone or with "+
			"+person and +item", engine.ErrUnsupported, o.Propensity.Kind())
	}
	return a, err
}

// mostTaskPairs is how many pairs a task of a round has at most, but for a node that has more.
const mostTaskPairs = 8 << 20

// clusterMoves is engine.RowMoves over the shards.
type clusterMoves struct {
	cluster *Cluster
	o       *engine.Objective
	link    *model.Factors
	layout  *shards.NodeLayout

	settings fit.Settings // by which workers make the objective again
	extent   fit.Extent   // of the pairs that the view looks at
	view     fit.LogView
	// where the effects of exposure of sources and of targets begin among the parameters; −1 for those that there are
	// not
	exposures [2]int
}

func (c *clusterMoves) place() {
	c.exposures = [2]int{-1, -1}
	layout, ok := c.o.Propensity.(model.Layout)
	if !ok {
		return
	}
	at := c.o.Link.Size()
	for _, part := range layout.Parts() {
		switch model.Term(part.Name) {
		case model.Person:
			c.exposures[engine.Sources] = at
		case model.Item:
			c.exposures[engine.Targets] = at
		}
		at += part.Size()
	}
}

// factorPlan is what the workers of a round share.
type factorPlan struct {
	Side  engine.Side         `json:"side"`
	Rank  int                 `json:"rank"`
	Root  string              `json:"root"` // where rows are
	Rows  [2][]shards.FileSum `json:"rows"` // of every block's sources and targets; see rowLayout
	B     []byte              `json:"b"`    // float32, as the next
	Cells []byte              `json:"cells,omitempty"`
	// Precision is that of every parameter of a part, by the part's name.
	Precision map[string]float64 `json:"precision,omitempty"`
	Centred   bool               `json:"centred,omitempty"`  // rows of the side have the mean of their prior
	Exposed   [2]bool            `json:"exposed"`            // rows of a side have an effect of exposure
	Believed  bool               `json:"believed,omitempty"` // with the mean of its prior
	Most      int                `json:"most,omitempty"`     // pairs of a task; 0 means mostTaskPairs
}

// rowLayout says what the numbers of a row are, float32: its field, its effect, that of exposure where there is one,
// the mean of the prior of that where a log says something of it, its factors, and where it is moved and has one the
// mean of their prior.
type rowLayout struct {
	exposed, believed, centred bool
	rank                       int
}

func (l rowLayout) factors() int {
	switch {
	case l.exposed && l.believed:
		return 4
	case l.exposed:
		return 3
	}
	return 2
}

func (l rowLayout) width() int {
	if l.centred {
		return l.factors() + 2*l.rank
	}
	return l.factors() + l.rank
}

func (c *clusterMoves) rowLayout(side engine.Side, centred bool) rowLayout {
	return rowLayout{exposed: c.exposures[side] >= 0, believed: c.o.Centre != nil, centred: centred,
		rank: c.link.Rank()}
}

// effects are those of a side, and of its exposure, nil without, among the parameters.
func (c *clusterMoves) effects(side engine.Side, params []float32) (own, exposure []float32) {
	source, target, _ := c.link.Sides(params)
	own = []model.FactorSide{source, target}[side].Effects
	if at := c.exposures[side]; at >= 0 {
		exposure = params[at:][:len(own)]
	}
	return own, exposure
}

// Move implements engine.RowMoves.
func (c *clusterMoves) Move(ctx context.Context, side engine.Side, at *engine.FactorState) (total engine.Parts,
	err error) {
	work := shards.Location{Root: c.cluster.Work.Path(unique("factors"))}
	defer work.Discard(context.WithoutCancel(ctx))
	p, err := c.plan(ctx, work, side, at)
	if err != nil {
		return total, err
	}
	p.Result = p.Factors.Root
	tasks := c.cluster.rowTasks(side, p.Factors.most())
	c.cluster.evaluations++
	if err := c.cluster.Runner.leave(ctx, p, tasks, "move", movedName); err != nil {
		return total, err
	}
	row := 0
	for k := range tasks {
		parts, moved, err := c.take(ctx, work, k, side, row, at)
		if err != nil {
			return total, err
		}
		total.Likelihood += parts.Likelihood
		total.Risk += parts.Risk
		row += moved
	}
	if rows := at.Len(side); row != rows {
		return total, fmt.Errorf("%w: %d rows came back, where %d were asked for", ErrJob, row, rows)
	}
	return total, nil
}

// Sums implements engine.RowMoves.
func (c *clusterMoves) Sums(ctx context.Context, at *engine.FactorState) ([]float64, error) {
	work := shards.Location{Root: c.cluster.Work.Path(unique("factors"))}
	defer work.Discard(context.WithoutCancel(ctx))
	without := *at
	without.Centre = nil
	p, err := c.plan(ctx, work, engine.Sources, &without)
	if err != nil {
		return nil, err
	}
	tasks := slices.DeleteFunc(c.cluster.rowTasks(engine.Sources, p.Factors.most()),
		func(t task) bool { return len(t.Shards) == 0 })
	p.Fan = fanFor(2 + 3*len(p.Factors.Cells)/4)
	c.cluster.evaluations++
	sum, err := c.cluster.sum(ctx, p, tasks, "row-sums")
	if err == nil && sum.Pairs != c.extent.Pairs {
		err = fmt.Errorf("%w: sums over %d pairs came back, where %d were asked for", ErrJob, sum.Pairs, c.extent.Pairs)
	}
	return sum.Values, err
}

// plan writes the rows for the workers.
func (c *clusterMoves) plan(ctx context.Context, work shards.Location, side engine.Side, at *engine.FactorState) (
	*plan, error) {
	p := c.cluster.plan("factors")
	p.Settings, p.Extent = c.settings, c.extent
	var err error
	if p.View, err = c.cluster.writeView(ctx, work, c.view); err != nil {
		return nil, err
	}
	_, _, b := c.link.Sides(at.Params)
	f := c.describe(work)
	p.Factors = &f
	f.Side, f.B, f.Centred, f.Most = side, packed(b), at.Centre != nil, c.cluster.mostPairs
	place := 0
	for number, part := range slices.Concat(c.link.Parts(), partsOf(c.o.Propensity)) {
		if part.Size() > 0 && c.o.Precision != nil {
			if f.Precision == nil {
				f.Precision = map[string]float64{}
			}
			f.Precision[part.Name] = c.o.Precision[place]
		}
		if number == len(c.link.Parts()) { // the logits of pairs of fields
			f.Cells = packed(at.Params[place:][:part.Size()])
		}
		place += part.Size()
	}
	return p, c.writeRows(ctx, work, &f, at)
}

// describe says what rows are like, and where they will be.
func (c *clusterMoves) describe(work shards.Location) factorPlan {
	return factorPlan{Rank: c.link.Rank(), Root: work.Absolute().Root,
		Exposed: [2]bool{c.exposures[0] >= 0, c.exposures[1] >= 0}, Believed: c.o.Centre != nil}
}

// writeRows writes the rows of all blocks.
func (c *clusterMoves) writeRows(ctx context.Context, work shards.Location, f *factorPlan,
	at *engine.FactorState) error {
	for end := range f.Rows {
		end := engine.Side(end)
		l := c.rowLayout(end, f.Centred && end == f.Side)
		first := 0
		for block := range c.layout.Blocks {
			content, rows := c.rows(l, end, block, first, at)
			name := fmt.Sprintf("%s-%05d", []string{"sources", "targets"}[end], block)
			file, err := work.WriteBytes(ctx, name, content)
			if err != nil {
				return err
			}
			f.Rows[end], first = append(f.Rows[end], file), first+rows
		}
	}
	return nil
}

func partsOf(m model.PropensityModel) []model.ParameterBlock {
	if layout, ok := m.(model.Layout); ok {
		return layout.Parts()
	}
	return nil
}

// rows are those of a block's nodes on a side, of which the first is at a place of all.
func (c *clusterMoves) rows(l rowLayout, side engine.Side, block, first int, at *engine.FactorState) ([]byte, int) {
	nodes := nodesOn(c.layout, side, block)
	effects, exposure := c.effects(side, at.Params)
	out := make([]float32, 0, len(nodes)*l.width())
	for k, i := range nodes {
		row := first + k
		field := float32(0)
		if c.cluster.fields != nil {
			field = float32(c.cluster.fields[i])
		}
		out = append(out, field, effects[row])
		if l.exposed {
			out = append(out, exposure[row])
		}
		if l.exposed && l.believed {
			out = append(out, float32(c.o.Centre[c.exposures[side]+row])) // a parameter of what the log taught
		}
		out = append(out, at.Row(side, row)[:l.rank]...)
		if l.centred {
			out = append(out, at.Centre[row*l.rank:][:l.rank]...)
		}
	}
	return packed(out), len(nodes)
}

// take reads what a task has moved, whose first row is at a place of all.
func (c *clusterMoves) take(ctx context.Context, work shards.Location, number int, side engine.Side, first int,
	at *engine.FactorState) (parts engine.Parts, rows int, err error) {
	content, err := work.ReadAll(ctx, movedName(number))
	if err != nil {
		return parts, 0, err
	}
	l := c.rowLayout(side, false)
	l.believed = false // it is known here
	effects, exposure := c.effects(side, at.Params)
	if len(content) < 16 || (len(content)-16)%(4*l.width()) != 0 ||
		first+(len(content)-16)/(4*l.width()) > len(effects) {
		return parts, 0, fmt.Errorf("%w: %d bytes of moved rows came back, of %d each", ErrJob, len(content),
			4*l.width())
	}
	parts.Likelihood = math.Float64frombits(binary.LittleEndian.Uint64(content))
	parts.Risk = math.Float64frombits(binary.LittleEndian.Uint64(content[8:]))
	for row := range slices.Chunk(unpacked[float32](content[16:]), l.width()) {
		effects[first+rows] = row[1]
		if l.exposed {
			exposure[first+rows] = row[2]
		}
		copy(at.Row(side, first+rows)[:l.rank], row[l.factors():])
		rows++
	}
	return parts, rows, nil
}

// rowTasks are some nodes each of a side, in order, with the shards of their pairs.
func (e *Cluster) rowTasks(side engine.Side, most int) (tasks []task) {
	l := e.Manifest.Layout()
	for b, block := range l.Blocks {
		if len(nodesOn(l, side, b)) == 0 {
			continue
		}
		t, pairs := task{Source: b}, 0
		for _, shard := range e.Manifest.Train {
			if end := []int{shard.Source, shard.Target}[side]; end == b {
				t.Shards = append(t.Shards, shard)
				pairs += shard.Pairs
			}
		}
		parts := min((pairs+most-1)/most, block.Nodes)
		size := (block.Nodes + max(parts, 1) - 1) / max(parts, 1)
		for first := 0; first < block.Nodes; first += size {
			t.First, t.Nodes = block.First+first, min(size, block.Nodes-first)
			tasks = append(tasks, t)
		}
	}
	return tasks
}

func (f *factorPlan) most() int {
	if f.Most > 0 {
		return f.Most
	}
	return mostTaskPairs
}

func movedName(task int) string { return fmt.Sprintf("moved-%05d", task) }

// move moves some rows.
func (p *plan) move(ctx context.Context, t *task) error {
	w, err := p.factorRows(ctx, t)
	if err != nil {
		return err
	}
	parts, err := w.moves.Move(ctx, p.Factors.Side, w.state)
	if err != nil {
		return err
	}
	out := binary.LittleEndian.AppendUint64(nil, math.Float64bits(parts.Likelihood))
	out = binary.LittleEndian.AppendUint64(out, math.Float64bits(parts.Risk))
	_, err = shards.Location{Root: p.Result}.WriteBytes(ctx, movedName(t.Number), append(out, w.moved()...))
	return err
}

// rowSums sums what the pairs of some sources have in common.
func (p *plan) rowSums(ctx context.Context, t *task) (numbered, error) {
	w, err := p.factorRows(ctx, t)
	if err != nil {
		return numbered{}, err
	}
	sums, err := w.moves.Sums(ctx, w.state)
	return numbered{t.Number, int64(w.pairs.Len()), sums}, err
}

// factorRows is some rows of one side with all of their pairs, and the rows of the other side that these name.
type factorRows struct {
	*plan
	side      engine.Side
	layouts   [2]rowLayout
	numbers   [2][]int32 // of the nodes of every row, ascending
	pairs     *graph.Pairs
	exposure  []risk.Exposure
	objective *engine.Objective
	effects   [2][2][]float32 // by side: of links, and of exposure, nil without
	believed  [2][]float64    // the means of the priors of the latter; nil without
	state     *engine.FactorState
	moves     engine.RowMoves
}

// factorRows reads the pairs of a task and the rows that it needs.
func (p *plan) factorRows(ctx context.Context, t *task) (*factorRows, error) {
	w := &factorRows{plan: p, side: p.Factors.Side, pairs: &graph.Pairs{}}
	named, err := w.read(ctx, t)
	if err != nil {
		return nil, err
	}
	var rows [2][][]float32
	for end := range rows {
		if rows[end], err = w.choose(ctx, engine.Side(end), t, named); err != nil {
			return nil, err
		}
	}
	if err := w.prepare(rows); err != nil {
		return nil, err
	}
	w.moves, err = engine.CPU{Threads: p.Threads}.RowMoves(w.objective, p.Extent.Pairs)
	return w, err
}

// read reads the pairs of the rows, and returns which nodes of the other side they name, by block.
func (w *factorRows) read(ctx context.Context, t *task) (map[int][]bool, error) {
	named, b := map[int][]bool{}, w.Layout.Blocks[t.Source]
	own, parts := w.marked(w.side, t.Source), map[int][]uint8{}
	if t.Nodes == b.Nodes {
		w.grow(t.Shards)
	}
	for _, shard := range t.Shards {
		p, exposure, err := w.shards().BlockPairs(ctx, w.Layout, shard, w.Threads)
		if err != nil {
			return nil, err
		}
		rows, names, block := p.Source, p.Target, shard.Target
		if w.side == engine.Targets {
			rows, names, block = p.Target, p.Source, shard.Source
		}
		if named[block] == nil {
			named[block] = make([]bool, w.Layout.Blocks[block].Nodes)
		}
		if parts[shard.Source] == nil {
			if parts[shard.Source], err = w.View.parts(ctx, shard.Source, w.Layout); err != nil {
				return nil, err
			}
		}
		others, first := w.marked(1-w.side, block), int32(w.Layout.Blocks[block].First)
		part, sources := parts[shard.Source], int32(w.Layout.Blocks[shard.Source].First)
		for k, i := range rows {
			if int(i) < t.First || int(i) >= t.First+t.Nodes {
				continue
			}
			at := names[k] - first
			if !own[int(i)-b.First] || !others[at] {
				return nil, wrongRole(w.shards().Path(shard.File.Name), p.Source[k], p.Target[k])
			}
			seen := risk.Unlogged
			if exposure != nil {
				seen = exposure[k]
			}
			seen, looks := w.View.see(part, p.Source[k]-sources, seen)
			if !looks {
				continue
			}
			named[block][at] = true
			addPair(w.pairs, graph.Link{Source: p.Source[k], Target: p.Target[k]}, p.Linked[k], p.Weight[k], p.Rate[k])
			if w.Extent.Logged {
				w.exposure = append(w.exposure, seen)
			}
		}
	}
	w.pairs = w.Extent.Shown.Of(w.pairs, w.exposure)
	return named, nil
}

// marked says of the nodes of a block which are on a side.
func (w *factorRows) marked(side engine.Side, block int) []bool {
	b := w.Layout.Blocks[block]
	on := make([]bool, b.Nodes)
	for _, i := range nodesOn(w.Layout, side, block) {
		on[int(i)-b.First] = true
	}
	return on
}

// grow makes room for the pairs of shards.
func (w *factorRows) grow(list []shards.Shard) {
	n := 0
	for _, shard := range list {
		n += shard.Pairs
	}
	p := w.pairs
	p.Source, p.Target, p.Linked = make([]int32, 0, n), make([]int32, 0, n), make([]bool, 0, n)
	p.Weight, p.Rate = make([]float64, 0, n), make([]float64, 0, n)
}

// choose reads the rows of a side: those that the task moves, or those that its pairs name.
func (w *factorRows) choose(ctx context.Context, side engine.Side, t *task, named map[int][]bool) (rows [][]float32,
	err error) {
	f := w.Factors
	l := rowLayout{exposed: f.Exposed[side], believed: f.Believed, centred: f.Centred && side == f.Side, rank: f.Rank}
	w.layouts[side] = l
	for block, b := range w.Layout.Blocks {
		wanted := func(at int) bool { return named[block][at] }
		if side == f.Side {
			wanted = func(at int) bool { return b.First+at >= t.First && b.First+at < t.First+t.Nodes }
		}
		if side == f.Side && block != t.Source || side != f.Side && named[block] == nil {
			continue
		}
		nodes := nodesOn(w.Layout, side, block)
		all, err := f.readRows(ctx, side, block, len(nodes)*l.width())
		if err != nil {
			return nil, err
		}
		for k, i := range nodes {
			if wanted(int(i) - b.First) {
				w.numbers[side] = append(w.numbers[side], i)
				rows = append(rows, all[k*l.width():][:l.width()])
			}
		}
	}
	return rows, nil
}

// readRows reads the rows of a block's nodes on a side.
func (f *factorPlan) readRows(ctx context.Context, side engine.Side, block, count int) ([]float32, error) {
	where, file := shards.Location{Root: f.Root}, f.Rows[side][block]
	content, err := where.ReadAll(ctx, file.Name)
	if err != nil {
		return nil, fmt.Errorf("factors that the driver wrote: %w; start it again, which goes on from a checkpoint",
			err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != file.SHA256 || len(content) != 4*count {
		return nil, fmt.Errorf("%w: the factors in %s are not those that the driver wrote (%d bytes of %d); start it "+
			"again, which goes on from a checkpoint", shards.ErrDamaged, where.Path(file.Name), len(content), 4*count)
	}
	return unpacked[float32](content), nil
}

// prepare makes the objective of the rows, in which pairs name places, and where the round is.
func (w *factorRows) prepare(rows [2][][]float32) error {
	numbers := slices.Concat(w.numbers[0], w.numbers[1])
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	nodes := model.Nodes{Fields: make([]uint16, len(numbers)), FieldCount: len(w.Layout.Fields), Numbers: numbers}
	for end, side := range []*[]int32{&nodes.Sources, &nodes.Targets} {
		*side = make([]int32, len(w.numbers[end]))
		place := 0
		for k, i := range w.numbers[end] {
			for numbers[place] != i {
				place++
			}
			(*side)[k] = int32(place)
			nodes.Fields[place] = uint16(rows[end][k][0])
		}
	}
	w.renumber(numbers)
	o, err := w.Settings.Objective(nodes, w.Extent)
	if err != nil {
		return err
	}
	o.Pairs, o.Exposure, w.objective = w.pairs, w.exposure, o
	link, params := o.Link.(*model.Factors), make([]float32, o.Size())
	if o.Precision = nil; w.Factors.Precision != nil {
		o.Precision = make([]float64, 0, o.Size())
	}
	if w.Factors.Believed {
		o.Centre = make([]float64, o.Size())
	}
	place := 0
	for number, part := range slices.Concat(link.Parts(), partsOf(o.Propensity)) {
		for range part.Size() {
			if o.Precision != nil {
				o.Precision = append(o.Precision, w.Factors.Precision[part.Name])
			}
		}
		switch {
		case number == len(link.Parts()):
			copy(params[place:][:part.Size()], unpacked[float32](w.Factors.Cells))
		case number > len(link.Parts()): // effects of exposure
			side := engine.Sources
			if model.Term(part.Name) == model.Item {
				side = engine.Targets
			}
			if w.effects[side][1] = params[place:][:part.Size()]; w.Factors.Believed {
				w.believed[side] = o.Centre[place:][:part.Size()]
			}
		}
		place += part.Size()
	}
	return w.fill(link, params, rows)
}

// fill lays the rows out.
func (w *factorRows) fill(link *model.Factors, params []float32, rows [2][][]float32) (err error) {
	source, target, b := link.Sides(params)
	copy(b, unpacked[float32](w.Factors.B))
	w.effects[engine.Sources][0], w.effects[engine.Targets][0] = source.Effects, target.Effects
	if w.state, err = engine.NewFactorState(link, params); err != nil {
		return err
	}
	for end, l := range w.layouts {
		for k, row := range rows[end] {
			w.effects[end][0][k] = row[1]
			if l.exposed {
				w.effects[end][1][k] = row[2]
			}
			if l.exposed && l.believed {
				w.believed[end][k] = float64(row[3])
			}
			copy(w.state.Row(engine.Side(end), k)[:l.rank], row[l.factors():])
			if l.centred {
				w.state.Centre = append(w.state.Centre, row[l.factors()+l.rank:]...)
			}
		}
	}
	return nil
}

// renumber replaces the numbers of the nodes of pairs with their places among all that there are.
func (w *factorRows) renumber(numbers []int32) {
	if len(numbers) == 0 {
		return
	}
	first := numbers[0]
	places := make([]int32, numbers[len(numbers)-1]-first+1)
	for k, i := range numbers {
		places[i-first] = int32(k) + 1
	}
	for _, end := range [][]int32{w.pairs.Source, w.pairs.Target} {
		for k, i := range end {
			end[k] = places[i-first] - 1
		}
	}
}

// moved are the rows of the side that was moved, as bytes.
func (w *factorRows) moved() []byte {
	l := w.layouts[w.side]
	out := make([]float32, 0, len(w.numbers[w.side])*l.width())
	for k := range w.numbers[w.side] {
		out = append(out, 0, w.effects[w.side][0][k])
		if l.exposed {
			out = append(out, w.effects[w.side][1][k])
		}
		out = append(out, w.state.Row(w.side, k)[:l.rank]...)
	}
	return packed(out)
}
