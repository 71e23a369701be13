package recommend

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"unseen/encode"
	"unseen/fit"
	"unseen/model"
)

// Explanation is a number, what it is, and the numbers that it is made of.
type Explanation struct {
	Value    float64        `json:"value"`
	Message  string         `json:"message"`
	Children []*Explanation `json:"children,omitempty"`
}

// fewLinks is how few links make a field pair's π̂ little more than the prior's; the doctor uses the same number.
const fewLinks = 5

// places is where chosen items stand among all candidates.
type places struct {
	logits                 []float32 // of ŷ
	corrected, seen, naive []int     // ranks; naive is nil without a naive model
}

// placesOf finds them by all scores. Those of a list in the order of the rule are known. Those of a list that was drawn
// from estimates are by estimates: to tell for certain where an item from far down stands, nearly all would have to be
// looked up.
func (r *Recommender) placesOf(room *room, chosen []drawn, q Query) places {
	nodes := make([]int32, len(chosen))
	for k, d := range chosen {
		nodes[k] = d.node
	}
	rank := func(by *scored) []int {
		if q.Explore > 0 {
			by.settle(nodes)
			return ranks(by.z, room.kept, nodes)
		}
		return by.ranks(room.kept, nodes)
	}
	known := func(ranks []int) []int { // beyond what walks have found ranks say nothing
		for k, rank := range ranks {
			if room.depth > 0 && rank > room.depth {
				ranks[k] = 0
			}
		}
		return ranks
	}
	out := places{seen: known(rank(room.seen))}
	if q.ranked() {
		for k := range nodes {
			out.corrected = append(out.corrected, k+1)
		}
	} else {
		out.corrected = known(rank(room.by))
	}
	if r.naive != nil {
		out.naive = known(rank(room.naive))
	}
	room.links.settle(nodes)
	for _, j := range nodes {
		out.logits = append(out.logits, room.links.z[j])
	}
	return out
}

// describe makes items of what was chosen.
func (r *Recommender) describe(ctx context.Context, q Query, chosen []drawn, at places) ([]Item, error) {
	var items []Item
	nodes := make([]int32, len(chosen))
	for k, d := range chosen {
		nodes[k] = d.node
	}
	propensities, err := r.propensities(ctx, q.Source, nodes, at.logits)
	if err != nil {
		return nil, err
	}
	for k, d := range chosen {
		item := r.item(q.Overlay, d.node)
		item.Rank, item.ByLink, item.Shown, item.Placed = k+1, at.corrected[k], d.shown, d.placed
		item.Logit = float64(at.logits[k])
		item.Link, item.Propensity = sigmoid(item.Logit), sigmoid(float64(propensities[k]))
		item.SeenRank = at.seen[k]
		item.Hidden = (at.seen[k] > q.K || at.seen[k] == 0) && at.corrected[k] <= q.K &&
			at.corrected[k] > 0
		if at.naive != nil {
			item.NaiveRank = at.naive[k]
		}
		cell, known := r.cells[[2]uint16{r.field(q.Source), r.FieldAt(q.Overlay, d.node)}]
		item.Weak = known && cell.Links < fewLinks
		if q.Explain {
			why, err := r.explain(q.Source, item)
			if err != nil {
				return nil, err
			}
			item.Why = why
		}
		items = append(items, item)
	}
	return items, nil
}

// inBoth is what an explanation says of a word that both texts have, after its name.
const inBoth = "”, in both texts"

// SharedWords are the words of both texts that an explanation names, in its order.
func (e *Explanation) SharedWords() (words []string) {
	if e == nil {
		return nil
	}
	if word, is := strings.CutSuffix(e.Message, inBoth); is {
		words = append(words, strings.TrimPrefix(word, "“"))
	}
	for _, child := range e.Children {
		words = append(words, child.SharedWords()...)
	}
	return words
}

// explain says why an item is there.
func (r *Recommender) explain(s Source, item Item) (*Explanation, error) {
	link, err := r.explainLink(s, item)
	if err != nil {
		return nil, err
	}
	root := &Explanation{Value: item.Link, Message: "ŷ, the chance of a link if it is shown",
		Children: []*Explanation{link}}
	root.Children = append(root.Children, r.explainExposure(s, item))
	if item.SeenRank > 0 {
		hidden := ""
		if item.Hidden {
			hidden = ", beyond the list: hidden by exposure"
		}
		message := fmt.Sprintf("its rank by π̂ŷ, as links are seen%s; by ŷ it is %d", hidden, item.ByLink)
		root.Children = append(root.Children, &Explanation{Value: float64(item.SeenRank), Message: message})
	}
	if item.NaiveRank > 0 {
		root.Children = append(root.Children, &Explanation{Value: float64(item.NaiveRank),
			Message: "its rank in the naive model"})
	}
	return root, nil
}

// explainLink takes z apart: shared words where they are known, else the components of the vectors.
func (r *Recommender) explainLink(s Source, item Item) (*Explanation, error) {
	if s.anybody {
		return &Explanation{Value: item.Logit, Message: fmt.Sprintf("its logit: ŷ is the mean of %d readers, whatever "+
			"they were shown", min(readers, len(r.g.Sources())))}, nil
	}
	out := &Explanation{Value: item.Logit, Message: "its logit z, the sum of"}
	if s.parts != nil {
		parts, sum := r.explainSeeds(s, item)
		out.Children = append(parts, &Explanation{Value: item.Logit - sum, Message: "the intercept: links are rare"})
		return out, nil
	}
	kind := r.model.Link.Kind()
	if !model.NeedsVectors(kind) {
		out.Children = r.explainFactors(s, item)
		return out, nil
	}
	if kind != "diagonal" && kind != "diagonal-field" {
		out.Message = "its logit z, from a " + kind + " model"
		return out, nil
	}
	d := r.nodes.Vectors.Dim()
	w := r.model.LinkParams[:d]
	from, to := make([]float32, d), make([]float32, d)
	if s.New() {
		copy(from, s.vector)
	} else {
		r.nodes.Vectors.Load(from, s.node)
	}
	r.loadVector(to, s.over, item.Node)
	var sum float64
	for k := range w {
		sum += float64(w[k]) * float64(from[k]) * float64(to[k])
	}
	parts, err := r.words(s, item.Node, w, sum)
	if err != nil {
		return nil, err
	}
	rest := sum
	for _, p := range parts {
		rest -= p.value
	}
	if len(parts) == 0 {
		for k := range w {
			parts = append(parts, contribution{fmt.Sprintf("component %d of the vectors", k),
				float64(w[k]) * float64(from[k]) * float64(to[k])})
		}
		slices.SortStableFunc(parts, func(a, b contribution) int {
			return cmp.Compare(math.Abs(b.value),
				math.Abs(a.value))
		})
		parts = parts[:min(5, len(parts))]
		for _, p := range parts {
			rest -= p.value
		}
	}
	for _, p := range parts {
		out.Children = append(out.Children, &Explanation{Value: p.value, Message: p.name})
	}
	out.Children = append(out.Children,
		&Explanation{Value: rest, Message: "everything else"},
		&Explanation{Value: item.Logit - sum, Message: "the intercept: links are rare"})
	return out, nil
}

// explainFactors takes the z of learned factors apart.
func (r *Recommender) explainFactors(s Source, item Item) []*Explanation {
	q, _ := r.query(r.published, s)
	row := make([]float32, len(q.Vector))
	r.loadRow(row, s.over, item.Node)
	rank := len(row) - 1 // the last is the item's own effect
	likeness := product(q.Vector[:rank], row[:rank])
	own := float64(q.Vector[rank]) * float64(row[rank])
	return []*Explanation{
		{Value: likeness, Message: "how well the learned factors of the two fit"},
		{Value: own, Message: "the effect of the item itself: all link to it more, or less"},
		{Value: item.Logit - likeness - own, Message: "the effect of the source itself, and the intercept"},
	}
}

// contribution is what one word, or one component of the vectors, adds to z.
type contribution struct {
	name  string
	value float64
}

// words are up to five words of both texts that carry most of their score, if the encoder can tell and the vectors are
// still its own: then its account adds up to the score. Texts that share none are told by the words of each that carry
// most of it: components bring words together that are used together.
func (r *Recommender) words(s Source, target int32, w []float32, score float64) ([]contribution, error) {
	tells, ok := r.encoder.(explainer)
	if !ok || r.texts == nil {
		return nil, nil
	}
	from, err := s.text, error(nil)
	if !s.New() {
		if from, err = r.texts(s.node); err != nil {
			return nil, err
		}
	}
	to, err := r.textAt(s.over, target)
	if err != nil {
		return nil, err
	}
	terms, err := tells.Explain(from, to, w)
	if err != nil || math.Abs(terms.Score-score) > 1e-2*(1+math.Abs(score)) {
		return nil, err
	}
	var out []contribution
	for _, t := range terms.Terms {
		if t.Shared() && t.Score > 0 && len(out) < 5 {
			out = append(out, contribution{"“" + t.Name + inBoth, t.Score})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	slices.SortStableFunc(terms.Terms, func(a, b encode.Contribution) int {
		return cmp.Compare(math.Abs(b.Score), math.Abs(a.Score))
	})
	for _, t := range terms.Terms[:min(5, len(terms.Terms))] {
		where := "”, in the text of the source"
		switch {
		case t.Shared():
			where = inBoth
		case t.InB:
			where = "”, in its own text"
		}
		out = append(out, contribution{"“" + t.Name + where, t.Score})
	}
	return out, nil
}

// explainExposure says what is known of how the item was hidden.
func (r *Recommender) explainExposure(s Source, item Item) *Explanation {
	source := r.g.FieldName(r.field(s))
	out := &Explanation{Value: item.Propensity, Message: fmt.Sprintf("π̂, the chance that %s is shown to %s",
		named(item.Field), named(source))}
	if r.class == fit.NoExposure {
		out.Message = "this model ignores exposure"
		return out
	}
	out.Children = r.explainTerms(s, item)
	cell, known := r.cells[[2]uint16{r.field(s), r.FieldAt(s.over, item.Node)}]
	if !known {
		return out
	}
	support := &Explanation{Value: float64(cell.Links),
		Message: fmt.Sprintf("links from %s to %s among %d training pairs", named(source),
			named(item.Field), cell.Pairs)}
	if cell.Links < fewLinks {
		support.Message += ": little more than a guess from other fields"
	}
	out.Children = append(out.Children, support)
	interval := "its 95% interval"
	if r.terms != nil {
		interval = "the 95% interval of the mean π̂ of the two fields"
	}
	if cell.Upper > 0 {
		out.Children = append(out.Children, &Explanation{Value: cell.Lower,
			Message: fmt.Sprintf("to %.2g: %s", cell.Upper, interval)})
	}
	if r.class != fit.Identified {
		relative := "times the mean π̂, at equal vectors"
		if r.terms != nil {
			relative = "times the mean π̂ is that of the two fields"
		}
		out.Children = append(out.Children, &Explanation{Value: cell.Relative.Value,
			Message: relative + "; the scale of π̂ is " + r.class.Label()})
	}
	return out
}

// explainTerms says how much the logit of π̂ has from what is known of the pair besides its fields.
func (r *Recommender) explainTerms(s Source, item Item) (out []*Explanation) {
	if r.terms == nil {
		return nil
	}
	if r.terms.Link != 0 {
		out = append(out, &Explanation{Value: float64(r.terms.Link) * item.Logit,
			Message: fmt.Sprintf("in its logit, %.2g times z: what is relevant by its text is shown more",
				r.terms.Link)})
	}
	if r.terms.Target != nil {
		out = append(out, &Explanation{Value: float64(r.terms.Target[r.likeTargets(s.over, []int32{item.Node})[0]]),
			Message: "in its logit, by what is known of the item: how many link to it, or its age"})
	}
	return out
}

func named(field string) string {
	if field == "" {
		return "a node without a field"
	}
	return field
}
