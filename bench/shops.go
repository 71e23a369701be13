package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/sample"
	"unseen/study"
	"unseen/world"
)

// shops compare factors with those of implicit, the usual library for clicks of people. They run only when named. A
// line is the time that ours take to reach the best recall of the peer, against the time that the peer takes, each on
// one thread; the notes have every recall, and the AUC by true relevance where that is known.
var shops = []comparison{
	{"shop-1m", "factors to implicit's best recall@20, a generated shop with 1M clicks, processor time", 2, "fits/min",
		func(b *bench) (float64, float64, error) { return b.shop(20_000, 5_000, 210) }},
	{"shop-10m", "the same with 10M clicks", 2, "fits/min",
		func(b *bench) (float64, float64, error) { return b.shop(120_000, 15_000, 350) }},
	{"jester", "the same by the likes of Jester, in the folder that UNSEEN_DATA names", 2, "fits/min", (*bench).jester},
}

//go:embed peers/factors.py
var factorsPy string

// implicitVersion is the newest that was there.
const implicitVersion = "0.7.3"

// peopleAndItems is what is learned from, and what is held out.
type peopleAndItems struct {
	people, items int
	fields        func(node int) string // of people and then items
	train, test   [][2]int32            // person and item
	shown         [][2]int32            // beside train; nil where nothing is logged
	judged        []judgedPair          // by true relevance
}

type judgedPair struct {
	person, item int32
	liked        bool
}

// shop compares by a shop.
func (b *bench) shop(people, items int, impressions float64) (ours, peer float64, err error) {
	p, err := generateShop(people, items, impressions)
	if err != nil {
		return 0, 0, err
	}
	return b.compareFactors(p)
}

// generateShop makes a shop and holds out a fifth of the clicks, as if they had never been shown.
func generateShop(people, items int, impressions float64) (*peopleAndItems, error) {
	s, err := world.NewShop(world.ShopSettings{People: people, Items: items, Impressions: impressions, Segments: 4,
		Categories: 12, Seed: 11})
	if err != nil {
		return nil, err
	}
	p := &peopleAndItems{people: people, items: items}
	p.fields = func(node int) string {
		if node < people {
			return fmt.Sprint("segment ", s.People[node].Segment)
		}
		return fmt.Sprint("category ", s.Items[node-people].Category)
	}
	rng := rand.New(rand.NewPCG(12, 0))
	type pair = [2]int32
	held, last, seen := map[pair]bool{}, -1, map[int]bool{}
	for x := range s.Shown {
		if x.Person != last { // showings come person by person
			last = x.Person
			clear(seen)
			clear(held)
		}
		at := pair{int32(x.Person), int32(x.Item)}
		switch {
		case x.Clicked && rng.IntN(5) == 0:
			p.test = append(p.test, at)
			held[at] = true
		case x.Clicked:
			p.train = append(p.train, at)
		case !seen[x.Item] && !held[at]:
			p.shown = append(p.shown, at)
		}
		seen[x.Item] = true
	}
	for range 200_000 {
		i, j := rng.IntN(people), rng.IntN(items)
		p.judged = append(p.judged, judgedPair{int32(i), int32(j), s.Wants(i, j)})
	}
	return p, nil
}

// jester is the likes of Jester, of which a fifth is held out.
func (b *bench) jester() (ours, peer float64, err error) {
	folder := filepath.Join(cmp.Or(os.Getenv("UNSEEN_DATA"), "../shared/data"), "jester")
	set, err := study.OpenShown(folder, study.ShownOptions{})
	if err != nil {
		return 0, 0, err
	}
	p := peopleAndItems{people: len(set.People), items: len(set.Items), fields: func(int) string { return "" }}
	rng := rand.New(rand.NewPCG(12, 0))
	for _, x := range set.Shown {
		at := [2]int32{x.Person, x.Item}
		switch {
		case !x.Liked:
		case rng.IntN(5) == 0:
			p.test = append(p.test, at)
		default:
			p.train = append(p.train, at)
		}
	}
	return b.compareFactors(&p)
}

// learned is factors and what they cost.
type learned struct {
	name    string
	seconds float64
	u, v    *kern.Matrix // with effects of items in the last column, where there are any
	effects []float32    // of people
	memory  int64
}

// compareFactors prints how well each method does, and returns the times to the peer's best recall.
func (b *bench) compareFactors(p *peopleAndItems) (float64, float64, error) {
	fmt.Fprintf(b.notes, "%d people, %d items, %d clicks to learn from, %d held out, %d more pairs shown\n", p.people,
		p.items, len(p.train), len(p.test), len(p.shown))
	j := newListJudge(p)
	peer, err := b.startFactors(p)
	if err != nil {
		return 0, 0, err
	}
	defer peer.stop()
	best, kind, runs := 0., map[string]any(nil), []map[string]any{
		{"task": "als", "factors": 16, "iterations": 15, "regularisation": .01, "alpha": 1.},
		{"task": "als", "factors": 16, "iterations": 15, "regularisation": 1., "alpha": 10.},
		{"task": "als", "factors": 32, "iterations": 15, "regularisation": 1., "alpha": 1.},
		{"task": "als", "factors": 64, "iterations": 15, "regularisation": 10., "alpha": 1.},
		{"task": "bpr", "factors": 16, "iterations": 60, "regularisation": .01, "rate": .05},
	}
	for _, task := range runs {
		l, err := peer.learn(task)
		if err != nil {
			return 0, 0, err
		}
		if recall := j.report(b.notes, l); recall > best {
			best, kind = recall, task
		}
	}
	theirs := 0.
	for _, iterations := range []int{1, 2, 3, 4, 6, 8, 11, 15} {
		kind["iterations"] = iterations
		if kind["task"] == "bpr" {
			kind["iterations"] = 4 * iterations
		}
		l, err := peer.learn(kind)
		if err != nil {
			return 0, 0, err
		}
		if theirs = l.seconds; j.report(b.notes, l) >= .99*best {
			break
		}
	}
	ours, err := b.toRecall(p, j, .99*best)
	return 60 / ours, 60 / theirs, err
}

// toRecall returns the time of our naive factors to a recall, and prints it of the others too.
func (b *bench) toRecall(p *peopleAndItems, j *listJudge, goal float64) (seconds float64, err error) {
	chosen, err := b.ours(p, fit.Settings{Method: "naive"}, "naive, ridge searched")
	if err != nil {
		return 0, err
	}
	reached := j.report(b.notes, chosen.learned)
	seconds = chosen.seconds
	for _, rounds := range []int{1, 2, 3, 4, 5, 6, 8, 10} {
		few := fit.Settings{Method: "naive", Ridge: chosen.ridge, LBFGS: fit.LBFGSSettings{Iterations: rounds}}
		l, err := b.ours(p, few, fmt.Sprintf("naive, ridge %v, %d rounds", chosen.ridge, rounds))
		if err != nil {
			return 0, err
		}
		if recall := j.report(b.notes, l.learned); recall >= goal {
			seconds, reached = l.seconds, recall
			break
		}
	}
	if p.shown != nil {
		l, err := b.ours(p, fit.Settings{Method: "mle"}, "mle with all that was shown")
		if err != nil {
			return 0, err
		}
		j.report(b.notes, l.learned)
		l.name += ", by π̂ŷ"
		j.seen(b.notes, l)
	}
	if reached < goal {
		return 0, fmt.Errorf("ours reach a recall of %.4f, the peer %.4f", reached, goal/.99)
	}
	return seconds, nil
}

// fitted is learned, by us.
type fitted struct {
	learned
	ridge  float64
	result *fit.Result
	fields []uint16
}

// ours fits factors, from the graph on.
func (b *bench) ours(p *peopleAndItems, s fit.Settings, name string) (*fitted, error) {
	g, log, err := p.graph(s.Method != "naive")
	if err != nil {
		return nil, err
	}
	plan := sample.Plan{Split: sample.Whole, Seed: 1}
	if log != nil {
		plan.Log, plan.EveryShown = sample.Complete, true
	}
	runtime.GC()
	watch := watchMemory()
	began := processorTime()
	prepared, err := sample.Prepare(context.Background(), g, sample.Options{Origin: sample.Origin{Plan: plan}, Log: log,
		Threads: 1})
	if err != nil {
		return nil, err
	}
	s.Link, s.Seed, s.Threads, s.Doctor = "factors", 1, 1, fit.QuickDoctor
	r, err := fit.Fit(context.Background(), prepared.Problem, s)
	if err != nil {
		return nil, err
	}
	seconds := (processorTime() - began).Seconds()
	peak, err := watch.stop()
	if err != nil {
		return nil, err
	}
	source, target, _ := r.Link.(*model.Factors).Sides(r.LinkParams)
	rank := len(source.Factors) / p.people
	u, v := make([]float32, p.people*(rank+1)), make([]float32, p.items*(rank+1))
	for i := range p.people {
		copy(u[i*(rank+1):], source.Factors[i*rank:(i+1)*rank])
		u[i*(rank+1)+rank] = 1
	}
	for k := range p.items {
		copy(v[k*(rank+1):], target.Factors[k*rank:(k+1)*rank])
		v[k*(rank+1)+rank] = target.Effects[k]
	}
	l := learned{name: "unseen: " + name, seconds: seconds, effects: source.Effects, memory: peak.own}
	var err1, err2 error
	l.u, err1 = kern.View(u, p.people, rank+1, rank+1)
	l.v, err2 = kern.View(v, p.items, rank+1, rank+1)
	return &fitted{l, r.Ridge, r, g.Fields()}, cmp.Or(err1, err2)
}

// graph makes people and items of the clicks, and the log.
func (p *peopleAndItems) graph(logged bool) (*graph.Graph, *sample.ExposureLog, error) {
	var build graph.Builder
	build.Grow(p.people + p.items)
	for node := range p.people + p.items {
		n := graph.Node{ID: fmt.Sprint(node), Field: p.fields(node), Role: graph.SourceOnly}
		if node >= p.people {
			n.Role = graph.TargetOnly
		}
		if _, err := build.AddNode(n); err != nil {
			return nil, nil, err
		}
	}
	for _, at := range p.train {
		if err := build.AddLinkIndex(at[0], int32(p.people)+at[1]); err != nil {
			return nil, nil, err
		}
	}
	g, _, err := build.Build()
	if err != nil || !logged || p.shown == nil {
		return g, nil, err
	}
	log := &sample.ExposureLog{}
	for linked, pairs := range map[bool][][2]int32{true: p.train, false: p.shown} {
		for _, at := range pairs {
			log.Source, log.Target = append(log.Source, at[0]), append(log.Target, int32(p.people)+at[1])
			log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, linked)
		}
	}
	return g, log, nil
}

// listJudge judges lists by what is held out, and scores by true relevance.
type listJudge struct {
	*peopleAndItems
	known, held [][]int32 // items by person
}

func newListJudge(p *peopleAndItems) *listJudge {
	j := &listJudge{p, make([][]int32, p.people), make([][]int32, p.people)}
	for _, at := range p.train {
		j.known[at[0]] = append(j.known[at[0]], at[1])
	}
	for _, at := range p.test {
		j.held[at[0]] = append(j.held[at[0]], at[1])
	}
	return j
}

// recallAt is how long lists are.
const recallAt = 20

// report prints a line and returns the recall.
func (j *listJudge) report(w io.Writer, l learned) float64 {
	z := make([]float32, j.items)
	recall := j.recall(func(person int) []float32 {
		kern.DotRange(z, l.u.Row(person), l.v, 0)
		return z
	})
	truth := ""
	if j.judged != nil {
		truth = fmt.Sprintf(", AUC by true relevance %.4f", j.auc(l))
	}
	fmt.Fprintf(w, "  %-44s %7.2f s  %5.0f MB  recall@%d of what was held out %.4f%s\n", l.name, l.seconds,
		float64(l.memory)/1e6, recallAt, recall, truth)
	return recall
}

// seen reports the recall of lists by π̂ŷ.
func (j *listJudge) seen(w io.Writer, f *fitted) {
	batch := model.Batch{Sources: make([]int32, j.items), Targets: make([]int32, j.items)}
	for k := range batch.Targets {
		batch.Targets[k] = int32(j.people + k)
	}
	z, s := make([]float32, j.items), make([]float32, j.items)
	by := f.result.Judge().Predictor
	recall := j.recall(func(person int) []float32 {
		for k := range batch.Sources {
			batch.Sources[k] = int32(person)
		}
		by.Logits(z, s, batch)
		kern.LogSigmoid(z, z)
		kern.LogSigmoid(s, s)
		for k, x := range s {
			z[k] += x
		}
		return z
	})
	fmt.Fprintf(w, "  %-44s %7.2f s             recall@%d of what was held out %.4f\n", f.name, f.seconds, recallAt,
		recall)
}

// recall is the mean share of what was held out that a list of a person has, of at most as many as the list.
func (j *listJudge) recall(scores func(person int) []float32) float64 {
	var sum float64
	people := 0
	every := make([]int32, j.items)
	for k := range every {
		every[k] = int32(k)
	}
	for person, held := range j.held {
		if len(held) == 0 {
			continue
		}
		people++
		z := scores(person)
		for _, k := range j.known[person] {
			z[k] = -1e30
		}
		hits := 0
		for _, k := range kern.Best(z, every, recallAt) {
			if slices.Contains(held, k) {
				hits++
			}
		}
		sum += float64(hits) / float64(min(len(held), recallAt))
	}
	return sum / float64(max(people, 1))
}

// auc is how often a pair that is wanted has a higher score than one that is not.
func (j *listJudge) auc(l learned) float64 {
	type scored struct {
		z     float32
		liked bool
	}
	all := make([]scored, len(j.judged))
	one := make([]float32, 1)
	for k, p := range j.judged {
		kern.DotRange(one, l.u.Row(int(p.person)), l.v, int(p.item))
		all[k] = scored{one[0], p.liked}
		if l.effects != nil {
			all[k].z += l.effects[p.person]
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.z, b.z) })
	var won, irrelevant, relevant float64
	for _, x := range all {
		if x.liked {
			won += irrelevant
			relevant++
		} else {
			irrelevant++
		}
	}
	return won / (relevant * irrelevant)
}

// factorPeer is a Python process with implicit.
type factorPeer struct {
	*peopleAndItems
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	folder string
}

// startFactors starts the peer, in an environment of its own in b.dir that is made the first time.
func (b *bench) startFactors(p *peopleAndItems) (*factorPeer, error) {
	python := filepath.Join(b.dir, "unseen-bench-implicit-"+implicitVersion, "bin", "python3")
	if _, err := os.Stat(python); err != nil {
		home := filepath.Dir(filepath.Dir(python))
		for _, command := range [][]string{{"python3", "-m", "venv", home},
			{python, "-m", "pip", "install", "--quiet", "implicit==" + implicitVersion, "numpy<2.4", "scipy"}} {
			if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				os.RemoveAll(home)
				return nil, fmt.Errorf("%w: %v: %w: %s", errNoPeer, command, err, bytes.TrimSpace(out))
			}
		}
	}
	folder, err := os.MkdirTemp(b.dir, "unseen-bench-factors-")
	if err != nil {
		return nil, err
	}
	f := &factorPeer{peopleAndItems: p, cmd: exec.Command(python, "-c", factorsPy), folder: folder}
	f.cmd.Env, f.cmd.Stderr = peerEnvironment(), b.notes
	in, err1 := f.cmd.StdinPipe()
	out, err2 := f.cmd.StdoutPipe()
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("%w: %w", errNoPeer, err)
	}
	f.in, f.out = in, bufio.NewScanner(out)
	var said struct{ Version string }
	if err := f.answer(&said); err != nil {
		f.stop()
		return nil, err
	}
	fmt.Fprintf(b.notes, "implicit %s, one thread\n", said.Version)
	pairs := filepath.Join(folder, "pairs")
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, p.train); err != nil {
		return nil, err
	}
	if err := os.WriteFile(pairs, raw.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return f, f.ask(map[string]any{"task": "read", "pairs": pairs, "people": p.people, "items": p.items}, &struct{}{})
}

func (f *factorPeer) stop() {
	f.in.Close()
	_ = f.cmd.Wait()
	os.RemoveAll(f.folder)
}

func (f *factorPeer) answer(to any) error {
	if !f.out.Scan() {
		return errors.Join(errors.New("the peer has ended"), f.out.Err())
	}
	return json.Unmarshal(f.out.Bytes(), to)
}

func (f *factorPeer) ask(task map[string]any, to any) error {
	line, err := json.Marshal(task)
	if err != nil {
		return err
	}
	if _, err := f.in.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.answer(to)
}

// learn runs a task.
func (f *factorPeer) learn(task map[string]any) (learned, error) {
	u, v := filepath.Join(f.folder, "u"), filepath.Join(f.folder, "v")
	task["u"], task["v"] = u, v
	var said struct {
		Seconds float64
		Columns int
		Memory  int64
	}
	if err := f.ask(task, &said); err != nil {
		return learned{}, err
	}
	read := func(path string, rows int) (*kern.Matrix, error) {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		numbers := make([]float32, rows*said.Columns)
		if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, numbers); err != nil {
			return nil, err
		}
		return kern.View(numbers, rows, said.Columns, said.Columns)
	}
	l := learned{seconds: said.Seconds, memory: said.Memory, name: fmt.Sprintf("implicit: %v, rank %v, %v iterations",
		task["task"], task["factors"], task["iterations"])}
	var err1, err2 error
	l.u, err1 = read(u, f.people)
	l.v, err2 = read(v, f.items)
	return l, cmp.Or(err1, err2)
}
