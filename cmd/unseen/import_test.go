package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset/exchange"
)

// tableFiles writes files into a folder.
func tableFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

var smallNetwork = map[string]string{
	"nodes.csv": "key,subject,headline,abstract,year\n00003,optics,Light,On " +
		"light.,1999\n00005,optics;waves,Waves,,2001\n",
	"links.csv": "citing,cited\n00005,00003\n00005,00003\n00003,00003\n",
}

func TestImportAndExport(t *testing.T) {
	t.Parallel()
	raw := tableFiles(t, smallNetwork)
	dir, out, again := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "out"),
		filepath.Join(t.TempDir(), "again")
	code, stdout, stderr := invoke("import", "csv", raw, "-o", dir, "--field-separator", ";")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, s := range []string{"2 nodes, 1 link, 1 field", "1 repeated link was dropped",
		"1 link from a node to itself", "using `key` as id"} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), s) {
			t.Errorf("stdout does not say %q:\n%s", s, stdout)
		}
	}
	fits80(t, stdout)
	code, _, stderr = invoke("import", "csv", raw, "-o", dir)
	if code != exitFailure || !strings.Contains(stderr, "--force") {
		t.Errorf("a second import: exit code %d, stderr %q", code, stderr)
	}
	if code, _, stderr = invoke("export", dir, "--to", "jsonl", "-o", out); code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	code, stdout, stderr = invoke("import", "jsonl", out, "-o", again, "--json", "--quiet")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var s importSummary
	decodeOne(t, stdout, &s)
	if s.Nodes != 2 || s.Links != 1 || s.Manifest == nil || len(s.Manifest.Provenance.Command) == 0 ||
		s.Manifest.Provenance.Source != out {
		t.Errorf("summary %+v", s)
	}
}

func TestImportUsage(t *testing.T) {
	t.Parallel()
	raw := tableFiles(t, smallNetwork)
	dir := filepath.Join(t.TempDir(), "d")
	for line, says := range map[string]string{
		"import":                                    "name a format: csv",
		"import cvs":                                "did you mean csv?",
		"import klingon x":                          `unknown format "klingon"`,
		"import csv":                                "name the files",
		"import csv RAW":                            "-o DIR",
		"import csv RAW -o DIR --id nope":           `no column "nope"; there are key, subject`,
		"import csv RAW -o DIR --delimeter ;":       "did you mean --delimiter?",
		"import csv RAW -o DIR --delimiter ab":      "one character",
		"import csv RAW RAW RAW -o DIR":             "3 paths",
		"import csv RAW -o DIR --field-tree RAW/no": "--field-tree",
		"export":                     "name one folder",
		"export RAW":                 "--to csv",
		"export RAW --to csv":        "-o OUT",
		"export DIR --to xml -o OUT": `unknown format "xml"`,
	} {
		args := strings.Fields(line)
		for k := range args {
			args[k] = strings.NewReplacer("RAW", raw, "DIR", dir).Replace(args[k])
		}
		code, stdout, stderr := invoke(args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", line, code, stdout, stderr, says)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a wrong command line left a dataset")
	}
}

func TestImportHelpFits(t *testing.T) {
	t.Parallel()
	for _, f := range exchange.Formats() {
		_, stdout, _ := invoke("help", "import", f.Name)
		if !strings.Contains(stdout, "--lenient") {
			t.Errorf("%s: no help:\n%s", f.Name, stdout)
		}
		fits80(t, stdout)
	}
	_, stdout, _ := invoke("help", "export")
	fits80(t, stdout)
}

func TestImportSaysWhere(t *testing.T) {
	t.Parallel()
	raw := tableFiles(t, map[string]string{
		"nodes.csv": "id\na\nb\n",
		"links.csv": "source,target\na,b\nb,z\n",
	})
	folder := t.TempDir()
	dir := filepath.Join(folder, "d")
	code, _, stderr := invoke("import", "csv", raw, "-o", dir)
	if code != exitFailure || !strings.Contains(stderr, `links.csv, line 3: no such node: the target "z"`) ||
		!strings.Contains(stderr, "--lenient") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("%v was left behind", left)
	}
	code, stdout, stderr := invoke("import", "csv", raw, "-o", dir, "--lenient")
	if code != exitOK || !strings.Contains(stdout, "1 bad record was skipped") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if _, err := os.Stat(dir + ".rejects.csv"); err != nil {
		t.Error(err)
	}
}

func TestFieldTreeFlag(t *testing.T) {
	t.Parallel()
	raw := tableFiles(t, smallNetwork)
	tree := filepath.Join(raw, "tree.csv")
	if err := os.WriteFile(tree, []byte("child,parent\noptics,physics\nwaves,physics\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "d")
	code, stdout, stderr := invoke("import", "csv", raw, "-o", dir, "--field-separator", ";", "--field-tree", tree,
		"--json")
	if code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var s importSummary
	decodeOne(t, stdout, &s)
	if len(s.Manifest.Fields) != 1 || s.Manifest.Fields[0] != "physics" {
		t.Errorf("fields %v", s.Manifest.Fields)
	}
}

// People and items are imported by flags that name their files, and say in words what was odd.
func TestImportInteractions(t *testing.T) {
	t.Parallel()
	raw := tableFiles(t, map[string]string{"c.csv": "user,item,time\n7,7,1700000000\n7,8,1700000100\n9,8,\n",
		"m.csv": "user,item,position\n7,7,1\n7,7,2\n9,7,3\n"})
	dir := filepath.Join(t.TempDir(), "shop")
	code, stdout, stderr := invoke("import", "interactions", "--clicks", filepath.Join(raw, "c.csv"), "--impressions",
		filepath.Join(raw, "m.csv"), "-o", dir)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, s := range []string{"2 sources, 2 targets, 3 links, 0 fields, 2 exposures",
		"1 id is both a person's and an item's", "2 links are of a pair that the impressions never show",
		"Next:  unseen check"} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), strings.Join(strings.Fields(s), " ")) {
			t.Errorf("stdout does not say %q:\n%s", s, stdout)
		}
	}
	fits80(t, strings.ReplaceAll(stdout, filepath.Dir(dir), ""))
	for _, c := range []struct{ line, says string }{
		{"import interactions -o x", "--clicks"}, {"import interactions raw -o x", "is no flag"},
		{"import interactions --clicks " + filepath.Join(raw, "c.csv") + " --rating stars -o x", "--rating"},
		{"import csv -o x", "name the files"},
	} {
		code, _, stderr := invoke(strings.Fields(c.line)...)
		if code != exitUsage || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, stderr %q", c.line, code, stderr)
		}
	}
}
