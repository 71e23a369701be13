package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/sse"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/hint"
	"unseen/recommend"
	"unseen/serve/store"
)

// Version is the version of the API.
const Version = "1.0.0"

// register adds the API to a mux.
func (s *Service) register(mux *http.ServeMux) huma.API {
	config := huma.DefaultConfig("unseen", Version)
	config.Info.Description = "Link recommendation that corrects for exposure. Every list has an id, and every " +
		"item has the probability with which it was shown: report both, and the service learns from them."
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.RejectUnknownQueryParameters = true
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Transformers = append(config.Transformers, func(ctx huma.Context, _ string, v any) (any, error) {
		if e, ok := v.(*huma.ErrorModel); ok { // the framework found what the schema forbids
			v = &problem{ErrorModel: *e}
		}
		if p, ok := v.(*problem); ok {
			p.finish(requestID(ctx.Context()))
		}
		return v, nil
	})
	if s.o.Prefix != "" {
		config.Servers = []*huma.Server{{URL: s.o.Prefix}}
	}
	api := huma.NewAPI(config, humago.NewAdapter(mux, s.o.Prefix))
	api.UseMiddleware(s.guard(api))
	r := registrar{s: s, api: api}
	add(r, ScopeRead, "GET /api/v1/overview", "Get the state of the service at a glance", s.getOverview)
	add(r, ScopeRead, "GET /api/v1/nodes", "Search nodes by id and title", s.getNodes)
	add(r, ScopeRead, "GET /api/v1/nodes/{id}", "Get a node and its links", s.getNode)
	add(r, ScopeRead, "GET /api/v1/nodes/{id}/events", "Get the latest events of a node", s.getNodeEvents)
	add(r, ScopeWrite, "PUT /api/v1/nodes", "Add or replace nodes of the catalogue", s.putNodes)
	add(r, ScopeWrite, "PATCH /api/v1/nodes", "Change nodes of the catalogue", s.patchNodes)
	add(r, ScopeWrite, "DELETE /api/v1/nodes", "Remove nodes from the catalogue; their events stay", s.deleteNodes)
	add(r, ScopeWrite, "PUT /api/v1/nodes/{id}", "Add or replace a node of the catalogue", s.putNode)
	add(r, ScopeWrite, "PATCH /api/v1/nodes/{id}", "Change a node of the catalogue", s.patchNode)
	add(r, ScopeAdmin, "DELETE /api/v1/nodes/{id}", "Forget a person or node and erase its events", s.deleteNode)
	add(r, ScopeRead, "GET /api/v1/forgotten", "Count who was forgotten and is still being erased", s.getForgotten)
	add(r, ScopeRead, "GET /api/v1/recommendations", "Recommend to a node or a short text", s.getRecommendations)
	add(r, ScopeRead, "POST /api/v1/recommendations", "Recommend to a node or a text", s.postRecommendations)
	add(r, ScopeWrite, "POST /api/v1/events", "Log what was shown, clicked, linked and dismissed", s.postEvents)
	add(r, ScopeRead, "GET /api/v1/events", "Read the event log", s.getEvents)
	add(r, ScopeRead, "GET /api/v1/model", "Get the live model and how far it can be trusted", s.getModel)
	add(r, ScopeRead, "GET /api/v1/bridges", "Find pairs of fields between which exposure hides links", s.getBridges)
	add(r, ScopeRead, "GET /api/v1/bridges/reading", "Download a reading list across two fields", s.getReading)
	add(r, ScopeRead, "GET /api/v1/loop", "Get the live same-field share, its forecast and drift alarms", s.getLoop)
	add(r, ScopeRead, "GET /api/v1/loop/simulation", "Simulate the feedback loop", s.getSimulation)
	add(r, ScopeAdmin, "POST /api/v1/jobs", "Retrain, or evaluate a model", s.postJob)
	add(r, ScopeRead, "GET /api/v1/jobs", "List jobs, the latest first", s.getJobs)
	add(r, ScopeRead, "GET /api/v1/jobs/{id}", "Get a job", s.getJob)
	add(r, ScopeRead, "GET /api/v1/jobs/{id}/curve", "Get the training curve of a job", s.getJobCurve)
	add(r, ScopeAdmin, "DELETE /api/v1/jobs/{id}", "Cancel a job", s.deleteJob)
	add(r, ScopeRead, "GET /api/v1/models", "List the registered models", s.getModels)
	add(r, ScopeAdmin, "POST /api/v1/models/{digest}/deploy", "Deploy a model", s.postDeploy)
	add(r, ScopeAdmin, "POST /api/v1/models/rollback", "Roll back to the previous model", s.postRollback)
	add(r, ScopeAdmin, "PUT /api/v1/ab-test", "Start an A/B test of a model against the live one", s.putABTest)
	add(r, ScopeAdmin, "DELETE /api/v1/ab-test", "End the A/B test", s.deleteABTest)
	add(r, ScopeRead, "GET /api/v1/ab-test", "Get the results of the A/B test", s.getABTest)
	r.old = true
	add(r, ScopeAdmin, "POST /api/v1/models/{digest}/serve", "/api/v1/models/{digest}/deploy", s.postDeploy)
	add(r, ScopeAdmin, "PUT /api/v1/trial", "/api/v1/ab-test", s.putABTest)
	add(r, ScopeAdmin, "DELETE /api/v1/trial", "/api/v1/ab-test", s.deleteABTest)
	add(r, ScopeRead, "GET /api/v1/trial", "/api/v1/ab-test", s.getABTest)
	sse.Register(api, operation(ScopeRead, "GET /api/v1/jobs/{id}/progress",
		"Stream the progress of a job as server-sent events"), map[string]any{"job": Job{}}, s.streamJob)
	describe(config.Components.Schemas.Map())
	illustrate(api.OpenAPI())
	return api
}

// registrar is where operations are added.
type registrar struct {
	s   *Service
	api huma.API
	old bool // the paths are deprecated, and summaries name those to use instead
}

// operation describes an operation, such as "GET /api/v1/nodes", with the scope that it needs.
func operation(scope Scope, pattern, summary string) huma.Operation {
	method, path, _ := strings.Cut(pattern, " ")
	name := operationName(method, path)
	return huma.Operation{
		OperationID: name, Method: method, Path: path, Summary: summary, Tags: []string{tagOf(path)},
		MaxBodyBytes: maxBody, SkipValidateBody: true, BodyReadTimeout: readTime, // takeBody has read and checked it
		Metadata: map[string]any{"scope": scope}, Security: []map[string][]string{{"token": {string(scope)}}},
		Errors: errorsOf(name),
	}
}

// add registers an operation.
func add[I, O any](r registrar, scope Scope, pattern, summary string, do func(context.Context, *I) (*O, error)) {
	op := operation(scope, pattern, summary)
	if op.OperationID == "startJob" {
		op.DefaultStatus = http.StatusAccepted
	}
	if r.old {
		op.Deprecated, op.Summary = true, "Deprecated: use "+summary
	}
	huma.Register(r.api, op, func(ctx context.Context, in *I) (*O, error) {
		callerOf(ctx).decoded()
		if r.old {
			r.s.deprecated(op.Path, summary)
		}
		out, err := do(ctx, in)
		if err == nil {
			return out, nil
		}
		found, known := r.s.problem(err)
		if !known {
			r.s.o.Log.ErrorContext(ctx, "request failed", "request", requestID(ctx), "operation", op.OperationID,
				"error", err)
		}
		if found.wait > 0 {
			return nil, huma.ErrorWithHeaders(found, http.Header{"Retry-After": {found.retryAfter()}})
		}
		return nil, found
	})
}

// guard checks the token and the body, sets the time limit and writes the audit log.
func (s *Service) guard(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		op := ctx.Operation()
		c := callerOf(r.Context())
		c.operation = op.OperationID
		need, _ := op.Metadata["scope"].(Scope)
		if need == ScopeAdmin || changesCatalogue(op) {
			path := r.URL.Path
			if changesCatalogue(op) { // who was forgotten is not written down
				path = op.Path
			}
			defer s.auditCall(w, r, path, need != ScopeAdmin) // a thousand changes a second are no thousand syncs
		}
		if refused := s.admit(r, need); refused != nil {
			refused.write(w, c.id)
			return
		}
		leave, refused := s.takeBody(w, r, op, api.OpenAPI().Components.Schemas)
		c.decoded = leave
		defer leave()
		if refused != nil {
			refused.write(w, c.id)
			return
		}
		if op.OperationID == "streamJob" {
			select {
			case s.lanes.streams <- struct{}{}:
				defer func() { <-s.lanes.streams }()
			default:
				s.metrics.shed.Inc()
				retryLater(http.StatusServiceUnavailable, errStreams, 5).write(w, c.id)
				return
			}
		} else {
			limited, cancel := context.WithTimeout(ctx.Context(), answerTime)
			defer cancel()
			ctx = huma.WithContext(ctx, limited)
		}
		next(ctx)
	}
}

// optional is a parameter whose absence differs from its zero value.
type optional[T any] struct {
	Value T
	Given bool
}

// Schema is that of the value.
func (o optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeOf(o.Value))
}

// Receiver is where huma puts the value.
func (o *optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet records whether there is a value.
func (o *optional[T]) OnParamSet(given bool, _ any) { o.Given = given }

func (o optional[T]) pointer() *T {
	if !o.Given {
		return nil
	}
	return &o.Value
}

// body is a JSON body.
type body[T any] struct{ Body T }

func respond[T any](v T) *body[T] { return &body[T]{v} }

// NodeSummary is a node of a list of nodes.
type NodeSummary struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	Field string `json:"field,omitempty"`
	Time  string `json:"time,omitempty" doc:"date"`
	Out   int    `json:"out" doc:"number of links from it"`
	In    int    `json:"in" doc:"number of links to it"`
	Role  string `json:"role,omitempty" doc:"source or target, if it is only one of them"`
}

func summarize(g *graph.Graph, i int32) NodeSummary {
	n := NodeSummary{ID: g.ID(i), Title: g.Title(i), Field: g.FieldName(g.Field(i)),
		Out: len(g.Out(i)), In: len(g.In(i))}
	if t, known := g.Time(i); known {
		n.Time = t.Format(time.DateOnly)
	}
	if role := g.Role(i); role != graph.SourceAndTarget {
		n.Role = role.String()
	}
	return n
}

// NodePage is a page of nodes.
type NodePage struct {
	Total int           `json:"total" doc:"number of matches"`
	Nodes []NodeSummary `json:"nodes"`
	Next  int           `json:"next,omitempty" doc:"offset of the next page, unless this is the last"`
}

type nodesInput struct {
	Q      string `query:"q" maxLength:"200" doc:"words, or parts of them, of an id and a title, ignoring case"`
	Field  string `query:"field" maxLength:"200" doc:"only nodes of this field"`
	Offset int    `query:"offset" minimum:"0" default:"0" doc:"matches to skip"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"number of nodes"`
}

func (s *Service) getNodes(ctx context.Context, in *nodesInput) (*body[NodePage], error) {
	found, err := s.Search(ctx, in.Q, in.Field, in.Offset, in.Limit)
	return respond(found), err
}

// Search finds nodes whose id and title have all words of a text, ignoring case; a part of a word will do.
func (s *Service) Search(ctx context.Context, q, field string, offset, limit int) (_ NodePage, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return NodePage{}, err
	}
	defer end(&err)
	leave, err := s.gate.enter(ctx)
	if err != nil {
		return NodePage{}, err
	}
	defer leave()
	e := s.live.Load().current.view()
	g := e.Graph()
	out := NodePage{Nodes: []NodeSummary{}}
	only := -1
	if field != "" {
		f, err := fieldNamed(g, "field", field)
		if err != nil {
			return out, err
		}
		only = int(f)
	}
	words := strings.Fields(strings.ToLower(q))
	found := func(place int32, name string) {
		if only >= 0 && int(e.FieldAt(e.over, place)) != only ||
			slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(name, word) }) {
			return
		}
		if out.Total >= offset && len(out.Nodes) < limit {
			out.Nodes = append(out.Nodes, e.summary(place))
		}
		out.Total++
	}
	for i, name := range e.base.names() {
		if i%4096 == 0 && ctx.Err() != nil {
			return out, ctx.Err()
		}
		if !e.hides(int32(i)) {
			found(int32(i), name)
		}
	}
	for place, c := range e.over.Changes() {
		if place%4096 == 0 && ctx.Err() != nil {
			return out, ctx.Err()
		}
		found(place, strings.ToLower(c.ID+"\n"+c.Title))
	}
	if offset+len(out.Nodes) < out.Total && len(out.Nodes) > 0 {
		out.Next = offset + len(out.Nodes)
	}
	return out, nil
}

// NodeDetail is a node with its text and its links.
type NodeDetail struct {
	NodeSummary
	Text        string        `json:"text,omitempty"`
	Origin      NodeOrigin    `json:"origin" enum:"dataset,changed,added" doc:"since when it is so"`
	Recommended bool          `json:"recommended" doc:"lists can have it"`
	Reason      string        `json:"reason,omitempty" doc:"why lists cannot have it"`
	Waiting     int           `json:"waiting" doc:"events about it that wait for the node at their other end"`
	LinksTo     []LinkSummary `json:"linksTo" doc:"100 links at most: the latest if links have times, else the first"`
	// LinkedFrom is for items: who links to a node that links to nothing itself.
	LinkedFrom []NodeSummary `json:"linkedFrom,omitempty" doc:"the first 100 links to a node that is a target only"`
}

// NodeOrigin says where a node comes from.
type NodeOrigin string

// The origins.
const (
	FromDataset NodeOrigin = "dataset" // as it is in the dataset of the live model
	NodeChanged NodeOrigin = "changed" // since then
	NodeAdded   NodeOrigin = "added"   // since then
)

// LinkSummary is the target of a link, and when the link was made.
type LinkSummary struct {
	NodeSummary
	LinkedAt string `json:"linkedAt,omitempty" doc:"date of the link"`
}

type idInput struct {
	ID string `path:"id" maxLength:"1024" doc:"id, with / escaped as %2F"`
}

func (s *Service) getNode(ctx context.Context, in *idInput) (*body[NodeDetail], error) {
	d, err := s.Node(ctx, in.ID)
	return respond(d), err
}

// Node returns a node with its text and its links, by its id.
func (s *Service) Node(ctx context.Context, id string) (_ NodeDetail, err error) {
	_, end, err := s.begin(ctx)
	if err != nil {
		return NodeDetail{}, err
	}
	defer end(&err)
	e := s.live.Load().current.view()
	g := e.Graph()
	i, ok := e.find(id)
	if !ok {
		return NodeDetail{}, &RequestError{Field: "id", Value: clip(id), Reason: "is not in the dataset",
			See: "/api/v1/nodes", NotFound: true}
	}
	if c, changed := e.over.Change(i); changed {
		d := e.changedDetail(i, c)
		d.Waiting = s.waiting.countOf(id)
		return d, nil
	}
	d := NodeDetail{NodeSummary: summarize(g, i), Origin: FromDataset, Waiting: s.waiting.countOf(id),
		LinksTo: e.history(i)}
	d.Recommended, d.Reason = e.recommended(i)
	if d.Text, err = e.base.Text(i); err != nil {
		return NodeDetail{}, err
	}
	if !g.IsSource(i) {
		for _, from := range g.In(i) {
			if len(d.LinkedFrom) < 100 && !e.hides(from) {
				d.LinkedFrom = append(d.LinkedFrom, summarize(g, from))
			}
		}
	}
	return d, nil
}

// history returns what a node links to, the latest first if links have times.
func (v modelView) history(i int32) []LinkSummary {
	g := v.Graph()
	times, places := g.OutTimes(i), []int{}
	for k, j := range g.Out(i) {
		if _, ok := v.find(g.ID(j)); ok {
			places = append(places, k)
		}
	}
	if times != nil {
		slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(times[b], times[a]) })
	}
	out := []LinkSummary{}
	for _, k := range places[:min(len(places), 100)] {
		at, _ := v.find(g.ID(g.Out(i)[k]))
		one := LinkSummary{NodeSummary: v.summary(at)}
		if times != nil && times[k] != graph.NoTime {
			one.LinkedAt = time.Unix(times[k], 0).UTC().Format(time.DateOnly)
		}
		out = append(out, one)
	}
	return out
}

type recommendInput struct {
	Node      string            `query:"node" maxLength:"1024" doc:"id of the node to recommend to"`
	Text      string            `query:"text" maxLength:"4000" doc:"new text instead of a node; POST takes longer ones"`
	Field     string            `query:"field" maxLength:"200" doc:"field of the new text; default: guessed"`
	K         int               `query:"k" minimum:"1" maximum:"1000" default:"10" doc:"number of items"`
	Fields    []string          `query:"fields,explode" maxItems:"1000" doc:"only targets of this field; repeatable"`
	From      string            `query:"from" maxLength:"20" doc:"only targets from this day on, as 2021 or 2021-01-31"`
	Until     string            `query:"until" maxLength:"20" doc:"only targets before this day"`
	Linked    bool              `query:"linked" doc:"include targets that the node links to already"`
	Exclude   []string          `query:"exclude,explode" maxItems:"1000" doc:"id to leave out; repeatable"`
	Diversity float64           `query:"diversity" minimum:"0" maximum:"1" doc:"0: relevance only; 1: most diverse"`
	Explore   optional[float64] `query:"explore" doc:"share of positions drawn where that teaches most, from 0 to 1"`
	Seed      optional[uint64]  `query:"seed" doc:"seed of exploration; default: random"`
	Seen      bool              `query:"seen" doc:"rank by π̂ŷ, which repeats past exposure; turns explore off"`
	Compare   bool              `query:"compare" doc:"add the naive model's list"`
	Explain   bool              `query:"explain" doc:"add the reason for each item"`
	Exact     bool              `query:"exact" doc:"make the list exactly, though there is an index"`
	Log       bool              `query:"log" deprecated:"true" doc:"rejected: a GET changes nothing; use POST"`
}

func (s *Service) getRecommendations(ctx context.Context, in *recommendInput) (*body[*RecommendResponse], error) {
	if in.Log {
		return nil, hint.Wrap(requestError("log", true, "needs the method POST, because a GET changes nothing"),
			"send the same keys as JSON with POST")
	}
	return s.recommendFor(ctx, RecommendRequest{
		Node: in.Node, Text: in.Text, Field: in.Field, K: in.K, Fields: in.Fields, From: in.From, Until: in.Until,
		Linked: in.Linked, Exclude: in.Exclude,
		Diversity: in.Diversity, Explore: in.Explore.pointer(), Seed: in.Seed.pointer(), Seen: in.Seen,
		Compare: in.Compare, Explain: in.Explain, Exact: in.Exact,
	})
}

func (s *Service) postRecommendations(ctx context.Context, in *body[RecommendRequest]) (*body[*RecommendResponse],
	error) {
	return s.recommendFor(ctx, in.Body)
}

func (s *Service) recommendFor(ctx context.Context, r RecommendRequest) (*body[*RecommendResponse], error) {
	if r.Log && s.o.Tokens != nil && !s.scopeOf(ctx).covers(ScopeWrite) {
		return nil, newProblem(http.StatusForbidden,
			hint.Wrap(requestError("log", true, "needs a token with scope write"),
				"leave %v out, or send such a token", requestField("log")))
	}
	a, err := s.Recommend(ctx, r)
	return respond(a), err
}

// scopeOf returns the scope of the caller's token.
func (s *Service) scopeOf(ctx context.Context) Scope {
	name := callerOf(ctx).token
	for _, t := range *s.o.Tokens.list.Load() {
		if t.Name == name {
			return t.Scope
		}
	}
	return ""
}

// eventBatch is the events of one request.
type eventBatch struct {
	Events []store.LogEvent `json:"events" minItems:"1" maxItems:"10000" nullable:"false"`
}

func (s *Service) postEvents(ctx context.Context, in *body[eventBatch]) (*body[EventResult], error) {
	result, err := s.AppendEvents(ctx, in.Body.Events)
	return respond(result), err
}

// EventPage is a page of the log.
type EventPage struct {
	Events []store.LogEvent `json:"events"`
	Total  int64            `json:"total"`
}

type eventsInput struct {
	After int64 `query:"after" minimum:"0" doc:"return events with a higher seq"`
	Limit int   `query:"limit" minimum:"1" maximum:"10000" default:"100" doc:"number of events"`
}

func (s *Service) getEvents(ctx context.Context, in *eventsInput) (*body[EventPage], error) {
	page, err := s.Events(ctx, in.After, in.Limit)
	return respond(page), err
}

// Events returns at most limit events of the log whose Seq is above after, the oldest first.
func (s *Service) Events(ctx context.Context, after int64, limit int) (_ EventPage, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return EventPage{}, err
	}
	defer end(&err)
	leave, err := s.gate.enter(ctx)
	if err != nil {
		return EventPage{}, err
	}
	defer leave()
	reading, span := s.span(ctx, "store")
	events, err := s.events.Events(reading, after, limit)
	endSpan(span, err)
	if err != nil {
		return EventPage{}, err
	}
	totals, err := s.events.Totals(ctx)
	if err != nil {
		return EventPage{}, err
	}
	if events == nil {
		events = []store.LogEvent{}
	}
	return EventPage{events, totals.Events}, nil
}

// ModelDetail describes the live model.
type ModelDetail struct {
	ModelEntry
	Dataset string   `json:"dataset"`
	Nodes   int      `json:"nodes"`
	Links   int      `json:"links"`
	Texts   bool     `json:"texts" doc:"the service recommends for new texts"`
	Naive   bool     `json:"naive" doc:"lists can be compared with a naive model's"`
	Explore float64  `json:"explore" doc:"default share of a list's positions that is drawn at random"`
	Fields  []string `json:"fields"`
	// SourceFields and TargetFields are those of either side, where sources and targets are not the same nodes.
	SourceFields []string `json:"sourceFields,omitempty" doc:"fields of sources, if not all nodes are both"`
	TargetFields []string `json:"targetFields,omitempty" doc:"fields of targets, if not all nodes are both"`
	// Propensities are the mean π̂ from the field of the row to that of the column.
	Propensities [][]float64   `json:"propensities" doc:"mean chance that the row's field is shown the column's"`
	Findings     *fit.Findings `json:"findings,omitempty" doc:"verdict of the doctor"`
	// Doubt is such as of a log that contradicts the links.
	Doubt string `json:"doubt,omitempty" doc:"why comparisons by this model cannot be relied on"`
	// Certificate and Evaluation are documents of their own.
	Certificate *evaluate.Certificate `json:"certificate,omitempty"`
	Evaluation  *evaluate.Evaluation  `json:"evaluation,omitempty" doc:"if the model was evaluated"`
}

func (s *Service) getModel(ctx context.Context, _ *struct{}) (*body[ModelDetail], error) {
	d, err := s.ModelDetail()
	return respond(d), err
}

// ModelDetail returns the live model and how far it can be trusted.
func (s *Service) ModelDetail() (_ ModelDetail, err error) {
	ctx, end, err := s.begin(context.Background())
	if err != nil {
		return ModelDetail{}, err
	}
	defer end(&err)
	e := s.live.Load().current
	m, g := e.Model(), e.Graph()
	entry, err := s.models.find(e.digest)
	if err != nil {
		return ModelDetail{}, err
	}
	d := ModelDetail{ModelEntry: entry, Dataset: filepath.Base(s.net.Folder()), Nodes: g.Len(), Links: g.LinkCount(),
		Texts: s.texts, Naive: e.HasNaive(), Explore: s.o.Explore}
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{m.Findings, &d.Findings}, {m.Certificate, &d.Certificate}} {
		if len(part.raw) > 0 {
			if err := json.Unmarshal(part.raw, part.into); err != nil {
				return d, err
			}
		}
	}
	if d.Findings != nil {
		d.Doubt = d.Findings.Doubt()
	}
	has := make([]bool, g.FieldCount())
	for _, f := range g.Fields() {
		has[f] = true
	}
	var fields []uint16 // that have nodes
	for f, yes := range has {
		if yes && uint16(f) != graph.UnknownField {
			d.Fields, fields = append(d.Fields, g.FieldName(uint16(f))), append(fields, uint16(f))
		}
	}
	if g.TwoSided() {
		d.SourceFields, d.TargetFields = fieldsOf(g, g.Sources()), fieldsOf(g, g.Targets())
	}
	var cells [][2]uint16
	for _, source := range fields {
		for _, target := range fields {
			cells = append(cells, [2]uint16{source, target})
		}
	}
	means, err := e.FieldPropensities(ctx, cells)
	if err != nil {
		return d, err
	}
	d.Propensities = slices.Collect(slices.Chunk(means, max(len(fields), 1)))
	d.Evaluation, err = s.models.readEvaluation(e.digest)
	return d, err
}

// BridgeList is pairs of fields between which exposure hides links.
type BridgeList struct {
	Model   string             `json:"model"`
	Bridges []recommend.Bridge `json:"bridges" doc:"the largest gap first"`
}

type bridgesInput struct {
	Sources int `query:"sources" minimum:"1" maximum:"200" default:"40" doc:"nodes to sample from each field"`
	List    int `query:"list" minimum:"0" maximum:"50" default:"3" doc:"pairs in the reading list of each bridge"`
	Limit   int `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"number of bridges"`
}

func (s *Service) getBridges(ctx context.Context, in *bridgesInput) (*body[BridgeList], error) {
	if in.Sources == bridgeSources && in.List <= readingLength { // they are known, or soon will be
		out, err := s.Bridges(ctx)
		out.Bridges = slices.Clone(out.Bridges[:min(len(out.Bridges), in.Limit)])
		for k := range out.Bridges {
			if b := &out.Bridges[k]; in.List == 0 {
				b.Reading = nil
			} else {
				b.Reading = b.Reading[:min(len(b.Reading), in.List)]
			}
		}
		return respond(out), err
	}
	leave, err := s.enterGate(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	e := s.live.Load().current
	if !e.HasNaive() {
		return nil, errNoNaive()
	}
	list := in.List
	if list == 0 {
		list = -1
	}
	found, err := e.Bridges(ctx, recommend.BridgeSettings{Sources: in.Sources, List: list, Seed: 1})
	if err != nil {
		return nil, err
	}
	return respond(BridgeList{e.digest, e.view().bridges(found[:min(len(found), in.Limit)])}), nil
}

func (s *Service) getLoop(context.Context, *struct{}) (*body[LoopStatus], error) {
	return respond(s.Loop()), nil
}

// startedJob is a job and where to ask for it.
type startedJob struct {
	Location string `header:"Location" doc:"path of the job"`
	Body     Job
}

func (s *Service) postJob(_ context.Context, in *body[JobRequest]) (*startedJob, error) {
	job, err := s.StartJob(in.Body)
	return &startedJob{s.at("/api/v1/jobs/" + job.ID), job}, err
}

// StartJob queues a job. It runs while the service is open, or after the folder is opened again.
func (s *Service) StartJob(r JobRequest) (_ Job, err error) {
	_, end, err := s.begin(context.Background())
	if err != nil {
		return Job{}, err
	}
	defer end(&err)
	if len(r.Model) > maxDigest {
		return Job{}, hint.Wrap(requestError("model", clip(r.Model), "has %d bytes", len(r.Model)),
			"give the digest of a model, or its first characters")
	}
	switch r.Kind {
	case "retrain":
		if _, ok := fit.Methods()[r.Method]; !ok && r.Method != "" {
			return Job{}, hint.Wrap(requestError("method", clip(r.Method), "is not a training method"),
				"give one of %s", strings.Join(slices.Sorted(maps.Keys(fit.Methods())), ", "))
		}
	case "evaluate":
		r.Method, r.Rule = "", "" // have no meaning here
	case "value":
		r.Method = ""
		if !slices.Contains([]recommend.Rule{"", recommend.ByModel, recommend.ByPopular, recommend.ByUniform},
			recommend.Rule(r.Rule)) {
			return Job{}, hint.Wrap(requestError("rule", clip(r.Rule), "is not a rule of lists"),
				"give %s, %s or %s", recommend.ByModel, recommend.ByPopular, recommend.ByUniform)
		}
	default:
		return Job{}, hint.Wrap(requestError("kind", clip(r.Kind), "is not a kind of job"),
			"give retrain, evaluate or value")
	}
	if r.Keep {
		s.deprecated("keep", "trainOnly")
		r.TrainOnly = true
	}
	return s.jobs.add(r, false)
}

// deprecated logs, once for each name, that somebody uses an old one.
func (s *Service) deprecated(old, name string) {
	if _, logged := s.oldNames.LoadOrStore(old, true); !logged {
		s.o.Log.Warn("deprecated name used; it will be gone in the next version", "name", old, "use", name)
	}
}

// WaitJob waits until a job has ended and returns it.
func (s *Service) WaitJob(ctx context.Context, id string) (_ Job, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return Job{}, err
	}
	defer end(&err)
	for {
		job, changed, err := s.jobs.find(id)
		if err != nil || job.Ended != nil {
			return job, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return job, ctx.Err()
		}
	}
}

// JobList is the remembered jobs.
type JobList struct {
	Jobs []Job      `json:"jobs" doc:"the latest first"`
	Due  *time.Time `json:"due,omitempty" doc:"time of the next scheduled retraining, if the log has enough new events"`
}

func (s *Service) getJobs(context.Context, *struct{}) (*body[JobList], error) {
	return respond(s.Jobs()), nil
}

// Jobs returns the remembered jobs.
func (s *Service) Jobs() JobList {
	list := JobList{Jobs: s.jobs.list()}
	if due, planned := s.NextRetrain(); planned {
		list.Due = &due
	}
	return list
}

func (s *Service) getJob(_ context.Context, in *idInput) (*body[Job], error) {
	job, err := s.Job(in.ID)
	return respond(job), err
}

// Job returns the current state of a job; see also WaitJob.
func (s *Service) Job(id string) (Job, error) {
	job, _, err := s.jobs.find(id)
	return job, err
}

func (s *Service) deleteJob(_ context.Context, in *idInput) (*body[Job], error) {
	job, err := s.CancelJob(in.ID)
	return respond(job), err
}

// CancelJob cancels a job and returns its current state: it may take a moment to end, see WaitJob.
func (s *Service) CancelJob(id string) (_ Job, err error) {
	_, end, err := s.begin(context.Background())
	if err != nil {
		return Job{}, err
	}
	defer end(&err)
	return s.jobs.stop(id)
}

// streamJob sends a job whenever it changes, at most four times a second, until it has ended.
func (s *Service) streamJob(ctx context.Context, in *idInput, send sse.Sender) {
	for {
		job, changed, err := s.jobs.find(in.ID)
		if err != nil || send.Data(job) != nil || job.Ended != nil || s.draining.Load() {
			return
		}
		pause := time.NewTimer(time.Second / 4)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		quiet := time.NewTimer(10 * time.Second) // then it is sent again, to keep the connection open
		select {
		case <-changed:
		case <-quiet.C:
		case <-ctx.Done():
		}
		quiet.Stop()
	}
}

// ModelList is the registered models.
type ModelList struct {
	Current string       `json:"current"`
	Naive   string       `json:"naive,omitempty" doc:"digest of the naive model"`
	Models  []ModelEntry `json:"models" doc:"the oldest first"`
}

func (s *Service) getModels(context.Context, *struct{}) (*body[ModelList], error) {
	return respond(s.Models()), nil
}

// Models returns the registered models.
func (s *Service) Models() ModelList {
	r := s.models.snapshot()
	return ModelList{r.Current, r.Naive, r.Models}
}

type digestInput struct {
	Digest string `path:"digest" minLength:"6" maxLength:"64" doc:"digest, or its first characters"`
}

func (s *Service) postDeploy(ctx context.Context, in *digestInput) (*body[ModelEntry], error) {
	e, err := s.Deploy(ctx, in.Digest)
	return respond(e), err
}

func (s *Service) postRollback(ctx context.Context, _ *struct{}) (*body[ModelEntry], error) {
	e, err := s.Deploy(ctx, "")
	return respond(e), err
}

func (s *Service) putABTest(ctx context.Context, in *body[ABTestRequest]) (*body[*ABTest], error) {
	t, err := s.StartABTest(ctx, in.Body)
	return respond(t), err
}

func (s *Service) deleteABTest(context.Context, *struct{}) (*body[Comparison], error) {
	if err := s.EndABTest(); err != nil {
		return nil, err
	}
	return respond(s.Compare()), nil
}

func (s *Service) getABTest(context.Context, *struct{}) (*body[Comparison], error) {
	return respond(s.Compare()), nil
}

// fieldsOf returns the names of the fields that some nodes have, in the order of the fields.
func fieldsOf(g *graph.Graph, nodes []int32) (names []string) {
	has := make([]bool, g.FieldCount())
	for _, i := range nodes {
		has[g.Field(i)] = true
	}
	for f, yes := range has {
		if yes && uint16(f) != graph.UnknownField {
			names = append(names, g.FieldName(uint16(f)))
		}
	}
	return names
}
