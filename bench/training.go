package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

var trainings = []comparison{
	{"adam-32", "Adam on R_w, batches of 32, 20k nodes, d=768, against torch with hand-written gradients", 10,
		"pairs/s",
		func(b *bench) (float64, float64, error) { return b.adam(32) }},
	{"adam-1024", "the same in batches of 1024", 5, "pairs/s",
		func(b *bench) (float64, float64, error) { return b.adam(1024) }},
	{"adam-threads", "batches of 1024 on two threads, against one", 1.7, "pairs/s", (*bench).adamThreads},
	{"full-batch", "the gradient over 1M pairs grouped by source, against gathering their rows", 0.70, "GB/s",
		(*bench).fullBatch},
	{"bayes", "the posterior from 32k pairs, d=768, three starts, two threads, against 5 s", 1, "fits/s",
		func(b *bench) (float64, float64, error) { return b.bayes(-1) }},
	{"bayes-intervals", "the same with the ten replicates behind its intervals, against 5 s as well", 1, "fits/s",
		func(b *bench) (float64, float64, error) { return b.bayes(0) }},
}

// trainingProblem is that of peer_torch.py: random vectors and fields, links drawn from a known
// model and hidden by field.
func trainingProblem(nodes, pairs int, grouped bool) (sample.Problem, error) {
	const fields = 19
	rng := rand.New(rand.NewPCG(1, 1))
	vectors, err := graph.NewVectors(nodes, dim)
	if err != nil {
		return sample.Problem{}, err
	}
	fill(kern.MatrixOf(vectors), 1)
	n := model.Nodes{Vectors: vectors, Fields: make([]uint16, nodes), FieldCount: fields}
	for i := range n.Fields {
		n.Fields[i] = uint16(rng.IntN(fields))
	}
	p := &graph.Pairs{Universe: int64(nodes) * int64(nodes-1)}
	for k := range pairs {
		source := rng.IntN(nodes)
		if grouped {
			source = int(int64(k) * int64(nodes) / int64(pairs))
		}
		target := (source + 1 + rng.IntN(nodes-1)) % nodes
		p.Source, p.Target = append(p.Source, int32(source)), append(p.Target, int32(target))
		p.Linked = append(p.Linked, rng.IntN(20) == 0)
		p.Weight, p.Rate = append(p.Weight, 1), append(p.Rate, 1)
	}
	few := &graph.Pairs{Source: p.Source[:64], Target: p.Target[:64], Linked: p.Linked[:64], Weight: p.Weight[:64],
		Rate: p.Rate[:64], Universe: p.Universe}
	return sample.Problem{Nodes: n, Train: p, Validation: few}, nil
}

// adamSpeed trains for an epoch, as peer_torch.py does, and returns the pairs per second.
func adamSpeed(p sample.Problem, batch, threads int) (float64, error) {
	r, err := fit.Fit(context.Background(), p, fit.Settings{
		Method: "rw", Preset: "notebook", Through: fit.On, Starts: []float64{.5}, Threads: threads,
		Adam: fit.AdamSettings{Rate: 1e-4, Batch: batch, Epochs: 1},
	})
	if err != nil {
		return 0, err
	}
	return r.Speed, nil
}

func (b *bench) adam(batch int) (float64, float64, error) {
	p, err := trainingProblem(b.size(20_000), b.size(320_000), false)
	if err != nil {
		return 0, 0, err
	}
	defer p.Nodes.Vectors.Close()
	var best, peer float64
	for range max(b.reps/2, 1) {
		ours, err := adamSpeed(p, batch, 1)
		if err != nil {
			return 0, 0, err
		}
		best = max(best, ours)
		theirs, err := b.torch(batch)
		if err != nil {
			return best, 0, err
		}
		peer = max(peer, theirs)
	}
	return best, peer, nil
}

// torch runs peer_torch.py, which lies outside this project: PEERS names its folder.
func (b *bench) torch(batch int) (float64, error) {
	if b.peers.cmd == nil {
		return 0, fmt.Errorf("%w: %s", errNoPeer, b.peers.why)
	}
	folder := os.Getenv("PEERS")
	if folder == "" {
		folder = filepath.Join("..", "shared", "bench")
	}
	script := filepath.Join(folder, "peer_torch.py")
	if _, err := os.Stat(script); err != nil {
		return 0, fmt.Errorf("%w: no %s; set PEERS to its folder", errNoPeer, script)
	}
	cmd := exec.Command(b.peers.cmd.Path, script, "--impl", "manual", "--batch", strconv.Itoa(batch), "--pairs",
		strconv.Itoa(5000*batch/(1+batch/64)), "--threads", "1")
	cmd.Env = append(peerEnvironment(), "CUDA_VISIBLE_DEVICES=")
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: torch is not installed", errNoPeer)
	}
	for scan := bufio.NewScanner(strings.NewReader(string(out))); scan.Scan(); {
		if rest, ok := strings.CutPrefix(scan.Text(), "pairs/s "); ok {
			return strconv.ParseFloat(rest, 64)
		}
	}
	return 0, fmt.Errorf("%s printed no speed", script)
}

func (b *bench) adamThreads() (float64, float64, error) {
	p, err := trainingProblem(b.size(20_000), b.size(320_000), false)
	if err != nil {
		return 0, 0, err
	}
	defer p.Nodes.Vectors.Close()
	var best [3]float64
	for range b.reps {
		for _, threads := range []int{1, 2} {
			speed, err := adamSpeed(p, 1024, threads)
			if err != nil {
				return 0, 0, err
			}
			best[threads] = max(best[threads], speed)
		}
	}
	return best[2], best[1], nil
}

func (b *bench) fullBatch() (float64, float64, error) {
	p, err := trainingProblem(b.size(20_000), b.size(1_000_000), true)
	if err != nil {
		return 0, 0, err
	}
	defer p.Nodes.Vectors.Close()
	o, err := likelihood(p)
	if err != nil {
		return 0, 0, err
	}
	params, grad := make([]float32, o.Size()), make([]float64, o.Size())
	m := kern.MatrixOf(p.Nodes.Vectors)
	scores, query := make([]float32, p.Train.Len()), make([]float32, dim)
	best, gather, err := b.alternate(func() time.Duration {
		return timed(func() { _, err = engine.CPU{Threads: 1}.Gradient(context.Background(), o, params, grad) })
	}, func() (time.Duration, error) {
		return timed(func() { kern.Dots(scores, query, m, p.Train.Target) }), err
	})
	return gigabytes(p.Train.Len(), best), gigabytes(p.Train.Len(), gather), err
}

// likelihood is the objective of maximum likelihood.
func likelihood(p sample.Problem) (*engine.Objective, error) {
	link, err := model.NewDiagonal(p.Nodes, false)
	if err != nil {
		return nil, err
	}
	propensity, err := model.NewFieldMatrix(p.Nodes)
	return &engine.Objective{Link: link, Propensity: propensity, LambdaL: 1, Pairs: p.Train}, err
}

// bayes fits a world of the paper's size, or a smaller one, with this many replicates; 0 means the default.
func (b *bench) bayes(replicates int) (float64, float64, error) {
	ctx := context.Background()
	s := world.Settings{}
	if b.scale < 1 {
		s = world.Settings{Nodes: 200, Dim: 16, Fields: world.EvenFields(3)}
	}
	w, err := world.New(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	train, err := w.Pairs(ctx, b.size(32_000), world.Draw{})
	if err != nil {
		return 0, 0, err
	}
	best := time.Duration(1 << 62)
	for range max(b.reps/2, 1) {
		best = min(best, timed(func() {
			_, err = fit.Fit(ctx, sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs},
				fit.Settings{Threads: 2, Replicates: replicates})
		}))
		if err != nil {
			return 0, 0, err
		}
	}
	return 1 / best.Seconds(), 1.0 / 5, nil
}
