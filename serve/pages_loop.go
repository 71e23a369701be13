package serve

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"unseen/internal/amount"
)

// loop registers the page of the feedback loop: simulated and live.
func (p *site) loop() {
	p.read("GET /loop", "page-loop", func(w http.ResponseWriter, r *http.Request) error {
		q := r.URL.Query()
		method, rounds, explore := SimulateNaive, 20, 0.
		if m := q.Get("method"); m != "" {
			method = m
		}
		if n, err := strconv.Atoi(q.Get("rounds")); err == nil {
			rounds = n
		}
		if x, err := strconv.ParseFloat(q.Get("explore"), 64); err == nil {
			explore = x
		}
		content := map[string]any{"Method": method, "Rounds": rounds, "Explore": explore, "Methods": simulationMethods}
		status := http.StatusOK
		played, err := p.s.Simulate(r.Context(), method, rounds, explore, 1)
		switch {
		case err == nil:
			played.Fields = nil // the page shows all of them together
			content["Played"] = played
		default:
			// without a forecast the page still shows the live share
			var why string
			if status, why = p.errorText(r, err); status >= 500 {
				return err
			}
			if e, ok := errors.AsType[huma.StatusError](err); ok && e.GetStatus() == http.StatusNotFound {
				status = http.StatusOK
			}
			content["Error"] = why
		}
		p.live(content)
		p.show(w, r, status, "loop", content)
		return nil
	})
	p.read("GET /loop/live", "page-loop-live", func(w http.ResponseWriter, _ *http.Request) error {
		content := map[string]any{}
		p.live(content)
		var b bytes.Buffer
		if err := p.pages["loop"].ExecuteTemplate(&b, "live", content); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(b.Bytes()) // fails only if the client is gone
		return nil
	})
}

// live adds the live share.
func (p *site) live(content map[string]any) {
	l := p.s.Loop()
	content["Loop"], content["Fields"], content["Words"] = l, fieldRows(l), l.words()
	content["Apart"] = slices.ContainsFunc(l.Fields, func(f LoopField) bool { return f.Own != "" })
}

// simulationMethods describe the methods of the simulation.
var simulationMethods = []struct{ Name, Words string }{
	{SimulateNaive, "Naive: ignores exposure"},
	{SimulateCorrected, "Corrected for exposure: treats what was not shown as not linked"},
	{SimulateShown, "Corrected, trained only on what was shown, as in this service"},
}

// fieldRow is a field's share and its expected range.
type fieldRow struct {
	LoopField
	Span    span
	Outside bool
	Words   string
}

func fieldRows(l LoopStatus) []fieldRow {
	unit := scale{0, 1}
	var out []fieldRow
	for _, f := range l.Fields {
		one := fieldRow{LoopField: f, Span: span{Label: f.Field + ": nothing shown yet"}}
		if f.Shown > 0 {
			low, high := wilson(f.Share*float64(f.Shown), float64(f.Shown))
			one.Span = unit.span(low, f.Share, high, "", fmt.Sprintf("%s: %s, from %s to %s", f.Field,
				percent(f.Share), percent(low), percent(high)))
			one.Outside = f.Low != nil && (low > *f.High || high < *f.Low)
		}
		if f.Low != nil {
			one.Span = unit.banded(one.Span, *f.Low, *f.High)
			one.Words = fmt.Sprintf("%.0f%% to %.0f%%", 100**f.Low, 100**f.High)
		}
		out = append(out, one)
	}
	return out
}

// words summarize the live share.
func (l LoopStatus) words() string {
	switch {
	case l.Items == 0:
		return ""
	case l.Band == nil:
		return fmt.Sprintf("Of the last %s shown items, %s were in the reader's own field (%s to %s). The "+
			"expected range is not known yet.", amount.Text(l.Items), percent(l.Recent), percent(l.Low),
			percent(l.High))
	}
	where := "within"
	switch {
	case l.Low > l.Band.High:
		where = "above"
	case l.High < l.Band.Low:
		where = "below"
	}
	return fmt.Sprintf("Of the last %s shown items, %s were in the reader's own field (%s to %s), %s the "+
		"expected %s to %s of the first model's lists.",
		amount.Text(l.Items), percent(l.Recent), percent(l.Low), percent(l.High), where, percent(l.Band.Low),
		percent(l.Band.High))
}
