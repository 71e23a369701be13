package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// sampleValues are two values of a flag, as the command line has them and as TOML has them.
func sampleValues(f *pflag.Flag) (texts, inTOML [2]string) {
	switch f.Value.Type() {
	case "bool":
		return [2]string{"true", "true"}, [2]string{"true", "true"}
	case "int", "int64", "uint64":
		return [2]string{"3", "4"}, [2]string{"3", "4"}
	case "float64":
		return [2]string{"0.25", "4"}, [2]string{"0.25", "4.0"}
	case "float64Slice":
		return [2]string{"0.25,4", "0.5"}, [2]string{"[0.250000, 4.000000]", "[0.500000]"}
	case "duration", "time":
		return [2]string{"36h", "2h"}, [2]string{"'36h0m0s'", "'2h0m0s'"}
	case "stringSlice", "stringArray":
		return [2]string{"a", "b"}, [2]string{"['a']", "['b']"}
	}
	return [2]string{"a'b", "c d"}, [2]string{`"a'b"`, "'c d'"}
}

// Every flag of every command can be set by a file, by a variable and on the command line, each before the one before.
func TestConfigOfEveryFlag(t *testing.T) {
	folder := t.TempDir()
	variables := map[string]string{"UNSEEN_CONFIG": "--config"}
	count := 0
	for _, cmd := range commandsBelow(newRoot()) {
		words := strings.Fields(cmd.CommandPath())[1:]
		table := strings.Join(words, ".")
		for _, f := range settable(cmd) {
			count++
			name := variable(cmd, f.Name)
			if other := variables[name]; other != "" {
				t.Errorf("%s sets --%s and %s; rename one", name, f.Name, other)
			}
			variables[name] = "--" + f.Name
			for _, below := range cmd.Commands() {
				if below.Name() == f.Name {
					t.Errorf("[%s.%s] is a command and a flag", table, f.Name)
				}
			}
			if f.Annotations[secretNote] != nil || strings.HasSuffix(f.Name, "store-file") {
				continue // TestSecrets
			}
			texts, inTOML := sampleValues(f)
			file := filepath.Join(folder, "unseen.toml")
			write(t, file, fmt.Sprintf("# a comment\n[%s]\n\n%s = %s\n", table, f.Name, inTOML[0]))
			shows := func(value, from string, args ...string) {
				t.Helper()
				code, out, err := invoke(append(append(words, "--config", file, "--print-config"), args...)...)
				want := fmt.Sprintf("\n%s = %s # %s\n", f.Name, value, from)
				if code != exitOK || !strings.Contains("\n"+out, want) {
					t.Fatalf("%s --%s: exit %d, %s\n%s\nwant %s", table, f.Name, code, err, out, want)
				}
			}
			shows(inTOML[0], file+":4")
			os.Setenv(name, texts[1])
			shows(inTOML[1], name)
			shows(inTOML[0], "--"+f.Name, "--"+f.Name+"="+texts[0])
			os.Unsetenv(name)
		}
	}
	if count < 150 {
		t.Errorf("only %d flags", count)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What --print-config prints is a file that gives the same configuration.
func TestPrintedConfigIsConfig(t *testing.T) {
	folder := t.TempDir()
	for _, cmd := range commandsBelow(newRoot()) {
		words := strings.Fields(cmd.CommandPath())[1:]
		var text strings.Builder
		fmt.Fprintf(&text, "[%s]\n", strings.Join(words, "."))
		for _, f := range settable(cmd) {
			if f.Name != "store-file" {
				_, inTOML := sampleValues(f)
				fmt.Fprintf(&text, "%s = %s\n", f.Name, inTOML[1])
			}
		}
		first, second := filepath.Join(folder, "first.toml"), filepath.Join(folder, "second.toml")
		write(t, first, text.String())
		values := func(file string) string {
			code, out, err := invoke(append(words, "--config", file, "--print-config")...)
			if code != exitOK {
				t.Fatalf("%v: %s", words, err)
			}
			write(t, second, out)
			lines := strings.Split(out, "\n")
			for k := range lines {
				lines[k], _, _ = strings.Cut(lines[k], " # ")
			}
			return strings.Join(lines, "\n")
		}
		once := values(first)
		if twice := values(second); once != twice {
			t.Errorf("printed\n%s\nand then\n%s", once, twice)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "u.toml")
	for text, says := range map[string]string{
		"[serv]":                               `:1: "serv" is no command; did you mean serve?`,
		"[serve]\nlisen = 'x'":                 `:2: "lisen" is no flag of unseen serve; did you mean listen?`,
		"[serve]\nkeep = 2\nqqqqqqqq = 1":      `:3: "qqqqqqqq" is no flag of unseen serve; see unseen serve --help`,
		"[serve]\nkeep = 'five'":               `:2: keep is "five"; give a whole number`,
		"[serve]\nkeep = 2.5":                  `:2: keep is 2.5; give a whole number`,
		"[serve]\nlisten = 8080":               `:2: listen is 8080; give text`,
		"[serve]\nopen = 'yes'":                `:2: open is "yes"; give true or false`,
		"[serve]\nkeep-events = '9w'":          `:2: keep-events is "9w"; give a time such as 90d`,
		"[serve]\nkeep = [1]":                  `:2: keep is [1]; give a whole number`,
		"[serve]\nkeep = 2020-01-01":           `:2: keep is 2020-01-01; give a whole number`,
		"\n[serve]\nkeep = 0":                  `--keep is 0; give at least 1 (` + file + `:3 sets --keep)`,
		"[fit]\nanchor = [1]":                  `:2: anchor is [1]; give texts`,
		"[fit.x]\ny = 1":                       `"x" is no flag of unseen fit`,
		"serve = {keep = 'x'}":                 `:1: keep is "x"; give a whole number`,
		"listen = 'x'":                         `:1: "listen" is no command`,
		"serve = 1":                            `:1: serve is a command; write its flags under [serve]`,
		"[serve]\nkeep = 1\nkeep = 2":          `:3:`,
		"[serve":                               `:1:7: expected ']'`,
		"[serve]\nconfig = 'x'":                `"config" is no flag`,
		"[serve]\nprint-config = true":         `"print-config" is no flag`,
		"[serve]\nopen=true\ntoken-file='x'":   `:`,
		strings.Repeat("# too large\n", 1e5):   `has more than 1048576 bytes`,
		"[serve]\n" + strings.Repeat("x", 3e5): `:2:`,
	} {
		write(t, file, text+"\n")
		code, out, err := invoke("serve", "x", "--config", file)
		if code == exitOK || out != "" || !strings.Contains(err, says) || !strings.Contains(err, file) ||
			strings.Count(err, "\n") != 1 || len(err) > 600 {
			t.Errorf("%.60q: exit %d, %.900s\nwant %s", text, code, err, says)
		}
	}
	if _, _, err := invoke("serve", "x", "--config", "/nonsense/u.toml"); !strings.Contains(err, "/nonsense/u.toml") {
		t.Error(err)
	}
	if code, _, err := invoke("--print-config"); code != exitUsage || !strings.Contains(err, "name a command") {
		t.Error(code, err)
	}
	for name, says := range map[string]string{
		"UNSEEN_SERVE_LISTN":        "sets nothing; did you mean UNSEEN_SERVE_LISTEN?",
		"UNSEEN_SERVE_KEEP":         `UNSEEN_SERVE_KEEP is "x"; give a whole number`,
		"UNSEEN_CONFIG":             "open x: ",
		"UNSEEN_SERVE_SERVICE_PORT": "folder x", // as Kubernetes sets it
	} {
		os.Setenv(name, "x")
		if _, _, err := invoke("serve", "x"); !strings.Contains(err, says) {
			t.Errorf("%s: %s; want %s", name, err, says)
		}
		os.Unsetenv(name)
	}
}

// A flag under its old name counts before the file, as under its new one.
func TestConfigKnowsOldNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "u.toml")
	for _, cmd := range commandsBelow(newRoot()) {
		words := strings.Fields(cmd.CommandPath())[1:]
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			old, ok := f.Value.(*oldValue)
			if !ok {
				return
			}
			for _, now := range settable(cmd) {
				if now.Value == old.Value {
					texts, inTOML := sampleValues(now)
					write(t, file, fmt.Sprintf("[%s]\n%s = %s\n", strings.Join(words, "."), now.Name, inTOML[0]))
					_, out, err := invoke(append(words, "--config", file, "--print-config",
						"--"+f.Name+"="+texts[1])...)
					if !strings.Contains(out, fmt.Sprintf("%s = %s", now.Name, inTOML[1])) {
						t.Errorf("--%s of %v: %s%s", f.Name, words, out, err)
					}
				}
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	const address, hidden = "postgres://unseen:hunter2@db.invalid/log", "'postgres://unseen:xxxxx@db.invalid/log'"
	folder := t.TempDir()
	file, secret, key := filepath.Join(folder, "u.toml"), filepath.Join(folder, "store"), filepath.Join(folder, "key")
	write(t, secret, address+"\n")
	write(t, key, "key\n")
	write(t, file, "[serve]\nstore = '"+address+"'\n")
	try := func(says string, args ...string) {
		t.Helper()
		_, out, err := invoke(append([]string{"serve", "--print-config"}, args...)...)
		if !strings.Contains(out+err, says) || strings.Contains(out+err, "hunter2") {
			t.Errorf("%v: %s%s; want %s", args, out, err, says)
		}
	}
	try("# store = "+hidden+" # "+file+":2, password hidden", "--config", file)
	try("# store = "+hidden+" # "+secret+", password hidden\nstore-file = '"+secret+"' # --store-file",
		"--store-file", secret)
	try("everybody on this machine can see the password in --store; use --store-file or UNSEEN_SERVE_STORE",
		"--store", address)
	try("--store and --store-file set the same; give one", "--store", "x", "--store-file", secret)
	try("store = 'x' # --store\nstore-file = ''", "--store", "x", "--store-file", "")
	t.Setenv("UNSEEN_SERVE_STORE_FILE", secret)
	try("# store = " + hidden + " # " + secret)
	try("store = 'x' # --store\n", "--store", "x")
	t.Setenv("UNSEEN_SERVE_STORE", address)
	try("UNSEEN_SERVE_STORE and UNSEEN_SERVE_STORE_FILE set the same")
	os.Unsetenv("UNSEEN_SERVE_STORE_FILE")
	try("# store = " + hidden + " # UNSEEN_SERVE_STORE, password hidden")
	os.Unsetenv("UNSEEN_SERVE_STORE")
	for text, says := range map[string]string{"": "must hold one line", "a\nb\n": "must hold one line"} {
		write(t, secret, text)
		try(secret+" (--store-file): the file "+says, "--store-file", secret)
	}
	write(t, secret, filepath.Join(folder, "events.db"))
	try("\n# store = '"+filepath.Join(folder, "events.db")+"' # "+secret+"\nstore-file = ", "--store-file", secret)
	if runtime.GOOS == "windows" {
		return // which does not say who may read a file
	}
	for _, path := range []string{file, secret, key} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	try(file+":2: store has a password, and everybody can read the file; chmod 600 "+file, "--config", file)
	try(secret+" (--store-file): everybody can read this file, which holds a secret; chmod 600 "+secret,
		"--store-file", secret)
	try(key+" (--tls-key): everybody can read this file", "--tls-key", key)
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"events.db":                              "events.db",
		"/a b/events.db":                         "/a b/events.db",
		"postgres://h/x":                         "postgres://h/x",
		"postgres://u@h/x?sslmode=disable":       "postgres://u@h/x?sslmode=disable",
		"postgres://u:p@h/x?sslmode=disable":     "postgres://u:xxxxx@h/x?sslmode=disable",
		"postgres://h/x?user=u&password=p":       "postgres://h/x?password=xxxxx&user=u",
		"postgres://u:p@h/x?sslpassword=q":       "postgres://u:xxxxx@h/x?sslpassword=xxxxx",
		"postgres://u:50%off@h/x":                "xxxxx",
		"postgres://u:p#a@h/x":                   "xxxxx",
		"postgres://u:p/a@h/x":                   "xxxxx",
		"postgres://u:p@h/x?password=%zz&user=u": "xxxxx",
	} {
		if got := redacted(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
