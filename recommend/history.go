package recommend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"unseen/engine"
	"unseen/fit"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/model"
)

// History is a source that is not in the graph, by what it links to and, where that is known, by
// what it was shown besides: a new person. A model with learned factors finds those of the source
// from its history. Without a field, which nil means, it gets the most common one of the sources
// that link to the same targets.
func (r *Recommender) History(ctx context.Context, linked, shown []int32, field *uint16) (Source, error) {
	return r.WeightedHistory(ctx, linked, nil, shown, field)
}

// WeightedHistory is History of which every link counts by its weight; nil means 1.
func (r *Recommender) WeightedHistory(ctx context.Context, linked []int32, weights []float32, shown []int32,
	field *uint16) (Source, error) {
	if err := r.open(); err != nil {
		return Source{}, err
	}
	if r.published.folding == nil {
		return Source{}, hint.Wrap(fmt.Errorf("%w: a history is folded into learned factors, and the link model is %s",
			ErrQuery, r.model.Link.Kind()), "fit one with %v %s", hint.Setting("link"), "factors")
	}
	if field != nil && int(*field) >= r.g.FieldCount() {
		return Source{}, fmt.Errorf("%w: field %d of %d", ErrQuery, *field, r.g.FieldCount())
	}
	for _, j := range slices.Concat(linked, shown) {
		if uint32(j) >= uint32(r.g.Len()) {
			return Source{}, fmt.Errorf("%w: node %d of %d in the history", ErrQuery, j, r.g.Len())
		}
		if !r.g.IsTarget(j) {
			return Source{}, fmt.Errorf("%w: %q in the history is a source only, to which nobody links; give targets",
				ErrQuery, r.g.ID(j))
		}
	}
	known := slices.Clone(linked)
	slices.Sort(known)
	s := Source{known: true, like: r.g.Sources()[0], folded: &folded{linked: slices.Compact(known)}}
	if field != nil {
		s.field = *field
	} else {
		s.field = r.fieldOfLinks(s.folded.linked)
	}
	for _, i := range r.g.Sources() {
		if r.nodes.Fields[i] == s.field {
			s.like = i
			break
		}
	}
	h := model.SourceHistory{Linked: linked, Weights: weights, Shown: shown}
	var err error
	if s.folded.published, err = r.fold(ctx, r.model, r.published, s, h); err != nil {
		return Source{}, err
	}
	if r.baseline.folding != nil {
		s.folded.baseline, err = r.fold(ctx, *r.naive, r.baseline, s, h)
	}
	return s, err
}

// LinkedTo returns the source with other links: places that are left out of its lists.
func (s Source) LinkedTo(places []int32) Source {
	s.linked, s.relinked = slices.Clone(places), true
	slices.Sort(s.linked)
	return s
}

// fieldOfLinks guesses the field of a source by what it links to.
func (r *Recommender) fieldOfLinks(linked []int32) (field uint16) {
	votes := make([]int, r.g.FieldCount())
	for _, j := range linked {
		for _, i := range r.g.In(j) {
			votes[r.g.Field(i)]++
		}
	}
	if !slices.ContainsFunc(votes, func(v int) bool { return v > 0 }) {
		for _, i := range r.g.Sources() {
			votes[r.g.Field(i)]++
		}
	}
	for f, v := range votes {
		if v > votes[field] {
			field = uint16(f)
		}
	}
	return field
}

// folded is a source by its history.
type folded struct {
	linked              []int32 // ascending
	published, baseline engine.SearchQuery
}

// foldingOf prepares folding histories into a model; nil if it has no factors.
func foldingOf(m model.Model) (*model.Folding, error) {
	factors, ok := m.Link.(*model.Factors)
	if !ok {
		return nil, nil
	}
	var s fit.Settings
	if len(m.Hyperparameters) > 0 {
		if err := json.Unmarshal(m.Hyperparameters, &s); err != nil {
			return nil, fmt.Errorf("%w: the settings of its training are damaged: %w; fit it again", ErrModel, err)
		}
	}
	if !(s.Ridge > 0) {
		s.Ridge = 1
	}
	return factors.Folding(m.LinkParams, factors.Precision(s.Ridge))
}

// fold finds the query of a source with a history by one model. Targets that are not in the history count as the method
// took them in training.
func (r *Recommender) fold(ctx context.Context, m model.Model, by ranking, s Source, h model.SourceHistory) (
	q engine.SearchQuery, err error) {
	switch {
	case m.Method == fit.ShownOnly:
		h.Exposure = make([]float32, len(r.g.Targets()))
	case m.Propensity.Size() > 0:
		_, h.Exposure, err = engine.SourceLogits(ctx, r.engine, engine.Predictor{Propensity: m.Propensity,
			PropensityParams: m.PropensityParams}, s.like, r.g.Targets())
		if err != nil {
			return q, err
		}
		kern.Sigmoid(h.Exposure, h.Exposure)
	}
	q = engine.SearchQuery{Vector: make([]float32, by.rows.Dim()), Offsets: make([]float32, r.nodes.FieldCount)}
	return q, by.folding.Query(q.Vector, q.Offsets, h)
}

// linkedBy returns what a source links to, ascending.
func (r *Recommender) linkedBy(s Source) []int32 {
	switch {
	case s.relinked:
		return s.linked
	case s.folded != nil:
		return s.folded.linked
	case s.New():
		return nil
	}
	return r.g.Out(s.node)
}
