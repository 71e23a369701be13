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

// BoundRow is the bound on one model's risk, and its terms.
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

// runBound measures every term in small worlds of increasing size, all of whose pairs are seen.
func runBound(ctx context.Context, l *lab) (*Result, error) {
	nodes, draws, seeds := []int{20, 40, 80}, 5, l.Seeds[:min(len(l.Seeds), 3)]
	if l.trainings.size.nodes < 10_000 {
		nodes, draws = []int{12, 24}, 4
	}
	rows, err := l.boundRows(ctx, nodes, seeds, draws)
	if err != nil {
		return nil, err
	}
	r := &Result{Rows: rows, Setting: []string{
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
			"This underestimates the largest: with 20 and 40 nodes six times as many starts raised 𝒢̂ by 1 to "+
			"24%%, so the bound should be larger still.",
			draws, boundStarts-1, boundCandidates),
		"B is exact, from the known truth; without the truth only the plug-in is available. The sharper bound has " +
			"M/(2√2) for M, and for R_AP also 1 for ε: flipping one link moves the estimate by no more.",
	}}
	r.Tables = []figure.Table{boundTable(rows, nodes), boundSeedsTable(rows)}
	r.Figures = []figure.Figure{boundFigure(rows, nodes)}
	r.Claims = []Claim{boundHoldsClaim(rows), tightClaim(rows), plugInClaim(rows), sharperClaim(rows)}
	return r, nil
}

func numberList(numbers []int) string {
	words := strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]"))
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// boundRows returns one row for every world and scheme.
func (l *lab) boundRows(ctx context.Context, nodes []int, seeds []uint64, draws int) ([]*BoundRow, error) {
	rows := make([]*BoundRow, len(nodes)*len(seeds)*len(boundSchemes))
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
						if rows[at+i], err = c.row(ctx, s.name, s.scheme, draws); err != nil {
							return err
						}
					}
					return nil
				}})
		}
	}
	slices.Reverse(tasks) // the longest first
	return rows, l.each(ctx, tasks)
}

// class is the class of models that the bound is for, in one world.
type class struct {
	seed       uint64
	world      *world.World
	sample     *world.TruePairs
	link       model.LinkModel
	propensity model.PropensityModel
	scale      []float64 // what a point of the class is multiplied by to give the models' parameters
	likeliest  []float64
	learned    []risk.Truth // by pair, what bayes learns from the same links; nil if its training diverged
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

// bayes returns what bayes learns of every pair.
func (c *class) bayes(ctx context.Context, n model.Nodes) ([]risk.Truth, error) {
	r, err := fit.Fit(ctx, sample.Problem{Nodes: n, Train: c.sample.Pairs}, fit.Settings{Method: "bayes", Seed: c.seed,
		Threads: 1, Replicates: -1, Doctor: fit.QuickDoctor, Starts: []float64{.3}})
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

// believe returns the beliefs of a model about every pair.
func (c *class) believe(link, propensity []float32) ([]risk.Belief, error) {
	batch := model.Batch{Sources: c.sample.Pairs.Source, Targets: c.sample.Pairs.Target}
	z, s := make([]float32, len(batch.Sources)), make([]float32, len(batch.Sources))
	engine.Predictor{Link: c.link, LinkParams: link, Propensity: c.propensity,
		PropensityParams: propensity}.Logits(z, s, batch)
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

// evaluate returns an objective at a point of the class, without a prior and with equal weights of the pairs.
func (c *class) evaluate(ctx context.Context, o *engine.Objective, x, grad []float64) (float64, error) {
	o.Link, o.Propensity, o.EvenRisk = c.link, c.propensity, true
	parts, err := engine.CPU{Threads: 1}.Gradient(ctx, o, c.params(x), grad)
	for i := range grad {
		grad[i] *= c.scale[i]
	}
	return parts.Total(), err
}

// project moves a point to the nearest point of the class.
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

// lowest returns the lowest point that projected gradients find from the starts, and its value.
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
		// One objective for the pairs of each sign; each is a mean over its own.
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
		starts, err := c.startingPoints(r, negated)
		if err != nil {
			return 0, err
		}
		_, value, err := c.lowest(ctx, negated, starts)
		return -value, err
	}
}

// startingPoints returns the likeliest member and the lowest of many random ones, on the ball and with every π̂ at an
// end of its range, where most of the lowest points are.
func (c *class) startingPoints(r *rand.Rand, f func(x, grad []float64) (float64, error)) ([][]float64, error) {
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

// row measures every term of the bound for the likeliest member.
func (c *class) row(ctx context.Context, name string, scheme risk.Scheme, draws int) (*BoundRow, error) {
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
		Bias: figure.Value(bias.AbsoluteBias()), PlugIn: missing,
		Complexity: figure.Value(complexity.Value), ComplexityError: figure.Value(complexity.StandardError),
		Margin: figure.Value(margin),
		Bound:  figure.Value(whole), Plugged: missing, Sharper: figure.Value(whole - 3*margin + 3*least),
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

// boundRowsOf returns those of a scheme and a number of nodes.
func boundRowsOf(rows []*BoundRow, scheme string, nodes int) []*BoundRow {
	return filter(rows, func(r *BoundRow) bool { return r.Scheme == scheme && r.Nodes == nodes })
}

// boundColumns are the columns of both tables.
var boundColumns = []column[*BoundRow]{
	{figure.Column{Name: "R", Means: "true risk", Digits: 3}, 1, func(r *BoundRow) figure.Value { return r.Risk }},
	{figure.Column{Name: "R̂", Means: "estimated risk", Digits: 3}, 1,
		func(r *BoundRow) figure.Value { return r.Estimate }},
	{figure.Column{Name: "B", Means: "the estimate's bias, exactly", Digits: 3}, 1,
		func(r *BoundRow) figure.Value { return r.Bias }},
	{figure.Column{Name: "B̂", Means: "its bias, if what bayes learns were the truth", Digits: 3}, 1,
		func(r *BoundRow) figure.Value { return r.PlugIn }},
	{figure.Column{Name: "2𝒢̂", Means: "twice the complexity", Digits: 3}, 1,
		func(r *BoundRow) figure.Value { return 2 * r.Complexity }},
	{figure.Column{Name: "3M", Means: "three margins, as the paper has them", Digits: 2}, 1,
		func(r *BoundRow) figure.Value { return 3 * r.Margin }},
	{figure.Column{Name: "bound", Means: "R̂ + B + 2𝒢̂ + 3M", Digits: 2, Better: "lower"}, 1,
		func(r *BoundRow) figure.Value { return r.Bound }},
	{figure.Column{Name: "÷ R", Means: "the bound over the true risk", Digits: 1, Better: "lower"}, 1,
		func(r *BoundRow) figure.Value { return r.Bound / r.Risk }},
	{figure.Column{Name: "sharper", Means: "the bound with the least M that McDiarmid's inequality asks for", Digits: 2,
		Better: "lower"}, 1, func(r *BoundRow) figure.Value { return r.Sharper }},
}

// boundTable has a row per scheme and number of nodes.
func boundTable(rows []*BoundRow, nodes []int) figure.Table {
	t := figure.Table{Name: "terms", Head: "nodes", Columns: headings(boundColumns),
		Title: fmt.Sprintf("The bound and its terms, mean over seeds; the loss is at most %g", boundLoss)}
	for _, s := range boundSchemes {
		for _, n := range nodes {
			var row []figure.Cell
			for _, c := range boundColumns {
				row = append(row, figure.Number(meanOf(boundRowsOf(rows, s.name, n), c.get)))
			}
			t.Add(fmt.Sprintf("%s, %d", s.name, n), row...)
		}
	}
	return t
}

// boundSeedsTable has a row per world and scheme.
func boundSeedsTable(rows []*BoundRow) figure.Table {
	t := figure.Table{Name: "seeds", Title: "Every world", Head: "risk", Detail: true,
		Columns: slices.Concat([]figure.Column{{Name: "nodes"}, {Name: "seed"}}, headings(boundColumns),
			[]figure.Column{{Name: "𝒢̂ se", Means: "standard error of 𝒢̂ from the finite number of signs", Digits: 4}})}
	for _, r := range rows {
		t.Add(r.Scheme, slices.Concat([]figure.Cell{figure.Number(r.Nodes), figure.Number(r.Seed)},
			cells(boundColumns, []*BoundRow{r}), []figure.Cell{figure.Number(r.ComplexityError)})...)
	}
	return t
}

// boundFigure shows how bounds fall with the number of nodes.
func boundFigure(rows []*BoundRow, nodes []int) figure.Figure {
	lines := &figure.LineChart{XTitle: "nodes", YTitle: "risk"}
	add := func(name, scheme string, get func(*BoundRow) figure.Value) {
		line := figure.Series{Name: name}
		for _, n := range nodes {
			line.X = append(line.X, float64(n))
			line.Y = append(line.Y, meanOf(boundRowsOf(rows, scheme, n), get))
		}
		lines.Series = append(lines.Series, line)
	}
	for _, s := range boundSchemes {
		add("bound by "+s.name, s.name, func(r *BoundRow) figure.Value { return r.Bound })
		add("sharper bound by "+s.name, s.name, func(r *BoundRow) figure.Value { return r.Sharper })
	}
	add("true risk", boundSchemes[0].name, func(r *BoundRow) figure.Value { return r.Risk })
	add("the largest loss", boundSchemes[0].name, func(*BoundRow) figure.Value { return boundLoss })
	return figure.Figure{Name: "nodes", Title: "The bound and the true risk by the number of nodes", Lines: lines}
}

// boundHoldsClaim asks whether any true risk is above its bound.
func boundHoldsClaim(rows []*BoundRow) Claim {
	var below tally
	nearest := math.Inf(1)
	for _, r := range rows {
		below.add(r.Risk <= r.Bound)
		nearest = math.Min(nearest, float64(r.Bound/r.Risk))
	}
	return Claim{"the true risk is below R̂ + B + 2𝒢̂ + 3M", below.verdict(),
		fmt.Sprintf("In %d of %d worlds and risks; the bound is at least %s times the true risk.", below.held,
			below.all, figure.Decimal(nearest, 1))}
}

// tightClaim asks whether the bound is below η, which no loss exceeds.
func tightClaim(rows []*BoundRow) Claim {
	var tight tally
	for _, r := range rows {
		tight.add(r.Bound < boundLoss)
	}
	most := rows[len(rows)-1].Nodes
	var evidence []string
	for _, s := range boundSchemes {
		largest := boundRowsOf(rows, s.name, most)
		bound := meanOf(largest, func(r *BoundRow) figure.Value { return r.Bound })
		ratio := meanOf(largest, func(r *BoundRow) figure.Value { return r.Bound / r.Risk })
		evidence = append(evidence, fmt.Sprintf("%s %s, %s times the true risk", s.name, figure.Decimal(bound, 2),
			figure.Decimal(ratio, 0)))
	}
	trueRisk := meanOf(boundRowsOf(rows, boundSchemes[0].name, most), func(r *BoundRow) figure.Value { return r.Risk })
	return Claim{fmt.Sprintf("the bound is below the largest loss, %g", boundLoss), tight.verdict(),
		fmt.Sprintf("It is in %d of %d. With %d nodes the bound is %s; nearly all of it is 3M, which falls as "+
			"1/n. 3M would be a tenth of the true risk with %s nodes, all of whose pairs are seen.",
			tight.held, tight.all, most, strings.Join(evidence, "; "), figure.Decimal(nodesFor(trueRisk/10), 0))}
}

// nodesFor is the least number of nodes for which 3M is at most margin.
func nodesFor(margin float64) float64 {
	pairs := math.Pow(6*boundLoss/boundFloor/margin, 2) * math.Log(2/boundFailure)
	return math.Ceil(math.Sqrt(pairs+.25) + .5)
}

// plugInClaim asks whether the bound holds with the estimate of B that data allow.
func plugInClaim(rows []*BoundRow) Claim {
	known := filter(rows, func(r *BoundRow) bool { return !math.IsNaN(float64(r.PlugIn)) })
	var enough tally
	for _, r := range known {
		enough.add(r.PlugIn >= r.Bias)
	}
	bias := meanOf(known, func(r *BoundRow) figure.Value { return r.Bias })
	plugIn := meanOf(known, func(r *BoundRow) figure.Value { return r.PlugIn })
	return Claim{"B can be estimated from data, with what bayes learns as the truth", enough.verdict(),
		fmt.Sprintf("The plug-in is no smaller than B in %d of %d; its mean is %s, and that of B is %s. (The "+
			"model's own ŷ and π̂ in place of the truth would always give 0.)", enough.held, enough.all,
			figure.Decimal(plugIn, 3), figure.Decimal(bias, 3))}
}

// sharperClaim is about the bound with the least margin.
func sharperClaim(rows []*BoundRow) Claim {
	var tight, holds tally
	for _, r := range rows {
		tight.add(r.Sharper < boundLoss)
		holds.add(r.Risk <= r.Sharper)
	}
	most := rows[len(rows)-1].Nodes
	var evidence []string
	for _, s := range boundSchemes {
		ratio := meanOf(boundRowsOf(rows, s.name, most), func(r *BoundRow) figure.Value { return r.Sharper / r.Risk })
		evidence = append(evidence, fmt.Sprintf("%s %s", s.name, figure.Decimal(ratio, 1)))
	}
	return Claim{"with the least margin the bound is below the largest loss", tight.verdict(), fmt.Sprintf(
		"It is below %g in %d of %d cases, and the true risk is below it in %d. With %d nodes it is this many "+
			"times the true risk: %s.", boundLoss, tight.held, tight.all, holds.held, most,
		strings.Join(evidence, ", "))}
}
