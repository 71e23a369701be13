// Command unseen-beam fits, judges and recommends over graphs that outgrow one machine, as jobs of Apache Beam.
//
//	unseen-beam import papers -o shards
//	unseen-beam fit shards -o model.safetensors --runner flink --endpoint localhost:8099
//	unseen-beam evaluate model.safetensors shards
//	unseen-beam index shards
//	unseen-beam recommend model.safetensors shards -o lists
//	unseen-beam plan --nodes 320000000 --links 3200000000 --machines 8
//	unseen-beam generate -o random --nodes 200000 --pairs 10000000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"unicode"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/hint"
)

// workerGarbage is how much of its memory a worker lets become garbage, in percent of what it needs. It drops a shard's
// pairs before it reads the next: with half as much garbage it stays small.
const workerGarbage = 50

func main() {
	// A runner starts its workers as this program with the address of its provision service; the worker then starts
	// itself again with Beam's own flags, and Init does not return.
	switch {
	case slices.ContainsFunc(os.Args[1:], func(a string) bool { return a == "--worker=true" }):
		flag.Parse()
		debug.SetGCPercent(workerGarbage)
		beam.Init()
		return
	case slices.ContainsFunc(os.Args[1:], func(a string) bool {
		return len(a) > 20 &&
			a[:20] == "--provision_endpoint"
	}):
		if err := job.Worker(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "unseen-beam worker:", err)
			os.Exit(1)
		}
		return
	}
	if err := initialise(); err != nil {
		fmt.Fprintln(os.Stderr, "unseen-beam:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if failed, err := newRoot().ExecuteContextC(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("stopped")
		}
		fmt.Fprintln(os.Stderr, "unseen-beam:", worded(failed, err))
		os.Exit(1)
	}
}

// worded is an error in the words of the command that failed.
func worded(failed *cobra.Command, err error) string { return hint.Render(err, flagsOf(failed)) }

// flagsOf names settings that a command has by their flags.
func flagsOf(cmd *cobra.Command) func(hint.Setting) string {
	return func(s hint.Setting) string {
		flag := ""
		for _, letter := range s {
			if unicode.IsUpper(letter) {
				flag += "-"
			}
			flag += string(unicode.ToLower(letter))
		}
		if cmd.Flags().Lookup(flag) == nil {
			return string(s)
		}
		return "--" + flag
	}
}

// initialise readies Beam, which reads the command line as well: it is shown none.
func initialise() error {
	args := os.Args
	os.Args = args[:1]
	defer func() { os.Args = args }()
	beam.Init()
	return nil
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "unseen-beam",
		Short:         "Link recommendation that corrects for exposure, over graphs that outgrow one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       job.Version,
	}
	root.AddCommand(newImport(), newFit(), newEvaluate(), newIndex(), newRecommend(), newPlan(), newGenerate(),
		newWorkers())
	return root
}
