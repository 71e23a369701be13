package fit

import (
	"cmp"
	"math"
	"slices"

	"unseen/risk"
)

// Prescription is what would tell the scale: one of two experiments.
type Prescription struct {
	// Logged are pairs, linked or not, of which it is noted whether they are shown while links are made: that tells π̂,
	// whatever is assumed. What is shown to some sources, all of it, does as well as pairs of many.
	Logged Experiment `json:"logged"`
	// Shown are pairs without a link that are shown on purpose: whether they become links depends on their relevance
	// alone. That tells ŷ, and whether it has a ceiling, but not how exposure goes with relevance.
	Shown Experiment `json:"shown"`
}

// Experiment is pairs to draw at random, of every field pair so many, of which something will be true: of logged
// pairs that they were shown, of shown ones that they become links. The mean chance t of that will be known with the
// standard error of its logarithm
//
//	√(Σ_c (W_c)²·t_c(1−t_c)/n_c)/t,
//
// with W_c the share of field pair c among all pairs and n_c how many of it are drawn. For a given number it is least
// if n_c is in proportion to W_c·√(t_c(1−t_c)) (Neyman). The number is that with which a 99% interval, to which
// what is claimed is narrowed, is prescribedWidth-fold, and no fewer than stand for all others of one field, or of two.
// It rests on what is to be found out, t: so draw until it was
// true of as many as Until, and take Pairs for an estimate of when that will be.
type Experiment struct {
	Pairs int               `json:"pairs"`
	Most  int               `json:"most"`  // the same by the least t that the set claims
	Same  int               `json:"same"`  // of Pairs, those of one field
	Until int               `json:"until"` // it is true of so many
	Share float64           `json:"share"` // Pairs as a share of all that were shown so far, by the published π̂
	Cells []ExperimentPairs `json:"cells"` // the most pairs first
}

// ExperimentPairs is how many pairs of two fields to draw.
type ExperimentPairs struct {
	Source uint16 `json:"source"`
	Target uint16 `json:"target"`
	Pairs  int    `json:"pairs"`
}

// prescribedWidth is what an experiment aims at: somewhat less than narrow, because chance has a part in it.
const prescribedWidth = 1.45

// prescribe plans the experiments.
func (d *diagnosis) prescribe() {
	set := d.found.Set
	if set == nil || d.found.collapsed() {
		return
	}
	var logged, shown fieldChances
	nodes, pairs := d.problem.Nodes, d.ridge.pairs
	for k, w := range pairs.Weight {
		belief, err := risk.FromLogits(d.ridge.z[k], d.ridge.s[k])
		if err != nil {
			return
		}
		i, j := pairs.Source[k], pairs.Target[k]
		at, same := fieldPair{nodes.Fields[i], nodes.Fields[j]}, nodes.SameField(i, j)
		pi, y := belief.Propensity(), belief.Link()
		logged.add(at, same, w, pi)
		if !pairs.Linked[k] {
			shown.add(at, same, w, y*(1-pi)/(1-pi*y))
		}
	}
	if logged.mean() > 0 && shown.mean() > 0 {
		p := &Prescription{Logged: logged.experiment(set.Propensity.Low), Shown: shown.experiment(set.MeanLink.Low)}
		for _, e := range []*Experiment{&p.Logged, &p.Shown} {
			e.Share = float64(e.Pairs) / (logged.mean() * d.sums.Weight)
		}
		d.found.Prescription = p
	}
}

// fieldChances are the sums of a chance over the pairs of every field pair.
type fieldChances struct {
	at    map[fieldPair]*fieldChance
	cells []*fieldChance
}

type fieldChance struct {
	fieldPair
	same        bool
	weight, sum float64 // Σω, Σω·t
}

func (c *fieldChances) add(at fieldPair, same bool, weight, t float64) {
	if c.at == nil {
		c.at = map[fieldPair]*fieldChance{}
	}
	cell := c.at[at]
	if cell == nil {
		cell = &fieldChance{fieldPair: at, same: same}
		c.at[at], c.cells = cell, append(c.cells, cell)
	}
	cell.weight += weight
	cell.sum += weight * t
}

// mean is t.
func (c *fieldChances) mean() float64 {
	var weight, sum float64
	for _, cell := range c.cells {
		weight, sum = weight+cell.weight, sum+cell.sum
	}
	return sum / weight
}

// spread is W·√(t(1−t)), of a weight W that is not yet a share.
func (c *fieldChance) spread() float64 {
	t := c.sum / c.weight
	return c.weight * math.Sqrt(t*(1-t))
}

// experiment plans one for these chances, the mean of which may be as low as least.
func (c *fieldChances) experiment(least float64) (out Experiment) {
	var weight, spread float64
	for _, cell := range c.cells {
		weight, spread = weight+cell.weight, spread+cell.spread()
	}
	mean, wanted := c.mean(), math.Log(prescribedWidth)/(2*2.576)
	n := math.Pow(spread/weight/mean/wanted, 2)
	kinds := map[bool]float64{} // pairs of one field and of two, of which there must be enough to stand for all
	for _, cell := range c.cells {
		kinds[cell.same] += n * cell.spread() / spread
	}
	var until float64
	for _, cell := range c.cells {
		exact := n * cell.spread() / spread
		if all := kinds[cell.same]; all > 0 {
			exact *= math.Max(1, 2*fewestStanding/all)
		}
		until += exact * cell.sum / cell.weight
		count := int(math.Ceil(exact))
		if out.Pairs += count; cell.same {
			out.Same += count
		}
		out.Cells = append(out.Cells, ExperimentPairs{cell.source, cell.target, count})
	}
	out.Until = int(math.Ceil(until))
	out.Most = int(math.Ceil(float64(out.Pairs) * math.Max(mean/least, 1)))
	slices.SortFunc(out.Cells, func(a, b ExperimentPairs) int {
		return cmp.Or(cmp.Compare(b.Pairs, a.Pairs), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Target, b.Target))
	})
	return out
}
