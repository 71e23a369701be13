package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/internal/atomicfile"
	"unseen/loop"
)

var (
	// ErrNoModel: there is no model with that digest.
	ErrNoModel = errors.New("no such model")
	// ErrNoPrevious: no other model was live before, or all that were are gone.
	ErrNoPrevious = errors.New("no previous model to roll back to")
	// ErrABTestRuns: an A/B test has to be ended first.
	ErrABTestRuns = errors.New("another A/B test runs")
)

// ModelEntry is a registered model.
type ModelEntry struct {
	Digest string    `json:"digest" doc:"SHA-256 of the file"`
	Method string    `json:"method"`
	Made   time.Time `json:"made"`
	Parent string    `json:"parent,omitempty" doc:"digest of the model that its training began at"`
	// Catalogue is that of the dataset's copy that it was fitted to.
	Catalogue int64   `json:"catalogue,omitempty" doc:"last change of the catalogue that it learned from; 0: none"`
	Seq       int64   `json:"seq,omitempty" doc:"last event of the log that it learned from; 0: none"`
	Logged    int     `json:"logged,omitempty" doc:"training pairs with logged exposure"`
	Note      string  `json:"note,omitempty"`
	Checks    []Check `json:"checks,omitempty" doc:"validation before deployment"`
	// Training is how the service trained it; nil of others.
	Training *ModelTraining `json:"training,omitempty" doc:"in full, or refreshed from its parent"`
	// Log is how the log was read for it; nil of a model that was not trained by the service.
	Log *LogReading `json:"log,omitempty" doc:"how the log was read for it"`
}

// Check is one check of a model before deployment.
type Check struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Detail string `json:"detail"`
	// Class is what the doctor calls the scale of π̂; "" for other checks.
	Class   fit.Class `json:"class,omitempty" doc:"what the doctor calls the scale of exposure"`
	Skipped bool      `json:"skipped,omitempty" doc:"there was nothing to check by"`
}

// ABTest is two models behind one endpoint: a source is assigned to one of them for the whole test.
type ABTest struct {
	A     string    `json:"a" doc:"digest of the live model"`
	B     string    `json:"b" doc:"digest of the other model"`
	Share float64   `json:"share" doc:"share of the sources that get b"`
	Salt  string    `json:"salt" doc:"assigns sources to models, by a hash with their id"`
	Since time.Time `json:"since"`
	Seq   int64     `json:"seq" doc:"last event before the test; only later ones count"`

	Until       time.Time `json:"until,omitzero" doc:"rule: the test ends then"`
	WhenDecided bool      `json:"whenDecided,omitempty" doc:"rule: it ends when the difference's interval excludes 0"`
}

// registryState is registry.json.
type registryState struct {
	Version  int          `json:"version"`
	Current  string       `json:"current"`
	Since    time.Time    `json:"since,omitzero"`  // when it went live
	Naive    string       `json:"naive,omitempty"` // to compare with
	Models   []ModelEntry `json:"models"`          // the oldest first
	Previous []string     `json:"past,omitempty"`  // previously live models, the latest last
	ABTest   *ABTest      `json:"abTest,omitempty"`
	Trial    *ABTest      `json:"trial,omitempty"` // old name of ABTest: read, never written

	LastABTest *EndedABTest `json:"lastABTest,omitempty"`
	// Expected is the same-field share of the first live model, field by field: the reference of the drift alarm,
	// also after other models were deployed.
	Expected []loop.ExpectedShare `json:"expected,omitempty"`
}

// registry keeps model files by digest and records which one is live.
type registry struct {
	folder string
	keep   int

	mu    sync.Mutex
	r     registryState
	saved []byte // the content of registry.json
}

func openRegistry(folder string, keep int) (*registry, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	g := &registry{folder: folder, keep: keep}
	raw, _, err := readState(g.file())
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return g, nil
	}
	if err := json.Unmarshal(raw, &g.r); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; move it away to start over with the first model", g.file(), err)
	}
	g.saved = raw
	g.r.ABTest, g.r.Trial = cmp.Or(g.r.ABTest, g.r.Trial), nil
	if name, ok := g.r.foreignName(); ok {
		return nil, fmt.Errorf("%s names the model %q, which is no SHA-256; move it away to start over with the first "+
			"model", g.file(), clip(name))
	}
	return g, nil
}

// foreignName returns a name of a model that is not its digest, which could lead out of the folder.
func (r *registryState) foreignName() (string, bool) {
	names := append([]string{r.Current, r.Naive}, r.Previous...)
	for _, e := range r.Models {
		names = append(names, e.Digest, e.Parent)
	}
	if r.ABTest != nil {
		names = append(names, r.ABTest.A, r.ABTest.B)
	}
	for _, name := range names {
		if raw, err := hex.DecodeString(name); name != "" && (err != nil || len(raw) != sha256.Size) {
			return name, true
		}
	}
	return "", false
}

func (g *registry) file() string { return filepath.Join(g.folder, "registry.json") }

// path is the path of a model's file.
func (g *registry) path(digest string) string {
	return filepath.Join(g.folder, digest+".safetensors")
}

// snapshot returns a copy of the registry's state.
func (g *registry) snapshot() registryState {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.r
	r.Models, r.Previous = slices.Clone(r.Models), slices.Clone(r.Previous)
	return r
}

// find returns an entry by its digest, or by the first characters of it if they are unique.
func (g *registry) find(digest string) (ModelEntry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []ModelEntry
	for _, e := range g.r.Models {
		if e.Digest == digest {
			return e, nil
		}
		if len(digest) >= 6 && len(digest) < len(e.Digest) && e.Digest[:len(digest)] == digest {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		return ModelEntry{}, fmt.Errorf("%w: %q", ErrNoModel, digest)
	}
	return found[0], nil
}

// has reports whether a model is registered.
func (g *registry) has(digest string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.r.Models, func(e ModelEntry) bool { return e.Digest == digest })
}

// change edits the state and saves it; after an error nothing has changed.
func (g *registry) change(edit func(*registryState) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := g.r
	next.Models, next.Previous = slices.Clone(g.r.Models), slices.Clone(g.r.Previous)
	if err := edit(&next); err != nil {
		return err
	}
	next.Version = stateVersion
	dropped := next.trim(g.keep)
	raw, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if raw = append(raw, '\n'); !bytes.Equal(raw, g.saved) { // a full disk is no reason not to start
		err := atomicfile.WritePrivate(g.file(), func(w io.Writer) error { _, err := w.Write(raw); return err })
		if err != nil {
			return err
		}
		g.saved = raw
	}
	g.r = next
	for _, digest := range dropped {
		os.Remove(g.path(digest)) // a file that stays does no harm
		os.Remove(g.evaluation(digest))
	}
	return nil
}

// trim removes the oldest models beyond the last keep, but none that is in use.
func (r *registryState) trim(keep int) (dropped []string) {
	used := func(digest string) bool {
		return digest == r.Current || digest == r.Naive || r.ABTest != nil &&
			(digest == r.ABTest.A || digest == r.ABTest.B)
	}
	for spare := len(r.Models) - keep; spare > 0; spare-- {
		k := slices.IndexFunc(r.Models, func(e ModelEntry) bool { return !used(e.Digest) })
		if k < 0 {
			break
		}
		dropped = append(dropped, r.Models[k].Digest)
		r.Models = slices.Delete(r.Models, k, k+1)
	}
	r.Previous = slices.DeleteFunc(r.Previous, func(digest string) bool { return slices.Contains(dropped, digest) })
	if n := len(r.Previous); n > 100 {
		r.Previous = r.Previous[n-100:]
	}
	return dropped
}

// adopt copies a model file into the registry's folder and returns its digest.
func (g *registry) adopt(ctx context.Context, path string) (string, error) {
	digest, err := atomicfile.Sum(path)
	if err != nil {
		return "", err
	}
	into := g.path(digest)
	if have, err := exists(into); have || err != nil {
		return digest, err
	}
	return digest, atomicfile.WritePrivate(into, func(w io.Writer) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if _, err = io.Copy(w, file); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// makeCurrent records which model is live, and since when.
func (r *registryState) makeCurrent(digest string, now time.Time) {
	if r.Current == digest {
		return
	}
	if r.Current != "" {
		r.Previous = append(r.Previous, r.Current)
	}
	r.Current, r.Since = digest, now.UTC()
}

// adoptEvaluation copies the evaluation beside a model's file, as the demo writes it, unless the model has one.
func (g *registry) adoptEvaluation(path, digest string) error {
	into := g.evaluation(digest)
	if have, err := exists(into); have || err != nil {
		return err
	}
	raw, err := os.ReadFile(path + ".evaluation.json")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var e evaluate.Evaluation
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("%s.evaluation.json is damaged: %w", path, err)
	}
	if e.Kind != evaluate.EvaluationKind || e.Panel == nil || e.Model != digest {
		return fmt.Errorf("%s.evaluation.json is of another model (this one has SHA-256 %.12s…)", path, digest)
	}
	return atomicfile.WritePrivate(into, func(w io.Writer) error { _, err := w.Write(raw); return err })
}
