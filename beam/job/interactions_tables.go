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
	Clicks []tableClick // of the bucket's people
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

// tableClick is a click or a showing. Which of them says its position.
type tableClick struct {
	Person, Item string
	Position     uint64
	Seconds      int64
	Value        float32 // of a click
	Did          deed
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
	rows  []tableRows
	size  []int
	named []map[string]bool // items whose first position in this file was handed on
	emit  func(int, []byte)
	bad   badRows
}

func (d *tableDealer) add(bucket, size int) error {
	if d.size[bucket] += size; d.size[bucket] < batchBytes {
		return nil
	}
	return d.hand(bucket)
}

func (d *tableDealer) hand(bucket int) error {
	if d.size[bucket] == 0 {
		return nil
	}
	rows := d.rows[bucket]
	d.rows[bucket], d.size[bucket], d.named[bucket] = tableRows{}, 0, nil
	return emitPacked(d.emit, bucket, rows)
}

// item deals an item that is named, once for a batch: only its first position counts.
func (d *tableDealer) item(n tableNode) error {
	b := d.bucketOf(n.ID)
	if d.named[b] == nil {
		d.named[b] = map[string]bool{}
	}
	if !n.Record && d.named[b][n.ID] {
		return nil
	}
	n.ID = strings.Clone(n.ID)
	d.named[b][n.ID] = true
	d.rows[b].Nodes[itemSide] = append(d.rows[b].Nodes[itemSide], n)
	if probe, begins := strings.CutPrefix(n.ID, d.Prefix); begins {
		at := d.bucketOf(probe)
		d.rows[at].Probes = append(d.rows[at].Probes, probe)
		if err := d.add(at, len(probe)+16); err != nil {
			return err
		}
	}
	return d.add(b, len(n.ID)+len(n.Field)+4*len(n.Vector)+64)
}

// readTable deals the rows of one file.
func (p *plan) readTable(ctx context.Context, t *task, emit func(int, []byte)) error {
	n := p.Tables.Settings.Buckets
	d := &tableDealer{tablePlan: p.Tables, rows: make([]tableRows, n), size: make([]int, n),
		named: make([]map[string]bool, n), emit: emit}
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
			return d.click(tableClick{s.Person, s.Item, positionOf(ofShowing, t.First, s.Line), s.Seconds,
				float32(math.NaN()), did})
		}, bad)
	default:
		err = d.readSide(ctx, t, options, bad)
	}
	for b := range d.rows {
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
		return d.click(tableClick{c.Person, c.Item, positionOf(ofClick, t.First, c.Line), c.Seconds, c.Value, didClick})
	}, bad)
	if err == nil && columns.Rows+columns.Bad == 0 && len(d.Files[showingsTable]) == 0 {
		err = exchange.NoClicks(t.Path)
	}
	return &columns, err
}

// click deals a click or a showing, whose ids are good until the next one.
func (d *tableDealer) click(c tableClick) error {
	b := d.bucketOf(c.Person)
	c.Person, c.Item = strings.Clone(c.Person), strings.Clone(c.Item)
	d.rows[b].Clicks = append(d.rows[b].Clicks, c)
	if err := d.item(tableNode{ID: c.Item, Position: c.Position, Time: graph.NoTime}); err != nil {
		return err
	}
	return d.add(b, len(c.Person)+len(c.Item)+40)
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
		d.rows[b].Nodes[personSide] = append(d.rows[b].Nodes[personSide], n)
		return d.add(b, len(n.ID)+len(n.Field)+4*len(n.Vector)+64)
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

// bucketClicks are the clicks of a bucket's people, who are named by their place among those of the bucket.
type bucketClicks struct {
	Person   []int32
	Item     []string
	Position []uint64
	Seconds  []int64
	Value    []float32
	Did      []deed
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
	var all tableRows
	for batches(&b) {
		var some tableRows
		if err := unpack(b, &some); err != nil {
			return err
		}
		for side := range all.Nodes {
			all.Nodes[side] = append(all.Nodes[side], some.Nodes[side]...)
		}
		all.Clicks, all.Probes = append(all.Clicks, some.Clicks...), append(all.Probes, some.Probes...)
	}
	for _, c := range all.Clicks {
		all.Nodes[personSide] = append(all.Nodes[personSide], tableNode{ID: c.Person, Position: c.Position,
			Time: graph.NoTime})
	}
	out := gathered{Bucket: bucket, Chunks: map[int]int{}}
	var ids bucketIDs
	var err error
	for side := range ids {
		if ids[side], err = p.Tables.firstOf(side, all.Nodes[side], &out.Bad); err != nil {
			return err
		}
		for _, n := range ids[side] {
			out.Chunks[chunkOf(side, n.Position)]++
		}
	}
	places := placesOf(ids[personSide])
	for _, n := range ids[itemSide] {
		if _, is := places[n.ID]; is {
			out.Shared++
		}
	}
	slices.Sort(all.Probes)
	for _, probe := range all.Probes {
		if _, is := places[probe]; is && out.Collides == "" {
			out.Collides = p.Tables.Prefix + probe
		}
	}
	slices.SortFunc(all.Clicks, func(a, b tableClick) int { return cmp.Compare(a.Position, b.Position) })
	var clicks bucketClicks
	for _, c := range all.Clicks {
		clicks.Person, clicks.Item = append(clicks.Person, int32(places[c.Person])), append(clicks.Item, c.Item)
		clicks.Position, clicks.Seconds = append(clicks.Position, c.Position), append(clicks.Seconds, c.Seconds)
		clicks.Value, clicks.Did = append(clicks.Value, c.Value), append(clicks.Did, c.Did)
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
func placesOf(nodes []tableNode) map[string]int {
	places := make(map[string]int, len(nodes))
	for k, n := range nodes {
		places[n.ID] = k
	}
	return places
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

// clickJoin are clicks and showings of people whose numbers are known.
type clickJoin struct {
	Person, Number []int32 // the item's number, where that is known
	Item           []string
	Position       []uint64
	Seconds        []int64
	Value          []float32
	Did            []deed
	Nodes          []blockNode // of a block
}

// blockNode is a node with its number.
type blockNode struct {
	Number int32
	Node   tableNode
}

// take moves a click from one list to another.
func (c *clickJoin) take(from *clickJoin, k int) {
	c.Person, c.Position = append(c.Person, from.Person[k]), append(c.Position, from.Position[k])
	c.Seconds, c.Value = append(c.Seconds, from.Seconds[k]), append(c.Value, from.Value[k])
	c.Did = append(c.Did, from.Did[k])
}

// persons gives the clicks of a bucket the numbers of their people, and sends them to the buckets of their items.
func (p *plan) persons(ctx context.Context, t *task, emit func(int, []byte)) error {
	var clicks bucketClicks
	var numbers []int32
	if err := p.recall(ctx, clicksName(t.Source), &clicks); err != nil {
		return err
	}
	if err := p.recall(ctx, numbersName(t.Source), &numbers); err != nil {
		return err
	}
	from := &clickJoin{Person: clicks.Person, Position: clicks.Position, Seconds: clicks.Seconds, Value: clicks.Value,
		Did: clicks.Did}
	out := make([]clickJoin, p.Tables.Settings.Buckets)
	for k, item := range clicks.Item {
		c := &out[p.Tables.bucketOf(item)]
		from.Person[k] = numbers[clicks.Person[k]]
		c.take(from, k)
		c.Item = append(c.Item, item)
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
	out := map[int]*clickJoin{}
	block := func(number int32) *clickJoin {
		b := p.Layout.Block(number)
		if out[b] == nil {
			out[b] = &clickJoin{}
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
		var some clickJoin
		if err := unpack(b, &some); err != nil {
			return err
		}
		for k, item := range some.Item {
			place, known := places[item]
			if !known {
				return fmt.Errorf("%w: a click on %.80q, which no bucket has", ErrJob, item)
			}
			to := block(some.Person[k])
			to.take(&some, k)
			to.Number = append(to.Number, numbers[people+place])
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
	Logged         []loggedPair
}

// loggedPair is a pair of which it is known whether it was shown.
type loggedPair struct {
	graph.Link
	Exposed, Linked bool
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
	var all clickJoin
	var b []byte
	for batches(&b) {
		var some clickJoin
		if err := unpack(b, &some); err != nil {
			return err
		}
		for k := range some.Person {
			all.take(&some, k)
		}
		all.Number, all.Nodes = append(all.Number, some.Number...), append(all.Nodes, some.Nodes...)
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
	all.pairs(p.Tables, &kept)
	out.Links = int64(len(kept.Source))
	out.Logged = len(kept.Logged) > 0
	out.Unshown = slices.ContainsFunc(kept.Logged, func(l loggedPair) bool { return !l.Exposed && !l.Linked })
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

// pairs makes links of clicks, pair by pair, and says which pairs are known to be shown.
func (c *clickJoin) pairs(t *tablePlan, into *nodeBlock) {
	order := make([]int, len(c.Person))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.Person[a], c.Person[b]), cmp.Compare(c.Number[a], c.Number[b]),
			cmp.Compare(c.Position[a], c.Position[b]))
	})
	// A click of the impressions has a time where those of the table of clicks have one.
	untimed := len(t.Files[clicksTable]) > 0 && !t.Columns.Timed
	for from := 0; from < len(order); {
		first := order[from]
		link := graph.Link{Source: c.Person[first], Target: c.Number[first]}
		clicks, did := exchange.NewPairClicks(), deed(0)
		for ; from < len(order); from++ {
			k := order[from]
			if c.Person[k] != link.Source || c.Number[k] != link.Target {
				break
			}
			if did |= c.Did[k]; c.Did[k]&didClick == 0 {
				continue
			}
			seconds := c.Seconds[k]
			if untimed {
				seconds = graph.NoTime
			}
			clicks.Add(seconds, c.Value[k], t.Rule.Rated)
		}
		linked := did&didClick != 0 && t.Rule.Linked(clicks)
		if linked {
			into.Source, into.Target = append(into.Source, link.Source), append(into.Target, link.Target)
			into.Seconds = append(into.Seconds, clicks.First)
		}
		switch {
		case did&didShow != 0:
			into.Logged = append(into.Logged, loggedPair{link, did&didSee != 0, linked})
		case t.Rule.Rated: // who rated an item had seen it
			into.Logged = append(into.Logged, loggedPair{link, true, linked})
		}
	}
}
