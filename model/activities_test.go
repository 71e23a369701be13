package model

import (
	"math"
	"testing"
	"time"

	"unseen/graph"
)

// Ages and links are standardised over what was available, and where no time is known every age is 0.
func TestActivities(t *testing.T) {
	t.Parallel()
	const hour = 3600
	var b graph.Builder
	for _, n := range []graph.Node{{ID: "ann", Role: graph.SourceOnly}, {ID: "bob", Role: graph.SourceOnly},
		{ID: "old", Role: graph.TargetOnly, Time: time.Unix(hour, 0)},
		{ID: "new", Role: graph.TargetOnly, Time: time.Unix(10*hour, 0)}} {
		_, err := b.AddNode(n)
		must(t, err)
	}
	must(t, b.AddLinkAt(0, 2, 4*hour))
	must(t, b.AddLinkAt(1, 2, 4*hour))
	must(t, b.AddLinkAt(1, 3, 11*hour))
	g, _, err := b.Build()
	must(t, err)
	order, err := g.Availability(time.Hour)
	must(t, err)
	a := ActivitiesOf(g, order)
	var ages moments
	for _, pair := range [][2]int32{{0, 2}, {1, 2}, {1, 3}} { // new was not there for ann
		ages.add(a.age(pair[0], pair[1]))
	}
	if math.Abs(ages.mean()) > 1e-6 || math.Abs(ages.deviation()-1) > 1e-6 || a.age(1, 2) <= a.age(0, 2) {
		t.Errorf("ages %v ± %v, %v and %v", ages.mean(), ages.deviation(), a.age(1, 2), a.age(0, 2))
	}
	if a.Links[0] != -1 || a.Links[1] != 1 || a.Links[2] != 0 {
		t.Errorf("links %v", a.Links)
	}
	if a = ActivitiesOf(g, nil); a.age(0, 2) != 0 || a.age(1, 3) != 0 {
		t.Errorf("ages %v and %v without times", a.age(0, 2), a.age(1, 3))
	}
}
