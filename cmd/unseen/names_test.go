package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"

	"unseen/serve"
)

var (
	camelCase = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

// dataKeys are keys whose values are maps from names that are data: of files, digests, fields, settings, estimators.
var dataKeys = []string{"arms", "bias", "fields", "files", "models", "sources", "values"}

// wrongKeys lists the keys of a JSON document that are not in camelCase, with where they are.
func wrongKeys(at string, v any) (wrong []string) {
	switch v := v.(type) {
	case map[string]any:
		isData := slices.Contains(dataKeys, at[strings.LastIndexByte(at, '.')+1:])
		for key, value := range v {
			if !isData && !camelCase.MatchString(key) {
				wrong = append(wrong, at+"."+key)
			}
			wrong = append(wrong, wrongKeys(at+"."+key, value)...)
		}
	case []any:
		for _, value := range v {
			wrong = append(wrong, wrongKeys(at, value)...)
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// checkJSON fails for keys of one or more JSON documents that are not in camelCase.
func checkJSON(t *testing.T, from string, raw []byte) {
	t.Helper()
	documents := 0
	for d := json.NewDecoder(bytes.NewReader(raw)); ; documents++ {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			t.Errorf("%s: %v in %.200s", from, err, raw)
			return
		}
		if wrong := wrongKeys("", v); wrong != nil {
			t.Errorf("%s: keys that are not in camelCase: %s", from, strings.Join(wrong, " "))
		}
	}
	if documents == 0 {
		t.Errorf("%s: no JSON", from)
	}
}

// checkColumns fails for columns that are not in snake_case.
func checkColumns(t *testing.T, from string, columns []string) {
	t.Helper()
	if len(columns) == 0 {
		t.Errorf("%s: no columns", from)
	}
	for _, name := range columns {
		if !snakeCase.MatchString(name) {
			t.Errorf("%s: column %q is not in snake_case", from, name)
		}
	}
}

func checkCSV(t *testing.T, from string, raw []byte) {
	t.Helper()
	header, err := csv.NewReader(bytes.NewReader(raw)).Read()
	if err != nil {
		t.Errorf("%s: %v", from, err)
	}
	checkColumns(t, from, header)
}

// journalled is the JSON of a journal, which begins with its name and has a checksum before each line; other files are
// JSON as they are.
func journalled(raw []byte) []byte {
	head, rest, _ := bytes.Cut(raw, []byte("\n"))
	if !bytes.HasPrefix(head, []byte("unseen ")) {
		return raw
	}
	var lines []byte
	for line := range bytes.Lines(rest) {
		_, document, _ := bytes.Cut(line, []byte(" "))
		lines = append(lines, document...)
	}
	return lines
}

// checkFiles checks the names in every file below a folder: keys of JSON, columns of CSV and Parquet.
func checkFiles(t *testing.T, folder string) (checked map[string]int) {
	t.Helper()
	checked = map[string]int{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		switch kind := filepath.Ext(path); kind {
		case ".json", ".jsonl", ".log":
			if raw = journalled(raw); len(raw) == 0 && kind == ".log" {
				break // nothing was written yet
			}
			checkJSON(t, path, raw)
			checked[kind]++
		case ".csv":
			checkCSV(t, path, raw)
			checked[kind]++
		case ".parquet":
			file, err := parquet.OpenFile(bytes.NewReader(raw), int64(len(raw)))
			if err != nil {
				return err
			}
			var columns []string
			for _, c := range file.Root().Columns() {
				columns = append(columns, c.Name())
			}
			checkColumns(t, path, columns)
			checked[kind]++
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return checked
}

// One medium has one case: what every command prints with --json is in camelCase, and so are the JSON files that
// commands write; columns of CSV and Parquet are in snake_case. A command with --json that is not run here fails.
// Long because it is a table.
func TestNamesInOutputs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	home, given := t.TempDir(), t.TempDir()
	t.Cleanup(func() { // whatever failed before
		if checked := checkFiles(t, home); checked[".json"] < 10 || checked[".csv"] < 8 || checked[".parquet"] < 6 {
			t.Errorf("the commands wrote %v files", checked)
		}
	})
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(given, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(given, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range smallNetwork {
		write("raw/"+name, strings.ReplaceAll(text, "year", "year_of_issue"))
	}
	write("pairs.txt", "a b\nb c\n")
	write("clicks.csv", "user,item\nann,tea\nbob,rice\n")
	write("works.jsonl", `{"id":"https://openalex.org/W1","title":"A","publication_date":"2001-02-03"}`+"\n"+
		`{"id":"https://openalex.org/W2","title":"B","publication_date":"2002-02-03",`+
		`"referenced_works":["https://openalex.org/W1"]}`+"\n")
	write("s2/papers.jsonl", `{"corpusid":1,"title":"A","year":2001}`+"\n"+`{"corpusid":2,"title":"B","year":2002}`+
		"\n")
	write("s2/citations.jsonl", `{"citingcorpusid":2,"citedcorpusid":1}`+"\n")
	write("mag/Papers.txt", magPaper("1", "A")+magPaper("2", "B"))
	write("mag/PaperReferences.txt", "2\t1\n")
	ran := map[string]bool{}
	for _, line := range []string{
		"demo --papers 200 --out HOME/demo", "demo shop --people 60 --items 50 --out HOME/shopdemo",
		"check HOME/demo/dataset",
		"import csv GIVEN/raw -o HOME/csv --field-separator ; --time year_of_issue",
		"encode HOME/csv --dim 2",
		"export HOME/demo/dataset --to csv -o HOME/to-csv",
		"export HOME/demo/dataset --to jsonl -o HOME/to-jsonl",
		"export HOME/demo/dataset --to npz -o HOME/to-npz",
		"export HOME/demo/dataset --to parquet -o HOME/to-parquet",
		"import jsonl HOME/to-jsonl -o HOME/jsonl",
		"import interactions --clicks GIVEN/clicks.csv -o HOME/shop",
		"import npz HOME/to-npz -o HOME/npz",
		"import parquet HOME/to-parquet -o HOME/parquet",
		"import edges GIVEN/pairs.txt -o HOME/edges --nodes-from-links",
		"import openalex GIVEN/works.jsonl -o HOME/openalex",
		"import semantic-scholar GIVEN/s2 -o HOME/s2-out",
		"import mag GIVEN/mag -o HOME/mag-out",
		"fit HOME/demo/dataset -o HOME/fitted.safetensors --certify 1",
		"fit HOME/demo/dataset --method ap --search lambda-r=1,10",
		"index HOME/demo/dataset --model HOME/fitted.safetensors",
		"evaluate HOME/fitted.safetensors HOME/demo/dataset --against HOME/demo/naive.safetensors --exact " +
			"--by-fields --fairness -o HOME/evaluation.json",
		"recommend HOME/demo/model.safetensors HOME/demo/dataset p7 --naive HOME/demo/naive.safetensors --explain " +
			"--compare",
		"recommend HOME/demo/model.safetensors HOME/demo/dataset --all -o HOME/lists --format csv --naive " +
			"HOME/demo/naive.safetensors",
		"recommend HOME/demo/model.safetensors HOME/demo/dataset --all -o HOME/lines --format jsonl",
		"bridges HOME/demo/model.safetensors HOME/demo/dataset --naive HOME/demo/naive.safetensors -o HOME/bridges",
		"dial HOME/fitted.safetensors HOME/demo/dataset --diversity 0,1 --explore .1 -o HOME/dial.json",
		"export index HOME/demo/model.safetensors HOME/demo/dataset -o HOME/index",
		"generate HOME/raw --people 40 --items 20",
		"loop --papers 60 --rounds 2 --seeds 1",
		"study theory table2 --quick --seeds 1 --out HOME/results",
		"report HOME/results HOME/fitted.safetensors -o HOME/report.html",
		"serve token me --token-file HOME/tokens.json",
		"version",
	} {
		args := append(strings.Fields(strings.NewReplacer("HOME", home, "GIVEN", given).Replace(line)), "--json")
		cmd, _, err := newRoot().Find(args)
		if err != nil {
			t.Fatal(err)
		}
		if ran[cmd.CommandPath()] = true; cmd.Flags().Lookup("quiet") != nil {
			args = append(args, "--quiet")
		}
		checkJSON(t, line, []byte(well(t, args...)))
	}
	lists := well(t, "recommend", home+"/demo/model.safetensors", home+"/demo/dataset", "p7", "--format", "csv",
		"--naive", home+"/demo/naive.safetensors", "--quiet")
	checkCSV(t, "recommend --format csv", []byte(lists))
	checkRoutes(t, serve.Options{Dataset: home + "/demo/dataset", Model: home + "/fitted.safetensors",
		Naive: home + "/demo/naive.safetensors", State: home + "/state"})
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Flags().Lookup("json") != nil && !ran[c.CommandPath()] {
			t.Errorf("%s has --json, and it is not run here", c.CommandPath())
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(newRoot())
}

// magPaper is a row of the table Papers.
func magPaper(id, title string) string {
	row := make([]string, 25)
	row[0], row[4], row[5], row[7], row[8] = id, title, title, "2001", "2001-02-03"
	return strings.Join(row, "\t") + "\n"
}

// checkRoutes asks for every operation of a service and checks the names in what it answers.
// Long because it is a table.
func checkRoutes(t *testing.T, o serve.Options) {
	t.Helper()
	s, err := serve.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	ask := func(method, path, body string) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		w, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		raw, err := io.ReadAll(w.Body)
		if err != nil || w.StatusCode >= 300 {
			t.Errorf("%s %s: %v, %d %s", method, path, err, w.StatusCode, raw)
		}
		return raw
	}
	job := func(body string) serve.Job {
		t.Helper()
		var j serve.Job
		raw := ask("POST", "/api/v1/jobs", body)
		checkJSON(t, "POST /api/v1/jobs", raw)
		if err := json.Unmarshal(raw, &j); err != nil {
			t.Fatal(err)
		}
		if j, err = s.WaitJob(t.Context(), j.ID); err != nil || j.Model == "" {
			t.Fatalf("%v, %s", err, j.Error)
		}
		return j
	}
	_, first := s.Current()
	second := job(`{"kind":"retrain","method":"naive","trainOnly":true}`).Model
	job(`{"kind":"evaluate"}`)
	found, err := s.Bridges(t.Context())
	if err != nil || len(found.Bridges) == 0 {
		t.Fatalf("%v, %+v", err, found)
	}
	reading := "/api/v1/bridges/reading?source=" + strings.ReplaceAll(found.Bridges[0].Source, " ", "%20") +
		"&target=" +
		strings.ReplaceAll(found.Bridges[0].Target, " ", "%20")
	checkCSV(t, reading, ask("GET", reading, ""))
	stream := string(ask("GET", "/api/v1/jobs/1/progress", ""))
	_, event, _ := strings.Cut(stream, "data: ")
	checkJSON(t, "progress", []byte(event))
	var last serve.Job
	for range 3 { // while the first runs, the last can be cancelled
		if err := json.Unmarshal(ask("POST", "/api/v1/jobs", `{"kind":"evaluate"}`), &last); err != nil {
			t.Fatal(err)
		}
	}
	checkJSON(t, "DELETE /api/v1/jobs", ask("DELETE", "/api/v1/jobs/"+last.ID, ""))
	test := `{"model":"` + second + `","share":0.5}`
	asked := map[string]bool{"POST /api/v1/jobs": true, "GET /api/v1/bridges/reading": true,
		"GET /api/v1/jobs/{id}/progress": true, "DELETE /api/v1/jobs/{id}": true}
	for _, c := range []struct{ pattern, path, body string }{
		{"GET /api/v1/overview", "", ""},
		{"GET /api/v1/nodes", "?q=p&limit=2", ""},
		{"GET /api/v1/nodes/{id}", "/p7", ""},
		{"PUT /api/v1/nodes", "", `{"nodes":[{"id":"p9","title":"a title"}]}`},
		{"PATCH /api/v1/nodes", "", `{"nodes":[{"id":"p9","title":"another"}]}`},
		{"PUT /api/v1/nodes/{id}", "/p9", `{"title":"a title"}`},
		{"PATCH /api/v1/nodes/{id}", "/p9", `{"title":"another","links":["p1"]}`},
		{"DELETE /api/v1/nodes", "?id=p6", ""},
		{"DELETE /api/v1/nodes/{id}", "/p8", ""},
		{"GET /api/v1/forgotten", "", ""},
		{"GET /api/v1/recommendations", "?node=p7&explain=true&compare=true", ""},
		{"POST /api/v1/recommendations", "", `{"node":"p7","log":true,"explain":true}`},
		{"POST /api/v1/events", "", `{"events":[{"id":"e1","kind":"clicked","source":"p7","target":"p9"}]}`},
		{"GET /api/v1/events", "", ""},
		{"GET /api/v1/nodes/{id}/events", "/p7/events", ""},
		{"GET /api/v1/model", "", ""},
		{"GET /api/v1/models", "", ""},
		{"GET /api/v1/bridges", "", ""},
		{"GET /api/v1/loop", "", ""},
		{"GET /api/v1/loop/simulation", "?rounds=2", ""},
		{"GET /api/v1/jobs", "", ""},
		{"GET /api/v1/jobs/{id}", "/1", ""},
		{"GET /api/v1/jobs/{id}/curve", "/1/curve", ""},
		{"PUT /api/v1/ab-test", "", test}, {"GET /api/v1/ab-test", "", ""}, {"DELETE /api/v1/ab-test", "", ""},
		{"PUT /api/v1/trial", "", test}, {"GET /api/v1/trial", "", ""}, {"DELETE /api/v1/trial", "", ""},
		{"POST /api/v1/models/{digest}/deploy", "/" + second + "/deploy", ""},
		{"POST /api/v1/models/rollback", "", ""},
		{"POST /api/v1/models/{digest}/serve", "/" + first + "/serve", ""},
	} {
		method, path, _ := strings.Cut(c.pattern, " ")
		if base, _, has := strings.Cut(path, "/{"); has {
			path = base
		}
		checkJSON(t, c.pattern, ask(method, path+c.path, c.body))
		asked[c.pattern] = true
	}
	var api struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(ask("GET", "/openapi.json", ""), &api); err != nil || len(api.Paths) < 15 {
		t.Fatalf("%v, %d paths", err, len(api.Paths))
	}
	for path, methods := range api.Paths {
		for method := range methods {
			if pattern := strings.ToUpper(method) + " " + path; !asked[pattern] {
				t.Errorf("%s is not asked for here", pattern)
			}
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/nodes", http.NoBody)) // from another machine
	checkJSON(t, "an error", w.Body.Bytes())
}

// The checks see names in another case, also deep in a document, and let names be that are data.
func TestNamesSees(t *testing.T) {
	t.Parallel()
	var v any
	if err := json.Unmarshal([]byte(`{"good":[{"meanLink":1,"mean_link":2,"files":{"a/b_c.npy":{"Bad":1}}}]}`),
		&v); err != nil {
		t.Fatal(err)
	}
	if got := wrongKeys("", v); !slices.Equal(got, []string{".good.files.a/b_c.npy.Bad", ".good.mean_link"}) {
		t.Errorf("%q", got)
	}
	for name, good := range map[string]bool{"mean_link": true, "p25": true, "meanLink": false, "Mean": false,
		"a__b":      false,
		"mean link": false} {
		if snakeCase.MatchString(name) != good {
			t.Errorf("%q", name)
		}
	}
}
