package study

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"testing"

	"unseen/figure"
	"unseen/model"
)

// A model that knows π has a learned map that equals the true one, with every field in its place.
func TestKnownPropensitiesAreRecovered(t *testing.T) {
	t.Parallel()
	z := small(1, 11).trainings.size
	s := &subject{key: subjectKey{Tied, 11}}
	if err := s.prepare(t.Context(), &trainings{size: z}, 1); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	matrix, err := model.NewFieldMatrix(s.problem.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, matrix.Size())
	for c, pi := range s.world.Propensities() {
		logits[c] = float32(logit(pi))
	}
	o := &Outcome{Fields: Tied, Seed: 11, Method: mle, learned: &learned{fields: s.problem.Nodes.FieldNames[1:]}}
	s.comparePropensities(o, matrix, logits)
	r := figure1Row(o, z)
	if r.Error > 1e-6 || r.Weighted > 1e-6 {
		t.Errorf("errors %v and %v", r.Error, r.Weighted)
	}
	g := s.world.Graph()
	index := make(map[string]uint16)
	for f := range g.FieldCount() {
		index[g.FieldName(uint16(f))] = uint16(f)
	}
	for i, from := range r.Names {
		for j, to := range r.Names {
			want := s.world.Propensity(index[from], index[to])
			if r.Truth[i][j] != want || math.Abs(r.Learned[i][j]-want) > 1e-6 {
				t.Errorf("from %s to %s: true %v and learned %v, want %v", from, to, r.Truth[i][j], r.Learned[i][j],
					want)
			}
		}
	}
	// With every π̂ half as large both errors are a half.
	for c, pi := range s.world.Propensities() {
		logits[c] = float32(logit(pi / 2))
	}
	o.Truth, o.Propensities = nil, nil
	s.comparePropensities(o, matrix, logits)
	if math.Abs(float64(o.PropensityError)-.5) > 1e-6 || math.Abs(float64(o.WeightedError)-.5) > 1e-6 {
		t.Errorf("errors %v and %v, want a half", o.PropensityError, o.WeightedError)
	}
}

func TestFigure1(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	l := tiny(2, 11)
	l.trainings.size.pairs, l.trainings.size.validation, l.trainings.size.test = 400, 100, 1000
	l.begin(figure1.Name)
	r, err := figure1.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r)
	if want := 2 * (1 + 1 + 2*3); len(r.Figures) != want { // lines, the truth, two methods at three sizes
		t.Errorf("%d figures, want %d", len(r.Figures), want)
	}
	recoveries := r.Rows.([]*Figure1Row)
	for i, x := range recoveries {
		if len(x.Names) != 2 || len(x.Truth) != 2 || len(x.Learned) != 2 || len(x.Learned[1]) != 2 || !(x.Error > 0) ||
			!(x.Weighted > 0) {
			t.Errorf("%+v", x)
		}
		if same := recoveries[i/9*9]; !reflect.DeepEqual(x.Truth, same.Truth) {
			t.Errorf("the truth changes with the sample: %v, %v", x.Truth, same.Truth)
		}
	}
	for _, fields := range []FieldKind{Random, Tied} {
		mine := filter(recoveries, func(r *Figure1Row) bool { return r.Fields == fields && r.Method == bayes })
		if len(mine) != 3 || mine[2].Pairs != 4*mine[0].Pairs || mine[2].Weighted >= mine[0].Weighted {
			t.Errorf("%s fields: errors %v, %v, %v", fields, mine[0].Weighted, mine[1].Weighted, mine[2].Weighted)
		}
	}
	raw, err := json.Marshal(recoveries)
	if err != nil {
		t.Fatal(err)
	}
	var again []*Figure1Row
	if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again, recoveries) {
		t.Errorf("read again: %v", err)
	}
}

func TestFigure1Claims(t *testing.T) {
	t.Parallel()
	falls := func(m Method, errors ...figure.Value) (rows []*Figure1Row) {
		for i, e := range errors {
			rows = append(rows, &Figure1Row{Method: m, Pairs: i + 1, Error: e, Weighted: e / 2})
		}
		return rows
	}
	for _, test := range []struct {
		rw, mle, bayes []*Figure1Row
		want           []Verdict // the paper's error is reached, errors fall, bayes is closer
	}{
		{falls(rw, .5, .1), falls(mle, .6, .2), falls(bayes, .4, .1), []Verdict{Reproduced, Reproduced, Reproduced}},
		{falls(rw, .5, .3), falls(mle, .6, .2), falls(bayes, .4, .3), []Verdict{Partly, Reproduced, Partly}},
		// reached, and lost again
		{falls(rw, .1, .5), falls(mle, .6, .2), falls(bayes, .4, .1), []Verdict{Partly, Partly, Reproduced}},
		{falls(rw, .5, .6), falls(mle, .1, .2), falls(bayes, .4, .5),
			[]Verdict{NotReproduced, NotReproduced, NotReproduced}},
	} {
		for i, f := range figure1Claims(slices.Concat(test.rw, test.mle, test.bayes), Random) {
			if f.Verdict != test.want[i] {
				t.Errorf("%+v, want %s", f, test.want[i])
			}
		}
	}
}

// The largest samples fit into the parts of the universe that they are drawn from, and memory into a small machine.
func TestFigure1Sizes(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{false, true} {
		for _, z := range newTrainings(Options{Quick: quick}).size.sizes() {
			if part := z.nodes * (z.nodes - 1) / 3; max(z.pairs, z.validation, z.test) > part {
				t.Errorf("%d pairs of %d", z.pairs, part)
			}
			if bytes := 4 * (z.dim + 32) * z.pairs; bytes > 1_200_000_000 {
				t.Errorf("the products of %d pairs take %d bytes", z.pairs, bytes)
			}
		}
	}
}
