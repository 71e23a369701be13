package recommend

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"unseen/engine"
	"unseen/index"
	"unseen/internal/kern"
	"unseen/model"
)

// StandardRecall is the share of the best that lists by an index have at least, unless Options say otherwise.
const StandardRecall = .98

// Recall is how many of the best an index finds, with one model: measured on sources drawn at random, by comparing
// their lists with exact ones.
type Recall struct {
	Share   float64 `json:"share" doc:"of the best, found by the index"`
	Queries int     `json:"queries" doc:"lists that were compared with exact ones"`
	K       int     `json:"k" doc:"their length"`
	Width   int     `json:"width,omitempty" doc:"how many nodes a search keeps on its way"`
	// Clusters are of Batch, which has no width.
	Clusters int `json:"clusters,omitempty" doc:"groups of like nodes that are looked at for each of many lists"`
	// Used: lists are made by the index. It is false where no width finds enough.
	Used bool `json:"used" doc:"false where lists are exact, since the index finds too few"`
}

// What recall is measured by: so many lists of such a length, for ever wider walks.
const (
	measuredLists  = 200
	measuredSeen   = 50 // of them by π̂ŷ too, for which no engine is made
	seenRecall     = .9
	narrowestWalk  = 128
	widestMeasured = 4096
	mostWalked     = 1000 // longest list that is made by an index
)

// scannedLike says how many nodes a scan looks at in the time of a walk that is one node wide.
const scannedLike = 50

// ByIndex reports whether a list of so many items is made by the index. It takes longer than a scan where nodes are
// few.
func (r *Recommender) ByIndex(k int) bool { return r.walks(Query{K: k}) }

// measures are what was measured, by the length of lists.
type measures [len(measuredLengths)]Recall

// measures returns what was measured, or that nothing was.
func (r *Recommender) measures() *measures {
	if m := r.recalls.Load(); m != nil {
		return m
	}
	return &measures{}
}

// measuredLengths are the lengths of lists for which recall is measured, ascending: short ones need narrower walks.
var measuredLengths = [...]int{10, 100}

// Measure finds how wide the walks of the index have to be, and has lists made by it from then on if that finds enough
// of the best: by the rule of lists and by the naive model. Items have their rank by π̂ŷ too, so that of the best by
// that nine in ten are to be found: such ranks are within a tenth of what they are. Without an index it does nothing.
// Lists may be made meanwhile, and are exact the first time.
func (r *Recommender) Measure(ctx context.Context) (Recall, error) {
	if r.web == nil {
		return r.Recall(), nil
	}
	sources := r.measuredSources()
	orders := []measuredOrder{{by: r.ranker}}
	if r.naive != nil {
		orders = append(orders, measuredOrder{by: r.baseline})
	}
	for k := range orders {
		if err := r.measured(ctx, &orders[k], sources, slices.Max(measuredLengths[:])); err != nil {
			return Recall{}, err
		}
	}
	seen, err := r.seenExactly(ctx, sources[:min(len(sources), measuredSeen)])
	if err != nil {
		return Recall{}, err
	}
	recalls := &measures{}
	for at, k := range measuredLengths {
		for width := narrowestWalk; width <= widestMeasured; width += width / 2 {
			recalls[at] = Recall{Queries: len(sources), K: k, Width: width}
			share, least := 0., 1.
			for p, o := range orders {
				o.search.K = k
				found, err := r.web.TopK(ctx, o.search, width, r.threads)
				if err != nil {
					return Recall{}, err
				}
				this := shareFound(found, o.exact, k)
				if least = min(least, this); p == 0 {
					share = this
				}
			}
			recalls[at].Share = share
			if used := least >= r.leastRecall && r.seenFound(recalls, sources, seen, k) >= seenRecall; used {
				recalls[at].Used = true
				break
			}
		}
		if !recalls[at].Used { // longer lists need no less
			recalls[len(recalls)-1] = recalls[at]
			break
		}
	}
	r.recalls.Store(recalls)
	return r.Recall(), nil
}

// of is the recall of the shortest lists that were measured and are not shorter than this, or of the longest.
func (m *measures) of(k int) *Recall {
	for at := range m {
		if m[at].K >= k {
			return &m[at]
		}
	}
	return &m[len(m)-1]
}

// measuredSources are those whose lists are compared.
func (r *Recommender) measuredSources() (out []Source) {
	all := r.g.Sources()
	random := rand.New(rand.NewPCG(1, uint64(len(all))))
	for range min(measuredLists, len(all)) {
		out = append(out, r.Node(all[random.IntN(len(all))]))
	}
	return out
}

// measuredOrder is an order whose best are looked for by the index, and the best.
type measuredOrder struct {
	by     ranking
	search engine.TargetSearch
	exact  [][]engine.Hit
}

// measured finds the k best of an order.
func (r *Recommender) measured(ctx context.Context, o *measuredOrder, sources []Source, k int) (err error) {
	if o.by.rows != r.ranker.rows {
		return nil // no walk is by it
	}
	o.search = engine.TargetSearch{Targets: o.by.rows, Fields: r.nodes.Fields, Values: o.by.Popularity,
		K: k, Sketch: r.sketchOf(o.by)}
	for _, s := range sources {
		query, _ := r.query(o.by, s)
		query.Skip = r.skipped(s, false)
		if r.g.TwoSided() {
			query.Among = r.g.Targets()
		}
		o.search.Queries = append(o.search.Queries, query)
	}
	o.exact, err = r.engine.TopK(ctx, o.search)
	return err
}

// seenExactly returns the best of sources by π̂ŷ.
func (r *Recommender) seenExactly(ctx context.Context, sources []Source) ([][]int32, error) {
	out := make([][]int32, len(sources))
	for k, s := range sources {
		list, err := r.list(ctx, Query{Source: s, K: slices.Max(measuredLengths[:]), Seen: true,
			Exact: true})
		if errors.Is(err, ErrNothing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			out[k] = append(out[k], item.Node)
		}
	}
	return out, nil
}

// seenFound returns the share of the best by π̂ŷ that the index finds with walks of some width.
func (r *Recommender) seenFound(by *measures, sources []Source, best [][]int32, k int) float64 {
	room := r.enter(nil)
	room.tried = by
	defer func() {
		room.tried = nil
		r.rooms.Put(room)
	}()
	all, hit := 0, 0
	for at, nodes := range best {
		nodes = nodes[:min(k, len(nodes))]
		if all += len(nodes); len(nodes) == 0 {
			continue
		}
		if _, ok := r.pool(room, Query{Source: sources[at], K: k}); !ok {
			return 0
		}
		for _, j := range nodes {
			if _, found := slices.BinarySearch(room.kept, j); found {
				hit++
			}
		}
	}
	return float64(hit) / float64(max(all, 1))
}

// Recall is what was measured, of the longest lists; zero without an index.
func (r *Recommender) Recall() Recall { return r.measures()[len(measuredLengths)-1] }

// LeastScore is from which score on a target counts as one of the best, given the last of them: but for the last bits,
// in which sums by rows and by blocks differ.
func LeastScore(last float32) float32 { return last - 1e-5*(1+max(last, -last)) }

// shareFound is the share of exact hits that were found, or others of the same score.
func shareFound(found, exact [][]engine.Hit, most int) float64 {
	var all, hit int
	for k, hits := range exact {
		if hits = hits[:min(most, len(hits))]; len(hits) == 0 {
			continue
		}
		least := LeastScore(hits[len(hits)-1].Score)
		all += len(hits)
		own := 0
		for _, h := range found[k] {
			if h.Score >= least {
				own++
			}
		}
		hit += min(own, len(hits))
	}
	if all == 0 {
		return 1
	}
	return float64(hit) / float64(all)
}

// walks reports whether a list is made by the index. Walks do not find all of the best by π̂ŷ; and where a sample is
// a large part of all, looking at all takes no longer.
func (r *Recommender) walks(q Query) bool {
	return r.Recall().Used && !q.Exact && !q.Seen && !q.Source.anybody && q.K <= mostWalked &&
		r.g.Len() > r.scanned*r.measures().width(q.K, 0) && (q.Explore == 0 || r.g.Len() > 16*r.sampleSize(q.K))
}

// width is how wide a walk is that looks for so many, of which some are skipped.
func (m *measures) width(most, skipped int) int {
	of := m.of(most)
	return min(of.Width*max(most, of.K)/max(of.K, 1)+skipped, index.MostWidth)
}

// pool makes the candidates those that walks have found: the best by the rule of lists, by π̂ŷ and by the naive model,
// and all that came after the graph was made; and a sample of the others, if the list is explored. It returns how many
// candidates there are in all, and false where walks do not serve.
func (r *Recommender) pool(room *room, q Query) (candidates int, ok bool) {
	skip := slices.Concat(r.skipped(q.Source, q.Linked), q.Exclude)
	slices.Sort(skip)
	skip = slices.Compact(skip)
	keep := func(j int32) bool {
		_, skipped := slices.BinarySearch(skip, j)
		return !skipped && r.g.IsTarget(j) && !q.Overlay.Hides(j)
	}
	all := r.g.Targets() // and more, which are not to keep
	out, wanted := q.exceptions(r.g.FieldCount())
	candidates = r.countCandidates(q, skip, out)
	if wanted != nil || q.Before != nil || !q.From.IsZero() || !q.Until.IsZero() || candidates < r.g.Len()/8 {
		r.candidates(room, q)
		if candidates = len(room.kept); r.narrow(room.kept) {
			return candidates, true // each of them is looked at
		}
		all = slices.Clone(room.kept)
		keep = func(j int32) bool {
			_, in := slices.BinarySearch(all, j)
			return in
		}
	}
	most := q.K
	if q.Diversity > 0 {
		most = max(10*q.K, 200)
	}
	if r.members != nil {
		most = max(most, agreementPool)
	}
	queries, ok := r.walkQueries(q)
	if !ok {
		return 0, false
	}
	room.kept = room.kept[:0]
	room.depth = index.MostWidth
	measured := cmp.Or(room.tried, r.measures())
	for _, search := range queries {
		search.K, search.Keep = min(most+most/4+8, candidates), keep
		search.Width = r.web.WidthFor(measured.width(most, len(skip)), candidates)
		found, err := r.web.Likely(search.Walk, search.others...)
		if err != nil {
			return 0, false
		}
		for _, rows := range found {
			if len(rows) < min(most, candidates-q.Overlay.count()) {
				return 0, false
			}
			room.depth = min(room.depth, len(rows), most)
			room.kept = append(room.kept, rows...)
		}
	}
	slices.Sort(room.kept)
	room.kept = slices.Compact(room.kept)
	if q.Overlay != nil {
		r.extraCandidates(room, q, out, wanted)
	}
	if q.Explore > 0 {
		ok = room.take(q, r.sampleSize(q.K), candidates-len(room.kept), all, keep)
	}
	return candidates, ok
}

// plannedWalk is a walk, and what else the rows that it meets are ranked by.
type plannedWalk struct {
	index.Walk
	others []rankBy
}

// rankBy makes of the scores of rows what they are ranked by.
type rankBy = func(scores []float32, rows []int32)

// walkQueries are what to walk by: the rule of lists, π̂ŷ and the naive model. It reports false where one of them is no
// inner product with the vectors of the index.
func (r *Recommender) walkQueries(q Query) (out []plannedWalk, ok bool) {
	terms, dense := model.TermsOf(r.model.Propensity, r.model.PropensityParams)
	own, ok1 := r.query(r.ranker, q.Source)
	seen, ok2 := r.query(r.published, q.Source)
	if terms.Link < 0 { // the more alike the less shown: no walk leads to the best by π̂ŷ
		return nil, false
	}
	if !dense || !ok1 || !ok2 || r.published.rows != r.ranker.rows {
		return nil, false
	}
	bySeen := r.rankSeen(terms, q.Source)
	out = []plannedWalk{{Walk: index.Walk{Values: r.ranker.Popularity, Query: own}}}
	if r.members == nil {
		out[0].others = append(out[0].others, bySeen)
	} else { // whose scores are not z
		out = append(out, plannedWalk{Walk: index.Walk{Query: seen}, others: []rankBy{bySeen}})
	}
	if r.naive != nil {
		naive, ok := r.query(r.baseline, q.Source)
		if !ok || r.baseline.rows != r.ranker.rows {
			return nil, false
		}
		out = append(out, plannedWalk{Walk: index.Walk{Values: r.baseline.Popularity, Query: naive}})
	}
	for k := range out {
		out[k].Targets, out[k].Fields = r.ranker.rows, r.nodes.Fields
	}
	return out, true
}

// rankSeen returns what makes log π̂ŷ of the logits of ŷ.
func (r *Recommender) rankSeen(terms model.ExposureTerms, s Source) func(z []float32, rows []int32) {
	byField := make([]float32, r.nodes.FieldCount)
	for f := range byField {
		byField[f] = terms.Constant
		if terms.Fields != nil {
			byField[f] += terms.Fields[int(r.field(s))*len(byField)+f]
		}
		if terms.Source != nil && !s.New() {
			byField[f] += terms.Source[s.node]
		}
	}
	if fields := r.nodes.Fields; terms.Link == 0 && terms.Target == nil {
		kern.LogSigmoid(byField, byField)
		return func(z []float32, rows []int32) {
			kern.LogSigmoid(z, z)
			for k, j := range rows {
				z[k] += byField[fields[j]]
			}
		}
	}
	var logits []float32
	return func(z []float32, rows []int32) {
		logits = slices.Grow(logits[:0], len(z))[:len(z)]
		for k, j := range rows {
			logits[k] = byField[r.nodes.Fields[j]] + terms.Link*z[k]
			if terms.Target != nil {
				logits[k] += terms.Target[j]
			}
		}
		kern.LogSigmoid(z, z)
		kern.LogSigmoid(logits, logits)
		for k, x := range logits {
			z[k] += x
		}
	}
}

// countCandidates counts the candidates of a query that filters neither by fields nor by times, of whom these are
// skipped and those behind the graph excluded.
func (r *Recommender) countCandidates(q Query, skip []int32, out map[int32]bool) int {
	count := len(r.g.Targets())
	for _, j := range skip {
		if int(j) < r.g.Len() && r.g.IsTarget(j) {
			count--
		}
	}
	if o := q.Overlay; o != nil {
		count -= o.hiding
		for _, j := range skip { // they were counted already
			if int(j) < r.g.Len() && r.g.IsTarget(j) && o.Hides(j) {
				count++
			}
		}
		room := &room{}
		r.extraCandidates(room, q, out, nil)
		count += len(room.kept)
	}
	return count
}
