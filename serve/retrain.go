package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
	"unseen/serve/store"
)

// perform does one job.
func (s *Service) perform(ctx context.Context, o JobRequest, tell func(func(*Job))) error {
	phase := func(text string) { tell(func(j *Job) { j.Phase, j.Done = text, 0 }) }
	switch o.Kind {
	case "retrain":
		return s.retrain(ctx, o, phase, tell)
	case "evaluate":
		return s.evaluate(ctx, o, phase, tell)
	}
	return fmt.Errorf("serve: no job of kind %q", o.Kind)
}

// readLog reads the log up to an event: what was shown, and what came of it. A click is a link that is wanted.
// Pairs come in the order of their first event.
func (s *Service) readLog(ctx context.Context, upTo int64) (*sample.ExposureLog, error) {
	g := s.net.Graph()
	log := &sample.ExposureLog{}
	at := map[[2]int32]int{}
	for e, err := range store.All(ctx, s.events, 0) {
		if err != nil {
			return nil, err
		}
		if e.Seq > upTo {
			break
		}
		i, known := g.Index(e.Source)
		j, there := g.Index(e.Target)
		if !known || !there || i == j {
			continue // a new text, or of another dataset
		}
		k, ok := at[[2]int32{i, j}]
		if !ok {
			k = len(log.Source)
			at[[2]int32{i, j}] = k
			log.Source, log.Target = append(log.Source, i), append(log.Target, j)
			log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, false)
		}
		log.Linked[k] = log.Linked[k] || e.Kind != store.Shown
	}
	return log, nil
}

// lesson is what a model learns from: the dataset and the log up to an event.
type trainingData struct {
	*sample.Prepared
	note string // what is to be known of it
}

// lesson draws what a method learns from. naive takes links as they come: those of the log are links like any other,
// and what was shown is not looked at.
func (s *Service) trainingData(ctx context.Context, origin sample.Origin, method string, upTo int64) (*trainingData, error) {
	g, log := s.net.Graph(), s.net.Log()
	origin.Files = s.net.Files()
	note := "trained anew on the log"
	if upTo > 0 {
		shown, err := s.readLog(ctx, upTo)
		if err != nil {
			return nil, err
		}
		if len(shown.Source) > 0 {
			if method == "naive" {
				if g, err = withLinks(g, shown); err != nil {
					return nil, err
				}
			} else {
				if log != nil && origin.Plan.Log != sample.Ignored {
					note = "trained anew on the service's log, in place of the dataset's own exposures"
				}
				origin.Plan.Log, log = sample.Offered, shown
			}
		}
	}
	if method == "naive" {
		origin.Plan.Log, log = sample.Ignored, nil
	}
	prepared, err := sample.Prepare(ctx, g, sample.Options{Origin: origin, Log: log, Threads: 1})
	if err != nil {
		return nil, err
	}
	return &trainingData{prepared, note}, nil
}

// withLinks returns the graph with the links of a log added to its own.
func withLinks(g *graph.Graph, log *sample.ExposureLog) (*graph.Graph, error) {
	b := new(graph.Builder)
	for f := range g.FieldCount() {
		if uint16(f) == graph.UnknownField {
			continue
		}
		if _, err := b.AddField(g.FieldName(uint16(f))); err != nil {
			return nil, err
		}
	}
	b.Grow(g.Len())
	for i := range int32(g.Len()) {
		n := graph.Node{ID: g.ID(i), Field: g.FieldName(g.Field(i)), Title: g.Title(i)}
		if t, known := g.Time(i); known {
			n.Time = t
		}
		if _, err := b.AddNode(n); err != nil {
			return nil, err
		}
	}
	for i, j := range g.Links() {
		if err := b.AddLinkIndex(i, j); err != nil {
			return nil, err
		}
	}
	for k, linked := range log.Linked {
		if linked && !g.HasLink(log.Source[k], log.Target[k]) {
			if err := b.AddLinkIndex(log.Source[k], log.Target[k]); err != nil {
				return nil, err
			}
		}
	}
	out, _, err := b.Build()
	if err != nil {
		return nil, err
	}
	return out.WithTrustedVectors(g.Vectors())
}

// retrain learns a model anew from the dataset and the log, looks whether it is fit to serve, and lets it.
func (s *Service) retrain(ctx context.Context, o JobRequest, phase func(string), tell func(func(*Job))) error {
	parent := s.live.Load().current
	settings, method, err := settingsOf(parent.Model(), o.Method)
	if err != nil {
		return err
	}
	phase("reading the log")
	totals, err := s.events.Totals(ctx)
	if err != nil {
		return err
	}
	l, err := s.trainingData(ctx, parent.origin, method, totals.Events)
	if err != nil {
		return err
	}
	result, err := fit.Fit(ctx, l.Problem, settings, fit.Progress{Step: func(step fit.Step) {
		tell(func(j *Job) { j.learned(step) })
	}})
	if err != nil {
		return err
	}
	m, err := result.Model()
	if err != nil {
		return err
	}
	phase("validating")
	fresh := filepath.Join(s.models.folder, "fresh.safetensors")
	if err := model.Save(fresh, m); err != nil {
		return err
	}
	defer os.Remove(fresh)
	digest, err := s.models.adopt(ctx, fresh)
	if err != nil {
		return err
	}
	naive := s.models.snapshot().Naive
	if naive != "" {
		naive = s.models.path(naive)
	}
	next, err := s.load(ctx, s.models.path(digest), digest, naive)
	if err != nil {
		return err
	}
	entry := ModelEntry{Digest: digest, Method: m.Method, Made: s.o.Now().UTC(), Parent: parent.digest, Seq: totals.Events,
		Logged: l.Logged, Note: l.note}
	if entry.Checks, err = validate(ctx, next, parent, l); err != nil {
		return err
	}
	passed := !slices.ContainsFunc(entry.Checks, func(c Check) bool { return !c.Passed })
	serves, err := s.promote(next, entry, passed && !o.Keep)
	if err != nil {
		return err
	}
	tell(func(j *Job) { j.Model, j.Checks, j.Serves = digest, entry.Checks, serves })
	if !passed {
		return errors.New("the model is registered but does not serve: it did not pass every check")
	}
	if serves {
		phase("forecasting")
		return s.monitor.expect(ctx)
	}
	return nil
}

// settingsOf returns the settings that a model was trained with, with another method if one is named.
func settingsOf(m model.Model, method string) (fit.Settings, string, error) {
	var settings fit.Settings
	if method == "" || method == m.Method {
		if len(m.Hyperparameters) > 0 {
			if err := json.Unmarshal(m.Hyperparameters, &settings); err != nil {
				return settings, "", fmt.Errorf("the settings of the current model are damaged: %w; name a method", err)
			}
		}
		settings.Search = fit.Search{} // what it chose is among the settings
	}
	settings.Method = cmp.Or(method, settings.Method, m.Method)
	settings.Seed, settings.Threads = m.Seed, 1
	return settings, settings.Method, nil
}

// promote registers a model and, if it is to serve, lets it: requests under way keep the one that they began with.
func (s *Service) promote(next *engine, entry ModelEntry, serve bool) (serves bool, err error) {
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	line := *s.live.Load()
	serve = serve && line.abTest == nil // a trial compares two models that stay as they are
	err = s.models.change(func(r *registryState) error {
		r.Models = slices.DeleteFunc(r.Models, func(e ModelEntry) bool { return e.Digest == entry.Digest })
		r.Models = append(r.Models, entry)
		if serve {
			r.makeCurrent(next.digest)
		}
		return nil
	})
	if err != nil || !serve {
		return false, err
	}
	line.current = next
	s.live.Store(&line)
	s.o.Log.Info("another model serves", "model", next.digest, "method", entry.Method, "parent", entry.Parent)
	return true, nil
}

// Use lets a registered model serve, by its digest or the beginning of that; without one, the model
// before the current: a step back. Models lists them.
func (s *Service) Deploy(ctx context.Context, digest string) (_ ModelEntry, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return ModelEntry{}, err
	}
	defer end(&err)
	r := s.models.snapshot()
	if digest == "" {
		if len(r.Previous) == 0 {
			return ModelEntry{}, fmt.Errorf("%w: none served before the current one", ErrNoModel)
		}
		digest = r.Previous[len(r.Previous)-1]
	}
	entry, err := s.models.find(digest)
	if err != nil {
		return ModelEntry{}, err
	}
	naive := r.Naive
	if naive != "" {
		naive = s.models.path(naive)
	}
	next, err := s.load(ctx, s.models.path(entry.Digest), entry.Digest, naive)
	if err != nil {
		return ModelEntry{}, err
	}
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	err = s.models.change(func(r *registryState) error {
		back := len(r.Previous) > 0 && r.Previous[len(r.Previous)-1] == entry.Digest
		if back {
			r.Previous, r.Current = r.Previous[:len(r.Previous)-1], entry.Digest
		} else {
			r.makeCurrent(entry.Digest)
		}
		r.Trial = nil
		return nil
	})
	if err != nil {
		return ModelEntry{}, err
	}
	s.live.Store(&deployment{current: next})
	s.o.Log.Info("another model serves", "model", next.digest, "method", entry.Method)
	return entry, nil
}

// validate looks whether a model is fit to serve: what the doctor says, whether its lists are lists, and whether it is
// clearly worse than the one that serves, on pairs that neither has seen.
func validate(ctx context.Context, next, parent *engine, l *trainingData) ([]Check, error) {
	doctor := Check{Name: "doctor", Passed: true, Detail: "the scale of exposure is " + string(next.Class())}
	// Who knows no exposure judges as naive does; it takes the one that knows some to see what was lost.
	judge, other, sign := next, parent, 1.
	if next.Class() == fit.NoExposure && parent.Class() != fit.NoExposure {
		doctor.Detail = "it knows no exposure, and is judged by that of the model that serves"
		judge, other, sign = parent, next, -1
	}
	if next.Class() == fit.NotIdentified && (parent.Class() == fit.Identified || parent.Class() == fit.Weak) {
		doctor.Passed = false
		doctor.Detail += ", and that of the model before it was " + string(parent.Class())
	}
	checks := []Check{doctor}
	smoke, err := smokeTest(ctx, next)
	if err != nil {
		return nil, err
	}
	checks = append(checks, smoke)
	if l.Test.Pairs == nil {
		return append(checks, Check{Name: "panel", Passed: true, Detail: "nothing was held out to judge by"}), nil
	}
	e, err := evaluate.NewEvaluation(ctx, l.Graph, judge.Model(), l.Test, evaluate.EvaluationSettings{
		Panel: evaluate.PanelSettings{Floor: .01, Threads: 1}, Others: []model.Model{other.Model()},
		Names: []string{"other"},
	})
	if err != nil {
		return nil, err
	}
	// R_AP believes the ŷ of the model that it judges by, so that one that is sure and wrong looks
	// good to itself; R_PU believes its π̂ alone, and is less sure. On many pairs the least
	// difference is a clear one: a twentieth of the risk is let pass.
	const margin = .05
	check := Check{Name: "panel", Passed: true}
	var words []string
	for k, row := range e.Others[0].Panel.Risks {
		if row.Scheme != "ap" && row.Scheme != "pu" {
			continue
		}
		serves, new, d := row.Risk, e.Panel.Risks[k].Risk, row.Against // by d the other is above the judge
		low, high := -d.Upper, -d.Lower
		if sign < 0 {
			serves, new, low, high = new, serves, d.Lower, d.Upper
		}
		check.Passed = check.Passed && low <= margin*math.Abs(serves.Interval.Estimate)
		words = append(words, fmt.Sprintf("%s %.4g, of the model that serves %.4g, on the same pairs %+.2g to %+.2g",
			row.Label(), new.Interval.Estimate, serves.Interval.Estimate, low, high))
	}
	check.Detail = strings.Join(words, "; ")
	return append(checks, check), nil
}

// toReport is the estimator to report.
func reportedRow(p *evaluate.Panel) evaluate.PanelRow {
	return p.Risks[slices.IndexFunc(p.Risks, func(r evaluate.PanelRow) bool { return r.Scheme == "ap" })]
}

// smokeTest makes lists for sources all over the graph and looks whether they can be shown.
func smokeTest(ctx context.Context, e *engine) (Check, error) {
	const sources, k = 20, 10
	c := Check{Name: "lists", Passed: true}
	g := e.Graph()
	distinct := map[int32]bool{}
	made := 0
	for n := range sources {
		i := int32(n * g.Len() / sources)
		list, err := e.Top(ctx, recommend.Query{Source: e.Node(i), K: k, Explore: .1, Seed: uint64(n)})
		if errors.Is(err, recommend.ErrNothing) {
			continue
		}
		if err != nil {
			return c, err
		}
		made++
		for _, item := range list.Items {
			distinct[item.Node] = true
			if math.IsNaN(item.Logit) || math.IsInf(item.Logit, 0) || !(item.Link >= 0 && item.Link <= 1) ||
				!(item.Shown > 0 && item.Shown <= 1) {
				c.Passed, c.Detail = false, fmt.Sprintf("%s for %s has ŷ %v, shown with probability %v", item.ID,
					g.ID(i), item.Link, item.Shown)
				return c, nil
			}
		}
	}
	c.Detail = fmt.Sprintf("%d lists with %d different targets", made, len(distinct))
	c.Passed = made > 0 && (len(distinct) > k || g.Len() <= 2*k)
	return c, nil
}

// evaluate judges a model by pairs that it was not fitted to, and keeps that beside it.
func (s *Service) evaluate(ctx context.Context, o JobRequest, phase func(string), tell func(func(*Job))) error {
	entry, err := s.models.find(cmp.Or(o.Model, s.live.Load().current.digest))
	if err != nil {
		return err
	}
	e, err := s.load(ctx, s.models.path(entry.Digest), entry.Digest, "")
	if err != nil {
		return err
	}
	tell(func(j *Job) { j.Model = entry.Digest })
	phase("drawing the held-out pairs")
	l, err := s.trainingData(ctx, e.origin, e.Model().Method, entry.Seq)
	if err != nil {
		return err
	}
	if l.Test.Pairs == nil {
		return s.evaluateByLog(ctx, e, entry, phase)
	}
	if sum := l.Problem.Checksum(); sum != e.Model().DataChecksum {
		return fmt.Errorf("the model was fitted to other pairs than the dataset and the log give (checksum "+
			"%.12s…, not %.12s…)", e.Model().DataChecksum, sum)
	}
	phase("judging")
	found, err := evaluate.NewEvaluation(ctx, l.Graph, e.Model(), l.Test,
		evaluate.EvaluationSettings{Panel: evaluate.PanelSettings{Floor: .01, Threads: 1}})
	if err != nil {
		return err
	}
	found.Model, found.Dataset = entry.Digest, filepath.Base(s.net.Folder())
	phase("judging by the log")
	if found.Log, err = s.logRisk(ctx, e, entry.Seq); err != nil && !errors.Is(err, evaluate.ErrEmpty) {
		return err
	}
	return s.models.keepEvaluation(entry.Digest, found)
}

// evaluateByLog judges a model that was fitted to the whole of its data: what was shown since is all that it has not
// seen. If there is an evaluation of it already, as the demo makes one, that stays.
func (s *Service) evaluateByLog(ctx context.Context, e *engine, entry ModelEntry, phase func(string)) error {
	phase("judging by the log")
	by, err := s.logRisk(ctx, e, entry.Seq)
	if errors.Is(err, evaluate.ErrEmpty) {
		return errors.New("the model was fitted to the whole of its data, and nothing is left to judge it by: " +
			"fit one with another split, or log lists that it shows")
	}
	if err != nil {
		return err
	}
	found, err := s.models.readEvaluation(entry.Digest)
	if err != nil {
		return err
	}
	if found == nil {
		found = &evaluate.Evaluation{Kind: evaluate.EvaluationKind, Model: entry.Digest, Method: e.Model().Method,
			Dataset: filepath.Base(s.net.Folder()), Nodes: e.Graph().Len(), Class: e.Class()}
	}
	found.Log = by
	return s.models.keepEvaluation(entry.Digest, found)
}

// logRisk judges a model by the lists that were shown after it had learned, with the probabilities that were logged:
// none of these it has seen. Of a log of clicks without lists nothing follows, which is evaluate.ErrEmpty.
func (s *Service) logRisk(ctx context.Context, e *engine, after int64) (*evaluate.LogRisk, error) {
	g := e.Graph()
	var lists []evaluate.LoggedList
	at := map[string]int{}       // by the list's id
	place := map[[2]string]int{} // by the list's id and the target's
	linked := false              // lists may have what their source links to
	for event, err := range store.All(ctx, s.events, after) {
		if err != nil {
			return nil, err
		}
		i, known := g.Index(event.Source)
		j, there := g.Index(event.Target)
		if event.List == "" || !known || !there || i == j {
			continue
		}
		n, ok := at[event.List]
		if !ok {
			if len(lists) == maxLoggedLists {
				continue
			}
			n = len(lists)
			at[event.List], lists = n, append(lists, evaluate.LoggedList{Source: i})
		}
		key := [2]string{event.List, event.Target}
		k, ok := place[key]
		if !ok {
			k = len(lists[n].Items)
			place[key], lists[n].Items = k, append(lists[n].Items, evaluate.LoggedItem{Target: j})
			linked = linked || g.HasLink(i, j)
		}
		if item := &lists[n].Items[k]; event.Kind == store.Shown {
			item.Probability = event.Probability
		} else {
			item.Wanted = true
		}
	}
	return evaluate.FromLog(ctx, g, e.Model(), lists, evaluate.LogSettings{Linked: linked, Seed: 1, Threads: 1})
}

// maxLoggedLists bounds the lists that a model is judged by.
const maxLoggedLists = 200_000

// evaluation is where a model's evaluation is kept.
func (g *registry) evaluation(digest string) string { return g.path(digest) + ".evaluation.json" }

func (g *registry) keepEvaluation(digest string, e *evaluate.Evaluation) error {
	return atomicfile.Write(g.evaluation(digest), func(w io.Writer) error { return json.NewEncoder(w).Encode(e) })
}

// readEvaluation returns a model's evaluation, nil if there is none.
func (g *registry) readEvaluation(digest string) (e *evaluate.Evaluation, err error) {
	raw, err := os.ReadFile(g.evaluation(digest))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err != nil {
		return nil, fmt.Errorf("the evaluation of model %.12s: %w; have it judged anew", digest, err)
	}
	return e, nil
}
