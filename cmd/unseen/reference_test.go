package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"unseen/serve"
)

// The references are written by the program itself. After a change of commands or of the API:
//
//	go test ./cmd/unseen -run Reference -update-docs
func compareReference(t *testing.T, path, want string) {
	t.Helper()
	if *updateDocs {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n"), strings.Split(want, "\n")
	for k := range min(len(got), len(wanted)) {
		if got[k] != wanted[k] {
			t.Fatalf("%s, line %d has %q where there should be %q; run go test ./cmd/unseen -run Reference "+
				"-update-docs", path, k+1, got[k], wanted[k])
		}
	}
	if len(got) != len(wanted) {
		t.Fatalf("%s has %d lines where there should be %d; run go test ./cmd/unseen -run Reference -update-docs",
			path, len(got), len(wanted))
	}
}

const generated = "\n<!-- Written by go test ./cmd/unseen -run Reference -update-docs; do not edit. -->\n"

func TestReferenceCLI(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString(`# The command line
` + generated + `
What ` + "`unseen help COMMAND`" + ` prints, for every command. Results go to stdout, progress and errors to stderr;
an error is one line that says what to do. Exit codes: 0 done, 1 failed, 2 wrong command line. ` + "`--json`" + `
prints one document. With ` + "`UNSEEN_PROGRESS=json`" + ` in the environment every line of stderr is a JSON object, for
programs that run unseen: ` + "progress (`phase`, `done`, `of`), a `note`, or at last an `error` with its `hint`." + `

`)
	root := newRoot()
	var commands []*cobra.Command
	var gather func(*cobra.Command)
	gather = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() && below.Name() != "help" {
				commands = append(commands, below)
				gather(below)
			}
		}
	}
	gather(root)
	page.WriteString("| command | does |\n|---|---|\n")
	for _, c := range commands {
		fmt.Fprintf(&page, "| [%s](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"),
			cell(c.Short))
	}
	for _, c := range commands {
		code, help, stderr := invoke(append([]string{"help"}, strings.Fields(c.CommandPath())[1:]...)...)
		if code != exitOK {
			t.Fatalf("help %s: %s", c.CommandPath(), stderr)
		}
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n", c.CommandPath(), strings.TrimRight(help, "\n"))
	}
	compareReference(t, "../../docs/cli.md", page.String())
}

// openAPI is as much of the service's description as the reference shows.
type openAPI struct {
	Info struct {
		Version     string
		Description string
	}
	Paths      map[string]map[string]apiOperation
	Components struct{ Schemas map[string]apiSchema }
}

type apiOperation struct {
	OperationID string
	Summary     string
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                apiSchema
	}
	RequestBody *struct{ Content map[string]apiContent }
	Responses   map[string]struct{ Content map[string]apiContent }
	Security    []map[string][]string
}

type apiContent struct{ Schema apiSchema }

type apiSchema struct {
	Ref         string `json:"$ref"`
	Type        any
	Format      string
	Description string
	Enum        []any
	Default     any
	Minimum     *float64
	Maximum     *float64
	MaxLength   *int
	Items       *apiSchema
	Additional  any `json:"additionalProperties"`
	Properties  map[string]apiSchema
	Required    []string
	Deprecated  bool
}

// words says of what kind a value is, with links to schemas.
func (s apiSchema) words() string {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	kind := fmt.Sprint(s.Type)
	if kinds, ok := s.Type.([]any); ok {
		kind = ""
		for _, one := range kinds {
			if one != "null" {
				kind = fmt.Sprint(one)
			}
		}
	}
	switch {
	case kind == "array" && s.Items != nil:
		return "list of " + s.Items.words()
	case kind == "object":
		if values, ok := s.Additional.(map[string]any); ok {
			raw, err := json.Marshal(values)
			var of apiSchema
			if err == nil && json.Unmarshal(raw, &of) == nil {
				return "map to " + of.words()
			}
		}
		return "object"
	case kind == "<nil>" || kind == "":
		return "any"
	}
	if s.Format == "date-time" {
		kind = "time"
	}
	return kind
}

// limits says what a value may be.
func (s apiSchema) limits() string {
	var parts []string
	if len(s.Enum) > 0 {
		var names []string
		for _, e := range s.Enum {
			names = append(names, fmt.Sprint(e))
		}
		parts = append(parts, strings.Join(names, ", "))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		parts = append(parts, fmt.Sprintf("%s to %s", limit(*s.Minimum), limit(*s.Maximum)))
	case s.Minimum != nil:
		parts = append(parts, "at least "+limit(*s.Minimum))
	case s.Maximum != nil:
		parts = append(parts, "at most "+limit(*s.Maximum))
	}
	if s.MaxLength != nil {
		parts = append(parts, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("default %v", s.Default))
	}
	return strings.Join(parts, "; ")
}

// limit formats a number without an exponent.
func limit(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`), "\n", " ")
}

func row(page *strings.Builder, name, kind, text, limits string) {
	if limits != "" {
		text = strings.TrimSpace(text + " (" + limits + ")")
	}
	fmt.Fprintf(page, "| `%s` | %s | %s |\n", name, kind, cell(text))
}

func TestReferenceAPI(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	folder := t.TempDir()
	if code, _, stderr := invoke("demo", "--papers", "200", "--quiet", "--out", folder); code != exitOK {
		t.Fatal(stderr)
	}
	service, err := serve.Open(t.Context(), serve.Options{Folder: folder, State: filepath.Join(folder, "state"),
		Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	answer := httptest.NewRecorder()
	service.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/openapi.json", nil))
	var api openAPI
	if err := json.Unmarshal(answer.Body.Bytes(), &api); err != nil || answer.Code != 200 {
		t.Fatalf("%d, %v", answer.Code, err)
	}
	compareReference(t, "../../docs/api.md", apiPage(api))
}

// apiNames is the vocabulary that the API shares with the command line and with files.
const apiNames = `
## Names

One thing has one name: in query parameters and JSON in camelCase, on the command line in kebab-case, in columns of CSV
and Parquet in snake_case.

| meaning | API | command line | column |
|---|---|---|---|
| ŷ, the chance of a link if shown | 'link' | | 'link' |
| π̂, the chance of having been shown so far | 'propensity' | | 'propensity' |
| chance that a list has an item; the 'probability' of its shown event | 'shown' | | 'shown' |
| rank by ŷ among all candidates | 'correctedRank' | | 'corrected_rank' |
| rank by the naive model | 'naiveRank' | | 'naive_rank' |
| number of items in a list | 'k' | '-k' | |
| field of a new text | 'field' | '--field' | |
| only targets of these fields | 'fields' | '--fields' | |
| only targets from a day on, and before a day | 'from', 'until' | '--from', '--until' | |
| rank by π̂ŷ, which repeats past exposure | 'seen' | '--seen' | |
| include targets that are linked already; leave out ids | 'linked', 'exclude' | '--linked', '--exclude' | |
| re-rank so that no two are alike | 'diversity' | '--diversity' | |
| draw a share of the positions; seed of the draw | 'explore', 'seed' | '--explore', '--seed' | |
| add the naive list; add reasons | 'compare', 'explain' | '--compare', '--explain' | |
| nodes of each field to look at | 'sources' | '--sources' | |
| pairs of a reading list; number of bridges | 'list', 'limit' | '--list', '--limit' | |
| the two nodes of a pair | 'source', 'target' | | 'source', 'target' |
| doubts about a result | 'warnings' | | |
| train without deploying | 'trainOnly' | | |
| A/B test | 'abTest', '/api/v1/ab-test' | | |

## Operations
`

// apiPage is the reference of the API: operations by their path, then what bodies are made of.
func apiPage(api openAPI) string {
	var page strings.Builder
	fmt.Fprintf(&page, strings.ReplaceAll(`# API reference, version %s
%s
%s

A running service shows this reference at '/docs' and serves it as an OpenAPI document at '/openapi.json'.
[The guide](service.md) has requests to copy. Errors are RFC 9457 documents with a hint
([Problem](#problem)); a response with 429 or 503 has 'Retry-After'. The scope is what a token needs, if the service has
tokens. The name is that of the function in a client that a generator makes of the document, and the operation in
metrics and logs. Deprecated names are accepted for one version.
%s
| operation | purpose | name | scope |
|---|---|---|---|
`, "'", "`"), api.Info.Version, generated, api.Info.Description, strings.ReplaceAll(apiNames, "'", "`"))
	type entry struct {
		method, path string
		apiOperation
	}
	var all []entry
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if op, ok := api.Paths[path][method]; ok {
				all = append(all, entry{strings.ToUpper(method), path, op})
			}
		}
	}
	for _, op := range all {
		title := op.method + " " + op.path
		anchor := strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s | `%s` | %s |\n", title, anchor, cell(op.Summary), op.OperationID,
			op.scope())
	}
	page.WriteString("\n# Requests\n")
	for _, op := range all {
		fmt.Fprintf(&page, "\n## %s %s\n\n", op.method, op.path)
		op.describe(&page)
	}
	apiObjects(&page, api)
	return page.String()
}

// describe says what an operation takes and answers.
func (op apiOperation) describe(page *strings.Builder) {
	fmt.Fprintf(page, "%s.\n", strings.TrimSuffix(op.Summary, "."))
	if len(op.Parameters) > 0 {
		page.WriteString("\n| parameter | type | meaning |\n|---|---|---|\n")
		for _, p := range op.Parameters {
			kind := p.Schema.words() + ", " + p.In
			if p.Required {
				kind += ", required"
			}
			row(page, p.Name, kind, p.Description, p.Schema.limits())
		}
	}
	if op.RequestBody != nil {
		for _, of := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			fmt.Fprintf(page, "\nBody: %s (%s).\n", op.RequestBody.Content[of].Schema.words(), of)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		for _, of := range slices.Sorted(maps.Keys(op.Responses[status].Content)) {
			s := op.Responses[status].Content[of].Schema
			if of == "text/event-stream" {
				fmt.Fprintf(page, "\nResponse: %s with a stream of server-sent events.\n", status)
				continue
			}
			fmt.Fprintf(page, "\nResponse: %s with %s.\n", status, s.words())
		}
	}
}

// apiObjects says what bodies are made of.
func apiObjects(page *strings.Builder, api openAPI) {
	page.WriteString("\n# Objects\n")
	for _, name := range slices.Sorted(maps.Keys(api.Components.Schemas)) {
		s := api.Components.Schemas[name]
		fmt.Fprintf(page, "\n## %s\n\n", name)
		if s.Description != "" {
			fmt.Fprintf(page, "%s\n\n", s.Description)
		}
		page.WriteString("| key | type | meaning |\n|---|---|---|\n")
		for _, part := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[part]
			text := p.Description
			if p.Deprecated {
				text = "Deprecated: " + text
			}
			row(page, part, p.words(), text, p.limits())
		}
	}
}

func (op apiOperation) scope() string {
	for _, s := range op.Security {
		if scopes := s["token"]; len(scopes) > 0 {
			return scopes[0]
		}
	}
	return ""
}

// A part that is added to the API shows in the reference.
func TestReferenceSees(t *testing.T) {
	t.Parallel()
	var api openAPI
	raw := `{"info": {"version": "2"}, "paths": {"/a/{id}": {"put": {
		"operationId": "doThing", "summary": "Does a|b", "security": [{"token": ["admin"]}],
		"parameters": [{"name": "id", "in": "path", "required": true,
			"schema": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3}}],
		"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
		"responses": {
			"200": {"content": {"application/json": {
				"schema": {"type": ["array", "null"], "items": {"type": "string"}}}}},
			"404": {"content": {"x": {}}}}}}},
		"components": {"schemas": {"Thing": {"properties": {
			"of": {"type": "object", "additionalProperties": {"type": "number"}},
			"kind": {"type": "string", "enum": ["x", "y"], "deprecated": true, "description": "an x"}}}}}}`
	if err := json.Unmarshal([]byte(raw), &api); err != nil {
		t.Fatal(err)
	}
	page := apiPage(api)
	for _, line := range []string{
		"| [`PUT /a/{id}`](#put-aid) | Does a\\|b | `doThing` | admin |",
		"| `id` | integer, path, required | (1 to 9; default 3) |",
		"Body: [Thing](#thing) (application/json).", "Response: 200 with list of string.",
		"| `of` | map to number |  |",
		"| `kind` | string | Deprecated: an x (x, y) |",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %q in\n%s", line, page)
		}
	}
}
