package serve

import (
	"context"

	"unseen/fit"
)

// Moment is a point of a job's curve.
type CurvePoint struct {
	Step       int     `json:"step" doc:"from 1, over all phases"`
	Phase      string  `json:"phase"`
	Epoch      int     `json:"epoch" doc:"epoch, round or iteration of the phase, from 1"`
	Loss       float64 `json:"loss" doc:"the objective for each training pair"`
	Validation float64 `json:"validation,omitempty" doc:"the loss on pairs that are not trained on; left out where there is none"`
}

// maxMoments bounds a job's curve; of a longer one every second point is kept.
const maxCurvePoints = 400

// learned adds a step of training to a job.
func (j *Job) learned(step fit.Step) {
	j.Phase, j.Done = step.Phase, step.Done
	if step.Done == 0 && step.Epochs > 0 {
		j.Done = float64(step.Epoch-1) / float64(step.Epochs)
	}
	loss := step.Loss.Total()
	if loss == 0 {
		return // not known yet
	}
	m := CurvePoint{Step: 1, Phase: step.Phase, Epoch: step.Epoch, Loss: loss, Validation: step.Validation}
	if j.Latest != nil {
		m.Step = j.Latest.Step + 1
	}
	j.Latest = &m
	if len(j.curve) >= maxCurvePoints { // a copy: others may be reading the old one
		thinner := make([]CurvePoint, 0, maxCurvePoints)
		for k := 0; k < len(j.curve); k += 2 {
			thinner = append(thinner, j.curve[k])
		}
		j.curve = thinner
	}
	j.curve = append(j.curve, m)
}

// JobCurve is how the loss of a job fell.
type JobCurve struct {
	Job    string       `json:"job"`
	Points []CurvePoint `json:"points" doc:"in order; of many, some"`
}

func (s *Service) getJobCurve(_ context.Context, in *idInput) (*body[JobCurve], error) {
	curve, err := s.JobCurve(in.ID)
	return respond(curve), err
}

// Curve returns how the loss of a job fell so far.
func (s *Service) JobCurve(id string) (JobCurve, error) {
	job, _, err := s.jobs.find(id)
	if err != nil {
		return JobCurve{}, err
	}
	return JobCurve{job.ID, append([]CurvePoint{}, job.curve...)}, nil
}
