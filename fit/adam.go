package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/progress"
	"unseen/risk"
	"unseen/sample"
)

// AdamSettings say how to train by minibatches. A zero means the preset's value, which is given here.
type AdamSettings struct {
	Rate   float64 // learning rate; 1e-3, of the preset paper 1e-4
	Batch  int     // pairs a step; 32
	Epochs int     // at most; 100 of the preset safe, 50 of the others
	// Patience is the number of epochs without a better validation likelihood before it stops; 8 of the preset safe,
	// 5 of the others.
	Patience int
	Seed     uint64 // of the order of the pairs; Fit sets it to that of its Settings
	// BySource shuffles whole sources instead of pairs: each source's vector is read once for all
	// its pairs, and the order needs memory for sources only.
	BySource bool
}

func (s AdamSettings) withDefaults() AdamSettings {
	s.Rate = cmp.Or(s.Rate, 1e-3)
	s.Batch = cmp.Or(s.Batch, 32)
	s.Epochs = cmp.Or(s.Epochs, 50)
	s.Patience = cmp.Or(s.Patience, 5)
	return s
}

// refreshing returns them for one epoch of small steps, which begins where others ended.
func (s AdamSettings) refreshing() AdamSettings {
	s.Rate, s.Epochs = s.Rate/4, min(s.Epochs, 1)
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

// adamState is the state of training that a checkpoint keeps.
type adamState struct {
	epoch, unit int // where the next batch begins
	params      []float32
	parts       []adamPart
	best        []float32
	bestLoss    float64
	bestEpoch   int
	history     []Epoch
}

// trainer minimises an objective by Adam, over the pairs that are not held. It stops early by the
// likelihood of the validation objective, if there is one, and leaves the best parameters in the state.
type trainer struct {
	engine     engine.Engine
	objective  *engine.Objective
	held       sample.Holdout // which pairs are left out; nil: none
	validation *engine.Objective
	settings   AdamSettings
	state      *adamState
	phase      string
	progress   progress.Func
	recorder   *recorder
	speed      float64 // pairs per second of the fastest epoch

	count   int               // pairs that are not held
	judged  *engine.Objective // the same over fewer of those
	starts  []int32           // of the runs of one source, where they are shuffled; nil where pairs are
	units   []int32           // starts or pairs in the order of the current epoch
	members []int             // pairs of the current batch
	grad    []float32
}

// train runs epochs until the likelihood of the validation pairs stops rising, or there are no more.
func (t *trainer) train(ctx context.Context) error {
	s, state, r := t.settings, t.state, t.recorder
	if err := r.begin(state); err != nil {
		return err
	}
	t.survey()
	m := newMeter(t.progress, int64(s.Epochs)*int64(t.count))
	m.Skip(int64(state.epoch) * int64(t.count))
	for state.epoch < s.Epochs && state.epoch-state.bestEpoch < s.Patience {
		order := t.order(state.epoch)
		began, count := time.Now(), 0
		for state.unit < len(order) {
			pairs, err := t.batch(ctx, order)
			if err != nil {
				return err
			}
			count += pairs
			m.add(pairs, false, t.round)
			if err := r.tick(); err != nil {
				return err
			}
		}
		t.speed = max(t.speed, float64(count)/time.Since(began).Seconds())
		if err := t.finishEpoch(ctx); err != nil {
			return err
		}
		m.add(0, true, t.round)
		if err := r.tick(); err != nil {
			return err
		}
	}
	copy(state.params, state.best)
	return nil
}

// judgedPairs is how many of the training pairs, evenly spaced, are evaluated after an epoch.
const judgedPairs = 1 << 16

// trains reports whether pair k is trained with.
func (t *trainer) trains(k int) bool {
	return t.held == nil || !t.held(t.objective.Pairs.Source[k], t.objective.Pairs.Target[k])
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
	t.grad = make([]float32, t.objective.Size())
	if t.settings.BySource {
		t.starts = sample.Indices(p.Len(), func(k int) bool { // the first that is trained with of every source
			trained := t.trains(k)
			for l := k - 1; trained && l >= 0 && p.Source[l] == p.Source[k]; l-- {
				trained = !t.trains(l)
			}
			return trained
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
	judged, trained := *t.objective, *t.objective
	part := sample.Evidence{Pairs: p, Exposure: judged.Exposure}.At(places)
	judged.Pairs, judged.Exposure = part.Pairs, part.Exposure
	trained.MeanWeight = weight.Value() / float64(max(t.count, 1))
	t.judged, t.objective = &judged, &trained
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
func (t *trainer) batch(ctx context.Context, order []int32) (int, error) {
	o, state := t.objective, t.state
	t.members = t.members[:0]
	unit := state.unit
	for ; unit < len(order) && len(t.members) < t.settings.Batch; unit++ {
		first := int(order[unit])
		if t.starts == nil {
			t.members = append(t.members, first)
			continue
		}
		source := o.Pairs.Source
		for k := first; k < len(source) && source[k] == source[first]; k++ {
			if t.trains(k) {
				t.members = append(t.members, k)
			}
		}
	}
	if err := t.engine.Minibatch(ctx, o, t.members, state.params, t.grad); err != nil {
		return 0, err
	}
	for _, part := range state.parts {
		part.adam.Step(state.params[part.from:part.to], t.grad[part.from:part.to])
	}
	state.unit = unit
	return len(t.members), nil
}

// finishEpoch judges the epoch and keeps the best parameters.
func (t *trainer) finishEpoch(ctx context.Context) error {
	state, validation := t.state, t.validation
	parts, err := t.engine.Gradient(ctx, t.judged, state.params, nil)
	if err != nil {
		return err
	}
	record := Epoch{Number: state.epoch + 1, Objective: parts.Total()}
	judged := parts.Total()
	if validation != nil {
		v, err := t.engine.Gradient(ctx, validation, state.params, nil)
		if err != nil {
			return err
		}
		judged = v.Likelihood / validation.LambdaL
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

func (t *trainer) round() round {
	r := round{phase: t.phase, number: t.state.epoch + 1, of: t.settings.Epochs}
	if n := len(t.state.history); n > 0 {
		last := t.state.history[n-1]
		r.loss, r.validation = last.Objective, last.Validation
	}
	return r
}

// adamPart is a stretch of parameters of one expected size. Adam's steps do not depend on the
// gradient's size, so the rate has to follow the parameters'.
type adamPart struct {
	from, to int
	adam     *kern.Adam
}

func newAdamState(o *engine.Objective, params []float32, rate float64) *adamState {
	s := &adamState{params: params, best: slices.Clone(params)}
	for from := 0; from < len(params); {
		to := from + 1
		for to < len(params) && sizeOf(o, to) == sizeOf(o, from) {
			to++
		}
		s.parts = append(s.parts, adamPart{from, to, kern.NewAdam(to-from, rate*sizeOf(o, from))})
		from = to
	}
	return s
}

func (s *adamState) keep(c *checkpoint) {
	c.putNumber("adam.epoch", s.epoch)
	c.putNumber("adam.unit", s.unit)
	c.putNumber("adam.best_epoch", s.bestEpoch)
	put(c, "adam.params", s.params)
	put(c, "adam.best", s.best)
	put(c, "adam.best_loss", []float64{s.bestLoss})
	c.putHistory("adam.history", s.history)
	for i, part := range s.parts {
		name := fmt.Sprintf("adam.part%d.", i)
		c.putNumber(name+"steps", part.adam.Steps)
		put(c, name+"first", part.adam.First)
		put(c, name+"second", part.adam.Second)
	}
}

func (s *adamState) restore(c *checkpoint) {
	s.epoch, s.unit = c.number("adam.epoch", math.MaxInt32), c.number("adam.unit", math.MaxInt32)
	s.bestEpoch = c.number("adam.best_epoch", s.epoch)
	copy(s.params, numbers[float32](c, "adam.params", len(s.params)))
	copy(s.best, numbers[float32](c, "adam.best", len(s.best)))
	s.bestLoss = numbers[float64](c, "adam.best_loss", 1)[0]
	s.history = c.history("adam.history")
	for i, part := range s.parts {
		name := fmt.Sprintf("adam.part%d.", i)
		part.adam.Steps = c.number(name+"steps", math.MaxInt)
		copy(part.adam.First, numbers[float32](c, name+"first", len(part.adam.First)))
		copy(part.adam.Second, numbers[float32](c, name+"second", len(part.adam.Second)))
	}
}
