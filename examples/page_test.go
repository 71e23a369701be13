package examples

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updatePage = flag.Bool("update-page", false, "write the code of examples into docs/go.md")

// codeBlock is a block of Go with the comment before it, which names its source: a file and declarations in it.
var codeBlock = regexp.MustCompile("(?:<!-- (\\S+) ([^>]+) -->\n)?```go\n((?s).*?)```\n")

// The code on docs/go.md is that of examples that tests run. To update the page:
//
//	go test ./examples -run TestGoPage -update-page
func TestGoPage(t *testing.T) {
	t.Parallel()
	const path = "../docs/go.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, blocks := string(raw), 0
	page = codeBlock.ReplaceAllStringFunc(page, func(block string) string {
		m := codeBlock.FindStringSubmatch(block)
		blocks++
		if m[1] == "" {
			t.Errorf("a block does not name its source:\n%s", block)
			return block
		}
		var parts []string
		for name := range strings.FieldsSeq(m[2]) {
			parts = append(parts, declared(t, filepath.Join("..", m[1]), name))
		}
		want := strings.Join(parts, "\n")
		if m[3] != want && !*updatePage {
			t.Errorf("%s of %s is not as the page shows it:\n%s", m[2], m[1], want)
		}
		return "<!-- " + m[1] + " " + m[2] + " -->\n```go\n" + want + "```\n"
	})
	if blocks < 5 {
		t.Errorf("%d blocks", blocks)
	}
	if *updatePage {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Errors that the page names exist.
	for _, m := range regexp.MustCompile("`([a-z/]+)\\.(Err[A-Za-z]+)`").FindAllStringSubmatch(page, -1) {
		if !declares(t, filepath.Join("..", m[1]), m[2]) {
			t.Errorf("package %s has no %s", m[1], m[2])
		}
	}
}

// declared returns the code of a declaration; of an Example the body, without the expected output.
func declared(t *testing.T, path, name string) string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	text := func(from, to token.Pos) string {
		return string(source[set.Position(from).Offset:set.Position(to).Offset])
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			own := d.Name.Name
			if d.Recv != nil { // of a method: Type.Name
				own = strings.TrimPrefix(text(d.Recv.List[0].Type.Pos(), d.Recv.List[0].Type.End()), "*") + "." + own
			}
			if own != name {
				continue
			}
			if !strings.HasPrefix(name, "Example") {
				return text(d.Pos(), d.End()) + "\n"
			}
			body, _, _ := strings.Cut(text(d.Body.Lbrace+1, d.Body.Rbrace), "\t// Output:")
			return strings.ReplaceAll(strings.TrimPrefix(body, "\n\t"), "\n\t", "\n")
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == name {
					return text(d.Pos(), d.End()) + "\n"
				}
			}
		}
	}
	t.Fatalf("%s declares no %s", path, name)
	return ""
}

// declares tells whether a package has a variable of that name.
func declares(t *testing.T, folder, name string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Errorf("no package in %s (%v)", folder, err)
		return false
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					for _, n := range spec.(*ast.ValueSpec).Names {
						if n.Name == name {
							return true
						}
					}
				}
			}
		}
	}
	return false
}
