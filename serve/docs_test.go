package serve

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Every example of the guide that is marked as sh works as it stands.
func TestGuide(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl to run the examples with; ./check installs it")
	}
	guide, err := os.ReadFile("../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	examples := strings.Split(string(guide), "```sh\n")[1:]
	if len(examples) < 10 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		cmd := exec.Command("sh", "-e", "-c", example)
		cmd.Env = append(os.Environ(), "URL="+server.URL)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%v\n%s\n%s", err, example, out)
		}
	}
	if l := s.Loop(); l.Forecast == nil && l.Fields == nil {
		t.Error("nothing was watched")
	}
	if job, err := s.WaitJob(t.Context(), "1"); err != nil || job.State != JobDone {
		t.Errorf("%v, job %+v", err, job)
	}
}
