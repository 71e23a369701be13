package fit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"unseen/engine"
	"unseen/model"
	"unseen/sample"
)

// Population is the training pairs of a network that are elsewhere, such as in the shards of a cluster.
//
// A fit by bayes learns from a part of them that it draws, and moves from there to the posterior of all by sums over
// them, as it does on one machine where the pairs are many. What the doctor compares comes from the part; what it
// counts, from all.
type Population interface {
	// Checksum names the pairs: a checkpoint of others is refused.
	Checksum() string
	// Survey counts the pairs that are chosen, and finds the pairs of fields that occur among them.
	Survey(ctx context.Context, c PairChoice) (PairSurvey, error)
	// Draw returns the pairs that are chosen, ascending by source and target, with the nodes that they name, these
	// nodes' Numbers, and their popularity.
	Draw(ctx context.Context, c PairChoice) (sample.Problem, error)
	// DrawSurprising returns others that are chosen, in the same way.
	DrawSurprising(ctx context.Context, by Surprise) (sample.Problem, error)
	// Design makes pairs ready for Value and Information of what is seen of them. It is observed with a Root, or with
	// nothing.
	Design(ctx context.Context, d PairDesign) (engine.Design, error)
	// Tally adds up all pairs; see TallyPairs.
	Tally(ctx context.Context, by engine.Predictor, floor float64) (*PairTally, error)
	// InDegrees counts the links to nodes, given by their numbers; see InDegrees.
	InDegrees(ctx context.Context, nodes []int32) (*InDegrees, error)
}

// FitPopulation is Fit by bayes for pairs that are elsewhere. Where they are few enough it draws them all, and does
// what Fit does.
func FitPopulation(ctx context.Context, all Population, s Settings) (*Result, error) {
	filled, err := s.WithDefaults()
	if err != nil {
		return nil, err
	}
	if filled.Method != "bayes" {
		return nil, fmt.Errorf("%w: the method %s for pairs that are elsewhere; use bayes, or a Descent", ErrSetting,
			filled.Method)
	}
	survey, err := all.Survey(ctx, evenChoice(1))
	if err != nil {
		return nil, err
	}
	from := &elsewhere{Population: all, survey: survey}
	most, part := s.inMemory(survey.Dim)
	if survey.Hold > 0 {
		most, part = survey.Hold, min(survey.Hold/partOfBytes, partPairs)
	}
	if survey.count() <= int64(most) {
		p, err := all.Draw(ctx, evenChoice(1))
		if err != nil {
			return nil, err
		}
		return fitFrom(ctx, p, s, beginning{all: from})
	}
	if survey.Dim > cmp.Or(s.mostExact, mostExact) {
		return nil, fmt.Errorf("%w: bayes over %d pairs with vectors of %d dimensions; take at most %d", ErrSetting,
			survey.count(), survey.Dim, mostExact)
	}
	t := thinnedPairs{share: sharesOf(survey.Kinds, part, filled.evenly())}
	from.part, from.share = true, t.share
	p, err := all.Draw(ctx, PairChoice{Seed: s.Seed, Share: t.share})
	if err != nil {
		return nil, err
	}
	t.makeUp(p.Training())
	return fitFrom(ctx, p, s, beginning{all: from})
}

// elsewhere is pairs of which a problem has all, or a part.
type elsewhere struct {
	Population
	survey PairSurvey
	part   bool
	share  [3]float64 // of the pairs of each kind, where it is a part
	// has models of all nodes, where those of the result are of the problem's alone; nil where there is no difference
	has *engine.Predictor
}

// predictor has the models that all pairs are judged by.
func (e *elsewhere) predictor(r *Result) engine.Predictor {
	if e.has != nil {
		return *e.has
	}
	return r.predictor()
}

// whole reports whether there are more pairs than a problem has.
func (e *elsewhere) whole() bool { return e != nil && e.part }

// PairSurvey is what is known of pairs before any is drawn.
type PairSurvey struct {
	Kinds [3]int64 // pairs without a link, links, and pairs whose exposure is logged
	// First has the pairs of fields that occur, source field × number of fields + target field, with the first pair of
	// each: the number of its source × 2³² + that of its target.
	First map[int32]uint64
	Dim   int // of the vectors
	// Hold is how many pairs the fit may keep in memory; 0 means as many as Fit does.
	Hold int
}

// fields returns the pairs of fields in the order of their first pairs, which is that of pairs in memory.
func (s PairSurvey) fields() []int32 {
	return slices.SortedFunc(maps.Keys(s.First), func(a, b int32) int { return cmp.Compare(s.First[a], s.First[b]) })
}

func (s PairSurvey) count() int64 { return s.Kinds[0] + s.Kinds[1] + s.Kinds[2] }

// SurveyPairs surveys the training pairs of a problem that are chosen.
func SurveyPairs(p sample.Problem, c PairChoice) PairSurvey {
	out := PairSurvey{Dim: p.Nodes.Dim(), First: map[int32]uint64{}}
	for _, place := range c.Places(p) {
		k := int(place)
		source, target := p.Train.Source[k], p.Train.Target[k]
		out.Kinds[pairKind(p, k)]++
		out.found(int32(p.Nodes.Fields[source])*int32(p.Nodes.FieldCount)+int32(p.Nodes.Fields[target]),
			uint64(p.Nodes.Number(source))<<32|uint64(p.Nodes.Number(target)))
	}
	return out
}

// found notes a pair of a pair of fields.
func (s *PairSurvey) found(fields int32, pair uint64) {
	if first, known := s.First[fields]; !known || pair < first {
		s.First[fields] = pair
	}
}

// Add adds the survey of other pairs.
func (s *PairSurvey) Add(other PairSurvey) {
	for kind, n := range other.Kinds {
		s.Kinds[kind] += n
	}
	if s.First == nil {
		s.First = map[int32]uint64{}
	}
	for fields, pair := range other.First {
		s.found(fields, pair)
	}
	s.Dim, s.Hold = cmp.Or(s.Dim, other.Dim), cmp.Or(s.Hold, other.Hold)
}

// mostExamined is how many bytes the vectors of the pairs may take that mean ŷ is computed from.
const mostExamined = 1 << 28

// examined draws the pairs that mean ŷ is computed from, as diagnosis.examined chooses them of pairs in memory, and
// returns a judge of them. Where vectors are long they are fewer.
func (e *elsewhere) examined(ctx context.Context, r *Result, most int) (*Judge, sample.Evidence, error) {
	if e.has != nil { // the problem is drawn so
		return r.Judge(), r.problem.Training(), nil
	}
	p, err := DrawSources(ctx, e, e.survey, most)
	if err != nil {
		return nil, sample.Evidence{}, err
	}
	terms, j := r.learnedTerms(), r.Judge()
	if j.Link, err = model.NewLink(r.Link.Kind(), p.Nodes, r.Settings.LinkOptions); err != nil {
		return nil, sample.Evidence{}, err
	}
	j.Propensity, err = model.NewPropensity(fieldMatrixKind, p.Nodes, r.Settings.PropensityOptions)
	if err == nil && len(terms) > 0 {
		j.Propensity, err = model.NewCovariates(j.Propensity, p.Nodes, terms...)
	}
	return j, p.Training(), err
}

// DrawSources draws about so many pairs of a population, those of whole sources: what is measured of them has sources
// as what is independent. Where vectors are long they are fewer; where a few sources have most pairs, they are any.
func DrawSources(ctx context.Context, of Population, survey PairSurvey, most int) (sample.Problem, error) {
	most = min(most, mostExamined/4/max(survey.Dim, 1))
	choice, share := evenChoice(1), float64(most)/float64(max(survey.count(), 1))
	if share < 1 {
		choice.Sources = sourcesOf(share)
		found, err := of.Survey(ctx, choice)
		if err != nil {
			return sample.Problem{}, err
		}
		if n := found.count(); n < int64(most/2) || n > 2*int64(most) {
			choice = evenChoice(share)
		}
	}
	return of.Draw(ctx, choice)
}

// PairDesign is an engine.Design over pairs of a population: all, or those that are chosen.
type PairDesign struct {
	Choice      *PairChoice `json:"choice,omitempty"` // nil means all
	Cells       []int32     `json:"cells"`            // the parameter of the field matrix that each cell is
	Unit        float64     `json:"unit"`             // see engine.DesignPairs
	CaseControl bool        `json:"caseControl"`      // unlinked pairs count by their rates
}

// Over makes the design over the training pairs of a problem. It returns what is seen of them, and which they are; nil
// means all.
func (d PairDesign) Over(ctx context.Context, e engine.Engine, p sample.Problem) (engine.Design, engine.Outcomes,
	[]int32, error) {
	cellOf, err := d.cellFinder(p.Nodes)
	if err != nil {
		return nil, engine.Outcomes{}, nil, err
	}
	evidence, places := p.Training(), []int32(nil)
	if d.Choice != nil {
		places = d.Choice.Places(p)
		evidence = evidence.At(places)
	}
	pairs := engine.DesignPairs{Vectors: p.Nodes.Vectors, Pairs: evidence.Pairs, Cells: len(d.Cells), Unit: d.Unit,
		Streamed: true, CellOf: cellOf}
	if d.CaseControl {
		pairs.Rate = evidence.Pairs.Rate
	}
	design, err := e.Design(ctx, pairs)
	return design, engine.Outcomes{Linked: evidence.Pairs.Linked, Exposure: evidence.Exposure}, places, err
}

// cellFinder returns a function that finds the cell of a pair of nodes.
func (d PairDesign) cellFinder(n model.Nodes) (func(source, target int32) int32, error) {
	propensity, err := model.NewPropensity(fieldMatrixKind, n, model.PropensityOptions{})
	if err != nil {
		return nil, err
	}
	field := propensity.(*model.FieldMatrix)
	number := make([]int32, field.Size())
	for c, at := range d.Cells {
		if int(at) >= len(number) {
			return nil, fmt.Errorf("%w: field pair %d of %d", ErrShape, at, len(number))
		}
		number[at] = int32(c)
	}
	return func(source, target int32) int32 { return number[field.Cell(source, target)] }, nil
}

// InDegrees is how many links some nodes have from the sources of each of eight parts, by node: popularity is learned
// by what earlier parts link to. See Settings.Exposure.
type InDegrees struct{ Parts [popularityFolds][]int32 }

// CountInDegrees counts the training links of a problem to nodes, given by their numbers, ascending.
func CountInDegrees(p sample.Problem, nodes []int32) *InDegrees {
	out := &InDegrees{}
	for part := range out.Parts {
		out.Parts[part] = make([]int32, len(nodes))
	}
	for k, linked := range p.Train.Linked {
		if !linked {
			continue
		}
		if at, found := slices.BinarySearch(nodes, p.Nodes.Number(p.Train.Target[k])); found {
			out.Parts[popularityFold(p.Nodes.Number(p.Train.Source[k]))][at]++
		}
	}
	return out
}

// Add adds the counts of other links to the same nodes.
func (c *InDegrees) Add(other *InDegrees) error {
	for part, counts := range other.Parts {
		if len(counts) != len(c.Parts[part]) {
			return fmt.Errorf("%w: links to %d nodes and to %d", ErrShape, len(c.Parts[part]), len(counts))
		}
		for i, n := range counts {
			c.Parts[part][i] += n
		}
	}
	return nil
}

// addTo adds the links of a part to the in-degree of every node.
func (c *InDegrees) addTo(part int, degree []float64) {
	for i, n := range c.Parts[part] {
		degree[i] += float64(n)
	}
}

// PairTally is what training pairs add up to, by pair of fields.
type PairTally struct {
	Pairs, Logged, Offered   int64
	Weight, Squares, Clipped float64 // Σω, Σω², and Σω of pairs whose π̂ is below the floor
	Cells                    []CellTally
	Sources                  []int32 // the numbers of those that occur, ascending
}

// CellTally is what the training pairs of one field pair add up to.
type CellTally struct {
	Source, Target uint16
	Same           bool
	Pairs, Links   int
	Weight, Shown  float64 // Σω, Σω·π̂
	LoggedWeight   float64 // Σω over logged pairs
	// over logged pairs, a linked one times its rate: where links are sampled more often than others, they count less
	Logged, Exposed    float64
	Expected, Variance float64 // Σπ̂, Σπ̂(1−π̂)
}

// TallyPairs adds up the training pairs of a problem.
func TallyPairs(ctx context.Context, e engine.Engine, p sample.Problem, by engine.Predictor, floor float64) (*PairTally,
	error) {
	d := &diagnosis{problem: p, found: &Findings{}}
	if err := d.sum(ctx, e, by, floor); err != nil {
		return nil, err
	}
	out := d.sums
	for _, c := range d.cells {
		out.Cells = append(out.Cells, CellTally{c.source, c.target, c.same, c.pairs, c.links, c.weight, c.shown,
			c.loggedWeight, c.logged, c.exposed, c.expected, c.variance})
	}
	return &out, nil
}

// take makes the tally of all pairs the diagnosis's own.
func (d *diagnosis) take(t *PairTally) {
	d.sums = *t
	d.cells, d.sums.Cells = nil, nil
	for _, c := range t.Cells {
		d.cells = append(d.cells, &cellSum{fieldPair{c.Source, c.Target}, c.Same, c.Pairs, c.Links, c.Weight, c.Shown,
			c.LoggedWeight, c.Logged, c.Exposed, c.Expected, c.Variance})
	}
	d.cellOf = d.cellFinder()
}

// Add adds the tally of other pairs.
func (t *PairTally) Add(other *PairTally) {
	t.Pairs, t.Logged, t.Offered = t.Pairs+other.Pairs, t.Logged+other.Logged, t.Offered+other.Offered
	t.Weight, t.Squares, t.Clipped = t.Weight+other.Weight, t.Squares+other.Squares, t.Clipped+other.Clipped
	place := map[fieldPair]int{}
	for i, c := range t.Cells {
		place[fieldPair{c.Source, c.Target}] = i
	}
	for _, c := range other.Cells {
		at, known := place[fieldPair{c.Source, c.Target}]
		if !known {
			t.Cells = append(t.Cells, c)
			continue
		}
		to := &t.Cells[at]
		to.Pairs, to.Links = to.Pairs+c.Pairs, to.Links+c.Links
		to.Weight, to.Shown, to.LoggedWeight = to.Weight+c.Weight, to.Shown+c.Shown, to.LoggedWeight+c.LoggedWeight
		to.Logged, to.Exposed = to.Logged+c.Logged, to.Exposed+c.Exposed
		to.Expected, to.Variance = to.Expected+c.Expected, to.Variance+c.Variance
	}
	t.Sources = append(t.Sources, other.Sources...)
	slices.Sort(t.Sources)
	t.Sources = slices.Compact(t.Sources)
}
