package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/internal/racetest"
	"unseen/model"
)

// small is a world that takes a fraction of a second.
var small = strings.Fields("fit --nodes 120 --dim 8 --fields 3 --pairs 2000 --threads 2")

func TestFit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	for _, method := range []string{"bayes", "mle", "naive", "cosine"} {
		t.Run(method, func(t *testing.T) {
			code, stdout, stderr := invoke(append(small, "--method", method, "--starts", ".3,.6", "-o", path)...)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			fits80(t, stdout)
			for _, s := range []string{method + " on 2,000 pairs", "120 nodes, 3 fields, 8 dimensions", "mean ŷ",
				"mean π̂ of these, two fields", "AUC", "recall", "risk, log-loss", "naive risk", "The model is in " +
					path} {
				if !strings.Contains(stdout, s) {
					t.Errorf("stdout does not say %q:\n%s", s, stdout)
				}
			}
			if !strings.Contains(stderr, "unseen: making a world of 120 nodes\n") {
				t.Errorf("stderr is %q", stderr)
			}
			file, err := model.Open(path)
			if err != nil || file.Metadata[model.KeyMethod] != method {
				t.Errorf("no model of %s: %v", method, err)
			}
			if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
				t.Errorf("%v lie beside the model: %v", left, err)
			}
		})
	}
}

func TestFitJSON(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	code, stdout, stderr := invoke(append(small, "--method", "bayes", "--logged", "0.1", "--anchor", "same=0.8±0.1",
		"--starts", ".3,.7", "--quiet", "--json")...)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var r fitReport
	decodeOne(t, stdout, &r)
	if want := (fitWorld{Plan: "saturated", Nodes: 120, Dim: 8, Fields: 3, Logged: .1, Seed: 1}); !reflect.DeepEqual(
		*r.World, want) || r.Pairs != 2000 || r.Links == 0 ||
		len(r.Starts) != 2 {
		t.Errorf("got %+v", r)
	}
	if len(r.Settings.Anchors) != 1 || r.Settings.Anchors[0] != (fit.Anchor{Group: "same", Propensity: .8, Error: .1}) {
		t.Errorf("anchors %v", r.Settings.Anchors)
	}
	// With logs and an anchor the scale is known, and the truth can be compared with.
	for name, b := range map[string]beside{"link": r.Test.Link, "same": r.Test.Same, "cross": r.Test.Cross,
		"auc": r.Test.AUC} {
		if b.Model == nil || b.Truth == nil || !(math.Abs(*b.Model-*b.Truth) < .15) {
			t.Errorf("%s is %s, in truth %s", name, fourDigits(b.Model), fourDigits(b.Truth))
		}
	}
	// Nothing has a lower risk than the truth, and the naive risk is another thing.
	if risk := r.Test.Risk; !(*risk.Truth < *risk.Model) || *r.Test.Naive.Model == *risk.Model {
		t.Errorf("risk %s, in truth %s, naive %s", fourDigits(risk.Model), fourDigits(risk.Truth),
			fourDigits(r.Test.Naive.Model))
	}
	if _, again, _ := invoke(append(small, "--method", "bayes", "--logged", "0.1", "--anchor", "same=0.8+-0.1",
		"--starts", ".3,.7", "--quiet", "--json", "--threads", "1")...); withoutTime(again) != withoutTime(stdout) {
		t.Errorf("not the same again:\n%s%s", stdout, again)
	}
}

// A world that breaks assumptions says so, and the truth beside the model is its own.
func TestFitViolations(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	line := append(small, "--method", "naive", "--quiet")
	truth := func(flags ...string) (float64, string) {
		code, stdout, stderr := invoke(append(line, flags...)...)
		if code != exitOK {
			t.Fatal(stderr)
		}
		fits80(t, stdout)
		code, page, stderr := invoke(append(line, append(flags, "--json")...)...)
		if code != exitOK {
			t.Fatal(stderr)
		}
		var r fitReport
		decodeOne(t, page, &r)
		return *r.Test.Link.Truth, stdout + strings.Join(r.World.Violations, " ")
	}
	whole, plain := truth()
	low, says := truth("--violate", "ceiling=0.5", "--violate", "text=0.25", "--violate", "popularity=1", "--violate",
		"age=-1", "--violate", "dependence=0.5", "--violate", "response=probit")
	if low > .6*whole || strings.Contains(plain, "assumptions") {
		t.Errorf("mean y is %v with a ceiling of a half, %v without", low, whole)
	}
	for _, s := range []string{"do not hold: text=0.25, popularity=1", "text=0.25 popularity=1 age=-1 ceiling=0.5"} {
		if !strings.Contains(says, s) {
			t.Errorf("it does not say %q: %s", s, says)
		}
	}
}

func withoutTime(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if !strings.Contains(line, `"seconds"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestFitWrongUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for line, says := range map[string]string{
		"--method nope":          `no method "nope"; there is ap, bayes, cosine`,
		"--preset nope":          `no preset "nope"; there is safe, paper, notebook`,
		"--world nope":           `no world "nope"; there is flat-rare, saturated, saturated-rare`,
		"--link nope":            `"nope"`,
		"--propensity nope":      `"nope"`,
		"--link mlp":             `bayes needs the link model diagonal`,
		"--anchor same":          `--anchor is "same"; write same=0.8±0.1`,
		"--anchor same=.8":       `write same=0.8±0.1`,
		"--anchor same=.8±x":     `write same=0.8±0.1`,
		"--anchor both=.8±.1":    `write same=0.8±0.1`,
		"--anchor same=1.8±.1":   `write same=0.8±0.1`,
		"--anchor same=.8±0":     `write same=0.8±0.1`,
		"--starts 2":             `start at the propensity 2`,
		"--starts .1,x":          `--starts is ".1,x"; give numbers with commas between them`,
		"--logged 2":             `--logged is 2; give a share from 0 to 1`,
		"--violate text":         `--violate is "text"; write text=number: what is relevant`,
		"--violate luck=1":       `where the name is one of text, popularity`,
		"--violate text=2":       `the violation text is 2; set --violate to text with a number from 0 to 1`,
		"--violate dependence=1": `set --violate to dependence with a number between −1 and 1`,
		"--violate ceiling=2":    `the ceiling of y is 2; set --violate to ceiling with a probability above 0`,
		"--dim 2000000000":       `2,000,000,000 dimensions of 120 nodes; set --dim to 1 or more, and at most`,
		"--violate ceiling=0":    `write ceiling=number: no y is above it`,
		"--violate response=x":   `response is "x"; set --violate to response with logit, probit or cauchit`,
		"--logged NaN":           `--logged is NaN; give a share from 0 to 1`,
		"--logged x":             `--logged is "x"; give a number`,
		"--method dr":            `dr needs pairs whose exposure is logged`,
		"--nodes 5":              `--nodes is 5; give at least 10`,
		"--dim 0":                `--dim is 0; give at least 1`,
		"--fields 0":             `--fields is 0; give from 1 to 120`,
		"--fields 121":           `--fields is 121; give from 1 to 120`,
		"--pairs 5":              `--pairs is 5; with 120 nodes give from 10 to 4760`,
		"--pairs 4761":           `--pairs is 4761; with 120 nodes give from 10 to 4760`,
		"--threads -1":           `--threads is -1`,
		"--resume":               `--resume needs to know where the checkpoint is`,
		"-o " + folder:           `cannot write ` + folder + `: it is a folder; choose another path`,
		"-o " + folder + "/no/m": `cannot write ` + folder + `/no/m: no such file or directory; make its folder first`,
		"--checkpoint " + folder: `it is a folder; choose another path`,
		"--output=":              `--output is empty; give a path, or leave it out`,
		"--checkpoint=":          `--checkpoint is empty; give a path, or leave it out`,
		"--threads -5":           `--threads is -5; give at least 1, or leave it out`,
		"--starts NaN":           `start at the propensity NaN`,
		"-o " + folder + "/m --checkpoint " + folder + "/./m": `-o and --checkpoint are both ` + folder +
			`/m; give two paths`,
		"--metod bayes": `unknown flag --metod; did you mean --method?`,
		"extra":         `--nodes is for generated worlds; leave it out, or the dataset`,
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := invoke(append(append(small, "--quiet"), strings.Fields(line)...)...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d and stdout %q, want %d and nothing", code, stdout, exitUsage)
			}
			if !strings.HasPrefix(stderr, "unseen: ") || !strings.Contains(stderr, says) ||
				strings.Count(stderr, "\n") != 1 {
				t.Errorf("stderr is %q, want one line that says %q", stderr, says)
			}
		})
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("%v are left: %v", left, err)
	}
}

func TestFitSearch(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	train := append(small, "--method", "ap", "--starts", ".3", "--search", "lr=1e-3, 1e-2", "--search",
		"floor=0.01,0.05,0.1", "--search-points", "4")
	code, stdout, stderr := invoke(train...)
	if code != exitOK || strings.Count(stdout, "floor=") != 4 || strings.Count(stdout, "← chosen") != 1 {
		t.Errorf("exit code %d, stderr %q:\n%s", code, stderr, stdout)
	}
	fits80(t, stdout)
	_, stdout, _ = invoke(append(train, "--quiet", "--json")...)
	var r fitReport
	decodeOne(t, stdout, &r)
	if len(r.Trials) != 4 || r.Settings.Search.Points != 4 || len(r.Settings.Search.Axes) != 2 {
		t.Errorf("got %+v", r)
	}
	for _, trial := range r.Trials {
		if trial.Chosen && (r.Settings.Floor != trial.Values["floor"] || r.Settings.Adam.Rate != trial.Values["lr"] ||
			r.Validation != trial.Validation) {
			t.Errorf("%v was chosen, and used was %+v", trial, r.Settings)
		}
	}
}

func TestFitHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke("help", "fit")
	if code != exitOK || stderr != "" {
		t.Errorf("exit code %d and stderr %q", code, stderr)
	}
	fits80(t, stdout)
	for name := range fit.Methods() {
		if !strings.Contains(stdout, "\n  "+name+" ") {
			t.Errorf("the help does not explain the method %s", name)
		}
	}
	for name := range fit.Searchable() {
		if !strings.Contains(stdout, "\n  "+name+" ") {
			t.Errorf("the help does not explain the search over %s", name)
		}
	}
	for _, name := range violationNames() {
		if !strings.Contains(stdout, "\n  "+name+" ") {
			t.Errorf("the help does not explain the violation %s", name)
		}
	}
	for name := range plans {
		if !strings.Contains(stdout, "\n  "+name+" ") {
			t.Errorf("the help does not explain the world %s", name)
		}
	}
}

// Ctrl-C leaves a checkpoint and says how to go on; going on gives the model of a run without it.
func TestFitStoppedAndResumed(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	folder := t.TempDir()
	whole, path := filepath.Join(folder, "whole"), filepath.Join(folder, "model")
	train := append(small, "--method", "mle", "--quiet", "--pairs", "2500", "--starts", ".3,.6")
	if code, _, stderr := invoke(append(train, "-o", whole)...); code != exitOK {
		t.Fatal(stderr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // Ctrl-C once training has begun
		for ctx.Err() == nil {
			if _, err := os.Stat(path + ".checkpoint"); err == nil {
				time.Sleep(5 * time.Millisecond)
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var stdout, stderr bytes.Buffer
	code := run(ctx, append(train, "-o", path), &stdout, &stderr)
	cancel()
	want := fmt.Sprintf("unseen: stopped; what was done is in %s.checkpoint: run the same command with --resume "+
		"to continue\n", path)
	if code != exitFailure || stdout.Len() > 0 || stderr.String() != want {
		t.Fatalf("exit code %d, stdout %q, stderr %q, want %d, nothing, %q", code, &stdout, &stderr, exitFailure, want)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a model: %v", err)
	}
	for _, refused := range []struct{ args, says string }{
		{"", "exists already"},
		{"--resume --seed 2", "seed is 1 there and 2 here"},
		{"--resume --method ap", "is of the method mle, not ap"},
		{"--resume --nodes 121", "other data"},
	} {
		code, stdout, stderr := invoke(append(append(train, "-o", path), strings.Fields(refused.args)...)...)
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, refused.says) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, stderr %q, want %q", refused.args, code, stderr, refused.says)
		}
	}
	if code, _, stderr := invoke(append(train, "-o", path, "--resume", "--threads", "1")...); code != exitOK {
		t.Fatal(stderr)
	}
	a, err1 := os.ReadFile(whole)
	b, err2 := os.ReadFile(path)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the resumed model differs: %v", err)
	}
	if code, _, stderr := invoke(append(train, "-o", path, "--resume")...); code != exitFailure ||
		!strings.Contains(stderr, "there is none at "+path+".checkpoint") {
		t.Errorf("nothing to resume: exit code %d, %q", code, stderr)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("%v are left: %v", left, err)
	}
}

func TestFitStoppedWithoutCheckpoint(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, append(small, "--quiet"), &stdout, &stderr)
	if want := "unseen: stopped before it was done\n"; code != exitFailure || stdout.Len() > 0 ||
		stderr.String() != want {
		t.Errorf("exit code %d, stdout %q, stderr %q, want %d, nothing, %q", code, &stdout, &stderr, exitFailure, want)
	}
}

// Where the output is thrown away there is no terminal to draw on, though /dev/null is a character device.
func TestNullDeviceIsNoTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if newDisplay(file, false).terminal {
		t.Errorf("%s counts as a terminal", os.DevNull)
	}
}

// One field has no pairs of two; what has no value is a dash and a null.
func TestFitOfOneField(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	code, stdout, stderr := invoke(append(small, "--fields", "1", "--quiet")...)
	if code != exitOK || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "of these, two fields – – AUC") {
		t.Errorf("exit code %d, stderr %q:\n%s", code, stderr, stdout)
	}
	_, stdout, _ = invoke(append(small, "--fields", "1", "--quiet", "--json")...)
	var r fitReport
	decodeOne(t, stdout, &r)
	if r.Test.Cross.Model != nil || r.Test.Cross.Truth != nil || r.Test.Same.Model == nil {
		t.Errorf("got %+v", r.Test)
	}
}

func FuzzAxis(f *testing.F) {
	for _, text := range []string{"ridge=0.1,1,10", "lr = 1e-3", "", "=", "a=b", "a=1,,2", "a=NaN"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAxis(text)
		if (err == nil) != (a.Name != "" && len(a.Values) > 0) || err == nil &&
			len(a.Values) != strings.Count(text[strings.Index(text, "="):], ",")+1 {
			t.Errorf("%q is %+v: %v", text, a, err)
		}
	})
}

func FuzzAnchor(f *testing.F) {
	for _, text := range []string{"same=0.8±0.1", "cross=0.2+-0.05", "same = .5 ± .1", "", "=", "same=±", "same=NaN±1",
		"same=1e-9±1e-9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAnchor(text)
		if err != nil {
			return
		}
		again, err := parseAnchor(fmt.Sprintf("%s=%v±%v", a.Group, a.Propensity, a.Error))
		if err != nil || again != a || !(a.Propensity > 0 && a.Propensity < 1 && a.Error > 0) {
			t.Errorf("%q is %+v, and again %+v: %v", text, a, again, err)
		}
	})
}

func TestFitCertify(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	path := filepath.Join(t.TempDir(), "model.safetensors")
	code, page, stderr := invoke(append(small, "--quiet", "--certify", "2", "--starts", ".3", "-o", path)...)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	fits80(t, strings.ReplaceAll(page, path, "model"))
	if !strings.Contains(page, "\nThe certificate\n  - On 2 truths planted on these 120 nodes, bayes reached") {
		t.Errorf("page:\n%s", page)
	}
	f, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var c evaluate.Certificate
	if err := json.Unmarshal([]byte(f.Metadata[model.KeyCertificate]), &c); err != nil || c.Repeats != 2 ||
		len(c.Risks) != 4 {
		t.Errorf("%+v: %v", c, err)
	}
	html := path + ".html"
	if code, _, stderr := invoke("report", path, "-o", html); code != exitOK {
		t.Errorf("report: %s", stderr)
	}
	if raw, err := os.ReadFile(html); err != nil || !strings.Contains(string(raw), "The certificate") {
		t.Errorf("the report has no certificate: %v", err)
	}
	if code, _, stderr := invoke("fit", "--certify", "-1"); code != exitUsage ||
		!strings.Contains(stderr, "--certify is -1") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// A shop of ids alone, without texts and vectors: import, fit, evaluate and recommend, with every method for factors.
func TestShopOfIDs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	clicks, shown := "user,item,time\n", "user,item\n"
	for person := range 40 {
		for item := range 20 {
			if rng.IntN(2) == 0 {
				shown += fmt.Sprintf("p%d,i%d\n", person, item)
				if rng.IntN(4) == 0 || person%2 == item%2 && rng.IntN(2) == 0 {
					clicks += fmt.Sprintf("p%d,i%d,%d\n", person, item, 1_700_000_000+rng.IntN(1_000_000))
				}
			}
		}
	}
	raw := tableFiles(t, map[string]string{"clicks.csv": clicks, "shown.csv": shown})
	dir := t.TempDir()
	data, fitted, naive := filepath.Join(dir, "shop"), filepath.Join(dir, "m"), filepath.Join(dir, "n")
	for _, c := range []struct {
		line string
		says []string
	}{
		{"import interactions --clicks " + filepath.Join(raw, "clicks.csv") + " --impressions " +
			filepath.Join(raw, "shown.csv") + " -o " + data, []string{"Set --log to complete"}},
		{"import interactions --clicks " + filepath.Join(raw, "clicks.csv") + " --impressions " +
			filepath.Join(raw, "shown.csv") + " --log complete --force -o " + data, nil},
		{"check " + data, []string{"Factors of people and items are learned from links alone"}},
		{"fit " + data + " -o " + fitted, []string{"mle, with factors", "no vectors", "pairs logged"}},
		{"fit " + data + " --log ignored --search rank=1,2 --search ridge=1", []string{"not identified"}},
		{"fit " + data + " --log complete --method shown", []string{"shown, with factors"}},
		{"fit " + data + " --log ignored --method naive -o " + naive, []string{"naive, with factors"}},
		{"recommend " + fitted + " " + data + " p1 --explain --naive " + naive, []string{"learned factors", "i"}},
		{"recommend " + fitted + " " + data + " --history i1,i2 --shown i3", []string{"a new person", "18 candidates"}},
		{"evaluate " + fitted + " " + data, []string{"R_AP", "by π̂ŷ"}},
		{"bridges " + fitted + " " + data + " --naive " + naive, nil},
		{"export index " + fitted + " " + data + " -o " + filepath.Join(dir, "index"), []string{"index"}},
	} {
		code, stdout, stderr := invoke(strings.Fields(c.line)...)
		if code != exitOK {
			t.Fatalf("%s: exit code %d, stderr %q", c.line, code, stderr)
		}
		for _, says := range c.says {
			if !strings.Contains(strings.Join(strings.Fields(stdout), " "), says) {
				t.Errorf("%s does not say %q:\n%s", c.line, says, stdout)
			}
		}
	}
	for line, says := range map[string]string{
		"fit " + data + " --log complete --method bayes":         "--link",
		"fit " + data + " --log ignored --method shown":          "--method",
		"fit " + data + " --log complete --link diagonal":        "no vectors",
		"fit " + data + " --log complete --search hidden=1,2":    "hidden",
		"recommend " + fitted + " " + data + " i3":               "target only",
		"recommend " + fitted + " " + data + " --text something": "text",
	} {
		if code, _, stderr := invoke(strings.Fields(line)...); code == exitOK || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, stderr %q", line, code, stderr)
		}
	}
}

// A model of a dataset is refreshed after a few links are new, and says so; what its model decides is not a flag.
func TestFitRefresh(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	raw := filepath.Join(folder, "raw")
	if code, _, stderr := invoke("generate", raw, "--people", "150", "--items", "60"); code != exitOK {
		t.Fatal(stderr)
	}
	clicks, err := os.ReadFile(filepath.Join(raw, "clicks.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(clicks), "\n")
	less := filepath.Join(folder, "less.csv")
	if err := os.WriteFile(less, []byte(strings.Join(lines[:len(lines)-len(lines)/100], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	imported := func(clicks, name string) string {
		out := filepath.Join(folder, name)
		of := func(name string) string { return filepath.Join(raw, name+".csv") }
		code, _, stderr := invoke("import", "interactions", "--clicks", clicks, "--items", of("items"), "--users",
			of("users"), "--impressions", of("impressions"), "--log", "complete", "-o", out)
		if code != exitOK {
			t.Fatal(stderr)
		}
		return out
	}
	before, now := imported(less, "before"), imported(filepath.Join(raw, "clicks.csv"), "now")
	old, fresh := filepath.Join(folder, "old.safetensors"), filepath.Join(folder, "fresh.safetensors")
	if code, _, stderr := invoke("fit", before, "-o", old, "--quiet"); code != exitOK {
		t.Fatal(stderr)
	}
	code, stdout, stderr := invoke("fit", now, "--refresh", old, "-o", fresh, "--quiet", "--json")
	var r fitReport
	decodeOne(t, stdout, &r)
	if of := r.Findings.Refresh; code != exitOK || of == nil || of.Number != 1 || of.Full.IsZero() {
		t.Fatalf("exit code %d, %s: %+v", code, stderr, r.Findings)
	}
	code, stdout, _ = invoke("fit", now, "--refresh", fresh, "--quiet")
	if said := strings.Join(strings.Fields(stdout), " "); code != exitOK ||
		!strings.Contains(said, "This model is refresh 2 of the full") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	for _, wrong := range [][]string{{"--method", "naive"}, {"--split", "whole"}, {"--seed", "3"}} {
		code, _, stderr := invoke(append([]string{"fit", now, "--refresh", old}, wrong...)...)
		if code != exitUsage || !strings.Contains(stderr, wrong[0]+" and --refresh") {
			t.Errorf("%v: exit code %d, %s", wrong, code, stderr)
		}
	}
	if code, _, stderr := invoke("fit", "--refresh", old); code != exitUsage || !strings.Contains(stderr, "dataset") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, stderr := invoke("fit", now, "--refresh", now); code == exitOK || !strings.Contains(stderr, "folder") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// All pairs of a dataset are learned from where that is asked for; what cannot be is refused.
func TestFitExact(t *testing.T) {
	t.Parallel()
	dir, model := papers(t, 1), filepath.Join(t.TempDir(), "m.safetensors")
	var sampled, exact fitReport
	decodeOne(t, well(t, "fit", dir, "--method", "mle", "--optimiser", "lbfgs", "--quiet", "--json"), &sampled)
	decodeOne(t, well(t, "fit", dir, "--exact", "-o", model, "--quiet", "--json"), &exact)
	if exact.Settings.Method != "mle" || !exact.Settings.Exact || exact.Pairs <= sampled.Pairs ||
		exact.Links != sampled.Links || exact.Held == nil || *exact.Held.AUC < .8 {
		t.Errorf("%+v, %d pairs, %d of them linked; of a sample %d and %d", exact.Settings, exact.Pairs, exact.Links,
			sampled.Pairs, sampled.Links)
	}
	if rate := float64(exact.Links) / float64(exact.Pairs); exact.Likelihood > 20*10*rate {
		t.Errorf("the likelihood is %v, of %v links per pair", exact.Likelihood, rate)
	}
	for args, says := range map[string]string{
		"--exact":                             "name its folder",
		dir + " --exact --method bayes":       "set --method to mle",
		dir + " --exact --refresh " + model:   "--exact and --refresh",
		dir + " --exact --optimiser adam":     "by lbfgs",
		dir + " --exact --method shown":       "set --method to mle",
		dir + " --method mle --device gpu":    "--device is for bayes and --exact",
		dir + " --exact --device accelerator": "use cpu, gpu, auto",
	} {
		code, _, stderr := invoke(append([]string{"fit"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
		}
	}
}
