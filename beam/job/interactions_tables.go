package job

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"

	"unseen/beam/shards"
	"unseen/dataset/exchange"
	"unseen/encode"
	"unseen/graph"
	"unseen/hint"
	"unseen/sample"
)

// The two sides of a rectangle.
const (
	personSide = iota
	itemSide
)

// bucketOf deals an id to a bucket.
func (t *tablePlan) bucketOf(id string) int {
	h := fnv.New64a()
	h.Write([]byte(id))
	return int(mixed(h.Sum64(), 0) % uint64(t.Settings.Buckets))
}

// A position is where an id or a click stands: records of people and items come first, then bad records that are left
// out, of which the ids are nodes all the same, then clicks and then impressions; files in their order.
const (
	lineBits  = 38
	fileBits  = 22
	kindBits  = 2
	chunkBits = 16 // lines of a chunk
)

// The kinds of positions.
const (
	ofRecord = iota
	ofBadRecord
	ofClick
	ofShowing
)

func positionOf(kind, file, line int) uint64 {
	return uint64(kind)<<(lineBits+fileBits) | uint64(file)<<lineBits | uint64(line)
}

// chunkOf names the positions of a side that are numbered together.
func chunkOf(side int, position uint64) int {
	return side<<(kindBits+lineBits+fileBits-chunkBits) | int(position>>chunkBits)
}

// fileOf and lineOf are parts of a position.
func fileOf(position uint64) int { return int(position >> lineBits & (1<<fileBits - 1)) }
func lineOf(position uint64) int { return int(position & (1<<lineBits - 1)) }

// tableRows is what tables say of the ids of a bucket.
type tableRows struct {
	Nodes  [2][]tableNode
	Clicks clickColumns // of the bucket's people
	Probes []string     // ids of items without the prefix of people
}

// tableNode is a person or an item where it is named.
type tableNode struct {
	ID       string
	Position uint64
	Record   bool // it has one there
	Field    string
	Time     int64
	Vector   []float32 // nil: zeros
}

// clickColumns are clicks and showings; which of them says the position. A person or an item is a place in the list of
// ids, or where there is no list a number.
type clickColumns struct {
	People, Items []string
	Person, Item  []int32
	Position      []uint64
	Seconds       []int64
	Value         []float32 // of a click
	Did           []deed
}

// add adds a row.
func (c *clickColumns) add(person, item int32, position uint64, seconds int64, value float32, did deed) {
	c.Person, c.Item, c.Position = append(c.Person, person), append(c.Item, item), append(c.Position, position)
	c.Seconds, c.Value, c.Did = append(c.Seconds, seconds), append(c.Value, value), append(c.Did, did)
}

// take adds a row of another list, with its person and item as they are called here.
func (c *clickColumns) take(from *clickColumns, k int, person, item int32) {
	c.add(person, item, from.Position[k], from.Seconds[k], from.Value[k], from.Did[k])
}

// join adds the rows of another list, with its people and items as they are called here.
func (c *clickColumns) join(from *clickColumns, people, items []int32) {
	for k := range from.Person {
		c.take(from, k, people[from.Person[k]], items[from.Item[k]])
	}
}

// places are the places of ids in a list that grows.
type places map[string]int32

// of returns the place of an id, and whether it is new there.
func (p *places) of(id string, list *[]string) (place int32, isNew bool) {
	place, known := (*p)[id]
	if known {
		return place, false
	}
	if *p == nil {
		*p = places{}
	}
	place, id = int32(len(*list)), strings.Clone(id)
	*list, (*p)[id] = append(*list, id), place
	return place, true
}

// all returns the places of ids.
func (p *places) all(ids []string, list *[]string) []int32 {
	out := make([]int32, len(ids))
	for k, id := range ids {
		out[k], _ = p.of(id, list)
	}
	return out
}

// deed is what happened in a row.
type deed uint8

// The parts of a deed.
const (
	didClick deed = 1 << iota
	didShow       // the row is of the impressions
	didSee        // and the item was shown
)

// gathered is what a bucket has, or of the bucket −1 what a file has.
type gathered struct {
	Bad      badRows
	Bucket   int
	Chunks   map[int]int `json:",omitempty"` // how many ids come first in each
	Shared   int         // ids that are a person's and an item's
	Collides string      // an item's id that is a person's with the prefix
	File     int
	Columns  *exchange.ClickColumns `json:",omitempty"` // of clicks
	Showings int64                  // rows of impressions
}

// tableDealer collects rows by bucket, and hands them on when there are many.
type tableDealer struct {
	*tablePlan
	batches []tableBatch // by bucket
	emit    func(int, []byte)
	bad     badRows
}

// tableBatch is what a bucket gets next.
type tableBatch struct {
	rows          tableRows
	size          int
	people, items places          // of the clicks
	named         map[string]bool // items that are among the nodes
}

func (d *tableDealer) add(bucket, size int) error {
	if d.batches[bucket].size += size; d.batches[bucket].size < batchBytes {
		return nil
	}
	return d.hand(bucket)
}

func (d *tableDealer) hand(bucket int) error {
	if d.batches[bucket].size == 0 {
		return nil
	}
	rows := d.batches[bucket].rows
	d.batches[bucket] = tableBatch{}
	return emitPacked(d.emit, bucket, rows)
}

// item deals an item that is named, once for a batch: only its first position counts.
func (d *tableDealer) item(n tableNode) error {
	bucket := d.bucketOf(n.ID)
	b := &d.batches[bucket]
	if b.named == nil {
		b.named = map[string]bool{}
	}
	if !n.Record && b.named[n.ID] {
		return nil
	}
	n.ID = strings.Clone(n.ID)
	b.named[n.ID] = true
	b.rows.Nodes[itemSide] = append(b.rows.Nodes[itemSide], n)
	if probe, begins := strings.CutPrefix(n.ID, d.Prefix); begins {
		at := d.bucketOf(probe)
		d.batches[at].rows.Probes = append(d.batches[at].rows.Probes, probe)
		if err := d.add(at, len(probe)+16); err != nil {
			return err
		}
	}
	return d.add(bucket, n.size())
}

// rowBytes is about what a row takes.
const rowBytes = 24

func (n *tableNode) size() int { return len(n.ID) + len(n.Field) + 4*len(n.Vector) + 64 }

// readTable deals the rows of one file.
func (p *plan) readTable(ctx context.Context, t *task, emit func(int, []byte)) error {
	d := &tableDealer{tablePlan: p.Tables, batches: make([]tableBatch, p.Tables.Settings.Buckets), emit: emit}
	options := exchange.Options{Flags: p.Tables.Settings.Flags, Open: spool(ctx, t.Path)}
	bad := d.badRecords(&d.bad, t.Source, t.First)
	out := gathered{Bucket: -1, File: t.First}
	var err error
	switch t.Source {
	case clicksTable:
		out.Columns, err = d.readClicks(ctx, t, options, bad)
	case showingsTable:
		err = exchange.ReadShowings(ctx, t.Path, options, func(s exchange.ShownRow) error {
			out.Showings++
			did := didShow
			if s.Exposed {
				did |= didSee
			}
			if s.Clicked {
				did |= didClick
			}
			at := positionOf(ofShowing, t.First, s.Line)
			return d.click(s.Person, s.Item, at, s.Seconds, float32(math.NaN()), did)
		}, bad)
	default:
		err = d.readSide(ctx, t, options, bad)
	}
	for b := range d.batches {
		if err == nil {
			err = d.hand(b)
		}
	}
	if err != nil {
		return err
	}
	out.Bad = d.bad
	text, err := json.Marshal(out)
	if err == nil {
		d.emit(out.Bucket, text)
	}
	return err
}

func (d *tableDealer) readClicks(ctx context.Context, t *task, o exchange.Options, bad exchange.BadRecords) (
	*exchange.ClickColumns, error) {
	columns, err := exchange.ReadClicks(ctx, t.Path, o, func(c exchange.Click) error {
		return d.click(c.Person, c.Item, positionOf(ofClick, t.First, c.Line), c.Seconds, c.Value, didClick)
	}, bad)
	if err == nil && columns.Rows+columns.Bad == 0 && len(d.Files[showingsTable]) == 0 {
		err = exchange.NoClicks(t.Path)
	}
	return &columns, err
}

// click deals a click or a showing, whose ids are good until the next one.
func (d *tableDealer) click(person, item string, position uint64, seconds int64, value float32, did deed) error {
	bucket := d.bucketOf(person)
	b, size := &d.batches[bucket], rowBytes
	clicks := &b.rows.Clicks
	at, isNew := b.people.of(person, &clicks.People)
	if isNew {
		n := tableNode{ID: clicks.People[at], Position: position, Time: graph.NoTime}
		b.rows.Nodes[personSide] = append(b.rows.Nodes[personSide], n)
		size += len(n.ID) + n.size()
	}
	to, isNew := b.items.of(item, &clicks.Items)
	if isNew {
		size += len(item) + 16
	}
	clicks.add(at, to, position, seconds, value, did)
	if err := d.add(bucket, size); err != nil || !isNew {
		return err
	}
	return d.item(tableNode{ID: item, Position: position, Time: graph.NoTime})
}

func (d *tableDealer) readSide(ctx context.Context, t *task, o exchange.Options, bad exchange.BadRecords) error {
	var encoder *encode.LSA
	if d.Settings.Encoder != "" {
		var err error
		if encoder, err = openEncoder(ctx, d.Settings.Encoder); err != nil {
			return err
		}
	}
	role, kind := graph.SourceOnly, hint.Setting("user")
	if t.Source == itemsTable {
		role, kind = graph.TargetOnly, "item"
	}
	return exchange.ReadSide(ctx, t.Path, o, role, func(r exchange.SideRecord) error {
		n := tableNode{ID: r.ID, Position: positionOf(ofRecord, t.First, r.Place.Line), Record: !r.Bad,
			Field: strings.Clone(r.Field), Time: graph.NoTime}
		if r.Bad {
			n.Position = positionOf(ofBadRecord, t.First, r.Place.Line)
		}
		if !r.Time.IsZero() {
			n.Time = r.Time.Unix()
		}
		if r.Title != "" || r.Text != "" {
			if encoder == nil {
				return hint.Wrap(fmt.Errorf("%w: %s has a title or a text, and no encoder makes vectors of it",
					shards.ErrSetting, r.Place), "set %v to the encoder.safetensors that unseen encode leaves in a "+
					"dataset, made from a sample, or read no texts: set %v and %v to nothing",
					hint.Setting("encoder"), kind+"Title", kind+"Text")
			}
			n.Vector, _ = encoder.Encode(encode.Text{Title: r.Title, Body: r.Text})
		}
		if t.Source == itemsTable {
			return d.item(n)
		}
		n.ID = strings.Clone(n.ID)
		b := d.bucketOf(n.ID)
		d.batches[b].rows.Nodes[personSide] = append(d.batches[b].rows.Nodes[personSide], n)
		return d.add(b, n.size())
	}, bad)
}

func idsName(bucket int) string     { return fmt.Sprintf("ids-%05d.gob", bucket) }
func clicksName(bucket int) string  { return fmt.Sprintf("clicks-%05d.gob", bucket) }
func numbersName(bucket int) string { return fmt.Sprintf("numbers-%05d.gob", bucket) }
func blockName(block int) string    { return fmt.Sprintf("block-%05d.gob", block) }

// keep writes something for the next job, and recall reads it.
func (p *plan) keep(ctx context.Context, name string, v any) error {
	content, err := pack(v)
	if err == nil {
		_, err = p.shards().WriteBytes(ctx, name, content)
	}
	return err
}

func (p *plan) recall(ctx context.Context, name string, into any) error {
	content, err := p.shards().ReadAll(ctx, name)
	if err != nil {
		return err
	}
	return unpack(content, into)
}

// bucketIDs are the ids of a bucket by side, in the order in which they first come.
type bucketIDs [2][]tableNode

// gatherIDs puts the ids of a bucket into order, and sends on which columns a file has.
func (p *plan) gatherIDs(ctx context.Context, bucket int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	var b []byte
	if bucket < 0 {
		for batches(&b) {
			emit(0, slices.Clone(b))
		}
		return nil
	}
	var nodes [2][]tableNode
	var probes, people []string
	var clicks clickColumns
	var persons, items places
	for batches(&b) {
		var some tableRows
		if err := unpack(b, &some); err != nil {
			return err
		}
		for side := range nodes {
			nodes[side] = append(nodes[side], some.Nodes[side]...)
		}
		probes = append(probes, some.Probes...)
		clicks.join(&some.Clicks, persons.all(some.Clicks.People, &people), items.all(some.Clicks.Items, &clicks.Items))
	}
	out := gathered{Bucket: bucket, Chunks: map[int]int{}}
	var ids bucketIDs
	var err error
	for side := range ids {
		if ids[side], err = p.Tables.firstOf(side, nodes[side], &out.Bad); err != nil {
			return err
		}
		for _, n := range ids[side] {
			out.Chunks[chunkOf(side, n.Position)]++
		}
	}
	at := placesOf(ids[personSide])
	for _, n := range ids[itemSide] {
		if _, is := at[n.ID]; is {
			out.Shared++
		}
	}
	slices.Sort(probes)
	for _, probe := range probes {
		if _, is := at[probe]; is && out.Collides == "" {
			out.Collides = p.Tables.Prefix + probe
		}
	}
	for k, person := range clicks.Person { // by their places among the ids from here on
		clicks.Person[k] = at[people[person]]
	}
	if err := p.keep(ctx, idsName(bucket), ids); err != nil {
		return err
	}
	if err := p.keep(ctx, clicksName(bucket), clicks); err != nil {
		return err
	}
	return emitDocument(emit, out)
}

// placesOf are the places of ids in a list.
func placesOf(nodes []tableNode) places {
	p := make(places, len(nodes))
	for k, n := range nodes {
		p[n.ID] = int32(k)
	}
	return p
}

// firstOf keeps of every id where it first comes, which is its record where it has one.
func (t *tablePlan) firstOf(side int, nodes []tableNode, left *badRows) ([]tableNode, error) {
	slices.SortFunc(nodes, func(a, b tableNode) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Position, b.Position))
	})
	out := nodes[:0]
	for _, n := range nodes {
		switch last := len(out) - 1; {
		case last < 0 || out[last].ID != n.ID:
			out = append(out, n)
		case n.Record:
			file := fileOf(n.Position)
			at := exchange.Place{File: t.Files[side][file], Line: lineOf(n.Position)}
			if err := exchange.DuplicateNode(n.ID, at, t.badRecords(left, side, file)); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(out, func(a, b tableNode) int { return cmp.Compare(a.Position, b.Position) })
	return out, nil
}

// chunkPositions are where ids of a bucket first come within a chunk, ascending.
type chunkPositions struct {
	Bucket    int
	Chunk     int
	Positions []uint64
}

// chunkNumbers are the numbers of these.
type chunkNumbers struct {
	Chunk   int
	Numbers []int32
}

// positions sends the positions of a bucket's ids to their chunks.
func (p *plan) positions(ctx context.Context, t *task, emit func(int, []byte)) error {
	var ids bucketIDs
	if err := p.recall(ctx, idsName(t.Source), &ids); err != nil {
		return err
	}
	for side, nodes := range ids {
		for from := 0; from < len(nodes); {
			out := chunkPositions{Bucket: t.Source, Chunk: chunkOf(side, nodes[from].Position)}
			for ; from < len(nodes) && chunkOf(side, nodes[from].Position) == out.Chunk; from++ {
				out.Positions = append(out.Positions, nodes[from].Position)
			}
			if err := emitPacked(emit, out.Chunk, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// ranks numbers the positions of a chunk, and sends the numbers back.
func (p *plan) ranks(_ context.Context, chunk int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	at, known := slices.BinarySearchFunc(p.Tables.Chunks, chunk, func(c chunkStart, chunk int) int {
		return cmp.Compare(c.Chunk, chunk)
	})
	if !known {
		return fmt.Errorf("%w: ids of chunk %d, which has none", ErrJob, chunk)
	}
	var of []chunkPositions
	var all []uint64
	var b []byte
	for batches(&b) {
		var some chunkPositions
		if err := unpack(b, &some); err != nil {
			return err
		}
		of, all = append(of, some), append(all, some.Positions...)
	}
	slices.Sort(all)
	for _, some := range of {
		out := chunkNumbers{Chunk: chunk}
		for _, position := range some.Positions {
			rank, _ := slices.BinarySearch(all, position)
			out.Numbers = append(out.Numbers, p.Tables.Chunks[at].First+int32(rank))
		}
		if err := emitPacked(emit, some.Bucket, out); err != nil {
			return err
		}
	}
	return nil
}

// numbers keeps the numbers of a bucket's ids, people first.
func (p *plan) numbers(ctx context.Context, bucket int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	var of []chunkNumbers
	var b []byte
	for batches(&b) {
		var some chunkNumbers
		if err := unpack(b, &some); err != nil {
			return err
		}
		of = append(of, some)
	}
	slices.SortFunc(of, func(a, b chunkNumbers) int { return a.Chunk - b.Chunk })
	var all []int32
	for _, some := range of {
		all = append(all, some.Numbers...)
	}
	if err := p.keep(ctx, numbersName(bucket), all); err != nil {
		return err
	}
	return emitDocument(emit, bucket)
}

// blockRows are nodes and clicks of a block.
type blockRows struct {
	Nodes  []blockNode
	Clicks clickColumns
}

// blockNode is a node with its number.
type blockNode struct {
	Number int32
	Node   tableNode
}

// persons gives the clicks of a bucket the numbers of their people, and sends them to the buckets of their items.
func (p *plan) persons(ctx context.Context, t *task, emit func(int, []byte)) error {
	var clicks clickColumns
	var numbers []int32
	if err := p.recall(ctx, clicksName(t.Source), &clicks); err != nil {
		return err
	}
	if err := p.recall(ctx, numbersName(t.Source), &numbers); err != nil {
		return err
	}
	out, to := make([]clickColumns, p.Tables.Settings.Buckets), make([]int, len(clicks.Items))
	places := make([]int32, len(clicks.Items))
	for k, item := range clicks.Items {
		to[k] = p.Tables.bucketOf(item)
		of := &out[to[k]]
		places[k], of.Items = int32(len(of.Items)), append(of.Items, item)
	}
	for k, item := range clicks.Item {
		out[to[item]].take(&clicks, k, numbers[clicks.Person[k]], places[item])
	}
	for b := range out {
		if len(out[b].Person) == 0 && b != t.Source { // a bucket hears of itself in any case
			continue
		}
		if err := emitPacked(emit, b, out[b]); err != nil {
			return err
		}
	}
	return nil
}

// items gives clicks the numbers of their items, and sends them to the blocks of their people; nodes too.
func (p *plan) items(ctx context.Context, bucket int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	var ids bucketIDs
	var numbers []int32
	if err := p.recall(ctx, idsName(bucket), &ids); err != nil {
		return err
	}
	if err := p.recall(ctx, numbersName(bucket), &numbers); err != nil {
		return err
	}
	places, people := placesOf(ids[itemSide]), len(ids[personSide])
	out := map[int]*blockRows{}
	block := func(number int32) *blockRows {
		b := p.Layout.Block(number)
		if out[b] == nil {
			out[b] = &blockRows{}
		}
		return out[b]
	}
	for k, n := range slices.Concat(ids[personSide], ids[itemSide]) {
		if k < people {
			n.ID = p.Tables.Prefix + n.ID
		}
		b := block(numbers[k])
		b.Nodes = append(b.Nodes, blockNode{numbers[k], n})
	}
	hand := func() error {
		for b, batch := range out {
			if err := emitPacked(emit, b, batch); err != nil {
				return err
			}
		}
		clear(out)
		return nil
	}
	var b []byte
	for batches(&b) {
		var some clickColumns
		if err := unpack(b, &some); err != nil {
			return err
		}
		numbered := make([]int32, len(some.Items))
		for k, item := range some.Items {
			place, known := places[item]
			if !known {
				return fmt.Errorf("%w: a click on %.80q, which no bucket has", ErrJob, item)
			}
			numbered[k] = numbers[people+int(place)]
		}
		for k, item := range some.Item {
			block(some.Person[k]).Clicks.take(&some, k, some.Person[k], numbered[item])
		}
		if err := hand(); err != nil {
			return err
		}
	}
	return hand()
}

// nodeBlock is what is kept of a block: its nodes, and by source and then by target the links of its people, and the
// pairs of which it is known whether they were shown.
type nodeBlock struct {
	IDs, Fields    []string
	Times          []int64
	Source, Target []int32
	Seconds        []int64
	Logged         sample.ExposureLog
}

// blockTable is what the driver hears of a block.
type blockTable struct {
	Block   int
	Vectors shards.FileSum
	Fields  []string // in the order in which they come
	Links   int64
	Timed   bool  // a link has a time
	Logged  bool  // of a pair it is known whether it was shown
	Unshown bool  // and of one that it was not, and it is no link
	Dated   int64 // nodes with a time
	Newest  int64
	Times   int64 // their sum
}

// joinBlock makes a block of nodes and the links of its people.
func (p *plan) joinBlock(ctx context.Context, block int, batches func(*[]byte) bool, emit func(int, []byte)) error {
	var all blockRows
	var b []byte
	for batches(&b) {
		var some blockRows
		if err := unpack(b, &some); err != nil {
			return err
		}
		all.Nodes = append(all.Nodes, some.Nodes...)
		for k := range some.Clicks.Person {
			all.Clicks.take(&some.Clicks, k, some.Clicks.Person[k], some.Clicks.Item[k])
		}
	}
	of := p.Layout.Blocks[block]
	if len(all.Nodes) != of.Nodes {
		return fmt.Errorf("%w: block %d has %d nodes, where there should be %d", ErrJob, block, len(all.Nodes),
			of.Nodes)
	}
	slices.SortFunc(all.Nodes, func(a, b blockNode) int { return cmp.Compare(a.Number, b.Number) })
	vectors, err := p.Layout.NewVectors(of.Nodes)
	if err != nil {
		return err
	}
	defer vectors.Close()
	out, kept := blockTable{Block: block, Newest: graph.NoTime}, nodeBlock{}
	seen := map[string]bool{}
	for k, at := range all.Nodes {
		n := at.Node
		if n.Vector != nil {
			if err := vectors.Set(int32(k), n.Vector); err != nil {
				return fmt.Errorf("the vector of %.80q: %w", n.ID, err)
			}
		}
		if n.Time != graph.NoTime {
			out.Dated, out.Times, out.Newest = out.Dated+1, out.Times+n.Time, max(out.Newest, n.Time)
		}
		if !seen[n.Field] {
			seen[n.Field], out.Fields = true, append(out.Fields, n.Field)
		}
		kept.IDs, kept.Fields, kept.Times = append(kept.IDs, n.ID), append(kept.Fields, n.Field),
			append(kept.Times, n.Time)
	}
	all.Clicks.pairs(p.Tables, of, &kept)
	out.Links = int64(len(kept.Source))
	for k, exposed := range kept.Logged.Exposed {
		out.Logged, out.Unshown = true, out.Unshown || !exposed && !kept.Logged.Linked[k]
	}
	out.Timed = slices.ContainsFunc(kept.Seconds, func(t int64) bool { return t != graph.NoTime })
	if vectors != nil {
		if out.Vectors, err = p.shards().Write(ctx, fmt.Sprintf("vectors-%05d.npy", block), func(w io.Writer) error {
			return shards.WriteVectors(w, vectors)
		}); err != nil {
			return err
		}
	}
	if err := p.keep(ctx, blockName(block), kept); err != nil {
		return err
	}
	return emitDocument(emit, out)
}

// byPerson are the places of the clicks of each of a block's people, one person's after another's.
func (c *clickColumns) byPerson(of shards.NodeBlock) (order, starts []int) {
	starts = make([]int, of.Nodes+2)
	for _, person := range c.Person {
		starts[int(person)-of.First+2]++
	}
	for k := 2; k < len(starts); k++ {
		starts[k] += starts[k-1]
	}
	order = make([]int, len(c.Person))
	for k, person := range c.Person {
		at := &starts[int(person)-of.First+1]
		order[*at] = k
		*at++
	}
	return order, starts[:of.Nodes+1]
}

// pairs makes links of clicks, pair by pair, and says which pairs are known to be shown.
func (c *clickColumns) pairs(t *tablePlan, of shards.NodeBlock, into *nodeBlock) {
	order, starts := c.byPerson(of)
	for person := range of.Nodes {
		rows := order[starts[person]:starts[person+1]]
		slices.SortFunc(rows, func(a, b int) int {
			return cmp.Or(cmp.Compare(c.Item[a], c.Item[b]), cmp.Compare(c.Position[a], c.Position[b]))
		})
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && c.Item[rows[n]] == c.Item[rows[0]] {
				n++
			}
			c.pair(t, rows[:n], into)
			rows = rows[n:]
		}
	}
}

// pair makes a link of a pair's clicks, if it is one, and says whether it is known to be shown.
func (c *clickColumns) pair(t *tablePlan, rows []int, into *nodeBlock) {
	// A click of the impressions has a time where those of the table of clicks have one.
	untimed := len(t.Files[clicksTable]) > 0 && !t.Columns.Timed
	clicks, did := exchange.NewPairClicks(), deed(0)
	for _, k := range rows {
		if did |= c.Did[k]; c.Did[k]&didClick == 0 {
			continue
		}
		seconds := c.Seconds[k]
		if untimed {
			seconds = graph.NoTime
		}
		clicks.Add(seconds, c.Value[k], t.Rule.Rated)
	}
	source, target := c.Person[rows[0]], c.Item[rows[0]]
	linked := did&didClick != 0 && t.Rule.Linked(clicks)
	if linked {
		into.Source, into.Target = append(into.Source, source), append(into.Target, target)
		into.Seconds = append(into.Seconds, clicks.First)
	}
	if did&didShow == 0 && !t.Rule.Rated {
		return
	}
	log := &into.Logged
	log.Source, log.Target = append(log.Source, source), append(log.Target, target)
	// Who rated an item had seen it.
	log.Exposed, log.Linked = append(log.Exposed, did&didSee != 0 || did&didShow == 0), append(log.Linked, linked)
}
