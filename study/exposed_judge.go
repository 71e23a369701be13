package study

import (
	"cmp"
	"math"
	"slices"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/risk"
)

// ExposedRow is a method in a mode on a set, judged on held-out pairs that were shown to people without a log in
// training, over all seeds.
type ExposedRow struct {
	Set    string `json:"set"`
	Mode   string `json:"mode"`
	Method string `json:"method"`

	AUC         figure.Value `json:"auc"`         // within a person, mean over people
	NDCG        figure.Value `json:"ndcg"`        // at 5, likewise
	LogLoss     figure.Value `json:"logLoss"`     // of ŷ
	MSE         figure.Value `json:"mse"`         // of ŷ
	Calibration figure.Value `json:"calibration"` // mean |ŷ − share liked| over ten bins
	Pooled      figure.Value `json:"pooled"`      // AUC over all pairs

	// Share of the way from naive over all pairs to shown only with a complete log.
	GapAUC     figure.Value `json:"gapAUC"`
	GapLogLoss figure.Value `json:"gapLogLoss"`

	// AUC within a person, less that of naive over available pairs, with the interval of 95% over people.
	Gain risk.Interval `json:"gain"`

	MeanPropensity  figure.Value `json:"meanPropensity"`  // π̂ over the pairs that were available
	ShownShare      figure.Value `json:"shownShare"`      // of these, by the log
	ShownAUC        figure.Value `json:"shownAUC"`        // of π̂ for what was shown
	ItemCorrelation figure.Value `json:"itemCorrelation"` // of π̂ and the shown share, over items

	Seconds figure.Value `json:"seconds"` // of a fit, mean over seeds

	verdict judged
}

// judged is what a method in a mode is worth to every person, over the seeds.
type judged struct {
	people      map[int32]*personal
	pooled      []float64 // by seed, as is calibration
	calibration []float64
	seen, liked []float64 // bins of the first seed: mean ŷ and the share liked
}

// personal are sums over the seeds in which a person is judged.
type personal struct {
	lists     float64 // with both liked pairs and others
	auc, ndcg float64 // sums over lists
	pairs     float64
	loss, mse float64 // sums over pairs
}

// judge judges a method in a mode; nil where it was not tried.
func judge(draws []*exposedDraw, m exposedMode, method string) *judged {
	out := &judged{people: map[int32]*personal{}}
	for k, d := range draws {
		f := d.of(m, method)
		if f == nil {
			return nil
		}
		logged := d.loggedPeople(m)
		var scores []float64
		var liked []bool
		of := map[int32][]int{}
		for at, p := range d.test {
			if logged != nil && logged[p.Person] {
				continue
			}
			of[p.Person] = append(of[p.Person], at)
			scores, liked = append(scores, 1/(1+math.Exp(-f.logits[at]))), append(liked, p.Liked)
		}
		for person, places := range of {
			at := out.people[person]
			if at == nil {
				at = &personal{}
				out.people[person] = at
			}
			at.add(d.test, f.logits, places)
		}
		out.pooled = append(out.pooled, aucOf(scores, liked))
		seen, share, err := evaluate.Scored{Scores: scores, Linked: liked}.Calibration(10)
		off := math.NaN()
		if err == nil {
			off = 0
			for b := range seen {
				off += math.Abs(seen[b]-share[b]) / float64(len(seen))
			}
		}
		if out.calibration = append(out.calibration, off); k == 0 {
			out.seen, out.liked = seen, share
		}
	}
	return out
}

// add adds a person's pairs of one seed.
func (p *personal) add(test []ShownPair, logits []float64, places []int) {
	scores, liked := make([]float64, len(places)), make([]bool, len(places))
	for k, at := range places {
		z := logits[at]
		scores[k], liked[k] = z, test[at].Liked
		y, sign := 0., 1.
		if liked[k] {
			y, sign = 1, -1
		}
		p.pairs++
		p.loss += math.Max(sign*z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
		off := 1/(1+math.Exp(-z)) - y
		p.mse += off * off
	}
	if !slices.Contains(liked, true) || !slices.Contains(liked, false) {
		return
	}
	p.lists++
	p.auc += aucOf(scores, liked)
	p.ndcg += ndcgOf(scores, liked, 5)
}

// aucOf is the AUC of scores, NaN where all are of one kind.
func aucOf(scores []float64, liked []bool) float64 {
	auc, err := evaluate.Scored{Scores: scores, Linked: liked}.AUC()
	if err != nil {
		return math.NaN()
	}
	return auc
}

// ndcgOf is the NDCG of the first k by score; equal scores keep their order.
func ndcgOf(scores []float64, liked []bool, k int) float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var gain, best float64
	wanted := 0
	for _, is := range liked {
		if is {
			wanted++
		}
	}
	for place := range min(k, len(order)) {
		discount := 1 / math.Log2(float64(place)+2)
		if liked[order[place]] {
			gain += discount
		}
		if place < wanted {
			best += discount
		}
	}
	return gain / best
}

// measure is a sum and a count of a person, whose ratio over people is a mean.
type measure func(p *personal) (sum, count float64)

func withinAUC(p *personal) (sum, count float64)  { return p.auc, p.lists }
func withinNDCG(p *personal) (sum, count float64) { return p.ndcg, p.lists }
func logLoss(p *personal) (sum, count float64)    { return p.loss, p.pairs }
func squares(p *personal) (sum, count float64)    { return p.mse, p.pairs }

// mean is that of a measure over people.
func (j *judged) mean(m measure) float64 {
	var sum, count float64
	for _, i := range sortedPeople(j) {
		s, c := m(j.people[i])
		sum, count = sum+s, count+c
	}
	return sum / count
}

func sortedPeople(j *judged) []int32 {
	people := make([]int32, 0, len(j.people))
	for i := range j.people {
		people = append(people, i)
	}
	slices.Sort(people)
	return people
}

// difference is the mean of a measure less that of another method on the same pairs, with its interval of 95% over
// people: with sums d_i and counts n_i of people, the mean Δ = Σd/Σn has the standard error √Σ(d_i − Δn_i)²/Σn. Several
// sets are pooled, each pair with equal weight.
func difference(m measure, pairs ...[2]*judged) risk.Interval {
	var sum, count float64
	type one struct{ d, n float64 }
	var all []one
	for _, p := range pairs {
		for _, i := range sortedPeople(p[0]) {
			mine, n := m(p[0].people[i])
			other, _ := m(p[1].people[i])
			all = append(all, one{mine - other, n})
			sum, count = sum+mine-other, count+n
		}
	}
	mean, square := sum/count, 0.
	for _, o := range all {
		square += (o.d - mean*o.n) * (o.d - mean*o.n)
	}
	half := 1.96 * math.Sqrt(square) / count
	return risk.Interval{Estimate: mean, Lower: mean - half, Upper: mean + half, Level: .95,
		StandardError: half / 1.96}
}

// exposedRows judges every method in every mode on a set.
func exposedRows(set *ShownSet, draws []*exposedDraw) (rows []*ExposedRow) {
	for _, m := range exposedModes {
		from, to := judge(draws, m, naiveAll), judgeAs(draws, m, complete, shownPairsOnly)
		base := judge(draws, m, naiveAvailable)
		for _, method := range []string{naiveAll, naiveAvailable, recalibrated, shownPairsOnly, ours, robustly} {
			j := judge(draws, m, method)
			if j == nil || set.Since == nil && method == naiveAvailable {
				continue
			}
			r := &ExposedRow{Set: set.Name, Mode: m.name, Method: method, AUC: figure.Value(j.mean(withinAUC)),
				NDCG: figure.Value(j.mean(withinNDCG)), LogLoss: figure.Value(j.mean(logLoss)),
				MSE: figure.Value(j.mean(squares)), Calibration: figure.Value(mean(j.calibration)),
				Pooled: figure.Value(mean(j.pooled)), Gain: difference(withinAUC, [2]*judged{j, base}), verdict: *j}
			gap := func(m measure) figure.Value {
				return figure.Value((j.mean(m) - from.mean(m)) / (to.mean(m) - from.mean(m)))
			}
			r.GapAUC, r.GapLogLoss = gap(withinAUC), gap(logLoss)
			r.propensities(draws, m, method)
			rows = append(rows, r)
		}
	}
	return rows
}

// judgeAs judges a method that was trained in another mode on the people that a mode judges.
func judgeAs(draws []*exposedDraw, m, trained exposedMode, method string) *judged {
	moved := make([]*exposedDraw, len(draws))
	for k, d := range draws {
		one := *d
		one.fits = map[fitOf]*exposedFit{{m.name, method}: d.of(trained, method)}
		moved[k] = &one
	}
	return judge(moved, m, method)
}

// propensities are means over the seeds of how π̂ fits the log, where the method has one.
func (r *ExposedRow) propensities(draws []*exposedDraw, m exposedMode, method string) {
	n := figure.Value(len(draws))
	for _, d := range draws {
		f := d.of(m, method)
		r.Seconds += figure.Value(f.seconds) / n
		r.MeanPropensity += figure.Value(f.mean) / n
		r.ShownShare += figure.Value(f.share) / n
		r.ShownAUC += figure.Value(f.shownAUC) / n
		r.ItemCorrelation += figure.Value(f.items) / n
	}
	if method != ours && method != robustly {
		missing := figure.Value(math.NaN())
		r.MeanPropensity, r.ShownShare, r.ShownAUC, r.ItemCorrelation = missing, missing, missing, missing
	}
}
