// Command rename gives the module another path, so that the go command finds it where it is hosted: in every go.mod,
// import, document and script.
//
//	./rename-module HOST/PATH
//
// Afterwards ./check passes as before, and "go install HOST/PATH/cmd/unseen@latest" works once the commit
// is there. The command's name and the Python package stay.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rename-module:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: ./rename-module HOST/PATH, such as example.org/team/unseen")
	}
	changed, err := rename(".", args[0])
	if err != nil {
		return err
	}
	fmt.Printf("%d files changed; run ./check, and commit\n", changed)
	return nil
}

// rename changes the module at root to a path and returns how many files it wrote.
func rename(root, path string) (changed int, err error) {
	if err := module.CheckPath(path); err != nil {
		return 0, fmt.Errorf("%w; give the host and path of the repository, such as example.org/team/unseen", err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, err
	}
	old := modfile.ModulePath(raw)
	if path == old || strings.HasPrefix(path, old+"/") {
		return 0, fmt.Errorf("%s is %s already, or lies in it", path, old)
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	listed, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("git ls-files: %w; run it in the repository", err)
	}
	names := strings.Split(strings.TrimRight(string(listed), "\x00"), "\x00")
	r := renaming{old, path, mentions(old, names)}
	for _, name := range names {
		file := filepath.Join(root, name)
		at, err := os.Lstat(file)
		if errors.Is(err, os.ErrNotExist) || err == nil && !at.Mode().IsRegular() {
			continue // removed but not committed, or a link
		}
		if err != nil {
			return changed, err
		}
		before, err := os.ReadFile(file)
		if err != nil {
			return changed, err
		}
		after, err := r.in(filepath.Base(name), before)
		if err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
		if bytes.Equal(before, after) {
			continue
		}
		if err := os.WriteFile(file, after, at.Mode().Perm()); err != nil {
			return changed, err
		}
		changed++
	}
	return changed, nil
}

// mentions finds paths of the module's packages: its path and a top folder that has Go files, at the beginning of a
// path. Files such as cmd/unseen/main.go are none.
func mentions(old string, names []string) *regexp.Regexp {
	tops := []string{}
	for _, name := range names {
		if top, _, below := strings.Cut(name, "/"); below && strings.HasSuffix(name, ".go") {
			tops = append(tops, regexp.QuoteMeta(top))
		}
	}
	slices.Sort(tops)
	return regexp.MustCompile(`(^|[^-./~\w])` + regexp.QuoteMeta(old) + `/(` + strings.Join(slices.Compact(tops), "|") +
		`)\b`)
}

// renaming is an old path, a new one, and where the old one stands.
type renaming struct {
	old, path string
	mentions  *regexp.Regexp
}

// in returns the content of a file with the new path.
func (r renaming) in(name string, content []byte) ([]byte, error) {
	if name == "go.mod" {
		return r.inModule(content)
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return content, nil // no text
	}
	after := r.mentions.ReplaceAll(content, []byte("${1}"+r.path+"/${2}"))
	if bytes.Equal(content, after) || !strings.HasSuffix(name, ".go") {
		return after, nil
	}
	return format.Source(after) // sorts imports
}

// inModule is in for go.mod: of this module, or of another in the repository that needs it.
func (r renaming) inModule(content []byte) ([]byte, error) {
	f, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return nil, err
	}
	if below, is := strings.CutPrefix(f.Module.Mod.Path+"/", r.old+"/"); is {
		if err := f.AddModuleStmt(strings.TrimSuffix(r.path+"/"+below, "/")); err != nil {
			return nil, err
		}
	}
	for _, q := range f.Require {
		if q.Mod.Path == r.old {
			version := q.Mod.Version
			if err := errors.Join(f.DropRequire(r.old), f.AddRequire(r.path, version)); err != nil {
				return nil, err
			}
		}
	}
	for _, q := range f.Replace {
		if q.Old.Path == r.old {
			from, to := q.Old, q.New
			if err := errors.Join(f.DropReplace(r.old, from.Version),
				f.AddReplace(r.path, from.Version, to.Path, to.Version)); err != nil {
				return nil, err
			}
		}
	}
	f.Cleanup()
	f.SortBlocks()
	return f.Format()
}
