package shards

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"

	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// Errors of this package wrap one of these. On a cluster only their words arrive.
var (
	ErrMissing = errors.New("shards: a file is missing")
	ErrDamaged = errors.New("shards: a file is damaged")
	ErrUnread  = errors.New("shards: a file cannot be read")
	ErrVersion = errors.New("shards: another version")
	ErrOther   = errors.New("shards: of other data")
	ErrContent = errors.New("shards: cannot be stored")
	ErrSetting = errors.New("shards: cannot be made")
)

// The format that this program writes.
const (
	ManifestFile = "shards.json"
	Format       = "unseen-shards"
	Version      = 1
)

// MostInBlock is how many nodes a block has at most: what a worker keeps of each while it reads a shard is 4 bytes.
const MostInBlock = 1 << 24

const mostDim = 1 << 16 // of vectors

// FileSum is by what a file is known.
type FileSum struct {
	Name   string `json:"name"` // below the root
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// NodeBlock is nodes in a row.
type NodeBlock struct {
	First   int     `json:"first"` // number of the first
	Nodes   int     `json:"nodes"`
	Table   FileSum `json:"table"`            // ids and fields
	Vectors FileSum `json:"vectors,omitzero"` // .npy; none where the dimension is 0
}

// Shard is pairs, or links, from one block of nodes to one block.
type Shard struct {
	Source int     `json:"source"` // blocks
	Target int     `json:"target"`
	Pairs  int     `json:"pairs"`
	File   FileSum `json:"file"`
}

// Manifest is shards.json.
type Manifest struct {
	Format     string        `json:"format"`
	Version    int           `json:"version"`
	Nodes      int           `json:"nodes"`
	Links      int64         `json:"links"`
	Dim        int           `json:"dim"`    // of the vectors; 0: there are none
	Fields     []string      `json:"fields"` // names by index; 0 is the field of nodes without one
	Blocks     []NodeBlock   `json:"blocks"`
	LinkShards []Shard       `json:"linkShards"`
	Train      []Shard       `json:"train"`
	Test       []Shard       `json:"test"`
	Extent     fit.Extent    `json:"extent"`          // of the training pairs
	Data       sample.Origin `json:"data"`            // which data they are and how they were drawn
	Roles      []RoleRun     `json:"roles,omitempty"` // nil: every node is source and target
	// Columns are what the tables of nodes have besides ids and fields: PopularityColumn, AgeColumn, OrderColumn.
	Columns []string `json:"columns,omitempty"`
	Echo    float64  `json:"echo,omitempty"` // of sample.Problem
	// Rates says that some pairs are known by clicks, the rates of which were learned.
	Rates bool `json:"rates,omitempty"`
}

// What the tables of nodes may have; see model.Nodes. The order is the rank of a node in that of the graph, where
// targets come before their sources.
const (
	PopularityColumn = "popularity"
	AgeColumn        = "age"
	OrderColumn      = "order"
)

// RoleRun is nodes in a row that have one role, up to the next run.
type RoleRun struct {
	First int    `json:"first"`
	Role  string `json:"role"` // as graph.ParseRole reads it
}

// rolesOf returns the runs of a graph.
func rolesOf(g *graph.Graph) (runs []RoleRun) {
	if !g.TwoSided() {
		return nil
	}
	for i := range int32(g.Len()) {
		if r := g.Role(i).String(); len(runs) == 0 || runs[len(runs)-1].Role != r {
			runs = append(runs, RoleRun{int(i), r})
		}
	}
	return runs
}

// PairCount returns the number of ordered pairs of a source and another node that is a target.
func (m *Manifest) PairCount() int64 {
	n, l := int64(m.Nodes), m.Layout()
	if l.Roles == nil {
		return n * (n - 1)
	}
	var sources, targets, both int64
	for k, run := range l.Roles {
		end := n
		if k+1 < len(l.Roles) {
			end = int64(l.Roles[k+1].First)
		}
		nodes := end - int64(run.First)
		switch l.Role(int32(run.First)) {
		case graph.SourceOnly:
			sources += nodes
		case graph.TargetOnly:
			targets += nodes
		default:
			sources, targets, both = sources+nodes, targets+nodes, both+nodes
		}
	}
	return sources*targets - both
}

// Checksum names the data: it covers every file.
func (m *Manifest) Checksum() string {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers and lists of them
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Shape returns nodes without content, for models of which only the parameters are wanted.
func (m *Manifest) Shape() (model.Nodes, error) {
	l := m.Layout()
	vectors, err := l.NewVectors(1)
	if err != nil {
		return model.Nodes{}, err
	}
	n := model.Nodes{Vectors: vectors, Fields: make([]uint16, 1), FieldCount: len(m.Fields), FieldNames: m.Fields}
	l.Fill(&n)
	return n, nil
}

// Manifest reads shards.json.
func (s Location) Manifest(ctx context.Context) (*Manifest, error) {
	text, err := s.ReadAll(ctx, ManifestFile)
	if err != nil {
		return nil, fmt.Errorf("%w; make shards with unseen-beam import", err)
	}
	var m Manifest
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; make the shards again", ErrDamaged, s.Path(ManifestFile), err)
	}
	switch {
	case m.Format != Format:
		return nil, fmt.Errorf("%w: %s is a file of another kind (%q)", ErrDamaged, s.Path(ManifestFile), m.Format)
	case m.Version != Version:
		return nil, fmt.Errorf("%w: %s has format version %d and this program knows %d; use the program that "+
			"wrote it, or make the shards again", ErrVersion, s.Path(ManifestFile), m.Version, Version)
	}
	return &m, m.validate(s.Path(ManifestFile))
}

func (m *Manifest) validate(where string) error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s: %s; make the shards again", ErrDamaged, where, fmt.Sprintf(format, a...))
	}
	next, files := 0, []FileSum(nil)
	for k, b := range m.Blocks {
		if b.First != next || b.Nodes < 1 || b.Nodes > MostInBlock || b.Nodes > math.MaxInt32-next {
			return fail("block %d has %d nodes from %d, where %d comes next and %d is the most", k, b.Nodes, b.First,
				next, MostInBlock)
		}
		next += b.Nodes
		files = append(files, b.Table)
		switch {
		case m.Dim > 0:
			files = append(files, b.Vectors)
		case b.Vectors != FileSum{}:
			return fail("block %d has the vectors %q, of dimension %d", k, b.Vectors.Name, m.Dim)
		}
	}
	if next != m.Nodes || m.Dim < 0 || m.Dim > mostDim || len(m.Fields) < 1 ||
		len(m.Fields) > math.MaxUint16 {
		return fail("%d nodes in blocks of %d, vectors of dimension %d, %d fields", m.Nodes, next, m.Dim, len(m.Fields))
	}
	for name, list := range map[string][]Shard{"links": m.LinkShards, "training": m.Train, "test": m.Test} {
		for k, s := range list {
			if s.Source < 0 || s.Source >= len(m.Blocks) || s.Target < 0 || s.Target >= len(m.Blocks) || s.Pairs < 0 {
				return fail("shard %d of the %s pairs goes from block %d to %d of %d", k, name, s.Source, s.Target,
					len(m.Blocks))
			}
			files = append(files, s.File)
		}
	}
	for _, f := range files {
		if f.Name != path.Base(f.Name) || !filepath.IsLocal(f.Name) || f.Bytes < 0 {
			return fail("the file %q of %d bytes is none beside it", f.Name, f.Bytes)
		}
	}
	for k, r := range m.Roles {
		if _, err := graph.ParseRole(r.Role); err != nil || r.First >= m.Nodes ||
			k == 0 && r.First != 0 || k > 0 && r.First <= m.Roles[k-1].First {
			return fail("run %d of the roles is %q from node %d", k, r.Role, r.First)
		}
	}
	return nil
}
