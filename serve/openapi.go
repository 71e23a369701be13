package serve

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// operationNames are the names of operations that say more than their method and path do. Generated clients have
// functions of these names, and metrics and logs have them too.
var operationNames = map[string]string{
	"GET /api/v1/nodes":                   "searchNodes",
	"GET /api/v1/nodes/{id}":              "getNode",
	"GET /api/v1/nodes/{id}/events":       "getNodeEvents",
	"PUT /api/v1/nodes":                   "putNodes",
	"PATCH /api/v1/nodes":                 "patchNodes",
	"DELETE /api/v1/nodes":                "removeNodes",
	"PUT /api/v1/nodes/{id}":              "putNode",
	"PATCH /api/v1/nodes/{id}":            "patchNode",
	"DELETE /api/v1/nodes/{id}":           "forgetNode",
	"GET /api/v1/recommendations":         "getRecommendations",
	"POST /api/v1/recommendations":        "recommend",
	"POST /api/v1/events":                 "logEvents",
	"GET /api/v1/events":                  "readEvents",
	"GET /api/v1/bridges":                 "findBridges",
	"GET /api/v1/bridges/reading":         "downloadReadingList",
	"GET /api/v1/loop":                    "getFeedbackLoop",
	"GET /api/v1/loop/simulation":         "simulateFeedbackLoop",
	"POST /api/v1/jobs":                   "startJob",
	"GET /api/v1/jobs":                    "listJobs",
	"GET /api/v1/jobs/{id}":               "getJob",
	"GET /api/v1/jobs/{id}/curve":         "getTrainingCurve",
	"GET /api/v1/jobs/{id}/progress":      "streamJob",
	"DELETE /api/v1/jobs/{id}":            "cancelJob",
	"GET /api/v1/models":                  "listModels",
	"POST /api/v1/models/{digest}/deploy": "deployModel",
	"POST /api/v1/models/rollback":        "rollBackModel",
	"PUT /api/v1/ab-test":                 "startABTest",
	"DELETE /api/v1/ab-test":              "endABTest",
	"GET /api/v1/ab-test":                 "getABTest",
}

// operationName is the name of an operation: one of operationNames, or its method and path, as in getForgotten.
func operationName(method, path string) string {
	if name := operationNames[method+" "+path]; name != "" {
		return name
	}
	name := strings.ToLower(method)
	for _, part := range strings.FieldsFunc(strings.TrimPrefix(path, "/api/v1/"), func(r rune) bool {
		return strings.ContainsRune("/{}-", r)
	}) {
		name += strings.ToUpper(part[:1]) + part[1:]
	}
	return name
}

// apiTags group the operations, in the order of a list's life.
var apiTags = []*huma.Tag{
	{Name: "Overview", Description: "Is it healthy, what is live, what waits."},
	{Name: "Recommendations", Description: "Lists for a node, a text or a history."},
	{Name: "Events", Description: "What was shown, clicked, linked and dismissed."},
	{Name: "Nodes", Description: "What is recommended, and to whom."},
	{Name: "Jobs", Description: "Retraining and evaluation in the background."},
	{Name: "Models", Description: "Which model is live, and how far it can be trusted."},
	{Name: "A/B tests", Description: "Two models that share the readers."},
	{Name: "Feedback loop", Description: "What the service's own lists do to its data."},
	{Name: "Bridges", Description: "Pairs of fields between which exposure hides links."},
}

// tagOf is the group of a path, by its first part.
func tagOf(path string) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "/")
	switch part {
	case "forgotten":
		return "Nodes"
	case "model":
		return "Models"
	case "ab-test", "trial":
		return "A/B tests"
	case "loop":
		return "Feedback loop"
	}
	return strings.ToUpper(part[:1]) + part[1:]
}

// commonErrors are the statuses that every operation can have: those of tokens, limits and faults.
var commonErrors = []int{400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507}

// conflicts are the operations that the state of the service can forbid.
var conflicts = []string{"rollBackModel", "startABTest", "cancelJob"}

func errorsOf(name string) []int {
	if slices.Contains(conflicts, name) {
		return append(slices.Clone(commonErrors), http.StatusConflict)
	}
	return commonErrors
}

// examples are bodies of requests and answers, by the name of the operation.
var examples = map[string]struct{ request, answer string }{
	"recommend": {
		`{"node": "p17", "k": 2, "log": true}`,
		`{"list": "0643c5d8b2f6c0-0c398d55d00ab626-9f2c1a44d0be-5f3a9c01b2d7", "model": "9f2c1a44d0be",
		"seed": 881470299203155494,
		"explore": 0.1, "logged": 2, "field": "Biology", "candidates": 238,
		"candidateSet": "all/238/b41fa3c0d96e",
		"source": {"rank": 0, "id": "p17", "link": 0, "logit": 0, "propensity": 0, "shown": 0, "placed": 0,
		"correctedRank": 0},
		"items": [
		{"rank": 1, "id": "p4", "field": "Biology", "link": 0.41, "logit": -0.36, "propensity": 0.08, "shown": 0.97,
		"placed": 0.91, "correctedRank": 1, "naiveRank": 30, "seenRank": 12, "hidden": true},
		{"rank": 2, "id": "p9", "field": "Physics", "link": 0.33, "logit": -0.71, "propensity": 0.52, "shown": 0.94,
		"placed": 0.91, "correctedRank": 2, "naiveRank": 2, "seenRank": 1, "hidden": false}]}`,
	},
	"logEvents": {
		`{"events": [{"id": "visit-7/1", "kind": "shown", "source": "p17", "target": "p4", "position": 1,
		"probability": 0.97, "list": "0643c5d8b2f6c0-0c398d55d00ab626-9f2c1a44d0be-5f3a9c01b2d7"},
		{"id": "visit-7/1/click", "kind": "clicked", "source": "p17", "target": "p4",
		"list": "0643c5d8b2f6c0-0c398d55d00ab626-9f2c1a44d0be-5f3a9c01b2d7"}]}`,
		`{"stored": 2, "duplicate": 0, "spooled": 0}`,
	},
	"putNodes": {
		`{"nodes": [{"id": "p900", "title": "Diagnosis by ultrasound", "time": "2026-11-17", "links": ["p4"]}]}`,
		`{"changed": 1, "unchanged": 0}`,
	},
	"patchNodes": {`{"nodes": [{"id": "p900", "title": "Diagnosis by echo"}]}`, ``},
	"putNode":    {`{"title": "Diagnosis by ultrasound", "time": "2026-11-17", "links": ["p4"]}`, ``},
	"patchNode":  {`{"title": "Diagnosis by echo"}`, ``},
	"startJob": {
		`{"kind": "retrain", "trainOnly": true}`,
		`{"id": "12", "kind": "retrain", "request": {"kind": "retrain", "trainOnly": true}, "state": "queued",
		"done": 0, "queued": "2026-11-02T08:00:00Z"}`,
	},
	"startABTest": {
		`{"model": "5b81e0c34f7a", "share": 0.2}`, ``,
	},
}

// problemExample is an answer to an invalid request.
const problemExample = `{"title": "Unprocessable Entity", "status": 422, "detail": "explore is 2; give from 0 to 1",
	"instance": "urn:request:0c398d55d00ab626", "hint": "give from 0 to 1",
	"errors": [{"message": "is 2; give from 0 to 1", "location": "explore", "value": 2}]}`

// parameterExamples are values of parameters.
var parameterExamples = map[string]any{
	"node": "p17", "id": "p17", "digest": "5b81e0c34f7a", "k": 10, "q": "graph", "from": "2021-01-31", "until": "2024",
}

// illustrate completes the document: tags, examples, and answers that huma does not know of.
func illustrate(api *huma.OpenAPI) {
	api.Tags = apiTags
	for _, op := range operationsOf(api) {
		if body := op.RequestBody; body != nil {
			if text := examples[op.OperationID].request; text != "" {
				body.Content["application/json"].Example = json.RawMessage(text)
			}
		}
		for _, p := range op.Parameters {
			p.Example = parameterExamples[p.Name]
			if p.Name == "id" && strings.HasPrefix(op.Path, "/api/v1/jobs/") {
				p.Example = "12" // not a node's
			}
		}
		if op.OperationID == "downloadReadingList" {
			op.Responses["200"].Content = map[string]*huma.MediaType{
				"text/csv":             {Schema: &huma.Schema{Type: huma.TypeString}},
				"application/x-bibtex": {Schema: &huma.Schema{Type: huma.TypeString}},
			}
		}
		for status, answer := range op.Responses {
			for kind, content := range answer.Content {
				if text := examples[op.OperationID].answer; kind == "application/json" && text != "" {
					content.Example = json.RawMessage(text)
				}
				if kind == problemType && status == strconv.Itoa(http.StatusUnprocessableEntity) {
					content.Example = json.RawMessage(problemExample)
				}
			}
		}
	}
}
