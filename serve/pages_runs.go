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
	"unseen/recommend"
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
			TrainOnly: r.PostFormValue("trainOnly") != "", Full: r.PostFormValue("full") != "",
			Model: r.PostFormValue("model"), Rule: r.PostFormValue("rule")})
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
		request := ABTestRequest{Model: requireDigest(r.PostFormValue("model")), Share: share,
			WhenDecided: r.PostFormValue("whenDecided") != ""}
		if text := r.PostFormValue("days"); text != "" {
			days, err := strconv.Atoi(text)
			if err != nil || days < 1 || days > 3650 {
				return "", requestError("days", clip(text), "is not a number of days from 1 to 3650")
			}
			request.Until = s.o.Now().AddDate(0, 0, days)
		}
		_, err = s.StartABTest(r.Context(), request)
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
	Rule     string // what ends it
	Last     string // summary of the one before
	Other    []ModelEntry
}

type methodChoice struct{ Name, Words string }

// modelRow is a model and its risk.
type modelRow struct {
	ModelEntry
	Current, Tested bool
	Risk            *fit.Judgement // R_AP, if it was evaluated
	Span            span
	Worth           string // by the log, if it was valued
	ValuedBy        string // that job
}

// armRow is a model's clicks per shown item.
type armRow struct {
	Arm
	Span   span
	Links  string
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
		row.Worth, row.ValuedBy = worth(out.Jobs, entry.Digest)
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

// worth says what the last job that valued a model by the log found, and which job that was.
func worth(jobs []Job, digest string) (words, id string) {
	for _, j := range jobs { // the latest first
		v := j.Value
		if v == nil || j.Model != digest || j.Request.Rule != "" && j.Request.Rule != string(recommend.ByModel) {
			continue
		}
		if v.Reason != "" {
			return "cannot be said", j.ID
		}
		d := v.Difference
		return fmt.Sprintf("%s: %+.2f (%+.2f to %+.2f)", v.Verdict, 100*d.Estimate, 100*d.Lower, 100*d.Upper), j.ID
	}
	return "", ""
}

// compare adds the clicks of the models of the A/B test.
func (o *runsPage) compare(reg registryState) {
	rates := scale{}
	for _, a := range o.Compared.Arms {
		for _, x := range []*float64{a.Clicks.Low, a.Clicks.Value, a.Clicks.High} {
			if x != nil {
				rates.including(*x)
			}
		}
	}
	for k, a := range o.Compared.Arms {
		row := armRow{Arm: a, Span: span{Label: "nothing shown yet"}, Links: a.Links.words()}
		switch c := a.Clicks; {
		case c.Low != nil:
			row.Span = rates.span(*c.Low, *c.Value, *c.High, []string{"", "b", "c"}[min(k, 2)],
				fmt.Sprintf("%s clicks per shown item, from %s to %s", percent(*c.Value), percent(*c.Low),
					percent(*c.High)))
		case c.Value != nil:
			row.Span = span{Label: percent(*c.Value) + " clicks per shown item, too few for an interval"}
		}
		for _, entry := range reg.Models {
			if entry.Digest == a.Model {
				row.Method = entry.Method
			}
		}
		o.Arms = append(o.Arms, row)
	}
	if test := o.Compared.ABTest; test != nil {
		o.Words = o.Compared.Difference.verdict()
		o.Rule = "It ends when somebody ends it."
		until := test.Until.Format("2 January 2006, 15:04 MST")
		switch {
		case test.WhenDecided && !test.Until.IsZero():
			o.Rule = "It ends when the interval of the difference excludes 0, and at the latest on " + until + "."
		case test.WhenDecided:
			o.Rule = "It ends when the interval of the difference excludes 0."
		case !test.Until.IsZero():
			o.Rule = "It ends on " + until + "."
		}
	} else if last := o.Compared.Last; last != nil {
		o.Last = fmt.Sprintf("The last test, %.8s against %.8s, ended on %s: %s. %s", last.B, last.A,
			last.Ended.Format("2 January 2006, 15:04 MST"), endWords[last.Reason], last.Difference.verdict())
	}
}

// endWords say what ended a test.
var endWords = map[ABTestEnd]string{
	EndedByPerson: "somebody ended it", EndedByDeploy: "a model was deployed", EndedByTime: "its time was up",
	EndedByDecision: "it was decided",
}

// words are a rate with its interval.
func (r Rate) words() string {
	switch {
	case r.Value == nil:
		return "–"
	case r.Low == nil:
		return percent(*r.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", percent(*r.Value), percent(*r.Low), percent(*r.High))
}

// verdict says which model gets more clicks.
func (r *Rate) verdict() string {
	if r == nil || r.Low == nil {
		return fmt.Sprintf("Not enough data yet: both models need logged lists for %d sources, %d of them with a "+
			"click.", leastSources, leastHit)
	}
	what := "No clear difference yet"
	switch {
	case *r.Low > 0:
		what = "Model b gets more clicks"
	case *r.High < 0:
		what = "Model b gets fewer clicks"
	}
	return fmt.Sprintf("%s: %+.2f per 100 shown items (%+.2f to %+.2f).", what, 100**r.Value, 100**r.Low, 100**r.High)
}
