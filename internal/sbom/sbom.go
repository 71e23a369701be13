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
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// Program is what build information does not say.
type Program struct {
	Name, Version string
	Commit        string // may be ""
	Time          string // of the commit, RFC 3339; may be ""
	Scripts       []Script
}

// Script is a package of npm's of which a file is embedded in the program.
type Script struct {
	Package, Version string
	SHA256           string // of the file
}

// Document is a CycloneDX 1.6 bill of materials.
type Document struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   Metadata    `json:"metadata"`
	Components []Component `json:"components"`
}

// Metadata is about the program itself.
type Metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component Component `json:"component"`
}

// Component is the program, or a module in it.
type Component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []Property `json:"properties,omitempty"`
}

// Property is a name with a value.
type Property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Of makes the document. The same binary always has the same, byte for byte.
func Of(info *debug.BuildInfo, p Program) Document {
	d := Document{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: Metadata{Timestamp: p.Time, Component: component("application", p.Name, p.Version)}}
	d.Metadata.Component.Properties = []Property{{"go:version", info.GoVersion}}
	if p.Commit != "" {
		d.Metadata.Component.Properties = append(d.Metadata.Component.Properties, Property{"vcs:revision", p.Commit})
	}
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" {
			d.Metadata.Component.Properties = append(d.Metadata.Component.Properties, Property{"go:" + s.Key, s.Value})
		}
	}
	d.Components = []Component{component("library", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component("library", m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = []Property{{"go:sum", m.Sum}}
		}
		d.Components = append(d.Components, c)
	}
	for _, script := range p.Scripts {
		at := purl("npm", script.Package, script.Version)
		d.Components = append(d.Components, Component{Type: "library", Ref: at, Name: script.Package,
			Version: script.Version, PURL: at, Properties: []Property{{"file:sha256", script.SHA256}}})
	}
	slices.SortFunc(d.Components, func(a, b Component) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	d.Serial = serial(d)
	return d
}

func component(kind, name, version string) Component {
	at := purl("golang", name, version)
	return Component{Type: kind, Ref: at, Name: name, Version: version, PURL: at}
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
func serial(d Document) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v%+v", d.Metadata, d.Components))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
