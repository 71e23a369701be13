package serve

import (
	"context"

	"unseen/progress"
)

// CurvePoint is a point of a job's training curve.
type CurvePoint struct {
	Step  int    `json:"step" doc:"from 1, over all phases"`
	Phase string `json:"phase"`
	Epoch int    `json:"epoch" doc:"epoch, round or iteration of the phase, from 1"`
	// Loss is the objective for each training pair, Validation the loss on pairs that are not trained on.
	Loss       float64 `json:"loss" doc:"per training pair"`
	Validation float64 `json:"validation,omitempty" doc:"loss on validation pairs, if there are any"`
}

// maxCurvePoints limits a job's curve; of a longer one every second point is kept.
const maxCurvePoints = 400

// report records progress in a job. Events with a loss become points of its curve.
func (j *Job) report(e progress.Event) {
	j.Phase, j.Done = e.Phase, e.Share()
	loss := e.Values["loss"]
	if loss == 0 {
		return // not known yet
	}
	p := CurvePoint{Step: 1, Phase: e.Phase, Epoch: int(e.Values["round"]), Loss: loss,
		Validation: e.Values["validation"]}
	if j.Latest != nil {
		p.Step = j.Latest.Step + 1
	}
	j.Latest = &p
	if len(j.curve) >= maxCurvePoints { // a copy: others may be reading the old one
		thinned := make([]CurvePoint, 0, maxCurvePoints)
		for k := 0; k < len(j.curve); k += 2 {
			thinned = append(thinned, j.curve[k])
		}
		j.curve = thinned
	}
	j.curve = append(j.curve, p)
}

// JobCurve is the training curve of a job.
type JobCurve struct {
	Job    string       `json:"job"`
	Points []CurvePoint `json:"points" doc:"in order; thinned if there are many"`
}

func (s *Service) getJobCurve(_ context.Context, in *idInput) (*body[JobCurve], error) {
	curve, err := s.JobCurve(in.ID)
	return respond(curve), err
}

// JobCurve returns the training curve of a job so far.
func (s *Service) JobCurve(id string) (JobCurve, error) {
	job, _, err := s.jobs.find(id)
	if err != nil {
		return JobCurve{}, err
	}
	return JobCurve{job.ID, append([]CurvePoint{}, job.curve...)}, nil
}
