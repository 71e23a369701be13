package fit

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/sample"
)

// Factors have no posterior whose matrix could be kept: its numbers are as many as the square of those of all people
// and items. Their nearest relative is the bootstrap: pairs, which are independent given the factors, are drawn anew
// with replacement, and everything is learned again from there, beginning at the result. How much the means then differ
// is how well they are known, given the model and its prior.

// replicated is what the means are when factors are learned again.
type replicated struct {
	cells []fieldPair // that occur
	// of every replicate, mean ŷ and then the mean π̂ of every cell
	values [][]float64
}

// mostReplicatedCells is up to how many pairs of fields have intervals of π̂ by replicates.
const mostReplicatedCells = 1 << 10

// replicates reports whether factors are learned again.
func (t *training) replicates() bool {
	return ofFactors(t.settings.Link) && t.settings.Replicates > 0 && t.result.earlier == nil
}

// few is by how much a standard error by so many replicates, two or more, is to be larger for a normal interval to
// hold.
func few(replicates int, level float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(replicates - 1)}.Quantile((1+level)/2) /
		distuv.UnitNormal.Quantile((1+level)/2)
}

// replicate learns factors again, as often as the settings say.
func (t *training) replicate() error {
	if !t.replicates() {
		return nil
	}
	s := t.using
	t.problemCells()
	r := t.result.replicated
	mode := append(slices.Clone(t.result.LinkParams), t.result.PropensityParams...)
	for len(r.values) < s.Replicates {
		number := len(r.values)
		t.phase = fmt.Sprintf("replicate %d of %d", number+1, s.Replicates)
		drawn := drawAgain(sample.Evidence{Pairs: t.objective.Pairs, Exposure: t.objective.Exposure},
			rand.New(rand.NewPCG(s.Seed, 1<<32+uint64(number))))
		if drawn.Pairs.Len() == 0 {
			return nil // of a handful of pairs, which say nothing
		}
		o := *t.objective
		o.Pairs, o.Exposure = drawn.Pairs, drawn.Exposure
		o.Precision = precisionFor(&o, MeanSquare(o.Link, o.Pairs), s.Ridge, s.LambdaL, standFor(&o, o.Pairs.Len()))
		again, err := t.minimise(&o, run{params: slices.Clone(mode)})
		if err != nil {
			return err
		}
		if again, err = t.level(&o, again); err != nil {
			return err
		}
		values, err := t.means(again.params)
		if err != nil {
			return err
		}
		r.values = append(r.values, values)
		t.recorder.settle(t)
		if err := t.recorder.tick(); err != nil {
			return err
		}
	}
	return nil
}

// problemCells numbers the pairs of fields that the means are of, unless a checkpoint brought means along.
func (t *training) problemCells() {
	if t.result.replicated == nil {
		t.result.replicated = &replicated{}
	}
	r, nodes, pairs := t.result.replicated, t.problem.Nodes, t.described()
	for k := range pairs.Len() {
		pair := fieldPair{nodes.Fields[pairs.Source[k]], nodes.Fields[pairs.Target[k]]}
		at, known := slices.BinarySearchFunc(r.cells, pair, compareFields)
		if known {
			continue
		}
		if len(r.cells) == mostReplicatedCells {
			r.cells = nil
			return
		}
		r.cells = slices.Insert(r.cells, at, pair)
	}
}

func compareFields(a, b fieldPair) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.target, b.target))
}

// described returns the training pairs that means are taken over: up to 262,144, evenly spaced.
func (t *training) described() *graph.Pairs { return describedOf(t.result.problem.Train) }

// means returns mean ŷ and the mean π̂ of every cell.
func (t *training) means(params []float32) ([]float64, error) {
	r, pairs, nodes := t.result, t.described(), t.problem.Nodes
	z, s, err := engine.Logits(t.ctx, t.using.engine(), predictorOf(t.objective, params), pairs)
	if err != nil {
		return nil, err
	}
	cells := r.replicated.cells
	out, weight := make([]float64, 1+len(cells)), make([]float64, 1+len(cells))
	for k, w := range pairs.Weight {
		y, _ := kern.Sigmoid64(float64(z[k]))
		pi, _ := kern.Sigmoid64(float64(s[k]))
		out[0] += w * y
		weight[0] += w
		if len(cells) == 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(cells, fieldPair{nodes.Fields[pairs.Source[k]],
			nodes.Fields[pairs.Target[k]]}, compareFields)
		out[1+at] += w * pi
		weight[1+at] += w
	}
	for i := range out {
		out[i] /= weight[i]
	}
	return out, nil
}

// drawAgain draws as many pairs with replacement as there are, about: each a Poisson number of times.
func drawAgain(e sample.Evidence, rng *rand.Rand) sample.Evidence {
	var places []int32
	for k := range e.Pairs.Len() {
		u, chance := rng.Float64(), math.Exp(-1)
		for times := 1.; u >= chance && times < 20; times++ {
			places = append(places, int32(k))
			u -= chance
			chance /= times
		}
	}
	return e.At(places)
}

// meanLinkError is the standard error of log mean ŷ; false where there are too few replicates to know.
func (r *replicated) meanLinkError() (float64, bool) {
	if r == nil || len(r.values) < 2 {
		return 0, false
	}
	var mean, squares float64
	for _, v := range r.values {
		mean += math.Log(v[0]) / float64(len(r.values))
	}
	for _, v := range r.values {
		far := math.Log(v[0]) - mean
		squares += far * far
	}
	return few(len(r.values), .95) * math.Sqrt(squares/float64(len(r.values)-1)), true
}

// covariance is that of the logits of the cells' mean π̂, with the place of every cell; nil where it is not known of
// all of some cells.
func (r *replicated) covariance(of []*cellSum) (v []float64, place map[fieldPair]int) {
	if r == nil || len(r.values) < 2 || len(r.cells) == 0 {
		return nil, nil
	}
	place = make(map[fieldPair]int, len(r.cells))
	for i, c := range r.cells {
		place[c] = i
	}
	for _, c := range of {
		if _, known := place[c.fieldPair]; !known {
			return nil, nil
		}
	}
	n, size := float64(len(r.values)), len(r.cells)
	means, logits := make([]float64, size), make([][]float64, len(r.values))
	for k, values := range r.values {
		for i, pi := range values[1:] {
			pi = math.Max(math.Min(pi, 1-1e-12), 1e-12)
			x := math.Log(pi / (1 - pi))
			logits[k] = append(logits[k], x)
			means[i] += x / n
		}
	}
	v = make([]float64, size*size)
	wider := math.Pow(few(len(r.values), .95), 2)
	for _, x := range logits {
		for i := range size {
			for j := range size {
				v[i*size+j] += (x[i] - means[i]) * (x[j] - means[j]) * wider / (n - 1)
			}
		}
	}
	return v, place
}
