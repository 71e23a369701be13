package loop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"unseen/fit"
	"unseen/graph"
	"unseen/model"
)

// scripted is a learner that returns what the test says.
type scripted struct {
	weight  float64
	trained int
	train   func(round int) error
}

func (r *scripted) Train(context.Context, model.Nodes, *graph.Pairs) error {
	r.trained++
	return r.train(r.trained)
}

func (r *scripted) Weigh(weights []float64, _ model.Batch) error {
	for k := range weights {
		weights[k] = r.weight
	}
	return nil
}

// A recommender from outside goes the way of the methods: a method put in by hand gives the same history.
func TestOwnLearner(t *testing.T) {
	t.Parallel()
	s := Settings{Papers: 60, Rounds: 3, Shown: 5, Negatives: 200, Seed: 3, Method: "mle"}
	built, err := Simulate(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	own := s
	own.NewLearner = func() Learner { return &fitLearner{settings: s.WithDefaults().training()} }
	put, err := Simulate(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(put.Rounds, built.Rounds) {
		t.Errorf("%+v, not %+v", put.Rounds, built.Rounds)
	}
	nothing := fmt.Errorf("%w: for the test", fit.ErrData)
	stops := errors.New("stop")
	fine := func(int) error { return nil }
	learn := func(r *scripted) (*History, error) {
		s := Settings{Papers: 40, Rounds: 3, Shown: 4, Seed: 1, NewLearner: func() Learner { return r }}
		return Simulate(t.Context(), s)
	}
	for name, c := range map[string]struct {
		r    scripted
		want error
	}{
		"NaN":      {scripted{weight: math.NaN(), train: fine}, ErrModel},
		"negative": {scripted{weight: -1, train: fine}, ErrModel},
		"infinite": {scripted{weight: math.Inf(1), train: fine}, ErrModel},
		"fails":    {scripted{weight: 1, train: func(int) error { return stops }}, stops},
		"no data":  {scripted{weight: 1, train: func(int) error { return nothing }}, fit.ErrData},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := learn(&c.r); !errors.Is(err, c.want) {
				t.Error(err)
			}
		})
	}
	h, err := learn(&scripted{weight: 1, train: func(round int) error {
		if round == 2 {
			return nothing
		}
		return nil
	}})
	if err != nil || h.Rounds[0].Kept || !h.Rounds[1].Kept || h.Rounds[2].Kept {
		t.Errorf("%v: %+v", err, h)
	}
}
