package sbom

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// judge reads documents, a JSON list of strings, and prints for each what is wrong with it by the
// official schema and by the grammar of package URLs, or "valid".
const judge = `
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
validator = JsonStrictValidator(SchemaVersion.V1_6)
for text in json.load(sys.stdin):
    fault = validator.validate_str(text)
    if fault is None:
        d = json.loads(text)
        for c in [d["metadata"]["component"]] + d["components"]:
            try:
                if PackageURL.from_string(c["purl"]).to_string() != c["purl"]:
                    fault = "not canonical: " + c["purl"]
            except ValueError as e:
                fault = str(e)
    print("valid" if fault is None else repr(fault)[:200].replace("\n", " "))
`

// Scanners take documents by the schema of CycloneDX, so that is what ours are held against: that
// of this very test's modules, and one with every kind of entry. Damaged ones have to be refused,
// or the judge would be none.
func TestSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of Python, which neither races nor assembly concern; without -short it runs")
	}
	python := cmp.Or(os.Getenv("UNSEEN_PYTHON"), "python3")
	if err := exec.Command(python, "-c", "import cyclonedx.validation.json, jsonschema, packageurl").Run(); err != nil {
		t.Skipf("%s lacks cyclonedx-python-lib with json-validation; set UNSEEN_PYTHON to one that has it, as "+
			"./check does", python)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("a test without build information")
	}
	full := Program{Name: "unseen", Version: "v0.1.0-dev.20261115.abcdef0", Commit: "abc", Time: "2026-11-15T00:00:00Z",
		Scripts: []Script{{"htmx.org", "4.0.0", "ff"}, {"@observablehq/plot", "0.6.0", "ff"}}}
	text := func(d *cyclonedx.BOM) string {
		raw, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	damaged, twice, purl := Of(built(), full), Of(built(), full), Of(built(), full)
	damaged.SerialNumber = "urn:uuid:none"
	*twice.Components = append(*twice.Components, (*twice.Components)[0])
	(*purl.Components)[0].PackageURL = "golang/a.example"
	cases := []struct {
		name, document string
		valid          bool
	}{
		{"this test", text(Of(info, Program{Name: "unseen", Version: "(devel)"})), true},
		{"every kind of entry", text(Of(built(), full)), true},
		{"a damaged serial number", text(damaged), false},
		{"a component twice", text(twice), false},
		{"no package URL", text(purl), false},
		{"another field", strings.Replace(text(Of(built(), full)), `"bom-ref"`, `"bomref"`, 1), false},
	}
	var documents []string
	for _, c := range cases {
		documents = append(documents, c.document)
	}
	in, err := json.Marshal(documents)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", judge)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	verdicts := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(verdicts) != len(cases) {
		t.Fatalf("%d verdicts on %d documents:\n%s", len(verdicts), len(cases), out)
	}
	for k, c := range cases {
		if (verdicts[k] == "valid") != c.valid {
			t.Errorf("%s: %s", c.name, verdicts[k])
		}
	}
}
