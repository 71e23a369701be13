package recommend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"unseen/encode"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/index"
	"unseen/internal/kern"
	"unseen/model"
)

// Errors of this package wrap one of these.
var (
	// ErrQuery: the query asks for what cannot be.
	ErrQuery = errors.New("unusable query")
	// ErrNothing: no candidate is left.
	ErrNothing = errors.New("nothing to recommend")
	// ErrModel: the model does not fit the graph, or cannot do what is asked.
	ErrModel = errors.New("unusable model")
	// ErrClosed: the network was closed, and its vectors with it.
	ErrClosed = errors.New("the vectors are closed")
)

// MaxK is the longest list.
const MaxK = 10_000

// Options are what a Recommender may know besides the graph and the model.
type Options struct {
	Naive   *model.Model // to compare with; nil: items have no naive rank
	Threads int          // 0 means all processors; results do not depend on it
	// Engine scores targets and finds the best; nil means engine.CPU with these Threads.
	Engine engine.Engine
	// Sketched keeps a copy of the vectors in a byte per number, a quarter of their memory, which queries read in place
	// of them: of the vectors themselves they read what the copy leaves open, a few hundred of 100,000. Lists are the
	// same, in a quarter of the time; only what exploration draws is drawn and ranked by the copy's scores. Making it
	// takes as long as some twenty queries.
	Sketched bool
	// Sketch is of the graph's vectors, where one was made already: no model changes them.
	Sketch *engine.Sketch
	// Index is of the graph's vectors. Once Measure has found that it finds enough of the best, lists are made by it,
	// unless the query says otherwise.
	Index *index.Web
	// LeastRecall is the share of the best that lists by the index are to have; 0 means StandardRecall.
	LeastRecall float64
	// Encoder makes vectors of new texts, as it made those of the nodes; nil: new texts cannot be asked about. If it
	// can Explain and Document is known, items are explained by the words that they share with the source.
	Encoder  TextEncoder
	Document func(i int32) (encode.Text, error) // of a node
}

// TextEncoder makes a vector of a new text. known is false if it knows no word of it.
type TextEncoder interface {
	Encode(d encode.Text) (vector []float32, known bool)
}

// explainer is an encoder that can say which words carry a score.
type explainer interface {
	Explain(a, b encode.Text, w []float32) (encode.ScoreTerms, error)
}

// Recommender answers queries over one graph with one model. It may be used by many goroutines at once.
//
// The network must outlive it: vectors are a mapped file, which goes when its dataset is closed. Later queries are
// refused with ErrClosed; but a dataset that is closed under a query takes the program down, so wait for them first.
type Recommender struct {
	g       *graph.Graph
	nodes   model.Nodes
	model   model.Model
	ranker  ranking   // what lists are ordered by
	members []ranking // what each assumption alone would order them by; nil where there is one
	naive   *model.Model
	// what they would be ordered by with the published ŷ alone, and by the naive model, if there is one
	published, baseline ranking
	encoder             TextEncoder
	texts               func(i int32) (encode.Text, error)
	threads             int
	engine              engine.Engine
	cells               map[[2]uint16]fit.CellFinding
	class               fit.Class
	collapse            string // what the doctor says of a model that means nothing; "" of others
	lists               *fit.ListFindings
	// of the logits of π̂, where they depend on more than fields
	terms    *model.ExposureTerms
	sketches map[*graph.Vectors]*engine.Sketch // by what they are of; nil unless sketched
	rooms    sync.Pool
	// to make lists by; nil without one for these vectors
	web         *index.Web
	leastRecall float64
	recalls     atomic.Pointer[measures] // nil: not measured
	many        Recall                   // of Batch
	// see scannedLike and scannedByMany
	scanned, scannedByMany int
	sampled                int // see sampledOthers
	// found when they are first needed: fields by name, and targets that new ones of a field are like in π̂
	fieldsByName func() map[string]uint16
	standIns     func() []int32
	meansMu      sync.Mutex
	means        [3]*meanScores // by the ranker, the published and the naive model; nil: not asked for yet
}

// New makes a recommender. The graph must be the one that the model was fitted to, or one with the same fields
// and vectors of the same kind.
func New(g *graph.Graph, m model.Model, o Options) (*Recommender, error) {
	if g.Vectors() == nil && model.NeedsVectors(m.Link.Kind()) {
		return nil, fmt.Errorf("%w: the graph has no vectors; encode its texts first", ErrModel)
	}
	m = withPopularity(m, g)
	r := &Recommender{g: g, nodes: model.NodesOf(g), model: m, naive: o.Naive, encoder: o.Encoder, texts: o.Document,
		threads: kern.Threads(o.Threads), engine: engine.OrCPU(o.Engine, o.Threads),
		cells: map[[2]uint16]fit.CellFinding{}, class: fit.NotChecked}
	if len(m.Findings) > 0 {
		var found fit.Findings
		if err := json.Unmarshal(m.Findings, &found); err != nil {
			return nil, fmt.Errorf("%w: the doctor's findings are damaged: %w; fit it again", ErrModel, err)
		}
		r.class, r.lists, r.collapse = found.Class, found.Lists, found.Collapse()
		for _, c := range found.Cells {
			r.cells[[2]uint16{c.Source, c.Target}] = c
		}
	}
	if err := r.rank(); err != nil {
		return nil, err
	}
	if terms, dense := model.TermsOf(m.Propensity, m.PropensityParams); dense && !terms.ByFields() {
		r.terms = &terms
	}
	if o.Sketched {
		if err := r.sketch(o.Sketch); err != nil {
			return nil, err
		}
	}
	if o.Index != nil && r.ranker.rows != nil && r.ranker.rows == g.Vectors() && o.Index.Rows() == g.Len() {
		r.web, r.leastRecall = o.Index, cmp.Or(o.LeastRecall, StandardRecall)
		r.scanned, r.scannedByMany = scannedLike, scannedByMany
		r.sampled = sampledOthers
	}
	r.rooms.New = func() any { return new(room) }
	r.standIns = sync.OnceValue(r.findStandIns)
	r.fieldsByName = sync.OnceValue(func() map[string]uint16 {
		names := make(map[string]uint16, g.FieldCount())
		for f := range g.FieldCount() {
			names[g.FieldName(uint16(f))] = uint16(f)
		}
		return names
	})
	return r, nil
}

// fewRows is how many rows are compared with a query in no time.
const fewRows = 2048

// sketch copies the rows that queries are compared with. Of the graph's vectors there may be a copy already.
func (r *Recommender) sketch(own *engine.Sketch) (err error) {
	r.sketches = map[*graph.Vectors]*engine.Sketch{}
	for _, by := range []ranking{r.ranker, r.published, r.baseline} {
		switch {
		case by.rows == nil || by.rows.Len() < fewRows || r.sketches[by.rows] != nil:
		case own != nil && by.rows == r.g.Vectors():
			r.sketches[by.rows] = own
		default:
			if r.sketches[by.rows], err = engine.NewSketch(by.rows, 0); err != nil {
				return fmt.Errorf("%w: its vectors cannot be copied: %w", ErrModel, err)
			}
		}
	}
	return nil
}

// rank prepares what lists are ordered by.
func (r *Recommender) rank() (err error) {
	if r.published, err = newRanking(r.model.Published()); err != nil {
		return err
	}
	if r.published.folding, err = foldingOf(r.model); err != nil {
		return err
	}
	if r.ranker = r.published; len(r.model.Members) > 1 {
		if r.ranker, err = newRanking(r.model.Ranker()); err != nil {
			return err
		}
	}
	for _, by := range r.model.Rankers() {
		member, err := newRanking(by)
		if err != nil {
			return err
		}
		r.members = append(r.members, member)
	}
	if r.naive != nil {
		if r.baseline, err = newRanking(r.naive.Published()); err != nil {
			return fmt.Errorf("the naive model: %w", err)
		}
		if r.baseline.folding, err = foldingOf(*r.naive); err != nil {
			return fmt.Errorf("the naive model: %w", err)
		}
	}
	return r.checkMembers()
}

// Graph returns the graph.
func (r *Recommender) Graph() *graph.Graph { return r.g }

// Model returns the model.
func (r *Recommender) Model() model.Model { return r.model }

// FieldPropensities returns the mean π̂ of ordered pairs of fields, the source's first; see engine.FieldExposure.
func (r *Recommender) FieldPropensities(ctx context.Context, of [][2]uint16) ([]float64, error) {
	return engine.FieldExposure(ctx, r.engine, engine.Predictor{Link: r.model.Link, LinkParams: r.model.LinkParams,
		Propensity: r.model.Propensity, PropensityParams: r.model.PropensityParams}, r.nodes, of)
}

// Engine returns what scores targets.
func (r *Recommender) Engine() engine.Engine { return r.engine }

// HasNaive reports whether lists are compared with a naive model's.
func (r *Recommender) HasNaive() bool { return r.naive != nil }

// open refuses to go on when the vectors are gone.
func (r *Recommender) open() error {
	if r.nodes.Vectors == nil {
		return nil
	}
	if have := r.nodes.Vectors.Len(); have < r.g.Len() {
		return fmt.Errorf("%w: %d of %d are left; close the network after the last query", ErrClosed, have, r.g.Len())
	}
	return nil
}

// Class is how far the doctor found the scale of π̂ to be known; not checked if it did not look.
func (r *Recommender) Class() fit.Class { return r.class }

// Lists is what the doctor found of lists: how far the assumptions agree, and a naive recommender. It is nil where the
// doctor did not look.
func (r *Recommender) Lists() *fit.ListFindings { return r.lists }

// Source is who is recommended to: a node, a vector with a field, or a history.
type Source struct {
	known  bool // one of the makers made it
	node   int32
	vector []float32
	field  uint16
	text   encode.Text
	like   int32 // of a vector: the node of its field that it is most like, for propensities that look at nodes
	folded *folded
	over   *Overlay // of the query
	place  int32    // 1 + where it is behind the graph; 0: it is not
	linked []int32  // what it links to, ascending, if relinked
	// relinked: that is not what the graph says
	relinked bool
	parts    []seedPart // that a vector is the sum of
	anybody  bool
}

// Node is a source of the graph.
func (r *Recommender) Node(i int32) Source { return Source{known: true, node: i} }

// New reports whether the source is not a node of the graph.
func (s Source) New() bool { return s.vector != nil || s.folded != nil || s.anybody }

// Index returns the node, or −1 of a new source and of the zero Source, which is none.
func (s Source) Index() int32 {
	if s.New() || !s.known {
		return -1
	}
	return s.node
}

// Text is a source that is not in the graph: a new text. Its vector is that of the recommender's encoder. Without a
// field, which nil means, it is guessed, with a probability; otherwise that is 1.
func (r *Recommender) Text(ctx context.Context, text encode.Text, field *uint16) (s Source, probability float64,
	err error) {
	if r.encoder == nil {
		return Source{}, 0, fmt.Errorf("%w: no encoder is known that made the vectors, so a new text has none; "+
			"encode the dataset's texts with unseen encode", ErrQuery)
	}
	vector, known := r.encoder.Encode(text)
	if !known {
		return Source{}, 0, fmt.Errorf("%w: the encoder knows none of the words in the text; give more of it, in the "+
			"language of the dataset", ErrQuery)
	}
	probability = 1
	if field == nil {
		var guess uint16
		if guess, probability, err = r.FieldOf(ctx, vector); err != nil {
			return Source{}, 0, err
		}
		field = &guess
	}
	if s, err = r.Vector(ctx, vector, *field); err != nil {
		return Source{}, 0, err
	}
	s.text = text
	return s, probability, nil
}

// Vector is a source that is not in the graph, by its vector.
func (r *Recommender) Vector(ctx context.Context, vector []float32, field uint16) (Source, error) {
	if err := r.comparable(vector); err != nil {
		return Source{}, err
	}
	if int(field) >= r.g.FieldCount() {
		return Source{}, fmt.Errorf("%w: field %d of %d", ErrQuery, field, r.g.FieldCount())
	}
	var square float64
	for _, x := range vector {
		square += float64(x) * float64(x)
	}
	if !(square > 0) || math.IsInf(square, 0) {
		return Source{}, fmt.Errorf("%w: the vector is zero or not finite: its text has no known word", ErrQuery)
	}
	s := Source{known: true, vector: vector, field: field, like: -1}
	own := []int32{} // sources of the field
	for _, i := range r.g.Sources() {
		if r.nodes.Fields[i] == field {
			own = append(own, i)
		}
	}
	alike, err := r.search(ctx, engine.SearchQuery{Vector: vector, Among: own}, 1)
	if err == nil && len(alike) > 0 {
		s.like = alike[0].Target
	}
	return s, err
}

// comparable refuses a vector that has another size than those of the nodes.
func (r *Recommender) comparable(vector []float32) error {
	if err := r.open(); err != nil {
		return err
	}
	if _, ok := r.model.Link.(model.VectorQuery); !ok && r.published.rows != nil {
		return fmt.Errorf("%w: a %s model knows sources by their links, not by texts or vectors; ask for a source of "+
			"the dataset", ErrQuery, r.model.Link.Kind())
	}
	if len(vector) != r.nodes.Dim() {
		return fmt.Errorf("%w: a vector of %d numbers, the nodes' have %d; encode it as they were", ErrQuery,
			len(vector), r.nodes.Dim())
	}
	return nil
}

// FieldOf guesses the field of a vector: the most common one among the nodes most like it, each counted by its
// cosine. The probability is its share.
func (r *Recommender) FieldOf(ctx context.Context, vector []float32) (field uint16, probability float64, err error) {
	if err := r.comparable(vector); err != nil {
		return graph.UnknownField, 0, err
	}
	return r.commonField(ctx, vector, r.g.Sources())
}

// commonField is FieldOf among some nodes.
func (r *Recommender) commonField(ctx context.Context, vector []float32, among []int32) (field uint16,
	probability float64, err error) {
	const neighbours = 25
	near := engine.SearchQuery{Vector: vector}
	if r.g.TwoSided() {
		near.Among = among
	}
	alike, err := r.search(ctx, near, neighbours)
	if err != nil {
		return graph.UnknownField, 0, err
	}
	votes := make([]float64, r.g.FieldCount())
	var total float64
	for _, hit := range alike {
		if f := r.g.Field(hit.Target); f != graph.UnknownField && hit.Score > 0 {
			votes[f] += float64(hit.Score)
			total += float64(hit.Score)
		}
	}
	for f, v := range votes {
		if v > votes[field] {
			field = uint16(f)
		}
	}
	if total == 0 {
		return graph.UnknownField, 0, nil
	}
	return field, votes[field] / total, nil
}

// Query says what to recommend: the best targets that a source does not link to yet, unless it says otherwise.
type Query struct {
	Source Source // by Node, Text, Vector or History of the recommender; there is no default
	K      int

	Seen bool // rank by π̂ŷ, the probability that a link is seen: repeats past exposure

	Fields []uint16  // only targets of these; nil means all
	From   time.Time // only targets of this time or later; zero means any
	Until  time.Time // only targets before this time; zero means any
	// Before: only targets that come before the source in this order, those that it could have linked to when it was
	// new; nil means any.
	Before  *graph.Order
	Linked  bool     // targets that the source links to already may be recommended again
	Exclude []int32  // never these
	Overlay *Overlay // what has changed since the graph was made; nil: nothing

	Diversity float64 // from 0, relevance only, to 1, most diverse
	// Explore says how much relevance a list may lose for places that are drawn where they teach most, from 0 to 1: as
	// much as if that share of the places were drawn in proportion to ŷ.
	Explore float64
	Seed    uint64 // of the draw

	Explain bool // items say why
	Compare bool // the list has the naive model's beside it
	Exact   bool // the list is not made by the index
}

// filtered reports whether the query leaves out more targets than the source itself and those that it links to.
func (q Query) filtered() bool {
	return q.Fields != nil || !q.From.IsZero() || !q.Until.IsZero() || q.Before != nil || len(q.Exclude) > 0
}

// plain reports whether the query asks for the highest ŷ and for nothing else, so that an inner product answers it.
func (q Query) plain() bool { return q.ranked() && !q.filtered() }

// ranked reports whether the list has the order of the rule, which no dial changes.
func (q Query) ranked() bool { return !q.Seen && q.Diversity == 0 && q.Explore == 0 }

// Item is a recommendation.
type Item struct {
	Node  int32  `json:"-"`
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	Field string `json:"field,omitempty"`
	Time  string `json:"time,omitempty"` // the day

	Rank       int     `json:"rank"`                // in this list
	ByLink     int     `json:"correctedRank"`       // among all candidates, by the rule of lists; 0: see List.Index
	SeenRank   int     `json:"seenRank,omitempty"`  // among all candidates, by π̂ŷ; 0 where it was not found
	NaiveRank  int     `json:"naiveRank,omitempty"` // among all candidates, by the naive model; 0 without one
	Logit      float64 `json:"logit"`               // of ŷ
	Link       float64 `json:"link"`                // ŷ = P(link | shown)
	Propensity float64 `json:"propensity"`          // π̂ = P(shown), before this list
	Shown      float64 `json:"shown"`               // with which probability this list has it; 1 unless drawn
	Placed     float64 `json:"placed"`              // with which probability it is at this place, given the items
	Hidden     bool    `json:"hidden,omitempty"`    // in such a list, and not in one by π̂ŷ: exposure hides it
	Weak       bool    `json:"weak,omitempty"`      // the field pair's π̂ rests on little; see the explanation

	Why *Explanation `json:"why,omitempty"`
}

// List is what was recommended.
type List struct {
	Source     Item     `json:"source"` // of whom
	Field      string   `json:"field"`
	Candidates int      `json:"candidates"`
	Items      []Item   `json:"items"`
	Naive      []Item   `json:"naive,omitempty"` // what the naive model would recommend, if that was asked for
	Warnings   []string `json:"warnings,omitempty"`

	// Index says how many of the best the index finds that made the list; nil of an exact list. Ranks by π̂ŷ and by the
	// naive model are then 0 where they are far beyond the list.
	Index *Recall `json:"index,omitempty"`
	// Sampled is how many candidates an explored list by the index was drawn from besides those that the index found.
	Sampled int `json:"sampled,omitempty"`
	// Agreement is how far the assumptions agree on the list; nil where there is one alone, or where the list is not in
	// the order of the rule.
	Agreement *Agreement `json:"agreement,omitempty"`
}

// validate refuses what cannot be.
func (r *Recommender) validate(q Query) error {
	if err := r.open(); err != nil {
		return err
	}
	switch {
	case q.K < 1 || q.K > MaxK:
		return fmt.Errorf("%w: %d recommendations; ask for 1 to %d", ErrQuery, q.K, MaxK)
	case !q.Source.known:
		return fmt.Errorf("%w: it has no source; make one with Node, Text, Vector or History of the recommender",
			ErrQuery)
	case !q.Source.New() && uint32(q.Source.node) >= uint32(r.g.Len()):
		return fmt.Errorf("%w: node %d of %d", ErrQuery, q.Source.node, r.g.Len())
	case !q.Source.New() && !r.g.IsSource(q.Source.node):
		return fmt.Errorf("%w: %q is a target only, to which nothing is recommended; ask for a source", ErrQuery,
			r.g.ID(q.Source.node))
	case !(q.Diversity >= 0 && q.Diversity <= 1):
		return fmt.Errorf("%w: a diversity of %v; give one from 0 to 1", ErrQuery, q.Diversity)
	case !(q.Explore >= 0 && q.Explore <= 1):
		return fmt.Errorf("%w: a share of %v to explore; give one from 0 to 1", ErrQuery, q.Explore)
	case q.Diversity > 0 && q.Explore > 0:
		return fmt.Errorf("%w: diversity and exploration at once: a re-ranked list has no probabilities; give "+
			"one of them", ErrQuery)
	case !q.From.IsZero() && !q.Until.IsZero() && !q.From.Before(q.Until):
		return fmt.Errorf("%w: targets from %s and before %s; there are none", ErrQuery, q.From.Format(time.DateOnly),
			q.Until.Format(time.DateOnly))
	case q.Before != nil && q.Source.New():
		return fmt.Errorf("%w: a new text has no place in the order of nodes; leave the order out, everything is older",
			ErrQuery)
	case q.Before != nil && len(q.Before.Rank) != r.g.Len():
		return fmt.Errorf("%w: an order of %d nodes for a graph of %d; give the graph's own", ErrQuery,
			len(q.Before.Rank), r.g.Len())
	case q.Compare && r.naive == nil:
		return fmt.Errorf("%w: there is no naive model to compare with", ErrQuery)
	case q.Seen && q.Explore > 0:
		return fmt.Errorf("%w: exploring draws by ŷ, and the list is ranked by π̂ŷ; give one of them", ErrQuery)
	}
	for _, f := range q.Fields {
		if int(f) >= r.g.FieldCount() {
			return fmt.Errorf("%w: field %d of %d", ErrQuery, f, r.g.FieldCount())
		}
	}
	return nil
}

// room is what one query needs.
type room struct {
	by, naive *scored   // by the rule of lists, and by the naive model
	links     *scored   // z of the published model: by itself, unless there are several assumptions
	seen      *scored   // log π̂ŷ
	spare     []float32 // what it takes to find that
	own       [3]scored // room of by, naive and seen
	apart     scored    // and of links, where they are not by
	joint     []float32 // scores of the graph's nodes, one rule's behind the other's
	kept      []int32   // candidates, ascending
	depth     int       // up to which rank all are known to be among the candidates; 0: all are
	relevance []float32 // ŷ of every candidate by node, where a list is drawn
	teaches   []float32 // how much every candidate would teach, there
	sums      [][2]float64
	random    *rand.Rand // of such a list
	sample    sampling   // of the candidates that walks have not found, there
	picked    []drawn    // the list, where there is a sample
	small     *room      // in which such a list is drawn; nil: not needed yet
	tried     *measures  // how wide walks are while that is measured; nil: as was measured
}

// enter returns a room for the nodes of the graph and of an overlay.
func (r *Recommender) enter(o *Overlay) *room {
	room := r.rooms.Get().(*room)
	n := r.g.Len() + o.count()
	size := func(column []float32, n int) []float32 { return slices.Grow(column[:0], n)[:n] }
	for k := range room.own {
		room.own[k].z = size(room.own[k].z, n)
		room.own[k].exact()
	}
	room.by, room.naive, room.seen = &room.own[0], &room.own[1], &room.own[2]
	room.spare, room.depth = size(room.spare, n), 0
	room.sample.of = 0
	if room.links = room.by; r.members != nil {
		room.links = &room.apart
		room.links.z = size(room.links.z, n)
		room.links.exact()
	}
	return room
}

// Top returns the best targets, or those that the dials ask for instead.
func (r *Recommender) Top(ctx context.Context, q Query) (*List, error) {
	if err := r.validate(q); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.Source.over = q.Overlay
	list, err := r.list(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(list.Items) < q.K {
		list.Warnings = append(list.Warnings, fmt.Sprintf("%d items were requested, but there are only %d "+
			"candidates", q.K, len(list.Items)))
	}
	if r.collapse != "" {
		list.Warnings = append(list.Warnings, r.collapse)
	} else if r.class != fit.Identified && r.class != fit.NoExposure {
		list.Warnings = append(list.Warnings, "the scale of π̂ is "+r.class.Label()+
			": do not rely on the values of π̂ and ŷ")
	}
	return list, nil
}

// list answers a query by the scores of all nodes.
func (r *Recommender) list(ctx context.Context, q Query) (*List, error) {
	room := r.enter(q.Overlay)
	defer r.rooms.Put(room)
	candidates, walked := 0, r.walks(q)
	if walked {
		candidates, walked = r.pool(room, q)
	}
	if !walked {
		room.depth, room.sample.of = 0, 0
		r.candidates(room, q)
		candidates = len(room.kept)
	}
	if len(room.kept) == 0 {
		return nil, fmt.Errorf("%w: the filters leave none of the %d nodes; widen fields or times, or allow "+
			"linked ones", ErrNothing, len(r.g.Targets()))
	}
	list := r.newList(q, candidates)
	if room.depth > 0 {
		list.Index = r.measures().of(q.K)
	}
	if room.sample.of > 0 {
		list.Sampled = len(room.sample.nodes)
		if err := r.pickSampled(ctx, room, q); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(r.scoreAll(ctx, room, q.Source), ctx.Err()); err != nil {
		return nil, err
	}
	if err := r.seen(ctx, room, q.Source); err != nil {
		return nil, err
	}
	order := room.by // what is ranked by
	if q.Seen {
		order = room.seen
		list.Warnings = append(list.Warnings,
			"ranked by π̂ŷ, the chance that a link is seen: this list repeats past exposure")
	}
	chosen := r.choose(ctx, room, order, q)
	var err error
	if list.Items, err = r.describe(ctx, q, chosen, r.placesOf(room, chosen, q)); err != nil {
		return nil, err
	}
	if r.members != nil && q.ranked() {
		list.Agreement = r.agreement(q, room.by.best(room.kept, agreementPool))
	}
	if q.Compare {
		var others []drawn
		for _, j := range room.naive.best(room.kept, q.K) {
			others = append(others, drawn{j, 1, 1})
		}
		q.Explain = false
		if list.Naive, err = r.describe(ctx, q, others, r.placesOf(room, others, Query{Seen: true})); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// choose makes a list of the candidates, ranked by order unless a dial says otherwise.
func (r *Recommender) choose(ctx context.Context, room *room, order *scored, q Query) (chosen []drawn) {
	switch {
	case q.Explore > 0:
		return room.explore(q)
	case q.Diversity > 0:
		return r.diversify(ctx, room, order, q)
	}
	for _, j := range order.best(room.kept, q.K) {
		chosen = append(chosen, drawn{j, 1, 1})
	}
	return chosen
}

// newList is a list without items.
func (r *Recommender) newList(q Query, candidates int) *List {
	at := q.Source.Index()
	if q.Source.place > 0 {
		at = q.Source.place - 1
	}
	return &List{Candidates: candidates, Source: r.item(q.Overlay, at), Field: r.g.FieldName(r.field(q.Source))}
}

// field returns the source's field.
func (r *Recommender) field(s Source) uint16 {
	if s.New() {
		return s.field
	}
	return r.g.Field(s.node)
}

// item says what a node is; −1 is a new text.
func (r *Recommender) item(o *Overlay, j int32) Item {
	if j < 0 {
		return Item{Node: -1}
	}
	if e := r.extraAt(o, j); e != nil {
		out := Item{Node: j, ID: e.ID, Title: e.Title, Field: r.g.FieldName(e.field)}
		if !e.Time.IsZero() {
			out.Time = e.Time.Format(time.DateOnly)
		}
		return out
	}
	out := Item{Node: j, ID: r.g.ID(j), Title: r.g.Title(j), Field: r.g.FieldName(r.g.Field(j))}
	if t, known := r.g.Time(j); known {
		out.Time = t.Format(time.DateOnly)
	}
	return out
}

// exceptions returns which nodes are excluded and which fields are wanted; nil: none, and all.
func (q Query) exceptions(fields int) (out map[int32]bool, wanted []bool) {
	if len(q.Exclude) > 0 {
		out = make(map[int32]bool, len(q.Exclude))
		for _, j := range q.Exclude {
			out[j] = true
		}
	}
	if q.Fields != nil {
		wanted = make([]bool, fields)
		for _, f := range q.Fields {
			wanted[f] = true
		}
	}
	return out, wanted
}

// candidates lists who may be recommended.
func (r *Recommender) candidates(room *room, q Query) {
	room.kept = room.kept[:0]
	out, wanted := q.exceptions(r.g.FieldCount())
	var linked []int32
	self := q.Source.Index()
	if !q.Linked {
		linked = r.linkedBy(q.Source)
		inGraph, _ := slices.BinarySearch(linked, int32(r.g.Len()))
		linked = linked[:inGraph]
	}
	dated := !q.From.IsZero() || !q.Until.IsZero()
	if !q.filtered() { // all but itself and what it links to
		left := r.g.Targets()
		if q.Overlay != nil {
			left = q.Overlay.shown()
		}
		room.kept = slices.Grow(room.kept, len(left)+q.Overlay.count())
		drop := func(j int32) {
			at, found := slices.BinarySearch(left, j)
			if room.kept = append(room.kept, left[:at]...); found {
				at++
			}
			left = left[at:]
		}
		for _, j := range linked {
			if self >= 0 && self < j {
				drop(self)
				self = -1
			}
			drop(j)
		}
		if self >= 0 {
			drop(self)
		}
		room.kept = append(room.kept, left...)
		r.extraCandidates(room, q, nil, nil)
		return
	}
	for _, j := range r.g.Targets() {
		for len(linked) > 0 && linked[0] < j {
			linked = linked[1:]
		}
		switch {
		case j == self, len(linked) > 0 && linked[0] == j, out[j], wanted != nil && !wanted[r.g.Field(j)],
			q.Before != nil && !q.Before.Precedes(j, self), q.Overlay.Hides(j):
			continue
		}
		if dated {
			if t, known := r.g.Time(j); !known || !q.within(t) {
				continue
			}
		}
		room.kept = append(room.kept, j)
	}
	r.extraCandidates(room, q, out, wanted)
}

// within reports whether a time is one that the query asks for.
func (q Query) within(t time.Time) bool {
	return (q.From.IsZero() || !t.Before(q.From)) && (q.Until.IsZero() || t.Before(q.Until))
}

// extraCandidates adds those behind the graph, of whom some are excluded and some fields are wanted.
func (r *Recommender) extraCandidates(room *room, q Query, out map[int32]bool, wanted []bool) {
	if q.Overlay.count() == 0 || q.Before != nil { // they have no place in an order of the graph
		return
	}
	var linked []int32
	if !q.Linked {
		linked = r.linkedBy(q.Source)
	}
	links := func(j int32) bool {
		_, found := slices.BinarySearch(linked, j)
		return found
	}
	dated := !q.From.IsZero() || !q.Until.IsZero()
	for k, e := range q.Overlay.extra {
		j := int32(r.g.Len() + k)
		switch {
		case q.Overlay.dead[k], !e.judged, e.Role == graph.SourceOnly, j == q.Source.place-1, out[j], links(j),
			e.base >= 0 && (e.base == q.Source.Index() || out[e.base] || links(e.base)),
			wanted != nil && !wanted[e.field], dated && (e.Time.IsZero() || !q.within(e.Time)):
			continue
		}
		room.kept = append(room.kept, j)
	}
}
