package serve

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"unseen/fit"
	"unseen/progress"
)

// runs registers the page for operators: training, models, A/B tests.
func (p *site) runs() {
	s := p.s
	p.read("GET /runs", "page-runs", func(w http.ResponseWriter, r *http.Request) error {
		content, err := p.runsPage(r)
		if err != nil {
			return err
		}
		p.show(w, r, http.StatusOK, "runs", content)
		return nil
	})
	p.change("POST /runs/jobs", "page-start-job", func(r *http.Request) (string, error) {
		job, err := s.StartJob(JobRequest{Kind: r.PostFormValue("kind"), Method: r.PostFormValue("method"),
			TrainOnly: r.PostFormValue("trainOnly") != "", Model: r.PostFormValue("model")})
		return "queued&job=" + job.ID, err
	})
	p.change("POST /runs/jobs/{id}/cancel", "page-cancel-job", func(r *http.Request) (string, error) {
		job, err := s.CancelJob(r.PathValue("id"))
		return "cancelled&job=" + job.ID, err
	})
	p.change("POST /runs/rollback", "page-rollback", func(r *http.Request) (string, error) {
		_, err := s.Deploy(r.Context(), "")
		return "back", err
	})
	p.change("POST /runs/deploy", "page-serve", func(r *http.Request) (string, error) {
		_, err := s.Deploy(r.Context(), requireDigest(r.PostFormValue("model")))
		return "serves", err
	})
	p.change("POST /runs/ab-test", "page-ab-test", func(r *http.Request) (string, error) {
		share, err := strconv.ParseFloat(r.PostFormValue("share"), 64)
		if err != nil {
			return "", requestError("share", clip(r.PostFormValue("share")), "is not a number between 0 and 1")
		}
		_, err = s.StartABTest(r.Context(), requireDigest(r.PostFormValue("model")), share)
		return "tested", err
	})
	p.change("POST /runs/ab-test/end", "page-end-ab-test", func(*http.Request) (string, error) {
		return "ended", s.EndABTest()
	})
}

// requireDigest keeps a form without a model from rolling back.
func requireDigest(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest
}

// notices say what a form did.
var notices = map[string]string{
	"queued": "Job queued.", "cancelled": "Job cancelled.", "back": "Rolled back to the previous model.",
	"serves": "Model deployed.", "tested": "A/B test started.",
	"ended": "A/B test ended. Everybody gets the live model.",
}

// runsPage is the data of the page.
type runsPage struct {
	Did     string
	Admin   bool
	Current ModelEntry
	Verdict badge
	Methods []methodChoice
	Own     string // method of the current model

	Job    *Job // shown in full
	Curve  []CurvePoint
	Active bool
	Took   string // duration of a job that has ended
	Jobs   []Job
	Due    *time.Time // by the schedule
	Models []modelRow
	Naive  string
	Back   bool // there is a previous model

	Compared Comparison
	Arms     []armRow
	Words    string // summary of the A/B test
	Other    []ModelEntry
}

type methodChoice struct{ Name, Words string }

// modelRow is a model and its risk.
type modelRow struct {
	ModelEntry
	Current, Tested bool
	Risk            *fit.Judgement // R_AP, if it was evaluated
	Span            span
}

// armRow is a model's clicks per shown item.
type armRow struct {
	Arm
	Span   span
	Method string
}

func (p *site) runsPage(r *http.Request) (*runsPage, error) {
	s := p.s
	e := s.live.Load().current
	reg := s.models.snapshot()
	out := &runsPage{Did: notices[r.URL.Query().Get("did")], Admin: p.hasScope(r, ScopeAdmin), Own: e.Model().Method,
		Naive: reg.Naive, Back: len(reg.Previous) > 0, Compared: s.Compare(), Verdict: verdict(e.Class())}
	methods := fit.Methods()
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		out.Methods = append(out.Methods, methodChoice{name, methods[name]})
	}
	out.Jobs = s.jobs.list()
	if due, planned := s.NextRetrain(); planned {
		out.Due = &due
	}
	wanted := r.URL.Query().Get("job")
	// the requested job, else the oldest that has not ended, else the latest
	for k := range out.Jobs {
		j := &out.Jobs[k]
		if wanted == "" && (k == 0 || j.Ended == nil) || wanted == j.ID {
			out.Job = j
		}
	}
	if out.Job != nil {
		out.Active, out.Curve = out.Job.Ended == nil, append([]CurvePoint{}, out.Job.curve...)
		if j := out.Job; j.Started != nil && j.Ended != nil {
			out.Took = "in " + progress.Duration(j.Ended.Sub(*j.Started))
		}
	}
	risks := scale{}
	for _, entry := range slices.Backward(reg.Models) {
		row := modelRow{ModelEntry: entry, Current: entry.Digest == e.digest, Tested: reg.ABTest != nil &&
			reg.ABTest.B == entry.Digest}
		v, err := s.models.readEvaluation(entry.Digest)
		if err != nil {
			return nil, err
		}
		if v != nil && v.Panel != nil {
			risk := reportedRow(v.Panel).Risk
			row.Risk = &risk
			risks.including(risk.Lower, risk.Upper)
		}
		if row.Current {
			out.Current = entry
		} else {
			out.Other = append(out.Other, entry)
		}
		out.Models = append(out.Models, row)
	}
	for k := range out.Models {
		if x := out.Models[k].Risk; x != nil {
			out.Models[k].Span = risks.span(x.Lower, x.Interval.Estimate, x.Upper, "",
				fmt.Sprintf("R_AP %.4f, from %.4f to %.4f", x.Interval.Estimate, x.Lower, x.Upper))
		}
	}
	out.compare(reg)
	return out, nil
}

// compare adds the clicks of the models of the A/B test.
func (o *runsPage) compare(reg registryState) {
	rates := scale{}
	for _, a := range o.Compared.Arms {
		rates.including(a.Clicks.Low, a.Clicks.Value, a.Clicks.High)
	}
	for k, a := range o.Compared.Arms {
		row := armRow{Arm: a, Span: rates.span(a.Clicks.Low, a.Clicks.Value, a.Clicks.High,
			[]string{"", "b", "c"}[min(k, 2)], fmt.Sprintf("%s clicks per shown item, from %s to %s",
				percent(a.Clicks.Value), percent(a.Clicks.Low), percent(a.Clicks.High)))}
		if a.Shown == 0 {
			row.Span = span{Label: "nothing shown yet"}
		}
		for _, entry := range reg.Models {
			if entry.Digest == a.Model {
				row.Method = entry.Method
			}
		}
		o.Arms = append(o.Arms, row)
	}
	d := o.Compared.Difference
	switch {
	case o.Compared.ABTest == nil:
	case d == nil:
		o.Words = "Not enough data yet: both models need logged lists for at least two sources."
	case d.Low > 0:
		o.Words = fmt.Sprintf("Model b gets more clicks: %+.2f per 100 shown items (%+.2f to %+.2f).",
			100*d.Value, 100*d.Low, 100*d.High)
	case d.High < 0:
		o.Words = fmt.Sprintf("Model b gets fewer clicks: %+.2f per 100 shown items (%+.2f to %+.2f).",
			100*d.Value, 100*d.Low, 100*d.High)
	default:
		o.Words = fmt.Sprintf("No clear difference yet: %+.2f per 100 shown items (%+.2f to %+.2f).",
			100*d.Value, 100*d.Low, 100*d.High)
	}
}
