package sample

import (
	"context"
	"encoding/json"
	"fmt"

	"unseen/encode"
	"unseen/graph"
	"unseen/hint"
	"unseen/model"
)

// Origin says what a model was fitted to: which files, which fields and which plan. A model file keeps it, so that the
// same pairs can be held out again, and a model is not used with nodes that it does not know.
type Origin struct {
	// Files are the SHA-256 of each file by name, as Checksums of a dataset or of its manifest returns them. A model
	// without them is compared with a dataset by its pairs, which are all sampled again.
	Files  map[string]string `json:"files,omitempty"`
	Fields FieldsBy          `json:"fields,omitzero"`
	Plan   Plan              `json:"drawing"` // the key of model files since their first version
}

// FieldsBy says where fields come from. Its zero value takes those that the nodes have.
type FieldsBy struct {
	// Kind is "" as given, "vectors" by k-means, "links" by communities of training links, and for nodes without a
	// field "activity" by the number of training links or "factors" by whom these are with, sources and targets apart.
	Kind  string `json:"kind,omitempty"`
	Count int    `json:"count,omitempty"` // how many; of communities: the fewest nodes of one
	Seed  uint64 `json:"seed,omitempty"`
}

// String names the way, as "vectors:19".
func (f FieldsBy) String() string {
	if f.Kind == "" {
		return "as given"
	}
	return fmt.Sprintf("%s:%d", f.Kind, f.Count)
}

// WithFields returns the graph with the fields that are learned by. Of the threads 0 means all processors; results do
// not depend on it.
func (o Origin) WithFields(ctx context.Context, g *graph.Graph, threads int) (found *graph.Graph, err error) {
	switch o.Fields.Kind {
	case "":
		return g, nil
	case "vectors":
		if g.Vectors() == nil {
			return nil, hint.Wrap(fmt.Errorf("%w: fields by vectors of nodes without vectors", ErrData),
				"encode their texts first")
		}
		found, _, err = g.FieldsByVectors(ctx, graph.Clustering{Fields: o.Fields.Count, Seed: o.Fields.Seed,
			Threads: threads})
	case "links":
		split, _, fault := o.Plan.split(g)
		if fault != nil {
			return nil, fault
		}
		found, _, err = g.FieldsByLinks(ctx, graph.Communities{Split: split, MinSize: o.Fields.Count, JoinSmall: true,
			Seed: o.Fields.Seed})
	case "activity", "factors":
		split, _, fault := o.Plan.split(g)
		if fault != nil {
			return nil, fault
		}
		trained := ofTraining((&Prepared{Graph: g, Split: split}).LinkGraph(graph.Train), split)
		if o.Fields.Kind == "activity" {
			return g.FieldsByActivity(trained, o.Fields.Count)
		}
		return o.Fields.byFactors(ctx, g, trained, threads)
	default:
		return nil, hint.Wrap(fmt.Errorf("%w: unknown way to find fields %q", ErrSetting, o.Fields.Kind),
			"set %v to vectors, links, activity or factors, or to nothing", hint.Setting("fieldsBy"))
	}
	return found, err
}

// byFactors finds factors of the training links in which what is not linked counts as irrelevant, one a cluster, and
// groups the nodes by them.
func (f FieldsBy) byFactors(ctx context.Context, g, trained *graph.Graph, threads int) (*graph.Graph, error) {
	if trained.LinkCount() == 0 {
		return nil, hint.Wrap(fmt.Errorf("%w: fields by factors of nodes without training links", ErrData),
			"set %v to vectors, or to nothing", hint.Setting("fieldsBy"))
	}
	sources, targets := g.Sources(), g.Targets()
	column := make([]int32, g.Len())
	for k, j := range targets {
		column[j] = int32(k)
	}
	links := encode.Incidence{Starts: []int{0}, Width: len(targets)}
	for _, i := range sources {
		for _, j := range trained.Out(i) {
			links.Columns = append(links.Columns, column[j])
		}
		links.Starts = append(links.Starts, len(links.Columns))
	}
	found, err := links.Factor(ctx, encode.Settings{Dim: min(f.Count, mostFactors), Seed: f.Seed, Threads: threads})
	if err != nil {
		return nil, err
	}
	factors, err := graph.NewVectors(g.Len(), found.Dim)
	if err != nil {
		return nil, err
	}
	defer factors.Close()
	for k, j := range targets {
		if err := factors.Set(j, found.Columns[k*found.Dim:][:found.Dim]); err != nil {
			return nil, err
		}
	}
	for k, i := range sources { // those that are targets too are grouped as sources
		if err := factors.Set(i, found.Rows[k*found.Dim:][:found.Dim]); err != nil {
			return nil, err
		}
	}
	return g.FieldsByFactors(ctx, factors, graph.Clustering{Fields: f.Count, Seed: f.Seed, Threads: threads})
}

// mostFactors is how many factors nodes are grouped by at most.
const mostFactors = 32

// OriginOf returns what a model says it was fitted to, and false if it does not say.
func OriginOf(m model.Model) (Origin, bool, error) {
	var o Origin
	if len(m.Data) == 0 {
		return o, false, nil
	}
	if err := json.Unmarshal(m.Data, &o); err != nil {
		return o, false, fmt.Errorf("%w: what the model was fitted to: %w", ErrData, err)
	}
	return o, true, nil
}
