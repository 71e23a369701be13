package fit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unseen/internal/kern"
	"unseen/risk"
)

// AdamSettings are those of training by minibatches. A zero means the preset's value, which is given here.
type AdamSettings struct {
	Rate   float64 // learning rate; 1e-3, of the preset paper 1e-4
	Batch  int     // pairs a step; 32
	Epochs int     // at most; 100 of the preset safe, 50 of the others
	// epochs without a better validation likelihood before it stops; 8 of the preset safe, 5 of the
	// others
	Patience int
	Seed     uint64 // of the order in which pairs come; Fit puts that of its Settings here
	Threads  int    // likewise
	// BySource shuffles whole sources instead of pairs: each source's vector is read once for all
	// its pairs, and the order needs memory for sources only.
	BySource bool
}

func (s AdamSettings) withDefaults() AdamSettings {
	if s.Rate == 0 {
		s.Rate = 1e-3
	}
	if s.Batch == 0 {
		s.Batch = 32
	}
	if s.Epochs == 0 {
		s.Epochs = 50
	}
	if s.Patience == 0 {
		s.Patience = 5
	}
	s.Threads = kern.Threads(s.Threads)
	return s
}

func (s AdamSettings) validate() error {
	switch {
	case !(s.Rate > 0) || math.IsInf(s.Rate, 0):
		return fmt.Errorf("%w: learning rate %v; give a positive number such as 0.001", ErrSetting, s.Rate)
	case s.Batch < 0 || s.Epochs < 0 || s.Patience < 0:
		return fmt.Errorf("%w: batch %d, epochs %d, patience %d; none may be negative", ErrSetting, s.Batch, s.Epochs,
			s.Patience)
	}
	return nil
}

// Epoch is one line of a training's history.
type Epoch struct {
	Number     int     `json:"epoch"`
	Objective  float64 `json:"objective"`  // of up to 65,536 training pairs, after it
	Validation float64 `json:"validation"` // likelihood of the validation pairs; 0 if there are none
}

// adamState is everything that the rest of a training depends on.
type adamState struct {
	epoch, unit int // where the next batch begins
	params      []float32
	parts       []adamPart
	best        []float32
	bestLoss    float64
	bestEpoch   int
	history     []Epoch
}

// trainAdam minimises the objective from params by Adam, over the pairs whose source is not held.
// It stops early by the likelihood of the validation objective, if there is one, and leaves the
// best parameters in the state. speed, unless nil, is raised to the pairs per second of the fastest
// epoch.
func trainAdam(ctx context.Context, o *Objective, held func(source int32) bool, validation *Objective,
	state *adamState, s AdamSettings, p Progress, phase string, r *recorder, speed *float64) error {
	size := o.Size()
	if err := r.begin(state); err != nil {
		return err
	}
	t := &trainer{objective: o, held: held, settings: s, state: state, phase: phase}
	t.survey()
	pieces := (s.Batch + stretch - 1) / stretch
	if s.BySource {
		pieces++ // a batch ends with a whole source
	}
	for range max(pieces, 1) {
		t.grads = append(t.grads, make([]float32, size))
	}
	for range s.Threads {
		t.spaces = append(t.spaces, newWorkspace())
	}
	m := newMeter(p, int64(s.Epochs)*int64(t.count))
	m.skip(int64(state.epoch) * int64(t.count))
	for state.epoch < s.Epochs && state.epoch-state.bestEpoch < s.Patience {
		order := t.order(state.epoch)
		began, count := time.Now(), 0
		for state.unit < len(order) {
			if ctx.Err() != nil {
				break
			}
			pairs := t.batch(order)
			count += pairs
			m.add(pairs, false, t.step)
			if err := r.tick(); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if speed != nil {
			*speed = max(*speed, float64(count)/time.Since(began).Seconds())
		}
		if err := t.finishEpoch(ctx, validation); err != nil {
			return err
		}
		m.add(0, true, t.step)
		if err := r.tick(); err != nil {
			return err
		}
	}
	copy(state.params, state.best)
	return nil
}

// judgedPairs is how many of the training pairs, evenly spaced, tell how an epoch went.
const judgedPairs = 1 << 16

type trainer struct {
	objective   *Objective
	held        func(source int32) bool // whose pairs are left out; nil: no source
	count       int                     // pairs that are not
	judged      *Objective              // the same over fewer of those
	settings    AdamSettings
	state       *adamState
	phase       string
	inverseMean float64
	starts      []int32 // of the runs of one source, where they are shuffled; nil where pairs are
	units       []int32 // starts or pairs in the order of the epoch at hand
	members     []int   // pairs of the batch at hand
	grads       [][]float32
	spaces      []*workspace
}

// trains tells whether pair k is trained with.
func (t *trainer) trains(k int) bool {
	return t.held == nil || !t.held(t.objective.Pairs.Source[k])
}

// survey goes through the pairs before training.
func (t *trainer) survey() {
	p := t.objective.Pairs
	var weight risk.Sum
	for k := range p.Source {
		if t.trains(k) {
			t.count++
			weight.Add(p.Weight[k])
		}
	}
	t.inverseMean = 1 / (weight.Value() / float64(max(t.count, 1)))
	if t.settings.BySource {
		t.starts = placesWhere(p.Len(), func(k int) bool {
			return (k == 0 || p.Source[k] != p.Source[k-1]) &&
				t.trains(k)
		})
	}
	most := min(t.count, judgedPairs)
	places := make([]int32, 0, most)
	number := 0
	for k := range p.Source {
		if !t.trains(k) {
			continue
		}
		if len(places) < most && number == int(int64(len(places))*int64(t.count)/int64(most)) {
			places = append(places, int32(k))
		}
		number++
	}
	judged := *t.objective
	judged.Pairs, judged.Exposure = pairsAt(p, t.objective.Exposure, places)
	t.judged = &judged
}

// order returns the units in the order of an epoch, a function of the seed and the epoch alone.
func (t *trainer) order(epoch int) []int32 {
	t.units = t.units[:0]
	if t.starts != nil {
		t.units = append(t.units, t.starts...)
	} else {
		t.units = slices.Grow(t.units, t.count)
		for k := range t.objective.Pairs.Source {
			if t.trains(k) {
				t.units = append(t.units, int32(k))
			}
		}
	}
	order := t.units
	rng := rand.New(rand.NewPCG(t.settings.Seed, uint64(epoch)+1))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// batch takes the next pairs, steps, and returns how many pairs there were.
func (t *trainer) batch(order []int32) int {
	o, state := t.objective, t.state
	t.members = t.members[:0]
	for state.unit < len(order) && len(t.members) < t.settings.Batch {
		unit := int(order[state.unit])
		state.unit++
		if t.starts == nil {
			t.members = append(t.members, unit)
			continue
		}
		source := o.Pairs.Source
		for k := unit; k < len(source) && source[k] == source[unit]; k++ {
			t.members = append(t.members, k)
		}
	}
	n := len(t.members)
	pieces := (n + stretch - 1) / stretch
	for len(t.grads) < pieces {
		t.grads = append(t.grads, make([]float32, o.Size()))
	}
	scale := 1 / float32(n)
	kern.Chunks(n, stretch, t.settings.Threads, func(worker, piece, from, to int) {
		w := t.spaces[worker]
		for i, k := range t.members[from:to] {
			o.at(w, i, k, t.inverseMean)
		}
		clear(t.grads[piece])
		o.add(w, to-from, state.params, t.grads[piece], scale, false)
	})
	grad := t.grads[0]
	for _, g := range t.grads[1:pieces] {
		for i, x := range g {
			grad[i] += x
		}
	}
	for i, precision := range o.Precision {
		if precision != 0 {
			d := float64(state.params[i])
			if o.Centre != nil {
				d -= o.Centre[i]
			}
			grad[i] += float32(precision * d)
		}
	}
	for _, part := range state.parts {
		part.adam.Step(state.params[part.from:part.to], grad[part.from:part.to])
	}
	return n
}

// finishEpoch judges the epoch and keeps the best parameters.
func (t *trainer) finishEpoch(ctx context.Context, validation *Objective) error {
	state := t.state
	engine := CPU{t.settings.Threads}
	parts, err := engine.Gradient(ctx, t.judged, state.params, nil)
	if err != nil {
		return err
	}
	record := Epoch{Number: state.epoch + 1, Objective: parts.Total()}
	judged := parts.Total()
	if validation != nil {
		v, err := engine.Gradient(ctx, validation, state.params, nil)
		if err != nil {
			return err
		}
		judged = v.Likelihood / validation.Likelihood
		record.Validation = judged
	}
	// Nothing changes above: an epoch that is interrupted while it is judged is judged again.
	state.epoch, state.unit = record.Number, 0
	state.history = append(state.history, record)
	if math.IsNaN(judged) || math.IsInf(judged, 0) {
		return fmt.Errorf("%w in epoch %d: the objective is %v; lower the learning rate, or keep the guards on "+
			"(preset safe)", ErrDiverged, state.epoch, judged)
	}
	if state.bestEpoch == 0 || judged < state.bestLoss {
		state.bestLoss, state.bestEpoch = judged, state.epoch
		copy(state.best, state.params)
	}
	return nil
}

func (t *trainer) step() Step {
	s := Step{Phase: t.phase, Epoch: t.state.epoch + 1, Epochs: t.settings.Epochs}
	if n := len(t.state.history); n > 0 {
		last := t.state.history[n-1]
		s.Loss.Likelihood, s.Validation = last.Objective, last.Validation
	}
	return s
}

// adamPart is a stretch of parameters of one expected size. Adam's steps do not depend on the
// gradient's size, so the rate has to follow the parameters'.
type adamPart struct {
	from, to int
	adam     *kern.Adam
}

func newAdamState(o *Objective, params []float32, rate float64) *adamState {
	s := &adamState{params: params, best: slices.Clone(params)}
	for from := 0; from < len(params); {
		to := from + 1
		for to < len(params) && o.scale(to) == o.scale(from) {
			to++
		}
		s.parts = append(s.parts, adamPart{from, to, kern.NewAdam(to-from, rate*o.scale(from))})
		from = to
	}
	return s
}

func (s *adamState) keep(c *checkpoint) {
	c.whole["adam.epoch"], c.whole["adam.unit"], c.whole["adam.best_epoch"] = s.epoch, s.unit, s.bestEpoch
	put(c, "adam.params", s.params)
	put(c, "adam.best", s.best)
	put(c, "adam.best_loss", []float64{s.bestLoss})
	c.putHistory("adam.history", s.history)
	for i, part := range s.parts {
		name := fmt.Sprintf("adam.part%d.", i)
		c.whole[name+"steps"] = part.adam.Steps
		put(c, name+"first", part.adam.First)
		put(c, name+"second", part.adam.Second)
	}
}

func (s *adamState) restore(c *checkpoint) {
	s.epoch, s.unit = c.number("adam.epoch", 0, math.MaxInt32), c.number("adam.unit", 0, math.MaxInt32)
	s.bestEpoch = c.number("adam.best_epoch", 0, s.epoch)
	copy(s.params, numbers[float32](c, "adam.params", len(s.params)))
	copy(s.best, numbers[float32](c, "adam.best", len(s.best)))
	s.bestLoss = numbers[float64](c, "adam.best_loss", 1)[0]
	s.history = c.history("adam.history")
	for i, part := range s.parts {
		name := fmt.Sprintf("adam.part%d.", i)
		part.adam.Steps = c.number(name+"steps", 0, math.MaxInt)
		copy(part.adam.First, numbers[float32](c, name+"first", len(part.adam.First)))
		copy(part.adam.Second, numbers[float32](c, name+"second", len(part.adam.Second)))
	}
}
