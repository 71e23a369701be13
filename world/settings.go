package world

import (
	"cmp"
	"fmt"
	"math"
	"runtime"

	"unseen/hint"
	"unseen/internal/amount"
)

// Settings says how to generate a world. The zero value is the world of the paper's semi-synthetic
// experiment in size and in everything that it states.
type Settings struct {
	Nodes int // 0 means 26,000
	Dim   int // dimension of the vectors; 0 means 768

	// Fields are the fields of study and their shares of the nodes; nil means FieldsOfStudy.
	// Every field has at least one node.
	Fields []Field
	// RandomFields draws the fields independently of the texts. Otherwise the field of a node is
	// that of its text.
	RandomFields bool

	// A text is of one area (there are as many as fields) and of one topic within it; its vector is
	//
	//	h = √FieldShare·μ_area + √TopicShare·τ_topic + √(1 − FieldShare − TopicShare)·ε
	//
	// with random directions μ, τ and ε of squared length 1 in the mean. Coordinate k of each has a root
	// mean square in proportion to k^−Spectrum, k = 1, 2, …
	Topics     int     // topics per area; 0 means 8
	FieldShare float64 // 0 means .25
	TopicShare float64 // 0 means .25

	// Spectrum is how fast coordinates fade. At 0 all are alike, and the products h_i⊙h_j that links
	// depend on vary in as many directions as there are dimensions. Those of real texts vary in few:
	// TextSpectrum has as many as the abstracts of a journal.
	Spectrum float64

	// Homophily is how much higher the logits of pairs of one area are in the mean than those of
	// others, in standard deviations of the logits that there would be without it. At 0, w has mean
	// 0 and texts that resemble one another are no likelier to be linked.
	Homophily float64

	Scenario
}

// Scenario is what is true of the links and exposures of a world, generated or planted, unless Violations say
// otherwise:
//
//	y_ij = Ceiling·σ(wᵀ(h_i⊙h_j) + b),   π_ij = π[field of i, field of j]
//
// The shape of w is drawn or given; its length and b follow from BaseRate and OracleAUC. These two
// also decide how many pairs are saturated, with y near 1: a high AUC asks for a wide spread of the
// logits, a low one leaves them flat. See Saturated, SaturatedRare and FlatRare.
type Scenario struct {
	BaseRate  float64 // mean of F(z) over all pairs, F being σ, which is y where Ceiling is 1; 0 means .16
	OracleAUC float64 // AUC of F(z) for outcomes drawn from it, as o′ is from y; 0 means .97
	// Ceiling is the largest y. Below 1 it leaves w and b as they are and the world has a blind
	// spot: links alone cannot distinguish it from the world of Ceiling 1 that is Thinned by as much.
	// 0 means 1.
	Ceiling float64

	Same  PropensityRange // of π where source and target are of one field; zero means .7 to 1
	Cross PropensityRange // of π where they are of two; zero means .1 to .3. The unknown field is never one field

	Violations Violations `json:",omitzero"` // assumptions of learning that do not hold

	Seed    uint64 // the same seed gives the same world
	Threads int    // 0 means all processors; results do not depend on it
}

// PropensityRange is an interval from which numbers are drawn uniformly.
type PropensityRange struct{ Low, High float64 }

// Saturated is the scenario of the paper's experiment: links are common and the logits wide, so that
// many y are near 1 and the scale of π is identified.
func Saturated() Scenario { return Scenario{BaseRate: .16, OracleAUC: .97} }

// SaturatedRare is a scenario of rare links, a few of whose y are still near 1.
func SaturatedRare() Scenario { return Scenario{BaseRate: .01, OracleAUC: .985} }

// FlatRare is a scenario of rare links with no y near 1: only logged exposure identifies the
// scale of π.
func FlatRare() Scenario { return Scenario{BaseRate: .02, OracleAUC: .75} }

// WithDefaults returns the settings with every default in place of its zero.
func (s Settings) WithDefaults() Settings {
	s.Nodes = cmp.Or(s.Nodes, 26_000)
	s.Dim = cmp.Or(s.Dim, 768)
	if s.Fields == nil {
		s.Fields = FieldsOfStudy()
	}
	s.Topics = cmp.Or(s.Topics, 8)
	s.FieldShare = cmp.Or(s.FieldShare, .25)
	s.TopicShare = cmp.Or(s.TopicShare, .25)
	s.Scenario = s.Scenario.WithDefaults()
	return s
}

// WithDefaults returns the scenario with every default in place of its zero.
func (p Scenario) WithDefaults() Scenario {
	p.BaseRate = cmp.Or(p.BaseRate, .16)
	p.OracleAUC = cmp.Or(p.OracleAUC, .97)
	p.Ceiling = cmp.Or(p.Ceiling, 1)
	p.Same = cmp.Or(p.Same, PropensityRange{.7, 1})
	p.Cross = cmp.Or(p.Cross, PropensityRange{.1, .3})
	p.Violations.Response = cmp.Or(p.Violations.Response, Logit)
	p.Threads = cmp.Or(p.Threads, runtime.GOMAXPROCS(0))
	return p
}

// Validate reports the first setting that no world can have. Whether the oracle AUC can be reached
// shows only when the world is made.
func (s Settings) Validate() error {
	s = s.WithDefaults()
	switch {
	case s.Nodes < 2 || s.Nodes > math.MaxInt32:
		return hint.Wrap(bad("a world of %s has no pairs or too many", amount.Of(s.Nodes, "node")),
			"set %v from 2 to %s", hint.Setting("nodes"), amount.Text(math.MaxInt32))
	case s.Dim < 1 || s.Dim > maxNumbers/s.Nodes:
		return hint.Wrap(bad("%s dimensions of %s", amount.Text(s.Dim), amount.Of(s.Nodes, "node")),
			"set %v to 1 or more, and at most %s", hint.Setting("dim"), amount.Text(maxNumbers/s.Nodes))
	case s.Topics < 1 || s.Topics > maxTopics:
		return bad("Topics is %d; give from 1 to %d", s.Topics, maxTopics)
	case !(s.FieldShare > 0 && s.FieldShare <= 1):
		return bad("FieldShare is %v; give a share above 0, at most 1", s.FieldShare)
	case !(s.TopicShare > 0 && s.TopicShare <= 1):
		return bad("TopicShare is %v; give a share above 0, at most 1", s.TopicShare)
	case s.FieldShare+s.TopicShare > 1:
		return bad("FieldShare and TopicShare are %v and %v; together they are at most 1", s.FieldShare, s.TopicShare)
	case !(s.Spectrum >= 0 && s.Spectrum <= maxSpectrum):
		return bad("Spectrum is %v; give from 0, where all coordinates are alike, to %d", s.Spectrum, maxSpectrum)
	case !(math.Abs(s.Homophily) <= maxHomophily):
		return bad("Homophily is %v; give from −%d to %d standard deviations", s.Homophily, maxHomophily, maxHomophily)
	}
	if err := checkFields(s.Fields, s.Nodes); err != nil {
		return err
	}
	return s.Scenario.Validate()
}

const (
	maxNumbers   = 1 << 37 // half a terabyte of vectors
	maxTopics    = 1 << 16
	maxHomophily = 100
	maxSpectrum  = 4    // the second coordinate is a sixteenth of the first, and the rest next to nothing
	leastRate    = 1e-6 // a quarter of a link among the pairs of the calibration
)

// Validate reports the first setting that no world can have.
func (p Scenario) Validate() error {
	p = p.WithDefaults()
	switch {
	case !(p.Ceiling > 0 && p.Ceiling <= 1):
		return hint.Wrap(bad("the ceiling of y is %v", p.Ceiling), "set %v to ceiling with a probability above 0",
			hint.Setting("violations"))
	case !(p.BaseRate >= leastRate && p.BaseRate <= 1-leastRate):
		return bad("BaseRate is %v; give from %v to %v: without links, or without missing ones, there is "+
			"nothing to learn", p.BaseRate, leastRate, 1-leastRate)
	case !(p.OracleAUC > .5 && p.OracleAUC < 1):
		return bad("OracleAUC is %v; give a number between 0.5, where all pairs have the same y, and 1, where y "+
			"is 0 or 1", p.OracleAUC)
	case p.Threads < 0:
		return bad("Threads is %d; give 1 or more, or 0 for all processors", p.Threads)
	}
	if err := p.Same.check("Same"); err != nil {
		return err
	}
	if err := p.Cross.check("Cross"); err != nil {
		return err
	}
	return p.Violations.validate()
}

func (r PropensityRange) check(name string) error {
	if !(r.Low > 0 && r.Low <= r.High && r.High <= 1) {
		return bad("%s is from %v to %v; a propensity is above 0 and at most 1, so give 0 < Low ≤ High ≤ 1", name,
			r.Low, r.High)
	}
	return nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSetting, fmt.Sprintf(format, args...))
}
