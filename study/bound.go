package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

var bound = Study{
	Name:  "bound",
	Title: "Bound: what the generalisation bound promises, against the true risk",
	run:   runBound,
}

// The class of models that the bound is for: z = wᵀ(h_i⊙h_j) + b with ‖(w, b)‖ ≤ ballRadius in units in which the
// products' coordinates have a mean square of 1, and any π̂ by pair of fields from boundFloor to boundCeiling. The
// loss is the log-loss, cut at boundLoss: the theorem asks for a bound.
const (
	ballRadius   = 6.
	boundFloor   = .1 // ε
	boundCeiling = .99
	boundLoss    = 3.  // η
	boundFailure = .05 // δ₀
	boundDim     = 8

	boundCandidates = 60 // drawn at random for every maximisation
	boundStarts     = 5  // of it: the lowest of those, and the likeliest member
)

var boundSchemes = []struct {
	name   string
	scheme risk.Scheme
}{{"R_w", risk.W{}}, {"R_PU", risk.PU{}}, {"R_AP", risk.AP{}}}

// BoundRow is the bound on one model's risk, and what it is made of.
type BoundRow struct {
	Nodes  int    `json:"nodes"`
	Pairs  int    `json:"pairs"` // |U|
	Seed   uint64 `json:"seed"`
	Scheme string `json:"scheme"`

	Risk            figure.Value `json:"risk"`     // true risk R
	Estimate        figure.Value `json:"estimate"` // R̂
	Bias            figure.Value `json:"bias"`     // B(R̂), exactly
	PlugIn          figure.Value `json:"plugIn"`   // B(R̂) if what bayes learns of the same links were the truth
	Complexity      figure.Value `json:"complexity"`
	ComplexityError figure.Value `json:"complexityError"` // from the finite number of signs
	Margin          figure.Value `json:"margin"`          // M as the paper has it

	Bound   figure.Value `json:"bound"`   // R̂ + B + 2𝒢̂ + 3M
	Plugged figure.Value `json:"plugged"` // the same with the plug-in for B
	Sharper figure.Value `json:"sharper"` // the bound with the least M that McDiarmid's inequality asks for
}

// runBound measures every term in small worlds of several sizes, all of whose pairs are seen.
func runBound(ctx context.Context, l *lab) (*Result, error) {
	nodes, draws, seeds := []int{20, 40, 80}, 5, l.Seeds[:min(len(l.Seeds), 3)]
	if l.trainings.size.nodes < 10_000 {
		nodes, draws = []int{12, 24}, 4
	}
	guarantees, err := l.guarantees(ctx, nodes, seeds, draws)
	if err != nil {
		return nil, err
	}
	r := &Result{Rows: guarantees, Setting: []string{
		fmt.Sprintf("Worlds of %s nodes in two fields, all of whose ordered pairs are seen: vectors of %d "+
			"dimensions, links drawn with a base rate of .3 and an oracle AUC of .9, π from U(.7, 1) within a "+
			"field and U(.1, .3) between two; %s.",
			numberList(nodes), boundDim, seedList(seeds)),
		fmt.Sprintf("The class: z = wᵀ(h_i⊙h_j) + b with ‖(w, b)‖ ≤ %g in units in which products have a mean "+
			"square of 1 in every coordinate, and π̂ from %g to %g by pair of fields. The model is its "+
			"likeliest member; the bound holds for all members at once. The loss is the log-loss, at most η "+
			"= %g; δ₀ = %g.",
			ballRadius, boundFloor, boundCeiling, boundLoss, boundFailure),
		fmt.Sprintf("𝒢̂ is the mean over %d draws of signs of the largest Σσr/|U| that projected gradients, "+
			"which also fit the model, find from the best %d of %d members drawn at random and from the model. "+
			"That is short of the largest: with 20 and 40 nodes six times as many starts raised 𝒢̂ by 1 to "+
			"24%%, so that the bound should be larger still.",
			draws, boundStarts-1, boundCandidates),
		"B is exact, from the known truth; only the plug-in for it could be had without. The sharper bound has " +
			"M/(2√2) for M, and for R_AP also 1 for ε: flipping one link moves the estimate by no more.",
	}}
	r.Tables = append(r.Tables, boundTable(guarantees, nodes), guaranteeTable(guarantees))
	r.Figures = append(r.Figures, boundFigure(guarantees, nodes))
	r.Claims = append(r.Claims, boundHolds(guarantees), boundSays(guarantees), boundPlugged(guarantees),
		boundSharper(guarantees))
	return r, nil
}

func numberList(numbers []int) string {
	words := strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]"))
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// guarantees returns one for every world and scheme.
func (l *lab) guarantees(ctx context.Context, nodes []int, seeds []uint64, draws int) ([]*BoundRow, error) {
	guarantees := make([]*BoundRow, len(nodes)*len(seeds)*len(boundSchemes))
	var tasks []task
	for _, n := range nodes {
		for _, seed := range seeds {
			at := len(tasks) * len(boundSchemes)
			tasks = append(tasks, task{name: fmt.Sprintf("bound, %d nodes, seed %d", n, seed), cost: float64(n * n),
				do: func(ctx context.Context) error {
					c, err := newClass(ctx, n, seed)
					if err != nil {
						return err
					}
					defer c.world.Graph().Vectors().Close()
					for i, s := range boundSchemes {
						if guarantees[at+i], err = c.guarantee(ctx, s.name, s.scheme, draws); err != nil {
							return err
						}
					}
					return nil
				}})
		}
	}
	slices.Reverse(tasks) // the longest first
	return guarantees, l.each(ctx, tasks)
}

// class is the models that a world's pairs are seen by.
type class struct {
	seed       uint64
	world      *world.World
	sample     *world.TruePairs
	link       model.LinkModel
	propensity model.PropensityModel
	scale      []float64 // of the parameters: what they are multiplied by for the models
	likeliest  []float64
	learned    []risk.Truth // by pair, what bayes makes of the same links; nil if nothing
}

func newClass(ctx context.Context, nodes int, seed uint64) (*class, error) {
	w, err := world.New(ctx, world.Settings{Nodes: nodes, Dim: boundDim, Fields: world.EvenFields(2),
		Scenario: world.Scenario{BaseRate: .3, OracleAUC: .9, Seed: seed, Threads: 1}})
	if err != nil {
		return nil, err
	}
	c := &class{seed: seed, world: w}
	if c.sample, err = w.Pairs(ctx, nodes*(nodes-1), world.Draw{Parts: 1}); err != nil {
		return nil, err
	}
	n := model.NodesOf(w.Graph())
	if c.link, err = model.NewLink("diagonal", n, model.LinkOptions{}); err != nil {
		return nil, err
	}
	if c.propensity, err = model.NewFieldMatrix(n); err != nil {
		return nil, err
	}
	c.scale = c.units()
	likelihood := func(x, grad []float64) (float64, error) {
		return c.evaluate(ctx, &engine.Objective{LambdaL: 1, Pairs: c.sample.Pairs}, x, grad)
	}
	if c.likeliest, _, err = c.lowest(ctx, likelihood, [][]float64{make([]float64, len(c.scale))}); err != nil {
		return nil, err
	}
	c.learned, err = c.bayes(ctx, n)
	return c, err
}

// units returns 1 over the root mean square of every coordinate of h_i⊙h_j, and 1 for b and the logits of π̂.
func (c *class) units() []float64 {
	p := c.sample.Pairs
	squares := make([]float64, c.link.Size()+c.propensity.Size())
	params, grad := make([]float32, c.link.Size()), make([]float32, c.link.Size())
	for k := range p.Source {
		clear(grad)
		c.link.Backward(grad, params, model.Batch{Sources: p.Source[k : k+1], Targets: p.Target[k : k+1]}, []float32{1})
		for i, x := range grad {
			squares[i] += float64(x) * float64(x) / float64(p.Len())
		}
	}
	units := make([]float64, len(squares))
	for i := range units {
		units[i] = 1
		if i < boundDim {
			units[i] = 1 / math.Sqrt(squares[i])
		}
	}
	return units
}

// bayes returns what bayes takes for the truth.
func (c *class) bayes(ctx context.Context, n model.Nodes) ([]risk.Truth, error) {
	r, err := fit.Fit(ctx, sample.Problem{Nodes: n, Train: c.sample.Pairs}, fit.Settings{Method: "bayes", Seed: c.seed,
		Threads: 1, Replicates: -1, Starts: []float64{.3}}, fit.Progress{})
	if errors.Is(err, fit.ErrDiverged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	truths := make([]risk.Truth, c.sample.Pairs.Len())
	beliefs, err := c.believe(r.LinkParams, r.PropensityParams)
	if err != nil {
		return nil, err
	}
	for k, b := range beliefs {
		truths[k] = risk.Truth{Propensity: b.Propensity(), Link: b.Link()}
	}
	return truths, nil
}

// believe returns what parameters say of every pair.
func (c *class) believe(link, propensity []float32) ([]risk.Belief, error) {
	batch := model.Batch{Sources: c.sample.Pairs.Source, Targets: c.sample.Pairs.Target}
	z, s := make([]float32, len(batch.Sources)), make([]float32, len(batch.Sources))
	c.link.Logits(z, link, batch)
	c.propensity.Logits(s, propensity, batch)
	beliefs := make([]risk.Belief, len(z))
	for k := range beliefs {
		var err error
		if beliefs[k], err = risk.FromLogits(float64(z[k]), float64(s[k])); err != nil {
			return nil, err
		}
	}
	return beliefs, nil
}

// params turns a point of the class into the models' parameters.
func (c *class) params(x []float64) []float32 {
	params := make([]float32, len(x))
	for i, v := range x {
		params[i] = float32(v * c.scale[i])
	}
	return params
}

// evaluate returns an objective at a point of the class and adds nothing to it: no prior, all pairs alike.
func (c *class) evaluate(ctx context.Context, o *engine.Objective, x, grad []float64) (float64, error) {
	o.Link, o.Propensity, o.EvenRisk = c.link, c.propensity, true
	parts, err := engine.CPU{Threads: 1}.Gradient(ctx, o, c.params(x), grad)
	for i := range grad {
		grad[i] *= c.scale[i]
	}
	return parts.Total(), err
}

// project moves a point to the nearest of the class.
func (c *class) project(x []float64) {
	weights := x[:c.link.Size()]
	var square float64
	for _, w := range weights {
		square += w * w
	}
	if norm := math.Sqrt(square); norm > ballRadius {
		for i := range weights {
			weights[i] *= ballRadius / norm
		}
	}
	low, high := logit(boundFloor), logit(boundCeiling)
	for i, s := range x[len(weights):] {
		x[len(weights)+i] = math.Max(low, math.Min(high, s))
	}
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

// lowest returns the lowest point that projected gradients find from some starts, and its value.
func (c *class) lowest(ctx context.Context, f func(x, grad []float64) (float64, error),
	starts [][]float64) (best []float64, value float64, err error) {
	value = math.Inf(1)
	for _, x := range starts {
		c.project(x)
		reached, err := projectedDescent(ctx, f, c.project, x)
		if err != nil {
			return nil, 0, err
		}
		if reached < value {
			best, value = x, reached
		}
	}
	return best, value, nil
}

// projectedDescent lowers f from x within the set that project projects on, by gradient steps whose length follows
// from the last step (Barzilai and Borwein 1988; Birgin, Martínez and Raydan 2000), and returns the value reached.
func projectedDescent(ctx context.Context, f func(x, grad []float64) (float64, error), project func([]float64),
	x []float64) (float64, error) {
	n := len(x)
	grad, next, nextGrad, direction := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	value, err := f(x, grad)
	if err != nil {
		return 0, err
	}
	length, still := 1., 0
	for range 200 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		for i := range x {
			direction[i] = x[i] - length*grad[i]
		}
		project(direction)
		var slope, moved float64
		for i := range x {
			direction[i] -= x[i]
			slope += direction[i] * grad[i]
			moved = math.Max(moved, math.Abs(direction[i]))
		}
		if moved < 1e-6 {
			break
		}
		step, reached := 1., 0.
		for ; step > 1e-6; step /= 2 {
			for i := range x {
				next[i] = x[i] + step*direction[i]
			}
			if reached, err = f(next, nextGrad); err != nil {
				return 0, err
			}
			if reached <= value+1e-4*step*slope {
				break
			}
		}
		if !(reached < value) {
			break
		}
		var square, product float64
		for i := range x {
			d := next[i] - x[i]
			square += d * d
			product += d * (nextGrad[i] - grad[i])
		}
		length = 1e3 // the most, and where the slope does not turn
		if product > 0 {
			length = math.Max(1e-3, math.Min(length, square/product))
		}
		if still++; value-reached > 1e-4*math.Abs(value)+1e-7 {
			still = 0
		}
		copy(x, next)
		copy(grad, nextGrad)
		if value = reached; still == 5 {
			break
		}
	}
	return value, nil
}

// largest returns a maximiser of Σσr/|U| over the class.
func (c *class) largest(e risk.Estimator) risk.Maximiser {
	r := rand.New(rand.NewPCG(c.seed, 7))
	return func(ctx context.Context, signs []int8) (float64, error) {
		// One objective for the pairs of either sign; each is a mean over its own.
		var parts [2]*engine.Objective
		for i := range parts {
			parts[i] = &engine.Objective{LambdaR: 1, Risk: engine.OtherRisk, Estimator: e, Pairs: &graph.Pairs{}}
		}
		p := c.sample.Pairs
		for k, sign := range signs {
			to := parts[(sign+1)/2].Pairs
			to.Source, to.Target, to.Linked = append(to.Source, p.Source[k]), append(to.Target, p.Target[k]),
				append(to.Linked, p.Linked[k])
			to.Weight, to.Rate = append(to.Weight, 1), append(to.Rate, 1)
		}
		other := make([]float64, len(c.scale))
		negated := func(x, grad []float64) (float64, error) {
			var total float64
			clear(grad)
			for i, o := range parts {
				if o.Pairs.Len() == 0 {
					continue
				}
				value, err := c.evaluate(ctx, o, x, other)
				if err != nil {
					return 0, err
				}
				share := float64(1-2*i) * float64(o.Pairs.Len()) / float64(len(signs)) // −σ
				total += share * value
				for j, g := range other {
					grad[j] += share * g
				}
			}
			return total, nil
		}
		starts, err := c.promising(r, negated)
		if err != nil {
			return 0, err
		}
		_, value, err := c.lowest(ctx, negated, starts)
		return -value, err
	}
}

// promising returns where to start from: the likeliest member, and the lowest of many that are drawn at random, on the
// ball and with every π̂ at an end of its range, where the lowest points mostly lie.
func (c *class) promising(r *rand.Rand, f func(x, grad []float64) (float64, error)) ([][]float64, error) {
	type candidate struct {
		x     []float64
		value float64
	}
	candidates := make([]candidate, boundCandidates)
	grad := make([]float64, len(c.scale))
	for k := range candidates {
		x := make([]float64, len(c.scale))
		for i := range x {
			x[i] = 100 * r.NormFloat64()
		}
		c.project(x)
		value, err := f(x, grad)
		if err != nil {
			return nil, err
		}
		candidates[k] = candidate{x, value}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.value, b.value) })
	starts := [][]float64{slices.Clone(c.likeliest)}
	for _, k := range candidates[:boundStarts-1] {
		starts = append(starts, k.x)
	}
	return starts, nil
}

// guarantee measures every term of the bound for the likeliest member.
func (c *class) guarantee(ctx context.Context, name string, scheme risk.Scheme, draws int) (*BoundRow, error) {
	loss := risk.CappedLogLoss{Cap: boundLoss}
	e := risk.Estimator{Scheme: scheme, Loss: loss}
	params := c.params(c.likeliest)
	beliefs, err := c.believe(params[:c.link.Size()], params[c.link.Size():])
	if err != nil {
		return nil, err
	}
	pairs := make([]risk.Pair, len(beliefs))
	for k, b := range beliefs {
		pairs[k] = risk.Pair{Observation: c.sample.Observation(k), Belief: b, Weight: 1,
			Source: int(c.sample.Pairs.Source[k])}
	}
	truth, err1 := risk.Estimator{Scheme: risk.True{}, Loss: loss}.Estimate(pairs)
	estimate, err2 := e.Estimate(pairs)
	bias, err3 := e.Moments(c.sample.Truth, beliefs)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	complexity, err := risk.EstimateComplexity(ctx, len(pairs), draws, c.seed, c.largest(e))
	if err != nil {
		return nil, err
	}
	terms := risk.Bound{Loss: boundLoss, Floor: boundFloor, Universe: float64(len(pairs)), Failure: boundFailure}
	margin, err1 := terms.Margin()
	whole, err2 := terms.Empirical(estimate.Value, bias.Bias, complexity.Value)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	least := margin / (2 * math.Sqrt2)
	if name == "R_AP" {
		least *= boundFloor
	}
	g := &BoundRow{
		Nodes: c.world.Graph().Len(), Pairs: len(pairs), Seed: c.seed, Scheme: name,
		Risk: figure.Value(truth.Value), Estimate: figure.Value(estimate.Value),
		Bias: figure.Value(bias.AbsoluteBias()), PlugIn: none,
		Complexity: figure.Value(complexity.Value), ComplexityError: figure.Value(complexity.StandardError),
		Margin: figure.Value(margin),
		Bound:  figure.Value(whole), Plugged: none, Sharper: figure.Value(whole - 3*margin + 3*least),
	}
	if c.learned != nil {
		plug, err := e.Moments(c.learned, beliefs)
		if err != nil {
			return nil, err
		}
		g.PlugIn = figure.Value(plug.AbsoluteBias())
		g.Plugged = g.Bound - g.Bias + g.PlugIn
	}
	return g, nil
}

// guaranteesOf returns those of a scheme and a number of nodes.
func guaranteesOf(all []*BoundRow, scheme string, nodes int) []*BoundRow {
	return where(all, func(g *BoundRow) bool { return g.Scheme == scheme && g.Nodes == nodes })
}

// boundTerms are the columns of both tables.
var boundTerms = []struct {
	figure.Column
	get func(*BoundRow) figure.Value
}{
	{figure.Column{Name: "R", Means: "true risk", Digits: 3}, func(g *BoundRow) figure.Value { return g.Risk }},
	{figure.Column{Name: "R̂", Means: "estimated risk", Digits: 3},
		func(g *BoundRow) figure.Value { return g.Estimate }},
	{figure.Column{Name: "B", Means: "the estimate's bias, exactly", Digits: 3},
		func(g *BoundRow) figure.Value { return g.Bias }},
	{figure.Column{Name: "B̂", Means: "its bias, if what bayes learns were the truth", Digits: 3},
		func(g *BoundRow) figure.Value { return g.PlugIn }},
	{figure.Column{Name: "2𝒢̂", Means: "twice the complexity", Digits: 3},
		func(g *BoundRow) figure.Value { return 2 * g.Complexity }},
	{figure.Column{Name: "3M", Means: "three margins, as the paper has them", Digits: 2},
		func(g *BoundRow) figure.Value { return 3 * g.Margin }},
	{figure.Column{Name: "bound", Means: "R̂ + B + 2𝒢̂ + 3M", Digits: 2, Better: "lower"},
		func(g *BoundRow) figure.Value { return g.Bound }},
	{figure.Column{Name: "÷ R", Means: "the bound over the true risk", Digits: 1, Better: "lower"},
		func(g *BoundRow) figure.Value { return g.Bound / g.Risk }},
	{figure.Column{Name: "sharper", Means: "the bound with the least M that McDiarmid's inequality asks for", Digits: 2,
		Better: "lower"}, func(g *BoundRow) figure.Value { return g.Sharper }},
}

// boundTable has a row per scheme and number of nodes.
func boundTable(all []*BoundRow, nodes []int) figure.Table {
	t := figure.Table{Name: "terms",
		Title: fmt.Sprintf("The bound and its terms, mean over seeds; the loss is at most %g",
			boundLoss), Head: "nodes"}
	for _, c := range boundTerms {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, s := range boundSchemes {
		for _, n := range nodes {
			row := figure.TableRow{Name: fmt.Sprintf("%s, %d", s.name, n)}
			for _, c := range boundTerms {
				mean, _ := meanAndSpread(values(guaranteesOf(all, s.name, n), c.get))
				row.Cells = append(row.Cells, figure.Number(mean))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// guaranteeTable has a row per world and scheme.
func guaranteeTable(all []*BoundRow) figure.Table {
	t := figure.Table{Name: "seeds", Title: "Every world", Head: "risk", Detail: true,
		Columns: []figure.Column{{Name: "nodes"}, {Name: "seed"}}}
	for _, c := range boundTerms {
		t.Columns = append(t.Columns, c.Column)
	}
	t.Columns = append(t.Columns,
		figure.Column{Name: "𝒢̂ se", Means: "standard error of 𝒢̂ from the finite number of signs", Digits: 4})
	for _, g := range all {
		row := figure.TableRow{Name: g.Scheme, Cells: []figure.Cell{figure.Number(g.Nodes), figure.Number(g.Seed)}}
		for _, c := range boundTerms {
			row.Cells = append(row.Cells, figure.Number(float64(c.get(g))))
		}
		t.Add(row.Name, append(row.Cells, figure.Number(g.ComplexityError))...)
	}
	return t
}

// boundFigure shows how bounds fall with the number of nodes.
func boundFigure(all []*BoundRow, nodes []int) figure.Figure {
	lines := &figure.LineChart{XTitle: "nodes", YTitle: "risk"}
	add := func(name, scheme string, get func(*BoundRow) figure.Value) {
		line := figure.Series{Name: name}
		for _, n := range nodes {
			mean, _ := meanAndSpread(values(guaranteesOf(all, scheme, n), get))
			line.X, line.Y = append(line.X, float64(n)), append(line.Y, mean)
		}
		lines.Series = append(lines.Series, line)
	}
	for _, s := range boundSchemes {
		add("bound by "+s.name, s.name, func(g *BoundRow) figure.Value { return g.Bound })
		add("sharper bound by "+s.name, s.name, func(g *BoundRow) figure.Value { return g.Sharper })
	}
	add("true risk", boundSchemes[0].name, func(g *BoundRow) figure.Value { return g.Risk })
	add("the largest loss", boundSchemes[0].name, func(*BoundRow) figure.Value { return boundLoss })
	return figure.Figure{Name: "nodes", Title: "The bound and the true risk by the number of nodes", Lines: lines}
}

// boundHolds asks whether any true risk is above its bound.
func boundHolds(all []*BoundRow) Claim {
	so := 0
	nearest := math.Inf(1)
	for _, g := range all {
		if g.Risk <= g.Bound {
			so++
		}
		nearest = math.Min(nearest, float64(g.Bound/g.Risk))
	}
	return Claim{"the true risk is below R̂ + B + 2𝒢̂ + 3M", verdictOf(so, len(all)),
		fmt.Sprintf("In %d of %d worlds and risks; the bound is at least %s times the true risk.", so, len(all),
			figure.Decimal(nearest, 1))}
}

// boundSays asks whether the bound says more than that no loss exceeds η.
func boundSays(all []*BoundRow) Claim {
	so := 0
	var words []string
	for _, g := range all {
		if g.Bound < boundLoss {
			so++
		}
	}
	most := all[len(all)-1].Nodes
	for _, s := range boundSchemes {
		some := guaranteesOf(all, s.name, most)
		ratio, _ := meanAndSpread(values(some, func(g *BoundRow) figure.Value { return g.Bound / g.Risk }))
		whole, _ := meanAndSpread(values(some, func(g *BoundRow) figure.Value { return g.Bound }))
		words = append(words, fmt.Sprintf("%s %s, %s times the true risk", s.name, figure.Decimal(whole, 2),
			figure.Decimal(ratio, 0)))
	}
	last, _ := meanAndSpread(values(guaranteesOf(all, boundSchemes[0].name, most),
		func(g *BoundRow) figure.Value { return g.Risk }))
	return Claim{fmt.Sprintf("the bound says more than that no loss exceeds %g", boundLoss), verdictOf(so, len(all)),
		fmt.Sprintf(
			"It is below in %d of %d. With %d nodes it is %s; nearly all of it is 3M, which falls as 1/n. For "+
				"3M to be a tenth of the true risk it takes %s nodes, all of whose pairs are seen.",
			so, len(all), most, strings.Join(words, "; "), figure.Decimal(nodesFor(last/10), 0))}
}

// nodesFor is the number of nodes from which on 3M is at most so large.
func nodesFor(three float64) float64 {
	pairs := math.Pow(6*boundLoss/boundFloor/three, 2) * math.Log(2/boundFailure)
	return math.Ceil(math.Sqrt(pairs+.25) + .5)
}

// boundPlugged asks whether the bound holds with what can be known of B.
func boundPlugged(all []*BoundRow) Claim {
	so, count := 0, 0
	var exact, plugged []float64
	for _, g := range all {
		if math.IsNaN(float64(g.PlugIn)) {
			continue
		}
		count++
		exact, plugged = append(exact, float64(g.Bias)), append(plugged, float64(g.PlugIn))
		if g.PlugIn >= g.Bias {
			so++
		}
	}
	a, _ := meanAndSpread(exact)
	b, _ := meanAndSpread(plugged)
	return Claim{"B can be had from the data, by taking what bayes learns for the truth", verdictOf(so, count),
		fmt.Sprintf("The plug-in is no smaller than B in %d of %d; in the mean it is %s, and B is %s. (The "+
			"model's own ŷ and π̂ in place of the truth would always give 0.)", so, count, figure.Decimal(b, 3),
			figure.Decimal(a, 3))}
}

// boundSharper says what the least margin is worth.
func boundSharper(all []*BoundRow) Claim {
	so, holds := 0, 0
	var words []string
	for _, g := range all {
		if g.Sharper < boundLoss {
			so++
		}
		if g.Risk <= g.Sharper {
			holds++
		}
	}
	most := all[len(all)-1].Nodes
	for _, s := range boundSchemes {
		ratio, _ := meanAndSpread(values(guaranteesOf(all, s.name, most),
			func(g *BoundRow) figure.Value { return g.Sharper / g.Risk }))
		words = append(words, fmt.Sprintf("%s %s", s.name, figure.Decimal(ratio, 1)))
	}
	return Claim{"with the least margin the bound says more than that", verdictOf(so, len(all)), fmt.Sprintf(
		"It is below %g in %d of %d, and the true risk is below it in %d. With %d nodes it is so many times the "+
			"true risk: %s.", boundLoss, so, len(all), holds, most, strings.Join(words, ", "))}
}
