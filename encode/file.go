package encode

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"unseen/internal/kern"
	"unseen/internal/safetensors"
)

// Kind is the built-in encoder's name in a dataset's manifest.
const Kind = "builtin"

// The keys of an encoder file's metadata, and its tensors.
const (
	KeyFormat  = "format" // always "unseen-encoder"
	KeyVersion = "format_version"
	KeyKind    = "kind"

	// FormatName and FormatVersion are the values of the first two.
	FormatName    = "unseen-encoder"
	FormatVersion = "1"

	keyTokeniser   = "tokeniser"
	keyBuckets     = "buckets"
	keyBigrams     = "bigrams"
	keyTitleWeight = "title_weight"
	keyDocuments   = "documents"

	tensorTerms      = "terms"      // I32 [terms], buckets
	tensorNames      = "names"      // U8, a line per term
	tensorRarities   = "rarities"   // F32 [terms]
	tensorProjection = "projection" // F16 [terms, components]
	tensorSingular   = "singular"   // F32 [components]
)

// Write writes the encoder as a safetensors file. The same encoder gives the same bytes.
func (e *LSA) Write(w io.Writer) error {
	terms := make([]int32, len(e.terms))
	projection := make([]uint16, 0, len(e.terms)*e.Dim())
	for k, b := range e.terms {
		terms[k] = int32(b)
		projection = append(projection, e.projection.HalfRow(k)[:e.Dim()]...)
	}
	names := []byte(strings.Join(e.names, "\n"))
	file := safetensors.Contents{
		Metadata: map[string]string{
			KeyFormat: FormatName, KeyVersion: FormatVersion, KeyKind: Kind, keyTokeniser: tokeniserVersion,
			keyBuckets: strconv.Itoa(e.buckets), keyBigrams: strconv.FormatBool(e.bigrams),
			keyTitleWeight: strconv.FormatFloat(e.titleWeight, 'g', -1, 64), keyDocuments: strconv.Itoa(e.documents),
		},
		Tensors: []safetensors.Array{
			{Name: tensorTerms, Shape: []int{len(terms)}, Data: terms},
			{Name: tensorNames, Shape: []int{len(names)}, Data: names},
			{Name: tensorRarities, Shape: []int{len(terms)}, Data: e.rarities},
			{Name: tensorProjection, Shape: []int{len(terms), e.Dim()}, Data: projection},
			{Name: tensorSingular, Shape: []int{e.Dim()}, Data: e.singular},
		},
	}
	write, err := file.Encode()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	return write(w)
}

// Read reads an encoder of a given size in bytes, as Write wrote it, and checks it completely.
func Read(r io.Reader, size int64) (*LSA, error) {
	file, err := safetensors.Read(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	e, err := decode(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; encode the texts again", ErrFile, err)
	}
	return e, nil
}

func decode(file *safetensors.Contents) (*LSA, error) {
	metadata := file.Metadata
	for _, want := range [][2]string{{KeyFormat, FormatName}, {KeyVersion, FormatVersion}, {KeyKind, Kind},
		{keyTokeniser, tokeniserVersion}} {
		if got := metadata[want[0]]; got != want[1] {
			return nil, fmt.Errorf("metadata: %s is %.40q and not %q", want[0], got, want[1])
		}
	}
	e := &LSA{}
	var err error
	if e.buckets, err = strconv.Atoi(metadata[keyBuckets]); err != nil || e.buckets < 1<<10 || e.buckets > 1<<26 ||
		bits.OnesCount(uint(e.buckets)) != 1 {
		return nil, fmt.Errorf("metadata: %s is %.40q, not a power of 2 from 2¹⁰ to 2²⁶", keyBuckets,
			metadata[keyBuckets])
	}
	if e.bigrams, err = strconv.ParseBool(metadata[keyBigrams]); err != nil {
		return nil, fmt.Errorf("metadata: %s is %.40q", keyBigrams, metadata[keyBigrams])
	}
	if e.titleWeight, err = strconv.ParseFloat(metadata[keyTitleWeight], 64); err != nil ||
		!(e.titleWeight >= 0 && e.titleWeight <= 1000) {
		return nil, fmt.Errorf("metadata: %s is %.40q", keyTitleWeight, metadata[keyTitleWeight])
	}
	if e.documents, err = strconv.Atoi(metadata[keyDocuments]); err != nil || e.documents < 0 {
		return nil, fmt.Errorf("metadata: %s is %.40q", keyDocuments, metadata[keyDocuments])
	}
	terms, err1 := numbers[int32](file, tensorTerms)
	names, err2 := numbers[uint8](file, tensorNames)
	rarities, err3 := numbers[float32](file, tensorRarities)
	projection, err4 := numbers[uint16](file, tensorProjection)
	singular, err5 := numbers[float32](file, tensorSingular)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	n, dim := len(terms), len(singular)
	tensor, _ := file.Tensor(tensorProjection)
	switch shape := tensor.Shape; {
	case n == 0 || dim == 0 || dim > largestDim:
		return nil, fmt.Errorf("%d terms and %d components", n, dim)
	case len(shape) != 2 || shape[0] != n || shape[1] != dim:
		return nil, fmt.Errorf("tensor %q has shape %v and not [%d %d]", tensorProjection, shape, n, dim)
	case len(rarities) != n:
		return nil, fmt.Errorf("tensor %q has %d numbers and not %d", tensorRarities, len(rarities), n)
	case !utf8.Valid(names):
		return nil, fmt.Errorf("tensor %q is not UTF-8", tensorNames)
	}
	if e.names = strings.Split(string(names), "\n"); len(e.names) != n {
		return nil, fmt.Errorf("tensor %q has %d lines and not %d", tensorNames, len(e.names), n)
	}
	for k, b := range terms {
		if b < 0 || int(b) >= e.buckets || k > 0 && b <= terms[k-1] {
			return nil, fmt.Errorf("tensor %q: number %d is %d, out of range or out of order", tensorTerms, k, b)
		}
		e.terms = append(e.terms, uint32(b))
	}
	for _, list := range []struct {
		name    string
		numbers []float32
	}{{tensorRarities, rarities}, {tensorSingular, singular}} {
		for k, x := range list.numbers {
			if !(x > 0 && x <= math.MaxFloat32) {
				return nil, fmt.Errorf("tensor %q: number %d is %v and not a positive one", list.name, k, x)
			}
		}
	}
	for k, x := range projection {
		if x&0x7c00 == 0x7c00 {
			return nil, fmt.Errorf("tensor %q: number %d is not finite", tensorProjection, k)
		}
	}
	e.rarities, e.singular = rarities, singular
	if e.projection, err = kern.NewHalf(n, dim); err != nil {
		return nil, err
	}
	for k := range n {
		copy(e.projection.HalfRow(k), projection[k*dim:(k+1)*dim])
	}
	return e, nil
}

// numbers returns the numbers of a tensor that must be there and of that type.
func numbers[T any](file *safetensors.Contents, name string) ([]T, error) {
	t, ok := file.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("there is no tensor %q", name)
	}
	data, ok := t.Data.([]T)
	if !ok {
		return nil, fmt.Errorf("tensor %q holds a %T and not a %T", name, t.Data, data)
	}
	return data, nil
}
