package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/fit"
	"unseen/model"
)

// CandidateBlock is some of a graph's targets, with sources that have candidates elsewhere too. The counts of all
// blocks, added up, are the ranks that [Candidates.Rank] finds, and their lists, joined by [MergeFirst], are its lists:
// scores do not depend on which other targets are in the block.
type CandidateBlock struct {
	Nodes   model.Nodes // the sources, and then the targets; the numbers of the targets ascend
	Sources int
	// Order, unless nil, is the rank of every node: candidates come before their source.
	Order []int32
	// Except are the numbers of targets that are no candidates, by source, ascending. A source is none of its own.
	Except [][]int32
}

// LinkScore is a target with what it is ranked by.
type LinkScore struct {
	Target int32   `json:"target"` // its number
	Score  float32 `json:"score"`
}

// BlockCount is what a block adds to the standing of a source.
type BlockCount struct {
	Ranks []int       `json:"ranks"` // of its links: how many candidates are not behind them, themselves included
	First []LinkScore `json:"first"` // the first of the block, best first
}

// Scores returns what the links of every source are ranked by, those to targets of the block: by s.By and by source.
func (b CandidateBlock) Scores(ctx context.Context, j *fit.Judge, links [][]int32, s RankSettings) ([][][]LinkScore,
	error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	targets := b.Nodes.Numbers[b.Sources:]
	out := make([][][]LinkScore, len(s.By))
	for k := range out {
		out[k] = make([][]LinkScore, b.Sources)
	}
	return out, b.each(ctx, j, s, func(source, k int, room *scorerRoom) error {
		out[k][source] = []LinkScore{}
		for _, target := range links[source] {
			if at, is := slices.BinarySearch(targets, target); is {
				out[k][source] = append(out[k][source], LinkScore{target, room.scores[b.Sources+at]})
			}
		}
		return nil
	})
}

// Count counts the candidates of every source that are not behind its links, of all blocks, and finds the first of
// this one: by s.By and by source, as links has them too.
func (b CandidateBlock) Count(ctx context.Context, j *fit.Judge, links [][][]LinkScore, s RankSettings) (
	[][]BlockCount, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	targets := b.Nodes.Numbers[b.Sources:]
	out := make([][]BlockCount, len(s.By))
	for k := range out {
		out[k] = make([]BlockCount, b.Sources)
	}
	return out, b.each(ctx, j, s, func(source, k int, room *scorerRoom) error {
		scores := room.scores[b.Sources:]
		b.exclude(scores, source)
		ranks, err := room.bins.count(scores, targets, links[k][source], s.First)
		if err != nil {
			return fmt.Errorf("source %d: %w", b.Nodes.Numbers[source], err)
		}
		one := BlockCount{Ranks: ranks, First: []LinkScore{}}
		for _, hit := range room.bins.list {
			one.First = append(one.First, LinkScore{targets[hit.Row], hit.Score})
		}
		out[k][source] = one
		return nil
	})
}

// each scores the nodes for every source.
func (b CandidateBlock) each(ctx context.Context, j *fit.Judge, s RankSettings,
	visit func(source, by int, room *scorerRoom) error) error {
	w, err := newScorer(b.Nodes, j, min(rankedTogether, b.Sources), s.Threads)
	if err != nil {
		return err
	}
	sources := make([]int32, b.Sources)
	for k := range sources {
		sources[k] = int32(k)
	}
	return w.each(ctx, sources, s, visit)
}

// exclude puts every target of the block that is no candidate of a source last.
func (b CandidateBlock) exclude(scores []float32, source int) {
	none, targets := float32(math.Inf(-1)), b.Nodes.Numbers[b.Sources:]
	if at, is := slices.BinarySearch(targets, b.Nodes.Numbers[source]); is {
		scores[at] = none
	}
	for _, target := range b.Except[source] {
		if at, is := slices.BinarySearch(targets, target); is {
			scores[at] = none
		}
	}
	if b.Order != nil {
		for at := range scores {
			if b.Order[b.Sources+at] >= b.Order[source] {
				scores[at] = none
			}
		}
	}
}

// MergeFirst joins the first of two blocks, each best first, into the first k of both.
func MergeFirst(a, b []LinkScore, k int) []LinkScore {
	both := append(slices.Clone(a), b...)
	slices.SortFunc(both, func(a, b LinkScore) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Target, b.Target))
	})
	return both[:min(k, len(both))]
}
