package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
	"unseen/world"
)

var refresh = Study{
	Name:   "refresh",
	Title:  "Refresh: how near lists come to those of a full training, and in which part of its time",
	either: true,
	run:    runRefresh,
}

// What is new, what is compared, and the goals.
const (
	newLinks      = .01
	refreshLength = 100
	refreshLists  = 200
	refreshAgree  = .99
	refreshTime   = .1
)

// RefreshRow is one refresh beside full trainings.
type RefreshRow struct {
	Network   string  `json:"network"`
	Method    string  `json:"method"`
	Seed      uint64  `json:"seed"`
	Pairs     int     `json:"pairs"`
	Full      float64 `json:"full"`      // seconds of a full training on everything
	Refresh   float64 `json:"refresh"`   // and of the refresh
	Agree     float64 `json:"agree"`     // of a list of the full training, what the refreshed model has; mean
	Published float64 `json:"published"` // the same by the published ŷ alone, without the other assumptions
	Stale     float64 `json:"stale"`     // and what the model has that knows nothing new
	Other     float64 `json:"other"`     // and what a full training on everything with another seed has
	Due       bool    `json:"due"`       // the doctor calls for a full training
}

// refreshData is a graph, and perhaps a log of what was shown, with a way to learn from them.
type refreshData struct {
	name, method string
	graph        *graph.Graph
	log          *sample.ExposureLog
	plan         sample.Plan
}

func runRefresh(ctx context.Context, l *lab) (*Result, error) {
	var rows []*RefreshRow
	var tasks []task
	for _, seed := range l.Seeds {
		data, err := l.refreshData(ctx, seed)
		if err != nil {
			return nil, err
		}
		for _, d := range data {
			row := &RefreshRow{Network: d.name, Method: d.method, Seed: seed}
			rows = append(rows, row)
			tasks = append(tasks, task{name: fmt.Sprintf("%s, %s, seed %d", d.name, d.method, seed), cost: 1,
				do: func(ctx context.Context) error { return row.try(ctx, d) }})
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	t := figure.Table{Name: "refresh", Title: "A refresh after 1% of new links or events", Head: "data",
		Columns: []figure.Column{
			{Name: "agree", Means: "share of a full training's list that the refreshed model has in its own", Digits: 4,
				Better: "higher"},
			{Name: "by ŷ", Means: "the same where lists are ordered by the published ŷ alone", Digits: 4},
			{Name: "stale", Means: "what the model before the new links has", Digits: 4},
			{Name: "other seed", Means: "what a full training with another seed has", Digits: 4},
			{Name: "time", Means: "of a full training, in percent", Digits: 3, Better: "lower"},
			{Name: "due", Means: "refreshes after which the doctor called for a full training", Digits: 2}}}
	var least, dearest, behind = 1., 0., 0.
	var worst, slowest string
	for _, of := range groupsOf(rows) {
		name := of[0].Network + ", " + of[0].Method
		number := func(get func(*RefreshRow) float64) float64 {
			var all []float64
			for _, r := range of {
				all = append(all, get(r))
			}
			return mean(all)
		}
		agree, other := number(func(r *RefreshRow) float64 { return r.Agree }),
			number(func(r *RefreshRow) float64 { return r.Other })
		cost := number(func(r *RefreshRow) float64 { return r.Refresh / r.Full })
		t.Add(name, figure.Number(agree), figure.Number(number(func(r *RefreshRow) float64 { return r.Published })),
			figure.Number(number(func(r *RefreshRow) float64 { return r.Stale })), figure.Number(other),
			figure.Number(100*cost), figure.Number(number(func(r *RefreshRow) float64 {
				if r.Due {
					return 1
				}
				return 0
			})*float64(len(of))))
		if agree < least {
			least, worst = agree, name
		}
		if cost > dearest {
			dearest, slowest = cost, name
		}
		behind = math.Max(behind, other-agree)
	}
	setting := fmt.Sprintf("Models are fitted without %.0f%% of the links and of what was shown, drawn at random, and "+
		"refreshed with all of them; full trainings begin anew with all of them. Lists of %d for up to %d sources.",
		100*newLinks, refreshLength, refreshLists)
	return &Result{Rows: rows, Tables: []figure.Table{t}, Setting: []string{setting}, Claims: []Claim{
		{fmt.Sprintf("lists agree to %g with those of a full training", refreshAgree), metIf(least >= refreshAgree),
			fmt.Sprintf("The least, of %s, is %.4f.", orNone(worst), least)},
		{fmt.Sprintf("a refresh takes at most %.0f%% of the time of a full training", 100*refreshTime),
			metIf(dearest <= refreshTime), fmt.Sprintf("The most, of %s, is %.1f%%.", orNone(slowest), 100*dearest)},
		{"a refresh is as near to a full training as one with another seed is", metIf(behind <= 0),
			fmt.Sprintf("It is at most %.4f further away.", behind)},
	}}, nil
}

func orNone(name string) string {
	if name == "" {
		return "none"
	}
	return name
}

// groupsOf returns the rows by data and method, in the order in which they come.
func groupsOf(rows []*RefreshRow) (out [][]*RefreshRow) {
	for _, r := range rows {
		at := slices.IndexFunc(out, func(of []*RefreshRow) bool {
			return of[0].Network == r.Network && of[0].Method == r.Method
		})
		if at < 0 {
			out = append(out, nil)
			at = len(out) - 1
		}
		out[at] = append(out[at], r)
	}
	return out
}

// refreshData returns the networks with each method; without any, a world of papers and a shop.
func (l *lab) refreshData(ctx context.Context, seed uint64) ([]refreshData, error) {
	var out []refreshData
	for _, n := range l.Networks {
		plan, _ := n.plan(seed)
		for _, method := range []string{"bayes", "mle"} {
			out = append(out, refreshData{n.Name, method, n.Graph, n.sample(), plan})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	nodes, dim, people := 4000, 64, 3000
	if l.Quick {
		nodes, dim, people = 300, 8, 200
	}
	w, err := world.New(ctx, world.Settings{Nodes: nodes, Dim: dim, Fields: world.EvenFields(6),
		Scenario: world.Scenario{BaseRate: .02, OracleAUC: .98, Seed: seed, Threads: l.Threads}})
	if err == nil {
		w, err = w.Linked(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, method := range []string{"bayes", "mle", "naive"} {
		out = append(out, refreshData{"papers", method, w.Graph(), nil, sample.Plan{Seed: seed}})
	}
	g, log, err := shopGraph(people, people/5, seed)
	if err != nil {
		return nil, err
	}
	plan := sample.Plan{Split: sample.RandomLinks, Later: true, Seed: seed}
	complete := plan
	complete.Log, complete.EveryShown = sample.Complete, true
	return append(out, refreshData{"shop", "mle", g, nil, plan},
		refreshData{"shop with a log", "mle", g, log, complete}), nil
}

// shopGraph returns the clicks of a shop as links, and what it showed.
func shopGraph(people, items int, seed uint64) (*graph.Graph, *sample.ExposureLog, error) {
	shop, err := world.NewShop(world.ShopSettings{People: people, Items: items, Impressions: 80, Segments: 4,
		Categories: 8, Seed: seed})
	if err != nil {
		return nil, nil, err
	}
	var b graph.Builder
	for i, p := range shop.People {
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint("u", i), Field: fmt.Sprint("segment ", p.Segment),
			Role: graph.SourceOnly}); err != nil {
			return nil, nil, err
		}
	}
	for j, item := range shop.Items {
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint("i", j), Field: fmt.Sprint("category ", item.Category),
			Role: graph.TargetOnly}); err != nil {
			return nil, nil, err
		}
	}
	log, seen := &sample.ExposureLog{}, map[[2]int]int{}
	for x := range shop.Shown {
		at := [2]int{x.Person, x.Item}
		row, known := seen[at]
		if !known {
			row, seen[at] = len(log.Source), len(log.Source)
			log.Source, log.Target = append(log.Source, int32(x.Person)), append(log.Target, int32(people+x.Item))
			log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, false)
		}
		if x.Clicked && !log.Linked[row] {
			log.Linked[row] = true
			if err := b.AddLinkAt(int32(x.Person), int32(people+x.Item), graph.NoTime); err != nil {
				return nil, nil, err
			}
		}
	}
	g, _, err := b.Build()
	return g, log, err
}

// without leaves out what is new.
func (d refreshData) without(seed uint64) refreshData {
	isNew := func(i, j int32) bool { return sample.Uniform(seed^0x4ef4, uint64(i), uint64(j)) < newLinks }
	all := d.graph
	d.graph = all.WithLinks(func(i int32, place int) bool { return !isNew(i, all.Out(i)[place]) })
	if d.log != nil {
		log := d.log
		d.log = &sample.ExposureLog{}
		for k, i := range log.Source {
			if !isNew(i, log.Target[k]) {
				d.log.Source, d.log.Target = append(d.log.Source, i), append(d.log.Target, log.Target[k])
				d.log.Exposed = append(d.log.Exposed, log.Exposed[k])
				d.log.Linked = append(d.log.Linked, log.Linked[k])
			}
		}
	}
	return d
}

// learned is a model and how long it took.
type learnedModel struct {
	problem sample.Problem
	model   model.Model
	seconds float64
	due     bool
}

// learn trains in full with a seed or, from an earlier model, refreshes that.
func (d refreshData) learn(ctx context.Context, seed uint64, from *model.Model) (*learnedModel, error) {
	d.plan.Seed = seed
	prepared, err := sample.Prepare(ctx, d.graph, sample.Options{Origin: sample.Origin{Plan: d.plan}, Log: d.log,
		Threads: 1})
	if err != nil {
		return nil, err
	}
	out := &learnedModel{problem: prepared.Problem}
	began := time.Now()
	var result *fit.Result
	if from == nil {
		result, err = fit.Fit(ctx, prepared.Problem, fit.Settings{Method: d.method, Seed: seed, Threads: 1})
	} else {
		result, err = fit.Refresh(ctx, prepared.Problem, fit.Earlier{Model: *from}, fit.Settings{Threads: 1})
	}
	if err != nil {
		return nil, err
	}
	out.seconds = time.Since(began).Seconds()
	out.due = result.Findings.Refresh != nil && result.Findings.Refresh.Due
	out.model, err = result.Model()
	return out, err
}

// try trains, refreshes and compares.
func (r *RefreshRow) try(ctx context.Context, d refreshData) error {
	before, err := d.without(r.Seed).learn(ctx, r.Seed, nil)
	if err != nil {
		return err
	}
	full, err := d.learn(ctx, r.Seed, nil)
	if err != nil {
		return err
	}
	other, err := d.learn(ctx, r.Seed+1000, nil)
	if err != nil {
		return err
	}
	file, err := before.model.File()
	if err != nil {
		return err
	}
	from, err := file.Model(full.problem.Nodes)
	if err != nil {
		return err
	}
	fresh, err := d.learn(ctx, r.Seed, &from)
	if err != nil {
		return err
	}
	r.Pairs, r.Full, r.Refresh, r.Due = full.problem.Train.Len(), full.seconds, fresh.seconds, fresh.due
	lists := make([][][]int32, 0, 6)
	published := func(m model.Model) model.Model { m.Members = nil; return m }
	for _, m := range []model.Model{full.model, fresh.model, from, other.model, published(full.model),
		published(fresh.model)} {
		of, err := topLists(ctx, d.graph, m)
		if err != nil {
			return err
		}
		lists = append(lists, of)
	}
	r.Agree, r.Stale, r.Other = agreement(lists[0], lists[1]), agreement(lists[0], lists[2]),
		agreement(lists[0], lists[3])
	r.Published = agreement(lists[4], lists[5])
	return nil
}

// topLists returns the lists of a model, as they would be shown, of sources that are evenly spaced.
func topLists(ctx context.Context, g *graph.Graph, m model.Model) ([][]int32, error) {
	r, err := recommend.New(g, m, recommend.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	sources := g.Sources()
	out := make([][]int32, min(refreshLists, len(sources)))
	for n := range out {
		list, err := r.Top(ctx, recommend.Query{Source: r.Node(sources[n*len(sources)/len(out)]),
			K: min(refreshLength, len(g.Targets())/4)})
		if errors.Is(err, recommend.ErrNothing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			out[n] = append(out[n], item.Node)
		}
	}
	return out, nil
}

// agreement is the mean share of a list that the other has too.
func agreement(a, b [][]int32) float64 {
	var same, all float64
	for n, list := range a {
		for _, j := range list {
			if all++; slices.Contains(b[n], j) {
				same++
			}
		}
	}
	return same / math.Max(all, 1)
}
