package safetensors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// Contents are the content of a safetensors file:
//
//	8 bytes   n, the length of the header, little-endian
//	n bytes   JSON: {"__metadata__": {string: string}, name: {"dtype", "shape", "data_offsets"}, …}
//	the rest  the tensors' numbers, little-endian, without gaps
//
// The same content gives the same bytes: keys are sorted, and tensors are in the order in which
// Python's safetensors writes them. The metadata key "sha256" is the writer's: a digest over all of
// the content, which Open checks. It is the SHA-256 of these lines and then the numbers,
//
//	length:key length:value          per metadata entry but itself, by key
//	length:name dtype [shape]        per tensor, in the order of the file
type Contents struct {
	Metadata map[string]string
	Tensors  []Array
}

// Array is a tensor with a name. Data is a []float32, []float64, []int32, []uint8 or, for the bits of
// float16 numbers, []uint16, row by row.
type Array struct {
	Name  string
	Shape []int
	Data  any
}

const (
	// DigestKey is the writer's key of the metadata.
	DigestKey = "sha256"
	// MaxHeader bounds the header's length. The format's own library reads up to 100 MB.
	MaxHeader = 16 << 20

	metadataName = "__metadata__"
)

// dtypes are the kinds of numbers, in the order in which Python's safetensors sorts them: by
// falling alignment.
var dtypes = []struct {
	name string
	size int
}{{"F64", 8}, {"F32", 4}, {"I32", 4}, {"F16", 2}, {"U8", 1}}

// Errors of content that cannot be written.
var (
	ErrContent = errors.New("cannot store")
	ErrShape   = errors.New("shape and numbers differ")
)

// Open reads a file and checks all of it: sizes, names, shapes and the digest. The error names the
// file, the place and what to do.
func Open(path string) (*Contents, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f, err := Read(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Read reads a file of size bytes as Open does.
func Read(r io.Reader, size int64) (*Contents, error) {
	f, digest, err := Decode(r, size)
	if err == nil {
		err = f.CheckDigest(digest)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// CheckDigest compares the digest of the content with that of the metadata.
func (f *Contents) CheckDigest(digest string) error {
	written, ok := f.Metadata[DigestKey]
	if !ok {
		return fmt.Errorf("metadata: no %q, so unseen did not write this file; write it with unseen",
			DigestKey)
	}
	if written != digest {
		return fmt.Errorf("the content has the digest %.12s… and the metadata %.12s…: it was changed or damaged "+
			"after it was written; copy the file again or write it again", digest, written)
	}
	return nil
}

// header is the file's JSON.
type header struct {
	metadata map[string]string
	tensors  []tensorInfo // by data type, then by name
}

// tensorInfo is what the header says of a tensor.
type tensorInfo struct {
	name  string
	dtype int // an index of dtypes
	shape []int
	begin int64
	end   int64
}

// Decode reads a file of a size and returns its digest. What it allocates is bounded by the size.
func Decode(r io.Reader, size int64) (*Contents, string, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, "", fmt.Errorf("byte 0: %d bytes are too few for a safetensors file; copy the file again", size)
	}
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, "", fmt.Errorf("byte 0: %w", err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	rest := size - int64(len(prefix))
	if length > MaxHeader || int64(length) > rest {
		return nil, "", fmt.Errorf("byte 0: a header of %d bytes in a file of %d: it is not a safetensors file, or "+
			"truncated; copy the file again", length, size)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, "", fmt.Errorf("byte 8: %w", err)
	}
	h, err := parseHeader(text, rest-int64(length))
	if err != nil {
		return nil, "", fmt.Errorf("header: %w; copy the file again or write it again", err)
	}
	digest := sha256.New()
	h.digest(digest)
	f := &Contents{Metadata: h.metadata}
	data := io.TeeReader(r, digest)
	for _, info := range slices.SortedStableFunc(slices.Values(h.tensors), byOffset) {
		t := Array{Name: info.name, Shape: info.shape}
		count := int(info.end-info.begin) / dtypes[info.dtype].size
		switch dtypes[info.dtype].name {
		case "F64":
			t.Data, err = readNumbers(data, count, 8,
				func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
		case "F32":
			t.Data, err = readNumbers(data, count, 4,
				func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
		case "I32":
			t.Data, err = readNumbers(data, count, 4,
				func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) })
		case "F16":
			t.Data, err = readNumbers(data, count, 2, binary.LittleEndian.Uint16)
		default:
			t.Data, err = readNumbers(data, count, 1, func(b []byte) uint8 { return b[0] })
		}
		if err != nil {
			return nil, "", fmt.Errorf("tensor %q: %w; copy the file again", info.name, err)
		}
		f.Tensors = append(f.Tensors, t)
	}
	return f, hex.EncodeToString(digest.Sum(nil)), nil
}

// parseHeader reads the header's JSON and checks that its tensors fill the data, without a gap or
// an overlap.
func parseHeader(text []byte, data int64) (header, error) {
	h := header{metadata: map[string]string{}}
	if len(text) == 0 || text[0] != '{' {
		return h, errors.New("byte 8: it does not begin with {")
	}
	seen := map[string]bool{}
	err := eachMember(text, func(name string, value json.RawMessage) error {
		if name == "" || seen[name] {
			return fmt.Errorf("the name %q is empty or repeated", name)
		}
		seen[name] = true
		if name == metadataName {
			return eachMember(value, func(key string, value json.RawMessage) error {
				if _, twice := h.metadata[key]; twice {
					return fmt.Errorf("metadata %q is repeated", key)
				}
				var s *string
				if json.Unmarshal(value, &s) != nil || s == nil {
					return fmt.Errorf("metadata %q is not a string", key)
				}
				h.metadata[key] = *s
				return nil
			})
		}
		info, err := parseTensor(name, value, data)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		h.tensors = append(h.tensors, info)
		return nil
	})
	if err != nil {
		return h, err
	}
	slices.SortFunc(h.tensors, byOffset)
	at := int64(0)
	for _, t := range h.tensors {
		if t.begin != at {
			return h, fmt.Errorf("tensor %q begins at byte %d of the data, the one before it ends at %d", t.name,
				t.begin, at)
		}
		at = t.end
	}
	if at != data {
		return h, fmt.Errorf("the tensors take %d bytes and %d follow: the file is truncated or longer than written",
			at, data)
	}
	slices.SortFunc(h.tensors, inFile)
	return h, nil
}

// eachMember calls member for every member of a JSON object, repeated ones too.
func eachMember(text []byte, member func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return fmt.Errorf("byte %d: not a JSON object", d.InputOffset())
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return fmt.Errorf("JSON at byte %d: %w", d.InputOffset(), err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("JSON at byte %d: %w", d.InputOffset(), err)
		}
		if err := member(fmt.Sprint(name), value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("JSON at byte %d: %w", d.InputOffset(), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("JSON at byte %d: more than one object", d.InputOffset())
	}
	return nil
}

func parseTensor(name string, value json.RawMessage, data int64) (tensorInfo, error) {
	var stated struct {
		Dtype   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&stated); err != nil {
		return tensorInfo{}, err
	}
	info := tensorInfo{name: name, dtype: -1, shape: []int{}}
	for k := range dtypes {
		if dtypes[k].name == stated.Dtype {
			info.dtype = k
		}
	}
	if info.dtype < 0 {
		return info, fmt.Errorf("numbers of type %q; F64, F32, I32, F16 and U8 can be read", stated.Dtype)
	}
	if stated.Shape == nil {
		return info, errors.New("it has no shape")
	}
	if len(stated.Offsets) != 2 || stated.Offsets[0] < 0 || stated.Offsets[1] < stated.Offsets[0] {
		return info, fmt.Errorf("data offsets %v; they must be a beginning and an end", stated.Offsets)
	}
	if stated.Offsets[1] > data {
		return info, fmt.Errorf("data offsets %v in %d bytes of data: the file is truncated", stated.Offsets, data)
	}
	info.begin, info.end = stated.Offsets[0], stated.Offsets[1]
	size := int64(dtypes[info.dtype].size)
	if slices.Contains(stated.Shape, 0) {
		size = 0
	}
	for _, n := range stated.Shape {
		if n < 0 || n > math.MaxInt32 || size > data/max(n, 1) {
			return info, fmt.Errorf("a shape of %v does not fit %d bytes of data", stated.Shape, data)
		}
		size *= max(n, 1)
		info.shape = append(info.shape, int(n))
	}
	if size != info.end-info.begin {
		return info, fmt.Errorf("a shape of %v takes %d bytes, its offsets %v say %d", stated.Shape, size,
			stated.Offsets, info.end-info.begin)
	}
	return info, nil
}

func byOffset(a, b tensorInfo) int {
	return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), inFile(a, b))
}

// inFile is the order in which tensors are written.
func inFile(a, b tensorInfo) int {
	return cmp.Or(cmp.Compare(a.dtype, b.dtype), strings.Compare(a.name, b.name))
}

// digest writes what the header says in a form that does not depend on how its JSON is laid out.
func (h *header) digest(w io.Writer) {
	for _, key := range slices.Sorted(maps.Keys(h.metadata)) {
		if key != DigestKey {
			value := h.metadata[key]
			fmt.Fprintf(w, "%d:%s %d:%s\n", len(key), key, len(value), value)
		}
	}
	for _, t := range h.tensors {
		fmt.Fprintf(w, "%d:%s %s %v\n", len(t.name), t.name, dtypes[t.dtype].name, t.shape)
	}
}

// chunk is how many numbers are converted at a time.
const chunk = 1 << 12

func readNumbers[T any](r io.Reader, count, size int, number func([]byte) T) ([]T, error) {
	numbers := make([]T, count)
	room := make([]byte, min(count, chunk)*size)
	for from := 0; from < count; from += chunk {
		part := numbers[from:min(from+chunk, count)]
		bytes := room[:len(part)*size]
		if _, err := io.ReadFull(r, bytes); err != nil {
			return nil, err
		}
		for k := range part {
			part[k] = number(bytes[k*size:])
		}
	}
	return numbers, nil
}

// Encode checks the content and returns a function that writes it.
func (f *Contents) Encode() (func(io.Writer) error, error) {
	h, tensors, err := f.layOut()
	if err != nil {
		return nil, err
	}
	digest := sha256.New()
	h.digest(digest)
	if err := writeAll(digest, tensors); err != nil {
		return nil, err
	}
	h.metadata = maps.Clone(h.metadata)
	h.metadata[DigestKey] = hex.EncodeToString(digest.Sum(nil))
	text, err := h.json()
	if err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return writeAll(w, tensors)
	}, nil
}

// layOut checks the content and gives every tensor its place; both results are in the file's order.
func (f *Contents) layOut() (header, []Array, error) {
	h := header{metadata: f.Metadata}
	if h.metadata == nil {
		h.metadata = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(h.metadata)) {
		if !utf8.ValidString(key) || !utf8.ValidString(h.metadata[key]) {
			return h, nil, fmt.Errorf("%w: metadata %q is not UTF-8; encode it as text", ErrContent, key)
		}
	}
	byName := map[string]Array{}
	for _, t := range f.Tensors {
		info := tensorInfo{name: t.Name, shape: t.Shape}
		count := 0
		switch data := t.Data.(type) {
		case []float64:
			info.dtype, count = 0, len(data)
		case []float32:
			info.dtype, count = 1, len(data)
		case []int32:
			info.dtype, count = 2, len(data)
		case []uint16:
			info.dtype, count = 3, len(data)
		case []uint8:
			info.dtype, count = 4, len(data)
		default:
			return h, nil, fmt.Errorf("%w: tensor %q has a %T; give []float32, []float64, []int32, []uint16 "+
				"or []uint8", ErrContent, t.Name, t.Data)
		}
		if _, twice := byName[t.Name]; twice || t.Name == "" || t.Name == metadataName || !utf8.ValidString(t.Name) {
			return h, nil, fmt.Errorf("%w: tensor name %q is empty, taken or not text; choose another", ErrContent,
				t.Name)
		}
		if !fits(t.Shape, count) {
			return h, nil, fmt.Errorf("%w: tensor %q has %d numbers and the shape %v", ErrShape, t.Name, count,
				t.Shape)
		}
		byName[t.Name] = t
		info.end = int64(count * dtypes[info.dtype].size)
		h.tensors = append(h.tensors, info)
	}
	slices.SortFunc(h.tensors, inFile)
	at := int64(0)
	var tensors []Array
	for k := range h.tensors {
		info := &h.tensors[k]
		info.begin, info.end = at, at+info.end
		at = info.end
		tensors = append(tensors, byName[info.name])
	}
	return h, tensors, nil
}

// fits reports whether a shape has count numbers.
func fits(shape []int, count int) bool {
	size := 1
	for _, n := range shape {
		if n < 0 {
			return false
		}
		size *= n
	}
	return size == count
}

// json returns the header's text, padded with spaces so that the data are aligned.
func (h *header) json() ([]byte, error) {
	var text bytes.Buffer
	put := func(name string, value any) error {
		key, err := JSON(name)
		if err != nil {
			return err
		}
		member, err := JSON(value)
		if err != nil {
			return err
		}
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		text.WriteString(key + ":" + member)
		return nil
	}
	if err := put(metadataName, h.metadata); err != nil {
		return nil, err
	}
	for _, t := range h.tensors {
		err := put(t.name, struct {
			Dtype   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{dtypes[t.dtype].name, append([]int{}, t.shape...), [2]int64{t.begin, t.end}})
		if err != nil {
			return nil, err
		}
	}
	whole := "{" + text.String() + "}"
	whole += strings.Repeat(" ", (8-len(whole)%8)%8)
	if len(whole) > MaxHeader {
		return nil, fmt.Errorf("%w: a header of %d bytes; keep the metadata below %d", ErrContent, len(whole),
			MaxHeader)
	}
	return []byte(whole), nil
}

// JSON is json.Marshal without escapes for HTML.
func JSON(value any) (string, error) {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// writeAll writes the numbers of the tensors.
func writeAll(w io.Writer, tensors []Array) error {
	for _, t := range tensors {
		var err error
		switch data := t.Data.(type) {
		case []float64:
			err = writeNumbers(w, data, func(b []byte, x float64) []byte {
				return binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
			})
		case []float32:
			err = writeNumbers(w, data, func(b []byte, x float32) []byte {
				return binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			})
		case []int32:
			err = writeNumbers(w, data, func(b []byte, x int32) []byte {
				return binary.LittleEndian.AppendUint32(b, uint32(x))
			})
		case []uint16:
			err = writeNumbers(w, data, binary.LittleEndian.AppendUint16)
		case []uint8:
			_, err = w.Write(data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeNumbers[T any](w io.Writer, numbers []T, put func([]byte, T) []byte) error {
	var room []byte
	for part := range slices.Chunk(numbers, chunk) {
		room = room[:0]
		for _, x := range part {
			room = put(room, x)
		}
		if _, err := w.Write(room); err != nil {
			return err
		}
	}
	return nil
}
