package recommend

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/graph"
	"unseen/progress"
	"unseen/sample"
)

func swept(t *testing.T) (*Recommender, *evaluate.Candidates) {
	t.Helper()
	g, m, _ := small(t, 80, "diagonal")
	drawn := must(sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{
		Plan: sample.Plan{Shares: graph.Shares{Train: .5, Validation: .1, Test: .4}}}}))(t)
	return must(New(g, m, Options{}))(t), must(must(evaluate.NewCandidates(drawn, graph.Test))(t).Some(20, 1))(t)
}

// A query with an order has only what came before the source, and every list of a sweep is what Top gives.
func TestSweepIsTop(t *testing.T) {
	r, held := swept(t)
	settings := []DialSetting{{}, {Diversity: .4}, {Diversity: 1}, {Explore: .5}}
	s := must(r.Sweep(t.Context(), SweepSettings{K: 6, Held: held, Settings: settings, Seed: 3}))(t)
	for p, at := range settings {
		for k, i := range held.Sources() {
			list := must(r.Top(t.Context(), Query{Source: r.Node(i), K: 6, Linked: true, Before: held.Before(),
				Diversity: at.Diversity, Explore: at.Explore, Seed: 3}))(t)
			counts, hits := map[string]float64{}, 0.
			for _, item := range list.Items {
				if !held.Before().Precedes(item.Node, i) {
					t.Fatalf("%d is recommended to %d, which is older", item.Node, i)
				}
				counts[item.Field]++
				if r.g.HasLink(i, item.Node) {
					hits++
				}
			}
			if list.Candidates != int(held.Before().Rank[i]) {
				t.Errorf("node %d has %d candidates, want the %d before it", i, list.Candidates, held.Before().Rank[i])
			}
			entropy := 0.
			for _, c := range counts {
				entropy -= c / float64(len(list.Items)) * math.Log(c/float64(len(list.Items)))
			}
			if recall := hits / float64(len(held.Links(k))); s.recall[p][k] != recall ||
				math.Abs(s.entropy[p][k]-entropy) > 1e-12 || (hits == 0) != math.IsNaN(s.found[p][k]) {
				t.Errorf("%+v for %d: recall %v and entropy %v, want %v and %v", at, i, s.recall[p][k],
					s.entropy[p][k], recall, entropy)
			}
		}
	}
	threaded := must(New(r.g, r.model, Options{Threads: 4}))(t)
	if again := must(threaded.Sweep(t.Context(), SweepSettings{K: 6, Held: held, Settings: settings,
		Seed: 3}))(t); !reflect.DeepEqual(again.recall, s.recall) || !reflect.DeepEqual(again.entropy, s.entropy) {
		t.Error("four threads give another sweep")
	}
}

func TestDial(t *testing.T) {
	r, held := swept(t)
	var done float64
	s := must(r.Sweep(t.Context(), SweepSettings{K: 5, Held: held,
		Progress: func(e progress.Event) { done = e.Share() }}))(t)
	drawn := must(r.Sweep(t.Context(), SweepSettings{K: 5, Held: held, Settings: []DialSetting{{Explore: 1}}}))(t)
	d := must(NewDial([]*Sweep{s, drawn}, held, 200, 1))(t)
	if len(d.Curves) != 2 || len(d.Curves[0].Points) != 11 || d.Sources != 20 || d.K != 5 || done != 1 {
		t.Fatalf("%+v, %v done", d, done)
	}
	base, last := d.Curves[0].Points[0], d.Curves[0].Points[10]
	if base.Loss != (evaluate.Band{}) || base.Gain != (evaluate.Band{}) {
		t.Errorf("the model as it is loses %+v by itself", base.Loss)
	}
	// three fields in five places: with no two alike all three are there
	if want := -2*.4*math.Log(.4) - .2*math.Log(.2); math.Abs(last.Entropy.Value-want) > 1e-9 || last.Gain.Lower <= 0 {
		t.Errorf("x = 1 has an entropy of %+v, want %v", last.Entropy, want)
	}
	for _, c := range d.Curves {
		for _, p := range c.Points {
			if math.Abs(base.Recall.Value-p.Recall.Value-p.Loss.Value) > 1e-12 || p.Recall.Lower > p.Recall.Value ||
				p.Recall.Upper < p.Recall.Value {
				t.Errorf("%+v", p)
			}
		}
	}
	raw := must(json.Marshal(d))(t)
	var back Dial
	if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back.Words(), d.Words()) ||
		len(back.Words()) < 3 {
		t.Errorf("%v: %q", err, back.Words())
	}
	if _, err := NewDial([]*Sweep{s}, must(held.Some(3, 1))(t), 1, 1); !errors.Is(err, ErrQuery) {
		t.Errorf("other sources: %v", err)
	}
	if _, err := NewDial(nil, held, 1, 1); !errors.Is(err, ErrQuery) {
		t.Errorf("nothing: %v", err)
	}
	for name, bad := range map[string]SweepSettings{
		"no sources": {}, "diversity": {Held: held, Settings: []DialSetting{{Diversity: 2}}},
		"both": {Held: held, Settings: []DialSetting{{.1, .1}}}, "K": {Held: held, K: -1},
	} {
		if _, err := r.Sweep(t.Context(), bad); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := r.Sweep(stopped, SweepSettings{Held: held}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestCostInWords(t *testing.T) {
	d := Dial{K: 10}
	band := func(x float64) evaluate.Band { return evaluate.Band{Value: x, Lower: x - .01, Upper: x + .01} }
	for want, p := range map[string]DialPoint{
		"x = .3 gives up 2.1 points of Recall@10 (1.1 to 3.1) for 0.40 nats of entropy (0.39 to 0.41)": {
			DialSetting: DialSetting{Diversity: .3}, Loss: band(.021), Gain: band(.4)},
		"x = 1 gives up 2.1 points of Recall@10 (1.1 to 3.1) and 0.40 nats of entropy (0.39 to 0.41)": {
			DialSetting: DialSetting{Diversity: 1}, Loss: band(.021), Gain: band(-.4)},
		"e = .25 gains 2.0 points of Recall@10 (1.0 to 3.0) at the same entropy": {
			DialSetting: DialSetting{Explore: .25}, Loss: band(-.02), Gain: band(0)},
		"x = .3 brings 0.40 nats of entropy (0.39 to 0.41) without a measurable loss of recall " +
			"(0.5 points, -0.5 to 1.5)": {DialSetting: DialSetting{Diversity: .3}, Loss: band(.005), Gain: band(.4)},
		"x = 0 changes nothing": {},
	} {
		if got := d.Cost(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An order is of the graph's own nodes, and a new text has no place in it.
func TestBeforeRefuses(t *testing.T) {
	r, held := swept(t)
	other, _, _ := small(t, 30, "diagonal")
	new := must(r.Vector(t.Context(), []float32{1, 0, 0, 0, 0, 0, 0, 0}, 1))(t)
	for says, q := range map[string]Query{
		"an order of 30 nodes": {K: 1, Source: r.Node(0), Before: other.Order()},
		"a new text has no":    {K: 1, Source: new, Before: held.Before()},
	} {
		if _, err := r.Top(t.Context(), q); !errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	if _, err := r.Batch(t.Context(), []int32{1}, Query{K: 1, Before: held.Before()}); !errors.Is(err, ErrQuery) {
		t.Errorf("batch: %v", err)
	}
}
