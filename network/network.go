package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"unseen/dataset"
	"unseen/encode"
	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/index"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
)

// Errors of this package wrap one of these or an error of the packages that it calls.
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
	log    *sample.ExposureLog
	files  map[string]string

	mu     sync.Mutex
	fields map[string]*graph.Graph // the graph with the fields that models learned by, by the way they were found
	texts  *encode.LSA
	copied *engine.Sketch // of the vectors, once a recommender asked for it; it serves all models
	web    *index.Web     // of the vectors, once Index was called; nil without one
}

// Open opens a dataset. It must have vectors, unless it is of people and items, whose factors are learned without.
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
	if n.Graph().Vectors() == nil && !n.Graph().TwoSided() {
		return hint.Wrap(errorf(ErrVectors, "%s has no vectors", n.folder), "encode its texts first")
	}
	var err error
	if n.files, err = n.Checksums(ctx); err != nil {
		return err
	}
	e, err := n.Exposures(ctx)
	if err != nil || e == nil {
		return err
	}
	n.log = &sample.ExposureLog{Source: e.Source, Target: e.Target, Exposed: e.Exposed, Linked: e.Linked}
	return nil
}

// Close releases the dataset and the encoder.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts != nil {
		n.texts.Close()
		n.texts = nil
	}
	if n.web != nil {
		n.web.Close()
		n.web = nil
	}
	return n.Dataset.Close()
}

// Folder is where the dataset is.
func (n *Network) Folder() string { return n.folder }

// Log is what the dataset says was shown; nil if it says nothing.
func (n *Network) Log() *sample.ExposureLog { return n.log }

// Files are the SHA-256 of the dataset's files, by name.
func (n *Network) Files() map[string]string { return n.files }

// Document returns the title and text of a node.
func (n *Network) Document(i int32) (encode.Text, error) {
	text, err := n.Text(i)
	return encode.Text{Title: n.Graph().Title(i), Body: text}, err
}

// OpenTexts reads the encoder that made the vectors, if the dataset keeps it and it needs no other files. Recommenders
// made afterwards accept new texts, and name the words that speak for an item. It reports whether there is one.
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

// Encode makes the vector of a new text, after OpenTexts. It is nil if the encoder knows no word of it.
func (n *Network) Encode(text encode.Text) []float32 {
	if texts := n.encoder(); texts != nil {
		if vector, known := texts.Encode(text); known {
			return vector
		}
	}
	return nil
}

// encoder is the one that OpenTexts has read, or nil.
func (n *Network) encoder() *encode.LSA {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.texts
}

// Index opens the index of the vectors that lies beside them, to make lists by; nil where there is none. It serves all
// models, and is closed with the network. An error wraps index.ErrFile or index.ErrOther where there is one of no use.
func (n *Network) Index(ctx context.Context, threads int) (*index.Web, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.web != nil || n.Graph().Vectors() == nil {
		return n.web, nil
	}
	web, err := index.Open(ctx, filepath.Join(n.folder, dataset.IndexFile), n.files[dataset.VectorsFile], threads)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, index.ErrOther):
		return nil, hint.Wrap(fmt.Errorf("%s: %w", n.folder, err), "make it again")
	case err != nil:
		return nil, err
	}
	n.web = web
	return web, nil
}

// SaveIndex puts an index of the vectors beside them.
func (n *Network) SaveIndex(w *index.Web) error {
	return w.Save(filepath.Join(n.folder, dataset.IndexFile), n.files[dataset.VectorsFile])
}

// WithFields returns the graph with the fields of an origin. Fields are found once and kept. Here and in the other
// methods, 0 threads mean all processors; results do not depend on it.
func (n *Network) WithFields(ctx context.Context, o sample.Origin, threads int) (*graph.Graph, error) {
	if o.Fields == (sample.FieldsBy{}) {
		return n.Graph(), nil
	}
	key, err := json.Marshal([]any{o.Fields, o.Plan})
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.fields[string(key)]; g != nil {
		return g, nil
	}
	g, err := o.WithFields(ctx, n.Graph(), threads)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.folder, err)
	}
	n.fields[string(key)] = g
	return g, nil
}

// Prepare finds the fields and samples the pairs to learn from, with the log of the dataset and the checksums of its
// files: a model of the problem is one of this network.
func (n *Network) Prepare(ctx context.Context, o sample.Origin, threads int) (*sample.Prepared, error) {
	o.Files = n.files
	return n.prepare(ctx, o, threads)
}

func (n *Network) prepare(ctx context.Context, o sample.Origin, threads int) (*sample.Prepared, error) {
	g, err := n.WithFields(ctx, o, threads)
	if err != nil {
		return nil, err
	}
	prepared, err := sample.Prepare(ctx, g, sample.Options{Origin: o, Log: n.log, HasFields: true, Threads: threads})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.folder, err)
	}
	return prepared, nil
}

// Fitted is a model file that was fitted to a network.
type Fitted struct {
	*model.File
	Path   string
	Origin sample.Origin // which pairs it was fitted to
	n      *Network
}

// Model opens a model file, which must have been fitted to this dataset: the checksums of its files must be those of
// the dataset. A model without checksums is compared by its pairs, which takes as long as sampling them.
func (n *Network) Model(ctx context.Context, path string) (*Fitted, error) {
	file, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	origin, known, err := sample.OriginOf(model.Model{Data: json.RawMessage(file.Metadata[model.KeyData])})
	switch {
	case err != nil:
		return nil, hint.Wrap(fmt.Errorf("%s: %w", path, err), "fit it again")
	case !known:
		return nil, hint.Wrap(errorf(ErrModel, "%s does not say which pairs it was fitted to (a model of a generated "+
			"world or of pairs made by hand does not)", path), "fit a model to %s", n.folder)
	}
	f, compared := &Fitted{file, path, origin, n}, false
	for _, name := range slices.Sorted(maps.Keys(origin.Files)) {
		sum, here := n.files[name]
		compared = compared || here
		if here && sum != origin.Files[name] {
			return nil, hint.Wrap(errorf(ErrModel, "%s was fitted to another %s than that of %s (SHA-256 %.12s…, not "+
				"%.12s…)", path, name, n.folder, origin.Files[name], sum), "fit it again, or name its own dataset")
		}
	}
	if compared {
		return f, nil
	}
	prepared, err := n.prepare(ctx, origin, 0)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, hint.Wrap(errorf(ErrModel, "%s does not say which files it was fitted to, and sampling its pairs "+
			"again failed: %v", path, err), "fit it again")
	}
	if err := f.checkPairs(prepared); err != nil {
		return nil, err
	}
	return f, nil
}

// checkPairs refuses a model of other pairs.
func (f *Fitted) checkPairs(prepared *sample.Prepared) error {
	sum, own := prepared.Problem.Checksum(), f.Metadata[model.KeyDataChecksum]
	if sum == own {
		return nil
	}
	return hint.Wrap(errorf(ErrModel, "%s was fitted to other pairs than those of %s (checksum %.12s…, not %.12s…)",
		f.Path, f.n.folder, own, sum), "fit it again with this dataset")
}

// On returns the model over the nodes of another model's graph, to compare the two.
func (f *Fitted) On(nodes model.Nodes) (model.Model, error) { return f.File.Model(nodes) }

// HeldOut samples the pairs again that the model was fitted to and those that were held out, and returns them with the
// model.
func (f *Fitted) HeldOut(ctx context.Context, threads int) (*sample.Prepared, model.Model, error) {
	prepared, err := f.n.prepare(ctx, f.Origin, threads)
	if err != nil {
		return nil, model.Model{}, err
	}
	if prepared.Split == nil || prepared.Test.Pairs == nil {
		return nil, model.Model{}, hint.Wrap(errorf(ErrNothingHeld, "%s was fitted to the whole of its data, and "+
			"nothing is left to judge it by", f.Path), "fit a model with another %v", hint.Setting("split"))
	}
	m, err := f.On(prepared.Problem.Nodes)
	if err == nil {
		err = f.checkPairs(prepared)
	}
	if err != nil {
		return nil, model.Model{}, err
	}
	return prepared, m, nil
}

// Recommender returns a recommender of the model. If naive is not nil, lists are compared with those of that model. New
// texts are accepted after OpenTexts.
func (f *Fitted) Recommender(ctx context.Context, naive *Fitted, o recommend.Options) (*recommend.Recommender, error) {
	g, err := f.n.WithFields(ctx, f.Origin, o.Threads)
	if err != nil {
		return nil, err
	}
	nodes, err := f.Origin.Plan.Nodes(g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
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
	if o.Sketched && o.Index != nil {
		o.Sketch = o.Index.Sketch()
	}
	if o.Sketched && o.Sketch == nil && g.Vectors() != nil {
		if o.Sketch, err = f.n.sketch(); err != nil {
			return nil, err
		}
	}
	r, err := recommend.New(g, m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return r, nil
}

// sketch returns a copy of the vectors to search in.
func (n *Network) sketch() (sketch *engine.Sketch, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.copied == nil {
		n.copied, err = engine.NewSketch(n.Graph().Vectors(), 0)
	}
	return n.copied, err
}

// kindError is an error of one of the kinds above, whose text need not repeat the kind's.
type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }

func errorf(kind error, format string, a ...any) error {
	return &kindError{fmt.Sprintf(format, a...), kind}
}
