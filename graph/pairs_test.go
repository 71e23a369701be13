package graph

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestShuffleAndGroup(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 15))
		g := randomGraph(t, r, 100, 100+int(seed)*2000, 0)
		p, _, err := Sample(g, Universe{}, SampleOptions{Scheme: FieldStratified, Src: rand.NewPCG(seed, 0)})
		must(t, err)
		before := pairBytes(t, p)
		must(t, p.GroupBySource())
		if !bytes.Equal(before, pairBytes(t, p)) {
			t.Error("grouping a sample changed it")
		}
		must(t, p.Shuffle(rand.NewPCG(seed, 1)))
		must(t, p.Validate(g))
		if slices.IsSorted(p.Source) {
			t.Error("shuffled pairs are sorted")
		}
		shuffled := slices.Clone(p.Target)
		sources := slices.Clone(p.Source)
		must(t, p.GroupBySource())
		must(t, p.Validate(g))
		at := 0
		for group := range p.Groups() {
			if group.Start != at || group.End <= group.Start {
				t.Fatalf("group %+v does not follow %d", group, at)
			}
			at = group.End
			var want []int32
			for k, i := range sources {
				if i == group.Source {
					want = append(want, shuffled[k])
				}
			}
			if !slices.Equal(p.Target[group.Start:group.End], want) {
				t.Fatalf("group of %d has lost its order", group.Source)
			}
		}
		if at != p.Len() {
			t.Errorf("groups end at %d of %d pairs", at, p.Len())
		}
		for range p.Groups() {
			break
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a b c b>a")
	for _, c := range []struct {
		kind  error
		says  string
		spoil func(p *Pairs)
	}{
		{ErrShape, "columns", func(p *Pairs) { p.Rate = p.Rate[1:] }},
		{ErrUnknownNode, "(0, 3)", func(p *Pairs) { p.Target[0] = 3 }},
		{ErrUnknownNode, "(-1, 1)", func(p *Pairs) { p.Source[0] = -1 }},
		{ErrPair, "itself", func(p *Pairs) { p.Target[0] = 0 }},
		{ErrPair, "linked true", func(p *Pairs) { p.Linked[0] = true }},
		{ErrPair, "weight 0.5", func(p *Pairs) { p.Weight[2] = .5 }},
		{ErrPair, "weight NaN", func(p *Pairs) { p.Weight[2] = math.NaN() }},
		{ErrPair, "weight +Inf", func(p *Pairs) { p.Weight[2] = math.Inf(1) }},
		{ErrPair, "rate 0", func(p *Pairs) { p.Rate[2] = 0 }},
		{ErrPair, "rate NaN", func(p *Pairs) { p.Rate[2] = math.NaN() }},
		{ErrPair, "universe of 5", func(p *Pairs) { p.Universe = 5 }},
	} {
		p, err := AllPairs(g, Universe{}, 0)
		must(t, err)
		must(t, p.Validate(g))
		c.spoil(p)
		wantError(t, p.Validate(g), c.kind, c.says)
	}
	p := &Pairs{Source: []int32{1, 0}}
	wantError(t, p.GroupBySource(), ErrShape)
	wantError(t, p.Shuffle(rand.NewPCG(1, 1)), ErrShape)
	p, err := AllPairs(g, Universe{}, 0)
	must(t, err)
	wantError(t, p.Shuffle(nil), ErrSettings, "rand.NewPCG")
}
