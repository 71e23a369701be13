package main

import (
	"strings"
	"testing"

	"unseen/fit"
)

// Our half of the comparison with implicit: recall and AUC are those of a shop that is learned, and far above chance.
func TestFactorsOfAShop(t *testing.T) {
	p, err := generateShop(400, 120, 60)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.train) < 2_000 || len(p.test) < 500 || len(p.shown) < len(p.train) {
		t.Fatalf("%d, %d and %d pairs", len(p.train), len(p.test), len(p.shown))
	}
	held := map[[2]int32]bool{}
	for _, at := range p.test {
		held[at] = true
	}
	for _, at := range p.shown {
		if held[at] {
			t.Fatalf("%v is held out, and shown", at)
		}
	}
	b, j := &bench{}, newListJudge(p)
	var said strings.Builder
	naive, err := b.ours(p, fit.Settings{Method: "naive", Ridge: .25}, "naive")
	if err != nil {
		t.Fatal(err)
	}
	corrected, err := b.ours(p, fit.Settings{Method: "mle", Ridge: 1}, "mle")
	if err != nil {
		t.Fatal(err)
	}
	recall := j.report(&said, naive.learned)
	j.seen(&said, corrected)
	if chance := float64(recallAt) / float64(p.items); recall < 1.3*chance {
		t.Errorf("recall %.3f, by chance %.3f", recall, chance)
	}
	if a, b := j.auc(naive.learned), j.auc(corrected.learned); b < a+.02 || b < .65 {
		t.Errorf("AUC by true relevance %.3f, corrected %.3f", a, b)
	}
	if strings.Count(said.String(), "recall@20") != 2 {
		t.Errorf("said %s", &said)
	}
}
