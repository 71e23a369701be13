package serve

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"unseen/encode"
	"unseen/graph"
	"unseen/hint"
	"unseen/model"
	"unseen/recommend"
	"unseen/serve/store"
)

// Limits of a request.
const (
	MaxList    = 1000
	MaxText    = 20_000 // bytes
	MaxExclude = 10_000
)

// RecommendRequest asks for a list.
type RecommendRequest struct {
	Node  string `json:"node,omitempty" doc:"id of the node to recommend to"`
	Text  string `json:"text,omitempty" doc:"a new text to recommend for, instead of a node"`
	Title string `json:"title,omitempty" doc:"title of the new text"`
	Field string `json:"field,omitempty" doc:"field of the new text or person; default: guessed"`

	// History is folded into learned factors; of a model over vectors its z is the mean of those of its items.
	History []string  `json:"history,omitempty" doc:"ids that a new person links to, or has read, instead of a node"`
	Shown   []string  `json:"shown,omitempty" doc:"ids that the person was shown and did not link to; needs factors"`
	Nodes   []string  `json:"nodes,omitempty" doc:"ids of several nodes to recommend to at once, instead of a node"`
	Weights []float64 `json:"weights,omitempty" doc:"how much each id of history or nodes counts; default: 1 each"`
	Anybody bool      `json:"anybody,omitempty" doc:"for somebody unknown: by the mean ŷ of all readers, not by clicks"`

	K         int      `json:"k,omitempty" doc:"number of items; default 10"`
	Fields    []string `json:"fields,omitempty" doc:"only targets of these fields"`
	From      string   `json:"from,omitempty" doc:"only targets from this day on, as 2021 or 2021-01-31"`
	Until     string   `json:"until,omitempty" doc:"only targets before this day"`
	Linked    bool     `json:"linked,omitempty" doc:"include targets that the node links to already"`
	Exclude   []string `json:"exclude,omitempty" doc:"ids to leave out"`
	Diversity float64  `json:"diversity,omitempty" doc:"from 0, relevance only, to 1, most diverse; turns explore off"`
	Explore   *float64 `json:"explore,omitempty" doc:"share of positions drawn where that teaches most"`
	Seed      *uint64  `json:"seed,omitempty" doc:"seed of exploration; default: random"`
	Seen      bool     `json:"seen,omitempty" doc:"rank by π̂ŷ, which repeats past exposure; turns explore off"`
	Compare   bool     `json:"compare,omitempty" doc:"add the naive model's list"`
	Explain   bool     `json:"explain,omitempty" doc:"add the reason for each item"`
	Exact     bool     `json:"exact,omitempty" doc:"make the list exactly, though there is an index"`
	Log       bool     `json:"log,omitempty" doc:"log all items as shown"`
	Surface   string   `json:"surface,omitempty" doc:"where the list stands, such as home or mail; it is logged"`
}

// RecommendResponse is a list.
type RecommendResponse struct {
	List    string  `json:"list" doc:"id of the list; send it with events"`
	Model   string  `json:"model" doc:"digest of the model"`
	Seed    uint64  `json:"seed" doc:"seed of exploration; the list's id begins with it"`
	Explore float64 `json:"explore" doc:"share of positions that were drawn"`
	Arm     string  `json:"arm,omitempty" doc:"of an A/B test: a or b"`
	Logged  int     `json:"logged" doc:"number of items that were logged as shown"`

	Source     recommend.Item `json:"source" doc:"the node; empty for a new text"`
	Field      string         `json:"field" doc:"field of the source"`
	Candidates int            `json:"candidates"`
	// CandidateSet names the candidates: the same source and the same text mean the same ones. By the rule "all" the
	// list is of all of them, by "index" of those that the index finds, and by "index+1024" of these and of so many
	// others, which the seed draws from the rest.
	CandidateSet string           `json:"candidateSet" doc:"candidates, as rule/size/hash; send it with events"`
	Items        []recommend.Item `json:"items" doc:"shown: the probability that this list has the item"`
	Naive        []recommend.Item `json:"naive,omitempty" doc:"the naive model's list"`
	Warnings     []string         `json:"warnings,omitempty"`

	Agreement *recommend.Agreement `json:"agreement,omitempty" doc:"how far the assumptions agree on the list"`
	Index     *recommend.Recall    `json:"index,omitempty" doc:"of the index that made the list; none: it is exact"`
}

// RequestError is an invalid request: which field of it, and what would be valid.
type RequestError struct {
	Field    string // such as "k"
	Value    any
	Reason   string
	See      string // path of the API that lists valid values, below Options.Prefix; "" if none does
	NotFound bool   // the value names something that does not exist
	Conflict bool   // the request is valid, but not in the state that the service is in
}

func (e *RequestError) Error() string { return e.Field + " " + e.Reason }

func requestError(field string, value any, format string, args ...any) *RequestError {
	return &RequestError{Field: field, Value: value, Reason: fmt.Sprintf(format, args...)}
}

// requestField is a field of a request, which hints name as a setting.
type requestField = hint.Setting

// outOfRange is a request with a number that is not within limits.
func outOfRange[T int | float64](field string, value, least, most T) error {
	return hint.Wrap(requestError(field, value, "is %v", value), "give from %v to %v", least, most)
}

// Recommend makes a list. If it is logged, the log is durable when Recommend returns.
func (s *Service) Recommend(ctx context.Context, r RecommendRequest) (_ *RecommendResponse, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	leave, err := s.enterGate(ctx)
	if err != nil {
		s.metrics.shed.Inc()
		return nil, err
	}
	defer func() { leave() }()
	ways := 0
	for _, given := range []bool{r.Node != "", r.Text != "" || r.Title != "", r.History != nil, r.Nodes != nil,
		r.Anybody} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, hint.Wrap(requestError("node", r.Node, "or text is required, and not both; or a history, nodes or "+
			"anybody"), "set one of %v, %v, %v, %v and %v", requestField("node"), requestField("text"),
			requestField("history"), requestField("nodes"), requestField("anybody"))
	}
	chosen, arm := s.live.Load().of(r.key())
	current := chosen.view()
	q, err := r.query(current, s.o.Explore)
	if err != nil {
		return nil, err
	}
	source, notes, err := r.source(ctx, current)
	if err != nil {
		return nil, err
	}
	q.Source = source
	hidden := s.forgotten.hidden.Load()
	candidates := r.candidatesHash(current, q, hidden)
	q.Exclude = append(q.Exclude, hidden.nodes...)
	for _, id := range r.Nodes { // also where what they link to is asked for
		if j, ok := current.find(id); ok {
			q.Exclude = append(q.Exclude, j)
		}
	}
	if r.Seed != nil {
		q.Seed = *r.Seed
	} else {
		var raw [8]byte
		crand.Read(raw[:])
		q.Seed = binary.LittleEndian.Uint64(raw[:]) >> 11 // 53 bits: exact in every JSON parser
	}
	searching, span := s.span(ctx, "search")
	list, err := current.Top(searching, q)
	endSpan(span, err)
	if err != nil {
		return nil, err
	}
	a := &RecommendResponse{
		List: newListID(s.o.Now(), q.Seed, current.digest), Model: current.digest, Seed: q.Seed, Explore: q.Explore,
		Arm:    arm,
		Source: list.Source, Field: list.Field, Candidates: list.Candidates,
		CandidateSet: candidateSet(list, candidates), Items: list.Items, Naive: list.Naive,
		Warnings: append(notes, list.Warnings...), Agreement: list.Agreement, Index: list.Index,
	}
	s.metrics.recommended.Add(float64(len(a.Items)))
	s.traffic.count(s.o.Now(), len(a.Items), q.Explore)
	if r.Log {
		leave = s.gate.store(leave)
		if a.Logged, err = s.logShown(ctx, r, a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// What the log calls a source that is not a node: one of these and the first bytes of a hash.
const (
	textSource    = "text:"
	historySource = "history:"
	nodesSource   = "nodes:"
	anybodySource = "anybody:"
)

var givenNames = []string{textSource, historySource, nodesSource, anybodySource}

// logShown logs all items of a list as shown.
func (s *Service) logShown(ctx context.Context, r RecommendRequest, a *RecommendResponse) (int, error) {
	source := r.Node
	if source == "" { // not a node: it is logged but not learned from
		kind, of := textSource, r.Title+"\x00"+r.Text
		switch {
		case r.History != nil:
			kind, of = historySource, strings.Join(r.History, "\x00")
		case r.Nodes != nil:
			kind, of = nodesSource, strings.Join(r.Nodes, "\x00")
		case r.Anybody: // each list is a reader of its own
			kind, of = anybodySource, a.List
		}
		sum := sha256.Sum256([]byte(of))
		source = kind + hex.EncodeToString(sum[:8])
	}
	events := make([]store.LogEvent, len(a.Items))
	for k, item := range a.Items {
		events[k] = store.LogEvent{
			ID: fmt.Sprintf("%s.%03d", a.List, k+1), Kind: store.Shown, Source: source, Target: item.ID,
			Probability: item.Shown, Model: a.Model, List: a.List, Position: k + 1, Surface: r.Surface,
			Placed: item.Placed, Candidates: a.CandidateSet,
		}
	}
	result, err := s.AppendEvents(ctx, events)
	return result.Stored + result.Duplicate + result.Spooled, err
}

// candidatesHash is a hash of what decides, beside the source, which targets a list is chosen from: the model, its
// dataset, what has changed since, and the filters. Who was forgotten counts by number, as this only grows: the hash of
// an id would tell whom.
func (r RecommendRequest) candidatesHash(e modelView, q recommend.Query, hidden *hiddenNodes) string {
	fields, excluded := slices.Sorted(slices.Values(q.Fields)), []string{}
	for _, id := range r.Exclude {
		if _, known := e.Find(e.over, id); known {
			excluded = append(excluded, id)
		}
	}
	slices.Sort(excluded)
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %d %d %d %d %d %t %q", e.digest, e.origin.Files, e.seq, len(hidden.nodes)+hidden.others,
		slices.Compact(fields), q.From.Unix(), q.Until.Unix(), q.Linked, slices.Compact(excluded)) // maps are in order
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// candidateSet names the candidates of a list: how those were found that it was made of, how many there are, and a hash
// of what decides which.
func candidateSet(list *recommend.List, hash string) string {
	rule := "all"
	switch {
	case list.Sampled > 0:
		rule = fmt.Sprintf("index+%d", list.Sampled)
	case list.Index != nil:
		rule = "index"
	}
	return fmt.Sprintf("%s/%d/%s", rule, list.Candidates, hash)
}

// AppendEvents stores events. An event without a model gets that of its list. Events of somebody who was forgotten are
// left out, and those about unknown ids wait for their nodes.
func (s *Service) AppendEvents(ctx context.Context, events []store.LogEvent) (_ EventResult, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return EventResult{}, err
	}
	defer end(&err)
	for k := range events {
		e := &events[k]
		if e.Model == "" {
			if prefix := modelOfList(e.List); prefix != "" {
				if known, err := s.models.find(prefix); err == nil {
					e.Model = known.Digest
				}
			}
		}
	}
	known, waiting, unknown := s.setApart(events)
	if waiting != nil { // an invalid event is named by its place among all
		if _, err := store.Check(events, s.o.Now); err != nil {
			return EventResult{}, err
		}
	}
	s.forgotten.appends.RLock()
	defer s.forgotten.appends.RUnlock()
	events, dropped := s.forgotten.keep(known)
	waiting, others := s.forgotten.keep(waiting)
	var result EventResult
	if len(waiting) > 0 {
		if waiting, err = store.Check(waiting, s.o.Now); err != nil {
			return EventResult{}, err
		}
		call := &waitingCall{events: waiting, err: errors.New("the events were interrupted")}
		if s.waiting.group.Add(call); call.err != nil {
			return EventResult{}, call.err
		}
		result.Waiting, result.Unknown = len(waiting)-call.duplicate, unknown
	}
	storing, span := s.span(ctx, "store")
	result.Result, err = s.events.Append(storing, events)
	endSpan(span, err)
	if err != nil {
		return EventResult{}, err
	}
	result.Forgotten = dropped + others
	result.Duplicate += len(waiting) - result.Waiting
	for _, e := range events {
		s.metrics.events.WithLabelValues(string(e.Kind)).Inc()
	}
	s.monitor.wake()
	return result, nil
}

// query turns the request into a query of the recommender.
func (r RecommendRequest) query(e modelView, explore float64) (recommend.Query, error) {
	q := recommend.Query{K: r.K, Seen: r.Seen, Linked: r.Linked, Diversity: r.Diversity, Explore: explore,
		Explain: r.Explain, Compare: r.Compare, Exact: r.Exact, Overlay: e.over}
	if q.K == 0 {
		q.K = 10
	}
	if q.K < 1 || q.K > MaxList {
		return q, outOfRange("k", q.K, 1, MaxList)
	}
	if err := r.surfaceFault(); err != nil {
		return q, err
	}
	if !(r.Diversity >= 0 && r.Diversity <= 1) {
		return q, outOfRange("diversity", r.Diversity, 0, 1)
	}
	if r.Compare && !e.HasNaive() {
		return q, hint.Wrap(requestError("compare", true, "needs a naive model, which the service does not have"),
			"leave %v out, or fit one and set %v of the service", requestField("compare"), hint.Setting("naive"))
	}
	switch {
	case r.Explore != nil:
		if q.Explore = *r.Explore; !(q.Explore >= 0 && q.Explore <= 1) {
			return q, outOfRange("explore", q.Explore, 0, 1)
		}
		if q.Explore > 0 && (r.Diversity > 0 || r.Seen) {
			return q, hint.Wrap(requestError("explore", q.Explore,
				"cannot be combined with diversity or seen: a re-ranked list has no probabilities"),
				"set %v to 0, or leave out %v and %v", requestField("explore"), requestField("diversity"),
				requestField("seen"))
		}
	case r.Diversity > 0 || r.Seen:
		q.Explore = 0
	}
	g := e.Graph()
	for _, name := range r.Fields {
		f, err := fieldNamed(g, "fields", name)
		if err != nil {
			return q, err
		}
		q.Fields = append(q.Fields, f)
	}
	for _, day := range []struct {
		field, text string
		into        *time.Time
	}{{"from", r.From, &q.From}, {"until", r.Until, &q.Until}} {
		if day.text == "" {
			continue
		}
		t, err := time.Parse("2006", day.text)
		if err != nil {
			t, err = time.Parse(time.DateOnly, day.text)
		}
		if err != nil {
			return q, hint.Wrap(requestError(day.field, clip(day.text), "is not a date"),
				"give one such as 2021 or 2021-01-31")
		}
		*day.into = t
	}
	if !q.From.IsZero() && !q.Until.IsZero() && !q.From.Before(q.Until) {
		return q, hint.Wrap(requestError("until", r.Until, "must be after from"),
			"give a later %v or an earlier %v", requestField("until"), requestField("from"))
	}
	if len(r.Exclude) > MaxExclude {
		return q, hint.Wrap(requestError("exclude", len(r.Exclude), "has %d ids", len(r.Exclude)),
			"give at most %d", MaxExclude)
	}
	for _, id := range r.Exclude {
		if j, ok := e.Find(e.over, id); ok { // an unknown id needs no exclusion
			q.Exclude = append(q.Exclude, j)
		}
	}
	return q, nil
}

// surfaceFault says why the log could not have the surface.
func (r RecommendRequest) surfaceFault() error {
	switch {
	case len(r.Surface) > store.MaxSurface:
		return hint.Wrap(requestError("surface", clip(r.Surface), "has %d bytes", len(r.Surface)), "give at most %d",
			store.MaxSurface)
	case !utf8.ValidString(r.Surface) || strings.IndexByte(r.Surface, 0) >= 0:
		return requestError("surface", nil, "is not UTF-8 or contains a NUL byte")
	}
	return nil
}

// source returns the node or text to recommend to.
func (r RecommendRequest) source(ctx context.Context, e modelView) (recommend.Source, []string, error) {
	if r.Node != "" {
		if r.Field != "" {
			return recommend.Source{}, nil, hint.Wrap(requestError("field", clip(r.Field),
				"is the field of a new text"), "use %v to select targets", requestField("fields"))
		}
		i, ok := e.find(r.Node)
		if !ok || int(i) < e.Graph().Len() && !e.Graph().IsSource(i) {
			if _, is := e.find(graph.PersonPrefix + r.Node); is {
				return recommend.Source{}, nil, hint.Wrap(&RequestError{Field: "node", Value: clip(r.Node),
					Reason: "is no person's id", NotFound: true},
					"ask for %s: items have the same ids as people", graph.PersonPrefix+clip(r.Node))
			}
		}
		if !ok {
			return recommend.Source{}, nil, &RequestError{Field: "node", Value: clip(r.Node),
				Reason: "is not in the dataset", See: "/api/v1/nodes", NotFound: true}
		}
		source, err := e.At(ctx, e.over, i)
		return source, nil, err
	}
	switch {
	case r.History != nil:
		return r.newPerson(ctx, e)
	case r.Nodes != nil:
		source, err := r.several(ctx, e)
		return source, nil, err
	case r.Anybody:
		if r.Field != "" {
			return recommend.Source{}, nil, hint.Wrap(requestError("field", clip(r.Field),
				"is the field of a new text"),
				"use %v to select targets", requestField("fields"))
		}
		source, err := e.Anybody(ctx)
		return source, nil, err
	}
	if len(r.Text)+len(r.Title) > MaxText {
		return recommend.Source{}, nil, hint.Wrap(requestError("text", nil, "has %d bytes",
			len(r.Text)+len(r.Title)), "give at most %d", MaxText)
	}
	if !utf8.ValidString(r.Text) || !utf8.ValidString(r.Title) {
		return recommend.Source{}, nil, requestError("text", nil, "is not UTF-8")
	}
	var field *uint16
	if r.Field != "" {
		f, err := fieldNamed(e.Graph(), "field", r.Field)
		if err != nil {
			return recommend.Source{}, nil, err
		}
		field = &f
	}
	source, probability, err := e.Text(ctx, encode.Text{Title: r.Title, Body: r.Text}, field)
	if err != nil {
		return recommend.Source{}, nil, requestError("text", nil, "cannot be used: %s",
			strings.TrimPrefix(err.Error(), recommend.ErrQuery.Error()+": "))
	}
	if field == nil {
		return source, []string{fmt.Sprintf("the field of the text was guessed, with probability %.2f; set field "+
			"to be sure", probability)}, nil
	}
	return source, nil, nil
}

// key is who the list is for.
func (r RecommendRequest) key() string {
	return r.Node + r.Title + r.Text + strings.Join(r.History, "\x00") + strings.Join(r.Nodes, "\x00")
}

// newPerson is a source by its history.
func (r RecommendRequest) newPerson(ctx context.Context, e modelView) (s recommend.Source, _ []string, err error) {
	if len(r.History)+len(r.Shown) > MaxExclude {
		return s, nil, hint.Wrap(requestError("history", len(r.History), "and shown have %d ids",
			len(r.History)+len(r.Shown)), "give at most %d", MaxExclude)
	}
	var lists [2][]int32
	for k, part := range []struct {
		field string
		ids   []string
	}{{"history", r.History}, {"shown", r.Shown}} {
		for _, id := range part.ids {
			j, ok := e.find(id)
			if !ok {
				return s, nil, &RequestError{Field: part.field, Value: clip(id), Reason: "is not in the dataset",
					See: "/api/v1/nodes", NotFound: true}
			}
			lists[k] = append(lists[k], j)
		}
	}
	var field *uint16
	if r.Field != "" {
		known, err := fieldNamed(e.Graph(), "field", r.Field)
		if err != nil {
			return s, nil, err
		}
		field = &known
	}
	weights, err := r.weights("history", len(lists[0]))
	if err != nil {
		return s, nil, err
	}
	if _, byVectors := e.Model().Link.(model.VectorQuery); byVectors && len(r.Shown) == 0 {
		if field != nil {
			return s, nil, hint.Wrap(requestError("field", clip(r.Field), "of a history is that of most of its items"),
				"leave it out")
		}
		seeds := make([]recommend.Seed, len(lists[0]))
		for k, j := range lists[0] {
			seeds[k] = recommend.Seed{Place: j, Weight: weights[k]}
		}
		s, err = e.Seeds(ctx, e.over, seeds, false)
	} else {
		s, err = e.folded(ctx, lists, weights, field)
	}
	if err != nil {
		return s, nil, requestError("history", nil, "cannot be used: %s",
			strings.TrimPrefix(err.Error(), recommend.ErrQuery.Error()+": "))
	}
	return s, nil, nil
}

// folded folds a history into learned factors. Items that came since the training have none to learn from, and are only
// left out of the list.
func (v modelView) folded(ctx context.Context, lists [2][]int32, weights []float64, field *uint16) (
	s recommend.Source, err error) {
	var linked, shown, places []int32
	var counts []float32
	for k, j := range lists[0] {
		if places = append(places, j); int(j) < v.Graph().Len() {
			linked, counts = append(linked, j), append(counts, float32(weights[k]))
		}
	}
	for _, j := range lists[1] {
		if int(j) < v.Graph().Len() {
			shown = append(shown, j)
		}
	}
	if s, err = v.WeightedHistory(ctx, linked, counts, shown, field); err != nil {
		return s, err
	}
	return s.LinkedTo(places), nil
}

// several is a source of several nodes.
func (r RecommendRequest) several(ctx context.Context, e modelView) (s recommend.Source, err error) {
	const most = 100
	if len(r.Nodes) < 1 || len(r.Nodes) > most {
		return s, outOfRange("nodes", len(r.Nodes), 1, most)
	}
	weights, err := r.weights("nodes", len(r.Nodes))
	if err != nil {
		return s, err
	}
	seeds := make([]recommend.Seed, len(r.Nodes))
	for k, id := range r.Nodes {
		place, ok := e.find(id)
		if !ok {
			return s, &RequestError{Field: "nodes", Value: clip(id), Reason: "is not in the dataset",
				See: "/api/v1/nodes", NotFound: true}
		}
		seeds[k] = recommend.Seed{Place: place, Weight: weights[k]}
	}
	if s, err = e.Seeds(ctx, e.over, seeds, !r.Linked); err != nil {
		return s, requestError("nodes", nil, "cannot be used: %s", strings.TrimPrefix(err.Error(),
			recommend.ErrQuery.Error()+": "))
	}
	return s, nil
}

// weights returns how much each of some ids counts.
func (r RecommendRequest) weights(of string, count int) ([]float64, error) {
	out := make([]float64, count)
	for k := range out {
		out[k] = 1
	}
	if r.Weights == nil {
		return out, nil
	}
	if len(r.Weights) != count {
		return nil, hint.Wrap(requestError("weights", len(r.Weights), "has %d numbers", len(r.Weights)),
			"give one for each of the %d ids of %v", count, requestField(of))
	}
	for k, w := range r.Weights {
		if !(w >= 1e-6 && w <= 1e6) {
			return nil, outOfRange("weights", w, 1e-6, 1e6)
		}
		out[k] = w
	}
	return out, nil
}

// fieldNamed finds a field by its name, ignoring case.
func fieldNamed(g *graph.Graph, parameter, name string) (uint16, error) {
	for f := range g.FieldCount() {
		if strings.EqualFold(g.FieldName(uint16(f)), name) {
			return uint16(f), nil
		}
	}
	return 0, &RequestError{Field: parameter, Value: clip(name), Reason: "is not a field of the dataset",
		See: "/api/v1/model"}
}

// clip shortens text of a client before it is sent back.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if r := []rune(text); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return text
}

// of returns the model that answers a source, and the arm of the A/B test.
func (l *deployment) of(source string) (*loadedModel, string) {
	if l.abTest == nil || l.b == nil {
		return l.current, ""
	}
	sum := sha256.Sum256([]byte(l.abTest.Salt + "\x00" + source))
	if float64(binary.LittleEndian.Uint64(sum[:])>>11)/(1<<53) < l.abTest.Share {
		return l.b, "b"
	}
	return l.current, "a"
}

var errTooMany = errors.New("too many recommendations at once")

// gate limits how many requests run at a time and how many wait, for at most a second. Further ones are rejected at
// once, so that memory stays bounded and accepted requests are answered in time.
type gate struct {
	inside  chan struct{}
	waiting chan struct{}
	storing chan struct{} // have left, and wait for the event log
}

func newGate(inside, waiting int) *gate {
	return &gate{make(chan struct{}, inside), make(chan struct{}, waiting), make(chan struct{}, waiting)}
}

// store lets another request in while one that is inside waits for the event log, so that what is computed meanwhile
// shares the next sync. Where too many wait for the log already, it keeps its place. It returns what to call at the end
// in place of leave.
func (g *gate) store(leave func()) func() {
	select {
	case g.storing <- struct{}{}:
		leave()
		return func() { <-g.storing }
	default:
		return leave
	}
}

func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-g.inside }
	select {
	case g.inside <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		return nil, errTooMany
	}
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case g.inside <- struct{}{}:
		return leave, nil
	case <-patience.C:
		return nil, errTooMany
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
