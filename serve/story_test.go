package serve

import (
	"cmp"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"unseen/internal/racetest"
)

// A client that a generator made of the OpenAPI document drives the service from the first list by way of a training
// that deploys its model and an A/B test to a rollback.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestABTest sends such requests")
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	python := cmp.Or(os.Getenv("UNSEEN_PYTHON"), "python3")
	if err := exec.Command(python, "-c", "import openapi_python_client, httpx").Run(); err != nil {
		t.Skipf("%s lacks openapi-python-client; set UNSEEN_PYTHON to one that has it", python)
	}
	withAll, secrets := withTokens(t)
	s := open(t, withAll, func(o *Options) { // clicks are not waited for
		o.Prefix, o.Clicks.Window, o.Clicks.LinkWindow = "/recs", -1, -1
	})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	folder := t.TempDir()
	story, err := os.ReadFile("testdata/story.py")
	if err != nil {
		t.Fatal(err)
	}
	c := client{t: t, h: s.Handler(), token: secrets[ScopeRead]}
	for name, content := range map[string][]byte{
		"openapi.json": c.do("GET", "/recs/openapi.json", nil).Body.Bytes(),
		"story.py":     story,
		"config.yaml":  []byte("post_hooks: []\n"), // the code is run, and not formatted
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), python, args...)
		command.Dir = folder
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	made := run("-m", "openapi_python_client", "generate", "--path", "openapi.json", "--output-path", "client",
		"--meta", "none", "--config", "config.yaml", "--fail-on-warning")
	if strings.Contains(strings.ToLower(made), "warning") {
		t.Errorf("the generator warns: %s", made)
	}
	if out := run("story.py", server.URL+"/recs", secrets[ScopeAdmin]); !strings.HasSuffix(out, "done\n") {
		t.Error(out)
	}
}
