package fit

import (
	"encoding/json"
	"strings"
	"testing"

	"unseen/internal/racetest"
	"unseen/sample"
)

// Data that nothing can be learned from get a verdict with a reason, in bounded time.
func TestDegenerateData(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	vectors := func(p sample.Problem, of func(i int32, row []float32)) {
		row := make([]float32, p.Nodes.Vectors.Dim())
		for i := range int32(p.Nodes.Len()) {
			p.Nodes.Vectors.Load(row, i)
			of(i, row)
			if err := p.Nodes.Vectors.Set(i, row); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, change := range map[string]func(p *sample.Problem){
		"identical vectors": func(p *sample.Problem) {
			vectors(*p, func(_ int32, row []float32) {
				for d := range row {
					row[d] = 1
				}
			})
		},
		"one text, others empty": func(p *sample.Problem) {
			vectors(*p, func(i int32, row []float32) {
				if i > 0 {
					clear(row)
				}
			})
		},
		"half of the vectors zero": func(p *sample.Problem) {
			vectors(*p, func(i int32, row []float32) {
				if i%2 > 0 {
					clear(row)
				}
			})
		},
		"one field": func(p *sample.Problem) {
			for i := range p.Nodes.Fields {
				p.Nodes.Fields[i] = 1
			}
		},
		"a single source": func(p *sample.Problem) {
			for k := range p.Train.Source {
				p.Train.Source[k], p.Train.Target[k] = 0, int32(1+k%(p.Nodes.Len()-1))
			}
		},
		"one link": func(p *sample.Problem) {
			clear(p.Train.Linked)
			p.Train.Linked[7] = true
		},
		"all but one linked": func(p *sample.Problem) {
			for k := range p.Train.Linked {
				p.Train.Linked[k] = k != 3
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := smallProblem(t, 60, 8, 600, 11)
			change(&p)
			r, err := Fit(t.Context(), p, Settings{Replicates: 2})
			if err != nil {
				t.Fatal(err)
			}
			f := r.Findings
			if f.Class == Identified || len(f.Verdict) == 0 {
				t.Errorf("%s, %q", f.Class, f.Verdict)
			}
			text, err := json.Marshal(f) // fails on NaN
			if err != nil || strings.Contains(strings.Join(f.Verdict, " "), "NaN") {
				t.Errorf("%v: %q\n%s", err, f.Verdict, text)
			}
		})
	}
}
