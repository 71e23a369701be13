package evaluate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRankScores(t *testing.T) {
	for name, c := range map[string]struct {
		scores []float64
		linked []int32
		want   []int
	}{
		"plain":           {[]float64{.1, .9, .5}, []int32{0, 1, 2}, []int{3, 1, 2}},
		"order of linked": {[]float64{.1, .9, .5}, []int32{2, 0}, []int{2, 3}},
		"equal scores":    {[]float64{1, 2, 2, 2, 1}, []int32{4, 3, 1, 0}, []int{5, 3, 1, 4}},
		"zeros are equal": {[]float64{0, math.Copysign(0, -1), 0}, []int32{2, 1, 0}, []int{3, 2, 1}},
		"infinite":        {[]float64{-inf, 0, inf, -inf}, []int32{3, 2}, []int{4, 1}},
		"none linked":     {[]float64{1, 2}, nil, []int{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := must(RankScores(c.scores, c.linked))(t).Ranks(); !slices.Equal(got, c.want) {
				t.Errorf("ranks are %v, want %v", got, c.want)
			}
		})
	}
}

func TestRankList(t *testing.T) {
	got := must(RankList([]int32{7, 3, 9}, []int32{9, 4, 7}))(t).Ranks()
	if want := []int{3, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("ranks are %v, want %v", got, want)
	}
}

// By hand. Source 0 finds two of its three links, at ranks 1 and 4; source 1 its only one at rank
// 2; source 2 has none and does not count; source 3 finds nothing.
func TestRankingByHand(t *testing.T) {
	r := Ranking{
		must(RankList([]int32{0, 1, 2, 3}, []int32{3, 9, 0}))(t),
		must(RankList([]int32{5, 6}, []int32{6}))(t),
		must(RankList([]int32{1, 2}, nil))(t),
		must(RankList([]int32{1, 2}, []int32{8}))(t),
	}
	fields := []uint16{0, 0, 0, 1, 0, 0, 2, 0, 0, 0}
	log2 := math.Log2
	near(t, "MRR", must(r.MRR())(t), (1+.5+0)/3)
	near(t, "Recall@1", must(r.Recall(1))(t), (1./3+0+0)/3)
	near(t, "Recall@4", must(r.Recall(4))(t), (2./3+1+0)/3)
	near(t, "precision@1", must(r.Precision(1))(t), (1.+0+0)/3)
	near(t, "precision@4", must(r.Precision(4))(t), (2./4+1./4+0)/3)
	near(t, "hits@1", must(r.HitRate(1))(t), 1./3)
	near(t, "hits@4", must(r.HitRate(4))(t), 2./3)
	near(t, "NDCG@1", must(r.NDCG(1))(t), (1.+0+0)/3)
	near(t, "NDCG@2", must(r.NDCG(2))(t), (1/(1+1/log2(3))+1/log2(3)+0)/3)
	near(t, "NDCG@9", must(r.NDCG(9))(t), ((1+1/log2(5))/(1+1/log2(3)+1/log2(4))+1/log2(3)+0)/3)
	near(t, "mean rank", must(r[1:3].MeanRank())(t), 2)
	// Source 0: fields 0 and 1, one each; source 1: field 2 alone; source 3 finds nothing.
	near(t, "entropy@4", must(r.FieldEntropy(fields, 4))(t), (math.Ln2+0)/2)
	near(t, "entropy@1", must(r.FieldEntropy(fields, 1))(t), 0)
}

func TestRankingRefuses(t *testing.T) {
	list := func(list, linked []int32) Ranked { return must(RankList(list, linked))(t) }
	some := Ranking{list([]int32{0, 1}, []int32{1})}
	for name, c := range map[string]struct {
		f    func() (float64, error)
		want error
		says string
	}{
		"no sources":  {Ranking{}.MRR, ErrEmpty, "none of the 0 sources"},
		"no links":    {Ranking{list([]int32{1}, nil)}.MRR, ErrEmpty, "none of the 1 sources"},
		"zero Ranked": {Ranking{{}}.MeanRank, ErrEmpty, "none of the 1 sources"},
		"NDCG at 0":   {func() (float64, error) { return some.NDCG(0) }, ErrCutoff, "got 0"},
		"hits at 0":   {func() (float64, error) { return some.HitRate(0) }, ErrCutoff, "got 0"},
		"precision at 0": {func() (float64, error) { return some.Precision(0) }, ErrCutoff,
			"got 0"},
		"recall at -1": {func() (float64, error) { return some.Recall(-1) }, ErrCutoff, "got -1"},
		"entropy at 0": {func() (float64, error) { return some.FieldEntropy([]uint16{0, 0}, 0) }, ErrCutoff,
			"got 0"},
		"fewer fields": {func() (float64, error) { return some.FieldEntropy([]uint16{0}, 1) }, ErrTarget,
			"target 1 but there are 1 fields"},
		"nothing found": {func() (float64, error) { return some.FieldEntropy([]uint16{0, 0}, 1) }, ErrUndefined,
			"among its first 1"},
		"unranked": {Ranking{{}, list([]int32{5}, []int32{5, 6})}.MeanRank, ErrUndefined,
			"target 6 is not in the list of source 1"},
		"repeated linked": {rankScores([]float64{1, 2}, []int32{1, 1}), ErrTarget,
			"linked[0] and linked[1] are both 1"},
		"linked too high": {rankScores([]float64{1, 2}, []int32{2}), ErrTarget,
			"linked[0] is 2 but there are 2 scores"},
		"linked negative": {rankScores([]float64{1, 2}, []int32{-1}), ErrTarget, "linked[0] is -1"},
		"NaN score":       {rankScores([]float64{1, nan}, []int32{0}), ErrNaN, "the score of target 1"},
		"repeated in list": {func() (float64, error) { _, err := RankList([]int32{4, 4}, nil); return 0, err },
			ErrTarget, "list[0] and list[1] are both 4"},
		"repeated in links": {func() (float64, error) { _, err := RankList(nil, []int32{4, 4}); return 0, err },
			ErrTarget, "linked[0] and linked[1] are both 4"},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := c.f()
			refused(t, name, x, err, c.want, c.says)
		})
	}
}

func rankScores(scores []float64, linked []int32) func() (float64, error) {
	return func() (float64, error) { _, err := RankScores(scores, linked); return 0, err }
}

// Ranking by scores agrees with sorting the scores and looking the links up in the list.
func TestRankingProperties(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			n := 1 + r.IntN(30)
			fields := make([]uint16, n)
			for j := range fields {
				fields[j] = uint16(r.IntN(4))
			}
			var byScore, byList Ranking
			var lists Lists
			for range 1 + r.IntN(5) {
				scores := make([]float64, n)
				for j := range scores {
					scores[j] = float64(r.IntN(10))
				}
				linked := somePermuted(r, n, r.IntN(n+1))
				list := sorted(scores)
				lists = append(lists, list)
				byScore = append(byScore, must(RankScores(scores, linked))(t))
				byList = append(byList, must(RankList(list, linked))(t))
			}
			k := 1 + r.IntN(n+3)
			for metric, f := range map[string]func(Ranking) (float64, error){
				"MRR":       Ranking.MRR,
				"NDCG":      func(r Ranking) (float64, error) { return r.NDCG(k) },
				"recall":    func(r Ranking) (float64, error) { return r.Recall(k) },
				"mean rank": Ranking.MeanRank,
				"entropy":   func(r Ranking) (float64, error) { return r.FieldEntropy(fields, k) },
			} {
				x, err := f(byScore)
				y, errList := f(byList)
				if x != y || (err == nil) != (errList == nil) {
					t.Errorf("%s is %v (%v) by scores, %v (%v) by lists", metric, x, err, y, errList)
				}
				if err != nil {
					if !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrUndefined) {
						t.Errorf("%s: %v", metric, err)
					}
					continue
				}
				most := map[string]float64{"mean rank": float64(n), "entropy": math.Log(4) + 1e-12}[metric]
				bounded(t, metric, x, max(1, most))
				order := r.Perm(len(byScore))
				near(t, metric+" in another order", must(f(permuted(byScore, order)))(t), x)
			}
			// At a cutoff beyond the list, everything linked is found and everything is shown.
			if x, err := byScore.Recall(n); err == nil && x != 1 {
				t.Errorf("recall@%d is %v, want 1", n, x)
			}
			if x := must(lists.Coverage(n, n))(t); x != 1 {
				t.Errorf("coverage@%d is %v, want 1", n, x)
			}
			near(t, "Gini of whole lists", must(lists.FieldGini(fields, n))(t), 0)
			bounded(t, "Gini", must(lists.FieldGini(fields, k))(t), 1)
		})
	}
}

// somePermuted draws m of the targets 0 … n−1.
func somePermuted(r *rand.Rand, n, m int) []int32 {
	targets := make([]int32, m)
	for i, target := range r.Perm(n)[:m] {
		targets[i] = int32(target)
	}
	return targets
}

// sorted returns the targets by falling score, then rising number.
func sorted(scores []float64) []int32 {
	list := make([]int32, len(scores))
	for j := range list {
		list[j] = int32(j)
	}
	slices.SortStableFunc(list, func(a, b int32) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	return list
}

// FuzzRanking ranks arbitrary bits and checks the ranks against counting.
func FuzzRanking(f *testing.F) {
	f.Add([]byte{}, []byte{}, 1)
	f.Add(encodeFloats(.5, 1, .5, inf), []byte{0, 2}, 3)
	f.Add(encodeFloats(nan, 1), []byte{1, 1}, 0)
	f.Fuzz(func(t *testing.T, raw, links []byte, k int) {
		if len(raw) > 8*64 || len(links) > 64 {
			return // counting is quadratic
		}
		var scores []float64
		for ; len(raw) >= 8; raw = raw[8:] {
			scores = append(scores, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
		}
		linked, fields := make([]int32, len(links)), make([]uint16, len(links))
		for i, b := range links {
			linked[i], fields[i] = int32(int8(b)), uint16(b)
		}
		one, err := RankScores(scores, linked)
		if err != nil {
			return
		}
		for i, target := range linked {
			rank := 1
			for j, x := range scores {
				if x > scores[target] || x == scores[target] && j < int(target) {
					rank++
				}
			}
			if one.Ranks()[i] != rank {
				t.Fatalf("target %d has rank %d, want %d", target, one.Ranks()[i], rank)
			}
		}
		r, l, n := Ranking{one}, Lists{linked}, len(scores)
		for metric, f := range map[string]func() (float64, error){
			"MRR":      r.MRR,
			"NDCG":     func() (float64, error) { return r.NDCG(k) },
			"recall":   func() (float64, error) { return r.Recall(k) },
			"entropy":  func() (float64, error) { x, err := r.FieldEntropy(fields, k); return x / math.Log(64), err },
			"coverage": func() (float64, error) { return l.Coverage(n, k) },
			"Gini":     func() (float64, error) { return l.FieldGini(fields, k) },
		} {
			if x, err := f(); err == nil {
				bounded(t, metric, x, 1)
			}
		}
	})
}

func encodeFloats(xs ...float64) (raw []byte) {
	for _, x := range xs {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
	}
	return raw
}

func BenchmarkRankScores(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	scores := make([]float64, 20_000)
	for j := range scores {
		scores[j] = r.NormFloat64()
	}
	linked := somePermuted(r, len(scores), 20)
	for b.Loop() {
		if _, err := RankScores(scores, linked); err != nil {
			b.Fatal(err)
		}
	}
}
