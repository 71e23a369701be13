package encode

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/graph"
)

// features is some in memory.
type features [][]float32

func (t features) Len() int                    { return len(t) }
func (t features) Dim() int                    { return len(t[0]) }
func (t features) Load(dst []float32, i int32) { copy(dst, t[i]) }

// reduced returns the vectors.
func reduced(t *testing.T, f Features, s Settings) ([][]float32, *Summary) {
	t.Helper()
	var v *graph.Vectors
	report, err := Reduce(t.Context(), f, func(dim int) (rows Rows, err error) {
		v, err = graph.NewVectors(f.Len(), dim)
		return v, err
	}, s)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]float32, f.Len())
	for i := range out {
		out[i] = make([]float32, v.Dim())
		v.Load(out[i], int32(i))
	}
	return out, report
}

// With as many components as there are features, cosines of the weighed rows are kept; with fewer, those of one topic
// stay together.
func TestReduceKeepsWhatIsAlike(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	const n, width = 120, 40
	rows := make(features, n)
	for i := range rows {
		rows[i] = make([]float32, width)
		for range 8 { // four topics of ten features each, and some noise
			rows[i][i%4*10+r.IntN(10)] = 1
		}
		rows[i][r.IntN(width)] = 1
	}
	clear(rows[5])
	whole, report := reduced(t, rows, Settings{Dim: width})
	if report.Empty != 1 || report.Dim != width || report.Explained < .999 {
		t.Errorf("got %+v", report)
	}
	frequency := make([]float64, width)
	for _, row := range rows {
		for k, x := range row {
			if x != 0 {
				frequency[k]++
			}
		}
	}
	cosine := func(a, b []float32, weigh bool) float64 {
		var ab, aa, bb float64
		for k := range a {
			x, y := float64(a[k]), float64(b[k])
			if weigh {
				w := 1 + math.Log((n+1)/(frequency[k]+1))
				x, y = x*w, y*w
			}
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		if aa == 0 || bb == 0 {
			return 0
		}
		return ab / math.Sqrt(aa*bb)
	}
	for i := range rows {
		for j := range i {
			if got, want := cosine(whole[i], whole[j], false),
				cosine(rows[i], rows[j], true); math.Abs(got-want) > 1e-3 {
				t.Fatalf("the cosine of %d and %d is %.4f, want %.4f", i, j, got, want)
			}
		}
	}
	few, _ := reduced(t, rows, Settings{Dim: 4, Threads: 3})
	again, _ := reduced(t, rows, Settings{Dim: 4, Threads: 1})
	for i := range few {
		for k := range few[i] {
			if few[i][k] != again[i][k] {
				t.Fatal("another vector with one thread")
			}
		}
	}
	same, other := 0., 0.
	for i := range rows {
		for j := range i {
			if i%4 == j%4 {
				same += cosine(few[i], few[j], false) / (n * n / 8)
			} else {
				other += cosine(few[i], few[j], false) / (n * n * 3 / 8)
			}
		}
	}
	if same < .7 || other > .3 {
		t.Errorf("rows of one topic have cosine %.2f, others %.2f", same, other)
	}
}

func TestReduceRefuses(t *testing.T) {
	t.Parallel()
	room := func(dim int) (Rows, error) { return graph.NewVectors(2, dim) }
	if _, err := Reduce(t.Context(), features{{0, 0}, {0, 0}}, room, Settings{}); !errors.Is(err, ErrTexts) {
		t.Errorf("all zeros: %v", err)
	}
	if _, err := Reduce(t.Context(), features{{1, 0}, {0, 1}}, room, Settings{Dim: 3}); !errors.Is(err, ErrDimension) {
		t.Errorf("too many: %v", err)
	}
	if _, err := Reduce(t.Context(), features{{1, 0}, {0, 1}}, room, Settings{Dim: -1}); err == nil {
		t.Error("a negative dimension")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Reduce(gone, features{{1, 0}, {0, 1}}, room, Settings{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	full := errors.New("full")
	if _, err := Reduce(t.Context(), features{{1, 0}, {0, 1}}, func(int) (Rows, error) { return nil, full },
		Settings{}); !errors.Is(err, full) {
		t.Errorf("no room: %v", err)
	}
}
