package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"unseen/dataset"
	"unseen/network"
	"unseen/recommend"
	"unseen/serve/store"
)

// shownTable is a table of lists with one of two items, drawn evenly; b has more outcomes, and the column better shows
// it more often.
func shownTable(rows int) string {
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("context,item,place,probability,outcome,better,worse,same\n")
	for n := range rows {
		item, chance, better := "a", .1, .2
		if rng.IntN(2) == 1 {
			item, chance, better = "b", .4, .8
		}
		outcome := 0
		if rng.Float64() < chance {
			outcome = 1
		}
		fmt.Fprintf(&b, "reader%d,%s,1,.5,%d,%v,%.1f,.5\n", n, item, outcome, better, 1-better)
	}
	return b.String()
}

// policyJSON is what the tests read of the value of a policy.
type policyJSON struct {
	Policy, Verdict, Reason, Message, Probability string
	Lists, Contexts, Items                        int
	Effective, Support                            float64
	Estimates                                     []struct {
		Name         string
		Estimate     float64
		Lower, Upper float64
	}
	Warnings []string
}

func valued(t *testing.T, args ...string) (v policyJSON) {
	t.Helper()
	out := well(t, append([]string{"evaluate", "--quiet", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

// A policy is a column of an open table, in every format.
func TestEvaluatePolicyByColumn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	table := shownTable(2000)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	type shown struct {
		Context     string  `parquet:"context"`
		Item        string  `parquet:"item"`
		Place       int32   `parquet:"place"`
		Probability float64 `parquet:"probability"`
		Outcome     bool    `parquet:"outcome"`
		Better      float64 `parquet:"better"`
	}
	var objects strings.Builder
	var rows []shown
	for _, line := range lines[1:] {
		c := strings.Split(line, ",")
		fmt.Fprintf(&objects, `{"context":%q,"item":%q,"place":1,"probability":0.5,"outcome":%s,"better":%s}`+"\n",
			c[0], c[1], c[4], c[5])
		better := .2
		if c[1] == "b" {
			better = .8
		}
		rows = append(rows, shown{c[0], c[1], 1, .5, c[4] == "1", better})
	}
	path := func(name string) string { return filepath.Join(folder, name) }
	for name, content := range map[string]string{"shown.csv": table, "shown.jsonl": objects.String()} {
		if err := os.WriteFile(path(name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := parquet.WriteFile(path("shown.parquet"), rows); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shown.csv", "shown.jsonl", "shown.parquet"} {
		v := valued(t, "--log", path(name), "--policy", "column:better")
		if v.Verdict != "better" || v.Lists != 2000 || v.Contexts != 2000 || len(v.Estimates) != 3 ||
			v.Probability != "place" || !strings.HasPrefix(v.Message, "column:better is better than what") {
			t.Errorf("%s: %+v", name, v)
		}
		for _, e := range v.Estimates {
			if e.Lower > .34 || e.Upper < .34 {
				t.Errorf("%s: %s is from %v to %v, the truth is .34", name, e.Name, e.Lower, e.Upper)
			}
		}
	}
	if v := valued(t, "--log", path("shown.csv"), "--policy", "column:worse"); v.Verdict != "worse" {
		t.Errorf("%+v", v)
	}
	v := valued(t, "--log", path("shown.csv"), "--policy", "column:same")
	if v.Verdict != "not known" || v.Reason != "" {
		t.Errorf("%+v", v)
	}
	text := well(t, "evaluate", "--quiet", "--log", path("shown.csv"), "--policy", "column:better")
	for _, says := range []string{"column:better by the log shown.csv", "what the log did", "SNIPS",
		"bounded DR less the log",
		"Effective contexts", "column:better is better than what the log did: +"} {
		if !strings.Contains(text, says) {
			t.Errorf("%q is missing in:\n%s", says, text)
		}
	}
	few := path("few.csv")
	if err := os.WriteFile(few, []byte(strings.Join(lines[:60], "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	if v := valued(t, "--log", few, "--policy", "column:better"); v.Verdict != "not known" || v.Estimates != nil ||
		!strings.Contains(v.Reason, "it takes 100") {
		t.Errorf("%+v", v)
	}
}

// loggedBy fits a naive model and has lists of it logged beside it.
func loggedBy(t *testing.T, dir, path string, show func(*recommend.Recommender, store.Store)) {
	t.Helper()
	well(t, "fit", dir, "--method", "naive", "--doctor", "quick", "--quiet", "-o", path)
	n, err := network.Open(t.Context(), dir, dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	m, err := n.Model(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Recommender(t.Context(), nil, recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.Open(t.Context(), filepath.Join(filepath.Dir(path), "events.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	show(r, log)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// The log of a service, by a model that explores a lot, says that the same model is better when it explores less.
func TestEvaluatePolicyByEvents(t *testing.T) {
	t.Parallel()
	dir, folder := papers(t, 3), t.TempDir()
	path := filepath.Join(folder, "model.safetensors")
	var table string
	loggedBy(t, dir, path, func(r *recommend.Recommender, log store.Store) { table = logLists(t, r, log) })
	v := valued(t, dir, "--log", folder, "--policy", path)
	if v.Verdict != "better" || v.Lists != 1200 || v.Contexts != 390 || v.Items != 4800 || v.Probability != "list" ||
		v.Support < .9 || v.Support > 1.1 {
		t.Errorf("%+v", v)
	}
	all := strings.Join(v.Warnings, "\n")
	if !strings.Contains(all, "1 of 1,201 lists have items of unknown probability") ||
		!strings.Contains(all, "1 event names no source") ||
		!strings.Contains(all, "how often readers look at the places of 1,200 of 1,200 lists is not known") {
		t.Errorf("warnings: %q", v.Warnings)
	}
	// the same log as a table
	shown := filepath.Join(folder, "shown.csv")
	if err := os.WriteFile(shown, []byte(table), 0o666); err != nil {
		t.Fatal(err)
	}
	same := valued(t, dir, "--log", shown, "--policy", path, "--probability", "list")
	if len(same.Estimates) != 3 || same.Estimates[2] != v.Estimates[2] {
		t.Errorf("%+v by the table, %+v by the events", same, v)
	}
	// its places follow from its items, so that a policy that explores less puts some where the log never does
	placed := valued(t, dir, "--log", folder, "--policy", path, "--probability", "place")
	if placed.Probability != "place" || placed.Lists != 1200 || placed.Support >= v.Support {
		t.Errorf("by place %+v, by list %+v", placed, v)
	}
	for _, rule := range []string{"popular", "uniform"} {
		v := valued(t, dir, "--log", folder, "--policy", rule, "--examination", "1,.7,.5")
		if v.Policy != rule || v.Effective == 0 {
			t.Errorf("%s: %+v", rule, v)
		}
	}
}

// How often readers look at places is learned from lists in any order, and the value of a policy that has the best
// first, where the log has them last, is right with it; where places count alike it is not.
func TestEvaluatePolicyLearnsPlaces(t *testing.T) {
	t.Parallel()
	dir, folder := papers(t, 3), t.TempDir()
	path := filepath.Join(folder, "model.safetensors")
	var truth float64
	loggedBy(t, dir, path, func(r *recommend.Recommender, log store.Store) { truth = logReversed(t, r, log) })
	of := func(flags ...string) (value, error float64) {
		v := valued(t, append([]string{dir, "--log", folder, "--policy", path, "--explore", "0"}, flags...)...)
		if len(v.Estimates) != 3 {
			t.Fatalf("%+v", v)
		}
		e := v.Estimates[2]
		return e.Estimate, (e.Upper - e.Lower) / 4
	}
	learned, unsure := of()
	alike, sure := of("--examination", "1")
	t.Logf("%.3f ± %.3f, in truth %.3f; %.3f ± %.3f if places are alike", learned, unsure, truth, alike, sure)
	if math.Abs(learned-truth) > 3*unsure || math.Abs(alike-truth) < 4*sure {
		t.Errorf("%v with what was learned of places, %v without, in truth %v", learned, alike, truth)
	}
}

// logReversed logs lists of two of the eight best items, the better last but in half of the lists, to readers who look
// at every first item and one second item in four. It returns what the two best are worth, the best first.
func logReversed(t *testing.T, r *recommend.Recommender, log store.Store) (truth float64) {
	t.Helper()
	const sources, rounds, look = 390, 6, .25
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range int32(sources) {
		best, err := r.Top(t.Context(), recommend.Query{Source: r.Node(i), K: 8})
		if err != nil || len(best.Items) != 8 {
			t.Fatalf("%v: %+v", err, best)
		}
		wants := func(at int) float64 { return .7 - .08*float64(at) }
		truth += (wants(0) + look*wants(1)) / (2 * sources)
		for round := range rounds {
			chosen := rng.Perm(8)[:2]
			placed := .25
			if rng.Float64() < .5 {
				slices.SortFunc(chosen, func(a, b int) int { return b - a })
			}
			if chosen[0] > chosen[1] {
				placed = .75
			}
			var events []store.LogEvent
			for place, at := range chosen {
				e := store.LogEvent{ID: fmt.Sprintf("%d.%d.%d", i, round, at), Kind: store.Shown,
					Source: r.Graph().ID(i), Target: best.Items[at].ID, List: fmt.Sprintf("%d.%d", i, round),
					Position: place + 1, Probability: .25, Placed: placed}
				events = append(events, e)
				if chance := wants(at); place == 0 && rng.Float64() < chance ||
					place == 1 && rng.Float64() < look*chance {
					e.ID, e.Kind = e.ID+"c", store.Clicked
					events = append(events, e)
				}
			}
			if _, err := log.Append(t.Context(), events); err != nil {
				t.Fatal(err)
			}
		}
	}
	return truth
}

// logLists logs 1,200 lists by a model that explores much, and two that cannot be used, and returns them as a table.
func logLists(t *testing.T, r *recommend.Recommender, log store.Store) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	var table strings.Builder
	table.WriteString("source,list,target,position,probability,clicked\n")
	for k := range 1200 {
		i := int32(k % 390)
		list, err := r.Top(t.Context(), recommend.Query{Source: r.Node(i), K: 4, Explore: .8, Seed: uint64(k)})
		if err != nil {
			t.Fatal(err)
		}
		var events []store.LogEvent
		for rank, item := range list.Items {
			e := store.LogEvent{ID: fmt.Sprintf("%d.%d", k, rank), Kind: store.Shown, Source: r.Graph().ID(i),
				Target: item.ID, Probability: item.Shown, List: fmt.Sprint(k), Position: rank + 1, Placed: 1}
			events = append(events, e)
			clicked := rng.Float64() < .05+.9*item.Link
			if clicked {
				e.ID, e.Kind, e.Probability = e.ID+"c", store.Clicked, 0
				events = append(events, e)
			}
			fmt.Fprintf(&table, "%s,%d,%s,%d,%v,%v\n", e.Source, k, item.ID, rank+1, item.Shown, clicked)
		}
		if _, err := log.Append(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	strange := []store.LogEvent{
		{ID: "x", Kind: store.Shown, Source: "nobody", Target: "nothing", List: "x", Probability: 1},
		{ID: "y", Kind: store.Shown, Source: r.Graph().ID(3), Target: r.Graph().ID(4), List: "y"}}
	if _, err := log.Append(t.Context(), strange); err != nil {
		t.Fatal(err)
	}
	return table.String()
}

func TestEvaluatePolicyWrongUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "context,item,place,probability,outcome,t\n"
	good := write("good.csv", head+"a,x,1,.5,1,.5\n")
	column := func(name, content string) string {
		return "--log " + write(name, content) + " --policy column:t"
	}
	for line, says := range map[string]string{
		"m d --policy popular":                         "--policy is about a policy that a log values; give --log too",
		"--log " + good:                                "name the dataset",
		"d --log " + good:                              "--policy is missing",
		"d e --log x --policy popular":                 "name the dataset",
		"d --log x --policy column:t":                  "needs no dataset",
		"--log x --policy column:":                     "--policy is missing",
		"d --log x --policy popular --k -1":            "--k is -1",
		"d --log x --policy popular --explore 2":       "--explore is 2",
		"d --log x --policy popular --rank 3":          "--rank and --log",
		"d --log x --policy popular --examination 1,0": "0 for place 2",
		"d --log x --policy popular --probability odd": "give list or place",
		"--log /nowhere --policy column:t":             "there is no log /nowhere",
		"--log " + good + " --policy column:u":         "no column \"u\"",
		"--log " + good + " --policy column:t":         "the lists are of 1 contexts",
		column("b.csv", "t,b\n1,2\n"):                  "name the columns context, item, place",
		column("p.csv", head+"a,x,1,1.5,1,.5\n"):       "p.csv, line 2: bad record: shown with",
		column("z.csv", head+"a,x,1,0,1,.5\n"):         "probability 0; give a probability above",
		column("o.csv", head+"a,x,1,.5,.7,.5\n"):       "o.csv, line 2: the outcome",
		column("l.csv", head+"a,x,0,.5,1,.5\n"):        "count places from 1",
		column("t.csv", head+"a,x,1,.5,1,\n"):          "the policy shows it with",
		column("e.csv", head+",x,1,.5,1,.5\n"):         "the context is empty",
		column("n.csv", head+"a,x,1,none,1,.5\n"):      "n.csv, line 2: bad record: \"none\"",
	} {
		code, out, err := invoke(append([]string{"evaluate", "--quiet"}, strings.Fields(line)...)...)
		if code == exitOK || out != "" || !strings.Contains(err, says) || strings.Count(err, "\n") != 1 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want one line that says %q", line, code, out, err, says)
		}
	}
}
