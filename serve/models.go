package serve

import (
	"context"
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
	"unseen/internal/atomicfile"
	"unseen/loop"
)

// ErrNoModel: there is no model of that digest.
var ErrNoModel = errors.New("serve: no such model")

// Entry is a model that served or may serve.
type ModelEntry struct {
	Digest string    `json:"digest" doc:"SHA-256 of the file"`
	Method string    `json:"method"`
	Made   time.Time `json:"made"`
	Parent string    `json:"parent,omitempty" doc:"model whose settings it was trained anew with"`
	Seq    int64     `json:"seq,omitempty" doc:"event of the log up to which it has learned; 0: from the dataset alone"`
	Logged int       `json:"logged,omitempty" doc:"training pairs whose exposure is known"`
	Note   string    `json:"note,omitempty"`
	Checks []Check   `json:"checks,omitempty" doc:"what it was validated by"`
}

// Check is one thing that a model was validated by.
type Check struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Detail string `json:"detail"`
}

// Trial is two models behind one endpoint: a source belongs to one of them for as long as the trial lasts.
type ABTest struct {
	A     string    `json:"a" doc:"digest of the model that the others get"`
	B     string    `json:"b" doc:"digest of the model on trial"`
	Share float64   `json:"share" doc:"of the sources that get b"`
	Salt  string    `json:"salt" doc:"who gets which follows from this and the source's id"`
	Since time.Time `json:"since"`
	Seq   int64     `json:"seq" doc:"last event before it: later ones count"`
}

// register is registry.json.
type registryState struct {
	Current  string       `json:"current"`
	Naive    string       `json:"naive,omitempty"` // to compare with
	Models   []ModelEntry `json:"models"`          // the oldest first
	Previous []string     `json:"past,omitempty"`  // what was current before, the latest last
	Trial    *ABTest      `json:"trial,omitempty"`
	// Expected is where recommendations of the first model that served went, field by field: what drift is
	// measured against, also after models were exchanged.
	Expected []loop.ExpectedShare `json:"expected,omitempty"`
}

// registry keeps model files by digest, and who is current.
type registry struct {
	folder string
	keep   int

	mu sync.Mutex
	r  registryState
}

func openRegistry(folder string, keep int) (*registry, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	g := &registry{folder: folder, keep: keep}
	raw, err := os.ReadFile(g.file())
	if errors.Is(err, os.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &g.r); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; move it away to begin anew with the first model", g.file(), err)
	}
	return g, nil
}

func (g *registry) file() string { return filepath.Join(g.folder, "registry.json") }

// path is where a model's file is.
func (g *registry) path(digest string) string {
	return filepath.Join(g.folder, digest+".safetensors")
}

// snapshot returns a copy of what is registered.
func (g *registry) snapshot() registryState {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.r
	r.Models, r.Previous = slices.Clone(r.Models), slices.Clone(r.Previous)
	return r
}

// find returns an entry by its digest, or by the beginning of it if that is of one alone.
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

// change edits the register and writes it; on an error nothing has changed.
func (g *registry) change(edit func(*registryState) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := g.r
	next.Models, next.Previous = slices.Clone(g.r.Models), slices.Clone(g.r.Previous)
	if err := edit(&next); err != nil {
		return err
	}
	dropped := next.trim(g.keep)
	err := atomicfile.Write(g.file(), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(next)
	})
	if err != nil {
		return err
	}
	g.r = next
	for _, digest := range dropped {
		os.Remove(g.path(digest)) // what stays behind does no harm
		os.Remove(g.evaluation(digest))
	}
	return nil
}

// trim forgets the oldest models beyond the last keep, never one that is in use.
func (r *registryState) trim(keep int) (dropped []string) {
	used := func(digest string) bool {
		return digest == r.Current || digest == r.Naive || r.Trial != nil &&
			(digest == r.Trial.A || digest == r.Trial.B)
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
	return digest, atomicfile.Write(into, func(w io.Writer) error {
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

// makeCurrent records who serves from now on.
func (r *registryState) makeCurrent(digest string) {
	if r.Current != "" && r.Current != digest {
		r.Previous = append(r.Previous, r.Current)
	}
	r.Current = digest
}

// adoptEvaluation keeps the evaluation that lies beside a model's file, as unseen demo writes it, unless there is one
// already.
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
		return fmt.Errorf("%s.evaluation.json is not of this model (SHA-256 %.12s…)", path, digest)
	}
	return atomicfile.Write(into, func(w io.Writer) error { _, err := w.Write(raw); return err })
}
