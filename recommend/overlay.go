package recommend

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"unseen/encode"
	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/internal/layered"
	"unseen/model"
)

// NodeChange is a node as it is now, which came, changed or was removed after the graph was made. It is not changed
// after an Overlay was made of it.
type NodeChange struct {
	ID      string
	Removed bool // in no list any more; the rest says nothing then
	Title   string
	Text    string
	Field   string // one that the graph does not have, "" among them, is guessed from the vector
	Time    time.Time
	Role    graph.Role
	Vector  []float32 // as the nodes' own are made; nil: none
	Links   []string  // ids that it links to, known or not; nil: as in the graph
}

// Overlay is what has changed since the graph of a recommender was made: nodes that came, changed or were removed. It
// is immutable, so that many queries may read it while the next one is made. Nodes that came or changed have places
// behind those of the graph, and a node that changed hides the one of the graph.
//
// The link model judges them without training. Of a model over vectors the row of a target is its vector. Of learned
// factors it is (A·h, the mean effect of all targets) of a new target, and (v + A·h, its own effect) of a changed one.
// A new source has the query of its vector, or is folded in by its links. π̂ is that of a target of the same field with
// the fewest links, the newest of those.
type Overlay struct {
	r      *Recommender
	extra  []extraNode        // versions share what they have in common: an older one sees fewer
	rows   []float32          // of the ranker, a row per extra node
	naive  []float32          // of the naive model, where its rows are others; nil otherwise
	dead   []bool             // of extra nodes: changed again, or removed
	hidden []bool             // of nodes of the graph: changed or removed
	shown  func() []int32     // targets of the graph that are not hidden; found when asked for first
	places layered.Map[int32] // of ids: behind the graph, or −1 if it was removed
	gone   int                // how many are dead
	hiding int                // targets of the graph that are hidden
}

// extraNode is a node that came or changed.
type extraNode struct {
	*NodeChange
	field  uint16
	base   int32 // the same node in the graph; −1 if it is new
	like   int32 // target of the graph with the same π̂
	judged bool  // the link model has a row for it
	same   bool  // as a source it is that of the graph
	// The logits of its mean ŷ in the lower half, as Recommender.means has them; 0: not asked for yet.
	means *[3]atomic.Uint64
}

// mostDead is how many dead places are not worth copying the others for.
const mostDead = 1024

// Overlay returns an overlay with more changes, the latest of a node being valid. The old one may be nil; versions are
// made one after another, each from the last.
func (r *Recommender) Overlay(ctx context.Context, old *Overlay, changes []*NodeChange) (*Overlay, error) {
	if old == nil {
		old = &Overlay{r: r, hidden: make([]bool, r.g.Len()), shown: r.g.Targets}
	}
	next := *old
	next.dead, next.hidden, next.places = slices.Clone(old.dead), slices.Clone(old.hidden), old.places.Next()
	for _, c := range changes {
		if err := next.add(ctx, c); err != nil {
			return nil, err
		}
	}
	if next.gone > mostDead && next.gone > len(next.extra)/2 {
		next.compact()
	}
	if !slices.Equal(next.hidden, old.hidden) {
		next.shown = sync.OnceValue(func() []int32 {
			return slices.DeleteFunc(slices.Clone(r.g.Targets()), func(j int32) bool { return next.hidden[j] })
		})
	}
	return &next, nil
}

// add puts a change into an overlay that nobody reads yet.
func (o *Overlay) add(ctx context.Context, c *NodeChange) error {
	r := o.r
	if place, known := o.at(c.ID); known && place >= 0 {
		o.dead[place-int32(r.g.Len())] = true
		o.gone++
	}
	base, inGraph := r.g.Index(c.ID)
	if !inGraph {
		base = -1
	} else {
		if !o.hidden[base] && r.g.IsTarget(base) {
			o.hiding++
		}
		o.hidden[base] = true
	}
	if c.Removed {
		if o.places.Set(c.ID, -1); !inGraph {
			o.places.Delete(c.ID)
		}
		return nil
	}
	e := extraNode{NodeChange: c, base: base, means: new([3]atomic.Uint64)}
	var err error
	if e.field, err = r.GuessField(ctx, c); err != nil {
		return err
	}
	if e.like = base; base < 0 || r.g.Field(base) != e.field || !r.g.IsTarget(base) {
		e.like = r.standIn(e.field)
	}
	row, judged := r.rowOf(r.ranker, base, c.Vector)
	naive, naiveJudged := row, judged
	apart := r.naive != nil && r.baseline.rows != r.ranker.rows
	if apart {
		naive, naiveJudged = r.rowOf(r.baseline, base, c.Vector)
	}
	e.judged = judged && (naiveJudged || r.baseline.rows == nil)
	e.same = base >= 0 && r.g.IsSource(base) && r.g.Field(base) == e.field && r.sameVector(base, c.Vector)
	o.places.Set(c.ID, int32(r.g.Len()+len(o.extra)))
	o.extra, o.dead = append(o.extra, e), append(o.dead, false)
	o.rows = append(o.rows, row...)
	if apart {
		o.naive = append(o.naive, naive...)
	}
	return nil
}

// compact leaves the dead places out.
func (o *Overlay) compact() {
	all := *o
	o.extra, o.rows, o.naive, o.dead, o.gone = nil, nil, nil, nil, 0
	o.places = layered.Map[int32]{}.Next()
	for id, place := range all.places.All() {
		if place < 0 {
			o.places.Set(id, -1)
		}
	}
	n := max(len(all.extra), 1)
	dim, other := len(all.rows)/n, len(all.naive)/n
	for k, e := range all.extra {
		if all.dead[k] {
			continue
		}
		o.places.Set(e.ID, int32(o.r.g.Len()+len(o.extra)))
		o.extra, o.dead = append(o.extra, e), append(o.dead, false)
		o.rows = append(o.rows, all.rows[k*dim:(k+1)*dim]...)
		o.naive = append(o.naive, all.naive[k*other:(k+1)*other]...)
	}
}

// at returns where an id is, if it came, changed or was removed.
func (o *Overlay) at(id string) (place int32, known bool) {
	if o == nil {
		return 0, false
	}
	return o.places.Get(id)
}

// count is the number of places behind the graph.
func (o *Overlay) count() int {
	if o == nil {
		return 0
	}
	return len(o.extra)
}

// Find returns the place of a node by its id: in the graph, or behind it if the node came or changed.
func (r *Recommender) Find(o *Overlay, id string) (int32, bool) {
	if place, known := o.at(id); known {
		return place, place >= 0
	}
	return r.g.Index(id)
}

// Hides reports whether a node of the graph is changed or removed.
func (o *Overlay) Hides(i int32) bool { return o != nil && o.hidden[i] }

// Change returns what a place behind the graph holds, and false of a node of the graph.
func (o *Overlay) Change(place int32) (*NodeChange, bool) {
	if o == nil || int(place) < o.r.g.Len() {
		return nil, false
	}
	return o.extra[int(place)-o.r.g.Len()].NodeChange, true
}

// Changes returns the nodes that came or changed and were not removed, with their places.
func (o *Overlay) Changes() iter.Seq2[int32, *NodeChange] {
	return func(yield func(int32, *NodeChange) bool) {
		for k := range o.count() {
			if !o.dead[k] && !yield(int32(o.r.g.Len()+k), o.extra[k].NodeChange) {
				return
			}
		}
	}
}

// FieldAt returns the field of a place.
func (r *Recommender) FieldAt(o *Overlay, place int32) uint16 {
	if e := r.extraAt(o, place); e != nil {
		return e.field
	}
	return r.g.Field(place)
}

// IsCandidate reports whether lists can have the node at a place.
func (r *Recommender) IsCandidate(o *Overlay, place int32) bool {
	if e := r.extraAt(o, place); e != nil {
		return e.judged && e.Role != graph.SourceOnly
	}
	return r.g.IsTarget(place)
}

// extraAt returns the node at a place behind the graph; nil of a place in it.
func (r *Recommender) extraAt(o *Overlay, place int32) *extraNode {
	if int(place) < r.g.Len() {
		return nil
	}
	return &o.extra[int(place)-r.g.Len()]
}

// At is the source at a place that Find has returned.
func (r *Recommender) At(ctx context.Context, o *Overlay, place int32) (s Source, err error) {
	e := r.extraAt(o, place)
	if e == nil {
		return r.Node(place), nil
	}
	if e.Role == graph.TargetOnly {
		return s, fmt.Errorf("%w: %q is a target only, to which nothing is recommended; ask for a source", ErrQuery,
			e.ID)
	}
	linked := r.placesOfIDs(o, e.Links)
	switch {
	case e.same:
		s = r.Node(e.base)
	case r.published.folding != nil:
		known := slices.DeleteFunc(slices.Clone(linked), func(j int32) bool {
			return int(j) >= r.g.Len() || !r.g.IsTarget(j)
		})
		var field *uint16
		if e.field != graph.UnknownField {
			field = &e.field
		}
		s, err = r.History(ctx, known, nil, field)
	case e.Vector == nil:
		err = hint.Wrap(fmt.Errorf("%w: %q has no vector", ErrQuery, e.ID), "give it a text or a vector")
	default:
		s, err = r.Vector(ctx, e.Vector, e.field)
		s.text = encode.Text{Title: e.Title, Body: e.Text}
	}
	if err != nil {
		return Source{}, err
	}
	s.place = place + 1
	switch {
	case e.Links != nil:
		s.linked, s.relinked = linked, true
	case e.base >= 0:
		s.linked, s.relinked = r.g.Out(e.base), true
	}
	return s, nil
}

// placesOfIDs returns the places of ids that exist, ascending.
func (r *Recommender) placesOfIDs(o *Overlay, ids []string) []int32 {
	out := make([]int32, 0, len(ids))
	for _, id := range ids {
		if j, ok := r.Find(o, id); ok {
			out = append(out, j)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// GuessField returns the field that a node names, or that of the nodes that are most like it.
func (r *Recommender) GuessField(ctx context.Context, c *NodeChange) (uint16, error) {
	if f, ok := r.fieldNamed(c.Field); ok {
		return f, nil
	}
	zero := !slices.ContainsFunc(c.Vector, func(x float32) bool { return x != 0 })
	if r.g.FieldCount() < 2 || zero || len(c.Vector) != r.nodes.Dim() {
		return graph.UnknownField, nil
	}
	among := r.g.Sources()
	if c.Role == graph.TargetOnly {
		among = r.g.Targets()
	}
	f, _, err := r.commonField(ctx, c.Vector, among)
	return f, err
}

func (r *Recommender) fieldNamed(name string) (uint16, bool) {
	f, ok := r.fieldsByName()[name]
	return f, ok && name != ""
}

// standIn is the target whose π̂ a new target of a field has: the one of its field with the fewest links, the newest of
// those; of a field without targets one of all.
func (r *Recommender) standIn(field uint16) int32 { return r.standIns()[field] }

func (r *Recommender) findStandIns() []int32 {
	best := make([]int32, r.g.FieldCount())
	for f := range best {
		best[f] = -1
	}
	newer := func(a, b int32) bool {
		if a < 0 || b < 0 {
			return b < 0
		}
		x, _ := r.g.Time(a)
		y, _ := r.g.Time(b)
		return cmp.Or(cmp.Compare(len(r.g.In(b)), len(r.g.In(a))), x.Compare(y), cmp.Compare(b, a)) > 0
	}
	any := int32(-1)
	for _, j := range r.g.Targets() {
		if f := r.g.Field(j); newer(j, best[f]) {
			best[f] = j
		}
		if newer(j, any) {
			any = j
		}
	}
	for f := range best {
		if best[f] < 0 {
			best[f] = any
		}
	}
	return best
}

// rowOf returns what a ranker multiplies queries with for a target that is not in the graph, or not as it was, and
// false where the model needs training for that.
func (r *Recommender) rowOf(by ranking, base int32, vector []float32) (row []float32, judged bool) {
	if by.rows == nil {
		return nil, false
	}
	row = make([]float32, by.rows.Dim())
	switch link := by.Link.(type) {
	case model.VectorQuery:
		if len(vector) != len(row) {
			return row, false
		}
		copy(row, vector)
		return row, true
	case model.TargetRows:
		return row, link.RowOf(row, by.Params, base, vector)
	}
	return row, false
}

// sameVector reports whether a node of the graph has a vector.
func (r *Recommender) sameVector(i int32, vector []float32) bool {
	if r.nodes.Vectors == nil || r.published.folding != nil { // sources are known by their factors
		return true
	}
	own := make([]float32, r.nodes.Dim())
	r.nodes.Vectors.Load(own, i)
	return slices.Equal(own, vector)
}

// scoreExtra scores what is behind the graph, as the engine has scored the graph.
func (r *Recommender) scoreExtra(z []float32, by ranking, q engine.SearchQuery, o *Overlay) {
	if o.count() == 0 {
		return
	}
	rows := o.rowsOf(by)
	m, err := kern.View(rows, len(o.extra), len(q.Vector), len(q.Vector))
	if err != nil {
		panic(err) // the shapes are this package's own
	}
	z = z[r.g.Len():]
	kern.DotRange(z, q.Vector, m, 0)
	for k, e := range o.extra {
		z[k] += q.Offsets[e.field]
		if by.Slope != 0 && e.base >= 0 { // nobody links to a new one: log(1 + 0)
			z[k] += by.Slope * by.Popularity[e.base]
		}
	}
}

// rowsOf returns the rows that a ranking multiplies queries with.
func (o *Overlay) rowsOf(by ranking) []float32 {
	if r := o.r; r.naive != nil && by.rows == r.baseline.rows && r.baseline.rows != r.ranker.rows {
		return o.naive
	}
	return o.rows
}

// likeTargets are nodes of the graph with the π̂ of some places.
func (r *Recommender) likeTargets(o *Overlay, places []int32) []int32 {
	if o.count() == 0 {
		return places
	}
	out := slices.Clone(places)
	for k, j := range places {
		if e := r.extraAt(o, j); e != nil {
			out[k] = e.like
		}
	}
	return out
}

// loadRow copies the row of a place in the ranker's rows.
func (r *Recommender) loadRow(dst []float32, o *Overlay, place int32) {
	if k := int(place) - r.g.Len(); k >= 0 {
		copy(dst, o.rows[k*len(dst):(k+1)*len(dst)])
		return
	}
	r.ranker.rows.Load(dst, place)
}

// loadVector copies the vector of a place; one without has zeros.
func (r *Recommender) loadVector(dst []float32, o *Overlay, place int32) {
	if e := r.extraAt(o, place); e != nil {
		clear(dst[copy(dst, e.Vector):])
		return
	}
	r.nodes.Vectors.Load(dst, place)
}

// textAt returns the text of a place.
func (r *Recommender) textAt(o *Overlay, place int32) (encode.Text, error) {
	if e := r.extraAt(o, place); e != nil {
		return encode.Text{Title: e.Title, Body: e.Text}, nil
	}
	return r.texts(place)
}
