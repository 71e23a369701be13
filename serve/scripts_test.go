package serve

import (
	"io/fs"
	"strings"
	"testing"
)

// The terms of every third-party script lie beside it.
func TestScripts(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(Scripts(), "*.js")
	if err != nil || len(names) == 0 {
		t.Fatalf("scripts %v: %v", names, err)
	}
	for _, name := range names {
		if _, err := fs.Stat(Scripts(), strings.TrimSuffix(name, ".min.js")+".LICENSE"); err != nil {
			t.Error(err)
		}
	}
}
