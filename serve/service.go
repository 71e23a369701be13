package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"unseen/dataset"
	"unseen/graph"
	"unseen/model"
	"unseen/network"
	"unseen/serve/store"
)

// Options say what is served and how. Only Folder, or Dataset and Model, must be given.
type Options struct {
	Folder  string // with dataset/, model.safetensors and perhaps naive.safetensors; or a dataset itself
	Dataset string // instead of Folder's
	Model   string // instead of Folder's
	Naive   string // instead of Folder's
	State   string // folder for models/, the log and the rest; "" means Folder, or Folder-state of a dataset

	Store   string  // of the log: a path or postgres://…; "" means events.db in State
	Explore float64 // share of a list's places that is drawn, unless a request says otherwise; 0 means .1, below 0 none
	Keep    int     // models to keep; 0 means 5

	RetrainEvery time.Duration // how long after one training the next is due; 0 means never, unless somebody asks
	RetrainAfter int64         // new events that it needs; 0 means 1

	Concurrent int     // recommendations at once; 0 means two for every processor
	Waiting    int     // more of them that may wait for a second; 0 means eight times Concurrent
	Rate       float64 // requests a second for each token; 0 means 200
	Margin     float64 // by which the same-field share may leave what is expected before it counts; 0 means .05

	// Prefix is the path that everything is below, such as /recs, for a service that shares its
	// name with others; "" means the root. Requests come with it: neither a proxy nor
	// http.StripPrefix takes it away.
	Prefix string

	Tokens *Tokens // who may do what; nil: everybody everything, but from this machine alone
	// Open lets everybody do everything from everywhere where there are no Tokens: train, exchange
	// models, read the log. It is for a service behind something that asks who comes.
	Open bool

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: the clock

	events store.Store // instead of Store, for tests
}

func (o Options) withDefaults() (Options, error) {
	if o.Folder == "" && (o.Dataset == "" || o.Model == "") {
		return o, errors.New("serve: name a folder, or a dataset and a model")
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
				return o, fmt.Errorf("there is no folder %s; make one with unseen demo, or name a dataset with "+
					"--dataset and a model with --model", o.Folder)
			}
			return o, fmt.Errorf("%s has no model.safetensors; fit one with unseen fit %s -o %s, or name one "+
				"with --model", o.Folder, o.Dataset, o.Model)
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
	o.Explore = max(o.Explore, 0)
	if o.Explore > 1 {
		return o, fmt.Errorf("serve: a share of %v to explore; give one from 0 to 1", o.Explore)
	}
	set := func(value *int, otherwise int) {
		if *value <= 0 {
			*value = otherwise
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
	if o.Prefix, err = cleanPrefix(o.Prefix); err != nil {
		return o, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// Service recommends, logs and learns. It may be used by many goroutines at once, and closed under them: then calls
// return ErrClosed.
type Service struct {
	o      Options
	net    *network.Network
	texts  bool // new texts can be judged
	models *registry
	events store.Store
	serving
	gate        *gate
	monitor     *monitor
	jobs        *jobs
	metrics     *metrics
	audit       *auditLog
	bridgeCache bridgeCache
	search      func() []string // id and title of every node in lower case

	ready    atomic.Bool
	draining atomic.Bool
	calls    calls
	life     context.Context    // ends with the service
	stop     context.CancelFunc // of everything in the background
	done     sync.WaitGroup
	closing  sync.Once
	closed   error
}

// serving is which models answer. It is replaced whole, so that a request sees one state of it.
type serving struct {
	live atomic.Pointer[deployment]
}

// lineup is who answers whom.
type deployment struct {
	current *engine
	abTest  *ABTest
	b       *engine // of the trial
}

// Open opens what is served: the dataset, the models and the log. The context bounds the opening alone: what goes on in
// the background afterwards has its values and ends with Close.
func Open(ctx context.Context, o Options) (_ *Service, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.State, 0o755); err != nil {
		return nil, err
	}
	s := &Service{o: o, gate: newGate(o.Concurrent, o.Waiting), metrics: newMetrics()}
	s.life, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.net, err = network.Open(ctx, o.Dataset, dataset.OpenOptions{}); err != nil {
		if errors.Is(err, dataset.ErrNotDataset) && o.Folder != "" {
			return nil, fmt.Errorf("%w; name a folder that unseen demo wrote, or a dataset and --model", err)
		}
		return nil, err
	}
	if s.texts, err = s.net.OpenTexts(); err != nil {
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
	s.search = sync.OnceValue(func() []string {
		g := s.net.Graph()
		names := make([]string, g.Len())
		for i := range names {
			names[i] = strings.ToLower(g.ID(int32(i)) + "\n" + g.Title(int32(i)))
		}
		return names
	})
	if s.events = o.events; s.events == nil {
		if s.events, err = store.Open(ctx, o.Store, store.Options{Spool: spoolPath(o), Log: o.Log}); err != nil {
			return nil, fmt.Errorf("the event log: %w", err)
		}
	}
	if s.monitor, err = openMonitor(filepath.Join(o.State, "watch.json"), s); err != nil {
		return nil, err
	}
	if s.jobs, err = openJobs(filepath.Join(o.State, "jobs.json"), o.Now, o.Log); err != nil {
		return nil, err
	}
	s.bridgeCache.wanted = make(chan struct{}, 1)
	s.done.Go(func() { s.monitor.run(s.life) })
	s.done.Go(func() { s.findBridges(s.life) })
	s.done.Go(func() {
		s.jobs.run(s.life, func(ctx context.Context, o JobRequest, tell func(func(*Job))) error {
			var about []any
			tell(func(j *Job) { about = []any{"job", j.ID, "kind", j.Kind, "method", o.Method} })
			s.o.Log.Info("a job begins", about...)
			began := time.Now()
			err := s.perform(ctx, o, tell)
			about = append(about, "took", time.Since(began).Round(time.Millisecond))
			switch {
			case err == nil:
				s.o.Log.Info("a job is done", about...)
			case ctx.Err() != nil:
				s.o.Log.Info("a job was stopped", about...)
			default:
				s.o.Log.Warn("a job failed", append(about, "error", err)...)
			}
			return err
		})
	})
	if o.RetrainEvery > 0 {
		s.done.Go(func() { s.runSchedule(s.life) })
	}
	if o.Tokens != nil {
		s.done.Go(func() { o.Tokens.follow(s.life, o.Log) })
	}
	s.ready.Store(true)
	return s, nil
}

// spoolOf is where events wait while a database is away; a file needs none.
func spoolPath(o Options) string {
	if strings.HasPrefix(o.Store, "postgres") {
		return filepath.Join(o.State, "events.spool")
	}
	return ""
}

// enlist registers the model files that were named and loads who serves.
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
		current = digest // a file that was put there since is meant to serve
	}
	path := func(digest string) string {
		if digest == "" {
			return ""
		}
		return s.models.path(digest)
	}
	line := &deployment{}
	if line.current, err = s.load(ctx, path(current), current, path(naive)); err != nil {
		if fresh {
			os.Remove(s.models.path(digest)) // a copy of what cannot serve
		}
		if current == digest {
			return fmt.Errorf("%s: %w", s.o.Model, err)
		}
		return fmt.Errorf("the current model: %w; move %s away to begin anew with %s", err, s.models.file(), s.o.Model)
	}
	if r.Trial != nil && !fresh {
		if line.b, err = s.load(ctx, path(r.Trial.B), r.Trial.B, path(naive)); err != nil {
			s.o.Log.Warn("the trial is over: its model cannot be loaded", "error", err)
		} else {
			line.abTest = r.Trial
		}
	}
	if current != digest {
		s.o.Log.Warn("a model serves that came after the one that is named: it was trained or chosen since; "+
			"POST /api/v1/models/rollback goes back", "serves", current, "named", s.o.Model)
	}
	s.live.Store(line)
	if err := s.models.adoptEvaluation(s.o.Model, digest); err != nil {
		s.o.Log.Warn("the evaluation beside the model is not used", "error", err)
	}
	return s.models.change(func(r *registryState) error {
		if fresh {
			r.Models = append(r.Models, ModelEntry{Digest: digest, Method: line.current.Model().Method,
				Made: s.o.Now().UTC(), Note: "from " + filepath.Base(s.o.Model)})
		}
		r.Naive, r.Trial = naive, line.abTest
		r.makeCurrent(current)
		return nil
	})
}

// Close refuses new calls and requests, which are answered with ErrClosed or 503 from then on,
// tells those under way and everything in the background to stop, waits for them, keeps its state,
// and gives everything back. A job that was under way goes on when the folder is opened again.
// Close may be called again, but not from inside a call of the service.
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
	if s.net != nil {
		errs = append(errs, s.net.Close())
	}
	return errors.Join(errs...)
}

// Graph returns the network that is served, with the fields of the current model. Its vectors are there until Close.
func (s *Service) Graph() *graph.Graph { return s.live.Load().current.Graph() }

// Current returns the model that serves and its digest. It scores nodes until Close.
func (s *Service) Current() (model.Model, string) {
	e := s.live.Load().current
	return e.Model(), e.digest
}

// newListID makes the id of a list: its seed, the beginning of its model's digest, and chance. So whoever has the
// log can draw the list again.
func newListID(seed uint64, digest string) string {
	var chance [6]byte
	rand.Read(chance[:])
	return fmt.Sprintf("%016x-%.12s-%x", seed, digest, chance)
}

// modelOfList returns the beginning of the digest in the id of a list, or "".
func modelOfList(id string) string {
	parts := strings.Split(id, "-")
	if len(parts) != 3 || len(parts[0]) != 16 || len(parts[1]) != 12 {
		return ""
	}
	return parts[1]
}
