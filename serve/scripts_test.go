package serve

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// Every script of others is named with its version, and its terms lie beside it.
func TestScripts(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range Scripts() {
		names = append(names, s.Package+"@"+s.Version)
		if len(s.SHA256) != 64 {
			t.Errorf("%s has the sum %q", s.Package, s.SHA256)
		}
	}
	entries, err := fs.ReadDir(pageFiles, vendored)
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".js") {
			continue
		}
		scripts++
		terms := strings.TrimSuffix(e.Name(), ".min.js") + ".LICENSE"
		if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == terms }) {
			t.Errorf("%s has no %s beside it", e.Name(), terms)
		}
	}
	if scripts == 0 || scripts != len(names) {
		t.Errorf("%d scripts, and named are %v", scripts, names)
	}
}
