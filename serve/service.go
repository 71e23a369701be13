package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"unseen/dataset"
	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/model"
	"unseen/network"
	"unseen/serve/store"
)

// Options of a service. Only Folder, or Dataset and Model, must be set.
type Options struct {
	Folder  string // with dataset/, model.safetensors and optionally naive.safetensors; or a dataset itself
	Dataset string // instead of the one in Folder
	Model   string // instead of the one in Folder
	Naive   string // instead of the one in Folder
	State   string // folder for models/, the log and other state; "" means Folder, or Folder-state of a dataset

	Store   string  // event log: a path or postgres://…; "" means events.db in State
	Explore float64 // default share of a list's positions that is drawn at random; 0 means .1, negative none
	Keep    int     // models to keep; 0 means 5

	// Recall is the share of the best that lists by the dataset's index are to have; 0 means recommend.StandardRecall.
	// They are exact where it finds fewer, where there is no index, and if Exact is set.
	Recall float64
	Exact  bool

	// KeepEvents is how long events are kept whole; older ones are compacted to what training and evaluation need,
	// see store.Retention. 0 means for ever; an hour is the least.
	KeepEvents time.Duration

	Clicks Clicks // how clicks are read

	RetrainEvery time.Duration // time from one retraining to the next; 0 means only on request
	RetrainAfter int64         // new events that a scheduled retraining needs; 0 means 1

	Concurrent int     // recommendations computed at once; 0 means two per processor
	Waiting    int     // further requests that may wait for a second; 0 means eight times Concurrent
	Rate       float64 // requests per second and token; 0 means 200
	Margin     float64 // tolerance around the expected same-field share, for the drift alarm; 0 means .05

	// Prefix is the path below which everything is served, such as /recs, for a service that shares its
	// host with others; "" means the root. Requests include it: neither a proxy nor http.StripPrefix
	// may remove it.
	Prefix string

	Tokens *Tokens // who may do what; nil: no token is needed, but only this machine may connect
	// Open lets everybody do everything from everywhere without Tokens: train, deploy models, read the
	// log. Use it behind a proxy that authenticates.
	Open bool

	// Origins are the origins of other sites whose pages may use the API, such as https://shop.example. They get the
	// rights of the tokens that they send, never those of a visitor's cookie; without Tokens they may do everything.
	Origins []string

	// Traces gets the spans of requests and jobs; nil: none are made. Then log lines within one have its trace too.
	Traces trace.TracerProvider

	Engine engine.Engine // that scores, trains and judges; nil means engine.CPU with one thread for each request
	// JobEngine trains and judges models in jobs instead, such as a graphics card while requests are the processor's;
	// nil means Engine.
	JobEngine engine.Engine
	Log       *slog.Logger     // nil: nothing is logged
	Now       func() time.Time // nil: the clock

	events store.Store // instead of Store, for tests
}

func (o Options) withDefaults() (Options, error) {
	if o.Folder == "" && (o.Dataset == "" || o.Model == "") {
		return o, errors.New("nothing to serve: name a folder, or a dataset and a model")
	}
	if o.JobEngine == nil {
		o.JobEngine = o.Engine
	}
	whole, err := exists(o.Folder, "dataset")
	if err != nil {
		return o, err
	}
	if o.Dataset == "" {
		o.Dataset = o.Folder
		if whole {
			o.Dataset = filepath.Join(o.Folder, "dataset")
		}
	}
	if o.State == "" {
		o.State = o.Folder
		if !whole { // a dataset's folder holds a dataset and nothing else
			o.State = filepath.Clean(o.Dataset) + "-state"
		}
	}
	if o.Model == "" {
		o.Model = filepath.Join(o.Folder, "model.safetensors")
		if have, err := exists(o.Model); err != nil {
			return o, err
		} else if !have {
			if there, err := exists(o.Folder); err != nil || !there {
				return o, fmt.Errorf("folder %s: %w; name one with a dataset and a model", o.Folder, fs.ErrNotExist)
			}
			return o, hint.Wrap(fmt.Errorf("%s has no model.safetensors", o.Folder),
				"fit a model to %s and save it there, or set %v", o.Dataset, hint.Setting("model"))
		}
	}
	if o.Naive == "" && o.Folder != "" {
		beside := filepath.Join(o.Folder, "naive.safetensors")
		have, err := exists(beside)
		if err != nil {
			return o, err
		}
		if have {
			o.Naive = beside
		}
	}
	if o.Store == "" {
		o.Store = filepath.Join(o.State, "events.db")
	}
	if o.Explore == 0 {
		o.Explore = .1
	}
	if o.Explore = max(o.Explore, 0); o.Explore > 1 {
		return o, fmt.Errorf("explore is %v; give a share from 0 to 1", o.Explore)
	}
	set := func(value *int, fallback int) {
		if *value <= 0 {
			*value = fallback
		}
	}
	set(&o.Keep, 5)
	o.RetrainAfter = max(o.RetrainAfter, 1)
	set(&o.Concurrent, 2*runtime.GOMAXPROCS(0))
	set(&o.Waiting, 8*o.Concurrent)
	if o.Rate <= 0 {
		o.Rate = 200
	}
	if o.Margin <= 0 {
		o.Margin = .05
	}
	o.Prefix, err = cleanPrefix(o.Prefix)
	origins, wrong := cleanOrigins(o.Origins)
	if err = errors.Join(err, wrong, checkRetention(o.KeepEvents)); err != nil {
		return o, err
	}
	o.Origins = origins
	o.equip()
	return o, nil
}

// equip gives a service the log and the clock that it was not given.
func (o *Options) equip() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Traces != nil {
		o.Log = slog.New(tracedLog{o.Log.Handler()})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Service recommends, logs events and retrains. It is safe for concurrent use, and may be closed while it is in use:
// then calls return ErrClosed.
type Service struct {
	o           Options
	tracer      trace.Tracer // nil: none
	net         *network.Network
	texts       bool // recommends for new texts
	models      *registry
	events      store.Store
	live        atomic.Pointer[deployment] // replaced as a whole, so that a request sees one state of it
	gate        *gate
	lanes       *lanes
	monitor     *monitor
	jobs        *jobs
	metrics     *metrics
	traffic     traffic
	audit       *auditLog
	forgotten   *forgotten
	catalogue   *catalogue
	waiting     *waitingEvents
	bridgeCache bridgeCache
	datasets    *datasets
	oldNames    sync.Map // deprecated names that were used

	lost    atomic.Bool // vectors cannot be read
	vectors *vectorsFile
	probe   diskProbe

	ready    atomic.Bool
	draining atomic.Bool
	calls    calls
	life     context.Context    // ends with the service
	measured chan struct{}      // closed when the index was measured with the models that it began with
	stop     context.CancelFunc // of everything in the background
	done     sync.WaitGroup
	closing  sync.Once
	release  func() error // the state folder, to another service
	closed   error
}

// deployment is the models that answer requests.
type deployment struct {
	current *loadedModel
	abTest  *ABTest      // nil: none runs
	b       *loadedModel // of the A/B test; nil if its file cannot be read, and then nobody gets it
}

// models returns the models that answer requests.
func (l *deployment) models() []*loadedModel {
	if l == nil {
		return nil
	}
	if l.b == nil {
		return []*loadedModel{l.current}
	}
	return []*loadedModel{l.current, l.b}
}

// Open opens the dataset, the models and the event log. The context limits the opening only: background work keeps the
// context's values and ends with Close.
func Open(ctx context.Context, o Options) (_ *Service, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, err
	}
	release, err := claimState(o.State, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, gate: newGate(o.Concurrent, o.Waiting), lanes: newLanes(), metrics: newMetrics(),
		release: release, measured: make(chan struct{})}
	if o.Traces != nil {
		s.tracer = o.Traces.Tracer("unseen/serve")
	}
	s.life, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.net, err = network.Open(ctx, o.Dataset, dataset.OpenOptions{}); err != nil {
		if errors.Is(err, dataset.ErrNotDataset) && o.Folder != "" {
			err = hint.Wrap(err, "name a folder with a dataset and a model, or a dataset and set %v",
				hint.Setting("model"))
		}
		return nil, err
	}
	s.vectors = watchVectors(s.net.Folder())
	if s.texts, err = s.net.OpenTexts(); err != nil {
		return nil, err
	}
	if err = s.openNodes(ctx); err != nil {
		return nil, err
	}
	if s.models, err = openRegistry(filepath.Join(o.State, "models"), o.Keep); err != nil {
		return nil, err
	}
	if err = s.loadModels(ctx); err != nil {
		return nil, err
	}
	if s.audit, err = openAudit(filepath.Join(o.State, "audit.log"), o.Log); err != nil {
		return nil, err
	}
	if s.events = o.events; s.events == nil {
		openLog := func(ctx context.Context) (store.Store, error) {
			return store.Open(ctx, o.Store, store.Options{Spool: spoolPath(o), Log: o.Log})
		}
		if s.events, err = openLog(ctx); err != nil {
			if s.probe.check(o.State, time.Now()) == nil || !isFull(s.probe.last) {
				return nil, fmt.Errorf("event log: %w", err)
			}
			o.Log.Error("event log cannot be opened because the disk is full; serving lists without it", "error", err)
			s.events, err = &lateStore{open: openLog, tried: time.Now()}, nil
		}
	}
	if s.monitor, err = openMonitor(filepath.Join(o.State, "watch.json"), s); err != nil {
		return nil, err
	}
	s.monitor.prune()
	if s.jobs, err = openJobs(filepath.Join(o.State, "jobs.json"), o.Now, o.Log); err != nil {
		return nil, err
	}
	if _, err := s.adopt(ctx, nil); err != nil { // of nodes that came with another dataset, or before a crash
		o.Log.Warn("events that waited for their nodes still wait", "error", err)
	}
	s.traffic.start = o.Now()
	s.startBackground()
	s.ready.Store(true)
	return s, nil
}

// openNodes opens what is known of nodes besides the dataset: its copies with changes, who is forgotten, the changes
// since, and events that wait for nodes.
func (s *Service) openNodes(ctx context.Context) error {
	in := func(name string) string { return filepath.Join(s.o.State, name) }
	s.datasets = &datasets{folder: in("catalogue"), open: []*baseData{newBase(s.net, 0)}}
	copies, err := s.datasets.copies()
	if err == nil && len(copies) > 0 {
		_, err = s.datasets.at(ctx, copies[len(copies)-1])
	}
	if err == nil {
		s.forgotten, err = openForgotten(in("forgotten.json"), s.datasets.newest().Graph())
	}
	if err == nil {
		s.catalogue, err = openCatalogue(in("catalogue.log"), s)
	}
	if err == nil {
		s.waiting, err = openWaiting(in("waiting.log"))
	}
	return err
}

// startBackground starts everything that runs until Close.
func (s *Service) startBackground() {
	s.bridgeCache.wanted, s.bridgeCache.changed = make(chan struct{}, 1), make(chan struct{})
	s.bridgeCache.want()
	s.done.Go(func() { s.monitor.run(s.life) })
	s.done.Go(s.measureLive)
	s.done.Go(func() { s.findBridges(s.life) })
	s.done.Go(func() { s.runEraser(s.life) })
	s.done.Go(func() { s.jobs.run(s.life, s.runJob) })
	s.done.Go(func() { s.followRules(s.life) })
	if s.o.RetrainEvery > 0 {
		s.done.Go(func() { s.runSchedule(s.life) })
	}
	if s.o.KeepEvents > 0 {
		s.done.Go(func() { s.runRetention(s.life) })
	}
	if s.o.Tokens != nil {
		s.done.Go(func() { s.o.Tokens.follow(s.life, s.o.Log) })
	}
}

// runJob performs a job and logs its start and its end.
func (s *Service) runJob(ctx context.Context, r JobRequest, update func(func(*Job))) (err error) {
	ctx, span := s.span(ctx, "job "+r.Kind)
	defer func() { endSpan(span, err) }()
	var attributes []any
	update(func(j *Job) { attributes = []any{"job", j.ID, "kind", j.Kind, "method", r.Method} })
	s.o.Log.InfoContext(ctx, "job started", attributes...)
	began := time.Now()
	err = s.perform(ctx, r, update)
	attributes = append(attributes, "took", time.Since(began).Round(time.Millisecond))
	switch {
	case err == nil:
		s.o.Log.InfoContext(ctx, "job done", attributes...)
	case ctx.Err() != nil:
		s.o.Log.InfoContext(ctx, "job stopped", attributes...)
	default:
		s.o.Log.WarnContext(ctx, "job failed", append(attributes, "error", err)...)
	}
	return err
}

// spoolPath is the file where events wait while the database is down; SQLite needs none.
func spoolPath(o Options) string {
	if strings.HasPrefix(o.Store, "postgres") {
		return filepath.Join(o.State, "events.spool")
	}
	return ""
}

// measureLive measures the index with the models that the service began with, so that it is ready before that is done.
func (s *Service) measureLive() {
	defer close(s.measured)
	for _, e := range s.live.Load().models() {
		err := s.surviving(func() error { return s.measureIndex(s.life, e) })
		if err != nil && s.life.Err() == nil {
			s.o.Log.Warn("lists stay exact: the index could not be measured", "error", err)
		}
	}
}

// loadModels registers the model files of the options and loads the live models.
func (s *Service) loadModels(ctx context.Context) error {
	digest, err := s.models.adopt(ctx, s.o.Model)
	if err != nil {
		return err
	}
	naive := ""
	if s.o.Naive != "" {
		if naive, err = s.models.adopt(ctx, s.o.Naive); err != nil {
			return err
		}
	}
	_, err = s.models.find(digest)
	fresh := err != nil
	r := s.models.snapshot()
	current := r.Current
	if fresh || current == "" {
		current = digest // a new file is meant to serve
	}
	line := &deployment{}
	if line.current, err = s.openModel(ctx, current, naive); err != nil {
		if fresh {
			os.Remove(s.models.path(digest)) // a copy of a model that cannot serve
		}
		if current == digest {
			return fmt.Errorf("%s: %w", s.o.Model, err)
		}
		return fmt.Errorf("current model: %w; move %s away to start over with %s", err, s.models.file(), s.o.Model)
	}
	if r.ABTest != nil && !fresh {
		if line.b, err = s.openModel(ctx, r.ABTest.B, naive); err != nil {
			s.o.Log.Error("model b of the A/B test cannot be loaded; everybody gets the live model until the service "+
				"is started with it or somebody ends the test", "error", err)
		}
		line.abTest = r.ABTest
	}
	if current != digest {
		s.o.Log.Warn("the live model is newer than the configured one, because it was trained or deployed later; "+
			"POST /api/v1/models/rollback goes back", "live", current, "configured", s.o.Model)
	}
	if err := s.goLive(line); err != nil {
		return err
	}
	if err := s.models.adoptEvaluation(s.o.Model, digest); err != nil {
		s.o.Log.Warn("ignored the evaluation beside the model", "error", err)
	}
	return s.models.change(func(r *registryState) error {
		if fresh {
			r.Models = append(r.Models, ModelEntry{Digest: digest, Method: line.current.Model().Method,
				Made: s.o.Now().UTC(), Note: "from " + filepath.Base(s.o.Model)})
		}
		if r.Naive = naive; r.ABTest != nil && fresh {
			r.endABTest(&EndedABTest{ABTest: *r.ABTest, Ended: s.o.Now().UTC(), Reason: EndedByDeploy, Arms: []Arm{}})
		}
		r.makeCurrent(current, s.o.Now())
		return nil
	})
}

// Close rejects new calls with ErrClosed and new requests with 503, stops those in progress and all background work,
// waits for them, saves its state and releases everything. A job in progress continues when the folder is opened
// again. Close may be called again, but not from inside a call of the service.
func (s *Service) Close() error {
	s.closing.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Service) close() error {
	s.ready.Store(false)
	s.calls.close(s.stop)
	s.done.Wait()
	var errs []error
	if s.monitor != nil {
		errs = append(errs, s.monitor.save())
	}
	if s.events != nil {
		errs = append(errs, s.events.Close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	if s.catalogue != nil {
		errs = append(errs, s.catalogue.file.Close())
	}
	if s.waiting != nil {
		errs = append(errs, s.waiting.file.Close())
	}
	switch {
	case s.datasets != nil:
		errs = append(errs, s.datasets.close())
	case s.net != nil:
		errs = append(errs, s.net.Close())
	}
	return errors.Join(append(errs, s.release())...)
}

// Graph returns the network, with the fields of the live model. Its vectors are valid until Close.
func (s *Service) Graph() *graph.Graph { return s.live.Load().current.Graph() }

// Current returns the live model and its digest. It scores nodes until Close.
func (s *Service) Current() (model.Model, string) {
	e := s.live.Load().current
	return e.Model(), e.digest
}

// newListID makes the id of a list: when it was made, its seed, the first characters of its model's digest, and random
// bytes. So a list of the log can be drawn again. The time is first, since a store keeps events by their ids: those of
// new lists are then beside each other, and few pages change.
func newListID(made time.Time, seed uint64, digest string) string {
	var random [6]byte
	rand.Read(random[:])
	return fmt.Sprintf("%014x-%016x-%.12s-%x", made.UnixMicro(), seed, digest, random)
}

// modelOfList returns the first characters of the digest in the id of a list, or "". Ids of earlier versions have no
// time.
func modelOfList(id string) string {
	parts := strings.Split(id, "-")
	if len(parts) == 4 && len(parts[0]) == 14 {
		parts = parts[1:]
	}
	if len(parts) != 3 || len(parts[0]) != 16 || len(parts[1]) != 12 {
		return ""
	}
	return parts[1]
}
