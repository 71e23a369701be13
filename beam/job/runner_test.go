package job

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"

	"unseen/beam/shards"
)

// slowService is a job service that takes every job and is slow to see that one has ended, as Flink's is.
type slowService struct {
	jobpb.UnimplementedJobServiceServer
	jobpb.UnimplementedArtifactStagingServiceServer

	address   string
	state     jobpb.JobState_Enum // in which the job ends
	after     time.Duration
	cancelled chan string
}

func (s *slowService) Prepare(context.Context, *jobpb.PrepareJobRequest) (*jobpb.PrepareJobResponse, error) {
	return &jobpb.PrepareJobResponse{PreparationId: "prepared", StagingSessionToken: "token",
		ArtifactStagingEndpoint: &pipepb.ApiServiceDescriptor{Url: s.address}}, nil
}

func (s *slowService) ReverseArtifactRetrievalService(
	stream jobpb.ArtifactStagingService_ReverseArtifactRetrievalServiceServer) error {
	_, err := stream.Recv()
	return err
}

func (s *slowService) Run(context.Context, *jobpb.RunJobRequest) (*jobpb.RunJobResponse, error) {
	return &jobpb.RunJobResponse{JobId: "the job"}, nil
}

func (s *slowService) GetMessageStream(_ *jobpb.JobMessagesRequest,
	stream jobpb.JobService_GetMessageStreamServer) error {
	select {
	case <-stream.Context().Done():
		return stream.Context().Err()
	case <-time.After(s.after):
	}
	if s.state == jobpb.JobState_FAILED {
		if err := stream.Send(&jobpb.JobMessagesResponse{Response: &jobpb.JobMessagesResponse_MessageResponse{
			MessageResponse: &jobpb.JobMessage{MessageText: "java.lang.RuntimeException: unseen⟨a shard is gone⟩",
				Importance: jobpb.JobMessage_JOB_MESSAGE_ERROR}}}); err != nil {
			return err
		}
	}
	return stream.Send(&jobpb.JobMessagesResponse{Response: &jobpb.JobMessagesResponse_StateResponse{
		StateResponse: &jobpb.JobStateEvent{State: s.state}}})
}

func (s *slowService) Cancel(_ context.Context, r *jobpb.CancelJobRequest) (*jobpb.CancelJobResponse, error) {
	s.cancelled <- r.GetJobId()
	return &jobpb.CancelJobResponse{State: jobpb.JobState_CANCELLING}, nil
}

// start serves on an address of this machine.
func (s *slowService) start(t *testing.T) Runner {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.address, s.cancelled = listener.Addr().String(), make(chan string, 1)
	server := grpc.NewServer()
	jobpb.RegisterJobServiceServer(server, s)
	jobpb.RegisterArtifactStagingServiceServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return Flink(s.address, "/no/program", 1)
}

// A job is over when its results are there, however late its service says so; when it ends without them, that is an
// error, and so is what a service says of a job that failed.
func TestResultEndsAJob(t *testing.T) {
	const soon, late = 300 * time.Millisecond, 5 * time.Second
	for name, c := range map[string]struct {
		state   jobpb.JobState_Enum
		after   time.Duration
		written []string
		fails   string
	}{
		"there before the end":      {jobpb.JobState_DONE, late, []string{"a", "b"}, ""},
		"there at the end":          {jobpb.JobState_DONE, soon, []string{"a", "b"}, ""},
		"a part of it is there":     {jobpb.JobState_DONE, soon, []string{"a"}, "without a result"},
		"cancelled by somebody":     {jobpb.JobState_CANCELLED, soon, nil, "without a result"},
		"failed, with a reason":     {jobpb.JobState_FAILED, soon, []string{"a"}, "a shard is gone"},
		"half of a file, not named": {jobpb.JobState_DONE, soon, []string{"a", "b.tmp-1"}, "without a result"},
	} {
		t.Run(name, func(t *testing.T) {
			runner := (&slowService{state: c.state, after: c.after}).start(t)
			where := shards.Location{Root: filepath.Join(t.TempDir(), "odd [name")}
			if err := os.Mkdir(where.Root, 0o700); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(soon/2, func() {
				for _, file := range c.written {
					if err := os.WriteFile(where.Path(file), nil, 0o600); err != nil {
						t.Error(err)
					}
				}
			})
			began := time.Now()
			pipeline, s := beam.NewPipelineWithRoot()
			beam.Create(s, 1)
			err := runner.run(t.Context(), "sum", pipeline, outcome{where, "wanted", []string{"a", "b"}})
			if c.fails == "" && err != nil || c.fails != "" && (!errors.Is(err, ErrJob) ||
				!strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%v, where %q was expected", err, c.fails)
			}
			if took := time.Since(began); took > late/2 {
				t.Errorf("it was waited for %v", took)
			}
		})
	}
}

// A run that is stopped cancels its job, and one whose result is there does not.
func TestStoppedRunCancelsItsJob(t *testing.T) {
	service := &slowService{state: jobpb.JobState_DONE, after: time.Hour}
	runner := service.start(t)
	where := shards.Location{Root: t.TempDir()}
	run := func(ctx context.Context) error {
		pipeline, s := beam.NewPipelineWithRoot()
		beam.Create(s, 1)
		return runner.run(ctx, "sum", pipeline, outcome{where, "wanted", []string{"a"}})
	}
	stopped, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if err := run(stopped); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped run: %v", err)
	}
	select {
	case id := <-service.cancelled:
		if id != "the job" {
			t.Errorf("%q was cancelled", id)
		}
	default:
		t.Error("the job goes on")
	}
	if _, err := where.Write(t.Context(), "a", func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-service.cancelled:
		t.Error("a job with a result was cancelled")
	default:
	}
}

// A worker leaves a task alone once nobody waits for it, and the file that says so is gone when a run ends.
func TestUnwantedTasksAreLeft(t *testing.T) {
	s := newSetup(t, 100, 4)
	cluster, _ := s.cut(t, shards.CutSettings{})
	cluster.Settings = settingsFor("mle")
	p := cluster.plan("gradient")
	p.Settings, p.Extent = cluster.Settings, cluster.Manifest.Extent
	o := must(cluster.Settings.Objective(must(cluster.Manifest.Shape())(t), p.Extent))(t)
	p.Params = packed(make([]float32, o.Size()))
	emitted := 0
	do := func() error {
		f := &taskFn{must(p.carried())(t), "gradient"}
		task := must(json.Marshal(tasksOf(cluster.Manifest.Train)[0]))(t)
		return f.ProcessElement(t.Context(), task, func(int, []byte) { emitted++ })
	}
	if err := do(); err != nil || emitted != 0 {
		t.Errorf("a task that nobody waits for: %d sums, %v", emitted, err)
	}
	must(cluster.Work.WriteBytes(t.Context(), p.wanted(), nil))(t)
	if err := do(); err != nil || emitted != 1 {
		t.Errorf("a task that is waited for: %d sums, %v", emitted, err)
	}
	cluster.Work.Remove(t.Context(), p.wanted())
	if _, err := cluster.Gradient(t.Context(), o, make([]float32, o.Size()), nil); err != nil {
		t.Fatal(err)
	}
	if left := must(os.ReadDir(cluster.Work.Root))(t); len(left) > 0 {
		t.Errorf("a run left %v", left)
	}
}
