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
	"time"

	"unseen/click"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/progress"
	"unseen/recommend"
	"unseen/sample"
)

// perform performs a job.
func (s *Service) perform(ctx context.Context, r JobRequest, update func(func(*Job))) (err error) {
	spans := phases{s: s, ctx: ctx}
	defer func() { spans.end(err) }()
	report := func(e progress.Event) {
		spans.enter(e.Phase)
		update(func(j *Job) { j.report(e) })
	}
	switch r.Kind {
	case "retrain":
		return s.retrain(ctx, r, report, update)
	case "evaluate":
		return s.evaluate(ctx, r, report, update)
	case "value":
		return s.value(ctx, r, report, update)
	}
	return fmt.Errorf("unknown kind of job %q", r.Kind)
}

// trainingData is what a model learns from: the dataset and the log up to an event.
type trainingData struct {
	*sample.Prepared
	note string // for the model's entry in the registry
}

// trainingData prepares what a method learns from. naive ignores exposure: links of the log count as links of the
// dataset, and what was shown is not used.
func (s *Service) trainingData(ctx context.Context, origin sample.Origin, method string, r *reading) (*trainingData,
	error) {
	if err := s.vectorsFault(); err != nil {
		return nil, err
	}
	g, log := r.base.Graph(), r.base.Log()
	origin.Files = r.base.Files()
	var offered *sample.ExposureLog
	if err := s.read(ctx, r); err != nil {
		return nil, err
	}
	note := r.note()
	if r.log.Showings > 0 {
		switch {
		case method == "naive":
			var err error
			if g, err = withLinks(g, r.log); err != nil {
				return nil, err
			}
		case log != nil && origin.Plan.Log != sample.Ignored && !origin.Plan.Log.Offers():
			note += ", beside the dataset's exposures"
			offered = r.log.Exposures(r.clicks)
		default:
			origin.Plan.Log, log = sample.Offered, r.log.Exposures(r.clicks)
		}
	}
	if method == "naive" {
		origin.Plan.Log, log = sample.Ignored, nil
	}
	prepared, err := sample.Prepare(ctx, g, sample.Options{Origin: origin, Log: log, Offered: offered, Threads: 1,
		Without: s.without(r.base, r.base.seq)})
	if err != nil {
		return nil, err
	}
	return &trainingData{prepared, note}, nil
}

// withLinks returns the graph with the links of a log added to its own. They have times where the graph's links do:
// what is held out and what was available depend on them.
func withLinks(g *graph.Graph, log *click.Log) (*graph.Graph, error) {
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
		n := graph.Node{ID: g.ID(i), Field: g.FieldName(g.Field(i)), Title: g.Title(i), Role: g.Role(i)}
		if t, known := g.Time(i); known {
			n.Time = t
		}
		if _, err := b.AddNode(n); err != nil {
			return nil, err
		}
	}
	for i := range int32(g.Len()) {
		times := g.OutTimes(i)
		for place, j := range g.Out(i) {
			when := int64(graph.NoTime)
			if times != nil {
				when = times[place]
			}
			if err := b.AddLinkAt(i, j, when); err != nil {
				return nil, err
			}
		}
	}
	source, target, at := log.Links()
	for k, i := range source {
		when := int64(graph.NoTime)
		if g.HasLinkTimes() && at[k] != 0 {
			when = at[k]
		}
		if err := b.AddLinkAt(i, target[k], when); err != nil {
			return nil, err
		}
	}
	out, _, err := b.Build()
	if err != nil || g.Vectors() == nil {
		return out, err
	}
	return out.WithTrustedVectors(g.Vectors())
}

// retrain trains a model on the dataset and the log, validates it, and deploys it if it passes.
func (s *Service) retrain(ctx context.Context, r JobRequest, report progress.Func, update func(func(*Job))) error {
	parent := s.live.Load().current
	settings, method, err := settingsOf(parent.Model(), r.Method)
	if err != nil {
		return err
	}
	settings.Engine = s.o.JobEngine
	report(progress.Event{Phase: "reading the log"})
	totals, err := s.events.Totals(ctx)
	if err != nil {
		return err
	}
	base, err := s.trainingBase(ctx)
	if err != nil {
		return err
	}
	hidden := s.forgotten.hidden.Load()
	settings.Method = method
	log := s.readingFor(base, totals.Seq)
	start, err := s.startFor(ctx, r, method, log)
	if err != nil {
		return err
	}
	if err := s.learnClicks(ctx, log, start.model, settings, report); err != nil {
		return err
	}
	data, err := s.trainingData(ctx, parent.origin, method, log)
	if err != nil {
		return err
	}
	settings.Progress = report
	m, training, err := s.learn(ctx, start, data, settings)
	if err != nil {
		return err
	}
	if s.forgotten.hidden.Load() != hidden {
		return errors.New("somebody was forgotten during the training, so its model was dropped; retrain")
	}
	report(progress.Event{Phase: "validating"})
	fresh := filepath.Join(s.models.folder, "fresh.safetensors")
	if err := model.Save(fresh, m); err != nil {
		return err
	}
	defer os.Remove(fresh)
	digest, err := s.models.adopt(ctx, fresh)
	if err != nil {
		return err
	}
	next, err := s.load(ctx, digest, s.models.snapshot().Naive)
	if err != nil {
		return err
	}
	entry := ModelEntry{Digest: digest, Method: m.Method, Made: s.o.Now().UTC(), Parent: start.from.Digest,
		Seq: totals.Seq, Logged: data.Logged, Note: data.note + training.note(), Catalogue: base.seq,
		Training: training, Log: &LogReading{At: log.at, Counts: log.log.Counts, Clicks: log.clicks}}
	if entry.Checks, err = s.validate(ctx, next, parent, data, training.Refresh); err != nil {
		return err
	}
	passed := !slices.ContainsFunc(entry.Checks, func(c Check) bool { return !c.Passed })
	deployed, err := s.promote(ctx, next, entry, passed && !r.TrainOnly)
	if err != nil {
		return err
	}
	if err := s.datasets.trim(s.models.snapshot().Models); err != nil {
		s.o.Log.Warn("an old copy of the dataset was not removed", "error", err)
	}
	update(func(j *Job) {
		j.Model, j.Checks, j.Training = digest, entry.Checks, training
		j.Deployed, j.Serves = deployed, deployed
	})
	if !passed {
		return errors.New("the model was registered but not deployed: it failed a check")
	}
	if deployed {
		report(progress.Event{Phase: "forecasting"})
		return s.monitor.expect(ctx)
	}
	return nil
}

// settingsOf returns the settings that a model was trained with, with another method if one is given.
func settingsOf(m model.Model, method string) (fit.Settings, string, error) {
	settings := fit.Settings{Method: method}
	if method == "" || method == m.Method {
		var err error
		if settings, err = fit.SettingsOf(m); err != nil {
			return settings, "", fmt.Errorf("the live model: %w; give a method", err)
		}
	}
	settings.Seed, settings.Threads = m.Seed, 1
	return settings, settings.Method, nil
}

// ModelTraining says how a model was trained: in full, or refreshed from its parent.
type ModelTraining struct {
	Kind    string               `json:"kind" enum:"full,refresh" doc:"in full, or refreshed from its parent"`
	Reason  string               `json:"reason,omitempty" doc:"why it was trained in full"`
	Refresh *fit.RefreshFindings `json:"refresh,omitempty" doc:"how far it is from the last full training"`
	// Forgotten are those that the last full training did not learn from. A refresh carries over what that learned.
	Forgotten int `json:"forgotten,omitempty" doc:"number of forgotten nodes that it did not learn from"`
}

// Words says it in a sentence.
func (t *ModelTraining) Words() string {
	if t.Refresh == nil {
		return fmt.Sprintf("Trained in full: %s.", t.Reason)
	}
	return fmt.Sprintf("Refreshed from the model that was live: refresh %d of the full training of %s, since when "+
		"%.2g%% of links or events are new.", t.Refresh.Number, t.Refresh.Full.Format(time.DateOnly),
		100*t.Refresh.NewShare)
}

// note says it behind what the model learned from.
func (t *ModelTraining) note() string {
	if t.Refresh == nil {
		return ""
	}
	return fmt.Sprintf(", refresh %d of the full training", t.Refresh.Number)
}

// start is where a training begins.
type start struct {
	from  ModelEntry // what is first believed to be wanted, and what a refresh begins at
	model *loadedModel
	full  string // why the training is to be in full; empty for a refresh
}

// startFor returns where a training begins: at the live model or, where nothing is new since that was trained, where
// that began, so that a job that is done again ends in the same model.
func (s *Service) startFor(ctx context.Context, r JobRequest, method string, log *reading) (start, error) {
	current := s.live.Load().current
	live, err := s.models.find(current.digest)
	if err != nil {
		return start{}, err
	}
	at, without, repeated := start{from: live, model: current}, 0, false
	if of := live.Training; of != nil {
		without = of.Forgotten
		if live.Seq == log.upTo && live.Catalogue == log.base.seq {
			if before, err := s.models.find(live.Parent); err == nil {
				at.from, repeated = before, true
			} else {
				at.full = "nothing is new since the live model was trained"
			}
		}
	}
	switch {
	case r.Full:
		at.full = "as requested"
	case method != live.Method:
		at.full = "the live model has another method"
	case s.Forgotten().Nodes != without:
		at.full = "somebody was forgotten, from whom the live model learned"
	case repeated && live.Training.Refresh == nil:
		at.full = live.Training.Reason
	}
	if repeated {
		at.model, err = s.load(ctx, at.from.Digest, "")
	}
	return at, err
}

// learn refreshes a model, or trains in full where there is none or that is due.
func (s *Service) learn(ctx context.Context, at start, data *trainingData, settings fit.Settings) (model.Model,
	*ModelTraining, error) {
	none, forgotten := model.Model{}, s.Forgotten().Nodes // retrain drops the model if somebody more is forgotten
	full := func(reason string) (model.Model, *ModelTraining, error) {
		s.o.Log.InfoContext(ctx, "training in full", "reason", reason)
		result, err := fit.Fit(ctx, data.Problem, settings)
		if err != nil {
			return none, nil, err
		}
		m, err := result.Model()
		return m, &ModelTraining{Kind: "full", Reason: reason, Forgotten: forgotten}, err
	}
	if at.full != "" {
		return full(at.full)
	}
	m, err := s.modelOn(ctx, at.from.Digest, data.Problem.Nodes)
	if ctx.Err() != nil {
		return none, nil, ctx.Err()
	}
	if err != nil {
		return full("the live model does not know all nodes or fields")
	}
	from := fit.Earlier{Model: m, Made: at.from.Made}
	due, err := from.Due(data.Problem)
	if err == nil && len(due) > 0 {
		return full(strings.Join(due, "; "))
	}
	var result *fit.Result
	if err == nil {
		result, err = fit.Refresh(ctx, data.Problem, from, settings)
	}
	switch {
	case errors.Is(err, fit.ErrEarlier), errors.Is(err, fit.ErrDiverged):
		return full(err.Error())
	case err != nil:
		return none, nil, err
	case result.Findings.Refresh.Due:
		return full(strings.Join(result.Findings.Refresh.Why, "; "))
	}
	m, err = result.Model()
	return m, &ModelTraining{Kind: "refresh", Refresh: result.Findings.Refresh, Forgotten: forgotten}, err
}

// promote registers a model and deploys it if serve is set. Requests in progress keep the model they began with.
func (s *Service) promote(ctx context.Context, next *loadedModel, entry ModelEntry, serve bool) (serves bool,
	err error) {
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	line := *s.live.Load()
	serve = serve && line.abTest == nil // an A/B test compares two models that do not change
	err = s.models.change(func(r *registryState) error {
		r.Models = slices.DeleteFunc(r.Models, func(e ModelEntry) bool { return e.Digest == entry.Digest })
		r.Models = append(r.Models, entry)
		if serve {
			r.makeCurrent(next.digest, s.o.Now())
		}
		return nil
	})
	if err != nil || !serve {
		return false, err
	}
	line.current = next
	if err := s.goLive(&line); err != nil {
		return false, err
	}
	s.o.Log.InfoContext(ctx, "deployed a model", "model", next.digest, "method", entry.Method, "parent", entry.Parent)
	return true, nil
}

// Deploy makes a registered model live, by its digest or the first characters of it; without a digest it
// rolls back to the previous model. It ends an A/B test. Models lists the models.
func (s *Service) Deploy(ctx context.Context, digest string) (_ ModelEntry, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return ModelEntry{}, err
	}
	defer end(&err)
	r := s.models.snapshot()
	if digest == "" {
		if len(r.Previous) == 0 {
			return ModelEntry{}, hint.Wrap(ErrNoPrevious, "deploy one of %s by its digest", s.at("/api/v1/models"))
		}
		digest = r.Previous[len(r.Previous)-1]
	}
	entry, err := s.models.find(digest)
	if err != nil {
		return ModelEntry{}, err
	}
	next, err := s.load(ctx, entry.Digest, r.Naive)
	if err != nil {
		return ModelEntry{}, err
	}
	s.jobs.swap.Lock()
	defer s.jobs.swap.Unlock()
	last := s.lastABTest(EndedByDeploy)
	err = s.models.change(func(r *registryState) error {
		back := len(r.Previous) > 0 && r.Previous[len(r.Previous)-1] == entry.Digest
		if back {
			r.Previous, r.Current, r.Since = r.Previous[:len(r.Previous)-1], entry.Digest, s.o.Now().UTC()
		} else {
			r.makeCurrent(entry.Digest, s.o.Now())
		}
		r.endABTest(last)
		return nil
	})
	if err != nil {
		return ModelEntry{}, err
	}
	if err := s.goLive(&deployment{current: next}); err != nil {
		return ModelEntry{}, err
	}
	s.o.Log.InfoContext(ctx, "deployed a model", "model", next.digest, "method", entry.Method)
	return entry, nil
}

// doctorCheck is the name of the check of the doctor's verdict.
const doctorCheck = "doctor"

// validate checks whether a model can be deployed: what the doctor says, whether its lists are valid, and whether it is
// clearly worse than the live model on pairs that neither has seen.
//
// The risk of a refresh with a posterior is not compared: it is within half a standard deviation of that, which no
// held-out pairs can tell, and what corrects a model for judging itself would make it look worse than its parent.
func (s *Service) validate(ctx context.Context, next, parent *loadedModel, data *trainingData,
	refresh *fit.RefreshFindings) ([]Check, error) {
	doctor := Check{Name: doctorCheck, Passed: true, Class: next.Class(),
		Detail: "the scale of exposure is " + next.Class().Label()}
	// A model without exposure judges as naive does, so the live model judges it if that has exposure.
	judge, other, sign := next, parent, 1.
	if next.Class() == fit.NoExposure && parent.Class() != fit.NoExposure {
		doctor.Detail = "the model has no exposure, so it is evaluated with the exposure of the live model"
		judge, other, sign = parent, next, -1
	}
	before := parent.Class()
	better := before == fit.Identified || before == fit.Weak ||
		(before == fit.NotChecked || before == fit.Unmeasured) && parent.Model().Findings != nil
	if next.Class() == fit.NotIdentified && better {
		doctor.Passed = false
		doctor.Detail += "; that of the live model is " + before.Label()
	}
	checks := []Check{doctor}
	smoke, err := smokeTest(ctx, next)
	if err != nil {
		return nil, err
	}
	checks = append(checks, smoke)
	if post, err := fit.PosteriorOf(next.Model()); err == nil && post != nil && refresh != nil {
		return append(checks, Check{Name: "panel", Passed: true, Skipped: true, Detail: fmt.Sprintf(
			"refreshed: ŷ has moved by %.2g standard deviations of its posterior since the last full training",
			refresh.Relevance)}), nil
	}
	if data.Test.Pairs == nil {
		return append(checks, Check{Name: "panel", Passed: true, Skipped: true,
			Detail: "no pairs were held out"}), nil
	}
	models := map[*loadedModel]model.Model{next: next.Model(), parent: parent.Model()}
	if parent.base != next.base {
		if models[parent], err = s.modelOn(ctx, parent.digest, data.Problem.Nodes); err != nil {
			return append(checks, Check{Name: "panel", Passed: true, Skipped: true,
				Detail: "the live model does not know the nodes that came since it was trained"}), nil
		}
	}
	e, err := evaluate.NewEvaluation(ctx, data.Graph, models[judge], data.Test, evaluate.EvaluationSettings{
		Panel: evaluate.PanelSettings{Floor: .01, Threads: 1}, Others: []model.Model{models[other]},
		Names: []string{"other"}, Engine: judge.Engine(),
	})
	if err != nil {
		return nil, err
	}
	// R_AP believes the ŷ of the model that it judges by, so that one that is sure and wrong looks
	// good to itself; R_PU believes its π̂ alone, and is less sure. On many pairs the least
	// difference is a clear one: a twentieth of the risk is let pass.
	const margin = .05
	check := Check{Name: "panel", Passed: true}
	var details []string
	for k, row := range e.Others[0].Panel.Risks {
		if row.Scheme != "ap" && row.Scheme != "pu" {
			continue
		}
		live, new, d := row.Risk, e.Panel.Risks[k].Risk, row.Against // by d the other is above the judge
		low, high := -d.Upper, -d.Lower
		if sign < 0 {
			live, new, low, high = new, live, d.Lower, d.Upper
		}
		check.Passed = check.Passed && low <= margin*math.Abs(live.Interval.Estimate)
		details = append(details, fmt.Sprintf("%s %.4g, live model %.4g, difference on the same pairs %+.2g to %+.2g",
			row.Label(), new.Interval.Estimate, live.Interval.Estimate, low, high))
	}
	check.Detail = strings.Join(details, "; ")
	return append(checks, check), nil
}

// modelOn returns a model over other nodes than it was fitted to, which learned factors are not.
func (s *Service) modelOn(ctx context.Context, digest string, nodes model.Nodes) (model.Model, error) {
	fitted, _, err := s.datasets.model(ctx, s.models.path(digest))
	if err != nil {
		return model.Model{}, err
	}
	return fitted.On(nodes)
}

// reportedRow returns the row of the estimator to report.
func reportedRow(p *evaluate.Panel) evaluate.PanelRow {
	return p.Risks[slices.IndexFunc(p.Risks, func(r evaluate.PanelRow) bool { return r.Scheme == "ap" })]
}

// smokeTest makes lists for sources all over the graph and checks that they are valid.
func smokeTest(ctx context.Context, e *loadedModel) (Check, error) {
	const sources, k = 20, 10
	c := Check{Name: "lists", Passed: true}
	g := e.Graph()
	distinct := map[int32]bool{}
	made := 0
	for n := range sources {
		i := g.Sources()[n*len(g.Sources())/sources]
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
				c.Passed, c.Detail = false, fmt.Sprintf("an item has ŷ %v and is shown with probability %v",
					item.Link, item.Shown)
				return c, nil
			}
		}
	}
	c.Detail = fmt.Sprintf("%d lists with %d different targets", made, len(distinct))
	c.Passed = made > 0 && (len(distinct) > k || len(g.Targets()) <= 2*k)
	return c, nil
}

// judged loads the model that a job is about: the one that it names, or the live one.
func (s *Service) judged(ctx context.Context, r JobRequest, update func(func(*Job))) (*loadedModel, ModelEntry, error) {
	entry, err := s.models.find(cmp.Or(r.Model, s.live.Load().current.digest))
	if err != nil {
		return nil, entry, err
	}
	e, err := s.load(ctx, entry.Digest, "")
	if err == nil {
		update(func(j *Job) { j.Model = entry.Digest })
	}
	return e, entry, err
}

// evaluate evaluates a model on pairs that it was not fitted to, and saves the evaluation beside it.
func (s *Service) evaluate(ctx context.Context, r JobRequest, report progress.Func, update func(func(*Job))) error {
	e, entry, err := s.judged(ctx, r, update)
	if err != nil {
		return err
	}
	report(progress.Event{Phase: "preparing the held-out pairs"})
	data, err := s.trainingData(ctx, e.origin, e.Model().Method, s.readingOf(e, entry))
	if err != nil {
		return err
	}
	if data.Test.Pairs == nil {
		return s.evaluateByLog(ctx, e, entry, report)
	}
	if sum := data.Problem.Checksum(); sum != e.Model().DataChecksum {
		return fmt.Errorf("the model was fitted to pairs that the dataset and the log do not give any more "+
			"(checksum %.12s…, now %.12s…): the dataset was "+
			"changed, or somebody was forgotten; retrain", e.Model().DataChecksum, sum)
	}
	report(progress.Event{Phase: "evaluating"})
	found, err := evaluate.NewEvaluation(ctx, data.Graph, e.Model(), data.Test,
		evaluate.EvaluationSettings{Panel: evaluate.PanelSettings{Floor: .01, Threads: 1}, Engine: e.Engine()})
	if err != nil {
		return err
	}
	found.Model, found.Dataset = entry.Digest, filepath.Base(s.net.Folder())
	report(progress.Event{Phase: "evaluating on the log"})
	if found.Log, err = s.logRisk(ctx, e, entry); err != nil && !errors.Is(err, evaluate.ErrEmpty) {
		return err
	}
	return s.models.saveEvaluation(entry.Digest, found)
}

// evaluateByLog evaluates a model that was fitted to all of its data, on the lists that were shown since: only those it
// has not seen. An existing evaluation, as the demo writes one, stays.
func (s *Service) evaluateByLog(ctx context.Context, e *loadedModel, entry ModelEntry, report progress.Func) error {
	report(progress.Event{Phase: "evaluating on the log"})
	by, err := s.logRisk(ctx, e, entry)
	if errors.Is(err, evaluate.ErrEmpty) {
		return errors.New("the model was fitted to all of its data, so there are no held-out pairs: " +
			"fit a model with another split, or log the lists that this one shows")
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
	return s.models.saveEvaluation(entry.Digest, found)
}

// logRisk evaluates a model on the lists that were shown after its training, with the logged probabilities. A log of
// clicks without lists gives evaluate.ErrEmpty.
func (s *Service) logRisk(ctx context.Context, e *loadedModel, entry ModelEntry) (*evaluate.LogRisk, error) {
	g := e.Graph()
	var clicks *click.Behaviour
	if entry.Log != nil {
		clicks = entry.Log.Clicks
	}
	reading := s.listReading(g, clicks)
	reading.After = entry.Seq
	logged, err := ReadLists(ctx, s.events, g, reading)
	if err != nil {
		return nil, err
	}
	return evaluate.FromLog(ctx, g, e.Model(), logged.Lists, evaluate.LogSettings{Linked: logged.Linked, Seed: 1,
		Threads: 1, Engine: e.Engine()})
}

// evaluation is the path of a model's evaluation.
func (g *registry) evaluation(digest string) string { return g.path(digest) + ".evaluation.json" }

func (g *registry) saveEvaluation(digest string, e *evaluate.Evaluation) error {
	return atomicfile.WritePrivate(g.evaluation(digest),
		func(w io.Writer) error { return json.NewEncoder(w).Encode(e) })
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
		return nil, fmt.Errorf("evaluation of model %.12s: %w; evaluate it again", digest, err)
	}
	return e, nil
}
