package sbom

import (
	"encoding/json"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func built() *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.1",
		Deps: []*debug.Module{
			{Path: "z.example/late", Version: "v1.0.0", Sum: "h1:z="},
			{Path: "a.example/old", Version: "v1.0.0", Replace: &debug.Module{Path: "a.example/new",
				Version: "v2.0.0+incompatible", Sum: "h1:a="}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "-compiler", Value: "gc"}},
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	d := Of(built(), Program{Name: "unseen", Version: "v0.1.0", Commit: "abc", Time: "2026-11-15T00:00:00Z",
		Scripts: []Script{{"htmx.org", "4.0.0", "ff"}}})
	var names []string
	for _, c := range *d.Components {
		names = append(names, c.PackageURL)
	}
	if want := "pkg:golang/a.example/new@v2.0.0%2Bincompatible pkg:npm/htmx.org@4.0.0 pkg:golang/std@1.26.1 " +
		"pkg:golang/z.example/late@v1.0.0"; strings.Join(names, " ") != want {
		t.Errorf("got %q, want %q", names, want)
	}
	type property = cyclonedx.Property
	if got := *(*d.Components)[0].Properties; got[0] != (property{Name: "go:sum", Value: "h1:a="}) {
		t.Errorf("the sum is lost: %+v", got)
	}
	want := []property{{Name: "go:version", Value: "go1.26.1"}, {Name: "vcs:revision", Value: "abc"},
		{Name: "go:GOOS", Value: "linux"}}
	if got := *d.Metadata.Component.Properties; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	raw, err := json.Marshal(d)
	if err != nil || !strings.HasPrefix(string(raw),
		`{"bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":"urn:uuid:`) {
		t.Errorf("%v, %s", err, raw)
	}
}

// The serial number is a UUID that follows from the content.
func TestSerial(t *testing.T) {
	t.Parallel()
	p := Program{Name: "unseen", Version: "v0.1.0"}
	a, b := Of(built(), p), Of(built(), p)
	if a.SerialNumber != b.SerialNumber {
		t.Errorf("%s and %s", a.SerialNumber, b.SerialNumber)
	}
	uuid := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !uuid.MatchString(a.SerialNumber) {
		t.Errorf("no UUID: %s", a.SerialNumber)
	}
	changed := built()
	changed.Deps[0].Version = "v1.0.1"
	if Of(changed, p).SerialNumber == a.SerialNumber {
		t.Error("another module, and the same serial number")
	}
}
