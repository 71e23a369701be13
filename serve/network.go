package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"unseen/dataset"
	"unseen/encode"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
)

// network is the dataset that is served, opened once.
type network struct {
	*dataset.Dataset
	folder string
	log    *fit.Log // what the dataset itself says was shown; nil if nothing
	files  map[string]string
	texts  *encode.Encoder

	mu     sync.Mutex
	fields map[string]*graph.Graph // the graph with the fields that models learned by, by the way they were found
}

func openNetwork(ctx context.Context, folder string) (_ *network, err error) {
	d, err := dataset.Open(ctx, folder, dataset.OpenOptions{})
	if err != nil {
		return nil, err
	}
	n := &network{Dataset: d, folder: folder, files: map[string]string{}, fields: map[string]*graph.Graph{}}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if d.Graph().Vectors() == nil {
		return nil, fmt.Errorf("%s has no vectors; make them of its texts: unseen encode %s", folder, folder)
	}
	for name, file := range d.Manifest().Files {
		n.files[name] = file.SHA256
	}
	e, err := d.Exposures(ctx)
	if err != nil {
		return nil, err
	}
	if e != nil {
		n.log = &fit.Log{Source: e.Source, Target: e.Target, Exposed: e.Exposed, Linked: e.Linked}
	}
	if m := d.Manifest().Encoder; m != nil && m.Kind == encode.Kind {
		file, err := d.Encoder()
		if err != nil {
			return nil, err
		}
		if file != nil {
			if n.texts, err = encode.Read(file, file.Size()); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// Close gives everything back.
func (n *network) Close() error {
	if n.texts != nil {
		n.texts.Close()
	}
	return n.Dataset.Close()
}

// document returns the title and text of a node.
func (n *network) document(i int32) (encode.Document, error) {
	text, err := n.Text(i)
	return encode.Document{Title: n.Graph().Title(i), Text: text}, err
}

// withFields returns the graph as a model learned it.
func (n *network) withFields(ctx context.Context, d fit.Data) (*graph.Graph, error) {
	key, err := json.Marshal([]any{d.Fields, d.Drawing})
	if err != nil {
		return nil, err
	}
	if d.Fields == (fit.FieldsBy{}) {
		key = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.fields[string(key)]; g != nil {
		return g, nil
	}
	g, err := d.WithFields(ctx, n.Graph(), 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.folder, err)
	}
	n.fields[string(key)] = g
	return g, nil
}

// fittedTo returns what a model was fitted to, if that is this dataset.
func (n *network) fittedTo(path string, file *model.File) (fit.Data, error) {
	data, known, err := fit.DataOf(model.Model{Data: json.RawMessage(file.Metadata[model.KeyData])})
	switch {
	case err != nil:
		return data, fmt.Errorf("%s: %w; fit it anew", path, err)
	case !known:
		return data, fmt.Errorf("%s does not say which pairs it was fitted to; fit one with unseen fit %s -o FILE", path, n.folder)
	}
	for _, name := range slices.Sorted(maps.Keys(data.Files)) {
		if sum, here := n.files[name]; here && sum != data.Files[name] {
			return data, fmt.Errorf("%s was fitted to another %s than that of %s (SHA-256 %.12s…, not %.12s…); fit it anew, or name its own dataset", path, name, n.folder, data.Files[name], sum)
		}
	}
	return data, nil
}

// engine is a model that can answer.
type engine struct {
	*recommend.Recommender
	digest string
	data   fit.Data
}

// load opens a model file, which must be of this dataset; naive is another to compare with, or "".
func (n *network) load(ctx context.Context, path, digest, naive string) (*engine, error) {
	file, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := n.fittedTo(path, file)
	if err != nil {
		return nil, err
	}
	g, err := n.withFields(ctx, data)
	if err != nil {
		return nil, err
	}
	nodes := model.NodesOf(g)
	m, err := file.Model(nodes)
	if err != nil {
		return nil, err
	}
	options := recommend.Options{Threads: 1} // many requests at a time, one thread each
	if naive != "" {
		other, err := model.Open(naive)
		if err != nil {
			return nil, err
		}
		if _, err := n.fittedTo(naive, other); err != nil {
			return nil, err
		}
		loaded, err := other.Model(nodes)
		if err != nil {
			return nil, err
		}
		options.Naive = &loaded
	}
	if n.texts != nil {
		options.Encoder, options.Document = n.texts, n.document
	}
	r, err := recommend.New(g, m, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &engine{Recommender: r, digest: digest, data: data}, nil
}

// fileSum is the SHA-256 of a file.
func fileSum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// exists tells whether there is a file or folder.
func exists(path ...string) (bool, error) {
	_, err := os.Stat(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
