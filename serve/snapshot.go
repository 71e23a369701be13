package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"unseen/dataset"
	"unseen/graph"
	"unseen/hint"
	"unseen/network"
)

// baseData is a dataset that models are fitted to: the one of the options, or a copy of it with the changes of the
// catalogue up to one of them. A node has the same place in every one that has it.
type baseData struct {
	*network.Network
	seq   int64           // of the last change that it has; 0: none
	names func() []string // id and title of every node in lower case
}

func newBase(net *network.Network, seq int64) *baseData {
	return &baseData{net, seq, sync.OnceValue(func() []string {
		g := net.Graph()
		names := make([]string, g.Len())
		for i := range names {
			names[i] = strings.ToLower(g.ID(int32(i)) + "\n" + g.Title(int32(i)))
		}
		return names
	})}
}

// datasets are those that models were fitted to, opened when they are needed.
type datasets struct {
	folder string // of the copies, each in a folder with the number of its last change
	mu     sync.Mutex
	open   []*baseData // by their last change; the first is the dataset of the options
}

// newest returns the dataset with the latest changes.
func (d *datasets) newest() *baseData {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open[len(d.open)-1]
}

// copies returns the numbers of the copies, ascending.
func (d *datasets) copies() (out []int64, err error) {
	entries, err := os.ReadDir(d.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if seq, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && seq > 0 && e.IsDir() {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	return out, err
}

// at opens a copy.
func (d *datasets) at(ctx context.Context, seq int64) (*baseData, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.open {
		if b.seq == seq {
			return b, nil
		}
	}
	net, err := network.Open(ctx, filepath.Join(d.folder, strconv.FormatInt(seq, 10)), dataset.OpenOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := net.OpenTexts(); err != nil {
		net.Close()
		return nil, err
	}
	d.open = append(d.open, newBase(net, seq))
	slices.SortFunc(d.open, func(a, b *baseData) int { return int(a.seq - b.seq) })
	return d.open[slices.IndexFunc(d.open, func(b *baseData) bool { return b.seq == seq })], nil
}

func (d *datasets) close() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.open {
		err = errors.Join(err, b.Close())
	}
	return err
}

// model opens a model file with the dataset that it was fitted to, and that dataset.
func (d *datasets) model(ctx context.Context, path string) (*network.Fitted, *baseData, error) {
	copies, err := d.copies()
	if err != nil {
		return nil, nil, err
	}
	slices.Reverse(copies)
	var first error
	for _, seq := range append([]int64{0}, copies...) {
		base, err := d.at(ctx, seq)
		if err != nil {
			return nil, nil, err
		}
		m, err := base.Model(ctx, path)
		if err == nil {
			return m, base, nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, network.ErrModel) {
			break
		}
	}
	return nil, nil, first
}

// trim removes the copies that no registered model was fitted to, but for the newest. Those that are open stay open.
func (d *datasets) trim(models []ModelEntry) error {
	copies, err := d.copies()
	for k, seq := range copies {
		used := slices.ContainsFunc(models, func(e ModelEntry) bool { return e.Catalogue == seq })
		if !used && k < len(copies)-1 {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.folder, strconv.FormatInt(seq, 10))))
		}
	}
	return err
}

// trainingBase returns the dataset with all changes of the catalogue, and makes it if there are new ones.
func (s *Service) trainingBase(ctx context.Context) (*baseData, error) {
	state, newest := s.catalogue.state.Load(), s.datasets.newest()
	if state.seq <= newest.seq {
		return newest, nil
	}
	content, err := s.withChanges(ctx, newest, state)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.datasets.folder, 0o700); err != nil {
		return nil, err
	}
	folder := filepath.Join(s.datasets.folder, strconv.FormatInt(state.seq, 10))
	note := fmt.Sprintf("%s with %d changes of the catalogue", filepath.Base(s.net.Folder()), state.seq)
	if _, err := dataset.Write(ctx, folder, content, dataset.WriteOptions{
		Provenance: dataset.Provenance{Source: note}}); err != nil {
		return nil, hint.Wrap(fmt.Errorf("copying the dataset with the changes of the catalogue: %w", err),
			"free as much space as the dataset takes")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	for _, path := range append(files, folder) {
		err = errors.Join(err, makeOwn(path))
	}
	if err != nil {
		return nil, err
	}
	base, err := s.datasets.at(ctx, state.seq)
	if err == nil {
		s.forgotten.follow(base.Graph())
	}
	return base, err
}

// withChanges is a dataset with the changes that it does not have. Its nodes keep their places, also those that were
// removed, which no training uses; new ones come behind them.
func (s *Service) withChanges(ctx context.Context, base *baseData, state *catalogueState) (dataset.Content, error) {
	content, err := base.Content(ctx)
	if err != nil {
		return content, err
	}
	content.Log = base.Manifest().Log
	g := base.Graph()
	nodes := make([]*catalogueNode, g.Len()) // changed and new ones
	for _, n := range state.sorted() {
		i, known := g.Index(n.ID)
		switch {
		case n.Removed || known && n.seq <= base.seq:
		case known:
			nodes[i] = n
		default:
			nodes = append(nodes, n)
		}
	}
	b := new(graph.Builder)
	for f := 1; f < g.FieldCount(); f++ {
		if _, err := b.AddField(g.FieldName(uint16(f))); err != nil {
			return content, err
		}
	}
	b.Grow(len(nodes))
	index := map[string]int32{}
	for i, n := range nodes {
		node := graph.Node{}
		if n != nil {
			node = graph.Node{ID: n.ID, Field: n.Field, Title: n.Title, Role: n.Role, Time: n.Time}
			index[n.ID] = int32(i)
		} else {
			node = graph.Node{ID: g.ID(int32(i)), Field: g.FieldName(g.Field(int32(i))), Title: g.Title(int32(i)),
				Role: g.Role(int32(i))}
			if t, known := g.Time(int32(i)); known {
				node.Time = t
			}
		}
		if n == nil && s.forgotten.hides(int32(i)) {
			node.Title = ""
		}
		if _, err := b.AddNode(node); err != nil {
			return content, err
		}
	}
	if err := addLinks(b, g, nodes, index); err != nil {
		return content, err
	}
	if content.Graph, _, err = b.Build(); err != nil {
		return content, err
	}
	if g.Vectors() != nil {
		if content.Graph, err = withVectors(content.Graph, g.Vectors(), nodes); err != nil {
			return content, err
		}
	}
	text := content.Text
	content.Text = func(i int32) (string, error) {
		switch {
		case nodes[i] != nil:
			return nodes[i].Text, nil
		case s.forgotten.hides(i):
			return "", nil
		}
		return text(i)
	}
	return content, nil
}

// addLinks adds the links of a graph, and those of changed and new nodes instead where they name any.
func addLinks(b *graph.Builder, g *graph.Graph, nodes []*catalogueNode, index map[string]int32) error {
	find := func(id string) (int32, bool) {
		if i, ok := index[id]; ok {
			return i, true
		}
		return g.Index(id)
	}
	role := func(i int32) graph.Role {
		if nodes[i] != nil {
			return nodes[i].Role
		}
		return g.Role(i)
	}
	for at, n := range nodes {
		i := int32(at)
		if n == nil || n.Links == nil {
			if at >= g.Len() {
				continue
			}
			times := g.OutTimes(i)
			for k, j := range g.Out(i) {
				when := int64(graph.NoTime)
				if times != nil {
					when = times[k]
				}
				if err := b.AddLinkAt(i, j, when); err != nil {
					return err
				}
			}
			continue
		}
		fresh := int64(graph.NoTime)
		if g.HasLinkTimes() && !n.Time.IsZero() {
			fresh = n.Time.Unix()
		}
		for _, id := range n.Links {
			j, ok := find(id)
			if !ok || j == i || role(i) == graph.TargetOnly || role(j) == graph.SourceOnly {
				continue
			}
			when := fresh
			if at < g.Len() {
				if old, ok := linkTime(g, i, j); ok { // the change leaves this link as it is
					when = old
				}
			}
			if err := b.AddLinkAt(i, j, when); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkTime returns when a link of a graph was made, and false of one without a time.
func linkTime(g *graph.Graph, i, j int32) (int64, bool) {
	times := g.OutTimes(i)
	k, linked := slices.BinarySearch(g.Out(i), j)
	if !linked || times == nil || times[k] == graph.NoTime {
		return 0, false
	}
	return times[k], true
}

// withVectors gives a graph the vectors of an older one, and those of changed and new nodes.
func withVectors(g *graph.Graph, old *graph.Vectors, nodes []*catalogueNode) (*graph.Graph, error) {
	allocate := graph.NewVectors
	if old.Half() {
		allocate = graph.NewHalfVectors
	}
	vectors, err := allocate(len(nodes), old.Dim())
	if err != nil {
		return nil, err
	}
	row := make([]float32, old.Dim())
	for i, n := range nodes {
		if n == nil {
			old.Load(row, int32(i))
		} else {
			clear(row[copy(row, n.Vector):])
		}
		if err := vectors.Set(int32(i), row); err != nil {
			return nil, err
		}
	}
	return g.WithTrustedVectors(vectors)
}

// without returns which nodes of a dataset no training uses: those who are forgotten, and those that were removed up
// to a change of the catalogue. nil means none.
func (s *Service) without(base *baseData, upTo int64) []bool {
	g := base.Graph()
	var out []bool
	leave := func(i int32) {
		if out == nil {
			out = make([]bool, g.Len())
		}
		out[i] = true
	}
	for _, i := range s.forgotten.nodes() {
		if int(i) < g.Len() {
			leave(i)
		}
	}
	for id, n := range s.catalogue.state.Load().nodes.All() {
		if i, ok := g.Index(id); ok && n.Removed && n.seq <= upTo {
			leave(i)
		}
	}
	return out
}
