package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Fairness compares what groups of targets are given with what they deserve.
//
// A group's exposure is its share of attention: place r of a list earns 1/log₂(1+r), since fewer people look further
// down, and a list's places add up to 1. Its merit is its share of relevance: Σ ŷ over the source's candidates in the
// group, over Σ ŷ of all candidates. Both are means over sources, each of which counts the same.
//
//	exposure_g = mean over sources of  Σ over places r with a target of g of w_r / Σ over places r of w_r
//	merit_g    = mean over sources of  Σ over candidates j of g of ŷ_j / Σ over candidates j of ŷ_j
//	w_r        = 1/log₂(1+r)
//
// Their ratio is 1 where a group is shown as much as it is relevant, below 1 where it is passed over, above 1 where it
// is favoured. That exposure be in proportion to merit is the demand of Singh and Joachims (“Fairness of Exposure in
// Rankings”, 2018; their disparate treatment ratio compares two groups, as Least does here the two farthest apart) and,
// over many lists, of Biega, Gummadi and Weikum (“Equity of Attention”, 2018). The discount is that of Järvelin and
// Kekäläinen (2002).
//
// Lists of the K best give small differences of ŷ all of the places, so that no such list is proportional, however
// right its ŷ: what says something is the difference between models on the same merit.
type Fairness struct {
	By      string       `json:"by"` // what groups are: field, or a column's name
	K       int          `json:"k"`
	Sources int          `json:"sources"`
	Groups  []GroupShare `json:"groups"` // the largest merit first

	// Least is the lowest ratio as a share of the highest: 1 if all are served alike, 0 if a group is never shown. (Its
	// inverse, the highest over the lowest, would then be infinite.) Groups with too Few places do not count.
	Least Band `json:"least"`
	// Gini is the inequality of the ratios, a group counting by its merit: Σ_g Σ_h m_g·m_h·|ratio_g − ratio_h| / 2. It
	// is 0 if all are served alike and 1 − m if a group of merit m has everything.
	Gini Band `json:"gini"`
	// Distance is half of the L1 distance, ½ Σ_g |exposure_g − merit_g|: the share of all attention that would have to
	// go to other groups for exposure to be in proportion to merit.
	Distance Band `json:"distance"`
}

// GroupShare is a group's exposure and merit, and their ratio, with 95% intervals of which sources were looked at.
type GroupShare struct {
	Name     string `json:"name"`
	Nodes    int    `json:"nodes"`
	Exposure Band   `json:"exposure"`
	Merit    Band   `json:"merit"`
	Ratio    *Band  `json:"ratio,omitempty"` // nil if it has no merit
	// Few: by its merit fewer than five of all places are due to it, and the lists can hardly say whether it gets them.
	// A group that is never shown has the interval 0 to 0, since drawing sources again cannot show it either.
	Few bool `json:"few,omitempty"`
}

// fewPlaces is how many places must be due to a group for its ratio to count.
const fewPlaces = 5

// Groups say which group each node is in.
type Groups struct {
	By      string // what they are, in a word
	Of      []int32
	Names   []string
	Members []int32 // nodes that count, as people among targets do not; nil means all
}

// MostGroups is how many groups fairness is measured between.
const MostGroups = 1000

// GroupsByField takes fields for groups.
func GroupsByField(g *graph.Graph) Groups {
	out := Groups{By: "field", Of: make([]int32, g.Len())}
	for f := range g.FieldCount() {
		out.Names = append(out.Names, g.FieldName(uint16(f)))
	}
	if out.Names[graph.UnknownField] == "" {
		out.Names[graph.UnknownField] = "(none)"
	}
	for i := range out.Of {
		out.Of[i] = int32(g.Field(int32(i)))
	}
	return out
}

func (g Groups) check() error {
	if len(g.Names) > MostGroups {
		return fmt.Errorf("%w: %d groups are too many to compare; make at most %d of them", ErrUndefined, len(g.Names),
			MostGroups)
	}
	for i, group := range g.Of {
		if group < 0 || int(group) >= len(g.Names) {
			return fmt.Errorf("%w: node %d is in group %d of %d", ErrTarget, i, group, len(g.Names))
		}
	}
	return nil
}

// Shown is what one source was shown, and what each group deserved of it: Σ ŷ over its candidates, by group.
type Shown struct {
	List  []int32
	Merit []float64
}

// NewFairness measures the first k of lists. draws of 0 mean [DefaultDraws].
func NewFairness(groups Groups, shown []Shown, k, draws int, seed uint64) (*Fairness, error) {
	if err := checkCutoff(k); err != nil {
		return nil, err
	}
	if err := groups.check(); err != nil {
		return nil, err
	}
	exposure, merit, err := groups.shares(shown, k)
	if err != nil {
		return nil, err
	}
	counts := enough(merit, k)
	const overall = 3
	n := len(groups.Names)
	e, m := make([]float64, n), make([]float64, n)
	bands := Bootstrap(len(exposure), draws, seed, func(times []float64) []float64 {
		clear(e)
		clear(m)
		for i, t := range times {
			if t == 0 {
				continue
			}
			t /= float64(len(times))
			for g, x := range exposure[i] {
				e[g] += t * x
				m[g] += t * merit[i][g]
			}
		}
		out := make([]float64, overall, overall+3*n)
		out[0], out[1], out[2] = disparity(e, m, counts)
		for g := range n {
			out = append(out, e[g], m[g], e[g]/m[g]) // NaN, or infinite, where there is no merit
		}
		return out
	})
	f := &Fairness{By: groups.By, K: k, Sources: len(exposure), Least: bands[0], Gini: bands[1], Distance: bands[2]}
	sizes := make([]int, n)
	for i, g := range groups.Of {
		if groups.Members == nil {
			sizes[g]++
		} else if _, counts := slices.BinarySearch(groups.Members, int32(i)); counts {
			sizes[g]++
		}
	}
	for g, name := range groups.Names {
		share := GroupShare{Name: name, Nodes: sizes[g], Exposure: bands[overall+3*g], Merit: bands[overall+3*g+1],
			Few: !counts[g]}
		if ratio := bands[overall+3*g+2]; share.Merit.Value > 0 {
			ratio.Upper = min(ratio.Upper, math.MaxFloat64) // JSON has no infinity
			share.Ratio = &ratio
		}
		if sizes[g] > 0 {
			f.Groups = append(f.Groups, share)
		}
	}
	slices.SortStableFunc(f.Groups, func(a, b GroupShare) int { return cmp.Compare(b.Merit.Value, a.Merit.Value) })
	return f, nil
}

// shares returns the exposure and the merit of every group by source, each adding up to 1.
func (groups Groups) shares(shown []Shown, k int) (exposure, merit [][]float64, err error) {
	n := len(groups.Names)
	for source, one := range shown {
		if len(one.Merit) != n {
			return nil, nil, fmt.Errorf("%w: source %d has the merits of %d groups of %d", ErrTarget, source,
				len(one.Merit), n)
		}
		e := make([]float64, n)
		for p, target := range one.List[:min(k, len(one.List))] {
			if target < 0 || int(target) >= len(groups.Of) {
				return nil, nil, fmt.Errorf("%w: place %d of source %d's list is target %d but targets are numbered 0 "+
					"to %d", ErrTarget, p+1, source, target, len(groups.Of)-1)
			}
			e[groups.Of[target]] += 1 / math.Log2(float64(p)+2)
		}
		m := slices.Clone(one.Merit)
		for _, x := range m {
			if !(x >= 0) || math.IsInf(x, 0) {
				return nil, nil, fmt.Errorf("%w: the merits of source %d are %v; give sums of probabilities", ErrNaN,
					source, one.Merit)
			}
		}
		if normalise(e) && normalise(m) { // a source with no candidate says nothing
			exposure, merit = append(exposure, e), append(merit, m)
		}
	}
	if len(exposure) == 0 {
		return nil, nil, fmt.Errorf("%w: fairness: no source has a list; give sources with candidates", ErrEmpty)
	}
	return exposure, merit, nil
}

// enough tells for which groups enough places are due to count; all, where there are for none.
func enough(merit [][]float64, k int) []bool {
	counts := make([]bool, len(merit[0]))
	for g := range counts {
		var due float64
		for i := range merit {
			due += float64(k) * merit[i][g]
		}
		counts[g] = due >= fewPlaces
	}
	if !slices.Contains(counts, true) { // so few lists that nothing is sure
		for g := range counts {
			counts[g] = true
		}
	}
	return counts
}

// normalise makes numbers add up to 1 and reports whether that could be done.
func normalise(x []float64) bool {
	var sum float64
	for _, v := range x {
		sum += v
	}
	for k := range x {
		x[k] /= sum
	}
	return sum > 0
}

// disparity compares shares of exposure with shares of merit; the lowest and the highest ratio are
// of groups that count.
func disparity(e, m []float64, counts []bool) (least, gini, distance float64) {
	low, high := math.Inf(1), 0.
	type group struct{ ratio, merit float64 }
	var some []group
	for g := range e {
		distance += math.Abs(e[g]-m[g]) / 2
		if m[g] > 0 {
			some = append(some, group{e[g] / m[g], m[g]})
			if counts[g] {
				low, high = min(low, e[g]/m[g]), max(high, e[g]/m[g])
			}
		}
	}
	slices.SortFunc(some, func(a, b group) int { return cmp.Compare(a.ratio, b.ratio) })
	// Σ over pairs of m_g·m_h·(ratio_h − ratio_g), in one pass over the sorted; the mean ratio Σ m·ratio is Σ e = 1
	var before, weighted, mean float64
	for _, s := range some {
		gini += s.merit * (s.ratio*before - weighted)
		before += s.merit
		weighted += s.merit * s.ratio
		mean += s.merit * s.ratio
	}
	if mean > 0 {
		gini /= mean
	}
	if high == 0 { // nothing that counts is shown
		return 0, max(gini, 0), distance
	}
	return low / high, max(gini, 0), distance
}

// FairnessSettings say which lists to look at.
type FairnessSettings struct {
	K       int // 0 means 10
	Held    *Candidates
	Groups  Groups // zero means fields
	Draws   int    // of the bootstrap; 0 means DefaultDraws
	Seed    uint64
	Threads int           // 0 means all processors; results do not depend on it
	Engine  engine.Engine // that scores; nil means engine.CPU with these Threads
}

// FairnessOf measures the K best of several models for the same sources by the merit that the first of them sees: a
// naive model takes what was never shown for irrelevant, and by its own merit it is fair to it.
func FairnessOf(ctx context.Context, g *graph.Graph, models []model.Model, s FairnessSettings) ([]*Fairness, error) {
	if s.K == 0 {
		s.K = 10
	}
	if s.Groups.Of == nil {
		s.Groups = GroupsByField(g)
	}
	if len(s.Groups.Of) != g.Len() {
		return nil, fmt.Errorf("%w: groups of %d nodes for a graph of %d", ErrTarget, len(s.Groups.Of), g.Len())
	}
	if err := s.Groups.check(); err != nil {
		return nil, err
	}
	if g.TwoSided() {
		s.Groups.Members = g.Targets()
	}
	n := len(s.Held.Sources())
	shown := make([][]Shown, len(models))
	for m := range models {
		shown[m] = make([]Shown, n)
	}
	e := engine.OrCPU(s.Engine, s.Threads)
	if err := kern.ChunksErr(ctx, n, 1, kern.Threads(s.Threads), func(_, at, _, _ int) error {
		i, candidates := s.Held.Sources()[at], make([]int32, 0, g.Len())
		for j := range int32(g.Len()) {
			if s.Held.Has(i, j) {
				candidates = append(candidates, j)
			}
		}
		merit := make([]float64, len(s.Groups.Names))
		for m := range models {
			scores, _, err := engine.SourceLogits(ctx, e, engine.Predictor{Link: models[m].Link,
				LinkParams: models[m].LinkParams}, i, candidates)
			if err != nil {
				return err
			}
			var best kern.Heap
			for c, z := range scores {
				if z != z {
					return fmt.Errorf("%w: the score of node %d for node %d; fit the model again", ErrNaN,
						candidates[c], i)
				}
				if m == 0 {
					merit[s.Groups.Of[candidates[c]]] += 1 / (1 + math.Exp(-float64(z)))
				}
				best.Offer(kern.RowScore{Row: candidates[c], Score: z}, s.K)
			}
			best.Sort()
			shown[m][at].Merit = merit
			for _, hit := range best {
				shown[m][at].List = append(shown[m][at].List, hit.Row)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var out []*Fairness
	for m := range models {
		f, err := NewFairness(s.Groups, shown[m], s.K, s.Draws, s.Seed)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// Words says in sentences what was found.
func (f *Fairness) Words(name string) []string {
	out := []string{fmt.Sprintf("In the lists of %s, %.0f%% of all attention (95%% interval %.0f to %.0f%%) would "+
		"have to move to other groups to match merit.", name, 100*f.Distance.Value, 100*f.Distance.Lower,
		100*f.Distance.Upper)}
	var most, least *GroupShare
	for k := range f.Groups {
		g := &f.Groups[k]
		if g.Ratio == nil || g.Few {
			continue
		}
		if g.Ratio.Lower > 1 && (most == nil || g.Ratio.Value > most.Ratio.Value) {
			most = g
		}
		if g.Ratio.Upper < 1 && (least == nil || g.Ratio.Value < least.Ratio.Value) {
			least = g
		}
	}
	for _, g := range []*GroupShare{least, most} {
		if g != nil {
			out = append(out, fmt.Sprintf("%s has %.1f%% of the merit and %.1f%% of the attention: %.2f times "+
				"its merit (%.2f to %.2f).",
				g.Name, 100*g.Merit.Value, 100*g.Exposure.Value, g.Ratio.Value, g.Ratio.Lower, g.Ratio.Upper))
		}
	}
	if most == nil && least == nil {
		out = append(out, "No group gets measurably more or less attention than its merit.")
	}
	return out
}
