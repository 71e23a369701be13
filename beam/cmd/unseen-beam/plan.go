package main

import (
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"unseen/graph"
	"unseen/progress"
)

// What was measured on one core of an Intel Xeon of the Sapphire Rapids class under load (bench/RESULTS.md, Beam), at
// 64 and at 256 dimensions, in core-seconds per million pairs. Runs that name different numbers of rows for a pair tell
// what rows cost from what pairs cost: at 64 dimensions those of 100 and 500 million pairs on Flink. A row at 256 was
// only measured at a high load, where it took 2.5/1.6 times one at 64; that ratio is taken.
var (
	rowCost         = twoCosts{.22, .34}   // per million rows that a shard names: found, checked and copied
	surveyCost      = twoCosts{.1, .1}     // a pass without arithmetic: survey, draw, tally
	valueCost       = twoCosts{.25, .35}   // the likelihood and its gradient
	leverageCost    = twoCosts{.78, 1.02}  // that, where the variances of logits are found first
	informationCost = twoCosts{.78, 2.35}  // Fisher's information
	topCost         = twoCosts{1.37, 3.72} // lists, per billion comparisons; 10 at 768 dimensions
)

const (
	startSeconds  = .7       // a job on Flink before its first task
	pairDisk      = 4.3      // bytes of a pair in a shard
	pairMemory    = 25       // bytes of a pair in a worker
	programMemory = 80 << 20 // bytes of a worker without a task
	fullShard     = 1 << 20  // pairs
)

// What a fit by bayes takes: counted in fits of generated worlds, which took 5 to 8 values and 3 to 4 informations.
const (
	bayesValues       = 8 // of them bayesLeverages find the variances of logits
	bayesLeverages    = 3
	bayesInformations = 4
	bayesPasses       = 6 // surveys, draws, the tally, links
)

// twoCosts are a cost at 64 and at 256 dimensions.
type twoCosts [2]float64

// at is a line through both, which a cost per number of a vector is.
func (c twoCosts) at(dim int) float64 { return c[0] + (c[1]-c[0])*float64(dim-64)/192 }

// squared is the same in the square of the dimension, which the arithmetic of the information is.
func (c twoCosts) squared(dim int) float64 {
	d := float64(dim)
	return c[0] + (c[1]-c[0])*(d*d-64*64)/(256*256-64*64)
}

// scaleInput is what a plan is made of.
type scaleInput struct {
	Nodes     int64   `json:"nodes"`
	Links     int64   `json:"links"`
	PerLink   int     `json:"negatives"`
	Dimension int     `json:"dimension"`
	Fields    int     `json:"fields"`
	Machines  int     `json:"machines"`
	Cores     int     `json:"cores"`   // of a machine
	Memory    float64 `json:"memory"`  // of a machine, GB
	Network   float64 `json:"network"` // of a machine, GB/s
}

// scalePlan is what fitting, evaluating and recommending at a size would take.
type scalePlan struct {
	scaleInput
	Pairs      int64 `json:"pairs"`
	Blocks     int   `json:"blocks"`     // of nodes, for import --blocks
	ShardPairs int64 `json:"shardPairs"` // for import --shard
	Shards     int64 `json:"shards"`

	VectorBytes float64 `json:"vectorBytes"`
	PairBytes   float64 `json:"pairBytes"`
	WorkerBytes float64 `json:"workerBytes"` // memory of a task at its peak
	DriverBytes float64 `json:"driverBytes"`

	Jobs            int     `json:"jobs"`        // of a fit
	CoreSeconds     float64 `json:"coreSeconds"` // of a fit
	FitSeconds      float64 `json:"fitSeconds"`  // where vectors are in the memory of every machine
	PassSeconds     float64 `json:"passSeconds"` // of one value
	VectorsInMemory bool    `json:"vectorsInMemory"`
	ReadBytes       float64 `json:"readBytes"`   // of rows, in a pass, where they are not
	ReadSeconds     float64 `json:"readSeconds"` // of that
	SumBytes        float64 `json:"sumBytes"`    // that come back of an information
	ListSeconds     float64 `json:"listSeconds"` // lists of all nodes
}

func newPlan() *cobra.Command {
	in := scaleInput{PerLink: graph.DefaultPerLink, Fields: 27, Cores: 64, Memory: 512, Network: 1}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "plan --nodes N --links N --dimension D --machines M",
		Short: "Reckon what a graph would take: time, memory, network",
		Long: `Reckon what fitting by bayes and recommending would take for a graph of some
size on some machines, and how to cut it. Costs per pair were measured on one
core (bench/RESULTS.md); everything else here is arithmetic, and not a promise:
it leaves out waiting, stragglers and the driver's own work.`,
		Example: `  unseen-beam plan --nodes 320000000 --links 3200000000 --dimension 256 --machines 8`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := in.plan()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), p)
			}
			return p.print(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Int64Var(&in.Nodes, "nodes", 0, "of the graph")
	flags.Int64Var(&in.Links, "links", 0, "of the graph")
	flags.IntVar(&in.Dimension, "dimension", 256, "of the vectors")
	flags.IntVar(&in.Machines, "machines", 1, "of the cluster")
	flags.IntVar(&in.PerLink, "negatives", in.PerLink, "unlinked pairs per link")
	flags.IntVar(&in.Fields, "fields", in.Fields, "of the nodes")
	flags.IntVar(&in.Cores, "cores", in.Cores, "of a machine")
	flags.Float64Var(&in.Memory, "memory", in.Memory, "of a machine, in `GB`")
	flags.Float64Var(&in.Network, "network", in.Network, "of a machine, or its disk, in `GB/s`")
	flags.BoolVar(&asJSON, "json", false, "one JSON document on stdout")
	return cmd
}

// plan reckons.
func (in scaleInput) plan() (*scalePlan, error) {
	for name, value := range map[string]float64{"nodes": float64(in.Nodes), "links": float64(in.Links),
		"dimension": float64(in.Dimension), "machines": float64(in.Machines), "cores": float64(in.Cores),
		"fields": float64(in.Fields), "memory": in.Memory, "network": in.Network} {
		if !(value > 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("--%s is %v; give a positive number", name, value)
		}
	}
	if in.PerLink < 0 || in.Nodes > math.MaxInt32 {
		return nil, fmt.Errorf("%d unlinked pairs per link and %d nodes; give no fewer than 0, and at most %d nodes",
			in.PerLink, in.Nodes, math.MaxInt32)
	}
	const gigabyte = 1e9
	p := &scalePlan{scaleInput: in, Pairs: in.Links * int64(1+in.PerLink)}
	row := 4 * float64(in.Dimension)
	cores := float64(in.Machines * in.Cores)
	// a task holds its pairs and the rows of both their ends
	theta, width := float64(in.Dimension+1+in.Fields*in.Fields), float64(in.Dimension+1)
	lots := 8 * 4 * (width*width + float64(in.Fields*in.Fields)*width) // partial sums of the information
	fixed := programMemory + lots + 12*theta*theta
	room := .9*in.Memory*gigabyte/float64(in.Cores) - fixed
	p.ShardPairs = int64(min(fullShard, max(room/(pairMemory+2*row), 1<<14)))
	p.Blocks = max(int(math.Ceil(math.Sqrt(float64(p.Pairs)/float64(p.ShardPairs)))),
		int((in.Nodes+1<<24-1)>>24), 1)
	cells := int64(p.Blocks) * int64(p.Blocks)
	p.Shards = max(cells, (p.Pairs+p.ShardPairs-1)/p.ShardPairs)
	p.VectorBytes, p.PairBytes = row*float64(in.Nodes), pairDisk*float64(p.Pairs+in.Links)
	named := min(2*float64(p.ShardPairs), 2*float64(in.Nodes)/float64(p.Blocks))
	p.WorkerBytes = fixed + pairMemory*float64(p.ShardPairs) + row*named + 8*float64(in.Nodes)/float64(p.Blocks)
	// the products of the part, the vectors of its nodes and of those that are examined, V
	p.DriverBytes = programMemory + 1<<27 + 1<<28 + 1<<28 + 16*theta*theta
	p.SumBytes = float64(p.Shards) * theta * (theta + 1) / 2 * 8

	// an information looks at no more pairs than these; see package fit
	informed := min(float64(p.Pairs), max(math.Exp2(36)/width/width, 1<<18))
	strata := 1
	if informed < float64(p.Pairs) {
		strata = 4
	}
	million, rows := float64(p.Pairs)/1e6, rowCost.at(in.Dimension)*float64(p.Shards)*named/1e6
	pass := func(c twoCosts) float64 { return c.at(in.Dimension)*million + rows }
	information := informationCost.squared(in.Dimension) * informed / 1e6
	if strata > 1 { // every stratum reads all pairs, and the rows of few
		information += float64(strata)*surveyCost.at(in.Dimension)*million + rowCost.at(in.Dimension)*2*informed/1e6
	} else {
		information += rows
	}
	p.Jobs = bayesValues + strata*bayesInformations + bayesPasses
	p.CoreSeconds = (bayesValues-bayesLeverages)*pass(valueCost) + bayesLeverages*pass(leverageCost) +
		bayesInformations*information + bayesPasses*pass(surveyCost)
	p.PassSeconds = pass(valueCost)/cores + startSeconds
	p.FitSeconds = p.CoreSeconds/cores + float64(p.Jobs)*startSeconds
	p.VectorsInMemory = p.VectorBytes+p.WorkerBytes*float64(in.Cores) < in.Memory*gigabyte
	p.ReadBytes = float64(p.Shards) * named * row
	p.ReadSeconds = p.ReadBytes / (float64(in.Machines) * in.Network * gigabyte)
	p.ListSeconds = float64(in.Nodes) * float64(in.Nodes) / 1e9 * topCost.at(in.Dimension) / cores
	return p, nil
}

// bytesText writes a number of bytes for people.
func bytesText(n float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB", "TB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g PB", n)
}

func (p *scalePlan) print(w io.Writer) error {
	fmt.Fprintf(w, "%d nodes, %d links, %d pairs, dimension %d, on %d machines of %d cores and %.4g GB\n\n", p.Nodes,
		p.Links, p.Pairs, p.Dimension, p.Machines, p.Cores, p.Memory)
	line := func(name, format string, a ...any) { fmt.Fprintf(w, "%-22s %s\n", name, fmt.Sprintf(format, a...)) }
	line("cut", "%d blocks of nodes, %d shards of at most %d pairs (import --blocks %d --shard %d)", p.Blocks,
		p.Shards, p.ShardPairs, p.Blocks, p.ShardPairs)
	line("disk", "vectors %s, pairs and links %s", bytesText(p.VectorBytes), bytesText(p.PairBytes))
	line("memory of a task", "%s, %s of all tasks of a machine", bytesText(p.WorkerBytes),
		bytesText(p.WorkerBytes*float64(p.Cores)))
	line("memory of the driver", "%s", bytesText(p.DriverBytes))
	line("fit by bayes", "%d jobs, %.3g core-hours, %s; one gradient %s", p.Jobs, p.CoreSeconds/3600,
		progress.Seconds(p.FitSeconds), progress.Seconds(p.PassSeconds))
	if p.VectorsInMemory {
		line("vectors", "fit into the memory of every machine beside its tasks")
	} else {
		line("vectors", "do not fit into a machine's memory beside its tasks: every pass reads %s of rows, %s at "+
			"%.3g GB/s a machine; this decides, not arithmetic", bytesText(p.ReadBytes),
			progress.Seconds(p.ReadSeconds), p.Network)
	}
	line("network", "%s of sums come back of an information", bytesText(p.SumBytes))
	line("lists of all nodes", "%s; find candidates first where that is too long", progress.Seconds(p.ListSeconds))
	_, err := fmt.Fprintln(w, "\nCosts per pair were measured on one core (bench/RESULTS.md); the rest is arithmetic.")
	return err
}
