package sbom

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of nothing
	file := &fstest.MapFile{}
	got, err := Scripts(fstest.MapFS{"htmx-4.0.0.min.js": file, "htmx-4.0.0.LICENSE": file, "uplot-1.6.32.min.js": file,
		"uplot-1.6.32.min.css": file})
	want := []Script{{"htmx.org", "4.0.0", sum}, {"uplot", "1.6.32", sum}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := Scripts(fstest.MapFS{"latest.js": file}); err == nil || !strings.Contains(err.Error(), "latest.js") {
		t.Errorf("a script without a version: %v", err)
	}
}
