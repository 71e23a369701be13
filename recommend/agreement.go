package recommend

import (
	"cmp"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Agreement is on how many of a list's first items all assumptions agree that explain the links as well.
//
// A member's own first 10 are found among the 100 best of the list's order, so that it costs little: of what is further
// down, hardly any is among the first 10 of an assumption that explains the same links.
type Agreement struct {
	Members int `json:"members"` // assumptions, by whose mean the list is ordered
	Of      int `json:"of"`      // first items that are compared: 10, or fewer
	Agreed  int `json:"agreed"`  // of these, how many every member has among its own first 10
}

// String says it in words.
func (a *Agreement) String() string {
	return fmt.Sprintf("All %d assumptions that explain the links have %d of the first %d in their own first %d.",
		a.Members, a.Agreed, a.Of, agreementFirst)
}

// withPopularity returns the model with the popularity that its members need: if it is not known, as of a model that
// was opened without it, that by the links of the graph.
func withPopularity(m model.Model, g *graph.Graph) model.Model {
	needed := slices.ContainsFunc(m.Members, func(m model.MemberModel) bool { return m.Popularity != 0 })
	if m.Popularity != nil || !needed {
		return m
	}
	var targets []int32
	for _, j := range g.Links() {
		targets = append(targets, j)
	}
	m.Popularity = model.LogInDegree(g.Len(), targets)
	return m
}

// checkMembers refuses members that do not fit the graph.
func (r *Recommender) checkMembers() error {
	if r.members != nil && (r.ranker.rows == nil || r.ranker.rows != r.published.rows) { // they share one search
		return fmt.Errorf("%w: %d assumptions with a %s link model, which is no inner product with vectors; fit "+
			"a diagonal "+
			"one",
			ErrModel, len(r.members), r.model.Link.Kind())
	}
	for _, by := range r.members {
		if by.Slope != 0 && len(by.Popularity) != r.g.Len() {
			return fmt.Errorf("%w: an assumption needs the popularity of all %d nodes, and that of %d is known; open "+
				"the model with the nodes of its plan", ErrModel, r.g.Len(), len(by.Popularity))
		}
	}
	return nil
}

const (
	agreementFirst = 10
	agreementPool  = 100
)

// agreement compares the members over the best candidates, best first.
func (r *Recommender) agreement(q Query, pool []int32) *Agreement {
	if q.Source.anybody || r.collapse != "" { // a mean of readers is no reader to agree about
		return nil
	}
	constant := true // by every member, which then agree on the order of the nodes
	out := &Agreement{Members: len(r.members), Of: min(q.K, agreementFirst, len(pool))}
	times := make([]int, len(pool)) // that a candidate is among a member's first
	order := make([]int, len(pool))
	for _, by := range r.members {
		z := r.logits(by, q.Source, pool)
		constant = constant && slices.Min(z) == slices.Max(z)
		for k := range order {
			order[k] = k
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(z[b], z[a]), cmp.Compare(pool[a], pool[b]))
		})
		for _, k := range order[:min(agreementFirst, len(order))] {
			times[k]++
		}
	}
	if constant && len(pool) > 1 {
		return nil
	}
	for _, count := range times[:out.Of] {
		if count == len(r.members) {
			out.Agreed++
		}
	}
	return out
}

// logits returns what a ranker makes of a few targets of a source. It is for members, which are inner products.
func (r *Recommender) logits(by ranking, s Source, targets []int32) []float32 {
	q, _ := r.query(by, s)
	z := make([]float32, len(targets))
	if s.over.count() == 0 {
		kern.Dots(z, q.Vector, kern.MatrixOf(by.rows), targets)
	}
	row := make([]float32, len(q.Vector))
	for k, j := range targets {
		if s.over.count() > 0 {
			r.loadRow(row, s.over, j)
			z[k] = float32(product(q.Vector, row))
		}
		z[k] += q.Offsets[r.FieldAt(s.over, j)]
		if by.Slope == 0 {
			continue
		}
		if e := r.extraAt(s.over, j); e == nil {
			z[k] += by.Slope * by.Popularity[j]
		} else if e.base >= 0 {
			z[k] += by.Slope * by.Popularity[e.base]
		}
	}
	return z
}
