package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/CycloneDX/cyclonedx-go"
)

// invoke runs the program and returns its exit code and what it wrote.
func invoke(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"nope":                   `unknown command "nope"; see unseen --help`,
		"vresion":                `unknown command "vresion"; did you mean version?`,
		"dem":                    `unknown command "dem"; did you mean demo?`,
		"--jsn":                  `unknown flag --jsn; see unseen --help`,
		"-":                      `unknown command "-"`,
		"help nope":              `unknown command "nope"; see unseen --help`,
		"help demo extra":        `unknown command "extra"; see unseen demo --help`,
		"demo --paper 5":         `unknown flag --paper; did you mean --papers?`,
		"demo --sede 5":          `unknown flag --sede; did you mean --seed?`,
		"demo --colour":          `unknown flag --colour; see unseen demo --help`,
		"demo -x":                `unknown flag -x; see unseen demo --help`,
		"demo --=3":              `bad flag syntax: --=3; see unseen demo --help`,
		"demo --papers":          `--papers needs a value; see unseen demo --help`,
		"demo --papers 0":        `--papers is 0; give from 200 to 20000`,
		"demo --papers -7":       `--papers is -7; give from 200 to 20000`,
		"demo --papers 199":      `--papers is 199; give from 200 to 20000`,
		"demo --papers 20001":    `--papers is 20001; give from 200 to 20000`,
		"demo --papers 1e9":      `--papers is "1e9"; give a whole number`,
		"demo --papers many":     `--papers is "many"; give a whole number`,
		"demo --seed -1":         `--seed is "-1"; give a whole number, 0 or more`,
		"demo --json=maybe":      `--json is "maybe"; give true or false`,
		"demo extra":             `unseen demo takes no arguments, got "extra"`,
		"version extra":          `unseen version takes no arguments, got "extra"`,
		"completion":             `name one shell: bash, zsh, fish, powershell`,
		"completion bash zsh":    `name one shell: bash, zsh, fish, powershell`,
		"completion tcsh":        `no completion for "tcsh"; name one shell: bash, zsh, fish, powershell`,
		"demo --papers " + huge:  `--papers is "` + huge + `"; give a number nearer to 0`,
		"demo --seed " + huge:    `--seed is "` + huge + `"; give a number nearer to 0`,
		"demo --papers -" + huge: `give a number nearer to 0`,
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := invoke(strings.Fields(line)...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d and stdout %q, want %d and nothing", code, stdout, exitUsage)
			}
			if !strings.HasPrefix(stderr, "unseen: ") || !strings.Contains(stderr, says) ||
				strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
				t.Errorf("stderr is %q, want one line that says %q", stderr, says)
			}
		})
	}
}

const huge = "99999999999999999999"

func TestArgumentOfManyLines(t *testing.T) {
	t.Parallel()
	code, _, stderr := invoke("demo", "--papers", "1\n2\n3")
	if code != exitUsage || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, stderr %q, want %d and one line", code, stderr, exitUsage)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for line, says := range map[string][]string{
		"":                {"Usage:\n  unseen COMMAND\n", "demo", "version", "completion", "Start with:  unseen demo"},
		"--help":          {"Usage:\n  unseen COMMAND\n"},
		"help":            {"Usage:\n  unseen COMMAND\n"},
		"help demo":       {"unseen demo [flags]", "--papers", "--seed", "--json", "unseen demo --papers 1000"},
		"help loop":       {"unseen loop [flags]", "--rounds", "--method", "--shown-only", "unseen loop --papers 200"},
		"demo -h":         {"unseen demo [flags]", "--papers"},
		"help help":       {"Explain a command"},
		"help version":    {"--json"},
		"help completion": {"source <(unseen completion bash)"},
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := invoke(strings.Fields(line)...)
			if code != exitOK || stderr != "" {
				t.Errorf("exit code %d and stderr %q, want %d and nothing", code, stderr, exitOK)
			}
			for _, s := range says {
				if !strings.Contains(stdout, s) {
					t.Errorf("stdout does not say %q:\n%s", s, stdout)
				}
			}
			fits80(t, stdout)
		})
	}
}

// fits80 fails where a line is longer than a terminal is wide. Where a test's own folder lies does not count.
func fits80(t *testing.T, page string) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(page, os.TempDir(), "/tmp")) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke("version")
	if code != exitOK || stderr != "" {
		t.Errorf("exit code %d and stderr %q", code, stderr)
	}
	for _, s := range []string{"unseen ", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, "kernels "} {
		if !strings.Contains(stdout, s) {
			t.Errorf("stdout does not say %q:\n%s", s, stdout)
		}
	}
	if _, short, _ := invoke("--version"); !strings.HasPrefix(stdout, short) || short == "" {
		t.Errorf("--version prints %q, version prints %q", short, stdout)
	}

	_, stdout, _ = invoke("version", "--json")
	var b build
	decodeOne(t, stdout, &b)
	if b != readBuild() || !slices.Contains([]string{"avx512", "avx2", "neon", "go"}, b.Kernels) {
		t.Errorf("version --json gives %+v", b)
	}
}

// A release says what it is by the linker's stamps, and what it is made of.
func TestStamps(t *testing.T) {
	for stamp, value := range map[*string]string{&stampVersion: "v9.8.7", &stampCommit: "abc",
		&stampTime: "2026-11-15T00:00:00Z", &stampModified: "true"} {
		old := *stamp
		*stamp = value
		defer func() { *stamp = old }()
	}
	if b := readBuild(); b.Version != "v9.8.7" || b.Commit != "abc" || b.Time != "2026-11-15T00:00:00Z" || !b.Modified {
		t.Errorf("%+v", b)
	}
	code, stdout, stderr := invoke("version", "--sbom")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var bill cyclonedx.BOM
	decodeOne(t, stdout, &bill)
	if bill.Metadata.Component.Version != "v9.8.7" || bill.Metadata.Timestamp != "2026-11-15T00:00:00Z" {
		t.Errorf("%+v", bill.Metadata)
	}
	if !slices.ContainsFunc(*bill.Components, func(c cyclonedx.Component) bool { return c.Name == "std" }) {
		t.Errorf("no standard library in %+v", bill.Components)
	}
}

// Every command that help shows has a manual page, and the same one every day.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	if code, stdout, stderr := invoke("man", dir); code != exitOK || stdout != "" || stderr != "" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, c := range newRoot().Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, "unseen-"+c.Name()+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		if page := string(raw); !strings.Contains(page, "Nov 2023") || !strings.Contains(page, ".SH SYNOPSIS") {
			t.Errorf("unseen-%s.1: %s", c.Name(), page[:min(len(page), 300)])
		} else if options := page[strings.Index(page, ".SH OPTIONS"):]; strings.Contains(options, "\n\t") ||
			!strings.Contains(options, ".TP\n\\fB") {
			t.Errorf("unseen-%s.1: an option that is no tagged paragraph: %s", c.Name(), options)
		}
	}
	when := time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC)
	if err := setManual(dir, &when); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "unseen-serve-token.1")); err != nil ||
		!strings.Contains(string(raw), `.TH "UNSEEN-SERVE-TOKEN" "1" "2026-11-05" "unseen`) {
		t.Errorf("%v, %.200s", err, raw)
	}
	if code, _, stderr := invoke("man"); code != exitUsage || !strings.Contains(stderr, "name the folder") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// What a page of Markdown would run together stays as it is.
func TestLiteral(t *testing.T) {
	t.Parallel()
	got := literal("One <two> of R_AP.\n\nMethods:\n  a   first\n  b   second\n\nText\n  and more\n")
	want := "One \\<two> of R\\_AP.\n\nMethods:\n\n      a   first\n      b   second\n\n    Text\n      and more"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVersionOfAStampedBuild(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	b := build{Version: "v1.2.3", Commit: "0123abc", Modified: true, Go: "go1.26", OS: "linux", Arch: "arm64",
		Kernels: "go"}
	if err := b.print(&page); err != nil {
		t.Fatal(err)
	}
	want := "unseen v1.2.3\ncommit   0123abc, modified\ngo       go1.26\nplatform linux/arm64\nkernels  go\n"
	if page.String() != want {
		t.Errorf("got %q, want %q", page.String(), want)
	}
}

// decodeOne reads a document that must be alone and have no fields that the type lacks.
func decodeOne(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("no JSON: %v in %s", err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Errorf("more than one JSON document: %v in %s", err, text)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for shell, says := range map[string]string{
		"bash":       "complete -o default",
		"zsh":        "#compdef unseen",
		"fish":       "complete -c unseen",
		"powershell": "Register-ArgumentCompleter",
	} {
		code, stdout, stderr := invoke("completion", shell)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, says) {
			t.Errorf("%s: exit code %d, stderr %q, script of %d bytes, want one with %q", shell, code, stderr,
				len(stdout), says)
		}
	}
	// What those scripts call to complete a line.
	for line, want := range map[string][]string{
		"de":                 {"demo"},
		"help v":             {"version"},
		"help demo ":         {},
		"completion ":        {"bash", "zsh", "fish", "powershell"},
		"completion z":       {"zsh"},
		"demo --s":           {"--seed"},
		"demo ":              {"shop"},
		"demo --papers ":     {},
		"version --":         {"--config", "--print-config", "--help", "--json", "--sbom"},
		"completion bash --": {"--config", "--print-config", "--help"},
	} {
		words := append([]string{"__complete"}, strings.Split(line, " ")...)
		code, stdout, _ := invoke(words...)
		got := []string{}
		for line := range strings.Lines(stdout) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		if code != exitOK || !slices.Equal(got, want) {
			t.Errorf("%q completes to %q with exit code %d, want %q", line, got, code, want)
		}
		if !strings.HasSuffix(stdout, ":4\n") { // cobra.ShellCompDirectiveNoFileComp
			t.Errorf("%q would complete to files: %q", line, stdout)
		}
	}
}

// A reader that went away or a full disk is a failure of one line, and no panic.
func TestClosedStdout(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	folder := t.TempDir()
	for _, line := range []string{"", "demo --quiet --papers 200 --out " + folder, "version", "version --json",
		"--version", "completion bash", "completion fish", "help demo"} {
		var stderr bytes.Buffer
		code := run(context.Background(), strings.Fields(line), failing{syscall.EPIPE}, &stderr)
		if want := "unseen: the results could not be written in full: broken pipe\n"; code != exitFailure ||
			stderr.String() != want {
			t.Errorf("%q: exit code %d and stderr %q, want %d and %q", line, code, stderr.String(), exitFailure, want)
		}
	}
	if code := run(context.Background(), []string{"nope"}, failing{syscall.EPIPE},
		failing{syscall.EPIPE}); code != exitUsage {
		t.Errorf("with stderr closed too: exit code %d, want %d", code, exitUsage)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"demo", "--quiet", "--out", t.TempDir()}, &stdout, &stderr)
	if want := "unseen: stopped before it was done\n"; code != exitFailure || stdout.Len() > 0 ||
		stderr.String() != want {
		t.Errorf("exit code %d, stdout %q, stderr %q, want %d, nothing, %q", code, stdout.String(), stderr.String(),
			exitFailure, want)
	}
}

func TestPrintJSONRefuses(t *testing.T) {
	t.Parallel()
	if err := printJSON(io.Discard, func() {}); err == nil {
		t.Error("a function was printed as JSON")
	}
	if err := printJSON(failing{io.ErrShortWrite}, 1); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v, want %v", err, io.ErrShortWrite)
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"seed", "seed"}: 0,
		{"paper", "papers"}: 1, {"sede", "seed"}: 2, {"kitten", "sitting"}: 3,
	} {
		if got := edits(pair[0], pair[1]); got != want {
			t.Errorf("edits(%q, %q) is %d, want %d", pair[0], pair[1], got, want)
		}
	}
}
