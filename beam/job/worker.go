package job

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// Flink returns the runner of a Flink job service whose task managers start a program of this package's, by its path on
// their machines, as their workers.
//
// Beam would upload the program anew with every job, and a fit is a hundred jobs. What is staged instead is a word: the
// program is on the machines already, and Version sees to it that it is the same.
func Flink(endpoint, program string, parallelism int) Runner {
	config, err := json.Marshal(map[string]any{"command": program})
	if err != nil {
		panic(err) // a string
	}
	return Runner{Name: "flink", Endpoint: endpoint, Environment: "PROCESS", Config: string(config),
		Binary: "/dev/null", Parallelism: parallelism}
}

// Worker makes a worker of this process, if it was started as one: by a runner, with the address of its provision
// service, or by itself then. It does not return in the first case, and in the second Beam's Init takes over.
func Worker(args []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	id := flags.String("id", "", "")
	provision := flags.String("provision_endpoint", "", "")
	logging := flags.String("logging_endpoint", "", "")
	artifact := flags.String("artifact_endpoint", "", "")
	control := flags.String("control_endpoint", "", "")
	persist := flags.String("semi_persist_dir", os.TempDir(), "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	_ = artifact // nothing is fetched: see Flink
	if *id == "" || *provision == "" {
		return fmt.Errorf("a worker needs --id and --provision_endpoint, which its runner gives it")
	}
	info, err := tools.ProvisionInfo(grpcx.WriteWorkerID(context.Background(), *id), *provision)
	if err != nil {
		return fmt.Errorf("asking %s what to do: %w", *provision, err)
	}
	if url := info.GetLoggingEndpoint().GetUrl(); url != "" {
		*logging = url
	}
	if url := info.GetControlEndpoint().GetUrl(); url != "" {
		*control = url
	}
	options, err := tools.ProtoToJSON(info.GetPipelineOptions())
	if err != nil {
		return err
	}
	if capable := info.GetRunnerCapabilities(); len(capable) > 0 {
		os.Setenv("RUNNER_CAPABILITIES", strings.Join(capable, " "))
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(program, []string{program, "--worker=true", "--id=" + *id, "--logging_endpoint=" + *logging,
		"--control_endpoint=" + *control, "--semi_persist_dir=" + *persist, "--options=" + options}, os.Environ())
}
