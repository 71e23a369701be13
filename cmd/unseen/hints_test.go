package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/graph"
	"unseen/hint"
)

// command finds a command by its path.
func command(t *testing.T, path string) *cobra.Command {
	t.Helper()
	cmd, rest, err := newRoot().Find(strings.Fields(path))
	if err != nil || len(rest) > 0 {
		t.Fatalf("there is no command %q: %v", path, err)
	}
	return cmd
}

// Every flag that a hint can be turned into is one of the command's, and every setting of a hint has one.
func TestSettingsHaveFlags(t *testing.T) {
	t.Parallel()
	for setting, of := range settingFlags {
		for path := range strings.SplitSeq(of.commands, ",") {
			if command(t, path).Flags().Lookup(of.flag) == nil {
				t.Errorf("%s: unseen %s has no flag --%s", setting, path, of.flag)
			}
		}
	}
	for _, p := range libraries(t) {
		for _, file := range goFiles(t, p.Dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || len(call.Args) != 1 {
					return true
				}
				name, is := call.Fun.(*ast.SelectorExpr)
				literal, text := call.Args[0].(*ast.BasicLit)
				if !is || name.Sel.Name != "Setting" || !text || literal.Kind != token.STRING {
					return true
				}
				setting, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				if _, known := settingFlags[hint.Setting(setting)]; !known {
					t.Errorf("%s hints at the setting %q, and settingFlags does not know it", p.ImportPath, setting)
				}
				return true
			})
		}
	}
}

// The command lines that fix findings and errors can be run.
func TestFixesAreCommands(t *testing.T) {
	t.Parallel()
	lines := []string{"unseen check DIR --row-numbers --seal"}
	for _, line := range fixes {
		lines = append(lines, line)
	}
	for _, line := range lines {
		args := strings.Fields(line)[1:]
		cmd, rest, err := newRoot().Find(args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestHintsAreRenderedAsFlags(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("papers: %w", hint.Wrap(errors.New("links could be either"), "set %v, or %v",
		hint.Setting("rowNumbers"), hint.Setting("nobodysSetting")))
	for path, want := range map[string]string{
		"check": "papers: links could be either; set --row-numbers, or nobodysSetting",
		"fit":   "papers: links could be either; set --row-numbers, or nobodysSetting (unseen check)",
	} {
		if got := render(command(t, path), err); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// Links that could be ids or row numbers end with the command that settles it.
func TestAmbiguousLinksNameTheCommand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "my papers")
	// Ids that are whole numbers and not those of their rows, links by row number, and no manifest to say so.
	g := chain(t, 50, func(i int) graph.Node { return graph.Node{ID: fmt.Sprint(1000 + i), Field: "f", Title: "x"} })
	if _, err := dataset.Write(t.Context(), dir, dataset.Content{Graph: g}, dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, dataset.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := invoke("fit", dir)
	if code != exitFailure || !strings.Contains(stderr, "set --row-numbers, and seal") ||
		!strings.HasSuffix(stderr, ": unseen check '"+dir+"' --row-numbers --seal\n") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	code, page, stderr := invoke("check", dir, "--row-numbers", "--seal", "--quiet")
	if code != exitOK || !strings.Contains(page, "Sealed") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, dataset.ManifestFile)); err != nil {
		t.Error(err)
	}
}
