package fit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
)

// Settings say how to learn. The zero Settings are the default method and preset; a preset fills in what is left zero.
// To turn off what the preset sets, give a number below 0 (λ_R, the floor, the ridge, the replicates), or Off of a
// Switch.
type Settings struct {
	Method string `json:"method"` // see Methods; "" means bayes, of factors and with Exact mle
	Preset string `json:"preset"` // see Presets; "" means safe

	// Link is the kind of the link model; "" means what the method needs, factors for people and items, or diagonal.
	Link        string            `json:"link"`
	LinkOptions model.LinkOptions `json:"linkOptions"`
	// Propensity is the kind of the propensity model; "" means field-matrix, or what the method needs.
	Propensity        string                  `json:"propensity"`
	PropensityOptions model.PropensityOptions `json:"propensityOptions"`

	LambdaL  float64 `json:"lambdaL"`  // weight of the likelihood; 0 means the preset's
	LambdaR  float64 `json:"lambdaR"`  // weight of the risk; 0 means the preset's, below 0 none: the likelihood alone
	Sampling string  `json:"sampling"` // case-control, unweighted or weighted
	EvenRisk Switch  `json:"evenRisk"` // the risk ignores inclusion weights
	Through  Switch  `json:"through"`  // gradients flow through the masses
	Floor    float64 `json:"floor"`    // the least propensity that the risk sees; 0 means the preset's, below 0 none
	// Ridge is the prior variance of z under the link model's weights; 0 means the preset's, below 0 none.
	Ridge float64 `json:"ridge"`

	// Exact learns from all pairs of the network instead of a sample, by L-BFGS. What the sample is for then is where
	// to begin, and to choose the ridge.
	Exact bool `json:"exact,omitempty"`

	Optimiser string        `json:"optimiser"` // adam, lbfgs or, of factors, alternating
	Adam      AdamSettings  `json:"adam"`
	LBFGS     LBFGSSettings `json:"lbfgs"`

	Search Search `json:"search"` // settings to choose by the validation pairs

	Starts  []float64 `json:"starts"`  // propensities to start from; the first gives the result, the others check it
	Anchors []Anchor  `json:"anchors"` // what is known of the propensities' scale, for bayes

	// Replicates is how many simulated histories bayes refits, to know its own bias; 0 means 10, below 0 none. Factors
	// are learned as many times again from pairs drawn anew, for intervals; 0 means none.
	Replicates int `json:"replicates"`

	// Doctor is how thoroughly the doctor of bayes examines: full compares all assumptions under which the links could
	// have come about, quick none but the model's own. "" means full.
	Doctor string `json:"doctor"`

	// Exposure is what the exposure depends on: fields, alone or with any of +text, +popularity, +age, +person, +item
	// and +activity behind it; see model.Term. The text is for bayes alone, the last three for other methods.
	// AutoExposure, or "", is the propensity's kind, of factors and a log fields+person+item, and of bayes what the
	// doctor's tests speak for; with a quick doctor that is fields.
	Exposure string `json:"exposure,omitempty"`

	mostBytes int // of products that bayes keeps; 0 means mostBytes, tests lower it
	mostPairs int // that the information of all pairs is found from; 0 means informationPairs or more, tests lower it
	compared  int // pairs that assumptions are compared by; 0 means comparedPairs, tests lower it
	mostExact int // dimensions up to which bayes factors its matrix; 0 means mostExact, tests lower it
	draws     int // that it makes above them; 0 means usualDraws

	Seed    uint64 `json:"seed"`
	Threads int    `json:"-"` // 0 means all processors; results do not depend on it

	Progress progress.Func `json:"-"` // gets rounds and epochs, about ten times a second; may be nil

	Engine engine.Engine `json:"-"` // for the heavy computations; nil means engine.CPU with these Threads

	Checkpoint Checkpoint `json:"-"` // from which an interrupted training resumes
}

// How thoroughly the doctor examines.
const (
	FullDoctor  = "full"
	QuickDoctor = "quick"
)

// Switch is a yes or no; by default the preset decides. JSON has true, false, or null for the default.
type Switch int8

// The positions of a switch; the zero value means the preset's.
const (
	On  Switch = 1
	Off Switch = -1
)

// MarshalJSON writes true, false or null.
func (s Switch) MarshalJSON() ([]byte, error) {
	if s == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(s == On)
}

// UnmarshalJSON reads them.
func (s *Switch) UnmarshalJSON(text []byte) error {
	var said *bool
	if err := json.Unmarshal(text, &said); err != nil {
		return err
	}
	switch {
	case said == nil:
		*s = 0
	case *said:
		*s = On
	default:
		*s = Off
	}
	return nil
}

// Anchor is what is known from elsewhere of the propensity within a group of field pairs.
type Anchor struct {
	Group      string  `json:"group"` // same or cross
	Propensity float64 `json:"propensity"`
	Error      float64 `json:"error"` // standard error
}

// method is what a name stands for.
type method struct {
	about      string
	risk       engine.RiskTerm
	link       string // kind, where the method asks for one
	propensity string
	untrained  bool
	bayes      bool
	shown      bool // ŷ is learned from shown pairs alone
}

var methods = map[string]method{
	"naive": {about: "every missing link counts as irrelevant; no propensity (the paper's No Prop)",
		propensity: "constant"},
	"naive-field": {about: "naive, with the field pair as a feature: it learns exposure", link: "diagonal-field",
		propensity: "constant"},
	"cosine": {about: "the cosine of the vectors, without training", link: "cosine", propensity: "constant",
		untrained: true},
	ShownOnly: {about: "pairs that are known to have been shown, linked or logged; the rest is ignored", shown: true},
	"mle":     {about: "maximum likelihood of links and exposure together"},
	"rw":      {about: "likelihood and the risk R_w", risk: engine.RiskW},
	"pu":      {about: "likelihood and the risk R_PU", risk: engine.RiskPU},
	"ap":      {about: "likelihood and the risk R_AP", risk: engine.RiskAP},
	"dr":      {about: "likelihood and the doubly robust risk, where exposure is logged", risk: engine.RiskDR},
	"bayes":   {about: "the posterior of links and exposure, every hyperparameter learned", bayes: true},
}

// methodOf returns the method that a name stands for: that of a scheme, such as "w", is the method with its risk, "rw".
func methodOf(name string) string {
	for method, m := range methods {
		if m.risk != engine.NoRisk && risk.Canonical(method) == name {
			return method
		}
	}
	return name
}

// Methods returns the names of the methods with a line on each. Schemes registered with package risk are methods too,
// by their names there; the scheme w is the method rw, and both names work.
func Methods() map[string]string {
	out := map[string]string{}
	for name, m := range methods {
		out[name] = m.about
	}
	for _, name := range risk.Names() {
		if _, own := methods[methodOf(name)]; !own && name != "true" {
			out[name] = "likelihood and the registered risk " + name
		}
	}
	return out
}

// presets fill in what Settings leave zero.
var presets = map[string]Settings{
	// What worked best over worlds of all kinds: the likelihood at twenty times the risk's weight, a
	// floor of .05 under the risk's propensities, no gradient through masses that blow up, a start
	// at π̂ = .3, and an early stop by the validation pairs, which keeps ŷ from being shrunk. (Full
	// batches with a ridge end in better optima of the objective and worse models: at a shrunk w
	// hardly any ŷ comes near 1, and π̂ is taken for larger than it is. bayes avoids just that.) The
	// search is for L-BFGS alone, which has no early stop.
	"safe": {LambdaL: 20, LambdaR: 1, Sampling: "case-control", Floor: .05, Optimiser: "adam",
		Adam:   AdamSettings{Rate: 1e-3, Batch: 32, Epochs: 100, Patience: 8},
		Search: Search{Axes: []Axis{{"ridge", []float64{1, 4, 16, 64}}}}, Starts: []float64{.3, .1, .9}},
	// The paper as written: nothing keeps π̂ from 0.
	"paper": {LambdaL: 1, LambdaR: 10, Sampling: "unweighted", EvenRisk: On, Through: On, Optimiser: "adam",
		Adam: AdamSettings{Rate: 1e-4, Batch: 32}, Starts: []float64{.5}},
	// The weights and the rate of the authors' notebook, with the guards.
	"notebook": {LambdaL: 20, LambdaR: 1, Sampling: "unweighted", EvenRisk: On, Floor: .05, Optimiser: "adam",
		Adam: AdamSettings{Rate: 1e-3, Batch: 32}, Starts: []float64{.5}},
}

// Optimisers returns the names of the optimisers. alternating is for the link model factors alone.
func Optimisers() []string { return []string{"adam", "lbfgs", alternating} }

// Presets returns the names of the presets.
func Presets() []string { return []string{"safe", "paper", "notebook"} }

// WithDefaults returns the settings with everything filled in, or an error that names an invalid setting.
func (s Settings) WithDefaults() (Settings, error) {
	if s.Method == "" && (ofFactors(s.Link) || s.Exact) {
		s.Method = "mle"
	}
	s.Method = methodOf(cmp.Or(s.Method, "bayes"))
	s.Preset = cmp.Or(s.Preset, "safe")
	s.Doctor = cmp.Or(s.Doctor, FullDoctor)
	preset, ok := presets[s.Preset]
	if !ok {
		return s, fmt.Errorf("%w: no preset %q; there is %s", ErrSetting, s.Preset, strings.Join(Presets(), ", "))
	}
	m, err := s.method()
	if err != nil {
		return s, err
	}
	s.Link = cmp.Or(s.Link, m.link, "diagonal")
	s.Propensity = cmp.Or(s.Propensity, m.propensity, "field-matrix")
	s.LambdaL = cmp.Or(s.LambdaL, preset.LambdaL)
	s.LambdaR = cmp.Or(s.LambdaR, preset.LambdaR)
	s.Sampling = cmp.Or(s.Sampling, preset.Sampling)
	s.Floor = cmp.Or(s.Floor, preset.Floor)
	s.EvenRisk = cmp.Or(s.EvenRisk, preset.EvenRisk, Off)
	s.Through = cmp.Or(s.Through, preset.Through, Off)
	if ofFactors(s.Link) {
		preset = preset.ofFactors()
	}
	if s.Exact {
		s.Optimiser = cmp.Or(s.Optimiser, "lbfgs")
		s.LBFGS.Memory, s.LBFGS.Tolerance = cmp.Or(s.LBFGS.Memory, 50), cmp.Or(s.LBFGS.Tolerance, 1e-8)
	}
	s.Optimiser = cmp.Or(s.Optimiser, preset.Optimiser)
	for _, axis := range preset.Search.Axes {
		given := slices.ContainsFunc(s.Search.Axes, func(a Axis) bool { return a.Name == axis.Name })
		if s.Optimiser != "adam" && s.Ridge == 0 && !given && !m.bayes && !m.untrained &&
			(strings.HasPrefix(s.Link, "diagonal") || ofFactors(s.Link)) {
			s.Search.Axes = append([]Axis{axis}, s.Search.Axes...)
		}
	}
	if s.Starts == nil {
		s.Starts = preset.Starts
	}
	s.Adam.Rate = cmp.Or(s.Adam.Rate, preset.Adam.Rate)
	s.Adam.Batch = cmp.Or(s.Adam.Batch, preset.Adam.Batch)
	s.Adam.Epochs = cmp.Or(s.Adam.Epochs, preset.Adam.Epochs)
	s.Adam.Patience = cmp.Or(s.Adam.Patience, preset.Adam.Patience)
	s.LBFGS.Tolerance = cmp.Or(s.LBFGS.Tolerance, preset.LBFGS.Tolerance)
	s.Adam, s.LBFGS = s.Adam.withDefaults(), s.LBFGS.withDefaults()
	if ofFactors(s.Link) {
		s.Replicates = cmp.Or(s.Replicates, -1)
	}
	s.Replicates = cmp.Or(s.Replicates, 10)
	s.Replicates = max(s.Replicates, -1)
	// −1 stays, so that the settings mean the same when they are read again
	s.LambdaR, s.Floor = max(s.LambdaR, -1), max(s.Floor, -1)
	s.Threads = kern.Threads(s.Threads)
	if err := s.validate(); err != nil {
		return s, err
	}
	if s, err = s.withExposure(m); err != nil {
		return s, err
	}
	if len(s.Anchors) > 0 && !m.bayes {
		return s, hint.Wrap(fmt.Errorf("%w: an anchor, which %s cannot use", ErrSetting, s.Method),
			"use bayes, or leave %v out", hint.Setting("anchors"))
	}
	if err := cmp.Or(s.validateFactors(m), s.validateExact(m)); err != nil {
		return s, err
	}
	return s, s.Search.validate(s, m)
}

func (s Settings) method() (method, error) {
	if m, ok := methods[s.Method]; ok {
		return m, nil
	}
	if _, err := risk.Lookup(s.Method); err == nil && s.Method != "true" {
		return method{risk: engine.OtherRisk}, nil
	}
	var names []string
	for name := range Methods() {
		names = append(names, name)
	}
	slices.Sort(names)
	return method{}, fmt.Errorf("%w: no method %q; there is %s", ErrSetting, s.Method, strings.Join(names, ", "))
}

func (s Settings) likelihood() (engine.Likelihood, error) {
	l, err := engine.ParseLikelihood(s.Sampling)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrSetting, err)
	}
	return l, nil
}

// engine returns the engine to train on.
func (s Settings) engine() engine.Engine { return engine.OrCPU(s.Engine, s.Threads) }

func (s Settings) validate() error {
	if _, err := s.likelihood(); err != nil {
		return err
	}
	switch {
	case !(s.LambdaL > 0) || math.IsInf(s.LambdaL, 0):
		return fmt.Errorf("%w: λ_L is %v; without the likelihood every risk has a trivial optimum, so give a "+
			"positive number", ErrSetting, s.LambdaL)
	case math.IsNaN(s.LambdaR) || math.IsInf(s.LambdaR, 0):
		return fmt.Errorf("%w: λ_R is %v; give a positive number, or a negative one for no risk", ErrSetting, s.LambdaR)
	case !(s.Floor < 1):
		return fmt.Errorf("%w: the propensity floor is %v; give a probability such as 0.05, or a negative "+
			"number for none", ErrSetting, s.Floor)
	case !slices.Contains(Optimisers(), s.Optimiser):
		return fmt.Errorf("%w: no optimiser %q; there is %s", ErrSetting, s.Optimiser, strings.Join(Optimisers(), ", "))
	case s.Optimiser == alternating && !ofFactors(s.Link):
		return fmt.Errorf("%w: the optimiser %s is for factors, not for the link model %s; use adam or lbfgs",
			ErrSetting, s.Optimiser, s.Link)
	}
	if s.Doctor != FullDoctor && s.Doctor != QuickDoctor {
		return fmt.Errorf("%w: no doctor %q; there is %s and %s", ErrSetting, s.Doctor, FullDoctor, QuickDoctor)
	}
	for _, p := range s.Starts {
		if !(p > 0 && p < 1) {
			return fmt.Errorf("%w: start at the propensity %v; give probabilities between 0 and 1", ErrSetting, p)
		}
	}
	if math.IsNaN(s.Ridge) || math.IsInf(s.Ridge, 0) {
		return fmt.Errorf("%w: ridge %v; give a positive variance of z, or a negative number for none", ErrSetting,
			s.Ridge)
	}
	for i, a := range s.Anchors {
		if a.Group != "same" && a.Group != "cross" || !(a.Propensity > 0 && a.Propensity < 1) || !(a.Error > 0) ||
			math.IsInf(a.Error, 0) {
			return fmt.Errorf("%w: anchor %s=%v±%v; write same=0.8±0.1 or cross=…, with a probability and a "+
				"positive error", ErrSetting, a.Group, a.Propensity, a.Error)
		}
		if slices.ContainsFunc(s.Anchors[:i], func(b Anchor) bool { return a.Group == b.Group }) {
			return fmt.Errorf("%w: two anchors of %s; give one", ErrSetting, a.Group)
		}
	}
	if err := s.Adam.validate(); err != nil {
		return err
	}
	return s.LBFGS.validate()
}
