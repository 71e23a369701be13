package fit

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/model"
	"unseen/risk"
)

// Search is a grid of settings to choose from. Every point is trained as the model itself will be,
// from the first start, with the same seed and on the same split of the pairs, and judged by the
// likelihood of the validation pairs: under the case-control likelihood, how probable the links are
// that were seen. Of points that do equally well the earlier is taken, so write the simpler values
// first. bayes needs none: it learns its own hyperparameters.
//
// The likelihood is of o, through π̂ŷ, so a point cannot win by learning exposure with ŷ. Observed AUC
// would reward just that: a model that knows what was shown ranks the links that were seen best, and true
// relevance worse.
type Search struct {
	Axes   []Axis `json:"axes,omitempty"`   // the last varies fastest
	Points int    `json:"points,omitempty"` // how many to try, drawn by the seed; 0 means all
}

// Axis is the values of one setting; see Searchable.
type Axis struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

// Trial is where training ended at one point of a Search.
type Trial struct {
	Values     map[string]float64 `json:"values"`
	Validation float64            `json:"validation"` // mean −log likelihood of the validation pairs; 0 if it diverged
	Steps      int                `json:"steps"`      // epochs of Adam, or iterations of L-BFGS
	Diverged   bool               `json:"diverged,omitempty"`
	Chosen     bool               `json:"chosen,omitempty"`
}

// searchable is a setting that a Search can vary.
type searchable struct {
	about string
	whole bool // the values are numbers of something
	set   func(s *Settings, value float64)
	// idle says why the setting would change nothing; "" if it would not be idle
	idle func(s Settings, m method) string
}

var searchables = map[string]searchable{
	"ridge": {about: "prior variance of z",
		set: func(s *Settings, v float64) { s.Ridge = v },
		idle: func(s Settings, _ method) string {
			return unless(strings.HasPrefix(s.Link, "diagonal") || ofFactors(s.Link),
				"the link model "+s.Link+" has no ridge")
		}},
	"lr": {about: "Adam's learning rate",
		set: func(s *Settings, v float64) { s.Adam.Rate = v }, idle: onlyAdam},
	"batch": {about: "pairs in a step of Adam", whole: true,
		set: func(s *Settings, v float64) { s.Adam.Batch = int(v) }, idle: onlyAdam},
	"lambda-r": {about: "weight of the risk",
		set: func(s *Settings, v float64) { s.LambdaR = orNone(v) }, idle: onlyRisk},
	"floor": {about: "least propensity that the risk sees",
		set: func(s *Settings, v float64) { s.Floor = orNone(v) }, idle: onlyRisk},
	"rank": {about: "rank of the link models low-rank and factors", whole: true,
		set: func(s *Settings, v float64) { s.LinkOptions.Rank = int(v) },
		idle: func(s Settings, _ method) string {
			return unless(strings.HasPrefix(s.Link, "low-rank") || ofFactors(s.Link),
				"the link model "+s.Link+" has no rank")
		}},
	"hidden": {about: "hidden units of the link model mlp", whole: true,
		set: func(s *Settings, v float64) { s.LinkOptions.Hidden = int(v) },
		idle: func(s Settings, _ method) string {
			return unless(strings.HasPrefix(s.Link, "mlp"), "the link model "+s.Link+" has no hidden units")
		}},
}

// orNone turns a 0 into what Settings take for none: their 0 means the preset's value.
func orNone(v float64) float64 {
	if v == 0 {
		return -1
	}
	return v
}

func unless(fine bool, otherwise string) string {
	if fine {
		return ""
	}
	return otherwise
}

func onlyAdam(s Settings, _ method) string {
	return unless(s.Optimiser == "adam", "the optimiser is "+s.Optimiser)
}

func onlyRisk(s Settings, m method) string {
	return unless(m.risk != engine.NoRisk, "the method "+s.Method+" has no risk")
}

// Searchable returns the names of the settings that a Search can vary, with a few words on each.
func Searchable() map[string]string {
	out := map[string]string{}
	for name, a := range searchables {
		out[name] = a.about
	}
	return out
}

// mostPoints is how many points a search may have if Points is not set.
const mostPoints = 1000

// validate checks the grid against the settings that it varies.
func (g Search) validate(s Settings, m method) error {
	if g.Points < 0 || g.Points > 0 && len(g.Axes) == 0 {
		return fmt.Errorf("%w: a search of %d points over %d settings; give a positive number and something to "+
			"search over", ErrSetting, g.Points, len(g.Axes))
	}
	seen := map[string]bool{}
	for _, axis := range g.Axes {
		a, ok := searchables[axis.Name]
		switch {
		case !ok:
			return fmt.Errorf("%w: %q cannot be searched over; there is %s", ErrSetting, axis.Name,
				strings.Join(slices.Sorted(maps.Keys(searchables)), ", "))
		case m.bayes:
			return fmt.Errorf("%w: bayes learns its own hyperparameters, so there is no %s to search over; "+
				"choose another method, or do not search", ErrSetting, axis.Name)
		case m.untrained:
			return fmt.Errorf("%w: %s is not trained, so there is no %s to search over; choose another method, "+
				"or do not search", ErrSetting, s.Method, axis.Name)
		case seen[axis.Name]:
			return fmt.Errorf("%w: %s is searched over twice; give all its values at once", ErrSetting, axis.Name)
		case len(axis.Values) == 0:
			return fmt.Errorf("%w: no values of %s to search over; give some", ErrSetting, axis.Name)
		}
		if why := a.idle(s, m); why != "" {
			return fmt.Errorf("%w: searching over %s would change nothing, since %s; leave it out", ErrSetting,
				axis.Name, why)
		}
		seen[axis.Name] = true
		for i, v := range axis.Values {
			switch {
			case slices.Contains(axis.Values[:i], v):
				return fmt.Errorf("%w: the search tries %s = %v twice; give every value once", ErrSetting, axis.Name, v)
			case a.whole && !(v >= 1 && v <= math.MaxInt32 && v == math.Trunc(v)):
				return fmt.Errorf("%w: the search tries %s = %v; give whole numbers from 1", ErrSetting, axis.Name, v)
			case v < 0 && (axis.Name == "lambda-r" || axis.Name == "floor"):
				return fmt.Errorf("%w: the search tries %s = %v; give numbers that are not negative", ErrSetting,
					axis.Name, v)
			case axis.Name == "ridge" && !(v > 0):
				return fmt.Errorf("%w: the search tries ridge = %v; give positive variances of z", ErrSetting, v)
			}
			at := s
			at.Search = Search{}
			a.set(&at, v)
			if err := at.validate(); err != nil {
				return fmt.Errorf("%w (in the search over %s)", err, axis.Name)
			}
		}
	}
	if n := g.size(); n > mostPoints && g.Points == 0 {
		return fmt.Errorf("%w: the search has %.6g points, which is more than %d; say how many of them to try",
			ErrSetting, n, mostPoints)
	} else if n > 1<<53 {
		return fmt.Errorf("%w: the search has %.3g points, too many to draw from; give fewer values", ErrSetting, n)
	}
	return nil
}

// size returns the number of points of the whole grid, as a float64 since it may be huge.
func (g Search) size() float64 {
	n := 1.
	for _, axis := range g.Axes {
		n *= float64(len(axis.Values))
	}
	return n
}

// points returns the points to try, in the order of the grid.
func (g Search) points(seed uint64) []map[string]float64 {
	if len(g.Axes) == 0 {
		return nil
	}
	total := int64(g.size())
	var numbers []int64
	if g.Points == 0 || int64(g.Points) >= total {
		for k := range total {
			numbers = append(numbers, k)
		}
	} else { // different ones, every set with the same probability (Floyd)
		rng := rand.New(rand.NewPCG(seed, 2))
		drawn := map[int64]bool{}
		for k := total - int64(g.Points); k < total; k++ {
			number := rng.Int64N(k + 1)
			if drawn[number] {
				number = k
			}
			drawn[number] = true
		}
		numbers = slices.Sorted(maps.Keys(drawn))
	}
	out := make([]map[string]float64, len(numbers))
	for i, number := range numbers {
		out[i] = map[string]float64{}
		for _, axis := range slices.Backward(g.Axes) {
			n := int64(len(axis.Values))
			out[i][axis.Name] = axis.Values[number%n]
			number /= n
		}
	}
	return out
}

// at returns the settings at a point.
func (s Settings) at(point map[string]float64) Settings {
	for name, value := range point {
		searchables[name].set(&s, value)
	}
	return s
}

// String writes a point as the command line does: ridge=4 lr=0.001.
func (t Trial) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.Values)) {
		out = append(out, fmt.Sprintf("%s=%g", name, t.Values[name]))
	}
	return strings.Join(out, " ")
}

// plan draws the points to try, and makes sure that there are models for all of them.
func (t *training) plan() error {
	t.points = t.settings.Search.points(t.settings.Seed)
	if validation, _ := t.validation(); validation.Pairs == nil && len(t.points) > 1 {
		t.points = t.points[:1]
		t.result.Warnings = append(t.result.Warnings,
			risk.Warning{Kind: "search", Message: "there are no validation pairs to choose settings by, so the first " +
				"values of the search were used; give pairs of more sources"})
	}
	for _, point := range t.points {
		if _, err := model.NewLink(t.settings.Link, t.problem.Nodes, t.settings.at(point).LinkOptions); err != nil {
			return fmt.Errorf("%w (at %v of the search)", err, Trial{Values: point})
		}
	}
	return t.use(t.settings)
}

// search tries the points that have not been tried and uses the best. A single point is not trained
// twice.
func (t *training) search(start float64) error {
	for k := len(t.result.Trials); k < len(t.points) && len(t.points) > 1; k++ {
		trial := Trial{Values: t.points[k]}
		t.phase = fmt.Sprintf("trial %d of %d, %v", k+1, len(t.points), trial)
		if err := t.use(t.settings.at(trial.Values)); err != nil {
			return err
		}
		run, err := t.from(start, true)
		switch {
		case err != nil && !errors.Is(err, ErrDiverged):
			return err
		case err != nil || math.IsNaN(run.validation) || math.IsInf(run.validation, 0):
			trial.Diverged = true
		default:
			trial.Validation, trial.Steps = run.validation, max(run.iterations, len(run.epochs))
			if t.using.Optimiser == alternating {
				t.went(run)
			}
		}
		t.result.Trials = append(t.result.Trials, trial)
		t.recorder.settle(t)
		if err := t.recorder.tick(); err != nil {
			return err
		}
	}
	return t.choose()
}

// went keeps where a trial ended, before it counts as tried.
func (t *training) went(r run) {
	t.last = r.params
	for _, trial := range t.result.Trials {
		if !trial.Diverged && trial.Validation <= r.validation {
			return
		}
	}
	t.best = r.params
}

// choose uses the best of the points, once they are tried, or the only one.
func (t *training) choose() error {
	best := -1
	for k, trial := range t.result.Trials {
		if !trial.Diverged && (best < 0 || trial.Validation < t.result.Trials[best].Validation) {
			best = k
		}
	}
	switch {
	case best >= 0:
		t.result.Trials[best].Chosen = true
		t.result.Validation = t.result.Trials[best].Validation
	case len(t.result.Trials) > 0:
		return fmt.Errorf("%w at all %d points of the search; search over smaller learning rates, or keep the "+
			"guards on (preset safe)", ErrDiverged, len(t.points))
	default:
		best = 0
	}
	chosen := t.settings
	if len(t.points) > 0 {
		chosen = chosen.at(t.points[best])
	}
	if err := t.use(chosen); err != nil {
		return err
	}
	t.result.Settings, t.result.Link = chosen, t.objective.Link
	t.result.Ridge = max(chosen.Ridge, 0)
	return nil
}
