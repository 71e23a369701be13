package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"unseen/dataset"
	"unseen/encode"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
)

// Errors of this package wrap one of these, those of the packages that it calls, or say all that there is to say.
var (
	// ErrVectors: the dataset has no vectors.
	ErrVectors = errors.New("no vectors")
	// ErrModel: the model was not fitted to this dataset, or does not say so.
	ErrModel = errors.New("not a model of this dataset")
	// ErrNothingHeld: the model was fitted to the whole of its data.
	ErrNothingHeld = errors.New("nothing was held out")
)

// Network is a dataset with vectors, to learn from, to judge by or to recommend in. It may be used by many goroutines
// at once.
type Network struct {
	*dataset.Dataset
	folder string
	log    *fit.Log
	files  map[string]string

	mu     sync.Mutex
	fields map[string]*graph.Graph // the graph with the fields that models learned by, by the way they were found
	texts  *encode.LSA
}

// Open opens a dataset, which must have vectors.
func Open(ctx context.Context, folder string, o dataset.OpenOptions) (*Network, error) {
	d, err := dataset.Open(ctx, folder, o)
	if err != nil {
		return nil, err
	}
	n := &Network{Dataset: d, folder: folder, fields: map[string]*graph.Graph{}}
	if err := n.fill(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return n, nil
}

func (n *Network) fill(ctx context.Context) error {
	if n.Graph().Vectors() == nil {
		return told(ErrVectors, "%s has no vectors; make them of its texts: unseen encode %s", n.folder, n.folder)
	}
	var err error
	if n.files, err = n.Checksums(ctx); err != nil {
		return err
	}
	e, err := n.Exposures(ctx)
	if err != nil || e == nil {
		return err
	}
	n.log = &fit.Log{Source: e.Source, Target: e.Target, Exposed: e.Exposed, Linked: e.Linked}
	return nil
}

// Close gives everything back.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts != nil {
		n.texts.Close()
		n.texts = nil
	}
	return n.Dataset.Close()
}

// Folder is where the dataset is.
func (n *Network) Folder() string { return n.folder }

// Log is what the dataset says was shown; nil if it says nothing.
func (n *Network) Log() *fit.Log { return n.log }

// Files are the SHA-256 of the dataset's files, by name.
func (n *Network) Files() map[string]string { return n.files }

// Document returns the title and text of a node.
func (n *Network) Document(i int32) (encode.Text, error) {
	text, err := n.Text(i)
	return encode.Text{Title: n.Graph().Title(i), Body: text}, err
}

// OpenTexts reads the encoder that made the vectors, if it is kept and of a kind that needs nothing else. Recommenders
// that are made afterwards know new texts, and which words speak for an item. It tells whether there is one.
func (n *Network) OpenTexts() (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts != nil {
		return true, nil
	}
	if m := n.Manifest().Encoder; m == nil || m.Kind != encode.Kind {
		return false, nil
	}
	file, err := n.Encoder()
	if err != nil || file == nil {
		return false, err
	}
	n.texts, err = encode.Read(file, file.Size())
	return err == nil, err
}

// encoder is the one that OpenTexts has read, or nil.
func (n *Network) encoder() *encode.LSA {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.texts
}

// WithFields returns the graph with the fields that models of such data learn by. They are found once. Here and in the
// other methods, 0 threads mean all processors; results do not depend on it.
func (n *Network) WithFields(ctx context.Context, d fit.Data, threads int) (*graph.Graph, error) {
	if d.Fields == (fit.FieldsBy{}) {
		return n.Graph(), nil
	}
	key, err := json.Marshal([]any{d.Fields, d.Drawing})
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.fields[string(key)]; g != nil {
		return g, nil
	}
	g, err := d.WithFields(ctx, n.Graph(), threads)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.folder, err)
	}
	n.fields[string(key)] = g
	return g, nil
}

// Prepare finds the fields and draws the pairs to learn from, with the log of the dataset and the
// checksums of its files: a model of the problem is one of this network. The graph that it returns
// has the fields.
func (n *Network) Prepare(ctx context.Context, d fit.Data, threads int) (*graph.Graph, *fit.Drawn, error) {
	d.Files = n.files
	return n.draw(ctx, d, threads)
}

func (n *Network) draw(ctx context.Context, d fit.Data, threads int) (*graph.Graph, *fit.Drawn, error) {
	g, err := n.WithFields(ctx, d, threads)
	if err != nil {
		return nil, nil, err
	}
	drawn, err := d.Draw(g, n.log)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", n.folder, err)
	}
	return g, drawn, nil
}

// Fitted is a model file that was fitted to a network.
type Fitted struct {
	*model.File
	Path string
	Data fit.Data // which pairs it was fitted to
	n    *Network
}

// Model opens a model file, which must have been fitted to this dataset. One that does not know its
// files is held against the pairs that the dataset gives, which takes as long as drawing them.
func (n *Network) Model(ctx context.Context, path string) (*Fitted, error) {
	file, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	data, known, err := fit.DataOf(model.Model{Data: json.RawMessage(file.Metadata[model.KeyData])})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w; fit it anew", path, err)
	case !known:
		return nil, told(ErrModel, "%s does not say which pairs it was fitted to, as one of a generated world "+
			"or of pairs made by hand does not; fit one to %s: unseen fit, or Network.Prepare in Go", path, n.folder)
	}
	f, compared := &Fitted{file, path, data, n}, false
	for _, name := range slices.Sorted(maps.Keys(data.Files)) {
		sum, here := n.files[name]
		compared = compared || here
		if here && sum != data.Files[name] {
			return nil, told(ErrModel, "%s was fitted to another %s than that of %s (SHA-256 %.12s…, not "+
				"%.12s…); fit it anew, or name its own dataset", path, name, n.folder, data.Files[name], sum)
		}
	}
	if compared {
		return f, nil
	}
	_, drawn, err := n.draw(ctx, data, 0)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, told(ErrModel, "%s does not say which files it was fitted to, and its pairs cannot be drawn "+
			"again: %v; fit it anew", path, err)
	}
	if err := f.drawnFrom(drawn); err != nil {
		return nil, err
	}
	return f, nil
}

// drawnFrom refuses a model of other pairs.
func (f *Fitted) drawnFrom(drawn *fit.Drawn) error {
	sum, own := drawn.Problem.Checksum(), f.Metadata[model.KeyDataChecksum]
	if sum == own {
		return nil
	}
	return told(ErrModel, "%s was fitted to other pairs than %s gives (checksum %.12s…, not %.12s…); fit it "+
		"anew on this dataset", f.Path, f.n.folder, own, sum)
}

// On returns the model of some nodes: those of another model's graph, to compare the two.
func (f *Fitted) On(nodes model.Nodes) (model.Model, error) { return f.File.Model(nodes) }

// Held draws the pairs again that the model was fitted to, and those that were held out, with the graph that has the
// model's fields.
func (f *Fitted) Held(ctx context.Context, threads int) (*graph.Graph, *fit.Drawn, model.Model, error) {
	fail := func(err error) (*graph.Graph, *fit.Drawn, model.Model, error) { return nil, nil, model.Model{}, err }
	g, drawn, err := f.n.draw(ctx, f.Data, threads)
	if err != nil {
		return fail(err)
	}
	if drawn.Split == nil || drawn.Test.Pairs == nil {
		return fail(told(ErrNothingHeld, "%s was fitted to the whole of its data, and nothing is left to judge "+
			"it by; fit one with another --split", f.Path))
	}
	m, err := f.On(drawn.Problem.Nodes)
	if err != nil {
		return fail(err)
	}
	if err := f.drawnFrom(drawn); err != nil {
		return fail(err)
	}
	return g, drawn, m, nil
}

// Recommender makes one of the model, with another to compare with if naive is not nil. Options say the rest; texts are
// known if OpenTexts was called.
func (f *Fitted) Recommender(ctx context.Context, naive *Fitted, o recommend.Options) (*recommend.Recommender, error) {
	g, err := f.n.WithFields(ctx, f.Data, o.Threads)
	if err != nil {
		return nil, err
	}
	nodes := model.NodesOf(g)
	m, err := f.On(nodes)
	if err != nil {
		return nil, err
	}
	if naive != nil {
		other, err := naive.On(nodes)
		if err != nil {
			return nil, err
		}
		o.Naive = &other
	}
	if texts := f.n.encoder(); texts != nil {
		o.Encoder, o.Document = texts, f.n.Document
	}
	r, err := recommend.New(g, m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return r, nil
}

// failure is a sentence of its own and the kind that it is of.
type failure struct {
	sentence string
	kind     error
}

func (f *failure) Error() string { return f.sentence }
func (f *failure) Unwrap() error { return f.kind }

func told(kind error, format string, a ...any) error {
	return &failure{fmt.Sprintf(format, a...), kind}
}
