package main

import (
	"fmt"
	"runtime/debug"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker"
	"github.com/spf13/cobra"

	"unseen/beam/job"
)

func newWorkers() *cobra.Command {
	var port int
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Keep workers on this machine that stay between jobs",
		Long: `Be the workers of a machine for every job that is sent here, until interrupted.
With --program a cluster starts new processes for every job. These stay: vectors
of s3:// and gs:// are copied once and not once per job, and files whose checksums
were found right are not read again.

Run it beside every task manager, and give the driver
--environment EXTERNAL --environment-config localhost:PORT. It listens on the
loopback address alone.`,
		Example: `  unseen-beam workers --port 50000`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job.Verbose(nil)
			debug.SetGCPercent(workerGarbage)
			pool, err := extworker.StartLoopback(cmd.Context(), port)
			if err != nil {
				return fmt.Errorf("%w; give another --port", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "workers on %s\n", pool.EnvironmentConfig(cmd.Context()))
			<-cmd.Context().Done()
			return pool.Stop(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&port, "port", 50000, "to listen on; 0 takes a free one")
	return cmd
}
