package encode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"

	"unseen/internal/kern"
	"unseen/progress"
)

// Settings are the options of Fit. The zero value has the defaults.
type Settings struct {
	// Dim is the number of components. With 0 there are 256, or as many as the texts have.
	Dim int
	// TitleWeight is how many times a word of the title counts. 0 means 2; a negative number leaves titles out.
	TitleWeight float64
	// Bigrams counts pairs of neighbouring words as terms too.
	Bigrams bool
	// Buckets is how many buckets terms are hashed into, a power of 2 from 2¹⁰ to 2²⁶. 0 means 2²⁰.
	Buckets int
	// Terms is the maximum number of terms; those in the most documents are kept. 0 means 2¹⁶.
	Terms int
	// MinDocuments is the number of documents that a term must occur in. 0 means 2, and 1 where
	// there are fewer than 200.
	MinDocuments int
	// Sample is the maximum number of documents that components are learned from, evenly spaced;
	// terms are counted in all documents. 0 means 2¹⁸.
	Sample int
	// PowerIterations make the components more exact; 0 means 3.
	PowerIterations int
	Seed            uint64        // of the random search for components
	Threads         int           // 0 means all processors; results do not depend on it
	Progress        progress.Func // may be nil
}

const (
	defaultDim         = 256
	defaultTitleWeight = 2
	defaultBuckets     = 1 << 20
	defaultTerms       = 1 << 16
	defaultSample      = 1 << 18
	defaultIterations  = 3

	// smallCorpus is the number of documents below which a term in a single document counts.
	smallCorpus = 200
	// mostEntries bounds the memory of the matrix of documents and terms: 16 bytes each.
	mostEntries = 1 << 26
	largestDim  = 1 << 14
)

func (s *Settings) check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrSettings, fmt.Sprintf(format, a...))
	}
	switch {
	case s.Dim < 0 || s.Dim > largestDim:
		return bad("Dim is %d; give from 1 to %d", s.Dim, largestDim)
	case math.IsNaN(s.TitleWeight) || s.TitleWeight > 1000:
		return bad("TitleWeight is %v; give from 0 to 1000", s.TitleWeight)
	case s.Buckets != 0 && (s.Buckets < 1<<10 || s.Buckets > 1<<26 || bits.OnesCount(uint(s.Buckets)) != 1):
		return bad("Buckets is %d; give a power of 2 from 2¹⁰ to 2²⁶", s.Buckets)
	case s.Terms < 0 || s.MinDocuments < 0 || s.Sample < 0 || s.PowerIterations < 0 || s.Threads < 0:
		return bad("Terms %d, MinDocuments %d, Sample %d, PowerIterations %d and Threads %d; none can be negative",
			s.Terms, s.MinDocuments, s.Sample, s.PowerIterations, s.Threads)
	}
	s.Buckets = cmp.Or(s.Buckets, defaultBuckets)
	s.Terms = min(cmp.Or(s.Terms, defaultTerms), s.Buckets)
	s.Sample = cmp.Or(s.Sample, defaultSample)
	s.PowerIterations = cmp.Or(s.PowerIterations, defaultIterations)
	s.Threads = cmp.Or(s.Threads, runtime.GOMAXPROCS(0))
	if s.TitleWeight = cmp.Or(s.TitleWeight, defaultTitleWeight); s.TitleWeight < 0 {
		s.TitleWeight = 0
	}
	return nil
}

// LSA makes vectors of texts: it weights their terms and projects them on the components that Fit found.
// Many goroutines may use it at a time.
type LSA struct {
	titleWeight float64
	bigrams     bool
	buckets     int
	documents   int      // that it was learned from
	terms       []uint32 // the buckets that count, rising
	names       []string // of the terms: the commonest word in the bucket
	rarities    []float32
	projection  *kern.Matrix // terms × components, float16
	singular    []float32    // what the components carry, falling
}

// Summary is what Fit found.
type Summary struct {
	Documents int      `json:"documents"`
	Empty     int      `json:"empty"`     // documents without any term
	Sample    int      `json:"sample"`    // documents that the components were learned from
	Found     int      `json:"found"`     // buckets that hold a term
	Terms     int      `json:"terms"`     // those that count
	Dim       int      `json:"dimension"` // components
	Explained float64  `json:"explained"` // the share of the weighted terms' squares that the components carry
	Warnings  []string `json:"warnings"`
}

// Fit learns an encoder from documents. They are read twice, in order.
func Fit(ctx context.Context, docs Texts, s Settings) (*LSA, *Summary, error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	if docs.Len() > math.MaxInt32 {
		return nil, nil, fmt.Errorf("%w: %d documents; there can be %d", ErrTexts, docs.Len(), math.MaxInt32)
	}
	e := &LSA{titleWeight: s.TitleWeight, bigrams: s.Bigrams, buckets: s.Buckets, documents: docs.Len()}
	report := &Summary{Documents: docs.Len(), Warnings: []string{}}
	entries, err := e.choose(ctx, docs, &s, report)
	if err != nil {
		return nil, nil, err
	}
	a, err := e.weigh(ctx, docs, &s, entries, report)
	if err != nil {
		return nil, nil, err
	}
	v, singular, err := components(ctx, a, &s)
	if errors.Is(err, errNothing) {
		return nil, nil, fmt.Errorf("%w: no two of the %d sampled documents share a term; give more texts", ErrTexts,
			a.rows())
	}
	if err != nil {
		return nil, nil, err
	}
	defer v.Close()
	switch rank := v.Dim(); {
	case rank == 1:
		return nil, nil, fmt.Errorf("%w: all documents with terms are identical; give documents with different texts",
			ErrTexts)
	case s.Dim > rank:
		return nil, nil, fmt.Errorf("%w: Dim is %d, and %d documents with %d terms have %d components; give %d "+
			"or less, or leave it out", ErrDimension, s.Dim, a.rows(), len(e.terms), rank, rank)
	case s.Dim == 0 && rank < defaultDim:
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("the vectors have %d components instead of %d: %d documents with %d terms have no more", rank,
				defaultDim, a.rows(), len(e.terms)))
	}
	for _, x := range singular {
		e.singular = append(e.singular, float32(x))
	}
	report.Dim, report.Explained = v.Dim(), explained(a, singular)
	if e.projection, err = halved(v); err != nil {
		return nil, nil, err
	}
	return e, report, nil
}

// choose counts the documents of each bucket and selects the buckets to keep. It returns the number of
// their entries in all documents.
func (e *LSA) choose(ctx context.Context, docs Texts, s *Settings, report *Summary) (entries int, err error) {
	counters, frequency := make([]*counter, s.Threads), make([][]uint32, s.Threads)
	empty := make([]int, s.Threads)
	for w := range s.Threads {
		counters[w], frequency[w] = newCounter(s.Buckets, s.Bigrams), make([]uint32, s.Buckets)
	}
	err = inBatches(ctx, docs, 1, s.Threads, func(w, _ int, docs []Text) {
		for _, d := range docs {
			counted := e.titled(counters[w].count(d))
			for _, entry := range counted {
				frequency[w][entry.bucket]++
			}
			if len(counted) == 0 {
				empty[w]++
			}
		}
	}, func(batch int) error {
		s.Progress.Report(batchEvent("counting terms", batch, docs.Len()))
		return nil
	})
	if err != nil {
		return 0, err
	}
	all := frequency[0]
	for w := 1; w < s.Threads; w++ {
		for b, n := range frequency[w] {
			all[b] += n
		}
	}
	for _, n := range empty {
		report.Empty += n
	}
	switch full := docs.Len() - report.Empty; {
	case full == 0:
		return 0, fmt.Errorf("%w: none of the %d documents has a word; give them titles or texts", ErrTexts, docs.Len())
	case full == 1:
		return 0, fmt.Errorf("%w: only one of the %d documents has words; give more of them titles or texts", ErrTexts,
			docs.Len())
	}
	least := uint32(s.MinDocuments)
	if least == 0 {
		least = 2
		if docs.Len() < smallCorpus {
			least = 1
		}
	}
	for b, n := range all {
		if n > 0 {
			report.Found++
		}
		if n >= least {
			e.terms = append(e.terms, uint32(b))
		}
	}
	if len(e.terms) == 0 {
		return 0, fmt.Errorf("%w: no term is in %d documents or more; give more texts, or some that share words",
			ErrTexts, least)
	}
	slices.SortFunc(e.terms, func(a, b uint32) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	e.terms = e.terms[:min(len(e.terms), s.Terms):min(len(e.terms), s.Terms)]
	slices.Sort(e.terms)
	for _, b := range e.terms {
		entries += int(all[b])
		e.rarities = append(e.rarities, float32(rarity(all[b], docs.Len())))
	}
	report.Terms = len(e.terms)
	return entries, nil
}

// titled leaves out terms that only the title has where titles do not count.
func (e *LSA) titled(counted []entry) []entry {
	if e.titleWeight > 0 {
		return counted
	}
	return slices.DeleteFunc(counted, func(entry entry) bool { return entry.text == 0 })
}

// column returns the place of a bucket in terms; negative where it does not count.
func (e *LSA) column(bucket uint32) int32 {
	if k, counts := slices.BinarySearch(e.terms, bucket); counts {
		return int32(k)
	}
	return -1
}

// weigh builds the matrix of documents and their weighted terms, rows of length 1, and names the terms.
func (e *LSA) weigh(ctx context.Context, docs Texts, s *Settings, entries int, report *Summary) (*sparse,
	error) {
	stride := max((docs.Len()+s.Sample-1)/s.Sample, (entries+mostEntries-1)/mostEntries, 1)
	if stride > 1 {
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("the components were learned from every %dth document, to bound the memory", stride))
	}
	type part struct {
		lengths []int
		columns []int32
		values  []float32
		votes   map[int32]*vote
	}
	counters := make([]*counter, s.Threads)
	for w := range counters {
		counters[w] = newCounter(s.Buckets, s.Bigrams)
	}
	count := (docs.Len() + stride - 1) / stride
	parts := make([]part, (count+batchSize-1)/batchSize)
	a := &sparse{starts: make([]int, 1, count+1), width: len(e.terms)}
	votes := make([]vote, len(e.terms))
	err := inBatches(ctx, docs, stride, s.Threads, func(w, batch int, docs []Text) {
		p := part{votes: map[int32]*vote{}}
		c := counters[w]
		c.seen = func(bucket uint32, term []byte) {
			if column := e.column(bucket); column >= 0 {
				v := p.votes[column]
				if v == nil {
					v = new(vote)
					p.votes[column] = v
				}
				v.cast(term)
			}
		}
		for _, d := range docs {
			before := len(p.columns)
			p.columns, p.values = e.weights(p.columns, p.values, c.count(d))
			p.lengths = append(p.lengths, len(p.columns)-before)
		}
		parts[batch] = p
	}, func(batch int) error {
		p := &parts[batch]
		for _, n := range p.lengths {
			a.starts = append(a.starts, a.starts[len(a.starts)-1]+n)
		}
		a.columns, a.values = append(a.columns, p.columns...), append(a.values, p.values...)
		for column, v := range p.votes {
			votes[column].merge(*v)
		}
		*p = part{}
		s.Progress.Report(batchEvent("weighing terms", batch, count))
		return nil
	})
	if err != nil {
		return nil, err
	}
	report.Sample = a.rows()
	e.names = make([]string, len(votes))
	for k, v := range votes {
		e.names[k] = v.name
	}
	return a, nil
}

// vote finds the commonest term of a bucket in little memory (Boyer and Moore, 1981): a term in more than
// half of the votes wins.
type vote struct {
	name string
	lead int
}

func (v *vote) cast(term []byte) {
	switch {
	case v.lead == 0:
		v.name, v.lead = string(term), 1
	case v.name == string(term):
		v.lead++
	default:
		v.lead--
	}
}

func (v *vote) merge(other vote) {
	switch {
	case v.name == other.name:
		v.lead += other.lead
	case other.lead > v.lead || v.name == "":
		*v = vote{other.name, other.lead - v.lead}
	default:
		v.lead -= other.lead
	}
}

// weights appends the columns and weights of counted terms that count: (1 + log tf)·rarity, of length 1.
func (e *LSA) weights(columns []int32, values []float32, counted []entry) ([]int32, []float32) {
	first := len(values)
	var squares float64
	for _, c := range counted {
		column := e.column(c.bucket)
		if column < 0 {
			continue
		}
		w := weight(c, e.titleWeight)
		if w == 0 {
			continue
		}
		x := float32(w) * e.rarities[column]
		squares += float64(x) * float64(x)
		columns, values = append(columns, column), append(values, x)
	}
	if squares > 0 {
		scale := float32(1 / math.Sqrt(squares))
		for k := first; k < len(values); k++ {
			values[k] *= scale
		}
	}
	return columns, values
}

// halved stores a matrix as float16, scaled by a power of 2 such that small numbers keep their digits: vectors
// are brought to length 1 in the end.
func halved(v *kern.Matrix) (*kern.Matrix, error) {
	largest := float32(0)
	for i := range v.Rows() {
		for _, x := range v.Row(i) {
			largest = max(largest, abs(x))
		}
	}
	_, exponent := math.Frexp(float64(largest))
	scale := float32(math.Ldexp(1, 10-exponent))
	half, err := kern.NewHalf(v.Rows(), v.Dim())
	if err != nil {
		return nil, err
	}
	row := make([]float32, v.Dim())
	for i := range v.Rows() {
		for k, x := range v.Row(i) {
			row[k] = x * scale
		}
		half.Store(i, row)
	}
	return half, nil
}

// Dim returns the number of components of a vector.
func (e *LSA) Dim() int { return e.projection.Dim() }

// Close frees the memory. The encoder must not be used afterwards.
func (e *LSA) Close() error { return e.projection.Close() }

// Encode returns the vector of a document, of length 1. One without any term that the encoder knows has a
// vector of zeros, and known is false. It takes a fraction of a millisecond.
func (e *LSA) Encode(d Text) (vector []float32, known bool) {
	vector = make([]float32, e.Dim())
	return vector, e.newWork().encode(vector, d)
}

// work is the scratch of one goroutine.
type work struct {
	e       *LSA
	counter *counter
	columns []int32
	values  []float32
}

func (e *LSA) newWork() *work { return &work{e: e, counter: newCounter(e.buckets, e.bigrams)} }

func (w *work) encode(vector []float32, d Text) bool {
	w.columns, w.values = w.e.weights(w.columns[:0], w.values[:0], w.counter.count(d))
	clear(vector)
	kern.AddRows(vector, w.e.projection, w.columns, w.values)
	return normalise(vector) > 0
}

// normalise scales a vector to length 1 and returns its length before; a vector of zeros stays.
func normalise(vector []float32) float64 {
	var squares float64
	for _, x := range vector {
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return 0
	}
	length := math.Sqrt(squares)
	for k, x := range vector {
		vector[k] = float32(float64(x) / length)
	}
	return length
}

// EncodeAll stores the vector of every document, in order, and returns how many have none of the terms
// that the encoder knows: theirs are zeros. The vectors are those of Encode, to the bit.
func (e *LSA) EncodeAll(ctx context.Context, docs Texts, rows Rows, threads int,
	report progress.Func) (unknown int, err error) {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	works := make([]*work, threads)
	for w := range works {
		works[w] = e.newWork()
	}
	type part struct {
		vectors []float32
		unknown int
	}
	parts := make([]part, (docs.Len()+batchSize-1)/batchSize)
	dim := e.Dim()
	err = inBatches(ctx, docs, 1, threads, func(w, batch int, docs []Text) {
		p := &parts[batch]
		p.vectors = make([]float32, len(docs)*dim)
		for k, d := range docs {
			if !works[w].encode(p.vectors[k*dim:(k+1)*dim], d) {
				p.unknown++
			}
		}
	}, func(batch int) error {
		p := &parts[batch]
		for k := range len(p.vectors) / dim {
			if err := rows.Set(int32(batch*batchSize+k), p.vectors[k*dim:(k+1)*dim]); err != nil {
				return err
			}
		}
		unknown += p.unknown
		*p = part{}
		report.Report(batchEvent("encoding", batch, docs.Len()))
		return nil
	})
	return unknown, err
}
