package serve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"unseen/index"
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
	base      *baseData                    // that it was fitted to
	overlay   atomic.Pointer[modelOverlay] // nil: nothing has changed since its dataset was made
}

// modelOverlay is what has changed since the dataset of a model was made, up to a change of the catalogue.
type modelOverlay struct {
	over *recommend.Overlay // nil: nothing
	seq  int64
}

// modelView is a model with one version of the catalogue, for one request.
type modelView struct {
	*loadedModel
	modelOverlay
}

func (e *loadedModel) view() modelView {
	v := modelView{loadedModel: e}
	if has := e.overlay.Load(); has != nil {
		v.modelOverlay = *has
	}
	return v
}

// find returns the place of a node by its id, unless it is removed or forgotten.
func (v modelView) find(id string) (int32, bool) {
	place, ok := v.Find(v.over, id)
	if !ok || int(place) < v.Graph().Len() && v.forgotten.hides(place) {
		return 0, false
	}
	return place, true
}

// hides reports whether a node of the graph is changed, removed or forgotten.
func (v modelView) hides(i int32) bool { return v.forgotten.hides(i) || v.over.Hides(i) }

// changes are those that the model's dataset does not have.
func (e *loadedModel) changes(nodes []*catalogueNode) []*recommend.NodeChange {
	var out []*recommend.NodeChange
	for _, n := range nodes {
		if n.Removed || n.seq > e.base.seq {
			out = append(out, &n.NodeChange)
		}
	}
	return out
}

// goLive lets models answer requests, with the catalogue as it is.
func (s *Service) goLive(line *deployment) (err error) {
	s.catalogue.group.Alone(func() {
		state := s.catalogue.state.Load()
		all := state.sorted()
		live := s.live.Load().models()
		for _, e := range line.models() {
			if slices.Contains(live, e) { // it has what there is
				continue
			}
			var over *recommend.Overlay
			if len(all) > 0 {
				if over, err = e.Overlay(s.life, nil, e.changes(all)); err != nil {
					return
				}
			}
			e.overlay.Store(&modelOverlay{over, state.seq})
		}
		s.live.Store(line)
		s.bridgeCache.want()
	})
	return err
}

// load opens a model of the registry by its digest, and measures the index with it; naive is the digest of one to
// compare with, or "".
func (s *Service) load(ctx context.Context, digest, naive string) (*loadedModel, error) {
	e, err := s.openModel(ctx, digest, naive)
	if err != nil {
		return nil, err
	}
	return e, s.measureIndex(ctx, e)
}

// measureIndex finds how wide searches by the index have to be with a model. Until then its lists are exact.
func (s *Service) measureIndex(ctx context.Context, e *loadedModel) error {
	recall, err := e.Measure(ctx)
	switch {
	case err != nil:
		return err
	case recall.Used:
		s.o.Log.InfoContext(ctx, "lists are made by the index", "recall", recall.Share, "width", recall.Width)
	case recall.Queries > 0:
		s.o.Log.WarnContext(ctx, "lists are exact: with this model the index finds too few of the best, by ŷ "+
			"or π̂ŷ", "recall", recall.Share)
	}
	return nil
}

// openModel opens a model, whose lists are exact.
func (s *Service) openModel(ctx context.Context, digest, naive string) (*loadedModel, error) {
	m, base, err := s.datasets.model(ctx, s.models.path(digest))
	if err != nil {
		return nil, err
	}
	var other *network.Fitted
	otherBase := base
	if naive != "" {
		if other, otherBase, err = s.datasets.model(ctx, s.models.path(naive)); err != nil {
			return nil, err
		}
	}
	// requests run in parallel, one thread each
	o := recommend.Options{Threads: 1, Engine: s.o.Engine, Sketched: true, LeastRecall: s.o.Recall}
	if o.Index, err = s.index(ctx, base); err != nil {
		return nil, err
	}
	r, err := m.Recommender(ctx, other, o)
	if err != nil && base != otherBase {
		s.o.Log.Warn("lists are not compared with the naive model: it was fitted before nodes came", "error", err)
		r, err = m.Recommender(ctx, nil, o)
	}
	if err != nil {
		return nil, err
	}
	return &loadedModel{Recommender: r, digest: digest, origin: m.Origin, forgotten: s.forgotten, base: base}, nil
}

// index opens the index of a dataset, nil without one. A copy of the dataset gets one from that of the dataset itself,
// most of whose vectors it has. One that cannot be used is not.
func (s *Service) index(ctx context.Context, base *baseData) (*index.Web, error) {
	if s.o.Exact {
		return nil, nil
	}
	web, err := base.Index(ctx, 0)
	if err == nil && web == nil && base.seq > 0 {
		web, err = s.updateIndex(ctx, base)
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.WarnContext(ctx, "lists are exact: the index of the dataset cannot be used", "error", err)
		return nil, nil
	}
	return web, err
}

// updateIndex makes the index of a copy of the dataset.
func (s *Service) updateIndex(ctx context.Context, base *baseData) (*index.Web, error) {
	first, err := s.datasets.at(ctx, 0)
	if err != nil {
		return nil, err
	}
	old, err := first.Index(ctx, 0)
	if err != nil || old == nil || base.Graph().Vectors() == nil {
		return nil, err
	}
	began := time.Now()
	made, err := index.Update(ctx, old, base.Graph().Vectors(), index.Options{})
	if err != nil {
		return nil, err
	}
	if err := base.SaveIndex(made); err != nil {
		return nil, err
	}
	s.o.Log.InfoContext(ctx, "the index has what changed in the dataset", "nodes", made.Rows(), "took",
		time.Since(began).Round(time.Millisecond))
	return base.Index(ctx, 0)
}

// exists reports whether there is a file or folder.
func exists(path ...string) (bool, error) {
	_, err := os.Stat(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
