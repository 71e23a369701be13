package job

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/model"
)

// plan is what all workers of a job share.
type plan struct {
	Version string             `json:"version"`
	Root    string             `json:"root"`
	Layout  *shards.NodeLayout `json:"layout"`
	Result  string             `json:"result"` // where results go: a root
	Name    string             `json:"name"`   // of the result's file

	Threads  int          `json:"threads"`  // that a task may use
	Settings fit.Settings `json:"settings"` // of a gradient
	Extent   fit.Extent   `json:"extent"`
	Params   []byte       `json:"params,omitempty"` // float32, little-endian
	Gradient bool         `json:"gradient,omitempty"`

	Model []byte  `json:"model,omitempty"` // a model file
	Floor float64 `json:"floor,omitempty"` // of sums over all pairs

	Import *importPlan `json:"import,omitempty"`
	Tables *tablePlan  `json:"tables,omitempty"` // of an import of interactions

	K      int        `json:"k,omitempty"` // of lists
	Linked bool       `json:"linked,omitempty"`
	Index  *indexPlan `json:"index,omitempty"` // by which lists are made; nil: exactly

	Scan *scanPlan `json:"scan,omitempty"`
	Held *heldPlan `json:"held,omitempty"`

	Piece      *piecePlan      `json:"piece,omitempty"`
	Likelihood *likelihoodPlan `json:"likelihood,omitempty"`
	Factors    *factorPlan     `json:"factors,omitempty"`
	View       *viewPlan       `json:"view,omitempty"` // of the training pairs; nil means all as they are
	Fan        int             `json:"fan,omitempty"`  // how many sums are added at a time; 0 means mostFan
}

func (p *plan) encode() ([]byte, error) {
	p.Version = Version
	return json.Marshal(p)
}

// decode reads a plan and refuses one that another version made.
func decode(text []byte) (*plan, error) {
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("the plan of the job cannot be read: %w", err)
	}
	if p.Version != Version {
		host, _ := os.Hostname()
		return nil, fmt.Errorf("%w: the worker on %s is unseen-beam %s and the driver %s; give all machines the "+
			"driver's program", shards.ErrVersion, host, Version, p.Version)
	}
	return &p, nil
}

func (p *plan) shards() shards.Location { return shards.Location{Root: p.Root} }

// task is one element: a shard, or two blocks, or some sources, or the pairs of a scan.
type task struct {
	Number int           `json:"number"`
	Shard  *shards.Shard `json:"shard,omitempty"`

	Source int `json:"source"` // blocks
	Target int `json:"target"`
	First  int `json:"first,omitempty"` // sources
	Nodes  int `json:"nodes,omitempty"`

	Links  []shards.Shard  `json:"links,omitempty"`  // links that these are about
	Shards []shards.Shard  `json:"shards,omitempty"` // of pairs
	Path   string          `json:"path,omitempty"`   // of works
	Pairs  *shards.FileSum `json:"pairs,omitempty"`  // of a scan: sources, then targets, as int32
}

// planned is a DoFn with its plan in it. A plan beside the elements is made by a step that ends before the others
// begin: Flink starts and ends workers for it, and Prism asks without end whether it is there while a worker works.
type planned struct {
	Plan []byte `json:"plan"`

	decoded *plan
}

// carried returns the plan for a DoFn.
func (p *plan) carried() (planned, error) {
	text, err := p.encode()
	return planned{Plan: text}, err
}

// plan reads what is carried, once. It returns errUnwanted when nobody waits for the job any more.
func (c *planned) plan(ctx context.Context) (*plan, error) {
	if c.decoded == nil {
		p, err := decode(c.Plan)
		if err != nil {
			return nil, err
		}
		c.decoded = p
	}
	if !(shards.Location{Root: c.decoded.Result}).Exists(ctx, c.decoded.wanted()) {
		return nil, errUnwanted
	}
	return c.decoded, nil
}

// errUnwanted makes a worker leave a task alone; see mark. A driver that is stopped asks the job service to cancel the
// job, but Flink's lets a batch job go on to its end.
var errUnwanted = errors.New("the driver is gone")

// wanted is the name of a file that is there for as long as the driver waits for the job.
func (p *plan) wanted() string { return p.Name + ".wanted" }

// open reads the plan and a task.
func (c *planned) open(ctx context.Context, element []byte) (*plan, *task, error) {
	p, err := c.plan(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := decodeTask(element)
	return p, t, err
}

func decodeTask(element []byte) (*task, error) {
	var t task
	if err := json.Unmarshal(element, &t); err != nil {
		return nil, fmt.Errorf("a task of the job cannot be read: %w", err)
	}
	return &t, nil
}

// model makes the plan's model for nodes.
func (p *plan) model(ctx context.Context, n model.Nodes) (model.Model, error) {
	return p.unpackFor(ctx, p.Model, n)
}

// unpackModel makes a model of the bytes of a file.
func unpackModel(content []byte, n model.Nodes) (model.Model, error) {
	folder, err := os.MkdirTemp("", "unseen-model-")
	if err != nil {
		return model.Model{}, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return model.Model{}, err
	}
	file, err := model.Open(path)
	if err != nil {
		return model.Model{}, err
	}
	return file.Model(n)
}

// predictor makes the models of the plan's model file for nodes.
func (p *plan) predictor(ctx context.Context, n model.Nodes) (engine.Predictor, error) {
	return p.predictorFor(ctx, p.Model, n)
}

// predictorFor makes the models of their bytes.
func (p *plan) predictorFor(ctx context.Context, content []byte, n model.Nodes) (engine.Predictor, error) {
	m, err := p.unpackFor(ctx, content, n)
	if err != nil {
		return engine.Predictor{}, err
	}
	return engine.Predictor{Link: m.Link, LinkParams: m.LinkParams, Propensity: m.Propensity,
		PropensityParams: m.PropensityParams}, nil
}

// packModel returns a model as the bytes of a file, without what only the driver needs.
func packModel(m model.Model) ([]byte, error) {
	m.Extra, m.Findings, m.Certificate = nil, nil, nil
	file, err := m.File()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "unseen-model-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")
	if err := file.Save(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// numbered is some float64 numbers with the number of the task that they come from: what workers emit.
type numbered struct {
	Number int
	Pairs  int64
	Values []float64
}

func (n numbered) encode() []byte {
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, 16+8*len(n.Values)), uint64(n.Number))
	out = binary.LittleEndian.AppendUint64(out, uint64(n.Pairs))
	for _, v := range n.Values {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}

func decodeNumbered(b []byte) (numbered, error) {
	if len(b) < 16 || len(b)%8 != 0 {
		return numbered{}, fmt.Errorf("a sum of %d bytes arrived damaged", len(b))
	}
	n := numbered{Number: int(binary.LittleEndian.Uint64(b)), Pairs: int64(binary.LittleEndian.Uint64(b[8:])),
		Values: make([]float64, (len(b)-16)/8)}
	for k := range n.Values {
		n.Values[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[16+8*k:]))
	}
	return n, nil
}

// packed returns numbers as bytes, little-endian.
func packed[T int32 | float32](values []T) []byte {
	out, err := binary.Append(make([]byte, 0, 4*len(values)), binary.LittleEndian, values)
	if err != nil {
		panic(err) // the numbers have a fixed size
	}
	return out
}

// unpacked is the way back.
func unpacked[T int32 | float32](b []byte) []T {
	out := make([]T, len(b)/4)
	if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
		panic(err) // as above
	}
	return out
}

// result reads what a job has written, and removes it.
func result(ctx context.Context, where shards.Location, name string) (numbered, error) {
	content, err := where.ReadAll(ctx, name)
	if err != nil {
		return numbered{}, err
	}
	where.Remove(ctx, name)
	return decodeNumbered(content)
}
