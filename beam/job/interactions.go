package job

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"unseen/beam/shards"
	"unseen/dataset/exchange"
	"unseen/graph"
	"unseen/sample"
)

// InteractionSettings say how tables of people and items become shards.
type InteractionSettings struct {
	// Clicks, Impressions, Items and Users are files or folders that all machines see, or addresses of these. Without
	// clicks, they are those of the impressions.
	Clicks, Impressions, Items, Users []string
	// Flags are those of the format interactions: the names of columns, the threshold of ratings and so on.
	Flags map[string]string
	// Encoder makes vectors of titles and texts: the encoder.safetensors of unseen encode. Without one there are
	// neither texts nor vectors: factors are learned of the ids.
	Encoder string
	Lenient bool // bad rows are left out and counted; else the first one ends the import
	Buckets int  // how many parts ids are dealt to while they are joined; 0 means 16
	Nodes   int  // in a block; 0 means 65,536
	Pairs   int  // in a shard, at most; 0 means 1,048,576
	// Plan says which links are held out, LastLinks, LinksByDate, RandomLinks or Whole, and which pairs are drawn.
	// Without a Split it is the one that unseen fit takes.
	Plan sample.Plan
}

// tablePlan is what workers of an import of interactions know.
type tablePlan struct {
	Settings InteractionSettings `json:"settings"`
	Files    [4][]string         `json:"files"` // of people, items, clicks and impressions
	Columns  exchange.ClickColumns
	Rule     exchange.LinkRule `json:"rule"`
	Showings int64             `json:"showings"`       // rows of impressions
	Prefix   string            `json:"prefix"`         // of people's ids
	People   int               `json:"people"`         // nodes that come first
	Nodes    int               `json:"nodes"`          // people and items
	Buckets  []int             `json:"buckets"`        // those that have ids
	Chunks   []chunkStart      `json:"chunks"`         // by Chunk
	Before   []int64           `json:"before"`         // of each block, links of the blocks before
	Aged     *agedNodes        `json:"aged,omitempty"` // nil where no node has a time
	Draw     *drawPlan         `json:"draw,omitempty"` // of pairs
	// Starts are, where pairs are left out whose item came later, of each block of people how many others come before
	// it, and how many there are.
	Starts []int64           `json:"starts,omitempty"`
	Names  map[string]uint16 `json:"names,omitempty"` // of fields

	bad badRows // that were left out, on the driver
}

// agedNodes is what ages are counted from.
type agedNodes struct {
	Newest int64   `json:"newest"`
	Mean   float64 `json:"mean"` // years, of nodes with a time
}

// The tables of an import.
const (
	peopleTable = iota
	itemsTable
	clicksTable
	showingsTable
)

// ImportInteractions makes the shards of tables of people and items that unseen import interactions and unseen-beam
// import of the dataset would make, with the same vectors, as jobs: rows are dealt by the ids of their people and
// items; ids are numbered in the order in which they first come; rows become links, block by block; links are split
// and pairs drawn. A worker holds a bucket of ids or a block of nodes, with their rows, and never a whole table.
//
// Pairs are those that one machine draws: every worker runs through the same random numbers and keeps those of its own
// people. A lenient import leaves out the rows that one machine leaves out, and says which.
func ImportInteractions(ctx context.Context, runner Runner, to shards.Location, s InteractionSettings) (
	m *shards.Manifest, bad BadRows, err error) {
	if s, err = s.withDefaults(); err != nil {
		return nil, bad, err
	}
	if to.Exists(ctx, shards.ManifestFile) {
		return nil, bad, fmt.Errorf("%w: %s holds shards already; give another place, or remove them",
			shards.ErrContent, to.Root)
	}
	tables := &tablePlan{Settings: s, Prefix: graph.PersonPrefix}
	if given, is := s.Flags["user-prefix"]; is {
		tables.Prefix = given
	}
	for table, paths := range [][]string{s.Users, s.Items, s.Clicks, s.Impressions} {
		if len(paths) == 0 {
			continue
		}
		if tables.Files[table], err = filesUnder(ctx, paths, "tables", exchange.Tabular); err != nil {
			return nil, bad, err
		}
	}
	m = &shards.Manifest{Format: shards.Format, Version: shards.Version, Columns: []string{shards.PopularityColumn}}
	if s.Encoder != "" {
		encoder, err := openEncoder(ctx, s.Encoder)
		if err != nil {
			return nil, bad, err
		}
		m.Dim = encoder.Dim()
	}
	made := to.Temporary()
	defer func() {
		if err != nil {
			made.Discard(context.WithoutCancel(ctx))
		}
	}()
	p := &plan{Root: made.Absolute().Root, Result: made.Absolute().Root, Threads: runner.threads(), Tables: tables,
		Import: &importPlan{Settings: ImportSettings{Pairs: s.Pairs}}}
	for _, step := range []func(context.Context, Runner, *shards.Manifest) error{p.gatherTables, p.numberIDs,
		p.joinTables, p.splitLinks, p.drawPairs} {
		if err := step(ctx, runner, m); err != nil {
			return nil, bad, err
		}
	}
	for _, b := range tables.Buckets {
		made.Remove(ctx, idsName(b), clicksName(b), numbersName(b))
	}
	for b := range m.Blocks {
		made.Remove(ctx, blockName(b))
		if s.Plan = tables.Settings.Plan; s.Plan.Available {
			made.Remove(ctx, thereName(b), orderName)
		}
	}
	return m, tables.bad.public(), m.Publish(ctx, made, to)
}

func (s InteractionSettings) withDefaults() (InteractionSettings, error) {
	s.Buckets, s.Nodes, s.Pairs = cmp.Or(s.Buckets, 16), cmp.Or(s.Nodes, 1<<16), cmp.Or(s.Pairs, 1<<20)
	s.Plan.PerLink = cmp.Or(s.Plan.PerLink, graph.DefaultPerLink)
	if err := sample.LogKind(s.Flags["log"]).Check(); err != nil {
		return s, err
	}
	fail := func(format string, a ...any) (InteractionSettings, error) {
		return s, fmt.Errorf("%w: "+format, append([]any{shards.ErrSetting}, a...)...)
	}
	switch s.Plan.Split {
	case "", sample.LastLinks, sample.RandomLinks, sample.Whole:
	case sample.LinksByDate:
		if s.Plan.Dates == nil || s.Plan.Dates[1].Before(s.Plan.Dates[0].Time) {
			return fail("a split by date without two dates, the first of them earlier; give where validation and " +
				"test begin")
		}
	default:
		return fail("the split %s of people and items, which is not made over shards; give %s, %s, %s or %s, or make "+
			"a dataset with unseen import and cut that", s.Plan.Split, sample.LastLinks, sample.LinksByDate,
			sample.RandomLinks, sample.Whole)
	}
	switch {
	case len(s.Clicks)+len(s.Impressions) == 0:
		return fail("no clicks to import; name files, or a folder, with a person and an item per row")
	case len(s.Items)+len(s.Users) == 0 && s.Encoder != "":
		return fail("the encoder %s, and no titles or texts for it to read; give a table of items or people, or leave "+
			"the encoder out: factors are learned of ids alone", s.Encoder)
	case s.Buckets < 1 || s.Nodes < 1 || s.Nodes > shards.MostInBlock || s.Pairs < 1 || s.Plan.PerLink < 1:
		return fail("%d buckets, %d nodes a block, %d pairs a shard, %d unlinked pairs per link; give positive "+
			"numbers, and at most %d nodes", s.Buckets, s.Nodes, s.Pairs, s.Plan.PerLink, shards.MostInBlock)
	}
	return s, nil
}

// bucketTasks are a task per bucket, and blockTasks one per block.
func (t *tablePlan) bucketTasks() (tasks []task) {
	for _, b := range t.Buckets {
		tasks = append(tasks, task{Source: b})
	}
	return tasks
}

func blockTasks(m *shards.Manifest) (tasks []task) {
	for b := range m.Blocks {
		tasks = append(tasks, task{Source: b})
	}
	return tasks
}

// sourceTasks are a task per block that has people.
func (p *plan) sourceTasks(m *shards.Manifest) []task {
	return slices.DeleteFunc(blockTasks(m), func(t task) bool { return m.Blocks[t.Source].First >= p.Tables.People })
}

// gatherTables reads the tables and deals their rows to buckets.
func (p *plan) gatherTables(ctx context.Context, runner Runner, _ *shards.Manifest) error {
	t := p.Tables
	var tasks []task
	for table, files := range t.Files {
		for at, path := range files {
			tasks = append(tasks, task{Path: path, Source: table, First: at})
		}
	}
	found, err := collect[gathered](ctx, runner, p, tasks, "tables", "gather")
	if err != nil {
		return err
	}
	counts, shared, collides := map[int]int{}, 0, ""
	slices.SortFunc(found, func(a, b gathered) int { return cmp.Or(a.Bucket-b.Bucket, a.File-b.File) })
	first := true
	for _, g := range found {
		t.bad.join(g.Bad)
		if g.Bucket >= 0 {
			t.Buckets = append(t.Buckets, g.Bucket)
			shared += g.Shared
			collides = cmp.Or(collides, g.Collides)
			for chunk, n := range g.Chunks {
				counts[chunk] += n
			}
			continue
		}
		t.Showings += g.Showings
		if g.Columns == nil || g.Columns.Rows == 0 { // another table, or nothing but bad rows
			continue
		}
		c := *g.Columns
		if !first && (c.Timed != t.Columns.Timed || c.Rated != t.Columns.Rated || c.Counted != t.Columns.Counted) {
			return fmt.Errorf("%w: %s and %s have different columns: a time, a rating or a count is in one of them "+
				"alone; give all files of clicks the same columns", shards.ErrContent, t.Files[clicksTable][0],
				t.Files[clicksTable][g.File])
		}
		c.Ratings.Join(t.Columns.Ratings)
		c.Rows += t.Columns.Rows
		t.Columns, first = c, false
	}
	options := exchange.Options{Flags: t.Settings.Flags}
	clicks := t.Files[clicksTable]
	if t.Columns.Rows+t.Showings == 0 {
		return exchange.NoClicks(slices.Concat(clicks, t.Files[showingsTable])[0])
	}
	if t.Rule, err = t.Columns.Rule(strings.Join(clicks[:min(1, len(clicks))], ""), options); err != nil {
		return err
	}
	switch {
	case shared == 0:
		t.Prefix = ""
	case collides != "":
		return exchange.SharedID(collides)
	}
	return t.startChunks(counts)
}

// chunkStart is the number of the first id that came in a chunk of a table for the first time.
type chunkStart struct {
	Chunk int   `json:"chunk"`
	First int32 `json:"first"`
}

// startChunks numbers ids by the chunks in which they come first, people before items.
func (t *tablePlan) startChunks(counts map[int]int) error {
	next := 0
	chunks := make([]int, 0, len(counts))
	for chunk := range counts {
		chunks = append(chunks, chunk)
	}
	slices.Sort(chunks)
	for _, chunk := range chunks {
		t.Chunks = append(t.Chunks, chunkStart{chunk, int32(next)})
		if next += counts[chunk]; next > math.MaxInt32 {
			return fmt.Errorf("%w: more than %d people and items", shards.ErrContent, math.MaxInt32)
		}
		if chunk < chunkOf(itemSide, 0) {
			t.People = next
		}
	}
	t.Nodes = next
	return nil
}

// numberIDs numbers ids in the order in which they first come.
func (p *plan) numberIDs(ctx context.Context, runner Runner, _ *shards.Manifest) error {
	done, err := collect[int](ctx, runner, p, p.Tables.bucketTasks(), "numbers", "ranks", "ids")
	if err == nil && len(done) != len(p.Tables.Buckets) {
		err = fmt.Errorf("%w: the ids of %d buckets came back, of %d", ErrJob, len(done), len(p.Tables.Buckets))
	}
	return err
}

// joinTables makes blocks of nodes, with their links.
func (p *plan) joinTables(ctx context.Context, runner Runner, m *shards.Manifest) error {
	t := p.Tables
	for first := 0; first < t.Nodes; first += t.Settings.Nodes {
		m.Blocks = append(m.Blocks, shards.NodeBlock{First: first, Nodes: min(t.Settings.Nodes, t.Nodes-first)})
	}
	m.Nodes = t.Nodes
	p.Layout = m.Layout()
	blocks, err := collect[blockTable](ctx, runner, p, t.bucketTasks(), "join", "items", "blocks")
	if err != nil {
		return err
	}
	slices.SortFunc(blocks, func(a, b blockTable) int { return a.Block - b.Block })
	if len(blocks) != len(m.Blocks) {
		return fmt.Errorf("%w: %d blocks came back, of %d", ErrJob, len(blocks), len(m.Blocks))
	}
	m.Fields, t.Names = []string{unknown}, map[string]uint16{"": 0, unknown: 0}
	timed, logged, unshown, dated := false, false, false, blockTable{Newest: graph.NoTime}
	for b, found := range blocks {
		m.Blocks[b].Vectors = found.Vectors
		t.Before = append(t.Before, m.Links)
		m.Links += found.Links
		for _, name := range found.Fields {
			if _, known := t.Names[name]; !known {
				if len(m.Fields) == math.MaxUint16 {
					return fmt.Errorf("%w: more than %d fields; merge the rare ones", shards.ErrContent, len(m.Fields))
				}
				t.Names[name] = uint16(len(m.Fields))
				m.Fields = append(m.Fields, name)
			}
		}
		timed, logged, unshown = timed || found.Timed, logged || found.Logged, unshown || found.Unshown
		dated.Dated, dated.Times = dated.Dated+found.Dated, dated.Times+found.Times
		dated.Newest = max(dated.Newest, found.Newest)
	}
	if dated.Dated > 0 {
		m.Columns = append(m.Columns, shards.AgeColumn)
		years := float64(dated.Dated*dated.Newest-dated.Times) / secondsPerYear
		t.Aged = &agedNodes{dated.Newest, years / float64(dated.Dated)}
	}
	m.Roles = []shards.RoleRun{{First: 0, Role: graph.SourceOnly.String()},
		{First: t.People, Role: graph.TargetOnly.String()}}
	p.Layout = m.Layout()
	if err := t.choosePlan(m, timed, dated.Dated > 0); err != nil {
		return err
	}
	return t.chooseLog(m, logged, unshown)
}

// choosePlan chooses how links are held out, as sample.PlanFor does.
func (t *tablePlan) choosePlan(m *shards.Manifest, timed, dated bool) error {
	plan := &t.Settings.Plan
	switch {
	case m.Links == 0:
		return fmt.Errorf("%w: none of %d rows is a link; check the least rating or count that is one, and which "+
			"column of the impressions says what was clicked", shards.ErrContent, t.Columns.Rows+t.Showings)
	case t.People == t.Nodes:
		return fmt.Errorf("%w: there are no items", shards.ErrContent)
	case plan.Split == "" && timed:
		plan.Split, plan.Available = sample.LastLinks, dated
	case plan.Split == "":
		plan.Split = sample.RandomLinks
	case !timed && (plan.Split == sample.LastLinks || plan.Split == sample.LinksByDate):
		return fmt.Errorf("%w: no link has a time, and the split is %s; give times, or split by %s", shards.ErrSetting,
			plan.Split, sample.RandomLinks)
	}
	plan.Later = true
	return nil
}

// chooseLog chooses what is made of known exposures, as the import of one machine records it and Cut reads it. Of all
// pairs that the log has, all were shown or are links, or not.
func (t *tablePlan) chooseLog(m *shards.Manifest, logged, unshown bool) error {
	plan := &t.Settings.Plan
	plan.Log = sample.LogKind(t.Settings.Flags["log"])
	if plan.Log == "" && t.Showings == 0 && t.Rule.Rated {
		plan.Log = sample.Ignored // ratings say nothing of what was shown besides
	}
	if (plan.Log == "" || plan.Log == sample.Sampled) && logged && !unshown {
		return sample.ShownOnly()
	}
	plan.EveryShown = plan.EveryShown && plan.Log == sample.Complete
	m.Data.Plan = *plan
	return nil
}

// splitLinks writes the links and the tables of nodes.
func (p *plan) splitLinks(ctx context.Context, runner Runner, m *shards.Manifest) error {
	found, err := collect[linkTable](ctx, runner, p, blockTasks(m), "links", "nodes")
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b linkTable) int { return a.Block - b.Block })
	if len(found) != len(m.Blocks) {
		return fmt.Errorf("%w: links of %d blocks came back, of %d", ErrJob, len(found), len(m.Blocks))
	}
	var parts [3]int64
	for b, one := range found {
		m.Blocks[b].Table = one.Table
		m.LinkShards = append(m.LinkShards, one.Shards...)
		for subset, n := range one.Parts {
			parts[subset] += n
		}
	}
	p.Layout, p.Tables.Draw = m.Layout(), &drawPlan{Links: parts}
	for _, subset := range []graph.Subset{graph.Train, graph.Test} {
		if parts[subset] == 0 && (subset == graph.Train || p.Tables.Settings.Plan.Split != sample.Whole) {
			return fmt.Errorf("%w: no link of %d is left for %v; hold nothing out (%s), or choose other dates",
				shards.ErrSetting, m.Links, subset, sample.Whole)
		}
	}
	return nil
}
