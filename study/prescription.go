package study

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

var prescription = Study{
	Name:  "prescribe",
	Title: "Prescribe: whether the pairs that the doctor asks for tell the scale",
	run:   runPrescription,
}

// prescribedKinds are the kinds of worlds of the study of the doctor that are tried, but for those of which pairs are
// logged already.
var prescribedKinds = []string{"obeying", "text", "popularity", "quality", "ceiling", "dependent", "cauchit", "rare"}

// PrescriptionRow is what the doctor said of a world before and after each of the experiments that it asked for.
type PrescriptionRow struct {
	Kind     string       `json:"kind"`
	Seed     uint64       `json:"seed"`
	Dim      int          `json:"dim"`
	Same     float64      `json:"same"`
	Strength float64      `json:"strength"`
	Links    int          `json:"links"`
	Class    fit.Class    `json:"class"`
	Width    float64      `json:"width"`     // of the set of mean π̂, before
	OfLink   float64      `json:"linkWidth"` // of that of mean ŷ
	Logged   experimented `json:"logged"`
	Shown    experimented `json:"shown"`
}

// experimented is what an experiment found, and what the doctor said then.
type experimented struct {
	Planned  int       `json:"planned"` // pairs
	Until    int       `json:"until"`
	Pairs    int       `json:"pairs"` // that were drawn
	Class    fit.Class `json:"class"`
	OneSided bool      `json:"oneSided"`
	Z        float64   `json:"z"` // of what was found, against what links say

	Width    float64    `json:"width"`
	OfLink   float64    `json:"linkWidth"`
	Exposure doctorMark `json:"propensity"`
	Link     doctorMark `json:"meanLink"`
}

// wide reports whether there was something to narrow.
func (r *PrescriptionRow) wide() bool { return r.Width > 1.5 }

func runPrescription(ctx context.Context, l *lab) (*Result, error) {
	var rows []*PrescriptionRow
	var tasks []task
	for _, kind := range doctorKinds {
		if !slices.Contains(prescribedKinds, kind.name) {
			continue
		}
		for _, seed := range l.Seeds {
			row := &PrescriptionRow{Kind: kind.name, Seed: seed}
			rows = append(rows, row)
			tasks = append(tasks, task{name: fmt.Sprintf("%s, seed %d", kind.name, seed), cost: 1,
				do: func(ctx context.Context) error { return row.try(ctx, kind, l.Quick) }, rows: []any{row}})
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	return &Result{Rows: rows, Setting: []string{
		"Worlds as in the study of the doctor. Where its set of mean π̂ is more than 1.5-fold without a log, each of " +
			"the two experiments that it asks for is done: pairs of the field pairs that it names are drawn at " +
			"random, in the proportions and until as many were shown, or became links, as it says; and it is " +
			"asked again.",
	}, Tables: []figure.Table{prescriptionTable(rows)}, Claims: prescriptionClaims(rows)}, nil
}

// try asks the doctor, does what it says, and asks again.
func (r *PrescriptionRow) try(ctx context.Context, kind doctorKind, quick bool) error {
	drawn := DoctorRow{Kind: r.Kind, Seed: r.Seed}
	w, _, err := drawn.world(ctx, kind, quick)
	if err != nil {
		return err
	}
	defer w.Graph().Vectors().Close()
	r.Dim, r.Same, r.Strength = drawn.Dim, drawn.Same, drawn.Strength
	if w, err = w.Linked(ctx); err != nil {
		return err
	}
	before, err := r.ask(ctx, w, "", nil)
	if err != nil {
		return err
	}
	r.Links, r.Class, r.Width, r.OfLink = before.Support.Links, before.Class, before.Set.Width(),
		before.Set.MeanLink.High/before.Set.MeanLink.Low
	if !r.wide() {
		return nil
	}
	n := w.Graph().Len() * (w.Graph().Len() - 1) / 2
	pairs, err := w.Pairs(ctx, n, world.Draw{Parts: 1, Older: true})
	if err != nil {
		return err
	}
	for _, e := range []struct {
		plan fit.Experiment
		kind sample.LogKind
		out  *experimented
	}{{before.Prescription.Logged, sample.Sampled, &r.Logged}, {before.Prescription.Shown, sample.Drawn, &r.Shown}} {
		after, err := r.ask(ctx, w, e.kind, e.out.do(w, pairs, e.plan, e.kind, r.Seed))
		if err != nil {
			return err
		}
		if err := e.out.compare(ctx, w, after); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the doctor of a world, given a log or none.
func (r *PrescriptionRow) ask(ctx context.Context, w *world.World, kind sample.LogKind,
	log *sample.ExposureLog) (*fit.Findings, error) {
	plan := sample.Plan{Split: sample.Whole, Seed: r.Seed, Log: kind}
	prepared, err := sample.Prepare(ctx, w.Graph(), sample.Options{Origin: sample.Origin{Plan: plan}, Log: log})
	if err != nil {
		return nil, err
	}
	found, err := fit.Fit(ctx, prepared.Problem, fit.Settings{Seed: r.Seed, Threads: 1,
		Starts: []float64{model.StartPropensity}})
	if err != nil {
		return nil, err
	}
	if found.Findings.Set == nil || found.Findings.Prescription == nil {
		return nil, fmt.Errorf("the doctor prescribed nothing")
	}
	return found.Findings, nil
}

// do draws the pairs of an experiment: to log them, or to show them if they have no link.
func (x *experimented) do(w *world.World, pairs *world.TruePairs, plan fit.Experiment, kind sample.LogKind,
	seed uint64) *sample.ExposureLog {
	x.Planned, x.Until = plan.Pairs, plan.Until
	g, offer := w.Graph(), kind == sample.Drawn
	share := map[[2]uint16]int{}
	for _, c := range plan.Cells {
		share[[2]uint16{c.Source, c.Target}] = c.Pairs
	}
	// In random order, the k-th pair of a field pair has its turn at k/share of the whole.
	type turn struct {
		at float64
		k  int
	}
	var turns []turn
	seen := map[[2]uint16]int{}
	for _, k := range rand.New(rand.NewPCG(seed, 0x9e5c)).Perm(len(pairs.Truth)) {
		cell := [2]uint16{g.Field(pairs.Pairs.Source[k]), g.Field(pairs.Pairs.Target[k])}
		if share[cell] == 0 || offer && pairs.Pairs.Linked[k] {
			continue
		}
		seen[cell]++
		turns = append(turns, turn{float64(seen[cell]) / float64(share[cell]), k})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	out := &sample.ExposureLog{}
	var yes int
	for _, t := range turns {
		if yes == x.Until {
			break
		}
		exposed, linked := pairs.Exposed[t.k], pairs.Pairs.Linked[t.k]
		if offer {
			exposed, linked = true, pairs.Relevant[t.k]
		}
		if offer && linked || !offer && exposed {
			yes++
		}
		out.Source = append(out.Source, pairs.Pairs.Source[t.k])
		out.Target = append(out.Target, pairs.Pairs.Target[t.k])
		out.Exposed, out.Linked = append(out.Exposed, exposed), append(out.Linked, linked)
	}
	x.Pairs = len(out.Source)
	return out
}

// compare holds what the doctor says afterwards against the truth.
func (x *experimented) compare(ctx context.Context, w *world.World, after *fit.Findings) error {
	truth, err := w.Means(ctx, graph.Universe{Before: w.Graph().Order()})
	if err != nil {
		return err
	}
	set := after.Set
	x.Class, x.OneSided, x.Width, x.OfLink = after.Class, set.OneSided, set.Width(), set.MeanLink.High/set.MeanLink.Low
	switch {
	case after.Offered != nil:
		x.Z = after.Offered.Z
	case len(after.Logged) > 0:
		x.Z = after.Logged[0].Allowing
	}
	x.Link = doctorMark{Truth: truth.Link, Reported: after.MeanLink.Value, Set: set.MeanLink}
	x.Exposure = doctorMark{Truth: truth.Propensity, Set: set.Propensity}
	for _, m := range set.Members {
		if m.Alternative == set.Reference {
			x.Exposure.Reported = m.Propensity.Value
		}
	}
	x.Link.Holds, x.Exposure.Holds = x.Link.atMost(set.OneSided), x.Exposure.atLeast(set.OneSided)
	return nil
}

// holds reports whether what is claimed afterwards is true.
func (x *experimented) holds() bool { return x.Exposure.Holds && x.Link.Holds }

// prescriptionTable has a row per kind.
func prescriptionTable(rows []*PrescriptionRow) figure.Table {
	t := figure.Table{Name: "widths", Title: "What the experiments narrow", Head: "worlds",
		Columns: []figure.Column{{Name: "wide", Means: "worlds whose set of mean π̂ was more than 1.5-fold"},
			{Name: "π", Means: "median width of the set of mean π̂ of these", Digits: 2},
			{Name: "logged", Means: "that, once pairs were logged", Digits: 2, Better: "lower"},
			{Name: "π ≤ 1.6", Means: "of these, how many ended at 1.6-fold or less"},
			{Name: "holds", Means: "of these, in how many what is claimed of π and y then holds"},
			{Name: "pairs", Means: "median of those logged", Digits: 0},
			{Name: "planned", Means: "median of how many that was expected to take", Digits: 0},
			{Name: "y", Means: "median width of the set of mean ŷ", Digits: 2},
			{Name: "shown", Means: "that, once pairs were shown on purpose", Digits: 2, Better: "lower"},
			{Name: "y ≤ 1.6", Means: "of these, how many ended at 1.6-fold or less"},
			{Name: "then holds", Means: "of these, in how many what is claimed of π and y then holds"},
			{Name: "shown pairs", Means: "median", Digits: 0},
			{Name: "planned to show", Means: "median of how many that was expected to take", Digits: 0}}}
	for _, kind := range prescribedKinds {
		of := filter(rows, func(r *PrescriptionRow) bool { return r.Kind == kind })
		wide := filter(of, (*PrescriptionRow).wide)
		ratio := func(is func(*PrescriptionRow) bool) figure.Cell {
			return figure.Ratio(len(filter(wide, is)), len(wide))
		}
		mid := func(get func(*PrescriptionRow) float64) figure.Cell {
			var xs []float64
			for _, r := range wide {
				xs = append(xs, get(r))
			}
			return figure.Number(median(xs))
		}
		t.Add(kind, figure.Ratio(len(wide), len(of)), mid(func(r *PrescriptionRow) float64 { return r.Width }),
			mid(func(r *PrescriptionRow) float64 { return r.Logged.Width }), ratio((*PrescriptionRow).narrowed),
			ratio(func(r *PrescriptionRow) bool { return r.Logged.holds() }),
			mid(func(r *PrescriptionRow) float64 { return float64(r.Logged.Pairs) }),
			mid(func(r *PrescriptionRow) float64 { return float64(r.Logged.Planned) }),
			mid(func(r *PrescriptionRow) float64 { return r.OfLink }),
			mid(func(r *PrescriptionRow) float64 { return r.Shown.OfLink }), ratio((*PrescriptionRow).narrowedLink),
			ratio(func(r *PrescriptionRow) bool { return r.Shown.holds() }),
			mid(func(r *PrescriptionRow) float64 { return float64(r.Shown.Pairs) }),
			mid(func(r *PrescriptionRow) float64 { return float64(r.Shown.Planned) }))
	}
	return t
}

// narrowed reports whether the logged pairs narrowed the set of π as was promised.
func (r *PrescriptionRow) narrowed() bool { return r.Logged.Width <= 1.6 }

// narrowedLink reports whether the shown pairs narrowed the set of y as was promised.
func (r *PrescriptionRow) narrowedLink() bool { return r.Shown.OfLink <= 1.6 }

// prescriptionClaims are the goals, which were stated before the run.
func prescriptionClaims(rows []*PrescriptionRow) []Claim {
	wide := filter(rows, (*PrescriptionRow).wide)
	claim := func(text string, share float64, is func(*PrescriptionRow) bool) Claim {
		n := len(filter(wide, is))
		return Claim{text, metIf(float64(n) >= share*float64(len(wide))), fmt.Sprintf("%d of %d do.", n, len(wide))}
	}
	return []Claim{
		claim("Of the worlds whose set of π is more than 1.5-fold, 80% end at 1.6-fold or less once the pairs that "+
			"the doctor asks for are logged", .8, (*PrescriptionRow).narrowed),
		claim("In 91% of them what is then claimed of π and y holds", .91,
			func(r *PrescriptionRow) bool { return r.Logged.holds() }),
		claim("80% end with a set of y of at most 1.6-fold once the pairs that it asks for are shown on purpose", .8,
			(*PrescriptionRow).narrowedLink),
		claim("In 91% of them what is then claimed of π and y holds", .91,
			func(r *PrescriptionRow) bool { return r.Shown.holds() }),
	}
}
