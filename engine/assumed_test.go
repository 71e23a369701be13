package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/risk"
)

// smallDesign is a design of random pairs, with outcomes of every kind.
type smallDesign struct {
	Design
	pairs    *graph.Pairs
	outcomes Outcomes
	rng      *rand.Rand
}

const smallPairs, smallDim, smallCells = 60, 5, 3

func newSmallDesign(t *testing.T, seed uint64, spread bool) *smallDesign {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	vectors, err := graph.NewVectors(20, smallDim)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		row := make([]float32, smallDim)
		for j := range row {
			row[j] = float32(rng.NormFloat64())
		}
		if err := vectors.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
	}
	s := &smallDesign{pairs: &graph.Pairs{}, rng: rng}
	var cell []int32
	var rate []float64
	for k := range smallPairs {
		s.pairs.Source = append(s.pairs.Source, int32(rng.IntN(20)))
		s.pairs.Target = append(s.pairs.Target, int32(rng.IntN(20)))
		cell = append(cell, int32(k%smallCells))
		rate = append(rate, []float64{1, .3}[rng.IntN(2)])
		linked := rng.IntN(2) == 0
		exposure := risk.Unlogged
		switch rng.IntN(4) {
		case 0:
			exposure = risk.OfferedSeen([]float64{1, .4}[rng.IntN(2)])
		case 1:
			if exposure = risk.Exposed; !linked && rng.IntN(2) == 0 {
				exposure = risk.Unexposed
			}
		}
		s.outcomes.Linked = append(s.outcomes.Linked, linked)
		s.outcomes.Exposure = append(s.outcomes.Exposure, exposure)
		if spread {
			s.outcomes.Leverage = append(s.outcomes.Leverage, float32(rng.Float64()))
		}
	}
	s.pairs.Linked = s.outcomes.Linked
	if s.Design, err = (CPU{Threads: 2}).Design(t.Context(), DesignPairs{Vectors: vectors, Pairs: s.pairs, Cell: cell,
		Cells: smallCells, Rate: rate}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *smallDesign) column() []float32 {
	out := make([]float32, smallPairs)
	for k := range out {
		out[k] = float32(s.rng.NormFloat64())
	}
	return out
}

// everyTerm are assumptions with a term of every kind.
func (s *smallDesign) everyTerm(r Response) Assumptions {
	return Assumptions{Response: r, Terms: []AssumedTerm{{InExposure, s.column()}, {InLink, s.column()},
		{Kind: LinkInExposure}, {LinkInExposure, s.column()}, {Kind: Dependence}}}
}

func (s *smallDesign) theta(terms ...float64) []float64 {
	theta := make([]float64, smallDim+1+smallCells)
	for i := range theta {
		theta[i] = .7 * s.rng.NormFloat64()
	}
	return append(theta, terms...)
}

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

// Without terms and with a logistic response, the assumptions are the model's own.
func TestAssumedLikeObserved(t *testing.T) {
	t.Parallel()
	for _, spread := range []bool{false, true} {
		s := newSmallDesign(t, 1, spread)
		observed, err1 := s.Observe(t.Context(), s.outcomes)
		assumed, err2 := s.Assume(t.Context(), s.outcomes, Assumptions{})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		var constant float64
		for i := range 5 {
			theta := s.theta()
			g, h := make([]float64, len(theta)), make([]float64, len(theta))
			a, err1 := observed.Value(t.Context(), theta, g)
			b, err2 := assumed.Value(t.Context(), theta, h)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if i == 0 {
				constant = b - a
			}
			if !near(b-a, constant, 1e-6) {
				t.Errorf("values %v and %v, which differed by %v before", a, b, constant)
			}
			m, err1 := observed.Information(t.Context(), theta)
			n, err2 := assumed.Information(t.Context(), theta)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if !slices.EqualFunc(g, h, func(x, y float64) bool { return near(x, y, 1e-5) }) {
				t.Errorf("gradient %v, want %v", h, g)
			}
			if !slices.EqualFunc(m, n, func(x, y float64) bool { return near(x, y, 1e-5) }) {
				t.Errorf("information %v, want %v", n, m)
			}
			scale, shift, err1 := observed.Calibrate(t.Context(), theta)
			scale2, shift2, err2 := assumed.Calibrate(t.Context(), theta)
			if err1 != nil || err2 != nil || !near(scale, scale2, 1e-5) || !near(shift, shift2, 1e-5) {
				t.Errorf("%v %v: calibrated by %v, %v, want %v, %v", err1, err2, scale2, shift2, scale, shift)
			}
		}
	}
}

// Slopes are those of values, by every response and every term.
func TestAssumedSlopes(t *testing.T) {
	t.Parallel()
	for r := Logistic; r <= Cauchit; r++ {
		for _, together := range []float64{.8, -.5, 0, 5e-4} {
			s := newSmallDesign(t, 2+uint64(r), true)
			l, err := s.Assume(t.Context(), s.outcomes, s.everyTerm(r))
			if err != nil {
				t.Fatal(err)
			}
			theta := s.theta(.4, -.3, .5, .1, together)
			means := []PairMean{{Link: s.column()}, {Exposure: s.column()}, {Missed: s.column()}}
			value := func(theta []float64) []float64 {
				v, err1 := l.Value(t.Context(), theta, make([]float64, len(theta)))
				m, _, err2 := l.Means(t.Context(), theta, means)
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				return append(m, v)
			}
			grad := make([]float64, len(theta))
			if _, err := l.Value(t.Context(), theta, grad); err != nil {
				t.Fatal(err)
			}
			_, gradients, err := l.Means(t.Context(), theta, means)
			if err != nil {
				t.Fatal(err)
			}
			gradients = append(gradients, grad)
			for i := range theta {
				const h = 1e-3
				up, down := slices.Clone(theta), slices.Clone(theta)
				up[i], down[i] = up[i]+h, down[i]-h
				a, b := value(up), value(down)
				for j := range a {
					if want := (a[j] - b[j]) / (2 * h); !near(gradients[j][i], want, 2e-3) {
						t.Errorf("%v, t %v: slope %d of %d is %v, want %v", r, together, i, j, gradients[j][i], want)
					}
				}
			}
		}
	}
}

// A term that says what θ says already has the same information; the mean slopes over all outcomes are 0.
func TestAssumedInformation(t *testing.T) {
	t.Parallel()
	s := newSmallDesign(t, 7, false)
	product, cell := make([]float32, smallPairs), make([]float32, smallPairs)
	theta := s.theta(0, 0, 0)
	z, err := s.Logits(t.Context(), theta[:smallDim+1+smallCells])
	if err != nil {
		t.Fatal(err)
	}
	for k := range product {
		likeness, _ := Probit.likeness(float64(z[k]), 0, 0, 0)
		z[k] = float32(likeness)
		product[k] = s.Design.(*cpuDesign).x.Row(k)[2]
		if k%smallCells == 1 {
			cell[k] = 1
		}
	}
	l, err := s.Assume(t.Context(), s.outcomes, Assumptions{Probit, []AssumedTerm{{InLink, product}, {InExposure, cell},
		{Kind: LinkInExposure}}})
	if err != nil {
		t.Fatal(err)
	}
	like, err := s.Assume(t.Context(), s.outcomes,
		Assumptions{Probit, []AssumedTerm{{InLink, product}, {InExposure, cell},
			{InExposure, z}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err1 := l.Information(t.Context(), theta)
	same, err2 := like.Information(t.Context(), theta)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	n := len(theta)
	at := func(m []float64, i, j int) float64 { return m[max(i, j)*n+min(i, j)] }
	for j := range n {
		for _, twin := range [][2]int{{2, n - 3}, {smallDim + 1 + 1, n - 2}} {
			if a, b := at(m, twin[0], j), at(m, twin[1], j); j < n-3 && !near(a, b, 1e-4) {
				t.Errorf("%d and its twin have the information %v and %v in common with %d", twin[0], a, b, j)
			}
		}
		if a, b := at(m, n-1, j), at(same, n-1, j); !near(a, b, 1e-4) {
			t.Errorf("z in s has the information %v in common with %d, and as a column %v", a, j, b)
		}
	}
}

// PairGroups add up to the whole, but for the mean over logits that are not certain: the logarithm of a mean is above
// the mean of the logarithms.
func TestAssumedGroups(t *testing.T) {
	t.Parallel()
	for _, spread := range []bool{false, true} {
		s := newSmallDesign(t, 11, spread)
		l, err := s.Assume(t.Context(), s.outcomes, s.everyTerm(Cauchit))
		if err != nil {
			t.Fatal(err)
		}
		theta := s.theta(.2, .1, .3, -.2, 1)
		grad := make([]float64, len(theta))
		value, err := l.Value(t.Context(), theta, grad)
		if err != nil {
			t.Fatal(err)
		}
		groups := PairGroups{Of: make([]uint8, smallPairs), Count: 7}
		for k := range groups.Of {
			groups.Of[k] = uint8(s.rng.IntN(7))
		}
		gradients, err1 := l.GroupGradients(t.Context(), theta, groups)
		values, err2 := l.GroupValues(t.Context(), slices.Repeat([][]float64{theta}, 7), groups)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for g := range groups.Count {
			value -= values[g]
			for i, x := range gradients[g] {
				grad[i] -= x
			}
		}
		if slices.ContainsFunc(grad, func(x float64) bool { return !near(x, 0, 1e-5) }) {
			t.Errorf("what groups leave over: %v", grad)
		}
		if !spread && !near(value, 0, 1e-5) || spread && !(value > .1 && value < 10) {
			t.Errorf("spread %v: what groups leave over: %v", spread, value)
		}
	}
}

// A response keeps to (0, 1) and its slope to finite numbers wherever z is.
func TestResponses(t *testing.T) {
	t.Parallel()
	for r := Logistic; r <= Cauchit; r++ {
		last := 0.
		for _, z := range []float64{math.Inf(-1), -1e9, -300, -30, -3, -.1, 0, .1, 3, 30, 300, 1e9, math.Inf(1)} {
			y, rest, slope := r.at(z)
			if !(y > 0 && y <= 1 && rest > 0 && rest <= 1 && slope >= 0 && !math.IsInf(slope, 0) && y >= last) ||
				math.Abs(y+rest-1) > 1e-12 {
				t.Errorf("%v at %v: ŷ %v, rest %v, slope %v", r, z, y, rest, slope)
			}
			last = y
		}
		var back Response
		text, err := r.MarshalText()
		if err != nil || back.UnmarshalText(text) != nil || back != r {
			t.Errorf("%v is read as %v", r, back)
		}
	}
}
