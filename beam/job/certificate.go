package job

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"unseen/beam/shards"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// MostPlanted is how many nodes truths are planted on at most: the driver holds their vectors.
const MostPlanted = 1 << 16

// Certify plants truths on the nodes of the shards, fits the settings' method to each and compares, as evaluate.Certify
// does on one machine and with the same result. Of more nodes than most (0 means MostPlanted) some are drawn, as many
// of every role: which ones depends on their numbers, their roles and the seed alone. A planted truth has links of its
// own, so that vectors, fields and ages are all that it needs of the shards, by one job; the rest is the driver's work.
func (e *Cluster) Certify(ctx context.Context, s evaluate.CertificateSettings, most int) (*evaluate.Certificate,
	error) {
	if most == 0 {
		most = MostPlanted
	}
	if most < 2 || most > MostPlanted {
		return nil, fmt.Errorf("%w: a certificate by %d nodes; give from 2 to %d", fit.ErrSetting, most, MostPlanted)
	}
	nodes, err := e.fetchNodes(ctx, e.drawNodes(most, s.Seed))
	if err != nil {
		return nil, err
	}
	defer nodes.Vectors.Close()
	g, err := e.graphOf(nodes)
	if err != nil {
		return nil, err
	}
	s.Ages = nodes.Age
	return evaluate.Certify(ctx, g, s)
}

// drawNodes returns all nodes, or as many of every role, ascending.
func (e *Cluster) drawNodes(most int, seed uint64) (all []int32) {
	m, layout := e.Manifest, e.Manifest.Layout()
	if m.Nodes <= most {
		for i := range int32(m.Nodes) {
			all = append(all, i)
		}
		return all
	}
	ends, drawn := []int{}, map[graph.Role]*nodeDraw{}
	for k := range m.Roles {
		if k > 0 {
			ends = append(ends, m.Roles[k].First)
		}
		drawn[layout.Role(int32(m.Roles[k].First))] = nil
	}
	next, share := int32(0), most/max(len(drawn), 1)
	for _, end := range append(ends, m.Nodes) {
		d := drawn[layout.Role(next)]
		if d == nil {
			d = &nodeDraw{most: share, seed: seed, below: 1}
			drawn[layout.Role(next)] = d
		}
		for ; int(next) < end; next++ {
			d.add(next)
		}
	}
	for _, d := range drawn {
		all = append(all, drawnOf(d.nodes, share, seed)...)
	}
	slices.Sort(all)
	return all
}

// nodeDraw draws nodes that come one by one, and keeps few of the others.
type nodeDraw struct {
	most  int
	seed  uint64
	nodes []int32
	below float64 // what those that may still be drawn are drawn by
}

func (d *nodeDraw) add(i int32) {
	if evaluate.DrawnBy(d.seed, i) >= d.below {
		return
	}
	if d.nodes = append(d.nodes, i); len(d.nodes) < 4*d.most {
		return
	}
	d.nodes, d.below = drawnOf(d.nodes, d.most, d.seed), 0
	for _, i := range d.nodes {
		d.below = max(d.below, evaluate.DrawnBy(d.seed, i))
	}
}

// fetchNodes returns some nodes, ascending, with their vectors: one job, which reads the blocks that they are in.
func (e *Cluster) fetchNodes(ctx context.Context, numbers []int32) (model.Nodes, error) {
	p, layout := e.plan("nodes"), e.Manifest.Layout()
	p.Piece = &piecePlan{Kind: "nodes", Nodes: packed(numbers)}
	tasks := slices.DeleteFunc(blockTasks(e.Manifest), func(t task) bool {
		return len(within(numbers, layout.Blocks[t.Source])) == 0
	})
	var all []*drawnPiece
	err := e.pieces(ctx, p, tasks, func(content []byte) error {
		part := new(drawnPiece)
		all = append(all, part)
		return unpack(content, part)
	})
	if err != nil {
		return model.Nodes{}, err
	}
	return e.nodesOf(all)
}

// within returns those of some nodes, ascending, that are in a block.
func within(numbers []int32, b shards.NodeBlock) []int32 {
	first, _ := slices.BinarySearch(numbers, int32(b.First))
	end, _ := slices.BinarySearch(numbers, int32(b.First+b.Nodes))
	return numbers[first:end]
}

// someNodes returns the wanted nodes of a block.
func (p *plan) someNodes(ctx context.Context, t *task) (*drawnPiece, error) {
	numbers := within(unpacked[int32](p.Piece.Nodes), p.Layout.Blocks[t.Source])
	n, err := p.shards().Gather(ctx, p.Layout, numbers, p.Threads)
	if err != nil {
		return nil, err
	}
	defer n.Vectors.Close()
	return pieceOf(n, sample.Indices(len(numbers), func(int) bool { return true })), nil
}

// graphOf returns a graph of nodes without links. Fields have the numbers that they have in the shards.
func (e *Cluster) graphOf(n model.Nodes) (*graph.Graph, error) {
	var b graph.Builder
	for _, name := range n.FieldNames {
		if _, err := b.AddField(name); err != nil {
			return nil, err
		}
	}
	layout := e.Manifest.Layout()
	for i, number := range n.Numbers {
		if _, err := b.AddNode(graph.Node{ID: strconv.Itoa(int(number)), Field: n.FieldNames[n.Fields[i]],
			Role: layout.Role(number)}); err != nil {
			return nil, err
		}
	}
	g, _, err := b.Build()
	if err != nil {
		return nil, err
	}
	if n.Vectors == nil {
		return g, nil
	}
	return g.WithVectors(n.Vectors)
}
