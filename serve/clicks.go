package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"unseen/click"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/progress"
	"unseen/serve/store"
)

// Clicks says how clicks are read; see package click.
type Clicks struct {
	// Window is how long a click can come after a showing, and LinkWindow how long a link can. Younger showings are not
	// learned from yet, and later outcomes are no outcomes of theirs. 0 means half an hour and a day, negative for
	// ever.
	Window, LinkWindow time.Duration
	// Given are surfaces of which κ and θ are known; those of others are learned.
	Given *click.Behaviour
}

// How long an outcome is waited for.
var (
	clickWindow = 30 * time.Minute
	linkWindow  = 24 * time.Hour
)

func (c Clicks) windows() click.Windows {
	window := func(given, standard time.Duration) time.Duration {
		if given == 0 {
			given = standard
		}
		return max(given, 0)
	}
	return click.Windows{Click: window(c.Window, clickWindow), Link: window(c.LinkWindow, linkWindow)}
}

// OpenClicks reads what is known of clicks from a JSON file: {"surfaces": [{"name": "home", "kappa": 0.3, "theta": [1,
// 0.5]}]}.
func OpenClicks(path string) (*click.Behaviour, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxForm {
		return nil, fmt.Errorf("%s has %s bytes; it should name surfaces, in at most %s", path, amount.Text(len(raw)),
			amount.Text(maxForm))
	}
	var m click.Behaviour
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%s: %w; give {\"surfaces\": [{\"name\": …, \"kappa\": …, \"theta\": […]}]}", path, err)
	}
	if err := m.Give(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &m, nil
}

// LogReading is how the log was read for a model.
type LogReading struct {
	At time.Time `json:"at" doc:"when it was read: younger showings were left out"`
	click.Counts
	Clicks *click.Behaviour `json:"clicks,omitempty" doc:"what was believed of clicks"`
}

// reading is a log up to an event, read at a time, of the nodes of a dataset.
type reading struct {
	base    *baseData
	upTo    int64
	at      time.Time
	windows click.Windows
	clicks  *click.Behaviour
	log     *click.Log // nil before it is read
}

// readingFor returns how the log is read for a new model.
func (s *Service) readingFor(base *baseData, upTo int64) *reading {
	return &reading{base: base, upTo: upTo, at: s.o.Now().UTC(), windows: s.o.Clicks.windows()}
}

// readingOf returns how the log was read for a registered model.
func (s *Service) readingOf(m *loadedModel, e ModelEntry) *reading {
	if e.Log == nil {
		return &reading{base: m.base, upTo: e.Seq, at: e.Made}
	}
	return &reading{base: m.base, upTo: e.Seq, at: e.Log.At, windows: s.o.Clicks.windows(), clicks: e.Log.Clicks}
}

var clickKinds = map[store.Kind]click.Act{store.Shown: click.Shown, store.Clicked: click.Clicked,
	store.Linked: click.Linked, store.Dismissed: click.Dismissed}

// read reads the log: what was shown of pairs that the dataset does not link, and what came of it.
func (s *Service) read(ctx context.Context, r *reading) error {
	if r.log != nil {
		return nil
	}
	g, reader := r.base.Graph(), click.NewReader(r.windows, r.at)
	if r.upTo > 0 {
		for e, err := range store.All(ctx, s.events, 0) {
			if err != nil {
				return err
			}
			if e.Seq > r.upTo {
				break
			}
			i, known := s.forgotten.find(g, e.Source)
			j, found := s.forgotten.find(g, e.Target)
			kind, ok := clickKinds[e.Kind]
			if !ok || !known || !found || i == j || !g.IsSource(i) || !g.IsTarget(j) || g.HasLink(i, j) {
				continue // a new text, a node of another dataset or on the wrong side, or what was a link before
			}
			reader.Add(click.Occurrence{Act: kind, Source: i, Target: j, List: e.List, Surface: e.Surface,
				Place: e.Position, Placed: e.Placed, At: e.At})
		}
	}
	r.log = reader.Log()
	return nil
}

// note says what a model learned from, for its entry in the registry.
func (r *reading) note() string {
	c := r.log.Counts
	text := fmt.Sprintf("retrained on the log: %s", amount.Of(c.Showings, "showing"))
	for _, part := range []struct {
		count int
		what  string
	}{{c.Clicked, "clicked"}, {c.Linked, "linked"}, {c.Dismissed, "dismissed"}} {
		if part.count > 0 {
			text += fmt.Sprintf(", %s %s", amount.Text(part.count), part.what)
		}
	}
	for _, part := range []struct {
		count int
		what  string
	}{{c.Young, "may still be clicked"}, {c.Late, "outcomes came too late"},
		{c.Automated, "are of programs"}} {
		if part.count > 0 {
			text += fmt.Sprintf("; %s %s", amount.Text(part.count), part.what)
		}
	}
	return text
}

// learnClicks finds κ and θ for a training, first given what the model that the training begins at
// believes to be wanted.
func (s *Service) learnClicks(ctx context.Context, r *reading, first *loadedModel, settings fit.Settings,
	report progress.Func) error {
	if err := s.read(ctx, r); err != nil || r.log.Showings == 0 || settings.Method == "naive" {
		return err
	}
	settings.Doctor, settings.Replicates, settings.Search = fit.QuickDoctor, -1, fit.Search{}
	settings.Progress = nil
	turn := int64(0)
	found, err := r.log.Learn(s.o.Clicks.Given, func(clicks *click.Behaviour) ([]float64, error) {
		if clicks == nil {
			return s.wantedBy(ctx, first.Model(), first.base.Graph(), settings.Method, r)
		}
		report(progress.Event{Phase: "learning how readers click", Done: turn, Of: 2})
		turn++
		r.clicks = clicks
		data, err := s.trainingData(ctx, first.origin, settings.Method, r)
		if err != nil {
			return nil, err
		}
		result, err := fit.Fit(ctx, data.Problem, settings)
		if err != nil {
			return nil, err
		}
		m, err := result.Model()
		if err != nil {
			return nil, err
		}
		return s.wantedBy(ctx, m, r.base.Graph(), settings.Method, r)
	})
	r.clicks = found
	return err
}

// wantedBy is the probability by a model of a graph that each pair of a log is wanted, given that it was not linked
// before: ŷ(1−π̂)/(1−π̂ŷ). A model of shown pairs alone knows nothing of what was not linked. Pairs of nodes that the
// graph does not have are as those that it has.
func (s *Service) wantedBy(ctx context.Context, m model.Model, of *graph.Graph, method string, r *reading) ([]float64,
	error) {
	source, target := r.log.Pairs()
	wanted, places, pairs := make([]float64, len(source)), []int{}, &graph.Pairs{}
	for k := range source {
		i, j, known := source[k], target[k], true
		if g := r.base.Graph(); g != of {
			var found bool
			i, known = of.Index(g.ID(i))
			j, found = of.Index(g.ID(j))
			known = known && found
		}
		if known {
			places = append(places, k)
			pairs.Source, pairs.Target = append(pairs.Source, i), append(pairs.Target, j)
		}
	}
	by := engine.Predictor{Link: m.Link, LinkParams: m.LinkParams, Propensity: m.Propensity,
		PropensityParams: m.PropensityParams}
	if m.Method == "naive" || method == "shown" {
		by.Propensity, by.PropensityParams = nil, nil
	}
	z, exposure, err := engine.Logits(ctx, engine.OrCPU(s.o.Engine, 1), by, pairs)
	if err != nil {
		return nil, err
	}
	var sum float64
	for at, k := range places {
		logit := float64(z[at])
		if by.Propensity != nil {
			logit -= kern.Softplus64(float64(exposure[at]))
		}
		if wanted[k], _ = kern.Sigmoid64(logit); math.IsNaN(wanted[k]) {
			return nil, errors.New("the model gives relevance that is no number; train another")
		}
		sum += wanted[k]
	}
	if len(places) < len(wanted) {
		mean := sum / float64(max(len(places), 1))
		for k := range wanted {
			if _, known := slices.BinarySearch(places, k); !known {
				wanted[k] = mean
			}
		}
	}
	return wanted, nil
}
