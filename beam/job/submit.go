package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/grpc"

	"unseen/beam/shards"
)

// detached tells whether a cluster starts the workers itself, so that its job ends without this process.
func (r Runner) detached() bool {
	return r.Endpoint != "" && r.Environment != "" && r.Environment != "LOOPBACK"
}

// outcome is the files that a job leaves: the job has done its work when they are there. Each is written under another
// name and renamed, so that none is ever there in part.
type outcome struct {
	where  shards.Location
	wanted string // the file that tells workers that somebody waits
	names  []string
}

// How often a result is looked for, in a folder and in an object store.
const (
	lookLocal = 10 * time.Millisecond
	lookStore = 200 * time.Millisecond
)

// await returns when all files are there, or with the error of the context.
func (o outcome) await(ctx context.Context) error {
	every := lookStore
	if o.where.Local() {
		every = lookLocal
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for _, name := range o.names {
		for !o.where.Exists(ctx, name) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	}
	return ctx.Err()
}

// serviceJob is a job that a job service has accepted.
type serviceJob struct {
	connection *grpc.ClientConn
	client     jobpb.JobServiceClient
	id         string
}

// submit hands a pipeline to the job service: what Beam's own runner does, which tells nobody the job's id.
func (r Runner) submit(ctx context.Context, p *beam.Pipeline) (_ *serviceJob, err error) {
	edges, _, err := p.Build()
	if err != nil {
		return nil, err
	}
	environment, err := graphx.CreateEnvironment(ctx, jobopts.GetEnvironmentUrn(ctx), jobopts.GetEnvironmentConfig)
	if err != nil {
		return nil, err
	}
	pipeline, err := graphx.Marshal(edges, &graphx.Options{Environment: environment})
	if err != nil {
		return nil, err
	}
	binary := r.Binary
	if binary == "" {
		if binary, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if err := runnerlib.UpdateGoEnvironmentWorker(binary, pipeline); err != nil {
		return nil, err
	}
	connection, err := grpcx.Dial(ctx, r.Endpoint, 2*time.Minute)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			connection.Close()
		}
	}()
	client := jobpb.NewJobServiceClient(connection)
	id, artifacts, token, err := runnerlib.Prepare(ctx, client, pipeline,
		&runnerlib.JobOptions{Name: jobopts.GetJobName(), Worker: binary, Parallelism: *jobopts.Parallelism})
	if err != nil {
		return nil, err
	}
	if token, err = runnerlib.Stage(ctx, id, artifacts, binary, token); err != nil {
		return nil, err
	}
	if id, err = runnerlib.Submit(ctx, client, id, token); err != nil {
		return nil, err
	}
	return &serviceJob{connection, client, id}, nil
}

// errLost is the error of a job that ended and left no result: somebody cancelled it.
var errLost = errors.New("the job ended without a result; somebody may have cancelled it")

// follow returns when the files of an outcome are there, or, without any, when the job has ended. A job service looks
// at longer and longer intervals whether a job has ended, so that a job of a second would be waited for twice as long.
// Where the context ends first, the job is cancelled.
func (j *serviceJob) follow(ctx context.Context, o outcome) error {
	defer j.connection.Close()
	within, leave := context.WithCancel(context.WithoutCancel(ctx)) // a service would see a deadline before we do
	defer leave()
	ended, there := make(chan error, 1), make(chan error, 1)
	go func() { ended <- runnerlib.WaitForCompletion(within, j.client, j.id) }()
	if len(o.names) > 0 {
		go func() { there <- o.await(within) }()
	}
	select {
	case err := <-there:
		return err
	case err := <-ended:
		for _, name := range o.names {
			if err == nil && !o.where.Exists(ctx, name) {
				err = fmt.Errorf("%w: there is no %s", errLost, o.where.Path(name))
			}
		}
		return err
	case <-ctx.Done():
		return j.cancel(ctx)
	}
}

// cancel ends a job because a context has ended, and returns why.
func (j *serviceJob) cancel(ctx context.Context) error {
	late, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if _, err := j.client.Cancel(late, &jobpb.CancelJobRequest{JobId: j.id}); err != nil {
		return fmt.Errorf("%w; the job %s goes on, it cannot be cancelled: %w", ctx.Err(), j.id, err)
	}
	return ctx.Err()
}
