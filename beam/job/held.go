package job

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// HeldRisks is what all held-out pairs say of a model. Intervals are over sources and take π̂ and ŷ for known.
type HeldRisks struct {
	Pairs int64      `json:"pairs"`
	Risks []HeldRisk `json:"risks"` // by the schemes of risk.Panel
	AUC   *float64   `json:"auc"`   // of ŷ; nil where no pair is linked, or all are
	// AUCWithin is how far AUC can be from that of every logit: logits are counted in bins.
	AUCWithin float64 `json:"aucWithin"`
}

// HeldRisk is a risk by one estimator.
type HeldRisk struct {
	Scheme string        `json:"scheme"`
	Risk   evaluate.Band `json:"risk"`
	// Against is by how much the risk is above that of the first model, by the same π̂ and ŷ; nil for the first
	// itself.
	Against *evaluate.Band `json:"against,omitempty"`

	drawn, apart []float64 // the risk and the difference of every replicate
}

// HeldSettings say how intervals are found.
type HeldSettings struct {
	Floor float64 // of π̂
	Draws int     // replicates of the bootstrap; 0 means 200
	Seed  uint64
}

// HeldRisks judges models by all held-out pairs, by the π̂ and ŷ of the first. One job sums the risks of every
// replicate of a bootstrap over sources: in replicate b the pairs of a source count as often as a Poisson variable of
// mean 1 says (Hanley and MacGibbon, 2006). It is drawn by a hash of the source and b, so that all shards draw the
// same.
func (e *Cluster) HeldRisks(ctx context.Context, by []engine.Predictor, s HeldSettings) ([]HeldRisks, error) {
	if len(e.Manifest.Test) == 0 {
		return nil, e.noneHeld()
	}
	if s.Draws == 0 {
		s.Draws = 200
	}
	if s.Draws < 2 || len(by) == 0 {
		return nil, fmt.Errorf("%w: %d models and %d replicates of a bootstrap; give at least 1 and 2", fit.ErrSetting,
			len(by), s.Draws)
	}
	p := e.plan("risks")
	p.Held = &heldPlan{HeldSettings: s}
	for _, one := range by {
		file, err := e.pack(ctx, model.Model{Link: one.Link, LinkParams: one.LinkParams, Propensity: one.Propensity,
			PropensityParams: one.PropensityParams, Method: "judge"})
		if err != nil {
			return nil, err
		}
		p.Held.Models = append(p.Held.Models, file)
	}
	width := p.Held.width()
	want := (1+s.Draws)*width + 2*aucBins*len(by)
	p.Fan = fanFor(want)
	sum, err := e.sum(ctx, p, tasksOf(e.Manifest.Test), "held-out-risks")
	if err != nil {
		return nil, err
	}
	if len(sum.Values) != want || !(sum.Values[0] > 0) {
		return nil, fmt.Errorf("%w: %d sums of held-out pairs came back, where %d were asked for", ErrJob,
			len(sum.Values), want)
	}
	replicates := slices.Collect(slices.Chunk(sum.Values[:(1+s.Draws)*width], width))
	bins := sum.Values[(1+s.Draws)*width:]
	out := make([]HeldRisks, len(by))
	for k := range out {
		out[k] = HeldRisks{Pairs: sum.Pairs}
		for i, scheme := range risk.Panel() {
			out[k].Risks = append(out[k].Risks, bandsOf(replicates, scheme, 1+i, 1+k*len(risk.Panel())+i))
		}
		out[k].AUC, out[k].AUCWithin = binnedAUC(bins[2*aucBins*k : 2*aucBins*(k+1)])
	}
	return out, nil
}

// bandsOf makes the interval of one sum over the weight, and of its difference from that of the first model.
func bandsOf(replicates [][]float64, scheme string, first, at int) HeldRisk {
	out := HeldRisk{Scheme: scheme}
	for b, sums := range replicates {
		if sums[0] == 0 { // no source was drawn
			continue
		}
		value, apart := sums[at]/sums[0], (sums[at]-sums[first])/sums[0]
		if b == 0 {
			out.Risk.Value = value
			if at != first {
				out.Against = &evaluate.Band{Value: apart}
			}
			continue
		}
		out.drawn, out.apart = append(out.drawn, value), append(out.apart, apart)
	}
	out.Risk.Lower, out.Risk.Upper = risk.QuantileInterval(slices.Sorted(slices.Values(out.drawn)), .95)
	if out.Against != nil {
		out.Against.Lower, out.Against.Upper = risk.QuantileInterval(slices.Sorted(slices.Values(out.apart)), .95)
	}
	return out
}

// heldPlan is what the workers of HeldRisks share.
type heldPlan struct {
	HeldSettings
	Models [][]byte `json:"models"` // files
}

// width is how many sums a replicate has: the weight, and of every model the risk by every scheme.
func (h *heldPlan) width() int { return 1 + len(h.Models)*len(risk.Panel()) }

// heldRisks sums a shard of held-out pairs.
func (p *plan) heldRisks(ctx context.Context, t *task) (numbered, error) {
	part, err := p.shards().Load(ctx, p.Layout, *t.Shard, nil, p.Threads)
	if err != nil {
		return numbered{}, err
	}
	defer part.Close()
	w := &heldSums{heldPlan: p.Held, sums: make([]float64, (1+p.Held.Draws)*p.Held.width())}
	for _, name := range risk.Panel() {
		scheme, err := risk.Lookup(name)
		if err != nil {
			return numbered{}, err
		}
		w.schemes = append(w.schemes, scheme)
	}
	var bins []float64
	for k, file := range p.Held.Models {
		one, err := p.predictorFor(ctx, file, part.Nodes)
		if err != nil {
			return numbered{}, err
		}
		z, s, err := engine.Logits(ctx, engine.CPU{Threads: p.Threads}, one, part.Pairs)
		if err != nil {
			return numbered{}, err
		}
		if w.logits = append(w.logits, z); k == 0 {
			w.exposure = s
		}
		bins = append(bins, countLogits(z, part.Pairs)...)
	}
	for _, k := range bySource(part.Pairs.Source) {
		seen := risk.Observation{Linked: part.Pairs.Linked[k]}
		if part.Exposure != nil {
			seen.Exposure = part.Exposure[k]
		}
		if err := w.add(int(k), part.Nodes.Number(part.Pairs.Source[k]), seen, part.Pairs.Weight[k]); err != nil {
			return numbered{}, fmt.Errorf("%s: %w", p.shards().Path(t.Shard.File.Name), err)
		}
	}
	w.settle()
	return numbered{t.Number, int64(part.Pairs.Len()), append(w.sums, bins...)}, nil
}

// bySource returns the places of pairs so that those of a source follow each other.
func bySource(sources []int32) []int32 {
	places := make([]int32, len(sources))
	for k := range places {
		places[k] = int32(k)
	}
	slices.SortStableFunc(places, func(a, b int32) int { return int(sources[a]) - int(sources[b]) })
	return places
}

// heldSums adds the pairs of a shard, source by source.
type heldSums struct {
	*heldPlan
	schemes  []risk.Scheme
	logits   [][]float32 // of ŷ, by model
	exposure []float32   // logits of the first model's π̂
	sums     []float64   // by replicate; the first counts every source once
	source   int32
	own      []float64 // of the source at hand
}

// add adds a pair to those of its source.
func (w *heldSums) add(k int, source int32, seen risk.Observation, weight float64) error {
	if w.own == nil || source != w.source {
		w.settle()
		w.source, w.own = source, make([]float64, w.width())
	}
	belief, err := risk.FromLogits(float64(w.logits[0][k]), float64(w.exposure[k]))
	if err != nil {
		return err
	}
	belief = belief.Floored(w.Floor)
	w.own[0] += weight
	masses := make([]risk.Mass, len(w.schemes))
	for i, scheme := range w.schemes {
		masses[i] = scheme.Mass(seen, belief)
	}
	for m, z := range w.logits {
		prediction, err := risk.FromLogits(float64(z[k]), 0)
		if err != nil {
			return err
		}
		linked, unlinked := risk.LogLoss{}.Losses(prediction)
		for i, mass := range masses {
			at := &w.own[1+m*len(masses)+i]
			if mass.Positive != 0 { // 0·∞ is nothing
				*at += weight * mass.Positive * linked
			}
			if mass.Negative != 0 {
				*at += weight * mass.Negative * unlinked
			}
		}
	}
	return nil
}

// settle adds the source at hand to every replicate, as often as it is drawn there.
func (w *heldSums) settle() {
	if w.own == nil {
		return
	}
	width := w.width()
	for b := range 1 + w.Draws {
		times := 1.
		if b > 0 {
			times = poisson(mixed(mixed(w.Seed, uint64(b)), uint64(w.source)))
		}
		if times == 0 {
			continue
		}
		row := w.sums[b*width : (b+1)*width]
		for i, v := range w.own {
			row[i] += times * v
		}
	}
	w.own = nil
}

// poisson turns 64 random bits into a Poisson variable of mean 1.
func poisson(bits uint64) float64 {
	u, times, term := float64(bits>>11)/(1<<53), 0., math.Exp(-1)
	for u >= term && times < 20 {
		u -= term
		times++
		term /= times
	}
	return times
}

// aucBins is how many bins logits are counted in: 256 in every octave from 2⁻¹⁰ to 2⁶, of either sign.
const (
	aucBins    = 2 * binsAbove
	binsAbove  = 16 << binBits
	binBits    = 8
	leastLogit = 127 - 10 // the exponent of 2⁻¹⁰ in a float32
)

// logitBin returns the bin of a logit: larger ones are never in lower bins.
func logitBin(z float32) int {
	bits := math.Float32bits(z)
	at := int(bits&(1<<31-1))>>(23-binBits) - leastLogit<<binBits
	at = max(0, min(at, binsAbove-1))
	if bits>>31 == 1 {
		return binsAbove - 1 - at
	}
	return binsAbove + at
}

// countLogits adds up the weights of unlinked and of linked pairs, by bin.
func countLogits(z []float32, p *graph.Pairs) []float64 {
	out := make([]float64, 2*aucBins)
	for k, x := range z {
		at := logitBin(x)
		if p.Linked[k] {
			at += aucBins
		}
		out[at] += p.Weight[k]
	}
	return out
}

// binnedAUC is the share of pairs of a linked and an unlinked pair in which the linked one has the larger logit. Of
// those in one bin, it takes half; they can be wrong by as much.
func binnedAUC(counts []float64) (auc *float64, within float64) {
	var below, right, tied, linked float64
	for at, unlinked := range counts[:aucBins] {
		in := counts[aucBins+at]
		right += in * below
		tied += in * unlinked
		below, linked = below+unlinked, linked+in
	}
	if below == 0 || linked == 0 {
		return nil, 0
	}
	value := (right + tied/2) / below / linked
	return &value, tied / 2 / below / linked
}
