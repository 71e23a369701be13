package recommend

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"unseen/evaluate"
	"unseen/internal/kern"
	"unseen/progress"
)

// DialKind marks the JSON document of a Dial.
const DialKind = "unseen-dial"

// DialSetting is where the dials of a list stand; see Query.
type DialSetting struct {
	Diversity float64 `json:"diversity"`
	Explore   float64 `json:"explore"`
}

// SweepSettings say over which lists and settings to sweep.
type SweepSettings struct {
	K        int // of the lists; 0 means 10
	Held     *evaluate.Candidates
	Settings []DialSetting // nil means DefaultSettings
	Seed     uint64        // of what is explored
	Progress progress.Func
}

// DefaultSettings are diversities of 0, .1, … 1.
func DefaultSettings() []DialSetting {
	var out []DialSetting
	for x := range 11 {
		out = append(out, DialSetting{Diversity: float64(x) / 10})
	}
	return out
}

// Sweep is what lists of held-out sources are worth at every setting, source by source.
type Sweep struct {
	Name     string   // of the model
	Method   string   // that it was fitted by
	LambdaR  *float64 // weight of the risk that it was fitted with, where that is swept too
	K        int
	Settings []DialSetting

	recall, entropy, found [][]float64 // by setting and source; found is NaN where nothing was found
}

// Sweep makes lists for held-out sources at every setting. A list may have only what a source could have linked to,
// and its real links among that are what recall is of. Results do not depend on the number of threads.
func (r *Recommender) Sweep(ctx context.Context, s SweepSettings) (*Sweep, error) {
	if s.K == 0 {
		s.K = 10
	}
	if s.Settings == nil {
		s.Settings = DefaultSettings()
	}
	if s.Held == nil {
		return nil, fmt.Errorf("%w: no held-out sources with their links to sweep over", ErrQuery)
	}
	n := len(s.Held.Sources())
	out := &Sweep{Method: r.model.Method, K: s.K, Settings: s.Settings}
	var queries []Query
	for _, at := range s.Settings {
		q := Query{Source: r.Node(s.Held.Sources()[0]), K: s.K, Linked: true, Before: s.Held.Before(),
			Diversity: at.Diversity, Explore: at.Explore, Seed: s.Seed}
		if err := r.validate(q); err != nil {
			return nil, err
		}
		queries = append(queries, q)
		out.recall, out.entropy, out.found = append(out.recall, make([]float64, n)),
			append(out.entropy, make([]float64, n)), append(out.found, make([]float64, n))
	}
	var mu sync.Mutex
	done := progress.Event{Phase: "making lists", Of: int64(n)}
	if err := kern.ChunksErr(ctx, n, 1, r.threads, func(_, at, _, _ int) error {
		if err := r.sweepOne(ctx, out, queries, s.Held, at); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done.Done++
		s.Progress.Report(done)
		return nil
	}); err != nil {
		return nil, err
	}
	return out, nil
}

// sweepOne judges the lists of one source.
func (r *Recommender) sweepOne(ctx context.Context, out *Sweep, queries []Query, held *evaluate.Candidates,
	at int) error {
	room := r.enter(nil)
	defer r.rooms.Put(room)
	source := r.Node(held.Sources()[at])
	q := queries[0]
	q.Source, q.Exclude = source, held.Known(at)
	if err := r.validate(q); err != nil {
		return err
	}
	r.candidates(room, q)
	if err := r.score(ctx, room.by, r.ranker, source, room.kept); err != nil {
		return err
	}
	for p, q := range queries {
		q.Source, q.Exclude = source, held.Known(at)
		var list []int32
		for _, c := range r.choose(ctx, room, room.by, q) {
			list = append(list, c.node)
		}
		hits, err := evaluate.RankList(list, held.Links(at))
		if err != nil {
			return err
		}
		if out.recall[p][at], err = (evaluate.Ranking{hits}).Recall(q.K); err != nil {
			return err
		}
		if out.found[p][at], err = (evaluate.Ranking{hits}).FieldEntropy(r.g.Fields(), q.K); err != nil {
			out.found[p][at] = math.NaN() // nothing was found, so it has no fields
		}
		all, err := evaluate.RankList(list, list)
		if err != nil {
			return err
		}
		if len(list) == 0 { // the very first node has no candidate
			continue
		}
		if out.entropy[p][at], err = (evaluate.Ranking{all}).FieldEntropy(r.g.Fields(), q.K); err != nil {
			return err
		}
	}
	return nil
}

// Dial shows what turning the dials costs and brings: Recall@K against the entropy of fields@K, over held-out
// sources. Its JSON form is a file that reports are made of.
type Dial struct {
	Kind     string      `json:"kind"`
	Model    string      `json:"model"`
	Dataset  string      `json:"dataset"`
	Held     string      `json:"held"` // how the sources were held out, in words
	K        int         `json:"k"`
	Sources  int         `json:"sources"`
	Of       int         `json:"of"` // sources there were to draw from
	Links    int         `json:"links"`
	Seed     uint64      `json:"seed"`
	Curves   []DialCurve `json:"curves"` // the first begins with the model as it is
	Warnings []string    `json:"warnings,omitempty"`
}

// DialCurve is one model with one dial turned.
type DialCurve struct {
	Name    string      `json:"name"`
	Method  string      `json:"method"`
	LambdaR *float64    `json:"lambdaR,omitempty"`
	Points  []DialPoint `json:"points"`
}

// DialPoint is a setting and what it is worth. Intervals are of which sources were looked at. Loss and Gain compare
// with the model as it is, source by source, and their intervals are much narrower than those of Recall and Entropy.
type DialPoint struct {
	DialSetting
	Recall  evaluate.Band  `json:"recall"`          // share of a source's links in its list
	Entropy evaluate.Band  `json:"entropy"`         // of the fields in a list, in nats
	Found   *evaluate.Band `json:"found,omitempty"` // entropy of the fields of the links in a list, over lists with any
	Loss    evaluate.Band  `json:"loss"`            // of recall
	Gain    evaluate.Band  `json:"gain"`            // of entropy
}

// NewDial puts sweeps over the same sources together. The first setting of the first sweep is what all others are
// compared with. draws of 0 mean evaluate.DefaultDraws.
func NewDial(sweeps []*Sweep, held *evaluate.Candidates, draws int, seed uint64) (*Dial, error) {
	if len(sweeps) == 0 || len(sweeps[0].Settings) == 0 {
		return nil, fmt.Errorf("%w: there is no sweep to show", ErrQuery)
	}
	n := len(held.Sources())
	d := &Dial{Kind: DialKind, K: sweeps[0].K, Sources: n, Of: held.Of(), Seed: seed}
	for place := range n {
		links := held.Links(place)
		d.Links += len(links)
	}
	var rows [][3][]float64 // recall, entropy, found
	for _, s := range sweeps {
		for p := range s.Settings {
			if len(s.recall[p]) != n || s.K != d.K {
				return nil, fmt.Errorf("%w: sweeps over %d and %d sources, of %d and %d; sweep over the same",
					ErrQuery, n, len(s.recall[p]), d.K, s.K)
			}
			rows = append(rows, [3][]float64{s.recall[p], s.entropy[p], s.found[p]})
		}
	}
	mean := func(x, times []float64) float64 {
		var sum, weight float64
		for i, v := range x {
			if times[i] > 0 && !math.IsNaN(v) {
				sum += times[i] * v
				weight += times[i]
			}
		}
		return sum / weight // NaN of none
	}
	const each = 5
	bands := evaluate.Bootstrap(n, draws, seed, func(times []float64) []float64 {
		out := make([]float64, 0, each*len(rows))
		for _, row := range rows {
			recall, entropy := mean(row[0], times), mean(row[1], times)
			first, second := recall, entropy
			if len(out) > 0 {
				first, second = out[0], out[1]
			}
			out = append(out, recall, entropy, first-recall, entropy-second, mean(row[2], times))
		}
		return out
	})
	for _, s := range sweeps {
		curve := DialCurve{Name: s.Name, Method: s.Method, LambdaR: s.LambdaR}
		for _, at := range s.Settings {
			p := DialPoint{DialSetting: at, Recall: bands[0], Entropy: bands[1], Loss: bands[2], Gain: bands[3]}
			if found := bands[4]; !math.IsNaN(found.Value) {
				p.Found = &found
			}
			curve.Points = append(curve.Points, p)
			bands = bands[each:]
		}
		d.Curves = append(d.Curves, curve)
	}
	return d, nil
}

// Words says in sentences what the dials cost and bring.
func (d *Dial) Words() []string {
	if len(d.Curves) == 0 || len(d.Curves[0].Points) == 0 {
		return nil
	}
	base := d.Curves[0].Points[0]
	out := []string{fmt.Sprintf("Without changes, a list of %d has %.1f%% of a node's links (95%% interval %.1f to "+
		"%.1f), and the entropy of its fields is %.2f nats, as if %.1f fields shared it evenly.",
		d.K, 100*base.Recall.Value, 100*base.Recall.Lower, 100*base.Recall.Upper, base.Entropy.Value,
		math.Exp(base.Entropy.Value))}
	for k, curve := range d.Curves {
		points := curve.Points
		if k == 0 {
			points = points[1:]
		}
		if len(points) == 0 {
			continue
		}
		name := ""
		if curve.LambdaR != nil {
			name = curve.Name + ", "
		}
		free := -1 // the last before a loss can be told from chance
		for free+1 < len(points) && !(points[free+1].Loss.Lower > 0) {
			free++
		}
		worth := []int{free, knee(points, base), len(points) - 1}
		slices.Sort(worth)
		for _, p := range slices.Compact(worth) {
			if p >= 0 {
				out = append(out, name+d.Cost(points[p])+".")
			}
		}
	}
	return out
}

// Cost says in words what one setting costs and brings: “x = .3 gives up 2.1 points of Recall@10 for .4 nats of
// entropy”.
func (d *Dial) Cost(p DialPoint) string {
	at := "x = " + plainShare(p.Diversity)
	switch {
	case p.Explore > 0:
		at = "e = " + plainShare(p.Explore)
	case p.Diversity == 0:
		at = "x = 0"
	}
	points := func(b evaluate.Band) string {
		return fmt.Sprintf("%.1f points of Recall@%d (%.1f to %.1f)", 100*b.Value, d.K, 100*b.Lower, 100*b.Upper)
	}
	turned := func(b evaluate.Band) evaluate.Band {
		return evaluate.Band{Value: -b.Value, Lower: -b.Upper, Upper: -b.Lower}
	}
	nats := func(b evaluate.Band) string {
		return fmt.Sprintf("%.2f nats of entropy (%.2f to %.2f)", b.Value, b.Lower, b.Upper)
	}
	less, more := p.Loss.Lower > 0, p.Loss.Upper < 0 // beyond chance
	gains, loses := p.Gain.Lower > 0, p.Gain.Upper < 0
	switch {
	case p.Loss == (evaluate.Band{}) && p.Gain == (evaluate.Band{}):
		return at + " changes nothing"
	case less && gains:
		return at + " gives up " + points(p.Loss) + " for " + nats(p.Gain)
	case less && loses:
		return at + " gives up " + points(p.Loss) + " and " + nats(turned(p.Gain))
	case less:
		return at + " gives up " + points(p.Loss) + " without a measurable gain in entropy"
	case more && gains:
		return at + " gains " + points(turned(p.Loss)) + " and " + nats(p.Gain)
	case more && loses:
		return at + " gains " + points(turned(p.Loss)) + " for " + nats(turned(p.Gain)) + " less"
	case more:
		return at + " gains " + points(turned(p.Loss)) + " at the same entropy"
	case gains:
		return at + " brings " + nats(p.Gain) + " without a measurable loss of recall" +
			fmt.Sprintf(" (%.1f points, %.1f to %.1f)", 100*p.Loss.Value, 100*p.Loss.Lower, 100*p.Loss.Upper)
	case loses:
		return at + " loses " + nats(turned(p.Gain)) + " without a measurable change of recall"
	}
	return at + " changes neither recall nor entropy measurably"
}

// knee is the point with the most entropy for its recall: the one farthest above the straight line from the model as
// it is to the last point. −1 if none is.
func knee(points []DialPoint, base DialPoint) int {
	last := points[len(points)-1]
	loss, gain := base.Recall.Value-last.Recall.Value, last.Entropy.Value-base.Entropy.Value
	if !(loss > 0 && gain > 0) {
		return -1
	}
	at, most := -1, 0.
	for k, p := range points {
		above := (p.Entropy.Value-base.Entropy.Value)/gain - (base.Recall.Value-p.Recall.Value)/loss
		if above > most+1e-9 {
			at, most = k, above
		}
	}
	return at
}

func plainShare(x float64) string {
	text := fmt.Sprintf("%.4g", x)
	return strings.TrimPrefix(text, "0")
}
