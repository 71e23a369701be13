package shards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/parquet-go/parquet-go"

	"unseen/fit"
	"unseen/graph"
	"unseen/internal/columnar"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// row is a pair as Parquet has it. Sources ascend, so that their differences take no room; weights have few values.
type row struct {
	Source   int32   `parquet:"source,delta"`
	Target   int32   `parquet:"target"`
	Linked   bool    `parquet:"linked"`
	Weight   float64 `parquet:"weight,dict"`
	Rate     float64 `parquet:"rate,dict"`
	Exposure int32   `parquet:"exposure,dict"` // risk.Exposure
}

// nodeRow is a node.
type nodeRow struct {
	ID         string  `parquet:"id"`
	Field      int32   `parquet:"field,dict"`
	Popularity float32 `parquet:"popularity"`
	Age        float32 `parquet:"age"`
	Order      int32   `parquet:"order"`
}

// writtenBy is a constant, so that the bytes do not depend on which program wrote them.
var writtenBy = parquet.CreatedBy("unseen", "1", "shards")

// WritePairs writes pairs as Parquet; exposure may be nil.
func WritePairs(w io.Writer, p *graph.Pairs, exposure []risk.Exposure) error {
	out := parquet.NewGenericWriter[row](w, writtenBy)
	rows := make([]row, 0, 4096)
	for k := range p.Len() {
		r := row{p.Source[k], p.Target[k], p.Linked[k], p.Weight[k], p.Rate[k], 0}
		if exposure != nil {
			r.Exposure = int32(exposure[k])
		}
		if rows = append(rows, r); len(rows) == cap(rows) || k == p.Len()-1 {
			if _, err := out.Write(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return out.Close()
}

// NodeTable is what a table says of nodes. Manifest.Columns names what is known besides ids and fields.
type NodeTable struct {
	IDs        []string
	Fields     []uint16
	Popularity []float32 // as model.Nodes has it; nil where it is not known
	Age        []float32
	Order      []int32 // nil where targets may be newer than their sources
}

// WriteNodes writes nodes as Parquet.
func WriteNodes(w io.Writer, t NodeTable) error {
	out := parquet.NewGenericWriter[nodeRow](w, writtenBy)
	rows := make([]nodeRow, 0, 4096)
	for k, id := range t.IDs {
		r := nodeRow{ID: id, Field: int32(t.Fields[k])}
		if t.Popularity != nil {
			r.Popularity = t.Popularity[k]
		}
		if t.Age != nil {
			r.Age = t.Age[k]
		}
		if t.Order != nil {
			r.Order = t.Order[k]
		}
		if rows = append(rows, r); len(rows) == cap(rows) || k == len(t.IDs)-1 {
			if _, err := out.Write(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return out.Close()
}

// Pairs reads a shard of pairs, with their exposure where any is logged, by so many threads.
func (s Location) Pairs(ctx context.Context, shard Shard, threads int) (p *graph.Pairs, exposure []risk.Exposure,
	err error) {
	t, err := s.open(ctx, shard.File)
	if err != nil {
		return nil, nil, err
	}
	p = &graph.Pairs{}
	var seen []int32
	columns := []func() error{
		func() (err error) { p.Target, err = column(t, "target", int32s); return },
		func() (err error) { p.Source, err = column(t, "source", int32s); return },
		func() (err error) { p.Weight, err = column(t, "weight", doubles); return },
		func() (err error) { p.Rate, err = column(t, "rate", doubles); return },
		func() (err error) { p.Linked, err = column(t, "linked", booleans); return },
		func() (err error) { seen, err = column(t, "exposure", int32s); return },
	}
	if err := kern.ChunksErr(ctx, len(columns), 1, threads, func(_, k, _, _ int) (err error) {
		defer t.catch(&err)
		return columns[k]()
	}); err != nil {
		return nil, nil, err
	}
	for k, e := range seen {
		if e != 0 && exposure == nil {
			exposure = make([]risk.Exposure, len(seen))
		}
		if e != 0 {
			exposure[k] = risk.Exposure(e)
		}
	}
	for _, n := range []int{len(p.Source), len(p.Target), len(p.Linked), len(p.Weight), len(p.Rate), len(seen)} {
		if n != shard.Pairs {
			return nil, nil, t.broken("has a column of %d pairs and should have %d", n, shard.Pairs)
		}
	}
	for k, w := range p.Weight {
		r := p.Rate[k]
		if !(w >= 0 && w <= math.MaxFloat64) || !(r > 0 && r <= 1) || seen[k] != int32(uint8(seen[k])) {
			return nil, nil, t.broken("has a pair %d of weight %v, drawn at rate %v, with exposure %d", k, w, r,
				seen[k])
		}
	}
	return p, exposure, nil
}

// BlockPairs is Pairs of a shard whose pairs lead from its one block to its other, as they should.
func (s Location) BlockPairs(ctx context.Context, l *NodeLayout, shard Shard, threads int) (*graph.Pairs,
	[]risk.Exposure, error) {
	p, exposure, err := s.Pairs(ctx, shard, threads)
	if err != nil {
		return nil, nil, err
	}
	for _, end := range []struct {
		block int
		nodes []int32
	}{{shard.Source, p.Source}, {shard.Target, p.Target}} {
		b := l.Blocks[end.block]
		for k, i := range end.nodes {
			if at := int(i) - b.First; at < 0 || at >= b.Nodes {
				return nil, nil, fmt.Errorf("%w: %s: %w; make the shards again", ErrDamaged, s.Path(shard.File.Name),
					notInBlock(k, i, end.block, b))
			}
		}
	}
	return p, exposure, nil
}

func notInBlock(pair int, node int32, block int, b NodeBlock) error {
	return fmt.Errorf("pair %d names node %d, which is not in block %d (%d nodes from %d)", pair, node, block, b.Nodes,
		b.First)
}

// Table reads what is known of a block's nodes besides their ids.
func (s Location) Table(ctx context.Context, l *NodeLayout, b NodeBlock) (out NodeTable, err error) {
	t, err := s.open(ctx, b.Table)
	if err != nil {
		return out, err
	}
	defer t.catch(&err)
	numbers, err := column(t, "field", int32s)
	if err != nil {
		return out, err
	}
	if len(numbers) != b.Nodes {
		return out, t.broken("has %d nodes and should have %d", len(numbers), b.Nodes)
	}
	out.Fields = make([]uint16, len(numbers))
	for k, f := range numbers {
		if f < 0 || int(f) >= len(l.Fields) {
			return out, t.broken("node %d has field %d of %d", k, f, len(l.Fields))
		}
		out.Fields[k] = uint16(f)
	}
	for name, to := range map[string]*[]float32{PopularityColumn: &out.Popularity, AgeColumn: &out.Age} {
		if !slices.Contains(l.Columns, name) {
			continue
		}
		if *to, err = column(t, name, floats); err != nil {
			return out, err
		}
		if len(*to) != b.Nodes {
			return out, t.broken("has a column %s of %d nodes and should have %d", name, len(*to), b.Nodes)
		}
	}
	if slices.Contains(l.Columns, OrderColumn) {
		if out.Order, err = column(t, OrderColumn, int32s); err == nil && len(out.Order) != b.Nodes {
			err = t.broken("has a column %s of %d nodes and should have %d", OrderColumn, len(out.Order), b.Nodes)
		}
	}
	return out, err
}

// IDs reads the ids of a block's nodes.
func (s Location) IDs(ctx context.Context, b NodeBlock) (ids []string, err error) {
	t, err := s.open(ctx, b.Table)
	if err != nil {
		return nil, err
	}
	defer t.catch(&err)
	c := t.file.Root().Column("id")
	if c == nil || !c.Leaf() {
		return nil, t.broken("has no column id")
	}
	err = columnar.Scan(ctx, t.file, []int{c.Index()},
		func(_ int64, n int, values [][]parquet.Value) error {
			for _, v := range values[0][:n] {
				ids = append(ids, string(v.ByteArray()))
			}
			return nil
		})
	switch {
	case err != nil && ctx.Err() == nil:
		return nil, t.broken("cannot be read: %v", err)
	case err == nil && len(ids) != b.Nodes:
		return nil, t.broken("has %d nodes and should have %d", len(ids), b.Nodes)
	}
	return ids, err
}

// table is an open Parquet file.
type table struct {
	path string
	file *parquet.File
}

func (s Location) open(ctx context.Context, f FileSum) (t *table, err error) {
	content, err := s.Read(ctx, f)
	if err != nil {
		return nil, err
	}
	t = &table{path: s.Path(f.Name)}
	defer t.catch(&err)
	if t.file, err = columnar.Open(bytes.NewReader(content), int64(len(content))); err != nil {
		return nil, t.broken("is no Parquet: %v", err)
	}
	return t, nil
}

func (t *table) broken(format string, a ...any) error {
	return fmt.Errorf("%w: %s %s; make the shards again", ErrDamaged, t.path, fmt.Sprintf(format, a...))
}

// catch turns a panic of the Parquet library, which damaged bytes can cause, into an error.
func (t *table) catch(err *error) {
	if p := recover(); p != nil {
		*err = t.broken("cannot be read: %v", p)
	}
}

// column reads a whole column, page by page.
func column[T any](t *table, name string, read func(to []T, page parquet.Page) ([]T, error)) ([]T, error) {
	c := t.file.Root().Column(name)
	if c == nil || !c.Leaf() {
		return nil, t.broken("has no column %s", name)
	}
	out := make([]T, 0, t.file.NumRows())
	for _, group := range t.file.RowGroups() {
		pages := group.ColumnChunks()[c.Index()].Pages()
		for {
			page, err := pages.ReadPage()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				out, err = read(out, page)
				parquet.Release(page)
			}
			if err != nil {
				pages.Close()
				return nil, t.broken("column %s: %v", name, err)
			}
		}
		pages.Close()
	}
	return out, nil
}

func int32s(to []int32, page parquet.Page) ([]int32, error) {
	data := page.Data()
	if dictionary := page.Dictionary(); dictionary != nil {
		words := dictionary.Page().Data()
		for _, at := range data.Int32() {
			to = append(to, words.Int32()[at])
		}
		return to, nil
	}
	return append(to, data.Int32()...), nil
}

func floats(to []float32, page parquet.Page) ([]float32, error) {
	data := page.Data()
	return append(to, data.Float()...), nil
}

func doubles(to []float64, page parquet.Page) ([]float64, error) {
	data := page.Data()
	if dictionary := page.Dictionary(); dictionary != nil {
		words := dictionary.Page().Data()
		values := words.Double()
		for _, at := range data.Int32() {
			to = append(to, values[at])
		}
		return to, nil
	}
	return append(to, data.Double()...), nil
}

func booleans(to []bool, page parquet.Page) ([]bool, error) {
	reader, ok := page.Values().(parquet.BooleanReader)
	if !ok {
		return nil, errors.New("no booleans")
	}
	from, n := len(to), int(page.NumValues())
	to = append(to, make([]bool, n)...)
	for n > 0 {
		read, err := reader.ReadBooleans(to[from:])
		from, n = from+read, n-read
		if err != nil && !errors.Is(err, io.EOF) || read == 0 && n > 0 {
			return nil, fmt.Errorf("%d booleans are missing: %v", n, err)
		}
	}
	return to, nil
}

// Part is a shard made ready to work on: its pairs by the places of their nodes among Nodes, which are only those that
// they name.
type Part struct {
	Pairs    *graph.Pairs
	Exposure []risk.Exposure
	Nodes    model.Nodes
}

// Close gives the vectors' memory back.
func (p *Part) Close() { p.Nodes.Vectors.Close() }

// Load reads a shard, or those of its pairs that are chosen, and the vectors and fields of their nodes. Memory is that
// of the pairs and of the rows they name, as float32 numbers.
func (s Location) Load(ctx context.Context, m *NodeLayout, shard Shard, choice *fit.PairChoice, threads int) (*Part,
	error) {
	pairs, exposure, err := s.Pairs(ctx, shard, threads)
	if err != nil {
		return nil, err
	}
	if choice != nil { // by the numbers of their nodes, which are not yet places
		p := sample.Problem{Train: pairs, Exposure: exposure}
		some := p.Training().At(choice.Places(p))
		pairs, exposure = some.Pairs, some.Exposure
	}
	numbers, err := m.place(shard, pairs)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w; make the shards again", ErrDamaged, s.Path(shard.File.Name), err)
	}
	part := &Part{Pairs: pairs, Exposure: exposure}
	part.Nodes, err = s.Gather(ctx, m, numbers, threads)
	return part, err
}

// place replaces the numbers of the nodes of pairs with their places among those that the pairs name, which it returns:
// the block of the sources first, each block ascending, so that a file of vectors is read from its beginning to its
// end.
func (l *NodeLayout) place(shard Shard, pairs *graph.Pairs) (numbers []int32, err error) {
	places := map[int][]int32{} // of the nodes of a block; 0 where none is named, and then one more than the place
	ends := []struct {
		block int
		nodes []int32
	}{{shard.Source, pairs.Source}, {shard.Target, pairs.Target}}
	for _, end := range ends {
		b := l.Blocks[end.block]
		if places[end.block] == nil {
			places[end.block] = make([]int32, b.Nodes)
		}
		known := places[end.block]
		for k, i := range end.nodes {
			at := int(i) - b.First
			if at < 0 || at >= b.Nodes {
				return nil, notInBlock(k, i, end.block, b)
			}
			known[at] = 1
		}
	}
	number := func(block int) {
		for at, named := range places[block] {
			if named != 0 {
				numbers = append(numbers, int32(l.Blocks[block].First+at))
				places[block][at] = int32(len(numbers))
			}
		}
	}
	if number(shard.Source); shard.Target != shard.Source {
		number(shard.Target)
	}
	for _, end := range ends {
		known, first := places[end.block], int32(l.Blocks[end.block].First)
		for k, i := range end.nodes {
			end.nodes[k] = known[i-first] - 1
		}
	}
	return numbers, nil
}

// Problem returns the pairs as what is learned from.
func (p *Part) Problem() sample.Problem {
	return sample.Problem{Nodes: p.Nodes, Train: p.Pairs, Exposure: p.Exposure}
}

// NodeLayout is what workers know of a manifest: the nodes.
type NodeLayout struct {
	Nodes   int         `json:"nodes"`
	Dim     int         `json:"dim"`
	Fields  []string    `json:"fields"`
	Blocks  []NodeBlock `json:"blocks"`
	Roles   []RoleRun   `json:"roles,omitempty"`
	Columns []string    `json:"columns,omitempty"`
}

// Layout returns what workers need to know of the shards.
func (m *Manifest) Layout() *NodeLayout {
	return &NodeLayout{m.Nodes, m.Dim, m.Fields, m.Blocks, m.Roles, m.Columns}
}

// Role returns which end of a link a node can be.
func (l *NodeLayout) Role(node int32) graph.Role {
	at := sort.Search(len(l.Roles), func(k int) bool { return l.Roles[k].First > int(node) })
	if at == 0 {
		return graph.SourceAndTarget
	}
	role, err := graph.ParseRole(l.Roles[at-1].Role)
	if err != nil {
		return graph.SourceAndTarget
	}
	return role
}

// Block returns the block of a node.
func (l *NodeLayout) Block(node int32) int {
	after := sort.Search(len(l.Blocks), func(b int) bool { return l.Blocks[b].First > int(node) })
	return max(after-1, 0)
}

// NewVectors makes room for so many of the vectors that nodes have; nil where they have none.
func (l *NodeLayout) NewVectors(nodes int) (*graph.Vectors, error) {
	if l.Dim == 0 {
		return nil, nil
	}
	v, err := graph.NewVectors(nodes, l.Dim)
	if err != nil {
		return nil, fmt.Errorf("%w: %d vectors of dimension %d: %w", ErrDamaged, nodes, l.Dim, err)
	}
	return v, nil
}

// Gather reads the vectors and fields of some nodes, in the order given, by so many threads.
func (s Location) Gather(ctx context.Context, l *NodeLayout, numbers []int32, threads int) (model.Nodes, error) {
	vectors, err := l.NewVectors(max(len(numbers), 1))
	if err != nil {
		return model.Nodes{}, err
	}
	nodes := model.Nodes{Vectors: vectors, Fields: make([]uint16, max(len(numbers), 1)), FieldCount: len(l.Fields),
		FieldNames: l.Fields, Numbers: numbers}
	l.Fill(&nodes)
	byBlock, b := make([][]int32, len(l.Blocks)), 0 // places
	for place, i := range numbers {
		if at := int(i) - l.Blocks[b].First; at < 0 || at >= l.Blocks[b].Nodes {
			b = l.Block(i)
		}
		byBlock[b] = append(byBlock[b], int32(place))
	}
	for b, places := range byBlock {
		if len(places) == 0 {
			continue
		}
		if err := s.gather(ctx, l, l.Blocks[b], nodes, places, threads); err != nil {
			vectors.Close()
			return model.Nodes{}, err
		}
	}
	return nodes, nil
}

// gathered is how many rows a thread copies before it takes others.
const gathered = 4096

// gather reads the nodes of a block, which have some places.
func (s Location) gather(ctx context.Context, l *NodeLayout, block NodeBlock, nodes model.Nodes, places []int32,
	threads int) error {
	file, table, err := s.OpenBlock(ctx, l, block)
	if err != nil {
		return err
	}
	defer file.Close()
	var from, to *kern.Matrix
	if file != nil {
		from, to = kern.MatrixOf(file), kern.MatrixOf(nodes.Vectors)
	}
	return kern.ChunksErr(ctx, len(places), gathered, threads, func(_, _, first, end int) error {
		for _, place := range places[first:end] {
			at := nodes.Numbers[place] - int32(block.First)
			if from != nil {
				from.Load(to.Row(int(place)), int(at))
			}
			nodes.Fields[place] = table.Fields[at]
			if nodes.Popularity != nil {
				nodes.Popularity[place] = table.Popularity[at]
			}
			if nodes.Age != nil {
				nodes.Age[place] = table.Age[at]
			}
		}
		return nil
	})
}

// Fill makes room for the columns of nodes that are known.
func (l *NodeLayout) Fill(n *model.Nodes) {
	if slices.Contains(l.Columns, PopularityColumn) {
		n.Popularity = make([]float32, n.Len())
	}
	if slices.Contains(l.Columns, AgeColumn) {
		n.Age = make([]float32, n.Len())
	}
}

// OpenBlock opens the vectors of a block, for the caller to close, and reads its table. Vectors are nil where nodes
// have none.
func (s Location) OpenBlock(ctx context.Context, l *NodeLayout, b NodeBlock) (*graph.Vectors, NodeTable, error) {
	table, err := s.Table(ctx, l, b)
	if err != nil || l.Dim == 0 {
		return nil, table, err
	}
	v, err := s.Vectors(ctx, b.Vectors)
	if err != nil {
		return nil, table, err
	}
	if v.Len() != b.Nodes || v.Dim() != l.Dim {
		err := fmt.Errorf("%w: %s has %d vectors of dimension %d and should have %d of %d; make the shards again",
			ErrDamaged, s.Path(b.Vectors.Name), v.Len(), v.Dim(), b.Nodes, l.Dim)
		v.Close()
		return nil, table, err
	}
	return v, table, nil
}
