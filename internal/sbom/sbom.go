// Package sbom says what a Go program is made of, as a CycloneDX document that scanners for known faults read.
//
//	info, _ := debug.ReadBuildInfo()
//	document := sbom.Of(info, sbom.Program{Name: "unseen", Version: "v0.1.0"})
//	raw, err := json.MarshalIndent(document, "", "  ")
//
// It lists the modules that the linker recorded in the binary, with their versions and the sums of go.sum, the
// standard library, and the scripts that the program says are embedded in it. It knows nothing of licences.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// Program is what build information does not say.
type Program struct {
	Name, Version string
	Commit        string // may be ""
	Time          string // of the commit, RFC 3339; may be ""
	Scripts       []Script
}

// Of makes the document. The same binary always has the same, byte for byte.
func Of(info *debug.BuildInfo, p Program) *cyclonedx.BOM {
	program := component(cyclonedx.ComponentTypeApplication, "golang", p.Name, p.Version)
	properties := []cyclonedx.Property{{Name: "go:version", Value: info.GoVersion}}
	if p.Commit != "" {
		properties = append(properties, cyclonedx.Property{Name: "vcs:revision", Value: p.Commit})
	}
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" {
			properties = append(properties, cyclonedx.Property{Name: "go:" + s.Key, Value: s.Value})
		}
	}
	program.Properties = &properties
	const library = cyclonedx.ComponentTypeLibrary
	parts := []cyclonedx.Component{component(library, "golang", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(library, "golang", m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		parts = append(parts, c)
	}
	for _, script := range p.Scripts {
		c := component(library, "npm", script.Package, script.Version)
		c.Properties = &[]cyclonedx.Property{{Name: "file:sha256", Value: script.SHA256}}
		parts = append(parts, c)
	}
	slices.SortFunc(parts, func(a, b cyclonedx.Component) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	d := cyclonedx.NewBOM()
	d.JSONSchema, d.SpecVersion = "", cyclonedx.SpecVersion1_6
	d.Metadata = &cyclonedx.Metadata{Timestamp: p.Time, Component: &program}
	d.Components = &parts
	d.SerialNumber = serial(d)
	return d
}

func component(kind cyclonedx.ComponentType, registry, name, version string) cyclonedx.Component {
	at := purl(registry, name, version)
	return cyclonedx.Component{Type: kind, BOMRef: at, Name: name, Version: version, PackageURL: at}
}

// purl is a package URL in its canonical form, by which scanners look components up: (devel), @scope and + are escaped.
func purl(kind, name, version string) string {
	var b strings.Builder
	b.WriteString("pkg:" + kind + "/")
	escape := func(text string, keep string) {
		for _, c := range []byte(text) {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(keep, c) >= 0 {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
	}
	escape(name, ".-_~:/")
	b.WriteByte('@')
	escape(version, ".-_~:")
	return b.String()
}

// serial is a UUID (version 8, custom) of what the document says, so that equal documents have equal ones.
func serial(d *cyclonedx.BOM) string {
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts and numbers have a JSON form
	}
	sum := sha256.Sum256(raw)
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
