package study

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"unseen/figure"
	"unseen/fit"
	"unseen/internal/amount"
	"unseen/risk"
)

// The goals, stated before the seeds were run. Gaps are shares of the way from naive over all pairs to shown only with
// a complete log, means over the sets with times.
const (
	mostBelowShown    = .002 // AUC within a person, and log-loss
	gapPairsAUC       = .50
	gapPairsLogLoss   = .78
	gapPeopleAUC      = .50
	gapPeopleLogLoss  = .60
	mostBelowBaseline = -.005 // the upper end of the interval of the difference in AUC
)

func runExposed(ctx context.Context, l *lab) (*Result, error) {
	draws, sets, err := l.draws(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	var all exposedResults
	for _, s := range sets {
		one := exposedResult{s, draws[s.Name], exposedRows(s, draws[s.Name])}
		all = append(all, one)
		r.Setting = append(r.Setting, one.setting())
		r.Tables = append(r.Tables, one.table(), one.propensityTable())
		r.Figures = append(r.Figures, one.reliability())
	}
	r.Rows, r.Claims = all.rows(), all.claims()
	if timed := all.judged(true); len(timed) > 0 {
		r.Figures = append(r.Figures, timed.gaps()...)
	}
	if slices.ContainsFunc(sets, func(s *ShownSet) bool { return s.Random == nil }) {
		r.Setting = append(r.Setting, "Shown pairs that are held out are, for training, pairs without a link that "+
			"were not shown, also in a log. Judged are these pairs, of people without a log in training. The "+
			"platform chose them: what is said here is said of pairs as it shows them, not of all.")
	}
	if slices.ContainsFunc(sets, func(s *ShownSet) bool { return s.Random != nil }) {
		r.Setting = append(r.Setting, "Pairs that were shown at random, or never, are judged of people without a "+
			"log in training too. The platform did not choose them.")
	}
	r.Setting = append(r.Setting,
		fmt.Sprintf("Every method learns factors of rank %d and effects of people and items with the same prior. mle "+
			"and dr learn exposure by person, item and activity. AUC and NDCG@5 are within a person, mean over "+
			"people; gap: share of the way from naive over all pairs to shown only with a complete log; gain: in AUC "+
			"over naive over the pairs that were available by time, all where there are no times, with an interval "+
			"of 95%% over people.", exposedRank))
	return r, nil
}

// exposedResult is a set with what every method made of it.
type exposedResult struct {
	set   *ShownSet
	draws []*exposedDraw
	rows  []*ExposedRow
}

type exposedResults []exposedResult

func (all exposedResults) rows() (rows []*ExposedRow) {
	for _, one := range all {
		rows = append(rows, one.rows...)
	}
	return rows
}

// judged are the sets with times or without, whose pairs are held out or were never shown: those that there are goals
// for.
func (all exposedResults) judged(timed bool) (some exposedResults) {
	for _, one := range all {
		if (one.set.Since != nil) == timed && (one.set.Random == nil || one.never()) {
			some = append(some, one)
		}
	}
	return some
}

// never reports whether the set is of people who were shown everything, with the rest of other people's masks.
func (one exposedResult) never() bool { return strings.HasSuffix(one.set.Name, neverSuffix) }

// at is the row of a method in a mode.
func (one exposedResult) at(m exposedMode, method string) *ExposedRow {
	for _, r := range one.rows {
		if r.Mode == m.name && r.Method == method {
			return r
		}
	}
	return nil
}

// baseline is naive over the pairs that were available.
func (one exposedResult) baseline(m exposedMode) *ExposedRow {
	if one.set.Since == nil {
		return one.at(m, naiveAll)
	}
	return one.at(m, naiveAvailable)
}

func (one exposedResult) setting() string {
	s, d := one.set, one.draws[0]
	liked := 0
	for _, p := range s.Shown {
		if p.Liked {
			liked++
		}
	}
	kind := "held out of these"
	switch {
	case one.never():
		kind = "never shown"
	case s.Random != nil:
		kind = "shown at random"
	}
	drawn := ""
	if s.drawnFrom > 0 {
		drawn = fmt.Sprintf(", drawn with a fixed seed from %d", s.drawnFrom)
	}
	return fmt.Sprintf("%s: %d people%s, %d items, %d shown pairs, %.1f%% of all, of which %.1f%% are liked; judged "+
		"on %d pairs %s.", s.Name, len(s.People), drawn, len(s.Items), len(s.Shown),
		100*float64(len(s.Shown))/float64(len(s.People)*len(s.Items)), 100*float64(liked)/float64(len(s.Shown)),
		len(d.test), kind)
}

var exposedColumns = []column[*ExposedRow]{
	percent("AUC", "within a person, %", 1, func(r *ExposedRow) figure.Value { return r.AUC }),
	percent("NDCG", "at 5, within a person, %", 1, func(r *ExposedRow) figure.Value { return r.NDCG }),
	{figure.Column{Name: "log-loss", Digits: 3, Better: "lower"}, 1,
		func(r *ExposedRow) figure.Value { return r.LogLoss }},
	{figure.Column{Name: "MSE", Digits: 3, Better: "lower"}, 1, func(r *ExposedRow) figure.Value { return r.MSE }},
	{figure.Column{Name: "off", Means: "mean |ŷ − share liked| over ten bins, %", Digits: 1, Better: "lower"}, 100,
		func(r *ExposedRow) figure.Value { return r.Calibration }},
	percent("pooled", "AUC over all pairs, %", 1, func(r *ExposedRow) figure.Value { return r.Pooled }),
	percent("gap AUC", "closed, %", 0, func(r *ExposedRow) figure.Value { return r.GapAUC }),
	percent("gap loss", "closed, %", 0, func(r *ExposedRow) figure.Value { return r.GapLogLoss }),
}

// table has every method in every mode; naive once.
func (one exposedResult) table() figure.Table {
	title := fmt.Sprintf("%s, mean over %s", one.set.Name, amount.Of(len(one.draws), "seed"))
	t := figure.Table{Name: one.set.Name, Title: title,
		Head: "log, method", Columns: append(headings(exposedColumns), figure.Column{Name: "gain",
			Means: "AUC less naive's over available pairs, points, of 95% over people"})}
	for _, r := range one.rows {
		if (r.Method == naiveAll || r.Method == naiveAvailable) && r.Mode != blind.name {
			continue
		}
		name := r.Mode + ", " + r.Method
		if r.Method == naiveAll || r.Method == naiveAvailable {
			name = r.Method
		}
		t.Add(name, append(cells(exposedColumns, []*ExposedRow{r}), intervalCell(r.Gain))...)
	}
	return t
}

// intervalCell writes a difference in points.
func intervalCell(i risk.Interval) figure.Cell {
	return figure.Text(fmt.Sprintf("%s to %s", signed(100*i.Lower, 1), signed(100*i.Upper, 1)),
		figure.Part("value", 100*i.Estimate), figure.Part("lower", 100*i.Lower), figure.Part("upper", 100*i.Upper))
}

var exposedPropensityColumns = []column[*ExposedRow]{
	percent("mean π̂", "over available pairs, %", 1, func(r *ExposedRow) figure.Value { return r.MeanPropensity }),
	percent("shown", "share of these by the log, %", 1, func(r *ExposedRow) figure.Value { return r.ShownShare }),
	percent("AUC", "of π̂ for what was shown, %", 1, func(r *ExposedRow) figure.Value { return r.ShownAUC }),
	{figure.Column{Name: "items", Means: "correlation of π̂ and the shown share over items", Digits: 2,
		Better: "higher"}, 1, func(r *ExposedRow) figure.Value { return r.ItemCorrelation }},
	{figure.Column{Name: "s", Means: "seconds of a fit", Digits: 1}, 1,
		func(r *ExposedRow) figure.Value { return r.Seconds }},
}

func (one exposedResult) propensityTable() figure.Table {
	t := figure.Table{Name: one.set.Name + "-exposure", Title: one.set.Name + ": π̂ against the log",
		Head: "log, method", Columns: headings(exposedPropensityColumns)}
	for _, r := range one.rows {
		if r.Method == ours || r.Method == robustly {
			t.Add(r.Mode+", "+r.Method, cells(exposedPropensityColumns, []*ExposedRow{r})...)
		}
	}
	return t
}

// reliability is a diagram of predicted and true shares.
func (one exposedResult) reliability() figure.Figure {
	chart := &figure.LineChart{XTitle: "ŷ", YTitle: "share liked", Shares: true, Diagonal: true}
	add := func(name string, r *ExposedRow) {
		if r != nil {
			chart.Series = append(chart.Series, figure.Series{Name: name, X: r.verdict.seen, Y: r.verdict.liked})
		}
	}
	add(naiveAll, one.at(blind, naiveAll))
	add(ours+", blind", one.at(blind, ours))
	add(ours+", "+tenthOf.name, one.at(tenthOf, ours))
	add(ours+", "+tenthPairs.name, one.at(tenthPairs, ours))
	add(shownPairsOnly+", "+complete.name, one.at(complete, shownPairsOnly))
	return figure.Figure{Name: one.set.Name + "-reliability", Title: one.set.Name + ": reliability of ŷ", Lines: chart,
		Caption: "Ten bins of equal size, of the first seed. On the diagonal, ŷ is the share that is liked."}
}

// gaps are figures of the gap that is closed by the share that is logged, in AUC and in log-loss.
func (all exposedResults) gaps() []figure.Figure {
	draw := func(name, measure string, gap func(r *ExposedRow) figure.Value) figure.Figure {
		without := all.meanGap(blind, gap)
		chart := &figure.LineChart{XTitle: "share logged", YTitle: "gap closed", LogX: true}
		line := func(name string, share func(m exposedMode) float64) {
			s := figure.Series{Name: name}
			for _, m := range exposedModes {
				if x := share(m); x > 0 {
					s.X, s.Y = append(s.X, x), append(s.Y, all.meanGap(m, gap))
				}
			}
			chart.Series = append(chart.Series, s)
		}
		line("of people", func(m exposedMode) float64 { return m.people })
		line("of pairs", func(m exposedMode) float64 { return m.pairs })
		chart.Series = append(chart.Series, figure.Series{Name: "no log", X: figure.Values{.01, 1},
			Y: figure.Values{without, without}, Reference: true})
		title := "How much of the gap in " + measure + " mle closes by how much is logged"
		return figure.Figure{Name: name, Title: title, Lines: chart, Caption: "Means over the sets with times. 0 is " +
			"naive over all pairs, 1 shown only with a complete log."}
	}
	return []figure.Figure{
		draw("gap-auc", "AUC within a person", func(r *ExposedRow) figure.Value { return r.GapAUC }),
		draw("gap-log-loss", "log-loss", func(r *ExposedRow) figure.Value { return r.GapLogLoss }),
	}
}

// meanGap is the mean of a gap of mle over the sets.
func (all exposedResults) meanGap(m exposedMode, gap func(r *ExposedRow) figure.Value) float64 {
	sum := 0.
	for _, one := range all {
		sum += float64(gap(one.at(m, ours)))
	}
	return sum / float64(len(all))
}

// claims compares the results with the goals.
func (all exposedResults) claims() (claims []Claim) {
	timed, untimed := all.judged(true), all.judged(false)
	both := append(timed[:len(timed):len(timed)], untimed...)
	if len(both) > 0 {
		claims = append(claims, both.completeClaim(), both.beatsClaim())
	}
	if len(timed) > 0 {
		claims = append(claims, timed.gapClaim(tenthPairs, gapPairsAUC, gapPairsLogLoss), timed.recalibrationClaim(),
			timed.gapClaim(tenthOf, gapPeopleAUC, gapPeopleLogLoss), timed.blindLossClaim(), timed.blindPooledClaim(),
			timed.blindClaim("naive over available pairs"))
	}
	if len(untimed) > 0 {
		claims = append(claims, untimed.blindClaim("naive, without times"), untimed.identifiedClaim())
	}
	if len(both) > 0 {
		claims = append(claims, both.setClaim())
	}
	return claims
}

// each makes a claim of what holds on every set.
func (all exposedResults) each(statement string, holds func(one exposedResult) (bool, string)) Claim {
	var t tally
	var evidence []string
	for _, one := range all {
		ok, text := holds(one)
		t.add(ok)
		evidence = append(evidence, one.set.Name+" "+text)
	}
	c := Claim{statement, Met, strings.Join(evidence, "; ") + "."}
	if t.held < t.all {
		c.Verdict = Missed
	}
	return c
}

func (all exposedResults) completeClaim() Claim {
	return all.each("with a complete log, mle is not below shown only by more than .002 in AUC within a person and in "+
		"log-loss", func(one exposedResult) (bool, string) {
		r, base := one.at(complete, ours), one.at(complete, shownPairsOnly)
		auc, loss := float64(r.AUC-base.AUC), float64(r.LogLoss-base.LogLoss)
		text := fmt.Sprintf("%s, %s", signed(auc, 4), signed(loss, 4))
		if dr := one.at(complete, robustly); dr != nil {
			text += fmt.Sprintf(" (dr %s, %s)", signed(float64(dr.AUC-base.AUC), 4),
				signed(float64(dr.LogLoss-base.LogLoss), 4))
		}
		return auc >= -mostBelowShown && loss <= mostBelowShown, text
	})
}

func (all exposedResults) beatsClaim() Claim {
	return all.each("with a complete log, mle beats naive in AUC within a person on every set, with intervals that "+
		"exclude 0", func(one exposedResult) (bool, string) {
		d := one.against(complete, naiveAll)
		return d.Lower > 0, points(d)
	})
}

// against is the difference of mle in AUC within a person.
func (one exposedResult) against(m exposedMode, method string) risk.Interval {
	return difference(withinAUC, [2]*judged{&one.at(m, ours).verdict, &one.at(m, method).verdict})
}

// points writes a difference of AUCs with its interval.
func points(d risk.Interval) string {
	return fmt.Sprintf("%s (%s to %s)", signed(d.Estimate, 4), signed(d.Lower, 4), signed(d.Upper, 4))
}

func (all exposedResults) gapClaim(m exposedMode, auc, loss float64) Claim {
	a := all.meanGap(m, func(r *ExposedRow) figure.Value { return r.GapAUC })
	b := all.meanGap(m, func(r *ExposedRow) figure.Value { return r.GapLogLoss })
	c := all.each(fmt.Sprintf("with a log of %s, mle closes at least %.0f%% of the gap in AUC within a person "+
		"and %.0f%% of that in log-loss, in the mean of the sets", m.name, 100*auc, 100*loss),
		func(one exposedResult) (bool, string) {
			r := one.at(m, ours)
			return true, fmt.Sprintf("%.0f%%, %.0f%%", 100*r.GapAUC, 100*r.GapLogLoss)
		})
	if c.Evidence = fmt.Sprintf("Mean %.0f%% and %.0f%%: %s", 100*a, 100*b, c.Evidence); !(a >= auc && b >= loss) {
		c.Verdict = Missed
	}
	return c
}

func (all exposedResults) recalibrationClaim() Claim {
	return all.each("with a log of 10% of pairs, mle has a lower log-loss than recalibrated naive on every set",
		func(one exposedResult) (bool, string) {
			r, base := one.at(tenthPairs, ours), one.at(tenthPairs, recalibrated)
			return r.LogLoss < base.LogLoss, fmt.Sprintf("%.3f against %.3f", r.LogLoss, base.LogLoss)
		})
}

func (all exposedResults) blindLossClaim() Claim {
	return all.each("blind with times, mle has a lower log-loss than naive over available pairs on every set",
		func(one exposedResult) (bool, string) {
			r, base := one.at(blind, ours), one.baseline(blind)
			return r.LogLoss < base.LogLoss, fmt.Sprintf("%.3f against %.3f", r.LogLoss, base.LogLoss)
		})
}

func (all exposedResults) blindPooledClaim() Claim {
	var pairs [][2]*judged
	for _, one := range all {
		pairs = append(pairs, [2]*judged{&one.at(blind, ours).verdict, &one.at(blind, naiveAll).verdict})
	}
	d := difference(withinAUC, pairs...)
	c := Claim{"blind with times, mle is above naive over all pairs in AUC within a person, pooled over the " +
		"sets, with an interval that excludes 0", Met, "The difference is " + points(d) + "."}
	if !(d.Lower > 0) {
		c.Verdict = Missed
	}
	return c
}

func (all exposedResults) blindClaim(against string) Claim {
	return all.each("blind, mle is on no set below "+against+" by more than .005 in AUC within a person, by an "+
		"interval",
		func(one exposedResult) (bool, string) {
			d := one.at(blind, ours).Gain
			return !(d.Upper < mostBelowBaseline), points(d)
		})
}

func (all exposedResults) identifiedClaim() Claim {
	return all.each("blind without times, the doctor does not call exposure identified",
		func(one exposedResult) (bool, string) {
			class := one.draws[0].of(blind, ours).class
			return class != fit.Identified, "is " + string(class)
		})
}

// setClaim compares what the doctor claims of mean π with the log. A doctor that claims nothing holds nothing.
func (all exposedResults) setClaim() Claim {
	return all.each("blind, the doctor's bounds hold the log's mean π", func(one exposedResult) (bool, string) {
		f := one.draws[0].of(blind, ours)
		if f.bounds == nil {
			return false, fmt.Sprintf("%s, without bounds; the log's is %.3f", f.class, f.share)
		}
		low, high := f.bounds.Propensity.Low, f.bounds.Propensity.High
		return low <= f.share && f.share <= high, fmt.Sprintf("%s, %.3f in %.3f to %.3f", f.class, f.share, low, high)
	})
}
