package serve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"unseen/network"
	"unseen/recommend"
	"unseen/sample"
)

// loadedModel is a model that answers requests.
type loadedModel struct {
	*recommend.Recommender
	digest    string
	origin    sample.Origin
	forgotten *forgotten
}

// find returns a node by its id, unless it is forgotten.
func (e *loadedModel) find(id string) (int32, bool) { return e.forgotten.find(e.Graph(), id) }

// load opens a model of the registry by its digest; naive is the digest of one to compare with, or "".
func (s *Service) load(ctx context.Context, digest, naive string) (*loadedModel, error) {
	m, err := s.net.Model(ctx, s.models.path(digest))
	if err != nil {
		return nil, err
	}
	var other *network.Fitted
	if naive != "" {
		if other, err = s.net.Model(ctx, s.models.path(naive)); err != nil {
			return nil, err
		}
	}
	// requests run in parallel, one thread each
	r, err := m.Recommender(ctx, other, recommend.Options{Threads: 1, Engine: s.o.Engine})
	if err != nil {
		return nil, err
	}
	return &loadedModel{Recommender: r, digest: digest, origin: m.Origin, forgotten: s.forgotten}, nil
}

// exists reports whether there is a file or folder.
func exists(path ...string) (bool, error) {
	_, err := os.Stat(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
