package model

// Batch is a list of ordered pairs, (Sources[k], Targets[k]). Where consecutive pairs share their
// source, models read its vector once; so the last bits of a logit may depend on its neighbours in
// the batch, but never on goroutines.
type Batch struct{ Sources, Targets []int32 }

// Len returns the number of pairs.
func (b Batch) Len() int { return len(b.Sources) }

// slice returns the pairs from ≤ k < to.
func (b Batch) slice(from, to int) Batch { return Batch{b.Sources[from:to], b.Targets[from:to]} }

// run is a stretch of pairs, from ≤ k < to.
type run struct{ from, to int }

// runs yields the stretches of pairs with one source.
func (b Batch) runs(yield func(source int32, r run) bool) {
	for from := 0; from < len(b.Sources); {
		to := from + 1
		for to < len(b.Sources) && b.Sources[to] == b.Sources[from] {
			to++
		}
		if !yield(b.Sources[from], run{from, to}) {
			return
		}
		from = to
	}
}

// longRun is the mean run from which a query per source is faster. Pair by pair the source's row is
// read again, but from the cache nearest to the processor; making a query of it costs as much as
// some tens of pairs.
const longRun = 64

// grouped reports whether the pairs share sources often enough for going source by source.
func (b Batch) grouped() bool {
	most := len(b.Sources) / longRun
	runs := 0
	for k := range b.Sources {
		if k == 0 || b.Sources[k] != b.Sources[k-1] {
			if runs++; runs > most {
				return false
			}
		}
	}
	return runs > 0
}

// block is how many pairs or runs go through a block product at a time: a multiple of every tile's
// height, few enough for their rows to stay in the second-level cache.
const block = 48

// runBlocks yields the runs, at most a block of them at a time.
func (b Batch) runBlocks(yield func(runs []run) bool) {
	var room [block]run
	count := 0
	for _, r := range b.runs {
		room[count] = r
		if count++; count == block {
			if !yield(room[:count]) {
				return
			}
			count = 0
		}
	}
	if count > 0 {
		yield(room[:count])
	}
}
