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

// Figure1Row is what one training made of the propensities.
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
	if z.nodes < 10_000 { // there are not so many pairs
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
	recoveries, outcomes, err := l.recover(ctx, kinds, seed, sizes)
	if err != nil {
		return nil, err
	}
	var counts []string
	for _, z := range sizes {
		counts = append(counts, fmt.Sprint(z.pairs))
	}
	z := sizes[0]
	r := &Result{Rows: recoveries, Warnings: failures(outcomes), Setting: []string{
		fmt.Sprintf("Worlds as in table 1, with vectors of %d dimensions whose products vary in about %.0f; %s, "+
			"one world with random and one with tied fields.",
			z.dim, z.effective(), seedList([]uint64{seed})),
		fmt.Sprintf("Training on %s pairs, the larger samples with the smaller ones in them, stopping by a "+
			"tenth as many others; preset %s.",
			strings.Join(counts, ", "), l.Preset),
		"The error is |π̂ − π|/π, averaged over ordered pairs of fields, however rare (over fields), or over " +
			"pairs of nodes (over pairs; w in the table). s is seconds of training on one thread.",
	}}
	if d := l.trainings.size.dim; d > z.dim {
		r.Setting = append(r.Setting, fmt.Sprintf("%d dimensions instead of %d are for the sake of bayes: its "+
			"time grows with their square, and with %d the products of %d pairs would take %.1f GB.",
			z.dim, d, d, sizes[len(sizes)-1].pairs, 4*float64(d+32)*float64(sizes[len(sizes)-1].pairs)/1e9))
	}
	for _, fields := range kinds {
		some := where(recoveries, func(r *Figure1Row) bool { return r.Fields == fields })
		r.Tables = append(r.Tables, figure1Table(some, fields, sizes))
		r.Figures = append(r.Figures, figure1Lines(some, fields))
		r.Figures = append(r.Figures, figure1Maps(some, fields)...)
		r.Claims = append(r.Claims, figure1Claims(some, fields)...)
	}
	return r, nil
}

// recover trains every method at every size. A world is made once for all methods.
func (l *lab) recover(ctx context.Context, kinds []FieldKind, seed uint64, sizes []size) ([]*Figure1Row, []*Outcome,
	error) {
	count := len(kinds) * len(sizes) * len(figure1Methods)
	recoveries, outcomes := make([]*Figure1Row, count), make([]*Outcome, count)
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
						outcomes[at], recoveries[at] = o, recoveryOf(o, z)
						return nil
					},
				})
			}
		}
	}
	// The longest first, so that no thread is left alone with one of them.
	slices.SortStableFunc(tasks, func(a, b task) int { return cmp.Compare(b.cost, a.cost) })
	return recoveries, outcomes, l.each(ctx, tasks)
}

// recoveryOf sets an outcome's propensities out by field, in the order of the world's settings.
func recoveryOf(o *Outcome, z size) *Figure1Row {
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
func figure1Table(some []*Figure1Row, fields FieldKind, sizes []size) figure.Table {
	t := figure.Table{Name: string(fields), Title: fmt.Sprintf("Mean relative error of π̂ in %%, %s fields", fields),
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
			for _, r := range of(some, m) {
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
func figure1Lines(some []*Figure1Row, fields FieldKind) figure.Figure {
	lines := &figure.LineChart{XTitle: "training pairs", YTitle: "mean relative error of π̂, %"}
	var paper figure.Series
	for _, m := range figure1Methods {
		over, weighted := figure.Series{Name: m.Name + ", over fields"}, figure.Series{Name: m.Name + ", over pairs"}
		paper = figure.Series{Name: "paper's rw"}
		for _, r := range of(some, m) {
			x := float64(r.Pairs)
			over.X, over.Y = append(over.X, x), append(over.Y, 100*float64(r.Error))
			weighted.X, weighted.Y = append(weighted.X, x), append(weighted.Y, 100*float64(r.Weighted))
			paper.X, paper.Y = append(paper.X, x), append(paper.Y, 100*paperPropensityError)
		}
		lines.Series = append(lines.Series, over, weighted)
	}
	lines.Series = append(lines.Series, paper)
	return figure.Figure{Name: string(fields) + "-error",
		Title: fmt.Sprintf("Error of the learned propensities, %s fields", fields), Lines: lines}
}

// figure1Maps are the true propensities and those that mle and bayes learned, on one scale.
func figure1Maps(some []*Figure1Row, fields FieldKind) (figures []figure.Figure) {
	heat := func(name, title string, r *Figure1Row, values []figure.Values) {
		figures = append(figures, figure.Figure{Name: string(fields) + "-" + name,
			Title: fmt.Sprintf("%s, %s fields", title, fields), Heat: &figure.HeatMap{
				RowTitle: "source's field", ColumnTitle: "target's field", Rows: r.Names, Columns: r.Names,
				Values: values,
				Low:    0, High: 1,
			}})
	}
	for _, m := range []Method{mle, bayes} {
		for _, r := range of(some, m) {
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

// figure1Findings compares what the paper says of its figure with ours.
func figure1Claims(some []*Figure1Row, fields FieldKind) []Claim {
	kind := fmt.Sprintf(" (%s fields)", fields)
	return []Claim{
		reached(of(some, rw), fmt.Sprintf("R_w learns π to a mean relative error of %s%%",
			figure.Decimal(100*paperPropensityError, 2))+kind),
		falling(some, "the error of π̂ falls with every step in the number of pairs"+kind),
		closer(some, "bayes is closer to the true π than mle at every number of pairs"+kind),
	}
}

// reached is reproduced if both means are below the paper's from the largest number of pairs, partly if one is
// from any.
func reached(mine []*Figure1Row, claim string) Claim {
	f := Claim{Statement: claim, Verdict: NotReproduced}
	var words []string
	for i, r := range mine {
		over, weighted := r.Error <= paperPropensityError, r.Weighted <= paperPropensityError
		switch {
		case over && weighted && i == len(mine)-1:
			f.Verdict = Reproduced
		case over || weighted:
			f.Verdict = Partly
		}
		words = append(words, fmt.Sprintf("%s%% over fields and %s%% over pairs from %d pairs",
			figure.Decimal(100*float64(r.Error), 1), figure.Decimal(100*float64(r.Weighted), 1), r.Pairs))
	}
	f.Evidence = "The paper does not say over what it averages, nor from how many pairs. Ours: " +
		strings.Join(words, "; ") + "."
	return f
}

func falling(some []*Figure1Row, claim string) Claim {
	so, all := 0, 0
	var words []string
	for _, m := range figure1Methods {
		var steps []string
		mine := of(some, m)
		for i, r := range mine {
			steps = append(steps, figure.Decimal(100*float64(r.Error), 1)+"%")
			if i == 0 {
				continue
			}
			for _, fell := range []bool{r.Error < mine[i-1].Error, r.Weighted < mine[i-1].Weighted} {
				all++
				if fell {
					so++
				}
			}
		}
		words = append(words, m.Name+" "+strings.Join(steps, ", "))
	}
	return Claim{claim, verdictOf(so, all), fmt.Sprintf("In %d of %d steps of both means. Over fields: %s.", so, all,
		strings.Join(words, "; "))}
}

func closer(some []*Figure1Row, claim string) Claim {
	base, mine := of(some, mle), of(some, bayes)
	so, all := 0, 0
	var words []string
	for i, r := range mine {
		for _, below := range []bool{r.Error < base[i].Error, r.Weighted < base[i].Weighted} {
			all++
			if below {
				so++
			}
		}
		words = append(words, fmt.Sprintf("%s%% and %s%% instead of %s%% and %s%% from %d pairs",
			figure.Decimal(100*float64(r.Error), 1), figure.Decimal(100*float64(r.Weighted), 1),
			figure.Decimal(100*float64(base[i].Error), 1), figure.Decimal(100*float64(base[i].Weighted), 1), r.Pairs))
	}
	return Claim{claim, verdictOf(so, all), "Over fields and over pairs: " + strings.Join(words, "; ") + "."}
}
