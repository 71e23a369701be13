package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/internal/racetest"
)

// What CONTRIBUTING.md asks of Go code and a program can see.
const (
	mostColumns    = 120 // of a line, a tab being 4
	mostLines      = 80  // of a function, unless its comment says why: "Long because …"
	mostParameters = 6   // of a function, unless it is assembly
	tabColumns     = 4
	longBecause    = "Long because "
)

// twins are Go functions with the parameters of an assembly stub that they stand in for.
var twins = map[string]bool{"internal/kern tile": true, "internal/kern tileGo": true}

// Lines, functions and lists of parameters have a length that can be read.
func TestStyle(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil || strings.HasPrefix(string(source), "// Code generated ") {
			return err
		}
		problems, err := badStyle(filepath.ToSlash(path[len(root)+1:]), source)
		for _, problem := range problems {
			t.Error(problem)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// badStyle lists the lines, functions and lists of parameters of a file that are too long.
func badStyle(path string, source []byte) (problems []string, err error) {
	bad := func(line int, format string, a ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: %s", path, line, fmt.Sprintf(format, a...)))
	}
	for k, line := range strings.Split(string(source), "\n") {
		if n := widthOf(line); n > mostColumns {
			bad(k+1, "the line has %d columns; wrap it at %d", n, mostColumns)
		}
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	line := func(p token.Pos) int { return files.Position(p).Line }
	long := func(f ast.Node, name string, comment *ast.CommentGroup) {
		n := line(f.End()) - line(f.Pos()) + 1
		if n > mostLines && !strings.Contains(comment.Text(), longBecause) {
			bad(line(f.Pos()), "%s has %d lines; divide it at %d, or say %q in its comment", name, n, mostLines,
				longBecause+"…")
		}
	}
	wide := func(f *ast.FuncType, name string) {
		if n := f.Params.NumFields(); n > mostParameters {
			bad(line(f.Pos()), "%s has %d parameters; put what belongs together into a struct", name, n)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch f := n.(type) {
		case *ast.FuncDecl:
			long(f, f.Name.Name, f.Doc)
			stub := f.Body == nil || twins[filepath.ToSlash(filepath.Dir(path))+" "+f.Name.Name]
			if !stub {
				wide(f.Type, f.Name.Name)
			}
		case *ast.CallExpr:
			if called, is := f.Fun.(*ast.SelectorExpr); is && called.Sel.Name == "Fuzz" {
				return false // a fuzzer has as many parameters as it varies
			}
		case *ast.FuncLit:
			wide(f.Type, "a function")
		case *ast.InterfaceType:
			for _, m := range f.Methods.List {
				if method, is := m.Type.(*ast.FuncType); is {
					wide(method, m.Names[0].Name)
				}
			}
		}
		return true
	})
	return problems, nil
}

// widthOf is how wide a line is in an editor.
func widthOf(line string) int {
	n := 0
	for _, r := range line {
		if n++; r == '\t' {
			n += tabColumns - 1
		}
	}
	return n
}

func TestStyleSees(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("\t_ = 0\n", mostLines-1)
	source := "package p\n\nfunc long() {\n" + body + "}\n\n// excused is that.\n//\n// Long because it is a table.\n" +
		"func excused() {\n" + body + "}\n\nfunc six(a, b, c int, d, e, f string) {}\n\n" +
		"func seven(a, b, c int, d, e, f, g string) {}\n\nfunc stub(a, b, c, d, e, f, g int)\n\n" +
		"var lit = func(a, b, c, d, e, f, g int) {}\n\ntype i interface{ m(a, b, c, d, e, f, g int) }\n\n" +
		"// " + strings.Repeat("π", mostColumns-3) + "\n//\t" + strings.Repeat("π", mostColumns-5) + "\n"
	got, err := badStyle("p/p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p/p.go:3: long has 81 lines", "seven has 7 parameters",
		"a function has 7 parameters", "m has 7 parameters", "the line has 121 columns"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q is not found in %q", want, got)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d problems, want 5: %q", len(got), got)
	}
}
