// Command bench compares unseen with its peers, in one run on one machine: ours, the peer, ours, the peer, … and the
// best of each, because machines are shared. It prints one line per comparison,
//
//	name  ours  peer  ratio  goal  verdict
//
// where ratio is how many times better ours is. A peer that is not installed is skipped, and the line says so.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"unseen/internal/kern"
	"unseen/sample"
)

// comparison is one line of the output.
type comparison struct {
	name string
	what string  // in a few words, for -list
	goal float64 // the ratio to reach
	unit string
	// run measures both sides and returns them in the unit given, higher is better.
	run func(b *bench) (ours, peer float64, err error)
}

var comparisons = slices.Concat(kernels, trainings)

// bench is what the comparisons share.
type bench struct {
	reps  int
	scale float64 // of the problems' sizes; 1 except in tests
	peers *peers

	dir     string // of the clone's vectors
	half    bool   // the clone's vectors are float16
	data    string // a dataset whose vectors are searched in place of drawn ones
	model   string // a model of it, whose queries they are searched with
	made    *madeGraph
	rows    int // of the grown- comparisons
	large   *grownIndex
	notes   io.Writer // receives progress and the parts of long runs
	problem *sample.Problem
	peak    int64 // the highest memory use since the clone was generated, without mapped files
}

// errNoPeer marks a comparison whose peer is not installed.
var errNoPeer = errors.New("skipped")

// alternate runs ours and the peer in turn and returns the shortest time of each.
func (b *bench) alternate(ours func() time.Duration, peer func() (time.Duration, error)) (best, bestPeer time.Duration,
	err error) {
	best, bestPeer = 1<<62, 1<<62
	for range b.reps {
		best = min(best, ours())
		d, err := peer()
		if err != nil {
			return best, 0, err
		}
		bestPeer = min(bestPeer, d)
	}
	return best, bestPeer, nil
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func main() {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	list := flags.Bool("list", false, "list the comparisons and stop")
	reps := flags.Int("reps", 7, "runs of each side; the best one counts")
	dir := flags.String("dir", os.TempDir(),
		"folder for the vectors of the clone- comparisons: 7.5 GB, or 3.8 GB with -half")
	data := flags.String("data", "", "dataset with vectors of 256 numbers, for the topk-256-, index- and grown- "+
		"comparisons")
	model := flags.String("model", "", "model of -data whose queries the index- and grown- comparisons ask")
	rows := flags.Int("rows", 10_000_000, "rows of the grown- comparisons")
	half := flags.Bool("half", false, "float16 vectors in the clone- comparisons")
	profile := flags.String("cpuprofile", "", "write a CPU profile to this file")
	_ = flags.Parse(os.Args[1:])
	if *list {
		for _, c := range slices.Concat(comparisons, scales, shops, graphs, grown) {
			fmt.Printf("%-18s %s\n", c.name, c.what)
		}
		return
	}
	b := &bench{reps: *reps, scale: 1, peers: &peers{why: "none of these has a peer"}, dir: *dir, half: *half,
		notes: os.Stderr, data: *data, model: *model, rows: *rows}
	if asksPeers(flags.Args()) {
		b.peers = startPeers(os.Stderr)
	}
	defer b.peers.stop()
	if *profile != "" {
		file, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := b.compare(os.Stdout, flags.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		b.peers.stop()
		os.Exit(1)
	}
}

// asksPeers reports whether one of the named comparisons needs the peers; those of size have goals.
func asksPeers(names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(slices.Concat(comparisons, graphs), func(c comparison) bool {
		return slices.Contains(names, c.name)
	})
}

// compare runs the named comparisons, or all but those of scale.
func (b *bench) compare(w io.Writer, names []string) error {
	chosen := comparisons
	if len(names) > 0 {
		chosen = nil
		for _, name := range names {
			found := false
			for _, c := range slices.Concat(comparisons, scales, shops, graphs, grown) {
				if c.name == name {
					chosen, found = append(chosen, c), true
				}
			}
			if !found {
				return fmt.Errorf("no comparison %q; bench/run -list names them", name)
			}
		}
	}
	fmt.Fprintf(w, "# %s, %s, %s/%s, kernels %s, one thread, best of %d, %s\n", cpuName(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH,
		kern.Variant(), b.reps, time.Now().Format(time.DateOnly))
	if b.peers.settings != "" {
		fmt.Fprintf(w, "# peers: %s\n", b.peers.settings)
	}
	line := func(name, ours, peer, ratio, goal, verdict string) {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-18s %-16s %-16s %6s %6s  %s", name, ours, peer, ratio, goal,
			verdict), " "))
	}
	line("name", "ours", "peer", "ratio", "goal", "")
	for _, c := range chosen {
		ours, peer, err := c.run(b)
		measure := func(x float64) string { return fmt.Sprintf("%.3g %s", x, c.unit) }
		goal := fmt.Sprintf("%.2f", c.goal)
		switch {
		case errors.Is(err, errNoPeer):
			line(c.name, measure(ours), "-", "-", goal, err.Error())
		case err != nil:
			return fmt.Errorf("%s: %w", c.name, err)
		default:
			verdict := "reached"
			if ours/peer < c.goal {
				verdict = "short"
			}
			line(c.name, measure(ours), measure(peer), fmt.Sprintf("%.2f", ours/peer), goal, verdict)
		}
	}
	return nil
}

// cpuName returns the processor's name where the system reports it, or the architecture.
func cpuName() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			if key = strings.TrimSpace(key); fields[key] == "" {
				fields[key] = strings.TrimSpace(value)
			}
		}
	}
	name := fields["model name"]
	if name == "" {
		return runtime.GOARCH
	}
	return fmt.Sprintf("%s (family %s, model %s, %s MHz)", name, fields["cpu family"], fields["model"],
		fields["cpu MHz"])
}
