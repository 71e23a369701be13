package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"unseen/internal/racetest"
)

// module is the path of this module: whoever hosts it may rename it.
var module = func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		panic("the tests were built without modules")
	}
	return info.Main.Path
}()

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath, Dir string
	Imports         []string
}

// packagesOfModule lists the packages of the module.
func packagesOfModule(t *testing.T) []goPackage {
	t.Helper()
	all, err := listPackages()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return slices.Clone(all)
}

var listPackages = sync.OnceValues(func() (all []goPackage, err error) {
	list := exec.Command("go", "list", "-json=ImportPath,Dir,Imports", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

var firstCell = regexp.MustCompile("(?m)^\\| `([a-z/0-9]+)` \\|")

// house returns the packages of the table in ARCHITECTURE.md, from top to bottom.
func house(page string) (names []string) {
	_, table, _ := strings.Cut(page, "\n## The packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, row := range firstCell.FindAllStringSubmatch(table, -1) {
		names = append(names, row[1])
	}
	return names
}

// wrongInHouse says which packages the table lacks or has too many of, and which import what does not stand above them.
func wrongInHouse(names []string, packages []goPackage) (problems []string) {
	real := map[string]bool{}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		real[name] = true
		at := slices.Index(names, name)
		if at < 0 {
			problems = append(problems, "the table lacks "+name)
			continue
		}
		for _, other := range p.Imports {
			other, ours := strings.CutPrefix(other, module+"/")
			if ours && slices.Index(names, other) > at {
				problems = append(problems, name+" imports "+other+", which stands below it")
			}
		}
	}
	for k, name := range names {
		if !real[name] {
			problems = append(problems, "there is no package "+name)
		}
		if slices.Index(names, name) < k {
			problems = append(problems, name+" is in the table twice")
		}
	}
	return problems
}

// The table of ARCHITECTURE.md has every package, and each imports only what stands above it.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	names, packages := house(string(page)), packagesOfModule(t)
	if len(names) < 20 {
		t.Fatalf("the table has %d rows: %q", len(names), names)
	}
	for _, problem := range wrongInHouse(names, packages) {
		t.Error(problem)
	}
}

// A running service links neither the studies nor the report: what it needs of both is data, in package figure.
func TestServiceLinksNoStudies(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	list := exec.Command("go", "list", "-deps", "./serve")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/figure") {
		t.Fatalf("serve does not link figure, so go list was not understood: %q", linked)
	}
	for _, name := range []string{module + "/study", module + "/report"} {
		if slices.Contains(linked, name) {
			t.Errorf("serve links %s", name)
		}
	}
}

// What is heavy goes through the engine that was given: no package that takes one names another. engine.OrCPU is for a
// setting that may be nil.
func TestEnginesAreGiven(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	takers := []string{"fit", "evaluate", "recommend", "network", "loop", "serve"}
	given := map[string]int{}
	for _, p := range libraries(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(takers, name) {
			continue
		}
		for _, file := range goFiles(t, p.Dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				if ofEngine(n, "CPU") {
					t.Errorf("%s names engine.CPU; take an engine.Engine", name)
				}
				if call, is := n.(*ast.CallExpr); is && ofEngine(call.Fun, "OrCPU") {
					given[name]++
					if setting, is := call.Args[0].(*ast.SelectorExpr); !is || setting.Sel.Name != "Engine" {
						t.Errorf("%s calls engine.OrCPU without a setting Engine", name)
					}
				}
				return true
			})
		}
	}
	for _, name := range takers[:3] {
		if given[name] == 0 {
			t.Errorf("%s takes no engine", name)
		}
	}
}

// ofEngine tells whether an expression is a name of package engine.
func ofEngine(n ast.Node, name string) bool {
	selector, is := n.(*ast.SelectorExpr)
	if !is || selector.Sel.Name != name {
		return false
	}
	of, is := selector.X.(*ast.Ident)
	return is && of.Name == "engine"
}

var glossaryOwner = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z]*)`")

// Every owner in the glossary is an exported type, and every file to look at is there.
func TestGlossary(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, p := range libraries(t) {
		for _, file := range goFiles(t, p.Dir) {
			for _, d := range file.Decls {
				if d, is := d.(*ast.GenDecl); is && d.Tok == token.TYPE {
					for _, spec := range d.Specs {
						types[file.Name.Name+"."+spec.(*ast.TypeSpec).Name.Name] = true
					}
				}
			}
		}
	}
	_, glossary, _ := strings.Cut(string(page), "\n## Glossary\n")
	glossary, files, _ := strings.Cut(glossary, "\n## ")
	owners := glossaryOwner.FindAllStringSubmatch(glossary, -1)
	if len(owners) < 30 {
		t.Fatalf("the glossary names %d owners", len(owners))
	}
	for _, o := range owners {
		if !types[o[1]+"."+o[2]] {
			t.Errorf("the glossary names %s.%s, which is no exported type", o[1], o[2])
		}
	}
	for _, file := range regexp.MustCompile("`([a-z/_]+\\.go)`").FindAllStringSubmatch(files, -1) {
		if _, err := os.Stat(filepath.Join("../..", file[1])); err != nil {
			t.Errorf("the page sends readers to %s: %v", file[1], err)
		}
	}
}

func TestArchitectureSees(t *testing.T) {
	t.Parallel()
	page := "x\n## The packages\n\n| package | holds |\n|---|---|\n| `a` | |\n| `b/c` | |\n| `d` | |\n| `d` | " +
		"|\n| `gone` | |\n\n## Next\n| `no` |\n"
	names := house(page)
	if !slices.Equal(names, []string{"a", "b/c", "d", "d", "gone"}) {
		t.Fatalf("%q", names)
	}
	packages := []goPackage{
		{ImportPath: module + "/a", Imports: []string{"fmt", module + "/d"}},
		{ImportPath: module + "/b/c", Imports: []string{module + "/a"}},
		{ImportPath: module + "/d"},
		{ImportPath: module + "/e"},
	}
	want := []string{"a imports d, which stands below it", "the table lacks e", "d is in the table twice",
		"there is no package gone"}
	if got := wrongInHouse(names, packages); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// conventional are names of types that more than one package may have: every reader knows what they are. A Manifest is
// the list of the files of a folder, with their sizes and sums.
var conventional = []string{"Error", "Manifest", "Options", "Result", "Settings"}

// One word has one meaning: a name of an exported type is that of one package.
func TestTypesHaveOneName(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	owners := map[string][]string{}
	packages := libraries(t)
	for _, name := range []string{"beam/job", "beam/shards"} { // of another module
		packages = append(packages, goPackage{ImportPath: name, Dir: filepath.Join("../..", name)})
	}
	for _, p := range packages {
		for _, file := range goFiles(t, p.Dir) {
			for _, d := range file.Decls {
				d, is := d.(*ast.GenDecl)
				if !is || d.Tok != token.TYPE {
					continue
				}
				for _, spec := range d.Specs {
					if name := spec.(*ast.TypeSpec).Name; name.IsExported() {
						owners[name.Name] = append(owners[name.Name], strings.TrimPrefix(p.ImportPath, module+"/"))
					}
				}
			}
		}
	}
	for name, packages := range owners {
		packages = slices.Compact(packages) // files of two platforms may declare one type
		if len(packages) > 1 && !slices.Contains(conventional, name) {
			t.Errorf("%s is a type of %s; rename all but one", name, strings.Join(packages, ", "))
		}
	}
}

var flagInText = regexp.MustCompile(`(^|[^-\w])--[a-z]`)

// othersFlags are what texts may say: commands of other programs.
var othersFlags = strings.NewReplacer("zstd --long=27", "")

// A library speaks of settings (package hint), and the command line of flags: no text of a library names one.
func TestLibrariesNameNoFlags(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	for _, p := range libraries(t) {
		for _, text := range textsOf(t, p) {
			if flagInText.MatchString(othersFlags.Replace(text)) {
				t.Errorf("%s: %.100q names a flag; use hint.Setting", p.ImportPath, text)
			}
		}
	}
}

// An error says what is wrong and where, and not which package noticed it: people read it on a terminal.
func TestErrorsNameNoPackage(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	for _, p := range libraries(t) {
		for _, text := range textsOf(t, p) {
			if strings.HasPrefix(text, path.Base(p.ImportPath)+": ") {
				t.Errorf("%s: %.100q begins with the package's name; leave it out", p.ImportPath, text)
			}
		}
	}
}

// textsOf lists the texts in a package's code, but for those of panics, which programmers read.
func textsOf(t *testing.T, p goPackage) (texts []string) {
	t.Helper()
	for _, file := range goFiles(t, p.Dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				called, named := call.Fun.(*ast.Ident)
				return !named || called.Name != "panic"
			}
			if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, text)
			}
			return true
		})
	}
	return texts
}

var (
	raceReason = regexp.MustCompile(`racetest\.Skip\(t, "([^"]*)"`)
	testBody   = regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}`)
	namedTest  = regexp.MustCompile(`Test\w+`)
	noneNeeded = regexp.MustCompile(`goroutine|runs nothing|stands for it`)
)

// A test that is kept from the race detector says which one has the same goroutines: that one exists, and is not kept
// from it itself. Else it says that there are none, or which packages have them.
func TestRaceReasons(t *testing.T) {
	t.Parallel()
	seen, reasons := map[string]bool{}, map[string]string{} // tests that the detector runs; reasons, by file
	for _, p := range packagesOfModule(t) {
		paths, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range testBody.FindAllStringSubmatch(string(raw), -1) {
				before, _, _ := strings.Cut(test[2], "t.Run(") // what skips the whole test
				if !strings.Contains(before, "racetest.Skip(") && !strings.Contains(before, "testing.Short()") {
					seen[test[1]] = true
				}
			}
			for _, reason := range raceReason.FindAllStringSubmatch(string(raw), -1) {
				reasons[reason[1]] = path
			}
		}
	}
	if len(reasons) == 0 {
		t.Fatal("no test is kept from the race detector")
	}
	for reason, path := range reasons {
		names := namedTest.FindAllString(reason, -1)
		if len(names) == 0 && !noneNeeded.MatchString(reason) {
			t.Errorf("%s: %q does not say which test lets the race detector see its goroutines", path, reason)
		}
		for _, name := range names {
			if !seen[name] {
				t.Errorf("%s: %q, but the race detector does not run %s", path, reason, name)
			}
		}
	}
}

// libraries are the packages that programs import.
func libraries(t *testing.T) []goPackage {
	t.Helper()
	return slices.DeleteFunc(packagesOfModule(t), func(p goPackage) bool {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		top, _, _ := strings.Cut(name, "/")
		return slices.Contains([]string{"cmd", "deploy", "bench", "examples"}, top) ||
			strings.HasPrefix(name, "internal/") && strings.HasSuffix(name, "test")
	})
}

// goFiles parses a folder's package without its tests.
func goFiles(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	goFile     = regexp.MustCompile(`^[a-z/0-9_]+\.(go|html|css|py)$`)
	goName     = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)(\.[A-Z]\w*)?$`)
	testName   = regexp.MustCompile(`^(Test|Fuzz|Example)[A-Z]\w*$`)
	fenced     = regexp.MustCompile("(?ms)^```.*?^```$")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// What pages name is there: files, functions and types in `backquotes`, tests, and whatever a link leads to.
func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	declared := map[string]map[string]bool{} // by the last part of the package's name
	tests := map[string]bool{}
	for _, p := range packagesOfModule(t) {
		names := declaredIn(t, p.Dir, tests)
		short := p.ImportPath[strings.LastIndexByte(p.ImportPath, '/')+1:]
		if strings.Contains(p.ImportPath, "/examples/") || p.ImportPath == module+"/cmd/unseen" {
			continue
		}
		declared[short] = names
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(pages, top...) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := fenced.ReplaceAllString(string(raw), "")
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			name := span[1]
			parts := goName.FindStringSubmatch(name)
			switch {
			case goFile.MatchString(name) && strings.Contains(name, "/"):
				if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
					t.Errorf("%s: there is no %s", path, name)
				}
			case testName.MatchString(name):
				if !tests[name] {
					t.Errorf("%s: there is no %s", path, name)
				}
			case parts != nil && declared[parts[1]] != nil:
				if !declared[parts[1]][parts[2]] {
					t.Errorf("%s: there is no %s", path, name)
				}
			}
		}
		for _, link := range linkTarget.FindAllStringSubmatch(text, -1) {
			if problem := wrongLink(path, string(raw), link[1]); problem != "" {
				t.Errorf("%s: %s", path, problem)
			}
		}
	}
}

// wrongLink says why a link of a page leads nowhere, "" if it does not or leads out of here.
func wrongLink(path, text, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(link, "#")
	if file != "" {
		path = filepath.Join(filepath.Dir(path), file)
		if _, err := os.Stat(path); err != nil {
			return "a link leads to " + link + ", which is not there"
		}
	}
	if anchor == "" {
		return ""
	}
	if file != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		text = string(raw)
	}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor {
			return ""
		}
	}
	return "a link leads to " + link + ", and there is no such heading"
}

// declaredIn returns the names that a folder's package declares at its top, and adds those of its tests.
func declaredIn(t *testing.T, dir string, tests map[string]bool) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					continue
				}
				if names[d.Name.Name] = true; strings.HasSuffix(path, "_test.go") {
					tests[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							names[name.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}
