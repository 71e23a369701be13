package recommend

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"unseen/fit"
	"unseen/graph"
)

// What a source expects of every field leaves out itself and what it links to, wherever these are.
func TestExpectedOfManyTargets(t *testing.T) {
	const n = 9*bridgeRows + 103 // of three fields
	g, m, naive := small(t, n, "diagonal")
	b := newBridgeSums(must(New(g, m, Options{Naive: &naive}))(t), BridgeSettings{List: 5})
	z := make([]float32, n)
	for j := range z {
		z[j] = float32(j%13) - 9
	}
	for _, source := range []int32{0, bridgeRows - 1, bridgeRows, n - 1} {
		want, best := make([]float64, g.FieldCount()), make([]int, g.FieldCount())
		s := b.seeker(b.r.published, source, .9)
		for _, all := range b.targets {
			for targets := range slices.Chunk(all, bridgeRows) {
				own := make([]float32, len(targets))
				for k, j := range targets {
					own[k] = z[j]
				}
				s.expect(g, targets, own, newBridgeRoom())
			}
		}
		got, found := s.sums, s.best
		for j := range int32(n) {
			if y := sigmoid(float64(z[j])); j != source && !g.HasLink(source, j) {
				if want[g.Field(j)] += y; y >= .9 {
					best[g.Field(j)]++
				}
			}
		}
		for f := range want {
			if math.Abs(got[f]-want[f]) > 1e-6*n || len(found[f]) != min(best[f], bridgeKeep) {
				t.Errorf("source %d, field %d: %v and %d of the best; want %v", source, f, got[f], len(found[f]),
					want[f])
			}
			for _, p := range found[f] {
				if p.z != 3 || p.target == source || g.HasLink(source, p.target) {
					t.Errorf("source %d, field %d: %+v", source, f, p)
				}
			}
		}
	}
}

// Stretches of targets are scored as they are, and readers learn how far it has come.
func TestBridgesOfManyTargets(t *testing.T) {
	const n = 4*bridgeRows + 90 // of three fields
	for _, kind := range []string{"diagonal", "low-rank"} {
		g, m, naive := small(t, n, kind)
		b := newBridgeSums(must(New(g, m, Options{Naive: &naive, Threads: 2}))(t), BridgeSettings{Within: true})
		var seen []float64
		source := int32(n - 7)
		report := func(share float64) { seen = append(seen, share) }
		if err := b.add(t.Context(), []int32{3, source}, report); err != nil {
			t.Fatal(err)
		}
		if len(seen) < 6 || !slices.IsSorted(seen) || seen[len(seen)-1] != 1 {
			t.Errorf("seen %v", seen)
		}
		for f := range g.FieldCount() {
			var corrected, naively float64
			for j := range int32(n) {
				if j != source && !g.HasLink(source, j) && g.Field(j) == uint16(f) {
					corrected += sigmoid(logit(m, source, j))
					naively += sigmoid(logit(naive, source, j))
				}
			}
			values := b.values[[2]uint16{g.Field(source), uint16(f)}]
			if uint16(f) == graph.UnknownField {
				continue
			}
			if got := values[len(values)-1]; math.Abs(got[0]-corrected) > 1e-5*n || math.Abs(got[1]-naively) > 1e-5*n {
				t.Errorf("%s, field %d: %v, want %v and %v", kind, f, got, corrected, naively)
			}
		}
	}
}

// Sources of one field look at the targets of the others alone, and come to the end.
func TestBridgesOfSourcesOfOneField(t *testing.T) {
	g, m, naive := small(t, 90, "diagonal")
	b := newBridgeSums(must(New(g, m, Options{Naive: &naive, Threads: 2}))(t), BridgeSettings{})
	sources := []int32{3}
	for i := int32(4); len(sources) < 5; i++ {
		if g.Field(i) == g.Field(3) {
			sources = append(sources, i)
		}
	}
	var last float64
	if err := b.add(t.Context(), sources, func(share float64) { last = share }); err != nil || last != 1 {
		t.Fatalf("ended at %v: %v", last, err)
	}
	for f := range b.targets {
		want := len(sources)
		if uint16(f) == g.Field(3) || len(b.targets[f]) == 0 {
			want = 0
		}
		if got := len(b.values[[2]uint16{g.Field(3), uint16(f)}]); got != want {
			t.Errorf("field %d: %d sources, want %d", f, got, want)
		}
	}
}

// A bridge is a sum over pairs, whatever the threads.
func TestBridgesAreSums(t *testing.T) {
	for _, kind := range []string{"diagonal", "diagonal-field", "low-rank"} {
		g, m, naive := small(t, 90, kind)
		m.Findings = must(json.Marshal(fit.Findings{Class: fit.Identified,
			Cells: []fit.CellFinding{{Source: 1, Target: 2, Links: 2, LogitError: .5},
				{Source: 2, Target: 3, Links: 50}}}))(t)
		r := must(New(g, m, Options{Naive: &naive, Threads: 2}))(t)
		got := must(r.Bridges(t.Context(), BridgeSettings{Within: true}))(t)
		if len(got) != 9 {
			t.Fatalf("%d bridges of three fields", len(got))
		}
		for k, b := range got {
			var corrected, naively, sources float64
			for i := range int32(90) {
				if g.FieldName(g.Field(i)) != b.Source {
					continue
				}
				sources++
				for j := range int32(90) {
					if i != j && !g.HasLink(i, j) && g.FieldName(g.Field(j)) == b.Target {
						corrected += sigmoid(logit(m, i, j))
						naively += sigmoid(logit(naive, i, j))
					}
				}
			}
			if math.Abs(b.Corrected-corrected/sources) > 1e-4 || math.Abs(b.Naive-naively/sources) > 1e-4 ||
				math.Abs(b.Gap-(b.Corrected-b.Naive)) > 1e-12 {
				t.Errorf("%s → %s: %v and %v, want %v and %v", b.Source, b.Target, b.Corrected, b.Naive,
					corrected/sources, naively/sources)
			}
			if !(b.Lower < b.Gap && b.Gap < b.Upper) || k > 0 && got[k-1].Weak == b.Weak && got[k-1].Gap < b.Gap ||
				k > 0 && got[k-1].Weak && !b.Weak {
				t.Errorf("%s → %s: %v in [%v, %v]", b.Source, b.Target, b.Gap, b.Lower, b.Upper)
			}
			if weak := b.Source == "biology" && b.Target == "chemistry"; b.Weak != weak {
				t.Errorf("%s → %s: weak %v", b.Source, b.Target, b.Weak)
			}
			seen := map[string]bool{}
			for p, item := range b.Reading {
				if seen[item.ID] || g.HasLink(item.For.Node, item.Node) || item.Field != b.Target ||
					item.For.Field != b.Source || item.Link < .05 || p > 0 && item.Link > b.Reading[p-1].Link {
					t.Errorf("%s → %s reads %+v", b.Source, b.Target, item)
				}
				seen[item.ID] = true
				if want := sigmoid(logit(m, item.For.Node, item.Node)); math.Abs(item.Link-want) > 1e-4 {
					t.Errorf("ŷ is %v, want %v", item.Link, want)
				}
			}
			if len(b.Reading) == 0 {
				t.Errorf("nothing to read on %s → %s", b.Source, b.Target)
			}
		}
		if one := must(must(New(g, m, Options{Naive: &naive}))(t).Bridges(t.Context(),
			BridgeSettings{Within: true}))(t); !reflect.DeepEqual(one, got) {
			t.Errorf("%s: other bridges with one thread", kind)
		}
		if apart := must(r.Bridges(t.Context(), BridgeSettings{Sources: 4, List: -1}))(t); len(apart) != 6 ||
			apart[0].Sources != 4 || apart[0].Reading != nil || !apart[0].Weak {
			t.Errorf("%d bridges, the first %+v", len(apart), apart[0])
		}
	}
	g, m, naive := small(t, 30, "mlp")
	if _, err := must(New(g, m, Options{Naive: &naive}))(t).Bridges(t.Context(), BridgeSettings{}); !errors.Is(err,
		ErrModel) {
		t.Errorf("a network: %v", err)
	}
	if _, err := must(New(g, m, Options{}))(t).Bridges(t.Context(), BridgeSettings{}); !errors.Is(err, ErrModel) {
		t.Errorf("without a naive model: %v", err)
	}
}

// The interval is that of sources and of π̂: it widens with the doctor's error.
func TestBridgeIntervalsCountPropensities(t *testing.T) {
	g, m, naive := small(t, 90, "diagonal")
	width := func(e float64) float64 {
		m.Findings = must(json.Marshal(fit.Findings{Cells: []fit.CellFinding{{Source: 1, Target: 2, Links: 9,
			LogitError: e}}}))(t)
		for _, b := range must(must(New(g, m, Options{Naive: &naive}))(t).Bridges(t.Context(), BridgeSettings{}))(t) {
			if b.Source == "biology" && b.Target == "chemistry" {
				e *= b.Corrected * (1 - b.Propensity)
				return (b.Upper-b.Lower)*(b.Upper-b.Lower)/4/1.96/1.96 - e*e
			}
		}
		t.Fatal("no bridge")
		return 0
	}
	if a, b := width(0), width(.8); math.Abs(a-b) > 1e-9*(1+a) {
		t.Errorf("beyond the error of π̂ the variance is %v, without it %v", b, a)
	}
}
