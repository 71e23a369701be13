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

// engine is a model that can answer.
type engine struct {
	*recommend.Recommender
	digest string
	origin sample.Origin
}

// load opens a model file, which must be of the dataset that is served; naive is another to compare with, or "".
func (s *Service) load(ctx context.Context, path, digest, naive string) (*engine, error) {
	m, err := s.net.Model(ctx, path)
	if err != nil {
		return nil, err
	}
	var other *network.Fitted
	if naive != "" {
		if other, err = s.net.Model(ctx, naive); err != nil {
			return nil, err
		}
	}
	r, err := m.Recommender(ctx, other, recommend.Options{Threads: 1}) // many requests at a time, one thread each
	if err != nil {
		return nil, err
	}
	return &engine{Recommender: r, digest: digest, origin: m.Origin}, nil
}

// exists tells whether there is a file or folder.
func exists(path ...string) (bool, error) {
	_, err := os.Stat(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
