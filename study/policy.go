package study

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/internal/amount"
	"unseen/risk"
)

var policy = Study{
	Name:  "policy",
	Title: "Policy: whether a log tells what another policy is worth",
	run:   runPolicy,
}

// policyKind is a kind of planted log.
type policyKind struct {
	name     string
	base     float64 // logit of an outcome, on average
	sharp    float64 // temperature of the log's rule
	rare     bool    // what the policy likes best is shown in one list of 20 to 200
	greedy   float64 // share of lists that have the log's favourite; 0 means a draw by the scores
	heavy    bool    // propensities have nothing to do with relevance, and differ by orders of magnitude
	places   int
	wrong    bool // the model of outcomes is the wrong way round
	readers  bool // a context has several lists, and readers differ
	promised bool // coverage is promised; else all should be refused
	times    int  // as many lists as other kinds
}

var policyKinds = []policyKind{
	{name: "plain", base: -1.5, sharp: 1.5, places: 1, promised: true, times: 1},
	{name: "few outcomes", base: -2.5, sharp: 1.5, places: 1, promised: true, times: 1},
	{name: "rare propensities", base: -1.5, sharp: 1, rare: true, places: 1, promised: true, times: 4},
	{name: "position bias", base: -1.5, greedy: .6, places: 4, promised: true, times: 1},
	{name: "wrong model", base: -1.5, sharp: 1.5, places: 1, wrong: true, promised: true, times: 1},
	{name: "readers", base: -1.5, sharp: 1.5, places: 1, readers: true, promised: true, times: 2},
	{name: "nearly deterministic", base: -1.5, greedy: .8, places: 1, promised: true, times: 1},
	{name: "heavy weights", base: -1.5, heavy: true, places: 1, promised: true, times: 4},
	{name: "heavy weights, rare outcomes", base: -5.5, heavy: true, places: 1, promised: true, times: 16},
	{name: "no support", base: -1.5, greedy: 1, places: 1, times: 1},
}

// The coverage that intervals of 95% should have.
const leastCoverage, mostCoverage = .93, .97

// Sizes of a planted log.
const (
	policyTypes, policyItems    = 40, 10
	fewestPolicyLists, mostMore = 500, 8 // lists, and how many times as many at most
)

// PolicyRow is the value of a policy by one log, beside the truth.
type PolicyRow struct {
	Kind   string                `json:"kind"`
	Seed   uint64                `json:"seed"`
	Log    int                   `json:"log"`
	Truth  float64               `json:"truth"`
	Logged float64               `json:"logged"` // the true value of what the log did
	Value  *evaluate.PolicyValue `json:"value"`
}

// answered reports whether the log could say.
func (r *PolicyRow) answered() bool { return r.Value.Reason == "" }

// holds reports whether an interval has the truth; of the difference where the name is "".
func (r *PolicyRow) holds(name string) bool {
	interval, truth := risk.Interval{}, r.Truth
	if name == "" {
		interval, truth = *r.Value.Difference, r.Truth-r.Logged
	} else {
		interval, _ = r.Value.Estimate(name)
	}
	return interval.Lower <= truth && truth <= interval.Upper
}

func runPolicy(ctx context.Context, l *lab) (*Result, error) {
	logs := 100
	if l.Quick {
		logs = 10
	}
	var rows []*PolicyRow
	var tasks []task
	for _, kind := range policyKinds {
		for _, seed := range l.Seeds {
			at := len(rows)
			for log := range logs {
				rows = append(rows, &PolicyRow{Kind: kind.name, Seed: seed, Log: log})
			}
			tasks = append(tasks, task{name: fmt.Sprintf("%s, seed %d", kind.name, seed), cost: float64(kind.times),
				do: func(context.Context) error {
					for _, row := range rows[at : at+logs] {
						if err := row.plant(kind); err != nil {
							return err
						}
					}
					return nil
				}})
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	return &Result{Rows: rows, Setting: []string{
		fmt.Sprintf("%s logs of each kind, each of a world of its own: %d kinds of contexts, %d items, the outcome "+
			"of each pair with a probability of its own. A log has %d to %s lists, twice that of readers, four times "+
			"that of rare propensities and heavy weights, and sixteen times that where outcomes are rare as well; %s.",
			amount.Text(len(l.Seeds)*logs), policyTypes,
			policyItems, fewestPolicyLists, amount.Text(fewestPolicyLists*mostMore), seedList(l.Seeds)),
		fmt.Sprintf("Refused: the log says as much as fewer than %d contexts or %d outcomes would, or lacks support. "+
			"Intervals are of 95%%, with contexts as independent units; the truth is the mean over all contexts, not "+
			"over those of the log.", evaluate.FewestEffective, evaluate.FewestOutcomes),
	}, Tables: []figure.Table{policyTable(rows)}, Claims: policyClaims(rows)}, nil
}

// plant draws a world and a log, and has the policy valued.
func (r *PolicyRow) plant(kind policyKind) (err error) {
	rng := rand.New(rand.NewPCG(r.Seed, 0x901c<<16+uint64(slices.IndexFunc(policyKinds,
		func(k policyKind) bool { return k.name == kind.name }))<<10+uint64(r.Log)))
	w := newPolicyWorld(kind, rng)
	r.Truth, r.Logged = w.value(w.target), w.value(w.logged)
	lists := w.log(kind.times*int(fewestPolicyLists*math.Pow(mostMore, rng.Float64())), rng)
	r.Value, err = evaluate.ValuePolicy(lists)
	return err
}

// policyWorld has the probability of an outcome by kind of context and item, and two rules: the probability of each
// item at each place.
type policyWorld struct {
	policyKind
	relevance, believed [][]float64
	logged, target      [][][]float64
	examined            []float64
}

func newPolicyWorld(kind policyKind, rng *rand.Rand) *policyWorld {
	w := &policyWorld{policyKind: kind}
	for p := range kind.places {
		w.examined = append(w.examined, 1/float64(p+1))
	}
	for range policyTypes {
		relevance, believed := make([]float64, policyItems), make([]float64, policyItems)
		logged, target := make([]float64, policyItems), make([]float64, policyItems)
		for j := range relevance {
			z := kind.base + 1.2*rng.NormFloat64()
			relevance[j], believed[j] = outcomeChance(z), outcomeChance(z+.5*rng.NormFloat64())
			if kind.wrong {
				believed[j] = outcomeChance(-z + 2*rng.NormFloat64())
			}
			logged[j], target[j] = .7*z+rng.NormFloat64(), z+.7*rng.NormFloat64()
			switch {
			case kind.heavy:
				logged[j] = 1.5 * rng.NormFloat64()
			case kind.greedy == .8: // most favourites are shared
				logged[j] = target[j] + .25*rng.NormFloat64()
			}
		}
		w.relevance, w.believed = append(w.relevance, relevance), append(w.believed, believed)
		w.logged, w.target = append(w.logged, w.rule(logged, target, kind.greedy, kind.sharp, rng)),
			append(w.target, w.rule(target, nil, w.targetGreed(), .7, rng))
	}
	return w
}

// outcomeChance leaves room for readers who like everything half as much more.
func outcomeChance(z float64) float64 { return .65 / (1 + math.Exp(-z)) }

// targetGreed is in which share of lists the policy shows its favourites; 0 means a draw by the scores.
func (w *policyWorld) targetGreed() float64 {
	switch {
	case w.places > 1:
		return .9
	case w.greedy > 0:
		return .95
	}
	return 0
}

// rule returns the probability of each item at each place: by scores, or the best ones in a share of the lists and a
// random order in the others.
func (w *policyWorld) rule(scores, rival []float64, greedy, sharp float64, rng *rand.Rand) [][]float64 {
	at := make([][]float64, len(scores))
	order := descending(scores)
	for j := range at {
		at[j] = make([]float64, w.places)
		for p := range at[j] {
			if at[j][p] = (1 - greedy) / float64(len(scores)); order[p] == j {
				at[j][p] += greedy
			}
		}
	}
	if greedy > 0 {
		return at
	}
	if sharp == 0 {
		sharp = 1
	}
	var sum float64
	for j, x := range scores {
		at[j][0] = math.Exp(x / sharp)
		sum += at[j][0]
	}
	for j := range at {
		at[j][0] /= sum
	}
	if w.rare && rival != nil {
		best := descending(rival)[0]
		chance := .005 * math.Pow(10, rng.Float64())
		rest := (1 - chance) / (1 - at[best][0])
		for j := range at {
			at[j][0] *= rest
		}
		at[best][0] = chance
	}
	return at
}

// descending returns the numbers of the scores, the best first.
func descending(scores []float64) []int {
	order := make([]int, len(scores))
	for j := range order {
		order[j] = j
	}
	slices.SortFunc(order, func(a, b int) int {
		if scores[a] > scores[b] {
			return -1
		}
		return 1
	})
	return order
}

// value is the mean outcome of an item that a rule shows.
func (w *policyWorld) value(rule [][][]float64) (v float64) {
	for s, at := range rule {
		for j := range at {
			for p, x := range w.examined {
				v += at[j][p] * x * w.relevance[s][j] / float64(policyTypes*w.places)
			}
		}
	}
	return v
}

// log draws lists, as many or, of the last reader, a few more.
func (w *policyWorld) log(lists int, rng *rand.Rand) (out []evaluate.PolicyList) {
	for context := 0; len(out) < lists; context++ {
		s, of, likes := rng.IntN(policyTypes), 1, 1.
		if w.readers {
			of, likes = 1+int(4*rng.ExpFloat64()), .5+float64(rng.IntN(2))
		}
		var expected float64
		for j := range policyItems {
			for p, x := range w.examined {
				expected += w.target[s][j][p] * x * w.believed[s][j]
			}
		}
		for range of {
			l := evaluate.PolicyList{Context: context, Length: float64(w.places), Expected: expected}
			for p, j := range w.draw(s, rng) {
				item := evaluate.PolicyItem{Logged: w.logged[s][j][p], Target: w.target[s][j][p],
					Expected: w.examined[p] * w.believed[s][j]}
				if rng.Float64() < w.examined[p]*w.relevance[s][j]*likes {
					item.Outcome = 1
				}
				l.Items = append(l.Items, item)
			}
			out = append(out, l)
		}
	}
	return out
}

// draw returns what the log's rule shows.
func (w *policyWorld) draw(s int, rng *rand.Rand) []int {
	at := w.logged[s]
	if w.places == 1 {
		x := rng.Float64()
		for j := range at {
			if x -= at[j][0]; x < 0 {
				return []int{j}
			}
		}
		return []int{slices.IndexFunc(at, func(of []float64) bool { return of[0] > 0 })} // rounding
	}
	order := rng.Perm(policyItems)
	if rng.Float64() < w.greedy {
		for j := range at {
			for p := range w.places {
				if at[j][p] > w.greedy {
					order[p] = j
				}
			}
		}
	}
	return order[:w.places]
}

// policyEstimates are the columns of the table; "" is the difference from what the log did.
var policyEstimates = []string{evaluate.SNIPS, evaluate.DR, evaluate.BoundedDR, ""}

// policyTable has a row per kind.
func policyTable(rows []*PolicyRow) figure.Table {
	t := figure.Table{Name: "coverage", Title: "How often intervals of 95% have the truth in them, among answered logs",
		Head: "log", Columns: []figure.Column{{Name: "answered"}, {Name: "SNIPS", Digits: 1},
			{Name: "DR", Digits: 1}, {Name: "bounded DR", Digits: 1},
			{Name: "difference", Means: "of bounded DR from what the log did", Digits: 1},
			{Name: "width", Means: "median, of bounded DR", Digits: 3},
			{Name: "SNIPS width", Means: "median", Digits: 3},
			{Name: "effective", Means: "median effective number of contexts", Digits: 0}}}
	for _, kind := range policyKinds {
		of := filter(rows, func(r *PolicyRow) bool { return r.Kind == kind.name })
		answered := filter(of, (*PolicyRow).answered)
		cells := []figure.Cell{figure.Ratio(len(answered), len(of))}
		for _, name := range policyEstimates {
			if len(answered) == 0 {
				cells = append(cells, figure.Text("–"))
				continue
			}
			cells = append(cells, figure.Number(100*policyCoverage(answered, name)))
		}
		var widths, usual, effective []float64
		for _, r := range answered {
			i, _ := r.Value.Estimate(evaluate.BoundedDR)
			s, _ := r.Value.Estimate(evaluate.SNIPS)
			widths, usual = append(widths, i.Upper-i.Lower), append(usual, s.Upper-s.Lower)
		}
		for _, r := range of {
			effective = append(effective, r.Value.Effective)
		}
		for _, column := range [][]float64{widths, usual, effective} {
			cells = append(cells, figure.Number(median(column)))
		}
		t.Add(kind.name, cells...)
	}
	return t
}

// policyCoverage is the share of logs whose interval has the truth.
func policyCoverage(rows []*PolicyRow, name string) float64 {
	return float64(len(filter(rows, func(r *PolicyRow) bool { return r.holds(name) }))) / float64(len(rows))
}

// policyClaims are the goals, which were stated before the run.
func policyClaims(rows []*PolicyRow) []Claim {
	var claims []Claim
	for _, name := range policyEstimates {
		met := true
		var shares []string
		for _, kind := range policyKinds {
			answered := filter(rows, func(r *PolicyRow) bool { return r.Kind == kind.name && r.answered() })
			if !kind.promised {
				continue
			}
			if len(answered) == 0 {
				met = false
				shares = append(shares, kind.name+" none answered")
				continue
			}
			share := policyCoverage(answered, name)
			met = met && leastCoverage <= share && share <= mostCoverage
			shares = append(shares, fmt.Sprintf("%s %.1f%% of %s", kind.name, 100*share, amount.Text(len(answered))))
		}
		of := name
		if of == "" {
			of = "the difference from what the log did"
		}
		claims = append(claims, Claim{fmt.Sprintf("The interval of %s has the truth in 93 to 97%% of the answered "+
			"logs of every kind", of), metIf(met), "It has in: " + strings.Join(shares, ", ") + "."})
	}
	without := filter(rows, func(r *PolicyRow) bool { return r.Kind == "no support" })
	answered := len(filter(without, (*PolicyRow).answered))
	return append(claims, Claim{"A log that could not show what the policy shows is never answered",
		metIf(answered == 0), fmt.Sprintf("%d of %d are.", answered, len(without))})
}
