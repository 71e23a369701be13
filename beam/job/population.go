package job

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// Population returns the training pairs of the shards for fit.FitPopulation. Of these the driver keeps at most so many
// in memory; 0 means as many as fit.Fit.
//
// What is drawn, counted and tallied comes back as a file per shard, which the driver adds up in order; gradients and
// Fisher's information are summed by workers, in a tree.
func (e *Cluster) Population(hold int) fit.Population {
	return &population{e, e.Manifest.Train, hold, e.Manifest.Rates, true}
}

// Held draws about so many of the held-out pairs, those of whole sources, to judge models by; all where there are no
// more.
func (e *Cluster) Held(ctx context.Context, most int) (sample.Problem, error) {
	if len(e.Manifest.Test) == 0 {
		return sample.Problem{}, e.noneHeld()
	}
	held := &population{Cluster: e, shards: e.Manifest.Test}
	survey := fit.PairSurvey{Dim: e.Manifest.Dim}
	for _, s := range held.shards {
		survey.Kinds[0] += int64(s.Pairs)
	}
	return fit.DrawSources(ctx, held, survey, most)
}

func (e *Cluster) noneHeld() error {
	return fmt.Errorf("%w: the shards of %s hold no pairs to judge by; import with a split", fit.ErrData, e.Shards.Root)
}

type population struct {
	*Cluster
	shards []shards.Shard
	hold   int
	rates  bool // some are known by clicks, and what these say is to be learned
	bayes  bool // it is learned from by bayes, which compares vectors
}

// Checksum implements fit.Population.
func (p *population) Checksum() string { return p.Manifest.Checksum() }

// piecePlan is what the workers of such a job share.
type piecePlan struct {
	// Kind is survey, draw, surprising, tally, links, nodes, sums, sources, marks or standings.
	Kind     string         `json:"kind"`
	Choice   fit.PairChoice `json:"choice"`
	Surprise *fit.Surprise  `json:"surprise,omitempty"`
	Floor    float64        `json:"floor,omitempty"`
	Nodes    []byte         `json:"nodes,omitempty"` // numbers, as int32
	Ranks    *rankPlan      `json:"ranks,omitempty"`
	Sums     fit.SumKind    `json:"sums,omitempty"` // at a shift
	Shift    float64        `json:"shift,omitempty"`
}

// pieces runs a job over the shards and hands what each left to a function, in their order.
func (p *population) pieces(ctx context.Context, s *plan, take func(content []byte) error) error {
	if len(p.shards) == 0 {
		return fmt.Errorf("%w: the shards of %s hold no training pairs", fit.ErrData, p.Shards.Root)
	}
	p.evaluations++
	return p.Cluster.pieces(ctx, s, tasksOf(p.shards), take)
}

// pieces runs a job and hands what each task left to a function, in their order.
func (e *Cluster) pieces(ctx context.Context, s *plan, tasks []task, take func(content []byte) error) error {
	work := shards.Location{Root: e.Work.Path(unique(s.Piece.Kind))}
	defer work.Discard(context.WithoutCancel(ctx))
	s.Result = work.Absolute().Root
	if err := e.Runner.leave(ctx, s, tasks, "pieces", pieceName); err != nil {
		return err
	}
	for k := range tasks {
		content, err := work.ReadAll(ctx, pieceName(k))
		if err == nil {
			err = take(content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pieceName(task int) string { return fmt.Sprintf("piece-%05d", task) }

// tasksOf returns a task for every shard.
func tasksOf(list []shards.Shard) []task {
	tasks := make([]task, len(list))
	for k := range tasks {
		tasks[k].Shard = &list[k]
	}
	return tasks
}

func (p *population) piece(kind string, c fit.PairChoice) *plan {
	s := p.plan(kind)
	s.Piece = &piecePlan{Kind: kind, Choice: c}
	return s
}

// Survey implements fit.Population.
func (p *population) Survey(ctx context.Context, c fit.PairChoice) (out fit.PairSurvey, err error) {
	if p.rates {
		return out, fmt.Errorf("%w: what clicks say is learned by bayes on one machine; leave the clicks out of the "+
			"dataset, or use mle", fit.ErrData)
	}
	if p.bayes {
		if err := p.haveVectorsFor("diagonal"); err != nil {
			return out, err
		}
	}
	err = p.pieces(ctx, p.piece("survey", c), func(content []byte) error {
		var part fit.PairSurvey
		if err := unpack(content, &part); err != nil {
			return err
		}
		out.Add(part)
		return nil
	})
	out.Dim, out.Hold = p.Manifest.Dim, p.hold
	return out, err
}

// Tally implements fit.Population.
func (p *population) Tally(ctx context.Context, by engine.Predictor, floor float64) (*fit.PairTally, error) {
	s := p.piece("tally", fit.PairChoice{})
	s.Piece.Floor = floor
	var err error
	if s.Model, err = p.pack(ctx, model.Model{Link: by.Link, LinkParams: by.LinkParams, Propensity: by.Propensity,
		PropensityParams: by.PropensityParams, Method: "tally"}); err != nil {
		return nil, err
	}
	out := &fit.PairTally{}
	return out, p.pieces(ctx, s, func(content []byte) error {
		var part fit.PairTally
		if err := unpack(content, &part); err != nil {
			return err
		}
		out.Add(&part)
		return nil
	})
}

// InDegrees implements fit.Population.
func (p *population) InDegrees(ctx context.Context, nodes []int32) (*fit.InDegrees, error) {
	s := p.piece("links", fit.PairChoice{})
	s.Piece.Nodes = packed(nodes)
	out := fit.CountInDegrees(sample.Problem{Train: &graph.Pairs{}}, nodes)
	return out, p.pieces(ctx, s, func(content []byte) error {
		var part fit.InDegrees
		if err := unpack(content, &part); err != nil {
			return err
		}
		return out.Add(&part)
	})
}

// drawnPiece is the chosen pairs of a shard, by the numbers of their nodes, with these.
type drawnPiece struct {
	Pairs    graph.Pairs
	Exposure []risk.Exposure

	Numbers         []int32
	Fields          []uint16
	Vectors         []float32
	Popularity, Age []float32
}

// Draw implements fit.Population. Workers hand over the vectors with the pairs: the driver reads no block.
func (p *population) Draw(ctx context.Context, c fit.PairChoice) (sample.Problem, error) {
	return p.draw(ctx, p.piece("draw", c))
}

// DrawSurprising implements fit.Population.
func (p *population) DrawSurprising(ctx context.Context, by fit.Surprise) (sample.Problem, error) {
	s := p.piece("surprising", fit.PairChoice{})
	s.Piece.Surprise = &by
	return p.draw(ctx, s)
}

// draw runs a job whose pieces are pairs, and joins them.
func (p *population) draw(ctx context.Context, s *plan) (sample.Problem, error) {
	var all []*drawnPiece
	err := p.pieces(ctx, s, func(content []byte) error {
		var part drawnPiece
		if err := unpack(content, &part); err != nil {
			return err
		}
		all = append(all, &part)
		return nil
	})
	if err != nil {
		return sample.Problem{}, err
	}
	out := sample.Problem{Origin: &p.Manifest.Data, Echo: p.Manifest.Echo}
	if out.Nodes, err = p.nodesOf(all); err != nil {
		return out, err
	}
	out.Train, out.Exposure = joined(all, out.Nodes.Numbers)
	out.EveryShown = p.Manifest.Data.Plan.EveryShown && out.Exposure != nil
	return out, nil
}

// nodesOf joins the nodes of pieces, each once.
func (e *Cluster) nodesOf(all []*drawnPiece) (model.Nodes, error) {
	layout, dim := e.Manifest.Layout(), e.Manifest.Dim
	n := model.Nodes{FieldCount: len(layout.Fields), FieldNames: layout.Fields}
	for _, piece := range all {
		n.Numbers = append(n.Numbers, piece.Numbers...)
	}
	slices.Sort(n.Numbers)
	n.Numbers = slices.Compact(n.Numbers)
	if len(n.Numbers) == 0 {
		return n, fmt.Errorf("%w: none of the pairs of %s was drawn; hold more of them", fit.ErrData, e.Shards.Root)
	}
	n.Fields = make([]uint16, len(n.Numbers))
	layout.Fill(&n)
	var err error
	if n.Vectors, err = layout.NewVectors(len(n.Numbers)); err != nil {
		return n, err
	}
	for _, piece := range all {
		for k, number := range piece.Numbers {
			at, _ := slices.BinarySearch(n.Numbers, number)
			if dim > 0 {
				if err := n.Vectors.Set(int32(at), piece.Vectors[k*dim:(k+1)*dim]); err != nil {
					return n, err
				}
			}
			n.Fields[at] = piece.Fields[k]
			if n.Popularity != nil {
				n.Popularity[at] = piece.Popularity[k]
			}
			if n.Age != nil {
				n.Age[at] = piece.Age[k]
			}
		}
	}
	if layout.Roles != nil {
		n.Sources, n.Targets = []int32{}, []int32{}
		for i, number := range n.Numbers {
			if layout.Role(number) != graph.TargetOnly {
				n.Sources = append(n.Sources, int32(i))
			}
			if layout.Role(number) != graph.SourceOnly {
				n.Targets = append(n.Targets, int32(i))
			}
		}
	}
	return n, nil
}

// joined returns the pairs of all pieces, ascending by source and target, by the places of their nodes.
func joined(all []*drawnPiece, numbers []int32) (*graph.Pairs, []risk.Exposure) {
	var whole graph.Pairs
	var exposure []risk.Exposure
	logged := slices.ContainsFunc(all, func(piece *drawnPiece) bool { return piece.Exposure != nil })
	for _, piece := range all {
		p := &piece.Pairs
		whole.Source, whole.Target = append(whole.Source, p.Source...), append(whole.Target, p.Target...)
		whole.Linked, whole.Weight = append(whole.Linked, p.Linked...), append(whole.Weight, p.Weight...)
		whole.Rate = append(whole.Rate, p.Rate...)
		switch {
		case logged && piece.Exposure == nil:
			exposure = append(exposure, make([]risk.Exposure, p.Len())...)
		case logged:
			exposure = append(exposure, piece.Exposure...)
		}
	}
	order := make([]int32, whole.Len())
	for k := range order {
		order[k] = int32(k)
	}
	key := func(k int32) uint64 { return uint64(whole.Source[k])<<32 | uint64(whole.Target[k]) }
	slices.SortStableFunc(order, func(a, b int32) int {
		switch x, y := key(a), key(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	e := sample.Evidence{Pairs: &whole, Exposure: exposure}.At(order)
	for _, ends := range [][]int32{e.Pairs.Source, e.Pairs.Target} {
		for k, number := range ends {
			at, _ := slices.BinarySearch(numbers, number)
			ends[k] = int32(at)
		}
	}
	return e.Pairs, e.Exposure
}

// leavePiece leaves what a piece plan asks of a shard; a second attempt leaves the same.
func (p *plan) leavePiece(ctx context.Context, t *task) error {
	found, err := p.piece(ctx, t)
	if err != nil {
		return err
	}
	content, err := pack(found)
	if err == nil {
		_, err = shards.Location{Root: p.Result}.WriteBytes(ctx, pieceName(t.Number), content)
	}
	return err
}

func (p *plan) piece(ctx context.Context, t *task) (any, error) {
	switch p.Piece.Kind {
	case "sources":
		return p.heldLinks(ctx, t)
	case "nodes":
		return p.someNodes(ctx, t)
	case "sums":
		return p.nodeSums(ctx, t)
	case "marks":
		return p.linkScores(ctx, t)
	case "standings":
		return p.standings(ctx, t)
	case "links":
		pairs, exposure, err := p.shards().Pairs(ctx, *t.Shard, p.Threads)
		if err != nil {
			return nil, err
		}
		return fit.CountInDegrees(sample.Problem{Train: pairs, Exposure: exposure}, unpacked[int32](p.Piece.Nodes)), nil
	}
	choice := &p.Piece.Choice
	if p.Piece.Kind != "draw" {
		choice = nil
	}
	part, err := p.shards().Load(ctx, p.Layout, *t.Shard, choice, p.Threads)
	if err != nil {
		return nil, err
	}
	defer part.Close()
	switch p.Piece.Kind {
	case "survey":
		return fit.SurveyPairs(part.Problem(), p.Piece.Choice), nil
	case "draw":
		return drawn(part, part.Problem().Training()), nil
	case "surprising":
		places, err := p.Piece.Surprise.Places(ctx, engine.CPU{Threads: p.Threads}, part.Problem())
		if err != nil {
			return nil, err
		}
		return drawn(part, part.Problem().Training().At(places)), nil
	}
	by, err := p.predictor(ctx, part.Nodes)
	if err != nil {
		return nil, err
	}
	return fit.TallyPairs(ctx, engine.CPU{Threads: p.Threads}, part.Problem(), by, p.Piece.Floor)
}

// drawn returns pairs of a part for the driver, with the nodes that they name.
func drawn(part *shards.Part, some sample.Evidence) *drawnPiece {
	n := part.Nodes
	named := make([]bool, len(n.Numbers))
	ends := [][]int32{some.Pairs.Source, some.Pairs.Target}
	for _, end := range ends {
		for k, i := range end {
			named[i] = true
			end[k] = n.Number(i)
		}
	}
	nodes := sample.Indices(len(named), func(i int) bool { return named[i] })
	out := pieceOf(n, nodes)
	out.Pairs, out.Exposure = *some.Pairs, some.Exposure
	return out
}

// pieceOf returns some nodes for the driver.
func pieceOf(n model.Nodes, nodes []int32) *drawnPiece {
	dim := n.Dim()
	out := &drawnPiece{Numbers: sample.Column(n.Numbers, nodes), Fields: sample.Column(n.Fields, nodes),
		Vectors: make([]float32, len(nodes)*dim)}
	if n.Popularity != nil {
		out.Popularity = sample.Column(n.Popularity, nodes)
	}
	if n.Age != nil {
		out.Age = sample.Column(n.Age, nodes)
	}
	if n.Vectors == nil {
		return out
	}
	for at, i := range nodes {
		n.Vectors.Load(out.Vectors[at*dim:(at+1)*dim], i)
	}
	return out
}

// likelihoodPlan is what the workers of a sum over a design share.
type likelihoodPlan struct {
	Design      fit.PairDesign `json:"design"`
	Theta       []float64      `json:"theta"`
	Information bool           `json:"information,omitempty"` // else the value and its gradient
	Root        *rootPlan      `json:"root,omitempty"`
	Leverage    string         `json:"leverage,omitempty"` // what the names of the files begin with that keep it
}

// rootPlan is an engine.Root.
type rootPlan struct {
	Rows    []byte  `json:"rows"` // float32, one after the other
	Count   int     `json:"count"`
	Lower   bool    `json:"lower,omitempty"`
	Divisor float64 `json:"divisor"`
}

func (r *rootPlan) root() engine.Root {
	out := engine.Root{Lower: r.Lower, Divisor: r.Divisor}
	numbers := unpacked[float32](r.Rows)
	for row := range slices.Chunk(numbers, len(numbers)/max(r.Count, 1)) {
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Design implements fit.Population.
func (p *population) Design(_ context.Context, d fit.PairDesign) (engine.Design, error) {
	return &design{population: p, of: d}, nil
}

// design is an engine.Design over the training shards. Workers make it anew for every sum.
type design struct {
	*population
	of fit.PairDesign
}

func refused(what string) error {
	return fmt.Errorf("%w on a cluster: %s of pairs that are elsewhere", engine.ErrUnsupported, what)
}

// Unit implements engine.Design.
func (d *design) Unit() float64 { return d.of.Unit }

// Close implements engine.Design: there is nothing to give back.
func (d *design) Close() error { return nil }

// Logits implements engine.Design: it refuses.
func (d *design) Logits(context.Context, []float64) ([]float32, error) {
	return nil, refused("the logits")
}

// Leverage implements engine.Design: it refuses.
func (d *design) Leverage(context.Context, engine.Root) ([]float32, error) {
	return nil, refused("the leverage")
}

// Assume implements engine.Design: it refuses.
func (d *design) Assume(context.Context, engine.Outcomes, engine.Assumptions) (engine.AssumedLikelihood, error) {
	return nil, refused("other assumptions")
}

// Observe implements engine.Design. What is seen of the pairs is in the shards. The leverage of all pairs is found by
// the first sum and kept beside the results of jobs, 4 bytes a pair, until the likelihood is closed.
func (d *design) Observe(_ context.Context, o engine.Outcomes) (engine.LogLikelihood, error) {
	if o.Linked != nil || o.Exposure != nil || o.Leverage != nil {
		return nil, refused("outcomes")
	}
	l := &likelihood{design: d}
	if o.Root == nil {
		return l, nil
	}
	l.root = &rootPlan{Rows: packed(slices.Concat(o.Root.Rows...)), Count: len(o.Root.Rows), Lower: o.Root.Lower,
		Divisor: o.Root.Divisor}
	if d.of.Choice == nil {
		l.leverage = unique("leverage")
	}
	return l, nil
}

// likelihood is an engine.LogLikelihood over the training shards.
type likelihood struct {
	*design
	root     *rootPlan
	leverage string
}

// Close implements engine.LogLikelihood.
func (l *likelihood) Close() error {
	if l.leverage == "" {
		return nil
	}
	names := make([]string, len(l.shards))
	for k := range names {
		names[k] = leverageName(l.leverage, k)
	}
	l.Work.Remove(context.Background(), names...)
	return nil
}

func leverageName(prefix string, task int) string { return fmt.Sprintf("%s-%05d", prefix, task) }

// Curvature implements engine.LogLikelihood: it refuses.
func (l *likelihood) Curvature(context.Context, []float64) (engine.Curvature, error) {
	return nil, refused("products with the information")
}

// Calibrate implements engine.LogLikelihood: it refuses.
func (l *likelihood) Calibrate(context.Context, []float64) (scale, shift float64, err error) {
	return 0, 0, refused("the calibration")
}

// Value implements engine.LogLikelihood: one job.
func (l *likelihood) Value(ctx context.Context, theta, grad []float64) (float64, error) {
	values, err := l.over(ctx, "value", theta, 1+len(theta))
	if err != nil {
		return 0, err
	}
	copy(grad, values[1:])
	return values[0], nil
}

// Information implements engine.LogLikelihood: one job, whose workers emit a triangle each.
func (l *likelihood) Information(ctx context.Context, theta []float64) ([]float64, error) {
	n := len(theta)
	values, err := l.over(ctx, "information", theta, n*(n+1)/2)
	if err != nil {
		return nil, err
	}
	out := make([]float64, n*n)
	for i := range n {
		copy(out[i*n:i*n+i+1], values)
		values = values[i+1:]
	}
	return out, nil
}

func (l *likelihood) over(ctx context.Context, name string, theta []float64, want int) ([]float64, error) {
	s := l.plan(name)
	s.Likelihood = &likelihoodPlan{Design: l.of, Theta: theta, Information: name == "information", Root: l.root,
		Leverage: l.leverage}
	s.Fan = fanFor(want)
	sum, err := l.sum(ctx, s, tasksOf(l.shards), "likelihood")
	if err != nil {
		return nil, err
	}
	l.evaluations++
	if len(sum.Values) != want {
		return nil, fmt.Errorf("%w: %d sums came back, where %d were asked for", ErrJob, len(sum.Values), want)
	}
	if of := l.Manifest.Extent.Pairs; l.of.Choice == nil && sum.Pairs != of {
		return nil, fmt.Errorf("%w: sums over %d pairs came back, where %d were asked for", ErrJob, sum.Pairs, of)
	}
	return sum.Values, nil
}

// likelihood sums a design over a shard.
func (p *plan) likelihood(ctx context.Context, t *task) (numbered, error) {
	s := p.Likelihood
	part, err := p.shards().Load(ctx, p.Layout, *t.Shard, s.Design.Choice, p.Threads)
	if err != nil {
		return numbered{}, err
	}
	defer part.Close()
	of := s.Design
	of.Choice = nil // they are chosen
	made, seen, _, err := of.Over(ctx, engine.CPU{Threads: p.Threads}, part.Problem())
	if err != nil {
		return numbered{}, err
	}
	defer made.Close()
	if s.Root != nil {
		if seen.Leverage, err = p.leverage(ctx, made, t.Number, part.Pairs.Len()); err != nil {
			return numbered{}, err
		}
	}
	l, err := made.Observe(ctx, seen)
	if err != nil {
		return numbered{}, err
	}
	defer l.Close()
	n := len(s.Theta)
	out := numbered{Number: t.Number, Pairs: int64(part.Pairs.Len())}
	if s.Information {
		full, err := l.Information(ctx, s.Theta)
		if err != nil {
			return out, err
		}
		for i := range n {
			out.Values = append(out.Values, full[i*n:i*n+i+1]...)
		}
		return out, nil
	}
	grad := make([]float64, n)
	value, err := l.Value(ctx, s.Theta, grad)
	out.Values = append([]float64{value}, grad...)
	return out, err
}

// leverage finds that of a shard's pairs, or reads what an earlier sum has kept. What is damaged is found again.
func (p *plan) leverage(ctx context.Context, of engine.Design, number, pairs int) ([]float32, error) {
	s, work := p.Likelihood, shards.Location{Root: p.Result}
	name := leverageName(s.Leverage, number)
	if s.Leverage != "" && work.Exists(ctx, name) {
		if content, err := work.ReadAll(ctx, name); err == nil && len(content) == sha256.Size+4*pairs {
			if sum := sha256.Sum256(content[sha256.Size:]); bytes.Equal(sum[:], content[:sha256.Size]) {
				return unpacked[float32](content[sha256.Size:]), nil
			}
		}
	}
	leverage, err := of.Leverage(ctx, s.Root.root())
	if err != nil || s.Leverage == "" {
		return leverage, err
	}
	content := packed(leverage)
	sum := sha256.Sum256(content)
	_, err = work.WriteBytes(ctx, name, append(sum[:], content...))
	return leverage, err
}
