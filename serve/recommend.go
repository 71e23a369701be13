package serve

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"unseen/encode"
	"unseen/graph"
	"unseen/recommend"
	"unseen/serve/store"
)

// Limits of what is asked for.
const (
	MaxList    = 1000
	MaxText    = 20_000 // bytes
	MaxExclude = 10_000
)

// Ask is what recommendations are asked for.
type RecommendRequest struct {
	Node  string `json:"node,omitempty" doc:"id of the node to recommend to"`
	Text  string `json:"text,omitempty" doc:"or a new text"`
	Title string `json:"title,omitempty" doc:"of the new text"`
	Field string `json:"field,omitempty" doc:"of the new text; guessed if it is left out"`

	K         int      `json:"k,omitempty" doc:"how many; 10 if it is left out"`
	Fields    []string `json:"fields,omitempty" doc:"only targets of these fields"`
	From      string   `json:"from,omitempty" doc:"only targets from this day on, as 2021 or 2021-01-31"`
	Until     string   `json:"until,omitempty" doc:"only targets before this day"`
	Linked    bool     `json:"linked,omitempty" doc:"also what the node links to already"`
	Exclude   []string `json:"exclude,omitempty" doc:"never these ids"`
	Diversity float64  `json:"diversity,omitempty" doc:"from 0, pure relevance, to 1, no two alike; then nothing is drawn"`
	Explore   *float64 `json:"explore,omitempty" doc:"share of the places drawn in proportion to ŷ; the service's own if it is left out"`
	Seed      *uint64  `json:"seed,omitempty" doc:"of the draw; chance if it is left out"`
	Seen      bool     `json:"seen,omitempty" doc:"rank by π̂ŷ: repeats past exposure; then nothing is drawn"`
	Compare   bool     `json:"compare,omitempty" doc:"the naive model's list beside it"`
	Explain   bool     `json:"explain,omitempty" doc:"say why each is there"`
	Log       bool     `json:"log,omitempty" doc:"log all items as shown"`
}

// Answer is a list that was recommended.
type RecommendResponse struct {
	List    string  `json:"list" doc:"id of the list; give it back with events"`
	Model   string  `json:"model" doc:"digest of the model"`
	Seed    uint64  `json:"seed" doc:"of the draw; the list's id begins with it"`
	Explore float64 `json:"explore" doc:"share of the places that were drawn"`
	Arm     string  `json:"arm,omitempty" doc:"of a trial: a or b"`
	Logged  int     `json:"logged" doc:"items that were logged as shown"`

	Source     recommend.Item   `json:"source" doc:"of whom; empty for a new text"`
	Field      string           `json:"field" doc:"of the source"`
	Candidates int              `json:"candidates"`
	Items      []recommend.Item `json:"items" doc:"shown: the probability with which this list has the item"`
	Naive      []recommend.Item `json:"naive,omitempty" doc:"what the naive model would recommend"`
	Warnings   []string         `json:"warnings,omitempty"`
}

// Fault is something wrong with a request: which part of it, and what would be right.
type RequestError struct {
	Field    string // such as "k"
	Value    any
	Reason   string
	See      string // where the API lists what there is, below Options.Prefix; "" if nowhere
	NotFound bool   // what is named does not exist
}

func (f *RequestError) Error() string { return f.Field + " " + f.reason("") }

func (f *RequestError) reason(prefix string) string {
	if f.See == "" {
		return f.Reason
	}
	return f.Reason + "; see " + prefix + f.See
}

func requestError(part string, value any, format string, a ...any) *RequestError {
	return &RequestError{Field: part, Value: value, Reason: fmt.Sprintf(format, a...)}
}

// Recommend makes a list. When it is logged, it is so before Recommend returns.
func (s *Service) Recommend(ctx context.Context, ask RecommendRequest) (_ *RecommendResponse, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	leave, err := s.gate.enter(ctx)
	if err != nil {
		s.metrics.shed.Inc()
		return nil, err
	}
	defer leave()
	if ask.Node == "" == (ask.Text == "" && ask.Title == "") {
		return nil, requestError("node", ask.Node, "or text: give one of them")
	}
	engine, arm := s.live.Load().of(ask.Node + ask.Title + ask.Text)
	q, err := ask.query(engine, s.o.Explore)
	if err != nil {
		return nil, err
	}
	source, notes, err := ask.source(engine)
	if err != nil {
		return nil, err
	}
	q.Source = source
	if ask.Seed != nil {
		q.Seed = *ask.Seed
	} else {
		var raw [8]byte
		crand.Read(raw[:])
		q.Seed = binary.LittleEndian.Uint64(raw[:]) >> 11 // 53 bits, which every reader of JSON keeps
	}
	list, err := engine.Top(ctx, q)
	if err != nil {
		return nil, err
	}
	a := &RecommendResponse{
		List: newListID(q.Seed, engine.digest), Model: engine.digest, Seed: q.Seed, Explore: q.Explore, Arm: arm,
		Source: list.Source, Field: list.Field, Candidates: list.Candidates, Items: list.Items, Naive: list.Naive,
		Warnings: append(notes, list.Warnings...),
	}
	s.metrics.recommended.Add(float64(len(a.Items)))
	if ask.Log {
		if a.Logged, err = s.logShown(ctx, ask, a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// logShown logs all items of a list as shown.
func (s *Service) logShown(ctx context.Context, ask RecommendRequest, a *RecommendResponse) (int, error) {
	source := ask.Node
	if source == "" {
		sum := sha256.Sum256([]byte(ask.Title + "\x00" + ask.Text))
		source = "text:" + hex.EncodeToString(sum[:8]) // no node's; it stays in the log but nothing is learned from it
	}
	events := make([]store.Event, len(a.Items))
	for k, item := range a.Items {
		events[k] = store.Event{
			ID: fmt.Sprintf("%s.%d", a.List, k+1), Kind: store.Shown, Source: source, Target: item.ID,
			Probability: item.Shown, Model: a.Model, List: a.List, Position: k + 1,
		}
	}
	result, err := s.AppendEvents(ctx, events)
	return result.Stored + result.Duplicate + result.Spooled, err
}

// Append stores events. A click or a link whose model is left out has that of its list.
func (s *Service) AppendEvents(ctx context.Context, events []store.Event) (_ store.Result, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return store.Result{}, err
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
	result, err := s.events.Append(ctx, events)
	if err != nil {
		return result, err
	}
	for _, e := range events {
		s.metrics.events.WithLabelValues(string(e.Kind)).Inc()
	}
	s.monitor.wake()
	return result, nil
}

// query turns what was asked into what the recommender understands.
func (ask RecommendRequest) query(e *engine, explore float64) (recommend.Query, error) {
	q := recommend.Query{K: ask.K, Seen: ask.Seen, Linked: ask.Linked, Diversity: ask.Diversity, Explore: explore,
		Explain: ask.Explain, Compare: ask.Compare}
	if q.K == 0 {
		q.K = 10
	}
	if q.K < 1 || q.K > MaxList {
		return q, requestError("k", ask.K, "is %d; give from 1 to %d", ask.K, MaxList)
	}
	if !(ask.Diversity >= 0 && ask.Diversity <= 1) {
		return q, requestError("diversity", ask.Diversity, "is %v; give from 0 to 1", ask.Diversity)
	}
	if ask.Compare && !e.HasNaive() {
		return q, requestError("compare", true, "needs a naive model, and the service has none")
	}
	switch {
	case ask.Explore != nil:
		if q.Explore = *ask.Explore; !(q.Explore >= 0 && q.Explore <= 1) {
			return q, requestError("explore", q.Explore, "is %v; give from 0 to 1", q.Explore)
		}
		if q.Explore > 0 && (ask.Diversity > 0 || ask.Seen) {
			return q, requestError("explore", q.Explore,
				"and diversity or seen exclude one another: a re-ranked list has no probabilities")
		}
	case ask.Diversity > 0 || ask.Seen:
		q.Explore = 0
	}
	g := e.Graph()
	for _, name := range ask.Fields {
		f, err := fieldNamed(g, "fields", name)
		if err != nil {
			return q, err
		}
		q.Fields = append(q.Fields, f)
	}
	for _, day := range []struct {
		part, text string
		into       *time.Time
	}{{"from", ask.From, &q.From}, {"until", ask.Until, &q.Until}} {
		if day.text == "" {
			continue
		}
		t, err := time.Parse("2006", day.text)
		if err != nil {
			t, err = time.Parse(time.DateOnly, day.text)
		}
		if err != nil {
			return q, requestError(day.part, clip(day.text), "is no day; give one such as 2021 or 2021-01-31")
		}
		*day.into = t
	}
	if !q.From.IsZero() && !q.Until.IsZero() && !q.From.Before(q.Until) {
		return q, requestError("until", ask.Until, "is not after from; then no target is left")
	}
	if len(ask.Exclude) > MaxExclude {
		return q, requestError("exclude", len(ask.Exclude), "has %d ids; give %d at most", len(ask.Exclude), MaxExclude)
	}
	for _, id := range ask.Exclude {
		if j, ok := g.Index(id); ok { // who is not there is excluded already
			q.Exclude = append(q.Exclude, j)
		}
	}
	return q, nil
}

// source finds out who is recommended to.
func (ask RecommendRequest) source(e *engine) (recommend.Source, []string, error) {
	if ask.Node != "" {
		if ask.Field != "" {
			return recommend.Source{}, nil, requestError("field", clip(ask.Field),
				"is that of a new text; for targets of some fields give fields")
		}
		i, ok := e.Graph().Index(ask.Node)
		if !ok {
			return recommend.Source{}, nil, &RequestError{Field: "node", Value: clip(ask.Node),
				Reason: "is no id of the dataset", See: "/api/v1/nodes", NotFound: true}
		}
		return e.Node(i), nil, nil
	}
	if len(ask.Text)+len(ask.Title) > MaxText {
		return recommend.Source{}, nil, requestError("text", nil, "has %d bytes; give %d at most", len(ask.Text)+
			len(ask.Title), MaxText)
	}
	if !utf8.ValidString(ask.Text) || !utf8.ValidString(ask.Title) {
		return recommend.Source{}, nil, requestError("text", nil, "is not UTF-8")
	}
	var field *uint16
	if ask.Field != "" {
		f, err := fieldNamed(e.Graph(), "field", ask.Field)
		if err != nil {
			return recommend.Source{}, nil, err
		}
		field = &f
	}
	source, probability, err := e.Text(encode.Text{Title: ask.Title, Body: ask.Text}, field)
	if err != nil {
		return recommend.Source{}, nil, requestError("text", nil, "cannot be used: %s",
			strings.TrimPrefix(err.Error(), recommend.ErrQuery.Error()+": "))
	}
	if field == nil {
		return source, []string{fmt.Sprintf("the text's field is a guess, with probability %.2f; give it with field",
			probability)}, nil
	}
	return source, nil, nil
}

// fieldNamed looks a field up by its name, whatever its case.
func fieldNamed(g *graph.Graph, part, name string) (uint16, error) {
	for f := range g.FieldCount() {
		if strings.EqualFold(g.FieldName(uint16(f)), name) {
			return uint16(f), nil
		}
	}
	return 0, &RequestError{Field: part, Value: clip(name), Reason: "has no field of that name", See: "/api/v1/model"}
}

// clip shortens what a client sent before it is sent back.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if r := []rune(text); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return text
}

// of says who answers a source, and as which arm of a trial.
func (l *deployment) of(source string) (*engine, string) {
	if l.abTest == nil {
		return l.current, ""
	}
	sum := sha256.Sum256([]byte(l.abTest.Salt + "\x00" + source))
	if float64(binary.LittleEndian.Uint64(sum[:])>>11)/(1<<53) < l.abTest.Share {
		return l.b, "b"
	}
	return l.current, "a"
}

var errTooMany = errors.New("serve: too many recommendations at once")

// gate lets so many in at a time and so many more wait, each for a second at most: what cannot be answered soon is
// refused at once, so that memory stays bounded and who gets in is answered in time.
type gate struct {
	inside  chan struct{}
	waiting chan struct{}
}

func newGate(inside, waiting int) *gate {
	return &gate{make(chan struct{}, inside), make(chan struct{}, waiting)}
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
