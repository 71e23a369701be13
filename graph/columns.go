package graph

import (
	"fmt"
	"math"
	"slices"
)

// NodeColumns are nodes column by column, as tables have them: Builder.AddColumns adds them several times faster than
// AddNode adds one after the other. Columns may be filled by different goroutines. In the end every column that is used
// must have an element per node.
type NodeColumns struct {
	ids    textWriter
	index  idIndex
	titles textWriter
	titled bool // there is a title that is not empty
	fields []uint16
	times  []int64
	timed  bool // there is a time that is known
	roles  []Role
}

// GrowIDs makes room for more ids, and for their bytes in all. Wrong numbers cost only memory or time.
func (c *NodeColumns) GrowIDs(nodes, bytes int) {
	c.ids.end = slices.Grow(c.ids.end, nodes)
	c.ids.text = slices.Grow(c.ids.text, bytes)
	c.index.reserve(len(c.ids.end) + nodes)
}

// GrowTitles makes room for more titles, and for their bytes in all.
func (c *NodeColumns) GrowTitles(nodes, bytes int) {
	c.titles.end = slices.Grow(c.titles.end, nodes)
	c.titles.text = slices.Grow(c.titles.text, bytes)
}

// AddIDs adds the ids of the next nodes. It stops at the first that is empty or was there before, with an error that
// wraps ErrEmptyID or ErrDuplicateNode; then the columns are of no use.
func (c *NodeColumns) AddIDs(ids []string) error {
	const together = 32
	var hashes [together]uint32
	for len(ids) > 0 {
		batch := ids[:min(together, len(ids))]
		if n := len(c.ids.end) + len(batch); n > math.MaxInt32 {
			return fmt.Errorf("%w: a graph has at most %d nodes; take a subgraph", ErrTooLarge, math.MaxInt32)
		} else if 4*n > 3*len(c.index.slots) {
			c.index.reserve(n)
		}
		// Slots lie far apart in memory, so those of a batch are fetched side by side before each is used. No node
		// is negative: what is fetched is used below so that the fetching is not optimised away.
		fetched := int32(0)
		for k, id := range batch {
			hashes[k] = c.index.hash(id)
			fetched |= c.index.slots[c.index.first(hashes[k])].node
		}
		for k, id := range batch {
			i := int32(len(c.ids.end))
			if id == "" {
				return fmt.Errorf("node number %d: %w; give every node an id", i+1, ErrEmptyID)
			}
			if err := c.ids.fits(id); err != nil {
				return fmt.Errorf("node %q: %w", id, err)
			}
			table := c.ids.table()
			if fetched < 0 || !c.index.addHashed(hashes[k], id, i, &table) {
				return fmt.Errorf("node %q: %w; merge its rows or give it another id", id, ErrDuplicateNode)
			}
			c.ids.add(id)
		}
		ids = ids[len(batch):]
	}
	return nil
}

// AddTitles adds the titles of the next nodes, empty where there is none.
func (c *NodeColumns) AddTitles(titles []string) error {
	for _, title := range titles {
		if err := c.titles.fits(title); err != nil {
			return fmt.Errorf("title %q: %w", title, err)
		}
		c.titled = c.titled || title != ""
		c.titles.add(title)
	}
	return nil
}

// AddFields adds the fields of the next nodes, by the index that Builder.AddField gave them.
func (c *NodeColumns) AddFields(fields []uint16) { c.fields = append(c.fields, fields...) }

// AddTimes adds the times of the next nodes, in seconds from 1970; NoTime where it is unknown.
func (c *NodeColumns) AddTimes(seconds []int64) {
	for _, s := range seconds {
		c.timed = c.timed || s != NoTime
	}
	c.times = append(c.times, seconds...)
}

// AddRoles adds the roles of the next nodes.
func (c *NodeColumns) AddRoles(roles []Role) { c.roles = append(c.roles, roles...) }

// AddColumns adds nodes by their columns to a Builder that has no nodes yet; it keeps them, so that they must not be
// used any more. An error has added nothing.
func (b *Builder) AddColumns(c *NodeColumns) error {
	n := len(c.ids.end)
	switch {
	case b.built:
		return fmt.Errorf("%w; make a new Builder", ErrBuilt)
	case len(b.fields) > 0:
		return fmt.Errorf("columns for a Builder that has nodes: %w; use AddNode", ErrShape)
	case len(c.titles.end) != 0 && len(c.titles.end) != n, len(c.fields) != 0 && len(c.fields) != n,
		len(c.times) != 0 && len(c.times) != n, len(c.roles) != 0 && len(c.roles) != n:
		return fmt.Errorf("%d ids, %d titles, %d fields, %d times and %d roles: %w; give every column an element per "+
			"node", n, len(c.titles.end), len(c.fields), len(c.times), len(c.roles), ErrShape)
	}
	b.addFieldName(unknownFieldName)
	for k, f := range c.fields {
		if int(f) >= len(b.fieldNames) {
			table := c.ids.table()
			return fmt.Errorf("node %q: %w: field %d of %d; add it with AddField first", table.at(int32(k)),
				ErrShape, f, len(b.fieldNames))
		}
	}
	b.ids, b.index = c.ids, c.index
	if b.fields = c.fields; b.fields == nil {
		b.fields = make([]uint16, n)
	}
	if c.titled {
		b.titles = c.titles
	}
	if c.timed {
		b.times = c.times
	}
	b.roles = c.roles
	*c = NodeColumns{}
	return nil
}
