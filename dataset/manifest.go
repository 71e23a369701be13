package dataset

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"unseen/graph"
)

// The files of a dataset.
const (
	ManifestFile  = "dataset.json"
	NodesFile     = "nodes.parquet"
	LinksFile     = "links.parquet"
	ExposuresFile = "exposures.parquet"
	VectorsFile   = "vectors.npy"
	IndexFile     = "index.bin" // made of the vectors by package index, and lost when a dataset is written again
	EncoderFile   = "encoder.safetensors"
)

// dataFiles are the files that the manifest describes.
var dataFiles = []string{NodesFile, LinksFile, ExposuresFile, VectorsFile, EncoderFile}

// Version is the format that Write writes and the latest that Open reads.
const Version = 1

// formatName distinguishes a dataset.json of this package from those of other programs.
const formatName = "unseen dataset"

// Manifest is dataset.json: what the dataset holds, what made it, and the checksums of its files.
type Manifest struct {
	Format    string `json:"format"`
	Version   int    `json:"version"`
	Nodes     int    `json:"nodes"`
	Links     int    `json:"links"`
	Exposures int    `json:"exposures"`
	// Sources and Targets count the nodes that can link and those that can be linked to, where these are not all.
	Sources   int  `json:"sources,omitempty"`
	Targets   int  `json:"targets,omitempty"`
	LinkTimes bool `json:"linkTimes,omitempty"` // links have times
	// Log is what the exposures mean for pairs that are not among them, where the import was told: see Content.Log.
	Log string `json:"log,omitempty"`
	// Fields are the names of the fields by index, from 1 on, so that a model finds them where it has
	// learned them. Index 0 is the field of nodes without one.
	Fields  []string        `json:"fields"`
	Vectors *VectorManifest `json:"vectors,omitempty"`
	// Encoder is what made the vectors from the texts, and makes those of new texts; nil where it is not kept.
	Encoder *EncoderManifest `json:"encoder,omitempty"`
	// Files are the data files by name. A dataset that was written by hand, without a manifest, has none.
	Files      map[string]FileManifest `json:"files"`
	Provenance Provenance              `json:"provenance"`
}

// VectorManifest says what was found when the vectors were written: all of them were read and are finite.
type VectorManifest struct {
	Dimension int    `json:"dimension"`
	Kind      string `json:"kind"` // float32 or float16
	Zero      int    `json:"zero"` // vectors of zeros
}

// EncoderManifest says what is in the file of the encoder.
type EncoderManifest struct {
	Kind string `json:"kind"` // as its package names it, such as builtin
}

// FileManifest is the size and the checksum of a file.
type FileManifest struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // as sha256sum prints it
}

// Provenance says where a dataset comes from. All of it is optional.
type Provenance struct {
	MadeBy  string    `json:"madeBy,omitempty"` // program and version
	Made    time.Time `json:"made,omitzero"`
	Command []string  `json:"command,omitempty"`
	Seed    *uint64   `json:"seed,omitempty"`   // where something was drawn
	Source  string    `json:"source,omitempty"` // what it was made from: an address, a paper, a licence
}

// UnmarshalJSON also reads made_by, the old name of madeBy.
func (p *Provenance) UnmarshalJSON(raw []byte) error {
	type plain Provenance
	old := struct {
		*plain
		MadeBy string `json:"made_by"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(raw, &old); err != nil {
		return err
	}
	p.MadeBy = cmp.Or(p.MadeBy, old.MadeBy)
	return nil
}

// Checksums are the SHA-256 of the data files by name: what sample.Origin.Files holds, so that a model
// recognises its dataset.
func (m *Manifest) Checksums() map[string]string {
	sums := make(map[string]string, len(m.Files))
	for name, file := range m.Files {
		sums[name] = file.SHA256
	}
	return sums
}

// describeSides says who can link and be linked to, where that is not everybody, and whether links have times.
func (m *Manifest) describeSides(g *graph.Graph) {
	if m.Sources, m.Targets = 0, 0; g.TwoSided() {
		m.Sources, m.Targets = len(g.Sources()), len(g.Targets())
	}
	m.LinkTimes = g.HasLinkTimes()
}

// bytes is the file's content, always the same for the same manifest.
func (m *Manifest) bytes() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(m)
	return b.Bytes(), err
}

// largestManifest holds the names of 65,535 fields, a thousand bytes each.
const largestManifest = 64 << 20

// parseManifest reads dataset.json and checks it against itself.
func parseManifest(r io.Reader) (*Manifest, error) {
	raw, err := io.ReadAll(io.LimitReader(r, largestManifest+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > largestManifest {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrFormat, largestManifest)
	}
	// A later version may have other types in other places, so it is read first and alone.
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	switch {
	case head.Format != formatName:
		return nil, fmt.Errorf("%w: its format is %.40q and not %q", ErrNotDataset, head.Format, formatName)
	case head.Version > Version:
		return nil, fmt.Errorf("%w: version %d, and this program reads up to %d", ErrVersion, head.Version, Version)
	case head.Version < 1:
		return nil, fmt.Errorf("%w: version %d", ErrFormat, head.Version)
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return m, m.check()
}

// check says what cannot be.
func (m *Manifest) check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, a...))
	}
	for _, c := range []struct {
		name  string
		count int
	}{{"nodes", m.Nodes}, {"links", m.Links}, {"exposures", m.Exposures}, {"sources", m.Sources},
		{"targets", m.Targets}} {
		if c.count < 0 {
			return bad("%s is %d", c.name, c.count)
		}
	}
	if m.Nodes > math.MaxInt32 {
		return bad("nodes is %d, and there can be %d", m.Nodes, math.MaxInt32)
	}
	if len(m.Fields) > math.MaxUint16 {
		return bad("%d fields, and there can be %d", len(m.Fields), math.MaxUint16)
	}
	seen := make(map[string]bool, len(m.Fields))
	for k, name := range m.Fields {
		if name == "" || name == unknownField || seen[name] {
			return bad("field %d is %.40q, which is empty, reserved or there twice", k+1, name)
		}
		seen[name] = true
	}
	if v := m.Vectors; v != nil {
		if v.Dimension < 1 || v.Dimension > math.MaxInt32 || v.Kind != "float32" && v.Kind != "float16" ||
			v.Zero < 0 || v.Zero > m.Nodes {
			return bad("vectors of kind %.40q and dimension %d, %d of %d zero", v.Kind, v.Dimension, v.Zero, m.Nodes)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		file := m.Files[name]
		if !slices.Contains(dataFiles, name) {
			return bad("a file %.40q, which is none of a dataset's", name)
		}
		if sum, err := hex.DecodeString(file.SHA256); err != nil || len(sum) != 32 || file.Bytes < 0 {
			return bad("file %s of %d bytes has the SHA-256 %.80q", name, file.Bytes, file.SHA256)
		}
	}
	has := func(name string) bool { _, has := m.Files[name]; return has }
	switch {
	case !has(NodesFile) || !has(LinksFile):
		return bad("files lack %s or %s", NodesFile, LinksFile)
	case has(VectorsFile) != (m.Vectors != nil):
		return bad("vectors and the file %s do not go together", VectorsFile)
	case has(EncoderFile) != (m.Encoder != nil):
		return bad("encoder and the file %s do not go together", EncoderFile)
	case m.Encoder != nil && (m.Encoder.Kind == "" || m.Vectors == nil):
		return bad("an encoder of kind %.40q, and vectors: %t", m.Encoder.Kind, m.Vectors != nil)
	case !has(ExposuresFile) && m.Exposures > 0:
		return bad("%d exposures and no file %s", m.Exposures, ExposuresFile)
	}
	return nil
}

// manifestFix says what to do about a manifest that cannot be read.
func manifestFix(err error) string {
	switch {
	case errors.Is(err, ErrVersion):
		return "use a newer unseen, or write the dataset again with this one"
	case errors.Is(err, ErrNotDataset):
		return "name the folder of a dataset"
	}
	return "import the dataset again; or move this file away, and all others are checked in full"
}

// unknownField is the name of graph.UnknownField.
const unknownField = "unknown"
