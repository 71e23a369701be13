package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/graph"
	"unseen/model"
)

// OpenModel opens a model file for the shards, without nodes. Factors know every node, so that the driver reads the
// vectors and fields of all for them.
func (e *Cluster) OpenModel(ctx context.Context, path string) (model.Model, error) {
	file, err := model.Open(path)
	if err != nil {
		return model.Model{}, err
	}
	if err := e.haveVectorsFor(file.Metadata[model.KeyLink]); err != nil {
		return model.Model{}, fmt.Errorf("%s does not go with the shards: %w", path, err)
	}
	nodes, err := e.Manifest.Shape()
	if err == nil && !model.NeedsVectors(file.Metadata[model.KeyLink]) {
		nodes, err = e.allNodes(ctx)
	}
	if err != nil {
		return model.Model{}, err
	}
	m, err := file.Model(nodes)
	if err != nil {
		return model.Model{}, fmt.Errorf("%s does not go with the shards: %w", path, err)
	}
	return m, nil
}

// Close removes from the place for results what models have left there for workers.
func (e *Cluster) Close(ctx context.Context) {
	for _, left := range e.models {
		left.Discard(ctx)
	}
	e.models = nil
}

// factorModel is a model of factors without the rows of its nodes, which are in files of their own: workers read those
// that they need.
type factorModel struct {
	Link              string                  `json:"link"`
	LinkOptions       model.LinkOptions       `json:"linkOptions"`
	Propensity        string                  `json:"propensity"`
	PropensityOptions model.PropensityOptions `json:"propensityOptions"`
	Whole             map[string][]byte       `json:"whole"` // parts of both models that are no rows, float32
	Factors           factorPlan              `json:"factors"`
}

// ofFactors is what the bytes of such a model begin with, where those of others are a model file.
var ofFactors = []byte("factors of nodes: ")

// pack returns a model as bytes for workers. The rows of factors go to the place for results.
func (e *Cluster) pack(ctx context.Context, m model.Model) ([]byte, error) {
	if model.NeedsVectors(m.Link.Kind()) {
		return packModel(m)
	}
	link, ok := m.Link.(*model.Factors)
	if !ok || len(m.Members) > 0 || model.MadeFor(m.Link) != e.Manifest.Nodes {
		return nil, fmt.Errorf("%w on a cluster: the link model %s of other nodes than the shards', or with something "+
			"added; evaluate and recommend by it with unseen", engine.ErrUnsupported, m.Link.Kind())
	}
	file, err := m.File()
	if err != nil {
		return nil, err
	}
	out := factorModel{Link: link.Kind(), Propensity: m.Propensity.Kind(), Whole: map[string][]byte{}}
	for key, options := range map[string]any{model.KeyLinkOptions: &out.LinkOptions,
		model.KeyPropensityOptions: &out.PropensityOptions} {
		if err := json.Unmarshal([]byte(file.Metadata[key]), options); err != nil {
			return nil, fmt.Errorf("the options of the model: %w", err)
		}
	}
	params := slices.Concat(m.LinkParams[:link.Size()], m.PropensityParams[:m.Propensity.Size()])
	place := 0
	for _, part := range slices.Concat(link.Parts(), partsOf(m.Propensity)) {
		if !byNode(part.Name) {
			out.Whole[part.Name] = packed(params[place:][:part.Size()])
		}
		place += part.Size()
	}
	state, err := engine.NewFactorState(link, params)
	if err != nil {
		return nil, err
	}
	source, target, _ := link.Sides(params)
	for side, of := range []model.FactorSide{source, target} {
		for row := range of.Effects {
			copy(state.Row(engine.Side(side), row), of.Factors[row*link.Rank():][:link.Rank()])
		}
	}
	work := shards.Location{Root: e.Work.Path(unique("model"))}
	e.models = append(e.models, work)
	moves := &clusterMoves{cluster: e, o: &engine.Objective{Link: link, Propensity: m.Propensity}, link: link,
		layout: e.Manifest.Layout()}
	moves.place()
	out.Factors = moves.describe(work)
	if err := moves.writeRows(ctx, work, &out.Factors, state); err != nil {
		return nil, err
	}
	text, err := json.Marshal(out)
	return append(slices.Clone(ofFactors), text...), err
}

// byNode reports whether a part of a model with factors has a row for every node.
func byNode(part string) bool {
	return slices.Contains([]string{"u", "v", "b_source", "b_target", string(model.Person), string(model.Item)}, part)
}

// unpackFor makes a model of its bytes for some nodes.
func (p *plan) unpackFor(ctx context.Context, content []byte, n model.Nodes) (model.Model, error) {
	text, is := bytes.CutPrefix(content, ofFactors)
	if !is {
		return unpackModel(content, n)
	}
	var f factorModel
	if err := json.Unmarshal(text, &f); err != nil {
		return model.Model{}, fmt.Errorf("the model of the job cannot be read: %w", err)
	}
	return f.part(ctx, p.Layout, n)
}

// Part returns a model of the shards for some of their nodes, which Nodes.Numbers names.
func (e *Cluster) Part(ctx context.Context, m model.Model, n model.Nodes) (model.Model, error) {
	content, err := e.pack(ctx, m)
	if err != nil {
		return m, err
	}
	part, err := (&plan{Layout: e.Manifest.Layout()}).unpackFor(ctx, content, n)
	if err != nil {
		return m, err
	}
	m.Link, m.LinkParams, m.Propensity, m.PropensityParams = part.Link, part.LinkParams, part.Propensity,
		part.PropensityParams
	return m, nil
}

// part makes the model for some nodes. Nodes without a role have no factors, and no effects.
func (f *factorModel) part(ctx context.Context, l *shards.NodeLayout, n model.Nodes) (model.Model, error) {
	var out model.Model
	n.Sources, n.Targets = nil, nil
	link, err := model.NewLink(f.Link, n, f.LinkOptions)
	if err == nil {
		out.Propensity, err = model.NewPropensity(f.Propensity, n, f.PropensityOptions)
	}
	if err != nil {
		return out, err
	}
	out.Link = link
	parts, params := map[string][]float32{}, make([]float32, link.Size()+out.Propensity.Size())
	place := 0
	for _, part := range slices.Concat(link.(model.Layout).Parts(), partsOf(out.Propensity)) {
		own := params[place:][:part.Size()]
		place += part.Size()
		if parts[part.Name] = own; byNode(part.Name) {
			continue
		}
		if len(f.Whole[part.Name]) != 4*len(own) {
			return out, fmt.Errorf("%w: %d bytes of the part %s, of %d numbers", engine.ErrShape,
				len(f.Whole[part.Name]), part.Name, len(own))
		}
		copy(own, unpacked[float32](f.Whole[part.Name]))
	}
	for side, names := range [][3]string{{"u", "b_source", string(model.Person)},
		{"v", "b_target", string(model.Item)}} {
		if err := f.fill(ctx, l, engine.Side(side), n.Numbers, func(k int, row []float32, w rowLayout) {
			copy(parts[names[0]][k*w.rank:][:w.rank], row[w.factors():])
			if parts[names[1]][k] = row[1]; w.exposed {
				parts[names[2]][k] = row[2]
			}
		}); err != nil {
			return out, err
		}
	}
	out.LinkParams, out.PropensityParams = params[:link.Size()], params[link.Size():]
	return out, nil
}

// fill hands the rows of those of some nodes that are on a side to a visitor, with their places among these.
func (f *factorModel) fill(ctx context.Context, l *shards.NodeLayout, side engine.Side, numbers []int32,
	visit func(place int, row []float32, w rowLayout)) error {
	places := map[int][]int32{} // by block
	for k, i := range numbers {
		b := l.Block(i)
		places[b] = append(places[b], int32(k))
	}
	not := graph.TargetOnly
	if side == engine.Targets {
		not = graph.SourceOnly
	}
	w := rowLayout{exposed: f.Factors.Exposed[side], rank: f.Factors.Rank}
	for b, some := range places {
		if !slices.ContainsFunc(some, func(k int32) bool { return l.Role(numbers[k]) != not }) {
			continue
		}
		nodes := nodesOn(l, side, b)
		rows, err := f.Factors.readRows(ctx, side, b, len(nodes)*w.width())
		if err != nil {
			return err
		}
		for _, k := range some {
			if row, is := slices.BinarySearch(nodes, numbers[k]); is {
				visit(int(k), rows[row*w.width():][:w.width()], w)
			}
		}
	}
	return nil
}
