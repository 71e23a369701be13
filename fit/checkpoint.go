package fit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"unseen/engine"
	"unseen/internal/atomicfile"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// Checkpoint says where training stores its state, to resume after an interruption: one safetensors file,
// written at intervals and when the context is cancelled, and removed when training is done or has diverged.
// Resumed training ends in the same bits as if it had never stopped, whatever the number of threads.
//
// Fit refuses, with ErrCheckpoint, to resume from a file that is damaged, of other data or of other
// settings. It also refuses to resume from a missing file (the error wraps fs.ErrNotExist), and to start
// over if the file exists: hours of work may be in it.
type Checkpoint struct {
	Path   string        // "" means no checkpoint
	Every  time.Duration // between writes; 0 means 30 seconds
	Resume bool          // resume from the file at Path
	// Keep leaves the file after success too, for a caller that calls Remove once the model is saved, so that
	// nothing is lost if it is stopped in between.
	Keep bool
}

// Remove removes the file, and temporary files that interrupted writes have left.
func (c Checkpoint) Remove() error {
	atomicfile.Sweep(c.Path)
	if err := os.Remove(c.Path); err != nil {
		return fmt.Errorf("%w: training is done, but its checkpoint stays: %w", ErrCheckpoint, err)
	}
	return nil
}

// The keys of a checkpoint file's metadata.
const (
	keyFormat   = "format" // always "unseen-checkpoint"
	keyVersion  = "format_version"
	keyMethod   = "method"
	keySettings = "settings"      // JSON
	keyData     = "data_checksum" // Problem.Checksum
	keyTables   = "tables_checksum"
	keyEarlier  = "earlier_checksum" // of what is refreshed; absent of a full training
	keyKernels  = "kernels"
	keyState    = "state" // JSON: the whole numbers of the state
)

const (
	checkpointFormat  = "unseen-checkpoint"
	checkpointVersion = "1"
)

// resumable is a part of training whose state a checkpoint stores.
type resumable interface {
	keep(c *checkpoint)
	restore(c *checkpoint) // what is wrong is left in c.err
}

// recorder writes checkpoints, and restores from one. The parts of training in progress are a stack, such as
// a fit, its choice of a ridge, and the descent under one ridge. A nil recorder stores nothing.
type recorder struct {
	Checkpoint
	identity map[string]string // what a checkpoint must agree on
	states   []recorded
	scope    string      // what the names of parts begin with that are now put on the stack
	resumed  *checkpoint // until all of it is restored
	last     time.Time
}

// recorded is a part of training, and what its names begin with.
type recorded struct {
	resumable
	scope string
}

// within puts what the names of parts begin with, so that a fit within a fit has names of its own, until it is undone.
func (r *recorder) within(scope string) (undo func()) {
	if r == nil {
		return func() {}
	}
	before := r.scope
	r.scope = scope
	return func() { r.scope = before }
}

// newRecorder opens the checkpoint to resume, or writes the first, so that a read-only folder is an error
// before training and not after.
func newRecorder(p sample.Problem, s Settings, at beginning) (*recorder, []risk.Warning, error) {
	return record(s.Checkpoint, func() (map[string]string, error) {
		data := ""
		if at.all != nil {
			data = at.all.Checksum()
		} else {
			data = p.Checksum()
		}
		identity, err := identify(s, data, tablesChecksum(p.Nodes, s))
		if err == nil && at.earlier != nil {
			identity[keyEarlier] = at.earlier.checksum()
		}
		return identity, err
	})
}

// record is newRecorder for anything with an identity, which is computed only if there is a path.
func record(c Checkpoint, identity func() (map[string]string, error)) (*recorder, []risk.Warning, error) {
	r := &recorder{Checkpoint: c, last: time.Now()}
	switch {
	case r.Every < 0:
		return nil, nil, fmt.Errorf("%w: a checkpoint every %v; give a positive time such as 30s", ErrSetting, r.Every)
	case r.Path == "" && r.Resume:
		return nil, nil, fmt.Errorf("%w: nothing to resume from; give the path of a checkpoint", ErrSetting)
	case r.Path == "":
		return nil, nil, nil
	case r.Every == 0:
		r.Every = 30 * time.Second
	}
	var err error
	if r.identity, err = identity(); err != nil {
		return nil, nil, err
	}
	if r.Resume {
		warnings, err := r.open()
		return r, warnings, err
	}
	if _, err := os.Lstat(r.Path); err == nil {
		return nil, nil, fmt.Errorf("%w: %s exists already, of a training that was interrupted; resume it, or "+
			"remove the file to start over", ErrCheckpoint, r.Path)
	}
	return r, nil, r.write()
}

// identify returns the metadata by which a checkpoint is recognised.
func identify(s Settings, data, tables string) (map[string]string, error) {
	s.Adam.Seed = 0 // taken from s
	settings, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%w: no JSON form: %w", ErrSetting, err)
	}
	return map[string]string{
		keyFormat: checkpointFormat, keyVersion: checkpointVersion, keyMethod: s.Method,
		keySettings: string(settings), keyData: data, keyTables: tables, keyKernels: kern.Variant(),
	}, nil
}

// tablesChecksum is a checksum of what models use besides the pairs, vectors and fields.
func tablesChecksum(n model.Nodes, s Settings) string {
	h := sha256.New()
	put := func(x any) { binary.Write(h, binary.LittleEndian, x) } // a hash takes everything
	for _, column := range [][]float32{n.Popularity, n.Age} {
		put(int64(len(column)))
		put(column)
	}
	put(int64(len(s.PropensityOptions.Exposures)))
	put(s.PropensityOptions.Exposures)
	return hex.EncodeToString(h.Sum(nil))
}

// open reads the checkpoint and checks that it is of this training.
func (r *recorder) open() ([]risk.Warning, error) {
	if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is none at %s to resume from (training removes it at the end): "+
			"%w; start over without resuming", ErrCheckpoint, r.Path, fs.ErrNotExist)
	}
	file, err := model.Open(r.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	refuse := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s %s", ErrCheckpoint, r.Path, fmt.Sprintf(format, a...))
	}
	there, here := file.Metadata, r.identity
	const advice = "or remove the file to start over"
	switch {
	case there[keyFormat] != checkpointFormat:
		return nil, refuse("is a file of another kind (%q); give the path of a checkpoint", there[keyFormat])
	case there[keyVersion] != checkpointVersion:
		return nil, refuse("has format version %q and this program knows %s; resume it with the program that "+
			"wrote it, %s", there[keyVersion], checkpointVersion, advice)
	case there[keyMethod] != here[keyMethod]:
		return nil, refuse("is of the method %s, not %s; use that one, %s", there[keyMethod], here[keyMethod], advice)
	case there[keySettings] != here[keySettings]:
		return nil, refuse("was written with other settings: %s; use those, %s",
			differences(there[keySettings], here[keySettings]), advice)
	case there[keyData] != here[keyData]:
		return nil, refuse("is of other data (checksum %.12s…, here %.12s…): pairs, fields, vectors or logged "+
			"exposures differ; give the same data, %s", there[keyData], here[keyData], advice)
	case there[keyEarlier] != here[keyEarlier]:
		return nil, refuse("is of a training that began elsewhere: in full, or at another model; begin there, %s",
			advice)
	case there[keyTables] != here[keyTables]:
		return nil, refuse("was written with other known propensities, popularity or ages of the nodes; give "+
			"the same, %s", advice)
	}
	c := &checkpoint{file: file, whole: map[string]int{}}
	if err := json.Unmarshal([]byte(there[keyState]), &c.whole); err != nil {
		return nil, refuse("has an unreadable state: %v; remove the file to start over", err)
	}
	c.rename("aftermath.", "refits.") // of the last version
	if c.number("depth", math.MaxInt32) > 0 {
		r.resumed = c
	}
	if c.err != nil {
		return nil, refuse("is unusable: %v; remove it to start over", c.err)
	}
	atomicfile.Sweep(r.Path)
	if there[keyKernels] != here[keyKernels] {
		return []risk.Warning{{Kind: "kernels", Message: fmt.Sprintf("training began with the vector kernels %s and "+
			"continued with %s: the last digits may differ from both", there[keyKernels], here[keyKernels])}}, nil
	}
	return nil, nil
}

// differences says which settings differ, given both as JSON.
func differences(there, here string) string {
	a, b := map[string]string{}, map[string]string{}
	flatten(a, "", json.RawMessage(there))
	flatten(b, "", json.RawMessage(here))
	var out []string
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != b[name] {
			out = append(out, fmt.Sprintf("%s is %s there and %s here", name, cmp.Or(a[name], "absent"),
				cmp.Or(b[name], "absent")))
		}
	}
	const most = 4
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("and %d more", len(out)-most))
	}
	return strings.Join(out, ", ")
}

// flatten writes the leaves of a JSON document to a map, by their path.
func flatten(out map[string]string, path string, raw json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		out[path] = string(raw)
		return
	}
	for name, value := range members {
		flatten(out, strings.TrimPrefix(path+"."+name, "."), value)
	}
}

// begin puts a part of training on the stack, and restores it if the checkpoint that is resumed has it.
func (r *recorder) begin(state resumable) error {
	if r == nil {
		return nil
	}
	r.states = append(r.states, recorded{state, r.scope})
	c := r.resumed
	if c == nil {
		return nil
	}
	c.scope = r.scope
	state.restore(c)
	c.scope = ""
	if c.err != nil {
		return fmt.Errorf("%w: %s: %w; remove the file to start over", ErrCheckpoint, r.Path, c.err)
	}
	if len(r.states) == c.number("depth", math.MaxInt32) {
		r.resumed = nil
	}
	return nil
}

// settle takes everything above a part off the stack: its outcome is now the part's own.
func (r *recorder) settle(state resumable) {
	if r == nil {
		return
	}
	for i, s := range r.states {
		if s.resumable == state {
			r.states = r.states[:i+1]
		}
	}
}

// tick writes a checkpoint if the last is old enough.
func (r *recorder) tick() error {
	if r == nil || time.Since(r.last) < r.Every {
		return nil
	}
	return r.write()
}

func (r *recorder) write() error {
	if r.resumed != nil {
		return nil // the file knows more than the stack does
	}
	c := &checkpoint{file: &model.File{Metadata: maps.Clone(r.identity)}, whole: map[string]int{"depth": len(r.states)}}
	for _, state := range r.states {
		c.scope = state.scope
		state.keep(c)
	}
	state, err := json.Marshal(c.whole)
	if err != nil {
		return err
	}
	c.file.Metadata[keyState] = string(state)
	if err := c.file.Save(r.Path); err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	r.last = time.Now()
	return nil
}

// close ends the recording with the outcome of training: it leaves a checkpoint of training that was
// interrupted, and none of training that is done, never began, diverged or cannot be. If training is done, a failure to
// write or remove the checkpoint is only a warning.
func (r *recorder) close(ctx context.Context, result *Result, outcome error) error {
	doubt := func(err error) {
		if err != nil {
			result.Warnings = append(result.Warnings, risk.Warning{Kind: "checkpoint", Message: err.Error()})
		}
	}
	switch {
	case r == nil:
		return outcome
	case errors.Is(outcome, ErrDiverged), !r.Resume && (errors.Is(outcome, ErrSetting) ||
		errors.Is(outcome, ErrData) || outcome != nil && len(r.states) == 0):
		r.Remove() // the outcome says more than a second error
	case outcome == nil && r.Keep:
		doubt(r.write())
	case outcome == nil:
		doubt(r.Remove())
	case ctx.Err() != nil && errors.Is(outcome, ctx.Err()):
		if err := r.write(); err != nil {
			return fmt.Errorf("%w, and %w", outcome, err)
		}
	}
	return outcome
}

// checkpoint is the content of a checkpoint file, by name: whole numbers, and tensors of all
// others, in which nothing is rounded and infinities can be kept.
type checkpoint struct {
	file  *model.File
	whole map[string]int
	scope string // what names begin with
	err   error  // the first that occurred
}

// rename changes how names begin.
func (c *checkpoint) rename(old, now string) {
	for _, name := range slices.Collect(maps.Keys(c.whole)) {
		if rest, ok := strings.CutPrefix(name, old); ok {
			c.whole[now+rest] = c.whole[name]
		}
	}
	for k := range c.file.Tensors {
		if rest, ok := strings.CutPrefix(c.file.Tensors[k].Name, old); ok {
			c.file.Tensors[k].Name = now + rest
		}
	}
}

func (c *checkpoint) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
}

func (c *checkpoint) putNumber(name string, value int) { c.whole[c.scope+name] = value }

func (c *checkpoint) putTruth(name string, value bool) {
	c.putNumber(name, 0)
	if value {
		c.putNumber(name, 1)
	}
}

func (c *checkpoint) truth(name string) bool { return c.number(name, 1) == 1 }

// number returns a whole number from 0 to most.
func (c *checkpoint) number(name string, most int) int {
	value, ok := c.whole[c.scope+name]
	if !ok || value < 0 || value > most {
		c.fail("the state's %s is missing or out of range", name)
		return 0
	}
	return value
}

func put[T float32 | float64](c *checkpoint, name string, values []T) {
	c.file.Tensors = append(c.file.Tensors, model.Tensor{Name: c.scope + name, Shape: []int{len(values)}, Data: values})
}

// numbers returns a tensor of count numbers; of any number of them if count is negative.
func numbers[T float32 | float64](c *checkpoint, name string, count int) []T {
	t, _ := c.file.Tensor(c.scope + name)
	values, ok := t.Data.([]T)
	if !ok || count >= 0 && len(values) != count {
		c.fail("tensor %q is missing or has another size", name)
		return make([]T, max(count, 0))
	}
	return values
}

func (c *checkpoint) putCurvatures(name string, memory []curvature) {
	var moved, turned, inverse []float64
	for _, m := range memory {
		moved, turned, inverse = append(moved, m.moved...), append(turned, m.turned...), append(inverse, m.inverse)
	}
	put(c, name+".moved", moved)
	put(c, name+".turned", turned)
	put(c, name+".inverse", inverse)
}

// curvatures returns the memory of steps over a number of parameters.
func (c *checkpoint) curvatures(name string, size int) []curvature {
	inverse := numbers[float64](c, name+".inverse", -1)
	moved, turned := numbers[float64](c, name+".moved", len(inverse)*size),
		numbers[float64](c, name+".turned", len(inverse)*size)
	var memory []curvature
	for i, x := range inverse {
		memory = append(memory, curvature{moved: moved[i*size : (i+1)*size], turned: turned[i*size : (i+1)*size],
			inverse: x})
	}
	return memory
}

func (c *checkpoint) putHistory(name string, epochs []Epoch) {
	var values []float64
	for _, e := range epochs {
		values = append(values, e.Objective, e.Validation)
	}
	put(c, name, values)
}

func (c *checkpoint) history(name string) []Epoch {
	var out []Epoch
	for e := range slices.Chunk(numbers[float64](c, name, -1), 2) {
		if len(e) == 2 {
			out = append(out, Epoch{Number: len(out) + 1, Objective: e[0], Validation: e[1]})
		}
	}
	return out
}

// keep and restore make a Result resumable: it holds where the finished starts ended.

func (r *Result) keep(c *checkpoint) {
	var starts []float64
	for _, s := range r.Starts {
		starts = append(starts, s.Propensity, s.Objective, s.MeanLink, s.MeanSame, s.MeanCross)
	}
	put(c, "result.starts", starts)
	c.putHistory("result.epochs", r.Epochs)
	put(c, "result.values", []float64{r.Objective.Likelihood, r.Objective.Risk, r.Objective.Prior, r.Validation,
		r.Ridge})
	put(c, "result.link", r.LinkParams)
	put(c, "result.propensity", r.PropensityParams)
	c.putNumber("result.iterations", r.Iterations)
	if d := r.Searched; d != nil {
		put(c, "result.searched", []float64{float64(d.Evaluations), d.Began.Gradient, d.Began.Errors, d.Ended.Gradient,
			d.Ended.Errors})
	}
}

func (r *Result) restore(c *checkpoint) {
	r.Starts = nil
	for s := range slices.Chunk(numbers[float64](c, "result.starts", -1), 5) {
		if len(s) == 5 {
			r.Starts = append(r.Starts, Start{Propensity: s[0], Objective: s[1], MeanLink: s[2], MeanSame: s[3],
				MeanCross: s[4]})
		}
	}
	r.Epochs = c.history("result.epochs")
	v := numbers[float64](c, "result.values", 5)
	r.Objective, r.Validation, r.Ridge = engine.Parts{Likelihood: v[0], Risk: v[1], Prior: v[2]}, v[3], v[4]
	if len(r.Starts) > 0 {
		r.LinkParams = numbers[float32](c, "result.link", r.Link.Size())
		r.PropensityParams = numbers[float32](c, "result.propensity", r.Propensity.Size())
	}
	r.Iterations = c.number("result.iterations", math.MaxInt32)
	if _, has := c.file.Tensor(c.scope + "result.searched"); has {
		v := numbers[float64](c, "result.searched", 5)
		r.Searched = &ExactSearch{int(v[0]), Incline{v[1], v[2]}, Incline{v[3], v[4]}}
	}
}
