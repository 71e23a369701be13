package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// list draws a list of ten items for field 1, each of which stays with probability p. Where
// together is set all items of a list go one way, as far as items can depend on one another.
func list(rng *rand.Rand, p float64, together bool) []ShownItem {
	items := make([]ShownItem, 10)
	u := rng.Float64()
	for k := range items {
		if !together {
			u = rng.Float64()
		}
		items[k] = ShownItem{Source: 1, Target: 2}
		if u < p {
			items[k].Target = 1
		}
	}
	return items
}

// firstAlarm returns the list that raises one, or 0.
func firstAlarm(t *testing.T, s DriftSettings, n int, draw func(k int) []ShownItem) (int, Alarm) {
	t.Helper()
	d, err := NewDrift(s)
	if err != nil {
		t.Fatal(err)
	}
	for k := range n {
		alarms, err := d.Add(draw(k)...)
		if err != nil {
			t.Fatal(err)
		}
		if len(alarms) > 0 {
			return k + 1, alarms[0]
		}
	}
	return 0, Alarm{}
}

// While the share stays in its band, at most one run in ten has an alarm, even at the band's end and
// with lists whose items all go one way.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	s := DriftSettings{Expected: []ExpectedShare{{1, .5, .6}}, FalseAlarm: .1, Lists: 300}
	for _, c := range []struct {
		p        float64
		together bool
	}{{.6, false}, {.5, false}, {.6, true}, {.5, true}, {.55, true}} {
		rng := newStream(8, "test", 0)
		const runs = 200
		alarmed := 0
		for range runs {
			if at, _ := firstAlarm(t, s, s.Lists, func(int) []ShownItem { return list(rng, c.p, c.together) }); at > 0 {
				alarmed++
			}
		}
		t.Logf("share %v, together %t: %.3f of the runs have an alarm, at most %v may", c.p, c.together,
			float64(alarmed)/runs, s.FalseAlarm)
		if float64(alarmed)/runs > s.FalseAlarm+3*math.Sqrt(.1*.9/runs) {
			t.Errorf("share %v, together %t: %d of %d", c.p, c.together, alarmed, runs)
		}
	}
}

// A share that leaves its band is found, on the right side, and about when it left is known.
func TestPower(t *testing.T) {
	t.Parallel()
	s := DriftSettings{Expected: []ExpectedShare{{1, .5, .6}}}
	for _, c := range []struct {
		p     float64
		above bool
	}{{.68, true}, {.42, false}} {
		rng := newStream(9, "test", 0)
		const runs, leaves = 60, 400
		found, delay := 0, 0.
		for range runs {
			at, alarm := firstAlarm(t, s, leaves+3000, func(k int) []ShownItem {
				if k < leaves {
					return list(rng, .55, false)
				}
				return list(rng, c.p, false)
			})
			if at > leaves && alarm.Above == c.above && math.Abs(alarm.Share-c.p) < .06 &&
				math.Abs(float64(alarm.Since-leaves)) < 150 {
				found++
				delay += float64(at - leaves)
			}
		}
		t.Logf("share %v: found in %d of %d runs, after %.0f lists on average", c.p, found, runs, delay/float64(found))
		if found < runs*9/10 || delay/float64(found) > 1000 {
			t.Errorf("share %v: found in %d of %d runs, after %.0f lists on average", c.p, found, runs,
				delay/float64(found))
		}
	}
}

// Windows cover what they say, also where lists are what varies.
func TestWindowsCover(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		rng := newStream(10, "test", 0)
		d, err := NewDrift(DriftSettings{Window: 200, Keep: 200, Expected: []ExpectedShare{{1, .9, 1}}})
		if err != nil {
			t.Fatal(err)
		}
		for range 200 * 200 {
			if _, err := d.Add(list(rng, .7, together)...); err != nil {
				t.Fatal(err)
			}
		}
		windows := d.Windows(1)
		covered := 0
		for k, w := range windows {
			if w.Low <= .7 && .7 <= w.High {
				covered++
			}
			if w.Lists != 200 || w.Items != 2000 || w.First != int64(200*k+1) || !w.Outside {
				t.Fatalf("window %d is %+v", k, w)
			}
		}
		if share := float64(covered) / float64(len(windows)); len(windows) != 200 || share < .9 || share > .99 {
			t.Errorf("together %t: %v of %d windows cover the share", together, share, len(windows))
		}
	}
}

// The pool's share is right whatever the probabilities with which items were shown.
func TestPoolShare(t *testing.T) {
	t.Parallel()
	rng := newStream(11, "test", 0)
	d, _ := NewDrift(DriftSettings{Window: 20_000})
	for d.Lists() < 20_000 {
		// Two items of three are of field 1; those are shown four times as often.
		item := ShownItem{Source: 1, Target: 1, Probability: .8}
		if rng.Float64() < 1./3 {
			item.Target, item.Probability = 2, .2
		}
		if rng.Float64() < item.Probability {
			if _, err := d.Add(item); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w := d.Windows(1)[0]; math.Abs(w.Pool-2./3) > .01 || math.Abs(w.Share-8./9) > .01 {
		t.Errorf("pool %v, want 2/3; share %v, want 8/9", w.Pool, w.Share)
	}
}

// A detector that is saved and read goes on as the one that never stopped.
func TestDriftIsSaved(t *testing.T) {
	t.Parallel()
	rng := newStream(12, "test", 0)
	d, err := NewDrift(DriftSettings{Expected: []ExpectedShare{{1, .4, .5}, {2, 0, 1}}, Window: 50, Keep: 3})
	if err != nil {
		t.Fatal(err)
	}
	var again Drift
	copied := d
	for k := range 4000 {
		items := list(rng, .6, false)
		if k%7 == 0 {
			for i := range items {
				items[i].Source = 2
			}
		}
		a, err1 := d.Add(items...)
		b, err2 := copied.Add(items...)
		if copied == d {
			b = a
		}
		if err1 != nil || err2 != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("list %d: %v and %v, %v and %v", k, a, b, err1, err2)
		}
		if k == 1777 {
			raw, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &again); err != nil {
				t.Fatal(err)
			}
			copied = &again
		}
	}
	last, all := d.Alarms(1)
	if all < 4 || len(last) != 3 || !strings.Contains(last[2].Sentence("Biology"),
		"above the expected 40 to 50") {
		t.Errorf("%d alarms, the last %v", all, last)
	}
	if _, none := d.Alarms(2); none != 0 {
		t.Errorf("%d alarms where every share is expected", none)
	}
	if windows := d.Windows(2); len(windows) > 4 || len(windows) < 3 {
		t.Errorf("%d windows are kept", len(windows))
	}
	one, _ := json.Marshal(d)
	two, _ := json.Marshal(copied)
	if !bytes.Equal(one, two) {
		t.Errorf("they differ:\n%s\n%s", one, two)
	}
	if d.Windows(9) != nil {
		t.Error("a field that was never seen has windows")
	}
}

// The zero detector is that of the default settings.
func TestZeroDrift(t *testing.T) {
	t.Parallel()
	var zero Drift
	made, err := NewDrift(DriftSettings{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, d := range []*Drift{&zero, made} {
			if _, err := d.Add(ShownItem{Source: 1, Target: 1}, ShownItem{Source: 1, Target: 2}); err != nil {
				t.Fatal(err)
			}
		}
	}
	one, _ := json.Marshal(&zero)
	two, _ := json.Marshal(made)
	if string(one) != string(two) || zero.Lists() != 3 {
		t.Errorf("%s, not %s", one, two)
	}
}

func TestDriftRejects(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]DriftSettings{
		"rate": {FalseAlarm: 1}, "lists": {Lists: -1}, "window": {Window: 1}, "keep": {Keep: -1}, "shift": {Shift: -1},
		"level": {Level: 1},
		"band":  {Expected: []ExpectedShare{{1, .6, .5}}}, "NaN": {Expected: []ExpectedShare{{1, math.NaN(), .5}}},
		"twice": {Expected: []ExpectedShare{{1, .1, .5}, {1, .1, .5}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewDrift(s); !errors.Is(err, ErrSetting) {
				t.Errorf("%v, want ErrSetting", err)
			}
		})
	}
	d, err := NewDrift(DriftSettings{Expected: []ExpectedShare{{1, 0, 0}, {2, 1, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, items := range map[string][]ShownItem{
		"empty": {}, "two sources": {{Source: 1}, {Source: 2}}, "probability": {{Probability: 1.5}},
		"negative": {{Probability: -1}},
		"NaN":      {{Probability: math.NaN()}}, "tiny": {{Probability: 5e-324}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := d.Add(items...); !errors.Is(err, ErrShown) {
				t.Errorf("%v, want ErrShown", err)
			}
		})
	}
	if d.Lists() != 0 {
		t.Errorf("%d lists were taken", d.Lists())
	}
	// What can never be, in a band of one sure value, is an alarm after a while.
	for field, target := range map[uint16]uint16{1: 1, 2: 1} {
		raised := 0
		for range 100 {
			alarms, err := d.Add(ShownItem{Source: field, Target: target})
			if err != nil {
				t.Fatal(err)
			}
			raised += len(alarms)
		}
		if raised == 0 {
			t.Errorf("field %d: no alarm", field)
		}
	}
}

func FuzzDriftState(f *testing.F) {
	d, _ := NewDrift(DriftSettings{Expected: []ExpectedShare{{1, .4, .5}}, Window: 2})
	for k := range 5 {
		if _, err := d.Add(ShownItem{Source: 1, Target: uint16(k % 2), Probability: .5}); err != nil {
			f.Fatal(err)
		}
	}
	raw, _ := json.Marshal(d)
	f.Add(raw)
	f.Add([]byte(`{"version":1,"lists":3,"fields":{"1":null}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d Drift
		if err := json.Unmarshal(raw, &d); err != nil {
			return
		}
		if _, err := d.Add(ShownItem{Source: 1, Target: 1}); err != nil {
			t.Fatal(err)
		}
		if len(d.Windows(1)) == 0 {
			t.Fatal("a list was added and there is no window")
		}
		if _, err := json.Marshal(&d); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}
