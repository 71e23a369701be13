package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"unseen/graph"
	"unseen/internal/atomicfile"
	"unseen/loop"
	"unseen/recommend"
	"unseen/serve/store"
)

// monitor follows the log and counts: how many shown items stay within the source's field, whether that share drifts,
// and what became of each model's lists. Services that share a log each read all of it.
type monitor struct {
	path    string
	service *Service
	woken   chan struct{}

	mu sync.Mutex
	monitorState
	drift    *loop.Drift
	list     []store.LogEvent // shown together, not counted yet
	forecast *loop.Forecast
	readers  readerFields
	dirty    bool
}

// monitorState is what is saved for a restart.
type monitorState struct {
	Version int                  `json:"version"`
	Seq     int64                `json:"seq"` // of the last event that was counted
	Shown   int64                `json:"shown"`
	Same    int64                `json:"same"` // of these, in the source's field
	Models  map[string]*tally    `json:"models"`
	Fields  map[string]*[2]int64 `json:"fields"` // shown and same, by the name of the source's field
	Drift   json.RawMessage      `json:"drift,omitempty"`
	Recent  []bool               `json:"recent"`         // same field or not, of the last items shown
	Test    time.Time            `json:"abTest"`         // start of the A/B test that the arms belong to
	Trial   time.Time            `json:"trial,omitzero"` // old name of abTest: read, never written
	Arms    map[string]*tally    `json:"arms,omitempty"`
	Alarms  []AlarmEntry         `json:"alarms"`
}

// recentItems is the number of items in the live share.
const recentItems = 5000

// Limits of what is counted, whatever clients send. Only registered models have counts, and only nodes of the network
// and texts are sources of them.
const (
	maxTallied  = 200_000  // sources that a model's rates are clustered by; later ones count in the sums only
	maxTexts    = 256      // clusters of new texts, and of new people
	maxSaved    = 64 << 20 // bytes of the saved state; the log gives a larger one again
	otherModels = "others" // models that are not registered
)

// tally counts what became of one model's lists, source by source.
type tally struct {
	Shown   int64                `json:"shown"`
	Clicked int64                `json:"clicked"`
	Linked  int64                `json:"linked"`
	Sources map[string]*[3]int32 `json:"sources"` // shown, clicked, linked
}

func (t *tally) clone() *tally {
	clone := *t
	clone.Sources = make(map[string]*[3]int32, len(t.Sources))
	counts := make([][3]int32, len(t.Sources))
	for source, n := range t.Sources {
		counts[0] = *n
		clone.Sources[source], counts = &counts[0], counts[1:]
	}
	return &clone
}

func cloneTallies(all map[string]*tally) map[string]*tally {
	clone := make(map[string]*tally, len(all))
	for name, t := range all {
		clone[name] = t.clone()
	}
	return clone
}

// AlarmEntry is an alarm: a share that left its expected band.
type AlarmEntry struct {
	At       time.Time  `json:"at"`
	Field    string     `json:"field"`
	Message  string     `json:"message" doc:"the alarm in words"`
	Sentence string     `json:"sentence" deprecated:"true" doc:"old name of message"`
	Detail   loop.Alarm `json:"detail"`
}

func openMonitor(path string, s *Service) (*monitor, error) {
	w := &monitor{path: path, service: s, woken: make(chan struct{}, 1)}
	raw, _, err := readState(path)
	switch {
	case err != nil:
		return nil, err
	case raw == nil:
	case len(raw) > maxSaved:
		s.o.Log.Warn("saved counts are too large; reading the log again from its beginning", "file", path,
			"bytes", len(raw))
	default:
		if err := json.Unmarshal(raw, &w.monitorState); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w; remove it to read the log again from its beginning", path, err)
		}
		if w.Test.IsZero() {
			w.Test = w.Trial
		}
		w.Trial = time.Time{}
		for k := range w.Alarms { // of the last version
			w.Alarms[k].Message = cmp.Or(w.Alarms[k].Message, w.Alarms[k].Sentence)
		}
	}
	w.makeMaps()
	if len(w.Drift) > 0 {
		w.drift = new(loop.Drift)
		if err := json.Unmarshal(w.Drift, w.drift); err != nil {
			return nil, fmt.Errorf("%s: %w; remove it to read the log again from its beginning", path, err)
		}
	}
	return w, nil
}

func (w *monitor) makeMaps() {
	if w.Models == nil {
		w.Models = map[string]*tally{}
	}
	if w.Fields == nil {
		w.Fields = map[string]*[2]int64{}
	}
}

// startOver forgets the counts if they are of more events than the log ever had: it was replaced, by a copy of an
// earlier version for example.
func (w *monitor) startOver(ctx context.Context) {
	totals, err := w.service.events.Totals(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.Seq <= totals.Seq {
		return
	}
	w.service.o.Log.Warn("saved counts are of another event log; reading this one from its beginning",
		"counted", w.Seq, "events", totals.Seq)
	w.monitorState, w.drift, w.dirty = monitorState{}, nil, true
	w.makeMaps()
}

// wake signals that there are new events.
func (w *monitor) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// run follows the log until the context ends. First it computes what to expect.
func (w *monitor) run(ctx context.Context) {
	w.startOver(ctx)
	if err := w.service.surviving(func() error { return w.expect(ctx) }); err != nil && ctx.Err() == nil {
		w.service.o.Log.Error("drift monitoring is off", "error", err)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	saved := time.Now()
	for {
		more, err := w.follow(ctx)
		if err != nil && ctx.Err() == nil {
			w.service.o.Log.Warn("reading the event log failed", "error", err)
		}
		if time.Since(saved) > saveEvery { // also while much is read, so that a restart does not begin again
			if err := w.save(); err != nil {
				w.service.o.Log.Warn("saving the state of the monitor failed", "error", err)
			}
			saved = time.Now()
		}
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(followPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
		case <-tick.C:
		}
	}
}

// expect computes the forecast of the live model and, the first time, the expected bands of the drift alarm.
func (w *monitor) expect(ctx context.Context) error {
	current := w.service.live.Load().current
	forecast, err := loop.NewForecast(ctx, current.Model(), current.Graph(),
		loop.ForecastSettings{Replicates: 50, Sources: 100, Targets: 100, Threads: 1, Seed: 1})
	// a model without propensities has no forecast, nor has a shop without fields
	if err != nil && !errors.Is(err, loop.ErrModel) && !(errors.Is(err, loop.ErrGraph) && current.Graph().TwoSided()) {
		return err
	}
	w.mu.Lock()
	w.forecast = forecast
	have := w.drift != nil
	w.mu.Unlock()
	if have {
		return nil
	}
	bands := w.service.models.snapshot().Expected
	if bands == nil {
		if bands, err = expectedShares(ctx, current, w.service.o.Explore, w.service.o.Margin); err != nil {
			return err
		}
		if err := w.service.models.change(func(r *registryState) error { r.Expected = bands; return nil }); err != nil {
			return err
		}
	}
	drift, err := loop.NewDrift(loop.DriftSettings{Expected: bands})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drift = drift
	return nil
}

// expectedShares returns the band of the same-field share of a model's own lists, field by field: the mean over sources
// that are spread over the field, plus and minus four standard errors and a margin. The lists are the service's, the
// ten best with its share of exploration, and not drawn in proportion to ŷ as those of a forecast are.
func expectedShares(ctx context.Context, e *loadedModel, explore, margin float64) ([]loop.ExpectedShare, error) {
	const most = 60 // sources of each field
	g := e.Graph()
	byField := make([][]int32, g.FieldCount())
	for _, i := range g.Sources() {
		byField[g.Field(i)] = append(byField[g.Field(i)], i)
	}
	var bands []loop.ExpectedShare
	own := g.OwnFields()
	for f, nodes := range byField {
		if uint16(f) == graph.UnknownField || own[f] == graph.UnknownField || len(nodes) < 2 {
			continue
		}
		var n, sum, squares float64
		for k := range min(most, len(nodes)) {
			i := nodes[k*len(nodes)/min(most, len(nodes))]
			list, err := e.Top(ctx, recommend.Query{Source: e.Node(i), K: 10, Explore: explore, Seed: uint64(i)})
			if errors.Is(err, recommend.ErrNothing) {
				continue
			}
			if err != nil {
				return nil, err
			}
			same := 0.
			for _, item := range list.Items {
				if g.Field(item.Node) == own[f] {
					same++
				}
			}
			x := same / float64(len(list.Items))
			n, sum, squares = n+1, sum+x, squares+x*x
		}
		if n < 2 {
			continue
		}
		mean := sum / n
		width := margin + 4*math.Sqrt(max(squares/n-mean*mean, 0)/n)
		// no share can leave a band that reaches 0 or 1 on that side
		bands = append(bands, loop.ExpectedShare{Field: uint16(f), Low: max(mean-width, 0), High: min(mean+width, 1)})
	}
	return bands, nil
}

// saveEvery is the time between two saves of the counts.
var saveEvery = 10 * time.Second

// followPause is the time between two looks at the log while it grows: what came meanwhile is read at once.
const followPause = 100 * time.Millisecond

// follow counts a page of the events that are new, and reports whether there are more.
func (w *monitor) follow(ctx context.Context) (more bool, err error) {
	w.mu.Lock()
	after := w.Seq
	w.mu.Unlock()
	var page []store.LogEvent
	if log, ok := w.service.events.(store.RecentReader); ok {
		page = log.Recent(after)
	}
	if page == nil {
		if page, err = w.service.events.Events(ctx, after, store.MaxPage); err != nil {
			return false, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range page {
		w.count(e)
		w.Seq = e.Seq
	}
	if len(page) == 0 {
		w.flush() // the last list is complete
	}
	w.dirty = w.dirty || len(page) > 0
	w.publish()
	return len(page) == store.MaxPage, nil
}

// count counts one event. w is locked.
func (w *monitor) count(e store.LogEvent) {
	if e.Kind == store.Dismissed {
		return // rates are of what is wanted
	}
	source, known := w.cluster(e.Source)
	if known {
		name := e.Model
		if !w.service.models.has(name) { // clients may send any name
			name, source = otherModels, ""
		}
		if w.Models[name] == nil {
			w.forgetModels()
			w.Models[name] = &tally{}
		}
		w.Models[name].add(e.Kind, source)
		w.countABTest(e, source)
	}
	if e.Kind == store.Shown {
		if n := len(w.list); n > 0 && (w.list[n-1].List != e.List || w.list[n-1].Source != e.Source || n >= MaxList) {
			w.flush()
		}
		w.list = append(w.list, e)
	}
}

// cluster returns the key that a source is counted by, and whether it is known: a node, or a text or a person that
// Recommend gave a name to.
func (w *monitor) cluster(source string) (key string, known bool) {
	e := w.service.live.Load().current.view()
	if i, ok := e.find(source); ok {
		return e.id(i), true // the graph's text: the event's may be a part of a larger one
	}
	for _, kind := range givenNames {
		if hash, ok := strings.CutPrefix(source, kind); ok && len(hash) == 16 {
			if n, err := strconv.ParseUint(hash, 16, 64); err == nil {
				return fmt.Sprintf("%s%02x", kind, n%maxTexts), true
			}
		}
	}
	return "", false
}

// forgetModels removes the counts of models that are not registered any more.
func (w *monitor) forgetModels() {
	for _, all := range []map[string]*tally{w.Models, w.Arms} {
		maps.DeleteFunc(all, func(name string, _ *tally) bool {
			return name != otherModels && !w.service.models.has(name)
		})
	}
}

// prune removes what older versions counted: models that are not registered, and sources that do not exist.
func (w *monitor) prune() {
	w.forgetModels()
	for _, all := range []map[string]*tally{w.Models, w.Arms} {
		for name, t := range all {
			maps.DeleteFunc(t.Sources, func(source string, _ *[3]int32) bool {
				key, known := w.cluster(source)
				return name == otherModels || !known || key != source
			})
		}
	}
}

// countABTest counts an event of the running A/B test: one after its start, of the model that its source is assigned
// to. So earlier lists, which everybody was shown, count for neither arm.
func (w *monitor) countABTest(e store.LogEvent, source string) {
	line := w.service.live.Load()
	if line.abTest == nil || e.Seq <= line.abTest.Seq {
		return
	}
	if m, _ := line.of(e.Source); m.digest != e.Model {
		return
	}
	if !w.Test.Equal(line.abTest.Since) {
		w.Test, w.Arms = line.abTest.Since, map[string]*tally{}
	}
	if w.Arms[e.Model] == nil {
		w.Arms[e.Model] = &tally{}
	}
	w.Arms[e.Model].add(e.Kind, source)
}

// add counts an event of a source, or of none.
func (t *tally) add(happened store.Kind, source string) {
	if t.Sources == nil {
		t.Sources = map[string]*[3]int32{}
	}
	of := t.Sources[source]
	if of == nil && source != "" && len(t.Sources) < maxTallied {
		of = new([3]int32)
		t.Sources[source] = of
	}
	count := func(all *int64, kind int) {
		*all++
		if of != nil {
			of[kind]++
		}
	}
	switch happened {
	case store.Shown:
		count(&t.Shown, 0)
	case store.Clicked:
		count(&t.Clicked, 1)
	case store.Linked:
		count(&t.Linked, 2)
	}
}

// readerFields is which fields of a graph have sources, and the field of targets that counts as the own one of each.
type readerFields struct {
	of  *graph.Graph
	has []bool
	own []uint16
}

// readersOf returns them; they are kept for the next call. w is locked.
func (w *monitor) readersOf(g *graph.Graph) readerFields {
	if w.readers.of != g {
		w.readers = readerFields{g, make([]bool, g.FieldCount()), g.OwnFields()}
		for _, i := range g.Sources() {
			w.readers.has[g.Field(i)] = true
		}
	}
	return w.readers
}

// flush counts the items that were shown together. w is locked.
func (w *monitor) flush() {
	list := w.list
	w.list = w.list[:0]
	if len(list) == 0 {
		return
	}
	v := w.service.live.Load().current.view()
	g := v.Graph()
	i, ok := v.find(list[0].Source)
	if !ok || v.FieldAt(v.over, i) == graph.UnknownField {
		return // a new text, or a node without a field
	}
	field := v.FieldAt(v.over, i)
	own := w.readersOf(g).own[field]
	name := g.FieldName(field)
	counts := w.Fields[name]
	if counts == nil {
		counts = new([2]int64)
		w.Fields[name] = counts
	}
	var shown []loop.ShownItem
	for _, e := range list {
		j, ok := v.find(e.Target)
		if !ok {
			continue
		}
		target := v.FieldAt(v.over, j)
		same := target == own
		if same {
			target = field
		}
		shown = append(shown, loop.ShownItem{Source: field, Target: target, Probability: e.Probability})
		w.Shown++
		counts[0]++
		if same {
			w.Same++
			counts[1]++
		}
		if len(w.Recent) >= 2*recentItems {
			w.Recent = slices.Delete(w.Recent, 0, recentItems)
		}
		w.Recent = append(w.Recent, same)
	}
	if w.drift == nil || len(shown) == 0 {
		return
	}
	alarms, err := w.drift.Add(shown...)
	if err != nil {
		w.service.o.Log.Warn("skipped an invalid list", "list", list[0].List, "error", err)
		return
	}
	for _, a := range alarms {
		message := a.Sentence(g.FieldName(a.Field))
		alarm := AlarmEntry{At: list[0].At, Field: g.FieldName(a.Field), Message: message, Sentence: message, Detail: a}
		w.Alarms = append(w.Alarms, alarm)
		if n := len(w.Alarms); n > 100 {
			w.Alarms = w.Alarms[n-100:]
		}
		w.service.metrics.alarms.Inc()
		w.service.o.Log.Warn("drift alarm", "field", alarm.Field, "alarm", alarm.Message, "share", a.Share,
			"low", a.Low, "high", a.High)
	}
}

// alarmFor is the number of lists for which an alarm stays on.
const alarmFor = 1000

// alarmed reports whether an alarm is on. w is locked.
func (w *monitor) alarmed() bool {
	n := len(w.Alarms)
	return n > 0 && w.drift != nil && w.drift.Lists()-w.Alarms[n-1].Detail.List < alarmFor
}

// alarming returns the sentence of the latest alarm while it is on, or "".
func (w *monitor) alarming() string {
	if err := w.service.vectorsFault(); err != nil {
		return err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alarmed() {
		return ""
	}
	return w.Alarms[len(w.Alarms)-1].Message
}

// recent returns the same-field share of the last items shown, and their number. w is locked.
func (w *monitor) recent() (share float64, items int) {
	last := w.Recent[max(len(w.Recent)-recentItems, 0):]
	if len(last) == 0 {
		return 0, 0
	}
	same := 0
	for _, s := range last {
		if s {
			same++
		}
	}
	return float64(same) / float64(len(last)), len(last)
}

// publish sets the gauges. w is locked.
func (w *monitor) publish() {
	share, _ := w.recent()
	w.service.metrics.share.Set(share)
	on := 0.
	if w.alarmed() {
		on = 1
	}
	w.service.metrics.alarm.Set(on)
	w.service.metrics.seq.Set(float64(w.Seq))
}

// save writes the state if it changed. The lock is held only for a copy of it: the log is read on while the copy is
// encoded and written.
func (w *monitor) save() error {
	state, drift, changed := w.copyState()
	if !changed {
		return nil
	}
	err := func() error {
		if drift != nil {
			var err error
			if state.Drift, err = json.Marshal(drift); err != nil {
				return err
			}
		}
		return atomicfile.WritePrivate(w.path, func(out io.Writer) error { return json.NewEncoder(out).Encode(state) })
	}()
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dirty = true
	}
	return err
}

// copyState returns a copy of the state and whether it changed since the last copy.
func (w *monitor) copyState() (state monitorState, drift *loop.Drift, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dirty {
		return state, nil, false
	}
	w.flush()
	w.dirty = false
	state = w.monitorState
	state.Version = stateVersion
	state.Models, state.Arms = cloneTallies(w.Models), cloneTallies(w.Arms)
	state.Fields = make(map[string]*[2]int64, len(w.Fields))
	for name, counts := range w.Fields {
		copied := *counts
		state.Fields[name] = &copied
	}
	state.Recent, state.Alarms = slices.Clone(w.Recent), slices.Clone(w.Alarms)
	if w.drift != nil {
		drift = w.drift.Clone()
	}
	return state, drift, true
}

// LoopStatus is the state of the feedback loop.
type LoopStatus struct {
	Shown  int64   `json:"shown" doc:"items in the log whose source is a node with a field"`
	Share  float64 `json:"share" doc:"share of them in the source's own field"`
	Recent float64 `json:"recent" doc:"the same share among the last items"`
	Items  int     `json:"items" doc:"number of the last items"`
	Low    float64 `json:"low" doc:"95% interval of recent, if items were independent"`
	High   float64 `json:"high"`

	Trend []TrendPoint `json:"trend,omitempty" doc:"share of the last items, a hundred at a time, the oldest first"`
	Trail []TrendPoint `json:"trail,omitempty" deprecated:"true" doc:"old name of trend"`
	// Band is for as many sources of each field as there were.
	Band *ShareRange `json:"band,omitempty" doc:"expected range of the share"`

	Fields []LoopField  `json:"fields"`
	Alarm  bool         `json:"alarm" doc:"a share left its expected range within the last 1,000 lists"`
	Alarms []AlarmEntry `json:"alarms,omitempty" doc:"the oldest first"`
	// Forecast assumes that lists are drawn in proportion to the model's estimates.
	Forecast *loop.Forecast `json:"forecast,omitempty" doc:"of the live model"`
	Seq      int64          `json:"seq" doc:"last event of the log that was counted"`
}

// TrendPoint is the same-field share of consecutive shown items.
type TrendPoint struct {
	Items int     `json:"items" doc:"number of the last of these items, among those that are remembered"`
	Share float64 `json:"share"`
	Low   float64 `json:"low" doc:"95% interval, if items were independent"`
	High  float64 `json:"high"`
}

// ShareRange is a range of shares.
type ShareRange struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// trend splits the last items into stretches. w is locked.
func (w *monitor) trend() []TrendPoint {
	const stretch = 100
	var out []TrendPoint
	last := w.Recent[max(len(w.Recent)-recentItems, 0):]
	for len(last) >= stretch || len(out) == 0 && len(last) > 0 {
		n := min(stretch, len(last))
		same := 0.
		for _, s := range last[:n] {
			if s {
				same++
			}
		}
		t := TrendPoint{Items: n, Share: same / float64(n)}
		if len(out) > 0 {
			t.Items += out[len(out)-1].Items
		}
		t.Low, t.High = wilson(same, float64(n))
		out, last = append(out, t), last[n:]
	}
	return out
}

// LoopField is one field's share and its expected range.
type LoopField struct {
	Field   string        `json:"field"`
	Own     string        `json:"own,omitempty" doc:"the targets' field that counts as its own, where it is another"`
	Shown   int64         `json:"shown"`
	Share   float64       `json:"share"`
	Low     *float64      `json:"low,omitempty" doc:"expected range"`
	High    *float64      `json:"high,omitempty"`
	Windows []loop.Window `json:"windows,omitempty" doc:"of 500 lists each"`
}

// Loop returns the state of the feedback loop.
func (s *Service) Loop() LoopStatus {
	bands := map[uint16]loop.ExpectedShare{}
	for _, b := range s.models.snapshot().Expected {
		bands[b.Field] = b
	}
	g := s.Graph()
	w := s.monitor
	w.mu.Lock()
	defer w.mu.Unlock()
	out := LoopStatus{Shown: w.Shown, Forecast: w.forecast, Alarm: w.alarmed(), Alarms: slices.Clone(w.Alarms),
		Seq: w.Seq, Fields: []LoopField{}}
	if w.Shown > 0 {
		out.Share = float64(w.Same) / float64(w.Shown)
	}
	out.Trend = w.trend()
	out.Trail = out.Trend
	out.Recent, out.Items = w.recent()
	out.Low, out.High = wilson(out.Recent*float64(out.Items), float64(out.Items))
	var low, high, banded float64
	readers := w.readersOf(g)
	for f := range g.FieldCount() {
		if uint16(f) == graph.UnknownField || g.TwoSided() && !readers.has[f] {
			continue
		}
		one := LoopField{Field: g.FieldName(uint16(f))}
		if own := readers.own[f]; own != uint16(f) && own != graph.UnknownField {
			one.Own = g.FieldName(own)
		}
		if counts := w.Fields[one.Field]; counts != nil {
			one.Shown, one.Share = counts[0], float64(counts[1])/float64(max(counts[0], 1))
		}
		if b, ok := bands[uint16(f)]; ok {
			one.Low, one.High = &b.Low, &b.High
			if n := float64(one.Shown); n > 0 {
				low, high, banded = low+n*b.Low, high+n*b.High, banded+n
			}
		}
		if w.drift != nil {
			one.Windows = w.drift.Windows(uint16(f))
		}
		out.Fields = append(out.Fields, one)
	}
	if banded > 0 {
		out.Band = &ShareRange{low / banded, high / banded}
	}
	return out
}

// wilson returns Wilson's 95% interval of a share.
func wilson(hits, n float64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959964
	p := hits / n
	centre := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(centre-half, 0), min(centre+half, 1)
}
