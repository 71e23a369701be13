package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"unseen/hint"
)

// NegativeScheme is a way to choose the unlinked pairs of a sample.
type NegativeScheme uint8

// The schemes. Every one keeps all links of the universe, never takes a known link for an unlinked
// pair nor a pair twice, and knows the exact probability of each pair.
const (
	// Uniform takes every set of K unlinked pairs with the same chance: Rate = K / unlinked.
	// K is PerLink times the number of links, or all unlinked pairs if that is fewer.
	Uniform NegativeScheme = iota

	// FieldStratified draws uniformly within each pair of fields s (that of the source, that of the
	// target), half of the sample where the links are and half where the pairs are:
	//
	//	k_s = ⌈K·(½·links_s/links + ½·unlinked_s/unlinked)⌉, at most unlinked_s;  Rate = k_s/unlinked_s
	//
	// So field pairs with many links have many negatives, every field pair has one, and no weight
	// is more than twice that of Uniform. Rounding up adds at most one pair per field pair; a field
	// pair that has fewer than its k_s gives all, and the sample is that much smaller.
	FieldStratified

	// PopularityMatched draws so that targets occur among the negatives as often as among the
	// links, smoothed by one: of target j, an expected
	//
	//	e_j = min(unlinked_j, c·(links_j + 1)),  Σ e_j = K;  Rate = e_j/unlinked_j
	//
	// drawn uniformly from its unlinked sources, links_j being the links to j within the universe.
	// Each count is ⌊e_j⌋ or ⌈e_j⌉, rounded systematically from one random start, so its mean is e_j
	// and the sum of the weights, |U| on average, varies a little from draw to draw.
	PopularityMatched

	schemes
)

var schemeNames = [schemes]string{"uniform", "field", "popularity"}

// String returns the scheme's name, as ParseNegativeScheme reads it.
func (s NegativeScheme) String() string {
	if s < schemes {
		return schemeNames[s]
	}
	return fmt.Sprintf("NegativeScheme(%d)", uint8(s))
}

// ParseNegativeScheme returns the scheme of a name: uniform, field or popularity.
func ParseNegativeScheme(name string) (NegativeScheme, error) {
	if k := slices.Index(schemeNames[:], name); k >= 0 {
		return NegativeScheme(k), nil
	}
	return 0, fmt.Errorf("sampling scheme %q: %w; use one of %v", name, ErrSettings, schemeNames)
}

// SampleOptions say how to sample. Src is needed, the rest has defaults.
type SampleOptions struct {
	Scheme  NegativeScheme // zero means Uniform
	PerLink int            // unlinked pairs per link; zero means DefaultPerLink
	Src     rand.Source    // sources in the same state give the same sample
}

// DefaultPerLink is the number of unlinked pairs per link unless one is given.
const DefaultPerLink = 4

// SampleReport says what a sample holds and what it took to draw it.
type SampleReport struct {
	Links     int     // linked pairs: all of the universe
	Negatives int     // unlinked pairs
	Known     int     // times a known link was met and not taken for an unlinked pair
	Repeats   int     // times a pair was drawn that the sample already had
	Strata    int     // groups that were drawn from separately
	MaxWeight float64 // largest weight: how many pairs one pair stands for
}

// Sample returns all links of the universe and, for each, some unlinked pairs, grouped by source and
// ascending by target within it. Time and memory are O(nodes + links + sample), to which
// FieldStratified adds nodes × fields.
func Sample(g *Graph, u Universe, o SampleOptions) (*Pairs, SampleReport, error) {
	var none SampleReport
	switch {
	case o.Src == nil:
		return nil, none, fmt.Errorf("sampling pairs: %w: no source of randomness; set Src, such as to "+
			"rand.NewPCG(seed, 0)", ErrSettings)
	case o.Scheme >= schemes:
		return nil, none, fmt.Errorf("sampling pairs: %w: no scheme has number %d; use Uniform, FieldStratified "+
			"or PopularityMatched", ErrSettings, uint8(o.Scheme))
	case o.PerLink < 0:
		return nil, none, fmt.Errorf("sampling pairs: %w: %d unlinked pairs per link; give 1 or more, or 0 for %d",
			ErrSettings, o.PerLink, DefaultPerLink)
	case o.PerLink == 0:
		o.PerLink = DefaultPerLink
	}
	f, err := newFrame(g, u)
	if err != nil {
		return nil, none, err
	}
	if f.linked == 0 {
		return nil, none, fmt.Errorf("sampling pairs: %w among %d pairs; take more sources and targets",
			ErrNoLinks, f.pairs)
	}
	want := f.unlinked()
	if int64(o.PerLink) <= want/f.linked {
		want = int64(o.PerLink) * f.linked
	}
	if want > MaxPairs-f.linked {
		return nil, none, hint.Wrap(fmt.Errorf("sampling pairs: %w: %d links and %d unlinked pairs, the limit is %d",
			ErrTooManyPairs, f.linked, want, MaxPairs), "lower %v, or take fewer sources", hint.Setting("perLink"))
	}
	d := &draw{frame: f, want: want, random: rand.New(o.Src)}
	var rate func(*Pairs)
	switch o.Scheme {
	case Uniform:
		rate = d.uniform()
	case FieldStratified:
		if rate, err = d.byField(); err != nil {
			return nil, none, err
		}
	case PopularityMatched:
		rate = d.byPopularity()
	}
	sortKeys(d.keys)
	return d.join(rate), d.report, nil
}

// mostAllPairs is the limit of AllPairs unless one is given.
const mostAllPairs = 1 << 25

// AllPairs returns every ordered pair of the universe, each with weight and rate 1, grouped by source
// and ascending by target within it. It refuses more than limit pairs; zero or less means
// 2²⁵, which take 0.8 GB.
func AllPairs(g *Graph, u Universe, limit int) (*Pairs, error) {
	if limit <= 0 {
		limit = mostAllPairs
	}
	f, err := newFrame(g, u)
	if err != nil {
		return nil, err
	}
	if f.pairs > int64(min(limit, MaxPairs)) {
		return nil, fmt.Errorf("%w: the universe has %d, the limit is %d; use Sample, narrow the "+
			"universe, take a Subgraph, or raise the limit", ErrTooManyPairs, f.pairs, min(limit, MaxPairs))
	}
	p := newPairs(int(f.pairs), f.pairs)
	targets := slices.Sorted(slices.Values(f.targets))
	for _, i := range f.sources {
		links := g.Out(i)
		for _, j := range targets {
			for len(links) > 0 && links[0] < j {
				links = links[1:]
			}
			if i != j && f.admits(i, j) {
				p.add(i, j, len(links) > 0 && links[0] == j, 1, 1)
			}
		}
	}
	return p, nil
}

// draw is one sample in progress. Each scheme draws pairs and returns a function that sets their rates,
// in one go: looking up a rate misses the cache, and a short loop waits for many of them together.
type draw struct {
	*frame
	want   int64 // unlinked pairs asked for
	random *rand.Rand
	keys   []uint64 // unlinked pairs taken: source in the high half, target in the low
	flags  []bool   // which pairs of the batch are linked
	report SampleReport
}

// uniform draws from the whole universe at once.
func (d *draw) uniform() func(*Pairs) {
	d.take(d.block(d.sources, d.targets, d.candidates(d.targets)), d.want, d.unlinked())
	rate := ratio(d.want, d.unlinked())
	return func(p *Pairs) {
		for k := range p.Rate {
			p.Rate[k] = rate
		}
	}
}

// maxFieldPairs bounds the table of rates of byField.
const maxFieldPairs = 1 << 24

// byField draws from every pair of fields.
func (d *draw) byField() (func(*Pairs), error) {
	n := d.g.FieldCount()
	if n*n > maxFieldPairs {
		return nil, fmt.Errorf("sampling pairs by field: %d fields: %w for a rate per pair of fields; merge them "+
			"to %d or fewer", n, ErrTooLarge, int(math.Sqrt(maxFieldPairs)))
	}
	fields := d.g.Fields()
	linked := make([]int64, n*n)
	for i, j := range d.links() {
		linked[int(fields[i])*n+int(fields[j])]++
	}
	outside := make([]int64, n*n)
	for i, j := range d.outside() {
		outside[int(fields[i])*n+int(fields[j])]++
	}
	itself := make([]int64, n) // nodes that are source and target, and would meet themselves
	for _, i := range d.sources {
		if d.meetsItself(i) {
			itself[fields[i]]++
		}
	}
	sources, targets := d.g.groupByField(d.sources), d.g.groupByField(d.targets)
	d.keys = make([]uint64, 0, d.want+int64(filled(sources)*filled(targets)))
	rates := make([]float64, n*n)
	for to := range n {
		if len(targets[to]) == 0 {
			continue
		}
		count := d.candidates(targets[to])
		for from := range n {
			s := from*n + to
			b := d.block(sources[from], targets[to], count)
			unlinked := b.size() - linked[s] - outside[s]
			if from == to {
				unlinked -= itself[from]
			}
			take := int64(0)
			if unlinked > 0 {
				share := .5*ratio(linked[s], d.linked) + .5*ratio(unlinked, d.unlinked())
				take = min(unlinked, int64(math.Ceil(share*float64(d.want))))
			}
			d.take(b, take, unlinked)
			rates[s] = ratio(take, unlinked)
		}
	}
	return func(p *Pairs) {
		for k, j := range p.Target {
			p.Rate[k] = rates[int(fields[p.Source[k]])*n+int(fields[j])]
		}
	}, nil
}

// byPopularity draws from the sources of every target.
func (d *draw) byPopularity() func(*Pairs) {
	linked := make([]int64, d.g.Len())
	for _, j := range d.links() {
		linked[j]++
	}
	outside := make([]int64, d.g.Len())
	for _, j := range d.outside() {
		outside[j]++
	}
	meets := make([]int, len(d.targets)) // of target t, the sources are byRank[meets[t]:]
	unlinked := make([]int64, len(d.targets))
	before := 0
	for t, j := range d.targets {
		for d.order != nil && before < len(d.byRank) && !d.order.Precedes(j, d.byRank[before]) {
			before++
		}
		meets[t] = before
		unlinked[t] = int64(len(d.byRank)-before) - linked[j] - outside[j]
		if d.order == nil && d.isSource[j] {
			unlinked[t]--
		}
	}
	weight := func(t int) int64 { return linked[d.targets[t]] + 1 }
	c := fill(d.want, unlinked, weight)

	d.keys = make([]uint64, 0, d.want+1)
	rates := make([]float64, d.g.Len())
	rounding := d.random.Float64()
	var sources star
	for t, j := range d.targets {
		take, expected := unlinked[t], c*float64(weight(t))
		if rates[j] = 1; expected < float64(unlinked[t]) {
			rates[j] = expected / float64(unlinked[t])
			take = int64(expected)
			if rounding += expected - math.Floor(expected); rounding >= 1 {
				rounding--
				take++
			}
		}
		sources = star{d.byRank[meets[t]:], j, d.g.In(j), nil}
		if d.except != nil {
			sources.outside = d.except.In(j)
		}
		d.take(&sources, take, unlinked[t])
	}
	return func(p *Pairs) {
		for k, j := range p.Target {
			p.Rate[k] = rates[j]
		}
	}
}

// fill returns the c at which Σ min(room, c·weight) = want, or infinity when want is all the room.
// Each round settles those that are full; c only grows, so they stay full.
func fill(want int64, room []int64, weight func(t int) int64) float64 {
	open := make([]int, 0, len(room))
	total := int64(0)
	for t, r := range room {
		if r > 0 {
			open = append(open, t)
			total += weight(t)
		}
	}
	for len(open) > 0 {
		c := ratio(want, total)
		left := open[:0]
		for _, t := range open {
			if c*float64(weight(t)) < float64(room[t]) {
				left = append(left, t)
				continue
			}
			want -= room[t]
			total -= weight(t)
		}
		if len(left) == len(open) {
			return c
		}
		open = left
	}
	return math.Inf(1)
}

// stratum is a set of ordered pairs numbered from 0, with the linked and a node's own among them.
type stratum interface {
	size() int64
	resolve(numbers []uint64)           // turns ascending numbers into the keys of their pairs, in place
	links(flags []bool, pairs []uint64) // says which pairs of the stratum are linked or outside the universe
}

// block is the stratum of some sources with a prefix of some targets each, source by source.
type block struct {
	g, except        *Graph // except may be nil
	sources, targets []int32
	start            []int64 // of each source, the number of its first pair; one more than sources
}

// block makes a block in which source i meets the first count[i] targets.
func (f *frame) block(sources, targets, count []int32) *block {
	b := &block{f.g, f.except, sources, targets, make([]int64, len(sources)+1)}
	for k, i := range sources {
		met := len(targets)
		if f.order != nil {
			met = int(count[i])
		}
		b.start[k+1] = b.start[k] + int64(met)
	}
	return b
}

func (b *block) size() int64 { return b.start[len(b.sources)] }

func (b *block) resolve(numbers []uint64) {
	if len(numbers) == 0 {
		return
	}
	row := sort.Search(len(b.sources), func(r int) bool { return b.start[r+1] > int64(numbers[0]) })
	for x, number := range numbers {
		k := int64(number)
		for b.start[row+1] <= k {
			row++
		}
		numbers[x] = key(b.sources[row], b.targets[k-b.start[row]])
	}
}

// links looks up rows first and what is in them then, so that the lookups wait for memory together: a
// search goes where the row sends it, and the processor cannot guess that ahead.
func (b *block) links(flags []bool, pairs []uint64) {
	const together = 64
	var targets [together][]int32
	var first [together]int32
	for len(pairs) > 0 {
		batch := pairs[:min(together, len(pairs))]
		for k, pair := range batch {
			i, _ := nodes(pair)
			targets[k] = b.g.Out(i)
		}
		for k := range batch {
			if first[k] = -1; len(targets[k]) > 0 {
				first[k] = targets[k][0]
			}
		}
		for k, pair := range batch {
			i, j := nodes(pair)
			flags[k] = first[k] == j || contains(targets[k], j) || b.except != nil && b.except.HasLink(i, j)
		}
		pairs, flags = pairs[len(batch):], flags[len(batch):]
	}
}

// star is the stratum of some sources with one target.
type star struct {
	sources []int32
	target  int32
	linked  []int32 // the target's sources
	outside []int32 // sources whose pairs with the target the universe leaves out
}

func (s *star) size() int64 { return int64(len(s.sources)) }

func (s *star) resolve(numbers []uint64) {
	for x, number := range numbers {
		numbers[x] = key(s.sources[number], s.target)
	}
}

func (s *star) links(flags []bool, pairs []uint64) {
	for k, pair := range pairs {
		i, _ := nodes(pair)
		flags[k] = contains(s.linked, i) || contains(s.outside, i)
	}
}

// take adds to the keys n of a stratum's free pairs, every set of n with the same chance. A pair is
// free if it is of two different nodes and not linked; free is the number of those.
func (d *draw) take(s stratum, n, free int64) {
	if n == 0 {
		return
	}
	d.report.Strata++
	d.keys = slices.Grow(d.keys, int(n))
	// Where draws would often fail, going through all pairs costs no more than the sample: there
	// are at most four per pair taken, or two per link or node.
	if s.size() <= 4*n || free <= s.size()/2 {
		d.selectFrom(s, n, free)
	} else {
		d.reject(s, n)
	}
}

// selectFrom goes through the stratum once and takes each free pair with the chance that still
// leaves every set of n equally likely (Fan, Muller and Rezucha, 1962).
func (d *draw) selectFrom(s stratum, n, free int64) {
	var batch [1024]uint64
	for first := int64(0); n > 0; first += int64(len(batch)) {
		numbers := batch[:min(int64(len(batch)), s.size()-first)]
		for k := range numbers {
			numbers[k] = uint64(first) + uint64(k)
		}
		s.resolve(numbers)
		for _, pair := range d.free(s, numbers) {
			if d.random.Int64N(free) < n {
				d.keys = append(d.keys, pair)
				n--
			}
			free--
		}
	}
}

// reject draws as many pairs as are missing, leaves out those that are repeated or not free, and
// again. That is the same as drawing them one by one, but looks them up in order.
func (d *draw) reject(s stratum, n int64) {
	taken := d.keys[len(d.keys):]
	for int64(len(taken)) < n {
		numbers := taken[len(taken):n]
		for k := range numbers {
			numbers[k] = d.random.Uint64N(uint64(s.size()))
		}
		sortKeys(numbers)
		fresh := slices.Compact(numbers)
		d.report.Repeats += len(numbers) - len(fresh)
		s.resolve(fresh)
		fresh = d.free(s, fresh)
		sortKeys(fresh)
		taken = d.merge(taken, fresh)
	}
	d.keys = d.keys[:len(d.keys)+len(taken)]
}

// free keeps the pairs that are of two nodes and not linked, in place.
func (d *draw) free(s stratum, pairs []uint64) []uint64 {
	d.flags = slices.Grow(d.flags[:0], len(pairs))[:len(pairs)]
	s.links(d.flags, pairs)
	kept := pairs[:0]
	for k, pair := range pairs {
		if i, j := nodes(pair); i == j {
			continue
		}
		if d.flags[k] {
			d.report.Known++
			continue
		}
		kept = append(kept, pair)
	}
	return kept
}

// merge adds to the sorted taken what it does not yet have of the sorted and distinct fresh, which
// lie right behind it in one array.
func (d *draw) merge(taken, fresh []uint64) []uint64 {
	if len(taken) == 0 {
		return fresh
	}
	var missing []uint64
	t := 0
	for _, pair := range fresh {
		for t < len(taken) && taken[t] < pair {
			t++
		}
		if t < len(taken) && taken[t] == pair {
			d.report.Repeats++
		} else {
			missing = append(missing, pair)
		}
	}
	merged := taken[:len(taken)+len(missing)]
	for w, t, m := len(merged)-1, len(taken)-1, len(missing)-1; m >= 0; w-- {
		if t >= 0 && merged[t] > missing[m] {
			merged[w] = merged[t]
			t--
		} else {
			merged[w] = missing[m]
			m--
		}
	}
	return merged
}

// join makes one sample of the links and the drawn keys, both sorted.
func (d *draw) join(rate func(*Pairs)) *Pairs {
	n := int(d.linked) + len(d.keys)
	d.report.Links, d.report.Negatives = int(d.linked), len(d.keys)
	p := &Pairs{Source: make([]int32, n), Target: make([]int32, n), Linked: make([]bool, n), Universe: d.pairs}
	k, keys := 0, d.keys
	for i, j := range d.links() {
		for link := key(i, j); len(keys) > 0 && keys[0] < link; keys = keys[1:] {
			p.Source[k], p.Target[k] = nodes(keys[0])
			k++
		}
		p.Source[k], p.Target[k], p.Linked[k] = i, j, true
		k++
	}
	for _, pair := range keys {
		p.Source[k], p.Target[k] = nodes(pair)
		k++
	}
	d.keys, d.flags = nil, nil // weights and rates need as much memory again as all of the above
	p.Weight, p.Rate = make([]float64, n), make([]float64, n)
	rate(p)
	for k, linked := range p.Linked {
		if p.Weight[k] = 1; !linked {
			p.Weight[k] = 1 / p.Rate[k]
		}
		d.report.MaxWeight = max(d.report.MaxWeight, p.Weight[k])
	}
	return p
}

// key is a pair as a number, ascending by source and then by target; nodes takes it apart.
func key(i, j int32) uint64 { return uint64(i)<<32 | uint64(j) }

func nodes(key uint64) (i, j int32) { return int32(key >> 32), int32(key) }

// groupByField lists nodes by field and keeps their order within one.
func (g *Graph) groupByField(nodes []int32) [][]int32 {
	groups := make([][]int32, g.FieldCount())
	for _, i := range nodes {
		groups[g.fields[i]] = append(groups[g.fields[i]], i)
	}
	return groups
}

// filled counts the groups that are not empty.
func filled(groups [][]int32) int {
	n := 0
	for _, group := range groups {
		if len(group) > 0 {
			n++
		}
	}
	return n
}

// ratio is a/b, or 1 where there is nothing to take from: were there a pair, it would be taken.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}
