package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"

	"unseen/hint"
	"unseen/loop"
)

// The methods of a simulated recommender.
const (
	SimulateNaive     = "naive"     // ignores exposure
	SimulateCorrected = "corrected" // corrects for exposure; what was not shown counts as not linked
	SimulateShown     = "shown"     // corrects for exposure and learns only from what was shown, as this service does
)

// Simulation is a simulated feedback loop.
type Simulation struct {
	Model   string  `json:"model" doc:"digest"`
	Method  string  `json:"method"`
	Rounds  int     `json:"rounds"`
	Explore float64 `json:"explore"`
	Seed    uint64  `json:"seed"`

	All      []loop.Share     `json:"all" doc:"same-field share of the recommendations, by round"`
	Baseline []loop.Share     `json:"baseline" doc:"the same of a naive recommender that does not explore"`
	Fields   []SimulatedField `json:"fields"`
	Summary  []string         `json:"summary" doc:"in sentences"`
	Warnings []string         `json:"warnings,omitempty"`

	Beside []loop.Share `json:"beside" deprecated:"true" doc:"old name of baseline"`
	Words  []string     `json:"words" deprecated:"true" doc:"old name of summary"`
}

// SimulatedField is the same-field share of the recommendations to one field.
type SimulatedField struct {
	Field  string       `json:"field"`
	Own    string       `json:"own,omitempty" doc:"the targets' field that counts as its own, where it is another"`
	Nodes  int          `json:"nodes"`
	Shares []loop.Share `json:"shares"`
}

type simulationInput struct {
	Rounds  int     `query:"rounds" minimum:"1" maximum:"50" default:"20" doc:"rounds of recommending and retraining"`
	Explore float64 `query:"explore" minimum:"0" maximum:"1" default:"0" doc:"share drawn from all targets"`
	Method  string  `query:"method" enum:"naive,corrected,shown" default:"naive" doc:"how the recommender learns"`
	Seed    uint64  `query:"seed" maximum:"9007199254740991" default:"1" doc:"random seed"`
}

func (s *Service) getSimulation(ctx context.Context, in *simulationInput) (*body[Simulation], error) {
	out, err := s.Simulate(ctx, in.Method, in.Rounds, in.Explore, in.Seed)
	return respond(out), err
}

// simulatedPairs limits the pairs of a simulation, whatever the number of fields.
const simulatedPairs = 400_000

// Simulate simulates the feedback loop with the live model: recommend, let readers link, retrain, round after round. It
// uses a sample of pairs and ends with the context.
func (s *Service) Simulate(ctx context.Context, method string, rounds int, explore float64, seed uint64) (_ Simulation,
	err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return Simulation{}, err
	}
	defer end(&err)
	leave, err := s.enterGate(ctx)
	if err != nil {
		return Simulation{}, err
	}
	defer leave()
	switch {
	case method != SimulateNaive && method != SimulateCorrected && method != SimulateShown:
		return Simulation{}, hint.Wrap(requestError("method", clip(method), "is not a method"),
			"give naive, corrected or shown")
	case rounds < 1 || rounds > 50:
		return Simulation{}, outOfRange("rounds", rounds, 1, 50)
	case !(explore >= 0 && explore <= 1):
		return Simulation{}, outOfRange("explore", explore, 0, 1)
	}
	e := s.live.Load().current
	each := min(max(int(math.Sqrt(simulatedPairs))/max(e.Graph().FieldCount(), 1), 4), 100)
	settings := loop.ForecastSettings{Rounds: rounds, Sources: each, Targets: each, Replicates: 40, Threads: 1,
		Seed: seed}
	plain, err := loop.NewForecast(ctx, e.Model(), e.Graph(), settings)
	if err != nil {
		return Simulation{}, forecastError(err)
	}
	settings.Explore, settings.ShownOnly = explore, method == SimulateShown
	played, err := loop.NewForecast(ctx, e.Model(), e.Graph(), settings)
	if err != nil {
		return Simulation{}, forecastError(err)
	}
	of := func(f loop.FieldForecast) []loop.Share {
		if method == SimulateNaive {
			return f.Naive
		}
		return f.Corrected
	}
	out := Simulation{Model: e.digest, Method: method, Rounds: rounds, Explore: explore, Seed: seed,
		All: of(played.All), Baseline: plain.All.Naive, Warnings: played.Warnings}
	for _, f := range played.Fields {
		out.Fields = append(out.Fields, SimulatedField{f.Name, f.Own, f.Nodes, of(f)})
	}
	out.summarize()
	out.Beside, out.Words = out.Baseline, out.Summary
	return out, nil
}

// forecastError turns a model without a forecast into 404.
func forecastError(err error) error {
	if errors.Is(err, loop.ErrModel) || errors.Is(err, loop.ErrGraph) {
		return newProblem(http.StatusNotFound, fmt.Errorf("no forecast: %w", err))
	}
	return err
}

// summarize adds the summary.
func (s *Simulation) summarize() {
	first, last := s.All[0], s.All[len(s.All)-1]
	baseline := s.Baseline[len(s.Baseline)-1]
	s.Summary = append(s.Summary, fmt.Sprintf("In round 1, %.0f of 100 recommendations stay in the reader's own "+
		"field; in round %d, %.0f (%.0f to %.0f).", 100*first.Share, last.Round, 100*last.Share,
		100*last.Low, 100*last.High))
	if s.Method != SimulateNaive || s.Explore > 0 {
		s.Summary = append(s.Summary, fmt.Sprintf("For a naive recommender that does not explore, it would be "+
			"%.0f (%.0f to %.0f).", 100*baseline.Share, 100*baseline.Low, 100*baseline.High))
	}
	switch grown := last.Share - first.Share; {
	case grown > .05:
		s.Summary = append(s.Summary, "The loop narrows: each round shows more of what the last one showed.")
	case grown < -.05:
		s.Summary = append(s.Summary, "The loop widens: each round shows more from other fields.")
	default:
		s.Summary = append(s.Summary, "The share stays about the same: the loop does not reinforce itself.")
	}
}
