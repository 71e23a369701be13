package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	// The runners that can be named.
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/dataflow"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"

	"unseen/hint"
)

// Version is what a driver and its workers must agree on. It changes with everything that they tell one another, and
// with every change of the arithmetic; builds may set it to something finer with
// -ldflags -X unseen/beam/job.Version=….
var Version = "8"

// Runner says where jobs run.
type Runner struct {
	Name        string // prism, flink, spark, dataflow, or universal for anything with a job service; "" means prism
	Endpoint    string // host:port of the job service, for all but prism and dataflow
	Environment string // PROCESS, DOCKER, EXTERNAL or LOOPBACK: how workers are started; "" means LOOPBACK
	Config      string // of the environment: for PROCESS {"command": "…"}, for DOCKER an image, for EXTERNAL host:port
	Binary      string // what is staged for the workers; "" means this program. See Worker.
	Parallelism int    // 0 means the cluster's own
	// that one task may use; 0 means all of this machine's on Prism, which does one task at a time,
	// and else 1
	Threads int
}

// threads returns how many threads a task may use.
func (r Runner) threads() int {
	switch {
	case r.Threads > 0:
		return r.Threads
	case r.Name == "" || r.Name == "prism":
		return runtime.GOMAXPROCS(0)
	}
	return 1
}

// ErrJob is wrapped by the error of a job that failed.
var ErrJob = errors.New("job failed")

// running keeps jobs of one process apart: Beam takes its options from global flags.
var running sync.Mutex

var jobs atomic.Int64

// run runs a pipeline until it has ended, or what is asked of it is there.
func (r Runner) run(ctx context.Context, name string, p *beam.Pipeline, o outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := o.where.WriteBytes(ctx, o.wanted, nil); err != nil {
		return err
	}
	defer o.where.Remove(context.WithoutCancel(ctx), o.wanted)
	running.Lock()
	defer running.Unlock()
	runner := r.Name
	if runner == "" {
		runner = "prism"
	}
	*jobopts.Endpoint, *jobopts.EnvironmentType, *jobopts.EnvironmentConfig = r.Endpoint, r.Environment, r.Config
	if r.Environment == "" {
		*jobopts.EnvironmentType = "LOOPBACK"
	}
	*jobopts.WorkerBinary = r.Binary
	*jobopts.Parallelism = -1
	if r.Parallelism > 0 {
		*jobopts.Parallelism = r.Parallelism
	}
	*jobopts.JobName = fmt.Sprintf("unseen-%s-%d", name, jobs.Add(1))
	log.SetLogger(&keeper)
	keeper.forget()
	var err error
	if r.detached() {
		var job *serviceJob
		if job, err = r.submit(ctx, p); err == nil {
			err = job.follow(ctx, o)
		}
	} else {
		_, err = beam.Run(ctx, runner, p)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ctx.Err()):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s on %s: %w", ErrJob, name, runner, fault(keeper.reason(err)))
}

// keeper keeps the last of what a runner has to say: the cause of a failure often arrives there and nowhere else.
var keeper lastWords

type lastWords struct {
	sync.Mutex
	lines []string
}

// Verbose writes Beam's own messages somewhere; nil keeps them back. Prism's come through slog's default logger, which
// it therefore takes: it is for programs, at their start.
func Verbose(w io.Writer) {
	slog.SetDefault(slog.New(&keeper))
	keeper.Lock()
	defer keeper.Unlock()
	verbose = nil
	if w != nil {
		verbose = stdlog.New(w, "beam: ", 0)
	}
}

var verbose *stdlog.Logger

// Log implements Beam's Logger.
func (l *lastWords) Log(_ context.Context, severity log.Severity, _ int, message string) {
	l.Lock()
	defer l.Unlock()
	if verbose != nil {
		verbose.Print(message)
	}
	if severity < log.SevWarn {
		return
	}
	if l.lines = append(l.lines, message); len(l.lines) > 64 {
		l.lines = l.lines[1:]
	}
}

// Enabled implements slog.Handler.
func (*lastWords) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *lastWords) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	severity := log.SevInfo
	if r.Level >= slog.LevelWarn {
		severity = log.SevWarn
	}
	l.Log(ctx, severity, 0, text)
	return nil
}

// WithAttrs implements slog.Handler.
func (l *lastWords) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *lastWords) WithGroup(string) slog.Handler { return l }

func (l *lastWords) forget() {
	l.Lock()
	defer l.Unlock()
	l.lines = nil
}

// marked are our own errors, which workers mark so that they are found in what a runner makes of them, and settings are
// the settings in these.
var (
	marked   = regexp.MustCompile(`unseen⟨([^⟩]*)⟩`)
	settings = regexp.MustCompile(`⟦([^⟧]*)⟧`)
)

// mark marks an error of a worker.
func mark(err error) error {
	if err == nil || errors.Is(err, errUnwanted) {
		return nil
	}
	return fmt.Errorf("unseen⟨%s⟩", strings.Map(func(r rune) rune {
		if r == '⟨' || r == '⟩' || r == '\n' {
			return ' '
		}
		return r
	}, hint.Render(err, func(s hint.Setting) string { return "⟦" + string(s) + "⟧" })))
}

// fault is the error that a marked text is of. Its last sentence about settings is a hint.
func fault(text string) error {
	at := settings.FindStringIndex(text)
	if at == nil {
		return errors.New(text)
	}
	end := strings.LastIndex(text[:at[0]], "; ")
	if end < 0 {
		return errors.New(settings.ReplaceAllString(text, "$1"))
	}
	advice := text[end+len("; "):]
	var named []any
	for _, found := range settings.FindAllStringSubmatch(advice, -1) {
		named = append(named, hint.Setting(found[1]))
	}
	return hint.Wrap(errors.New(text[:end]), settings.ReplaceAllString(strings.ReplaceAll(advice, "%", "%%"), "%v"),
		named...)
}

// reason finds the cause in an error, which may be pages of Java, and in the last messages.
func (l *lastWords) reason(err error) string {
	l.Lock()
	defer l.Unlock()
	for _, text := range append([]string{err.Error()}, l.lines...) {
		if found := marked.FindStringSubmatch(text); found != nil {
			return found[1]
		}
	}
	text := err.Error()
	if len(l.lines) > 0 {
		text += "; " + l.lines[len(l.lines)-1]
	}
	if len(text) > 2000 {
		text = text[:1000] + " … " + text[len(text)-1000:]
	}
	return text
}
