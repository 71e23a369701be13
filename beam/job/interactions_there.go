package job

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"unseen/beam/shards"
	"unseen/graph"
	"unseen/sample"
)

// Where people or items have times, pairs are left out of training whose item came after the person was last seen, as
// graph.Graph.Availability and sample.Plan.Available have it.

// orderName is the file of all items in the order in which they came.
const orderName = "order.gob"

func thereName(block int) string { return fmt.Sprintf("there-%05d.gob", block) }

// itemOrder is all items by when they came, and then by number.
type itemOrder struct {
	Item, Place []int32 // the item at a place, and the place of an item
	When        []int64 // by place
}

// limited reports whether only pairs are drawn whose item was there.
func (t *tablePlan) limited() bool { return t.Settings.Plan.Available && t.Draw.Subset == graph.Train }

// earlier is the earlier of two times, graph.NoTime where neither is known.
func earlier(a, b int64) int64 {
	if a == graph.NoTime || b != graph.NoTime && b < a {
		return b
	}
	return a
}

// lastSeen says until when each of a block's people was there, by training links.
func (b *nodeBlock) lastSeen(subsets []graph.Subset, first, people int) []int64 {
	const always = math.MaxInt64
	last, linked := make([]int64, people), make([]bool, people)
	for k, subset := range subsets {
		if subset != graph.Train {
			continue
		}
		when := int64(always)
		if t := b.Seconds[k]; t != graph.NoTime {
			when = t + int64(sample.ActivitySlack/time.Second)
		}
		i := int(b.Source[k]) - first
		if !linked[i] {
			linked[i], last[i] = true, when
		}
		last[i] = max(last[i], when)
	}
	for i := range last {
		if !linked[i] {
			last[i] = always
		}
	}
	return last
}

// reached says how many items came up to each of some times.
func (o *itemOrder) reached(times []int64) []int {
	out := make([]int, len(times))
	for k, t := range times {
		out[k], _ = slices.BinarySearchFunc(o.When, t, func(when, t int64) int {
			if when <= t {
				return -1
			}
			return 1
		})
	}
	return out
}

// orderItems puts all items into order, and counts the pairs of every block whose item was there. The order takes 16
// bytes per item, also in every worker.
func (p *plan) orderItems(ctx context.Context, runner Runner, m *shards.Manifest) error {
	t := p.Tables
	var order itemOrder
	var came []int64 // by item
	for b, block := range m.Blocks {
		if block.First+block.Nodes <= t.People {
			continue
		}
		var there []int64
		if err := p.recall(ctx, thereName(b), &there); err != nil {
			return err
		}
		came = append(came, there[max(t.People-block.First, 0):]...)
	}
	for k := range came {
		order.Item = append(order.Item, int32(k))
	}
	slices.SortStableFunc(order.Item, func(a, b int32) int { return cmp.Compare(came[a], came[b]) })
	order.Place = make([]int32, len(came))
	for place, item := range order.Item {
		order.Place[item] = int32(place)
		order.When = append(order.When, came[item])
	}
	if err := p.keep(ctx, orderName, order); err != nil {
		return err
	}
	found, err := collect[drawnBlock](ctx, runner, p, p.sourceTasks(m), "reach")
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b drawnBlock) int { return a.Block - b.Block })
	t.Starts = []int64{0}
	for k, one := range found {
		t.Starts = append(t.Starts, t.Starts[k]+one.Pairs)
	}
	return nil
}

// reach counts the pairs of a block's people whose item was there.
func (p *plan) reach(ctx context.Context, t *task, emit func(int, []byte)) error {
	var kept nodeBlock
	if err := p.recall(ctx, blockName(t.Source), &kept); err != nil {
		return err
	}
	var order itemOrder
	if err := p.recall(ctx, orderName, &order); err != nil {
		return err
	}
	b, out := p.Layout.Blocks[t.Source], drawnBlock{Block: t.Source}
	last := kept.lastSeen(p.subsetsOf(t.Source, &kept), b.First, min(b.Nodes, p.Tables.People-b.First))
	for _, n := range order.reached(last) {
		out.Pairs += int64(n)
	}
	return emitDocument(emit, out)
}
