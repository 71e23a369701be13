package study

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"unseen/figure"
)

var figure1 = Study{
	Name:  "figure1",
	Title: "Figure 1: propensities, true and learned, as the training pairs grow in number",
	run:   runFigure1,
}

var figure1Methods = []Method{mle, rw, bayes}

// paperPropensityError is the mean relative error that the paper prints for R_w.
const paperPropensityError = .1947

// Figure1Row is the propensities that one training learned.
type Figure1Row struct {
	Fields FieldKind `json:"fields"`
	Seed   uint64    `json:"seed"`
	Method Method    `json:"method"`
	Pairs  int       `json:"pairs"` // trained on
	Dim    int       `json:"dim"`   // of the vectors

	Error    figure.Value `json:"error"`    // mean of |π̂ − π|/π over ordered pairs of fields
	Weighted figure.Value `json:"weighted"` // and over pairs of nodes

	Names   []string        `json:"names"`   // of the fields
	Truth   []figure.Values `json:"truth"`   // π by the source's field, in the order of Names
	Learned []figure.Values `json:"learned"` // π̂ likewise

	Seconds float64 `json:"seconds"` // of training, on one thread
}

// sizes are those that figure 1 trains at: the pairs of the other studies, ten times and thirty times as many.
// bayes keeps the products of the vectors of all pairs and sums their squares, so that the vectors are shorter
// than in the other studies.
func (z size) sizes() []size {
	multiples := []int{1, 10, 30}
	if z.nodes < 10_000 { // it has too few pairs for more
		multiples = []int{1, 2, 4}
	}
	var all []size
	for _, m := range multiples {
		larger := z
		larger.dim, larger.pairs, larger.validation = min(z.dim, 256), m*z.pairs, m*z.validation
		all = append(all, larger)
	}
	return all
}

// runFigure1 trains in one world of either kind.
func runFigure1(ctx context.Context, l *lab) (*Result, error) {
	kinds, seed := []FieldKind{Random, Tied}, l.Seeds[0]
	sizes := l.trainings.size.sizes()
	rows, outcomes, err := l.figure1Rows(ctx, kinds, seed, sizes)
	if err != nil {
		return nil, err
	}
	var counts []string
	for _, z := range sizes {
		counts = append(counts, fmt.Sprint(z.pairs))
	}
	z := sizes[0]
	r := &Result{Rows: rows, Warnings: failureWarnings(outcomes), Setting: []string{
		fmt.Sprintf("Worlds as in table 1, with vectors of %d dimensions whose products vary in about %.0f; %s, "+
			"one world with random and one with tied fields.",
			z.dim, z.effective(), seedList([]uint64{seed})),
		fmt.Sprintf("Training on %s pairs, each sample containing the smaller ones, with early stopping on a "+
			"tenth as many others; preset %s.",
			strings.Join(counts, ", "), l.Preset),
		"The error is |π̂ − π|/π, averaged over ordered pairs of fields, however rare (over fields), or over " +
			"pairs of nodes (over pairs; w in the table). s is seconds of training on one thread.",
	}}
	if d := l.trainings.size.dim; d > z.dim {
		r.Setting = append(r.Setting, fmt.Sprintf("%d dimensions instead of %d are for bayes: its time grows "+
			"with their square, and with %d the products of %d pairs would take %.1f GB.",
			z.dim, d, d, sizes[len(sizes)-1].pairs, 4*float64(d+32)*float64(sizes[len(sizes)-1].pairs)/1e9))
	}
	for _, kind := range kinds {
		ofKind := filter(rows, func(r *Figure1Row) bool { return r.Fields == kind })
		r.Tables = append(r.Tables, figure1Table(ofKind, kind, sizes))
		r.Figures = append(append(r.Figures, figure1Lines(ofKind, kind)), figure1Maps(ofKind, kind)...)
		r.Claims = append(r.Claims, figure1Claims(ofKind, kind)...)
	}
	return r, nil
}

// figure1Rows trains every method at every size. A world is made once for all methods.
func (l *lab) figure1Rows(ctx context.Context, kinds []FieldKind, seed uint64, sizes []size) ([]*Figure1Row, []*Outcome,
	error) {
	count := len(kinds) * len(sizes) * len(figure1Methods)
	rows, outcomes := make([]*Figure1Row, count), make([]*Outcome, count)
	var tasks []task
	for _, fields := range kinds {
		for _, z := range sizes {
			s := &subject{key: subjectKey{fields, seed}}
			defer s.close()
			for _, m := range figure1Methods {
				at := len(tasks)
				tasks = append(tasks, task{
					name: fmt.Sprintf("%s, %s fields, %d pairs", m.Name, fields, z.pairs),
					cost: training{method: m}.cost() * float64(z.pairs),
					do: func(ctx context.Context) error {
						if err := s.prepare(ctx, &trainings{size: z}, l.Threads); err != nil {
							return err
						}
						o, err := s.train(ctx, m, l.Preset)
						if err != nil {
							return err
						}
						outcomes[at], rows[at] = o, figure1Row(o, z)
						return nil
					},
				})
			}
		}
	}
	// The longest first, so that none of them runs alone at the end.
	slices.SortStableFunc(tasks, func(a, b task) int { return cmp.Compare(b.cost, a.cost) })
	return rows, outcomes, l.each(ctx, tasks)
}

// figure1Row sets an outcome's propensities out by field, in the order of the world's settings.
func figure1Row(o *Outcome, z size) *Figure1Row {
	r := &Figure1Row{Fields: o.Fields, Seed: o.Seed, Method: o.Method, Pairs: z.pairs, Dim: z.dim,
		Error: o.PropensityError, Weighted: o.WeightedError, Seconds: o.Seconds}
	for _, f := range z.settings(subjectKey{o.Fields, o.Seed}, 1).Fields {
		r.Names = append(r.Names, f.Name)
	}
	if o.Failed != "" {
		return r
	}
	at := make([]int, len(r.Names)) // where the graph has them
	for i, name := range r.Names {
		at[i] = slices.Index(o.learned.fields, name)
	}
	for _, from := range at {
		var truth, learned figure.Values
		for _, to := range at {
			truth = append(truth, o.Truth[from*len(at)+to])
			learned = append(learned, o.Propensities[from*len(at)+to])
		}
		r.Truth, r.Learned = append(r.Truth, truth), append(r.Learned, learned)
	}
	return r
}

// figure1Table has a row per method and a pair of columns per size.
func figure1Table(rows []*Figure1Row, kind FieldKind, sizes []size) figure.Table {
	t := figure.Table{Name: string(kind), Title: fmt.Sprintf("Mean relative error of π̂ in %%, %s fields", kind),
		Head: "method"}
	for _, z := range sizes {
		t.Columns = append(t.Columns, figure.Column{Name: fmt.Sprintf("%d", z.pairs),
			Means: fmt.Sprintf("over fields, from %d pairs", z.pairs), Digits: 1, Better: "lower"})
	}
	for _, z := range sizes {
		t.Columns = append(t.Columns, figure.Column{Name: fmt.Sprintf("%d w", z.pairs),
			Means: fmt.Sprintf("over pairs of nodes, from %d pairs", z.pairs), Digits: 1, Better: "lower"})
	}
	for _, z := range sizes {
		t.Columns = append(t.Columns, figure.Column{Name: fmt.Sprintf("%d s", z.pairs), Means: "seconds on one thread",
			Digits: 1, Better: "lower"})
	}
	for _, m := range figure1Methods {
		row := figure.TableRow{Name: m.Name}
		for _, get := range []func(*Figure1Row) float64{
			func(r *Figure1Row) float64 { return 100 * float64(r.Error) },
			func(r *Figure1Row) float64 { return 100 * float64(r.Weighted) },
			func(r *Figure1Row) float64 { return r.Seconds },
		} {
			for _, r := range byMethod(rows, m) {
				row.Cells = append(row.Cells, figure.Number(get(r)))
			}
		}
		var printed figure.Cell
		if m == rw {
			printed = figure.Number(100 * paperPropensityError)
		}
		t.Add(row.Name, append(row.Cells, printed)...)
	}
	t.Columns = append(t.Columns, figure.Column{Name: "paper",
		Means: "what the paper prints; it does not say from how many pairs", Digits: 1, Better: "lower"})
	return t
}

// figure1Lines shows how errors fall.
func figure1Lines(rows []*Figure1Row, kind FieldKind) figure.Figure {
	lines := &figure.LineChart{XTitle: "training pairs", YTitle: "mean relative error of π̂, %"}
	var paper figure.Series
	for _, m := range figure1Methods {
		over, weighted := figure.Series{Name: m.Name + ", over fields"}, figure.Series{Name: m.Name + ", over pairs"}
		paper = figure.Series{Name: "paper's rw"}
		for _, r := range byMethod(rows, m) {
			x := float64(r.Pairs)
			over.X, over.Y = append(over.X, x), append(over.Y, 100*float64(r.Error))
			weighted.X, weighted.Y = append(weighted.X, x), append(weighted.Y, 100*float64(r.Weighted))
			paper.X, paper.Y = append(paper.X, x), append(paper.Y, 100*paperPropensityError)
		}
		lines.Series = append(lines.Series, over, weighted)
	}
	lines.Series = append(lines.Series, paper)
	return figure.Figure{Name: string(kind) + "-error",
		Title: fmt.Sprintf("Error of the learned propensities, %s fields", kind), Lines: lines}
}

// figure1Maps are the true propensities and those that mle and bayes learned, on one scale.
func figure1Maps(rows []*Figure1Row, kind FieldKind) (figures []figure.Figure) {
	heat := func(name, title string, r *Figure1Row, values []figure.Values) {
		figures = append(figures, figure.Figure{Name: string(kind) + "-" + name,
			Title: fmt.Sprintf("%s, %s fields", title, kind), Heat: &figure.HeatMap{
				RowTitle: "source's field", ColumnTitle: "target's field", Rows: r.Names, Columns: r.Names,
				Values: values,
				Low:    0, High: 1,
			}})
	}
	for _, m := range []Method{mle, bayes} {
		for _, r := range byMethod(rows, m) {
			if r.Learned == nil { // it diverged
				continue
			}
			if len(figures) == 0 {
				heat("truth", "True propensities", r, r.Truth)
			}
			heat(fmt.Sprintf("%s-%d", m.Name, r.Pairs), fmt.Sprintf("Propensities that %s learned from %d pairs",
				m.Name, r.Pairs), r, r.Learned)
		}
	}
	return figures
}

// figure1Claims compares what the paper says of its figure with ours.
func figure1Claims(rows []*Figure1Row, kind FieldKind) []Claim {
	fields := fmt.Sprintf(" (%s fields)", kind)
	return []Claim{
		reachedClaim(byMethod(rows, rw), fmt.Sprintf("R_w learns π to a mean relative error of %s%%",
			figure.Decimal(100*paperPropensityError, 2))+fields),
		fallingClaim(rows, "the error of π̂ falls with every step in the number of pairs"+fields),
		closerClaim(rows, "bayes is closer to the true π than mle at every number of pairs"+fields),
	}
}

// reachedClaim is reproduced if both means are below the paper's from the largest number of pairs, partly if one is
// from any.
func reachedClaim(rows []*Figure1Row, statement string) Claim {
	verdict := NotReproduced
	var evidence []string
	for i, r := range rows {
		over, weighted := r.Error <= paperPropensityError, r.Weighted <= paperPropensityError
		switch {
		case over && weighted && i == len(rows)-1:
			verdict = Reproduced
		case over || weighted:
			verdict = Partly
		}
		evidence = append(evidence, fmt.Sprintf("%s%% over fields and %s%% over pairs from %d pairs",
			figure.Decimal(100*r.Error, 1), figure.Decimal(100*r.Weighted, 1), r.Pairs))
	}
	return Claim{statement, verdict, "The paper does not say over what it averages, nor from how many pairs. Ours: " +
		strings.Join(evidence, "; ") + "."}
}

func fallingClaim(rows []*Figure1Row, statement string) Claim {
	var falls tally
	var evidence []string
	for _, m := range figure1Methods {
		var steps []string
		ofMethod := byMethod(rows, m)
		for i, r := range ofMethod {
			steps = append(steps, figure.Decimal(100*r.Error, 1)+"%")
			if i > 0 {
				falls.add(r.Error < ofMethod[i-1].Error)
				falls.add(r.Weighted < ofMethod[i-1].Weighted)
			}
		}
		evidence = append(evidence, m.Name+" "+strings.Join(steps, ", "))
	}
	return Claim{statement, falls.verdict(), fmt.Sprintf("In %d of %d steps of both means. Over fields: %s.",
		falls.held, falls.all, strings.Join(evidence, "; "))}
}

func closerClaim(rows []*Figure1Row, statement string) Claim {
	ofMLE := byMethod(rows, mle)
	var closer tally
	var evidence []string
	for i, r := range byMethod(rows, bayes) {
		base := ofMLE[i]
		closer.add(r.Error < base.Error)
		closer.add(r.Weighted < base.Weighted)
		evidence = append(evidence, fmt.Sprintf("%s%% and %s%% instead of %s%% and %s%% from %d pairs",
			figure.Decimal(100*r.Error, 1), figure.Decimal(100*r.Weighted, 1), figure.Decimal(100*base.Error, 1),
			figure.Decimal(100*base.Weighted, 1), r.Pairs))
	}
	return Claim{statement, closer.verdict(), "Over fields and over pairs: " + strings.Join(evidence, "; ") + "."}
}
