package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"unseen/internal/safetensors"
)

// Model is the content of a model file: both models with their parameters, how they were fitted, and how
// far they can be trusted.
type Model struct {
	Link             LinkModel
	LinkParams       []float32
	Propensity       PropensityModel
	PropensityParams []float32

	// Members are the assumptions that explain the links as well, the published one among them; see Ranker. None where
	// they were not compared, and of files of earlier versions.
	Members    []MemberModel
	Popularity []float32 // that of the nodes, where a member has a slope of it; nil where it is not known

	Method          string          // how it was fitted, such as "mle", "rw" or "bayes"
	Hyperparameters json.RawMessage // of the method; a JSON document, as are the two below
	Seed            uint64
	DataChecksum    string          // of what it was fitted to
	Data            json.RawMessage // which data that was and how its pairs were drawn; a JSON document
	Findings        json.RawMessage // the doctor's
	Certificate     json.RawMessage // of the risk
	// Extra is more, such as "posterior.V"; no name begins with "link.", "propensity." or that of a member, "member1.".
	Extra []Tensor
}

// The keys of a model file's metadata. Fields is a JSON array of the fields' names, Findings,
// Certificate, Hyperparameters and the options are JSON documents, the rest is plain text.
const (
	KeyFormat            = "format" // always "unseen-model"
	KeyVersion           = "format_version"
	KeyMethod            = "method"
	KeyLink              = "link"
	KeyLinkOptions       = "link_options"
	KeyPropensity        = "propensity"
	KeyPropensityOptions = "propensity_options"
	KeyHyperparameters   = "hyperparameters"
	KeySeed              = "seed"
	KeyDataChecksum      = "data_checksum"
	KeyData              = "data"
	KeyDim               = "dim"         // of the vectors
	KeyFieldCount        = "field_count" // the unknown field counted
	KeyFields            = "fields"      // absent where the names were not known
	KeyFindings          = "findings"
	KeyCertificate       = "certificate"
	KeyMembers           = "members" // a JSON array with the name of every member; absent where there are none
)

const (
	formatName       = "unseen-model"
	formatVersion    = "1"
	linkPrefix       = "link."
	propensityPrefix = "propensity."
)

// savedModel is a model of this package, which a file can keep.
type savedModel interface {
	PairModel
	Layout
	// madeFor returns the nodes; empty for a model that uses none.
	madeFor() Nodes
	// options returns LinkOptions or PropensityOptions that make the same model again.
	options() any
}

type savedLink interface {
	LinkModel
	savedModel
}

type savedPropensity interface {
	PropensityModel
	savedModel
}

var (
	_ = []savedLink{(*Diagonal)(nil), (*LowRank)(nil), (*MLP)(nil), (*Cosine)(nil), (*Factors)(nil),
		(*CrossBonus)(nil)}
	_ = []savedPropensity{(*FieldMatrix)(nil), (*LowRankFields)(nil), (*FieldMLP)(nil), (*Known)(nil), (*Constant)(nil),
		(*Covariates)(nil)}
	_ = []VectorQuery{(*Diagonal)(nil), (*LowRank)(nil), (*vectorCrossBonus)(nil)}
	_ = []InnerProduct{(*Factors)(nil), (*innerCrossBonus)(nil)}
	_ = []LearnedTerms{(*FieldMatrix)(nil), (*LowRankFields)(nil), (*Constant)(nil), (*Covariates)(nil)}
	_ = []tabular{(*Known)(nil), (*Covariates)(nil)}
)

// tabular is a model that rests on tables as well as on parameters.
type tabular interface{ tables() []Tensor }

// Save writes a model to one safetensors file, as [File.Save] does.
func Save(path string, m Model) error {
	f, err := m.File()
	if err != nil {
		return err
	}
	return f.Save(path)
}

// File returns the model as tensors and metadata. The names of the fields are those of the link
// model's nodes.
func (m Model) File() (*File, error) {
	link, ok := m.Link.(savedLink)
	if !ok {
		return nil, fmt.Errorf("%w: a file cannot keep the link model %T; make one with NewLink", ErrKind, m.Link)
	}
	propensity, ok := m.Propensity.(savedPropensity)
	if !ok {
		return nil, fmt.Errorf("%w: a file cannot keep the propensity model %T; make one with NewPropensity, "+
			"\"constant\" if there is none", ErrKind, m.Propensity)
	}
	nodes := link.madeFor()
	if other := propensity.madeFor(); other.FieldCount != 0 && other.FieldCount != nodes.FieldCount {
		return nil, fmt.Errorf("%w: the link model knows %d fields and the propensity %d; make both for the same "+
			"nodes", ErrShape, nodes.FieldCount, other.FieldCount)
	}
	f := &File{Metadata: map[string]string{
		KeyFormat: formatName, KeyVersion: formatVersion,
		KeyMethod: m.Method, KeySeed: strconv.FormatUint(m.Seed, 10), KeyDataChecksum: m.DataChecksum,
		KeyLink: link.Kind(), KeyPropensity: propensity.Kind(),
		KeyDim: strconv.Itoa(nodes.Dim()), KeyFieldCount: strconv.Itoa(nodes.FieldCount),
	}}
	documents := map[string]any{KeyLinkOptions: link.options(), KeyPropensityOptions: propensity.options()}
	if nodes.FieldNames != nil {
		documents[KeyFields] = nodes.FieldNames
	}
	if len(m.Members) > 0 {
		documents[KeyMembers] = m.Members
	}
	for key, text := range map[string]json.RawMessage{KeyHyperparameters: m.Hyperparameters, KeyData: m.Data,
		KeyFindings: m.Findings, KeyCertificate: m.Certificate} {
		if len(text) > 0 {
			documents[key] = text
		}
	}
	for _, key := range slices.Sorted(maps.Keys(documents)) {
		text, err := safetensors.JSON(documents[key])
		if err != nil {
			return nil, fmt.Errorf("%w: the %s are not JSON: %w; pass what json.Marshal returns", ErrOption, key, err)
		}
		f.Metadata[key] = text
	}
	if err := f.add(linkPrefix, link, m.LinkParams); err != nil {
		return nil, err
	}
	if err := f.add(propensityPrefix, propensity, m.PropensityParams); err != nil {
		return nil, err
	}
	if err := f.addMembers(link, m.Members); err != nil {
		return nil, err
	}
	for _, t := range m.Extra {
		if own(t.Name) {
			return nil, fmt.Errorf("%w: extra tensor %q; names in %s, %s and %s are the models' own", ErrOption, t.Name,
				linkPrefix, propensityPrefix, memberPrefix(0))
		}
		f.Tensors = append(f.Tensors, t)
	}
	return f, nil
}

// own reports whether a tensor's name is of a model rather than of what is extra.
func own(name string) bool {
	return strings.HasPrefix(name, linkPrefix) || strings.HasPrefix(name, propensityPrefix) || isMember(name)
}

// add appends a model's parameters, a tensor per part, and its tables.
func (f *File) add(prefix string, m savedModel, params []float32) error {
	if len(params) != m.Size() {
		return fmt.Errorf("%w: %d parameters of a %s%s, which has %d", ErrShape, len(params), prefix, m.Kind(),
			m.Size())
	}
	for _, part := range m.Parts() {
		t := Tensor{prefix + part.Name, part.Shape, params[:part.Size():part.Size()]}
		params = params[part.Size():]
		if err := checkFinite(t); err != nil {
			return fmt.Errorf("%w; the fit has diverged: lower its learning rate or raise its prior", err)
		}
		f.Tensors = append(f.Tensors, t)
	}
	if m, ok := m.(tabular); ok {
		for _, t := range m.tables() {
			t.Name = prefix + t.Name
			f.Tensors = append(f.Tensors, t)
		}
	}
	return nil
}

func checkFinite(t Tensor) error {
	for k, x := range t.Data.([]float32) {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("%w: element %d of %s is %v", ErrNotFinite, k, t.Name, x)
		}
	}
	return nil
}

// Model makes everything in the file again, for the nodes it was trained on or for others with the
// same fields and vectors of the same kind.
func (f *File) Model(n Nodes) (Model, error) {
	m := Model{Method: f.Metadata[KeyMethod], DataChecksum: f.Metadata[KeyDataChecksum]}
	var err error
	if m.Link, m.LinkParams, err = f.Link(n); err != nil {
		return Model{}, err
	}
	if m.Propensity, m.PropensityParams, err = f.Propensity(n); err != nil {
		return Model{}, err
	}
	if m.Members, err = f.members(n, m.Link); err != nil {
		return Model{}, err
	}
	if slices.ContainsFunc(m.Members, func(member MemberModel) bool { return member.Popularity != 0 }) {
		m.Popularity = n.Popularity
	}
	if m.Seed, err = strconv.ParseUint(f.Metadata[KeySeed], 10, 64); err != nil {
		return Model{}, f.faulty(KeySeed, err)
	}
	for _, d := range []struct {
		key  string
		into *json.RawMessage
	}{{KeyHyperparameters, &m.Hyperparameters}, {KeyData, &m.Data}, {KeyFindings, &m.Findings},
		{KeyCertificate, &m.Certificate}} {
		text, ok := f.Metadata[d.key]
		if ok && !json.Valid([]byte(text)) {
			return Model{}, f.faulty(d.key, fmt.Errorf("not JSON"))
		}
		if ok {
			*d.into = json.RawMessage(text)
		}
	}
	for _, t := range f.Tensors {
		if !own(t.Name) {
			m.Extra = append(m.Extra, t)
		}
	}
	return m, nil
}

// Link makes the file's link model again, with its parameters.
func (f *File) Link(n Nodes) (LinkModel, []float32, error) {
	if err := f.check(n); err != nil {
		return nil, nil, err
	}
	var options LinkOptions
	if err := f.document(KeyLinkOptions, &options); err != nil {
		return nil, nil, err
	}
	m, err := NewLink(f.Metadata[KeyLink], n, options)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.name(), err)
	}
	params, err := f.params(linkPrefix, m.(savedModel))
	if err != nil {
		return nil, nil, err
	}
	return m, params, nil
}

// Propensity makes the file's propensity model again, with its parameters.
func (f *File) Propensity(n Nodes) (PropensityModel, []float32, error) {
	if err := f.check(n); err != nil {
		return nil, nil, err
	}
	var options PropensityOptions
	if err := f.document(KeyPropensityOptions, &options); err != nil {
		return nil, nil, err
	}
	kind := f.Metadata[KeyPropensity]
	if base, _, _ := strings.Cut(kind, "+"); base == "known" {
		var err error
		if options.Exposures, err = f.exposures(); err != nil {
			return nil, nil, err
		}
	}
	m, err := NewPropensity(kind, n, options)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.name(), err)
	}
	params, err := f.params(propensityPrefix, m.(savedModel))
	if err != nil {
		return nil, nil, err
	}
	return m, params, nil
}

// check compares what the model was made for with the nodes.
func (f *File) check(n Nodes) error {
	if format, version := f.Metadata[KeyFormat], f.Metadata[KeyVersion]; format != formatName ||
		version != formatVersion {
		return fmt.Errorf("%w: %s: metadata: format %q version %q, not %q version %q; read it with the unseen "+
			"that wrote it, or fit the model again",
			ErrFile, f.name(), format, version, formatName, formatVersion)
	}
	dim, err := strconv.Atoi(f.Metadata[KeyDim])
	if err != nil {
		return f.faulty(KeyDim, err)
	}
	if n.Vectors != nil && n.Dim() != dim {
		return fmt.Errorf("%w: %s: it is made for vectors of dimension %d, the nodes' have %d; encode the nodes "+
			"as they were when it was fitted", ErrNodes, f.name(), dim, n.Dim())
	}
	count, err := strconv.Atoi(f.Metadata[KeyFieldCount])
	if err != nil {
		return f.faulty(KeyFieldCount, err)
	}
	var names []string
	if _, known := f.Metadata[KeyFields]; known {
		if err := f.document(KeyFields, &names); err != nil {
			return err
		}
		if len(names) != count {
			return f.faulty(KeyFields, fmt.Errorf("%d names for %d fields", len(names), count))
		}
	}
	if count != n.FieldCount {
		return fmt.Errorf("%w: %s: it knows %d fields, the nodes have %d%s; fit it on these nodes", ErrNodes, f.name(),
			count, n.FieldCount, missing(names, n.FieldNames))
	}
	for k := range min(len(names), len(n.FieldNames)) {
		if names[k] != n.FieldNames[k] {
			return fmt.Errorf("%w: %s: its field %d is %q, the nodes' is %q; fit it on these nodes, or number "+
				"the fields as then", ErrNodes, f.name(), k, names[k], n.FieldNames[k])
		}
	}
	return nil
}

// missing names a field that only one side knows, where names are known.
func missing(model, nodes []string) string {
	if model == nil || nodes == nil {
		return ""
	}
	for _, name := range nodes {
		if !slices.Contains(model, name) {
			return fmt.Sprintf(" (%q is new)", name)
		}
	}
	for _, name := range model {
		if !slices.Contains(nodes, name) {
			return fmt.Sprintf(" (%q is gone)", name)
		}
	}
	return ""
}

// name is what messages call the file.
func (f *File) name() string { return cmp.Or(f.path, "the model") }

// document reads JSON in the metadata; an unknown member is an error.
func (f *File) document(key string, into any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(f.Metadata[key])))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return f.faulty(key, err)
	}
	return nil
}

func (f *File) faulty(key string, err error) error {
	return fmt.Errorf("%w: %s: metadata %q: %w; read it with the unseen that wrote it, or fit the model again", ErrFile,
		f.name(), key, err)
}

// params puts the tensors of a model's parts together.
func (f *File) params(prefix string, m savedModel) ([]float32, error) {
	var params []float32
	for _, part := range m.Parts() {
		numbers, err := numbersOf[float32](f, prefix+part.Name, part.Shape)
		if err != nil {
			return nil, err
		}
		if err := checkFinite(Tensor{prefix + part.Name, part.Shape, numbers}); err != nil {
			return nil, fmt.Errorf("%w: %s: %w; fit the model again", ErrFile, f.name(), err)
		}
		params = append(params, numbers...)
	}
	return params, nil
}

// exposures reads the table of a known propensity.
func (f *File) exposures() ([]KnownExposure, error) {
	t, _ := f.Tensor(propensityPrefix + "known.source")
	shape := []int{ParameterBlock{Shape: t.Shape}.Size()}
	sources, err := numbersOf[int32](f, propensityPrefix+"known.source", shape)
	if err != nil {
		return nil, err
	}
	targets, err := numbersOf[int32](f, propensityPrefix+"known.target", shape)
	if err != nil {
		return nil, err
	}
	known, err := numbersOf[float64](f, propensityPrefix+"known.propensity", shape)
	if err != nil {
		return nil, err
	}
	return exposuresOf(sources, targets, known), nil
}

// numbersOf returns the numbers of a tensor that must have a shape.
func numbersOf[T any](f *File, name string, shape []int) ([]T, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s: there is no tensor %q; fit the model again", ErrFile, f.name(), name)
	}
	numbers, ok := t.Data.([]T)
	if !ok || !slices.Equal(t.Shape, shape) {
		return nil, fmt.Errorf("%w: %s: tensor %q is a %T of shape %v, not a %T of shape %v; fit the model again",
			ErrFile, f.name(), name, t.Data, t.Shape, numbers, shape)
	}
	return numbers, nil
}
