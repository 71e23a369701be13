package serve

import (
	"context"
	"errors"
	"fmt"

	"unseen/evaluate"
	"unseen/internal/amount"
	"unseen/progress"
	"unseen/recommend"
)

// value says by the service's own log what a model, or a rule, would be worth if its lists were shown. Lists that were
// shown after its training count, as long as they can say anything; otherwise all do, with a warning.
func (s *Service) value(ctx context.Context, r JobRequest, report progress.Func, update func(func(*Job))) error {
	e, entry, err := s.judged(ctx, r, update)
	if err != nil {
		return err
	}
	report(progress.Event{Phase: "reading the log"})
	g := e.Graph()
	logged, err := ReadLists(ctx, s.events, g, s.listReading(g, nil))
	if err != nil {
		return err
	}
	total, unknown := len(logged.Lists), logged.Known()
	report(progress.Event{Phase: "comparing lists"})
	rule := recommend.Rule(r.Rule)
	lists, warnings, err := logged.Ask(recommend.Policy{Rule: rule, Explore: s.o.Explore,
		Exclude: s.forgotten.nodes(), Threads: 1}, logged.Behaviour(s.o.Clicks.Given),
		func(lists []evaluate.LoggedList, p recommend.Policy) ([]evaluate.PolicyList, error) {
			return e.PolicyLists(ctx, lists, p)
		})
	if err != nil {
		return err
	}
	learned := 0
	if rule == "" || rule == recommend.ByModel {
		for learned < len(lists) && logged.Seqs[learned] <= entry.Seq {
			learned++
		}
	}
	v, err := valueOrReason(lists[learned:])
	if err == nil && v.Reason != "" && learned > 0 {
		if v, err = valueOrReason(lists); err == nil && v.Reason == "" {
			v.Warnings = append(v.Warnings, fmt.Sprintf("the model has learned from %s of these %s lists, so it may "+
				"look better than it is", amount.Text(learned), amount.Text(len(lists))))
		}
	}
	if err != nil {
		return err
	}
	if v.Reason == "" {
		v.Warnings = append(v.Warnings, warnings...)
	}
	if unknown > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("%s of %s lists have items of unknown probability and are left out",
			amount.Text(unknown), amount.Text(total)))
	}
	if logged.Beyond > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("the log has more than %s lists; the later ones are left out",
			amount.Text(maxLoggedLists)))
	}
	name := "Model " + entry.Digest[:12]
	if rule != "" && rule != recommend.ByModel {
		name = "The rule " + string(rule)
	}
	update(func(j *Job) { j.Value, j.Message = v, v.Sentence(name) })
	return nil
}

// valueOrReason values a policy; too few lists are a reason, not an error.
func valueOrReason(lists []evaluate.PolicyList) (*evaluate.PolicyValue, error) {
	v, err := evaluate.ValuePolicy(lists)
	if errors.Is(err, evaluate.ErrEmpty) {
		return &evaluate.PolicyValue{Lists: len(lists), Verdict: evaluate.PolicyUnknown,
			Reason: "the log has no lists with known probabilities for two contexts; log the lists that are shown"}, nil
	}
	return v, err
}
