package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"unseen/internal/racetest"
)

// What a program can import shows no type that it cannot name: none of an internal package in an exported signature,
// field, method, variable or constant.
func TestExportedTypesCanBeNamed(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it reads sources, and runs nothing")
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Name}}", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	archives, public := map[string]string{}, []string{}
	for line := range strings.Lines(string(out)) {
		column := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		archives[column[0]] = column[1]
		ours := column[0] == module || strings.HasPrefix(column[0], module+"/")
		if ours && column[2] != "main" && !isInternal(column[0]) {
			public = append(public, column[0])
		}
	}
	if len(public) < 15 {
		t.Fatalf("found %d packages: %q", len(public), public)
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(archives[path])
	})
	for _, path := range public {
		p, err := load.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range internalTypes(p) {
			t.Error(leak)
		}
	}
}

// isInternal reports whether a package of this module may be imported by this module alone.
func isInternal(path string) bool {
	return strings.HasPrefix(path, module+"/") && slices.Contains(strings.Split(path, "/"), "internal")
}

// internalTypes lists the internal types that a package exports, each with where it shows.
func internalTypes(p *types.Package) (leaks []string) {
	var walk func(where string, t types.Type)
	name := func(where string, o *types.TypeName, arguments *types.TypeList) {
		if o.Pkg() != nil && isInternal(o.Pkg().Path()) {
			leaks = append(leaks, fmt.Sprintf("%s shows %s.%s", where, o.Pkg().Path(), o.Name()))
		}
		for a := range arguments.Types() {
			walk(where, a)
		}
	}
	fields := func(where string, s *types.Struct) {
		for f := range s.Fields() {
			if f.Exported() {
				walk(where+"."+f.Name(), f.Type())
			}
		}
	}
	walk = func(where string, t types.Type) {
		switch t := t.(type) {
		case *types.Alias:
			name(where, t.Obj(), t.TypeArgs())
			walk(where, t.Rhs())
		case *types.Named:
			name(where, t.Obj(), t.TypeArgs())
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels, maps
			if m, is := t.(*types.Map); is {
				walk(where, m.Key())
			}
			walk(where, t.Elem())
		case *types.Signature:
			for v := range t.Params().Variables() {
				walk(where, v.Type())
			}
			for v := range t.Results().Variables() {
				walk(where, v.Type())
			}
			for p := range t.TypeParams().TypeParams() {
				walk(where, p.Constraint())
			}
		case *types.Struct:
			fields(where, t)
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				if m.Exported() {
					walk(where+"."+m.Name(), m.Type())
				}
			}
			for e := range t.EmbeddedTypes() {
				walk(where, e)
			}
		case *types.Union:
			for term := range t.Terms() {
				walk(where, term.Type())
			}
		}
	}
	for _, n := range p.Scope().Names() {
		o := p.Scope().Lookup(n)
		if !o.Exported() {
			continue
		}
		where := p.Path() + "." + n
		named, is := o.Type().(*types.Named)
		if _, declares := o.(*types.TypeName); !declares || !is || named.Obj() != o {
			walk(where, o.Type())
			continue
		}
		walk(where, named.Underlying())
		for p := range named.TypeParams().TypeParams() {
			walk(where, p.Constraint())
		}
		methods := types.NewMethodSet(types.NewPointer(named)) // promoted ones as well
		for m := range methods.Methods() {
			if m.Obj().Exported() {
				walk(where+"."+m.Obj().Name(), m.Type())
			}
		}
	}
	return leaks
}

func TestExportedTypesSees(t *testing.T) {
	t.Parallel()
	own, other := "package p; import x \""+module+"/internal/x\"\n"+`
		type hidden = x.T
		type Fine struct { hidden; own x.T }
		func (Fine) Good() int { return 0 }
		func fine(x.T) {}
		type Field struct { Open []map[string]*x.T }
		type Interface interface { Do(func(...x.T)) }
		type Alias = x.T
		type Generic[N interface { x.T | int }] struct{}
		type Promoted struct { inner }
		type inner struct{}
		func (inner) Leak() x.T { return x.T{} }
		func Use(Generic[int]) (struct { Deep chan x.T }, error) { panic(0) }
		var Value = x.T{}`, "package x; type T struct{}"
	files := token.NewFileSet()
	check := func(path, source string, load importFunc) *types.Package {
		file, err := parser.ParseFile(files, path+".go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p, err := (&types.Config{Importer: load}).Check(path, files, []*ast.File{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	internal := check(module+"/internal/x", other, nil)
	got := internalTypes(check(module+"/p", own, func(string) (*types.Package, error) { return internal, nil }))
	var want []string
	for _, where := range []string{"Alias", "Field.Open", "Generic", "Interface.Do", "Promoted.Leak", "Use.Deep",
		"Value"} {
		want = append(want, module+"/p."+where+" shows "+module+"/internal/x.T")
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

type importFunc func(path string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }
