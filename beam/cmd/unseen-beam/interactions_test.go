package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/beam/shards"
	"unseen/dataset/exchange"
	"unseen/encode"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// TestFromTablesToLists goes from tables of people and items to lists, by bayes. Factors are refused by name.
func TestFromTablesToLists(t *testing.T) {
	work := t.TempDir()
	at := func(name string) string { return filepath.Join(work, name) }
	clicks, items, users := "user_id,item_id,timestamp\n", "item_id,category,title\n", "user_id,segment,about\n"
	var docs encode.TextList
	for i := range 60 {
		about := fmt.Sprintf("likes kind%d and color%d", i%4, i%7)
		users += fmt.Sprintf("p%d,segment %d,%s\n", i, i%2, about)
		title := fmt.Sprintf("kind%d color%d", i%4, i%5)
		items += fmt.Sprintf("i%d,category %d,%s\n", i, i%3, title)
		docs = append(docs, encode.Text{Title: about}, encode.Text{Title: title})
		for k := range 9 {
			clicks += fmt.Sprintf("p%d,i%d,%d\n", i, (i*5+k*(4+i%3))%60, 1_600_000_000+86_400*((i*37+k*101)%500))
		}
	}
	encoder, _, err := encode.Fit(context.Background(), docs, encode.Settings{Dim: 4})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(at("encoder.safetensors"))
	if err == nil {
		err = errors.Join(encoder.Write(file), file.Close())
	}
	for name, text := range map[string]string{"clicks.csv": clicks, "items.csv": items, "users.csv": users,
		"bad.csv": "user_id,item_id\na,b\na,\n"} {
		if err == nil {
			err = os.WriteFile(at(name), []byte(text), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	tables := []string{"import", "--from", "interactions", "--clicks", at("clicks.csv"), "--items", at("items.csv"),
		"--users", at("users.csv"), "--encoder", at("encoder.safetensors"), "--block", "50", "-o"}
	out, err := run(t, append(tables, at("shards"))...)
	if err != nil || !strings.Contains(out, "120 nodes in 3") {
		t.Fatalf("import: %q, %v", out, err)
	}
	out, err = run(t, append(tables, at("dates"), "--split", "link-date", "--validation-from", "2021-10-01",
		"--test-from", "2021-11-01", "--json")...)
	if err != nil || !strings.Contains(out, `"2021-11-01"`) {
		t.Errorf("import by date: %q, %v", out, err)
	}
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"--split", "link-date"}, "validation and test begin"},
		{[]string{"--split", "link-date", "--test-from", "2021"}, "--validation-from"},
		{[]string{"somewhere"}, "--clicks"},
		{[]string{"--clicks", at("bad.csv")}, "bad.csv, line 3: bad record: the item is empty; give every row a " +
			"person and an item; or set --lenient to skip such records"},
		{[]string{"--encoder="}, "or read no texts: set --"},
	} {
		if _, err := run(t, append(append(tables, at("never")), c.args...)...); err == nil ||
			!strings.Contains(err.Error(), c.words) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	out, err = run(t, "fit", at("shards"), "-o", at("model.safetensors"), "--method", "bayes", "--replicates", "2",
		"--exposure", "fields", "--quiet", "--json")
	var fitted fitReport
	if err == nil {
		err = json.Unmarshal([]byte(out), &fitted)
	}
	if err != nil || fitted.Method != "bayes" || fitted.Findings == nil {
		t.Fatalf("fit: %s, %v", out, err)
	}
	if out, err = run(t, "evaluate", at("model.safetensors"), at("shards")); err != nil ||
		!strings.Contains(out, "AUC") {
		t.Errorf("evaluate: %q, %v", out, err)
	}
	if out, err = run(t, "recommend", at("model.safetensors"), at("shards"), "-o", at("lists"), "-k",
		"3"); err != nil || !strings.Contains(out, "60 nodes") {
		t.Errorf("recommend: %q, %v", out, err)
	}
	factorsFromTables(t, at)
}

// factorsFromTables learns factors by mle, which is the default of people and items, and uses them.
func factorsFromTables(t *testing.T, at func(string) string) {
	t.Helper()
	out, err := run(t, "fit", at("shards"), "-o", at("factors.safetensors"), "--iterations", "3", "--quiet", "--json")
	var fitted fitReport
	if err == nil {
		err = json.Unmarshal([]byte(out), &fitted)
	}
	if err != nil || fitted.Method != "mle" || fitted.Iterations != 3 || fitted.Evaluations != 10 ||
		!(fitted.Objective > 0) || fitted.Findings == nil || fitted.Findings.Class != fit.NotIdentified ||
		len(fitted.Warnings) == 0 {
		t.Fatalf("fit factors: %s, %v", out, err)
	}
	if out, err = run(t, "evaluate", at("factors.safetensors"), at("shards"), "--exact", "--against",
		at("model.safetensors")); err != nil || !strings.Contains(out, "AUC") || !strings.Contains(out, "recall@100") ||
		!strings.Contains(out, "all pairs") {
		t.Errorf("evaluate factors: %q, %v", out, err)
	}
	if out, err = run(t, "recommend", at("factors.safetensors"), at("shards"), "-o", at("by-factors"), "-k",
		"3"); err != nil || !strings.Contains(out, "60 nodes") {
		t.Errorf("recommend by factors: %q, %v", out, err)
	}
	if out, err := run(t, "evaluate", at("factors.safetensors"), at("shards"), "--certify", "1", "--pairs", "900",
		"--quiet"); err != nil || !strings.Contains(out, "1 truth planted on these 120 nodes, mle reached") {
		t.Errorf("a certificate of factors: %q, %v", out, err)
	}
	for words, args := range map[string][]string{"diagonal": {"--method", "bayes", "--link", "factors"},
		"learned on one machine; use factors here": {"--method", "mle", "--link", "factors+bonus"},
		"is learned with factors on one machine":   {"--method", "mle", "--exposure", "fields+popularity"},
		"log what was shown, or use mle":           {"--method", "shown"},
		"--replicates is of bayes":                 {"--method", "mle", "--replicates", "3"},
		"--exposure is of bayes":                   {"--method", "mle", "--link", "diagonal", "--exposure", "fields"},
		"--ridge is 0":                             {"--method", "mle", "--ridge", "0"}} {
		args = append([]string{"fit", at("shards"), "-o", at("never"), "--quiet"}, args...)
		if _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestFromIdsToLists learns factors of clicks with nothing but ids, of which one row is bad, and holds them against one
// machine.
//
// Long because it goes through all commands.
func TestFromIdsToLists(t *testing.T) {
	ctx := context.Background()
	work := t.TempDir()
	at := func(name string) string { return filepath.Join(work, name) }
	clicks := "user_id,item_id\n"
	for i := range 50 {
		for k := range 8 {
			clicks += fmt.Sprintf("p%d,i%d\n", i, (i%3)*13+(i*5+k*(2+i%3))%17)
		}
	}
	if err := os.WriteFile(at("clicks.csv"), []byte(clicks+"p1,\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tables := []string{"import", "--from", "interactions", "--clicks", at("clicks.csv"), "--block", "30", "-o",
		at("shards")}
	if _, err := run(t, tables...); err == nil || !strings.Contains(err.Error(), "clicks.csv, line 402") ||
		!strings.Contains(err.Error(), "lenient") {
		t.Errorf("a bad row: %v", err)
	}
	out, err := run(t, append(tables, "--lenient")...)
	if err != nil || !strings.Contains(out, "nodes without vectors in 4 blocks") ||
		!strings.Contains(out, "1 bad row was left out:\n  "+at("clicks.csv")+", line 402: bad record: the item is") {
		t.Fatalf("a lenient import: %q, %v", out, err)
	}
	tables[len(tables)-1] = at("again")
	out, err = run(t, append(tables, "--lenient", "--json")...)
	var imported lenientImport
	if err == nil {
		err = json.Unmarshal([]byte(out), &imported)
	}
	if err != nil || imported.Nodes != 50+43 || imported.Bad.Count != 1 || imported.Bad.First[0].Line != 402 {
		t.Fatalf("a lenient import as JSON: %q, %v", out, err)
	}
	if _, err := exchange.Import(ctx, "interactions", at("dataset"), exchange.Options{Lenient: true,
		Flags: map[string]string{"clicks": at("clicks.csv")}}); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "import", at("dataset"), "-o", at("cut"), "--block", "30"); err != nil ||
		!strings.Contains(out, "without vectors") {
		t.Errorf("import of a dataset: %q, %v", out, err)
	}
	d, prepared, err := shards.Dataset(ctx, at("dataset"), func(g *graph.Graph) sample.Plan {
		plan, _ := sample.PlanFor(g)
		plan.Seed = 1
		return plan
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	one, err := fit.Fit(ctx, prepared.Problem, fit.Settings{Method: "mle", Ridge: factorRidge, Seed: 1,
		LBFGS: fit.LBFGSSettings{Iterations: 3}}.For(prepared.Problem.Nodes))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"shards", "cut"} {
		if _, err := run(t, "fit", at(place), "-o", at(place+".safetensors"), "--method", "mle", "--iterations", "3",
			"--quiet"); err != nil {
			t.Fatal(err)
		}
		file, err := model.Open(at(place + ".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := file.Model(prepared.Problem.Nodes)
		if err != nil || !slices.Equal(m.LinkParams, one.LinkParams) ||
			!slices.Equal(m.PropensityParams, one.PropensityParams) {
			t.Errorf("factors of %s are not those of one machine: %v", place, err)
		}
	}
	if out, err = run(t, "evaluate", at("shards.safetensors"), at("shards"), "--exact"); err != nil ||
		!strings.Contains(out, "recall@100") || strings.Contains(out, "NaN") {
		t.Errorf("evaluate: %q, %v", out, err)
	}
	if out, err = run(t, "recommend", at("shards.safetensors"), at("shards"), "-o", at("lists"), "-k",
		"3"); err != nil || !strings.Contains(out, "50 nodes") {
		t.Errorf("recommend: %q, %v", out, err)
	}
	for name, text := range map[string]string{"ratings.csv": clicks, "movies.csv": "movieId,title\ni1,one\n"} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run(t, "import", "--from", "interactions", "--clicks", at("ratings.csv"), "-o",
		at("never")); err == nil || !strings.Contains(err.Error(), "movies.csv, line 2 has a title") {
		t.Errorf("titles beside clicks, and no encoder: %v", err)
	}
	for _, c := range [][]string{{"fit", at("shards"), "-o", at("never"), "--method", "bayes"},
		{"index", at("shards")}} {
		if _, err := run(t, c...); err == nil || !strings.Contains(err.Error(), "have no vectors") {
			t.Errorf("%v: %v", c, err)
		}
	}
}
