package exchange

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"unseen/internal/kern"
	"unseen/internal/pickle"
)

func init() {
	Register(Format{
		Name:    "paper-pickle",
		Summary: "Pickles released with the paper on exposure bias (ICML 2021)",
		Args:    "PATH…",
		Help: `Paths are pickles of "Correcting Exposure Bias for Link Recommendation", or
folders of them (.pkl, .pickle), plain, gzip or zstd. They are read without
running them. Which one a file is, its shape tells:

  semi_synthetic_data.pkl           (training, validation, test), each a list
                                    of {"paper_citer": …, "paper_cited": …},
                                    tensors of indices of papers
  semi_synthetic_data_metadata.pkl  (weights, papers, index → id, id → record
                                    with tokens and fos)
  nodes_to_scibert_embedding_*.pkl  id → vector
  train_nodes.pkl, …                list of ids

That is how the authors' notebooks read them; the files themselves were not at
hand to try it on. --key gives other names, as in
--key source=paper_citer,target=paper_cited,tokens=tokens,field=fos.

All pairs become exposures, and those that were observed become links. Where
the batches have is_citation_gt, is_citation, exposure and propensity (for
--key: true, link, exposed, shown), these are taken. Else they are drawn as the
notebook draws them, to the same values: a field per paper, π per pair of
fields, exposure, and a link with probability σ(w·(h_i∘h_j)+b). The notebook
draws exposure and link from the same random numbers, which makes them
dependent; --draw-seed draws them afresh and independently.

Without pairs the nodes are those of the lists, else all with records or
vectors, and there are no links: those of the real data are in MAG itself.`,
		Flags: []Flag{
			{Name: "key", Usage: "other `NAMES` of keys, as source=a,target=b"},
			{Name: "links", Usage: "`WHICH` to make: true, or observed as by default"},
			{Name: "fields", Usage: "`WHICH` fields: given, or simulated as by default"},
			{Name: "draw-seed", Usage: "draw exposures and links apart, from this `SEED`"},
		},
		Import: importPaperPickle,
	})
}

// paperKeys are the keys of a batch and of a record, by what they mean.
var paperKeys = map[string]string{
	"source": "paper_citer", "target": "paper_cited", "true": "is_citation_gt", "link": "is_citation",
	"exposed": "exposure", "shown": "propensity",
	"tokens": "tokens", "field": "fos",
}

// paperRelease is what the pickles hold together.
type paperRelease struct {
	o     Options
	keys  map[string]string
	pairs *paperPairs

	weights []float32 // of the link model
	bias    float32
	ids     map[int64]int64 // of papers by index; nil means that indices are ids
	records map[int64]*pickle.Object
	vectors map[int64]*pickle.Array
	listed  []int64 // ids of lists of nodes
	close   []func() error
}

// paperPairs are columns over all pairs; those that the files do not have are nil.
type paperPairs struct {
	source, target []int64
	parts          []int // where the training, validation and test pairs end
	truth, link    []float64
	exposed, shown []float64
	at             []Place
	ends           []int // of batches, for at
}

func importPaperPickle(ctx context.Context, o Options, s Sink) error {
	files, err := filesUnder(o.Paths, "pickles (.pkl or .pickle)", func(path string) bool {
		name := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(path), ".gz"), ".zst")
		return strings.HasSuffix(name, ".pkl") || strings.HasSuffix(name, ".pickle")
	})
	if err != nil {
		return err
	}
	r := &paperRelease{o: o, keys: map[string]string{}}
	for meaning, key := range paperKeys {
		r.keys[meaning] = key
	}
	for part := range strings.SplitSeq(o.Flag("key"), ",") {
		meaning, key, ok := strings.Cut(strings.TrimSpace(part), "=")
		if part == "" {
			continue
		}
		if _, known := paperKeys[meaning]; !ok || !known || key == "" {
			return Wrong(Place{}, fmt.Errorf("%w: --key %.80q", ErrUsage, part),
				"write MEANING=KEY, with source, target, true, link, exposed, shown, tokens or field as MEANING")
		}
		r.keys[meaning] = key
	}
	for flag, allowed := range map[string][]string{"links": {"", "observed", "true"},
		"fields": {"", "given", "simulated"}} {
		if !slices.Contains(allowed, o.Flag(flag)) {
			return Wrong(Place{}, fmt.Errorf("%w: --%s %.40q", ErrUsage, flag, o.Flag(flag)), "give "+
				strings.Trim(strings.Join(allowed, " or "), " or"))
		}
	}
	defer func() {
		for _, f := range r.close {
			f()
		}
	}()
	for _, path := range files {
		if err := r.load(ctx, path, s); err != nil {
			return err
		}
	}
	if r.pairs == nil {
		return r.nodesAlone(ctx, s)
	}
	return r.everything(ctx, s)
}

// load reads one pickle and finds out what it is.
func (r *paperRelease) load(ctx context.Context, path string, s Sink) error {
	data, err := r.bytes(ctx, path)
	if err != nil {
		return err
	}
	at := Place{File: path}
	value, _, err := pickle.Decode(data, pickle.Limits{})
	if err != nil {
		return Wrong(at, fmt.Errorf("%w: %v", ErrFormat, err),
			"download it again; only pickles of plain values and arrays are read")
	}
	if r.o.Progress != nil {
		r.o.Progress(Step{File: path, Done: 1})
	}
	parts := itemsOf(value)
	switch {
	case len(parts) == 4 && isMap(parts[3]):
		return r.metadata(parts, at)
	case len(parts) > 0 && len(itemsOf(parts[0])) > 0 && isMap(itemsOf(parts[0])[0]):
		return r.addPairs(parts, at, s)
	case len(parts) > 0 && isMap(parts[0]):
		return r.addPairs([]any{value}, at, s)
	}
	if d, is := value.(*pickle.Dict); is && len(d.Keys) > 0 {
		if _, is := d.Keys[0].(string); is {
			return r.addPairs([]any{&pickle.List{Items: []any{value}}}, at, s)
		}
		return r.addVectors(d, at, s)
	}
	if ids, err := wholes(value); err == nil {
		r.listed = append(r.listed, ids...)
		return nil
	}
	return Wrong(at, fmt.Errorf("%w: it is %s", ErrFormat, pickle.Describe(value)),
		"give pairs (a tuple of lists of dicts), metadata (a tuple of four), vectors (a dict from ids to "+
			"arrays) or ids (a list)")
}

// bytes maps a file, or expands it into memory.
func (r *paperRelease) bytes(ctx context.Context, path string) ([]byte, error) {
	source, err := OpenSource(ctx, path, r.o)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if packed := len(source.closers) > 0; packed {
		return io.ReadAll(source)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, Wrong(Place{File: path}, bare(err), "ask for the right to read it")
	}
	defer file.Close()
	data, unmap, err := kern.MapBytes(file)
	if err != nil {
		return nil, Wrong(Place{File: path}, err, "free memory, or copy the file to a disk of this machine")
	}
	r.close = append(r.close, unmap)
	return data, nil
}

func itemsOf(v any) []any {
	switch v := v.(type) {
	case *pickle.Tuple:
		return v.Items
	case *pickle.List:
		return v.Items
	case *pickle.Set:
		return v.Items
	case *pickle.Array:
		return v.Objects
	}
	return nil
}

func isMap(v any) bool { _, is := v.(*pickle.Dict); return is }

// wholes returns whole numbers of an array, a tensor, a list or a set.
func wholes(v any) ([]int64, error) {
	if a, is := v.(*pickle.Array); is && a.Objects == nil {
		return a.Int64s()
	}
	items := itemsOf(v)
	if _, list := v.(*pickle.List); items == nil && !list {
		return nil, fmt.Errorf("%s where whole numbers must be", pickle.Describe(v))
	}
	out := make([]int64, len(items))
	for k, item := range items {
		n, is := whole(item)
		if !is {
			return nil, fmt.Errorf("%s where a whole number must be", pickle.Describe(item))
		}
		out[k] = n
	}
	return out, nil
}

// whole is a number, also as an array of one.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case *pickle.Array:
		if v.Len() == 1 {
			if n, err := v.Int64s(); err == nil {
				return n[0], true
			}
		}
	}
	return 0, false
}

// numbers returns numbers of an array, a tensor or a list.
func numbers(v any) ([]float64, error) {
	if a, is := v.(*pickle.Array); is && a.Objects == nil {
		return a.Float64s()
	}
	var out []float64
	for _, item := range itemsOf(v) {
		switch x := item.(type) {
		case float64:
			out = append(out, x)
		case int64:
			out = append(out, float64(x))
		case bool:
			if x {
				out = append(out, 1)
			} else {
				out = append(out, 0)
			}
		case *pickle.Array:
			one, err := x.Float64s()
			if err != nil {
				return nil, err
			}
			out = append(out, one...)
		default:
			return nil, fmt.Errorf("%s where a number must be", pickle.Describe(item))
		}
	}
	return out, nil
}

const mendKey = "give its name with --key, as --key source=KEY,target=KEY"

// addPairs takes parts, lists of batches.
func (r *paperRelease) addPairs(parts []any, at Place, s Sink) error {
	if r.pairs != nil {
		return Wrong(at, fmt.Errorf("%w: there are pairs in another file too", ErrUsage), "import one at a time")
	}
	p := &paperPairs{}
	columns := map[string]*[]float64{"true": &p.truth, "link": &p.link, "exposed": &p.exposed, "shown": &p.shown}
	batch := 0
	for _, part := range parts {
		for _, item := range itemsOf(part) {
			batch++
			at.Line = batch
			reject := func(err error, mend string) error {
				return s.Reject(at, fmt.Errorf("%w: batch %d: %v", ErrFormat, batch, err), mend,
					[]byte(pickle.Describe(item)[:min(beginning, len(pickle.Describe(item)))]))
			}
			d, is := item.(*pickle.Dict)
			if !is {
				if err := reject(fmt.Errorf("it is %s where a dict must be", pickle.Describe(item)),
					mendKey); err != nil {
					return err
				}
				continue
			}
			var ends [2][]int64
			var fault error
			for k, meaning := range []string{"source", "target"} {
				v, found := d.Get(r.keys[meaning])
				if !found {
					// Nothing can come of it: the names are wrong, whatever the import forgives.
					return Wrong(at, fmt.Errorf("%w: there is no key %.40q; the keys are %s", ErrFormat,
						r.keys[meaning], keysOf(d)), mendKey)
				}
				var err error
				if ends[k], err = wholes(v); err != nil && fault == nil {
					fault = fmt.Errorf("%s: %w", r.keys[meaning], err)
				}
			}
			if fault == nil && len(ends[0]) != len(ends[1]) {
				fault = fmt.Errorf("%d sources and %d targets", len(ends[0]), len(ends[1]))
			}
			found := map[string][]float64{}
			for meaning := range columns {
				v, has := d.Get(r.keys[meaning])
				if !has || fault != nil {
					continue
				}
				x, err := numbers(v)
				if err == nil && len(x) != len(ends[0]) {
					err = fmt.Errorf("%d numbers for %d pairs", len(x), len(ends[0]))
				}
				if err != nil {
					fault = fmt.Errorf("%s: %w", r.keys[meaning], err)
				}
				found[meaning] = x
			}
			if fault != nil {
				if err := reject(fault, "mend the batch, or let such batches go with --lenient"); err != nil {
					return err
				}
				continue
			}
			for meaning, column := range columns {
				if _, has := found[meaning]; len(p.source) > 0 && has != (*column != nil) {
					return Wrong(at, fmt.Errorf("%w: some batches have the key %s and some have not", ErrFormat,
						r.keys[meaning]), "leave it away, or give it to all")
				}
				*column = append(*column, found[meaning]...)
			}
			p.source, p.target = append(p.source, ends[0]...), append(p.target, ends[1]...)
			p.at, p.ends = append(p.at, at), append(p.ends, len(p.source))
		}
		p.parts = append(p.parts, len(p.source))
	}
	if len(p.source) == 0 {
		return Wrong(Place{File: at.File}, fmt.Errorf("%w: no pairs", ErrFormat), "see that the file is whole")
	}
	r.pairs = p
	return nil
}

func keysOf(d *pickle.Dict) string {
	var names []string
	for k, key := range d.Keys {
		if k == 20 {
			names = append(names, "…")
			break
		}
		names = append(names, pickle.Describe(key))
	}
	return strings.Join(names, ", ")
}

// metadata takes (weights, papers, index → id, id → record). The papers are the keys of the records.
func (r *paperRelease) metadata(parts []any, at Place) error {
	fail := func(which string, v any) error {
		return Wrong(at, fmt.Errorf("%w: the %s of the metadata are %s", ErrFormat, which, pickle.Describe(v)),
			"give a tuple of weights, papers, a dict from indices to ids and a dict from ids to records")
	}
	w := itemsOf(parts[0])
	if len(w) < 2 {
		return fail("weights", parts[0])
	}
	weights, err := numbers(w[0])
	bias, err2 := numbers(w[1])
	if err != nil || err2 != nil || len(bias) != 1 {
		return fail("weights", parts[0])
	}
	r.weights = make([]float32, len(weights))
	for k, x := range weights {
		r.weights[k] = float32(x)
	}
	r.bias = float32(bias[0])
	r.ids = map[int64]int64{}
	switch ids := parts[2].(type) {
	case *pickle.Dict:
		for k, key := range ids.Keys {
			index, ok := whole(key)
			id, also := whole(ids.Values[k])
			if !ok || !also {
				return fail("indices", ids)
			}
			r.ids[index] = id
		}
	default:
		list, err := wholes(ids)
		if err != nil {
			return fail("indices", ids)
		}
		for index, id := range list {
			r.ids[int64(index)] = id
		}
	}
	r.records = map[int64]*pickle.Object{}
	records := parts[3].(*pickle.Dict)
	for k, key := range records.Keys {
		id, ok := whole(key)
		record, is := records.Values[k].(*pickle.Object)
		if attributes, plain := records.Values[k].(*pickle.Dict); plain {
			record, is = &pickle.Object{State: attributes}, true
		}
		if !ok || !is {
			return fail("records", records)
		}
		r.records[id] = record
	}
	return nil
}

func (r *paperRelease) addVectors(d *pickle.Dict, at Place, s Sink) error {
	if r.vectors == nil {
		r.vectors = make(map[int64]*pickle.Array, len(d.Keys))
	}
	for k, key := range d.Keys {
		at.Line = k + 1
		id, ok := whole(key)
		vector, is := d.Values[k].(*pickle.Array)
		if !ok || !is || vector.Objects != nil {
			err := s.Reject(at, fmt.Errorf("%w: it maps %s to %s", ErrFormat, pickle.Describe(key),
				pickle.Describe(d.Values[k])), "give a dict from ids to arrays of numbers", nil)
			if err != nil {
				return err
			}
			continue
		}
		r.vectors[id] = vector
	}
	return nil
}

// add makes a node of a paper, with its vector.
func (r *paperRelease) add(id int64, field string, s Sink, row *[]float32) (int32, error) {
	at := Place{File: strings.Join(r.o.Paths, " ")}
	n := Node{ID: strconv.FormatInt(id, 10), Field: field}
	if record := r.records[id]; record != nil {
		if v, found := record.Attribute(r.keys["tokens"]); found {
			n.Text = joined(v, " ", 1<<20)
		}
		if field == "" {
			if v, found := record.Attribute(r.keys["field"]); found {
				n.Field = joined(v, " ", 1)
			}
		}
	}
	i, err := s.Node(n, at)
	if err != nil || i < 0 {
		return i, err
	}
	v := r.vectors[id]
	if v == nil {
		return i, nil
	}
	if *row = slices.Grow((*row)[:0], v.Len())[:v.Len()]; len(*row) == 0 {
		return i, nil
	}
	if err := v.FillFloat32s(*row); err != nil {
		return i, s.Reject(at, fmt.Errorf("%w: the vector of %d: %v", ErrFormat, id, err),
			"save vectors of float16, 32 or 64", nil)
	}
	return i, s.Vector(i, *row, at)
}

// joined joins the first texts of a list or a set. Those of a set are sorted, for it has no order.
func joined(v any, between string, most int) string {
	if one, is := v.(string); is {
		return one
	}
	var all []string
	for _, item := range itemsOf(v) {
		if w, is := item.(string); is {
			all = append(all, w)
		}
	}
	if _, set := v.(*pickle.Set); set {
		slices.Sort(all)
	}
	return strings.Join(all[:min(most, len(all))], between)
}

// nodesAlone makes a dataset of nodes without links.
func (r *paperRelease) nodesAlone(ctx context.Context, s Sink) error {
	if r.o.Flag("fields") == "simulated" {
		return Wrong(Place{}, fmt.Errorf("%w: --fields simulated without pairs", ErrUsage),
			"fields are simulated by the indices of pairs; leave it away")
	}
	ids := r.listed
	if len(ids) == 0 {
		for id := range r.records {
			ids = append(ids, id)
		}
		if len(ids) == 0 {
			for id := range r.vectors {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
	}
	var row []float32
	for k, id := range ids {
		if k%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := r.add(id, "", s, &row); err != nil {
			return err
		}
	}
	s.Note("The pickles hold nodes and no pairs, so there are no links: those are in MAG's PaperReferences.txt.")
	return nil
}

// everything makes nodes of all ends of pairs, in the order of their indices, which is that of time; then
// exposures and links.
func (r *paperRelease) everything(ctx context.Context, s Sink) error {
	p := r.pairs
	simulated := r.o.Flag("fields") != "given"
	indices := slices.Concat(p.source, p.target)
	slices.Sort(indices)
	indices = slices.Compact(indices)
	at := p.at[0]
	if indices[0] < 0 {
		return Wrong(Place{File: at.File}, fmt.Errorf("%w: a paper of index %d", ErrFormat, indices[0]),
			"see that the file is whole")
	}
	generator := newTwister(0)
	nodes, fields, ids := make(map[int64]int32, len(indices)), make(map[int64]int, len(indices)),
		make(map[int64]int64, len(indices))
	var row []float32
	vectored := 0
	for k, index := range indices {
		if k%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id := index
		if r.ids != nil {
			var known bool
			if id, known = r.ids[index]; !known {
				return Wrong(Place{File: at.File}, fmt.Errorf("%w: no paper has the index %d", ErrFormat, index),
					"give the metadata that belongs to these pairs")
			}
		}
		fields[index], ids[index] = paperField(generator, uint64(index)), id
		field := ""
		if simulated {
			field = paperFields[fields[index]]
		}
		i, err := r.add(id, field, s, &row)
		if err != nil {
			return err
		}
		nodes[index] = i
		if r.vectors[id] != nil {
			vectored++
		}
	}
	if len(r.vectors) > 0 && vectored == 0 {
		return Wrong(Place{File: at.File}, fmt.Errorf("%w: none of the vectors is of a paper of the pairs", ErrUsage),
			"give semi_synthetic_data_metadata.pkl too, which says which index is which paper")
	}
	if err := r.draw(s, fields, ids); err != nil {
		return err
	}
	wanted := p.link
	if r.o.Flag("links") == "true" {
		if wanted = p.truth; wanted == nil {
			return Wrong(Place{File: at.File}, fmt.Errorf("%w: the pairs do not say which links are true", ErrUsage),
				"leave --links true away, or name the key with --key true=KEY")
		}
	}
	batch := 0
	for k := range p.source {
		for k >= p.ends[batch] {
			batch++
		}
		from, to := nodes[p.source[k]], nodes[p.target[k]]
		if from < 0 || to < 0 || from == to {
			continue
		}
		linked := p.link[k] != 0
		if p.exposed != nil || p.shown != nil {
			e := Exposure{Source: strconv.FormatInt(ids[p.source[k]], 10), Target: strconv.FormatInt(ids[p.target[k]],
				10), Shown: math.NaN(), Linked: linked, Exposed: linked}
			if p.exposed != nil {
				e.Exposed = p.exposed[k] != 0
			}
			if p.shown != nil {
				e.Shown = p.shown[k]
			}
			if err := s.Exposure(e, p.at[batch]); err != nil {
				return err
			}
		}
		if wanted[k] != 0 {
			if err := s.LinkIndex(from, to, p.at[batch]); err != nil {
				return err
			}
		}
	}
	sizes, before := make([]string, len(p.parts)), 0
	for k, end := range p.parts {
		sizes[k], before = strconv.Itoa(end-before), end
	}
	s.Note("%d pairs in %d parts (%s); which part a pair was in is not kept.", len(p.source), len(p.parts),
		strings.Join(sizes, ", "))
	return nil
}

// draw makes the columns that the files do not have: π, exposures, true and observed links.
func (r *paperRelease) draw(s Sink, fields map[int64]int, ids map[int64]int64) error {
	p := r.pairs
	if p.link != nil {
		return nil
	}
	if p.truth != nil && p.exposed != nil {
		p.link = make([]float64, len(p.truth))
		for k := range p.link {
			p.link[k] = p.truth[k] * p.exposed[k]
		}
		return nil
	}
	at := Place{File: p.at[0].File}
	if r.weights == nil || len(r.vectors) == 0 {
		return Wrong(at, fmt.Errorf("%w: the pairs carry no links, which are drawn from the weights and the vectors",
			ErrUsage),
			"give semi_synthetic_data_metadata.pkl and nodes_to_scibert_embedding_1.pkl and _2.pkl too, or name "+
				"the key with --key link=KEY")
	}
	table := paperPropensities()
	if p.shown == nil {
		p.shown = make([]float64, len(p.source))
		for k := range p.shown {
			p.shown[k] = table[fields[p.source[k]]][fields[p.target[k]]]
		}
	}
	chance := make([]float64, len(p.source))
	left, right := make([]float32, len(r.weights)), make([]float32, len(r.weights))
	for k := range chance {
		for _, end := range []struct {
			index int64
			row   []float32
		}{{p.source[k], left}, {p.target[k], right}} {
			v := r.vectors[ids[end.index]]
			if v == nil {
				return Wrong(at, fmt.Errorf("%w: paper %d has no vector", ErrFormat, ids[end.index]),
					"give all files of vectors, nodes_to_scibert_embedding_1.pkl and _2.pkl")
			}
			if err := v.FillFloat32s(end.row); err != nil {
				return Wrong(at, fmt.Errorf("%w: the vector of %d: %v", ErrFormat, ids[end.index], err),
					"give vectors of the dimension of the weights")
			}
		}
		sum := float64(r.bias)
		for d, w := range r.weights {
			sum += float64(w) * float64(left[d]*right[d])
		}
		chance[k] = 1 / (1 + math.Exp(-sum))
	}
	var exposed, truth []bool
	if given := r.o.Flag("draw-seed"); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			return Wrong(Place{}, fmt.Errorf("%w: --draw-seed %.40q is no number", ErrUsage, given),
				"give a number from 0")
		}
		random := rand.New(rand.NewPCG(seed, paperSeed))
		for k := range chance {
			exposed, truth = append(exposed, random.Float64() < p.shown[k]), append(truth, random.Float64() < chance[k])
		}
		s.Note("Fields and π are the notebook's; exposures and links were drawn independently from seed %d.", seed)
	} else {
		before := 0
		for _, end := range p.parts {
			exposed = append(exposed, paperDraws(p.shown[before:end])...)
			truth = append(truth, paperDraws(chance[before:end])...)
			before = end
		}
		s.Note("Fields, π, exposures and links were drawn as the notebook does for data that is not shuffled. " +
			"It draws exposures and links from the same random numbers, so they depend on one another beyond " +
			"their probabilities; --draw-seed 1 draws them independently.")
	}
	p.exposed, p.truth, p.link = make([]float64, len(chance)), make([]float64, len(chance)),
		make([]float64, len(chance))
	for k := range chance {
		if exposed[k] {
			p.exposed[k] = 1
		}
		if truth[k] {
			p.truth[k] = 1
		}
		p.link[k] = p.exposed[k] * p.truth[k]
	}
	return nil
}
