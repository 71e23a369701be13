package main

import (
	"errors"
	"strings"
	"testing"

	"unseen/gpu"
)

// A device that is not there is refused before anything is read, with one sentence; auto does without.
func TestDevices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"--device gpu", "give --exact too"},
		{"--exact --device card", `--device is "card"; use cpu, gpu, auto`},
		{"--exact --device gpu --rows int8", `--rows is "int8"; use float32, float16, bfloat16`},
		{"--exact --rows float16", "add --device gpu"},
		{"--exact --device auto", "there is no model none"},
	} {
		code, _, stderr := invoke(append([]string{"evaluate", "none", "nothing"}, strings.Fields(c.args)...)...)
		if code == exitOK || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d: %s", c.args, code, stderr)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"node --device gpu", "--device is for --all and --nodes"},
		{"--all -o lists --device card", `--device is "card"; use cpu, gpu, auto`},
		{"--all -o lists --device auto", "there is no model none"},
	} {
		code, _, stderr := invoke(append([]string{"recommend", "none", "nothing"}, strings.Fields(c.args)...)...)
		if code == exitOK || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d: %s", c.args, code, stderr)
		}
	}
	for args, says := range map[string]string{"--device card": `--device is "card"; use cpu, gpu, auto`,
		"--device auto": "unseen demo writes one"} {
		code, _, stderr := invoke(append([]string{"serve", "nothing"}, strings.Fields(args)...)...)
		if code == exitOK || !strings.Contains(stderr, says) {
			t.Errorf("serve %s: exit code %d: %s", args, code, stderr)
		}
	}
	code, _, stderr := invoke("fit", "--method", "mle", "--device", "gpu")
	if code == exitOK || !strings.Contains(stderr, "--device is for bayes") {
		t.Errorf("fit: exit code %d: %s", code, stderr)
	}
	if _, err := gpu.Open(0); !errors.Is(err, gpu.ErrNoCard) {
		t.Skip("there is a card: what is said without one was not tested")
	}
	for _, args := range []string{"evaluate none nothing --exact", "serve nothing"} {
		code, _, stderr := invoke(append(strings.Fields(args), "--device", "gpu")...)
		if code == exitOK || strings.Count(strings.TrimSpace(stderr), "\n") > 0 ||
			!strings.Contains(stderr, "no graphics card") || !strings.Contains(stderr, "leave it out") {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
		}
	}
}
