package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/recommend"
)

// fitted is a small dataset with texts' vectors, and two models of it. They are made once; a test only reads them.
func fitted(t *testing.T) (dir, bayes, naive string) {
	t.Helper()
	racetest.Skip(t, "commands that read a model start no goroutine but those of the packages, which are tested there")
	folder, err := fittedFolder()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "papers"), filepath.Join(folder, "bayes.safetensors"),
		filepath.Join(folder, "naive.safetensors")
}

var fittedFolder = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "fitted")
	if err != nil {
		return "", err
	}
	leftBehind = append(leftBehind, folder)
	dir := filepath.Join(folder, "papers")
	if err := writePapers(context.Background(), dir, 1); err != nil {
		return "", err
	}
	for _, method := range []string{"bayes", "naive"} {
		if code, _, stderr := invoke("fit", dir, "--method", method, "-o",
			filepath.Join(folder, method+".safetensors"), "--quiet"); code != exitOK {
			return "", errors.New(stderr)
		}
	}
	return folder, nil
})

// Every flag that was renamed works under its old name, with one note on stderr, and help does not show it.
func TestOldFlags(t *testing.T) {
	t.Parallel()
	dir, bayes, naive := fitted(t)
	tried := map[string]bool{}
	for _, c := range []struct{ command, old, new string }{
		{"recommend " + bayes + " " + dir + " p7", "--by-seen --since 1990 --before 2030",
			"--seen --from 1990 --until 2030"},
		{"recommend " + bayes + " " + dir + " p7", "--only-field Art --only-field Biology",
			"--fields Art --fields Biology"},
		{"bridges " + bayes + " " + dir + " --naive " + naive, "--top 2", "--limit 2"},
		{"fit " + dir + " --method cosine", "--scheme field", "--negative-scheme field"},
	} {
		line := func(flags string) []string { return strings.Fields(c.command + " --quiet " + flags) }
		code, got, note := invoke(line(c.old)...)
		want := seconds.ReplaceAllString(well(t, line(c.new)...), "TIME")
		if got := seconds.ReplaceAllString(got, "TIME"); code != exitOK || got != want {
			t.Errorf("%s: exit %d\n%s\n%s\nwant %s", c.old, code, got, note, want)
		}
		name, _, _ := strings.Cut(c.command, " ")
		help := well(t, name, "--help")
		for word := range strings.FieldsSeq(c.old) {
			if !strings.HasPrefix(word, "--") {
				continue
			}
			tried[name+" "+word] = true
			if strings.Count(note, "unseen: "+word+" is deprecated; use --") != 1 {
				t.Errorf("%s: stderr %q", word, note)
			}
			if strings.Contains(help, word+" ") {
				t.Errorf("the help shows %s", word)
			}
		}
	}
	for _, cmd := range newRoot().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, old := f.Value.(*oldValue); old && !tried[cmd.Name()+" --"+f.Name] {
				t.Errorf("%s --%s is not tried", cmd.Name(), f.Name)
			}
		})
	}
}

func TestRecommend(t *testing.T) {
	t.Parallel()
	dir, bayes, naive := fitted(t)
	node := "p7"
	page := well(t, "recommend", bayes, dir, node, "p9", "--naive", naive, "--explain", "-k", "4", "--quiet")
	fits80(t, page)
	for _, says := range []string{"For p7", "For p9", "naive → now", "its logit z, the sum of", "the intercept",
		"π̂, the chance that", "hidden by exposure", "assumptions that explain the links have"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q:\n%s", says, page)
		}
	}
	fits80(t, well(t, "recommend", bayes, dir, node, "--naive", naive, "--compare", "--quiet"))
	fits80(t, well(t, "recommend", bayes, dir, node, "--explore", ".5", "--quiet"))
	var lists []*recommend.List
	decodeOne(t, well(t, "recommend", bayes, dir, node, "--json", "--quiet", "--seen", "-k", "3"), &lists)
	if len(lists) != 1 || len(lists[0].Items) != 3 || lists[0].Source.ID != node ||
		!strings.Contains(strings.Join(lists[0].Warnings, " "), "repeats past exposure") {
		t.Errorf("got %+v", lists)
	}
	decodeOne(t, well(t, "recommend", bayes, dir, node, "--json", "--quiet", "-k", "3"), &lists)
	if a := lists[0].Agreement; a == nil || a.Members < 2 || a.Of != 3 {
		t.Errorf("the assumptions agree on %+v", a)
	}
	rows, err := csv.NewReader(strings.NewReader(well(t, "recommend", bayes, dir, node, "--format", "csv", "--naive",
		naive, "--quiet"))).ReadAll()
	if err != nil || len(rows) != 11 || rows[0][0] != "source" || rows[1][0] != node {
		t.Errorf("%v: %v", err, rows)
	}
	for line := range strings.Lines(well(t, "recommend", bayes, dir, node, "--format", "jsonl", "--quiet")) {
		var row struct {
			Source, ID string
			Link       float64
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Source != node || row.ID == "" ||
			row.Link <= 0 {
			t.Errorf("%v in %s", err, line)
		}
	}
	if text := well(t, "recommend", bayes, dir, node, "--format", "ris", "-k", "2", "--quiet"); strings.Count(text,
		"TY  - GEN\r\n") != 2 || strings.Count(text, "ER  - ") != 2 {
		t.Errorf("RIS: %q", text)
	}
	if text := well(t, "recommend", bayes, dir, node, "p8", "--format", "bibtex", "-k", "400",
		"--quiet"); strings.Count(text, "@misc{p5,") > 1 || strings.Count(text, "{") != strings.Count(text, "}") {
		t.Errorf("BibTeX: %.300q", text)
	}
	// a model that knows exposure is no naive one, and two arguments may be in the wrong order
	if text := well(t, "recommend", bayes, dir, node, "--naive", bayes, "--quiet"); !strings.Contains(text,
		"is not naive") {
		t.Errorf("a bayes model passes for naive:\n%s", text)
	}
	if code, _, stderr := invoke("recommend", dir, bayes, node); code != exitUsage ||
		!strings.Contains(stderr, "name the model first") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	exclude := filepath.Join(t.TempDir(), "ids")
	if err := os.WriteFile(exclude, []byte(rows[1][2]+"\nnobody\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := well(t, "recommend", bayes, dir, node, "--exclude", exclude, "--format", "csv",
		"--quiet"); strings.Contains(text, ","+rows[1][2]+",") {
		t.Errorf("%s is there although it is excluded", rows[1][2])
	}
}

// A folder of lists is written part by part; what is there already is not made again, and is of one command only.
func TestRecommendAll(t *testing.T) {
	t.Parallel()
	dir, bayes, naive := fitted(t)
	out := filepath.Join(t.TempDir(), "lists")
	well(t, "recommend", bayes, dir, "--all", "-o", out, "--naive", naive, "-k", "5", "--quiet")
	part := filepath.Join(out, "part-00000.jsonl")
	raw, err := os.ReadFile(part)
	if err != nil || strings.Count(string(raw), "\n") != 400 {
		t.Fatalf("%v: %d lists", err, strings.Count(string(raw), "\n"))
	}
	var first struct {
		Source     string
		Targets    []string
		Links      []float64
		NaiveRanks []int
	}
	if err := json.Unmarshal([]byte(strings.SplitN(string(raw), "\n", 2)[0]), &first); err != nil ||
		len(first.Targets) != 5 || len(first.NaiveRanks) != 5 {
		t.Fatalf("%v: %+v", err, first)
	}
	var lists []*recommend.List
	decodeOne(t, well(t, "recommend", bayes, dir, first.Source, "-k", "5", "--json", "--quiet"), &lists)
	for k, item := range lists[0].Items {
		if item.ID != first.Targets[k] {
			t.Errorf("place %d is %s in the folder and %s alone", k+1, first.Targets[k], item.ID)
		}
	}
	if err := os.Remove(part); err != nil {
		t.Fatal(err)
	}
	var r batchResult
	decodeOne(t, well(t, "recommend", bayes, dir, "--all", "-o", out, "--naive", naive, "-k", "5", "--resume",
		"--json", "--quiet", "--threads", "1"), &r)
	if again, err := os.ReadFile(part); err != nil || string(again) != string(raw) || r.Resumed != 0 {
		t.Errorf("the part is another, or %d were there: %v", r.Resumed, err)
	}
	decodeOne(t, well(t, "recommend", bayes, dir, "--all", "-o", out, "--naive", naive, "-k", "5", "--resume",
		"--json", "--quiet"), &r)
	if r.Resumed != 1 {
		t.Errorf("%d parts were there", r.Resumed)
	}
	ids := filepath.Join(t.TempDir(), "ids")
	if err := os.WriteFile(ids, []byte("p3\np1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	some := filepath.Join(t.TempDir(), "some")
	well(t, "recommend", bayes, dir, "--nodes", ids, "-o", some, "--format", "csv", "--quiet")
	if raw, err := os.ReadFile(filepath.Join(some, "part-00000.csv")); err != nil ||
		!strings.HasPrefix(string(raw), "source,rank,target,link\np3,1,") {
		t.Errorf("%v: %.60q", err, raw)
	}
	for _, c := range []struct{ line, says string }{
		{"--all -o " + out, "holds lists already"},
		{"--all -k 6 --resume -o " + out, "another model, dataset or command"},
		{"--all --resume -o " + filepath.Join(some, "new"), "to continue; leave --resume out"},
		{"--all -o " + dir, "is not empty"},
		{"--all -o " + bayes, "is a file"},
		{"--all", "give a folder with -o"},
		{"--all --diversity .5 -o x", "take no filters"},
		{"--nodes " + bayes + " -o x", "bayes.safetensors, line"},
		{"--nodes nothere -o x", "cannot be read"},
	} {
		code, _, stderr := invoke(append([]string{"recommend", bayes, dir}, strings.Fields(c.line)...)...)
		if code == exitOK || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, stderr %q, want %q", c.line, code, stderr, c.says)
		}
	}
}

// Who leaves out the beginning of an id is shown the ids that end so.
func TestNearestIDs(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for _, id := range []string{"10.1000/a0001", "10.1000/a0002", "10.1000/a0003", "10.1000/b0004"} {
		if _, err := b.AddNode(graph.Node{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"B0004": "10.1000/b0004", "10.1000/a003": "10.1000/a0003"} {
		if names, alike := nearestIDs(g, id); !alike || names[0] != want {
			t.Errorf("%s: %v, %t; want %s first", id, names, alike, want)
		}
	}
	if names, alike := nearestIDs(g, "nobody"); alike || len(names) != 3 {
		t.Errorf("of nobody: %v, %t", names, alike)
	}
}

func TestRecommendRefuses(t *testing.T) {
	t.Parallel()
	dir, bayes, _ := fitted(t)
	other := papers(t, 3)
	for _, c := range []struct{ line, says string }{
		{dir + " p1 --naive " + bayes + "x", "no such file"},
		{other + " p1", "was fitted to another"},
		{dir + " p400000", "did you mean"},
		{dir + " 人人人人人人人人", "give an id such as p"},
		{dir, "no source"},
		{dir + " p1 --all -o x", "give one"},
		{dir + " p1 -k 0", "-k is 0"},
		{dir + " p1 -k 99999", "-k is 99999"},
		{dir + " p1 --compare", "give --naive"},
		{dir + " p1 --field x", "give --text"},
		{dir + " p1 --format pdf", "--format is"},
		{dir + " p1 --fields alchemy", `no field "alchemy"; there is`},
		{dir + " p1 --from never", "--from is"},
		{dir + " p1 --from 3000", "the filters leave none"},
		{dir + " p1 --diversity 3", "give one from 0 to 1"},
		{dir + " p1 --diversity .3 --explore .2", "give one of them"},
		{dir + " --text words", "no encoder is known"},
		{dir + " --text=", "--text is empty"},
		{dir + " p1 -o x", "-o is for --all"},
		{dir + " p1 --exclude nothere", "cannot be read"},
		{dir + " p1 --json --format csv", "exclude one another"},
		{dir + " p1 --explain --format csv", "cannot show --explain"},
		{dir + " p1 --compare --format ris --naive " + bayes, "cannot show --compare"},
	} {
		code, stdout, stderr := invoke(append([]string{"recommend", bayes}, strings.Fields(c.line)...)...)
		if code == exitOK || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", c.line, code, stdout, stderr, c.says)
		}
	}
}

func TestBridges(t *testing.T) {
	t.Parallel()
	dir, bayes, naive := fitted(t)
	out := filepath.Join(t.TempDir(), "bridges")
	page := well(t, "bridges", bayes, dir, "--naive", naive, "-o", out, "--quiet")
	fits80(t, strings.ReplaceAll(page, out, "bridges"))
	var found foundBridges
	decodeOne(t, well(t, "bridges", bayes, dir, "--naive", naive, "--json", "--quiet", "--threads", "1"), &found)
	if len(found.Bridges) != 6 || found.Bridges[0].Gap < found.Bridges[5].Gap || len(found.Bridges[0].Reading) == 0 ||
		len(found.Warnings) != 1 || !strings.Contains(found.Warnings[0], "the scale of π̂ is ") {
		t.Errorf("%+v", found)
	}
	raw, err := os.ReadFile(filepath.Join(out, "bridges.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
	if first := found.Bridges[0]; err != nil || len(rows) < 2 || rows[1][0] != first.Source ||
		rows[1][10] != first.Reading[0].ID {
		t.Errorf("%v: %v", err, rows[:min(2, len(rows))])
	}
	for _, name := range []string{"bridges.html", "bridges.jsonl", "bridges.bib", "bridges.ris"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := well(t, "bridges", bayes, dir, "--naive", bayes, "--quiet"); !strings.Contains(text,
		"is not naive") {
		t.Errorf("a bayes model passes for naive:\n%s", text)
	}
	for line, says := range map[string]string{
		"":                                  "--naive is missing",
		"--naive nothere":                   "there is no model nothere",
		"--naive " + dir:                    "is a folder",
		"--sources 0 --naive " + naive:      "--sources is 0",
		"--list 0 --naive " + naive:         "--list is 0",
		"--limit 0 --naive " + naive:        "--limit is 0",
		"-o " + bayes + " --naive " + naive: "cannot create the folder",
	} {
		code, stdout, stderr := invoke(append([]string{"bridges", bayes, dir, "--quiet"}, strings.Fields(line)...)...)
		if code == exitOK || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, stderr %q, want %q", line, code, stderr, says)
		}
	}
}
