package graph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestColumnsAreNodes builds random graphs node by node and by columns, and finds no difference.
func TestColumnsAreNodes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := r.IntN(300)
		var one, all Builder
		var c NodeColumns
		if seed%2 == 0 {
			c.GrowIDs(n/2, n)
			c.GrowTitles(n, 5)
		}
		titled, timed, fielded := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
		var ids, titles []string
		var times []int64
		var fields []uint16
		for i := range n {
			node := Node{ID: fmt.Sprint("node ", r.IntN(1<<30), "-", i)}
			if titled && r.IntN(3) > 0 {
				node.Title = fmt.Sprint("title ", i)
			}
			seconds := int64(NoTime)
			if timed && r.IntN(3) > 0 {
				seconds = r.Int64N(1 << 32)
				node.Time = time.Unix(seconds, 0)
			}
			field := UnknownField
			if fielded && r.IntN(3) > 0 {
				node.Field = fmt.Sprint("field ", r.IntN(5))
				var err error
				field, err = all.AddField(node.Field)
				must(t, err)
			}
			_, err := one.AddNode(node)
			must(t, err)
			ids, titles, times, fields = append(ids, node.ID), append(titles, node.Title), append(times, seconds),
				append(fields, field)
		}
		for len(ids) > 0 {
			k := 1 + r.IntN(len(ids))
			must(t, c.AddIDs(ids[:k]))
			ids = ids[k:]
		}
		must(t, c.AddTitles(titles))
		c.AddTimes(times)
		if fielded {
			c.AddFields(fields)
		}
		must(t, all.AddColumns(&c))
		// Nodes may follow.
		for _, b := range []*Builder{&one, &all} {
			_, err := b.AddNode(Node{ID: "last", Title: "The last", Field: "another"})
			must(t, err)
			if n > 0 {
				must(t, b.AddLinkIndex(int32(n), 0))
			}
		}
		g, report, err := one.Build()
		must(t, err)
		h, other, err := all.Build()
		must(t, err)
		if report != other {
			t.Fatalf("seed %d: %+v by columns, %+v node by node", seed, other, report)
		}
		for i := range int32(g.Len()) {
			gt, gk := g.Time(i)
			ht, hk := h.Time(i)
			j, known := h.Index(g.ID(i))
			if h.ID(i) != g.ID(i) || h.Title(i) != g.Title(i) || h.FieldName(h.Field(i)) != g.FieldName(g.Field(i)) ||
				gk != hk || !gt.Equal(ht) || !known || j != i {
				t.Fatalf("seed %d: node %d differs", seed, i)
			}
		}
	}
}

func TestBadColumns(t *testing.T) {
	t.Parallel()
	var c NodeColumns
	if err := c.AddIDs([]string{"a", "b", "a"}); !errors.Is(err, ErrDuplicateNode) {
		t.Errorf("an id twice: %v", err)
	}
	c = NodeColumns{}
	if err := c.AddIDs([]string{"a", ""}); !errors.Is(err, ErrEmptyID) {
		t.Errorf("no id: %v", err)
	}
	c = NodeColumns{}
	must(t, c.AddIDs([]string{"a", "b"}))
	must(t, c.AddTitles([]string{"A"}))
	var b Builder
	if err := b.AddColumns(&c); !errors.Is(err, ErrShape) {
		t.Errorf("too few titles: %v", err)
	}
	must(t, c.AddTitles([]string{"B"}))
	c.AddFields([]uint16{0, 1})
	if err := b.AddColumns(&c); !errors.Is(err, ErrShape) {
		t.Errorf("a field that there is not: %v", err)
	}
	_, err := b.AddField("x")
	must(t, err)
	must(t, b.AddColumns(&c))
	var more NodeColumns
	must(t, more.AddIDs([]string{"c"}))
	if err := b.AddColumns(&more); !errors.Is(err, ErrShape) {
		t.Errorf("columns on top of nodes: %v", err)
	}
}
